//! Where answers are written.

use super::format::Format;
use anyhow::{Context as _, bail};
use std::io::{self, IsTerminal as _, Write};
use std::mem;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vicus_service::Answer;
use vicus_service::{Output, is_stdout, is_to_be_replaced};

/// Standard output, or the file of `--output`. All answers of a command go to the same, one behind the other.
#[derive(Clone)]
pub(super) enum Target {
    Stdout,
    File(Arc<Mutex<Option<Output>>>),
}

impl Target {
    /// The file of `--output`, checked and made now, not after the work.
    pub(super) fn new(path: Option<&Path>, format: Option<Format>) -> anyhow::Result<Target> {
        let Some(path) = path.filter(|path| !is_stdout(path)) else { return Ok(Target::Stdout) };
        let name = path.display();
        let cannot = || format!("{name}: can't be written");
        let is_known = format.is_some() || Format::by_ending(&path.to_string_lossy(), &Answer::Truth).is_some();
        if !is_known && is_to_be_replaced(path).with_context(cannot)? {
            bail!(
                "{name}: the ending says no format; expected .csv, .tsv, .json, .xml, .txt, .nt, .nq, .ttl, .trig, \
                    .rdf, .jsonld or .arrow, with .gz or .zst behind it or not, or .parquet, or --format"
            );
        }
        Ok(Target::File(Arc::new(Mutex::new(Some(Output::create(path).with_context(cannot)?)))))
    }

    pub(super) fn is_terminal(&self) -> bool {
        matches!(self, Target::Stdout) && io::stdout().is_terminal()
    }

    /// All was written: a file gets its name.
    pub(super) fn keep(&self) -> io::Result<()> {
        match self {
            Target::Stdout => Ok(()),
            Target::File(output) => mem::take(&mut *lock(output)).map_or(Ok(()), Output::keep),
        }
    }
}

fn lock(output: &Mutex<Option<Output>>) -> MutexGuard<'_, Option<Output>> {
    output.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::Stdout => io::stdout().write(bytes),
            Target::File(output) => match &mut *lock(output) {
                Some(output) => output.write(bytes),
                None => Err(io::Error::other("the file is closed")),
            },
        }
    }

    /// A file is flushed at its end: a packing would else begin anew with each piece.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::Stdout => io::stdout().flush(),
            Target::File(_) => Ok(()),
        }
    }
}
