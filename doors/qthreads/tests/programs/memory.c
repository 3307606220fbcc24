/* Memory runs out while threads wait to begin: a fork says so, and all that were forked run. */
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

int main(void) {
  CHECK(qthread_initialize() == 0);
  /* Stacks of its own, so that what follows is the threads' memory. */
  aligned_t first = 0;
  CHECK(qthread_fork(count, NULL, &first) == 0);
  qthread_readFF(NULL, &first);
  struct rlimit limit, all;
  CHECK(getrlimit(RLIMIT_AS, &all) == 0);
  limit = all;
  limit.rlim_cur = used() + (24 << 20);
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  size_t forked = 1;
  int code = 0;
  /* They name their shepherd, so they are queued however many they are. */
  while (forked < 2000000 && (code = qthread_fork_to(count, NULL, NULL, 0)) == 0) forked++;
  CHECK(setrlimit(RLIMIT_AS, &all) == 0);
  CHECK(code == QTHREAD_MALLOC_ERROR);
  while (__atomic_load_n(&ran, __ATOMIC_RELAXED) < forked) qthread_yield();
  puts("ok");
  return 0;
}
