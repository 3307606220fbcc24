//! Every strategy of the papers, and one of our own, one file each. A new one is a copy of its nearest neighbour and a
//! line in [`ALL`].

mod bobox;
mod central;
mod footprint;
mod las;
mod locality_queues;
mod nls;
mod setting;
mod shepherd;
mod steal;
mod vicinity;
mod vicus;

pub use setting::{AllowedValues, Parameter, Setting, SettingError, Settings};

use crate::{
    BoxPlacement, Dealing, Idle, Patience, Plan, Pool, PoolId, Probe, QueueId, QueueOrder, QueueScan, QueueSpec,
    SeatId, SeatPlan, Take, TaskPlacement, When,
};
use std::collections::{BTreeMap, BTreeSet};
use vicus_topology::{CoreGroup, GroupId, LocationId, NodeId, PuId, Topology};

/// The default strategy of tasks: for a runtime, for OpenMP teams, and for programs in C and C++.
///
/// Of the ten, it is the nearest to the best on most simulated machines (`vicus simulate grid`): it deals tasks by
/// their data, and lets no node idle beside another one with many tasks.
pub const DEFAULT: &str = "vicus";

/// The default strategy of queries: their boxes begin on every node, and a box's envelopes are in its sender's caches.
pub const DEFAULT_OF_QUERIES: &str = "las";

/// Every strategy.
pub const ALL: [&dyn Strategy; 10] = [
    &las::Las,
    &nls::Nls,
    &bobox::Bobox,
    &steal::Steal,
    &footprint::Footprint,
    &vicinity::Vicinity,
    &locality_queues::LocalityQueues,
    &central::Central,
    &shepherd::Shepherd,
    &vicus::Vicus,
];

/// A scheduling strategy: a rule for the next task of each seat.
pub trait Strategy: Sync {
    /// The name written by users.
    fn name(&self) -> &'static str;

    /// The source: paper and section.
    fn source(&self) -> &'static str;

    /// Its parameters.
    fn parameters(&self) -> &'static [Parameter];

    /// The plan for a machine with a thread on each of these PUs. Every parameter has a value allowed by its kind.
    fn plan(&self, machine: &Topology, pus: &[PuId], setting: &Setting) -> Plan;

    /// Names in words the values that exclude each other, although each is right by itself.
    fn conflict(&self, _: &Setting) -> Option<String> {
        None
    }

    /// Whether it makes a better plan for this machine from measured latencies.
    fn wants_latencies(&self, _: &Topology) -> bool {
        false
    }

    /// The plan for a machine with these latencies.
    fn plan_with(&self, machine: &Topology, pus: &[PuId], setting: &Setting, _: &Latencies) -> Plan {
        self.plan(machine, pus, setting)
    }
}

/// A seat's wait for data in a cache, as a world measured it: `latencies[from][to]` for a seat in core group `from` and
/// data in the cache of `to`.
///
/// ```
/// use vicus_schedule::Latencies;
/// let machine = vicus_topology::Topology::parse("node:2 l3:1 core:4").unwrap();
/// assert!(Latencies::new(&machine, vec![vec![20, 90], vec![95, 20]]).is_some());
/// assert!(Latencies::new(&machine, vec![vec![20]]).is_none()); // two core groups have four ways
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies(Vec<Vec<u32>>);

impl Latencies {
    /// In any unit, such as nanoseconds. `None` if there is not one for each pair of core groups.
    pub fn new(machine: &Topology, latencies: Vec<Vec<u32>>) -> Option<Latencies> {
        let groups = machine.core_groups.len();
        let fits = latencies.len() == groups && latencies.iter().all(|row| row.len() == groups);
        fits.then_some(Latencies(latencies))
    }

    /// From one core group to another.
    pub fn between(&self, from: GroupId, to: GroupId) -> u32 {
        self.0[from.index()][to.index()]
    }

    /// All of them.
    pub fn as_rows(&self) -> &[Vec<u32>] {
        &self.0
    }
}

/// How long an idle seat looks around before it sleeps, if a strategy's paper does not say. Waking a thread takes 4 µs
/// on real hardware, and 25 to 60 µs on a virtual machine. Tasks of 1 to 10 µs that wait for one another
/// (`./dev bench tasks --what metg`) are twice to five times as efficient after 10 µs as after 2, and not more
/// after 20.
const SPIN: Parameter = Parameter {
    name: "spin_ns",
    default: 10_000,
    values: AllowedValues::ANY,
    what: "how long a worker without work looks around before it sleeps, in nanoseconds; 0 is not at all; after a \
        short sleep up to 50000",
};

/// How many threads are lent for blocked ones, so tasks behind a blocking box go on.
const SPARES: Parameter = Parameter {
    name: "spares",
    default: 4,
    values: AllowedValues::ANY,
    what: "how many threads each pool of threads may lend for blocked ones, at most one for each of its threads",
};

/// Whether threads of a dealing strategy are bound, for strategies without another parameter for it.
const PIN: Parameter = Parameter {
    name: "pin",
    default: 1,
    values: AllowedValues::Named(&["off", "auto"]),
    what: "auto: threads may run where the strategy has them; off: on any PU, and before a thread looks for a task it \
        asks the system where it runs, and is as the \
           thread of that place",
};

/// Stands in until a strategy has named the queue.
const NOWHERE: QueueId = QueueId::new(u32::MAX as usize);

/// A plan in the making: seats in pools, and the queues given to them so far.
struct Draft<'a> {
    machine: &'a Topology,
    /// [`Topology::numa_ranks`].
    ranks: Vec<Vec<u32>>,
    queues: Vec<QueueSpec>,
    seats: Vec<SeatPlan>,
    pools: Vec<Pool>,
}

impl<'a> Draft<'a> {
    /// Like [`Draft::new`], with the setting's number of spare seats.
    fn with_spares<K: PartialEq>(
        machine: &'a Topology,
        pus: &[PuId],
        setting: &Setting,
        key: impl Fn(usize) -> K,
    ) -> Draft<'a> {
        Draft::new(machine, pus, setting.value(SPARES.name) as usize, key)
    }

    /// Seats on these PUs. Seats with equal `key` share a pool, and so do its `spares`; a spare's thread may run on any
    /// PU allowed to the pool's threads: the PU of the blocked thread is free.
    fn new<K: PartialEq>(machine: &'a Topology, pus: &[PuId], spares: usize, key: impl Fn(usize) -> K) -> Draft<'a> {
        let ranks = machine.numa_ranks();
        let mut draft = Draft { machine, ranks, queues: Vec::new(), seats: Vec::new(), pools: Vec::new() };
        let mut keys: Vec<K> = Vec::new();
        for (index, &pu) in pus.iter().enumerate() {
            let key = key(index);
            let pool = keys.iter().position(|other| *other == key).unwrap_or_else(|| {
                keys.push(key);
                draft.pools.push(Pool { seats: Vec::new() });
                keys.len() - 1
            });
            draft.add_seat(pu, PoolId::new(pool), false);
        }
        for pool in 0..draft.pools.len() {
            let threads: Vec<PuId> = draft.pools[pool].seats.iter().map(|seat| draft.seats[seat.index()].pu).collect();
            let mut affinity = threads.clone();
            affinity.sort_unstable();
            affinity.dedup();
            for pu in threads.into_iter().take(spares) {
                draft.add_seat(pu, PoolId::new(pool), true);
                draft.seats.last_mut().expect("it was just put").affinity.clone_from(&affinity);
            }
        }
        draft
    }

    fn add_seat(&mut self, pu: PuId, pool: PoolId, spare: bool) {
        self.pools[pool.index()].seats.push(SeatId::new(self.seats.len()));
        self.seats.push(SeatPlan {
            pu,
            node: self.machine.pus[pu.index()].node,
            affinity: vec![pu],
            pool,
            spare,
            is_alone: false,
            place: [NOWHERE; 2],
            tasks: NOWHERE,
            look: Vec::new(),
            idle: Idle::Sleep { spin_ns: SPIN.default },
            patience: Patience::default(),
        });
    }

    fn queue(
        &mut self,
        name: String,
        owner: Option<SeatId>,
        order: QueueOrder,
        home: NodeId,
        wake: Vec<PoolId>,
    ) -> QueueId {
        self.queues.push(QueueSpec { name, owner, order, capacity: None, home, wake, robbers: Vec::new() });
        QueueId::new(self.queues.len() - 1)
    }

    fn seat_ids(&self) -> impl Iterator<Item = SeatId> + use<> {
        (0..self.seats.len()).map(SeatId::new)
    }

    fn pool_ids(&self) -> impl Iterator<Item = PoolId> + use<> {
        (0..self.pools.len()).map(PoolId::new)
    }

    fn seat(&self, seat: SeatId) -> &SeatPlan {
        &self.seats[seat.index()]
    }

    fn group_of(&self, seat: SeatId) -> GroupId {
        self.machine.pus[self.seat(seat).pu.index()].group
    }

    /// The node of a pool: its first seat's.
    fn pool_node(&self, pool: PoolId) -> NodeId {
        self.seat(self.pools[pool.index()].seats[0]).node
    }

    /// The rank of the distance between two nodes.
    fn rank(&self, from: NodeId, to: NodeId) -> u32 {
        self.ranks[from.index()][to.index()]
    }

    /// Pools by NUMA rank from one of them, itself first; at equal rank cyclically from it, so seats visit different
    /// ones first.
    fn pools_by_rank(&self, from: PoolId) -> Vec<PoolId> {
        let count = self.pools.len();
        let mut pools: Vec<PoolId> = self.pool_ids().collect();
        let rank = |pool: PoolId| self.rank(self.pool_node(from), self.pool_node(pool));
        pools.sort_by_key(|&pool| (rank(pool), (pool.index() + count - from.index()) % count));
        pools
    }

    /// Adds a probe unless it has no queue to look into.
    fn probe(&mut self, seat: SeatId, rule: u8, scan: QueueScan, take: Take) {
        if !scan.queues().is_empty() {
            let probe = Probe { rule, scan, take, when: When::NotEmpty, rest_to: None, while_waiting: true };
            self.seats[seat.index()].look.push(probe);
        }
    }

    /// Adds a probe for tasks of other seats: while a task of the seat waits, it only finds tasks of the same request.
    fn probe_if_free(&mut self, seat: SeatId, rule: u8, scan: QueueScan, take: Take) {
        let probes = self.seat(seat).look.len();
        self.probe(seat, rule, scan, take);
        self.seats[seat.index()].look[probes..].iter_mut().for_each(|probe| probe.while_waiting = false);
    }

    /// Adds a probe for the oldest task of queues longer than these limits.
    fn probe_long(&mut self, seat: SeatId, rule: u8, scan: QueueScan, limits: Vec<u32>) {
        if !scan.queues().is_empty() {
            self.probe(seat, rule, scan, Take::Oldest);
            self.seats[seat.index()].look.last_mut().expect("it was just put").when = When::LongerThan(limits);
        }
    }

    /// By node, the queues of the pools nearest to it, given one queue for each pool.
    fn homes(&self, queues: &[QueueId]) -> Vec<Vec<QueueId>> {
        let nearest = |node: NodeId| {
            let rank = |pool: PoolId| self.rank(node, self.pool_node(pool));
            let least = self.pool_ids().map(rank).min();
            self.pool_ids().filter(|&pool| Some(rank(pool)) == least).map(|pool| queues[pool.index()]).collect()
        };
        (0..self.machine.nodes.len()).map(|node| nearest(NodeId::new(node))).collect()
    }

    /// The node of the seats nearest to a node's memory: its own, if it has some.
    fn nearest(&self, node: NodeId) -> NodeId {
        let nearest = self.pool_ids().min_by_key(|&pool| self.rank(node, self.pool_node(pool)));
        self.pool_node(nearest.expect("a plan has a pool"))
    }

    /// Deals every task to the nodes, each a location of its own, given one queue for each pool. A node has its own
    /// pool's queue, or that of the nearest node with threads.
    fn deal_to_nodes(&self, queues: &[QueueId]) -> Dealing {
        let locations = (0..self.machine.nodes.len()).map(|node| vec![LocationId::new(node)]).collect();
        let nearest = self.homes(queues).into_iter().map(|nearest| nearest[0]).collect();
        let of_seats = |queue: QueueId| LocationId::new(self.queues[queue.index()].home.index());
        Dealing::over(locations, nearest, &self.machine.distances, of_seats)
    }

    /// Deals every task to core groups, with their shared caches as locations, given one queue for each pool of a
    /// group. A group has its own pool's queue, or that of the nearest one with threads. The parts of a node's memory
    /// belong to its groups in turn.
    fn deal_to_groups(&self, queues: &[QueueId], cost: &impl Fn(GroupId, GroupId) -> u32) -> Dealing {
        let groups = &self.machine.core_groups;
        let location = |group: GroupId| LocationId::new(group.index());
        let group_of = |pool: PoolId| self.group_of(self.pools[pool.index()].seats[0]);
        let nearest = |group: GroupId| {
            let far = |&pool: &PoolId| (group_of(pool) != group, cost(group, group_of(pool)), pool);
            queues[self.pool_ids().min_by_key(far).expect("a plan has a pool").index()]
        };
        let locations = |node: NodeId| {
            let far = |group: &CoreGroup| (group.node != node, self.rank(node, group.node));
            let least = groups.iter().map(far).min();
            groups.iter().filter(|group| Some(far(group)) == least).map(|group| location(group.id)).collect()
        };
        let of_seats = |queue: QueueId| {
            let pool = self.pool_ids().find(|pool| queues[pool.index()] == queue);
            location(group_of(pool.expect("each queue is of a pool")))
        };
        let costs: Vec<Vec<u32>> = groups.iter().map(|a| groups.iter().map(|b| cost(a.id, b.id)).collect()).collect();
        let locations = self.machine.nodes.iter().map(|node| locations(node.id)).collect();
        let nearest = groups.iter().map(|group| nearest(group.id)).collect();
        Dealing::over(locations, nearest, &costs, of_seats)
    }

    /// The plan, with tasks and boxes placed at their seats.
    fn finish(mut self, setting: &Setting, entry: Vec<QueueId>) -> Plan {
        let strategy = setting.to_string();
        // A description may have several PUs for one of the system's.
        let cpu = |seat: &SeatPlan| self.machine.pus[seat.pu.index()].os_index;
        let mut threads: BTreeMap<u32, usize> = BTreeMap::new();
        self.seats.iter().filter(|seat| !seat.spare).for_each(|seat| *threads.entry(cpu(seat)).or_default() += 1);
        let alone: Vec<bool> = self.seats.iter().map(|seat| threads[&cpu(seat)] == 1).collect();
        self.seats.iter_mut().zip(alone).for_each(|(seat, alone)| seat.is_alone = alone);
        self.seats.iter_mut().filter(|seat| seat.tasks == NOWHERE).for_each(|seat| seat.tasks = seat.place[0]);
        if let Some(spin_ns) = setting.find(SPIN.name) {
            self.seats.iter_mut().for_each(|seat| seat.idle = Idle::Sleep { spin_ns });
        }
        // Unbound threads may meet on a PU.
        let roams = setting.is(PIN.name, "off");
        if roams {
            for seat in &mut self.seats {
                seat.affinity.clear();
                seat.is_alone = false;
            }
        }
        Plan {
            strategy,
            queues: self.queues,
            seats: self.seats,
            pools: self.pools,
            entry,
            homes: Vec::new(),
            roams,
            tokens: None,
            tasks: vec![TaskPlacement::Own],
            boxes: vec![BoxPlacement::AtHome, BoxPlacement::Own],
        }
    }
}

/// How many cores these PUs belong to.
fn cores<'a>(machine: &Topology, pus: impl IntoIterator<Item = &'a PuId>) -> usize {
    pus.into_iter().map(|pu| machine.pus[pu.index()].core).collect::<BTreeSet<_>>().len()
}

/// The bytes of the smallest private cache of a core, the largest among these PUs' cores. If no cache of a core is
/// known, those of most cores of today: with a threshold of 0, each task with data would be dealt, however small.
fn private_bytes(machine: &Topology, pus: &[PuId]) -> u64 {
    const USUAL: u64 = 32 << 10;
    let most = pus.iter().map(|&pu| cache_bytes(machine, pu).1).max().unwrap_or(0);
    if most == 0 { USUAL } else { most }
}

/// The bytes of a PU's last-level cache for each core on it, and of its smallest private cache; 0 if unknown.
fn cache_bytes(machine: &Topology, pu: PuId) -> (u64, u64) {
    let of_pu = || machine.caches.iter().filter(move |cache| cache.pus.contains(&pu));
    let core = machine.pus[pu.index()].core;
    let private =
        |cache: &&vicus_topology::Cache| cache.pus.iter().all(|other| machine.pus[other.index()].core == core);
    let last = of_pu().max_by_key(|cache| cache.level);
    let last = last.map_or(0, |cache| cache.bytes / cores(machine, &cache.pus) as u64);
    let own = of_pu().filter(private).min_by_key(|cache| cache.level).map_or(0, |cache| cache.bytes);
    (last, own)
}
