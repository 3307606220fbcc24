/* Memory runs out while threads wait to begin: a fork says so, and all that were forked run. What failed is waited for by no one. */
#include "check.h"
#include <qthread/qthread.h>
#include <stdint.h>
#include <sys/resource.h>

static aligned_t ran;

static aligned_t count(void *arg) {
  (void)arg;
  __atomic_fetch_add(&ran, 1, __ATOMIC_RELAXED);
  return 0;
}

static size_t used(void) {
  unsigned long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1);
  fclose(file);
  return pages * 4096;
}

static struct rlimit all;

static void limit(void) {
  struct rlimit less = all;
  less.rlim_cur = used() + (24 << 20);
  CHECK(setrlimit(RLIMIT_AS, &less) == 0);
}

#define MOST 2000000
static size_t forked;
static aligned_t words[1000];
static syncvar_t vars[1000];

/* Forks until there is no memory; they name their shepherd, so they are queued however many they are. */
static void fork_all(void) {
  int code = 0;
  while (forked < MOST && (code = qthread_fork_to(count, NULL, NULL, 0)) == 0) forked++;
  CHECK(code == QTHREAD_MALLOC_ERROR);
}

/* With results: those of threads that there are not stay full, and as they were. */
static void fork_with_results(unsigned flags) {
  size_t index;
  aligned_t value;
  for (index = 0; index < 1000; index++) {
    words[index] = 5;
    if (qthread_spawn(count, NULL, 0, &words[index], 0, NULL, 0, flags) == QTHREAD_MALLOC_ERROR) break;
    forked++;
  }
  CHECK(index < 1000 && qthread_feb_status(&words[index]) == 1);
  CHECK(qthread_readFF(&value, &words[index]) == 0 && value == 5);
  CHECK(qthread_empty(&words[index]) == 0);
  if (qthread_spawn(count, NULL, 0, &words[index], 0, NULL, 0, flags) == QTHREAD_MALLOC_ERROR) CHECK(!qthread_feb_status(&words[index]));
  else forked++;
  CHECK(qthread_fill(&words[index]) == 0);
  for (index = 0; index < 1000; index++) {
    vars[index] = SYNCVAR_INITIALIZE_TO(6);
    if (qthread_spawn(count, NULL, 0, &vars[index], 0, NULL, 0, flags | QTHREAD_SPAWN_RET_SYNCVAR_T) == QTHREAD_MALLOC_ERROR) break;
    forked++;
  }
  CHECK(index < 1000 && qthread_syncvar_status(&vars[index]) == 1 && vars[index].u.s.data == 6);
}

/* A team waits for no member that there is not. */
static aligned_t lead(void *arg) {
  (void)arg;
  limit();
  fork_all();
  fork_with_results(0);
  fork_with_results(QTHREAD_SPAWN_NEW_SUBTEAM);
  CHECK(setrlimit(RLIMIT_AS, &all) == 0);
  return 7;
}

int main(void) {
  aligned_t ret = 0;
  CHECK(qthread_initialize() == 0 && getrlimit(RLIMIT_AS, &all) == 0);
  /* Stacks of its own, so that what follows is the threads' memory. */
  CHECK(qthread_fork(count, NULL, &ret) == 0);
  forked = 1;
  qthread_readFF(NULL, &ret);
  limit();
  fork_all();
  fork_with_results(0);
  CHECK(setrlimit(RLIMIT_AS, &all) == 0);
  while (__atomic_load_n(&ran, __ATOMIC_RELAXED) < forked) qthread_yield();
  CHECK(qthread_fork_new_team(lead, NULL, &ret) == 0 && qthread_readFF(&ret, &ret) == 0 && ret == 7);
  CHECK(__atomic_load_n(&ran, __ATOMIC_RELAXED) == forked);
  puts("ok");
  return 0;
}
