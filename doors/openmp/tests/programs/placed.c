// Memory that lies as the user says: blocks of 64 KiB and more, whoever asks for them and when; small ones are the C library's.
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <omp.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#define LARGE (1 << 20)
#define SMALL 1000

static char *before_main;

__attribute__((constructor)) static void early(void) {
  before_main = malloc(LARGE);
  memset(before_main, 7, LARGE);
}

static void late(void) {
  char *last = malloc(LARGE);
  memset(last, 1, LARGE);
  free(last);
  free(before_main);
}

static int is_placed(const void *block) {
  size_t (*bytes)(const void *) = (size_t(*)(const void *))dlsym(RTLD_DEFAULT, "vicus_omp_placed_bytes");
  return bytes && bytes(block) > 0;
}

static int is_all(const char *block, int value, size_t from, size_t to) {
  for (size_t at = from; at < to; at++)
    if (block[at] != value) return 0;
  return 1;
}

static void all_functions(void) {
  char *block = malloc(SMALL);
  CHECK(!is_placed(block) && malloc_usable_size(block) >= SMALL);
  memset(block, 3, SMALL);
  block = realloc(block, LARGE);
  CHECK(is_placed(block) && malloc_usable_size(block) >= LARGE && is_all(block, 3, 0, SMALL));
  memset(block, 4, LARGE);
  block = realloc(block, 3 * LARGE);
  CHECK(is_placed(block) && is_all(block, 4, 0, LARGE));
  block = realloc(block, SMALL);
  CHECK(!is_placed(block) && is_all(block, 4, 0, SMALL));
  CHECK(realloc(block, 0) == NULL);
  for (int round = 0; round < 3; round++) {
    char *zeros = calloc(LARGE / 8, 8);
    CHECK(is_placed(zeros) && is_all(zeros, 0, 0, LARGE));
    memset(zeros, 1, LARGE);
    free(zeros);
  }
  // By pointers that a compiler does not see through: it knows what these functions do.
  void *(*volatile allocate)(size_t) = malloc;
  void *(*volatile clear)(size_t, size_t) = calloc;
  void *(*volatile change)(void *, size_t, size_t) = reallocarray;
  volatile size_t huge = SIZE_MAX / 2;
  errno = 0;
  CHECK(clear(huge, 4) == NULL && allocate(huge) == NULL && errno == ENOMEM);
  CHECK(change(NULL, huge, 4) == NULL);
  void *aligned = NULL;
  for (size_t align = 8; align <= 1 << 21; align *= 4) {
    CHECK(posix_memalign(&aligned, align, LARGE) == 0 && is_placed(aligned) && (uintptr_t)aligned % align == 0);
    free(aligned);
    aligned = aligned_alloc(align, LARGE);
    CHECK(is_placed(aligned) && (uintptr_t)aligned % align == 0);
    free(aligned);
    aligned = memalign(align, SMALL);
    CHECK(!is_placed(aligned) && (uintptr_t)aligned % align == 0);
    free(aligned);
  }
  CHECK(posix_memalign(&aligned, 4, LARGE) == EINVAL && posix_memalign(&aligned, 24, LARGE) == EINVAL);
  free(NULL);
}

static void *others(void *block) {
  CHECK(is_all(block, 5, 0, LARGE));
  free(block);
  char *own = malloc(LARGE);
  memset(own, 6, LARGE);
  return own;
}

static void threads(void) {
  char *block = malloc(LARGE);
  memset(block, 5, LARGE);
  pthread_t thread;
  void *result;
  CHECK(pthread_create(&thread, NULL, others, block) == 0 && pthread_join(thread, &result) == 0);
  CHECK(is_placed(result) && is_all(result, 6, 0, LARGE));
  free(result);
  char *handed[64];
#pragma omp parallel for
  for (int at = 0; at < 64; at++) memset(handed[at] = malloc(70000 + at * 100), at, 70000);
#pragma omp parallel for schedule(static, 1)
  for (int at = 63; at >= 0; at--) {
    CHECK(is_placed(handed[at]) && is_all(handed[at], at, 0, 70000));
    free(handed[at]);
  }
#pragma omp parallel
#pragma omp single
  for (int at = 0; at < 100; at++) {
    double *data = malloc(LARGE);
#pragma omp task firstprivate(data) depend(out : data[0])
    data[0] = data[LARGE / 8 - 1] = 1;
#pragma omp task firstprivate(data) depend(in : data[0])
    {
      CHECK(data[0] + data[LARGE / 8 - 1] == 2);
      free(data);
    }
  }
}

static void children(void) {
  char *block = malloc(LARGE);
  memset(block, 2, LARGE);
  for (int round = 0; round < 3; round++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      char *own = malloc(LARGE);
      memset(own, 9, LARGE);
      int is_right = is_placed(own) && is_all(block, 2, 0, LARGE);
      free(own);
      free(block);
#pragma omp parallel reduction(&& : is_right)
      is_right = is_right && omp_get_num_threads() > 0;
      _exit(!is_right);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  free(block);
}

static void allocators(void) {
  omp_alloctrait_t traits[2] = {{omp_atk_partition, omp_atv_interleaved}, {omp_atk_pinned, omp_atv_false}};
  omp_alloctrait_value_t partitions[] = {omp_atv_nearest, omp_atv_blocked, omp_atv_interleaved};
  for (int at = 0; at < 3; at++)
    for (int pinned = 0; pinned < 2; pinned++) {
      traits[0].value = partitions[at];
      traits[1].value = pinned ? omp_atv_true : omp_atv_false;
      omp_allocator_handle_t allocator = omp_init_allocator(omp_default_mem_space, 2, traits);
      CHECK(allocator != omp_null_allocator);
      char *small = omp_alloc(100, allocator), *large = omp_alloc(200000, allocator);
      memset(small, 1, 100);
      memset(large, 2, 200000);
      CHECK(is_all(small, 1, 0, 100) && is_all(large, 2, 0, 200000));
      omp_free(small, allocator);
      omp_free(large, omp_null_allocator);
      omp_destroy_allocator(allocator);
    }
}

int main(void) {
  CHECK(is_placed(before_main) && is_all(before_main, 7, 0, LARGE));
  atexit(late);
  all_functions();
  threads();
  children();
  allocators();
  puts("ok");
}
