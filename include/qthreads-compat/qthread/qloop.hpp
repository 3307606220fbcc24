// Parallel loops over objects that are called with parts of a range.
#ifndef QLOOP_HPP
#define QLOOP_HPP

#include "qloop.h"

/// Calls the object behind `arg`.
template <typename T> void qloop_cpp_wrapper(size_t startat, size_t stopat, void *arg) { (*static_cast<T *>(arg))(startat, stopat); }

template <typename T> void qt_loop(size_t start, size_t stop, const T &object) {
  qt_loop(start, stop, qloop_cpp_wrapper<T>, const_cast<T *>(&object));
}

template <typename T> void qt_loop_balance(size_t start, size_t stop, const T &object) {
  qt_loop_balance(start, stop, qloop_cpp_wrapper<T>, const_cast<T *>(&object));
}

template <typename T> void qt_loop_balance_simple(size_t start, size_t stop, const T &object) {
  qt_loop_balance_simple(start, stop, qloop_cpp_wrapper<T>, const_cast<T *>(&object));
}

/// Keeps what the object behind `arg` returns.
template <typename T> void qloop_accum_cpp_wrapper(size_t startat, size_t stopat, void *arg, void *result) {
  *static_cast<typename T::acctype *>(result) = (*static_cast<T *>(arg))(startat, stopat);
}

/// Puts the results together by `T::accumulate`, beginning with `T::identity`.
template <typename T> typename T::acctype qt_loopaccum_balance(size_t start, size_t stop, const T &object) {
  typename T::acctype sum(T::identity);
  qt_loopaccum_balance(start, stop, sizeof sum, &sum, qloop_accum_cpp_wrapper<T>, const_cast<T *>(&object),
                       reinterpret_cast<qt_accum_f>(T::accumulate));
  return sum;
}

#endif
