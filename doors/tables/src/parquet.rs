//! Parquet files. A row group is a part: the chunks of the requested columns are read as a whole, and then decoded bit
//! by bit.

use crate::TableError;
use crate::convert::{self, Pieces, Types};
use crate::file::Shared;
use crate::footer::{self, MOST_NESTED};
use bytes::{Buf, Bytes};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::statistics::Statistics;
use std::path::Path;
use vicus_flow::{BoxError, Envelope, Schema};
use vicus_sql::{ColumnRange, Scan, SqlType, Table, TableColumn, Value};

const FORMAT: &str = "Parquet";

/// The first and last bytes of a file.
const MAGIC: &[u8] = b"PAR1";

/// A Parquet file as a table.
pub(crate) struct ParquetTable {
    file: Shared,
    metadata: ArrowReaderMetadata,
    columns: Vec<TableColumn>,
    kept: Option<Schema>,
    /// For each column, the first of its chunks in a row group.
    leaves: Vec<usize>,
}

impl ParquetTable {
    pub(crate) fn open(path: &Path) -> Result<ParquetTable, TableError> {
        let file = Shared::open(path)?;
        let wrong = |reason: String| TableError::format(path, FORMAT, reason);
        if file.length < 12 {
            return Err(wrong(format!("it has {} bytes", file.length)));
        }
        let read = |at: u64| file.bytes(at, 4).map_err(|error| TableError::io(path, error));
        if read(0)? != MAGIC {
            return Err(wrong("it does not begin with PAR1".to_owned()));
        }
        if read(file.length - 4)? != MAGIC {
            return Err(wrong("it does not end with PAR1, so its end is missing".to_owned()));
        }
        if footer::is_too_deep(&file).map_err(|error| TableError::io(path, error))? {
            return Err(wrong(format!("it has columns within each other, more than {MOST_NESTED} levels deep")));
        }
        let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new());
        let metadata = metadata.map_err(|error| wrong(error.to_string()))?;
        let columns = convert::columns(metadata.schema());
        // The first leaf of each column: that of one leaf has statistics of its values.
        let mut leaves = vec![0; columns.len()];
        let schema = metadata.parquet_schema();
        for leaf in (0..schema.num_columns()).rev() {
            let root = leaves.get_mut(schema.get_column_root_idx(leaf));
            *root.ok_or_else(|| wrong("its two schemas differ".to_owned()))? = leaf;
        }
        let kept = convert::kept(metadata.schema());
        Ok(ParquetTable { file, metadata, columns, kept, leaves })
    }

    pub(crate) fn file(&self) -> &Shared {
        &self.file
    }

    fn group(&self, part: usize) -> &RowGroupMetaData {
        self.metadata.metadata().row_group(part)
    }
}

impl Length for Shared {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Shared {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let rest = usize::try_from(self.length.saturating_sub(start)).unwrap_or(usize::MAX);
        Ok(self.get_bytes(start, rest)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.bytes(start, length).map_err(|error| ParquetError::External(Box::new(error)))?;
        Ok(bytes.into())
    }
}

impl Table for ParquetTable {
    fn columns(&self) -> &[TableColumn] {
        &self.columns
    }

    fn rows(&self) -> Option<u64> {
        u64::try_from(self.metadata.metadata().file_metadata().num_rows()).ok()
    }

    fn parts(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    fn kept(&self) -> Option<&Schema> {
        self.kept.as_ref()
    }

    fn scan(&self, columns: &[usize], part: usize, filters: &[ColumnRange]) -> Box<dyn Scan> {
        let group = self.group(part);
        let chunk = |column: usize| group.column(self.leaves[column]);
        if filters.iter().any(|range| !may_meet(chunk(range.column), &self.columns[range.column].kind, range)) {
            return Box::new(ParquetScan::empty());
        }
        self.scan_in(columns, part, Types::Sql)
    }

    fn scan_kept(&self, columns: &[usize], part: usize) -> Box<dyn Scan> {
        self.scan_in(columns, part, Types::Kept)
    }

    fn loads(&self) -> bool {
        true
    }
}

impl ParquetTable {
    fn scan_in(&self, columns: &[usize], part: usize, types: Types) -> Box<dyn Scan> {
        // The reader gives each column once, in the order of the file.
        let mut read = columns.to_vec();
        read.sort_unstable();
        read.dedup();
        let place = |column: &usize| read.binary_search(column).expect("it is one of them");
        let schema = self.metadata.parquet_schema();
        // A struct has a leaf for each part.
        let is_read = |&leaf: &usize| read.binary_search(&schema.get_column_root_idx(leaf)).is_ok();
        Box::new(ParquetScan {
            state: State::Open(Box::new(Opening {
                places: columns.iter().map(place).collect(),
                leaves: (0..schema.num_columns()).filter(is_read).collect(),
                file: self.file.clone(),
                metadata: self.metadata.clone(),
                read,
                part,
            })),
            types,
            pieces: Pieces::none(),
            bytes: 0,
        })
    }
}

/// Whether a chunk may have values in a range.
fn may_meet(chunk: &ColumnChunkMetaData, kind: &SqlType, range: &ColumnRange) -> bool {
    let Some(statistics) = chunk.statistics() else { return true };
    if statistics.is_min_max_deprecated() {
        return true;
    }
    let bounds = match (statistics, kind) {
        (Statistics::Boolean(values), SqlType::Boolean) => {
            values.min_opt().zip(values.max_opt()).map(|(a, b)| (Value::Boolean(*a), Value::Boolean(*b)))
        }
        // For unsigned integers and other units, the statistics' values are not SQL's values.
        (Statistics::Int32(values), SqlType::BigInt) if is_signed(chunk) => values
            .min_opt()
            .zip(values.max_opt())
            .map(|(a, b)| (Value::BigInt((*a).into()), Value::BigInt((*b).into()))),
        (Statistics::Int64(values), SqlType::BigInt) if is_signed(chunk) => {
            values.min_opt().zip(values.max_opt()).map(|(a, b)| (Value::BigInt(*a), Value::BigInt(*b)))
        }
        (Statistics::Int32(values), SqlType::Decimal { scale, .. }) => {
            let value = |units: &i32| Value::Decimal((*units).into(), *scale);
            values.min_opt().zip(values.max_opt()).map(|(a, b)| (value(a), value(b)))
        }
        (Statistics::Int64(values), SqlType::Decimal { scale, .. }) => {
            let value = |units: &i64| Value::Decimal((*units).into(), *scale);
            values.min_opt().zip(values.max_opt()).map(|(a, b)| (value(a), value(b)))
        }
        (Statistics::Int32(values), SqlType::Date) => {
            values.min_opt().zip(values.max_opt()).map(|(a, b)| (Value::Date(*a), Value::Date(*b)))
        }
        // A NaN may be left out of statistics, and comes last in SQL's order, so only the least value is known.
        (Statistics::Double(values), SqlType::Double) => values
            .min_opt()
            .filter(|least| !least.is_nan())
            .map(|least| (Value::Double(*least), Value::Double(f64::NAN))),
        (Statistics::ByteArray(values), SqlType::Varchar) => {
            let text = |bytes: &parquet::data_type::ByteArray| {
                Some(Value::Varchar(std::str::from_utf8(bytes.data()).ok()?.into()))
            };
            values.min_opt().zip(values.max_opt()).and_then(|(a, b)| Some((text(a)?, text(b)?)))
        }
        _ => None,
    };
    match bounds {
        // Zeros of both signs are equal, so doubles are compared as SQL does: see `Value::order`.
        Some((least, greatest)) => range.meets(&least, &greatest),
        None => true,
    }
}

fn is_signed(chunk: &ColumnChunkMetaData) -> bool {
    use parquet::basic::{ConvertedType, LogicalType};
    let described = chunk.column_descr();
    let unsigned = [ConvertedType::UINT_8, ConvertedType::UINT_16, ConvertedType::UINT_32, ConvertedType::UINT_64];
    match described.logical_type_ref() {
        None => !unsigned.contains(&described.converted_type()),
        Some(LogicalType::Integer(integer)) => integer.is_signed,
        Some(_) => false,
    }
}

struct ParquetScan {
    state: State,
    types: Types,
    pieces: Pieces,
    /// The bytes of the chunks in memory.
    bytes: u64,
}

enum State {
    Open(Box<Opening>),
    Reading(Box<ParquetRecordBatchReader>, Vec<usize>),
    Over,
}

struct Opening {
    file: Shared,
    metadata: ArrowReaderMetadata,
    /// The columns to read.
    read: Vec<usize>,
    /// The chunks of all their leaves.
    leaves: Vec<usize>,
    /// For each requested column, its place among these.
    places: Vec<usize>,
    part: usize,
}

/// Rows decoded at once.
const BATCH: usize = 8192;

impl ParquetScan {
    fn empty() -> ParquetScan {
        ParquetScan { state: State::Over, types: Types::Sql, pieces: Pieces::none(), bytes: 0 }
    }
}

impl Scan for ParquetScan {
    fn load(&mut self) -> Result<(), BoxError> {
        if !matches!(self.state, State::Open(_)) {
            return Ok(());
        }
        let State::Open(opening) = std::mem::replace(&mut self.state, State::Over) else { return Ok(()) };
        let Opening { file, metadata, read, leaves, places, part } = *opening;
        let group = metadata.metadata().row_group(part);
        let mut chunks = Chunks { length: file.length, chunks: Vec::with_capacity(read.len()) };
        for &leaf in &leaves {
            let chunk = group.column(leaf);
            let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
            let (start, length) = u64::try_from(start)
                .ok()
                .zip(usize::try_from(chunk.compressed_size()).ok())
                .ok_or("the file's metadata is damaged: a column begins before the file")?;
            let bytes = file.bytes(start, length).map_err(|error| format!("a column can't be read: {error}"))?;
            self.bytes += bytes.len() as u64;
            chunks.chunks.push((start, bytes.into()));
        }
        let mask = ProjectionMask::roots(metadata.parquet_schema(), read);
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(chunks, metadata);
        let reader = builder.with_row_groups(vec![part]).with_projection(mask).with_batch_size(BATCH).build()?;
        self.state = State::Reading(Box::new(reader), places);
        Ok(())
    }

    fn next(&mut self, most_rows: usize) -> Result<Option<Envelope>, BoxError> {
        loop {
            if let Some(piece) = self.pieces.next(most_rows) {
                return Ok(Some(piece));
            }
            let State::Reading(reader, places) = &mut self.state else { return Ok(None) };
            match reader.next() {
                Some(batch) => self.pieces = Pieces::of(convert::envelope(&batch?, places, self.types)?),
                None => {
                    self.state = State::Over;
                    self.bytes = 0;
                }
            }
        }
    }

    fn held_bytes(&self) -> u64 {
        self.bytes + self.pieces.held_bytes()
    }
}

/// The chunks of some columns, in memory.
struct Chunks {
    length: u64,
    /// Each with its place in the file.
    chunks: Vec<(u64, Bytes)>,
}

impl Chunks {
    /// The bytes from this place to the end of its chunk.
    fn from(&self, start: u64) -> ParquetResult<Bytes> {
        let holds = |(at, bytes): &&(u64, Bytes)| (*at..at + bytes.len() as u64).contains(&start);
        match self.chunks.iter().find(holds) {
            Some((at, bytes)) => Ok(bytes.slice((start - at) as usize..)),
            None => Err(ParquetError::EOF("a page lies outside of its column".to_owned())),
        }
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Chunks {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.from(start)?;
        if length > bytes.len() {
            return Err(ParquetError::EOF("a page reaches beyond its column".to_owned()));
        }
        Ok(bytes.slice(..length))
    }
}
