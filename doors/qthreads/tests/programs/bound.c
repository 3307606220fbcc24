/* Where the main thread may run: before, while and after the library is there. */
#include "check.h"
#include <pthread.h>
#include <qthread/qthread.h>
#include <sched.h>
#include <string.h>

static cpu_set_t allowed;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static cpu_set_t own(void) {
  cpu_set_t set;
  CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
  return set;
}

static aligned_t look(void *to) {
  *(cpu_set_t *)to = own();
  return 0;
}

static void *look_behind_gate(void *to) {
  pthread_mutex_lock(&gate);
  pthread_mutex_unlock(&gate);
  look(to);
  return NULL;
}

/* The words of the command line say what holds of the main thread: `bound` or `free`. */
int main(int argc, char **argv) {
  int is_bound = argc > 1 && strcmp(argv[1], "bound") == 0;
  cpu_set_t here, there, before, after;
  pthread_t earlier, later;
  aligned_t ret;
  allowed = own();
  pthread_mutex_lock(&gate);
  CHECK(pthread_create(&earlier, NULL, look_behind_gate, &before) == 0);
  CHECK(qthread_initialize() == 0);
  here = own();
  CHECK(pthread_create(&later, NULL, look_behind_gate, &after) == 0);
  pthread_mutex_unlock(&gate);
  pthread_join(earlier, NULL);
  pthread_join(later, NULL);
  CHECK(CPU_EQUAL(&before, &allowed) && CPU_EQUAL(&after, &here));
  CHECK(is_bound || CPU_EQUAL(&here, &allowed));
  if (is_bound) {
    cpu_set_t both;
    CHECK(CPU_COUNT(&here) <= (int)qthread_num_workers_local(0));
    /* On whichever worker of the first shepherd: on a processor that the main thread has, too. */
    CHECK(qthread_fork_to(look, &there, &ret, 0) == 0 && qthread_readFF(NULL, &ret) == 0);
    CPU_AND(&both, &there, &here);
    CHECK(CPU_EQUAL(&both, &there));
    CHECK(qthread_shep() == 0 && CPU_ISSET(sched_getcpu(), &here));
  }
  qthread_finalize();
  here = own();
  CHECK(CPU_EQUAL(&here, &allowed));
  /* What the program says itself stays. */
  CHECK(qthread_initialize() == 0);
  here = own();
  CHECK(is_bound || CPU_EQUAL(&here, &allowed));
  CPU_ZERO(&there);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&there) == 0; cpu++) {
    if (CPU_ISSET(cpu, &allowed) && (!CPU_ISSET(cpu, &here) || CPU_COUNT(&allowed) == 1)) CPU_SET(cpu, &there);
  }
  if (CPU_COUNT(&there) > 0) {
    CHECK(sched_setaffinity(0, sizeof there, &there) == 0);
    qthread_finalize();
    here = own();
    CHECK(CPU_EQUAL(&here, &there) || CPU_COUNT(&allowed) == 1);
  }
  puts("ok");
  return 0;
}
