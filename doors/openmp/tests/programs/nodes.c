// Where the system has put memory that lies as its call says, and memory that moves to a node or to the next task that
// uses it. How many nodes there are is its argument.
#define _GNU_SOURCE
#include "check.h"
#include <malloc.h>
#include <omp.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <vicus_omp.h>

#define PAGE 4096L
#define LARGE (4L << 20)

static int node_here(void) {
  unsigned cpu, node;
  CHECK(syscall(SYS_getcpu, &cpu, &node, NULL) == 0);
  return (int)node;
}

// How many of the whole pages of memory lie on a node, and how many there are.
static long on_node(const char *start, long bytes, int node, long *all) {
  long count = 0, found = 0;
  const char *at = (const char *)(((size_t)start + PAGE - 1) / PAGE * PAGE);
  for (; at + PAGE <= start + bytes; at += PAGE) {
    void *page = (void *)at;
    int lies = -1;
    CHECK(syscall(SYS_move_pages, 0, 1L, &page, NULL, &lies, 0) == 0);
    found++;
    count += lies == node;
  }
  if (all) *all = found;
  return count;
}

// The node that has most of the pages.
static int node_of(const char *start, long bytes) {
  int best = 0;
  for (int node = 1; node < 8; node++)
    if (on_node(start, bytes, node, NULL) > on_node(start, bytes, best, NULL)) best = node;
  return best;
}

static int nodes, has_memory[8];

static void by_call(void) {
  char *coarse[4];
  int seen[8] = {0};
  for (int at = 0; at < 4; at++) {
    memset(coarse[at] = omp_malloc_specific(LARGE, OMP_MALLOC_COARSE), 1, LARGE);
    long all, node = node_of(coarse[at], LARGE);
    CHECK(on_node(coarse[at], LARGE, (int)node, &all) == all);
    seen[node]++;
  }
  for (int node = 0; node < 8; node++) CHECK(nodes == 1 || seen[node] < 4);
  char *fine = omp_malloc_specific(LARGE, OMP_MALLOC_FINE);
  memset(fine, 1, LARGE);
  CHECK(on_node(fine, LARGE, node_of(fine, LARGE), NULL) <= LARGE / PAGE / (nodes > 1 ? 2 : 1) + 1);
  for (int at = 0; at < 4; at++) omp_malloc_free(coarse[at]);
  omp_malloc_free(fine);
}

static void moves(void) {
  char *memory = malloc(LARGE);
  memset(memory, 3, LARGE);
  for (int node = 0; node < nodes; node++) {
    long all;
    int status = vicus_omp_migrate(memory, LARGE, node);
    // A node without memory is refused.
    CHECK(status == 0 || (status == -5 && nodes > 1));
    if (status != 0) continue;
    // The runtime's numbers of nodes may be others than the system's: each is another node.
    int lies = node_of(memory, LARGE);
    CHECK(on_node(memory, LARGE, lies, &all) >= all - 1 && !has_memory[lies]);
    has_memory[lies] = 1;
  }
  CHECK(vicus_omp_migrate(memory, LARGE, 1000) == -1);
  for (int round = 0; round < 4; round++) {
    int ran = -1;
    vicus_omp_migrate(memory, LARGE, round % nodes);
    CHECK(vicus_omp_migrate(memory, LARGE, VICUS_NEXT_TOUCH) == 0);
#pragma omp parallel
#pragma omp single
    {
      // A neighbour, so that gcc's task has its length.
#pragma omp task shared(ran, memory) depend(inout : memory[0]) depend(in : memory[LARGE / 2])
      ran = node_here();
    }
    long all;
    CHECK(ran >= 0 && (!has_memory[ran] || on_node(memory, LARGE / 2, ran, &all) >= all - 1));
  }
  for (long at = 0; at < LARGE; at++) CHECK(memory[at] == 3);
  free(memory);
}

int main(int count, char **arguments) {
  nodes = count > 1 ? atoi(arguments[1]) : 1;
  // Each block is a mapping: what is freed is gone, and the next one at its addresses has other pages.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  by_call();
  moves();
  puts("ok");
}
