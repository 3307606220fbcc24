//! N-Triples and N-Quads, line by line: the fast path first, and oxttl for every line that it is not sure about.

use super::chunk::Chunk;
use super::fast_lines::{Plain, PlainLines};
use super::rdf_12::{Edition, TextItem};
use super::statements::has_longer_iri;
use super::{LONGEST_IRI, MARK, OnError, ParsedPart, Syntax, SyntaxError, Unparsed, could_have, too_long_iri};
use memchr::memchr;
use oxrdf::{GraphName, Quad};
use oxttl::{NQuadsParser, NTriplesParser, TurtleSyntaxError};

/// Parses whole lines of file number `file` (below 1,112,064).
///
/// A malformed line is an error with its number, and so is one with an IRI of more than [`LONGEST_IRI`] bytes; with
/// [`OnError::Skip`] it is counted in [`ParsedPart::skipped`] and leaves nothing behind. Lines end with a newline,
/// perhaps with a carriage return before it; a carriage return alone ends a statement, but isn't counted as a line.
/// Takes linear time, however long a line is. Panics if there is not enough memory.
///
/// ```
/// use vicus_rdf::load::{Chunk, OnError, parse_ntriples};
/// let text = b"<http://e/a> <http://e/p> _:x .\n<http://e/a> _:p <http://e/b> .\n";
/// let error = parse_ntriples(Chunk::file(text), 0, OnError::Fail).unwrap_err();
/// assert_eq!((error.line, error.column), (2, 14));
/// let parsed = parse_ntriples(Chunk::file(text), 0, OnError::Skip).unwrap();
/// assert_eq!((parsed.quads().len(), parsed.skipped), (1, 1));
/// ```
pub fn parse_ntriples(chunk: Chunk<'_>, file: u32, on_error: OnError) -> Result<ParsedPart, SyntaxError> {
    let mut parsed = ParsedPart::default();
    parse_lines_into(&mut parsed, chunk, Syntax::NTriples, file, on_error)?;
    Ok(parsed)
}

/// Like [`parse_ntriples`], also for N-Quads, but adds to the data parsed before: the fewer pieces, the less there is
/// to merge. After an error, `parsed` has the lines before it.
///
/// ```
/// use vicus_rdf::load::{Chunk, OnError, ParsedPart, Syntax, parse_lines_into};
/// let text = b"<http://e/a> <http://e/p> _:x .\n<http://e/a> <http://e/p> _:y <http://e/g> .\n";
/// let mut parsed = ParsedPart::default();
/// parse_lines_into(&mut parsed, Chunk::file(text), Syntax::NQuads, 0, OnError::Fail)?;
/// let (triples, named) = (&parsed.quads().triples, &parsed.quads().named);
/// assert_eq!((triples.len(), named.len()), (1, 1));
/// assert_eq!(parsed.term(named[0][3]).to_string(), "<http://e/g>");
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
pub fn parse_lines_into(
    parsed: &mut ParsedPart,
    chunk: Chunk<'_>,
    syntax: Syntax,
    file: u32,
    on_error: OnError,
) -> Result<(), SyntaxError> {
    parse_lines(parsed, chunk, syntax, file, on_error, LONGEST_IRI).map_err(Unparsed::malformed)
}

/// Like [`parse_lines_into`], with the longest accepted IRI; lack of memory is an error. Panics for a syntax without
/// lines.
pub(super) fn parse_lines(
    parsed: &mut ParsedPart,
    chunk: Chunk<'_>,
    syntax: Syntax,
    file: u32,
    on_error: OnError,
    longest_iri: usize,
) -> Result<(), Unparsed> {
    assert!(syntax.is_of_lines(), "{syntax:?} can't be cut into lines");
    let quads = syntax == Syntax::NQuads;
    let mut plain = PlainLines::new(longest_iri);
    let mut number = chunk.first_line;
    // A mark at the file's beginning is no part of the text.
    let mut rest = if number == 1 { chunk.bytes.strip_prefix(MARK).unwrap_or(chunk.bytes) } else { chunk.bytes };
    while !rest.is_empty() {
        let (line, tail) = rest.split_at(memchr(b'\n', rest).map_or(rest.len(), |at| at + 1));
        let known = parsed.terms.len();
        match plain.line(line, quads, file, &mut parsed.terms)? {
            Plain::Triple(triple) => parsed.add(triple, None)?,
            Plain::Quad(triple, graph) => parsed.add(triple, Some(graph))?,
            Plain::Empty => (),
            Plain::Unsure => {
                parsed.terms.truncate(known);
                plain.forget();
                match any_line(parsed, line, quads, number, file, longest_iri) {
                    Err(Unparsed::Malformed(error)) => parsed.refuse(error, on_error)?,
                    done => done?,
                }
            }
        }
        number += 1;
        rest = tail;
    }
    Ok(())
}

/// Parses a line with oxttl. If it is malformed, nothing is added.
#[cold]
fn any_line(
    parsed: &mut ParsedPart,
    line: &[u8],
    is_quads: bool,
    number: u64,
    file: u32,
    longest_iri: usize,
) -> Result<(), Unparsed> {
    // oxttl copies terms, some of them twice.
    if line.len() > LONG_LINE {
        could_have(3 * line.len())?;
    }
    let column_of = |offset: usize| {
        let before = &line[..offset.min(line.trim_ascii_end().len())];
        1 + String::from_utf8_lossy(before).chars().count() as u64
    };
    let (mut edition, mut first, mut read) = (Edition::default(), None, 0);
    while let Some((end, length, found)) = edition.find(&line[read..]) {
        read += end;
        if matches!(found, TextItem::Directive | TextItem::LongIri) {
            continue;
        }
        let column = column_of(read.saturating_sub(length));
        let error = SyntaxError::new(file, number, column, &found.refusal());
        if found == TextItem::TooDeep {
            return Err(error.into());
        }
        first.get_or_insert(error);
    }
    let wrong = |error: TurtleSyntaxError| {
        // The column is counted here, because oxttl places errors differently: an error at a line's end on the next
        // line, a lone carriage return as a line's end, and invalid UTF-8 within an IRI one byte too early.
        let offset = match str::from_utf8(line) {
            Err(invalid) if error.message().contains("UTF-8") => invalid.valid_up_to(),
            _ => error.location().start.offset as usize,
        };
        SyntaxError::new(file, number, column_of(offset), expected(error.message()))
    };
    let mut quads: Vec<Quad> = Vec::new();
    if is_quads {
        for quad in NQuadsParser::new().for_slice(line) {
            quads.push(quad.map_err(wrong)?);
        }
    } else {
        for triple in NTriplesParser::new().for_slice(line) {
            quads.push(triple.map_err(wrong)?.in_graph(GraphName::DefaultGraph));
        }
    }
    if let Some(error) = first.filter(|_| !parsed.rdf_12) {
        return Err(error.into());
    }
    if quads.iter().any(|quad| has_longer_iri(quad.as_ref(), longest_iri)) {
        return Err(SyntaxError::new(file, number, 1, &too_long_iri(longest_iri)).into());
    }
    for quad in &quads {
        parsed.push(quad.as_ref(), file)?;
    }
    Ok(())
}

/// Memory for a longer line is checked before the line goes to oxttl.
const LONG_LINE: usize = 64 << 10;

/// Rewords oxttl's error for the end of the file: it is given a single line.
fn expected(message: &str) -> &str {
    if message.starts_with("Unexpected end") {
        "the line ends too early: expected subject, predicate, object and a dot"
    } else {
        message
    }
}
