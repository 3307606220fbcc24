/* A queue of so many elements between one thread that puts and one that takes. */
#ifndef QTHREAD_QSWSRQUEUE_H
#define QTHREAD_QSWSRQUEUE_H

#include <stddef.h>

#include "macros.h"

Q_STARTCXX

typedef struct qswsrqueue_s qswsrqueue_t;

qswsrqueue_t *qswsrqueue_create(size_t elements);
int qswsrqueue_destroy(qswsrqueue_t *q);
/* QTHREAD_OPFAIL if it is full. */
int qswsrqueue_enqueue(qswsrqueue_t *q, void *elem);
int qswsrqueue_enqueue_blocking(qswsrqueue_t *q, void *elem);
/* Null if it is empty. */
void *qswsrqueue_dequeue(qswsrqueue_t *q);
void *qswsrqueue_dequeue_blocking(qswsrqueue_t *q);
int qswsrqueue_empty(qswsrqueue_t *q);

Q_ENDCXX

#endif
