//! The baseline without locality.
//!
//! Falt et al., "Towards Efficient Locality Aware Parallel Data Stream Processing", §6.1. The paper leaves the order of
//! the search in other threads' queues open; here it is round robin.

use super::{Draft, Parameter, SPARES, SPIN, Setting, Strategy};
use crate::{Plan, PoolId, QueueId, QueueOrder, QueueScan, Take};
use vicus_topology::{PuId, Topology};

pub(super) struct Nls;

impl Strategy for Nls {
    fn name(&self) -> &'static str {
        "nls"
    }

    fn source(&self) -> &'static str {
        "Falt et al., §6.1"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[SPARES, SPIN]
    }

    fn plan(&self, machine: &Topology, pus: &[PuId], setting: &Setting) -> Plan {
        let mut draft = Draft::with_spares(machine, pus, setting, |_| ());
        let everyone = vec![PoolId::new(0)];
        let mut immediate: Vec<QueueId> = Vec::new();
        for seat in draft.seat_ids() {
            let home = draft.seat(seat).node;
            let name = format!("immediate of {seat:?}");
            immediate.push(draft.queue(name, Some(seat), QueueOrder::Deque, home, everyone.clone()));
        }
        let home = draft.pool_node(PoolId::new(0));
        let shared = draft.queue("deferred".to_owned(), None, QueueOrder::Deque, home, everyone);
        for seat in draft.seat_ids() {
            let own = immediate[seat.index()];
            draft.seats[seat.index()].affinity.clear();
            draft.seats[seat.index()].place = [own, shared];
            let after = immediate[seat.index() + 1..].iter().chain(&immediate[..seat.index()]).copied().collect();
            draft.probe(seat, 1, QueueScan::List(vec![own]), Take::Youngest);
            draft.probe_if_free(seat, 2, QueueScan::List(vec![shared]), Take::Oldest);
            draft.probe(seat, 3, QueueScan::Ring(after, 0), Take::Oldest);
        }
        draft.finish(setting, vec![shared])
    }
}
