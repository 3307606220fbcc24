// Passes over 32 sections of 4 MB, each named by its first element. How many passes there are is an argument.
#include "check.h"
#include <string.h>

#define SECTIONS 32
#define EACH (4L << 20)

int main(int count, char **arguments) {
  int passes = count > 1 ? atoi(arguments[1]) : 1;
  char *bytes = malloc(SECTIONS * EACH);
#pragma omp parallel
#pragma omp single
  for (int pass = 0; pass < passes; pass++) {
    for (long section = 0; section < SECTIONS; section++) {
#pragma omp task firstprivate(bytes, section, pass) depend(inout : bytes[section * EACH])
      memset(bytes + section * EACH, pass + 1, EACH);
    }
#pragma omp taskwait
  }
  for (long section = 0; section < SECTIONS; section++) CHECK(bytes[(section + 1) * EACH - 1] == passes);
  free(bytes);
  puts("ok");
}
