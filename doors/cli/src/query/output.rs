//! Where a query's rows leave: a box writes them to standard output while the query runs.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::syntax::{NotInXml, Syntax};
use sparesults::{QueryResultsFormat, QueryResultsSerializer};
use vicus::{BoxError, BoxId, Envelope, NoMemory, Operator, Turn, refusable};
use vicus_rdf::{Id, TermView};
use vicus_sparql::{Form, Moment, Plan, Run};

/// How results are written.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
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
    /// The query's name, a tab, the number of rows or yes/no.
    Count,
}

/// The end of one request's results. The box that it makes counts and writes; afterwards it says how many there were.
pub(super) struct Writer {
    plan: Arc<Plan>,
    run: Run,
    format: Format,
    name: String,
    rows: Arc<AtomicU64>,
    broken_pipe: Arc<AtomicBool>,
    /// What is written when all rows are there.
    table: Arc<Mutex<Vec<Envelope>>>,
    /// What comes before all rows, until it has been written.
    head: Arc<Mutex<Option<String>>>,
}

impl Format {
    /// The syntax of a table of solutions, if its rows can be written as they come.
    fn syntax(self) -> Option<Syntax> {
        match self {
            Format::Table | Format::Count => None,
            Format::Json => Some(Syntax::Json),
            Format::Xml => Some(Syntax::Xml),
            Format::Csv => Some(Syntax::Csv),
            Format::Tsv => Some(Syntax::Tsv),
        }
    }

    /// Whether several boxes may write its rows at once.
    pub(super) fn is_parallel(self) -> bool {
        self != Format::Table
    }
}

impl Writer {
    pub(super) fn new(plan: &Arc<Plan>, moment: Moment, format: Format, name: &str) -> Writer {
        Writer {
            plan: Arc::clone(plan),
            run: plan.start(moment),
            format,
            name: name.to_owned(),
            rows: Arc::default(),
            broken_pipe: Arc::default(),
            table: Arc::default(),
            head: Arc::default(),
        }
    }

    /// The operators of the run, with those of its sinks.
    pub(super) fn operators(&self) -> Vec<(BoxId, Box<dyn Operator>)> {
        self.run.operators(self.plan.sinks().iter().map(|sink| (*sink, self.operator())))
    }

    fn operator(&self) -> Box<dyn Operator> {
        let kind = match (self.plan.form(), self.format.syntax()) {
            (Form::Select { variables }, Some(syntax)) => {
                *self.head.lock().expect("nothing panics under this lock") = Some(syntax.head(variables));
                Sink::Text(Text {
                    syntax,
                    variables: variables.clone(),
                    before: syntax.columns(variables),
                    ready: String::new(),
                    head: Arc::clone(&self.head),
                    row: (self.plan.sinks().len() == 1).then_some(0),
                })
            }
            (Form::Select { .. }, None) if self.format == Format::Table => Sink::Table(Arc::clone(&self.table)),
            _ => Sink::Count,
        };
        let (run, rows, broken_pipe) = (self.run.clone(), Arc::clone(&self.rows), Arc::clone(&self.broken_pipe));
        Box::new(Rows { run, rows, broken_pipe, held: 0, kind })
    }

    /// Whether the reader of standard output has gone.
    pub(super) fn is_broken_pipe(&self) -> bool {
        self.broken_pipe.load(Ordering::Acquire)
    }

    /// To be called when the request has ended: writes what had to wait for the last row, if `shown`. Says how many rows
    /// there were; an ASK has 1 for yes and 0 for no.
    pub(super) fn finish(&self, shown: bool) -> io::Result<u64> {
        let rows = self.rows.load(Ordering::Acquire);
        if !shown {
            return Ok(rows);
        }
        let mut out = io::stdout().lock();
        match (self.plan.form(), self.format) {
            (Form::Ask, Format::Count) => writeln!(out, "{}\t{}", self.name, if rows > 0 { "yes" } else { "no" })?,
            (Form::Select { .. }, Format::Count) => writeln!(out, "{}\t{rows}", self.name)?,
            (Form::Ask, Format::Table) => writeln!(out, "{}", if rows > 0 { "yes" } else { "no" })?,
            (Form::Ask, format) => {
                let format = match format {
                    Format::Xml => QueryResultsFormat::Xml,
                    Format::Csv => QueryResultsFormat::Csv,
                    Format::Tsv => QueryResultsFormat::Tsv,
                    _ => QueryResultsFormat::Json,
                };
                let serializer = QueryResultsSerializer::from_format(format);
                serializer.serialize_boolean_to_writer(&mut out, rows > 0)?;
                writeln!(out)?;
            }
            (Form::Select { variables }, Format::Table) => {
                let table = std::mem::take(&mut *self.table.lock().expect("the request has ended"));
                write_table(&mut out, &self.run, variables, &table)?;
            }
            (Form::Select { .. }, format) => {
                // There was no row to come after it.
                let head = self.head.lock().expect("the request has ended").take();
                out.write_all(head.unwrap_or_default().as_bytes())?;
                out.write_all(format.syntax().map_or("", Syntax::tail).as_bytes())?;
            }
        }
        out.flush()?;
        Ok(rows)
    }
}

/// The box at the end of a query.
struct Rows {
    run: Run,
    rows: Arc<AtomicU64>,
    broken_pipe: Arc<AtomicBool>,
    /// Bytes of rows that wait to be written.
    held: u64,
    kind: Sink,
}

enum Sink {
    Count,
    Table(Arc<Mutex<Vec<Envelope>>>),
    /// Several of these may be at work at once.
    Text(Text),
}

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
    let room = if grown > least && turn.holds(grown as u64).is_ok() { grown } else { least };
    if room == least {
        turn.holds(least as u64)?;
    }
    let more = |room: usize, text: &String| room - text.len();
    refusable(|| text.try_reserve_exact(more(room, text)).or_else(|_| text.try_reserve_exact(more(least, text))))
        .map_err(|_| NoMemory { bytes: least as u64 })?;
    Ok(turn.holds(text.capacity() as u64)?)
}

/// Rows as text.
struct Text {
    syntax: Syntax,
    /// What comes before each column's term.
    before: Vec<String>,
    variables: Vec<String>,
    /// Whole rows that standard output has not got yet, but while one is being made. Its room stays: what needed much once
    /// may do so again.
    ready: String,
    /// What comes before the first row of any of the boxes.
    head: Arc<Mutex<Option<String>>>,
    /// How many rows have been made, where one box makes them all.
    row: Option<u64>,
}

impl Text {
    /// Bytes that are worth a write when an envelope is at its end.
    const ENOUGH: usize = 1 << 16;
    /// Bytes that are written before.
    const MUCH: usize = 1 << 18;

    /// Adds the rows of an envelope, and writes what is ready.
    fn take(&mut self, run: &Run, envelope: &Envelope, turn: &mut Turn<'_>) -> Result<(), BoxError> {
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
                self.write(turn)?;
                if turn.is_stopped() {
                    return Ok(());
                }
            }
        }
        if self.ready.len() >= Text::ENOUGH || envelope.is_pill() {
            self.write(turn)?;
        }
        Ok(turn.holds(self.ready.capacity() as u64)?)
    }

    /// Writes what is ready. A slow reader must not keep a worker from its work.
    fn write(&mut self, turn: &mut Turn<'_>) -> io::Result<()> {
        if self.ready.is_empty() {
            return Ok(());
        }
        turn.blocking(|| {
            let mut out = io::stdout().lock();
            // The first writer has the head, and none comes between.
            let head = self.head.lock().expect("nothing panics under this lock").take();
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
        format!(
            "?{}{row} is {shown}: XML has no way to write the character U+{:04X}; --format json and tsv have",
            self.variables[column],
            u32::from(character)
        )
        .into()
    }
}

impl Operator for Rows {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        self.rows.fetch_add(envelope.rows() as u64, Ordering::Relaxed);
        match &mut self.kind {
            Sink::Table(table) if !envelope.is_pill() => {
                let kept = envelope.clone().compact();
                self.held += kept.held_bytes();
                table.lock().expect("nothing panics under this lock").push(kept);
                turn.holds(self.held)?;
            }
            Sink::Text(text) => text.take(&self.run, &envelope, turn).map_err(|error| {
                let Some(io) = error.downcast_ref::<io::Error>() else { return error };
                self.broken_pipe.store(io.kind() == io::ErrorKind::BrokenPipe, Ordering::Release);
                format!("standard output: {io}").into()
            })?,
            Sink::Table(_) | Sink::Count => {}
        }
        if envelope.is_pill() {
            turn.send_pills();
        }
        Ok(())
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
