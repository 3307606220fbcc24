//! The format of a machine's file, and the errors of a wrong one.

use super::links::Links;
use super::{CacheCosts, HomeCosts, Machine, MemoryCosts, Port, Queueing, Stream};
use crate::Parameters;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, SeqAccess, Unexpected, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use vicus_kernels::LEAVES;
use vicus_topology::{NodeId, Topology};

/// The mistake in a machine's file: the file, the position in it, and the expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineError {
    file: String,
    message: String,
}

impl fmt::Display for MachineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.message)
    }
}

impl std::error::Error for MachineError {}

/// Larger values are mistakes, and would take much memory before they are found.
const MOST_PUS: usize = 2048;

/// A number between two powers of ten. Numbers outside are mistakes of unit or exponent, and would overflow virtual
/// time.
#[derive(Clone, Copy)]
pub(crate) struct Decades<const FROM: i32, const TO: i32>(pub(crate) f64);

/// From a megahertz to a hundred gigahertz.
type Gigahertz = Decades<-3, 2>;
/// From a picosecond to a second.
type Nanos = Decades<-3, 9>;
/// Bytes per second, from a kilobyte to an exabyte.
type Bandwidth = Decades<3, 18>;
/// Bytes of a message without data.
type MessageBytes = Decades<0, 3>;
/// Operations in a cycle; some leaves count large operations.
type PerCycle = Decades<-6, 6>;

impl<'de, const FROM: i32, const TO: i32> Deserialize<'de> for Decades<FROM, TO> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Decades<FROM, TO>, D::Error> {
        let number = f64::deserialize(from)?;
        let expected = || format!("a number from 1e{FROM} to 1e{TO}");
        let good = (10f64.powi(FROM)..=10f64.powi(TO)).contains(&number);
        good.then_some(Decades(number)).ok_or_else(|| D::Error::invalid_value(Unexpected::Float(number), &&*expected()))
    }
}

/// A tuple for whole arrays: TOML's own tuples ignore elements after their last one.
#[derive(Clone, Copy)]
struct Whole<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Whole<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Whole<T>, D::Error> {
        from.deserialize_seq(WholeVisitor(PhantomData))
    }
}

struct WholeVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for WholeVisitor<T> {
    type Value = Whole<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Whole<T>, A::Error> {
        let whole = T::deserialize(SeqAccessDeserializer::new(&mut elements))?;
        match elements.next_element::<IgnoredAny>()? {
            None => Ok(Whole(whole)),
            Some(_) => Err(A::Error::custom("an element more than is expected here")),
        }
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    title: String,
    /// The topology in one line, and the facts missing in the line.
    topology: String,
    distances: Option<Vec<Vec<u32>>>,
    /// PUs without workers.
    #[serde(default)]
    reserved_pus: Vec<usize>,
    clock_ghz: Gigahertz,
    flops_per_cycle: PerCycle,
    #[serde(default)]
    leaf_flops_per_cycle: BTreeMap<String, PerCycle>,
    #[serde(default)]
    leaf_bandwidth: BTreeMap<String, Bandwidth>,
    smt_speedup: Option<f64>,
    #[serde(default)]
    cache: Vec<CacheTable>,
    memory: MemoryTable,
    links: Option<LinksTable>,
    bus: Option<BusTable>,
    port: Option<PortTable>,
    homes: Option<HomesTable>,
    stream: Option<StreamTable>,
    /// Free parameters measured on the machine, by name.
    #[serde(default)]
    parameters: BTreeMap<String, f64>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheTable {
    level: u8,
    bytes: NonZeroU64,
    latency_ns: Nanos,
    bandwidth: Bandwidth,
    shared_bandwidth: Option<Bandwidth>,
    /// Whether stores go to the next level at once.
    #[serde(default)]
    write_through: bool,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryTable {
    latency_ns: Nanos,
    #[serde(default)]
    latency_by_distance: Vec<Whole<(u32, Nanos)>>,
    core_bandwidth: Bandwidth,
    stream_bandwidth: Option<Bandwidth>,
    controller_bandwidth: Bandwidth,
    /// Nodes with another bandwidth.
    #[serde(default)]
    other_controllers: Vec<Whole<(usize, Bandwidth)>>,
    write_cost: Option<f64>,
    /// The cost of a page at its first write.
    fault_ns: Option<Nanos>,
    /// By load, how much longer a line takes; if it is left out, the usual chart of DRAM.
    load_latency: Option<Chart>,
    page_bytes: Option<u32>,
    line_bytes: Option<u32>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct LinksTable {
    shape: Shape,
    bandwidth: Bandwidth,
    /// For shape `pairs`.
    #[serde(default)]
    pairs: Vec<Whole<(usize, usize)>>,
    /// Links with another bandwidth.
    #[serde(default)]
    other: Vec<Whole<(usize, usize, Bandwidth)>>,
    /// Routes other than the shortest ones, as lists of nodes.
    #[serde(default)]
    routes: Vec<Vec<usize>>,
    /// By load, how much longer a line takes; if it is left out, lines wait only for a full link.
    load_latency: Option<Chart>,
    /// The bytes of a message without data on a link, if each miss asks the caches of all other nodes; if it is left
    /// out, none is asked.
    probe_bytes: Option<MessageBytes>,
}

/// Pairs of a load, as a share of the bandwidth, and nanoseconds.
type Chart = Vec<Whole<(f64, f64)>>;

/// The chart of a file's key.
fn queueing(key: &str, chart: &Chart) -> Result<Queueing, String> {
    let points: Vec<(f64, f64)> = chart.iter().map(|point| point.0).collect();
    Queueing::new(&points).map_err(|(at, expected)| {
        let (load, ns) = points[at];
        format!("{key}: [{load}, {ns}]: expected {expected}")
    })
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Shape {
    Full,
    Ring,
    Pairs,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct BusTable {
    pus: usize,
    bandwidth: Bandwidth,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PortTable {
    read: Bandwidth,
    write: Bandwidth,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct HomesTable {
    columns: usize,
    fetch_bytes: usize,
    latency_by_hops_ns: Vec<Nanos>,
    /// If it is left out, links are not a limit.
    mesh_bandwidth: Option<Bandwidth>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamTable {
    socket: Bandwidth,
    system: Bandwidth,
    streaming_stores: bool,
}

impl Machine {
    /// Reads a machine from the text of a file; `file` is for messages.
    ///
    /// # Errors
    /// The text is not TOML of this shape, a number is missing or not above 0, or its values contradict each other.
    pub fn parse(file: &str, text: &str) -> Result<Machine, MachineError> {
        let error = |message: String| MachineError { file: file.to_owned(), message };
        let read: File = toml::from_str(text).map_err(|mistake| error(shown(&mistake.to_string())))?;
        read.machine().map_err(error)
    }
}

/// A mistake with its line; the middle of a long line is left out: the end states the expectation.
pub(crate) fn shown(mistake: &str) -> String {
    const BEGINNING: usize = 200;
    const END: usize = 100;
    let cut = |line: &str| {
        let mut places = line.char_indices().map(|(at, _)| at);
        let (Some(from), Some(to)) = (places.nth(BEGINNING), places.rev().nth(END - 1)) else { return line.to_owned() };
        format!("{}…{}", &line[..from], &line[to..])
    };
    mistake.trim_end().lines().map(cut).collect::<Vec<_>>().join("\n")
}

impl File {
    fn machine(self) -> Result<Machine, String> {
        self.check_names()?;
        let topology = self.topology()?;
        let nodes = topology.nodes.len();
        let links = match &self.links {
            Some(table) => table.links(nodes)?,
            None if nodes == 1 => Links::full(1, 1.0),
            None => return Err(format!("links: a table is expected, because there are {nodes} nodes")),
        };
        let memory = self.memory.costs(&topology)?;
        if self.links.as_ref().is_some_and(|table| table.probe_bytes.is_some()) && nodes == 1 {
            return Err("links.probe_bytes: none is expected with one node, which has no others to ask".to_owned());
        }
        let on_links = self.links.as_ref().and_then(|table| table.load_latency.as_ref());
        let link_queueing = on_links.map_or(Ok(Queueing::NONE), |chart| queueing("links.load_latency", chart))?;
        if let Some(bus) = self.bus.as_ref().filter(|bus| bus.pus == 0 || !topology.pus.len().is_multiple_of(bus.pus)) {
            return Err(format!("bus.pus: {}: expected a divisor of {} PUs", bus.pus, topology.pus.len()));
        }
        if let Some(homes) = &self.homes {
            homes.check(&topology)?;
            if self.port.is_some() {
                return Err("port: none is expected beside homes, whose banks are what cores share".to_owned());
            }
            if !self.leaf_bandwidth.is_empty() {
                return Err("leaf_bandwidth: none is expected beside homes, where a core waits for one line at a time"
                    .to_owned());
            }
        }
        let cache = |table: &CacheTable| CacheCosts {
            level: table.level,
            latency_ns: table.latency_ns.0,
            bandwidth: table.bandwidth.0,
            shared_bandwidth: table.shared_bandwidth.map(|bandwidth| bandwidth.0),
            write_through: table.write_through,
        };
        let parameters = self.parameters.iter().try_fold(Parameters::default(), |parameters, (name, value)| {
            let expected = || format!("parameters.{name}: expected one of {}", Parameters::NAMES.join(", "));
            let range = Parameters::range(name).ok_or_else(expected)?;
            if !range.contains(value) {
                return Err(format!("parameters.{name}: {value}: expected {} to {}", range.start(), range.end()));
            }
            Ok(parameters.with(name, *value).expect("it has a range"))
        })?;
        let hardware_threads = topology.cores.iter().map(|core| core.pus.len()).max().unwrap_or(1);
        let smt_speedup = self.smt_speedup.unwrap_or(1.0);
        if !(0.5..=hardware_threads as f64).contains(&smt_speedup) {
            let expected = format!("expected 0.5 to {hardware_threads}, the hardware threads of a core");
            return Err(format!("smt_speedup: {smt_speedup}: {expected}"));
        }
        let mut caches: Vec<CacheCosts> = self.cache.iter().map(cache).collect();
        caches.sort_by_key(|cache| cache.level);
        Ok(Machine {
            name: self.name,
            title: self.title,
            topology,
            clock_ghz: self.clock_ghz.0,
            flops_per_cycle: self.flops_per_cycle.0,
            leaves: self.leaf_flops_per_cycle.into_iter().map(|(leaf, flops)| (leaf, flops.0)).collect(),
            leaf_bandwidths: self.leaf_bandwidth.into_iter().map(|(leaf, bandwidth)| (leaf, bandwidth.0)).collect(),
            smt_speedup,
            caches,
            memory,
            bus: self.bus.map(|bus| (bus.pus, bus.bandwidth.0)),
            links,
            probe_bytes: self.links.as_ref().and_then(|table| table.probe_bytes).map(|bytes| bytes.0),
            link_queueing,
            port: self.port.map(|port| Port { read: port.read.0, write: port.write.0 }),
            homes: self.homes.map(|homes| HomeCosts {
                columns: homes.columns,
                fetch_bytes: homes.fetch_bytes,
                latency_by_hops_ns: homes.latency_by_hops_ns.into_iter().map(|latency| latency.0).collect(),
                mesh_bandwidth: homes.mesh_bandwidth.map(|bandwidth| bandwidth.0),
            }),
            stream: self.stream.map(|stream| Stream {
                socket: stream.socket.0,
                system: stream.system.0,
                streaming_stores: stream.streaming_stores,
            }),
            parameters,
        })
    }

    /// Checks for a name, and for a kernel of each leaf.
    fn check_names(&self) -> Result<(), String> {
        if self.name.trim().is_empty() {
            return Err(format!("name: {:?}: expected a word", self.name));
        }
        let flops = self.leaf_flops_per_cycle.keys().map(|leaf| ("leaf_flops_per_cycle", leaf));
        let mut leaves = flops.chain(self.leaf_bandwidth.keys().map(|leaf| ("leaf_bandwidth", leaf)));
        match leaves.find(|(_, leaf)| !LEAVES.contains(&leaf.as_str())) {
            Some((table, leaf)) => Err(format!("{table}.{leaf}: expected one of {}", LEAVES.join(", "))),
            None => Ok(()),
        }
    }

    fn topology(&self) -> Result<Topology, String> {
        let counts = self.topology.split_whitespace().filter_map(|word| word.split_once(':')?.1.parse::<usize>().ok());
        if counts.fold(1, usize::saturating_mul) > MOST_PUS {
            return Err(format!("topology: expected at most {MOST_PUS} PUs"));
        }
        let mut topology = Topology::parse(&self.topology).map_err(|error| format!("topology: {error}"))?;
        topology.name = self.name.clone();
        if let Some(distances) = &self.distances {
            let nodes = topology.nodes.len();
            if distances.len() != nodes || distances.iter().any(|row| row.len() != nodes) {
                return Err(format!("distances: expected {nodes} rows of {nodes} numbers"));
            }
            topology.distances = distances.clone();
        }
        for cache in &mut topology.caches {
            let table = self.cache.iter().find(|table| table.level == cache.level);
            cache.bytes = table.ok_or_else(|| format!("[[cache]]: expected one of level {}", cache.level))?.bytes.get();
        }
        if let Some(table) = self.cache.iter().find(|t| topology.caches.iter().all(|cache| cache.level != t.level)) {
            return Err(format!("[[cache]]: the topology has none of level {}", table.level));
        }
        if let Some(level) = twice(self.cache.iter().map(|table| table.level)) {
            return Err(format!("[[cache]]: expected one of level {level}, and there are two"));
        }
        for &pu in &self.reserved_pus {
            let known = topology.pus.get_mut(pu).ok_or_else(|| format!("reserved_pus: there is no PU {pu}"))?;
            known.usable = false;
        }
        if topology.usable_pus().next().is_none() {
            return Err("reserved_pus: expected a PU to be left for workers".to_owned());
        }
        Ok(topology)
    }
}

/// The first repeated item.
fn twice<T: PartialEq>(all: impl Iterator<Item = T>) -> Option<T> {
    let mut seen = Vec::new();
    for one in all {
        if seen.contains(&one) {
            return Some(one);
        }
        seen.push(one);
    }
    None
}

/// A pair of nodes in a fixed order.
fn either_way(pair: (usize, usize)) -> (usize, usize) {
    (pair.0.min(pair.1), pair.0.max(pair.1))
}

impl MemoryTable {
    fn costs(&self, topology: &Topology) -> Result<MemoryCosts, String> {
        if let Some(distance) = twice(self.latency_by_distance.iter().map(|Whole((distance, _))| distance)) {
            return Err(format!("memory.latency_by_distance: distance {distance} has two latencies"));
        }
        if let Some(Whole((distance, latency))) =
            self.latency_by_distance.iter().find(|Whole((_, latency))| latency.0 < self.latency_ns.0)
        {
            let (far, near) = (latency.0, self.latency_ns.0);
            return Err(format!(
                "memory.latency_by_distance: {far} for distance {distance}: expected at least {near}, as the own node's"
            ));
        }
        let by_distance: Vec<(u32, f64)> =
            self.latency_by_distance.iter().map(|Whole((distance, latency))| (*distance, latency.0)).collect();
        let nodes = 0..topology.nodes.len();
        let pairs = nodes.clone().flat_map(|from| nodes.clone().map(move |to| (from, to)));
        for (from, to) in pairs.filter(|(from, to)| from != to) {
            let value = topology.distances[from][to];
            if !by_distance.iter().any(|&(known, _)| known == value) {
                return Err(format!("memory.latency_by_distance: expected a latency for distance {value}"));
            }
        }
        let unit = |key: &str, value: Option<u32>, default: usize| {
            let value = value.map_or(default, |bytes| bytes as usize);
            let good = value.is_power_of_two() && value >= 8;
            good.then_some(value).ok_or_else(|| format!("memory.{key}: {value}: expected a power of two from 8"))
        };
        let count = topology.nodes.len();
        if let Some(Whole((node, _))) = self.other_controllers.iter().find(|other| other.0.0 >= count) {
            return Err(format!("memory.other_controllers: there is no node {node}; there are {count}"));
        }
        if let Some(node) = twice(self.other_controllers.iter().map(|other| other.0.0)) {
            return Err(format!("memory.other_controllers: node {node} has two bandwidths"));
        }
        let write_cost = self.write_cost.unwrap_or(1.0);
        if !(0.5..=4.0).contains(&write_cost) {
            return Err(format!("memory.write_cost: {write_cost}: expected 0.5 to 4 bytes read"));
        }
        let of_file = self.load_latency.as_ref().map(|chart| queueing("memory.load_latency", chart));
        Ok(MemoryCosts {
            latency_ns: self.latency_ns.0,
            latency_by_distance: by_distance,
            core_bandwidth: self.core_bandwidth.0,
            stream_bandwidth: self.stream_bandwidth.unwrap_or(self.core_bandwidth).0,
            controller_bandwidth: self.controller_bandwidth.0,
            other_controllers: self
                .other_controllers
                .iter()
                .map(|&Whole((node, bandwidth))| (NodeId::new(node), bandwidth.0))
                .collect(),
            write_cost,
            fault_ns: self.fault_ns.map(|fault| fault.0),
            queueing: of_file.unwrap_or_else(|| Ok(Queueing::of_dram()))?,
            page_bytes: unit("page_bytes", self.page_bytes, 4096)?,
            line_bytes: unit("line_bytes", self.line_bytes, 64)?,
        })
    }
}

impl LinksTable {
    fn links(&self, nodes: usize) -> Result<Links, String> {
        let pairs: Vec<(usize, usize)> = match self.shape {
            Shape::Full => (0..nodes).flat_map(|from| (from + 1..nodes).map(move |to| (from, to))).collect(),
            // Each of two neighbours lists the other; they have one link.
            Shape::Ring if nodes <= 2 => (1..nodes).map(|node| (0, node)).collect(),
            Shape::Ring => (0..nodes).map(|node| (node, (node + 1) % nodes)).collect(),
            Shape::Pairs => self.pairs.iter().map(|pair| pair.0).collect(),
        };
        let others = self.other.iter().map(|&Whole((from, to, _))| (from, to));
        let ends = pairs.iter().copied().chain(others.clone()).flat_map(|(from, to)| [from, to]);
        let mut named = ends.chain(self.routes.iter().flatten().copied());
        if let Some(node) = named.find(|&node| node >= nodes) {
            return Err(format!("links: there is no node {node}; there are {nodes}"));
        }
        self.check(&pairs, others)?;
        let bandwidth = |pair: (usize, usize)| {
            let other = self.other.iter().find(|&&Whole((from, to, _))| (from, to) == pair || (to, from) == pair);
            other.map_or(self.bandwidth.0, |other| other.0.2.0)
        };
        let pairs = pairs.into_iter().map(|pair| (pair.0, pair.1, bandwidth(pair)));
        let no_way = |(from, to)| format!("links: no link leads from node {from} to node {to}");
        let mut links = Links::new(nodes, pairs).map_err(no_way)?;
        self.routes.iter().try_for_each(|route| links.set_way(route)).map_err(no_way)?;
        Ok(links)
    }
}

impl LinksTable {
    /// Checks that each pair, link and route occurs once, and names existing nodes.
    fn check(
        &self,
        pairs: &[(usize, usize)],
        others: impl Iterator<Item = (usize, usize)> + Clone,
    ) -> Result<(), String> {
        if !matches!(self.shape, Shape::Pairs) && !self.pairs.is_empty() {
            return Err("links.pairs: expected with shape \"pairs\" only".to_owned());
        }
        if let Some((node, _)) = pairs.iter().find(|(from, to)| from == to) {
            return Err(format!("links.pairs: [{node}, {node}]: expected two nodes"));
        }
        if let Some((from, to)) = twice(pairs.iter().copied().map(either_way)) {
            return Err(format!("links.pairs: [{from}, {to}] stands there twice; a link leads both ways"));
        }
        let linked = |pair: &(usize, usize)| pairs.iter().any(|&other| either_way(other) == either_way(*pair));
        if let Some((from, to)) = others.clone().find(|pair| !linked(pair)) {
            return Err(format!("links.other: there is no link between {from} and {to}"));
        }
        if let Some((from, to)) = twice(others.map(either_way)) {
            return Err(format!("links.other: the link between {from} and {to} has two bandwidths"));
        }
        if let Some(route) = self.routes.iter().find(|route| route.len() < 2 || twice(route.iter()).is_some()) {
            return Err(format!("links.routes: {route:?}: expected a way from a node to another, each node once"));
        }
        if let Some(route) = twice(self.routes.iter().map(|route| [route[0], route[route.len() - 1]])) {
            return Err(format!("links.routes: there are two from node {} to node {}", route[0], route[1]));
        }
        Ok(())
    }
}

impl HomesTable {
    fn check(&self, topology: &Topology) -> Result<(), String> {
        let tiles = topology.core_groups.len();
        if self.columns == 0 || !tiles.is_multiple_of(self.columns) {
            return Err(format!("homes.columns: {}: expected a divisor of {tiles} tiles", self.columns));
        }
        if topology.core_groups.iter().any(|group| group.pus.len() != 1) || topology.nodes.len() != 1 {
            return Err("homes: expected a topology of one node, and a core to each last-level cache".to_owned());
        }
        if !topology.caches.iter().any(|cache| cache.level == 2) {
            return Err("homes: expected caches of level 2, which are the homes".to_owned());
        }
        if self.fetch_bytes == 0 {
            return Err("homes.fetch_bytes: 0: expected a number above 0".to_owned());
        }
        if self.latency_by_hops_ns.is_empty() {
            return Err("homes.latency_by_hops_ns: expected the latency of the own home first".to_owned());
        }
        let own = self.latency_by_hops_ns[0].0;
        if let Some(less) = self.latency_by_hops_ns.iter().find(|latency| latency.0 < own) {
            return Err(format!("homes.latency_by_hops_ns: {}: expected at least {own}, as the own home's", less.0));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Recorder, SimError, SimOptions, simulate};
    use vicus_kernels::{KernelWorld, Leaf, Task, TaskOrder};

    const GOOD: &str = r#"
name = "two"
title = "Two nodes"
topology = "node:2 l3:1 core:2"
clock_ghz = 2.5
flops_per_cycle = 4

[[cache]]
level = 3
bytes = 8388608
latency_ns = 15
bandwidth = 20e9

[memory]
latency_ns = 80
latency_by_distance = [[20, 120]]
core_bandwidth = 10e9
controller_bandwidth = 20e9

[links]
shape = "full"
bandwidth = 10e9
"#;

    fn mistake(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from), "{from}");
        Machine::parse("two.toml", &GOOD.replacen(from, to, 1)).unwrap_err().to_string()
    }

    /// What happened: the error of a line of a megabyte was this whole line, and a line of spaces.
    #[test]
    fn a_long_line_is_shown_in_part() {
        for text in
            [format!("a = {}", "9".repeat(1_000_000)), format!("a = {}{}", "[".repeat(50_000), "]".repeat(50_000))]
        {
            let message = Machine::parse("long.toml", &text).unwrap_err().to_string();
            assert!(message.starts_with("long.toml: ") && message.len() < 2_000, "{} bytes", message.len());
        }
    }

    #[test]
    fn a_file_becomes_a_machine() {
        let machine = Machine::parse("two.toml", GOOD).unwrap();
        assert_eq!(machine.topology.caches[0].bytes, 8 << 20);
        let nodes = [0, 1].map(|node| machine.topology.nodes[node].id);
        // 80 of 120 ns: two thirds of the bandwidth with as many lines under way.
        assert!((machine.core_bandwidth(nodes[0], nodes[1]) - 10e9 * 80.0 / 120.0).abs() < 1.0);
        assert_eq!(machine.links().len(), 2);
    }

    #[test]
    fn a_negative_number_is_told_with_its_line() {
        let message = mistake("clock_ghz = 2.5", "clock_ghz = -2.5");
        assert!(message.starts_with("two.toml: TOML parse error at line 5, column 13"), "{message}");
        assert!(
            message.contains("clock_ghz = -2.5") && message.contains("expected a number from 1e-3 to 1e2"),
            "{message}"
        );
        let message = mistake("latency_ns = 15", "latency_ns = 0");
        assert!(message.contains("line 11") && message.contains("expected a number from 1e-3 to 1e9"), "{message}");
        assert!(mistake("[[20, 120]]", "[[20, -1]]").contains("line 16"));
        let message = mistake("bytes = 8388608", "bytes = -1");
        assert!(message.contains("line 10") && message.contains("nonzero u64"), "{message}");
        assert!(mistake("bytes = 8388608", "bytes = 0").contains("nonzero u64"));
        let message = mistake("[links]", "[leaf_bandwidth]\nmap = -1e9\n\n[links]");
        assert!(message.contains("map = -1e9") && message.contains("expected a number from 1e3 to 1e18"), "{message}");
        assert!(mistake("node:2 ", "node:65536 ").contains("at most 2048 PUs"));
        assert!(mistake("clock_ghz = 2.5", "clock_ghz = inf").contains("expected a number from 1e-3 to 1e2"));
    }

    #[test]
    fn a_number_of_another_unit_is_told_with_its_line_and_what_was_expected() {
        // What happened: such numbers were accepted, and virtual time overflowed.
        for (key, number, range) in [
            ("clock_ghz = 2.5", "clock_ghz = 1e-300", "from 1e-3 to 1e2"),
            ("clock_ghz = 2.5", "clock_ghz = 2.5e9", "from 1e-3 to 1e2"),
            ("flops_per_cycle = 4", "flops_per_cycle = 1e-300", "from 1e-6 to 1e6"),
            ("core_bandwidth = 10e9", "core_bandwidth = 1e-290", "from 1e3 to 1e18"),
            ("controller_bandwidth = 20e9", "controller_bandwidth = 20", "from 1e3 to 1e18"),
            ("[[20, 120]]", "[[20, 1e10]]", "from 1e-3 to 1e9"),
        ] {
            let line = 1 + GOOD[..GOOD.find(key).unwrap()].matches('\n').count();
            let message = mistake(key, number);
            assert!(message.contains(&format!("line {line},")), "{message}");
            assert!(message.contains(&format!("expected a number {range}")), "{message}");
        }
        let wake = mistake("[memory]", "[parameters]\nwake_ns = 1e300\n\n[memory]");
        assert!(wake.contains("parameters.wake_ns") && wake.contains("expected 0 to 1000000000"), "{wake}");
        assert!(mistake("clock_ghz", "smt_speedup = 50\nclock_ghz").contains("smt_speedup: 50: expected 0.5 to 1"));
    }

    #[test]
    fn what_contradicts_itself_is_named() {
        let links = |shape: &str| mistake("shape = \"full\"", shape);
        assert!(links("shape = \"full\"\nroutes = [[0, 1, 0]]").contains("links.routes: [0, 1, 0]: expected a way"));
        assert!(links("shape = \"full\"\nroutes = [[0]]").contains("links.routes: [0]: expected a way"));
        assert!(links("shape = \"full\"\nroutes = [[0, 1], [0, 1]]").contains("two from node 0 to node 1"));
        assert!(
            links("shape = \"full\"\nother = [[0, 0, 5e9]]").contains("links.other: there is no link between 0 and 0")
        );
        let twice = links("shape = \"full\"\nother = [[0, 1, 5e9], [1, 0, 6e9]]");
        assert!(twice.contains("links.other: the link between 0 and 1 has two bandwidths"), "{twice}");
        assert!(
            links("shape = \"pairs\"\npairs = [[0, 1], [0, 0]]").contains("links.pairs: [0, 0]: expected two nodes")
        );
        assert!(
            links("shape = \"pairs\"\npairs = [[0, 1], [1, 0]]").contains("links.pairs: [0, 1] stands there twice")
        );
        assert!(
            links("shape = \"full\"\npairs = [[0, 1]]").contains("links.pairs: expected with shape \"pairs\" only")
        );
        assert!(mistake("[[20, 120]]", "[[20, 120], [20, 500]]").contains("distance 20 has two latencies"));
        let near = mistake("[[20, 120]]", "[[20, 70]]");
        assert!(near.contains("memory.latency_by_distance: 70 for distance 20: expected at least 80"), "{near}");
        let level = mistake("[memory]", "[[cache]]\nlevel = 3\nbytes = 1\nlatency_ns = 1\nbandwidth = 1e9\n\n[memory]");
        assert!(level.contains("[[cache]]: expected one of level 3, and there are two"), "{level}");
        let tile = crate::machine::FILES.iter().find(|(name, _)| *name == "tilepro64").unwrap().1;
        let homes = Machine::parse("tile.toml", &tile.replacen("45.72,", "5.72,", 1)).unwrap_err().to_string();
        assert!(homes.contains("homes.latency_by_hops_ns: 5.72: expected at least 11.43"), "{homes}");
    }

    #[test]
    fn a_ring_of_two_has_one_link_each_way_and_nothing_may_overlap() {
        let text = GOOD.replacen("\"full\"", "\"ring\"", 1) + "\n[parameters]\noverlap = 0\n";
        let machine = Machine::parse("two.toml", &text).unwrap();
        assert_eq!(machine.links().len(), 2);
        assert_eq!(machine.parameters.overlap, 0.0);
    }

    #[test]
    fn a_missing_number_is_named() {
        let message = mistake("core_bandwidth = 10e9\n", "");
        assert!(message.contains("missing field `core_bandwidth`") && message.contains("line 14"), "{message}");
        assert!(mistake("[[20, 120]]", "[[21, 120]]").contains("expected a latency for distance 20"));
        assert!(mistake("[links]\nshape = \"full\"\nbandwidth = 10e9\n", "").contains("links: a table is expected"));
        assert!(mistake("level = 3", "level = 2").contains("expected one of level 3"));
    }

    #[test]
    fn what_is_unknown_or_wrong_is_named() {
        let more = mistake("[memory]", "[parameters]\noverlap = 5\n\n[memory]");
        assert!(more.contains("parameters.overlap: 5: expected 0 to 1"), "{more}");
        let luck = mistake("[memory]", "[parameters]\nluck = 1\n\n[memory]");
        assert!(luck.contains("parameters.luck: expected one of overlap, cache_share"), "{luck}");
        assert!(mistake("title", "titel").contains("unknown field `titel`"));
        assert!(mistake("\"full\"", "\"pairs\"\npairs = []").contains("no link leads from node 0 to node 1"));
        assert!(mistake("\"full\"", "\"pairs\"\npairs = [[0, 2]]").contains("there is no node 2"));
        assert!(mistake("\"full\"", "\"full\"\nroutes = [[0, 7]]").contains("there is no node 7"));
        assert!(mistake("core:2", "core:two").contains("topology: machine notation: `core:two`"));
        assert!(mistake("clock_ghz", "distances = [[10, 20]]\nclock_ghz").contains("expected 2 rows of 2 numbers"));
        assert!(mistake("clock_ghz", "reserved_pus = [4]\nclock_ghz").contains("there is no PU 4"));
    }

    #[test]
    fn a_latency_that_falls_with_load_is_told_with_its_place() {
        let chart = |points: &str| mistake("[links]", &format!("load_latency = {points}\n\n[links]"));
        let falls = chart("[[0.5, 40], [0.8, 30]]");
        assert!(falls.starts_with("two.toml: memory.load_latency: [0.8, 30]: expected at least 40 ns"), "{falls}");
        assert!(chart("[[0.5, 40], [0.4, 50]]").contains("[0.4, 50]: expected a load above 0.5"));
        assert!(chart("[[1.5, 40]]").contains("[1.5, 40]: expected a load above 0, the one before, and at most 1"));
        assert!(chart("[[0.5, -1]]").contains("[0.5, -1]: expected at least 0 ns"));
        let probes = |bytes: &str| format!("shape = \"full\"\nprobe_bytes = {bytes}");
        assert!(mistake("shape = \"full\"", &probes("0")).contains("expected a number from 1e0 to 1e3"));
        let asked = Machine::parse("two.toml", &GOOD.replacen("shape = \"full\"", &probes("7.1"), 1)).unwrap();
        assert_eq!(asked.probe_bytes, Some(7.1));
        let alone = GOOD.replacen("node:2", "node:1", 1).replacen("shape = \"full\"", &probes("7.1"), 1);
        let alone = alone.replacen("latency_by_distance = [[20, 120]]", "", 1);
        let message = Machine::parse("one.toml", &alone).unwrap_err().to_string();
        assert!(message.contains("links.probe_bytes: none is expected with one node"), "{message}");
        let link = mistake("shape = \"full\"", "load_latency = [[0.9, 10], [1, 9]]\nshape = \"full\"");
        assert!(link.contains("links.load_latency: [1, 9]: expected at least 10 ns"), "{link}");
        let machine = |text: &str| Machine::parse("two.toml", &GOOD.replacen("[links]", text, 1)).unwrap();
        assert_eq!(machine("load_latency = []\n\n[links]").memory.queueing, Queueing::NONE);
        assert_eq!(machine("[links]").memory.queueing, Queueing::of_dram());
        assert_eq!(machine("[links]").memory.fault_ns, None);
        assert_eq!(machine("fault_ns = 1300\n\n[links]").memory.fault_ns, Some(1300.0));
        assert!(mistake("[links]", "fault_ns = -1\n\n[links]").contains("fault_ns"));
        assert!(mistake("[links]", "other_controllers = [[2, 1e9]]\n\n[links]").contains("there is no node 2"));
        assert!(mistake("[links]", "other_controllers = [[0, 1e9], [0, 2e9]]\n\n[links]").contains("node 0 has two"));
        assert!(mistake("[links]", "write_cost = 9\n\n[links]").contains("memory.write_cost: 9: expected 0.5 to 4"));
    }

    /// What happened: a misspelt name was ignored, and the default counted.
    #[test]
    fn a_leaf_that_no_kernel_has_is_named_beside_those_that_there_are() {
        for (to, table) in [
            ("leaf_flops_per_cycle = { mulitply = 6.4 }\nclock_ghz", "leaf_flops_per_cycle"),
            ("leaf_bandwidth = { mulitply = 6.4e9 }\nclock_ghz", "leaf_bandwidth"),
        ] {
            let message = mistake("clock_ghz", to);
            let expected = format!("two.toml: {table}.mulitply: expected one of admit, align, ");
            assert!(message.starts_with(&expected) && message.contains(", multiply, "), "{message}");
        }
        let all: Vec<String> = LEAVES.iter().map(|leaf| format!("\"{leaf}\" = 1.5")).collect();
        let text =
            GOOD.replacen("clock_ghz", &format!("leaf_flops_per_cycle = {{ {} }}\nclock_ghz", all.join(", ")), 1);
        assert_eq!(Machine::parse("two.toml", &text).unwrap().leaves.len(), LEAVES.len());
    }

    /// What happened: elements after the last meaningful one were ignored.
    #[test]
    fn an_element_too_many_is_told_with_its_line() {
        for (from, to) in [
            ("shape = \"full\"", "shape = \"pairs\"\npairs = [[0, 1, 2]]"),
            ("shape = \"full\"", "shape = \"full\"\nother = [[0, 1, 5e9, 7]]"),
            ("[[20, 120]]", "[[20, 120, 130]]"),
        ] {
            let message = mistake(from, to);
            let row = to.lines().last().unwrap();
            assert!(message.contains(row) && message.contains("an element more than is expected"), "{message}");
            assert!(message.starts_with("two.toml: TOML parse error at line "), "{message}");
        }
        let short = mistake("[[20, 120]]", "[[20]]");
        assert!(short.contains("line 16") && short.contains("invalid length 1"), "{short}");
    }

    #[test]
    fn a_machine_has_a_name() {
        for name in ["\"\"", "\" \""] {
            let message = mistake("name = \"two\"", &format!("name = {name}"));
            assert_eq!(message, format!("two.toml: name: {name}: expected a word"));
        }
    }

    #[test]
    fn no_text_makes_it_panic() {
        let bytes = 1 << 18;
        let program = Recorder::record_with("two", 1, |world| {
            let array = world.array::<u64>(bytes / 8, &"fine".parse().unwrap());
            let work = |access| world.work(Leaf { name: "both", flops: 1000 }, &[access], || ());
            let [first, second] = [array.writes(0..bytes / 8), array.reads(0..bytes / 16)];
            let tasks = [first, second].map(|access| (Task::new([access]), move || work(access)));
            world.tasks(TaskOrder::Free, tasks.into_iter());
        });
        let texts: Vec<&str> = crate::machine::FILES.iter().map(|(_, text)| *text).chain([GOOD]).collect();
        for seed in 0..3000 {
            let mut chance = crate::chance::Chance::new(seed);
            let text = texts[chance.below(texts.len() as u64) as usize];
            let mut bytes: Vec<char> = text.chars().filter(|char| char.is_ascii()).collect();
            for _ in 0..1 + chance.below(4) {
                let at = chance.below(bytes.len() as u64) as usize;
                let other = chance.below(bytes.len() as u64) as usize;
                match chance.below(4) {
                    0 => drop(bytes.remove(at)),
                    1 => bytes.insert(at, bytes[other]),
                    2 => bytes[at] = ['-', '0', '9', 'e', '[', ']', '"', '\n'][chance.below(8) as usize],
                    _ => bytes.truncate(at.max(8)),
                }
            }
            // Most of the changed texts are no machine, and some are another machine.
            if let Ok(machine) = Machine::parse("wrong.toml", &bytes.into_iter().collect::<String>()) {
                let plan = machine.plan(&"vicinity".parse().unwrap(), machine.topology.usable_pus().count().min(2));
                let options = SimOptions { parameters: machine.parameters, ..SimOptions::default() };
                match simulate(&machine, &plan, &program, &options) {
                    Ok(outcome) => assert!(outcome.wall_ns > 0.0 && outcome.wall_ns.is_finite(), "seed {seed}"),
                    Err(error) => assert_eq!(error, SimError::TooLong, "seed {seed}"),
                }
            }
        }
    }
}
