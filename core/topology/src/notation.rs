//! A machine in one line, for tests and for the simulator.
//!
//! Words `kind:count` from the outside in, as in hwloc's synthetic descriptions: `node`, `package`, `l1` to `l5`,
//! `core`, `pu`. What is left out is there once. Distances are 10 on a node and 20 between nodes.

use crate::{Cache, CacheId, Core, CoreId, GroupId, Node, NodeId, Pu, PuId, Topology};
use std::fmt;

/// Why a line does not describe a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotationError {
    /// The word that could not be read.
    pub word: String,
    /// What was expected in its place.
    pub expected: &'static str,
}

impl fmt::Display for NotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "machine notation: `{}`: expected {}", self.word, self.expected)
    }
}

impl std::error::Error for NotationError {}

/// Bytes of a cache of the level 1, 2, 3 and above where the notation gives none.
const CACHE_BYTES: [u64; 3] = [32 << 10, 512 << 10, 16 << 20];

impl Topology {
    /// Reads a machine from one line such as `node:2 l3:2 core:4 pu:2`.
    ///
    /// # Errors
    /// A word that is not `kind:count`, an unknown kind, a kind twice, or more than 65,536 PUs.
    pub fn parse(line: &str) -> Result<Topology, NotationError> {
        let mut levels: Vec<(&str, usize)> = Vec::new();
        for word in line.split_whitespace() {
            let error = |expected| NotationError { word: word.to_owned(), expected };
            let (kind, count) = word.split_once(':').ok_or_else(|| error("kind:count, such as core:4"))?;
            let known = ["node", "package", "l5", "l4", "l3", "l2", "l1", "core", "pu"];
            if !known.contains(&kind) {
                return Err(error("one of node, package, l5 to l1, core, pu before the colon"));
            }
            if levels.iter().any(|&(other, _)| other == kind) {
                return Err(error("each kind once"));
            }
            let count = count.parse().ok().filter(|&count| (1..=65536).contains(&count));
            levels.push((kind, count.ok_or_else(|| error("a count from 1 to 65536 after the colon"))?));
        }
        let total: usize = levels.iter().fold(1, |product, &(_, count)| product.saturating_mul(count));
        if total > 65536 {
            return Err(NotationError { word: line.to_owned(), expected: "at most 65536 PUs" });
        }
        // How many PUs one thing of each level has.
        let mut each = total;
        let spans: Vec<(&str, usize)> = levels
            .iter()
            .map(|&(kind, count)| {
                each /= count;
                (kind, each)
            })
            .collect();
        let span = |kind: &str, default: usize| spans.iter().find(|s| s.0 == kind).map_or(default, |s| s.1);
        let (node_span, core_span) = (span("node", total), span("core", span("pu", 1).max(1)));
        let pu_range = |index: usize, span: usize| (index * span..(index + 1) * span).map(PuId::new).collect();
        let pus = (0..total)
            .map(|i| Pu {
                id: PuId::new(i),
                os_index: i as u32,
                core: CoreId::new(i / core_span),
                group: GroupId::new(0),
                node: NodeId::new(i / node_span),
                usable: true,
            })
            .collect();
        let cores = (0..total / core_span)
            .map(|i| Core { id: CoreId::new(i), os_index: i as u32, pus: pu_range(i, core_span), kind: 0 })
            .collect();
        let mut caches: Vec<Cache> = Vec::new();
        for level in 1..=5u8 {
            if let Some(&(_, span)) = spans.iter().find(|(kind, _)| **kind == format!("l{level}")) {
                let bytes = CACHE_BYTES[usize::from(level).min(CACHE_BYTES.len()) - 1];
                for i in 0..total / span {
                    caches.push(Cache { id: CacheId::new(caches.len()), level, bytes, pus: pu_range(i, span) });
                }
            }
        }
        let count = total / node_span;
        let nodes = (0..count)
            .map(|i| Node { id: NodeId::new(i), os_index: i as u32, bytes: 16 << 30, pus: pu_range(i, node_span) })
            .collect();
        let distances = (0..count).map(|i| (0..count).map(|j| if i == j { 10 } else { 20 }).collect()).collect();
        let name = line.to_owned();
        let mut machine =
            Topology { name, pus, cores, caches, core_groups: Vec::new(), nodes, distances, cpu_quota_millis: None };
        machine.find_core_groups();
        machine.assert_valid();
        Ok(machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_word_is_named() {
        for (line, word) in [("node", "node"), ("nodes:2", "nodes:2"), ("core:0", "core:0"), ("pu:2 pu:2", "pu:2")] {
            assert_eq!(Topology::parse(line).unwrap_err().word, word);
        }
        assert!(Topology::parse("node:65536 core:2").is_err());
    }

    #[test]
    fn nothing_is_one_pu() {
        let machine = Topology::parse("").unwrap();
        assert_eq!((machine.pus.len(), machine.nodes.len(), machine.cores.len()), (1, 1, 1));
    }
}
