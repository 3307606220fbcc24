//! Bytes from this machine: standard input, and sockets with a path.

use super::feeds::{Feed, FeedResult, PIECE, read_some};
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Standard input of the process. Two readers at once share its bytes by chance.
#[derive(Debug, Default)]
pub struct StandardInput;

impl Feed for StandardInput {
    fn feed(&mut self, into: &mut Vec<u8>, patience: Duration) -> io::Result<FeedResult> {
        // A thread that waits in `read` could not leave when its request is over, and would take what another one is to
        // read.
        let mut asked = libc::pollfd { fd: 0, events: libc::POLLIN, revents: 0 };
        let wait = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
        #[expect(unsafe_code, reason = "asks the system whether there is input")]
        // SAFETY: one entry is passed, and lives until the call is over.
        let found = unsafe { libc::poll(&raw mut asked, 1, wait) };
        match found {
            0 => Ok(FeedResult::Nothing),
            1.. => {
                // Not through the process's buffer, from which `poll` sees nothing.
                let mut buffer = [0; PIECE];
                #[expect(unsafe_code, reason = "reads from a descriptor of the process")]
                // SAFETY: so many bytes of the buffer are there for writing.
                let read = unsafe { libc::read(0, buffer.as_mut_ptr().cast(), buffer.len()) };
                match usize::try_from(read) {
                    Ok(0) => Ok(FeedResult::End),
                    Ok(read) => {
                        into.extend_from_slice(&buffer[..read]);
                        Ok(FeedResult::Bytes)
                    }
                    Err(_) => or_nothing(io::Error::last_os_error()),
                }
            }
            _ => or_nothing(io::Error::last_os_error()),
        }
    }
}

fn or_nothing(error: io::Error) -> io::Result<FeedResult> {
    match error.kind() {
        ErrorKind::Interrupted | ErrorKind::WouldBlock => Ok(FeedResult::Nothing),
        _ => Err(error),
    }
}

/// A connection to a socket of this machine.
#[derive(Debug)]
pub struct Unix(UnixStream);

impl Unix {
    /// Connects to the socket at a path.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(path: impl Into<PathBuf>) -> io::Result<Unix> {
        UnixStream::connect(path.into()).map(Unix)
    }
}

impl Feed for Unix {
    fn feed(&mut self, into: &mut Vec<u8>, patience: Duration) -> io::Result<FeedResult> {
        self.0.set_read_timeout(Some(patience))?;
        read_some(&mut self.0, into)
    }
}
