//! Sets of PUs, as any source gives them, made into a [`Topology`]: nested, put in order, and numbered.
//!
//! The order is that of hwloc's logical numbers: parts of a machine by their first PU, so that neighbours in a list are
//! neighbours in silicon.

use crate::set::Set;
use std::cmp::Reverse;
use std::collections::HashMap;
use vicus_topology::{
    Cache, CacheId, Core, CoreId, Device, DeviceKind, GroupId, MemorySpeed, Node, NodeId, Pu, PuId, Topology,
};

/// The distance of a node to itself: usual in OS matrices, and the default without a matrix.
pub(super) const NEAR: u32 = 10;
/// The default distance between two nodes without a matrix.
const FAR: u32 = 20;

/// A machine by the operating system's numbers, in any order.
#[derive(Default)]
pub(super) struct Shape {
    pub(super) name: String,
    pub(super) pus: Set,
    /// Packages, dies, clusters, groups: parts without an entry of their own in a topology. They give the order.
    pub(super) parts: Vec<Part>,
    pub(super) cores: Vec<(Part, Option<u32>)>,
    pub(super) caches: Vec<FoundCache>,
    pub(super) nodes: Vec<FoundNode>,
    /// Numbers of nodes, and the distances between them, row by row.
    pub(super) distances: Option<(Vec<u32>, Vec<u64>)>,
    /// Cores by their speed; a missing one is 0.
    pub(super) kinds: Vec<(Set, u32)>,
    pub(super) devices: Vec<FoundDevice>,
    /// Whether processors without caches share none: so says a person's line, and so is hwloc's XML taken. The kernel's
    /// files of a machine may lack caches.
    pub(super) tells_all: bool,
}

/// PUs of one part of a machine, and the number by which it is in order among its neighbours.
#[derive(Clone, Default)]
pub(super) struct Part {
    pub(super) pus: Set,
    pub(super) first: u32,
}

impl From<Set> for Part {
    fn from(pus: Set) -> Part {
        Part { first: pus.first(), pus }
    }
}

pub(super) struct FoundCache {
    pub(super) part: Part,
    pub(super) level: u8,
    pub(super) bytes: u64,
    /// Where it was read, for a warning.
    pub(super) from: String,
}

#[derive(Default)]
pub(super) struct FoundNode {
    pub(super) os_index: u32,
    pub(super) bytes: u64,
    /// The PUs that count as its own.
    pub(super) own: Set,
    /// The PUs near to it: for order, and for memory without PUs of its own.
    pub(super) near: Part,
    /// Memory for use by name only: high-bandwidth, persistent, far, or a device's.
    pub(super) is_special: bool,
    pub(super) speed: Option<FoundSpeed>,
    pub(super) tier: Option<u32>,
}

#[derive(Default)]
pub(super) struct FoundSpeed {
    /// Numbers of nodes.
    pub(super) near: Vec<u32>,
    /// Megabytes a second, reading and writing; nanoseconds, reading and writing.
    pub(super) values: [u32; 4],
}

pub(super) struct FoundDevice {
    pub(super) address: String,
    pub(super) kind: DeviceKind,
    pub(super) names: Vec<String>,
    pub(super) node: Option<u32>,
}

/// A tree of sets of PUs, by indices into the sorted numbers.
struct Nested {
    /// For each set: where it lies in the order of sets that are left, and so the later, the farther outside.
    left_at: Vec<usize>,
    /// The place of each PU in the order of the hierarchy.
    place_of: Vec<usize>,
    /// Sets that overlap another one without being inside of it; they are not in the tree.
    crosses: Vec<bool>,
    /// The sets of the tree by their numbers of PUs, the whole machine first, each with the one around it.
    branches: Vec<(usize, usize)>,
    /// The smallest set around each PU.
    around: Vec<usize>,
}

impl Nested {
    /// Whether a set overlaps one of the tree without being inside of it or around it.
    fn crosses_a_branch(&self, set: &[usize]) -> bool {
        let mut common: HashMap<usize, usize> = HashMap::new();
        for &pu in set {
            let mut at = self.around[pu];
            // All of it is inside of the whole machine.
            while at != 0 {
                *common.entry(at).or_default() += 1;
                at = self.branches[at].1;
            }
        }
        common.into_iter().any(|(at, common)| common < set.len() && common < self.branches[at].0)
    }
}

/// Nests sets of PUs: larger ones first, so that each one lies in the smallest around it.
fn nest(count: usize, sets: &[(Vec<usize>, u32)], numbers: &[u32]) -> Nested {
    struct Branch {
        pus: usize,
        outer: usize,
        first: u32,
        below: Vec<usize>,
        direct: Vec<usize>,
    }
    let branch = |pus, outer, first| Branch { pus, outer, first, below: Vec::new(), direct: Vec::new() };
    let mut branches = vec![branch(count, 0, 0)];
    // The smallest set so far around each PU: all sets so far are at least as large as the next one, so one whose PUs
    // have the same smallest set lies inside of it.
    let mut around = vec![0; count];
    let mut order: Vec<usize> = (0..sets.len()).collect();
    order.sort_by_key(|&set| Reverse(sets[set].0.len()));
    let mut branch_of = vec![0; sets.len()];
    let mut crosses = vec![false; sets.len()];
    for set in order {
        let (pus, first) = &sets[set];
        let Some(&any) = pus.first() else { continue };
        let outer = around[any];
        if pus.iter().any(|&pu| around[pu] != outer) {
            crosses[set] = true;
        } else if branches[outer].pus == pus.len() {
            branches[outer].first = branches[outer].first.min(*first);
            branch_of[set] = outer;
        } else {
            let inner = branches.len();
            branches.push(branch(pus.len(), outer, *first));
            branches[outer].below.push(inner);
            pus.iter().for_each(|&pu| around[pu] = inner);
            branch_of[set] = inner;
        }
    }
    for (pu, &smallest) in around.iter().enumerate() {
        branches[smallest].direct.push(pu);
    }
    // Depth first, without recursion: a damaged tree may be as deep as there are PUs.
    enum Step {
        Enter(usize),
        Pu(usize),
        Leave(usize),
    }
    let (mut steps, mut left, mut place_of, mut places) =
        (vec![Step::Enter(0)], vec![0; branches.len()], vec![0; count], 0);
    let mut leaves = 0;
    while let Some(step) = steps.pop() {
        match step {
            Step::Enter(at) => {
                steps.push(Step::Leave(at));
                let below = branches[at].below.iter().map(|&inner| (branches[inner].first, Step::Enter(inner)));
                let direct = branches[at].direct.iter().map(|&pu| (numbers[pu], Step::Pu(pu)));
                let mut inside: Vec<(u32, Step)> = below.chain(direct).collect();
                inside.sort_by_key(|&(first, _)| Reverse(first));
                steps.extend(inside.into_iter().map(|(_, step)| step));
            }
            Step::Pu(pu) => {
                place_of[pu] = places;
                places += 1;
            }
            Step::Leave(at) => {
                left[at] = leaves;
                leaves += 1;
            }
        }
    }
    let left_at = branch_of.into_iter().map(|branch| left[branch]).collect();
    let branches = branches.into_iter().map(|branch| (branch.pus, branch.outer)).collect();
    Nested { left_at, place_of, crosses, branches, around }
}

impl Shape {
    /// The machine. Contradictions between parts are warned of, and the smaller part is left out.
    ///
    /// # Errors
    /// It has no PU or no node, or may use no PU.
    pub(super) fn into_topology(
        self,
        usable: impl Fn(u32) -> bool,
        warnings: &mut dyn FnMut(String),
    ) -> Result<Topology, String> {
        let Shape { name, pus, parts, cores, caches, mut nodes, distances, kinds, devices, tells_all } = self;
        let numbers: Vec<u32> = pus.numbers().collect();
        if numbers.is_empty() || nodes.is_empty() {
            return Err("it has no processing unit or no NUMA node".to_owned());
        }
        let index_of: HashMap<u32, usize> =
            numbers.iter().enumerate().map(|(index, &number)| (number, index)).collect();
        let indices =
            |set: &Set| -> Vec<usize> { set.numbers().filter_map(|number| index_of.get(&number).copied()).collect() };
        let all = parts.iter().chain(cores.iter().map(|(part, _)| part));
        let all = all.chain(caches.iter().map(|cache| &cache.part)).chain(nodes.iter().map(|node| &node.near));
        let sets: Vec<(Vec<usize>, u32)> = all.map(|part| (indices(&part.pus), part.first)).collect();
        let (first_core, first_cache) = (parts.len(), parts.len() + cores.len());
        let first_node = first_cache + caches.len();
        // A cache with the wrong PUs would take the place of right ones inside of it: cores and nodes come first.
        let trusted = [&sets[..first_cache], &sets[first_node..]].concat();
        let trusted = nest(numbers.len(), &trusted, &numbers);
        let is_wrong = |set: usize| (first_cache..first_node).contains(&set) && trusted.crosses_a_branch(&sets[set].0);
        let wrong: Vec<bool> = (0..sets.len()).map(is_wrong).collect();
        let mut nested = sets.clone();
        nested.iter_mut().zip(&wrong).filter(|(_, wrong)| **wrong).for_each(|((pus, _), _)| pus.clear());
        let nested = nest(numbers.len(), &nested, &numbers);
        let placed = |set: &[usize]| -> Vec<PuId> {
            let mut places: Vec<usize> = set.iter().map(|&pu| nested.place_of[pu]).collect();
            places.sort_unstable();
            places.into_iter().map(PuId::new).collect()
        };

        // PUs in their order, with a core each; those of no core are one by themselves.
        let mut ordered = vec![0; numbers.len()];
        nested.place_of.iter().zip(&numbers).for_each(|(&place, &number)| ordered[place] = number);
        let mut found: Vec<(Vec<PuId>, Option<u32>)> = Vec::new();
        let mut has_core = vec![false; ordered.len()];
        for (set, (_, os_index)) in sets[first_core..first_cache].iter().zip(&cores) {
            let pus = placed(&set.0);
            if !pus.is_empty() && pus.iter().all(|pu| !has_core[pu.index()]) {
                pus.iter().for_each(|pu| has_core[pu.index()] = true);
                found.push((pus, *os_index));
            }
        }
        let alone = (0..ordered.len()).filter(|&pu| !has_core[pu]);
        found.extend(alone.map(|pu| (vec![PuId::new(pu)], cores.is_empty().then_some(ordered[pu]))));
        found.sort_by_key(|(pus, _)| pus[0]);
        let kind = |pu: PuId| {
            let number = ordered[pu.index()];
            kinds.iter().find(|(set, _)| set.contains(number)).map_or(0, |&(_, kind)| kind)
        };
        let core = |(index, (pus, os_index)): (usize, (Vec<PuId>, Option<u32>))| {
            let kind = kind(pus[0]);
            Core { id: CoreId::new(index), os_index: os_index.unwrap_or(index as u32), pus, kind }
        };
        let cores: Vec<Core> = found.into_iter().enumerate().map(core).collect();

        // Nodes in the order of the parts around them; those with PUs before memory alone.
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        let root = nested.left_at.iter().copied().max().unwrap_or(0) + numbers.len();
        order.sort_by_key(|&node| {
            let set = first_node + node;
            let is_placed = !sets[set].0.is_empty() && !nested.crosses[set];
            let left_at = if is_placed { nested.left_at[set] } else { root };
            (left_at, nodes[node].own.is_empty(), nodes[node].os_index)
        });
        let mut node_of: HashMap<u32, NodeId> = HashMap::new();
        let mut kept: Vec<Node> = Vec::new();
        let mut owners: Vec<(Vec<PuId>, bool)> = Vec::new();
        for &node in &order {
            let FoundNode { os_index, bytes, ref own, is_special, tier, .. } = nodes[node];
            let id = NodeId::new(kept.len());
            node_of.insert(os_index, id);
            owners.push((placed(&indices(own)), is_special));
            kept.push(Node { id, os_index, bytes, pus: Vec::new(), speed: None, tier });
        }
        for &node in &order {
            let id = node_of[&nodes[node].os_index];
            let Some(FoundSpeed { near, values: [read_mb_s, write_mb_s, read_ns, write_ns] }) =
                nodes[node].speed.take()
            else {
                continue;
            };
            let near = near.iter().filter_map(|number| node_of.get(number).copied()).collect();
            kept[id.index()].speed = Some(MemorySpeed { near, read_mb_s, write_mb_s, read_ns, write_ns });
        }

        let mut owner = vec![0; ordered.len()];
        let mut best = vec![(true, usize::MAX); ordered.len()];
        for (node, (pus, is_special)) in owners.iter().enumerate() {
            for pu in pus {
                // Fast or large extra memory is used on request, not by default; of the other nodes, the one with the
                // fewest PUs is the closest, and the first of equals.
                let rank = (*is_special, pus.len());
                if rank < best[pu.index()] {
                    (best[pu.index()], owner[pu.index()]) = (rank, node);
                }
            }
        }
        let pu = |(index, &os_index): (usize, &u32)| Pu {
            id: PuId::new(index),
            os_index,
            core: CoreId::new(0),
            group: GroupId::new(0),
            node: NodeId::new(owner[index]),
            usable: usable(os_index),
        };
        let mut pus: Vec<Pu> = ordered.iter().enumerate().map(pu).collect();
        cores.iter().for_each(|core| core.pus.iter().for_each(|pu| pus[pu.index()].core = core.id));
        pus.iter().for_each(|pu| kept[pu.node.index()].pus.push(pu.id));
        if !pus.iter().any(|pu| pu.usable) {
            return Err("it allows none of its processing units".to_owned());
        }

        let mut shared: Vec<(u8, Vec<PuId>, u64)> = Vec::new();
        let mut left_out: Vec<&FoundCache> = Vec::new();
        for (at, cache) in caches.iter().enumerate() {
            let set = first_cache + at;
            if nested.crosses[set] || wrong[set] {
                left_out.push(cache);
            } else if !sets[set].0.is_empty() {
                shared.push((cache.level, placed(&sets[set].0), cache.bytes));
            }
        }
        if let Some((first, others)) = left_out.split_first() {
            let others = match others.len() {
                0 => String::new(),
                1 => ", and so is another one".to_owned(),
                count => format!(", and so are {count} others"),
            };
            warnings(format!(
                "{}: its PUs are neither inside of another part of the machine nor around it: this level {} cache is \
                 left out{others}",
                first.from, first.level
            ));
        }
        shared.sort_by(|a, b| (a.0, a.1[0], Reverse(a.1.len())).cmp(&(b.0, b.1[0], Reverse(b.1.len()))));
        shared.dedup_by(|a, b| (a.0, &a.1) == (b.0, &b.1));
        let cache = |(index, (level, pus, bytes))| Cache { id: CacheId::new(index), level, bytes, pus };
        let caches = shared.into_iter().enumerate().map(cache).collect();

        let count = kept.len();
        let mut matrix: Vec<Vec<u32>> =
            (0..count).map(|i| (0..count).map(|j| if i == j { NEAR } else { FAR }).collect()).collect();
        if let Some((numbers, values)) = distances {
            let known: Vec<Option<NodeId>> = numbers.iter().map(|number| node_of.get(number).copied()).collect();
            for (row, from) in values.chunks(numbers.len().max(1)).zip(&known) {
                for (&value, to) in row.iter().zip(&known) {
                    if let (Some(from), Some(to)) = (from, to) {
                        matrix[from.index()][to.index()] = u32::try_from(value).unwrap_or(u32::MAX);
                    }
                }
            }
        }
        let device = |device: FoundDevice| {
            let FoundDevice { address, kind, names, node } = device;
            Device { address, kind, names, node: node.and_then(|number| node_of.get(&number).copied()) }
        };
        let mut machine = Topology {
            name,
            pus,
            cores,
            caches,
            core_groups: Vec::new(),
            nodes: kept,
            distances: matrix,
            cpu_quota_millis: None,
            devices: devices.into_iter().map(device).collect(),
        };
        if tells_all || !machine.caches.is_empty() {
            machine.find_core_groups();
        } else {
            machine.group_by_nodes();
        }
        machine.assert_valid();
        Ok(machine)
    }
}
