// What C++ has: loops over objects, syncvars as a class, and the headers of C.
#include "check.h"
#include <qthread/allpairs.h>
#include <qthread/barrier.h>
#include <qthread/dictionary.h>
#include <qthread/hash.h>
#include <qthread/qalloc.h>
#include <qthread/qarray.h>
#include <qthread/qdqueue.h>
#include <qthread/qlfqueue.h>
#include <qthread/qloop.hpp>
#include <qthread/qpool.h>
#include <qthread/qswsrqueue.h>
#include <qthread/qt_syscalls.h>
#include <qthread/qthread.hpp>
#include <qthread/qtimer.h>
#include <qthread/qutil.h>
#include <qthread/sinc.h>
#include <qthread/tls.h>
#include <qthread/wavefront.h>
#include <stdexcept>

struct Mark {
  aligned_t *marks;
  void operator()(size_t from, size_t to) const {
    for (size_t index = from; index < to; index++) qthread_incr(&marks[index], 1);
  }
};

struct Sum {
  typedef aligned_t acctype;
  static const aligned_t identity = 0;
  static void accumulate(void *a, const void *b) { *static_cast<aligned_t *>(a) += *static_cast<const aligned_t *>(b); }
  aligned_t operator()(size_t from, size_t to) const {
    aligned_t sum = 0;
    for (size_t index = from; index < to; index++) sum += index;
    return sum;
  }
};

static syncvar shared;

static aligned_t writes(void *) {
  shared.writeEF(41);
  return 0;
}

// An exception is caught on the thread's own stack, also after a wait there.
static aligned_t throws(void *arg) {
  try {
    qthread_yield();
    throw std::runtime_error("caught");
  } catch (const std::exception &) {
    qthread_readFF(nullptr, static_cast<aligned_t *>(arg));
    return 5;
  }
}

int main() {
  CHECK(qthread_initialize() == 0);
  static aligned_t marks[100];
  Mark mark = {marks};
  qt_loop(0, 100, mark);
  qt_loop_balance(0, 100, mark);
  qt_loop_balance_simple(0, 100, mark);
  for (aligned_t each : marks) CHECK(each == 3);
  CHECK(qt_loopaccum_balance(0, 1000, Sum()) == 999 * 1000 / 2);

  CHECK(shared.status() == 1 && shared.empty() == 0);
  aligned_t ret;
  CHECK(qthread_fork(writes, nullptr, &ret) == 0);
  CHECK(shared.readFF() == 41 && shared.readFE() == 41);
  CHECK(shared.writeF(2) == 0 && shared.incr() == 3 && shared.read() == 3 && shared.fill() == 0);
  syncvar other(uint64_t(6)), same(other);
  CHECK(same.readFF() == 6);
  qthread_readFF(nullptr, &ret);
  // All that a syncvar does without a wait, and what it takes from others.
  const syncvar_t plain = SYNCVAR_STATIC_EMPTY_INITIALIZE_TO(9);
  syncvar from_plain(plain), assigned;
  CHECK(from_plain.status() == 0 && from_plain.read() == 9 && assigned.status() == 1 && assigned.read() == 0);
  assigned = from_plain;
  CHECK(assigned.status() == 0 && assigned.read() == 9 && assigned.fill() == 0 && from_plain.status() == 0);
  assigned.write(12);
  uint64_t value = 0;
  CHECK(assigned.read() == 12 && assigned.status() == 1 && assigned.readFF(&value) == 0 && value == 12);
  value = 0;
  CHECK(assigned.readFE(&value) == 0 && value == 12 && assigned.status() == 0);
  assigned.write(13);
  CHECK(assigned.status() == 0 && assigned.fill() == 0 && assigned.readFE() == 13);
  CHECK(assigned.writeEF(UINT64_MAX) == QTHREAD_OVERFLOW && assigned.writeF(UINT64_MAX) == QTHREAD_OVERFLOW);
  CHECK(assigned.writeEF(5) == 0 && assigned.incr(-2) == 3 && assigned.incr(4) == 7);
  QT_Atomic(int) fenced(0);
  fenced.store(1);
  MACHINE_FENCE
  CHECK(atomic_load_explicit(&fenced, memory_order_relaxed) == 1);
  aligned_t word = 0;
  CHECK(qthread_empty(&word) == 0 && qthread_fork(throws, &word, &ret) == 0);
  CHECK(qthread_writeEF_const(&word, 1) == 0 && qthread_readFF(&ret, &ret) == 0 && ret == 5);
  puts("ok");
}
