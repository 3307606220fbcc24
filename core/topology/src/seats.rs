//! The PUs for a given number of threads.

use crate::{PuId, Topology};

/// The suitable number of threads for `pus` PUs under a CPU quota in thousandths of a CPU, if there is one. A part of a
/// CPU has a thread of its own.
pub fn threads_within(pus: usize, quota_millis: Option<u32>) -> usize {
    let quota = quota_millis.map_or(pus, |millis| (millis as usize).div_ceil(1000));
    pus.min(quota).max(1)
}

impl Topology {
    /// The machine's suitable number of threads: one for each usable PU, fewer under a CPU quota, at least one.
    pub fn default_threads(&self) -> usize {
        threads_within(self.usable_pus().count(), self.cpu_quota_millis)
    }

    /// One PU for each thread. If there are fewer threads than PUs, they fill whole core groups one after the other,
    /// and one node before the next; within a group each core gets one thread before any gets a second. More threads
    /// than PUs go round again.
    pub fn seat_pus(&self, threads: usize) -> Vec<PuId> {
        let mut order: Vec<PuId> = Vec::new();
        // The node with the most usable PUs first, then its neighbours by distance: threads with common data stay near.
        let usable_on = |node: &crate::Node| node.pus.iter().filter(|pu| self.pus[pu.index()].usable).count();
        let first = self.nodes.iter().max_by_key(|node| (usable_on(node), std::cmp::Reverse(node.id)));
        let first = first.expect("a machine has at least one node").id;
        for node in self.nodes_by_distance(first) {
            for group in self.core_groups.iter().filter(|group| group.node == node) {
                let mut pus: Vec<PuId> = group.pus.iter().copied().filter(|pu| self.pus[pu.index()].usable).collect();
                let place_in_core = |pu: &PuId| {
                    let core = &self.cores[self.pus[pu.index()].core.index()];
                    let place = core.pus.iter().position(|other| other == pu).expect("a PU is in its core");
                    (place, core.id)
                };
                pus.sort_by_key(place_in_core);
                order.extend(pus);
            }
        }
        (0..threads).map(|i| order[i % order.len()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_threads_fill_a_group_before_the_next() {
        let machine = Topology::parse("node:2 l3:2 core:2 pu:2").unwrap();
        let seats = machine.seat_pus(6);
        let groups: Vec<usize> = seats.iter().map(|pu| machine.pus[pu.index()].group.index()).collect();
        assert_eq!(groups, [0, 0, 0, 0, 1, 1]);
        let cores: Vec<usize> = seats.iter().map(|pu| machine.pus[pu.index()].core.index()).collect();
        assert_eq!(&cores[..4], [0, 1, 0, 1], "a thread of each core before the second of any");
    }

    #[test]
    fn unusable_pus_get_no_seat_and_many_threads_go_round() {
        let mut machine = Topology::parse("core:4").unwrap();
        machine.pus[0].usable = false;
        let seats: Vec<usize> = machine.seat_pus(5).iter().map(|pu| pu.index()).collect();
        assert_eq!(seats, [1, 2, 3, 1, 2]);
    }

    #[test]
    fn a_quota_lowers_the_number_of_threads() {
        let mut machine = Topology::parse("core:8").unwrap();
        machine.cpu_quota_millis = Some(2500);
        assert_eq!(machine.default_threads(), 3);
    }
}
