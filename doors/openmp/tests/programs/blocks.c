// Large blocks of the C library that come and go: the runtime knows those in use, and forgets what is freed, moved or
// unmapped.
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define LARGE (1 << 20)

static int rounds(void) {
  for (int round = 0; round < 20; round++) {
    char *blocks[8];
    for (int at = 0; at < 8; at++) {
      void *block = NULL;
      switch (at % 4) {
      case 0: block = malloc(LARGE); break;
      case 1: block = calloc(LARGE, 1); break;
      case 2: if (posix_memalign(&block, 4096, LARGE)) return 0; break;
      case 3: block = realloc(realloc(NULL, 100), LARGE); break;
      }
      blocks[at] = block;
      memset(block, round, LARGE);
    }
    for (int at = 0; at < 8; at++) {
      blocks[at] = realloc(blocks[at], (size_t)LARGE * (at + 1) / 2);
      if (blocks[at][100] != round) return 0;
      errno = 77;
      free(blocks[at]);
      if (errno != 77) return 0;
    }
  }
  return 1;
}

static int mappings(void) {
  char *old = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(old, 3, LARGE);
  char *grown = mremap(old, LARGE, 4 * LARGE, MREMAP_MAYMOVE);
  if (grown == MAP_FAILED || grown[LARGE - 1] != 3) return 0;
  char *place = mmap(NULL, 4 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mremap(grown, 4 * LARGE, 4 * LARGE, MREMAP_MAYMOVE | MREMAP_FIXED, place) != place || place[5] != 3) return 0;
  if (munmap(place, 4 * LARGE) != 0) return 0;
  errno = 0;
  return munmap((void *)1, 4096) == -1 && errno == EINVAL && mremap((void *)1, 1, 1, 0) == MAP_FAILED;
}

int main(void) {
  CHECK(rounds() && mappings());
  int is_right = 1;
#pragma omp parallel reduction(&& : is_right)
  is_right = is_right && rounds();
  CHECK(is_right);
#pragma omp parallel
#pragma omp single
  for (int at = 0; at < 200; at++) {
    char *data = malloc(LARGE);
#pragma omp task firstprivate(data) depend(out : data[0])
    memset(data, 1, LARGE);
#pragma omp task firstprivate(data) depend(in : data[0])
    {
      CHECK(data[0] + data[LARGE - 1] == 2);
      free(data);
    }
  }
  for (int round = 0; round < 3; round++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(!rounds());
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  puts("ok");
}
