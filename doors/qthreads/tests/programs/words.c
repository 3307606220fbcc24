/* Full/empty bits of words and of syncvars, locks, and numbers that many change. */
#include "check.h"
#include <qthread.h>

#define COUNT 200

static aligned_t word, total, spun, turns[2], same = 77;
static syncvar_t var = SYNCVAR_STATIC_EMPTY_INITIALIZER;
static qthread_spinlock_t mutex = QTHREAD_MUTEX_INITIALIZER;

static aligned_t produce(void *arg) {
  aligned_t index;
  (void)arg;
  for (index = 1; index <= COUNT; index++) {
    CHECK(qthread_writeEF(&word, &index) == 0);
    CHECK(qthread_syncvar_writeEF(&var, &index) == 0);
  }
  return 0;
}

static aligned_t read_full(void *arg) {
  aligned_t value;
  (void)arg;
  CHECK(qthread_readFF(&value, &word) == 0);
  return value;
}

static aligned_t write_full(void *arg) { return (aligned_t)qthread_writeFF(&word, arg); }

static aligned_t locked(void *arg) {
  int index;
  (void)arg;
  for (index = 0; index < COUNT; index++) {
    CHECK(qthread_lock(&turns[0]) == 0);
    total++;
    if (index % 16 == 0) qthread_yield();
    CHECK(qthread_unlock(&turns[0]) == 0);
    CHECK(qthread_spinlock_lock(&mutex) == 0);
    spun++;
    CHECK(qthread_spinlock_unlock(&mutex) == 0);
  }
  return 0;
}

static aligned_t ping(void *arg) {
  size_t side = (size_t)arg;
  int index;
  for (index = 0; index < COUNT; index++) {
    CHECK(qthread_readFE(NULL, &turns[side]) == 0);
    CHECK(qthread_writeEF_const(&turns[1 - side], (aligned_t)index) == 0);
  }
  return 0;
}

int main(void) {
  aligned_t value, rets[16], sum = 0;
  uint64_t of_var;
  int index;
  CHECK(qthread_initialize() == 0);
  CHECK(qthread_feb_status(&word) == 1 && qthread_empty(&word) == 0 && qthread_feb_status(&word) == 0);
  CHECK(qthread_readFF_nb(&value, &word) == QTHREAD_OPFAIL && qthread_readFE_nb(&value, &word) == QTHREAD_OPFAIL);
  CHECK(qthread_writeEF_const_nb(&word, 5) == 0 && qthread_writeEF_const_nb(&word, 6) == QTHREAD_OPFAIL);
  value = 7;
  CHECK(qthread_writeEF_nb(&word, &value) == QTHREAD_OPFAIL);
  CHECK(qthread_readFF_nb(&value, &word) == 0 && value == 5 && qthread_readFE_nb(NULL, &word) == 0);
  CHECK(qthread_writeF(&word, &value) == 0 && qthread_writeF_const(&word, 8) == 0 && word == 8);
  CHECK(qthread_writeFF(&word, &value) == 0 && qthread_writeFF_const(&word, 9) == 0);
  CHECK(qthread_purge(&word) == 0 && word == 0 && !qthread_feb_status(&word));
  CHECK(qthread_purge_to_const(&word, 4) == 0 && word == 4 && qthread_purge_to(&word, &value) == 0 && word == 5);
  CHECK(qthread_readXX(&value, &word) == 0 && value == 5 && qthread_fill(&word) == 0 && qthread_feb_status(&word));

  CHECK(qthread_syncvar_status(&var) == 0 && qthread_syncvar_readFF_nb(&of_var, &var) == QTHREAD_OPFAIL);
  CHECK(qthread_syncvar_readFE_nb(&of_var, &var) == QTHREAD_OPFAIL && qthread_syncvar_writeEF_const_nb(&var, 3) == 0);
  of_var = 1;
  CHECK(qthread_syncvar_writeEF_nb(&var, &of_var) == QTHREAD_OPFAIL && qthread_syncvar_readFF_nb(&of_var, &var) == 0);
  CHECK(of_var == 3 && var.u.s.data == 3 && var.u.s.state == 0);
  CHECK(qthread_syncvar_writeF(&var, &of_var) == 0 && qthread_syncvar_writeF_const(&var, 6) == 0);
  CHECK(qthread_syncvar_incrF(&var, 2) == 8 && qthread_syncvar_empty(&var) == 0 && var.u.s.state == 2);
  CHECK(qthread_syncvar_fill(&var) == 0 && qthread_syncvar_readFE_nb(&of_var, &var) == 0 && of_var == 8);

  /* Many wait for one word. */
  CHECK(qthread_empty(&word) == 0);
  for (index = 0; index < 16; index++) {
    CHECK(qthread_fork(index < 12 ? read_full : write_full, &same, &rets[index]) == 0);
  }
  qthread_yield();
  CHECK(qthread_writeEF_const(&word, 77) == 0);
  for (index = 0; index < 16; index++) {
    CHECK(qthread_readFF(&value, &rets[index]) == 0 && value == (index < 12 ? 77 : 0));
  }

  /* One after the other. */
  CHECK(qthread_empty(&word) == 0 && qthread_fork(produce, NULL, &rets[0]) == 0);
  for (index = 1; index <= COUNT; index++) {
    CHECK(qthread_readFE(&value, &word) == 0 && value == (aligned_t)index);
    CHECK(qthread_syncvar_readFE(&of_var, &var) == 0 && of_var == (uint64_t)index);
    sum += value;
  }
  CHECK(qthread_readFF(NULL, &rets[0]) == 0 && sum == COUNT * (COUNT + 1) / 2);
  CHECK(qthread_syncvar_writeEF_const(&var, 1) == 0);

  /* Locks. */
  CHECK(qthread_trylock(&turns[0]) == 0 && qthread_trylock(&turns[0]) == QTHREAD_OPFAIL && qthread_unlock(&turns[0]) == 0);
  for (index = 0; index < 8; index++) {
    CHECK(qthread_fork(locked, NULL, &rets[index]) == 0);
  }
  for (index = 0; index < 8; index++) {
    CHECK(qthread_readFF(NULL, &rets[index]) == 0);
  }
  CHECK(total == 8 * COUNT && spun == total);
  CHECK(qthread_spinlock_init(&mutex, true) == 0 && qthread_spinlock_trylock(&mutex) == 0);
  CHECK(qthread_spinlock_lock(&mutex) == 0 && qthread_spinlock_unlock(&mutex) == 0 && qthread_spinlock_unlock(&mutex) == 0);
  CHECK(qthread_spinlock_unlock(&mutex) == QTHREAD_OPFAIL && qthread_spinlock_destroy(&mutex) == 0);
  CHECK(qthread_lock_init(&total, true) == 0 && qthread_lock(&total) == 0 && qthread_lock(&total) == 0);
  CHECK(qthread_trylock(&total) == 0 && qthread_unlock(&total) == 0 && qthread_unlock(&total) == 0);
  CHECK(qthread_unlock(&total) == 0 && qthread_unlock(&total) == QTHREAD_OPFAIL && qthread_lock_destroy(&total) == 0);

  /* Back and forth. */
  CHECK(qthread_empty(&turns[0]) == 0 && qthread_empty(&turns[1]) == 0);
  CHECK(qthread_fork(ping, (void *)0, &rets[0]) == 0 && qthread_fork(ping, (void *)1, &rets[1]) == 0);
  CHECK(qthread_writeEF_const(&turns[0], 0) == 0 && qthread_readFF(NULL, &rets[0]) == 0 && qthread_readFF(NULL, &rets[1]) == 0);
  CHECK(qthread_fill(&turns[0]) == 0);

  /* Numbers. */
  {
    float f = 1;
    double d = 1;
    uint32_t small = 1;
    uint64_t large = 1;
    int here = 0;
    int *pointer = NULL;
    CHECK(qthread_fincr(&f, 2) == 1 && f == 3 && qthread_dincr(&d, 2) == 1 && d == 3);
    CHECK(qthread_incr32(&small, 2) == 1 && qthread_incr64(&large, 2) == 1 && qthread_incr(&large, 1) == 3);
    CHECK(qthread_incr_xx(&small, 1, 4) == 3 && qthread_incr_xx(&large, 1, 8) == 4);
    CHECK(qthread_cas(&large, 5, 6) == 5 && qthread_cas32(&small, 4, 5) == 4 && qthread_cas64(&large, 5, 7) == 6);
    CHECK(qthread_cas_ptr(&pointer, NULL, &here) == NULL && pointer == &here);
  }
  CHECK(INT60TOINT64(INT64TOINT60((int64_t)-5)) == -5 && INT60TOINT64(INT64TOINT60((int64_t)5)) == 5);
  puts("ok");
  return 0;
}
