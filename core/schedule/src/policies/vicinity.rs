//! Vicinity scheduling for manycore processors.
//!
//! Muddukrishna et al., 2015, §4.2, algorithm 3: a first-in-first-out queue per home cache. A task goes to the home of
//! its intensely used datum, else to the home with the least latency-weighted bytes if its footprint exceeds the
//! private cache, else it stays; all of this is only for memory with one home for each allocation (`coarse`). Theft
//! stays inside a vicinity of a fixed number of home caches. A home cache is a core group here. Latencies are measured
//! by a world, and are the topology's distances until then. Vicinities are cut by them, from all home caches of the
//! machine: on a mesh, four are two by two. The paper gives them a fixed size, and leaves the choice of their caches
//! open.
//!
//! We differ: an undealt task goes to a second queue of its home cache, and all seats of the machine rob this queue at
//! any length, as in footprint scheduling. In the paper it lies beside the dealt ones, and leaves the vicinity of its
//! spawner as little as these (`undealt=beside`): a program with tasks without named data then keeps one vicinity of
//! the machine busy.

use super::footprint::{BACK_OFF, BESIDE, UNDEALT, back_off, first_beyond_longest};
use super::{AllowedValues, Draft, Latencies, PIN, Parameter, SPARES, Setting, Strategy, private_bytes};
use crate::{BoxPlacement, Dealing, Plan, PoolId, QueueId, QueueOrder, QueueScan, Take, TaskPlacement};
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
        const ALL: [Parameter; 11] = {
            let [first, factor, max, wake] = BACK_OFF;
            let reach = Parameter {
                name: "reach",
                default: 8,
                // Those of §4.2.
                values: AllowedValues::OneOf(&[0, 1, 4, 8, 16]),
                what: "how many home caches share their work, the own one included; 0 is all",
            };
            let intensity = Parameter {
                name: "intensity",
                default: 1,
                values: AllowedValues::Named(&["off", "on"]),
                what: "whether the home of the datum that a task uses intensely decides alone",
            };
            let coarse = Parameter {
                name: "coarse",
                default: 1,
                values: AllowedValues::Named(&["off", "on"]),
                what: "whether only memory counts that each allocation has at one home",
            };
            let private = Parameter {
                name: "private_bytes",
                default: 0,
                values: AllowedValues::ANY,
                what: "a task with more bytes is dealt; 0 is the machine's private cache, or 32 KiB if none is known",
            };
            [reach, intensity, coarse, private, UNDEALT, PIN, SPARES, first, factor, max, wake]
        };
        &ALL
    }

    fn conflict(&self, setting: &Setting) -> Option<String> {
        first_beyond_longest(setting)
    }

    fn plan(&self, machine: &Topology, pus: &[PuId], setting: &Setting) -> Plan {
        let group_node = |group: GroupId| machine.core_groups[group.index()].node;
        plan(machine, pus, setting, |from, to| {
            let value = machine.numa_value(group_node(from), group_node(to));
            if from == to { value } else { value + 1 }
        })
    }

    fn wants_latencies(&self, _: &Topology) -> bool {
        true
    }

    fn plan_with(&self, machine: &Topology, pus: &[PuId], setting: &Setting, latencies: &Latencies) -> Plan {
        plan(machine, pus, setting, |from, to| latencies.between(from, to))
    }
}

fn plan(machine: &Topology, pus: &[PuId], setting: &Setting, cost: impl Fn(GroupId, GroupId) -> u32) -> Plan {
    let mut draft = Draft::with_spares(machine, pus, setting, |index| machine.pus[pus[index].index()].group);
    // Vicinities are blocks of neighbouring home caches, the same for all their members.
    let reach = setting.above_zero("reach").map_or(usize::MAX, |reach| reach as usize);
    let order = neighbours(machine.core_groups.len(), |a, b| {
        u64::from(cost(GroupId::new(a), GroupId::new(b))) + u64::from(cost(GroupId::new(b), GroupId::new(a)))
    });
    let mut vicinity = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, &group)| vicinity[group] = at / reach);
    let vicinity_of = |pool: PoolId| vicinity[draft.group_of(draft.pools[pool.index()].seats[0]).index()];
    let block = |pool: PoolId| -> Vec<PoolId> {
        let pools = draft.pool_ids().filter(|&other| vicinity_of(other) == vicinity_of(pool));
        // Its own home first, then cyclically.
        let (before, from): (Vec<_>, Vec<_>) = pools.partition(|&other| other < pool);
        from.into_iter().chain(before).collect()
    };
    let blocks: Vec<Vec<PoolId>> = draft.pool_ids().map(block).collect();
    let queues: Vec<QueueId> = draft
        .pool_ids()
        .map(|pool| {
            let (home, wake) = (draft.pool_node(pool), blocks[pool.index()].clone());
            draft.queue(format!("tasks of {pool:?}"), None, QueueOrder::Deque, home, wake)
        })
        .collect();
    // By pool, the queue of the tasks left with their spawners.
    let undealt: Vec<QueueId> = match setting.value(UNDEALT.name) {
        BESIDE => queues.clone(),
        _ => draft
            .pool_ids()
            .map(|pool| {
                let (home, wake) = (draft.pool_node(pool), outwards(&draft, pool, &cost));
                draft.queue(format!("undealt tasks of {pool:?}"), None, QueueOrder::Deque, home, wake)
            })
            .collect(),
    };
    for seat in draft.seat_ids() {
        let pool = draft.seat(seat).pool;
        let (own, stays) = (queues[pool.index()], undealt[pool.index()]);
        let is_apart = own != stays;
        let others = blocks[pool.index()][1..].iter().map(|other| queues[other.index()]).collect();
        draft.seats[seat.index()].place = [stays, stays];
        draft.seats[seat.index()].idle = back_off(setting);
        draft.probe(seat, 1, QueueScan::List(if is_apart { vec![stays, own] } else { vec![own] }), Take::Oldest);
        draft.probe(seat, 2, QueueScan::List(others), Take::Oldest);
        if is_apart {
            let others = outwards(&draft, pool, &cost)[1..].iter().map(|other| undealt[other.index()]).collect();
            draft.probe(seat, 2, QueueScan::List(others), Take::Oldest);
        }
    }
    let private = || private_bytes(machine, pus);
    let dealing = Dealing {
        more_bytes_than: setting.above_zero("private_bytes").map_or_else(private, u64::from),
        intensity_first: setting.value("intensity") == 1,
        only_coarse: setting.value("coarse") == 1,
        ..draft.deal_to_groups(&queues, &cost)
    };
    let homes = draft.homes(&queues);
    let tasks = vec![TaskPlacement::ByBytes(dealing), TaskPlacement::Own];
    let boxes = vec![BoxPlacement::AtHome, BoxPlacement::ByHeads, BoxPlacement::Own];
    Plan { homes, tasks, boxes, ..draft.finish(setting, undealt) }
}

/// All pools by the cost of a byte of their caches for a seat of this pool, itself first; at equal costs cyclically
/// from it.
fn outwards(draft: &Draft<'_>, from: PoolId, cost: &impl Fn(GroupId, GroupId) -> u32) -> Vec<PoolId> {
    let group = |pool: PoolId| draft.group_of(draft.pools[pool.index()].seats[0]);
    let count = draft.pools.len();
    let mut pools: Vec<PoolId> = draft.pool_ids().collect();
    pools.sort_by_key(|&pool| {
        let far = if pool == from { 0 } else { cost(group(from), group(pool)).max(1) };
        (far, (pool.index() + count - from.index()) % count)
    });
    pools
}

/// All home caches, neighbours beside each other: each is paired with the nearest free one, then pairs are paired, and
/// so on. So each aligned power of two of them is compact: on a mesh a square, or two.
fn neighbours(count: usize, apart: impl Fn(usize, usize) -> u64) -> Vec<usize> {
    let mut blocks: Vec<Vec<usize>> = (0..count).map(|home| vec![home]).collect();
    while blocks.len() > 1 {
        let mut left = std::mem::take(&mut blocks);
        while !left.is_empty() {
            let mut block = left.remove(0);
            let average = |other: &Vec<usize>| {
                let all: u128 = block
                    .iter()
                    .flat_map(|&a| other.iter().map(move |&b| (a, b)))
                    .map(|(a, b)| u128::from(apart(a, b)))
                    .sum();
                // In thousandths.
                all * 1000 / (block.len() * other.len()) as u128
            };
            if let Some((nearest, _)) = left.iter().enumerate().min_by_key(|(_, other)| average(other)) {
                block.append(&mut left.remove(nearest));
            }
            blocks.push(block);
        }
    }
    blocks.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vicinity of a tile on a mesh of eight columns.
    fn vicinity(reach: usize, tile: usize) -> Vec<usize> {
        let machine = Topology::parse("node:1 l2:64 l1:1 core:1").unwrap();
        let hops = |a: usize, b: usize| (a / 8).abs_diff(b / 8) + (a % 8).abs_diff(b % 8);
        let rows = (0..64).map(|a| (0..64).map(|b| 10 + hops(a, b) as u32).collect()).collect();
        let latencies = Latencies::new(&machine, rows).unwrap();
        let setting: Setting = format!("vicinity:reach={reach}").parse().unwrap();
        let plan = setting.plan_with(&machine, 64, Some(&latencies));
        let mut homes: Vec<usize> = plan.queues[tile].wake.iter().map(|pool| pool.index()).collect();
        homes.sort_unstable();
        homes
    }

    #[test]
    fn vicinities_are_compact_on_a_mesh() {
        assert_eq!(vicinity(1, 9), [9]);
        assert_eq!(vicinity(4, 9), [0, 1, 8, 9]);
        assert_eq!(vicinity(4, 54), [54, 55, 62, 63]);
        assert_eq!(vicinity(8, 9), [0, 1, 2, 3, 8, 9, 10, 11]);
        assert_eq!(vicinity(16, 63), [36, 37, 38, 39, 44, 45, 46, 47, 52, 53, 54, 55, 60, 61, 62, 63]);
        assert_eq!(vicinity(0, 9).len(), 64);
    }

    #[test]
    fn home_caches_of_a_node_are_nearer_than_those_of_another() {
        // The fifth of a node is paired with one of the other, and yet each aligned four are of one node.
        let machine = Topology::parse("node:2 l3:5 core:2").unwrap();
        let plan = "vicinity:reach=4".parse::<Setting>().unwrap().plan(&machine, 20);
        let of = |queue: usize| plan.queues[queue].wake.iter().map(|pool| pool.index() / 5).collect::<Vec<_>>();
        assert_eq!((of(0), of(9)), (vec![0; 4], vec![1; 2]));
    }
}
