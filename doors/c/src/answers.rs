//! The answer of a query as a stream of Arrow: boxes write batches, and the caller reads them. A box pauses while
//! enough of them are unread, so an answer of any length takes bounded memory; no thread waits meanwhile.

use crate::error::{Failure, Outcome, record};
use arrow_array::{BooleanArray, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use vicus::{BoxError, Resume, Turn};
use vicus_service::{Batch, Running, Sink, Solutions, Taker};

/// The most batches waiting for their reader.
const MOST_UNREAD: usize = 16;

/// The state shared by boxes and the reader.
pub(crate) struct Stream {
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

impl Stream {
    pub(crate) fn new(is_bounded: bool) -> Arc<Stream> {
        let (schema, changed) = (OnceLock::new(), Condvar::new());
        Arc::new(Stream { schema, state: Mutex::default(), changed, is_bounded })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing more will be written.
    pub(crate) fn end(&self) {
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
pub(crate) struct ToArrow(pub(crate) Arc<Stream>);

pub(crate) struct ToArrowTaker {
    stream: Arc<Stream>,
    schema: SchemaRef,
}

impl Sink for ToArrow {
    type Taker = ToArrowTaker;
    type Output = ();

    fn taker(self: &Arc<Self>, solutions: &Arc<Solutions>) -> ToArrowTaker {
        let stream = Arc::clone(&self.0);
        let schema = Arc::clone(stream.schema.get_or_init(|| Arc::new(solutions.to_arrow())));
        ToArrowTaker { stream, schema }
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
        let mut state = self.stream.lock();
        if self.stream.is_bounded
            && state.unread.len() >= MOST_UNREAD
            && let Some(resume) = turn.pause()
        {
            state.paused.push(resume);
            return Ok(Some(row));
        }
        drop(state);
        let rows = batch.to_arrow(&self.schema)?;
        self.stream.lock().unread.push_back(rows);
        self.stream.changed.notify_all();
        Ok(None)
    }
}

/// Reads the batches of a query. Dropping it ends the query.
pub(crate) struct Answer {
    stream: Arc<Stream>,
    /// Until it was waited for.
    running: Option<Running<ToArrow>>,
}

impl Answer {
    /// The answer of a query begun with this stream.
    pub(crate) fn new(stream: Arc<Stream>, running: Running<ToArrow>) -> Answer {
        let over = Arc::clone(&stream);
        running.when_done(move || over.end());
        Answer { stream, running: Some(running) }
    }

    /// Waits for the whole answer.
    pub(crate) fn collect(mut self) -> Outcome<Answer> {
        self.end()?;
        Ok(self)
    }

    /// How the query has ended, once it is over.
    fn end(&mut self) -> Outcome {
        let Some(running) = self.running.take() else { return Ok(()) };
        let ended = running.wait();
        self.stream.end();
        ended.map(drop).map_err(Failure::from)
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // Cancelled first, so boxes that wait for room have nothing more to do.
        drop(self.running.take());
        let paused = std::mem::take(&mut self.stream.lock().paused);
        drop(paused);
    }
}

impl Iterator for Answer {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        if let Some(batch) = self.stream.next() {
            return Some(Ok(batch));
        }
        let failure = self.end().err()?;
        let error = ArrowError::ExternalError(Box::new(failure.clone()));
        record(failure);
        Some(Err(error))
    }
}

impl RecordBatchReader for Answer {
    fn schema(&self) -> SchemaRef {
        self.stream.schema.get().cloned().unwrap_or_else(|| Arc::new(Schema::empty()))
    }
}

/// A yes or a no as a table of one row.
pub(crate) struct Truth(pub(crate) Option<bool>);

impl Iterator for Truth {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        let column = Arc::new(BooleanArray::from(vec![self.0.take()?]));
        Some(RecordBatch::try_new(self.schema(), vec![column]))
    }
}

impl RecordBatchReader for Truth {
    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("answer", DataType::Boolean, false)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use std::time::Duration;
    use vicus::Runtime;
    use vicus_rdf::Snapshot;
    use vicus_service::{Dataset, MemoryBudget, Service, SessionOptions};

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
                let stream = Stream::new(true);
                let answer = call.begin(&prepared, ToArrow(Arc::clone(&stream))).expect("it begins");
                let answer = Answer::new(stream, answer);
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
