// What the programs share: they print a line for each thing that they have measured, `NAME VALUE UNIT`, where less is better, and end with
// status 1 if a result is wrong.
#ifndef MEASURE_H
#define MEASURE_H
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static inline void report(const char *name, double value, const char *unit) { printf("%s %.9g %s\n", name, value, unit); }

static inline void check(int is_right, const char *what) {
  if (!is_right) {
    fprintf(stderr, "wrong: %s\n", what);
    exit(1);
  }
}

static inline int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// The middle one of a few times.
static inline double middle(double *times, int count) {
  qsort(times, count, sizeof *times, by_size);
  return times[count / 2];
}
#endif
