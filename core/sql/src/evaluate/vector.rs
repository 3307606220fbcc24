//! The values of an expression for the rows of an envelope, and loops over them.

use super::Room;
use crate::types::{SqlType, Value};
use std::sync::Arc;
use vicus_flow::{BoxError, Column, Native, NoMemory, Type, refusable};

/// The values of an expression: the same for all rows, or a column.
#[derive(Clone, Debug)]
pub(crate) enum Vector {
    One(Value),
    Many(Column),
}

/// Numbers, truth values or dates; some may be null.
#[derive(Clone, Copy)]
pub(crate) enum Values<'a, T> {
    One(Option<T>),
    /// The column is there if it has nulls.
    Many(&'a [T], Option<&'a Column>),
}

impl<T: Native> Values<'_, T> {
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<T> {
        match self {
            Values::One(value) => *value,
            Values::Many(values, None) => Some(values[row]),
            Values::Many(values, Some(column)) => (!column.is_null(row)).then(|| values[row]),
        }
    }
}

/// Texts; some may be null.
#[derive(Clone, Copy)]
pub(crate) enum Texts<'a> {
    One(Option<&'a str>),
    Many(&'a Column, bool),
}

impl<'a> Texts<'a> {
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<&'a str> {
        match self {
            Texts::One(text) => *text,
            Texts::Many(column, false) => Some(column.text_at(row)),
            Texts::Many(column, true) => (!column.is_null(row)).then(|| column.text_at(row)),
        }
    }
}

/// A Rust type for computing with values of some SQL types.
pub(crate) trait Scalar: Native {
    fn of(value: &Value) -> Option<Self>;
}

impl Scalar for bool {
    fn of(value: &Value) -> Option<bool> {
        if let Value::Boolean(value) = value { Some(*value) } else { None }
    }
}

impl Scalar for i64 {
    fn of(value: &Value) -> Option<i64> {
        if let Value::BigInt(value) | Value::Timestamp(value) = value { Some(*value) } else { None }
    }
}

impl Scalar for f64 {
    fn of(value: &Value) -> Option<f64> {
        if let Value::Double(value) = value { Some(*value) } else { None }
    }
}

impl Scalar for i32 {
    fn of(value: &Value) -> Option<i32> {
        if let Value::Date(value) = value { Some(*value) } else { None }
    }
}

impl Vector {
    pub(crate) fn is_one(&self) -> bool {
        matches!(self, Vector::One(..))
    }

    pub(crate) fn values<T: Scalar>(&self) -> Values<'_, T> {
        match self {
            Vector::One(value) => Values::One(T::of(value)),
            Vector::Many(column) => Values::Many(column.values(), (column.null_count() > 0).then_some(column)),
        }
    }

    pub(crate) fn texts(&self) -> Texts<'_> {
        match self {
            Vector::One(Value::Varchar(text)) => Texts::One(Some(text)),
            Vector::One(..) => Texts::One(None),
            Vector::Many(column) => Texts::Many(column, column.null_count() > 0),
        }
    }

    #[inline]
    pub(crate) fn is_null(&self, row: usize) -> bool {
        match self {
            Vector::One(value) => *value == Value::Null,
            Vector::Many(column) => column.null_count() > 0 && column.is_null(row),
        }
    }

    /// The value of a row, of this type.
    pub(crate) fn value(&self, row: usize, kind: SqlType) -> Value {
        match self {
            Vector::One(value) => value.clone(),
            Vector::Many(column) if column.is_null(row) => Value::Null,
            Vector::Many(column) => match kind {
                SqlType::Boolean => Value::Boolean(column.bools()[row]),
                SqlType::BigInt => Value::BigInt(column.i64s()[row]),
                SqlType::Double => Value::Double(column.f64s()[row]),
                SqlType::Varchar => Value::Varchar(Arc::from(column.text_at(row))),
                SqlType::Date => Value::Date(column.i32s()[row]),
                SqlType::Timestamp => Value::Timestamp(column.i64s()[row]),
            },
        }
    }

    /// Bytes of its texts.
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            Vector::One(Value::Varchar(text)) => text.len(),
            Vector::Many(column) if column.kind() == Type::Text => column.bytes() as usize,
            _ => 0,
        }
    }

    /// A column of `rows` rows.
    ///
    /// # Errors
    /// There is no room for its texts.
    pub(crate) fn into_column(self, kind: SqlType, rows: usize, room: &Room<'_>) -> Result<Column, BoxError> {
        let column = match self {
            Vector::Many(column) => column,
            Vector::One(Value::Null) => nulls(kind.flow_type(), rows),
            Vector::One(Value::Boolean(value)) => vec![value; rows].into(),
            Vector::One(Value::BigInt(value) | Value::Timestamp(value)) => vec![value; rows].into(),
            Vector::One(Value::Double(value)) => vec![value; rows].into(),
            Vector::One(Value::Date(value)) => vec![value; rows].into(),
            Vector::One(Value::Varchar(text)) => texts(std::iter::repeat_n(&*text, rows), room)?,
        };
        // Dates and timestamps are computed with as numbers.
        Ok(column.of_type(kind.flow_type()))
    }

    /// The values of some rows.
    pub(crate) fn picked(self, rows: &[u32], room: &Room<'_>) -> Result<Vector, BoxError> {
        Ok(match self {
            Vector::Many(column) => Vector::Many(gather(&column, rows, room)?),
            one => one,
        })
    }
}

/// A column of nulls.
pub(crate) fn nulls(kind: Type, rows: usize) -> Column {
    let room = Room::new(&|_| Ok(()));
    gathered(kind, std::iter::repeat_n(None, rows), &room).expect("nulls have no texts")
}

/// A column of these texts, with room for exactly their bytes.
fn texts<'t>(all: impl Iterator<Item = &'t str> + Clone, room: &Room<'_>) -> Result<Column, BoxError> {
    let mut made = NewTexts::of(all.size_hint().0, all.clone().map(str::len), room)?;
    for text in all {
        made.text.push_str(text);
        made.end();
    }
    Ok(made.column())
}

/// The texts of a new column.
struct NewTexts {
    text: String,
    ends: Vec<i32>,
}

impl NewTexts {
    /// With room for texts of these numbers of bytes.
    fn of(rows: usize, bytes: impl Iterator<Item = usize>, room: &Room<'_>) -> Result<NewTexts, BoxError> {
        let bytes = bytes.fold(0, usize::saturating_add);
        room.take(bytes)?;
        if bytes > MOST_TEXT {
            return Err("the texts of one envelope would have more than 1 GiB".into());
        }
        let mut text = String::new();
        refusable(|| text.try_reserve_exact(bytes)).map_err(|_| NoMemory { bytes: bytes as u64 })?;
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        Ok(NewTexts { text, ends })
    }

    /// A row's text ends here.
    #[inline]
    fn end(&mut self) {
        self.ends.push(self.text.len() as i32);
    }

    fn column(mut self) -> Column {
        /// Unused room is given back if it is more than this.
        const SPARE: usize = 4 << 10;
        if self.text.capacity() - self.text.len() > SPARE {
            self.text.shrink_to_fit();
        }
        Column::of_text(self.text, self.ends)
    }
}

/// A column of these rows of a column.
///
/// # Errors
/// There is no room for its texts.
pub(crate) fn gather(column: &Column, rows: &[u32], room: &Room<'_>) -> Result<Column, BoxError> {
    fn copied<T: Native>(column: &Column, rows: &[u32]) -> Column {
        let values = column.values::<T>();
        let picked: Column = rows.iter().map(|&row| values[row as usize]).collect::<Vec<T>>().into();
        match column.null_count() {
            0 => picked,
            _ => picked.with_nulls((0..rows.len()).filter(|&place| column.is_null(rows[place] as usize))),
        }
    }
    Ok(match column.kind() {
        Type::Bool => copied::<bool>(column, rows),
        kind @ (Type::I32 | Type::Date) => copied::<i32>(column, rows).of_type(kind),
        kind @ (Type::I64 | Type::Timestamp(..)) => copied::<i64>(column, rows).of_type(kind),
        Type::F64 => copied::<f64>(column, rows),
        Type::Text => {
            let picked = texts(rows.iter().map(|&row| column.text_at(row as usize)), room)?;
            match column.null_count() {
                0 => picked,
                _ => picked.with_nulls((0..rows.len()).filter(|&place| column.is_null(rows[place] as usize))),
            }
        }
        other => panic!("a column of {other} is of no type of SQL"),
    })
}

/// A column of rows of several columns of one type, or of nulls.
///
/// # Errors
/// There is no room for its texts.
pub(crate) fn gathered<'c>(
    kind: Type,
    rows: impl Iterator<Item = Option<(&'c Column, usize)>> + Clone,
    room: &Room<'_>,
) -> Result<Column, BoxError> {
    fn copied<'c, T: Native>(rows: impl Iterator<Item = Option<(&'c Column, usize)>>) -> Column {
        let mut nulls = Vec::new();
        let mut values: Vec<T> = Vec::with_capacity(rows.size_hint().0);
        for from in rows {
            match from.filter(|(column, row)| column.null_count() == 0 || !column.is_null(*row)) {
                Some((column, row)) => values.push(column.values::<T>()[row]),
                None => {
                    nulls.push(values.len());
                    values.push(T::default());
                }
            }
        }
        with_nulls(values.into(), nulls)
    }
    Ok(match kind {
        Type::Bool => copied::<bool>(rows),
        kind @ (Type::I32 | Type::Date) => copied::<i32>(rows).of_type(kind),
        kind @ (Type::I64 | Type::Timestamp(..)) => copied::<i64>(rows).of_type(kind),
        Type::F64 => copied::<f64>(rows),
        Type::Text => {
            let is_there = |(column, row): &(&Column, usize)| column.null_count() == 0 || !column.is_null(*row);
            let of = rows.map(|from| from.filter(is_there).map(|(column, row)| column.text_at(row)));
            let nulls = of.clone().enumerate().filter(|(_, text)| text.is_none()).map(|(place, _)| place).collect();
            with_nulls(texts(of.map(Option::unwrap_or_default), room)?, nulls)
        }
        other => panic!("a column of {other} is of no type of SQL"),
    })
}

fn with_nulls(column: Column, nulls: Vec<usize>) -> Column {
    if nulls.is_empty() { column } else { column.with_nulls(nulls) }
}

/// Applies a function to each value except null.
pub(crate) fn map<A: Scalar, R: Native>(
    rows: usize,
    a: Values<'_, A>,
    mut function: impl FnMut(A) -> Result<Option<R>, BoxError>,
) -> Result<Vector, BoxError> {
    build(rows, |row| a.get(row).map_or(Ok(None), &mut function))
}

/// Applies a function to each pair of values except null.
pub(crate) fn zip<A: Scalar, B: Scalar, R: Native>(
    rows: usize,
    a: Values<'_, A>,
    b: Values<'_, B>,
    mut function: impl FnMut(A, B) -> Result<Option<R>, BoxError>,
) -> Result<Vector, BoxError> {
    // The usual shapes, in loops without a branch for each row.
    let mut values: Vec<R> = Vec::with_capacity(rows);
    let mut nulls = Vec::new();
    let mut put = |value: Option<R>| {
        if value.is_none() {
            nulls.push(values.len());
        }
        values.push(value.unwrap_or_default());
    };
    match (a, b) {
        (Values::Many(a, None), Values::Many(b, None)) => {
            for (&a, &b) in a.iter().zip(b) {
                put(function(a, b)?);
            }
        }
        (Values::Many(a, None), Values::One(Some(b))) => {
            for &a in a {
                put(function(a, b)?);
            }
        }
        (Values::One(Some(a)), Values::Many(b, None)) => {
            for &b in b {
                put(function(a, b)?);
            }
        }
        (a, b) => {
            for row in 0..rows {
                put(match (a.get(row), b.get(row)) {
                    (Some(a), Some(b)) => function(a, b)?,
                    _ => None,
                });
            }
        }
    }
    Ok(Vector::Many(with_nulls(values.into(), nulls)))
}

/// A value, or null, for each row.
pub(crate) fn build<R: Native>(
    rows: usize,
    mut of_row: impl FnMut(usize) -> Result<Option<R>, BoxError>,
) -> Result<Vector, BoxError> {
    let (mut values, mut nulls): (Vec<R>, _) = (Vec::with_capacity(rows), Vec::new());
    for row in 0..rows {
        let value = of_row(row)?;
        if value.is_none() {
            nulls.push(row);
        }
        values.push(value.unwrap_or_default());
    }
    Ok(Vector::Many(with_nulls(values.into(), nulls)))
}

/// A text, or null, for each row: the function appends it. `most` is the largest number of bytes of a row's text.
pub(crate) fn build_texts(
    rows: usize,
    room: &Room<'_>,
    most: impl Fn(usize) -> usize,
    mut of_row: impl FnMut(usize, &mut String) -> Result<Option<()>, BoxError>,
) -> Result<Vector, BoxError> {
    let mut made = NewTexts::of(rows, (0..rows).map(most), room)?;
    let (mut nulls, reserved) = (Vec::new(), made.text.capacity());
    for row in 0..rows {
        if of_row(row, &mut made.text)?.is_none() {
            nulls.push(row);
        }
        made.end();
    }
    debug_assert!(made.text.len() <= reserved, "{} bytes of text were to be {reserved} at most", made.text.len());
    Ok(Vector::Many(with_nulls(made.column(), nulls)))
}

/// A column has at most 2 GiB of text.
const MOST_TEXT: usize = 1 << 30;

/// Applies a function to each text except null. The function appends its result: at most `times` the text's bytes if
/// the text is not ASCII, and as many bytes as the text if it is.
pub(crate) fn map_texts(
    rows: usize,
    room: &Room<'_>,
    texts: Texts<'_>,
    times: usize,
    mut function: impl FnMut(&str, &mut String),
) -> Result<Vector, BoxError> {
    let most = |text: &str| if times == 1 || text.is_ascii() { text.len() } else { times * text.len() };
    build_texts(
        rows,
        room,
        |row| texts.get(row).map_or(0, most),
        |row, all| Ok(texts.get(row).map(|text| function(text, all))),
    )
}
