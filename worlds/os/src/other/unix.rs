//! The calls of files that are Unix's.

use std::ffi::{CStr, c_void};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Fills a buffer with a file's bytes from this place on.
pub(super) fn read_exact_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(into, offset)
}

/// Writes bytes to a file from this place on.
pub(super) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Whether two records are of one file.
pub(super) fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Makes the names in a directory last.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Opens the file of a lock for writing, and takes the lock; `None` if another process has it.
pub(super) fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    #[expect(unsafe_code, reason = "asks the kernel for a lock")]
    // SAFETY: the descriptor is open, since the file is alive.
    let refused = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0;
    match refused.then(io::Error::last_os_error) {
        None => Ok(Some(file)),
        Some(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Some(error) => Err(error),
    }
}

/// A function of the program or of a loaded library by its name, or null.
pub(super) fn symbol(name: &CStr) -> *mut c_void {
    #[expect(unsafe_code, reason = "looks for a function by its name")]
    // SAFETY: the name ends with a 0.
    unsafe {
        libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr())
    }
}
