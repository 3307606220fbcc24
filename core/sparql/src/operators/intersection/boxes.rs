//! Finds the values that several patterns have in common for a row, by intersecting sorted lists: one step of a
//! worst-case-optimal join.
//!
//! Joining a triangle's sides two at a time makes all pairs of neighbouring sides, most of which no third side closes.
//! Here a row has the ends of a side, and the lists of both ends' neighbours are intersected: in time for the shorter
//! one, however long the other is. Ngo, Porat, Ré and Rudra, "Worst-case optimal join algorithms", PODS 2012;
//! Veldhuizen, "Leapfrog Triejoin", ICDT 2014. We differ: each value is a join of its own in a plan, so other ways to
//! join come before and behind it.

use crate::boxes::join::{Core, JoinSpec, Pairs, Probe, ProbeState};
use crate::boxes::{Pace, slices};
use crate::operators::index_join::Source;
use crate::terms::Terms;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, Operator, Turn, Unfilled};
use vicus_rdf::{Cursor, Id, Index, Order, Reader, Searcher, Snapshot};

/// The level of a list's values: the last one, so that each value is in a list once.
pub(crate) const LEVEL: usize = 3;

/// Searches of the shortest list's values in the other lists between two looks whether the box was stopped.
const BETWEEN_LOOKS: usize = 1024;

/// A list: the rows of an index that begin with these values.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ListSpec {
    pub(crate) order: Order,
    pub(crate) prefix: [Source; LEVEL],
}

#[derive(Clone)]
pub(crate) struct Intersection {
    snapshot: Arc<Snapshot>,
    lists: Arc<[ListSpec]>,
    /// For each list that only the last value of the prefix leads to: finds it.
    searchers: Vec<Option<Searcher>>,
}

impl Intersection {
    pub(crate) fn new(snapshot: &Arc<Snapshot>, lists: &Arc<[ListSpec]>) -> Intersection {
        let searcher = |list: &ListSpec| match list.prefix {
            [Source::Constant(first), Source::Constant(second), Source::Column(_)] => {
                Some(snapshot.index(list.order).searcher(&[first, second]))
            }
            _ => None,
        };
        let searchers = lists.iter().map(searcher).collect();
        Intersection { snapshot: Arc::clone(snapshot), lists: Arc::clone(lists), searchers }
    }
}

/// A list of the row at hand.
struct List<'a> {
    spec: &'a ListSpec,
    index: &'a Index,
    searcher: Option<&'a mut Searcher>,
    cursor: Cursor<'a>,
    reader: Reader,
    /// The places from which on values are looked for.
    rest: Range<usize>,
}

impl<'a> List<'a> {
    fn new(spec: &'a ListSpec, searcher: &'a mut Option<Searcher>, snapshot: &'a Snapshot) -> List<'a> {
        let index = snapshot.index(spec.order);
        let searcher = searcher.as_mut();
        List { spec, index, searcher, cursor: index.cursor(), reader: index.reader(LEVEL), rest: 0..0 }
    }

    /// Goes to the list of a row.
    fn begin(&mut self, columns: &[&[u64]], row: usize) {
        let ids = self.spec.prefix.map(|source| source.id(columns, row));
        self.rest = match &mut self.searcher {
            Some(searcher) => searcher.find(self.index, ids[LEVEL - 1]),
            None => self.cursor.range(&ids),
        };
    }

    /// The place of a value, which is not less than the one before; `None` if it isn't there.
    fn find(&mut self, id: Id) -> Option<usize> {
        while !self.rest.is_empty() {
            let ids = self.reader.slice(self.index, self.rest.clone());
            if ids[ids.len() - 1] < id {
                // The next blocks are skipped without a look at their values.
                let behind = self.rest.start + ids.len();
                self.rest.start = self.index.lower_bound(LEVEL, behind..self.rest.end, id);
                continue;
            }
            // Mostly it is near, so the steps grow.
            let mut end = 1;
            while end < ids.len() && ids[end] < id {
                end *= 2;
            }
            let from = end / 2;
            let place = from + ids[from..ids.len().min(end + 1)].partition_point(|other| *other < id);
            let is_found = ids[place] == id;
            self.rest.start += place;
            return is_found.then_some(self.rest.start);
        }
        None
    }
}

impl Probe for Intersection {
    fn partners(
        &mut self,
        input: &Envelope,
        at: &mut ProbeState,
        limit: usize,
        pairs: Pairs<'_>,
        stopped: &dyn Fn() -> bool,
    ) {
        let Pairs { left, right } = pairs;
        let (snapshot, specs) = (Arc::clone(&self.snapshot), Arc::clone(&self.lists));
        let columns = slices(input);
        let searched = specs.iter().zip(&mut self.searchers);
        let mut lists: SmallVec<[List<'_>; 4]> =
            searched.map(|(spec, searcher)| List::new(spec, searcher, &snapshot)).collect();
        let mut values: Vec<Id> = Vec::new();
        while at.row < input.rows() && left.len() < limit && !stopped() {
            lists.iter_mut().for_each(|list| list.begin(&columns, at.row));
            let shortest = (0..lists.len()).min_by_key(|&list| lists[list].rest.len()).expect("there are lists");
            let all = lists[shortest].rest.clone();
            let mut next = all.start + at.done;
            while next < all.end && left.len() < limit && !stopped() {
                let end = all.end.min(next + (limit - left.len()).min(BETWEEN_LOOKS));
                let list = &mut lists[shortest];
                values.clear();
                values.extend_from_slice(list.reader.slice(list.index, next..end));
                for (place, &id) in values.iter().enumerate() {
                    lists[shortest].rest.start = next + place;
                    // The place in the first list stands for the value.
                    let mut found = Some(next + place);
                    for (number, list) in lists.iter_mut().enumerate().filter(|(number, _)| *number != shortest) {
                        let here = list.find(id);
                        found = if number == 0 { here } else { found.filter(|_| here.is_some()) };
                        if found.is_none() {
                            break;
                        }
                    }
                    if let Some(found) = found {
                        left.push(at.row as u32);
                        right.push(found as u32);
                    }
                }
                next += values.len();
            }
            if next < all.end {
                at.done = next - all.start;
                return;
            }
            *at = ProbeState { row: at.row + 1, done: 0 };
        }
    }

    fn gather(&self, _: usize, right: &[u32], into: &mut Unfilled<'_, u64>) {
        self.snapshot.index(self.lists[0].order).gather(LEVEL, right, into);
    }
}

/// A join with the common values of several patterns.
pub(crate) struct IntersectionJoin {
    core: Core,
    probe: Intersection,
}

impl IntersectionJoin {
    pub(crate) fn new(
        terms: &Arc<Terms>,
        spec: &Arc<JoinSpec>,
        lists: &Arc<[ListSpec]>,
        pace: Pace,
    ) -> IntersectionJoin {
        IntersectionJoin { core: Core::new(terms, spec, pace), probe: Intersection::new(&terms.snapshot, lists) }
    }
}

impl Operator for IntersectionJoin {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        self.core.act(turn, &mut self.probe)
    }
}
