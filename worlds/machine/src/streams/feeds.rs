//! Where bytes come from.

use super::PATIENCE;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The answer of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedResult {
    /// Bytes were appended.
    Bytes,
    /// Nothing has come, and may come later.
    Nothing,
    /// A file was replaced or cut off: the next bytes begin a line.
    Break,
    /// Nothing will come.
    End,
}

/// A source of bytes with its own pace.
pub trait Feed: Send {
    /// Appends what is there, at most some 64 KiB; waits for it no longer than this.
    ///
    /// # Errors
    /// It can't be read.
    fn feed(&mut self, into: &mut Vec<u8>, patience: Duration) -> io::Result<FeedResult>;
}

/// The most bytes of a piece.
pub(super) const PIECE: usize = 64 << 10;

/// Reads once. A timeout is no error.
pub(super) fn read_some(from: &mut impl Read, into: &mut Vec<u8>) -> io::Result<FeedResult> {
    let before = into.len();
    into.resize(before + PIECE, 0);
    let read = from.read(&mut into[before..]);
    into.truncate(before + *read.as_ref().unwrap_or(&0));
    match read {
        Ok(0) => Ok(FeedResult::End),
        Ok(_) => Ok(FeedResult::Bytes),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(FeedResult::Nothing),
            _ => Err(error),
        },
    }
}

/// Where a file that grows is read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FollowFrom {
    /// From its beginning.
    #[default]
    Beginning,
    /// From its end: only what is appended.
    End,
}

/// A file that grows. A file of the same name that replaces it, as by a rotation of logs, is read from its beginning
/// when nothing has come to the old one for some seconds: its writer goes over to the new one a little later. A file
/// that was cut off is read from its beginning as well, but not one that was cut off and has become longer since it was
/// last looked at.
#[derive(Debug)]
pub struct Follow {
    path: PathBuf,
    file: File,
    /// How many bytes were read.
    at: u64,
    /// Since when another file has the name, and nothing has come to this one.
    replaced: Option<Instant>,
}

/// So long a replaced file is still read.
const OLD_FILE: Duration = Duration::from_secs(3);

/// Opens a file, and no pipe, whose reading would wait for a writer.
fn open_file(path: &Path) -> io::Result<File> {
    let file = vicus_os::open_at_once(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file; a pipe is read as standard input"))
}

impl Follow {
    /// Opens a file.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn open(path: impl Into<PathBuf>, from: FollowFrom) -> io::Result<Follow> {
        let path = path.into();
        let mut file = open_file(&path)?;
        let at = match from {
            FollowFrom::Beginning => 0,
            FollowFrom::End => file.seek(SeekFrom::End(0))?,
        };
        Ok(Follow { path, file, at, replaced: None })
    }
}

impl Feed for Follow {
    fn feed(&mut self, into: &mut Vec<u8>, patience: Duration) -> io::Result<FeedResult> {
        let before = into.len();
        match read_some(&mut self.file, into)? {
            FeedResult::Bytes => {
                self.at += (into.len() - before) as u64;
                self.replaced = None;
                return Ok(FeedResult::Bytes);
            }
            FeedResult::End => {}
            other => return Ok(other),
        }
        let own = self.file.metadata()?;
        if own.len() < self.at {
            self.at = self.file.seek(SeekFrom::Start(0))?;
            return Ok(FeedResult::Break);
        }
        // Between two files of this name there may be none.
        let is_other = fs::metadata(&self.path).is_ok_and(|now| !vicus_os::is_same_file(&now, &own));
        if is_other
            && self.replaced.get_or_insert_with(Instant::now).elapsed() >= OLD_FILE
            && let Ok(next) = open_file(&self.path)
        {
            (self.file, self.at, self.replaced) = (next, 0, None);
            return Ok(FeedResult::Break);
        }
        std::thread::sleep(patience.min(PATIENCE));
        Ok(FeedResult::Nothing)
    }
}

/// A connection to a port.
#[derive(Debug)]
pub struct Tcp(TcpStream);

impl Tcp {
    /// Connects to `host:port`.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn connect(address: impl ToSocketAddrs) -> io::Result<Tcp> {
        TcpStream::connect(address).map(Tcp)
    }
}

impl Feed for Tcp {
    fn feed(&mut self, into: &mut Vec<u8>, patience: Duration) -> io::Result<FeedResult> {
        self.0.set_read_timeout(Some(patience))?;
        read_some(&mut self.0, into)
    }
}
