//! The shape of a machine as plain data: PUs, cores, caches, core groups, nodes, distances.
//!
//! This crate asks the operating system nothing. A [`Topology`] is found by `vicus-os`, read from a file, or
//! written in one line ([`Topology::parse`]); all other parts of Vicus work on this data.
//!
//! ```
//! use vicus_topology::Topology;
//!
//! // Two NUMA nodes of two L3 caches of two cores of two hardware threads.
//! let machine = Topology::parse("node:2 l3:2 core:2 pu:2").unwrap();
//! assert_eq!(machine.pus.len(), 16);
//! assert_eq!(machine.core_groups.len(), 4);
//! assert_eq!(machine.cache_distance(machine.pus[0].id, machine.pus[2].id), Some(3));
//! ```
//!
//! # Where
//!
//! All of Vicus names places by these words; each has an id of its own type.
//!
//! | word | type | what it is |
//! |---|---|---|
//! | PU | [`PuId`] | A hardware thread. Threads run there; users say no more than how many. |
//! | core group | [`GroupId`] | PUs of one node that share a cache, mostly the last-level one. |
//! | node | [`NodeId`] | A NUMA node: memory, and mostly the PUs near to it. |
//! | place | [`Place`] | A node or a core group. **Users say places**, to tasks and to every container. |
//! | location | [`LocationId`] | The index of one of those over which something is laid out: the nodes with memory, the subqueues of a queue, the queues that tasks are dealt to. Arrangements, distributions by number (`on:2`) and plans say locations. |
//! | home | a number, with a node | Which of the core groups that share the node's memory some data belong to: that number modulo how many there are. |
//!
//! A container finds the nearest of its own locations for a place:
//!
//! | container | a node means | a core group means |
//! |---|---|---|
//! | memory: pools, arrays, copies, segments of queues | itself, or the nearest node with memory that may be used | its node |
//! | a queue with a location for each node | itself | its node |
//! | a queue with a location for each core group | its first group; without cores, the first one of the nearest node that has some | itself |
//! | a queue over distances of one's own | the row with its index | nothing: there is none |
//! | work to be done near its data | itself | its node |
//! | a task | the queues of the nearest seats | its own queue, if the strategy has one, or its node |
//!
//! A function that reports the place of memory gives a [`NodeId`]: no more can be known of memory. A container panics,
//! or gives an error, with [`NoSuchPlace`] for a missing place. [`Topology::place_distance`] gives the distance of two
//! places.
//!
//! Further names of places: the node of a device ([`Topology::near_device`]), and the memory with the highest bandwidth
//! or the lowest latency for a place ([`Topology::highest_bandwidth`], [`Topology::lowest_latency`]).

mod device;
mod distance;
#[cfg(any(test, feature = "fixtures"))]
mod fixtures;
mod ids;
pub mod names;
mod notation;
mod place;
mod seats;
mod speed;

pub use device::{Device, DeviceKind, NoSuchDevice};
#[cfg(any(test, feature = "fixtures"))]
pub use fixtures::fixtures;
pub use ids::{CacheId, CoreId, GroupId, LocationId, NodeId, PuId};
pub use notation::NotationError;
pub use place::{ByPlace, DealReason, NoSuchPlace, Place};
pub use seats::threads_within;
pub use speed::MemorySpeed;

use serde::{Deserialize, Serialize};

/// A machine, or the part of one usable by this process, as plain data.
///
/// All ids are dense indices into the vectors beside them; `os_index` is the operating system's number.
/// `vicus topology --format json` prints the JSON form of this type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// The origin of the description: a host name, a file, a synthetic description.
    pub name: String,
    /// The online hardware threads, in the order of the hierarchy. Invariant: `pus[i].id == i`, never empty.
    pub pus: Vec<Pu>,
    /// Physical cores. Invariant: every PU is in exactly one core.
    pub cores: Vec<Core>,
    /// Data and unified caches, the lowest level first. Instruction caches are left out: they hold no data.
    pub caches: Vec<Cache>,
    /// Falt et al. §4.1: PUs with at least one common cache level and a common node. Invariant: a partition of the PUs.
    pub core_groups: Vec<CoreGroup>,
    /// NUMA nodes, including those without PUs. Invariant: never empty; nodes with PUs partition the PUs.
    pub nodes: Vec<Node>,
    /// The operating system's distance from node `i` to node `j` (10 is local on most machines).
    /// Invariant: square, one row and column for each node.
    pub distances: Vec<Vec<u32>>,
    /// How many CPUs' worth of time the process may use (a cgroup quota), in thousandths; `None` is unlimited.
    pub cpu_quota_millis: Option<u32>,
    /// Devices with a place: GPUs, network adapters, disks. Empty if none is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
}

/// A hardware thread, the operating system's unit of scheduling (the papers' "logical core").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pu {
    /// Index into [`Topology::pus`].
    pub id: PuId,
    /// The operating system's number.
    pub os_index: u32,
    /// The core it is part of.
    pub core: CoreId,
    /// The core group it is part of.
    pub group: GroupId,
    /// The NUMA node of its local memory.
    pub node: NodeId,
    /// Whether this process may run on it (affinity mask and cpuset).
    pub usable: bool,
}

/// A physical core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Core {
    /// Index into [`Topology::cores`].
    pub id: CoreId,
    /// The operating system's number, unique only within a package on some machines.
    pub os_index: u32,
    /// Its hardware threads.
    pub pus: Vec<PuId>,
    /// The kind of core on a hybrid machine: 0 is the least efficient kind or the only one; higher is faster.
    pub kind: u32,
}

/// A data or unified cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// Index into [`Topology::caches`].
    pub id: CacheId,
    /// 1 for L1, and so on.
    pub level: u8,
    /// Capacity in bytes; 0 if unknown.
    pub bytes: u64,
    /// The PUs that share it.
    pub pus: Vec<PuId>,
}

/// PUs with at least one common cache level and a common node (Falt et al. §4.1); one thread pool each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreGroup {
    /// Index into [`Topology::core_groups`].
    pub id: GroupId,
    /// The local node of all its PUs.
    pub node: NodeId,
    /// Its PUs.
    pub pus: Vec<PuId>,
}

/// A NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Index into [`Topology::nodes`].
    pub id: NodeId,
    /// The operating system's number; sparse on some machines.
    pub os_index: u32,
    /// Bytes of memory; 0 if it has none, or if the sizes of all nodes are unknown. See
    /// [`Topology::has_memory`].
    pub bytes: u64,
    /// The PUs with this as their local memory; empty for a node without PUs.
    pub pus: Vec<PuId>,
    /// How fast its memory is for the PUs near to it; `None` if the firmware doesn't say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<MemorySpeed>,
    /// The number of its memory tier in Linux: nodes of a lower number are faster. `None` if there are no tiers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<u32>,
}

impl Topology {
    /// Panics with the broken fact if an invariant of the fields does not hold.
    pub fn assert_valid(&self) {
        if let Err(fact) = self.check() {
            panic!("{fact}");
        }
    }

    /// Checks the invariants of the fields. Any value may be asked, such as one from a foreign file.
    ///
    /// # Errors
    /// The fact that does not hold, in words.
    pub fn check(&self) -> Result<(), String> {
        let name = &self.name;
        let hold = |is: bool, fact: &dyn Fn() -> String| if is { Ok(()) } else { Err(fact()) };
        hold(!self.pus.is_empty(), &|| format!("{name}: a machine has at least one PU"))?;
        hold(!self.nodes.is_empty(), &|| format!("{name}: a machine has at least one node"))?;
        let partition = |what: &str, parts: &mut dyn Iterator<Item = &[PuId]>| {
            let mut seen = vec![0_usize; self.pus.len()];
            for pu in parts.flatten() {
                let times = seen.get_mut(pu.index());
                *times.ok_or_else(|| format!("{name}: {what} have a PU that the machine lacks: {pu:?}"))? += 1;
            }
            let wrong = seen.iter().position(|&times| times != 1);
            hold(wrong.is_none(), &|| {
                format!("{name}: {what} partition the PUs; this PU index is not in exactly one: {wrong:?}")
            })
        };
        partition("cores", &mut self.cores.iter().map(|core| &core.pus[..]))?;
        partition("core groups", &mut self.core_groups.iter().map(|group| &group.pus[..]))?;
        partition("nodes", &mut self.nodes.iter().map(|node| &node.pus[..]))?;
        hold(self.cores.iter().all(|core| !core.pus.is_empty()), &|| format!("{name}: a core has a PU"))?;
        let mut shared = self.caches.iter().flat_map(|cache| &cache.pus);
        hold(shared.all(|pu| pu.index() < self.pus.len()), &|| format!("{name}: PUs of caches exist"))?;
        for (index, pu) in self.pus.iter().enumerate() {
            hold(pu.id.index() == index, &|| format!("{name}: PU ids are indices"))?;
            let core = self.cores.get(pu.core.index()).is_some_and(|core| core.pus.contains(&pu.id));
            hold(core, &|| format!("{name}: {:?} is in its core", pu.id))?;
            let group = self.core_groups.get(pu.group.index()).filter(|group| group.pus.contains(&pu.id));
            hold(group.is_some(), &|| format!("{name}: {:?} is in its group", pu.id))?;
            let node = self.nodes.get(pu.node.index()).is_some_and(|node| node.pus.contains(&pu.id));
            hold(node, &|| format!("{name}: {:?} is in its node", pu.id))?;
            let in_node = group.is_some_and(|group| group.node == pu.node);
            hold(in_node, &|| format!("{name}: a core group lies in one node"))?;
        }
        let is_index = |(at, id): (usize, usize)| at == id;
        let ids: [(&str, bool); 4] = [
            ("core", self.cores.iter().map(|core| core.id.index()).enumerate().all(is_index)),
            ("cache", self.caches.iter().map(|cache| cache.id.index()).enumerate().all(is_index)),
            ("group", self.core_groups.iter().map(|group| group.id.index()).enumerate().all(is_index)),
            ("node", self.nodes.iter().map(|node| node.id.index()).enumerate().all(is_index)),
        ];
        for (what, is) in ids {
            hold(is, &|| format!("{name}: {what} ids are indices"))?;
        }
        let count = self.nodes.len();
        hold(self.distances.len() == count, &|| format!("{name}: a distance row for each node"))?;
        hold(self.distances.iter().all(|row| row.len() == count), &|| format!("{name}: square distances"))?;
        hold(self.pus.iter().any(|pu| pu.usable), &|| format!("{name}: at least one PU is usable"))?;
        let mut named = self.devices.iter().filter_map(|device| device.node);
        let mut near = self.nodes.iter().filter_map(|node| node.speed.as_ref()).flat_map(|speed| &speed.near);
        let is_known = |node: NodeId| node.index() < count;
        let are_known = named.all(is_known) && near.all(|&node| is_known(node));
        hold(are_known, &|| format!("{name}: nodes of devices exist"))
    }

    /// The PUs this process may run on, in the order of the hierarchy.
    pub fn usable_pus(&self) -> impl Iterator<Item = &Pu> {
        self.pus.iter().filter(|pu| pu.usable)
    }

    /// Whether a node has memory. If the sizes of all nodes are unknown, each is taken to have some.
    ///
    /// ```
    /// let mut machine = vicus_topology::Topology::parse("node:2 core:2").unwrap();
    /// machine.nodes[1].bytes = 0; // two CPUs whose memory slots are empty
    /// assert!(!machine.has_memory(machine.nodes[1].id));
    /// machine.nodes[0].bytes = 0;
    /// assert!(machine.has_memory(machine.nodes[1].id));
    /// ```
    pub fn has_memory(&self, node: NodeId) -> bool {
        self.nodes[node.index()].bytes > 0 || self.nodes.iter().all(|node| node.bytes == 0)
    }

    /// Fills in [`Topology::core_groups`] and each PU's `group` from the caches and nodes: the connected components of
    /// "shares a cache and a node". A PU without a shared cache is a group of its own.
    pub fn find_core_groups(&mut self) {
        // A smaller PU of the same group for each PU, or the PU itself as the group's leader.
        let mut leader: Vec<usize> = (0..self.pus.len()).collect();
        fn root(leader: &[usize], mut pu: usize) -> usize {
            while leader[pu] != pu {
                pu = leader[pu];
            }
            pu
        }
        let cores = self.cores.iter().map(|core| &core.pus);
        for sharers in self.caches.iter().map(|cache| &cache.pus).chain(cores) {
            for (i, a) in sharers.iter().enumerate() {
                for b in &sharers[i + 1..] {
                    if self.pus[a.index()].node == self.pus[b.index()].node {
                        let (a, b) = (root(&leader, a.index()), root(&leader, b.index()));
                        leader[a.max(b)] = a.min(b);
                    }
                }
            }
        }
        self.core_groups.clear();
        for pu in 0..self.pus.len() {
            let first = root(&leader, pu);
            if first == pu {
                let id = GroupId::new(self.core_groups.len());
                self.core_groups.push(CoreGroup { id, node: self.pus[pu].node, pus: Vec::new() });
                self.pus[pu].group = id;
            }
            let group = self.pus[first].group;
            self.pus[pu].group = group;
            self.core_groups[group.index()].pus.push(PuId::new(pu));
        }
    }

    /// Fills in [`Topology::core_groups`] and each PU's `group` where no caches are known: the PUs of each node are one
    /// group, because most processors share a cache.
    pub fn group_by_nodes(&mut self) {
        let mut nodes: Vec<(NodeId, &Vec<PuId>)> = self.nodes.iter().map(|node| (node.id, &node.pus)).collect();
        nodes.retain(|(_, pus)| !pus.is_empty());
        // As all groups, in the order of their first PUs.
        nodes.sort_by_key(|(_, pus)| pus[0]);
        let numbered = nodes.into_iter().enumerate();
        self.core_groups =
            numbered.map(|(id, (node, pus))| CoreGroup { id: GroupId::new(id), node, pus: pus.clone() }).collect();
        for group in &self.core_groups {
            group.pus.iter().for_each(|pu| self.pus[pu.index()].group = group.id);
        }
    }

    /// The machine as JSON, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data with string keys always serialises")
    }

    /// Reads the text written by [`Topology::to_json`].
    ///
    /// # Errors
    /// The text is not JSON of this shape; the message has line and column.
    pub fn from_json(text: &str) -> Result<Topology, serde_json::Error> {
        serde_json::from_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_pus_that_share_a_cache_and_a_node() {
        // Falt et al. §6.1.2: two sockets of four cores, an L2 for each pair: four thread pools.
        let smp = Topology::parse("node:1 package:2 l2:2 core:2").unwrap();
        assert_eq!(smp.core_groups.len(), 4);
        // Their NUMA server: four nodes of eight cores of two threads, one L3 each: four thread pools.
        let numa = Topology::parse("node:4 l3:1 core:8 pu:2").unwrap();
        assert_eq!(numa.core_groups.len(), 4);
        assert!(numa.core_groups.iter().all(|group| group.pus.len() == 16));
    }

    #[test]
    fn a_pu_that_shares_nothing_is_a_group_of_its_own() {
        let machine = Topology::parse("node:1 core:3").unwrap();
        assert_eq!(machine.core_groups.len(), 3);
    }

    #[test]
    fn pus_of_a_node_without_known_caches_are_a_group() {
        let mut machine = Topology::parse("node:2 core:3").unwrap();
        assert_eq!(machine.core_groups.len(), 6);
        machine.group_by_nodes();
        machine.assert_valid();
        let groups: Vec<_> = machine.core_groups.iter().map(|group| (group.node, group.pus.len())).collect();
        assert_eq!(groups, [(machine.nodes[0].id, 3), (machine.nodes[1].id, 3)]);
    }

    #[test]
    fn json_reads_back_as_it_was() {
        let machine = Topology::parse("node:2 l3:2 core:2 pu:2").unwrap();
        assert_eq!(Topology::from_json(&machine.to_json()).unwrap(), machine);
    }
}
