//! Children of a box run by its caller, on no seat
//! ([`MachineRuntime::submit_here`](crate::MachineRuntime::submit_here)): the same calls as on a seat, executed by one
//! thread.
//!
//! A child enters a list when its preceding siblings are over. A wait for children or for a group runs the list until
//! it is empty, and so does the end of the box's invocation. The list may hold more than the awaited tasks, which only
//! delays the wait. It leads to all of the awaited ones: a child outside of the list follows one in the list, or a
//! begun one, and a begun child is over or stands on the stack above the waiting task.

use crate::runtime::caller_here;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use vicus_flow::drop_quietly;
use vicus_schedule::{Access, TaskGraph, TaskNode, Unspawned};

/// The state of the calling thread, if it sits on no seat.
enum Running {
    /// Runs no box.
    Nothing,
    /// Runs a box without spawned children.
    Box,
    /// Runs a box with spawned children, or an opened group.
    Parent(Children),
}

struct Children {
    /// Children that have not begun and wait for no sibling, in the order in which they became ready.
    ready: VecDeque<Ready>,
    /// Children waiting for siblings, by their numbers.
    held: BTreeMap<u64, Child>,
    /// The level of the running task's next children.
    level: Rc<Level>,
    /// The next number.
    next: u64,
}

struct Ready {
    /// The level of its spawn.
    level: Rc<Level>,
    /// `None`: the best of its level's children with a priority.
    task: Option<Task>,
}

/// A child to be put into the list.
struct Child {
    level: Rc<Level>,
    priority: Option<i32>,
    task: Task,
}

struct Task {
    code: Box<dyn FnOnce()>,
    /// For a child with declared accesses: its node, for its followers.
    node: Option<Arc<TaskNode<u64>>>,
}

/// A task, or a group opened by it.
struct Level {
    /// For a group, the earlier level of its task. For a child, the first level outwards of its spawn that was not over
    /// when the child began; a chain of ended tasks therefore does not keep its members alive. `None` for the box
    /// itself.
    outer: Option<Rc<Level>>,
    /// The innermost group around it; for a group, another one.
    group: Option<Rc<Level>>,
    /// For a group: the level of its task.
    task: Option<Rc<Level>>,
    is_group: bool,
    is_cancelled: Cell<bool>,
    /// No task waits here any more: panics go up.
    is_over: Cell<bool>,
    panic: RefCell<Option<Box<dyn Any + Send>>>,
    /// Its listed children with a priority. The first one has the largest priority; among equals, it came first.
    best: RefCell<BTreeMap<(Reverse<i32>, u64), Task>>,
    /// For a task: its children with declared accesses, including those of its groups.
    graph: RefCell<Option<Box<TaskGraph<u64>>>>,
    /// For a group: the number of its first task in the graph.
    first_ordered: usize,
}

thread_local! {
    static RUNNING: RefCell<Running> = const { RefCell::new(Running::Nothing) };
}

/// Restores the thread's state of before.
struct Restore(Option<Running>);

impl Drop for Restore {
    fn drop(&mut self) {
        let outer = self.0.take();
        // Its children are over, so no user's code is dropped here.
        drop(outer.map(|outer| RUNNING.replace(outer)));
    }
}

/// Runs a box's code, which catches its panics itself, and then its children. Returns the first panic of a child
/// without a waiting task.
#[inline]
pub(crate) fn act(code: impl FnOnce()) -> Option<Box<dyn Any + Send>> {
    // The box of another request may be beneath on the stack.
    let _outer = Restore(Some(RUNNING.replace(Running::Box)));
    code();
    if RUNNING.with_borrow(|running| matches!(running, Running::Parent(_))) { end_box() } else { None }
}

/// Calls `f` with the children of the running box; `None` if no box runs.
fn with_children<R>(f: impl FnOnce(&mut Children) -> R) -> Option<R> {
    RUNNING.with_borrow_mut(|running| {
        if let Running::Box = running {
            *running = Running::Parent(Children::of_box());
        }
        if let Running::Parent(children) = running { Some(f(children)) } else { None }
    })
}

/// Like [`spawn_child`](crate::spawn_child), with a priority, and the accesses that order it among its siblings.
pub(crate) fn spawn(priority: Option<i32>, ordered: &[Access], f: impl FnOnce() + Send + 'static) {
    let is_spawned = with_children(|children| {
        let level = Rc::clone(&children.level);
        let unspawned = match ordered {
            [] => None,
            ordered => Some(level.with_graph(|graph| graph.get_or_insert_default().add(ordered))),
        };
        let code = Box::new(f);
        let Some(unspawned) = unspawned else {
            return children.put(Child { level, priority, task: Task { code, node: None } });
        };
        let task = Task { code, node: Some(Arc::clone(unspawned.node())) };
        children.hold(Child { level, priority, task }, unspawned);
    });
    is_spawned.expect("spawn_child is called in a task; Runtime::run makes one, and scope does without");
}

/// Like [`wait_for_children`](crate::wait_for_children).
pub(crate) fn wait() {
    run_all();
    let Some(level) = with_children(|children| Rc::clone(&children.level)) else { return };
    let panic = level.and_around().find_map(Level::take_panic);
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

/// Like [`open_group`](crate::open_group).
pub(crate) fn open_group() {
    let is_open = with_children(|children| {
        children.level = Level::of_group(&children.level);
    });
    is_open.expect("open_group is called in a task; Runtime::run makes one");
}

/// Like [`close_group`](crate::close_group). `None` if none is open.
pub(crate) fn close_group() -> Option<Option<Box<dyn Any + Send>>> {
    let group = with_children(|children| Rc::clone(&children.level)).filter(|level| level.is_group)?;
    run_all();
    group.is_over.set(true);
    with_children(|children| children.level = group.outer.clone().expect("a group is in a task"));
    Some(group.take_panic())
}

/// Like [`cancel_group`](crate::cancel_group). Returns whether there is a group.
pub(crate) fn cancel_group() -> bool {
    let level = with_children(|children| Rc::clone(&children.level));
    let group = level.and_then(|level| level.innermost_group());
    group.map(|group| group.is_cancelled.set(true)).is_some()
}

/// Like [`is_cancelled`](crate::is_cancelled).
pub(crate) fn is_cancelled() -> bool {
    let (is_box, level) = RUNNING.with_borrow(|running| match running {
        Running::Nothing => (false, None),
        Running::Box => (true, None),
        Running::Parent(children) => (true, Some(Rc::clone(&children.level))),
    });
    // Groups opened by the task itself don't count.
    let around = level.and_then(|level| level.and_around().last().and_then(|task| task.group.clone()));
    is_box && (around.is_some_and(|group| group.is_dropped()) || caller_here::is_given_up())
}

impl Children {
    fn of_box() -> Children {
        Children { ready: VecDeque::new(), held: BTreeMap::new(), level: Level::of_box(), next: 0 }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn hold(&mut self, child: Child, unspawned: Unspawned<u64>) {
        let number = self.number();
        self.held.insert(number, child);
        if let Some(number) = unspawned.spawn(number) {
            self.release(number);
        }
    }

    /// The preceding siblings of this child are over.
    fn release(&mut self, number: u64) {
        let child = self.held.remove(&number).expect("a child is held until it is ready");
        self.put(child);
    }

    fn put(&mut self, Child { level, priority, task }: Child) {
        let task = match priority {
            None => Some(task),
            Some(priority) => {
                let number = self.number();
                level.best.borrow_mut().insert((Reverse(priority), number), task);
                None
            }
        };
        self.ready.push_back(Ready { level, task });
    }

    /// The first one; in its place, if it has a priority, the best one of its level.
    fn take(&mut self) -> Option<(Rc<Level>, Task)> {
        let Ready { level, task } = self.ready.pop_front()?;
        let task = task.unwrap_or_else(|| {
            let best = level.best.borrow_mut().pop_first();
            best.expect("each child with a priority is there until it is taken").1
        });
        Some((level, task))
    }
}

impl Level {
    fn new(outer: Option<Rc<Level>>, group: Option<Rc<Level>>, is_group: bool) -> Level {
        Level {
            outer,
            group,
            task: None,
            is_group,
            is_cancelled: Cell::new(false),
            is_over: Cell::new(false),
            panic: RefCell::new(None),
            best: RefCell::new(BTreeMap::new()),
            graph: RefCell::new(None),
            first_ordered: 0,
        }
    }

    fn of_box() -> Rc<Level> {
        Rc::new(Level::new(None, None, false))
    }

    /// The level of a task spawned in `spawned_in`.
    fn of_task(spawned_in: &Rc<Level>) -> Rc<Level> {
        Rc::new(Level::new(Some(Level::awaited(spawned_in)), spawned_in.innermost_group(), false))
    }

    /// The level of a group opened by a task whose level is `outer`.
    fn of_group(outer: &Rc<Level>) -> Rc<Level> {
        let mut group = Level::new(Some(Rc::clone(outer)), outer.innermost_group(), true);
        group.task = Some(Rc::clone(outer.task.as_ref().unwrap_or(outer)));
        group.first_ordered = outer.with_graph(|graph| graph.as_ref().map_or(0, |graph| graph.next_number()));
        Rc::new(group)
    }

    /// The first level outwards with a task that may still wait, perhaps this one.
    fn awaited(self: &Rc<Level>) -> Rc<Level> {
        let mut outwards = iter::successors(Some(self), |level| level.outer.as_ref());
        Rc::clone(outwards.find(|level| !level.is_over.get()).expect("the box waits to the end"))
    }

    /// The innermost group of tasks spawned here.
    fn innermost_group(self: &Rc<Level>) -> Option<Rc<Level>> {
        if self.is_group { Some(Rc::clone(self)) } else { self.group.clone() }
    }

    /// This level and those around it of the same task; the task's own is the last.
    fn and_around(&self) -> impl Iterator<Item = &Level> {
        iter::successors(Some(self), |level| level.outer.as_deref().filter(|_| level.is_group))
    }

    /// Whether tasks spawned here are no longer to begin.
    fn is_dropped(&self) -> bool {
        iter::successors(Some(self), |level| level.group.as_deref()).any(|level| level.is_cancelled.get())
    }

    /// Like [`Context::take_panic`](vicus_schedule::Context::take_panic).
    fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        let panic = self.panic.take()?;
        self.with_graph(|graph| graph.iter_mut().for_each(|graph| graph.forget_panics(self.first_ordered)));
        Some(panic)
    }

    /// Calls `f` with the graph of this task's children, if there is one.
    fn with_graph<R>(&self, f: impl FnOnce(&mut Option<Box<TaskGraph<u64>>>) -> R) -> R {
        f(&mut self.task.as_deref().unwrap_or(self).graph.borrow_mut())
    }

    /// Keeps a panic for the first level outwards with a task that may still wait, if it is the first panic there.
    fn keep_panic(self: &Rc<Level>, panic: Box<dyn Any + Send>) {
        let level = self.awaited();
        let mut slot = level.panic.borrow_mut();
        let other = vicus_flow::keep_first(&mut slot, panic);
        drop(slot);
        drop_quietly(other);
    }

    /// Ends a task that spawns here: it closes its groups, and from now on panics go to the level of its spawn.
    fn end_task(&self) {
        for level in self.and_around() {
            if let Some(outer) = &level.outer {
                level.is_over.set(true);
                if let Some(panic) = level.take_panic() {
                    outer.keep_panic(panic);
                }
            }
        }
    }
}

/// Drops in a loop instead of recursively: groups left open, each in a task of the one before, may be a long chain.
impl Drop for Level {
    fn drop(&mut self) {
        // Allocates only for a level dropped with this one.
        let last = |links: [&mut Option<Rc<Level>>; 3]| {
            links.map(|link| link.take().and_then(Rc::into_inner)).into_iter().flatten()
        };
        let mut left: Vec<Level> = last([&mut self.outer, &mut self.group, &mut self.task]).collect();
        while let Some(mut level) = left.pop() {
            left.extend(last([&mut level.outer, &mut level.group, &mut level.task]));
        }
    }
}

/// Runs all children that have not begun, and their children.
fn run_all() {
    while let Some((level, Task { code, node })) = with_children(Children::take).flatten() {
        let follows_panic = node.as_ref().is_some_and(|node| node.is_broken());
        let is_sound = if follows_panic || level.is_dropped() || caller_here::is_given_up() {
            drop_quietly(code);
            !follows_panic
        } else {
            run(&level, code, node.is_some())
        };
        if let Some(node) = node {
            let ready = |number| with_children(|children| children.release(number)).expect("the box runs");
            #[expect(unsafe_code, reason = "ends a task of a graph")]
            // SAFETY: it was taken once; waiting ones are held with their nodes.
            unsafe {
                node.end(is_sound, ready);
            }
        }
    }
}

/// Runs a child spawned in this level. Returns whether it ended without a panic. If others may follow it, the groups it
/// has left open are a part of it.
fn run(level: &Rc<Level>, code: Box<dyn FnOnce()>, is_followed: bool) -> bool {
    let own = Level::of_task(level);
    let before = with_children(|children| std::mem::replace(&mut children.level, own));
    let result = catch_unwind(AssertUnwindSafe(code));
    if is_followed && with_children(|children| children.level.is_group) == Some(true) {
        run_all();
    }
    let before = before.expect("the box runs");
    let own = with_children(|children| std::mem::replace(&mut children.level, before)).expect("the box runs");
    own.end_task();
    let is_sound = result.is_ok();
    result.unwrap_or_else(|panic| level.keep_panic(panic));
    is_sound
}

#[cold]
fn end_box() -> Option<Box<dyn Any + Send>> {
    run_all();
    debug_assert!(
        with_children(|children| children.held.is_empty()) == Some(true),
        "a child follows none that is not over"
    );
    let level = with_children(|children| Rc::clone(&children.level))?;
    level.end_task();
    level.and_around().last().and_then(Level::take_panic)
}
