//! Why a file is no table.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Why a file is no table.
#[derive(Debug)]
pub enum TableError {
    /// It can't be read.
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Its name doesn't tell what it is.
    UnknownEnding {
        /// The file.
        path: PathBuf,
    },
    /// It isn't what its name says, or it is damaged.
    Format {
        /// The file.
        path: PathBuf,
        /// The name of the format: `Parquet`, `CSV`, `Arrow`.
        format: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A column is of a type that SQL has not here.
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Its type.
        kind: String,
    },
}

impl TableError {
    pub(crate) fn io(path: &Path, error: io::Error) -> TableError {
        TableError::Io { path: path.to_owned(), error }
    }

    pub(crate) fn format(path: &Path, format: &'static str, reason: impl fmt::Display) -> TableError {
        TableError::Format { path: path.to_owned(), format, reason: reason.to_string() }
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::Io { path, error } => write!(f, "{} can't be read: {error}", path.display()),
            TableError::UnknownEnding { path } => write!(
                f,
                "{} has no ending that tells its format: .parquet, .csv, .tsv, .arrow or .arrows was expected",
                path.display()
            ),
            TableError::Format { path, format, reason } => {
                write!(f, "{} is not a whole {format} file: {reason}", path.display())
            }
            TableError::Unsupported { path, column, kind } => write!(
                f,
                "{}: column {column} is of the type {kind}, which SQL has not here; write it as a boolean, integer, double, \
                 text, date or timestamp",
                path.display()
            ),
        }
    }
}

impl std::error::Error for TableError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TableError::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Opens a file by a reader of others. Those index what a file says without looking, so a damaged file makes them panic: then it is
/// the file that is wrong.
pub(crate) fn guarded<R>(
    path: &Path,
    format: &'static str,
    open: impl FnOnce() -> Result<R, TableError>,
) -> Result<R, TableError> {
    catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(TableError::format(path, format, text.unwrap_or("its reader failed")))
    })
}
