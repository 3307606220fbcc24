//! Tasks reserved for one seat.

use crate::sync::{AtomicPtr, AtomicUsize, Mutex, Ordering};
use std::collections::VecDeque;
use std::ptr::{self, NonNull};
use vicus_schedule::{TaskHeader, TaskRef};

/// Tasks sent to a seat by other threads.
///
/// Usually one task, for a seat waiting for it. It lies beside the count, and both go from core to core in one cache
/// line.
#[derive(Default)]
pub struct Inbox {
    /// The first task to take, or null. It is filled only while no others wait.
    first: AtomicPtr<TaskHeader>,
    /// Number of further tasks, so that the seat can look without a lock.
    waiting: AtomicUsize,
    tasks: Mutex<VecDeque<TaskRef>>,
}

impl Inbox {
    /// Whether it may hold a task. Without its lock.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        !self.first.load(Ordering::Acquire).is_null() || self.waiting.load(Ordering::Acquire) != 0
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(!self.first.load(Ordering::Relaxed).is_null()) + self.waiting.load(Ordering::Relaxed)
    }

    /// The seat may be asleep: see `RuntimeState::call`, which wakes it.
    #[inline]
    pub fn put(&self, task: TaskRef) {
        // Behind others it is not the first one. They may be taken meanwhile, and then the order of two threads' tasks
        // is open.
        let is_first = self.waiting.load(Ordering::Relaxed) == 0
            && self
                .first
                // Release: the seat sees the writes to the task.
                .compare_exchange(ptr::null_mut(), task.as_ptr().as_ptr(), Ordering::Release, Ordering::Relaxed)
                .is_ok();
        if !is_first {
            self.put_behind(task);
        }
    }

    #[cold]
    fn put_behind(&self, task: TaskRef) {
        let mut tasks = self.tasks.lock().expect("nothing panics under this lock");
        tasks.push_back(task);
        self.waiting.store(tasks.len(), Ordering::Release);
    }

    /// Takes the oldest task.
    #[inline]
    pub fn take(&self) -> Option<TaskRef> {
        self.take_first().or_else(|| if self.waiting.load(Ordering::Acquire) == 0 { None } else { self.take_waiting() })
    }

    #[inline]
    fn take_first(&self) -> Option<TaskRef> {
        // No exchange on the usual path, with nothing to take.
        if self.first.load(Ordering::Relaxed).is_null() {
            return None;
        }
        // Acquire: the writes to the task.
        let first = NonNull::new(self.first.swap(ptr::null_mut(), Ordering::Acquire));
        #[expect(unsafe_code, reason = "a task is a pointer in an atomic")]
        // SAFETY: `put` has stored the pointer of a task of this queue, and the exchange gives it to one thread.
        first.map(|task| unsafe { TaskRef::new(task) })
    }

    #[cold]
    fn take_waiting(&self) -> Option<TaskRef> {
        let mut tasks = self.tasks.lock().expect("nothing panics under this lock");
        // A thread may have put one task there, and the next one here, since this one looked there.
        if let Some(first) = self.take_first() {
            return Some(first);
        }
        let task = tasks.pop_front();
        self.waiting.store(tasks.len(), Ordering::Release);
        task
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::queues::deque::tests::{number, task};
    use crate::queues::sleep::{Barrier, SleepPool, Woken};
    use loom::sync::Arc;
    use vicus_schedule::{QueueId, RequestId};
    use vicus_schedule::{Sleeper, Wake};

    /// A seat, reduced to its sleep.
    struct Seat {
        pool: SleepPool,
        inbox: Inbox,
        /// How many of the awaited tasks are not over.
        open: AtomicUsize,
    }

    impl Seat {
        fn new() -> Arc<Seat> {
            Arc::new(Seat { pool: SleepPool::new(1), inbox: Inbox::default(), open: AtomicUsize::new(1) })
        }

        /// Like `RuntimeState::call`.
        fn call(&self, number: u64) {
            self.inbox.put(task(number));
            self.pool.notify_if_announced(0, &Barrier::new());
        }

        /// Runs this number of sent tasks.
        fn run(&self, count: usize) -> Vec<u64> {
            let mut ran = Vec::new();
            while ran.len() < count {
                if let Some(task) = self.inbox.take() {
                    ran.push(number(task));
                    continue;
                }
                self.pool.announce(0, Sleeper::Free, &Barrier::new());
                let found = self.inbox.take();
                if found.is_none() {
                    self.pool.sleep(0, || self.inbox.is_waiting());
                }
                self.pool.stay(0);
                ran.extend(found.map(number));
            }
            ran
        }

        /// The end of a task, as `Open::is_over`.
        fn finish_one(&self) {
            if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.pool.notify(0);
            }
        }

        /// Like `Worker::wait`, without its work on queues. Returns the sent tasks, and the number of spawns that woke
        /// it.
        fn wait(&self) -> (Vec<u64>, usize) {
            let (mut ran, mut woken) = (Vec::new(), 0);
            while self.open.load(Ordering::Acquire) > 0 {
                if let Some(task) = self.inbox.take() {
                    ran.push(number(task));
                    continue;
                }
                self.pool.announce(0, Sleeper::Waiting(RequestId::new(1)), &Barrier::new());
                let found = self.inbox.take();
                let is_called = || self.open.load(Ordering::Acquire) == 0 || self.inbox.is_waiting();
                let slept = found.is_none().then(|| self.pool.sleep(0, is_called));
                let spawned = matches!(slept, Some(Woken::Spawn(_))) || self.pool.stay(0).is_some();
                woken += usize::from(spawned);
                ran.extend(found.map(number));
            }
            (ran, woken)
        }
    }

    /// A seat sleeps until two threads call it: it misses no call, and runs those of one thread in their order. Finds
    /// these mutants: a wake-up condition that ignores the first task, or the others; a first task that goes before
    /// waiting ones; one without the second look under the lock.
    #[test]
    fn loom_a_seat_runs_each_task_that_it_is_called_for_in_its_callers_order() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let seat = Seat::new();
            let calls = {
                let seat = seat.clone();
                loom::thread::spawn(move || [1, 2, 3].map(|number| seat.call(number)))
            };
            let ran = {
                let seat = seat.clone();
                loom::thread::spawn(move || seat.run(4))
            };
            seat.call(4);
            calls.join().unwrap();
            let mut ran = ran.join().unwrap();
            ran.retain(|&task| task != 4);
            assert_eq!(ran, [1, 2, 3]);
        });
    }

    /// A waiting seat is called twice, woken for a spawn, and its awaited task ends, in any order: it misses none of
    /// these in its sleep, each call is run once or still in the inbox, and no wake is lost. Loom reports an endless
    /// sleep as a deadlock. Finds these mutants: `notify` without its lock; a put that counts before its lock, or a
    /// take that does after it; a call that looks for sleepers before it puts.
    #[test]
    fn loom_a_waiting_seat_runs_tasks_that_it_is_called_for() {
        // Bounded: all interleavings would take minutes.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let seat = Seat::new();
            let waits = {
                let seat = seat.clone();
                loom::thread::spawn(move || seat.wait())
            };
            let ends = {
                let seat = seat.clone();
                loom::thread::spawn(move || {
                    seat.call(2);
                    seat.finish_one();
                })
            };
            let wake = Wake { queue: QueueId::new(0), request: Some(RequestId::new(1)), while_waiting: false };
            let woke = seat.pool.wake_one(wake);
            seat.call(4);
            ends.join().unwrap();
            let (mut ran, woken) = waits.join().unwrap();
            assert_eq!(woken, usize::from(woke));
            ran.extend(std::iter::from_fn(|| seat.inbox.take()).map(number));
            ran.sort_unstable();
            assert_eq!(ran, [2, 4]);
            assert!(!seat.inbox.is_waiting());
        });
    }
}
