/* A program whose addresses are limited (`ulimit -v`): it has most of what the limit leaves. */
#include "check.h"
#include <qthread/qthread.h>

enum { MANY = 1000 };
static aligned_t results[MANY];

static aligned_t count(void *number) {
  qthread_yield();
  return *(aligned_t *)number + 1;
}

int main(void) {
  CHECK(qthread_initialize() == QTHREAD_SUCCESS);
  for (aligned_t at = 0; at < MANY; at++) {
    static aligned_t numbers[MANY];
    numbers[at] = at;
    CHECK(qthread_fork(count, &numbers[at], &results[at]) == QTHREAD_SUCCESS);
  }
  for (aligned_t at = 0; at < MANY; at++) {
    aligned_t value;
    CHECK(qthread_readFF(&value, &results[at]) == QTHREAD_SUCCESS && value == at + 1);
  }
  size_t bytes = (size_t)1 << 30;
  char *own = malloc(bytes);
  CHECK(own);
  own[0] = own[bytes - 1] = 1;
  free(own);
  qthread_finalize();
  puts("ok");
  return 0;
}
