//! Oxigraph on RocksDB.
//!
//! It does not ask RocksDB to sync a commit, and has no setting for that. So that both sides promise the same, a commit
//! is synced here: what makes RocksDB's options of writes goes through a function of this file, which sets that in
//! them. The linker is told so by `build.rs`.

use crate::engine::Engine;
use anyhow::Context;
use oxigraph::io::{RdfFormat, RdfParser};
use oxigraph::sparql::SparqlEvaluator;
use oxigraph::store::Store;
use std::ffi::{c_uchar, c_void};
use std::path::{Path, PathBuf};
use std::time::Duration;
use vicus_bench::oxigraph_side::Oxigraph as Asked;
use vicus_bench::peer::{Answer, Peer, Query};

unsafe extern "C" {
    fn __real_rocksdb_writeoptions_create() -> *mut c_void;
    fn rocksdb_writeoptions_set_sync(options: *mut c_void, sync: c_uchar);
}

/// Takes the place of RocksDB's function.
#[expect(unsafe_code, reason = "the linker finds it by its name, and it calls C")]
#[unsafe(no_mangle)]
extern "C" fn __wrap_rocksdb_writeoptions_create() -> *mut c_void {
    // SAFETY: both are functions of RocksDB with these types (`rocksdb/c.h`), and the second gets what the first has
    // made.
    unsafe {
        let options = __real_rocksdb_writeoptions_create();
        rocksdb_writeoptions_set_sync(options, 1);
        options
    }
}

pub(crate) struct Oxigraph {
    folder: PathBuf,
    store: Option<Store>,
}

impl Oxigraph {
    pub(crate) fn of(folder: &Path) -> Oxigraph {
        Oxigraph { folder: folder.to_owned(), store: None }
    }

    fn store(&self) -> anyhow::Result<&Store> {
        self.store.as_ref().context("it was not opened")
    }
}

impl Engine for Oxigraph {
    fn load(&mut self, file: &Path) -> anyhow::Result<Box<dyn FnOnce() -> anyhow::Result<u64>>> {
        let store = Store::open(&self.folder)?;
        let mut loader = store.bulk_loader();
        loader.parallel_load_from_file(RdfParser::from_format(RdfFormat::NTriples), file)?;
        loader.commit()?;
        store.flush()?;
        Ok(Box::new(move || Ok(store.len()? as u64)))
    }

    fn open(&mut self) -> anyhow::Result<()> {
        self.store = Some(Store::open(&self.folder)?);
        Ok(())
    }

    fn ask(&self, query: &Query, limit: Duration) -> anyhow::Result<Answer> {
        Asked::of(self.store()?.clone()).ask(query, limit)
    }

    fn update(&self, text: &str) -> anyhow::Result<()> {
        Ok(SparqlEvaluator::new().parse_update(text)?.on_store(self.store()?).execute()?)
    }
}
