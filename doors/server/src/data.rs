//! The server's data: a store on disk, or a dataset in memory.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use vicus_service::data::{CommitError, Snapshot, Store, StoreError};
use vicus_service::{
    CommitWatch, Dataset, Error, Service, SessionOptions, SharedDataset, StoreMerger, StoreUpdateError,
};

/// Data for queries; updates may change it meanwhile.
pub enum ServerData {
    /// A store on disk. Its merger merges changes in the background.
    Store {
        /// The store.
        store: Arc<Store>,
        /// Merges; ends with the server.
        merger: Option<StoreMerger>,
    },
    /// Loaded files. Changes by updates are lost with the process.
    Memory(Dataset),
}

/// The data, and how often it has changed since the server started.
pub(crate) struct ServedData {
    data: Kind,
    last: Mutex<Version>,
    /// The identity of this start of the server.
    started: u64,
    /// Told of commits of the store.
    changes: watch::Sender<()>,
    /// Keeps the store telling it.
    _watch: Option<CommitWatch>,
}

enum Kind {
    Store { store: Arc<Store>, merger: Mutex<Option<StoreMerger>> },
    Memory(SharedDataset),
}

/// The data at a moment.
#[derive(Clone)]
pub(crate) struct Version {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) number: u64,
    /// The number of the last record of its store.
    pub(crate) sequence: Option<u64>,
}

impl ServedData {
    pub(crate) fn new(data: ServerData, started: u64) -> ServedData {
        let data = match data {
            ServerData::Store { store, merger } => Kind::Store { store, merger: Mutex::new(merger) },
            ServerData::Memory(dataset) => Kind::Memory(SharedDataset::new(dataset)),
        };
        let (snapshot, sequence) = data.snapshot();
        let last = Mutex::new(Version { snapshot, number: 1, sequence });
        let changes = watch::Sender::new(());
        let told = changes.clone();
        let tell = move || {
            told.send_replace(());
        };
        let watch = match &data {
            Kind::Store { store, .. } => Some(store.watch(Arc::new(tell))),
            Kind::Memory(_) => None,
        };
        ServedData { data, last, started, changes, _watch: watch }
    }

    /// The store, unless the data is in memory.
    pub(crate) fn store(&self) -> Option<&Arc<Store>> {
        match &self.data {
            Kind::Store { store, .. } => Some(store),
            Kind::Memory(_) => None,
        }
    }

    /// Tells of each commit of the store.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// The number of the store's last visible record.
    pub(crate) fn sequence(&self) -> Option<u64> {
        self.store().map(|store| store.numbered_snapshot().1)
    }

    /// The data as it is now.
    pub(crate) fn now(&self) -> Version {
        let (snapshot, sequence) = self.data.snapshot();
        let mut last = lock(&self.last);
        let mut before = None;
        if !Arc::ptr_eq(&last.snapshot, &snapshot) {
            // Holds the version before until here, so a new one cannot have its address.
            let number = last.number + 1;
            before = Some(std::mem::replace(&mut *last, Version { snapshot, number, sequence }));
        } else {
            // A record that changes no data, or an older look than that of another caller.
            last.sequence = last.sequence.max(sequence);
        }
        let now = last.clone();
        drop(last);
        // Not under the lock: freeing much takes time.
        drop(before);
        now
    }

    /// Whether the data has changed since the last call of [`ServedData::now`]. The data of that call is held until the
    /// next one.
    pub(crate) fn has_changed(&self) -> bool {
        !Arc::ptr_eq(&lock(&self.last).snapshot, &self.data.snapshot().0)
    }

    /// The number of the last call of [`ServedData::now`].
    pub(crate) fn last_version(&self) -> u64 {
        lock(&self.last).number
    }

    /// The number of [`ServedData::now`].
    pub(crate) fn version(&self) -> u64 {
        self.now().number
    }

    /// The name of a version of the data, for this start of the server.
    pub(crate) fn tag(&self, version: u64) -> String {
        format!("{:x}-{version}", self.started)
    }

    pub(crate) fn is_store(&self) -> bool {
        matches!(self.data, Kind::Store { .. })
    }

    /// Carries out an update, all of it or nothing.
    pub(crate) fn update(&self, service: &Service, text: &str, options: SessionOptions) -> Result<Updated, NotUpdated> {
        let updated = match &self.data {
            Kind::Store { store, .. } => {
                let stored = service.update_store(text, store, options)?;
                let sequence = stored.number.or_else(|| self.sequence());
                Updated { operations: stored.updated.operations, rows: stored.updated.rows, sequence }
            }
            Kind::Memory(dataset) => {
                let mut draft = dataset.draft();
                let updated = service.update(text, &mut draft, options)?;
                draft.commit();
                Updated { operations: updated.operations, rows: updated.rows, sequence: None }
            }
        };
        // Drops the replaced version now, without waiting for the next request.
        drop(self.now());
        Ok(updated)
    }

    /// Ends merging, at the end of the server.
    pub(crate) fn close(&self) {
        if let Kind::Store { merger, .. } = &self.data {
            drop(lock(merger).take());
        }
    }
}

impl Kind {
    fn snapshot(&self) -> (Arc<Snapshot>, Option<u64>) {
        match self {
            Kind::Store { store, .. } => {
                let (snapshot, sequence) = store.numbered_snapshot();
                (snapshot, Some(sequence))
            }
            Kind::Memory(dataset) => (Arc::clone(dataset.dataset().snapshot()), None),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The result of an update.
pub(crate) struct Updated {
    pub(crate) operations: usize,
    pub(crate) rows: u64,
    /// The number of its record.
    pub(crate) sequence: Option<u64>,
}

/// Why an update was not carried out.
pub(crate) enum NotUpdated {
    Update(Error),
    Store(Error),
    /// The update may have been carried out, or not.
    InDoubt(CommitError),
    /// The store takes no changes here: it is a copy.
    NotHere(StoreError),
}

impl From<Error> for NotUpdated {
    fn from(error: Error) -> NotUpdated {
        NotUpdated::Update(error)
    }
}

impl From<StoreUpdateError> for NotUpdated {
    fn from(error: StoreUpdateError) -> NotUpdated {
        match error {
            StoreUpdateError::Update(error) => NotUpdated::Update(error),
            // The update asks for more than a limit.
            StoreUpdateError::Commit(CommitError::Failed(error @ StoreError::NotKept(_))) => {
                NotUpdated::Update(Error::Failed { name: "update".to_owned(), error: Arc::new(error) })
            }
            StoreUpdateError::Store(error) | StoreUpdateError::Commit(CommitError::Failed(error))
                if matches!(error, StoreError::Follows | StoreError::Replaced(_)) =>
            {
                NotUpdated::NotHere(error)
            }
            StoreUpdateError::Store(error) => NotUpdated::Store(Error::Store(Arc::new(error))),
            StoreUpdateError::Commit(error) if error.in_doubt() => NotUpdated::InDoubt(error),
            StoreUpdateError::Commit(error) => NotUpdated::Store(Error::Store(Arc::new(error))),
        }
    }
}

impl fmt::Debug for ServerData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ServerData::Store { .. } => "ServerData::Store",
            ServerData::Memory(_) => "ServerData::Memory",
        })
    }
}
