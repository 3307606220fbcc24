//! One input's buffer: a bounded ring between one sender and one receiver.
//!
//! A box runs on one thread at a time and an input has one sender, so there is one producer and one consumer, and these
//! change threads only through a queue. The bound is in bytes and in envelopes; back-pressure and early stop are the
//! values [`Put::Full`] and [`Put::Closed`], never a wait.
//!
//! Refuse and resume: a sender without room *first* notes this ([`InputRing::put`] sets `refused`), *then* looks once
//! more; a receiver *first* makes room, *then* looks whether a sender was refused. A full fence between the two steps
//! on each side means that at least one of them sees the other.

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

/// How many values and bytes have passed one end, ever growing.
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

    /// The producer's end.
    pub(crate) fn put(&self, value: T) -> Put<T> {
        if self.closed.load(Ordering::Acquire) {
            return Put::Closed(value);
        }
        let size = value.bytes();
        if !self.has_room(size) {
            // Release: a receiver that resumes the sender sees that this is the sender (a part hands its outputs over).
            self.refused.store(true, Ordering::Release);
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
        let bytes = self.put.0.bytes.load(Ordering::Relaxed) + size;
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
        let bytes = self.taken.0.bytes.load(Ordering::Relaxed) + size;
        self.taken.0.bytes.store(bytes, Ordering::Relaxed);
        self.taken.0.envelopes.store(at.wrapping_add(1), Ordering::Release);
        Some(Popped { value, bytes: size, resumes: self.sender_waits() })
    }

    /// The consumer's end: accepts no more, and drops the values in the ring. Returns whether a refused sender is to be
    /// resumed.
    pub(crate) fn close(&self) -> bool {
        self.closed.store(true, Ordering::Release);
        let mut waits = self.sender_waits();
        while let Some(popped) = self.take() {
            waits |= popped.resumes;
        }
        waits
    }

    fn sender_waits(&self) -> bool {
        fence(Ordering::SeqCst);
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
        assert_eq!(ring.put(4), Put::Taken);
        assert_eq!(ring.put(7), Put::Full(7), "4 + 7 bytes are more than 10");
        assert_eq!(ring.put(6), Put::Taken);
        assert_eq!(ring.put(0), Put::Full(0), "two envelopes are there");
        let popped = |value, resumes| Some(Popped { value, bytes: value, resumes });
        assert_eq!(ring.take(), popped(4, true), "the refused sender is to be resumed");
        assert_eq!(ring.take(), popped(6, false), "once");
        assert_eq!(ring.put(100), Put::Taken, "an envelope that is larger than the bound passes alone");
        assert_eq!(ring.head(), Some(&100));
    }

    #[test]
    fn a_closed_ring_takes_nothing_and_wakes_its_sender() {
        let ring = InputRing::new(Bound { envelopes: 1, bytes: 10 });
        assert_eq!(ring.put(1), Put::Taken);
        assert_eq!(ring.put(2), Put::Full(2));
        assert!(ring.close());
        assert!(ring.is_empty());
        assert_eq!(ring.put(2), Put::Closed(2));
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::state::StateWord;
    use loom::sync::Arc;

    /// A sender box and a receiver that consumes: no envelope is lost or reordered, and a refused sender is resumed.
    #[test]
    fn loom_a_refused_sender_is_resumed() {
        loom::model(|| {
            let ring = Arc::new(InputRing::new(Bound { envelopes: 1, bytes: 100 }));
            let sender = Arc::new(StateWord::new());
            // The values still to be sent. Guarded by the sender's state word: only its runner touches them.
            let pending = Arc::new(UnsafeCell::new(vec![2u64, 1]));
            fn run_sender(word: &StateWord, ring: &InputRing<u64>, pending: &UnsafeCell<Vec<u64>>) {
                loop {
                    word.begin();
                    let blocked = pending.with_mut(|pending| {
                        #[expect(unsafe_code, reason = "the state word makes this exclusive; loom checks it")]
                        // SAFETY: between begin and finish of the sender's word.
                        let pending = unsafe { &mut *pending };
                        while let Some(value) = pending.pop() {
                            if let Put::Full(value) = ring.put(value) {
                                pending.push(value);
                                return true;
                            }
                        }
                        false
                    });
                    if !word.finish(blocked, false).0 {
                        return;
                    }
                }
            }
            assert!(sender.arrive().0);
            let thread = {
                let (ring, sender, pending) = (ring.clone(), sender.clone(), pending.clone());
                loom::thread::spawn(move || run_sender(&sender, &ring, &pending))
            };
            let mut seen = Vec::new();
            let receive = |seen: &mut Vec<u64>| {
                while let Some(popped) = ring.take() {
                    seen.push(popped.value);
                    if popped.resumes && sender.resume().0 {
                        run_sender(&sender, &ring, &pending);
                    }
                }
            };
            receive(&mut seen);
            thread.join().unwrap();
            receive(&mut seen);
            assert_eq!(seen, [1, 2]);
            assert!(!sender.is_blocked());
        });
    }

    /// A receiver closes: a refused sender is resumed and learns it.
    #[test]
    fn loom_a_close_reaches_a_refused_sender() {
        loom::model(|| {
            let ring = Arc::new(InputRing::new(Bound { envelopes: 1, bytes: 100 }));
            let _ = ring.put(1u64);
            let receiver = {
                let ring = ring.clone();
                loom::thread::spawn(move || ring.close())
            };
            let refused = matches!(ring.put(2), Put::Full(_));
            let resumed = receiver.join().unwrap();
            // A resume without a refusal has no effect; a refusal without a resume would be a hang.
            assert!(resumed || !refused);
            assert_eq!(ring.put(3), Put::Closed(3));
        });
    }
}
