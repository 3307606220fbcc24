//! Bodies: of answers, whole or piece by piece; and of requests, bounded in bytes and time.

use crate::answer::Failure;
use crate::answers::CachedAnswer;
use crate::coding::Coding;
use crate::requests::Entry;
use crate::shared::Shared;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use vicus_service::{BrokenOff, MemoryBudget, StreamReader, StreamWatch};

/// The body of an answer.
pub(crate) enum Body {
    Whole(Option<Bytes>),
    /// A kept answer, and the number of its pieces sent so far.
    Kept {
        kept: Arc<CachedAnswer>,
        sent: usize,
    },
    Stream(Box<Stream>),
    /// Events for a page.
    Events(tokio::sync::mpsc::Receiver<Bytes>),
}

/// Stops a request if its client takes nothing of its answer for too long. Neither a full connection nor a closed
/// window of HTTP/2 asks for the next piece, so a separate task looks at the stream.
///
/// While requests hold most of the memory for all, a shorter time is too long for the one of them that holds the most.
pub(crate) fn watch(shared: Arc<Shared>, stream: StreamWatch, entry: Arc<Entry>) {
    entry.set_stream(stream.clone());
    tokio::spawn(async move {
        let most = shared.options.clients.take_time;
        while !stream.is_over() {
            let untaken = stream.untaken();
            let gives_way = || shared.memory_is_scarce() && shared.requests.holds_most_for(&entry, SCARCE_TAKE_TIME);
            if untaken >= most || (untaken >= SCARCE_TAKE_TIME && gives_way()) {
                entry.give_up(untaken);
                // After the cancel, so that its boxes end without an error of their own.
                return stream.give_up();
            }
            // A stream that is taken soon ends before a long sleep would.
            let look = if untaken < SCARCE_TAKE_TIME { LOOK } else { SCARCE_LOOK };
            tokio::time::sleep((most - untaken).min(look)).await;
        }
    });
}

/// The longest sleep between two looks at a stream: the task does not outlive it for longer.
const LOOK: Duration = Duration::from_secs(2);

/// A client that takes nothing for this long gives way to others when memory is scarce.
const SCARCE_TAKE_TIME: Duration = Duration::from_secs(5);

/// The longest sleep between two looks at the stream of such a client.
const SCARCE_LOOK: Duration = Duration::from_millis(250);

/// A text sent while it is written.
pub(crate) struct Stream {
    first: Option<Bytes>,
    reader: StreamReader,
    /// Told of each piece, and dropped with the body.
    sent: Box<dyn FnMut(Sent<'_>) + Send>,
}

/// The progress of a text sent while it is written.
pub(crate) enum Sent<'a> {
    Piece(&'a Bytes),
    /// All of it was taken.
    Whole,
}

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
        Body::Whole(Some(bytes.into()))
    }

    /// `sent` is called with each event, and dropped with the body: at its end, or when its client has gone.
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

/// How much of a request's body is read, and how long a client may take for a part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) bytes: u64,
    /// In each stretch of this length except the first, the bytes must come to [`SLOWEST`] on average.
    pub(crate) stretch: Duration,
}

/// The least bytes of a body in a second.
const SLOWEST: f64 = 1024.0;

/// Bytes of bodies, of all requests together.
///
/// One client's bodies hold up to a quarter of the memory, and more only while all bodies hold less than half of it or
/// less than one body's limit: so a client with many bodies leaves room for others.
#[derive(Debug)]
pub(crate) struct Bodies {
    held: Mutex<BodyBytes>,
    most: u64,
    /// A body within its limit finds room when it is alone.
    one: u64,
    /// The budget of requests; bodies are held beside it.
    memory: Arc<MemoryBudget>,
}

/// Invariant: `all` is the sum of the clients' bytes, each of them more than 0.
#[derive(Default, Debug)]
struct BodyBytes {
    all: u64,
    of_clients: BTreeMap<IpAddr, u64>,
}

/// The bytes held for one request's body.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    bodies: Arc<Bodies>,
    client: IpAddr,
    bytes: u64,
}

impl Bodies {
    /// `most` bytes together, `one` of them for one body at most, beside the requests' part of the memory for all.
    pub(crate) fn new(most: u64, one: u64, memory: Arc<MemoryBudget>) -> Arc<Bodies> {
        Arc::new(Bodies { held: Mutex::default(), most, one, memory })
    }

    /// Begins the account of a body.
    pub(crate) fn begin(self: &Arc<Self>, client: IpAddr) -> HeldBytes {
        HeldBytes { bodies: Arc::clone(self), client, bytes: 0 }
    }

    /// The most bytes that one body may hold.
    fn alone(&self) -> u64 {
        self.one.max(self.most / 2).min(self.most)
    }

    fn lock(&self) -> MutexGuard<'_, BodyBytes> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldBytes {
    fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        let (bytes, most, one, alone) = (bytes as u64, self.bodies.most, self.bodies.one, self.bodies.alone());
        if self.bytes.saturating_add(bytes) > alone {
            let message = format!("the body takes more than {alone} bytes of memory, which no body may");
            return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "limit", message));
        }
        let mut held = self.bodies.lock();
        let all = held.all.saturating_add(bytes);
        if all > most {
            return Err(Failure::busy("bodies of other requests hold all the memory there is for them"));
        }
        let of_client = held.of_clients.get(&self.client).copied().unwrap_or(0) + bytes;
        if of_client > most / 4 && all > one.max(most / 2) {
            let message = format!("the bodies that this address sends hold {} bytes, which is its share", most / 4);
            return Err(Failure::busy(message));
        }
        held.all = all;
        held.of_clients.insert(self.client, of_client);
        drop(held);
        self.bytes += bytes;
        self.bodies.memory.hold_beside(bytes);
        Ok(())
    }

    /// Makes room for `more` bytes, and books it with a quarter of the text in reserve.
    fn make_room(&mut self, text: &mut Vec<u8>, more: usize) -> Result<(), Failure> {
        let (len, capacity) = (text.len(), text.capacity());
        if capacity - len >= more {
            return Ok(());
        }
        // The reserve is no reason to refuse a body within its limit.
        let left = usize::try_from(self.bodies.alone().saturating_sub(self.bytes)).unwrap_or(usize::MAX);
        let wanted = (len + more).max((len + len / 4).min(capacity.saturating_add(left)));
        self.grow(wanted - capacity)?;
        let no_memory = |_| Failure::busy("there is no memory for the body");
        text.try_reserve_exact(wanted - len).map_err(no_memory)
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        self.bodies.memory.give_back_beside(self.bytes);
        let mut held = self.bodies.lock();
        held.all -= self.bytes;
        if let Some(of_client) = held.of_clients.get_mut(&self.client) {
            *of_client -= self.bytes;
            if *of_client == 0 {
                held.of_clients.remove(&self.client);
            }
        }
    }
}

/// A request's body, unpacked. It counts as one of [`Bodies`] until it is dropped.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) bytes: Vec<u8>,
    pub(crate) held: HeldBytes,
}

impl Whole {
    /// Books memory for work on the body as well, until it is dropped.
    pub(crate) fn book(&mut self, bytes: u64) -> Result<(), Failure> {
        self.held.grow(usize::try_from(bytes).unwrap_or(usize::MAX))
    }
}

/// A body, or a part of it, as it is read; the last part gives back the body's memory.
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
    // The end of the current stretch, and the least bytes to have by then.
    let (mut end, mut least) = (began + bound.stretch, 0);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let frame = match tokio::time::timeout(left, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Err(Failure::bad(format!("the body can't be read: {error}"))),
            Ok(None) => return Ok(bytes),
            Err(_) if bytes.len() >= least => {
                end += bound.stretch;
                least = bytes.len() + (SLOWEST * bound.stretch.as_secs_f64()) as usize;
                continue;
            }
            Err(_) => {
                let message = format!(
                    "too little of the body came: {} bytes in {:.1?}; at least {SLOWEST} in a second are expected",
                    bytes.len(),
                    began.elapsed()
                );
                return Err(Failure::new(StatusCode::REQUEST_TIMEOUT, "time", message));
            }
        };
        if let Ok(data) = frame.into_data() {
            if bytes.len() as u64 + data.len() as u64 > bound.bytes {
                return Err(too_long(bound, ""));
            }
            held.make_room(&mut bytes, data.len())?;
            bytes.extend_from_slice(&data);
        }
    }
}

/// Reads and unpacks a request's body.
pub(crate) async fn read<B>(headers: &HeaderMap, body: B, bound: Bound, mut held: HeldBytes) -> Result<Whole, Failure>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let coding = coding(headers)?;
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
        held.make_room(&mut bytes, count)?;
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
