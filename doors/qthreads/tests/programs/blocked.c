/* The main thread is blocked in the kernel until threads of the library have done something. */
#include "check.h"
#include <pthread.h>
#include <qthread/qthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

enum { MANY = 200 };
static atomic_int ran;
static aligned_t word, ready;

static aligned_t count(void *unused) {
  (void)unused;
  qthread_yield();
  atomic_fetch_add(&ran, 1);
  return 7;
}

/* A thread of the library that waits for one from outside. */
static aligned_t wait_for_word(void *unused) {
  (void)unused;
  qthread_fill(&ready);
  aligned_t value;
  CHECK(qthread_readFF(&value, &word) == QTHREAD_SUCCESS);
  atomic_fetch_add(&ran, 1);
  return value;
}

static void *forks(void *result) {
  aligned_t results[MANY];
  for (int at = 0; at < MANY; at++) {
    if (at % 2) CHECK(qthread_fork(count, NULL, &results[at]) == QTHREAD_SUCCESS);
    else CHECK(qthread_fork_to(count, NULL, &results[at], at % qthread_num_shepherds()) == QTHREAD_SUCCESS);
  }
  for (int at = 0; at < MANY; at++) {
    aligned_t value;
    CHECK(qthread_readFF(&value, &results[at]) == QTHREAD_SUCCESS && value == 7);
  }
  return result;
}

static void *fills(void *of) {
  aligned_t value = 5;
  CHECK(qthread_writeF(&word, &value) == QTHREAD_SUCCESS);
  CHECK(qthread_readFF(&value, of) == QTHREAD_SUCCESS && value == 5);
  return NULL;
}

static int forks_too(void *unused) {
  forks(unused);
  return 3;
}

static aligned_t joins(void *unused) {
  pthread_t thread;
  void *result;
  CHECK(pthread_create(&thread, NULL, forks, unused) == 0);
  CHECK(pthread_join(thread, &result) == 0 && result == unused);
  return 1;
}

int main(void) {
  pthread_t thread;
  void *result;
  aligned_t done;
  CHECK(qthread_initialize() == QTHREAD_SUCCESS);
  CHECK(pthread_create(&thread, NULL, forks, &word) == 0);
  CHECK(pthread_join(thread, &result) == 0 && result == &word);
  CHECK(ran == MANY);
  /* One that has begun on the main thread's worker, and stays there. */
  qthread_empty(&word);
  qthread_empty(&ready);
  CHECK(qthread_fork_to(wait_for_word, NULL, &done, 0) == QTHREAD_SUCCESS);
  CHECK(qthread_readFF(NULL, &ready) == QTHREAD_SUCCESS);
  CHECK(pthread_create(&thread, NULL, fills, &done) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(ran == MANY + 1);
  /* A thread of the library joins one of the system, and so do C11's threads. */
  CHECK(qthread_fork(joins, &ran, &done) == QTHREAD_SUCCESS);
  CHECK(qthread_readFF(&done, &done) == QTHREAD_SUCCESS && done == 1);
  thrd_t other;
  int code = 0;
  CHECK(thrd_create(&other, forks_too, NULL) == thrd_success);
  CHECK(thrd_join(other, &code) == thrd_success && code == 3);
  CHECK(ran == 3 * MANY + 1);
  /* A forked child has none of the threads that have helped so far. */
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(pthread_create(&thread, NULL, (void *(*)(void *))(void *)getpid, NULL) != 0 || pthread_join(thread, NULL) != 0);
  }
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  /* What is wrong is told as the system tells it. */
  CHECK(pthread_join(pthread_self(), NULL) != 0);
  qthread_finalize();
  CHECK(pthread_create(&thread, NULL, (void *(*)(void *))(void *)getpid, NULL) == 0 && pthread_join(thread, NULL) == 0);
  puts("ok");
  return 0;
}
