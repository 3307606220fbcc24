// Cancellation: of a region, a loop, sections, a group.
#include "check.h"
#include <omp.h>
#include <unistd.h>

// Tasks that have not begun when the region is cancelled never do.
static void queued_tasks_are_dropped(void) {
  int begun = 0, all = 60;
#pragma omp parallel
  {
#pragma omp single nowait
    for (int at = 0; at < all; at++) {
#pragma omp task shared(begun)
      {
#pragma omp atomic
        begun++;
        if (omp_get_num_threads() > 1) usleep(20000);
      }
    }
#pragma omp cancel parallel
  }
  CHECK(begun < all || omp_get_max_threads() == 1);
}

// The others wait for no turn of a thread that has left the region.
static void turns_end_with_the_region(void) {
  int sum = 0;
#pragma omp parallel shared(sum)
  {
    if (omp_get_thread_num() == 0) {
#pragma omp cancel parallel
    }
#pragma omp for ordered schedule(static, 1)
    for (int at = 0; at < 30; at++) {
#pragma omp ordered
#pragma omp atomic
      sum++;
    }
  }
  CHECK(sum < 30);
}

int main(void) {
  CHECK(omp_get_cancellation());
  queued_tasks_are_dropped();
  turns_end_with_the_region();
  for (int round = 0; round < 20; round++) {
    int after = 0, come = 0;
#pragma omp parallel
    {
#pragma omp atomic
      come++;
      if (omp_get_thread_num() == 0) {
#pragma omp cancel parallel
      }
#pragma omp barrier
#pragma omp cancellation point parallel
#pragma omp atomic
      after++;
    }
    CHECK(come == omp_get_max_threads() && after == 0);
    int iterations = 0;
#pragma omp parallel
    {
#pragma omp for schedule(dynamic)
      for (int at = 0; at < 100000; at++) {
#pragma omp atomic
        iterations++;
#pragma omp cancel for if (at == 10)
#pragma omp cancellation point for
      }
      // The loop was cancelled, not the region, and the next loop is another one.
#pragma omp for schedule(dynamic)
      for (int at = 0; at < 10; at++) {
#pragma omp atomic
        after++;
#pragma omp cancellation point for
      }
    }
    CHECK(iterations < 100000 && after == 10);
    int sections = 0;
#pragma omp parallel sections
    {
#pragma omp section
      {
#pragma omp atomic
        sections++;
#pragma omp cancel sections
      }
#pragma omp section
      {
#pragma omp cancellation point sections
      }
    }
    CHECK(sections == 1);
    int begun = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp taskgroup
      {
        for (int at = 0; at < 1000; at++) {
#pragma omp task shared(begun)
          {
            int number;
#pragma omp atomic capture
            number = ++begun;
            if (number == 5) {
#pragma omp cancel taskgroup
            }
#pragma omp cancellation point taskgroup
          }
        }
      }
      CHECK(begun >= 5);
      int next = 0;
#pragma omp task shared(next)
      next = 1;
#pragma omp taskwait
      CHECK(next == 1);
    }
  }
  puts("ok");
  return 0;
}
