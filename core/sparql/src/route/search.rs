//! The search for what one start of a path reaches, some triples at a time.
//!
//! It holds each reached pair of a state and a node, and those whose edges are still to be followed. Where a run has
//! temporary files, a search that needs more memory than its box may hold says so ([`Progress::Full`]), and goes on
//! when the box has more, or when [`Search::write`] has written pairs to files.

use super::written::WrittenPairs;
use super::{Automaton, FIRST, LAST, Move};
use crate::boxes::spill::Spiller;
use crate::boxes::{collected, had, room_for_one};
use crate::graphs::Active;
use hashbrown::HashSet;
use std::sync::Arc;
use vicus_files::FileError;
use vicus_flow::Grow;
use vicus_flow::library::HashKey;
use vicus_rdf::{Id, Order, Snapshot};

/// A state of the automaton and a node.
pub(super) type Pair = (u32, Id);

pub(crate) struct Search {
    snapshot: Arc<Snapshot>,
    automaton: Arc<Automaton>,
    graph: Active,
    target: Option<Id>,
    /// All reached pairs; with [`Search::written`], those that are in no file.
    seen: HashSet<Pair, HashKey>,
    /// Pairs whose edges are not all followed, the latest last; with [`Search::written`], the latest ones of them.
    open: Vec<Visit>,
    /// Whether the target was found.
    is_over: bool,
    /// Pairs in files, once it has written some since its beginning.
    written: Option<Box<WrittenPairs>>,
}

/// A reached pair of a state and a node, the current one of its edges, and how many triples of that edge are done.
#[derive(Clone, Copy)]
pub(super) struct Visit {
    pub(super) state: u32,
    pub(super) node: Id,
    pub(super) edge: usize,
    pub(super) done: usize,
}

/// How far a search went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// There are no more ends.
    Over,
    /// The triples are used up, or there are as many ends as were asked for.
    Paused,
    /// The search would hold more than it may.
    Full,
}

/// A search that may hold a limited number of bytes follows so many triples between two looks at them.
pub(super) const STRIDE: usize = 32;

/// About how many bytes a hash table of pairs with this capacity has: its slots, a byte beside each, and a group of
/// bytes at the end.
pub(super) fn table_bytes(capacity: usize) -> u64 {
    if capacity == 0 { 0 } else { (capacity * 8).div_ceil(7) as u64 * (size_of::<Pair>() as u64 + 1) + 16 }
}

/// How many bytes a vector has, and needs meanwhile, when it makes room for a stride more; 0 if it has room.
fn growth<T>(items: &Vec<T>) -> u64 {
    let needed = items.len() + STRIDE + 1;
    if needed <= items.capacity() { 0 } else { (needed.max(2 * items.capacity()) * size_of::<T>()) as u64 }
}

impl Search {
    pub(crate) fn new(snapshot: &Arc<Snapshot>, automaton: &Arc<Automaton>, by: HashKey) -> Search {
        Search {
            snapshot: Arc::clone(snapshot),
            automaton: Arc::clone(automaton),
            graph: Active::One(Id::UNBOUND),
            target: None,
            seen: HashSet::with_hasher(by),
            open: Vec::new(),
            is_over: false,
            written: None,
        }
    }

    /// Begins at a node of a graph. With a target, only the target is reported.
    pub(crate) fn begin(&mut self, graph: &Active, start: Id, target: Option<Id>, found: &mut Vec<u64>) {
        self.graph.clone_from(graph);
        self.written = None;
        self.seen.clear();
        self.open.clear();
        self.target = target;
        self.is_over = false;
        self.reach(FIRST, start, found);
    }

    /// Bytes of the reached pairs and of those still to be visited.
    pub(crate) fn bytes(&self) -> u64 {
        let open = (self.open.capacity() * size_of::<Visit>()) as u64;
        table_bytes(self.seen.capacity()) + open + self.written.as_ref().map_or(0, |written| written.bytes())
    }

    /// Whether pairs of this search are in files.
    pub(crate) fn is_written(&self) -> bool {
        self.written.is_some()
    }

    #[inline]
    fn reach(&mut self, state: u32, node: Id, found: &mut Vec<u64>) {
        if let Some(written) = &mut self.written
            && written.may_have((state, node), self.seen.hasher())
        {
            if !self.seen.contains(&(state, node)) {
                written.put_by((state, node));
            }
            return;
        }
        self.accept(state, node, found);
    }

    /// Adds a pair that no file has.
    fn accept(&mut self, state: u32, node: Id, found: &mut Vec<u64>) {
        room_for_one(self.seen.len(), self.seen.capacity(), size_of::<Pair>(), || self.seen.try_reserve(1).is_ok());
        if !self.seen.insert((state, node)) {
            return;
        }
        if state != LAST {
            self.open.grow_or_give_up(1);
            self.open.push(Visit { state, node, edge: 0, done: 0 });
        } else if self.target.is_none_or(|target| target == node) {
            found.grow_or_give_up(1);
            found.push(node.bits());
            self.is_over = self.target.is_some();
        }
    }

    /// Whether a stride of triples can be followed within `most` bytes for itself and the ends. Makes the room for it.
    pub(crate) fn make_room(&mut self, most: u64, found: &mut Vec<u64>) -> bool {
        if let Some(written) = &self.written {
            let is_new = self.seen.len() + STRIDE <= self.seen.capacity();
            return is_new && self.open.len() + STRIDE < self.open.capacity() && written.has_room();
        }
        let table = match self.seen.len() + STRIDE <= self.seen.capacity() {
            true => 0,
            false => table_bytes((2 * self.seen.capacity()).max(self.seen.len() + STRIDE)) * 2,
        };
        let more = table + growth(&self.open) + growth(found);
        if more == 0 {
            return true;
        }
        if self.bytes() + (found.capacity() * 8) as u64 + more > most {
            return false;
        }
        let reserve = self.seen.len() + STRIDE - self.seen.len().min(self.seen.capacity());
        room_for_one(0, 0, reserve * size_of::<Pair>(), || self.seen.try_reserve(STRIDE).is_ok());
        self.open.grow_or_give_up(STRIDE + 1);
        found.grow_or_give_up(STRIDE + 1);
        true
    }

    /// Continues for at most `triples` triples, or until there are `ends` ends in `found`. It holds at most `most`
    /// bytes together with the ends; without files, as many as it needs ([`u64::MAX`]).
    pub(crate) fn go_on(&mut self, triples: &mut usize, ends: usize, most: u64, found: &mut Vec<u64>) -> Progress {
        let (snapshot, automaton) = (Arc::clone(&self.snapshot), Arc::clone(&self.automaton));
        let graph = self.graph.clone();
        let (is_bounded, stride) = if most == u64::MAX { (false, usize::MAX) } else { (true, STRIDE) };
        loop {
            let Some(&place) = self.open.last() else {
                let is_over = self.is_over || self.written.as_ref().is_none_or(|written| written.is_empty());
                return if is_over { Progress::Over } else { Progress::Full };
            };
            if self.is_over {
                return Progress::Over;
            }
            if *triples == 0 || found.len() >= ends {
                return Progress::Paused;
            }
            let Some((by, to)) = automaton.edges[place.state as usize].get(place.edge) else {
                self.open.pop();
                continue;
            };
            if is_bounded && !self.make_room(most, found) {
                return Progress::Full;
            }
            let at = self.open.len() - 1;
            // The nodes behind the rows are on the second level after the keys. For a negated step, the predicates to
            // skip are on the first one.
            let (order, ids, count, but): (_, _, _, &[Id]) = match by {
                Move::Stay => {
                    self.open[at].edge += 1;
                    *triples -= 1;
                    self.reach(*to, place.node, found);
                    continue;
                }
                Move::Forward(predicate) => (Order::Gpso, [*predicate, place.node], 2, &[]),
                Move::Backward(predicate) => (Order::Gpos, [*predicate, place.node], 2, &[]),
                Move::ForwardNot(but) => (Order::Gspo, [place.node; 2], 1, but),
                Move::BackwardNot(but) => (Order::Gops, [place.node; 2], 1, but),
            };
            let (index, rows) = graph.rows(&snapshot, order, ids, count);
            let above = index.key_level();
            let next = rows.start + place.done;
            let end = rows.end.min(next + (*triples).min(stride));
            *triples = triples.saturating_sub((end - next).max(1));
            if end == rows.end {
                self.open[at] = Visit { edge: place.edge + 1, done: 0, ..place };
            } else {
                self.open[at].done = end - rows.start;
            }
            for row in next..end {
                if graph.has(index, row) && (but.is_empty() || !but.contains(&index.get(above + 1, row))) {
                    self.reach(*to, index.get(above + 2, row), found);
                }
            }
        }
    }

    /// Makes room by files for a search that is [`Progress::Full`] within about `bytes` bytes, and finds out which of
    /// the pairs that it has put by are new. Returns the number of bytes written. `stopped` tells whether the request
    /// was cancelled.
    ///
    /// # Errors
    /// The disk is full, or the system refuses.
    pub(crate) fn write(
        &mut self,
        spiller: &Spiller,
        bytes: u64,
        stopped: &dyn Fn() -> bool,
        found: &mut Vec<u64>,
    ) -> Result<u64, FileError> {
        let mut written = self.written.take().unwrap_or_else(|| Box::new(WrittenPairs::new(spiller, bytes)));
        let new = self.settle(&mut written, stopped);
        self.written = Some(written);
        for (state, node) in new? {
            self.accept(state, node, found);
        }
        Ok(self.written.as_mut().map_or(0, |written| written.take_count()))
    }

    /// Moves pairs to files where there is no room; the new ones among those that were put by.
    fn settle(&mut self, written: &mut WrittenPairs, stopped: &dyn Fn() -> bool) -> Result<Vec<Pair>, FileError> {
        let by = *self.seen.hasher();
        // All that were put by may turn out to be new.
        if self.seen.len() + written.most_put_by() > written.most_seen() {
            written.add(&mut self.seen.drain(), &by, stopped)?;
        }
        if self.open.len() + written.most_put_by() >= written.most_open() {
            let older = self.open.len().saturating_sub(written.most_open() / 4);
            written.put_aside(&self.open[..older])?;
            self.open.drain(..older);
        }
        if written.sets_up() {
            // The table and the stack had any size before, and what they have now fits the smaller ones.
            let seen: Vec<Pair> = collected(self.seen.drain());
            self.seen = HashSet::with_hasher(by);
            let most = written.most_seen();
            room_for_one(0, 0, most * size_of::<Pair>(), || self.seen.try_reserve(most).is_ok());
            self.seen.extend(seen);
            let mut open = had(Vec::with_room(written.most_open()));
            open.append(&mut self.open);
            self.open = open;
        }
        let new = written.settle(stopped)?;
        if self.open.is_empty() && new.is_empty() {
            written.take_back(&mut self.open)?;
        }
        Ok(new)
    }
}
