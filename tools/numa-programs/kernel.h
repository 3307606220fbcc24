// What the kernel says of threads, pages and nodes; and a check that ends the program where a fact does not hold.
#ifndef KERNEL_H
#define KERNEL_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NODES 8
#define CHECK(fact) \
  do { \
    if (!(fact)) { \
      fflush(stdout); \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #fact); \
      _exit(1); \
    } \
  } while (0)

static inline int node_here(void) {
  unsigned cpu, node;
  CHECK(syscall(SYS_getcpu, &cpu, &node, NULL) == 0 && node < NODES);
  return (int)node;
}

static inline int cpu_here(void) {
  unsigned cpu, node;
  CHECK(syscall(SYS_getcpu, &cpu, &node, NULL) == 0);
  return (int)cpu;
}

// The node of a page that has been touched.
static inline int node_of(const void *address) {
  void *page = (void *)((size_t)address & ~(size_t)4095);
  int status = -1;
  CHECK(syscall(SYS_move_pages, 0, 1UL, &page, NULL, &status, 0) == 0 && status >= 0 && status < NODES);
  return status;
}

// Adds to each node's count how many bytes of a range lie there.
static inline void count_bytes(const char *start, long bytes, long by_node[NODES]) {
  size_t end = (size_t)start + bytes;
  for (size_t at = (size_t)start; at < end;) {
    void *pages[512];
    int status[512];
    unsigned long count = 0;
    for (size_t page = at & ~(size_t)4095; page < end && count < 512; page += 4096) pages[count++] = (void *)page;
    CHECK(syscall(SYS_move_pages, 0, count, pages, NULL, status, 0) == 0);
    for (unsigned long page = 0; page < count; page++) {
      size_t next = (size_t)pages[page] + 4096 < end ? (size_t)pages[page] + 4096 : end;
      CHECK(status[page] >= 0 && status[page] < NODES);
      by_node[status[page]] += next - at;
      at = next;
    }
  }
}

static inline cpu_set_t own_cpus(void) {
  cpu_set_t set;
  CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
  return set;
}

// All that the process may have: an OpenMP library may have bound its first thread already.
static inline cpu_set_t all_cpus(void) {
  cpu_set_t own = own_cpus(), all;
  memset(&all, -1, sizeof all);
  CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
  all = own_cpus();
  CHECK(sched_setaffinity(0, sizeof own, &own) == 0);
  return all;
}

// As many processors of a set as this process's cgroup gives it the time of, rounded up. Groups above have no quota
// here.
static inline int within_quota(const cpu_set_t *set) {
  char group[160] = "", path[240];
  long quota, period;
  int all = CPU_COUNT(set), is_found;
  FILE *file = fopen("/proc/self/cgroup", "r");
  CHECK(file != NULL && fscanf(file, "0::%150s", group) == 1);
  fclose(file);
  snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
  file = fopen(path, "r");
  // The first group of all has no such file.
  if (file == NULL) return all;
  is_found = fscanf(file, "%ld %ld", &quota, &period) == 2;
  fclose(file);
  return is_found && (quota + period - 1) / period < all ? (int)((quota + period - 1) / period) : all;
}

// The processors of a set that are of a node.
static inline cpu_set_t of_node(const cpu_set_t *set, int node) {
  cpu_set_t found;
  CPU_ZERO(&found);
  for (int cpu = 0; cpu < 64; cpu++) {
    char path[80];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/node%d", cpu, node);
    if (CPU_ISSET(cpu, set) && access(path, F_OK) == 0) CPU_SET(cpu, &found);
  }
  return found;
}

// How many nodes have processors of a set.
static inline int nodes_with(const cpu_set_t *set) {
  int count = 0;
  for (int node = 0; node < NODES; node++) {
    cpu_set_t there = of_node(set, node);
    count += CPU_COUNT(&there) > 0;
  }
  return count;
}

// The nodes with processors of a set on which memory lies that is touched there. Returns how many there are.
static inline int homes_of(const cpu_set_t *set, int homes[NODES]) {
  int count = 0;
  cpu_set_t before = own_cpus();
  for (int node = 0; node < NODES; node++) {
    cpu_set_t there = of_node(set, node);
    if (CPU_COUNT(&there) == 0) continue;
    CHECK(sched_setaffinity(0, sizeof there, &there) == 0);
    char *page = (char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    *page = 1;
    if (node_of(page) == node) homes[count++] = node;
    munmap(page, 4096);
  }
  CHECK(sched_setaffinity(0, sizeof before, &before) == 0);
  return count;
}

// The node that is nearest to another one, among those with processors of a set; -1 if several are as near.
static inline int nearest(const cpu_set_t *set, int home) {
  char path[80];
  int best = -1, least = 1 << 30;
  snprintf(path, sizeof path, "/sys/devices/system/node/node%d/distance", home);
  FILE *file = fopen(path, "r");
  CHECK(file != NULL);
  for (int node = 0, distance; node < NODES && fscanf(file, "%d", &distance) == 1; node++) {
    cpu_set_t there = of_node(set, node);
    if (CPU_COUNT(&there) == 0 || distance > least) continue;
    best = distance < least ? node : -1;
    least = distance;
  }
  fclose(file);
  return best;
}

// A task's work. It sleeps: a processor of an emulated machine has turns of a tenth of a second, keeps its turn while
// it computes, and hands it on when it has nothing to do. So threads work side by side here as on a real machine.
static inline void work_ms(long ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static inline char *fresh_memory(size_t bytes) {
  void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(start != MAP_FAILED);
  return (char *)start;
}
#endif
