//! Work stealing without locality.
//!
//! Muddukrishna, Jonsson, Brorsson, "Locality-Aware Task Scheduling and Data Distribution for OpenMP Programs on NUMA
//! Systems and Manycore Processors", 2015, §5: a Chase-Lev deque per core, own work first, victims round robin.
//!
//! With a capacity, a seat with a full deque runs its spawned tasks at once, like OpenMP runtimes with a deque for each
//! thread: that of Intel's compilers holds 256 tasks. Such a deque is a queue with a lock.

use super::{AllowedValues, Draft, Parameter, SPARES, SPIN, Setting, Strategy};
use crate::{Plan, PoolId, QueueId, QueueOrder, QueueScan, Take};
use vicus_topology::{PuId, Topology};

pub(super) struct Steal;

impl Strategy for Steal {
    fn name(&self) -> &'static str {
        "steal"
    }

    fn source(&self) -> &'static str {
        "Muddukrishna et al., §5"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[
            Parameter {
                name: "capacity",
                default: 0,
                values: AllowedValues::ANY,
                what: "how many tasks each deque holds; 0 is any number",
            },
            SPARES,
            SPIN,
        ]
    }

    fn plan(&self, machine: &Topology, pus: &[PuId], setting: &Setting) -> Plan {
        let mut draft = Draft::with_spares(machine, pus, setting, |_| ());
        let everyone = vec![PoolId::new(0)];
        let deques: Vec<QueueId> = draft
            .seat_ids()
            .map(|seat| {
                let home = draft.seat(seat).node;
                draft.queue(format!("deque of {seat:?}"), Some(seat), QueueOrder::Deque, home, everyone.clone())
            })
            .collect();
        deques.iter().for_each(|deque| draft.queues[deque.index()].capacity = setting.above_zero("capacity"));
        let home = draft.pool_node(PoolId::new(0));
        let entry = draft.queue("entry".to_owned(), None, QueueOrder::Deque, home, everyone);
        for seat in draft.seat_ids() {
            let own = deques[seat.index()];
            let after = deques[seat.index() + 1..].iter().chain(&deques[..seat.index()]).copied().collect();
            draft.seats[seat.index()].place = [own, own];
            draft.probe(seat, 1, QueueScan::List(vec![own]), Take::Youngest);
            draft.probe(seat, 2, QueueScan::Ring(after, 0), Take::Oldest);
            draft.probe_if_free(seat, 3, QueueScan::List(vec![entry]), Take::Oldest);
        }
        draft.finish(setting, vec![entry])
    }
}
