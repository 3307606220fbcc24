// Threads of callables: what one returns or throws reaches the code that joins it. Qthreads has no such header; it is this library's own.
//
//   auto square = vicus::threads::spawn([n] { return checked(n) * n; });
//   try {
//     use(square.join());
//   } catch (const std::range_error &error) { ... }   // as checked(n) has thrown it, on whichever worker
#ifndef QTHREAD_THREAD_HPP
#define QTHREAD_THREAD_HPP

#if __cplusplus < 201703L
#error "qthread/thread.hpp needs C++17"
#endif

#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

#include "qthread.h"

namespace vicus::threads {

/// Forks a thread that calls a copy of the callable, without arguments, and gives its join_handle. A callable that can't be copied is
/// moved. The thread is for a shepherd if that is named, as with qthread_fork_to; else it may go on with another worker after a wait.
///
/// Throws std::invalid_argument if there is no such shepherd, std::bad_alloc without memory for the thread, and std::system_error
/// (operation_not_permitted) before qthread_initialize and after qthread_finalize. A thread that waits even then never ends: join before.
template <class F>
auto spawn(F &&callable, qthread_shepherd_id_t shepherd = NO_SHEPHERD);

namespace parts {

/// What a thread and its handle share. `R` is void or the type of a result.
template <class R>
class shared {
public:
  using value = std::conditional_t<std::is_void_v<R>, std::monostate, R>;

  virtual ~shared() = default;

  /// Called once by the thread, when it has its outcome, and once by a handle that gives up the thread. The second call returns false, and
  /// its caller deletes the object. Once the first one has filled the word, the other side may delete it: a full syncvar is in no table,
  /// and nothing touches it after it was filled.
  bool leave() noexcept { return qthread_syncvar_writeEF_const_nb(&over_, 0) == QTHREAD_SUCCESS; }

  void wait() { qthread_syncvar_readFF(nullptr, &over_); }
  bool is_over() const noexcept { return qthread_syncvar_status(&over_) == 1; }

  R take() {
    if (auto *thrown = std::get_if<2>(&outcome_)) std::rethrow_exception(std::move(*thrown));
    auto *result = std::get_if<1>(&outcome_);
    if (!result) throw std::system_error(std::make_error_code(std::errc::operation_canceled), "vicus: the thread was unwound");
    if constexpr (!std::is_void_v<R>) return std::move(*result);
  }

protected:
  /// Nothing, as long as the thread runs and if something else than an exception of C++ unwinds it; its result; or its exception.
  std::variant<std::monostate, value, std::exception_ptr> outcome_;

private:
  /// Empty until one of both sides leaves.
  mutable syncvar_t over_ = SYNCVAR_STATIC_EMPTY_INITIALIZER;
};

/// A thread with its callable.
template <class F, class R>
class thread final : public shared<R> {
public:
  template <class G>
  explicit thread(G &&callable) : callable_(std::in_place, std::forward<G>(callable)) {}

  /// What is forked.
  static aligned_t run(void *argument) {
    const at_end end{static_cast<thread *>(argument)};
    end.own->call();
    return 0;
  }

private:
  struct at_end {
    thread *own;
    ~at_end() {
      own->callable_.reset();
      if (!own->leave()) delete own;
    }
  };

  void call() {
    try {
      if constexpr (std::is_void_v<R>) {
        (*std::move(callable_))();
        this->outcome_.template emplace<1>();
      } else {
        this->outcome_.template emplace<1>((*std::move(callable_))());
      }
    } catch (...) {
      auto thrown = std::current_exception();
      // Not of C++: the library unwinds the thread.
      if (!thrown) throw;
      this->outcome_.template emplace<2>(std::move(thrown));
    }
  }

  std::optional<F> callable_;
};

inline void check_shepherd(qthread_shepherd_id_t shepherd) {
  if (shepherd != NO_SHEPHERD && shepherd >= qthread_readstate(TOTAL_SHEPHERDS))
    throw std::invalid_argument("vicus: there is no such shepherd");
}

inline void fork(qthread_f function, void *argument, qthread_shepherd_id_t shepherd) {
  switch (qthread_fork_to(function, argument, nullptr, shepherd)) {
    case QTHREAD_SUCCESS: return;
    case QTHREAD_MALLOC_ERROR: throw std::bad_alloc();
    case QTHREAD_NOT_ALLOWED:
      throw std::system_error(std::make_error_code(std::errc::operation_not_permitted), "vicus: qthread_initialize was not called");
    default: throw std::invalid_argument("vicus: qthread_fork_to refuses its arguments");
  }
}

}  // namespace parts

/// The owner of a thread's result. A handle that is destroyed, or gets another thread, lets its thread run on: what that returns or throws
/// is then destroyed when it ends, by the thread. One handle is used by one thread at a time, as any object.
template <class R>
class join_handle {
public:
  /// Of no thread.
  join_handle() noexcept = default;
  join_handle(join_handle &&other) noexcept : shared_(std::exchange(other.shared_, nullptr)) {}
  join_handle &operator=(join_handle &&other) noexcept {
    if (this != &other) {
      detach();
      shared_ = std::exchange(other.shared_, nullptr);
    }
    return *this;
  }
  ~join_handle() { detach(); }

  /// Waits until the thread is over, and returns what its callable has returned, or throws what that has thrown, the same object. A thread
  /// that calls this is suspended meanwhile, and its worker runs others; a thread of the system that is no worker blocks. The callable was
  /// destroyed before. What the result's move constructor throws leaves this function, too, and the result is lost. Throws std::logic_error if the handle has no thread, as after a join, and std::system_error (operation_canceled) if
  /// the library has unwound the thread.
  R join() {
    if (!shared_) throw std::logic_error("vicus: the handle has no thread: it was joined, detached or moved from");
    // The handle keeps the thread until it is over, as this wait may be unwound, too.
    shared_->wait();
    const std::unique_ptr<parts::shared<R>> own(std::exchange(shared_, nullptr));
    return own->take();
  }

  /// Whether it has a thread, over or not.
  bool joinable() const noexcept { return shared_ != nullptr; }

  /// Whether a join would not wait. False without a thread.
  bool is_finished() const noexcept { return shared_ && shared_->is_over(); }

  /// Lets the thread run on, as the end of the handle does.
  void detach() noexcept {
    if (auto *own = std::exchange(shared_, nullptr); own && !own->leave()) delete own;
  }

private:
  explicit join_handle(parts::shared<R> *shared) noexcept : shared_(shared) {}

  template <class F>
  friend auto spawn(F &&callable, qthread_shepherd_id_t shepherd);

  parts::shared<R> *shared_ = nullptr;
};

template <class F>
auto spawn(F &&callable, qthread_shepherd_id_t shepherd) {
  using kept = std::decay_t<F>;
  static_assert(std::is_invocable_v<kept>, "a thread calls its callable once, as an rvalue and without arguments");
  using returned = std::invoke_result_t<kept>;
  static_assert(!std::is_reference_v<returned>, "a result is a value: return a pointer or std::reference_wrapper for a reference");
  using result = std::remove_cv_t<returned>;
  static_assert(std::is_void_v<result> || std::is_move_constructible_v<result>, "a result is moved to the code that joins");
  parts::check_shepherd(shepherd);
  auto made = std::make_unique<parts::thread<kept, result>>(std::forward<F>(callable));
  parts::fork(parts::thread<kept, result>::run, made.get(), shepherd);
  return join_handle<result>(made.release());
}

}  // namespace vicus::threads

#endif
