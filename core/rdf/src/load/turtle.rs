//! Turtle, which can't be cut: fed buffer after buffer to oxttl, taken away piece by piece.

use super::{OnError, Parsed, SyntaxError};
use oxrdf::{BlankNodeRef, NamedOrBlankNodeRef, TermRef, TripleRef};
use oxttl::TurtleParser;
use oxttl::turtle::LowLevelTurtleParser;
use rustc_hash::FxHashMap;

/// So many errors on one line, and the file isn't Turtle.
const ERRORS_ON_A_LINE: u32 = 100;

/// oxttl keeps a line as long as it can, so it gets a long buffer in parts.
const FEED_BYTES: usize = 1 << 20;

/// oxttl's nameless blank nodes have 128 random bits; shorter hexadecimal labels are what the file says.
const LEAST_RANDOM: u128 = 1 << 64;

/// Parses a Turtle file that comes in buffers of any size.
///
/// ```
/// use vicus_rdf::load::{OnError, TurtleReader};
/// let mut reader = TurtleReader::new(0, None, OnError::Fail)?;
/// reader.feed(b"@prefix e: <http://e/> . e:a e:p e:b , [ e:p ")?;
/// let first = reader.take();
/// reader.feed(b"e:c ] .")?;
/// let second = reader.finish()?;
/// assert_eq!((first.triples().len(), second.triples().len()), (1, 2));
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
pub struct TurtleReader {
    parser: LowLevelTurtleParser,
    file: u32,
    on_error: OnError,
    parsed: Parsed,
    /// The nameless blank nodes so far by oxttl's random name, which must not be seen outside: chance is a seed.
    nameless: FxHashMap<u128, u32>,
    /// The line of the last error, and how many it had.
    errors: (u64, u32),
}

impl TurtleReader {
    /// For file number `file` (below 1,112,064). Relative IRIs are resolved against `base`; it is an error (of line 0)
    /// if that is not an IRI.
    ///
    /// With [`OnError::Skip`], parsing goes on where oxttl recovers, which is after the wrong token, as if a statement
    /// began there; each error is counted in [`Parsed::skipped`], and what the statement had said before stays. The
    /// hundredth error on one line always fails.
    pub fn new(file: u32, base: Option<&str>, on_error: OnError) -> Result<TurtleReader, SyntaxError> {
        let mut parser = TurtleParser::new();
        if let Some(base) = base {
            parser = parser
                .with_base_iri(base)
                .map_err(|error| SyntaxError::new(file, 0, 0, &format!("the base must be an IRI: {error}")))?;
        }
        Ok(TurtleReader {
            parser: parser.low_level(),
            file,
            on_error,
            parsed: Parsed::default(),
            nameless: FxHashMap::default(),
            errors: (0, 0),
        })
    }

    /// Parses what follows. After an error, nothing more should be fed.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), SyntaxError> {
        for part in bytes.chunks(FEED_BYTES) {
            self.parser.extend_from_slice(part);
            self.drain()?;
        }
        Ok(())
    }

    /// Takes what was parsed since the last time. Its blank nodes are the same ones as in the other pieces.
    pub fn take(&mut self) -> Parsed {
        std::mem::take(&mut self.parsed)
    }

    /// What was parsed since it was taken last.
    pub fn parsed(&self) -> &Parsed {
        &self.parsed
    }

    /// Parses the end of the file.
    pub fn finish(mut self) -> Result<Parsed, SyntaxError> {
        self.parser.end();
        self.drain()?;
        Ok(self.parsed)
    }

    fn drain(&mut self) -> Result<(), SyntaxError> {
        while let Some(triple) = self.parser.parse_next() {
            match triple {
                Ok(triple) => self.push(triple.as_ref()),
                Err(error) => {
                    let place = error.location().start;
                    let error = SyntaxError::new(self.file, place.line + 1, place.column + 1, error.message());
                    self.errors = (error.line, if self.errors.0 == error.line { self.errors.1 + 1 } else { 1 });
                    // Each error costs oxttl a look at the line from its start.
                    let on_error = if self.errors.1 == ERRORS_ON_A_LINE { OnError::Fail } else { self.on_error };
                    self.parsed.refuse(error, on_error)?;
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, triple: TripleRef<'_>) {
        let subject = match triple.subject {
            NamedOrBlankNodeRef::NamedNode(node) => self.parsed.intern(node.into(), self.file),
            NamedOrBlankNodeRef::BlankNode(node) => self.blank(node),
        };
        let predicate = self.parsed.intern(triple.predicate.into(), self.file);
        let object = match triple.object {
            TermRef::BlankNode(node) => self.blank(node),
            term => self.parsed.intern(term, self.file),
        };
        self.parsed.triples.push([subject, predicate, object]);
    }

    fn blank(&mut self, node: BlankNodeRef<'_>) -> u32 {
        match node.unique_id().filter(|&id| id >= LEAST_RANDOM) {
            Some(id) => {
                let next = u32::try_from(self.nameless.len()).expect("fewer than 2^32 nameless blank nodes in a file");
                let number = *self.nameless.entry(id).or_insert(next);
                self.parsed.terms.intern(self.parsed.encoder.nameless(self.file, number))
            }
            None => self.parsed.intern(node.into(), self.file),
        }
    }
}

/// Parses a whole Turtle file; see [`TurtleReader::new`].
///
/// ```
/// use vicus_rdf::load::{OnError, parse_turtle};
/// let error = parse_turtle(b"<a> <b> \"c\" .", 0, None, OnError::Fail).unwrap_err();
/// assert_eq!((error.line, error.column), (1, 1)); // A relative IRI needs a base.
/// assert_eq!(parse_turtle(b"<a> <b> \"c\" .", 0, Some("http://e/"), OnError::Fail)?.triples().len(), 1);
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
pub fn parse_turtle(bytes: &[u8], file: u32, base: Option<&str>, on_error: OnError) -> Result<Parsed, SyntaxError> {
    let mut reader = TurtleReader::new(file, base, on_error)?;
    reader.feed(bytes)?;
    reader.finish()
}
