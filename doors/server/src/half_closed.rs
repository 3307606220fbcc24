//! Clients that close their sending side after their request: they still get their answers, and gone ones are noticed.
//!
//! Both look alike until the server sends something: the system of a gone client then answers that nothing is open any
//! more. hyper takes the end of the received bytes for the end of the client, so it is not told of it while an answer
//! is being made. Until the answer begins, an interim answer (100, which RFC 9110, §15.2, lets a server send at any
//! time) is sent now and then; the answer's own bytes do the same.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::AsyncWrite;
use tokio::time::{Instant, Sleep};

/// The progress of the request on a connection of HTTP/1.1, with one request at a time.
#[derive(Default, Debug)]
pub(crate) struct Exchange {
    /// A request has come, and its answer is not at its end.
    is_open: AtomicBool,
    /// All of its body was read.
    is_read: AtomicBool,
    /// Bytes of its answer were written.
    is_answered: AtomicBool,
}

impl Exchange {
    /// A request begins.
    pub(crate) fn begin(&self) {
        self.is_read.store(false, Ordering::Relaxed);
        self.is_answered.store(false, Ordering::Relaxed);
        self.is_open.store(true, Ordering::Release);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// A part of the answer is about to be written; or, between answers, a part of the protocol.
    pub(crate) fn writes(&self) {
        if self.is_read.load(Ordering::Relaxed) {
            self.is_answered.store(true, Ordering::Relaxed);
        }
    }
}

/// A body that reports its end: a request's when it was read, an answer's when it is dropped.
pub(crate) struct BodyWithEnd<B> {
    inner: B,
    exchange: Option<Arc<Exchange>>,
    is_answer: bool,
}

impl<B: Body> BodyWithEnd<B> {
    pub(crate) fn request(inner: B, exchange: Option<Arc<Exchange>>) -> BodyWithEnd<B> {
        let told = BodyWithEnd { inner, exchange, is_answer: false };
        if told.inner.is_end_stream() {
            told.read();
        }
        told
    }

    pub(crate) fn answer(inner: B, exchange: Option<Arc<Exchange>>) -> BodyWithEnd<B> {
        BodyWithEnd { inner, exchange, is_answer: true }
    }

    fn read(&self) {
        if let Some(exchange) = self.exchange.as_ref().filter(|_| !self.is_answer) {
            exchange.is_read.store(true, Ordering::Relaxed);
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for BodyWithEnd<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        if frame.is_none() || self.inner.is_end_stream() {
            self.read();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> Drop for BodyWithEnd<B> {
    fn drop(&mut self) {
        if let Some(exchange) = self.exchange.as_ref().filter(|_| self.is_answer) {
            exchange.is_open.store(false, Ordering::Release);
        }
    }
}

const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The wait for a reaction after an interim answer.
const ECHO: Duration = Duration::from_millis(100);
const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);

/// The end of the client's bytes, not yet passed on to hyper.
#[derive(Debug)]
pub(crate) struct Ended {
    next: Pin<Box<Sleep>>,
    /// The pause from one interim answer to the next.
    pause: Duration,
    has_asked: bool,
    /// The unwritten rest of an interim answer.
    left: &'static [u8],
}

impl Ended {
    pub(crate) fn new() -> Ended {
        Ended { next: Box::pin(tokio::time::sleep(ECHO)), pause: FIRST, has_asked: true, left: &[] }
    }

    /// Writes the rest of an interim answer.
    pub(crate) fn poll_left<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.left.is_empty() {
            let count = ready!(Pin::new(&mut *stream).poll_write(context, self.left))?;
            self.left = &self.left[count..];
        }
        Poll::Ready(Ok(()))
    }

    /// Whether hyper is to be told: with an error if the client has gone. Pending while the answer is being made.
    pub(crate) fn poll<S: AsyncWrite + Unpin>(
        &mut self,
        exchange: &Exchange,
        stream: &mut S,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if !exchange.is_open() {
            return Poll::Ready(Ok(()));
        }
        ready!(self.next.as_mut().poll(context));
        if !exchange.is_read.load(Ordering::Relaxed) {
            // More of the body is waited for, and none will come.
            return Poll::Ready(Ok(()));
        }
        let asks = !self.has_asked && !exchange.is_answered.load(Ordering::Relaxed);
        if asks && self.left.is_empty() {
            self.left = INTERIM;
            if let Poll::Ready(Err(error)) = self.poll_left(stream, context) {
                return Poll::Ready(Err(error));
            }
            // Of TLS, records are written now.
            if let Poll::Ready(Err(error)) = Pin::new(&mut *stream).poll_flush(context) {
                return Poll::Ready(Err(error));
            }
        }
        self.has_asked = asks;
        let pause = if asks { ECHO } else { self.pause };
        if !asks {
            self.pause = (2 * self.pause).min(LONGEST);
        }
        self.next.as_mut().reset(Instant::now() + pause);
        // Wakes the task, so that it waits for the new time.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
