//! Unbound threads: the place of each, and the seat it looks for work as.

use vicus_os::calls;
use vicus_schedule::{Plan, SeatId};
use vicus_topology::Topology;

/// The seats of the places open to unbound threads.
#[derive(Debug)]
pub(crate) struct Roaming {
    /// By CPU, as the system numbers them, a seat with the place's queues: of the CPU itself, or else of its core
    /// group, or of its node.
    seats: Vec<Option<SeatId>>,
}

impl Roaming {
    /// For a plan with unbound threads.
    pub(crate) fn of(plan: &Plan, topology: &Topology) -> Option<Roaming> {
        if !plan.roams {
            return None;
        }
        // A description may have several PUs for one of the system's: the nearest seat of any of them.
        let mut near: Vec<Option<(usize, SeatId)>> = Vec::new();
        for here in topology.pus.iter().filter(|pu| pu.usable) {
            let distance = |seat: &SeatId| {
                let there = &topology.pus[plan.seats[seat.index()].pu.index()];
                [there.id == here.id, there.group == here.group, there.node == here.node].iter().position(|&same| same)
            };
            let seats = (0..plan.seats.len()).map(SeatId::new).filter_map(|seat| Some((distance(&seat)?, seat)));
            let cpu = here.os_index as usize;
            near.resize(near.len().max(cpu + 1), None);
            near[cpu] = near[cpu].into_iter().chain(seats).min();
        }
        let seats = near.into_iter().map(|near| Some(near?.1)).collect();
        Some(Roaming { seats })
    }

    /// The seat for this thread's place; `None` if the plan has none, or the system does not say.
    #[inline]
    pub(crate) fn seat_here(&self) -> Option<SeatId> {
        self.seats.get(calls::cpu_here()?).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_schedule::Setting;

    #[test]
    fn each_place_has_a_seat_of_its_domain() {
        let topology = Topology::parse("node:2 l3:2 core:2").unwrap();
        let seats = |setting: &str, threads| {
            let plan = setting.parse::<Setting>().unwrap().plan(&topology, threads);
            let found = Roaming::of(&plan, &topology)?;
            let node = |seat: Option<SeatId>| seat.map(|seat| plan.seats[seat.index()].node.index());
            Some((
                found.seats.iter().map(|seat| seat.map(SeatId::index)).collect::<Vec<_>>(),
                found.seats.iter().map(|&seat| node(seat)).collect::<Vec<_>>(),
            ))
        };
        assert_eq!(seats("locality-queues", 8), None, "they are bound");
        let (each, nodes) = seats("locality-queues:pin=off", 8).unwrap();
        assert_eq!(each, (0..8).map(Some).collect::<Vec<_>>());
        assert_eq!(nodes, [0, 0, 0, 0, 1, 1, 1, 1].map(Some));
        let (_, nodes) = seats("locality-queues:pin=off", 2).unwrap();
        assert!(nodes.iter().flatten().count() >= 4, "{nodes:?}");
        for (cpu, node) in nodes.iter().enumerate().filter_map(|(cpu, node)| Some((cpu, (*node)?))) {
            assert_eq!(node, cpu / 4);
        }
    }
}
