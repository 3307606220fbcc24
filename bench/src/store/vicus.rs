//! Vicus' own store, as a server has it: a merger merges its changes in the background.

use crate::engine::Engine;
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vicus::{Runtime, Setting};
use vicus_bench::peer::{Answer, Peer, Query};
use vicus_bench::vicus_side::Vicus as Asked;
use vicus_rdf::Snapshot;
use vicus_rdf::load::{LoadOptions, LoadSource, Syntax};
use vicus_service::{Cancel, Dataset, MemoryBudget, Service, SessionOptions, StoreMerger, create_store, open_store};
use vicus_store::Store;

pub(crate) struct Vicus {
    folder: PathBuf,
    service: Service,
    store: Option<(Arc<Store>, StoreMerger)>,
    /// What is asked, and the data that it has.
    asked: Mutex<Option<(Arc<Snapshot>, Asked)>>,
}

impl Vicus {
    pub(crate) fn of(folder: &Path, threads: usize, strategy: Setting) -> anyhow::Result<Vicus> {
        let runtime = Runtime::builder().strategy(strategy).threads(threads).try_start()?;
        let service = Service::new(runtime, MemoryBudget::new(u64::MAX));
        Ok(Vicus { folder: folder.to_owned(), service, store: None, asked: Mutex::default() })
    }

    fn store(&self) -> anyhow::Result<&Store> {
        self.store.as_ref().map(|(store, _)| &**store).context("it was not opened")
    }
}

impl Engine for Vicus {
    fn load(&mut self, file: &Path) -> anyhow::Result<Box<dyn FnOnce() -> anyhow::Result<u64>>> {
        let store = create_store(&self.folder)?;
        let source = LoadSource::new(file.display().to_string(), Syntax::NTriples, std::fs::File::open(file)?);
        let loaded = self.service.load(vec![source], LoadOptions::default(), &Cancel::new()).finish()?;
        let snapshot = Arc::into_inner(loaded.dataset.into_snapshot()).context("no other owner is left")?;
        store.load(snapshot, &mut |_| {})?;
        Ok(Box::new(move || Ok(store.snapshot().len() as u64)))
    }

    fn open(&mut self) -> anyhow::Result<()> {
        let store = Arc::new(open_store(&self.folder)?);
        let merger = self.service.keep(&store)?;
        self.store = Some((store, merger));
        Ok(())
    }

    fn ask(&self, query: &Query, limit: Duration) -> anyhow::Result<Answer> {
        let snapshot = self.store()?.snapshot();
        let mut asked = self.asked.lock().expect("nothing panics under this lock");
        // The same as long as the data is: it knows which queries end in time.
        let known = asked.take().filter(|(before, _)| Arc::ptr_eq(before, &snapshot)).map(|(_, asked)| asked);
        let new = || Asked::of(self.service.clone(), Dataset::new(Arc::clone(&snapshot)), false);
        asked.insert((Arc::clone(&snapshot), known.unwrap_or_else(new))).1.ask(query, limit)
    }

    fn update(&self, text: &str) -> anyhow::Result<()> {
        self.service.update_store(text, self.store()?, SessionOptions::default())?;
        Ok(())
    }
}
