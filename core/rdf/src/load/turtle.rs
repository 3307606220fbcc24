//! Turtle, which can't be cut: fed buffer after buffer to oxttl, taken away piece by piece.

use super::{OnError, Parsed, SyntaxError, Unparsed, could_have, text_bytes};
use hashbrown::HashMap;
use memchr::memchr_iter;
use oxrdf::{BlankNodeRef, NamedOrBlankNodeRef, TermRef, TripleRef};
use oxttl::TurtleParser;
use oxttl::turtle::LowLevelTurtleParser;
use vicus_flow::library::HashKey;
use vicus_flow::{Grow, NoMemory};

/// So many errors on one line, and the file isn't Turtle.
const ERRORS_ON_A_LINE: u32 = 100;

/// oxttl keeps a line as long as it can, so it gets a long buffer in parts.
const FEED_BYTES: usize = 1 << 20;

/// oxttl's nameless blank nodes have 128 random bits; shorter hexadecimal labels are what the file says.
const LEAST_RANDOM: u128 = 1 << 64;

/// Parses a Turtle file that comes in buffers of any size. Panics where memory can't be had.
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
    nameless: HashMap<u128, u32, HashKey>,
    /// The line of the last error, and how many it had.
    errors: (u64, u32),
    /// What oxttl has not got yet. It looks at an unfinished token from its beginning each time that it gets more, so after a
    /// portion that finished nothing it gets the next one when that is as long as all such portions together: then the time is
    /// linear in the token's length.
    waiting: Vec<u8>,
    /// Bytes of the portions that came since anything was finished, and their line feeds.
    unfinished: usize,
    unfinished_lines: u64,
    /// Line feeds before those.
    lines: u64,
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
            nameless: HashMap::default(),
            errors: (0, 0),
            waiting: Vec::new(),
            unfinished: 0,
            unfinished_lines: 0,
            lines: 0,
        })
    }

    /// The same with another key for its hashes; see [`Parsed::of_seed`]. To be called before anything is fed.
    pub fn of_seed(mut self, seed: u64) -> TurtleReader {
        self.parsed = Parsed::of_seed(seed);
        self.nameless = HashMap::with_hasher(HashKey::of_seed(seed));
        self
    }

    /// Parses what follows, except for a part that may wait until there is more of it. After an error, nothing more should be
    /// fed.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), SyntaxError> {
        self.try_feed(bytes).map_err(Unparsed::malformed)
    }

    /// As [`TurtleReader::feed`]; memory that can't be had is an error.
    pub(crate) fn try_feed(&mut self, bytes: &[u8]) -> Result<(), Unparsed> {
        for part in bytes.chunks(FEED_BYTES) {
            self.waiting.grow(part.len())?;
            self.waiting.extend_from_slice(part);
            if self.waiting.len() >= self.unfinished {
                self.pass_on()?;
            }
        }
        Ok(())
    }

    /// Parses what waits.
    fn pass_on(&mut self) -> Result<(), Unparsed> {
        let waiting = std::mem::take(&mut self.waiting);
        // oxttl keeps what is unfinished, in a buffer that doubles, and copies the token that it was.
        could_have(3 * (self.unfinished + waiting.len()))?;
        self.parser.extend_from_slice(&waiting);
        self.unfinished += waiting.len();
        self.unfinished_lines += memchr_iter(b'\n', &waiting).count() as u64;
        if self.drain()? {
            self.unfinished = 0;
            self.lines += std::mem::take(&mut self.unfinished_lines);
        }
        // The room is used again, unless a long token has made it long.
        if waiting.capacity() <= 2 * FEED_BYTES {
            self.waiting = waiting;
            self.waiting.clear();
        }
        Ok(())
    }

    /// How many bytes it keeps that may be the beginning of one triple, and the line where they begin; up to a buffer more than
    /// there are, and a line before. A quotation mark too many makes a literal of the rest of a file.
    pub fn unfinished(&self) -> (usize, u64) {
        (self.unfinished + self.waiting.len(), self.lines + 1)
    }

    /// Takes what was parsed since the last time. Its blank nodes are the same ones as in the other pieces.
    pub fn take(&mut self) -> Parsed {
        self.parsed.take()
    }

    /// What was parsed since it was taken last.
    pub fn parsed(&self) -> &Parsed {
        &self.parsed
    }

    /// Parses the end of the file.
    pub fn finish(self) -> Result<Parsed, SyntaxError> {
        self.try_finish().map_err(Unparsed::malformed)
    }

    /// As [`TurtleReader::finish`]; memory that can't be had is an error.
    pub(crate) fn try_finish(mut self) -> Result<Parsed, Unparsed> {
        self.pass_on()?;
        self.parser.end();
        self.drain()?;
        Ok(self.parsed)
    }

    /// Takes all that oxttl finds in what it has. Says whether that was anything.
    fn drain(&mut self) -> Result<bool, Unparsed> {
        let mut found = false;
        while let Some(triple) = self.parser.parse_next() {
            found = true;
            match triple {
                Ok(triple) => self.push(triple.as_ref())?,
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
        Ok(found)
    }

    fn push(&mut self, triple: TripleRef<'_>) -> Result<(), NoMemory> {
        self.parsed.make_room(text_bytes(triple))?;
        if self.nameless.capacity() - self.nameless.len() < 2 {
            let bytes = 2 * self.nameless.len() * size_of::<(u128, u32)>();
            self.nameless.try_reserve(2).map_err(|_| NoMemory { bytes: bytes as u64 })?;
        }
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
        Ok(())
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

/// Parses a whole Turtle file; see [`TurtleReader::new`]. Panics where memory can't be had.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// oxttl read an unfinished literal from its beginning with each 256 KiB that came: 64 MiB with escapes took 256 looks at
    /// 32 MiB in the mean.
    #[test]
    fn a_long_token_is_looked_at_a_few_times() {
        const BITE: usize = 1 << 10;
        for quote in ["\"", "'''"] {
            let text = format!("<a:s> <a:p> {quote}{}{quote} . <a:s> <a:p> <a:o> .", "\\t".repeat(1 << 20));
            let mut reader = TurtleReader::new(0, None, OnError::Fail).unwrap();
            let mut looks = 0;
            for bite in text.as_bytes().chunks(BITE) {
                reader.feed(bite).unwrap();
                looks += u32::from(reader.waiting.is_empty());
            }
            assert!(looks <= 2 + (text.len() / BITE).ilog2(), "{looks} looks");
            assert_eq!(reader.finish().unwrap().triples().len(), 2);
        }
    }

    #[test]
    fn what_is_unfinished_begins_near_a_line() {
        let mut reader = TurtleReader::new(0, None, OnError::Fail).unwrap();
        reader.feed("<a:s> <a:p> \"one\" .\n".repeat(7).as_bytes()).unwrap();
        assert_eq!(reader.unfinished(), (0, 8));
        reader.feed(b"<a:s> <a:p> '''").unwrap();
        for portion in 1..100 {
            reader.feed(b"two\n").unwrap();
            assert_eq!(reader.unfinished(), (15 + 4 * portion, 8));
        }
        reader.feed(b"''' .\n").unwrap();
        assert_eq!(reader.finish().unwrap().triples().len(), 8);
    }
}
