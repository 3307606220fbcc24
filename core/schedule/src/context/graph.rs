//! Tasks that wait for earlier ones, by the data they read and write.

use crate::sync::{AtomicPtr, AtomicU32, AtomicUsize, Mutex, Ordering};
use crate::{Access, Dependences, Kind, Mode, QueueId, TaskRef};
use std::array;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::mem::{self, ManuallyDrop};
use std::ptr;
use std::sync::Arc;

/// An owner's tasks with described data: each task waits for the earlier writers of its data and, if it writes, for the
/// earlier users too. Commuting tasks ([`Mode::Commutative`]) do not wait for each other, but one at a time has their
/// common data to itself.
///
/// ```
/// use std::sync::Arc;
/// use vicus_schedule::{Access, Mode, TaskGraph};
///
/// let mut graph = TaskGraph::default();
/// let writer = graph.add(&[Access::new(0x1000, 8, Mode::Write)]);
/// let reader = graph.add(&[Access::new(0x1004, 8, Mode::Read)]);
/// let (written, _read) = (Arc::clone(writer.node()), Arc::clone(reader.node()));
/// assert_eq!(writer.spawn("writer"), Some("writer"));
/// assert_eq!(reader.spawn("reader"), None);
/// let mut ready = Vec::new();
/// // SAFETY: the writer may run, and ends once; the reader's node is kept.
/// unsafe { written.end(true, |task| ready.push(task)) };
/// assert_eq!(ready, ["reader"]);
/// ```
pub struct TaskGraph<T = ReadyTask> {
    dependences: Dependences,
    /// The number of the first task in `nodes`.
    first: usize,
    nodes: VecDeque<Arc<TaskNode<T>>>,
    /// Nodes of finished tasks, oldest first, kept for their memory.
    spare: VecDeque<Arc<TaskNode<T>>>,
    predecessors: Vec<usize>,
    /// The batons of commutative accesses, by the first byte.
    batons: BTreeMap<usize, Arc<Baton<T>>>,
    /// Above this number, batons without a task are given up.
    most_batons: usize,
}

/// How many batons without a task may stay.
const SPARE_BATONS: usize = 1 << 10;

/// How many nodes of finished tasks may stay. None in models: these do not know how references are counted.
const SPARE_NODES: usize = if cfg!(loom) { 0 } else { 1 << 10 };

impl<T> Default for TaskGraph<T> {
    fn default() -> TaskGraph<T> {
        TaskGraph {
            dependences: Dependences::default(),
            first: 0,
            nodes: VecDeque::new(),
            spare: VecDeque::new(),
            predecessors: Vec::new(),
            batons: BTreeMap::new(),
            most_batons: SPARE_BATONS,
        }
    }
}

impl<T> TaskGraph<T> {
    /// The number of the next added task: one more than that of the task before.
    pub fn next_number(&self) -> usize {
        self.first + self.nodes.len()
    }

    /// The owner has learnt of the panics of the tasks from this number on: later tasks that follow them run again,
    /// unless they follow an earlier task with a panic as well.
    pub fn forget_panics(&mut self, from: usize) {
        let later = self.nodes.iter().skip(from.saturating_sub(self.first));
        // Relaxed: nothing waits for these tasks, and later ones ask under the lock around this graph, if there is one.
        let learnt = later.filter(|node| node.is_over() && node.cause.load(Ordering::Relaxed) >= from);
        learnt.for_each(|node| node.cause.store(NONE, Ordering::Relaxed));
    }

    /// Adds a task with its accesses, and counts the earlier tasks it has to wait for.
    pub fn add(&mut self, ordered: &[Access]) -> Unspawned<T> {
        while self.nodes.front().is_some_and(|first| first.is_over() && !first.is_broken()) {
            self.dependences.retire(self.first);
            self.first += 1;
            // A node with batons, or with blocks for successors, would keep them.
            let is_small = |over: &Arc<TaskNode<T>>| over.batons.is_empty() && over.successors.is_small();
            let over = self.nodes.pop_front().filter(is_small);
            if self.spare.len() < SPARE_NODES {
                self.spare.extend(over);
            }
        }
        let number = self.next_number();
        let commutes = ordered.iter().any(|access| access.mode == Mode::Commutative);
        let batons = if commutes { self.batons_of(ordered) } else { Vec::new() };
        let node = self.node(TaskNode::new(number, batons));
        self.predecessors.clear();
        self.dependences.add_commuting(number, ordered, &mut self.predecessors);
        let mut unspawned = Unspawned { node: Some(node), waits_for: 0 };
        let node = unspawned.node();
        let mut waits_for = 0;
        for &earlier in &self.predecessors {
            let earlier_node = &self.nodes[earlier - self.first];
            if earlier_node.successors.add(node) {
                waits_for += 1;
                continue;
            }
            if earlier_node.is_broken() {
                node.inherit(earlier_node.cause.load(Ordering::Relaxed));
            } else {
                self.dependences.retire(earlier);
            }
        }
        self.nodes.push_back(Arc::clone(node));
        unspawned.waits_for = waits_for;
        unspawned
    }

    /// A node with this content, in the memory of a spare node without other references. As a rule this thread made
    /// that memory, and another one may have dropped it: a new allocation would cost both threads a lock of the
    /// allocator.
    fn node(&mut self, content: TaskNode<T>) -> Arc<TaskNode<T>> {
        if let Some(mut spare) = self.spare.pop_front()
            && let Some(node) = Arc::get_mut(&mut spare)
        {
            *node = content;
            return spare;
        }
        Arc::new(content)
    }

    /// The batons of a task with these accesses, in the order common to all tasks.
    #[cold]
    fn batons_of(&mut self, ordered: &[Access]) -> Vec<Arc<Baton<T>>> {
        let commuting = ordered.iter().filter(|access| access.mode == Mode::Commutative);
        let mut firsts: Vec<usize> = commuting.flat_map(|access| access.stretches().map(|bytes| bytes.start)).collect();
        firsts.sort_unstable();
        firsts.dedup();
        if self.batons.len() > self.most_batons {
            self.batons.retain(|_, baton| Arc::strong_count(baton) > 1);
            self.most_batons = (2 * self.batons.len()).max(SPARE_BATONS);
        }
        firsts.into_iter().map(|first| Arc::clone(self.batons.entry(first).or_default())).collect()
    }
}

impl<T> Drop for TaskGraph<T> {
    /// The lists of unfinished tasks have other nodes without a reference: those nodes stay.
    fn drop(&mut self) {
        self.nodes.drain(..).filter(|node| !node.is_over()).for_each(mem::forget);
    }
}

/// One of several commuting tasks holds the baton, from the time it waits for no other task until its end.
struct Baton<T> {
    /// The tasks that want the baton, while one has it; `None` while it is free.
    wanted_by: Mutex<Option<VecDeque<Arc<TaskNode<T>>>>>,
}

impl<T> Default for Baton<T> {
    fn default() -> Baton<T> {
        Baton { wanted_by: Mutex::new(None) }
    }
}

impl<T> Baton<T> {
    /// The task has it now. `false` if another one has it: then this one gets it later.
    fn take(&self, node: &Arc<TaskNode<T>>) -> bool {
        let mut wanted_by = self.wanted_by.lock().expect("nothing panics under this lock");
        match &mut *wanted_by {
            None => *wanted_by = Some(VecDeque::new()),
            Some(others) => {
                others.push_back(Arc::clone(node));
                return false;
            }
        }
        true
    }

    /// The task with the baton is over. Returns the next task with it, if one wants it.
    fn pass_on(&self) -> Option<Arc<TaskNode<T>>> {
        let mut wanted_by = self.wanted_by.lock().expect("nothing panics under this lock");
        let next = wanted_by.as_mut().and_then(VecDeque::pop_front);
        if next.is_none() {
            *wanted_by = None;
        }
        next
    }
}

/// A task of a [`TaskGraph`] until it is spawned, once: this value can't be copied.
#[must_use = "those that follow the task wait for its end"]
pub struct Unspawned<T = ReadyTask> {
    /// `None` when it is spawned.
    node: Option<Arc<TaskNode<T>>>,
    /// How many tasks it is a successor of.
    waits_for: u32,
}

impl<T> Unspawned<T> {
    /// The task's node. The node is told when the task ends.
    pub fn node(&self) -> &Arc<TaskNode<T>> {
        self.node.as_ref().expect("it is not spawned")
    }

    /// Spawns the task: from now on it may run as soon as it waits for no other. Returns the task if it waits for none
    /// now.
    pub fn spawn(mut self, task: T) -> Option<T> {
        let node = self.node.take().expect("a value is spawned once");
        node.task.set(Some(task));
        // A task in no list is known here alone, so the count of its missing tasks has no other reader.
        if self.waits_for == 0 { node.take_batons() } else { node.miss_less(UNSPAWNED - self.waits_for) }
    }
}

impl<T> Drop for Unspawned<T> {
    /// Lists may have the unspawned task: its node stays.
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            mem::forget(node);
        }
    }
}

/// A task ready for a queue.
#[derive(Clone, Copy, Debug)]
pub struct ReadyTask {
    /// The task.
    pub task: TaskRef,
    /// Its relation to its spawner.
    pub kind: Kind,
    /// The queue the task was dealt to.
    pub queue: Option<QueueId>,
    /// Its priority, if it has one: of the ready tasks of its context, the one of the largest priority is taken first.
    pub priority: Option<i32>,
}

/// A task in a [`TaskGraph`], with the tasks that wait for it. `T` is the spawner's means to have the task run.
pub struct TaskNode<T = ReadyTask> {
    /// The tasks waiting for this one.
    successors: Successors<T>,
    /// How many tasks it still waits for. Until the spawn: [`UNSPAWNED`] less the predecessors already over.
    missing: AtomicU32,
    /// How many batons it has.
    has: Cell<u32>,
    /// The task, from [`Unspawned::spawn`] until the thread that removes the last predecessor, or the last missing
    /// baton, takes it.
    task: Cell<Option<T>>,
    /// The number of the earliest task with a panic, among this one and its direct and indirect predecessors: the data
    /// of this task may then be unwritten. [`NONE`] without a panic, or once the owner has learnt of it.
    cause: AtomicUsize,
    /// Its number in the graph.
    number: usize,
    /// The batons the task needs before it runs, if it commutes with others. All tasks take them one by one in the same
    /// order, so no two tasks wait for each other.
    batons: Vec<Arc<Baton<T>>>,
}

/// No task's number.
const NONE: usize = usize::MAX;

/// More tasks than one waits for.
const UNSPAWNED: u32 = 1 << 31;

/// The tasks waiting for one task, until it is over. The graph adds them under its lock, one after the other. The
/// thread that runs the task closes the list, and then has it alone.
///
/// A task in the list stays alive without a reference: it can neither be spawned nor end before this list has told it.
struct Successors<T> {
    /// How many there are; [`CLOSED`] when the task is over.
    count: AtomicU32,
    first: [AtomicPtr<TaskNode<T>>; FEW],
    more: AtomicPtr<More<T>>,
}

/// A task of a stencil or a factorisation has few successors. In models the limit is 1, so blocks are made.
const FEW: usize = if cfg!(loom) { 1 } else { 6 };

/// No number of successors.
const CLOSED: u32 = u32::MAX;

/// Further successors, each block twice as many as the one before.
struct More<T> {
    tasks: Box<[AtomicPtr<TaskNode<T>>]>,
    next: AtomicPtr<More<T>>,
}

fn no_successor<T>() -> AtomicPtr<TaskNode<T>> {
    AtomicPtr::new(ptr::null_mut())
}

#[expect(unsafe_code, reason = "a list without references")]
impl<T> Successors<T> {
    fn new() -> Successors<T> {
        Successors {
            count: AtomicU32::new(0),
            first: array::from_fn(|_| no_successor()),
            more: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Whether it has no blocks.
    fn is_small(&self) -> bool {
        self.more.load(Ordering::Relaxed).is_null()
    }

    /// Whether the task is over.
    fn is_closed(&self) -> bool {
        // Acquire: tasks that need not wait, since this one is over, see its writes and its cause.
        self.count.load(Ordering::Acquire) == CLOSED
    }

    /// The place of the successor of this index. Called by the graph for a new one, with blocks made on demand, and
    /// then by the thread that closed the list.
    fn place(&self, index: usize) -> &AtomicPtr<TaskNode<T>> {
        if let Some(place) = self.first.get(index) {
            return place;
        }
        let (mut at, mut index, mut room) = (&self.more, index - FEW, FEW);
        loop {
            room *= 2;
            let mut block = at.load(Ordering::Relaxed);
            if block.is_null() {
                let tasks = (0..room).map(|_| no_successor()).collect();
                block = Box::into_raw(Box::new(More { tasks, next: AtomicPtr::new(ptr::null_mut()) }));
                // Relaxed, as are all stores here: the thread that closes the list sees all places covered by the
                // count.
                at.store(block, Ordering::Relaxed);
            }
            // SAFETY: blocks are freed with the list.
            let block = unsafe { &*block };
            if let Some(place) = block.tasks.get(index) {
                return place;
            }
            index -= room;
            at = &block.next;
        }
    }

    /// Makes another task wait for this one; `false` if this one is over.
    fn add(&self, other: &Arc<TaskNode<T>>) -> bool {
        let count = self.count.load(Ordering::Acquire);
        if count == CLOSED {
            return false;
        }
        self.place(count as usize).store(Arc::as_ptr(other).cast_mut(), Ordering::Relaxed);
        // Release: the thread that closes the list sees the place. Acquire: see `is_closed`.
        self.count.compare_exchange(count, count + 1, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Ends the task. `f` gets each waiting task, and may have it run.
    ///
    /// # Safety
    /// Those of [`TaskNode::end`].
    unsafe fn close(&self, mut f: impl FnMut(&Arc<TaskNode<T>>)) {
        // Acquire: see `add`. Release: see `is_closed`.
        let count = self.count.swap(CLOSED, Ordering::AcqRel);
        for index in 0..count {
            let next = self.place(index as usize).load(Ordering::Relaxed);
            // SAFETY: the graph made the pointer from a live `Arc`: that of `Unspawned`, of the graph, or of the task,
            // and the task can't run before `f` has it.
            let next = ManuallyDrop::new(unsafe { Arc::from_raw(next.cast_const()) });
            f(&next);
        }
    }
}

impl<T> Drop for Successors<T> {
    fn drop(&mut self) {
        let mut next = self.more.load(Ordering::Relaxed);
        while !next.is_null() {
            #[expect(unsafe_code, reason = "frees the list's blocks")]
            // SAFETY: each is from a box, and in one list once.
            let block = unsafe { Box::from_raw(next) };
            next = block.next.load(Ordering::Relaxed);
        }
    }
}

#[expect(unsafe_code, reason = "it has cells")]
// SAFETY: the cell `task` is written once, by `Unspawned::spawn`, as a node has one `Unspawned`, consumed there. The
// write precedes the last decrement of `missing`, since this count includes the spawn; the thread with the last
// decrement reads the cell. This may be another thread, so the task has to be `Send`. Each of the other decrements is
// by an entry in a list of successors, closed once. If the task lacks a baton, the baton's lock passes both cells on to
// the thread that takes the task out of the baton's list, once. `has` is used by these threads, and when the task is
// over.
unsafe impl<T: Send> Sync for TaskNode<T> {}

#[expect(unsafe_code, reason = "it has pointers")]
// SAFETY: a baton holds the waiting tasks. Their nodes are for all threads, and any thread may take the tasks.
unsafe impl<T: Send> Send for TaskNode<T> {}

impl<T> TaskNode<T> {
    /// A task before its spawn.
    fn new(number: usize, batons: Vec<Arc<Baton<T>>>) -> TaskNode<T> {
        TaskNode {
            successors: Successors::new(),
            missing: AtomicU32::new(UNSPAWNED),
            has: Cell::new(0),
            task: Cell::new(None),
            cause: AtomicUsize::new(NONE),
            number,
            batons,
        }
    }

    /// Whether this task, or a direct or indirect predecessor, panicked.
    pub fn is_broken(&self) -> bool {
        // Relaxed: the caller has waited for this task, or has seen its end.
        self.cause.load(Ordering::Relaxed) != NONE
    }

    /// The task waits, or would have waited, for a task with this cause.
    fn inherit(&self, cause: usize) {
        // Relaxed: as in `is_broken`.
        self.cause.fetch_min(cause, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.successors.is_closed()
    }

    /// Returns the task if it misses nothing else now.
    fn miss_less(self: &Arc<Self>, by: u32) -> Option<T> {
        // Release and acquire: the thread that queues the task sees the writes of all its predecessors, and its own
        // entry.
        (self.missing.fetch_sub(by, Ordering::AcqRel) == by).then(|| self.take_batons()).flatten()
    }

    /// The task waits for no other task. Returns it if it also has all its batons.
    #[inline]
    fn take_batons(self: &Arc<Self>) -> Option<T> {
        while let Some(baton) = self.batons.get(self.has.get() as usize) {
            if !baton.take(self) {
                return None;
            }
            self.has.set(self.has.get() + 1);
        }
        self.task.take()
    }

    /// Ends the task, without a panic if `is_done`. `ready` gets each task that now waits for no other. The successors
    /// of a task with a panic count as if they had panicked, too.
    ///
    /// # Safety
    /// The caller calls this once, after [`Unspawned::spawn`] or an earlier task's end has given the task out. The same
    /// holds for all tasks of the graph, and each task keeps its node until then.
    #[expect(unsafe_code, reason = "the caller promises what the type system can't see: which tasks are under way")]
    pub unsafe fn end(&self, is_done: bool, mut ready: impl FnMut(T)) {
        if !is_done {
            self.inherit(self.number);
        }
        // Before it is over: then the owner may learn of it, and forget it.
        let cause = self.cause.load(Ordering::Relaxed);
        let tell = |next: &Arc<Self>| {
            if cause != NONE {
                next.inherit(cause);
            }
            if let Some(queued) = next.miss_less(1) {
                ready(queued);
            }
        };
        // SAFETY: the caller's promise.
        unsafe { self.successors.close(tell) };
        for baton in &self.batons[..self.has.replace(0) as usize] {
            if let Some(next) = baton.pass_on() {
                next.has.set(next.has.get() + 1);
                next.take_batons().into_iter().for_each(&mut ready);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::thread;

    fn cell(mode: Mode) -> [Access; 1] {
        [Access::new(0x100, 8, mode)]
    }

    #[test]
    fn a_task_with_many_successors_lets_all_of_them_go_on() {
        for count in [0, 1, FEW - 1, FEW, FEW + 1, 3 * FEW, 3 * FEW + 1, 1000] {
            let mut graph = TaskGraph::default();
            let writer = graph.add(&cell(Mode::Write));
            let node = Arc::clone(writer.node());
            assert_eq!(writer.spawn(0), Some(0));
            for number in 1..=count {
                assert_eq!(graph.add(&cell(Mode::Read)).spawn(number), None);
            }
            let mut ready = Vec::new();
            #[expect(unsafe_code, reason = "ends a task")]
            // SAFETY: it was given out, and ends once; nodes are kept.
            unsafe {
                node.end(true, |task| ready.push(task));
            }
            assert_eq!(ready, (1..=count).collect::<Vec<_>>());
            assert_eq!(graph.add(&cell(Mode::Read)).spawn(0), Some(0), "it is over");
        }
    }

    #[test]
    fn a_successor_that_is_never_spawned_does_no_harm() {
        let mut graph = TaskGraph::default();
        let writer = graph.add(&cell(Mode::Write));
        let node = Arc::clone(writer.node());
        assert_eq!(writer.spawn(0), Some(0));
        drop(graph.add(&cell(Mode::Read)));
        // The waiting tasks outlive the graph.
        drop(graph);
        #[expect(unsafe_code, reason = "ends a task")]
        // SAFETY: it was given out, and ends once; nodes are kept.
        unsafe {
            node.end(true, |_| panic!("it was not spawned"));
        }
    }

    /// Nodes are used again from round to round.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test is its own world: it has threads")]
    fn a_task_that_ends_while_others_are_added_is_waited_for_by_those_that_came_before() {
        #[expect(unsafe_code, reason = "ends a task")]
        // SAFETY: each was given out, and ends once; all nodes are kept until then.
        let end = |node: &TaskNode<usize>, ready: &mut Vec<usize>| unsafe { node.end(true, |task| ready.push(task)) };
        let mut graph = TaskGraph::default();
        for round in 0..500 {
            let successors = round % (2 * FEW);
            let writer = graph.add(&cell(Mode::Write));
            let node = Arc::clone(writer.node());
            assert_eq!(writer.spawn(0), Some(0), "all before it are over");
            let other = thread::spawn(move || {
                (0..round).for_each(|_| std::hint::spin_loop());
                let mut ready = Vec::new();
                end(&node, &mut ready);
                ready
            });
            let (mut nodes, mut ready) = (Vec::new(), Vec::new());
            for number in 1..=successors {
                let reader = graph.add(&cell(Mode::Read));
                nodes.push(Arc::clone(reader.node()));
                ready.extend(reader.spawn(number));
            }
            let mut all = other.join().expect("it does not panic");
            all.append(&mut ready);
            assert_eq!(all, (1..=successors).collect::<Vec<_>>());
            nodes.iter().for_each(|node| end(node, &mut ready));
            assert!(ready.is_empty());
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
            request: RequestId::new(0),
            number,
            has_data: false,
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

    /// Two queued writers end on two threads, while a third task that waits for both is spawned: exactly one of the
    /// three threads queues it, and that thread sees both writes.
    #[test]
    fn loom_a_task_is_queued_once_when_all_that_it_waits_for_is_over() {
        for is_broken in [false, true] {
            loom::model(move || {
                let mut graph = TaskGraph::default();
                let cells = [0x100, 0x200].map(|at| Access::new(at, 8, Mode::Write));
                let writers = cells.each_ref().map(|access| {
                    let writer = graph.add(std::slice::from_ref(access));
                    let node = Arc::clone(writer.node());
                    assert!(writer.spawn(queued()).is_some(), "it waits for no task");
                    node
                });
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
                            #[expect(unsafe_code, reason = "ends a task")]
                            // SAFETY: it was given out, and ends once; nodes are kept.
                            unsafe {
                                writer.end(!(is_broken && at == 1), queue);
                            }
                        })
                    })
                    .collect();
                let unspawned = graph.add(&cells);
                let reader = Arc::clone(unspawned.node());
                unspawned.spawn(queued()).into_iter().for_each(&queue);
                threads.into_iter().for_each(|thread| thread.join().unwrap());
                assert_eq!(times.load(Ordering::Relaxed), 1);
                assert_eq!(reader.is_broken(), is_broken, "what a task did not write is told");
            });
        }
    }

    /// A task ends while three successors are added: each is ready once, and sees the task's writes, whether it still
    /// had to wait or not.
    #[test]
    fn loom_all_that_are_added_while_a_task_ends_go_on() {
        loom::model(|| {
            let mut graph = TaskGraph::default();
            let cell = |mode| [Access::new(0x100, 8, mode)];
            let writer = graph.add(&cell(Mode::Write));
            let node = Arc::clone(writer.node());
            assert_eq!(writer.spawn(0), Some(0));
            let data = Arc::new(Data(UnsafeCell::new(0)));
            #[expect(unsafe_code, reason = "loom's cell")]
            // SAFETY: as for `Sync`.
            let is_written = |data: &Data| assert_eq!(data.0.with(|cell| unsafe { *cell }), 1);
            let other = thread::spawn({
                let data = Arc::clone(&data);
                move || {
                    #[expect(unsafe_code, reason = "loom's cell")]
                    // SAFETY: as for `Sync`.
                    data.0.with_mut(|cell| unsafe { *cell += 1 });
                    let mut ready = Vec::new();
                    #[expect(unsafe_code, reason = "ends a task")]
                    // SAFETY: it was given out, and ends once; nodes are kept.
                    unsafe {
                        node.end(true, |task: i32| ready.push(task));
                    }
                    (ready, node)
                }
            });
            let at_once: Vec<i32> = (1..4).filter_map(|number| graph.add(&cell(Mode::Read)).spawn(number)).collect();
            if !at_once.is_empty() {
                is_written(&data);
            }
            let (ready, _node) = other.join().unwrap();
            assert_eq!(ready.into_iter().chain(at_once).collect::<Vec<_>>(), [1, 2, 3]);
        });
    }

    /// Two commuting tasks, and a third one behind an earlier writer: they end on two threads, either thread may run a
    /// ready one, and no two of the three use the data at once.
    #[test]
    fn loom_tasks_that_commute_run_one_at_a_time() {
        loom::model(|| {
            let mut graph = TaskGraph::default();
            let sum = Access::new(0x100, 8, Mode::Commutative);
            let written = Access::new(0x200, 8, Mode::Write);
            let writer = graph.add(&[written]);
            let writer_node = Arc::clone(writer.node());
            assert_eq!(writer.spawn(usize::MAX), Some(usize::MAX));
            let nodes: Vec<_> = [vec![sum], vec![sum], vec![sum, Access { mode: Mode::Read, ..written }]]
                .into_iter()
                .map(|accesses| graph.add(&accesses))
                .collect();
            let (mut first, mut all) = (None, Vec::new());
            for (number, unspawned) in nodes.into_iter().enumerate() {
                all.push(Arc::clone(unspawned.node()));
                first = first.or(unspawned.spawn(number));
            }
            assert_eq!(first, Some(0), "the others wait");
            let (data, times) = (Arc::new(Data(UnsafeCell::new(0))), Arc::new(AtomicU32::new(0)));
            // Runs tasks until none is ready.
            let work = {
                let (data, times) = (Arc::clone(&data), Arc::clone(&times));
                move |mut ready: Vec<usize>| {
                    while let Some(number) = ready.pop() {
                        #[expect(unsafe_code, reason = "loom's cell")]
                        // SAFETY: as for `Sync`.
                        data.0.with_mut(|cell| unsafe { *cell += 1 });
                        times.fetch_add(1, Ordering::Relaxed);
                        #[expect(unsafe_code, reason = "ends a task")]
                        // SAFETY: it was given out, and ends once; nodes are kept.
                        unsafe {
                            all[number].end(true, |task| ready.push(task));
                        }
                    }
                }
            };
            let other = {
                let work = work.clone();
                thread::spawn(move || {
                    let mut ready = Vec::new();
                    #[expect(unsafe_code, reason = "ends a task")]
                    // SAFETY: it was given out, and ends once; nodes are kept.
                    unsafe {
                        writer_node.end(true, |task| ready.push(task));
                    }
                    work(ready);
                })
            };
            work(vec![0]);
            other.join().unwrap();
            assert_eq!(times.load(Ordering::Relaxed), 3);
        });
    }
}
