//! `c += a * b` for square blocks: the inner loop of matmul and SparseLU.

use std::ops::Range;

/// Rows of a tile; below, its columns. A tile is held in registers: twelve vectors of four, of the sixteen of every
/// x86-64.
const ROWS: usize = 4;
const COLUMNS: usize = 12;

/// `c += sign * a * b` for row-major blocks of `n` rows and columns. Takes `2 n³` operations.
#[inline(never)] // compiled once: the same instructions in every world
pub(crate) fn add_product(c: &mut [f32], a: &[f32], b: &[f32], n: usize, sign: f32) {
    assert!(c.len() == n * n && a.len() == n * n && b.len() == n * n, "blocks of {n} rows and columns");
    let factors = Factors { a, b, n, sign };
    let (tiled_rows, tiled_columns) = (n - n % ROWS, n - n % COLUMNS);
    // The columns of `b` of one tile stay in the first-level cache for all rows.
    for j in (0..tiled_columns).step_by(COLUMNS) {
        for i in (0..tiled_rows).step_by(ROWS) {
            factors.add_tile(c, i, j);
        }
    }
    factors.add_rest(c, 0..tiled_rows, tiled_columns..n);
    factors.add_rest(c, tiled_rows..n, 0..n);
}

/// Two blocks to be multiplied, of `n` rows and columns each, and the product's sign.
#[derive(Clone, Copy)]
struct Factors<'f> {
    a: &'f [f32],
    b: &'f [f32],
    n: usize,
    sign: f32,
}

impl Factors<'_> {
    /// Computes the tile of the result that begins at row `i` and column `j`.
    fn add_tile(self, c: &mut [f32], i: usize, j: usize) {
        let Factors { a, b, n, sign } = self;
        let rows: [&[f32]; ROWS] = std::array::from_fn(|row| &a[(i + row) * n..][..n]);
        let mut sums = [[0.0f32; COLUMNS]; ROWS];
        for k in 0..n {
            let b: &[f32; COLUMNS] = b[k * n + j..][..COLUMNS].try_into().expect("sliced so");
            for (sums, row) in sums.iter_mut().zip(rows) {
                let a = row[k];
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum += a * b;
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            let c = &mut c[(i + row) * n + j..][..COLUMNS];
            c.iter_mut().zip(sums).for_each(|(c, sum)| *c += sign * sum);
        }
    }

    /// Computes a part of the result outside of the tiles.
    fn add_rest(self, c: &mut [f32], rows: Range<usize>, columns: Range<usize>) {
        let Factors { a, b, n, sign } = self;
        for i in rows {
            for k in 0..n {
                let a = sign * a[i * n + k];
                let c = &mut c[i * n..][columns.clone()];
                c.iter_mut().zip(&b[k * n..][columns.clone()]).for_each(|(c, b)| *c += a * b);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_is_a_sum_of_products() {
        for n in [0, 1, 3, 4, 11, 12, 13, 17, 24, 29] {
            // Small integers, so no sum is rounded.
            let block = |seed: usize| (0..n * n).map(|at| (at * 7 + seed) as f32 % 9.0 - 4.0).collect::<Vec<_>>();
            let (a, b, before) = (block(1), block(5), block(3));
            for sign in [1.0, -1.0] {
                let mut c = before.clone();
                add_product(&mut c, &a, &b, n, sign);
                for (at, &c) in c.iter().enumerate() {
                    let (i, j) = (at / n, at % n);
                    let sum: f32 = (0..n).map(|k| a[i * n + k] * b[k * n + j]).sum();
                    assert_eq!(c, before[at] + sign * sum, "row {i}, column {j} of {n}");
                }
            }
        }
    }
}
