// Calls of clang's interface that no released clang makes and that others do: sections one by one, tasks that their program ends, variables of
// each thread that are arrays, and what is cancelled. They are found by their names.
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

static void *of(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  if (!found) fprintf(stderr, "%s is not there\n", name);
  CHECK(found);
  return found;
}

struct task {
  void *shareds;
  int (*entry)(int, struct task *);
  int part;
  void *destructors, *priority;
  int number;
};

struct depend {
  void *address;
  size_t bytes;
  unsigned char flags;
};

static int ended, begun, order;

static void *end_later(void *task) {
  void (*completed)(void *) = of("__kmpc_proxy_task_completed_ooo");
  usleep(3000);
  __atomic_fetch_add(&ended, 1, __ATOMIC_RELEASE);
  completed(task);
  return 0;
}

static pthread_t threads[32];

// Its program ends it: another thread later, or it does so itself.
static int entry(int id, struct task *task) {
  __atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
  if (task->number % 2) {
    CHECK(!pthread_create(&threads[task->number], 0, end_later, task));
  } else {
    void (*completed)(int, void *) = of("__kmpc_proxy_task_completed");
    __atomic_fetch_add(&ended, 1, __ATOMIC_RELEASE);
    threads[task->number] = 0;
    completed(id, task);
  }
  return 0;
}

static int after(int id, struct task *task) {
  CHECK(__atomic_load_n(&ended, __ATOMIC_ACQUIRE) == 1);
  order = 1;
  return 0;
}

static void sections(int count) {
  int (*init)(void *, int) = of("__kmpc_sections_init");
  int (*next)(void *, int, int) = of("__kmpc_next_section");
  void (*end)(void *, int) = of("__kmpc_end_sections");
  int times[40] = {0};
#pragma omp parallel
  for (int round = 0; round < 40; round++) {
    init(0, 0);
    for (int at; (at = next(0, 0, count)) < count;) {
      CHECK(at >= 0);
      __atomic_fetch_add(&times[at], 1, __ATOMIC_RELAXED);
    }
    end(0, 0);
  }
  for (int at = 0; at < 40; at++) CHECK(times[at] == (at < count ? 40 : 0));
}

static int calls;

static void region(int *id, int *number) {
  CHECK(*number == omp_get_thread_num());
  static _Thread_local int depth;
  __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
  if (depth++ == 0) CHECK(((int (*)(int))of("__kmpc_invoke_task_func"))(*id) == 1);
  depth = 0;
}

static void again(void) {
  ((void (*)(void *, int, void *, ...))of("__kmpc_fork_call"))(0, 0, (void *)region);
  CHECK(calls == 2 * omp_get_max_threads());
}

int main(void) {
  for (int count = 0; count < 40; count += 1 + count / 3) sections(count);
  struct task *(*alloc)(void *, int, int, size_t, size_t, void *) = of("__kmpc_omp_task_alloc");
  int (*spawn)(void *, int, struct task *) = of("__kmpc_omp_task");
  int (*follow)(void *, int, struct task *, int, struct depend *, int, struct depend *) = of("__kmpc_omp_task_with_deps");
  enum { TIED = 1, PROXY = 0x10 };
  for (int how = 0; how < 3; how++) {
    begun = ended = 0;
#pragma omp parallel
#pragma omp single
    {
      if (how == 1) omp_get_wtime();
      for (int at = 0; at < 32; at++) {
        struct task *task = alloc(0, 0, TIED | PROXY, sizeof *task, 0, (void *)entry);
        task->number = at;
        spawn(0, 0, task);
      }
      if (how == 0) {
#pragma omp taskwait
        CHECK(__atomic_load_n(&ended, __ATOMIC_ACQUIRE) == 32);
      }
    }
    CHECK(begun == 32 && __atomic_load_n(&ended, __ATOMIC_ACQUIRE) == 32);
    for (int at = 1; at < 32; at += 2) pthread_join(threads[at], 0);
    // One that follows a proxy.
    begun = ended = order = 0;
    struct depend depend = {&order, sizeof order, 3};
#pragma omp parallel
#pragma omp single
    {
      struct task *task = alloc(0, 0, TIED | PROXY, sizeof *task, 0, (void *)entry);
      task->number = 1;
      follow(0, 0, task, 1, &depend, 0, 0);
      follow(0, 0, alloc(0, 0, TIED, sizeof *task, 0, (void *)after), 1, &depend, 0, 0);
    }
    CHECK(order == 1);
    pthread_join(threads[1], 0);
  }
  static int own[4] = {1, 2, 3, 4};
  ((void (*)(void *, void *, void *, void *, void *, size_t))of("__kmpc_threadprivate_register_vec"))(0, own, 0, 0, 0, 4);
  const char *numbers[] = {"omp_null_allocator", "omp_default_mem_alloc", "omp_large_cap_mem_alloc", "omp_const_mem_alloc",
    "omp_high_bw_mem_alloc", "omp_low_lat_mem_alloc", "omp_cgroup_mem_alloc", "omp_pteam_mem_alloc", "omp_thread_mem_alloc"};
  for (int at = 0; at < 9; at++) CHECK(*(size_t *)of(numbers[at]) == (size_t)at);
  CHECK(*(size_t *)of("omp_low_lat_mem_space") == 4);
  // What libomp 19.1.7 returns.
  int (*task)(void) = of("__kmpc_get_taskid"), (*parent)(void) = of("__kmpc_get_parent_taskid");
  int (*known)(void) = of("kmp_get_num_known_threads");
  void *(*handle)(int) = of("__kmpc_omp_get_target_async_handle_ptr");
  CHECK(task() == -1 && parent() == 0);
#pragma omp parallel
  {
    CHECK(task() == -1 && parent() == -1);
#pragma omp barrier
    CHECK(known() >= omp_get_num_threads());
#pragma omp task
    CHECK(task() == -1 && parent() == -1 && !handle(0));
  }
  struct task *made = alloc(0, 0, TIED, sizeof *made, 0, (void *)entry);
  CHECK(!((void *(*)(void *))of("__kmpc_task_get_depnode"))(made));
  CHECK(!((void *(*)(void *))of("__kmpc_task_get_successors"))(made));
  again();
  ((void (*)(void))of("kmp_set_thread_affinity_mask_initial"))();
  int (*status)(int) = of("kmp_get_cancellation_status");
#pragma omp parallel
  for (int kind = 0; kind < 5; kind++) CHECK(status(kind) == 0);
  puts("ok");
}
