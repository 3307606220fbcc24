//! The answer of a query as a stream of Arrow: boxes write batches, and the caller reads them. A box pauses while
//! enough of them are unread, so an answer of any length takes bounded memory; no thread waits meanwhile.

use super::columns::{self, ArrowColumns, ArrowForm};
use super::{Count, Sink, SolutionBatch, Solutions, Taker};
use crate::begin::FirstThread;
use crate::error::Error;
use crate::session::{Call, CallOutcome, Prepared, RunningQuery, Watching, reading};
use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use vicus::tasks::is_in_runtime;
use vicus::{BoxError, Envelope, Resume, Turn};
use vicus_language::Answer;

/// The most batches waiting for their reader.
const MOST_UNREAD: usize = 16;

/// The batches of an answer, pulled by their reader: solutions as
/// [`SolutionBatch::to_arrow`](crate::SolutionBatch::to_arrow) writes them, a yes or a no as a column `answer` of one
/// row. After an error there are no more. Dropping it ends the query.
///
/// ```
/// use std::sync::Arc;
/// use vicus::Runtime;
/// use vicus_service::{ArrowStream, Dataset, MemoryBudget, Service, SessionOptions, data::Snapshot};
///
/// let service = Service::new(Runtime::builder().threads(2).start(), MemoryBudget::new(64 << 20));
/// let data = Snapshot::of_turtle(b"<http://e/ann> <http://e/age> 27 .", None).unwrap();
/// let session = service.session(&Dataset::new(Arc::new(data)), SessionOptions::default());
/// let mut call = session.call()?;
/// let prepared = call.prepare("SELECT ?age { ?x <http://e/age> ?age }")?;
/// let stream = ArrowStream::begin(call, &prepared)?;
/// assert_eq!(stream.schema().field(0).name(), "age");
/// let rows: usize = stream.map(|batch| Ok(batch?.num_rows())).sum::<Result<_, vicus_service::Error>>()?;
/// assert_eq!(rows, 1);
/// # Ok::<(), vicus_service::Error>(())
/// ```
#[derive(Debug)]
pub struct ArrowStream(Source);

enum Source {
    Rows(Box<RowStream>),
    /// A yes or a no, until it is read.
    Truth(Option<bool>),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Rows(_) => "Rows",
            Source::Truth(_) => "Truth",
        })
    }
}

impl ArrowStream {
    /// Begins to answer a query. On a task of a runtime this returns when the whole answer is there: a task that waited
    /// for its reader would hold up the thread of the writer.
    ///
    /// # Errors
    /// As [`Call::begin`]; on a task, and for a yes or a no, also as [`RunningQuery::wait`].
    pub fn begin(call: Call, prepared: &Arc<Prepared>) -> Result<ArrowStream, Error> {
        if matches!(prepared.form(), Answer::Truth) {
            let (_, outcome) = call.answer(prepared, Count)?;
            return Ok(ArrowStream(Source::Truth(Some(outcome.rows > 0))));
        }
        let rows = RowStream::begin_as(call, prepared, Some(&ArrowForm::default()))?;
        Ok(ArrowStream(Source::Rows(Box::new(rows))))
    }

    /// Its columns.
    pub fn schema(&self) -> SchemaRef {
        match &self.0 {
            Source::Rows(rows) => rows.schema(&ArrowForm::default()),
            Source::Truth(_) => truth_schema(),
        }
    }
}

impl Iterator for ArrowStream {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Result<RecordBatch, Error>> {
        match &mut self.0 {
            Source::Rows(rows) => match rows.next(None) {
                Ok(Next::Rows(piece)) => Some(rows.to_arrow(piece, &ArrowForm::default())),
                Ok(Next::Late | Next::End) => None,
                Err(error) => Some(Err(error)),
            },
            Source::Truth(truth) => {
                let column = Arc::new(BooleanArray::from(vec![truth.take()?]));
                Some(Ok(RecordBatch::try_new(truth_schema(), vec![column]).expect("one column of truth values")))
            }
        }
    }
}

fn truth_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("answer", DataType::Boolean, false)]))
}

/// The state shared by boxes and the reader.
struct Shared {
    /// How rows become Arrow's, and their columns, when the reader has said so. Until then boxes hand rows out as they
    /// are.
    form: OnceLock<ArrowColumns>,
    /// Set before the query runs.
    solutions: OnceLock<Arc<Solutions>>,
    state: Mutex<State>,
    changed: Condvar,
    /// Whether boxes pause when enough is unread: not if the reader comes when all is over.
    is_bounded: bool,
}

#[derive(Default)]
struct State {
    unread: VecDeque<SomeRows>,
    /// The rows of all pieces so far.
    rows: u64,
    /// Boxes waiting for room.
    paused: Vec<Resume>,
    /// The query is over, well or not.
    is_over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing more will be written.
    fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    fn form(&self, form: &ArrowForm) -> &ArrowColumns {
        self.form.get_or_init(|| {
            let schema = self.solutions.get().map(|solutions| solutions.to_arrow_as(form));
            ArrowColumns::new(form, schema.unwrap_or_else(Schema::empty))
        })
    }

    /// The next piece, waited for until this time; none if all are read and the query is over.
    fn next(&self, until: Option<Instant>) -> Option<Next> {
        let mut state = self.lock();
        while state.unread.is_empty() && !state.is_over {
            state = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return Some(Next::Late),
                Some(left) => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        let next = state.unread.pop_front();
        let has_room = state.unread.len() <= MOST_UNREAD / 2;
        let resumed = if has_room { std::mem::take(&mut state.paused) } else { Vec::new() };
        drop(state);
        // Dropping a handle queues its box.
        drop(resumed);
        next.map(Next::Rows)
    }
}

/// The sink of a query's boxes.
struct ToReader(Arc<Shared>);

struct ToReaderTaker {
    shared: Arc<Shared>,
    solutions: Arc<Solutions>,
}

impl Sink for ToReader {
    type Taker = ToReaderTaker;
    type Output = ();

    fn taker(self: &Arc<Self>, solutions: &Arc<Solutions>) -> ToReaderTaker {
        let shared = Arc::clone(&self.0);
        shared.solutions.get_or_init(|| Arc::clone(solutions));
        ToReaderTaker { shared, solutions: Arc::clone(solutions) }
    }

    fn finish(&self, _: &Solutions, _: u64) -> io::Result<()> {
        Ok(())
    }
}

impl Taker for ToReaderTaker {
    fn take(&mut self, batch: &SolutionBatch<'_>, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        self.take_from(batch, 0, turn).map(drop)
    }

    fn take_from(
        &mut self,
        batch: &SolutionBatch<'_>,
        row: usize,
        turn: &mut Turn<'_>,
    ) -> Result<Option<usize>, BoxError> {
        if batch.rows() == 0 {
            return Ok(None);
        }
        let mut state = self.shared.lock();
        if self.shared.is_bounded
            && state.unread.len() >= MOST_UNREAD
            && let Some(resume) = turn.pause()
        {
            state.paused.push(resume);
            return Ok(Some(row));
        }
        let from = state.rows;
        state.rows += batch.rows() as u64;
        drop(state);
        let (envelope, solutions) = (batch.envelope().clone(), Arc::clone(&self.solutions));
        let mut piece = SomeRows { envelope, solutions, from, arrow: None };
        if let Some(columns) = self.shared.form.get() {
            piece.arrow = Some(piece.convert(columns)?);
        }
        self.shared.lock().unread.push_back(piece);
        self.shared.changed.notify_all();
        Ok(None)
    }
}

/// Some rows of an answer. A clone is the same rows.
#[derive(Clone)]
pub struct SomeRows {
    envelope: Envelope,
    solutions: Arc<Solutions>,
    /// The number of rows before them.
    from: u64,
    arrow: Option<RecordBatch>,
}

impl SomeRows {
    /// The rows.
    pub fn batch(&self) -> SolutionBatch<'_> {
        SolutionBatch { solutions: &self.solutions, envelope: &self.envelope }
    }

    /// The number of the first one, from 0, in the order in which boxes handed them out.
    pub fn first(&self) -> u64 {
        self.from
    }

    /// Calls a reader of the rows outside of boxes: their terms' texts may be on a page of a file that is damaged.
    ///
    /// # Errors
    /// It is, or the bytes were lost until then.
    pub fn read_by<R>(&self, read: impl FnOnce(SolutionBatch<'_>) -> R) -> Result<R, Error> {
        reading(&self.solutions.snapshot, "rows", || read(self.batch()))
    }

    fn convert(&self, columns: &ArrowColumns) -> Result<RecordBatch, BoxError> {
        columns::record_batch(columns, &self.solutions.reader, &self.envelope, self.from)
    }
}

impl fmt::Debug for SomeRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SomeRows").field("rows", &self.envelope.rows()).finish_non_exhaustive()
    }
}

/// The next of a [`RowStream`].
#[derive(Debug)]
pub enum Next {
    /// Some rows.
    Rows(SomeRows),
    /// None have come yet.
    Late,
    /// All rows were read.
    End,
}

/// The rows of an answer, pulled by their reader, who may decide late in which form: as [`SolutionBatch`]es, or as
/// Arrow's, which boxes then make. Dropping it ends the query.
///
/// ```
/// use std::sync::Arc;
/// use vicus::Runtime;
/// use vicus_service::{
///     ArrowForm, Dataset, MemoryBudget, Next, RowStream, Service, SessionOptions, TermForm, data::Snapshot,
/// };
///
/// let service = Service::new(Runtime::builder().threads(2).start(), MemoryBudget::new(64 << 20));
/// let data = Snapshot::of_turtle(b"<http://e/ann> <http://e/age> 27 .", None).unwrap();
/// let session = service.session(&Dataset::new(Arc::new(data)), SessionOptions::default());
/// let mut call = session.call()?;
/// let prepared = call.prepare("SELECT ?x { ?x <http://e/age> ?age }")?;
/// let mut rows = RowStream::begin(call, &prepared)?;
/// let form = ArrowForm { terms: TermForm::Lexical, ..ArrowForm::default() };
/// let Next::Rows(piece) = rows.next(None)? else { panic!("there is a row") };
/// assert_eq!(piece.batch().view(0, 0, |term| term.to_string()).as_deref(), Some("<http://e/ann>"));
/// assert_eq!(rows.to_arrow(piece, &form)?.num_rows(), 1);
/// assert!(matches!(rows.next(None)?, Next::End));
/// # Ok::<(), vicus_service::Error>(())
/// ```
pub struct RowStream {
    shared: Arc<Shared>,
    /// Until it was waited for.
    running: Option<RunningQuery<ToReader>>,
    /// The outcome, when it was.
    outcome: Option<CallOutcome>,
}

impl RowStream {
    /// Begins to answer a query. On a task of a runtime this returns when the whole answer is there: a task that waited
    /// for its reader would hold up the thread of the writer.
    ///
    /// # Errors
    /// As [`Call::begin`]; on a task also as [`RunningQuery::wait`].
    pub fn begin(call: Call, prepared: &Arc<Prepared>) -> Result<RowStream, Error> {
        RowStream::begin_as(call, prepared, None)
    }

    fn begin_as(call: Call, prepared: &Arc<Prepared>, form: Option<&ArrowForm>) -> Result<RowStream, Error> {
        let is_bounded = !is_in_runtime();
        let shared = Shared {
            form: OnceLock::new(),
            solutions: OnceLock::new(),
            state: Mutex::default(),
            changed: Condvar::new(),
            is_bounded,
        };
        let shared = Arc::new(shared);
        let decided = Arc::clone(&shared);
        let sink = ToReader(Arc::clone(&shared));
        let decide = move |solutions: &Arc<Solutions>| {
            decided.solutions.get_or_init(|| Arc::clone(solutions));
            if let Some(form) = form {
                decided.form(form);
            }
        };
        let running = call.begin_on(FirstThread::CallerIfShort, prepared, sink, decide)?;
        let over = Arc::clone(&shared);
        running.when_done(move || over.end());
        let mut rows = RowStream { shared, running: Some(running), outcome: None };
        if !is_bounded {
            rows.end()?;
        }
        Ok(rows)
    }

    /// The columns of the rows in this form. From now on boxes make them; a first form stays.
    pub fn schema(&self, form: &ArrowForm) -> SchemaRef {
        Arc::clone(&self.shared.form(form).schema)
    }

    /// The next rows: waited for until this time, or as long as it takes. After an error there are no more.
    ///
    /// # Errors
    /// As [`RunningQuery::wait`].
    pub fn next(&mut self, until: Option<Instant>) -> Result<Next, Error> {
        match self.shared.next(until) {
            Some(next) => Ok(next),
            None => self.end().map(|()| Next::End),
        }
    }

    /// Rows as Arrow's.
    ///
    /// # Errors
    /// A value has not its column's type ([`Error::Failed`] with a [`WrongValue`](crate::WrongValue)), or the rows
    /// can't be written as Arrow has them, or are on a damaged page of a file ([`Error::Store`]).
    pub fn to_arrow(&self, mut piece: SomeRows, form: &ArrowForm) -> Result<RecordBatch, Error> {
        if let Some(batch) = piece.arrow.take() {
            return Ok(batch);
        }
        let columns = self.shared.form(form);
        let made = piece.read_by(|_| piece.convert(columns))?;
        made.map_err(|error| Error::Failed { name: "rows".to_owned(), error: error.into() })
    }

    /// The cost of the run, when all rows were read.
    pub fn outcome(&self) -> Option<&CallOutcome> {
        self.outcome.as_ref()
    }

    /// A look at the query, while it runs.
    pub fn watch(&self) -> Option<Watching> {
        self.running.as_ref().map(RunningQuery::watch)
    }

    /// Waits for the query's end.
    fn end(&mut self) -> Result<(), Error> {
        let Some(running) = self.running.take() else { return Ok(()) };
        let ended = running.wait();
        self.shared.end();
        self.outcome = Some(ended?.1);
        Ok(())
    }
}

impl fmt::Debug for RowStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowStream").field("is_over", &self.running.is_none()).finish_non_exhaustive()
    }
}

impl Drop for RowStream {
    fn drop(&mut self) {
        // Cancelled first, so boxes that wait for room have nothing more to do.
        drop(self.running.take());
        let paused = std::mem::take(&mut self.shared.lock().paused);
        drop(paused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dataset, MemoryBudget, Service, SessionOptions};
    use arrow_array::cast::AsArray;
    use std::time::Duration;
    use vicus::Runtime;
    use vicus_rdf::Snapshot;

    /// What happened in another sink: a box that had paused behind a batch wrote the batch once more.
    #[test]
    fn each_row_comes_once_at_every_speed() {
        let service = Service::new(Runtime::builder().threads(3).quiet().start(), MemoryBudget::new(1 << 30));
        for count in [0, 1, if cfg!(debug_assertions) { 20_000 } else { 200_000 }] {
            let text: String = (0..count).map(|n| format!("<http://e/{n}> <http://e/p> {n} .\n")).collect();
            let snapshot = Snapshot::of_turtle(text.as_bytes(), None).expect("good Turtle");
            let data = Dataset::new(Arc::new(snapshot));
            let mut expected: Vec<String> = (0..count).map(|n| format!("<http://e/{n}>")).collect();
            expected.sort_unstable();
            for (is_late, pause) in [(false, 0), (true, 0), (false, 1), (true, 2)] {
                let options = SessionOptions { parallel_answers: true, ..SessionOptions::default() };
                let mut call = service.session(&data, options).call().expect("there is memory");
                let prepared = call.prepare("SELECT ?s { ?s ?p ?o }").expect("a query");
                let answer = ArrowStream::begin(call, &prepared).expect("it begins");
                if is_late {
                    std::thread::sleep(Duration::from_millis(20));
                }
                let mut seen = Vec::new();
                for batch in answer {
                    let batch = batch.expect("it is answered");
                    let column = batch.column(0).as_dictionary::<arrow_array::types::Int32Type>();
                    let terms = column.values().as_string::<i32>();
                    let keys = (0..batch.num_rows()).map(|row| column.key(row).expect("it is bound"));
                    seen.extend(keys.map(|key| terms.value(key).to_owned()));
                    std::thread::sleep(Duration::from_millis(pause));
                }
                seen.sort_unstable();
                assert!(seen == expected, "{} of {count} rows: {is_late}, {pause} ms", seen.len());
            }
        }
    }
}
