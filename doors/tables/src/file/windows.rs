//! The calls of files that are Windows'.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::windows::fs::{FileExt, MetadataExt};

/// The time of the last change, in units of 100 nanoseconds.
pub(super) type Changed = u64;

pub(super) fn changed(facts: &Metadata) -> Changed {
    facts.last_write_time()
}

pub(super) fn read_exact_at(file: &File, mut into: &mut [u8], mut at: u64) -> io::Result<()> {
    while !into.is_empty() {
        match read_at(file, into, at) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                into = &mut into[count..];
                at += count as u64;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Moves the file's own place, too, which is not used here.
pub(super) fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    file.seek_read(into, at)
}
