//! Slow clients of HTTP/2: no byte of a ready answer goes to the system while their window is closed, so no write waits
//! for them.
//!
//! A connection counts its debts: bodies whose next piece hyper does not ask for, since it has no window for it, and
//! pieces in hyper that are not written. If it owes something and the client takes nothing for too long, the connection
//! is closed. A body that is asked and has no piece yet waits for its query, and is not owed.

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The answers that a connection owes its client.
#[derive(Debug)]
pub(crate) struct Taking {
    /// Bodies and pieces.
    owed: AtomicUsize,
    began: Instant,
    /// When the client took something, or first left something, in milliseconds since then.
    taken_ms: AtomicU64,
    /// [`Taking::is_left`] waits for a time, and not for a first debt.
    is_watched: AtomicBool,
    begins: Notify,
}

impl Taking {
    pub(crate) fn new() -> Taking {
        Taking {
            owed: AtomicUsize::new(0),
            began: Instant::now(),
            taken_ms: AtomicU64::new(0),
            is_watched: AtomicBool::new(false),
            begins: Notify::new(),
        }
    }

    fn owe(&self) {
        if self.owed.fetch_add(1, Ordering::SeqCst) == 0 {
            self.take();
            if !self.is_watched.swap(true, Ordering::SeqCst) {
                self.begins.notify_one();
            }
        }
    }

    fn settle(&self) {
        self.take();
        self.owed.fetch_sub(1, Ordering::SeqCst);
    }

    fn take(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.taken_ms.store(now, Ordering::Relaxed);
    }

    /// Waits until the client has taken nothing of a debt for `take_time`.
    pub(crate) async fn wait_until_left(&self, take_time: Duration) {
        loop {
            self.is_watched.store(false, Ordering::SeqCst);
            if self.owed.load(Ordering::SeqCst) == 0 {
                self.begins.notified().await;
            }
            self.is_watched.store(true, Ordering::SeqCst);
            let taken = Duration::from_millis(self.taken_ms.load(Ordering::Relaxed));
            let left = take_time.saturating_sub(self.began.elapsed().saturating_sub(taken));
            if left.is_zero() && self.owed.load(Ordering::SeqCst) > 0 {
                return;
            }
            tokio::time::sleep(left.max(SHORTEST)).await;
        }
    }
}

/// The shortest wait, against a busy loop when the time is already over.
const SHORTEST: Duration = Duration::from_millis(10);

/// An answer's body, and the connection of HTTP/2 that carries it.
pub(crate) struct Owed<B> {
    inner: B,
    taking: Option<Arc<Taking>>,
    /// Its next piece is ready or was never asked for.
    is_owed: bool,
}

impl<B> Owed<B> {
    pub(crate) fn new(inner: B, taking: Option<Arc<Taking>>) -> Owed<B> {
        taking.iter().for_each(|taking| taking.owe());
        Owed { inner, is_owed: taking.is_some(), taking }
    }

    fn set_owed(&mut self, is_owed: bool) {
        let Some(taking) = self.taking.as_ref().filter(|_| self.is_owed != is_owed) else { return };
        if is_owed {
            taking.owe();
        } else {
            taking.settle();
        }
        self.is_owed = is_owed;
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Owed<B> {
    type Data = Piece;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Piece>, B::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        // It is asked, so the client has a window.
        self.taking.iter().for_each(|taking| taking.take());
        self.set_owed(matches!(polled, Poll::Ready(Some(Ok(_)))));
        let taking = &self.taking;
        polled.map_ok(|frame| frame.map_data(|bytes| Piece::new(bytes, taking.clone())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> Drop for Owed<B> {
    fn drop(&mut self) {
        self.set_owed(false);
    }
}

/// Bytes in hyper until they are written.
pub(crate) struct Piece {
    bytes: Bytes,
    taking: Option<Arc<Taking>>,
}

impl Piece {
    fn new(bytes: Bytes, taking: Option<Arc<Taking>>) -> Piece {
        taking.iter().for_each(|taking| taking.owe());
        Piece { bytes, taking }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.taking.iter().for_each(|taking| taking.take());
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.taking.iter().for_each(|taking| taking.settle());
    }
}
