// For what a program is told of itself: 3 regions, 200 tasks, of which 100 use 800 bytes each; then it ends as its argument says: `exit` within
// a region, by its last thread, or else by returning.
#include "check.h"
#include <omp.h>
#include <string.h>

static double cells[100][100];

int main(int count, char **arguments) {
  int sum = 0;
  for (int region = 0; region < 2; region++) {
#pragma omp parallel
#pragma omp single
    for (int task = 0; task < 50; task++) {
#pragma omp task shared(sum)
      {
#pragma omp atomic
        sum += 1;
      }
#pragma omp task depend(inout : cells[task][0 : 100])
      cells[task][99] += 1;
    }
  }
  CHECK(sum == 100 && cells[0][99] == 2);
  int ends = count > 1 && strcmp(arguments[1], "exit") == 0;
#pragma omp parallel
  if (ends && omp_get_thread_num() == omp_get_num_threads() - 1) exit(puts("ok") < 0);
  return puts("ok") < 0;
}
