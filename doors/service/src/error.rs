//! Reasons why a call has no answer, in kinds that a door can map to an exit status or an HTTP status.

use crate::budget::Busy;
use crate::sink::{TooManyRows, WrongFormat};
use std::fmt;
use std::io;
use std::sync::Arc;
use vicus::{BoxError, FlowError, NoMemory, OverBudget};
use vicus_language::{TextError, TextErrorKind};
use vicus_sql::UnreadableTable;
use vicus_store::{CommitError, StoreError};

/// Why a call has no answer. Other calls are not touched.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The text is no supported query, or is too long or too deep; or planning it takes too many steps.
    Query(TextError),
    /// The answer can't be written in the requested format.
    Format(WrongFormat),
    /// Its time was up, while it was doing this.
    TimeLimit {
        /// The call's stage.
        during: Stage,
    },
    /// The call needs more memory than it may have.
    MemoryLimit(OverBudget),
    /// The network of the call needs more than it may have: memory for the rows that wait for boxes, or boxes.
    NetworkLimit(FlowError),
    /// Its answer has more rows than a call's may.
    RowLimit(TooManyRows),
    /// All calls together hold too much for it to get more.
    Busy(Busy),
    /// The call was cancelled.
    Cancelled,
    /// The system had no memory for a box of the call.
    NoMemory {
        /// The box.
        name: String,
        /// The box's demand.
        error: NoMemory,
    },
    /// The system gave no thread to end it in time.
    NoThread(Arc<io::Error>),
    /// The receiver of the answer has failed: a broken pipe, say.
    Sink(Arc<SinkFailed>),
    /// A box gave up, because of the query or of the data.
    Failed {
        /// The box.
        name: String,
        /// The box's error.
        error: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// An operation of an update can't be carried out, or its pattern has no answer.
    Operation {
        /// Its place in the text, from 1.
        number: usize,
        /// The operation's name.
        name: &'static str,
        /// Why not.
        error: Arc<Error>,
    },
    /// The owner of the data can't change or read it: its disk is full, say, or a file is damaged.
    Store(Arc<dyn std::error::Error + Send + Sync>),
    /// A mistake of ours: a box panicked, or did not end.
    Internal(FlowError),
}

/// The kinds of [`Error`], as doors tell them: [`ErrorKind::word`], [`ErrorKind::http`] and [`ErrorKind::code`] are the
/// last three columns.
///
/// | kind | what helps | word | HTTP | `vicus.h` |
/// |---|---|---|---|---|
/// | `Query` | another query | `query` | 400 | -11, `VICUS_ERROR_QUERY` |
/// | `Failed` | the same | `failed` | 400 | -11 |
/// | `Format` | another format | `format` | 406 | -11 |
/// | `PlanLimit`, `MemoryLimit`, `RowLimit` | less, or a higher limit | `limit` | 413 | -12, `VICUS_ERROR_LIMIT` |
/// | `NetworkLimit` | the same | `limit` | 413 | -12 |
/// | `TimeLimit` | the same | `time` | 408 | -12 |
/// | `Busy`, `NoThread` | asking again later | `busy` | 503 | -13, `VICUS_ERROR_BUSY` |
/// | `NoMemory` | the same | `busy` | 503 | -6, `VICUS_ERROR_NO_MEMORY` |
/// | `Cancelled` | the client has gone | `cancelled` | 499 | -7, `VICUS_ERROR_CANCELLED` |
/// | `Sink` | the same | `format` | 406 | -16, `VICUS_ERROR_INTERNAL` |
/// | `Store` | a look at the disk | `store` | 500 | -14, `VICUS_ERROR_DATA` |
/// | a `Store` that [is full](Error::is_full) | room on the disk | `full` | 507 | -14 |
/// | `Internal` | a report to us | `internal` | 500 | -16 |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the table says it")]
pub enum ErrorKind {
    Query,
    Format,
    PlanLimit,
    TimeLimit,
    MemoryLimit,
    NetworkLimit,
    RowLimit,
    Busy,
    Cancelled,
    NoMemory,
    NoThread,
    Sink,
    Failed,
    Store,
    Internal,
}

impl ErrorKind {
    /// A word for programs, the status in HTTP, and the status in `vicus.h`.
    const fn row(self) -> (&'static str, u16, i32) {
        match self {
            ErrorKind::Query => ("query", 400, -11),
            ErrorKind::Failed => ("failed", 400, -11),
            ErrorKind::Format => ("format", 406, -11),
            ErrorKind::PlanLimit | ErrorKind::MemoryLimit | ErrorKind::NetworkLimit | ErrorKind::RowLimit => {
                ("limit", 413, -12)
            }
            ErrorKind::TimeLimit => ("time", 408, -12),
            ErrorKind::Busy | ErrorKind::NoThread => ("busy", 503, -13),
            ErrorKind::NoMemory => ("busy", 503, -6),
            ErrorKind::Cancelled => ("cancelled", 499, -7),
            // As a rule, the format cannot hold a term.
            ErrorKind::Sink => ("format", 406, -16),
            ErrorKind::Store => ("store", 500, -14),
            ErrorKind::Internal => ("internal", 500, -16),
        }
    }

    /// A word for programs.
    pub const fn word(self) -> &'static str {
        self.row().0
    }

    /// The status in HTTP.
    pub const fn http(self) -> u16 {
        self.row().1
    }

    /// The status in `vicus.h`, and in languages above it.
    pub const fn code(self) -> i32 {
        self.row().2
    }
}

/// The stage of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// The call waits for its first share of memory.
    Waiting,
    /// Its text is read.
    Parsing,
    /// Its plan is made.
    Planning,
    /// Its boxes run.
    Running,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Waiting => "waiting for memory",
            Stage::Parsing => "parsing",
            Stage::Planning => "planning",
            Stage::Running => "running",
        })
    }
}

/// The receiver of the answer has failed.
#[derive(Debug)]
pub struct SinkFailed(pub(crate) BoxError);

impl SinkFailed {
    /// Its error.
    pub fn error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.0
    }

    /// Its error, if it was one of reading or writing.
    pub fn io(&self) -> Option<&io::Error> {
        self.0.downcast_ref()
    }
}

impl fmt::Display for SinkFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// Without a source: its text is its error's.
impl std::error::Error for SinkFailed {}

impl Error {
    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Query(error) if error.kind == TextErrorKind::TooManySteps => ErrorKind::PlanLimit,
            Error::Query(_) => ErrorKind::Query,
            Error::Format(_) => ErrorKind::Format,
            Error::TimeLimit { .. } => ErrorKind::TimeLimit,
            Error::MemoryLimit(_) => ErrorKind::MemoryLimit,
            Error::NetworkLimit(_) => ErrorKind::NetworkLimit,
            Error::RowLimit(_) => ErrorKind::RowLimit,
            Error::Busy(_) => ErrorKind::Busy,
            Error::Cancelled => ErrorKind::Cancelled,
            Error::NoMemory { .. } => ErrorKind::NoMemory,
            Error::NoThread(_) => ErrorKind::NoThread,
            Error::Sink(_) => ErrorKind::Sink,
            Error::Failed { .. } => ErrorKind::Failed,
            Error::Operation { error, .. } => error.kind(),
            Error::Store(_) => ErrorKind::Store,
            Error::Internal(_) => ErrorKind::Internal,
        }
    }

    /// The error of a box, or of a reader outside of boxes: damage and full disks are the store's errors, not the
    /// query's.
    pub(crate) fn of_reader(name: String, error: Arc<dyn std::error::Error + Send + Sync>) -> Error {
        if let Some(error) = error.downcast_ref::<NoMemory>() {
            return Error::NoMemory { name, error: *error };
        }
        if let Some(error) = error.downcast_ref::<UnreadableTable>() {
            return Error::Store(Arc::new(error.clone()));
        }
        match StoreError::of_reader(&*error) {
            Some(error) => Error::Store(Arc::new(error)),
            None => Error::Failed { name, error },
        }
    }

    /// Whether a disk is full, or the user's quota of it.
    pub fn is_full(&self) -> bool {
        match self {
            Error::Operation { error, .. } => error.is_full(),
            Error::Store(error) => {
                let store = error.downcast_ref::<StoreError>().map(StoreError::is_full);
                store.or_else(|| error.downcast_ref::<CommitError>().map(CommitError::is_full)).unwrap_or(false)
            }
            _ => false,
        }
    }

    /// The error of the sink's last writes.
    pub(crate) fn of_sink(error: io::Error) -> Error {
        Error::Sink(Arc::new(SinkFailed(error.into())))
    }

    /// More is held than may be.
    pub(crate) fn over(budget: u64, mut holders: Vec<(String, u64)>) -> Error {
        holders.sort_by_key(|(_, held)| std::cmp::Reverse(*held));
        Error::MemoryLimit(OverBudget { budget, holders })
    }
}

/// The reason of a cancelled request is unknown to the request; the caller looks for it first.
impl From<FlowError> for Error {
    fn from(error: FlowError) -> Error {
        match error {
            FlowError::Cancelled => Error::Cancelled,
            FlowError::Failed { name, error } => {
                if let Some(over) = error.downcast_ref::<OverBudget>() {
                    return Error::MemoryLimit(over.clone());
                }
                if let Some(error) = error.downcast_ref::<TooManyRows>() {
                    return Error::RowLimit(*error);
                }
                match error.downcast_ref::<SharedSinkFailed>() {
                    Some(SharedSinkFailed(failed)) => Error::Sink(Arc::clone(failed)),
                    None => Error::of_reader(name, error),
                }
            }
            error @ (FlowError::Stalled { .. } | FlowError::TooManyBoxes { .. }) => Error::NetworkLimit(error),
            error => Error::Internal(error),
        }
    }
}

/// A sink's failure on its way through its request.
#[derive(Debug)]
pub(crate) struct SharedSinkFailed(pub(crate) Arc<SinkFailed>);

impl fmt::Display for SharedSinkFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SharedSinkFailed {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Query(error) => error.fmt(f),
            Error::Format(error) => error.fmt(f),
            Error::TimeLimit { during } => write!(f, "its time was up while {during}: it was cancelled"),
            Error::MemoryLimit(error) => error.fmt(f),
            Error::NetworkLimit(error) => error.fmt(f),
            Error::RowLimit(error) => error.fmt(f),
            Error::Busy(error) => error.fmt(f),
            Error::Cancelled => f.write_str("it was cancelled"),
            // The input may be right: the box names the use of the memory.
            Error::NoMemory { name, error } => write!(f, "box {name} failed: {error}"),
            Error::NoThread(error) => write!(f, "no thread can be had to end it in time: {error}"),
            Error::Sink(error) => error.fmt(f),
            // A box's words on the user's input stand alone, without the box's name.
            Error::Failed { error, .. } => error.fmt(f),
            Error::Operation { number, name, error } => write!(f, "operation {number}, {name}: {error}"),
            Error::Store(error) => error.fmt(f),
            Error::Internal(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_is_told_so() {
        let error = Error::TimeLimit { during: Stage::Planning };
        assert_eq!(error.to_string(), "its time was up while planning: it was cancelled");
        assert_eq!(error.kind(), ErrorKind::TimeLimit);
    }

    #[test]
    fn a_request_that_failed_is_told_by_the_reason() {
        let failed = |error: BoxError| FlowError::Failed { name: "sort".to_owned(), error: error.into() };
        let of = |error: BoxError| Error::from(failed(error)).kind();
        assert_eq!(of(OverBudget { budget: 1, holders: Vec::new() }.into()), ErrorKind::MemoryLimit);
        assert_eq!(of(NoMemory { bytes: 1 }.into()), ErrorKind::NoMemory);
        assert_eq!(of("a path is too long".into()), ErrorKind::Failed);
        let pipe = io::Error::from(io::ErrorKind::BrokenPipe);
        let sink = Error::from(failed(SharedSinkFailed(Arc::new(SinkFailed(pipe.into()))).into()));
        assert!(matches!(&sink, Error::Sink(failed) if failed.io().unwrap().kind() == io::ErrorKind::BrokenPipe));
        let panicked = FlowError::Panicked { name: "sort".to_owned(), message: "index out of bounds".to_owned() };
        assert_eq!(Error::from(panicked).kind(), ErrorKind::Internal);
        let stalled = FlowError::Stalled { cycle: vec!["a waits for b".to_owned()], outside: None };
        assert_eq!(Error::from(stalled).kind(), ErrorKind::NetworkLimit);
        let boxes = Error::from(FlowError::TooManyBoxes { most: 3, chain: vec!["quicksort".to_owned()] });
        assert_eq!((boxes.kind().word(), boxes.kind().http(), boxes.kind().code()), ("limit", 413, -12));
    }
}
