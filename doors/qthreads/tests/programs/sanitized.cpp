// For programs with a sanitizer: threads that go from stack to stack, return, throw and jump, and with an argument one that errs.
#include "check.h"
#include <csetjmp>
#include <cstring>
#include <qthread/qthread.h>
#include <stdexcept>

static aligned_t word;
static long ended;

static int sum(const char *of, int n) {
  char copy[256];
  memcpy(copy, of, sizeof copy);
  qthread_yield();
  int total = 0;
  for (char c : copy) total += c;
  return n == 0 ? total : total + sum(copy, n - 1);
}

static aligned_t works(void *) {
  char mine[256];
  memset(mine, 1, sizeof mine);
  std::jmp_buf jump;
  volatile int round = 0;
  if (setjmp(jump) == 0) {
    char other[64];
    memset(other, 2, sizeof other);
    round = other[5];
    qthread_yield();
    longjmp(jump, 1);
  }
  try {
    qthread_yield();
    if (round == 2) throw std::runtime_error("caught");
  } catch (const std::runtime_error &) {
    qthread_yield();
  }
  qthread_readFE(nullptr, &word);
  __atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
  qthread_writeEF_const(&word, 1);
  return static_cast<aligned_t>(sum(mine, 5));
}

__attribute__((noinline)) static void writes(char *to, int at) { to[at] = 1; }

static aligned_t errs(void *) {
  char mine[64] = {0};
  qthread_yield();
  volatile int beyond = 64;
  writes(mine, beyond);
  return static_cast<aligned_t>(mine[0]);
}

int main(int count, char **) {
  CHECK(qthread_initialize() == 0);
  word = 1;
  static aligned_t rets[50];
  for (int round = 0; round < 3; round++) {
    for (aligned_t &ret : rets) CHECK(qthread_fork(works, nullptr, &ret) == 0);
    for (aligned_t &ret : rets) {
      aligned_t value;
      qthread_readFF(&value, &ret);
      CHECK(value == 6 * 256);
    }
  }
  CHECK(__atomic_load_n(&ended, __ATOMIC_RELAXED) == 150);
  if (count > 1) {
    CHECK(qthread_fork(errs, nullptr, &rets[0]) == 0);
    qthread_readFF(nullptr, &rets[0]);
  }
  puts("ok");
}
