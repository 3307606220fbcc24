// Places: where threads of a region are bound, by policy, and what of them regions within it get.
#define _GNU_SOURCE
#include "check.h"
#include <omp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

// The thread may run on the processors of its place, and on no other.
static void is_bound(void) {
  int ids[CPU_SETSIZE], place = omp_get_place_num(), count = omp_get_place_num_procs(place);
  CHECK(place >= 0 && count > 0 && count <= CPU_SETSIZE);
  omp_get_place_proc_ids(place, ids);
  cpu_set_t bound, expected;
  CPU_ZERO(&expected);
  for (int at = 0; at < count; at++) CPU_SET(ids[at], &expected);
  CHECK(sched_getaffinity(0, sizeof bound, &bound) == 0 && CPU_EQUAL(&bound, &expected));
}

int main(void) {
  int places = omp_get_num_places();
  omp_set_max_active_levels(2);
  CHECK(omp_get_partition_num_places() == places);
  if (getenv("IS_FREE")) {
    // Nothing is bound, whatever a clause says.
    CHECK(omp_get_proc_bind() == omp_proc_bind_false);
#pragma omp parallel num_threads(2) proc_bind(close)
    {
      cpu_set_t bound;
      CHECK(sched_getaffinity(0, sizeof bound, &bound) == 0 && CPU_COUNT(&bound) == omp_get_num_procs());
    }
    puts("ok");
    return 0;
  }
  CHECK(places == 4 && omp_get_proc_bind() == omp_proc_bind_spread);
#pragma omp parallel num_threads(2)
  CHECK(omp_get_proc_bind() == omp_proc_bind_close);
  for (int threads = 1; threads <= 9; threads++) {
#pragma omp parallel num_threads(threads) proc_bind(master)
    {
      CHECK(omp_get_place_num() == 0 && omp_get_partition_num_places() == places);
      is_bound();
    }
#pragma omp parallel num_threads(threads) proc_bind(close)
    {
      int number = omp_get_thread_num();
      CHECK(omp_get_place_num() == (threads <= places ? number : number * places / threads));
      CHECK(omp_get_partition_num_places() == places);
      is_bound();
    }
#pragma omp parallel num_threads(threads) proc_bind(spread)
    {
      int number = omp_get_thread_num(), first = number * places / threads;
      int own = threads <= places ? (number + 1) * places / threads - first : 1;
      CHECK(omp_get_place_num() == first && omp_get_partition_num_places() == own);
      int numbers[16];
      omp_get_partition_place_nums(numbers);
      CHECK(numbers[0] == first && numbers[own - 1] == first + own - 1);
      is_bound();
#pragma omp parallel num_threads(3) proc_bind(close)
      {
        int within = omp_get_thread_num();
        CHECK(omp_get_place_num() == first + (3 <= own ? within : within * own / 3));
        is_bound();
      }
      CHECK(omp_get_partition_num_places() == own);
    }
    CHECK(omp_get_partition_num_places() == places);
  }
  puts("ok");
  return 0;
}
