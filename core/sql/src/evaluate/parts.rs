//! Functions of lists, structs and strings of bytes.

use super::vector::{Vector, build, gathered, value_at};
use super::{Room, Vector::Many};
use crate::expression::{Expr, Function};
use crate::types::{SqlType, Value};
use std::cmp::Ordering;
use vicus_flow::{BoxError, Column};

/// A column of lists or structs, which may be one for all rows.
struct Parted {
    column: Column,
    is_one: bool,
}

impl Parted {
    fn new(value: &Vector, kind: &SqlType, rows: usize, room: &Room<'_>) -> Result<Parted, BoxError> {
        let is_one = value.is_one();
        Ok(Parted { column: value.clone().into_column(kind, if is_one { 1 } else { rows }, room)?, is_one })
    }

    fn row(&self, row: usize) -> usize {
        if self.is_one { 0 } else { row }
    }

    fn is_null(&self, row: usize) -> bool {
        self.column.is_null(self.row(row))
    }

    /// The rows of the items that are a row's.
    fn items(&self, row: usize) -> std::ops::Range<usize> {
        self.column.item_range(self.row(row))
    }
}

/// `kind` is the type of the result.
pub(super) fn compute(
    function: &Function,
    args: &[Expr],
    values: &[Vector],
    kind: &SqlType,
    rows: usize,
    room: &Room<'_>,
) -> Result<Vector, BoxError> {
    let parted = || Parted::new(&values[0], args[0].kind_ref(), rows, room);
    match (function, kind) {
        (Function::Item, _) => {
            let (lists, places) = (parted()?, values[1].values::<i64>());
            let item = |row: usize| {
                let place = places.get(row).filter(|_| !lists.is_null(row))?;
                let items = lists.items(row);
                let place = match place {
                    1.. => usize::try_from(place).ok()? - 1,
                    0 => return None,
                    _ => items.len().checked_sub(usize::try_from(place.unsigned_abs()).ok()?)?,
                };
                (place < items.len()).then(|| (lists.column.items(), items.start + place))
            };
            Ok(Many(gathered(kind, (0..rows).map(item), room)?))
        }
        (Function::Part(part), _) => {
            let structs = parted()?;
            let column = structs.column.part(*part);
            if structs.column.null_count() == 0 && !structs.is_one {
                return Ok(Many(column.clone()));
            }
            let part = |row: usize| (!structs.is_null(row)).then(|| (column, structs.row(row)));
            Ok(Many(gathered(kind, (0..rows).map(part), room)?))
        }
        (Function::Items, SqlType::List(of)) => {
            let columns = values.iter().map(|value| value.clone().into_column(of, rows, room));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            let width = columns.len();
            let last = i32::try_from(rows * width).map_err(|_| "the lists of one envelope have too many values")?;
            let ends = (0..=rows).map(|row| if width == 0 { 0 } else { (row * width) as i32 }).collect();
            let items = (0..last as usize).map(|item| Some((&columns[item % width], item / width)));
            Ok(Many(Column::of_lists(ends, gathered(of, items, room)?)))
        }
        (Function::Parts, SqlType::Struct(parts)) => {
            let part = |(value, (name, kind)): (&Vector, &(String, SqlType))| {
                Ok((name.clone(), value.clone().into_column(kind, rows, room)?))
            };
            let parts = values.iter().zip(&**parts).map(part).collect::<Result<Vec<_>, BoxError>>()?;
            Ok(Many(Column::of_parts(parts)))
        }
        (Function::Contains, _) => {
            let (lists, of) = (parted()?, args[1].kind_ref());
            build(rows, |row| {
                let wanted = values[1].value(row, of);
                if wanted == Value::Null || lists.is_null(row) {
                    return Ok(None);
                }
                let is_it = |item| value_at(lists.column.items(), item, of).order(&wanted) == Some(Ordering::Equal);
                Ok(Some(lists.items(row).any(is_it)))
            })
        }
        (Function::Length, _) if matches!(args[0].kind_ref(), SqlType::List(_)) => {
            let lists = parted()?;
            build(rows, |row| Ok((!lists.is_null(row)).then(|| lists.items(row).len() as i64)))
        }
        (Function::Length, _) => {
            let strings = parted()?;
            let length = |row: usize| strings.column.binary_at(strings.row(row)).len() as i64;
            build(rows, |row| Ok((!strings.is_null(row)).then(|| length(row))))
        }
        (other, _) => unreachable!("{other:?} is not of lists and structs"),
    }
}
