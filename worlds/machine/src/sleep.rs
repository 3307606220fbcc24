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
//! into the queue before the task is visible there. The spawner has no fence between its two steps; the sleeper's barrier
//! stands in for it. Should the kernel refuse that barrier, spawners have one ([`Barrier::before_look`]), but for a push to a
//! seat's own queue: this can miss a sleeper, and the task is still run, by the spawner, which looks there before it sleeps.

use crate::sync::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering, Padded, fence, light_fence, yield_now};
#[cfg(not(loom))]
use std::time::{Duration, Instant};

pub(crate) struct SleepPool {
    announced: Padded<AtomicU32>,
    beds: Mutex<Beds>,
    /// By slot: each thread sleeps on its own, so that a wake that is for one of them disturbs no other.
    woken: Box<[Condvar]>,
}

#[derive(Default)]
struct Beds {
    permits: u32,
    /// The slots of those who sleep, and have not been chosen for a permit.
    asleep: Vec<usize>,
}

/// Why a thread does not sleep any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// By a spawn: it consumed a permit.
    Spawn,
    /// By a reason of its own. It is announced as before, and has to call [`SleepPool::stay`].
    Reason,
    /// It slept long enough. It is announced as before, and has to sleep on or to call [`SleepPool::stay`].
    #[cfg(not(loom))]
    Late,
}

impl SleepPool {
    /// For threads with the slots 0 and so on.
    pub(crate) fn new(slots: usize) -> SleepPool {
        SleepPool {
            announced: Padded(AtomicU32::new(0)),
            beds: Mutex::new(Beds::default()),
            woken: (0..slots).map(|_| Condvar::new()).collect(),
        }
    }

    /// Step 1. The caller looks around once more, and then calls [`SleepPool::sleep`] or [`SleepPool::stay`].
    pub(crate) fn announce(&self, barrier: &Barrier) {
        self.announced.0.fetch_add(1, Ordering::SeqCst);
        barrier.everyone();
    }

    /// Sleeps until it is woken by a spawn, or until `reason` says yes, which [`SleepPool::ask`] has it asked.
    pub(crate) fn sleep(&self, slot: usize, reason: impl Fn() -> bool) -> Woken {
        let mut beds = self.lock();
        loop {
            if let Some(woken) = beds.leave(slot, &reason) {
                return woken;
            }
            beds = self.woken[slot].wait(beds).expect("nothing panics under this lock");
        }
    }

    /// As [`SleepPool::sleep`], but no longer than this.
    #[cfg(not(loom))]
    pub(crate) fn sleep_for(&self, slot: usize, long: Duration, reason: impl Fn() -> bool) -> Woken {
        let until = Instant::now() + long;
        let mut beds = self.lock();
        loop {
            if let Some(woken) = beds.leave(slot, &reason) {
                return woken;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                beds.asleep.retain(|&other| other != slot);
                return Woken::Late;
            }
            beds = self.woken[slot].wait_timeout(beds, left).expect("nothing panics under this lock").0;
        }
    }

    /// Has the thread with this slot ask for its reason, if it sleeps.
    pub(crate) fn ask(&self, slot: usize) {
        // Whoever has found no reason under this lock sleeps by now.
        drop(self.lock());
        self.woken[slot].notify_one();
    }

    /// Step 3: the caller found work after its announcement. Says whether it was woken by a spawn all the same.
    pub(crate) fn stay(&self) -> bool {
        loop {
            if self.take_announcement() {
                return false;
            }
            {
                let mut beds = self.lock();
                if beds.permits > 0 {
                    beds.permits -= 1;
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
        self.is_anybody_asleep() && self.take_announcement() && {
            self.permit();
            true
        }
    }

    /// Whether a thread is announced or asleep.
    #[inline]
    pub(crate) fn is_anybody_asleep(&self) -> bool {
        self.announced.0.load(Ordering::Relaxed) != 0
    }

    fn permit(&self) {
        let mut beds = self.lock();
        beds.permits += 1;
        // The one that slept last has the warmest caches.
        if let Some(slot) = beds.asleep.pop() {
            self.woken[slot].notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Beds> {
        self.beds.lock().expect("nothing panics under this lock")
    }

    fn take_announcement(&self) -> bool {
        let taken = self.announced.0.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |n| n.checked_sub(1));
        taken.is_ok()
    }
}

impl Beds {
    /// Whether the thread with this slot need not sleep, and why; else it is asleep.
    fn leave(&mut self, slot: usize, reason: impl Fn() -> bool) -> Option<Woken> {
        self.asleep.retain(|&other| other != slot);
        if self.permits > 0 {
            self.permits -= 1;
            return Some(Woken::Spawn);
        }
        if reason() {
            return Some(Woken::Reason);
        }
        self.asleep.push(slot);
        None
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
        Barrier { expedited: true }
    }

    /// Whether the kernel does it. Otherwise a push without a lock may miss a sleeper, which costs parallelism only.
    pub(crate) fn is_expedited(&self) -> bool {
        self.expedited
    }

    /// What comes between a push and the look for sleepers: nothing, where the sleepers' barrier stands in for it. `must`: that
    /// a sleeper is missed would be worse than a fence.
    #[inline]
    pub(crate) fn before_look(&self, must: bool) {
        if must && !self.expedited {
            fence(Ordering::SeqCst);
        }
        light_fence();
    }

    pub(crate) fn everyone(&self) {
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
            let pool = Arc::new(SleepPool::new(2));
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
                        pool.sleep(0, || false);
                    }
                })
            };
            queue.fetch_add(1, Ordering::AcqRel);
            Barrier::new().before_look(true);
            pool.wake_one();
            worker.join().unwrap();
            assert_eq!(queue.load(Ordering::Acquire), 0);
        });
    }

    /// One spawn wakes one thread, and a permit is never left behind or lost.
    #[test]
    fn loom_a_wake_is_consumed_once() {
        loom::model(|| {
            let pool = Arc::new(SleepPool::new(2));
            let other = {
                let pool = pool.clone();
                loom::thread::spawn(move || {
                    pool.announce(&Barrier::new());
                    pool.stay()
                })
            };
            let woke = pool.wake_one();
            assert_eq!(other.join().unwrap(), woke);
            assert_eq!(pool.lock().permits, 0);
            assert_eq!(pool.announced.0.load(Ordering::Relaxed), 0);
        });
    }

    /// A thread that waits for something of its own, and who makes that true: it is never slept over, and a spawn's wake that came
    /// meanwhile is neither left behind nor lost.
    #[test]
    fn loom_a_reason_is_never_slept_over() {
        loom::model(|| {
            let (pool, reason) = (Arc::new(SleepPool::new(1)), Arc::new(AtomicUsize::new(0)));
            let waits = {
                let (pool, reason) = (pool.clone(), reason.clone());
                loom::thread::spawn(move || {
                    let is_there = || reason.load(Ordering::Acquire) == 1;
                    let mut woken = 0;
                    while !is_there() {
                        pool.announce(&Barrier::new());
                        let slept = (!is_there()).then(|| pool.sleep(0, is_there));
                        woken += usize::from(slept == Some(Woken::Spawn) || pool.stay());
                    }
                    woken
                })
            };
            let woke = usize::from(pool.wake_one());
            reason.store(1, Ordering::Release);
            pool.ask(0);
            assert_eq!(waits.join().unwrap(), woke);
            assert_eq!(pool.lock().permits + pool.announced.0.load(Ordering::Relaxed), 0);
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
            let pool = Arc::new(SleepPool::new(2));
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
                    pool.sleep(0, || false);
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
            let left = pool.lock().permits + pool.announced.0.load(Ordering::Relaxed);
            assert_eq!(left, 0, "nothing is left behind");
        });
    }
}
