//! The pieces that a waiting thread has for its box.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use vicus_flow::{Resume, Turn};

/// A piece of a stream.
#[derive(Debug)]
pub(super) enum Piece {
    Bytes(Vec<u8>),
    /// The next bytes begin a line.
    Break,
    /// Nothing has come for a while.
    Idle,
    End,
    Failed(io::Error),
}

/// No more is read for a box while so many bytes wait for it.
const MOST_BYTES: usize = 1 << 20;

/// Pieces are put together up to this length.
const PIECE_BYTES: usize = 64 << 10;

#[derive(Default)]
struct State {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// The paused box.
    paused: Option<Resume>,
    /// The box is gone.
    is_closed: bool,
}

/// Shared by a box and its thread.
#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

impl Inbox {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic leaves nothing half done here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread waits until its box has taken enough. Whether the box is still there.
    pub(super) fn wait_for_room(&self) -> bool {
        let full = |state: &mut State| !state.is_closed && state.bytes >= MOST_BYTES;
        let state = self.changed.wait_while(self.state(), full).unwrap_or_else(PoisonError::into_inner);
        !state.is_closed
    }

    /// The thread puts a piece, and has its box go on.
    pub(super) fn put(&self, piece: Piece) {
        let mut state = self.state();
        match (piece, state.pieces.back_mut()) {
            // Small pieces become one: each takes memory beside its bytes.
            (Piece::Bytes(new), Some(Piece::Bytes(last))) if last.len() + new.len() <= PIECE_BYTES => {
                last.extend_from_slice(&new);
                state.bytes += new.len();
            }
            (Piece::Bytes(mut new), _) => {
                new.shrink_to_fit();
                state.bytes += new.len();
                state.pieces.push_back(Piece::Bytes(new));
            }
            (other, _) => state.pieces.push_back(other),
        }
        let paused = state.paused.take();
        drop(state);
        self.changed.notify_all();
        // Resumes the box, without the lock, which it takes.
        drop(paused);
    }

    /// The box takes the next piece. If there is none, it pauses, or waits in a world without pauses.
    pub(super) fn take(&self, turn: &mut Turn<'_>) -> Option<Piece> {
        let mut state = self.state();
        let piece = state.pieces.pop_front();
        match &piece {
            Some(Piece::Bytes(bytes)) => {
                state.bytes -= bytes.len();
                self.changed.notify_all();
            }
            Some(_) => {}
            None => match turn.pause() {
                Some(resume) => state.paused = Some(resume),
                None => {
                    drop(state);
                    turn.blocking(|| {
                        let empty = |state: &mut State| state.pieces.is_empty();
                        drop(self.changed.wait_while(self.state(), empty).unwrap_or_else(PoisonError::into_inner));
                    });
                    turn.run_again();
                }
            },
        }
        piece
    }

    /// Whether a piece has come.
    pub(super) fn has_pieces(&self) -> bool {
        !self.state().pieces.is_empty()
    }
}

/// A box's end of an inbox: the thread leaves when it is dropped.
pub(super) struct Receiver(pub(super) Arc<Inbox>);

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_closed = true;
        let paused = state.paused.take();
        drop(state);
        self.0.changed.notify_all();
        drop(paused);
    }
}
