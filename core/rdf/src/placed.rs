//! Where the parts of a store lie: in one piece, or over the nodes of the machine.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;
use vicus_memory::{ArrayOptions, DistArray, Memory, Pattern, Region};
use vicus_topology::NodeId;

/// How a part is read, and so how it is laid over several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Range by range: each node has one range of it ("blocked").
    Ranges,
    /// Here and there: its pages go round the nodes ("fine").
    Anywhere,
}

/// With fewer bytes for each node it stays in one piece: a distribution costs system calls and whole pages.
const SMALLEST_SHARE: usize = 64 << 10;

/// Values that don't change any more, in one slice.
pub(crate) struct PlacedVec<T>(Lies<T>);

enum Lies<T> {
    /// In one piece, on this node, if that is known.
    Together(Vec<T>, Option<NodeId>),
    /// Over several.
    Apart(DistArray<T, true>),
}

impl<T: Copy> PlacedVec<T> {
    /// Lays the values over the nodes of a memory, if there are several and enough for each. Where that is refused they stay
    /// where they are.
    pub(crate) fn lay(&mut self, memory: &Arc<Memory>, access: Access) {
        let Lies::Together(values, home) = &mut self.0 else { return };
        let locations = memory.locations();
        if let [only] = locations {
            *home = Some(*only);
            return;
        }
        *home = memory.node_of(values.as_ptr().cast());
        if size_of_val(&**values) < SMALLEST_SHARE * locations.len() {
            return;
        }
        let options = match access {
            Access::Ranges => ArrayOptions { pattern: Pattern::Fields, ..ArrayOptions::default() },
            Access::Anywhere => ArrayOptions { pattern: Pattern::StaticHash, segment_pages: 1 },
        };
        if let Ok(array) = DistArray::tight_from_fn(memory, values.len(), options, |place| values[place]) {
            self.0 = Lies::Apart(array);
        }
    }

    /// The memory that it holds, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Lies::Together(values, _) => values.capacity() * size_of::<T>(),
            Lies::Apart(array) => size_of_val(slice(array)),
        }
    }

    /// A range of places, cut where the node changes, with the node of each part if it is known.
    pub(crate) fn homes(&self, range: Range<usize>) -> Vec<(Range<usize>, Option<NodeId>)> {
        let array = match &self.0 {
            Lies::Together(_, home) => return vec![(range, *home)],
            Lies::Apart(array) => array,
        };
        let locations = array.placed().memory().locations();
        let part = |(part, location): (Range<usize>, usize)| {
            let part = part.start.max(range.start)..part.end.min(range.end);
            (!part.is_empty()).then(|| (part, Some(locations[location])))
        };
        array.ranges().filter_map(part).collect()
    }

    /// The node of one place, if it is known. Panics if there is no such place.
    pub(crate) fn home(&self, place: usize) -> Option<NodeId> {
        match &self.0 {
            Lies::Together(_, home) => *home,
            Lies::Apart(array) => array.node_of(place),
        }
    }
}

fn slice<T>(array: &DistArray<T, true>) -> &[T] {
    array.as_slice().expect("there is nothing between tight elements")
}

impl<T> Deref for PlacedVec<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Lies::Together(values, _) => values,
            Lies::Apart(array) => slice(array),
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
            Lies::Apart(array) => array.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_memory::{FakePages, Options};
    use vicus_topology::Topology;

    fn memory(nodes: usize) -> Arc<Memory> {
        let machine = Topology::parse(&format!("node:{nodes} core:1")).unwrap();
        let options = Options { range_bytes: 32 << 20, placed_bytes: 64 << 20, ..Options::default() };
        Memory::new(Arc::new(FakePages::new(nodes)), &machine, options).unwrap()
    }

    #[test]
    fn what_is_large_is_laid_over_all_nodes() {
        let values: Vec<u64> = (0..100_000).collect();
        let memory = memory(4);
        for access in [Access::Ranges, Access::Anywhere] {
            let mut placed = PlacedVec::from(values.clone());
            assert_eq!(placed.homes(5..9), [(5..9, None)]);
            placed.lay(&memory, access);
            assert_eq!(&*placed, values);
            assert_eq!(placed.heap_bytes(), 800_000);
            let footprint = memory.footprint(&placed);
            assert!(footprint.nodes.iter().all(|&bytes| bytes.abs_diff(200_000) <= 64 << 10), "{footprint:?}");
            let homes = placed.homes(10..99_990);
            let mut next = 10;
            for (range, home) in &homes {
                assert_eq!(range.start, next);
                next = range.end;
                assert_eq!(placed.home(range.start), *home);
                assert_eq!(placed.home(range.end - 1), *home);
            }
            assert_eq!(next, 99_990);
            let expected = if access == Access::Ranges { 4 } else { 800_000 / 4096 + 1 };
            assert_eq!(homes.len(), expected);
        }
    }

    #[test]
    fn what_is_small_or_on_one_node_stays_in_one_piece() {
        let mut small = PlacedVec::from(vec![1u8; 100_000]);
        let before = small.as_ptr();
        small.lay(&memory(4), Access::Ranges);
        assert_eq!((small.as_ptr(), small.home(0)), (before, None), "who knows where the program's allocator has it");
        small.lay(&memory(1), Access::Ranges);
        assert_eq!((small.as_ptr(), small.homes(0..7)), (before, vec![(0..7, Some(NodeId::new(0)))]));
    }
}
