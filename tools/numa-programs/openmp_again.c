// Whether tasks follow their data where pages change their node: blocks that are freed and got again at the same
// addresses, are mapped again, change places by `mremap`, and are moved by `move_pages`, `mbind` and `migrate_pages`;
// and all of the first in a forked child. The argument says when the library is to notice: `at-once` (with
// libvicus_malloc.so, which tells of what is freed, unmapped and remapped), or `soon` (after a second). Pages that the
// kernel moves are noticed after a second at the latest: also those of memory that the library has placed, which the
// argument `placed` is about (libvicus_malloc.so and OMP_DATA_DISTRIBUTION=coarse).
#include "kernel.h"
#include <malloc.h>
#include <omp.h>
#include <string.h>
#include <sys/wait.h>

#define VECTORS 32
#define BYTES (2L << 20)
// How often a part of the program runs through all vectors.
#define PASSES 3

static cpu_set_t allowed;
static int homes[NODES], home_count, is_home[NODES], at_once;
static char *vectors[VECTORS];
// Where a vector is meant to lie: the place of a node among `homes`.
static int meant[VECTORS];
// How often too few tasks ran near their data.
static int wrong;
// What the kernel says of the bytes of tasks when these begin, in all passes.
static long near_bytes, far_bytes;

// The node on which more of a vector lies than on any other.
static int lies_on(const char *vector) {
  long by_node[NODES] = {0};
  int most = 0;
  count_bytes(vector, BYTES, by_node);
  for (int node = 1; node < NODES; node++)
    if (by_node[node] > by_node[most]) most = node;
  return most;
}

// Writes a vector's pages for the first time, from the node on which it is meant to lie.
static void touch(int at) {
  cpu_set_t before = own_cpus(), there = of_node(&allowed, homes[meant[at]]);
  CHECK(sched_setaffinity(0, sizeof there, &there) == 0);
  memset(vectors[at], 1, BYTES);
  CHECK(sched_setaffinity(0, sizeof before, &before) == 0);
}

static void pass(int *near, int *counted) {
  int order[VECTORS], found = 0, taken[VECTORS] = {0};
  // A vector of each node in turn: otherwise one node has work at first, and the others take it.
  for (int home = 0; found < VECTORS; home = (home + 1) % home_count) {
    int at = 0;
    while (at < VECTORS && (taken[at] || meant[at] != home)) at++;
    if (at < VECTORS) taken[at] = 1, order[found++] = at;
  }
#pragma omp parallel
#pragma omp single
  for (int turn = 0; turn < VECTORS; turn++) {
    char *vector = vectors[order[turn]];
#pragma omp task depend(inout : vector[0 : BYTES]) firstprivate(vector) shared(near, counted)
    {
      int here = node_here();
      long by_node[NODES] = {0};
      count_bytes(vector, BYTES, by_node);
      for (int node = 0; node < NODES; node++)
        __atomic_add_fetch(node == here ? &near_bytes : &far_bytes, by_node[node], __ATOMIC_RELAXED);
      for (long byte = 0; byte < BYTES; byte += 4096) vector[byte]++;
      work_ms(4);
      // The threads of nodes to which no memory is near take what they find, and are not counted.
      __atomic_add_fetch(counted, is_home[here], __ATOMIC_RELAXED);
      __atomic_add_fetch(near, by_node[here] * 2 > BYTES, __ATOMIC_RELAXED);
    }
  }
}

// How many tasks can be near if all threads work all the time: of a node with more vectors than its processors' share,
// the threads of others take the rest. So it is behind a move that has filled a node.
static int can_be_near(void) {
  int threads[NODES] = {0}, lie[NODES] = {0}, all = 0, near = 0;
  for (int home = 0; home < home_count; home++) {
    cpu_set_t there = of_node(&allowed, homes[home]);
    all += threads[homes[home]] = CPU_COUNT(&there);
  }
  for (int at = 0; at < VECTORS; at++) lie[lies_on(vectors[at])]++;
  for (int node = 0; node < NODES; node++) {
    int share = (VECTORS * threads[node] + all - 1) / all;
    near += lie[node] < share ? lie[node] : share;
  }
  return near;
}

// Most tasks that can be near their data are, after so many passes that don't count: two of three, or half of them
// where there are more than three nodes and chance gives a quarter or less.
static void is_near(const char *what, int learning) {
  int near = 0, counted = 0, right = 0, before, most = can_be_near();
  for (int at = 0; at < VECTORS; at++) right += lies_on(vectors[at]) == homes[meant[at]];
  for (int turn = 0; turn < learning; turn++) pass(&near, &counted);
  near = counted = 0;
  printf("%-13s near", what);
  for (int turn = 0; turn < PASSES; turn++) {
    before = near;
    pass(&near, &counted);
    printf(" %d", near - before);
  }
  printf(" of %d, %d can be, %d counted; %d lie where they are meant to\n", VECTORS, most, counted, right);
  CHECK(right * 4 >= VECTORS * 3);
  CHECK(counted * nodes_with(&allowed) * 2 >= VECTORS * PASSES * home_count);
  // Where pages are new, it takes long to ask for them, and threads without tasks take what is far.
  if (near * 6 * VECTORS < counted * (home_count > 3 ? 3 : 4) * most) wrong++, puts("too few are near");
  fflush(stdout);
}

static void wait_for_clock(void) { work_ms(1300); }

// Gives all vectors new pages by `get`, at the same addresses as far as it does so, each on another node than what lay
// there before. Returns how many addresses are the same.
static int get_again(char *(*get)(char *before), void (*give)(char *)) {
  char *old[VECTORS];
  int was[VECTORS], same = 0;
  memcpy(old, vectors, sizeof old);
  memcpy(was, meant, sizeof was);
  for (int at = 0; at < VECTORS; at++) give(vectors[at]);
  for (int at = 0; at < VECTORS; at++) {
    vectors[at] = get(old[at]);
    for (int other = 0; other < VECTORS; other++) {
      if (old[other] != vectors[at]) continue;
      same++;
      meant[at] = (was[other] + 1) % home_count;
    }
    touch(at);
  }
  return same;
}

static char *from_malloc(char *before) {
  (void)before;
  return malloc(BYTES);
}
static void to_free(char *vector) { free(vector); }
static char *from_mmap(char *before) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  char *found = mmap(before, BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
  CHECK(found == before);
  return found;
}
static void to_munmap(char *vector) { CHECK(munmap(vector, BYTES) == 0); }

// The pages of two vectors that lie on different nodes change their addresses.
static void swap_by_mremap(void) {
  char *aside = fresh_memory(BYTES);
  for (int at = 0; at + 1 < VECTORS; at += 2) {
    char *one = vectors[at], *other = vectors[at + 1];
    int fixed = MREMAP_MAYMOVE | MREMAP_FIXED, was = meant[at];
    CHECK(mremap(one, BYTES, BYTES, fixed, aside) == aside);
    CHECK(mremap(other, BYTES, BYTES, fixed, one) == one);
    CHECK(mremap(aside, BYTES, BYTES, fixed, other) == other);
    aside = fresh_memory(BYTES);
    meant[at] = meant[at + 1];
    meant[at + 1] = was;
  }
  CHECK(munmap(aside, BYTES) == 0);
}

static void move_by_pages(void) {
  for (int at = 0; at < VECTORS; at++) {
    meant[at] = (meant[at] + 1) % home_count;
    for (long byte = 0; byte < BYTES; byte += 4096) {
      void *page = vectors[at] + byte;
      int node = homes[meant[at]], status;
      // A node that is full takes no more.
      if (syscall(SYS_move_pages, 0, 1L, &page, &node, &status, 2 /* MPOL_MF_MOVE */) != 0) break;
    }
  }
}

// All pages of the process change their node, as `migratepages` and a cpuset's memory_migrate move them: those of every
// second node with memory go to the next one. And the vectors that were there go back. Returns whether that is so: a
// node may be full, and then vectors are meant to lie where they do.
static int move_process(void) {
  unsigned long from = 0, to = 0;
  for (int home = 0; home + 1 < home_count; home += 2) {
    from |= 1UL << homes[home];
    to |= 1UL << homes[home + 1];
  }
  if (syscall(SYS_migrate_pages, 0, 64UL, &from, &to) < 0) {
    puts("not checked: a node is full");
    for (int at = 0; at < VECTORS; at++)
      for (int home = 0; home < home_count; home++)
        if (lies_on(vectors[at]) == homes[home]) meant[at] = home;
    return 0;
  }
  for (int at = 0; at < VECTORS; at++) {
    if (meant[at] % 2 == 0) {
      if (meant[at] + 1 < home_count) meant[at]++;
      continue;
    }
    meant[at]--;
    for (long byte = 0; byte < BYTES; byte += 4096) {
      void *page = vectors[at] + byte;
      int node = homes[meant[at]], status;
      if (syscall(SYS_move_pages, 0, 1L, &page, &node, &status, 2 /* MPOL_MF_MOVE */) != 0) break;
    }
  }
  return 1;
}

// Vectors that the library has placed, as far as they lie on nodes with processors.
static void get_placed(void) {
  for (int at = 0, tries = 0; at < VECTORS; tries++) {
    CHECK(tries < 4 * VECTORS);
    char *vector = malloc(BYTES);
    memset(vector, 1, BYTES);
    int home = 0, node = lies_on(vector);
    while (home < home_count && homes[home] != node) home++;
    if (home < home_count) meant[at] = home, vectors[at++] = vector;
  }
}

static void move_by_mbind(void) {
  for (int at = 0; at < VECTORS; at++) {
    meant[at] = (meant[at] + 1) % home_count;
    unsigned long mask = 1UL << homes[meant[at]];
    CHECK(syscall(SYS_mbind, vectors[at], BYTES, 1 /* MPOL_PREFERRED */, &mask, 64UL, 2 /* MPOL_MF_MOVE */) == 0);
  }
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  at_once = strcmp(arguments[1], "at-once") == 0;
  // Each block is a mapping, so that what is freed is gone.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  allowed = own_cpus();
  home_count = homes_of(&allowed, homes);
  if (home_count < 2) {
    puts("not checked: memory lies near one node alone");
    return 0;
  }
  for (int home = 0; home < home_count; home++) is_home[homes[home]] = 1;
  if (strcmp(arguments[1], "placed") == 0) {
    get_placed();
    is_near("placed", 2);
    int is_moved = move_process();
    wait_for_clock();
    if (is_moved) is_near("moved", 0);
    is_moved = move_process();
    wait_for_clock();
    if (is_moved) is_near("moved back", 0);
    printf("kernel: near %ld, far %ld\n", near_bytes, far_bytes);
    if (wrong == 0) puts("ok");
    return wrong > 0;
  }
  for (int at = 0; at < VECTORS; at++) {
    meant[at] = at % home_count;
    vectors[at] = malloc(BYTES);
    touch(at);
  }
  // In the first passes it is learned how long gcc's vectors are.
  is_near("malloc", 2);
  for (int round = 0; round < 2; round++) {
    int same = get_again(from_malloc, to_free);
    CHECK(same * 2 >= VECTORS);
    if (!at_once) wait_for_clock();
    is_near("malloc again", 0);
  }
  // At other addresses: gcc's tasks name no lengths, and names of before would be taken for ends of these vectors.
  char *old[VECTORS];
  memcpy(old, vectors, sizeof old);
  for (int at = 0; at < VECTORS; at++) {
    vectors[at] = fresh_memory(BYTES);
    meant[at] = at % home_count;
    touch(at);
  }
  for (int at = 0; at < VECTORS; at++) free(old[at]);
  if (!at_once) wait_for_clock();
  is_near("mmap", 2);
  CHECK(get_again(from_mmap, to_munmap) * 2 >= VECTORS);
  if (!at_once) wait_for_clock();
  is_near("mmap again", 0);
  swap_by_mremap();
  if (!at_once) wait_for_clock();
  is_near("mremap", 0);
  move_by_pages();
  wait_for_clock();
  is_near("move_pages", 0);
  move_by_mbind();
  wait_for_clock();
  is_near("mbind", 0);
  int is_moved = move_process();
  wait_for_clock();
  if (is_moved) is_near("migrate_pages", 0);
  fflush(stdout);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    near_bytes = far_bytes = 0;
    CHECK(get_again(from_mmap, to_munmap) * 2 >= VECTORS);
    if (!at_once) wait_for_clock();
    is_near("in a child", 0);
    _exit(wrong > 0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  is_near("after it", 0);
  printf("kernel: near %ld, far %ld\n", near_bytes, far_bytes);
  if (wrong == 0) puts("ok");
  return wrong > 0;
}
