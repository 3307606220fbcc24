//! The sleep of a pool's threads, and the wake by a spawn.
//!
//! Falt et al., §4.3: one primitive for each core group. A thread is *awake*, *announced* (it has said that it will
//! sleep, and looks around once more), or *asleep*.
//!
//! 1. A thread that found nothing announces itself with the tasks it would take: any, or, while its own task waits,
//!    those of the waiting task's request. It makes every other thread's stores visible ([`Barrier`]), and looks into
//!    every queue once more. Only then it sleeps.
//! 2. A spawner puts its task, then looks for announced threads, and wakes one of them. [`Sleepers`] chooses it.
//! 3. A thread that finds work in its last look takes its announcement back. If it was chosen meanwhile, it learns the
//!    task's queue: it leaves this task alone and chooses another thread for it.
//!
//! Step 1 closes this race: the spawner reads "no thread is announced" before the announcement, and the sleeper looks
//! into the queue before the task is visible there. The spawner has no fence between its two steps; the sleeper's
//! barrier stands in for it. If the kernel refuses this barrier, spawners have a fence ([`Barrier::before_look`]),
//! except for a push to a seat's own queue, also of a deferred task that spills there. Such a push can miss a sleeper;
//! the spawner itself still runs the task, because it looks there before it sleeps.

use crate::sync::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering, Padded, fence, light_fence};
#[cfg(not(loom))]
use std::time::{Duration, Instant};
#[cfg(all(test, loom))]
use vicus_schedule::{QueueId, RequestId};
use vicus_schedule::{Sleeper, Sleepers, Wake};

pub(crate) struct SleepPool {
    /// How many are announced: spawners look here without the lock.
    announced: Padded<AtomicU32>,
    sleepers: Mutex<Sleepers>,
    /// By slot: each thread sleeps on its own condition, so that a wake disturbs only its target.
    woken: Box<[Condvar]>,
}

/// Why a thread stopped sleeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// By a spawn: the thread was chosen for this.
    Spawn(Wake),
    /// Its own reason is true. It is still announced, and has to call [`SleepPool::stay`].
    Reason,
    /// Its time is over. It is still announced, and has to sleep on or to call [`SleepPool::stay`].
    #[cfg(not(loom))]
    Late,
}

impl SleepPool {
    /// For threads with the slots 0 and so on.
    pub(crate) fn new(slots: usize) -> SleepPool {
        SleepPool {
            announced: Padded(AtomicU32::new(0)),
            sleepers: Mutex::new(Sleepers::new(slots)),
            woken: (0..slots).map(|_| Condvar::new()).collect(),
        }
    }

    /// Step 1. The caller looks around once more, and then calls [`SleepPool::sleep`] or [`SleepPool::stay`].
    pub(crate) fn announce(&self, slot: usize, sleeper: Sleeper, barrier: &Barrier) {
        let mut sleepers = self.lock();
        sleepers.announce(slot, sleeper);
        self.count(&sleepers);
        drop(sleepers);
        barrier.everyone();
    }

    /// Sleeps until a spawn wakes it, or until `reason` is true; each [`SleepPool::notify`] has it checked.
    pub(crate) fn sleep(&self, slot: usize, reason: impl Fn() -> bool) -> Woken {
        let mut sleepers = self.lock();
        loop {
            if let Some(woken) = ends_sleep(&mut sleepers, slot, &reason) {
                return woken;
            }
            sleepers = self.woken[slot].wait(sleepers).expect("nothing panics under this lock");
        }
    }

    /// Like [`SleepPool::sleep`], but no longer than this.
    #[cfg(not(loom))]
    pub(crate) fn sleep_for(&self, slot: usize, long: Duration, reason: impl Fn() -> bool) -> Woken {
        let until = Instant::now() + long;
        let mut sleepers = self.lock();
        loop {
            if let Some(woken) = ends_sleep(&mut sleepers, slot, &reason) {
                return woken;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Woken::Late;
            }
            sleepers = self.woken[slot].wait_timeout(sleepers, left).expect("nothing panics under this lock").0;
        }
    }

    /// Has the thread with this slot check its reason, if it sleeps.
    pub(crate) fn notify(&self, slot: usize) {
        // A thread without a reason under this lock sleeps by now.
        drop(self.lock());
        self.woken[slot].notify_one();
    }

    /// Like [`SleepPool::notify`], for a reason also checked in the thread's last look, after its announcement: if no
    /// thread is announced, the thread is awake and finds the reason by itself. Otherwise each call would be two
    /// exchanges and a system call.
    #[inline]
    pub(crate) fn notify_if_announced(&self, slot: usize, barrier: &Barrier) {
        barrier.before_look(true);
        if self.has_sleepers() {
            self.notify(slot);
        }
    }

    /// Has all threads check their reasons.
    pub(crate) fn notify_all(&self) {
        drop(self.lock());
        self.woken.iter().for_each(Condvar::notify_one);
    }

    /// Step 3: the caller found work after its announcement. Returns the spawn it was chosen for meanwhile, if any.
    pub(crate) fn stay(&self, slot: usize) -> Option<Wake> {
        let mut sleepers = self.lock();
        let wake = sleepers.stay(slot);
        self.count(&sleepers);
        wake
    }

    /// Step 2: wakes one thread of the pool. `false` if no announced or sleeping thread takes this task.
    #[inline]
    pub(crate) fn wake_one(&self, wake: Wake) -> bool {
        self.has_sleepers() && self.choose(wake)
    }

    /// Whether the thread with this slot is announced or asleep.
    pub(crate) fn is_announced(&self, slot: usize) -> bool {
        self.lock().is_announced(slot)
    }

    /// How many threads are announced or asleep.
    pub(crate) fn sleepers(&self) -> usize {
        self.announced.0.load(Ordering::Relaxed) as usize
    }

    /// Whether a thread is announced or asleep.
    #[inline]
    pub(crate) fn has_sleepers(&self) -> bool {
        self.announced.0.load(Ordering::Relaxed) != 0
    }

    #[cold]
    #[inline(never)]
    fn choose(&self, wake: Wake) -> bool {
        let mut sleepers = self.lock();
        let Some(slot) = sleepers.choose(wake) else { return false };
        self.count(&sleepers);
        drop(sleepers);
        self.woken[slot].notify_one();
        true
    }

    fn lock(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().expect("nothing panics under this lock")
    }

    fn count(&self, sleepers: &Sleepers) {
        // A pool has fewer seats than four billion.
        self.announced.0.store(sleepers.announced() as u32, Ordering::SeqCst);
    }
}

/// Whether the thread with this slot need not sleep, and why.
fn ends_sleep(sleepers: &mut Sleepers, slot: usize, reason: impl Fn() -> bool) -> Option<Woken> {
    let chosen = sleepers.tell(slot).map(Woken::Spawn);
    chosen.or_else(|| reason().then_some(Woken::Reason))
}

/// Makes the stores of all threads visible to the caller, and the caller's to them: a full fence in every running
/// thread of the process, paid by the thread going to sleep instead of the spawners.
pub(crate) struct Barrier {
    expedited: bool,
}

impl Barrier {
    #[cfg(not(loom))]
    pub(crate) fn new() -> Barrier {
        Barrier { expedited: vicus_os::calls::prepare_fences() }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Barrier {
        Barrier { expedited: true }
    }

    /// Whether the kernel supports it. Otherwise a push without a lock may miss a sleeper, at the cost of parallelism
    /// alone.
    pub(crate) fn is_expedited(&self) -> bool {
        self.expedited
    }

    /// The fence between a push and the look for sleepers: none if the sleepers' barrier stands in for it. `must`:
    /// missing a sleeper would be worse than the cost of a fence.
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
            vicus_os::calls::fence_all();
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;

    fn wake(request: u64) -> Wake {
        Wake { queue: QueueId::new(0), request: Some(RequestId::new(request)), while_waiting: false }
    }

    fn is_empty(pool: &SleepPool) -> bool {
        pool.announced.0.load(Ordering::Relaxed) == 0 && pool.lock().is_idle()
    }

    fn take(queue: &AtomicUsize) -> bool {
        queue.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).is_ok()
    }

    /// Works as a free thread until it has run one task.
    fn work_once(pool: &SleepPool, slot: usize, queue: &AtomicUsize) {
        while !take(queue) {
            pool.announce(slot, Sleeper::Free, &Barrier::new());
            if take(queue) {
                pool.stay(slot);
                return;
            }
            pool.sleep(slot, || false);
        }
    }

    /// A push into a locked queue from outside, and a worker going to sleep: the task is always found. Loom reports an
    /// endless sleep as a deadlock.
    #[test]
    fn loom_a_push_is_never_slept_over() {
        loom::model(|| {
            let pool = Arc::new(SleepPool::new(1));
            let queue = Arc::new(AtomicUsize::new(0));
            let worker = {
                let (pool, queue) = (pool.clone(), queue.clone());
                loom::thread::spawn(move || work_once(&pool, 0, &queue))
            };
            queue.fetch_add(1, Ordering::AcqRel);
            Barrier::new().before_look(true);
            pool.wake_one(wake(1));
            worker.join().unwrap();
            assert_eq!(queue.load(Ordering::Acquire), 0);
        });
    }

    /// One spawn wakes one thread, and no choice is left behind or lost.
    #[test]
    fn loom_a_wake_is_consumed_once() {
        loom::model(|| {
            let pool = Arc::new(SleepPool::new(1));
            let other = {
                let pool = pool.clone();
                loom::thread::spawn(move || {
                    pool.announce(0, Sleeper::Free, &Barrier::new());
                    pool.stay(0)
                })
            };
            let woke = pool.wake_one(wake(1));
            assert_eq!(other.join().unwrap(), woke.then_some(wake(1)));
            assert!(is_empty(&pool));
        });
    }

    /// A thread waits for a reason of its own, and another thread makes it true: it is never missed in sleep, and a
    /// spawn's wake in between is neither left behind nor lost.
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
                        pool.announce(0, Sleeper::Waiting(RequestId::new(1)), &Barrier::new());
                        let slept = (!is_there()).then(|| pool.sleep(0, is_there));
                        let spawned = matches!(slept, Some(Woken::Spawn(_))) || pool.stay(0).is_some();
                        woken += usize::from(spawned);
                    }
                    woken
                })
            };
            let woke = usize::from(pool.wake_one(wake(1)));
            reason.store(1, Ordering::Release);
            pool.notify(0);
            assert_eq!(waits.join().unwrap(), woke);
            assert!(is_empty(&pool));
        });
    }

    /// What happened: a thread with work waited for a permit, and another thread on its way to sleep consumed it. Both
    /// slept, one of them holding a task.
    #[test]
    fn loom_a_thread_with_work_never_sleeps() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let pool = Arc::new(SleepPool::new(2));
            let queue = Arc::new(AtomicUsize::new(0));
            let stays = {
                let pool = pool.clone();
                loom::thread::spawn(move || {
                    pool.announce(0, Sleeper::Free, &Barrier::new());
                    // It passes the spawn of its wake on to another thread.
                    if let Some(wake) = pool.stay(0) {
                        pool.wake_one(wake);
                    }
                })
            };
            let works = {
                let (pool, queue) = (pool.clone(), queue.clone());
                loom::thread::spawn(move || work_once(&pool, 1, &queue))
            };
            queue.fetch_add(1, Ordering::AcqRel);
            Barrier::new().before_look(true);
            pool.wake_one(wake(1));
            stays.join().unwrap();
            works.join().unwrap();
            assert!(is_empty(&pool));
        });
    }

    /// What happened: of two waiting seats and an idle one, gone to sleep before, a waiting one was woken for another
    /// request's task, and woke the other waiting one for it, which woke the first again: the idle one slept on.
    #[test]
    fn loom_a_waiting_seat_is_not_woken_for_a_task_that_it_cannot_take() {
        // Bounded: all interleavings would take minutes.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let (pool, queue) = (Arc::new(SleepPool::new(3)), Arc::new(AtomicUsize::new(0)));
            let is_over = Arc::new(AtomicUsize::new(0));
            let idle = {
                let (pool, queue) = (pool.clone(), queue.clone());
                loom::thread::spawn(move || work_once(&pool, 0, &queue))
            };
            let waits = [1, 2].map(|slot| {
                let (pool, is_over) = (pool.clone(), is_over.clone());
                let request = RequestId::new(slot as u64);
                loom::thread::spawn(move || {
                    let is_there = || is_over.load(Ordering::Acquire) == 1;
                    pool.announce(slot, Sleeper::Waiting(request), &Barrier::new());
                    let slept = pool.sleep(slot, is_there);
                    assert_eq!((slept, pool.stay(slot)), (Woken::Reason, None), "the task is of request 3");
                })
            });
            queue.fetch_add(1, Ordering::AcqRel);
            Barrier::new().before_look(true);
            pool.wake_one(wake(3));
            // While both wait.
            idle.join().unwrap();
            is_over.store(1, Ordering::Release);
            pool.notify_all();
            waits.into_iter().for_each(|waits| waits.join().unwrap());
            assert!(is_empty(&pool));
        });
    }
}
