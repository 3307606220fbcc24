// A thread throws: what it catches itself is its own business; what leaves its function ends the process, which says why.
#include "check.h"
#include <qthread/qthread.h>
#include <exception>
#include <stdexcept>
#include <string>

static int caught;

static int throws(int n, const std::string &what) {
  if (n == 0) throw std::runtime_error(what);
  return throws(n - 1, what) + 1;
}

// Lets others run while its thread is unwound; how many exceptions are under way is its own thread's number.
struct Yields {
  int *under_way;
  ~Yields() {
    qthread_yield();
    *under_way = std::uncaught_exceptions();
  }
};

static aligned_t catches(void *argument) {
  const std::string own = "of thread " + std::to_string(*static_cast<int *>(argument));
  int under_way = -1;
  try {
    try {
      Yields yields{&under_way};
      throws(20, own);
    } catch (...) {
      // While it is caught, other threads throw and catch their own.
      for (int i = 0; i < 3; ++i) qthread_yield();
      throw;
    }
  } catch (const std::runtime_error &error) {
    qthread_yield();
    if (error.what() == own && under_way == 1 && std::uncaught_exceptions() == 0)
      __atomic_fetch_add(&caught, 1, __ATOMIC_RELAXED);
  }
  return 0;
}

static aligned_t leaves(void *) { return static_cast<aligned_t>(throws(3, "to nobody")); }

int main() {
  aligned_t rets[10], last = 0;
  CHECK(qthread_initialize() == 0);
  int numbers[10];
  for (int i = 0; i < 10; ++i) {
    numbers[i] = i;
    CHECK(qthread_fork(catches, &numbers[i], &rets[i]) == 0);
  }
  for (aligned_t &ret : rets) qthread_readFF(nullptr, &ret);
  CHECK(caught == 10);
  // The main thread runs threads on its own stack while it has caught something and waits.
  try {
    throws(2, "of main");
  } catch (...) {
    for (int i = 0; i < 10; ++i) CHECK(qthread_fork(catches, &numbers[i], &rets[i]) == 0);
    for (aligned_t &ret : rets) qthread_readFF(nullptr, &ret);
    CHECK(caught == 20);
    try {
      throw;
    } catch (const std::runtime_error &error) {
      CHECK(error.what() == std::string("of main"));
    }
  }
  puts("caught");
  fflush(stdout);
  CHECK(qthread_fork(leaves, nullptr, &last) == 0);
  qthread_readFF(nullptr, &last);
  puts("not reached");
}
