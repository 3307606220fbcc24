//! The tiles of a matrix, over a grid of locations.

use super::{AllocationRequest, Arrangement, DistributionError, Policy};
use vicus_topology::LocationId;

/// Two-dimensional block-cyclic: the tiles of a matrix, stored row behind row, go round a grid of the locations, in
/// both directions. A row of tiles then lies on several locations, and so does a column: each location keeps a share of
/// a factorization's shrinking active part.
///
/// Locations form the grid with the most equal sides: 8 are 2 by 4. A unit lies at the location of its first byte. So
/// tiles should be at least a unit wide.
///
/// Muddukrishna et al., 2015, §3, wish for such a distribution for SparseLU, beyond fine and coarse.
///
/// ```
/// use vicus_memory::distribution::{Distribution, Distributor};
/// // A matrix with rows of 8192 bytes, two pages. Tiles of one row and one page, over four locations.
/// let tiles: Distribution = "tiles:8192,1,4096".parse()?;
/// let arrangement = Distributor::new(4, Distribution::Standard).place(8, Some(&tiles))?;
/// let location = |page| arrangement.location_of(page).unwrap().index();
/// assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(location), [0, 1, 2, 3, 0, 1, 2, 3]);
/// # Ok::<(), vicus_memory::distribution::DistributionError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// How many bytes a row of the matrix has.
    pub(super) row_bytes: usize,
    /// How many rows a tile has.
    pub(super) rows: usize,
    /// How many bytes of a row a tile has.
    pub(super) bytes: usize,
}

impl Tiles {
    /// Tiles of `rows` rows and `bytes` bytes of each. `None` if one of the numbers is 0.
    pub fn new(row_bytes: usize, rows: usize, bytes: usize) -> Option<Tiles> {
        (row_bytes > 0 && rows > 0 && bytes > 0).then_some(Tiles { row_bytes, rows, bytes })
    }

    /// The location of a byte, in a grid of `down` by `across` locations.
    fn location(&self, byte: usize, down: usize, across: usize) -> LocationId {
        let (row, column) = (byte / self.row_bytes, byte % self.row_bytes);
        LocationId::new(row / self.rows % down * across + column / self.bytes % across)
    }
}

/// The most equal sides of a grid of this number of locations, the shorter one first.
fn grid(locations: usize) -> (usize, usize) {
    let shorter = (1..=locations.isqrt()).rev().find(|&side| locations.is_multiple_of(side)).unwrap_or(1);
    (shorter, locations / shorter)
}

impl Policy for Tiles {
    fn name(&self) -> &'static str {
        "tiles"
    }

    fn place(&self, request: &AllocationRequest<'_>) -> Result<Arrangement, DistributionError> {
        let (down, across) = grid(request.locations);
        let location = |unit: usize| self.location(unit.saturating_mul(request.unit_bytes), down, across);
        Ok(Arrangement::Each { locations: (0..request.units).map(location).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::{Distribution, Distributor};

    #[test]
    fn each_location_has_the_same_share_of_each_trailing_part_of_a_matrix() {
        // 64 rows of 64 pages in tiles of 8 by 8 pages, over eight locations.
        let tiles: Distribution = format!("tiles:{},8,{}", 64 * 4096, 8 * 4096).parse().unwrap();
        let arrangement = Distributor::new(8, Distribution::Standard).place(64 * 64, Some(&tiles)).unwrap();
        // The shares of the lower right part, worked on by a factorization after `done` steps.
        for done in [0, 4] {
            let mut shares = [0; 8];
            for unit in (0..64 * 64).filter(|unit| unit / 64 >= 8 * done && unit % 64 >= 8 * done) {
                shares[arrangement.location_of(unit).unwrap().index()] += 1;
            }
            assert!(shares.iter().all(|&share| share == shares[0]), "{done}: {shares:?}");
        }
        // Blocked leaves four of eight locations without work after half of the steps.
        let blocked = Distributor::new(8, Distribution::Standard).place(64 * 64, Some(&Distribution::Blocked)).unwrap();
        assert!((64 * 32..64 * 64).all(|unit| blocked.location_of(unit).unwrap().index() >= 4));
    }

    #[test]
    fn grids_have_sides_that_are_about_equal() {
        assert_eq!(
            [1, 2, 4, 6, 7, 8, 12, 16].map(grid),
            [(1, 1), (1, 2), (2, 2), (2, 3), (1, 7), (2, 4), (3, 4), (4, 4)]
        );
    }

    #[test]
    fn tiles_are_written_as_they_are_read_and_wrong_ones_are_refused() {
        let text = "tiles:65536,16,4096";
        assert_eq!(text.parse::<Distribution>().unwrap().to_string(), text);
        for wrong in ["tiles", "tiles:", "tiles:1,2", "tiles:1,2,0", "tiles:a,b,c", "tiles:1,2,3,4"] {
            assert!(wrong.parse::<Distribution>().is_err(), "{wrong}");
        }
    }
}
