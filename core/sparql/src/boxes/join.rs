//! A join: for each row of the input its partners, found in an index or in a hash table.
//!
//! One box for all kinds of joins, so that a condition, unbound values and bounded output are dealt with once.
//! Candidate pairs are made in batches, the condition is evaluated over whole columns of them, and only pairs that pass
//! are put together. The order of the input's rows is kept.

use super::hash_table::{Builder, HashSpec, HashTable};
use super::index_probe::{IndexProbe, IndexSpec};
use super::{Inputs, Outbox};
use crate::algebra::Slot;
use crate::condition::{Condition, Selector};
use crate::terms::{Made, Terms};
use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, Operator, Room, Turn};
use vicus_rdf::Id;

/// Where the search for partners stands: a row of the input, and how many of its candidates are done.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) row: usize,
    pub(crate) done: usize,
}

/// Something that finds partners.
pub(crate) trait Probe: Send {
    /// Appends pairs of an input row and a partner, in the order of input rows, from `at` on until there are `limit`
    /// of them or no more, and moves `at`. An envelope is begun at `Place::default()`.
    /// Nobody waits for the rest once `stopped` says so: what takes long asks.
    fn partners(
        &mut self,
        input: &Envelope,
        at: &mut Place,
        limit: usize,
        pairs: (&mut Vec<u32>, &mut Vec<u32>),
        stopped: &dyn Fn() -> bool,
    );

    /// Appends an output column's values of these partners.
    fn gather(&self, output: usize, right: &[u32], into: &mut Room<'_, u64>);

    /// Bytes that it holds beyond a row.
    fn bytes(&self) -> u64 {
        0
    }
}

/// What becomes of rows with and without partners.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum JoinKind {
    /// Each pair.
    Inner,
    /// Each pair, and rows without partner with unbound values.
    Left,
    /// Each row that has a partner, once.
    Semi,
    /// Each row that has none.
    Anti,
    /// Each row once, and whether it has a partner: in this slot, for those who plan.
    Mark(Slot),
}

/// Where a column of a pair comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// A column of the input.
    Left(usize),
    /// An output of the probe.
    Right(usize),
    /// The input's value if it has one, else the probe's.
    Merged(usize, usize),
    /// Never bound.
    Unbound,
    /// Whether there is a partner.
    Marked,
}

/// What a join does with pairs.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct JoinSpec {
    pub(crate) kind: JoinKind,
    pub(crate) output: Vec<Part>,
    /// What the condition's columns are.
    pub(crate) condition_parts: Vec<Part>,
    pub(crate) condition: Condition,
}

/// In a list of partners: none.
const NOBODY: u32 = u32::MAX;

/// The part of a join that knows nothing of how partners are found.
pub(super) struct Core {
    terms: Arc<Terms>,
    made: Made,
    spec: Arc<JoinSpec>,
    selector: Selector,
    outbox: Outbox,
    input: Option<Envelope>,
    at: Place,
    /// Rows of the input before this one have been dealt with.
    settled: usize,
    /// Candidates, and those that passed.
    left: Vec<u32>,
    right: Vec<u32>,
    kept: Vec<u32>,
    out_left: Vec<u32>,
    out_right: Vec<u32>,
    scratch: Vec<Vec<u64>>,
}

impl Core {
    pub(super) fn new(terms: &Arc<Terms>, spec: &Arc<JoinSpec>, limit: usize) -> Core {
        Core {
            terms: Arc::clone(terms),
            made: Made::default(),
            spec: Arc::clone(spec),
            selector: spec.condition.evaluator(terms),
            outbox: Outbox::new(spec.output.len(), limit),
            input: None,
            at: Place::default(),
            settled: 0,
            left: Vec::new(),
            right: Vec::new(),
            kept: Vec::new(),
            out_left: Vec::new(),
            out_right: Vec::new(),
            scratch: vec![Vec::new(); spec.condition_parts.len()],
        }
    }

    /// One invocation: goes on with the envelope at hand, or takes the next.
    pub(super) fn act(&mut self, turn: &mut Turn<'_>, probe: &mut impl Probe) -> Result<(), BoxError> {
        self.advance(turn, probe);
        self.made.hold(&self.terms, turn, probe.bytes() + self.selector.bytes())
    }

    fn advance(&mut self, turn: &mut Turn<'_>, probe: &mut impl Probe) {
        if self.input.is_none() {
            match turn.take(0) {
                None => return,
                Some(pill) if pill.is_pill() => {
                    self.outbox.flush(turn);
                    turn.send_pill(0);
                    return;
                }
                Some(envelope) => {
                    self.input = Some(envelope);
                    self.at = Place::default();
                    self.settled = 0;
                }
            }
        }
        let input = self.input.take().expect("taken above");
        for _ in 0..self.terms.limits.batches.max(1) {
            let is_new = self.at == Place::default();
            let limit = self.outbox.room().min(self.outbox.growth.target.max(64));
            self.left.clear();
            self.right.clear();
            probe.partners(&input, &mut self.at, limit, (&mut self.left, &mut self.right), &|| turn.is_stopped());
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
                // A head that waited while this envelope was at hand would call nobody again.
                if turn.head(0).is_some() {
                    turn.run_again();
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

    /// Whether each row of the envelope has exactly one partner, and that is the answer.
    fn is_one_to_one(&self, rows: usize) -> bool {
        self.spec.kind != JoinKind::Anti
            && self.spec.condition.is_empty()
            && self.left.len() == rows
            && self.left.iter().enumerate().all(|(row, left)| row as u32 == *left)
    }

    /// The envelope with partners beside it: its own columns are shared, not copied.
    fn pass(&self, input: &Envelope, probe: &impl Probe, turn: &Turn<'_>) -> Envelope {
        let fresh: Vec<Part> = self.spec.output.iter().copied().filter(|part| !matches!(part, Part::Left(_))).collect();
        let mut fresh = super::columns_of(turn, fresh.len(), input.rows(), |builder| {
            for (column, part) in fresh.iter().enumerate() {
                gather_part(*part, input, probe, &self.left, &self.right, &mut builder.u64s(column));
            }
        })
        .into_iter();
        let columns = self.spec.output.iter().map(|part| match part {
            Part::Left(column) => input.column(*column).clone(),
            _ => fresh.next().expect("one for each other part"),
        });
        super::attach(Envelope::of_rows(columns.collect(), input.rows()), input.attached())
    }

    /// Applies the condition to the candidates and puts out what this kind of join makes of them.
    fn settle(&mut self, input: &Envelope, probe: &impl Probe, turn: &Turn<'_>) {
        let kind = self.spec.kind;
        if !self.spec.condition.is_empty() && !self.left.is_empty() {
            for (values, part) in self.scratch.iter_mut().zip(&self.spec.condition_parts) {
                values.clear();
                Room::of(values, self.left.len(), |room| {
                    gather_part(*part, input, probe, &self.left, &self.right, room);
                });
            }
            let columns: Vec<&[u64]> = self.scratch.iter().map(Vec::as_slice).collect();
            let held = probe.bytes() + self.selector.bytes();
            let stopped = |more| self.made.gives_up(&self.terms, turn, held + more);
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
        if kind == JoinKind::Inner {
            self.put_out_pairs(input, probe, turn);
            return;
        }
        // Rows before this one have all their candidates behind them.
        let complete = self.at.row;
        self.out_left.clear();
        self.out_right.clear();
        let keeps_lonely = kind != JoinKind::Semi;
        for (&row, &partner) in self.left.iter().zip(&self.right) {
            let first_of_row = row as usize >= self.settled;
            if first_of_row {
                if keeps_lonely {
                    self.out_left.extend(self.settled as u32..row);
                    self.out_right.resize(self.out_left.len(), NOBODY);
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
                self.out_right.resize(self.out_left.len(), NOBODY);
            }
            self.settled = complete;
        }
        std::mem::swap(&mut self.left, &mut self.out_left);
        std::mem::swap(&mut self.right, &mut self.out_right);
        self.put_out_pairs(input, probe, turn);
    }

    fn put_out_pairs(&mut self, input: &Envelope, probe: &impl Probe, turn: &Turn<'_>) {
        self.outbox.add(turn, input.attached(), self.left.len(), |builder| {
            for (column, part) in self.spec.output.iter().enumerate() {
                gather_part(*part, input, probe, &self.left, &self.right, &mut builder.u64s(column));
            }
        });
    }
}

/// Appends one column of pairs.
fn gather_part(
    part: Part,
    input: &Envelope,
    probe: &impl Probe,
    left: &[u32],
    right: &[u32],
    into: &mut Room<'_, u64>,
) {
    match part {
        Part::Left(column) => super::gather(input.column(column).u64s(), left, into),
        Part::Unbound => into.repeat(0, left.len()),
        Part::Marked => into.extend(right.iter().map(|&partner| Id::boolean(partner != NOBODY).bits())),
        Part::Right(output) => gather_right(probe, output, right, into),
        Part::Merged(column, output) => {
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
    // Runs with and without partner, one after the other.
    while let Some(&first) = rest.first() {
        let lonely = first == NOBODY;
        let run = rest.iter().take_while(|&&partner| (partner == NOBODY) == lonely).count();
        if lonely {
            into.repeat(0, run);
        } else {
            probe.gather(output, &rest[..run], into);
        }
        rest = &rest[run..];
    }
}

/// Index nested-loop join: never blocks, and keeps the input's order.
pub(crate) struct IndexJoin {
    core: Core,
    probe: IndexProbe,
}

impl IndexJoin {
    pub(crate) fn new(terms: &Arc<Terms>, spec: &Arc<JoinSpec>, index: &Arc<IndexSpec>, limit: usize) -> IndexJoin {
        IndexJoin { core: Core::new(terms, spec, limit), probe: IndexProbe::new(&terms.store, index) }
    }
}

impl Operator for IndexJoin {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        self.core.act(turn, &mut self.probe)
    }
}

/// Builds the rows of all its inputs into a table. Output 0 gets its buckets and output 1 its rows, each one envelope,
/// whose columns all readers share.
pub(crate) struct HashBuild {
    builder: Builder,
    inputs: Inputs,
}

impl HashBuild {
    pub(crate) fn new(terms: &Arc<Terms>, hash: &Arc<HashSpec>, width: usize) -> HashBuild {
        HashBuild { builder: Builder::new(terms, hash, width), inputs: Inputs::default() }
    }
}

impl Operator for HashBuild {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if !self.inputs.take(turn, |_, envelope| self.builder.add(envelope)) {
            turn.holds(self.builder.bytes())?;
            return Ok(());
        }
        // While it is built there are the rows as they came, a copy in order, and the buckets.
        turn.holds(self.builder.bytes() * 3)?;
        if let Some((buckets, rows)) = self.builder.build(turn) {
            turn.holds(buckets.bytes() + rows.bytes())?;
            turn.send(0, buckets);
            turn.send(1, rows);
            turn.send_pills();
        }
        Ok(())
    }
}

/// Hash join: rows of input 0 are looked up in the table that comes on inputs 1 and 2. Until it is there, the probe's
/// head is left where it is; both sides are subtrees of their own, so this wait is never part of a cycle.
pub(crate) struct HashJoin {
    core: Core,
    terms: Arc<Terms>,
    hash: Arc<HashSpec>,
    /// Columns of the built side.
    width: usize,
    buckets: Option<Envelope>,
    rows: Option<Envelope>,
    table: Option<HashTable>,
}

impl HashJoin {
    pub(crate) fn new(
        terms: &Arc<Terms>,
        spec: &Arc<JoinSpec>,
        hash: &Arc<HashSpec>,
        width: usize,
        limit: usize,
    ) -> HashJoin {
        HashJoin {
            core: Core::new(terms, spec, limit),
            terms: Arc::clone(terms),
            hash: Arc::clone(hash),
            width,
            buckets: None,
            rows: None,
            table: None,
        }
    }
}

impl Operator for HashJoin {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.table.is_none() {
            for (part, input) in [(&mut self.buckets, 1), (&mut self.rows, 2)] {
                if part.is_none() {
                    *part = turn.take(input);
                    if part.is_some() {
                        turn.keeps(input);
                    }
                }
            }
            let (Some(buckets), Some(_)) = (&self.buckets, &self.rows) else { return Ok(()) };
            let rows = self.rows.take().expect("it is there");
            let table = HashTable::new(&self.terms, &self.hash, self.width, buckets, rows);
            self.buckets = None;
            turn.close(1);
            turn.close(2);
            let needs_partner = matches!(self.core.spec.kind, JoinKind::Inner | JoinKind::Semi);
            if needs_partner && table.is_empty() {
                // Nothing can come of the other side.
                turn.close(0);
                turn.send_pill(0);
                return Ok(());
            }
            self.table = Some(table);
        }
        match &mut self.table {
            Some(table) => self.core.act(turn, table),
            None => Ok(()),
        }
    }
}
