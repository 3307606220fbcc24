/* Where the pages of arrays lie: none is there before it is touched, and each then lies where its segment's shepherd
   is; and that blocks of pools are of the nodes that take them. */
#include "check.h"
#include <qthread/qarray.h>
#include <qthread/qpool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BYTES ((size_t)8 << 20)
/* Of linux/mempolicy.h. */
#define OF_NODE 1
#define OF_ADDRESS 2
#define ALLOWED 4

static size_t page;
static aligned_t there, elsewhere;

static int nodes(void) { return access("/sys/devices/system/node/node1", F_OK) == 0 ? 2 : 1; }

/* Whether the system places pages: some containers let it not. */
static int are_placed(void) {
  void *own;
  CHECK(posix_memalign(&own, page, page) == 0);
  /* As by default. */
  return syscall(SYS_mbind, own, page, 0UL, NULL, 0UL, 0UL) == 0;
}

static size_t resident(const qarray *array) {
  size_t pages = array->count * array->unit_size / page, index, sum = 0;
  unsigned char *each = malloc(pages);
  CHECK(mincore(array->base_ptr, pages * page, each) == 0);
  for (index = 0; index < pages; index++) sum += each[index] & 1;
  free(each);
  return sum;
}

/* Whether this process may have memory of a node. */
static int gives_memory(unsigned node) {
  unsigned long mask[1024 / 64] = {0};
  CHECK(syscall(SYS_get_mempolicy, NULL, mask, 1024UL, NULL, (unsigned long)ALLOWED) == 0);
  return mask[node / 64] >> node % 64 & 1;
}

/* Whether something is on the node of the processor that runs this, if that can be known. */
static void count(void *address) {
  unsigned own = 0;
  int of_page = -1;
  /* Where a node gives no memory, the next one does. */
  if (nodes() == 1 || syscall(SYS_getcpu, NULL, &own, NULL) != 0 || !gives_memory(own)) return;
  if (syscall(SYS_get_mempolicy, &of_page, NULL, 0UL, address, (unsigned long)(OF_NODE | OF_ADDRESS)) != 0) return;
  qthread_incr(of_page == (int)own ? &there : &elsewhere, 1);
}

/* Of each page in a part of the array, whether it is on the node of the processor that runs this. */
static void look(const size_t from, const size_t to, qarray *array, void *arg) {
  size_t index;
  (void)arg;
  for (index = from; index < to; index += page / sizeof(aligned_t)) {
    volatile aligned_t *element = qarray_elem(array, index);
    CHECK(*element == 0);
    *element = 0;
    count((void *)element);
  }
}

#define BLOCKS 2000

static aligned_t come;

static aligned_t take_blocks(void *pool) {
  void *blocks[BLOCKS];
  size_t index;
  for (index = 0; index < BLOCKS; index++) {
    CHECK((blocks[index] = qpool_alloc(pool)) != NULL);
    *(volatile size_t *)blocks[index] = index;
    count(blocks[index]);
  }
  /* Until then, none takes what another one has given back. */
  qthread_incr(&come, 1);
  while (come < qthread_num_shepherds()) qthread_yield();
  for (index = 0; index < BLOCKS; index++) {
    CHECK(*(volatile size_t *)blocks[index] == index);
    qpool_free(pool, blocks[index]);
  }
  return 0;
}

/* Other nodes may help out where one is full. */
static void are_there(void) {
  if (elsewhere > there / 8) fprintf(stderr, "%lu pages are there, %lu elsewhere\n", (unsigned long)there, (unsigned long)elsewhere);
  CHECK(elsewhere <= there / 8);
  there = elsewhere = 0;
}

static void lie_right(qarray *array) {
  qarray_iter_loop(array, 0, array->count, look, NULL);
  are_there();
}

/* At first each shepherd cuts its own memory; then it has what it has given back. */
static void take_near(void) {
  qpool *pool = qpool_create(100);
  aligned_t rets[64];
  unsigned shepherd, shepherds = qthread_num_shepherds(), times;
  CHECK(pool != NULL && shepherds <= 64);
  for (times = 0; times < 3; times++) {
    come = 0;
    for (shepherd = 0; shepherd < shepherds; shepherd++) {
      CHECK(qthread_fork_to(take_blocks, pool, &rets[shepherd], shepherd) == 0);
    }
    for (shepherd = 0; shepherd < shepherds; shepherd++) CHECK(qthread_readFF(NULL, &rets[shepherd]) == 0);
    if (are_placed()) are_there();
  }
  qpool_destroy(pool);
}

int main(void) {
  distribution_t kinds[] = {FIXED_HASH, FIXED_FIELDS, ALL_RAND, DIST_STRIPES};
  size_t kind, index;
  CHECK(qthread_initialize() == 0);
  page = (size_t)sysconf(_SC_PAGESIZE);
  for (kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
    qarray *array = qarray_create_configured(BYTES / sizeof(aligned_t), sizeof(aligned_t), kinds[kind], 0, kind % 2 ? 1 : 0);
    size_t pages = BYTES / page, touched;
    CHECK(array != NULL && (uintptr_t)array->base_ptr % page == 0);
    touched = resident(array);
    /* Where the system refuses to place pages, they are touched at once. */
    CHECK(touched == (nodes() == 1 || are_placed() ? 0 : pages));
    lie_right(array);
    CHECK(resident(array) == pages);
    for (index = 0; index < array->count; index += array->segment_size) {
      qarray_set_shepof(array, index, qthread_num_shepherds() - 1);
    }
    if (are_placed()) lie_right(array);
    qarray_destroy(array);
  }
  take_near();
  puts("ok");
  return 0;
}
