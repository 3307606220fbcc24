// Counts the ways to put 11 queens on a board, with a task for each queen that can be put: tasks with a few bytes of data each.
#include "measure.h"
#include <string.h>

#define QUEENS 11

static int is_safe(const char *board, int row) {
  for (int before = 0; before < row; before++) {
    int distance = board[row] - board[before];
    if (distance == 0 || distance == row - before || distance == before - row) return 0;
  }
  return 1;
}

struct board {
  char columns[QUEENS];
};

static long solve(struct board board, int row) {
  if (row == QUEENS) return 1;
  long found[QUEENS] = {0};
  for (int column = 0; column < QUEENS; column++) {
    board.columns[row] = (char)column;
    if (!is_safe(board.columns, row)) continue;
    long *to = &found[column];
#pragma omp task firstprivate(board, row, to)
    *to = solve(board, row + 1);
  }
#pragma omp taskwait
  long sum = 0;
  for (int column = 0; column < QUEENS; column++) sum += found[column];
  return sum;
}

int main(void) {
  long found = 0;
  double time = 0;
#pragma omp parallel
#pragma omp single
  {
    struct board board;
    memset(&board, 0, sizeof board);
    double begun = omp_get_wtime();
    found = solve(board, 0);
    time = omp_get_wtime() - begun;
  }
  check(found == 2680, "11 queens");
  report("nqueens", time * 1e3, "ms");
}
