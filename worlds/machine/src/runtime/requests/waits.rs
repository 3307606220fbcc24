//! A graph of waits between requests: a circle is reported instead of waited in.
//!
//! A wait stands on a stack, on top of the tasks there. The requests of these tasks can't end before it. The cost of a
//! wait grows with the new part of the stack since the wait beneath it, however deep the stack is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use vicus_schedule::RequestId;

/// The present waits of a runtime's tasks for requests.
#[derive(Default)]
pub(crate) struct Waits(Mutex<Graph>);

#[derive(Default)]
pub(super) struct Graph {
    waits: BTreeMap<WaitId, Wait>,
    /// By request: the waits on top of its tasks, except those on top of such a wait.
    on: BTreeMap<RequestId, Vec<WaitId>>,
    next: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaitId(u64);

struct Wait {
    awaited: RequestId,
    /// The requests of the tasks on the stack between this wait and the one beneath.
    requests: Vec<RequestId>,
    /// The lowest wait on the same stack, perhaps this one.
    lowest: WaitId,
    /// The next wait on the same stack; it has to end before this one goes on.
    above: Option<WaitId>,
}

/// The part of a stack beneath the running task.
#[derive(Default)]
pub struct Beneath {
    /// The requests of tasks, at each change from one request to another.
    pub(crate) requests: Vec<RequestId>,
    /// The waits, the lowest first.
    pub(super) waits: Vec<Stood>,
}

impl Beneath {
    /// Whether no other request's task, and no wait, is there.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.waits.is_empty()
    }
}

/// A wait on a stack.
#[derive(Clone, Copy)]
pub(super) struct Stood {
    pub(super) id: WaitId,
    /// Number of requests beneath it, including the waiting task's.
    pub(super) height: usize,
}

impl Graph {
    /// A task on top of `beneath` waits, with tasks of these requests since the wait there.
    ///
    /// # Errors
    /// The requests on the circle this would close, with the first one again at the end.
    pub(super) fn begin(
        &mut self,
        requests: Vec<RequestId>,
        beneath: Option<WaitId>,
        awaited: RequestId,
    ) -> Result<WaitId, Vec<RequestId>> {
        let lowest = beneath.map(|beneath| self.waits[&beneath].lowest);
        if let Some(circle) = self.circle(&requests, lowest, awaited) {
            return Err(circle);
        }
        let id = WaitId(self.next);
        self.next += 1;
        for &request in &requests {
            self.on.entry(request).or_default().push(id);
        }
        if let Some(beneath) = beneath {
            self.waits.get_mut(&beneath).expect("it is on the stack").above = Some(id);
        }
        self.waits.insert(id, Wait { awaited, requests, lowest: lowest.unwrap_or(id), above: None });
        Ok(id)
    }

    pub(super) fn end(&mut self, id: WaitId, beneath: Option<WaitId>) {
        let ended = self.waits.remove(&id).expect("it has begun");
        for request in &ended.requests {
            let on = self.on.get_mut(request).expect("it was added when the wait began");
            on.retain(|wait| *wait != id);
            if on.is_empty() {
                self.on.remove(request);
            }
        }
        if let Some(beneath) = beneath {
            self.waits.get_mut(&beneath).expect("it is on the stack").above = None;
        }
    }

    /// A path from one of these requests, or one with a task on the stack of the wait `lowest`, over the awaited one
    /// back to it.
    fn circle(&self, requests: &[RequestId], lowest: Option<WaitId>, awaited: RequestId) -> Option<Vec<RequestId>> {
        // Each with its predecessor on the way.
        let (mut reached, mut known) = (vec![(awaited, 0)], BTreeSet::from([awaited]));
        let (mut next, mut seen) = (0, BTreeSet::new());
        while let Some(&(request, _)) = reached.get(next) {
            let on = self.on.get(&request).map_or(&[][..], Vec::as_slice);
            let is_here = |wait: &WaitId| lowest.is_some_and(|lowest| self.waits[wait].lowest == lowest);
            if requests.contains(&request) || on.iter().any(is_here) {
                let mut way = vec![request];
                let mut at = next;
                while at > 0 {
                    at = reached[at].1;
                    way.push(reached[at].0);
                }
                way.push(request);
                way.reverse();
                return Some(way);
            }
            for &wait in on {
                let mut above = Some(wait);
                while let Some(wait) = above.filter(|&wait| seen.insert(wait)) {
                    let Wait { awaited, above: further, .. } = self.waits[&wait];
                    if known.insert(awaited) {
                        reached.push((awaited, next));
                    }
                    above = further;
                }
            }
            next += 1;
        }
        None
    }
}

impl Waits {
    pub(super) fn lock(&self) -> MutexGuard<'_, Graph> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

pub(super) fn told(circle: &[RequestId]) -> String {
    let pairs: Vec<String> =
        circle.windows(2).map(|pair| format!("{} for {}", pair[0].number(), pair[1].number())).collect();
    pairs.join(", ")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn ids<const N: usize>(numbers: [u64; N]) -> Vec<RequestId> {
        numbers.map(RequestId::new).into()
    }

    impl Graph {
        fn tells(&mut self, requests: Vec<RequestId>, beneath: Option<WaitId>, awaited: u64) -> Option<String> {
            match self.begin(requests, beneath, RequestId::new(awaited)) {
                Ok(id) => {
                    self.end(id, beneath);
                    None
                }
                Err(circle) => Some(told(&circle)),
            }
        }
    }

    #[test]
    fn a_circle_is_told_with_the_requests_on_it() {
        let mut graph = Graph::default();
        assert_eq!(graph.tells(ids([4]), None, 4).as_deref(), Some("4 for 4"));
        assert_eq!(graph.tells(ids([1, 4]), None, 1).as_deref(), Some("1 for 1"), "beneath the one that waits");
        let first = graph.begin(ids([1, 2]), None, RequestId::new(3)).unwrap();
        let second = graph.begin(ids([3]), None, RequestId::new(4)).unwrap();
        let third = graph.begin(ids([3, 9]), None, RequestId::new(5)).unwrap();
        assert_eq!(graph.tells(ids([4]), None, 1).as_deref(), Some("4 for 1, 1 for 3, 3 for 4"));
        assert_eq!(graph.tells(ids([7, 5]), None, 2).as_deref(), Some("5 for 2, 2 for 3, 3 for 5"));
        assert_eq!(graph.tells(ids([1]), None, 5), None, "several ways to the same end");
        assert_eq!(graph.tells(ids([4]), None, 9), None, "9 waits for 5");
        graph.end(second, None);
        assert_eq!(graph.tells(ids([4]), None, 1), None, "3 doesn't wait for it any more");
        graph.end(first, None);
        graph.end(third, None);
        assert!(graph.waits.is_empty() && graph.on.is_empty());
    }

    /// One stack: 1 waits for 2, a task of 2 is on top and waits for 3, and so on. The tasks beneath wait, too.
    #[test]
    fn waits_on_one_stack_wait_for_those_above() {
        let mut graph = Graph::default();
        let lowest = graph.begin(ids([1]), None, RequestId::new(2)).unwrap();
        let middle = graph.begin(ids([2]), Some(lowest), RequestId::new(3)).unwrap();
        let top = graph.begin(ids([]), Some(middle), RequestId::new(4)).unwrap();
        assert_eq!(graph.tells(ids([5]), Some(top), 1).as_deref(), Some("1 for 1"));
        assert_eq!(
            graph.tells(ids([4]), None, 1).as_deref(),
            Some("4 for 1, 1 for 4"),
            "1 waits for 4, by what is above"
        );
        assert_eq!(graph.tells(ids([6]), None, 1), None);
        // Another stack, with a task waiting for 1: nothing here may wait for it.
        let other = graph.begin(ids([7]), None, RequestId::new(1)).unwrap();
        assert_eq!(graph.tells(ids([5]), Some(top), 7).as_deref(), Some("1 for 7, 7 for 1"));
        graph.end(other, None);
        graph.end(top, Some(middle));
        assert_eq!(graph.tells(ids([4]), None, 1), None, "that wait is over");
        graph.end(middle, Some(lowest));
        graph.end(lowest, None);
        assert!(graph.waits.is_empty() && graph.on.is_empty());
    }
}
