//! Threads for the jobs that parse, plan and begin requests, so that the network's threads never do.
//!
//! There are as many as the runtime has: a short request runs on its job's thread, beside the work of the seats, so it
//! stays short beside long ones; a long one goes to the seats, in the strategy's order of requests. The number of
//! waiting jobs is bounded.

use crate::awake::Awake;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

pub(crate) struct Jobs {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// The number of jobs so far. A thread that stays awake reads it without the lock.
    came: AtomicU64,
    awake: Arc<Awake>,
    /// The most waiting jobs.
    most: usize,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Box<dyn FnOnce() + Send>>,
    /// Sleeping threads: with none, a wake is no call of the system.
    sleeping: usize,
    /// Whether one of the others stays awake for a moment: it takes the next job, and need not be woken.
    is_one_awake: bool,
    /// Threads with a job.
    busy: usize,
    is_closed: bool,
}

/// The limit of waiting jobs is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

/// A stack deep enough for parsing and planning until they ask for more themselves.
const STACK_BYTES: usize = 4 << 20;

/// After so long without a job, a thread gives back the memory of its heap that is not in use.
const IDLE: Duration = Duration::from_secs(5);

impl Jobs {
    /// `threads` threads, with at most `most` waiting jobs.
    pub(crate) fn new(threads: usize, most: usize, awake: Arc<Awake>) -> io::Result<Jobs> {
        let (state, changed, came) = (Mutex::default(), Condvar::new(), AtomicU64::new(0));
        let shared = Arc::new(Shared { state, changed, came, awake, most });
        let mut jobs = Jobs { shared, threads: Vec::with_capacity(threads) };
        for number in 0..threads {
            let shared = Arc::clone(&jobs.shared);
            let builder = std::thread::Builder::new().name(format!("vicus job {number}")).stack_size(STACK_BYTES);
            jobs.threads.push(builder.spawn(move || shared.work())?);
        }
        Ok(jobs)
    }

    /// Calls a function on a thread. Its result comes through the channel, or nothing if it panicked.
    pub(crate) fn run<R: Send + 'static>(
        &self,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> Result<oneshot::Receiver<R>, Full> {
        let (send, receive) = oneshot::channel();
        let mut state = self.shared.lock();
        // A job for a free thread does not wait.
        let free = self.threads.len() - state.busy;
        if state.waiting.len() >= self.shared.most + free || state.is_closed {
            return Err(Full);
        }
        state.waiting.push_back(Box::new(move || {
            // The client may have gone.
            let _ = send.send(job());
        }));
        self.shared.came.fetch_add(1, Ordering::Relaxed);
        let taken = usize::from(state.is_one_awake);
        let wakes = state.sleeping > 0 && state.waiting.len() > taken;
        drop(state);
        if wakes {
            self.shared.changed.notify_one();
        }
        Ok(receive)
    }

    /// How many jobs wait.
    pub(crate) fn waiting(&self) -> usize {
        let state = self.shared.lock();
        state.waiting.len().saturating_sub(self.threads.len() - state.busy)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        let (mut has_worked, mut has_blocks) = (false, false);
        loop {
            if let Some(job) = state.waiting.pop_front() {
                state.busy += 1;
                drop(state);
                // Its panic is the request's error; the thread goes on.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                state = self.lock();
                state.busy -= 1;
                has_worked = true;
                has_blocks = true;
            } else if state.is_closed {
                return;
            } else if has_worked && !state.is_one_awake {
                has_worked = false;
                state.is_one_awake = true;
                let before = self.came.load(Ordering::Relaxed);
                drop(state);
                self.awake.stay(|| self.came.load(Ordering::Relaxed) != before);
                state = self.lock();
                state.is_one_awake = false;
            } else if has_blocks {
                state.sleeping += 1;
                let (again, late) = self.changed.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
                state = again;
                state.sleeping -= 1;
                if late.timed_out() && state.waiting.is_empty() {
                    has_blocks = false;
                    drop(state);
                    vicus::kit::give_back_own_blocks();
                    state = self.lock();
                }
            } else {
                state.sleeping += 1;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.sleeping -= 1;
            }
        }
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
        self.threads.drain(..).for_each(|thread| {
            // Jobs' panics are caught.
            let _ = thread.join();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Threads that sleep at once, and some that stay awake for longer than a test's jobs take.
    fn jobs(threads: usize, most: usize) -> [Jobs; 2] {
        [0, 100].map(|moment| {
            Jobs::new(threads, most, Arc::new(Awake::new(Duration::from_millis(moment), || true))).unwrap()
        })
    }

    #[test]
    fn what_would_wait_beyond_the_bound_is_refused() {
        for jobs in jobs(1, 2) {
            let (open, gate) = mpsc::channel::<()>();
            let (begins, begun) = mpsc::channel();
            let first = jobs.run(move || {
                begins.send(()).unwrap();
                gate.recv().is_ok()
            });
            begun.recv().unwrap();
            let others: Vec<_> = (0..4).map(|number| jobs.run(move || number)).collect();
            assert_eq!(others.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false, false]);
            open.send(()).unwrap();
            assert!(first.unwrap().blocking_recv().unwrap());
            let done: Vec<u32> = others.into_iter().flatten().map(|receive| receive.blocking_recv().unwrap()).collect();
            assert_eq!(done, [0, 1]);
        }
    }

    /// What happened: with a limit of no waiting jobs, all were refused, also while all threads slept.
    #[test]
    fn what_need_not_wait_is_taken() {
        for jobs in jobs(2, 0) {
            for number in 0..100 {
                // The thread of the one before may still be on its way back.
                let tries = (0..10_000).find_map(|_| {
                    std::thread::sleep(std::time::Duration::from_micros(100));
                    jobs.run(move || number).ok()
                });
                assert_eq!(tries.map(|receive| receive.blocking_recv()), Some(Ok(number)));
            }
        }
    }

    #[test]
    fn a_panic_is_one_jobs_end() {
        for jobs in jobs(1, 2) {
            let hook = std::panic::take_hook();
            std::panic::set_hook(Box::new(|_| {}));
            assert!(
                jobs.run(|| panic!("a job"))
                    .map(|receive: oneshot::Receiver<()>| receive.blocking_recv())
                    .unwrap()
                    .is_err()
            );
            std::panic::set_hook(hook);
            assert_eq!(jobs.run(|| 7).unwrap().blocking_recv(), Ok(7));
        }
    }
}
