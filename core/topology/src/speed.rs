//! How fast memory is, as the firmware says it.

use crate::{NodeId, Place, Topology};
use serde::{Deserialize, Serialize};

/// The bandwidth and latency of a node's memory for the PUs near to it, as the firmware tells them (ACPI 6.5, §5.2.29,
/// the Heterogeneous Memory Attribute Table). 0 is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySpeed {
    /// The nodes whose PUs reach it so fast.
    pub near: Vec<NodeId>,
    /// Megabytes a second, reading.
    pub read_mb_s: u32,
    /// Megabytes a second, writing.
    pub write_mb_s: u32,
    /// Nanoseconds until a read has its data.
    pub read_ns: u32,
    /// Nanoseconds until a write is done.
    pub write_ns: u32,
}

impl MemorySpeed {
    /// Megabytes a second: of reading, or else of writing; `None` if unknown.
    pub fn bandwidth_mb_s(&self) -> Option<u32> {
        [self.read_mb_s, self.write_mb_s].into_iter().find(|&value| value > 0)
    }

    /// Nanoseconds: of reading, or else of writing; `None` if unknown.
    pub fn latency_ns(&self) -> Option<u32> {
        [self.read_ns, self.write_ns].into_iter().find(|&value| value > 0)
    }
}

impl Topology {
    /// The node with the highest bandwidth for PUs of a place: high-bandwidth memory beside the ordinary one, if there
    /// is some. `None` if the firmware tells no bandwidth of memory that is near to the place.
    ///
    /// ```
    /// use vicus_topology::{MemorySpeed, Topology};
    ///
    /// let mut machine = Topology::parse("node:2 core:2")?;
    /// let [first, second] = [machine.nodes[0].id, machine.nodes[1].id];
    /// let near = || vec![first];
    /// let speed = |read_mb_s, read_ns| Some(MemorySpeed { near: near(), read_mb_s, read_ns, ..Default::default() });
    /// machine.nodes[0].speed = speed(100_000, 90);
    /// machine.nodes[1].speed = speed(400_000, 120);
    /// assert_eq!(machine.highest_bandwidth(first), Some(second));
    /// assert_eq!(machine.lowest_latency(first), Some(first));
    /// assert_eq!(machine.lowest_latency(second), None);
    /// # Ok::<(), vicus_topology::NotationError>(())
    /// ```
    ///
    /// # Panics
    /// If there is no such place, with its name and how many there are.
    pub fn highest_bandwidth(&self, from: impl Into<Place>) -> Option<NodeId> {
        let near = self.near_memory(from.into());
        // Of equals the first, as of equal distances.
        let known = near.filter_map(|(node, speed)| Some((std::cmp::Reverse(speed.bandwidth_mb_s()?), node)));
        known.min().map(|(_, node)| node)
    }

    /// The node with the lowest latency for PUs of a place. `None` if the firmware tells no latency of memory that is
    /// near to the place.
    ///
    /// # Panics
    /// If there is no such place, with its name and how many there are.
    pub fn lowest_latency(&self, from: impl Into<Place>) -> Option<NodeId> {
        let near = self.near_memory(from.into());
        near.filter_map(|(node, speed)| Some((speed.latency_ns()?, node))).min().map(|(_, node)| node)
    }

    fn near_memory(&self, from: Place) -> impl Iterator<Item = (NodeId, &MemorySpeed)> {
        let from = self.node_of(from);
        let nodes = self.nodes.iter().filter(|node| self.has_memory(node.id));
        let known = nodes.filter_map(|node| Some((node.id, node.speed.as_ref()?)));
        known.filter(move |(_, speed)| speed.near.contains(&from))
    }
}
