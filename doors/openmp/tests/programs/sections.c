// 16 sections of a block, each named by its first element, two times: the second time, each is bounded by the next one.
#include "check.h"

#define SECTIONS 16
#define EACH (64 << 10)

int main(void) {
  char *volatile block = malloc(SECTIONS * EACH);
  char *bytes = block;
#pragma omp parallel
#pragma omp single
  for (int round = 0; round < 2; round++)
    for (int section = 0; section < SECTIONS; section++) {
#pragma omp task firstprivate(bytes, section, round) depend(inout : bytes[section * EACH])
      for (int at = 0; at < EACH; at++) bytes[section * EACH + at] = (char)round;
    }
  for (int at = 0; at < SECTIONS * EACH; at++) CHECK(bytes[at] == 1);
  free(block);
  puts("ok");
}
