//! A queue between two threads, without a lock.

use super::atomics::{AtomicUsize, Ordering};

/// A queue between a putting and a taking thread.
pub(crate) struct Ring {
    slots: Box<[AtomicUsize]>,
    /// How many were put, and how many were taken.
    put: Line,
    taken: Line,
}

#[repr(align(128))]
struct Line(AtomicUsize);

impl Ring {
    /// An empty queue with room for `elements`, one at least.
    pub(crate) fn new(elements: usize) -> Ring {
        let slots = (0..elements.max(1)).map(|_| AtomicUsize::new(0)).collect();
        let [put, taken] = [0, 0].map(|count| Line(AtomicUsize::new(count)));
        Ring { slots, put, taken }
    }

    /// Puts an element behind the others; false if there is no room. Called by one thread at a time.
    pub(crate) fn push(&self, element: usize) -> bool {
        let put = self.put.0.load(Ordering::Relaxed);
        if put - self.taken.0.load(Ordering::Acquire) == self.slots.len() {
            return false;
        }
        self.slots[put % self.slots.len()].store(element, Ordering::Relaxed);
        // Release: the slot is seen with it.
        self.put.0.store(put + 1, Ordering::Release);
        true
    }

    /// Takes the oldest element. Called by one thread at a time.
    pub(crate) fn pop(&self) -> Option<usize> {
        let taken = self.taken.0.load(Ordering::Relaxed);
        if taken == self.put.0.load(Ordering::Acquire) {
            return None;
        }
        let element = self.slots[taken % self.slots.len()].load(Ordering::Relaxed);
        self.taken.0.store(taken + 1, Ordering::Release);
        Some(element)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.taken.0.load(Ordering::Acquire) == self.put.0.load(Ordering::Acquire)
    }
}
