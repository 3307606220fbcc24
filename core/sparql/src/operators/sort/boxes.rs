//! ORDER BY: collects all rows, sorts them by integer keys, and sends them in envelopes. Rows beyond the box's memory
//! are written to temporary files in sorted runs, to be merged in the end ([`SortedRuns`]).

use crate::boxes::sorted_runs::SortedRuns;
use crate::boxes::spill::{Hold, LEAST, Spiller};
use crate::boxes::{Growth, collected, had};
use crate::terms::Terms;
use crate::value::total_order;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::library::sort_unless;
use vicus_flow::{BoxError, Envelope, Grow, Operator, Turn};
use vicus_rdf::{Id, Snapshot, TermKind};

/// A column to sort by.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct SortBy {
    pub(crate) column: usize,
    pub(crate) descending: bool,
}

pub(crate) struct Sort {
    terms: Arc<Terms>,
    by: Arc<[SortBy]>,
    rows: Rows,
    order: Option<Vec<u32>>,
    next: usize,
    growth: Growth,
    hold: Hold,
    /// The spilled runs.
    runs: Option<SortedRuns>,
    /// Whether all rows have come.
    has_all: bool,
    /// Merged rows, one after the other.
    merged: Vec<u64>,
}

/// The collected rows, as columns.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) columns: Vec<Vec<u64>>,
    pub(crate) count: usize,
}

impl Rows {
    pub(crate) fn add(&mut self, envelope: &Envelope) {
        self.add_part(envelope, 0..envelope.rows());
    }

    /// Adds these rows of an envelope.
    pub(crate) fn add_part(&mut self, envelope: &Envelope, rows: Range<usize>) {
        self.columns.resize(envelope.columns().len(), Vec::new());
        for (values, column) in self.columns.iter_mut().zip(envelope.columns()) {
            values.grow_or_give_up(rows.len());
            values.extend_from_slice(&column.u64s()[rows.clone()]);
        }
        self.count += rows.len();
        assert!(u32::try_from(self.count).is_ok(), "fewer than 2^32 rows are sorted at once");
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.columns.iter().map(|column| column.capacity() as u64 * 8).sum()
    }

    /// Makes room for `more` further rows. If the columns have to grow, they get twice the room, but for no more than
    /// `most` rows in all.
    pub(crate) fn make_room(&mut self, width: usize, more: usize, most: usize) {
        self.columns.resize(width, Vec::new());
        for column in &mut self.columns {
            let needed = column.len() + more;
            if needed > column.capacity() {
                let room = (2 * column.capacity()).min(most).max(needed);
                had(column.grow_exactly(room - column.len()));
            }
        }
    }

    /// The rows with these numbers, in this order.
    pub(crate) fn envelope(&self, turn: &Turn<'_>, order: &[u32]) -> Envelope {
        crate::boxes::envelope_of(turn, self.columns.len(), order.len(), |builder| {
            for (place, column) in self.columns.iter().enumerate() {
                crate::boxes::gather(column, order, &mut builder.u64s(place));
            }
        })
    }

    /// The numbers of the rows in the order of the keys; rows with equal keys stay in the order of their arrival.
    /// `None` if `stopped` reports a cancelled request.
    pub(crate) fn order(&self, terms: &Terms, by: &[SortBy], stopped: &dyn Fn() -> bool) -> Option<Vec<u32>> {
        // Before the first envelope, there are no columns yet.
        if self.count == 0 {
            return Some(Vec::new());
        }
        let mut keys: Vec<Vec<u64>> = Vec::new();
        for by in by {
            keys.push(sort_keys(terms, &self.columns[by.column], stopped)?);
        }
        for (key, _) in keys.iter_mut().zip(by).filter(|(_, by)| by.descending) {
            key.iter_mut().for_each(|key| *key = !*key);
        }
        match &mut keys[..] {
            [] => Some(collected(0..self.count as u32)),
            [key] => {
                let mut pairs: Vec<(u64, u32)> = collected(key.iter().copied().zip(0..self.count as u32));
                sort_unless(&mut pairs, NUMBERS, Ord::cmp, stopped)?;
                Some(collected(pairs.into_iter().map(|(_, row)| row)))
            }
            keys => {
                let mut order: Vec<u32> = collected(0..self.count as u32);
                let compare = |&a: &u32, &b: &u32| {
                    let keys = keys.iter().map(|key| key[a as usize].cmp(&key[b as usize]));
                    keys.chain([a.cmp(&b)]).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
                };
                sort_unless(&mut order, OTHERS, compare, stopped)?;
                Some(order)
            }
        }
    }
}

/// Sorting this many numbers takes some milliseconds. The second constant is for items whose comparison is a cache miss
/// or a search.
const NUMBERS: usize = 1 << 17;
const OTHERS: usize = 1 << 12;

/// Whether ids of this kind are in the order of ORDER BY.
pub(crate) fn is_ordered(bits: u64) -> bool {
    let id = Id::from_bits(bits);
    !id.is_unranked() && bits < Id::ranked(TermKind::Typed, 0).bits()
}

/// Whether [`Snapshot::compare`] gives this term's order in ORDER BY.
pub(crate) fn is_log_or_base(snapshot: &Snapshot, id: Id) -> bool {
    id < Id::ranked(TermKind::Typed, 0) && snapshot.has(id)
}

/// Compares two rows as [`Sort`] does: by ids if these are in the order of the terms, else by terms.
pub(crate) fn compare(terms: &Terms, by: &[SortBy], a: (&Envelope, usize), b: (&Envelope, usize)) -> Ordering {
    compare_ids(terms, by, |column| a.0.column(column).u64s()[a.1], |column| b.0.column(column).u64s()[b.1])
}

/// Like [`compare`], for rows as slices.
pub(crate) fn compare_rows(terms: &Terms, by: &[SortBy], a: &[u64], b: &[u64]) -> Ordering {
    compare_ids(terms, by, |column| a[column], |column| b[column])
}

#[inline]
fn compare_ids(terms: &Terms, by: &[SortBy], a: impl Fn(usize) -> u64, b: impl Fn(usize) -> u64) -> Ordering {
    let order = |by: &SortBy| {
        let (a, b) = (a(by.column), b(by.column));
        let order = if a == b || is_ordered(a) && is_ordered(b) {
            a.cmp(&b)
        } else {
            total_order(terms, Id::from_bits(a), Id::from_bits(b))
        };
        if by.descending { order.reverse() } else { order }
    };
    by.iter().map(order).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Integers in the order of the column's terms: the ids themselves, or the ranks of the distinct ids.
fn sort_keys(terms: &Terms, column: &[u64], stopped: &dyn Fn() -> bool) -> Option<Vec<u64>> {
    if column.iter().all(|&bits| is_ordered(bits)) {
        return Some(had(Vec::copied(column)));
    }
    let mut distinct: Vec<u64> = had(Vec::copied(column));
    sort_unless(&mut distinct, NUMBERS, Ord::cmp, stopped)?;
    distinct.dedup();
    let mut ranked: Vec<u32> = collected(0..distinct.len() as u32);
    let id = |place: u32| Id::from_bits(distinct[place as usize]);
    let by_term = |&a: &u32, &b: &u32| total_order(terms, id(a), id(b)).then(a.cmp(&b));
    sort_unless(&mut ranked, OTHERS, by_term, stopped)?;
    let mut ranks: Vec<u64> = had(Vec::zeroed(distinct.len()));
    for (rank, &place) in ranked.iter().enumerate() {
        ranks[place as usize] = rank as u64;
    }
    let mut keys = had(Vec::with_room(column.len()));
    for part in column.chunks(OTHERS) {
        if stopped() {
            return None;
        }
        keys.extend(part.iter().map(|bits| ranks[distinct.binary_search(bits).expect("it is one of them")]));
    }
    Some(keys)
}

impl Sort {
    pub(crate) fn new(terms: &Arc<Terms>, by: &Arc<[SortBy]>, limit: usize) -> Sort {
        Sort {
            terms: Arc::clone(terms),
            by: Arc::clone(by),
            rows: Rows::default(),
            order: None,
            next: 0,
            growth: Growth::new(limit),
            hold: Hold::new(terms.spiller()),
            runs: None,
            has_all: false,
            merged: Vec::new(),
        }
    }

    /// Adds an envelope's rows within the box's part of the memory: if they don't fit, rows are spilled.
    fn add_within(&mut self, turn: &Turn<'_>, spiller: &Spiller, envelope: &Envelope) -> Result<(), BoxError> {
        let (width, rows) = (envelope.columns().len(), envelope.rows());
        let sorting = sorting_bytes(width, self.by.len());
        let mut row = 0;
        while row < rows && !turn.is_stopped() {
            let (count, wanted) = (self.rows.count, rows - row);
            // The spilled runs, and writing a further one; before the first one, its block is a small part of the rows.
            let (beside, cost) = match &self.runs {
                Some(runs) => (runs.held_bytes() + runs.writing_bytes(), sorting),
                None => ((1 << 10) + 16 * width as u64, sorting / 8 * 9),
            };
            let bytes = |more: usize| beside + (count + more) as u64 * cost;
            let fits = |bytes: u64| usize::try_from(bytes.saturating_sub(beside) / cost).unwrap_or(usize::MAX);
            let (most, is_worth) = (fits(spiller.most()), count as u64 * cost >= LEAST);
            let more = wanted.min(most.saturating_sub(count));
            let more = match self.hold.make_room(bytes(more), is_worth, |bytes| turn.book(bytes))? {
                true => more,
                // The larger budget is used up.
                false => more.min(fits(self.hold.booked()).saturating_sub(count)),
            };
            if count + more == 0 {
                // Not even one row fits.
                self.hold.book(bytes(1), |bytes| turn.book(bytes))?;
            }
            let more = if count + more == 0 { 1 } else { more };
            self.rows.make_room(width, more, most);
            self.rows.add_part(envelope, row..row + more);
            row += more;
            if row < rows {
                self.spill(turn, spiller)?;
            }
        }
        Ok(())
    }

    /// Writes the rows to a file, in order.
    fn spill(&mut self, turn: &Turn<'_>, spiller: &Spiller) -> Result<(), BoxError> {
        let Some(order) = self.rows.order(&self.terms, &self.by, &|| turn.is_stopped()) else { return Ok(()) };
        let width = self.rows.columns.len();
        let runs = self.runs.get_or_insert_with(|| SortedRuns::new(spiller, width, self.hold.booked()));
        runs.add_ordered(turn, &self.rows.columns, order.iter().map(|&row| row as usize))?;
        self.rows.columns.iter_mut().for_each(Vec::clear);
        self.rows.count = 0;
        Ok(())
    }

    /// Sends the next spilled rows.
    fn send_merged(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let (terms, by) = (&self.terms, &self.by);
        let compare = |a: &[u64], b: &[u64]| compare_rows(terms, by, a, b);
        let runs = self.runs.as_mut().expect("rows were spilled");
        if !runs.settle(turn, &mut self.hold, |bytes| turn.book(bytes), compare)? {
            turn.run_again();
            return Ok(());
        }
        self.merged.clear();
        let rows = runs.read(self.growth.target, &mut self.merged, compare)?;
        if rows == 0 {
            self.runs = None;
            turn.send_pill(0);
            return Ok(());
        }
        let envelope = envelope_of_rows(turn, &self.merged, rows);
        turn.send(0, envelope);
        self.growth.grow();
        turn.run_again();
        Ok(())
    }
}

/// The memory that a row takes until it is sorted, in bytes: its ids, a key for each column to sort by, and, for one of
/// these at a time, the distinct ids with their ranks, or pairs of keys and rows before and after they are merged.
pub(crate) fn sorting_bytes(width: usize, keys: usize) -> u64 {
    (8 * width + 8 * keys + 40) as u64
}

/// An envelope of `rows` rows. They lie one after the other.
pub(crate) fn envelope_of_rows(turn: &Turn<'_>, all: &[u64], rows: usize) -> Envelope {
    let width = all.len() / rows;
    crate::boxes::envelope_of(turn, width, rows, |builder| {
        for column in 0..width {
            builder.u64s(column).extend(all.iter().skip(column).step_by(width).copied());
        }
    })
}

impl Operator for Sort {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.order.is_none() && !self.has_all {
            let spiller = self.hold.spiller().cloned();
            match (turn.take(0), spiller) {
                (None, _) => return Ok(()),
                (Some(pill), _) if pill.is_pill() && self.runs.is_none() => {
                    // Besides the rows, there is a copy of each key next to its row's number. A box that spills has
                    // booked more.
                    let bytes = self.rows.bytes() + (self.rows.count * 16 * self.by.len().max(1)) as u64;
                    self.hold.book(bytes, |bytes| turn.book(bytes))?;
                    self.order = self.rows.order(&self.terms, &self.by, &|| turn.is_stopped());
                }
                (Some(pill), Some(spiller)) if pill.is_pill() => {
                    self.spill(turn, &spiller)?;
                    self.rows = Rows::default();
                    self.has_all = true;
                }
                (Some(envelope), Some(spiller)) => return self.add_within(turn, &spiller, &envelope),
                (Some(envelope), None) => {
                    self.rows.add(&envelope);
                    turn.book(self.rows.bytes())?;
                    return Ok(());
                }
            }
        }
        if self.has_all {
            return self.send_merged(turn);
        }
        let Some(order) = &self.order else { return Ok(()) };
        let end = order.len().min(self.next + self.growth.target);
        if end > self.next {
            let envelope = self.rows.envelope(turn, &order[self.next..end]);
            turn.send(0, envelope);
            self.next = end;
            self.growth.grow();
        }
        if end == order.len() {
            turn.send_pill(0)
        } else {
            turn.run_again()
        }
        Ok(())
    }
}
