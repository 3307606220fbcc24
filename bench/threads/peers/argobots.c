/* The measurements of lightweight threads against Argobots: an execution stream and a pool for each thread of the system. */
#include "measure.h"
#include <abt.h>
#include <stdlib.h>

static ABT_pool pools[256];
static int streams;
static int turn;

static void empty(void *arg) { (void)arg; }

static void yields(void *arg) {
  (void)arg;
  ABT_thread_yield();
}

static void yields_often(void *arg) {
  long n;
  for (n = 0; n < (long)(intptr_t)arg; n++) ABT_thread_yield();
}

/* There are no full/empty bits: one eventual each way. */
static ABT_eventual to, from;

static void echoes(void *arg) {
  long n;
  for (n = 0; n < (long)(intptr_t)arg; n++) {
    ABT_eventual_wait(to, NULL);
    ABT_eventual_reset(to);
    ABT_eventual_set(from, NULL, 0);
  }
}

static ABT_thread spawn(void (*f)(void *), void *arg) {
  ABT_thread thread;
  turn = (turn + 1) % streams;
  ABT_thread_create(pools[turn], f, arg, ABT_THREAD_ATTR_NULL, &thread);
  return thread;
}

static void fork_and_join(void (*f)(void *), void *arg, int count) {
  static ABT_thread threads[1000];
  int n;
  for (n = 0; n < count; n++) threads[n] = spawn(f, arg);
  for (n = 0; n < count; n++) ABT_thread_free(&threads[n]);
}

int main(int count, char **arguments) {
  const char *what = count > 1 ? arguments[1] : "";
  ABT_xstream others[256];
  double began;
  long n;
  streams = count > 2 ? atoi(arguments[2]) : 1;
  if (streams < 1 || streams > 256 || ABT_init(0, NULL) != ABT_SUCCESS) return 1;
  ABT_xstream_self(&others[0]);
  for (n = 1; n < streams; n++) ABT_xstream_create(ABT_SCHED_NULL, &others[n]);
  for (n = 0; n < streams; n++) ABT_xstream_get_main_pools(others[n], 1, &pools[n]);
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
  } else if (!strcmp(what, "pingpong")) {
    ABT_thread thread;
    ABT_eventual_create(0, &to);
    ABT_eventual_create(0, &from);
    thread = spawn(echoes, (void *)(intptr_t)50000);
    for (n = 0; n < 50000; n++) {
      ABT_eventual_set(to, NULL, 0);
      ABT_eventual_wait(from, NULL);
      ABT_eventual_reset(from);
    }
    ABT_thread_free(&thread);
    print(began, 50000);
  } else {
    return 2;
  }
  for (n = 1; n < streams; n++) {
    ABT_xstream_join(others[n]);
    ABT_xstream_free(&others[n]);
  }
  ABT_finalize();
  return 0;
}
