//! Files of values with a delimiter between them, a row a line. The types of columns are given, or inferred from the
//! first rows.

mod exact;
pub(crate) mod guess;
mod quotes;

use crate::TableError;
use crate::convert::{self, Pieces, Types};
use crate::file::{Reader, Shared};
use arrow_array::cast::AsArray;
use arrow_csv::ReaderBuilder;
use arrow_csv::reader::{Decoder, Format};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use exact::{Exact, Leading};
use guess::Guess;
use quotes::Quotes;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vicus_flow::{BoxError, Column, Envelope};
use vicus_sql::{ColumnRange, Scan, SqlType, Table, TableColumn, UnreadableTable, Value, read_value, value_column};

const FORMAT: &str = "CSV";

/// How a file of values is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvOptions {
    /// The sign between two values.
    pub delimiter: u8,
    /// Whether the first line has the names of the columns; otherwise they are called `column_1` and so on.
    pub header: bool,
    /// The number of rows from which the types of columns are inferred. A value further down with another type is an
    /// error, and so is a number there that would lose leading zeros or a plus.
    pub inferred_rows: usize,
    /// The types of columns by their names; those of the others are inferred.
    pub types: BTreeMap<String, SqlType>,
}

impl Default for CsvOptions {
    /// Commas, a header, and types by the first 200,000 rows.
    fn default() -> CsvOptions {
        CsvOptions { delimiter: b',', header: true, inferred_rows: 200_000, types: BTreeMap::new() }
    }
}

/// A file of values as a table of one part.
pub(crate) struct CsvTable {
    form: Arc<Form>,
    file: Shared,
    columns: Vec<TableColumn>,
    /// The columns whose type is a number by their first rows.
    numbers: Vec<usize>,
    rows: u64,
}

/// The facts of a file by which it is decoded.
struct Form {
    path: PathBuf,
    /// The types by which the decoder reads values.
    schema: SchemaRef,
    /// The types that columns have.
    kinds: Vec<SqlType>,
    options: CsvOptions,
}

impl Form {
    /// A decoder of some columns, at a file's beginning or at a later row.
    fn decoder(&self, schema: SchemaRef, read: &[usize], is_behind_header: bool) -> Decoder {
        ReaderBuilder::new(schema)
            .with_header(self.options.header && !is_behind_header)
            .with_delimiter(self.options.delimiter)
            .with_projection(read.to_vec())
            .with_batch_size(rows_at_once(self.schema.fields().len()))
            .build_decoder()
    }
}

impl CsvTable {
    pub(crate) fn open(path: &Path, options: &CsvOptions, ends: &dyn Fn() -> bool) -> Result<CsvTable, TableError> {
        let file = Shared::open(path)?;
        let asked = Interruptible { file: &file, ends, has_ended: Cell::new(false) };
        let wrong =
            |error: ArrowError| asked.or_stopped(path, |path| TableError::format(path, FORMAT, without_kind(&error)));
        let format = Format::default().with_header(options.header).with_delimiter(options.delimiter);
        // The first row says how many columns there are, and how they are called.
        let (first, _) =
            format.infer_schema(BufReader::with_capacity(BLOCK, asked.reader()), Some(1)).map_err(wrong)?;
        if first.fields().is_empty() {
            return Err(TableError::format(path, FORMAT, "it is empty: a line with the names of columns was expected"));
        }
        if first.fields().len() > MOST_COLUMNS {
            let reason = format!("it has {} columns, and at most {MOST_COLUMNS} can be read", first.fields().len());
            return Err(TableError::format(path, FORMAT, reason));
        }
        let name = |(place, field): (usize, &Arc<Field>)| {
            if options.header { field.name().clone() } else { format!("column_{}", place + 1) }
        };
        let names: Vec<String> = first.fields().iter().enumerate().map(name).collect();
        if let Some(unknown) = options.types.keys().find(|name| !names.contains(name)) {
            let reason =
                format!("it has no column {unknown}, whose type was given; its columns are {}", names.join(", "));
            return Err(TableError::Types { path: path.to_owned(), reason });
        }
        let texts = names.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect::<Vec<_>>();
        let (guesses, rows, bytes) = inferred(path, &asked, Arc::new(Schema::new(texts)), options)?;
        let field = |(name, guess): (&String, Guess)| {
            let kind = options.types.get(name).cloned().unwrap_or_else(|| guess.kind());
            let read = if is_read_from_text(&kind) { DataType::Utf8 } else { kind.flow_type().to_arrow() };
            (Field::new(name, read, true), TableColumn::new(name, kind))
        };
        let (fields, columns): (Vec<_>, Vec<_>) = names.iter().zip(guesses).map(field).unzip();
        let schema = Schema::new(fields);
        let is_number = |column: &usize| {
            let kind = &columns[*column].kind;
            matches!(kind, SqlType::BigInt | SqlType::Double) && !options.types.contains_key(&names[*column])
        };
        let numbers = (0..columns.len()).filter(is_number).collect();
        // As if the rest looked like the beginning.
        let rows = (rows as u128 * u128::from(file.length) / u128::from(bytes.max(1))) as u64;
        let kinds = columns.iter().map(|column| column.kind.clone()).collect();
        let form = Form { path: path.to_owned(), schema: Arc::new(schema), kinds, options: options.clone() };
        Ok(CsvTable { form: Arc::new(form), file, columns, numbers, rows })
    }
}

/// Asks at each read whether the caller ends the opening of a file, and fails then.
struct Interruptible<'a> {
    file: &'a Shared,
    ends: &'a dyn Fn() -> bool,
    has_ended: Cell<bool>,
}

impl Interruptible<'_> {
    fn reader(&self) -> AskingReader<'_> {
        AskingReader { asked: self, reader: self.file.reader() }
    }

    /// The error of a failure, which may be that of a read that was refused.
    fn or_stopped(&self, path: &Path, error: impl FnOnce(&Path) -> TableError) -> TableError {
        if self.has_ended.get() { TableError::Stopped { path: path.to_owned() } } else { error(path) }
    }
}

struct AskingReader<'a> {
    asked: &'a Interruptible<'a>,
    reader: Reader,
}

impl Read for AskingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.asked.ends)() {
            self.asked.has_ended.set(true);
            return Err(io::Error::other("it was ended"));
        }
        self.reader.read(buffer)
    }
}

/// The types of the first rows' values, and the number of these rows and of their bytes. They are read as texts, like
/// all others.
fn inferred(
    path: &Path,
    asked: &Interruptible<'_>,
    texts: SchemaRef,
    options: &CsvOptions,
) -> Result<(Vec<Guess>, usize, u64), TableError> {
    let wrong = |error: ArrowError| TableError::format(path, FORMAT, without_kind(&error));
    let most = options.inferred_rows.max(1);
    let mut guesses = vec![Guess::new(); texts.fields().len()];
    let batch = rows_at_once(texts.fields().len()).min(most);
    let mut decoder = ReaderBuilder::new(texts)
        .with_header(options.header)
        .with_delimiter(options.delimiter)
        .with_batch_size(batch)
        .build_decoder();
    let (mut reader, mut quotes) = (asked.reader(), Quotes::new(options.delimiter));
    let (mut block, mut rows, mut bytes, mut fed) = (vec![0; BLOCK], 0, 0, 0);
    while rows < most {
        let count = reader.read(&mut block);
        let count = count.map_err(|error| asked.or_stopped(path, |path| TableError::io(path, error)))?;
        let lines = quotes.see(&block[..count]);
        if let Some(line) = quotes.open().filter(|_| count == 0) {
            return Err(TableError::format(path, FORMAT, unclosed(line)));
        }
        bytes += count as u64;
        let mut from = 0;
        // At the end, the decoder is told so by an empty piece.
        loop {
            let piece = Piece::next(from, lines, count, fed);
            let used = decoder.decode(&block[from..piece.end]).map_err(wrong)?;
            from += used;
            fed += used;
            let (is_used_up, is_full) = (from == piece.end, decoder.capacity() == 0);
            if !is_used_up && !is_full && used > 0 {
                continue;
            }
            if count > 0 && from == count && !is_full && !piece.ends_batch {
                break;
            }
            fed = 0;
            let Some(batch) = decoder.flush().map_err(wrong)? else {
                if from < count && used > 0 {
                    continue;
                }
                break;
            };
            rows += batch.num_rows();
            for (guess, column) in guesses.iter_mut().zip(batch.columns()) {
                let values = column.as_string::<i32>();
                values.iter().flatten().filter(|text| !text.is_empty()).for_each(|text| guess.see(text));
            }
            if from == count || rows >= most {
                break;
            }
        }
        if count == 0 {
            break;
        }
    }
    Ok((guesses, rows, bytes))
}

fn unclosed(line: u64) -> String {
    format!("line {line}: a quotation mark at the beginning of a value is never closed")
}

impl Table for CsvTable {
    fn columns(&self) -> &[TableColumn] {
        &self.columns
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows)
    }

    fn parts(&self) -> usize {
        1
    }

    fn scan(&self, columns: &[usize], _part: usize, _filters: &[ColumnRange]) -> Box<dyn Scan> {
        let mut read = columns.to_vec();
        read.sort_unstable();
        read.dedup();
        // To count rows, some column has to be read.
        if read.is_empty() {
            read.push(0);
        }
        let places = columns.iter().map(|column| read.binary_search(column).expect("it is one of them")).collect();
        let numbers = (0..read.len()).filter(|place| self.numbers.contains(&read[*place])).collect();
        Box::new(CsvScan {
            quotes: Quotes::new(self.form.options.delimiter),
            file: self.file.clone(),
            reader: self.file.reader(),
            decoder: self.form.decoder(Arc::clone(&self.form.schema), &read, false),
            leading: Leading::new(self.form.options.delimiter),
            form: Arc::clone(&self.form),
            read,
            places,
            block: Vec::new(),
            from: 0,
            lines: 0,
            is_at_end: false,
            fed: 0,
            most_fed: 0,
            is_behind_header: false,
            rows: 0,
            rows_before: 0,
            exact: Exact::new(numbers),
            pieces: Pieces::none(),
        })
    }

    fn loads(&self) -> bool {
        true
    }
}

/// The most columns of a sheet in common programs for tables. Each takes some memory and time of every step, from the
/// decoder to the answer.
const MOST_COLUMNS: usize = 16_384;

/// Rows decoded at once, and bytes read at once.
const BATCH: usize = 4096;
const BLOCK: usize = 1 << 18;

/// Values decoded at once, if there are more than some hundred columns: the decoder has room for each from the
/// beginning.
const BATCH_VALUES: usize = 1 << 20;

/// Bytes after which a batch is decoded, at the next end of a line: the bytes of all its columns are held until then.
const BATCH_BYTES: usize = 1 << 20;

/// The bytes to decode next.
struct Piece {
    end: usize,
    /// Whether no more belong to the batch.
    ends_batch: bool,
}

impl Piece {
    /// The rest of a block of this length, after `fed` bytes of the same batch: all of it, or up to its last end of a
    /// line. The decoder has no half row there, with which it would make no batch.
    fn next(from: usize, lines: usize, length: usize, fed: usize) -> Piece {
        let ends_batch = lines > from && fed + (length - from) >= BATCH_BYTES;
        Piece { end: if ends_batch { lines } else { length }, ends_batch }
    }
}

fn rows_at_once(columns: usize) -> usize {
    (BATCH_VALUES / columns.max(1)).clamp(1, BATCH)
}

struct CsvScan {
    form: Arc<Form>,
    quotes: Quotes,
    file: Shared,
    reader: Reader,
    decoder: Decoder,
    /// The columns that are read, and the places of the asked ones among them.
    read: Vec<usize>,
    places: Vec<usize>,
    /// Bytes of the file; the ones before `from` are decoded, and `lines` is the last end of a line.
    block: Vec<u8>,
    from: usize,
    lines: usize,
    is_at_end: bool,
    /// Bytes decoded for the next batch, and the most of a batch.
    fed: usize,
    most_fed: usize,
    is_behind_header: bool,
    /// The rows of all batches, and of those before this decoder was made.
    rows: usize,
    rows_before: usize,
    leading: Leading,
    exact: Exact,
    pieces: Pieces,
}

impl CsvScan {
    fn explained(&self, error: &ArrowError) -> BoxError {
        // A decoder counts lines from its own beginning.
        let header = usize::from(self.form.options.header && self.rows_before > 0);
        explained(error, self.rows_before + header, &self.form.path, &self.form.schema)
    }

    /// Goes over to texts for numbers, from the first row of the batch on.
    fn be_exact(&mut self) -> Result<(), BoxError> {
        let bytes = self.exact.turn_on();
        self.rows_before = self.rows;
        let texts = self.exact.texts(&self.form.schema, &self.read);
        let mut decoder = self.form.decoder(texts, &self.read, self.is_behind_header);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let count = decoder.decode(rest).map_err(|error| self.explained(&error))?;
            rest = &rest[count..];
        }
        self.decoder = decoder;
        Ok(())
    }
}

impl CsvScan {
    /// The rows with lists and the like in place of their texts; the first one is in this line, unless values before it
    /// have line breaks.
    fn values_of_texts(&self, rows: Envelope, line: usize) -> Result<Envelope, BoxError> {
        let kind = |place: &usize| &self.form.kinds[self.read[*place]];
        if !self.places.iter().map(kind).any(is_read_from_text) {
            return Ok(rows);
        }
        let column = |(column, place): (&Column, &usize)| {
            let kind = kind(place);
            if !is_read_from_text(kind) {
                return Ok(column.clone());
            }
            column_of_texts(column, kind).map_err(|row| {
                let (path, name) = (self.form.path.display(), self.form.schema.field(self.read[*place]).name());
                let value: String = column.text_at(row).chars().take(SHOWN).collect();
                UnreadableTable(format!("{path}: line {}, column {name}: '{value}' is no {kind}", line + row)).into()
            })
        };
        let columns = rows.columns().iter().zip(&self.places).map(column).collect::<Result<Vec<_>, BoxError>>()?;
        Ok(Envelope::of_rows(columns, rows.rows()))
    }
}

/// The values of a column of texts, of which an empty one is null. An error is the row of a text that is no value.
fn column_of_texts(texts: &Column, kind: &SqlType) -> Result<Column, usize> {
    let value = |row: usize| match texts.text_at(row) {
        _ if texts.is_null(row) => Ok(Value::Null),
        "" => Ok(Value::Null),
        text => read_value(text, kind).ok_or(row),
    };
    Ok(value_column(kind, &(0..texts.len()).map(value).collect::<Result<Vec<_>, usize>>()?))
}

/// So much of a wrong value is shown.
const SHOWN: usize = 60;

/// Whether the decoder has no such type.
fn is_read_from_text(kind: &SqlType) -> bool {
    matches!(kind, SqlType::Blob | SqlType::Interval | SqlType::List(_) | SqlType::Struct(_))
}

impl Scan for CsvScan {
    fn load(&mut self) -> Result<(), BoxError> {
        if self.is_at_end || self.from < self.block.len() {
            return Ok(());
        }
        self.from = 0;
        self.block.resize(BLOCK, 0);
        let unreadable = |error: io::Error| UnreadableTable(format!("{}: {error}", self.form.path.display()));
        let mut filled = 0;
        while filled < BLOCK {
            match self.reader.read(&mut self.block[filled..]).map_err(unreadable)? {
                0 => {
                    self.is_at_end = true;
                    break;
                }
                count => filled += count,
            }
        }
        self.block.truncate(filled);
        self.file.check().map_err(unreadable)?;
        self.lines = self.quotes.see(&self.block);
        if let Some(line) = self.quotes.open().filter(|_| self.is_at_end) {
            return Err(format!("{}: {}", self.form.path.display(), unclosed(line)).into());
        }
        if self.exact.waits() && self.leading.see(&self.block) {
            self.be_exact()?;
        }
        Ok(())
    }

    fn next(&mut self, most_rows: usize) -> Result<Option<Envelope>, BoxError> {
        if let Some(piece) = self.pieces.next(most_rows) {
            return Ok(Some(piece));
        }
        // Until a batch is full, or the block is used up; at the end, the decoder is told so by an empty piece.
        loop {
            let piece = Piece::next(self.from, self.lines, self.block.len(), self.fed);
            let rest = &self.block[self.from..piece.end];
            let is_last = rest.is_empty();
            if is_last && !self.is_at_end {
                // The next block comes before the next call.
                return Ok(Some(nothing_yet()));
            }
            let count = self.decoder.decode(rest).map_err(|error| self.explained(&error))?;
            self.exact.keep(&rest[..count]);
            self.from += count;
            self.fed += count;
            if is_last || count == 0 || self.decoder.capacity() == 0 || piece.ends_batch && self.from == piece.end {
                break;
            }
        }
        self.most_fed = self.most_fed.max(self.fed);
        self.fed = 0;
        let batch = self.decoder.flush().map_err(|error| self.explained(&error))?;
        let has_text = self.exact.forget();
        let Some(batch) = batch else {
            self.is_behind_header |= has_text;
            let is_over = self.is_at_end && self.from == self.block.len();
            return Ok(if is_over { None } else { Some(nothing_yet()) });
        };
        self.is_behind_header = true;
        let first = self.rows + usize::from(self.form.options.header) + 1;
        let batch = self.exact.numbers(batch, &self.form.schema, &self.read).map_err(|wrong| {
            let (line, field) = (first + wrong.row, self.form.schema.field(self.read[wrong.place]));
            refused(&self.form.path, line, field, &wrong.text, wrong.is_lossy)
        })?;
        self.rows += batch.num_rows();
        let rows = convert::envelope(&batch, &self.places, Types::Sql)?;
        let rows = self.values_of_texts(rows, first)?;
        self.pieces = Pieces::of(rows);
        Ok(Some(self.pieces.next(most_rows).unwrap_or_else(nothing_yet)))
    }

    fn held_bytes(&self) -> u64 {
        // The decoder has texts in a buffer that grows by doubling, and the places of their ends.
        let rows = rows_at_once(self.form.schema.fields().len());
        let decoder = 2 * self.most_fed.max(self.fed) + rows * self.form.schema.fields().len() * size_of::<usize>();
        (self.block.capacity() + decoder + self.exact.held_bytes()) as u64 + self.pieces.held_bytes()
    }
}

/// No rows, though more may come.
fn nothing_yet() -> Envelope {
    Envelope::of_rows(Vec::new(), 0)
}

/// The error of a decoder that was made after `before` lines, with the file, and with the column's name instead of its
/// number.
fn explained(error: &ArrowError, before: usize, path: &Path, schema: &Schema) -> BoxError {
    let text = without_kind(error);
    let named = || {
        let (what, rest) = text.split_once(" for column ")?;
        let (column, rest) = rest.split_once(" at line ")?;
        // It counts from 0, and a value with line breaks for one line.
        let line = rest.split(['.', ':']).next()?.parse::<usize>().ok()? + 1;
        let field = schema.fields().get(column.parse::<usize>().ok()?)?;
        let value = what.strip_prefix("Error while parsing value ")?.rsplit_once(" as type ")?.0;
        Some(refused(path, before + line, field, value, false))
    };
    let counted = || {
        let (what, rest) = text.split_once("for line ")?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let line = rest[..digits].parse::<usize>().ok()?;
        Some(format!("{what}for line {}{}", before + line, &rest[digits..]))
    };
    let unnamed = || format!("{}: {}", path.display(), counted().unwrap_or_else(|| text.clone()));
    named().unwrap_or_else(|| UnreadableTable(unnamed()).into())
}

/// The error of a value that is not of its column's type, or one whose zeros or sign it would lose.
fn refused(path: &Path, line: usize, field: &Field, value: &str, is_lossy: bool) -> BoxError {
    let kind = match field.data_type() {
        DataType::Int64 => "bigint",
        DataType::Float64 => "double",
        DataType::Boolean => "boolean",
        DataType::Date32 => "date",
        DataType::Timestamp(..) => "timestamp",
        _ => "varchar",
    };
    let why = if is_lossy {
        format!("{value} would lose its zeros or its sign as a {kind}, the type of the column's first rows")
    } else {
        format!("{value} is no {kind}, as the first rows of the column are")
    };
    let (path, name) = (path.display(), field.name());
    let remedy = "as varchar all of it can be read (--table-types)";
    UnreadableTable(format!("{path}: line {line}, column {name}: {why}; {remedy}")).into()
}

fn without_kind(error: &ArrowError) -> String {
    match error {
        ArrowError::ParseError(text) | ArrowError::CsvError(text) => text.clone(),
        other => other.to_string(),
    }
}
