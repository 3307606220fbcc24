//! Finds the partners of a row by searching an index: one side of an index nested-loop join.

use super::join::{Probe, ProbeState};
use super::slices;
use crate::graphs::Merged;
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::{Envelope, Room};
use vicus_rdf::{Id, Index, Order, Reader, Searcher, Snapshot};

/// Where a value to search for comes from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Source {
    Constant(Id),
    /// A column of the input, which is never unbound.
    Column(usize),
}

/// How a pattern is searched for each row of an input.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct IndexSpec {
    pub(crate) order: Order,
    /// The values of the first levels: as many constants in front as the order allows.
    pub(crate) prefix: Vec<Source>,
    /// Values that other levels must have.
    pub(crate) checks: Vec<(usize, Source)>,
    /// Pairs of free levels that must be equal.
    pub(crate) repeated: Vec<(usize, usize)>,
    /// The graphs that partners may be of, if they are read as one: of partners with the same triple there is one.
    pub(crate) merged: Option<Merged>,
    /// Levels that become columns, none of them in the prefix.
    pub(crate) output: Vec<usize>,
    /// Which of the partners that differ only in dropped columns are wanted.
    pub(crate) want: Want,
}

impl IndexSpec {
    /// If the graph, the first level after it and the last one are known: the value of the last level, for `rows` that are many.
    /// A group of the level between has it once at most, so it is searched for in each group. Types have very many subjects, and
    /// reading all of them for each subject would take quadratic time.
    fn between_groups(&self, rows: usize) -> Option<Source> {
        match self.checks[..] {
            [(3, last)] if rows >= MANY && self.prefix.len() == 2 && self.repeated.is_empty() => Some(last),
            _ => None,
        }
    }
}

/// From so many rows on, one of the last level is searched for in each group of the level before; fewer are read one after the
/// other.
const MANY: usize = 16;

/// The row of the first group of the level before the last whose last level is `id`, and where that group ends. The rows begin with
/// the group and have one graph and one key.
fn find_in_group(index: &Index, rows: Range<usize>, id: Id) -> (Option<usize>, usize) {
    let end = index.end_of_group(2, rows.start, rows.end);
    let place = index.lower_bound(3, rows.start..end, id);
    ((place < end && index.get(3, place) == id).then_some(place), end)
}

/// Which partners are needed, where duplicates don't count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Want {
    All,
    /// One for each value of the level after the prefix.
    Groups,
    /// Any one.
    First,
}

#[derive(Clone)]
pub(crate) struct IndexProbe {
    snapshot: Arc<Snapshot>,
    spec: Arc<IndexSpec>,
    /// The rows that match the prefix's leading constants.
    base: Range<usize>,
    leading: usize,
    /// For the one id that follows these constants, if that is all of the prefix.
    searcher: Option<Searcher>,
    /// Of the level after the prefix, if one partner is wanted for each of its values.
    groups: Option<Reader>,
}

impl IndexProbe {
    pub(crate) fn new(snapshot: &Arc<Snapshot>, spec: &Arc<IndexSpec>) -> IndexProbe {
        let index = snapshot.index(spec.order);
        let constants: Vec<Id> = spec
            .prefix
            .iter()
            .map_while(|source| match source {
                Source::Constant(id) => Some(*id),
                Source::Column(_) => None,
            })
            .collect();
        let base = index.range(&constants);
        let leading = constants.len();
        let searcher = (spec.prefix.len() == leading + 1).then(|| index.searcher(&constants));
        let groups = (spec.want == Want::Groups).then(|| index.reader(spec.prefix.len()));
        IndexProbe { snapshot: Arc::clone(snapshot), spec: Arc::clone(spec), base, leading, searcher, groups }
    }
}

impl Probe for IndexProbe {
    fn partners(
        &mut self,
        input: &Envelope,
        at: &mut ProbeState,
        limit: usize,
        (left, right): (&mut Vec<u32>, &mut Vec<u32>),
        _: &dyn Fn() -> bool,
    ) {
        let snapshot = Arc::clone(&self.snapshot);
        let spec = Arc::clone(&self.spec);
        let index = snapshot.index(spec.order);
        let columns = slices(input);
        let mut single = match (&spec.prefix[self.leading..], &mut self.searcher) {
            ([Source::Column(key)], Some(searcher)) => Some((columns[*key], searcher)),
            _ => None,
        };
        let mut cursor = index.cursor();
        let all_graphs = !matches!(spec.merged, Some(Merged::These(_)));
        let first_is_enough =
            spec.want == Want::First && spec.checks.is_empty() && spec.repeated.is_empty() && all_graphs;
        while at.row < input.rows() && left.len() < limit {
            let row = at.row;
            let all = match &mut single {
                Some((keys, searcher)) => searcher.find(index, Id::from_bits(keys[row])),
                None if spec.prefix.len() == self.leading => self.base.clone(),
                None => {
                    let mut ids = [Id::UNBOUND; 4];
                    for (id, source) in ids.iter_mut().zip(&spec.prefix) {
                        *id = match source {
                            Source::Constant(id) => *id,
                            Source::Column(column) => Id::from_bits(columns[*column][row]),
                        };
                    }
                    cursor.range(&ids[..spec.prefix.len()])
                }
            };
            let mut next = all.start + at.done;
            if first_is_enough {
                if next < all.end {
                    left.push(row as u32);
                    right.push(next as u32);
                }
                next = all.end;
            } else if let Some(last) = spec.between_groups(all.len()) {
                let id = match last {
                    Source::Constant(id) => id,
                    Source::Column(column) => Id::from_bits(columns[column][row]),
                };
                while next < all.end && left.len() < limit {
                    let (found, end) = find_in_group(index, next..all.end, id);
                    if let Some(found) = found {
                        left.push(row as u32);
                        right.push(found as u32);
                    }
                    next = end;
                }
            } else if let Some(groups) = &mut self.groups {
                while next < all.end && left.len() < limit {
                    let ids = groups.slice(index, next..all.end);
                    let mut place = 0;
                    while place < ids.len() && left.len() < limit {
                        left.push(row as u32);
                        right.push((next + place) as u32);
                        let id = ids[place];
                        place += 1 + ids[place + 1..].iter().take_while(|other| **other == id).count();
                    }
                    next += place;
                    if place == ids.len() && next < all.end {
                        // The last group may go on behind the slice.
                        next = index.end_of_group(spec.prefix.len(), next - 1, all.end);
                    }
                }
            } else {
                let take = (all.end - next).min(limit - left.len());
                left.extend(std::iter::repeat_n(row as u32, take));
                right.extend(next as u32..(next + take) as u32);
                next += take;
            }
            if next < all.end {
                at.done = next - all.start;
            } else {
                *at = ProbeState { row: row + 1, done: 0 };
            }
        }
        for (level, source) in &spec.checks {
            let mut reader = index.reader(*level);
            match source {
                Source::Constant(id) => keep(left, right, |_, place| reader.get(index, place) == *id),
                Source::Column(key) => {
                    let keys = columns[*key];
                    keep(left, right, |row, place| reader.get(index, place).bits() == keys[row]);
                }
            }
        }
        for (a, b) in &spec.repeated {
            let (mut a, mut b) = (index.reader(*a), index.reader(*b));
            keep(left, right, |_, place| a.get(index, place) == b.get(index, place));
        }
        if let Some(merged) = spec.merged.as_ref().filter(|_| spec.want != Want::Groups) {
            merge(index, merged, left, right);
        }
    }

    fn gather(&self, output: usize, right: &[u32], into: &mut Room<'_, u64>) {
        self.snapshot.index(self.spec.order).gather(self.spec.output[output], right, into);
    }
}

/// Drops the pairs of other graphs, and those of triples that the same row has a partner of already.
fn merge(index: &Index, merged: &Merged, left: &mut Vec<u32>, right: &mut Vec<u32>) {
    let mut graphs = index.reader(3);
    keep(left, right, |_, place| merged.has(graphs.get(index, place)));
    let mut before: Option<(usize, usize)> = None;
    let (mut second, mut third) = (index.reader(1), index.reader(2));
    keep(left, right, |row, place| match before.replace((row, place)) {
        // The last batch may have ended within the rows of a triple.
        None => !merged.repeats(index, place),
        Some((other, last)) => {
            let same = |reader: &mut Reader| reader.get(index, last) == reader.get(index, place);
            other != row || !same(&mut third) || !same(&mut second) || index.key_of_row(last) != index.key_of_row(place)
        }
    });
}

/// Drops the pairs for which `pass` is false.
fn keep(left: &mut Vec<u32>, right: &mut Vec<u32>, mut pass: impl FnMut(usize, usize) -> bool) {
    let mut count = 0;
    for place in 0..left.len() {
        if pass(left[place] as usize, right[place] as usize) {
            left[count] = left[place];
            right[count] = right[place];
            count += 1;
        }
    }
    left.truncate(count);
    right.truncate(count);
}
