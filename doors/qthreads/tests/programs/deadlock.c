/* Threads that wait for ever: one that nobody wakes, and the main thread, for a lock that it has. */
#include <qthread/qthread.h>
#include <stdio.h>
#include <sys/resource.h>

static aligned_t word, locked;

static aligned_t waits(void *arg) {
  (void)arg;
  qthread_readFF(NULL, &word);
  return 0;
}

int main(void) {
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  if (qthread_initialize() != 0) return 1;
  qthread_empty(&word);
  qthread_fork(waits, NULL, NULL);
  qthread_lock(&locked);
  qthread_lock(&locked);
  puts("both locked it");
  return 0;
}
