//! From the merged terms to a dictionary: cut them into parts of whole blocks, compress the parts, join them.
//!
//! [`AssembledTerms::compress`] can run for all parts in parallel, and beside the sorting of quads, which needs the
//! numbers of terms only.

use super::BETWEEN_LOOKS;
use super::merge::MergedKeys;
use super::segment::SpilledKeys;
use crate::dictionary::{BLOCK, Dictionary, Sample, Section, SectionBuilder, Training};
use crate::ids::{Id, SECTIONS, TermKind};
use crate::packed::partition_point;
use crate::storage::Backing;
use crate::term::{Encoded, Encoder};
use oxrdf::vocab::rdf;
use std::ops::Range;
use vicus_flow::NoMemory;

/// All terms that are not inlined, each once and in order.
#[derive(Default)]
pub struct AssembledTerms {
    kinds: [AssembledKeys; SECTIONS],
    rdf_type: Option<Id>,
}

/// The keys of a kind.
enum AssembledKeys {
    InMemory {
        /// The pieces, which are not empty, and the rank of the first key of each.
        pieces: Vec<(usize, MergedKeys)>,
        len: usize,
        training: Box<Training>,
    },
    Spilled(SpilledKeys, Backing),
}

impl Default for AssembledKeys {
    fn default() -> AssembledKeys {
        AssembledKeys::InMemory { pieces: Vec::new(), len: 0, training: Box::default() }
    }
}

/// Some keys of a kind, compressed.
pub struct CompressedKeys {
    kind: usize,
    builder: SectionBuilder,
}

/// Keys of one kind of terms, by their ranks.
#[derive(Debug)]
pub struct KeyRange {
    kind: usize,
    ranks: Range<usize>,
}

impl AssembledTerms {
    /// For the keys of each part, for each of [`TermKind::IN_DICTIONARY`](crate::TermKind::IN_DICTIONARY).
    pub(super) fn new(parts: impl IntoIterator<Item = [MergedKeys; SECTIONS]>) -> Result<AssembledTerms, NoMemory> {
        let (mut all, mut lens): ([Vec<(usize, MergedKeys)>; SECTIONS], [usize; SECTIONS]) = Default::default();
        for part in parts {
            for (kind, keys) in part.into_iter().enumerate().filter(|(_, keys)| keys.len() > 0) {
                let first = lens[kind];
                lens[kind] += keys.len();
                all[kind].push((first, keys));
            }
        }
        let rdf_type = with_rdf_type(|kind, key| rank_in(&all[kind.section()?], key));
        let mut kinds: [AssembledKeys; SECTIONS] = Default::default();
        for ((kind, pieces), len) in kinds.iter_mut().zip(all).zip(lens) {
            let training = Box::new(train(&pieces, len)?);
            *kind = AssembledKeys::InMemory { pieces, len, training };
        }
        Ok(AssembledTerms { kinds, rdf_type })
    }

    /// For keys in temporary files, for each of [`TermKind::IN_DICTIONARY`](crate::TermKind::IN_DICTIONARY). The
    /// compressed keys go to this storage.
    pub(super) fn spilled(keys: [SpilledKeys; SECTIONS], rdf_type: Option<Id>, storage: &Backing) -> AssembledTerms {
        AssembledTerms { kinds: keys.map(|keys| AssembledKeys::Spilled(keys, storage.clone())), rdf_type }
    }

    /// How many there are of each of [`TermKind::IN_DICTIONARY`](crate::TermKind::IN_DICTIONARY).
    pub(super) fn counts(&self) -> [usize; SECTIONS] {
        self.kinds.each_ref().map(AssembledKeys::len)
    }

    /// The id of `rdf:type`, if it is here.
    pub fn rdf_type(&self) -> Option<Id> {
        self.rdf_type
    }

    /// Cuts them into parts of at most `most` keys each, and returns the kind and the ranks of each part. Keys in
    /// temporary files are read front to back, so those of a kind are one part.
    pub fn cut(&self, most: usize) -> Vec<KeyRange> {
        let most = most.next_multiple_of(BLOCK).max(BLOCK);
        let parts = |(number, kind): (usize, &AssembledKeys)| {
            let len = kind.len();
            let most = if matches!(kind, AssembledKeys::Spilled(..)) { len.max(1) } else { most };
            (0..len).step_by(most).map(move |start| KeyRange { kind: number, ranks: start..len.min(start + most) })
        };
        self.kinds.iter().enumerate().flat_map(parts).collect()
    }

    /// Compresses one of the parts made by [`AssembledTerms::cut`]; `None` if it `is_stopped`. If a temporary file
    /// can't be read or written, the caller's box gives up.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn compress(&self, range: KeyRange, is_stopped: &dyn Fn() -> bool) -> Result<Option<CompressedKeys>, NoMemory> {
        let KeyRange { kind, ranks } = range;
        let builder = match &self.kinds[kind] {
            AssembledKeys::InMemory { pieces, training, .. } => {
                let mut builder = SectionBuilder::new(Training::clone(training), &Backing::Memory);
                keys(pieces, ranks).try_for_each(|key| builder.push(key))?;
                builder
            }
            AssembledKeys::Spilled(keys, storage) => {
                let Some(training) = train_spilled(keys, is_stopped)? else { return Ok(None) };
                let mut builder = SectionBuilder::new(training, storage);
                let is_whole = keys.each(|rank, key| {
                    builder.push(key)?;
                    Ok(!(rank.is_multiple_of(BETWEEN_LOOKS) && is_stopped()))
                })?;
                if !is_whole {
                    return Ok(None);
                }
                builder
            }
        };
        Ok(Some(CompressedKeys { kind, builder }))
    }

    /// All of it at once.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn dictionary(self) -> Result<Dictionary, NoMemory> {
        let parts =
            self.cut(usize::MAX / 2).into_iter().filter_map(|range| self.compress(range, &|| false).transpose());
        join_keys(parts.collect::<Result<Vec<_>, _>>()?)
    }
}

/// The result of `look` for `rdf:type`, by its kind and key.
pub(super) fn with_rdf_type(look: impl FnOnce(TermKind, &[u8]) -> Option<usize>) -> Option<Id> {
    match Encoder::default().term(rdf::TYPE.into()) {
        Encoded::Inlined(id) => Some(id),
        Encoded::Key(kind, key) => look(kind, key.as_bytes()).map(|rank| Id::ranked(kind, rank)),
    }
}

impl AssembledKeys {
    fn len(&self) -> usize {
        match self {
            AssembledKeys::InMemory { len, .. } => *len,
            AssembledKeys::Spilled(keys, _) => keys.len(),
        }
    }
}

fn keys(pieces: &[(usize, MergedKeys)], ranks: Range<usize>) -> impl Iterator<Item = &[u8]> {
    pieces.iter().flat_map(move |(first, piece)| {
        let within = |rank: usize| rank.saturating_sub(*first).min(piece.len());
        (within(ranks.start)..within(ranks.end)).map(|number| piece.get(number))
    })
}

fn rank_in(pieces: &[(usize, MergedKeys)], key: &[u8]) -> Option<usize> {
    let (first, piece) = pieces.iter().rev().find(|(_, piece)| piece.get(0) <= key)?;
    let less = partition_point(0..piece.len(), |number| piece.get(number) < key);
    (less < piece.len() && piece.get(less) == key).then(|| first + less)
}

fn train(pieces: &[(usize, MergedKeys)], len: usize) -> Result<Training, NoMemory> {
    let bytes: usize = pieces.iter().map(|(_, piece)| piece.bytes()).sum();
    let mut sample = Sample::default();
    for block in Sample::blocks(len, bytes) {
        keys(pieces, block).try_for_each(|key| sample.add(key))?;
    }
    sample.train()
}

/// Like [`train`] with the same keys; `None` if it `is_stopped`.
fn train_spilled(keys: &SpilledKeys, is_stopped: &dyn Fn() -> bool) -> Result<Option<Training>, NoMemory> {
    let mut sample = Sample::default();
    let mut blocks = Sample::blocks(keys.len(), keys.bytes());
    let mut next = blocks.next();
    let is_whole = keys.each(|rank, key| {
        if next.as_ref().is_some_and(|block| block.contains(&rank)) {
            sample.add(key)?;
        }
        if next.as_ref().is_some_and(|block| rank + 1 == block.end) {
            next = blocks.next();
        }
        Ok(!(rank.is_multiple_of(BETWEEN_LOOKS) && is_stopped()))
    })?;
    if is_whole { sample.train().map(Some) } else { Ok(None) }
}

/// Joins the compressed parts, which must be complete and in the order of [`AssembledTerms::cut`].
///
/// # Errors
/// There is not enough memory.
pub fn join_keys(parts: impl IntoIterator<Item = CompressedKeys>) -> Result<Dictionary, NoMemory> {
    let mut builders: [Vec<SectionBuilder>; SECTIONS] = Default::default();
    parts.into_iter().for_each(|part| builders[part.kind].push(part.builder));
    let mut sections: [Section; SECTIONS] = Default::default();
    for (section, builders) in sections.iter_mut().zip(builders) {
        *section = SectionBuilder::join(builders)?.finish()?;
    }
    Ok(Dictionary::new(sections))
}
