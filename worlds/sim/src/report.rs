//! The results of a simulated run.

use crate::memory::Resource;
use crate::parameters::{ParameterSet, Parameters};
use crate::{Program, Step};
use std::collections::BTreeMap;
use std::fmt;
use vicus_schedule::Decision;
use vicus_trace::Trace;

/// The measured part of a run: between [`Step::Start`](crate::Step::Start) and [`Step::End`](crate::Step::End), or from
/// the beginning to the end.
#[derive(Clone, Debug, PartialEq)]
pub struct SimOutcome {
    /// The program's name.
    pub program: String,
    /// The machine's name.
    pub machine: String,
    /// The strategy, with its parameters.
    pub strategy: String,
    /// The free parameters.
    pub parameters: Parameters,
    /// The parameters used by the run: other values of the rest give the same run.
    pub used: ParameterSet,
    /// The seed.
    pub seed: u64,
    /// The number of threads.
    pub threads: usize,
    /// How long the measured part took, in nanoseconds.
    pub wall_ns: f64,
    /// When the measured part began, in nanoseconds of virtual time.
    pub start_ns: f64,
    /// How long the whole run took.
    pub total_ns: f64,
    /// The counts of the measured part.
    pub counts: Counts,
    /// By controller, link, shared cache and bus: the used share of its capacity.
    pub resources: Vec<Utilisation>,
    /// By task, place and time of its run; in the whole run.
    pub tasks: Vec<TaskRecord>,
    /// By seat, its decisions in order; empty if they were not requested.
    pub decisions: Vec<Vec<Decision>>,
    /// Each seat's events, if they were requested.
    pub trace: Option<Trace>,
}

/// Sums over the measured part of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Time in pieces of work, over all seats, in nanoseconds.
    pub busy_ns: f64,
    /// Time in spawning, dealing and taking tasks, over all seats, in nanoseconds.
    pub overhead_ns: f64,
    /// Bytes between cores and their own node's memory, or their own home cache.
    pub near_bytes: f64,
    /// Bytes between cores and other nodes' memory, or other home caches.
    pub far_bytes: f64,
    /// Bytes found by a core in a cache of its own or its group's.
    pub cached_bytes: f64,
    /// By rule of the plan, how many tasks it found.
    pub takes: BTreeMap<u8, u64>,
    /// Takes from a queue of another node than the seat's.
    pub far_takes: u64,
    /// Tasks refused by a full queue, and run by their spawner at once.
    pub refused: u64,
    /// Ended tasks.
    pub tasks: u64,
    /// Woken seats.
    pub wakes: u64,
    /// By resource, its bytes.
    pub(crate) uses: Vec<f64>,
}

/// The use of a shared resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Utilisation {
    /// A name for people: `controller 3`, `link 0>1`.
    pub name: String,
    /// Its bytes.
    pub bytes: f64,
    /// The used share of its capacity, from 0 to 1.
    pub share: f64,
}

/// The place and time of a task's run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskRecord {
    /// The seat.
    pub seat: u32,
    /// When it began, in nanoseconds of virtual time.
    pub start_ns: f64,
    /// When it was over.
    pub end_ns: f64,
    /// How long its cores waited for a line on average, in nanoseconds, contention included; 0 without memory.
    pub latency_ns: f64,
    /// Its working time in nanoseconds: without waits for others, and without spawns.
    pub busy_ns: f64,
    /// Bytes between its core and near memory, as in [`Counts::near_bytes`].
    pub near_bytes: f64,
    /// Bytes between its core and far memory.
    pub far_bytes: f64,
    /// Bytes found in a cache.
    pub cached_bytes: f64,
}

/// Sums over the tasks of one leaf, in the whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeafSums {
    /// The leaf, as in [`Program::leaves`].
    pub name: String,
    /// How many tasks work first of all on this leaf.
    pub tasks: u64,
    /// See [`TaskRecord`].
    pub busy_ns: f64,
    /// See [`TaskRecord`].
    pub near_bytes: f64,
    /// See [`TaskRecord`].
    pub far_bytes: f64,
    /// See [`TaskRecord`].
    pub cached_bytes: f64,
}

impl SimOutcome {
    /// The sums over the tasks of each leaf with tasks, in the order of the leaves. A task counts for the leaf of its
    /// first piece of work. The first task, which spawns all others, is left out. `program` is the simulated one.
    pub fn by_leaf(&self, program: &Program) -> Vec<LeafSums> {
        let mut sums: Vec<LeafSums> =
            program.leaves.iter().map(|name| LeafSums { name: name.clone(), ..LeafSums::default() }).collect();
        for (task, record) in program.tasks.iter().zip(&self.tasks).skip(1) {
            let first = task.steps.iter().find_map(|step| match step {
                Step::Work(work) => Some(work.leaf as usize),
                _ => None,
            });
            let Some(sum) = first.and_then(|leaf| sums.get_mut(leaf)) else { continue };
            sum.tasks += 1;
            sum.busy_ns += record.busy_ns;
            sum.near_bytes += record.near_bytes;
            sum.far_bytes += record.far_bytes;
            sum.cached_bytes += record.cached_bytes;
        }
        sums.retain(|sum| sum.tasks > 0);
        sums
    }

    /// The speed-up over this run of the same program, for instance on one core.
    pub fn speedup_over(&self, other: &SimOutcome) -> f64 {
        other.wall_ns / self.wall_ns
    }

    /// The time of work, divided by that in a run of the same program on one core (Olivier et al., SC 2012): 1 if
    /// nothing is slower.
    pub fn work_inflation_over(&self, other: &SimOutcome) -> f64 {
        self.counts.busy_ns / other.counts.busy_ns
    }

    /// The share of bytes from another node, or another's home cache.
    pub fn far_share(&self) -> f64 {
        let all = self.counts.near_bytes + self.counts.far_bytes;
        if all > 0.0 { self.counts.far_bytes / all } else { 0.0 }
    }

    pub(crate) fn utilisation(resources: &[Resource], uses: &[f64], wall_ns: f64) -> Vec<Utilisation> {
        let used = resources.iter().zip(uses).map(|(resource, &bytes)| Utilisation {
            name: resource.name.clone(),
            bytes,
            share: if wall_ns > 0.0 { bytes / (resource.capacity * wall_ns / 1e9) } else { 0.0 },
        });
        used.collect()
    }
}

/// Describes the run in a few lines.
impl fmt::Display for SimOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { busy_ns, overhead_ns, near_bytes, far_bytes, takes, .. } = &self.counts;
        writeln!(
            f,
            "{} on {}, {}, {} threads, seed {}",
            self.program, self.machine, self.strategy, self.threads, self.seed
        )?;
        writeln!(f, "parameters {}", self.parameters)?;
        writeln!(
            f,
            "{:.3} ms; busy {:.3} ms, overhead {:.3} ms",
            self.wall_ns / 1e6,
            busy_ns / 1e6,
            overhead_ns / 1e6
        )?;
        writeln!(f, "{:.3} MB near, {:.3} MB far", near_bytes / 1e6, far_bytes / 1e6)?;
        let takes: Vec<String> = takes.iter().map(|(rule, takes)| format!("rule {rule}: {takes}")).collect();
        writeln!(f, "takes by {}", takes.join(", "))?;
        for used in self.resources.iter().filter(|used| used.bytes > 0.0) {
            writeln!(f, "{}: {:.0} %", used.name, used.share * 100.0)?;
        }
        Ok(())
    }
}
