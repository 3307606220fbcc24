//! ORDER BY: collects all rows, sorts them by integer keys, and sends them in envelopes.

use super::{Growth, collected, had};
use crate::terms::Terms;
use crate::value::total_order;
use std::cmp::Ordering;
use std::sync::Arc;
use vicus_flow::library::sort_unless;
use vicus_flow::{BoxError, Envelope, Grow, Operator, Turn};
use vicus_rdf::{Id, Kind, Snapshot};

/// A column to sort by.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct By {
    pub(crate) column: usize,
    pub(crate) descending: bool,
}

pub(crate) struct Sort {
    terms: Arc<Terms>,
    by: Arc<[By]>,
    rows: Rows,
    order: Option<Vec<u32>>,
    next: usize,
    growth: Growth,
}

/// The collected rows, as columns.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) columns: Vec<Vec<u64>>,
    pub(crate) count: usize,
}

impl Rows {
    pub(crate) fn add(&mut self, envelope: &Envelope) {
        self.columns.resize(envelope.columns().len(), Vec::new());
        for (values, column) in self.columns.iter_mut().zip(envelope.columns()) {
            values.grow_or_give_up(column.u64s().len());
            values.extend_from_slice(column.u64s());
        }
        self.count += envelope.rows();
        assert!(u32::try_from(self.count).is_ok(), "fewer than 2^32 rows are sorted at once");
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.columns.iter().map(|column| column.capacity() as u64 * 8).sum()
    }

    /// The rows with these numbers, in this order.
    pub(crate) fn envelope(&self, turn: &Turn<'_>, order: &[u32]) -> Envelope {
        super::envelope_of(turn, self.columns.len(), order.len(), |builder| {
            for (place, column) in self.columns.iter().enumerate() {
                super::gather(column, order, &mut builder.u64s(place));
            }
        })
    }

    /// The numbers of the rows in the order of the keys; rows with equal keys stay in the order of their arrival. `None` if
    /// `stopped` says that the request was cancelled.
    pub(crate) fn order(&self, terms: &Terms, by: &[By], stopped: &dyn Fn() -> bool) -> Option<Vec<u32>> {
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

/// Sorting this many numbers takes some milliseconds. The second constant is for items whose comparison is a cache miss or a
/// search.
const NUMBERS: usize = 1 << 17;
const OTHERS: usize = 1 << 12;

/// Whether ids of this kind are in the order that ORDER BY gives their terms.
pub(crate) fn is_ordered(bits: u64) -> bool {
    let id = Id::from_bits(bits);
    !id.is_computed() && bits < Id::ranked(Kind::Typed, 0).bits()
}

/// Whether [`Snapshot::compare`] gives this term's order in ORDER BY.
pub(crate) fn is_of_store(snapshot: &Snapshot, id: Id) -> bool {
    id < Id::ranked(Kind::Typed, 0) && snapshot.has(id)
}

/// Compares two rows as [`Sort`] does: by ids where their order is that of the terms, else by terms.
pub(crate) fn compare(terms: &Terms, by: &[By], a: (&Envelope, usize), b: (&Envelope, usize)) -> Ordering {
    let order = |by: &By| {
        let (a, b) = (a.0.column(by.column).u64s()[a.1], b.0.column(by.column).u64s()[b.1]);
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
    pub(crate) fn new(terms: &Arc<Terms>, by: &Arc<[By]>, limit: usize) -> Sort {
        Sort {
            terms: Arc::clone(terms),
            by: Arc::clone(by),
            rows: Rows::default(),
            order: None,
            next: 0,
            growth: Growth::new(limit),
        }
    }
}

impl Operator for Sort {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.order.is_none() {
            match turn.take(0) {
                None => return Ok(()),
                Some(pill) if pill.is_pill() => {
                    // Besides the rows, there is a copy of each key next to its row's number.
                    turn.book(self.rows.bytes() + (self.rows.count * 16 * self.by.len().max(1)) as u64)?;
                    self.order = self.rows.order(&self.terms, &self.by, &|| turn.is_stopped());
                }
                Some(envelope) => {
                    self.rows.add(&envelope);
                    turn.book(self.rows.bytes())?;
                    return Ok(());
                }
            }
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
