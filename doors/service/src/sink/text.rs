//! Solutions as text: written while the query runs, by several boxes at once if there are several; a table for people at the end.

use super::syntax::{NotInXml, Syntax};
use super::{Batch, Sink, Solutions, Taker};
use sparesults::{QueryResultsFormat, QueryResultsSerializer};
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use vicus::{BoxError, Envelope, NoMemory, Turn, refusable};
use vicus_rdf::{Id, TermView};
use vicus_sparql::{Form, Run};

/// How solutions are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Columns for people.
    Table,
    /// SPARQL 1.1 Query Results JSON Format.
    Json,
    /// SPARQL Query Results XML Format.
    Xml,
    /// SPARQL 1.1 Query Results CSV Format.
    Csv,
    /// SPARQL 1.1 Query Results TSV Format.
    Tsv,
}

impl Format {
    /// The syntax of a table of solutions, if its rows can be written as they come.
    fn syntax(self) -> Option<Syntax> {
        match self {
            Format::Table => None,
            Format::Json => Some(Syntax::Json),
            Format::Xml => Some(Syntax::Xml),
            Format::Csv => Some(Syntax::Csv),
            Format::Tsv => Some(Syntax::Tsv),
        }
    }

    /// Whether several boxes may write its rows at once.
    pub fn is_parallel(self) -> bool {
        self != Format::Table
    }
}

/// Writes solutions in a format. They leave while the query runs, except for [`Format::Table`], whose widths are known at the end.
///
/// A writer that blocks keeps no thread of the runtime from its work: it blocks in [`Turn::blocking`].
pub struct TextSink<W> {
    format: Format,
    written: Mutex<Written<W>>,
    /// What is written when all rows are there.
    table: Mutex<Vec<Envelope>>,
}

struct Written<W> {
    out: Option<W>,
    /// What comes before all rows, until it has been written.
    head: Option<String>,
}

impl<W: Write + Send + 'static> TextSink<W> {
    /// Writes to this, which is given back when all is written.
    pub fn new(format: Format, out: W) -> TextSink<W> {
        TextSink { format, written: Mutex::new(Written { out: Some(out), head: None }), table: Mutex::default() }
    }
}

impl<W: Write + Send + 'static> Sink for TextSink<W> {
    type Taker = TextTaker<W>;
    type Output = W;

    fn taker(self: &Arc<Self>, solutions: &Arc<Solutions>) -> TextTaker<W> {
        let kind = match (solutions.form(), self.format.syntax()) {
            (Form::Ask, _) => Kind::Count,
            (Form::Select { .. }, None) => Kind::Table { held: 0 },
            (Form::Select { variables }, Some(syntax)) => {
                self.written.lock().expect("nothing panics under this lock").head = Some(syntax.head(variables));
                Kind::Text(Text {
                    syntax,
                    variables: variables.clone(),
                    before: syntax.columns(variables),
                    ready: String::new(),
                    row: (solutions.boxes() == 1).then_some(0),
                })
            }
        };
        TextTaker { sink: Arc::clone(self), kind }
    }

    fn finish(&self, solutions: &Solutions, rows: u64) -> io::Result<W> {
        let mut written = self.written.lock().map_err(|_| io::Error::other("the writer has panicked"))?;
        let mut out = written.out.take().expect("an answer ends once");
        match (solutions.form(), self.format) {
            (Form::Ask, Format::Table) => writeln!(out, "{}", if rows > 0 { "yes" } else { "no" })?,
            (Form::Ask, format) => {
                let format = match format {
                    Format::Xml => QueryResultsFormat::Xml,
                    Format::Csv => QueryResultsFormat::Csv,
                    Format::Tsv => QueryResultsFormat::Tsv,
                    Format::Json | Format::Table => QueryResultsFormat::Json,
                };
                let serializer = QueryResultsSerializer::from_format(format);
                serializer.serialize_boolean_to_writer(&mut out, rows > 0)?;
                writeln!(out)?;
            }
            (Form::Select { variables }, Format::Table) => {
                let table = std::mem::take(&mut *self.table.lock().expect("nothing panics under this lock"));
                write_table(&mut out, &solutions.run, variables, &table)?;
            }
            (Form::Select { .. }, format) => {
                // There was no row to come after it.
                let head = written.head.take();
                out.write_all(head.unwrap_or_default().as_bytes())?;
                out.write_all(format.syntax().map_or("", Syntax::tail).as_bytes())?;
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
}

impl<W: Write + Send + 'static> Taker for TextTaker<W> {
    fn take(&mut self, batch: &Batch<'_>, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        match &mut self.kind {
            Kind::Table { held } if !batch.is_last() => {
                let kept = batch.envelope.clone().compact();
                *held += kept.held_bytes();
                self.sink.table.lock().expect("nothing panics under this lock").push(kept);
                Ok(turn.book(*held)?)
            }
            Kind::Text(text) => text.take(&self.sink, &batch.solutions.run, batch.envelope, turn),
            Kind::Table { .. } | Kind::Count => Ok(()),
        }
    }
}

/// A term that a format has no way to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unwritable {
    message: String,
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Unwritable {}

/// The beginning of a row has no more bytes, and neither has its end.
const ROW_BYTES: usize = 64;

#[inline]
fn make_room(text: &mut String, more: usize, turn: &Turn<'_>) -> Result<(), BoxError> {
    if text.capacity() - text.len() >= more { Ok(()) } else { grow(text, more, turn) }
}

/// Makes room for so much more text, which the request must be allowed to hold. One long cell may be most of what it holds, so its
/// room is booked before it is there.
#[cold]
fn grow(text: &mut String, more: usize, turn: &Turn<'_>) -> Result<(), BoxError> {
    let least = text.len() + more;
    // As much again where many rows may come, unless that is too much.
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

/// Rows as text.
struct Text {
    syntax: Syntax,
    /// What comes before each column's term.
    before: Vec<String>,
    variables: Vec<String>,
    /// Whole rows that the writer has not got yet, but while one is being made. Its room stays: what needed much once
    /// may do so again.
    ready: String,
    /// How many rows have been made, where one box makes them all.
    row: Option<u64>,
}

impl Text {
    /// Bytes that are worth a write when an envelope is at its end.
    const ENOUGH: usize = 1 << 16;
    /// Bytes that are written before.
    const MUCH: usize = 1 << 18;

    /// Adds the rows of an envelope, and writes what is ready.
    fn take<W: Write>(
        &mut self,
        sink: &TextSink<W>,
        run: &Run,
        envelope: &Envelope,
        turn: &mut Turn<'_>,
    ) -> Result<(), BoxError> {
        let columns: Vec<&[u64]> = envelope.columns().iter().map(|column| column.u64s()).collect();
        for row in 0..envelope.rows() {
            self.row = self.row.map(|row| row + 1);
            make_room(&mut self.ready, ROW_BYTES, turn)?;
            self.syntax.begin_row(&mut self.ready);
            for (number, (column, before)) in columns.iter().zip(&self.before).enumerate() {
                let (syntax, id) = (self.syntax, Id::from_bits(column[row]));
                let ready = &mut self.ready;
                let done = if id.is_unbound() {
                    make_room(ready, before.len() + ROW_BYTES, turn)?;
                    syntax.cell(before, None, ready)
                } else {
                    loop {
                        let mut wanted = 0;
                        let done = run.view(id, |view| {
                            wanted = Syntax::most_bytes(before, view);
                            let fits = ready.capacity() - ready.len() >= wanted;
                            fits.then(|| syntax.cell(before, Some(view), ready))
                        });
                        match done {
                            Some(done) => break done,
                            None => make_room(ready, wanted, turn)?,
                        }
                    }
                };
                done.map_err(|error| self.not_in_xml(error, run, number, id))?;
            }
            make_room(&mut self.ready, ROW_BYTES, turn)?;
            self.syntax.end_row(&mut self.ready);
            if self.ready.len() >= Text::MUCH {
                self.write(sink, turn)?;
                if turn.is_stopped() {
                    return Ok(());
                }
            }
        }
        if self.ready.len() >= Text::ENOUGH || envelope.is_pill() {
            self.write(sink, turn)?;
        }
        Ok(turn.book(self.ready.capacity() as u64)?)
    }

    /// Writes what is ready. A slow reader must not keep a worker from its work.
    fn write<W: Write>(&mut self, sink: &TextSink<W>, turn: &mut Turn<'_>) -> io::Result<()> {
        if self.ready.is_empty() {
            return Ok(());
        }
        turn.blocking(|| {
            // The first writer has the head, and none comes between.
            let mut written = sink.written.lock().map_err(|_| io::Error::other("the writer has panicked"))?;
            let Written { out, head } = &mut *written;
            let (Some(out), head) = (out, head.take()) else { return Ok(()) };
            let begin = if head.is_some() { self.syntax.separator_bytes() } else { 0 };
            out.write_all(head.unwrap_or_default().as_bytes())?;
            out.write_all(&self.ready.as_bytes()[begin..])?;
            out.flush()
        })?;
        self.ready.clear();
        Ok(())
    }

    #[cold]
    fn not_in_xml(&self, NotInXml(character): NotInXml, run: &Run, column: usize, id: Id) -> BoxError {
        let row = self.row.map_or_else(String::new, |row| format!(" of row {row}"));
        let shown = run.view(id, cut);
        let message = format!(
            "?{}{row} is {shown}: XML has no way to write the character U+{:04X}",
            self.variables[column],
            u32::from(character)
        );
        Unwritable { message }.into()
    }
}

/// A term in a table for people has no more characters.
const WIDEST: usize = 60;

/// A term as people see it: in N-Triples, its control characters as escapes, the end left out if it is long.
fn cut(view: TermView<'_>) -> String {
    use std::fmt::{self, Write as _};
    struct Cut(String, usize);
    impl fmt::Write for Cut {
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
    let mut cut = Cut(String::new(), 0);
    // It fails where it is cut.
    let _ = write!(cut, "{view}");
    cut.0
}

/// Columns as wide as their widest value, up to a limit that still fits a screen.
fn write_table(out: &mut impl Write, run: &Run, variables: &[String], rows: &[Envelope]) -> io::Result<()> {
    let cell = |bits: u64| {
        let id = Id::from_bits(bits);
        if id.is_unbound() { String::new() } else { run.view(id, cut) }
    };
    let width = |column: usize| {
        let mut widest = variables[column].chars().count() + 1;
        let (mut values, mut last) = (rows.iter().flat_map(|envelope| envelope.column(column).u64s()), None);
        while let Some(&bits) = values.next().filter(|_| widest < WIDEST) {
            // Equal ones often follow each other.
            if last.replace(bits) != Some(bits) {
                widest = widest.max(cell(bits).chars().count());
            }
        }
        widest
    };
    let mut out = io::BufWriter::new(out);
    let widths: Vec<usize> = (0..variables.len()).map(width).collect();
    let mut line = |cells: &mut dyn Iterator<Item = String>| -> io::Result<()> {
        let padded: Vec<String> = cells.zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        writeln!(out, "{}", padded.join("  ").trim_end())
    };
    line(&mut variables.iter().map(|name| format!("?{name}")))?;
    line(&mut widths.iter().map(|&width| "-".repeat(width)))?;
    for envelope in rows {
        for row in 0..envelope.rows() {
            line(&mut envelope.columns().iter().map(|column| cell(column.u64s()[row])))?;
        }
    }
    let count: usize = rows.iter().map(Envelope::rows).sum();
    let plural = if count == 1 { "" } else { "s" };
    writeln!(out, "{count} row{plural}")?;
    out.flush()
}
