//! A join: finds for each row of the input its partners, in an index or in a hash table.
//!
//! One box for all kinds of joins, so conditions, unbound values and bounded output are handled once. Candidate pairs
//! are made in batches, the condition is evaluated over whole columns of them, and only passing pairs are put out. The
//! order of the input's rows is kept.

use super::{Outbox, Pace};
use crate::algebra::Slot;
use crate::condition::{Condition, Selector};
use crate::terms::{Booking, Terms};
use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, OverBudget, Room, Turn};
use vicus_rdf::Id;

/// The progress of the search for partners: a row of the input, and the number of its candidates looked at.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct ProbeState {
    pub(crate) row: usize,
    pub(crate) done: usize,
}

/// The pairs found by a probe: rows of the input and their partners, one beside the other.
pub(crate) struct Pairs<'p> {
    pub(crate) left: &'p mut Vec<u32>,
    pub(crate) right: &'p mut Vec<u32>,
}

/// Finds partners.
pub(crate) trait Probe: Send {
    /// Appends pairs of an input row and a partner, in the order of input rows, from `at` on, and moves `at`. Ends at
    /// `limit` pairs or at the last row. An envelope begins at `ProbeState::default()`. A long search asks `stopped`
    /// now and then, and gives up if it is true: the request was cancelled.
    fn partners(
        &mut self,
        input: &Envelope,
        at: &mut ProbeState,
        limit: usize,
        pairs: Pairs<'_>,
        stopped: &dyn Fn() -> bool,
    );

    /// Appends the values of these partners in an output column.
    fn gather(&self, output: usize, right: &[u32], into: &mut Room<'_, u64>);

    /// Bytes held beyond one row.
    fn bytes(&self) -> u64 {
        0
    }
}

/// The treatment of rows with and without partners.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JoinKind {
    /// Puts out each pair.
    Inner,
    /// Puts out each pair, and each row without partner with unbound values.
    Left,
    /// Puts out each row with a partner, once.
    Semi,
    /// Puts out each row without a partner.
    Anti,
    /// Puts out each row once, with a column to mark rows with a partner. The planner knows the column by this slot.
    Mark(Slot),
}

/// The origin of a column of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// A column of the input.
    Left(usize),
    /// An output of the probe.
    Right(usize),
    /// The input's value if it is bound, else the probe's.
    Merged(usize, usize),
    /// Always unbound.
    Unbound,
    /// Whether the row has a partner.
    Marked,
}

/// How a join makes rows of pairs.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct JoinSpec {
    pub(crate) kind: JoinKind,
    pub(crate) output: Vec<Origin>,
    /// The columns read by the condition.
    pub(crate) condition_origins: Vec<Origin>,
    pub(crate) condition: Condition,
}

/// Stands in a list of partners for "no partner".
const NO_PARTNER: u32 = u32::MAX;

/// The part of a join that does not depend on the search for partners.
pub(crate) struct Core {
    terms: Arc<Terms>,
    booking: Booking,
    spec: Arc<JoinSpec>,
    selector: Selector,
    outbox: Outbox,
    input: Option<Envelope>,
    at: ProbeState,
    /// Input rows before this one are done.
    settled: usize,
    /// The candidate pairs; after [`Core::settle`], the pairs that passed.
    left: Vec<u32>,
    right: Vec<u32>,
    kept: Vec<u32>,
    out_left: Vec<u32>,
    out_right: Vec<u32>,
    scratch: Vec<Vec<u64>>,
    /// While the partners come in blocks: the rows with a partner.
    noted: Option<PartnerBits>,
}

/// The rows with a partner, if they are compared with one block of partners after the other.
#[derive(Default, Debug)]
pub(crate) struct PartnerBits {
    /// For each row of the envelope at hand, its number in `has_partner`.
    pub(crate) rows: Vec<u32>,
    /// A bit for each row.
    pub(crate) has_partner: Vec<u64>,
}

impl PartnerBits {
    fn note(&mut self, row: u32) {
        let row = self.rows[row as usize] as usize;
        self.has_partner[row / 64] |= 1 << (row % 64);
    }

    pub(crate) fn has_partner(&self, row: usize) -> bool {
        self.has_partner[row / 64] >> (row % 64) & 1 == 1
    }
}

/// Stands for the partners of rows without any, or of rows with unused partner values.
struct NoPartners;

impl Probe for NoPartners {
    fn partners(&mut self, input: &Envelope, at: &mut ProbeState, _: usize, _: Pairs<'_>, _: &dyn Fn() -> bool) {
        *at = ProbeState { row: input.rows(), done: 0 };
    }

    fn gather(&self, _: usize, _: &[u32], _: &mut Room<'_, u64>) {
        unreachable!("only inner and left joins put out partners' values, and rows without a partner have none");
    }
}

impl Core {
    pub(crate) fn new(terms: &Arc<Terms>, spec: &Arc<JoinSpec>, pace: Pace) -> Core {
        Core {
            terms: Arc::clone(terms),
            booking: Booking::default(),
            spec: Arc::clone(spec),
            selector: spec.condition.evaluator(terms),
            outbox: Outbox::new(spec.output.len(), pace),
            input: None,
            at: ProbeState::default(),
            settled: 0,
            left: Vec::new(),
            right: Vec::new(),
            kept: Vec::new(),
            out_left: Vec::new(),
            out_right: Vec::new(),
            scratch: vec![Vec::new(); spec.condition_origins.len()],
            noted: None,
        }
    }

    /// Whether no envelope is at hand.
    pub(crate) fn is_idle(&self) -> bool {
        self.input.is_none()
    }

    /// Puts an envelope at hand, for an operator with its own way of taking input. There must be none.
    pub(crate) fn give(&mut self, envelope: Envelope) {
        self.input = Some(envelope);
        self.at = ProbeState::default();
        self.settled = 0;
    }

    /// Sends the rest and the pill.
    pub(crate) fn end(&mut self, turn: &mut Turn<'_>) {
        self.outbox.flush(turn);
        turn.send_pill(0);
    }

    /// One invocation: continues with the envelope at hand, or takes the next one.
    pub(crate) fn act(&mut self, turn: &mut Turn<'_>, probe: &mut impl Probe) -> Result<(), BoxError> {
        self.advance(turn, probe);
        self.booking.hold(&self.terms, turn, probe.bytes() + self.selector.bytes())
    }

    fn advance(&mut self, turn: &mut Turn<'_>, probe: &mut impl Probe) {
        if self.input.is_none() {
            match turn.take(0) {
                None => return,
                Some(pill) if pill.is_pill() => return self.end(turn),
                Some(envelope) => self.give(envelope),
            }
        }
        self.work(turn, probe);
        // A head that arrived while this envelope was at hand does not invoke the box again.
        if self.is_idle() && turn.head(0).is_some() {
            turn.run_again();
        }
    }

    /// Continues with the envelope at hand; there must be one. Asks for another invocation if rows are left.
    pub(crate) fn work(&mut self, turn: &mut Turn<'_>, probe: &mut impl Probe) {
        let input = self.input.take().expect("an envelope is at hand");
        for _ in 0..self.terms.limits.batches.max(1) {
            let is_new = self.at == ProbeState::default();
            let limit = self.outbox.room().min(self.outbox.growth.target.max(64));
            self.left.clear();
            self.right.clear();
            probe.partners(
                &input,
                &mut self.at,
                limit,
                Pairs { left: &mut self.left, right: &mut self.right },
                &|| turn.is_stopped(),
            );
            let is_done = self.at.row >= input.rows();
            if is_new && is_done && self.is_one_to_one(input.rows()) {
                let made = self.pass(&input, probe, turn);
                self.outbox.pass(turn, made);
                return;
            }
            self.settle(&input, probe, turn);
            if is_done {
                if self.outbox.is_due() {
                    self.outbox.flush(turn);
                }
                return;
            }
            if self.outbox.is_due() {
                self.outbox.flush(turn);
                break;
            }
            if turn.is_stopped() {
                break;
            }
        }
        self.input = Some(input);
        turn.run_again();
    }

    /// Whether each row of the envelope has exactly one partner, so the envelope's columns can be shared.
    fn is_one_to_one(&self, rows: usize) -> bool {
        self.spec.kind != JoinKind::Anti
            && self.noted.is_none()
            && self.spec.condition.is_empty()
            && self.left.len() == rows
            && self.left.iter().enumerate().all(|(row, left)| row as u32 == *left)
    }

    /// The envelope with the partners' columns added: its own columns are shared, not copied.
    fn pass(&self, input: &Envelope, probe: &impl Probe, turn: &Turn<'_>) -> Envelope {
        let fresh: Vec<Origin> =
            self.spec.output.iter().copied().filter(|part| !matches!(part, Origin::Left(_))).collect();
        let mut fresh = super::columns_of(turn, fresh.len(), input.rows(), |builder| {
            for (column, part) in fresh.iter().enumerate() {
                gather_column(*part, input, probe, &self.left, &self.right, &mut builder.u64s(column));
            }
        })
        .into_iter();
        let columns = self.spec.output.iter().map(|part| match part {
            Origin::Left(column) => input.column(*column).clone(),
            _ => fresh.next().expect("one for each other part"),
        });
        super::attach(Envelope::of_rows(columns.collect(), input.rows()), input.attached())
    }

    /// Applies the condition to the candidates and puts out the rows of this kind of join.
    fn settle(&mut self, input: &Envelope, probe: &impl Probe, turn: &Turn<'_>) {
        let kind = self.spec.kind;
        if !self.spec.condition.is_empty() && !self.left.is_empty() {
            for (values, part) in self.scratch.iter_mut().zip(&self.spec.condition_origins) {
                values.clear();
                Room::of(values, self.left.len(), |room| {
                    gather_column(*part, input, probe, &self.left, &self.right, room);
                });
            }
            let columns: Vec<&[u64]> = self.scratch.iter().map(Vec::as_slice).collect();
            let held = probe.bytes() + self.selector.bytes();
            let stopped = |more| self.booking.poll(&self.terms, turn, held + more);
            self.selector.select(&columns, self.left.len(), &mut self.kept, &stopped);
            if self.kept.len() < self.left.len() {
                for (place, &pair) in self.kept.iter().enumerate() {
                    self.left[place] = self.left[pair as usize];
                    self.right[place] = self.right[pair as usize];
                }
                self.left.truncate(self.kept.len());
                self.right.truncate(self.kept.len());
            }
        }
        if let Some(noted) = &mut self.noted {
            self.left.iter().for_each(|&row| noted.note(row));
        }
        if kind == JoinKind::Inner || self.noted.is_some() {
            // If a row's partners come in blocks, only pairs are put out now.
            if matches!(kind, JoinKind::Inner | JoinKind::Left) {
                self.put_out_pairs(input, probe, turn);
            }
            return;
        }
        // All candidates of the rows before this one were found.
        let complete = self.at.row;
        self.out_left.clear();
        self.out_right.clear();
        let keeps_lonely = kind != JoinKind::Semi;
        for (&row, &partner) in self.left.iter().zip(&self.right) {
            let first_of_row = row as usize >= self.settled;
            if first_of_row {
                if keeps_lonely {
                    self.out_left.extend(self.settled as u32..row);
                    self.out_right.resize(self.out_left.len(), NO_PARTNER);
                }
                self.settled = row as usize + 1;
            }
            if kind == JoinKind::Left || first_of_row && matches!(kind, JoinKind::Semi | JoinKind::Mark(_)) {
                self.out_left.push(row);
                self.out_right.push(partner);
            }
        }
        if complete > self.settled {
            if keeps_lonely {
                self.out_left.extend(self.settled as u32..complete as u32);
                self.out_right.resize(self.out_left.len(), NO_PARTNER);
            }
            self.settled = complete;
        }
        std::mem::swap(&mut self.left, &mut self.out_left);
        std::mem::swap(&mut self.right, &mut self.out_right);
        self.put_out_pairs(input, probe, turn);
    }

    /// Puts out the rows of this kind of join, except for pairs; `has_partner` tells the rows with a partner.
    pub(crate) fn put_out_noted(&mut self, input: &Envelope, has_partner: impl Fn(usize) -> bool, turn: &mut Turn<'_>) {
        if self.outbox.room() < input.rows() {
            self.outbox.flush(turn);
        }
        let kind = self.spec.kind;
        let is_put_out = |row: usize| match kind {
            JoinKind::Left | JoinKind::Anti => !has_partner(row),
            JoinKind::Semi => has_partner(row),
            JoinKind::Mark(_) => true,
            JoinKind::Inner => false,
        };
        self.left.clear();
        self.left.extend((0..input.rows()).filter(|&row| is_put_out(row)).map(|row| row as u32));
        self.right.clear();
        self.right.extend(self.left.iter().map(|&row| if has_partner(row as usize) { 0 } else { NO_PARTNER }));
        self.put_out_pairs(input, &NoPartners, turn);
        if self.outbox.is_due() {
            self.outbox.flush(turn);
        }
    }

    /// Starts to note the rows with a partner in the given envelopes; `None` stops. Returns the notes so far.
    pub(crate) fn note(&mut self, noted: Option<PartnerBits>) -> Option<PartnerBits> {
        std::mem::replace(&mut self.noted, noted)
    }

    pub(crate) fn noted(&mut self) -> Option<&mut PartnerBits> {
        self.noted.as_mut()
    }

    pub(crate) fn kind(&self) -> JoinKind {
        self.spec.kind
    }

    /// Books the terms computed since the last call, and the box's `more` bytes.
    ///
    /// # Errors
    /// See [`Booking::hold`].
    pub(crate) fn hold(&self, turn: &Turn<'_>, more: u64) -> Result<(), BoxError> {
        self.booking.hold(&self.terms, turn, more + self.selector.bytes())
    }

    /// Books the terms computed since the last call, and `more` bytes that the box is about to hold.
    ///
    /// # Errors
    /// The request would be over its budget; the box may do with fewer bytes.
    pub(crate) fn ask(&self, turn: &Turn<'_>, more: u64) -> Result<(), OverBudget> {
        self.booking.ask(&self.terms, turn, more + self.selector.bytes())
    }

    fn put_out_pairs(&mut self, input: &Envelope, probe: &impl Probe, turn: &Turn<'_>) {
        self.outbox.add(turn, input.attached(), self.left.len(), |builder| {
            for (column, part) in self.spec.output.iter().enumerate() {
                gather_column(*part, input, probe, &self.left, &self.right, &mut builder.u64s(column));
            }
        });
    }
}

/// Appends one column of pairs.
fn gather_column(
    part: Origin,
    input: &Envelope,
    probe: &impl Probe,
    left: &[u32],
    right: &[u32],
    into: &mut Room<'_, u64>,
) {
    match part {
        Origin::Left(column) => super::gather(input.column(column).u64s(), left, into),
        Origin::Unbound => into.repeat(0, left.len()),
        Origin::Marked => into.extend(right.iter().map(|&partner| Id::boolean(partner != NO_PARTNER).bits())),
        Origin::Right(output) => gather_right(probe, output, right, into),
        Origin::Merged(column, output) => {
            let from = into.len();
            gather_right(probe, output, right, into);
            let column = input.column(column).u64s();
            for (value, &row) in into.filled()[from..].iter_mut().zip(left) {
                if column[row as usize] != 0 {
                    *value = column[row as usize];
                }
            }
        }
    }
}

fn gather_right(probe: &impl Probe, output: usize, right: &[u32], into: &mut Room<'_, u64>) {
    let mut rest = right;
    // Runs of rows with a partner and of rows without one, in turn.
    while let Some(&first) = rest.first() {
        let lonely = first == NO_PARTNER;
        let run = rest.iter().take_while(|&&partner| (partner == NO_PARTNER) == lonely).count();
        if lonely {
            into.repeat(0, run);
        } else {
            probe.gather(output, &rest[..run], into);
        }
        rest = &rest[run..];
    }
}
