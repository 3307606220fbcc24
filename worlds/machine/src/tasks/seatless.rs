//! Children of a box that its caller runs, on no seat ([`Runtime::submit_here`](crate::Runtime::submit_here)): the same calls as
//! on a seat, executed by one thread.
//!
//! A child is put into a list. A wait for children or for a group runs the list until it is empty, and so does the end of the
//! box's invocation. That may run more tasks than the awaited ones, which only delays the wait.

use super::drop_quietly;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
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
    /// Children that have not begun, in the order in which they were spawned.
    waiting: VecDeque<Waiting>,
    /// The level in which the running task spawns now.
    level: Rc<Level>,
    /// How many have been spawned.
    spawned: u64,
}

struct Waiting {
    /// What it was spawned in.
    level: Rc<Level>,
    /// `None`: the best of its level's children that have said a priority.
    code: Option<Code>,
}

type Code = Box<dyn FnOnce()>;

/// A task, or a group that it has opened.
struct Level {
    /// For a group, the level in which its task spawned before. For a child, the first one outwards of the one in which it was spawned
    /// that was not over when it began: so of a chain of tasks that have ended none keeps the one before. `None` for the box itself.
    outer: Option<Rc<Level>>,
    /// The innermost group that contains it; of a group, another one.
    group: Option<Rc<Level>>,
    is_group: bool,
    is_cancelled: Cell<bool>,
    /// No task waits here any more: panics go up.
    is_over: Cell<bool>,
    panic: RefCell<Option<Box<dyn Any + Send>>>,
    /// Its children with a priority that have not begun. The first one is of the largest priority; of several, it was spawned first.
    best: RefCell<BTreeMap<(Reverse<i32>, u64), Code>>,
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
            *running = Running::Parent(Children { waiting: VecDeque::new(), level: Level::of_box(), spawned: 0 });
        }
        if let Running::Parent(children) = running { Some(f(children)) } else { None }
    })
}

/// As [`spawn_child`](super::spawn_child).
pub(super) fn spawn(priority: Option<i32>, f: impl FnOnce() + Send + 'static) {
    let code = Box::new(f);
    let is_spawned = with_children(|children| {
        children.put(priority, code);
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
        children.level = Level::of_group(&children.level);
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
    let group = level.and_then(|level| level.innermost_group());
    group.map(|group| group.is_cancelled.set(true)).is_some()
}

/// As [`is_cancelled`](super::is_cancelled).
pub(super) fn is_cancelled() -> bool {
    let is_parent = RUNNING.with_borrow(|running| matches!(running, Running::Parent(_)));
    let level = if is_parent { with_children(|children| Rc::clone(&children.level)) } else { None };
    // Groups that the task has opened itself don't count.
    let around = level.and_then(|level| level.and_around().last().and_then(|task| task.group.clone()));
    around.is_some_and(|group| group.is_dropped())
}

impl Children {
    fn put(&mut self, priority: Option<i32>, code: Code) {
        let level = Rc::clone(&self.level);
        let code = match priority {
            None => Some(code),
            Some(priority) => {
                level.best.borrow_mut().insert((Reverse(priority), self.spawned), code);
                None
            }
        };
        self.spawned += 1;
        self.waiting.push_back(Waiting { level, code });
    }

    /// The first one; in its place, if it has a priority, the best one of its level.
    fn take(&mut self) -> Option<(Rc<Level>, Code)> {
        let Waiting { level, code } = self.waiting.pop_front()?;
        let code = code.unwrap_or_else(|| {
            let (_, best) =
                level.best.borrow_mut().pop_first().expect("each child with a priority is there until it is taken");
            best
        });
        Some((level, code))
    }
}

impl Level {
    fn new(outer: Option<Rc<Level>>, group: Option<Rc<Level>>, is_group: bool) -> Rc<Level> {
        Rc::new(Level {
            outer,
            group,
            is_group,
            is_cancelled: Cell::new(false),
            is_over: Cell::new(false),
            panic: RefCell::new(None),
            best: RefCell::new(BTreeMap::new()),
        })
    }

    fn of_box() -> Rc<Level> {
        Level::new(None, None, false)
    }

    /// For a task that was spawned in `spawned_in`.
    fn of_task(spawned_in: &Rc<Level>) -> Rc<Level> {
        Level::new(Some(Level::awaited(spawned_in)), spawned_in.innermost_group(), false)
    }

    /// For a group that is opened by a task which spawns in `outer`.
    fn of_group(outer: &Rc<Level>) -> Rc<Level> {
        Level::new(Some(Rc::clone(outer)), outer.innermost_group(), true)
    }

    /// The first one outwards where a task may still wait, perhaps this one.
    fn awaited(self: &Rc<Level>) -> Rc<Level> {
        let mut outwards = iter::successors(Some(self), |level| level.outer.as_ref());
        Rc::clone(outwards.find(|level| !level.is_over.get()).expect("the box waits to the end"))
    }

    /// The innermost group to which the tasks belong that are spawned here.
    fn innermost_group(self: &Rc<Level>) -> Option<Rc<Level>> {
        if self.is_group { Some(Rc::clone(self)) } else { self.group.clone() }
    }

    /// This one and those around it that belong to the same task, which is the last of them.
    fn and_around(&self) -> impl Iterator<Item = &Level> {
        iter::successors(Some(self), |level| level.outer.as_deref().filter(|_| level.is_group))
    }

    /// Whether tasks spawned here are no longer to begin.
    fn is_dropped(&self) -> bool {
        iter::successors(Some(self), |level| level.group.as_deref()).any(|level| level.is_cancelled.get())
    }

    fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panic.take()
    }

    /// Keeps a panic for the first level outwards where a task may still wait, if it is the first one there.
    fn keep_panic(self: &Rc<Level>, panic: Box<dyn Any + Send>) {
        let level = self.awaited();
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

/// Not one in the other: groups that their tasks leave open, each in a task of the one before, may be a long chain.
impl Drop for Level {
    fn drop(&mut self) {
        // Allocates only for a level that is dropped with this one.
        let last = |links: [&mut Option<Rc<Level>>; 2]| {
            links.map(|link| link.take().and_then(Rc::into_inner)).into_iter().flatten()
        };
        let mut left: Vec<Level> = last([&mut self.outer, &mut self.group]).collect();
        while let Some(mut level) = left.pop() {
            left.extend(last([&mut level.outer, &mut level.group]));
        }
    }
}

/// Runs all children that have not begun, and those that they spawn.
fn run_all() {
    while let Some((level, code)) = with_children(Children::take).flatten() {
        if level.is_dropped() {
            drop_quietly(code);
            continue;
        }
        let own = Level::of_task(&level);
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
