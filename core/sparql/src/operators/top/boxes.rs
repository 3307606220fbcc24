//! ORDER BY with LIMIT: keeps the first rows only.
//!
//! Rows are collected until there are several times as many as wanted. Then the best are kept; from then on, rows
//! outside the best are dropped on arrival. This costs the same as a bounded heap, and works on columns. If the wanted
//! rows outgrow the box's memory, the best so far are written to a temporary file, and a merge of all such runs finds
//! the best.

use crate::boxes::sorted_runs::SortedRuns;
use crate::boxes::spill::{Hold, LEAST, Spiller};
use crate::boxes::{Growth, MOST_ATTACHED_TO_WAITING, slices};
use crate::operators::sort::{Rows, SortBy, compare_rows, envelope_of_rows, is_log_or_base, sorting_bytes};
use crate::terms::{Booking, Terms};
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::{Attachment, BoxError, Envelope, Operator, Turn, Unfilled};
use vicus_rdf::Id;

pub(crate) struct Top {
    terms: Arc<Terms>,
    booking: Booking,
    by: Arc<[SortBy]>,
    /// The number of wanted rows.
    count: usize,
    rows: Rows,
    /// The first key of the last wanted row so far. While all keys are in the order of their ids, rows with a greater
    /// key are dropped.
    bound: Option<u64>,
    /// Whether all first keys so far are ids of the store, in the order of their terms.
    is_plain: bool,
    /// Whether one of them is a fresh term.
    has_fresh: bool,
    done: Option<usize>,
    growth: Growth,
    /// Attachments of the envelopes since the rows were last reduced to the best.
    attached: Vec<Attachment>,
    hold: Hold,
    /// The best rows of each spill. Invariant: each run has at most the number of wanted rows.
    runs: Option<SortedRuns>,
    /// The number of spilled rows already sent.
    sent: usize,
    /// Merged rows, one after the other.
    merged: Vec<u64>,
}

impl Top {
    pub(crate) fn new(terms: &Arc<Terms>, by: &Arc<[SortBy]>, count: usize, limit: usize) -> Top {
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
            hold: Hold::new(terms.spiller()),
            runs: None,
            sent: 0,
            merged: Vec::new(),
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
            Unfilled::of(&mut kept, order.len(), |room| crate::boxes::gather(column, &order, room));
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
        let bound = first.and_then(|column| column.last().copied()).filter(|_| self.rows.count == self.count);
        // After rows were spilled, there may be too few for a bound, but the one before still holds.
        self.bound = bound.or(self.bound);
    }

    /// Adds an envelope's rows within the box's part of the memory.
    fn add_within(&mut self, turn: &Turn<'_>, spiller: &Spiller, envelope: &Envelope) -> Result<(), BoxError> {
        let (width, rows) = (envelope.columns().len(), envelope.rows());
        Attachment::add_all(&mut self.attached, envelope.attached());
        let mut row = 0;
        while row < rows && !turn.is_stopped() {
            let cost = sorting_bytes(width, self.by.len());
            // Like a sort: the spilled rows, and writing a further run.
            let (beside, cost) = match &self.runs {
                Some(runs) => (runs.held_bytes() + runs.writing_bytes(), cost),
                None => ((1 << 10) + 16 * width as u64, cost / 8 * 9),
            };
            let (terms, booking, count) = (&self.terms, &self.booking, self.rows.count);
            let (bytes, is_worth) = (|more: usize| beside + (count + more) as u64 * cost, count as u64 * cost >= LEAST);
            let mut more = rows - row;
            while more > 0 && !self.hold.make_room(bytes(more), is_worth, |bytes| booking.ask(terms, turn, bytes))? {
                more /= 2;
            }
            if more == 0 && count == 0 {
                self.hold.book(bytes(1), |bytes| booking.ask(terms, turn, bytes))?;
                more = 1;
            }
            if more == 0 {
                self.make_room(turn, spiller)?;
                continue;
            }
            let most = (spiller.most().saturating_sub(beside) / cost) as usize;
            self.rows.make_room(width, more, most);
            self.add(envelope, row..row + more);
            row += more;
        }
        Ok(())
    }

    /// Drops rows outside the best; if more than half of them remain, writes those to a file.
    fn make_room(&mut self, turn: &Turn<'_>, spiller: &Spiller) -> Result<(), BoxError> {
        let before = self.rows.count;
        self.shrink(&|| turn.is_stopped());
        if self.rows.count > before / 2 { self.spill(turn, spiller) } else { Ok(()) }
    }

    /// Writes the rows, the best so far and in order, to a file.
    fn spill(&mut self, turn: &Turn<'_>, spiller: &Spiller) -> Result<(), BoxError> {
        if turn.is_stopped() {
            return Ok(());
        }
        let width = self.rows.columns.len();
        let runs = self.runs.get_or_insert_with(|| SortedRuns::new(spiller, width, self.hold.booked()));
        runs.add_ordered(turn, &self.rows.columns, 0..self.rows.count)?;
        self.rows = Rows::default();
        Ok(())
    }

    /// Sends the next spilled rows.
    fn send_merged(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let (terms, by, booking) = (&self.terms, &self.by, &self.booking);
        let compare = |a: &[u64], b: &[u64]| compare_rows(terms, by, a, b);
        let runs = self.runs.as_mut().expect("rows were spilled");
        if !runs.settle(turn, &mut self.hold, |bytes| booking.ask(terms, turn, bytes), compare)? {
            turn.run_again();
            return Ok(());
        }
        self.merged.clear();
        let rows = runs.read(self.growth.target.min(self.count - self.sent), &mut self.merged, compare)?;
        if rows > 0 {
            let envelope = envelope_of_rows(turn, &self.merged, rows);
            turn.send(0, envelope);
            self.growth.grow();
            self.sent += rows;
        }
        if rows == 0 || self.sent == self.count {
            self.runs = None;
            turn.send_pill(0);
        } else {
            turn.run_again();
        }
        Ok(())
    }

    /// Adds these rows of an envelope, but for those beyond the bound.
    fn add(&mut self, envelope: &Envelope, rows: Range<usize>) {
        let Some(first) = self.by.first() else {
            self.rows.add_part(envelope, rows);
            return;
        };
        let keys = &envelope.column(first.column).u64s()[rows.clone()];
        let snapshot = &self.terms.snapshot;
        let (mut is_plain, mut has_fresh) = (true, false);
        for id in keys.iter().map(|bits| Id::from_bits(*bits)) {
            is_plain &= is_log_or_base(snapshot, id);
            has_fresh |= id.is_unranked();
        }
        self.is_plain &= is_plain;
        self.has_fresh |= has_fresh;
        let Some(bound) = self.bound.filter(|_| self.is_plain) else {
            self.rows.add_part(envelope, rows);
            return;
        };
        // Numbers from the first of these rows on, as `keys` has them.
        let start = rows.start;
        let mut kept: Vec<u32> = Vec::new();
        let rows = 0..rows.len() as u32;
        match (first.descending, self.has_fresh) {
            (true, false) => kept.extend(rows.filter(|&row| keys[row as usize] >= bound)),
            (false, false) => kept.extend(rows.filter(|&row| keys[row as usize] <= bound)),
            (descending, true) => kept.extend(rows.filter(|&row| {
                let order = snapshot.compare(Id::from_bits(keys[row as usize]), Id::from_bits(bound));
                if descending { order.is_ge() } else { order.is_le() }
            })),
        }
        for (values, column) in self.rows.columns.iter_mut().zip(slices(envelope)) {
            Unfilled::of(values, kept.len(), |room| crate::boxes::gather(&column[start..], &kept, room));
        }
        self.rows.count += kept.len();
    }
}

impl Operator for Top {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.done.is_none() {
            let spiller = self.hold.spiller().cloned();
            match turn.take(0) {
                None => return Ok(()),
                Some(pill) if pill.is_pill() => {
                    self.shrink(&|| turn.is_stopped());
                    if let (Some(spiller), true) = (&spiller, self.runs.is_some()) {
                        self.spill(turn, spiller)?;
                    }
                    self.done = Some(0);
                }
                Some(envelope) => {
                    match &spiller {
                        Some(spiller) => self.add_within(turn, spiller, &envelope)?,
                        None => {
                            Attachment::add_all(&mut self.attached, envelope.attached());
                            self.add(&envelope, 0..envelope.rows());
                        }
                    }
                    if self.is_full() {
                        self.shrink(&|| turn.is_stopped());
                    }
                    let held = if spiller.is_some() { self.hold.booked() } else { self.rows.bytes() };
                    self.booking.hold(&self.terms, turn, held)?;
                    return Ok(());
                }
            }
        }
        if self.runs.is_some() {
            return self.send_merged(turn);
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
