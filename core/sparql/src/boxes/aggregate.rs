//! GROUP BY: folds the rows of each group into one. Collects everything before it puts anything out.

use super::{Growth, slices};
use crate::algebra::Fold;
use crate::evaluate::{Evaluator, add, divide};
use crate::terms::Terms;
use crate::value::{Number, Value, total_order};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use vicus_flow::{BoxError, Column, Envelope, Operator, Turn};
use vicus_rdf::Id;

/// What is folded, over columns.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct AggregateSpec {
    /// A group has the same values in these columns; none for a column that is always unbound.
    pub(crate) keys: Vec<Option<usize>>,
    pub(crate) folds: Vec<FoldSpec>,
}

/// One aggregate.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct FoldSpec {
    pub(crate) fold: Fold,
    /// The column that is folded; none if it is an error in each row, or rows themselves are counted.
    pub(crate) of: Option<usize>,
    /// Rows are counted, not values.
    pub(crate) rows: bool,
    /// Of rows that are equal in these columns, one counts.
    pub(crate) distinct: Option<Vec<usize>>,
}

/// The groups so far.
pub(crate) struct Groups {
    terms: Arc<Terms>,
    spec: Arc<AggregateSpec>,
    numbers: FxHashMap<Box<[u64]>, usize>,
    /// By the number of the group, one after the other.
    keys: Vec<u64>,
    states: Vec<State>,
    count: usize,
    key: Vec<u64>,
    value: Vec<u64>,
}

struct State {
    seen: FxHashSet<Box<[u64]>>,
    /// Values so far; errors are none.
    count: u64,
    total: Option<Number>,
    chosen: Id,
    text: Option<String>,
}

impl State {
    fn new() -> State {
        State {
            seen: FxHashSet::default(),
            count: 0,
            total: Some(Number::Integer(0)),
            chosen: Id::UNBOUND,
            text: Some(String::new()),
        }
    }

    /// §18.5.1. An error makes COUNT and SAMPLE overlook the row, and all others fail.
    fn add(&mut self, terms: &Terms, fold: &Fold, id: Id) {
        if id.is_unbound() {
            self.total = None;
            self.text = None;
            return;
        }
        self.count += 1;
        match fold {
            Fold::Count => {}
            Fold::Sum | Fold::Average => {
                let number = match id.as_integer() {
                    Some(value) => Some(Number::Integer(value)),
                    None => match terms.view(id, Value::of_view) {
                        Value::Number(number) => Some(number),
                        _ => None,
                    },
                };
                self.total = self.total.zip(number).and_then(|(a, b)| add(a, b));
            }
            Fold::Least => {
                if self.chosen.is_unbound() || total_order(terms, id, self.chosen).is_lt() {
                    self.chosen = id;
                }
            }
            Fold::Greatest => {
                if self.chosen.is_unbound() || total_order(terms, id, self.chosen).is_gt() {
                    self.chosen = id;
                }
            }
            Fold::Sample => {
                if self.chosen.is_unbound() {
                    self.chosen = id;
                }
            }
            Fold::Concat(separator) => {
                if id.is_blank() {
                    self.text = None;
                }
                if let Some(text) = &mut self.text {
                    if self.count > 1 {
                        text.push_str(separator);
                    }
                    terms.view(id, |view| view.write_lexical(text)).expect("a string takes everything");
                }
            }
        }
    }

    fn result(&self, terms: &Arc<Terms>, fold: &Fold) -> Id {
        let evaluator = Evaluator::new(terms);
        let number = |number: Option<Number>| number.map_or(Id::UNBOUND, |number| evaluator.number_id(number));
        match fold {
            Fold::Count => number(Some(Number::Integer(self.count as i64))),
            Fold::Sum => number(self.total),
            Fold::Average if self.count == 0 => number(self.total),
            Fold::Average => number(self.total.and_then(|total| divide(total, Number::Integer(self.count as i64)))),
            // A failed total says that there was an error.
            Fold::Least | Fold::Greatest => self.total.map_or(Id::UNBOUND, |_| self.chosen),
            Fold::Sample => self.chosen,
            Fold::Concat(_) => self.text.as_ref().map_or(Id::UNBOUND, |text| terms.string(text)),
        }
    }
}

impl Groups {
    pub(crate) fn new(terms: &Arc<Terms>, spec: &Arc<AggregateSpec>) -> Groups {
        let mut groups = Groups {
            terms: Arc::clone(terms),
            spec: Arc::clone(spec),
            numbers: FxHashMap::default(),
            keys: Vec::new(),
            states: Vec::new(),
            count: 0,
            key: Vec::new(),
            value: Vec::new(),
        };
        if spec.keys.is_empty() {
            // The whole is a group, even of no rows.
            groups.group();
        }
        groups
    }

    /// The number of the group with the key at hand.
    fn group(&mut self) -> usize {
        if let Some(number) = self.numbers.get(&self.key[..]) {
            return *number;
        }
        let number = self.count;
        self.numbers.insert(self.key.clone().into(), number);
        self.keys.extend_from_slice(&self.key);
        self.states.extend(self.spec.folds.iter().map(|_| State::new()));
        self.count += 1;
        number
    }

    /// Adds a row, of which the value in each column is given.
    pub(crate) fn add(&mut self, value: impl Fn(usize) -> u64) {
        self.key.clear();
        self.key.extend(self.spec.keys.iter().map(|column| column.map_or(0, &value)));
        let first = self.group() * self.spec.folds.len();
        for (state, fold) in self.states[first..].iter_mut().zip(&self.spec.folds) {
            if let Some(columns) = &fold.distinct {
                self.value.clear();
                self.value.extend(columns.iter().map(|&column| value(column)));
                if state.seen.contains(&self.value[..]) {
                    continue;
                }
                state.seen.insert(self.value.clone().into());
            }
            let id = if fold.rows { Id::boolean(true) } else { Id::from_bits(fold.of.map_or(0, &value)) };
            state.add(&self.terms, &fold.fold, id);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// A group's keys and results.
    pub(crate) fn row(&self, number: usize) -> impl Iterator<Item = u64> + '_ {
        let (keys, folds) = (self.spec.keys.len(), self.spec.folds.len());
        let states = self.states[number * folds..(number + 1) * folds].iter().zip(&self.spec.folds);
        let results = states.map(|(state, fold)| state.result(&self.terms, &fold.fold).bits());
        self.keys[number * keys..(number + 1) * keys].iter().copied().chain(results)
    }
}

pub(crate) struct Aggregate {
    groups: Groups,
    is_complete: bool,
    next: usize,
    growth: Growth,
}

impl Aggregate {
    pub(crate) fn new(terms: &Arc<Terms>, spec: &Arc<AggregateSpec>, limit: usize) -> Aggregate {
        Aggregate { groups: Groups::new(terms, spec), is_complete: false, next: 0, growth: Growth::new(limit) }
    }
}

impl Operator for Aggregate {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if !self.is_complete {
            match turn.take(0) {
                None => return Ok(()),
                Some(pill) if pill.is_pill() => self.is_complete = true,
                Some(envelope) => {
                    let columns = slices(&envelope);
                    (0..envelope.rows()).for_each(|row| self.groups.add(|column| columns[column][row]));
                    return Ok(());
                }
            }
        }
        let end = self.groups.len().min(self.next + self.growth.target);
        if end > self.next {
            let spec = &self.groups.spec;
            let mut columns = vec![Vec::with_capacity(end - self.next); spec.keys.len() + spec.folds.len()];
            for group in self.next..end {
                columns.iter_mut().zip(self.groups.row(group)).for_each(|(column, value)| column.push(value));
            }
            let columns = columns.into_iter().map(Column::from).collect();
            turn.send(0, Envelope::of_rows(columns, end - self.next));
            self.next = end;
            self.growth.grow();
        }
        if end == self.groups.len() {
            turn.send_pill(0)
        } else {
            turn.run_again()
        }
        Ok(())
    }
}
