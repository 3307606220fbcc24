//! Columns of any type of envelopes as those of SQL.

use crate::types::SqlType;
use vicus_flow::{BoxError, Column, Native, Type};

/// A column as one of the type that [`SqlType::of`] gives: integers become bigint, floats double, times microseconds
/// (finer ones are cut off), strings of fixed size blobs, and so do the parts of lists and structs. It is shared where
/// nothing changes.
///
/// ```
/// use vicus_flow::{Column, TimeUnit, Type};
/// use vicus_sql::{SqlType, in_sql};
///
/// let at = Column::from(vec![2i64]).of_type(Type::Timestamp(TimeUnit::Second, None));
/// let lists = in_sql(&Column::of_lists(vec![0, 1], at))?;
/// assert_eq!(lists.items().i64s(), [2_000_000]);
/// assert_eq!(SqlType::of(&lists.kind()).unwrap().to_string(), "timestamp[]");
/// # Ok::<(), vicus_flow::BoxError>(())
/// ```
///
/// # Errors
/// A value is beyond the type, or SQL has none here for the column.
pub fn in_sql(column: &Column) -> Result<Column, BoxError> {
    fn wider<T: Native, W: Native>(column: &Column, widen: impl Fn(T) -> W) -> Column {
        let wide: Column = column.values::<T>().iter().map(|&value| widen(value)).collect::<Vec<W>>().into();
        with_nulls_of(column, wide)
    }
    let kind = column.kind();
    let sql = SqlType::of(&kind).ok_or_else(|| format!("SQL has no {kind} here"))?;
    let flow = sql.flow_type();
    if kind == flow {
        return Ok(column.clone());
    }
    Ok(match kind {
        Type::I8 => wider(column, |value: i8| i64::from(value)),
        Type::I16 => wider(column, |value: i16| i64::from(value)),
        Type::I32 => wider(column, |value: i32| i64::from(value)),
        Type::U8 => wider(column, |value: u8| i64::from(value)),
        Type::U16 => wider(column, |value: u16| i64::from(value)),
        Type::U32 => wider(column, |value: u32| i64::from(value)),
        Type::U64 => {
            let beyond = |&(row, value): &(usize, &u64)| !column.is_null(row) && i64::try_from(*value).is_err();
            if let Some((_, value)) = column.u64s().iter().enumerate().find(beyond) {
                return Err(format!("{value} is beyond bigint").into());
            }
            // Behind the check, only a null's place may wrap.
            wider(column, |value: u64| value as i64)
        }
        Type::F32 => wider(column, |value: f32| f64::from(value)),
        Type::Time(unit) | Type::Timestamp(unit, _) | Type::Duration(unit) => {
            let micros = |(row, &value): (usize, &i64)| match unit.per_second() {
                finer if finer > 1_000_000 => Ok(value.div_euclid(finer / 1_000_000)),
                _ if column.is_null(row) => Ok(0),
                coarser => value
                    .checked_mul(1_000_000 / coarser)
                    .ok_or_else(|| format!("{value} {unit} are beyond the {sql} of SQL")),
            };
            let micros = column.i64s().iter().enumerate().map(micros).collect::<Result<Vec<i64>, String>>()?;
            with_nulls_of(column, Column::from(micros).of_type(flow))
        }
        Type::Decimal { scale, .. } if scale < 0 => {
            // Nulls may have any units.
            let unit = crate::decimal::power(scale.unsigned_abs());
            let units = column.decimals().iter().map(|units| units.checked_mul(unit).unwrap_or(0)).collect();
            let SqlType::Decimal { precision, .. } = sql else { unreachable!("decimals are decimals") };
            with_nulls_of(column, Column::of_decimals(precision, 0, units))
        }
        Type::Decimal { .. } => column.clone().of_type(flow),
        Type::FixedBinary(_) => with_nulls_of(column, Column::of_binaries(column.binaries())),
        Type::List(_) => {
            let (ends, items) = lists(column);
            with_nulls_of(column, Column::of_lists(ends, in_sql(&items)?))
        }
        Type::Struct(fields) => {
            let part =
                |(place, field): (usize, &vicus_flow::Field)| Ok((field.name.clone(), in_sql(column.part(place))?));
            let parts = fields.columns().iter().enumerate().map(part).collect::<Result<Vec<_>, BoxError>>()?;
            with_nulls_of(column, Column::of_parts(parts))
        }
        _ => column.clone(),
    })
}

/// Whether [`as_before`] gives all values of such a column back.
pub(crate) fn can_be_as_before(kind: &Type) -> bool {
    match kind {
        Type::Time(unit) | Type::Timestamp(unit, _) | Type::Duration(unit) => unit.per_second() <= 1_000_000,
        Type::List(of) => can_be_as_before(&of.kind),
        Type::Struct(parts) => parts.columns().iter().all(|part| can_be_as_before(&part.kind)),
        _ => SqlType::of(kind).is_some(),
    }
}

/// The opposite of [`in_sql`]: a column of SQL, whose values are those of a column of this type, as one of this type.
pub(crate) fn as_before(column: &Column, kind: &Type) -> Column {
    fn narrower<W: Native, T: Native>(column: &Column, narrow: impl Fn(W) -> T) -> Column {
        let narrow: Column = column.values::<W>().iter().map(|&value| narrow(value)).collect::<Vec<T>>().into();
        with_nulls_of(column, narrow)
    }
    if column.kind() == *kind {
        return column.clone();
    }
    // Only a null's place may hold a number beyond the type.
    match kind {
        Type::I8 => narrower(column, |value: i64| value as i8),
        Type::I16 => narrower(column, |value: i64| value as i16),
        Type::I32 => narrower(column, |value: i64| value as i32),
        Type::U8 => narrower(column, |value: i64| value as u8),
        Type::U16 => narrower(column, |value: i64| value as u16),
        Type::U32 => narrower(column, |value: i64| value as u32),
        Type::U64 => narrower(column, |value: i64| value as u64),
        Type::F32 => narrower(column, |value: f64| value as f32),
        Type::Time(unit) | Type::Timestamp(unit, _) | Type::Duration(unit) => match 1_000_000 / unit.per_second() {
            1 => column.clone().of_type(kind.clone()),
            micros => narrower(column, |value: i64| value / micros).of_type(kind.clone()),
        },
        Type::Decimal { precision, scale } if *scale < 0 => {
            let unit = crate::decimal::power(scale.unsigned_abs());
            let units = column.decimals().iter().map(|units| units / unit).collect();
            with_nulls_of(column, Column::of_decimals(*precision, *scale, units))
        }
        Type::Decimal { .. } => column.clone().of_type(kind.clone()),
        Type::FixedBinary(size) => {
            let mut bytes = Vec::with_capacity(column.len() * *size as usize);
            for row in 0..column.len() {
                match column.is_null(row) {
                    true => bytes.resize(bytes.len() + *size as usize, 0),
                    false => bytes.extend_from_slice(column.binary_at(row)),
                }
            }
            with_nulls_of(column, Column::of_fixed(*size, bytes))
        }
        Type::List(of) => {
            let (ends, items) = lists(column);
            with_nulls_of(column, Column::of_lists(ends, as_before(&items, &of.kind)))
        }
        Type::Struct(fields) => {
            let part = |(place, field): (usize, &vicus_flow::Field)| {
                (field.name.clone(), as_before(column.part(place), &field.kind))
            };
            with_nulls_of(column, Column::of_parts(fields.columns().iter().enumerate().map(part)))
        }
        _ => column.clone(),
    }
}

/// The ends of lists, from 0 on, and the values in them.
fn lists(column: &Column) -> (Vec<i32>, Column) {
    let ranges: Vec<_> = (0..column.len()).map(|row| column.item_range(row)).collect();
    let first = ranges.first().map_or(0, |range| range.start);
    let end = ranges.last().map_or(0, |range| range.end);
    let ends = std::iter::once(0).chain(ranges.iter().map(|range| (range.end - first) as i32)).collect();
    (ends, column.items().slice(first..end))
}

fn with_nulls_of(column: &Column, values: Column) -> Column {
    match column.null_count() {
        0 => values,
        _ => values.with_nulls((0..column.len()).filter(|&row| column.is_null(row))),
    }
}
