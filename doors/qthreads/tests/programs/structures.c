/* Sinks, barriers, queues of threads, loops, sums, sorting, arrays, pools, queues, dictionaries, pairs and tables. */
#include "check.h"
#include <pthread.h>
#include <qthread/allpairs.h>
#include <qthread/barrier.h>
#include <qthread/dictionary.h>
#include <qthread/hash.h>
#include <qthread/performance.h>
#include <qthread/qarray.h>
#include <qthread/qdqueue.h>
#include <qthread/qlfqueue.h>
#include <qthread/qloop.h>
#include <qthread/qpool.h>
#include <qthread/qswsrqueue.h>
#include <qthread/qutil.h>
#include <qthread/sinc.h>
#include <qthread/wavefront.h>
#include <string.h>
#include <unistd.h>

#define COUNT 1000
#define LONG 20000

static aligned_t total, marks[COUNT];

static void add_to(void *to, const void *from) { *(aligned_t *)to += *(const aligned_t *)from; }

static aligned_t submit(void *arg) {
  aligned_t value = 3;
  qthread_yield();
  qt_sinc_submit(arg, &value);
  return 0;
}

static void sinks(void) {
  aligned_t zero = 0, sum = 0;
  int index;
  qt_sinc_t *sinc = qt_sinc_create(sizeof sum, &zero, add_to, 20);
  CHECK(sinc != NULL);
  for (index = 0; index < 20; index++) CHECK(qthread_fork(submit, sinc, NULL) == 0);
  qt_sinc_wait(sinc, &sum);
  CHECK(sum == 60);
  qt_sinc_reset(sinc, 1);
  qt_sinc_expect(sinc, 1);
  *(aligned_t *)qt_sinc_tmpdata(sinc) += 5;
  qt_sinc_submit(sinc, NULL);
  CHECK(qthread_fork(submit, sinc, NULL) == 0);
  qt_sinc_wait(sinc, &sum);
  CHECK(sum == 8);
  qt_sinc_destroy(sinc);
}

static aligned_t come;

static aligned_t enter(void *arg) {
  int round;
  for (round = 1; round <= 5; round++) {
    qthread_incr(&come, 1);
    if (round % 2) qt_barrier_enter(arg);
    else qt_barrier_enter_id(arg, 0);
    CHECK(come >= (aligned_t)(6 * round));
    qt_barrier_enter(arg);
  }
  return 0;
}

static void barriers(void) {
  aligned_t rets[6];
  int index;
  qt_barrier_t *barrier = qt_barrier_create(3, REGION_BARRIER);
  qt_barrier_resize(barrier, 6);
  qt_set_barrier(barrier);
  CHECK(qt_get_barrier() == barrier);
  for (index = 0; index < 6; index++) CHECK(qthread_fork(enter, barrier, &rets[index]) == 0);
  for (index = 0; index < 6; index++) CHECK(qthread_readFF(NULL, &rets[index]) == 0);
  qt_barrier_dump(barrier, BOTHLOCKS);
  qt_barrier_destroy(barrier);
  CHECK(qt_get_barrier() == NULL);
}

static aligned_t join_queue(void *arg) { return (aligned_t)(unsigned)qthread_queue_join(arg); }

static void queues_of_threads(void) {
  aligned_t rets[10], value;
  int index;
  qthread_queue_t queue = qthread_queue_create(QTHREAD_QUEUE_MULTI_JOIN_LENGTH, 0);
  CHECK(queue != NULL);
  for (index = 0; index < 10; index++) CHECK(qthread_fork(join_queue, queue, &rets[index]) == 0);
  while (qthread_queue_length(queue) < 10) qthread_yield();
  CHECK(qthread_queue_release_one(queue) == 0 && qthread_queue_length(queue) == 9);
  CHECK(qthread_queue_release_all(queue) == 0 && qthread_queue_release_one(queue) == QTHREAD_OPFAIL);
  for (index = 0; index < 10; index++) CHECK(qthread_readFF(&value, &rets[index]) == 0 && value == 0);
  CHECK(qthread_queue_destroy(queue) == 0);
}

static void mark(const size_t from, const size_t to, void *arg) {
  size_t index;
  for (index = from; index < to; index++) qthread_incr(&((aligned_t *)arg)[index], 1);
}

static void step(void *arg) { qthread_incr((aligned_t *)arg, 1); }

static void sum_part(const size_t from, const size_t to, void *restrict arg, void *restrict ret) {
  size_t index;
  (void)arg;
  for (index = from; index < to; index++) *(aligned_t *)ret += index;
}

static void marked(aligned_t times) {
  size_t index;
  for (index = 0; index < COUNT; index++) CHECK(marks[index] == (index < 3 ? 0 : times));
}

static void loops(void) {
  static void (*const all[])(size_t, size_t, qt_loop_f, void *) = {qt_loop,         qt_loop_simple,        qt_loop_sv, qt_loop_dc, qt_loop_aligned,
                                                                   qt_loop_sinc,    qt_loop_balance,       qt_loop_balance_simple,
                                                                   qt_loop_balance_sv, qt_loop_balance_dc, qt_loop_balance_aligned,
                                                                   qt_loop_balance_sinc};
  static void (*const folds[])(size_t, size_t, size_t, void *restrict, qt_loopr_f, void *restrict, qt_accum_f) = {
      qt_loopaccum_balance, qt_loopaccum_balance_sinc, qt_loopaccum_balance_sv, qt_loopaccum_balance_dc};
  qt_loop_queue_type kinds[] = {CHUNK, GUIDED, FACTORED, TIMED};
  aligned_t times = 0;
  size_t index;
  for (index = 0; index < sizeof all / sizeof *all; index++) {
    all[index](3, COUNT, mark, marks);
    marked(++times);
  }
  for (index = 0; index < 4; index++) {
    aligned_t sum = 0;
    qqloop_handle_t *loop = qt_loop_queue_create(kinds[index], 3, COUNT, 1, mark, marks);
    qqloop_step_handle_t *steps = qt_loop_step_queue_create(kinds[index], 0, 30, 3, step, &total);
    qt_loop_queue_setchunk(loop, 7);
    if (index % 2) qt_loop_queue_addworker(loop, 0), qt_loop_queue_run(loop);
    else qt_loop_queue_run_there(loop, 0);
    marked(++times);
    total = 0;
    qt_loop_queue_run((qqloop_handle_t *)steps);
    CHECK(total == 10);
    folds[index](3, COUNT, sizeof sum, &sum, sum_part, NULL, qt_uint_add_acc);
    CHECK(sum == (aligned_t)COUNT * (COUNT - 1) / 2 - 3);
  }
  total = 0;
  qt_loop_step(0, 10, 3, step, &total);
  CHECK(total == 4);
}

static void accumulate(void) {
  double d[2] = {2, 3};
  saligned_t i[2] = {2, -3};
  aligned_t u[2] = {2, 3};
  qt_dbl_add_acc(d, d + 1), qt_int_add_acc(i, i + 1), qt_uint_add_acc(u, u + 1);
  CHECK(d[0] == 5 && i[0] == -1 && u[0] == 5);
  qt_dbl_prod_acc(d, d + 1), qt_int_prod_acc(i, i + 1), qt_uint_prod_acc(u, u + 1);
  CHECK(d[0] == 15 && i[0] == 3 && u[0] == 15);
  qt_dbl_max_acc(d, d + 1), qt_int_max_acc(i, i + 1), qt_uint_max_acc(u, u + 1);
  CHECK(d[0] == 15 && i[0] == 3 && u[0] == 15);
  qt_dbl_min_acc(d, d + 1), qt_int_min_acc(i, i + 1), qt_uint_min_acc(u, u + 1);
  CHECK(d[0] == 3 && i[0] == -3 && u[0] == 3);
}

static double doubles[LONG];
static aligned_t uints[LONG];
static saligned_t ints[LONG];

static void sums(void) {
  size_t index, round;
  for (index = 0; index < LONG; index++) {
    doubles[index] = (double)(index % 97), uints[index] = index % 97, ints[index] = (saligned_t)(index % 97) - 40;
  }
  for (round = 0; round < 2; round++) {
    int waits = (int)round;
    double ones[3] = {2, 3, 4};
    aligned_t few[3] = {2, 3, 4};
    saligned_t some[3] = {2, -3, 4};
    aligned_t sum = 0;
    saligned_t signed_sum = 0;
    for (index = 0; index < LONG; index++) sum += uints[index], signed_sum += ints[index];
    CHECK(qutil_uint_sum(uints, LONG, waits) == sum && qt_uint_sum(uints, LONG, waits) == sum);
    CHECK(qutil_int_sum(ints, LONG, waits) == signed_sum && qt_int_sum(ints, LONG, waits) == signed_sum);
    CHECK(qutil_double_sum(doubles, LONG, waits) == (double)sum && qt_double_sum(doubles, LONG, waits) == (double)sum);
    CHECK(qutil_uint_max(uints, LONG, waits) == 96 && qt_uint_max(uints, LONG, waits) == 96);
    CHECK(qutil_int_max(ints, LONG, waits) == 56 && qt_int_max(ints, LONG, waits) == 56);
    CHECK(qutil_double_max(doubles, LONG, waits) == 96 && qt_double_max(doubles, LONG, waits) == 96);
    CHECK(qutil_uint_min(uints, LONG, waits) == 0 && qt_uint_min(uints, LONG, waits) == 0);
    CHECK(qutil_int_min(ints, LONG, waits) == -40 && qt_int_min(ints, LONG, waits) == -40);
    CHECK(qutil_double_min(doubles, LONG, waits) == 0 && qt_double_min(doubles, LONG, waits) == 0);
    CHECK(qutil_uint_mult(few, 3, waits) == 24 && qt_uint_prod(few, 3, waits) == 24);
    CHECK(qutil_int_mult(some, 3, waits) == -24 && qt_int_prod(some, 3, waits) == -24);
    CHECK(qutil_double_mult(ones, 3, waits) == 24 && qt_double_prod(ones, 3, waits) == 24);
  }
}

static void sorting(void) {
  static void (*const all[])(double *, size_t) = {qutil_mergesort, qutil_qsort, qt_qsort};
  size_t index, round;
  for (round = 0; round < 3; round++) {
    for (index = 0; index < LONG; index++) doubles[index] = (double)(index * 7919 % LONG) - 100;
    all[round](doubles, LONG - round);
    for (index = 1; index < LONG - round; index++) CHECK(doubles[index - 1] <= doubles[index]);
  }
  for (index = 0; index < LONG; index++) uints[index] = index * 7919 % LONG;
  qutil_aligned_qsort(uints, LONG);
  for (index = 0; index < LONG; index++) CHECK(uints[index] == index);
}

static aligned_t set_one(void *arg) {
  *(aligned_t *)arg = 1;
  return 0;
}

static void count_at(const size_t from, const size_t to, qarray *array, void *arg) {
  size_t index;
  CHECK(from < to);
  for (index = from; index < to; index++) *(aligned_t *)qarray_elem(array, index) += (aligned_t)(size_t)arg;
}

static void count_const(const size_t from, const size_t to, const qarray *array, void *arg) {
  CHECK(qarray_shepof(array, from) == qthread_shep());
  qthread_incr((aligned_t *)arg, to - from);
}

static void sum_at(const size_t from, const size_t to, qarray *array, void *arg, void *ret) {
  size_t index;
  (void)arg;
  for (index = from; index < to; index++) *(aligned_t *)ret += *(aligned_t *)qarray_elem(array, index);
}

static aligned_t go_there(void *arg) {
  qarray *array = arg;
  CHECK(qarray_elem_migrate(array, LONG - 1) == qarray_elem_nomigrate(array, LONG - 1));
  return qthread_shep() == qarray_shepof(array, LONG - 1);
}

/* Each shepherd has as many segments of an array that goes to where the least are, whatever arrays there were before. */
static void least(void) {
  size_t shepherds = qthread_num_shepherds(), page = (size_t)sysconf(_SC_PAGESIZE) / sizeof(aligned_t), index, counts[8] = {0}, most = shepherds - 1;
  qarray *moved = qarray_create_configured(40 * page, sizeof(aligned_t), ALL_LOCAL, 0, 1);
  qarray *each = qarray_create_configured(40 * page, sizeof(aligned_t), DIST_STRIPES, 0, 1);
  qarray *like = qarray_create_configured(40 * page, sizeof(aligned_t), ALL_LOCAL, 0, 1);
  qarray *spread;
  CHECK(shepherds <= 8);
  qarray_set_shepof(moved, 0, (qthread_shepherd_id_t)most);
  for (index = 0; index < 40; index++) qarray_set_shepof(each, index * each->segment_size, (qthread_shepherd_id_t)most);
  qarray_dist_like(each, like);
  for (index = 0; index < 40; index++) {
    CHECK(qarray_shepof(moved, index * page) == most && qarray_shepof(each, index * page) == most);
    CHECK(qarray_shepof(like, index * page) == most);
  }
  spread = qarray_create_configured(4 * page * shepherds, sizeof(aligned_t), ALL_LEAST, 0, 1);
  CHECK(shepherds == 1 || qarray_shepof(spread, 0) != most);
  qarray_destroy(moved), qarray_destroy(each), qarray_destroy(like), qarray_destroy(spread);
  spread = qarray_create_configured(4 * page * shepherds, sizeof(aligned_t), DIST_LEAST, 0, 1);
  for (index = 0; index < 4 * shepherds; index++) counts[qarray_shepof(spread, index * spread->segment_size)]++;
  for (index = 0; index < shepherds; index++) CHECK(counts[index] == 4);
  qarray_destroy(spread);
}

/* Only small elements are rounded up. */
static void units(void) {
  static const size_t wanted[][2] = {{1, 8}, {8, 8}, {12, 16}, {44, 48}, {57, 64}, {63, 64}, {64, 64}, {65, 65},
    {68, 68}, {72, 72}, {100, 100}};
  size_t index;
  for (index = 0; index < sizeof wanted / sizeof *wanted; index++) {
    qarray *array = qarray_create(1000, wanted[index][0]), *tight = qarray_create_tight(1000, wanted[index][0]);
    CHECK(array->unit_size == wanted[index][1] && tight->unit_size == wanted[index][0]);
    CHECK((char *)qarray_elem(array, 1) == (char *)qarray_elem(array, 0) + array->unit_size);
    qarray_destroy(array), qarray_destroy(tight);
  }
}

static void arrays(void) {
  distribution_t kinds[] = {FIXED_HASH, FIXED_FIELDS, ALL_SAME, DIST,      DIST_STRIPES, DIST_FIELDS,
                            DIST_RAND,  DIST_LEAST,   ALL_LOCAL, ALL_RAND, ALL_LEAST};
  qarray *array, *tight = qarray_create_tight(LONG, 3), *first = qarray_create(LONG, sizeof(aligned_t));
  size_t kind;
  units();
  CHECK(tight->unit_size == 3 && (char *)qarray_elem(tight, 1) == (char *)qarray_elem(tight, 0) + 3);
  for (kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
    aligned_t sum = 0, ret;
    array = qarray_create_configured(LONG, sizeof(aligned_t), kinds[kind], 0, kind % 2 ? 1 : 0);
    CHECK(array != NULL && array->count == LONG && array->unit_size == sizeof(aligned_t));
    qarray_iter(array, 0, LONG, set_one);
    qarray_iter_loop(array, 10, LONG - 10, count_at, (void *)2);
    qarray_iter_loop_nb(array, 0, LONG, count_at, (void *)1, &ret);
    CHECK(qthread_readFF(NULL, &ret) == 0);
    total = 0;
    qarray_iter_constloop(array, 5, LONG, count_const, &total);
    CHECK(total == LONG - 5);
    qarray_iter_loopaccum(array, 0, LONG, sum_at, NULL, &sum, sizeof sum, qt_uint_add_acc);
    CHECK(sum == 4 * LONG - 40);
    CHECK(qthread_fork(go_there, array, &ret) == 0 && qthread_readFF(&ret, &ret) == 0 && ret == 1);
    if (array->dist_type == DIST || array->dist_type == ALL_SAME) {
      qarray_set_shepof(array, LONG - 1, qthread_num_shepherds() - 1);
      CHECK(qarray_shepof(array, LONG - 1) == qthread_num_shepherds() - 1);
      qarray_dist_like(first, array);
      CHECK(qarray_shepof(array, 0) == qarray_shepof(first, 0));
    }
    qarray_destroy(array);
  }
  qarray_destroy(tight);
  qarray_destroy(first);
}

static qpool *blocks;

static aligned_t use_pool(void *arg) {
  aligned_t *mine[100];
  int index;
  (void)arg;
  for (index = 0; index < 100; index++) mine[index] = qpool_alloc(blocks), mine[index][0] = mine[index][1] = (aligned_t)index;
  qthread_yield();
  for (index = 0; index < 100; index++) {
    CHECK(mine[index][0] == (aligned_t)index && mine[index][1] == (aligned_t)index);
    qpool_free(blocks, mine[index]);
  }
  return 0;
}

static void *use_pool_outside(void *arg) {
  use_pool(arg);
  return NULL;
}

static void pools(void) {
  aligned_t rets[20];
  int index;
  void *block, *large[20];
  pthread_t outside;
  blocks = qpool_create(24);
  for (index = 0; index < 20; index++) CHECK(qthread_fork(use_pool, NULL, &rets[index]) == 0);
  CHECK(pthread_create(&outside, NULL, use_pool_outside, NULL) == 0 && pthread_join(outside, NULL) == 0);
  for (index = 0; index < 20; index++) CHECK(qthread_readFF(NULL, &rets[index]) == 0);
  qpool_destroy(blocks);
  /* Larger than a piece of memory usually is. */
  blocks = qpool_create((size_t)3 << 20);
  for (index = 0; index < 20; index++) {
    CHECK((large[index] = qpool_alloc(blocks)) != NULL);
    memset(large[index], index, (size_t)3 << 20);
  }
  for (index = 0; index < 20; index++) {
    CHECK(*(char *)large[index] == index && ((char *)large[index])[((size_t)3 << 20) - 1] == index);
    qpool_free(blocks, large[index]);
  }
  qpool_destroy(blocks);
  blocks = qpool_create_aligned(10, 256);
  block = qpool_alloc(blocks);
  CHECK((uintptr_t)block % 256 == 0);
  qpool_free(blocks, block);
  qpool_destroy(blocks);
}

static qlfqueue_t *plain;
static qdqueue_t *spread;
static qswsrqueue_t *ring;

static aligned_t put(void *arg) {
  size_t index;
  for (index = 1; index <= COUNT; index++) {
    CHECK(qlfqueue_enqueue(plain, (void *)(2 * index + (arg != NULL))) == 0);
    if (arg != NULL) {
      CHECK(qdqueue_enqueue_there(spread, (void *)index, 0) == 0);
      CHECK(qswsrqueue_enqueue_blocking(ring, (void *)index) == 0);
    } else {
      CHECK(qdqueue_enqueue(spread, (void *)index) == 0);
    }
  }
  return 0;
}

static void queues(void) {
  aligned_t rets[2], sum = 0;
  size_t index, found, last[2] = {0, 0};
  plain = qlfqueue_create(), spread = qdqueue_create(), ring = qswsrqueue_create(16);
  CHECK(qlfqueue_empty(plain) == 1 && qdqueue_empty(spread) == 1 && qswsrqueue_empty(ring) == 1);
  CHECK(qlfqueue_dequeue(plain) == NULL && qdqueue_dequeue(spread) == NULL && qswsrqueue_dequeue(ring) == NULL);
  for (index = 1; index <= 100; index++) CHECK(qlfqueue_enqueue(plain, (void *)index) == 0);
  for (index = 1; index <= 100; index++) CHECK(qlfqueue_empty(plain) == 0 && qlfqueue_dequeue(plain) == (void *)index);
  for (index = 1; index <= 16; index++) CHECK(qswsrqueue_enqueue(ring, (void *)index) == 0);
  CHECK(qswsrqueue_enqueue(ring, (void *)index) == QTHREAD_OPFAIL);
  for (index = 1; index <= 16; index++) CHECK(qswsrqueue_dequeue(ring) == (void *)index);
  CHECK(qthread_fork(put, NULL, &rets[0]) == 0 && qthread_fork(put, &rets, &rets[1]) == 0);
  for (index = 1; index <= COUNT; index++) CHECK(qswsrqueue_dequeue_blocking(ring) == (void *)index);
  /* What each of two threads puts comes in its order. */
  for (found = 0; found < 2 * COUNT;) {
    size_t element = (size_t)qlfqueue_dequeue(plain);
    if (element == 0) {
      qthread_yield();
      continue;
    }
    found++;
    CHECK(element / 2 == ++last[element % 2]);
  }
  for (found = 0; found < 2 * COUNT;) {
    size_t element = (size_t)qdqueue_dequeue(spread);
    if (element) found++, sum += element;
    else qthread_yield();
  }
  CHECK(qthread_readFF(NULL, &rets[0]) == 0 && qthread_readFF(NULL, &rets[1]) == 0);
  CHECK(last[0] == COUNT && last[1] == COUNT && sum == COUNT * (COUNT + 1) && qlfqueue_empty(plain) == 1);
  CHECK(qlfqueue_destroy(plain) == 0 && qdqueue_destroy(spread) == 0 && qswsrqueue_destroy(ring) == 0);
}

static int equal(void *a, void *b) { return a == b; }
static int hash_of(void *key) { return (int)qt_hash64((uint64_t)(uintptr_t)key); }
static aligned_t cleaned;
static void clean(void *key, void *value) {
  (void)key, (void)value;
  qthread_incr(&cleaned, 1);
}
static qt_dictionary *dictionary;

static aligned_t put_some(void *arg) {
  size_t index;
  for (index = 1; index <= 100; index++) {
    CHECK(qt_dictionary_put_if_absent(dictionary, (void *)index, arg) != NULL);
    CHECK(qt_dictionary_get(dictionary, (void *)index) != NULL);
  }
  return 0;
}

static void dictionaries(void) {
  aligned_t rets[4];
  size_t index, found = 0;
  qt_dictionary_iterator *from, *to, *copy;
  list_entry *entry;
  char text[] = "abc";
  dictionary = qt_dictionary_create(equal, hash_of, clean);
  for (index = 0; index < 4; index++) CHECK(qthread_fork(put_some, (void *)(index + 1), &rets[index]) == 0);
  for (index = 0; index < 4; index++) CHECK(qthread_readFF(NULL, &rets[index]) == 0);
  CHECK(qt_dictionary_put(dictionary, (void *)1, (void *)50) == (void *)50);
  CHECK(qt_dictionary_get(dictionary, (void *)1) == (void *)50 && qt_dictionary_get(dictionary, (void *)101) == NULL);
  from = qt_dictionary_iterator_create(dictionary), to = qt_dictionary_end(dictionary);
  CHECK(!qt_dictionary_iterator_equals(from, to));
  copy = qt_dictionary_iterator_copy(from);
  CHECK(qt_dictionary_iterator_equals(from, copy));
  while ((entry = qt_dictionary_iterator_next(from)) != NULL) {
    CHECK(qt_dictionary_iterator_get(from) == entry && entry->value != NULL);
    if (found++ == 0) CHECK(qt_dictionary_delete(dictionary, entry->key) == entry->value);
  }
  CHECK(found == 100 && qt_dictionary_iterator_equals(from, to) && qt_dictionary_iterator_next(NULL) == ERROR);
  qt_dictionary_iterator_destroy(from), qt_dictionary_iterator_destroy(to), qt_dictionary_iterator_destroy(copy);
  CHECK(qt_dictionary_delete(dictionary, (void *)101) == NULL);
  qt_dictionary_destroy(dictionary);
  CHECK(cleaned == 100);
  CHECK(qt_hash_bytes(text, 3, 1) == qt_hash_bytes(text, 3, 1) && qt_hash_bytes(text, 3, 1) != qt_hash_bytes(text, 2, 1));
}

static void pair(const void *a, const void *b) { qthread_incr(&total, *(const aligned_t *)a * *(const aligned_t *)b); }
static void product(const void *a, const void *b, void *restrict out) { *(aligned_t *)out = *(const aligned_t *)a * *(const aligned_t *)b; }
static void paths(const void *restrict left, const void *restrict both, const void *restrict down, void *restrict out) {
  (void)both;
  *(int *)out = *(const int *)left + *(const int *)down;
}
static void one_at(const size_t from, const size_t to, qarray *array, void *arg) {
  size_t index;
  (void)arg;
  for (index = from; index < to; index++) *(aligned_t *)qarray_elem(array, index) = index;
}

static void pairs(void) {
  qarray *a = qarray_create(40, sizeof(aligned_t)), *b = qarray_create(30, sizeof(aligned_t));
  qarray *c = qarray_create(20, sizeof(aligned_t));
  aligned_t out[40][30];
  void *rows[40];
  int table[6][7];
  int *columns[6];
  int row, column;
  qt_wavefront_lattice *lattice;
  qarray_iter_loop(a, 0, 40, one_at, NULL);
  qarray_iter_loop(b, 0, 30, one_at, NULL);
  total = 0;
  qt_allpairs(a, b, pair);
  CHECK(total == (39 * 40 / 2) * (29 * 30 / 2));
  for (row = 0; row < 40; row++) rows[row] = out[row];
  qt_allpairs_output(a, b, product, rows, sizeof(aligned_t));
  for (row = 0; row < 40; row++) {
    for (column = 0; column < 30; column++) CHECK(out[row][column] == (aligned_t)(row * column));
  }
  for (column = 0; column < 6; column++) {
    columns[column] = table[column];
    for (row = 0; row < 7; row++) table[column][row] = 1;
  }
  qt_basic_wavefront(columns, 6, 7, paths);
  CHECK(table[5][6] == 462);
  qarray_iter_loop(c, 0, 20, one_at, NULL);
  lattice = qt_wavefront(a, c, paths);
  CHECK(lattice != NULL);
  qt_wavefront_destroy_lattice(lattice);
  qarray_destroy(a), qarray_destroy(b), qarray_destroy(c);
}

/* The threads of a loop are threads as others: each has values of its own, and locks that it may take again are its own. */
static aligned_t own, within, most_within;

static void identify(size_t start, size_t stop, void *arg) {
  aligned_t *mark = qthread_get_tasklocal(sizeof *mark);
  (void)arg;
  CHECK(mark != NULL && *mark == 0 && start < stop);
  *mark = start + 1;
  CHECK(qthread_lock(&own) == 0 && qthread_lock(&own) == 0);
  if (++within > most_within) most_within = within;
  qthread_yield();
  within--;
  CHECK(qthread_unlock(&own) == 0 && qthread_unlock(&own) == 0);
  CHECK(*(aligned_t *)qthread_get_tasklocal(sizeof *mark) == start + 1);
}

static void identities(void) {
  CHECK(qthread_lock_init(&own, 1) == 0);
  qt_loop(0, 40, identify, NULL);
  CHECK(most_within == 1 && within == 0);
  CHECK(qthread_lock_destroy(&own) == 0);
}

int main(void) {
  CHECK(qthread_initialize() == 0);
  identities();
  sinks(), barriers(), queues_of_threads(), loops(), accumulate(), sums(), sorting();
  least(), arrays(), pools(), queues(), dictionaries(), pairs();
  puts("ok");
  return 0;
}
