//! How the iterations of a taskloop are cut into tasks.

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
