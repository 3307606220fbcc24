/* A hundred threads that work, and as many that wait for a word before. */
#include "check.h"
#include <qthread/qthread.h>

#define COUNT 100

static aligned_t gate;
static aligned_t done[2 * COUNT];

static aligned_t works(void *arg) {
  volatile aligned_t sum = 0;
  aligned_t at;
  for (at = 0; at < 1000; at++) sum += at;
  return sum + *(aligned_t *)arg * 0;
}

static aligned_t waits(void *arg) {
  aligned_t seen;
  (void)arg;
  CHECK(qthread_readFF(&seen, &gate) == QTHREAD_SUCCESS);
  return seen;
}

int main(void) {
  int at;
  CHECK(qthread_initialize() == QTHREAD_SUCCESS);
  CHECK(qthread_empty(&gate) == QTHREAD_SUCCESS);
  for (at = 0; at < COUNT; at++) {
    CHECK(qthread_fork(waits, NULL, &done[at]) == QTHREAD_SUCCESS);
    CHECK(qthread_fork(works, &gate, &done[COUNT + at]) == QTHREAD_SUCCESS);
  }
  CHECK(qthread_writeEF_const(&gate, 7) == QTHREAD_SUCCESS);
  for (at = 0; at < COUNT; at++) {
    aligned_t seen;
    CHECK(qthread_readFF(&seen, &done[at]) == QTHREAD_SUCCESS && seen == 7);
    CHECK(qthread_readFF(&seen, &done[COUNT + at]) == QTHREAD_SUCCESS && seen == 499500);
  }
  qthread_finalize();
  puts("ok");
  return 0;
}
