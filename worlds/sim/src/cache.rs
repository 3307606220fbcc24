//! A cache: what was used last, in pieces of the arrays.
//!
//! A piece is a granule: the largest stretch that the program's accesses never cut, such as a row of a block. Conflicts
//! between lines are not modelled.

use rustc_hash::FxHashMap;

const NONE: u32 = u32::MAX;

/// The least recently used granule goes first.
pub(crate) struct Cache {
    capacity: u64,
    used: u64,
    slots: Vec<Slot>,
    index: FxHashMap<u32, u32>,
    /// The slots that hold nothing.
    free: Vec<u32>,
    youngest: u32,
    oldest: u32,
}

struct Slot {
    granule: u32,
    bytes: u32,
    /// Of the granule when it was put; a later one was written by somebody else since.
    version: u32,
    dirty: bool,
    younger: u32,
    older: u32,
}

impl Cache {
    pub(crate) fn new(capacity: u64) -> Cache {
        Cache {
            capacity,
            used: 0,
            slots: Vec::new(),
            index: FxHashMap::default(),
            free: Vec::new(),
            youngest: NONE,
            oldest: NONE,
        }
    }

    /// Whether it holds this version of a granule, which is then the youngest.
    pub(crate) fn holds(&mut self, granule: u32, version: u32) -> bool {
        let Some(&at) = self.index.get(&granule) else { return false };
        if self.slots[at as usize].version != version {
            return false;
        }
        self.unlink(at);
        self.link(at);
        true
    }

    /// Keeps a granule, and hands out the dirty ones that have to go for it, with their bytes. Says whether there is room.
    pub(crate) fn put(
        &mut self,
        granule: u32,
        bytes: u32,
        version: u32,
        dirty: bool,
        evicted: &mut Vec<(u32, u32)>,
    ) -> bool {
        if u64::from(bytes) > self.capacity {
            return false;
        }
        let mut dirty = dirty;
        if let Some(&at) = self.index.get(&granule) {
            let slot = &self.slots[at as usize];
            // What another core wrote since is in memory, or will be written by that core's cache.
            dirty |= slot.dirty && slot.version == version;
            self.remove(at);
        }
        while self.used + u64::from(bytes) > self.capacity {
            let slot = &self.slots[self.oldest as usize];
            if slot.dirty {
                evicted.push((slot.granule, slot.bytes));
            }
            self.remove(self.oldest);
        }
        let slot = Slot { granule, bytes, version, dirty, younger: NONE, older: NONE };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        self.index.insert(granule, at);
        self.used += u64::from(bytes);
        self.link(at);
        true
    }

    fn remove(&mut self, at: u32) {
        self.unlink(at);
        let slot = &self.slots[at as usize];
        self.index.remove(&slot.granule);
        self.used -= u64::from(slot.bytes);
        self.free.push(at);
    }

    fn link(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        (slot.older, slot.younger) = (self.youngest, NONE);
        match self.youngest {
            NONE => self.oldest = at,
            youngest => self.slots[youngest as usize].younger = at,
        }
        self.youngest = at;
    }

    fn unlink(&mut self, at: u32) {
        let Slot { older, younger, .. } = self.slots[at as usize];
        match older {
            NONE => self.oldest = younger,
            older => self.slots[older as usize].younger = younger,
        }
        match younger {
            NONE => self.youngest = older,
            younger => self.slots[younger as usize].older = older,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;
    use std::collections::VecDeque;

    #[test]
    fn the_least_recently_used_goes_and_a_dirty_one_says_so() {
        let (mut cache, mut evicted) = (Cache::new(300), Vec::new());
        for granule in 0..3 {
            assert!(cache.put(granule, 100, 0, granule == 1, &mut evicted));
        }
        assert!(cache.holds(0, 0));
        cache.put(3, 100, 0, false, &mut evicted);
        assert_eq!(evicted, [(1, 100)], "0 was used since");
        assert!(!cache.holds(1, 0) && cache.holds(0, 0) && cache.holds(2, 0));
        assert!(!cache.holds(2, 1), "somebody has written it since");
        assert!(!cache.put(4, 301, 0, false, &mut evicted), "larger than the cache");
    }

    #[test]
    fn it_is_a_list_in_the_order_of_use() {
        for seed in 0..20 {
            let (mut chance, mut evicted) = (Chance::new(seed), Vec::new());
            let mut cache = Cache::new(1000);
            let mut list: VecDeque<(u32, u32)> = VecDeque::new();
            for _ in 0..2000 {
                let granule = chance.below(30) as u32;
                let found = list.iter().position(|&(other, _)| other == granule);
                assert_eq!(cache.holds(granule, 0), found.is_some(), "seed {seed}");
                let bytes = 1 + chance.below(200) as u32;
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
