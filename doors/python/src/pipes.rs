//! Pipes, terminals and devices, whose other end may be silent for ever: they are read and written in steps between
//! which a question is asked.

use crate::wait::SLICE;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use vicus_service::Ask;

/// A file that is opened without a wait for its other end.
pub(crate) struct Pipe {
    file: File,
    ask: Ask,
}

impl Pipe {
    /// Opens a file for reading. A pipe without a writer is open at once, and its reader waits.
    pub(crate) fn read(path: &Path) -> io::Result<File> {
        File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)
    }

    /// A file of [`Pipe::read`], which is read until the question is answered by an error.
    pub(crate) fn over(file: File, ask: Ask) -> Pipe {
        Pipe { file, ask }
    }

    /// Opens a file for writing. Waits for a pipe's reader, until the question is answered by an error.
    pub(crate) fn write(path: &Path, ask: Ask) -> io::Result<Pipe> {
        loop {
            match File::options().write(true).custom_flags(libc::O_NONBLOCK).open(path) {
                Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
                    ask(0).map_err(io::Error::other)?;
                    std::thread::sleep(SLICE);
                }
                file => return Ok(Pipe { file: file?, ask }),
            }
        }
    }

    /// Waits until there are bytes, or room for some.
    fn wait(&self, events: libc::c_short) -> io::Result<()> {
        loop {
            let mut asked = libc::pollfd { fd: self.file.as_raw_fd(), events, revents: 0 };
            let most = i32::try_from(SLICE.as_millis()).unwrap_or(i32::MAX);
            #[expect(unsafe_code, reason = "std has no call that waits for a file, and no longer than some time")]
            // SAFETY: one entry is passed, and lives until the call is over.
            let found = unsafe { libc::poll(&raw mut asked, 1, most) };
            (self.ask)(0).map_err(io::Error::other)?;
            match found {
                0 => {}
                1.. => return Ok(()),
                _ => match io::Error::last_os_error() {
                    error if error.kind() == ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
    }
}

/// Does what may have to be tried once more: another one may have taken the bytes or the room.
fn until_done(mut step: impl FnMut() -> io::Result<usize>, wait: impl Fn() -> io::Result<()>) -> io::Result<usize> {
    loop {
        wait()?;
        match step() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            done => return done,
        }
    }
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        until_done(|| (&self.file).read(buffer), || self.wait(libc::POLLIN))
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        until_done(|| (&self.file).write(bytes), || self.wait(libc::POLLOUT))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
