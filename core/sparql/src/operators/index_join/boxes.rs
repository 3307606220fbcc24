//! Finds the partners of a row by searching an index: one side of an index nested-loop join.

use crate::boxes::join::{Core, JoinSpec, Pairs, Probe, ProbeState};
use crate::boxes::{Pace, slices};
use crate::graphs::Merged;
use crate::terms::Terms;
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, Operator, Turn, Unfilled};
use vicus_rdf::{Id, Index, Order, Reader, Searcher, Snapshot};

/// The source of a value to search for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Source {
    Constant(Id),
    /// A column of the input; never unbound.
    Column(usize),
}

impl Source {
    /// Marks its column, if it is one.
    pub(crate) fn mark(self, columns: &mut [bool]) {
        if let Source::Column(column) = self {
            columns[column] = true;
        }
    }

    #[inline]
    pub(crate) fn id(self, columns: &[&[u64]], row: usize) -> Id {
        match self {
            Source::Constant(id) => id,
            Source::Column(column) => Id::from_bits(columns[column][row]),
        }
    }
}

/// How a pattern is searched for each row of an input.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct IndexSpec {
    pub(crate) order: Order,
    /// The values of the first levels: as many constants in front as the order allows.
    pub(crate) prefix: Vec<Source>,
    /// Values required in other levels.
    pub(crate) checks: Vec<(usize, Source)>,
    /// Pairs of free levels with equal values.
    pub(crate) repeated: Vec<(usize, usize)>,
    /// The graphs of the partners, if they are read as one: a triple in several graphs gives one partner.
    pub(crate) merged: Option<Merged>,
    /// Levels for output columns, none of them in the prefix.
    pub(crate) output: Vec<usize>,
    /// The wanted partners among those differing only in dropped columns.
    pub(crate) want: Want,
}

impl IndexSpec {
    /// If the graph, the first level after it and the last one are known: the value of the last level, for many `rows`.
    /// A group of the level between has this value at most once, so each group is searched for it. Types have very many
    /// subjects, and reading all of them for each subject would take quadratic time.
    fn between_groups(&self, rows: usize) -> Option<Source> {
        match self.checks[..] {
            [(3, last)] if rows >= MANY && self.prefix.len() == 2 && self.repeated.is_empty() => Some(last),
            _ => None,
        }
    }
}

/// Up to this number of partners are written down one by one.
const FEW: usize = 8;

/// From this number of rows on, each group of the level before is searched for an id of the last level; fewer rows are
/// read one after the other.
const MANY: usize = 16;

/// The row with the last level `id` in the first group of the level before the last, and the end of this group. The
/// rows begin with the group and have one graph and one key.
fn find_in_group(index: &Index, rows: Range<usize>, id: Id) -> (Option<usize>, usize) {
    let end = index.end_of_group(2, rows.start, rows.end);
    let place = index.lower_bound(3, rows.start..end, id);
    ((place < end && index.get(3, place) == id).then_some(place), end)
}

/// The needed partners, where duplicates don't count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Want {
    All,
    /// One for each value of the level after the prefix.
    Groups,
    /// One partner for each value of a group level, where only this value of both sides is kept: values already found
    /// for other rows are left out.
    Values,
    /// Any one.
    First,
}

#[derive(Clone)]
pub(crate) struct IndexProbe {
    snapshot: Arc<Snapshot>,
    spec: Arc<IndexSpec>,
    /// The rows matching the prefix's leading constants.
    base: Range<usize>,
    leading: usize,
    /// Searches the one id after these constants, if the prefix has no other.
    searcher: Option<Searcher>,
    /// Reads the level after the prefix, if one partner is wanted for each of its values.
    groups: Option<Reader>,
    /// If one is enough for all rows.
    recent: Option<Recent>,
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
        let groups = matches!(spec.want, Want::Groups | Want::Values).then(|| index.reader(spec.prefix.len()));
        let recent = (spec.want == Want::Values).then(Recent::default);
        IndexProbe { snapshot: Arc::clone(snapshot), spec: Arc::clone(spec), base, leading, searcher, groups, recent }
    }
}

impl Probe for IndexProbe {
    fn partners(
        &mut self,
        input: &Envelope,
        at: &mut ProbeState,
        limit: usize,
        pairs: Pairs<'_>,
        _: &dyn Fn() -> bool,
    ) {
        let Pairs { left, right } = pairs;
        let snapshot = Arc::clone(&self.snapshot);
        let spec = Arc::clone(&self.spec);
        let index = snapshot.index(spec.order);
        let columns = slices(input);
        let all_graphs = !matches!(spec.merged, Some(Merged::These(_)));
        let is_checked = !spec.checks.is_empty() || !spec.repeated.is_empty();
        let first_is_enough = spec.want == Want::First && !is_checked && all_graphs;
        let mut taking = Taking {
            index,
            spec: &spec,
            columns: &columns,
            first_is_enough,
            takes_few: !first_is_enough && self.groups.is_none(),
            groups: self.groups.as_mut(),
            recent: self.recent.as_mut(),
            at,
            limit,
            left,
            right,
        };
        let rows = taking.at.row..input.rows();
        match (&spec.prefix[self.leading..], &mut self.searcher) {
            _ if rows.is_empty() || taking.is_full() => {}
            ([Source::Column(key)], Some(searcher)) => {
                let ids = &columns[*key][rows.clone()];
                searcher.find_each(index, ids, |number, all| taking.take(rows.start + number, all));
            }
            ([], _) => {
                let _ = rows.clone().find(|row| !taking.take(*row, self.base.clone()));
            }
            _ => {
                let mut cursor = index.cursor();
                let mut ids = [Id::UNBOUND; 4];
                let _ = rows.clone().find(|row| {
                    ids.iter_mut().zip(&spec.prefix).for_each(|(id, source)| *id = source.id(&columns, *row));
                    !taking.take(*row, cursor.range(&ids[..spec.prefix.len()]))
                });
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

    fn gather(&self, output: usize, right: &[u32], into: &mut Unfilled<'_, u64>) {
        self.snapshot.index(self.spec.order).gather(self.spec.output[output], right, into);
    }
}

/// Drops the pairs of other graphs, and pairs with a triple already found for the same row.
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

/// Writes down pairs of input rows and partners, up to a limit.
struct Taking<'a> {
    index: &'a Index,
    spec: &'a IndexSpec,
    columns: &'a [&'a [u64]],
    first_is_enough: bool,
    /// Whether all of a few partners are wanted.
    takes_few: bool,
    groups: Option<&'a mut Reader>,
    recent: Option<&'a mut Recent>,
    /// The start of the next call.
    at: &'a mut ProbeState,
    limit: usize,
    left: &'a mut Vec<u32>,
    right: &'a mut Vec<u32>,
}

/// Some of the values found already. The cache forgets some values: later boxes drop the remaining duplicates, so it
/// has to be fast, not complete.
#[derive(Clone)]
struct Recent([Id; RECENT]);

const RECENT: usize = 256;

impl Default for Recent {
    fn default() -> Recent {
        Recent([Id::UNBOUND; RECENT])
    }
}

impl Recent {
    #[inline]
    fn note_new(&mut self, id: Id) -> bool {
        // Ranks are dense, so their lowest bits differ.
        let place = &mut self.0[id.bits() as usize % RECENT];
        let is_new = *place != id;
        *place = id;
        is_new
    }
}

impl Taking<'_> {
    fn is_full(&self) -> bool {
        self.left.len() >= self.limit
    }

    #[inline]
    fn push(&mut self, row: usize, partner: usize) {
        self.left.push(row as u32);
        self.right.push(partner as u32);
    }

    /// Takes the wanted partners of a row's matches, or some of them; returns whether the next row can be taken.
    #[inline]
    fn take(&mut self, row: usize, all: Range<usize>) -> bool {
        // Most rows have no partner or one, for any `want`, or a few partners, all of them wanted.
        match all.len() {
            0 => {}
            1 if self.recent.is_none() => self.push(row, all.start),
            2..=FEW if self.takes_few && self.at.done == 0 && self.left.len() + FEW <= self.limit => {
                all.for_each(|partner| self.push(row, partner));
            }
            _ => return self.take_of_many(row, all),
        }
        *self.at = ProbeState { row: row + 1, done: 0 };
        !self.is_full()
    }

    fn take_of_many(&mut self, row: usize, all: Range<usize>) -> bool {
        let mut next = all.start + self.at.done;
        if self.first_is_enough {
            self.push(row, next);
            next = all.end;
        } else if let Some(last) = self.spec.between_groups(all.len()) {
            let id = last.id(self.columns, row);
            while next < all.end && !self.is_full() {
                let (found, end) = find_in_group(self.index, next..all.end, id);
                found.into_iter().for_each(|found| self.push(row, found));
                next = end;
            }
        } else if self.groups.is_some() {
            next = self.take_groups(row, next..all.end);
        } else {
            let take = (all.end - next).min(self.limit - self.left.len());
            self.left.extend(std::iter::repeat_n(row as u32, take));
            self.right.extend(next as u32..(next + take) as u32);
            next += take;
        }
        let is_done = next == all.end;
        *self.at =
            if is_done { ProbeState { row: row + 1, done: 0 } } else { ProbeState { row, done: next - all.start } };
        is_done && !self.is_full()
    }

    /// Takes the first partner of each group; returns the first remaining row.
    #[inline]
    fn take_groups(&mut self, row: usize, rows: Range<usize>) -> usize {
        let (level, mut next) = (self.spec.prefix.len(), rows.start);
        let Some(groups) = &mut self.groups else { return next };
        // The last group of the previous slice. It may go on in this one.
        let mut open = None;
        while next < rows.end && self.left.len() < self.limit {
            let ids = groups.slice(self.index, next..rows.end);
            let mut place = ids.iter().take_while(|id| Some(**id) == open).count();
            if place == ids.len() {
                next = self.index.end_of_group(level, next, rows.end);
                open = None;
                continue;
            }
            while place < ids.len() && self.left.len() < self.limit {
                let id = ids[place];
                if self.recent.as_mut().is_none_or(|recent| recent.note_new(id)) {
                    self.left.push(row as u32);
                    self.right.push((next + place) as u32);
                }
                place += 1;
                while place < ids.len() && ids[place] == id {
                    place += 1;
                }
            }
            next += place;
            open = (place == ids.len()).then(|| ids[place - 1]);
        }
        // The next call begins with a group.
        if open.is_some() && next < rows.end { self.index.end_of_group(level, next - 1, rows.end) } else { next }
    }
}

/// Drops the pairs rejected by `pass`.
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

/// Index nested-loop join: puts out rows from the first envelope on, in the input's order.
pub(crate) struct IndexJoin {
    core: Core,
    probe: IndexProbe,
}

impl IndexJoin {
    pub(crate) fn new(terms: &Arc<Terms>, spec: &Arc<JoinSpec>, index: &Arc<IndexSpec>, pace: Pace) -> IndexJoin {
        IndexJoin { core: Core::new(terms, spec, pace), probe: IndexProbe::new(&terms.snapshot, index) }
    }
}

impl Operator for IndexJoin {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        self.core.act(turn, &mut self.probe)
    }
}
