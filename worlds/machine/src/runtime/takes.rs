//! Number of tasks taken by each seat, by rule and by distance: counters, for runs with too long a trace.
//!
//! Each seat has its own lines of memory, written by it alone; a reader adds them up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vicus_schedule::{Plan, PoolId, QueueId, SeatId, Way};
use vicus_topology::{GroupId, Topology};

/// The distance of a seat from its taken task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// In the seat's own queue, or handed to the seat alone.
    Own,
    /// In a queue of the seat's core group: of another seat of it, or of all of them.
    Group,
    /// In another queue of the seat's node.
    Node,
    /// In a queue of another node.
    Far,
}

impl Level {
    /// All of them, the nearest first.
    pub const ALL: [Level; 4] = [Level::Own, Level::Group, Level::Node, Level::Far];

    /// Its name: `own`, `group`, `node` or `far`.
    pub const fn name(self) -> &'static str {
        ["own", "group", "node", "far"][self as usize]
    }

    /// How far a queue is from a seat.
    fn of(plan: &Plan, machine: &Topology, seat: SeatId, queue: QueueId) -> Level {
        let (here, spec) = (&plan.seats[seat.index()], &plan.queues[queue.index()]);
        if spec.home != here.node {
            return Level::Far;
        }
        if spec.owner == Some(seat) {
            return Level::Own;
        }
        let group = |seat: usize| -> GroupId { machine.pus[plan.seats[seat].pu.index()].group };
        let puts =
            |other: &usize| spec.owner.map(SeatId::index) == Some(*other) || plan.seats[*other].place.contains(&queue);
        let mut groups = (0..plan.seats.len()).filter(puts).map(group).peekable();
        // A queue without spawned tasks of any seat holds tasks for the seats it wakes: of a group, or of a whole node,
        // dealt there by their bytes, or from outside.
        let is_theirs = |pool: &PoolId| {
            plan.pools[pool.index()].seats.iter().all(|other| group(other.index()) == group(seat.index()))
        };
        let is_near = match groups.peek() {
            Some(_) => groups.all(|other| other == group(seat.index())),
            None => spec.wake.iter().all(is_theirs),
        };
        if is_near { Level::Group } else { Level::Node }
    }
}

/// The counters of one seat. Aligned, so that no two seats write one line, nor two lines fetched together.
#[repr(align(128))]
pub(crate) struct SeatTakes {
    /// By queue.
    levels: Box<[Level]>,
    /// By rule; 0 is for tasks from no queue.
    counts: Box<[LevelCounters]>,
}

/// By level.
#[derive(Default)]
#[repr(align(128))]
struct LevelCounters([AtomicU64; Level::ALL.len()]);

impl SeatTakes {
    pub(crate) fn of_all(plan: &Plan, machine: &Topology) -> Vec<Arc<SeatTakes>> {
        let rules = plan.seats.iter().flat_map(|seat| &seat.look).map(|probe| probe.rule).max().unwrap_or(0);
        let of = |seat: SeatId| SeatTakes {
            levels: (0..plan.queues.len()).map(|queue| Level::of(plan, machine, seat, QueueId::new(queue))).collect(),
            counts: (0..=rules).map(|_| LevelCounters::default()).collect(),
        };
        (0..plan.seats.len()).map(|seat| Arc::new(of(SeatId::new(seat)))).collect()
    }

    /// Counts a task taken by the seat from a queue by a rule, or received without one. Called by its thread alone.
    pub(crate) fn take(&self, way: Way) {
        let level = way.queue().map_or(Level::Own, |queue| self.levels[queue.index()]);
        let count = &self.counts[usize::from(way.rule())].0[level as usize];
        // Only one thread writes it, so no count is lost between load and store.
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn add_to(&self, sums: &mut BTreeMap<(u8, Level), u64>) {
        for (rule, LevelCounters(counts)) in (0..).zip(&self.counts) {
            for (level, count) in Level::ALL.into_iter().zip(counts) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    *sums.entry((rule, level)).or_default() += count;
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Two nodes of two core groups of two cores.
    #[test]
    fn levels_are_those_of_the_machine() {
        let machine = Topology::parse("node:2 l3:2 core:2").unwrap();
        let plan = "las".parse::<vicus_schedule::Setting>().unwrap().plan(&machine, 8);
        let own = |seat: usize| plan.seats[seat].place[vicus_schedule::Kind::Immediate as usize];
        let levels: Vec<Level> = (0..8).map(|other| Level::of(&plan, &machine, SeatId::new(0), own(other))).collect();
        use Level::{Far, Group, Node, Own};
        assert_eq!(levels, [Own, Group, Node, Node, Far, Far, Far, Far]);
    }
}
