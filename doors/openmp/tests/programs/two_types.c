// Two types of tasks: 32 that work on a part of their own each, and 16 that read one table.
#include "check.h"

#define PARTS 32
#define EACH (256 << 10)

int main(void) {
  char *volatile block = calloc(PARTS, EACH);
  char *volatile other = calloc(1, EACH);
  char *parts = block, *table = other;
  int sums[16];
#pragma omp parallel
#pragma omp single
  {
    for (int part = 0; part < PARTS; part++) {
#pragma omp task firstprivate(parts, part) depend(inout : parts[part * EACH : EACH])
      for (int at = 0; at < EACH; at++) parts[part * EACH + at] = (char)(part + 1);
    }
    for (int reader = 0; reader < 16; reader++) {
#pragma omp task firstprivate(table, reader) shared(sums) depend(in : table[0 : EACH])
      {
        sums[reader] = 0;
        for (int at = 0; at < EACH; at++) sums[reader] += table[at];
      }
    }
  }
  for (int part = 0; part < PARTS; part++) CHECK(parts[part * EACH] == part + 1);
  for (int reader = 0; reader < 16; reader++) CHECK(sums[reader] == 0);
  free(block);
  free(other);
  puts("ok");
}
