//! Callers' waits for each other, in the order of their arrival.

use crate::sync::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::PoisonError;

/// How a caller waits until another one has done something. Below the worlds nothing blocks a thread, so they say how.
///
/// An implementation has some mutexes with a condition variable each, and chooses one by the key. `wait` calls `ready`
/// with the mutex locked, and goes on waiting while it says no; `wake` locks the mutex and wakes all waiters there.
pub trait Waiting: fmt::Debug + Send + Sync {
    /// Returns when `ready` has said so. It is asked at once, and again after each [`Waiting::wake`] with this key.
    fn wait(&self, key: u64, ready: &mut dyn FnMut() -> bool);

    /// Like [`Waiting::wait`], but returns in any case after about this number of nanoseconds.
    fn wait_at_most(&self, key: u64, ns: u64, ready: &mut dyn FnMut() -> bool);

    /// The event awaited by callers with this key may have happened.
    fn wake(&self, key: u64);

    /// Nanoseconds since any fixed moment; they never go back.
    fn now_ns(&self) -> u64;
}

/// For a program with one thread: a caller that would have to wait panics, since nothing could end its waiting.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWaiting;

impl Waiting for NoWaiting {
    fn wait(&self, _: u64, ready: &mut dyn FnMut() -> bool) {
        assert!(ready(), "a program with one thread would wait for itself");
    }

    // Its clock stands still, so the time would never be over.
    fn wait_at_most(&self, key: u64, _: u64, ready: &mut dyn FnMut() -> bool) {
        self.wait(key, ready);
    }

    fn wake(&self, _: u64) {}

    fn now_ns(&self) -> u64 {
        0
    }
}

/// How often a caller waiting for its turn is asked whether it still waits.
pub(crate) const BETWEEN_QUESTIONS_NS: u64 = 20_000_000;

/// A thing for one caller at a time, in the order of their coming.
///
/// ```
/// use vicus_store::{NoWaiting, TicketLock};
///
/// let lock = TicketLock::default();
/// let first = lock.wait(&NoWaiting);
/// drop(first);
/// assert!(lock.wait_asking(&NoWaiting, &|| Ok::<(), ()>(())).is_ok());
/// ```
#[derive(Debug, Default)]
pub struct TicketLock(Mutex<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    next: u64,
    current: u64,
    /// The waiting numbers whose callers have gone. Invariant: `current` is none of them.
    gone: BTreeSet<u64>,
}

impl Numbers {
    /// The next caller's turn begins; whether there is one.
    fn advance(&mut self) -> bool {
        self.current += 1;
        while self.gone.remove(&self.current) {
            self.current += 1;
        }
        self.current < self.next
    }
}

/// A caller's turn; it ends when this value is dropped.
#[derive(Debug)]
pub struct TicketGuard<'a> {
    turns: &'a TicketLock,
    waiting: &'a dyn Waiting,
}

impl TicketLock {
    fn lock(&self) -> MutexGuard<'_, Numbers> {
        lock(&self.0)
    }

    /// The number of a new caller.
    fn number(&self) -> u64 {
        let mut numbers = self.lock();
        numbers.next += 1;
        numbers.next - 1
    }

    /// Waits for the caller's turn.
    pub fn wait<'a>(&'a self, waiting: &'a dyn Waiting) -> TicketGuard<'a> {
        let mine = self.number();
        waiting.wait(mine, &mut || self.lock().current == mine);
        TicketGuard { turns: self, waiting }
    }

    /// Waits for the caller's turn, and asks now and then whether to go on waiting.
    ///
    /// # Errors
    /// The answer's, if it has one.
    pub fn wait_asking<'a, E>(
        &'a self,
        waiting: &'a dyn Waiting,
        ask: &dyn Fn() -> Result<(), E>,
    ) -> Result<TicketGuard<'a>, E> {
        let mine = self.number();
        while self.lock().current != mine {
            if let Err(error) = ask() {
                let next = {
                    let mut numbers = self.lock();
                    if numbers.current != mine {
                        numbers.gone.insert(mine);
                        return Err(error);
                    }
                    // It has come meanwhile.
                    numbers.advance().then_some(numbers.current)
                };
                next.into_iter().for_each(|next| waiting.wake(next));
                return Err(error);
            }
            waiting.wait_at_most(mine, BETWEEN_QUESTIONS_NS, &mut || self.lock().current == mine);
        }
        Ok(TicketGuard { turns: self, waiting })
    }

    /// The turn, if no caller has it or waits for it.
    pub(crate) fn try_now<'a>(&'a self, waiting: &'a dyn Waiting) -> Option<TicketGuard<'a>> {
        let mut numbers = self.lock();
        (numbers.next == numbers.current).then(|| {
            numbers.next += 1;
            TicketGuard { turns: self, waiting }
        })
    }
}

impl Drop for TicketGuard<'_> {
    fn drop(&mut self) {
        let (next, is_awaited) = {
            let mut numbers = self.turns.lock();
            let is_awaited = numbers.advance();
            (numbers.current, is_awaited)
        };
        if is_awaited {
            self.waiting.wake(next);
        }
    }
}

/// A panic of another caller leaves the locked data as valid as before: it is only changed in single steps.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
