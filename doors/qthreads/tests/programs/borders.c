/* For a debugger: a thread that has waited stops in a function of its own. */
#include "check.h"
#include <qthread/qthread.h>

__attribute__((noinline)) int innermost(int value) {
  __asm__ volatile("" : "+r"(value));
  return value + 1;
}

__attribute__((noinline)) int middle(int value) { return innermost(value) + 1; }

static aligned_t outermost(void *arg) {
  qthread_yield();
  return (aligned_t)middle(*(int *)arg);
}

int main(void) {
  static int value = 40;
  aligned_t ret = 0, got = 0;
  CHECK(qthread_initialize() == 0);
  CHECK(qthread_fork(outermost, &value, &ret) == 0);
  qthread_readFF(&got, &ret);
  CHECK(got == 42);
  puts("ok");
  return 0;
}
