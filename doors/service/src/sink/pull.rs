//! The answer of a query as a stream of Arrow: boxes write batches, and the caller reads them. A box pauses while
//! enough of them are unread, so an answer of any length takes bounded memory; no thread waits meanwhile.

use super::{Batch, Count, Sink, Solutions, Taker};
use crate::error::Error;
use crate::session::{Call, Prepared, Running};
use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use vicus::tasks::is_in_runtime;
use vicus::{BoxError, Resume, Turn};
use vicus_language::Answer;

/// The most batches waiting for their reader.
const MOST_UNREAD: usize = 16;

/// The batches of an answer, pulled by their reader: solutions as
/// [`Batch::to_arrow`](crate::Batch::to_arrow) writes them, a yes or a no as a column `answer` of one row. After an
/// error there are no more. Dropping it ends the query.
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
    Rows(Rows),
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
    /// As [`Call::begin`]; on a task, and for a yes or a no, also as [`Running::wait`].
    pub fn begin(call: Call, prepared: &Arc<Prepared>) -> Result<ArrowStream, Error> {
        if matches!(prepared.form(), Answer::Truth) {
            let (_, outcome) = call.answer(prepared, Count)?;
            return Ok(ArrowStream(Source::Truth(Some(outcome.rows > 0))));
        }
        let is_bounded = !is_in_runtime();
        let mut rows = Rows::begin(call, prepared, is_bounded)?;
        if !is_bounded {
            rows.end()?;
        }
        Ok(ArrowStream(Source::Rows(rows)))
    }

    /// Its columns.
    pub fn schema(&self) -> SchemaRef {
        match &self.0 {
            Source::Rows(rows) => rows.schema(),
            Source::Truth(_) => truth_schema(),
        }
    }
}

impl Iterator for ArrowStream {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Result<RecordBatch, Error>> {
        match &mut self.0 {
            Source::Rows(rows) => rows.next(),
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
    /// Set when the answer's columns are known: before its query runs.
    schema: OnceLock<SchemaRef>,
    state: Mutex<State>,
    changed: Condvar,
    /// Whether boxes pause when enough is unread: not if the reader comes when all is over.
    is_bounded: bool,
}

#[derive(Default)]
struct State {
    unread: VecDeque<RecordBatch>,
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

    /// The next batch; none if all are read and the query is over.
    fn next(&self) -> Option<RecordBatch> {
        let mut state = self.lock();
        while state.unread.is_empty() && !state.is_over {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let next = state.unread.pop_front();
        let has_room = state.unread.len() <= MOST_UNREAD / 2;
        let resumed = if has_room { std::mem::take(&mut state.paused) } else { Vec::new() };
        drop(state);
        // Dropping a handle queues its box.
        drop(resumed);
        next
    }
}

/// The sink of a query's boxes.
struct ToArrow(Arc<Shared>);

struct ToArrowTaker {
    shared: Arc<Shared>,
    schema: SchemaRef,
}

impl Sink for ToArrow {
    type Taker = ToArrowTaker;
    type Output = ();

    fn taker(self: &Arc<Self>, solutions: &Arc<Solutions>) -> ToArrowTaker {
        let shared = Arc::clone(&self.0);
        let schema = Arc::clone(shared.schema.get_or_init(|| Arc::new(solutions.to_arrow())));
        ToArrowTaker { shared, schema }
    }

    fn finish(&self, _: &Solutions, _: u64) -> io::Result<()> {
        Ok(())
    }
}

impl Taker for ToArrowTaker {
    fn take(&mut self, batch: &Batch<'_>, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        self.take_from(batch, 0, turn).map(drop)
    }

    fn take_from(&mut self, batch: &Batch<'_>, row: usize, turn: &mut Turn<'_>) -> Result<Option<usize>, BoxError> {
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
        drop(state);
        let rows = batch.to_arrow(&self.schema)?;
        self.shared.lock().unread.push_back(rows);
        self.shared.changed.notify_all();
        Ok(None)
    }
}

/// Reads the batches of rows. Dropping it ends the query.
struct Rows {
    shared: Arc<Shared>,
    /// Until it was waited for.
    running: Option<Running<ToArrow>>,
}

impl Rows {
    fn begin(call: Call, prepared: &Arc<Prepared>, is_bounded: bool) -> Result<Rows, Error> {
        let (schema, changed) = (OnceLock::new(), Condvar::new());
        let shared = Arc::new(Shared { schema, state: Mutex::default(), changed, is_bounded });
        let running = call.begin(prepared, ToArrow(Arc::clone(&shared)))?;
        let over = Arc::clone(&shared);
        running.when_done(move || over.end());
        Ok(Rows { shared, running: Some(running) })
    }

    fn schema(&self) -> SchemaRef {
        self.shared.schema.get().cloned().unwrap_or_else(|| Arc::new(Schema::empty()))
    }

    fn next(&mut self) -> Option<Result<RecordBatch, Error>> {
        if let Some(batch) = self.shared.next() {
            return Some(Ok(batch));
        }
        self.end().err().map(Err)
    }

    /// Waits for the query's end.
    fn end(&mut self) -> Result<(), Error> {
        let Some(running) = self.running.take() else { return Ok(()) };
        let ended = running.wait();
        self.shared.end();
        ended.map(drop)
    }
}

impl Drop for Rows {
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
