//! Matrices in arrays: the index of each element, and loops over tiles, each on the node of most of its bytes.
//!
//! Wheeler et al. (see [`super`]), §6, name stencils of more dimensions, matrices and their combinations as things a
//! distributed array should know. Here a matrix is cut into tiles, no segment begins or ends within one
//! ([`ArrayOptions::block`](crate::ArrayOptions::block)), and a loop over several matrices has a piece for each tile.

use super::Operand;
use std::cmp::Reverse;
use std::ops::Range;
use vicus_topology::NodeId;

/// The order of a matrix's elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TileOrder {
    /// Row behind row, without gaps. Neighbouring tiles of a row lie on one node.
    #[default]
    Rows,
    /// Tile behind tile, and row behind row within each. Each tile may lie on a node of its own; those at the right
    /// and the lower border take as much room as the others.
    Tiles,
}

/// The shape of a matrix, cut into tiles.
///
/// ```
/// # use std::sync::Arc;
/// # use vicus_memory::{ArrayOptions, DistArray, FakePages, Memory, MemoryOptions};
/// use vicus_memory::{Tiling, TileOrder};
/// # let machine = vicus_topology::Topology::parse("node:2 core:1").unwrap();
/// # let options = MemoryOptions { range_bytes: 32 << 20, placed_bytes: 32 << 20, ..MemoryOptions::default() };
/// # let memory = Memory::new(Arc::new(FakePages::new(2)), &machine, options).unwrap();
///
/// // 300 x 500 numbers in tiles of 64 x 64: 5 x 8 of them.
/// let tiling = Tiling::new([300, 500], [64, 64], TileOrder::Tiles).expect("there are not too many");
/// let options = ArrayOptions { block: tiling.block(), segment_pages: 8, ..ArrayOptions::default() };
/// let heat: DistArray<f64> = DistArray::zeroed(&memory, tiling.elements(), options)?;
/// let tiles: Vec<_> = tiling.tiles(&[(&tiling, &heat)], [1, 1]).collect();
/// assert_eq!((tiles.len(), tiles[9].rows.clone(), tiles[9].columns.clone()), (40, 64..128, 64..128));
/// assert_eq!((tiles[9].reads_rows.clone(), tiles[9].reads_columns.clone()), (63..129, 63..129));
/// assert_eq!(heat.node_of(tiling.at(64, 64)), Some(tiles[9].node));
/// # Ok::<(), vicus_memory::ArrayError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// Rows and columns.
    shape: [usize; 2],
    /// The shape of a tile. Invariant: neither is 0, and neither is more than the matrix has, if the matrix has any.
    tile: [usize; 2],
    order: TileOrder,
    /// How many elements there is room for.
    elements: usize,
}

impl Tiling {
    /// A matrix of `shape` rows and columns, in tiles of `tile`. A tile's excess over the matrix is left out. `None` if
    /// a tile would have no element, or the matrix more than can be counted.
    pub fn new(shape: [usize; 2], tile: [usize; 2], order: TileOrder) -> Option<Tiling> {
        if tile.contains(&0) {
            return None;
        }
        let tile = [0, 1].map(|at| tile[at].min(shape[at].max(1)));
        let whole = |at: usize| match order {
            TileOrder::Rows => Some(shape[at]),
            TileOrder::Tiles => shape[at].checked_next_multiple_of(tile[at]),
        };
        let elements = whole(0)?.checked_mul(whole(1)?)?;
        Some(Tiling { shape, tile, order, elements })
    }

    /// How many rows and columns it has.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// How many rows and columns a tile has.
    pub fn tile(&self) -> [usize; 2] {
        self.tile
    }

    /// How many elements its array needs room for.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The value for its array's [`ArrayOptions::block`](crate::ArrayOptions::block): a tile, or all tiles beside each
    /// other.
    pub fn block(&self) -> usize {
        let columns = match self.order {
            TileOrder::Rows => self.shape[1],
            TileOrder::Tiles => self.tile[1],
        };
        self.tile[0] * columns.max(1)
    }

    /// The index of an element in the array. Panics if there is no such row or column.
    #[inline]
    pub fn at(&self, row: usize, column: usize) -> usize {
        let [rows, columns] = self.shape;
        assert!(row < rows && column < columns, "row {row} and column {column} of {rows} and {columns}");
        match self.order {
            TileOrder::Rows => row * columns + column,
            TileOrder::Tiles => {
                let [high, wide] = self.tile;
                let number = row / high * columns.div_ceil(wide) + column / wide;
                number * high * wide + row % high * wide + column % wide
            }
        }
    }

    /// How many elements of a row lie one behind the other from this column on.
    #[inline]
    pub fn in_row(&self, column: usize) -> usize {
        let left = self.shape[1].saturating_sub(column);
        match self.order {
            TileOrder::Rows => left,
            TileOrder::Tiles => left.min(self.tile[1] - column % self.tile[1]),
        }
    }

    /// A loop over the elements at the same row and column in several matrices, by this one's tiles: each with the node
    /// of most bytes of its elements; of two with as many, the first matrix's. `reach`: how many rows, and how many
    /// columns, around each element are read.
    ///
    /// # Panics
    /// If a matrix has another number of rows or columns, or an array fewer elements than its matrix.
    pub fn tiles<'a>(
        &'a self,
        matrices: &'a [(&'a Tiling, &'a dyn Operand)],
        reach: [usize; 2],
    ) -> impl Iterator<Item = Tile> + 'a {
        for (tiling, array) in matrices {
            assert_eq!(tiling.shape, self.shape, "matrices of a loop have the same shape");
            assert!(array.elements() >= tiling.elements, "{} of {} elements", array.elements(), tiling.elements);
        }
        let [down, across] = [0, 1].map(|at| self.shape[at].div_ceil(self.tile[at]));
        let mut weights = Vec::new();
        (0..down * across).map(move |number| {
            let range = |at: usize, number: usize| {
                let start = number * self.tile[at];
                start..(start + self.tile[at]).min(self.shape[at])
            };
            let (rows, columns) = (range(0, number / across), range(1, number % across));
            weights.clear();
            matrices
                .iter()
                .for_each(|&(tiling, array)| weigh(tiling == self, tiling, array, &rows, &columns, &mut weights));
            let heaviest = weights.iter().min_by_key(|(_, bytes)| Reverse(*bytes));
            let node = heaviest.map_or(NodeId::default(), |&(node, _)| node);
            let around = |at: usize, own: &Range<usize>| {
                own.start.saturating_sub(reach[at])..own.end.saturating_add(reach[at]).min(self.shape[at])
            };
            Tile { reads_rows: around(0, &rows), reads_columns: around(1, &columns), rows, columns, node }
        })
    }
}

/// Adds the bytes of a part of a matrix by node.
fn weigh(
    is_tile: bool,
    tiling: &Tiling,
    array: &dyn Operand,
    rows: &Range<usize>,
    columns: &Range<usize>,
    weights: &mut Vec<(NodeId, usize)>,
) {
    let mut add = |node: NodeId, elements: usize| {
        let bytes = elements * array.element_bytes();
        match weights.iter_mut().find(|(known, _)| *known == node) {
            Some((_, sum)) => *sum += bytes,
            None => weights.push((node, bytes)),
        }
    };
    let first = array.segment_at(tiling.at(rows.start, columns.start));
    if is_tile && first.0.end > tiling.at(rows.end - 1, columns.end - 1) {
        return add(first.1, rows.len() * columns.len());
    }
    for row in rows.clone() {
        let mut column = columns.start;
        while column < columns.end {
            let at = tiling.at(row, column);
            let (segment, node) = array.segment_at(at);
            let run = tiling.in_row(column).min(columns.end - column).min(segment.end.saturating_sub(at).max(1));
            add(node, run);
            column += run;
        }
    }
}

/// A piece of a loop over matrices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The rows and the columns of the computed elements.
    pub rows: Range<usize>,
    /// See `rows`.
    pub columns: Range<usize>,
    /// The rows and columns read: its own, and the existing ones around them.
    pub reads_rows: Range<usize>,
    /// See `reads_rows`.
    pub reads_columns: Range<usize>,
    /// The node of most bytes of its own elements.
    pub node: NodeId,
}

impl Tile {
    /// How many elements it reads besides its own.
    pub fn halo(&self) -> usize {
        self.reads_rows.len() * self.reads_columns.len() - self.rows.len() * self.columns.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::mixed;
    use super::super::tests::{memory, options};
    use super::*;
    use crate::{ArrayOptions, DistArray, Pattern};

    #[test]
    fn elements_of_a_tile_lie_together_if_that_is_chosen() {
        let tiling = Tiling::new([5, 7], [2, 3], TileOrder::Tiles).unwrap();
        assert_eq!((tiling.elements(), tiling.block()), (6 * 9, 6));
        assert_eq!([tiling.at(0, 0), tiling.at(0, 2), tiling.at(1, 0), tiling.at(1, 2)], [0, 2, 3, 5]);
        assert_eq!([tiling.at(0, 3), tiling.at(0, 6), tiling.at(2, 0), tiling.at(4, 6)], [6, 12, 18, 48]);
        assert_eq!([0, 1, 2, 3, 6].map(|column| tiling.in_row(column)), [3, 2, 1, 3, 1]);
        let tiling = Tiling::new([5, 7], [2, 3], TileOrder::Rows).unwrap();
        assert_eq!((tiling.elements(), tiling.block()), (35, 14));
        assert_eq!([tiling.at(0, 3), tiling.at(2, 0), tiling.at(4, 6)], [3, 14, 34]);
        assert_eq!([0, 6].map(|column| tiling.in_row(column)), [7, 1]);
        // A tile is no larger than its matrix.
        assert_eq!(Tiling::new([5, 7], [100, 100], TileOrder::Tiles).unwrap().elements(), 35);
    }

    #[test]
    fn what_can_not_be_is_refused() {
        assert_eq!(Tiling::new([5, 7], [0, 1], TileOrder::Rows), None);
        assert_eq!(Tiling::new([usize::MAX, 2], [1, 1], TileOrder::Rows), None);
        assert_eq!(Tiling::new([usize::MAX, 1], [2, 1], TileOrder::Tiles), None);
        let none = Tiling::new([0, 7], [2, 3], TileOrder::Tiles).unwrap();
        assert_eq!((none.elements(), none.tiles(&[], [1, 1]).count()), (0, 0));
    }

    #[test]
    fn a_tile_reads_around_its_elements_what_there_is() {
        let tiling = Tiling::new([5, 7], [2, 3], TileOrder::Rows).unwrap();
        let tiles: Vec<Tile> = tiling.tiles(&[], [1, 2]).collect();
        assert_eq!(tiles.len(), 9);
        assert_eq!((tiles[0].reads_rows.clone(), tiles[0].reads_columns.clone()), (0..3, 0..5));
        assert_eq!((tiles[4].reads_rows.clone(), tiles[4].reads_columns.clone()), (1..5, 1..7));
        assert_eq!((tiles[8].rows.clone(), tiles[8].columns.clone(), tiles[8].halo()), (4..5, 6..7, 2 * 3 - 1));
        assert_eq!(tiling.tiles(&[], [usize::MAX; 2]).next().unwrap().reads_columns, 0..7);
    }

    /// Against the sum of bytes of each single element.
    #[test]
    fn each_element_is_in_one_tile_that_runs_where_most_of_its_bytes_lie() {
        let seeds = if cfg!(miri) { 0..1 } else { 0..40 };
        for seed in seeds {
            let chance = |place: u64, most: usize| 1 + mixed(seed, place) as usize % most;
            let shape = [chance(0, 60), chance(1, 90)];
            let tiling =
                |place: u64, order| Tiling::new(shape, [chance(place, 30), chance(place + 1, 40)], order).unwrap();
            let tilings = [tiling(2, TileOrder::Tiles), tiling(4, TileOrder::Rows), tiling(6, TileOrder::Tiles)];
            let (memory, _) = memory(3);
            let blocks = |tiling: &Tiling, pattern| ArrayOptions { block: tiling.block(), ..options(pattern, 1) };
            let first: DistArray<u64> =
                DistArray::zeroed(&memory, tilings[0].elements(), blocks(&tilings[0], Pattern::Random(seed))).unwrap();
            let second: DistArray<[u32; 5]> =
                DistArray::zeroed(&memory, tilings[1].elements(), blocks(&tilings[1], Pattern::Fields)).unwrap();
            let third: DistArray<u8, true> =
                DistArray::tight_zeroed(&memory, tilings[2].elements(), blocks(&tilings[2], Pattern::Stripes)).unwrap();
            for tiling in &tilings {
                let all: [(&Tiling, &dyn Operand); 3] =
                    [(&tilings[0], &first), (&tilings[1], &second), (&tilings[2], &third)];
                let mut seen = vec![0; shape[0] * shape[1]];
                for tile in tiling.tiles(&all, [0, 0]) {
                    let mut bytes = [0usize; 3];
                    for row in tile.rows.clone() {
                        for column in tile.columns.clone() {
                            seen[row * shape[1] + column] += 1;
                            for (tiling, array) in all {
                                bytes[array.segment_at(tiling.at(row, column)).1.index()] += array.element_bytes();
                            }
                        }
                    }
                    assert_eq!(bytes[tile.node.index()], *bytes.iter().max().unwrap(), "seed {seed}, {tile:?}");
                }
                assert!(seen.iter().all(|&times| times == 1), "seed {seed}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "matrices of a loop have the same shape")]
    fn matrices_of_a_loop_have_the_same_shape() {
        let (memory, _) = memory(1);
        let array: DistArray<u64> = DistArray::zeroed(&memory, 100, ArrayOptions::default()).unwrap();
        let [tiling, other] = [[5, 7], [7, 5]].map(|shape| Tiling::new(shape, [2, 2], TileOrder::Rows).unwrap());
        let _ = tiling.tiles(&[(&other, &array)], [0, 0]);
    }
}
