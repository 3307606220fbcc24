//! Stores as sources of an archive ([`crate::copies`]): an open one, or the files of one that another process may be
//! writing to.

use crate::copies::{ArchivedRecords, CopyStanding, Offer};
use crate::error::{StoreError, Unread};
use crate::record::epoch_of;
use crate::store::{KIND, Store};
use crate::turn::lock;
use std::sync::Arc;
use vicus_disk::{BaseFile, DiskError, EpochStart, Recovered};
use vicus_files::Directory;

/// A store that is archived.
pub trait ArchiveSource {
    /// Its base, and how far it is.
    fn offer(&self) -> Offer;

    /// Opens a file of the base, which is [checked](BaseFile::read_checked) as it is sent; `None` if another base has
    /// taken its place since.
    ///
    /// # Errors
    /// It is damaged, or the system refuses.
    fn open_base(&self, name: &str) -> Result<Option<Arc<BaseFile>>, StoreError>;

    /// Records behind this one, of about this number of bytes. `None` if the log does not hold the first of them any
    /// more: a base has it. No records if there are none.
    ///
    /// # Errors
    /// The log can't be read, or the system refuses.
    fn records(&self, after: u64, most_bytes: usize) -> Result<Option<ArchivedRecords>, StoreError>;
}

impl ArchiveSource for Store {
    fn offer(&self) -> Offer {
        Store::offer(self)
    }

    fn open_base(&self, name: &str) -> Result<Option<Arc<BaseFile>>, StoreError> {
        Ok(lock(&self.state).files.open_checked_base(name)?)
    }

    fn records(&self, after: u64, most_bytes: usize) -> Result<Option<ArchivedRecords>, StoreError> {
        let mut state = lock(&self.state);
        let standing = state.standing();
        if after >= standing.last {
            return Ok(Some(ArchivedRecords { after: standing.last, from: standing, records: Vec::new() }));
        }
        let Some(part) = state.files.log().part(after + 1, None) else { return Ok(None) };
        drop(state);
        let records = match part.read(most_bytes) {
            Ok((records, _)) => records,
            // A merge has removed the file meanwhile.
            Err(DiskError::File(error)) if error.is_missing() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let from = standing.up_to(after + records.len() as u64);
        Ok((!records.is_empty()).then_some(ArchivedRecords { from, after, records }))
    }
}

impl Store {
    /// From now on, the log is kept behind this record as it is for a follower that has asked for it.
    pub fn keep_for_archive(&self, after: u64) {
        let mut state = lock(&self.state);
        state.copies.archived = Some(after);
        state.keep_log();
    }
}

/// The files of a store as they were at one moment.
#[derive(Debug)]
pub struct Frozen {
    offer: Offer,
    bases: Vec<Arc<BaseFile>>,
    records: Vec<Vec<u8>>,
}

/// Another base may take the place of one this often while the log is synced.
const TRIES: usize = 5;

impl Frozen {
    /// Reads a store beside a process that may be writing to it.
    ///
    /// # Errors
    /// There is no store, it is damaged or newer, or the system refuses.
    pub fn read(directory: &dyn Directory) -> Result<Frozen, StoreError> {
        let mut tries = 0;
        loop {
            let recovered = Recovered::read(directory, KIND)?;
            if let Some(broken) = recovered.broken {
                return Err(StoreError::Unread(Box::new(Unread(broken))));
            }
            // A frame that its writer has not synced may still be lost, and its numbers given to other records.
            match recovered.sync(directory) {
                Err(DiskError::File(error)) if error.is_missing() && tries < TRIES => tries += 1,
                Err(error) => return Err(error.into()),
                Ok(()) => {
                    let offer = offer_of(&recovered);
                    return Ok(Frozen { offer, bases: recovered.bases, records: recovered.records });
                }
            }
        }
    }
}

fn offer_of(recovered: &Recovered) -> Offer {
    let manifest = &recovered.manifest;
    let lineage = &manifest.lineage;
    let mut epochs = lineage.epochs.clone();
    for (record, first) in recovered.records.iter().zip(manifest.included + 1..) {
        let known = epochs.last().map(|start| start.epoch).unwrap_or_default();
        epochs.extend(epoch_of(record).filter(|epoch| known < *epoch).map(|epoch| EpochStart { epoch, first }));
    }
    let last = manifest.included + recovered.records.len() as u64;
    let (copy, follows, promised) = (lineage.copy, lineage.follows, lineage.promised);
    let from = CopyStanding { store: manifest.store, copy, follows, promised, epochs, last };
    Offer { from, included: manifest.included, files: manifest.files.clone() }
}

impl ArchiveSource for Frozen {
    fn offer(&self) -> Offer {
        self.offer.clone()
    }

    fn open_base(&self, name: &str) -> Result<Option<Arc<BaseFile>>, StoreError> {
        let files = self.offer.files.iter().zip(&self.bases);
        Ok(files.filter(|(entry, _)| entry.name == name).map(|(_, file)| Arc::clone(file)).next())
    }

    fn records(&self, after: u64, most_bytes: usize) -> Result<Option<ArchivedRecords>, StoreError> {
        let Offer { from, included, .. } = &self.offer;
        if after < *included {
            return Ok(None);
        }
        let mut left = most_bytes;
        let rest = self.records.iter().skip((after - included) as usize);
        let records: Vec<Vec<u8>> = rest
            .take_while(|record| {
                let takes = left > 0;
                left = left.saturating_sub(record.len());
                takes
            })
            .cloned()
            .collect();
        let from = from.clone().up_to(after.min(from.last) + records.len() as u64);
        Ok(Some(ArchivedRecords { after: after.min(from.last), from, records }))
    }
}
