//! The bytes of one file of a fake disk: the durable ones, those read by processes, and the changes between the two.

use super::chance::Chance;

/// The bytes a disk writes in one step. File systems write 4096 bytes; when power goes, a disk may have written some of
/// their sectors.
const SECTOR: usize = 512;

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    durable: Vec<u8>,
    pub(super) cached: Vec<u8>,
    /// The changes since the last sync, in order. Without failed syncs, `cached` is `durable` after these changes.
    changes: Vec<Change>,
    /// By how many values it is open.
    pub(super) open: usize,
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(offset, written) => {
                let end = offset + written.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*offset..end].copy_from_slice(written);
            }
            Change::Length(length) => bytes.resize(*length, 0),
        }
    }

    /// Whether it changes bytes of the sector that begins there.
    fn touches(&self, sector: usize) -> bool {
        match self {
            Change::Write(offset, written) => *offset < sector + SECTOR && sector < offset + written.len(),
            Change::Length(length) => *length < sector + SECTOR,
        }
    }

    fn apply_to_sector(&self, sector: usize, bytes: &mut [u8; SECTOR]) {
        match self {
            Change::Write(offset, written) => {
                let (begin, end) = ((*offset).max(sector), (offset + written.len()).min(sector + SECTOR));
                bytes[begin - sector..end - sector].copy_from_slice(&written[begin - offset..end - offset]);
            }
            Change::Length(length) => bytes[length.saturating_sub(sector)..].fill(0),
        }
    }
}

impl Content {
    pub(super) fn durable(bytes: &[u8]) -> Content {
        Content { durable: bytes.to_vec(), cached: bytes.to_vec(), changes: Vec::new(), open: 0 }
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.change(Change::Write(offset, bytes.to_vec()));
    }

    pub(super) fn set_len(&mut self, bytes: usize) {
        self.change(Change::Length(bytes));
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.cached);
        self.changes.push(change);
    }

    pub(super) fn sync(&mut self) {
        for change in self.changes.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// Power is lost: later reads give the durable bytes, and a part of the changes.
    pub(super) fn crash(&mut self, chance: &mut Chance, likely: u64) {
        self.crash_behind_the_cache(chance, likely);
        self.cached.clone_from(&self.durable);
    }

    /// A sync fails: a part of the changes is durable, the others never will be, and processes read on as if they were.
    pub(super) fn crash_behind_the_cache(&mut self, chance: &mut Chance, likely: u64) {
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return;
        }
        // All lengths the file had, and the longest, in whole sectors.
        let mut lengths = vec![self.durable.len()];
        for change in &changes {
            let before = *lengths.last().expect("it has a length");
            lengths.push(match change {
                Change::Write(offset, written) => before.max(offset + written.len()),
                Change::Length(length) => *length,
            });
        }
        let longest = *lengths.iter().max().expect("it has a length");
        let length = lengths[kept(chance, likely, changes.len())];
        self.durable.resize(longest.next_multiple_of(SECTOR), 0);
        for (at, bytes) in self.durable.as_chunks_mut::<SECTOR>().0.iter_mut().enumerate() {
            let touching: Vec<&Change> = changes.iter().filter(|change| change.touches(at * SECTOR)).collect();
            let kept = kept(chance, likely, touching.len());
            touching[..kept].iter().for_each(|change| change.apply_to_sector(at * SECTOR, bytes));
        }
        self.durable.truncate(length);
    }
}

/// The number of changes to the same thing, of `changes`, after which the disk last wrote it.
fn kept(chance: &mut Chance, likely: u64, changes: usize) -> usize {
    if chance.happens(likely) { changes } else { chance.below(changes as u64 + 1) as usize * usize::from(likely > 0) }
}
