//! The common part of the programs published by the authors of footprint scheduling with their runtime (MIR).

use crate::{KernelWorld, Task, TaskOrder};

/// How often each task goes over its data.
pub(crate) const PASSES: usize = 10;

/// The factor of all their programs.
pub(crate) const SCALE: f32 = 42.0;

/// Tasks made by all workers: as many tasks as threads make an equal part each, and wait for it; one more makes the
/// rest. Returns when all have ended.
pub(crate) fn tasks_made_by_all<W: KernelWorld, F: FnOnce() + Send>(
    world: &W,
    count: usize,
    task: &(impl Fn(usize) -> (Task, F) + Sync),
) {
    let each = count / world.threads();
    let parts = if each > 0 { world.threads() } else { 0 };
    let ranges = (0..parts).map(|part| part * each..(part + 1) * each).chain(std::iter::once(parts * each..count));
    let makers = ranges.filter(|range| !range.is_empty()).map(|range| {
        let make = move || world.tasks(TaskOrder::Free, range.map(task));
        (Task::new([]), make)
    });
    world.tasks(TaskOrder::Free, makers);
}
