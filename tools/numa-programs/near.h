// Vectors, one for each task, and how many of the tasks run near them: of openmp_near.c, c_near.c and cpp_near.cpp.
#ifndef NEAR_H
#define NEAR_H
#include "kernel.h"

#define VECTORS 32
#define BYTES (2L << 20)
#define PASSES 8
// In the first ones it is learned where pages lie and, for programs of gcc, how long the vectors are. They have a bound
// of their own.
#define LEARNING 2

static char *vectors[VECTORS];
static cpu_set_t allowed;
// By vector, the node with processors that is nearest to its pages; -1 if several are. By node, how many vectors that
// are. And how many nodes have some.
static int best[VECTORS], is_best[NODES], bests;
// The order of the tasks: one vector of each node in turn. Otherwise one node has work at first, and the others take
// it.
static int order[VECTORS];
// By node, how many threads ran there, summed over passes; of threads that are bound nowhere. Nothing else is known of
// where these run: the system may have several of them on one processor.
static int free_threads[NODES];
// Of a pass: how many tasks ran near, and how many count. Then the same of the first pass, and of all behind LEARNING.
static int near_now, counted_now, near_first, counted_first, near_all, counted_all;

static inline void put_in_order(void) {
  int found = 0, taken[VECTORS] = {0};
  for (int node = -1; found < VECTORS; node = node + 1 < NODES ? node + 1 : -1) {
    int at = 0;
    while (at < VECTORS && (taken[at] || best[at] != node)) at++;
    if (at < VECTORS) taken[at] = 1, order[found++] = at;
  }
}

// Where the vectors lie, which have been touched.
static inline void look_at_vectors(void) {
  bests = 0;
  memset(is_best, 0, sizeof is_best);
  for (int at = 0; at < VECTORS; at++) {
    // By one page in the middle: all of a vector's are on one node, unless that was full.
    best[at] = nearest(&allowed, node_of(vectors[at] + BYTES / 2));
    if (best[at] >= 0) bests += is_best[best[at]]++ == 0;
  }
  put_in_order();
  near_first = counted_first = near_all = counted_all = 0;
}

// What each task does.
static inline void use_vector(int at) {
  int here = node_here();
  for (long byte = 0; byte < BYTES; byte += 512) vectors[at][byte]++;
  work_ms(4);
  // The threads of other nodes, to which no memory is near, take what they find, and are not counted.
  __atomic_add_fetch(&counted_now, best[at] >= 0 && is_best[here] > 0, __ATOMIC_RELAXED);
  __atomic_add_fetch(&near_now, here == best[at], __ATOMIC_RELAXED);
}

// After a pass.
static inline void count_pass(int pass) {
  printf(" %d/%d", near_now, counted_now);
  if (pass == 0) near_first = near_now, counted_first = counted_now;
  if (pass >= LEARNING) near_all += near_now, counted_all += counted_now;
}

// How many tasks can be near if all threads work all the time: of a node with more vectors than its processors' share,
// or that of the threads there if these are bound nowhere, the threads of others take the rest. So it is where the
// first thread, which is bound nowhere, has touched its vectors from another node than that of its place. And where
// vectors can't be shared evenly, a thread with fewer has nothing to do when others begin their last one, and may be
// the first to take it: of 32 vectors on seven nodes, three have four, and take up to three of the others' fifth ones.
static inline int can_be_near(void) {
  int all = 0, near = 0, is_free = 0, each = VECTORS, beyond = 0, idle = 0;
  int threads[NODES], own[NODES];
  for (int node = 0; node < NODES; node++) is_free |= free_threads[node] > 0;
  for (int node = 0; node < NODES; node++) {
    cpu_set_t there = of_node(&allowed, node);
    threads[node] = is_best[node] == 0 ? 0 : is_free ? free_threads[node] : CPU_COUNT(&there);
    all += threads[node];
  }
  for (int node = 0; node < NODES; node++) {
    own[node] = 0;
    if (threads[node] == 0) continue;
    int share = (VECTORS * threads[node] + all - 1) / all;
    own[node] = is_best[node] < share ? is_best[node] : share;
    near += own[node];
    if (own[node] / threads[node] < each) each = own[node] / threads[node];
  }
  // Of threads that are bound nowhere, it is known how many were on a node in all passes together.
  if (is_free) return near;
  for (int node = 0; node < NODES; node++) {
    int more = own[node] - each * threads[node];
    if (more > 0) beyond += more;
    if (threads[node] > more) idle += threads[node] - more;
  }
  return near - (beyond < idle ? beyond : idle);
}
#endif
