//! Bodies: of answers, whole or piece by piece; and of requests, bounded in bytes and time.

use crate::answer::Failure;
use crate::coding::Coding;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use vicus_service::{BrokenOff, StreamReader};

/// The body of an answer.
pub(crate) enum Body {
    Whole(Option<Bytes>),
    Stream(Box<Stream>),
    /// Events that a page listens to.
    Events(tokio::sync::mpsc::Receiver<Bytes>),
}

/// A text that is written while it is sent.
pub(crate) struct Stream {
    first: Option<Bytes>,
    reader: StreamReader,
    /// Told of each piece, and dropped with the body.
    sent: Box<dyn FnMut(usize) + Send>,
}

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
        Body::Whole(Some(bytes.into()))
    }

    /// `sent` is told how many bytes were sent, and dropped when the body is: at its end, or when its client has gone.
    pub(crate) fn stream(first: Bytes, reader: StreamReader, sent: impl FnMut(usize) + Send + 'static) -> Body {
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
            Body::Stream(stream) => {
                let piece = match stream.first.take() {
                    Some(first) => Poll::Ready(Some(Ok(first))),
                    None => stream.reader.poll_piece(context).map(|piece| piece.map(|piece| piece.map(Bytes::from))),
                };
                if let Poll::Ready(Some(Ok(piece))) = &piece {
                    (stream.sent)(piece.len());
                }
                piece.map(|piece| piece.map(|piece| piece.map(Frame::data)))
            }
            Body::Events(events) => events.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(bytes) if bytes.as_ref().is_none_or(Bytes::is_empty))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
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

/// Reads a request's body as a whole, as it was sent.
async fn packed<B>(body: B, bound: Bound) -> Result<Vec<u8>, Failure>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let too_long = || {
        let message = format!("the body has more than {} bytes, which is the limit", bound.bytes);
        Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "limit", message)
    };
    if body.size_hint().lower() > bound.bytes {
        return Err(too_long());
    }
    let (mut body, mut bytes) = (body, Vec::new());
    loop {
        let frame = match tokio::time::timeout(bound.pause, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Err(Failure::bad(format!("the body can't be read: {error}"))),
            Ok(None) => return Ok(bytes),
            Err(_) => {
                let message = format!("nothing of the body came for {} s", bound.pause.as_secs());
                return Err(Failure::new(StatusCode::REQUEST_TIMEOUT, "time", message));
            }
        };
        if let Ok(data) = frame.into_data() {
            if bytes.len() as u64 + data.len() as u64 > bound.bytes {
                return Err(too_long());
            }
            bytes.extend_from_slice(&data);
        }
    }
}

/// Reads and unpacks a request's body.
pub(crate) async fn read<B>(headers: &HeaderMap, body: B, bound: Bound) -> Result<Vec<u8>, Failure>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let coding = coding(headers)?;
    let packed = packed(body, bound).await?;
    if coding == Coding::Identity {
        return Ok(packed);
    }
    let unpacked = tokio::task::spawn_blocking(move || -> io::Result<Vec<u8>> {
        let mut unpacked = Vec::new();
        let most = bound.bytes.saturating_add(1);
        coding.unpack(io::Cursor::new(packed))?.take(most).read_to_end(&mut unpacked)?;
        Ok(unpacked)
    });
    let unpacked = unpacked.await.map_err(|_| Failure::bad("the body can't be unpacked"))?;
    let unpacked = unpacked.map_err(|error| Failure::bad(format!("the body can't be unpacked: {error}")))?;
    if unpacked.len() as u64 > bound.bytes {
        let message = format!("the body has more than {} bytes when it is unpacked, which is the limit", bound.bytes);
        return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "limit", message));
    }
    Ok(unpacked)
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
