//! `vicus load`: files of RDF become a store, or are added to one.

use super::{Bar, Unit, bytes_of, of, open, show, unless_interrupted, writing};
use crate::query::{SyntaxName, by_chance, bytes};
use crate::tell::tell;
use crate::{engine, input, interrupt, memory, strategy};
use anyhow::{Context, anyhow};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use vicus::{Runtime, Setting};
use vicus_service::data::{LoadOptions, LoadSpill, OnError};
use vicus_service::{NewStore, graph_name};

/// See `vicus load --help`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the store; a missing folder is created. No other process may be writing to it.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// A file of RDF, in the syntax of its ending (.nt, .nq, .ttl, .trig, .rdf, .xml, .owl, .jsonld), plain or packed
    /// by gzip, zstd, bzip2 or xz, with .gz, .zst, .bz2 or .xz behind the ending or not; - is standard input. May be
    /// given several times: all are added at once, or, after an error, none. Blank nodes are kept apart by file.
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    data: Vec<OsString>,
    /// The syntax of all data files, whatever their endings; of standard input nt by default.
    #[arg(long, value_enum)]
    syntax: Option<SyntaxName>,
    /// The graph for triples that the data puts into none; by default the default graph.
    #[arg(long, value_name = "IRI")]
    graph: Option<String>,
    /// The scheduling strategy, with parameters as in las:pin=pu; see `vicus strategies`; by default the one of
    /// VICUS_STRATEGY, else las.
    #[arg(long)]
    strategy: Option<Setting>,
    /// How many threads; by default one for each usable PU.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// The longest line of data, in Turtle, TriG and RDF/XML the longest statement, in JSON-LD the longest item of a
    /// list, or the file if it is no list: 64K, 10M, 2G.
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = bytes)]
    max_line: u64,
    /// The longest IRI of data when it is written out: 2K, 64K. A long prefix or base makes many short names long.
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = bytes)]
    max_iri: u64,
    /// About how many bytes of memory may be held: 500M, 2G. Larger data is loaded in parts, in temporary files in the
    /// store's folder meanwhile. By default half of the free memory.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory_limit: Option<u64>,
    /// Leaves malformed lines of the data out, and says how many. A file of RDF/XML or JSON-LD ends at its first error.
    #[arg(long)]
    skip_malformed: bool,
    /// Reads RDF 1.2 (not final yet): triple terms, base directions, and their syntax. Without it, a file with them is
    /// refused.
    #[arg(long = "rdf-12")]
    rdf_12: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    interrupt::listen();
    engine::check_threads(args.threads)?;
    let began = Instant::now();
    let strategy = strategy::one(args.strategy.as_ref())?;
    let graph = args.graph.as_deref().map(graph_name).transpose().map_err(|error| anyhow!("--graph: {error}"))?;
    let (sources, reading) = input::open(&args.data, args.syntax.map(SyntaxName::syntax))?;
    // Opened before the data is read, so that a read-only store is reported at once.
    let memory = args.memory_limit.unwrap_or_else(memory::free_limit);
    let (new, old) = match args.store.join("CURRENT").exists() {
        false => (Some(NewStore::create(&args.store).with_context(|| of(&args.store))?.within(memory)), None),
        true => (None, Some(open(&args.store)?.within(memory))),
    };
    let store = new.as_deref().or(old.as_ref()).expect("it was made or opened");
    let service = engine::serve(Runtime::builder().strategy(strategy), args.threads)?;
    let options = LoadOptions {
        on_error: if args.skip_malformed { OnError::Skip } else { OnError::Fail },
        longest_line: usize::try_from(args.max_line).unwrap_or(usize::MAX),
        longest_iri: usize::try_from(args.max_iri).unwrap_or(usize::MAX),
        graph,
        hash_seed: by_chance(),
        rdf_12: args.rdf_12,
        spill: Some(LoadSpill { memory, scratch: store.scratch() }),
        ..LoadOptions::default()
    };
    let loaded = engine::load(&service, sources, &reading, options)?;
    if let Some(first) = &loaded.first_skipped {
        tell(format_args!("vicus: {} malformed lines were left out; the first: {first}", loaded.skipped));
    }
    let quads = loaded.dataset.snapshot().len();
    let snapshot = Arc::into_inner(loaded.dataset.into_snapshot()).expect("no other owner is left");
    // Writes the data in memory, and the store's data from before.
    let bar = Bar::new("writing", snapshot.heap_bytes() as u64 + bytes_of(&args.store), Unit::Bytes);
    store.load(snapshot, &mut writing(&bar)).with_context(|| of(&args.store)).map_err(unless_interrupted)?;
    bar.end();
    let store = new.map(NewStore::keep).or(old).expect("it was made or opened");
    let (all, seconds) = (store.snapshot().len(), began.elapsed().as_secs_f64());
    let rate = quads as f64 / seconds.max(1e-9);
    show(&format!(
        "{}: {quads} quads loaded in {seconds:.1} s ({rate:.0}/s), {all} in the store\n",
        args.store.display()
    ))
}
