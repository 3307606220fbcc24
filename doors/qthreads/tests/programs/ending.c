/* Threads that start and end the library while the main thread ends it. */
#include "check.h"
#include <qthread/qthread.h>

static aligned_t restart(void *arg) {
  int index;
  (void)arg;
  for (index = 0; index < 100; index++) {
    qthread_yield();
    CHECK(qthread_initialize() == 0);
    qthread_finalize();
  }
  return 0;
}

int main(void) {
  int round, index;
  for (round = 0; round < 3; round++) {
    CHECK(qthread_initialize() == 0);
    for (index = 0; index < 8; index++) CHECK(qthread_fork(restart, NULL, NULL) == 0);
    qthread_finalize();
  }
  puts("ok");
  return 0;
}
