// Whether tasks that name memory run on the node of its pages. The argument says who has placed them: `touch` (the
// threads of a loop, each on its node), `free` (the same, of threads that are bound nowhere) or `malloc`
// (OMP_DATA_DISTRIBUTION=coarse with libvicus_malloc.so); `next`: the first thread, and they move to the first tasks
// that name them (VICUS_NEXT_TOUCH=1 with libvicus_malloc.so); or `control`, as `touch` for any OpenMP library: what is
// near is only printed. The threads of a node without memory have theirs on another one. Vectors on a node without
// processors belong to the nearest node with some, if there is one that is nearest.
#include "near.h"
#include <omp.h>

// From this one on, every second one begins so late that the kernel is asked again where pages lie that the threads
// have placed. Threads must not wait for that until they take what was dealt to others.
#define LATE 4

static char *others[VECTORS];

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

int main(int count, char **arguments) {
  CHECK(count == 2);
  // A library may have bound the first thread before.
  allowed = all_cpus();
  int is_next = strcmp(arguments[1], "next") == 0, is_free = strcmp(arguments[1], "free") == 0;
  int is_touched = strcmp(arguments[1], "malloc") != 0 && !is_next;
  int near_late = 0, counted_late = 0;
  for (int at = 0; at < VECTORS; at++) vectors[at] = is_touched ? fresh_memory(BYTES) : malloc(BYTES);
  if (is_touched) {
#pragma omp parallel for schedule(static)
    for (int at = 0; at < VECTORS; at++) memset(vectors[at], 1, BYTES);
  } else {
    for (int at = 0; at < VECTORS; at++) memset(vectors[at], 1, BYTES);
  }
  look_at_vectors();
  for (int at = 0; at < VECTORS; at++) memset(others[at] = fresh_memory(BYTES / 8), 1, BYTES / 8);
  run_once_before();
  printf("near");
  for (int pass = 0; pass < PASSES; pass++) {
    int is_late = is_touched && pass >= LATE && pass % 2 == 0;
    if (is_late) work_ms(1300);
    // The first tasks have moved them.
    if (is_next && pass == LEARNING) look_at_vectors();
    near_now = counted_now = 0;
#pragma omp parallel
    {
      if (is_free) __atomic_add_fetch(&free_threads[node_here()], 1, __ATOMIC_RELAXED);
#pragma omp single
      for (int turn = 0; turn < VECTORS; turn++) {
        int at = order[turn];
        char *vector = vectors[at];
        // gcc's task does not use it otherwise.
        (void)vector;
#pragma omp task depend(inout : vector[0 : BYTES]) firstprivate(at)
        use_vector(at);
      }
    }
    count_pass(pass);
    if (is_late) near_late += near_now, counted_late += counted_now;
  }
  int most = can_be_near();
  printf(" in turn, memory near %d of %d nodes, %d can be near at once\n", bests, nodes_with(&allowed), most);
  if (is_free) {
    printf("threads by node, of all passes");
    for (int node = 0; node < NODES; node++) printf(" %d", free_threads[node]);
    puts("");
  }
  if (strcmp(arguments[1], "control") == 0) return 0;
  int homes[NODES];
  // Of as many nodes as possible, each has some of what was on one node.
  CHECK(!is_next || bests >= homes_of(&allowed, homes));
  if (bests < 2) {
    puts("not checked: all memory is near one node");
    return 0;
  }
  // By chance, one of as many as there are nodes would be near. Threads that have nothing to do take what is far.
  CHECK(counted_all * nodes_with(&allowed) * 2 >= VECTORS * (PASSES - LEARNING) * bests);
  // Threads that are bound nowhere are moved by the system. Under `vicus`, what runs far once stays in caches there.
  // A thread of locality queues whose node has no memory takes all of the next node's blocks first. Of two nodes with
  // 16 blocks each and a third one beside them, the one with less left takes the other's: 28 of 32 are near.
  const char *strategy = getenv("VICUS_STRATEGY");
  int are_queues = strategy != NULL && strncmp(strategy, "locality-queues", strlen("locality-queues")) == 0;
  int least = is_free ? 4 : are_queues ? 6 : 7;
  CHECK(near_all * 8 * VECTORS >= counted_all * least * most);
  // In the first pass, the tasks of gcc's programs are dealt by guesses of their lengths. Threads of locality queues
  // take others' tasks as soon as they have none, which is before all are there, but for those with `rob=long`.
  int waits = strategy == NULL || strcmp(strategy, "locality-queues") != 0;
  CHECK(!waits || is_next || near_first * 8 * VECTORS >= counted_first * least * most);
  // Behind a pause, a third of the bound may be far.
  CHECK(near_late * 12 * VECTORS >= counted_late * (is_free ? 4 : 8) * most);
  puts("ok");
}
