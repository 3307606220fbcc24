/* Words that their owner may lock again, while many threads want them. */
#include "check.h"
#include <qthread/qthread.h>

#define THREADS 12
#define ROUNDS 150
#define LOCKS 3

static aligned_t locks[LOCKS], plain, sums[LOCKS + 1], within[LOCKS];

static void deeper(int lock, int depth) {
  CHECK((depth % 2 ? qthread_trylock(&locks[lock]) : qthread_lock(&locks[lock])) == 0);
  CHECK(++within[lock] == (aligned_t)depth + 1);
  if (depth < 3) deeper(lock, depth + 1);
  else if (sums[lock] % 4 == 0) qthread_yield();
  sums[lock]++;
  within[lock]--;
  CHECK(qthread_unlock(&locks[lock]) == 0);
}

static aligned_t uses(void *arg) {
  size_t round;
  for (round = 0; round < ROUNDS; round++) {
    int first = (int)((round + (size_t)arg) % LOCKS);
    deeper(first, 0);
    /* One within the other, in the order of their numbers. */
    CHECK(qthread_lock(&locks[0]) == 0);
    within[0]++;
    deeper(1, 0);
    within[0]--;
    CHECK(qthread_unlock(&locks[0]) == 0);
    CHECK(qthread_lock(&plain) == 0);
    sums[LOCKS]++;
    CHECK(qthread_unlock(&plain) == 0);
  }
  return 0;
}

static aligned_t wants(void *arg) {
  (void)arg;
  CHECK(qthread_unlock(&locks[0]) == QTHREAD_OPFAIL && qthread_trylock(&locks[0]) == QTHREAD_OPFAIL);
  CHECK(qthread_lock(&locks[0]) == 0 && qthread_lock(&locks[0]) == 0);
  sums[0]++;
  CHECK(qthread_unlock(&locks[0]) == 0 && qthread_unlock(&locks[0]) == 0);
  return 0;
}

int main(void) {
  aligned_t rets[THREADS], each = THREADS * ROUNDS * 4;
  size_t index;
  CHECK(qthread_initialize() == 0);
  for (index = 0; index < LOCKS; index++) CHECK(qthread_lock_init(&locks[index], true) == 0);
  for (index = 0; index < THREADS; index++) CHECK(qthread_fork(uses, (void *)index, &rets[index]) == 0);
  for (index = 0; index < THREADS; index++) CHECK(qthread_readFF(NULL, &rets[index]) == 0);
  CHECK(sums[0] + sums[1] + sums[2] == 2 * each && sums[LOCKS] == THREADS * ROUNDS);

  /* Threads that wait for one don't run. */
  sums[0] = 0;
  CHECK(qthread_lock(&locks[0]) == 0);
  for (index = 0; index < THREADS; index++) CHECK(qthread_fork(wants, NULL, &rets[index]) == 0);
  while (qthread_readstate(NODE_BUSYNESS) > 1) qthread_yield();
  CHECK(sums[0] == 0 && qthread_lock(&locks[0]) == 0 && qthread_unlock(&locks[0]) == 0 && sums[0] == 0);
  CHECK(qthread_unlock(&locks[0]) == 0);
  for (index = 0; index < THREADS; index++) CHECK(qthread_readFF(NULL, &rets[index]) == 0);
  CHECK(sums[0] == THREADS);

  for (index = 0; index < LOCKS; index++) CHECK(qthread_lock_destroy(&locks[index]) == 0);
  CHECK(qthread_lock(&locks[0]) == 0 && qthread_trylock(&locks[0]) == QTHREAD_OPFAIL && qthread_unlock(&locks[0]) == 0);
  puts("ok");
  return 0;
}
