//! Bytes from this machine, on Windows: standard input, and no sockets with a path.

use super::feeds::{Feed, FeedResult, read_some};
use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

/// Standard input of the process. Two readers at once share its bytes by chance. A reader waits until something comes,
/// and leaves no sooner.
#[derive(Debug, Default)]
pub struct StandardInput;

impl Feed for StandardInput {
    fn feed(&mut self, into: &mut Vec<u8>, _patience: Duration) -> io::Result<FeedResult> {
        read_some(&mut io::stdin().lock(), into)
    }
}

/// A connection to a socket of this machine: there is none here.
#[derive(Debug)]
pub struct Unix(Infallible);

impl Unix {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn connect(path: impl Into<PathBuf>) -> io::Result<Unix> {
        let path = path.into();
        let what = format!("{}: sockets with a path are Unix's; use a port of this machine", path.display());
        Err(io::Error::new(ErrorKind::Unsupported, what))
    }
}

impl Feed for Unix {
    fn feed(&mut self, _into: &mut Vec<u8>, _patience: Duration) -> io::Result<FeedResult> {
        match self.0 {}
    }
}
