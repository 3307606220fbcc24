//! Real machines as data, to test decisions about machines on existing ones; and two emulated ones.
//!
//! The JSON files are derived from hwloc's own test fixtures, and from `tools/topologies`; `worlds/os/fixtures`
//! has the XML of all, the licence of hwloc's, and the test of their agreement.

use crate::Topology;

/// All of them, by name: sparse numbers, many nodes, nodes without PUs or without memory, offline PUs, hybrid cores.
///
/// ```
/// let machines = vicus_topology::fixtures();
/// let smp = machines.iter().find(|machine| machine.name == "Intel-Core-2xXeon-E5345").unwrap();
/// assert_eq!(smp.core_groups.len(), 4);
/// ```
pub fn fixtures() -> Vec<Topology> {
    JSON.iter().map(|json| Topology::from_json(json).expect("a committed fixture is a topology")).collect()
}

const JSON: &[&str] = &[
    include_str!("../fixtures/16amd64-8n2c.json"),
    include_str!("../fixtures/16em64t-4s2c2t-offlines.json"),
    include_str!("../fixtures/20em64t-hybrid-1p6c2t+2ca4co1t.json"),
    include_str!("../fixtures/256ia64-64n2s2c.json"),
    include_str!("../fixtures/40intel64-4n10c+pci-conflicts.json"),
    include_str!("../fixtures/48amd64-4pa2n6c-sparse.json"),
    include_str!("../fixtures/64amd64-4s2n4ca2co.json"),
    include_str!("../fixtures/64intel64-heteromem.json"),
    include_str!("../fixtures/8intel64-4n2t-memattrs.json"),
    include_str!("../fixtures/96em64t-4no4pa3ca2co.json"),
    include_str!("../fixtures/AMD-19h-Zen3-2xEpyc-7763.json"),
    include_str!("../fixtures/AMD-K10-Istanbul-8xOpteron-8439SE.json"),
    include_str!("../fixtures/Intel-Core-2xXeon-E5345.json"),
    include_str!("../fixtures/Intel-Penryn-4xXeon-X7460.json"),
    include_str!("../fixtures/emulated-memory-node.json"),
    include_str!("../fixtures/emulated-no-memory.json"),
];
