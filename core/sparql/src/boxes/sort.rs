//! ORDER BY: collects everything, sorts by integers, and puts it out in envelopes.

use super::Growth;
use crate::terms::Terms;
use crate::value::total_order;
use std::cmp::Ordering;
use std::sync::Arc;
use vicus_flow::{BoxError, Column, Envelope, Operator, Turn};
use vicus_rdf::{Id, Kind};

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

/// Rows that were collected, by columns.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) columns: Vec<Vec<u64>>,
    pub(crate) count: usize,
}

impl Rows {
    pub(crate) fn add(&mut self, envelope: &Envelope) {
        self.columns.resize(envelope.columns().len(), Vec::new());
        for (values, column) in self.columns.iter_mut().zip(envelope.columns()) {
            values.extend_from_slice(column.u64s());
        }
        self.count += envelope.rows();
        assert!(u32::try_from(self.count).is_ok(), "fewer than 2^32 rows are sorted at once");
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.columns.iter().map(|column| column.capacity() as u64 * 8).sum()
    }

    /// Some of the rows in this order.
    pub(crate) fn envelope(&self, order: &[u32]) -> Envelope {
        let columns = self.columns.iter().map(|column| {
            let mut values = Vec::with_capacity(order.len());
            super::gather(column, order, &mut values);
            Column::from(values)
        });
        Envelope::of_rows(columns.collect(), order.len())
    }

    /// The numbers of the rows as the keys order them; rows with equal keys stay as they came.
    pub(crate) fn order(&self, terms: &Terms, by: &[By]) -> Vec<u32> {
        // Before the first envelope there are no columns either.
        if self.count == 0 {
            return Vec::new();
        }
        let mut keys: Vec<Vec<u64>> = by.iter().map(|by| sort_keys(terms, &self.columns[by.column])).collect();
        for (key, _) in keys.iter_mut().zip(by).filter(|(_, by)| by.descending) {
            key.iter_mut().for_each(|key| *key = !*key);
        }
        match &mut keys[..] {
            [] => (0..self.count as u32).collect(),
            [key] => {
                let mut pairs: Vec<(u64, u32)> = key.iter().copied().zip(0..).collect();
                pairs.sort_unstable();
                pairs.into_iter().map(|(_, row)| row).collect()
            }
            keys => {
                let mut order: Vec<u32> = (0..self.count as u32).collect();
                order.sort_by(|&a, &b| {
                    keys.iter()
                        .map(|key| key[a as usize].cmp(&key[b as usize]))
                        .find(|order| order.is_ne())
                        .unwrap_or(Ordering::Equal)
                });
                order
            }
        }
    }
}

/// Whether ids of this kind are ordered as ORDER BY orders their terms.
pub(crate) fn is_ordered(bits: u64) -> bool {
    let id = Id::from_bits(bits);
    !id.is_computed() && bits < Id::ranked(Kind::Typed, 0).bits()
}

/// Orders two rows as [`Sort`] does: by ids where their order is that of terms, else by terms.
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

/// Integers that are ordered as the column's terms are: the ids themselves, or the places of the distinct ids in order.
fn sort_keys(terms: &Terms, column: &[u64]) -> Vec<u64> {
    if column.iter().all(|&bits| is_ordered(bits)) {
        return column.to_vec();
    }
    let mut distinct: Vec<u64> = column.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let mut ranked = distinct.clone();
    ranked.sort_by(|&a, &b| total_order(terms, Id::from_bits(a), Id::from_bits(b)));
    let mut ranks = vec![0; distinct.len()];
    for (rank, bits) in ranked.iter().enumerate() {
        ranks[distinct.binary_search(bits).expect("it is one of them")] = rank as u64;
    }
    column.iter().map(|bits| ranks[distinct.binary_search(bits).expect("it is one of them")]).collect()
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
                    // Each key is copied, next to the row's number.
                    turn.holds(self.rows.bytes() + (self.rows.count * 16 * self.by.len().max(1)) as u64)?;
                    self.order = Some(self.rows.order(&self.terms, &self.by));
                }
                Some(envelope) => {
                    self.rows.add(&envelope);
                    turn.holds(self.rows.bytes())?;
                    return Ok(());
                }
            }
        }
        let Some(order) = &self.order else { return Ok(()) };
        let end = order.len().min(self.next + self.growth.target);
        if end > self.next {
            turn.send(0, self.rows.envelope(&order[self.next..end]));
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
