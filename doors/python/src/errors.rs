//! Errors as exceptions: the classes are the package's (`vicus/_errors.py`), chosen by the service's kinds.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::fmt::{self, Display};
use vicus_service::data::CommitError;
use vicus_service::{Error, ErrorKind, StoreError, StoreUpdateError};

/// A failed call, on its way to the thread that has the interpreter.
#[derive(Debug)]
pub(crate) enum Failure {
    Service(Box<Error>),
    Store(StoreError),
    /// A class of the package by its name, and a message.
    Named(&'static str, String),
    /// An exception of Python.
    Python(PyErr),
}

/// The result of a call.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(class: &'static str, message: impl Display) -> Failure {
        Failure::Named(class, message.to_string())
    }

    /// An argument that no call takes.
    pub(crate) fn argument(message: impl Display) -> Failure {
        Failure::new("ArgumentError", message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Service(Box::new(error))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Store(error)
    }
}

impl From<StoreUpdateError> for Failure {
    fn from(error: StoreUpdateError) -> Failure {
        match error {
            StoreUpdateError::Update(error) => error.into(),
            StoreUpdateError::Store(error) => error.into(),
            StoreUpdateError::Commit(error) => error.into(),
        }
    }
}

impl From<CommitError> for Failure {
    fn from(error: CommitError) -> Failure {
        Failure::new(if error.is_full() { "DiskFull" } else { "StoreError" }, error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Failure {
        Failure::Python(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Service(error) => error.fmt(f),
            Failure::Store(error) => error.fmt(f),
            Failure::Named(_, message) => message.fmt(f),
            Failure::Python(error) => error.fmt(f),
        }
    }
}

/// The class of a kind of error.
fn class(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Query => "QueryError",
        ErrorKind::Failed => "DataError",
        ErrorKind::Format => "FormatError",
        ErrorKind::PlanLimit => "PlanLimit",
        ErrorKind::TimeLimit => "Timeout",
        // Boxes that wait for each other go on with more memory.
        ErrorKind::MemoryLimit | ErrorKind::NetworkLimit => "MemoryLimit",
        ErrorKind::RowLimit => "RowLimit",
        ErrorKind::Busy | ErrorKind::NoThread => "Busy",
        ErrorKind::NoMemory => "OutOfMemory",
        ErrorKind::Cancelled => "Cancelled",
        ErrorKind::Sink => "FormatError",
        ErrorKind::Store => "StoreError",
        ErrorKind::Internal => "InternalError",
    }
}

fn made(py: Python<'_>, class: &str, message: String) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let class = py.import("vicus._errors")?.getattr(class)?;
        Ok(PyErr::from_value(class.call1((message.clone(),))?))
    };
    // The package itself is broken, then.
    made().unwrap_or_else(|_| PyRuntimeError::new_err(message.clone()))
}

/// An error of a text, with its place, and the text for the line with a caret.
fn of_text(py: Python<'_>, error: &vicus_service::TextError, text: &str) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let class = py.import("vicus._errors")?.getattr("SyntaxError")?;
        let arguments = (&error.message, text, error.place.line, error.place.column);
        Ok(PyErr::from_value(class.call1(arguments)?))
    };
    made().unwrap_or_else(|_| PyRuntimeError::new_err(error.to_string()))
}

/// The exception of a failure. `text` is that of the query or the update, if it is one of these.
pub(crate) fn exception(py: Python<'_>, failure: Failure, text: Option<&str>) -> PyErr {
    match failure {
        Failure::Python(error) => error,
        Failure::Named(name, message) => made(py, name, message),
        Failure::Store(error) => store_exception(py, &error),
        Failure::Service(error) => match &*error {
            Error::Query(wrong) if wrong.place.is_known() && error.kind() == ErrorKind::Query => {
                of_text(py, wrong, text.unwrap_or_default())
            }
            Error::Failed { error: inner, .. } if inner.is::<vicus_service::WrongValue>() => {
                made(py, "CastError", inner.to_string())
            }
            Error::Store(inner) => match inner.downcast_ref::<StoreError>() {
                Some(store) => store_exception(py, store),
                None => made(py, if error.is_full() { "DiskFull" } else { "StoreError" }, error.to_string()),
            },
            // Of an operation of an update, too.
            error if error.is_full() => made(py, "DiskFull", error.to_string()),
            error => made(py, class(error.kind()), error.to_string()),
        },
    }
}

fn store_exception(py: Python<'_>, error: &StoreError) -> PyErr {
    if let Some(by) = error.locked_by() {
        let made = || -> PyResult<PyErr> {
            let class = py.import("vicus._errors")?.getattr("StoreLocked")?;
            Ok(PyErr::from_value(class.call1((error.to_string(), by))?))
        };
        return made().unwrap_or_else(|_| PyRuntimeError::new_err(error.to_string()));
    }
    made(py, if error.is_full() { "DiskFull" } else { "StoreError" }, error.to_string())
}
