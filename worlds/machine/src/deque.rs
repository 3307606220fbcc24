//! A seat's own queue: the owner pushes and pops at one end without a lock, thieves take at the other.
//!
//! Chase and Lev, "Dynamic circular work-stealing deque", SPAA 2005, §2; memory orders after Lê, Pop, Cohen, Zappa
//! Nardelli, "Correct and efficient work-stealing for weak memory models", PPoPP 2013. We differ: the ring has a fixed
//! size; a full one refuses, and the caller runs the task itself. So there is no growth and nothing to reclaim.

use crate::sync::{AtomicIsize, AtomicPtr, Ordering, Padded, fence};
use std::ptr::NonNull;
use vicus_schedule::{TaskHeader, TaskRef};

/// How many tasks a seat's own queue holds: 32 KiB of words. Loom sees a small one, so that it wraps and fills.
pub(crate) const CAPACITY: usize = if cfg!(loom) { 2 } else { 4096 };

pub(crate) struct Deque {
    /// Where thieves take. Only grows.
    top: Padded<AtomicIsize>,
    /// Where the owner pushes and pops.
    bottom: Padded<AtomicIsize>,
    slots: Box<[AtomicPtr<TaskHeader>]>,
}

impl Deque {
    pub(crate) fn new() -> Deque {
        Deque {
            top: Padded(AtomicIsize::new(0)),
            bottom: Padded(AtomicIsize::new(0)),
            slots: (0..CAPACITY).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect(),
        }
    }

    fn slot(&self, at: isize) -> &AtomicPtr<TaskHeader> {
        &self.slots[at as usize & (CAPACITY - 1)]
    }

    fn task(pointer: *mut TaskHeader) -> TaskRef {
        let header = NonNull::new(pointer).expect("a slot between top and bottom was written");
        #[expect(unsafe_code, reason = "a slot's word becomes a task again")]
        // SAFETY: `push` wrote the word from a TaskRef, whose maker promised that it stays alive while queued.
        unsafe {
            TaskRef::new(header)
        }
    }

    /// The owner's push. Gives the task back if the ring is full. No fence, no read-modify-write.
    pub(crate) fn push(&self, task: TaskRef) -> Result<(), TaskRef> {
        let bottom = self.bottom.0.load(Ordering::Relaxed);
        if bottom - self.top.0.load(Ordering::Acquire) >= CAPACITY as isize {
            return Err(task);
        }
        self.slot(bottom).store(task.as_ptr().as_ptr(), Ordering::Relaxed);
        self.bottom.0.store(bottom + 1, Ordering::Release);
        Ok(())
    }

    /// The owner's pop: the youngest task. One full fence, if there is something to pop.
    pub(crate) fn pop(&self) -> Option<TaskRef> {
        let bottom = self.bottom.0.load(Ordering::Relaxed) - 1;
        // `top` only grows, so an old value can hide nothing: what it calls empty is empty.
        if self.top.0.load(Ordering::Relaxed) > bottom {
            return None;
        }
        // Release: a thief that reads this value, not the push's, must see the slots below it all the same. (Lê et al.
        // could rely on C11's release sequences, which went on through later stores of the same thread; Rust's don't.)
        self.bottom.0.store(bottom, Ordering::Release);
        fence(Ordering::SeqCst);
        let top = self.top.0.load(Ordering::Relaxed);
        if top > bottom {
            self.bottom.0.store(bottom + 1, Ordering::Relaxed);
            return None;
        }
        let task = self.slot(bottom).load(Ordering::Relaxed);
        if top == bottom {
            // The last one: thieves want it too.
            let won = self.top.0.compare_exchange(top, top + 1, Ordering::SeqCst, Ordering::Relaxed).is_ok();
            self.bottom.0.store(bottom + 1, Ordering::Relaxed);
            return won.then(|| Deque::task(task));
        }
        Some(Deque::task(task))
    }

    /// A thief's take: the oldest task. Tries again when another was quicker, until it wins or nothing is left.
    pub(crate) fn steal(&self) -> Option<TaskRef> {
        loop {
            let top = self.top.0.load(Ordering::Acquire);
            fence(Ordering::SeqCst);
            let bottom = self.bottom.0.load(Ordering::Acquire);
            if top >= bottom {
                return None;
            }
            let task = self.slot(top).load(Ordering::Relaxed);
            if self.top.0.compare_exchange(top, top + 1, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                return Some(Deque::task(task));
            }
        }
    }

    /// Whether it holds nothing. A hint unless the caller is the owner.
    pub(crate) fn is_empty(&self) -> bool {
        self.top.0.load(Ordering::Acquire) >= self.bottom.0.load(Ordering::Acquire)
    }

    /// How many tasks it holds. A hint.
    pub(crate) fn len(&self) -> usize {
        let len = self.bottom.0.load(Ordering::Acquire) - self.top.0.load(Ordering::Acquire);
        usize::try_from(len).unwrap_or(0)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use vicus_schedule::RequestId;

    #[expect(unsafe_code, reason = "the type of a header's function")]
    // SAFETY of callers: nothing to keep; it is never called.
    unsafe fn never(_: TaskRef, _: *mut ()) {
        unreachable!("these tasks are only moved");
    }

    /// A task that lives for ever and can be told from others.
    pub(crate) fn task(number: u64) -> TaskRef {
        let header = Box::leak(Box::new(TaskHeader { run: never, request: RequestId(number), is_box: false }));
        #[expect(unsafe_code, reason = "makes a task")]
        // SAFETY: it is leaked, and never run.
        unsafe {
            TaskRef::new(NonNull::from(header))
        }
    }

    pub(crate) fn number(task: TaskRef) -> u64 {
        task.header().request.0
    }

    #[cfg(not(loom))]
    #[test]
    fn the_owner_takes_the_youngest_and_a_thief_the_oldest() {
        let deque = Deque::new();
        (0..4).for_each(|n| deque.push(task(n)).unwrap());
        assert_eq!(deque.steal().map(number), Some(0));
        assert_eq!(deque.pop().map(number), Some(3));
        assert_eq!(deque.steal().map(number), Some(1));
        assert_eq!(deque.pop().map(number), Some(2));
        assert!(deque.pop().is_none() && deque.steal().is_none() && deque.is_empty());
    }

    #[cfg(not(loom))]
    #[test]
    fn a_full_ring_refuses() {
        let deque = Deque::new();
        (0..CAPACITY as u64).for_each(|n| deque.push(task(n)).unwrap());
        assert!(deque.push(task(9)).is_err());
        assert_eq!(deque.steal().map(number), Some(0));
        deque.push(task(9)).unwrap();
        assert_eq!(deque.pop().map(number), Some(9));
    }

    /// Pushes three tasks and pops, while thieves take; every task must come out once.
    #[cfg(loom)]
    fn take_apart(thieves: usize) {
        let deque = loom::sync::Arc::new(Deque::new());
        let thieves: Vec<_> = (0..thieves)
            .map(|_| {
                let deque = deque.clone();
                loom::thread::spawn(move || deque.steal().map(number))
            })
            .collect();
        let mut taken = Vec::new();
        for n in 0..3 {
            // The ring holds two: a refused task is the caller's own to run.
            if deque.push(task(n)).is_err() {
                taken.push(n);
            }
        }
        taken.extend(deque.pop().map(number));
        taken.extend(thieves.into_iter().filter_map(|thief| thief.join().unwrap()));
        taken.extend(std::iter::from_fn(|| deque.pop().map(number)));
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2]);
    }

    /// What this found: a thief that read the bottom from a pop, and not from a push, took a slot that it could not see.
    #[cfg(loom)]
    #[test]
    fn loom_every_task_is_taken_once() {
        loom::model(|| take_apart(1));
    }

    #[cfg(loom)]
    #[test]
    fn loom_two_thieves_never_take_the_same_task() {
        // Every interleaving would take minutes.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| take_apart(2));
    }
}
