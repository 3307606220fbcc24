// The LU decomposition of a sparse matrix of blocks: a task for each step on a block, ordered by `depend` clauses alone.
#include "measure.h"
#include <math.h>
#include <string.h>

#define BLOCKS 24
#define SIDE 32

typedef double block[SIDE][SIDE];

static block *matrix[BLOCKS][BLOCKS];

static void fill(block *to, unsigned seed, int is_diagonal) {
  for (int row = 0; row < SIDE; row++)
    for (int column = 0; column < SIDE; column++) {
      seed = seed * 1664525 + 1013904223;
      (*to)[row][column] = (double)(seed >> 8) / (1 << 24) - 0.5 + (is_diagonal && row == column ? 4.0 * SIDE : 0);
    }
}

static void decompose(block *at) {
  for (int k = 0; k < SIDE; k++)
    for (int row = k + 1; row < SIDE; row++) {
      (*at)[row][k] /= (*at)[k][k];
      for (int column = k + 1; column < SIDE; column++) (*at)[row][column] -= (*at)[row][k] * (*at)[k][column];
    }
}

static void solve_lower(block *diagonal, block *at) {
  for (int k = 0; k < SIDE; k++)
    for (int row = k + 1; row < SIDE; row++)
      for (int column = 0; column < SIDE; column++) (*at)[row][column] -= (*diagonal)[row][k] * (*at)[k][column];
}

static void solve_upper(block *diagonal, block *at) {
  for (int row = 0; row < SIDE; row++)
    for (int k = 0; k < SIDE; k++) {
      (*at)[row][k] /= (*diagonal)[k][k];
      for (int column = k + 1; column < SIDE; column++) (*at)[row][column] -= (*at)[row][k] * (*diagonal)[k][column];
    }
}

static void update(block *left, block *top, block *at) {
  for (int row = 0; row < SIDE; row++)
    for (int k = 0; k < SIDE; k++)
      for (int column = 0; column < SIDE; column++) (*at)[row][column] -= (*left)[row][k] * (*top)[k][column];
}

static block *zeros(void) {
  block *at = malloc(sizeof *at);
  memset(at, 0, sizeof *at);
  return at;
}

static void make(void) {
  for (int row = 0; row < BLOCKS; row++)
    for (int column = 0; column < BLOCKS; column++) {
      free(matrix[row][column]);
      matrix[row][column] = NULL;
      if (row == column || row == column + 1 || row + 1 == column || (row * 7 + column * 3) % 5 == 0) {
        matrix[row][column] = zeros();
        fill(matrix[row][column], (unsigned)(row * BLOCKS + column + 1), row == column);
      }
    }
}

static double sum(void) {
  double sum = 0;
  for (int row = 0; row < BLOCKS; row++)
    for (int column = 0; column < BLOCKS; column++)
      if (matrix[row][column])
        for (int at = 0; at < SIDE * SIDE; at++) sum += fabs((*matrix[row][column])[at / SIDE][at % SIDE]);
  return sum;
}

static void run(void) {
  for (int k = 0; k < BLOCKS; k++) {
    block *diagonal = matrix[k][k];
#pragma omp task firstprivate(diagonal) depend(inout : diagonal[0][0][0])
    decompose(diagonal);
    for (int at = k + 1; at < BLOCKS; at++) {
      block *right = matrix[k][at], *below = matrix[at][k];
      if (right) {
#pragma omp task firstprivate(diagonal, right) depend(in : diagonal[0][0][0]) depend(inout : right[0][0][0])
        solve_lower(diagonal, right);
      }
      if (below) {
#pragma omp task firstprivate(diagonal, below) depend(in : diagonal[0][0][0]) depend(inout : below[0][0][0])
        solve_upper(diagonal, below);
      }
    }
    for (int row = k + 1; row < BLOCKS; row++)
      for (int column = k + 1; column < BLOCKS; column++) {
        block *left = matrix[row][k], *top = matrix[k][column];
        if (!left || !top) continue;
        if (!matrix[row][column]) matrix[row][column] = zeros();
        block *inner = matrix[row][column];
#pragma omp task firstprivate(left, top, inner) depend(in : left[0][0][0], top[0][0][0]) depend(inout : inner[0][0][0])
        update(left, top, inner);
      }
  }
}

int main(void) {
  double times[3];
  make();
  run();
  double expected = sum();
  for (int time = 0; time < 3; time++) {
    make();
    double begun = omp_get_wtime();
#pragma omp parallel
#pragma omp single
    run();
    times[time] = omp_get_wtime() - begun;
    check(sum() == expected, "the decomposition");
  }
  report("lu", middle(times, 3) * 1e3, "ms");
}
