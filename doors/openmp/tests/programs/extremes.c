// Loops whose bounds, steps and chunks lie at the ends of their types, by the calls of gcc's and of clang's interface: random ones, of which
// each iteration is in one part of one thread, as a loop in 128 bits says. Parts are compared, not run, so a loop may have any number of
// iterations. EXTREMES_SEED=N tries one seed alone.
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <limits.h>
#include <omp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

typedef __int128 wide;
enum { MOST_PARTS = 6000 };

// What is tried now, for the message.
static char said[512];
static uint64_t seed, state;

#define HOLDS(fact) \
  do { \
    if (!(fact)) { \
      fprintf(stderr, "%s:%d: %s; %s (EXTREMES_SEED=%lu)\n", __FILE__, __LINE__, #fact, said, seed); \
      _exit(1); \
    } \
  } while (0)

static uint64_t draw(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static uint64_t below(uint64_t end) { return draw() % end; }

static void *of(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  if (!found) fprintf(stderr, "%s is not there\n", name);
  CHECK(found);
  return found;
}

// A loop: the numbers of its type, and what it is.
struct loop {
  int type;
  wide least, most, first, step, count, chunk;
};

static struct {
  wide low, high;
} parts[MOST_PARTS];
static int parts_count, lasts;

// The iterations from the one of value `low` to that of `high` are run.
static void ran(const struct loop *loop, wide low, wide high) {
  HOLDS((low - loop->first) % loop->step == 0 && (high - loop->first) % loop->step == 0);
  int at = __atomic_fetch_add(&parts_count, 1, __ATOMIC_RELAXED);
  HOLDS(at < MOST_PARTS);
  parts[at].low = (low - loop->first) / loop->step;
  parts[at].high = (high - loop->first) / loop->step;
}

static int by_low(const void *one, const void *other) {
  const wide *a = one, *b = other;
  return *a < *b ? -1 : *a > *b;
}

static void whole(const struct loop *loop, const char *what) {
  size_t used = strlen(said);
  snprintf(said + used, sizeof said - used, ": %s", what);
  qsort(parts, parts_count, sizeof *parts, by_low);
  wide next = 0;
  for (int at = 0; at < parts_count; at++) {
    HOLDS(parts[at].low == next && parts[at].high >= parts[at].low);
    next = parts[at].high + 1;
  }
  HOLDS(next == loop->count);
  said[used] = 0;
  parts_count = lasts = 0;
}

// 0 int, 1 unsigned, 2 long, 3 unsigned long.
static const wide LEAST[] = {INT_MIN, 0, LONG_MIN, 0}, MOST[] = {INT_MAX, UINT_MAX, LONG_MAX, ULONG_MAX};

// A number of a type, mostly one near to an end of some type.
static wide number(wide least, wide most) {
  const wide ends[] = {least, most, 0, INT_MAX, UINT_MAX, LONG_MAX, (wide)1 << 31, (wide)1 << 32};
  wide value = ends[below(8)] + (wide)below(80) - 40;
  if (below(4) == 0) value = least + ((((wide)(draw() >> 1)) << 64 | draw()) % (most - least + 1));
  return value < least ? least : value > most ? most : value;
}

// What one behind the last iteration stands for is a number of the type as well, since a compiler's code may need it.
static struct loop some_loop(int type) {
  struct loop loop = {.type = type, .least = LEAST[type], .most = MOST[type]};
  wide most_step = type < 2 ? INT_MAX : LONG_MAX;
  do {
    loop.first = number(loop.least, loop.most);
    loop.step = below(3) ? 1 + (wide)below(9) : number(1, most_step);
    if (below(2)) loop.step = -loop.step;
    wide room = loop.step > 0 ? (loop.most - loop.first) / loop.step : (loop.first - loop.least) / -loop.step;
    loop.count = below(3) ? (wide)below(200) : below(2) ? room - (wide)below(3) : number(0, room);
    if (loop.count > room) loop.count = room;
  } while (loop.count < 0);
  do {
    loop.chunk = below(2) ? 1 + (wide)below(100) : number(1, most_step);
  } while (loop.count / loop.chunk > 1000);
  snprintf(said, sizeof said, "type %d, from %lld by %lld, %llu iterations, chunk %llu", type, (long long)loop.first,
           (long long)loop.step, (unsigned long long)loop.count, (unsigned long long)loop.chunk);
  return loop;
}

// clang's code for a static loop, with the additions of its type.
#define STATIC(T, S, name) \
  static void static_##name(const struct loop *loop, int sched, bool is_chunked) { \
    typedef void (*Init)(void *, int, int, int *, T *, T *, S *, S, S); \
    Init init = (Init)of("__kmpc_for_static_init_" #name); \
    T low = (T)loop->first, end = (T)(loop->first + (loop->count - 1) * loop->step), high = end; \
    bool is_up = loop->step > 0; \
    S stride = 0; \
    int last = 0; \
    init(0, 0, sched, &last, &low, &high, &stride, (S)loop->step, (S)loop->chunk); \
    for (int round = 0;; round++) { \
      HOLDS(round < 4000); \
      if (is_up ? high > end : high < end) high = end; \
      if (is_up ? low > high : low < high) break; \
      ran(loop, (wide)low, (wide)low + ((wide)high - low) / loop->step * loop->step); \
      if (!is_chunked) break; \
      low = (T)((uint64_t)low + (uint64_t)stride); \
      high = (T)((uint64_t)high + (uint64_t)stride); \
    } \
    __atomic_fetch_add(&lasts, last, __ATOMIC_RELAXED); \
  } \
  static void dispatched_##name(const struct loop *loop, int sched) { \
    void (*init)(void *, int, int, T, T, S, S) = of("__kmpc_dispatch_init_" #name); \
    int (*next)(void *, int, int *, T *, T *, S *) = of("__kmpc_dispatch_next_" #name); \
    T low, high, end = (T)(loop->first + (loop->count - 1) * loop->step); \
    S stride; \
    int last = 0; \
    init(0, 0, sched, (T)loop->first, end, (S)loop->step, (S)loop->chunk); \
    while (next(0, 0, &last, &low, &high, &stride)) { \
      ran(loop, (wide)low, (wide)high); \
      __atomic_fetch_add(&lasts, last, __ATOMIC_RELAXED); \
    } \
  }
STATIC(int32_t, int32_t, 4)
STATIC(uint32_t, int32_t, 4u)
STATIC(int64_t, int64_t, 8)
STATIC(uint64_t, int64_t, 8u)

static void by_clang(const struct loop *loop) {
  void (*statics[])(const struct loop *, int, bool) = {static_4, static_4u, static_8, static_8u};
  void (*dispatched[])(const struct loop *, int) = {dispatched_4, dispatched_4u, dispatched_8, dispatched_8u};
  // Static with a chunk, static, in balanced parts of a chunk's multiple, and two of those with bits for how they are ordered.
  static const int SCHEDULES[] = {33, 34, 45, 33 | 1 << 29, 34 | 1 << 30};
  if (loop->count > 0)
    for (int at = 0; at < 5; at++) {
#pragma omp parallel
      statics[loop->type](loop, SCHEDULES[at], at == 0 || at == 3);
      HOLDS(lasts == 1);
      char what[64];
      snprintf(what, sizeof what, "static init, schedule %d", SCHEDULES[at] & 255);
      whole(loop, what);
    }
  // Static with a chunk, static, dynamic, guided, runtime, auto, and two that are not in order.
  static const int OTHERS[] = {33, 34, 35, 36, 37, 38, 47, 35 | 1 << 30, 35 | 1 << 29, 36 | 1 << 30, 66, 67};
  if (loop->count > 0)
    for (int at = 0; at < 12; at++) {
      struct loop now = *loop;
      // The chunk of `runtime` is an int: as long as the loop's parts are not too many.
      if ((OTHERS[at] & 255) == 37)
        omp_set_schedule(now.count / INT_MAX < 1000 ? 1 + below(4) : omp_sched_auto, (int)(now.chunk < INT_MAX ? now.chunk : INT_MAX));
      if ((OTHERS[at] & 255) == 47) omp_set_schedule(1 + below(3), 1 + (int)below(3));
#pragma omp parallel
      dispatched[now.type](&now, OTHERS[at]);
      HOLDS(lasts == 1);
      char what[64];
      snprintf(what, sizeof what, "dispatch, schedule %d", OTHERS[at] & 255);
      whole(loop, what);
    }
}

struct task {
  void *shareds;
  int (*entry)(int, struct task *);
  int part;
  void *destructors, *priority;
  uint64_t low, high;
  int64_t stride;
};

static struct loop current;

static wide as_type(uint64_t value) { return current.type == 3 ? (wide)value : (wide)(int64_t)value; }

static int one_task(int id, struct task *task) {
  ran(&current, as_type(task->low), as_type(task->high));
  return 0;
}

// Taskloops of clang have bounds of 64 bits, the last one's value among them.
static void by_clang_tasks(const struct loop *loop) {
  struct task *(*alloc)(void *, int, int, size_t, size_t, void *) = of("__kmpc_omp_task_alloc");
  void (*taskloop)(void *, int, struct task *, int, uint64_t *, uint64_t *, int64_t, int, int, uint64_t, void *) =
      of("__kmpc_taskloop");
  void (*strict)(void *, int, struct task *, int, uint64_t *, uint64_t *, int64_t, int, int, uint64_t, int, void *) =
      of("__kmpc_taskloop_5");
  current = *loop;
  for (int kind = 0; kind < 6; kind++) {
#pragma omp parallel
#pragma omp single
    {
      struct task *task = alloc(0, 0, 1, sizeof *task, 0, (void *)one_task);
      task->low = (uint64_t)loop->first;
      task->high = (uint64_t)(loop->first + (loop->count - 1) * loop->step);
      uint64_t tasks = kind / 2 % 2 ? (uint64_t)loop->chunk : 1 + below(50);
      if (kind % 2)
        strict(0, 0, task, 1, &task->low, &task->high, loop->step, 0, kind / 2, tasks, 1, 0);
      else
        taskloop(0, 0, task, 1, &task->low, &task->high, loop->step, 0, kind / 2, tasks, 0);
    }
    whole(loop, "taskloop of clang");
  }
}

static void one_part(void *data) {
  uint64_t *bounds = data;
  ran(&current, as_type(bounds[0]), as_type(bounds[1]) - current.step);
}

static void by_gcc(const struct loop *loop) {
  static const char *const KINDS[] = {"static",         "dynamic", "guided", "nonmonotonic_dynamic", "nonmonotonic_guided",
                                      "ordered_static", "ordered_dynamic", "ordered_guided"};
  bool is_unsigned = loop->type == 3;
  uint64_t end = (uint64_t)(loop->first + loop->count * loop->step);
  for (int kind = 0; kind < 8; kind++) {
    char name[64];
    snprintf(name, sizeof name, "GOMP_loop_%s%s_start", is_unsigned ? "ull_" : "", KINDS[kind]);
    void *start = of(name);
    snprintf(name, sizeof name, "GOMP_loop_%s%s_next", is_unsigned ? "ull_" : "", KINDS[kind]);
    bool (*next)(long *, long *) = of(name);
    void (*leave)(void) = of("GOMP_loop_end");
#pragma omp parallel
    {
      long low, high;
      bool is_more = is_unsigned ? ((bool (*)(bool, long, long, long, long, long *, long *))start)(
                                       loop->step > 0, (long)loop->first, (long)end, (long)loop->step,
                                       (long)loop->chunk, &low, &high)
                                 : ((bool (*)(long, long, long, long, long *, long *))start)(
                                       (long)loop->first, (long)end, (long)loop->step, (long)loop->chunk, &low, &high);
      for (; is_more; is_more = next(&low, &high)) {
        wide from = is_unsigned ? (wide)(uint64_t)low : low, to = is_unsigned ? (wide)(uint64_t)high : high;
        ran(loop, from, to - loop->step);
      }
      leave();
    }
    whole(loop, name);
  }
  current = *loop;
  enum { UP = 1 << 8, GRAINSIZE = 1 << 9, IF = 1 << 10, STRICT = 1 << 14 };
  static const unsigned FLAGS[] = {IF, IF | GRAINSIZE, IF | GRAINSIZE | STRICT, IF | STRICT, 0};
  for (int at = 0; at < 5; at++) {
    uint64_t bounds[3] = {0};
    unsigned flags = FLAGS[at] | (loop->step > 0 ? UP : 0);
    uint64_t tasks = flags & GRAINSIZE ? (uint64_t)loop->chunk : below(50);
    void (*taskloop)(void *, void *, void *, long, long, unsigned, uint64_t, int, uint64_t, uint64_t, uint64_t) =
        of(is_unsigned ? "GOMP_taskloop_ull" : "GOMP_taskloop");
#pragma omp parallel
#pragma omp single
    taskloop(one_part, bounds, 0, sizeof bounds, 8, flags, tasks, 0, (uint64_t)loop->first, end, (uint64_t)loop->step);
    whole(loop, "taskloop of gcc");
  }
}

struct dimension {
  int64_t low, high, step;
};

// Loops whose iterations wait for others, also for ones that are not there: before the first, behind the last, and between two.
static void across(int type) {
  struct loop loop;
  do loop = some_loop(type);
  while (loop.count > 300 || loop.type == 3);
  void (*init)(void *, int, int, struct dimension *) = of("__kmpc_doacross_init");
  void (*await)(void *, int, int64_t *) = of("__kmpc_doacross_wait");
  void (*post)(void *, int, int64_t *) = of("__kmpc_doacross_post");
  void (*fini)(void *, int) = of("__kmpc_doacross_fini");
  enum { INNER = 3 };
  static int done[301][INNER];
  memset(done, 0, sizeof done);
  // The outer dimension as it is, the inner one as clang says it: from 0, by 1, and how many.
  bool is_counted = loop.count == 0 || below(2);
  struct dimension dimensions[2] = {
      {(int64_t)loop.first, (int64_t)(loop.first + (loop.count - 1) * loop.step), (int64_t)loop.step}, {0, INNER, 1}};
  if (is_counted) dimensions[0] = (struct dimension){0, (int64_t)loop.count, 1};
#pragma omp parallel
  {
    init(0, 0, 2, dimensions);
#pragma omp for schedule(static, 1)
    for (int at = 0; at < (int)loop.count; at++)
      for (int inner = 0; inner < INNER; inner++) {
        int64_t first = dimensions[0].low, step = dimensions[0].step;
        wide before = (wide)first + ((wide)at - 1) * step;
        if (at > 0 || (before >= LONG_MIN && before <= LONG_MAX)) {
          int64_t same[2] = {(int64_t)before, inner}, further[2] = {(int64_t)before, inner + 1};
          int64_t beyond[2] = {(int64_t)before, INNER + below(3)}, under[2] = {(int64_t)before, -1};
          await(0, 0, same);
          await(0, 0, further);
          await(0, 0, beyond);
          await(0, 0, under);
          if (at > 0) HOLDS(__atomic_load_n(&done[at - 1][inner], __ATOMIC_RELAXED) == 1);
          if (at > 0 && inner + 1 < INNER) HOLDS(__atomic_load_n(&done[at - 1][inner + 1], __ATOMIC_RELAXED) == 1);
        }
        if (step > 1) await(0, 0, (int64_t[]){first - 1 + (int64_t)at * step > first ? first + 1 : first - 1, 0});
        __atomic_store_n(&done[at][inner], 1, __ATOMIC_RELAXED);
        post(0, 0, (int64_t[]){first + (int64_t)at * step, inner});
      }
    fini(0, 0);
  }
  for (int at = 0; at < (int)loop.count; at++) CHECK(done[at][0] && done[at][1] && done[at][2]);
}

int main(void) {
  const char *given = getenv("EXTREMES_SEED");
  seed = given ? strtoull(given, 0, 10) : (uint64_t)time(0) ^ (uint64_t)getpid() << 32;
  // The one that was found: 100 iterations, in chunks of a billion, by four threads.
  for (int type = 0; type < 4; type++) {
    struct loop loop = {type, LEAST[type], MOST[type], 0, 1, 100, 1000000000};
    snprintf(said, sizeof said, "type %d, 100 iterations, chunk 1000000000", type);
    by_clang(&loop);
    by_gcc(&loop);
  }
  for (int round = 0; round < (given ? 1 : 60); round++, seed++) {
    state = seed * 0x9e3779b97f4a7c15 | 1;
    for (int warm = 0; warm < 8; warm++) draw();
    for (int type = 0; type < 4; type++) {
      struct loop loop = some_loop(type);
      by_clang(&loop);
      by_clang_tasks(&loop);
      by_gcc(&loop);
      across(type % 3);
    }
  }
  puts("ok");
}
