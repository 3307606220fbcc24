// Who runs the tasks of a team, for each construct that makes tasks, and where its threads may run. The argument says
// what is expected: `bound` (by default, under strategies with places) or `free`.
#include "kernel.h"
#include <omp.h>
#include <string.h>

#define TASKS 200
#define THREADS 64

static int ran[THREADS], on_node[NODES], is_bound, in_turn;
static cpu_set_t allowed, masks[THREADS];

static void work(void) {
  __atomic_add_fetch(&ran[omp_get_thread_num()], 1, __ATOMIC_RELAXED);
  __atomic_add_fetch(&on_node[node_here()], 1, __ATOMIC_RELAXED);
  work_ms(2);
}

static void tree(int depth) {
  if (depth == 0) {
    work();
    return;
  }
#pragma omp task
  tree(depth - 1);
#pragma omp task
  tree(depth - 1);
#pragma omp taskwait
}

// Whether no thread is without a task and, if threads are bound, no node.
static int is_spread(const char *construct, int tasks) {
  int may_idle = in_turn && strcmp(construct, "tree") == 0;
  int all = 0, idle = 0, idle_nodes = 0, threads = omp_get_max_threads();
  printf("%-8s by thread", construct);
  for (int thread = 0; thread < threads; thread++) {
    printf(" %d", ran[thread]);
    all += ran[thread];
    idle += ran[thread] == 0;
  }
  printf("; by node");
  for (int node = 0; node < NODES; node++) {
    cpu_set_t there = of_node(&allowed, node);
    if (CPU_COUNT(&there) == 0) continue;
    printf(" %d", on_node[node]);
    idle_nodes += on_node[node] == 0;
  }
  puts("");
  CHECK(all == tasks);
  memset(ran, 0, sizeof ran);
  memset(on_node, 0, sizeof on_node);
  return may_idle || (idle == 0 && (!is_bound || idle_nodes == 0));
}

static void loop(void) {
#pragma omp parallel
#pragma omp single
  for (int at = 0; at < TASKS; at++) {
#pragma omp task
    work();
  }
}

static void taskloop(void) {
#pragma omp parallel
#pragma omp single
  {
#pragma omp taskloop grainsize(1)
    for (int at = 0; at < TASKS; at++) work();
  }
}

static void depend(void) {
  // gcc does not see that it is used.
  static char cells[TASKS] __attribute__((unused));
#pragma omp parallel
#pragma omp single
  for (int at = 0; at < TASKS; at++) {
#pragma omp task depend(inout : cells[at])
    work();
  }
}

static void recursion(void) {
#pragma omp parallel
#pragma omp single
  tree(7);
}

static void master(void) {
#pragma omp parallel
#pragma omp master
  {
    for (int at = 0; at < TASKS; at++) {
#pragma omp task
      work();
    }
#pragma omp taskwait
  }
}

// In one of three rounds: on a busy host, a processor of an emulated machine may come too late for all of a round.
static void each(const char *construct, void (*run)(void), int tasks) {
  for (int round = 1; round <= 3; round++) {
    run();
    if (is_spread(construct, tasks)) return;
  }
  CHECK(!"all threads and nodes have tasks");
}

// Where the threads of a team of this size may run.
static void may_run(int threads) {
  int expected = is_bound && nodes_with(&allowed) > 1 && threads > 1;
#pragma omp parallel num_threads(threads)
  {
    CHECK(omp_get_num_threads() == threads);
    masks[omp_get_thread_num()] = own_cpus();
  }
  int exact = threads == CPU_COUNT(&allowed), nodes = 0;
  cpu_set_t seen, after = own_cpus();
  CPU_ZERO(&seen);
  // The thread that comes to the region keeps its mask, in the region and after it.
  CHECK(CPU_EQUAL(&masks[0], &allowed) && CPU_EQUAL(&after, &allowed));
  for (int thread = 1; thread < threads; thread++) {
    if (!expected) {
      CHECK(CPU_EQUAL(&masks[thread], &allowed));
      continue;
    }
    int of_one_node = 0;
    for (int node = 0; node < NODES; node++) {
      cpu_set_t there = of_node(&allowed, node), both;
      CPU_AND(&both, &there, &masks[thread]);
      of_one_node += CPU_COUNT(&both) > 0 && CPU_EQUAL(exact ? &both : &there, &masks[thread]);
    }
    CHECK(of_one_node == 1);
    CHECK(!exact || CPU_COUNT(&masks[thread]) == 1);
    // No two have one processor, if there is one for each.
    cpu_set_t twice;
    CPU_AND(&twice, &seen, &masks[thread]);
    CHECK(!exact || CPU_COUNT(&twice) == 0);
    CPU_OR(&seen, &seen, &masks[thread]);
  }
  nodes = nodes_with(&seen);
  // The node of the first thread may have no other one.
  CHECK(!expected || nodes >= (threads < nodes_with(&allowed) ? threads : nodes_with(&allowed)) - 1);
}

// A team within a region: its threads may run wherever the process may, though the thread that began it may not.
static void is_free_within(void) {
  omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
#pragma omp parallel num_threads(3)
  {
    cpu_set_t own = own_cpus();
    CHECK(omp_get_num_threads() == 3);
    CHECK(omp_get_thread_num() == 0 || CPU_EQUAL(&own, &allowed));
  }
  omp_set_max_active_levels(1);
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  in_turn = strcmp(arguments[1], "in-turn") == 0;
  is_bound = in_turn || strcmp(arguments[1], "bound") == 0;
  allowed = own_cpus();
  int all = CPU_COUNT(&allowed);
  CHECK(omp_get_max_threads() == all && all < THREADS / 2);
  may_run(all);
  each("single", loop, TASKS);
  each("taskloop", taskloop, TASKS);
  each("depend", depend, TASKS);
  each("tree", recursion, 128);
  each("master", master, TASKS);
  may_run(all > 2 ? all - 1 : all);
  may_run(2);
  may_run(2 * all);
  is_free_within();
  may_run(all);
  puts("ok");
}
