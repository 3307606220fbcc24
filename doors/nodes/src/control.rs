//! The lines of a control connection, and the first ones of every connection.
//!
//! A connection begins with a line from either side: a word, and an object of JSON. Then come lines of JSON, or the
//! frames of a link.

use crate::link::{ALIVE_IN_SILENCE, LinkLost, lost};
use crate::locked;
use crate::socket::{ReadHalf, WriteHalf};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The first word of every connection, with the version of what follows.
const WORD: &str = "VICUS-NODE/1";

/// How an end that speaks TLS begins to refuse what is none.
const TLS_ALERT: &[u8] = &[21, 3];

/// Why an end that speaks TLS takes no plain connection.
pub(crate) const TLS_ALONE: &str = "it speaks TLS alone: name the file of trusted authorities (--tls-ca)";

/// The most bytes of a first line; texts of networks come later.
const FIRST: u64 = 64 << 10;

/// The most bytes of another line.
const LINE: u64 = 16 << 20;

/// The first line of a process that connects.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The program's version: both sides must know the same texts.
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) token: Option<String>,
    /// A link of an attempt, and no control connection.
    #[serde(default)]
    pub(crate) link: Option<LinkHello>,
}

/// A number by chance: one run of a network, which links of another one have not.
pub(crate) type AttemptId = u64;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct LinkHello {
    pub(crate) attempt: AttemptId,
    /// The process that connects.
    pub(crate) from: usize,
}

/// A node's answer to it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Welcome { threads: usize, nodes: usize },
    Refused { version: String, why: String },
}

/// A process of a network, in the words of the one that began it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProcessAt {
    /// None for the one that began: it connects to all others.
    pub(crate) address: Option<String>,
    pub(crate) threads: usize,
    pub(crate) nodes: usize,
}

/// A part of a network to be run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) attempt: AttemptId,
    pub(crate) name: String,
    /// The text as JSON, whose version says more than this program's.
    pub(crate) text: String,
    pub(crate) set: Vec<(String, String)>,
    pub(crate) own: usize,
    pub(crate) processes: Vec<ProcessAt>,
    pub(crate) token: Option<String>,
    /// The roots, as PEM, by which processes connect to each other; without them they don't speak TLS.
    #[serde(default)]
    pub(crate) roots: Option<String>,
    pub(crate) memory: Option<u64>,
    pub(crate) silence_ms: u64,
    /// Files are written beside their places, and get them with `Commit`.
    #[serde(default)]
    pub(crate) is_staged: bool,
    /// Texts that kinds of boxes need besides the network's, such as functions of a program, by name.
    #[serde(default)]
    pub(crate) attached: BTreeMap<String, String>,
    /// Whether the work of its boxes is to be told at its end.
    #[serde(default)]
    pub(crate) is_counted: bool,
    /// A query to be run in place of the text: what its peers need to make its plan.
    #[serde(default)]
    pub(crate) job: Option<String>,
}

/// A line to a node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToNode {
    /// Which of these files has it? Before a run.
    Has(Vec<String>),
    Run(Box<Run>),
    /// Bytes to be answered by [`FromNode::Measured`]: before a run alone.
    Measure(String),
    Cancel,
    /// All have done their parts: the files that were written get their places.
    Commit,
    /// All have done their parts, and the files have their places.
    Over,
    Alive,
}

/// A line from a node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromNode {
    /// The answer, file by file.
    Has(Vec<bool>),
    Done {
        /// Whether it has written files that are yet to get their places.
        #[serde(default)]
        has_files: bool,
        /// The counts of the part's boxes, if they were asked for.
        #[serde(default)]
        report: Option<String>,
    },
    /// The files have their places.
    Committed,
    Failed {
        message: String,
        /// A consequence of another process's end.
        is_lost: bool,
        /// Its data are not those of a query, so other nodes may be able to.
        #[serde(default)]
        is_stale: bool,
    },
    Measured,
    /// A query's part is made.
    Ready,
    Alive,
}

/// Sends a first line.
pub(crate) fn greet(to: &mut WriteHalf, line: &impl Serialize) -> io::Result<()> {
    let json = serde_json::to_string(line).map_err(io::Error::other)?;
    to.write_all(format!("{WORD} {json}\n").as_bytes())
}

/// Reads a first line, until an end.
///
/// # Errors
/// The other end speaks of something else: the error shows how it begins.
pub(crate) fn greeted<T: DeserializeOwned>(from: &mut BufReader<ReadHalf>, end: Instant) -> io::Result<T> {
    let mut line = Vec::new();
    // The time is for the whole line, however slowly its bytes come.
    while line.last() != Some(&b'\n') && (line.len() as u64) < FIRST {
        from.get_mut().set_read_end(end)?;
        let read = from.fill_buf()?;
        let length = read.iter().position(|&byte| byte == b'\n').map_or(read.len(), |end| end + 1);
        if length == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        line.extend_from_slice(&read[..length]);
        from.consume(length);
        // Another program's first line is enough to tell.
        if !WORD.as_bytes().starts_with(&line[..line.len().min(WORD.len())]) {
            break;
        }
    }
    let json = line.strip_prefix(WORD.as_bytes()).and_then(|rest| rest.strip_prefix(b" "));
    json.and_then(|json| serde_json::from_slice(json).ok()).ok_or_else(|| {
        if line.starts_with(TLS_ALERT) {
            return io::Error::new(ErrorKind::InvalidData, TLS_ALONE);
        }
        let begin: String = String::from_utf8_lossy(&line).chars().take(40).collect();
        let shown = begin.trim_end().escape_debug();
        io::Error::new(
            ErrorKind::InvalidData,
            format!("what answers there is no node of Vicus: it begins with `{shown}`"),
        )
    })
}

/// The end of a control connection that writes. A thread of its own says from time to time that the process lives.
pub(crate) struct Control {
    to: Mutex<WriteHalf>,
    is_over: Mutex<bool>,
    ended: Condvar,
}

impl Control {
    /// # Errors
    /// The system refuses.
    pub(crate) fn start(to: WriteHalf, alive: impl Serialize, silence: Duration) -> io::Result<Arc<Control>> {
        to.set_nodelay()?;
        to.set_write_timeout(silence)?;
        let control = Arc::new(Control { to: Mutex::new(to), is_over: Mutex::new(false), ended: Condvar::new() });
        let alive = line_of(&alive)?;
        let weak = Arc::downgrade(&control);
        let lives = move || {
            while let Some(control) = weak.upgrade() {
                let goes_on = |is_over: &mut bool| !*is_over;
                let wait = silence / ALIVE_IN_SILENCE;
                let waited = control.ended.wait_timeout_while(locked(&control.is_over), wait, goes_on);
                if *waited.unwrap_or_else(PoisonError::into_inner).0 || control.write(&alive).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new().name("vicus-alive".to_owned()).spawn(lives)?;
        Ok(control)
    }

    fn write(&self, line: &[u8]) -> io::Result<()> {
        locked(&self.to).write_all(line)
    }

    /// # Errors
    /// The other end is gone.
    pub(crate) fn send(&self, line: &impl Serialize) -> io::Result<()> {
        self.write(&line_of(line)?)
    }

    /// Says nothing more. The other end sees the connection closed.
    pub(crate) fn end(&self) {
        *locked(&self.is_over) = true;
        self.ended.notify_all();
        locked(&self.to).shutdown();
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.end();
    }
}

/// Sends a line to the other end of a connection that has no thread yet.
pub(crate) fn say(to: &mut WriteHalf, line: &impl Serialize) -> io::Result<()> {
    to.write_all(&line_of(line)?)
}

pub(crate) fn line_of(line: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut json = serde_json::to_vec(line).map_err(io::Error::other)?;
    json.push(b'\n');
    Ok(json)
}

/// Reads a line of a control connection.
pub(crate) fn heard<T: DeserializeOwned>(
    from: &mut BufReader<ReadHalf>,
    peer: &str,
    silence: Duration,
) -> Result<T, LinkLost> {
    let mut line = Vec::new();
    let read = from.by_ref().take(LINE).read_until(b'\n', &mut line);
    let parsed = read.and_then(|_| {
        if line.last() != Some(&b'\n') {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        serde_json::from_slice(&line).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    });
    parsed.map_err(|error| lost(peer, &error, silence))
}
