//! The receivers of an answer's solutions: a function by batches, a number, or text into any writer.

mod arrow;
mod cells;
mod columns;
mod format;
mod graph;
mod pull;
mod stream;
mod syntax;
mod table;
mod text;
mod texts;

pub use cells::CellReader;
pub use columns::{ArrowForm, TermForm, WrongValue};
pub use format::{Format, WrongFormat};
pub use graph::{DumpError, dump};
pub use pull::{ArrowStream, Next, RowStream, SomeRows};
pub use stream::{BrokenOff, Pace, StreamReader, StreamWatch, StreamWriter, text_stream};
pub use table::Screen;
pub use text::{TextSink, TextTaker, Unwritable};

use crate::error::{Error, SharedSinkFailed, SinkFailed};
use crate::session::Prepared;
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use cells::{Cells as _, TermCells, ValueCells};
use oxrdf::Term;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use vicus::{BoxError, Envelope, NoMemory, Operator, OverBudget, Turn};
use vicus_language::Answer;
use vicus_rdf::{Snapshot, TermView};
use vicus_sparql::QueryRun;

/// The receiver of one answer's solutions.
///
/// Each box that hands them out has a [`Taker`] of its own, so several can be at work at once, each on its own thread;
/// they share the sink.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use vicus::{BoxError, Turn};
/// use vicus_service::{SolutionBatch, Sink, Solutions, Taker};
///
/// /// Keeps all terms of the first column.
/// #[derive(Default)]
/// struct FirstColumn(Mutex<Vec<String>>);
///
/// struct TakesIt(Arc<FirstColumn>);
///
/// impl Sink for FirstColumn {
///     type Taker = TakesIt;
///     type Output = Vec<String>;
///     fn taker(self: &Arc<Self>, _: &Arc<Solutions>) -> TakesIt {
///         TakesIt(Arc::clone(self))
///     }
///     fn finish(&self, _: &Solutions, _: u64) -> std::io::Result<Vec<String>> {
///         Ok(std::mem::take(&mut self.0.lock().unwrap()))
///     }
/// }
///
/// impl Taker for TakesIt {
///     fn take(&mut self, batch: &SolutionBatch<'_>, _: &mut Turn<'_>) -> Result<(), BoxError> {
///         let terms = (0..batch.rows()).filter_map(|row| batch.term(row, 0));
///         self.0.0.lock().unwrap().extend(terms.map(|term| term.to_string()));
///         Ok(())
///     }
/// }
/// ```
pub trait Sink: Send + Sync + 'static {
    /// The receiver of one box's solutions.
    type Taker: Taker;
    /// The result when all have come.
    type Output;

    /// Whether it takes answers of this kind. Asked before anything runs.
    ///
    /// # Errors
    /// Its format has no way to write them.
    fn accepts(&self, _: &Answer) -> Result<(), WrongFormat> {
        Ok(())
    }

    /// A taker for one more box.
    fn taker(self: &Arc<Self>, solutions: &Arc<Solutions>) -> Self::Taker;

    /// All solutions have come, `rows` of them. Called once, on the thread that waits for the answer.
    ///
    /// # Errors
    /// The rest of the text can't be written.
    fn finish(&self, solutions: &Solutions, rows: u64) -> io::Result<Self::Output>;
}

/// Takes the solutions of one box.
pub trait Taker: Send + 'static {
    /// Takes a batch; the last has no rows. Work that may block does so in [`Turn::blocking`].
    ///
    /// # Errors
    /// The answer fails with it.
    fn take(&mut self, batch: &SolutionBatch<'_>, turn: &mut Turn<'_>) -> Result<(), BoxError>;

    /// Takes the rows of a batch from this one on. `Some`: only the rows before that one were taken, and the box has
    /// been [paused](Turn::pause); it is called with the same batch again.
    ///
    /// # Errors
    /// As [`Taker::take`].
    fn take_from(
        &mut self,
        batch: &SolutionBatch<'_>,
        row: usize,
        turn: &mut Turn<'_>,
    ) -> Result<Option<usize>, BoxError> {
        debug_assert_eq!(row, 0, "it takes batches as a whole");
        self.take(batch, turn).map(|()| None)
    }
}

/// The common data of all solutions of one answer.
pub struct Solutions {
    pub(crate) reader: CellReader,
    pub(crate) prepared: Arc<Prepared>,
    /// The data of the query.
    pub(crate) snapshot: Arc<Snapshot>,
}

impl fmt::Debug for Solutions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Solutions").field("form", self.form()).finish_non_exhaustive()
    }
}

impl Solutions {
    /// The form: a table with its columns, a yes, or triples.
    pub fn form(&self) -> &Answer {
        self.prepared.form()
    }

    /// Checks that all bytes read for them until now were there.
    pub(crate) fn check_kept(&self) -> Result<(), Error> {
        self.snapshot.check_kept().map_err(|error| Error::of_reader("reader".to_owned(), error.into()))
    }

    /// How many boxes hand them out.
    pub fn boxes(&self) -> usize {
        self.prepared.sinks()
    }

    /// Their columns as Arrow's: terms are dictionaries of texts in N-Triples, as the fields' metadata says; values
    /// have their own types.
    pub fn to_arrow(&self) -> Schema {
        arrow::schema(self.form(), &self.reader)
    }

    /// Their columns in another form.
    pub(crate) fn to_arrow_as(&self, form: &ArrowForm) -> Schema {
        columns::schema(self.form(), &self.reader, form)
    }

    /// The run whose ids their cells are.
    ///
    /// # Panics
    /// They are values.
    pub(crate) fn run(&self) -> &QueryRun {
        match &self.reader {
            CellReader::Terms(run) => run,
            CellReader::Values(_) => panic!("values are no terms of a run"),
        }
    }
}

/// Some solutions: rows of terms, with none for an unbound variable.
#[derive(Clone, Copy, Debug)]
pub struct SolutionBatch<'a> {
    solutions: &'a Solutions,
    envelope: &'a Envelope,
}

impl<'a> SolutionBatch<'a> {
    /// How many solutions it has.
    pub fn rows(&self) -> usize {
        self.envelope.rows()
    }

    /// Whether it has no rows, and no other comes from the same box.
    pub fn is_last(&self) -> bool {
        self.envelope.is_pill()
    }

    /// The common data of all solutions of the answer.
    pub fn solutions(&self) -> &'a Solutions {
        self.solutions
    }

    /// Its columns. For a query of SPARQL one for each variable: in each row the bits of an id, 0 if the variable is
    /// unbound. They are valid as long as the envelope or a copy of it is there. For a language with rows of plain
    /// columns, the values.
    pub fn envelope(&self) -> &'a Envelope {
        self.envelope
    }

    /// Its rows as an Arrow table with the columns of this schema, [`Solutions::to_arrow`]. A term is in its column's
    /// dictionary once.
    ///
    /// # Errors
    /// The rows can't be written as Arrow has them: a dictionary would have more than two billion terms, say.
    pub fn to_arrow(&self, schema: &Arc<Schema>) -> Result<RecordBatch, ArrowError> {
        arrow::record_batch(schema, &self.solutions.reader, self.envelope)
            .map_err(|error| error.downcast::<ArrowError>().map_or_else(ArrowError::ExternalError, |error| *error))
    }

    /// A number that all rows of this batch have for the same term; none if there is no term, or if the language has
    /// rows of plain columns.
    pub fn key(&self, row: usize, column: usize) -> Option<u64> {
        match &self.solutions.reader {
            CellReader::Terms(_) => Some(self.envelope.columns()[column].u64s()[row]).filter(|bits| *bits != 0),
            CellReader::Values(_) => None,
        }
    }

    /// A copy of a term, if there is one.
    pub fn term(&self, row: usize, column: usize) -> Option<Term> {
        self.view(row, column, |view| view.to_term())
    }

    /// Looks at a term, if there is one, without a copy.
    pub fn view<R>(&self, row: usize, column: usize, look: impl FnOnce(TermView<'_>) -> R) -> Option<R> {
        let seen = |view: Option<TermView<'_>>| view.map(look);
        match &self.solutions.reader {
            CellReader::Terms(run) => TermCells::new(run, self.envelope).view(row, column, seen),
            CellReader::Values(types) => ValueCells::new(types, self.envelope).view(row, column, seen),
        }
    }
}

/// The box at the end of a query: counts, and hands over.
struct Rows<T> {
    taker: T,
    solutions: Arc<Solutions>,
    handed: Arc<RowCount>,
    /// A partly taken envelope of a paused box, and the next row.
    rest: Option<(Envelope, usize)>,
    /// All rows within the limit have been handed out.
    is_full: bool,
}

/// The number of rows handed out by all boxes of an answer, and its limits.
#[derive(Debug)]
pub(crate) struct RowCount {
    rows: AtomicU64,
    /// Further rows are left out.
    first: u64,
    /// With further rows the answer fails.
    most: u64,
}

impl RowCount {
    pub(crate) fn new(first: Option<u64>, most: Option<u64>) -> RowCount {
        RowCount { rows: AtomicU64::new(0), first: first.unwrap_or(u64::MAX), most: most.unwrap_or(u64::MAX) }
    }

    /// How many were handed out so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Acquire)
    }

    /// How many of `rows` further rows to hand out.
    fn count(&self, rows: u64) -> Result<u64, TooManyRows> {
        let before = self.rows.fetch_add(rows, Ordering::AcqRel);
        let wanted = rows.min(self.first.saturating_sub(before));
        if wanted < rows {
            self.rows.fetch_sub(rows - wanted, Ordering::AcqRel);
        }
        if before + wanted > self.most { Err(TooManyRows { most: self.most }) } else { Ok(wanted) }
    }
}

/// An answer has more rows than it may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManyRows {
    /// The most rows it may have.
    pub most: u64,
}

impl fmt::Display for TooManyRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the answer has more than {} rows, which is the limit", self.most)
    }
}

impl std::error::Error for TooManyRows {}

/// The operator of one of the boxes at the end of a query.
pub(crate) fn operator<S: Sink>(
    sink: &Arc<S>,
    solutions: &Arc<Solutions>,
    handed: &Arc<RowCount>,
) -> Box<dyn Operator> {
    let (solutions, handed) = (Arc::clone(solutions), Arc::clone(handed));
    Box::new(Rows { taker: sink.taker(&solutions), solutions, handed, rest: None, is_full: false })
}

impl<T: Taker> Operator for Rows<T> {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        if let Some((envelope, row)) = self.rest.take()
            && !self.hand_out(envelope, row, turn)?
        {
            return Ok(());
        }
        // Also after the rest: the next envelope may have caused this invocation.
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        let rows = envelope.rows() as u64;
        let wanted = self.handed.count(rows)?;
        self.is_full = wanted < rows;
        self.hand_out(if self.is_full { envelope.slice(0..wanted as usize) } else { envelope }, 0, turn).map(drop)
    }
}

impl<T: Taker> Rows<T> {
    /// Hands an envelope out, from a row on. Whether there may be more to do in this invocation.
    fn hand_out(&mut self, envelope: Envelope, row: usize, turn: &mut Turn<'_>) -> Result<bool, BoxError> {
        // A stream may send these rows at once, and others only when all have come.
        if !envelope.is_pill() {
            self.solutions.snapshot.check_kept()?;
        }
        let batch = SolutionBatch { solutions: &self.solutions, envelope: &envelope };
        if let Some(row) = self.taker.take_from(&batch, row, turn).map_err(of_sink)? {
            self.rest = Some((envelope, row));
            return Ok(false);
        }
        if self.is_full {
            let last = SolutionBatch { solutions: &self.solutions, envelope: &Envelope::pill() };
            self.taker.take_from(&last, 0, turn).map_err(of_sink)?;
            turn.close(0);
        }
        let is_last = self.is_full || envelope.is_pill();
        if is_last {
            turn.send_pills();
        }
        Ok(!is_last)
    }
}

/// Memory over the call's limit, or not to be had, is the call's matter; anything else is the sink's.
#[cold]
fn of_sink(error: BoxError) -> BoxError {
    if error.is::<OverBudget>() || error.is::<NoMemory>() {
        return error;
    }
    SharedSinkFailed(Arc::new(SinkFailed(error))).into()
}

/// Takes solutions only to count them.
#[derive(Clone, Copy, Debug)]
pub struct Count;

impl Sink for Count {
    type Taker = Count;
    type Output = ();

    fn taker(self: &Arc<Self>, _: &Arc<Solutions>) -> Count {
        Count
    }

    fn finish(&self, _: &Solutions, _: u64) -> io::Result<()> {
        Ok(())
    }
}

impl Taker for Count {
    fn take(&mut self, _: &SolutionBatch<'_>, _: &mut Turn<'_>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Hands each batch to a function, one after the other.
///
/// ```
/// use std::sync::{Arc, mpsc};
/// use vicus::Runtime;
/// use vicus_rdf::Snapshot;
/// use vicus_service::{Dataset, Each, MemoryBudget, Service, SessionOptions};
///
/// let service = Service::new(Runtime::builder().threads(1).start(), MemoryBudget::new(64 << 20));
/// let snapshot = Snapshot::of_turtle(b"<http://e/ann> <http://e/age> 27 .", None).unwrap();
/// let session = service.session(&Dataset::new(Arc::new(snapshot)), SessionOptions::default());
/// let (send, receive) = mpsc::channel();
/// let each = Each::new(move |batch| {
///     (0..batch.rows()).try_for_each(|row| send.send(batch.term(row, 0).expect("it is bound").to_string()))?;
///     Ok(())
/// });
/// session.answer("SELECT ?s { ?s <http://e/age> 27 }", each)?;
/// assert_eq!(receive.recv().as_deref(), Ok("<http://e/ann>"));
/// # Ok::<(), vicus_service::Error>(())
/// ```
pub struct Each<F>(Mutex<F>);

impl<F: FnMut(&SolutionBatch<'_>) -> Result<(), BoxError> + Send + 'static> Each<F> {
    /// A sink with this function; it should not block.
    pub fn new(function: F) -> Each<F> {
        Each(Mutex::new(function))
    }
}

/// A taker of [`Each`].
pub struct EachTaker<F>(Arc<Each<F>>);

impl<F: FnMut(&SolutionBatch<'_>) -> Result<(), BoxError> + Send + 'static> Sink for Each<F> {
    type Taker = EachTaker<F>;
    type Output = ();

    fn taker(self: &Arc<Self>, _: &Arc<Solutions>) -> EachTaker<F> {
        EachTaker(Arc::clone(self))
    }

    fn finish(&self, _: &Solutions, _: u64) -> io::Result<()> {
        Ok(())
    }
}

impl<F: FnMut(&SolutionBatch<'_>) -> Result<(), BoxError> + Send + 'static> Taker for EachTaker<F> {
    fn take(&mut self, batch: &SolutionBatch<'_>, _: &mut Turn<'_>) -> Result<(), BoxError> {
        // After a panic in the function its answer has failed.
        let mut function = self.0.0.lock().map_err(|_| "the function that takes the solutions has panicked")?;
        function(batch)
    }
}
