//! Where the parts of a store lie: in one piece, or spread over the nodes of the machine.

use std::alloc::Layout;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;
use vicus_memory::distribution::Distribution;
use vicus_memory::{Memory, Placed, Region};
use vicus_topology::{LocationId, NodeId};

/// The nodes that a store is laid over.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The memory to allocate from.
    pub memory: Arc<Memory>,
    /// For each node, the number of threads that will read there; an index is divided in this proportion. A node without memory
    /// gets nothing, and if no node would get anything, nothing is laid.
    pub threads: Vec<u32>,
}

impl Placement {
    /// The weight of each location.
    fn weights(&self) -> Arc<[u32]> {
        let weight = |node: &NodeId| self.threads.get(node.index()).copied().unwrap_or(0);
        self.memory.locations().iter().map(weight).collect()
    }
}

/// How a part is read, which decides how it is laid over several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Range by range: each node gets one range ("weighted").
    Ranges,
    /// In random order: pages go round the nodes ("fine"), if all of them have threads.
    Anywhere,
}

/// With fewer bytes for each node, values stay in one piece: distributing them costs system calls and whole pages.
const SMALLEST_SHARE: usize = 16 << 10;

/// A slice of values that don't change any more.
pub(crate) struct PlacedVec<T>(Lies<T>);

enum Lies<T> {
    /// In one piece, on this node if it is known.
    Together(Vec<T>, Option<NodeId>),
    /// Spread over several nodes: the number of values.
    Apart(Placed, usize),
}

impl<T: Copy> PlacedVec<T> {
    /// Spreads the values over the nodes, if there are several nodes and enough values for each. If the memory is refused, the
    /// values stay where they are.
    pub(crate) fn lay(&mut self, over: &Placement, access: Access) {
        let Lies::Together(values, home) = &mut self.0 else { return };
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
            placed.start().cast::<T>().copy_from_nonoverlapping(non_null(values), values.len());
        }
        self.0 = Lies::Apart(placed, values.len());
    }

    /// The memory that it holds, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Lies::Together(values, _) => values.capacity() * size_of::<T>(),
            Lies::Apart(placed, _) => placed.len(),
        }
    }

    /// A range of places, cut where the node changes, with the node of each part if it is known. Pages that a full node has
    /// passed on to another still count as the former's.
    pub(crate) fn homes(&self, range: Range<usize>) -> Vec<(Range<usize>, Option<NodeId>)> {
        let placed = match &self.0 {
            Lies::Together(_, home) => return vec![(range, *home)],
            Lies::Apart(placed, _) if placed.refusal().is_some() => return vec![(range, None)],
            Lies::Apart(placed, _) => placed,
        };
        let memory = placed.memory();
        let page = memory.pages().page_bytes();
        // A value belongs to the page on which it begins.
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
        match &self.0 {
            Lies::Together(_, home) => *home,
            Lies::Apart(placed, _) if placed.refusal().is_some() => None,
            Lies::Apart(placed, _) => placed.node_at(place * size_of::<T>()),
        }
    }
}

fn non_null<T>(values: &mut Vec<T>) -> std::ptr::NonNull<T> {
    std::ptr::NonNull::from(values.as_mut_slice()).cast()
}

impl<T> Deref for PlacedVec<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Lies::Together(values, _) => values,
            #[expect(unsafe_code, reason = "the values lie in raw memory")]
            // SAFETY: this many values were copied there, and nothing changes them.
            Lies::Apart(placed, len) => unsafe { std::slice::from_raw_parts(placed.start().cast().as_ptr(), *len) },
        }
    }
}

impl<T> From<Vec<T>> for PlacedVec<T> {
    fn from(values: Vec<T>) -> PlacedVec<T> {
        PlacedVec(Lies::Together(values, None))
    }
}

impl<T> Default for PlacedVec<T> {
    fn default() -> PlacedVec<T> {
        Vec::new().into()
    }
}

impl<T> fmt::Debug for PlacedVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Lies::Together(values, home) => write!(f, "{} values on {home:?}", values.len()),
            Lies::Apart(placed, len) => write!(f, "{len} values, {:?}", placed.arrangement()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_memory::{FakePages, MemoryOptions};
    use vicus_topology::Topology;

    fn over(threads: &[u32]) -> Placement {
        let nodes = threads.len();
        let machine = Topology::parse(&format!("node:{nodes} core:1")).unwrap();
        let options = MemoryOptions { range_bytes: 32 << 20, placed_bytes: 64 << 20, ..MemoryOptions::default() };
        let memory = Memory::new(Arc::new(FakePages::new(nodes)), &machine, options).unwrap();
        Placement { memory, threads: threads.to_vec() }
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
            assert_eq!(&*placed, values);
            assert_eq!(placed.heap_bytes(), 800_000);
            let footprint = over.memory.footprint(&placed);
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
        let before = values.as_ptr();
        values.lay(&over(&[0, 8, 0]), Access::Ranges);
        values.lay(&over(&[0, 0]), Access::Anywhere);
        values.lay(&over(&[1; 20]), Access::Ranges);
        assert_eq!((values.as_ptr(), values.home(0)), (before, None), "the node of allocated values is unknown");
        values.lay(&over(&[1]), Access::Ranges);
        assert_eq!((values.as_ptr(), values.homes(0..7)), (before, vec![(0..7, Some(NodeId::new(0)))]));
    }
}
