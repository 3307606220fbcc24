//! Bodies: of answers, whole or piece by piece; and of requests, bounded in bytes and time.

use crate::answer::Failure;
use crate::answers::Kept;
use crate::coding::Coding;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use vicus_service::{BrokenOff, StreamReader};

/// The body of an answer.
pub(crate) enum Body {
    Whole(Option<Bytes>),
    /// An answer that is kept, of which so many pieces are sent.
    Kept {
        kept: Arc<Kept>,
        sent: usize,
    },
    Stream(Box<Stream>),
    /// Events that a page listens to.
    Events(tokio::sync::mpsc::Receiver<Bytes>),
}

/// A text that is written while it is sent.
pub(crate) struct Stream {
    first: Option<Bytes>,
    reader: StreamReader,
    /// Told of each piece, and dropped with the body.
    sent: Box<dyn FnMut(Sent<'_>) + Send>,
}

/// What has become of a text that is written while it is sent.
pub(crate) enum Sent<'a> {
    Piece(&'a Bytes),
    /// All of it was taken.
    Whole,
}

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
        Body::Whole(Some(bytes.into()))
    }

    /// `sent` is told what was sent, and dropped when the body is: at its end, or when its client has gone.
    pub(crate) fn stream(first: Bytes, reader: StreamReader, sent: impl FnMut(Sent<'_>) + Send + 'static) -> Body {
        Body::Stream(Box::new(Stream { first: Some(first), reader, sent: Box::new(sent) }))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        match self.get_mut() {
            Body::Whole(bytes) => {
                Poll::Ready(bytes.take().filter(|bytes| !bytes.is_empty()).map(|bytes| Ok(Frame::data(bytes))))
            }
            Body::Kept { kept, sent } => {
                let piece = kept.text.piece(*sent).cloned();
                *sent += 1;
                Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
            }
            Body::Stream(stream) => {
                let piece = match stream.first.take() {
                    Some(first) => Poll::Ready(Some(Ok(first))),
                    None => stream.reader.poll_piece(context).map(|piece| piece.map(|piece| piece.map(Bytes::from))),
                };
                match &piece {
                    Poll::Ready(Some(Ok(piece))) => (stream.sent)(Sent::Piece(piece)),
                    Poll::Ready(None) => (stream.sent)(Sent::Whole),
                    _ => {}
                }
                piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
            }
            Body::Events(events) => events.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Body::Kept { kept, sent } => kept.text.piece(*sent).is_none(),
            _ => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Body::Kept { kept, sent: 0 } => SizeHint::with_exact(kept.text.bytes()),
            _ => SizeHint::default(),
        }
    }
}

/// How much of a request's body is read, and how long a client may send nothing of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) bytes: u64,
    pub(crate) pause: Duration,
}

/// A client that sends without a pause, but fewer bytes in a second than this, is as one that pauses.
const SLOWEST: u32 = 1 << 10;

/// Bytes of bodies, of all requests together.
#[derive(Debug)]
pub(crate) struct Bodies {
    held: AtomicU64,
    most: u64,
}

/// What one request holds of them.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    bodies: Arc<Bodies>,
    bytes: u64,
}

impl Bodies {
    pub(crate) fn new(most: u64) -> Arc<Bodies> {
        Arc::new(Bodies { held: AtomicU64::new(0), most })
    }
}

impl HeldBytes {
    fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        let (bytes, most) = (bytes as u64, self.bodies.most);
        let grown = |held: u64| held.checked_add(bytes).filter(|held| *held <= most);
        let held = &self.bodies.held;
        held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown)
            .map_err(|_| Failure::busy("bodies of other requests hold all the memory there is for them"))?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.bodies.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A request's body, unpacked. It counts as one of [`Bodies`] until it is dropped.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) bytes: Vec<u8>,
    pub(crate) held: HeldBytes,
}

/// A body, or a part of it, as it is read; the last part gives back what the body held.
pub(crate) struct Part<R> {
    pub(crate) inner: R,
    pub(crate) _held: Arc<HeldBytes>,
}

impl<R: Read> Read for Part<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer)
    }
}

fn too_long(bound: Bound, unpacked: &str) -> Failure {
    let message = format!("the body has more than {} bytes{unpacked}, which is the limit", bound.bytes);
    Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "limit", message)
}

/// Reads a request's body as a whole, as it was sent.
async fn packed<B>(body: B, bound: Bound, held: &mut HeldBytes) -> Result<Vec<u8>, Failure>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    if body.size_hint().lower() > bound.bytes {
        return Err(too_long(bound, ""));
    }
    let (mut body, mut bytes, began) = (body, Vec::new(), Instant::now());
    loop {
        // At the slowest, it could have sent for so long by now.
        let fair = bound.pause + Duration::from_secs(1) * (bytes.len() as u32 / SLOWEST);
        let left = fair.saturating_sub(began.elapsed()).min(bound.pause);
        let frame = match tokio::time::timeout(left, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Err(Failure::bad(format!("the body can't be read: {error}"))),
            Ok(None) => return Ok(bytes),
            Err(_) => {
                let message = format!("too little of the body came: {} bytes in {:?}", bytes.len(), began.elapsed());
                return Err(Failure::new(StatusCode::REQUEST_TIMEOUT, "time", message));
            }
        };
        if let Ok(data) = frame.into_data() {
            if bytes.len() as u64 + data.len() as u64 > bound.bytes {
                return Err(too_long(bound, ""));
            }
            held.grow(data.len())?;
            bytes.extend_from_slice(&data);
        }
    }
}

/// Reads and unpacks a request's body.
pub(crate) async fn read<B>(headers: &HeaderMap, body: B, bound: Bound, bodies: &Arc<Bodies>) -> Result<Whole, Failure>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let coding = coding(headers)?;
    let mut held = HeldBytes { bodies: Arc::clone(bodies), bytes: 0 };
    let packed = packed(body, bound, &mut held).await?;
    if coding == Coding::Identity {
        return Ok(Whole { bytes: packed, held });
    }
    let unpacking = tokio::task::spawn_blocking(move || unpacked(coding, packed, bound, held));
    unpacking.await.map_err(|_| Failure::bad("the body can't be unpacked"))?
}

fn unpacked(coding: Coding, packed: Vec<u8>, bound: Bound, mut held: HeldBytes) -> Result<Whole, Failure> {
    let wrong = |error: io::Error| Failure::bad(format!("the body can't be unpacked: {error}"));
    let mut reader = coding.unpack(io::Cursor::new(packed)).map_err(wrong)?;
    let (mut bytes, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let count = reader.read(&mut piece).map_err(wrong)?;
        if count == 0 {
            return Ok(Whole { bytes, held });
        }
        if bytes.len() as u64 + count as u64 > bound.bytes {
            return Err(too_long(bound, " when it is unpacked"));
        }
        held.grow(count)?;
        bytes.extend_from_slice(&piece[..count]);
    }
}

/// How a request's body is packed.
fn coding(headers: &HeaderMap) -> Result<Coding, Failure> {
    let Some(value) = headers.get(header::CONTENT_ENCODING) else { return Ok(Coding::Identity) };
    let name = value.to_str().unwrap_or("?");
    Coding::of(name).ok_or_else(|| {
        let message = format!("a body may be packed by gzip or zstd, not by `{name}`");
        Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "coding", message)
    })
}
