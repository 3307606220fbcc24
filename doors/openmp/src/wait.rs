//! How threads wait for each other outside of tasks: they spin a little, yield, and sleep on a word.

use crate::lock::FREE;
pub(crate) use crate::lock::Lock;
use std::cell::UnsafeCell;
use std::sync::atomic::AtomicU32;

/// Keeps `errno` as it was while something else is done, since no function of OpenMP changes it.
pub(crate) struct KeepErrno(i32);

impl KeepErrno {
    pub(crate) fn new() -> KeepErrno {
        // SAFETY: rule "System": the address of the calling thread's own `errno`.
        KeepErrno(unsafe { *libc::__errno_location() })
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        // SAFETY: rule "System": the address of the calling thread's own `errno`.
        unsafe { *libc::__errno_location() = self.0 }
    }
}

/// A wait without a waker: longer each time.
pub(crate) struct Backoff {
    rounds: u32,
}

impl Backoff {
    pub(crate) fn new() -> Backoff {
        Backoff { rounds: 0 }
    }

    pub(crate) fn pause(&mut self) {
        self.rounds += 1;
        match self.rounds {
            0..100 => std::hint::spin_loop(),
            100..200 => {
                let _errno = KeepErrno::new();
                // SAFETY: rule "System": no argument.
                unsafe { libc::sched_yield() };
            }
            _ => {
                let _errno = KeepErrno::new();
                let nap = libc::timespec { tv_sec: 0, tv_nsec: 20_000.min(i64::from(self.rounds) * 50) };
                // SAFETY: rule "System": the time is a value of this function.
                unsafe { libc::nanosleep(&nap, std::ptr::null_mut()) };
            }
        }
    }
}

/// Waits for a condition without a waker.
pub(crate) fn wait_until(mut is_done: impl FnMut() -> bool) {
    let mut backoff = Backoff::new();
    while !is_done() {
        backoff.pause();
    }
}

impl Lock {
    pub(crate) const fn new() -> Lock {
        Lock(AtomicU32::new(FREE))
    }

    /// Calls `f` while no other thread holds the lock.
    pub(crate) fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Unlock<'a>(&'a Lock);
        impl Drop for Unlock<'_> {
            fn drop(&mut self) {
                self.0.unlock();
            }
        }
        self.lock();
        let _unlock = Unlock(self);
        f()
    }
}

/// A value used under a lock: not a mutex of the standard library, because a forked child begins with a free lock.
pub(crate) struct Guarded<T> {
    pub(crate) lock: Lock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is used under the lock, by one thread at a time.
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    pub(crate) const fn new(value: T) -> Guarded<T> {
        Guarded { lock: Lock::new(), value: UnsafeCell::new(value) }
    }

    /// Calls `f` with the value while no other thread uses it. It must not come here again.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the lock is held here, so no other thread has a reference to the value.
        self.lock.with(|| f(unsafe { &mut *self.value.get() }))
    }
}

impl<T: Default> Guarded<T> {
    /// Resets the lock in a forked child: another thread may have held it, so the value is left as it is, and a new one
    /// takes its place.
    pub(crate) fn begin_anew(&self) {
        self.lock.init();
        std::mem::forget(self.with(std::mem::take));
    }
}
