// A thread throws: what it catches itself is its own business; what leaves its function ends the process, which says why.
#include "check.h"
#include <qthread/qthread.h>
#include <stdexcept>
#include <string>

static int caught;

static int throws(int n) {
  if (n == 0) throw std::runtime_error("from below");
  return throws(n - 1) + 1;
}

static aligned_t catches(void *) {
  try {
    throws(20);
  } catch (const std::runtime_error &error) {
    // While it is caught, another thread throws and catches its own.
    qthread_yield();
    if (error.what() == std::string("from below")) __atomic_fetch_add(&caught, 1, __ATOMIC_RELAXED);
  }
  return 0;
}

static aligned_t leaves(void *) { return static_cast<aligned_t>(throws(3)); }

int main() {
  aligned_t rets[10], last = 0;
  CHECK(qthread_initialize() == 0);
  for (aligned_t &ret : rets) CHECK(qthread_fork(catches, nullptr, &ret) == 0);
  for (aligned_t &ret : rets) qthread_readFF(nullptr, &ret);
  CHECK(caught == 10);
  puts("caught");
  fflush(stdout);
  CHECK(qthread_fork(leaves, nullptr, &last) == 0);
  qthread_readFF(nullptr, &last);
  puts("not reached");
}
