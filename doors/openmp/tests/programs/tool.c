// A tool that comes with its program: it begins before the first region and ends with the process, and each callback is refused.
#include "check.h"
#include <omp.h>
#include <string.h>

typedef void (*function)(void);
typedef function (*lookup)(const char *);
typedef union {
  unsigned long long value;
  void *pointer;
} data;
typedef struct {
  int (*initialize)(lookup, int, data *);
  void (*finalize)(data *);
  data own;
} tool;

static int begun;

static int begins(lookup find, int device, data *own) {
  int (*set)(int, function) = (int (*)(int, function))find("ompt_set_callback");
  int (*processors)(void) = (int (*)(void))find("ompt_get_num_procs");
  CHECK(device == 0 && own->value == 17 && set && processors);
  CHECK(processors() == omp_get_num_procs() && find("no such function") == NULL);
  for (int event = 1; event < 20; event++) CHECK(set(event, NULL) == 1);
  begun++;
  return 1;
}

static void ends(data *own) {
  if (own->value == 17) puts("ok");
}

tool *ompt_start_tool(unsigned version, const char *runtime) {
  static tool one = {begins, ends, {17}};
  // The compiler's own library may ask, too.
  if (strncmp(runtime, "Vicus", 5) != 0) return NULL;
  CHECK(version >= 201811);
  return &one;
}

int main(void) {
  int sum = 0;
#pragma omp parallel reduction(+ : sum)
  sum += 1;
  CHECK(begun == 1 && sum == omp_get_max_threads());
}
