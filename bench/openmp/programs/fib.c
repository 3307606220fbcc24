// Fibonacci numbers by one task for each call: nothing but the cost of tasks.
#include "measure.h"

static int fib(int n) {
  if (n < 2) return n;
  int a, b;
#pragma omp task shared(a)
  a = fib(n - 1);
#pragma omp task shared(b)
  b = fib(n - 2);
#pragma omp taskwait
  return a + b;
}

int main(void) {
  int result = 0;
  double time = 0;
#pragma omp parallel
#pragma omp single
  {
    fib(20);
    double begun = omp_get_wtime();
    result = fib(27);
    time = omp_get_wtime() - begun;
  }
  check(result == 196418, "fib(27)");
  report("fib", time * 1e3, "ms");
}
