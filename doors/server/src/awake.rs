//! Threads that stay awake for a moment after an answer, because the next request mostly follows at once.
//!
//! A thread that sleeps in the kernel is woken by an interrupt to its PU, which mostly sleeps as well by then: the
//! wake-up takes longer than a short answer does. So one thread of the network and one job's thread look for new work,
//! again and again, for some microseconds after their last. In between they yield their PU to any thread that could run
//! there, and as soon as a seat of the runtime is awake they sleep as usual: the kernel prefers a thread that wakes up
//! from a sleep to a query with a long turn, but not a thread that yields.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

pub(crate) struct Awake {
    moment: Duration,
    /// Whether no other thread of this process has better use for a PU.
    is_idle: Box<dyn Fn() -> bool + Send + Sync>,
    start: Instant,
    /// The end of the network thread's time awake, in nanoseconds since the start.
    until: AtomicU64,
    /// Whether one does.
    is_awake: AtomicBool,
    begins: Notify,
}

impl Awake {
    /// Threads stay awake for `moment`; 0: not at all.
    pub(crate) fn new(moment: Duration, is_idle: impl Fn() -> bool + Send + Sync + 'static) -> Awake {
        Awake {
            moment,
            is_idle: Box::new(is_idle),
            start: Instant::now(),
            until: AtomicU64::new(0),
            is_awake: AtomicBool::new(false),
            begins: Notify::new(),
        }
    }

    fn nanos(time: Duration) -> u64 {
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }

    /// An answer is about to leave: a thread of the network stays awake.
    pub(crate) fn answers(&self) {
        if self.moment.is_zero() {
            return;
        }
        // A thread about to sleep may miss this: the next request wakes it, like any late one.
        self.until.store(Self::nanos(self.start.elapsed().saturating_add(self.moment)), Ordering::Relaxed);
        if !self.is_awake.load(Ordering::Relaxed) {
            self.begins.notify_one();
        }
    }

    /// A task of the network that keeps its thread awake, whenever there are answers. It never ends.
    pub(crate) async fn keep(&self) {
        loop {
            self.begins.notified().await;
            self.is_awake.store(true, Ordering::Relaxed);
            while Self::nanos(self.start.elapsed()) < self.until.load(Ordering::Relaxed) && (self.is_idle)() {
                std::thread::yield_now();
                tokio::task::yield_now().await;
            }
            self.is_awake.store(false, Ordering::Relaxed);
        }
    }

    /// Stays awake on this thread for a moment, until something has come.
    pub(crate) fn stay(&self, has_come: impl Fn() -> bool) {
        let start = Instant::now();
        while !has_come() && start.elapsed() < self.moment && (self.is_idle)() {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_thread_is_awake_for_a_moment_while_nothing_else_works() {
        let idle = Arc::new(AtomicBool::new(true));
        let seen = Arc::clone(&idle);
        let awake = Awake::new(Duration::from_millis(20), move || seen.load(Ordering::Relaxed));
        let start = Instant::now();
        awake.stay(|| false);
        assert!(start.elapsed() >= Duration::from_millis(20));
        awake.stay(|| true);
        idle.store(false, Ordering::Relaxed);
        // Hangs for the age of the universe if it does not look.
        Awake { moment: Duration::MAX, ..awake }.stay(|| false);
    }

    /// The task ends its moment, and begins again at the next answer.
    #[test]
    fn each_answer_is_a_moments_begin() {
        let awake = Arc::new(Awake::new(Duration::MAX, || true));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let keeps = Arc::clone(&awake);
        runtime.block_on(async {
            let task = tokio::spawn(async move { keeps.keep().await });
            for _ in 0..3 {
                awake.answers();
                while !awake.is_awake.load(Ordering::Relaxed) {
                    tokio::task::yield_now().await;
                }
                // Its moment is over.
                awake.until.store(0, Ordering::Relaxed);
                while awake.is_awake.load(Ordering::Relaxed) {
                    tokio::task::yield_now().await;
                }
            }
            task.abort();
        });
        let never = Awake::new(Duration::ZERO, || true);
        never.answers();
        assert_eq!(never.until.load(Ordering::Relaxed), 0);
    }
}
