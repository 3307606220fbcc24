//! The calls of files that are Unix's.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Seconds and nanoseconds of the last change.
pub(super) type Changed = (i64, i64);

pub(super) fn changed(facts: &Metadata) -> Changed {
    (facts.mtime(), facts.mtime_nsec())
}

pub(super) fn read_exact_at(file: &File, into: &mut [u8], at: u64) -> io::Result<()> {
    file.read_exact_at(into, at)
}

pub(super) fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    file.read_at(into, at)
}
