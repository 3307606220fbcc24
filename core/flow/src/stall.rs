//! Why a quiescent request has not ended: the circle of boxes that wait for each other, by name.
//!
//! The wait-for graph is exact: no box runs, a box that was refused waits for its receiver, and any other box that has
//! not finished waits for the inputs that are empty and whose pill has not come.

use crate::FlowError;
use crate::instance::{Body, Instance};

impl Instance {
    /// To be called when the request is quiescent, by the one who settles it.
    pub(crate) fn explain_stall(&self) -> FlowError {
        let count = self.cells.len();
        let waits: Vec<Vec<(usize, String)>> = (0..count).map(|index| self.waits_of(index)).collect();
        for start in (0..count).filter(|&index| self.cells[index].state.is_blocked()) {
            if let Some(cycle) = find_cycle(&waits, start) {
                return FlowError::Stalled { cycle };
            }
        }
        let silent = (0..count).filter(|&index| {
            let owes = self.body(index, |body| body.outputs.iter().any(|o| !o.pill_sent && !o.is_closed()));
            waits[index].is_empty() && owes
        });
        FlowError::Unfinished { boxes: silent.map(|index| self.model().boxes()[index].name().to_owned()).collect() }
    }

    /// For whom a box waits, and why.
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
            #[expect(unsafe_code, reason = "looks at bodies that nobody runs")]
            // SAFETY: the request is quiescent, its counters were read with acquire, and only the one that settles it
            // comes here: no box runs, and all their writes are visible.
            f(unsafe { &*body })
        })
    }
}

/// The reasons along a cycle that is reached from `start`.
fn find_cycle(waits: &[Vec<(usize, String)>], start: usize) -> Option<Vec<String>> {
    /// `path` holds the boxes on the way and which of their reasons is being followed.
    fn walk(
        waits: &[Vec<(usize, String)>],
        at: usize,
        path: &mut Vec<(usize, usize)>,
        seen: &mut [bool],
    ) -> Option<Vec<String>> {
        if let Some(from) = path.iter().position(|&(index, _)| index == at) {
            return Some(path[from..].iter().map(|&(index, reason)| waits[index][reason].1.clone()).collect());
        }
        if std::mem::replace(&mut seen[at], true) {
            return None;
        }
        for (reason, (next, _)) in waits[at].iter().enumerate() {
            path.push((at, reason));
            if let Some(cycle) = walk(waits, *next, path, seen) {
                return Some(cycle);
            }
            path.pop();
        }
        None
    }
    walk(waits, start, &mut Vec::new(), &mut vec![false; waits.len()])
}
