// Runs whatever is set.
#include "check.h"
#include <omp.h>

int main(void) {
  int sum = 0;
#pragma omp parallel num_threads(2) reduction(+ : sum)
  sum += 1;
  CHECK(sum == 2 && omp_get_max_threads() == omp_get_num_procs());
  return 0;
}
