//! One queue of a plan as a sequential structure.

use crate::{ByRequest, End, QueueOrder, RequestId, Take};
use std::collections::VecDeque;

/// A queue of either order. The plan says how tasks are taken; a world adds the lock.
#[derive(Debug)]
pub enum Queue<T> {
    /// By arrival: tasks are put at the back.
    Deque(VecDeque<(RequestId, T)>),
    /// By request.
    ByRequest(ByRequest<T>),
}

impl<T> Queue<T> {
    /// An empty queue.
    pub fn new(order: QueueOrder) -> Queue<T> {
        match order {
            QueueOrder::Deque => Queue::Deque(VecDeque::new()),
            QueueOrder::ByRequest => Queue::ByRequest(ByRequest::default()),
        }
    }

    /// How many tasks it holds.
    pub fn len(&self) -> usize {
        match self {
            Queue::Deque(tasks) => tasks.len(),
            Queue::ByRequest(tasks) => tasks.len(),
        }
    }

    /// Whether it holds no task.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is memory for one task more. A queue by requests takes it when it needs some.
    #[inline]
    pub fn reserve_one(&mut self) -> bool {
        match self {
            Queue::Deque(tasks) => tasks.len() < tasks.capacity() || tasks.try_reserve(1).is_ok(),
            Queue::ByRequest(_) => true,
        }
    }

    /// Puts the youngest task.
    pub fn push(&mut self, request: RequestId, task: T) {
        match self {
            Queue::Deque(tasks) => tasks.push_back((request, task)),
            Queue::ByRequest(tasks) => tasks.push(request, task),
        }
    }

    /// Takes by a rule; the other tasks of a [`Take::Several`] go to `rest`, in the order of age.
    pub fn take(&mut self, take: Take, rest: &mut Vec<(RequestId, T)>) -> Option<T> {
        match self {
            Queue::Deque(tasks) => {
                let taken = match take {
                    Take::Youngest | Take::YoungestOfOldestRequest | Take::InTurn(End::Youngest) => tasks.pop_back(),
                    Take::Oldest | Take::OldestOfSecondOldestRequest | Take::InTurn(End::Oldest) => tasks.pop_front(),
                    Take::Several(end, at_most) => {
                        let several = usize::from(at_most).min(tasks.len());
                        let from = if end == End::Oldest { 0 } else { tasks.len() - several };
                        rest.extend(tasks.drain(from..from + several));
                        if end == End::Oldest && !rest.is_empty() { Some(rest.remove(0)) } else { rest.pop() }
                    }
                };
                taken.map(|(_, task)| task)
            }
            Queue::ByRequest(tasks) => match take {
                Take::Youngest | Take::YoungestOfOldestRequest => tasks.youngest_of_oldest(),
                Take::OldestOfSecondOldestRequest => tasks.oldest_of_second_oldest(),
                Take::InTurn(end) => tasks.in_turn(end),
                Take::Oldest | Take::Several(..) => tasks.oldest_of_oldest(),
            },
        }
    }

    /// Takes the oldest task if it is `wanted`. A queue by requests has none.
    #[inline]
    pub fn take_oldest_if(&mut self, wanted: impl FnOnce(&T) -> bool) -> Option<T> {
        match self {
            Queue::Deque(tasks) if wanted(&tasks.front()?.1) => tasks.pop_front().map(|(_, task)| task),
            Queue::Deque(_) => None,
            Queue::ByRequest(_) => None,
        }
    }

    /// Takes out the first task of a request, counted from this end, among the `wanted` ones. Cost O(n) in a deque.
    pub fn remove(&mut self, request: RequestId, end: End, wanted: impl Fn(&T) -> bool) -> Option<T> {
        match self {
            Queue::Deque(tasks) => {
                let is_wanted = |(other, task): &(RequestId, T)| *other == request && wanted(task);
                let at = match end {
                    End::Youngest => tasks.iter().rposition(is_wanted)?,
                    End::Oldest => tasks.iter().position(is_wanted)?,
                };
                tasks.remove(at).map(|(_, task)| task)
            }
            Queue::ByRequest(tasks) => tasks.remove(request, end, wanted),
        }
    }

    /// Takes out every task of a request for which `goes` says yes, and hands each to `dropped`.
    pub fn sweep(&mut self, request: RequestId, goes: impl Fn(&T) -> bool, mut dropped: impl FnMut(T)) {
        match self {
            Queue::Deque(tasks) => {
                for _ in 0..tasks.len() {
                    let (other, task) = tasks.pop_front().expect("counted");
                    if other == request && goes(&task) {
                        dropped(task);
                    } else {
                        tasks.push_back((other, task));
                    }
                }
            }
            Queue::ByRequest(tasks) => tasks.sweep(request, goes, dropped),
        }
    }
}
