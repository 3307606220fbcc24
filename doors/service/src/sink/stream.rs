//! Text that a reader takes piece by piece while its query runs. No thread waits for it.
//!
//! ```text
//!  boxes ── write ──▶ pieces, so many bytes ── poll ──▶ reader (a task of the network)
//!            │  full: the box pauses              │  half empty: paused boxes go on
//!            └────────── Turn::pause ◀────────────┘
//! ```
//!
//! A writer never blocks. Text beyond the bound is kept all the same, but the box then pauses until the reader has
//! taken half, and so do the boxes before it: a slow reader slows its own query alone.

use crate::cancel::Cancel;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use vicus::{Resume, Turn};

/// Slows the writing boxes.
pub trait Pace: Send + Sync {
    /// Whether the box is to do no more in this invocation. It has been paused then, and is invoked again later.
    fn pause(&self, turn: &mut Turn<'_>) -> bool;
}

/// Makes a text for the boxes of a query to write and a reader to take. When `most_bytes` wait, boxes pause.
///
/// ```
/// use std::io::Write;
/// use std::task::{Context, Poll, Waker};
/// use vicus_service::text_stream;
///
/// let (mut writer, mut reader) = text_stream(1 << 16);
/// let mut context = Context::from_waker(Waker::noop());
/// assert!(reader.poll_piece(&mut context).is_pending());
/// writer.write_all(b"some rows")?;
/// writer.end();
/// assert_eq!(reader.poll_piece(&mut context), Poll::Ready(Some(Ok(b"some rows".to_vec()))));
/// assert_eq!(reader.poll_piece(&mut context), Poll::Ready(None));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn text_stream(most_bytes: usize) -> (StreamWriter, StreamReader) {
    let shared = Arc::new(Shared { state: Mutex::default(), taken: Condvar::new(), most_bytes });
    let writer = StreamWriter(Arc::new(Writing { shared: Arc::clone(&shared) }));
    (writer, StreamReader { shared, cancel: None })
}

struct Shared {
    state: Mutex<State>,
    /// A piece was taken, or the reader has gone.
    taken: Condvar,
    most_bytes: usize,
}

#[derive(Default)]
struct State {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes in them.
    waiting: usize,
    /// When the reader last took a piece, or the first one came. Invariant: `None` without pieces.
    untaken: Option<Instant>,
    end: Option<End>,
    is_gone: bool,
    reader: Option<Waker>,
    /// Boxes that go on when there is room. Dropped outside of the lock, since dropping one runs code of the world.
    paused: Vec<Resume>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    Broken,
}

/// A piece grows to this size before another is begun.
const PIECE_BYTES: usize = 64 << 10;

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    fn end(&self, end: End) {
        let mut state = self.lock();
        if state.end.is_none() {
            state.end = Some(end);
        }
        let (reader, paused) = (state.reader.take(), std::mem::take(&mut state.paused));
        drop(state);
        drop(paused);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

/// The end that boxes write to. A clone is the same text. If all are dropped before its end, the text is broken.
#[derive(Clone)]
pub struct StreamWriter(Arc<Writing>);

struct Writing {
    shared: Arc<Shared>,
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.shared.end(End::Broken);
    }
}

impl StreamWriter {
    /// Ends the text: all is written.
    pub fn end(&self) {
        self.0.shared.end(End::Whole);
    }

    /// Bytes waiting for the reader.
    pub fn waiting(&self) -> usize {
        self.0.shared.lock().waiting
    }

    /// Blocks the calling thread until the reader has taken a piece or has gone, at most for `at_most`. For writers
    /// that are no boxes.
    pub fn wait_for_room(&self, at_most: Duration) {
        let state = self.0.shared.lock();
        if state.waiting >= self.0.shared.most_bytes && !state.is_gone {
            drop(self.0.shared.taken.wait_timeout(state, at_most));
        }
    }

    /// The text breaks off here: its reader learns of its incompleteness.
    pub fn break_off(&self) {
        self.0.shared.end(End::Broken);
    }
}

/// Watches a reader's progress, and gives up a stuck one. It keeps no text from its end.
#[derive(Clone)]
pub struct StreamWatch(Arc<Shared>);

impl StreamWatch {
    /// How long the reader has taken nothing of waiting text; zero if nothing waits for it.
    pub fn untaken(&self) -> Duration {
        self.0.lock().untaken.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Whether nothing more is written, and nothing waits.
    pub fn is_over(&self) -> bool {
        let state = self.0.lock();
        state.is_gone || (state.end.is_some() && state.pieces.is_empty())
    }

    /// Drops the waiting text. The reader learns that the text broke off, and writers that it has gone.
    pub fn give_up(&self) {
        let mut state = self.0.lock();
        state.is_gone = true;
        state.end = Some(End::Broken);
        (state.waiting, state.untaken) = (0, None);
        let (pieces, paused) = (std::mem::take(&mut state.pieces), std::mem::take(&mut state.paused));
        let reader = state.reader.take();
        drop(state);
        self.0.taken.notify_all();
        drop((pieces, paused));
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl fmt::Debug for StreamWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamWatch").field("untaken", &self.untaken()).finish_non_exhaustive()
    }
}

impl Write for StreamWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.shared.lock();
        if state.is_gone {
            return Err(ErrorKind::BrokenPipe.into());
        }
        state.waiting += bytes.len();
        if state.pieces.is_empty() {
            state.untaken = Some(Instant::now());
        }
        match state.pieces.back_mut().filter(|piece| piece.len() + bytes.len() <= PIECE_BYTES) {
            Some(piece) => piece.extend_from_slice(bytes),
            None => state.pieces.push_back(bytes.to_vec()),
        }
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Pace for StreamWriter {
    fn pause(&self, turn: &mut Turn<'_>) -> bool {
        let Shared { most_bytes, .. } = *self.0.shared;
        let mut state = self.0.shared.lock();
        if state.waiting < most_bytes || state.is_gone || state.end.is_some() {
            return false;
        }
        // A world without an outside has no slow readers.
        let Some(resume) = turn.pause() else { return false };
        state.paused.push(resume);
        true
    }
}

impl fmt::Debug for StreamWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamWriter").field("waiting", &self.0.shared.lock().waiting).finish_non_exhaustive()
    }
}

/// A text broke off: its query has failed, or was cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BrokenOff;

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer broke off: its query has failed or was cancelled")
    }
}

impl std::error::Error for BrokenOff {}

/// The end that takes the text. Dropping it cancels the query given to it.
pub struct StreamReader {
    shared: Arc<Shared>,
    cancel: Option<Cancel>,
}

impl StreamReader {
    /// When it is dropped before the text's end, this cancels.
    #[must_use]
    pub fn cancelling(mut self, cancel: Cancel) -> StreamReader {
        self.cancel = Some(cancel);
        self
    }

    /// A watch on this reader's progress.
    pub fn watch(&self) -> StreamWatch {
        StreamWatch(Arc::clone(&self.shared))
    }

    /// The next piece; `None` behind the last.
    pub fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Vec<u8>, BrokenOff>>> {
        let mut state = self.shared.lock();
        let Some(piece) = state.pieces.pop_front() else {
            return match state.end {
                Some(End::Whole) => Poll::Ready(None),
                Some(End::Broken) => Poll::Ready(Some(Err(BrokenOff))),
                None => {
                    state.reader = Some(context.waker().clone());
                    Poll::Pending
                }
            };
        };
        state.waiting -= piece.len();
        state.untaken = (!state.pieces.is_empty()).then(Instant::now);
        let has_room = state.waiting <= self.shared.most_bytes / 2;
        let resumed = if has_room { std::mem::take(&mut state.paused) } else { Vec::new() };
        drop(state);
        drop(resumed);
        if has_room {
            self.shared.taken.notify_all();
        }
        Poll::Ready(Some(Ok(piece)))
    }

    /// The rest of the text, if it has come to its end.
    pub fn whole(&mut self) -> Option<Vec<u8>> {
        let mut state = self.shared.lock();
        if state.end != Some(End::Whole) {
            return None;
        }
        (state.waiting, state.untaken) = (0, None);
        let mut whole = state.pieces.pop_front().unwrap_or_default();
        state.pieces.drain(..).for_each(|piece| whole.extend(piece));
        Some(whole)
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_gone = true;
        // A dump waits until little is waiting.
        (state.waiting, state.untaken) = (0, None);
        let has_ended = state.end.is_some();
        let (pieces, paused) = (std::mem::take(&mut state.pieces), std::mem::take(&mut state.paused));
        drop(state);
        self.shared.taken.notify_all();
        if let Some(cancel) = self.cancel.take().filter(|_| !has_ended) {
            cancel.cancel();
        }
        // After the cancel, so they are not run again for nothing.
        drop((pieces, paused));
    }
}

impl fmt::Debug for StreamReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamReader").field("waiting", &self.shared.lock().waiting).finish_non_exhaustive()
    }
}
