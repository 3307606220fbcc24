//! A dictionary that may outgrow memory: terms without a rank. The older ones lie in temporary files.
//!
//! ```text
//!  add ──▶ young, in memory ── has its share of bytes ──▶ a run ── eight like it ──▶ one run
//! ```
//!
//! A run is a mapped file with the keys of its terms, the end of each, and the hashes in order, each with the number of
//! its term. In memory it has a filter of a byte for each term. The filter rules out 97 of 100 other keys. Neighbouring
//! runs of about the same size are merged, so a search looks at few filters: a log-structured merge tree (O'Neil et
//! al., Acta Informatica 33, 1996). The filter is a blocked one (Putze, Sanders, Singler, "Cache-, hash- and
//! space-efficient Bloom filters", WEA 2007). Ids contain the place of a term; it never changes.

use crate::checked_bytes::LentBytes;
use crate::ids::{Id, TermKind};
use crate::packed::gallop;
use crate::storage::{Backing, Growing};
use crate::unranked::{Unranked, copied, hash_of};
use std::fmt;
use std::sync::Arc;
use vicus_files::Scratch;
use vicus_flow::{Grow, NoMemory, give_up};

/// Terms kept until all of them are dropped. Each of them has one id, as in an [`Unranked`] dictionary.
///
/// ```
/// use std::sync::Arc;
/// use vicus_files::{FakeDisk, Scratch};
/// use vicus_rdf::{TermKind, RetainedTerms, Unranked};
///
/// let scratch = Scratch::new(Arc::new(FakeDisk::new(1).process(7)));
/// let mut kept = RetainedTerms::behind(&Unranked::new(rapidhash::v3::RapidSecrets::seed(1)));
/// kept.spill_beyond(Arc::clone(&scratch), 10_000);
/// let ids = (0..1000).map(|number| kept.add(TermKind::String, &format!("the text {number}")));
/// let ids = ids.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!((kept.key(ids[3]), kept.find(TermKind::String, "the text 3")), ("the text 3", Some(ids[3])));
/// assert!(scratch.written() > 10_000 && kept.held_bytes() < 12_000);
/// # Ok::<(), vicus_flow::NoMemory>(())
/// ```
pub struct RetainedTerms {
    young: Unranked,
    /// The bytes of the young terms.
    young_bytes: u64,
    /// The older terms: each run begins at the end of the one before.
    runs: Vec<Run>,
    /// The bytes of the runs.
    runs_bytes: u64,
    /// The place for runs, and the bytes of young terms per run.
    spill: Option<(Arc<Scratch>, u64)>,
}

/// So many neighbouring runs of a level become one of the next level.
const MERGED: usize = 8;

/// Runs with more bytes than this together are not merged: a merge delays the thread with the new term, and all
/// searching threads.
const MOST_MERGED: usize = 32 << 20;

/// More bytes than this don't become one run, so a run has less than 4 GiB even with the longest key.
const LARGEST: u64 = 1 << 30;

impl RetainedTerms {
    /// An empty dictionary with places behind those of another one. All its terms are in memory.
    pub fn behind(other: &Unranked) -> RetainedTerms {
        RetainedTerms { young: Unranked::behind(other), young_bytes: 0, runs: Vec::new(), runs_bytes: 0, spill: None }
    }

    /// From now on, when the terms in memory have `bytes` bytes, they are written to a temporary file.
    pub fn spill_beyond(&mut self, scratch: Arc<Scratch>, bytes: u64) {
        self.spill = Some((scratch, bytes.min(LARGEST)));
    }

    /// How many terms it has.
    pub fn len(&self) -> usize {
        self.young.end() - self.runs.first().map_or_else(|| self.young.end() - self.young.len(), |run| run.first)
    }

    /// Whether it has no terms.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its memory, in bytes.
    pub fn held_bytes(&self) -> u64 {
        self.young_bytes + self.runs_bytes
    }

    /// Takes all terms out; an empty dictionary with the following places stays here. Panics if some are in files.
    pub fn take(&mut self) -> Unranked {
        assert!(self.runs.is_empty(), "all terms are in memory");
        self.young_bytes = 0;
        self.young.take()
    }

    /// The key of a term. Panics if the term is not in here; if its file can't be read, the box gives up ([`give_up`]).
    pub fn key(&self, id: Id) -> &str {
        let place = id.place();
        match self.runs.partition_point(|run| run.first + run.len <= place) {
            run if run < self.runs.len() => self.runs[run].key(place),
            _ => self.young.key(id),
        }
    }

    /// A copy of the key. If there is not enough memory for a long key, the box gives up.
    pub fn key_copied(&self, id: Id) -> String {
        copied(self.key(id))
    }

    /// The id of the term with this key, if it is in here. If a file can't be read, the box gives up ([`give_up`]).
    pub fn find(&self, kind: TermKind, key: &str) -> Option<Id> {
        let hash = hash_of(&self.young.secrets(), kind, key);
        let young = self.young.find_hashed(kind, key, hash);
        let old = || self.runs.iter().rev().find_map(|run| run.find(kind, key, hash));
        young.or_else(|| old().map(|place| Id::unranked(kind, place)))
    }

    /// Adds a new term. If a file can't be written, the box gives up ([`give_up`]), and the term was added.
    ///
    /// # Errors
    /// There is not enough memory; nothing has changed.
    pub fn add(&mut self, kind: TermKind, key: &str) -> Result<Id, NoMemory> {
        let id = self.young.add(kind, key)?;
        self.young_bytes += Unranked::bytes_of(key) as u64;
        if self.spill.as_ref().is_some_and(|(_, most)| self.young_bytes > *most) {
            self.spill();
        }
        Ok(id)
    }

    #[cold]
    fn spill(&mut self) {
        let Some((scratch, _)) = &self.spill else { return };
        let storage = Backing::Scratch(Arc::clone(scratch));
        // A thread that gives up below leaves all terms in place.
        self.runs.push(Run::of(&self.young, &storage).unwrap_or_else(|error| give_up(error)));
        (self.young, self.young_bytes) = (Unranked::behind(&self.young), 0);
        self.count_runs();
        while let Some(first) = self.runs.len().checked_sub(MERGED) {
            let last = &self.runs[first..];
            let bytes: usize = last.iter().map(|run| run.lent.owner().bytes().len()).sum();
            if bytes > MOST_MERGED || last.iter().any(|run| run.level != last[0].level) {
                break;
            }
            let merged = Run::of_all(last, &storage).unwrap_or_else(|error| give_up(error));
            self.runs.truncate(first);
            self.runs.push(merged);
            self.count_runs();
        }
    }

    fn count_runs(&mut self) {
        self.runs_bytes = self.runs.iter().map(Run::held_bytes).sum();
    }
}

impl fmt::Debug for RetainedTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} terms, {} of them in {} files", self.len(), self.len() - self.young.len(), self.runs.len())
    }
}

/// Terms in a file: their keys, each behind a byte for its kind; the end of each key; and an entry for each term,
/// ascending: its hash, and below that its number here. Numbers are words, least byte first.
struct Run {
    first: usize,
    len: usize,
    /// How many bytes the keys have.
    keys: usize,
    level: u32,
    filter: Filter,
    lent: LentBytes,
}

const WORD: usize = size_of::<u64>();

impl Run {
    /// The terms of a dictionary; there is at least one.
    fn of(terms: &Unranked, storage: &Backing) -> Result<Run, NoMemory> {
        let len = terms.len();
        let mut entries: Vec<u64> = Vec::with_room(len)?;
        let mut writing = Growing::new(storage);
        for (number, id) in terms.ids().enumerate() {
            let key = terms.key(id);
            writing.write(&[id.kind() as u8])?;
            writing.write(key.as_bytes())?;
            entries.push(u64::from(hash_of(&terms.secrets(), id.kind(), key)) << 32 | number as u64);
        }
        let (keys, mut end) = (writing.len(), 0);
        for id in terms.ids() {
            end += 1 + terms.key(id).len();
            writing.write(&(end as u64).to_le_bytes())?;
        }
        entries.sort_unstable();
        let mut filter = Filter::new(len)?;
        for entry in entries {
            filter.add(hash_in(entry));
            writing.write(&entry.to_le_bytes())?;
        }
        let lent = LentBytes::new(writing.into_pages());
        Ok(Run { first: terms.end() - len, len, keys, level: 0, filter, lent })
    }

    /// The terms of some runs. Each begins at the end of the one before.
    fn of_all(runs: &[Run], storage: &Backing) -> Result<Run, NoMemory> {
        /// So many bytes of keys are copied at once.
        const AT_ONCE: usize = 64 << 10;
        let len = runs.iter().map(|run| run.len).sum();
        let mut writing = Growing::new(storage);
        for run in runs {
            for start in (0..run.keys).step_by(AT_ONCE) {
                writing.write(run.bytes(start, AT_ONCE.min(run.keys - start)))?;
            }
        }
        let (keys, mut before) = (writing.len(), 0);
        for run in runs {
            for number in 0..run.len {
                writing.write(&((before + run.end(number)) as u64).to_le_bytes())?;
            }
            before += run.keys;
        }
        let mut filter = Filter::new(len)?;
        // The next entry of each run, with the new number of its term.
        let entry = |run: &Run, at: usize| (at < run.len).then(|| run.entry(at) + (run.first - runs[0].first) as u64);
        let mut heads: Vec<(usize, Option<u64>)> = runs.iter().map(|run| (0, entry(run, 0))).collect();
        while let Some((number, next)) = heads
            .iter()
            .enumerate()
            .filter_map(|(number, (_, entry))| Some((number, (*entry)?)))
            .min_by_key(|head| head.1)
        {
            filter.add(hash_in(next));
            writing.write(&next.to_le_bytes())?;
            let at = heads[number].0 + 1;
            heads[number] = (at, entry(&runs[number], at));
        }
        let lent = LentBytes::new(writing.into_pages());
        Ok(Run { first: runs[0].first, len, keys, level: runs[0].level + 1, filter, lent })
    }

    fn held_bytes(&self) -> u64 {
        (size_of::<Run>() + self.filter.0.len() * WORD) as u64
    }

    fn bytes(&self, start: usize, len: usize) -> &[u8] {
        self.lent.ensure(start..start + len);
        &self.lent.owner().bytes()[start..start + len]
    }

    fn word(&self, start: usize) -> u64 {
        u64::from_le_bytes(self.bytes(start, WORD).try_into().expect("a word has these bytes"))
    }

    /// The end of the key of the term with this number.
    fn end(&self, number: usize) -> usize {
        self.word(self.keys + number * WORD) as usize
    }

    fn entry(&self, at: usize) -> u64 {
        self.word(self.keys + (self.len + at) * WORD)
    }

    /// The kind and the key of the term with this number.
    fn term(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.end(before));
        self.bytes(start, self.end(number) - start)
    }

    fn key(&self, place: usize) -> &str {
        let term = self.term(place - self.first);
        str::from_utf8(&term[1..]).expect("its bytes are as they were written, and a text was")
    }

    /// The place of a term.
    fn find(&self, kind: TermKind, key: &str, hash: u32) -> Option<usize> {
        if !self.filter.may_have(hash) {
            return None;
        }
        let entries = (self.first_of(hash)..self.len).map(|at| self.entry(at));
        let mut numbers = entries.take_while(|&entry| hash_in(entry) == hash).map(|entry| entry as u32 as usize);
        let is_it = |number: &usize| {
            let term = self.term(*number);
            term[0] == kind as u8 && term[1..] == *key.as_bytes()
        };
        numbers.find(is_it).map(|number| self.first + number)
    }

    /// The first entry with this hash or a greater one. Hashes are spread evenly, so the search begins near to it.
    fn first_of(&self, hash: u32) -> usize {
        let guess = ((u64::from(hash) * self.len as u64) >> 32) as usize;
        gallop(0..self.len, guess, |at| hash_in(self.entry(at)) < hash)
    }
}

fn hash_in(entry: u64) -> u32 {
    (entry >> 32) as u32
}

/// Tells of hashes that they are missing. For each term it has a byte, and uses three bits of the word chosen by the
/// hash.
struct Filter(Vec<u64>);

impl Filter {
    /// A filter for `terms` terms.
    fn new(terms: usize) -> Result<Filter, NoMemory> {
        let words = terms.div_ceil(WORD).max(1);
        Ok(Filter(Vec::zeroed(words)?))
    }

    fn place(&self, hash: u32) -> (usize, u64) {
        let word = ((u64::from(hash) * self.0.len() as u64) >> 32) as usize;
        // The word's number comes from the highest bits, so these come from bits depending on all.
        let other = hash.wrapping_mul(0x9E37_79B9);
        (word, 1 << (other >> 26) | 1 << (other >> 20 & 63) | 1 << (other >> 14 & 63))
    }

    fn add(&mut self, hash: u32) {
        let (word, bits) = self.place(hash);
        self.0[word] |= bits;
    }

    fn may_have(&self, hash: u32) -> bool {
        let (word, bits) = self.place(hash);
        self.0[word] & bits == bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rapidhash::v3::RapidSecrets;
    use std::collections::BTreeMap;
    use vicus_files::{Failure, FakeDisk};
    use vicus_flow::or_given_up;

    /// Chance of a seed: Steele et al., OOPSLA 2014.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let bits = (*state ^ *state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits ^ bits >> 27
    }

    fn key_of(chance: u64, among: u64) -> (TermKind, String) {
        let kinds = [TermKind::Iri, TermKind::String, TermKind::Typed];
        let number = chance % among;
        let length = if number.is_multiple_of(97) { 3000 } else { (number % 40) as usize };
        (kinds[(chance >> 40) as usize % 3], format!("{number}{}", "é".repeat(length)))
    }

    #[test]
    fn a_term_has_one_id_wherever_it_lies() {
        for (seed, most) in [(1, 0), (2, 300), (3, 20_000), (4, u64::MAX)] {
            let mut before = Unranked::new(RapidSecrets::seed(seed));
            before.add(TermKind::Iri, "before").unwrap();
            let mut kept = RetainedTerms::behind(&before);
            let scratch = Scratch::new(Arc::new(FakeDisk::new(seed).process(1)));
            kept.spill_beyond(Arc::clone(&scratch), most);
            let (mut model, mut state): (BTreeMap<(TermKind, String), Id>, u64) = (BTreeMap::new(), seed);
            for step in 0..4000 {
                let (kind, key) = key_of(next(&mut state), 1500);
                let known = model.get(&(kind, key.clone())).copied();
                assert_eq!(kept.find(kind, &key), known, "seed {seed}, step {step}: {key}");
                if known.is_none() {
                    let id = kept.add(kind, &key).unwrap();
                    assert_eq!((id, id.kind()), (Id::unranked(kind, 1 + model.len()), kind));
                    model.insert((kind, key), id);
                }
            }
            for ((kind, key), id) in &model {
                assert_eq!((kept.key(*id), kept.find(*kind, key)), (key.as_str(), Some(*id)), "seed {seed}");
                assert_eq!(kept.key_copied(*id), *key);
            }
            assert_eq!((kept.len(), kept.find(TermKind::Iri, "before")), (model.len(), None));
            let spills = most < u64::MAX;
            assert_eq!((scratch.written() > 0, kept.runs.is_empty()), (spills, !spills));
            // At most seven of each level.
            assert!(kept.runs.len() <= 7 * 5, "{kept:?}");
        }
    }

    /// 600 kB of keys in 20 kB, and a byte for each of 10,000 terms.
    #[test]
    fn what_is_in_files_takes_a_byte_of_memory_for_a_term() {
        let mut kept = RetainedTerms::behind(&Unranked::new(RapidSecrets::seed(5)));
        kept.spill_beyond(Scratch::new(Arc::new(FakeDisk::new(5).process(1))), 20_000);
        for number in 0..10_000 {
            kept.add(TermKind::String, &format!("{number:060}")).unwrap();
            let runs = kept.runs.len() * (size_of::<Run>() + WORD);
            assert!(kept.held_bytes() <= 20_000 + number + runs as u64, "{kept:?}");
        }
        let wrong = (0..10_000).filter(|number| {
            kept.runs[0].filter.may_have(hash_of(&kept.young.secrets(), TermKind::Iri, &number.to_string()))
        });
        assert!(wrong.count() < 700, "the filter says no of most terms that are not there");
    }

    #[test]
    fn runs_beyond_a_size_are_not_merged() {
        let mut kept = RetainedTerms::behind(&Unranked::new(RapidSecrets::seed(6)));
        kept.spill_beyond(Scratch::new(Arc::new(FakeDisk::new(6).process(1))), 4 << 20);
        let long = "x".repeat(1 << 20);
        for number in 0..80 {
            kept.add(TermKind::String, &format!("{number}{long}")).unwrap();
        }
        assert!(kept.runs.len() > 2 * MERGED, "{kept:?}");
    }

    #[test]
    fn who_gives_up_leaves_all_terms_where_they_were() {
        for failure in [Failure::Error, Failure::Full] {
            let mut failed = 0;
            for after in 0..60 {
                let disk = FakeDisk::new(after);
                let mut kept = RetainedTerms::behind(&Unranked::new(RapidSecrets::seed(7)));
                kept.spill_beyond(Scratch::new(Arc::new(disk.process(1))), 400);
                disk.fail_after(after, failure);
                let mut added = Vec::new();
                let key = |number: usize| format!("the key of number {number}");
                for number in 0..300 {
                    let outcome = or_given_up(|| kept.add(TermKind::Iri, &key(number)).unwrap());
                    added.push(kept.find(TermKind::Iri, &key(number)).expect("it was added"));
                    if let Err(error) = outcome {
                        assert!(error.to_string().contains("a temporary file in fake/"), "{error}");
                        break;
                    }
                }
                for (number, &id) in added.iter().enumerate() {
                    assert_eq!((kept.key(id), kept.find(TermKind::Iri, &key(number))), (&*key(number), Some(id)));
                }
                failed += usize::from(added.len() < 300);
            }
            // A full disk matters to writing only.
            assert!(failed >= 20, "{failure:?}: {failed} failures");
        }
    }
}
