/* What the programs check by. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      printf("%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);            \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)

#endif
