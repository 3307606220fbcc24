//! A process that runs parts of networks for others.

use crate::control::{
    Answer, AttemptId, Control, FromNode, Hello, LinkHello, Run, TLS_ALONE, ToNode, greet, greeted, heard, say,
};
use crate::counts::CountedBox;
use crate::lead::LeadOptions;
use crate::link::{Link, LinkLost, LinkOptions};
use crate::locked;
use crate::port::{NoColumns, Sending, inlet, outlet};
use crate::queries::QueryLinks;
use crate::socket::{Accepted, PROTOCOL, ReadHalf, WriteHalf, accepted, connected};
use crate::staging::Staging;
use rustls::ServerConfig;
use std::collections::BTreeMap;
use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use vicus::flow::Overflows;
use vicus::{FlowError, Request, RequestOptions, Runtime};
use vicus_flow::BoxModel;
use vicus_network::{
    Border, Crossing, CrossingRows, KindError, Kinds, MachineCounts, NetworkPart, NetworkText, schema_text,
};
use vicus_service::{HostedPart, NoPart, PeerHost, TlsCertificate, TlsRoots};

/// The version of this program. Processes of one network have the same.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A client has so long for its first line.
const GREETING: Duration = Duration::from_secs(10);

/// And so long for the network: it greets all nodes first.
const BEGIN: Duration = Duration::from_secs(300);

/// A link that comes before its network waits so long for it.
const EARLY: Duration = Duration::from_secs(10);

/// The most connections at once.
const MOST_CONNECTIONS: usize = 1024;

/// The bytes of a crossing's rows that may be on their way: as far as the budget has room, and no more than this.
const WINDOW: u64 = 4 << 20;

/// The options of a node.
pub struct NodeOptions {
    /// Who connects needs this token, if there is one. Without a certificate it travels as it is: beyond one machine,
    /// through a tunnel or a private network.
    pub token: Option<String>,
    /// Connections are taken by TLS alone, with this certificate.
    pub certificate: Option<TlsCertificate>,
    /// The bytes of memory that the boxes of one network may hold here; a network may ask for less.
    pub memory: u64,
    /// Where vias keep envelopes for which there is no memory.
    pub overflows: Option<Arc<dyn Overflows>>,
    /// Nodes of the machine, for texts.
    pub nodes: usize,
}

/// A node: it listens, and runs parts of networks.
pub struct NodeServer {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    threads: Threads,
    kinds: Kinds,
    /// Adds the kinds of a network's attached texts.
    attached: Option<Box<Attached>>,
    options: NodeOptions,
    tls: Option<Arc<ServerConfig>>,
    /// The roots of the last run: most have the same, and clients of one object resume their sessions.
    roots: Mutex<Option<TlsRoots>>,
    attempts: Attempts,
    connections: AtomicUsize,
    is_ended: AtomicBool,
}

type Attached = dyn Fn(&BTreeMap<String, String>, Kinds) -> Result<Kinds, String> + Send + Sync;
/// The threads of a node.
enum Threads {
    /// For networks alone.
    Own(Runtime),
    /// Those of a service, for networks and for parts of queries over its data.
    OfQueries(PeerHost),
}

impl Threads {
    fn runtime(&self) -> &Runtime {
        match self {
            Threads::Own(runtime) => runtime,
            Threads::OfQueries(host) => host.service().runtime(),
        }
    }
}

impl NodeServer {
    /// Listens on `host:port`.
    ///
    /// # Errors
    /// The address can't be had.
    pub fn listen(
        address: impl ToSocketAddrs,
        runtime: Runtime,
        kinds: Kinds,
        options: NodeOptions,
    ) -> io::Result<NodeServer> {
        NodeServer::with_threads(address, Threads::Own(runtime), kinds, options)
    }

    /// Listens on `host:port`, for parts of queries as well.
    ///
    /// # Errors
    /// The address can't be had.
    pub fn listen_with_queries(
        address: impl ToSocketAddrs,
        queries: PeerHost,
        kinds: Kinds,
        options: NodeOptions,
    ) -> io::Result<NodeServer> {
        NodeServer::with_threads(address, Threads::OfQueries(queries), kinds, options)
    }

    fn with_threads(
        address: impl ToSocketAddrs,
        threads: Threads,
        kinds: Kinds,
        options: NodeOptions,
    ) -> io::Result<NodeServer> {
        let listener = TcpListener::bind(address)?;
        let shared = Shared {
            threads,
            kinds,
            attached: None,
            tls: options.certificate.as_ref().map(|certificate| certificate.server(&[PROTOCOL])),
            roots: Mutex::default(),
            options,
            attempts: Attempts::default(),
            connections: AtomicUsize::new(0),
            is_ended: AtomicBool::new(false),
        };
        Ok(NodeServer { listener, shared: Arc::new(shared) })
    }

    /// Has a function add kinds for each network, of the texts that [are attached](crate::Lead::attach) to it. Its
    /// error fails the network. Panics if the node serves already.
    #[must_use]
    pub fn with_attached(
        mut self,
        kinds: impl Fn(&BTreeMap<String, String>, Kinds) -> Result<Kinds, String> + Send + Sync + 'static,
    ) -> NodeServer {
        let shared = Arc::get_mut(&mut self.shared).expect("the node serves not yet");
        shared.attached = Some(Box::new(kinds));
        self
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// The system refuses.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `is_over` says so, which is asked some ten times a second. Networks that still run are cancelled.
    ///
    /// # Errors
    /// The system takes no connections any more.
    pub fn serve(&self, is_over: impl Fn() -> bool) -> io::Result<()> {
        self.listener.set_nonblocking(true)?;
        while !is_over() {
            match self.listener.accept() {
                Ok((stream, _)) => self.shared.begin(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(20)),
                // Such as a client that has gone, or no free descriptor.
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
        self.shared.is_ended.store(true, Ordering::Release);
        self.shared.attempts.cancel_all();
        Ok(())
    }

    /// Its threads, when it has served and its networks have ended, for which it waits a few seconds.
    pub fn into_runtime(self) -> Option<Runtime> {
        let mut shared = self.shared;
        for _ in 0..100 {
            match Arc::try_unwrap(shared) {
                Ok(shared) => {
                    return match shared.threads {
                        Threads::Own(runtime) => Some(runtime),
                        Threads::OfQueries(host) => host.into_service().into_runtime(),
                    };
                }
                Err(used) => shared = used,
            }
            thread::sleep(Duration::from_millis(50));
        }
        None
    }
}

impl Shared {
    fn begin(self: &Arc<Shared>, stream: TcpStream) {
        if self.connections.fetch_add(1, Ordering::AcqRel) >= MOST_CONNECTIONS {
            self.connections.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        let shared = Arc::clone(self);
        let work = move || {
            // One that breaks off has nobody to be told.
            let _ = shared.greet(stream);
            shared.connections.fetch_sub(1, Ordering::AcqRel);
        };
        if thread::Builder::new().name("vicus-node".to_owned()).spawn(work).is_err() {
            self.connections.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn greet(self: &Arc<Shared>, socket: TcpStream) -> io::Result<()> {
        socket.set_nonblocking(false)?;
        socket.set_write_timeout(Some(GREETING))?;
        let end = Instant::now() + GREETING;
        let (half, is_plain) = match &self.tls {
            None => (ReadHalf::Plain(socket), false),
            Some(server) => match accepted(socket, Arc::clone(server), end)? {
                Accepted::Tls(half) => (half, false),
                Accepted::Plain(half) => (half, true),
            },
        };
        let mut to = half.write_half()?;
        let mut from = BufReader::with_capacity(64 << 10, half);
        let hello = match greeted::<Hello>(&mut from, end) {
            Ok(hello) => hello,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                // Most who come here so are browsers and clients of HTTP.
                let text = "This is a node of Vicus (vicus network run --nodes); it answers no HTTP.\n";
                let length = text.len();
                let head = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close";
                return to.write_all(format!("{head}\r\nContent-Length: {length}\r\n\r\n{text}").as_bytes());
            }
            Err(error) => return Err(error),
        };
        let refused = |why: &str| Answer::Refused { version: VERSION.to_owned(), why: why.to_owned() };
        if is_plain {
            let token = if hello.token.is_some() { "; the token came unencrypted: change it" } else { "" };
            return greet(&mut to, &refused(&format!("{TLS_ALONE}{token}")));
        }
        if !self.knows(hello.token.as_deref()) {
            return greet(&mut to, &refused("the token is not the node's"));
        }
        if hello.version != VERSION {
            return greet(&mut to, &refused("it has another version"));
        }
        if let Some(LinkHello { attempt, from: process }) = hello.link {
            let Some(ways) = self.attempts.find(attempt, EARLY) else {
                return greet(&mut to, &refused("it runs no such network, or not any more"));
            };
            greet(&mut to, &Answer::Welcome { threads: 0, nodes: 0 })?;
            return ways.arrived(process, from);
        }
        let threads = self.threads.runtime().plan().threads();
        greet(&mut to, &Answer::Welcome { threads, nodes: self.options.nodes })?;
        from.get_mut().set_read_timeout(BEGIN)?;
        loop {
            match heard(&mut from, "the client", BEGIN) {
                Ok(ToNode::Has(files)) => {
                    let has = |file: &String| self.kinds.file(file).is_ok_and(|path| path.is_file());
                    say(&mut to, &FromNode::Has(files.iter().map(has).collect()))?;
                }
                Ok(ToNode::Run(run)) => {
                    self.run(to, from, *run);
                    return Ok(());
                }
                Ok(ToNode::Measure(_)) => say(&mut to, &FromNode::Measured)?,
                Ok(ToNode::Cancel | ToNode::Commit | ToNode::Over | ToNode::Alive) | Err(_) => return Ok(()),
            }
        }
    }

    /// Whether a token is the node's; the time does not tell how similar it is.
    fn knows(&self, token: Option<&str>) -> bool {
        match (&self.options.token, token) {
            (None, _) => true,
            (Some(own), Some(token)) if own.len() == token.len() => {
                own.bytes().zip(token.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
            }
            _ => false,
        }
    }

    /// Runs a part, until the process that began the network ends it.
    fn run(self: &Arc<Shared>, to: WriteHalf, mut from: BufReader<ReadHalf>, run: Run) {
        let silence = Duration::from_millis(run.silence_ms.clamp(10, 1 << 32));
        if run.own == 0 || run.own >= run.processes.len() {
            return;
        }
        let memory = run.memory.map_or(self.options.memory, |memory| memory.min(self.options.memory));
        let Ok(control) = Control::start(to, FromNode::Alive, silence) else { return };
        let _ = from.get_mut().set_read_timeout(silence);
        let roots = match self.roots(run.roots.as_deref()) {
            Ok(roots) => roots,
            Err(why) => {
                // Whoever began it may be gone.
                let _ = control.send(&NotDone::wrong(why).line());
                return;
            }
        };
        let ways = Arc::new(Ways::new(&run, roots, LinkOptions { silence, window: window(memory) }));
        if !self.attempts.add(run.attempt, &ways) {
            let _ = control.send(&NotDone::wrong("the attempt runs already").line());
            return;
        }
        if self.is_ended.load(Ordering::Acquire) {
            ways.cancel();
        }
        let attempt = run.attempt;
        let staging = run.is_staged.then(Staging::default);
        let works = {
            let (shared, ways, control) = (Arc::clone(self), Arc::clone(&ways), Arc::clone(&control));
            let (staging, staged) = (staging.clone(), staging.clone());
            move || {
                // A panic, such as that of a kind of boxes, must be told: else the network waits for this part.
                let part = catch_unwind(AssertUnwindSafe(|| shared.part(&run, &ways, memory, staging, &control)));
                let line = match part.unwrap_or_else(|_| Err(NotDone::wrong("making its part panicked"))) {
                    Ok(report) => FromNode::Done { has_files: staged.is_some_and(|staging| staging.has_any()), report },
                    Err(error) => error.line(),
                };
                // Whoever began it may be gone.
                let _ = control.send(&line);
            }
        };
        let worker = thread::Builder::new().name("vicus-part".to_owned()).spawn(works);
        if let Err(error) = &worker {
            let _ = control.send(&NotDone::wrong(format!("no thread: {error}")).line());
        }
        // `Over`, or a connection that has ended, is the end.
        while let Ok(line) = heard(&mut from, "the process that began the network", silence) {
            match line {
                ToNode::Alive | ToNode::Measure(_) => {}
                ToNode::Cancel => ways.cancel(),
                ToNode::Commit => {
                    let line = match staging.as_ref().map_or(Ok(()), Staging::commit) {
                        Ok(()) => FromNode::Committed,
                        Err(error) => FromNode::Failed { message: error.to_string(), is_lost: false, is_stale: false },
                    };
                    // Whoever began it may be gone, and then the files have their places all the same.
                    let _ = control.send(&line);
                }
                ToNode::Over | ToNode::Run(_) | ToNode::Has(_) => break,
            }
        }
        ways.cancel();
        if let Ok(worker) = worker {
            let _ = worker.join();
        }
        self.attempts.remove(attempt);
        ways.end();
        control.end();
    }

    /// The roots of a run.
    fn roots(&self, pem: Option<&str>) -> Result<Option<TlsRoots>, String> {
        let Some(pem) = pem else { return Ok(None) };
        let mut last = locked(&self.roots);
        if last.as_ref().is_none_or(|last| last.pem() != pem) {
            *last = Some(TlsRoots::from_pem("the file of the process that began", pem)?);
        }
        Ok(last.clone())
    }

    /// Makes a part and runs it. Gives the report of a query's part.
    fn part(
        &self,
        run: &Run,
        ways: &Arc<Ways>,
        memory: u64,
        staging: Option<Staging>,
        control: &Control,
    ) -> Result<Option<String>, NotDone> {
        if let Some(job) = &run.job {
            ways.connect_all().map_err(NotDone::lost)?;
            return self.part_of_query(job, run, ways, control).map(Some);
        }
        let mut kinds = self.kinds.clone();
        if let Some(attached) = &self.attached {
            kinds = attached(&run.attached, kinds).map_err(NotDone::wrong)?;
        }
        if let Some(staging) = staging {
            kinds = staging.kinds(&kinds);
        }
        let text = NetworkText::from_json(&run.text).map_err(|error| NotDone::wrong(error.to_string()))?;
        ways.connect_all().map_err(NotDone::lost)?;
        let processes = run.machines();
        let part = NetworkPart { processes: &processes, own: run.own, border: &**ways };
        let built = text.build_part(&run.name, &kinds, &part, &run.set).map_err(|error| {
            let is_lost = ways.is_cancelled() || ways.lost().is_some();
            NotDone { is_lost, ..NotDone::wrong(error.to_string()) }
        })?;
        let Some(network) = built else { return Ok(None) };
        let (overflows, is_timed) = (self.options.overflows.clone(), run.is_counted);
        let options = RequestOptions { overflows, is_timed, ..RequestOptions::from(memory) };
        let request = self.threads.runtime().submit_within(&network.model, Vec::new(), options);
        // The termination box has an input for each end.
        let ends = network.model.boxes().last().map_or(0, |last| last.sources().count());
        ways.wait(&request, ends).map_err(|error| NotDone::of(&error))?;
        Ok(run.is_counted.then(|| CountedBox::to_json(&CountedBox::all(&network, &request))))
    }

    /// Makes a part of a query and runs it.
    fn part_of_query(&self, job: &str, run: &Run, ways: &Arc<Ways>, control: &Control) -> Result<String, NotDone> {
        let Threads::OfQueries(host) = &self.threads else {
            return Err(NotDone::wrong("it has no data to ask: start it with --store"));
        };
        let goes_on = || !ways.is_cancelled();
        let made = host.part(job, run.own, &QueryLinks(Arc::clone(ways)), run.memory, &goes_on);
        let HostedPart { part, options, dataset } =
            made.map_err(|NoPart { message, is_stale }| NotDone { message, is_lost: false, is_stale })?;
        // Whoever began it may be gone.
        let _ = control.send(&FromNode::Ready);
        let options = RequestOptions { is_timed: true, ..options };
        let request = host.service().runtime().submit_within(&part.model, part.operators, options);
        ways.wait(&request, part.sends.len()).map_err(|error| NotDone::of(&error))?;
        dataset.read(|_| ()).map_err(|error| NotDone::wrong(error.to_string()))?;
        Ok(HostedPart::report(&part.boxes, &part.sends, &request.counts()))
    }
}

/// Why a part was not done.
struct NotDone {
    message: String,
    /// A consequence of another process's end.
    is_lost: bool,
    /// Its data are not those of a query.
    is_stale: bool,
}

impl NotDone {
    fn wrong(message: impl Into<String>) -> NotDone {
        NotDone { message: message.into(), is_lost: false, is_stale: false }
    }

    fn lost(message: String) -> NotDone {
        NotDone { is_lost: true, ..NotDone::wrong(message) }
    }

    fn of(error: &FlowError) -> NotDone {
        NotDone { is_lost: is_lost(error), ..NotDone::wrong(error.to_string()) }
    }

    fn line(self) -> FromNode {
        let NotDone { message, is_lost, is_stale } = self;
        FromNode::Failed { message, is_lost, is_stale }
    }
}

/// The window of each crossing within a budget.
pub(crate) fn window(memory: u64) -> u64 {
    (memory / 64).clamp(16 << 10, WINDOW)
}

/// Whether an error is a consequence of another process's end.
pub(crate) fn is_lost(error: &FlowError) -> bool {
    match error {
        FlowError::Cancelled => true,
        FlowError::Failed { error, .. } => error.downcast_ref::<LinkLost>().is_some(),
        _ => false,
    }
}

impl Run {
    pub(crate) fn machines(&self) -> Vec<MachineCounts> {
        let counts = self.processes.iter().map(|one| MachineCounts { threads: one.threads, nodes: one.nodes });
        counts.collect()
    }
}

/// The attempts that run in a process.
#[derive(Default)]
struct Attempts {
    all: Mutex<BTreeMap<AttemptId, Arc<Ways>>>,
    /// One was added.
    added: Condvar,
}

impl Attempts {
    /// Whether it was none of them before.
    fn add(&self, attempt: AttemptId, ways: &Arc<Ways>) -> bool {
        let mut all = locked(&self.all);
        let is_new = !all.contains_key(&attempt);
        if is_new {
            all.insert(attempt, Arc::clone(ways));
            self.added.notify_all();
        }
        is_new
    }

    fn remove(&self, attempt: AttemptId) {
        locked(&self.all).remove(&attempt);
    }

    fn find(&self, attempt: AttemptId, wait: Duration) -> Option<Arc<Ways>> {
        let is_missing = |all: &mut BTreeMap<_, _>| !all.contains_key(&attempt);
        let found = self.added.wait_timeout_while(locked(&self.all), wait, is_missing);
        found.unwrap_or_else(PoisonError::into_inner).0.get(&attempt).cloned()
    }

    fn cancel_all(&self) {
        locked(&self.all).values().for_each(|ways| ways.cancel());
    }
}

/// The ways from a process to the others of one attempt.
pub(crate) struct Ways {
    attempt: AttemptId,
    own: usize,
    /// By process; none for those that connect to this one.
    addresses: Vec<Option<String>>,
    token: Option<String>,
    roots: Option<TlsRoots>,
    options: LinkOptions,
    links: Mutex<BTreeMap<usize, Arc<Link>>>,
    /// The ends of crossings that leave from here.
    sends: Mutex<Vec<Arc<Sending>>>,
    /// A link has come.
    changed: Condvar,
    is_cancelled: AtomicBool,
    /// Making the part was told to stop.
    was_stopped: AtomicBool,
    /// The first process that can't be had, and why.
    lost: Mutex<Option<(usize, String)>>,
}

impl Ways {
    pub(crate) fn new(run: &Run, roots: Option<TlsRoots>, options: LinkOptions) -> Ways {
        let addresses = run.processes.iter().enumerate();
        // Who has the lower number connects, so that the process that began needs no address.
        let addresses = addresses.map(|(process, at)| at.address.clone().filter(|_| process > run.own)).collect();
        Ways {
            attempt: run.attempt,
            own: run.own,
            addresses,
            token: run.token.clone(),
            roots,
            options,
            links: Mutex::default(),
            sends: Mutex::default(),
            changed: Condvar::new(),
            is_cancelled: AtomicBool::new(false),
            was_stopped: AtomicBool::new(false),
            lost: Mutex::default(),
        }
    }

    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
    }

    /// Whether making the part was told to stop, so that its error says nothing of the text.
    pub(crate) fn was_stopped(&self) -> bool {
        self.was_stopped.load(Ordering::Acquire)
    }

    /// The first process that can't be had, and why.
    pub(crate) fn lost(&self) -> Option<(usize, String)> {
        locked(&self.lost).clone()
    }

    fn lose(&self, process: usize, why: String) -> KindError {
        locked(&self.lost).get_or_insert_with(|| (process, why.clone()));
        KindError::new(why)
    }

    /// Notes the end of a crossing that leaves from here.
    pub(crate) fn sends_by(&self, sending: Arc<Sending>) {
        locked(&self.sends).push(sending);
    }

    /// Ends all links, behind what is to be sent.
    pub(crate) fn end(&self) {
        locked(&self.links).values().for_each(|link| link.end());
    }

    /// Waits for a part with so many ends. It is ended by a cancellation, and when all its ends send to processes that
    /// want no more: one of them may have no rows to notice that by.
    fn wait(&self, request: &Request, ends: usize) -> Result<(), FlowError> {
        let mut is_unwanted = false;
        loop {
            match request.wait_for(Duration::from_millis(20)) {
                Some(Err(FlowError::Cancelled)) if is_unwanted && !self.is_cancelled() => return Ok(()),
                Some(outcome) => return outcome.map(|_| ()),
                None => {}
            }
            let sends = locked(&self.sends);
            is_unwanted |= sends.len() == ends && sends.iter().all(|sending| sending.is_over());
            drop(sends);
            if self.is_cancelled() || is_unwanted {
                request.cancel();
            }
        }
    }

    /// Another process has connected: each has one link, to those with lower numbers.
    fn arrived(&self, process: usize, from: BufReader<ReadHalf>) -> io::Result<()> {
        let mut links = locked(&self.links);
        if process < self.own && !links.contains_key(&process) {
            links.insert(process, Link::start(from, format!("process {process}"), self.options)?);
        }
        drop(links);
        self.changed.notify_all();
        Ok(())
    }

    /// Connects to all processes with higher numbers, before boxes are made: those wait for each other's columns.
    pub(crate) fn connect_all(&self) -> Result<(), String> {
        for (process, address) in self.addresses.iter().enumerate() {
            let Some(address) = address else { continue };
            let link = self.connect(process, address).map_err(|why| {
                let why = format!("node {process} ({address}): {why}");
                locked(&self.lost).get_or_insert((process, why.clone()));
                why
            })?;
            locked(&self.links).insert(process, link);
        }
        self.changed.notify_all();
        Ok(())
    }

    fn connect(&self, process: usize, address: &str) -> Result<Arc<Link>, String> {
        let link = LinkHello { attempt: self.attempt, from: self.own };
        let hello = Hello { version: VERSION.to_owned(), token: self.token.clone(), link: Some(link) };
        let options =
            LeadOptions { roots: self.roots.clone(), silence: self.options.silence, ..LeadOptions::default() };
        let (from, _) = connect(address, &hello, &options, Duration::ZERO)?;
        let peer = format!("node {process} ({address})");
        Link::start(from, peer, self.options).map_err(|error| error.to_string())
    }

    /// The link to a process. It waits for those that connect to this one; the process that began tells if one is lost.
    pub(crate) fn link(&self, process: usize) -> Result<Arc<Link>, KindError> {
        let mut links = locked(&self.links);
        loop {
            if let Some(link) = links.get(&process) {
                return Ok(Arc::clone(link));
            }
            if !self.goes_on() {
                return Err(KindError::new("the network was ended before all its boxes were there"));
            }
            let wait = Duration::from_millis(50);
            links = self.changed.wait_timeout(links, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Connects to a node. Gives the connection and the node's answer.
pub(crate) fn connect(
    address: &str,
    hello: &Hello,
    options: &LeadOptions,
    wait: Duration,
) -> Result<(BufReader<ReadHalf>, (usize, usize)), String> {
    let began = Instant::now();
    let patience = patience(options);
    loop {
        let addresses = address.to_socket_addrs().map_err(|error| format!("the address is not understood: {error}"))?;
        // A link may come before its network, and then waits for it; a node answers anybody else at once.
        let answers = if hello.link.is_some() { GREETING + EARLY } else { patience };
        let mut failed = None;
        for one in addresses {
            match TcpStream::connect_timeout(&one, patience) {
                Ok(socket) => match greet_node(socket, address, hello, options.roots.as_ref(), answers) {
                    Err(Ungreeted::Silent) => failed = Some((true, SILENT.to_owned())),
                    Err(Ungreeted::Refused(why)) => return Err(why),
                    Ok(greeted) => return Ok(greeted),
                },
                Err(error) => {
                    let is_down = error.kind() == io::ErrorKind::ConnectionRefused;
                    failed = Some((is_down, format!("it can't be reached: {error}")));
                }
            }
        }
        let Some((may_come, why)) = failed else { return Err("the name has no address".to_owned()) };
        if !may_come || began.elapsed() >= wait {
            return Err(why);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// A node answers within this time, also a busy one.
pub(crate) fn patience(options: &LeadOptions) -> Duration {
    options.silence.max(Duration::from_secs(1))
}

/// Why a node is not talked to.
enum Ungreeted {
    /// Nothing comes from it.
    Silent,
    /// A reason: its refusal, or no node is there.
    Refused(String),
}

impl From<String> for Ungreeted {
    fn from(why: String) -> Ungreeted {
        Ungreeted::Refused(why)
    }
}

const SILENT: &str = "it does not answer";

/// `answers`: it has so long to answer.
fn greet_node(
    socket: TcpStream,
    address: &str,
    hello: &Hello,
    roots: Option<&TlsRoots>,
    answers: Duration,
) -> Result<(BufReader<ReadHalf>, (usize, usize)), Ungreeted> {
    let end = Instant::now() + answers;
    socket.set_write_timeout(Some(GREETING)).map_err(|error| error.to_string())?;
    let half = connected(socket, address, roots, GREETING.min(answers))?;
    let answered = || {
        let mut to = half.write_half()?;
        let mut from = BufReader::with_capacity(64 << 10, half);
        greet(&mut to, hello)?;
        let answer: Answer = greeted(&mut from, end)?;
        io::Result::Ok((from, answer))
    };
    match answered() {
        Ok((from, Answer::Welcome { threads, nodes })) => Ok((from, (threads, nodes))),
        Ok((_, Answer::Refused { version, .. })) if version != VERSION => {
            Err(format!("it has version {version}, and this program {VERSION}: all processes have the same").into())
        }
        Ok((_, Answer::Refused { why, .. })) => Err(format!("it refuses: {why}").into()),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Err(Ungreeted::Silent)
        }
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err("it closes the connection".to_owned().into()),
        Err(error) => Err(error.to_string().into()),
    }
}

impl Border for Ways {
    fn send(&self, crossing: &Crossing, rows: &CrossingRows) -> Result<BoxModel, KindError> {
        let link = self.link(crossing.to)?;
        let schema = &rows.schema;
        link.send_columns(crossing.number, &schema_text(schema), rows.is_endless);
        locked(&self.sends).push(link.sending(crossing.number));
        Ok(outlet(link, crossing.number, schema))
    }

    fn receive(&self, crossing: &Crossing) -> Result<(BoxModel, CrossingRows), KindError> {
        let link = self.link(crossing.from)?;
        let receiving = link.receiving(crossing.number);
        let rows = match receiving.rows(&|| self.goes_on()) {
            Ok(rows) => rows,
            Err(NoColumns::Lost(lost)) => return Err(self.lose(crossing.from, lost.0)),
            Err(NoColumns::Otherwise(why)) => return Err(KindError::new(why)),
        };
        Ok((inlet(link, crossing.number, crossing.from, &rows.schema), rows))
    }

    fn goes_on(&self) -> bool {
        let goes_on = !self.is_cancelled();
        self.was_stopped.fetch_or(!goes_on, Ordering::AcqRel);
        goes_on
    }
}
