//! Loops over arrays that read more than their own elements: around them, as a stencil does, or in other arrays.
//!
//! Wheeler et al. (see [`super`]), §6, name both as things a distributed array should know: borders of segments at
//! those of the stencil's blocks ([`ArrayOptions::block`](crate::ArrayOptions::block)), and the node to run an
//! operation on whose operands lie on different nodes. Here it runs on the node of most of their bytes.

use super::DistArray;
use std::cmp::Reverse;
use std::ops::Range;
use vicus_topology::NodeId;

/// A piece of a loop with each element computed from those around it: the elements of one segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stencil {
    /// The indices of the computed elements.
    pub own: Range<usize>,
    /// The indices of the elements read: its own, and the existing ones around them.
    pub reads: Range<usize>,
    /// The node of its own elements.
    pub node: NodeId,
}

impl Stencil {
    /// How many elements it reads besides its own.
    pub fn halo(&self) -> usize {
        self.reads.len() - self.own.len()
    }
}

impl<T, const TIGHT: bool> DistArray<T, TIGHT> {
    /// A loop over all elements that reads `reach` elements before and behind each: a piece for each segment. For a
    /// matrix by rows with its elements computed from the rows above and below, `block` is a row, and so is `reach`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use vicus_memory::{ArrayOptions, DistArray, FakePages, Memory, MemoryOptions};
    /// # let machine = vicus_topology::Topology::parse("node:2 core:1").unwrap();
    /// # let options = MemoryOptions { range_bytes: 32 << 20, placed_bytes: 32 << 20, ..MemoryOptions::default() };
    /// # let memory = Memory::new(Arc::new(FakePages::new(2)), &machine, options).unwrap();
    /// // 100 rows of 300 numbers: a segment has about 27 rows.
    /// let rows = ArrayOptions { block: 300, ..ArrayOptions::default() };
    /// let heat: DistArray<f64> = DistArray::zeroed(&memory, 30_000, rows)?;
    /// let pieces: Vec<_> = heat.stencil(300).collect();
    /// assert!(pieces.iter().all(|piece| piece.own.start % 300 == 0));
    /// assert_eq!((pieces[0].own.end, pieces[0].reads.clone()), (28 * 300, 0..29 * 300));
    /// # Ok::<(), vicus_memory::ArrayError>(())
    /// ```
    pub fn stencil(&self, reach: usize) -> impl Iterator<Item = Stencil> {
        let segments = (0..self.segments()).map(|segment| (self.segment(segment), self.segment_node(segment)));
        segments.filter(|(own, _)| !own.is_empty()).map(move |(own, node)| {
            let reads = own.start.saturating_sub(reach)..own.end.saturating_add(reach).min(self.len());
            Stencil { own, reads, node }
        })
    }
}

/// An array of any type, as one operand of several: its segments, and how many bytes an element takes.
pub trait Operand {
    /// How many elements it has.
    fn elements(&self) -> usize;

    /// Bytes from one element to the next.
    fn element_bytes(&self) -> usize;

    /// The elements of this one's segment, and their node. Panics if there is no such element.
    fn segment_at(&self, index: usize) -> (Range<usize>, NodeId);
}

impl<T, const TIGHT: bool> Operand for DistArray<T, TIGHT> {
    fn elements(&self) -> usize {
        self.len()
    }

    fn element_bytes(&self) -> usize {
        Self::STRIDE
    }

    fn segment_at(&self, index: usize) -> (Range<usize>, NodeId) {
        let segment = self.segment_of(index);
        (self.segment(segment), self.segment_node(segment))
    }
}

/// A loop over the elements with the same index in several arrays, up to the shortest one's last: pieces, each with the
/// node of most bytes of its elements; of two with as many, the first array's. A piece is at most as long as its
/// longest segment.
///
/// ```
/// # use std::sync::Arc;
/// # use vicus_memory::{ArrayOptions, DistArray, FakePages, Memory, MemoryOptions, Pattern, together};
/// # let machine = vicus_topology::Topology::parse("node:2 core:1").unwrap();
/// # let options = MemoryOptions { range_bytes: 32 << 20, placed_bytes: 32 << 20, ..MemoryOptions::default() };
/// # let memory = Memory::new(Arc::new(FakePages::new(2)), &machine, options).unwrap();
/// let fields = ArrayOptions { pattern: Pattern::Fields, segment_pages: 1, ..ArrayOptions::default() };
/// let narrow: DistArray<u64> = DistArray::zeroed(&memory, 4096, fields)?;
/// let stripes = ArrayOptions { pattern: Pattern::Stripes, segment_pages: 1, ..ArrayOptions::default() };
/// let wide: DistArray<[u64; 2]> = DistArray::zeroed(&memory, 4096, stripes)?;
/// // An element of the second array has more bytes: the loop runs where that lies.
/// for (range, node) in together(&[&narrow, &wide]) {
///     assert_eq!(node, wide.node_of(range.start).unwrap());
/// }
/// # Ok::<(), vicus_memory::ArrayError>(())
/// ```
pub fn together<'a>(arrays: &'a [&'a dyn Operand]) -> impl Iterator<Item = (Range<usize>, NodeId)> + 'a {
    let elements = arrays.iter().map(|array| array.elements()).min().unwrap_or(0);
    let mut parts = Parts { arrays, elements, at: 0, weights: Vec::new() }.peekable();
    std::iter::from_fn(move || {
        let Part { mut range, node, longest } = parts.next()?;
        let joins = |range: &Range<usize>, next: &Part| next.node == node && next.range.end - range.start <= longest;
        while let Some(next) = parts.next_if(|next| joins(&range, next)) {
            range.end = next.range.end;
        }
        Some((range, node))
    })
}

/// Elements in one segment of each array.
struct Part {
    range: Range<usize>,
    node: NodeId,
    /// How many elements the longest of these segments has.
    longest: usize,
}

struct Parts<'a> {
    arrays: &'a [&'a dyn Operand],
    elements: usize,
    at: usize,
    /// How many bytes of an element of each lie on a node.
    weights: Vec<(NodeId, usize)>,
}

impl Iterator for Parts<'_> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        if self.at == self.elements {
            return None;
        }
        let (mut end, mut longest) = (self.elements, 0);
        self.weights.clear();
        for array in self.arrays {
            let (segment, node) = array.segment_at(self.at);
            end = end.min(segment.end);
            longest = longest.max(segment.len());
            match self.weights.iter_mut().find(|(known, _)| *known == node) {
                Some((_, bytes)) => *bytes += array.element_bytes(),
                None => self.weights.push((node, array.element_bytes())),
            }
        }
        // The first of the heaviest.
        let heaviest = self.weights.iter().min_by_key(|(_, bytes)| Reverse(*bytes));
        let (node, _) = *heaviest.expect("each element lies on a node");
        let range = self.at..end;
        self.at = end;
        Some(Part { range, node, longest })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::mixed;
    use super::super::tests::{memory, options};
    use super::*;
    use crate::{ArrayOptions, Pattern};

    fn blocks(pattern: Pattern, segment_pages: usize, block: usize) -> ArrayOptions {
        ArrayOptions { block, ..options(pattern, segment_pages) }
    }

    #[test]
    fn segments_begin_and_end_at_borders_of_blocks() {
        let (memory, _) = memory(2);
        // Rows of 100 numbers, 800 bytes. A page and a row have no common multiple below 25 pages.
        let rows: DistArray<f64> = DistArray::zeroed(&memory, 5_000, blocks(Pattern::Stripes, 1, 100)).unwrap();
        assert_eq!(rows.segment_bytes(), 4096);
        let own: Vec<_> = rows.stencil(0).map(|piece| piece.own).collect();
        // The rows that begin in a page: at 0, 800, ..., 4,000 in the first; from 4,800 in the second.
        assert_eq!(own[..3], [0..600, 600..1100, 1100..1600]);
        assert_eq!(rows.segment_of(599), 0, "the row began there");
        // If a few whole rows fill pages exactly, segments are a little larger, and no row lies on two nodes.
        let even: DistArray<f64> = DistArray::zeroed(&memory, 50_000, blocks(Pattern::Stripes, 16, 768)).unwrap();
        assert_eq!(even.segment_bytes(), 18 * 4096, "three pages have two rows of 6,144 bytes");
        assert!(even.stencil(768).all(|piece| piece.own.start * 8 % 4096 == 0));
    }

    #[test]
    fn a_stencil_reads_around_its_elements_what_there_is() {
        let (memory, _) = memory(2);
        let array: DistArray<u64> = DistArray::zeroed(&memory, 1200, options(Pattern::Stripes, 1)).unwrap();
        let pieces: Vec<_> = array.stencil(10).collect();
        let [zero, one] = [0, 1].map(NodeId::new);
        let piece = |own: Range<usize>, reads, node| Stencil { own, reads, node };
        assert_eq!(
            pieces,
            [piece(0..512, 0..522, zero), piece(512..1024, 502..1034, one), piece(1024..1200, 1014..1200, zero)]
        );
        assert_eq!(pieces.iter().map(Stencil::halo).collect::<Vec<_>>(), [10, 20, 10]);
        assert_eq!(array.stencil(usize::MAX).next().unwrap().reads, 0..1200);
        let none: DistArray<u64> = DistArray::zeroed(&memory, 0, ArrayOptions::default()).unwrap();
        assert_eq!(none.stencil(1).next(), None);
    }

    /// Against the sum of bytes of each single element.
    #[test]
    fn each_element_is_in_one_piece_that_runs_where_most_of_its_bytes_lie() {
        let seeds = if cfg!(miri) { 0..2 } else { 0..40 };
        for seed in seeds {
            let chance = |place: u64, most: usize| 1 + mixed(seed, place) as usize % most;
            let (len, other) = (chance(0, 5000), chance(1, 5000));
            let (memory, _) = memory(3);
            let scattered = blocks(Pattern::Random(seed), chance(2, 4), chance(3, 700));
            let first: DistArray<u64> = DistArray::zeroed(&memory, len, scattered).unwrap();
            let second: DistArray<[u32; 5]> = DistArray::zeroed(&memory, other, options(Pattern::Fields, 1)).unwrap();
            let third: DistArray<u8, true> =
                DistArray::tight_zeroed(&memory, len, options(Pattern::Stripes, 1)).unwrap();
            let mut next = 0;
            for (range, node) in together(&[&first, &second, &third]) {
                assert!(range.start == next && range.end > next, "seed {seed}: {range:?} behind {next}");
                next = range.end;
                for index in range {
                    let mut bytes = [0usize; 3];
                    bytes[first.segment_node(first.segment_of(index)).index()] += 8;
                    bytes[second.segment_node(second.segment_of(index)).index()] += 24;
                    bytes[third.segment_node(third.segment_of(index)).index()] += 1;
                    assert_eq!(bytes[node.index()], *bytes.iter().max().unwrap(), "seed {seed}, element {index}");
                }
            }
            assert_eq!(next, len.min(other), "seed {seed}");
        }
    }
}
