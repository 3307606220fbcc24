/* A queue without a lock, first in, first out. */
#ifndef QTHREAD_QLFQUEUE_H
#define QTHREAD_QLFQUEUE_H

#include "macros.h"

Q_STARTCXX

typedef struct qlfqueue_s qlfqueue_t;

qlfqueue_t *qlfqueue_create(void);
int qlfqueue_destroy(qlfqueue_t *q);
/* Elements are not null. */
int qlfqueue_enqueue(qlfqueue_t *q, void *elem);
/* Null if there is none. */
void *qlfqueue_dequeue(qlfqueue_t *q);
int qlfqueue_empty(qlfqueue_t *q);

Q_ENDCXX

#endif
