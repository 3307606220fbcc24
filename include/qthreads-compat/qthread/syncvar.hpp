// A syncvar_t as a class.
#ifndef QTHREAD_SYNCVAR_HPP
#define QTHREAD_SYNCVAR_HPP

#include "qthread.h"

/// A value of 60 bits with its full/empty bit. Full when it is made.
class syncvar {
public:
  syncvar() noexcept { the_syncvar_t.u.w = 0; }
  syncvar(const uint64_t &value) noexcept { the_syncvar_t.u.w = value << 4; }
  syncvar(const syncvar &other) noexcept { the_syncvar_t.u.w = other.the_syncvar_t.u.w; }
  syncvar(const syncvar_t &other) noexcept { the_syncvar_t.u.w = other.u.w; }
  syncvar &operator=(const syncvar &other) noexcept {
    the_syncvar_t.u.w = other.the_syncvar_t.u.w;
    return *this;
  }

  int empty() { return qthread_syncvar_empty(&the_syncvar_t); }
  int fill() { return qthread_syncvar_fill(&the_syncvar_t); }
  int status() { return qthread_syncvar_status(&the_syncvar_t); }

  int readFF(uint64_t *const to) { return qthread_syncvar_readFF(to, &the_syncvar_t); }
  uint64_t readFF() {
    uint64_t value = 0;
    readFF(&value);
    return value;
  }
  int readFE(uint64_t *const to) { return qthread_syncvar_readFE(to, &the_syncvar_t); }
  uint64_t readFE() {
    uint64_t value = 0;
    readFE(&value);
    return value;
  }

  int writeF(uint64_t value) { return qthread_syncvar_writeF_const(&the_syncvar_t, value); }
  int writeEF(const uint64_t value) { return qthread_syncvar_writeEF_const(&the_syncvar_t, value); }
  uint64_t incr(int64_t by = 1) { return qthread_syncvar_incrF(&the_syncvar_t, static_cast<uint64_t>(by)); }

  /// Full or empty, with no other thread about.
  uint64_t read() const { return the_syncvar_t.u.s.data; }
  void write(const uint64_t value) { the_syncvar_t.u.s.data = value; }

protected:
  syncvar_t the_syncvar_t;
};

#endif
