//! A cache of the most recently used pieces of arrays.
//!
//! A piece is a granule: the largest stretch undivided by the program's accesses, such as a row of a block. Conflicts
//! between lines are not modelled.

const NONE: u32 = u32::MAX;

/// A list of granules in the order of their use: the least recently used one is evicted first.
///
/// The slots form the chains of a hash table themselves, and their order is a ring, so that the slot of the oldest
/// granule becomes that of the youngest without a changed link. Kernels with finely divided data spend most of their
/// simulation here; with a general map, which stores the keys a second time and moves them, it would take a third more.
pub(crate) struct Cache {
    capacity: u64,
    used: u64,
    slots: Vec<Slot>,
    /// By hash, the first slot of its chain. Invariant: a power of two, at least 16 and at least twice the number of
    /// slots.
    chains: Vec<u32>,
    /// The empty slots.
    free: Vec<u32>,
    /// The next younger one of it is the oldest.
    youngest: u32,
}

struct Slot {
    granule: u32,
    bytes: u32,
    /// The granule's version when it was put; if there is a later one, another core has written it since.
    version: u32,
    dirty: bool,
    younger: u32,
    older: u32,
    /// The next slot of its chain.
    next: u32,
}

/// A granule on its way through a cache.
#[derive(Clone, Copy)]
pub(crate) struct Passing {
    pub(crate) granule: u32,
    pub(crate) bytes: u32,
    /// Its version before.
    pub(crate) before: u32,
    /// Its version from now on: another one if it is written.
    pub(crate) version: u32,
    /// Whether this cache has to write it back.
    pub(crate) dirty: bool,
}

impl Cache {
    pub(crate) fn new(capacity: u64) -> Cache {
        Cache { capacity, used: 0, slots: Vec::new(), chains: vec![NONE; 16], free: Vec::new(), youngest: NONE }
    }

    /// Looks for this version of a granule, and makes it the youngest if it is there. Returns whether it is.
    pub(crate) fn look_up(&mut self, granule: u32, version: u32) -> bool {
        let Some(at) = self.find(granule) else { return false };
        if self.slots[at as usize].version != version {
            return false;
        }
        self.renew(at);
        true
    }

    /// Whether it has this version of a granule, and has to write it back.
    pub(crate) fn owns(&self, granule: u32, version: u32) -> bool {
        self.find(granule).is_some_and(|at| {
            let slot = &self.slots[at as usize];
            slot.dirty && slot.version == version
        })
    }

    /// Keeps a granule, and puts the evicted dirty granules into `evicted`, with their bytes. Returns whether its
    /// version of before was there, and whether there is room.
    pub(crate) fn pass(&mut self, passing: Passing, evicted: &mut Vec<(u32, u32)>) -> (bool, bool) {
        let Passing { granule, bytes, before, version, dirty } = passing;
        if u64::from(bytes) > self.capacity {
            return (false, false);
        }
        if let Some(at) = self.find(granule) {
            let slot = &mut self.slots[at as usize];
            debug_assert_eq!(slot.bytes, bytes, "a granule is as large as before");
            let was_there = slot.version == before;
            // Data written by another core since is in memory, or this core's cache will write it back.
            slot.dirty = dirty || (slot.dirty && slot.version == version);
            slot.version = version;
            self.renew(at);
            return (was_there, true);
        }
        // The last emptied slot is taken again at once.
        let mut emptied = NONE;
        while self.used + u64::from(bytes) > self.capacity {
            if emptied != NONE {
                self.unlink(emptied);
                self.free.push(emptied);
            }
            emptied = self.slots[self.youngest as usize].younger;
            let slot = &self.slots[emptied as usize];
            if slot.dirty {
                evicted.push((slot.granule, slot.bytes));
            }
            self.forget(emptied);
        }
        let at = match emptied {
            NONE => self.free.pop().unwrap_or(self.slots.len() as u32),
            at => at,
        };
        if 2 * at as usize == self.chains.len() {
            self.grow();
        }
        let chain = self.chain(granule);
        let next = std::mem::replace(&mut self.chains[chain], at);
        self.used += u64::from(bytes);
        if at == emptied {
            // The oldest one: round the ring, the one after it is the oldest now.
            let Slot { younger, older, .. } = self.slots[at as usize];
            self.slots[at as usize] = Slot { granule, bytes, version, dirty, younger, older, next };
            self.youngest = at;
            return (false, true);
        }
        let slot = Slot { granule, bytes, version, dirty, younger: at, older: at, next };
        match self.slots.get_mut(at as usize) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        self.link(at);
        (false, true)
    }

    /// The chain of a granule, by Knuth's multiplicative hash. It also spreads the granules of a column of blocks, with
    /// numbers a power of two apart.
    fn chain(&self, granule: u32) -> usize {
        (granule.wrapping_mul(0x9E37_79B1) >> (u32::BITS - self.chains.len().trailing_zeros())) as usize
    }

    fn find(&self, granule: u32) -> Option<u32> {
        let mut at = self.chains[self.chain(granule)];
        while at != NONE {
            let slot = &self.slots[at as usize];
            if slot.granule == granule {
                return Some(at);
            }
            at = slot.next;
        }
        None
    }

    /// Doubles the number of chains. All slots are in use.
    fn grow(&mut self) {
        self.chains = vec![NONE; 2 * self.chains.len()];
        for at in 0..self.slots.len() {
            let chain = self.chain(self.slots[at].granule);
            self.slots[at].next = std::mem::replace(&mut self.chains[chain], at as u32);
        }
    }

    /// Takes a slot out of its chain.
    fn forget(&mut self, at: u32) {
        let Slot { granule, bytes, next, .. } = self.slots[at as usize];
        let chain = self.chain(granule);
        if self.chains[chain] == at {
            self.chains[chain] = next;
        } else {
            let mut before = self.chains[chain];
            while self.slots[before as usize].next != at {
                before = self.slots[before as usize].next;
            }
            self.slots[before as usize].next = next;
        }
        self.used -= u64::from(bytes);
    }

    /// Makes a slot the youngest.
    fn renew(&mut self, at: u32) {
        if self.youngest == at {
            return;
        }
        // The oldest one follows the youngest already.
        if self.slots[self.youngest as usize].younger != at {
            self.unlink(at);
            self.link(at);
        }
        self.youngest = at;
    }

    /// Puts a slot outside of all rings behind the youngest, and makes it the youngest.
    fn link(&mut self, at: u32) {
        if self.youngest != NONE {
            let (before, after) = (self.youngest, self.slots[self.youngest as usize].younger);
            let slot = &mut self.slots[at as usize];
            (slot.older, slot.younger) = (before, after);
            self.slots[before as usize].younger = at;
            self.slots[after as usize].older = at;
        }
        self.youngest = at;
    }

    fn unlink(&mut self, at: u32) {
        let Slot { older, younger, .. } = self.slots[at as usize];
        self.slots[older as usize].younger = younger;
        self.slots[younger as usize].older = older;
        if self.youngest == at {
            self.youngest = if older == at { NONE } else { older };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;
    use std::collections::VecDeque;

    impl Cache {
        /// Keeps a granule of this version. Returns whether there is room.
        fn put(&mut self, granule: u32, bytes: u32, version: u32, dirty: bool, evicted: &mut Vec<(u32, u32)>) -> bool {
            self.pass(Passing { granule, bytes, before: version, version, dirty }, evicted).1
        }
    }

    #[test]
    fn the_least_recently_used_goes_and_a_dirty_one_is_evicted_visibly() {
        let (mut cache, mut evicted) = (Cache::new(300), Vec::new());
        for granule in 0..3 {
            assert!(cache.put(granule, 100, 0, granule == 1, &mut evicted));
        }
        assert!(cache.look_up(0, 0));
        cache.put(3, 100, 0, false, &mut evicted);
        assert_eq!(evicted, [(1, 100)], "0 was used since");
        assert!(!cache.look_up(1, 0) && cache.look_up(0, 0) && cache.look_up(2, 0));
        assert!(!cache.look_up(2, 1), "another core has written it since");
        cache.put(2, 100, 1, true, &mut evicted);
        assert!(cache.owns(2, 1) && !cache.owns(2, 0) && !cache.owns(0, 0), "one is the last that was written there");
        cache.put(2, 100, 2, false, &mut evicted);
        assert!(!cache.owns(2, 2), "another core has written it since");
        assert!(!cache.put(4, 301, 0, false, &mut evicted), "larger than the cache");
    }

    #[test]
    fn a_dirty_granule_is_written_back_unless_another_core_has_written_it() {
        let (mut cache, mut evicted) = (Cache::new(100), Vec::new());
        cache.put(0, 100, 1, true, &mut evicted);
        cache.put(0, 100, 1, false, &mut evicted);
        cache.put(1, 100, 0, false, &mut evicted);
        assert_eq!(evicted, [(0, 100)], "read again, the same version still is this cache's to write");
        evicted.clear();
        cache.put(0, 100, 1, true, &mut evicted);
        cache.put(0, 100, 2, false, &mut evicted);
        cache.put(1, 100, 0, false, &mut evicted);
        assert_eq!(evicted, [], "another core has written the later one");
    }

    #[test]
    fn granules_are_listed_in_the_order_of_use() {
        for seed in 0..20 {
            let (mut chance, mut evicted) = (Chance::new(seed), Vec::new());
            let mut cache = Cache::new(1000);
            let mut list: VecDeque<(u32, u32)> = VecDeque::new();
            for _ in 0..2000 {
                // The granules of two columns of a matrix, and enough of them to grow the chains.
                let granule = 1024 * chance.below(30) as u32 + 7 * chance.below(2) as u32;
                let found = list.iter().position(|&(other, _)| other == granule);
                assert_eq!(cache.look_up(granule, 0), found.is_some(), "seed {seed}");
                let bytes = 1 + chance.below([30, 200][seed as usize % 2]) as u32;
                let (granule, bytes) = found.map_or((granule, bytes), |at| list.remove(at).unwrap());
                cache.put(granule, bytes, 0, false, &mut evicted);
                list.push_back((granule, bytes));
                while list.iter().map(|&(_, bytes)| bytes).sum::<u32>() > 1000 {
                    list.pop_front();
                }
            }
        }
    }
}
