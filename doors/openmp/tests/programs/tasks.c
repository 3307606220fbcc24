// Tasks: what they compute, where they run, what they know of themselves; groups, taskloops, reductions, dependences, events.
#include "check.h"
#include <omp.h>
#include <pthread.h>
#include <string.h>

static long fib(int n) {
  if (n < 2) return n;
  long a, b;
#pragma omp task shared(a) if (n > 3) final(n == 8)
  a = fib(n - 1);
#pragma omp task shared(b) untied mergeable
  b = fib(n - 2);
#pragma omp taskwait
  return a + b;
}

static void trees(void) {
  long result = 0;
#pragma omp parallel
#pragma omp single
  result = fib(17);
  CHECK(result == 1597);
#pragma omp parallel
#pragma omp master
  {
#pragma omp task shared(result)
    result = fib(12);
  }
  CHECK(result == 144);
  CHECK(fib(10) == 55);
}

static void data_are_copied(void) {
  struct { char bytes[3000]; } large;
  int wrong = 0;
#pragma omp parallel
#pragma omp single
  for (int at = 0; at < 100; at++) {
    memset(&large, at, sizeof large);
    _Alignas(64) double aligned[8] = {at};
#pragma omp task firstprivate(large, at, aligned) shared(wrong)
    {
      int is_right = aligned[0] == at && (size_t)aligned % 64 == 0;
      for (size_t byte = 0; byte < sizeof large; byte++) is_right &= large.bytes[byte] == (char)at;
#pragma omp atomic
      wrong += !is_right;
    }
  }
  CHECK(wrong == 0);
}

static void tasks_know_themselves(void) {
#pragma omp parallel
  {
    for (int at = 0; at < 20; at++) {
#pragma omp task
      {
        int number = omp_get_thread_num();
        pthread_t self = pthread_self();
        CHECK(number < omp_get_num_threads() && !omp_in_final());
        omp_set_num_threads(3 + at);
#pragma omp task firstprivate(at)
        CHECK(omp_get_max_threads() == 3 + at);
#pragma omp taskyield
#pragma omp taskwait
        // Tied tasks go on where they began.
        CHECK(omp_get_thread_num() == number && pthread_equal(self, pthread_self()));
        CHECK(omp_get_max_threads() == 3 + at);
      }
#pragma omp task final(1)
      {
        CHECK(omp_in_final());
        int is_done = 0;
#pragma omp task shared(is_done)
        {
          CHECK(omp_in_final());
          is_done = 1;
        }
        // Children of a final task run at once.
        CHECK(is_done);
      }
      int is_done = 0;
#pragma omp task if (0) shared(is_done)
      is_done = 1;
      CHECK(is_done);
    }
  }
}

static void waits_are_for_children(void) {
#pragma omp parallel
#pragma omp single
  {
    int child = 0, grandchild = 0, has_come = 0;
#pragma omp task shared(child, grandchild)
    {
#pragma omp task shared(grandchild)
      {
        usleep(1000);
#pragma omp atomic write
        grandchild = 1;
      }
#pragma omp atomic write
      child = 1;
    }
#pragma omp taskwait
    CHECK(child == 1);
    for (;;) {
#pragma omp atomic read
      has_come = grandchild;
      if (has_come) break;
#pragma omp taskyield
      usleep(10);
      if (omp_get_num_threads() == 1) break;
    }
  }
#pragma omp parallel
#pragma omp single
  {
    int count = 0;
#pragma omp taskgroup
    {
      for (int at = 0; at < 10; at++) {
#pragma omp task shared(count)
        {
#pragma omp task shared(count)
          {
#pragma omp atomic
            count++;
          }
        }
      }
    }
    CHECK(count == 10);
  }
}

static void siblings_follow_each_other(void) {
  int cells[4] = {0}, readers = 0, all = 0;
#pragma omp parallel
#pragma omp single
  {
    for (int step = 0; step < 200; step++) {
      int at = step % 4;
#pragma omp task depend(inout : cells[at]) depend(in : cells[(at + 1) % 4]) shared(cells)
      {
        CHECK(cells[at] == step / 4);
        cells[at]++;
      }
    }
#pragma omp taskwait depend(in : cells[0])
    CHECK(cells[0] == 50);
#pragma omp task if (0) depend(in : cells[1]) shared(cells)
    CHECK(cells[1] == 50);
#pragma omp taskwait
    int value = 0;
#pragma omp task depend(out : value) shared(value)
    value = 1;
    for (int at = 0; at < 10; at++) {
#pragma omp task depend(in : value) shared(value, readers)
      {
        CHECK(value == 1);
#pragma omp atomic
        readers++;
      }
    }
#pragma omp task depend(out : value) shared(value, readers)
    {
      CHECK(readers == 10);
      value = 2;
    }
    for (int at = 0; at < 10; at++) {
#pragma omp task depend(mutexinoutset : all) shared(all)
      all++;
    }
#pragma omp task depend(in : all) shared(all)
    CHECK(all == 10);
    omp_depend_t object;
#pragma omp depobj(object) depend(inout : all)
    for (int at = 0; at < 10; at++) {
#pragma omp task depend(depobj : object) shared(all)
      all++;
    }
#pragma omp taskwait
    CHECK(all == 20);
#pragma omp depobj(object) destroy
    int chain = 0;
    for (int at = 0; at < 20000; at++) {
#pragma omp task depend(inout : chain) shared(chain)
      chain++;
    }
#pragma omp taskwait
    CHECK(chain == 20000);
  }
}

// Members of a set do not wait for each other: the first one follows a task whose event comes from the second one.
static void sets_have_no_order(void) {
#pragma omp parallel
#pragma omp single
  {
    int together = 0, apart = 0, first = 0, second = 0, sum = 0, is_inside = 0;
    omp_event_handle_t event;
#pragma omp task depend(out : together, apart) shared(together, apart)
    together = apart = 1;
// gcc knows these since its version 13.
#if defined __clang__ || __GNUC__ > 12
#pragma omp task depend(out : first) detach(event)
    ;
#pragma omp task depend(inoutset : together) depend(in : first) shared(together)
#pragma omp atomic
    together++;
#pragma omp task depend(inoutset : together) firstprivate(event) shared(together)
    {
#pragma omp atomic
      together++;
      omp_fulfill_event(event);
    }
#pragma omp task depend(in : together) shared(together)
    CHECK(together == 3);
#pragma omp taskwait
#endif
#pragma omp task depend(out : second) detach(event)
    ;
#pragma omp task depend(mutexinoutset : apart) depend(in : second) shared(apart)
    apart++;
#pragma omp task depend(mutexinoutset : apart) firstprivate(event) shared(apart)
    {
      apart++;
      omp_fulfill_event(event);
    }
#pragma omp task depend(inout : apart) shared(apart)
    CHECK(apart == 3);
#pragma omp taskwait
    // Of a set of two addresses, in both orders, one at a time; some run at once.
    for (int at = 0; at < 200; at++) {
#pragma omp task depend(mutexinoutset : apart, sum) shared(sum, is_inside) if (at % 7 != 3)
      {
        CHECK(!is_inside);
        is_inside = 1;
        sum++;
        is_inside = 0;
      }
#pragma omp task depend(mutexinoutset : sum, apart) shared(sum, is_inside) priority(at % 3)
      {
        CHECK(!is_inside);
        is_inside = 1;
        sum++;
        is_inside = 0;
      }
    }
#pragma omp taskwait depend(in : sum)
    CHECK(sum == 400);
  }
}

#if __clang_major__ >= 16 || (__GNUC__ >= 13 && !defined __clang__)
// A taskwait that does not wait: later siblings follow it, and it follows earlier ones.
static void a_taskwait_that_is_nowait_orders(void) {
  int x = 0, y = 0, go = 0, seen = 0;
#pragma omp parallel shared(x, y, go, seen)
#pragma omp single
  if (omp_get_num_threads() > 1) {
#pragma omp task depend(out : x) shared(x, go)
    {
      // Until the next statements are over: a wait for this task would never end.
      for (int now = 0; !now;) {
#pragma omp atomic read
        now = go;
#pragma omp taskyield
      }
      x = 1;
    }
#pragma omp taskwait depend(in : x) depend(out : y) nowait
#pragma omp task depend(in : y) shared(x, seen)
    seen = x;
#pragma omp atomic write
    go = 1;
  } else {
    seen = 1;
  }
  CHECK(seen == 1);
}
#else
static void a_taskwait_that_is_nowait_orders(void) {}
#endif

static void taskloops(void) {
  static int times[1000];
  int last = -1;
  long sum = 0;
#pragma omp parallel
#pragma omp single
  {
#pragma omp taskloop grainsize(7)
    for (int at = 0; at < 1000; at++) times[at]++;
    for (int at = 0; at < 1000; at++) CHECK(times[at] == 1);
#pragma omp taskloop num_tasks(13) lastprivate(last)
    for (int at = 0; at < 1000; at += 3) last = at;
    CHECK(last == 999);
#pragma omp taskgroup
    {
#pragma omp taskloop nogroup if (0)
      for (int at = 999; at >= 0; at--) times[at]++;
    }
    for (int at = 0; at < 1000; at++) CHECK(times[at] == 2);
#pragma omp taskloop collapse(2) reduction(+ : sum)
    for (int a = 0; a < 30; a++)
      for (unsigned long long b = 0; b < 20; b++) sum += a * b;
    CHECK(sum == 435 * 190);
  }
}

static void reductions(void) {
  int sum = 0, product = 1;
#pragma omp parallel
#pragma omp single
  {
#pragma omp taskgroup task_reduction(+ : sum) task_reduction(* : product)
    {
      for (int at = 1; at <= 100; at++) {
#pragma omp task in_reduction(+ : sum)
        {
          sum += at;
#pragma omp task in_reduction(+ : sum)
          sum += at;
        }
        if (at <= 10) {
#pragma omp task in_reduction(* : product)
          product *= 2;
        }
      }
    }
    CHECK(sum == 10100 && product == 1024);
  }
  sum = 0;
#pragma omp parallel reduction(task, + : sum)
  {
    sum++;
    for (int at = 0; at < 10; at++) {
#pragma omp task in_reduction(+ : sum)
      sum += 10;
    }
  }
  CHECK(sum == 101 * omp_get_max_threads());
  sum = 0;
#pragma omp parallel
#pragma omp for reduction(task, + : sum) schedule(dynamic)
  for (int at = 0; at < 20; at++) {
#pragma omp task in_reduction(+ : sum)
    sum += at;
  }
  CHECK(sum == 190);
  double all = 0;
#pragma omp parallel for reduction(+ : all)
  for (int at = 0; at < 1000; at++) all += at;
  CHECK(all == 499500);
}

static omp_event_handle_t awaited;
static void *fulfil(void *event) {
  usleep(2000);
  *(volatile int *)event = 1;
  omp_fulfill_event(awaited);
  return NULL;
}

static void detached(void) {
#pragma omp parallel
#pragma omp single
  {
    int has_come = 0;
    omp_event_handle_t event;
    pthread_t thread;
#pragma omp task detach(event) depend(out : has_come) shared(has_come, thread)
    {
      awaited = event;
      CHECK(pthread_create(&thread, NULL, fulfil, &has_come) == 0);
    }
    int after = 0;
#pragma omp task depend(in : has_come) shared(has_come, after)
    {
      CHECK(has_come == 1);
      after = 1;
    }
#pragma omp taskwait
    CHECK(has_come == 1 && after == 1);
    pthread_join(thread, NULL);
  }
}

// A task that holds a lock waits: another one that wants the lock must not begin on top of it.
static void locks_across_waits(void) {
  omp_lock_t lock;
  omp_init_lock(&lock);
  int count = 0;
#pragma omp parallel
#pragma omp single
  for (int at = 0; at < 100; at++) {
#pragma omp task shared(lock, count)
    {
      omp_set_lock(&lock);
      for (int child = 0; child < 3; child++) {
#pragma omp task shared(count)
        {
#pragma omp atomic
          count++;
        }
      }
#pragma omp taskwait
      omp_unset_lock(&lock);
    }
  }
  CHECK(count == 300);
}

static void chain(int left, int *ended) {
  if (left == 0) {
    *ended = 1;
    return;
  }
#pragma omp task
  chain(left - 1, ended);
}

static void stacks_stay_small(void) {
  int ended = 0, count = 0;
#pragma omp parallel
#pragma omp single
  {
    chain(20000, &ended);
    for (int at = 0; at < 100000; at++) {
#pragma omp task shared(count)
      {
#pragma omp task shared(count)
        {
#pragma omp atomic
          count++;
        }
#pragma omp taskwait
      }
    }
  }
  CHECK(ended && count == 100000);
}

int main(void) {
  trees();
  data_are_copied();
  tasks_know_themselves();
  waits_are_for_children();
  siblings_follow_each_other();
  sets_have_no_order();
  a_taskwait_that_is_nowait_orders();
  taskloops();
  reductions();
  detached();
  locks_across_waits();
  stacks_stay_small();
  puts("ok");
  return 0;
}
