// What each construct costs: the time of many of them around very little work, for one of them. Bull, "Measuring Synchronisation and
// Scheduling Overheads in OpenMP", EWOMP 1999, subtracts the time of the work; ours is so little that it need not be, because a difference
// of two times that other programs disturb says nothing.
#include "measure.h"

#define TIMES 7
#define WORK 10

static void work(int length) {
  volatile float sum = 0;
  for (int at = 0; at < length; at++) sum += (float)at;
}

static double time_of(void (*what)(int), int count) {
  double times[TIMES];
  what(count / 10 + 1);
  for (int time = 0; time < TIMES; time++) {
    double begun = omp_get_wtime();
    what(count);
    times[time] = (omp_get_wtime() - begun) / count;
  }
  return middle(times, TIMES) * 1e9;
}

static void reference(int count) {
  for (int at = 0; at < count; at++) work(WORK);
}

static void region(int count) {
  for (int at = 0; at < count; at++) {
#pragma omp parallel
    work(WORK);
  }
}

static void empty_region(int count) {
  for (int at = 0; at < count; at++) {
#pragma omp parallel
    __asm__ volatile("");
  }
}

static void loop(int count) {
#pragma omp parallel
  for (int at = 0; at < count; at++) {
#pragma omp for
    for (int each = 0; each < omp_get_num_threads(); each++) work(WORK);
  }
}

static void dynamic_loop(int count) {
#pragma omp parallel
  for (int at = 0; at < count; at++) {
#pragma omp for schedule(dynamic)
    for (int each = 0; each < omp_get_num_threads(); each++) work(WORK);
  }
}

static void barrier(int count) {
#pragma omp parallel
  for (int at = 0; at < count; at++) {
    work(WORK);
#pragma omp barrier
  }
}

static void single(int count) {
#pragma omp parallel
  for (int at = 0; at < count; at++) {
#pragma omp single
    work(WORK);
  }
}

static void critical(int count) {
  int each = count / omp_get_max_threads() + 1;
#pragma omp parallel
  for (int at = 0; at < each; at++) {
#pragma omp critical
    work(WORK);
  }
}

static void reduction(int count) {
  for (int at = 0; at < count; at++) {
    int sum = 0;
#pragma omp parallel reduction(+ : sum)
    {
      work(WORK);
      sum += 1;
    }
    check(sum == omp_get_max_threads(), "a reduction");
  }
}

// All by one thread, and all threads run them.
static void tasks(int count) {
#pragma omp parallel
#pragma omp single
  for (int at = 0; at < count; at++) {
#pragma omp task
    work(WORK);
  }
}

// Each thread makes its own.
static void tasks_of_all(int count) {
#pragma omp parallel
  for (int at = 0; at < count; at++) {
#pragma omp task
    work(WORK);
  }
}

static void taskwait(int count) {
#pragma omp parallel
  for (int at = 0; at < count; at++) {
#pragma omp task
    work(WORK);
#pragma omp taskwait
  }
}

static void taskloop(int count) {
#pragma omp parallel
#pragma omp single
#pragma omp taskloop num_tasks(count)
  for (int at = 0; at < count; at++) work(WORK);
}

static void nothing(int *of) { (void)of; }

static void depend(int count) {
  static int cells[64];
#pragma omp parallel
#pragma omp single
  for (int at = 0; at < count; at++) {
#pragma omp task depend(inout : cells[at % 64])
    nothing(cells);
  }
}

// A stencil of 16 points: each task uses what three tasks of the step before have written, and writes where no task has been before.
static void stencil(int count) {
  enum { WIDTH = 16 };
  static int points[20000 / WIDTH + 1][WIDTH + 2];
#pragma omp parallel
#pragma omp single
  for (int step = 1; step <= count / WIDTH; step++) {
    int(*before)[WIDTH + 2] = &points[step - 1], (*now)[WIDTH + 2] = &points[step];
    for (int at = 1; at <= WIDTH; at++) {
#pragma omp task depend(in : before[0][at - 1], before[0][at], before[0][at + 1]) depend(out : now[0][at])
      now[0][at] = before[0][at - 1] + before[0][at] + before[0][at + 1];
    }
  }
}

int main(void) {
  struct {
    const char *name;
    void (*what)(int);
    int count;
  } all[] = {
      {"work", reference, 20000},      {"region", region, 2000},       {"region-empty", empty_region, 2000},
      {"for", loop, 2000},             {"for-dynamic", dynamic_loop, 2000}, {"barrier", barrier, 2000},
      {"single", single, 2000},        {"critical", critical, 20000},  {"reduction", reduction, 2000},
      {"task", tasks, 20000},          {"task-each", tasks_of_all, 20000}, {"taskwait", taskwait, 20000},
      {"taskloop", taskloop, 20000},   {"depend", depend, 20000},
      {"stencil", stencil, 20000},
  };
  for (size_t at = 0; at < sizeof all / sizeof *all; at++) report(all[at].name, time_of(all[at].what, all[at].count), "ns");
}
