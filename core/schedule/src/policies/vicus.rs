//! The strategy of this runtime: each of the papers' ideas is used on the kind of task or machine it pays for.
//!
//! From LAS: immediate tasks lie with their seat, deferred ones in a queue of its core group by request, and a seat
//! looks near first. From footprint scheduling: a task with unevenly spread bytes is dealt to the node with their least
//! cost, and far seats leave it there unless it would wait for long. From vicinity scheduling: on a chip with one node
//! and caches at different distances, these home caches take the place of nodes.
//!
//! The price of distance is new. A task behind `n` others in a queue with `c` cores begins after about `n / c` tasks.
//! Far away it could begin at once, and would wait for each of its bytes longer, by the ratio of the distances. If a
//! share `m` of its time is memory's, it takes `m * (ratio - 1)` longer there. So a far seat takes a task of a home
//! once `n / c` is more than this, or more than 1: then the task is not even among the next ones there. Footprint
//! scheduling uses the rank of the distance instead: 1 for the nearest node, whether its memory is a tenth or three
//! times as far. And it deals footprints above a share of the last-level cache; here the limit is a core's own cache,
//! since from some tens of kilobytes on, far bytes cost more than a theft does.
//!
//! Nor is a task kept on a node for its kind alone: when nothing else is left, a seat takes immediate tasks from afar,
//! too. LAS leaves them on their node, so an eighth of the seats works on a tree of tasks that begins on one node of
//! eight. A push wakes seats by distance, near ones first: a fan-out stays together while near seats sleep, and spreads
//! then.
//!
//! A core group's shared queue keeps a fan-out together, as long as one seat at a time uses it. While another seat uses
//! it, a spawning seat puts its deferred tasks into its own queue, for a thief to take with one cache line and no lock
//! ([`TaskPlacement::SpillToOwn`]): all seats wait for the only spawner, and it would wait for them.
//!
//! The bytes of blocks of a matrix lie in hundreds of rows. Looking all of them up, a spawner would keep all others
//! waiting, so it looks at a few, and these stand for the rest ([`Dealing::stretches_at_most`]).
//!
//! A task that divides its work among a few others, as recursive sorts and transforms do, leaves them its recent data
//! in the caches. So the first tasks of a spawner, and all tasks of a spawner with data of its own, are dealt only if
//! 80 percent of their bytes lie on one node ([`Dealing::fan`]): the many tasks of a loop are dealt, and a tree of
//! tasks stays together, and is stolen from as it would be without data.
//!
//! Pages give a datum's place in memory, and nothing of the caches: the core group with its last use has it nearer than
//! any node. Each task large enough to be dealt marks its data with its group when it begins
//! ([`LastUses`](crate::LastUses)). The next task with most of these data goes to that group, if the group has used no
//! more bytes since than its caches hold ([`Warm`]), and if these lie on the same node as before: the next sweep
//! over a grid, the next step of a loop. Other groups would have to fetch the data. They take such a task only from a
//! queue longer than the group's number of cores, or than a part of it with a lower `memory`. Among many requests no
//! task goes to such a queue, since requests take turns in the others.
//!
//! If several nodes are about as near to a task's bytes, the node with the fewest bytes sent by the spawner's seat gets
//! the task, unless 80 percent lie on one ([`Dealing::spread_within`]). If pages lie on nodes in turn, some nodes are
//! cheaper than others by a hair, and they would get all tasks.
//!
//! While there are more requests than half of the nodes, tasks with such footprints go to their spawners' nodes,
//! wherever their bytes lie ([`Crowd`]): the machine is full anyway, and a request on one node finds its
//! recent data in the caches there. They are protected from far seats like dealt ones.
//!
//! The requests in a queue take turns ([`Take::InTurn`]): a short one behind long ones waits for a task of each, while
//! LAS works at the oldest request as long as it finds any of its tasks near. Within a request the youngest deferred
//! task goes first, as in LAS, and of dealt tasks the oldest, as in footprint scheduling. Sending a task to a node of
//! one core group is as good as dealing it there. Boxes are not dealt: an envelope just received is in the caches of
//! its sender's seat.
//!
//! Tried, and worse on most simulated machines: a front for young requests (one queue for all seats helped on four
//! cores, and was a bottleneck on 32 and more); boxes dealt by their inputs; near strangers' immediate tasks before far
//! deferred ones; the rank as threshold; dealt tasks by age alone; deferred tasks in the spawner's own queue always.
//! Tried without effect: far seats taking a group's share of a request's tasks at once (with one seat as the spawner
//! for all, they take each task as soon as it is queued); tasks staying with their spawner if the queue for them is so
//! long that the spawner would take one from there; tasks dealt only if their bytes cost 5 to 20 percent less there
//! than on average (sort on two machines gained as much as jacobi2d lost on two others); evenly spread bytes, dealt to
//! all nodes in turn. Tried, and worse: tasks dealt to a node's core groups in turn, by bytes, so that each cache gets
//! its share (map took 1.08 times as long, since no group took another's tasks); tasks with a quarter of the bytes
//! warm, or half (random graphs); other groups taking warm tasks from queues of any length, or of half as many tasks as
//! cores.

use super::las::{self, by_cache_distance};
use super::{AllowedValues, Draft, Latencies, Parameter, SPARES, SPIN, Setting, Strategy, cores, private_bytes};
use crate::{
    Crowd, Dealing, End, Plan, PoolId, QueueId, QueueOrder, QueueScan, Robber, SeatId, Take, TaskPlacement, Warm,
};
use vicus_topology::{GroupId, PuId, Topology};

/// The number of requests from which data stay with their users.
const CROWD: Parameter = Parameter {
    name: "crowd",
    default: 50,
    values: AllowedValues::ANY,
    what: "more requests than this are many, in percent of the nodes, and at least 2: their tasks stay on their \
        spawners' nodes, where caches have what \
           the request has used; 0 is any number",
};

/// The tasks taken for parts of their spawners' work.
const FAN: Parameter = Parameter {
    name: "fan",
    default: 8,
    values: AllowedValues::ANY,
    what: "the first so many tasks that a spawner would deal to nodes, and all of a spawner that would be dealt \
        itself, go there only if 80 percent of their bytes \
           lie there: they use what it has just used; 0 deals all",
};

/// The tasks that go to the last user of their data.
const WARM: Parameter = Parameter {
    name: "warm",
    default: 80,
    values: AllowedValues::Between(0, 100),
    what: "a task goes to the core group that has used this part of its bytes last, in percent, if the group has used \
        no more since than its caches hold; parts of their \
           spawners' work don't, nor any where homes are caches; 0 is never",
};

/// The nodes tasks are spread among.
const SPREAD: Parameter = Parameter {
    name: "spread",
    default: 10,
    values: AllowedValues::ANY,
    what: "nodes where a task's bytes cost at most so many percent more than where they cost least get such tasks in \
        turn, by bytes, as each thread counts them; \
           0: those that cost the least",
};

/// How much of a task's footprint is looked at.
const STRETCHES: Parameter = Parameter {
    name: "stretches",
    default: 8,
    values: AllowedValues::ANY,
    what: "how many stretches of an access to rows of a matrix are looked up, and stand for all; 0 is all of them",
};

/// Whether deferred tasks go to the spawner's own queue while their group's one is in use.
const SPILL: Parameter = Parameter {
    name: "spill",
    default: 1,
    values: AllowedValues::Named(&["off", "on"]),
    what: "on: while there is one request, a deferred task goes to its spawner's own queue once another seat uses the \
        one of its core group",
};

pub(super) struct Vicus;

impl Strategy for Vicus {
    fn name(&self) -> &'static str {
        "vicus"
    }

    fn source(&self) -> &'static str {
        "of this runtime; after Falt et al., §4, and Muddukrishna et al., §4"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[
            las::PIN,
            Parameter {
                name: "deal_bytes",
                default: 0,
                values: AllowedValues::ANY,
                what: "a task with more bytes is dealt; 0 is a core's smallest private cache, or 32 KiB if none is \
                    known",
            },
            Parameter {
                name: "memory",
                default: 50,
                values: AllowedValues::Between(0, 100),
                what: "how much of a task's time counts as waits for memory, in percent: the more, the longer far \
                    threads leave a dealt \
                       task where its bytes are",
            },
            CROWD,
            FAN,
            WARM,
            SPREAD,
            STRETCHES,
            SPILL,
            SPARES,
            SPIN,
        ]
    }

    fn plan(&self, machine: &Topology, pus: &[PuId], setting: &Setting) -> Plan {
        let node = |group: GroupId| machine.core_groups[group.index()].node;
        plan(machine, pus, setting, |from, to| machine.numa_value(node(from), node(to)))
    }

    /// Only if homes are caches: distance to another node is its memory's.
    fn wants_latencies(&self, machine: &Topology) -> bool {
        let mut nodes = machine.usable_pus().map(|pu| pu.node);
        let first = nodes.next();
        nodes.all(|node| Some(node) == first)
    }

    fn plan_with(&self, machine: &Topology, pus: &[PuId], setting: &Setting, latencies: &Latencies) -> Plan {
        plan(machine, pus, setting, |from, to| latencies.between(from, to))
    }
}

fn plan(machine: &Topology, pus: &[PuId], setting: &Setting, cost: impl Fn(GroupId, GroupId) -> u32) -> Plan {
    let mut draft = Draft::with_spares(machine, pus, setting, |index| machine.pus[pus[index].index()].group);
    las::pin(&mut draft, pus, setting);
    let by_rank: Vec<Vec<PoolId>> = draft.pool_ids().map(|pool| draft.pools_by_rank(pool)).collect();
    let homes = Homes::of(&draft, setting, &cost);

    let mut immediate: Vec<QueueId> = Vec::new();
    for seat in draft.seat_ids() {
        let (home, wake) = (draft.seat(seat).node, by_rank[draft.seat(seat).pool.index()].clone());
        immediate.push(draft.queue(format!("immediate of {seat:?}"), Some(seat), QueueOrder::Deque, home, wake));
    }
    let mut deferred: Vec<QueueId> = Vec::new();
    for pool in draft.pool_ids() {
        let (home, wake) = (draft.pool_node(pool), by_rank[pool.index()].clone());
        deferred.push(draft.queue(format!("deferred of {pool:?}"), None, QueueOrder::ByRequest, home, wake));
    }
    // One for each home, shared by its pools.
    let dealt: Vec<QueueId> = homes
        .pools
        .iter()
        .map(|pools| {
            let home = draft.pool_node(pools[0]);
            let name = if homes.are_caches { format!("dealt to {:?}", pools[0]) } else { format!("dealt to {home}") };
            draft.queue(name, None, QueueOrder::ByRequest, home, Vec::new())
        })
        .collect();
    for (home, &queue) in dealt.iter().enumerate() {
        let limit = |pool: PoolId| homes.limits[pool.index()][home];
        // Its own pools, the takers at any length, and the takers from a long queue.
        let others =
            by_rank[homes.pools[home][0].index()].iter().copied().filter(|pool| !homes.pools[home].contains(pool));
        let (at_once, when_long): (Vec<PoolId>, Vec<PoolId>) = others.partition(|&pool| limit(pool) == 0);
        let spec = &mut draft.queues[queue.index()];
        spec.wake = homes.pools[home].iter().copied().chain(at_once).collect();
        spec.robbers = when_long.into_iter().map(|pool| Robber { pool, longer_than: limit(pool) }).collect();
    }

    // As for dealt tasks; data outside the caches are taken to be three times as far.
    let warm_limit = |pool: PoolId| {
        let cores = cores(draft.machine, &pool_pus(&draft, pool)) as u32;
        (cores * 2 * setting.value("memory")).div_ceil(100).min(cores)
    };
    let warm_limits: Vec<u32> = draft.pool_ids().map(warm_limit).collect();
    let warm = warm(&mut draft, pus, setting, &homes, &by_rank, &warm_limits);

    for seat in draft.seat_ids() {
        let (own, pool) = (immediate[seat.index()], draft.seat(seat).pool);
        draft.seats[seat.index()].place = [own, deferred[pool.index()]];
        let node = draft.pool_node(pool);
        let others = &by_rank[pool.index()][1..];
        let (near, far): (Vec<PoolId>, Vec<PoolId>) = others.iter().partition(|&&other| draft.pool_node(other) == node);
        let deferred_of =
            |pools: &[PoolId]| QueueScan::List(pools.iter().map(|other| deferred[other.index()]).collect());
        let group = by_cache_distance(&draft, seat).into_iter().map(|other| immediate[other.index()]).collect();
        let strangers = strangers(&draft, seat, &near, &immediate).chain(strangers(&draft, seat, &far, &immediate));
        let strangers = strangers.collect();
        draft.probe(seat, 1, QueueScan::List(vec![own]), Take::Youngest);
        draft.probe(seat, 2, QueueScan::Ring(group, 0), Take::Oldest);
        let warm_of = |pools: &[PoolId]| {
            let queues = warm.iter().flat_map(|warm| pools.iter().map(|pool| warm.queues[pool.index()]));
            QueueScan::List(queues.collect())
        };
        draft.probe(seat, 3, warm_of(&[pool]), Take::InTurn(End::Oldest));
        draft.probe(seat, 3, QueueScan::List(vec![dealt[homes.of_pool[pool.index()]]]), Take::InTurn(End::Oldest));
        draft.probe_if_free(seat, 3, deferred_of(&[pool]), Take::InTurn(End::Youngest));
        draft.probe_if_free(seat, 4, deferred_of(&near), Take::OldestOfSecondOldestRequest);
        draft.probe_if_free(seat, 4, deferred_of(&far), Take::OldestOfSecondOldestRequest);
        homes.rob(&mut draft, seat, &dealt);
        let limits = others.iter().map(|&other| warm_limits[other.index()]).collect();
        draft.probe_long(seat, 5, warm_of(others), limits);
        draft.probe(seat, 5, QueueScan::Ring(strangers, 1), Take::Oldest);
    }
    let dealt_by_pool: Vec<QueueId> = draft.pool_ids().map(|pool| dealt[homes.of_pool[pool.index()]]).collect();
    // Tasks sent to a node lie with those dealt there, and are taken away from there at the same price. On a node with
    // several core groups, a task sent to one of them is to stay with it.
    let data_homes: Vec<QueueId> = draft
        .pool_ids()
        .map(|pool| {
            let is_alone = !homes.are_caches && homes.pools[homes.of_pool[pool.index()]].len() == 1;
            if is_alone { dealt_by_pool[pool.index()] } else { deferred[pool.index()] }
        })
        .collect();
    let data_homes = draft.homes(&data_homes);
    let dealing = homes.dealing(&draft, pus, setting, &dealt_by_pool, &cost);
    let crowd = homes.crowd(setting, &dealing).map(TaskPlacement::Crowd);
    let spill = (setting.value(SPILL.name) == 1).then_some(TaskPlacement::SpillToOwn);
    let tasks = crowd.into_iter().chain(warm.map(TaskPlacement::Warm)).chain([TaskPlacement::ByBytes(dealing)]);
    let tasks = tasks.chain(spill).chain([TaskPlacement::Own]).collect();
    Plan { homes: data_homes, tasks, ..draft.finish(setting, deferred) }
}

/// A queue for each pool, for tasks with their data in the pool's caches. Another pool takes one of them when the queue
/// is longer than its limit. `None` if there is a single pool, if no cache's size is known, or if homes are caches:
/// there the home caches have data of one place, and other tasks are not dealt.
fn warm(
    draft: &mut Draft<'_>,
    pus: &[PuId],
    setting: &Setting,
    homes: &Homes,
    by_rank: &[Vec<PoolId>],
    limits: &[u32],
) -> Option<Warm> {
    let percent = u8::try_from(setting.above_zero(WARM.name)?).expect("a percentage");
    let cache_bytes: Vec<u64> = draft.pool_ids().map(|pool| last_level_bytes(draft, pool)).collect();
    if homes.are_caches || by_rank.len() < 2 || cache_bytes.iter().all(|&bytes| bytes == 0) {
        return None;
    }
    let mut warm = Warm {
        queues: Vec::new(),
        cache_bytes,
        more_bytes_than: more_bytes_than(draft.machine, pus, setting),
        percent,
        on: draft.pool_ids().map(|pool| draft.pool_node(pool)).collect(),
        nearest: draft.machine.nodes.iter().map(|node| draft.nearest(node.id)).collect(),
    };
    for pool in draft.pool_ids() {
        let name = format!("warm in {pool:?}");
        let longer_than = limits[pool.index()];
        let (at_once, when_long) = by_rank[pool.index()].split_at(if longer_than == 0 { by_rank.len() } else { 1 });
        let queue = draft.queue(name, None, QueueOrder::ByRequest, draft.pool_node(pool), at_once.to_vec());
        draft.queues[queue.index()].robbers = when_long.iter().map(|&pool| Robber { pool, longer_than }).collect();
        warm.queues.push(queue);
    }
    Some(warm)
}

/// The PUs of a pool's seats, without the spare ones.
fn pool_pus(draft: &Draft<'_>, pool: PoolId) -> Vec<PuId> {
    let seats = draft.pools[pool.index()].seats.iter().map(|&seat| draft.seat(seat));
    seats.filter(|seat| !seat.spare).map(|seat| seat.pu).collect()
}

/// The bytes a pool's last-level caches hold. For a cache shared with other pools, the part for the pool's PUs.
fn last_level_bytes(draft: &Draft<'_>, pool: PoolId) -> u64 {
    let pus = pool_pus(draft, pool);
    let of_pool = || draft.machine.caches.iter().filter(|cache| cache.pus.iter().any(|pu| pus.contains(pu)));
    let last = of_pool().map(|cache| cache.level).max();
    let group = draft.group_of(draft.pools[pool.index()].seats[0]);
    let own = |cache: &vicus_topology::Cache| {
        cache.pus.iter().filter(|pu| draft.machine.pus[pu.index()].group == group).count() as u64
    };
    let of_last = of_pool().filter(|cache| Some(cache.level) == last);
    of_last.map(|cache| cache.bytes * own(cache) / cache.pus.len() as u64).sum()
}

/// Tasks with more bytes are dealt.
fn more_bytes_than(machine: &Topology, pus: &[PuId], setting: &Setting) -> u64 {
    setting.above_zero("deal_bytes").map_or_else(|| private_bytes(machine, pus), u64::from)
}

/// The immediate queues of some pools, turned so that the seats of a pool visit different ones first.
fn strangers(
    draft: &Draft<'_>,
    seat: SeatId,
    pools: &[PoolId],
    immediate: &[QueueId],
) -> impl Iterator<Item = QueueId> + use<> {
    let seats = pools.iter().flat_map(|pool| draft.pools[pool.index()].seats.iter().copied()).collect();
    let queues: Vec<QueueId> =
        las::turned(draft, seat, seats).into_iter().map(|other| immediate[other.index()]).collect();
    queues.into_iter()
}

/// The destinations of dealt tasks: nodes with threads, or home caches if latencies between caches of a node differ.
struct Homes {
    are_caches: bool,
    /// By home, its pools.
    pools: Vec<Vec<PoolId>>,
    /// By pool, its home.
    of_pool: Vec<usize>,
    /// By pool and home, beyond how many dealt tasks a seat of the pool takes one; of its own home 0.
    limits: Vec<Vec<u32>>,
    /// By pool and home, the cost of a byte.
    costs: Vec<Vec<u32>>,
}

impl Homes {
    fn of(draft: &Draft<'_>, setting: &Setting, cost: &impl Fn(GroupId, GroupId) -> u32) -> Homes {
        let groups = &draft.machine.core_groups;
        let group_of = |pool: PoolId| draft.group_of(draft.pools[pool.index()].seats[0]);
        let differ = |a: &vicus_topology::CoreGroup| {
            let own = cost(a.id, a.id);
            groups.iter().any(|b| b.node == a.node && cost(a.id, b.id) != own)
        };
        let node = draft.pool_node(PoolId::new(0));
        let is_alone = draft.pool_ids().all(|pool| draft.pool_node(pool) == node);
        let are_caches = is_alone && groups.iter().any(differ);
        // Measured latencies are those of caches. Distance to another node is its memory's.
        let node_of = |group: GroupId| groups[group.index()].node;
        let cost = |from: GroupId, to: GroupId| match are_caches {
            true => cost(from, to),
            false => draft.machine.numa_value(node_of(from), node_of(to)),
        };
        let mut pools: Vec<Vec<PoolId>> = Vec::new();
        let mut of_pool = Vec::new();
        for pool in draft.pool_ids() {
            let same = |other: &PoolId| !are_caches && draft.pool_node(*other) == draft.pool_node(pool);
            let home = pools.iter().position(|pools| same(&pools[0])).unwrap_or_else(|| {
                pools.push(Vec::new());
                pools.len() - 1
            });
            pools[home].push(pool);
            of_pool.push(home);
        }
        let cost_of = |pool: PoolId, home: &Vec<PoolId>| cost(group_of(pool), group_of(home[0]));
        let costs: Vec<Vec<u32>> =
            draft.pool_ids().map(|pool| pools.iter().map(|home| cost_of(pool, home)).collect()).collect();
        let limit = |pool: PoolId, home: usize| {
            let own = of_pool[pool.index()];
            if own == home {
                return 0;
            }
            let threads: Vec<PuId> = pools[home].iter().flat_map(|&pool| pool_pus(draft, pool)).collect();
            let cores = cores(draft.machine, &threads) as u64;
            let (near, far) = (u64::from(cost_of(pools[home][0], &pools[home])), u64::from(costs[pool.index()][home]));
            let memory = u64::from(setting.value("memory"));
            let more = (cores * memory * far.saturating_sub(near)).div_ceil(100 * near.max(1)).min(cores);
            u32::try_from(more).unwrap_or(u32::MAX)
        };
        let limits = draft.pool_ids().map(|pool| (0..pools.len()).map(|home| limit(pool, home)).collect()).collect();
        Homes { are_caches, pools, of_pool, limits, costs }
    }

    /// Adds the probe for tasks dealt to other homes, in ascending order of their bytes' cost.
    fn rob(&self, draft: &mut Draft<'_>, seat: SeatId, dealt: &[QueueId]) {
        let pool = draft.seat(seat).pool;
        let others = self.by_cost(pool);
        let limits = others.iter().map(|&home| self.limits[pool.index()][home]).collect();
        draft.probe_long(seat, 5, QueueScan::List(others.iter().map(|&home| dealt[home]).collect()), limits);
    }

    /// The other homes, in ascending order of their bytes' cost.
    fn by_cost(&self, pool: PoolId) -> Vec<usize> {
        let count = self.pools.len();
        let own = self.of_pool[pool.index()];
        let mut others: Vec<usize> = (1..count).map(|step| (own + step) % count).collect();
        others.sort_by_key(|&home| self.costs[pool.index()][home]);
        others
    }

    /// How tasks stay on their nodes among many requests. Home caches have data of one place, wherever tasks run.
    fn crowd(&self, setting: &Setting, dealing: &Dealing) -> Option<Crowd> {
        let percent = setting.above_zero(CROWD.name).filter(|_| !self.are_caches)?;
        // A request that submits the others and waits for them is counted as well, if there is one.
        let many = (u64::from(percent) * self.pools.len() as u64).div_ceil(100).max(2) + 1;
        Some(Crowd {
            requests: u32::try_from(many).unwrap_or(u32::MAX),
            more_bytes_than: dealing.more_bytes_than,
            // Each node is a location.
            queues: dealing.queues.clone(),
        })
    }

    fn dealing(
        &self,
        draft: &Draft<'_>,
        pus: &[PuId],
        setting: &Setting,
        by_pool: &[QueueId],
        cost: &impl Fn(GroupId, GroupId) -> u32,
    ) -> Dealing {
        let machine = draft.machine;
        let more_bytes_than = more_bytes_than(machine, pus, setting);
        if !self.are_caches {
            return Dealing {
                more_bytes_than,
                only_uneven: true,
                fan: setting.above_zero(FAN.name),
                spread_within: Some(setting.value(SPREAD.name)),
                stretches_at_most: setting.above_zero(STRETCHES.name),
                holds: machine.nodes.iter().map(|node| machine.has_memory(node.id)).collect(),
                ..draft.deal_to_nodes(by_pool)
            };
        }
        Dealing { more_bytes_than, intensity_first: true, only_coarse: true, ..draft.deal_to_groups(by_pool, cost) }
    }
}
