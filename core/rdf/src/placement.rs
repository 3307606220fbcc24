//! The places of a store's parts: in one piece, spread over the nodes of the machine, or with another owner, such as a
//! mapped file.

use crate::checked_bytes::{CheckedBytes, LentBytes};
use std::alloc::Layout;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use vicus_memory::distribution::Distribution;
use vicus_memory::{Memory, Placed, Region};
use vicus_topology::{LocationId, NodeId};

/// The nodes for a store.
#[derive(Clone, Debug)]
pub struct StorePlacement {
    /// The memory to allocate from.
    pub memory: Arc<Memory>,
    /// For each node, the number of reading threads there; an index is divided in this proportion. A node without
    /// memory gets nothing, and if no node would get anything, nothing is laid.
    pub threads: Vec<u32>,
}

impl StorePlacement {
    /// The weight of each location.
    fn weights(&self) -> Arc<[u32]> {
        let weight = |node: &NodeId| self.threads.get(node.index()).copied().unwrap_or(0);
        self.memory.locations().iter().map(weight).collect()
    }
}

/// The way a part is read. This decides its spread over several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Range by range: each node gets one range ("weighted").
    Ranges,
    /// In random order: pages go round the nodes ("fine"), if all of them have threads.
    Anywhere,
}

/// With fewer bytes for each node, values stay in one piece: distributing them costs system calls and whole pages.
const SMALLEST_SHARE: usize = 16 << 10;

/// A slice of unchanging values.
pub(crate) struct PlacedVec<T> {
    /// Invariant: there are `len` values; they live as long as `lies` and never change. Kept here, so a read need not
    /// ask for the variant.
    start: NonNull<T>,
    len: usize,
    lies: Lies<T>,
}

enum Lies<T> {
    /// In one piece, on this node if it is known.
    Together(Vec<T>, Option<NodeId>),
    /// Spread over several nodes.
    Apart(Placed),
    /// With another owner, which checks data on its first read.
    Elsewhere(LentBytes),
}

#[expect(unsafe_code, reason = "a pointer says nothing of threads")]
// SAFETY: it is a slice of values that don't change, and their owner, which can go to another thread.
unsafe impl<T: Send> Send for PlacedVec<T> where Lies<T>: Send {}

#[expect(unsafe_code, reason = "a pointer says nothing of threads")]
// SAFETY: it is a slice of values that don't change, and their owner, which threads can share.
unsafe impl<T: Sync> Sync for PlacedVec<T> where Lies<T>: Sync {}

/// Values valid for any bytes, at any start.
pub(crate) trait OfBytes: Copy {
    fn of(bytes: &[u8]) -> &[Self];
}

impl OfBytes for u8 {
    fn of(bytes: &[u8]) -> &[u8] {
        bytes
    }
}

impl<const N: usize> OfBytes for [u8; N] {
    fn of(bytes: &[u8]) -> &[[u8; N]] {
        bytes.as_chunks().0
    }
}

impl<T: OfBytes> PlacedVec<T> {
    /// Values of another owner.
    pub(crate) fn lent(owner: Arc<dyn CheckedBytes>) -> PlacedVec<T> {
        let values = T::of(owner.bytes());
        let (start, len) = (NonNull::from(values).cast(), values.len());
        PlacedVec { start, len, lies: Lies::Elsewhere(LentBytes::new(owner)) }
    }
}

impl<T: Copy> PlacedVec<T> {
    /// How many values there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All values. Those of another owner may be wrong.
    #[inline]
    fn all(&self) -> &[T] {
        #[expect(unsafe_code, reason = "the values lie in raw memory")]
        // SAFETY: this many values are there, and nothing changes them. Those of a vector or of placed memory were put
        // there when this was made. Those of another owner were borrowed from it, and it is neither dropped nor
        // borrowed mutably before this is dropped.
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr(), self.len)
        }
    }

    /// These values. Panics if there are fewer. If another owner finds them changed, the caller's box gives up.
    #[inline]
    pub(crate) fn part(&self, range: Range<usize>) -> &[T] {
        self.ensure(range.clone());
        &self.all()[range]
    }

    /// The values from a place on, with at least this number of right ones; empty if there is no such place.
    #[inline]
    pub(crate) fn onwards(&self, start: usize, right: usize) -> &[T] {
        self.ensure(start..start.saturating_add(right).min(self.len));
        self.all().get(start..).unwrap_or_default()
    }

    /// One value. Panics if there are fewer; otherwise as [`PlacedVec::part`].
    #[inline]
    pub(crate) fn get(&self, place: usize) -> T {
        self.ensure(place..place + 1);
        self.all()[place]
    }

    #[inline]
    fn ensure(&self, range: Range<usize>) {
        if let Lies::Elsewhere(lent) = &self.lies
            && range.start < range.end
        {
            lent.ensure(range.start * size_of::<T>()..range.end * size_of::<T>());
        }
    }

    /// The other owner, if there is one.
    pub(crate) fn owner(&self) -> Option<&Arc<dyn CheckedBytes>> {
        match &self.lies {
            Lies::Elsewhere(lent) => Some(lent.owner()),
            _ => None,
        }
    }

    /// Spreads the values over the nodes, if there are several nodes and enough values for each. If the memory is
    /// refused, the values stay in place.
    pub(crate) fn lay(&mut self, over: &StorePlacement, access: Access) {
        let Lies::Together(values, home) = &mut self.lies else { return };
        let (memory, weights) = (&over.memory, over.weights());
        if let [only] = memory.locations() {
            *home = Some(*only);
            return;
        }
        *home = memory.node_of(values.as_ptr().cast());
        let nodes = weights.iter().filter(|weight| **weight > 0).count();
        if nodes < 2 || size_of_val(&**values) < SMALLEST_SHARE * nodes {
            return;
        }
        let distribution = match access {
            Access::Anywhere if nodes == weights.len() => Distribution::Fine,
            _ => Distribution::Weighted(weights),
        };
        let Ok(placed) = memory.place(Layout::for_value(&**values), Some(&distribution)) else { return };
        #[expect(unsafe_code, reason = "fills raw memory")]
        // SAFETY: the memory has the layout of the values, and was just allocated.
        unsafe {
            placed.start().cast::<T>().copy_from_nonoverlapping(self.start, values.len());
        }
        self.start = placed.start().cast();
        self.lies = Lies::Apart(placed);
    }

    /// Its memory, in bytes, without another owner's.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.lies {
            Lies::Together(values, _) => values.capacity() * size_of::<T>(),
            Lies::Apart(placed) => placed.len(),
            Lies::Elsewhere(_) => 0,
        }
    }

    /// A range of places, cut at changes of the node, with the node of each part if it is known. Pages passed on by a
    /// full node to another still count as the full node's.
    pub(crate) fn homes(&self, range: Range<usize>) -> Vec<(Range<usize>, Option<NodeId>)> {
        let placed = match &self.lies {
            Lies::Together(_, home) => return vec![(range, *home)],
            Lies::Elsewhere(_) => return vec![(range, None)],
            Lies::Apart(placed) if placed.refusal().is_some() => return vec![(range, None)],
            Lies::Apart(placed) => placed,
        };
        let memory = placed.memory();
        let page = memory.pages().page_bytes();
        // A value belongs to the page of its first byte.
        let first = |unit: usize| (unit * page).div_ceil(size_of::<T>());
        let runs = placed.arrangement().runs(placed.len().div_ceil(page)).into_iter();
        let part = |(units, location): (Range<usize>, LocationId)| {
            let part = first(units.start).max(range.start)..first(units.end).min(range.end);
            (!part.is_empty()).then(|| (part, Some(memory.node_at(location))))
        };
        runs.filter_map(part).collect()
    }

    /// The node of one place, if it is known. Panics if there is no such place.
    pub(crate) fn home(&self, place: usize) -> Option<NodeId> {
        match &self.lies {
            Lies::Together(_, home) => *home,
            Lies::Elsewhere(_) => None,
            Lies::Apart(placed) if placed.refusal().is_some() => None,
            Lies::Apart(placed) => placed.node_at(place * size_of::<T>()),
        }
    }
}

impl<T> From<Vec<T>> for PlacedVec<T> {
    fn from(values: Vec<T>) -> PlacedVec<T> {
        PlacedVec { start: NonNull::from(&*values).cast(), len: values.len(), lies: Lies::Together(values, None) }
    }
}

impl<T> Default for PlacedVec<T> {
    fn default() -> PlacedVec<T> {
        Vec::new().into()
    }
}

impl<T> fmt::Debug for PlacedVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.len;
        match &self.lies {
            Lies::Together(_, home) => write!(f, "{len} values on {home:?}"),
            Lies::Apart(placed) => write!(f, "{len} values, {:?}", placed.arrangement()),
            Lies::Elsewhere(lent) => write!(f, "{len} values of {:?}", lent.owner()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_memory::{FakePages, MemoryOptions};
    use vicus_topology::Topology;

    fn over(threads: &[u32]) -> StorePlacement {
        let nodes = threads.len();
        let machine = Topology::parse(&format!("node:{nodes} core:1")).unwrap();
        let options = MemoryOptions { range_bytes: 32 << 20, placed_bytes: 64 << 20, ..MemoryOptions::default() };
        let memory = Memory::new(Arc::new(FakePages::new(nodes)), &machine, options).unwrap();
        StorePlacement { memory, threads: threads.to_vec() }
    }

    #[test]
    fn what_is_large_is_laid_over_the_nodes_that_have_threads() {
        let values: Vec<u64> = (0..100_000).collect();
        for (threads, access) in [
            ([1, 1, 1, 1], Access::Ranges),
            ([1, 1, 1, 1], Access::Anywhere),
            ([3, 0, 1, 4], Access::Ranges),
            ([3, 0, 1, 4], Access::Anywhere),
        ] {
            let over = over(&threads);
            let all: u32 = threads.iter().sum();
            let mut placed = PlacedVec::from(values.clone());
            assert_eq!(placed.homes(5..9), [(5..9, None)]);
            placed.lay(&over, access);
            assert_eq!(placed.part(0..values.len()), values);
            assert_eq!(placed.heap_bytes(), 800_000);
            let footprint = over.memory.footprint(placed.all());
            let even = if access == Access::Anywhere && all == 4 { [1, 1, 1, 1] } else { threads };
            for (bytes, weight) in footprint.nodes.iter().zip(even) {
                assert!(bytes.abs_diff((800_000 * weight / all) as usize) <= 2 * 4096, "{threads:?}: {footprint:?}");
            }
            let homes = placed.homes(10..99_990);
            let mut next = 10;
            for (range, home) in &homes {
                assert_eq!(range.start, next);
                next = range.end;
                assert_eq!(placed.home(range.start), *home);
                assert_eq!(placed.home(range.end - 1), *home);
            }
            assert_eq!(next, 99_990);
            let is_fine = access == Access::Anywhere && !threads.contains(&0);
            assert_eq!(
                homes.len(),
                if is_fine { 800_000 / 4096 + 1 } else { threads.iter().filter(|&&n| n > 0).count() }
            );
        }
    }

    #[test]
    fn what_is_small_or_read_on_one_node_stays_in_one_piece() {
        let mut values = PlacedVec::from(vec![1u8; 300_000]);
        let before = values.all().as_ptr();
        values.lay(&over(&[0, 8, 0]), Access::Ranges);
        values.lay(&over(&[0, 0]), Access::Anywhere);
        values.lay(&over(&[1; 20]), Access::Ranges);
        assert_eq!((values.all().as_ptr(), values.home(0)), (before, None), "the node of allocated values is unknown");
        values.lay(&over(&[1]), Access::Ranges);
        assert_eq!((values.all().as_ptr(), values.homes(0..7)), (before, vec![(0..7, Some(NodeId::new(0)))]));
    }

    /// Wrong bytes are never given out, and those around them are.
    #[test]
    fn what_another_owner_keeps_is_checked_before_it_is_read() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
        let owner: Arc<dyn CheckedBytes> =
            Arc::new(crate::checked_bytes::tests::Damaged { bytes: bytes.clone(), from: 131_072 });
        let values = PlacedVec::<[u8; 5]>::lent(owner);
        assert_eq!((values.len(), values.heap_bytes(), values.home(3)), (40_000, 0, None));
        assert_eq!(values.part(3..8).as_flattened(), &bytes[15..40]);
        assert_eq!(values.onwards(26_000, 10)[..10].as_flattened(), &bytes[130_000..130_050]);
        assert!(values.onwards(40_001, 7).is_empty());
        for place in [26_214, 30_000, 39_999] {
            let read = vicus_flow::or_given_up(|| values.get(place));
            assert_eq!(read.unwrap_err().to_string(), "damaged from byte 131072 on");
        }
    }
}
