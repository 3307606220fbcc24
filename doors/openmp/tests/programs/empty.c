// Each construct with no iteration, with one, and with fewer and more than there are threads: each iteration is run once, reductions
// have their sums, and what follows the construct is run.
#include "check.h"
#include <omp.h>
#include <string.h>

static long sum, product, highest;
static int marks[64];

static void clear(void) {
  memset(marks, 0, sizeof marks);
  sum = 0;
  product = 1;
  highest = -1;
}

// Each of `count` iterations was run once, and none else.
static void whole(long count) {
  for (long at = 0; at < 64; at++) CHECK(marks[at] == (at < count));
}

static void mark(long at) {
#pragma omp atomic
  marks[at]++;
}

#define LOOP(clauses) \
  do { \
    clear(); \
    _Pragma("omp parallel") \
    { \
      _Pragma(clauses) \
      for (long at = 0; at < count; at++) mark(at); \
    } \
    whole(count); \
    clear(); \
    last = -1; \
  } while (0)

static void loops(long count) {
  long last = -1;
  LOOP("omp for schedule(static)");
  LOOP("omp for schedule(static, 3)");
  LOOP("omp for schedule(dynamic)");
  LOOP("omp for schedule(monotonic: dynamic, 2)");
  LOOP("omp for schedule(guided)");
  LOOP("omp for schedule(auto)");
  LOOP("omp for schedule(runtime)");
  LOOP("omp for schedule(static) nowait");
  LOOP("omp for schedule(dynamic) nowait");
  LOOP("omp for ordered schedule(static, 1)");
  LOOP("omp for simd schedule(dynamic)");
  LOOP("omp for lastprivate(last)");
  LOOP("omp for collapse(1)");
#undef LOOP
}

#define SUMS(clauses) \
  do { \
    clear(); \
    _Pragma(clauses) \
    for (long at = 0; at < count; at++) { \
      mark(at); \
      sum += at + 1; \
      highest = highest < at ? at : highest; \
    } \
    whole(count); \
    CHECK(sum == count * (count + 1) / 2); \
    CHECK(highest == count - 1); \
  } while (0)

static void sums(long count) {
  SUMS("omp parallel for reduction(+: sum) reduction(max: highest) schedule(static)");
  SUMS("omp parallel for reduction(+: sum) reduction(max: highest) schedule(dynamic, 2)");
  SUMS("omp parallel for reduction(+: sum) reduction(max: highest) schedule(guided)");
  SUMS("omp parallel for reduction(+: sum) reduction(max: highest) schedule(runtime)");
  SUMS("omp parallel for simd reduction(+: sum) reduction(max: highest)");
  SUMS("omp parallel for reduction(task, +: sum) reduction(max: highest)");
  SUMS("omp parallel for reduction(task, +: sum) reduction(max: highest) schedule(dynamic)");
  SUMS("omp parallel master taskloop reduction(+: sum) reduction(max: highest)");
  SUMS("omp parallel master taskloop reduction(+: sum) reduction(max: highest) grainsize(2)");
  SUMS("omp parallel master taskloop reduction(+: sum) reduction(max: highest) num_tasks(3)");
  SUMS("omp parallel master taskloop reduction(+: sum) reduction(max: highest) if(0)");
  SUMS("omp parallel master taskloop simd reduction(+: sum) reduction(max: highest)");
  SUMS("omp taskloop reduction(+: sum) reduction(max: highest)");
  SUMS("omp teams distribute parallel for reduction(+: sum) reduction(max: highest)");
}
#undef SUMS

static void tasks(long count) {
  clear();
#pragma omp parallel
#pragma omp single
  {
#pragma omp taskloop
    for (long at = 0; at < count; at++) mark(at);
#pragma omp taskloop nogroup priority(1)
    for (long at = count; at > 0; at--) marks[63] += 0;
#pragma omp taskgroup task_reduction(+: sum)
    {
#pragma omp taskloop in_reduction(+: sum) nogroup
      for (long at = 0; at < count; at++) sum += 1;
      for (long at = 0; at < count; at++) {
#pragma omp task in_reduction(+: sum)
        sum += 1;
      }
    }
    CHECK(sum == 2 * count);
    // Reductions within others.
#pragma omp taskloop reduction(+: sum) num_tasks(2)
    for (long at = 0; at < count; at++) {
#pragma omp taskloop reduction(+: sum)
      for (long other = 0; other < at; other++) sum += 1;
    }
    CHECK(sum == 2 * count + count * (count - 1) / 2);
#pragma omp taskloop firstprivate(count) collapse(2)
    for (long at = 0; at < count; at++)
      for (long other = 0; other < 0; other++) mark(63);
  }
  whole(count);
  // Iterations of numbers without a sign, and of a loop that goes down.
  clear();
#pragma omp parallel master
#pragma omp taskloop reduction(+: sum)
  for (unsigned long at = count; at > 0; at--) sum += at;
  CHECK(sum == count * (count + 1) / 2);
#pragma omp parallel for reduction(+: product) schedule(dynamic)
  for (unsigned long long at = count; at > 0; at--) product += 1;
  CHECK(product == 1 + count);
}

static void across(long count) {
  int before[65] = {0};
#pragma omp parallel for ordered(1) schedule(static, 1)
  for (long at = 0; at < count; at++) {
#pragma omp ordered depend(sink: at - 1)
    before[at + 1] = before[at] + 1;
#pragma omp ordered depend(source)
  }
  CHECK(before[count] == count);
  clear();
#pragma omp parallel for ordered(2) collapse(1)
  for (long at = 0; at < count; at++)
    for (long other = 0; other < count; other++) {
#pragma omp ordered depend(sink: at - 1, other) depend(sink: at, other - 1)
#pragma omp atomic
      sum++;
#pragma omp ordered depend(source)
    }
  CHECK(sum == count * count);
  clear();
#pragma omp parallel for ordered(2)
  for (long at = 0; at < count; at++)
    for (long other = 5; other < 5; other++) {
#pragma omp ordered depend(sink: at - 1, other)
#pragma omp atomic
      sum++;
#pragma omp ordered depend(source)
    }
  CHECK(sum == 0);
}

static void others(long count) {
  int sections = 0, scanned[65] = {0}, running = 0;
#pragma omp parallel
  {
#pragma omp sections
    {
#pragma omp section
#pragma omp atomic
      sections++;
    }
#pragma omp single nowait
#pragma omp atomic
    sections++;
#pragma omp barrier
#pragma omp for schedule(static) ordered
    for (long at = 0; at < count; at++) {
#pragma omp ordered
      scanned[at + 1] = scanned[at] + 1;
    }
  }
  CHECK(sections == 2 && scanned[count] == count);
#ifndef __clang__
  // clang 19's code for a scan of few iterations ends with SIGSEGV, with its own library as well.
#pragma omp parallel for reduction(inscan, +: running)
  for (long at = 0; at < count; at++) {
    running += 1;
#pragma omp scan inclusive(running)
    scanned[at] = running;
  }
  CHECK(running == count);
  for (long at = 0; at < count; at++) CHECK(scanned[at] == at + 1);
#endif
  long last = -1;
#pragma omp parallel for lastprivate(last) schedule(dynamic)
  for (long at = 0; at < count; at++) last = at;
  CHECK(count == 0 ? 1 : last == count - 1);
}

int main(void) {
  const int threads = omp_get_max_threads();
  const long counts[] = {0, 1, 2, threads - 1, threads, threads + 1, 37};
  for (int round = 0; round < 3; round++)
    for (unsigned at = 0; at < sizeof counts / sizeof *counts; at++) {
      loops(counts[at]);
      sums(counts[at]);
      tasks(counts[at]);
      across(counts[at]);
      others(counts[at]);
    }
  puts("ok");
}
