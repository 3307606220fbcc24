// Target regions, which run on the host, and what programs ask of devices.
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <omp.h>
#include <string.h>

static void regions(void) {
  int plain = 7, shared = 0, copied[40], level = -1, threads = -1, within = -1;
  long long wide = 1LL << 40;
  double mapped[100];
  for (int at = 0; at < 40; at++) copied[at] = at;
  for (int at = 0; at < 100; at++) mapped[at] = at;
#pragma omp target map(tofrom : shared, level, threads, within, mapped) firstprivate(plain, copied, wide)
  {
    CHECK(plain == 7 && wide == 1LL << 40);
    for (int at = 0; at < 40; at++) {
      CHECK(copied[at] == at);
      copied[at] = -1;
    }
    plain = 8;
    level = omp_get_level();
    threads = omp_get_num_threads();
    within = omp_is_initial_device();
    for (int at = 0; at < 100; at++) mapped[at] *= 2;
    shared = plain;
  }
  CHECK(plain == 7 && shared == 8 && level == 0 && threads == 1 && within == 1);
  for (int at = 0; at < 40; at++) CHECK(copied[at] == at);
  for (int at = 0; at < 100; at++) CHECK(mapped[at] == 2 * at);
}

static void leagues(void) {
  enum { COUNT = 1000 };
  static int seen[COUNT];
  int most = 0;
  memset(seen, 0, sizeof seen);
#pragma omp target teams distribute parallel for num_teams(3) thread_limit(2) map(tofrom : seen)
  for (int at = 0; at < COUNT; at++) {
#pragma omp atomic
    seen[at]++;
  }
  for (int at = 0; at < COUNT; at++) CHECK(seen[at] == 1);
#if defined __clang__ || __GNUC__ >= 12
#pragma omp target map(tofrom : most) thread_limit(2)
#else
  // A clause of OpenMP 5.1.
#pragma omp target teams num_teams(1) map(tofrom : most) thread_limit(2)
#endif
  {
#pragma omp parallel num_threads(8) reduction(max : most)
    most = omp_get_num_threads();
  }
  CHECK(most >= 1 && most <= 8);
#ifndef __clang__
  // Without a device, clang leaves out the limit of a region that has no teams.
  CHECK(most <= 2);
#endif
  CHECK(omp_get_team_num() == 0 && omp_get_num_teams() == 1);
}

// Regions within a team: each thread has its own, and comes back to its number and its level.
static void within_a_team(void) {
  int sum = 0;
#pragma omp parallel reduction(+ : sum)
  {
    int number = omp_get_thread_num(), inner = 0;
#pragma omp target map(tofrom : inner)
    {
#ifndef __clang__
      // clang puts such a region's code where the region stands.
      CHECK(omp_get_level() == 0 && omp_get_thread_num() == 0);
#endif
#pragma omp parallel num_threads(2) reduction(+ : inner)
      inner += 1;
    }
    CHECK(inner >= 1 && omp_get_thread_num() == number && omp_get_level() == 1);
    sum += 1;
#pragma omp barrier
#pragma omp single
    sum += 0;
  }
  CHECK(sum >= 1);
}

// What need not wait is a task, and comes in the order of its clauses.
static void in_order(void) {
  for (int round = 0; round < 50; round++) {
    int value = 0, last = 0, block[64];
    memset(block, 0, sizeof block);
#pragma omp parallel
#pragma omp single
    {
#pragma omp task depend(out : value) shared(value)
      value = 1;
#pragma omp target enter data map(to : value) depend(inout : value) nowait
#pragma omp target map(tofrom : value) depend(inout : value) nowait
      value = value * 10 + 2;
#pragma omp target update to(value) depend(inout : value) nowait
      {
        int copy[64];
        for (int at = 0; at < 64; at++) copy[at] = round + at;
        // The copy is made when the task is, because this block ends before it runs.
#pragma omp target map(tofrom : value, block) firstprivate(copy) depend(inout : value) nowait
        {
          value = value * 10 + 3;
          for (int at = 0; at < 64; at++) block[at] = copy[at];
        }
      }
#pragma omp task depend(inout : value) shared(value)
      value = value * 10 + 4;
#pragma omp target exit data map(from : value) depend(inout : value)
#pragma omp target map(tofrom : last, value) depend(inout : value)
      last = value;
#pragma omp taskwait
    }
    CHECK(value == 1234 && last == 1234);
    for (int at = 0; at < 64; at++) CHECK(block[at] == round + at);
  }
}

static void data(void) {
  int numbers[16], *pointer = numbers;
  for (int at = 0; at < 16; at++) numbers[at] = at;
#pragma omp target data map(tofrom : numbers) use_device_ptr(pointer)
  {
    CHECK(pointer == numbers);
#pragma omp target map(tofrom : numbers)
    for (int at = 0; at < 16; at++) numbers[at] += 1;
#pragma omp target update from(numbers)
    CHECK(numbers[15] == 16);
  }
#pragma omp target if (0) map(tofrom : numbers)
  numbers[0] = 99;
  CHECK(numbers[0] == 99);
}

#ifndef __clang__
// clang's library has none of these; another one of LLVM does.
static void calls(void) {
  int host = omp_get_initial_device(), none = 77;
  CHECK(omp_get_num_devices() == 0);
  int *memory = omp_target_alloc(100 * sizeof(int), host);
  CHECK(memory != NULL && omp_target_is_present(memory, host) && omp_target_alloc(8, none) == NULL);
  int from[100];
  for (int at = 0; at < 100; at++) from[at] = at;
  CHECK(omp_target_memcpy(memory, from, 50 * sizeof(int), 10 * sizeof(int), 20 * sizeof(int), host, host) == 0);
  for (int at = 0; at < 50; at++) CHECK(memory[10 + at] == 20 + at);
  CHECK(omp_target_memcpy(memory, from, 4, 0, 0, host, none) != 0);
  // A box of 2 x 3 x 4 elements, from an array of 4 x 5 x 5 to one of 3 x 4 x 6.
  size_t volume[] = {2, 3, 4}, to_offsets[] = {1, 0, 2}, from_offsets[] = {2, 1, 1}, to_all[] = {3, 4, 6};
  size_t from_all[] = {4, 5, 5};
  for (int at = 0; at < 100; at++) memory[at] = -1;
  CHECK(omp_target_memcpy_rect(memory, from, sizeof(int), 3, volume, to_offsets, from_offsets, to_all, from_all, host,
                               host) == 0);
  for (int a = 0; a < 3; a++)
    for (int b = 0; b < 4; b++)
      for (int c = 0; c < 6; c++) {
        int is_within = a >= 1 && b < 3 && c >= 2;
        int expected = is_within ? (a + 1) * 25 + (b + 1) * 5 + (c - 1) : -1;
        CHECK(memory[a * 24 + b * 6 + c] == expected);
      }
  CHECK(omp_target_memcpy_rect(NULL, NULL, 1, 1, NULL, NULL, NULL, NULL, NULL, host, host) >= 3);
  omp_target_free(memory, host);
}
// gcc 13 has these; others find them in the library.
static void copies_in_order(void) {
  typedef int (*async_fn)(void *, const void *, size_t, size_t, size_t, int, int, int, omp_depend_t *);
  async_fn copy = (async_fn)dlsym(RTLD_DEFAULT, "omp_target_memcpy_async");
  if (copy == NULL) return;
  for (int round = 0; round < 20; round++) {
    int a = 0, b = 0, both[2] = {0, 0};
    omp_depend_t objects[2];
#pragma omp parallel
#pragma omp single
    {
#pragma omp depobj(objects[0]) depend(in : a)
#pragma omp depobj(objects[1]) depend(in : b)
#pragma omp task shared(a) depend(out : a)
      {
        for (volatile int at = 0; at < 20000; at++) {}
        a = 41;
      }
#pragma omp task shared(b) depend(out : b)
      {
        for (volatile int at = 0; at < 20000; at++) {}
        b = 42;
      }
      CHECK(copy(&both[0], &a, sizeof(int), 0, 0, 0, 0, 1, objects) == 0);
      CHECK(both[0] == 41);
      CHECK(copy(&both[1], &b, sizeof(int), 0, 0, 0, 0, 2, objects) == 0);
      CHECK(both[1] == 42);
#pragma omp taskwait
#pragma omp depobj(objects[0]) destroy
#pragma omp depobj(objects[1]) destroy
    }
  }
}
#else
static void calls(void) {}
static void copies_in_order(void) {}
#endif

int main(void) {
  regions();
  leagues();
  within_a_team();
  in_order();
  data();
  calls();
  copies_in_order();
  puts("ok");
  return 0;
}
