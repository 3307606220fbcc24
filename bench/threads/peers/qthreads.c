/* The measurements of lightweight threads in C: against Qthreads, and against Vicus' library of the same interface. */
#include "measure.h"
#include <qthread/qthread.h>

static aligned_t empty(void *arg) {
  (void)arg;
  return 0;
}

static aligned_t yields(void *arg) {
  (void)arg;
  qthread_yield();
  return 0;
}

static aligned_t yields_often(void *arg) {
  long n;
  for (n = 0; n < (long)(intptr_t)arg; n++) qthread_yield();
  return 0;
}

static aligned_t to, from;

static aligned_t echoes(void *arg) {
  aligned_t value;
  long n;
  for (n = 0; n < (long)(intptr_t)arg; n++) {
    qthread_readFE(&value, &to);
    qthread_writeEF(&from, &value);
  }
  return 0;
}

static void fork_and_join(aligned_t (*f)(void *), void *arg, int count) {
  static aligned_t rets[1000];
  int n;
  for (n = 0; n < count; n++) qthread_fork(f, arg, &rets[n]);
  for (n = 0; n < count; n++) qthread_readFF(NULL, &rets[n]);
}

int main(int count, char **arguments) {
  const char *what = count > 1 ? arguments[1] : "";
  double began;
  long n;
  if (qthread_initialize() != 0) return 1;
  began = now();
  if (!strcmp(what, "spawn")) {
    for (n = 0; n < 100000; n++) fork_and_join(empty, NULL, 1);
    print(began, 100000);
  } else if (!strcmp(what, "batch")) {
    for (n = 0; n < 100; n++) fork_and_join(empty, NULL, 1000);
    print(began, 100000);
  } else if (!strcmp(what, "yield")) {
    for (n = 0; n < 100000; n++) fork_and_join(yields, NULL, 1);
    print(began, 100000);
  } else if (!strcmp(what, "switch")) {
    fork_and_join(yields_often, (void *)(intptr_t)100000, 10);
    print(began, 1000000);
  } else if (!strcmp(what, "word")) {
    static aligned_t word;
    aligned_t value;
    for (n = 0; n < 1000000; n++) {
      qthread_readFE(&value, &word);
      value++;
      qthread_writeEF(&word, &value);
    }
    print(began, 1000000);
  } else if (!strcmp(what, "syncvar")) {
    static syncvar_t var = SYNCVAR_STATIC_INITIALIZER;
    uint64_t value;
    for (n = 0; n < 1000000; n++) {
      qthread_syncvar_readFE(&value, &var);
      value++;
      qthread_syncvar_writeEF(&var, &value);
    }
    print(began, 1000000);
  } else if (!strcmp(what, "pingpong")) {
    aligned_t ret;
    qthread_empty(&to);
    qthread_empty(&from);
    qthread_fork(echoes, (void *)(intptr_t)50000, &ret);
    for (n = 0; n < 50000; n++) {
      aligned_t value = n;
      qthread_writeEF(&to, &value);
      qthread_readFE(&value, &from);
    }
    qthread_readFF(NULL, &ret);
    print(began, 50000);
  } else {
    return 2;
  }
  return 0;
}
