// Where the pages of malloc's blocks lie that one thread touches, and tasks that use them. The argument is the
// distribution that is expected: `none` (all pages near the thread that has touched them), `coarse` (each block on one
// node, the blocks on the nodes in turn) or `fine` (pages on the nodes in turn).
#include "kernel.h"
#include <omp.h>

#define VECTORS 24
#define BYTES (1L << 20)
#define PAGES (BYTES / 4096)
#define PASSES 2

static char *vectors[VECTORS];

int main(int count, char **arguments) {
  CHECK(count == 2);
  for (int at = 0; at < VECTORS; at++) {
    vectors[at] = malloc(BYTES);
    memset(vectors[at], 1, BYTES);
  }
  for (int pass = 0; pass < PASSES; pass++) {
#pragma omp parallel
#pragma omp single
    for (int at = 0; at < VECTORS; at++) {
      char *vector = vectors[at];
#pragma omp task depend(inout : vector[0 : BYTES]) firstprivate(vector)
      for (long byte = 0; byte < BYTES; byte += 512) vector[byte]++;
    }
  }
  long by_node[NODES] = {0};
  int wholes = 0, turns = 0, steps = 0, last = -1, nodes = 0;
  printf("%s: node of most pages", arguments[1]);
  for (int at = 0; at < VECTORS; at++) {
    // Behind what malloc keeps in front of the block.
    char *first = vectors[at] - (size_t)vectors[at] % 4096 + 4096;
    long own[NODES] = {0};
    int most = 0;
    for (int page = 0, before = -1; page < PAGES - 1; page++) {
      int node = node_of(first + page * 4096L);
      own[node]++, by_node[node]++;
      turns += before >= 0 && node != before;
      steps += before >= 0;
      before = node;
    }
    for (int node = 1; node < NODES; node++)
      if (own[node] > own[most]) most = node;
    wholes += own[most] == PAGES - 1 && most != last;
    last = most;
    printf(" %d", most);
  }
  for (int node = 0; node < NODES; node++) nodes += by_node[node] > 0;
  printf("; %d blocks as a whole on another node than the one before, %d of %d pages than the one before\n", wholes, turns,
         steps);
  // A node that is full leaves its pages to others.
  if (strcmp(arguments[1], "none") == 0) CHECK(turns * 10 <= steps && wholes * 4 <= VECTORS);
  if (strcmp(arguments[1], "coarse") == 0) CHECK(nodes > 1 && wholes * 10 >= VECTORS * 9);
  if (strcmp(arguments[1], "fine") == 0) CHECK(nodes > 1 && turns * 10 >= steps * 9);
  puts("ok");
}
