/*
 * Lightweight threads and full/empty bits: the interface of Qthreads 1.2x over the threads of Vicus.
 *
 * Programs that were written for Qthreads are compiled against this header without a change, and linked with libvicus_qthreads
 * (`pkg-config --cflags --libs qthread`). Functions return QTHREAD_SUCCESS or one of the codes below it.
 *
 * A word (`aligned_t`, at a multiple of 8) is full until it is emptied. F in a name is full, E is empty, X is either: the first letter
 * says what the function waits for, the second what it leaves behind.
 */
#ifndef _QTHREAD_H_
#define _QTHREAD_H_

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__cplusplus) && __cplusplus < 202302L
#include <atomic>
#define QT_Atomic(T) std::atomic<T>
using std::atomic_load_explicit;
using std::memory_order_relaxed;
#else
#include <stdatomic.h>
#define QT_Atomic(T) _Atomic(T)
#endif

#include "common.h"
#include "macros.h"

/* -- Codes ------------------------------------------------------------------------------------------------------------------- */

#define QTHREAD_SUCCESS 0
#define QTHREAD_BADARGS -1
#define QTHREAD_PTHREAD_ERROR -2
#define QTHREAD_NOT_ALLOWED -3
#define QTHREAD_MALLOC_ERROR ENOMEM
#define QTHREAD_THIRD_PARTY_ERROR -4
#define QTHREAD_TIMEOUT -5
#ifdef EOVERFLOW
#define QTHREAD_OVERFLOW EOVERFLOW
#else
#define QTHREAD_OVERFLOW -6
#endif
#define QTHREAD_OPFAIL -7

#define NO_SHEPHERD ((qthread_shepherd_id_t) - 1)
#define NO_WORKER ((qthread_worker_id_t) - 1)

/* The version whose interface this is. */
#define QTHREAD_RELEASE_TYPE_ALPHA 0
#define QTHREAD_RELEASE_TYPE_BETA 1
#define QTHREAD_RELEASE_TYPE_RC 2
#define QTHREAD_RELEASE_TYPE_PATCH 3
#define QTHREAD_VERSION "1.23"
#define QTHREAD_NUMVERSION 012300300
#define QTHREADS_GET_VERSION(MAJOR, MINOR, REVISION, TYPE, PATCH) \
  ((MAJOR) * 10000000 + (MINOR) * 100000 + (REVISION) * 1000 + (TYPE) * 100 + (PATCH))

#if defined(__cplusplus) && __cplusplus < 202302L
#define MACHINE_FENCE std::atomic_thread_fence(std::memory_order_acq_rel);
#else
#define MACHINE_FENCE atomic_thread_fence(memory_order_acq_rel);
#endif

/* -- Types ------------------------------------------------------------------------------------------------------------------- */

#if UINTPTR_MAX != UINT64_MAX
#error "words have 64 bits"
#endif
#define QTHREAD_BITS 64
typedef uint64_t aligned_t;
typedef uint32_t haligned_t;
typedef int64_t saligned_t;
#define QTHREAD_ALIGNMENT_ALIGNED_T (sizeof(aligned_t))
#define QALIGN(d, s) (s) = (d)

/* A value of 60 bits with its full/empty bit. State 0 is full, 2 is empty, and one more while threads wait. */
typedef struct _syncvar_s {
  union {
    uint64_t w;
    struct {
      unsigned lock : 1;
      unsigned state : 3;
      uint64_t data : 60;
    } s;
  } u;
} syncvar_t;

#define SYNCVAR_STATIC_INITIALIZER {{0}}
#define SYNCVAR_STATIC_EMPTY_INITIALIZER {{(uint64_t)2 << 1}}
#define SYNCVAR_STATIC_INITIALIZE_TO(value) {{(uint64_t)(value) << 4}}
#define SYNCVAR_STATIC_EMPTY_INITIALIZE_TO(value) {{(uint64_t)(value) << 4 | (uint64_t)2 << 1}}
#define SYNCVAR_INITIALIZER ((syncvar_t)SYNCVAR_STATIC_INITIALIZER)
#define SYNCVAR_EMPTY_INITIALIZER ((syncvar_t)SYNCVAR_STATIC_EMPTY_INITIALIZER)
#define SYNCVAR_INITIALIZE_TO(value) ((syncvar_t)SYNCVAR_STATIC_INITIALIZE_TO(value))
#define SYNCVAR_EMPTY_INITIALIZE_TO(value) ((syncvar_t)SYNCVAR_STATIC_EMPTY_INITIALIZE_TO(value))

/* Values of other types in 60 bits. */
#define INT64TOINT60(x) ((uint64_t)(x) & UINT64_C(0xfffffffffffffff))
#define INT60TOINT64(x) ((int64_t)((uint64_t)(x) << 4) >> 4)
#define DBL64TODBL60(in, out)                                                                                                          \
  do {                                                                                                                                 \
    memcpy(&(out), &(in), 8);                                                                                                          \
    (out) >>= 4;                                                                                                                       \
  } while (0)
#define DBL60TODBL64(in, out)                                                                                                          \
  do {                                                                                                                                 \
    (in) <<= 4;                                                                                                                        \
    memcpy(&(out), &(in), 8);                                                                                                          \
  } while (0)

typedef unsigned short qthread_shepherd_id_t;
typedef unsigned short qthread_worker_id_t;

/* What a thread runs. */
typedef aligned_t (*qthread_f)(void *arg);

Q_STARTCXX

/* -- The library ------------------------------------------------------------------------------------------------------------- */

/* Starts the workers; the calling thread becomes the first one of them. When it runs already, this does nothing. */
int qthread_initialize(void);
/* The same, with so many shepherds, if it is not 0. */
int qthread_init(qthread_shepherd_id_t nshepherds);
/* Ends the workers, when what is ready has run. Called at the program's end as well. It may be initialized again. */
void qthread_finalize(void);
/* Calls a function in the calling thread, and writes what it returns as the end of a thread with these flags does. */
void qthread_call_method(qthread_f f, void *arg, void *ret, uint16_t flags);

/* A shepherd that is disabled gets no new threads. The first one can't be. */
int qthread_disable_shepherd(qthread_shepherd_id_t shep);
void qthread_enable_shepherd(qthread_shepherd_id_t shep);
/* A worker that is disabled is not counted; the first one can't be. When all of a shepherd are, the shepherd is. */
int qthread_disable_worker(qthread_worker_id_t worker);
void qthread_enable_worker(qthread_worker_id_t worker);

/* -- Threads ----------------------------------------------------------------------------------------------------------------- */

/* Lets others run. */
void qthread_yield_(int kind);
#define qthread_yield()                                                                                                                \
  do {                                                                                                                                 \
    qthread_yield_(0);                                                                                                                 \
  } while (0)
#define qthread_yield_near()                                                                                                           \
  do {                                                                                                                                 \
    qthread_yield_(1);                                                                                                                 \
  } while (0)
/* Nothing is kept back, so nothing is done. */
void qthread_flushsc(void);

enum _qthread_features {
  SPAWN_PARENT,
  SPAWN_SIMPLE,
  SPAWN_NEW_TEAM,
  SPAWN_NEW_SUBTEAM,
  SPAWN_RET_SYNCVAR_T,
  SPAWN_RET_SINC,
  SPAWN_RET_SINC_VOID,
  SPAWN_PC_SYNCVAR_T,
  SPAWN_COUNT,
  SPAWN_LOCAL_PRIORITY,
  SPAWN_NETWORK
};

#define QTHREAD_SPAWN_PARENT (1 << SPAWN_PARENT)
#define QTHREAD_SPAWN_SIMPLE (1 << SPAWN_SIMPLE)
#define QTHREAD_SPAWN_NEW_TEAM (1 << SPAWN_NEW_TEAM)
#define QTHREAD_SPAWN_NEW_SUBTEAM (1 << SPAWN_NEW_SUBTEAM)
#define QTHREAD_SPAWN_RET_SYNCVAR_T (1 << SPAWN_RET_SYNCVAR_T)
#define QTHREAD_SPAWN_RET_SINC (1 << SPAWN_RET_SINC)
#define QTHREAD_SPAWN_RET_SINC_VOID (1 << SPAWN_RET_SINC_VOID)
#define QTHREAD_SPAWN_PC_SYNCVAR_T (1 << SPAWN_PC_SYNCVAR_T)
#define QTHREAD_SPAWN_LOCAL_PRIORITY (1 << SPAWN_LOCAL_PRIORITY)
#define QTHREAD_SPAWN_NETWORK (1 << SPAWN_NETWORK)

/*
 * All ways to fork are this one. `arg_size` bytes behind `arg` are copied, or none if it is 0. `ret`, if it is not null, is emptied now
 * and written full when the thread ends; flags say what it points to. The thread begins when all words of `preconds` are full: a block
 * from malloc(), which is given away, with the number of words, then their addresses: of syncvars with QTHREAD_SPAWN_PC_SYNCVAR_T.
 * NO_SHEPHERD leaves the shepherd to the strategy; other numbers are taken modulo the number of shepherds. If it fails, `ret` is as it was.
 */
int qthread_spawn(qthread_f f, const void *arg, size_t arg_size, void *ret, size_t npreconds, void *preconds,
                  qthread_shepherd_id_t target_shep, unsigned int feature_flag);

int qthread_fork(qthread_f f, const void *arg, aligned_t *ret);
int qthread_fork_net(qthread_f f, const void *arg, aligned_t *ret);
int qthread_fork_to(qthread_f f, const void *arg, aligned_t *ret, qthread_shepherd_id_t shepherd);
int qthread_fork_syncvar(qthread_f f, const void *arg, syncvar_t *ret);
int qthread_fork_syncvar_to(qthread_f f, const void *arg, syncvar_t *ret, qthread_shepherd_id_t shepherd);
int qthread_fork_copyargs(qthread_f f, const void *arg, size_t arg_size, aligned_t *ret);
/* `ret` is a word, whatever its type says. */
int qthread_fork_copyargs_to(qthread_f f, const void *arg, size_t arg_size, syncvar_t *ret, qthread_shepherd_id_t preferred_shep);
int qthread_fork_syncvar_copyargs(qthread_f f, const void *arg, size_t arg_size, syncvar_t *ret);
int qthread_fork_syncvar_copyargs_simple(qthread_f f, const void *arg, size_t arg_size, syncvar_t *ret);

/*
 * Threads with preconditions. If `npreconds` is positive, so many addresses follow; if it is negative, an array of as many as it is without
 * its sign.
 */
static inline void *vicus_qthread_preconds(int *npreconds, va_list list) {
  size_t count = (size_t)(*npreconds < 0 ? -(long)*npreconds : *npreconds), index;
  aligned_t **words;
  if (count == 0) {
    return NULL;
  }
  words = (aligned_t **)malloc((count + 1) * sizeof(aligned_t *));
  if (words == NULL) {
    return NULL;
  }
  words[0] = (aligned_t *)(uintptr_t)count;
  if (*npreconds < 0) {
    memcpy(words + 1, va_arg(list, aligned_t **), count * sizeof(aligned_t *));
    *npreconds = (int)count;
  } else {
    for (index = 1; index <= count; index++) {
      words[index] = va_arg(list, aligned_t *);
    }
  }
  return words;
}

#define VICUS_QTHREAD_FORK_PRECOND(f, arg, size, ret, shep, flags)                                                                     \
  va_list list;                                                                                                                        \
  void *words;                                                                                                                         \
  va_start(list, npreconds);                                                                                                           \
  words = vicus_qthread_preconds(&npreconds, list);                                                                                    \
  va_end(list);                                                                                                                        \
  if (words == NULL && npreconds != 0) {                                                                                               \
    return QTHREAD_MALLOC_ERROR;                                                                                                       \
  }                                                                                                                                    \
  return qthread_spawn((f), (arg), (size), (ret), (size_t)npreconds, words, (shep), (flags))

static inline int qthread_fork_precond(qthread_f f, const void *arg, aligned_t *ret, int npreconds, ...) {
  VICUS_QTHREAD_FORK_PRECOND(f, arg, 0, ret, NO_SHEPHERD, 0);
}
static inline int qthread_fork_precond_simple(qthread_f f, const void *arg, aligned_t *ret, int npreconds, ...) {
  VICUS_QTHREAD_FORK_PRECOND(f, arg, 0, ret, NO_SHEPHERD, QTHREAD_SPAWN_SIMPLE);
}
static inline int qthread_fork_precond_to(qthread_f f, const void *arg, aligned_t *ret, qthread_shepherd_id_t shepherd, int npreconds,
                                          ...) {
  VICUS_QTHREAD_FORK_PRECOND(f, arg, 0, ret, shepherd, 0);
}
static inline int qthread_fork_copyargs_precond(qthread_f f, const void *arg, size_t arg_size, syncvar_t *ret, int npreconds, ...) {
  VICUS_QTHREAD_FORK_PRECOND(f, arg, arg_size, ret, NO_SHEPHERD, QTHREAD_SPAWN_RET_SYNCVAR_T);
}
#undef VICUS_QTHREAD_FORK_PRECOND

/* Goes to another shepherd. The main thread stays where it is: QTHREAD_NOT_ALLOWED. */
int qthread_migrate_to(const qthread_shepherd_id_t shepherd);
/* Threads that name no shepherd are dealt to the first one again, where the strategy deals them in turn. */
void qthread_reset_target_shep(void);

/* -- What a thread knows of itself ------------------------------------------------------------------------------------------- */

#define QTHREAD_NULL_TASK_ID UINT_MAX
#define QTHREAD_NON_TASK_ID 0
#define QTHREAD_DEFAULT_TEAM_ID 1
#define QTHREAD_NON_TEAM_ID 0
#define QTHREAD_NULL_TEAM_ID UINT_MAX

/* From 1, in the order in which threads first ask; QTHREAD_NON_TASK_ID outside of threads. */
unsigned qthread_id(void);
/* NO_SHEPHERD outside of threads, and in a blocking action. */
qthread_shepherd_id_t qthread_shep(void);
/* The worker that runs the thread, counted over all shepherds, and the shepherd, if `s` is not null. */
qthread_worker_id_t qthread_worker(qthread_shepherd_id_t *s);
qthread_worker_id_t qthread_worker_unique(qthread_shepherd_id_t *s);
/* Counted within the shepherd. */
qthread_worker_id_t qthread_worker_local(qthread_shepherd_id_t *s);

/* At least so many bytes that belong to the thread; what was there stays. */
void *qthread_get_tasklocal(unsigned int size);
unsigned qthread_size_tasklocal(void);

/* The highest and the lowest address of the stack; null outside of threads, and in the main thread. */
void *qthread_tos(void);
void *qthread_bos(void);
/* How many bytes of the stack are left; 0 where the stack is not known. */
size_t qthread_stackleft(void);
/* Where its result goes. */
aligned_t *qthread_retloc(void);
/* Whether the shepherd is enabled. */
int qthread_shep_ok(void);

/* -- Shepherds --------------------------------------------------------------------------------------------------------------- */

void qthread_shep_next(qthread_shepherd_id_t *shep);
void qthread_shep_prev(qthread_shepherd_id_t *shep);
void qthread_shep_next_local(qthread_shepherd_id_t *shep);
void qthread_shep_prev_local(qthread_shepherd_id_t *shep);

/* QTHREAD_BADARGS (-1) if there is no such shepherd. */
int qthread_distance(const qthread_shepherd_id_t src, const qthread_shepherd_id_t dest);
/* All other shepherds, the nearest first. Null outside of threads, or if there is none. */
const qthread_shepherd_id_t *qthread_sorted_sheps(void);
const qthread_shepherd_id_t *qthread_sorted_sheps_remote(const qthread_shepherd_id_t src);
/* Those that are enabled. */
qthread_shepherd_id_t qthread_num_shepherds(void);
qthread_worker_id_t qthread_num_workers(void);
qthread_worker_id_t qthread_num_workers_local(qthread_shepherd_id_t shepherd_id);

enum introspective_state {
  STACK_SIZE,
  RUNTIME_DATA_SIZE,
  BUSYNESS,
  NODE_BUSYNESS,
  ACTIVE_SHEPHERDS,
  TOTAL_SHEPHERDS,
  ACTIVE_WORKERS,
  TOTAL_WORKERS,
  WORKER_OCCUPATION,
  CURRENT_SHEPHERD,
  CURRENT_WORKER,
  CURRENT_UNIQUE_WORKER,
  CURRENT_TEAM,
  PARENT_TEAM
};

size_t qthread_readstate(const enum introspective_state type);

/* -- Teams ------------------------------------------------------------------------------------------------------------------- */

typedef enum qt_team_critical_section_e { BEGIN, END } qt_team_critical_section_t;

unsigned int qt_team_id(void);
unsigned int qt_team_parent_id(void);
void qt_team_critical_section(qt_team_critical_section_t boundary);

#define qthread_fork_new_team(f, a, r) qthread_spawn((f), (a), 0, (r), 0, NULL, NO_SHEPHERD, QTHREAD_SPAWN_NEW_TEAM)
#define qthread_fork_new_subteam(f, a, r) qthread_spawn((f), (a), 0, (r), 0, NULL, NO_SHEPHERD, QTHREAD_SPAWN_NEW_SUBTEAM)
#define qthread_fork_new_team_to(f, a, r, p) qthread_spawn((f), (a), 0, (r), 0, NULL, (p), QTHREAD_SPAWN_NEW_TEAM)
#define qthread_fork_syncvar_new_team(f, a, r)                                                                                         \
  qthread_spawn((f), (a), 0, (r), 0, NULL, NO_SHEPHERD, QTHREAD_SPAWN_NEW_TEAM | QTHREAD_SPAWN_RET_SYNCVAR_T)
#define qthread_fork_syncvar_new_subteam(f, a, r)                                                                                      \
  qthread_spawn((f), (a), 0, (r), 0, NULL, NO_SHEPHERD, QTHREAD_SPAWN_NEW_SUBTEAM | QTHREAD_SPAWN_RET_SYNCVAR_T)
#define qthread_fork_copyargs_new_team(f, a, z, r) qthread_spawn((f), (a), (z), (r), 0, NULL, NO_SHEPHERD, QTHREAD_SPAWN_NEW_TEAM)
#define qthread_fork_copyargs_new_subteam(f, a, z, r)                                                                                  \
  qthread_spawn((f), (a), (z), (r), 0, NULL, NO_SHEPHERD, QTHREAD_SPAWN_NEW_SUBTEAM)
#define qthread_fork_syncvar_copyargs_to(f, a, z, r, p)                                                                                \
  qthread_spawn((f), (a), (z), (r), 0, NULL, (p), QTHREAD_SPAWN_RET_SYNCVAR_T)

/* -- Queues in which threads wait -------------------------------------------------------------------------------------------- */

struct qthread_queue_s;
typedef struct qthread_queue_s *qthread_queue_t;

#define QTHREAD_QUEUE_NO_SYNCH (1 << 0)
#define QTHREAD_QUEUE_MULTI_JOIN (1 << 1)
#define QTHREAD_QUEUE_MULTI_JOIN_LENGTH (1 << 2)
#define QTHREAD_QUEUE_CAPPED (1 << 3)

/* No flag is QTHREAD_QUEUE_NO_SYNCH. One that is capped, and not for many that join, takes `length` threads at once; the next gets QTHREAD_OPFAIL. */
qthread_queue_t qthread_queue_create(uint8_t flags, aligned_t length);
int qthread_queue_join(qthread_queue_t q);
aligned_t qthread_queue_length(qthread_queue_t q);
int qthread_queue_release_one(qthread_queue_t q);
int qthread_queue_release_all(qthread_queue_t q);
int qthread_queue_destroy(qthread_queue_t q);

/* -- Full/empty bits --------------------------------------------------------------------------------------------------------- */

/* 1 for a full word. */
int qthread_feb_status(const aligned_t *addr);
int qthread_syncvar_status(syncvar_t *const v);

int qthread_empty(const aligned_t *dest);
int qthread_syncvar_empty(syncvar_t *restrict dest);
int qthread_fill(const aligned_t *dest);
int qthread_syncvar_fill(syncvar_t *restrict dest);

int qthread_writeEF(aligned_t *restrict dest, const aligned_t *restrict src);
int qthread_writeEF_const(aligned_t *dest, const aligned_t src);
int qthread_writeEF_nb(aligned_t *restrict dest, const aligned_t *restrict src);
int qthread_writeEF_const_nb(aligned_t *dest, const aligned_t src);
/* A value of more than 60 bits is refused: QTHREAD_OVERFLOW. */
int qthread_syncvar_writeEF(syncvar_t *restrict dest, const uint64_t *restrict src);
int qthread_syncvar_writeEF_const(syncvar_t *restrict dest, uint64_t src);
int qthread_syncvar_writeEF_nb(syncvar_t *restrict dest, const uint64_t *restrict src);
int qthread_syncvar_writeEF_const_nb(syncvar_t *restrict dest, uint64_t src);

int qthread_writeF(aligned_t *dest, const aligned_t *src);
int qthread_writeF_const(aligned_t *dest, aligned_t src);
int qthread_syncvar_writeF(syncvar_t *restrict dest, const uint64_t *restrict src);
int qthread_syncvar_writeF_const(syncvar_t *restrict dest, uint64_t src);

/* Empties the word and makes it 0, or another value. */
int qthread_purge(aligned_t *dest);
int qthread_purge_to(aligned_t *restrict dest, const aligned_t *restrict src);
int qthread_purge_to_const(aligned_t *dest, aligned_t value);

int qthread_writeFF(aligned_t *restrict dest, const aligned_t *restrict src);
int qthread_writeFF_const(aligned_t *dest, aligned_t src);

/* `dest` may be null. Those that end in nb don't wait: QTHREAD_OPFAIL. */
int qthread_readFF(aligned_t *dest, const aligned_t *src);
int qthread_readFF_nb(aligned_t *dest, const aligned_t *src);
int qthread_syncvar_readFF(uint64_t *restrict dest, syncvar_t *restrict src);
int qthread_syncvar_readFF_nb(uint64_t *restrict dest, syncvar_t *restrict src);
int qthread_readFE(aligned_t *dest, const aligned_t *src);
int qthread_readFE_nb(aligned_t *dest, const aligned_t *src);
int qthread_syncvar_readFE(uint64_t *restrict dest, syncvar_t *restrict src);
int qthread_syncvar_readFE_nb(uint64_t *restrict dest, syncvar_t *restrict src);
int qthread_readXX(aligned_t *dest, const aligned_t *src);

/* -- Locks ------------------------------------------------------------------------------------------------------------------- */

/* A word as a lock: it is locked while it is empty. */
int qthread_lock(const aligned_t *a);
int qthread_unlock(const aligned_t *a);
/* QTHREAD_OPFAIL if it is locked. */
int qthread_trylock(const aligned_t *a);
/* The word is open, and from now on the thread that has locked it may lock it again, until qthread_lock_destroy. */
int qthread_lock_init(const aligned_t *a, const bool is_recursive);
int qthread_lock_destroy(aligned_t *a);

#define QTHREAD_SPINLOCK_IS_RECURSIVE (-1)
#define QTHREAD_SPINLOCK_IS_NOT_RECURSIVE (-2)

typedef union qt_spin_trylock_s {
  aligned_t u;
  struct {
    QT_Atomic(haligned_t) ticket;
    QT_Atomic(haligned_t) users;
  } s;
} qt_spin_trylock_t;

typedef struct {
  int64_t s;
  int64_t count;
} qthread_spinlock_state_t;

typedef struct {
  qt_spin_trylock_t lock;
  qthread_spinlock_state_t state;
} qthread_spinlock_t;

#define QTHREAD_MUTEX_INITIALIZER {{0}, {QTHREAD_SPINLOCK_IS_NOT_RECURSIVE, 0}}
#define QTHREAD_RECURSIVE_MUTEX_INITIALIZER {{0}, {QTHREAD_SPINLOCK_IS_RECURSIVE, 0}}

int qthread_spinlock_init(qthread_spinlock_t *a, const bool is_recursive);
int qthread_spinlock_destroy(qthread_spinlock_t *a);
int qthread_spinlock_lock(qthread_spinlock_t *a);
int qthread_spinlock_unlock(qthread_spinlock_t *a);
int qthread_spinlock_trylock(qthread_spinlock_t *a);

/* -- Numbers that many threads change ---------------------------------------------------------------------------------------- */

uint64_t qthread_syncvar_incrF(syncvar_t *restrict operand, uint64_t inc);

/* Each gives what was there before. */
static inline float qthread_fincr(float *operand, float incr) {
  uint32_t seen = __atomic_load_n((uint32_t *)(void *)operand, __ATOMIC_RELAXED), wanted;
  float before, after;
  do {
    memcpy(&before, &seen, sizeof before);
    after = before + incr;
    memcpy(&wanted, &after, sizeof wanted);
  } while (!__atomic_compare_exchange_n((uint32_t *)(void *)operand, &seen, wanted, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  return before;
}
static inline double qthread_dincr(double *operand, double incr) {
  uint64_t seen = __atomic_load_n((uint64_t *)(void *)operand, __ATOMIC_RELAXED), wanted;
  double before, after;
  do {
    memcpy(&before, &seen, sizeof before);
    after = before + incr;
    memcpy(&wanted, &after, sizeof wanted);
  } while (!__atomic_compare_exchange_n((uint64_t *)(void *)operand, &seen, wanted, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  return before;
}
static inline uint32_t qthread_incr32(uint32_t *operand, uint32_t incr) { return __sync_fetch_and_add(operand, incr); }
static inline uint64_t qthread_incr64(uint64_t *operand, uint64_t incr) { return __sync_fetch_and_add(operand, incr); }
static inline int64_t qthread_incr_xx(void *addr, int64_t incr, size_t length) {
  switch (length) {
    case 4: return qthread_incr32((uint32_t *)addr, (uint32_t)incr);
    case 8: return (int64_t)qthread_incr64((uint64_t *)addr, (uint64_t)incr);
    default: QTHREAD_TRAP();
  }
  return 0;
}
#define qthread_incr(ADDR, INCVAL) __sync_fetch_and_add((ADDR), (INCVAL))
#define qthread_cas(ADDR, OLDV, NEWV) __sync_val_compare_and_swap((ADDR), (OLDV), (NEWV))
#define qthread_cas32(ADDR, OLDV, NEWV) __sync_val_compare_and_swap((ADDR), (OLDV), (NEWV))
#define qthread_cas64(ADDR, OLDV, NEWV) __sync_val_compare_and_swap((ADDR), (OLDV), (NEWV))
#define qthread_cas_ptr(ADDR, OLDV, NEWV) ((void *)__sync_val_compare_and_swap((ADDR), (OLDV), (NEWV)))

Q_ENDCXX

#ifdef __cplusplus
extern "C++" {
#include "qthread.hpp"
}
#endif

#endif
