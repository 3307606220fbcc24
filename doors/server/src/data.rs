//! The server's data: a store on disk, or a dataset in memory.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vicus_service::data::{CommitError, Snapshot, Store, StoreError};
use vicus_service::{Dataset, Error, Keeper, NotStored, Service, SessionOptions, SharedDataset};

/// Data for queries; updates may change it meanwhile.
pub enum Data {
    /// A store on disk. Its keeper merges changes in the background.
    Store {
        /// The store.
        store: Arc<Store>,
        /// Merges; ends with the server.
        keeper: Option<Keeper>,
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
}

enum Kind {
    Store { store: Arc<Store>, keeper: Mutex<Option<Keeper>> },
    Memory(SharedDataset),
}

/// The data at a moment.
#[derive(Clone)]
pub(crate) struct Version {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) number: u64,
}

impl ServedData {
    pub(crate) fn new(data: Data, started: u64) -> ServedData {
        let data = match data {
            Data::Store { store, keeper } => Kind::Store { store, keeper: Mutex::new(keeper) },
            Data::Memory(dataset) => Kind::Memory(SharedDataset::new(dataset)),
        };
        let last = Mutex::new(Version { snapshot: data.snapshot(), number: 1 });
        ServedData { data, last, started }
    }

    /// The data as it is now.
    pub(crate) fn now(&self) -> Version {
        let snapshot = self.data.snapshot();
        let mut last = lock(&self.last);
        let mut before = None;
        if !Arc::ptr_eq(&last.snapshot, &snapshot) {
            // Holds the version before until here, so a new one cannot have its address.
            let number = last.number + 1;
            before = Some(std::mem::replace(&mut *last, Version { snapshot, number }));
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
        !Arc::ptr_eq(&lock(&self.last).snapshot, &self.data.snapshot())
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
                Updated { operations: stored.updated.operations, rows: stored.updated.rows }
            }
            Kind::Memory(dataset) => {
                let mut draft = dataset.draft();
                let updated = service.update(text, &mut draft, options)?;
                draft.commit();
                Updated { operations: updated.operations, rows: updated.rows }
            }
        };
        // Drops the replaced version now, without waiting for the next request.
        drop(self.now());
        Ok(updated)
    }

    /// Ends merging, at the end of the server.
    pub(crate) fn close(&self) {
        if let Kind::Store { keeper, .. } = &self.data {
            drop(lock(keeper).take());
        }
    }
}

impl Kind {
    fn snapshot(&self) -> Arc<Snapshot> {
        match self {
            Kind::Store { store, .. } => store.snapshot(),
            Kind::Memory(dataset) => Arc::clone(dataset.dataset().snapshot()),
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
}

/// Why an update was not carried out.
pub(crate) enum NotUpdated {
    Update(Error),
    Store(Error),
    /// The update may have been carried out, or not.
    InDoubt(CommitError),
}

impl From<Error> for NotUpdated {
    fn from(error: Error) -> NotUpdated {
        NotUpdated::Update(error)
    }
}

impl From<NotStored> for NotUpdated {
    fn from(error: NotStored) -> NotUpdated {
        match error {
            NotStored::Update(error) => NotUpdated::Update(error),
            // The update asks for more than a limit.
            NotStored::Commit(CommitError::Failed(error @ StoreError::NotKept(_))) => {
                NotUpdated::Update(Error::Failed { name: "update".to_owned(), error: Arc::new(error) })
            }
            NotStored::Store(error) => NotUpdated::Store(Error::Store(Arc::new(error))),
            NotStored::Commit(error) if error.in_doubt() => NotUpdated::InDoubt(error),
            NotStored::Commit(error) => NotUpdated::Store(Error::Store(Arc::new(error))),
        }
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Data::Store { .. } => "Data::Store",
            Data::Memory(_) => "Data::Memory",
        })
    }
}
