//! A part of a network that goes round until it makes nothing new.

use super::HashKey;
use super::spill::Spilled;
use crate::types::Form;
use crate::{BoxError, BoxModel, Column, Envelope, EnvelopeBuilder, Fragment, Grow, HeldBytes, Operator, Schema, Turn};
use std::collections::VecDeque;
use std::sync::Arc;

/// The rows that go round: all of them, or those that have not come before.
pub trait Sieve: Send {
    /// The rows of an envelope that go round and are sent.
    ///
    /// # Errors
    /// There is no memory for them; the request fails.
    fn pass(&mut self, envelope: Envelope, turn: &Turn<'_>, held: u64) -> Result<Envelope, BoxError>;

    /// At the end of a round: the next rows that were kept back, and go round as well; nothing behind the last ones.
    ///
    /// # Errors
    /// As those of [`Sieve::pass`].
    fn rest(&mut self, turn: &Turn<'_>, held: u64) -> Result<Option<Envelope>, BoxError> {
        let _ = (turn, held);
        Ok(None)
    }

    /// The bytes of memory it holds.
    fn held(&self) -> u64;
}

type NewSieve = dyn Fn() -> Box<dyn Sieve> + Send + Sync;

/// The way of an [`iterate`] box: what is done in each round, and which rows go on to the next one.
///
/// ```
/// use vicus_flow::{FragmentBuilder, Schema, Type, library};
/// use vicus_flow::library::{HashKey, Iterating};
///
/// let schema = Schema::new([("n", Type::U64)]);
/// let mut step = FragmentBuilder::new("step", [&schema]);
/// let next = step.add(library::map("next", &schema, &schema, Some));
/// step.connect(step.input(0), next.input(0));
/// step.end(next.output(0));
/// // Each number comes back, and none is new.
/// let iterating = Iterating::of(&schema, &step.build()?).only_new(HashKey::default());
/// # let _ = library::iterate(&iterating);
/// # Ok::<(), vicus_flow::ModelError>(())
/// ```
#[derive(Clone)]
pub struct Iterating {
    schema: Schema,
    step: Fragment,
    sieve: Option<Arc<NewSieve>>,
    most_rounds: u64,
}

impl Iterating {
    /// A step over rows of this schema. Its first input are the rows of a round, and its only output those of the next
    /// one. Further inputs get the same rows in each round.
    pub fn of(schema: &Schema, step: &Fragment) -> Iterating {
        Iterating { schema: schema.clone(), step: step.clone(), sieve: None, most_rounds: u64::MAX }
    }

    /// Only rows that have not come before go round, as sets have it: so the box ends if the step makes rows of a
    /// finite set. Two rows are equal if all their values are, and nulls are equal; floats are compared by their bits.
    pub fn only_new(self, by: HashKey) -> Iterating {
        let schema = self.schema.clone();
        self.sieved(move || Box::new(OnlyNew { schema: schema.clone(), seen: Strings::new(by) }))
    }

    /// The rows that pass this sieve go round. Each live box has one of its own.
    pub fn sieved(self, sieve: impl Fn() -> Box<dyn Sieve> + Send + Sync + 'static) -> Iterating {
        Iterating { sieve: Some(Arc::new(sieve)), ..self }
    }

    /// More rounds than this fail the request.
    pub fn most_rounds(self, most: u64) -> Iterating {
        Iterating { most_rounds: most, ..self }
    }
}

/// Sends the rows of its first input, what a step makes of them, what the step makes of that, and so on, until nothing
/// comes any more. Semi-naive evaluation: only the rows of the last round go round (Bancilhon, "Naive evaluation of
/// recursively defined relations", 1986).
///
/// The step is a [fragment](Fragment), made anew for each round beside this box, and freed after it. Further inputs of
/// the box are kept, and are sent to the step's further inputs in each round: a table to be looked up is built once.
///
/// Rows that wait for their round are booked to the request's budget, and go to [files](crate::Overflows) beyond it, if
/// the request may use any; rows known to the sieve stay in memory, unless it puts them elsewhere.
///
/// ```
/// use std::sync::mpsc;
/// use vicus_flow::{Envelope, FragmentBuilder, ModelBuilder, Schema, Type, library, sequential};
/// use vicus_flow::library::{HashKey, Iterating};
///
/// // The numbers that are reached from 1 by doubling, modulo 100.
/// let schema = Schema::new([("n", Type::U64)]);
/// let mut step = FragmentBuilder::new("double", [&schema]);
/// let double = step.add(library::map("double", &schema, &schema, |envelope| {
///     let doubled: Vec<u64> = envelope.column(0).u64s().iter().map(|n| n * 2 % 100).collect();
///     Some(Envelope::new([doubled.into()]))
/// }));
/// step.connect(step.input(0), double.input(0));
/// step.end(double.output(0));
///
/// let mut net = ModelBuilder::new("powers");
/// let one = net.source(library::source("one", &schema, || [Envelope::new([vec![1u64].into()])]));
/// let powers = net.add(library::iterate(&Iterating::of(&schema, &step.build()?).only_new(HashKey::default())));
/// let (send, receive) = mpsc::channel();
/// let end = net.add(library::sink("end", &schema, move |rows| Ok(send.send(rows.column(0).u64s().to_vec())?)));
/// net.connect(one.output(0), powers.input(0));
/// net.connect(powers.output(0), end.input(0));
/// net.end(end.output(0));
/// sequential::run(&net.build()?, Vec::new(), |_| 0)?;
/// let found: Vec<u64> = receive.try_iter().flatten().collect();
/// assert_eq!(found[..8], [1, 2, 4, 8, 16, 32, 64, 28]);
/// assert_eq!(found.len(), 22);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
/// If the step has not one output, or has boxes that begin by themselves, or its columns are not those of `schema`.
pub fn iterate(iterating: &Iterating) -> BoxModel {
    let step = &iterating.step;
    let made: Vec<&Schema> = step.outputs().collect();
    assert!(
        matches!(made[..], [made] if made.fits(&iterating.schema)),
        "the step {step:?} makes rows of the same columns"
    );
    assert!(!step.has_sources(), "the step {step:?} has only boxes that read its inputs");
    let rounds = step.inputs();
    assert!(
        rounds.first().is_some_and(|first| iterating.schema.fits(first)),
        "the step {step:?} reads rows of the same columns"
    );
    let iterating = iterating.clone();
    let (schema, constants) = (iterating.schema.clone(), &rounds[1..]);
    let operator = {
        let inputs = rounds.len();
        move || Iterate {
            step: iterating.step.clone(),
            sieve: iterating.sieve.as_ref().map(|sieve| sieve()),
            most_rounds: iterating.most_rounds,
            kept: (1..inputs).map(|_| RoundRows::default()).collect(),
            open: inputs,
            waiting: Waiting::default(),
            sending: Waiting::default(),
            is_sent: false,
            round: 0,
            stage: Stage::Begins,
        }
    };
    let model = BoxModel::new("iterate", operator).input(&schema);
    constants.iter().fold(model, BoxModel::input).output(&schema).going_round(rounds)
}

struct Iterate {
    step: Fragment,
    sieve: Option<Box<dyn Sieve>>,
    most_rounds: u64,
    /// The rows of the further inputs.
    kept: Vec<RoundRows>,
    /// How many inputs have not ended.
    open: usize,
    /// The rows of the next round.
    waiting: Waiting,
    /// The rows of the present one.
    sending: Waiting,
    /// Whether its pill was sent.
    is_sent: bool,
    round: u64,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The first rows and the kept ones are still coming.
    Begins,
    /// A step is to be made.
    Between,
    /// The rows are sent, and others may come back.
    Sends,
    /// All are sent, and the pill has not come back.
    Waits,
    /// The last pill was sent.
    Over,
}

/// Rows that go into each round.
#[derive(Default)]
struct RoundRows {
    envelopes: Vec<Envelope>,
    bytes: u64,
    held: HeldBytes,
    /// How many were sent in this round.
    sent: usize,
}

/// Envelopes, first in, first out; the newest ones outside of memory if there is no room.
#[derive(Default)]
struct Waiting {
    envelopes: VecDeque<Envelope>,
    bytes: u64,
    outside: Option<Spilled>,
}

impl Waiting {
    /// Keeps an envelope; `others` are bytes that the box holds beside these.
    fn push(&mut self, turn: &Turn<'_>, envelope: Envelope, others: u64) -> Result<(), BoxError> {
        if let Some(outside) = &mut self.outside {
            return outside.push(turn, envelope);
        }
        let envelope = envelope.compact();
        let more = envelope.held_bytes() + 128;
        match turn.book(others + self.bytes + more) {
            Ok(()) => {
                self.bytes += more;
                self.envelopes.grow(1)?;
                self.envelopes.push_back(envelope);
                Ok(())
            }
            Err(refused) if !Spilled::is_possible(turn) => Err(refused.into()),
            Err(_) => {
                turn.book(others + self.bytes)?;
                self.outside.insert(Spilled::begin(turn)?).push(turn, envelope)
            }
        }
    }

    fn pop(&mut self) -> Result<Option<Envelope>, BoxError> {
        if let Some(envelope) = self.envelopes.pop_front() {
            self.bytes = self.bytes.saturating_sub(envelope.held_bytes() + 128);
            return Ok(Some(envelope));
        }
        match &mut self.outside {
            Some(outside) => outside.pop(),
            None => Ok(None),
        }
    }

    fn is_empty(&self) -> bool {
        self.envelopes.is_empty() && self.outside.is_none()
    }
}

impl Iterate {
    /// The bytes that it holds beside the rows of the next round.
    fn others(&self) -> u64 {
        let kept: u64 = self.kept.iter().map(|kept| kept.bytes).sum();
        kept + self.sending.bytes + self.sieve.as_ref().map_or(0, |sieve| sieve.held())
    }

    /// Sends new rows, and keeps them for the next round.
    fn pass(&mut self, turn: &mut Turn<'_>, envelope: Envelope) -> Result<(), BoxError> {
        let held = self.others() + self.waiting.bytes;
        let envelope = match &mut self.sieve {
            Some(sieve) => {
                let held = held - sieve.held();
                sieve.pass(envelope, turn, held)?
            }
            None => envelope,
        };
        if envelope.rows() == 0 {
            return Ok(());
        }
        let others = self.others();
        self.waiting.push(turn, envelope.clone(), others)?;
        turn.send(0, envelope);
        Ok(())
    }

    /// Sends rows that the sieve has kept back, and keeps them for the next round. Whether there were any.
    fn pass_rest(&mut self, turn: &mut Turn<'_>) -> Result<bool, BoxError> {
        let held = self.others() + self.waiting.bytes;
        let Some(sieve) = &mut self.sieve else { return Ok(false) };
        let held = held - sieve.held();
        let Some(envelope) = sieve.rest(turn, held)? else { return Ok(false) };
        let others = self.others();
        self.waiting.push(turn, envelope.clone(), others)?;
        turn.send(0, envelope);
        Ok(true)
    }

    /// Takes what comes before the first round.
    fn begin(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        for input in 0..=self.kept.len() {
            match turn.take(input) {
                None => {}
                Some(pill) if pill.is_pill() => self.open -= 1,
                Some(envelope) if input == 0 => self.pass(turn, envelope)?,
                Some(envelope) => {
                    let others = self.others() + self.waiting.bytes;
                    let kept = &mut self.kept[input - 1];
                    let more = kept.held.add(&envelope) + 128;
                    turn.book(others + more)?;
                    if !envelope.attached().is_empty() {
                        turn.record_kept(input);
                    }
                    kept.bytes += more;
                    kept.envelopes.grow(1)?;
                    kept.envelopes.push(envelope);
                }
            }
        }
        if self.open == 0 {
            self.stage = Stage::Between;
        }
        Ok(())
    }

    /// Sends rows of this round, as many as there is room for in this invocation, and its pills.
    fn send(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        // A round's vias do not hold the box up: it is invoked when there is room again.
        let (mut is_all, mut goes_on) = (true, false);
        for (place, kept) in self.kept.iter_mut().enumerate() {
            while kept.sent <= kept.envelopes.len() && (turn.is_closed(2 + place) || turn.ask_room(2 + place)) {
                let next = kept.envelopes.get(kept.sent).cloned();
                turn.send(2 + place, next.unwrap_or_else(Envelope::pill));
                kept.sent += 1;
            }
            if kept.sent <= kept.envelopes.len() {
                is_all = false;
                goes_on |= !turn.is_refused(2 + place);
            }
        }
        while !self.is_sent && (turn.is_closed(1) || turn.ask_room(1)) {
            match self.sending.pop()? {
                Some(envelope) => turn.send(1, envelope),
                None => {
                    self.sending = Waiting::default();
                    turn.send_pill(1);
                    self.is_sent = true;
                }
            }
        }
        if self.is_sent && is_all {
            self.stage = Stage::Waits;
        } else if goes_on || !(self.is_sent || turn.is_refused(1)) {
            turn.run_again();
        }
        Ok(())
    }

    /// Nothing more comes, or nobody reads it.
    fn end(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        (self.sieve, self.kept) = (None, Vec::new());
        (self.waiting, self.sending) = (Waiting::default(), Waiting::default());
        turn.book(0)?;
        turn.send_pills();
        for input in 0..turn.inputs() {
            turn.close(input);
        }
        self.stage = Stage::Over;
        Ok(())
    }
}

impl Operator for Iterate {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.stage == Stage::Over {
            return Ok(());
        }
        if turn.is_closed(0) {
            // What it makes has no reader.
            return self.end(turn);
        }
        if self.stage == Stage::Begins {
            self.begin(turn)?;
        }
        let back = turn.inputs() - 1;
        let mut is_back = false;
        match turn.take(back) {
            None => {}
            // A step may end before it has taken all.
            Some(pill) if pill.is_pill() => {
                is_back = true;
                turn.end_round(1);
                self.sending = Waiting::default();
                self.stage = Stage::Between;
            }
            Some(envelope) => self.pass(turn, envelope)?,
        }
        if self.stage == Stage::Sends {
            self.send(turn)?;
        }
        if self.stage == Stage::Between {
            if self.pass_rest(turn)? {
                turn.run_again();
                return Ok(());
            }
            if self.waiting.is_empty() {
                return self.end(turn);
            }
            turn.run_again();
            if !turn.may_go_round(1) {
                if !is_back {
                    turn.give_up_round(1);
                }
                return Ok(());
            }
            self.round += 1;
            if self.round > self.most_rounds {
                return Err(format!("there is something new after {} rounds", self.most_rounds).into());
            }
            self.sending = std::mem::take(&mut self.waiting);
            self.is_sent = false;
            self.kept.iter_mut().for_each(|kept| kept.sent = 0);
            turn.book(self.others())?;
            turn.go_round(self.step.clone());
            self.stage = Stage::Sends;
        }
        Ok(())
    }
}

/// The rows that have come, by their bytes.
struct OnlyNew {
    schema: Schema,
    seen: Strings,
}

impl Sieve for OnlyNew {
    fn pass(&mut self, envelope: Envelope, turn: &Turn<'_>, held: u64) -> Result<Envelope, BoxError> {
        let (mut key, mut new) = (Vec::new(), Vec::new());
        for row in 0..envelope.rows() {
            key.clear();
            envelope.columns().iter().for_each(|column| write(column, row, &mut key));
            if self.seen.add(&key)? {
                new.push(row as u32);
            }
        }
        turn.book(held + self.held())?;
        if new.len() == envelope.rows() {
            return Ok(envelope);
        }
        let mut builder = EnvelopeBuilder::new(&self.schema);
        builder.append(turn, &envelope, &new);
        Ok(Envelope::of_rows(builder.finish_columns(turn), new.len()))
    }

    fn held(&self) -> u64 {
        self.seen.held()
    }
}

/// A set of strings of bytes.
struct Strings {
    by: HashKey,
    bytes: Vec<u8>,
    /// The end of each string, and its hash.
    ends: Vec<(usize, u64)>,
    /// The places of strings, from 1; 0 is free. Invariant: a power of two of them, or none, and at most half are used.
    table: Vec<u32>,
}

impl Strings {
    fn new(by: HashKey) -> Strings {
        Strings { by, bytes: Vec::new(), ends: Vec::new(), table: Vec::new() }
    }

    fn held(&self) -> u64 {
        (self.bytes.capacity() + 16 * self.ends.capacity() + 4 * self.table.capacity()) as u64
    }

    fn string(&self, place: u32) -> &[u8] {
        let place = place as usize - 1;
        let start = if place == 0 { 0 } else { self.ends[place - 1].0 };
        &self.bytes[start..self.ends[place].0]
    }

    /// Whether the string is new; it is there from now on.
    fn add(&mut self, string: &[u8]) -> Result<bool, BoxError> {
        if self.table.len() < 2 * (self.ends.len() + 1) {
            self.widen()?;
        }
        let hash = self.by.hash_string(string);
        let mut at = hash as usize % self.table.len();
        while self.table[at] != 0 {
            let place = self.table[at];
            if self.ends[place as usize - 1].1 == hash && self.string(place) == string {
                return Ok(false);
            }
            at = (at + 1) % self.table.len();
        }
        self.bytes.grow(string.len())?;
        self.bytes.extend_from_slice(string);
        self.ends.grow(1)?;
        self.ends.push((self.bytes.len(), hash));
        self.table[at] = u32::try_from(self.ends.len()).map_err(|_| "there are more than four billion rows")?;
        Ok(true)
    }

    fn widen(&mut self) -> Result<(), BoxError> {
        let size = (2 * self.table.len()).max(64);
        let mut table: Vec<u32> = Vec::new();
        table.grow(size)?;
        table.resize(size, 0);
        for (place, (_, hash)) in self.ends.iter().enumerate() {
            let mut at = *hash as usize % size;
            while table[at] != 0 {
                at = (at + 1) % size;
            }
            table[at] = place as u32 + 1;
        }
        self.table = table;
        Ok(())
    }
}

/// Appends a value as bytes: equal values, and they alone, have the same.
fn write(column: &Column, row: usize, into: &mut Vec<u8>) {
    if column.is_null(row) {
        return into.push(0);
    }
    into.push(1);
    match column.form() {
        Form::List => {
            let items = column.item_range(row);
            into.extend_from_slice(&(items.len() as u64).to_ne_bytes());
            items.for_each(|item| write(column.items(), item, into));
        }
        Form::Struct => column.parts_beside().iter().for_each(|part| write(part, row, into)),
        Form::Direct | Form::Views | Form::Limited(_) | Form::Codes => {
            let string = column.string(row);
            into.extend_from_slice(&(string.len() as u64).to_ne_bytes());
            into.extend_from_slice(string);
        }
        form => {
            let width = form.width();
            into.extend_from_slice(&column.value_bytes()[row * width..][..width]);
        }
    }
}
