//! The states of aggregates, a value for each group.

use super::keys::{KeyTable, KeyWriter};
use crate::decimal;
use crate::evaluate::{Room, Vector, column_of};
use crate::relation::FoldKind;
use crate::types::{Form, SqlType, Value, canonical, order_doubles};
use std::cmp::Ordering;
use vicus_flow::{BoxError, Column, Grow};

/// The state of one aggregate.
pub(crate) struct State {
    kind: FoldKind,
    /// The type of the folded values.
    argument: SqlType,
    values: Values,
    /// For DISTINCT: the seen values of each group.
    seen: Option<(KeyTable, SqlType)>,
    /// Bytes of texts.
    text_bytes: u64,
}

enum Values {
    Count(Vec<i64>),
    /// Sums with how many values they have.
    Integers(Vec<i128>, Vec<i64>),
    Doubles(Vec<f64>, Vec<i64>),
    Truth(Vec<Option<bool>>),
    BestInteger(Vec<Option<i64>>),
    BestDouble(Vec<Option<f64>>),
    BestDate(Vec<Option<i32>>),
    BestDecimal(Vec<Option<i128>>),
    BestText(Vec<Option<Box<str>>>),
    /// Values of other types; null for none.
    BestOther(Vec<Value>),
}

impl State {
    /// The state of an aggregate over values of this type.
    pub(crate) fn new(kind: FoldKind, argument: SqlType, is_distinct: bool, seed: u64) -> State {
        let values = match (kind, argument.form()) {
            (FoldKind::Count, _) => Values::Count(Vec::new()),
            (FoldKind::Sum | FoldKind::Average, Form::Double) => Values::Doubles(Vec::new(), Vec::new()),
            (FoldKind::Sum | FoldKind::Average, _) => Values::Integers(Vec::new(), Vec::new()),
            (FoldKind::Every | FoldKind::Some, _) | (_, Form::Truth) => Values::Truth(Vec::new()),
            (_, Form::Integer) => Values::BestInteger(Vec::new()),
            (_, Form::Double) => Values::BestDouble(Vec::new()),
            (_, Form::Days) => Values::BestDate(Vec::new()),
            (_, Form::Decimal) => Values::BestDecimal(Vec::new()),
            (_, Form::Bytes) if argument == SqlType::Varchar => Values::BestText(Vec::new()),
            (_, Form::Bytes | Form::Parts) => Values::BestOther(Vec::new()),
        };
        let seen = is_distinct.then(|| (KeyTable::new(seed), argument.clone()));
        State { kind, argument, values, seen, text_bytes: 0 }
    }

    /// Its bytes of memory.
    pub(crate) fn held(&self) -> u64 {
        let values = match &self.values {
            Values::Count(values) => 8 * values.capacity(),
            Values::Integers(sums, counts) => 16 * sums.capacity() + 8 * counts.capacity(),
            Values::Doubles(sums, counts) => 8 * (sums.capacity() + counts.capacity()),
            Values::Truth(values) => values.capacity(),
            Values::BestInteger(values) => 16 * values.capacity(),
            Values::BestDouble(values) => 16 * values.capacity(),
            Values::BestDate(values) => 8 * values.capacity(),
            Values::BestDecimal(values) => 32 * values.capacity(),
            Values::BestText(values) => 16 * values.capacity(),
            Values::BestOther(values) => size_of::<Value>() * values.capacity(),
        };
        values as u64 + self.text_bytes + self.seen.as_ref().map_or(0, |(seen, _)| seen.held())
    }

    /// Makes room for `groups` groups.
    pub(crate) fn resize(&mut self, groups: usize) -> Result<(), BoxError> {
        fn to<T: Clone>(values: &mut Vec<T>, groups: usize, zero: T) -> Result<(), BoxError> {
            values.grow(groups.saturating_sub(values.len()))?;
            values.resize(groups.max(values.len()), zero);
            Ok(())
        }
        match &mut self.values {
            Values::Count(values) => to(values, groups, 0),
            Values::Integers(sums, counts) => to(sums, groups, 0).and_then(|()| to(counts, groups, 0)),
            Values::Doubles(sums, counts) => to(sums, groups, 0.0).and_then(|()| to(counts, groups, 0)),
            Values::Truth(values) => to(values, groups, None),
            Values::BestInteger(values) => to(values, groups, None),
            Values::BestDouble(values) => to(values, groups, None),
            Values::BestDate(values) => to(values, groups, None),
            Values::BestDecimal(values) => to(values, groups, None),
            Values::BestText(values) => to(values, groups, None),
            Values::BestOther(values) => to(values, groups, Value::Null),
        }
    }

    /// Adds a value for each row to the row's group; without values, it counts rows.
    pub(crate) fn add(&mut self, vector: Option<&Vector>, groups: &[u32], room: &Room<'_>) -> Result<(), BoxError> {
        let Some(vector) = vector else {
            if let Values::Count(counts) = &mut self.values {
                groups.iter().for_each(|&group| counts[group as usize] += 1);
            }
            return Ok(());
        };
        if let Some((seen, kind)) = &mut self.seen {
            let (vectors, kinds) = ([vector.clone()], [kind.clone()]);
            let (writer, mut value, mut key) = (KeyWriter::new(&vectors, &kinds, room)?, Vec::new(), Vec::new());
            let mut rows = Vec::new();
            for (row, group) in groups.iter().enumerate() {
                if writer.write(row, &mut value) {
                    continue;
                }
                key.clear();
                key.extend_from_slice(&group.to_le_bytes());
                key.extend_from_slice(&value);
                let before = seen.len();
                if seen.number(&key, room)? as usize == before {
                    rows.push(row);
                }
            }
            return self.add_rows(vector, groups, rows.into_iter(), room);
        }
        self.add_rows(vector, groups, 0..groups.len(), room)
    }

    fn add_rows(
        &mut self,
        vector: &Vector,
        groups: &[u32],
        rows: impl Iterator<Item = usize>,
        room: &Room<'_>,
    ) -> Result<(), BoxError> {
        let greatest = self.kind == FoldKind::Greatest;
        let is_better = |order: Ordering| if greatest { order.is_gt() } else { order.is_lt() };
        match &mut self.values {
            Values::Count(counts) => {
                for row in rows.filter(|&row| !vector.is_null(row)) {
                    counts[groups[row] as usize] += 1;
                }
            }
            Values::Integers(sums, counts) if self.argument.form() == Form::Decimal => {
                let values = vector.values::<i128>();
                for row in rows {
                    if let Some(value) = values.get(row) {
                        let sum = &mut sums[groups[row] as usize];
                        *sum = sum.checked_add(value).ok_or("a sum of decimals has more than 38 digits")?;
                        counts[groups[row] as usize] += 1;
                    }
                }
            }
            Values::Integers(sums, counts) => {
                let values = vector.values::<i64>();
                for row in rows {
                    if let Some(value) = values.get(row) {
                        sums[groups[row] as usize] += i128::from(value);
                        counts[groups[row] as usize] += 1;
                    }
                }
            }
            Values::Doubles(sums, counts) => {
                let values = vector.values::<f64>();
                for row in rows {
                    if let Some(value) = values.get(row) {
                        sums[groups[row] as usize] += value;
                        counts[groups[row] as usize] += 1;
                    }
                }
            }
            Values::Truth(truth) => {
                let is_any = matches!(self.kind, FoldKind::Some | FoldKind::Greatest);
                let values = vector.values::<bool>();
                for row in rows {
                    if let Some(value) = values.get(row) {
                        let known = &mut truth[groups[row] as usize];
                        *known = Some(known.map_or(value, |known| if is_any { known | value } else { known & value }));
                    }
                }
            }
            Values::BestInteger(best) => {
                let values = vector.values::<i64>();
                for row in rows {
                    if let Some(value) = values.get(row) {
                        let known = &mut best[groups[row] as usize];
                        if known.is_none_or(|known| is_better(value.cmp(&known))) {
                            *known = Some(value);
                        }
                    }
                }
            }
            Values::BestDouble(best) => {
                let values = vector.values::<f64>();
                for row in rows {
                    if let Some(value) = values.get(row) {
                        let known = &mut best[groups[row] as usize];
                        if known.is_none_or(|known| is_better(order_doubles(value, known))) {
                            *known = Some(canonical(value));
                        }
                    }
                }
            }
            Values::BestDate(best) => {
                let values = vector.values::<i32>();
                for row in rows {
                    if let Some(value) = values.get(row) {
                        let known = &mut best[groups[row] as usize];
                        if known.is_none_or(|known| is_better(value.cmp(&known))) {
                            *known = Some(value);
                        }
                    }
                }
            }
            Values::BestDecimal(best) => {
                let values = vector.values::<i128>();
                for row in rows {
                    if let Some(value) = values.get(row) {
                        let known = &mut best[groups[row] as usize];
                        if known.is_none_or(|known| is_better(value.cmp(&known))) {
                            *known = Some(value);
                        }
                    }
                }
            }
            Values::BestOther(best) => {
                for row in rows {
                    let value = vector.value(row, &self.argument);
                    if value == Value::Null {
                        continue;
                    }
                    let known = &mut best[groups[row] as usize];
                    if value.order(known).is_none_or(is_better) {
                        let bytes = value.bytes_beside();
                        room.take(bytes)?;
                        self.text_bytes += bytes as u64;
                        self.text_bytes -= known.bytes_beside() as u64;
                        *known = value;
                    }
                }
            }
            Values::BestText(best) => {
                let texts = vector.texts();
                for row in rows {
                    if let Some(text) = texts.get(row) {
                        let known = &mut best[groups[row] as usize];
                        if known.as_deref().is_none_or(|known| is_better(text.as_bytes().cmp(known.as_bytes()))) {
                            room.take(text.len())?;
                            self.text_bytes += text.len() as u64;
                            self.text_bytes -= known.as_ref().map_or(0, |known| known.len() as u64);
                            *known = Some(text.into());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The types of the columns for states sent from box to box.
    pub(crate) fn part_kinds(kind: FoldKind, argument: &SqlType) -> Vec<SqlType> {
        match (kind, argument) {
            (FoldKind::Count, _) => vec![SqlType::BigInt],
            (FoldKind::Sum | FoldKind::Average, SqlType::Double) => vec![SqlType::Double, SqlType::BigInt],
            // The high and the low half.
            (FoldKind::Sum | FoldKind::Average, _) => vec![SqlType::BigInt; 3],
            (_, argument) => vec![argument.clone()],
        }
    }

    /// The states of some groups.
    pub(crate) fn parts(&self, groups: std::ops::Range<usize>, room: &Room<'_>) -> Result<Vec<Column>, BoxError> {
        Ok(match &self.values {
            Values::Count(counts) => vec![counts[groups].to_vec().into()],
            Values::Doubles(sums, counts) => {
                vec![sums[groups.clone()].to_vec().into(), counts[groups].to_vec().into()]
            }
            Values::Integers(sums, counts) => {
                let half =
                    |shift: u32| sums[groups.clone()].iter().map(|sum| (sum >> shift) as i64).collect::<Vec<i64>>();
                vec![half(64).into(), half(0).into(), counts[groups.clone()].to_vec().into()]
            }
            _ => vec![self.best(groups, room)?],
        })
    }

    /// Adds the states of another box, a row for each group.
    pub(crate) fn add_parts(&mut self, parts: &[Vector], groups: &[u32], room: &Room<'_>) -> Result<(), BoxError> {
        let integer = |part: usize, row: usize| parts[part].values::<i64>().get(row).unwrap_or(0);
        match &mut self.values {
            Values::Count(counts) => {
                groups.iter().enumerate().for_each(|(row, &group)| counts[group as usize] += integer(0, row));
            }
            Values::Integers(sums, counts) => {
                for (row, &group) in groups.iter().enumerate() {
                    let part = (i128::from(integer(0, row)) << 64) | i128::from(integer(1, row) as u64);
                    let sum = &mut sums[group as usize];
                    *sum = sum.checked_add(part).ok_or("a sum of decimals has more than 38 digits")?;
                    counts[group as usize] += integer(2, row);
                }
            }
            Values::Doubles(sums, counts) => {
                let values = parts[0].values::<f64>();
                for (row, &group) in groups.iter().enumerate() {
                    sums[group as usize] += values.get(row).unwrap_or(0.0);
                    counts[group as usize] += integer(1, row);
                }
            }
            _ => return self.add_rows(&parts[0], groups, 0..groups.len(), room),
        }
        Ok(())
    }

    /// The results of some groups.
    pub(crate) fn results(&self, groups: std::ops::Range<usize>, room: &Room<'_>) -> Result<Column, BoxError> {
        let is_average = self.kind == FoldKind::Average;
        Ok(match &self.values {
            Values::Count(counts) => counts[groups].to_vec().into(),
            Values::Doubles(sums, counts) => {
                let result = |(&sum, &count): (&f64, &i64)| {
                    (count > 0).then(|| if is_average { sum / count as f64 } else { sum })
                };
                sums[groups.clone()].iter().zip(&counts[groups]).map(result).collect::<Vec<_>>().into()
            }
            Values::Integers(sums, counts) if is_average => {
                let scale = if let SqlType::Decimal { scale, .. } = self.argument { scale } else { 0 };
                let result =
                    |(&sum, &count): (&i128, &i64)| (count > 0).then(|| decimal::to_double(sum, scale) / count as f64);
                sums[groups.clone()].iter().zip(&counts[groups]).map(result).collect::<Vec<_>>().into()
            }
            Values::Integers(sums, counts) if self.argument.form() == Form::Decimal => {
                let SqlType::Decimal { scale, .. } = self.argument else { unreachable!("it has this form") };
                let sums = &sums[groups.clone()];
                let is_wide = |sum: &&i128| decimal::within(**sum, decimal::DIGITS).is_none();
                if sums.iter().any(|sum| is_wide(&sum)) {
                    return Err("a sum of decimals has more than 38 digits".into());
                }
                let empty = counts[groups].iter().enumerate().filter(|(_, count)| **count == 0).map(|(row, _)| row);
                Column::of_decimals(decimal::DIGITS, scale as i8, sums.to_vec()).with_nulls(empty)
            }
            Values::Integers(sums, counts) => {
                let result = |(&sum, &count): (&i128, &i64)| match i64::try_from(sum) {
                    _ if count == 0 => Ok(None),
                    Ok(sum) => Ok(Some(sum)),
                    Err(_) => Err(BoxError::from(format!("the sum {sum} is no bigint: it has more than 64 bits"))),
                };
                let results = sums[groups.clone()].iter().zip(&counts[groups]).map(result);
                Column::from(results.collect::<Result<Vec<_>, _>>()?).of_type(self.argument.flow_type())
            }
            _ => self.best(groups, room)?,
        })
    }

    fn best(&self, groups: std::ops::Range<usize>, room: &Room<'_>) -> Result<Column, BoxError> {
        let column: Column = match &self.values {
            Values::Truth(values) => values[groups].to_vec().into(),
            Values::BestInteger(values) => values[groups].to_vec().into(),
            Values::BestDouble(values) => values[groups].to_vec().into(),
            Values::BestDate(values) => values[groups].to_vec().into(),
            Values::BestDecimal(values) => {
                let nulls = values[groups.clone()].iter().enumerate().filter(|(_, value)| value.is_none());
                let nulls: Vec<usize> = nulls.map(|(row, _)| row).collect();
                let units = values[groups].iter().map(|value| value.unwrap_or(0)).collect();
                Column::of_decimals(decimal::DIGITS, 0, units).with_nulls(nulls)
            }
            Values::BestOther(values) => {
                let values = &values[groups];
                room.take(values.iter().map(|value| 2 * value.bytes_beside()).fold(0, usize::saturating_add))?;
                return Ok(column_of(&self.argument, &values.iter().collect::<Vec<_>>()));
            }
            Values::BestText(values) => {
                let texts = || values[groups.clone()].iter().map(Option::as_deref);
                // The texts while they grow: the old ones and twice as much.
                room.take(texts().flatten().map(|text| 3 * text.len()).fold(0, usize::saturating_add))?;
                texts().collect::<Vec<_>>().into()
            }
            Values::Count(_) | Values::Integers(..) | Values::Doubles(..) => unreachable!("these are no single values"),
        };
        Ok(column.of_type(self.argument.flow_type()))
    }
}
