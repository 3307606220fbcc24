//! The dictionary of a chunk: terms in the order of their first occurrence, found by hash.

use crate::ids::{Id, TermKind};
use crate::term::Encoded;
use hashbrown::HashTable;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_nano_inline};
use vicus_flow::{Grow, NoMemory};

/// Terms by local number. Each is an *entry*: a tag and a key, or the eight bytes of an inlined id. Entries are ordered
/// as ids are.
pub(crate) struct Terms {
    entries: Entries,
    table: HashTable<TableEntry>,
    /// The key of the hash function. Without knowing it, authors of data can't choose many terms with the same hash.
    secrets: RapidSecrets,
}

/// A table entry has half of the hash, so most different entries are not compared, and none is hashed again when the
/// table grows.
#[derive(Clone, Copy)]
struct TableEntry {
    hash: u32,
    number: u32,
}

impl TableEntry {
    // The table uses the low bits for the place and the high bits for a tag.
    fn wide(hash: u32) -> u64 {
        u64::from(hash) << 32 | u64::from(hash)
    }
}

/// Entries, one after the other.
#[derive(Default)]
pub(crate) struct Entries {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Entries {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.text[start..self.ends[number]]
    }

    fn truncate(&mut self, length: usize) {
        self.ends.truncate(length);
        self.text.truncate(self.ends.last().copied().unwrap_or(0));
    }
}

impl Terms {
    pub(crate) fn new(secrets: RapidSecrets) -> Terms {
        Terms { entries: Entries::default(), table: HashTable::new(), secrets }
    }

    pub(crate) fn secrets(&self) -> RapidSecrets {
        self.secrets
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many bytes the entries have.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.entries.text.len() as u64
    }

    /// The entry of a term.
    pub(crate) fn entry(&self, number: u32) -> &[u8] {
        self.entries.get(number)
    }

    pub(crate) fn into_entries(self) -> Entries {
        self.entries
    }

    /// Makes room for this many terms, with this many bytes of entries together, so interning them allocates nothing.
    #[inline]
    pub(crate) fn make_room(&mut self, terms: usize, bytes: usize) -> Result<(), NoMemory> {
        self.entries.text.grow(bytes)?;
        self.entries.ends.grow(terms)?;
        if self.table.capacity() - self.table.len() < terms { self.grow_table(terms) } else { Ok(()) }
    }

    #[cold]
    fn grow_table(&mut self, terms: usize) -> Result<(), NoMemory> {
        let refused = NoMemory { bytes: (2 * (self.table.len() + terms) * size_of::<TableEntry>()) as u64 };
        vicus_flow::refusable(|| self.table.try_reserve(terms, |slot| TableEntry::wide(slot.hash))).map_err(|_| refused)
    }

    /// The number of a term; a new term gets one now. The caller must have made room for it.
    pub(crate) fn intern(&mut self, term: Encoded<'_>) -> u32 {
        match term {
            Encoded::Key(kind, key) => self.intern_key(kind, key.as_bytes()),
            Encoded::Inlined(id) => self.intern_id(id),
        }
    }

    pub(crate) fn intern_key(&mut self, kind: TermKind, key: &[u8]) -> u32 {
        self.intern_if(kind as u8, key, |_| true).expect("all are welcome")
    }

    pub(crate) fn intern_id(&mut self, id: Id) -> u32 {
        let [tag, payload @ ..] = id.bits().to_be_bytes();
        self.intern_if(tag, &payload, |_| true).expect("all are welcome")
    }

    /// The number of a term; `None` if it is new and `is_valid` rejects it. A known term was valid before. The caller
    /// must have made room for it ([`Terms::make_room`]).
    pub(crate) fn intern_if(&mut self, tag: u8, key: &[u8], is_valid: impl FnOnce(&[u8]) -> bool) -> Option<u32> {
        let hash = hash(&self.secrets, tag, key);
        let same = |slot: &TableEntry| {
            slot.hash == hash && self.entries.get(slot.number).split_first().is_some_and(|(&t, k)| t == tag && k == key)
        };
        if let Some(slot) = self.table.find(TableEntry::wide(hash), same) {
            return Some(slot.number);
        }
        if !is_valid(key) {
            return None;
        }
        let number = u32::try_from(self.entries.len()).expect("fewer than 2^32 terms in a chunk");
        debug_assert!(self.entries.text.capacity() - self.entries.text.len() > key.len(), "there is room for its text");
        debug_assert!(self.table.capacity() > self.table.len(), "there is room for it");
        self.entries.text.push(tag);
        self.entries.text.extend_from_slice(key);
        self.entries.ends.push(self.entries.text.len());
        self.table
            .insert_unique(TableEntry::wide(hash), TableEntry { hash, number }, |slot| TableEntry::wide(slot.hash));
        Some(number)
    }

    /// Removes all but the first `length` terms, to undo a line that turned out to be malformed.
    pub(crate) fn truncate(&mut self, length: usize) {
        for number in length..self.entries.len() {
            let number = number as u32;
            let (&tag, key) = self.entries.get(number).split_first().expect("an entry has a tag");
            let hash = hash(&self.secrets, tag, key);
            if let Ok(slot) = self.table.find_entry(TableEntry::wide(hash), |slot| slot.number == number) {
                slot.remove();
            }
        }
        self.entries.truncate(length);
    }
}

#[inline]
fn hash(secrets: &RapidSecrets, tag: u8, key: &[u8]) -> u32 {
    let hash = rapidhash_v3_nano_inline::<true, false>(key, secrets);
    (hash ^ hash >> 32) as u32 ^ u32::from(tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::crafted;
    use hashbrown::HashSet;

    #[test]
    fn forgotten_terms_are_new_again() {
        let mut terms = Terms::new(RapidSecrets::seed(0));
        for round in 0..3 {
            terms.make_room(1001, 5005).unwrap();
            for name in 0..1000_u32 {
                assert_eq!(terms.intern_key(TermKind::Iri, &name.to_be_bytes()), name, "in round {round}");
            }
            assert_eq!(terms.intern_key(TermKind::String, &7_u32.to_be_bytes()), 1000, "a kind is part of a term");
            assert_eq!(terms.intern_key(TermKind::Iri, &7_u32.to_be_bytes()), 7);
            terms.truncate(5);
            assert_eq!(terms.len(), 5);
            assert_eq!(terms.intern_if(TermKind::Iri as u8, &7_u32.to_be_bytes(), |_| false), None);
        }
    }

    /// What happened: terms were hashed without a key, and a file of ten thousand terms with the same hash compared
    /// each with all before it.
    #[test]
    fn terms_chosen_to_collide_do_not() {
        use std::hash::Hasher;
        let crafted = crafted::texts();
        let known = |text: &String| {
            let mut hasher = rustc_hash::FxHasher::default();
            hasher.write(text.as_bytes());
            hasher.finish()
        };
        assert!(crafted.iter().all(|text| known(text) == known(&crafted[0])), "they were chosen for it");
        for seed in 0..20 {
            let secrets = RapidSecrets::seed(seed);
            let hashes: HashSet<u32, rustc_hash::FxBuildHasher> =
                crafted.iter().map(|text| hash(&secrets, 1, text.as_bytes())).collect();
            // Among so many random texts, 0.01 pairs are expected to share a hash.
            assert!(hashes.len() >= crafted.len() - 2, "seed {seed}: {} hashes", hashes.len());
        }
    }
}
