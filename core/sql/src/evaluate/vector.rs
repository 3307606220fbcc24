//! The values of an expression for the rows of an envelope, and loops over them.

use super::Room;
use crate::types::{Form, SqlType, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use vicus_flow::{BoxError, Column, NoMemory, Storage, Type, refusable};

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

impl<T: Scalar> Values<'_, T> {
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
pub(crate) trait Scalar: Copy + Default {
    fn of(value: &Value) -> Option<Self>;

    /// The values of a column.
    fn slice(column: &Column) -> &[Self];

    /// A column of values, without their meaning.
    fn column(values: Vec<Self>) -> Column;
}

macro_rules! scalar {
    ($type:ty, $($variant:pat_param)|+ => $value:ident) => {
        impl Scalar for $type {
            fn of(value: &Value) -> Option<$type> {
                if let $($variant)|+ = value { Some(*$value) } else { None }
            }

            #[inline]
            fn slice(column: &Column) -> &[$type] {
                column.values()
            }

            #[inline]
            fn column(values: Vec<$type>) -> Column {
                values.into()
            }
        }
    };
}

scalar!(bool, Value::Boolean(value) => value);
scalar!(i64, Value::BigInt(value)
    | Value::Time(value)
    | Value::Timestamp(value)
    | Value::TimestampTz(value)
    | Value::Interval(value) => value);
scalar!(f64, Value::Double(value) => value);
scalar!(i32, Value::Date(value) => value);

/// Units of decimals; how large a unit is, the type says.
impl Scalar for i128 {
    fn of(value: &Value) -> Option<i128> {
        if let Value::Decimal(units, _) = value { Some(*units) } else { None }
    }

    fn slice(column: &Column) -> &[i128] {
        column.decimals()
    }

    fn column(values: Vec<i128>) -> Column {
        Column::of_decimals(crate::decimal::DIGITS, 0, values)
    }
}

impl Vector {
    pub(crate) fn is_one(&self) -> bool {
        matches!(self, Vector::One(..))
    }

    pub(crate) fn values<T: Scalar>(&self) -> Values<'_, T> {
        match self {
            Vector::One(value) => Values::One(T::of(value)),
            Vector::Many(column) => Values::Many(T::slice(column), (column.null_count() > 0).then_some(column)),
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
    pub(crate) fn value(&self, row: usize, kind: &SqlType) -> Value {
        match self {
            Vector::One(value) => value.clone(),
            Vector::Many(column) => value_at(column, row, kind),
        }
    }

    /// Bytes of its texts, and of what else lies beside its values.
    pub(crate) fn text_bytes(&self) -> usize {
        match self {
            Vector::One(value) => value.bytes_beside(),
            Vector::Many(column) if column.kind().is_variable() || column.kind().is_nested() => column.bytes() as usize,
            _ => 0,
        }
    }

    /// A column of `rows` rows.
    ///
    /// # Errors
    /// There is no room for its texts.
    pub(crate) fn into_column(self, kind: &SqlType, rows: usize, room: &Room<'_>) -> Result<Column, BoxError> {
        let column = match self {
            Vector::Many(column) => column,
            Vector::One(Value::Null) => nulls(kind, rows),
            Vector::One(Value::Boolean(value)) => vec![value; rows].into(),
            Vector::One(
                Value::BigInt(value)
                | Value::Time(value)
                | Value::Timestamp(value)
                | Value::TimestampTz(value)
                | Value::Interval(value),
            ) => vec![value; rows].into(),
            Vector::One(Value::Double(value)) => vec![value; rows].into(),
            Vector::One(Value::Decimal(units, _)) => i128::column(vec![units; rows]),
            Vector::One(Value::Date(value)) => vec![value; rows].into(),
            Vector::One(Value::Varchar(text)) => texts(std::iter::repeat_n(&*text, rows), room)?,
            Vector::One(value @ (Value::Blob(_) | Value::List(_) | Value::Struct(_))) => {
                let one = column_of(kind, &[&value]);
                gathered(kind, std::iter::repeat_n(Some((&one, 0)), rows), room)?
            }
        };
        Ok(of_kind(column, kind))
    }

    /// The values of some rows.
    pub(crate) fn picked(self, rows: &[u32], room: &Room<'_>) -> Result<Vector, BoxError> {
        Ok(match self {
            Vector::Many(column) => Vector::Many(gather(&column, rows, room)?),
            one => one,
        })
    }
}

/// A column under its type: decimals, dates and timestamps are computed with as numbers.
pub(super) fn of_kind(column: Column, kind: &SqlType) -> Column {
    if kind.form() == Form::Parts { column } else { column.of_type(kind.flow_type()) }
}

/// The value of a row of a column of this type.
pub(crate) fn value_at(column: &Column, row: usize, kind: &SqlType) -> Value {
    if column.null_count() > 0 && column.is_null(row) {
        return Value::Null;
    }
    match kind {
        SqlType::Boolean => Value::Boolean(column.bools()[row]),
        SqlType::BigInt => Value::BigInt(column.i64s()[row]),
        SqlType::Double => Value::Double(column.f64s()[row]),
        SqlType::Decimal { scale, .. } => Value::Decimal(column.decimals()[row], *scale),
        SqlType::Varchar => Value::Varchar(Arc::from(column.text_at(row))),
        SqlType::Blob => Value::Blob(Arc::from(column.binary_at(row))),
        SqlType::Date => Value::Date(column.i32s()[row]),
        SqlType::Time => Value::Time(column.i64s()[row]),
        SqlType::Timestamp => Value::Timestamp(column.i64s()[row]),
        SqlType::TimestampTz => Value::TimestampTz(column.i64s()[row]),
        SqlType::Interval => Value::Interval(column.i64s()[row]),
        SqlType::List(of) => {
            Value::List(column.item_range(row).map(|item| value_at(column.items(), item, of)).collect())
        }
        SqlType::Struct(parts) => {
            let part = |(place, (name, kind)): (usize, &(String, SqlType))| {
                (name.clone(), value_at(column.part(place), row, kind))
            };
            Value::Struct(parts.iter().enumerate().map(part).collect())
        }
    }
}

/// A column of values of a type.
pub(crate) fn column_of(kind: &SqlType, values: &[&Value]) -> Column {
    fn numbers<T: Scalar>(values: &[&Value]) -> Column {
        T::column(values.iter().map(|value| T::of(value).unwrap_or_default()).collect())
    }
    let column = match kind.form() {
        Form::Truth => numbers::<bool>(values),
        Form::Integer => numbers::<i64>(values),
        Form::Double => numbers::<f64>(values),
        Form::Decimal => numbers::<i128>(values),
        Form::Days => numbers::<i32>(values),
        Form::Bytes if *kind == SqlType::Varchar => {
            values.iter().map(|value| if let Value::Varchar(text) = value { &**text } else { "" }).collect()
        }
        Form::Bytes => {
            Column::of_binaries(values.iter().map(|value| if let Value::Blob(bytes) = value { &**bytes } else { &[] }))
        }
        Form::Parts => match kind {
            SqlType::List(of) => {
                let (mut ends, mut items) = (vec![0], Vec::new());
                for value in values {
                    if let Value::List(values) = value {
                        items.extend(values.iter());
                    }
                    ends.push(items.len() as i32);
                }
                Column::of_lists(ends, column_of(of, &items))
            }
            SqlType::Struct(parts) => Column::of_parts(parts.iter().enumerate().map(|(place, (name, kind))| {
                let part = |value: &&'_ Value| match value {
                    Value::Struct(parts) => parts[place].1.clone(),
                    _ => Value::Null,
                };
                let parts: Vec<Value> = values.iter().map(part).collect();
                (name.clone(), column_of(kind, &parts.iter().collect::<Vec<_>>()))
            })),
            other => unreachable!("{other} has no parts"),
        },
    };
    let nulls = values.iter().enumerate().filter(|(_, value)| ***value == Value::Null).map(|(row, _)| row).collect();
    with_nulls(of_kind(column, kind), nulls)
}

/// A column of nulls.
pub(crate) fn nulls(kind: &SqlType, rows: usize) -> Column {
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
    fn copied<T: Scalar>(column: &Column, rows: &[u32]) -> Column {
        let values = T::slice(column);
        let picked = T::column(rows.iter().map(|&row| values[row as usize]).collect());
        match column.null_count() {
            0 => picked,
            _ => picked.with_nulls((0..rows.len()).filter(|&place| column.is_null(rows[place] as usize))),
        }
    }
    Ok(match column.kind() {
        Type::Bool => copied::<bool>(column, rows),
        kind @ (Type::I32 | Type::Date) => copied::<i32>(column, rows).of_type(kind),
        kind @ (Type::I64 | Type::Time(_) | Type::Timestamp(..) | Type::Duration(_)) => {
            copied::<i64>(column, rows).of_type(kind)
        }
        Type::F64 => copied::<f64>(column, rows),
        kind @ Type::Decimal { .. } => copied::<i128>(column, rows).of_type(kind),
        Type::Text if column.storage() == Storage::Direct => {
            let picked = texts(rows.iter().map(|&row| column.text_at(row as usize)), room)?;
            match column.null_count() {
                0 => picked,
                _ => picked.with_nulls((0..rows.len()).filter(|&place| column.is_null(rows[place] as usize))),
            }
        }
        kind => {
            // The codes of a dictionary are copied, and not its texts.
            let bytes = match column.storage() {
                Storage::Dictionary => 4 * rows.len(),
                _ => rows.iter().map(|&row| beside(column, row as usize)).fold(0, usize::saturating_add),
            };
            room.take(bytes)?;
            let places: Vec<Option<(u32, u32)>> = rows.iter().map(|&row| Some((0, row))).collect();
            Column::interleaved(&kind, &[column], &places)?
        }
    })
}

/// The bytes of a row's text or parts.
fn beside(column: &Column, row: usize) -> usize {
    if column.is_null(row) { 0 } else { column.slice(row..row + 1).bytes() as usize }
}

/// A column of rows of several columns of one type, or of nulls.
///
/// # Errors
/// There is no room for its texts.
pub(crate) fn gathered<'c>(
    kind: &SqlType,
    rows: impl Iterator<Item = Option<(&'c Column, usize)>> + Clone,
    room: &Room<'_>,
) -> Result<Column, BoxError> {
    fn copied<'c, T: Scalar>(rows: impl Iterator<Item = Option<(&'c Column, usize)>>) -> Column {
        let mut nulls = Vec::new();
        let mut values: Vec<T> = Vec::with_capacity(rows.size_hint().0);
        for from in rows {
            match from.filter(|(column, row)| column.null_count() == 0 || !column.is_null(*row)) {
                Some((column, row)) => values.push(T::slice(column)[row]),
                None => {
                    nulls.push(values.len());
                    values.push(T::default());
                }
            }
        }
        with_nulls(T::column(values), nulls)
    }
    let column = match kind.form() {
        Form::Truth => copied::<bool>(rows),
        Form::Days => copied::<i32>(rows),
        Form::Integer => copied::<i64>(rows),
        Form::Double => copied::<f64>(rows),
        Form::Decimal => copied::<i128>(rows),
        Form::Bytes | Form::Parts => {
            let is_there = |&(column, row): &(&Column, usize)| column.null_count() == 0 || !column.is_null(row);
            let of = rows.map(|from| from.filter(is_there));
            let is_direct = |column: &Column| column.kind() == Type::Text && column.storage() == Storage::Direct;
            if *kind == SqlType::Varchar && of.clone().flatten().all(|(column, _)| is_direct(column)) {
                let of = of.map(|from| from.map(|(column, row)| column.text_at(row)));
                let nulls = of.clone().enumerate().filter(|(_, text)| text.is_none()).map(|(place, _)| place).collect();
                return Ok(with_nulls(texts(of.map(Option::unwrap_or_default), room)?, nulls));
            }
            // Texts of several dictionaries are written out.
            let bytes = of.clone().flatten().map(|(column, row)| match column.storage() {
                Storage::Dictionary if *kind == SqlType::Varchar => column.text_at(row).len(),
                Storage::Dictionary => column.binary_at(row).len(),
                _ => beside(column, row),
            });
            room.take(bytes.fold(0, usize::saturating_add))?;
            let (mut sources, mut known) = (Vec::new(), BTreeMap::new());
            let mut places = Vec::with_capacity(of.size_hint().0);
            for from in of {
                places.push(from.map(|(column, row)| {
                    let source = *known.entry(std::ptr::from_ref(column)).or_insert_with(|| {
                        sources.push(column);
                        sources.len() as u32 - 1
                    });
                    (source, row as u32)
                }));
            }
            return Ok(Column::interleaved(&kind.flow_type(), &sources, &places)?);
        }
    };
    Ok(of_kind(column, kind))
}

fn with_nulls(column: Column, nulls: Vec<usize>) -> Column {
    if nulls.is_empty() { column } else { column.with_nulls(nulls) }
}

/// Applies a function to each value except null.
pub(crate) fn map<A: Scalar, R: Scalar>(
    rows: usize,
    a: Values<'_, A>,
    mut function: impl FnMut(A) -> Result<Option<R>, BoxError>,
) -> Result<Vector, BoxError> {
    build(rows, |row| a.get(row).map_or(Ok(None), &mut function))
}

/// Applies a function to each pair of values except null.
pub(crate) fn zip<A: Scalar, B: Scalar, R: Scalar>(
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
    Ok(Vector::Many(with_nulls(R::column(values), nulls)))
}

/// A value, or null, for each row.
pub(crate) fn build<R: Scalar>(
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
    Ok(Vector::Many(with_nulls(R::column(values), nulls)))
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
