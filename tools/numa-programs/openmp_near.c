// Whether tasks that name memory run on the node of its pages. The argument says who has placed them: `touch` (the
// threads of a loop, each on its node) or `malloc` (OMP_DATA_DISTRIBUTION=coarse with libvicus_malloc.so). The
// threads of a node without memory have theirs on another one. Vectors on a node without processors belong to the
// nearest node with some, if there is one that is nearest.
#include "kernel.h"
#include <omp.h>
#include <string.h>

#define VECTORS 32
#define BYTES (2L << 20)
#define PASSES 8
// In the first ones it is learned where pages lie and, for programs of gcc, how long the vectors are. They have a bound
// of their own.
#define LEARNING 2
// From this one on, every second one begins so late that the kernel is asked again where pages lie that the threads have
// placed. Threads must not wait for that until they take what was dealt to others.
#define LATE 4

static char *vectors[VECTORS], *others[VECTORS];
// By vector, the node with processors that is nearest to its pages; -1 if several are.
static int best[VECTORS];
// The order of the tasks: one vector of each node in turn. Otherwise one node has work at first, and the others take
// it.
static int order[VECTORS];

static void put_in_order(void) {
  int found = 0, taken[VECTORS] = {0};
  for (int node = -1; found < VECTORS; node = node + 1 < NODES ? node + 1 : -1) {
    int at = 0;
    while (at < VECTORS && (taken[at] || best[at] != node)) at++;
    if (at < VECTORS) taken[at] = 1, order[found++] = at;
  }
}

// Tasks of other code with other memory. An emulator is slow where code runs for the first time: a thread that spawns
// the first tasks would take longer for each than their work, and the other threads would take what is far.
static void run_once_before(void) {
  for (int pass = 0; pass < 2; pass++) {
#pragma omp parallel
#pragma omp single
    for (int at = 0; at < VECTORS; at++) {
      char *other = others[at];
#pragma omp task depend(inout : other[0 : BYTES / 8]) firstprivate(other)
      {
        other[0]++;
        work_ms(1);
      }
    }
  }
}

// How many tasks can be near if all threads work all the time: of a node with more vectors than its processors' share,
// the threads of others take the rest. So it is where the first thread, which is bound nowhere, has touched its vectors
// from another node than the one whose thread it counts as.
static int can_be_near(const cpu_set_t *allowed, const int vectors_of[NODES]) {
  int all = 0, near = 0;
  for (int turn = 0; turn < 2; turn++) {
    for (int node = 0; node < NODES; node++) {
      cpu_set_t there = of_node(allowed, node);
      int own = vectors_of[node] > 0 ? CPU_COUNT(&there) : 0;
      if (turn == 0) {
        all += own;
      } else if (own > 0) {
        int share = (VECTORS * own + all - 1) / all;
        near += vectors_of[node] < share ? vectors_of[node] : share;
      }
    }
  }
  return near;
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  cpu_set_t allowed = own_cpus();
  int is_touched = strcmp(arguments[1], "touch") == 0, is_best[NODES] = {0}, bests = 0;
  for (int at = 0; at < VECTORS; at++) vectors[at] = is_touched ? fresh_memory(BYTES) : malloc(BYTES);
  if (is_touched) {
#pragma omp parallel for schedule(static)
    for (int at = 0; at < VECTORS; at++) memset(vectors[at], 1, BYTES);
  } else {
    for (int at = 0; at < VECTORS; at++) memset(vectors[at], 1, BYTES);
  }
  for (int at = 0; at < VECTORS; at++) {
    // By one page in the middle: all of a vector's are on one node, unless that was full.
    best[at] = nearest(&allowed, node_of(vectors[at] + BYTES / 2));
    if (best[at] >= 0) bests += is_best[best[at]]++ == 0;
  }
  put_in_order();
  for (int at = 0; at < VECTORS; at++) memset(others[at] = fresh_memory(BYTES / 8), 1, BYTES / 8);
  run_once_before();
  int near = 0, counted = 0, near_late = 0, counted_late = 0, near_first = 0, counted_first = 0;
  printf("near");
  for (int pass = 0; pass < PASSES; pass++) {
    int is_late = is_touched && pass >= LATE && pass % 2 == 0;
    if (is_late) work_ms(1300);
    int near_now = 0, counted_now = 0;
#pragma omp parallel
#pragma omp single
    for (int turn = 0; turn < VECTORS; turn++) {
      int at = order[turn];
      char *vector = vectors[at];
#pragma omp task depend(inout : vector[0 : BYTES]) firstprivate(vector, at) shared(near_now, counted_now)
      {
        int here = node_here();
        for (long byte = 0; byte < BYTES; byte += 512) vector[byte]++;
        work_ms(4);
        // The threads of other nodes, to which no memory is near, take what they find, and are not counted.
        __atomic_add_fetch(&counted_now, best[at] >= 0 && is_best[here] > 0, __ATOMIC_RELAXED);
        __atomic_add_fetch(&near_now, here == best[at], __ATOMIC_RELAXED);
      }
    }
    printf(" %d/%d", near_now, counted_now);
    if (pass == 0) near_first = near_now, counted_first = counted_now;
    if (is_late) near_late += near_now, counted_late += counted_now;
    if (pass < LEARNING) continue;
    near += near_now, counted += counted_now;
  }
  int most = can_be_near(&allowed, is_best);
  printf(" in turn, memory near %d of %d nodes, %d can be near at once\n", bests, nodes_with(&allowed), most);
  if (bests < 2) {
    puts("not checked: all memory is near one node");
    return 0;
  }
  // By chance, one of as many as there are nodes would be near. Threads that have nothing to do take what is far.
  CHECK(counted * nodes_with(&allowed) * 2 >= VECTORS * (PASSES - LEARNING) * bests);
  CHECK(near * 4 * VECTORS >= counted * 3 * most);
  // In the first pass, the tasks of gcc's programs are dealt by guesses of their lengths. Threads of locality queues
  // take others' tasks as soon as they have none, which is before all are there.
  const char *strategy = getenv("VICUS_STRATEGY");
  int waits = strategy == NULL || strcmp(strategy, "locality-queues") != 0;
  CHECK(!waits || near_first * 16 * VECTORS >= counted_first * 13 * most);
  CHECK(near_late * 3 * VECTORS >= counted_late * 2 * most);
  puts("ok");
}
