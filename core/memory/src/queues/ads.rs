//! Advertisements: messages from a location to another one about its spare elements.

use crate::sync::{AtomicU64, Ordering, Padded};

/// The advertisements received by one location: a bit for each other location, the nearest first.
#[derive(Debug)]
pub(crate) struct Received(Padded<Box<[AtomicU64]>>);

impl Received {
    /// None yet, from at most `locations` locations.
    pub(crate) fn new(locations: usize) -> Received {
        Received(Padded((0..locations.div_ceil(64)).map(|_| AtomicU64::new(0)).collect()))
    }

    /// Receives one from the location of this rank among the others.
    pub(crate) fn post(&self, rank: usize) {
        self.0.0[rank / 64].fetch_or(1 << (rank % 64), Ordering::AcqRel);
    }

    /// Takes the nearest one out, and gives its rank.
    #[inline]
    pub(crate) fn take_nearest(&self) -> Option<usize> {
        for (at, word) in self.0.0.iter().enumerate() {
            let mut bits = word.load(Ordering::Acquire);
            while bits != 0 {
                let nearest = 1 << bits.trailing_zeros();
                let before = word.fetch_and(!nearest, Ordering::AcqRel);
                if before & nearest != 0 {
                    return Some(at * 64 + nearest.trailing_zeros() as usize);
                }
                bits = before;
            }
        }
        None
    }
}

/// The advertisements issued by one location. Each has a number; new ones are issued after one of the last was
/// consumed.
#[derive(Debug)]
pub(crate) struct Issued {
    /// The number of the last one issued.
    last: AtomicU64,
    /// The highest consumed number. Seldom written, by other locations.
    consumed: Padded<AtomicU64>,
}

impl Issued {
    pub(crate) fn new() -> Issued {
        Issued { last: AtomicU64::new(0), consumed: Padded(AtomicU64::new(0)) }
    }

    /// Whether it is time for new ones.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.last.load(Ordering::Relaxed) <= self.consumed.0.load(Ordering::Relaxed)
    }

    /// Begins new ones, if they are due and no other thread at the location is quicker. Whether this thread does.
    pub(crate) fn begin(&self) -> bool {
        let last = self.last.load(Ordering::Relaxed);
        let next = last + 1;
        last <= self.consumed.0.load(Ordering::Relaxed)
            && self.last.compare_exchange(last, next, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Notes a consumer's response to one.
    pub(crate) fn consume(&self) {
        self.consumed.0.fetch_max(self.last.load(Ordering::Acquire), Ordering::AcqRel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_served_first_and_once() {
        let received = Received::new(130);
        for place in [129, 3, 64, 3, 63] {
            received.post(place);
        }
        let order: Vec<usize> = std::iter::from_fn(|| received.take_nearest()).collect();
        assert_eq!(order, [3, 63, 64, 129]);
    }

    #[test]
    fn new_ones_are_due_when_the_last_was_consumed() {
        let issued = Issued::new();
        assert!(issued.is_due() && issued.begin());
        assert!(!issued.is_due() && !issued.begin());
        issued.consume();
        assert!(issued.is_due() && issued.begin());
        issued.consume();
        issued.consume();
        assert!(issued.begin() && !issued.begin());
    }
}
