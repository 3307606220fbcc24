//! `vicus update`: SPARQL updates of a store, each durable when the command says so.

use super::{Bar, Unit, bytes_of, of, open, show};
use crate::query::{by_chance, bytes, duration, with_caret};
use crate::spill::SpillArgs;
use crate::tell::tell;
use crate::topology::count;
use crate::web::WebArgs;
use crate::{engine, interrupt, memory, strategy};
use anyhow::{anyhow, ensure};
use std::path::PathBuf;
use std::time::Duration;
use vicus::{Runtime, Setting};
use vicus_service::{
    Error, LanguageOptions, MemoryBudget, NotStored, PlanOptions, Service, SessionOptions, SparqlOptions, check_update,
};

/// See `vicus update --help`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the store. No other process may be writing to it.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// An update's file; may be given several times, each is carried out in turn. All are checked before the first one.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    update: Vec<PathBuf>,
    /// The update itself: all of its operations, or after an error none.
    #[arg(value_name = "TEXT", conflicts_with = "update")]
    text: Option<String>,
    /// The scheduling strategy, with parameters as in las:pin=pu; see `vicus strategies`; by default the one of
    /// VICUS_STRATEGY, else las.
    #[arg(long)]
    strategy: Option<Setting>,
    /// How many threads; by default one for each usable PU.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// The bytes of memory that an update may hold: 500000, 64K, 10M, 2G. Rows beyond go to temporary files if its
    /// patterns sort them or make them distinct; updates with other needs for more fail. By default half of the free
    /// memory.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory_limit: Option<u64>,
    /// An update is cancelled when it takes longer, from parsing its text on: 30, 1.5s, 500ms.
    #[arg(long, value_name = "SECONDS", value_parser = duration)]
    timeout: Option<Duration>,
    /// The base IRI of relative IRIs in an update, until it has a BASE of its own.
    #[arg(long, value_name = "IRI")]
    base: Option<String>,
    #[command(flatten)]
    spill: SpillArgs,
    #[command(flatten)]
    web: WebArgs,
    /// The folder of files for LOAD, by file: URLs; by default none.
    #[arg(long, value_name = "DIR")]
    load_folder: Option<PathBuf>,
    /// The longest IRI that is inserted, also by documents of LOAD, when it is written out: 2K, 64K. A long prefix or
    /// base makes many short names long.
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = bytes)]
    max_iri: u64,
    /// Reads SPARQL 1.2 (not final yet), and RDF 1.2 in documents of LOAD: triple terms, base directions, and their
    /// syntax. Without it, a text with them is refused.
    #[arg(long = "rdf-12")]
    rdf_12: bool,
}

impl Args {
    fn session_options(&self) -> anyhow::Result<SessionOptions> {
        Ok(SessionOptions {
            languages: LanguageOptions {
                sparql: SparqlOptions { rdf_12: self.rdf_12, ..SparqlOptions::default() },
                ..LanguageOptions::default()
            },
            base: self.base.clone(),
            longest_iri: usize::try_from(self.max_iri).unwrap_or(usize::MAX),
            plan: PlanOptions { hash_seed: by_chance(), ..PlanOptions::default() },
            web: self.web.web(),
            folder: self.load_folder.clone(),
            temporary: self.spill.folder(Some(&self.store))?,
            limits: interrupt::limits(self.timeout, self.memory_limit),
            ..SessionOptions::default()
        })
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    interrupt::listen();
    engine::check_threads(args.threads)?;
    let strategy = strategy::one(args.strategy.as_ref())?;
    let texts = texts(&args)?;
    let memory = MemoryBudget::new(args.memory_limit.unwrap_or_else(memory::free_limit));
    let failed = |name: &str, text: &str, error: Error| match error {
        Error::Query(error) => with_caret(&error, "update", name, text),
        error => engine::plain(error).context(format!("update {name}")),
    };
    let options = args.session_options()?;
    let check = |(name, text): &(String, String)| {
        check_update(text, &memory, &options).map_err(|error| failed(name, text, error))
    };
    let checked = texts.iter().map(check).collect::<anyhow::Result<Vec<_>>>()?;
    let store = open(&args.store)?;
    let service = Service::new(engine::start(Runtime::builder().strategy(strategy), args.threads)?, memory);
    for ((name, text), checked) in texts.iter().zip(checked) {
        let before = store.snapshot().len();
        let stored = service.update_store_checked(checked, &store, options.clone());
        let updated = stored.map(|stored| stored.updated).map_err(|error| match error {
            NotStored::Update(error) => failed(name, text, error),
            NotStored::Store(error) => anyhow::Error::new(error).context(of(&args.store)),
            NotStored::Commit(error) => anyhow::Error::new(error).context(of(&args.store)),
        })?;
        let (after, ms) = (store.snapshot().len(), updated.time.as_secs_f64() * 1e3);
        let operations = count(updated.operations, "operation");
        show(&format!("{name}: {operations} in {ms:.1} ms, {before} quads before and {after} after\n"))?;
        if store.is_merge_due() {
            let bar = Bar::new("merging changes", bytes_of(&args.store), Unit::Bytes);
            let merged = store.merge(&mut |bytes| bar.set(bytes));
            bar.end();
            if let Err(error) = merged {
                // The update is durable, and the next one tries again.
                tell(format_args!("vicus: warning: {}: the changes can't be merged: {error}", of(&args.store)));
            }
        }
    }
    Ok(())
}

/// The names and texts of all updates.
fn texts(args: &Args) -> anyhow::Result<Vec<(String, String)>> {
    if let Some(text) = &args.text {
        return Ok(vec![("update".to_owned(), text.clone())]);
    }
    ensure!(!args.update.is_empty(), "there is no update: give its text, or its file with --update");
    let read = |path: &PathBuf| {
        let text =
            std::fs::read_to_string(path).map_err(|error| anyhow!("{}: can't be read: {error}", path.display()))?;
        let name = path.file_stem().map_or_else(|| "update".to_owned(), |stem| stem.to_string_lossy().into_owned());
        Ok((name, text))
    };
    args.update.iter().map(read).collect()
}
