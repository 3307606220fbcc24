//! ORDER BY with LIMIT: keeps the first rows only.
//!
//! Rows are collected until there are several times as many as wanted. Then the best are kept; rows that can't be among the
//! best are dropped on arrival from then on. That costs the same as a bounded heap, and works on columns.

use super::sort::{By, Rows, is_of_store};
use super::{Growth, MOST_ATTACHED_TO_WAITING, slices};
use crate::terms::{Booking, Terms};
use std::sync::Arc;
use vicus_flow::{Attachment, BoxError, Operator, Room, Turn};
use vicus_rdf::Id;

pub(crate) struct Top {
    terms: Arc<Terms>,
    booking: Booking,
    by: Arc<[By]>,
    /// The number of wanted rows.
    count: usize,
    rows: Rows,
    /// The first key of the last wanted row so far. While all keys are in the order of their ids, rows with a greater key are dropped.
    bound: Option<u64>,
    /// Whether all first keys so far are ids of the store whose order is that of their terms.
    is_plain: bool,
    /// Whether one of them is a fresh term.
    has_fresh: bool,
    done: Option<usize>,
    growth: Growth,
    /// Attachments of the envelopes that came since the rows were last reduced to the best.
    attached: Vec<Attachment>,
}

impl Top {
    pub(crate) fn new(terms: &Arc<Terms>, by: &Arc<[By]>, count: usize, limit: usize) -> Top {
        Top {
            terms: Arc::clone(terms),
            booking: Booking::default(),
            by: Arc::clone(by),
            count,
            rows: Rows::default(),
            bound: None,
            is_plain: true,
            has_fresh: false,
            done: None,
            growth: Growth::new(limit),
            attached: Vec::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.rows.count >= (self.count * 2).max(1024) || Attachment::bytes_of(&self.attached) > MOST_ATTACHED_TO_WAITING
    }

    fn shrink(&mut self, stopped: &dyn Fn() -> bool) {
        let Some(mut order) = self.rows.order(&self.terms, &self.by, stopped) else { return };
        order.truncate(self.count);
        for column in &mut self.rows.columns {
            let mut kept = Vec::new();
            Room::of(&mut kept, order.len(), |room| super::gather(column, &order, room));
            *column = kept;
        }
        self.rows.count = order.len();
        if !self.attached.is_empty() {
            for bits in self.rows.columns.iter_mut().flatten() {
                *bits = self.terms.kept(Id::from_bits(*bits)).bits();
            }
            self.attached.clear();
        }
        let first = self.by.first().and_then(|by| self.rows.columns.get(by.column));
        self.bound = first.and_then(|column| column.last().copied()).filter(|_| self.rows.count == self.count);
    }

    fn add(&mut self, envelope: &vicus_flow::Envelope) {
        Attachment::add_all(&mut self.attached, envelope.attached());
        let Some(first) = self.by.first() else {
            self.rows.add(envelope);
            return;
        };
        let keys = envelope.column(first.column).u64s();
        let snapshot = &self.terms.snapshot;
        let (mut is_plain, mut has_fresh) = (true, false);
        for id in keys.iter().map(|bits| Id::from_bits(*bits)) {
            is_plain &= is_of_store(snapshot, id);
            has_fresh |= id.is_computed();
        }
        self.is_plain &= is_plain;
        self.has_fresh |= has_fresh;
        let Some(bound) = self.bound.filter(|_| self.is_plain) else {
            self.rows.add(envelope);
            return;
        };
        let mut kept: Vec<u32> = Vec::new();
        let rows = 0..envelope.rows() as u32;
        match (first.descending, self.has_fresh) {
            (true, false) => kept.extend(rows.filter(|&row| keys[row as usize] >= bound)),
            (false, false) => kept.extend(rows.filter(|&row| keys[row as usize] <= bound)),
            (descending, true) => kept.extend(rows.filter(|&row| {
                let order = snapshot.compare(Id::from_bits(keys[row as usize]), Id::from_bits(bound));
                if descending { order.is_ge() } else { order.is_le() }
            })),
        }
        for (values, column) in self.rows.columns.iter_mut().zip(slices(envelope)) {
            Room::of(values, kept.len(), |room| super::gather(column, &kept, room));
        }
        self.rows.count += kept.len();
    }
}

impl Operator for Top {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.done.is_none() {
            match turn.take(0) {
                None => return Ok(()),
                Some(pill) if pill.is_pill() => {
                    self.shrink(&|| turn.is_stopped());
                    self.done = Some(0);
                }
                Some(envelope) => {
                    self.add(&envelope);
                    if self.is_full() {
                        self.shrink(&|| turn.is_stopped());
                    }
                    self.booking.hold(&self.terms, turn, self.rows.bytes())?;
                    return Ok(());
                }
            }
        }
        let Some(next) = self.done else { return Ok(()) };
        let end = self.rows.count.min(next + self.growth.target);
        if end > next {
            let order: Vec<u32> = (next as u32..end as u32).collect();
            let envelope = self.rows.envelope(turn, &order);
            turn.send(0, envelope);
            self.growth.grow();
        }
        self.done = Some(end);
        if end == self.rows.count {
            turn.send_pill(0)
        } else {
            turn.run_again()
        }
        Ok(())
    }
}
