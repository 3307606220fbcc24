/* Parallel loops. */
#ifndef QTHREAD_QLOOP
#define QTHREAD_QLOOP

#include "qthread.h"

Q_STARTCXX

typedef void (*qt_loop_f)(const size_t startat, const size_t stopat, void *arg);
typedef void (*qt_loop_step_f)(void *arg);
typedef void (*qt_loopr_f)(const size_t startat, const size_t stopat, void *restrict arg, void *restrict ret);
typedef void (*qt_accum_f)(void *restrict a, const void *restrict b);

typedef struct qqloop_handle_s qqloop_handle_t;
typedef struct qqloop_step_handle_s qqloop_step_handle_t;

/* A thread for each index. What follows the underscore says how their ends are counted upstream; here all count alike. */
void qt_loop(size_t start, size_t stop, qt_loop_f func, void *argptr);
void qt_loop_simple(size_t start, size_t stop, qt_loop_f func, void *argptr);
void qt_loop_sv(size_t start, size_t stop, qt_loop_f func, void *argptr);
void qt_loop_dc(size_t start, size_t stop, qt_loop_f func, void *argptr);
void qt_loop_aligned(size_t start, size_t stop, qt_loop_f func, void *argptr);
void qt_loop_sinc(size_t start, size_t stop, qt_loop_f func, void *argptr);
/* A thread for each `stride`-th index. */
void qt_loop_step(size_t start, size_t stop, size_t stride, qt_loop_step_f func, void *argptr);

/* A thread for each worker, with equal parts of the range. */
void qt_loop_balance(const size_t start, const size_t stop, const qt_loop_f func, void *argptr);
void qt_loop_balance_simple(const size_t start, const size_t stop, const qt_loop_f func, void *argptr);
void qt_loop_balance_sv(const size_t start, const size_t stop, const qt_loop_f func, void *argptr);
void qt_loop_balance_dc(const size_t start, const size_t stop, const qt_loop_f func, void *argptr);
void qt_loop_balance_aligned(const size_t start, const size_t stop, const qt_loop_f func, void *argptr);
void qt_loop_balance_sinc(const size_t start, const size_t stop, const qt_loop_f func, void *argptr);

/* The same with results of `size` bytes, which `acc` puts together in `out`, beginning with what is there. */
void qt_loopaccum_balance(const size_t start, const size_t stop, const size_t size, void *restrict out, const qt_loopr_f func,
                          void *restrict argptr, const qt_accum_f acc);
void qt_loopaccum_balance_sinc(const size_t start, const size_t stop, const size_t size, void *restrict out, const qt_loopr_f func,
                               void *restrict argptr, const qt_accum_f acc);
void qt_loopaccum_balance_sv(const size_t start, const size_t stop, const size_t size, void *restrict out, const qt_loopr_f func,
                             void *restrict argptr, const qt_accum_f acc);
void qt_loopaccum_balance_dc(const size_t start, const size_t stop, const size_t size, void *restrict out, const qt_loopr_f func,
                             void *restrict argptr, const qt_accum_f acc);

/* Loops whose workers take parts as they come: equal ones, ones that get smaller, or ones that take equal times. */
typedef enum { CHUNK, GUIDED, FACTORED, TIMED } qt_loop_queue_type;

qqloop_handle_t *qt_loop_queue_create(const qt_loop_queue_type type, const size_t start, const size_t stop, const size_t incr,
                                      const qt_loop_f func, void *const argptr);
qqloop_step_handle_t *qt_loop_step_queue_create(const qt_loop_queue_type type, size_t start, size_t stop, size_t incr,
                                                qt_loop_step_f func, void *argptr);
void qt_loop_queue_setchunk(qqloop_handle_t *loop, size_t chunk);
/* Runs the loop, waits for its end, and frees it. */
void qt_loop_queue_run(qqloop_handle_t *loop);
/* On one shepherd. */
void qt_loop_queue_run_there(qqloop_handle_t *loop, qthread_shepherd_id_t shep);
/* One more thread works on it there. */
void qt_loop_queue_addworker(qqloop_handle_t *loop, const qthread_shepherd_id_t shep);

double qt_double_sum(double *array, size_t length, int checkfeb);
double qt_double_prod(double *array, size_t length, int checkfeb);
double qt_double_max(double *array, size_t length, int checkfeb);
double qt_double_min(double *array, size_t length, int checkfeb);
saligned_t qt_int_sum(saligned_t *array, size_t length, int checkfeb);
saligned_t qt_int_prod(saligned_t *array, size_t length, int checkfeb);
saligned_t qt_int_max(saligned_t *array, size_t length, int checkfeb);
saligned_t qt_int_min(saligned_t *array, size_t length, int checkfeb);
aligned_t qt_uint_sum(aligned_t *array, size_t length, int checkfeb);
aligned_t qt_uint_prod(aligned_t *array, size_t length, int checkfeb);
aligned_t qt_uint_max(aligned_t *array, size_t length, int checkfeb);
aligned_t qt_uint_min(aligned_t *array, size_t length, int checkfeb);

void qt_qsort(double *array, const size_t length);

/* For qt_loopaccum_balance and its kin. */
#define VICUS_QTHREAD_ACCUMULATE(name, type)                                                                                           \
  static inline void qt_##name##_add_acc(void *restrict a, const void *restrict b) { *(type *)a += *(const type *)b; }                 \
  static inline void qt_##name##_prod_acc(void *restrict a, const void *restrict b) { *(type *)a *= *(const type *)b; }                \
  static inline void qt_##name##_max_acc(void *restrict a, const void *restrict b) {                                                   \
    if (*(const type *)b > *(type *)a) *(type *)a = *(const type *)b;                                                                  \
  }                                                                                                                                    \
  static inline void qt_##name##_min_acc(void *restrict a, const void *restrict b) {                                                   \
    if (*(const type *)b < *(type *)a) *(type *)a = *(const type *)b;                                                                  \
  }
VICUS_QTHREAD_ACCUMULATE(dbl, double)
VICUS_QTHREAD_ACCUMULATE(int, saligned_t)
VICUS_QTHREAD_ACCUMULATE(uint, aligned_t)
#undef VICUS_QTHREAD_ACCUMULATE

Q_ENDCXX

#endif
