//! A lock held for some instructions.
//!
//! The standard lock lets a waiting thread sleep, so its release has to be an exchange. A queue's lock is held so
//! briefly that a waiting thread would not fall asleep before it is free again: here the release is a store, which
//! halves the cost of an uncontended push. A waiting thread spins a little and then yields its core: the holder may
//! need it.

use crate::sync::{AtomicU32, Ordering, yield_now};
use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// In models of code built on it, its waiting threads are loom's: of several spinning ones, loom tries ever more turns
/// without one of the holder.
#[cfg(not(loom))]
pub(crate) type ModelledLock<T> = ShortLock<T>;

#[cfg(loom)]
pub(crate) struct ModelledLock<T>(crate::sync::Mutex<T>);

#[cfg(loom)]
impl<T> ModelledLock<T> {
    pub(crate) fn new(value: T) -> ModelledLock<T> {
        ModelledLock(crate::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> crate::sync::MutexGuard<'_, T> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

/// How often a thread looks at the lock before it yields its core.
const LOOKS: u32 = 64;

/// A lock held for some instructions.
#[repr(C)] // the lock's word beside the first part of its value
pub struct ShortLock<T> {
    held: AtomicU32,
    value: UnsafeCell<T>,
}

#[expect(unsafe_code, reason = "it gives one thread at a time the value")]
// SAFETY: only the holder of the lock has a reference to the value.
unsafe impl<T: Send> Sync for ShortLock<T> {}

impl<T> fmt::Debug for ShortLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShortLock").finish_non_exhaustive()
    }
}

impl<T> ShortLock<T> {
    /// A free lock.
    pub fn new(value: T) -> ShortLock<T> {
        ShortLock { held: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits for it, and holds it until the returned value is dropped.
    #[inline]
    pub fn lock(&self) -> ShortGuard<'_, T> {
        // Acquire: sees the last holder's writes.
        if self.held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait();
        }
        ShortGuard(self)
    }

    /// Whether a thread held it a moment ago.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed) != 0
    }

    #[cold]
    fn wait(&self) {
        let mut looks = 0;
        while self.held.load(Ordering::Relaxed) != 0
            || self.held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            looks += 1;
            if cfg!(loom) || looks % LOOKS == 0 {
                yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// Access to the value, until this is dropped.
pub struct ShortGuard<'a, T>(&'a ShortLock<T>);

impl<T> Deref for ShortGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        #[expect(unsafe_code, reason = "the lock's value")]
        // SAFETY: this thread holds the lock.
        unsafe {
            &*self.0.value.get()
        }
    }
}

impl<T> DerefMut for ShortGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        #[expect(unsafe_code, reason = "the lock's value")]
        // SAFETY: this thread holds the lock, and this is the only way to the value.
        unsafe {
            &mut *self.0.value.get()
        }
    }
}

impl<T> Drop for ShortGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release: the next holder sees this one's writes.
        self.0.held.store(0, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::cell::UnsafeCell as Watched;
    use loom::sync::Arc;

    #[test]
    fn loom_one_thread_at_a_time_has_the_value() {
        loom::model(|| {
            let lock = Arc::new(ShortLock::new(Watched::new(0)));
            let adds = |lock: &ShortLock<Watched<i32>>| {
                // Loom reports it if two threads are here at once, or if one does not see the other's write.
                #[expect(unsafe_code, reason = "loom's watched cell")]
                // SAFETY: the lock is held.
                lock.lock().with_mut(|value| unsafe { *value += 1 });
            };
            let other = {
                let lock = Arc::clone(&lock);
                loom::thread::spawn(move || adds(&lock))
            };
            adds(&lock);
            other.join().unwrap();
            #[expect(unsafe_code, reason = "loom's watched cell")]
            // SAFETY: the lock is held.
            let sum = lock.lock().with(|value| unsafe { *value });
            assert_eq!(sum, 2);
        });
    }
}
