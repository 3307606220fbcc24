/* Pools of blocks of one size, near the shepherds that take them. */
#ifndef QPOOL_H
#define QPOOL_H

#include <stddef.h>

#include "macros.h"

Q_STARTCXX

typedef struct qt_mpool_s qpool;

qpool *qpool_create(const size_t item_size);
qpool *qpool_create_aligned(const size_t item_size, const size_t alignment);
/* Null if there is no memory. */
void *qpool_alloc(qpool *pool);
void qpool_free(qpool *pool, void *mem);
void qpool_destroy(qpool *pool);

Q_ENDCXX

#endif
