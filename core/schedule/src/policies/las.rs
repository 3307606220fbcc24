//! The locality-aware scheduler.
//!
//! Falt, Kruliš, Bednárek, Yaghob, Zavoral, "Towards Efficient Locality Aware Parallel Data Stream Processing", §4. We
//! differ: a thread with a PU of its own stays there, because Linux may leave two threads that wake one another on the
//! same PU for long (`pin=group` is the paper's way); immediate queues belong to seats, and not to the PU a thread
//! happens to be on (see [`SeatPlan`]); at equal distance a seat starts with the neighbour after itself, so thieves
//! spread; and a task with its data on another node is deferred to a group there, while the paper's scheduler does not
//! know the place of data.
//!
//! The rules for immediate tasks are those of boxes: a request's first boxes are deferred, so each request begins on
//! another node, and rule 5 keeps its further boxes on that node. A program's own tasks begin on one seat, and with
//! these rules the seats of all other nodes would idle. So on a machine with several nodes each seat has a second queue
//! for immediate tasks that are no boxes ([`SeatPlan::tasks`]). Its own node treats these as immediate boxes; seats of
//! other nodes take the oldest of them when they find nothing else, near nodes first (rule 6). Deferred tasks, as the
//! alternative, leave a node by rule 4; they were more than 100 times as slow in a simulation (fib on 72 cores): small
//! tasks then wait for the locks of the groups' queues.
//!
//! [`SeatPlan`]: crate::SeatPlan

use super::{AllowedValues, Draft, Parameter, SPARES, SPIN, Setting, Strategy};
use crate::{Plan, PoolId, QueueId, QueueOrder, QueueScan, SeatId, Take};
use vicus_topology::{PuId, Topology};

pub(super) struct Las;

impl Strategy for Las {
    fn name(&self) -> &'static str {
        "las"
    }

    fn source(&self) -> &'static str {
        "Falt et al., §4"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[PIN, SPARES, SPIN]
    }

    fn plan(&self, machine: &Topology, pus: &[PuId], setting: &Setting) -> Plan {
        let mut draft = Draft::with_spares(machine, pus, setting, |index| machine.pus[pus[index].index()].group);
        pin(&mut draft, pus, setting);

        // §4.3: an immediate task wakes on its node only; a deferred one everywhere, near groups first.
        let by_rank: Vec<Vec<PoolId>> = draft.pool_ids().map(|pool| draft.pools_by_rank(pool)).collect();
        let near = |draft: &Draft<'_>, pool: PoolId| -> Vec<PoolId> {
            let node = draft.pool_node(pool);
            by_rank[pool.index()].iter().copied().filter(|&other| draft.pool_node(other) == node).collect()
        };
        let mut immediate: Vec<QueueId> = Vec::new();
        for seat in draft.seat_ids() {
            let (home, wake) = (draft.seat(seat).node, near(&draft, draft.seat(seat).pool));
            immediate.push(draft.queue(format!("immediate of {seat:?}"), Some(seat), QueueOrder::Deque, home, wake));
        }
        let mut deferred: Vec<QueueId> = Vec::new();
        for pool in draft.pool_ids() {
            let (home, wake) = (draft.pool_node(pool), by_rank[pool.index()].clone());
            deferred.push(draft.queue(format!("deferred of {pool:?}"), None, QueueOrder::ByRequest, home, wake));
        }

        // By seat, the queue of immediate tasks that are no boxes.
        let has_nodes = draft.pool_ids().any(|pool| draft.pool_node(pool) != draft.pool_node(PoolId::new(0)));
        let seats = draft.seat_ids();
        let tasks: Option<Vec<QueueId>> = has_nodes.then(|| {
            let of_seat = |seat: SeatId| {
                let (home, wake) = (draft.seat(seat).node, by_rank[draft.seat(seat).pool.index()].clone());
                draft.queue(format!("tasks of {seat:?}"), Some(seat), QueueOrder::Deque, home, wake)
            };
            seats.map(of_seat).collect()
        });

        for seat in draft.seat_ids() {
            let (own, pool) = (immediate[seat.index()], draft.seat(seat).pool);
            draft.seats[seat.index()].place = [own, deferred[pool.index()]];
            let group = by_cache_distance(&draft, seat);
            let immediate_of = |seats: &[SeatId]| seats.iter().map(|seat| immediate[seat.index()]).collect::<Vec<_>>();
            let tasks_of = |seats: &[SeatId]| {
                let tasks = tasks.iter().flat_map(|tasks| seats.iter().map(|seat| tasks[seat.index()]));
                tasks.collect::<Vec<_>>()
            };
            let others = by_rank[pool.index()][1..].iter().map(|other| deferred[other.index()]).collect();
            let (near, far): (Vec<PoolId>, Vec<PoolId>) =
                by_rank[pool.index()][1..].iter().partition(|&&other| draft.pool_node(other) == draft.pool_node(pool));
            let seats_of = |pools: &[PoolId]| {
                let seats = pools.iter().flat_map(|other| draft.pools[other.index()].seats.iter().copied());
                seats.collect::<Vec<_>>()
            };
            let (near, far) = (seats_of(&near), turned(&draft, seat, seats_of(&far)));
            if let Some(tasks) = &tasks {
                draft.seats[seat.index()].tasks = tasks[seat.index()];
                draft.probe(seat, 1, QueueScan::List(vec![tasks[seat.index()]]), Take::Youngest);
            }
            draft.probe(seat, 1, QueueScan::List(vec![own]), Take::Youngest);
            draft.probe(seat, 2, QueueScan::List([immediate_of(&group), tasks_of(&group)].concat()), Take::Oldest);
            draft.probe_if_free(seat, 3, QueueScan::List(vec![deferred[pool.index()]]), Take::YoungestOfOldestRequest);
            draft.probe_if_free(seat, 4, QueueScan::List(others), Take::OldestOfSecondOldestRequest);
            draft.probe(seat, 5, QueueScan::Ring([immediate_of(&near), tasks_of(&near)].concat(), 0), Take::Oldest);
            draft.probe(seat, 6, QueueScan::Ring(tasks_of(&far), 1), Take::Oldest);
        }
        let homes = draft.homes(&deferred);
        Plan { homes, ..draft.finish(setting, deferred) }
    }
}

/// The PUs threads may run on.
pub(super) const PIN: Parameter = Parameter {
    name: "pin",
    default: AUTO,
    values: AllowedValues::Named(&["auto", "group", "pu", "off"]),
    what: "threads may run on every PU of their core group, or on one PU each; auto: on one, where each has its own; \
        off: on any PU, and before a thread looks for a \
           task it asks the system where it runs, and takes what the thread of that place would",
};

const AUTO: u32 = 0;
const GROUP: u32 = 1;

/// Gives seats the affinity of the setting.
pub(super) fn pin(draft: &mut Draft<'_>, pus: &[PuId], setting: &Setting) {
    let (machine, pin) = (draft.machine, setting.value(PIN.name));
    for seat in draft.seat_ids() {
        let group = &machine.core_groups[draft.group_of(seat).index()];
        let usable: Vec<PuId> = group.pus.iter().copied().filter(|pu| machine.pus[pu.index()].usable).collect();
        let threads = pus.iter().filter(|pu| group.pus.contains(pu)).count();
        let has_its_own = threads <= usable.len() && !draft.seat(seat).spare;
        if pin == GROUP || (pin == AUTO && !has_its_own) {
            draft.seats[seat.index()].affinity = usable;
        } else {
            draft.seats[seat.index()].affinity = vec![draft.seat(seat).pu];
        }
    }
}

/// Other seats, turned so that the seats of a pool visit different ones first.
pub(super) fn turned(draft: &Draft<'_>, seat: SeatId, mut others: Vec<SeatId>) -> Vec<SeatId> {
    let own = &draft.pools[draft.seat(seat).pool.index()].seats;
    let at = own.iter().position(|&other| other == seat).expect("a seat is in its pool");
    let by = at * others.len() / own.len();
    others.rotate_left(by);
    others
}

/// The other seats of a seat's group by increasing cache distance; at equal distance cyclically from the seat.
pub(super) fn by_cache_distance(draft: &Draft<'_>, seat: SeatId) -> Vec<SeatId> {
    let own = draft.seat(seat);
    let count = draft.seats.len();
    let mut others: Vec<SeatId> =
        draft.pools[own.pool.index()].seats.iter().copied().filter(|&other| other != seat).collect();
    others.sort_by_key(|&other| {
        let pu = draft.seat(other).pu;
        let distance = if pu == own.pu { 0 } else { draft.machine.cache_distance(own.pu, pu).unwrap_or(u8::MAX) };
        (distance, (other.index() + count - seat.index()) % count)
    });
    others
}
