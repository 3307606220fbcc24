//! Rows of envelopes as CSV, lines of JSON, Arrow's format for files, or Parquet.

use crate::ParquetWriter;
use arrow_csv::WriterBuilder;
use arrow_ipc::writer::FileWriter;
use std::io::{self, Write};
use std::sync::Arc;
use vicus_flow::{BoxError, Column, Envelope, Field, Operator, Schema, Turn, Type};
use vicus_sql::{json_text, write_json};

/// The form in which rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// Values with commas between them behind a line of names. A null is empty.
    Csv,
    /// An object on each line.
    JsonLines,
    /// A file of Arrow's format for exchange.
    Arrow,
    /// A file of Parquet.
    Parquet,
}

impl RowFormat {
    /// Checks that the form has the types of all columns.
    ///
    /// # Errors
    /// It lacks the type of a column; the error names it.
    pub fn check(self, schema: &Schema) -> Result<(), String> {
        let is_written = |kind: &Type| match self {
            RowFormat::Parquet => !has(kind, &is_not_in_parquet),
            RowFormat::Arrow | RowFormat::Csv | RowFormat::JsonLines => true,
        };
        match schema.columns().iter().find(|field| !is_written(&field.kind)) {
            Some(field) => Err(format!(
                "column {} is of the type {}, which Parquet has not; compute another one by `map`",
                field.name, field.kind,
            )),
            None => Ok(()),
        }
    }
}

/// Whether a type, or one within it, is such.
fn has(kind: &Type, such: &impl Fn(&Type) -> bool) -> bool {
    such(kind)
        || match kind {
            Type::List(field) => has(&field.kind, such),
            Type::Struct(fields) => fields.columns().iter().any(|field| has(&field.kind, such)),
            _ => false,
        }
}

/// Spans, decimals with a scale below 0, and structs without parts.
fn is_not_in_parquet(kind: &Type) -> bool {
    match kind {
        Type::Duration(_) => true,
        Type::Decimal { scale, .. } => *scale < 0,
        Type::Struct(fields) => fields.columns().is_empty(),
        _ => false,
    }
}

/// Whether a value is written to CSV as it is to JSON: lists, structs, strings of bytes, and spans.
fn is_json_in_csv(kind: &Type) -> bool {
    kind.is_nested() || matches!(kind, Type::Binary | Type::FixedBinary(_) | Type::Duration(_))
}

/// Rows with texts in place of the columns that CSV has not.
fn in_csv(rows: &Envelope, schema: &Schema) -> Result<(Envelope, Schema), BoxError> {
    let mut columns = Vec::with_capacity(schema.columns().len());
    for (field, column) in schema.columns().iter().zip(rows.columns()) {
        if !is_json_in_csv(&field.kind) {
            let (mut field, mut column) = (field.clone(), column.clone());
            if let Type::Timestamp(unit, Some(_)) = field.kind {
                // Moments are written in UTC, whatever zone they are shown in elsewhere. The writer knows no zone by
                // its name.
                field.kind = Type::Timestamp(unit, Some("+00:00".into()));
                column = column.of_type(field.kind.clone());
            }
            columns.push((field, column));
            continue;
        }
        let mut texts = Vec::with_capacity(rows.rows());
        for row in 0..rows.rows() {
            let mut text = String::new();
            if !column.is_null(row) {
                write_json(&mut text, column, row)?;
            }
            // Single values stand without their quotation marks.
            texts.push(if field.kind.is_nested() { text } else { text.trim_matches('"').to_owned() });
        }
        let nulls: Vec<usize> = (0..rows.rows()).filter(|&row| column.is_null(row)).collect();
        columns
            .push((Field::new(&field.name, Type::Text).or_null(), texts.iter().collect::<Column>().with_nulls(nulls)));
    }
    let (fields, columns): (Vec<Field>, Vec<Column>) = columns.into_iter().unzip();
    Ok((Envelope::of_rows(columns, rows.rows()), fields.into_iter().collect()))
}

/// An operator for the end of a network: it writes the rows of its input. `open` gives the target when the request
/// begins; an error of it, or of writing, fails the request. Panics if the form lacks a type of the columns
/// ([`RowFormat::check`]).
///
/// ```
/// use std::io::Write;
/// use std::sync::{Arc, Mutex};
/// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library, sequential};
/// use vicus_tables::{RowFormat, writer};
///
/// #[derive(Clone, Default)]
/// struct Text(Arc<Mutex<Vec<u8>>>);
/// impl Write for Text {
///     fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
///         self.0.lock().unwrap().write(bytes)
///     }
///     fn flush(&mut self) -> std::io::Result<()> {
///         Ok(())
///     }
/// }
///
/// let schema = Schema::new([("n", Type::I64), ("name", Type::Text)]);
/// let rows = Envelope::new([vec![1i64, 2].into(), ["a", "b, c"].into_iter().collect()]);
/// let mut net = ModelBuilder::new("write");
/// let source = net.source(library::source("rows", &schema, move || [rows.clone()]));
/// let end = net.add(library::sink("end", &schema, |_| Ok(())));
/// net.connect(source.output(0), end.input(0));
/// net.end(end.output(0));
/// let text = Text::default();
/// let target = text.clone();
/// let writer = writer(RowFormat::Csv, &schema, move || Ok(Box::new(target.clone())));
/// sequential::run(&net.build()?, vec![(end, writer)], |_| 0)?;
/// assert_eq!(*text.0.lock().unwrap(), b"n,name\n1,a\n2,\"b, c\"\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn writer(
    format: RowFormat,
    schema: &Schema,
    open: impl FnOnce() -> io::Result<Box<dyn Write + Send>> + Send + 'static,
) -> Box<dyn Operator> {
    format.check(schema).unwrap_or_else(|error| panic!("{error}"));
    Box::new(Writer { format, schema: schema.clone(), open: Some(Box::new(open)), target: None })
}

type Open = Box<dyn FnOnce() -> io::Result<Box<dyn Write + Send>> + Send>;

struct Writer {
    format: RowFormat,
    schema: Schema,
    open: Option<Open>,
    target: Option<Target>,
}

enum Target {
    Csv(Box<dyn Write + Send>),
    Json(Box<dyn Write + Send>),
    Arrow(Box<FileWriter<Box<dyn Write + Send>>>),
    Parquet(Box<ParquetWriter<Box<dyn Write + Send>>>),
}

impl Writer {
    /// The target, opened at the first call.
    fn target(&mut self) -> Result<&mut Target, BoxError> {
        if let Some(open) = self.open.take() {
            let mut out = open()?;
            self.target = Some(match self.format {
                RowFormat::Csv => {
                    // The line of names stands before no rows as well.
                    let names: Vec<String> = self.schema.columns().iter().map(|field| csv_text(&field.name)).collect();
                    writeln!(out, "{}", names.join(","))?;
                    Target::Csv(out)
                }
                RowFormat::JsonLines => Target::Json(out),
                RowFormat::Arrow => Target::Arrow(Box::new(FileWriter::try_new(out, &self.schema.to_arrow())?)),
                RowFormat::Parquet => {
                    Target::Parquet(Box::new(ParquetWriter::new(out, Arc::new(self.schema.to_arrow()))?))
                }
            });
        }
        Ok(self.target.as_mut().ok_or("the target was closed")?)
    }

    /// Writes rows. A reader of text sees them at once, because the next ones of a stream may come much later.
    fn write(&mut self, rows: &Envelope) -> Result<(), BoxError> {
        let schema = self.schema.clone();
        match self.target()? {
            Target::Csv(out) => {
                // In memory first: an error of the target stays one, where the writer would make it a text.
                let (rows, schema) = in_csv(rows, &schema)?;
                let mut lines = WriterBuilder::new().with_header(false).build(Vec::new());
                lines.write(&rows.to_arrow(&schema))?;
                out.write_all(&lines.into_inner())?;
                out.flush()?;
            }
            Target::Arrow(arrow) => arrow.write(&rows.to_arrow(&schema))?,
            Target::Parquet(parquet) => parquet.write(&rows.to_arrow(&schema))?,
            Target::Json(out) => {
                let mut line = String::new();
                for row in 0..rows.rows() {
                    line.clear();
                    object(&mut line, &schema, rows.columns(), row)?;
                    line.push('\n');
                    out.write_all(line.as_bytes())?;
                }
                out.flush()?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), BoxError> {
        self.target()?;
        match self.target.take() {
            Some(Target::Csv(mut out) | Target::Json(mut out)) => out.flush()?,
            Some(Target::Arrow(mut arrow)) => {
                arrow.finish()?;
                arrow.get_mut().flush()?;
            }
            Some(Target::Parquet(parquet)) => parquet.finish()?.flush()?,
            None => {}
        }
        Ok(())
    }
}

impl Operator for Writer {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        match turn.take(0) {
            Some(pill) if pill.is_pill() => {
                turn.blocking(|| self.finish())?;
                turn.send_pill(0);
            }
            Some(rows) if rows.mark().is_some() => {}
            Some(rows) => {
                turn.blocking(|| self.write(&rows))?;
                if let Some(Target::Parquet(parquet)) = &self.target {
                    turn.book(parquet.held_bytes())?;
                }
            }
            None => {}
        }
        Ok(())
    }
}

/// A name as a value of CSV.
fn csv_text(name: &str) -> String {
    match name.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", name.replace('"', "\"\"")),
        false => name.to_owned(),
    }
}

/// A row as an object of JSON.
fn object(out: &mut String, schema: &Schema, columns: &[Column], row: usize) -> Result<(), BoxError> {
    out.push('{');
    for (place, (field, column)) in schema.columns().iter().zip(columns).enumerate() {
        out.push_str(if place == 0 { "" } else { "," });
        json_text(out, &field.name);
        out.push(':');
        write_json(out, column, row)?;
    }
    out.push('}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_flow::TimeUnit;

    fn line(schema: &Schema, columns: Vec<Column>) -> Result<String, String> {
        let mut out = String::new();
        object(&mut out, schema, &columns, 0).map_err(|error| error.to_string())?;
        Ok(out)
    }

    #[test]
    fn a_row_is_an_object_of_json() {
        let point = Column::of_parts([("x", Column::from(vec![1.5f64])), ("t", ["\u{1}\"\\\n"].into_iter().collect())]);
        let list = Column::of_lists(vec![0, 2], vec![Some(7i64), None].into());
        let at = Column::from(vec![1_500i64]).of_type(Type::Timestamp(TimeUnit::Milli, None));
        let columns = vec![point, list, at, vec![f64::NAN].into(), vec![u64::MAX].into()];
        let names = ["point", "list", "at", "nan", "most"];
        let schema: Schema =
            names.iter().zip(&columns).map(|(name, column)| Field::new(*name, column.kind())).collect();
        assert_eq!(RowFormat::JsonLines.check(&schema), Ok(()));
        assert_eq!(
            line(&schema, columns).unwrap(),
            "{\"point\":{\"x\":1.5,\"t\":\"\\u0001\\\"\\\\\\n\"},\"list\":[7,null],\"at\":\"1970-01-01 00:00:01.5\",\
             \"nan\":null,\"most\":18446744073709551615}"
        );
    }

    #[test]
    fn types_that_a_form_has_not_are_refused_before_a_run() {
        let spans = Schema::new([("l", Type::list(Type::Duration(TimeUnit::Micro)))]);
        assert!(
            RowFormat::Parquet.check(&spans).unwrap_err().starts_with("column l is of the type List(Duration(us))")
        );
        for form in [RowFormat::Csv, RowFormat::JsonLines, RowFormat::Arrow] {
            assert_eq!(form.check(&spans), Ok(()));
        }
        let far = Column::from(vec![i64::MAX]).of_type(Type::Timestamp(TimeUnit::Second, None));
        let schema = Schema::new([("at", far.kind())]);
        assert!(line(&schema, vec![far]).unwrap_err().contains("beyond microseconds"));
    }
}
