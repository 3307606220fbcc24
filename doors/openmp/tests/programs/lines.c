// Allocates large blocks, and writes to them.
#include "check.h"
#include <string.h>

int main(void) {
  for (int round = 0; round < 10; round++) {
    // A compiler that sees all that is done with a block may do it without one.
    char *volatile block = malloc(1 << 20);
    memset(block, round, 1 << 20);
    CHECK(block[1000] == round);
    free(block);
  }
  puts("ok");
}
