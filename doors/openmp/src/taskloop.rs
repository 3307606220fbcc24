//! How the iterations of a taskloop are cut into tasks, and where these ran the last time: they return to the core group of that thread, where
//! their data may still be in a cache or on the node.

use crate::thread::here;
use crate::wait::Guarded;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU16;

/// How many iterations each task of a taskloop has: so many tasks with one more than the number of the others.
pub(crate) fn cut(count: u64, wanted: u64, is_grainsize: bool, is_strict: bool, threads: u64) -> (u64, u64, u64) {
    let tasks = match (wanted, is_grainsize) {
        (0, _) => threads,
        (grain, true) if is_strict => {
            // All but the last one have just so many.
            return (count.div_ceil(grain), grain, u64::MAX);
        }
        (grain, true) => count / grain,
        (tasks, false) => tasks,
    };
    let tasks = tasks.clamp(1, count.max(1));
    (tasks, count / tasks, count % tasks)
}

/// The iterations of a task of a taskloop.
pub(crate) fn part((_, each, more): (u64, u64, u64), count: u64, task: u64) -> (u64, u64) {
    if more == u64::MAX {
        return (task * each, (task * each).saturating_add(each).min(count));
    }
    let low = task * each + task.min(more);
    (low, low + each + u64::from(task < more))
}

/// Where the tasks of a taskloop ran the last time, each by its core group: one more than its number, or 0.
pub(crate) type Places = [AtomicU16];

/// The taskloops that a team remembers, by a hash of their function and bounds.
pub(crate) struct Memories(Guarded<BTreeMap<u64, &'static Places>>);

/// So many taskloops are remembered, and so many tasks of one.
const MOST_LOOPS: usize = 64;
const MOST_TASKS: u64 = 1 << 16;

impl Memories {
    pub(crate) fn new() -> Memories {
        Memories(Guarded::new(BTreeMap::new()))
    }

    /// Where the tasks of a taskloop of this function ran, whose bounds and number of tasks these words tell. It lives as long as the team,
    /// which is as long as the process.
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

/// Where the tasks of a taskloop are to run that the calling thread begins: where they ran the last time. `None` on a machine with one
/// core group, where that is everywhere.
pub(crate) fn remembered(function: usize, words: &[u64], tasks: u64) -> Option<&'static Places> {
    let thread = here();
    if !thread.is_seated {
        return None;
    }
    thread.team().taskloops.as_ref()?.of(function, words, tasks)
}
