/* Arrays in segments, each of which is a shepherd's. */
#ifndef QTHREAD_QARRAY_H
#define QTHREAD_QARRAY_H

#include <stdint.h>

#include "macros.h"
#include "qloop.h"

Q_STARTCXX

typedef enum {
  /* Segments in turn; the default. */
  FIXED_HASH = 0,
  /* As many neighbouring segments for each shepherd. */
  FIXED_FIELDS,
  /* All on one shepherd, or each wherever it was put: what an array is that was created by one of the words below. */
  ALL_SAME,
  DIST,
  /* Segments that can be moved: at first in turn, in fields, by chance, where the least are. */
  DIST_STRIPES,
  DIST_FIELDS,
  DIST_RAND,
  DIST_LEAST,
  /* All on the calling shepherd, on one by chance, on the one that has the least. */
  ALL_LOCAL,
  ALL_RAND,
  ALL_LEAST
} distribution_t;

typedef struct qarray_s {
  size_t unit_size;
  size_t count;
  /* Elements, and bytes, of a segment; there may be a rest behind the last element. */
  size_t segment_size;
  size_t segment_bytes;
  char *base_ptr;
  distribution_t dist_type;
  union {
    qthread_shepherd_id_t dist_shep;
    struct {
      size_t segs_per_shep;
      size_t extras;
    } stripes;
  } dist_specific;
} qarray;

typedef void (*qa_loop_f)(const size_t startat, const size_t stopat, qarray *array, void *arg);
typedef void (*qa_loopr_f)(const size_t startat, const size_t stopat, qarray *array, void *arg, void *ret);
typedef void (*qa_cloop_f)(const size_t startat, const size_t stopat, const qarray *array, void *arg);

/* All bytes are 0. Pages lie where their segments' shepherds are, and are taken when they are touched. Elements of
   fewer than 64 bytes are rounded up to a multiple of 8 bytes: `unit_size` says how many they have then. */
qarray *qarray_create(const size_t count, const size_t unit_size);
/* Elements are not aligned to anything but their size. */
qarray *qarray_create_tight(const size_t count, const size_t unit_size);
/* Segments have `seg_pages` pages; 0 leaves that to the library. */
qarray *qarray_create_configured(const size_t count, const size_t unit_size, const distribution_t d, const char tight,
                                 const int seg_pages);
void qarray_destroy(qarray *a);

/* Each part of the range is worked on by its segment's shepherd. */
void qarray_iter(qarray *a, const size_t startat, const size_t stopat, qthread_f func);
void qarray_iter_loop(qarray *a, const size_t startat, const size_t stopat, qa_loop_f func, void *arg);
/* Does not wait: the word is filled at the end. */
void qarray_iter_loop_nb(qarray *a, const size_t startat, const size_t stopat, qa_loop_f func, void *arg, aligned_t *ret);
void qarray_iter_constloop(const qarray *a, const size_t startat, const size_t stopat, qa_cloop_f func, void *arg);
void qarray_iter_loopaccum(qarray *a, const size_t startat, const size_t stopat, qa_loopr_f func, void *arg, void *ret,
                           const size_t retsize, qt_accum_f acc);

/* Moves the segment of an element, with its pages, in arrays whose segments can be moved; all segments of an array that is ALL_SAME. */
void qarray_set_shepof(qarray *a, const size_t i, qthread_shepherd_id_t shep);
qthread_shepherd_id_t qarray_shepof(const qarray *a, const size_t index);
/* Moves the segments of `mod`, with their pages, to where those of `ref` are. */
void qarray_dist_like(const qarray *ref, qarray *mod);

#define qarray_elem(a, i) qarray_elem_nomigrate(a, i)
/* The calling thread goes to where the element is. */
void *qarray_elem_migrate(const qarray *a, const size_t index);

static inline void *qarray_elem_nomigrate(const qarray *a, const size_t index) {
  size_t segment;
  if (a == NULL || index > a->count) {
    return NULL;
  }
  segment = index / a->segment_size;
  return a->base_ptr + segment * a->segment_bytes + (index - segment * a->segment_size) * a->unit_size;
}

Q_ENDCXX

#endif
