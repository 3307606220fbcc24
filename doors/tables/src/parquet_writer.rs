//! Rows into Parquet files.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use std::io::{self, Write};

/// The most rows of a row group. Readers take a group as a whole, several at once, and skip those without rows in
/// question.
const GROUP_ROWS: usize = 128 << 10;

/// The most bytes of rows that wait for their group to be full.
const GROUP_BYTES: usize = 32 << 20;

/// Writes a Parquet file: Arrow's columns, packed by Zstandard.
///
/// ```
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use std::sync::Arc;
/// use vicus_tables::{ParquetWriter, open_parquet};
///
/// let ages: ArrayRef = Arc::new(Int64Array::from(vec![Some(36), None]));
/// let rows = RecordBatch::try_from_iter([("age", ages)])?;
/// let path = std::env::temp_dir().join(format!("vicus-writer-{}.parquet", std::process::id()));
/// let mut writer = ParquetWriter::new(std::fs::File::create(&path)?, rows.schema())?;
/// writer.write(&rows)?;
/// writer.finish()?;
/// let table = open_parquet(&path)?;
/// assert_eq!((table.rows(), table.columns()[0].name.as_str()), (Some(2), "age"));
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ParquetWriter<W: Write + Send> {
    writer: ArrowWriter<W>,
    schema: SchemaRef,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a file with these columns.
    ///
    /// # Errors
    /// Parquet has no form for one of their types, or `out` takes no bytes.
    pub fn new(out: W, schema: SchemaRef) -> io::Result<ParquetWriter<W>> {
        let properties = WriterProperties::builder()
            .set_created_by(concat!("vicus ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .set_max_row_group_bytes(Some(GROUP_BYTES));
        let writer = ArrowWriter::try_new(out, SchemaRef::clone(&schema), Some(properties.build()));
        Ok(ParquetWriter { writer: writer.map_err(failed)?, schema })
    }

    /// The columns of its rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds rows of the schema's columns.
    ///
    /// # Errors
    /// They are of other columns, or a group of rows can't be written.
    pub fn write(&mut self, rows: &RecordBatch) -> io::Result<()> {
        self.writer.write(rows).map_err(failed)
    }

    /// The bytes of memory of rows that were not written yet.
    pub fn held_bytes(&self) -> u64 {
        self.writer.memory_size() as u64
    }

    /// Writes what is left and the end of the file, and gives `out` back.
    ///
    /// # Errors
    /// These bytes can't be written.
    pub fn finish(self) -> io::Result<W> {
        self.writer.into_inner().map_err(failed)
    }
}

/// The cause as it was, if it was of input and output.
fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(cause) => io::Error::other(cause),
        },
        error => io::Error::other(error),
    }
}
