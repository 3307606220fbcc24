//! A machine and the costs of its operations: a topology, and numbers from a file, each with its source.
//!
//! The files lie in `machines/`. They give the source of each number; a mistake in one is an error with its line.

mod file;
mod links;
mod queueing;

pub use file::MachineError;
pub(crate) use file::{Decades, shown};
pub use links::Link;
pub use queueing::Queueing;

use crate::Parameters;
pub(crate) use links::Links;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use vicus_schedule::{Access, Latencies, Plan, Setting};
use vicus_topology::{NodeId, PuId, Topology};

/// A simulated machine. Times are in nanoseconds, bandwidths in bytes per second.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Its name for users.
    pub name: String,
    /// A description for people.
    pub title: String,
    /// Its topology.
    pub topology: Topology,
    /// Cycles in a nanosecond.
    pub clock_ghz: f64,
    /// A core's operations in a cycle.
    pub flops_per_cycle: f64,
    /// Operations in a cycle for kinds of work with known speed, by name.
    pub leaves: BTreeMap<String, f64>,
    /// The bandwidth of a core from its own node's memory during such a kind of work, if it is known: it depends on the
    /// instructions between two lines, which limit the lines a core fetches at once. For other kinds it is the
    /// bandwidth of streams, and [`Parameters::overlap`]. Empty if there are home caches: then a core waits for one
    /// line at a time.
    pub leaf_bandwidths: BTreeMap<String, f64>,
    /// The work of all hardware threads of a core together, divided by the work of a single one alone.
    pub smt_speedup: f64,
    /// The costs of each level of cache, the lowest first.
    pub caches: Vec<CacheCosts>,
    /// The costs of memory.
    pub memory: MemoryCosts,
    /// The memory traffic of this number of neighbouring PUs shares a bus of this bandwidth.
    pub bus: Option<(usize, f64)>,
    /// The links between nodes. Invariant: every node reaches every other.
    pub(crate) links: Links,
    /// How much longer a line takes over a link, by the link's load.
    pub link_queueing: Queueing,
    /// The bytes of a message without data on a link, if each line from memory asks the caches of all other nodes for a
    /// newer copy. They answer the line's node. `None` if a directory knows the caches to ask.
    pub probe_bytes: Option<f64>,
    /// Set if each core group has a port to the rest of the machine.
    pub port: Option<Port>,
    /// Set if data lies in home caches and not on nodes.
    pub homes: Option<HomeCosts>,
    /// The results of STREAM copy on it.
    pub stream: Option<Stream>,
    /// The model's free parameters: the same for all machines except those they were measured on.
    pub parameters: Parameters,
}

/// A level of cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheCosts {
    /// 1 for L1, and so on.
    pub level: u8,
    /// How long a core waits for a line in it.
    pub latency_ns: f64,
    /// The bandwidth of one core's reads from it.
    pub bandwidth: f64,
    /// The bandwidth of all its cores together; for a home cache, its bandwidth for all cores of the machine.
    pub shared_bandwidth: Option<f64>,
    /// Whether stores go to the next level at once, and compare-and-swap happens there, too. Only
    /// [`papers`](crate::papers)' threads on cache lines ask for it; pieces of work write so much that the next level
    /// counts anyway.
    pub write_through: bool,
}

/// Memory.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryCosts {
    /// How long a core waits for a line from its own node.
    pub latency_ns: f64,
    /// Latencies of other nodes' memory, by the value in the topology's matrix.
    pub latency_by_distance: Vec<(u32, f64)>,
    /// The bandwidth of one core's reads from its own node. From other nodes it is lower in proportion to the latency,
    /// because a core fetches a limited number of lines at once.
    pub core_bandwidth: f64,
    /// The bandwidth of a single stream, or of stretches shorter than a page: prefetching ends at each page.
    pub stream_bandwidth: f64,
    /// The bandwidth of one node's memory, for reads and writes together; if writes cost more, for reads.
    pub controller_bandwidth: f64,
    /// Bandwidths of nodes with another kind of memory.
    pub other_controllers: Vec<(NodeId, f64)>,
    /// How many bytes read take as long as one byte written: channels need time to turn round.
    pub write_cost: f64,
    /// How long a write takes to a page still to be given and zeroed by the system; `None` if this is unknown: then
    /// only pages of heaps cost something.
    pub fault_ns: Option<f64>,
    /// How much longer a line takes, by the load of its node's memory.
    pub queueing: Queueing,
    /// The unit of memory placed on nodes: a power of two.
    pub page_bytes: usize,
    /// The unit fetched by caches: a power of two.
    pub line_bytes: usize,
}

/// The port of a core group: all of its bytes from and to memory go through it. In bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Port {
    /// From memory.
    pub read: f64,
    /// To memory.
    pub write: f64,
}

/// A manycore processor with tiles as owners of lines: each line has a home cache, the last-level cache of a tile, and
/// this cache serves the misses of all cores. A core waits for one line at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct HomeCosts {
    /// The number of tiles in a row of the mesh.
    pub columns: usize,
    /// The bytes brought into the private cache by a miss.
    pub fetch_bytes: usize,
    /// How long a core waits for a line, by the number of hops to its home.
    pub latency_by_hops_ns: Vec<f64>,
    /// The capacity of a link from a tile to a neighbour, in bytes per second; `None` if links are not a limit.
    pub mesh_bandwidth: Option<f64>,
}

impl HomeCosts {
    /// The links of a tile: to the right, to the left, down and up.
    pub(crate) const LINKS: usize = 4;

    /// The links from one tile to another, each as `LINKS` times the tile it leaves plus its direction: first along the
    /// row, then along the column, like the routing of the Tile Processor's mesh.
    pub(crate) fn way(&self, from: usize, to: usize) -> impl Iterator<Item = usize> + use<> {
        let columns = self.columns;
        let mut at = from;
        std::iter::from_fn(move || {
            let (here, there) = ((at / columns, at % columns), (to / columns, to % columns));
            let (direction, next) = match (here.1.cmp(&there.1), here.0.cmp(&there.0)) {
                (Ordering::Less, _) => (0, at + 1),
                (Ordering::Greater, _) => (1, at - 1),
                (_, Ordering::Less) => (2, at + columns),
                (_, Ordering::Greater) => (3, at - columns),
                _ => return None,
            };
            let link = Self::LINKS * at + direction;
            at = next;
            Some(link)
        })
    }
}

/// Results of STREAM copy, in bytes per second: each element counts as read once and written once, regardless of other
/// traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stream {
    /// All cores of one node.
    pub socket: f64,
    /// All cores.
    pub system: f64,
    /// Whether its stores go past the caches.
    pub streaming_stores: bool,
}

macro_rules! machines {
    ($($name:literal),* $(,)?) => {
        /// The machines of this crate: their names and their files' texts.
        const FILES: &[(&str, &str)] = &[$(($name, include_str!(concat!("../machines/", $name, ".toml")))),*];
    };
}

machines!(
    "opteron-6172",
    "tilepro64",
    "istanbul",
    "nehalem-ep",
    "nehalem-ex",
    "xeon-e5310",
    "xeon-e7-4820",
    "core-i7-860",
    "core-i7-2600",
    "epyc-7763",
    "xeon-6252n",
    "xeon-8360y",
    "xeon-8468",
    "epyc-7742",
    "epyc-7742-nps4",
    "epyc-9224-cxl",
    "kunpeng-920",
    "graviton2",
    "graviton4",
    "altix-3700",
    "niagara-2",
    "xeon-5150",
);

impl Machine {
    /// The names of the machines of this crate.
    ///
    /// ```
    /// use vicus_sim::Machine;
    /// for name in Machine::names() {
    ///     let machine = Machine::by_name(name).unwrap();
    ///     assert_eq!(machine.name, name);
    /// }
    /// ```
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }

    /// The machine of this name, if one comes with the crate.
    pub fn by_name(name: &str) -> Option<Machine> {
        let (name, text) = FILES.iter().find(|(other, _)| *other == name)?;
        Some(Machine::parse(&format!("{name}.toml"), text).unwrap_or_else(|error| panic!("{error}")))
    }

    /// A topology with the costs of a current server: 3 GHz, 4 operations in a cycle, 90 ns and 12 GB/s for a core to
    /// its own node's memory, slower to others' as the distance matrix says; 2.5 GB/s of memory for each core but at
    /// least 20 GB/s, and half as much between any two nodes.
    pub fn from_topology(topology: Topology) -> Machine {
        let memory_latency_ns = 90.0;
        let cores =
            topology.cores.len() as f64 / topology.nodes.iter().filter(|node| !node.pus.is_empty()).count() as f64;
        let controller_bandwidth = (2.5e9 * cores).max(20e9);
        let mut levels: Vec<u8> = topology.caches.iter().map(|cache| cache.level).collect();
        levels.sort_unstable();
        levels.dedup();
        let costs = |level: u8| match level {
            1 => CacheCosts { level, latency_ns: 1.3, bandwidth: 100e9, shared_bandwidth: None, write_through: false },
            2 => CacheCosts { level, latency_ns: 4.5, bandwidth: 50e9, shared_bandwidth: None, write_through: false },
            _ => CacheCosts { level, latency_ns: 17.0, bandwidth: 25e9, shared_bandwidth: None, write_through: false },
        };
        let nodes = topology.nodes.len();
        let local = |node: usize| f64::from(topology.distances[node][node].max(1));
        let mut latency_by_distance = Vec::new();
        for (from, to) in
            (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))).filter(|(from, to)| from != to)
        {
            let value = topology.distances[from][to];
            if !latency_by_distance.iter().any(|&(other, _)| other == value) {
                latency_by_distance.push((value, memory_latency_ns * (f64::from(value) / local(from)).max(1.0)));
            }
        }
        Machine {
            name: topology.name.clone(),
            title: topology.name.clone(),
            clock_ghz: 3.0,
            flops_per_cycle: 4.0,
            leaves: BTreeMap::new(),
            leaf_bandwidths: BTreeMap::new(),
            smt_speedup: 1.25,
            caches: levels.into_iter().map(costs).collect(),
            memory: MemoryCosts {
                latency_ns: memory_latency_ns,
                latency_by_distance,
                core_bandwidth: 12e9,
                stream_bandwidth: 12e9,
                controller_bandwidth,
                other_controllers: Vec::new(),
                write_cost: 1.0,
                fault_ns: None,
                queueing: Queueing::of_dram(),
                page_bytes: 4096,
                line_bytes: 64,
            },
            bus: None,
            links: Links::full(nodes, controller_bandwidth / 2.0),
            link_queueing: Queueing::NONE,
            probe_bytes: None,
            port: None,
            homes: None,
            stream: None,
            parameters: Parameters::default(),
            topology,
        }
    }

    /// The bandwidths often estimated in files.
    pub const BANDWIDTHS: [&'static str; 4] =
        ["core_bandwidth", "controller_bandwidth", "link_bandwidth", "home_bandwidth"];

    /// The machine with one of [`Machine::BANDWIDTHS`] scaled by a factor; buses, ports and meshes count as links.
    /// `None` if it has no such bandwidth.
    ///
    /// ```
    /// let machine = vicus_sim::Machine::by_name("opteron-6172").unwrap();
    /// let slower = machine.scaled("controller_bandwidth", 0.75).unwrap();
    /// assert_eq!(slower.memory.controller_bandwidth, 0.75 * machine.memory.controller_bandwidth);
    /// assert!(machine.scaled("home_bandwidth", 0.75).is_none());
    /// ```
    pub fn scaled(&self, name: &str, factor: f64) -> Option<Machine> {
        let mut machine = self.clone();
        let has = match name {
            "core_bandwidth" => {
                machine.memory.core_bandwidth *= factor;
                machine.memory.stream_bandwidth *= factor;
                machine.leaf_bandwidths.values_mut().for_each(|bandwidth| *bandwidth *= factor);
                // A core with one miss at a time has latencies and no bandwidth.
                self.homes.is_none()
            }
            "controller_bandwidth" => {
                machine.memory.controller_bandwidth *= factor;
                machine.memory.other_controllers.iter_mut().for_each(|other| other.1 *= factor);
                true
            }
            "link_bandwidth" => {
                machine.links.links.iter_mut().for_each(|link| link.bandwidth *= factor);
                machine.bus.iter_mut().for_each(|bus| bus.1 *= factor);
                machine
                    .port
                    .iter_mut()
                    .for_each(|port| (port.read, port.write) = (port.read * factor, port.write * factor));
                let mesh = machine.homes.as_mut().and_then(|homes| homes.mesh_bandwidth.as_mut());
                let has_mesh = mesh.map(|bandwidth| *bandwidth *= factor).is_some();
                has_mesh || self.port.is_some() || self.bus.is_some() || !self.links.links.is_empty()
            }
            "home_bandwidth" => {
                let homes = machine.caches.iter_mut().filter(|cache| cache.level == 2);
                homes.filter_map(|cache| cache.shared_bandwidth.as_mut()).for_each(|bandwidth| *bandwidth *= factor);
                self.homes.is_some()
            }
            _ => false,
        };
        has.then_some(machine)
    }

    /// How long a core on one node waits for a line from another.
    pub fn latency_ns(&self, from: NodeId, to: NodeId) -> f64 {
        if from == to {
            return self.memory.latency_ns;
        }
        let value = self.topology.numa_value(from, to);
        let known = self.memory.latency_by_distance.iter().find(|&&(distance, _)| distance == value);
        known.expect("a machine has a latency for each distance").1
    }

    /// The bandwidth of a node's memory, for reads.
    pub fn controller_bandwidth(&self, node: NodeId) -> f64 {
        let other = self.memory.other_controllers.iter().find(|other| other.0 == node);
        other.map_or(self.memory.controller_bandwidth, |other| other.1)
    }

    /// The bytes per second from a node's memory to a core without competition.
    pub fn core_bandwidth(&self, from: NodeId, to: NodeId) -> f64 {
        self.memory.core_bandwidth * (self.memory.latency_ns / self.latency_ns(from, to)).min(1.0)
    }

    /// How long a core waits for a line of a home cache; both tiles are given by their numbers.
    pub fn home_latency_ns(&self, homes: &HomeCosts, tile: usize, home: usize) -> f64 {
        let (row, column) = (|tile: usize| tile / homes.columns, |tile: usize| tile % homes.columns);
        let hops = row(tile).abs_diff(row(home)) + column(tile).abs_diff(column(home));
        homes.latency_by_hops_ns[hops.min(homes.latency_by_hops_ns.len() - 1)]
    }

    /// How long a byte takes from each place to each other, in hundredths of a nanosecond: the weights of dealing by
    /// measured latencies. Places are core groups: home caches, or the groups of nodes.
    pub fn group_latencies(&self) -> Vec<Vec<u32>> {
        let groups = &self.topology.core_groups;
        let latency = |from: usize, to: usize| match &self.homes {
            Some(homes) => self.home_latency_ns(homes, from, to),
            None => self.latency_ns(groups[from].node, groups[to].node),
        };
        let row = |from: usize| (0..groups.len()).map(|to| (latency(from, to) * 100.0).round() as u32).collect();
        (0..groups.len()).map(row).collect()
    }

    /// The plan of a strategy for this number of threads on this machine. It knows the machine's latencies, as on a
    /// real machine after they were measured. Panics if `threads` is 0.
    ///
    /// ```
    /// let machine = vicus_sim::Machine::by_name("tilepro64").unwrap();
    /// let plan = machine.plan(&"vicinity".parse().unwrap(), 63);
    /// let costs = &plan.dealing().unwrap().costs;
    /// assert!(costs[0][1] < costs[0][63]); // by hops
    /// ```
    pub fn plan(&self, setting: &Setting, threads: usize) -> Plan {
        let wanted = setting.strategy().wants_latencies(&self.topology);
        let latencies = wanted.then(|| Latencies::new(&self.topology, self.group_latencies())).flatten();
        setting.plan_with(&self.topology, threads, latencies.as_ref())
    }

    /// How long this number of operations of a kind of work takes on an otherwise idle core.
    pub fn compute_ns(&self, leaf: &str, flops: u64) -> f64 {
        let per_cycle = self.leaves.get(leaf).unwrap_or(&self.flops_per_cycle);
        flops as f64 / (per_cycle * self.clock_ghz)
    }

    /// The computing part of a piece of work's time, if all of its data were in the smallest cache with room for it,
    /// and bytes written past the caches went to memory. The time of the first cache belongs to computing.
    pub fn computing_ns(&self, accesses: &[Access], took_ns: f64) -> f64 {
        let bytes = |streamed: bool| {
            let these = accesses.iter().filter(|access| (access.streams && access.mode.writes()) == streamed);
            these.map(Access::total_bytes).sum::<usize>() as f64
        };
        let (kept, streamed) = (bytes(false), bytes(true));
        let Parameters { overlap, cache_share, .. } = self.parameters;
        let caches = self.caches_of(self.topology.pus[0].id).into_iter().map(|at| &self.topology.caches[at]);
        let cache = caches.clone().position(|cache| kept <= cache.bytes as f64 * cache_share);
        let kept_ns = match cache {
            Some(0) => 0.0,
            Some(at) => kept / self.caches[at].bandwidth,
            None => kept / self.memory.core_bandwidth,
        };
        let moving = (kept_ns + streamed / self.memory.core_bandwidth) * 1e9;
        // Solves for computing in the model's time of a piece of work: (1 - overlap) of computing, and the longer one
        // of moving and the rest.
        let seen = (took_ns - moving).max(0.0) / (1.0 - overlap);
        if overlap < 1.0 && overlap * seen <= moving { seen } else { took_ns }
    }

    /// The links between its nodes.
    pub fn links(&self) -> &[Link] {
        &self.links.links
    }

    /// The indices of a PU's caches, the lowest level first.
    pub(crate) fn caches_of(&self, pu: PuId) -> Vec<usize> {
        let caches = self.topology.caches.iter().enumerate();
        let mut found: Vec<usize> = caches.filter(|(_, cache)| cache.pus.contains(&pu)).map(|(at, _)| at).collect();
        found.sort_by_key(|&at| self.topology.caches[at].level);
        found
    }

    pub(crate) fn cache_costs(&self, level: u8) -> CacheCosts {
        let costs = self.caches.iter().rev().find(|costs| costs.level <= level).or(self.caches.first());
        *costs.expect("a machine with caches has costs for them")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_homes_are_four_to_six_times_as_far() {
        let machine = Machine::by_name("tilepro64").unwrap();
        let homes = machine.homes.as_ref().unwrap();
        let local = machine.home_latency_ns(homes, 0, 0);
        let remote: Vec<f64> = (1..64).map(|home| machine.home_latency_ns(homes, 0, home) / local).collect();
        // Muddukrishna et al. 2015, §2: "remote home caches take four to six times longer".
        assert!(remote.iter().all(|factor| (4.0..=6.0).contains(factor)), "{remote:?}");
        assert_eq!(remote.iter().copied().fold(0.0, f64::max), 6.0, "tile 63 is 14 hops away");
        assert_eq!(remote[0], 4.0, "and tile 1 is one");
        assert_eq!(machine.topology.usable_pus().count(), 63);
        let latencies = machine.group_latencies();
        assert_eq!(latencies[9][9] * 4, latencies[9][10], "what tasks are dealt by tells the same");
    }

    #[test]
    fn a_plan_for_home_caches_weighs_bytes_by_hops() {
        // What happened: plans were made without latencies, so that dealing knew only "here" and "elsewhere".
        let machine = Machine::by_name("tilepro64").unwrap();
        let plan = machine.plan(&"vicinity".parse().unwrap(), 63);
        let costs = &plan.dealing().unwrap().costs;
        // Tile 9 is in the second row and column: two hops from tile 0, and tile 0 is 14 from tile 63. In hundredths of
        // a nanosecond.
        assert_eq!([costs[0][0], costs[0][1], costs[0][9], costs[0][63]], [1143, 4572, 4748, 6858]);
        assert_eq!(costs[9][0], costs[0][9]);
    }

    #[test]
    fn the_opteron_has_the_papers_numa_factor() {
        let machine = Machine::by_name("opteron-6172").unwrap();
        let nodes: Vec<NodeId> = machine.topology.nodes.iter().map(|node| node.id).collect();
        let others = nodes.iter().flat_map(|&from| nodes.iter().map(move |&to| (from, to)));
        let factors = others.map(|(from, to)| machine.latency_ns(from, to) / machine.memory.latency_ns);
        // §2: eight nodes, at most 22 apart, an average factor of 1.19.
        let average = factors.sum::<f64>() / 64.0;
        assert!((average - 1.19).abs() < 0.005, "{average}");
        assert_eq!(machine.topology.distances.iter().flatten().max(), Some(&22));
        assert_eq!((machine.topology.cores.len(), nodes.len()), (48, 8));
    }

    /// The lines with an unsourced number: no source beside it, above it, or for all numbers at the head of the file.
    fn unsourced(text: &str) -> Vec<&str> {
        let head = text.lines().take_while(|line| line.starts_with('#')).count();
        if text.lines().take(head).any(|line| line.contains("where not said otherwise")) {
            return Vec::new();
        }
        let lines: Vec<&str> = text.lines().collect();
        let is_number = |line: &str| {
            let (key, value) = line.split_once(" = ").unwrap_or_default();
            let names = ["name", "title", "level"].contains(&key);
            !names && value.chars().any(|char| char.is_ascii_digit())
        };
        let sourced = |at: usize| lines[at].contains('#') || (at > head && lines[at - 1].starts_with('#'));
        (0..lines.len()).filter(|&at| is_number(lines[at]) && !sourced(at)).map(|at| lines[at]).collect()
    }

    #[test]
    fn each_number_of_a_machine_says_where_it_is_from() {
        for (name, text) in FILES {
            assert_eq!(unsourced(text), [""; 0], "{name}");
        }
        let text = "# A machine.\nlevel = 1\nbytes = 8\n# The manual.\nclock_ghz = 1\nflops = 2 # the manual";
        assert_eq!(unsourced(text), ["bytes = 8"]);
    }

    #[test]
    fn any_topology_has_default_costs() {
        for topology in vicus_topology::fixtures() {
            let machine = Machine::from_topology(topology);
            for (from, to) in machine.topology.nodes.iter().zip(machine.topology.nodes.iter().rev()) {
                assert!(machine.latency_ns(from.id, to.id) >= machine.memory.latency_ns, "{}", machine.name);
            }
        }
    }
}
