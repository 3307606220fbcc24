//! A source of lines.

use super::PATIENCE;
use super::feeds::{Feed, FeedResult};
use super::inbox::{Inbox, Piece, Receiver};
use std::borrow::Cow;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use vicus_flow::{BoxError, BoxModel, EnvelopeBuilder, Mark, Operator, Schema, Turn, Type};

/// How lines are read.
#[derive(Clone, Copy, Debug)]
pub struct LineOptions {
    /// After this time without input the stream is marked as [idle](Mark::Idle); never by default.
    pub idle: Option<Duration>,
    /// The most bytes of a line; a longer one fails the request.
    pub line_bytes: usize,
    /// The most rows of an envelope. One with fewer is sent if no more has come.
    pub envelope_rows: usize,
}

impl Default for LineOptions {
    /// No idle marks, lines of 16 MiB, envelopes of 4,096 rows.
    fn default() -> LineOptions {
        LineOptions { idle: None, line_bytes: 16 << 20, envelope_rows: 4096 }
    }
}

/// The columns of [`lines`]: `line`, a text.
pub fn line_schema() -> Schema {
    Schema::new([("line", Type::Text)])
}

/// A source of the lines of a feed, which is opened in its own thread when the request begins. A line ends with a line
/// feed, with or without a carriage return before it, or with the feed. The request fails if the feed does, or if a
/// line is no UTF-8 or too long.
///
/// ```
/// use std::io::Write;
/// use vicus_flow::{ModelBuilder, library, sequential};
/// use vicus_machine::streams::{self, LineOptions, Tcp};
///
/// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// let server = std::thread::spawn(move || listener.accept().and_then(|(mut to, _)| to.write_all(b"near\r\nfar\n")));
///
/// let mut net = ModelBuilder::new("two lines");
/// let open = move || Tcp::connect(address).map(|feed| Box::new(feed) as Box<_>);
/// let lines = net.source(streams::lines("lines", open, LineOptions::default()));
/// let (send, receive) = std::sync::mpsc::channel();
/// let keep = move |rows: vicus_flow::Envelope| {
///     Ok(rows.column(0).texts().try_for_each(|text| send.send(text.to_owned()))?)
/// };
/// let end = net.add(library::sink("end", &streams::line_schema(), keep));
/// net.connect(lines.output(0), end.input(0));
/// net.end(end.output(0));
/// sequential::run(&net.build()?, Vec::new(), |_| 0)?;
/// assert_eq!(receive.try_iter().collect::<Vec<_>>(), ["near", "far"]);
/// server.join().expect("it has sent its lines")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn lines(
    type_name: impl Into<Cow<'static, str>>,
    open: impl Fn() -> io::Result<Box<dyn Feed>> + Clone + Send + Sync + 'static,
    options: LineOptions,
) -> BoxModel {
    let schema = line_schema();
    let factory = move || {
        let open = open.clone();
        Lines {
            open: Some(Box::new(open)),
            inbox: Receiver(Arc::default()),
            options,
            piece: Vec::new(),
            at: 0,
            begun: Vec::new(),
            number: 0,
            idle_marks: 0,
            next: None,
            builder: EnvelopeBuilder::new(&line_schema()),
            bytes: 0,
        }
    };
    BoxModel::new(type_name, factory).output(&schema)
}

type Open = Box<dyn FnOnce() -> io::Result<Box<dyn Feed>> + Send>;

struct Lines {
    /// Taken when the thread is started.
    open: Option<Open>,
    inbox: Receiver,
    options: LineOptions,
    /// The bytes at hand, and how many of them were read.
    piece: Vec<u8>,
    at: usize,
    /// The beginning of a line that goes on in the next piece.
    begun: Vec<u8>,
    /// How many lines there were.
    number: u64,
    idle_marks: u64,
    /// A piece without bytes, whose turn comes when the rows before it are sent.
    next: Option<Piece>,
    builder: EnvelopeBuilder,
    /// The bytes of its lines.
    bytes: usize,
}

/// An envelope with so many bytes of lines is sent, however few they are.
const ENVELOPE_BYTES: usize = 1 << 20;

/// Reads a feed until it ends, or its box is gone. A panic of the feed fails the box.
fn read(open: Open, inbox: &Inbox, idle: Option<Duration>) {
    let done = catch_unwind(AssertUnwindSafe(|| read_on(open, inbox, idle)));
    if done.is_err() {
        inbox.put(Piece::Failed(io::Error::other("reading the lines panicked")));
    }
}

fn read_on(open: Open, inbox: &Inbox, idle: Option<Duration>) {
    let mut feed = match open() {
        Ok(feed) => feed,
        Err(error) => return inbox.put(Piece::Failed(error)),
    };
    let (mut last, mut is_idle) = (Instant::now(), false);
    let patience = idle.map_or(PATIENCE, |idle| idle.min(PATIENCE)).max(Duration::from_millis(1));
    while inbox.wait_for_room() {
        let mut bytes = Vec::new();
        match feed.feed(&mut bytes, patience) {
            Ok(FeedResult::Bytes) => {
                (last, is_idle) = (Instant::now(), false);
                inbox.put(Piece::Bytes(bytes));
            }
            Ok(FeedResult::Nothing) => {
                if !is_idle && idle.is_some_and(|idle| last.elapsed() >= idle) {
                    is_idle = true;
                    inbox.put(Piece::Idle);
                }
            }
            Ok(FeedResult::Break) => inbox.put(Piece::Break),
            Ok(FeedResult::End) => return inbox.put(Piece::End),
            Err(error) => return inbox.put(Piece::Failed(error)),
        }
    }
}

impl Lines {
    /// Makes rows of the piece at hand.
    fn split(&mut self, turn: &Turn<'_>) -> Result<(), BoxError> {
        while self.at < self.piece.len() && !self.is_full() {
            let rest = &self.piece[self.at..];
            match rest.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    let line = self.at..self.at + end;
                    self.at = line.end + 1;
                    if self.begun.is_empty() {
                        let piece = std::mem::take(&mut self.piece);
                        self.line(&piece[line], turn)?;
                        self.piece = piece;
                    } else {
                        self.begun.extend_from_slice(&self.piece[line]);
                        self.end_line(turn)?;
                    }
                }
                None => {
                    self.begun.extend_from_slice(rest);
                    self.at = self.piece.len();
                    self.check_length(self.begun.len())?;
                }
            }
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.builder.rows() >= self.options.envelope_rows.max(1) || self.bytes >= ENVELOPE_BYTES
    }

    fn check_length(&self, bytes: usize) -> Result<(), BoxError> {
        let most = self.options.line_bytes;
        if bytes > most {
            return Err(format!("line {} has more than {most} bytes", self.number + 1).into());
        }
        Ok(())
    }

    /// The line that was begun is over.
    fn end_line(&mut self, turn: &Turn<'_>) -> Result<(), BoxError> {
        let line = std::mem::take(&mut self.begun);
        self.line(&line, turn)
    }

    fn line(&mut self, line: &[u8], turn: &Turn<'_>) -> Result<(), BoxError> {
        self.check_length(line.len())?;
        self.number += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = str::from_utf8(line).map_err(|_| format!("line {} is no text in UTF-8", self.number))?;
        self.builder.push_text(turn, 0, text);
        self.bytes += line.len();
        Ok(())
    }
}

impl Operator for Lines {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        // The first time, the initialization pill.
        turn.take(0);
        if let Some(open) = self.open.take() {
            let (inbox, idle) = (Arc::clone(&self.inbox.0), self.options.idle);
            thread::Builder::new().name("vicus stream".to_owned()).spawn(move || read(open, &inbox, idle))?;
        }
        loop {
            self.split(turn)?;
            turn.book((self.bytes + self.begun.capacity()) as u64)?;
            if self.is_full() || self.next.is_some() || (self.builder.rows() > 0 && !self.inbox.0.has_pieces()) {
                break;
            }
            match self.inbox.0.take(turn) {
                Some(Piece::Bytes(bytes)) => (self.piece, self.at) = (bytes, 0),
                // A line without an end, whose file is over.
                Some(other) => {
                    if matches!(other, Piece::Break | Piece::End) && !self.begun.is_empty() {
                        self.end_line(turn)?;
                    }
                    self.next = Some(other);
                }
                // The box is paused.
                None => return Ok(()),
            }
        }
        if self.builder.rows() > 0 {
            let envelope = self.builder.finish(turn);
            self.bytes = 0;
            turn.send(0, envelope);
            turn.run_again();
            return Ok(());
        }
        match self.next.take() {
            Some(Piece::Idle) => {
                self.idle_marks += 1;
                turn.send_mark(0, Mark::idle(self.idle_marks));
            }
            Some(Piece::End) => {
                turn.send_pill(0);
                return Ok(());
            }
            Some(Piece::Failed(error)) => return Err(error.into()),
            _ => {}
        }
        turn.run_again();
        Ok(())
    }
}
