// Listing 2 of Muddukrishna et al.: A and B lie as the environment says, C to E as the program does. Its argument is
// what the environment says.
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <omp.h>
#include <string.h>
#include <vicus_omp.h>

#define UNIT_SIZE 4096

static int has_runtime;

static int is_placed(const void *block) {
  size_t (*bytes)(const void *) = (size_t(*)(const void *))dlsym(RTLD_DEFAULT, "vicus_omp_placed_bytes");
  has_runtime = bytes != NULL;
  return bytes && bytes(block) > 0;
}

static int calls, last_units;

static int32_t all_at_the_end(void *data, size_t units, size_t locations, uint32_t *location_of_unit) {
  CHECK(data == &calls && locations > 0);
  calls++;
  last_units = (int)units;
  for (size_t unit = 0; unit < units; unit++) {
    CHECK(location_of_unit[unit] == 0);
    location_of_unit[unit] = (uint32_t)locations - 1;
  }
  return 0;
}

static int32_t refuses(void *data, size_t units, size_t locations, uint32_t *location_of_unit) { return 5; }

int main(int count, char **arguments) {
  const char *says = count > 1 ? arguments[1] : "";
  int is_global = !strcmp(says, "fine") || !strcmp(says, "coarse") || !strcmp(says, "blocked");
  size_t sz = 8 * UNIT_SIZE;
  char *A = omp_malloc(sz);
  char *B = omp_malloc(sz);
  char *C = omp_malloc_specific(sz, OMP_MALLOC_COARSE);
  char *D = omp_malloc_specific(sz, OMP_MALLOC_COARSE);
  char *E = omp_malloc_specific(sz, OMP_MALLOC_FINE);
  char *F = omp_malloc_specific(16 * sz, OMP_MALLOC_STANDARD);
  char *G = omp_malloc_by(sz, all_at_the_end, &calls);
  char *H = omp_malloc_specific(sz, (omp_malloc_policy)99);
  char *all[] = {A, B, C, D, E, F, G, H};
  for (int at = 0; at < 8; at++) {
    CHECK(all[at]);
    memset(all[at], at, sz);
  }
#pragma omp parallel for
  for (int at = 0; at < 8; at++) CHECK(all[at][0] + all[at][sz - 1] == 2 * at);
  int expected[] = {is_global, is_global, 1, 1, 1, 0, 1, is_global};
  for (int at = 0; at < 8; at++) {
    int placed = is_placed(all[at]);
    CHECK(placed == (expected[at] && has_runtime));
  }
  CHECK(calls == has_runtime && (!has_runtime || last_units == 8));
  CHECK(!has_runtime || omp_malloc_by(sz, refuses, NULL) == NULL);
  CHECK(!has_runtime || omp_malloc_specific((size_t)1 << 60, OMP_MALLOC_FINE) == NULL);
  for (int at = 0; at < 8; at++) omp_malloc_free(all[at]);
  omp_malloc_free(NULL);
  for (int at = 2; at < 5; at++) CHECK(!is_placed(all[at]));
  // Where the other library is loaded, free() is enough.
  if (dlsym(RTLD_DEFAULT, "vicus_malloc_begin")) free(omp_malloc_specific(sz, OMP_MALLOC_COARSE));
  if (has_runtime) {
    omp_alloctrait_t trait = {omp_atk_partition, VICUS_OMP_ATV_COARSE};
    omp_allocator_handle_t allocator = omp_init_allocator(omp_default_mem_space, 1, &trait);
    char *blocks[2] = {omp_alloc(1 << 20, allocator), omp_alloc(1000, allocator)};
    memset(blocks[0], 1, 1 << 20);
    memset(blocks[1], 1, 1000);
    omp_free(blocks[0], allocator);
    omp_free(blocks[1], allocator);
    omp_destroy_allocator(allocator);
  }
  puts("ok");
}
