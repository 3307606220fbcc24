//! Connections: accepted within a bound, with TLS or without, each served by a task of its own.

use crate::half_closed::{BodyWithEnd, Ended, Exchange};
use crate::routes::{Arrived, kept};
use crate::server::ServerError;
use crate::shared::Shared;
use crate::slow_clients::{Owed, Taking};
use axum::Router;
use axum::extract::Extension;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use std::io::{self, ErrorKind::TimedOut, IoSlice};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use vicus_service::{TlsCertificate, TlsError};

/// The head of a request has no more bytes: its URL and its header fields.
const HEAD_BYTES: usize = 64 << 10;

/// Accepts connections until it is told to end.
pub(crate) async fn accept(
    listener: Arc<TcpListener>,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared>,
    routes: Router,
    mut stop: watch::Receiver<bool>,
) -> GracefulShutdown {
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(shared.options.clients.connections.min(Semaphore::MAX_PERMITS)));
    let builder = Arc::new(builder(shared.options.clients.head_time));
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await.expect("it is never closed");
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            next = next => next,
            _ = stop.wait_for(|stop| *stop) => return graceful,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(_) => {
                // Too many files are open, or the client has gone already: others may close meanwhile.
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        // Small answers leave at once.
        let _ = stream.set_nodelay(true);
        // Limits the unsent bytes in the system, so that a slow client's takings are seen soon: else the system reports
        // them after megabytes.
        #[cfg(target_os = "linux")]
        let _ = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT);
        let (tls, shared, builder, watcher) =
            (tls.clone(), Arc::clone(&shared), Arc::clone(&builder), graceful.watcher());
        let (routes, time) = (routes.clone(), shared.options.clients.head_time);
        tokio::spawn(async move {
            shared.metrics.connections.fetch_add(1, Ordering::Relaxed);
            let arrived = Arrived { from, is_tls: tls.is_some() };
            match tls {
                None => serve(stream, Arc::clone(&shared), arrived, &builder, watcher, routes, time).await,
                Some(tls) => {
                    if let Ok(Ok(stream)) = tokio::time::timeout(time, tls.accept(stream)).await {
                        serve(stream, Arc::clone(&shared), arrived, &builder, watcher, routes, time).await;
                    }
                }
            }
            shared.metrics.connections.fetch_sub(1, Ordering::Relaxed);
            drop(place);
        });
    }
}

fn builder(head_time: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // hyper's own date panics if the clock is past the year 9999.
    builder
        .http1()
        .auto_date_header(false)
        .timer(TokioTimer::new())
        .header_read_timeout(head_time)
        .max_buf_size(HEAD_BYTES)
        .max_headers(128);
    builder
        .http2()
        .auto_date_header(false)
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD_BYTES as u32)
        .max_concurrent_streams(64)
        .keep_alive_interval(Duration::from_secs(30));
    builder
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    shared: Arc<Shared>,
    arrived: Arrived,
    builder: &Builder<TokioExecutor>,
    watcher: hyper_util::server::graceful::Watcher,
    routes: Router,
    time: Duration,
) {
    let late = Some(Box::pin(tokio::time::sleep(time)));
    let exchange = Arc::new(Exchange::default());
    let stream = Opening {
        inner: stream,
        seen: 0,
        late,
        full: None,
        take_time: shared.options.clients.take_time,
        exchange: Arc::clone(&exchange),
        ended: None,
    };
    let routes = TowerToHyperService::new(routes.layer(Extension(arrived)));
    let (taking, take_time) = (Arc::new(Taking::new()), shared.options.clients.take_time);
    let left = Arc::clone(&taking);
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let exchange = (request.version() == hyper::Version::HTTP_11).then(|| Arc::clone(&exchange));
        if let Some(exchange) = &exchange {
            exchange.begin();
        }
        let taking = (request.version() == hyper::Version::HTTP_2).then(|| Arc::clone(&taking));
        let mut request = request.map(|body| BodyWithEnd::request(body, exchange.clone()));
        let kept = kept(&shared, arrived, &mut request);
        let asked = if kept.is_none() { Some(routes.call(request)) } else { None };
        async move {
            let answer = match (kept, asked) {
                (Some(kept), _) => Ok(kept),
                (None, Some(asked)) => asked.await,
                (None, None) => unreachable!("what is not kept is asked for"),
            };
            answer.map(|answer| answer.map(|body| Owed::new(BodyWithEnd::answer(body, exchange), taking)))
        }
    });
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::select! {
        // A client's mistakes, and its leaving, end its connection alone.
        _ = watcher.watch(connection.into_owned()) => {}
        () = left.wait_until_left(take_time) => {}
    }
}

/// The most connections not yet accepted. A full queue drops a client's packets, and the client sends them again after
/// a second; the standard library's 128 is less than many clients open at once.
const ARRIVING: i32 = 4096;
/// The system takes bytes while it has fewer than this unsent.
#[cfg(target_os = "linux")]
const UNSENT: u32 = 256 << 10;
/// How HTTP/2 begins (RFC 9113, §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection with limits: it fails if its first bytes come too late, or if its client takes nothing for too long.
///
/// Until the first bytes tell HTTP/1.1 from HTTP/2, hyper waits without a limit; then the time for a head begins. hyper
/// also waits without a limit for a client that takes nothing.
struct Opening<S> {
    inner: S,
    /// The bytes of [`PREFACE`] seen so far.
    seen: usize,
    /// Set until the protocol is known.
    late: Option<Pin<Box<Sleep>>>,
    /// While the connection takes no bytes: until when it is waited for.
    full: Option<Pin<Box<Sleep>>>,
    take_time: Duration,
    exchange: Arc<Exchange>,
    /// The client sends no more, though its request is not answered yet.
    ended: Option<Ended>,
}

impl<S> Opening<S> {
    /// Whether a write has waited for too long. A write without a wait ends the wait.
    fn poll_stuck(&mut self, waits: bool, context: &mut Context<'_>) -> bool {
        if !waits {
            if self.full.take().is_some() && self.ended.is_some() {
                // The end of the client's bytes may be passed on now.
                context.waker().wake_by_ref();
            }
            return false;
        }
        let full = self.full.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.take_time)));
        full.as_mut().poll(context).is_ready()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Opening<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let Some(late) = &mut this.late else { return this.poll_more(context, buffer) };
        let before = buffer.filled().len();
        // Bytes that have come are read, however late this task runs.
        if Pin::new(&mut this.inner).poll_read(context, buffer)?.is_pending() {
            ready!(late.as_mut().poll(context));
            return Poll::Ready(Err(TimedOut.into()));
        }
        let new = &buffer.filled()[before..];
        this.seen += new.len();
        let is_open = !new.is_empty() && PREFACE.get(this.seen - new.len()..this.seen) == Some(new);
        if !is_open || this.seen == PREFACE.len() {
            this.late = None;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Opening<S> {
    /// Reads on. The end of the client's bytes is passed on when the request is answered, or if its client has gone.
    fn poll_more(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let is_end = buffer.filled().len() == before && buffer.remaining() > 0;
        if !is_end || (self.ended.is_none() && !self.exchange.is_open()) {
            return Poll::Ready(Ok(()));
        }
        let ended = self.ended.get_or_insert_with(Ended::new);
        ready!(ended.poll(&self.exchange, &mut self.inner, context))?;
        // The end of the answer may wait to be written.
        if self.full.is_some() { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    /// Runs before a part of an answer is written.
    fn poll_before(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.exchange.writes();
        match &mut self.ended {
            Some(ended) => ended.poll_left(&mut self.inner, context),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Opening<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_before(context))?;
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        if self.poll_stuck(written.is_pending(), context) { Poll::Ready(Err(TimedOut.into())) } else { written }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(context);
        if self.poll_stuck(flushed.is_pending(), context) { Poll::Ready(Err(TimedOut.into())) } else { flushed }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_before(context))?;
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, pieces);
        if self.poll_stuck(written.is_pending(), context) { Poll::Ready(Err(TimedOut.into())) } else { written }
    }
}

/// Listens at an address with its port.
pub(crate) fn listen(address: &str) -> Result<std::net::TcpListener, ServerError> {
    let failed = |error| ServerError::Address { address: address.to_owned(), error };
    let listener = std::net::TcpListener::bind(address).map_err(failed)?;
    // Listening once more only changes the length of the queue.
    SockRef::from(&listener).listen(ARRIVING).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// The acceptor of TLS with a certificate.
pub(crate) fn tls(certificate: &Path, key: &Path) -> Result<TlsAcceptor, ServerError> {
    let read = TlsCertificate::read(certificate, key);
    let certificate = read.map_err(|TlsError { path, why }| ServerError::Certificate { path, why })?;
    Ok(TlsAcceptor::from(certificate.server(&[b"h2", b"http/1.1"])))
}
