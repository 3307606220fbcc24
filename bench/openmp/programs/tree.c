// Counts the nodes of a tree whose shape a hash of each node decides: nobody knows before which branch is long, as in Olivier et al., "UTS:
// An Unbalanced Tree Search Benchmark", LCPC 2006. Ours has another hash, and so other trees.
#include "measure.h"
#include <stdint.h>

static uint64_t mixed(uint64_t word) {
  word += 0x9e3779b97f4a7c15;
  word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9;
  word = (word ^ word >> 27) * 0x94d049bb133111eb;
  return word ^ word >> 31;
}

#define ROOTS 2000
#define CHILDREN 8

// A node has 8 children with a probability of 0.1245, and else none: so a branch ends some time.
static int children(uint64_t node) { return mixed(node) < (uint64_t)(0.1245 * 18446744073709551615.0) ? CHILDREN : 0; }

static long counted(uint64_t node) {
  int count = children(node);
  if (count == 0) return 1;
  long below[CHILDREN], sum = 1;
  for (int child = 0; child < count; child++) {
    long *to = &below[child];
    uint64_t next = mixed(node ^ mixed((uint64_t)child + 1));
#pragma omp task firstprivate(next, to)
    *to = counted(next);
  }
#pragma omp taskwait
  for (int child = 0; child < count; child++) sum += below[child];
  return sum;
}

static long counted_alone(uint64_t node) {
  long sum = 1;
  for (int child = 0, count = children(node); child < count; child++)
    sum += counted_alone(mixed(node ^ mixed((uint64_t)child + 1)));
  return sum;
}

int main(void) {
  long sum = 0, expected = 0;
  double time = 0;
  static long roots[ROOTS];
  for (int root = 0; root < ROOTS; root++) expected += counted_alone(mixed((uint64_t)root));
#pragma omp parallel
#pragma omp single
  {
    double begun = omp_get_wtime();
    for (int root = 0; root < ROOTS; root++) {
#pragma omp task firstprivate(root)
      roots[root] = counted(mixed((uint64_t)root));
    }
#pragma omp taskwait
    for (int root = 0; root < ROOTS; root++) sum += roots[root];
    time = omp_get_wtime() - begun;
  }
  check(sum == expected, "nodes of the tree");
  report("tree", time * 1e3, "ms");
}
