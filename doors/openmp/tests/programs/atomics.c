// Atomic updates by calls of the library, as some compilers of clang's interface make them; they are found by their names.
#define _GNU_SOURCE
#include "check.h"
#include <complex.h>
#include <dlfcn.h>
#include <omp.h>
#include <stdbool.h>

static void *of(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  CHECK(found);
  return found;
}

#define UPDATE(type, name) ((void (*)(void *, int, type *, type))of("__kmpc_atomic_" name))
#define CAPTURE(type, name) ((type (*)(void *, int, type *, type, int))of("__kmpc_atomic_" name))

static void product(void *to, void *left, void *right) { *(int *)to = *(int *)left * *(int *)right; }
static void sum(void *to, void *left, void *right) {
  *(long double complex *)to = *(long double complex *)left + *(long double complex *)right;
}

// Exchanges if the value is as expected.
#define EXCHANGES(type, bytes) \
  do { \
    type value = 5, seen = 99; \
    bool (*if_was)(void *, int, type *, type, type) = of("__kmpc_atomic_bool_" bytes "_cas"); \
    type (*was)(void *, int, type *, type, type) = of("__kmpc_atomic_val_" bytes "_cas"); \
    bool (*if_was_and)(void *, int, type *, type, type, type *) = of("__kmpc_atomic_bool_" bytes "_cas_cpt"); \
    type (*was_and)(void *, int, type *, type, type, type *) = of("__kmpc_atomic_val_" bytes "_cas_cpt"); \
    CHECK(!if_was(0, 0, &value, 4, 6) && value == 5 && if_was(0, 0, &value, 5, -6) && value == -6); \
    CHECK(was(0, 0, &value, 4, 6) == -6 && value == -6 && was(0, 0, &value, -6, 7) == -6 && value == 7); \
    CHECK(if_was_and(0, 0, &value, 7, 8, &seen) && value == 8 && seen == 99); \
    CHECK(!if_was_and(0, 0, &value, 7, 9, &seen) && value == 8 && seen == 8); \
    CHECK(was_and(0, 0, &value, 7, 9, &seen) == 8 && value == 8 && seen == 8); \
    CHECK(was_and(0, 0, &value, 8, 9, &seen) == 8 && value == 9 && seen == 9); \
  } while (0)

// What has another type than the variable, `long double`, and what the program computes itself.
static void others(void) {
  typedef long double extended;
  typedef long double complex extended_complex;
  EXCHANGES(signed char, "1");
  EXCHANGES(short, "2");
  EXCHANGES(int, "4");
  EXCHANGES(long, "8");
  extended all = 0, least = 1000, most = -1000;
  extended_complex turns = 1, total = 0;
  int factor = 1, taken = 0;
  void (*compute)(void *, int, void *, void *, void (*)(void *, void *, void *)) = of("__kmpc_atomic_4");
  void (*compute_wide)(void *, int, void *, void *, void (*)(void *, void *, void *)) = of("__kmpc_atomic_32");
  void (*multiply)(void *, int, int *, double) = of("__kmpc_atomic_fixed4_mul_float8");
#pragma omp parallel for reduction(+ : taken)
  for (int at = 0; at < 4000; at++) {
    UPDATE(extended, "float10_add")(0, 0, &all, 0.5L);
    UPDATE(extended, "float10_min")(0, 0, &least, at);
    UPDATE(extended, "float10_max")(0, 0, &most, at);
    UPDATE(extended_complex, "cmplx10_mul")(0, 0, &turns, I);
    int minus = -1;
    compute(0, 0, &factor, &minus, product);
    extended_complex one = 1 + 2 * I;
    compute_wide(0, 0, &total, &one, sum);
    static long double ticket;
    taken += (int)CAPTURE(extended, "float10_add_cpt")(0, 0, &ticket, 1, 0);
  }
  CHECK(all == 2000 && least == 0 && most == 3999 && turns == 1 && factor == 1 && total == 4000 + 8000 * I);
  CHECK(taken == 4000 * 3999 / 2);
  extended value = 7;
  CHECK(CAPTURE(extended, "float10_sub_cpt")(0, 0, &value, 2, 1) == 5 && value == 5);
  CHECK(CAPTURE(extended, "float10_sub_cpt_rev")(0, 0, &value, 12, 0) == 5 && value == 7);
  CHECK(CAPTURE(extended, "float10_mul_cpt")(0, 0, &value, 0.5L, 1) == 3.5L);
  CHECK(CAPTURE(extended, "float10_div_cpt")(0, 0, &value, 7, 1) == 0.5L);
  CHECK(CAPTURE(extended, "float10_div_cpt_rev")(0, 0, &value, 3, 1) == 6 && value == 6);
  CHECK(CAPTURE(extended, "float10_min_cpt")(0, 0, &value, 4, 0) == 6 && value == 4);
  CHECK(CAPTURE(extended, "float10_max_cpt")(0, 0, &value, 1e4000L, 1) == 1e4000L && value == 1e4000L);
  UPDATE(extended, "float10_min")(0, 0, &value, __builtin_nanl(""));
  UPDATE(extended, "float10_max")(0, 0, &value, __builtin_nanl(""));
  CHECK(value == 1e4000L);
  UPDATE(extended, "float10_wr")(0, 0, &value, 3);
  CHECK(((extended(*)(void *, int, extended *))of("__kmpc_atomic_float10_rd"))(0, 0, &value) == 3);
  CHECK(((extended(*)(void *, int, extended *, extended))of("__kmpc_atomic_float10_swp"))(0, 0, &value, 9) == 3);
  CHECK(value == 9);
  extended_complex both = 3 + 4 * I;
  CHECK(CAPTURE(extended_complex, "cmplx10_sub_cpt")(0, 0, &both, 1, 0) == 3 + 4 * I && both == 2 + 4 * I);
  CHECK(CAPTURE(extended_complex, "cmplx10_div_cpt")(0, 0, &both, 2, 1) == 1 + 2 * I);
  CHECK(CAPTURE(extended_complex, "cmplx10_mul_cpt")(0, 0, &both, 2 - I, 1) == 4 + 3 * I);
  CHECK(CAPTURE(extended_complex, "cmplx10_sub_cpt_rev")(0, 0, &both, 5, 1) == 1 - 3 * I);
  CHECK(CAPTURE(extended_complex, "cmplx10_div_cpt_rev")(0, 0, &both, 20, 1) == 2 + 6 * I);
  CHECK(CAPTURE(extended_complex, "cmplx10_add_cpt")(0, 0, &both, 1, 1) == 3 + 6 * I);
  CHECK(((extended_complex(*)(void *, int, extended_complex *, extended_complex))of("__kmpc_atomic_cmplx10_swp"))(
            0, 0, &both, I) == 3 + 6 * I);
  CHECK(((extended_complex(*)(void *, int, extended_complex *))of("__kmpc_atomic_cmplx10_rd"))(0, 0, &both) == I);
  UPDATE(extended_complex, "cmplx10_wr")(0, 0, &both, 5);
  CHECK(both == 5);
  double complex pair = 1 + I;
  CHECK(((double complex(*)(void *, int, double complex *, double complex))of("__kmpc_atomic_cmplx8_swp"))(
            0, 0, &pair, 2) == 1 + I);
  UPDATE(double complex, "cmplx8_wr")(0, 0, &pair, 2 * I);
  CHECK(((double complex(*)(void *, int, double complex *))of("__kmpc_atomic_cmplx8_rd"))(0, 0, &pair) == 2 * I);
  float complex narrow = 1 + I, before = 0;
  ((void (*)(void *, int, float complex *, float complex, float complex *))of("__kmpc_atomic_cmplx4_swp"))(
      0, 0, &narrow, 2, &before);
  CHECK(before == 1 + I && narrow == 2);
  UPDATE(float complex, "cmplx4_wr")(0, 0, &narrow, 3 * I);
  CHECK(((float complex(*)(void *, int, float complex *))of("__kmpc_atomic_cmplx4_rd"))(0, 0, &narrow) == 3 * I);
  void (*wider)(void *, int, float complex *, double complex) = of("__kmpc_atomic_cmplx4_mul_cmplx8");
  wider(0, 0, &narrow, 2 * I);
  CHECK(narrow == -6);
  signed char small = 100;
  ((void (*)(void *, int, signed char *, double))of("__kmpc_atomic_fixed1_div_float8"))(0, 0, &small, -2.5);
  CHECK(small == -40);
  short middle = 1000;
  ((void (*)(void *, int, short *, double))of("__kmpc_atomic_fixed2_mul_float8"))(0, 0, &middle, 1.5);
  CHECK(middle == 1500);
  int whole = 7;
  multiply(0, 0, &whole, 0.5);
  CHECK(whole == 3);
  long far = 1L << 40;
  ((void (*)(void *, int, long *, double))of("__kmpc_atomic_fixed8_div_float8"))(0, 0, &far, 0.5);
  CHECK(far == 1L << 41);
  float real = 16777216;
  ((void (*)(void *, int, float *, double))of("__kmpc_atomic_float4_add_float8"))(0, 0, &real, 2.5);
  CHECK(real == 16777218);
  ((void (*)(void *, int, float *, double))of("__kmpc_atomic_float4_sub_float8"))(0, 0, &real, 16777216);
  ((void (*)(void *, int, float *, double))of("__kmpc_atomic_float4_mul_float8"))(0, 0, &real, 5);
  ((void (*)(void *, int, float *, double))of("__kmpc_atomic_float4_div_float8"))(0, 0, &real, 4);
  CHECK(real == 2.5f);
}

int main(void) {
  others();
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
