//! GROUP BY: folds the rows of each group into one. The output begins when the whole input has been read.
//!
//! If several boxes share the work, each folds its input in a table in the cache and sends *parts*: for each group its
//! keys, and for each aggregate a count and a value. The hash of the keys sends all parts of one group to the same box:
//! Leis, Boncz, Kemper, Neumann, "Morsel-driven parallelism", SIGMOD 2014, §4.4.

mod records;
mod texts;
mod values;

use self::records::{Spilled, Words};
use self::texts::{MOST_TEXT, Making, Room, length_of};
use self::values::Values;
use crate::algebra::Fold;
use crate::boxes::partitioned_table::{Filter, Parted, Stopped, Table};
use crate::boxes::scatter::DEEPEST;
use crate::boxes::spill::{Hold, LEAST, RowRun};
use crate::boxes::{Growth, Inputs, MOST_ATTACHED_TO_WAITING, attach, envelope_of, had, interleave, slices};
use crate::evaluate::{Evaluator, FETCHED, LONG, Scratch, TextPart, fetch};
use crate::expression::{Arithmetic, Expr};
use crate::operators::distinct::Wide;
use crate::passing_terms::Passing;
use crate::terms::{Booking, Terms};
use crate::value::{Number, extreme_order};
use std::sync::Arc;
use vicus_flow::{Attachment, BoxError, Envelope, Grow, Operator, Turn};
use vicus_rdf::Id;

/// The keys and the aggregates, as columns of the input.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct AggregateSpec {
    /// The columns of the keys; `None` for an always unbound key.
    pub(crate) keys: Vec<Option<usize>>,
    pub(crate) folds: Vec<FoldSpec>,
}

/// One aggregate.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct FoldSpec {
    pub(crate) fold: Fold,
    /// The column to fold; `None` if its expression fails in each row, or if rows are counted.
    pub(crate) of: Option<usize>,
    /// The expression to fold instead of a column: a sum needs only its values, and GROUP_CONCAT its texts, so they
    /// never become terms.
    pub(crate) value: Option<Expr>,
    /// Count rows, not values (`COUNT(*)`).
    pub(crate) rows: bool,
    /// DISTINCT: one row counts among the rows equal in these columns.
    pub(crate) distinct: Option<Vec<usize>>,
    /// GROUP_CONCAT's text lives as long as its envelopes: see [`crate::passing_terms`].
    pub(crate) passes: bool,
}

impl AggregateSpec {
    /// Whether two parts of a group can be put together. They can't if an aggregate is DISTINCT, as parts don't list
    /// their values.
    pub(crate) fn has_parts(&self) -> bool {
        self.folds.iter().all(|fold| fold.distinct.is_none())
    }

    /// How many rows are added between two checks of the memory held. Few if a row may make a long string longer.
    fn portion(&self, most: usize) -> usize {
        if self.has_text() { most.min(16) } else { most }
    }

    fn has_text(&self) -> bool {
        self.folds.iter().any(|fold| matches!(fold.fold, Fold::Concat(_)))
    }

    /// Cuts off the next rows to add before the memory held is checked again: one row if the last ones made strings
    /// much longer, or if none was added yet. The text of one row may have megabytes, and may be added to many groups.
    /// A spilling box takes a number of rows that adds little to its limit even if each is a new group.
    fn next_rows<'a>(&self, terms: &Terms, rows: &mut &'a [u64], width: usize, may_grow: bool) -> Option<&'a [u64]> {
        /// The part of a box's limit that rows add at once.
        const PART: u64 = 32;
        let portion = self.portion(usize::MAX / width);
        let group = 8 * self.keys.len() + 2 * size_of::<State>() * self.folds.len() + 8;
        let few = usize::try_from(terms.most_held() / PART / group as u64).unwrap_or(usize::MAX).max(16);
        let count = if may_grow && portion < usize::MAX / width { 1 } else { portion.min(few) };
        let (next, rest) = rows.split_at(rows.len().min(count * width));
        *rows = rest;
        (!next.is_empty()).then_some(next)
    }

    /// Limits the size of a table of groups: `cache` bytes, except where strings grow. There rows must not wait for
    /// their table: adding them later would make the strings longer all at once.
    fn cache(&self, cache: u64) -> u64 {
        if self.portion(usize::MAX) < usize::MAX { u64::MAX } else { cache }
    }

    /// Reads the terms of these rows needed by the folded expressions: see [`fetch`].
    fn fetch(&self, terms: &Terms, rows: &[u64], width: usize) {
        let slots = self.folds.iter().filter_map(|fold| fold.value.as_ref()).flat_map(Expr::slots);
        for slot in slots {
            let mut ids = [0; FETCHED];
            let column = rows.iter().skip(slot.0).step_by(width);
            let count = ids.iter_mut().zip(column).map(|(id, bits)| *id = *bits).count();
            fetch(terms, &ids[..count]);
        }
    }

    /// The number of columns of a part.
    pub(crate) fn part_columns(&self) -> usize {
        self.keys.len() + 2 * self.folds.len()
    }

    /// How to fold parts instead of solutions: the keys, then each aggregate's count and value.
    fn of_parts(&self) -> AggregateSpec {
        let folds = self.folds.iter().enumerate().map(|(number, fold)| FoldSpec {
            of: Some(self.keys.len() + 2 * number),
            value: None,
            rows: false,
            ..fold.clone()
        });
        AggregateSpec { keys: (0..self.keys.len()).map(Some).collect(), folds: folds.collect() }
    }
}

/// If adding a row makes strings longer by more bytes than this, rows are added one at a time.
const GROWS_MUCH: u64 = 1 << 20;

/// The meaning of the input rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rows {
    /// Solutions of the operator below.
    Solutions,
    /// Parts made by a [`PreAggregate`].
    Parts,
}

/// The table of groups.
pub(crate) struct Groups {
    terms: Arc<Terms>,
    spec: Arc<AggregateSpec>,
    rows: Rows,
    width: usize,
    /// A group's number plus one; 0 for an empty slot. Invariant: at most half of the slots are taken.
    slots: Vec<u32>,
    /// The keys of all groups, one group after the other.
    keys: Vec<u64>,
    states: Vec<State>,
    /// For each DISTINCT aggregate, the set of pairs of a group's number and a value.
    seen: Vec<Option<Wide>>,
    count: usize,
    /// The group of the last added row.
    last: usize,
    /// Bytes of GROUP_CONCAT's strings.
    text_bytes: u64,
    row: Vec<u64>,
    scratch: Scratch,
    /// Cached data of the folded expressions' evaluation.
    evaluating: Scratch,
}

/// The state of an aggregate in a group. §18.5.1: COUNT and SAMPLE skip rows with a failed expression; all other
/// aggregates fail.
enum State {
    Count(u64),
    /// The number of values, and their sum: `None` after an error.
    Total(u64, Option<Number>),
    /// Unbound before the first value; `None` after an error.
    Best(Option<Id>),
    Sample(Id),
    Text(u64, Option<String>),
}

/// The bit of a part's count for a failed aggregate. A count with it is no id of a computed term, and no count is, so
/// parts cross between machines like rows of ids.
const FAILED: u64 = 1 << 63;

impl State {
    fn new(fold: &Fold) -> State {
        match fold {
            Fold::Count => State::Count(0),
            Fold::Sum | Fold::Average => State::Total(0, Some(Number::Integer(0))),
            Fold::Least | Fold::Greatest => State::Best(Some(Id::UNBOUND)),
            Fold::Sample => State::Sample(Id::UNBOUND),
            Fold::Concat(_) => State::Text(0, Some(String::new())),
        }
    }

    /// Adds a part of `part` values. A single value is a part of its own.
    fn add(&mut self, terms: &Terms, scratch: &Scratch, fold: &Fold, part: u64, id: Id, room: &mut Room<'_>) {
        let is_failed = part & FAILED != 0 || part == 1 && id.is_unbound();
        match self {
            State::Count(count) => *count += if is_failed { 0 } else { part },
            State::Total(..) => {
                self.sum_up(part & !FAILED, if is_failed { None } else { scratch.number(terms, id) });
            }
            State::Best(best) => match best {
                _ if is_failed => *best = None,
                Some(best) if !id.is_unbound() => {
                    let wanted =
                        if *fold == Fold::Least { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater };
                    if best.is_unbound() || extreme_order(terms, id, *best) == wanted {
                        *best = terms.kept(id);
                    }
                }
                _ => {}
            },
            State::Sample(sample) => {
                if sample.is_unbound() {
                    *sample = terms.kept(id);
                }
            }
            State::Text(_, text) => {
                if is_failed || part == 1 && id.is_blank() {
                    *text = None;
                }
                if text.is_some() && part > 0 {
                    terms.view(id, |view| {
                        let write = |text: &mut String| view.write_lexical(text).expect("a string takes everything");
                        self.add_text(terms, fold, part, length_of(view), write, room);
                    });
                }
            }
        }
    }

    /// Appends a text of `bytes` bytes, standing for `part` values.
    fn add_text(
        &mut self,
        terms: &Terms,
        fold: &Fold,
        part: u64,
        bytes: usize,
        write: impl FnOnce(&mut String),
        room: &mut Room<'_>,
    ) {
        let (State::Text(count, Some(text)), Fold::Concat(separator)) = (self, fold) else { return };
        let separator = if *count > 0 { &separator[..] } else { "" };
        if room.make(terms, text, separator.len() + bytes) {
            *count += part;
            text.push_str(separator);
            write(text);
        }
    }

    /// Adds the value of the folded expression; `None` if the expression failed.
    fn add_part(&mut self, terms: &Terms, scratch: &Scratch, fold: &Fold, part: Option<TextPart>, room: &mut Room<'_>) {
        match part {
            None => self.add(terms, scratch, fold, 1, Id::UNBOUND, room),
            Some(TextPart::Term(id)) => self.add(terms, scratch, fold, 1, id, room),
            Some(TextPart::Text(part)) => {
                self.add_text(terms, fold, 1, part.len(), |text| text.push_str(&part), room);
            }
        }
    }

    /// Adds `part` values with this sum. `None`: one of them failed, so the whole fails.
    fn sum_up(&mut self, part: u64, sum: Option<Number>) {
        let State::Total(count, total) = self else { unreachable!("only sums are folded so") };
        *count += part;
        let is_sum = total.as_mut().zip(sum).is_some_and(|(total, more)| total.add(&more));
        if !is_sum {
            *total = None;
        }
    }

    /// This state as a part: a count and a value. The value's term is kept until the query's end; the parts' reader
    /// copies texts instead. Terms with the life of their envelope took more memory: most groups have few parts, these
    /// terms are often the result's as well, and parts wait for their table together with the attachments of their
    /// envelopes.
    fn part(&self, terms: &Arc<Terms>, making: &Making<'_>) -> (u64, u64) {
        let or_failed = |id: Option<Id>, count: u64| id.map_or((FAILED | count, 0), |id| (count, id.bits()));
        match self {
            State::Count(count) => (*count, Id::boolean(true).bits()),
            State::Total(count, total) => {
                or_failed(total.clone().map(|total| Evaluator::new(terms).number_id(total)), *count)
            }
            // The best of no values is unbound, so the count is 0 or 1.
            State::Best(best) => or_failed(*best, u64::from(best.is_some_and(|best| !best.is_unbound()))),
            State::Sample(sample) => (u64::from(!sample.is_unbound()), sample.bits()),
            State::Text(count, text) => or_failed(text.as_ref().map(|text| making.id(terms, true, text)), *count),
        }
    }

    fn result(&self, terms: &Arc<Terms>, spec: &FoldSpec, making: &Making<'_>) -> Id {
        let number = |number: Option<Number>| number.map_or(Id::UNBOUND, |it| Evaluator::new(terms).number_id(it));
        match self {
            State::Count(count) => number(Some(Number::Integer(*count as i64))),
            State::Total(count, total) if spec.fold == Fold::Average && *count > 0 => {
                let count = Number::Integer(*count as i64);
                number(total.as_ref().and_then(|total| total.combine(Arithmetic::Divide, &count)))
            }
            State::Total(_, total) => number(total.clone()),
            State::Best(best) => best.unwrap_or(Id::UNBOUND),
            State::Sample(sample) => *sample,
            State::Text(_, text) => text.as_ref().map_or(Id::UNBOUND, |text| making.id(terms, spec.passes, text)),
        }
    }
}

impl Groups {
    /// For rows with `width` columns.
    pub(crate) fn new(terms: &Arc<Terms>, spec: &Arc<AggregateSpec>, rows: Rows, width: usize) -> Groups {
        let spec = if rows == Rows::Parts { Arc::new(spec.of_parts()) } else { Arc::clone(spec) };
        let mut groups = Groups::without(terms, &spec, rows, width);
        if spec.keys.is_empty() {
            // Without keys, all rows are one group, and there is a group even without rows.
            groups.group(&[]);
        }
        groups
    }

    /// Without groups, and for records: each value of a DISTINCT aggregate comes once, so none is remembered.
    fn for_records(&self) -> Groups {
        let mut groups = self.empty();
        groups.seen.iter_mut().for_each(|seen| *seen = None);
        groups
    }

    /// The keys of the groups.
    fn keys(&self) -> impl ExactSizeIterator<Item = &[u64]> {
        let keys = self.spec.keys.len();
        (0..self.count).map(move |number| &self.keys[number * keys..(number + 1) * keys])
    }

    /// Whether values of DISTINCT aggregates are remembered here.
    fn has_seen(&self) -> bool {
        self.seen.iter().flatten().any(|seen| !seen.is_empty())
    }

    fn without(terms: &Arc<Terms>, spec: &Arc<AggregateSpec>, rows: Rows, width: usize) -> Groups {
        let seen = |fold: &FoldSpec| fold.distinct.as_ref().map(|columns| Wide::new(1 + columns.len(), terms.key));
        Groups {
            terms: Arc::clone(terms),
            rows,
            // A row without columns still counts as a row.
            width: width.max(1),
            slots: vec![0; 16],
            keys: Vec::new(),
            states: Vec::new(),
            seen: spec.folds.iter().map(seen).collect(),
            count: 0,
            last: 0,
            text_bytes: 0,
            row: Vec::new(),
            scratch: Scratch::default(),
            evaluating: Scratch::default(),
            spec: Arc::clone(spec),
        }
    }

    /// The slot of a key: its group's slot, or the empty slot for a new group.
    fn slot(&self, key: &[u64], hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            match self.slots[place] {
                0 => return place,
                number => {
                    let start = (number as usize - 1) * key.len();
                    if self.keys[start..start + key.len()] == *key {
                        return place;
                    }
                }
            }
            place = (place + 1) & mask;
        }
    }

    /// The number of the group with this key.
    fn group(&mut self, key: &[u64]) -> usize {
        // Without keys there is one group. Comparing two empty slices is slow where the C library loads with a mask: a
        // masked load from the address of an empty slice takes a hundred times as long as one from mapped memory.
        if key.is_empty() && self.count > 0 {
            return 0;
        }
        // Sorted rows have the group of the row before.
        let last = self.last * key.len();
        if self.count > 0 && self.keys[last..last + key.len()] == *key {
            return self.last;
        }
        self.last = self.find_group(key);
        self.last
    }

    fn find_group(&mut self, key: &[u64]) -> usize {
        let hash = self.terms.key.hash(key.iter().copied());
        let slot = self.slot(key, hash);
        if self.slots[slot] > 0 {
            return self.slots[slot] as usize - 1;
        }
        self.states.grow_or_give_up(self.spec.folds.len());
        self.states.extend(self.spec.folds.iter().map(|fold| State::new(&fold.fold)));
        self.enter(key, hash)
    }

    /// Enters a new key. The caller has pushed its states.
    fn enter(&mut self, key: &[u64], key_hash: u64) -> usize {
        let number = self.count;
        self.count += 1;
        self.keys.grow_or_give_up(key.len());
        self.keys.extend_from_slice(key);
        if self.count * 2 > self.slots.len() {
            let mut slots: Vec<u32> = had(Vec::zeroed(self.slots.len() * 4));
            std::mem::swap(&mut self.slots, &mut slots);
            for number in slots.into_iter().filter(|number| *number > 0) {
                let key = &self.keys[(number as usize - 1) * key.len()..number as usize * key.len()];
                let slot = self.slot(key, self.terms.key.hash(key.iter().copied()));
                self.slots[slot] = number;
            }
        }
        let slot = self.slot(key, key_hash);
        self.slots[slot] = u32::try_from(number + 1).expect("fewer than 2^32 groups");
        number
    }

    /// Adds a row, if no expression is folded. Texts ask `stopped` before they grow much.
    pub(crate) fn add(&mut self, row: &[u64], stopped: Stopped<'_>) {
        self.fold(row, None, &mut Room::new(stopped));
    }

    fn fold(&mut self, row: &[u64], mut evaluator: Option<&mut Evaluator<'_>>, room: &mut Room<'_>) {
        let grown = room.grown;
        let mut values = std::mem::take(&mut self.row);
        values.clear();
        values.extend(keys_of(&self.spec, row));
        let group = self.group(&values);
        let first = group * self.spec.folds.len();
        for (number, fold) in self.spec.folds.iter().enumerate() {
            if let (Some(columns), Some(seen)) = (&fold.distinct, &mut self.seen[number]) {
                values.clear();
                values.push(group as u64);
                values.extend(columns.iter().map(|&column| row[column]));
                if !seen.enter(&values) {
                    continue;
                }
            }
            if let Some(expr) = &fold.value {
                let evaluator = evaluator.as_mut().expect("an evaluator is given if expressions are folded");
                let (state, row) = (&mut self.states[first + number], |column: usize| row[column]);
                if let Fold::Concat(_) = fold.fold {
                    let part = evaluator.part_of_text(expr, &row);
                    state.add_part(&self.terms, &self.scratch, &fold.fold, part, room);
                } else {
                    state.sum_up(1, evaluator.number(expr, &row));
                }
                continue;
            }
            let (part, id) = match (self.rows, fold.of) {
                (Rows::Parts, Some(column)) => (row[column], Id::from_bits(row[column + 1])),
                _ => (1, single(fold, row)),
            };
            self.states[first + number].add(&self.terms, &self.scratch, &fold.fold, part, id, room);
        }
        self.text_bytes += room.grown - grown;
        self.row = values;
    }

    /// Bytes cached by the folded expressions, without the table itself.
    fn remembered(&self) -> u64 {
        self.evaluating.bytes()
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    fn group_of(&self, number: usize) -> (&[u64], impl Iterator<Item = (&State, &FoldSpec)>) {
        let (keys, folds) = (self.spec.keys.len(), self.spec.folds.len());
        let states = self.states[number * folds..(number + 1) * folds].iter().zip(&self.spec.folds);
        (&self.keys[number * keys..(number + 1) * keys], states)
    }

    /// A group's keys and results.
    fn row<'a>(&'a self, number: usize, making: &'a Making<'_>) -> impl Iterator<Item = u64> + 'a {
        let (keys, states) = self.group_of(number);
        keys.iter().copied().chain(states.map(|(state, fold)| state.result(&self.terms, fold, making).bits()))
    }

    /// Makes a row and keeps all of its terms.
    pub(crate) fn kept_row(&self, number: usize, stopped: Stopped<'_>) -> Vec<u64> {
        self.row(number, &Making { passing: None, stopped }).collect()
    }

    /// A group's keys, and a part for each aggregate.
    fn part<'a>(&'a self, number: usize, making: &'a Making<'_>) -> impl Iterator<Item = u64> + 'a {
        let (keys, states) = self.group_of(number);
        keys.iter().copied().chain(states.flat_map(|(state, _)| <[u64; 2]>::from(state.part(&self.terms, making))))
    }

    /// The end of the groups from `first` on for one envelope: at most `most`, and fewer if they have long texts.
    fn end_of_envelope(&self, first: usize, most: usize) -> usize {
        let end = self.count.min(first.saturating_add(most));
        if !self.spec.has_text() {
            return end;
        }
        let folds = self.spec.folds.len();
        let mut bytes = 0;
        let is_too_long = |&group: &usize| {
            let states = &self.states[group * folds..(group + 1) * folds];
            bytes += states.iter().map(State::text_bytes).sum::<u64>();
            bytes > MOST_TEXT as u64
        };
        (first..end).find(is_too_long).map_or(end, |group| group.max(first + 1))
    }
}

/// The values of a row's keys.
fn keys_of<'a>(spec: &'a AggregateSpec, row: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
    spec.keys.iter().map(|column| column.map_or(0, |column| row[column]))
}

/// The evaluator of the folded expressions, with its cache; `None` if no expression is folded.
fn evaluator_of<'a>(
    terms: &'a Arc<Terms>,
    spec: &AggregateSpec,
    remembered: &mut Scratch,
    stopped: Stopped<'a>,
) -> Option<Evaluator<'a>> {
    let is_needed = spec.folds.iter().any(|fold| fold.value.is_some());
    is_needed.then(|| Evaluator::new(terms).until(stopped).with(std::mem::take(remembered)))
}

/// The id added by a solution to an aggregate.
fn single(fold: &FoldSpec, row: &[u64]) -> Id {
    if fold.rows { Id::boolean(true) } else { Id::from_bits(fold.of.map_or(0, |column| row[column])) }
}

impl Table for Groups {
    fn width(&self) -> usize {
        self.width
    }

    fn hash(&self, row: &[u64]) -> u64 {
        self.terms.key.hash(keys_of(&self.spec, row))
    }

    fn add(&mut self, rows: &[u64], _: &mut Vec<u32>, stopped: Stopped<'_>) {
        self.scratch.forget_made(&self.terms);
        let (terms, spec) = (Arc::clone(&self.terms), Arc::clone(&self.spec));
        let mut evaluator = evaluator_of(&terms, &spec, &mut self.evaluating, stopped);
        let mut room = Room::new(stopped);
        for rows in rows.chunks(FETCHED * self.width) {
            if evaluator.is_some() && stopped(0) {
                break;
            }
            spec.fetch(&terms, rows, self.width);
            rows.chunks_exact(self.width).for_each(|row| self.fold(row, evaluator.as_mut(), &mut room));
        }
        self.evaluating = evaluator.map(Evaluator::into_scratch).unwrap_or_default();
    }

    fn bytes(&self) -> u64 {
        let seen: u64 = self.seen.iter().flatten().map(Wide::bytes).sum();
        let states = self.states.capacity() * size_of::<State>();
        (self.slots.capacity() * 4 + self.keys.capacity() * 8 + states) as u64 + seen + self.text_bytes
    }

    fn empty(&self) -> Groups {
        let mut groups = Groups::without(&self.terms, &self.spec, self.rows, self.width);
        groups.seen.iter_mut().zip(&self.seen).filter(|(_, seen)| seen.is_none()).for_each(|(seen, _)| *seen = None);
        groups
    }

    fn move_to(mut self, tables: &mut [Groups], part: &dyn Fn(u64) -> usize) {
        let (keys, folds) = (self.spec.keys.len(), self.spec.folds.len());
        let mut states = std::mem::take(&mut self.states).into_iter();
        let mut moved = had(Vec::with_room(self.count));
        for number in 0..self.count {
            let key = &self.keys[number * keys..(number + 1) * keys];
            let hash = self.terms.key.hash(key.iter().copied());
            let home = part(hash);
            tables[home].states.grow_or_give_up(folds);
            tables[home].states.extend(states.by_ref().take(folds));
            moved.push((home, tables[home].enter(key, hash) as u64));
        }
        for (fold, seen) in self.seen.iter().enumerate() {
            for row in seen.iter().flat_map(Wide::rows) {
                let (home, number) = moved[row[0] as usize];
                self.row.clear();
                self.row.push(number);
                self.row.extend_from_slice(&row[1..]);
                tables[home].seen[fold].as_mut().expect("all have the same aggregates").enter(&self.row);
            }
        }
        // Moved states don't record their share of the text, so the sum goes to the first table.
        tables[0].text_bytes += self.text_bytes;
    }
}

/// Sends all groups when all inputs have ended. Groups beyond its part of the memory are written to files, partition by
/// partition, as records of the states so far. Later rows of such a group begin a new state, written when memory is
/// short again. In the end the records of each partition are put together, in memory for one partition only; this
/// repeats for partitions that are too large. So rows of frequent groups are folded in memory, for any number of
/// groups. Values of DISTINCT aggregates are written and made distinct apart from the groups ([`Values`]), because the
/// values of one group may exceed the memory. After Graefe, "Query evaluation techniques for large databases", ACM
/// Computing Surveys 25(2), 1993, §4.2 (hash-based aggregation with overflow files).
pub(crate) struct Aggregate {
    terms: Arc<Terms>,
    booking: Booking,
    hold: Hold,
    spec: Arc<AggregateSpec>,
    width: usize,
    groups: Parted<Groups>,
    /// The rows of an envelope, one after the other.
    rows: Vec<u64>,
    /// Whether each of the next rows may make strings much longer.
    may_grow: bool,
    inputs: Inputs,
    /// Attachments of the envelopes with rows waiting for their table.
    attached: Vec<Attachment>,
    /// The written groups of `groups`.
    spilled: Option<Spilled>,
    /// Partitions in files, with their levels.
    tasks: Vec<(u32, Arc<RowRun>)>,
    /// How deep the partitions of these groups are.
    level: u32,
    stage: Stage,
    /// The table and the group to send next.
    next: (usize, usize),
    columns: usize,
    growth: Growth,
    /// For passing texts; `None` if there are none.
    passing: Option<Arc<Terms>>,
}

/// The steps of an [`Aggregate`] after the end of its inputs.
enum Stage {
    /// They have not.
    Takes,
    /// Removes duplicates among the written values of DISTINCT aggregates.
    Distinguishes(Box<Values>),
    /// Puts the records of a partition together.
    Reads(Words),
    Sends,
}

/// How many records are read in one invocation.
const RECORDS: usize = 1 << 14;
/// And how many between two checks of the memory held.
const UNCHECKED: usize = 64;

impl Aggregate {
    /// For rows with `width` columns, with tables of at most `cache` bytes.
    pub(crate) fn new(
        terms: &Arc<Terms>,
        spec: &Arc<AggregateSpec>,
        rows: Rows,
        width: usize,
        cache: u64,
        limit: usize,
    ) -> Aggregate {
        Aggregate {
            terms: Arc::clone(terms),
            booking: Booking::default(),
            hold: Hold::new(terms.spiller()),
            groups: Parted::new(Groups::new(terms, spec, rows, width), spec.cache(cache), &terms.limits),
            spec: Arc::clone(spec),
            width: width.max(1),
            rows: Vec::new(),
            may_grow: true,
            inputs: Inputs::default(),
            attached: Vec::new(),
            spilled: None,
            tasks: Vec::new(),
            level: 0,
            stage: Stage::Takes,
            next: (0, 0),
            columns: spec.keys.len() + spec.folds.len(),
            growth: Growth::new(limit),
            passing: spec.folds.iter().any(|fold| fold.passes).then(|| terms.passing()),
        }
    }

    fn add(&mut self, turn: &Turn<'_>, envelope: &Envelope) -> Result<(), BoxError> {
        self.attach(turn, envelope);
        let mut rows = std::mem::take(&mut self.rows);
        rows_of(envelope, &mut rows);
        let mut all = &rows[..];
        while let Some(rows) = self.spec.next_rows(&self.terms, &mut all, self.width, self.may_grow) {
            let before = self.groups.bytes();
            let held = self.held();
            let stopped = |more| self.booking.poll(&self.terms, turn, held + more);
            self.groups.add(rows, &stopped, &mut |_, _| {});
            self.may_grow = self.groups.bytes() > before + GROWS_MUCH;
            self.make_room(turn)?;
            if self.booking.poll(&self.terms, turn, self.held()) {
                break;
            }
        }
        self.rows = rows;
        Ok(())
    }

    /// Keeps an envelope's terms alive while its rows wait. If too much is attached already, adds all waiting rows
    /// first.
    fn attach(&mut self, turn: &Turn<'_>, envelope: &Envelope) {
        if envelope.attached().is_empty() || self.groups.is_one() {
            return;
        }
        if Attachment::bytes_of(&self.attached) > MOST_ATTACHED_TO_WAITING {
            while self.settle(turn) {}
            self.attached.clear();
        }
        Attachment::add_all(&mut self.attached, envelope.attached());
    }

    /// Adds waiting rows; false when none is left.
    fn settle(&mut self, turn: &Turn<'_>) -> bool {
        let held = self.held();
        let stopped = |more| self.booking.poll(&self.terms, turn, held + more);
        self.groups.settle(&stopped, &mut |_, _| {})
    }

    /// Bytes held, kept terms not counted.
    fn held(&self) -> u64 {
        self.groups.bytes().max(self.hold.booked())
    }

    /// Bytes held when an invocation ends, kept terms not counted.
    fn bytes(&self) -> u64 {
        let passing = self.passing.as_ref().and_then(|terms| terms.segment()).map_or(0, Passing::bytes);
        self.held() + passing + self.groups.tables().map(Groups::remembered).sum::<u64>()
    }

    /// Writes groups to files if they take more memory than they may.
    fn make_room(&mut self, turn: &Turn<'_>) -> Result<(), BoxError> {
        let most = self.terms.most_held();
        if most == u64::MAX {
            return Ok(());
        }
        let (terms, booking) = (&self.terms, &self.booking);
        let book = |bytes| booking.ask(terms, turn, bytes);
        self.hold.make_room(LEAST, false, book)?;
        // Tables double when they grow. While groups are written, the staying groups have another table.
        let needed = 2 * self.groups.bytes() + self.spilled.as_ref().map_or(0, Spilled::bytes);
        // One group can't be parted, but for values to be made distinct; nor can groups with nearly equal hashes.
        let can_part =
            self.groups.tables().map(Groups::len).sum::<usize>() > 1 || self.groups.tables().any(Groups::has_seen);
        if self.level >= DEEPEST || !can_part {
            return self.hold.book(needed, book);
        }
        if needed <= most && self.hold.make_room(needed, true, book)? {
            return Ok(());
        }
        while self.settle(turn) {}
        self.attached.clear();
        let (width, values) =
            (self.spec.keys.len(), self.level == 0 && self.spec.folds.iter().any(|fold| fold.distinct.is_some()));
        let spiller = self.hold.spiller().expect("its memory is bounded").clone();
        let spilled = self.spilled.take();
        let mut spilled = spilled.unwrap_or_else(|| Spilled::new(&self.terms, &spiller, self.level, width, values));
        let wrote = turn.blocking(|| spilled.evict(self.groups.tables_mut()));
        self.spilled = Some(spilled);
        Ok(wrote?)
    }

    /// Ends the input of the groups' records. Written partitions are done later.
    fn seal(&mut self, turn: &Turn<'_>) -> Result<(), BoxError> {
        if let Some(mut spilled) = self.spilled.take() {
            while self.settle(turn) {}
            self.attached.clear();
            if spilled.has_values() {
                // All memory is for the values.
                turn.blocking(|| spilled.evict_all(self.groups.tables_mut()))?;
                let tasks = spilled.take_values(turn)?.into_iter().map(|run| (self.level + 1, run)).collect();
                let spiller = self.hold.spiller().expect("its memory is bounded");
                let values = Values::new(&self.spec, self.terms.key, spiller, self.terms.most_held(), tasks);
                self.spilled = Some(spilled);
                self.stage = Stage::Distinguishes(Box::new(values));
                return Ok(());
            }
            turn.blocking(|| spilled.evict_rest(self.groups.tables_mut()))?;
            self.add_tasks(spilled, turn)?;
        }
        self.next = (0, 0);
        self.stage = Stage::Sends;
        Ok(())
    }

    /// Schedules the written partitions for later.
    fn add_tasks(&mut self, spilled: Spilled, turn: &Turn<'_>) -> Result<(), BoxError> {
        let level = self.level + 1;
        self.tasks.extend(spilled.finish(turn)?.into_iter().flatten().map(|run| (level, run)));
        Ok(())
    }

    /// Makes the next values distinct.
    fn distinguish(&mut self, mut values: Box<Values>, turn: &Turn<'_>) -> Result<(), BoxError> {
        let mut spilled = self.spilled.take().expect("values are of groups that were written");
        for _ in 0..RECORDS / UNCHECKED {
            let (terms, booking) = (&self.terms, &self.booking);
            let needed = values.bytes(UNCHECKED) + spilled.bytes();
            self.hold.book(needed, |bytes| booking.ask(terms, turn, bytes))?;
            if !values.settle(UNCHECKED, &mut spilled, turn)? {
                self.add_tasks(spilled, turn)?;
                self.stage = Stage::Sends;
                return Ok(());
            }
            if turn.is_stopped() {
                break;
            }
        }
        self.spilled = Some(spilled);
        self.stage = Stage::Distinguishes(values);
        Ok(())
    }

    /// Adds the next records of a partition.
    fn read(&mut self, mut words: Words, turn: &Turn<'_>) -> Result<(), BoxError> {
        for _ in 0..RECORDS / UNCHECKED {
            for _ in 0..UNCHECKED {
                let held = self.groups.bytes().max(self.hold.booked());
                let (terms, booking) = (&self.terms, &self.booking);
                let stopped = |more| booking.poll(terms, turn, held + more);
                let groups = self.groups.tables_mut().next().expect("there is a table");
                if !groups.absorb(&mut words, &mut Room::new(&stopped))? {
                    return self.seal(turn);
                }
            }
            self.make_room(turn)?;
            if turn.is_stopped() {
                break;
            }
        }
        self.stage = Stage::Reads(words);
        Ok(())
    }

    /// One step after the end of the inputs; false when all groups were sent.
    fn finish(&mut self, turn: &mut Turn<'_>) -> Result<bool, BoxError> {
        match std::mem::replace(&mut self.stage, Stage::Sends) {
            Stage::Takes => self.seal(turn)?,
            Stage::Distinguishes(values) => self.distinguish(values, turn)?,
            Stage::Reads(words) => self.read(words, turn)?,
            Stage::Sends => {
                if self.settle(turn) || self.put_out(turn) {
                    return Ok(true);
                }
                let Some((level, run)) = self.tasks.pop() else { return Ok(false) };
                let table = self.groups.table(0).expect("there is a table").for_records();
                // One table, because records are added to it without waiting.
                self.groups = Parted::new(table, u64::MAX, &self.terms.limits);
                self.level = level;
                self.stage = Stage::Reads(Words::new(&run));
            }
        }
        Ok(true)
    }

    /// Sends the next groups; false when all were sent.
    fn put_out(&mut self, turn: &mut Turn<'_>) -> bool {
        let (table, first) = self.next;
        let Some(groups) = self.groups.table(table) else { return false };
        let end = groups.end_of_envelope(first, self.growth.target);
        if end > first {
            let (held, segment) = (self.held(), self.passing.as_ref().and_then(|terms| terms.segment()));
            let passing = || segment.map_or(0, Passing::bytes);
            let envelope = {
                let stopped = |more| self.booking.poll(&self.terms, turn, held + passing() + more);
                let making = Making { passing: self.passing.as_ref(), stopped: &stopped };
                let rows = (first..end).map(|group| groups.row(group, &making));
                envelope_of_rows(turn, rows, self.columns)
            };
            let made: Vec<Attachment> = segment.and_then(Passing::seal).into_iter().collect();
            turn.send(0, attach(envelope, &made));
            self.growth.grow();
        }
        self.next = if end == groups.len() { (table + 1, 0) } else { (table, end) };
        true
    }
}

fn envelope_of_rows(
    turn: &Turn<'_>,
    rows: impl ExactSizeIterator<Item = impl Iterator<Item = u64>>,
    width: usize,
) -> Envelope {
    envelope_of(turn, width, rows.len(), |builder| {
        for row in rows {
            row.enumerate().for_each(|(column, value)| builder.u64s(column).push(value));
        }
    })
}

/// An envelope's rows one after the other; rows without columns have one.
fn rows_of(envelope: &Envelope, into: &mut Vec<u64>) {
    interleave(&slices(envelope), into);
    if envelope.columns().is_empty() {
        into.resize(envelope.rows(), 0);
    }
}

impl Operator for Aggregate {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let (mut inputs, mut outcome) = (self.inputs, Ok(()));
        let is_over = inputs.take(turn, |turn, envelope| {
            if outcome.is_ok() {
                outcome = self.add(turn, &envelope);
            }
        });
        self.inputs = inputs;
        outcome?;
        self.booking.hold(&self.terms, turn, self.bytes())?;
        if is_over {
            if self.finish(turn)? {
                turn.run_again();
            } else {
                turn.send_pill(0);
            }
        }
        Ok(())
    }
}

/// Folds solutions into parts of groups, in a table in the cache.
pub(crate) struct PreAggregate {
    groups: Groups,
    booking: Booking,
    cache: u64,
    limit: usize,
    rows: Vec<u64>,
    may_grow: bool,
    /// The number of solutions in the table.
    taken: usize,
    /// Pass this many solutions on, each as a part of its own: most groups of the last table had one row.
    directly: usize,
    /// For the texts of passing parts; `None` if there are none.
    passing: Option<Arc<Terms>>,
}

/// If folding did not pay, this many times as many solutions go by before the next try.
const PATIENCE: usize = 16;

impl PreAggregate {
    pub(crate) fn new(
        terms: &Arc<Terms>,
        spec: &Arc<AggregateSpec>,
        width: usize,
        cache: u64,
        limit: usize,
    ) -> PreAggregate {
        let groups = Groups::new(terms, spec, Rows::Solutions, width);
        // A quarter of the budget is for boxes that don't spill: a third of the limit of the spilling boxes. A table
        // doubles when it grows.
        let cache = cache.min(terms.most_held() / 6);
        PreAggregate {
            groups,
            booking: Booking::default(),
            cache,
            limit,
            rows: Vec::new(),
            may_grow: true,
            taken: 0,
            directly: 0,
            passing: spec.has_text().then(|| terms.passing()),
        }
    }

    fn put_out(&mut self, turn: &mut Turn<'_>) {
        let width = self.groups.spec.part_columns();
        let segment = self.passing.as_ref().and_then(|terms| terms.segment());
        let passing = || segment.map_or(0, Passing::bytes);
        let mut first = 0;
        while first < self.groups.len() {
            let held = self.groups.bytes();
            let stopped = |more| self.booking.poll(&self.groups.terms, turn, held + passing() + more);
            if stopped(0) {
                return;
            }
            let end = self.groups.end_of_envelope(first, self.limit);
            let envelope = {
                let making = Making { passing: self.passing.as_ref(), stopped: &stopped };
                envelope_of_rows(turn, (first..end).map(|group| self.groups.part(group, &making)), width)
            };
            let made: Vec<Attachment> = segment.and_then(Passing::seal).into_iter().collect();
            turn.send(0, attach(envelope, &made));
            first = end;
        }
        if self.groups.len() * 2 > self.taken {
            self.directly = self.taken * PATIENCE;
        }
        self.groups = self.groups.empty();
        self.taken = 0;
    }

    /// Bytes of sent texts with readers left.
    fn passing_bytes(&self) -> u64 {
        self.passing.as_ref().and_then(|terms| terms.segment()).map_or(0, Passing::bytes)
    }

    /// Sends each solution as a part.
    fn pass(&mut self, turn: &mut Turn<'_>, from: &Envelope) {
        let (terms, spec) = (Arc::clone(&self.groups.terms), Arc::clone(&self.groups.spec));
        let stopped = |more| self.booking.poll(&terms, turn, more);
        let mut evaluator = evaluator_of(&terms, &spec, &mut self.groups.evaluating, &stopped);
        let texts = self.passing.as_ref().unwrap_or(&terms);
        let (evaluates, mut is_over) = (evaluator.is_some(), false);
        let envelope = envelope_of(turn, spec.part_columns(), from.rows(), |builder| {
            for (place, row) in self.rows.chunks_exact(self.groups.width).enumerate() {
                if evaluates && place.is_multiple_of(FETCHED) {
                    is_over = stopped(0);
                }
                keys_of(&spec, row).enumerate().for_each(|(column, key)| builder.u64s(column).push(key));
                for (number, fold) in spec.folds.iter().enumerate() {
                    let id = match (&fold.value, &mut evaluator) {
                        (Some(_), Some(_)) if is_over => Id::UNBOUND,
                        (Some(expr), Some(evaluator)) if matches!(fold.fold, Fold::Concat(_)) => {
                            match evaluator.part_of_text(expr, &|column| row[column]) {
                                None => Id::UNBOUND,
                                Some(TextPart::Term(id)) => id,
                                Some(TextPart::Text(text)) if text.len() >= LONG && stopped(text.len() as u64) => {
                                    is_over = true;
                                    Id::UNBOUND
                                }
                                Some(TextPart::Text(text)) => texts.string(&text),
                            }
                        }
                        (Some(expr), Some(evaluator)) => {
                            let value = evaluator.number(expr, &|column| row[column]);
                            value.map_or(Id::UNBOUND, |value| evaluator.number_id(value))
                        }
                        _ => single(fold, row),
                    };
                    let column = spec.keys.len() + 2 * number;
                    builder.u64s(column).push(1);
                    builder.u64s(column + 1).push(id.bits());
                }
            }
        });
        self.groups.evaluating = evaluator.map(Evaluator::into_scratch).unwrap_or_default();
        let mut attached = from.attached().to_vec();
        attached.extend(self.passing.as_ref().and_then(|terms| terms.segment()).and_then(Passing::seal));
        turn.send(0, attach(envelope, &attached));
        self.directly = self.directly.saturating_sub(from.rows());
    }
}

impl Operator for PreAggregate {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        if envelope.is_pill() {
            self.put_out(turn);
            turn.send_pill(0);
            return self.booking.hold(&self.groups.terms, turn, self.passing_bytes());
        }
        rows_of(&envelope, &mut self.rows);
        if self.directly > 0 && self.groups.len() == 0 {
            self.pass(turn, &envelope);
            return self.booking.hold(&self.groups.terms, turn, self.groups.remembered() + self.passing_bytes());
        }
        let mut fresh = Vec::new();
        let (width, spec, terms) = (self.groups.width, Arc::clone(&self.groups.spec), Arc::clone(&self.groups.terms));
        let all = std::mem::take(&mut self.rows);
        let mut rest = &all[..];
        while let Some(rows) = spec.next_rows(&terms, &mut rest, width, self.may_grow) {
            let before = self.groups.bytes();
            let stopped = |more| self.booking.poll(&terms, turn, before + more);
            Table::add(&mut self.groups, rows, &mut fresh, &stopped);
            self.may_grow = self.groups.bytes() > before + GROWS_MUCH;
            self.taken += rows.len() / width;
            if self.groups.bytes() > self.cache {
                self.put_out(turn);
            }
            if self.booking.poll(&self.groups.terms, turn, self.groups.bytes()) {
                break;
            }
        }
        self.rows = all;
        self.booking.hold(&terms, turn, self.groups.bytes() + self.groups.remembered() + self.passing_bytes())
    }
}
