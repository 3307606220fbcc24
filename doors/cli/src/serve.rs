//! `vicus serve`: answers over HTTP from a store or from files.

mod own_node;

use crate::arguments::{AnswerArgs, CertificateArgs, DataArgs, LimitArgs, RootsArgs, RuntimeArgs};
use crate::messages::{print, tell};
use crate::peers::PeerArgs;
use crate::query::{by_chance, bytes, duration, table, tables};
use crate::recording::TraceArgs;
use crate::spill::SpillArgs;
use crate::store::archive::span;
use crate::store::{self, of};
use crate::web::WebArgs;
use crate::{hangup, health, interrupt, memory, network};
use anyhow::{Context, anyhow, bail, ensure};
use own_node::OwnNode;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vicus_server::{AccessLog, AccessRules, ClientLimits, Server, ServerData, ServerOptions};
use vicus_service::{
    Archive, Archiving, ArchivingOptions, CallLimits, FollowOptions, MemoryBudget, NetworkOptions, PlanOptions,
    Service, SessionOptions, StoreError, StoreServer, TlsRoots, paths_below,
};

/// See `vicus serve --help`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of a store. No other process may be writing to it, unless --read-only is given: then the data is the
    /// store's of now.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["data", "syntax", "skip_malformed"])]
    store: Option<PathBuf>,
    /// Makes an empty store if the folder of --store is missing or empty.
    #[arg(long, requires = "store", conflicts_with = "read_only")]
    create: bool,
    #[command(flatten)]
    data: DataArgs,
    /// For SQL, a file as a table of this name: .parquet, .csv, .tsv, .jsonl, .arrow or .arrows. May be given several
    /// times.
    #[arg(long, value_name = "NAME=FILE", value_parser = table)]
    table: Vec<(String, PathBuf)>,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    permissions: PermissionArgs,
    #[command(flatten)]
    copies: CopyArgs,
    #[command(flatten)]
    runtime: RuntimeArgs,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    clients: ClientLimitArgs,
    #[command(flatten)]
    answers: AnswerArgs,
    #[command(flatten)]
    peers: PeerArgs,
    #[command(flatten)]
    certificate: CertificateArgs,
    #[command(flatten)]
    roots: RootsArgs,
    /// The folder of files for LOAD, by file: URLs; by default none.
    #[arg(long, value_name = "DIR")]
    load_folder: Option<PathBuf>,
    /// The folder below which networks (`/network`) read and write files; those who may update may then run them. By
    /// default networks know no files, and all who may query may run them.
    #[arg(long, value_name = "DIR")]
    network_folder: Option<PathBuf>,
    #[command(flatten)]
    spill: SpillArgs,
    #[command(flatten)]
    web: WebArgs,
}

/// Where the server listens, how it ends, and what it keeps for later requests.
#[derive(clap::Args)]
struct SocketArgs {
    /// The address to listen at. Port 0 is any free one. Only this machine reaches 127.0.0.1; 0.0.0.0 and [::] are for
    /// all.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7878", help_heading = "Server")]
    bind: String,
    /// Asks the server at the address of --bind whether it takes requests, and ends: status 0 if it does, else 1. For
    /// health checks of containers.
    #[arg(long, conflicts_with_all = ["store", "data"], help_heading = "Server")]
    check: bool,
    /// How long running requests may go on after Ctrl-C or SIGTERM.
    #[arg(long, value_name = "SECONDS", value_parser = duration, default_value = "10", help_heading = "Server")]
    grace: Duration,
    /// Writes a line of JSON for each request to this file, or to standard error with -. On SIGHUP the file is opened
    /// anew.
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    access_log: Option<PathBuf>,
    /// The bytes of memory for plans of queries, kept for the next time.
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "64M", help_heading = "Server")]
    plan_cache: u64,
    /// The bytes of memory for answers to queries, kept while the data stays as it is, each of an eighth at most; 0
    /// keeps none.
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "64M", help_heading = "Server")]
    answer_cache: u64,
    /// How many microseconds a thread of the network and one for plans stay awake after an answer, while no query runs
    /// on the other threads: a request that follows at once is answered in a third of the time. 0 lets them sleep at
    /// once.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 50, help_heading = "Server")]
    stay_awake: u64,
}

/// The rights of clients and of pages.
#[derive(clap::Args)]
struct PermissionArgs {
    /// Refuses all updates.
    #[arg(long, conflicts_with_all = ["token", "open_updates"], help_heading = "Permissions")]
    read_only: bool,
    /// Clients with this token (`Authorization: Bearer TOKEN`) may update. May be given several times; VICUS_TOKEN has
    /// one, too. Without any, updates are refused.
    #[arg(long, value_name = "TOKEN", help_heading = "Permissions")]
    token: Vec<String>,
    /// Only clients with this token, or one that permits updates, may read. May be given several times;
    /// VICUS_READ_TOKEN has one, too.
    #[arg(long, value_name = "TOKEN", help_heading = "Permissions")]
    read_token: Vec<String>,
    /// Every client may update without a token, except pages of other origins.
    #[arg(long, conflicts_with = "token", help_heading = "Permissions")]
    open_updates: bool,
    /// Pages of this origin may read answers (`Access-Control-Allow-Origin`) and update as other clients may, or of all
    /// with `*`, which update with a token alone. By default, none may.
    #[arg(long, value_name = "ORIGIN", help_heading = "Permissions")]
    cors: Option<String>,
    /// Pages of this origin may update as the server's own page may: https://data.example, behind a proxy of this name,
    /// say. May be given several times.
    #[arg(long, value_name = "ORIGIN", help_heading = "Permissions")]
    allow_origin: Vec<String>,
    /// On this machine's own address (127.0.0.1, [::1]), requests are also answered for this host, beside localhost and
    /// the address: for a proxy's name, say. May be given several times.
    #[arg(long, value_name = "NAME", help_heading = "Permissions")]
    allow_host: Vec<String>,
}

/// Stores that are copies of this one, or of which this one is a copy.
#[derive(clap::Args)]
struct CopyArgs {
    /// Copies the store of the server at this URL to the folder of --store, takes its changes as they come, and answers
    /// queries; updates are refused. Given several times, the servers are tried in turn. The first --token, or
    /// VICUS_TOKEN, is sent there: it must permit updates. When this server has been promoted, start it without: else
    /// it follows again.
    #[arg(long, value_name = "URL", requires = "store", conflicts_with_all = ["read_only", "create"])]
    #[arg(help_heading = "Copies")]
    follow: Vec<String>,
    /// A change is acknowledged, and visible here, when it is durable here and at this number of servers that follow
    /// this one. Followers show it before, and so does this server after a restart.
    #[arg(long, value_name = "K", default_value_t = 0, help_heading = "Copies")]
    sync_followers: usize,
    /// How long a change waits for them. Then its client is told that it is not confirmed (status 503): it stays, and
    /// becomes visible when they have it.
    #[arg(long, value_name = "SECONDS", value_parser = duration, default_value = "10", help_heading = "Copies")]
    sync_timeout: Duration,
    /// Sends the store to an archive, as `vicus backup PLACE` does: when the server starts, every --archive-every
    /// seconds, and when it ends.
    #[arg(long, value_name = "PLACE", requires = "store", conflicts_with = "read_only", help_heading = "Copies")]
    archive: Option<String>,
    /// How often what is new in the store goes to the archive: what is lost with the machine is younger.
    #[arg(long, value_name = "SECONDS", value_parser = duration, default_value = "60", help_heading = "Copies")]
    archive_every: Duration,
    /// Removes from the archive what no state of this last span of time needs, as `vicus backup --keep` does: 30d, 12h.
    /// By default all stays.
    #[arg(long, value_name = "SPAN", value_parser = span, requires = "archive", help_heading = "Copies")]
    archive_keep: Option<Duration>,
    /// This server is a node as well: others with a copy of the same store, such as the one that it follows, share the
    /// work of their queries with it (`vicus serve --nodes`, `vicus query --nodes`). VICUS_NODE_TOKEN has the token
    /// that they need; with port 0 it is any free one. With --tls-cert they connect by TLS, too.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        requires = "store",
        conflicts_with = "read_only",
        help_heading = "Copies"
    )]
    listen_node: Option<String>,
}

/// The limits of all clients together, and of each.
#[derive(clap::Args)]
struct ClientLimitArgs {
    /// How long a client may take nothing of its answer; then the answer is broken off, and its query stopped. While
    /// requests hold more than three quarters of --total-memory, 5 seconds are enough for the one that holds the most.
    #[arg(long, value_name = "SECONDS", value_parser = duration, default_value = "60", help_heading = "Limits")]
    take_timeout: Duration,
    /// The bytes of memory that all requests may hold together. A request without room waits, and is refused when too
    /// many do. By default half of the free memory at the server's start.
    ///
    /// The process holds more beside it: the data and its indexes, up to twice while a change is made; bodies of
    /// requests, up to half of --total-memory (see --max-body); kept plans and answers (--plan-cache, --answer-cache);
    /// and up to 256M for connections, threads and freed memory to be used again. Memory not used again goes back to
    /// the system in some ten seconds (VICUS_DECAY_MS).
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "Limits")]
    total_memory: Option<u64>,
    /// The most rows of an answer. A query with more fails.
    #[arg(long, value_name = "N", help_heading = "Limits")]
    max_rows: Option<u64>,
    /// The most bytes of a request's body when it is unpacked, such as a graph's document. By default 1G, or a quarter
    /// of --total-memory if this is less. All bodies together hold half of --total-memory, beside it. A body that comes
    /// at less than 1 KiB in a second, over 10 s, is given up.
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "Limits")]
    max_body: Option<u64>,
    /// How many connections may be open at once.
    #[arg(long, value_name = "N", default_value_t = ClientLimits::default().connections, help_heading = "Limits")]
    max_connections: usize,
    /// How many requests of one address may run at once.
    #[arg(long, value_name = "N", default_value_t = ClientLimits::default().requests, help_heading = "Limits")]
    max_client_requests: usize,
    /// How many requests may wait for a thread or for memory.
    #[arg(long, value_name = "N", default_value_t = ClientLimits::default().waiting, help_heading = "Limits")]
    max_waiting: usize,
}

impl Args {
    fn session(&self) -> anyhow::Result<SessionOptions> {
        let mut options = SessionOptions {
            plan: PlanOptions { hash_seed: by_chance(), ..PlanOptions::default() },
            web: self.web.web(),
            folder: self.load_folder.clone(),
            temporary: self.spill.folder(self.store.as_deref())?,
            peers: self.peers.expect(&self.roots, |why| tell(format_args!("vicus: --nodes: {why}")))?,
            limits: CallLimits { rows: self.clients.max_rows, ..CallLimits::default() },
            ..SessionOptions::default()
        };
        options.languages.sql = tables(&self.table, &[], &[], None)?;
        if let Some(folder) = &self.network_folder {
            let shown = folder.display();
            let paths = paths_below(folder).with_context(|| format!("--network-folder {shown}"))?;
            let kinds = Arc::new(network::kinds_of_files().with_paths(paths));
            options.languages.network = NetworkOptions { kinds, has_writers: true };
        }
        self.data.documents.apply(&mut options);
        self.answers.apply(&mut options);
        self.limits.apply(&mut options);
        Ok(options)
    }

    fn name(&self) -> String {
        let path = match (&self.store, &self.data.data[..]) {
            (Some(path), _) => path.as_os_str(),
            (None, [file]) => file,
            _ => return format!("{} files", self.data.data.len()),
        };
        std::path::Path::new(path).file_name().unwrap_or(path).to_string_lossy().into_owned()
    }
}

impl PermissionArgs {
    fn access(&self) -> anyhow::Result<AccessRules> {
        let mut write = self.token.clone();
        if !self.read_only && !self.open_updates {
            write.extend(std::env::var("VICUS_TOKEN").ok().filter(|token| !token.is_empty()));
        }
        let mut read = self.read_token.clone();
        read.extend(std::env::var("VICUS_READ_TOKEN").ok().filter(|token| !token.is_empty()));
        ensure!(write.iter().chain(&read).all(|token| !token.is_empty()), "a token is empty");
        Ok(AccessRules { write, read, is_open: self.open_updates, is_read_only: self.read_only })
    }
}

impl SocketArgs {
    fn log(&self) -> anyhow::Result<AccessLog> {
        match &self.access_log {
            None => Ok(AccessLog::Off),
            Some(path) if path.as_os_str() == "-" => Ok(AccessLog::Stderr),
            Some(path) => {
                AccessLog::to_file(path).with_context(|| format!("--access-log {}: can't be opened", path.display()))
            }
        }
    }
}

/// How long the end of the server waits for what is archived last.
const ARCHIVE_END: Duration = Duration::from_secs(30);

/// A request with this much time on the threads, all together, goes before longer ones: an answer of a few milliseconds
/// stays short beside them.
const HEAD_START: Duration = Duration::from_millis(20);

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    if args.socket.check {
        return health::check(&args.socket.bind, args.certificate.files().is_some());
    }
    if args.store.is_none() && args.data.data.is_empty() {
        let missing = "the following required arguments were not provided:\n  --store <DIR>, or --data <FILE>\n";
        return Err(clap::Error::raw(clap::error::ErrorKind::MissingRequiredArgument, missing).into());
    }
    let builder = args.runtime.builder()?;
    let total = args.clients.total_memory.unwrap_or_else(memory::free_limit);
    let clients = ClientLimits {
        connections: args.clients.max_connections,
        requests: args.clients.max_client_requests,
        waiting: args.clients.max_waiting,
        body_bytes: args.clients.max_body.unwrap_or(ClientLimits::default().body_bytes.min(total / 4)),
        take_time: args.clients.take_timeout,
        ..ClientLimits::default()
    };
    let mut options = ServerOptions {
        session: args.session()?,
        access: args.permissions.access()?,
        log: args.socket.log()?,
        tls: args.certificate.files(),
        cors: args.permissions.cors.clone(),
        allow_origins: args.permissions.allow_origin.clone(),
        allow_hosts: args.permissions.allow_host.clone(),
        grace: args.socket.grace,
        clients,
        plan_cache_bytes: args.socket.plan_cache,
        answer_cache_bytes: args.socket.answer_cache,
        stay_awake: Duration::from_micros(args.socket.stay_awake),
        name: args.name(),
        following: None,
        archiving: None,
    };
    let builder = args.trace.begin(builder.count_takes().head_start(HEAD_START))?;
    let memory = MemoryBudget::new(total);
    let service = Service::new(args.runtime.start(builder)?, memory);
    let recording = service.clone();
    let token = options.access.write.first().cloned();
    let roots = args.roots.read()?;
    let follow = follow_options(&args, token.as_deref(), roots.as_ref());
    let data = data(&args, &service, options.session.plan.hash_seed, &follow)?;
    if let ServerData::Store { store, .. } = &data {
        store.need_followers(args.copies.sync_followers, args.copies.sync_timeout.as_nanos() as u64);
        if !args.copies.follow.is_empty() {
            let following = follow.begin(store);
            options.following = Some(Arc::new(following.map_err(|error| anyhow!("no thread to follow: {error}"))?));
        } else if store.standing().follows {
            tell("vicus: this store is a copy, and takes no changes: --follow URL has it go on, vicus promote writes");
        }
    }
    if let (Some(place), ServerData::Store { store, .. }) = (&args.copies.archive, &data) {
        let archive = Archive::new(place, roots.as_ref()).map_err(|error| anyhow!("archive {place}: {error}"))?;
        let tell: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(|message| tell(format_args!("vicus: {message}")));
        let how = ArchivingOptions { every: args.copies.archive_every, keep: args.copies.archive_keep, tell };
        options.archiving = Some(Arc::new(Archiving::new(archive, store, how)));
    } else if args.copies.archive.is_some() {
        tell("vicus: nothing is archived, since the store can't be written to");
    }
    let own_node = match (&args.copies.listen_node, &data) {
        (None, _) => None,
        (Some(listen), ServerData::Store { store, .. }) => {
            let temporary = options.session.temporary.clone();
            Some(OwnNode::start(listen, args.certificate.read()?, &service, store, total, temporary)?)
        }
        (Some(_), ServerData::Memory(_)) => bail!("--listen-node: the store can't be kept by this server"),
    };
    let archiving = options.archiving.clone();
    if args.store.is_some() && !args.permissions.read_only && matches!(data, ServerData::Memory(_)) {
        options.access.is_read_only = true;
        tell("vicus: the server is read-only, as with --read-only");
    }
    let log = options.log.clone();
    let server = Server::bind(&args.socket.bind, service, data, options)?;
    stop_on_signals(&server)?;
    hangup::reopens(log)?;
    let scheme = if args.certificate.files().is_some() { "https" } else { "http" };
    let address = server.address().context("the server's address")?;
    if args.permissions.open_updates && !address.ip().is_loopback() {
        tell(format!("vicus: warning: --open-updates: everybody who reaches {address} may change and delete the data"));
    }
    print(&format!("vicus serves {} at {scheme}://{address}/\n", args.name()))?;
    if let Some(node) = &own_node {
        print(&format!("vicus runs parts of queries at {}\n", node.address()))?;
    }
    if let Some(archiving) = &archiving {
        archiving.begin().map_err(|error| anyhow!("no thread to archive: {error}"))?;
    }
    let ended = server.run().context("the server");
    drop(own_node);
    // What was acknowledged until now is sent.
    if archiving.is_some_and(|archiving| !archiving.end(ARCHIVE_END)) {
        tell("vicus: not all of the store is in the archive: the next start sends the rest");
    }
    // Requests that are not over go on: the trace is that up to here.
    args.trace.end(|| recording.runtime().cut_trace())?;
    ended
}

fn follow_options(args: &Args, token: Option<&str>, roots: Option<&TlsRoots>) -> FollowOptions {
    let servers = args.copies.follow.iter().map(|url| StoreServer::new(url, token, roots)).collect();
    FollowOptions { servers, tell: Arc::new(|message: &str| tell(format_args!("vicus: {message}"))) }
}

fn data(args: &Args, service: &Service, hash_seed: u64, follow: &FollowOptions) -> anyhow::Result<ServerData> {
    match &args.store {
        Some(path) if args.permissions.read_only => Ok(ServerData::Memory(store::read(path)?)),
        Some(path) if !args.copies.follow.is_empty() => {
            let bar = store::Bar::new("fetching", 0, store::Unit::Bytes);
            let opened = follow.open(path, &mut |done, total| bar.set_of(done, total));
            let store = Arc::new(opened.with_context(|| of(path))?);
            bar.end();
            store::tell_torn(path, &store);
            let merger = service.keep(&store).map_err(|error| anyhow!("no thread for merging: {error}"))?;
            Ok(ServerData::Store { store, merger: Some(merger) })
        }
        Some(path) => {
            store::ensure_there(path, args.create)?;
            let store = match store::opened(path, args.create) {
                // Acknowledged records that can't be read must not be written over.
                Err(StoreError::Unread(_)) => return Ok(ServerData::Memory(store::read(path)?)),
                opened => Arc::new(opened.map_err(|error| store::not_opened(path, error))?),
            };
            store::tell_torn(path, &store);
            let merger = service.keep(&store).map_err(|error| anyhow!("no thread for merging: {error}"))?;
            Ok(ServerData::Store { store, merger: Some(merger) })
        }
        None => {
            if args.data.data.is_empty() {
                bail!("there is no data: --store DIR or --data FILE");
            }
            interrupt::listen();
            let loaded = DataArgs::load(service, args.data.open()?, args.data.load_options(hash_seed))?;
            Ok(ServerData::Memory(loaded.dataset))
        }
    }
}

/// On the first Ctrl-C or SIGTERM the server drains, on the second the process ends.
fn stop_on_signals(server: &Server) -> anyhow::Result<()> {
    let stop = server.stopper();
    let is_stopping = AtomicBool::new(false);
    let stopped = move || {
        if is_stopping.swap(true, Ordering::Relaxed) {
            std::process::exit(interrupt::STATUS);
        }
        tell("vicus: ending: requests that run may go on for a while; once more ends them at once");
        stop.stop();
    };
    interrupt::replace(stopped).map_err(|error| anyhow!("signals can't be handled: {error}"))
}
