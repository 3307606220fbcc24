//! Files of Arrow's format for exchange. In a file, each record batch is a part; a stream has one part.

use crate::TableError;
use crate::convert::{self, Pieces};
use crate::file::{Reader, Shared};
use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::ArrowError;
use std::io::BufReader;
use std::path::Path;
use vicus_flow::{BoxError, Envelope};
use vicus_sql::{ColumnRange, Scan, Table, TableColumn};

const FORMAT: &str = "Arrow";

/// The first and last bytes of a file; a stream does not have them.
const MAGIC: &[u8] = b"ARROW1";

/// An Arrow file, or a stream in a file, as a table.
pub(crate) struct ArrowTable {
    file: Shared,
    columns: Vec<TableColumn>,
    /// The record batches of a file; none for a stream.
    batches: Option<usize>,
}

impl ArrowTable {
    pub(crate) fn open(path: &Path) -> Result<ArrowTable, TableError> {
        let file = Shared::open(path)?;
        let wrong = |error: ArrowError| TableError::format(path, FORMAT, error);
        let signs = MAGIC.len();
        let begins =
            file.length >= signs as u64 && file.bytes(0, signs).map_err(|error| TableError::io(path, error))? == MAGIC;
        let (schema, batches) = if begins {
            let end = file.length - signs as u64;
            if end < 2 * signs as u64 || file.bytes(end, signs).map_err(|error| TableError::io(path, error))? != MAGIC {
                return Err(TableError::format(path, FORMAT, "it does not end with ARROW1, so its end is missing"));
            }
            let reader = FileReader::try_new(file.reader(), None).map_err(wrong)?;
            (reader.schema(), Some(reader.num_batches()))
        } else {
            (StreamReader::try_new(BufReader::new(file.reader()), None).map_err(wrong)?.schema(), None)
        };
        Ok(ArrowTable { columns: convert::columns(&schema), file, batches })
    }

    pub(crate) fn file(&self) -> &Shared {
        &self.file
    }
}

impl Table for ArrowTable {
    fn columns(&self) -> &[TableColumn] {
        &self.columns
    }

    /// Neither form says how many there are without reading it all.
    fn rows(&self) -> Option<u64> {
        let row = 8 * self.columns.len().max(1) as u64;
        Some(self.file.length / row)
    }

    fn parts(&self) -> usize {
        self.batches.unwrap_or(1)
    }

    fn scan(&self, columns: &[usize], part: usize, _filters: &[ColumnRange]) -> Box<dyn Scan> {
        let source = match self.batches {
            Some(_) => Source::File(self.file.clone(), part),
            None => Source::Unopened(self.file.clone()),
        };
        Box::new(ArrowScan { source, columns: columns.to_vec(), batch: None, pieces: Pieces::none() })
    }

    fn loads(&self) -> bool {
        true
    }
}

enum Source {
    /// A file, and the record batch to read.
    File(Shared, usize),
    /// A stream to read.
    Unopened(Shared),
    Stream(Box<StreamReader<BufReader<Reader>>>),
    Over,
}

struct ArrowScan {
    source: Source,
    columns: Vec<usize>,
    /// Read, but not looked at yet.
    batch: Option<RecordBatch>,
    pieces: Pieces,
}

impl Scan for ArrowScan {
    fn load(&mut self) -> Result<(), BoxError> {
        if self.batch.is_some() || self.pieces.held_bytes() > 0 {
            return Ok(());
        }
        self.batch = match std::mem::replace(&mut self.source, Source::Over) {
            Source::Over => None,
            Source::File(file, part) => {
                let mut reader = FileReader::try_new(file.reader(), None)?;
                reader.set_index(part)?;
                reader.next().transpose()?
            }
            source => {
                let mut reader = match source {
                    Source::Stream(reader) => reader,
                    Source::Unopened(file) => Box::new(StreamReader::try_new(BufReader::new(file.reader()), None)?),
                    Source::File(..) | Source::Over => unreachable!("these were taken before"),
                };
                let batch = reader.next().transpose()?;
                if batch.is_some() {
                    self.source = Source::Stream(reader);
                }
                batch
            }
        };
        Ok(())
    }

    fn next(&mut self, most_rows: usize) -> Result<Option<Envelope>, BoxError> {
        if let Some(piece) = self.pieces.next(most_rows) {
            return Ok(Some(piece));
        }
        let Some(batch) = self.batch.take() else {
            return Ok(match self.source {
                Source::Over => None,
                // The next batch comes before the next call.
                _ => Some(Envelope::of_rows(Vec::new(), 0)),
            });
        };
        let rows = convert::envelope(&batch, &self.columns)?;
        self.pieces = Pieces::of(rows.clone());
        Ok(Some(self.pieces.next(most_rows).unwrap_or(rows)))
    }

    fn held_bytes(&self) -> u64 {
        let batch = self.batch.as_ref().map_or(0, RecordBatch::get_array_memory_size);
        batch as u64 + self.pieces.held_bytes()
    }
}
