//! Terms as columns of Arrow, in the forms that data frames want. The schema depends on the form and on the query,
//! never on the data: a stream begins with it.
//!
//! ```text
//!  form             a column of terms
//!  NTriples         dictionary of texts: `<http://e/a>`, `"a"@en`, `_:b`
//!  Lexical          texts: `http://e/a`, `a`, `_:b`
//!  Full             value (as above), kind, datatype, language
//!  a type           numbers, truth values, days, moments; a value that is none is an error with its row
//! ```

use super::arrow;
use super::cells::CellReader;
use super::texts::{self, RowBytes};
use arrow_array::builder::{BooleanBuilder, Date32Builder, Float64Builder, Int64Builder, TimestampMicrosecondBuilder};
use arrow_array::{Array as _, ArrayRef, RecordBatch, RecordBatchOptions, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use std::fmt::{self, Write as _};
use std::sync::Arc;
use vicus::{BoxError, Envelope};
use vicus_language::{Answer, ValueType};
use vicus_rdf::{Id, TermView};
use vicus_sparql::QueryRun;

/// How a column of terms becomes one of Arrow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum TermForm {
    /// A dictionary of texts in N-Triples, with a note in the field's metadata.
    #[default]
    NTriples,
    /// A text: the IRI, the literal's text, or `_:` and the blank node's label.
    Lexical,
    /// A structure: the text as with [`TermForm::Lexical`], `kind` (`iri`, `literal`, `blank`, `triple`), and a
    /// literal's `datatype` and `language`.
    Full,
}

/// How an answer's rows become Arrow's. Answers of values, such as SQL's, have columns of their own types already.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ArrowForm {
    /// The form of columns of terms.
    pub terms: TermForm,
    /// The types of columns, by their names, whose terms become values.
    pub types: Vec<(String, ValueType)>,
}

/// A value that has not its column's type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongValue {
    /// The row, from 0.
    pub row: u64,
    /// The column's name.
    pub column: String,
    /// The term.
    pub term: String,
    /// The type.
    pub wanted: &'static str,
}

impl fmt::Display for WrongValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WrongValue { row, column, term, wanted } = self;
        write!(f, "row {row}, column {column}: {term} is no {wanted}")
    }
}

impl std::error::Error for WrongValue {}

impl ArrowForm {
    /// The type asked of a column of terms.
    fn type_of(&self, name: &str) -> Option<ValueType> {
        self.types.iter().find(|(column, _)| column == name).map(|(_, kind)| kind.clone())
    }

    /// A column with a type that an answer does not have.
    pub fn unknown(&self, form: &Answer) -> Option<&str> {
        let columns: Vec<&str> = names(form);
        self.types.iter().map(|(name, _)| name.as_str()).find(|name| !columns.contains(name))
    }
}

fn names(form: &Answer) -> Vec<&str> {
    match form {
        Answer::Rows { columns } => columns.iter().map(String::as_str).collect(),
        Answer::Truth => Vec::new(),
        Answer::Triples => vec!["subject", "predicate", "object"],
    }
}

const KINDS: [&str; 4] = ["value", "kind", "datatype", "language"];

fn parts() -> Fields {
    KINDS.iter().map(|name| Field::new(*name, DataType::Utf8View, true)).collect()
}

fn data_type(kind: ValueType) -> DataType {
    match kind {
        ValueType::Boolean => DataType::Boolean,
        ValueType::Integer => DataType::Int64,
        ValueType::Double => DataType::Float64,
        ValueType::Text => DataType::Utf8View,
        ValueType::Date => DataType::Date32,
        ValueType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        ValueType::Other(kind) => kind.to_arrow(),
    }
}

/// The columns of an answer in a form.
pub(super) fn schema(answer: &Answer, reader: &CellReader, form: &ArrowForm) -> Schema {
    if matches!(reader, CellReader::Values(_)) || form.terms == TermForm::NTriples && form.types.is_empty() {
        return arrow::schema(answer, reader);
    }
    let field = |name: &str| match (form.type_of(name), form.terms) {
        (Some(kind), _) => Field::new(name, data_type(kind), true),
        (None, TermForm::Lexical) => Field::new(name, DataType::Utf8View, true),
        (None, TermForm::Full) => Field::new(name, DataType::Struct(parts()), true),
        (None, TermForm::NTriples) => arrow::terms(name),
    };
    Schema::new(names(answer).into_iter().map(field).collect::<Vec<_>>())
}

/// The columns that an answer becomes, batch by batch.
#[derive(Debug)]
pub(super) struct ArrowColumns {
    pub(super) form: ArrowForm,
    pub(super) schema: SchemaRef,
    /// By column.
    bytes: Vec<RowBytes>,
}

impl ArrowColumns {
    pub(super) fn new(form: &ArrowForm, schema: Schema) -> ArrowColumns {
        let bytes = schema.fields().iter().map(|_| RowBytes::default()).collect();
        ArrowColumns { form: form.clone(), schema: Arc::new(schema), bytes }
    }
}

/// Rows in a form. The first one is the answer's row `from`.
pub(super) fn record_batch(
    columns: &ArrowColumns,
    reader: &CellReader,
    envelope: &Envelope,
    from: u64,
) -> Result<RecordBatch, BoxError> {
    let ArrowColumns { form, schema, bytes } = columns;
    let CellReader::Terms(run) = reader else { return arrow::record_batch(schema, reader, envelope) };
    let column = |((field, bytes), column): ((&Arc<Field>, &RowBytes), &vicus::Column)| -> Result<ArrayRef, BoxError> {
        let ids = column.u64s();
        match (form.type_of(field.name()), form.terms) {
            (Some(kind), _) => Ok(values(run, ids, kind, bytes).map_err(|(row, wanted)| WrongValue {
                row: from + row as u64,
                column: field.name().clone(),
                term: run.view(Id::from_bits(ids[row]), |view| view.to_string()),
                wanted,
            })?),
            (None, TermForm::Lexical) => Ok(texts::lexical(run, ids, bytes, lexical)),
            (None, TermForm::Full) => Ok(full(run, ids, bytes)?),
            (None, TermForm::NTriples) => arrow::dictionary(run, ids),
        }
    };
    let columns = schema.fields().iter().zip(bytes).zip(envelope.columns()).map(column);
    let columns = columns.collect::<Result<Vec<ArrayRef>, BoxError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(envelope.rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// A term's text, without what tells its kind.
fn lexical(view: TermView<'_>, out: &mut String) -> bool {
    let _ = match view {
        TermView::Iri(text) | TermView::String(text) => out.write_str(text),
        TermView::LangString { value, .. } | TermView::DirString { value, .. } | TermView::Typed { value, .. } => {
            out.write_str(value)
        }
        TermView::Boolean(value) => write!(out, "{value}"),
        TermView::Integer(value) => write!(out, "{value}"),
        TermView::Blank(blank) => write!(out, "_:{blank}"),
        view @ TermView::Triple(_) => write!(out, "{view}"),
    };
    true
}

fn kind(view: TermView<'_>, out: &mut String) -> bool {
    out.push_str(match view {
        TermView::Iri(_) => "iri",
        TermView::Blank(_) => "blank",
        TermView::Triple(_) => "triple",
        _ => "literal",
    });
    true
}

const XSD: &str = "http://www.w3.org/2001/XMLSchema#";

fn datatype(view: TermView<'_>, out: &mut String) -> bool {
    let _ = match view {
        TermView::String(_) => write!(out, "{XSD}string"),
        TermView::Boolean(_) => write!(out, "{XSD}boolean"),
        TermView::Integer(_) => write!(out, "{XSD}integer"),
        TermView::Typed { datatype, .. } => out.write_str(datatype),
        TermView::LangString { .. } => out.write_str("http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"),
        TermView::DirString { .. } => out.write_str("http://www.w3.org/1999/02/22-rdf-syntax-ns#dirLangString"),
        TermView::Iri(_) | TermView::Blank(_) | TermView::Triple(_) => return false,
    };
    true
}

fn language(view: TermView<'_>, out: &mut String) -> bool {
    match view {
        TermView::LangString { language, .. } => out.push_str(language),
        TermView::DirString { language, direction, .. } => {
            let _ = write!(out, "{language}--{direction}");
        }
        _ => return false,
    }
    true
}

fn full(run: &QueryRun, ids: &[u64], bytes: &RowBytes) -> Result<ArrayRef, BoxError> {
    let mut columns = vec![texts::lexical(run, ids, bytes, lexical)];
    columns.extend([kind, datatype, language].map(|write| texts::written(run, ids, write)));
    let nulls = columns[0].nulls().cloned();
    Ok(Arc::new(StructArray::try_new(parts(), columns, nulls)?))
}

/// A cell of a column of values.
enum Cell<'a> {
    Unbound,
    /// Its id has the term.
    Inlined(Id),
    Text(&'a str),
}

/// A column of values of a type. An error has the row, and the name of the type.
fn values(run: &QueryRun, ids: &[u64], kind: ValueType, bytes: &RowBytes) -> Result<ArrayRef, (usize, &'static str)> {
    let mut text = String::new();
    // `take` says whether the cell has a value; nothing of an inlined term whose text is to be read.
    let mut each = |take: &mut dyn FnMut(Cell<'_>) -> Option<bool>, wanted: &'static str| {
        for (row, &bits) in ids.iter().enumerate() {
            let id = Id::from_bits(bits);
            let at_once = match (id.is_unbound(), id.is_inlined()) {
                (true, _) => take(Cell::Unbound),
                (false, true) => take(Cell::Inlined(id)),
                (false, false) => None,
            };
            let is_taken = if let Some(is_taken) = at_once {
                is_taken
            } else {
                text.clear();
                // An IRI or a blank node has no value, whatever it looks like.
                let is_literal = run.view(id, |view| {
                    let is_literal = !matches!(view, TermView::Iri(_) | TermView::Blank(_) | TermView::Triple(_));
                    lexical(view, &mut text) && (is_literal || kind == ValueType::Text)
                });
                is_literal && take(Cell::Text(&text)) == Some(true)
            };
            if !is_taken {
                return Err((row, wanted));
            }
        }
        Ok(())
    };
    /// Appends the value of a text, if it has one.
    macro_rules! column {
        ($builder:ident, $wanted:literal, $inlined:expr, $parse:expr) => {{
            let mut made = $builder::with_capacity(ids.len());
            let mut take = |cell: Cell<'_>| {
                let value = match cell {
                    Cell::Unbound => None,
                    Cell::Inlined(id) => Some(Some($inlined(id)?)),
                    Cell::Text(text) => Some($parse(text)),
                };
                let is_value = !matches!(value, Some(None));
                made.append_option(value.flatten());
                Some(is_value)
            };
            each(&mut take, $wanted)?;
            Arc::new(made.finish()) as ArrayRef
        }};
    }
    Ok(match kind {
        ValueType::Boolean => column!(BooleanBuilder, "boolean", Id::as_boolean, |text: &str| match text.trim() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        }),
        ValueType::Integer => {
            column!(Int64Builder, "integer of 64 bits", Id::as_integer, |text: &str| text.trim().parse::<i64>().ok())
        }
        ValueType::Double => {
            column!(Float64Builder, "number", |id: Id| id.as_integer().map(|whole| whole as f64), number)
        }
        ValueType::Text => return Ok(texts::lexical(run, ids, bytes, lexical)),
        ValueType::Date => column!(Date32Builder, "date", |_| None, vicus_sql::date_of),
        ValueType::Timestamp => column!(TimestampMicrosecondBuilder, "time", |_| None, moment),
        ValueType::Other(_) => return Err((0, "value of a type that terms can be read as")),
    })
}

/// A number in a lexical form of XML Schema.
fn number(text: &str) -> Option<f64> {
    match text.trim() {
        "INF" | "+INF" => Some(f64::INFINITY),
        "-INF" => Some(f64::NEG_INFINITY),
        "NaN" => Some(f64::NAN),
        // Rust's parser takes words that are none of XML Schema.
        other if other.bytes().any(|byte| byte.is_ascii_alphabetic() && !matches!(byte, b'e' | b'E')) => None,
        other => other.parse().ok(),
    }
}

/// The microseconds since 1970-01-01 of a time, in UTC if it has an offset.
fn moment(text: &str) -> Option<i64> {
    let text = text.trim();
    let zone = text.len().checked_sub("+00:00".len()).filter(|at| text.is_char_boundary(*at));
    let Some((time, zone)) = zone.map(|at| text.split_at(at)).filter(|(_, zone)| zone.starts_with(['+', '-'])) else {
        return vicus_sql::timestamp_of(text);
    };
    let Some((hours, minutes)) = zone[1..].split_once(':').filter(|(hours, _)| hours.len() == 2) else {
        return vicus_sql::timestamp_of(text);
    };
    let is_digits = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let (hours, minutes): (i64, i64) = match is_digits(hours) && is_digits(minutes) {
        true => (hours.parse().ok()?, minutes.parse().ok()?),
        false => return vicus_sql::timestamp_of(text),
    };
    // A day alone has no offset here, nor has a time with another one behind it.
    if !time.contains(['T', ' ']) || time.ends_with('Z') || minutes > 59 || hours * 60 + minutes > 14 * 60 {
        return None;
    }
    let east = (hours * 60 + minutes) * if zone.starts_with('-') { -1 } else { 1 };
    vicus_sql::timestamp_of(time)?.checked_sub(east * 60_000_000)
}

#[cfg(test)]
mod tests {
    use super::moment;

    #[test]
    fn times_with_offsets_are_moments_in_utc() {
        // By `date --utc --date=... +%s`.
        let cases = [
            ("2026-01-02T03:04:05", Some(1_767_323_045_000_000)),
            ("2026-01-02T03:04:05Z", Some(1_767_323_045_000_000)),
            ("2026-01-02T03:04:05.25+02:00", Some(1_767_315_845_250_000)),
            ("2026-01-02T03:04:05-05:30", Some(1_767_342_845_000_000)),
            ("2026-01-02", Some(1_767_312_000_000_000)),
            ("2026-01-02T03:04:05+15:00", None),
            ("2026-01-02T03:04:05+1:00", None),
            ("2026-01-02T03:04:05Z+01:00", None),
            ("2026-01-02+01:00", None),
            ("noon", None),
            ("é+01:00", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(moment(text), wanted, "{text}");
        }
    }
}
