//! Footprint scheduling for NUMA machines.
//!
//! Muddukrishna et al., 2015, §4.1, algorithms 1 and 2: a first-in-first-out queue per node; a task is dealt to the
//! node with the least distance-weighted bytes if its footprint exceeds a core's share of the last-level cache and is
//! uneven; queues of other nodes are robbed by distance, and only when longer than distance times cores.
//! We differ: the distance in the threshold is the rank, not the OS's value (10 × cores would never be robbed), and a
//! node without threads deals to the nearest one with threads, or its tasks would strand.

use super::{Draft, Parameter, Setting, Strategy, cache_bytes};
use crate::{Dealing, Idle, Order, Plan, PoolId, Probe, QueueId, Scan, Take, When};
use vicus_topology::{PuId, Topology};

pub(super) struct Footprint;

impl Strategy for Footprint {
    fn name(&self) -> &'static str {
        "footprint"
    }

    fn source(&self) -> &'static str {
        "Muddukrishna et al., §4.1, algorithms 1 and 2"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &BACK_OFF
    }

    fn plan(&self, machine: &Topology, pus: &[PuId], setting: &Setting) -> Plan {
        let mut draft = Draft::new(machine, pus, 0, |index| machine.pus[pus[index].index()].node);
        let queues: Vec<QueueId> = draft
            .pool_ids()
            .map(|pool| {
                let home = draft.pool_node(pool);
                draft.queue(format!("tasks of {home}"), None, Order::Deque, home, vec![pool])
            })
            .collect();
        for seat in draft.seat_ids() {
            let pool = draft.seat(seat).pool;
            let own = queues[pool.index()];
            let victims: Vec<PoolId> = draft.pools_by_rank(pool)[1..].to_vec();
            let limit = |victim: &PoolId| {
                let (near, far) = (draft.pool_node(pool), draft.pool_node(*victim));
                draft.rank(near, far) * machine.nodes[far.index()].pus.len() as u32
            };
            let limits = victims.iter().map(limit).collect();
            let scan = Scan::List(victims.iter().map(|victim| queues[victim.index()]).collect());
            draft.seats[seat.index()].place = [own, own];
            draft.seats[seat.index()].idle = back_off(setting);
            draft.probe(seat, 1, Scan::List(vec![own]), Take::Oldest);
            draft.seats[seat.index()].while_waiting = 1;
            if !victims.is_empty() {
                let probe = Probe { rule: 2, scan, take: Take::Oldest, when: When::LongerThan(limits), rest_to: None };
                draft.seats[seat.index()].look.push(probe);
            }
        }
        // The queue of each node: its own, or the nearest one that has threads.
        let nearest = |node: &vicus_topology::Node| {
            let rank = |pool: PoolId| draft.rank(node.id, draft.pool_node(pool));
            draft.pool_ids().min_by_key(|&pool| (rank(pool), pool)).map(|pool| queues[pool.index()])
        };
        let dealt = machine.nodes.iter().map(|node| nearest(node).expect("a plan has a pool")).collect();
        let share = pus.iter().map(|&pu| {
            let cores = machine.nodes[machine.pus[pu.index()].node.index()].pus.len() as u64;
            cache_bytes(machine, pu).0 / cores.max(1)
        });
        let dealing = Dealing {
            more_bytes_than: share.max().unwrap_or(0),
            only_uneven: true,
            intensity_first: false,
            only_coarse: false,
            queues: dealt,
            costs: machine.distances.clone(),
        };
        Plan { dealing: Some(dealing), ..draft.finish(setting, queues) }
    }
}

/// The exponential back-off of §4.1; the paper gives no figures.
pub(super) const BACK_OFF: [Parameter; 2] = [
    Parameter { name: "backoff_ns", default: 1_000, choices: &[], what: "the first pause of a worker without work" },
    Parameter { name: "backoff_max_ns", default: 1_000_000, choices: &[], what: "the longest pause" },
];

pub(super) fn back_off(setting: &Setting) -> Idle {
    let (first_ns, max_ns) = (setting.value("backoff_ns"), setting.value("backoff_max_ns"));
    Idle::BackOff { first_ns, factor: 2, max_ns }
}
