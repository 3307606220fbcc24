/* A thread whose stack overflows: the process ends, and says why. */
#include "check.h"
#include <qthread/qthread.h>

static volatile int depth;

static int descend(int level) {
  volatile char frame[512];
  frame[level % 512] = (char)level;
  if (depth < 0) return 0;
  depth = level;
  return descend(level + 1) + frame[level % 512];
}

static aligned_t deep(void *arg) {
  (void)arg;
  return (aligned_t)descend(0);
}

int main(void) {
  aligned_t ret = 0;
  CHECK(qthread_initialize() == 0);
  CHECK(qthread_fork_to(deep, NULL, &ret, qthread_num_shepherds() - 1) == 0);
  qthread_readFF(NULL, &ret);
  return 0;
}
