// Threads that wait for ever are unwound by the library, if that is wanted: no handler of theirs takes that for an exception, and their joiners
// are told.
#include "check.h"
#include <atomic>
#include <qthread/thread.hpp>
#include <system_error>

static std::atomic<int> destroyed;

struct Destroyed {
  ~Destroyed() { ++destroyed; }
};

int main() {
  static aligned_t word;
  CHECK(qthread_initialize() == 0 && qthread_empty(&word) == 0);
  auto waits = vicus::threads::spawn([] {
    Destroyed on_its_stack;
    try {
      qthread_readFF(nullptr, &word);
    } catch (const std::exception &) {
      CHECK(false);
    }
    return 1;
  });
  auto joins = vicus::threads::spawn([waits = std::move(waits)]() mutable {
    Destroyed on_its_stack;
    return waits.join();
  });
  bool is_told = false;
  try {
    joins.join();
  } catch (const std::system_error &error) {
    is_told = error.code() == std::errc::operation_canceled;
  }
  // The other one may be on its way yet, on another worker.
  while (destroyed < 2) qthread_yield();
  CHECK(is_told && destroyed == 2);
  puts("ok");
}
