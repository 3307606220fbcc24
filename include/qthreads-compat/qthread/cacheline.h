/* The length of a line of the cache. */
#ifndef QTHREAD_CACHELINE_H
#define QTHREAD_CACHELINE_H

#include "macros.h"

Q_STARTCXX
/* In bytes. */
int qthread_cacheline(void);
Q_ENDCXX

#endif
