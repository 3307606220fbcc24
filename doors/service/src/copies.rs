//! A store that follows a server's store over HTTP, and what others ask of such servers.
//!
//! A follower has one question on its way all the time: for the records behind its last one. The server answers when
//! there are some, or after some seconds. The next question says that they are durable here.

use crate::store::{create_copy, has_room_for_store, number, open_store};
use crate::tls::{TlsRoots, untrusted};
use std::fmt;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE, RANGE};
use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body};
use vicus_store::{
    CopyAnswer, CopyStanding, DiskError, Epoch, Followed, NotUnderstood, Offer, Refused, Store, StoreError,
};

/// How long a server waits for new records before it answers that there are none.
const WAIT: Duration = Duration::from_secs(5);

/// A server answers within this time beside that.
const PATIENCE: Duration = Duration::from_secs(10);

/// The bytes of a base that are asked for at once, and the time for them. Records have this time as well; after it was
/// too short, they have twice as long, up to the longest: they may be more, and don't come in parts.
const PART: u64 = 16 << 20;
const PART_TIME: Duration = Duration::from_secs(120);
const LONGEST_TIME: Duration = Duration::from_secs(3600);

/// After a failure, the next try is after this time, then after twice as long, up to the longest.
const RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// A follower that hears nothing new from another follower looks at the other servers, for this long at each.
const LOOK: Duration = Duration::from_secs(1);

/// A longer answer than this is none of these servers'.
const LONGEST: u64 = 1 << 31;

/// The header of all answers about copies.
pub const COPIES_HEADER: &str = "vicus-copies";

/// Why a server can't be followed or asked.
#[derive(Clone, Debug)]
pub enum CopyError {
    /// No connection, or it broke off.
    Unreachable {
        /// The server.
        url: String,
        /// The fault.
        why: String,
    },
    /// The server shows a certificate that is not trusted.
    Certificate {
        /// The server.
        url: String,
        /// The fault, and what to do.
        why: String,
    },
    /// The server does not take the token, or there is none.
    Token {
        /// The server.
        url: String,
        /// Its words.
        message: String,
    },
    /// Another program answers there, or another version.
    NotUnderstood {
        /// The server.
        url: String,
        /// The fault.
        why: NotUnderstood,
    },
    /// The server has refused or failed.
    Refused {
        /// The server.
        url: String,
        /// Its words.
        message: String,
    },
    /// A base was not as it was offered when all of it had come.
    Damaged {
        /// The server.
        url: String,
        /// The fault.
        why: StoreError,
    },
    /// A base was replaced while it was fetched.
    Vanished {
        /// The server.
        url: String,
    },
    /// No epoch is newer.
    LastEpoch,
    /// The server has another store.
    OtherStore {
        /// The server.
        url: String,
    },
    /// The store here can't be opened or written.
    Store(StoreError),
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CopyError::Unreachable { url, why } => write!(f, "{url} can't be reached: {why}"),
            CopyError::Certificate { url, why } => write!(f, "{url} can't be trusted: {why}"),
            CopyError::Token { url, message } => write!(f, "{url} does not take the token (--token): {message}"),
            CopyError::NotUnderstood { url, why } => write!(f, "{url} can't be followed: {why}"),
            CopyError::Refused { url, message } => write!(f, "{url} can't be followed: {message}"),
            CopyError::Damaged { url, why } => write!(f, "the base of {url} is fetched again: {why}"),
            CopyError::Vanished { url } => {
                write!(f, "{url} has replaced the base while it was fetched: the next one is fetched")
            }
            CopyError::OtherStore { url } => write!(f, "{url} can't be followed: {}", Refused::OtherStore),
            CopyError::LastEpoch => f.write_str("the copies know the greatest epoch: restore a backup as a new store"),
            CopyError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CopyError {}

impl From<StoreError> for CopyError {
    fn from(error: StoreError) -> CopyError {
        CopyError::Store(error)
    }
}

impl CopyError {
    /// Whether it stays so until a person changes something.
    pub fn is_lasting(&self) -> bool {
        matches!(
            self,
            CopyError::Certificate { .. }
                | CopyError::Token { .. }
                | CopyError::NotUnderstood { .. }
                | CopyError::OtherStore { .. }
        )
    }
}

/// A server with a store that has copies, or may have.
#[derive(Clone)]
pub struct StoreServer {
    agent: Agent,
    url: String,
    token: Option<String>,
    roots: Option<TlsRoots>,
}

impl fmt::Debug for StoreServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreServer").field(&self.url).finish()
    }
}

impl StoreServer {
    /// The server at a URL: `http://host:7878`. The token permits updates there. One of https has a certificate of
    /// these roots, or of a public authority if there are none.
    pub fn new(url: &str, token: Option<&str>, roots: Option<&TlsRoots>) -> StoreServer {
        let config = Agent::config_builder()
            .tls_config(roots.map(TlsRoots::http).unwrap_or_default())
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(Duration::from_secs(3)))
            .proxy(None)
            .user_agent(concat!("vicus/", env!("CARGO_PKG_VERSION")))
            .build();
        let url = url.trim_end_matches('/').to_owned();
        StoreServer { agent: config.new_agent(), url, token: token.map(str::to_owned), roots: roots.cloned() }
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn unreachable(&self, error: impl fmt::Display) -> CopyError {
        CopyError::Unreachable { url: self.url.clone(), why: error.to_string() }
    }

    fn not_understood(&self, why: NotUnderstood) -> CopyError {
        CopyError::NotUnderstood { url: self.url.clone(), why }
    }

    /// The answer of a server of Vicus, if it is no error.
    fn checked(&self, response: Result<Response<Body>, ureq::Error>) -> Result<Response<Body>, CopyError> {
        let mut response = response.map_err(|error| match untrusted(&error, self.roots.as_ref()) {
            Some(why) => CopyError::Certificate { url: self.url.clone(), why },
            None => self.unreachable(error),
        })?;
        let status = response.status();
        if !response.headers().contains_key(COPIES_HEADER) {
            // A proxy answers for a server that is starting or has too much to do.
            if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
                return Err(self.unreachable(format_args!("the answer has status {status}")));
            }
            return Err(self.not_understood(NotUnderstood::Foreign));
        }
        if status.is_success() {
            return Ok(response);
        }
        if status == StatusCode::GONE {
            return Err(CopyError::Vanished { url: self.url.clone() });
        }
        let text = response.body_mut().with_config().limit(4096).read_to_string().unwrap_or_default();
        let message = text.lines().next().unwrap_or_default().to_owned();
        let url = self.url.clone();
        Err(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => CopyError::Token { url, message },
            _ => CopyError::Refused { url, message },
        })
    }

    fn bytes(&self, response: Response<Body>) -> Result<Vec<u8>, CopyError> {
        let read = response.into_body().into_with_config().limit(LONGEST).read_to_vec();
        read.map_err(|error| self.unreachable(error))
    }

    fn get(&self, path: &str, range: Option<String>, time: Duration) -> Result<Response<Body>, CopyError> {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(range) = range {
            request = request.header(RANGE, range);
        }
        self.checked(request.config().timeout_global(Some(time)).build().call())
    }

    /// The answer begins within a time, and has another one to come.
    fn post(&self, path: &str, text: &str, begins: Duration, comes: Duration) -> Result<Vec<u8>, CopyError> {
        let mut request = self.agent.post(format!("{}{path}", self.url)).header(CONTENT_TYPE, "text/plain");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let config = request.config().timeout_send_request(Some(PATIENCE)).timeout_send_body(Some(PATIENCE));
        let config = config.timeout_resolve(Some(PATIENCE)).timeout_recv_response(Some(begins));
        let config = config.timeout_recv_body(Some(comes));
        let response = self.checked(config.build().send(text))?;
        self.bytes(response)
    }

    /// How far it is.
    ///
    /// # Errors
    /// It can't be asked.
    pub fn standing(&self) -> Result<CopyStanding, CopyError> {
        self.standing_within(PATIENCE)
    }

    fn standing_within(&self, time: Duration) -> Result<CopyStanding, CopyError> {
        let bytes = self.get("/copies/standing", None, time).and_then(|response| self.bytes(response))?;
        CopyStanding::decode(&bytes).map_err(|why| self.not_understood(why))
    }

    /// The base that it offers.
    ///
    /// # Errors
    /// It can't be asked.
    pub fn offer(&self) -> Result<Offer, CopyError> {
        let bytes = self.get("/copies/base", None, PATIENCE).and_then(|response| self.bytes(response))?;
        Offer::decode(&bytes).map_err(|why| self.not_understood(why))
    }

    /// Asks for the records behind the last one. It waits some seconds for them, and they have this time to come.
    fn ask(&self, standing: &CopyStanding, merged: u64, time: Duration) -> Result<CopyAnswer, CopyError> {
        // It answers at once when it has merged elsewhere.
        let path = format!("/copies/records?wait={}&merged={merged}", WAIT.as_secs());
        let bytes = self.post(&path, &standing.encode(), WAIT + PATIENCE, time)?;
        CopyAnswer::decode(&bytes).map_err(|why| self.not_understood(why))
    }

    /// Has it refuse older epochs than this one.
    ///
    /// # Errors
    /// It can't be asked, or knows this epoch or a newer one.
    pub fn promise(&self, epoch: Epoch) -> Result<CopyStanding, CopyError> {
        let bytes = self.post("/copies/promise", &words(epoch), PATIENCE, PATIENCE)?;
        CopyStanding::decode(&bytes).map_err(|why| self.not_understood(why))
    }

    /// Makes it the writer, with an epoch that it has promised.
    ///
    /// # Errors
    /// It can't be asked, or has promised another one.
    pub fn promote(&self, epoch: Epoch) -> Result<CopyStanding, CopyError> {
        let bytes = self.post("/copies/promote", &words(epoch), PATIENCE, PATIENCE)?;
        CopyStanding::decode(&bytes).map_err(|why| self.not_understood(why))
    }

    /// Whether it has a copy of this store.
    fn check_store(&self, store: &Store) -> Result<(), CopyError> {
        let is_same = self.standing()?.store == store.standing().store;
        if is_same { Ok(()) } else { Err(CopyError::OtherStore { url: self.url.clone() }) }
    }

    /// Fetches a base into a store.
    fn fetch(&self, store: &Store, told: &mut dyn FnMut(u64, u64)) -> Result<Option<Vec<String>>, CopyError> {
        let offer = self.offer()?;
        let total = offer.bytes().ok_or_else(|| self.not_understood(NotUnderstood::Damaged))?;
        let (mut before, mut fetched) = (0, Vec::new());
        for entry in &offer.files {
            let mut file = store.fetch(entry.fingerprint)?;
            while file.left() > 0 {
                let (begin, end) = (file.at(), file.at() + file.left().min(PART));
                let range = format!("bytes={begin}-{}", end - 1);
                let response = self.get(&format!("/copies/base/{}", entry.name), Some(range), PART_TIME)?;
                let mut reader = response.into_body().into_reader();
                let mut piece = vec![0; 256 << 10];
                while file.at() < end {
                    let most = piece.len().min((end - file.at()) as usize);
                    let count = reader.read(&mut piece[..most]).map_err(|error| self.unreachable(error))?;
                    if count == 0 {
                        return Err(self.unreachable("a part of the base was cut off"));
                    }
                    file.write(&piece[..count]).map_err(StoreError::from)?;
                    told(before + file.at(), total);
                }
            }
            before += entry.fingerprint.bytes;
            fetched.push(store.fetched(file).map_err(|error| match error {
                StoreError::Disk(DiskError::File(_)) => CopyError::Store(error),
                why => CopyError::Damaged { url: self.url.clone(), why },
            })?);
        }
        Ok(store.adopt(&offer, fetched)?)
    }
}

/// An epoch as the body of a request.
fn words(Epoch { number, by }: Epoch) -> String {
    format!("{number} {by:016x}\n")
}

/// Reads the epoch of a request's body.
pub fn epoch_of_words(text: &str) -> Option<Epoch> {
    let (number, by) = text.trim_end().split_once(' ')?;
    Epoch::of(number.parse().ok()?, u64::from_str_radix(by, 16).ok()?)
}

/// An epoch newer than this one, begun by no other one, except by an extreme coincidence.
///
/// # Errors
/// This one has the greatest number.
pub fn next_epoch(known: Epoch) -> Result<Epoch, CopyError> {
    known.number.checked_add(1).and_then(|next| Epoch::of(next, number())).ok_or(CopyError::LastEpoch)
}

/// How a store follows.
#[derive(Clone)]
pub struct FollowOptions {
    /// The servers, in the order in which they are tried.
    pub servers: Vec<StoreServer>,
    /// Takes messages for the person that watches over the server.
    pub tell: Arc<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for FollowOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FollowOptions").field(&self.servers).finish()
    }
}

impl FollowOptions {
    /// Opens the store of a folder as a follower. A missing or empty folder becomes a copy of the store of the first
    /// server that answers; this waits until one does, and until its base has come. `told` gets the bytes of the base
    /// that have come, and of all of it.
    ///
    /// # Errors
    /// The store can't be opened or made, or a server can't be followed as long as it stays as it is.
    pub fn open(&self, path: &Path, told: &mut dyn FnMut(u64, u64)) -> Result<Store, CopyError> {
        let store = if has_room_for_store(path) {
            let offer = self.first(|server| server.offer())?;
            create_copy(path, offer.from.store)?
        } else {
            let store = open_store(path)?;
            if !store.standing().follows {
                // Before it is no writer any more.
                self.first(|server| server.check_store(&store))?;
            }
            store
        };
        store.follow(number())?;
        if store.standing().last == 0 && store.snapshot().is_empty() {
            self.first(|server| {
                server.check_store(&store)?;
                if server.offer()?.files.is_empty() { Ok(()) } else { server.fetch(&store, told).map(drop) }
            })?;
        }
        Ok(store)
    }

    /// The answer of the first server that gives one; waits for it.
    fn first<T>(&self, mut ask: impl FnMut(&StoreServer) -> Result<T, CopyError>) -> Result<T, CopyError> {
        let (mut last, mut told, mut retry) = (String::new(), Vec::new(), RETRY);
        loop {
            let mut lasting = Vec::new();
            for server in &self.servers {
                match ask(server) {
                    Ok(answer) => return Ok(answer),
                    Err(CopyError::Store(error)) => return Err(CopyError::Store(error)),
                    Err(error) if error.is_lasting() => lasting.push(error),
                    Err(error) => {
                        let message = error.to_string();
                        if message != last {
                            (self.tell)(&message);
                            last = message;
                        }
                    }
                }
            }
            // While another one is waited for.
            if lasting.len() < self.servers.len() {
                for message in lasting.iter().map(CopyError::to_string) {
                    if !told.contains(&message) {
                        (self.tell)(&message);
                        told.push(message);
                    }
                }
            }
            if lasting.len() == self.servers.len() {
                return Err(lasting.remove(0));
            }
            std::thread::sleep(retry);
            retry = (2 * retry).min(LONGEST_RETRY);
        }
    }

    /// Follows from now on, on a thread of its own.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn begin(self, store: &Arc<Store>) -> io::Result<Following> {
        let up_to_date = Instant::now();
        let state = State { is_closing: false, url: self.servers[0].url.clone(), there: 0, up_to_date, problem: None };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let thread = {
            let (store, shared) = (Arc::clone(store), Arc::clone(&shared));
            std::thread::Builder::new().name("vicus follower".to_owned()).spawn(move || {
                let worked = catch_unwind(AssertUnwindSafe(|| self.work(&store, &shared)));
                if worked.is_err() {
                    // The panic itself is on standard error.
                    shared.lock().problem = Some("following has ended by a mistake of ours: restart it".to_owned());
                }
            })?
        };
        Ok(Following { shared, store: Arc::clone(store), _thread: thread })
    }

    fn work(&self, store: &Store, shared: &Shared) {
        let (mut server, mut failures, mut retry, mut time) = (0, 0, RETRY, PART_TIME);
        loop {
            let standing = store.standing();
            // Promoted, it follows no longer.
            if !standing.follows || shared.lock().is_closing {
                return;
            }
            let copy = &self.servers[server];
            shared.lock().url.clone_from(&copy.url);
            let began = Instant::now();
            match self.round(copy, store, &standing, time, shared) {
                Ok(()) => {
                    (failures, retry, time) = (0, RETRY, PART_TIME);
                    let was_problem = shared.lock().problem.take().is_some();
                    let has_new = store.standing().last > standing.last;
                    let better = (!has_new).then(|| self.better(server, &standing)).flatten();
                    server = better.unwrap_or(server);
                    if was_problem || better.is_some() {
                        (self.tell)(&format!("follows {}", self.servers[server].url));
                    }
                }
                Err(error) => {
                    let message = error.to_string();
                    let is_new = shared.lock().problem.replace(message.clone()) != Some(message.clone());
                    if is_new {
                        (self.tell)(&message);
                    }
                    server = (server + 1) % self.servers.len();
                    failures += 1;
                    if began.elapsed() >= time {
                        time = (2 * time).min(LONGEST_TIME);
                    }
                    // Each of them is tried before any is waited for.
                    if failures % self.servers.len() == 0 {
                        if shared.sleep(retry) {
                            return;
                        }
                        retry = (2 * retry).min(LONGEST_RETRY);
                    }
                }
            }
        }
    }

    /// A server to be followed in place of a follower that has nothing new: the writer, or a copy with more records.
    /// Copies that only follow each other would never see a change.
    fn better(&self, server: usize, own: &CopyStanding) -> Option<usize> {
        let at = |server: usize| self.servers[server].standing_within(LOOK).ok();
        if self.servers.len() == 1 || at(server)?.may_write() {
            return None;
        }
        let is_better = |other: &CopyStanding| {
            let is_further = (other.epoch(), other.last) > (own.epoch(), own.last);
            other.store == own.store && (is_further || other.may_write() && other.epoch() >= own.known())
        };
        (0..self.servers.len()).find(|&other| other != server && at(other).as_ref().is_some_and(is_better))
    }

    /// A question, and what follows from its answer.
    fn round(
        &self,
        copy: &StoreServer,
        store: &Store,
        standing: &CopyStanding,
        time: Duration,
        shared: &Shared,
    ) -> Result<(), CopyError> {
        let answer = copy.ask(standing, store.merged_there(), time)?;
        let kept = match store.follow_up(&answer)? {
            Followed::UpToDate | Followed::Appended(_) | Followed::Ignored => Vec::new(),
            Followed::Cut { after, count, kept } => {
                (self.tell)(&format!(
                    "a newer writer goes on behind record {after}: the {count} records that this copy had there are \
                     not part of the store any more, and are kept in {}",
                    kept.join(" and ")
                ));
                Vec::new()
            }
            Followed::NeedsBase => copy.fetch(store, &mut |_, _| {})?.unwrap_or_default(),
            Followed::Refused(Refused::OtherStore) => return Err(CopyError::OtherStore { url: copy.url.clone() }),
            Followed::Refused(why) => {
                return Err(CopyError::Refused { url: copy.url.clone(), message: why.to_string() });
            }
        };
        if !kept.is_empty() {
            (self.tell)(&format!(
                "a newer writer has other records than this copy had: those are not part of the store any more, and \
                 are kept in {}",
                kept.join(" and ")
            ));
        }
        let last = store.standing().last;
        let mut state = shared.lock();
        state.there = answer.last;
        if last >= answer.last {
            state.up_to_date = Instant::now();
        }
        Ok(())
    }
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    is_closing: bool,
    /// The server that is asked.
    url: String,
    /// Its last record, when it has answered.
    there: u64,
    /// When all of its records were here.
    up_to_date: Instant,
    /// Why it can't be followed now.
    problem: Option<String>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps for this long, or until it closes; whether it closes.
    fn sleep(&self, long: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), long, |state| !state.is_closing);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_closing
    }
}

/// A store that follows on a thread. Dropping it ends this when the present question is answered.
pub struct Following {
    shared: Arc<Shared>,
    store: Arc<Store>,
    /// Not joined: it waits for an answer for some seconds.
    _thread: JoinHandle<()>,
}

/// How far a follower is behind.
#[derive(Clone, Debug)]
pub struct Behind {
    /// The server that it follows, or tries to.
    pub url: String,
    /// The records of that server that are not here, by its last answer.
    pub records: u64,
    /// For how long they, or answers of the server, have been missing; by the clock of this machine alone.
    pub time: Duration,
    /// Why it can't follow now.
    pub problem: Option<String>,
}

impl Following {
    /// How far it is behind; `None` if it follows no longer, since it was promoted.
    pub fn behind(&self) -> Option<Behind> {
        let standing = self.store.standing();
        if !standing.follows {
            return None;
        }
        let state = self.shared.lock();
        let records = state.there.saturating_sub(standing.last);
        let is_there = records == 0 && state.problem.is_none();
        let time = if is_there { Duration::ZERO } else { state.up_to_date.elapsed() };
        Some(Behind { url: state.url.clone(), records, time, problem: state.problem.clone() })
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.shared.lock().is_closing = true;
        self.shared.changed.notify_all();
    }
}

impl fmt::Debug for Following {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Following").field(&self.behind()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    /// Answers each request with these bytes.
    fn answers(bytes: &'static str) -> StoreServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(bytes.as_bytes());
            }
        });
        StoreServer::new(&url, None, None)
    }

    #[test]
    fn the_answer_of_a_proxy_in_place_of_the_server_is_no_other_program() {
        let busy = answers("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let many = answers("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        for (copy, status) in [(busy, "502"), (many, "429")] {
            let error = copy.standing().unwrap_err();
            assert!(!error.is_lasting() && error.to_string().contains(status), "{error}");
        }
        let page = answers("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        assert!(page.standing().unwrap_err().is_lasting());
    }

    #[test]
    fn epochs_have_a_greatest_number() {
        let last = Epoch { number: Epoch::MOST, by: 1 };
        assert!(matches!(next_epoch(last), Err(CopyError::LastEpoch)));
        assert!(matches!(next_epoch(Epoch { number: u64::MAX, by: 1 }), Err(CopyError::LastEpoch)));
        assert_eq!(epoch_of_words(&words(last)), Some(last));
        assert_eq!(epoch_of_words("4294967297 1\n"), None);
    }

    #[test]
    fn a_follower_that_has_ended_by_a_mistake_is_a_problem() {
        let folder = std::env::temp_dir().join(format!("vicus-copies-{:016x}", number()));
        let store = Arc::new(create_copy(&folder, 7).unwrap());
        store.follow(number()).unwrap();
        let servers = vec![answers("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")];
        let following =
            FollowOptions { servers, tell: Arc::new(|_| panic!("a planted mistake")) }.begin(&store).unwrap();
        let began = Instant::now();
        let problem = || following.behind().and_then(|behind| behind.problem);
        while !problem().is_some_and(|problem| problem.contains("by a mistake of ours")) {
            assert!(began.elapsed() < Duration::from_secs(60), "{:?}", problem());
            std::thread::sleep(Duration::from_millis(10));
        }
        drop((following, store));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
