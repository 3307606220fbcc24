//! Footprint scheduling for NUMA machines.
//!
//! Muddukrishna et al., 2015, §4.1, algorithms 1 and 2: a first-in-first-out queue per node; a task is dealt to the
//! node with the least distance-weighted bytes if its footprint exceeds a core's share of the last-level cache and is
//! uneven; queues of other nodes are robbed by distance, and only when longer than distance times cores. We differ: the
//! distance in the threshold is the rank unless the OS's value is asked for (10 × cores would hardly ever be exceeded),
//! and a node without threads deals to the nearest one with threads, or its tasks would strand.
//!
//! As in the authors' runtime (MIR), a task not worth dealing goes to a second queue of its node, and all threads look
//! there first and rob it at any length: so "falls back to work stealing" (§6) is true, and only dealt tasks are
//! protected. Nodes of equal cost have turns. `undealt=beside` and `ties=first` follow the text. Their workers poll and
//! are never woken: `wake=off`.
//!
//! A core's share of the last-level cache was 1 MiB on the authors' machine. The limit stays there on machines with a
//! larger share: the caches have grown, and the price of distance has not fallen.

use super::{AllowedValues, Draft, PIN, Parameter, SPARES, Setting, Strategy, cache_bytes, cores};
use crate::{BoxPlacement, Dealing, Idle, Plan, PoolId, QueueId, QueueOrder, QueueScan, Robber, Take, TaskPlacement};
use vicus_topology::{NodeId, PuId, Topology};

pub(super) struct Footprint;

impl Strategy for Footprint {
    fn name(&self) -> &'static str {
        "footprint"
    }

    fn source(&self) -> &'static str {
        "Muddukrishna et al., §4.1, algorithms 1 and 2"
    }

    fn parameters(&self) -> &'static [Parameter] {
        const ALL: [Parameter; 11] = {
            let [first, factor, max, wake] = BACK_OFF;
            let share = Parameter {
                name: "share_bytes",
                default: 0,
                values: AllowedValues::ANY,
                what: "a task with more bytes is dealt; 0 is a core's share of the machine's last-level cache, 1 MiB \
                    at most, and 1 MiB if none is known",
            };
            let even = Parameter {
                name: "even",
                default: 0,
                values: AllowedValues::Named(&["stays", "dealt"]),
                what: "what becomes of a task whose bytes are spread evenly over the nodes",
            };
            let distance = Parameter {
                name: "distance",
                default: 0,
                values: AllowedValues::Named(&["rank", "value"]),
                what: "a queue is robbed when longer than its cores times this: its distance among the machine's, or \
                    as the \
                       operating system tells it",
            };
            let ties = Parameter {
                name: "ties",
                default: 1,
                values: AllowedValues::Named(&["first", "turn"]),
                what: "which of the nodes gets a task where its bytes cost the same: the first one from that of its \
                    first byte on, or the one to \
                       which the spawning thread has sent the fewest bytes",
            };
            [share, even, distance, UNDEALT, ties, PIN, SPARES, first, factor, max, wake]
        };
        &ALL
    }

    fn conflict(&self, setting: &Setting) -> Option<String> {
        first_beyond_longest(setting)
    }

    fn plan(&self, machine: &Topology, pus: &[PuId], setting: &Setting) -> Plan {
        let mut draft = Draft::with_spares(machine, pus, setting, |index| machine.pus[pus[index].index()].node);
        let queues: Vec<QueueId> = draft
            .pool_ids()
            .map(|pool| {
                let home = draft.pool_node(pool);
                draft.queue(format!("tasks of {home}"), None, QueueOrder::Deque, home, vec![pool])
            })
            .collect();
        // How long the queue of a node must be before threads of another node take from it.
        let limit = |near: NodeId, far: NodeId| {
            let distance = if setting.value("distance") == 0 {
                draft.ranks[near.index()][far.index()]
            } else {
                machine.numa_value(near, far)
            };
            distance.saturating_mul(cores(machine, &machine.nodes[far.index()].pus) as u32)
        };
        let victims_of = |pool: PoolId| -> Vec<Robber> {
            let near = draft.pool_node(pool);
            let limit = |&pool: &PoolId| Robber { pool, longer_than: limit(near, draft.pool_node(pool)) };
            draft.pools_by_rank(pool)[1..].iter().map(limit).collect()
        };
        let victims: Vec<Vec<Robber>> = draft.pool_ids().map(victims_of).collect();
        let spared = |pool: PoolId| draft.pools_by_rank(pool);
        let everyone: Vec<Vec<PoolId>> = draft.pool_ids().map(spared).collect();
        // By pool, the queue of the tasks left with their spawners.
        let undealt: Vec<QueueId> = match setting.value(UNDEALT.name) {
            BESIDE => queues.clone(),
            _ => draft
                .pool_ids()
                .map(|pool| {
                    let (home, wake) = (draft.pool_node(pool), everyone[pool.index()].clone());
                    draft.queue(format!("undealt tasks of {home}"), None, QueueOrder::Deque, home, wake)
                })
                .collect(),
        };
        for victim in draft.pool_ids() {
            let robber = |&pool: &PoolId| {
                let victim = victims[pool.index()].iter().find(|other| other.pool == victim);
                let victim = victim.filter(|victim| victim.longer_than > 0)?;
                Some(Robber { pool, longer_than: victim.longer_than })
            };
            let robbers = draft.pools_by_rank(victim)[1..].iter().filter_map(robber).collect();
            draft.queues[queues[victim.index()].index()].robbers = robbers;
        }
        for seat in draft.seat_ids() {
            let pool = draft.seat(seat).pool;
            let (own, stays) = (queues[pool.index()], undealt[pool.index()]);
            let is_apart = own != stays;
            let victims = &victims[pool.index()];
            let limits = victims.iter().map(|victim| victim.longer_than).collect();
            let scan = QueueScan::List(victims.iter().map(|victim| queues[victim.pool.index()]).collect());
            draft.seats[seat.index()].place = [stays, stays];
            draft.seats[seat.index()].idle = back_off(setting);
            draft.probe(seat, 1, QueueScan::List(if is_apart { vec![stays, own] } else { vec![own] }), Take::Oldest);
            if is_apart {
                let others = victims.iter().map(|victim| undealt[victim.pool.index()]).collect();
                draft.probe(seat, 2, QueueScan::List(others), Take::Oldest);
            }
            draft.probe_long(seat, 2, scan, limits);
        }
        let share = || {
            let known = pus.iter().map(|&pu| cache_bytes(machine, pu).0).filter(|&bytes| bytes > 0);
            known.max().unwrap_or(MOST_SHARE_BYTES).min(MOST_SHARE_BYTES)
        };
        let dealing = Dealing {
            more_bytes_than: setting.above_zero("share_bytes").map_or_else(share, u64::from),
            only_uneven: setting.value("even") == 0,
            spread_within: (setting.value("ties") == 1).then_some(0),
            holds: machine.nodes.iter().map(|node| machine.has_memory(node.id)).collect(),
            ..draft.deal_to_nodes(&queues)
        };
        let homes = draft.homes(&queues);
        let tasks = vec![TaskPlacement::ByBytes(dealing), TaskPlacement::Own];
        let boxes = vec![BoxPlacement::AtHome, BoxPlacement::ByHeads, BoxPlacement::Own];
        Plan { homes, tasks, boxes, ..draft.finish(setting, undealt) }
    }
}

/// A core's share of the last-level cache on the authors' machine.
const MOST_SHARE_BYTES: u64 = 1 << 20;

/// The place of the tasks left with their spawners.
pub(super) const UNDEALT: Parameter = Parameter {
    name: "undealt",
    default: 1,
    values: AllowedValues::Named(&["beside", "apart"]),
    what: "whether tasks that are not worth dealing lie beside the dealt ones, or in a queue of their own that is \
        looked at first and robbed by all \
           threads at any length",
};

/// The first value of [`UNDEALT`].
pub(super) const BESIDE: u32 = 0;

/// The exponential back-off of §4.1; the paper gives no figures.
pub(super) const BACK_OFF: [Parameter; 4] = [
    Parameter {
        name: "backoff_ns",
        default: 1_000,
        // Multiples of zero stay zero.
        values: AllowedValues::Between(1, u32::MAX),
        what: "the first pause of a worker without work, in nanoseconds",
    },
    Parameter {
        name: "backoff_factor",
        default: 2,
        values: AllowedValues::Between(2, u8::MAX as u32),
        what: "how many times as long as the last each pause is",
    },
    Parameter {
        name: "backoff_max_ns",
        default: 1_000_000,
        values: AllowedValues::Between(1, u32::MAX),
        what: "the longest pause; after it, threads sleep until a push wakes them",
    },
    Parameter {
        name: "wake",
        default: 1,
        values: AllowedValues::Named(&["off", "on"]),
        what: "whether threads sleep after the longest pause, or go on with such pauses and are never woken, as in the \
            authors' runtime, \
               whose pauses are 1 to 128 µs long; an idle program then uses the processor",
    },
];

pub(super) fn back_off(setting: &Setting) -> Idle {
    let (first_ns, max_ns) = (setting.value("backoff_ns"), setting.value("backoff_max_ns"));
    let factor = setting.value("backoff_factor") as u8;
    Idle::BackOff { first_ns, factor, max_ns, sleeps: setting.value("wake") == 1 }
}

/// A back-off with a first pause longer than its longest.
pub(super) fn first_beyond_longest(setting: &Setting) -> Option<String> {
    let (first, most) = (setting.value("backoff_ns"), setting.value("backoff_max_ns"));
    let name = setting.strategy().name();
    (first > most).then(|| format!("`{name}`: backoff_ns={first} is longer than backoff_max_ns={most}"))
}
