//! Arrow's types and columns as those of SQL. Nothing is copied if both lay values out alike: 64-bit integers, doubles
//! and decimals, dates in days, times in microseconds, texts with 32-bit offsets, views and dictionaries of texts, and
//! lists and structs of these.

use arrow_array::cast::AsArray;
use arrow_array::types::Date64Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema};
use vicus_flow::{BoxError, Column, Envelope, Field, Type};
use vicus_sql::{SqlType, TableColumn, in_sql};

/// The columns of a table with this schema. Columns of other types can't be read, and the rest can.
pub(crate) fn columns(schema: &Schema) -> Vec<TableColumn> {
    let column = |field: &std::sync::Arc<arrow_schema::Field>| match kind_of(field.data_type()) {
        Some(kind) => TableColumn::new(field.name(), kind),
        None => {
            let why = format!("it is of the type {}, which SQL has not here", field.data_type());
            TableColumn::unreadable(field.name(), why)
        }
    };
    schema.fields().iter().map(column).collect()
}

/// The columns with the types that the file has, where envelopes have these; others are SQL's. `None` if a column can't
/// be read at all.
pub(crate) fn kept(schema: &Schema) -> Option<vicus_flow::Schema> {
    let column = |field: &std::sync::Arc<arrow_schema::Field>| {
        let kind = match field.data_type() {
            DataType::Dictionary(_, values) if **values == DataType::Null => None,
            DataType::Null | DataType::Date64 => None,
            other => Type::from_arrow(other).ok(),
        };
        let kind = kind.or_else(|| kind_of(field.data_type()).map(|kind| kind.flow_type()))?;
        Some(Field::new(field.name(), kind).or_null())
    };
    schema.fields().iter().map(column).collect()
}

fn kind_of(data_type: &DataType) -> Option<SqlType> {
    match data_type {
        DataType::Null => Some(SqlType::Varchar),
        DataType::Date64 => Some(SqlType::Date),
        // A dictionary's null is of no type.
        DataType::Dictionary(_, values) if **values == DataType::Null => None,
        other => SqlType::of(&Type::from_arrow(other).ok()?),
    }
}

/// The types that a scan gives columns in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Types {
    Sql,
    /// The file's.
    Kept,
}

/// The rows of a batch, with the columns in these places.
pub(crate) fn envelope(batch: &RecordBatch, places: &[usize], types: Types) -> Result<Envelope, BoxError> {
    u32::try_from(batch.num_rows()).map_err(|_| "a batch has more than four billion rows")?;
    let column = |&place: &usize| {
        let name = || batch.schema_ref().field(place).name().clone();
        column(batch.column(place), types).map_err(|error| BoxError::from(format!("column {}: {error}", name())))
    };
    let columns = places.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    Ok(Envelope::of_rows(columns, batch.num_rows()))
}

/// The rows of a batch with all columns; those that can't be read are null.
pub(crate) fn whole(batch: &RecordBatch, columns: &[TableColumn]) -> Result<Envelope, BoxError> {
    u32::try_from(batch.num_rows()).map_err(|_| "a batch has more than four billion rows")?;
    let read = |(array, of): (&ArrayRef, &TableColumn)| match of.unreadable {
        Some(_) => Ok(std::iter::repeat_n("", array.len()).collect::<Column>().with_nulls(0..array.len())),
        None => column(array, Types::Sql).map_err(|error| BoxError::from(format!("column {}: {error}", of.name))),
    };
    let columns = batch.columns().iter().zip(columns).map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(Envelope::of_rows(columns, batch.num_rows()))
}

fn column(array: &dyn Array, types: Types) -> Result<Column, BoxError> {
    match array.data_type() {
        DataType::Date64 => {
            let array = array.as_primitive::<Date64Type>();
            let values: Vec<i32> = array.values().iter().map(|ms| ms.div_euclid(86_400_000) as i32).collect();
            let column = Column::from(values).of_type(Type::Date);
            Ok(match array.null_count() {
                0 => column,
                _ => column.with_nulls((0..array.len()).filter(|&row| array.is_null(row))),
            })
        }
        DataType::Null => Ok(std::iter::repeat_n("", array.len()).collect::<Column>().with_nulls(0..array.len())),
        _ if types == Types::Kept => Ok(Column::from_arrow(array)?),
        _ => in_sql(&Column::from_arrow(array)?),
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
