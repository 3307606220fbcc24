//! One pool for all: plain tasking, as in Wittmann and Hager's comparison.
//!
//! Wittmann, Hager, 2010, §2.1: tasks are served in the order of submission; the pool holds about 256 of them. A
//! submitter runs the task itself if the pool is full.

use super::{AllowedValues, Draft, Parameter, SPARES, SPIN, Setting, Strategy};
use crate::{Plan, PoolId, QueueOrder, QueueScan, Take};
use vicus_topology::{PuId, Topology};

pub(super) struct Central;

impl Strategy for Central {
    fn name(&self) -> &'static str {
        "central"
    }

    fn source(&self) -> &'static str {
        "Wittmann and Hager, §2.1"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[
            Parameter {
                name: "capacity",
                default: 256,
                values: AllowedValues::ANY,
                what: "how many tasks the pool holds; 0 is any number",
            },
            SPARES,
            SPIN,
        ]
    }

    fn plan(&self, machine: &Topology, pus: &[PuId], setting: &Setting) -> Plan {
        let mut draft = Draft::with_spares(machine, pus, setting, |_| ());
        let everyone = vec![PoolId::new(0)];
        let home = draft.pool_node(PoolId::new(0));
        let pool = draft.queue("pool".to_owned(), None, QueueOrder::Deque, home, everyone.clone());
        draft.queues[pool.index()].capacity = setting.above_zero("capacity");
        // Callers from outside have no seat to run a refused task on.
        let entry = draft.queue("entry".to_owned(), None, QueueOrder::Deque, home, everyone);
        for seat in draft.seat_ids() {
            draft.seats[seat.index()].place = [pool, pool];
            draft.probe(seat, 1, QueueScan::List(vec![pool]), Take::Oldest);
            draft.probe_if_free(seat, 1, QueueScan::List(vec![entry]), Take::Oldest);
        }
        draft.finish(setting, vec![entry])
    }
}
