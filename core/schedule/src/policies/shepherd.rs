//! Shepherds: immovable regions, each with its own queue.
//!
//! Wheeler, Thain, Murphy, "Portable Performance from Workstation to Supercomputer: Distributing Data Structures with Qthreads",
//! §3: a task runs under the shepherd that it was spawned to (`qthread_fork_to`), and is never stolen. Two points are Qthreads'
//! practice, and not in the paper: the queue is first in, first out, and a task which names no shepherd (`qthread_fork`) goes to
//! the next one in turn, counted by each spawner. A shepherd is a core group here. Boxes are not forked anew for each invocation:
//! each is given a shepherd by its number, and stays there.

use super::{Draft, Parameter, SPARES, SPIN, Setting, Strategy};
use crate::{Order, Plan, QueueId, Scan, Take};
use vicus_topology::{PuId, Topology};

pub(super) struct Shepherd;

impl Strategy for Shepherd {
    fn name(&self) -> &'static str {
        "shepherd"
    }

    fn source(&self) -> &'static str {
        "Wheeler et al., §3"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[SPARES, SPIN]
    }

    fn plan(&self, machine: &Topology, pus: &[PuId], setting: &Setting) -> Plan {
        let mut draft = Draft::with_spares(machine, pus, setting, |index| machine.pus[pus[index].index()].group);
        let queues: Vec<QueueId> = draft
            .pool_ids()
            .map(|pool| {
                let home = draft.pool_node(pool);
                draft.queue(format!("tasks of {pool:?}"), None, Order::Deque, home, vec![pool])
            })
            .collect();
        for seat in draft.seat_ids() {
            let own = queues[draft.seat(seat).pool.index()];
            draft.seats[seat.index()].place = [own, own];
            draft.probe(seat, 1, Scan::List(vec![own]), Take::Oldest);
        }
        let homes = draft.homes(&queues);
        let in_turn = queues.clone();
        Plan { homes, in_turn, ..draft.finish(setting, queues) }
    }
}
