//! A document, piece by piece, for those that keep no store.

use super::Unparsed;
use super::flow::{LoadError, LoadSource, Malformed};
use super::ntriples::parse_lines;
use super::pull_parsers::Ended;
use super::{
    Chunk, Chunker, LONGEST_IRI, LONGEST_LINE, OnError, ParsedPart, PulledReader, Syntax, SyntaxError, TurtleReader,
};
use std::fmt;
use std::io::{self, Read};
use vicus_flow::{BoxError, FlowError, Grow};

/// Text read for a piece, unless a line is longer.
const PIECE_BYTES: usize = 64 << 10;

/// Statements of a piece, where the parser reads by itself.
const PIECE_STATEMENTS: usize = 1024;

/// Reads a document piece by piece: the statements in some of its text at a time.
///
/// Equal blank nodes of different pieces have equal names. The limits of a line and of an IRI are those of
/// [`LoadOptions::default`](super::LoadOptions).
///
/// ```
/// use vicus_rdf::load::{Pieces, LoadSource, Syntax};
///
/// let source = LoadSource::new("a.ttl", Syntax::Turtle, &b"<a> <p> _:x . _:x <p> 1 ."[..]).with_base("http://e/");
/// let mut pieces = Pieces::new(source, false)?;
/// let mut objects = Vec::new();
/// while let Some(piece) = pieces.next(&|| false)? {
///     objects.extend(piece.quads().triples.iter().map(|triple| piece.term(triple[2]).to_string()));
/// }
/// assert_eq!(objects, ["_:x", "\"1\"^^<http://www.w3.org/2001/XMLSchema#integer>"]);
/// # Ok::<(), vicus_flow::BoxError>(())
/// ```
pub struct Pieces {
    name: String,
    rdf_12: bool,
    /// `None` at the end of the document.
    format: Option<Format>,
}

enum Format {
    Lines { reader: Box<dyn Read + Send>, syntax: Syntax, chunker: Chunker, buffer: Vec<u8> },
    Turtle { reader: Box<dyn Read + Send>, parser: Box<TurtleReader>, buffer: Vec<u8> },
    Pulled(Box<PulledReader>),
}

impl Pieces {
    /// A reader of a source. `rdf_12` says whether triple terms, base directions and the syntax of RDF 1.2 are taken;
    /// otherwise each is an error.
    ///
    /// # Errors
    /// The base is no IRI.
    pub fn new(source: LoadSource, rdf_12: bool) -> Result<Pieces, LoadError> {
        let LoadSource { name, syntax, base, reader } = source;
        let format = match open(syntax, base.as_deref(), reader, rdf_12) {
            Ok(format) => Some(format),
            Err(error) => return Err(LoadError::Malformed(Malformed { name, error })),
        };
        Ok(Pieces { name, rdf_12, format })
    }

    /// The next statements, in no particular order; none at the end of the document. A piece may be empty. Reading may
    /// block. `is_stopped` is asked from time to time.
    ///
    /// # Errors
    /// [`LoadError`]; [`NoMemory`](vicus_flow::NoMemory); [`FlowError::Cancelled`] if it was stopped.
    pub fn next(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<Option<ParsedPart>, BoxError> {
        let Some(format) = self.format.take() else { return Ok(None) };
        match format.next(self.rdf_12, is_stopped) {
            Ok((parsed, format)) => {
                self.format = format;
                Ok(Some(parsed))
            }
            Err(ended) => Err(self.named(ended)),
        }
    }

    fn named(&self, ended: Ended) -> BoxError {
        let name = self.name.clone();
        match ended {
            Ended::Unparsed(Unparsed::Malformed(error)) => LoadError::Malformed(Malformed { name, error }).into(),
            Ended::Unparsed(Unparsed::NoMemory(error)) => error.into(),
            Ended::Unreadable(error) => LoadError::Unreadable { name, error }.into(),
            Ended::TooLong(line) => LoadError::TooLong { name, line, limit: LONGEST_LINE }.into(),
            Ended::Stopped => FlowError::Cancelled.into(),
        }
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pieces").field("name", &self.name).finish_non_exhaustive()
    }
}

fn open(syntax: Syntax, base: Option<&str>, reader: Box<dyn Read + Send>, rdf_12: bool) -> Result<Format, SyntaxError> {
    let on_error = OnError::Fail;
    Ok(match syntax {
        Syntax::NTriples | Syntax::NQuads => {
            Format::Lines { reader, syntax, chunker: Chunker::new(usize::MAX), buffer: Vec::new() }
        }
        Syntax::Turtle | Syntax::TriG => {
            let begin = if syntax == Syntax::TriG { TurtleReader::trig } else { TurtleReader::new };
            let parser = Box::new(begin(0, base, on_error)?.with_rdf_12(rdf_12));
            Format::Turtle { reader, parser, buffer: Vec::new() }
        }
        Syntax::RdfXml | Syntax::JsonLd => {
            let parser = PulledReader::new(reader, syntax, 0, base, on_error)?;
            Format::Pulled(Box::new(parser.with_rdf_12(rdf_12).with_longest(LONGEST_LINE)))
        }
    })
}

impl Format {
    /// The next piece, and what goes on behind it.
    fn next(self, rdf_12: bool, is_stopped: &dyn Fn() -> bool) -> Result<(ParsedPart, Option<Format>), Ended> {
        match self {
            Format::Lines { mut reader, syntax, mut chunker, mut buffer } => {
                let is_last = read(&mut *reader, &mut buffer)?;
                let mut parsed = ParsedPart::default().with_rdf_12(rdf_12);
                let (chunks, used) = chunker.cut(&buffer, is_last);
                for chunk in chunks {
                    parse(&mut parsed, chunk, syntax)?;
                }
                buffer.drain(..used);
                if buffer.len() > LONGEST_LINE {
                    return Err(Ended::TooLong(chunker.next_line()));
                }
                Ok((parsed, (!is_last).then_some(Format::Lines { reader, syntax, chunker, buffer })))
            }
            Format::Turtle { mut reader, mut parser, mut buffer } => {
                buffer.clear();
                let is_last = read(&mut *reader, &mut buffer)?;
                parser.try_feed(&buffer, is_stopped)?;
                if is_last {
                    return Ok((parser.try_finish(is_stopped)?, None));
                }
                let (bytes, line) = parser.unfinished();
                if bytes > LONGEST_LINE {
                    return Err(Ended::TooLong(line));
                }
                Ok((parser.take(), Some(Format::Turtle { reader, parser, buffer })))
            }
            Format::Pulled(mut parser) => {
                let goes_on = parser.pull(PIECE_STATEMENTS, is_stopped)?;
                Ok((parser.take_parsed(), goes_on.then_some(Format::Pulled(parser))))
            }
        }
    }
}

fn parse(parsed: &mut ParsedPart, chunk: Chunk<'_>, syntax: Syntax) -> Result<(), Ended> {
    Ok(parse_lines(parsed, chunk, syntax, 0, OnError::Fail, LONGEST_IRI)?)
}

/// Appends some text to a buffer. A long line doubles it. True at the end of the source.
fn read(reader: &mut (dyn Read + Send), buffer: &mut Vec<u8>) -> Result<bool, Ended> {
    let room = buffer.len().max(PIECE_BYTES);
    buffer.grow(room).map_err(Unparsed::from)?;
    let before = buffer.len();
    match reader.take(room as u64).read_to_end(buffer) {
        Ok(_) => Ok(buffer.len() - before < room),
        Err(error) => Err(unreadable(error, room)),
    }
}

fn unreadable(error: io::Error, bytes: usize) -> Ended {
    if error.kind() == io::ErrorKind::OutOfMemory {
        return Ended::Unparsed(vicus_flow::NoMemory { bytes: bytes as u64 }.into());
    }
    Ended::Unreadable(error)
}
