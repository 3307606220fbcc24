//! Tasks that wait for earlier ones, by the data that they read and write.

use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};
use crate::{Access, Dependences, Kind, QueueId, TaskRef};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

/// An owner's tasks with described data: each waits for the earlier ones that write what it reads or use what it writes.
///
/// ```
/// use std::sync::Arc;
/// use vicus_schedule::{Access, Mode, TaskGraph, TaskNode};
///
/// let mut graph = TaskGraph::default();
/// let [writer, reader] = [0, 1].map(|_| Arc::new(TaskNode::new()));
/// graph.add(&[Access::new(0x1000, 8, Mode::Write)], &writer);
/// graph.add(&[Access::new(0x1004, 8, Mode::Read)], &reader);
/// assert_eq!(writer.spawn("writer"), Some("writer"));
/// assert_eq!(reader.spawn("reader"), None);
/// let mut ready = Vec::new();
/// writer.end(true, |task| ready.push(task));
/// assert_eq!(ready, ["reader"]);
/// ```
pub struct TaskGraph<T = ReadyTask> {
    dependences: Dependences,
    /// The number of the first task in `nodes`.
    first: usize,
    nodes: VecDeque<Arc<TaskNode<T>>>,
    predecessors: Vec<usize>,
}

impl<T> Default for TaskGraph<T> {
    fn default() -> TaskGraph<T> {
        TaskGraph { dependences: Dependences::default(), first: 0, nodes: VecDeque::new(), predecessors: Vec::new() }
    }
}

impl<T> TaskGraph<T> {
    /// The number of the task that is added next. Each is one more than that of the task before.
    pub fn next_number(&self) -> usize {
        self.first + self.nodes.len()
    }

    /// The owner has learnt of the panics of the tasks from this number on: later tasks that follow them are run again.
    pub fn forget_panics(&mut self, from: usize) {
        let over = self.nodes.iter().skip(from.saturating_sub(self.first)).filter(|node| node.is_over());
        // Relaxed: nothing waits for these tasks, and later ones ask under the lock around this graph, if there is one.
        over.for_each(|node| node.is_broken.store(false, Ordering::Relaxed));
    }

    /// Adds a task with its accesses, and counts the earlier tasks for which it has to wait.
    pub fn add(&mut self, ordered: &[Access], node: &Arc<TaskNode<T>>) {
        while self.nodes.front().is_some_and(|first| first.is_over() && !first.is_broken()) {
            self.dependences.retire(self.first);
            self.nodes.pop_front();
            self.first += 1;
        }
        let number = self.next_number();
        self.predecessors.clear();
        self.dependences.add(number, ordered, &mut self.predecessors);
        for &earlier in &self.predecessors {
            let earlier_node = &self.nodes[earlier - self.first];
            if earlier_node.add_successor(node) {
                continue;
            }
            if earlier_node.is_broken() {
                node.is_broken.store(true, Ordering::Relaxed);
            } else {
                self.dependences.retire(earlier);
            }
        }
        self.nodes.push_back(Arc::clone(node));
    }
}

/// A task that can be put into a queue.
#[derive(Clone, Copy, Debug)]
pub struct ReadyTask {
    /// The task.
    pub task: TaskRef,
    /// Its relation to its spawner.
    pub kind: Kind,
    /// The queue to which it was dealt.
    pub queue: Option<QueueId>,
    /// Its priority, if it has one: of the ready tasks of its context, the one of the largest priority is taken first.
    pub priority: Option<i32>,
}

/// A task in a [`TaskGraph`], with the tasks that wait for it. `T` is what its spawner needs to have it run.
pub struct TaskNode<T = ReadyTask> {
    /// How many tasks it waits for, and one more until it is spawned.
    missing: AtomicUsize,
    /// Whether this task, or one that it waited for, panicked: then its data may not have been written.
    is_broken: AtomicBool,
    /// The tasks that wait for this one; `None` when this one is over.
    waiting: Mutex<Option<Vec<Arc<TaskNode<T>>>>>,
    /// The task, from [`TaskNode::spawn`] until the thread that removes the last predecessor takes it.
    task: Cell<Option<T>>,
}

#[expect(unsafe_code, reason = "it has a cell")]
// SAFETY: the cell is written before the last decrement of `missing`, and read once, by the thread that does this decrement: this
// may be another one, so the task has to be `Send`.
unsafe impl<T: Send> Sync for TaskNode<T> {}

#[expect(clippy::new_without_default, reason = "a node is of no use alone")]
impl<T> TaskNode<T> {
    /// A task that is not spawned yet.
    pub fn new() -> TaskNode<T> {
        TaskNode {
            missing: AtomicUsize::new(1),
            is_broken: AtomicBool::new(false),
            waiting: Mutex::new(Some(Vec::new())),
            task: Cell::new(None),
        }
    }

    /// Whether this task, or one that it waited for, panicked.
    pub fn is_broken(&self) -> bool {
        // Relaxed: the caller has waited for this task, or holds the lock under which the flag is set.
        self.is_broken.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.waiting.lock().expect("nothing panics under this lock").is_none()
    }

    /// Makes another task wait for this one; `false` if this one is over.
    fn add_successor(&self, other: &Arc<TaskNode<T>>) -> bool {
        let mut waiting = self.waiting.lock().expect("nothing panics under this lock");
        let Some(waiting) = &mut *waiting else { return false };
        // Relaxed: the lock orders the increment before the decrement in `end`.
        other.missing.fetch_add(1, Ordering::Relaxed);
        waiting.push(Arc::clone(other));
        true
    }

    /// The task is spawned: from now on it may run as soon as it waits for no other. Returns it if it waits for none now.
    pub fn spawn(&self, task: T) -> Option<T> {
        self.task.set(Some(task));
        self.remove_predecessor()
    }

    fn remove_predecessor(&self) -> Option<T> {
        // Release and acquire: the thread that queues the task sees the writes of all tasks that it waited for, and its own
        // entry.
        (self.missing.fetch_sub(1, Ordering::AcqRel) == 1).then(|| self.task.take()).flatten()
    }

    /// The task has ended, without a panic if `is_done`. `ready` gets each task that now waits for no other. Those that waited for a
    /// task that panicked count as if they had panicked, too.
    pub fn end(&self, is_done: bool, mut ready: impl FnMut(T)) {
        let is_done = is_done && !self.is_broken();
        let waiting = {
            let mut waiting = self.waiting.lock().expect("nothing panics under this lock");
            if !is_done {
                // Relaxed: readers hold the lock, or have waited for this task.
                self.is_broken.store(true, Ordering::Relaxed);
            }
            waiting.take()
        };
        for next in waiting.into_iter().flatten() {
            if !is_done {
                next.is_broken.store(true, Ordering::Relaxed);
            }
            if let Some(queued) = next.remove_predecessor() {
                ready(queued);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::{Mode, RequestId, TaskClass, TaskHeader};
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::AtomicU32;
    use loom::thread;

    #[expect(unsafe_code, reason = "the type of a class's functions")]
    // SAFETY of callers: there is no condition, and it is never called.
    unsafe fn never(_: TaskRef) {
        unreachable!("these tasks are only ordered");
    }

    static ORDERED: TaskClass = TaskClass { run: never, runs_inline: true, is_unwanted: None };

    fn queued() -> ReadyTask {
        let number = TaskHeader::UNNUMBERED;
        let header = Box::leak(Box::new(TaskHeader {
            class: &ORDERED,
            context: crate::ContextRef::NONE,
            request: RequestId(0),
            number,
        }));
        #[expect(unsafe_code, reason = "makes a task")]
        // SAFETY: it is leaked, and never run.
        let task = unsafe { TaskRef::new(std::ptr::NonNull::from(header)) };
        ReadyTask { task, kind: Kind::Immediate, queue: None, priority: None }
    }

    struct Data(UnsafeCell<u32>);

    #[expect(unsafe_code, reason = "the cell is what the model is about")]
    // SAFETY: loom tells if two threads use it at once.
    unsafe impl Sync for Data {}

    /// Two writers that were queued end on two threads, while a third task that waits for both is spawned: exactly one of the
    /// three threads queues it, and that one sees what both wrote.
    #[test]
    fn loom_a_task_is_queued_once_when_all_that_it_waits_for_is_over() {
        for is_broken in [false, true] {
            loom::model(move || {
                let mut graph = TaskGraph::default();
                let cells = [0x100, 0x200].map(|at| Access::new(at, 8, Mode::Write));
                let writers = [0, 1].map(|_| Arc::new(TaskNode::new()));
                for (access, writer) in cells.iter().zip(&writers) {
                    graph.add(std::slice::from_ref(access), writer);
                    assert!(writer.spawn(queued()).is_some(), "it waits for no task");
                }
                let (data, times) = (Arc::new([0, 1].map(|_| Data(UnsafeCell::new(0)))), Arc::new(AtomicU32::new(0)));
                let queue = {
                    let (data, times) = (Arc::clone(&data), Arc::clone(&times));
                    move |_: ReadyTask| {
                        times.fetch_add(1, Ordering::Relaxed);
                        for cell in data.iter() {
                            #[expect(unsafe_code, reason = "loom's cell")]
                            // SAFETY: as for `Sync`.
                            cell.0.with(|cell| assert_eq!(unsafe { *cell }, 1));
                        }
                    }
                };
                let threads: Vec<_> = (0..2)
                    .map(|at| {
                        let (writer, data, queue) = (Arc::clone(&writers[at]), Arc::clone(&data), queue.clone());
                        thread::spawn(move || {
                            #[expect(unsafe_code, reason = "loom's cell")]
                            // SAFETY: as for `Sync`.
                            data[at].0.with_mut(|cell| unsafe { *cell += 1 });
                            writer.end(!(is_broken && at == 1), queue);
                        })
                    })
                    .collect();
                let reader = Arc::new(TaskNode::new());
                graph.add(&cells, &reader);
                reader.spawn(queued()).into_iter().for_each(&queue);
                threads.into_iter().for_each(|thread| thread.join().unwrap());
                assert_eq!(times.load(Ordering::Relaxed), 1);
                assert_eq!(reader.is_broken(), is_broken, "what a task did not write is told");
            });
        }
    }
}
