//! RDF/XML and JSON-LD. Their parsers read from the source themselves. A layer in between ends overlong statements.

use super::jsonld::{self, Fault};
use super::rdfxml::RdfXmlReader;
use super::statements::{Grown, Statements};
use super::turtle::no_base;
use super::{OnError, Parsed, Syntax, SyntaxError, Unparsed, could_have};
use memchr::memchr;
use oxiri::Iri;
use std::cell::Cell;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard};
use vicus_flow::{Grow, NoMemory};

/// Parses a file of RDF/XML or JSON-LD, some statements at a time. Panics if there is not enough memory.
///
/// JSON-LD is held in memory as a whole, because names may be explained behind their use. It can't refer to contexts
/// elsewhere.
///
/// ```
/// use vicus_rdf::load::{OnError, PulledReader, Syntax};
/// let text = &br#"{ "@context": { "e": "http://e/" }, "@id": "e:a", "e:p": [ 1, { "@id": "e:b" } ] }"#[..];
/// let reader = PulledReader::new(Box::new(text), Syntax::JsonLd, 0, None, OnError::Fail)?;
/// assert_eq!(reader.finish()?.quads().len(), 2);
/// let text = &b"<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'>\n <rdf:Wrong\n</rdf:RDF>"[..];
/// let reader = PulledReader::new(Box::new(text), Syntax::RdfXml, 0, None, OnError::Fail)?;
/// assert_eq!(reader.finish().unwrap_err().line, 3);
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
pub struct PulledReader {
    parser: Parser,
    statements: Statements,
    place: Arc<Mutex<Place>>,
}

/// The parser of the grammar.
enum Parser {
    Xml(Box<RdfXmlReader<Watched>>),
    Json(Box<Document>),
}

/// A document of JSON-LD, read as a whole.
struct Document {
    source: Watched,
    base: Option<String>,
    text: Vec<u8>,
}

/// Why a file was not parsed further.
#[derive(Debug)]
pub(crate) enum Ended {
    Unparsed(Unparsed),
    Unreadable(io::Error),
    /// About on this line there are more bytes without a statement than may be, of JSON-LD more bytes.
    TooLong(u64),
    Stopped,
}

impl<E: Into<Unparsed>> From<E> for Ended {
    fn from(error: E) -> Ended {
        Ended::Unparsed(error.into())
    }
}

/// How far the parser has read, and how far it may.
struct Place {
    /// Bytes up to the current line; below, its line feeds.
    before: u64,
    lines: u64,
    /// The beginning of the current line, as far as it was read.
    line: Vec<u8>,
    /// Bytes read of this line.
    line_bytes: u64,
    /// Bytes since the last statement; of JSON-LD all.
    since: usize,
    /// The greatest value of `since`.
    most: usize,
    /// Estimated bytes of memory of the parser for each of these bytes.
    copies: usize,
    /// Why the last read failed.
    failed: Option<Failed>,
}

/// Why reading ended early.
enum Failed {
    TooLong,
    NoMemory(NoMemory),
}

/// The part of a line with columns counted in characters; further on they are bytes.
const LINE_BYTES: usize = 64 << 10;

impl Place {
    fn bytes(&self) -> u64 {
        self.before + self.line_bytes
    }

    /// Line and column at this number of bytes, on the current line or before it.
    fn of(&self, offset: u64) -> (u64, u64) {
        match offset.checked_sub(self.before) {
            Some(within) => {
                let whole = (within as usize).min(self.line.len());
                let characters = String::from_utf8_lossy(&self.line[..whole]).chars().count() as u64;
                (self.lines + 1, 1 + characters + (within - whole as u64))
            }
            // The parser noticed it at the end of the line before.
            None => (self.lines.max(1), 1),
        }
    }
}

/// The source. Passes on at most a line at a time: parsers find their statements and errors on the last line they got.
struct Watched {
    source: Box<dyn Read + Send>,
    place: Arc<Mutex<Place>>,
    /// Bytes read and not passed on: from the first to the second place.
    buffer: Vec<u8>,
    passed: usize,
    filled: usize,
}

/// Statements read between two looks whether reading is stopped.
const BETWEEN_STOPS: usize = 64;

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// The bytes of a document of JSON-LD as a tree, for each byte of its text, unless it is made to need many.
const TREE_COPIES: u64 = 12;

/// Memory is checked whenever this number of bytes has come without a statement.
const CHECKED_BYTES: usize = 1 << 20;

fn lock(place: &Mutex<Place>) -> MutexGuard<'_, Place> {
    place.lock().expect("nothing panics under this lock")
}

impl Read for Watched {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.passed == self.filled {
            (self.passed, self.filled) = (0, self.source.read(&mut self.buffer)?);
        }
        let rest = &self.buffer[self.passed..self.filled];
        let line = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let now = &rest[..line.min(into.len())];
        let mut place = lock(&self.place);
        if place.line.last() == Some(&b'\n') || place.line_bytes > 0 && place.line.is_empty() {
            (place.before, place.lines, place.line_bytes) = (place.bytes(), place.lines + 1, 0);
            place.line.clear();
        }
        let (checked, since) = (place.since / CHECKED_BYTES, place.since.saturating_add(now.len()));
        place.since = since;
        if since > place.most {
            place.failed = Some(Failed::TooLong);
            return Err(io::Error::other("too long"));
        }
        if since / CHECKED_BYTES > checked
            && let Err(error) = could_have(since.saturating_mul(place.copies).min(isize::MAX as usize))
        {
            place.failed = Some(Failed::NoMemory(error));
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        place.line_bytes += now.len() as u64;
        let room = LINE_BYTES.saturating_sub(place.line.len());
        match now {
            // The line is too long to be kept; its end must be seen all the same.
            [.., b'\n'] if now.len() > room => place.line.clear(),
            _ => place.line.extend_from_slice(&now[..now.len().min(room)]),
        }
        into[..now.len()].copy_from_slice(now);
        self.passed += now.len();
        Ok(now.len())
    }
}

impl PulledReader {
    /// A reader of this source, which is file number `file` (below 1,112,064). Relative IRIs are resolved against
    /// `base`; if this is not an IRI, it is an error (of line 0). With [`OnError::Skip`] the first error in a file's
    /// grammar ends the file without failing: the data before it stays. Panics for other syntaxes.
    pub fn new(
        source: Box<dyn Read + Send>,
        syntax: Syntax,
        file: u32,
        base: Option<&str>,
        on_error: OnError,
    ) -> Result<PulledReader, SyntaxError> {
        let copies = if syntax == Syntax::JsonLd { 8 } else { 3 };
        let (before, lines, line, line_bytes, since, most) = (0, 0, Vec::new(), 0, 0, usize::MAX);
        let place = Place { before, lines, line, line_bytes, since, most, copies, failed: None };
        let place = Arc::new(Mutex::new(place));
        let watched = Watched { source, place: Arc::clone(&place), buffer: vec![0; READ_BYTES], passed: 0, filled: 0 };
        let parser = match syntax {
            Syntax::RdfXml => {
                let base = base.map(|base| Iri::parse(base.to_owned())).transpose();
                let base = base.map_err(|error| no_base(file, error))?;
                Parser::Xml(Box::new(RdfXmlReader::new(watched, base)))
            }
            Syntax::JsonLd => {
                if let Some(base) = base {
                    Iri::parse(base).map_err(|error| no_base(file, error))?;
                }
                let base = base.map(str::to_owned);
                Parser::Json(Box::new(Document { source: watched, base, text: Vec::new() }))
            }
            other => panic!("{other:?} is not read by its parser"),
        };
        Ok(PulledReader { parser, statements: Statements::new(file, on_error), place })
    }

    /// Sets another key for its hashes; see [`Parsed::of_seed`]. Call it before the first statement is read.
    pub fn of_seed(mut self, seed: u64) -> PulledReader {
        self.statements = self.statements.of_seed(seed);
        self
    }

    /// Sets whether to take triple terms, base directions and the syntax of RDF 1.2, or to refuse them. Call it before
    /// anything is read.
    pub fn with_rdf_12(mut self, rdf_12: bool) -> PulledReader {
        self.statements.parsed.rdf_12 = rdf_12;
        self
    }

    /// Sets the longest accepted IRI; by default [`LONGEST_IRI`](super::LONGEST_IRI) bytes.
    pub fn with_longest_iri(mut self, bytes: usize) -> PulledReader {
        self.statements.longest_iri = bytes;
        self
    }

    /// Sets a function to call whenever the parsed data has grown by much.
    pub(super) fn telling(mut self, grown: Grown) -> PulledReader {
        self.statements.tell(grown);
        self
    }

    /// Adds to the parsed data of other files. Call it before the first statement is read.
    pub(crate) fn adding_to(mut self, parsed: Parsed) -> PulledReader {
        self.statements.parsed = parsed;
        self
    }

    /// Makes more bytes than this without a statement an error, or for JSON-LD more bytes at all.
    pub(crate) fn with_longest(self, most: usize) -> PulledReader {
        lock(&self.place).most = most;
        let mut reader = self;
        if let Parser::Xml(parser) = &mut reader.parser {
            parser.set_most_longer(most);
        }
        reader
    }

    /// The data parsed so far.
    pub fn parsed(&self) -> &Parsed {
        &self.statements.parsed
    }

    /// How many bytes were read.
    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.place).bytes()
    }

    /// Parses the rest of the file.
    pub fn finish(mut self) -> Result<Parsed, SyntaxError> {
        while self.pull(usize::MAX, &|| false).map_err(|ended| match ended {
            Ended::Unparsed(error) => error.malformed(),
            Ended::Unreadable(error) => {
                let (line, column) = self.here();
                SyntaxError::new(self.statements.file, line, column, &error.to_string())
            }
            Ended::TooLong(_) | Ended::Stopped => unreachable!("there is no limit, and nothing stops it"),
        })? {}
        Ok(self.statements.parsed)
    }

    pub(crate) fn parsed_mut(&mut self) -> &mut Parsed {
        &mut self.statements.parsed
    }

    /// Takes the data parsed since the last call.
    pub(crate) fn take_parsed(&mut self) -> Parsed {
        self.statements.parsed.take()
    }

    /// Parses up to `count` statements; false at the end of the file. Reading may block.
    pub(crate) fn pull(&mut self, count: usize, stopped: &dyn Fn() -> bool) -> Result<bool, Ended> {
        let Parser::Xml(parser) = &mut self.parser else { return self.document(stopped).map(|()| false) };
        let (place, found) = (Arc::clone(&self.place), Cell::new(0));
        let mut told = || {
            lock(&place).since = 0;
            found.set(found.get() + 1);
        };
        for step in 0_usize.. {
            if step.is_multiple_of(BETWEEN_STOPS) && stopped() {
                return Err(Ended::Stopped);
            }
            if found.get() >= count {
                return Ok(true);
            }
            let message = match parser.step(&mut self.statements, &mut told) {
                Ok(true) => continue,
                Ok(false) => return Ok(false),
                Err(stop) => stop.message(),
            };
            let message = match message {
                Ok(message) => message,
                Err(Ended::Unreadable(error)) => return Err(self.unreadable(error)),
                Err(Ended::TooLong(_)) => return Err(Ended::TooLong(parser.place().0)),
                Err(ended) => return Err(ended),
            };
            let (line, column) = parser.place();
            let error = SyntaxError::new(self.statements.file, line, column, &message);
            self.statements.refuse(error, self.statements.on_error)?;
            // The rest can't be understood.
            return Ok(false);
        }
        Ok(true)
    }

    /// Reads a whole document of JSON-LD.
    fn document(&mut self, stopped: &dyn Fn() -> bool) -> Result<(), Ended> {
        let Parser::Json(document) = &mut self.parser else { unreachable!("the caller has seen that it is JSON-LD") };
        let Document { source, base, text } = &mut **document;
        let mut piece = vec![0; READ_BYTES];
        loop {
            if stopped() {
                return Err(Ended::Stopped);
            }
            let read = match source.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.unreadable(error)),
            };
            text.grow(read)?;
            text.extend_from_slice(&piece[..read]);
        }
        let (text, base) = (std::mem::take(text), base.take());
        let (bytes, utf8) = match str::from_utf8(&text) {
            Ok(text) => (text, Ok(())),
            Err(error) => (str::from_utf8(&text[..error.valid_up_to()]).expect("it is valid up to there"), Err(())),
        };
        let whole = bytes.strip_prefix('\u{FEFF}').unwrap_or(bytes);
        self.statements.set_beside(TREE_COPIES * text.len() as u64)?;
        let outcome = jsonld::read(whole, base.as_deref(), &mut self.statements, stopped);
        self.statements.parsed.beside = 0;
        let (message, at) = match outcome {
            Ok(()) if utf8.is_ok() => return Ok(()),
            Ok(()) => ("this is no UTF-8".to_owned(), None),
            Err(Fault::Wrong(_, Some(at))) if utf8.is_err() && at + 3 >= whole.len() => {
                ("this is no UTF-8".to_owned(), None)
            }
            Err(Fault::Wrong(message, at)) => (message, at),
            Err(Fault::Stopped) => return Err(Ended::Stopped),
            Err(Fault::Ended(ended)) => return Err(ended),
        };
        let before = &whole[..at.unwrap_or(whole.len())];
        let line = before.bytes().filter(|&byte| byte == b'\n').count() as u64 + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() as u64 + 1;
        let error = SyntaxError::new(self.statements.file, line, column, &message);
        Ok(self.statements.refuse(error, self.statements.on_error)?)
    }

    /// The parser's place.
    fn here(&self) -> (u64, u64) {
        match &self.parser {
            Parser::Xml(parser) => parser.place(),
            Parser::Json(_) => {
                let place = lock(&self.place);
                place.of(place.bytes())
            }
        }
    }

    fn unreadable(&self, error: io::Error) -> Ended {
        let mut place = lock(&self.place);
        match place.failed.take() {
            Some(Failed::TooLong) => Ended::TooLong(place.lines + 1),
            Some(Failed::NoMemory(error)) => Ended::Unparsed(error.into()),
            None => Ended::Unreadable(error),
        }
    }
}
