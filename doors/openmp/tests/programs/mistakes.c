// Mistakes that OpenMP leaves undefined: the program goes on, and ends.
#include "check.h"
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(int count, char **arguments) {
  const char *which = count > 1 ? arguments[1] : "";
  omp_lock_t lock;
  omp_nest_lock_t nested;
  omp_init_lock(&lock);
  omp_init_nest_lock(&nested);
  if (!strcmp(which, "lock")) {
#pragma omp parallel num_threads(2)
    {
      if (omp_get_thread_num() == 1) omp_set_lock(&lock);
#pragma omp barrier
      if (omp_get_thread_num() == 0) omp_unset_lock(&lock);
    }
    CHECK(omp_test_lock(&lock));
    omp_unset_lock(&lock);
  }
  if (!strcmp(which, "unset")) omp_unset_lock(&lock);
  if (!strcmp(which, "nested")) {
#pragma omp parallel num_threads(2)
    {
      if (omp_get_thread_num() == 1) omp_set_nest_lock(&nested);
#pragma omp barrier
      if (omp_get_thread_num() == 0) omp_unset_nest_lock(&nested);
    }
    CHECK(omp_test_nest_lock(&nested) == 1);
    omp_unset_nest_lock(&nested);
  }
  if (!strcmp(which, "freed")) {
    char *block = malloc(1 << 20);
    CHECK(block);
    memset(block, 1, 1 << 20);
    free(block);
#pragma omp parallel num_threads(2)
#pragma omp single
#pragma omp task depend(inout : block[0])
    ;
  }
  if (!strcmp(which, "unmapped")) {
    char *block = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(block != MAP_FAILED && munmap(block, 1 << 20) == 0);
#pragma omp parallel num_threads(2)
#pragma omp single
#pragma omp task depend(in : block[0])
    ;
  }
  if (!strcmp(which, "threads")) {
    int come = 0;
#pragma omp parallel num_threads(200) reduction(+ : come)
    come++;
    CHECK(come >= 1);
  }
  puts("ok");
  return 0;
}
