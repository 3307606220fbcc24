//! A server from its start to its end.

use crate::answers::Answers;
use crate::awake::Awake;
use crate::body::Bodies;
use crate::connection::{self, accept};
use crate::data::{Data, ServedData};
use crate::jobs::Jobs;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::origins::Origins;
use crate::plans::Plans;
use crate::requests::Requests;
use crate::routes::routes;
use crate::shared::Shared;
use crate::trimming;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, watch};
use vicus_service::Service;

/// A server that listens, and does not answer yet.
pub struct Server {
    listener: std::net::TcpListener,
    tls: Option<tokio_rustls::TlsAcceptor>,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
}

/// Tells a server to end, from any thread. A clone is for the same server.
#[derive(Clone, Debug)]
pub struct Stop(watch::Sender<bool>);

impl Stop {
    /// Ends the server: it takes no more requests, lets running ones go on for a while, and then stops them.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

/// Why a server can't be started.
#[derive(Debug)]
pub enum ServerError {
    /// The server can't listen there.
    Address {
        /// The address as it was given.
        address: String,
        /// Why not.
        error: io::Error,
    },
    /// The certificate or its key can't be used.
    Certificate {
        /// The file in question.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// The system gives no threads.
    Threads(io::Error),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::Address { address, error } if error.kind() == io::ErrorKind::AddrInUse => write!(
                f,
                "{address} is in use: end the program that listens there, or choose another port; 0 takes any free one"
            ),
            ServerError::Address { address, error } if error.kind() == io::ErrorKind::InvalidInput => write!(
                f,
                "`{address}` is no address and port: expected some such as 127.0.0.1:7878 or [::]:7878; port 0 takes \
                 any free one"
            ),
            ServerError::Address { address, error } => write!(f, "{address}: can't be listened at: {error}"),
            ServerError::Certificate { path, why } => write!(f, "{}: {why}", path.display()),
            ServerError::Threads(error) => write!(f, "no threads for the network: {error}"),
        }
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ServerError::Address { error, .. } | ServerError::Threads(error) => Some(error),
            ServerError::Certificate { .. } => None,
        }
    }
}

/// Threads of the network: few, since they only move bytes. One for each group of PUs of this size.
const PUS_FOR_A_THREAD: usize = 8;

/// The most threads for updates that wait for their turn and for the disk.
const WAITING_THREADS: usize = 256;

/// Threads among them that updates leave to what else waits for the disk, questions of copies among it.
const SPARE_THREADS: usize = 32;

impl Server {
    /// Listens at an address (`127.0.0.1:7878`; port 0 for any free one).
    ///
    /// # Errors
    /// The address is in use or not this machine's, or the certificate can't be used.
    pub fn bind(address: &str, service: Service, data: Data, options: Options) -> Result<Server, ServerError> {
        let tls = options.tls.as_ref().map(|(certificate, key)| connection::tls(certificate, key)).transpose()?;
        let listener = connection::listen(address)?;
        let at = listener.local_addr().map_err(|error| ServerError::Address { address: address.to_owned(), error })?;
        let origins = Origins::new(address, at.ip(), &options);
        let started = RandomState::new().hash_one("a start");
        let sleeps = service.clone();
        let awake = Arc::new(Awake::new(options.stay_awake, move || sleeps.runtime().is_asleep()));
        let threads = service.runtime().plan().threads().max(2);
        let jobs = Jobs::new(threads, options.clients.waiting, Arc::clone(&awake));
        let shared = Arc::new(Shared {
            data: ServedData::new(data, started),
            bodies: Bodies::new(
                (service.memory().total() / 2).max(options.clients.body_bytes),
                options.clients.body_bytes,
                Arc::clone(service.memory()),
            ),
            jobs: jobs.map_err(ServerError::Threads)?,
            awake,
            plans: Plans::new(options.plan_cache_bytes),
            answers: Answers::new(options.answer_cache_bytes),
            requests: Requests::new(started, options.clients.requests),
            metrics: Metrics::default(),
            updates: Arc::new(Semaphore::new(WAITING_THREADS - SPARE_THREADS)),
            freed: Notify::new(),
            is_draining: AtomicBool::new(false),
            is_loopback: at.ip().is_loopback(),
            service,
            origins,
            options,
        });
        Ok(Server { listener, tls, shared, stop: watch::Sender::new(false) })
    }

    /// The address it listens at.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// A handle that tells it to end.
    pub fn stopper(&self) -> Stop {
        Stop(self.stop.clone())
    }

    /// Answers until it is told to end, and then drains: no request begins any more, running ones may go on for
    /// [`Options::grace`], and the rest are stopped. When it returns, nothing runs.
    ///
    /// # Errors
    /// The system gives no threads.
    pub fn run(self) -> io::Result<()> {
        let pus = self.shared.service.runtime().topology().usable_pus().count();
        let network = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(pus.div_ceil(PUS_FOR_A_THREAD).clamp(1, 8))
            .max_blocking_threads(WAITING_THREADS)
            .thread_name("vicus network")
            // Looks for finished jobs each time, even on a thread that always has a task: the one that stays awake.
            .global_queue_interval(1)
            .enable_all()
            .build()?;
        let Server { listener, tls, shared, stop } = self;
        let grace = shared.options.grace;
        // This thread has read the data, and only waits from now on.
        vicus::kit::give_back_own_blocks();
        let done = network.block_on(async {
            let listener = Arc::new(tokio::net::TcpListener::from_std(listener)?);
            let awake = Arc::clone(&shared.awake);
            tokio::spawn(async move { awake.keep().await });
            tokio::spawn(trimming::trim(Arc::clone(&shared)));
            // On a thread of the network, not on this one.
            let accepting = |stop| {
                let (listener, tls, shared) = (Arc::clone(&listener), tls.clone(), Arc::clone(&shared));
                let routes = routes(Arc::clone(&shared));
                tokio::spawn(accept(listener, tls, shared, routes, stop))
            };
            let graceful = accepting(stop.subscribe()).await.map_err(io::Error::other)?;
            shared.is_draining.store(true, Ordering::Relaxed);
            // New clients are told that the server is about to end. Their connections are not waited for.
            let never = watch::Sender::new(false);
            let refusing = accepting(never.subscribe());
            let closed = graceful.shutdown();
            tokio::pin!(closed);
            if tokio::time::timeout(grace, &mut closed).await.is_err() {
                shared.requests.cancel_all();
                // Cancelled requests still tell their clients; clients that read nothing are left.
                let _ = tokio::time::timeout(AFTER_CANCEL, &mut closed).await;
            }
            refusing.abort();
            Ok(())
        });
        network.shutdown_timeout(AFTER_CANCEL);
        shared.data.close();
        done
    }
}

/// How long stopped requests have to end.
const AFTER_CANCEL: Duration = Duration::from_secs(2);

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("listener", &self.listener).finish_non_exhaustive()
    }
}
