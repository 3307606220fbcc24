// Whether tasks of C that say what they touch run on the node of its pages, under each strategy that deals tasks by
// their data: with vectors that vicus_alloc() has laid on a node each (`coarse`), with parts of one array (`blocked`),
// and with memory of the program's own, which the runtime's threads have touched. In the default's turn the tasks
// follow each other as well.
#include "near.h"
#include <vicus.h>

enum { COARSE, BLOCKED, TOUCHED, WAYS };
static const char *const names[WAYS] = {"coarse", "blocked", "touched"};

static int numbers[VECTORS], follows;

static int32_t work(void *data) {
  use_vector(*(int *)data);
  return VICUS_OK;
}

static int32_t spawn_all(vicus_scope *scope, void *data) {
  (void)data;
  for (int turn = 0; turn < VECTORS; turn++) {
    int at = order[turn];
    vicus_access access = {vectors[at], BYTES, 1, 0, VICUS_READ_WRITE, 0};
    vicus_task_options options = VICUS_TASK_OPTIONS_INIT;
    if (follows) {
      options.follows = &access, options.follows_count = 1;
    } else {
      options.touches = &access, options.touches_count = 1;
    }
    CHECK(vicus_scope_spawn_with(scope, work, &numbers[at], NULL, &options) == VICUS_OK);
  }
  return VICUS_OK;
}

static int32_t touch(void *data, uint32_t thread, uint32_t threads) {
  (void)data;
  for (uint32_t at = 0; at < VECTORS; at++)
    if (at * threads / VECTORS == thread) memset(vectors[at], 1, BYTES);
  return VICUS_OK;
}

static void get_vectors(vicus_runtime *runtime, int way) {
  void *memory;
  if (way == BLOCKED) CHECK(vicus_alloc(runtime, VECTORS * BYTES, 0, "blocked", &memory) == VICUS_OK);
  if (way == TOUCHED) memory = fresh_memory(VECTORS * BYTES);
  for (int at = 0; at < VECTORS; at++) {
    if (way == COARSE) CHECK(vicus_alloc(runtime, BYTES, 0, "coarse", &memory) == VICUS_OK);
    vectors[at] = way == COARSE ? (char *)memory : (char *)memory + at * BYTES;
    if (way != TOUCHED) memset(vectors[at], 1, BYTES);
  }
  if (way == TOUCHED) CHECK(vicus_on_each_thread(runtime, touch, NULL) == VICUS_OK);
}

static void give_vectors(int way) {
  if (way == BLOCKED) CHECK(vicus_free(vectors[0]) == VICUS_OK);
  if (way == TOUCHED) CHECK(munmap(vectors[0], VECTORS * BYTES) == 0);
  for (int at = 0; way == COARSE && at < VECTORS; at++) CHECK(vicus_free(vectors[at]) == VICUS_OK);
}

// Returns whether too few were near.
static int is_far(vicus_runtime *runtime, const char *strategy, int way) {
  get_vectors(runtime, way);
  look_at_vectors();
  printf("%-16s %-8s near", strategy, names[way]);
  for (int pass = 0; pass < PASSES; pass++) {
    near_now = counted_now = 0;
    CHECK(vicus_scope_run(runtime, spawn_all, NULL) == VICUS_OK);
    count_pass(pass);
  }
  int most = can_be_near(), all = nodes_with(&allowed);
  printf(" in turn, memory near %d of %d nodes, %d can be near at once\n", bests, all, most);
  fflush(stdout);
  give_vectors(way);
  if (bests < 2) {
    puts("not checked: all memory is near one node");
    return 0;
  }
  CHECK(counted_all * all * 2 >= VECTORS * (PASSES - LEARNING) * bests);
  return near_all * 4 * VECTORS < counted_all * 3 * most;
}

// The strategies are the arguments; the default has its turn before.
int main(int count, char **arguments) {
  int wrong = 0;
  allowed = own_cpus();
  for (int at = 0; at < VECTORS; at++) numbers[at] = at;
  CHECK(vicus_init() == VICUS_OK);
  for (int argument = 0; argument < count; argument++) {
    const char *strategy = argument == 0 ? "default" : arguments[argument];
    vicus_runtime *runtime;
    vicus_options *options;
    CHECK(vicus_options_new(&options) == VICUS_OK);
    if (argument > 0) CHECK(vicus_options_set(options, "strategy", strategy) == VICUS_OK);
    CHECK(vicus_options_set(options, "quiet", "yes") == VICUS_OK);
    CHECK(vicus_runtime_start(options, &runtime) == VICUS_OK);
    vicus_options_free(options);
    follows = argument == 0;
    for (int way = 0; way < WAYS; way++) {
      // In one of two rounds: on a busy host, a processor of an emulated machine may come too late.
      wrong += is_far(runtime, strategy, way) && is_far(runtime, strategy, way);
    }
    vicus_runtime_free(runtime);
  }
  CHECK(wrong == 0);
  puts("ok");
}
