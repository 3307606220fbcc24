/* Macros, constants and flags. */
#include "check.h"
#include <qthread/barrier.h>
#include <qthread/dictionary.h>
#include <qthread/hash.h>
#include <qthread/performance.h>
#include <qthread/qthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef DELETE_SUPPORT
#error "entries of dictionaries can be deleted"
#endif
#ifndef BITFIELD_ORDER_REVERSE
#error "bit fields begin at the lowest bit"
#endif

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

Q_STARTCXX
static QT_Atomic(int) called;
Q_ENDCXX

/* Numbers by which programs tell apart what they got. */
static void constants(void) {
  int codes[] = {QTHREAD_SUCCESS,           QTHREAD_BADARGS, QTHREAD_PTHREAD_ERROR, QTHREAD_NOT_ALLOWED, QTHREAD_MALLOC_ERROR,
                 QTHREAD_THIRD_PARTY_ERROR, QTHREAD_TIMEOUT, QTHREAD_OVERFLOW,      QTHREAD_OPFAIL};
  int processors[] = {QTHREAD_UNSUPPORTED, QTHREAD_IA32,       QTHREAD_AMD64, QTHREAD_POWERPC32,
                      QTHREAD_POWERPC64,   QTHREAD_ARM,        QTHREAD_RISCV, QTHREAD_ARMV8_A64};
  int flags[] = {QTHREAD_SPAWN_PARENT,     QTHREAD_SPAWN_SIMPLE,        QTHREAD_SPAWN_NEW_TEAM,     QTHREAD_SPAWN_NEW_SUBTEAM,
                 QTHREAD_SPAWN_RET_SYNCVAR_T, QTHREAD_SPAWN_RET_SINC,   QTHREAD_SPAWN_RET_SINC_VOID, QTHREAD_SPAWN_PC_SYNCVAR_T,
                 1 << SPAWN_COUNT,         QTHREAD_SPAWN_LOCAL_PRIORITY, QTHREAD_SPAWN_NETWORK};
  size_t one, other;
  for (one = 0; one < sizeof codes / sizeof *codes; one++) {
    for (other = 0; other < one; other++) CHECK(codes[one] != codes[other]);
  }
  for (one = 0; one < sizeof processors / sizeof *processors; one++) {
    for (other = 0; other < one; other++) CHECK(processors[one] != processors[other]);
  }
  for (one = 0; one < sizeof flags / sizeof *flags; one++) CHECK(flags[one] == 1 << one);
  CHECK(QTHREAD_ASSEMBLY_ARCH != QTHREAD_UNSUPPORTED && QTHREAD_BITS == 8 * sizeof(aligned_t));
  CHECK(QTHREAD_ALIGNMENT_ALIGNED_T == sizeof(aligned_t) && GOLDEN_RATIO % 2 == 1);
  CHECK(QTHREAD_NULL_TASK_ID == UINT_MAX && QTHREAD_NULL_TEAM_ID == UINT_MAX);
  /* The version, by the digits of Qthreads' number, and as a text. */
  CHECK(QTHREAD_RELEASE_TYPE_ALPHA < QTHREAD_RELEASE_TYPE_BETA && QTHREAD_RELEASE_TYPE_BETA < QTHREAD_RELEASE_TYPE_RC);
  CHECK(QTHREAD_RELEASE_TYPE_RC < QTHREAD_RELEASE_TYPE_PATCH && strcmp(QTHREAD_VERSION, "1.23") == 0);
  CHECK(QTHREADS_GET_VERSION(1, 23, 0, QTHREAD_RELEASE_TYPE_PATCH, 0) == strtol(TEXT(QTHREAD_NUMVERSION), NULL, 10));
  CHECK(QTHREADS_GET_VERSION(1, 22, 9, QTHREAD_RELEASE_TYPE_PATCH, 99) < QTHREADS_GET_VERSION(1, 23, 0, QTHREAD_RELEASE_TYPE_ALPHA, 0));
  QTPERF_ASSERT(0);
  QTPERF_WARN(0);
}

/* Values in 60 bits. */
static void values(void) {
  static syncvar_t full = SYNCVAR_STATIC_INITIALIZE_TO(7), empty = SYNCVAR_STATIC_EMPTY_INITIALIZE_TO(8);
  static double const doubles[] = {0, 1.5, -1.5, 1e300, -2.5e-300, 0.1, -123456.789};
  syncvar_t assigned = SYNCVAR_INITIALIZER;
  aligned_t d, s = 0;
  size_t index;
  uint64_t value;
  CHECK(qthread_syncvar_status(&full) == 1 && qthread_syncvar_readFF_nb(&value, &full) == 0 && value == 7);
  CHECK(qthread_syncvar_status(&empty) == 0 && empty.u.s.data == 8 && empty.u.w >> 4 == 8);
  CHECK(qthread_syncvar_fill(&empty) == 0 && qthread_syncvar_readFE_nb(&value, &empty) == 0 && value == 8);
  CHECK(qthread_syncvar_status(&assigned) == 1 && assigned.u.s.data == 0);
  assigned = SYNCVAR_EMPTY_INITIALIZER;
  CHECK(qthread_syncvar_status(&assigned) == 0 && qthread_syncvar_writeEF_const_nb(&assigned, 3) == 0);
  assigned = SYNCVAR_EMPTY_INITIALIZE_TO(9);
  CHECK(qthread_syncvar_status(&assigned) == 0 && assigned.u.s.data == 9);
  assigned = SYNCVAR_INITIALIZE_TO(UINT64_C(0xfffffffffffffff));
  CHECK(qthread_syncvar_readFF_nb(&value, &assigned) == 0 && value == UINT64_C(0xfffffffffffffff));
  for (index = 0; index < sizeof doubles / sizeof *doubles; index++) {
    double before = doubles[index], after, difference;
    uint64_t bits;
    DBL64TODBL60(before, bits);
    CHECK(bits >> 60 == 0 && qthread_syncvar_writeF_const(&assigned, bits) == 0 && qthread_syncvar_readFF(&bits, &assigned) == 0);
    DBL60TODBL64(bits, after);
    difference = after > before ? after - before : before - after;
    CHECK(difference <= (before < 0 ? -before : before) * 1e-14);
    CHECK(index > 2 || after == before);
  }
  d = 5;
  QALIGN(d, s);
  CHECK(s == 5);
}

static void traps(void) {
  struct rlimit none = {0, 0};
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    setrlimit(RLIMIT_CORE, &none);
    QTHREAD_TRAP();
  }
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

static aligned_t counts(void *arg) {
  (void)arg;
  called++;
  MACHINE_FENCE
  return 4;
}

/* Those that say how a thread is to be scheduled change nothing else. */
static void spawns(void) {
  unsigned flags[] = {0, QTHREAD_SPAWN_PARENT, QTHREAD_SPAWN_SIMPLE, QTHREAD_SPAWN_LOCAL_PRIORITY, QTHREAD_SPAWN_NETWORK,
                      QTHREAD_SPAWN_PARENT | QTHREAD_SPAWN_SIMPLE | QTHREAD_SPAWN_LOCAL_PRIORITY | QTHREAD_SPAWN_NETWORK,
                      QTHREAD_SPAWN_NEW_TEAM, QTHREAD_SPAWN_NEW_SUBTEAM};
  size_t index;
  aligned_t ret;
  for (index = 0; index < sizeof flags / sizeof *flags; index++) {
    CHECK(qthread_spawn(counts, NULL, 0, &ret, 0, NULL, NO_SHEPHERD, flags[index]) == 0 && qthread_readFF(&ret, &ret) == 0 && ret == 4);
    CHECK(called == (int)index + 1);
  }
}

static aligned_t joins(void *arg) { return (aligned_t)(int64_t)qthread_queue_join(arg); }

static void queues(void) {
  uint8_t kinds[] = {QTHREAD_QUEUE_NO_SYNCH, QTHREAD_QUEUE_MULTI_JOIN, QTHREAD_QUEUE_MULTI_JOIN_LENGTH, QTHREAD_QUEUE_CAPPED, 0,
                     QTHREAD_QUEUE_CAPPED | QTHREAD_QUEUE_NO_SYNCH, QTHREAD_QUEUE_CAPPED | QTHREAD_QUEUE_MULTI_JOIN};
  aligned_t rets[4], value;
  size_t kind, index;
  for (kind = 0; kind < sizeof kinds; kind++) {
    qthread_queue_t queue = qthread_queue_create(kinds[kind], 3);
    CHECK(queue != NULL);
    for (index = 0; index < 3; index++) {
      CHECK(qthread_fork(joins, queue, &rets[index]) == 0);
      while (qthread_queue_length(queue) <= index) qthread_yield();
    }
    /* One more is too many for a queue that takes three. */
    CHECK(qthread_fork(joins, queue, &rets[3]) == 0);
    if (kinds[kind] == QTHREAD_QUEUE_CAPPED || kinds[kind] == (QTHREAD_QUEUE_CAPPED | QTHREAD_QUEUE_NO_SYNCH)) {
      CHECK(qthread_readFF(&value, &rets[3]) == 0 && (int)(int64_t)value == QTHREAD_OPFAIL && qthread_queue_length(queue) == 3);
    } else {
      while (qthread_queue_length(queue) < 4) qthread_yield();
    }
    CHECK(qthread_queue_release_one(queue) == 0 && qthread_queue_release_all(queue) == 0 && qthread_queue_length(queue) == 0);
    for (index = 0; index < 3; index++) CHECK(qthread_readFF(&value, &rets[index]) == 0 && value == 0);
    CHECK(qthread_readFF(NULL, &rets[3]) == 0 && qthread_queue_destroy(queue) == 0);
  }
}

static void locks(void) {
  static qthread_spinlock_t again = QTHREAD_RECURSIVE_MUTEX_INITIALIZER, once = QTHREAD_MUTEX_INITIALIZER;
  CHECK(again.state.s == QTHREAD_SPINLOCK_IS_RECURSIVE && once.state.s == QTHREAD_SPINLOCK_IS_NOT_RECURSIVE);
  CHECK(qthread_spinlock_lock(&again) == 0 && qthread_spinlock_lock(&again) == 0 && qthread_spinlock_trylock(&again) == 0);
  CHECK(qthread_spinlock_lock(&once) == 0 && qthread_spinlock_trylock(&once) == QTHREAD_OPFAIL && qthread_spinlock_unlock(&once) == 0);
  CHECK(qthread_spinlock_unlock(&again) == 0 && qthread_spinlock_unlock(&again) == 0 && qthread_spinlock_unlock(&again) == 0);
  CHECK(qthread_spinlock_unlock(&again) == QTHREAD_OPFAIL);
  CHECK(qthread_spinlock_init(&once, true) == 0 && once.state.s == QTHREAD_SPINLOCK_IS_RECURSIVE);
}

int main(void) {
  CHECK(qthread_worker(NULL) == NO_WORKER);
  constants(), traps();
  CHECK(qthread_initialize() == 0);
  values(), spawns(), queues(), locks();
  puts("ok");
  return 0;
}
