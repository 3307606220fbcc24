//! A join in parts that goes on learning which keys are heavy: those that become so in the midst of the stream.

use super::HashKey;
use super::hash::hash_rows;
use super::heavy::{self, Heavy};
use super::join::{JoinBegin, Joining, Late, join_of, null_row};
use super::partition::Deal;
use super::spill::{Spilled, rows_of};
use crate::{
    BoxError, BoxModel, Envelope, Field, Grow, HeldBytes, ModelBuilder, Operator, OutputId, Schema, Turn, Type,
};
use std::collections::VecDeque;
use std::mem;

/// Adds boxes that join two streams in `parts` parts, and gives the outputs of the parts. Rows are dealt by the hash of
/// their keys, but for *heavy* keys of the first stream, whose rows go to all parts in turn, while the second stream's
/// rows with such a key are in each part. A sample of the first rows tells which keys are heavy, as
/// [`partition_heavy`](super::partition_heavy()) has it; later samples go on telling.
///
/// A key that becomes heavy later has its rows of the second stream in one part only. So the box that deals these keeps
/// them, in memory or in [files](crate::Overflows) beyond the budget, and sends those with this key to the other parts
/// as well. A part that gets a row of such a key leaves the first stream alone until they have come: each pair is made
/// once, however late a key becomes heavy. A request with a budget and without files learns from the first sample
/// alone, since it could not keep those rows.
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::library::{self, HashKey, Joining};
/// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, sequential};
///
/// let schema = Schema::new([("key", Type::U64)]);
/// let keys = |keys: Vec<u64>| vec![Envelope::new([keys.into()])];
/// let mut net = ModelBuilder::new("join in two parts");
/// let first = net.source(library::source("first", &schema, move || keys(vec![1, 2, 2])));
/// let second = net.source(library::source("second", &schema, move || keys(vec![2, 3, 2])));
/// let joining = Joining::of(&schema, &schema, [(0, 0)]);
/// let inputs = [first.output(0), second.output(0)];
/// let (send, receive) = mpsc::channel();
/// for part in library::join_in_parts(&mut net, inputs, &joining, 2, HashKey::default(), 1000) {
///     let send = send.clone();
///     let end = net.add(library::sink("end", &joining.schema(), move |pairs| Ok(send.send(pairs.rows())?)));
///     net.connect(part, end.input(0));
///     net.end(end.output(0));
/// }
/// sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
/// assert_eq!(receive.try_iter().sum::<usize>(), 4);
/// ```
pub fn join_in_parts(
    net: &mut ModelBuilder,
    inputs: [OutputId; 2],
    joining: &Joining,
    parts: usize,
    by: HashKey,
    envelope_rows: usize,
) -> Vec<OutputId> {
    let [first, second] = joining.schemas();
    let [of_first, of_second] = joining.keys();
    let late = late_schema(second);
    let split = net.add(heavy::split(first, &of_first, parts, by, true));
    let (keys, rows) = (of_second, second.clone());
    let factory = move || Copied {
        by,
        keys: keys.clone(),
        deal: Deal::keeping(&rows, parts),
        schema: rows.clone(),
        is_sampled: false,
        is_dealt: false,
        learns: true,
        heavy: Heavy::default(),
        found: Vec::new(),
        asked: VecDeque::new(),
        kept: (0..parts).map(|_| Kept::default()).collect(),
        bytes: 0,
        hashes: Vec::new(),
    };
    let copied = BoxModel::new("partition to heavy", factory).input(second).input(&told_schema());
    let copied = net.add((0..parts).fold(copied, |model, _| model.output(second)).output(&late));
    net.connect(inputs[0], split.input(0));
    net.connect(inputs[1], copied.input(0));
    net.connect(split.output(parts), copied.input(1));
    let joins = (0..parts).map(|part| {
        let begin = JoinBegin { late: Some(Late::new(part, parts, second.columns().len())) };
        let join = net.add(join_of(joining, by, envelope_rows, begin).input(&late));
        net.connect(split.output(part), join.input(0));
        net.connect(copied.output(part), join.input(1));
        net.connect(copied.output(parts), join.input(2));
        join.output(0)
    });
    joins.collect()
}

/// Hashes of heavy keys as they are found. A null stands behind those of the first sample.
pub(super) fn told_schema() -> Schema {
    Schema::new([("hash", Type::U64)]).with_nulls(["hash"])
}

/// Rows of keys that became heavy later: the second stream's columns, the hash of their keys, and whether it is the row
/// of nulls behind the last one with this hash. An envelope has one hash.
fn late_schema(second: &Schema) -> Schema {
    let columns = second.columns().iter().cloned().map(Field::or_null);
    columns.chain([Field::new("hash", Type::U64), Field::new("is last", Type::Bool)]).collect()
}

/// Rows that were sent to one part.
#[derive(Default)]
struct Kept {
    envelopes: VecDeque<Envelope>,
    held: HeldBytes,
    outside: Option<Spilled>,
    /// How many envelopes are outside.
    count: usize,
}

impl Kept {
    /// The next envelope, which stays the last one.
    fn next(&mut self, number: usize, turn: &Turn<'_>) -> Result<Option<Envelope>, BoxError> {
        if let Some(envelope) = self.envelopes.get(number) {
            return Ok(Some(envelope.clone()));
        }
        let Some(outside) = self.outside.as_mut().filter(|_| number < self.envelopes.len() + self.count) else {
            return Ok(None);
        };
        // A queue is read by taking from it.
        let Some(envelope) = outside.pop()? else { return Ok(None) };
        outside.push(turn, envelope.clone())?;
        Ok(Some(envelope))
    }
}

/// Deals the second stream, and keeps its rows for keys that become heavy later.
struct Copied {
    by: HashKey,
    keys: Vec<usize>,
    deal: Deal,
    schema: Schema,
    /// The hashes of the first sample have come.
    is_sampled: bool,
    /// All rows are dealt.
    is_dealt: bool,
    /// Further hashes may come.
    learns: bool,
    heavy: Heavy,
    found: Vec<u64>,
    /// Hashes whose rows are still to be sent.
    asked: VecDeque<u64>,
    /// By part.
    kept: Vec<Kept>,
    bytes: u64,
    hashes: Vec<u64>,
}

impl Copied {
    fn take_hashes(&mut self, turn: &mut Turn<'_>) {
        let Some(told) = turn.take(1) else { return };
        if told.is_pill() {
            self.learns = false;
            // A box without readers has no sample.
            self.begin(turn);
            return;
        }
        for row in 0..told.rows() {
            if told.column(0).is_null(row) {
                self.begin(turn);
            } else if self.is_sampled {
                self.asked.push_back(told.column(0).u64s()[row]);
            } else {
                self.found.push(told.column(0).u64s()[row]);
            }
        }
    }

    /// The first sample's hashes have come; their rows will go to all parts.
    fn begin(&mut self, turn: &mut Turn<'_>) {
        if !mem::replace(&mut self.is_sampled, true) {
            self.heavy = Heavy::of(mem::take(&mut self.found));
            self.heavy.hashes().iter().for_each(|&hash| self.tell_last(hash, turn));
        }
    }

    /// Tells all parts that all rows with this hash have come.
    fn tell_last(&self, hash: u64, turn: &mut Turn<'_>) {
        let mut columns = null_row(&self.schema);
        columns.extend([vec![hash].into(), vec![true].into()]);
        turn.send(self.deal.parts(), Envelope::of_rows(columns, 1));
    }

    fn deal(&mut self, envelope: &Envelope, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        hash_rows(envelope, &self.keys, self.by, &mut self.hashes)?;
        let mut to_all = Vec::new();
        if !self.heavy.hashes().is_empty() {
            to_all.extend((0..).zip(&self.hashes).filter(|(_, hash)| self.heavy.has(**hash)).map(|(row, _)| row));
        }
        let parts = self.deal.parts();
        let targets = self.hashes.iter().map(|&hash| Deal::part_of(hash, parts));
        self.deal.deal(turn, envelope, targets, &to_all)
    }

    /// Keeps what was sent.
    fn keep(&mut self, turn: &Turn<'_>) -> Result<(), BoxError> {
        for part in 0..self.kept.len() {
            for envelope in self.deal.take_sent(part) {
                if self.learns || !self.asked.is_empty() {
                    self.keep_one(part, envelope, turn)?;
                }
            }
        }
        if !self.learns && self.asked.is_empty() && self.bytes > 0 {
            self.kept.iter_mut().for_each(|kept| *kept = Kept::default());
            self.bytes = 0;
            turn.book(0)?;
        }
        Ok(())
    }

    fn keep_one(&mut self, part: usize, envelope: Envelope, turn: &Turn<'_>) -> Result<(), BoxError> {
        let kept = &mut self.kept[part];
        if let Some(outside) = &mut kept.outside {
            kept.count += 1;
            return outside.push(turn, envelope);
        }
        let more = kept.held.add(&envelope) + size_of::<Envelope>() as u64;
        if let Err(refused) = turn.book(self.bytes + more) {
            if !Spilled::is_possible(turn) {
                return Err(refused.into());
            }
            // The joins need the memory more: all of it goes outside.
            self.bytes = 0;
            for kept in &mut self.kept {
                let mut outside = Spilled::begin(turn)?;
                for envelope in mem::take(&mut kept.envelopes) {
                    kept.count += 1;
                    outside.push(turn, envelope)?;
                }
                (kept.held, kept.outside) = (HeldBytes::default(), Some(outside));
            }
            turn.book(0)?;
            return self.keep_one(part, envelope, turn);
        }
        self.bytes += more;
        kept.envelopes.grow(1)?;
        kept.envelopes.push_back(envelope);
        Ok(())
    }

    /// Sends the rows of a key that became heavy to all parts; the one that has them leaves them out.
    fn answer(&mut self, hash: u64, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let parts = self.deal.parts();
        let kept = &mut self.kept[Deal::part_of(hash, parts) as usize];
        let mut number = 0;
        while let Some(envelope) = kept.next(number, turn)? {
            number += 1;
            if turn.is_stopped() {
                return Ok(());
            }
            hash_rows(&envelope, &self.keys, self.by, &mut self.hashes)?;
            let found = (0..).zip(&self.hashes).filter(|(_, of)| **of == hash);
            let rows: Vec<u32> = found.map(|(row, _)| row).collect();
            if !rows.is_empty() {
                let found = rows_of(&envelope, &rows, &self.schema, turn);
                let mut columns = found.columns().to_vec();
                columns.extend([vec![hash; rows.len()].into(), vec![false; rows.len()].into()]);
                turn.send(parts, Envelope::of_rows(columns, rows.len()).with(envelope.attached()));
            }
        }
        self.tell_last(hash, turn);
        Ok(())
    }
}

impl Operator for Copied {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let parts = self.deal.parts();
        let was_sampled = self.is_sampled;
        self.take_hashes(turn);
        if !self.is_sampled {
            return Ok(());
        }
        if !was_sampled {
            // Rows may have come meanwhile.
            turn.run_again();
            return Ok(());
        }
        if !self.is_dealt
            && let Some(envelope) = turn.take(0)
        {
            if envelope.is_pill() {
                self.deal.flush(turn);
                (0..parts).for_each(|part| turn.send_pill_once(part));
                self.is_dealt = true;
            } else if let Some(mark) = envelope.mark() {
                self.deal.flush(turn);
                for part in 0..parts {
                    if !turn.is_closed(part) {
                        turn.send_mark(part, mark);
                    }
                }
            } else {
                self.deal(&envelope, turn)?;
            }
            self.keep(turn)?;
        }
        if !self.is_dealt {
            return Ok(());
        }
        while let Some(hash) = self.asked.pop_front() {
            if self.heavy.add(hash) {
                self.answer(hash, turn)?;
            }
        }
        if !self.learns {
            self.kept.clear();
            turn.book(0)?;
            turn.send_pills();
        }
        Ok(())
    }
}
