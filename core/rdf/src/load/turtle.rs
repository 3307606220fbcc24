//! Turtle and TriG. These can't be cut: oxttl receives one buffer after the other, and the parsed pieces are taken out
//! in between.

use super::pull_parsers::Ended;
use super::rdf_12::{Edition, TextItem};
use super::statements::{Grown, Statements};
use super::{MARK, OnError, ParsedPart, SyntaxError, Unparsed, could_have, is_of_rdf_12, too_long_iri};
use memchr::{memchr, memchr_iter, memrchr};
use oxrdf::{GraphNameRef, QuadRef};
use oxttl::trig::LowLevelTriGParser;
use oxttl::turtle::LowLevelTurtleParser;
use oxttl::{TriGParser, TurtleParser, TurtleSyntaxError};
use vicus_flow::Grow;

/// After this many errors on one line, the file is refused.
const ERRORS_ON_A_LINE: u32 = 100;

/// A token that is longer is given to oxttl in parts that double.
const LONG_TOKEN: usize = 256;

/// Text that oxttl may write out for short tokens, in bytes, before this reader asks whether to stop.
const BETWEEN_STOPS: usize = 16 << 20;

/// The least bytes of a written-out token, with the sign behind it.
const SHORT_TOKEN: usize = 4;

/// oxttl keeps a line as long as it can, so it is given a long buffer in parts.
const FEED_BYTES: usize = 1 << 20;

/// Parses a Turtle or TriG file arriving in buffers of any size. Panics if there is not enough memory.
///
/// ```
/// use vicus_rdf::load::{OnError, TurtleReader};
/// let mut reader = TurtleReader::new(0, None, OnError::Fail)?;
/// reader.feed(b"@prefix e: <http://e/> . e:a e:p e:b , [ e:p ")?;
/// let first = reader.take();
/// reader.feed(b"e:c ] .")?;
/// let second = reader.finish()?;
/// assert_eq!((first.quads().len(), second.quads().len()), (1, 2));
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
pub struct TurtleReader {
    parser: Parser,
    statements: Statements,
    /// The line of the last error, and the number of errors on it.
    errors: (u64, u32),
    /// Bytes not passed to oxttl yet. oxttl reads an unfinished token again from its beginning with each portion. So
    /// after a portion that finished nothing, the next one is passed on when it is as long as all such portions
    /// together. This makes the time linear in the token's length.
    waiting: Vec<u8>,
    /// The bytes given to oxttl since the last finished triple; below, their line feeds.
    unfinished: usize,
    unfinished_lines: u64,
    /// The line feeds before those.
    lines: u64,
    edition: Edition,
    /// How many bytes of a mark at the beginning were seen; none is looked for any more if it is `None`.
    mark: Option<usize>,
    /// The characters on the last line so far.
    column: u64,
    /// The bytes of the longest base so far, which prefixes may still have.
    longest_base: usize,
    /// Bytes of possibly written-out tokens since this reader last asked whether to stop.
    written: usize,
    /// How many pieces oxttl was given.
    #[cfg(test)]
    pieces: usize,
}

/// The parser of the grammar. TriG is passed on line by line, so the line of a quad is known.
enum Parser {
    Turtle(LowLevelTurtleParser),
    TriG(LowLevelTriGParser),
}

impl TurtleReader {
    /// A reader of Turtle for file number `file` (below 1,112,064). Relative IRIs are resolved against `base`; if this
    /// is not an IRI, it is an error (of line 0).
    ///
    /// With [`OnError::Skip`], parsing continues where oxttl recovers: after the wrong token, as if a statement began
    /// there. Each error is counted in [`ParsedPart::skipped`], and the triples of the statement before the error stay.
    /// The hundredth error on one line always fails.
    pub fn new(file: u32, base: Option<&str>, on_error: OnError) -> Result<TurtleReader, SyntaxError> {
        let parser = TurtleParser::new();
        let parser = match base {
            Some(base) => parser.with_base_iri(base).map_err(|error| no_base(file, error))?,
            None => parser,
        };
        Ok(TurtleReader::of(Parser::Turtle(parser.low_level()), file, on_error))
    }

    /// Like [`TurtleReader::new`], for TriG.
    ///
    /// ```
    /// use vicus_rdf::load::{OnError, TurtleReader};
    /// let mut reader = TurtleReader::trig(0, None, OnError::Fail)?;
    /// reader.feed(b"@prefix e: <http://e/> .\ne:a e:p e:b .\n e:g { e:a e:p e:c }")?;
    /// let parsed = reader.finish()?;
    /// assert_eq!((parsed.quads().triples.len(), parsed.quads().named.len()), (1, 1));
    /// # Ok::<(), vicus_rdf::SyntaxError>(())
    /// ```
    pub fn trig(file: u32, base: Option<&str>, on_error: OnError) -> Result<TurtleReader, SyntaxError> {
        let parser = TriGParser::new();
        let parser = match base {
            Some(base) => parser.with_base_iri(base).map_err(|error| no_base(file, error))?,
            None => parser,
        };
        Ok(TurtleReader::of(Parser::TriG(parser.low_level()), file, on_error))
    }

    fn of(parser: Parser, file: u32, on_error: OnError) -> TurtleReader {
        let mut reader = TurtleReader {
            parser,
            statements: Statements::new(file, on_error),
            errors: (0, 0),
            waiting: Vec::new(),
            unfinished: 0,
            unfinished_lines: 0,
            lines: 0,
            edition: Edition::default(),
            mark: Some(0),
            column: 0,
            longest_base: 0,
            written: 0,
            #[cfg(test)]
            pieces: 0,
        };
        reader.longest_base = reader.base().len();
        reader
    }

    /// Sets another key for its hashes; see [`ParsedPart::of_seed`]. Call it before [`TurtleReader::feed`].
    pub fn of_seed(mut self, seed: u64) -> TurtleReader {
        self.statements = self.statements.of_seed(seed);
        self
    }

    /// Sets whether to take triple terms, base directions and the syntax of RDF 1.2, or to refuse them. Call it before
    /// anything is read.
    pub fn with_rdf_12(mut self, rdf_12: bool) -> TurtleReader {
        self.statements.parsed.rdf_12 = rdf_12;
        self
    }

    /// Sets the longest accepted IRI; by default [`LONGEST_IRI`](super::LONGEST_IRI) bytes.
    pub fn with_longest_iri(mut self, bytes: usize) -> TurtleReader {
        self.statements.longest_iri = bytes;
        self
    }

    /// Sets a function to call whenever the parsed data has grown by much.
    pub(super) fn telling(mut self, grown: Grown) -> TurtleReader {
        self.statements.tell(grown);
        self
    }

    /// Adds to the parsed data of other files. Call it before [`TurtleReader::feed`].
    pub(crate) fn adding_to(mut self, parsed: ParsedPart) -> TurtleReader {
        self.statements.parsed = parsed;
        self
    }

    /// Parses the next bytes, except for those waiting for more. After an error, don't feed more.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), SyntaxError> {
        self.try_feed(bytes, &|| false).map_err(malformed)
    }

    /// Like [`TurtleReader::feed`]; lack of memory is an error, and so is a request to stop.
    pub(crate) fn try_feed(&mut self, bytes: &[u8], stopped: &dyn Fn() -> bool) -> Result<(), Ended> {
        for part in self.behind_mark(bytes).chunks(FEED_BYTES) {
            self.waiting.grow(part.len())?;
            self.waiting.extend_from_slice(part);
            if self.waiting.len() >= self.unfinished {
                self.pass_on(stopped)?;
            }
        }
        Ok(())
    }

    /// The bytes without the byte order mark at the beginning, as this is not part of the text.
    fn behind_mark<'a>(&mut self, mut bytes: &'a [u8]) -> &'a [u8] {
        while let (Some(seen), Some((&first, rest))) = (self.mark, bytes.split_first()) {
            if first != MARK[seen] {
                self.waiting.extend_from_slice(&MARK[..seen]);
                self.mark = None;
                break;
            }
            bytes = rest;
            self.mark = Some(seen + 1).filter(|&seen| seen < MARK.len());
        }
        bytes
    }

    /// Parses the waiting bytes.
    fn pass_on(&mut self, stopped: &dyn Fn() -> bool) -> Result<(), Ended> {
        let waiting = std::mem::take(&mut self.waiting);
        // oxttl keeps an unfinished token in a doubling buffer, and copies the token.
        could_have(3 * (self.unfinished + waiting.len()))?;
        self.parse(&waiting, stopped)?;
        // The buffer is reused, unless a long token has grown it.
        if waiting.capacity() <= 2 * FEED_BYTES {
            self.waiting = waiting;
            self.waiting.clear();
        }
        Ok(())
    }

    /// Looks for what only RDF 1.2 has, and gives a portion to oxttl in pieces.
    fn parse(&mut self, portion: &[u8], stopped: &dyn Fn() -> bool) -> Result<(), Ended> {
        let takes_all = self.statements.parsed.rdf_12;
        // What was looked at, what was given, and where the piece ends that is looked at.
        let (mut seen, mut given, mut end) = (0, 0, self.end_of_piece(portion, 0));
        loop {
            let Some((passed, length, found)) = self.edition.find(&portion[seen..end]) else {
                seen = end;
                // Each part of a long token is as long as those before, since oxttl reads all of them again with it.
                let is_due = 2 * (seen - given) >= self.long_token() || seen == portion.len();
                if is_due {
                    self.give(&portion[given..seen], stopped)?;
                    given = seen;
                }
                if seen == portion.len() {
                    return Ok(());
                }
                end = self.end_of_piece(portion, seen);
                continue;
            };
            seen += passed;
            if matches!(found, TextItem::Directive | TextItem::LongIri) {
                // With the directive before, so the length of the base is known.
                self.give(&portion[given..seen], stopped)?;
                given = seen;
                end = self.end_of_piece(portion, seen);
                continue;
            }
            if takes_all && found != TextItem::TooDeep {
                continue;
            }
            // Errors before it come first.
            let begin = seen.saturating_sub(length).max(given);
            self.give(&portion[given..begin], stopped)?;
            given = begin;
            let line = self.lines + self.unfinished_lines + 1;
            let column = 1 + self.column.saturating_sub(length.saturating_sub(seen) as u64);
            let error = SyntaxError::new(self.statements.file, line, column, &found.refusal());
            let on_error = if found == TextItem::TooDeep { OnError::Fail } else { self.statements.on_error };
            self.statements.refuse(error, on_error)?;
        }
    }

    /// The end of the next piece of a portion that was looked at up to `seen`. A piece may be written out to some
    /// [`BETWEEN_STOPS`] at most, as far as it is no part of a long token, and one of TriG ends with its line.
    fn end_of_piece(&self, portion: &[u8], seen: usize) -> usize {
        let (long, token) = (self.longest(), self.long_token());
        let piece = if long < 512 { portion.len() } else { (SHORT_TOKEN * BETWEEN_STOPS / long).max(1024) };
        let end = portion.len().min(seen + piece.max(token));
        if matches!(self.parser, Parser::Turtle(_)) {
            return end;
        }
        let least = end.min(seen + token);
        memchr(b'\n', &portion[least..end]).map_or(end, |line| least + line + 1)
    }

    /// The bytes of the token that is being read, if it is long; else 0.
    fn long_token(&self) -> usize {
        Some(self.edition.token()).filter(|&token| token > LONG_TOKEN).unwrap_or(0)
    }

    /// About how many bytes a short token is written out to at most, by the base or a prefix.
    fn longest(&self) -> usize {
        self.longest_base + self.edition.longest_iri()
    }

    /// Passes bytes to oxttl; only the last of them may be directives. Each short token may be written out to an IRI as
    /// long as the base or a prefix, so a few such bytes can take long.
    fn give(&mut self, piece: &[u8], stopped: &dyn Fn() -> bool) -> Result<(), Ended> {
        if piece.is_empty() {
            return Ok(());
        }
        self.give_piece(piece)?;
        let tokens = piece.len() / SHORT_TOKEN + 1;
        // An unfinished token is read again with each piece.
        let read = piece.len() + self.unfinished;
        self.written = self.written.saturating_add(tokens.saturating_mul(self.longest()).max(read));
        if self.written >= BETWEEN_STOPS {
            self.written = 0;
            if stopped() {
                return Err(Ended::Stopped);
            }
        }
        Ok(())
    }

    fn base(&self) -> &str {
        let base = match &self.parser {
            Parser::Turtle(parser) => parser.base_iri(),
            Parser::TriG(parser) => parser.base_iri(),
        };
        base.unwrap_or_default()
    }

    fn give_piece(&mut self, portion: &[u8]) -> Result<(), Unparsed> {
        #[cfg(test)]
        {
            self.pieces += 1;
        }
        match &mut self.parser {
            Parser::Turtle(parser) => parser.extend_from_slice(portion),
            Parser::TriG(parser) => parser.extend_from_slice(portion),
        }
        self.unfinished += portion.len();
        let found = self.drain()?;
        self.check_base()?;
        self.longest_base = self.longest_base.max(self.base().len());
        self.unfinished_lines += memchr_iter(b'\n', portion).count() as u64;
        let line = memrchr(b'\n', portion);
        let characters = portion[line.map_or(0, |at| at + 1)..].iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
        self.column = if line.is_some() { 0 } else { self.column } + characters as u64;
        if found {
            self.unfinished = 0;
            self.lines += std::mem::take(&mut self.unfinished_lines);
        }
        Ok(())
    }

    /// Each base is resolved against the one before, so a short one makes it longer, and each of many takes time by its
    /// length.
    fn check_base(&self) -> Result<(), SyntaxError> {
        if self.base().len() <= self.statements.longest_iri {
            return Ok(());
        }
        let (line, message) = (self.lines + self.unfinished_lines + 1, too_long_iri(self.statements.longest_iri));
        let error = SyntaxError::new(self.statements.file, line, 1, &format!("the base: {message}"));
        Err(error)
    }

    /// An upper limit of the kept bytes of an unfinished triple, and roughly the line of its beginning: up to a buffer
    /// too many, and up to a line too early. A surplus quotation mark makes the rest of a file one literal.
    pub fn unfinished(&self) -> (usize, u64) {
        (self.unfinished + self.waiting.len(), self.lines + 1)
    }

    /// Takes the data parsed since the last call. Equal blank nodes in different pieces have equal names.
    pub fn take(&mut self) -> ParsedPart {
        self.statements.parsed.take()
    }

    pub(crate) fn parsed_mut(&mut self) -> &mut ParsedPart {
        &mut self.statements.parsed
    }

    /// The data parsed since the last [`TurtleReader::take`].
    pub fn parsed(&self) -> &ParsedPart {
        &self.statements.parsed
    }

    /// Parses the end of the file.
    pub fn finish(self) -> Result<ParsedPart, SyntaxError> {
        self.try_finish(&|| false).map_err(malformed)
    }

    /// Like [`TurtleReader::finish`]; lack of memory is an error, and so is a request to stop.
    pub(crate) fn try_finish(mut self, stopped: &dyn Fn() -> bool) -> Result<ParsedPart, Ended> {
        // A part of a mark is none.
        if let Some(seen) = self.mark.take() {
            self.waiting.extend_from_slice(&MARK[..seen]);
        }
        self.pass_on(stopped)?;
        match &mut self.parser {
            Parser::Turtle(parser) => parser.end(),
            Parser::TriG(parser) => parser.end(),
        }
        self.drain()?;
        Ok(self.statements.parsed)
    }

    /// Takes all statements and errors found by oxttl in its bytes. True if there were any.
    fn drain(&mut self) -> Result<bool, Unparsed> {
        let mut found = false;
        loop {
            let refused = match &mut self.parser {
                Parser::Turtle(parser) => match parser.parse_next() {
                    None => return Ok(found),
                    Some(Ok(triple)) => {
                        self.push(triple.as_ref().in_graph(GraphNameRef::DefaultGraph))?;
                        None
                    }
                    Some(Err(error)) => Some(error),
                },
                Parser::TriG(parser) => match parser.parse_next() {
                    None => return Ok(found),
                    Some(Ok(quad)) => {
                        self.push(quad.as_ref())?;
                        None
                    }
                    Some(Err(error)) => Some(error),
                },
            };
            found = true;
            refused.map_or(Ok(()), |error| self.refuse(&error))?;
        }
    }

    /// Adds a quad, unless it has terms of RDF 1.2 alone and these are refused.
    fn push(&mut self, quad: QuadRef<'_>) -> Result<(), Unparsed> {
        if !self.statements.parsed.rdf_12 && is_of_rdf_12(quad) {
            return Ok(());
        }
        if self.statements.has_long(quad) {
            let (line, message) = (self.lines + self.unfinished_lines + 1, too_long_iri(self.statements.longest_iri));
            let error = SyntaxError::new(self.statements.file, line, 1, &message);
            return Ok(self.statements.refuse(error, self.statements.on_error)?);
        }
        Ok(self.statements.push(quad)?)
    }

    fn refuse(&mut self, error: &TurtleSyntaxError) -> Result<(), SyntaxError> {
        let place = error.location().start;
        let error = SyntaxError::new(self.statements.file, place.line + 1, place.column + 1, error.message());
        self.errors = (error.line, if self.errors.0 == error.line { self.errors.1 + 1 } else { 1 });
        // After each error, oxttl reads the line again from its start.
        let on_error = if self.errors.1 == ERRORS_ON_A_LINE { OnError::Fail } else { self.statements.on_error };
        self.statements.refuse(error, on_error)
    }
}

/// The syntax error, for a caller that stops nothing and has no error for lack of memory: panics in these cases.
fn malformed(ended: Ended) -> SyntaxError {
    match ended {
        Ended::Unparsed(error) => error.malformed(),
        other => unreachable!("it reads by itself and is not stopped: {other:?}"),
    }
}

/// The error of a base that is not an IRI; it has no place.
pub(super) fn no_base(file: u32, error: impl std::fmt::Display) -> SyntaxError {
    SyntaxError::new(file, 0, 0, &format!("the base must be an IRI: {error}"))
}

/// Parses a whole Turtle file; see [`TurtleReader::new`]. Panics if there is not enough memory.
///
/// ```
/// use vicus_rdf::load::{OnError, parse_turtle};
/// let error = parse_turtle(b"<a> <b> \"c\" .", 0, None, OnError::Fail).unwrap_err();
/// assert_eq!((error.line, error.column), (1, 1)); // A relative IRI needs a base.
/// assert_eq!(parse_turtle(b"<a> <b> \"c\" .", 0, Some("http://e/"), OnError::Fail)?.quads().len(), 1);
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
pub fn parse_turtle(bytes: &[u8], file: u32, base: Option<&str>, on_error: OnError) -> Result<ParsedPart, SyntaxError> {
    let mut reader = TurtleReader::new(file, base, on_error)?;
    reader.feed(bytes)?;
    reader.finish()
}

/// Like [`parse_turtle`], for TriG; see [`TurtleReader::trig`].
pub fn parse_trig(bytes: &[u8], file: u32, base: Option<&str>, on_error: OnError) -> Result<ParsedPart, SyntaxError> {
    let mut reader = TurtleReader::trig(file, base, on_error)?;
    reader.feed(bytes)?;
    reader.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: oxttl read an unfinished literal again with each further 256 KiB, so 64 MiB with escapes took 256
    /// passes over 32 MiB on average.
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
            assert_eq!(reader.finish().unwrap().quads().len(), 2);
        }
    }

    /// What happened: behind one long IRI, each portion was cut into pieces of 1 KiB, and oxttl read an unfinished
    /// token again with each of them. TriG was cut at each line, within a literal too.
    #[test]
    fn a_long_token_behind_a_long_iri_is_looked_at_a_few_times() {
        const LONG: usize = 1 << 20;
        let long = format!("<data:{}>", "l".repeat(60_000));
        for (part, begin, end) in [
            ("\\t", "\"", "\""),
            ("text ", "'''", "'''"),
            ("text\n", "\"\"\"", "\"\"\""),
            ("\n", "'''", "'''"),
            ("i", "<a:", ">"),
            ("c ", "#", "\n<a:o>"),
            ("\\~", "a:", ""),
            ("l", "\"text\"@", ""),
        ] {
            let token = format!("{begin}{}{end}", part.repeat(LONG / part.len()));
            let text = format!("@prefix a: <a:> . <a:s> <a:p> {long} .\n <a:s> <a:p> {token} .\n");
            for make in [TurtleReader::new, TurtleReader::trig] {
                let mut reader = make(0, None, OnError::Skip).unwrap().with_longest_iri(1 << 30);
                text.as_bytes().chunks(64 << 10).for_each(|bite| reader.feed(bite).unwrap());
                // Before, there were 900 at least. TriG has pieces of a line until the token is long.
                let most = 64 + 8 * LONG.ilog2() as usize + LONG_TOKEN / part.len();
                assert!(reader.pieces <= most, "{} pieces of {begin}{part}", reader.pieces);
                let parsed = reader.finish().unwrap();
                let triples = parsed.quads().len() as u64 + parsed.skipped;
                assert!(triples >= 2, "{triples} triples of {begin}{part}");
            }
        }
    }

    /// What happened: only the present base was looked at, and a prefix that a long one before had written out was not.
    #[test]
    fn a_prefix_of_a_longer_base_before_asks_as_well() {
        let grown = "@base <http://e/> .\n".to_owned() + &"@base <aa/> .\n".repeat(8000);
        let text = format!("{grown}@prefix p: <> . @base <http://e/> .\n{}", "p:a p:a p:a . ".repeat(3000));
        for make in [TurtleReader::new, TurtleReader::trig] {
            let asked = std::cell::Cell::new(0);
            let mut reader = make(0, None, OnError::Fail).unwrap();
            let count = || {
                asked.set(asked.get() + 1);
                false
            };
            reader.try_feed(grown.as_bytes(), &count).unwrap();
            asked.set(0);
            reader.try_feed(&text.as_bytes()[grown.len()..], &count).unwrap();
            reader.try_finish(&count).unwrap();
            // It is written out to 216 MB.
            assert!(asked.get() >= 12, "{} questions", asked.get());
        }
    }

    /// What happened: after a first error, an IRI without an end was read in portions as long as all before together,
    /// without a question.
    #[test]
    fn an_iri_without_an_end_asks_whether_it_is_to_stop() {
        for make in [TurtleReader::new, TurtleReader::trig] {
            for begin in ["<http://e/", "<http://e/ "] {
                let asked = std::cell::Cell::new(0);
                let mut reader = make(0, None, OnError::Skip).unwrap();
                let count = || {
                    asked.set(asked.get() + 1);
                    false
                };
                reader.try_feed(begin.as_bytes(), &count).unwrap();
                let bite = [b'a'; 64 << 10];
                (0..(64 << 20) / bite.len()).for_each(|_| reader.try_feed(&bite, &count).unwrap());
                assert!(asked.get() >= 3, "{} questions", asked.get());
            }
        }
    }

    /// What happened: a hundred thousand bases, each resolved against the one before, took a minute.
    #[test]
    fn a_base_that_grows_is_an_error() {
        let text = "@base <a/> .\n".repeat(200_000);
        for make in [TurtleReader::new, TurtleReader::trig] {
            let mut reader = make(0, Some("http://e/"), OnError::Fail).unwrap();
            let error =
                text.as_bytes().chunks(64 << 10).find_map(|bite| reader.feed(bite).err()).expect("it is too long");
            assert!(error.to_string().contains("base"), "{error}");
            assert!((10_000..40_000).contains(&error.line), "{error}");
        }
        let mut reader = TurtleReader::new(0, Some("http://e/"), OnError::Fail).unwrap();
        reader.feed("@base <http://e/a/> .\n".repeat(10_000).as_bytes()).unwrap();
        reader.feed(b"<b> <c> <d> .").unwrap();
        assert_eq!(reader.finish().unwrap().quads().len(), 1);
    }

    /// What happened: a portion of short tokens, written out by a base or a prefix of 60 kB, took seconds, also with
    /// directives, and was not asked meanwhile whether to stop.
    #[test]
    fn a_portion_of_short_tokens_with_a_long_base_asks_whether_it_is_to_stop() {
        let long = "l".repeat(60_000);
        let of_base = |text: &str| format!("@base <http://e/{long}> .\n{}", text.repeat(600));
        let texts = [
            of_base("@base <?a> ."),
            of_base("@prefix a: <?a> ."),
            of_base("<?a><?a><?a>."),
            format!("@prefix p: <http://e/{long}> .\n{}", "p:a p:a p:a .".repeat(600)),
        ];
        for text in texts {
            for make in [TurtleReader::new, TurtleReader::trig] {
                let asked = std::cell::Cell::new(0);
                let mut reader = make(0, None, OnError::Fail).unwrap();
                let never = || {
                    asked.set(asked.get() + 1);
                    false
                };
                reader.try_feed(text.as_bytes(), &never).unwrap();
                // Each portion is written out to 36 MB at least, and asks every 16 MiB.
                assert!(asked.get() >= 2, "{} questions: {}", asked.get(), &text[60_000..60_100]);
                let stopped = || asked.replace(0) == 0;
                let mut reader = make(0, None, OnError::Fail).unwrap();
                asked.set(0);
                let ended = reader.try_feed(text.as_bytes(), &stopped);
                assert!(matches!(ended, Err(Ended::Stopped)), "{ended:?}");
            }
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
        assert_eq!(reader.finish().unwrap().quads().len(), 8);
    }
}
