/* How many threads could run, as `qthread_readstate` says: not those that wait in a queue, and not those that have
   given their results. */
#include "check.h"
#include <qthread/qloop.h>
#include <qthread/qthread.h>

#define MOST 100

static qthread_queue_t queue;

static aligned_t wait_in_queue(void *arg) {
  (void)arg;
  qthread_queue_join(queue);
  return 1;
}

static aligned_t nothing(void *arg) {
  (void)arg;
  return 1;
}

static void no_step(size_t from, size_t to, void *arg) {
  (void)from;
  (void)to;
  (void)arg;
}

int main(void) {
  aligned_t rets[MOST];
  int times, index;
  CHECK(qthread_initialize() == 0);
  queue = qthread_queue_create(QTHREAD_QUEUE_MULTI_JOIN_LENGTH, 0);
  for (times = 0; times < 300; times++) {
    /* Its stack may be in use for long after this, where another thread has its processor. */
    CHECK(qthread_fork(nothing, NULL, rets) == 0 && qthread_readFF(NULL, rets) == 0);
    CHECK(qthread_readstate(NODE_BUSYNESS) == 1);
  }
  for (times = 0; times < 20; times++) {
    for (index = 0; index < MOST; index++) CHECK(qthread_fork(wait_in_queue, NULL, rets + index) == 0);
    while (qthread_queue_length(queue) != MOST) qthread_yield();
    CHECK(qthread_readstate(NODE_BUSYNESS) == 1);
    CHECK(qthread_queue_release_all(queue) == 0);
    for (index = 0; index < MOST; index++) CHECK(qthread_readFF(NULL, rets + index) == 0);
    CHECK(qthread_queue_length(queue) == 0 && qthread_readstate(NODE_BUSYNESS) == 1);
  }
  for (times = 0; times < 300; times++) {
    qt_loop_balance(0, 100, no_step, NULL);
    CHECK(qthread_readstate(NODE_BUSYNESS) == 1);
  }
  qthread_queue_destroy(queue);
  puts("ok");
  return 0;
}
