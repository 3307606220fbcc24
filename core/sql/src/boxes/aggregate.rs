//! GROUP BY, aggregates and DISTINCT: in one box, or in parts. Other boxes put the groups of the parts together.

use super::fold::State;
use super::keys::{KeyTable, KeyWriter, columns_of};
use crate::evaluate::{Batch, Room, Texts, Vector, evaluate};
use crate::expression::Expr;
use crate::relation::FoldKind;
use crate::types::SqlType;
use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, Operator, Turn};

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
        let states = self.folds.iter().flat_map(|fold| State::part_kinds(fold.kind, fold.argument_kind()));
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
    keys: KeyTable,
    states: Vec<State>,
    texts: Texts,
    /// While groups are being sent: how many were, and whether these are the last.
    sending: Option<(usize, bool)>,
}

impl Aggregate {
    pub(crate) fn new(spec: &Arc<AggregateSpec>, stage: Stage) -> Aggregate {
        let state = |fold: &FoldSpec| State::new(fold.kind, fold.argument_kind(), fold.is_distinct, spec.seed);
        Aggregate {
            spec: Arc::clone(spec),
            stage,
            keys: KeyTable::new(spec.seed),
            states: spec.folds.iter().map(state).collect(),
            texts: Texts::default(),
            sending: None,
        }
    }

    fn groups(&self) -> usize {
        if self.spec.keys.is_empty() { 1 } else { self.keys.len() }
    }

    fn held(&self) -> u64 {
        self.keys.held() + self.states.iter().map(State::held).sum::<u64>()
    }

    fn add(&mut self, envelope: Envelope, room: &Room<'_>) -> Result<(), BoxError> {
        let spec = &self.spec;
        let rows = envelope.rows();
        let batch = Batch { columns: envelope.into_columns(), rows };
        let column = |place: usize| Vector::Many(batch.columns[place].clone());
        let keys = match self.stage {
            Stage::Results => (0..spec.keys.len()).map(column).collect(),
            _ => spec.keys.iter().map(|key| evaluate(key, &batch, room)).collect::<Result<Vec<_>, _>>()?,
        };
        let mut groups = vec![0u32; rows];
        if !spec.keys.is_empty() {
            let kinds = spec.key_kinds();
            let (writer, mut key) = (KeyWriter::new(&keys, &kinds, room)?, Vec::new());
            for (row, group) in groups.iter_mut().enumerate() {
                writer.write(row, &mut key);
                *group = self.keys.number(&key, room)?;
            }
        }
        let count = self.groups();
        let mut place = spec.keys.len();
        for (state, fold) in self.states.iter_mut().zip(&spec.folds) {
            state.resize(count)?;
            if self.stage == Stage::Results {
                let width = State::part_kinds(fold.kind, fold.argument_kind()).len();
                let parts: Vec<Vector> = (place..place + width).map(column).collect();
                place += width;
                state.add_parts(&parts, &groups, room)?;
                continue;
            }
            match &fold.argument {
                None => state.add(None, &groups, room)?,
                Some(argument) => state.add(Some(&evaluate(argument, &batch, room)?), &groups, room)?,
            }
        }
        Ok(())
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
        self.sending = None;
        let stage = self.stage;
        *self = Aggregate::new(&Arc::clone(&self.spec), stage);
        turn.book(0)?;
        if is_last {
            turn.send_pill(0);
        }
        Ok(true)
    }
}

impl Operator for Aggregate {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if self.sending.is_none() {
            match turn.take(0) {
                None => return Ok(()),
                Some(pill) if pill.is_pill() => self.sending = Some((0, true)),
                // All groups come at the end, after all times.
                Some(envelope) if envelope.mark().is_some() => {}
                Some(envelope) => {
                    let mut texts = std::mem::take(&mut self.texts);
                    texts.book(turn, self.held(), |room| self.add(envelope, room))?;
                    self.texts = texts;
                    turn.book(self.held())?;
                    if self.stage == Stage::Parts && self.groups() >= PART_GROUPS {
                        self.sending = Some((0, false));
                    }
                }
            }
        }
        // Envelopes that arrived before this invocation, and were not taken by it, invoke the box no more.
        if self.sending.is_some() && self.send(turn)? && turn.head(0).is_some() {
            turn.run_again();
        }
        Ok(())
    }
}
