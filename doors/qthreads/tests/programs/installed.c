/* What a program needs of an installed library. */
#include "check.h"
#include <qthread.h>
#include <qthread/qloop.h>

static aligned_t square(void *arg) { return (aligned_t)arg * (aligned_t)arg; }

static void count(const size_t from, const size_t to, void *arg) { qthread_incr((aligned_t *)arg, to - from); }

int main(void) {
  aligned_t results[10], sum = 0, one, counted = 0;
  size_t index;
  CHECK(qthread_initialize() == QTHREAD_SUCCESS);
  for (index = 0; index < 10; index++) CHECK(qthread_fork(square, (void *)index, &results[index]) == QTHREAD_SUCCESS);
  for (index = 0; index < 10; index++) qthread_readFF(&one, &results[index]), sum += one;
  qt_loop_balance(0, 100, count, &counted);
  CHECK(sum == 285 && counted == 100);
  puts("ok");
  return 0;
}
