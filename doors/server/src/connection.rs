//! Connections: accepted within a bound, with TLS or without, each served by a task of its own.

use crate::routes::Arrived;
use crate::server::ServerError;
use crate::shared::Shared;
use axum::Router;
use axum::extract::Extension;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The head of a request has no more bytes: its URL and its header fields.
const HEAD_BYTES: usize = 64 << 10;

/// Accepts connections until it is told to end.
pub(crate) async fn accept(
    listener: TcpListener,
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
        let routes = routes.clone();
        tokio::spawn(async move {
            shared.metrics.connections.fetch_add(1, Ordering::Relaxed);
            let arrived = Arrived { from, is_tls: tls.is_some() };
            match tls {
                None => serve(stream, arrived, &builder, watcher, routes).await,
                Some(tls) => {
                    let time = shared.options.clients.head_time;
                    if let Ok(Ok(stream)) = tokio::time::timeout(time, tls.accept(stream)).await {
                        serve(stream, arrived, &builder, watcher, routes).await;
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
    arrived: Arrived,
    builder: &Builder<TokioExecutor>,
    watcher: hyper_util::server::graceful::Watcher,
    routes: Router,
) {
    let service = TowerToHyperService::new(routes.layer(Extension(arrived)));
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    // What a client does wrong, or that it goes, is its own matter.
    let _ = watcher.watch(connection.into_owned()).await;
}

/// So many connections may have been made that were not accepted yet. Where the queue is full, a client's packets are dropped, and it sends
/// them again after a second; the standard library's 128 is less than many clients open at once.
const ARRIVING: i32 = 4096;

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
