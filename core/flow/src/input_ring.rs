//! One input's buffer: a bounded ring between one sender and one receiver.
//!
//! A box runs on one thread at a time and an input has one sender, so there is one producer and one consumer, and these
//! change threads only through a queue. The bound is in bytes and in envelopes; back-pressure and early stop are the
//! values [`Put::Full`] and [`Put::Closed`], never a wait.
//!
//! Refuse and resume: a sender without room *first* notes this ([`InputRing::put`] sets `refused`), then changes the
//! state word of the receiver ([`StateWord::tell_of_refusal`](crate::state::StateWord::tell_of_refusal)), and *then*
//! looks once more; a receiver *first* makes room, *then* looks whether a sender was refused. All changes of a state
//! word have one order. If the receiver's run ends before the sender's change, the sender sees the room. If it begins
//! after it, the run sees `refused` when it takes. If the change comes between, the run's end sees it and looks again.
//! So a take has no fence: it would be the costliest step of a short invocation. A receiver that closes may do so at
//! any time of its run; there a full fence on each side means that at least one of them sees the other.

use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering, Padded, UnsafeCell, fence};
use std::mem::MaybeUninit;

/// The result of putting an envelope.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub enum Put<T> {
    /// The receiver accepts the value: it is in its buffer.
    Taken,
    /// The buffer has no room; the receiver resumes the sender when it has.
    Full(T),
    /// The receiver accepts no more.
    Closed(T),
}

/// A value popped from a ring by its receiver.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Popped<T> {
    pub(crate) value: T,
    /// The size of the value when it was put.
    pub(crate) bytes: u64,
    /// A refused sender is to be resumed.
    pub(crate) resumes: bool,
}

/// The bound of an input's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The most envelopes; at least 1 and at most 65,536. Their slots are allocated at the beginning.
    pub envelopes: usize,
    /// The most bytes; one envelope always fits.
    pub bytes: u64,
}

impl Default for Bound {
    /// 8 envelopes, 4 MiB.
    fn default() -> Bound {
        Bound { envelopes: 8, bytes: 4 << 20 }
    }
}

/// A value with a size.
pub(crate) trait Load {
    fn bytes(&self) -> u64;
}

type Slot<T> = UnsafeCell<MaybeUninit<(T, u64)>>;

/// This number of slots lies in the ring itself: allocating them would take longer than all puts of a short request.
const FEW: usize = 8;

#[derive(Debug)]
enum Slots<T> {
    Few([Slot<T>; FEW]),
    Many(Box<[Slot<T>]>),
}

impl<T> Slots<T> {
    /// At least `count` slots: a power of two.
    fn new(count: usize) -> Slots<T> {
        let slot = |_| UnsafeCell::new(MaybeUninit::uninit());
        match count {
            ..=FEW => Slots::Few(std::array::from_fn(slot)),
            _ => Slots::Many((0..count.next_power_of_two()).map(slot).collect()),
        }
    }

    /// The slot with this number, modulo the ring's size.
    #[inline]
    fn at(&self, number: usize) -> &Slot<T> {
        match self {
            Slots::Few(slots) => &slots[number % FEW],
            Slots::Many(slots) => &slots[number & (slots.len() - 1)],
        }
    }
}

#[derive(Debug)]
pub(crate) struct InputRing<T> {
    /// Each has the bytes of its value. Invariant: a power of two of them, so a slot is found without a division; at
    /// least `bound.envelopes`.
    slots: Slots<T>,
    bound: Bound,
    /// Only the producer writes it.
    put: Padded<Side>,
    /// Only the consumer writes it.
    taken: Padded<Side>,
    /// A sender was refused and waits to be resumed.
    refused: AtomicBool,
    /// The receiver accepts no more.
    closed: AtomicBool,
}

/// How many values and bytes have passed one end, ever growing; behind the greatest number comes 0.
#[derive(Debug)]
struct Side {
    envelopes: AtomicUsize,
    bytes: AtomicU64,
}

#[expect(unsafe_code, reason = "slots are shared between the two ends")]
// SAFETY: the producer touches only slots outside taken..put, the consumer only slots inside; each side learns of the
// other's progress by an acquire load of a counter stored with release. `T: Send` lets values cross.
unsafe impl<T: Send> Sync for InputRing<T> {}

impl<T: Load> InputRing<T> {
    pub(crate) fn new(bound: Bound) -> InputRing<T> {
        let side = || Padded(Side { envelopes: AtomicUsize::new(0), bytes: AtomicU64::new(0) });
        let bound = Bound { envelopes: bound.envelopes.clamp(1, 1 << 16), ..bound };
        InputRing {
            slots: Slots::new(bound.envelopes),
            bound,
            put: side(),
            taken: side(),
            refused: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    /// The producer's end. `tell` changes the receiver's state word.
    pub(crate) fn put(&self, value: T, tell: impl FnOnce()) -> Put<T> {
        if self.closed.load(Ordering::Acquire) {
            return Put::Closed(value);
        }
        let size = value.bytes();
        if !self.has_room(size) {
            // Release: a receiver that resumes the sender sees that this is the sender: a box that grows hands its
            // outputs over.
            self.refused.store(true, Ordering::Release);
            tell();
            fence(Ordering::SeqCst);
            if !self.has_room(size) && !self.closed.load(Ordering::Acquire) {
                return Put::Full(value);
            }
            // The receiver was quicker. If it has seen the flag, its resume has no effect.
            self.refused.store(false, Ordering::Relaxed);
            if self.closed.load(Ordering::Acquire) {
                return Put::Closed(value);
            }
        }
        let at = self.put.0.envelopes.load(Ordering::Relaxed);
        let bytes = self.put.0.bytes.load(Ordering::Relaxed).wrapping_add(size);
        self.put.0.bytes.store(bytes, Ordering::Relaxed);
        self.slot(at).with_mut(|slot| {
            #[expect(unsafe_code, reason = "a slot is raw memory until it is put")]
            // SAFETY: `has_room` saw fewer than `envelopes` values between taken and put, so this slot is outside the
            // consumer's range, and its acquire load saw the consumer's last use of it.
            unsafe {
                (*slot).write((value, size));
            }
        });
        self.put.0.envelopes.store(at.wrapping_add(1), Ordering::Release);
        Put::Taken
    }

    #[inline]
    fn slot(&self, at: usize) -> &Slot<T> {
        self.slots.at(at)
    }

    fn has_room(&self, bytes: u64) -> bool {
        let taken = self.taken.0.envelopes.load(Ordering::Acquire);
        let held = self.put.0.envelopes.load(Ordering::Relaxed).wrapping_sub(taken);
        let held_bytes =
            self.put.0.bytes.load(Ordering::Relaxed).wrapping_sub(self.taken.0.bytes.load(Ordering::Relaxed));
        held == 0 || (held < self.bound.envelopes && held_bytes + bytes <= self.bound.bytes)
    }

    /// The consumer's end: the oldest value, if there is one.
    pub(crate) fn head(&self) -> Option<&T> {
        let at = self.taken.0.envelopes.load(Ordering::Relaxed);
        (at != self.put.0.envelopes.load(Ordering::Acquire)).then(|| {
            self.slot(at).with(|slot| {
                #[expect(unsafe_code, reason = "a slot between taken and put holds a value")]
                // SAFETY: at != put, so the producer wrote this slot before its release store; it writes it again only
                // after `take`, and `take` needs the consumer, borrowed here.
                unsafe {
                    &(*slot).assume_init_ref().0
                }
            })
        })
    }

    /// The consumer's end: takes the oldest value.
    pub(crate) fn take(&self) -> Option<Popped<T>> {
        let at = self.taken.0.envelopes.load(Ordering::Relaxed);
        if at == self.put.0.envelopes.load(Ordering::Acquire) {
            return None;
        }
        let (value, size) = self.slot(at).with(|slot| {
            #[expect(unsafe_code, reason = "moves the value out of its slot")]
            // SAFETY: as in `head`; the release store below gives the slot back to the producer.
            unsafe {
                (*slot).assume_init_read()
            }
        });
        let bytes = self.taken.0.bytes.load(Ordering::Relaxed).wrapping_add(size);
        self.taken.0.bytes.store(bytes, Ordering::Relaxed);
        self.taken.0.envelopes.store(at.wrapping_add(1), Ordering::Release);
        Some(Popped { value, bytes: size, resumes: self.takes_refusal() })
    }

    /// The consumer's end: accepts no more, and drops the values in the ring. Returns whether a refused sender is to be
    /// resumed.
    pub(crate) fn close(&self) -> bool {
        self.closed.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        let mut waits = self.takes_refusal();
        while let Some(popped) = self.take() {
            waits |= popped.resumes;
        }
        waits
    }

    /// The consumer's end: whether a refused sender is to be resumed; true once for each refusal.
    pub(crate) fn takes_refusal(&self) -> bool {
        // Read before write: the line stays shared as long as no sender is refused.
        self.refused.load(Ordering::Relaxed) && self.refused.swap(false, Ordering::AcqRel)
    }

    /// The bytes of its values. Exact if neither end moves.
    pub(crate) fn bytes(&self) -> u64 {
        self.put.0.bytes.load(Ordering::Relaxed).wrapping_sub(self.taken.0.bytes.load(Ordering::Relaxed))
    }

    /// Its bound.
    pub(crate) fn bound(&self) -> Bound {
        self.bound
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.taken.0.envelopes.load(Ordering::Acquire) == self.put.0.envelopes.load(Ordering::Acquire)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

impl<T> Drop for InputRing<T> {
    fn drop(&mut self) {
        let end = self.put.0.envelopes.load(Ordering::Relaxed);
        let mut at = self.taken.0.envelopes.load(Ordering::Relaxed);
        while at != end {
            self.slots.at(at).with_mut(|slot| {
                #[expect(unsafe_code, reason = "drops what was never taken")]
                // SAFETY: slots between taken and put hold values, and `&mut self` excludes both ends.
                unsafe {
                    (*slot).assume_init_drop();
                }
            });
            at = at.wrapping_add(1);
        }
    }
}

#[cfg(test)]
impl Load for u64 {
    fn bytes(&self) -> u64 {
        *self
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_in_envelopes_and_in_bytes() {
        let ring = InputRing::new(Bound { envelopes: 2, bytes: 10 });
        assert_eq!(ring.put(4, || {}), Put::Taken);
        assert_eq!(ring.put(7, || {}), Put::Full(7), "4 + 7 bytes are more than 10");
        assert_eq!(ring.put(6, || {}), Put::Taken);
        assert_eq!(ring.put(0, || {}), Put::Full(0), "two envelopes are there");
        let popped = |value, resumes| Some(Popped { value, bytes: value, resumes });
        assert_eq!(ring.take(), popped(4, true), "the refused sender is to be resumed");
        assert_eq!(ring.take(), popped(6, false), "once");
        assert_eq!(ring.put(100, || {}), Put::Taken, "an envelope that is larger than the bound passes alone");
        assert_eq!(ring.head(), Some(&100));
    }

    /// A request may run for as long as it takes to count to the end.
    #[test]
    fn counts_go_on_behind_the_greatest_number() {
        for envelopes in [2, 8, 9] {
            let ring = InputRing::new(Bound { envelopes, bytes: 100 });
            for side in [&ring.put.0, &ring.taken.0] {
                side.envelopes.store(usize::MAX - 20, Ordering::Relaxed);
                side.bytes.store(u64::MAX - 300, Ordering::Relaxed);
            }
            let (mut sent, mut taken) = (0, 0);
            while taken < 100 {
                // 13 bytes and one more each time, up to 22.
                while ring.put(13 + sent % 10, || {}) == Put::Taken {
                    sent += 1;
                }
                let waiting: u64 = (taken..sent).map(|value| 13 + value % 10).sum();
                let count = (sent - taken) as usize;
                assert!(ring.bytes() == waiting && waiting <= 100 && count <= envelopes);
                assert!(count == envelopes || waiting + 13 + sent % 10 > 100, "it refused because it was full");
                assert_eq!(ring.take().map(|popped| popped.value), Some(13 + taken % 10));
                taken += 1;
            }
        }
    }

    #[test]
    fn a_closed_ring_takes_nothing_and_wakes_its_sender() {
        let ring = InputRing::new(Bound { envelopes: 1, bytes: 10 });
        assert_eq!(ring.put(1, || {}), Put::Taken);
        assert_eq!(ring.put(2, || {}), Put::Full(2));
        assert!(ring.close());
        assert!(ring.is_empty());
        assert_eq!(ring.put(2, || {}), Put::Closed(2));
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::state::{Sending, StateWord};
    use loom::sync::{Arc, Mutex};

    /// A box that sends, one that takes an envelope in each run, and a queue of those that are to be run.
    struct Pair {
        ring: InputRing<u64>,
        sender: StateWord,
        receiver: StateWord,
        /// The values still to be sent. Guarded by the sender's state word: only its runner touches them.
        pending: UnsafeCell<Vec<u64>>,
        /// The values taken, guarded by the receiver's.
        seen: UnsafeCell<Vec<u64>>,
        queue: Mutex<Vec<Task>>,
    }

    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Task {
        Sender,
        Receiver,
    }

    impl Pair {
        fn queue(&self, task: Task) {
            self.queue.lock().unwrap().push(task);
        }

        fn send(&self) {
            self.sender.begin();
            let blocked = self.pending.with_mut(|pending| {
                #[expect(unsafe_code, reason = "the state word makes this exclusive; loom checks it")]
                // SAFETY: between begin and finish of the sender's word.
                let pending = unsafe { &mut *pending };
                while let Some(value) = pending.pop() {
                    match self.ring.put(value, || self.receiver.tell_of_refusal()) {
                        Put::Taken if self.receiver.arrive().0 => self.queue(Task::Receiver),
                        Put::Taken => {}
                        Put::Full(value) => {
                            pending.push(value);
                            return true;
                        }
                        Put::Closed(_) => unreachable!("it is not closed"),
                    }
                }
                false
            });
            if self.sender.finish(blocked, false).0 {
                self.queue(Task::Sender);
            }
        }

        fn receive(&self) {
            self.receiver.begin();
            let resume = || {
                if self.sender.resume().0 {
                    self.queue(Task::Sender);
                }
            };
            let taken = self.ring.take();
            let has_taken = taken.is_some();
            if let Some(popped) = taken {
                self.seen.with_mut(|seen| {
                    #[expect(unsafe_code, reason = "the state word makes this exclusive; loom checks it")]
                    // SAFETY: between begin and finish of the receiver's word.
                    unsafe {
                        (*seen).push(popped.value);
                    }
                });
                if popped.resumes {
                    resume();
                }
            }
            let due = has_taken && !self.ring.is_empty();
            let look = || {
                if has_taken && self.ring.takes_refusal() {
                    resume();
                }
            };
            if self.receiver.finish_as(Sending::Done, due, false, look).0 {
                self.queue(Task::Receiver);
            }
        }

        fn work(&self) {
            loop {
                let next = self.queue.lock().unwrap().pop();
                match next {
                    Some(Task::Sender) => self.send(),
                    Some(Task::Receiver) => self.receive(),
                    None => return,
                }
            }
        }
    }

    /// A sender box and a receiver that consumes: no envelope is lost or reordered, and a refused sender is resumed.
    #[test]
    fn loom_a_refused_sender_is_resumed() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let pair = Arc::new(Pair {
                ring: InputRing::new(Bound { envelopes: 1, bytes: 100 }),
                sender: StateWord::new(),
                receiver: StateWord::new(),
                pending: UnsafeCell::new(vec![3, 2, 1]),
                seen: UnsafeCell::new(Vec::new()),
                queue: Mutex::new(Vec::new()),
            });
            assert!(pair.sender.arrive().0);
            pair.queue(Task::Sender);
            let thread = {
                let pair = pair.clone();
                loom::thread::spawn(move || pair.work())
            };
            pair.work();
            thread.join().unwrap();
            assert!(pair.queue.lock().unwrap().is_empty(), "each thread works until nothing is queued");
            pair.seen.with(|seen| {
                #[expect(unsafe_code, reason = "all threads have ended")]
                // SAFETY: nothing runs any more.
                unsafe {
                    assert_eq!(*seen, [1, 2, 3]);
                }
            });
            assert!(pair.sender.is_idle() && pair.receiver.is_idle());
        });
    }

    /// A receiver closes: a refused sender is resumed and learns it.
    #[test]
    fn loom_a_close_reaches_a_refused_sender() {
        loom::model(|| {
            let ring = Arc::new(InputRing::new(Bound { envelopes: 1, bytes: 100 }));
            let _ = ring.put(1u64, || {});
            let receiver = {
                let ring = ring.clone();
                loom::thread::spawn(move || ring.close())
            };
            let refused = matches!(ring.put(2, || {}), Put::Full(_));
            let resumed = receiver.join().unwrap();
            // A resume without a refusal has no effect; a refusal without a resume would be a hang.
            assert!(resumed || !refused);
            assert_eq!(ring.put(3, || {}), Put::Closed(3));
        });
    }
}
