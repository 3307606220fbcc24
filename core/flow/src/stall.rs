//! A quiescent request without an end: the cycle of boxes that wait for each other, and the overdraft that ends it.
//!
//! The wait-for graph is exact: no box runs, a refused box waits for its receiver, and any other unfinished box waits
//! for its empty inputs without a pill. Beside paused boxes, which may go on by themselves, only boxes are looked at
//! that nothing but each other can wake ([`Live::stuck`]). Of the full vias on a cycle, the one that holds the least
//! may hold more (Parks' rule): its sender keeps the envelopes, booked to the request's budget, and goes on. An
//! overdraft at least doubles what a via holds, so a via gets few of them, however much it has to hold in the end.

use crate::instance::{Body, BoxCell, Instance, Output, Receiver};
use crate::overflow::Outside;
use crate::seat_buffers::Activation;
use crate::sync::Ordering;
use crate::{Bound, FlowError};
use std::collections::BTreeMap;
use vicus_schedule::Kind;

/// A reason to wait for another box.
#[derive(Clone, Copy, Debug)]
enum Wait {
    /// Room for an output's envelopes, by their place among its receivers.
    Room { output: usize, receiver: usize },
    /// Envelopes for an input.
    Input(usize),
}

/// The least bytes of an overdraft.
const LEAST: u64 = 64 << 10;

impl Instance {
    /// Lets a via of a cycle hold more, and gives its sender, counted as queued. To be called when the request is
    /// quiescent, by the thread that settles it.
    ///
    /// # Errors
    /// There is no cycle, or the budget is used up.
    #[cold]
    pub(crate) fn overdraw(&self) -> Result<Activation, FlowError> {
        let live = Live::of(self);
        let count = live.cells.len();
        let waits: Vec<Vec<(usize, Wait)>> = live.cells.iter().map(|cell| live.waits_of(cell)).collect();
        let mut seen = vec![false; count];
        let is_refused = |index: &usize| waits[*index].iter().any(|(_, wait)| matches!(wait, Wait::Room { .. }));
        for start in (0..count).filter(is_refused) {
            if let Some(cycle) = find_cycle(&waits, start, &mut seen) {
                return self.lend(&live, &cycle).map_err(|why| live.stalled(&cycle, why));
            }
        }
        let silent = (0..count).filter(|&index| {
            let owes = live.body(index, |body| body.outputs.iter().any(|o| !o.pill_sent && !o.is_closed()));
            waits[index].is_empty() && owes
        });
        Err(FlowError::Unfinished { boxes: silent.map(|index| live.name(index)).collect() })
    }

    /// Like [`Instance::overdraw`], for a request whose other boxes are paused, and held by the caller. `None`: no
    /// boxes wait for each other alone.
    ///
    /// # Errors
    /// Some do, and the budget is used up.
    #[cold]
    pub(crate) fn overdraw_beside_paused(&self) -> Result<Option<Activation>, FlowError> {
        let live = Live::of(self);
        if !(0..live.cells.len()).any(|place| live.body(place, |body| body.waits())) {
            self.forget_refusals();
            return Ok(None);
        }
        let mut waits: Vec<Vec<(usize, Wait)>> = live.cells.iter().map(|cell| live.waits_of(cell)).collect();
        let stuck = live.stuck(&waits);
        for (place, waits) in waits.iter_mut().enumerate() {
            waits.retain(|&(other, _)| stuck[place] && stuck[other]);
        }
        let mut seen = vec![false; live.cells.len()];
        let is_room = |(_, wait): &(usize, Wait)| matches!(wait, Wait::Room { .. });
        for start in (0..live.cells.len()).filter(|&place| waits[place].iter().any(is_room)) {
            if let Some(cycle) = find_cycle(&waits, start, &mut seen).filter(|cycle| cycle.iter().any(is_room)) {
                return self.lend(&live, &cycle).map(Some).map_err(|why| live.stalled(&cycle, why));
            }
        }
        Ok(None)
    }

    /// The overdraft of a cycle's full via that holds the least, or a place for it outside of memory. Gives its sender.
    ///
    /// # Errors
    /// The budget has no room for any, and there is no such place, for this reason.
    fn lend(&self, live: &Live<'_>, cycle: &[(usize, Wait)]) -> Result<Activation, Option<String>> {
        if self.keeps_bounds() {
            return Err(None);
        }
        let full = |&(sender, wait): &(usize, Wait)| match wait {
            Wait::Room { output, receiver } => Some((live.held_by(sender, output, receiver), sender, output, receiver)),
            Wait::Input(_) => None,
        };
        let mut vias: Vec<(u64, usize, usize, usize)> = cycle.iter().filter_map(full).collect();
        vias.sort_unstable();
        let goes_on = |sender: usize| {
            let cell = live.cells[sender];
            assert!(cell.state.resume().0, "a box that waits for room is queued by it");
            self.activation(cell, Kind::Deferred, None)
        };
        let lent = vias.iter().find_map(|&(_, sender, output, receiver)| {
            let more = live.body(sender, |body| {
                let via = &mut body.outputs[output];
                let more = self.lend_to(live.cells[sender], output, &mut via.receivers[receiver])?;
                via.lent = Some(more);
                Some(more)
            });
            more.map(|_| sender)
        });
        if let Some(sender) = lent {
            return Ok(goes_on(sender));
        }
        let mut why = None;
        for (_, sender, output, receiver) in vias {
            let went = live.body(sender, |body| {
                let via = &mut body.outputs[output];
                self.let_out(&mut via.receivers[receiver]).inspect(|()| via.lent = Some(0))
            });
            match went {
                Ok(()) => return Ok(goes_on(sender)),
                Err(reason) => why = reason.or(why),
            }
        }
        Err(why)
    }

    /// Lets a full via hold more, or keep envelopes outside of memory, without waiting until nothing else can be done.
    /// Gives the bytes lent, 0 for a place outside of memory.
    ///
    /// # Errors
    /// The budget has no room for any, and there is no such place, for this reason.
    #[cold]
    pub(crate) fn widen(&self, sender: &BoxCell, output: usize, via: &mut Receiver) -> Result<u64, Option<String>> {
        if self.keeps_bounds() && !via.goes_round {
            return Err(None);
        }
        match self.lend_to(sender, output, via) {
            Some(more) => Ok(more),
            None => self.let_out(via).map(|()| 0),
        }
    }

    /// An overdraft for a via that may be lent one. Gives its bytes.
    fn lend_to(&self, sender: &BoxCell, output: usize, via: &mut Receiver) -> Option<u64> {
        let (waiting, has) = (via.pending_bytes, via.overdraft);
        let bound = via.ring().bound().bytes.min(Bound::default().bytes);
        // What waits and as much again, at least as much as the receiver's input holds; else as much as there is.
        let twice = waiting.max(has).saturating_mul(2);
        let amounts = [twice.max(bound).max(LEAST), twice, waiting];
        let more = amounts
            .into_iter()
            .filter_map(|bytes| bytes.checked_sub(has).filter(|more| *more > 0))
            .find(|&more| self.account().is_none_or(|account| account.book(more).is_ok()))?;
        self.overdraft.fetch_add(more, Ordering::Relaxed);
        sender.tally().overdrawn(output, more);
        via.overdraft += more;
        Some(more)
    }

    /// Vias that are over hold nothing more beyond their bounds. Otherwise each fragment of a long chain would leave
    /// its overdrafts with the request's budget until the request is over.
    #[cold]
    pub(crate) fn give_overdrafts_back(&self, bytes: u64) {
        self.overdraft.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(account) = self.account() {
            account.give_back(bytes);
        }
    }

    /// A place outside of memory for a via's newest envelopes.
    ///
    /// # Errors
    /// It has one that takes no more, for this reason, or the request has none.
    fn let_out(&self, via: &mut Receiver) -> Result<(), Option<String>> {
        if let Some(outside) = &via.outside {
            return Err(Some(outside.full().unwrap_or("attached values can't be written").to_owned()));
        }
        let Some(overflows) = self.overflows.get() else { return Err(None) };
        let queue = overflows.begin().map_err(|error| Some(error.to_string()))?;
        via.outside = Some(Box::new(Outside::new(queue)));
        Ok(())
    }
}

/// The boxes of a quiescent request, by their places here.
struct Live<'a> {
    instance: &'a Instance,
    cells: Vec<&'a BoxCell>,
    /// By index; boxes of fragments that have ended leave gaps.
    places: Vec<usize>,
}

impl<'a> Live<'a> {
    fn of(instance: &'a Instance) -> Live<'a> {
        let cells = instance.cells.all();
        let mut places = vec![usize::MAX; cells.iter().map(|cell| cell.index + 1).max().unwrap_or(0)];
        cells.iter().enumerate().for_each(|(place, cell)| places[cell.index] = place);
        Live { instance, cells, places }
    }

    fn place(&self, cell: &BoxCell) -> usize {
        self.places[cell.index]
    }

    fn name(&self, place: usize) -> String {
        self.instance.name_of(self.cells[place].index)
    }

    /// The bytes of a via: in the receiver's buffer, and waiting for it.
    fn held_by(&self, sender: usize, output: usize, receiver: usize) -> u64 {
        self.body(sender, |body| {
            let via = &body.outputs[output].receivers[receiver];
            via.ring().bytes() + via.pending_bytes
        })
    }

    fn stalled(&self, cycle: &[(usize, Wait)], outside: Option<String>) -> FlowError {
        let told = |&(from, wait): &(usize, Wait)| match wait {
            Wait::Room { output, receiver } => {
                let held = self.held_by(from, output, receiver);
                let (to, input) = self.body(from, |body| {
                    let via = &body.outputs[output].receivers[receiver];
                    (self.name(self.place(&via.cell)), via.input)
                });
                format!("{} waits for room at input {input} of {to}, where {held} bytes wait", self.name(from))
            }
            Wait::Input(number) => {
                let sender = self.cells[from].inputs[number].sender().expect("it sends, and nobody has let go of it");
                format!("{} waits for input {number} from {}", self.name(from), self.name(self.place(&sender)))
            }
        };
        FlowError::Stalled { cycle: cycle.iter().map(told).collect(), outside }
    }

    /// By place, whether nothing can wake a box but boxes of which the same is true. An empty input's sender can, any
    /// of them, since a box may go on with whichever comes first; so can a receiver with room, if it is the only one
    /// that has none.
    fn stuck(&self, waits: &[Vec<(usize, Wait)>]) -> Vec<bool> {
        let mut stuck: Vec<bool> = waits.iter().map(|waits| !waits.is_empty()).collect();
        let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); waits.len()];
        for (place, waits) in waits.iter().enumerate() {
            waits.iter().for_each(|&(other, _)| waiting[other].push(place));
        }
        let mut free: Vec<usize> = (0..waits.len()).filter(|&place| !stuck[place]).collect();
        while let Some(other) = free.pop() {
            for &place in &waiting[other] {
                if stuck[place] && !self.is_stuck(place, &waits[place], &stuck) {
                    stuck[place] = false;
                    free.push(place);
                }
            }
        }
        stuck
    }

    /// Whether a box has to wait for as long as these others do not go on.
    fn is_stuck(&self, place: usize, waits: &[(usize, Wait)], stuck: &[bool]) -> bool {
        let mut by_output: BTreeMap<usize, bool> = BTreeMap::new();
        for &(other, wait) in waits {
            if let Wait::Room { output, .. } = wait {
                *by_output.entry(output).or_default() |= stuck[other];
            }
        }
        let goes_on_with_input = waits.iter().any(|&(other, wait)| matches!(wait, Wait::Input(_)) && !stuck[other]);
        if by_output.is_empty() || goes_on_with_input {
            return !goes_on_with_input;
        }
        let needs_all = self.body(place, |body| !body.any_room && body.is_held_up());
        if needs_all { by_output.into_values().any(|stuck| stuck) } else { by_output.into_values().all(|stuck| stuck) }
    }

    /// The boxes a box waits for, with the reasons. A paused box waits for none.
    fn waits_of(&self, cell: &BoxCell) -> Vec<(usize, Wait)> {
        let mut waits = Vec::new();
        if cell.pause.is_held() {
            return waits;
        }
        self.body(self.place(cell), |body| {
            for (output, out) in body.outputs.iter().enumerate() {
                let refused = out.receivers.iter().enumerate().filter(|(_, receiver)| receiver.is_refused());
                waits.extend(
                    refused
                        .map(|(place, receiver)| (self.place(&receiver.cell), Wait::Room { output, receiver: place })),
                );
            }
        });
        // One that has paused with envelopes within an overdraft is woken by their receivers alone.
        if waits.is_empty() && cell.state.is_blocked() {
            self.body(self.place(cell), |body| {
                for (output, out) in body.outputs.iter().enumerate() {
                    let waiting = out.receivers.iter().enumerate().filter(|(_, via)| via.waits());
                    waits.extend(
                        waiting.map(|(place, via)| (self.place(&via.cell), Wait::Room { output, receiver: place })),
                    );
                }
            });
        }
        // One with room elsewhere goes on with what comes as well.
        if waits.is_empty() || !cell.state.is_blocked() {
            for (number, input) in cell.inputs.iter().enumerate() {
                let Some(sender) = input.sender() else { continue };
                let sender = self.place(&sender);
                let is_ours = |via: &Receiver| !via.let_go && std::ptr::eq(&*via.cell, cell) && via.input == number;
                let more = self.body(sender, |body| {
                    let to_us = |output: &&mut Output| output.receivers.iter().any(is_ours);
                    body.outputs.iter_mut().find(to_us).is_some_and(|output| {
                        let pending = output.receivers.iter().any(|via| is_ours(via) && via.waits());
                        !output.pill_sent || pending
                    })
                });
                if input.is_empty() && !input.ring.is_closed() && more {
                    waits.push((sender, Wait::Input(number)));
                }
            }
        }
        waits
    }

    /// `f` looks at no other body.
    fn body<R>(&self, place: usize, f: impl FnOnce(&mut Body) -> R) -> R {
        self.cells[place].body.with_mut(|body| {
            #[expect(unsafe_code, reason = "looks at the bodies of boxes that do not run")]
            // SAFETY: the request is quiescent but for paused boxes, its counters were read with acquire, and only the
            // settling thread comes here (`settled`), or the only one of a stepped request. This thread holds the
            // paused boxes: no box runs, and all their writes are visible. `f` gets one body at a time.
            f(unsafe { &mut *body })
        })
    }
}

/// The boxes along a cycle reachable from `start`, each with its reason. `seen` are boxes without a reachable cycle;
/// more boxes are added.
fn find_cycle<W: Copy>(waits: &[Vec<(usize, W)>], start: usize, seen: &mut [bool]) -> Option<Vec<(usize, W)>> {
    // The boxes on the path, and how many reasons of each have been followed: the last one followed leads to the next
    // box.
    let mut path: Vec<(usize, usize)> = Vec::new();
    // The position of each box on the path.
    let mut places: BTreeMap<usize, usize> = BTreeMap::new();
    let mut at = start;
    loop {
        if let Some(&from) = places.get(&at) {
            return Some(path[from..].iter().map(|&(index, followed)| (index, waits[index][followed - 1].1)).collect());
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

    fn waits(edges: &[&[usize]]) -> Vec<Vec<(usize, usize)>> {
        edges.iter().map(|all| all.iter().map(|&to| (to, to)).collect()).collect()
    }

    /// The search was once recursive, and a chain of some ten thousand waiting boxes ended the process.
    #[test]
    fn a_cycle_behind_a_hundred_thousand_boxes_is_found_on_any_stack() {
        let count = 100_000;
        let mut waits: Vec<Vec<(usize, ())>> = (0..count).map(|index| vec![((index + 1) % count, ())]).collect();
        let find = |waits: &[Vec<(usize, ())>]| find_cycle(waits, 0, &mut vec![false; count]);
        assert_eq!(find(&waits).map(|cycle| cycle.len()), Some(count));
        // The last ten wait for each other.
        waits[count - 1][0].0 = count - 10;
        let expected: Vec<(usize, ())> = (count - 10..count).map(|index| (index, ())).collect();
        assert_eq!(find(&waits), Some(expected));
        waits[count - 1].clear();
        assert_eq!(find(&waits), None);
    }

    #[test]
    fn a_cycle_is_told_without_the_way_to_it_and_without_what_leads_nowhere() {
        let told = |edges: &[&[usize]], start| find_cycle(&waits(edges), start, &mut vec![false; edges.len()]);
        let reasons = |all: &[(usize, usize)]| Some(all.to_vec());
        // 0 → 1 → {2, 3}; 2 leads nowhere, 3 → 4 → 1.
        let edges: &[&[usize]] = &[&[1], &[2, 3], &[], &[4], &[1]];
        assert_eq!(told(edges, 0), reasons(&[(1, 3), (3, 4), (4, 1)]));
        assert_eq!(told(edges, 2), None);
        assert_eq!(told(&[&[0]], 0), reasons(&[(0, 0)]));
        // Reaching a box twice makes no cycle: 0 → {1, 2}, both → 3.
        assert_eq!(told(&[&[1, 2], &[3], &[3], &[]], 0), None);
    }
}
