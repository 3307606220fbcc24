//! From the merged terms to a dictionary: cut them into parts of whole blocks, compress the parts, join them.
//!
//! [`AssembledTerms::compress`] can run for all parts in parallel, and beside the sorting of quads, which needs the numbers of terms only.

use super::merge::MergedKeys;
use crate::dictionary::{BLOCK, Dictionary, Sample, Section, SectionBuilder, Training};
use crate::ids::Id;
use crate::term::{Encoded, Encoder};
use oxrdf::TermRef;
use std::ops::Range;
use vicus_flow::NoMemory;

/// All terms that are not inlined, each once and in order, in the parts that were merged.
#[derive(Default)]
pub struct AssembledTerms {
    kinds: [AssembledKeys; 5],
}

/// The keys of a kind.
#[derive(Default)]
struct AssembledKeys {
    /// The pieces, which are not empty, and the rank of the first key of each.
    pieces: Vec<(usize, MergedKeys)>,
    len: usize,
    training: Training,
}

/// Some keys of a kind, compressed.
pub struct CompressedKeys {
    kind: usize,
    builder: SectionBuilder,
}

impl AssembledTerms {
    /// Of the keys of each part, for each of [`Kind::IN_DICTIONARY`](crate::Kind::IN_DICTIONARY).
    pub(super) fn new(parts: impl IntoIterator<Item = [MergedKeys; 5]>) -> Result<AssembledTerms, NoMemory> {
        let mut terms = AssembledTerms::default();
        for part in parts {
            for (keys, kind) in part.into_iter().zip(&mut terms.kinds).filter(|(keys, _)| keys.len() > 0) {
                let first = kind.len;
                kind.len += keys.len();
                kind.pieces.push((first, keys));
            }
        }
        terms.kinds.iter_mut().try_for_each(AssembledKeys::train)?;
        Ok(terms)
    }

    /// The id of a term, if it is here.
    pub fn id(&self, term: TermRef<'_>) -> Option<Id> {
        let mut encoder = Encoder::default();
        let (kind, key) = match encoder.term(term) {
            Encoded::Inlined(id) => return Some(id),
            Encoded::Key(kind, key) => (kind, key.as_bytes()),
        };
        let keys = &self.kinds[kind.section()?];
        let (first, piece) = keys.pieces.iter().rev().find(|(_, piece)| piece.get(0) <= key)?;
        let less = partition_point(piece.len(), |number| piece.get(number) < key);
        (less < piece.len() && piece.get(less) == key).then(|| Id::ranked(kind, first + less))
    }

    /// Cuts them into parts of at most so many keys each, and returns the kind and the ranks of each part.
    pub fn cut(&self, most: usize) -> Vec<(usize, Range<usize>)> {
        let most = most.next_multiple_of(BLOCK).max(BLOCK);
        let parts = |(number, kind): (usize, &AssembledKeys)| {
            let len = kind.len;
            (0..len).step_by(most).map(move |start| (number, start..len.min(start + most)))
        };
        self.kinds.iter().enumerate().flat_map(parts).collect()
    }

    /// Compresses one of the parts made by [`AssembledTerms::cut`].
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn compress(&self, (number, ranks): (usize, Range<usize>)) -> Result<CompressedKeys, NoMemory> {
        let kind = &self.kinds[number];
        let mut builder = SectionBuilder::trained(kind.training.clone());
        kind.keys(ranks).try_for_each(|key| builder.push(key))?;
        Ok(CompressedKeys { kind: number, builder })
    }

    /// All of it at once.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn dictionary(self) -> Result<Dictionary, NoMemory> {
        let parts = self.cut(usize::MAX / 2).into_iter().map(|part| self.compress(part));
        join_keys(parts.collect::<Result<Vec<_>, _>>()?)
    }
}

impl AssembledKeys {
    fn keys(&self, ranks: Range<usize>) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().flat_map(move |(first, piece)| {
            let within = |rank: usize| rank.saturating_sub(*first).min(piece.len());
            (within(ranks.start)..within(ranks.end)).map(|number| piece.get(number))
        })
    }

    fn train(&mut self) -> Result<(), NoMemory> {
        let bytes: usize = self.pieces.iter().map(|(_, piece)| piece.bytes()).sum();
        let mut sample = Sample::default();
        for block in Sample::blocks(self.len, bytes) {
            self.keys(block).try_for_each(|key| sample.add(key))?;
        }
        self.training = sample.train()?;
        Ok(())
    }
}

fn partition_point(len: usize, is_so: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low.midpoint(high);
        if is_so(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// Joins the compressed parts, which must be complete and in the order of [`AssembledTerms::cut`].
///
/// # Errors
/// There is not enough memory.
pub fn join_keys(parts: impl IntoIterator<Item = CompressedKeys>) -> Result<Dictionary, NoMemory> {
    let mut builders: [Vec<SectionBuilder>; 5] = Default::default();
    parts.into_iter().for_each(|part| builders[part.kind].push(part.builder));
    let mut sections: [Section; 5] = Default::default();
    for (section, builders) in sections.iter_mut().zip(builders) {
        *section = SectionBuilder::join(builders)?.finish()?;
    }
    Ok(Dictionary::new(sections))
}
