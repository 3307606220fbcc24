//! From triples to indexes: sort runs, derive the other orders from one, cut all runs at the same rows, merge the parts.

use super::merge::Numbering;
use super::merge_sorted;
use crate::index::{Index, Order};
use std::ops::Range;
use vicus_flow::{Grow, NoMemory};

/// A triple of [`Numbering`]'s numbers, with its levels in some order.
type Row = [u32; 3];

/// Replaces local numbers by numbers, in place. `table` is one of [`Assembled::tables`](super::Assembled::tables).
pub fn remap(triples: &mut [[u32; 3]], table: &[u32]) {
    for number in triples.as_flattened_mut() {
        *number = table[*number as usize];
    }
}

/// Triples of numbers in one order. Invariant: rows strictly ascend, so there are no duplicates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    order: Order,
    rows: Vec<Row>,
}

impl Run {
    /// Sorts triples (subject, predicate, object) and drops duplicates. Takes linear time.
    ///
    /// # Errors
    /// There is not enough memory for sorting: as much as the triples take.
    pub fn new(order: Order, mut triples: Vec<[u32; 3]>) -> Result<Run, NoMemory> {
        for triple in &mut triples {
            *triple = order.arrange(*triple);
        }
        let mut rows = triples;
        let mut scratch = Vec::new();
        for level in [2, 1, 0] {
            sort_by_level(&mut rows, &mut scratch, level)?;
        }
        rows.dedup();
        Ok(Run { order, rows })
    }

    /// The same triples in another order. Takes at most two thirds of the work of sorting them; one third if only one level
    /// moves to the front.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn derive(&self, order: Order) -> Result<Run, NoMemory> {
        derive_runs(std::slice::from_ref(self), order)
    }

    /// The order of the rows.
    pub fn order(&self) -> Order {
        self.order
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// As [`Run::derive`], for a run in the parts that [`merge_runs`] made, in their order. Panics unless all parts have the same
/// order.
///
/// # Errors
/// There is not enough memory.
pub fn derive_runs(parts: &[Run], order: Order) -> Result<Run, NoMemory> {
    let known = parts.first().map_or(order, Run::order);
    assert!(parts.iter().all(|part| part.order == known), "parts of one order");
    let [from, to] = [known.positions(), order.positions()];
    let mut rows: Vec<Row> = Vec::with_room(parts.iter().map(Run::len).sum())?;
    for part in parts {
        rows.extend(part.rows.iter().map(|&row| order.arrange(known.restore(row))));
    }
    // If the first two levels stay the same, the third is in order already. If only the first stays, the other two are in order
    // already if their sequence is the same in both orders.
    let place = |position| from.iter().position(|&other| other == position);
    let mut scratch = Vec::new();
    if place(to[1]) > place(to[2]) {
        sort_by_level(&mut rows, &mut scratch, 1)?;
    }
    if from != to {
        sort_by_level(&mut rows, &mut scratch, 0)?;
    }
    Ok(Run { order, rows })
}

/// Stable radix sort by one level, least significant digit first. A digit that is the same in all rows needs no pass.
fn sort_by_level(rows: &mut Vec<Row>, scratch: &mut Vec<Row>, level: usize) -> Result<(), NoMemory> {
    const BITS: u32 = 11;
    const BUCKETS: usize = 1 << BITS;
    let digit = |row: &Row, shift: u32| (row[level] >> shift) as usize & (BUCKETS - 1);
    let greatest = rows.iter().map(|row| row[level]).max().unwrap_or(0);
    let mut shift = 0;
    while shift < u32::BITS && greatest >> shift != 0 {
        let mut places = [0_u32; BUCKETS];
        for row in &*rows {
            places[digit(row, shift)] += 1;
        }
        if !places.iter().any(|&count| count as usize == rows.len()) {
            let mut next = 0;
            for place in &mut places {
                next += std::mem::replace(place, next);
            }
            scratch.grow_exactly(rows.len().saturating_sub(scratch.len()))?;
            scratch.resize(rows.len(), [0; 3]);
            for row in &*rows {
                let place = &mut places[digit(row, shift)];
                scratch[*place as usize] = *row;
                *place += 1;
            }
            std::mem::swap(rows, scratch);
        }
        shift += BITS;
    }
    Ok(())
}

/// Cuts runs of one order at the same rows into `parts` of similar size: for each part, the range in each run. Equal rows are
/// in the same part. Parts may be empty.
pub fn cut_runs(runs: &[Run], parts: usize) -> Vec<Vec<Range<usize>>> {
    const SAMPLES_PER_PART: usize = 32;
    let total: usize = runs.iter().map(Run::len).sum();
    let step = (total / (parts.max(1) * SAMPLES_PER_PART)).max(1);
    let mut samples: Vec<Row> =
        runs.iter().flat_map(|run| run.rows[run.len().min(step / 2)..].iter().step_by(step).copied()).collect();
    samples.sort_unstable();
    let mut starts = vec![0; runs.len()];
    (1..=parts)
        .map(|part| {
            let bound = if part == parts { None } else { samples.get(samples.len() * part / parts) };
            let end = |run: &Run| bound.map_or(run.len(), |bound| run.rows.partition_point(|row| row < bound));
            let ends: Vec<usize> = runs.iter().map(end).collect();
            let ranges = starts.iter().zip(&ends).map(|(&start, &end)| start..end.max(start)).collect();
            starts = ends;
            ranges
        })
        .collect()
}

/// Merges one of the parts made by [`cut_runs`], and drops duplicates. Panics unless all runs have the same order.
///
/// # Errors
/// There is not enough memory.
pub fn merge_runs(runs: &[Run], part: &[Range<usize>]) -> Result<Run, NoMemory> {
    let order = runs.first().map_or(Order::Spo, Run::order);
    assert!(runs.iter().all(|run| run.order == order), "runs of one order");
    let copied = |(run, range): (&Run, &Range<usize>)| Vec::copied(&run.rows[range.clone()]);
    let sorted = runs.iter().zip(part).map(copied).collect::<Result<_, _>>()?;
    let mut rows = merge_sorted(sorted, &|a: &Row, b: &Row| a.cmp(b))?;
    rows.dedup();
    Ok(Run { order, rows })
}

/// The index of all parts that [`merge_runs`] made, in their order. Panics unless they ascend, and at 2^32 triples.
///
/// # Errors
/// There is not enough memory.
pub fn index(order: Order, parts: &[Run], numbering: &Numbering) -> Result<Index, NoMemory> {
    assert!(parts.iter().all(|part| part.order == order), "parts of one order");
    let ends = parts.iter().filter(|part| !part.is_empty());
    assert!(
        ends.clone().zip(ends.skip(1)).all(|(a, b)| a.rows.last() < b.rows.first()),
        "each part is behind the one before"
    );
    let rows = parts.iter().flat_map(|part| &part.rows).map(|row| row.map(|number| numbering.id(number)));
    Index::new(order, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Pseudo-random numbers of all sizes, many of them equal.
    fn triples(count: u32, seed: u32) -> Vec<[u32; 3]> {
        let mut state = seed;
        let mut next = |mask: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) & mask
        };
        (0..count).map(|_| [next(0xFFF), next(3) << 22, next(0xFF_FFFF) * (next(1))]).collect()
    }

    #[test]
    fn runs_are_what_a_sorted_set_is() {
        for order in Order::ALL {
            let triples = triples(3000, 7);
            let expected: BTreeSet<Row> = triples.iter().map(|&triple| order.arrange(triple)).collect();
            assert!(Run::new(order, triples).unwrap().rows.into_iter().eq(expected));
        }
    }

    #[test]
    fn any_order_can_be_derived_from_any() {
        for from in Order::ALL {
            let run = Run::new(from, triples(2000, 3)).unwrap();
            for to in Order::ALL {
                assert_eq!(run.derive(to).unwrap(), Run::new(to, triples(2000, 3)).unwrap(), "{to:?} from {from:?}");
            }
        }
    }

    #[test]
    fn runs_cut_and_merged_are_one_run() {
        for parts in 1..9 {
            let runs: Vec<Run> = (0..4).map(|seed| Run::new(Order::Pos, triples(500 * seed, seed)).unwrap()).collect();
            let cut = cut_runs(&runs, parts);
            assert_eq!(cut.len(), parts);
            let merged: Vec<Run> = cut.iter().map(|part| merge_runs(&runs, part).unwrap()).collect();
            let all: Vec<_> = (0..4).flat_map(|seed| triples(500 * seed, seed)).collect();
            let rows: Vec<Row> = merged.iter().flat_map(|part| part.rows.clone()).collect();
            assert_eq!(rows, Run::new(Order::Pos, all.clone()).unwrap().rows);
            assert_eq!(derive_runs(&merged, Order::Spo).unwrap(), Run::new(Order::Spo, all).unwrap());
        }
    }
}
