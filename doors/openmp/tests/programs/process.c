// The process: a child that is forked, exit from inside of a region, regions before main and after it, errno.
#include "check.h"
#include <errno.h>
#include <omp.h>
#include <sys/wait.h>

static int sum(void) {
  int sum = 0;
#pragma omp parallel num_threads(3) reduction(+ : sum)
  sum += omp_get_thread_num() + 1;
  return sum;
}

static int before;
__attribute__((constructor)) static void before_main(void) { before = sum(); }

static void at_exit(void) {
  CHECK(sum() == 6);
  puts("ok");
}

static void check_child(int status, int wanted) {
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == wanted);
}

int main(void) {
  CHECK(before == 6);
  CHECK(sum() == 6);
  int status;
  omp_set_num_threads(3);
  for (int round = 0; round < 3; round++) {
    pid_t child = fork();
    if (child == 0) {
      _exit(sum() == 6 && sum() == 6 && omp_get_max_threads() == 3 ? 3 : 4);
    }
    CHECK(waitpid(child, &status, 0) == child);
    check_child(status, 3);
  }
  pid_t child = fork();
  if (child == 0) {
#pragma omp parallel num_threads(4)
    {
      if (omp_get_thread_num() == 2) exit(17);
#pragma omp barrier
    }
    _exit(18);
  }
  CHECK(waitpid(child, &status, 0) == child);
  check_child(status, 17);
  errno = 77;
  CHECK(sum() == 6);
#pragma omp parallel num_threads(2)
  {
#pragma omp task
    usleep(10);
#pragma omp taskwait
  }
  CHECK(errno == 77);
  atexit(at_exit);
  return 0;
}
