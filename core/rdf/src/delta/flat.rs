//! A delta by columns, in one piece: for many reads of one version.

use super::{Delta, Entry};
use crate::packed::{gallop, partition_point};
use std::ops::Range;
use std::sync::OnceLock;
use vicus_flow::{Grow, NoMemory};

/// The entries of a delta by their numbers. Tables with about one slot for each entry give the start of a search by
/// place, so it takes a few comparisons, in few cache lines.
#[derive(Debug)]
pub(crate) struct Flat {
    /// The place of each entry in the base. Ascends.
    ats: Vec<u32>,
    /// The insertions less the deletions in front of each entry, and at the end of all. So the sums of both are the
    /// places in the merged sequence; these ascend.
    nets: Vec<i32>,
    by_at: Slots,
    by_place: Slots,
    /// The ids of inserted and deleted rows, of the levels read so far.
    columns: [OnceLock<Vec<u64>>; 4],
}

/// The starts of ranges in an ascending list of numbers.
#[derive(Debug)]
struct Slots {
    /// A slot is for 2^shift consecutive numbers.
    shift: u32,
    /// How many numbers are less than those of a slot; and at the end, the length of the list.
    starts: Vec<u32>,
}

impl Slots {
    fn new(numbers: impl Iterator<Item = u32> + Clone, count: usize, last: u32) -> Result<Slots, NoMemory> {
        let mut shift = 0;
        while (last >> shift) as usize > 2 * count {
            shift += 1;
        }
        let mut starts = Vec::with_room((last >> shift) as usize + 3)?;
        for (place, number) in numbers.enumerate() {
            while starts.len() <= (number >> shift) as usize {
                starts.push(place as u32);
            }
        }
        starts.extend([count as u32; 2]);
        Ok(Slots { shift, starts })
    }

    /// The first place with a number not before `number`, or behind it, depending on `before`.
    #[inline]
    fn find(&self, number: usize, before: impl Fn(usize) -> bool) -> usize {
        let slot = (number >> self.shift).min(self.starts.len() - 2);
        let mut places = self.starts[slot] as usize..self.starts[slot + 1] as usize;
        if places.len() > 8 {
            return partition_point(places, before);
        }
        while places.start < places.end && before(places.start) {
            places.start += 1;
        }
        places.start
    }
}

impl Flat {
    pub(super) fn new(delta: &Delta) -> Result<Flat, NoMemory> {
        let count = delta.len();
        let (mut ats, mut nets, mut net) = (Vec::with_room(count)?, Vec::with_room(count + 1)?, 0);
        for (_, change, at) in delta.changes() {
            ats.push(at as u32);
            nets.push(net);
            net += change.net() as i32;
        }
        nets.push(net);
        let places = ats.iter().zip(&nets).map(|(at, net)| at.wrapping_add_signed(*net));
        let last = ats.last().copied().unwrap_or(0);
        let by_place = Slots::new(places.clone(), count, places.clone().next_back().unwrap_or(0))?;
        let by_at = Slots::new(ats.iter().copied(), count, last)?;
        Ok(Flat { ats, nets, by_at, by_place, columns: Default::default() })
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let slots = self.by_at.starts.capacity() + self.by_place.starts.capacity();
        let columns: usize = self.columns.iter().flat_map(OnceLock::get).map(Vec::capacity).sum();
        (self.ats.capacity() + self.nets.capacity() + slots) * 4 + columns * 8
    }

    /// The ids on a level; `None` without memory. `delta` is the origin of this copy.
    #[inline]
    pub(crate) fn column(&self, delta: &Delta, level: usize) -> Option<&[u64]> {
        if let Some(ids) = self.columns[level].get() {
            return Some(ids);
        }
        let mut ids = Vec::with_room(delta.len()).ok()?;
        ids.extend(delta.entries(Default::default()).map(|entry: &Entry| entry.row[level].bits()));
        // Another reader may have made the same meanwhile.
        let _ = self.columns[level].set(ids);
        self.columns[level].get().map(|ids| &ids[..])
    }

    /// The place in the merged sequence of a row of the base with this number of entries in front of it.
    #[inline]
    fn moved(&self, base: usize, entries: usize) -> usize {
        base.wrapping_add_signed(self.net(entries))
    }

    /// The rows of the base between the last change in front of a row and the next change, and the number of the next
    /// one.
    #[inline]
    pub(crate) fn gap(&self, base: usize) -> (Range<usize>, usize) {
        let first = self.by_at.find(base, |n| (self.ats[n] as usize) < base);
        let start = first.checked_sub(1).map_or(0, |last| self.ats[last] as usize + 1);
        (start..self.ats.get(first).map_or(usize::MAX, |at| *at as usize), first)
    }

    /// The insertions less the deletions in front of an entry.
    #[inline]
    pub(crate) fn net(&self, entry: usize) -> isize {
        self.nets[entry] as isize
    }

    /// The rows with `id` on a level in the merged sequence, given those in the base, or the empty range at their
    /// place. `ids` are those of the level, and `within` the entries with the same ids as these rows on the levels
    /// before.
    #[inline]
    pub(crate) fn around(&self, ids: &[u64], id: u64, within: &Range<usize>, base: Range<usize>) -> Range<usize> {
        let first = self.by_at.find(base.start, |n| (self.ats[n] as usize) < base.start);
        // Entries at the start of the rows may have smaller ids.
        let first = first.clamp(within.start, within.end);
        let start = gallop(first..within.end, first, |n| ids[n] < id);
        let end = gallop(start..within.end, start, |n| ids[n] <= id);
        self.moved(base.start, start)..self.moved(base.end, end)
    }

    /// The row at a place of the merged sequence, and the end of the rows of the base behind it.
    #[inline]
    pub(crate) fn locate(&self, place: usize) -> Located {
        let behind = self.by_place.find(place, |n| self.moved(self.ats[n] as usize, n) <= place);
        let base = place.wrapping_add_signed(-self.net(behind));
        // Of the entries at a place, only the last one may be an insertion.
        if let Some(last) = behind.checked_sub(1)
            && self.nets[last] < self.nets[behind]
            && self.moved(self.ats[last] as usize, last) == place
        {
            return Located::Inserted(last);
        }
        let end = self.ats.get(behind).map_or(u32::MAX as usize, |at| *at as usize);
        Located::Base(base..end)
    }
}

/// See [`Flat::locate`].
pub(crate) enum Located {
    /// The row of the base, and those behind it up to the next entry.
    Base(Range<usize>),
    /// The number of the inserting entry.
    Inserted(usize),
}
