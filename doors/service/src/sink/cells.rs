//! The cells of an answer's rows as terms, for any language: ids of SPARQL, or values, as literals of XML Schema's
//! types.

use std::fmt::Write as _;
use vicus::{Column, Envelope, Type};
use vicus_language::{ValueColumns, ValueType};
use vicus_rdf::{Id, TermView};
use vicus_sparql::QueryRun;

/// The kind of an answer's columns. A module's run converts into it.
#[derive(Debug)]
pub enum CellReader {
    /// Ids of terms.
    Terms(QueryRun),
    /// Plain values.
    Values(ValueColumns),
}

impl From<QueryRun> for CellReader {
    fn from(run: QueryRun) -> CellReader {
        CellReader::Terms(run)
    }
}

impl From<ValueColumns> for CellReader {
    fn from(values: ValueColumns) -> CellReader {
        CellReader::Values(values)
    }
}

/// Cells of an envelope.
pub(super) trait Cells {
    /// Calls `look` with a cell, or with none if it is unbound or null. It may be called several times.
    fn view<R>(&self, row: usize, column: usize, look: impl FnOnce(Option<TermView<'_>>) -> R) -> R;
}

/// Ids of terms.
pub(super) struct TermCells<'a> {
    run: &'a QueryRun,
    columns: Vec<&'a [u64]>,
}

impl<'a> TermCells<'a> {
    pub(super) fn new(run: &'a QueryRun, envelope: &'a Envelope) -> TermCells<'a> {
        TermCells { run, columns: envelope.columns().iter().map(|column| column.u64s()).collect() }
    }
}

impl Cells for TermCells<'_> {
    #[inline]
    fn view<R>(&self, row: usize, column: usize, look: impl FnOnce(Option<TermView<'_>>) -> R) -> R {
        let id = Id::from_bits(self.columns[column][row]);
        if id.is_unbound() { look(None) } else { self.run.view(id, |view| look(Some(view))) }
    }
}

/// Values.
pub(super) struct ValueCells<'a> {
    types: &'a [ValueType],
    envelope: &'a Envelope,
}

impl<'a> ValueCells<'a> {
    pub(super) fn new(ValueColumns(types): &'a ValueColumns, envelope: &'a Envelope) -> ValueCells<'a> {
        ValueCells { types, envelope }
    }
}

/// The datatypes of values without a view of their own.
const DOUBLE: &str = "http://www.w3.org/2001/XMLSchema#double";
const INTEGER: &str = "http://www.w3.org/2001/XMLSchema#integer";
const DECIMAL: &str = "http://www.w3.org/2001/XMLSchema#decimal";
const HEX_BINARY: &str = "http://www.w3.org/2001/XMLSchema#hexBinary";
const TIME: &str = "http://www.w3.org/2001/XMLSchema#time";
const JSON: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#JSON";
const DATE: &str = "http://www.w3.org/2001/XMLSchema#date";
const DATE_TIME: &str = "http://www.w3.org/2001/XMLSchema#dateTime";

impl Cells for ValueCells<'_> {
    fn view<R>(&self, row: usize, column: usize, look: impl FnOnce(Option<TermView<'_>>) -> R) -> R {
        let cells = self.envelope.column(column);
        if cells.is_null(row) {
            return look(None);
        }
        let mut text = String::new();
        match &self.types[column] {
            ValueType::Boolean => look(Some(TermView::Boolean(cells.bools()[row]))),
            ValueType::Integer => look(Some(TermView::Integer(cells.i64s()[row]))),
            ValueType::Text => look(Some(TermView::String(cells.text_at(row)))),
            ValueType::Double => {
                double(cells.f64s()[row], &mut text);
                look(Some(TermView::Typed { value: &text, datatype: DOUBLE }))
            }
            ValueType::Date => {
                let _ = write!(text, "{}", vicus_sql::date_text(cells.i32s()[row]));
                look(Some(TermView::Typed { value: &text, datatype: DATE }))
            }
            ValueType::Other(kind) => other(kind, cells, row, look),
            ValueType::Timestamp => {
                let _ = write!(text, "{}", vicus_sql::timestamp_text(cells.i64s()[row]).replace(' ', "T"));
                look(Some(TermView::Typed { value: &text, datatype: DATE_TIME }))
            }
        }
    }
}

/// A value of a type that has a literal's text only: lists and structs are texts of JSON.
fn other<R>(kind: &Type, cells: &Column, row: usize, look: impl FnOnce(Option<TermView<'_>>) -> R) -> R {
    let mut text = String::new();
    let written = vicus_sql::write_json(&mut text, cells, row);
    if let Err(error) = written {
        // A time beyond all texts: the column has no other form.
        text = error.to_string();
    }
    let plain = text.trim_matches('"');
    let datatype = match kind {
        Type::I8 | Type::I16 | Type::I32 | Type::U8 | Type::U16 | Type::U32 | Type::U64 => INTEGER,
        Type::F32 => {
            let mut text = String::new();
            double(cells.f32s()[row].into(), &mut text);
            return look(Some(TermView::Typed { value: &text, datatype: DOUBLE }));
        }
        Type::Decimal { .. } => DECIMAL,
        Type::Binary | Type::FixedBinary(_) => HEX_BINARY,
        Type::Time(_) => TIME,
        Type::Timestamp(..) => {
            let moment = plain.replace(' ', "T").replace("+00", "Z");
            return look(Some(TermView::Typed { value: &moment, datatype: DATE_TIME }));
        }
        Type::List(_) | Type::Struct(_) => {
            return look(Some(TermView::Typed { value: &text, datatype: JSON }));
        }
        _ => return look(Some(TermView::String(plain))),
    };
    look(Some(TermView::Typed { value: plain, datatype }))
}

/// A double in XML Schema's form: the shortest text that is read as the same number.
fn double(value: f64, text: &mut String) {
    let _ = match value {
        value if value.is_nan() => write!(text, "NaN"),
        f64::INFINITY => write!(text, "INF"),
        f64::NEG_INFINITY => write!(text, "-INF"),
        value => write!(text, "{value:?}"),
    };
}
