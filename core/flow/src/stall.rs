//! The reason of a quiescent request without an end: the cycle of boxes that wait for each other, by name.
//!
//! The wait-for graph is exact: no box runs, a refused box waits for its receiver, and any other unfinished box waits
//! for its empty inputs without a pill.

use crate::FlowError;
use crate::instance::{Body, Instance};
use std::collections::BTreeMap;

impl Instance {
    /// To be called when the request is quiescent, by the thread that settles it.
    pub(crate) fn explain_stall(&self) -> FlowError {
        let count = self.cells.len();
        let waits: Vec<Vec<(usize, String)>> = (0..count).map(|index| self.waits_of(index)).collect();
        let mut seen = vec![false; count];
        for start in (0..count).filter(|&index| self.cells[index].state.is_blocked()) {
            if let Some(cycle) = find_cycle(&waits, start, &mut seen) {
                return FlowError::Stalled { cycle };
            }
        }
        let silent = (0..count).filter(|&index| {
            let owes = self.body(index, |body| body.outputs.iter().any(|o| !o.pill_sent && !o.is_closed()));
            waits[index].is_empty() && owes
        });
        FlowError::Unfinished { boxes: silent.map(|index| self.model().boxes()[index].name().to_owned()).collect() }
    }

    /// The boxes a box waits for, with the reasons.
    fn waits_of(&self, index: usize) -> Vec<(usize, String)> {
        let name = |index: usize| self.model().boxes()[index].name();
        let mut waits = Vec::new();
        self.body(index, |body| {
            for receiver in body.outputs.iter().flat_map(|output| &output.receivers) {
                if !receiver.pending.is_empty() {
                    let (to, input) = (name(receiver.cell), receiver.input);
                    waits.push((receiver.cell, format!("{} waits for room at input {input} of {to}", name(index))));
                }
            }
        });
        if waits.is_empty() {
            for (number, input) in self.cells[index].inputs.iter().enumerate() {
                let more = self.body(input.sender, |body| {
                    let to_us = |output: &&crate::instance::Output| {
                        output.receivers.iter().any(|r| r.cell == index && r.input == number)
                    };
                    body.outputs.iter().find(to_us).is_some_and(|output| {
                        let pending = output.receivers.iter().any(|r| r.cell == index && !r.pending.is_empty());
                        !output.pill_sent || pending
                    })
                });
                if input.ring.is_empty() && !input.ring.is_closed() && more {
                    let from = name(input.sender);
                    waits.push((input.sender, format!("{} waits for input {number} from {from}", name(index))));
                }
            }
        }
        waits
    }

    fn body<R>(&self, index: usize, f: impl FnOnce(&Body) -> R) -> R {
        self.cells[index].body.with(|body| {
            #[expect(unsafe_code, reason = "looks at the bodies of boxes that no longer run")]
            // SAFETY: the request is quiescent, its counters were read with acquire, and only the settling thread comes
            // here: no box runs, and all their writes are visible.
            f(unsafe { &*body })
        })
    }
}

/// The reasons along a cycle reachable from `start`. `seen` are boxes without a reachable cycle; more boxes are added.
fn find_cycle(waits: &[Vec<(usize, String)>], start: usize, seen: &mut [bool]) -> Option<Vec<String>> {
    // The boxes on the path, and how many reasons of each have been followed: the last one followed leads to the next
    // box.
    let mut path: Vec<(usize, usize)> = Vec::new();
    // The position of each box on the path.
    let mut places: BTreeMap<usize, usize> = BTreeMap::new();
    let mut at = start;
    loop {
        if let Some(&from) = places.get(&at) {
            return Some(path[from..].iter().map(|&(index, followed)| waits[index][followed - 1].1.clone()).collect());
        }
        if !std::mem::replace(&mut seen[at], true) {
            places.insert(at, path.len());
            path.push((at, 0));
        }
        // The next reason of the last box with one left.
        loop {
            let (index, followed) = path.last_mut()?;
            let index = *index;
            if let Some((next, _)) = waits[index].get(*followed) {
                *followed += 1;
                at = *next;
                break;
            }
            places.remove(&index);
            path.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(edges: &[&[usize]]) -> Vec<Vec<(usize, String)>> {
        let reason = |from: usize, to: usize| (to, format!("{from} waits for {to}"));
        let of_box = |(from, all): (usize, &&[usize])| all.iter().map(|&to| reason(from, to)).collect();
        edges.iter().enumerate().map(of_box).collect()
    }

    /// The search was once recursive, and a chain of some ten thousand waiting boxes ended the process.
    #[test]
    fn a_cycle_behind_a_hundred_thousand_boxes_is_found_on_any_stack() {
        let count = 100_000;
        let mut waits: Vec<Vec<(usize, String)>> =
            (0..count).map(|index| vec![((index + 1) % count, index.to_string())]).collect();
        let find = |waits: &[Vec<(usize, String)>]| find_cycle(waits, 0, &mut vec![false; count]);
        assert_eq!(find(&waits).map(|cycle| cycle.len()), Some(count));
        // The last ten wait for each other.
        waits[count - 1][0].0 = count - 10;
        let expected: Vec<String> = (count - 10..count).map(|index| index.to_string()).collect();
        assert_eq!(find(&waits), Some(expected));
        waits[count - 1].clear();
        assert_eq!(find(&waits), None);
    }

    #[test]
    fn a_cycle_is_told_without_the_way_to_it_and_without_what_leads_nowhere() {
        let told = |edges: &[&[usize]], start| find_cycle(&waits(edges), start, &mut vec![false; edges.len()]);
        let reasons = |all: &[(usize, usize)]| {
            Some(all.iter().map(|(from, to)| format!("{from} waits for {to}")).collect::<Vec<_>>())
        };
        // 0 → 1 → {2, 3}; 2 leads nowhere, 3 → 4 → 1.
        let edges: &[&[usize]] = &[&[1], &[2, 3], &[], &[4], &[1]];
        assert_eq!(told(edges, 0), reasons(&[(1, 3), (3, 4), (4, 1)]));
        assert_eq!(told(edges, 2), None);
        assert_eq!(told(&[&[0]], 0), reasons(&[(0, 0)]));
        // Reaching a box twice makes no cycle: 0 → {1, 2}, both → 3.
        assert_eq!(told(&[&[1, 2], &[3], &[3], &[]], 0), None);
    }
}
