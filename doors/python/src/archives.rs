//! Archives of stores: all states of a store in a folder or a bucket.

use crate::data::Raise as _;
use crate::errors::{Failure, Outcome};
use crate::options::Cancel;
use crate::wait::{Bounds, interruptible};
use pyo3::prelude::*;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vicus_service::{Archive, ArchiveError, Error, RestoredAs, TlsRoots, Until};

/// The archive at a place, whose service has a certificate of the authorities in a file.
fn archive_at(place: &str, roots: Option<&Path>) -> Outcome<Archive> {
    let roots = roots.map(TlsRoots::read).transpose().map_err(Failure::argument)?;
    Archive::new(place, roots.as_ref()).map_err(Failure::argument)
}

/// Ends the work with its call.
fn telling(bounds: &Bounds) -> impl FnMut(u64, u64) -> io::Result<()> {
    |_, _| if bounds.is_over() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
}

fn failed(place: &str, error: ArchiveError) -> Failure {
    match error {
        error if error.is_given_up() => Error::Cancelled.into(),
        ArchiveError::Store(error) => error.into(),
        error => Failure::new("StoreError", format_args!("archive {place}: {error}")),
    }
}

/// Sends new records of the store in a folder to an archive, and removes objects needed by no state of the last
/// seconds; the archive's last record, and the numbers of sent records and bytes and of removed objects.
#[pyfunction]
pub(crate) fn archive(
    py: Python<'_>,
    folder: PathBuf,
    place: &str,
    keep: Option<u64>,
    roots: Option<PathBuf>,
    timeout: Option<f64>,
    cancel: Option<&Bound<'_, Cancel>>,
) -> PyResult<(u64, u64, u64, usize)> {
    let sent = || -> Outcome<_> {
        let bounds = Bounds::new(cancel, timeout)?;
        let archive = archive_at(place, roots.as_deref())?;
        interruptible(py, &bounds, || {
            let mut told = telling(&bounds);
            let sent = archive.send_folder(&folder, &mut told).map_err(|error| failed(place, error))?;
            let pruned = keep.map(|keep| archive.prune(Duration::from_secs(keep), &mut told)).transpose();
            let removed = pruned.map_err(|error| failed(place, error))?.map_or(0, |pruned| pruned.objects);
            Ok((sent.last, sent.records, sent.bytes, removed))
        })
    };
    sent().raise(py, None)
}

/// Makes a store again in a folder, as it was last, with all records up to a number, or at a time in seconds since
/// 1970; its last record, and how many quads it has.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "they are the keywords of the package's function")]
pub(crate) fn restore(
    py: Python<'_>,
    place: &str,
    folder: PathBuf,
    record: Option<u64>,
    time: Option<u64>,
    follower: bool,
    roots: Option<PathBuf>,
    timeout: Option<f64>,
    cancel: Option<&Bound<'_, Cancel>>,
) -> PyResult<(u64, u64)> {
    let restored = || -> Outcome<_> {
        let bounds = Bounds::new(cancel, timeout)?;
        let archive = archive_at(place, roots.as_deref())?;
        let until = match (record, time) {
            (Some(record), _) => Until::Record(record),
            (None, Some(time)) => Until::Time(time),
            (None, None) => Until::Last,
        };
        let role = if follower { RestoredAs::Follower } else { RestoredAs::Writer };
        interruptible(py, &bounds, || {
            let restored = archive.restore(&folder, until, role, &mut telling(&bounds));
            let restored = restored.map_err(|error| failed(place, error))?;
            Ok((restored.last, restored.quads))
        })
    };
    restored().raise(py, None)
}
