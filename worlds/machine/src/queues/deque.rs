//! A seat's own queue: the owner pushes and pops at one end, thieves take at the other.
//!
//! It has two parts. The owner pushes and pops *private* tasks with plain loads and stores; thieves take *public* tasks
//! with one exchange of a word. The owner makes tasks public when a thief wants some, and takes half of them back when
//! it has nothing else. So a program with enough work for all threads pays for no fence at all.
//!
//! After van Dijk and van de Pol, "Lace: Non-blocking Split Deque for Work-Stealing", Euro-Par 2014 workshops, §3: the
//! split point, and the word for the taken and the public tasks. We differ: an owner busy with one long task does not
//! notice thieves, so a thief can move the split point itself. It stops the owner's pops ([`HELD`]), makes the owner's
//! stores visible by a barrier in every running thread ([`Barrier`]), and then reads the remaining tasks. The owner
//! pays for this with one look at a word after each pop. And the ring has a fixed size: a full one refuses, and the
//! caller runs the task itself. So there is no growth and nothing to reclaim.

use crate::queues::sleep::Barrier;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Padded, light_fence, yield_now};
use std::ptr::NonNull;
use vicus_schedule::{TaskHeader, TaskRef};

/// Capacity of a seat's own queue in tasks: 32 KiB of words. Loom sees a small one, so that it wraps and fills.
pub(crate) const CAPACITY: usize = if cfg!(loom) { 2 } else { 4096 };

/// A seat's queue of immediate tasks, open to thieves.
pub struct Deque {
    /// The public part, a [`Public`].
    public: Padded<AtomicU64>,
    /// [`NOT_WANTED`], [`WANTED`], or the side moving the split point.
    wanted: Padded<AtomicU32>,
    own: Padded<Own>,
    slots: Box<[AtomicPtr<TaskHeader>; CAPACITY]>,
}

/// Written by the owner, and by a thief only while it holds the split point.
struct Own {
    /// The number of the next push. Numbers wrap round; only differences count.
    bottom: AtomicU32,
    /// Tasks from here on are private. Invariant: the end of the public part, except while one side moves the split
    /// point.
    split: AtomicU32,
}

/// No thief wants tasks.
const NOT_WANTED: u32 = 0;
/// A thief found nothing.
const WANTED: u32 = 1;
/// A thief moves the split point: the owner waits.
const HELD: u32 = 2;
/// The owner moves the split point.
const OWNER: u32 = 3;

/// The public part: `len` tasks from `top` on.
///
/// A thief reads a slot and then exchanges the word. If the owner has meanwhile taken the slot's task back, put another
/// one there and made it public, the exchange must fail. So each take-back moves the owner's numbers on by a lap of the
/// ring.
#[derive(Clone, Copy)]
struct Public {
    /// Only 48 bits are stored.
    top: u64,
    len: u32,
}

impl Public {
    fn of(word: u64) -> Public {
        Public { top: word >> LEN_BITS, len: (word & ((1 << LEN_BITS) - 1)) as u32 }
    }

    fn word(self) -> u64 {
        self.top << LEN_BITS | u64::from(self.len)
    }

    /// The number of its first task, as the owner counts.
    fn first(self) -> u32 {
        self.top as u32
    }
}

/// The bits of the word for the number of tasks: more than the ring needs.
const LEN_BITS: u32 = 16;
const _: () = assert!(CAPACITY < 1 << LEN_BITS);

impl Deque {
    pub(crate) fn new() -> Deque {
        Deque {
            public: Padded(AtomicU64::new(0)),
            wanted: Padded(AtomicU32::new(NOT_WANTED)),
            own: Padded(Own { bottom: AtomicU32::new(0), split: AtomicU32::new(0) }),
            slots: Box::new(std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut()))),
        }
    }

    fn slot(&self, at: u32) -> &AtomicPtr<TaskHeader> {
        &self.slots[at as usize & (CAPACITY - 1)]
    }

    /// The task of a slot, written there by `push`.
    pub(crate) fn task(pointer: *mut TaskHeader) -> TaskRef {
        let header = NonNull::new(pointer).expect("a slot between top and bottom was written");
        #[expect(unsafe_code, reason = "a slot's word becomes a task again")]
        // SAFETY: `push` wrote the word from a `TaskRef`, and its task stays alive while it is queued, by its maker's
        // promise.
        unsafe {
            TaskRef::new(header)
        }
    }

    /// The owner's push. Gives the task back if the ring is full. No fence and no read-modify-write, unless a thief
    /// wants tasks.
    #[inline]
    pub fn push(&self, task: TaskRef) -> Result<(), TaskRef> {
        let bottom = self.own.0.bottom.load(Ordering::Relaxed);
        // Acquire: the thief of a taken task has read its slot. An old value makes the ring seem fuller.
        let top = Public::of(self.public.0.load(Ordering::Acquire)).first();
        if bottom.wrapping_sub(top) >= CAPACITY as u32 {
            return Err(task);
        }
        self.slot(bottom).store(task.as_ptr().as_ptr(), Ordering::Relaxed);
        self.own.0.bottom.store(bottom.wrapping_add(1), Ordering::Release);
        if self.wanted.0.load(Ordering::Relaxed) != NOT_WANTED {
            self.share(false);
        }
        Ok(())
    }

    /// The owner's pop: the youngest task.
    #[inline]
    pub fn pop(&self) -> Option<TaskRef> {
        let own = &self.own.0;
        let end = own.bottom.load(Ordering::Relaxed);
        if end == own.split.load(Ordering::Relaxed) {
            return self.pop_public();
        }
        own.bottom.store(end.wrapping_sub(1), Ordering::Release);
        // A thief that stops the owner after this sees the store: its barrier is the other half of this fence.
        light_fence();
        // Acquire: the split point of a thief that has moved it and let go of it meanwhile.
        if self.wanted.0.load(Ordering::Acquire) != NOT_WANTED {
            return self.pop_wanted(end);
        }
        if own.split.load(Ordering::Relaxed) == end {
            // A thief moved the split point between the two reads of it.
            own.bottom.store(end, Ordering::Release);
            return self.pop_public();
        }
        Some(Deque::task(self.slot(end.wrapping_sub(1)).load(Ordering::Relaxed)))
    }

    /// The owner's look at the youngest task, the result of a pop unless a thief takes it. It may have been taken: the
    /// pop tells.
    #[inline]
    pub fn youngest(&self) -> Option<TaskRef> {
        let end = self.own.0.bottom.load(Ordering::Relaxed);
        if end == self.own.0.split.load(Ordering::Relaxed) {
            return None;
        }
        Some(Deque::task(self.slot(end.wrapping_sub(1)).load(Ordering::Relaxed)))
    }

    /// Goes on with a pop when thieves want tasks.
    #[cold]
    fn pop_wanted(&self, end: u32) -> Option<TaskRef> {
        let own = &self.own.0;
        while self.wanted.0.load(Ordering::Acquire) == HELD {
            yield_now();
        }
        if own.split.load(Ordering::Relaxed) == end {
            // The thief has made this task public.
            own.bottom.store(end, Ordering::Release);
            return self.pop_public();
        }
        let task = Deque::task(self.slot(end.wrapping_sub(1)).load(Ordering::Relaxed));
        self.share(false);
        Some(task)
    }

    /// Takes half of the public tasks back, and pops.
    #[cold]
    fn pop_public(&self) -> Option<TaskRef> {
        let own = &self.own.0;
        let is_held = self.wanted.0.load(Ordering::Acquire) == HELD;
        if !is_held && Public::of(self.public.0.load(Ordering::Relaxed)).len == 0 {
            // Only the owner, or a thief out of private tasks, could make it longer; and there are none.
            return None;
        }
        let before = self.hold();
        let mut word = self.public.0.load(Ordering::Relaxed);
        let (back, public) = loop {
            let public = Public::of(word);
            let back = public.len.div_ceil(2);
            let less = Public { top: public.top + CAPACITY as u64, len: public.len - back };
            match self.public.0.compare_exchange_weak(word, less.word(), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => break (back, less),
                Err(other) => word = other,
            }
        };
        own.split.store(public.first().wrapping_add(public.len), Ordering::Relaxed);
        // One lap on: the slots are the same.
        let end = own.bottom.load(Ordering::Relaxed).wrapping_add(CAPACITY as u32);
        own.bottom.store(end, Ordering::Release);
        let task = (back > 0).then(|| {
            let youngest = end.wrapping_sub(1);
            own.bottom.store(youngest, Ordering::Release);
            Deque::task(self.slot(youngest).load(Ordering::Relaxed))
        });
        // Release: the next thief to hold the split point sees both ends.
        self.wanted.0.store(if public.len == 0 { before } else { NOT_WANTED }, Ordering::Release);
        task
    }

    /// The owner takes hold of the split point. Returns whether tasks were wanted.
    fn hold(&self) -> u32 {
        loop {
            let before = self.wanted.0.load(Ordering::Relaxed);
            let free = before != HELD;
            if free && self.wanted.0.compare_exchange_weak(before, OWNER, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return before;
            }
            // A thief holds it for the time of a barrier.
            yield_now();
        }
    }

    /// The owner makes private tasks public: all, or the older half.
    #[cold]
    pub(crate) fn share(&self, all: bool) {
        let own = &self.own.0;
        if own.bottom.load(Ordering::Relaxed) == own.split.load(Ordering::Relaxed) {
            return;
        }
        let before = self.hold();
        let (bottom, split) = (own.bottom.load(Ordering::Relaxed), own.split.load(Ordering::Relaxed));
        let private = bottom.wrapping_sub(split);
        let shared = if all { private } else { private.div_ceil(2) };
        self.publish(split, shared);
        // A thief may have made all tasks public meanwhile.
        self.wanted.0.store(if shared == 0 { before } else { NOT_WANTED }, Ordering::Release);
    }

    /// Moves the split point, held by the caller, by this number of tasks.
    fn publish(&self, split: u32, tasks: u32) {
        self.own.0.split.store(split.wrapping_add(tasks), Ordering::Relaxed);
        // Release: a thief sees a taken task's slot, and the task's memory. Tasks taken meanwhile by thieves stay
        // taken.
        self.public.0.fetch_add(u64::from(tasks), Ordering::AcqRel);
    }

    /// A thief's take: the oldest public task. Tries again when another thief was quicker, until it gets one or nothing
    /// is left; then it notes its wish for some.
    pub(crate) fn steal(&self) -> Option<TaskRef> {
        let task = self.take_oldest();
        if task.is_none() && self.wanted.0.load(Ordering::Relaxed) == NOT_WANTED {
            // If this fails, another thief or the owner has changed the word: no second try.
            let _ = self.wanted.0.compare_exchange(NOT_WANTED, WANTED, Ordering::Relaxed, Ordering::Relaxed);
        }
        task
    }

    fn take_oldest(&self) -> Option<TaskRef> {
        let mut word = self.public.0.load(Ordering::Acquire);
        loop {
            let public = Public::of(word);
            if public.len == 0 {
                return None;
            }
            let task = self.slot(public.first()).load(Ordering::Relaxed);
            let next = Public { top: public.top + 1, len: public.len - 1 };
            match self.public.0.compare_exchange_weak(word, next.word(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(Deque::task(task)),
                Err(other) => word = other,
            }
        }
    }

    /// Like [`Deque::steal`]; but if the owner has private tasks and is too busy to make them public, this does it: for
    /// a thief about to sleep. It costs a system call that interrupts all running threads.
    pub(crate) fn steal_held(&self, barrier: &Barrier) -> Option<TaskRef> {
        let own = &self.own.0;
        let task = self.take_oldest();
        let is_empty = || own.bottom.load(Ordering::Relaxed) == own.split.load(Ordering::Relaxed);
        if task.is_some() || is_empty() || !barrier.is_expedited() {
            return task;
        }
        let before = self.wanted.0.load(Ordering::Relaxed);
        if before >= HELD || self.wanted.0.compare_exchange(before, HELD, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            // Another thread makes tasks public at this moment.
            return self.take_oldest();
        }
        barrier.everyone();
        // The barrier has made visible all of the owner's steps before it saw [`HELD`]; its next steps come after this.
        let (bottom, split) = (own.bottom.load(Ordering::Acquire), own.split.load(Ordering::Relaxed));
        let private = bottom.wrapping_sub(split);
        // While the owner pops its only task, its bottom may stand one before the split for a moment.
        let private = if private > CAPACITY as u32 { 0 } else { private };
        if private > 0 {
            self.publish(split, private.div_ceil(2));
        }
        self.wanted.0.store(NOT_WANTED, Ordering::Release);
        self.take_oldest()
    }

    /// Whether it holds nothing. A hint unless the caller is the owner.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many tasks it holds. A hint.
    pub(crate) fn len(&self) -> usize {
        let top = Public::of(self.public.0.load(Ordering::Acquire)).first();
        let len = self.own.0.bottom.load(Ordering::Acquire).wrapping_sub(top);
        usize::try_from(len.cast_signed()).unwrap_or(0)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use vicus_schedule::{ContextRef, RequestId, TaskClass};

    #[expect(unsafe_code, reason = "the type of a class's functions")]
    // SAFETY of callers: no condition: it is never called.
    unsafe fn never(_: TaskRef) {
        unreachable!("these tasks are only moved");
    }

    static MOVED: TaskClass = TaskClass { run: never, runs_inline: true, is_unwanted: None };

    /// An immortal task with a number.
    pub(crate) fn task(number: u64) -> TaskRef {
        let (request, number) = (RequestId::new(number), TaskHeader::UNNUMBERED);
        let header = Box::leak(Box::new(TaskHeader {
            class: &MOVED,
            context: ContextRef::NONE,
            request,
            number,
            has_data: false,
        }));
        #[expect(unsafe_code, reason = "makes a task")]
        // SAFETY: it is leaked, and never run.
        unsafe {
            TaskRef::new(NonNull::from(header))
        }
    }

    pub(crate) fn number(task: TaskRef) -> u64 {
        task.header().request.number()
    }

    #[cfg(not(loom))]
    #[test]
    fn the_owner_takes_the_youngest_and_a_thief_the_oldest() {
        let deque = Deque::new();
        (0..4).for_each(|n| deque.push(task(n)).unwrap());
        deque.share(true);
        assert_eq!(deque.steal().map(number), Some(0));
        assert_eq!(deque.pop().map(number), Some(3));
        assert_eq!(deque.steal().map(number), Some(1));
        assert_eq!(deque.pop().map(number), Some(2));
        assert!(deque.pop().is_none() && deque.steal().is_none() && deque.is_empty());
    }

    #[cfg(not(loom))]
    #[test]
    fn the_owner_shares_half_when_a_thief_wants_tasks() {
        let deque = Deque::new();
        (0..4).for_each(|n| deque.push(task(n)).unwrap());
        assert!(deque.steal().is_none(), "no thief wanted any before");
        deque.push(task(4)).unwrap();
        let stolen: Vec<u64> = std::iter::from_fn(|| deque.take_oldest()).map(number).collect();
        assert_eq!(stolen, [0, 1, 2]);
        assert_eq!(
            [deque.pop().map(number), deque.pop().map(number), deque.pop().map(number)],
            [Some(4), Some(3), None]
        );
    }

    #[cfg(not(loom))]
    #[test]
    fn a_thief_shares_out_what_a_busy_owner_keeps() {
        let (deque, barrier) = (Deque::new(), Barrier::new());
        (0..4).for_each(|n| deque.push(task(n)).unwrap());
        let stolen = deque.steal_held(&barrier).map(number);
        assert_eq!(stolen, barrier.is_expedited().then_some(0));
        assert_eq!(deque.pop().map(number), Some(3));
    }

    #[cfg(not(loom))]
    #[test]
    fn a_full_ring_refuses() {
        let deque = Deque::new();
        (0..CAPACITY as u64).for_each(|n| deque.push(task(n)).unwrap());
        assert!(deque.push(task(9)).is_err());
        deque.share(true);
        assert_eq!(deque.steal().map(number), Some(0));
        deque.push(task(9)).unwrap();
        assert_eq!(deque.pop().map(number), Some(9));
    }

    /// Pushes three tasks and pops, while thieves take; every task must come out once.
    #[cfg(loom)]
    fn take_apart(thieves: usize, steal: fn(&Deque, &Barrier) -> Option<TaskRef>, shares: bool) {
        let deque = loom::sync::Arc::new(Deque::new());
        let thieves: Vec<_> = (0..thieves)
            .map(|_| {
                let deque = deque.clone();
                loom::thread::spawn(move || steal(&deque, &Barrier::new()).map(number))
            })
            .collect();
        let mut taken = Vec::new();
        for n in 0..3 {
            // The ring holds two: a refused task is the caller's own to run.
            if deque.push(task(n)).is_err() {
                taken.push(n);
            }
            if shares {
                deque.share(true);
            }
        }
        taken.extend(deque.pop().map(number));
        taken.extend(thieves.into_iter().filter_map(|thief| thief.join().unwrap()));
        taken.extend(std::iter::from_fn(|| deque.pop().map(number)));
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2]);
    }

    #[cfg(loom)]
    fn model(preemptions: usize, thieves: usize, steal: fn(&Deque, &Barrier) -> Option<TaskRef>, shares: bool) {
        // Bounded: all interleavings would take minutes.
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        model.check(move || take_apart(thieves, steal, shares));
    }

    #[cfg(loom)]
    #[test]
    fn loom_every_public_task_is_taken_once() {
        model(3, 1, |deque, _| deque.steal(), true);
        model(2, 2, |deque, _| deque.steal(), true);
    }

    /// A fault of the past: a thief read a slot, the owner took the task back, put another one there and made it
    /// public; the word was the same again, and the thief took the first task a second time.
    #[cfg(loom)]
    #[test]
    fn loom_a_slot_that_is_used_again_is_not_mistaken() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let deque = loom::sync::Arc::new(Deque::new());
            let thief = {
                let deque = deque.clone();
                loom::thread::spawn(move || deque.steal().map(number))
            };
            let mut taken = Vec::new();
            for n in 0..2 {
                for n in [n, n + 10] {
                    if deque.push(task(n)).is_err() {
                        taken.push(n);
                    }
                    deque.share(true);
                    if n < 10 {
                        taken.extend(deque.pop().map(number));
                    }
                }
            }
            taken.extend(thief.join().unwrap());
            taken.extend(std::iter::from_fn(|| deque.pop().map(number)));
            taken.sort_unstable();
            assert_eq!(taken, [0, 1, 10, 11]);
        });
    }

    #[cfg(loom)]
    #[test]
    fn loom_a_wish_is_answered_and_every_task_taken_once() {
        model(3, 1, |deque, _| deque.steal().or_else(|| deque.steal()), false);
    }

    #[cfg(loom)]
    #[test]
    fn loom_a_thief_that_holds_the_split_point_takes_no_task_twice() {
        model(3, 1, |deque, barrier| deque.steal_held(barrier), false);
        model(3, 1, |deque, barrier| deque.steal_held(barrier), true);
        model(2, 2, |deque, barrier| deque.steal_held(barrier), false);
    }
}
