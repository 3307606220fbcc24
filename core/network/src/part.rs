//! The part of a network that one of several processes runs.
//!
//! All processes make the same boxes of a text and its parameters, each adds its own to a model, and an output that
//! boxes of another process read gets a box there that brings its rows, and one here that sends them. The columns of an
//! output are known where its box is made. Boxes are made in one order everywhere, each behind its senders, so waiting
//! for columns from another process comes to an end.
//!
//! Boxes that wait for each other in a circle over several processes are seen as such by none of them. Envelopes go
//! round in no model, so such a circle needs two ways between two boxes. Links on two ways hold more as soon as they
//! are full, and the rest holds its bounds.

use crate::build::{MachineCounts, Sources};
use crate::expand::Node;
use crate::spec::{BoxSpec, KindError, Kinds};
use crate::text::{Argument, BoxText, NetworkText, TextParameter};
use crate::value::ParameterValue;
use std::collections::BTreeMap;
use vicus_flow::{BoxModel, Schema};

/// The part of a network that a process runs.
pub struct NetworkPart<'p> {
    /// The machine of each process: first of the one that the network was begun in, then of nodes 1, 2, ….
    pub processes: &'p [MachineCounts],
    /// The process.
    pub own: usize,
    /// The way to the others.
    pub border: &'p dyn Border,
}

impl NetworkText {
    /// The box, or the parameter, on account of which the network can't be run again from its beginning: its rows
    /// come once, or its effects add up. `None` if it can.
    pub fn runs_once(&self, kinds: &Kinds, set: &[(String, String)]) -> Option<&str> {
        let stream = ParameterValue::Text("-".to_owned());
        let streams = |parameter: &&TextParameter| {
            parameter.default == Some(stream.clone())
                || set.iter().any(|(name, value)| *name == parameter.name && value == "-")
        };
        if let Some(parameter) = self.parameters.iter().find(streams) {
            return Some(&parameter.name);
        }
        let once = |one: &&BoxText| {
            let streams = |argument: &Argument| argument.value == stream;
            kinds.get(&one.kind).is_some_and(BoxSpec::is_once) || one.arguments.iter().any(streams)
        };
        let bodies = self.networks.iter().map(|network| &network.body).chain([&self.body]);
        bodies.flat_map(|body| &body.boxes).find(once).map(|one| one.name.as_str())
    }
}

/// The way from a process to the others.
pub trait Border {
    /// A box with one input, for rows that go to another process, and one output without columns that ends with them.
    ///
    /// # Errors
    /// The other one can't be reached.
    fn send(&self, crossing: &Crossing, rows: &CrossingRows) -> Result<BoxModel, KindError>;

    /// A source of the rows that come from another process, and what is known of them, which it may wait for.
    ///
    /// # Errors
    /// The other one can't be reached, or has failed.
    fn receive(&self, crossing: &Crossing) -> Result<(BoxModel, CrossingRows), KindError>;

    /// Whether the network is still wanted. It is asked for each box.
    fn goes_on(&self) -> bool;
}

/// The facts about an output's rows that boxes of another process need.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossingRows {
    /// Their columns.
    pub schema: Schema,
    /// Whether they come without an end.
    pub is_endless: bool,
}

/// The rows of an output that boxes of another process read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// Its number in the network, the same in all processes.
    pub number: u32,
    /// The process that sends.
    pub from: usize,
    /// The process that receives.
    pub to: usize,
    /// The box that sends, by its name in the text.
    pub name: String,
}

/// All crossings, by box, output and the process that reads.
pub(crate) struct Crossings(BTreeMap<(usize, usize, usize), Way>);

/// A crossing's number, and whether one of its readers meets its rows on another way.
#[derive(Clone, Copy, Default)]
struct Way {
    number: u32,
    meets: bool,
}

impl Crossings {
    /// `meets` says for each input of each box whether it lies on a circle.
    pub(crate) fn of(nodes: &[Node<'_>], all: &[Sources<'_>], meets: &[Vec<bool>]) -> Crossings {
        let mut ways: BTreeMap<_, Way> = BTreeMap::new();
        for (reader, (sources, meets)) in all.iter().zip(meets).enumerate() {
            let to = nodes[reader].process;
            for (&(from, output, _), meets) in sources.iter().zip(meets) {
                if nodes[from].process != to {
                    ways.entry((from, output, to)).or_default().meets |= meets;
                }
            }
        }
        ways.values_mut().zip(0..).for_each(|(way, number)| way.number = number);
        Crossings(ways)
    }

    /// The crossing of an output that boxes of another process read.
    pub(crate) fn of_output(&self, nodes: &[Node<'_>], from: usize, output: usize, to: usize) -> Crossing {
        let Way { number, .. } = self.0[&(from, output, to)];
        Crossing { number, from: nodes[from].process, to, name: nodes[from].name.clone() }
    }

    /// The crossings of a box's outputs, each with its output, and whether a reader meets its rows on another way.
    pub(crate) fn leaving(&self, nodes: &[Node<'_>], from: usize) -> impl Iterator<Item = (usize, Crossing, bool)> {
        let of_box = self.0.range((from, 0, 0)..(from + 1, 0, 0));
        of_box.map(move |(&(_, output, to), way)| (output, self.of_output(nodes, from, output, to), way.meets))
    }
}

/// For each input of each box, whether there is another way, in any direction of vias, between its two boxes.
pub(crate) fn on_circles(nodes: usize, all: &[Sources<'_>]) -> Vec<Vec<bool>> {
    // The bridges of a graph by Tarjan's numbers: a via is the only way if nobody behind it reaches further back.
    let ends: Vec<(usize, usize)> =
        all.iter().enumerate().flat_map(|(to, sources)| sources.iter().map(move |(from, ..)| (*from, to))).collect();
    let mut ways: Vec<Vec<(usize, usize)>> = vec![Vec::new(); nodes];
    for (via, &(from, to)) in ends.iter().enumerate() {
        ways[from].push((to, via));
        ways[to].push((from, via));
    }
    let mut number = vec![usize::MAX; nodes];
    let mut least = number.clone();
    let mut is_bridge = vec![false; ends.len()];
    let mut next = 0;
    for start in 0..nodes {
        // The boxes on the way from the start: how many of their ways were gone, and the via that led there.
        let mut path: Vec<(usize, usize, usize)> = Vec::new();
        if number[start] == usize::MAX {
            (number[start], least[start], next) = (next, next, next + 1);
            path.push((start, 0, usize::MAX));
        }
        while let Some((at, gone, came)) = path.last_mut() {
            let (box_here, via_here) = (*at, *came);
            if let Some(&(other, via)) = ways[box_here].get(*gone) {
                *gone += 1;
                if via == via_here {
                    continue;
                }
                if number[other] == usize::MAX {
                    (number[other], least[other], next) = (next, next, next + 1);
                    path.push((other, 0, via));
                } else {
                    least[box_here] = least[box_here].min(number[other]);
                }
                continue;
            }
            path.pop();
            if let Some((before, ..)) = path.last() {
                is_bridge[via_here] = least[box_here] > number[*before];
                least[*before] = least[*before].min(least[box_here]);
            }
        }
    }
    let mut is_bridge = is_bridge.into_iter();
    all.iter().map(|sources| sources.iter().map(|_| is_bridge.next() == Some(false)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether one box leads to another, in any direction of vias, without one of them.
    fn leads(nodes: usize, ends: &[(usize, usize)], without: usize) -> bool {
        let (from, to) = ends[without];
        let mut seen = vec![false; nodes];
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut seen[at], true) {
                let others = ends.iter().enumerate().filter(|(via, _)| *via != without);
                open.extend(others.filter_map(|(_, &(a, b))| match at {
                    at if at == a => Some(b),
                    at if at == b => Some(a),
                    _ => None,
                }));
            }
        }
        seen[to]
    }

    /// Against the definition: a via is on a circle if its boxes are joined without it.
    #[test]
    fn vias_on_circles_are_those_that_others_go_round() {
        let mut seed = 7u64;
        let mut next = |below: u64| {
            // Numbers by chance, of xorshift.
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        for round in 0..2_000 {
            let nodes = 2 + next(9) as usize;
            let mut all: Vec<Sources<'_>> = vec![Vec::new(); nodes];
            let mut ends = Vec::new();
            for (to, sources) in all.iter_mut().enumerate().skip(1) {
                for _ in 0..next(3) {
                    let from = next(to as u64) as usize;
                    sources.push((from, 0, Vec::new()));
                    ends.push((from, to));
                }
            }
            let found: Vec<bool> = on_circles(nodes, &all).into_iter().flatten().collect();
            let expected: Vec<bool> = (0..ends.len()).map(|via| leads(nodes, &ends, via)).collect();
            assert_eq!(found, expected, "round {round}: {ends:?}");
        }
    }
}
