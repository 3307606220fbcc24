//! A queue from which all seats take the oldest task, with a lock for each end.
//!
//! New tasks go into a ring. A push holds the lock of the young end, and a take that of the old end; they look at the
//! same slot, which is empty or holds a task, and at nothing else of each other's. So a seat that spawns many threads
//! for another one and the seat that takes them use different lines of memory, unless the ring is nearly empty or full.
//!
//! Behind the old end is a list of *older* tasks. The ring's tasks move there when it is full, and when one is wanted
//! from between the ends: then the queue is a sequential one ([`Queue`]) behind the lock of its old end.
//!
//! A lock for each end is from Michael and Scott, "Simple, Fast, and Practical Non-Blocking and Blocking Concurrent
//! Queue Algorithms", PODC 1996, §2, fig. 2. We differ: a ring in place of a linked list, so that a push needs no
//! memory and a take does not read the task before.

use crate::queues::deque::Deque;
use crate::sync::lock::ModelledLock;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, Padded};
use std::ptr;
#[cfg(not(loom))]
use vicus_memory::{LINE, prefetch};
use vicus_schedule::{Queue, QueueOrder, TaskHeader, TaskRef};

/// So many slots are looked at at once, by a look at the last of them: they are emptied one after the other.
const LOOKS: u32 = if cfg!(loom) { 2 } else { 64 };

/// Capacity of the ring in tasks. Loom sees a small one, so that it wraps and fills.
pub const CAPACITY: usize = if cfg!(loom) { 2 } else { 1024 };

pub(crate) struct Fifo {
    young: Padded<Young>,
    old: Padded<Old>,
    /// A slot is null if no task is there. Invariant: those from `head` to `tail` are not.
    ring: Box<[AtomicPtr<TaskHeader>; CAPACITY]>,
}

struct Young {
    lock: ModelledLock<()>,
    /// The number of the next push. Numbers wrap round; only differences count.
    tail: AtomicU32,
    /// Slots up to this number are known to be free, so that a push need not read a slot just written by the other end.
    free_to: AtomicU32,
    /// Whether there were many older tasks when some went there last. It is set from the other end, seldom.
    has_many_older: AtomicBool,
}

struct Old {
    /// Older than those in the ring.
    older: ModelledLock<Queue<TaskRef>>,
    /// How many these are: for looks without the lock.
    count: AtomicUsize,
    /// The number of the ring's oldest task. Written under the lock.
    head: AtomicU32,
}

impl Fifo {
    pub(crate) fn new() -> Fifo {
        let older = ModelledLock::new(Queue::new(QueueOrder::Deque));
        Fifo {
            young: Padded(Young {
                lock: ModelledLock::new(()),
                tail: AtomicU32::new(0),
                free_to: AtomicU32::new(0),
                has_many_older: AtomicBool::new(false),
            }),
            old: Padded(Old { older, count: AtomicUsize::new(0), head: AtomicU32::new(0) }),
            ring: Box::new(std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()))),
        }
    }

    #[inline]
    fn slot(&self, at: u32) -> &AtomicPtr<TaskHeader> {
        &self.ring[at as usize & (CAPACITY - 1)]
    }

    /// Puts the youngest task. Gives it back if there is no memory for more.
    #[inline]
    pub(crate) fn push(&self, task: TaskRef) -> Result<(), TaskRef> {
        let young = &self.young.0;
        let _held = young.lock.lock();
        let tail = young.tail.load(Ordering::Relaxed);
        if young.free_to.load(Ordering::Relaxed) == tail && !self.look_for_room(tail) && !self.make_room(tail) {
            return Err(task);
        }
        // Release: the taking seat sees the writes to the task.
        self.slot(tail).store(task.as_ptr().as_ptr(), Ordering::Release);
        young.tail.store(tail.wrapping_add(1), Ordering::Release);
        Ok(())
    }

    /// Whether slots from the next one on are free. The lock of the young end is held.
    fn look_for_room(&self, tail: u32) -> bool {
        // Acquire: the seat that took the slot's earlier task is done with this slot, and with those before it.
        let is_free = |count: &u32| self.slot(tail.wrapping_add(count - 1)).load(Ordering::Acquire).is_null();
        let free = [LOOKS, 1].into_iter().find(is_free).unwrap_or(0);
        self.young.0.free_to.store(tail.wrapping_add(free), Ordering::Relaxed);
        free > 0
    }

    /// The ring is full. Both locks are held, always in this order.
    #[cold]
    #[inline(never)]
    fn make_room(&self, tail: u32) -> bool {
        self.gather(&mut self.old.0.older.lock());
        self.look_for_room(tail)
    }

    /// Whether the ring is nearly full, or would be together with the older tasks.
    #[inline]
    pub(crate) fn look_long(&self) -> bool {
        let young = &self.young.0;
        if young.has_many_older.load(Ordering::Relaxed) {
            if self.old.0.count.load(Ordering::Relaxed) >= CAPACITY {
                return true;
            }
            young.has_many_older.store(false, Ordering::Relaxed);
        }
        let tail = young.tail.load(Ordering::Relaxed);
        // Not until several slots are free: the other end would write the line of the next one while this one asks for
        // it again and again.
        let ahead = || self.slot(tail.wrapping_add(LOOKS - 1)).load(Ordering::Relaxed);
        young.free_to.load(Ordering::Relaxed) == tail && !ahead().is_null()
    }

    /// Takes the oldest task if it is `wanted`.
    #[inline]
    pub(crate) fn take_if(&self, wanted: impl FnOnce(&TaskRef) -> bool) -> Option<TaskRef> {
        if self.looks_empty() {
            return None;
        }
        let old = &self.old.0;
        let mut older = old.older.lock();
        if !older.is_empty() {
            let task = older.take_oldest_if(wanted);
            old.count.store(older.len(), Ordering::Release);
            return task;
        }
        let head = old.head.load(Ordering::Relaxed);
        let task = self.peek(head)?;
        if !wanted(&task) {
            return None;
        }
        self.pass(head);
        #[cfg(not(loom))]
        {
            // Of the next task: another seat has written it.
            let next: *const u8 = self.slot(head.wrapping_add(1)).load(Ordering::Relaxed).cast();
            prefetch::<false>(next);
            prefetch::<false>(next.wrapping_add(LINE));
        }
        Some(task)
    }

    /// Calls `change` on all tasks, under the lock of the old end, if there are any. Without memory to bring them
    /// together, some of the youngest are missing.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Queue<TaskRef>) -> R) -> Option<R> {
        if self.looks_empty() {
            return None;
        }
        let mut older = self.old.0.older.lock();
        self.gather(&mut older);
        let result = change(&mut older);
        self.old.0.count.store(older.len(), Ordering::Release);
        Some(result)
    }

    /// How many tasks it held a moment ago.
    pub(crate) fn len(&self) -> usize {
        let old = &self.old.0;
        let head = old.head.load(Ordering::Acquire);
        let tail = self.young.0.tail.load(Ordering::Acquire);
        // Another seat may have taken more than the first look saw, or a task not yet counted by its push.
        let in_ring = (tail.wrapping_sub(head) as i32).clamp(0, CAPACITY as i32) as usize;
        in_ring + old.count.load(Ordering::Acquire)
    }

    /// Whether it was empty at a moment since this was called. An earlier task is seen, or was taken.
    #[inline]
    pub(crate) fn looks_empty(&self) -> bool {
        let old = &self.old.0;
        loop {
            let head = old.head.load(Ordering::Acquire);
            // Acquire: if the slot was emptied after its task went to the older ones, these are seen there, and if it
            // was taken, so is the new head.
            if !self.slot(head).load(Ordering::Acquire).is_null() {
                return false;
            }
            if old.head.load(Ordering::Acquire) == head {
                return old.count.load(Ordering::Acquire) == 0;
            }
        }
    }

    /// The task at the old end of the ring. The lock of this end is held.
    #[inline]
    fn peek(&self, head: u32) -> Option<TaskRef> {
        let task = self.slot(head).load(Ordering::Acquire);
        (!task.is_null()).then(|| Deque::task(task))
    }

    /// The task at the old end of the ring is elsewhere: the next one is the oldest now. The lock of this end is held.
    #[inline]
    fn pass(&self, head: u32) {
        // In this order: a look that finds the slot empty finds the new head. The other way round, it would not look at
        // the next slot.
        self.old.0.head.store(head.wrapping_add(1), Ordering::Release);
        self.slot(head).store(ptr::null_mut(), Ordering::Release);
    }

    /// Moves the ring's tasks to the older ones, as far as there is memory for them. The lock of the old end is held.
    #[cold]
    #[inline(never)]
    fn gather(&self, older: &mut Queue<TaskRef>) {
        let old = &self.old.0;
        // No more than the ring has: another seat may go on with pushing.
        for _ in 0..CAPACITY {
            let head = old.head.load(Ordering::Relaxed);
            let Some(task) = self.peek(head) else { break };
            if !older.reserve_one() {
                break;
            }
            older.push(task.header().request, task);
            // Before its slot is empty: a look finds it here or there.
            old.count.store(older.len(), Ordering::Release);
            self.pass(head);
        }
        if older.len() >= CAPACITY {
            self.young.0.has_many_older.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::queues::deque::tests::{number, task};
    use std::collections::VecDeque;
    use vicus_schedule::{End, RequestId};

    #[test]
    fn the_oldest_is_taken_however_many_there_are() {
        let fifo = Fifo::new();
        // Through the ring several times, beyond its length, and with tasks left each time.
        let mut model = VecDeque::new();
        let mut next = 0;
        for (pushed, taken) in [(1, 1), (1000, 990), (3000, 2500), (0, 200), (1030, 1000), (5, 0), (0, 2000)] {
            for _ in 0..pushed {
                fifo.push(task(next)).unwrap();
                model.push_back(next);
                next += 1;
            }
            assert_eq!(fifo.len(), model.len());
            for _ in 0..taken {
                assert_eq!(fifo.take_if(|_| true).map(number), model.pop_front());
            }
        }
        assert!(model.is_empty() && fifo.take_if(|_| true).is_none() && fifo.len() == 0);
    }

    #[test]
    fn it_is_long_when_the_ring_is_nearly_full() {
        let fifo = Fifo::new();
        let pushed = (0..).take_while(|&n| !fifo.look_long() && fifo.push(task(n)).is_ok()).count();
        assert!((CAPACITY - LOOKS as usize..=CAPACITY).contains(&pushed), "{pushed}");
        (0..LOOKS).for_each(|_| assert!(fifo.look_long() && fifo.take_if(|_| true).is_some()));
        assert!(!fifo.look_long());
        // Tasks moved away from the ring count as well.
        let mut pushed = 0;
        while !fifo.look_long() && pushed < 5 * CAPACITY {
            fifo.push(task(pushed as u64)).unwrap();
            fifo.change(|_| ());
            pushed += 1;
        }
        assert_eq!(fifo.len(), CAPACITY);
        assert!(fifo.take_if(|_| true).is_some() && !fifo.look_long());
    }

    #[test]
    fn a_task_that_is_not_wanted_stays_the_oldest() {
        let fifo = Fifo::new();
        (0..3).for_each(|n| fifo.push(task(n)).unwrap());
        assert!(fifo.take_if(|_| false).is_none());
        assert_eq!(fifo.take_if(|&task| number(task) == 0).map(number), Some(0));
        fifo.change(|_| ());
        assert!(fifo.take_if(|_| false).is_none());
        assert_eq!(fifo.take_if(|_| true).map(number), Some(1));
    }

    #[test]
    fn one_is_taken_out_from_between_the_ends() {
        let fifo = Fifo::new();
        (0..5).for_each(|n| fifo.push(task(n)).unwrap());
        let remove = |n| fifo.change(|tasks| tasks.remove(RequestId::new(n), End::Youngest, |_| true)).flatten();
        assert_eq!(remove(3).map(number), Some(3));
        fifo.push(task(5)).unwrap();
        assert!(remove(3).is_none());
        assert_eq!(remove(5).map(number), Some(5));
        let left: Vec<_> = std::iter::from_fn(|| fifo.take_if(|_| true)).map(number).collect();
        assert_eq!(left, [0, 1, 2, 4]);
        assert!(fifo.change(|_| ()).is_none(), "there is none to change");
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::queues::deque::tests::{number, task};
    use loom::sync::Arc;
    use loom::thread::{JoinHandle, spawn};

    fn bounded(model: impl Fn() + Sync + Send + 'static) {
        // Bounded: all interleavings would take minutes.
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    fn with(fifo: &Arc<Fifo>, run: impl FnOnce(&Fifo) -> Vec<u64> + 'static) -> JoinHandle<Vec<u64>> {
        let fifo = Arc::clone(fifo);
        spawn(move || run(&fifo))
    }

    fn rest(fifo: &Fifo) -> impl Iterator<Item = u64> {
        std::iter::from_fn(|| fifo.take_if(|_| true)).map(number)
    }

    /// Two push more than the ring holds while one takes: each task comes out once, and those of one thread in their
    /// order.
    #[test]
    fn loom_every_task_is_taken_once_and_in_order() {
        bounded(|| {
            let fifo = Arc::new(Fifo::new());
            let other = with(&fifo, |fifo| {
                [10, 11].into_iter().for_each(|n| fifo.push(task(n)).unwrap());
                Vec::new()
            });
            let takes = with(&fifo, |fifo| rest(fifo).take(2).collect());
            [20, 21].into_iter().for_each(|n| fifo.push(task(n)).unwrap());
            other.join().unwrap();
            let mut taken = takes.join().unwrap();
            taken.extend(rest(&fifo));
            let of = |first: u64| taken.iter().copied().filter(|n| n / 10 == first).collect::<Vec<_>>();
            assert_eq!((of(1), of(2), taken.len()), (vec![10, 11], vec![20, 21], 4), "{taken:?}");
        });
    }

    /// Earlier tasks are never overlooked, since a seat would go to sleep: of as many takes as tasks, by any method,
    /// none finds nothing, whether the tasks are in the ring or also among the older ones. Finds these mutants: a slot
    /// emptied before the head moves on, a count written after it, and a look that reads the head once.
    #[test]
    fn loom_a_task_that_is_there_is_found() {
        fn take(fifo: &Fifo) -> Vec<u64> {
            rest(fifo).take(1).collect()
        }
        // With one task, the call that brings them together takes none.
        fn change(fifo: &Fifo, takes: bool) -> Vec<u64> {
            fifo.change(|older| older.take_oldest_if(|_| takes)).flatten().map(number).into_iter().collect()
        }
        // Loom looks at other orders if the threads change places.
        for (tasks, is_changed_here) in [(1, false), (1, true), (2, false), (2, true), (3, false), (3, true)] {
            bounded(move || {
                let fifo = Arc::new(Fifo::new());
                (0..tasks).for_each(|n| fifo.push(task(n)).unwrap());
                let other = match is_changed_here {
                    true => with(&fifo, take),
                    false => with(&fifo, move |fifo| change(fifo, tasks > 1)),
                };
                let third = (tasks == 3).then(|| with(&fifo, take));
                let mut taken = if is_changed_here { change(&fifo, tasks > 1) } else { take(&fifo) };
                taken.extend(other.join().unwrap());
                taken.extend(third.into_iter().flat_map(|takes| takes.join().unwrap()));
                taken.sort_unstable();
                assert!(taken.into_iter().eq(0..tasks));
            });
        }
    }

    /// If one push follows another on a different thread, its task comes out later.
    #[test]
    fn loom_a_later_push_of_another_thread_is_younger() {
        bounded(|| {
            let (fifo, turn) = (Arc::new(Fifo::new()), Arc::new(AtomicU32::new(0)));
            let later = {
                let (fifo, turn) = (Arc::clone(&fifo), Arc::clone(&turn));
                spawn(move || {
                    if turn.load(Ordering::Acquire) == 1 {
                        fifo.push(task(9)).unwrap();
                    }
                })
            };
            let takes = with(&fifo, |fifo| rest(fifo).take(1).collect());
            [1, 2, 3].into_iter().for_each(|n| fifo.push(task(n)).unwrap());
            turn.store(1, Ordering::Release);
            later.join().unwrap();
            let mut taken = takes.join().unwrap();
            taken.extend(rest(&fifo));
            assert!(taken == [1, 2, 3] || taken == [1, 2, 3, 9], "{taken:?}");
        });
    }
}
