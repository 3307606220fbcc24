/* Hashes. The numbers are not those of upstream. */
#ifndef QTHREAD_HASH_H
#define QTHREAD_HASH_H

#include "common.h"
#include "macros.h"
#include "qthread.h"

Q_STARTCXX

#define GOLDEN_RATIO 0x9e3779b97f4a7c13LL

uint64_t qt_hash64(uint64_t key);
/* Of so many bytes, beginning with a state. */
aligned_t qt_hash_bytes(void *key, size_t bytes, aligned_t state);

Q_ENDCXX

#endif
