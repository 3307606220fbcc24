// Teams within teams, and teams of more threads than processors: all threads work, and results are right. The argument
// is `nested` or `places` (OMP_PLACES=numa_domains OMP_PROC_BIND=spread,close: an inner team has its outer thread's
// node), or `many` and how many threads there are for each processor.
#include "kernel.h"
#include <omp.h>
#include <string.h>

#define THREADS 64
#define EACH 40

static cpu_set_t allowed;
static int is_placed;

// One thread of each node begins a team of as many as the node has processors. Returns whether all of all had tasks.
static int nested(void) {
  int nodes = nodes_with(&allowed), inner = CPU_COUNT(&allowed) / nodes;
  int ran[NODES][THREADS] = {{0}}, outer_node[NODES], sum = 0, idle = 0;
  memset(outer_node, -1, sizeof outer_node);
#pragma omp parallel num_threads(nodes) reduction(+ : sum)
  {
    int team = omp_get_thread_num();
    CHECK(omp_get_num_threads() == nodes);
    cpu_set_t outer = own_cpus();
    outer_node[team] = node_here();
#pragma omp parallel num_threads(inner) reduction(+ : sum)
    {
      cpu_set_t own = own_cpus();
      CHECK(omp_get_num_threads() == inner && omp_get_level() == 2 && omp_get_ancestor_thread_num(1) == team);
      if (is_placed) {
        // On the node of the thread that began the team, and nowhere else.
        cpu_set_t there = of_node(&allowed, node_here()), both;
        CPU_AND(&both, &own, &there);
        CHECK(CPU_EQUAL(&both, &own) && nodes_with(&own) == 1);
        CHECK(node_here() == outer_node[team]);
        CHECK(nodes_with(&outer) == 1);
      } else {
        CHECK(omp_get_thread_num() == 0 || CPU_EQUAL(&own, &allowed));
      }
#pragma omp single
      for (int at = 0; at < EACH * inner; at++) {
#pragma omp task
        {
          __atomic_add_fetch(&ran[team][omp_get_thread_num()], 1, __ATOMIC_RELAXED);
          CHECK(CPU_ISSET(cpu_here(), &allowed));
          work_ms(2);
        }
      }
#pragma omp for schedule(dynamic, 3)
      for (int at = 0; at < 100; at++) sum += at;
    }
  }
  printf("%d teams of %d:", nodes, inner);
  for (int team = 0; team < nodes; team++) {
    int all = 0;
    for (int thread = 0; thread < inner; thread++) {
      printf(" %d", ran[team][thread]);
      all += ran[team][thread];
      idle += ran[team][thread] == 0;
    }
    printf(" on node %d;", outer_node[team]);
    CHECK(all == EACH * inner);
    for (int other = 0; other < team; other++) CHECK(!is_placed || outer_node[other] != outer_node[team]);
  }
  puts("");
  CHECK(sum == nodes * 4950);
  return idle == 0;
}

static long fib(int number) {
  if (number < 2) return number;
  long one, other;
#pragma omp task shared(one)
  one = fib(number - 1);
#pragma omp task shared(other)
  other = fib(number - 2);
#pragma omp taskwait
  return one + other;
}

// More threads than processors, with barriers, reductions and tasks in tasks.
static int many(int threads) {
  int ran[THREADS] = {0}, idle = 0;
  long found = 0, sum = 0;
  double began = omp_get_wtime();
#pragma omp parallel num_threads(threads)
  {
    CHECK(omp_get_num_threads() == threads);
#pragma omp single
    for (int at = 0; at < 8 * threads; at++) {
#pragma omp task
      {
        __atomic_add_fetch(&ran[omp_get_thread_num()], 1, __ATOMIC_RELAXED);
        work_ms(2);
      }
    }
    for (int turn = 0; turn < 20; turn++) {
#pragma omp for reduction(+ : sum)
      for (int at = 0; at < 1000; at++) sum += at;
    }
#pragma omp single
    found = fib(14);
  }
  printf("%d threads, %.2f s:", threads, omp_get_wtime() - began);
  for (int thread = 0; thread < threads; thread++) {
    printf(" %d", ran[thread]);
    idle += ran[thread] == 0;
  }
  puts("");
  CHECK(found == 377 && sum == 20 * 499500L);
  return idle == 0;
}

// In one of three rounds: on a busy host, a processor of an emulated machine may come too late for all of a round.
int main(int count, char **arguments) {
  CHECK(count >= 2);
  is_placed = strcmp(arguments[1], "places") == 0;
  allowed = is_placed ? all_cpus() : own_cpus();
  int processors = CPU_COUNT(&allowed), times = count > 2 ? atoi(arguments[2]) : 0, round = 1;
  if (is_placed) {
    CHECK(omp_get_num_places() == nodes_with(&allowed) || nodes_with(&allowed) == 1);
  } else {
    CHECK(omp_get_num_procs() == within_quota(&allowed) && omp_get_max_threads() == omp_get_num_procs());
  }
  omp_set_max_active_levels(2);
  while (round <= 3 && !(times > 0 ? many(times * processors) : nested())) round++;
  CHECK(round <= 3);
  puts("ok");
}
