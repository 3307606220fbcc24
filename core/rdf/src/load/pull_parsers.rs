//! RDF/XML and JSON-LD. Their parsers read from the source themselves. A layer in between ends overlong statements.

use super::jsonld::{self, Fault};
use super::rdfxml::RdfXmlReader;
use super::statements::{Grown, Statements};
use super::turtle::no_base;
use super::{OnError, ParsedPart, Syntax, SyntaxError, Unparsed, could_have};
use memchr::memchr;
use oxiri::Iri;
use std::cell::Cell;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard};
use vicus_flow::{Grow, NoMemory};

/// Parses a file of RDF/XML or JSON-LD, some statements at a time. Panics if there is not enough memory.
///
/// JSON-LD is held in memory as a whole, because names may be explained behind their use; of a list, only some items at
/// a time. It can't refer to contexts elsewhere.
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

/// A document of JSON-LD. A list is read in parts of some items, and anything else as a whole.
struct Document {
    source: Watched,
    base: Option<String>,
    /// The text that was read and not parsed.
    text: Vec<u8>,
    /// Room for the next read.
    piece: Vec<u8>,
    items: jsonld::Items,
    /// The end of the last whole item in the text.
    cut: Option<usize>,
    /// The line feeds in the parts before, and the characters behind the last one; `None` if there are none.
    before: Option<(u64, u64)>,
}

/// Why a file was not parsed further.
#[derive(Debug)]
pub(crate) enum Ended {
    Unparsed(Unparsed),
    Unreadable(io::Error),
    /// About on this line there are more bytes without a statement than may be, of JSON-LD without the end of an item.
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
    /// Bytes since the last statement; of JSON-LD, since the last item of a list, or all.
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

/// A part of a list of JSON-LD has about this number of bytes, or a single item.
const PART_BYTES: usize = 1 << 20;

/// The bytes of a part of JSON-LD as a tree, for each byte of its text, unless it is made to need many.
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
                let document = Document {
                    source: watched,
                    base,
                    text: Vec::new(),
                    piece: vec![0; READ_BYTES],
                    items: jsonld::Items::default(),
                    cut: None,
                    before: None,
                };
                Parser::Json(Box::new(document))
            }
            other => panic!("{other:?} is not read by its parser"),
        };
        Ok(PulledReader { parser, statements: Statements::new(file, on_error), place })
    }

    /// Sets another key for its hashes; see [`ParsedPart::of_seed`]. Call it before the first statement is read.
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
    pub(crate) fn adding_to(mut self, parsed: ParsedPart) -> PulledReader {
        self.statements.parsed = parsed;
        self
    }

    /// Makes more bytes than this without a statement an error, or for JSON-LD more bytes of an item of a list or of a
    /// document that is no list.
    pub(crate) fn with_longest(self, most: usize) -> PulledReader {
        lock(&self.place).most = most;
        let mut reader = self;
        if let Parser::Xml(parser) = &mut reader.parser {
            parser.set_most_longer(most);
        }
        reader
    }

    /// The data parsed so far.
    pub fn parsed(&self) -> &ParsedPart {
        &self.statements.parsed
    }

    /// How many bytes were read.
    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.place).bytes()
    }

    /// Parses the rest of the file.
    pub fn finish(mut self) -> Result<ParsedPart, SyntaxError> {
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

    pub(crate) fn parsed_mut(&mut self) -> &mut ParsedPart {
        &mut self.statements.parsed
    }

    /// Takes the data parsed since the last call.
    pub(crate) fn take_parsed(&mut self) -> ParsedPart {
        self.statements.parsed.take()
    }

    /// Parses up to `count` statements; false at the end of the file. Reading may block.
    pub(crate) fn pull(&mut self, count: usize, stopped: &dyn Fn() -> bool) -> Result<bool, Ended> {
        let parser = match &mut self.parser {
            Parser::Xml(parser) => parser,
            Parser::Json(_) => return self.document(stopped),
        };
        let (place, found) = (Arc::clone(&self.place), Cell::new(0_usize));
        let mut told = || {
            lock(&place).since = 0;
            found.set(found.get() + 1);
            // An element may have many attributes.
            found.get().is_multiple_of(BETWEEN_STOPS) && stopped()
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

    /// Reads the next part of a document of JSON-LD; false at its end.
    fn document(&mut self, stopped: &dyn Fn() -> bool) -> Result<bool, Ended> {
        let Parser::Json(document) = &mut self.parser else { unreachable!("the caller has seen that it is JSON-LD") };
        let Document { source, text, piece, items, cut, .. } = &mut **document;
        let is_last = loop {
            if cut.is_some_and(|cut| cut >= PART_BYTES) {
                break false;
            }
            if stopped() {
                return Err(Ended::Stopped);
            }
            let read = match source.read(piece) {
                Ok(0) => break true,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.unreadable(error)),
            };
            text.grow(read)?;
            if let Some(end) = items.last_end(&piece[..read]) {
                *cut = Some(text.len() + end);
                lock(&self.place).since = read - end;
            }
            text.extend_from_slice(&piece[..read]);
        };
        let is_wrong = self.part(is_last, stopped)?;
        Ok(!is_last && !is_wrong)
    }

    /// Reads the text of a document up to its cut, or its rest. Whether there was an error: then the rest can't be
    /// understood.
    fn part(&mut self, is_last: bool, stopped: &dyn Fn() -> bool) -> Result<bool, Ended> {
        let Parser::Json(document) = &mut self.parser else { unreachable!("the caller has seen that it is JSON-LD") };
        let Document { base, text, cut, before, .. } = &mut **document;
        let rest = match cut.take().filter(|_| !is_last) {
            Some(cut) => {
                let mut rest = Vec::with_room(text.len() - cut)?;
                rest.extend_from_slice(&text[cut..]);
                text.truncate(cut);
                rest
            }
            None => Vec::new(),
        };
        let text = std::mem::replace(text, rest);
        let (bytes, utf8) = match str::from_utf8(&text) {
            Ok(text) => (text, Ok(())),
            Err(error) => (str::from_utf8(&text[..error.valid_up_to()]).expect("it is valid up to there"), Err(())),
        };
        let part = jsonld::Part { is_first: before.is_none(), is_last };
        let whole = if part.is_first { bytes.strip_prefix('\u{FEFF}').unwrap_or(bytes) } else { bytes };
        self.statements.set_beside(TREE_COPIES * text.len() as u64)?;
        let outcome = jsonld::read(whole, part, base.as_deref(), &mut self.statements, stopped);
        self.statements.parsed.beside = 0;
        // Line feeds before this part, and characters behind the last one.
        let (lines, characters) = before.unwrap_or_default();
        let place_of = |text: &str| {
            let feeds = text.bytes().filter(|&byte| byte == b'\n').count() as u64;
            let last = text.rsplit('\n').next().unwrap_or_default().chars().count() as u64;
            (lines + feeds, if feeds == 0 { characters + last } else { last })
        };
        let (message, at) = match outcome {
            Ok(()) if utf8.is_ok() => {
                *before = Some(place_of(whole));
                return Ok(false);
            }
            Ok(()) => ("this is no UTF-8".to_owned(), None),
            Err(Fault::Wrong(_, Some(at))) if utf8.is_err() && at + 3 >= whole.len() => {
                ("this is no UTF-8".to_owned(), None)
            }
            Err(Fault::Wrong(message, at)) => (message, at),
            Err(Fault::Stopped) => return Err(Ended::Stopped),
            Err(Fault::Ended(ended)) => return Err(ended),
        };
        let (line, column) = place_of(&whole[..at.unwrap_or(whole.len())]);
        let error = SyntaxError::new(self.statements.file, line + 1, column + 1, &message);
        self.statements.refuse(error, self.statements.on_error)?;
        Ok(true)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a text and asks at each question whether it is the one to stop at: the number of questions, and of quads.
    fn asked(syntax: Syntax, text: &str, stops_at: usize) -> (usize, usize, bool) {
        let source = io::Cursor::new(text.as_bytes().to_vec());
        let mut reader = PulledReader::new(Box::new(source), syntax, 0, Some("http://e/"), OnError::Fail).unwrap();
        let asked = Cell::new(0);
        let stopped = || {
            asked.set(asked.get() + 1);
            asked.get() == stops_at
        };
        let ended = loop {
            match reader.pull(4096, &stopped) {
                Ok(true) => {}
                Ok(false) => break false,
                Err(Ended::Stopped) => break true,
                Err(ended) => panic!("{ended:?}"),
            }
        };
        (asked.get(), reader.parsed().quads().len(), ended)
    }

    /// What happened: with attributes and contexts that took time in the square of their number, reading went on for
    /// long behind the time limit of its request.
    #[test]
    fn reading_asks_whether_it_is_to_stop() {
        let xml = |body: &str| {
            format!(
                "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\" \
                    xmlns:e=\"http://e/\">{body}</rdf:RDF>"
            )
        };
        let attributes: String = (0..100_000).map(|n| format!(" e:a{n}=\"v\"")).collect();
        let nested = |levels: usize| {
            let open: String = (0..levels).map(|n| format!("<e:C{n}><e:p>")).collect();
            let close: String = (0..levels).rev().map(|n| format!("</e:p></e:C{n}>")).collect();
            format!("{open}{close}")
        };
        let terms: String = (0..12_500).map(|n| format!("\"t{n}\":\"t{}:x\",", n + 1)).collect();
        let many: String = (0..50_000).map(|n| format!("\"t{n}\":\"http://e/{n}\",")).collect();
        let few: String = (0..800).map(|n| format!("\"t{n}\":\"http://e/{n}\",")).collect();
        let each = format!("{{\"@context\":{{{few}\"x\":\"http://e/x\"}},\"x\":1}}");
        let node = |n: usize| format!("{{\"@id\":\"n{n}\",\"http://e/p\":[{{\"@value\":\"v\"}},{n}]}}");
        let nodes = |count: usize| (0..count).map(node).collect::<Vec<_>>().join(",\n");
        let texts = [
            (Syntax::RdfXml, "attributes", xml(&format!("<e:C{attributes}/>")), 1000),
            (Syntax::RdfXml, "elements", xml(&"<e:C><e:p>v</e:p></e:C>".repeat(50_000)), 500),
            (Syntax::RdfXml, "levels", xml(&nested(1000)), 15),
            (Syntax::RdfXml, "a long text", xml(&format!("<e:C><e:p>{}</e:p></e:C>", "v &lt; ".repeat(1 << 20))), 1),
            (
                Syntax::RdfXml,
                "empty elements of a collection",
                xml(&format!(
                    "<e:C><e:p rdf:parseType=\"Collection\">{}</e:p></e:C>",
                    "<rdf:Description/>".repeat(50_000)
                )),
                500,
            ),
            (
                Syntax::RdfXml,
                "an XML literal",
                xml(&format!("<e:C><e:p rdf:parseType=\"Literal\">{}</e:p></e:C>", "<b>v</b>".repeat(100_000))),
                500,
            ),
            (Syntax::JsonLd, "a list of nodes", format!("[{}]", nodes(50_000)), 50),
            (Syntax::JsonLd, "a graph", format!("{{\"@graph\":[{}]}}", nodes(50_000)), 50),
            (
                Syntax::JsonLd,
                "a context of many terms",
                format!("{{\"@context\":{{{many}\"x\":\"http://e/x\"}},\"x\":1}}"),
                10,
            ),
            (Syntax::JsonLd, "a context for each node", format!("[{}]", vec![each; 100].join(",")), 10),
            (Syntax::JsonLd, "values", format!("{{\"@id\":\"n\",\"http://e/p\":[{}1]}}", "1,".repeat(1 << 20)), 100),
            (
                Syntax::JsonLd,
                "a long string",
                format!("[{{\"@id\":\"n\",\"http://e/p\":\"{}\"}}]", "\\u0041".repeat(1 << 20)),
                10,
            ),
        ];
        for (syntax, name, text, least) in &texts {
            let (questions, quads, stopped) = asked(*syntax, text, usize::MAX);
            println!("{name}: {questions} questions, {quads} quads of {} bytes", text.len());
            assert!(!stopped && questions >= *least, "{name}: {questions} questions");
            for stops_at in [1, questions / 2, questions] {
                let (asked, read, stopped) = asked(*syntax, text, stops_at.max(1));
                assert!(
                    stopped && asked == stops_at.max(1) && read <= quads,
                    "{name}: {asked} questions, {read} quads"
                );
            }
            assert_eq!(asked(*syntax, text, 1).1, 0, "{name}: nothing was read before the first question");
        }
        // A chain of terms is refused, and soon.
        let chain = format!("{{\"@context\":{{{terms}\"t12500\":\"http://e/\"}},\"t0\":1}}");
        let source = io::Cursor::new(chain.into_bytes());
        let reader = PulledReader::new(Box::new(source), Syntax::JsonLd, 0, None, OnError::Fail).unwrap();
        let error = reader.finish().expect_err("a chain is too long");
        println!("{error}");
    }
}
