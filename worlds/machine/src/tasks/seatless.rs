//! Children of a box that its caller runs, on no seat ([`Runtime::submit_here`](crate::Runtime::submit_here)): the same calls as
//! on a seat, executed by one thread.
//!
//! A child is put into a list. A wait for children or for a group runs the list until it is empty, and so does the end of the
//! box's invocation. That may run more tasks than the awaited ones, which only delays the wait.

use super::drop_quietly;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

/// The state of the calling thread, if it sits on no seat.
enum Running {
    /// It runs no box.
    Nothing,
    /// It runs a box that has not spawned.
    Box,
    /// It runs a box that has spawned, or has opened a group.
    Parent(Children),
}

struct Children {
    /// Children that have not begun.
    waiting: VecDeque<Child>,
    /// The level in which the running task spawns now.
    level: Rc<Level>,
}

struct Child {
    /// What it was spawned in.
    level: Rc<Level>,
    priority: Option<i32>,
    code: Box<dyn FnOnce()>,
}

/// A task, or a group that it has opened.
#[derive(Default)]
struct Level {
    /// For a group, the level in which its task spawned before; for a child, the one in which it was spawned; `None` for the box
    /// itself.
    outer: Option<Rc<Level>>,
    is_group: bool,
    is_cancelled: Cell<bool>,
    /// No task waits here any more: panics go up.
    is_over: Cell<bool>,
    panic: RefCell<Option<Box<dyn Any + Send>>>,
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

/// Runs a box's code, which catches its panics itself, and then its children. Gives the first panic of a child for which no task
/// waited.
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
            *running = Running::Parent(Children { waiting: VecDeque::new(), level: Rc::default() });
        }
        if let Running::Parent(children) = running { Some(f(children)) } else { None }
    })
}

/// As [`spawn_child`](super::spawn_child).
pub(super) fn spawn(priority: Option<i32>, f: impl FnOnce() + Send + 'static) {
    let code = Box::new(f);
    let is_spawned = with_children(|children| {
        children.waiting.push_back(Child { level: Rc::clone(&children.level), priority, code });
    });
    is_spawned.expect("spawn_child is called in a task; Runtime::run makes one, and scope does without");
}

/// As [`wait_for_children`](super::wait_for_children).
pub(super) fn wait() {
    run_all();
    let Some(level) = with_children(|children| Rc::clone(&children.level)) else { return };
    let panic = level.and_around().find_map(Level::take_panic);
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

/// As [`open_group`](super::open_group).
pub(super) fn open_group() {
    let is_open = with_children(|children| {
        let outer = Some(Rc::clone(&children.level));
        children.level = Rc::new(Level { outer, is_group: true, ..Level::default() });
    });
    is_open.expect("open_group is called in a task; Runtime::run makes one");
}

/// As [`close_group`](super::close_group). `None` if none is open.
pub(super) fn close_group() -> Option<Option<Box<dyn Any + Send>>> {
    let group = with_children(|children| Rc::clone(&children.level)).filter(|level| level.is_group)?;
    run_all();
    group.is_over.set(true);
    with_children(|children| children.level = group.outer.clone().expect("a group is in a task"));
    Some(group.take_panic())
}

/// As [`cancel_group`](super::cancel_group). Whether there is a group.
pub(super) fn cancel_group() -> bool {
    let level = with_children(|children| Rc::clone(&children.level));
    let is_cancelled = |level: &Level| level.is_group.then(|| level.is_cancelled.set(true));
    level.is_some_and(|level| level.outwards().find_map(is_cancelled).is_some())
}

/// As [`is_cancelled`](super::is_cancelled).
pub(super) fn is_cancelled() -> bool {
    let is_parent = RUNNING.with_borrow(|running| matches!(running, Running::Parent(_)));
    let level = if is_parent { with_children(|children| Rc::clone(&children.level)) } else { None };
    // Groups that the task has opened itself don't count.
    let outer = level.and_then(|level| level.and_around().last().and_then(|task| task.outer.clone()));
    outer.is_some_and(|outer| outer.is_dropped())
}

impl Children {
    /// The first one; in its place, if it has a priority, the first one of the largest that was spawned in the same level.
    fn take(&mut self) -> Option<Child> {
        let first = self.waiting.front()?;
        let best = |&(_, child): &(usize, &Child)| child.priority;
        let rivals = self.waiting.iter().enumerate().filter(|(_, child)| Rc::ptr_eq(&child.level, &first.level)).rev();
        let taken = first.priority.and_then(|_| rivals.max_by_key(best)).map_or(0, |(at, _)| at);
        self.waiting.remove(taken)
    }
}

impl Level {
    fn outwards(&self) -> impl Iterator<Item = &Level> {
        iter::successors(Some(self), |level| level.outer.as_deref())
    }

    /// This one and those around it that belong to the same task, which is the last of them.
    fn and_around(&self) -> impl Iterator<Item = &Level> {
        iter::successors(Some(self), |level| level.outer.as_deref().filter(|_| level.is_group))
    }

    /// Whether tasks spawned here are no longer to begin.
    fn is_dropped(&self) -> bool {
        self.outwards().any(|level| level.is_cancelled.get())
    }

    fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panic.take()
    }

    /// Keeps a panic for the first level outwards where a task may still wait, if it is the first one there.
    fn keep_panic(&self, panic: Box<dyn Any + Send>) {
        let level = self.outwards().find(|level| !level.is_over.get()).expect("the box waits to the end");
        let mut slot = level.panic.borrow_mut();
        let other = if slot.is_none() { slot.replace(panic) } else { Some(panic) };
        drop(slot);
        drop_quietly(other);
    }

    /// A task that spawns here ends: it closes its groups, and from now on panics go to the level in which it was spawned.
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

/// Runs all children that have not begun, and those that they spawn.
fn run_all() {
    while let Some(Child { level, code, .. }) = with_children(Children::take).flatten() {
        if level.is_dropped() {
            drop_quietly(code);
            continue;
        }
        let own = Rc::new(Level { outer: Some(Rc::clone(&level)), ..Level::default() });
        let before = with_children(|children| std::mem::replace(&mut children.level, own));
        let result = catch_unwind(AssertUnwindSafe(code));
        let before = before.expect("the box runs");
        let own = with_children(|children| std::mem::replace(&mut children.level, before)).expect("the box runs");
        own.end_task();
        result.unwrap_or_else(|panic| level.keep_panic(panic));
    }
}

#[cold]
fn end_box() -> Option<Box<dyn Any + Send>> {
    run_all();
    let level = with_children(|children| Rc::clone(&children.level))?;
    level.end_task();
    level.and_around().last().and_then(Level::take_panic)
}
