// Atomic updates by calls of the library, as some compilers of clang's interface make them; they are found by their names.
#define _GNU_SOURCE
#include "check.h"
#include <complex.h>
#include <dlfcn.h>
#include <omp.h>

static void *of(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  CHECK(found);
  return found;
}

#define UPDATE(type, name) ((void (*)(void *, int, type *, type))of("__kmpc_atomic_" name))
#define CAPTURE(type, name) ((type (*)(void *, int, type *, type, int))of("__kmpc_atomic_" name))

int main(void) {
  long sum = 0, tickets = 0;
  double all = 0;
  float complex turn = 1;
  double complex total = 0;
  char bytes[8] = {0};
  struct __attribute__((packed)) {
    char before;
    int across;
  } odd[16] = {0};
  void (*add)(void *, int, long *, long) = UPDATE(long, "fixed8_add");
  long (*take)(void *, int, long *, long, int) = CAPTURE(long, "fixed8_add_cpt");
  void (*add_double)(void *, int, double *, double) = UPDATE(double, "float8_add");
  void (*add_complex)(void *, int, double complex *, double complex) = UPDATE(double complex, "cmplx8_add");
  void (*rotate)(void *, int, float complex *, float complex) = UPDATE(float complex, "cmplx4_mul");
  void (*add_byte)(void *, int, char *, char) = UPDATE(char, "fixed1_add");
  void (*add_odd)(void *, int, int *, int) = (void (*)(void *, int, int *, int))of("__kmpc_atomic_fixed4_add");
#pragma omp parallel for reduction(+ : tickets)
  for (int at = 0; at < 4000; at++) {
    add(0, 0, &sum, at);
#pragma omp atomic
    sum++;
    add_double(0, 0, &all, 0.5);
    add_complex(0, 0, &total, 1 + 2 * I);
    rotate(0, 0, &turn, I);
    for (int each = 0; each < 8; each++) add_byte(0, 0, &bytes[each], 1);
    for (int each = 0; each < 16; each++) add_odd(0, 0, &odd[each].across, 1);
    static long next;
    tickets += take(0, 0, &next, 1, 0);
  }
  CHECK(sum == 4000L * 3999 / 2 + 4000 && tickets == 4000L * 3999 / 2);
  CHECK(all == 2000 && total == 4000 + 8000 * I && turn == 1);
  for (int each = 0; each < 8; each++) CHECK(bytes[each] == (char)4000);
  for (int each = 0; each < 16; each++) CHECK(odd[each].across == 4000 && odd[each].before == 0);
  int value = 7;
  CHECK(CAPTURE(int, "fixed4_sub_cpt_rev")(0, 0, &value, 10, 1) == 3 && value == 3);
  CHECK(CAPTURE(int, "fixed4_div_cpt_rev")(0, 0, &value, 10, 0) == 3 && value == 3);
  UPDATE(int, "fixed4_shl")(0, 0, &value, 4);
  CHECK(value == 48);
  UPDATE(int, "fixed4_max")(0, 0, &value, 50);
  UPDATE(int, "fixed4_min")(0, 0, &value, 60);
  CHECK(value == 50);
  UPDATE(int, "fixed4_eqv")(0, 0, &value, 50);
  CHECK(value == -1);
  UPDATE(int, "fixed4_andl")(0, 0, &value, 8);
  CHECK(value == 1);
  unsigned high = 1u << 31;
  UPDATE(unsigned, "fixed4u_shr")(0, 0, &high, 31);
  CHECK(high == 1);
  value = 5;
  int (*swap)(void *, int, int *, int) = (int (*)(void *, int, int *, int))of("__kmpc_atomic_fixed4_swp");
  CHECK(swap(0, 0, &value, 6) == 5 && value == 6);
  int (*read)(void *, int, int *) = (int (*)(void *, int, int *))of("__kmpc_atomic_fixed4_rd");
  CHECK(read(0, 0, &value) == 6);
  UPDATE(int, "fixed4_wr")(0, 0, &value, 9);
  CHECK(value == 9);
  double small = 4;
  UPDATE(double, "float8_div_rev")(0, 0, &small, 1);
  CHECK(small == 0.25);
  float complex part = 1 + I;
  float complex was;
  ((void (*)(void *, int, float complex *, float complex, float complex *, int))of("__kmpc_atomic_cmplx4_div_cpt"))(
      0, 0, &part, 2, &was, 0);
  CHECK(was == 1 + I && part == 0.5f + 0.5f * I);
  puts("ok");
  return 0;
}
