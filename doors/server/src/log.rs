//! The access log: one JSON object in a line for each request.

use serde_json::json;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The target of the access log.
#[derive(Clone, Debug, Default)]
pub enum AccessLog {
    /// Nowhere.
    #[default]
    Off,
    /// To standard error.
    Stderr,
    /// To a file.
    File(Arc<LogFile>),
}

/// A file written under its path, also after another program has moved it away.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: Mutex<File>,
    /// Before the next line it is opened anew.
    is_moved: AtomicBool,
}

impl AccessLog {
    /// Appends to a file.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn to_file(path: &Path) -> io::Result<AccessLog> {
        let file = Mutex::new(open(path)?);
        Ok(AccessLog::File(Arc::new(LogFile { path: path.to_owned(), file, is_moved: AtomicBool::new(false) })))
    }

    /// Opens the file anew before its next line: for programs that move logs away and then send a signal. A handler of
    /// a signal may call this.
    pub fn reopen(&self) {
        if let AccessLog::File(file) = self {
            file.is_moved.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_off(&self) -> bool {
        matches!(self, AccessLog::Off)
    }

    /// A failed write to the log must not end the server.
    pub(crate) fn write(&self, line: &Line<'_>) {
        let write = |out: &mut dyn Write| {
            let mut text = line.json();
            text.push('\n');
            let _ = out.write_all(text.as_bytes());
        };
        match self {
            AccessLog::Off => {}
            AccessLog::Stderr => write(&mut io::stderr()),
            AccessLog::File(log) => {
                let mut file = log.file.lock().unwrap_or_else(PoisonError::into_inner);
                // On failure, the moved file goes on.
                if log.is_moved.swap(false, Ordering::Relaxed)
                    && let Ok(new) = open(&log.path)
                {
                    *file = new;
                }
                write(&mut *file);
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

/// One request.
pub(crate) struct Line<'a> {
    pub(crate) id: &'a str,
    pub(crate) client: String,
    /// HTTP's method and path.
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    /// The name that the client gives itself.
    pub(crate) agent: Option<&'a str>,
    pub(crate) language: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) status: u16,
    pub(crate) time: Duration,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// How it ended, if not well: `cancelled`, or an error.
    pub(crate) error: Option<String>,
}

impl Line<'_> {
    fn json(&self) -> String {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        json!({
            "time": (at * 1e3).round() / 1e3, "request": self.id, "client": self.client, "method": self.method,
            "path": self.path, "agent": self.agent, "kind": self.kind, "language": self.language, "status": self.status,
            "ms": (self.time.as_secs_f64() * 1e6).round() / 1e3, "rows": self.rows, "bytes": self.bytes,
            "error": self.error,
        })
        .to_string()
    }
}
