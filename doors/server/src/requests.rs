//! The running requests, and the last ended ones, to be looked at and stopped.

use crate::access::{bearer, is_same};
use crate::timeline::Recording;
use axum::http::{HeaderMap, Method, header};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use vicus_service::{Cancel, Prepared, StreamWatch, Watching};

/// The most plans kept of ended requests; only requests named by their clients keep one.
const KEPT: usize = 64;

/// The most characters of a client's name for a request.
const LONGEST_ID: usize = 64;

pub(crate) struct Requests {
    state: Mutex<State>,
    next: AtomicU64,
    started: u64,
    /// Told when a request has begun.
    begun: Notify,
    /// The most running requests of one address.
    most_of_one: usize,
}

#[derive(Default)]
struct State {
    running: HashMap<Arc<str>, Arc<Entry>>,
    by_client: BTreeMap<IpAddr, usize>,
    ended: VecDeque<Arc<Entry>>,
}

/// A client gives its request a secret by this header; otherwise the answer's header has one.
pub(crate) const SECRET: &str = "vicus-request-secret";

/// The secret that a request names. A short one could be guessed.
fn secret_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(SECRET)?.to_str().ok().filter(|secret| (16..=LONGEST_ID).contains(&secret.len()))
}

/// 128 bits that nobody can guess: two hashes with keys of the system's chance.
fn new_secret() -> String {
    let word = || RandomState::new().hash_one(Instant::now());
    format!("{:016x}{:016x}", word(), word())
}

/// A request.
pub(crate) struct Entry {
    pub(crate) id: Arc<str>,
    /// Its client has named it, and may look at it afterwards.
    pub(crate) is_named: bool,
    pub(crate) text: Arc<str>,
    pub(crate) language: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) client: IpAddr,
    pub(crate) method: Method,
    pub(crate) path: Box<str>,
    /// The name that its client gives itself.
    pub(crate) agent: Option<String>,
    /// The token of its client, if any.
    token: Option<String>,
    /// Known to its client alone, who ends it by this if there is no token.
    secret: String,
    pub(crate) began: Instant,
    pub(crate) cancel: Cancel,
    progress: Mutex<Progress>,
    pub(crate) bytes: AtomicU64,
    /// Its answer, if it is sent while it is written.
    stream: OnceLock<StreamWatch>,
    /// The last record of the store in the data that it looks at.
    pub(crate) sequence: OnceLock<u64>,
}

#[derive(Default)]
struct Progress {
    run: Option<(Arc<Prepared>, Watching)>,
    end: Option<Ended>,
    /// The final plan of a named request.
    plan: Option<Arc<Value>>,
    trace: Option<Arc<Recording>>,
}

/// How a request ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) state: &'static str,
    pub(crate) message: Option<String>,
    pub(crate) rows: u64,
    pub(crate) time: Duration,
}

/// Why a request may not begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NotBegun {
    /// Its name is none.
    NoName(String),
    /// Another running request has its name.
    Name(String),
    /// Its client has as many requests as it may.
    TooMany(usize),
}

/// The sender of a request, and the path that it asked for.
pub(crate) struct Sender<'a> {
    pub(crate) client: IpAddr,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
}

/// The name that a client gives itself.
pub(crate) fn agent(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::USER_AGENT)?.to_str().ok()
}

/// The kind of a request, and the language of its text, by the names that the list of requests shows.
#[derive(Clone, Copy)]
pub(crate) struct RequestKind {
    pub(crate) kind: &'static str,
    pub(crate) language: &'static str,
}

/// A running request. Dropping it without [`RunningRequest::end`] means that its client has gone: it is cancelled.
pub(crate) struct RunningRequest {
    requests: Arc<Requests>,
    pub(crate) entry: Arc<Entry>,
}

impl Requests {
    pub(crate) fn new(started: u64, most_of_one: usize) -> Arc<Requests> {
        let next = AtomicU64::new(1);
        Arc::new(Requests { state: Mutex::default(), next, started, begun: Notify::new(), most_of_one })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name used by no other request.
    pub(crate) fn new_id(&self) -> String {
        format!("{:x}-{}", self.started & 0xffff_ffff, self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Begins a request, under its client's name for it or a new one.
    pub(crate) fn begin(
        self: &Arc<Self>,
        name: Option<&str>,
        what: RequestKind,
        text: &Arc<str>,
        Sender { client, headers, method, path }: Sender<'_>,
    ) -> Result<RunningRequest, NotBegun> {
        let RequestKind { kind, language } = what;
        let fits = |name: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            (1..=LONGEST_ID).contains(&name.len()) && name.chars().all(plain)
        };
        if let Some(name) = name.filter(|name| !fits(name)) {
            let shown: String = name.chars().take(80).collect();
            return Err(NotBegun::NoName(format!(
                "`{shown}` is no name of a request: 1 to {LONGEST_ID} letters, digits, - and _"
            )));
        }
        let id = match name {
            Some(name) => Arc::from(name),
            None => Arc::from(self.new_id()),
        };
        let entry = Arc::new(Entry {
            id,
            is_named: name.is_some(),
            text: Arc::clone(text),
            language,
            kind,
            client,
            method: method.clone(),
            path: path.into(),
            agent: agent(headers).map(str::to_owned),
            token: bearer(headers).map(str::to_owned),
            secret: secret_of(headers).map_or_else(new_secret, str::to_owned),
            began: Instant::now(),
            cancel: Cancel::new(),
            progress: Mutex::default(),
            bytes: AtomicU64::new(0),
            stream: OnceLock::new(),
            sequence: OnceLock::new(),
        });
        let mut state = self.lock();
        if state.running.contains_key(&entry.id) {
            return Err(NotBegun::Name(format!("a request `{}` runs already", entry.id)));
        }
        let of_client = state.by_client.entry(client).or_default();
        if *of_client >= self.most_of_one {
            return Err(NotBegun::TooMany(self.most_of_one));
        }
        *of_client += 1;
        state.running.insert(Arc::clone(&entry.id), Arc::clone(&entry));
        drop(state);
        if entry.is_named {
            self.begun.notify_waiters();
        }
        Ok(RunningRequest { requests: Arc::clone(self), entry })
    }

    pub(crate) fn running(&self) -> usize {
        self.lock().running.len()
    }

    /// The running requests, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Entry>> {
        let mut all: Vec<_> = self.lock().running.values().cloned().collect();
        all.sort_by_key(|entry| entry.began);
        all
    }

    /// Whether no running request whose client takes nothing for `time` holds more memory than this one. Of two that
    /// hold the same, it is the older one.
    pub(crate) fn holds_most_for(&self, entry: &Arc<Entry>, time: Duration) -> bool {
        let idle = self.all().into_iter().filter(|entry| entry.untaken() >= time);
        let most =
            idle.map(|entry| (entry.held(), entry)).reduce(|most, next| if next.0 > most.0 { next } else { most });
        most.is_some_and(|(_, most)| Arc::ptr_eq(&most, entry))
    }

    /// A running or ended request.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<Entry>> {
        let state = self.lock();
        let running = state.running.get(id).cloned();
        running.or_else(|| state.ended.iter().rev().find(|entry| &*entry.id == id).cloned())
    }

    /// The variant that waits up to `time` for the request to begin.
    pub(crate) async fn wait_for(&self, id: &str, time: Duration) -> Option<Arc<Entry>> {
        let found = async {
            loop {
                let begun = self.begun.notified();
                if let Some(entry) = self.get(id) {
                    return entry;
                }
                begun.await;
            }
        };
        tokio::time::timeout(time, found).await.ok()
    }

    /// Stops all.
    pub(crate) fn cancel_all(&self) {
        self.all().iter().for_each(|entry| entry.cancel.cancel());
    }
}

impl RunningRequest {
    /// Ends the request.
    pub(crate) fn end(self, state: &'static str, message: Option<String>, rows: u64) {
        self.entry.set_end(state, message, rows);
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.entry.cancel.cancel();
        self.entry.set_end("cancelled", Some("its client has gone".to_owned()), 0);
        let mut state = self.requests.lock();
        state.running.remove(&self.entry.id);
        let client = self.entry.client;
        if let Some(count) = state.by_client.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                state.by_client.remove(&client);
            }
        }
        if self.entry.is_named {
            if state.ended.len() == KEPT {
                state.ended.pop_front();
            }
            state.ended.push_back(Arc::clone(&self.entry));
        }
    }
}

impl Entry {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the request, since its client takes nothing of its answer.
    pub(crate) fn give_up(&self, after: Duration) {
        self.set_end("cancelled", Some(format!("its client took nothing of the answer for {after:?}")), self.rows());
        self.cancel.cancel();
    }

    /// Its answer is sent by this stream.
    pub(crate) fn set_stream(&self, stream: StreamWatch) {
        // A request has one answer.
        let _ = self.stream.set(stream);
    }

    /// How long its client has taken nothing of its waiting answer.
    fn untaken(&self) -> Duration {
        self.stream.get().map_or(Duration::ZERO, StreamWatch::untaken)
    }

    /// The bytes that its boxes, its text and its plan hold.
    fn held(&self) -> u64 {
        self.holders().map_or(0, |(boxes, plan)| plan + boxes.iter().map(|(_, bytes)| bytes).sum::<u64>())
    }

    /// The request runs from now on.
    pub(crate) fn set_run(&self, plan: &Arc<Prepared>, watching: Watching) {
        self.lock().run = Some((Arc::clone(plan), watching));
    }

    pub(crate) fn set_trace(&self, trace: Recording) {
        self.lock().trace = Some(Arc::new(trace));
    }

    pub(crate) fn trace(&self) -> Option<Arc<Recording>> {
        self.lock().trace.clone()
    }

    fn set_end(&self, state: &'static str, message: Option<String>, rows: u64) {
        let mut progress = self.lock();
        if progress.end.is_some() {
            return;
        }
        progress.end = Some(Ended { state, message, rows, time: self.began.elapsed() });
        // The plan holds its version of the data, so only the plan's JSON is kept.
        let run = progress.run.take();
        if self.is_named
            && let Some((plan, watching)) = &run
        {
            progress.plan = Some(Arc::new(crate::query::plan_json(self, plan, Some(watching), progress.end.as_ref())));
        }
        drop(progress);
        drop(run);
    }

    pub(crate) fn ended(&self) -> Option<Ended> {
        self.lock().end.clone()
    }

    /// How far it is: `waiting`, `running`, or how it ended.
    pub(crate) fn state(&self) -> &'static str {
        let progress = self.lock();
        match (&progress.end, &progress.run) {
            (Some(end), _) => end.state,
            (None, Some(_)) => "running",
            (None, None) => "waiting",
        }
    }

    pub(crate) fn rows(&self) -> u64 {
        let progress = self.lock();
        match (&progress.end, &progress.run) {
            (Some(end), _) => end.rows,
            (None, Some((_, watching))) => watching.rows(),
            (None, None) => 0,
        }
    }

    /// The memory of its boxes while it runs, and the bytes of its text and plan.
    pub(crate) fn holders(&self) -> Option<(Vec<(String, u64)>, u64)> {
        let progress = self.lock();
        let (plan, watching) = progress.run.as_ref().filter(|_| progress.end.is_none())?;
        Some((watching.holders(), plan.bytes()))
    }

    /// The bytes that a running request has read so far, near and far.
    pub(crate) fn read_bytes(&self) -> (u64, u64) {
        let progress = self.lock();
        let running = progress.run.as_ref().filter(|_| progress.end.is_none());
        running.map_or((0, 0), |(_, watching)| {
            let totals = watching.totals();
            (totals.near_bytes, totals.far_bytes)
        })
    }

    /// Its plan as it is now.
    pub(crate) fn plan(&self) -> Option<Arc<Value>> {
        let progress = self.lock();
        if let Some(plan) = &progress.plan {
            return Some(Arc::clone(plan));
        }
        let (plan, watching) = progress.run.clone()?;
        drop(progress);
        Some(Arc::new(crate::query::plan_json(self, &plan, Some(&watching), None)))
    }

    /// Whether a request comes from this one's client: it has the same token, or this one's secret. The same address is
    /// not enough, since a proxy has many clients.
    pub(crate) fn is_of(&self, headers: &HeaderMap) -> bool {
        let has_token = self.token.as_deref().zip(bearer(headers)).is_some_and(|(own, token)| is_same(own, token));
        has_token || secret_of(headers).is_some_and(|secret| is_same(&self.secret, secret))
    }

    /// The secret for the answer's header: a client with a token needs none.
    pub(crate) fn secret_to_tell(&self) -> Option<String> {
        self.token.is_none().then(|| self.secret.clone())
    }

    /// Its entry in a list, for a reader at the address `looks`; without its text if it must not be shown.
    pub(crate) fn json(&self, looks: IpAddr, shows_text: bool) -> Value {
        /// The list has the beginning of a long text.
        const SHOWN: usize = 2000;
        let text: String = self.text.chars().take(if shows_text { SHOWN } else { 0 }).collect();
        json!({
            "id": &*self.id, "text": text, "language": self.language, "kind": self.kind, "state": self.state(),
            "elapsedMs": self.began.elapsed().as_secs_f64() * 1e3, "rows": self.rows(), "mine": self.client == looks,
        })
    }
}
