// Nests of loops that are run as one, by calls of the library. What each thread runs is compared with the loops as C has them: each iteration is in
// one thread's part, the parts are in the threads' order, and one thread has the last one.
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <omp.h>
#include <stdint.h>
#include <string.h>

static void *of(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  if (!found) fprintf(stderr, "%s is not there\n", name);
  CHECK(found);
  return found;
}

enum { AT_MOST, AT_LEAST, NOT_EQUAL, LESS, GREATER };
enum { UNSIGNED = 4, INT, UNSIGNED_LONG, LONG, CHAR = 1 };

struct bounds {
  int kind, variable, comparison, outer;
  uint64_t lower, lower_by, upper, upper_by;
  int64_t step;
  uint64_t count;
};

static uint64_t (*process)(void *, int, struct bounds *, int);
static void (*values_of)(void *, uint64_t, struct bounds *, uint64_t *, int);
static int (*begin)(void *, int, struct bounds *, struct bounds *, int, int *);

static int64_t visited[4096][3];
static int owner[4096], all;

static void visit(int64_t a, int64_t b, int64_t c) {
  int64_t values[3] = {a, b, c};
  CHECK(all < 4096);
  memcpy(visited[all++], values, sizeof values);
}

static int order(const int64_t *left, const struct bounds *right, int upper, int n) {
  for (int at = 0; at < n; at++) {
    int64_t other = upper ? right[at].upper : right[at].lower;
    int down = right[at].comparison == AT_LEAST;
    if (left[at] != other) return (left[at] < other) ^ down ? -1 : 1;
  }
  return 0;
}

// The nest as `visit` has seen it.
static void rectangle(const struct bounds *nest, int n) {
  struct bounds own[3];
  memcpy(own, nest, n * sizeof *nest);
  CHECK(process(0, 0, own, n) == (uint64_t)all);
  for (int at = 0; at < n; at++) CHECK(all == 0 || own[at].comparison == AT_MOST || own[at].comparison == AT_LEAST);
  for (int number = 0; number < all; number++) {
    uint64_t values[3];
    values_of(0, number, own, values, n);
    for (int at = 0; at < n; at++) CHECK((int64_t)values[at] == visited[number][at]);
  }
}

static void parts(const struct bounds *nest, int n) {
  memset(owner, -1, sizeof owner);
  int lasts = 0, begun = 0;
#pragma omp parallel reduction(+ : lasts, begun)
  {
    struct bounds own[3], part[3];
    int last = 7;
    memcpy(own, nest, n * sizeof *nest);
    int has = begin(0, ((int (*)(void *))of("__kmpc_global_thread_num"))(0), own, part, n, &last);
    CHECK(last == 0 || last == 1);
    if (has) {
      begun++;
      for (int number = 0; number < all; number++) {
        if (order(visited[number], part, 0, n) < 0 || order(visited[number], part, 1, n) > 0) continue;
        CHECK(owner[number] == -1);
        owner[number] = omp_get_thread_num();
        if (number == all - 1) CHECK(last == 1);
      }
      lasts += last;
    } else {
      CHECK(last == 0);
    }
  }
  CHECK(lasts == (all > 0) && begun <= all);
  for (int number = 0; number < all; number++) {
    CHECK(owner[number] >= 0 && (number == 0 || owner[number - 1] <= owner[number]));
  }
}

#define RECTANGLE(...) \
  do { \
    struct bounds nest[] = {__VA_ARGS__}; \
    rectangle(nest, sizeof nest / sizeof *nest); \
    parts(nest, sizeof nest / sizeof *nest); \
    all = 0; \
  } while (0)

#define NEST(...) \
  do { \
    struct bounds nest[] = {__VA_ARGS__}; \
    parts(nest, sizeof nest / sizeof *nest); \
    all = 0; \
  } while (0)

int main(void) {
  process = of("__kmpc_process_loop_nest_rectang");
  values_of = of("__kmpc_calc_original_ivs_rectang");
  begin = of("__kmpc_for_collapsed_init");
  for (int a = -3; a < 4; a++)
    for (int b = 20; b > 3; b -= 4)
      for (int c = 0; c <= 6; c += 3) visit(a, b, c);
  RECTANGLE({INT, INT, LESS, 0, -3, 0, 4, 0, 1}, {INT, INT, GREATER, 0, 20, 0, 3, 0, -4},
            {INT, INT, AT_MOST, 0, 0, 0, 6, 0, 3});
  for (long a = 5000000000; a >= 4999999990; a -= 2)
    for (signed char b = -100; b != 100; b += 50) visit(a, b, 0);
  RECTANGLE({LONG, LONG, AT_LEAST, 0, 5000000000, 0, 4999999990, 0, -2},
            {INT, CHAR, NOT_EQUAL, 0, -100, 0, 100, 0, 50});
  for (int a = 0; a < 7; a++)
    for (int b = 5; b < 5; b++) visit(a, b, 0);
  RECTANGLE({INT, INT, LESS, 0, 0, 0, 7, 0, 1}, {INT, INT, LESS, 0, 5, 0, 5, 0, 1});
  visit(3, 0, 0);
  RECTANGLE({UNSIGNED, UNSIGNED, LESS, 0, 3, 0, 4, 0, 1});
  // A lower and an upper triangle, one that is empty at first, and one over a triangle.
  for (int a = 0; a < 30; a++)
    for (int b = 0; b <= a; b++) visit(a, b, 0);
  NEST({INT, INT, LESS, 0, 0, 0, 30, 0, 1}, {INT, INT, AT_MOST, 0, 0, 0, 0, 1, 1});
  for (int a = 0; a < 30; a += 2)
    for (int b = a; b < 30; b += 3) visit(a, b, 0);
  NEST({INT, INT, LESS, 0, 0, 0, 30, 0, 2}, {INT, INT, LESS, 0, 0, 1, 30, 0, 3});
  for (int a = -5; a < 12; a++)
    for (int b = 4; b < 2 * a - 3; b++) visit(a, b, 0);
  NEST({INT, INT, LESS, 0, -5, 0, 12, 0, 1}, {INT, INT, LESS, 0, 4, 0, -3, 2, 1});
  for (int a = 0; a < 12; a++)
    for (int b = 0; b < a; b++)
      for (int c = 11; c >= b; c -= 2) visit(a, b, c);
  NEST({INT, INT, LESS, 0, 0, 0, 12, 0, 1}, {INT, INT, LESS, 0, 0, 0, 0, 1, 1},
       {INT, INT, AT_LEAST, 1, 11, 0, 0, 1, -2});
  for (long a = 10; a > 0; a--)
    for (long b = 3; b < 9; b++)
      for (long c = a; c < 12; c++) visit(a, b, c);
  NEST({LONG, LONG, GREATER, 0, 10, 0, 0, 0, -1}, {LONG, LONG, LESS, 0, 3, 0, 9, 0, 1},
       {LONG, LONG, LESS, 0, 0, 1, 12, 0, 1});
  NEST({INT, INT, LESS, 0, 0, 0, 1, 0, 1}, {INT, INT, LESS, 0, 0, 0, 0, 1, 1});
  puts("ok");
}
