// As many words as a construct passes arrive: those in registers and those on the stack, on every processor.
#include "check.h"
#include <omp.h>

// A loop of nine dimensions waits for the iteration before it in all of them.
static void nine(void) {
  enum { N = 3 };
  int done[N][N] = {{0}};
#pragma omp parallel for ordered(9) schedule(static, 1) shared(done)
  for (int a = 0; a < N; a++)
    for (int b = 0; b < N; b++)
      for (int c = 0; c < 1; c++)
        for (int d = 0; d < 1; d++)
          for (int e = 0; e < 1; e++)
            for (int f = 0; f < 1; f++)
              for (int g = 0; g < 1; g++)
                for (int h = 0; h < 2; h++)
                  for (int i = 0; i < 2; i++) {
#pragma omp ordered depend(sink : a - 1, b, c, d, e, f, g, h, i)
                    if (a > 0) {
                      int before;
#pragma omp atomic read seq_cst
                      before = done[a - 1][b];
                      // Bits of the pairs of h and i.
                      CHECK(before & (1 << (2 * h + i)));
                    }
#pragma omp atomic update seq_cst
                    done[a][b] |= 1 << (2 * h + i);
#pragma omp ordered depend(source)
                  }
  for (int a = 0; a < N; a++)
    for (int b = 0; b < N; b++) CHECK(done[a][b] == 15);
}

int main(void) {
  int hits = 0, threads = 0;
#pragma omp parallel
#pragma omp single
  threads = omp_get_num_threads();
  // Regions with 0 to 13 shared variables; clang passes each as a word.
  int a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, i = 9, j = 10, k = 11, l = 12, m = 13;
#pragma omp parallel
  omp_get_thread_num();
#pragma omp parallel shared(hits)
#pragma omp atomic
  hits += 1;
  CHECK(hits == threads);
#define REGION(sum, ...) \
  hits = 0; \
  _Pragma("omp parallel shared(hits)") { \
    int own = __VA_ARGS__; \
    CHECK(own == sum); \
    _Pragma("omp atomic") hits += own; \
  } \
  CHECK(hits == threads * sum)
  REGION(3, a + b);
  REGION(6, a + b + c);
  REGION(10, a + b + c + d);
  REGION(15, a + b + c + d + e);
  REGION(21, a + b + c + d + e + f);
  REGION(28, a + b + c + d + e + f + g);
  REGION(36, a + b + c + d + e + f + g + h);
  REGION(45, a + b + c + d + e + f + g + h + i);
  REGION(91, a + b + c + d + e + f + g + h + i + j + k + l + m);
  // Each is its own, not another one's.
  hits = 0;
#pragma omp parallel shared(hits)
  {
    int own[] = {a, b, c, d, e, f, g, h, i, j, k, l, m};
    for (int at = 0; at < 13; at++) CHECK(own[at] == at + 1);
#pragma omp atomic
    hits += 1;
  }
  CHECK(hits == threads);
  // Written by the region, seen behind it.
#pragma omp parallel num_threads(1)
  {
    a = -1;
    g = -7;
    m = -13;
  }
  CHECK(a == -1 && g == -7 && m == -13);
  nine();
  puts("ok");
  return 0;
}
