//! How the iterations of a taskloop are cut into tasks, the threads that make these, and their places of the last time.
//!
//! A taskloop that waits for its tasks is one range of them in a queue. The thread that takes a range makes and runs
//! its tasks one by one. When its queue has nothing for other threads to take, it puts the second half of the rest
//! there (Tzannes et al., "Lazy Binary-Splitting", PPoPP 2010). So a range is cut as often as threads are idle, and a
//! task costs a call and no place in a queue.
//!
//! On a machine with several core groups, tasks return to their group of the last time, because their data may still be
//! in a cache or on the node there. Each such task is queued by itself.

use crate::tasks;
use crate::thread::{Task, here};
use crate::wait::Guarded;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use vicus::kit::spawn_child;
use vicus::kit::team::has_queued;

/// How a taskloop's iterations are cut into tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cuts {
    /// The number of tasks.
    pub(crate) tasks: u64,
    /// The iterations of each.
    each: u64,
    /// How many of the first tasks have one more; `None` if all but the last have just `each`.
    more: Option<u64>,
}

/// Cuts a taskloop of `count` iterations.
pub(crate) fn cut(count: u64, wanted: u64, is_grainsize: bool, is_strict: bool, threads: u64) -> Cuts {
    let tasks = match (wanted, is_grainsize) {
        (0, _) => threads,
        (grain, true) if is_strict => {
            // All but the last one have just `grain` iterations.
            return Cuts { tasks: count.div_ceil(grain), each: grain, more: None };
        }
        (grain, true) => count / grain,
        (tasks, false) => tasks,
    };
    let tasks = tasks.clamp(1, count.max(1));
    Cuts { tasks, each: count / tasks, more: Some(count % tasks) }
}

impl Cuts {
    /// The iterations of a task, of all `count`.
    pub(crate) fn part(self, count: u64, task: u64) -> (u64, u64) {
        let each = self.each;
        let Some(more) = self.more else {
            return (task * each, (task * each).saturating_add(each).min(count));
        };
        let low = task * each + task.min(more);
        (low, low + each + u64::from(task < more))
    }
}

/// The tasks' core groups of the last time: one more than the group's number, or 0.
pub(crate) type Places = [AtomicU16];

/// A team's remembered taskloops, by a hash of their function and bounds.
pub(crate) struct Memories(Guarded<BTreeMap<u64, &'static Places>>);

/// Limits: the remembered taskloops, and the tasks of one.
const MOST_LOOPS: usize = 64;
const MOST_TASKS: u64 = 1 << 16;

impl Memories {
    pub(crate) fn new() -> Memories {
        Memories(Guarded::new(BTreeMap::new()))
    }

    /// The places of a taskloop of this function; `words` are its bounds and its number of tasks. It lives as long as
    /// the team.
    fn of(&self, function: usize, words: &[u64], tasks: u64) -> Option<&'static Places> {
        if tasks > MOST_TASKS {
            return None;
        }
        let key = crate::work::hash([function as u64, tasks].iter().chain(words).copied());
        self.0.with(|all| {
            if !all.contains_key(&key) && all.len() < MOST_LOOPS {
                all.insert(key, Box::leak((0..tasks).map(|_| AtomicU16::new(0)).collect()));
            }
            all.get(&key).copied().filter(|places| places.len() as u64 == tasks)
        })
    }
}

impl Drop for Memories {
    fn drop(&mut self) {
        self.0.with(|all| {
            for &places in all.values() {
                // SAFETY: `of` has leaked it from a box. The team ends, and no task of its regions is left.
                drop(unsafe { Box::from_raw(std::ptr::from_ref(places).cast_mut()) });
            }
        });
    }
}

/// The places for the tasks of a new taskloop of the calling thread: those of the last time. `None` on a machine with
/// one core group, since all tasks stay in it anyway.
pub(crate) fn remembered(function: usize, words: &[u64], tasks: u64) -> Option<&'static Places> {
    let thread = here();
    if !thread.is_seated {
        return None;
    }
    thread.team().work.taskloops.as_ref()?.of(function, words, tasks)
}

/// Makes and runs the tasks of a loop, by their numbers, one after the other.
struct Tasks<F: ?Sized> {
    /// The settings inherited from the task that began the loop.
    parent: Task,
    run: F,
}

/// The tasks of any loop.
type AnyTasks<'a> = Tasks<dyn Fn(&mut Numbers) + 'a>;

/// Runs `count` tasks, by calls of `run`: at once if none may be queued. Otherwise they are children of the calling
/// thread's task, each made by the thread that runs it.
///
/// # Safety
/// The data and borrows of `run` live until all tasks are over, and any thread of the team may call it.
pub(crate) unsafe fn run<'a>(count: u64, run: impl Fn(&mut Numbers) + 'a) {
    let thread = here();
    if tasks::is_without_queue(thread) {
        return run(&mut Numbers { low: 0, high: count, tasks: None });
    }
    let parent = thread.task();
    let tasks: Arc<AnyTasks<'a>> = Arc::new(Tasks { parent: parent.child(parent.is_final), run });
    // SAFETY: the lifetime is the caller's promise.
    let tasks = unsafe { std::mem::transmute::<Arc<AnyTasks<'a>>, Arc<AnyTasks<'static>>>(tasks) };
    Range { tasks, low: 0, high: count }.queue();
}

/// The task numbers of one thread's range: fewer if others take some meanwhile.
pub(crate) struct Numbers {
    low: u64,
    high: u64,
    /// None if no other thread may take some.
    tasks: Option<Arc<AnyTasks<'static>>>,
}

impl Iterator for Numbers {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        let is_cancelled = || crate::settings::get().cancels && tasks::is_dropped(here());
        if self.low == self.high || is_cancelled() {
            return None;
        }
        if self.high - self.low > 1 && self.tasks.is_some() && !has_queued() {
            self.hand_on();
        }
        self.low += 1;
        Some(self.low - 1)
    }
}

impl Numbers {
    /// Puts the second half into a queue.
    #[cold]
    fn hand_on(&mut self) {
        let Some(tasks) = self.tasks.clone() else { return };
        let middle = self.low + (self.high - self.low) / 2;
        Range { tasks, low: middle, high: self.high }.queue();
        self.high = middle;
    }
}

/// Numbers in a queue: they are run once, or dropped if their group was cancelled.
struct Range {
    tasks: Arc<AnyTasks<'static>>,
    low: u64,
    high: u64,
}

// SAFETY: one thread has it, and may call its function: the caller of `run` has promised it.
unsafe impl Send for Range {}

impl Range {
    fn queue(self) {
        let thread = here();
        tasks::tell(thread);
        tasks::lead(thread, 1);
        spawn_child(move || self.run());
    }

    fn run(&self) {
        let Tasks { parent, run } = &*self.tasks;
        let mut own = parent.child(parent.is_final);
        let outer = std::mem::replace(&mut here().task, &raw mut own);
        run(&mut Numbers { low: self.low, high: self.high, tasks: Some(Arc::clone(&self.tasks)) });
        here().task = outer;
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        tasks::lead(here(), -1);
    }
}
