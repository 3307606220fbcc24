//! Vicinity scheduling for manycore processors.
//!
//! Muddukrishna et al., 2015, §4.2, algorithm 3: a first-in-first-out queue per home cache; a task goes to the home of
//! the datum that it uses intensely, else to the home with the least latency-weighted bytes if its footprint exceeds
//! the private cache, else it stays; theft only inside a vicinity of so many home caches.
//! Latencies are the topology's distances until a world has measured them.

use super::footprint::{BACK_OFF, back_off};
use super::{Draft, Parameter, Setting, Strategy, cache_bytes};
use crate::{Dealing, Order, Plan, PoolId, QueueId, Scan, Take};
use vicus_topology::{GroupId, PuId, Topology};

pub(super) struct Vicinity;

impl Strategy for Vicinity {
    fn name(&self) -> &'static str {
        "vicinity"
    }

    fn source(&self) -> &'static str {
        "Muddukrishna et al., §4.2, algorithm 3"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: [Parameter; 3] = {
            let [first, max] = BACK_OFF;
            let what = "how many home caches share their work, the own one included (the paper: 1, 4, 8, 16 or all)";
            [Parameter { name: "reach", default: 16, choices: &[], what }, first, max]
        };
        &ALL
    }

    fn plan(&self, machine: &Topology, pus: &[PuId], setting: &Setting) -> Plan {
        let mut draft = Draft::new(machine, pus, 0, |index| machine.pus[pus[index].index()].group);
        // Vicinities are blocks of neighbouring home caches, the same for all their members.
        let reach = setting.value("reach").max(1) as usize;
        let block = |pool: PoolId| -> Vec<PoolId> {
            let (first, count) = (pool.index() / reach * reach, draft.pools.len());
            let pools = (first..count.min(first + reach)).map(PoolId::new);
            // Its own home first, then cyclically.
            let (before, from): (Vec<_>, Vec<_>) = pools.partition(|&other| other < pool);
            from.into_iter().chain(before).collect()
        };
        let blocks: Vec<Vec<PoolId>> = draft.pool_ids().map(block).collect();
        let queues: Vec<QueueId> = draft
            .pool_ids()
            .map(|pool| {
                let (home, wake) = (draft.pool_node(pool), blocks[pool.index()].clone());
                draft.queue(format!("tasks of {pool:?}"), None, Order::Deque, home, wake)
            })
            .collect();
        for seat in draft.seat_ids() {
            let pool = draft.seat(seat).pool;
            let own = queues[pool.index()];
            let others = blocks[pool.index()][1..].iter().map(|other| queues[other.index()]).collect();
            draft.seats[seat.index()].place = [own, own];
            draft.seats[seat.index()].idle = back_off(setting);
            draft.probe(seat, 1, Scan::List(vec![own]), Take::Oldest);
            draft.seats[seat.index()].while_waiting = 1;
            draft.probe(seat, 2, Scan::List(others), Take::Oldest);
        }
        let group_node = |group: GroupId| machine.core_groups[group.index()].node;
        let cost = |a: GroupId, b: GroupId| {
            let value = machine.numa_value(group_node(a), group_node(b));
            if a == b { value } else { value + 1 }
        };
        let groups: Vec<GroupId> = machine.core_groups.iter().map(|group| group.id).collect();
        // The queue of each home cache: its own, or the nearest one that has threads.
        let nearest = |group: GroupId| {
            let pool_group = |pool: PoolId| draft.group_of(draft.pools[pool.index()].seats[0]);
            let cost = |&pool: &PoolId| (cost(group, pool_group(pool)), pool);
            queues[draft.pool_ids().min_by_key(cost).expect("a plan has a pool").index()]
        };
        let dealing = Dealing {
            more_bytes_than: pus.iter().map(|&pu| cache_bytes(machine, pu).1).max().unwrap_or(0),
            only_uneven: false,
            intensity_first: true,
            only_coarse: true,
            queues: groups.iter().map(|&group| nearest(group)).collect(),
            costs: groups.iter().map(|&a| groups.iter().map(|&b| cost(a, b)).collect()).collect(),
        };
        Plan { dealing: Some(dealing), ..draft.finish(setting, queues) }
    }
}
