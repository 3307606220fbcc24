/* Says what the environment has made of the library. */
#include <qthread/qthread.h>
#include <sched.h>
#include <stdio.h>

static cpu_set_t allowed;
static aligned_t free_ones;

/* Counts shepherds whose worker may run wherever the process might. */
static aligned_t processors(void *arg) {
  cpu_set_t own;
  (void)arg;
  if (sched_getaffinity(0, sizeof own, &own) == 0 && CPU_EQUAL(&own, &allowed)) qthread_incr(&free_ones, 1);
  return 0;
}

static aligned_t stack(void *arg) {
  (void)arg;
  return qthread_stackleft();
}

static aligned_t locals(void *arg) {
  (void)arg;
  return qthread_size_tasklocal();
}

int main(void) {
  aligned_t ret, left, bytes;
  qthread_shepherd_id_t shep;
  sched_getaffinity(0, sizeof allowed, &allowed);
  if (qthread_initialize() != 0) return 1;
  /* What is forked to the first one may run on the main thread, which is bound on machines with several nodes alone. */
  for (shep = 1; shep < qthread_num_shepherds(); shep++) {
    qthread_fork_to(processors, NULL, &ret, shep);
    qthread_readFF(NULL, &ret);
  }
  qthread_fork(stack, NULL, &ret);
  qthread_readFF(&left, &ret);
  qthread_fork(locals, NULL, &ret);
  qthread_readFF(&bytes, &ret);
  printf("shepherds %u, workers %u, stack %zu, left %zu, locals %zu, ", qthread_num_shepherds(), qthread_num_workers(),
         qthread_readstate(STACK_SIZE), (size_t)left, (size_t)bytes);
  printf("anywhere %u of %d processors\n", (unsigned)free_ones, CPU_COUNT(&allowed));
  return 0;
}
