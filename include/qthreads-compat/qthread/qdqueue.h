/* A queue with a part for each shepherd, in no order over all of them. */
#ifndef QTHREAD_QDQUEUE_H
#define QTHREAD_QDQUEUE_H

#include "macros.h"
#include "qthread.h"

Q_STARTCXX

typedef struct qdqueue_s qdqueue_t;

qdqueue_t *qdqueue_create(void);
int qdqueue_destroy(qdqueue_t *q);
/* Elements are not null. */
int qdqueue_enqueue(qdqueue_t *q, void *elem);
int qdqueue_enqueue_there(qdqueue_t *q, void *elem, qthread_shepherd_id_t there);
/* Null if there is none, near or far. */
void *qdqueue_dequeue(qdqueue_t *q);
int qdqueue_empty(qdqueue_t *q);

Q_ENDCXX

#endif
