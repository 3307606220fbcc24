// A plugin that uses OpenMP, opened so that it finds its own libraries' symbols first, closed, and opened again. The
// program itself has no OpenMP. This file is both: with PLUGIN, the plugin.
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>

#ifdef PLUGIN
#include <omp.h>

// The sum of the squares below `count`, by a loop, by tasks, and by a loop in teams within teams.
long squares(int count) {
  long by_loop = 0, by_tasks = 0, by_teams = 0;
#pragma omp parallel for reduction(+ : by_loop) schedule(dynamic, 7)
  for (int n = 0; n < count; ++n) by_loop += (long)n * n;
#pragma omp parallel
#pragma omp single
  for (int n = 0; n < count; ++n) {
#pragma omp task firstprivate(n) shared(by_tasks)
    {
#pragma omp atomic
      by_tasks += (long)n * n;
    }
  }
#pragma omp parallel num_threads(2) reduction(+ : by_teams)
  {
    int own = omp_get_thread_num(), all = omp_get_num_threads();
#pragma omp parallel for num_threads(2) reduction(+ : by_teams)
    for (int n = own; n < count; n += all) by_teams += (long)n * n;
  }
  return by_loop == by_tasks && by_loop == by_teams ? by_loop : -1;
}

int threads(void) { return omp_get_max_threads(); }
#else

static void use(const char *path, int flags, int times) {
  for (int time = 0; time < times; ++time) {
    void *plugin = dlopen(path, flags);
    if (!plugin) fprintf(stderr, "%s\n", dlerror());
    CHECK(plugin);
    long (*squares)(int) = (long (*)(int))dlsym(plugin, "squares");
    int (*threads)(void) = (int (*)(void))dlsym(plugin, "threads");
    CHECK(squares && threads);
    void *runtime = dlsym(plugin, "vicus_omp_placed_from");
    CHECK(runtime);
    CHECK(threads() >= 1);
    for (int call = 0; call < 3; ++call) CHECK(squares(1000) == 332833500);
    CHECK(dlclose(plugin) == 0);
    // Its threads are still there, so it is as well.
    Dl_info info;
    CHECK(dladdr(runtime, &info));
  }
}

int main(int argc, char **argv) {
  CHECK(argc == 3);
  use(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND, 3);
  use(argv[2], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND, 2);
  use(argv[1], RTLD_LAZY | RTLD_LOCAL, 2);
  // Both at once.
  void *first = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND), *other = dlopen(argv[2], RTLD_NOW | RTLD_DEEPBIND);
  CHECK(first && other);
  long (*one)(int) = (long (*)(int))dlsym(first, "squares"), (*two)(int) = (long (*)(int))dlsym(other, "squares");
  CHECK(one != two && one(100) == 328350 && two(100) == 328350);
  CHECK(dlclose(first) == 0 && two(100) == 328350 && dlclose(other) == 0);
  puts("ok");
}
#endif
