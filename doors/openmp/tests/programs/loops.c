// Loops by all schedules, sections, single, ordered, loops whose iterations wait for each other, copyprivate, locks.
#include "check.h"
#include <sched.h>
#include <limits.h>
#include <omp.h>
#include <string.h>

#define MOST 1000
static int times[MOST];

static void once(int count) {
  for (int at = 0; at < MOST; at++) CHECK(times[at] == (at < count));
  memset(times, 0, sizeof times);
}

#define EACH(clauses, count) \
  _Pragma(clauses) for (int at = 0; at < count; at++) { \
    _Pragma("omp atomic") times[at]++; \
  }

static void every_iteration_once(void) {
  int counts[] = {0, 1, 2, 7, 100, 1000};
  for (int index = 0; index < 6; index++) {
    int count = counts[index];
#pragma omp parallel
    EACH("omp for schedule(static)", count)
    once(count);
#pragma omp parallel
    EACH("omp for schedule(static, 3)", count)
    once(count);
#pragma omp parallel
    EACH("omp for schedule(dynamic)", count)
    once(count);
#pragma omp parallel
    EACH("omp for schedule(dynamic, 7)", count)
    once(count);
#pragma omp parallel
    EACH("omp for schedule(guided)", count)
    once(count);
#pragma omp parallel
    EACH("omp for schedule(guided, 4) nowait", count)
    once(count);
#pragma omp parallel
    EACH("omp for schedule(auto)", count)
    once(count);
    for (int kind = 1; kind <= 4; kind++) {
      omp_set_schedule(kind, 2);
#pragma omp parallel
      EACH("omp for schedule(runtime)", count)
      once(count);
    }
#pragma omp parallel for schedule(monotonic : dynamic, 2)
    for (int at = 0; at < count; at++) {
#pragma omp atomic
      times[at]++;
    }
    once(count);
#pragma omp parallel for schedule(dynamic, 2)
    for (int at = count - 1; at >= 0; at--) {
#pragma omp atomic
      times[at]++;
    }
    once(count);
  }
}

static void loops_follow_each_other(void) {
#pragma omp parallel
  for (int round = 0; round < 100; round++) {
#pragma omp for schedule(dynamic) nowait
    for (int at = 0; at < 5; at++) {
#pragma omp atomic
      times[at]++;
    }
  }
  for (int at = 0; at < 5; at++) CHECK(times[at] == 100);
  memset(times, 0, sizeof times);
}

static void far_bounds(void) {
  unsigned long long top = ULLONG_MAX - 30, seen = 0;
#pragma omp parallel for schedule(dynamic, 4) reduction(+ : seen)
  for (unsigned long long at = top; at < ULLONG_MAX - 2; at += 4) seen += at - top;
  CHECK(seen == 0 + 4 + 8 + 12 + 16 + 20 + 24);
  long low = 0;
#pragma omp parallel for schedule(guided) reduction(+ : low)
  for (long at = LONG_MIN; at < LONG_MIN + 10; at++) low += at - LONG_MIN;
  CHECK(low == 45);
  int sum = 0;
#pragma omp parallel for collapse(2) schedule(dynamic, 3) reduction(+ : sum)
  for (int a = 0; a < 10; a++)
    for (int b = 0; b < 7; b++) sum += a * b;
  CHECK(sum == 45 * 21);
  int last = -1;
#pragma omp parallel for lastprivate(last) schedule(dynamic, 2)
  for (int at = 0; at < 33; at++) last = at;
  CHECK(last == 32);
}

// Each thread begins with its own share of the iterations, the same each time; what is left is taken by others; none is run twice.
static void returning(void) {
  enum { ROUNDS = 20, EACH = 4 };
  for (int round = 0; round < ROUNDS; round++) {
    static int times[64 * EACH + 1], by[64 * EACH + 1];
    memset(times, 0, sizeof times);
    int begun = 0, all = 0;
#pragma omp parallel shared(begun, all)
    {
      int threads = omp_get_num_threads(), is_first = 1, count = threads * EACH + 1;
#pragma omp for schedule(nonmonotonic : dynamic)
      for (int at = 0; at < count; at++) {
#pragma omp atomic
        times[at]++;
        by[at] = omp_get_thread_num();
        if (is_first) {
          is_first = 0;
#pragma omp atomic
          begun++;
          // Until each thread has one, so that none has taken another's first one.
          for (int now = 0; now < threads;) {
#pragma omp atomic read
            now = begun;
            sched_yield();
          }
        }
      }
#pragma omp single
      all = count;
    }
    for (int at = 0; at < all; at++) CHECK(times[at] == 1);
    if (round == 0 && all > EACH + 1)
      for (int thread = 0; thread < all / EACH; thread++) CHECK(by[thread * EACH] == thread);
  }
  // Shares that do not fit, in turn with others of the same bounds.
  for (int round = 0; round < 50; round++)
    for (int chunk = 1; chunk < 9; chunk += 3)
      for (int count = 0; count < 40; count += 13) {
        long sum = 0;
        int last = -1;
#pragma omp parallel for schedule(nonmonotonic : dynamic, chunk) reduction(+ : sum) lastprivate(last)
        for (int at = 0; at < count; at++) {
          sum += at;
          last = at;
          if (at % 7 == round % 7) sched_yield();
        }
        CHECK(sum == (long)count * (count - 1) / 2 && (count == 0 || last == count - 1));
      }
}

static void in_order(void) {
  int next = 0;
#pragma omp parallel for ordered schedule(dynamic)
  for (int at = 0; at < 100; at++) {
#pragma omp ordered
    CHECK(next++ == at);
  }
  next = 0;
#pragma omp parallel for ordered schedule(static, 3)
  for (int at = 0; at < 100; at++) {
#pragma omp ordered
    CHECK(next++ == at);
  }
  next = 0;
#pragma omp parallel for ordered schedule(guided)
  for (int at = 0; at < 100; at++) {
    if (at % 3 == 0) {
#pragma omp ordered
      CHECK(next++ == at / 3);
    }
  }
}

static void iterations_wait_for_others(void) {
  static int cells[20][20];
  memset(cells, 0, sizeof cells);
#pragma omp parallel for ordered(2) schedule(dynamic)
  for (int a = 1; a < 20; a++)
    for (int b = 1; b < 20; b++) {
#pragma omp ordered depend(sink : a - 1, b) depend(sink : a, b - 1)
      int above, left;
#pragma omp atomic read
      above = cells[a - 1][b];
#pragma omp atomic read
      left = cells[a][b - 1];
      int sum = (above + left + 1) % 1000;
#pragma omp atomic write
      cells[a][b] = sum;
#pragma omp ordered depend(source)
    }
  static int expected[20][20];
  memset(expected, 0, sizeof expected);
  for (int a = 1; a < 20; a++)
    for (int b = 1; b < 20; b++) expected[a][b] = (expected[a - 1][b] + expected[a][b - 1] + 1) % 1000;
  CHECK(memcmp(cells, expected, sizeof cells) == 0);
}

static void by_one_thread(void) {
  int ones = 0, copies = 0, sections[5] = {0}, firsts = 0, named = 0;
#pragma omp parallel
  {
    for (int round = 0; round < 100; round++) {
#pragma omp single nowait
      {
#pragma omp atomic
        ones++;
      }
    }
    int value = -1;
#pragma omp single copyprivate(value)
    value = 42;
#pragma omp critical
    copies += value == 42;
#pragma omp sections
    {
#pragma omp section
      sections[0]++;
#pragma omp section
      sections[1]++;
#pragma omp section
      sections[2]++;
    }
    CHECK(sections[0] == 1 && sections[1] == 1 && sections[2] == 1);
#pragma omp master
    firsts += omp_get_thread_num() == 0;
#pragma omp barrier
    for (int round = 0; round < 100; round++) {
#pragma omp critical(name)
      named++;
    }
  }
  CHECK(ones == 100 && copies == omp_get_max_threads() && firsts == 1 && named == 100 * omp_get_max_threads());
#pragma omp parallel sections
  {
#pragma omp section
    sections[3]++;
#pragma omp section
    sections[4]++;
  }
  CHECK(sections[3] == 1 && sections[4] == 1);
#ifndef __clang__ // has this by libatomic
  long double product = 1;
#pragma omp parallel for
  for (int at = 0; at < 30; at++) {
#pragma omp atomic
    product *= 2;
  }
  CHECK(product == 1073741824.0L);
#endif
}

static void locks(void) {
  omp_lock_t lock;
  omp_nest_lock_t nested;
  omp_init_lock(&lock);
  omp_init_nest_lock(&nested);
  int count = 0, twice = 0;
#pragma omp parallel
  for (int round = 0; round < 200; round++) {
    if (round % 2 == 0) {
      omp_set_lock(&lock);
    } else {
      while (!omp_test_lock(&lock)) usleep(1);
    }
    count++;
    omp_unset_lock(&lock);
    omp_set_nest_lock(&nested);
    CHECK(omp_test_nest_lock(&nested) == 2);
    twice++;
    omp_unset_nest_lock(&nested);
    omp_unset_nest_lock(&nested);
  }
  CHECK(count == 200 * omp_get_max_threads() && twice == count);
  omp_destroy_lock(&lock);
  omp_destroy_nest_lock(&nested);
}

int main(void) {
  every_iteration_once();
  loops_follow_each_other();
  far_bounds();
  returning();
  in_order();
  iterations_wait_for_others();
  by_one_thread();
  locks();
  puts("ok");
  return 0;
}
