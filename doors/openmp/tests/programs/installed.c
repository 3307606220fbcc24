// Which runtime it has found.
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <omp.h>

int main(void) {
  int sum = 0;
#pragma omp parallel reduction(+ : sum)
  sum += omp_get_thread_num() + 1;
  CHECK(sum == 6);
  CHECK(dlsym(RTLD_DEFAULT, "vicus_omp_placed_from"));
  puts("ok");
}
