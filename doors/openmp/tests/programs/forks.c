// A fork while other threads are in their first regions, when the library looks at the machine and reads its settings: the child's own regions
// work. Each round is in a new process, because a process begins once.
#include "check.h"
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

// Each size of a team is one that the library makes anew.
static void *first(void *unused) {
  for (int size = 2; size < 7; size++) {
    int sum = 0;
#pragma omp parallel num_threads(size) reduction(+ : sum)
    sum += 1;
    CHECK(sum == size);
  }
  return 0;
}

static int round_of(int delay) {
  pthread_t threads[2];
  for (int at = 0; at < 2; at++) CHECK(!pthread_create(&threads[at], 0, first, 0));
  usleep(delay);
  pid_t child = fork();
  if (child == 0) {
    alarm(10);
    first(0);
    _exit(7);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  for (int at = 0; at < 2; at++) pthread_join(threads[at], 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int main(void) {
  for (int round = 0; round < 6; round++) {
    pid_t one = fork();
    if (one == 0) _exit(round_of(round * 1500) == 7 ? 5 : 1);
    int status = 0;
    CHECK(waitpid(one, &status, 0) == one);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
  }
  puts("ok");
}
