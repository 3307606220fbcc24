//! Files of Arrow's format for exchange. In a file, each record batch is a part; a stream has one part.

use crate::TableError;
use crate::convert::{self, Pieces, Types};
use crate::file::{Reader, Shared};
use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, StreamReader, read_footer_length};
use arrow_ipc::{Block, CompressionType, Message, MessageHeader, MetadataVersion, root_as_footer, root_as_message};
use arrow_schema::SchemaRef;
use std::io::{self, BufReader};
use std::path::Path;
use std::sync::Arc;
use vicus_flow::{BoxError, Envelope, Schema};
use vicus_sql::{ColumnRange, Scan, Table, TableColumn};

const FORMAT: &str = "Arrow";

/// The first and last bytes of a file; a stream does not have them.
const MAGIC: &[u8] = b"ARROW1";

/// An Arrow file, or a stream in a file, as a table.
pub(crate) struct ArrowTable {
    file: Shared,
    columns: Vec<TableColumn>,
    kept: Option<Schema>,
    /// The footer of a file; none for a stream.
    footer: Option<Arc<Footer>>,
}

/// The end of a file: its schema, and the places of its messages.
struct Footer {
    schema: SchemaRef,
    version: MetadataVersion,
    dictionaries: Vec<Block>,
    batches: Vec<Block>,
}

impl ArrowTable {
    pub(crate) fn open(path: &Path) -> Result<ArrowTable, TableError> {
        let file = Shared::open(path)?;
        let signs = MAGIC.len();
        let begins =
            file.length >= signs as u64 && file.bytes(0, signs).map_err(|error| TableError::io(path, error))? == MAGIC;
        if !begins {
            let reader = StreamReader::try_new(BufReader::new(file.reader()), None);
            let reader = reader.map_err(|error| TableError::format(path, FORMAT, error))?;
            let schema = reader.schema();
            let (columns, kept) = (convert::columns(&schema), convert::kept(&schema));
            return Ok(ArrowTable { columns, kept, file, footer: None });
        }
        let end = file.length - signs as u64;
        if end < 2 * signs as u64 || file.bytes(end, signs).map_err(|error| TableError::io(path, error))? != MAGIC {
            return Err(TableError::format(path, FORMAT, "it does not end with ARROW1, so its end is missing"));
        }
        let footer = Footer::read(&file).map_err(|error| TableError::format(path, FORMAT, error))?;
        // Damaged dictionaries are told of at once.
        footer.decoder(&file).map_err(|error| TableError::format(path, FORMAT, error))?;
        let (columns, kept) = (convert::columns(&footer.schema), convert::kept(&footer.schema));
        Ok(ArrowTable { columns, kept, file, footer: Some(Arc::new(footer)) })
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
        self.footer.as_ref().map_or(1, |footer| footer.batches.len())
    }

    fn kept(&self) -> Option<&Schema> {
        self.kept.as_ref()
    }

    fn scan(&self, columns: &[usize], part: usize, _filters: &[ColumnRange]) -> Box<dyn Scan> {
        self.scan_in(columns, part, Types::Sql)
    }

    fn scan_kept(&self, columns: &[usize], part: usize) -> Box<dyn Scan> {
        self.scan_in(columns, part, Types::Kept)
    }

    fn loads(&self) -> bool {
        true
    }
}

impl ArrowTable {
    fn scan_in(&self, columns: &[usize], part: usize, types: Types) -> Box<dyn Scan> {
        let source = match &self.footer {
            Some(footer) => Source::File(self.file.clone(), Arc::clone(footer), part),
            None => Source::Unopened(self.file.clone()),
        };
        let columns = columns.to_vec();
        Box::new(ArrowScan { source, columns, types, ahead: None, batch: None, pieces: Pieces::none() })
    }
}

impl Footer {
    fn read(file: &Shared) -> Result<Footer, BoxError> {
        const TAIL: u64 = 10;
        let tail = file.length.checked_sub(TAIL).ok_or("it is too short for a footer")?;
        let tail_bytes = file.bytes(tail, TAIL as usize)?;
        let length = read_footer_length(tail_bytes.try_into().expect("it has this length"))?;
        let start = tail.checked_sub(length as u64).ok_or("its footer is longer than the file")?;
        let bytes = file.bytes(start, length)?;
        let footer = root_as_footer(&bytes).map_err(|error| format!("its footer can't be read: {error}"))?;
        let schema = footer.schema().ok_or("its footer has no schema")?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err("its numbers have the bytes of another machine's order".into());
        }
        Ok(Footer {
            schema: Arc::new(try_fb_to_schema(schema)?),
            version: footer.version(),
            dictionaries: footer.dictionaries().iter().flatten().copied().collect(),
            batches: footer.recordBatches().ok_or("its footer has no record batches")?.iter().copied().collect(),
        })
    }

    /// The decoder of record batches, with the dictionaries.
    fn decoder(&self, file: &Shared) -> Result<FileDecoder, BoxError> {
        let mut decoder = FileDecoder::new(Arc::clone(&self.schema), self.version);
        for block in &self.dictionaries {
            let (bytes, _) = block_of(file, block)?;
            decoder.read_dictionary(block, &bytes)?;
        }
        Ok(decoder)
    }
}

/// A message of a file with its body, and the size of the body's unpacked buffers.
fn block_of(file: &Shared, block: &Block) -> Result<(Buffer, u64), BoxError> {
    let outside = || format!("its bytes, {} from {} on, lie outside of the file", block.bodyLength(), block.offset());
    let (at, body) = (u64::try_from(block.offset()), u64::try_from(block.bodyLength()));
    let (Ok(at), Ok(body), Ok(head)) = (at, body, usize::try_from(block.metaDataLength())) else {
        return Err(outside().into());
    };
    let length = body
        .checked_add(head as u64)
        .filter(|length| at.checked_add(*length).is_some_and(|end| end <= file.length) && head >= START);
    let length = length.and_then(|length| usize::try_from(length).ok()).ok_or_else(outside)?;
    let mut bytes = MutableBuffer::try_from_len_zeroed(length).map_err(|error| error.to_string())?;
    file.fill(at, &mut bytes)?;
    let bytes = Buffer::from(bytes);
    let start = if bytes[..4] == CONTINUES { START } else { START / 2 };
    let unpacked = match root_as_message(&bytes[start..]) {
        Ok(message) => unpacked(&message, body, |at| {
            let at = head + at as usize;
            Ok(bytes[at..at + 8].try_into().expect("eight bytes"))
        })?,
        // The decoder refuses it.
        Err(_) => 0,
    };
    Ok((bytes, unpacked))
}

/// Before a message: this sign, and the length of the message. The sign is missing in files of old writers.
const START: usize = 8;
const CONTINUES: [u8; 4] = [0xff; 4];

/// The sum of the sizes that a message's packed buffers say they have unpacked. The decoder asks for memory of this
/// size before it unpacks a buffer, and without it the process ends, so a size beyond what the packed bytes can hold
/// is an error. `prefix` reads eight bytes at a place within the body.
///
/// # Errors
/// Such a size, or a buffer outside of the body.
fn unpacked(message: &Message<'_>, body: u64, prefix: impl Fn(u64) -> io::Result<[u8; 8]>) -> Result<u64, BoxError> {
    /// Texts have 32-bit offsets.
    const MOST: u64 = 2 << 30;
    /// A byte of LZ4 makes a match longer by 255 bytes at most. A block of zstd has 4 bytes at least, and 128 KiB
    /// unpacked at most.
    const LZ4: u64 = 255;
    const ZSTD: u64 = (128 << 10) / 4;
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().and_then(|batch| batch.data()),
        _ => None,
    };
    let Some(batch) = batch else { return Ok(0) };
    let ratio = match batch.compression().map(|compression| compression.codec()) {
        Some(CompressionType::LZ4_FRAME) => LZ4,
        Some(CompressionType::ZSTD) => ZSTD,
        // Nothing is packed, or the decoder refuses it.
        _ => return Ok(0),
    };
    let mut sum = 0;
    for (place, buffer) in batch.buffers().iter().flatten().enumerate() {
        let number = place + 1;
        let (at, length) = (u64::try_from(buffer.offset()), u64::try_from(buffer.length()));
        let (Ok(at), Ok(length)) = (at, length) else {
            return Err(format!("buffer {number} has a negative length or place").into());
        };
        if at.checked_add(length).is_none_or(|end| end > body) {
            return Err(format!("buffer {number}, of {length} bytes, lies outside of the message").into());
        }
        if length == 0 {
            continue;
        }
        let packed = length.checked_sub(8).ok_or_else(|| format!("packed buffer {number} has {length} bytes"))?;
        match i64::from_le_bytes(prefix(at)?) {
            // The bytes are as they were.
            -1 => {}
            size => {
                let size = u64::try_from(size).ok().filter(|size| *size <= MOST.min(packed.saturating_mul(ratio)));
                sum += size.ok_or_else(|| {
                    format!("buffer {number}, of {packed} packed bytes, can't have the size it is said to have")
                })?;
            }
        }
    }
    Ok(sum)
}

enum Source {
    /// A file, and the record batch to read.
    File(Shared, Arc<Footer>, usize),
    /// A record batch that is read, but not decoded yet.
    Block(Box<FileDecoder>, Block, Buffer),
    /// A stream to read.
    Unopened(Shared),
    Stream(Box<Stream>),
    Over,
}

/// A stream, and the place of its next message.
struct Stream {
    reader: StreamReader<BufReader<Reader>>,
    file: Shared,
    at: u64,
}

impl Stream {
    /// Looks at the messages up to the next record batch: the bytes that it takes. Messages that can't be read are the
    /// reader's to refuse.
    fn look(&mut self) -> Result<u64, BoxError> {
        let mut bytes = 0;
        while let Some((message, from)) = self.message() {
            let Ok(message) = root_as_message(&message) else { break };
            let Ok(body) = u64::try_from(message.bodyLength()) else { break };
            let file = &self.file;
            let prefix = |at| {
                let found = file.bytes(from.checked_add(at).ok_or(io::ErrorKind::UnexpectedEof)?, 8)?;
                Ok(found.try_into().expect("eight bytes"))
            };
            bytes += body.min(self.file.length) + unpacked(&message, body, prefix)?;
            self.at = from.saturating_add(body);
            if message.header_type() == MessageHeader::RecordBatch {
                break;
            }
        }
        Ok(bytes)
    }

    /// The next message, and the place of its body.
    fn message(&self) -> Option<(Vec<u8>, u64)> {
        let mut at = self.at;
        let mut word = || {
            let word = self.file.bytes(at, 4).ok()?;
            at += 4;
            <[u8; 4]>::try_from(word).ok()
        };
        let mut length = word()?;
        if length == CONTINUES {
            length = word()?;
        }
        let length = usize::try_from(i32::from_le_bytes(length)).ok().filter(|length| *length > 0)?;
        Some((self.file.bytes(at, length).ok()?, at + length as u64))
    }
}

struct ArrowScan {
    source: Source,
    columns: Vec<usize>,
    types: Types,
    /// The bytes of the next batch, while it is read and not decoded: they are told of before, to be within a budget.
    ahead: Option<u64>,
    /// Decoded, but not looked at yet.
    batch: Option<RecordBatch>,
    pieces: Pieces,
}

impl Scan for ArrowScan {
    /// One call reads a batch, or looks ahead at it, and the next one decodes it.
    fn load(&mut self) -> Result<(), BoxError> {
        if self.batch.is_some() || self.pieces.held_bytes() > 0 {
            return Ok(());
        }
        let is_ahead = self.ahead.take().is_some();
        match std::mem::replace(&mut self.source, Source::Over) {
            Source::Over => {}
            Source::File(file, footer, part) => {
                let block = footer.batches[part];
                let decoder = footer.decoder(&file)?;
                let (bytes, unpacked) = block_of(&file, &block)?;
                self.ahead = Some(bytes.len() as u64 + unpacked);
                self.source = Source::Block(Box::new(decoder), block, bytes);
            }
            Source::Block(decoder, block, bytes) => self.batch = decoder.read_record_batch(&block, &bytes)?,
            Source::Unopened(file) => {
                let reader = StreamReader::try_new(BufReader::new(file.reader()), None)?;
                let mut stream = Box::new(Stream { reader, file, at: 0 });
                self.ahead = Some(stream.look()?);
                self.source = Source::Stream(stream);
            }
            Source::Stream(mut stream) if is_ahead => {
                self.batch = stream.reader.next().transpose()?;
                if self.batch.is_some() {
                    self.source = Source::Stream(stream);
                }
            }
            Source::Stream(mut stream) => {
                self.ahead = Some(stream.look()?);
                self.source = Source::Stream(stream);
            }
        }
        Ok(())
    }

    fn next(&mut self, most_rows: usize) -> Result<Option<Envelope>, BoxError> {
        if let Some(piece) = self.pieces.next(most_rows) {
            return Ok(Some(piece));
        }
        let Some(batch) = self.batch.take() else {
            return Ok(match self.source {
                Source::Over => None,
                // The next batch comes before one of the next calls.
                _ => Some(Envelope::of_rows(Vec::new(), 0)),
            });
        };
        let rows = convert::envelope(&batch, &self.columns, self.types)?;
        self.pieces = Pieces::of(rows.clone());
        Ok(Some(self.pieces.next(most_rows).unwrap_or(rows)))
    }

    fn held_bytes(&self) -> u64 {
        let batch = self.batch.as_ref().map_or(0, RecordBatch::get_array_memory_size);
        self.ahead.unwrap_or(0) + batch as u64 + self.pieces.held_bytes()
    }
}
