// What a thread returns or throws reaches the code that joins it; what it catches itself is its own business.
#include "check.h"
#include <cstring>
#include <functional>
#include <malloc.h>
#include <memory>
#include <new>
#include <qthread/thread.hpp>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

using vicus::threads::join_handle;
using vicus::threads::spawn;

// Freed memory is kept for some time, and nothing writes there: a thread that has filled its word is done with it.
namespace graves {
constexpr unsigned char MARK = 0xd5;
constexpr size_t COUNT = 512;
static aligned_t next;
static void *kept[COUNT];

static void bury(void *block) {
  if (!block) return;
  memset(block, MARK, malloc_usable_size(block));
  const size_t index = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % COUNT;
  void *old = __atomic_exchange_n(&kept[index], block, __ATOMIC_ACQ_REL);
  if (!old) return;
  const auto *bytes = static_cast<const unsigned char *>(old);
  for (size_t at = 0; at < malloc_usable_size(old); ++at) {
    if (bytes[at] != MARK) {
      puts("freed memory was written");
      abort();
    }
  }
  free(old);
}
}  // namespace graves

void *operator new(size_t bytes) {
  void *block = malloc(bytes);
  if (!block) throw std::bad_alloc();
  return block;
}
void operator delete(void *block) noexcept { graves::bury(block); }
void operator delete(void *block, size_t) noexcept { graves::bury(block); }

// How many there are: as results, as exceptions and in callables; and how many were made, copies apart.
struct Counted : std::runtime_error {
  static aligned_t alive, made;
  explicit Counted(int number) : std::runtime_error("counted " + std::to_string(number)), number(number) {
    __atomic_fetch_add(&alive, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&made, 1, __ATOMIC_RELEASE);
  }
  Counted(const Counted &other) : std::runtime_error(other), number(other.number) { __atomic_fetch_add(&alive, 1, __ATOMIC_RELAXED); }
  ~Counted() override { __atomic_fetch_sub(&alive, 1, __ATOMIC_RELEASE); }
  static bool none() { return __atomic_load_n(&alive, __ATOMIC_ACQUIRE) == 0; }
  int number;
};
aligned_t Counted::alive = 0, Counted::made = 0;

template <class Condition>
static void wait_until(Condition condition) {
  while (!condition()) qthread_yield();
}

static int throws(int depth, const std::string &what) {
  if (depth == 0) throw std::runtime_error(what);
  return throws(depth - 1, what) + 1;
}

template <class E, class R>
static std::string message_of(join_handle<R> handle) {
  try {
    handle.join();
  } catch (const E &error) {
    CHECK(!handle.joinable());
    return error.what();
  }
  return "";
}

static long seven() { return 7; }

static void results() {
  CHECK(spawn([] { return 42; }).join() == 42);
  CHECK(spawn(seven).join() == 7 && spawn(&seven).join() == 7);
  int ran = 0;
  spawn([&] { ran = 1; }).join();
  CHECK(ran == 1);
  CHECK(spawn([]() -> const std::string { return std::string(100, 'x'); }).join().size() == 100);
  CHECK(spawn([&]() -> std::reference_wrapper<int> { return ran; }).join().get() == 1);
  // Only moved, and without a default.
  std::unique_ptr<int> given = std::make_unique<int>(5);
  auto doubles = [given = std::move(given)]() mutable {
    qthread_yield();
    *given *= 2;
    return std::move(given);
  };
  CHECK(*spawn(std::move(doubles)).join() == 10);
  struct Once {
    std::unique_ptr<int> number;
    int operator()() && { return *number; }
  };
  CHECK(spawn(Once{std::make_unique<int>(6)}).join() == 6);
  struct Bare {
    explicit Bare(int number) : number(number) {}
    int number;
  };
  CHECK(spawn([] { return Bare(3); }).join().number == 3);
  // An exception may also be a result.
  auto thrown = spawn([] { return std::make_exception_ptr(8); }).join();
  CHECK(thrown != nullptr);
  // Handles move.
  join_handle<int> none, first = spawn([] { return 1; }), second = std::move(first);
  CHECK(!none.joinable() && !none.is_finished() && !first.joinable() && second.joinable());
  none = std::move(second);
  wait_until([&] { return none.is_finished(); });
  CHECK(none.joinable() && none.join() == 1 && !none.joinable());
  // All captures are destroyed when the thread is over.
  auto captures = spawn([counted = Counted(1)] { qthread_yield(); });
  wait_until([&] { return captures.is_finished(); });
  CHECK(Counted::none());
  captures.join();
}

static void exceptions() {
  CHECK(message_of<std::runtime_error>(spawn([] { return throws(20, "far down"); })) == "far down");
  CHECK(message_of<Counted>(spawn([] { throw Counted(3); })) == "counted 3" && Counted::none());
  CHECK(message_of<std::out_of_range>(spawn([] { return std::vector<int>().at(1); })) != "");
  bool is_caught = false;
  try {
    spawn([] { throw 12; }).join();
  } catch (int number) {
    is_caught = number == 12;
  }
  CHECK(is_caught);
  // The same object, after waits, and also if it was thrown again.
  const void *own = nullptr;
  auto again = spawn([&own] {
    try {
      qthread_yield();
      throw Counted(4);
    } catch (const Counted &counted) {
      own = &counted;
      qthread_yield();
      throw;
    }
  });
  try {
    again.join();
    CHECK(false);
  } catch (const Counted &counted) {
    CHECK(&counted == own && std::uncaught_exceptions() == 0);
  }
  CHECK(Counted::none() && !std::current_exception());
  // A result that can't be moved to its place.
  struct Heavy {
    Heavy() = default;
    Heavy(Heavy &&) { throw std::length_error("too heavy"); }
  };
  CHECK(message_of<std::length_error>(spawn([] {
          Heavy heavy;
          return heavy;
        })) == "too heavy");
}

static void on_other_workers() {
  const auto shepherds = qthread_num_shepherds();
  for (qthread_shepherd_id_t shepherd = 0; shepherd < shepherds; ++shepherd) {
    auto where = spawn(
        [] {
          qthread_yield();
          return qthread_shep();
        },
        shepherd);
    CHECK(where.join() == shepherd);
    // It begins at one shepherd, catches at the next one, and throws there.
    auto goes = spawn(
        [next = static_cast<qthread_shepherd_id_t>((shepherd + 1) % shepherds)] {
          try {
            throws(3, "from afar");
          } catch (...) {
            qthread_migrate_to(next);
            CHECK(qthread_shep() == next);
            throw;
          }
        },
        shepherd);
    CHECK(message_of<std::runtime_error>(std::move(goes)) == "from afar");
  }
  // Those that name no shepherd throw where they were woken.
  static aligned_t word;
  qthread_empty(&word);
  std::vector<join_handle<void>> waiting;
  for (int number = 0; number < 20; ++number) {
    waiting.push_back(spawn([number] {
      qthread_readFF(nullptr, &word);
      throws(number, std::to_string(number));
    }));
  }
  spawn([] {
    qthread_yield();
    qthread_fill(&word);
  }).join();
  for (int number = 0; number < 20; ++number) CHECK(message_of<std::runtime_error>(std::move(waiting[number])) == std::to_string(number));
}

// Each level adds its number to what the one below has thrown.
static std::string nested(int level) {
  if (level == 0) throw std::runtime_error("0");
  auto below = spawn([level] { return nested(level - 1); });
  try {
    return below.join();
  } catch (const std::runtime_error &error) {
    const std::string said = error.what();
    qthread_yield();
    throw std::runtime_error(std::to_string(level) + said);
  }
}

static int fib(int n) {
  if (n < 2) return n;
  auto one = spawn([n] { return fib(n - 1); });
  const int other = fib(n - 2);
  return one.join() + other;
}

// No worker waits with a thread that joins: these can't be served in any other way, with one worker.
static void chain() {
  static aligned_t word;
  qthread_empty(&word);
  join_handle<int> last = spawn([] {
    qthread_readFF(nullptr, &word);
    return 0;
  });
  for (int length = 1; length <= 200; ++length) last = spawn([before = std::move(last)]() mutable { return before.join() + 1; });
  for (int round = 0; round < 5; ++round) qthread_yield();
  CHECK(!last.is_finished());
  qthread_fill(&word);
  CHECK(last.join() == 200);
}

// While its thread is unwound it joins one that throws, too; how many are under way is each thread's own number.
struct JoinsInside {
  int before = std::uncaught_exceptions();
  ~JoinsInside() {
    CHECK(before == 0 && std::uncaught_exceptions() == 1);
    auto inner = spawn([] {
      CHECK(std::uncaught_exceptions() == 0 && !std::current_exception());
      throws(2, "inner");
    });
    qthread_yield();
    CHECK(std::uncaught_exceptions() == 1);
    CHECK(message_of<std::runtime_error>(std::move(inner)) == "inner" && std::uncaught_exceptions() == 1);
  }
};

static void catches(int number) {
  const std::string own = "of thread " + std::to_string(number);
  CHECK(std::uncaught_exceptions() == 0 && !std::current_exception());
  try {
    JoinsInside inside;
    throws(number % 5, own);
  } catch (const std::runtime_error &error) {
    const auto current = std::current_exception();
    for (int round = 0; round < 3; ++round) {
      qthread_yield();
      CHECK(error.what() == own && std::current_exception() == current && std::uncaught_exceptions() == 0);
    }
    CHECK(spawn([] { return std::current_exception() == nullptr; }).join());
    CHECK(std::current_exception() == current);
  }
  CHECK(!std::current_exception());
  qthread_yield();
  if (number % 2) throws(1, own);
}

static void each_has_its_own() {
  const auto all = [] {
    std::vector<join_handle<void>> handles;
    for (int number = 0; number < 30; ++number) handles.push_back(spawn([number] { catches(number); }));
    for (int number = 0; number < 30; ++number)
      CHECK(message_of<std::runtime_error>(std::move(handles[number])) == (number % 2 ? "of thread " + std::to_string(number) : ""));
  };
  all();
  spawn(all).join();
  // The main thread runs threads on its own stack while it has caught something.
  try {
    throws(2, "of main");
  } catch (const std::runtime_error &error) {
    const auto current = std::current_exception();
    all();
    CHECK(error.what() == std::string("of main") && std::current_exception() == current);
  }
  JoinsInside *inside = nullptr;
  try {
    JoinsInside own;
    inside = &own;
    throws(1, "once more");
  } catch (const std::runtime_error &) {
    CHECK(inside && std::uncaught_exceptions() == 0);
  }
}

static void many() {
  std::vector<join_handle<int>> handles;
  for (int number = 0; number < 2000; ++number) {
    handles.push_back(spawn([number] {
      if (number % 7 == 0) qthread_yield();
      if (number % 3 == 0) throw Counted(number);
      return number;
    }));
  }
  // Half of them are joined elsewhere.
  auto other = spawn([half = std::vector<join_handle<int>>(std::make_move_iterator(handles.begin() + 1000),
                                                           std::make_move_iterator(handles.end()))]() mutable {
    int caught = 0;
    for (auto &handle : half) {
      try {
        handle.join();
      } catch (const Counted &counted) {
        caught += counted.number;
      }
    }
    return caught;
  });
  int returned = 0, caught = 0, thrown = 0;
  for (int number = 0; number < 1000; ++number) {
    try {
      returned += handles[number].join();
    } catch (const Counted &counted) {
      caught += counted.number;
    }
  }
  for (int number = 0; number < 2000; number += 3) thrown += number;
  caught += other.join();
  CHECK(caught == thrown && returned < 1000 * 999 / 2 && Counted::none());
}

static void dropped() {
  static aligned_t gate;
  const aligned_t before = __atomic_load_n(&Counted::made, __ATOMIC_ACQUIRE);
  const auto were_made = [&](aligned_t count) { return __atomic_load_n(&Counted::made, __ATOMIC_ACQUIRE) == before + count; };
  qthread_empty(&gate);
  const auto throws_later = [] {
    qthread_readFF(nullptr, &gate);
    throw Counted(1);
  };
  const auto returns_later = [] {
    qthread_readFF(nullptr, &gate);
    return Counted(2);
  };
  // Before they end.
  for (int round = 0; round < 50; ++round) {
    spawn(throws_later);
    spawn(returns_later).detach();
    auto replaced = spawn(throws_later);
    replaced = spawn(throws_later);
    CHECK(replaced.joinable());
  }
  qthread_fill(&gate);
  wait_until([&] { return were_made(200) && Counted::none(); });
  // After that, and just then.
  auto thrown = spawn(throws_later);
  auto returned = spawn(returns_later);
  wait_until([&] { return thrown.is_finished() && returned.is_finished(); });
  CHECK(!Counted::none());
  thrown.detach();
  returned = {};
  CHECK(Counted::none());
  for (int round = 0; round < 500; ++round) {
    auto handle = spawn(round % 2 ? +[] { throw Counted(3); } : +[] {});
    if (round % 5 == 0) qthread_yield();
  }
  wait_until([&] { return were_made(452) && Counted::none(); });
}

static void joined_twice() {
  auto handle = spawn([] { return 1; });
  CHECK(handle.join() == 1);
  CHECK(message_of<std::logic_error>(std::move(handle)) != "" && message_of<std::logic_error>(join_handle<void>()) != "");
  auto let_go = spawn(seven);
  let_go.detach();
  let_go.detach();
  CHECK(message_of<std::logic_error>(std::move(let_go)) != "");
}

static void from_outside() {
  auto inside = spawn([] { throws(1, "to a thread of the system"); });
  std::string said;
  aligned_t is_over = 0;
  std::thread outside([&] {
    said = message_of<std::runtime_error>(std::move(inside));
    said += message_of<Counted>(spawn([] { throw Counted(9); }));
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
  });
  // The main thread may be the only worker.
  wait_until([&] { return __atomic_load_n(&is_over, __ATOMIC_ACQUIRE) == 1; });
  outside.join();
  CHECK(said == "to a thread of the systemcounted 9");
}

template <class E>
static std::string refused(qthread_shepherd_id_t shepherd) {
  try {
    spawn([counted = Counted(1)] { CHECK(false); }, shepherd);
  } catch (const E &error) {
    return error.what();
  }
  return "";
}

int main() {
  CHECK(refused<std::system_error>(NO_SHEPHERD).find("qthread_initialize") != std::string::npos);
  CHECK(qthread_initialize() == 0);
  results();
  exceptions();
  on_other_workers();
  CHECK(message_of<std::runtime_error>(spawn([] { return nested(9); })) == "9876543210");
  CHECK(fib(12) == 144 && spawn([] { return fib(12); }).join() == 144);
  chain();
  each_has_its_own();
  many();
  dropped();
  joined_twice();
  from_outside();
  CHECK(refused<std::invalid_argument>(static_cast<qthread_shepherd_id_t>(qthread_num_shepherds())) != "");
  CHECK(refused<std::invalid_argument>(NO_SHEPHERD - 1) != "" && Counted::none());
  qthread_finalize();
  CHECK(refused<std::system_error>(0).find("qthread_initialize") != std::string::npos && Counted::none());
  puts("ok");
}
