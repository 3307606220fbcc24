//! A priority queue of double-ended queues by request.
//!
//! Falt, Kruliš, Bednárek, Yaghob, Zavoral, "Towards Efficient Locality Aware Parallel Data Stream Processing", §4.1.
//! A sequential structure: the machine puts a lock around it, the simulator uses it bare.

use crate::{End, OWN_TURN, RequestId};
use std::collections::VecDeque;

/// Tasks by request, oldest request first.
///
/// Push and take cost O(log n) in the number of requests present, and a new request moves the younger ones aside.
/// Inner deques are kept for reuse, so nothing is allocated once the queue has been as full as it gets.
#[derive(Debug)]
pub struct ByRequest<T> {
    /// Invariant: sorted by request, and none is without tasks.
    requests: VecDeque<OfRequest<T>>,
    /// Emptied deques for the next request.
    spare: Vec<VecDeque<T>>,
    tasks: usize,
    /// The request last served by [`ByRequest::in_turn`], and the last one of the round.
    served: Option<(RequestId, RequestId)>,
}

/// The tasks of a request, oldest first.
#[derive(Debug)]
struct OfRequest<T> {
    request: RequestId,
    tasks: VecDeque<T>,
    /// How many times in a row the youngest one was taken while older ones stayed.
    in_row: u32,
}

impl<T> OfRequest<T> {
    /// The youngest task; after [`OWN_TURN`] of them in a row the oldest one. A box that always asks to run again, such
    /// as a source whose rows a filter drops, is the youngest each time: it would keep the others here for ever.
    fn pop_youngest(&mut self) -> Option<T> {
        if self.tasks.len() > 1 && self.in_row < OWN_TURN {
            self.in_row += 1;
            return self.tasks.pop_back();
        }
        self.in_row = 0;
        self.tasks.pop_front()
    }

    fn pop_oldest(&mut self) -> Option<T> {
        self.in_row = 0;
        self.tasks.pop_front()
    }
}

impl<T> Default for ByRequest<T> {
    fn default() -> Self {
        ByRequest { requests: VecDeque::new(), spare: Vec::new(), tasks: 0, served: None }
    }
}

impl<T> ByRequest<T> {
    /// How many tasks it holds.
    pub fn len(&self) -> usize {
        self.tasks
    }

    /// Whether it holds no task.
    pub fn is_empty(&self) -> bool {
        self.tasks == 0
    }

    /// Puts a task as the youngest of its request.
    pub fn push(&mut self, request: RequestId, task: T) {
        self.tasks += 1;
        match self.place(request) {
            Ok(at) => self.requests[at].tasks.push_back(task),
            Err(at) => {
                let mut tasks = self.spare.pop().unwrap_or_default();
                tasks.push_back(task);
                self.requests.insert(at, OfRequest { request, tasks, in_row: 0 });
            }
        }
    }

    /// Rule 3: the youngest task of the oldest request, or its oldest one after [`OWN_TURN`] of those in a row.
    pub fn youngest_of_oldest(&mut self) -> Option<T> {
        self.take(0, OfRequest::pop_youngest)
    }

    /// Rule 4: the oldest task of the second oldest request; of the only request if there is no second.
    pub fn oldest_of_second_oldest(&mut self) -> Option<T> {
        self.take(usize::from(self.requests.len() > 1), OfRequest::pop_oldest)
    }

    /// The oldest task of the oldest request.
    pub fn oldest_of_oldest(&mut self) -> Option<T> {
        self.take(0, OfRequest::pop_oldest)
    }

    /// A task of the next younger request after the last one served in this way. A round begins with the oldest request
    /// and ends with the youngest at its beginning: so no request waits again and again for later ones.
    pub fn in_turn(&mut self, end: End) -> Option<T> {
        let in_round = self.served.and_then(|(served, last)| {
            let next = self.requests.partition_point(|entry| entry.request <= served);
            self.requests.get(next).filter(|entry| entry.request <= last).map(|entry| (next, entry.request, last))
        });
        let begins = || Some((0, self.requests.front()?.request, self.requests.back()?.request));
        let (next, request, last) = in_round.or_else(begins)?;
        self.served = Some((request, last));
        match end {
            End::Youngest => self.take(next, OfRequest::pop_youngest),
            End::Oldest => self.take(next, OfRequest::pop_oldest),
        }
    }

    /// Takes out the first task of a request, counted from this end, among the `wanted` ones.
    pub fn remove(&mut self, request: RequestId, end: End, wanted: impl Fn(&T) -> bool) -> Option<T> {
        self.take(self.place(request).ok()?, |OfRequest { tasks, .. }| {
            let at = match end {
                End::Youngest => tasks.iter().rposition(wanted)?,
                End::Oldest => tasks.iter().position(wanted)?,
            };
            // Usually the youngest: then no task has to be moved.
            if at + 1 == tasks.len() { tasks.pop_back() } else { tasks.remove(at) }
        })
    }

    /// Takes out every task of a request for which `goes` says yes, and hands each to `dropped`.
    pub fn sweep(&mut self, request: RequestId, goes: impl Fn(&T) -> bool, mut dropped: impl FnMut(T)) {
        while let Some(task) = self.remove(request, End::Youngest, &goes) {
            dropped(task);
        }
    }

    /// The index of a request, or the index to insert it at.
    #[inline]
    fn place(&self, request: RequestId) -> Result<usize, usize> {
        // Often there is only one.
        match self.requests.front() {
            Some(oldest) if oldest.request == request => Ok(0),
            _ => self.requests.binary_search_by_key(&request, |entry| entry.request),
        }
    }

    fn take(&mut self, request: usize, take: impl FnOnce(&mut OfRequest<T>) -> Option<T>) -> Option<T> {
        let entry = self.requests.get_mut(request)?;
        let task = take(entry)?;
        self.tasks -= 1;
        if entry.tasks.is_empty() {
            let emptied = self.requests.remove(request).expect("it was just there");
            self.spare.push(emptied.tasks);
        }
        Some(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three_requests() -> ByRequest<&'static str> {
        let mut queue = ByRequest::default();
        for (request, task) in [(7, "7a"), (5, "5a"), (7, "7b"), (5, "5b"), (9, "9a")] {
            queue.push(RequestId::new(request), task);
        }
        queue
    }

    #[test]
    fn requests_take_turns_and_none_waits_for_an_endless_row_of_new_ones() {
        let mut queue = three_requests();
        let taken = |queue: &mut ByRequest<_>| queue.in_turn(End::Oldest);
        assert_eq!([(); 3].map(|()| taken(&mut queue).unwrap()), ["5a", "7a", "9a"]);
        // Before each take a new request comes: the old ones have their turns all the same.
        let old = (10..20).filter_map(|request| {
            queue.push(RequestId::new(request), "new");
            taken(&mut queue).filter(|&task| task != "new")
        });
        assert_eq!(old.collect::<Vec<_>>(), ["5b", "7b"]);
    }

    /// Each taken task comes back as the youngest, as a box does that asks to run again.
    #[test]
    fn a_task_that_always_comes_back_keeps_no_older_one_for_ever() {
        for take in [ByRequest::youngest_of_oldest, |queue: &mut ByRequest<_>| queue.in_turn(End::Youngest)] {
            let mut queue = ByRequest::default();
            ["old", "source"].into_iter().for_each(|task| queue.push(RequestId::new(1), task));
            let mut takes = 0;
            while let Some(task) = take(&mut queue).filter(|&task| task != "old") {
                queue.push(RequestId::new(1), task);
                takes += 1;
            }
            assert_eq!((takes, queue.len()), (OWN_TURN, 1));
        }
    }

    #[test]
    fn own_group_takes_the_youngest_of_the_oldest_request() {
        let mut queue = three_requests();
        let order: Vec<_> = std::iter::from_fn(|| queue.youngest_of_oldest()).collect();
        assert_eq!(order, ["5b", "5a", "7b", "7a", "9a"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn strangers_take_the_oldest_of_the_second_oldest_request_or_of_the_only_one() {
        let mut queue = three_requests();
        let order: Vec<_> = std::iter::from_fn(|| queue.oldest_of_second_oldest()).collect();
        assert_eq!(order, ["7a", "7b", "9a", "5a", "5b"]);
    }

    #[test]
    fn the_wanted_task_next_to_an_end_is_removed() {
        let filled = || {
            let mut queue = three_requests();
            ["7c", "7d"].into_iter().for_each(|task| queue.push(RequestId::new(7), task));
            queue
        };
        let not = |unwanted: &'static [&'static str]| move |task: &&str| !unwanted.contains(task);
        for (end, unwanted, taken) in [
            (End::Youngest, &[][..], Some("7d")),
            (End::Youngest, &["7d"], Some("7c")),
            (End::Youngest, &["7d", "7c", "7b"], Some("7a")),
            (End::Oldest, &[], Some("7a")),
            (End::Oldest, &["7a", "7b"], Some("7c")),
            (End::Oldest, &["7a", "7b", "7c", "7d"], None),
            (End::Youngest, &["7a", "7b", "7c", "7d"], None),
        ] {
            let mut queue = filled();
            assert_eq!(queue.remove(RequestId::new(7), end, not(unwanted)), taken, "{end:?} without {unwanted:?}");
            let rest: Vec<_> = std::iter::from_fn(|| queue.remove(RequestId::new(7), End::Oldest, |_| true)).collect();
            let expected: Vec<_> = ["7a", "7b", "7c", "7d"].into_iter().filter(|task| Some(*task) != taken).collect();
            assert_eq!(rest, expected);
            assert_eq!(queue.len(), 3, "those of others stay");
        }
        assert_eq!(filled().remove(RequestId::new(6), End::Oldest, |_| true), None);
        for end in [End::Youngest, End::Oldest] {
            let mut queue = filled();
            assert_eq!(queue.remove(RequestId::new(9), end, |_| false), None, "its only one");
            assert_eq!(queue.remove(RequestId::new(9), end, |_| true), Some("9a"));
        }
    }

    #[test]
    fn requests_take_turns() {
        let mut queue = three_requests();
        assert_eq!(queue.in_turn(End::Oldest), Some("5a"));
        assert_eq!(queue.in_turn(End::Youngest), Some("7b"));
        assert_eq!(queue.in_turn(End::Oldest), Some("9a"), "the last one");
        queue.push(RequestId::new(3), "3a");
        queue.push(RequestId::new(6), "6a");
        let order: Vec<_> = std::iter::from_fn(|| queue.in_turn(End::Oldest)).collect();
        assert_eq!(order, ["3a", "5b", "6a", "7a"]);
        assert_eq!(queue.in_turn(End::Youngest), None);
    }

    #[test]
    fn a_sweep_takes_whole_requests() {
        let mut queue = three_requests();
        let mut dropped = Vec::new();
        queue.sweep(RequestId::new(7), |_| true, |task| dropped.push(task));
        assert_eq!(dropped, ["7b", "7a"]);
        assert_eq!(queue.len(), 3);
        queue.sweep(RequestId::new(9), |_| false, |task| panic!("{task} is no box"));
        assert_eq!(queue.len(), 3);
        queue.push(RequestId::new(7), "7c");
        assert_eq!(queue.oldest_of_second_oldest(), Some("7c"));
    }
}
