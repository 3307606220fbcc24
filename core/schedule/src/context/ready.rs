//! Tasks of a context that have a priority and wait for no other task.

use crate::{QueueId, TaskRef};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The ready tasks, each with the queue it was dealt to, or with `None` for its seat's choice.
#[derive(Default)]
pub(super) struct Ready {
    /// The first entry for a queue is its best task: of the largest priority, the longest here.
    tasks: BTreeMap<(Option<QueueId>, Reverse<i32>, u64), TaskRef>,
    /// How many were put here.
    put: u64,
}

impl Ready {
    pub(super) fn put(&mut self, queue: Option<QueueId>, priority: i32, task: TaskRef) {
        self.tasks.insert((queue, Reverse(priority), self.put), task);
        self.put += 1;
    }

    /// Takes the best task for this queue.
    pub(super) fn take(&mut self, queue: Option<QueueId>) -> Option<TaskRef> {
        let from = (queue, Reverse(i32::MAX), 0);
        let best = *self.tasks.range(from..).next().filter(|(key, _)| key.0 == queue)?.0;
        self.tasks.remove(&best)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{ContextRef, RequestId, TaskClass, TaskHeader};
    use std::ptr::NonNull;

    #[expect(unsafe_code, reason = "the type of a class's functions")]
    // SAFETY of callers: no condition: it is never called.
    unsafe fn never(_: TaskRef) {
        unreachable!("these tasks are not run");
    }

    static CLASS: TaskClass = TaskClass { run: never, runs_inline: true, is_unwanted: None };

    #[test]
    fn the_best_of_a_queue_is_the_one_of_the_largest_priority_that_came_first() {
        let headers = [0; 6].map(|_| TaskHeader {
            class: &CLASS,
            context: ContextRef::NONE,
            request: RequestId::new(0),
            number: TaskHeader::UNNUMBERED,
            has_data: false,
        });
        #[expect(unsafe_code, reason = "makes tasks that are never run")]
        // SAFETY: the headers live as long as the tasks.
        let tasks: Vec<TaskRef> = headers.iter().map(|header| unsafe { TaskRef::new(NonNull::from(header)) }).collect();
        let (here, there) = (None, Some(QueueId::new(3)));
        let mut ready = Ready::default();
        let said = [(here, 1), (there, i32::MAX), (here, i32::MIN), (here, 1), (there, 0), (here, 5)];
        for (&task, (queue, priority)) in tasks.iter().zip(said) {
            ready.put(queue, priority, task);
        }
        let mut taken = |queue| -> Vec<usize> {
            let each = std::iter::from_fn(|| ready.take(queue));
            each.map(|task| tasks.iter().position(|other| *other == task).unwrap()).collect()
        };
        assert_eq!(taken(here), [5, 0, 3, 2]);
        assert_eq!(taken(there), [1, 4]);
        assert!(taken(here).is_empty());
    }
}
