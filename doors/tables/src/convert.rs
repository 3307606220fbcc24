//! Arrow's types and columns as those of SQL. Nothing is copied if both lay values out alike: 64-bit integers and
//! doubles, dates in days, timestamps in microseconds, and texts with 32-bit offsets.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date64Type, Float32Type, Int8Type, Int16Type, Int32Type, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatch};
use arrow_schema::{DataType, Schema, TimeUnit};
use vicus_flow::{BoxError, Column, Envelope, Type};
use vicus_sql::{SqlType, TableColumn};

/// The columns of a table with this schema. Columns of other types can't be read, and the rest can.
pub(crate) fn columns(schema: &Schema) -> Vec<TableColumn> {
    let column = |field: &std::sync::Arc<arrow_schema::Field>| match kind(field.data_type()) {
        Some(kind) => TableColumn::new(field.name(), kind),
        None => {
            let why = format!("it is of the type {}, which SQL has not here", field.data_type());
            TableColumn::unreadable(field.name(), why)
        }
    };
    schema.fields().iter().map(column).collect()
}

fn kind(data_type: &DataType) -> Option<SqlType> {
    Some(match data_type {
        DataType::Boolean => SqlType::Boolean,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => SqlType::BigInt,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => SqlType::BigInt,
        DataType::Float32 | DataType::Float64 => SqlType::Double,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => SqlType::Varchar,
        DataType::Dictionary(_, values) => {
            // Of texts alone.
            return kind(values).filter(|kind| *kind == SqlType::Varchar && **values != DataType::Null);
        }
        DataType::Date32 | DataType::Date64 => SqlType::Date,
        // With a time zone they are moments in UTC as well.
        DataType::Timestamp(..) => SqlType::Timestamp,
        _ => return None,
    })
}

/// The rows of a batch, with the columns in these places.
pub(crate) fn envelope(batch: &RecordBatch, places: &[usize]) -> Result<Envelope, BoxError> {
    u32::try_from(batch.num_rows()).map_err(|_| "a batch has more than four billion rows")?;
    let column = |&place: &usize| {
        let name = || batch.schema_ref().field(place).name().clone();
        column(batch.column(place)).map_err(|error| BoxError::from(format!("column {}: {error}", name())))
    };
    let columns = places.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    Ok(Envelope::of_rows(columns, batch.num_rows()))
}

/// The rows of a batch with all columns; those that can't be read are null.
pub(crate) fn whole(batch: &RecordBatch, columns: &[TableColumn]) -> Result<Envelope, BoxError> {
    u32::try_from(batch.num_rows()).map_err(|_| "a batch has more than four billion rows")?;
    let read = |(array, of): (&ArrayRef, &TableColumn)| match of.unreadable {
        Some(_) => Ok(std::iter::repeat_n("", array.len()).collect::<Column>().with_nulls(0..array.len())),
        None => column(array).map_err(|error| BoxError::from(format!("column {}: {error}", of.name))),
    };
    let columns = batch.columns().iter().zip(columns).map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(Envelope::of_rows(columns, batch.num_rows()))
}

fn column(array: &dyn Array) -> Result<Column, BoxError> {
    fn wider<T: ArrowPrimitiveType>(array: &dyn Array) -> Result<Column, BoxError>
    where
        T::Native: Into<i64>,
    {
        let array = array.as_primitive::<T>();
        let values: Vec<i64> = array.values().iter().map(|&value| value.into()).collect();
        Ok(with_nulls(values.into(), array))
    }
    fn scaled<T: ArrowPrimitiveType<Native = i64>>(
        array: &dyn Array,
        scale: impl Fn(i64) -> Option<i64>,
    ) -> Result<Column, BoxError> {
        let array = array.as_primitive::<T>();
        let value = |row: usize| match array.is_null(row) {
            true => Ok(0),
            false => {
                scale(array.value(row)).ok_or_else(|| format!("{} is beyond the timestamps of SQL", array.value(row)))
            }
        };
        let values = (0..array.len()).map(value).collect::<Result<Vec<i64>, _>>()?;
        Ok(with_nulls(Column::from(values).of_type(moments()), array))
    }
    match array.data_type() {
        DataType::Int8 => wider::<Int8Type>(array),
        DataType::Int16 => wider::<Int16Type>(array),
        DataType::Int32 => wider::<Int32Type>(array),
        DataType::UInt8 => wider::<UInt8Type>(array),
        DataType::UInt16 => wider::<UInt16Type>(array),
        DataType::UInt32 => wider::<UInt32Type>(array),
        DataType::UInt64 => {
            let array = array.as_primitive::<UInt64Type>();
            let value = |row: usize| match array.is_null(row) {
                true => Ok(0),
                false => i64::try_from(array.value(row)).map_err(|_| format!("{} is beyond bigint", array.value(row))),
            };
            let values = (0..array.len()).map(value).collect::<Result<Vec<i64>, _>>()?;
            Ok(with_nulls(values.into(), array))
        }
        DataType::Float32 => {
            let array = array.as_primitive::<Float32Type>();
            let values: Vec<f64> = array.values().iter().map(|&value| f64::from(value)).collect();
            Ok(with_nulls(values.into(), array))
        }
        // With a time zone it is the same moment.
        DataType::Timestamp(TimeUnit::Microsecond, _) => Ok(Column::from_arrow(array)?.of_type(moments())),
        DataType::Timestamp(TimeUnit::Second, _) => {
            scaled::<TimestampSecondType>(array, |at| at.checked_mul(1_000_000))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            scaled::<TimestampMillisecondType>(array, |at| at.checked_mul(1000))
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            scaled::<TimestampNanosecondType>(array, |at| Some(at.div_euclid(1000)))
        }
        DataType::Date64 => {
            let array = array.as_primitive::<Date64Type>();
            let values: Vec<i32> = array.values().iter().map(|ms| ms.div_euclid(86_400_000) as i32).collect();
            Ok(with_nulls(Column::from(values).of_type(Type::Date), array))
        }
        DataType::Null => Ok(std::iter::repeat_n("", array.len()).collect::<Column>().with_nulls(0..array.len())),
        _ => Ok(Column::from_arrow(array)?),
    }
}

/// The type of timestamps in SQL.
fn moments() -> Type {
    SqlType::Timestamp.flow_type()
}

fn with_nulls(column: Column, array: &dyn Array) -> Column {
    match array.null_count() {
        0 => column,
        _ => column.with_nulls((0..array.len()).filter(|&row| array.is_null(row))),
    }
}

/// Cuts a batch into pieces of a bounded number of rows.
pub(crate) struct Pieces {
    rows: Option<Envelope>,
    next: usize,
}

impl Pieces {
    pub(crate) fn none() -> Pieces {
        Pieces { rows: None, next: 0 }
    }

    pub(crate) fn of(rows: Envelope) -> Pieces {
        Pieces { rows: Some(rows), next: 0 }
    }

    pub(crate) fn next(&mut self, most_rows: usize) -> Option<Envelope> {
        let rows = self.rows.as_ref()?;
        let from = self.next;
        self.next = rows.rows().min(from.saturating_add(most_rows.max(1)));
        if self.next == from {
            self.rows = None;
            return None;
        }
        Some(rows.slice(from..self.next))
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.rows.as_ref().map_or(0, Envelope::held_bytes)
    }
}
