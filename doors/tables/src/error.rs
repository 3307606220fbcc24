//! Why a file is no table.

use crate::file::Shared;
use std::any::Any;
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use vicus_flow::{BoxError, Envelope, NoMemory, OverBudget, Schema};
use vicus_sql::{ColumnRange, Scan, Table, TableColumn, UnreadableTable};

/// Why a file is no table.
#[derive(Debug)]
pub enum TableError {
    /// The file can't be read.
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file's name doesn't tell its format.
    UnknownEnding {
        /// The file.
        path: PathBuf,
    },
    /// The file does not have its name's format, or it is damaged.
    Format {
        /// The file.
        path: PathBuf,
        /// The name of the format: `Parquet`, `CSV`, `JSON lines`, `Arrow`.
        format: &'static str,
        /// The fault.
        reason: String,
    },
    /// Its caller ended the reading of its first rows.
    Stopped {
        /// The file.
        path: PathBuf,
    },
    /// The given types of its columns don't fit the file.
    Types {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
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
                "{} has no ending that tells its format: .parquet, .csv, .tsv, .jsonl, .arrow or .arrows was expected",
                path.display()
            ),
            TableError::Format { path, format, reason } => {
                write!(f, "{} is not a whole {format} file: {reason}", path.display())
            }
            TableError::Stopped { path } => write!(f, "{}: reading its first rows was stopped", path.display()),
            TableError::Types { path, reason } => write!(f, "{}: {reason}", path.display()),
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

/// A table with a reader that may panic, or fail without a place: a failure is reported with the file and the part of
/// it.
pub(crate) struct Guarded<T> {
    pub(crate) table: T,
    pub(crate) file: Shared,
    pub(crate) path: PathBuf,
    pub(crate) format: &'static str,
    /// The name of a part of such a file.
    pub(crate) part: &'static str,
}

impl<T: Table> Table for Guarded<T> {
    fn columns(&self) -> &[TableColumn] {
        self.table.columns()
    }

    fn rows(&self) -> Option<u64> {
        self.table.rows()
    }

    fn parts(&self) -> usize {
        self.table.parts()
    }

    fn kept(&self) -> Option<&Schema> {
        self.table.kept()
    }

    fn scan(&self, columns: &[usize], part: usize, filters: &[ColumnRange]) -> Box<dyn Scan> {
        self.guarded(part, || self.table.scan(columns, part, filters))
    }

    fn scan_kept(&self, columns: &[usize], part: usize) -> Box<dyn Scan> {
        self.guarded(part, || self.table.scan_kept(columns, part))
    }

    fn blocks(&self) -> bool {
        self.table.blocks()
    }

    fn loads(&self) -> bool {
        self.table.loads()
    }

    fn held_bytes(&self) -> u64 {
        self.table.held_bytes()
    }
}

impl<T> Guarded<T> {
    fn guarded(&self, part: usize, begin: impl FnOnce() -> Box<dyn Scan>) -> Box<dyn Scan> {
        let place = format!("{} {}", self.part, part + 1);
        let (path, format) = (self.path.clone(), self.format);
        // The file's data about its parts is read here.
        let scan = caught(begin).map_err(|panic| text_of(panic).to_string());
        Box::new(GuardedScan { scan, file: self.file.clone(), path, format, place })
    }
}

struct GuardedScan {
    /// The scan, or the reason why it could not begin.
    scan: Result<Box<dyn Scan>, String>,
    file: Shared,
    path: PathBuf,
    format: &'static str,
    place: String,
}

impl GuardedScan {
    fn told<R>(&mut self, act: impl FnOnce(&mut dyn Scan) -> Result<R, BoxError>) -> Result<R, BoxError> {
        let outcome = match &mut self.scan {
            Ok(scan) => caught(|| act(&mut **scan)).unwrap_or_else(|panic| {
                let text = text_of(panic);
                Err(text.into())
            }),
            Err(text) => Err(text.clone().into()),
        };
        outcome.map_err(|error| {
            // Of these, the file is not the cause.
            if error.is::<NoMemory>() || error.is::<OverBudget>() {
                return error;
            }
            // A change of the file may be the cause.
            let reason = match self.file.check() {
                Ok(()) => format!("{}: {error}", self.place),
                Err(changed) => changed.to_string(),
            };
            UnreadableTable(TableError::format(&self.path, self.format, reason).to_string()).into()
        })
    }
}

impl Scan for GuardedScan {
    fn next(&mut self, most_rows: usize) -> Result<Option<Envelope>, BoxError> {
        self.told(|scan| scan.next(most_rows))
    }

    fn load(&mut self) -> Result<(), BoxError> {
        self.told(|scan| scan.load())?;
        let file = self.file.clone();
        self.told(|_| Ok(file.check()?))
    }

    fn held_bytes(&self) -> u64 {
        self.scan.as_ref().map_or(0, |scan| scan.held_bytes())
    }
}

thread_local! {
    static READS: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is in a file's reader, whose panics are reported as errors of the file: a program's panic
/// hook prints nothing then.
///
/// ```
/// let hook = std::panic::take_hook();
/// std::panic::set_hook(Box::new(move |about| {
///     if !vicus_tables::is_reading() {
///         hook(about);
///     }
/// }));
/// ```
pub fn is_reading() -> bool {
    READS.get()
}

/// Calls a file's reader. Gives its panic.
fn caught<R>(read: impl FnOnce() -> R) -> std::thread::Result<R> {
    let outer = READS.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(read));
    READS.set(outer);
    outcome
}

/// The text of a panic. A panic without a text is none of a reader's: it goes on.
fn text_of(panic: Box<dyn Any + Send>) -> Cow<'static, str> {
    match panic.downcast::<String>() {
        Ok(text) => Cow::Owned(*text),
        Err(panic) => match panic.downcast::<&'static str>() {
            Ok(text) => Cow::Borrowed(*text),
            Err(panic) => resume_unwind(panic),
        },
    }
}

/// Opens a file with a foreign reader. Those readers index by the file's data without checks, so a damaged file makes
/// them panic: then the file is wrong.
pub(crate) fn guarded<R>(
    path: &Path,
    format: &'static str,
    open: impl FnOnce() -> Result<R, TableError>,
) -> Result<R, TableError> {
    caught(open).unwrap_or_else(|panic| Err(TableError::format(path, format, text_of(panic))))
}
