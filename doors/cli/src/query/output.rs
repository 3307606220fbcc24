//! Where a query's rows leave: a box writes them to standard output while the query runs.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::delimited::Delimited;
use oxrdf::{Term, Variable};
use sparesults::{QueryResultsFormat, QueryResultsSerializer, WriterSolutionsSerializer};
use vicus::{BoxError, BoxId, Envelope, Operator, Turn};
use vicus_rdf::Id;
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
    header: Arc<Mutex<Option<String>>>,
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
            header: Arc::default(),
        }
    }

    /// The operators of the run, with those of its sinks.
    pub(super) fn operators(&self) -> Vec<(BoxId, Box<dyn Operator>)> {
        self.run.operators(self.plan.sinks().iter().map(|sink| (*sink, self.operator())))
    }

    fn operator(&self) -> Box<dyn Operator> {
        let kind = match (self.plan.form(), self.format) {
            (Form::Ask, _) | (_, Format::Count) => Sink::Count,
            (Form::Select { .. }, Format::Table) => Sink::Table(Arc::clone(&self.table)),
            (Form::Select { variables }, Format::Csv | Format::Tsv) => {
                let syntax = if self.format == Format::Csv { Delimited::Csv } else { Delimited::Tsv };
                *self.header.lock().expect("nothing panics under this lock") = Some(syntax.header(variables));
                Sink::Lines { syntax, ready: String::new(), header: Arc::clone(&self.header) }
            }
            (Form::Select { variables }, format) => {
                let format = if format == Format::Xml { QueryResultsFormat::Xml } else { QueryResultsFormat::Json };
                let variables: Vec<Variable> = variables.iter().map(Variable::new_unchecked).collect();
                let buffer = Buffer::default();
                let serializer = QueryResultsSerializer::from_format(format)
                    .serialize_solutions_to_writer(buffer.clone(), variables.clone())
                    .expect("memory takes every write");
                Sink::Rows { serializer: Some(serializer), buffer, variables, row: Vec::new() }
            }
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
            (Form::Select { .. }, Format::Json | Format::Xml) => writeln!(out)?,
            (Form::Select { .. }, Format::Csv | Format::Tsv) => {
                // There was no row to come after it.
                let header = self.header.lock().expect("the request has ended").take();
                out.write_all(header.unwrap_or_default().as_bytes())?;
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
    /// Several of these may be at work at once: a line stands for itself.
    Lines {
        syntax: Delimited,
        ready: String,
        header: Arc<Mutex<Option<String>>>,
    },
    Rows {
        serializer: Option<WriterSolutionsSerializer<Buffer>>,
        /// What the serializer has written and standard output has not.
        buffer: Buffer,
        variables: Vec<Variable>,
        row: Vec<(usize, Term)>,
    },
}

/// A serializer's writer whose bytes can be taken away while it goes on.
#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    /// Bytes that are worth a write.
    const FULL: usize = 1 << 16;

    fn take_if(&self, wanted: impl FnOnce(usize) -> bool) -> Vec<u8> {
        let mut bytes = self.0.lock().expect("nothing panics under this lock");
        if wanted(bytes.len()) { std::mem::take(&mut *bytes) } else { Vec::new() }
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nothing panics under this lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Operator for Rows {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        self.rows.fetch_add(envelope.rows() as u64, Ordering::Relaxed);
        if let (Sink::Table(table), false) = (&self.kind, envelope.is_pill()) {
            let mut table = table.lock().expect("nothing panics under this lock");
            let kept = envelope.clone().compact();
            self.held += kept.held_bytes();
            table.push(kept);
            turn.holds(self.held)?;
        }
        let ready = self.serialise(&envelope)?;
        if !ready.is_empty() {
            // A slow reader must not keep a worker from its work.
            let header = if let Sink::Lines { header, .. } = &self.kind { Some(Arc::clone(header)) } else { None };
            let written = turn.blocking(|| {
                let mut out = io::stdout().lock();
                // Whoever comes first writes it, and nobody comes between.
                let first = header.and_then(|header| header.lock().expect("nothing panics under this lock").take());
                out.write_all(first.unwrap_or_default().as_bytes())?;
                out.write_all(&ready).and_then(|()| out.flush())
            });
            if let Err(error) = written {
                self.broken_pipe.store(error.kind() == io::ErrorKind::BrokenPipe, Ordering::Release);
                return Err(format!("standard output: {error}").into());
            }
        }
        if envelope.is_pill() {
            turn.send_pills();
        }
        Ok(())
    }
}

fn ids(envelope: &Envelope, row: usize) -> impl Iterator<Item = Id> {
    envelope.columns().iter().map(move |column| Id::from_bits(column.u64s()[row]))
}

impl Rows {
    /// What can be written after this envelope.
    fn serialise(&mut self, envelope: &Envelope) -> io::Result<Vec<u8>> {
        if let Sink::Lines { syntax, ready, .. } = &mut self.kind {
            if !envelope.is_pill() {
                syntax.rows(&self.run, envelope, ready);
            }
            let is_worth_it = ready.len() >= Buffer::FULL || envelope.is_pill();
            return Ok(if is_worth_it { std::mem::take(ready).into_bytes() } else { Vec::new() });
        }
        let Sink::Rows { serializer, buffer, variables, row } = &mut self.kind else { return Ok(Vec::new()) };
        let Some(writer) = serializer else { return Ok(Vec::new()) };
        for number in 0..envelope.rows() {
            row.clear();
            for (column, id) in ids(envelope, number).enumerate() {
                if !id.is_unbound() {
                    row.push((column, self.run.term(id)));
                }
            }
            writer.serialize(row.iter().map(|(column, term)| (&variables[*column], term)))?;
        }
        if envelope.is_pill() {
            serializer.take().expect("it was just there").finish()?;
            return Ok(buffer.take_if(|_| true));
        }
        Ok(buffer.take_if(|bytes| bytes >= Buffer::FULL))
    }
}

/// Columns as wide as their widest value, up to a limit that still fits a screen.
fn write_table(out: &mut impl Write, run: &Run, variables: &[String], rows: &[Envelope]) -> io::Result<()> {
    const WIDEST: usize = 60;
    let cell = |id: Id| -> String {
        let text = if id.is_unbound() { String::new() } else { run.term(id).to_string() };
        if text.chars().count() <= WIDEST { text } else { text.chars().take(WIDEST - 1).chain(['…']).collect() }
    };
    let width = |column: usize| {
        let ids: HashSet<u64> = rows.iter().flat_map(|envelope| envelope.column(column).u64s()).copied().collect();
        let cells = ids.into_iter().map(|bits| cell(Id::from_bits(bits)).chars().count());
        cells.chain([variables[column].chars().count() + 1]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..variables.len()).map(width).collect();
    let line = |out: &mut dyn Write, cells: &mut dyn Iterator<Item = String>| -> io::Result<()> {
        let padded: Vec<String> = cells.zip(&widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
        writeln!(out, "{}", padded.join("  ").trim_end())
    };
    line(out, &mut variables.iter().map(|name| format!("?{name}")))?;
    line(out, &mut widths.iter().map(|&width| "-".repeat(width)))?;
    for envelope in rows {
        for row in 0..envelope.rows() {
            line(out, &mut ids(envelope, row).map(cell))?;
        }
    }
    let count: usize = rows.iter().map(Envelope::rows).sum();
    let plural = if count == 1 { "" } else { "s" };
    writeln!(out, "{count} row{plural}")
}
