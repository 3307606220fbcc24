/**
 * @file vicus_omp.h
 * What OpenMP programs in C and C++ may call of libvicus_omp.so beside `omp.h`: memory that lies over the nodes as
 * chosen for each allocation, and the migration of memory.
 *
 * Allocation and choice are those of Muddukrishna, Jonsson, Brorsson, "Locality-aware task scheduling and data
 * distribution for OpenMP programs on NUMA systems and manycore processors", Scientific Programming 2015, Listing 2:
 *
 * @code{.c}
 * void *a = omp_malloc(bytes);                              // as OMP_DATA_DISTRIBUTION says: standard, fine or coarse
 * void *c = omp_malloc_specific(bytes, OMP_MALLOC_COARSE);  // as a whole on the next node
 * @endcode
 *
 * A program that includes this file runs with any OpenMP library: with another one than libvicus_omp.so, memory is
 * malloc()'s, and nothing migrates. It need not be linked with libvicus_omp.so, if it is position-independent, as
 * compilers make programs by default.
 */
#ifndef VICUS_OMP_H
#define VICUS_OMP_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How one allocation lies. */
typedef enum omp_malloc_policy {
  /** As the machine does it: usually where it is touched first. */
  OMP_MALLOC_STANDARD = 0,
  /** Page by page in turn over the nodes. */
  OMP_MALLOC_FINE = 1,
  /** As a whole on the next node. */
  OMP_MALLOC_COARSE = 2,
  /** In equal contiguous parts, one for each node. */
  OMP_MALLOC_BLOCKED = 3
} omp_malloc_policy;

/** The value of the trait `omp_atk_partition` for memory that lies as ::OMP_MALLOC_COARSE: each allocation of
 *  omp_alloc() from 64 KiB on is on the next node as a whole. */
#define VICUS_OMP_ATV_COARSE 0x7601

#ifndef VICUS_POLICY_FN
#define VICUS_POLICY_FN
/** Says where each unit of an allocation is to lie. `units` are pages; there are `locations` nodes with memory,
 *  which are counted from 0. All units are 0 at first. Another number than 0 as the result is a failure. */
typedef int32_t (*vicus_policy_fn)(void *data, size_t units, size_t locations, uint32_t *location_of_unit);
#endif

#ifndef VICUS_NEXT_TOUCH
/** Memory moves to the node of the next task that names it as its data. */
#define VICUS_NEXT_TOUCH (-1)
#endif

/** @cond the functions of the library, if it is there */
#if defined(__GNUC__) && defined(__ELF__)
extern void *vicus_omp_weak_malloc(size_t) __asm__("omp_malloc") __attribute__((weak));
extern void *vicus_omp_weak_malloc_specific(size_t, int) __asm__("omp_malloc_specific") __attribute__((weak));
extern void *vicus_omp_weak_malloc_by(size_t, vicus_policy_fn, void *) __asm__("omp_malloc_by") __attribute__((weak));
extern void vicus_omp_weak_malloc_free(void *) __asm__("omp_malloc_free") __attribute__((weak));
extern int32_t vicus_omp_weak_migrate(void *, size_t, int32_t) __asm__("vicus_migrate") __attribute__((weak));
#else
#error "vicus_omp.h is for gcc and clang on systems with ELF"
#endif
/* The functions below have other names than these symbols: otherwise they would be these symbols. */
#define omp_malloc vicus_omp_malloc
#define omp_malloc_specific vicus_omp_malloc_specific
#define omp_malloc_by vicus_omp_malloc_by
#define omp_malloc_free vicus_omp_malloc_free
/** @endcond */

/** Memory that lies as `VICUS_DATA_DISTRIBUTION` or `OMP_DATA_DISTRIBUTION` says, in whole pages; malloc()'s if
 *  they are not set or say `standard`. It is freed by omp_malloc_free(). `NULL` if there is none. */
static inline void *vicus_omp_malloc(size_t bytes) {
  return vicus_omp_weak_malloc ? vicus_omp_weak_malloc(bytes) : malloc(bytes);
}

/** Memory that lies as chosen here, whatever the environment says. It is freed by omp_malloc_free(). */
static inline void *vicus_omp_malloc_specific(size_t bytes, omp_malloc_policy policy) {
  return vicus_omp_weak_malloc_specific ? vicus_omp_weak_malloc_specific(bytes, (int)policy) : malloc(bytes);
}

/** Memory that lies as a function says, which is called once, before this one returns. `NULL` if it fails, or
 *  chooses a location that is not there. It is freed by omp_malloc_free(). */
static inline void *vicus_omp_malloc_by(size_t bytes, vicus_policy_fn policy, void *data) {
  return vicus_omp_weak_malloc_by ? vicus_omp_weak_malloc_by(bytes, policy, data) : malloc(bytes);
}

/** Moves memory of the program to another node: the pages of which at least a half is in the range, as far as they
 *  were touched. With ::VICUS_NEXT_TOUCH nothing moves yet: each part moves when the first task that is made from
 *  now on and that names it in a `depend` or `affinity` clause begins, to the node where that task runs.
 *  @param node  as vicus_node_of() counts them, from 0; or ::VICUS_NEXT_TOUCH
 *  @return 0; -1 if there is no such node; -5 if the system moves no pages */
static inline int32_t vicus_omp_migrate(void *address, size_t bytes, int32_t node) {
  return vicus_omp_weak_migrate ? vicus_omp_weak_migrate(address, bytes, node) : 0;
}

/** Frees what omp_malloc(), omp_malloc_specific() or omp_malloc_by() gave. free() does so as well where
 *  libvicus_malloc.so is loaded, and only there. */
static inline void vicus_omp_malloc_free(void *memory) {
  if (vicus_omp_weak_malloc_free)
    vicus_omp_weak_malloc_free(memory);
  else
    free(memory);
}

#ifdef __cplusplus
}
#endif

#endif
