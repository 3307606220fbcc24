// Regions within regions, more threads than processors: those that wait for the next region leave the processors to others.
#define _GNU_SOURCE
#include "check.h"
#include <omp.h>
#include <sys/resource.h>

static double used(void) {
  struct rusage all;
  getrusage(RUSAGE_SELF, &all);
  return all.ru_utime.tv_sec + all.ru_stime.tv_sec + 1e-6 * (all.ru_utime.tv_usec + all.ru_stime.tv_usec);
}

int main(void) {
  enum { ROUNDS = 30 };
  int processors = omp_get_num_procs(), count = 0;
  omp_set_max_active_levels(2);
  // The first pass is a warm-up. Other programs add to some of the others, so the least counts.
  double seconds = 1e9;
  for (int time = 0; time < 6 && seconds > ROUNDS * 1e-3 * processors; time++) {
    double before = used();
#pragma omp parallel num_threads(2 * processors)
    for (int round = 0; round < (time ? ROUNDS : 1); round++) {
#pragma omp parallel num_threads(processors)
#pragma omp atomic
      count++;
      usleep(5000);
    }
    double took = used() - before;
    if (time && took < seconds) seconds = took;
  }
  CHECK(count > 0);
  // Threads that spin for 3 ms after each region use more.
  if (seconds > ROUNDS * 1e-3 * processors) fprintf(stderr, "%g s of processors\n", seconds);
  CHECK(seconds <= ROUNDS * 1e-3 * processors);
  puts("ok");
}
