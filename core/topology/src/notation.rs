//! A machine in one line, for tests and for the simulator.
//!
//! Words `kind:count` from the outside in, as in hwloc's synthetic descriptions: `node`, `package`, `l1` to `l5`,
//! `core`, `pu`. An omitted kind has the count 1. Distances are 10 on a node and 20 between nodes.

use crate::{Cache, CacheId, Core, CoreId, GroupId, Node, NodeId, Pu, PuId, Topology};
use std::fmt;

/// Why a line does not describe a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotationError {
    /// The unreadable word.
    pub word: String,
    /// The expected form in its place.
    pub expected: &'static str,
}

impl fmt::Display for NotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "machine notation: `{}`: expected {}", self.word, self.expected)
    }
}

impl std::error::Error for NotationError {}

/// Bytes of a cache of level 1, 2, and 3 or higher, if the notation gives none.
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
        // The number of PUs in one object of each level.
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
            .map(|i| Node {
                id: NodeId::new(i),
                os_index: i as u32,
                bytes: 16 << 30,
                pus: pu_range(i, node_span),
                speed: None,
                tier: None,
            })
            .collect();
        let distances = (0..count).map(|i| (0..count).map(|j| if i == j { 10 } else { 20 }).collect()).collect();
        let name = line.to_owned();
        let mut machine = Topology {
            name,
            pus,
            cores,
            caches,
            core_groups: Vec::new(),
            nodes,
            distances,
            cpu_quota_millis: None,
            devices: Vec::new(),
        };
        machine.find_core_groups();
        machine.assert_valid();
        Ok(machine)
    }

    /// The line for [`Topology::parse`] to make a machine of this shape; `None` if parts of the machine differ from
    /// each other. Sizes, distances, names and usability are not in it.
    ///
    /// ```
    /// # use vicus_topology::Topology;
    /// let machine = Topology::parse("node:2 package:1 l3:2 core:4 pu:2").unwrap();
    /// assert_eq!(machine.line().unwrap(), "node:2 l3:2 core:4 pu:2");
    /// ```
    pub fn line(&self) -> Option<String> {
        let total = self.pus.len();
        let mut levels = vec![("node".to_owned(), self.nodes.first()?.pus.len())];
        for level in (1..=5u8).rev() {
            let first = self.caches.iter().find(|cache| cache.level == level);
            levels.extend(first.map(|cache| (format!("l{level}"), cache.pus.len())));
        }
        levels.push(("core".to_owned(), self.cores.first()?.pus.len()));
        levels.push(("pu".to_owned(), 1));
        // From the outside in; kinds with equally many PUs stay in this order.
        levels.sort_by_key(|&(_, pus)| std::cmp::Reverse(pus));
        let mut around = total;
        let mut words = Vec::new();
        for (kind, pus) in levels {
            words.push(format!("{kind}:{}", around.checked_div(pus)?));
            around = pus;
        }
        words.retain(|word| word != "pu:1");
        let line = words.join(" ");
        let same = |other: &Topology| shape(self) == shape(other);
        Topology::parse(&line).is_ok_and(|made| same(&made)).then_some(line)
    }
}

/// The sets of PUs with something in common: a node, a core, or a cache of each level.
fn shape(machine: &Topology) -> [Vec<(u8, &[PuId])>; 3] {
    let mut caches: Vec<_> = machine.caches.iter().map(|cache| (cache.level, &cache.pus[..])).collect();
    caches.sort_unstable();
    let nodes = machine.nodes.iter().map(|node| (0, &node.pus[..])).collect();
    [nodes, machine.cores.iter().map(|core| (0, &core.pus[..])).collect(), caches]
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
    fn a_machine_whose_parts_are_alike_has_a_line() {
        for line in ["node:1", "node:2 l3:1 l2:4 l1:1 core:1 pu:2", "node:1 l2:2 core:2", "node:4 core:2"] {
            let machine = Topology::parse(line).unwrap();
            let found = machine.line().unwrap();
            assert_eq!(shape(&Topology::parse(&found).unwrap()), shape(&machine), "{line} became {found}");
        }
        let mut lame = Topology::parse("node:2 l3:1 core:2").unwrap();
        lame.caches.pop();
        assert_eq!(lame.line(), None);
    }

    #[test]
    fn nothing_is_one_pu() {
        let machine = Topology::parse("").unwrap();
        assert_eq!((machine.pus.len(), machine.nodes.len(), machine.cores.len()), (1, 1, 1));
    }
}
