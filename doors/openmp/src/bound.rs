//! Default processors for the threads of an outermost region, on a machine with several nodes, if neither the program
//! nor its user sets them.
//!
//! A plan's queues lie at places. A thread elsewhere would take the tasks of a place although their data are far from
//! it, and leave tasks with near data. So the library's own threads are bound by default, if the strategy uses places:
//!
//! * as many threads as the process has processors: each to one of them;
//! * fewer or more: each to the processors of one node. Each node has its share of the threads, as the system would
//!   spread them.
//!
//! The thread that comes to the region is not bound, because the threads and processes it starts would be bound with
//! it. It is brought to its seat's place when a region begins while it runs elsewhere, and may leave it again.
//!
//! Nothing is bound if `OMP_PROC_BIND`, `OMP_PLACES`, `GOMP_CPU_AFFINITY` or a kind of `KMP_AFFINITY` is set: they
//! decide then. Nor in regions within regions, nor in regions of a thread restricted to a part of the process's
//! processors. There, under a strategy with a parameter `pin`, each thread asks for its current place before it looks
//! for a task (`pin=off`).

use crate::places::{self, Nodes, set_affinity, set_of};
use crate::thread::Thread;
use vicus::kit::team::Team;

/// For the summary: the binding of a team.
pub(crate) fn told(team: &Team) -> &'static str {
    let nodes = places::nodes();
    let all: usize = nodes.iter().map(Vec::len).sum();
    if crate::settings::get().binding.says_binding {
        "as OMP_PROC_BIND and OMP_PLACES say"
    } else if nodes.len() == 1 {
        "wherever the system puts them: the process has the processors of one node"
    } else if !team.plan().has_places() {
        "wherever the system puts them: the strategy has no places"
    } else if team.members() == all {
        "each on a processor of its own"
    } else {
        "each on a processor of its node"
    }
}

/// The places of a team's threads.
pub(crate) struct Bound {
    /// The processor of each thread's seat, by the thread's number.
    processors: Vec<u32>,
    /// The processors of each thread, by number.
    sets: Vec<libc::cpu_set_t>,
    /// Whether each thread has a processor to itself.
    pub(crate) is_exact: bool,
}

impl Bound {
    /// The binding of a team of this size; the calling thread is the first. `None` if it is not bound.
    pub(crate) fn of(size: u32) -> Option<Bound> {
        let nodes = places::nodes();
        if size < 2
            || nodes.len() < 2
            || crate::settings::get().binding.says_binding
            || places::own_processors() != places::allowed()
        {
            return None;
        }
        // SAFETY: rule "System": no argument.
        let here = usize::try_from(unsafe { libc::sched_getcpu() }).ok();
        Some(Bound::over(nodes, size as usize, here))
    }

    /// Over these nodes, beginning with a processor of one.
    fn over(nodes: &Nodes, size: usize, first: Option<usize>) -> Bound {
        let at = first.and_then(|cpu| nodes.iter().position(|node| node.contains(&cpu))).unwrap_or(0);
        let mut nodes: Vec<Vec<usize>> = nodes[at..].iter().chain(&nodes[..at]).cloned().collect();
        if let Some(turn) = first.and_then(|cpu| nodes[0].iter().position(|&other| other == cpu)) {
            nodes[0].rotate_left(turn);
        }
        let all: usize = nodes.iter().map(Vec::len).sum();
        let is_exact = size == all;
        let (mut processors, mut sets, mut before) = (Vec::new(), Vec::new(), 0);
        for node in &nodes {
            // The node's part of the threads is its part of all processors, so the sum is right.
            let threads = (before + node.len()) * size / all - before * size / all;
            before += node.len();
            for number in 0..threads {
                let cpu = node[number % node.len()];
                processors.push(cpu as u32);
                sets.push(set_of(if is_exact { std::slice::from_ref(&cpu) } else { node }));
            }
        }
        Bound { processors, sets, is_exact }
    }

    /// The processor of each thread's seat.
    pub(crate) fn processors(&self) -> Vec<u32> {
        self.processors.clone()
    }

    /// The thread of this number takes its place, if it does not have it from its last region.
    #[inline]
    pub(crate) fn take_place(&self, thread: &mut Thread, number: u32) {
        if number == 0 {
            self.bring();
        } else if !std::ptr::eq(thread.placing.bound, self) {
            thread.placing.bound = self;
            set_affinity(&self.sets[number as usize]);
        }
    }

    /// Brings the calling thread to the first place. It may leave it again: the system has no reason to move it as long
    /// as the others have theirs.
    #[inline]
    fn bring(&self) {
        // SAFETY: rule "System": no argument.
        let cpu = unsafe { libc::sched_getcpu() };
        // SAFETY: rule "System": the system's number of a processor is within a set.
        let is_there = usize::try_from(cpu).is_ok_and(|cpu| unsafe { libc::CPU_ISSET(cpu, &self.sets[0]) });
        if !is_there {
            let own = places::own_set();
            set_affinity(&self.sets[0]);
            set_affinity(&own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(nodes: &[&[usize]], size: usize, first: usize) -> (Vec<u32>, Vec<Vec<usize>>) {
        let nodes: Nodes = nodes.iter().map(|node| node.to_vec()).collect();
        let bound = Bound::over(&nodes, size, Some(first));
        // SAFETY: rule "System": the numbers are within a set.
        let cpus = |set: &libc::cpu_set_t| (0..16).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, set) }).collect();
        (bound.processors(), bound.sets.iter().map(cpus).collect())
    }

    #[test]
    fn as_many_threads_as_processors_have_one_each_and_the_first_one_stays_where_it_is() {
        let (processors, sets) = over(&[&[0, 1], &[2, 3], &[4, 5]], 6, 3);
        assert_eq!(processors, [3, 2, 4, 5, 0, 1]);
        assert_eq!(sets, [[3], [2], [4], [5], [0], [1]]);
    }

    #[test]
    fn fewer_or_more_threads_are_spread_over_the_nodes_and_may_run_anywhere_there() {
        let four: [&[usize]; 4] = [&[0, 1], &[2, 3], &[4, 5], &[6, 7]];
        assert_eq!(over(&four, 4, 5), (vec![5, 6, 0, 2], [[4, 5], [6, 7], [0, 1], [2, 3]].map(Vec::from).to_vec()));
        assert_eq!(over(&four, 16, 0).0, [0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7]);
        // Nodes of unequal size have their shares, and no thread is left over.
        for size in 1..20 {
            let (processors, sets) = over(&[&[0], &[1, 2, 3], &[4, 5]], size, 0);
            assert_eq!((processors.len(), sets.len()), (size, size));
            let on_second = processors.iter().filter(|cpu| (1..=3).contains(*cpu)).count();
            assert!(on_second.abs_diff(size / 2) <= 1, "{size}: {processors:?}");
        }
    }
}
