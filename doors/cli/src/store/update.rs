//! `vicus update`: SPARQL updates of a store, each durable when the command says so.

use super::{Bar, Unit, bytes_of, ensure_there, of, open, show};
use crate::arguments::{DocumentArgs, LimitArgs, RuntimeArgs};
use crate::messages::tell;
use crate::query::{QueryText, by_chance};
use crate::spill::SpillArgs;
use crate::topology::count;
use crate::web::WebArgs;
use crate::{interrupt, memory};
use anyhow::ensure;
use std::path::PathBuf;
use vicus_service::{MemoryBudget, PlanOptions, Service, SessionOptions, StoreUpdateError, check_update};

/// See `vicus update --help`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the store. No other process may be writing to it.
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// Makes an empty store if the folder is missing or empty.
    #[arg(long)]
    create: bool,
    /// An update's file; may be given several times, each is carried out in turn. All are checked before the first one.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    update: Vec<PathBuf>,
    /// The update itself: all of its operations, or after an error none.
    #[arg(value_name = "TEXT", conflicts_with = "update")]
    text: Option<String>,
    #[command(flatten)]
    runtime: RuntimeArgs,
    #[command(flatten)]
    limits: LimitArgs,
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
    #[command(flatten)]
    documents: DocumentArgs,
}

impl Args {
    fn session_options(&self) -> anyhow::Result<SessionOptions> {
        let mut options = SessionOptions {
            base: self.base.clone(),
            plan: PlanOptions { hash_seed: by_chance(), ..PlanOptions::default() },
            web: self.web.web(),
            folder: self.load_folder.clone(),
            temporary: self.spill.folder(Some(&self.store))?,
            limits: interrupt::limits(),
            ..SessionOptions::default()
        };
        self.documents.apply(&mut options);
        self.limits.apply(&mut options);
        Ok(options)
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    interrupt::listen();
    let builder = args.runtime.builder()?;
    let texts = texts(&args)?;
    let memory = MemoryBudget::new(args.limits.memory_limit.unwrap_or_else(memory::free_limit));
    let options = args.session_options()?;
    let check = |asked: &QueryText| check_update(&asked.text, &memory, &options).map_err(|error| asked.error(error));
    let checked = texts.iter().map(check).collect::<anyhow::Result<Vec<_>>>()?;
    ensure_there(&args.store, args.create)?;
    let store = open(&args.store, args.create)?;
    let service = Service::new(args.runtime.start(builder)?, memory);
    for (asked, checked) in texts.iter().zip(checked) {
        let before = store.snapshot().len();
        let stored = service.update_store_checked(checked, &store, options.clone());
        let updated = stored.map(|stored| stored.updated).map_err(|error| match error {
            StoreUpdateError::Update(error) => asked.error(error),
            StoreUpdateError::Store(error) => anyhow::Error::new(error).context(of(&args.store)),
            StoreUpdateError::Commit(error) => anyhow::Error::new(error).context(of(&args.store)),
        })?;
        let (after, ms) = (store.snapshot().len(), updated.time.as_secs_f64() * 1e3);
        let operations = count(updated.operations, "operation");
        show(&format!("{}: {operations} in {ms:.1} ms, {before} quads before and {after} after\n", asked.name))?;
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

/// The texts of all updates.
fn texts(args: &Args) -> anyhow::Result<Vec<QueryText>> {
    if let Some(text) = &args.text {
        return Ok(vec![QueryText::given("update", text.into())?]);
    }
    ensure!(!args.update.is_empty(), "there is no update: give its text, or its file with --update");
    args.update.iter().map(|path| QueryText::read("update", path)).collect()
}
