//! `vicus node`: runs parts of networks that other processes begin.

use crate::arguments::{CertificateArgs, RuntimeArgs};
use crate::engine::plain;
use crate::messages::print;
use crate::query::{bytes, duration};
use crate::recording::{ROOM, of_this_program, trace_span, write_trace};
use crate::store::of;
use crate::{interrupt, memory, network};
use anyhow::{Context, anyhow, ensure};
use clap::Args as ClapArgs;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vicus::TemporaryFiles;
use vicus::flow::Overflows;
use vicus::kit::TraceRoom;
use vicus_network::Paths;
use vicus_nodes::{NodeOptions, NodeServer, add_program_kinds};
use vicus_service::{
    MemoryBudget, PeerData, PeerHost, PeerHostOptions, Service, StoreFolder, TemporaryFolder, paths_below,
};

/// The variable with the token of nodes.
const TOKEN: &str = "VICUS_NODE_TOKEN";

/// See `vicus node --help`.
#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The address to listen at. Port 0 is any free one. Only this machine reaches 127.0.0.1; 0.0.0.0 and [::] are for
    /// all, and need a token.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7879")]
    listen: String,
    /// Only processes with this token are served; VICUS_NODE_TOKEN has one, too. Without TLS it is sent as it is, and
    /// so are rows: beyond one machine, use --tls-cert, a private network or a tunnel.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    #[command(flatten)]
    certificate: CertificateArgs,
    /// Boxes read and write files below this folder, by names within it. Without it, they read and write none.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// The folder of a store: the node shares the work of queries of processes with a copy of the same store (`vicus
    /// query --nodes`, `vicus serve --nodes`). Another process may be writing to it, such as a server that follows.
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// A query waits so long here for changes of the store that this copy does not have yet.
    #[arg(long, value_name = "SECONDS", value_parser = duration, requires = "store", default_value = "1")]
    store_wait: Duration,
    #[command(flatten)]
    runtime: RuntimeArgs,
    /// The bytes of memory that the boxes of one network or query may hold: 500000, 64K, 10M, 2G; by default half of
    /// the free memory.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory_limit: Option<u64>,
    /// The folder of temporary files; by default the system's (TMPDIR, else /tmp).
    #[arg(long, value_name = "DIR")]
    temp_folder: Option<PathBuf>,
    /// Records the last events of every thread; the file is written when the node ends. `vicus trace join` makes one
    /// trace of it and of those of the other processes.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// How many events of each thread the trace has room for, 32 bytes each.
    #[arg(long, value_name = "N", requires = "trace", default_value_t = ROOM)]
    trace_events: NonZero<usize>,
    /// Keeps the events of so much time before the end, such as 10m or 500ms, in place of the last ones.
    #[arg(long, value_name = "TIME", value_parser = trace_span, requires = "trace")]
    trace_last: Option<Duration>,
}

/// The token given, or that of the environment.
pub(crate) fn token(given: Option<&String>) -> Option<String> {
    given.cloned().or_else(|| std::env::var(TOKEN).ok()).filter(|token| !token.is_empty())
}

/// The folder of a network's temporary files; none if it is not named and can't be used, since memory alone may do.
pub(crate) fn overflows(folder: Option<&PathBuf>) -> anyhow::Result<Option<Arc<dyn Overflows>>> {
    let folder = folder.map(PathBuf::as_path);
    TemporaryFiles::for_network(folder, &std::env::temp_dir())
        .map_err(|error| anyhow!("--temp-folder {}: {error}", folder.unwrap_or("".as_ref()).display()))
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let paths = match &args.folder {
        Some(folder) => paths_below(folder).with_context(|| format!("--folder {}", folder.display()))?,
        None => Paths::by(|name| Err(format!("{name}: this node reads and writes no files; start it with --folder"))),
    };
    let limit = args.memory_limit.unwrap_or_else(memory::free_limit);
    ensure!(limit > 0, "--memory-limit 0: boxes need some memory");
    let options = NodeOptions {
        token: token(args.token.as_ref()),
        certificate: args.certificate.read()?,
        memory: limit,
        overflows: overflows(args.temp_folder.as_ref())?,
        nodes: vicus::this_machine().topology.nodes.len(),
    };
    let (has_token, is_tls) = (options.token.is_some(), options.certificate.is_some());
    let room = TraceRoom { events: args.trace_events.get(), rolls: true, last: args.trace_last };
    let builder = args.runtime.builder()?;
    let builder = if args.trace.is_some() { room.of(builder) } else { builder };
    let runtime = args.runtime.start(builder)?;
    let threads = runtime.plan().threads();
    let mut kinds = network::kinds().with_paths(paths);
    add_program_kinds(&mut kinds);
    let node = match &args.store {
        None => NodeServer::listen(&args.listen, runtime, kinds, options),
        Some(store) => {
            let folder = StoreFolder::new(store.clone());
            // A folder without a store is told at once.
            folder.read(None).map_err(plain).with_context(|| of(store))?;
            let service = Service::new(runtime, MemoryBudget::new(limit));
            let temp_folder = args.temp_folder.clone().unwrap_or_else(std::env::temp_dir);
            let temporary = TemporaryFolder::open(&temp_folder).ok();
            let host = PeerHostOptions { memory: limit, temporary, patience: args.store_wait };
            let host = PeerHost::new(service, PeerData::Folder(folder), host);
            NodeServer::listen_with_queries(&args.listen, host, kinds, options)
        }
    };
    let node = node.with_context(|| format!("--listen {}", args.listen))?;
    let address = node.address().context("the node's address")?;
    ensure!(
        has_token || address.ip().is_loopback(),
        "--listen {address}: others than this machine reach it, so it needs a token: --token, or {TOKEN}"
    );
    let ended = Arc::new(AtomicBool::new(false));
    let stops = Arc::clone(&ended);
    let stopped = move || {
        if stops.swap(true, Ordering::Relaxed) {
            std::process::exit(interrupt::STATUS);
        }
    };
    interrupt::replace(stopped).map_err(|error| anyhow!("signals can't be handled: {error}"))?;
    let queries = if args.store.is_some() { " and queries" } else { "" };
    let by_tls = if is_tls { ", by TLS" } else { "" };
    print(&format!("vicus runs parts of networks{queries} at {address}, on {threads} threads{by_tls}\n"))?;
    node.serve(|| ended.load(Ordering::Relaxed)).context("the node")?;
    if let Some(path) = &args.trace {
        let runtime = node.into_runtime().context("a network does not end, so there is no trace")?;
        write_trace(path, &of_this_program(runtime.trace().expect("it was asked to record")), room)?;
    }
    Ok(())
}
