// Short threads with regions of several sizes, one after the other and some at once: the process's threads and memory return to a constant. And
// a pause, which ends those that are left.
#include "check.h"
#include <omp.h>
#include <pthread.h>
#include <string.h>

static long status(const char *name) {
  FILE *file = fopen("/proc/self/status", "r");
  char line[256];
  long value = -1;
  while (fgets(line, sizeof line, file))
    if (!strncmp(line, name, strlen(name))) value = atol(line + strlen(name));
  fclose(file);
  return value;
}

static int counted;

static void *one(void *number) {
  int size = 1 + (int)(long)number % 4;
  for (int round = 0; round < 3; round++) {
    int sum = 0;
#pragma omp parallel num_threads(size) reduction(+ : sum)
    {
      sum += 1;
      if (size == 3) {
#pragma omp parallel num_threads(2)
        __atomic_fetch_add(&counted, 1, __ATOMIC_RELAXED);
      }
    }
    CHECK(sum == size);
    size = 1 + size % 4;
  }
  return 0;
}

static void some(int rounds, int at_once) {
  pthread_t threads[16];
  for (int round = 0; round < rounds; round++) {
    for (long at = 0; at < at_once; at++) CHECK(!pthread_create(&threads[at], 0, one, (void *)(round + at)));
    for (int at = 0; at < at_once; at++) CHECK(!pthread_join(threads[at], 0));
  }
}

// Threads end a moment after they were told.
static long settled(long most) {
  long threads = 0;
  for (int round = 0; round < 500; round++) {
    threads = status("Threads:");
    if (threads <= most) break;
    usleep(10000);
  }
  return threads;
}

int main(void) {
  omp_set_max_active_levels(2);
  // First what the process ever needs at once: the C library keeps memory for each thread that there was.
  some(4, 16);
  settled(60);
  long memory = status("VmRSS:");
  some(20, 1);
  some(6, 8);
  some(8, 16);
  CHECK(settled(60) <= 60);
  CHECK(status("VmRSS:") < memory + (24 << 10));
  CHECK(counted > 0);
  // The calling thread's own are ended by a pause, with all that are left; not from within a region.
  one((void *)3);
  int refused = 0;
#pragma omp parallel num_threads(2) reduction(+ : refused)
  refused += omp_pause_resource_all(omp_pause_soft) != 0;
  CHECK(refused == 2);
  CHECK(omp_pause_resource(omp_pause_hard, 77) != 0);
  CHECK(omp_pause_resource((omp_pause_resource_t)9, omp_get_initial_device()) != 0);
  CHECK(omp_pause_resource(omp_pause_soft, omp_get_initial_device()) == 0);
  CHECK(settled(1) == 1);
  for (int round = 0; round < 5; round++) {
    one((void *)3);
    CHECK(omp_pause_resource_all(omp_pause_hard) == 0);
  }
  CHECK(settled(1) == 1);
  puts("ok");
}
