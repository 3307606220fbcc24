/* Values that each thread has for itself, by key. */
#ifndef TLS_H
#define TLS_H

#include "macros.h"

Q_STARTCXX

typedef void **qthread_key_t;

/* The destructor, if there is one, is called with each thread's value that is not null when the thread ends. */
int qthread_key_create(qthread_key_t *key, void (*destructor)(void *));
int qthread_key_delete(qthread_key_t key);
void *qthread_getspecific(qthread_key_t key);
int qthread_setspecific(qthread_key_t key, const void *value);

Q_ENDCXX

#endif
