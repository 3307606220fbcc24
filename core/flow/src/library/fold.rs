//! Aggregates of groups: counts, sums, least and greatest values, in columns with a place for each group.

use crate::block::Blocks;
use crate::types::Form;
use crate::{BoxError, Column, Envelope, EnvelopeBuilder, Grow, Native, NoMemory, Schema, Type};
use std::cmp::Ordering;
use std::fmt;

/// The most decimal digits of a number.
pub(super) const MOST_DIGITS: u8 = 38;

#[derive(Clone, Copy, Debug)]
pub(super) enum Fold {
    Rows,
    Values(usize),
    Sum(usize),
    Least(usize),
    Greatest(usize),
}

/// A value without its type.
#[derive(Clone, Copy)]
enum Value<'a> {
    Null,
    /// The value's [rank](Native::rank).
    Rank(u64),
    Decimal(i128),
    String(&'a [u8]),
    /// The value of the first row.
    Row(&'a Column),
}

/// The folds of each group so far.
pub(super) struct Folded {
    fold: Fold,
    /// The type of the folded column.
    kind: Type,
    /// Whether a group has a value yet; empty for counts.
    has: Vec<bool>,
    /// The value of each group.
    values: Values,
}

/// Values of groups, by the type of the folded column.
enum Values {
    /// A number for each group: a count, the rank of a sum, or the rank of its least or greatest value.
    Ranks(Vec<u64>),
    /// A sum, or the least or greatest value.
    Decimals(Vec<i128>),
    /// Each group's least or greatest, and the capacity of all, in bytes.
    Strings(Vec<Vec<u8>>, usize),
    /// Each group's least or greatest, as a column of one row, and the bytes of all.
    Rows(Vec<Option<Column>>, u64),
}

impl Folded {
    pub(super) fn new(fold: Fold, input: &Schema) -> Folded {
        let kind = match fold {
            Fold::Rows => Type::U64,
            Fold::Values(column) | Fold::Sum(column) | Fold::Least(column) | Fold::Greatest(column) => {
                input.columns()[column].kind.clone()
            }
        };
        let values = match (fold, kind.form()) {
            (Fold::Rows | Fold::Values(_), _) => Values::Ranks(Vec::new()),
            (_, Form::Decimal) => Values::Decimals(Vec::new()),
            (_, Form::Direct | Form::Fixed(_)) => Values::Strings(Vec::new(), 0),
            (_, Form::List | Form::Struct) => Values::Rows(Vec::new(), 0),
            _ => Values::Ranks(Vec::new()),
        };
        Folded { fold, kind, has: Vec::new(), values }
    }

    /// Appends a group's value to a column.
    pub(super) fn write(
        &self,
        group: usize,
        builder: &mut EnvelopeBuilder,
        blocks: Blocks,
        column: usize,
        kind: &Type,
    ) {
        match self.value(group) {
            Value::Null => builder.push_null(column),
            Value::Rank(rank) => builder.push_rank(column, kind, rank),
            Value::Decimal(value) => builder.decimals(column).push(value),
            Value::String(bytes) => match kind {
                Type::FixedBinary(_) => builder.push_raw(column, bytes),
                _ => builder.push_string(blocks, column, kind, bytes),
            },
            Value::Row(value) => builder.append_column(blocks, column, value),
        }
    }

    /// Folds all that a group has into another one.
    pub(super) fn merge(&mut self, into: usize, from: usize) -> Result<(), BoxError> {
        let is_count = self.has.is_empty();
        if !is_count && !self.has[from] {
            return Ok(());
        }
        if !is_count && !self.has[into] {
            self.has[into] = true;
            match &mut self.values {
                Values::Ranks(ranks) => ranks[into] = ranks[from],
                Values::Decimals(decimals) => decimals[into] = decimals[from],
                Values::Strings(strings, bytes) => {
                    let copy = strings[from].clone();
                    *bytes += copy.capacity();
                    *bytes -= strings[into].capacity();
                    strings[into] = copy;
                }
                Values::Rows(rows, bytes) => {
                    let copy = rows[from].clone();
                    *bytes += copy.as_ref().map_or(0, kept_bytes);
                    rows[into] = copy;
                }
            }
            return Ok(());
        }
        let is_greater = |order: Ordering| match self.fold {
            Fold::Greatest(_) => order.is_gt(),
            _ => order.is_lt(),
        };
        match (&mut self.values, self.fold) {
            (Values::Ranks(ranks), Fold::Rows | Fold::Values(_)) => ranks[into] += ranks[from],
            (Values::Ranks(ranks), Fold::Sum(_)) => ranks[into] = sum(&self.kind, ranks[into], ranks[from])?,
            (Values::Decimals(decimals), Fold::Sum(_)) => {
                decimals[into] = sum_of_decimals(decimals[into], decimals[from])?;
            }
            (Values::Ranks(ranks), _) if is_greater(ranks[from].cmp(&ranks[into])) => ranks[into] = ranks[from],
            (Values::Decimals(decimals), _) if is_greater(decimals[from].cmp(&decimals[into])) => {
                decimals[into] = decimals[from];
            }
            (Values::Strings(strings, bytes), _) if is_greater(strings[from].cmp(&strings[into])) => {
                let copy = strings[from].clone();
                *bytes += copy.capacity();
                *bytes -= strings[into].capacity();
                strings[into] = copy;
            }
            (Values::Rows(rows, bytes), _) => {
                if let (Some(one), Some(other)) = (&rows[from], &rows[into])
                    && is_greater(one.order(0, other, 0))
                {
                    *bytes += kept_bytes(one);
                    *bytes -= kept_bytes(other);
                    rows[into] = rows[from].clone();
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Empties a group, for another one in its place.
    pub(super) fn clear(&mut self, group: usize) {
        if let Some(has) = self.has.get_mut(group) {
            *has = false;
        }
        match &mut self.values {
            Values::Ranks(ranks) => ranks[group] = 0,
            Values::Decimals(decimals) => decimals[group] = 0,
            Values::Strings(strings, bytes) => *bytes -= std::mem::take(&mut strings[group]).capacity(),
            Values::Rows(rows, bytes) => *bytes -= rows[group].take().as_ref().map_or(0, kept_bytes),
        }
    }

    /// Makes room for `groups` groups.
    pub(super) fn make_room(&mut self, groups: usize) -> Result<(), NoMemory> {
        fn fill<T: Clone + Default>(all: &mut Vec<T>, groups: usize) -> Result<(), NoMemory> {
            let more = groups - all.len();
            all.grow(more)?;
            all.resize(groups, T::default());
            Ok(())
        }
        if !matches!(self.fold, Fold::Rows | Fold::Values(_)) {
            fill(&mut self.has, groups)?;
        }
        match &mut self.values {
            Values::Ranks(ranks) => fill(ranks, groups),
            Values::Decimals(decimals) => fill(decimals, groups),
            Values::Strings(strings, _) => fill(strings, groups),
            Values::Rows(rows, _) => fill(rows, groups),
        }
    }

    pub(super) fn take(&mut self, envelope: &Envelope, groups: &[u32], count: usize) -> Result<(), BoxError> {
        self.make_room(count)?;
        match self.fold {
            Fold::Rows => self.count(groups.iter().copied()),
            Fold::Values(column) => {
                let column = envelope.column(column);
                let values = groups.iter().enumerate().filter(|(row, _)| !column.is_null(*row));
                self.count(values.map(|(_, &group)| group));
            }
            Fold::Sum(column) => self.add(envelope.column(column), groups)?,
            Fold::Least(column) => self.choose(envelope.column(column), groups, false)?,
            Fold::Greatest(column) => self.choose(envelope.column(column), groups, true)?,
        }
        Ok(())
    }

    fn count(&mut self, groups: impl Iterator<Item = u32>) {
        if let Values::Ranks(counts) = &mut self.values {
            groups.for_each(|group| counts[group as usize] += 1);
        }
    }

    fn add(&mut self, column: &Column, groups: &[u32]) -> Result<(), SumTooLarge> {
        let rows = groups.iter().enumerate().filter(|(row, _)| !column.is_null(*row));
        for (row, &group) in rows {
            let has = &mut self.has[group as usize];
            match &mut self.values {
                Values::Decimals(sums) => {
                    let sum = &mut sums[group as usize];
                    *sum = sum_of_decimals(*sum, column.decimals()[row])?;
                }
                Values::Ranks(sums) => {
                    let (before, rank) = (&mut sums[group as usize], column.rank(row));
                    *before = match (&self.kind, *has) {
                        // A float sum has 64 bits, as its values may not.
                        (Type::F32, _) => {
                            let before = if *has { f64::of_rank(*before) } else { 0.0 };
                            (before + f64::from(f32::of_rank(rank))).rank()
                        }
                        (Type::F64, false) => (0.0 + f64::of_rank(rank)).rank(),
                        (_, true) => sum(&self.kind, *before, rank)?,
                        (_, false) => rank,
                    };
                }
                Values::Strings(..) | Values::Rows(..) => unreachable!("`Grouping::sum` refuses them"),
            }
            *has = true;
        }
        Ok(())
    }

    /// Keeps the least or greatest values.
    fn choose(&mut self, column: &Column, groups: &[u32], greatest: bool) -> Result<(), NoMemory> {
        let is_better = |order: Ordering| if greatest { order.is_gt() } else { order.is_lt() };
        for (row, &group) in groups.iter().enumerate().filter(|(row, _)| !column.is_null(*row)) {
            let group = group as usize;
            let has = std::mem::replace(&mut self.has[group], true);
            match &mut self.values {
                Values::Ranks(ranks) => {
                    let (rank, best) = (column.rank(row), &mut ranks[group]);
                    if !has || is_better(rank.cmp(best)) {
                        *best = rank;
                    }
                }
                Values::Decimals(decimals) => {
                    let (value, best) = (column.decimals()[row], &mut decimals[group]);
                    if !has || is_better(value.cmp(best)) {
                        *best = value;
                    }
                }
                Values::Strings(strings, bytes) => {
                    let (string, best) = (column.string(row), &mut strings[group]);
                    if !has || is_better(string.cmp(best)) {
                        let before = best.capacity();
                        best.clear();
                        best.grow_exactly(string.len())?;
                        best.extend_from_slice(string);
                        *bytes += best.capacity() - before;
                    }
                }
                Values::Rows(rows, bytes) => {
                    let best = &mut rows[group];
                    if best.as_ref().is_none_or(|best| is_better(column.order(row, best, 0))) {
                        let value = column.slice(row..row + 1).private_copy(Default::default())?;
                        *bytes += kept_bytes(&value);
                        *bytes -= best.as_ref().map_or(0, kept_bytes);
                        *best = Some(value);
                    }
                }
            }
        }
        Ok(())
    }

    fn value(&self, group: usize) -> Value<'_> {
        if self.has.get(group) == Some(&false) {
            return Value::Null;
        }
        match &self.values {
            Values::Ranks(ranks) => Value::Rank(ranks[group]),
            Values::Decimals(decimals) => Value::Decimal(decimals[group]),
            Values::Strings(strings, _) => Value::String(&strings[group]),
            Values::Rows(rows, _) => rows[group].as_ref().map_or(Value::Null, Value::Row),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        let values = match &self.values {
            Values::Ranks(ranks) => 8 * ranks.capacity(),
            Values::Decimals(decimals) => 16 * decimals.capacity(),
            Values::Strings(strings, bytes) => strings.capacity() * size_of::<Vec<u8>>() + bytes,
            Values::Rows(rows, bytes) => rows.capacity() * size_of::<Option<Column>>() + *bytes as usize,
        };
        (values + self.has.capacity()) as u64
    }
}

/// The bytes that a column of one row keeps, with its counts.
fn kept_bytes(value: &Column) -> u64 {
    const BESIDE: u64 = 128;
    crate::column::held_bytes(std::slice::from_ref(value)) + BESIDE
}

/// A sum of integers beyond 64 bits, or of decimals beyond their digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SumTooLarge {
    digits: bool,
}

impl fmt::Display for SumTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.digits {
            true => write!(f, "a sum of decimals has more than {MOST_DIGITS} digits"),
            false => f.write_str("a sum of integers is beyond 64 bits"),
        }
    }
}

impl std::error::Error for SumTooLarge {}

/// The sum of two sums of a type's values, as ranks.
#[inline]
fn sum(kind: &Type, a: u64, b: u64) -> Result<u64, SumTooLarge> {
    match kind {
        Type::F32 | Type::F64 => Ok((f64::of_rank(a) + f64::of_rank(b)).rank()),
        Type::I8 | Type::I16 | Type::I32 | Type::I64 | Type::Duration(_) => {
            let next = i64::of_rank(a).checked_add(i64::of_rank(b));
            Ok(next.ok_or(SumTooLarge { digits: false })?.rank())
        }
        // The rank of an unsigned number is the number.
        _ => a.checked_add(b).ok_or(SumTooLarge { digits: false }),
    }
}

fn sum_of_decimals(a: i128, b: i128) -> Result<i128, SumTooLarge> {
    let most = 10i128.pow(MOST_DIGITS.into());
    a.checked_add(b).filter(|sum| -most < *sum && *sum < most).ok_or(SumTooLarge { digits: true })
}
