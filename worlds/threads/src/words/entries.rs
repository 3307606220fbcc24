//! The words of a stripe of the table: the empty ones, and those with waiting threads.

use super::full_empty::{Entry, hash};
use std::ops::{Index, IndexMut};

/// The entries of a stripe.
///
/// The first one lies beside the stripe's lock, in the same cache line: most stripes have one at most, and a word
/// handed to and fro then costs its own line and this one. The others are in a hash table with linear probing, and
/// removals leave no gaps in it.
#[repr(C)] // the first one first, beside the lock
pub(crate) struct Entries {
    first: Entry,
    /// A power of two, at most half in use, or none.
    places: Box<[Entry]>,
    used: usize,
}

/// The position of an entry, until one is added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At(usize);

impl At {
    const FIRST: At = At(usize::MAX);
}

#[expect(unsafe_code, reason = "it has pointers")]
// SAFETY: they are to waits, and these are used under the stripe's lock.
unsafe impl Send for Entries {}

impl Entries {
    pub(crate) fn new() -> Entries {
        Entries { first: Entry::FREE, places: Box::new([]), used: 0 }
    }

    #[inline]
    pub(crate) fn find(&self, address: usize) -> Option<At> {
        if self.first.address == address {
            return Some(At::FIRST);
        }
        if self.used == 0 {
            return None;
        }
        let mut at = self.place_of(address);
        loop {
            match self.places[at].address {
                found if found == address => return Some(At(at)),
                0 => return None,
                _ => at = (at + 1) & (self.places.len() - 1),
            }
        }
    }

    fn place_of(&self, address: usize) -> usize {
        hash(address) & (self.places.len() - 1)
    }

    #[inline]
    pub(crate) fn insert(&mut self, entry: Entry) -> At {
        if self.first.address == 0 {
            self.first = entry;
            return At::FIRST;
        }
        self.insert_beside(entry)
    }

    fn insert_beside(&mut self, entry: Entry) -> At {
        if (self.used + 1) * 2 > self.places.len() {
            self.grow();
        }
        let mut at = self.place_of(entry.address);
        while self.places[at].address != 0 {
            at = (at + 1) & (self.places.len() - 1);
        }
        self.places[at] = entry;
        self.used += 1;
        At(at)
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![Entry::FREE; (self.places.len() * 2).max(8)].into_boxed_slice();
        self.used = 0;
        for old in std::mem::replace(&mut self.places, larger) {
            if old.address != 0 {
                self.insert_beside(old);
            }
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, at: At) {
        if at == At::FIRST {
            self.first.address = 0;
        } else {
            self.remove_beside(at.0);
        }
    }

    fn remove_beside(&mut self, mut at: usize) {
        let mask = self.places.len() - 1;
        self.used -= 1;
        self.places[at] = Entry::FREE;
        let mut next = (at + 1) & mask;
        while self.places[next].address != 0 {
            let home = self.place_of(self.places[next].address);
            // Whether the gap lies between its home and its place.
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(at) & mask) {
                self.places[at] = self.places[next];
                self.places[next] = Entry::FREE;
                at = next;
            }
            next = (next + 1) & mask;
        }
    }

    #[inline]
    pub(crate) fn forget_unneeded(&mut self, at: At) {
        if !self[at].is_needed() {
            self.remove(at);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        std::iter::once(&self.first).chain(&self.places).filter(|entry| entry.address != 0)
    }
}

impl Index<At> for Entries {
    type Output = Entry;

    #[inline]
    fn index(&self, at: At) -> &Entry {
        if at == At::FIRST { &self.first } else { &self.places[at.0] }
    }
}

impl IndexMut<At> for Entries {
    #[inline]
    fn index_mut(&mut self, at: At) -> &mut Entry {
        if at == At::FIRST { &mut self.first } else { &mut self.places[at.0] }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::numbers_by_chance;
    use super::*;
    use std::collections::BTreeMap;

    /// Entries as a map of the standard library has them, after operations by chance; many addresses share a place.
    #[test]
    fn entries_are_those_that_were_inserted_and_not_removed() {
        for seed in 0..200_u64 {
            let mut next = numbers_by_chance(seed);
            let addresses = 1 + next(40);
            let mut entries = Entries::new();
            let mut model = BTreeMap::new();
            for _ in 0..400 {
                let address = 8 * (1 + next(addresses)) as usize;
                let is_full = next(2) == 0;
                match entries.find(address) {
                    None => {
                        assert!(model.insert(address, is_full).is_none(), "seed {seed}");
                        let at = entries.insert(Entry::new(address, is_full));
                        assert_eq!(entries.find(address), Some(at), "seed {seed}");
                    }
                    Some(at) if next(3) == 0 => {
                        entries[at].is_full = is_full;
                        model.insert(address, is_full);
                    }
                    Some(at) => {
                        assert_eq!(Some(entries[at].is_full), model.remove(&address), "seed {seed}");
                        entries.remove(at);
                    }
                }
                let found: BTreeMap<_, _> = entries.iter().map(|entry| (entry.address, entry.is_full)).collect();
                assert_eq!(found, model, "seed {seed}");
                assert_eq!(entries.iter().count(), model.len(), "seed {seed}");
            }
        }
    }
}
