//! Answers as text: written while the query runs, by several boxes at once if there are several; a table for people at
//! the end.

use super::arrow::{self, Batches};
use super::cells::{CellReader, Cells, TermCells, ValueCells};
use super::format::{Format, WrongFormat};
use super::graph::{self, Triples};
use super::syntax::{NotInXml, Syntax, most_bytes};
use super::table::{self, Screen, Style, Table};
use super::{Pace, Sink, SolutionBatch, Solutions, Taker};
use sparesults::{QueryResultsFormat, QueryResultsSerializer};
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use vicus::{BoxError, Envelope, NoMemory, Turn, refusable};
use vicus_language::Answer;
use vicus_rdf::TermView;

/// Writes answers in a format. They leave while the query runs, except for [`Format::Table`], whose widths are known at
/// the end.
///
/// A writer that blocks keeps no thread of the runtime from its work: it blocks in [`Turn::blocking`].
pub struct TextSink<W> {
    format: Format,
    written: Mutex<TextOut<W>>,
    /// The envelopes to be written when all rows are there.
    table: Mutex<Vec<Envelope>>,
    /// The pace of the boxes, if writing does not block.
    pace: Option<Arc<dyn Pace>>,
    screen: Option<Screen>,
}

struct TextOut<W> {
    out: Option<W>,
    /// The text before all rows, until it has been written.
    head: Option<Vec<u8>>,
}

impl<W: Write + Send + 'static> TextSink<W> {
    /// Writes to `out`, and gives it back when all is written.
    pub fn new(format: Format, out: W) -> TextSink<W> {
        TextSink {
            format,
            written: Mutex::new(TextOut { out: Some(out), head: None }),
            table: Mutex::default(),
            pace: None,
            screen: None,
        }
    }

    /// Tables are for this screen.
    pub fn on_screen(self, screen: Option<Screen>) -> TextSink<W> {
        TextSink { screen, ..self }
    }

    /// Writes to `out`, which never blocks; the boxes pause when `pace` says so.
    pub fn paced(format: Format, out: W, pace: Arc<dyn Pace>) -> TextSink<W> {
        TextSink { pace: Some(pace), ..TextSink::new(format, out) }
    }

    /// Writes a piece, and the head before the first one.
    pub(super) fn put(&self, bytes: &[u8], turn: &Turn<'_>) -> io::Result<()> {
        self.put_behind(0, bytes, turn)
    }

    /// The variant with a separator: the first `separator` bytes stand between the text and the one before.
    fn put_behind(&self, separator: usize, bytes: &[u8], turn: &Turn<'_>) -> io::Result<()> {
        let write = || {
            // The first writer has the head, and none comes between.
            let mut written = self.written.lock().map_err(|_| io::Error::other("the writer has panicked"))?;
            let TextOut { out, head } = &mut *written;
            let (Some(out), head) = (out, head.take()) else { return Ok(()) };
            let begin = if head.is_some() { separator } else { 0 };
            out.write_all(&head.unwrap_or_default())?;
            out.write_all(&bytes[begin..])?;
            out.flush()
        };
        // A writer with a pace never blocks; a slow reader of another writer must not keep a worker from its work.
        if self.pace.is_some() { write() } else { turn.blocking(write) }
    }

    /// Whether the box is to do no more in this invocation.
    pub(super) fn pauses(&self, turn: &mut Turn<'_>) -> bool {
        self.pace.as_ref().is_some_and(|pace| pace.pause(turn))
    }
}

impl<W: Write + Send + 'static> Sink for TextSink<W> {
    type Taker = TextTaker<W>;
    type Output = W;

    fn taker(self: &Arc<Self>, solutions: &Arc<Solutions>) -> TextTaker<W> {
        let begin = |head: Vec<u8>| self.written.lock().expect("nothing panics under this lock").head = Some(head);
        let kind = match (solutions.form(), Syntax::of(self.format)) {
            (Answer::Truth, _) => Kind::Count,
            (form, _) if self.format == Format::Arrow => {
                // If the schema can't be written, neither can a batch, and that write reports the error.
                let batches = Batches::new(form, &solutions.reader);
                begin(batches.head());
                Kind::Arrow(batches)
            }
            (Answer::Rows { .. }, None) => Kind::Table { held: 0 },
            (Answer::Rows { columns: variables }, Some(syntax)) => {
                begin(syntax.head(variables).into_bytes());
                Kind::Text(Text {
                    syntax,
                    variables: variables.clone(),
                    before: syntax.columns(variables),
                    ready: Ready::new(syntax.separator_bytes()),
                    row: (solutions.boxes() == 1).then_some(0),
                })
            }
            (Answer::Triples, _) => {
                let prefixes = solutions.prepared.prefixes();
                begin(graph::head(self.format, prefixes).into_bytes());
                Kind::Triples(Box::new(Triples::new(self.format, prefixes)))
            }
        };
        TextTaker { sink: Arc::clone(self), kind }
    }

    fn accepts(&self, form: &Answer) -> Result<(), WrongFormat> {
        self.format.check(form)
    }

    fn finish(&self, solutions: &Solutions, rows: u64) -> io::Result<W> {
        let mut written = self.written.lock().map_err(|_| io::Error::other("the writer has panicked"))?;
        let mut out = written.out.take().expect("an answer ends once");
        match (solutions.form(), self.format) {
            (Answer::Truth, Format::Arrow) => {
                out.write_all(&arrow::truth(rows > 0).map_err(io::Error::other)?)?;
                out.write_all(&arrow::TAIL)?;
            }
            (Answer::Truth, Format::Table) => writeln!(out, "{}", if rows > 0 { "yes" } else { "no" })?,
            (Answer::Truth, format) => {
                let format = match format {
                    Format::Xml => QueryResultsFormat::Xml,
                    Format::Csv => QueryResultsFormat::Csv,
                    Format::Tsv => QueryResultsFormat::Tsv,
                    // Others were refused.
                    _ => QueryResultsFormat::Json,
                };
                let serializer = QueryResultsSerializer::from_format(format);
                serializer.serialize_boolean_to_writer(&mut out, rows > 0)?;
                writeln!(out)?;
            }
            (Answer::Rows { columns: variables }, Format::Table) => {
                let table = std::mem::take(&mut *self.table.lock().expect("nothing panics under this lock"));
                match &solutions.reader {
                    CellReader::Terms(run) => {
                        let names: Vec<String> = variables.iter().map(|name| format!("?{name}")).collect();
                        let style = Style::Terms(solutions.prepared.prefixes());
                        let cells = table.iter().map(|rows| TermCells::new(run, rows)).collect();
                        Table { names: &names, rows: &table, cells, style }.write(&mut out, self.screen)?;
                        // These terms were read after the last solution had come.
                        solutions.check_kept().map_err(io::Error::other)?;
                    }
                    CellReader::Values(types) => {
                        let names: Vec<String> = variables.iter().map(|name| table::escaped(name)).collect();
                        let cells = table.iter().map(|rows| ValueCells::new(types, rows)).collect();
                        Table { names: &names, rows: &table, cells, style: Style::Values }
                            .write(&mut out, self.screen)?;
                    }
                }
            }
            (form, format) => {
                let tail = match format {
                    Format::Arrow => &arrow::TAIL[..],
                    _ if form.is_graph() => graph::tail(format).as_bytes(),
                    _ => Syntax::of(format).map_or("", Syntax::tail).as_bytes(),
                };
                // There was no row to come after it.
                let head = written.head.take();
                out.write_all(&head.unwrap_or_default())?;
                out.write_all(tail)?;
            }
        }
        out.flush()?;
        Ok(out)
    }
}

/// A taker of [`TextSink`].
pub struct TextTaker<W> {
    sink: Arc<TextSink<W>>,
    kind: Kind,
}

enum Kind {
    Count,
    /// How many bytes its rows hold.
    Table {
        held: u64,
    },
    Text(Text),
    Triples(Box<Triples>),
    Arrow(Batches),
}

impl<W: Write + Send + 'static> Taker for TextTaker<W> {
    fn take(&mut self, batch: &SolutionBatch<'_>, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        self.take_from(batch, 0, turn).map(drop)
    }

    fn take_from(
        &mut self,
        batch: &SolutionBatch<'_>,
        row: usize,
        turn: &mut Turn<'_>,
    ) -> Result<Option<usize>, BoxError> {
        match &mut self.kind {
            Kind::Table { held } if !batch.is_last() => {
                let kept = batch.envelope.clone().compact();
                *held += kept.held_bytes();
                self.sink.table.lock().expect("nothing panics under this lock").push(kept);
                turn.book(*held)?;
                Ok(None)
            }
            Kind::Text(text) => match &batch.solutions.reader {
                CellReader::Terms(run) => {
                    text.take(&self.sink, &TermCells::new(run, batch.envelope), batch.envelope, row, turn)
                }
                CellReader::Values(types) => {
                    text.take(&self.sink, &ValueCells::new(types, batch.envelope), batch.envelope, row, turn)
                }
            },
            Kind::Triples(triples) => triples.take(&self.sink, batch.solutions.run(), batch.envelope, row, turn),
            Kind::Arrow(batches) => batches.take(&self.sink, &batch.solutions.reader, batch.envelope, row, turn),
            Kind::Table { .. } | Kind::Count => Ok(None),
        }
    }
}

/// A term without a form in a format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unwritable {
    message: String,
    others: &'static str,
}

impl Unwritable {
    pub(super) fn new(message: String, others: &'static str) -> Unwritable {
        Unwritable { message, others }
    }

    /// The names of formats that can write it: `json and tsv`.
    pub fn others(&self) -> &'static str {
        self.others
    }
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Unwritable {}

/// The beginning of a row has no more bytes, and neither has its end.
const ROW_BYTES: usize = 64;

/// Finished text, not yet written. Its capacity stays, because a large need may come again.
pub(super) struct Ready {
    pub(super) text: String,
    /// The length of the separator at its beginning.
    separator: usize,
}

impl Ready {
    /// The bytes worth a write at the end of an envelope.
    const ENOUGH: usize = 1 << 16;
    /// The bytes to write even before the end.
    const MUCH: usize = 1 << 18;

    pub(super) fn new(separator: usize) -> Ready {
        Ready { text: String::new(), separator }
    }

    pub(super) fn is_enough(&self) -> bool {
        self.text.len() >= Ready::ENOUGH
    }

    pub(super) fn is_much(&self) -> bool {
        self.text.len() >= Ready::MUCH
    }

    fn has_room(&self, more: usize) -> bool {
        self.text.capacity() - self.text.len() >= more
    }

    #[inline]
    pub(super) fn make_room(&mut self, more: usize, turn: &Turn<'_>) -> Result<(), BoxError> {
        if self.has_room(more) { Ok(()) } else { self.grow(more, turn) }
    }

    /// The text, if it has room for `more` bytes; else that number, for [`Ready::with_room`].
    #[inline]
    pub(super) fn room_for(&mut self, more: usize) -> Result<&mut String, usize> {
        if self.has_room(more) { Ok(&mut self.text) } else { Err(more) }
    }

    /// The result of `attempt`. If it lacks room, it returns the missing bytes, and is called again.
    #[inline]
    pub(super) fn with_room<R>(
        &mut self,
        turn: &Turn<'_>,
        mut attempt: impl FnMut(&mut Ready) -> Result<R, usize>,
    ) -> Result<R, BoxError> {
        loop {
            match attempt(self) {
                Ok(done) => return Ok(done),
                Err(more) => self.make_room(more, turn)?,
            }
        }
    }

    /// Makes room for `more` text, within the request's memory. One long cell may be most of the text, so its room is
    /// booked before it is allocated.
    #[cold]
    fn grow(&mut self, more: usize, turn: &Turn<'_>) -> Result<(), BoxError> {
        let text = &mut self.text;
        let least = text.len() + more;
        // Doubles the room if many rows may come, unless the doubled size is refused.
        let grown = least.max(2 * text.capacity());
        let room = if grown > least && turn.book(grown as u64).is_ok() { grown } else { least };
        if room == least {
            turn.book(least as u64)?;
        }
        let more = |room: usize, text: &String| room - text.len();
        refusable(|| text.try_reserve_exact(more(room, text)).or_else(|_| text.try_reserve_exact(more(least, text))))
            .map_err(|_| NoMemory { bytes: least as u64 })?;
        Ok(turn.book(text.capacity() as u64)?)
    }

    pub(super) fn book(&self, turn: &Turn<'_>) -> Result<(), BoxError> {
        Ok(turn.book(self.text.capacity() as u64)?)
    }

    /// Writes the finished text.
    pub(super) fn write<W: Write + Send + 'static>(
        &mut self,
        sink: &TextSink<W>,
        turn: &mut Turn<'_>,
    ) -> io::Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        sink.put_behind(self.separator, self.text.as_bytes(), turn)?;
        self.text.clear();
        Ok(())
    }
}

/// Rows as text.
struct Text {
    syntax: Syntax,
    /// The text before each column's term.
    before: Vec<String>,
    variables: Vec<String>,
    /// Whole rows, but while one is being made.
    ready: Ready,
    /// The number of rows so far, if one box makes them all.
    row: Option<u64>,
}

impl Text {
    /// Adds the rows of an envelope from one on, and writes the finished text. Returns the row to go on from later, if
    /// the box has been paused.
    fn take<W: Write + Send + 'static>(
        &mut self,
        sink: &TextSink<W>,
        cells: &impl Cells,
        envelope: &Envelope,
        from: usize,
        turn: &mut Turn<'_>,
    ) -> Result<Option<usize>, BoxError> {
        for row in from..envelope.rows() {
            self.row = self.row.map(|row| row + 1);
            self.ready.make_room(ROW_BYTES, turn)?;
            self.syntax.begin_row(&mut self.ready.text);
            for (number, before) in self.before.iter().enumerate() {
                let syntax = self.syntax;
                let done = self.ready.with_room(turn, |ready| {
                    cells.view(row, number, |view| {
                        let most = view.map_or(before.len() + ROW_BYTES, |view| most_bytes(before, view));
                        Ok(syntax.cell(before, view, ready.room_for(most)?))
                    })
                })?;
                done.map_err(|error| self.not_in_xml(error, cells, row, number))?;
            }
            self.ready.make_room(ROW_BYTES, turn)?;
            self.syntax.end_row(&mut self.ready.text);
            if self.ready.is_much() {
                self.ready.write(sink, turn)?;
                if turn.is_stopped() {
                    return Ok(None);
                }
                if sink.pauses(turn) {
                    return Ok(Some(row + 1));
                }
            }
        }
        if self.ready.is_enough() || envelope.is_pill() {
            self.ready.write(sink, turn)?;
        }
        self.ready.book(turn)?;
        // There is nothing to be done behind a pill.
        Ok((!envelope.is_pill() && sink.pauses(turn)).then_some(envelope.rows()))
    }

    #[cold]
    fn not_in_xml(&self, NotInXml(character): NotInXml, cells: &impl Cells, row: usize, column: usize) -> BoxError {
        let shown = cells.view(row, column, |view| view.map(cut).unwrap_or_default());
        let row = self.row.map_or_else(String::new, |row| format!(" of row {row}"));
        let message = format!(
            "?{}{row} is {shown}: XML has no way to write the character U+{:04X}",
            self.variables[column],
            u32::from(character)
        );
        Unwritable::new(message, "json and tsv").into()
    }
}

/// A term in an error has no more characters.
const WIDEST: usize = 60;

/// A term in an error: in N-Triples, its control characters as escapes, the end left out if it is long.
pub(super) fn cut(view: TermView<'_>) -> String {
    shortened(|out| write!(out, "{view}"))
}

/// The written text, with its end left out if it is long.
fn shortened(write: impl FnOnce(&mut dyn fmt::Write) -> fmt::Result) -> String {
    struct ShortText(String, usize);
    impl fmt::Write for ShortText {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            for character in text.chars() {
                if self.1 == WIDEST {
                    self.0.pop();
                    self.0.push('…');
                    return Err(fmt::Error);
                }
                self.0.push(character);
                self.1 += 1;
            }
            Ok(())
        }
    }
    let mut cut = ShortText(String::new(), 0);
    // The write fails at the cut.
    let _ = write(&mut cut);
    cut.0
}
