//! The order of running requests' turns: the one with the least time comes first.

use crate::RequestId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// A request without tasks for long is at most this time, in nanoseconds, behind the one with the most turns.
const MOST_BEHIND_NS: u64 = 64_000_000;

/// A running request and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// Nanoseconds of turns, on all seats.
    pub had_ns: u64,
    /// The request.
    pub request: RequestId,
}

/// The running requests. A world has one of these for all seats, and adds the lock.
///
/// A new request begins with as much time as the one with the most, so a stream of new ones can't keep an older one
/// from its turns. A request whose tasks go from seat to seat has little time on any seat, and need not wait for the
/// turns of all others there.
#[derive(Debug, Default)]
pub struct TurnOrder {
    had_ns: BTreeMap<RequestId, u64>,
    order: BTreeSet<Share>,
    most_ns: u64,
}

impl TurnOrder {
    /// A request begins. Returns whether it did not run yet.
    pub fn begin(&mut self, request: RequestId) -> bool {
        let had_ns = self.most_ns;
        let is_new = !self.contains(request);
        if is_new {
            self.had_ns.insert(request, had_ns);
            self.order.insert(Share { had_ns, request });
        }
        is_new
    }

    /// A request is over. Returns whether it ran.
    pub fn end(&mut self, request: RequestId) -> bool {
        self.had_ns.remove(&request).is_some_and(|had_ns| self.order.remove(&Share { had_ns, request }))
    }

    /// Whether a request runs.
    pub fn contains(&self, request: RequestId) -> bool {
        self.had_ns.contains_key(&request)
    }

    /// How many requests run.
    pub fn len(&self) -> usize {
        self.had_ns.len()
    }

    /// Whether no request runs.
    pub fn is_empty(&self) -> bool {
        self.had_ns.is_empty()
    }

    fn change(&mut self, request: RequestId, change: impl FnOnce(u64) -> u64) {
        let Some(had_ns) = self.had_ns.get_mut(&request) else { return };
        self.order.remove(&Share { had_ns: *had_ns, request });
        *had_ns = change(*had_ns);
        self.most_ns = self.most_ns.max(*had_ns);
        self.order.insert(Share { had_ns: *had_ns, request });
    }
}

/// A world's [`TurnOrder`], as a seat asks it. Nothing happens to a finished request.
pub trait Turned {
    /// The request with the least time, of those behind `last` in this order.
    fn next(&mut self, last: Option<Share>) -> Option<Share>;

    /// A seat begins a turn of a request, charged in advance with this time: seats that look at the same time choose
    /// different requests.
    fn charge(&mut self, request: RequestId, ns: u64);

    /// The turn was longer by this time, or shorter if it is below zero.
    fn correct(&mut self, request: RequestId, ns: i64);
}

impl Turned for TurnOrder {
    fn next(&mut self, last: Option<Share>) -> Option<Share> {
        let behind = last.map_or(Bound::Unbounded, Bound::Excluded);
        self.order.range((behind, Bound::Unbounded)).next().copied()
    }

    fn charge(&mut self, request: RequestId, ns: u64) {
        let least = self.most_ns.saturating_sub(MOST_BEHIND_NS);
        self.change(request, |had_ns| had_ns.max(least).saturating_add(ns));
    }

    fn correct(&mut self, request: RequestId, ns: i64) {
        self.change(request, |had_ns| had_ns.saturating_add_signed(ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The requests in the order of their next turns.
    fn order(requests: &mut TurnOrder) -> Vec<u64> {
        let first = requests.next(None);
        std::iter::successors(first, |last| requests.next(Some(*last))).map(|share| share.request.number()).collect()
    }

    #[test]
    fn the_request_that_has_had_least_is_next_and_a_new_one_is_last() {
        let mut requests = TurnOrder::default();
        assert!((1..=3).all(|number| requests.begin(RequestId::new(number))));
        assert!(!requests.begin(RequestId::new(2)));
        assert_eq!(order(&mut requests), [1, 2, 3]);
        requests.charge(RequestId::new(1), 4_000_000);
        requests.charge(RequestId::new(2), 4_000_000);
        assert_eq!(order(&mut requests), [3, 1, 2]);
        requests.correct(RequestId::new(2), -3_999_900);
        assert_eq!(order(&mut requests), [3, 2, 1]);
        assert!(!requests.begin(RequestId::new(2)));
        assert!(requests.begin(RequestId::new(4)));
        assert_eq!(order(&mut requests), [3, 2, 1, 4], "with as much as the first");
        assert!(requests.end(RequestId::new(2)) && !requests.end(RequestId::new(2)));
        requests.charge(RequestId::new(2), 100);
        assert_eq!((order(&mut requests), requests.len()), (vec![3, 1, 4], 3));
        assert!(requests.contains(RequestId::new(3)) && !requests.contains(RequestId::new(2)));
    }

    #[test]
    fn a_request_that_has_slept_catches_up_once() {
        let mut requests = TurnOrder::default();
        requests.begin(RequestId::new(1));
        requests.begin(RequestId::new(2));
        requests.charge(RequestId::new(2), 1_000 * MOST_BEHIND_NS);
        assert_eq!(order(&mut requests), [1, 2]);
        // It gets back a little of all that time.
        requests.charge(RequestId::new(1), MOST_BEHIND_NS);
        assert_eq!(order(&mut requests), [1, 2]);
        requests.charge(RequestId::new(1), 1);
        assert_eq!(order(&mut requests), [2, 1]);
    }
}
