//! Equal parts of a range of addresses, taken in rows.

/// The slots in use.
#[derive(Debug)]
pub(crate) struct Slots {
    /// A bit for each; set if in use.
    used: Box<[u64]>,
    count: usize,
    /// All below are in use.
    full_below: usize,
}

impl Slots {
    /// `count` slots, all free.
    pub(crate) fn new(count: usize) -> Slots {
        Slots { used: vec![0; count.div_ceil(64)].into(), count, full_below: 0 }
    }

    fn is_used(&self, at: usize) -> bool {
        self.used[at / 64] >> (at % 64) & 1 == 1
    }

    fn set(&mut self, first: usize, count: usize, used: bool) {
        for at in first..first + count {
            debug_assert_ne!(self.is_used(at), used, "slots change hands one by one");
            self.used[at / 64] ^= 1 << (at % 64);
        }
    }

    /// Takes the lowest place with `count` free slots in a row.
    pub(crate) fn take(&mut self, count: usize) -> Option<usize> {
        while self.full_below < self.count && self.is_used(self.full_below) {
            self.full_below += 1;
        }
        let mut first = self.full_below;
        let mut at = first;
        while at - first < count {
            if at >= self.count {
                return None;
            }
            if at.is_multiple_of(64) && self.used[at / 64] == u64::MAX {
                at += 64;
                first = at;
            } else {
                at += 1;
                if self.is_used(at - 1) {
                    first = at;
                }
            }
        }
        self.set(first, count, true);
        Some(first)
    }

    /// The slots in use, ascending.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = usize> {
        let word =
            |(at, &word): (usize, &u64)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit);
        self.used.iter().enumerate().filter(|(_, word)| **word != 0).flat_map(word)
    }

    /// Takes the slots at this place, if they are all free.
    pub(crate) fn take_at(&mut self, first: usize, count: usize) -> bool {
        let free = self.are_free(first, count);
        if free {
            self.set(first, count, true);
        }
        free
    }

    /// Whether the range has `count` slots from `first` on, all free.
    pub(crate) fn are_free(&self, first: usize, count: usize) -> bool {
        first + count <= self.count && !(first..first + count).any(|at| self.is_used(at))
    }

    /// Takes `count` slots at the lowest free multiple of `room` (rounded up to a power of two) from the middle on. The
    /// rest of the room behind them stays free as long as other requests find slots elsewhere. If no such multiple is
    /// free, takes the lowest place of all. Reserved addresses cost nothing; a block without room to grow in place has
    /// to be copied.
    pub(crate) fn take_with_room(&mut self, count: usize, room: usize) -> Option<usize> {
        let every = room.max(count).next_power_of_two();
        let mut places = ((self.count / 2).next_multiple_of(every)..self.count).step_by(every);
        places.find(|&first| self.take_at(first, count)).or_else(|| self.take(count))
    }

    /// Gives back a part of the slots taken.
    pub(crate) fn give(&mut self, first: usize, count: usize) {
        self.set(first, count, false);
        self.full_below = self.full_below.min(first);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn slots_are_taken_in_rows_and_lowest_first() {
        let mut slots = Slots::new(200);
        assert_eq!(slots.take(130), Some(0));
        assert_eq!(slots.take(1), Some(130));
        slots.give(3, 2);
        assert_eq!(slots.take(3), Some(131));
        assert_eq!(slots.take(2), Some(3));
        assert_eq!(slots.take(67), None);
        assert_eq!(slots.take(66), Some(134));
        assert_eq!(slots.take(1), None);
        slots.give(0, 200);
        assert_eq!(slots.take(200), Some(0));
        slots.give(1, 62);
        slots.give(64, 135);
        assert!(slots.in_use().eq([0, 63, 199]));
    }

    #[test]
    fn what_may_grow_has_room_behind_it() {
        let mut slots = Slots::new(400);
        assert_eq!(slots.take_with_room(1, 16), Some(208));
        assert_eq!(slots.take_with_room(1, 16), Some(224));
        assert_eq!(slots.take_with_room(3, 48), Some(256));
        assert_eq!(slots.take_with_room(5, 80), Some(384));
        assert!(slots.take_at(209, 15), "that was left free");
        assert!(!slots.take_at(208, 1) && !slots.take_at(223, 2) && !slots.take_at(399, 2));
        assert_eq!(slots.take_with_room(20, 320), Some(0), "there is no such place from the middle on");
        assert_eq!(slots.take(1), Some(20));
    }
}
