// Tasks with an event that are undeferred or outside of all regions: the thread that has made one goes on when its block has ended (OpenMP
// 5.2, 1.2.5), and what waits for the task waits for its event as well.
#include "check.h"
#include <omp.h>
#include <pthread.h>

static int done, fulfilled;

static void *fulfil_later(void *event) {
  usleep(20000);
  __atomic_store_n(&fulfilled, 1, __ATOMIC_RELEASE);
  omp_fulfill_event((omp_event_handle_t)event);
  return 0;
}

// The calling thread fulfils it itself behind the construct.
static void by_itself(int is_deferred) {
  omp_event_handle_t event;
  int before = done;
#pragma omp task detach(event) if (is_deferred) shared(done)
  __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
  omp_fulfill_event(event);
#pragma omp taskwait
  CHECK(done == before + 1);
}

// Another one does so: `taskwait`, a taskgroup and a task that follows wait for that.
static void by_another(int is_deferred, int how) {
  omp_event_handle_t event;
  pthread_t other;
  int order = 0;
  __atomic_store_n(&fulfilled, 0, __ATOMIC_RELEASE);
  if (how == 0) {
#pragma omp task detach(event) if (is_deferred)
    __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
    pthread_create(&other, 0, fulfil_later, (void *)event);
#pragma omp taskwait
    CHECK(__atomic_load_n(&fulfilled, __ATOMIC_ACQUIRE));
  } else if (how == 1) {
#pragma omp taskgroup
    {
#pragma omp task detach(event) if (is_deferred)
      __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
      pthread_create(&other, 0, fulfil_later, (void *)event);
    }
    CHECK(__atomic_load_n(&fulfilled, __ATOMIC_ACQUIRE));
  } else {
#pragma omp task detach(event) if (is_deferred) depend(out : order)
    __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
    pthread_create(&other, 0, fulfil_later, (void *)event);
    if (omp_get_level()) {
#pragma omp task depend(in : order)
      CHECK(__atomic_load_n(&fulfilled, __ATOMIC_ACQUIRE));
    }
#pragma omp taskwait
    CHECK(__atomic_load_n(&fulfilled, __ATOMIC_ACQUIRE));
  }
  pthread_join(other, 0);
}

int main(void) {
  for (int is_deferred = 0; is_deferred < 2; is_deferred++) {
    by_itself(is_deferred);
    for (int how = 0; how < 3; how++) by_another(is_deferred, how);
#pragma omp parallel
#pragma omp single
    {
      by_itself(is_deferred);
      for (int how = 0; how < 3; how++) by_another(is_deferred, how);
#pragma omp task final(1) shared(done)
      by_itself(is_deferred);
    }
    // The end of the region waits as well.
    pthread_t other;
    __atomic_store_n(&fulfilled, 0, __ATOMIC_RELEASE);
#pragma omp parallel
#pragma omp single nowait
    {
      omp_event_handle_t event;
#pragma omp task detach(event) if (is_deferred)
      __atomic_fetch_add(&done, 1, __ATOMIC_RELAXED);
      pthread_create(&other, 0, fulfil_later, (void *)event);
    }
    CHECK(__atomic_load_n(&fulfilled, __ATOMIC_ACQUIRE));
    pthread_join(other, 0);
  }
  CHECK(done == 20);
  puts("ok");
}
