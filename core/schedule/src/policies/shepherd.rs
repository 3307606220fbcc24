//! Shepherds: immovable regions, each with its own queue.
//!
//! Wheeler, Thain, Murphy, "Portable Performance from Workstation to Supercomputer: Distributing Data Structures with Qthreads",
//! §3: a task runs under the shepherd that it was spawned to (`qthread_fork_to`), and is never stolen. Two points are Qthreads'
//! practice, and not in the paper: the queue is first in, first out, and a task which names no shepherd (`qthread_fork`) goes to
//! the next one in turn, counted by each spawner. A shepherd is a core group here. Boxes are not forked anew for each invocation:
//! each is given a shepherd by its number, and stays there.
//!
//! With `unplaced=own` a task that names no shepherd stays with its spawner, which takes its youngest one first, and others steal
//! the oldest, those of its shepherd before those of near ones. So a recursion has as many tasks that wait as it is deep, and not
//! as it is wide, which is as many stacks. Qthreads has a scheduler of this kind (Olivier, Porterfield, Wheeler, Prins,
//! "Scheduling Task Parallelism on Multi-Socket Multicore Systems", ROSS 2011, §3). We differ: its threads share a queue
//! for each shepherd, and one of them steals for all; here each has a queue, and steals one task for itself.

use super::las::by_cache_distance;
use super::{Draft, Parameter, SPARES, SPIN, Setting, Strategy, Values};
use crate::{Order, Plan, QueueId, Scan, SeatId, Take};
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
            values: Values::Named(&["turn", "own"]),
            what: "where a task goes that names no place: to the next shepherd in turn, or to its spawner's own queue, the \
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
                draft.queue(format!("tasks of {pool:?}"), None, Order::Deque, home, vec![pool])
            })
            .collect();
        let homes = draft.homes(&queues);
        if setting.value("unplaced") == 0 {
            for seat in draft.seat_ids() {
                let own = queues[draft.seat(seat).pool.index()];
                draft.seats[seat.index()].place = [own, own];
                draft.probe(seat, 1, Scan::List(vec![own]), Take::Oldest);
            }
            let in_turn = queues.clone();
            return Plan { homes, in_turn, ..draft.finish(setting, queues) };
        }
        let of_seats: Vec<QueueId> = draft
            .seat_ids()
            .map(|seat| {
                let (home, wake) = (draft.seat(seat).node, draft.pools_by_rank(draft.seat(seat).pool));
                draft.queue(format!("tasks of {seat:?}"), Some(seat), Order::Deque, home, wake)
            })
            .collect();
        let of = |seats: &[SeatId]| seats.iter().map(|seat| of_seats[seat.index()]).collect::<Vec<_>>();
        for seat in draft.seat_ids() {
            let (own, pool) = (of_seats[seat.index()], draft.seat(seat).pool);
            draft.seats[seat.index()].place = [own, own];
            let near = of(&by_cache_distance(&draft, seat));
            let others = draft.pools_by_rank(pool).into_iter().skip(1);
            let far = others.flat_map(|other| of(&draft.pools[other.index()].seats)).collect();
            draft.probe(seat, 1, Scan::List(vec![own]), Take::Youngest);
            draft.probe(seat, 2, Scan::List(vec![queues[pool.index()]]), Take::Oldest);
            draft.probe(seat, 3, Scan::List(near), Take::Oldest);
            draft.probe(seat, 4, Scan::List(far), Take::Oldest);
        }
        Plan { homes, ..draft.finish(setting, queues) }
    }
}
