//! The data of calls, and its loading.

use crate::cancel::{Cancel, Submitted};
use crate::error::Error;
use crate::service::Service;
use crate::session::reading;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vicus_rdf::load::{Load, LoadOptions, Loaded as LoadedSnapshot, Malformed, Progress, Source};
use vicus_rdf::{Placement, Snapshot};
use vicus_store::StorePlace;

/// Loaded data, with its statistics. A clone is the same data; prepared queries keep it alive.
#[derive(Clone)]
pub struct Dataset {
    snapshot: Arc<Snapshot>,
    /// Its place in a store's history, if it is a store's data.
    place: Option<StorePlace>,
}

impl Dataset {
    /// The data of a store.
    pub fn new(snapshot: Arc<Snapshot>) -> Dataset {
        Dataset { snapshot, place: None }
    }

    /// The data of a store, at this place in its history.
    pub fn of_store(snapshot: Arc<Snapshot>, place: StorePlace) -> Dataset {
        Dataset { snapshot, place: Some(place) }
    }

    /// Its place in a store's history, if it is known.
    pub fn place(&self) -> Option<StorePlace> {
        self.place
    }

    /// The snapshot of the data, without this owner.
    pub fn into_snapshot(self) -> Arc<Snapshot> {
        self.snapshot
    }

    /// The snapshot of the data.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Calls a reader of the data outside of a query.
    ///
    /// # Errors
    /// The data is damaged where it reads, or its file lost bytes until then.
    pub fn read<R>(&self, read: impl FnOnce(&Snapshot) -> R) -> Result<R, Error> {
        reading(&self.snapshot, "reader", || read(&self.snapshot))
    }
}

impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dataset").field("triples", &self.snapshot.len()).finish_non_exhaustive()
    }
}

/// Sources being loaded by the threads of a service. Dropping it cancels the loading.
pub struct Loading {
    load: Load,
    submitted: Submitted,
    began: Instant,
}

/// How loading went.
#[derive(Debug)]
pub struct Loaded {
    /// The data.
    pub dataset: Dataset,
    /// How long it took.
    pub time: Duration,
    /// Malformed lines left out.
    pub skipped: u64,
    /// The first of them.
    pub first_skipped: Option<Malformed>,
}

impl Loading {
    pub(crate) fn begin(service: &Service, sources: Vec<Source>, options: LoadOptions, cancel: &Cancel) -> Loading {
        let began = Instant::now();
        let runtime = service.runtime();
        let place =
            |memory: &Arc<_>| Placement { memory: Arc::clone(memory), threads: runtime.plan().threads_by_node() };
        let over = runtime.memory().map(place);
        let load = Load::new(sources, LoadOptions { workers: runtime.plan().threads(), over, ..options });
        let submitted = Submitted::new(runtime.submit(load.model()), cancel);
        Loading { load, submitted, began }
    }

    /// Limits its time from now on.
    ///
    /// # Errors
    /// The system gives no thread for the limit.
    pub(crate) fn end_at(&mut self, until: Instant, service: &Service) -> io::Result<()> {
        self.submitted.end_at(until, service.timer())
    }

    /// How far it is.
    pub fn progress(&self) -> Arc<Progress> {
        self.load.progress()
    }

    /// Waits until it is over, but no longer than this; whether it is.
    pub fn wait_for(&self, at_most: Duration) -> bool {
        self.submitted.request.wait_for(at_most).is_some()
    }

    /// Waits until all is loaded, or until it is cancelled.
    ///
    /// # Errors
    /// A source can't be read or is malformed ([`Error::Failed`] with a [`LoadError`](vicus_rdf::load::LoadError)),
    /// there is no memory, or it was cancelled.
    pub fn finish(self) -> Result<Loaded, Error> {
        self.submitted.request.wait()?;
        let LoadedSnapshot { snapshot, skipped, first_skipped } =
            self.load.finish().expect("its request has ended well");
        let dataset = Dataset::new(Arc::new(snapshot));
        Ok(Loaded { dataset, time: self.began.elapsed(), skipped, first_skipped })
    }
}
