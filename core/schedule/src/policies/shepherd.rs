//! Shepherds: immovable regions, each with its own queue.
//!
//! Wheeler, Thain, Murphy, "Portable Performance from Workstation to Supercomputer: Distributing Data Structures with
//! Qthreads", §3: a task runs under the shepherd it was spawned to (`qthread_fork_to`), and is never stolen. Two points
//! are Qthreads' practice, and not in the paper: the queue is first in, first out, and a task without a named shepherd
//! (`qthread_fork`) goes to the next one in turn, counted by each spawner. A shepherd is a core group here. Boxes are
//! not forked anew for each invocation: each is given a shepherd by its number, and stays there.
//!
//! With `unplaced=own` a task without a named shepherd stays with its spawner. The spawner takes its youngest one
//! first, and others steal the oldest, those of its shepherd before those of near ones. In a recursion, waiting tasks
//! have stacks: as many as the recursion is deep, while with the oldest task first there would be as many as it has
//! tasks. Boxes stay at the seat that activates them. Qthreads has a scheduler of this kind (Olivier, Porterfield,
//! Wheeler, Prins, "Scheduling Task Parallelism on Multi-Socket Multicore Systems", ROSS 2011, §3). We differ: its
//! threads share a queue for each shepherd, and one of them steals for all; here each has a queue, and steals one task
//! for itself.

use super::las::by_cache_distance;
use super::{AllowedValues, Draft, Parameter, SPARES, SPIN, Setting, Strategy};
use crate::{BoxPlacement, Plan, PoolId, QueueId, QueueOrder, QueueScan, Take, TaskPlacement};
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
        const UNPLACED: Parameter = Parameter {
            name: "unplaced",
            default: 0,
            values: AllowedValues::Named(&["turn", "own"]),
            what: "where a task goes that names no place: to the next shepherd in turn, or to its spawner's own queue, \
                the \
                   youngest first, from which others steal",
        };
        &[UNPLACED, SPARES, SPIN]
    }

    fn plan(&self, machine: &Topology, pus: &[PuId], setting: &Setting) -> Plan {
        let mut draft = Draft::with_spares(machine, pus, setting, |index| machine.pus[pus[index].index()].group);
        let queues: Vec<QueueId> = draft
            .pool_ids()
            .map(|pool| {
                let home = draft.pool_node(pool);
                draft.queue(format!("tasks of {pool:?}"), None, QueueOrder::Deque, home, vec![pool])
            })
            .collect();
        let homes = draft.homes(&queues);
        if setting.value("unplaced") == 0 {
            for seat in draft.seat_ids() {
                let own = queues[draft.seat(seat).pool.index()];
                draft.seats[seat.index()].place = [own, own];
                draft.probe(seat, 1, QueueScan::List(vec![own]), Take::Oldest);
            }
            let tasks = vec![TaskPlacement::InTurn(queues.clone()), TaskPlacement::Own];
            let boxes = vec![BoxPlacement::AtHome, BoxPlacement::ByNumber(queues.clone()), BoxPlacement::Own];
            return Plan { homes, tasks, boxes, ..draft.finish(setting, queues) };
        }
        let of_seats: Vec<QueueId> = draft
            .seat_ids()
            .map(|seat| {
                let (home, wake) = (draft.seat(seat).node, draft.pools_by_rank(draft.seat(seat).pool));
                draft.queue(format!("tasks of {seat:?}"), Some(seat), QueueOrder::Deque, home, wake)
            })
            .collect();
        // Work from outside of the runtime. Other seats may take it as well.
        let entries: Vec<QueueId> = draft
            .pool_ids()
            .map(|pool| {
                let (home, wake) = (draft.pool_node(pool), draft.pools_by_rank(pool));
                draft.queue(format!("from outside, of {pool:?}"), None, QueueOrder::Deque, home, wake)
            })
            .collect();
        for seat in draft.seat_ids() {
            let (own, pool) = (of_seats[seat.index()], draft.seat(seat).pool);
            draft.seats[seat.index()].place = [own, own];
            let near = by_cache_distance(&draft, seat).into_iter().map(|other| of_seats[other.index()]).collect();
            let others: Vec<PoolId> = draft.pools_by_rank(pool).into_iter().skip(1).collect();
            let seats = others.iter().flat_map(|other| &draft.pools[other.index()].seats);
            let far = seats.map(|other| of_seats[other.index()]).collect();
            let far_entries = others.iter().map(|other| entries[other.index()]).collect();
            draft.probe(seat, 1, QueueScan::List(vec![own]), Take::Youngest);
            draft.probe(seat, 2, QueueScan::List(vec![queues[pool.index()], entries[pool.index()]]), Take::Oldest);
            draft.probe(seat, 3, QueueScan::List(near), Take::Oldest);
            draft.probe(seat, 4, QueueScan::Ring(far, 0), Take::Oldest);
            draft.probe(seat, 5, QueueScan::List(far_entries), Take::Oldest);
        }
        Plan { homes, ..draft.finish(setting, entries) }
    }
}
