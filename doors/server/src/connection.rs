//! Connections: accepted within a bound, with TLS or without, each served by a task of its own.

use crate::routes::{Arrived, kept};
use crate::server::ServerError;
use crate::shared::Shared;
use axum::Router;
use axum::extract::Extension;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use std::io::{self, IoSlice};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

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
        let (tls, shared, builder, watcher) =
            (tls.clone(), Arc::clone(&shared), Arc::clone(&builder), graceful.watcher());
        let (routes, time) = (routes.clone(), shared.options.clients.head_time);
        tokio::spawn(async move {
            shared.metrics.connections.fetch_add(1, Ordering::Relaxed);
            let arrived = Arrived { from, is_tls: tls.is_some() };
            match tls {
                None => serve(stream, (Arc::clone(&shared), arrived), &builder, watcher, routes, time).await,
                Some(tls) => {
                    if let Ok(Ok(stream)) = tokio::time::timeout(time, tls.accept(stream)).await {
                        serve(stream, (Arc::clone(&shared), arrived), &builder, watcher, routes, time).await;
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
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head_time).max_buf_size(HEAD_BYTES).max_headers(128);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD_BYTES as u32)
        .max_concurrent_streams(64)
        .keep_alive_interval(Duration::from_secs(30));
    builder
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    (shared, arrived): (Arc<Shared>, Arrived),
    builder: &Builder<TokioExecutor>,
    watcher: hyper_util::server::graceful::Watcher,
    routes: Router,
    time: Duration,
) {
    let stream = Opening { inner: stream, seen: 0, late: Some(Box::pin(tokio::time::sleep(time))) };
    let routes = TowerToHyperService::new(routes.layer(Extension(arrived)));
    let service = service_fn(move |mut request| {
        let kept = kept(&shared, arrived, &mut request);
        let asked = if kept.is_none() { Some(routes.call(request)) } else { None };
        async move {
            match (kept, asked) {
                (Some(kept), _) => Ok(kept),
                (None, Some(asked)) => asked.await,
                (None, None) => unreachable!("what is not kept is asked for"),
            }
        }
    });
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    // What a client does wrong, or that it goes, is its own matter.
    let _ = watcher.watch(connection.into_owned()).await;
}

/// So many connections may have been made that were not accepted yet. Where the queue is full, a client's packets are dropped, and it sends
/// them again after a second; the standard library's 128 is less than many clients open at once.
const ARRIVING: i32 = 4096;
/// How HTTP/2 begins (RFC 9113, §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection that fails if its first bytes come too late.
///
/// Until they tell HTTP/1.1 from HTTP/2, hyper waits without a limit; then the time for a head begins.
struct Opening<S> {
    inner: S,
    /// So many bytes of [`PREFACE`] have come.
    seen: usize,
    /// Until it is known what the connection speaks.
    late: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Opening<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let Some(late) = &mut this.late else { return Pin::new(&mut this.inner).poll_read(context, buffer) };
        if late.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut this.inner).poll_read(context, buffer))?;
        let new = &buffer.filled()[before..];
        this.seen += new.len();
        let is_open = !new.is_empty() && PREFACE.get(this.seen - new.len()..this.seen) == Some(new);
        if !is_open || this.seen == PREFACE.len() {
            this.late = None;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Opening<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
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
        Pin::new(&mut self.inner).poll_write_vectored(context, pieces)
    }
}

/// Listens at an address, which is given with its port.
pub(crate) fn listen(address: &str) -> Result<std::net::TcpListener, ServerError> {
    let failed = |error| ServerError::Address { address: address.to_owned(), error };
    let listener = std::net::TcpListener::bind(address).map_err(failed)?;
    // Listening once more only changes the length of the queue.
    SockRef::from(&listener).listen(ARRIVING).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// What speaks TLS with a certificate.
pub(crate) fn tls(certificate: &Path, key: &Path) -> Result<TlsAcceptor, ServerError> {
    let wrong = |path: &Path, why: String| ServerError::Certificate { path: path.to_owned(), why };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(|all| all.collect::<Result<Vec<_>, _>>())
        .map_err(|error| wrong(certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(wrong(certificate, "there is no certificate in it".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error.to_string()))?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| wrong(key, format!("with {}: {error}", certificate.display())))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
