//! From sources to pieces: the boxes for reading, dealing and parsing.
//!
//! A reader reads one chunk in an invocation, so a slow pipe or gzip stream delays only itself. `deal` hands each chunk
//! of whole lines to the parser with the fewest queued bytes. Vias hold one envelope here, so at most a few chunks of
//! text for each reader and parser are in memory, however fast the readers are.

use super::handover::{Handover, handle};
use super::{LoadError, LoadSource, LoadState};
use crate::load::pull_parsers::Ended;
use crate::load::{
    Chunk, Chunker, NumberedQuads, ParsedPart, PulledReader, SortedTerms, Syntax, SyntaxError, TurtleReader, ntriples,
};
use memchr::memrchr;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vicus_flow::{BoxError, BoxModel, Envelope, Grow, NoMemory, Operator, Schema, Turn, Type};

/// Turtle is parsed in steps of this size, some milliseconds each; between two steps, the reader checks whether the
/// request was cancelled.
const BITE_BYTES: usize = 256 << 10;

/// The greatest number of bytes reserved at once, however long chunks may be.
const RESERVE_BYTES: usize = 16 << 20;

/// Whole lines of a source.
pub(super) struct Text {
    bytes: Vec<u8>,
    first_line: u64,
    syntax: Syntax,
    file: u32,
}

/// The data of one parser, or of one reader of uncut sources, at its end or at a spill.
pub(super) struct Piece {
    pub(super) terms: SortedTerms,
    pub(super) quads: NumberedQuads,
}

impl Piece {
    /// Sorts the terms. The caller has already counted the skipped errors.
    pub(super) fn new(mut parsed: ParsedPart, shared: &LoadState) -> Result<Piece, NoMemory> {
        if let Some(graph) = &shared.graph {
            parsed.name_default_graph(graph)?;
        }
        let (terms, quads) = SortedTerms::new(parsed)?;
        Ok(Piece { terms, quads })
    }
}

/// The schema of envelopes of text: the handle, and the length of the text.
fn text_schema() -> Schema {
    Schema::new([("handle", Type::U64), ("bytes", Type::U64)])
}

/// A reading box. Outputs: text for `deal`, pieces of uncut sources.
pub(super) fn read(shared: &Arc<LoadState>, texts: &Handover<Text>, pieces: &Handover<Piece>, first: bool) -> BoxModel {
    let (shared, texts, pieces) = (Arc::clone(shared), texts.clone(), pieces.clone());
    let factory = move || Reader {
        shared: Arc::clone(&shared),
        texts: texts.clone(),
        pieces: pieces.clone(),
        begins: first,
        open: None,
        parsed: shared.parsed(),
    };
    BoxModel::new("read", factory).output(&text_schema()).output(&handle())
}

struct Reader {
    shared: Arc<LoadState>,
    texts: Handover<Text>,
    pieces: Handover<Piece>,
    /// Whether this is the first invocation of the first reader.
    begins: bool,
    open: Option<Open>,
    /// The parsed data of uncut sources, while none of them is open; an open one's parser has it and adds to it. So
    /// pieces are cut by size and not by source. Blank nodes stay apart, as their keys have the number of their source;
    /// and it has no terms of N-Triples, as these are checked only if they are new.
    parsed: ParsedPart,
}

/// The source being read.
struct Open {
    file: u32,
    reader: Box<dyn Read + Send>,
    /// Bytes read and not yet passed on.
    buffer: Vec<u8>,
    format: Format,
}

enum Format {
    /// Chunks of any length: the reader cuts them by how much it reads.
    Lines(Chunker, Syntax),
    Turtle(Box<TurtleReader>),
    Pulled(Box<PulledReader>),
}

impl Operator for Reader {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        turn.take(0);
        let shared = &*self.shared;
        if std::mem::take(&mut self.begins) && shared.begun.swap(true, Ordering::Relaxed) {
            return Err(LoadError::Again.into());
        }
        let mut open = match self.open.take() {
            Some(open) => open,
            None => match shared.next_source() {
                Some((file, source)) => {
                    Open::new(file, source, &mut self.parsed, &self.shared).map_err(|error| shared.malformed(error))?
                }
                None => {
                    hand_on(self.parsed.take(), shared, &self.pieces, 1, turn)?;
                    turn.send_pills();
                    return Ok(());
                }
            },
        };
        if let Format::Pulled(mut parser) = open.format {
            let goes_on = pull(&mut parser, shared, open.file, turn)?;
            shared.keep_within(parser.parsed_mut())?;
            if goes_on {
                self.open = Some(Open { format: Format::Pulled(parser), ..open });
            } else {
                self.parsed = parser.take_parsed();
                shared.note_skipped(&mut self.parsed);
            }
            turn.run_again();
            return Ok(());
        }
        let before = open.buffer.len();
        let ended = open.read(shared.chunk_bytes, turn)?.map_err(|error| shared.unreadable(open.file, error))?;
        shared.progress.add_bytes(open.buffer.len() - before);
        let Open { file, reader, mut buffer, mut format } = open;
        match &mut format {
            Format::Lines(chunker, syntax) => {
                if let Some((bytes, first_line)) = cut(chunker, &mut buffer, before, ended, shared)? {
                    turn.send(0, envelope_of(&self.texts, Text { bytes, first_line, syntax: *syntax, file }));
                }
                // The rest is the beginning of a line.
                shared.check_lines(&buffer, chunker.next_line(), file)?;
            }
            Format::Turtle(parser) => {
                let known = parser.parsed().quads().len();
                for bite in buffer.chunks(BITE_BYTES.min(shared.longest_line).max(1)) {
                    let stopped = || turn.is_stopped();
                    match parser.try_feed(bite, &stopped) {
                        _ if stopped() => return Ok(()),
                        fed => fed.map_err(|ended| shared.ended(ended, file))?,
                    }
                    let (bytes, line) = parser.unfinished();
                    if bytes > shared.longest_line {
                        return Err(shared.too_long(file, line).into());
                    }
                }
                shared.progress.add_parsed(known, parser.parsed().quads().len());
                shared.keep_within(parser.parsed_mut())?;
                buffer.clear();
            }
            Format::Pulled(_) => unreachable!("it reads by itself"),
        }
        match format {
            Format::Turtle(parser) if ended => {
                let known = parser.parsed().quads().len();
                self.parsed = match parser.try_finish(&|| turn.is_stopped()) {
                    Err(Ended::Stopped) => return Ok(()),
                    finished => finished.map_err(|ended| shared.ended(ended, file))?,
                };
                shared.progress.add_parsed(known, self.parsed.quads().len());
                shared.note_skipped(&mut self.parsed);
                shared.keep_within(&mut self.parsed)?;
            }
            Format::Lines(..) if ended => {}
            format => self.open = Some(Open { file, reader, buffer, format }),
        }
        turn.run_again();
        Ok(())
    }
}

/// Statements read at once by a parser, some milliseconds' worth.
const PULLED: usize = 4096;

/// Hands the last piece of a parser or reader, if it has one, to `cut terms`, or spills it as others were.
fn hand_on(
    mut parsed: ParsedPart,
    shared: &LoadState,
    pieces: &Handover<Piece>,
    output: usize,
    turn: &mut Turn<'_>,
) -> Result<(), NoMemory> {
    shared.note_skipped(&mut parsed);
    if parsed.term_count() == 0 {
        return Ok(());
    }
    if shared.has_spilled() {
        return shared.write_segment(parsed);
    }
    let piece = Piece::new(parsed, shared)?;
    turn.send(output, pieces.put(piece));
    Ok(())
}

/// Has a parser read some statements; whether there are more.
fn pull(parser: &mut PulledReader, shared: &LoadState, file: u32, turn: &Turn<'_>) -> Result<bool, BoxError> {
    let (known, bytes) = (parser.parsed().quads().len(), parser.bytes());
    let stopped = || turn.is_stopped();
    let goes_on = match turn.blocking(|| parser.pull(PULLED, &stopped)) {
        Ok(goes_on) => goes_on,
        // The request has ended, so the read data is not needed.
        Err(Ended::Stopped) => false,
        Err(ended) => return Err(shared.ended(ended, file)),
    };
    shared.progress.add_bytes((parser.bytes() - bytes) as usize);
    shared.progress.add_parsed(known, parser.parsed().quads().len());
    Ok(goes_on)
}

fn envelope_of(texts: &Handover<Text>, text: Text) -> Envelope {
    let bytes = text.bytes.len() as u64;
    let mut columns = texts.put(text).into_columns();
    columns.push(vec![bytes].into());
    Envelope::new(columns)
}

impl Open {
    /// Opens a source. If it can't be cut, its parser adds to the parsed data.
    fn new(
        file: u32,
        source: LoadSource,
        parsed: &mut ParsedPart,
        shared: &Arc<LoadState>,
    ) -> Result<Open, SyntaxError> {
        let state = Arc::clone(shared);
        let grown = Box::new(move |parsed: &mut ParsedPart| state.keep_within(parsed));
        let (mut reader, base, on_error) = (source.reader, source.base.as_deref(), shared.on_error);
        let format = match source.syntax {
            syntax @ (Syntax::NTriples | Syntax::NQuads) => Format::Lines(Chunker::new(usize::MAX), syntax),
            Syntax::Turtle => {
                let reader = TurtleReader::new(file, base, on_error)?.of_seed(shared.hash_seed);
                Format::Turtle(Box::new(
                    reader.adding_to(parsed.take()).with_longest_iri(shared.longest_iri).telling(grown),
                ))
            }
            Syntax::TriG => {
                let reader = TurtleReader::trig(file, base, on_error)?.of_seed(shared.hash_seed);
                Format::Turtle(Box::new(
                    reader.adding_to(parsed.take()).with_longest_iri(shared.longest_iri).telling(grown),
                ))
            }
            syntax @ (Syntax::RdfXml | Syntax::JsonLd) => {
                let source = std::mem::replace(&mut reader, Box::new(io::empty()));
                let reader = PulledReader::new(source, syntax, file, base, on_error)?.of_seed(shared.hash_seed);
                let reader = reader.adding_to(parsed.take()).with_longest(shared.longest_line);
                Format::Pulled(Box::new(reader.with_longest_iri(shared.longest_iri).telling(grown)))
            }
        };
        Ok(Open { file, reader, buffer: Vec::new(), format })
    }

    /// Reads until the buffer has a chunk, or another whole chunk if a long line has filled it. True at the end of the
    /// source.
    fn read(&mut self, chunk_bytes: usize, turn: &mut Turn<'_>) -> Result<io::Result<bool>, NoMemory> {
        let before = self.buffer.len();
        let room = if before < chunk_bytes { chunk_bytes - before } else { chunk_bytes };
        self.buffer.grow(room.min(RESERVE_BYTES))?;
        let Open { reader, buffer, .. } = self;
        let (had, before) = (buffer.capacity(), buffer.len());
        match turn.blocking(|| reader.take(room as u64).read_to_end(buffer)) {
            // This buffer could not grow; the reader is not at fault.
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => Err(NoMemory { bytes: 2 * had as u64 }),
            read => Ok(read.map(|_| buffer.len() - before < room)),
        }
    }
}

/// Takes the whole lines out of the buffer, if there are any. There is no newline before `searched`.
fn cut(
    chunker: &mut Chunker,
    buffer: &mut Vec<u8>,
    searched: usize,
    ended: bool,
    shared: &LoadState,
) -> Result<Option<(Vec<u8>, u64)>, NoMemory> {
    if !ended && memrchr(b'\n', &buffer[searched..]).is_none() {
        return Ok(None);
    }
    let (chunks, used) = chunker.cut(buffer, ended);
    let Some(first_line) = chunks.first().map(|chunk| chunk.first_line) else { return Ok(None) };
    let mut rest = shared.buffer();
    rest.grow(buffer.len() - used)?;
    rest.extend_from_slice(&buffer[used..]);
    buffer.truncate(used);
    Ok(Some((std::mem::replace(buffer, rest), first_line)))
}

/// Deals text to parsers. `loads` are the bytes queued for each parser.
pub(super) fn deal(inputs: usize, loads: &Arc<[AtomicUsize]>) -> BoxModel {
    let loads = Arc::clone(loads);
    let parsers = loads.len();
    let factory = move || {
        let loads = Arc::clone(&loads);
        let mut open = inputs;
        // Continues at the end of the last look, so no reader waits longer than others.
        let mut next = 0;
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            for _ in 0..inputs {
                let input = next;
                next = (next + 1) % inputs;
                match turn.take(input) {
                    Some(pill) if pill.is_pill() => open -= 1,
                    Some(text) => {
                        // If several are equal, the first: the fewer parsers have terms, the less there is to merge.
                        let least = (0..parsers).min_by_key(|&parser| loads[parser].load(Ordering::Relaxed));
                        let parser = least.expect("there is a parser");
                        loads[parser].fetch_add(text.column(1).u64s()[0] as usize, Ordering::Relaxed);
                        turn.send(parser, text);
                        break;
                    }
                    None => {}
                }
            }
            if open == 0 {
                turn.send_pills();
            }
            Ok(())
        }
    };
    let mut model = BoxModel::new("deal", factory);
    for _ in 0..inputs {
        model = model.input(&text_schema());
    }
    for _ in 0..parsers {
        model = model.output(&text_schema());
    }
    model
}

/// A box that parses N-Triples and N-Quads. Everything it parses becomes one piece.
pub(super) fn parse(
    shared: &Arc<LoadState>,
    texts: &Handover<Text>,
    pieces: &Handover<Piece>,
    loads: &Arc<[AtomicUsize]>,
    number: usize,
) -> BoxModel {
    let (shared, texts, pieces, loads) = (Arc::clone(shared), texts.clone(), pieces.clone(), Arc::clone(loads));
    let factory = move || {
        let (shared, texts, pieces, loads) = (Arc::clone(&shared), texts.clone(), pieces.clone(), Arc::clone(&loads));
        let mut parsed = shared.parsed();
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(0) {
                Some(pill) if pill.is_pill() => {
                    hand_on(parsed.take(), &shared, &pieces, 0, turn)?;
                    turn.send_pill(0);
                }
                Some(envelope) => {
                    let Text { bytes, first_line, syntax, file } = texts.take(&envelope);
                    shared.check_lines(&bytes, first_line, file)?;
                    let known = parsed.quads().len();
                    let chunk = Chunk { bytes: &bytes, first_line };
                    ntriples::parse_lines(&mut parsed, chunk, syntax, file, shared.on_error, shared.longest_iri)
                        .map_err(|error| shared.unparsed(error))?;
                    shared.progress.add_parsed(known, parsed.quads().len());
                    shared.note_skipped(&mut parsed);
                    shared.keep_within(&mut parsed)?;
                    loads[number].fetch_sub(bytes.len(), Ordering::Relaxed);
                    shared.give_back(bytes);
                }
                None => {}
            }
            Ok(())
        }
    };
    BoxModel::new("parse", factory).input(&text_schema()).output(&handle())
}
