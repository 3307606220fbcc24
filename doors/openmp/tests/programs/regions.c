// Regions: as many threads as are wanted, at once, the same ones each time; nested, serialized, limited.
#include "check.h"
#include <omp.h>
#include <pthread.h>
#include <sys/resource.h>

static int mine = -1;
#pragma omp threadprivate(mine)

static int copied;
#pragma omp threadprivate(copied)

static void distinct_threads_at_once(int wanted) {
  pthread_t ids[64];
  int come = 0;
#pragma omp parallel num_threads(wanted)
  {
    CHECK(omp_get_num_threads() == wanted);
    ids[omp_get_thread_num()] = pthread_self();
    // All of them run at once: each waits for all others without a barrier.
#pragma omp atomic
    come++;
    int seen;
    do {
#pragma omp atomic read
      seen = come;
      if (seen < wanted) usleep(100);
    } while (seen < wanted);
  }
  CHECK(pthread_equal(ids[0], pthread_self()));
  for (int a = 0; a < wanted; a++)
    for (int b = 0; b < a; b++) CHECK(!pthread_equal(ids[a], ids[b]));
}

static void numbers_stay_with_threads(void) {
#pragma omp parallel num_threads(5)
  mine = 100 + omp_get_thread_num();
  for (int round = 0; round < 50; round++) {
#pragma omp parallel num_threads(5)
    CHECK(mine == 100 + omp_get_thread_num());
    // A region of another size in between.
#pragma omp parallel num_threads(2)
    CHECK(omp_get_num_threads() == 2);
  }
  copied = 7;
#pragma omp parallel num_threads(4) copyin(copied)
  CHECK(copied == 7);
}

static void regions_within_regions(void) {
  omp_set_max_active_levels(2);
  int count = 0;
#pragma omp parallel num_threads(3)
  {
    int outer = omp_get_thread_num();
    CHECK(omp_get_level() == 1 && omp_get_active_level() == 1);
#pragma omp parallel num_threads(2)
    {
      CHECK(omp_get_num_threads() == 2 && omp_get_level() == 2 && omp_get_active_level() == 2);
      CHECK(omp_get_ancestor_thread_num(1) == outer && omp_get_team_size(1) == 3);
      CHECK(omp_get_ancestor_thread_num(0) == 0 && omp_get_team_size(0) == 1);
      CHECK(omp_get_ancestor_thread_num(2) == omp_get_thread_num() && omp_get_team_size(2) == 2);
      CHECK(omp_get_ancestor_thread_num(3) == -1 && omp_get_team_size(3) == -1);
#pragma omp parallel num_threads(4)
      {
        // Beyond the levels that may be active.
        CHECK(omp_get_num_threads() == 1 && omp_get_level() == 3 && omp_get_active_level() == 2);
#pragma omp atomic
        count++;
      }
    }
    CHECK(omp_get_thread_num() == outer && omp_get_num_threads() == 3);
  }
  CHECK(count == 6);
  omp_set_max_active_levels(1);
#pragma omp parallel num_threads(3)
  {
#pragma omp parallel num_threads(3)
    CHECK(omp_get_num_threads() == 1 && omp_get_thread_num() == 0);
  }
}

static void settings_are_of_tasks(void) {
  omp_set_num_threads(3);
#pragma omp parallel
  {
    CHECK(omp_get_num_threads() == 3);
    omp_set_num_threads(5 + omp_get_thread_num());
    CHECK(omp_get_max_threads() == 5 + omp_get_thread_num());
  }
  CHECK(omp_get_max_threads() == 3);
#pragma omp parallel if (0)
  CHECK(omp_get_num_threads() == 1 && omp_get_level() == 1 && !omp_in_parallel());
  CHECK(omp_get_level() == 0 && !omp_in_parallel());
}

static void *foreign(void *unused) {
  (void)unused;
  for (int round = 0; round < 5; round++) {
    int sum = 0;
#pragma omp parallel num_threads(3) reduction(+ : sum)
    sum += omp_get_thread_num();
    CHECK(sum == 3);
  }
  return NULL;
}

static void threads_of_others_have_regions(void) {
  // Threads that end leave the threads of their regions to those that come. A process inherits the most memory of the one that starts it.
  struct rusage before, used;
  CHECK(getrusage(RUSAGE_SELF, &before) == 0);
  for (int round = 0; round < 20; round++) {
    pthread_t threads[4];
    for (int at = 0; at < 4; at++) CHECK(pthread_create(&threads[at], NULL, foreign, NULL) == 0);
    for (int at = 0; at < 4; at++) pthread_join(threads[at], NULL);
  }
  CHECK(getrusage(RUSAGE_SELF, &used) == 0 && used.ru_maxrss - before.ru_maxrss < 200 << 10);
}

static int many(int a, double b, long c, short d, char e, float f, int g, int h, int i, int j, int k, int l) {
  int count = 0;
#pragma omp parallel num_threads(2) firstprivate(a, b, c, d, e, f, g, h, i, j, k, l) reduction(+ : count)
  count += a == 1 && b == 2.5 && c == 3 && d == 4 && e == 5 && f == 6.5f && g == 7 && h == 8 && i == 9 && j == 10 && k == 11 && l == 12;
  return count;
}

int main(void) {
  distinct_threads_at_once(1);
  distinct_threads_at_once(2);
  distinct_threads_at_once(17);
  numbers_stay_with_threads();
  regions_within_regions();
  settings_are_of_tasks();
  threads_of_others_have_regions();
  CHECK(many(1, 2.5, 3, 4, 5, 6.5f, 7, 8, 9, 10, 11, 12) == 2);
  puts("ok");
  return 0;
}
