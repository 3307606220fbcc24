/* Bad input: codes, and never a crash or a hang. */
#include "check.h"
#include <qthread/barrier.h>
#include <qthread/dictionary.h>
#include <qthread/qarray.h>
#include <qthread/qdqueue.h>
#include <qthread/qlfqueue.h>
#include <qthread/qloop.h>
#include <qthread/qpool.h>
#include <qthread/qswsrqueue.h>
#include <qthread/qtimer.h>
#include <qthread/qutil.h>
#include <qthread/sinc.h>
#include <qthread/wavefront.h>

static aligned_t nothing(void *arg) {
  (void)arg;
  return 0;
}

int main(void) {
  static aligned_t words[2];
  aligned_t *between = (aligned_t *)((char *)words + 4), ret = 0, value = 1;
  syncvar_t *split = (syncvar_t *)between, var = SYNCVAR_STATIC_EMPTY_INITIALIZER;
  qthread_shepherd_id_t shep = 1000;

  /* Before the library is there. */
  CHECK(qthread_fork(nothing, NULL, &ret) == QTHREAD_NOT_ALLOWED && qthread_feb_status(&ret) == 1);
  CHECK(qthread_num_shepherds() == 0 && qthread_num_workers() == 0 && qthread_readstate(STACK_SIZE) == (size_t)-1);
  CHECK(qthread_migrate_to(0) == QTHREAD_NOT_ALLOWED && qthread_disable_shepherd(1) == QTHREAD_NOT_ALLOWED);
  CHECK(qthread_distance(0, 0) == QTHREAD_NOT_ALLOWED && qthread_get_tasklocal(8) == NULL && qdqueue_create() == NULL);
  CHECK(qarray_create(10, 8) == NULL);
  qthread_yield();
  qthread_shep_next(&shep);
  qthread_finalize();
  CHECK(qthread_lock(&ret) == 0 && qthread_unlock(&ret) == 0);

  CHECK(qthread_initialize() == 0);
  /* No shepherd of that number: as for forks, which take it modulo how many there are, and for others, which refuse. */
  CHECK(qthread_fork_to(nothing, NULL, &ret, 1000) == 0 && qthread_readFF(NULL, &ret) == 0);
  CHECK(qthread_migrate_to(1000) == QTHREAD_BADARGS && qthread_migrate_to(qthread_num_shepherds() - 1) <= 0);
  CHECK(qthread_disable_shepherd(1000) == QTHREAD_BADARGS && qthread_disable_worker(1000) == QTHREAD_BADARGS);
  CHECK(qthread_distance(0, 1000) == QTHREAD_BADARGS && qthread_distance(1000, 0) == QTHREAD_BADARGS);
  CHECK(qthread_sorted_sheps_remote(1000) == NULL && qthread_num_workers_local(1000) == 0);
  qthread_enable_shepherd(1000);
  qthread_enable_worker(1000);
  /* Words that are none. */
  CHECK(qthread_empty(between) == QTHREAD_BADARGS && qthread_fill(NULL) == QTHREAD_BADARGS);
  CHECK(qthread_readFF(&ret, between) == QTHREAD_BADARGS && qthread_readFE(&ret, NULL) == QTHREAD_BADARGS);
  CHECK(qthread_writeEF_const(between, 1) == QTHREAD_BADARGS && qthread_writeEF(&ret, NULL) == QTHREAD_BADARGS);
  CHECK(qthread_writeF(between, &value) == QTHREAD_BADARGS && qthread_writeFF_const(NULL, 1) == QTHREAD_BADARGS);
  CHECK(qthread_lock(between) == QTHREAD_BADARGS && qthread_trylock(NULL) == QTHREAD_BADARGS && qthread_unlock(between) == QTHREAD_BADARGS);
  CHECK(qthread_fork(nothing, NULL, between) == QTHREAD_BADARGS && qthread_feb_status(NULL) == QTHREAD_BADARGS);
  CHECK(qthread_syncvar_empty(split) == QTHREAD_BADARGS && qthread_syncvar_readFF(NULL, NULL) == QTHREAD_BADARGS);
  CHECK(qthread_fork_syncvar(nothing, NULL, split) == QTHREAD_BADARGS);
  {
    aligned_t *few[2] = {&value, between}, full = 0;
    CHECK(qthread_fork_precond(nothing, NULL, &full, 1, (aligned_t *)NULL) == QTHREAD_BADARGS);
    CHECK(qthread_fork_precond(nothing, NULL, &full, 2, &value, between) == QTHREAD_BADARGS);
    CHECK(qthread_fork_precond_to(nothing, NULL, &full, 0, -2, few) == QTHREAD_BADARGS);
    CHECK(qthread_fork_precond_simple(nothing, NULL, &full, 1, between) == QTHREAD_BADARGS);
    CHECK(qthread_fork_copyargs_precond(nothing, &value, 8, (syncvar_t *)&full, 1, between) == QTHREAD_BADARGS);
    CHECK(qthread_feb_status(&full) == 1);
  }
  /* No function; a value that is too large; a lock that was not taken. */
  CHECK(qthread_fork(NULL, NULL, NULL) == QTHREAD_BADARGS);
  CHECK(qthread_syncvar_writeEF_const(&var, UINT64_MAX) == QTHREAD_OVERFLOW && qthread_syncvar_status(&var) == 0);
  CHECK(qthread_syncvar_writeF_const(&var, UINT64_MAX) == QTHREAD_OVERFLOW);
  CHECK(qthread_unlock(&words[0]) == QTHREAD_SUCCESS && qthread_trylock(&words[0]) == 0 && qthread_fill(&words[0]) == 0);
  CHECK(qthread_spinlock_lock(NULL) == QTHREAD_BADARGS && qthread_spinlock_unlock(NULL) == QTHREAD_BADARGS);
  CHECK(qthread_fork_copyargs(nothing, &value, (size_t)1 << 62, NULL) == QTHREAD_MALLOC_ERROR);
  /* Nothing where something is wanted. */
  qt_sinc_submit(NULL, NULL), qt_sinc_wait(NULL, NULL), qt_sinc_expect(NULL, 1), qt_sinc_reset(NULL, 1), qt_sinc_fini(NULL);
  qt_barrier_enter(NULL), qt_barrier_destroy(NULL), qt_barrier_resize(NULL, 1);
  CHECK(qthread_queue_join(NULL) == QTHREAD_BADARGS && qthread_queue_destroy(NULL) == QTHREAD_BADARGS);
  qt_loop(0, 10, NULL, NULL), qt_loop_balance(10, 0, NULL, NULL);
  CHECK(qt_loop_queue_create(CHUNK, 0, 1, 1, NULL, NULL) == NULL);
  qt_loop_queue_run(NULL);
  CHECK(qutil_uint_sum(NULL, 10, 0) == 0 && qutil_double_sum(NULL, 0, 1) == 0);
  qutil_qsort(NULL, 10);
  CHECK(qarray_create(0, 8) == NULL && qarray_create(8, 0) == NULL && qarray_create((size_t)-1, 64) == NULL);
  CHECK(qarray_create(8, (size_t)-1) == NULL && qarray_create((size_t)1 << 60, 8) == NULL && qarray_create((size_t)1 << 45, 8) == NULL);
  CHECK(qarray_create_configured(8, 8, (distribution_t)99, 0, 0) == NULL && qarray_shepof(NULL, 0) == NO_SHEPHERD);
  qarray_destroy(NULL), qarray_iter(NULL, 0, 1, nothing);
  CHECK(qpool_alloc(NULL) == NULL && qpool_create((size_t)-1) == NULL);
  qpool_free(NULL, NULL), qpool_destroy(NULL);
  CHECK(qlfqueue_enqueue(NULL, &ret) == QTHREAD_BADARGS && qlfqueue_dequeue(NULL) == NULL && qlfqueue_destroy(NULL) == QTHREAD_BADARGS);
  CHECK(qdqueue_enqueue(NULL, &ret) == QTHREAD_BADARGS && qdqueue_dequeue(NULL) == NULL);
  CHECK(qswsrqueue_enqueue(NULL, &ret) == QTHREAD_BADARGS && qswsrqueue_dequeue_blocking(NULL) == NULL);
  CHECK(qt_dictionary_create(NULL, NULL, NULL) == NULL && qt_dictionary_get(NULL, &ret) == NULL);
  CHECK(qt_wavefront(NULL, NULL, NULL) == NULL && qtimer_secs(NULL) == 0);
  CHECK(qthread_readstate((enum introspective_state)99) == (size_t)-1);
  qthread_call_method(NULL, NULL, NULL, 0);
  puts("ok");
  return 0;
}
