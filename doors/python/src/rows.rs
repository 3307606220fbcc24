//! An answer: tuples of terms, a stream of Arrow, or a yes or no.

use crate::errors::{Failure, Outcome, exception};
use crate::quads;
use crate::threads::Threads;
use crate::wait::{self, SLICE, is_main, panic_text, signalled, slice, without_interpreter};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::ffi::c_str;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyDict, PyList, PyString, PyTuple, PyType};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use vicus::FlowError;
use vicus_service::data::TermView;
use vicus_service::{
    Answer, ArrowForm, Call, CallOutcome, Cancel, Count, Done, Error, Next, PlanNode, Prepared, RowStream, RunCounts,
    RunningQuery, SolutionBatch, SomeRows, TermForm, ValueType,
};

/// So many rows at most are kept for a look at an answer.
const MOST_AHEAD: usize = 1 << 16;

/// A running or ended query, and its rows. They can be read once.
#[pyclass(frozen, module = "vicus")]
pub(crate) struct Rows {
    shared: Arc<Shared>,
    prepared: Arc<Prepared>,
    text: String,
    columns: Vec<String>,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    cancel: Cancel,
    /// Without the database: when it is closed, its store is another's, and the answer goes on with its snapshot.
    threads: Threads,
    /// Why it has failed, for those who learn of it by another way.
    failed: Mutex<Option<Error>>,
}

struct State {
    source: Source,
    /// Read pieces that nobody has taken.
    kept: VecDeque<SomeRows>,
    rows: u64,
    /// Whether some were taken as tuples.
    is_begun: bool,
    ended: Option<CallOutcome>,
}

enum Source {
    Stream(Box<RowStream>),
    Truth(RunningQuery<Count>),
    Answered(bool),
    /// All was read.
    Over,
    /// The failure of the query: each later read fails with it.
    Failed(Error),
    /// A stream of Arrow has it.
    Given,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !self.threads.is_here() {
            // The locks of a parent's query may be held by threads that are not here.
            std::mem::forget(std::mem::replace(&mut state.source, Source::Over));
            std::mem::forget(std::mem::take(&mut state.kept));
        }
    }
}

impl Shared {
    fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Waits for another reader.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the state in steps of a slice at most, between which signals are looked for. A step returns
    /// none if it has to be called again.
    fn each_slice<T: Send>(
        &self,
        py: Python<'_>,
        mut step: impl FnMut(&mut State) -> Outcome<Option<T>> + Send,
    ) -> Outcome<T> {
        self.threads.check_here()?;
        loop {
            let done = py.detach(|| match self.try_lock() {
                Some(mut state) => step(&mut state),
                // Another thread reads.
                None => {
                    std::thread::sleep(Duration::from_millis(1));
                    Ok(None)
                }
            });
            if let Some(done) = done? {
                return Ok(done);
            }
            if let Err(error) = py.check_signals() {
                self.cancel.cancel();
                py.detach(|| self.lock().interrupt());
                return Err(error.into());
            }
        }
    }

    /// The next piece; none at the end.
    fn next(&self, py: Python<'_>) -> Outcome<Option<SomeRows>> {
        self.each_slice(py, |state| {
            if let Some(piece) = state.kept.pop_front() {
                state.is_begun = true;
                return Ok(Some(Some(piece)));
            }
            Ok(match state.read(Some(Instant::now() + SLICE))? {
                Next::Rows(piece) => {
                    state.is_begun = true;
                    Some(Some(piece))
                }
                Next::Late => None,
                Next::End => Some(None),
            })
        })
    }
}

impl State {
    /// Ends a query whose reader was interrupted: what is left can't be read.
    fn interrupt(&mut self) {
        if matches!(self.source, Source::Stream(_) | Source::Truth(_)) {
            self.source = Source::Failed(Error::Cancelled);
        }
    }

    fn read(&mut self, until: Option<Instant>) -> Outcome<Next> {
        match &mut self.source {
            Source::Stream(stream) => match stream.next(until) {
                Ok(Next::Rows(piece)) => {
                    self.rows += piece.batch().rows() as u64;
                    Ok(Next::Rows(piece))
                }
                Ok(Next::Late) => Ok(Next::Late),
                Ok(Next::End) => {
                    self.ended = stream.outcome().cloned();
                    Ok(Next::End)
                }
                Err(error) => {
                    self.source = Source::Failed(error.clone());
                    Err(error.into())
                }
            },
            Source::Failed(error) => Err(error.clone().into()),
            Source::Given => {
                Err(Failure::new("AlreadyRead", "the rows were handed over as a stream of Arrow, and can be read once"))
            }
            Source::Truth(_) | Source::Answered(_) => {
                Err(Failure::new("AnswerError", "an ASK is answered by a yes or no, and has no rows: use bool()"))
            }
            Source::Over => Ok(Next::End),
        }
    }
}

/// Begins to answer a query.
pub(crate) fn begin(
    threads: Threads,
    call: Call,
    prepared: Arc<Prepared>,
    cancel: Cancel,
    text: &str,
) -> Outcome<Rows> {
    let (source, columns) = match prepared.form() {
        Answer::Truth => {
            let running = call.begin(&prepared, Count)?;
            (Source::Truth(running), Vec::new())
        }
        Answer::Rows { columns } => {
            let columns = columns.clone();
            (Source::Stream(Box::new(RowStream::begin(call, &prepared)?)), columns)
        }
        Answer::Triples => {
            let columns = ["subject", "predicate", "object"].map(str::to_owned).to_vec();
            (Source::Stream(Box::new(RowStream::begin(call, &prepared)?)), columns)
        }
    };
    let state = Mutex::new(State { source, kept: VecDeque::new(), rows: 0, is_begun: false, ended: None });
    let shared = Arc::new(Shared { state, cancel, threads, failed: Mutex::default() });
    Ok(Rows { shared, prepared, text: text.to_owned(), columns })
}

impl Rows {
    fn exception(&self, py: Python<'_>, failure: Failure) -> PyErr {
        exception(py, failure, Some(&self.text))
    }

    /// Makes rows of Python of a batch's, so many at most.
    fn convert<'py>(
        &self,
        py: Python<'py>,
        row: &Bound<'py, PyAny>,
        batch: &SolutionBatch<'_>,
        most: usize,
        made: &Bound<'py, PyList>,
    ) -> PyResult<()> {
        let (terms, width) = (Terms::get(py)?, self.columns.len());
        let mut cells = Cells::new(batch);
        for number in 0..batch.rows().min(most) {
            let mut cell = |column| {
                Ok(cells.get(number, column, |view| terms.make(py, view))?.unwrap_or_else(|| py.None().into_bound(py)))
            };
            let cells = (0..width).map(&mut cell).collect::<PyResult<Vec<_>>>()?;
            made.append(row.call1((PyTuple::new(py, cells)?,))?)?;
        }
        Ok(())
    }

    /// The next piece as its conversion; none at the end. Rows whose conversion raises are given again.
    fn next_by<'py>(
        &self,
        py: Python<'py>,
        convert: impl FnOnce(&SolutionBatch<'_>, &Bound<'py, PyList>) -> PyResult<()>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let piece = self.shared.next(py).map_err(|failure| self.exception(py, failure))?;
        let Some(piece) = piece else { return Ok(None) };
        let made = PyList::empty(py);
        match piece.read_by(|batch| convert(&batch, &made)) {
            Ok(Ok(())) => Ok(Some(made)),
            Ok(Err(raised)) => {
                // Ctrl-C, say: none is missing.
                py.detach(|| self.shared.lock().kept.push_front(piece));
                Err(raised)
            }
            Err(error) => {
                py.detach(|| self.shared.lock().source = Source::Failed(error.clone()));
                Err(self.exception(py, error.into()))
            }
        }
    }

    /// A forked child can't wait for a lock that a thread of its parent may have.
    fn check_here(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.threads.check_here().map_err(|failure| self.exception(py, failure))
    }

    fn form(&self, terms: &str, types: Vec<(String, String)>) -> Outcome<ArrowForm> {
        let terms = match terms {
            "lexical" => TermForm::Lexical,
            "full" => TermForm::Full,
            "ntriples" => TermForm::NTriples,
            other => {
                let message = format!("terms is \"lexical\", \"full\" or \"ntriples\", and not {other:?}");
                return Err(Failure::argument(message));
            }
        };
        let kind = |(name, kind): (String, String)| {
            let known = match kind.as_str() {
                "bool" => ValueType::Boolean,
                "int" => ValueType::Integer,
                "float" => ValueType::Double,
                "str" => ValueType::Text,
                "date" => ValueType::Date,
                "datetime" => ValueType::Timestamp,
                other => {
                    let message = format!("types: {other} is none of bool, int, float, str, date and datetime");
                    return Err(Failure::argument(message));
                }
            };
            Ok((name, known))
        };
        let form = ArrowForm { terms, types: types.into_iter().map(kind).collect::<Outcome<_>>()? };
        match form.unknown(self.prepared.form()) {
            Some(name) => {
                let columns = self.columns.join(", ");
                Err(Failure::argument(format!("types: the answer has no column {name}, but {columns}")))
            }
            None => Ok(form),
        }
    }
}

#[pymethods]
impl Rows {
    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.columns.clone()
    }

    /// `rows`, `truth` or `triples`.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.prepared.form() {
            Answer::Rows { .. } => "rows",
            Answer::Truth => "truth",
            Answer::Triples => "triples",
        }
    }

    /// The next rows, each made by `row` of its terms; none at the end.
    fn fetch<'py>(&self, py: Python<'py>, row: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyList>>> {
        self.next_by(py, |batch, made| self.convert(py, row, batch, usize::MAX, made))
    }

    /// The next rows as dictionaries with these keys, each term made by `make` of its kind, its text, its datatype and
    /// its language; none at the end. What is unbound is left out.
    fn fetch_dicts<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<Bound<'py, PyAny>>,
        make: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        self.next_by(py, |batch, made| {
            let mut cells = Cells::new(batch);
            for number in 0..batch.rows() {
                let row = PyDict::new(py);
                for (column, key) in keys.iter().enumerate() {
                    if let Some(term) = cells.get(number, column, |view| make.call1(quads::parts_of(view)))? {
                        row.set_item(key, term)?;
                    }
                }
                made.append(row)?;
            }
            Ok(())
        })
    }

    /// The first of the rows that are left, so many at most, which stay to be read; and whether the query is over.
    /// Waits no longer than `seconds` for its end.
    fn first<'py>(
        &self,
        py: Python<'py>,
        row: &Bound<'py, PyAny>,
        most: usize,
        seconds: f64,
    ) -> PyResult<(Bound<'py, PyList>, bool)> {
        let until = wait::until(seconds).map_err(|failure| self.exception(py, failure))?;
        let read = self.shared.each_slice(py, |state| {
            let kept = |state: &State| state.kept.iter().map(|piece| piece.batch().rows()).sum::<usize>();
            let rows = kept(state);
            if rows >= most && (rows >= MOST_AHEAD || Instant::now() >= until) {
                return Ok(Some((state.kept.clone(), false)));
            }
            Ok(match state.read(Some(Instant::now() + SLICE))? {
                Next::Rows(piece) => {
                    state.kept.push_back(piece);
                    None
                }
                Next::Late => None,
                Next::End => Some((state.kept.clone(), true)),
            })
        });
        let (pieces, is_over) = read.map_err(|failure| self.exception(py, failure))?;
        let made = PyList::empty(py);
        for piece in pieces {
            let left = most - made.len();
            let converted = piece.read_by(|batch| self.convert(py, row, &batch, left, &made));
            converted.map_err(|error| self.exception(py, error.into()))??;
            if made.len() >= most {
                break;
            }
        }
        Ok((made, is_over))
    }

    /// Reads all rows, and keeps them for their reader; how many there are.
    fn read(&self, py: Python<'_>) -> PyResult<u64> {
        let read = self.shared.each_slice(py, |state| {
            Ok(match state.read(Some(Instant::now() + SLICE))? {
                Next::Rows(piece) => {
                    state.kept.push_back(piece);
                    None
                }
                Next::Late => None,
                Next::End => Some(state.rows),
            })
        });
        read.map_err(|failure| self.exception(py, failure))
    }

    /// Whether there are rows. The first ones are kept for their reader.
    fn has_rows(&self, py: Python<'_>) -> PyResult<bool> {
        let read = self.shared.each_slice(py, |state| {
            if state.rows > 0 {
                return Ok(Some(true));
            }
            Ok(match state.read(Some(Instant::now() + SLICE))? {
                Next::Rows(piece) => {
                    state.kept.push_back(piece);
                    Some(true)
                }
                Next::Late => None,
                Next::End => Some(false),
            })
        });
        read.map_err(|failure| self.exception(py, failure))
    }

    /// The answer of an ASK.
    fn truth(&self, py: Python<'_>) -> PyResult<bool> {
        let told = Arc::new((Mutex::new(false), Condvar::new()));
        let mut is_asked = false;
        let answered = self.shared.each_slice(py, |state| {
            match &state.source {
                Source::Answered(answer) => return Ok(Some(*answer)),
                Source::Truth(running) if !running.is_done() => {
                    if !is_asked {
                        is_asked = true;
                        let teller = Arc::clone(&told);
                        running.when_done(move || {
                            *teller.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
                            teller.1.notify_all();
                        });
                    }
                    let is_told = told.0.lock().unwrap_or_else(PoisonError::into_inner);
                    let waited = told.1.wait_timeout_while(is_told, SLICE, |told| !*told);
                    drop(waited);
                    return Ok(None);
                }
                Source::Truth(_) => {}
                Source::Failed(error) => return Err(error.clone().into()),
                _ => return Err(Failure::new("AnswerError", "only an ASK is answered by a yes or no")),
            }
            let Source::Truth(running) = std::mem::replace(&mut state.source, Source::Over) else { return Ok(None) };
            let (_, ended) = running.wait().inspect_err(|error| state.source = Source::Failed(error.clone()))?;
            let answer = ended.rows > 0;
            state.source = Source::Answered(answer);
            state.ended = Some(ended);
            Ok(Some(answer))
        });
        answered.map_err(|failure| self.exception(py, failure))
    }

    /// The rows as a stream of Arrow, in a capsule: once.
    fn stream<'py>(
        &self,
        py: Python<'py>,
        terms: &str,
        types: Vec<(String, String)>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let form = self.form(terms, types).map_err(|failure| self.exception(py, failure))?;
        is_main(py);
        let given = self.shared.each_slice(py, |state| match std::mem::replace(&mut state.source, Source::Given) {
            Source::Stream(stream) if state.is_begun => {
                state.source = Source::Stream(stream);
                Err(Failure::new(
                    "AlreadyRead",
                    "some rows were read as tuples already: a frame has to have all of them",
                ))
            }
            Source::Stream(stream) => {
                let schema = stream.schema(&form);
                let kept = std::mem::take(&mut state.kept);
                let shared = Arc::clone(&self.shared);
                Ok(Some(Reading { stream: Some(*stream), kept, schema, form: form.clone(), shared }))
            }
            Source::Over | Source::Given => Err(Failure::new("AlreadyRead", "the rows were read already")),
            Source::Failed(error) => {
                state.source = Source::Failed(error.clone());
                Err(error.into())
            }
            truth => {
                state.source = truth;
                Err(Failure::new("AnswerError", "an ASK is answered by a yes or no, and has no rows: use bool()"))
            }
        });
        let reading = given.map_err(|failure| self.exception(py, failure))?;
        let stream = FFI_ArrowArrayStream::new(Box::new(reading));
        PyCapsule::new_with_value(py, stream, c_str!("arrow_array_stream"))
    }

    /// Ends the query. Rows that were read already can still be taken.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.check_here(py)?;
        py.detach(|| self.shared.cancel.cancel());
        Ok(())
    }

    /// Whether a reader of the stream of Arrow was told of a failure.
    #[getter]
    fn failed(&self, py: Python<'_>) -> PyResult<bool> {
        self.check_here(py)?;
        Ok(self.shared.failed.lock().unwrap_or_else(PoisonError::into_inner).is_some())
    }

    /// Raises that failure.
    fn raise_failed(&self, py: Python<'_>) -> PyResult<()> {
        self.check_here(py)?;
        let failed = self.shared.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        failed.map_or(Ok(()), |error| Err(self.exception(py, error.into())))
    }

    /// How many rows were read so far.
    #[getter]
    fn rows(&self, py: Python<'_>) -> PyResult<u64> {
        self.check_here(py)?;
        Ok(py.detach(|| self.shared.lock().rows))
    }

    /// Seconds from the query's start until its last row was there, if it is over.
    #[getter]
    fn seconds(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        self.check_here(py)?;
        Ok(py.detach(|| self.shared.lock().ended.as_ref().map(|ended| ended.time.as_secs_f64())))
    }

    /// Whether the query is over and all rows were taken.
    #[getter]
    fn is_over(&self, py: Python<'_>) -> PyResult<bool> {
        self.check_here(py)?;
        let over = |state: &State| {
            let is_over =
                state.ended.is_some() || matches!(state.source, Source::Over | Source::Failed(_) | Source::Given);
            is_over && state.kept.is_empty()
        };
        Ok(py.detach(|| over(&self.shared.lock())))
    }

    /// Its operators and its boxes, as text, and its operators.
    fn explain(&self) -> (String, Vec<OperatorParts>) {
        (self.prepared.explain(None), operators(&self.prepared, None))
    }
}

/// The batches of an answer for their consumer in any thread, with the interpreter or without it.
struct Reading {
    stream: Option<RowStream>,
    kept: VecDeque<SomeRows>,
    schema: SchemaRef,
    form: ArrowForm,
    shared: Arc<Shared>,
}

impl Reading {
    fn fail(&mut self, error: Error) -> ArrowError {
        self.stream = None;
        self.shared.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.clone());
        ArrowError::ExternalError(Box::new(error))
    }
}

impl Iterator for Reading {
    type Item = Result<RecordBatch, ArrowError>;

    /// The caller is a function for C, through which no panic may go: the process would end.
    fn next(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        if let Err(failure) = self.shared.threads.check_here() {
            // Without a look at the stream: a thread of the parent may have its locks.
            return Some(Err(ArrowError::ExternalError(failure.to_string().into())));
        }
        let next = catch_unwind(AssertUnwindSafe(|| self.next_batch()));
        next.unwrap_or_else(|panic| {
            let (name, message) = ("rows".to_owned(), panic_text(&*panic).to_owned());
            Some(Err(self.fail(Error::Internal(FlowError::Panicked { name, message }))))
        })
    }
}

impl Reading {
    fn next_batch(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        let stream = self.stream.as_mut()?;
        if let Some(piece) = self.kept.pop_front() {
            let made = stream.to_arrow(piece, &self.form);
            return Some(made.map_err(|error| self.fail(error)));
        }
        let is_main = wait::is_known_main();
        loop {
            // Without a wait first: most pieces are there.
            let mut next = stream.next(Some(Instant::now()));
            if let Ok(Next::Late) = next {
                // The consumer may have the interpreter, which others want meanwhile.
                next = without_interpreter(|| stream.next(slice(is_main)));
            }
            match next {
                Ok(Next::Rows(piece)) => {
                    let made = stream.to_arrow(piece, &self.form);
                    return Some(made.map_err(|error| self.fail(error)));
                }
                Ok(Next::End) => return None,
                Ok(Next::Late) => {
                    if let Some(raised) = signalled(&self.shared.cancel) {
                        // The consumer has no way to hand it on, so it is raised when the consumer returns.
                        Python::attach(|py| wait::raise_later(py, raised));
                        return Some(Err(self.fail(Error::Cancelled)));
                    }
                }
                Err(error) => return Some(Err(self.fail(error))),
            }
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if !self.shared.threads.is_here() {
            std::mem::forget(self.stream.take());
            std::mem::forget(std::mem::take(&mut self.kept));
        }
    }
}

impl RecordBatchReader for Reading {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// An operator of a plan: its reader's place in the list, its name, its operands, its columns, the rows expected of it,
/// how many boxes share its work; and after a run its rows, whether they are all, nanoseconds, and bytes near, far and
/// spilled.
pub(crate) type OperatorParts = (Option<usize>, String, String, Vec<String>, f64, usize, Option<WorkParts>);
type WorkParts = (u64, bool, u64, u64, u64, u64);

/// The operators of a plan, in pre-order.
pub(crate) fn operators(plan: &Prepared, counts: Option<RunCounts<'_>>) -> Vec<OperatorParts> {
    let parts = |node: PlanNode| {
        let done = counts.map(|counts| node.done(counts));
        let work =
            |done: Done| (done.rows, done.is_whole, done.busy_ns, done.near_bytes, done.far_bytes, done.spilled_bytes);
        let PlanNode { parent, name, detail, columns, rows, degree, .. } = node;
        (parent, name, detail, columns, rows, degree, done.map(work))
    };
    plan.nodes().into_iter().map(parts).collect()
}

/// The terms of a batch, each of which is made once.
struct Cells<'a, 'py> {
    batch: &'a SolutionBatch<'a>,
    made: FxHashMap<u64, Bound<'py, PyAny>>,
}

impl<'a, 'py> Cells<'a, 'py> {
    fn new(batch: &'a SolutionBatch<'a>) -> Cells<'a, 'py> {
        Cells { batch, made: FxHashMap::default() }
    }

    /// The term of a row; nothing if it is unbound.
    fn get(
        &mut self,
        row: usize,
        column: usize,
        make: impl FnOnce(TermView<'_>) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = self.batch.key(row, column);
        if let Some(known) = key.and_then(|key| self.made.get(&key)) {
            return Ok(Some(known.clone()));
        }
        let term = self.batch.view(row, column, make).transpose()?;
        if let (Some(key), Some(term)) = (key, &term) {
            self.made.insert(key, term.clone());
        }
        Ok(term)
    }
}

/// The package's classes of terms.
struct Terms {
    iri: Py<PyType>,
    blank: Py<PyType>,
    literal: Py<PyAny>,
    triple: Py<PyAny>,
}

impl Terms {
    fn get(py: Python<'_>) -> PyResult<&Terms> {
        static TERMS: PyOnceLock<Terms> = PyOnceLock::new();
        TERMS.get_or_try_init(py, || {
            let module = py.import("vicus._terms")?;
            let class =
                |name: &str| -> PyResult<Py<PyType>> { Ok(module.getattr(name)?.cast_into::<PyType>()?.unbind()) };
            Ok(Terms {
                iri: class("IRI")?,
                blank: class("BlankNode")?,
                literal: module.getattr("_literal")?.unbind(),
                triple: module.getattr("_triple")?.unbind(),
            })
        })
    }

    fn make<'py>(&self, py: Python<'py>, view: TermView<'_>) -> PyResult<Bound<'py, PyAny>> {
        let literal = |value: &str, datatype: Option<&str>, language: Option<&str>| {
            self.literal.bind(py).call1((value, datatype, language))
        };
        let directed = |value: &str, language: &str, direction: String| {
            self.literal.bind(py).call1((value, None::<&str>, language, direction))
        };
        match view {
            TermView::Iri(text) => self.iri.bind(py).call1((PyString::new(py, text),)),
            TermView::Blank(blank) => self.blank.bind(py).call1((blank.to_string(),)),
            TermView::String(value) => literal(value, None, None),
            TermView::Typed { value, datatype } => literal(value, Some(datatype), None),
            TermView::LangString { value, language } => literal(value, None, Some(language)),
            TermView::DirString { value, language, direction } => directed(value, language, direction.to_string()),
            TermView::Boolean(value) => literal(if value { "true" } else { "false" }, Some(BOOLEAN), None),
            TermView::Integer(value) => literal(&value.to_string(), Some(INTEGER), None),
            view @ TermView::Triple(_) => self.triple.bind(py).call1((view.to_string(),)),
        }
    }
}

const BOOLEAN: &str = "http://www.w3.org/2001/XMLSchema#boolean";
const INTEGER: &str = "http://www.w3.org/2001/XMLSchema#integer";
