// What each program checks by: the first fact that does not hold ends it.
#include <stdio.h>
#include <stdlib.h>
#define CHECK(fact) \
  do { \
    if (!(fact)) { \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #fact); \
      _exit(1); \
    } \
  } while (0)
#include <unistd.h>
