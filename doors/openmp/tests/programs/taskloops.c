// Taskloops again and again, of which each task returns to where it ran the last time: none is lost, none is run twice, whatever their bounds are.
#include "check.h"
#include <sched.h>
#include <omp.h>
#include <string.h>

#define MOST 300

static int times[MOST];

static void run(int count, int tasks, int step) {
  memset(times, 0, sizeof times);
#pragma omp parallel
#pragma omp single
#pragma omp taskloop num_tasks(tasks)
  for (int at = 0; at < count; at += step) {
#pragma omp atomic
    times[at]++;
    if (at % 16 == 0) sched_yield();
  }
  for (int at = 0; at < MOST; at++) CHECK(times[at] == (at < count && at % step == 0));
}

// Two at once, one of them within tasks of the other, without a group.
static void nested(void) {
  int sum = 0;
#pragma omp parallel
#pragma omp single
#pragma omp taskloop nogroup shared(sum)
  for (int outer = 0; outer < 10; outer++) {
#pragma omp taskloop shared(sum)
    for (int inner = 0; inner < 20; inner++) {
#pragma omp atomic
      sum += inner;
    }
  }
  CHECK(sum == 10 * 190);
}

// What happened: the rest of a loop was no child of the task that had begun it, and a taskwait did not wait for it.
static void waited_for_by_hand(void) {
#pragma omp parallel
  {
    int own = 0;
#pragma omp taskloop nogroup grainsize(5) shared(own)
    for (int at = 0; at < 500; at++) {
#pragma omp atomic
      own++;
      if (at % 16 == 0) sched_yield();
    }
#pragma omp taskwait
    CHECK(own == 500);
  }
}

// Each task has its own copy of what is firstprivate, whichever thread makes it, and whatever the one before has done to its own.
static void copies(int count, int tasks) {
  int number = 7, table[40], last = -1;
  long sum = 0;
  for (int at = 0; at < 40; at++) table[at] = at;
#pragma omp parallel
#pragma omp single
  {
#pragma omp taskloop num_tasks(tasks) firstprivate(number, table) lastprivate(last) shared(sum)
    for (int at = 0; at < count; at++) {
      if (number == 7) {
        // The first iteration of a task.
        for (int each = 0; each < 40; each++) CHECK(table[each] == each);
#pragma omp atomic
        sum++;
      }
      number = 8;
      table[at % 40] = -1;
      last = at;
    }
    CHECK(last == count - 1);
    CHECK(number == 7 && table[3] == 3);
  }
  CHECK(sum == (tasks < count ? tasks : count));
}

// Tasks of a loop that outlive the function that made them.
static void make(long *sum, int count) {
  int own[4] = {1, 2, 3, 4};
#pragma omp taskloop nogroup num_tasks(count) firstprivate(own)
  for (int at = 0; at < count; at++) {
    sched_yield();
#pragma omp atomic
    *sum += own[at % 4];
  }
}

static void overwrite(void) {
  volatile char over[4000];
  for (int at = 0; at < 4000; at++) over[at] = (char)at;
}

static void outliving(void) {
  long sum = 0;
#pragma omp parallel
#pragma omp single
  {
    make(&sum, 400);
    overwrite();
  }
  CHECK(sum == 1000);
}

// A task that waits for its children with a lock: on top of it, its thread begins no other task of the loop, which would want the lock.
static void locked(int tasks) {
  omp_lock_t lock;
  omp_init_lock(&lock);
  int children = 0, waits = 0;
#pragma omp parallel
#pragma omp single
#pragma omp taskloop num_tasks(tasks) shared(lock, children, waits)
  for (int at = 0; at < 64; at++) {
    int own = 0;
    omp_set_lock(&lock);
#pragma omp task shared(children, own)
    {
      sched_yield();
      own = 1;
#pragma omp atomic
      children++;
    }
#pragma omp taskwait
    waits += own;
    omp_unset_lock(&lock);
  }
  CHECK(children == 64 && waits == 64);
  omp_destroy_lock(&lock);
}

// A group within a task that its thread runs as a call, with tasks that run as calls before.
static long depth_first(int depth) {
  long left = 0, right = 0;
  if (depth == 0) return 1;
#pragma omp task shared(left) if (depth % 3 != 0)
  left = depth_first(depth - 1);
#pragma omp taskgroup
  {
#pragma omp task shared(right) if (depth % 2 != 0)
    right = depth_first(depth - 1);
  }
  CHECK(right == 1L << (depth - 1));
#pragma omp taskwait
  return left + right;
}

static void in_calls(void) {
  long sum = 0;
#pragma omp parallel
#pragma omp single
#pragma omp taskloop num_tasks(300) reduction(+ : sum)
  for (int at = 0; at < 300; at++) sum += depth_first(at % 7);
  long expected = 0;
  for (int at = 0; at < 300; at++) expected += 1L << at % 7;
  CHECK(sum == expected);
}

int main(void) {
  for (int tasks = 1; tasks < 300; tasks += 59) copies(200, tasks);
  outliving();
  locked(64);
  locked(5);
  in_calls();
  for (int round = 0; round < 10; round++) {
    for (int step = 1; step < 4; step += 2) {
      run(MOST, 32, step);
      run(MOST, 31, step);
      run(MOST - 1, 32, step);
    }
    nested();
  waited_for_by_hand();
  }
  // More than are remembered.
  for (int count = 1; count < 80; count++) run(count, 4, 1);
  puts("ok");
}
