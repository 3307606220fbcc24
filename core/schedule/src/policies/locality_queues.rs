//! Locality queues.
//!
//! Wittmann, Hager, "Optimizing ccNUMA locality for task-parallel execution under OpenMP and TBB on multicore-based
//! systems", 2010, §2.2: blocks wait in one first-in-first-out queue per locality domain. The runtime's pool holds
//! tokens, one for each block, and about 256 of them. A thread with a token takes the oldest block of its own domain,
//! else of the next domains cyclically. If the pool is full, a submitter runs a token itself: any block of its domain,
//! and seldom its latest own.
//!
//! With `rob=long` a thread leaves another domain alone while no more blocks wait there than the domain has cores. In
//! the paper a thread without a block of its own domain takes any: those that begin before all blocks are submitted
//! take the first ones of others.
//!
//! With `pin=off` the system places the threads, and a thread's domain is the one it runs in; §4 of the paper leaves
//! this to later work. Records of distances count a thread at its seat.

use super::{AllowedValues, Draft, Parameter, SPARES, SPIN, Setting, Strategy, cores};
use crate::{BoxPlacement, Dealing, Plan, PoolId, QueueId, QueueOrder, QueueScan, Robber, Take, TaskPlacement, Tokens};
use vicus_topology::{GroupId, PuId, Topology};

pub(super) struct LocalityQueues;

impl Strategy for LocalityQueues {
    fn name(&self) -> &'static str {
        "locality-queues"
    }

    fn source(&self) -> &'static str {
        "Wittmann and Hager, §2.2"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const CAPACITY: Parameter = Parameter {
            name: "capacity",
            default: 256,
            values: AllowedValues::ANY,
            what: "how many tokens the pool holds; 0 is any number",
        };
        const DOMAIN: Parameter = Parameter {
            name: "domain",
            default: 0,
            values: AllowedValues::Named(&["node", "group"]),
            what: "which threads share a queue: those of a node, or those that share a cache (Wittmann and Hager, §4)",
        };
        const PIN: Parameter = Parameter {
            name: "pin",
            default: 1,
            values: AllowedValues::Named(&["off", "pu"]),
            what: "pu: each thread may run on one PU; off: on any, and before it looks for a block it asks the system \
                where it runs, whose domain is its own then (§4)",
        };
        const ROB: Parameter = Parameter {
            name: "rob",
            default: 0,
            values: AllowedValues::Named(&["any", "long"]),
            what: "which blocks of other domains a thread without any of its own takes: any, as in the paper, or those \
                of a domain with more blocks than cores: while one thread submits them one by one, all wait for their \
                own",
        };
        &[CAPACITY, DOMAIN, PIN, ROB, SPARES, SPIN]
    }

    fn plan(&self, machine: &Topology, pus: &[PuId], setting: &Setting) -> Plan {
        let of_groups = setting.value("domain") == 1;
        let domain = |pu: PuId| {
            let pu = &machine.pus[pu.index()];
            (pu.node, of_groups.then_some(pu.group))
        };
        let mut draft = Draft::with_spares(machine, pus, setting, |index| domain(pus[index]));
        // How many blocks a domain keeps to itself.
        let kept = |pool: PoolId| {
            let seats = draft.pools[pool.index()].seats.iter().map(|&seat| draft.seat(seat));
            let pus: Vec<PuId> = seats.filter(|seat| !seat.spare).map(|seat| seat.pu).collect();
            if setting.value("rob") == 0 { 0 } else { cores(machine, &pus) as u32 }
        };
        let kept: Vec<u32> = draft.pool_ids().map(kept).collect();
        let queues: Vec<QueueId> = draft
            .pool_ids()
            .map(|pool| {
                let (home, mut wake) = (draft.pool_node(pool), draft.pools_by_rank(pool));
                let longer_than = kept[pool.index()];
                let robbers = wake.split_off(if longer_than == 0 { wake.len() } else { 1 });
                let name = if of_groups { format!("blocks of {pool:?}") } else { format!("blocks of {home}") };
                let queue = draft.queue(name, None, QueueOrder::Deque, home, wake);
                let robbers = robbers.into_iter().map(|pool| Robber { pool, longer_than });
                draft.queues[queue.index()].robbers = robbers.collect();
                queue
            })
            .collect();
        for seat in draft.seat_ids() {
            let domain = draft.seat(seat).pool.index();
            let own = queues[domain];
            let next = (domain + 1..queues.len()).chain(0..domain);
            let limits = next.clone().map(|domain| kept[domain]).collect();
            let next = QueueScan::List(next.map(|domain| queues[domain]).collect());
            draft.seats[seat.index()].place = [own, own];
            draft.probe(seat, 1, QueueScan::List(vec![own]), Take::Oldest);
            if setting.value("rob") == 0 {
                draft.probe(seat, 2, next, Take::Oldest);
            } else {
                draft.probe_long(seat, 2, next, limits);
            }
        }
        // A block's home, set when its memory was first written, decides alone, at any size.
        let node = |group: GroupId| machine.core_groups[group.index()].node;
        let to_domains = match of_groups {
            true => draft.deal_to_groups(&queues, &|from, to| machine.numa_value(node(from), node(to))),
            false => draft.deal_to_nodes(&queues),
        };
        let dealing = Dealing { intensity_first: true, ..to_domains };
        let homes = draft.homes(&queues);
        let tokens = Some(Tokens { capacity: setting.above_zero("capacity") });
        let tasks = vec![TaskPlacement::ByBytes(dealing), TaskPlacement::Own];
        let boxes = vec![BoxPlacement::AtHome, BoxPlacement::ByHeads, BoxPlacement::Own];
        Plan { homes, tokens, tasks, boxes, ..draft.finish(setting, queues) }
    }
}
