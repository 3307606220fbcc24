//! GROUP BY, aggregates and DISTINCT: in one box, or in parts. Other boxes put the groups of the parts together.

use super::fold::State;
use super::keys::{KeyTable, KeyWriter, columns_of};
use crate::evaluate::{Batch, Room, Texts, Vector, evaluate};
use crate::expression::Expr;
use crate::relation::FoldKind;
use crate::types::SqlType;
use std::sync::Arc;
use vicus_flow::library::{DEEPEST, Parts, Spilled};
use vicus_flow::{BoxError, Envelope, Operator, Schema, Turn};

/// The common data of an aggregate's boxes.
pub(crate) struct AggregateSpec {
    /// Over the columns of the input.
    pub(crate) keys: Vec<Expr>,
    pub(crate) folds: Vec<FoldSpec>,
    /// The sent columns: the keys and behind them the results, by their places.
    pub(crate) wanted: Vec<usize>,
    pub(crate) seed: u64,
    pub(crate) limit: usize,
}

pub(crate) struct FoldSpec {
    pub(crate) kind: FoldKind,
    pub(crate) argument: Option<Expr>,
    pub(crate) is_distinct: bool,
}

impl FoldSpec {
    fn argument_kind(&self) -> SqlType {
        self.argument.as_ref().map_or(SqlType::BigInt, Expr::kind)
    }
}

impl AggregateSpec {
    fn key_kinds(&self) -> Vec<SqlType> {
        self.keys.iter().map(Expr::kind).collect()
    }

    /// The types of the columns sent by a box of parts.
    pub(crate) fn part_kinds(&self) -> Vec<SqlType> {
        let states = self.folds.iter().flat_map(|fold| State::part_kinds(fold.kind, &fold.argument_kind()));
        self.key_kinds().into_iter().chain(states).collect()
    }

    pub(crate) fn can_be_parted(&self) -> bool {
        !self.folds.iter().any(|fold| fold.is_distinct)
    }
}

/// The part of the work for a box.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// From rows to results.
    Whole,
    /// From rows to states. A group may come several times, so a box of many groups needs little memory.
    Parts,
    /// From states to results.
    Results,
}

/// A box of parts sends its groups when it has this number.
const PART_GROUPS: usize = 1 << 15;

pub(crate) struct Aggregate {
    spec: Arc<AggregateSpec>,
    stage: Stage,
    input: Schema,
    keys: KeyTable,
    states: Vec<State>,
    texts: Texts,
    /// While groups are being sent: how many were, and whether these are the last.
    sending: Option<(usize, bool)>,
    /// The rows of groups for which there is no memory.
    further: Option<Parts>,
    /// The part that is grouped now, in place of the input.
    reading: Option<(Spilled, u32)>,
    /// The parts that are still to be grouped.
    unread: Vec<(Spilled, u32)>,
    /// An envelope for which a box of parts has no memory before it has sent its groups.
    waiting: Option<Envelope>,
}

/// Rows of groups that are not in the table.
const NO_GROUP: u32 = u32::MAX;

impl Aggregate {
    pub(crate) fn new(spec: &Arc<AggregateSpec>, stage: Stage, input: &Schema) -> Aggregate {
        let state = |fold: &FoldSpec| State::new(fold.kind, fold.argument_kind(), fold.is_distinct, spec.seed);
        Aggregate {
            spec: Arc::clone(spec),
            stage,
            input: input.clone(),
            keys: KeyTable::new(spec.seed),
            states: spec.folds.iter().map(state).collect(),
            texts: Texts::default(),
            sending: None,
            further: None,
            reading: None,
            unread: Vec::new(),
            waiting: None,
        }
    }

    fn groups(&self) -> usize {
        if self.spec.keys.is_empty() { 1 } else { self.keys.len() }
    }

    fn held(&self) -> u64 {
        self.keys.held() + self.states.iter().map(State::held).sum::<u64>()
    }

    /// Takes an envelope. If the budget has no room for further groups, their rows go out of memory, and a box of parts
    /// sends its groups.
    fn accept(&mut self, envelope: Envelope, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let level = self.reading.as_ref().map_or(0, |(_, level)| *level);
        let is_possible =
            self.further.is_none() && self.keys.len() > 0 && level < DEEPEST && Spilled::is_possible(turn);
        if is_possible || (self.stage == Stage::Parts && self.keys.len() > 0) {
            let (rows, bytes) = (envelope.rows(), envelope.bytes());
            let held = if self.keys.grows(rows, bytes as usize) { 2 * self.held() } else { self.held() };
            if turn.book(held + bytes + 64 * rows as u64).is_err() {
                match self.stage {
                    Stage::Parts => {
                        (self.sending, self.waiting) = (Some((0, false)), Some(envelope));
                        return Ok(());
                    }
                    _ => self.further = Some(Parts::begin(turn, &self.input, level)?),
                }
            }
        }
        let mut texts = std::mem::take(&mut self.texts);
        let put = texts.book(turn, self.held(), |room| self.add(envelope.clone(), room))?;
        self.texts = texts;
        if let Some(further) = &mut self.further {
            further.put(turn, &envelope, put.into_iter())?;
        }
        Ok(turn.book(self.held())?)
    }

    /// Adds rows to their groups. Gives those, with the hashes of their keys, whose groups have no room.
    fn add(&mut self, envelope: Envelope, room: &Room<'_>) -> Result<Vec<(u32, u64)>, BoxError> {
        let spec = &self.spec;
        let rows = envelope.rows();
        let batch = Batch { columns: envelope.into_columns(), rows };
        let column = |place: usize| Vector::Many(batch.columns[place].clone());
        let keys = match self.stage {
            Stage::Results => (0..spec.keys.len()).map(column).collect(),
            _ => spec.keys.iter().map(|key| evaluate(key, &batch, room)).collect::<Result<Vec<_>, _>>()?,
        };
        let (mut groups, mut further) = (vec![0u32; rows], Vec::new());
        if !spec.keys.is_empty() {
            let kinds = spec.key_kinds();
            let (writer, mut key) = (KeyWriter::new(&keys, &kinds, room)?, Vec::new());
            let mut codes = writer.of_codes(rows, room)?.filter(|_| self.further.is_none());
            for (row, group) in groups.iter_mut().enumerate() {
                if let Some(codes) = &mut codes {
                    *group = codes.number(row, || {
                        writer.write(row, &mut key);
                        self.keys.number(&key, room)
                    })?;
                    continue;
                }
                writer.write(row, &mut key);
                *group = match self.further {
                    None => self.keys.number(&key, room)?,
                    Some(_) => self.keys.find(&key).unwrap_or_else(|| {
                        further.push((row as u32, self.keys.hash(&key)));
                        NO_GROUP
                    }),
                };
            }
        }
        // Its known rows alone are folded.
        let known = |vector: Vector| match further.is_empty() {
            true => Ok(vector),
            false => {
                let rows: Vec<u32> = (0..rows as u32).filter(|&row| groups[row as usize] != NO_GROUP).collect();
                vector.picked(&rows, room)
            }
        };
        let of_known: Vec<u32> = groups.iter().copied().filter(|&group| group != NO_GROUP).collect();
        let count = self.groups();
        let mut place = spec.keys.len();
        for (state, fold) in self.states.iter_mut().zip(&spec.folds) {
            state.resize(count)?;
            if self.stage == Stage::Results {
                let width = State::part_kinds(fold.kind, &fold.argument_kind()).len();
                let parts = (place..place + width).map(|place| known(column(place)));
                let parts = parts.collect::<Result<Vec<Vector>, BoxError>>()?;
                place += width;
                state.add_parts(&parts, &of_known, room)?;
                continue;
            }
            match &fold.argument {
                None => state.add(None, &of_known, room)?,
                Some(argument) => state.add(Some(&known(evaluate(argument, &batch, room)?)?), &of_known, room)?,
            }
        }
        Ok(further)
    }

    /// Sends groups while there is room. Whether all are sent.
    fn send(&mut self, turn: &mut Turn<'_>) -> Result<bool, BoxError> {
        let (mut next, is_last) = self.sending.expect("groups are being sent");
        let (count, kinds) = (self.groups(), self.spec.key_kinds());
        for state in &mut self.states {
            // Without keys there is a group even if no row came.
            state.resize(count)?;
        }
        while next < count {
            if !turn.ask_room(0) || turn.is_stopped() {
                self.sending = Some((next, is_last));
                turn.run_again();
                return Ok(false);
            }
            let groups = next..count.min(next + self.spec.limit);
            let rows = groups.len();
            let mut texts = std::mem::take(&mut self.texts);
            let mut columns = texts.book(turn, self.held(), |room| {
                let mut columns = match kinds.is_empty() {
                    true => Vec::new(),
                    false => columns_of(groups.clone().map(|group| self.keys.key(group)), &kinds, room)?,
                };
                for state in &self.states {
                    match self.stage {
                        Stage::Parts => columns.extend(state.parts(groups.clone(), room)?),
                        _ => columns.push(state.results(groups.clone(), room)?),
                    }
                }
                Ok(columns)
            })?;
            self.texts = texts;
            if self.stage != Stage::Parts {
                columns = self.spec.wanted.iter().map(|&place| columns[place].clone()).collect();
            }
            turn.send(0, Envelope::of_rows(columns, rows));
            next = groups.end;
        }
        self.unread.extend(self.further.take().into_iter().flat_map(Parts::into_queues));
        let (stage, mut unread) = (self.stage, std::mem::take(&mut self.unread));
        let (reading, waiting) = (if is_last { unread.pop() } else { None }, self.waiting.take());
        *self = Aggregate { reading, unread, waiting, ..Aggregate::new(&self.spec, stage, &self.input) };
        turn.book(0)?;
        if self.reading.is_some() || self.waiting.is_some() {
            turn.run_again();
        } else if is_last {
            turn.send_pill(0);
        }
        Ok(true)
    }
}

impl Operator for Aggregate {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.sending.is_none()
            && let Some(envelope) = self.waiting.take()
        {
            self.accept(envelope, turn)?;
            // What has come meanwhile invokes the box no more.
            turn.run_again();
        } else if let (None, Some((part, _))) = (self.sending, &mut self.reading) {
            match part.pop()? {
                None => self.sending = Some((0, true)),
                Some(envelope) => {
                    self.accept(envelope, turn)?;
                    turn.run_again();
                }
            }
        } else if self.sending.is_none() {
            match turn.take(0) {
                None => return Ok(()),
                Some(pill) if pill.is_pill() => self.sending = Some((0, true)),
                // All groups come at the end, after all times.
                Some(envelope) if envelope.mark().is_some() => {}
                Some(envelope) => {
                    self.accept(envelope, turn)?;
                    if self.stage == Stage::Parts && self.groups() >= PART_GROUPS {
                        self.sending = Some((0, false));
                    }
                }
            }
        }
        // Envelopes that arrived before this invocation, and were not taken by it, invoke the box no more.
        if self.sending.is_some() && self.send(turn)? && self.reading.is_none() && turn.head(0).is_some() {
            turn.run_again();
        }
        Ok(())
    }
}
