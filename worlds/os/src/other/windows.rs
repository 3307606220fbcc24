//! The calls of files that are Windows'.

use std::ffi::{CStr, c_void};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr;

/// Others may read the file that this process has open, but neither write nor remove it (`FILE_SHARE_READ`).
const SHARED_FOR_READING: u32 = 1;
/// The file is open elsewhere, and not shared for this (`ERROR_SHARING_VIOLATION`).
const IN_USE: i32 = 32;

/// Fills a buffer with a file's bytes from this place on.
pub(super) fn read_exact_at(file: &File, mut into: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !into.is_empty() {
        match file.seek_read(into, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                into = &mut into[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes bytes to a file from this place on.
pub(super) fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.seek_write(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether two records are of one file, as far as the time of its creation tells.
pub(super) fn is_same(one: &Metadata, other: &Metadata) -> bool {
    one.creation_time() == other.creation_time()
}

/// Makes the names in a directory last: the file system's own log does.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    std::fs::metadata(path).map(drop)
}

/// Opens the file of a lock for writing, which no other process can do meanwhile; `None` if another one has it open.
pub(super) fn lock(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).share_mode(SHARED_FOR_READING);
    match options.open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.raw_os_error() == Some(IN_USE) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A function of the program or of a loaded library by its name, or null: none is looked for here.
pub(super) fn symbol(_name: &CStr) -> *mut c_void {
    ptr::null_mut()
}
