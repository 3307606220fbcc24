/* Sinks: many submit, and those that wait go on when all have; what they submit is put together. */
#ifndef QT_SINC_H
#define QT_SINC_H

#include <stdint.h>

#include "macros.h"
#include "qthread.h"

Q_STARTCXX

/* Adds `src` to `tgt`. */
typedef void (*qt_sinc_op_f)(void *tgt, const void *src);

typedef struct qt_opaque_sinc_s {
  uint64_t opaque_data[3];
} qt_sinc_t;

/* With values of so many bytes, or of none, that are put together by `op`, beginning with `initial_value`; `expect` submissions come. */
void qt_sinc_init(qt_sinc_t *restrict sinc, size_t sizeof_value, const void *restrict initial_value, qt_sinc_op_f op, size_t expect);
qt_sinc_t *qt_sinc_create(size_t sizeof_value, const void *initial_value, qt_sinc_op_f op, size_t expect);
void qt_sinc_reset(qt_sinc_t *sinc, size_t expect);
void qt_sinc_fini(qt_sinc_t *sinc);
void qt_sinc_destroy(qt_sinc_t *sinc);
/* So many more come. */
void qt_sinc_expect(qt_sinc_t *sinc, size_t count);
/* The calling worker's part of the value. */
void *qt_sinc_tmpdata(qt_sinc_t *sinc);
/* `value` may be null. */
void qt_sinc_submit(qt_sinc_t *restrict sinc, const void *restrict value);
/* `target` may be null, or gets the value. */
void qt_sinc_wait(qt_sinc_t *restrict sinc, void *restrict target);

Q_ENDCXX

#endif
