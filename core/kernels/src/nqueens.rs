//! Nqueens: the number of ways to place queens on a board so that none attacks another.
//!
//! Duran, Teruel, Ferrer, Martorell, Ayguade, "Barcelona OpenMP Tasks Suite", ICPP 2009: a task for each placed queen,
//! at every depth. We differ in the computation: rows and diagonals are bits of words.

use crate::{Kernel, KernelWorld, Leaf};

/// The number of ways to place queens; a [`join`](KernelWorld::join) for each possible place.
#[derive(Clone, Debug)]
pub struct Nqueens {
    /// The number of queens, rows and columns; at most 32.
    pub n: u32,
}

impl Default for Nqueens {
    fn default() -> Nqueens {
        Nqueens { n: 10 }
    }
}

/// The columns and diagonals occupied by earlier queens in a row, as bits by column.
#[derive(Clone, Copy)]
struct Row {
    columns: u64,
    /// The diagonals towards the left and towards the right, at their crossing of this row.
    left: u64,
    right: u64,
}

impl Row {
    fn free(self, n: u32) -> u64 {
        !(self.columns | self.left | self.right) & ((1 << n) - 1)
    }

    /// The next row, with a queen on this bit.
    fn below(self, queen: u64) -> Row {
        Row { columns: self.columns | queen, left: (self.left | queen) << 1, right: (self.right | queen) >> 1 }
    }
}

/// The operations of placing a queen: five make the next row, two test for the end of the board, four find the row's
/// free places, three take the first of them, one adds the ways. Slightly too many if the queen leaves no free place.
const PLACE_OPERATIONS: u64 = 5 + 2 + 4 + 3 + 1;

impl Nqueens {
    /// The ways with a queen on one of the bits in `free`.
    fn ways<W: KernelWorld>(&self, world: &W, row: Row, free: u64) -> u64 {
        let first = free & free.wrapping_neg();
        match free ^ first {
            _ if free == 0 => 0,
            0 => self.place(world, row.below(first)),
            others => {
                let (a, b) = world.join(|| self.place(world, row.below(first)), || self.ways(world, row, others));
                a + b
            }
        }
    }

    /// The ways to fill the rows below a placed queen.
    fn place<W: KernelWorld>(&self, world: &W, below: Row) -> u64 {
        world.work(Leaf { name: "place", flops: PLACE_OPERATIONS }, &[], || ());
        if below.columns.count_ones() == self.n { 1 } else { self.ways(world, below, below.free(self.n)) }
    }
}

impl Kernel for Nqueens {
    fn name(&self) -> &'static str {
        "nqueens"
    }

    /// On boards of feasible size, each further queen makes about five times as many placements.
    fn scale(&mut self, times: f64) {
        self.n = (f64::from(self.n) + times.ln() / 5f64.ln()).round().clamp(1.0, 32.0) as u32;
    }

    fn run<W: KernelWorld>(&self, world: &W, start: impl FnOnce(), end: impl FnOnce()) -> f64 {
        assert!((1..=32).contains(&self.n), "1 to 32 queens, not {}", self.n);
        start();
        let first = Row { columns: 0, left: 0, right: 0 };
        let ways = self.ways(world, first, first.free(self.n));
        end();
        ways as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    /// The On-Line Encyclopedia of Integer Sequences, A000170.
    #[test]
    fn the_ways_are_those_that_are_known() {
        let known = [1, 0, 0, 2, 10, 4, 40, 92, 352, 724];
        for (n, ways) in (1..).zip(known) {
            assert_eq!(Nqueens { n }.run(&Serial::default(), || (), || ()), f64::from(ways), "{n} queens");
        }
    }
}
