/* Barriers. */
#ifndef QTHREAD_LOG_BARRIER_H
#define QTHREAD_LOG_BARRIER_H

#include <stddef.h>

#include "macros.h"
#include "qthread.h"

Q_STARTCXX

typedef enum { REGION_BARRIER, LOOP_BARRIER } qt_barrier_btype;
typedef enum { UPLOCK, DOWNLOCK, BOTHLOCKS } qt_barrier_dtype;
typedef struct qt_barrier_s qt_barrier_t;

qt_barrier_t *qt_barrier_create(size_t max_threads, qt_barrier_btype type);
/* Waits until as many threads have entered as the barrier has. */
void qt_barrier_enter(qt_barrier_t *b);
void qt_barrier_enter_id(qt_barrier_t *b, size_t id);
void qt_barrier_destroy(qt_barrier_t *b);
/* When no thread is in it. */
void qt_barrier_resize(qt_barrier_t *b, size_t size);
void qt_barrier_dump(qt_barrier_t *b, qt_barrier_dtype dt);

/* One barrier of the whole program, if it has set one. */
qt_barrier_t *qt_get_barrier(void);
void qt_set_barrier(qt_barrier_t *b);

Q_ENDCXX

#endif
