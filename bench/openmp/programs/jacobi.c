// Jacobi's iteration on a plane that is cut into blocks of rows: a task for each block and step, ordered by `depend` clauses between
// neighbours; and the same by loops.
#include "measure.h"
#include <math.h>
#include <string.h>

#define ROWS 1024
#define COLUMNS 1024
#define BLOCK 64
#define STEPS 40

static double (*planes[2])[COLUMNS];

static void block(double (*from)[COLUMNS], double (*to)[COLUMNS], int first) {
  for (int row = first < 1 ? 1 : first; row < first + BLOCK && row < ROWS - 1; row++)
    for (int column = 1; column < COLUMNS - 1; column++)
      to[row][column] =
          0.25 * (from[row - 1][column] + from[row + 1][column] + from[row][column - 1] + from[row][column + 1]);
}

static void begin(void) {
  for (int plane = 0; plane < 2; plane++)
#pragma omp parallel for schedule(static)
    for (int row = 0; row < ROWS; row++)
      for (int column = 0; column < COLUMNS; column++) planes[plane][row][column] = row == 0 ? 1.0 : 0.0;
}

static double sum(void) {
  double sum = 0;
  for (int row = 0; row < ROWS; row++)
    for (int column = 0; column < COLUMNS; column++) sum += planes[STEPS % 2][row][column];
  return sum;
}

static void by_tasks(void) {
#pragma omp parallel
#pragma omp single
  for (int step = 0; step < STEPS; step++) {
    double(*from)[COLUMNS] = planes[step % 2], (*to)[COLUMNS] = planes[1 - step % 2];
    for (int first = 0; first < ROWS; first += BLOCK) {
      int above = first == 0 ? 0 : first - BLOCK, below = first + BLOCK == ROWS ? first : first + BLOCK;
#pragma omp task firstprivate(from, to, first) depend(in : from[above][0], from[first][0], from[below][0]) depend(out : to[first][0])
      block(from, to, first);
    }
  }
}

static void by_loops(void) {
#pragma omp parallel
  for (int step = 0; step < STEPS; step++) {
#pragma omp for schedule(dynamic)
    for (int first = 0; first < ROWS; first += BLOCK) block(planes[step % 2], planes[1 - step % 2], first);
  }
}

static double alone(void) {
  for (int step = 0; step < STEPS; step++)
    for (int first = 0; first < ROWS; first += BLOCK) block(planes[step % 2], planes[1 - step % 2], first);
  return sum();
}

int main(void) {
  for (int plane = 0; plane < 2; plane++) planes[plane] = malloc(sizeof(double[ROWS][COLUMNS]));
  begin();
  double expected = alone();
  void (*ways[])(void) = {by_tasks, by_loops};
  const char *names[] = {"jacobi-tasks", "jacobi-loops"};
  for (int way = 0; way < 2; way++) {
    double times[5];
    for (int time = 0; time < 5; time++) {
      begin();
      double begun = omp_get_wtime();
      ways[way]();
      times[time] = omp_get_wtime() - begun;
      check(sum() == expected, names[way]);
    }
    report(names[way], middle(times, 5) * 1e3, "ms");
  }
}
