//! From quads to indexes: sort runs, derive the other orders from one, cut all runs at the same rows, merge the parts.

use super::merge::Numbering;
use super::merge_sorted;
use crate::ids::Id;
use crate::index::{Index, Order};
use crate::storage::Backing;
use std::ops::Range;
use vicus_flow::{Grow, NoMemory};

/// Quads of terms' numbers. Triples of the default graph come without it, so that data of one graph takes no more than
/// its triples.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct NumberedQuads {
    /// Subject, predicate and object of those in the default graph.
    pub triples: Vec<[u32; 3]>,
    /// Subject, predicate, object and graph of those in named graphs.
    pub named: Vec<[u32; 4]>,
}

impl NumberedQuads {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.triples.len() + self.named.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves all of another's quads behind these.
    pub(crate) fn append(&mut self, other: NumberedQuads) -> Result<(), NoMemory> {
        append(&mut self.triples, other.triples)?;
        append(&mut self.named, other.named)
    }
}

fn append<T>(to: &mut Vec<T>, from: Vec<T>) -> Result<(), NoMemory> {
    if to.is_empty() {
        *to = from;
        return Ok(());
    }
    to.grow_exactly(from.len())?;
    to.extend(from);
    Ok(())
}

/// Replaces local numbers by numbers, in place. `table` is one of [`Assembled::tables`](super::Assembled::tables).
pub fn remap(quads: &mut NumberedQuads, table: &[u32]) {
    for number in quads.triples.as_flattened_mut().iter_mut().chain(quads.named.as_flattened_mut()) {
        *number = table[*number as usize];
    }
}

/// Quads of numbers in one order. Invariant: rows strictly ascend, so there are no duplicates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SortedRun {
    order: Order,
    /// In an order by graph, those of the default graph, without it: they come before all others. Below, those of named
    /// graphs.
    pub(super) triples: Vec<[u32; 3]>,
    pub(super) named: Vec<[u32; 4]>,
}

impl SortedRun {
    /// Sorts quads and drops duplicates; an order that ends with the graph has no triples of the default graph. Takes
    /// linear time.
    ///
    /// # Errors
    /// There is not enough memory for sorting: as much as the quads take.
    pub fn new(order: Order, quads: NumberedQuads) -> Result<SortedRun, NoMemory> {
        let NumberedQuads { mut triples, mut named } = quads;
        if order.is_by_graph() {
            triples.iter_mut().for_each(|triple| *triple = arranged(order, *triple));
            sort(&mut triples, 3)?;
            triples.dedup();
        } else {
            triples = Vec::new();
        }
        named.iter_mut().for_each(|quad| *quad = order.arrange(*quad));
        sort(&mut named, 4)?;
        named.dedup();
        Ok(SortedRun { order, triples, named })
    }

    /// Puts the quads in another order. Takes at most two thirds of the work of sorting them; one third if only one
    /// level moves to the front of those after the graph. Panics if this order ends with the graph and the other
    /// doesn't.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn derive(&self, order: Order) -> Result<SortedRun, NoMemory> {
        derive_runs(std::slice::from_ref(self), order)
    }

    /// The order of the rows.
    pub fn order(&self) -> Order {
        self.order
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.triples.len() + self.named.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The three levels after the graph, of subject, predicate and object.
fn arranged<T: Copy>(order: Order, [s, p, o]: [T; 3]) -> [T; 3] {
    let [_, a, b, c] = order.arrange([s, p, o, s]);
    [a, b, c]
}

/// Subject, predicate and object, of the three levels after the graph.
fn restored<T: Copy>(order: Order, [a, b, c]: [T; 3]) -> [T; 3] {
    let [s, p, o, _] = order.restore([a, a, b, c]);
    [s, p, o]
}

/// Like [`SortedRun::derive`], for a run in the parts made by [`merge_runs`], in their order. Panics unless all parts
/// have the same order.
///
/// # Errors
/// There is not enough memory.
pub fn derive_runs(parts: &[SortedRun], order: Order) -> Result<SortedRun, NoMemory> {
    let known = parts.first().map_or(order, SortedRun::order);
    assert!(parts.iter().all(|part| part.order == known), "parts of one order");
    assert!(known.is_by_graph() || !order.is_by_graph(), "{known:?} has no triples of the default graph");
    let place = |position| known.level(position);
    let mut triples: Vec<[u32; 3]> = Vec::new();
    if order.is_by_graph() {
        triples.grow_exactly(parts.iter().map(|part| part.triples.len()).sum())?;
        for part in parts {
            triples.extend(part.triples.iter().map(|&row| arranged(order, restored(known, row))));
        }
        let [_, levels @ ..] = order.positions();
        sort(&mut triples, unsorted(levels.map(place)))?;
    }
    let mut named: Vec<[u32; 4]> = Vec::with_room(parts.iter().map(|part| part.named.len()).sum())?;
    for part in parts {
        named.extend(part.named.iter().map(|&row| order.arrange(known.restore(row))));
    }
    sort(&mut named, unsorted(order.positions().map(place)))?;
    Ok(SortedRun { order, triples, named })
}

/// How many levels rows have to be sorted by, given where each level was in the order that they come in. Levels behind
/// those that were in this sequence are in order wherever those before are equal.
fn unsorted<const N: usize>(places: [usize; N]) -> usize {
    (0..N).find(|&from| places[from..].is_sorted()).unwrap_or(N)
}

/// Sorts rows by their first levels, the last of them first, so rows stay in order if these are equal.
fn sort<const N: usize>(rows: &mut Vec<[u32; N]>, levels: usize) -> Result<(), NoMemory> {
    let mut scratch = Vec::new();
    (0..levels).rev().try_for_each(|level| sort_by_level(rows, &mut scratch, level))
}

/// Stable radix sort by one level, least significant digit first. A digit that is the same in all rows needs no pass.
fn sort_by_level<const N: usize>(
    rows: &mut Vec<[u32; N]>,
    scratch: &mut Vec<[u32; N]>,
    level: usize,
) -> Result<(), NoMemory> {
    const BITS: u32 = 11;
    const BUCKETS: usize = 1 << BITS;
    let digit = |row: &[u32; N], shift: u32| (row[level] >> shift) as usize & (BUCKETS - 1);
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
            scratch.resize(rows.len(), [0; N]);
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

/// The rows of one part in one run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    triples: Range<usize>,
    named: Range<usize>,
}

/// Cuts runs of one order at the same rows into `parts` of similar size: for each part, its rows in each run. Equal
/// rows are in the same part. Parts may be empty.
pub fn cut_runs(runs: &[SortedRun], parts: usize) -> Vec<Vec<Cut>> {
    let triples = cut(&runs.iter().map(|run| &*run.triples).collect::<Vec<_>>(), parts);
    let named = cut(&runs.iter().map(|run| &*run.named).collect::<Vec<_>>(), parts);
    let both = |(triples, named): (Vec<Range<usize>>, Vec<Range<usize>>)| {
        triples.into_iter().zip(named).map(|(triples, named)| Cut { triples, named }).collect()
    };
    triples.into_iter().zip(named).map(both).collect()
}

fn cut<const N: usize>(runs: &[&[[u32; N]]], parts: usize) -> Vec<Vec<Range<usize>>> {
    const SAMPLES_PER_PART: usize = 32;
    let total: usize = runs.iter().map(|run| run.len()).sum();
    let step = (total / (parts.max(1) * SAMPLES_PER_PART)).max(1);
    let mut samples: Vec<[u32; N]> =
        runs.iter().flat_map(|run| run[run.len().min(step / 2)..].iter().step_by(step).copied()).collect();
    samples.sort_unstable();
    let mut starts = vec![0; runs.len()];
    (1..=parts)
        .map(|part| {
            let bound = if part == parts { None } else { samples.get(samples.len() * part / parts) };
            let end = |run: &&[[u32; N]]| bound.map_or(run.len(), |bound| run.partition_point(|row| row < bound));
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
pub fn merge_runs(runs: &[SortedRun], part: &[Cut]) -> Result<SortedRun, NoMemory> {
    let order = runs.first().map_or(Order::Gspo, SortedRun::order);
    assert!(runs.iter().all(|run| run.order == order), "runs of one order");
    let triples = merge(runs.iter().zip(part).map(|(run, cut)| &run.triples[cut.triples.clone()]))?;
    let named = merge(runs.iter().zip(part).map(|(run, cut)| &run.named[cut.named.clone()]))?;
    Ok(SortedRun { order, triples, named })
}

fn merge<'a, const N: usize>(sorted: impl Iterator<Item = &'a [[u32; N]]>) -> Result<Vec<[u32; N]>, NoMemory> {
    let sorted = sorted.map(Vec::copied).collect::<Result<_, _>>()?;
    let mut rows = merge_sorted(sorted, &|a: &[u32; N], b: &[u32; N]| a.cmp(b))?;
    rows.dedup();
    Ok(rows)
}

/// The index of all parts that [`merge_runs`] made, in their order. Panics unless they ascend, and at 2^32 quads.
///
/// # Errors
/// There is not enough memory.
pub fn index(order: Order, parts: &[SortedRun], numbering: &Numbering) -> Result<Index, NoMemory> {
    assert!(parts.iter().all(|part| part.order == order), "parts of one order");
    fn follow<'a, const N: usize>(parts: impl Iterator<Item = &'a [[u32; N]]> + Clone) -> bool {
        let parts = parts.filter(|part| !part.is_empty());
        parts.clone().zip(parts.skip(1)).all(|(a, b)| a.last() < b.first())
    }
    let triples = parts.iter().map(|part| &*part.triples);
    let named = parts.iter().map(|part| &*part.named);
    assert!(follow(triples.clone()) && follow(named.clone()), "each part is behind the one before");
    let of_default = triples.flatten().map(|row| {
        let [a, b, c] = row.map(|number| numbering.id(number));
        [Id::UNBOUND, a, b, c]
    });
    let of_named = named.flatten().map(|row| row.map(|number| numbering.id(number)));
    Index::new(order, of_default.chain(of_named), &Backing::Memory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Pseudo-random numbers of all sizes, many of them equal; every fourth is of a named graph.
    fn quads(count: u32, seed: u32) -> NumberedQuads {
        let mut state = seed;
        let mut next = |mask: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) & mask
        };
        let mut made = NumberedQuads::default();
        for number in 0..count {
            let triple @ [s, p, o] = [next(0xFFF), next(3) << 22, next(0xFF_FFFF) * (next(1))];
            match number % 4 {
                0 => made.named.push([s, p, o, next(3) << 12]),
                _ => made.triples.push(triple),
            }
        }
        made
    }

    #[test]
    fn runs_are_what_a_sorted_set_is() {
        for order in Order::ALL {
            let quads = quads(3000, 7);
            let triples: BTreeSet<[u32; 3]> = quads.triples.iter().map(|&triple| arranged(order, triple)).collect();
            let named: BTreeSet<[u32; 4]> = quads.named.iter().map(|&quad| order.arrange(quad)).collect();
            let run = SortedRun::new(order, quads).unwrap();
            assert!(run.triples.into_iter().eq(triples.into_iter().filter(|_| order.is_by_graph())), "{order:?}");
            assert!(run.named.into_iter().eq(named), "{order:?}");
        }
    }

    #[test]
    fn any_order_can_be_derived_from_any_by_graph() {
        for from in Order::ALL {
            let run = SortedRun::new(from, quads(2000, 3)).unwrap();
            for to in Order::ALL.into_iter().filter(|to| from.is_by_graph() || !to.is_by_graph()) {
                assert_eq!(
                    run.derive(to).unwrap(),
                    SortedRun::new(to, quads(2000, 3)).unwrap(),
                    "{to:?} from {from:?}"
                );
            }
        }
    }

    #[test]
    fn runs_cut_and_merged_are_one_run() {
        for parts in 1..9 {
            let runs: Vec<SortedRun> =
                (0..4).map(|seed| SortedRun::new(Order::Gpos, quads(500 * seed, seed)).unwrap()).collect();
            let cut = cut_runs(&runs, parts);
            assert_eq!(cut.len(), parts);
            let merged: Vec<SortedRun> = cut.iter().map(|part| merge_runs(&runs, part).unwrap()).collect();
            let mut all = NumberedQuads::default();
            (0..4).for_each(|seed| all.append(quads(500 * seed, seed)).unwrap());
            let triples: Vec<[u32; 3]> = merged.iter().flat_map(|part| part.triples.clone()).collect();
            let named: Vec<[u32; 4]> = merged.iter().flat_map(|part| part.named.clone()).collect();
            assert_eq!(
                SortedRun { order: Order::Gpos, triples, named },
                SortedRun::new(Order::Gpos, all.clone()).unwrap()
            );
            assert_eq!(derive_runs(&merged, Order::Gspo).unwrap(), SortedRun::new(Order::Gspo, all).unwrap());
        }
    }
}
