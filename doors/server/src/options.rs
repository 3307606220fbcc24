//! The settings of a server's start.

use crate::access::Access;
use crate::log::AccessLog;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use vicus_service::{Archiving, Following, SessionOptions};

/// How a server answers.
#[derive(Clone)]
pub struct Options {
    /// How queries and updates are parsed, planned and run. Its time and its memory are the limits of a request; its
    /// language is that of each request's path.
    pub session: SessionOptions,
    /// The rights of clients.
    pub access: Access,
    /// The target of the access log.
    pub log: AccessLog,
    /// The certificate chain and its key, as PEM files: then it speaks TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// The value of `Access-Control-Allow-Origin`; without one, pages of other origins can't read answers. Pages of a
    /// named origin may also change data.
    pub cors: Option<String>,
    /// Pages of these origins may change data as the server's own may: `https://data.example`.
    pub allow_origins: Vec<String>,
    /// On a loopback address, the server answers only requests whose `Host` is that address or one of these names:
    /// pages with a name that a DNS trick leads here read nothing.
    pub allow_hosts: Vec<String>,
    /// How long running requests may go on after the server is told to end.
    pub grace: Duration,
    /// The limits of clients.
    pub clients: ClientLimits,
    /// Bytes of memory for kept plans.
    pub plan_cache_bytes: u64,
    /// Bytes of memory for kept answers, each at most an eighth of it; 0 keeps none.
    pub answer_cache_bytes: u64,
    /// How long a thread of the network and one of jobs stay awake after an answer, while the runtime's seats sleep;
    /// zero if they don't.
    pub stay_awake: Duration,
    /// The name of the data on the page.
    pub name: String,
    /// If its store follows another server's.
    pub following: Option<Arc<Following>>,
    /// If its store is archived.
    pub archiving: Option<Arc<Archiving>>,
}

impl Default for Options {
    /// No limit on time, no updates, no log, no TLS, ten seconds of grace.
    fn default() -> Options {
        Options {
            session: SessionOptions::default(),
            access: Access::default(),
            log: AccessLog::Off,
            tls: None,
            cors: None,
            allow_origins: Vec::new(),
            allow_hosts: Vec::new(),
            grace: Duration::from_secs(10),
            clients: ClientLimits::default(),
            plan_cache_bytes: 64 << 20,
            answer_cache_bytes: 64 << 20,
            stay_awake: Duration::from_micros(50),
            name: String::new(),
            following: None,
            archiving: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("name", &self.name).field("clients", &self.clients).finish_non_exhaustive()
    }
}

/// The limits of clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientLimits {
    /// Open connections, of all clients. Further ones wait until one closes.
    pub connections: usize,
    /// Running requests of one address. A further one is refused.
    pub requests: usize,
    /// Requests waiting for a thread or for memory, of all clients. A further one is refused.
    pub waiting: usize,
    /// Bytes of a request's body, unpacked.
    pub body_bytes: u64,
    /// How long a client may take for the head of a request.
    pub head_time: Duration,
    /// In each stretch of this length, but for the first one, a client must send 1 KiB of a request's body for each
    /// second.
    pub body_time: Duration,
    /// How long a client may take nothing of a waiting answer. Then the answer is broken off, and its query is stopped.
    /// While requests hold more than three quarters of their memory, 5 seconds are enough for the one that holds the
    /// most.
    pub take_time: Duration,
    /// Bytes of text waiting for a client, beside its connection's buffers.
    pub stream_bytes: usize,
}

impl Default for ClientLimits {
    /// 16,384 connections, 1,024 requests of one address, 1,024 waiting ones, bodies of 1 GiB, 10 s for a head and for
    /// a piece of a body, and 60 s for a piece of an answer.
    fn default() -> ClientLimits {
        ClientLimits {
            connections: 16_384,
            requests: 1024,
            waiting: 1024,
            body_bytes: 1 << 30,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(10),
            take_time: Duration::from_secs(60),
            stream_bytes: 256 << 10,
        }
    }
}
