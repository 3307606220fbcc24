//! From the terms of chunks to one dictionary: sort the terms of each chunk, cut all chunks at the same terms, merge
//! the parts, join them.
//!
//! [`SortedTerms::new`] can run for all chunks in parallel, [`merge_terms`] for all parts; [`cut_terms`] is quick, and
//! [`assemble`] copies.

use super::compress::AssembledTerms;
use super::terms::Entries;
use super::{NumberedQuads, ParsedPart, merge_sorted};
use crate::ids::{Id, SECTIONS, TermKind};
use crate::packed::{Packed, Packing};
use std::ops::Range;
use vicus_flow::{Grow, NoMemory};

/// The terms of a chunk, in the order of ids.
pub struct SortedTerms {
    entries: Entries,
    /// Local numbers in the order of their terms. Invariant: the entries strictly ascend.
    pub(super) order: Vec<u32>,
}

impl SortedTerms {
    /// Sorts the parsed terms; returns the quads, of local numbers, beside them.
    ///
    /// # Errors
    /// There is not enough memory for sorting: 16 bytes for each term.
    pub fn new(parsed: ParsedPart) -> Result<(SortedTerms, NumberedQuads), NoMemory> {
        let entries = parsed.terms.into_entries();
        let order = sort(&entries)?;
        Ok((SortedTerms { entries, order }, parsed.quads))
    }

    /// How many terms there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn entry(&self, place: usize) -> &[u8] {
        self.entries.get(self.order[place])
    }
}

/// Up to this many entries are sorted by comparisons.
const FEW: usize = 12;

/// The numbers of all entries in ascending order: sorts by the first eight bytes, then each group of equals by the next
/// eight. So a common prefix is read once for each level, not once for each comparison.
fn sort(entries: &Entries) -> Result<Vec<u32>, NoMemory> {
    let mut words: Vec<(u64, u32)> = Vec::with_room(entries.len())?;
    words.extend((0..entries.len() as u32).map(|number| (0, number)));
    // An explicit stack, since terms may have millions of bytes in common.
    let mut groups = vec![(0..words.len(), 0)];
    while let Some((range, depth)) = groups.pop() {
        let group = &mut words[range.clone()];
        if group.len() <= FEW {
            group.sort_unstable_by_key(|&(_, number)| &entries.get(number)[depth..]);
            continue;
        }
        for (word, number) in &mut *group {
            *word = word_at(entries.get(*number), depth);
        }
        group.sort_unstable_by_key(|&(word, _)| word);
        let mut start = 0;
        while start < group.len() {
            let word = group[start].0;
            let mut end = start + 1;
            while end < group.len() && group[end].0 == word {
                end += 1;
            }
            if end - start > 1 {
                // Entries that end within these bytes are prefixes of the others, and differ in length only.
                let equals = &mut group[start..end];
                let is_short = |number| entries.get(number).len() <= depth + 8;
                equals.sort_unstable_by_key(
                    |&(_, number)| {
                        if is_short(number) { entries.get(number).len() } else { usize::MAX }
                    },
                );
                let short = equals.partition_point(|&(_, number)| is_short(number));
                groups.grow(1)?;
                groups.push((range.start + start + short..range.start + end, depth + 8));
            }
            start = end;
        }
    }
    let mut order = Vec::with_room(words.len())?;
    order.extend(words.into_iter().map(|(_, number)| number));
    Ok(order)
}

/// The eight bytes from `depth` on, with zeros after the end.
fn word_at(entry: &[u8], depth: usize) -> u64 {
    let rest = &entry[depth..];
    match rest.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(bytes)
        }
    }
}

/// Cuts the terms of all chunks at the same terms into `parts` of similar size: for each part, the range in each chunk.
/// Equal terms are in the same part. Parts may be empty.
pub fn cut_terms(chunks: &[SortedTerms], parts: usize) -> Vec<Vec<Range<usize>>> {
    const SAMPLES_PER_PART: usize = 32;
    // Samples at equal distances over all chunks together, so a chunk's share is proportional to its size.
    let total: usize = chunks.iter().map(SortedTerms::len).sum();
    let step = (total / (parts.max(1) * SAMPLES_PER_PART)).max(1);
    let mut samples: Vec<&[u8]> =
        chunks.iter().flat_map(|chunk| (step / 2..chunk.len()).step_by(step).map(|place| chunk.entry(place))).collect();
    samples.sort_unstable();
    let mut starts = vec![0; chunks.len()];
    (1..=parts)
        .map(|part| {
            let bound = if part == parts { None } else { samples.get(samples.len() * part / parts) };
            let ends: Vec<usize> = chunks
                .iter()
                .map(|chunk| match bound {
                    Some(bound) => chunk.order.partition_point(|&number| chunk.entries.get(number) < *bound),
                    None => chunk.len(),
                })
                .collect();
            let ranges = starts.iter().zip(&ends).map(|(&start, &end)| start..end.max(start)).collect();
            starts = ends;
            ranges
        })
        .collect()
}

/// A part of all terms, each once.
pub struct MergedTerms {
    /// How many there are.
    count: u32,
    /// For each of [`TermKind::IN_DICTIONARY`], the keys.
    sections: [MergedKeys; SECTIONS],
    /// The ids of those that are not in a dictionary.
    inlined: Vec<Id>,
    /// For each chunk, the places of its terms among those of this part, in their order.
    places: Vec<Vec<u32>>,
}

/// Keys one after the other, ascending.
#[derive(Default)]
pub(super) struct MergedKeys {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl MergedKeys {
    fn push(&mut self, key: &[u8]) -> Result<(), NoMemory> {
        self.text.grow(key.len())?;
        self.ends.grow(1)?;
        self.text.extend_from_slice(key);
        self.ends.push(self.text.len());
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// How many bytes all keys have.
    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }

    pub(super) fn get(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[number]]
    }
}

/// Merges one of the parts made by [`cut_terms`].
///
/// # Errors
/// There is not enough memory.
pub fn merge_terms(chunks: &[SortedTerms], part: &[Range<usize>]) -> Result<MergedTerms, NoMemory> {
    let numbered = |(chunk, range): (usize, &Range<usize>)| {
        let mut terms = Vec::with_room(range.len())?;
        terms.extend(chunks[chunk].order[range.clone()].iter().map(|&number| (chunk as u32, number)));
        Ok(terms)
    };
    let sorted: Vec<Vec<(u32, u32)>> = part.iter().enumerate().map(numbered).collect::<Result<_, _>>()?;
    let entry = |&(chunk, number): &(u32, u32)| chunks[chunk as usize].entries.get(number);
    let terms = merge_sorted(sorted, &|a, b| entry(a).cmp(entry(b)))?;

    let mut merged = MergedTerms {
        count: 0,
        sections: Default::default(),
        inlined: Vec::new(),
        places: part.iter().map(|range| Vec::with_room(range.len())).collect::<Result<_, _>>()?,
    };
    let mut last: Option<&[u8]> = None;
    for term in &terms {
        let entry = entry(term);
        if last != Some(entry) {
            last = Some(entry);
            merged.push(entry)?;
        }
        merged.places[term.0 as usize].push(merged.count - 1);
    }
    Ok(merged)
}

impl MergedTerms {
    fn push(&mut self, entry: &[u8]) -> Result<(), NoMemory> {
        self.count = self.count.checked_add(1).expect("fewer than 2^32 distinct terms");
        match entry_of(entry) {
            Entry::Key(section, key) => self.sections[section].push(key),
            Entry::Inlined(id) => {
                self.inlined.grow(1)?;
                self.inlined.push(id);
                Ok(())
            }
        }
    }
}

/// The term of an entry.
pub(super) enum Entry<'a> {
    /// A key of the section of one of [`TermKind::IN_DICTIONARY`].
    Key(usize, &'a [u8]),
    Inlined(Id),
}

pub(super) fn entry_of(entry: &[u8]) -> Entry<'_> {
    let (&tag, key) = entry.split_first().expect("an entry has a tag");
    match TermKind::of_tag(tag).expect("a tag that the encoder wrote").section() {
        Some(section) => Entry::Key(section, key),
        None => {
            let bits = u64::from_be_bytes(entry.try_into().expect("an inlined id has eight bytes"));
            Entry::Inlined(Id::from_bits(bits))
        }
    }
}

/// All terms, numbered densely in the order of their ids: triples are sorted with four bytes for each term.
#[derive(Default, Debug)]
pub struct Numbering {
    /// The first number of each span of ids: one for each of [`TermKind::IN_DICTIONARY`], and [`INLINED`] for terms
    /// that are in no dictionary.
    firsts: [u32; SPANS],
    /// The least id of each span but that.
    bases: [u64; SPANS],
    len: usize,
    /// The ids of that one.
    inlined: Packed<1>,
}

const SPANS: usize = SECTIONS + 1;

/// The span of terms outside of dictionaries. Their kinds come between two kinds in one.
const INLINED: usize = 5;
const _: () = assert!((TermKind::IN_DICTIONARY[INLINED - 1] as u8) < TermKind::Boolean as u8);
const _: () = assert!((TermKind::Integer as u8) < TermKind::IN_DICTIONARY[INLINED] as u8);

impl Numbering {
    /// For these numbers of terms of each of [`TermKind::IN_DICTIONARY`], and the others.
    pub(super) fn new(counts: [usize; SECTIONS], inlined: Packed<1>) -> Numbering {
        let (mut len, mut firsts, mut bases) = (0, [0; SPANS], [0; SPANS]);
        let mut kinds = TermKind::IN_DICTIONARY.into_iter().zip(counts);
        for span in 0..SPANS {
            firsts[span] = u32::try_from(len).expect("fewer than 2^32 distinct terms");
            len += if span == INLINED {
                inlined.len()
            } else {
                let (kind, count) = kinds.next().expect("a kind for each other span");
                bases[span] = Id::ranked(kind, 0).bits();
                count
            };
        }
        assert!(u32::try_from(len).is_ok(), "fewer than 2^32 distinct terms");
        Numbering { firsts, bases, len, inlined }
    }

    /// The id of the term with this number.
    #[inline]
    pub fn id(&self, number: u32) -> Id {
        debug_assert!((number as usize) < self.len, "number {number} of {}", self.len);
        let span: usize = self.firsts[1..].iter().map(|first| usize::from(*first <= number)).sum();
        let place = number - self.firsts[span];
        Id::from_bits(if span == INLINED {
            self.inlined.get(0, place as usize)
        } else {
            self.bases[span] + u64::from(place)
        })
    }

    /// How many terms there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The result of merging the terms of all chunks.
pub struct Assembled {
    /// The terms of the snapshot's dictionary, which are still to be compressed.
    pub terms: AssembledTerms,
    /// From number to id.
    pub numbering: Numbering,
    /// For each chunk, from its local numbers to numbers: the tables for [`remap`](super::remap).
    pub tables: Vec<Vec<u32>>,
}

/// Joins the merged parts, which must be complete and in the order of [`cut_terms`]. Panics at 2^32 distinct terms.
///
/// # Errors
/// There is not enough memory.
pub fn assemble(chunks: Vec<SortedTerms>, parts: Vec<MergedTerms>) -> Result<Assembled, NoMemory> {
    let table = |chunk: &SortedTerms| Vec::<u32>::zeroed(chunk.len());
    let mut tables: Vec<Vec<u32>> = chunks.iter().map(table).collect::<Result<_, _>>()?;
    let mut done = vec![0; chunks.len()];
    let mut base = 0;
    for part in &parts {
        for (chunk, places) in part.places.iter().enumerate() {
            let numbers = &chunks[chunk].order[done[chunk]..][..places.len()];
            for (&number, &place) in numbers.iter().zip(places) {
                tables[chunk][number as usize] = base + place;
            }
            done[chunk] += places.len();
        }
        base = u32::checked_add(base, part.count).expect("fewer than 2^32 distinct terms");
    }
    // The chunks' texts are freed before the dictionary is made.
    drop(chunks);
    let mut inlined = Packing::default();
    parts.iter().flat_map(|part| &part.inlined).try_for_each(|id| inlined.push([id.bits()]))?;
    let terms = AssembledTerms::new(parts.into_iter().map(|part| part.sections))?;
    let numbering = Numbering::new(terms.counts(), inlined.finish()?);
    Ok(Assembled { terms, numbering, tables })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::terms::Terms;
    use rapidhash::v3::RapidSecrets;

    fn entries(keys: &[Vec<u8>]) -> Entries {
        let mut terms = Terms::new(RapidSecrets::seed(0));
        for key in keys {
            terms.make_room(1, key.len() + 1).unwrap();
            terms.intern_key(TermKind::String, key);
        }
        terms.into_entries()
    }

    #[test]
    fn zeros_and_prefixes_sort_as_bytes_do() {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for length in 0..40 {
            for last in [0, 1, b'a', 255] {
                keys.push([vec![0; length], vec![last]].concat());
                keys.push([vec![b'x'; length], vec![last]].concat());
            }
        }
        keys.sort();
        keys.dedup();
        let mut shuffled = keys.clone();
        shuffled.sort_by_key(|key| {
            key.iter().fold(key.len() as u32, |hash, &byte| hash.wrapping_mul(31) + u32::from(byte))
        });
        let entries = entries(&shuffled);
        let sorted: Vec<&[u8]> = sort(&entries).unwrap().into_iter().map(|number| &entries.get(number)[1..]).collect();
        assert_eq!(sorted, keys);
    }

    #[test]
    fn terms_with_a_million_bytes_in_common_take_no_stack() {
        let keys: Vec<Vec<u8>> = (0..40_u8).rev().map(|last| [vec![b'x'; 1_000_000], vec![last]].concat()).collect();
        assert_eq!(sort(&entries(&keys)).unwrap(), (0..40).rev().collect::<Vec<u32>>());
    }
}
