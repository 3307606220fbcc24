//! Reading a store's files again and again while another process writes to them.

use crate::error::{StoreError, Unread};
use crate::store::{KIND, StorePlace, replayed, snapshot_of};
use std::sync::Arc;
use vicus_disk::Recovered;
use vicus_files::Directory;
use vicus_flow::library::HashKey;
use vicus_rdf::{Interrupt, Snapshot};

/// A store's files, read again and again. A reading that finds the base of the one before, and its records, applies the
/// later records alone.
#[derive(Debug, Default)]
pub struct StoreReader {
    last: Option<LastReading>,
}

#[derive(Debug)]
struct LastReading {
    /// The number of the manifest, which tells the base.
    generation: u64,
    /// A number of the records behind the base.
    checksum: u32,
    snapshot: Arc<Snapshot>,
    place: StorePlace,
}

/// A number made of records: another writer may have cut some of them, and have put others in their place.
fn checksum(records: &[Vec<u8>]) -> u32 {
    let add = |sum, record: &Vec<u8>| {
        let sum = crc32c::crc32c_append(sum, &(record.len() as u64).to_le_bytes());
        crc32c::crc32c_append(sum, record)
    };
    records.iter().fold(0, add)
}

impl StoreReader {
    /// The data up to this record of the log, if there are later ones, and the place that was read: a later one if a
    /// base already includes later records. If the reading before went up to this record, the files are not read.
    ///
    /// # Errors
    /// There is no store, it is damaged or newer, or the system refuses.
    pub fn read_at(
        &mut self,
        directory: &dyn Directory,
        sequence: Option<u64>,
    ) -> Result<(Arc<Snapshot>, StorePlace), StoreError> {
        if let Some(last) = self.last.as_ref().filter(|last| Some(last.place.sequence) == sequence) {
            return Ok((Arc::clone(&last.snapshot), last.place));
        }
        let mut recovered = Recovered::read(directory, KIND)?;
        let included = recovered.manifest.included;
        if let Some(sequence) = sequence {
            recovered.records.truncate(usize::try_from(sequence.saturating_sub(included)).unwrap_or(usize::MAX));
        }
        let records = &recovered.records;
        let place = StorePlace { store: recovered.manifest.store, sequence: included + records.len() as u64 };
        let generation = recovered.manifest.generation;
        let before = self.last.as_ref().filter(|last| last.generation == generation && last.place.store == place.store);
        let before = before.and_then(|last| {
            let count = usize::try_from(last.place.sequence.checked_sub(included)?).ok()?;
            (checksum(records.get(..count)?) == last.checksum).then_some((last, count))
        });
        let snapshot = match (before, &recovered.broken) {
            (_, Some(broken)) => return Err(StoreError::Unread(Box::new(Unread(broken.clone())))),
            (Some((last, count)), None) => {
                let later = records[count..].iter().zip(last.place.sequence + 1..);
                let numbered = later.map(|(record, number)| (&record[..], number));
                replayed(Arc::clone(&last.snapshot), HashKey::of_seed(place.store), numbered, &Interrupt::never())?
            }
            (None, None) => snapshot_of(directory, &recovered)?,
        };
        let checksum = checksum(records);
        self.last = Some(LastReading { generation, checksum, snapshot: Arc::clone(&snapshot), place });
        Ok((snapshot, place))
    }
}
