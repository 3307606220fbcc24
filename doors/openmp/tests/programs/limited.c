// A program whose addresses are limited (`ulimit -v`): most of what the limit leaves is the program's own.
#include "check.h"
#include <omp.h>
#include <string.h>

static long fibonacci(int n) {
  if (n < 2) return n;
  long left, right;
#pragma omp task shared(left)
  left = fibonacci(n - 1);
#pragma omp task shared(right)
  right = fibonacci(n - 2);
#pragma omp taskwait
  return left + right;
}

int main(void) {
  // Each thread has a stack, and an arena of the C library.
  size_t bytes = (2UL << 30) - omp_get_max_threads() * (80UL << 20);
  long sum = 0;
  for (int round = 0; round < 3; round++) {
#pragma omp parallel reduction(+ : sum)
    {
      char *own = malloc(3 << 20);
      CHECK(own);
      memset(own, 1, 3 << 20);
      sum += own[omp_get_thread_num()];
      free(own);
#pragma omp single
      CHECK(fibonacci(15) == 610);
    }
    char *all = malloc(bytes);
    CHECK(all);
    all[0] = all[bytes - 1] = 1;
    free(all);
  }
  CHECK(sum == 3 * omp_get_max_threads());
  puts("ok");
}
