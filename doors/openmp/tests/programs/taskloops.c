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

int main(void) {
  for (int round = 0; round < 10; round++) {
    for (int step = 1; step < 4; step += 2) {
      run(MOST, 32, step);
      run(MOST, 31, step);
      run(MOST - 1, 32, step);
    }
    nested();
  }
  // More than are remembered.
  for (int count = 1; count < 80; count++) run(count, 4, 1);
  puts("ok");
}
