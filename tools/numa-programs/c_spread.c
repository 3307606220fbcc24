// Which nodes run the tasks that one thread spawns in a scope, with the default settings and under each strategy.
#include "kernel.h"
#include <stdatomic.h>
#include <string.h>
#include <vicus.h>

#define TASKS 200

static atomic_int on_node[NODES], threads, is_bound;
static cpu_set_t allowed;
// The round in which the thread has run a task.
static _Thread_local int last_round;
static int round_now;

static int32_t work(void *data) {
  (void)data;
  cpu_set_t own = own_cpus();
  if (!CPU_EQUAL(&own, &allowed)) is_bound = 1;
  if (last_round != round_now) {
    last_round = round_now;
    threads++;
  }
  on_node[node_here()]++;
  work_ms(2);
  return VICUS_OK;
}

static int32_t spawn_all(vicus_scope *scope, void *data) {
  for (int at = 0; at < TASKS; at++) CHECK(vicus_scope_spawn(scope, work, data, NULL) == VICUS_OK);
  return VICUS_OK;
}

// Without a name, under the default.
static int is_idle(const char *strategy) {
  vicus_runtime *runtime;
  vicus_options *options;
  CHECK(vicus_options_new(&options) == VICUS_OK);
  if (strategy) CHECK(vicus_options_set(options, "strategy", strategy) == VICUS_OK);
  CHECK(vicus_options_set(options, "quiet", "yes") == VICUS_OK);
  CHECK(vicus_runtime_start(options, &runtime) == VICUS_OK);
  vicus_options_free(options);
  threads = is_bound = 0;
  round_now++;
  for (int node = 0; node < NODES; node++) on_node[node] = 0;
  CHECK(vicus_scope_run(runtime, spawn_all, NULL) == VICUS_OK);
  int all = 0, idle = 0;
  printf("%-16s %d threads, %s; by node", strategy ? strategy : "default", threads, is_bound ? "bound" : "free");
  for (int node = 0; node < NODES; node++) {
    cpu_set_t there = of_node(&allowed, node);
    all += on_node[node];
    if (CPU_COUNT(&there) == 0) continue;
    printf(" %d", on_node[node]);
    idle += on_node[node] == 0;
  }
  puts("");
  CHECK(all == TASKS);
  int has_idle_threads = threads < (int)vicus_runtime_threads(runtime);
  CHECK((int)vicus_runtime_threads(runtime) == within_quota(&allowed));
  vicus_runtime_free(runtime);
  // The threads that a quota has time for fill one node before the next.
  if (within_quota(&allowed) < CPU_COUNT(&allowed)) idle = 0;
  // Threads of `nls` are bound nowhere, as in its paper: two of them may be on one node, and none on another.
  if (strategy && strcmp(strategy, "nls") == 0) return has_idle_threads;
  return has_idle_threads || idle > 0 || (!is_bound && nodes_with(&allowed) > 1);
}

// In one of three rounds: on a busy host, a processor of an emulated machine may come too late for all of a round.
static int is_spread(const char *strategy) {
  for (int round = 1; round <= 3; round++)
    if (!is_idle(strategy)) return 1;
  return 0;
}

// The strategies are the arguments.
int main(int count, char **arguments) {
  allowed = own_cpus();
  CHECK(vicus_init() == VICUS_OK);
  int wrong = !is_spread(NULL);
  for (int at = 1; at < count; at++) wrong += !is_spread(arguments[at]);
  CHECK(wrong == 0);
  puts("ok");
}
