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
  double before = 0;
  for (int time = 0; time < 2; time++) {
    before = used();
#pragma omp parallel num_threads(2 * processors)
    for (int round = 0; round < (time ? ROUNDS : 1); round++) {
#pragma omp parallel num_threads(processors)
#pragma omp atomic
      count++;
      usleep(5000);
    }
  }
  double seconds = used() - before;
  CHECK(count > 0);
  // Threads that spin for 3 ms after each region use more.
  if (seconds > ROUNDS * 1e-3 * processors) fprintf(stderr, "%g s of processors\n", seconds);
  CHECK(seconds <= ROUNDS * 1e-3 * processors);
  puts("ok");
}
