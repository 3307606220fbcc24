//! How busy the machine's PUs are, as the system counts, and whether a runtime has work.

use crate::queues::sleep::SleepPool;
use crate::runtime::handle::MachineRuntime;
use vicus_topology::{PuId, Topology};

/// A PU's time since the machine's start, in the system's ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PuTime {
    /// The PU.
    pub pu: PuId,
    /// Its working time, for any process.
    pub busy: u64,
    /// All its time.
    pub all: u64,
}

/// The time of each PU of a machine, if this process runs on it. Two looks tell how busy they were in between. Empty if
/// the system does not tell.
///
/// ```
/// use vicus_machine::{pu_times, this_machine};
/// let machine = this_machine().topology;
/// assert!(pu_times(&machine).iter().all(|time| time.busy <= time.all));
/// ```
pub fn pu_times(machine: &Topology) -> Vec<PuTime> {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    machine
        .pus
        .iter()
        .filter_map(|pu| times_of(&stat, pu.os_index).map(|(busy, all)| PuTime { pu: pu.id, busy, all }))
        .collect()
}

/// A line is `cpu7 user nice system idle iowait …` (proc(5)); waiting for a disk is no work.
fn times_of(stat: &str, os_index: u32) -> Option<(u64, u64)> {
    let name = format!("cpu{os_index}");
    let line = stat.lines().find(|line| line.split(' ').next() == Some(&*name))?;
    let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).map_while(|field| field.parse().ok()).collect();
    let all: u64 = ticks.iter().sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    (ticks.len() >= 4).then_some((all - idle, all))
}

impl MachineRuntime {
    /// Whether all seats' threads sleep, or are about to: nothing is left for them to do. Another thread may give them
    /// a task at the same time, so this is a hint for other users of a PU.
    ///
    /// ```
    /// use vicus_machine::MachineRuntime;
    ///
    /// let runtime = MachineRuntime::builder().threads(2).start();
    /// assert!(!runtime.run(|| runtime.is_asleep()));
    /// while !runtime.is_asleep() {
    ///     std::thread::yield_now();
    /// }
    /// ```
    pub fn is_asleep(&self) -> bool {
        self.shared.system.sleepers.pools.iter().map(SleepPool::sleepers).sum::<usize>() == self.shared.plan.threads()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_pu() {
        let stat = "cpu  9 9 9 9\ncpu0 10 1 5 80 4 0 0 0 0 0\ncpu10 1 0 1 2 0 0 0 0 0 0\nintr 1\n";
        assert_eq!(times_of(stat, 0), Some((16, 100)));
        assert_eq!(times_of(stat, 10), Some((2, 4)));
        assert_eq!(times_of(stat, 1), None);
    }
}
