// Two loops of one region with the same bounds, one with its work at the beginning and one at the end: each is dealt out as it was itself the last
// time, so the second thread begins further ahead in the first one than in the other one.
#include "check.h"
#include <omp.h>
#include <unistd.h>

#define MOST 64

static int begins[2];

int main(void) {
  int right = 0;
  for (int round = 0; round < 8; round++) {
#pragma omp parallel num_threads(2)
    {
      int first = MOST;
#pragma omp for schedule(nonmonotonic : dynamic, 1)
      for (int at = 0; at < MOST; at++) {
        if (first == MOST) first = at;
        if (at < MOST / 2) usleep(500);
      }
      if (omp_get_thread_num() == 1) begins[0] = first;
      first = MOST;
#pragma omp for schedule(nonmonotonic : dynamic, 1)
      for (int at = 0; at < MOST; at++) {
        if (first == MOST) first = at;
        if (at >= MOST / 2) usleep(500);
      }
      if (omp_get_thread_num() == 1) begins[1] = first;
    }
    right += round && begins[0] < begins[1];
  }
  // A thread that the system holds up spoils a round or two.
  if (right < 4) {
    printf("%d of 7; %d, %d\n", right, begins[0], begins[1]);
    return 1;
  }
  puts("ok");
  return 0;
}
