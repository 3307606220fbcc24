//! Where the threads of a pool sleep, and how a spawn wakes one.
//!
//! Falt et al., §4.3: one primitive for each core group. Three words: a thread is *awake*, *announced* (it has said that
//! it will sleep and looks around once more), or *asleep*.
//!
//! 1. A thread that found nothing announces itself, makes every other thread's stores visible ([`Barrier`]), and looks
//!    into every queue once more. Only then it sleeps.
//! 2. A spawner puts its task, then looks for an announced thread, takes one announcement away, and posts a permit.
//!    Whoever consumes the permit was woken; the announcement can be taken once, so a spawn wakes one thread.
//! 3. A thread that finds work in its last look takes an announcement back; if a spawner was quicker, there is a permit
//!    or will be, and the thread consumes it. Announcements and permits have no names: whoever sleeps next may consume
//!    that permit, and then its own announcement is left to be taken back. So a thread with work in its hands takes
//!    whichever there is, and never sleeps for either.
//!
//! Invariant: threads between their announcement and their return are as many as announcements, permits, and spawners
//! that have taken an announcement and not posted yet.
//!
//! The race that step 1 closes: the spawner reads "nobody announced" before the announcement, and the sleeper looks
//! into the queue before the task is visible there. On the spawner's side only a push without a lock has no fence
//! between its two steps; the sleeper's barrier stands in for it. Should the kernel refuse that barrier, such a push can
//! miss a sleeper; the task is still run, by the spawner, which looks there before it sleeps.

use crate::sync::{AtomicU32, Condvar, Mutex, Ordering, Padded, fence, yield_now};
#[cfg(not(loom))]
use std::time::Duration;

pub(crate) struct SleepPool {
    announced: Padded<AtomicU32>,
    permits: Mutex<u32>,
    woken: Condvar,
}

impl SleepPool {
    pub(crate) fn new() -> SleepPool {
        SleepPool { announced: Padded(AtomicU32::new(0)), permits: Mutex::new(0), woken: Condvar::new() }
    }

    /// Step 1. The caller looks around once more, and then calls [`SleepPool::sleep`] or [`SleepPool::stay`].
    pub(crate) fn announce(&self, barrier: &Barrier) {
        self.announced.0.fetch_add(1, Ordering::SeqCst);
        barrier.everyone();
    }

    /// Sleeps until it is woken.
    pub(crate) fn sleep(&self) {
        let mut permits = self.permits.lock().expect("nothing panics under this lock");
        while *permits == 0 {
            permits = self.woken.wait(permits).expect("nothing panics under this lock");
        }
        *permits -= 1;
    }

    /// Sleeps until it is woken, or for so long. Says whether it was woken; if not, the caller is asleep as before, and
    /// has to call [`SleepPool::sleep`].
    #[cfg(not(loom))]
    pub(crate) fn sleep_for(&self, long: Duration) -> bool {
        let permits = self.permits.lock().expect("nothing panics under this lock");
        let waits = |permits: &mut u32| *permits == 0;
        let result = self.woken.wait_timeout_while(permits, long, waits);
        let (mut permits, late) = result.expect("nothing panics under this lock");
        if !late.timed_out() {
            *permits -= 1;
        }
        !late.timed_out()
    }

    /// Step 3: the caller found work after its announcement. Says whether it was woken by a spawn all the same.
    pub(crate) fn stay(&self) -> bool {
        loop {
            if self.take_announcement() {
                return false;
            }
            {
                let mut permits = self.permits.lock().expect("nothing panics under this lock");
                if *permits > 0 {
                    *permits -= 1;
                    return true;
                }
            }
            // A spawner is between taking the announcement and posting the permit.
            yield_now();
        }
    }

    /// Step 2: wakes one thread of the pool. `false` if none is announced or asleep.
    #[inline]
    pub(crate) fn wake_one(&self) -> bool {
        self.announced.0.load(Ordering::Relaxed) != 0 && self.take_announcement() && {
            *self.permits.lock().expect("nothing panics under this lock") += 1;
            self.woken.notify_one();
            true
        }
    }

    fn take_announcement(&self) -> bool {
        let taken = self.announced.0.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |n| n.checked_sub(1));
        taken.is_ok()
    }
}

/// Makes the stores of all threads visible to the caller, and the caller's to them: a full fence in every running
/// thread of the process, paid by the one that goes to sleep and not by those that spawn.
pub(crate) struct Barrier {
    expedited: bool,
}

impl Barrier {
    #[cfg(not(loom))]
    pub(crate) fn new() -> Barrier {
        let command = libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
        #[expect(unsafe_code, reason = "a system call that libc has no function for")]
        // SAFETY: membarrier takes two integers and touches no memory of ours.
        let done = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
        Barrier { expedited: done == 0 }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Barrier {
        Barrier { expedited: false }
    }

    /// Whether the kernel does it. Otherwise a push without a lock may miss a sleeper, which costs parallelism only.
    pub(crate) fn is_expedited(&self) -> bool {
        self.expedited
    }

    fn everyone(&self) {
        fence(Ordering::SeqCst);
        #[cfg(not(loom))]
        if self.expedited {
            #[expect(unsafe_code, reason = "a system call that libc has no function for")]
            // SAFETY: as in `new`.
            unsafe {
                libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;

    /// A push into a locked queue from outside, and a worker that goes to sleep: the task is always found. Loom reports
    /// a thread that sleeps for ever as a deadlock.
    #[test]
    fn loom_a_push_is_never_slept_over() {
        loom::model(|| {
            let pool = Arc::new(SleepPool::new());
            let queue = Arc::new(AtomicUsize::new(0));
            let worker = {
                let (pool, queue) = (pool.clone(), queue.clone());
                loom::thread::spawn(move || {
                    let take = || queue.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).is_ok();
                    loop {
                        if take() {
                            return;
                        }
                        pool.announce(&Barrier::new());
                        if take() {
                            pool.stay();
                            return;
                        }
                        pool.sleep();
                    }
                })
            };
            queue.fetch_add(1, Ordering::AcqRel);
            fence(Ordering::SeqCst);
            pool.wake_one();
            worker.join().unwrap();
            assert_eq!(queue.load(Ordering::Acquire), 0);
        });
    }

    /// One spawn wakes one thread, and a permit is never left behind or lost.
    #[test]
    fn loom_a_wake_is_consumed_once() {
        loom::model(|| {
            let pool = Arc::new(SleepPool::new());
            let other = {
                let pool = pool.clone();
                loom::thread::spawn(move || {
                    pool.announce(&Barrier::new());
                    pool.stay()
                })
            };
            let woke = pool.wake_one();
            assert_eq!(other.join().unwrap(), woke);
            assert_eq!(*pool.permits.lock().unwrap(), 0);
            assert_eq!(pool.announced.0.load(Ordering::Relaxed), 0);
        });
    }

    /// What happened: a thread that had found work waited for a permit which another, on its way to sleep, consumed. Both
    /// slept, one of them with a task in its hands.
    #[test]
    fn loom_a_thread_with_work_never_sleeps() {
        // Every interleaving would take minutes.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let pool = Arc::new(SleepPool::new());
            let slept = Arc::new(AtomicUsize::new(0));
            let stays = {
                let pool = pool.clone();
                loom::thread::spawn(move || {
                    pool.announce(&Barrier::new());
                    pool.stay();
                })
            };
            let sleeps = {
                let (pool, slept) = (pool.clone(), slept.clone());
                loom::thread::spawn(move || {
                    pool.announce(&Barrier::new());
                    pool.sleep();
                    slept.store(1, Ordering::Release);
                })
            };
            pool.wake_one();
            stays.join().unwrap();
            while slept.load(Ordering::Acquire) == 0 {
                pool.wake_one();
                yield_now();
            }
            sleeps.join().unwrap();
            let left = *pool.permits.lock().unwrap() + pool.announced.0.load(Ordering::Relaxed);
            assert_eq!(left, 0, "nothing is left behind");
        });
    }
}
