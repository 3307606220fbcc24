// Whether the pages of malloc's blocks lie as VICUS_DATA_DISTRIBUTION_OF says of their sizes. The arguments are pairs
// of a size and its distribution: `tiles` of 128 rows and 16,384 bytes, of a matrix with rows of 32,768 bytes, `fine`,
// `blocked`, `on:1` or `nothing`. Blocks of the last one lie where they are touched.
#include "kernel.h"
#include <omp.h>

#define PAGE 4096L
#define ROW_BYTES 32768L
#define TILE_ROWS 128L
#define TILE_BYTES 16384L

// The nodes with memory, in the order of their numbers.
static int memory_of[NODES], locations;

// Whether a node has memory: of what the kernel tells, `MemTotal`.
static int has_memory(int node) {
  char path[80], line[120];
  long kilobytes = 0;
  snprintf(path, sizeof path, "/sys/devices/system/node/node%d/meminfo", node);
  FILE *file = fopen(path, "r");
  if (file == NULL) return 0;
  while (fgets(line, sizeof line, file) && sscanf(line, "Node %*d MemTotal: %ld", &kilobytes) != 1) continue;
  fclose(file);
  return kilobytes > 0;
}

// Which of the nodes with memory a page is meant for. A matrix's tiles go round a grid of two rows where the number of
// nodes can be divided by two and is more than two, else of one.
static int meant(const char *how, long page, long pages) {
  long byte = page * PAGE;
  if (strcmp(how, "fine") == 0) return (int)(page % locations);
  if (strcmp(how, "on:1") == 0) return 1 % locations;
  if (strcmp(how, "tiles") == 0) {
    int down = locations % 2 == 0 && locations > 2 ? 2 : 1, across = locations / down;
    return (int)(byte / ROW_BYTES / TILE_ROWS % down * across + byte % ROW_BYTES / TILE_BYTES % across);
  }
  CHECK(strcmp(how, "blocked") == 0);
  // As many whole pages for each as for the others, and one more for some.
  int location = 0;
  while (page >= (location + 1) * pages / locations) location++;
  return location;
}

int main(int count, char **arguments) {
  CHECK(count > 1 && count % 2 == 1);
  for (int node = 0; node < NODES; node++)
    if (has_memory(node)) memory_of[locations++] = node;
  int wrong = 0;
  for (int pair = 1; pair < count; pair += 2) {
    long bytes = atol(arguments[pair]), pages = bytes / PAGE, others = 0, by_node[NODES] = {0};
    const char *how = arguments[pair + 1];
    char *block = malloc(bytes);
    CHECK(block != NULL);
    memset(block, 1, bytes);
    count_bytes(block, bytes, by_node);
    // Blocks that are left as they are lie where they are touched, or where most of the others lie if that is full.
    if (strcmp(how, "nothing") == 0) {
      int most = 0;
      for (int node = 1; node < NODES; node++)
        if (by_node[node] > by_node[most]) most = node;
      others = pages - by_node[most] / PAGE;
    } else {
      CHECK((size_t)block % PAGE == 0);
      for (long page = 0; page < pages; page++)
        others += node_of(block + page * PAGE) != memory_of[meant(how, page, pages)];
    }
    printf("%ld bytes, %s: pages by node", bytes, how);
    for (int at = 0; at < locations; at++) printf(" %ld", by_node[memory_of[at]] / PAGE);
    printf("; %ld of %ld elsewhere\n", others, pages);
    // A node that is full takes no more.
    wrong += others * 20 > pages;
    free(block);
  }
  CHECK(wrong == 0);
  puts("ok");
}
