//! Checks a caller's choices against the machine: a plan's places, processors.

use vicus_schedule::Plan;
use vicus_topology::{PuId, Topology};

/// Asserts that all places named by a plan exist on the machine.
pub(crate) fn assert_fits(plan: &Plan, topology: &Topology) {
    let (pus, nodes) = (topology.pus.len(), topology.nodes.len());
    for (index, seat) in plan.seats.iter().enumerate() {
        let mut named = seat.affinity.iter().chain([&seat.pu]);
        assert!(
            named.all(|pu| pu.index() < pus),
            "{}: seat {index} is on a PU beyond the machine's {pus}",
            plan.strategy
        );
        assert!(seat.node.index() < nodes, "{}: seat {index} is on a node beyond the machine's {nodes}", plan.strategy);
    }
    for queue in &plan.queues {
        let name = &queue.name;
        assert!(
            queue.home.index() < nodes,
            "{}: queue {name} is on a node beyond the machine's {nodes}",
            plan.strategy
        );
    }
}

/// The PUs of these processors; `None`, with a warning, if one of them is not there.
pub(crate) fn pus_of(processors: &[u32], topology: &Topology, warnings: &mut Vec<String>) -> Option<Vec<PuId>> {
    let of = |number: &u32| {
        let pu = topology.pus.iter().find(|pu| pu.os_index == *number);
        if pu.is_none() {
            warnings.push(format!("there is no processor {number}; threads are where they are by default"));
        }
        pu.map(|pu| pu.id)
    };
    processors.iter().map(of).collect()
}
