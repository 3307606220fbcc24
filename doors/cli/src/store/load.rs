//! `vicus load`: files of RDF become a store, or are added to one.

use super::{Bar, Unit, bytes_of, of, open, show, unless_interrupted, writing};
use crate::arguments::{DataArgs, RuntimeArgs};
use crate::query::{by_chance, bytes};
use crate::{interrupt, memory};
use anyhow::{Context, anyhow};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use vicus_service::data::{LoadOptions, LoadSpill};
use vicus_service::{NewStore, graph_name};

/// See `vicus load --help`.
// No text follows the files, so one `--data` may have several.
#[derive(clap::Args)]
#[command(mut_arg("data", |data| data.required(true).num_args(1..)))]
pub(crate) struct Args {
    /// The folder of the store; a missing folder is created. No other process may be writing to it.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    #[command(flatten)]
    data: DataArgs,
    /// The graph for triples that the data puts into none; by default the default graph.
    #[arg(long, value_name = "IRI")]
    graph: Option<String>,
    #[command(flatten)]
    runtime: RuntimeArgs,
    /// About how many bytes of memory may be held: 500M, 2G. Larger data is loaded in parts, in temporary files in the
    /// store's folder meanwhile. By default half of the free memory.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory_limit: Option<u64>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    interrupt::listen();
    let began = Instant::now();
    let builder = args.runtime.builder()?;
    let graph = args.graph.as_deref().map(graph_name).transpose().map_err(|error| anyhow!("--graph: {error}"))?;
    let opened = args.data.open()?;
    // Opened before the data is read, so that a read-only store is reported at once.
    let memory = args.memory_limit.unwrap_or_else(memory::free_limit);
    let (new, old) = match args.store.join("CURRENT").exists() {
        false => (Some(NewStore::create(&args.store).with_context(|| of(&args.store))?.within(memory)), None),
        true => (None, Some(open(&args.store, false)?.within(memory))),
    };
    let store = new.as_deref().or(old.as_ref()).expect("it was made or opened");
    let service = args.runtime.serve(builder)?;
    let options = LoadOptions {
        graph,
        spill: Some(LoadSpill { memory, scratch: store.scratch() }),
        ..args.data.load_options(by_chance())
    };
    let loaded = DataArgs::load(&service, opened, options)?;
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
