//! Tables in Parquet, CSV, JSON and Arrow files, for SQL.
//!
//! [`open`] takes a file's format from its name: `.parquet` or `.pq`, `.csv` or `.tsv`, `.jsonl` or `.ndjson`,
//! `.arrow`, `.feather`, `.ipc` or `.arrows`. A table keeps its file open: it does not see a later file in its place,
//! and a statement fails if the file itself was changed since.
//!
//! A row group of a Parquet file, and a record batch of an Arrow file, is a part that boxes read by themselves; CSV
//! and JSON files and Arrow streams have one part. Files are read on threads that may wait, and decoded on the others.
//! Row groups with statistics outside of a statement's ranges are left out.

mod arrow;
mod convert;
mod csv;
mod error;
mod file;
mod footer;
mod json;
mod kinds;
mod parquet;
mod parquet_writer;
mod streams;
mod values;
mod writing;

pub use csv::CsvOptions;
pub use error::{TableError, is_reading};
pub use kinds::{add_kinds, add_table};
pub use parquet_writer::ParquetWriter;
pub use streams::add_stream_kinds;
pub use writing::{RowFormat, writer};

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use error::{Guarded, guarded};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use vicus_sql::{MemoryTable, SqlType, Table};

/// Opens a file as a table, by the ending of its name.
///
/// ```
/// use vicus_tables::open;
///
/// let folder = std::env::temp_dir().join(format!("vicus-tables-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let path = folder.join("people.csv");
/// std::fs::write(&path, "name,age\nAda,36\nGrace,85\n")?;
/// let people = open(&path)?;
/// let columns = people.columns().iter().map(|column| format!("{} {}", column.name, column.kind));
/// let columns: Vec<String> = columns.collect();
/// assert_eq!(columns, ["name varchar", "age bigint"]);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The file can't be read, is not of its format, or has a column of a type unknown to SQL here.
pub fn open(path: impl AsRef<Path>) -> Result<Arc<dyn Table>, TableError> {
    open_as(path, BTreeMap::new())
}

/// The variant with types for columns of CSV and of lines of JSON, by their names; the others are inferred.
///
/// # Errors
/// As [`open`]; or there is no such column, or the file's format says the types of columns itself.
pub fn open_as(path: impl AsRef<Path>, types: BTreeMap<String, SqlType>) -> Result<Arc<dyn Table>, TableError> {
    open_until(path, types, &|| false)
}

/// Like [`open_as`], until a function asks to end it. It is asked for each quarter of a megabyte that is read.
///
/// # Errors
/// As [`open_as`]; or it was ended.
pub fn open_until(
    path: impl AsRef<Path>,
    types: BTreeMap<String, SqlType>,
    ends: &dyn Fn() -> bool,
) -> Result<Arc<dyn Table>, TableError> {
    let path = path.as_ref();
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
    let is_told = !types.is_empty();
    match ending.as_str() {
        "csv" => open_csv_until(path, &CsvOptions { types, ..CsvOptions::default() }, ends),
        "tsv" => open_csv_until(path, &CsvOptions { delimiter: b'\t', types, ..CsvOptions::default() }, ends),
        "jsonl" | "ndjson" => open_json_until(path, &types, ends),
        "parquet" | "pq" | "arrow" | "feather" | "ipc" | "arrows" if is_told => {
            let reason =
                "the file says the types of its columns itself; only those of CSV and JSON can be given".to_owned();
            Err(TableError::Types { path: path.to_owned(), reason })
        }
        "parquet" | "pq" => open_parquet(path),
        "arrow" | "feather" | "ipc" | "arrows" => open_arrow(path),
        _ => Err(TableError::UnknownEnding { path: path.to_owned() }),
    }
}

/// Opens a Parquet file.
///
/// # Errors
/// As [`open`].
pub fn open_parquet(path: impl AsRef<Path>) -> Result<Arc<dyn Table>, TableError> {
    let path = path.as_ref();
    let table = guarded(path, "Parquet", || parquet::ParquetTable::open(path))?;
    let (file, path) = (table.file().clone(), path.to_owned());
    Ok(Arc::new(Guarded { table, file, path, format: "Parquet", part: "row group" }))
}

/// Opens a file of values with a delimiter between them, a row a line.
///
/// # Errors
/// As [`open`].
pub fn open_csv(path: impl AsRef<Path>, options: &CsvOptions) -> Result<Arc<dyn Table>, TableError> {
    open_csv_until(path.as_ref(), options, &|| false)
}

fn open_csv_until(path: &Path, options: &CsvOptions, ends: &dyn Fn() -> bool) -> Result<Arc<dyn Table>, TableError> {
    Ok(Arc::new(guarded(path, "CSV", || csv::CsvTable::open(path, options, ends))?))
}

/// Opens a file of lines of JSON, each with an object: a row. The types of columns that are not given are inferred from
/// the first rows, as those of CSV are; texts are never numbers, and lists and objects are texts of JSON unless their
/// types are given.
///
/// # Errors
/// As [`open`].
pub fn open_json(path: impl AsRef<Path>, types: &BTreeMap<String, SqlType>) -> Result<Arc<dyn Table>, TableError> {
    open_json_until(path.as_ref(), types, &|| false)
}

fn open_json_until(
    path: &Path,
    types: &BTreeMap<String, SqlType>,
    ends: &dyn Fn() -> bool,
) -> Result<Arc<dyn Table>, TableError> {
    Ok(Arc::new(guarded(path, json::FORMAT, || json::JsonTable::open(path, types, ends))?))
}

/// Opens a file, or a stream in a file, of Arrow's format for exchange.
///
/// # Errors
/// As [`open`].
pub fn open_arrow(path: impl AsRef<Path>) -> Result<Arc<dyn Table>, TableError> {
    let path = path.as_ref();
    let table = guarded(path, "Arrow", || arrow::ArrowTable::open(path))?;
    let (file, path) = (table.file().clone(), path.to_owned());
    Ok(Arc::new(Guarded { table, file, path, format: "Arrow", part: "record batch" }))
}

/// Rows of Arrow in memory as a table, without a copy where both lay values out alike. Each batch is a part.
///
/// ```
/// use arrow_array::{Int32Array, RecordBatch};
/// use std::sync::Arc;
///
/// let column = Arc::new(Int32Array::from(vec![1, 2])) as _;
/// let batch = RecordBatch::try_from_iter([("n", column)])?;
/// let table = vicus_tables::of_batches(&batch.schema(), &[batch])?;
/// assert_eq!((table.columns()[0].name.as_str(), table.rows()), ("n", Some(2)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A value is beyond the types of SQL: an unsigned integer beyond 63 bits, or a moment far away.
pub fn of_batches(schema: &Schema, batches: &[RecordBatch]) -> Result<Arc<dyn Table>, String> {
    let columns = convert::columns(schema);
    let part = |batch: &RecordBatch| convert::whole(batch, &columns).map_err(|error| error.to_string());
    let parts = batches.iter().map(part).collect::<Result<Vec<_>, String>>()?;
    Ok(Arc::new(MemoryTable::new(columns, parts)))
}
