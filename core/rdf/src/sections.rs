//! A snapshot as named sections of bytes, and a snapshot that reads sections in place.
//!
//! | section | what it has |
//! |---|---|
//! | `about` | the [`FORMAT`]; the numbers of terms of each kind; the orders, with the numbers of their rows |
//! | `KIND.symbols` | for each symbol of the compressed keys of a kind of terms its length and its bytes |
//! | `KIND.text`, `KIND.ends` | the blocks of these keys ([`Dictionary`]), and where each ends |
//! | `ORDER.PART.frames`, `ORDER.PART.data` | packed columns of an index: of its graphs, keys, rows, and last level |
//! | `statistics`, `sets` | counts for the planner, of the default graph; with `named.` in front, of all named graphs |
//!
//! Numbers are words, least byte first. All but `about` and the counts is read in place, when a query needs it.

use crate::base::Base;
use crate::characteristic::CharacteristicSets;
use crate::checked_bytes::CheckedBytes;
use crate::dictionary::{Dictionary, Section, write_symbols};
use crate::ids::{Id, SECTIONS, TermKind};
use crate::index::{Index, Order};
use crate::packed::Packed;
use crate::placement::PlacedVec;
use crate::snapshot::Snapshot;
use crate::statistics::Statistics;
use std::fmt;
use std::sync::Arc;
use vicus_flow::BoxError;

/// The version of the sections. Version 1 had uncompressed keys, version 2 no terms of RDF 1.2 alone.
pub const FORMAT: u64 = 3;

/// The version written if there are no terms of [`NEW_KINDS`], so older programs can read it.
const FORMAT_OF_OLD_KINDS: u64 = 2;

/// The kinds of terms of RDF 1.2 alone. Format 2 has neither their numbers nor their sections.
const NEW_KINDS: [TermKind; 2] = [TermKind::DirString, TermKind::Triple];

/// The kinds in the dictionary of a format, with their sections' numbers and names.
fn kinds_of(format: u64) -> impl Iterator<Item = (usize, &'static str)> {
    let is_in = move |kind: &TermKind| format >= FORMAT || !NEW_KINDS.contains(kind);
    TermKind::IN_DICTIONARY
        .into_iter()
        .zip(KINDS)
        .enumerate()
        .filter(move |(_, (kind, _))| is_in(kind))
        .map(|(n, (_, name))| (n, name))
}

/// The place for sections, written one after the other.
pub trait Sections {
    /// Begins a section. Its name has at most 24 letters, digits and dots.
    ///
    /// # Errors
    /// The section can't be written.
    fn begin(&mut self, name: &str) -> Result<(), BoxError>;

    /// Adds bytes to it.
    ///
    /// # Errors
    /// They can't be written.
    fn write(&mut self, bytes: &[u8]) -> Result<(), BoxError>;
}

/// Why sections are no snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotASnapshot {
    /// There is no section of this name.
    Missing(String),
    /// The format is newer.
    Newer(u64),
    /// The format is older.
    Older(u64),
}

impl fmt::Display for NotASnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotASnapshot::Missing(name) => write!(f, "there is no section {name}"),
            NotASnapshot::Newer(format) => {
                write!(f, "it has format {format}, from a newer Vicus; this one reads format {FORMAT}")
            }
            NotASnapshot::Older(format) => {
                write!(
                    f,
                    "it has format {format}, from an older Vicus; this one reads format {FORMAT}. Dump the store with \
                        the old one, and load it anew"
                )
            }
        }
    }
}

impl std::error::Error for NotASnapshot {}

/// Words in a row, for small data.
#[derive(Default)]
pub(crate) struct Words(Vec<u64>);

impl Words {
    pub(crate) fn push(&mut self, word: usize) {
        self.0.push(word as u64);
    }

    pub(crate) fn push_id(&mut self, id: Id) {
        self.0.push(id.bits());
    }

    fn write(&self, name: &str, into: &mut dyn Sections) -> Result<(), BoxError> {
        into.begin(name)?;
        self.0.iter().try_for_each(|word| into.write(&word.to_le_bytes()))
    }
}

/// Reads words one after the other.
pub(crate) struct Reading<'a>(&'a [u8]);

impl Reading<'_> {
    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    pub(crate) fn number(&mut self) -> Option<usize> {
        usize::try_from(self.word()?).ok()
    }

    pub(crate) fn id(&mut self) -> Option<Id> {
        self.word().map(Id::from_bits)
    }

    /// A number of things with at least this number of words each.
    pub(crate) fn count(&mut self, words: usize) -> Option<usize> {
        let left = self.0.len() / 8;
        self.number().filter(|count| count.checked_mul(words).is_some_and(|words| words < left))
    }
}

/// The names of the sections of each of [`TermKind::IN_DICTIONARY`].
pub(crate) const KINDS: [&str; SECTIONS] = ["blank", "iri", "string", "lang", "directed", "typed", "triple"];
const _: () = assert!(KINDS.len() == TermKind::IN_DICTIONARY.len());

/// Writes values of a possible other owner, in parts. Each part is checked before it is written.
fn write_values<T: Copy>(
    name: &str,
    values: &PlacedVec<T>,
    bytes: impl Fn(&[T]) -> &[u8],
    into: &mut dyn Sections,
) -> Result<(), BoxError> {
    const AT_ONCE: usize = 64 << 10;
    into.begin(name)?;
    let mut start = 0;
    while start < values.len() {
        let end = values.len().min(start + AT_ONCE);
        into.write(bytes(values.part(start..end)))?;
        start = end;
    }
    Ok(())
}

fn write_packed<const N: usize>(name: &str, packed: &Packed<N>, into: &mut dyn Sections) -> Result<(), BoxError> {
    write_values(&format!("{name}.frames"), packed.frames(), |bytes| bytes, into)?;
    write_values(&format!("{name}.data"), packed.data(), |bytes| bytes, into)
}

/// Finds sections.
struct SectionFinder<'a>(&'a dyn Fn(&str) -> Option<Arc<dyn CheckedBytes>>);

impl SectionFinder<'_> {
    fn get(&self, name: &str) -> Result<Arc<dyn CheckedBytes>, BoxError> {
        (self.0)(name).ok_or_else(|| NotASnapshot::Missing(name.to_owned()).into())
    }

    /// Reads a section as a whole.
    fn read<R>(
        &self,
        name: &str,
        read: impl FnOnce(&mut Reading<'_>) -> Result<Option<R>, BoxError>,
    ) -> Result<R, BoxError> {
        let section = self.get(name)?;
        section.check(0..section.bytes().len())?;
        let made = read(&mut Reading(section.bytes()))?;
        made.ok_or_else(|| section.senseless(0, "its numbers make no sense"))
    }

    fn packed<const N: usize>(&self, name: &str, rows: usize) -> Result<Packed<N>, BoxError> {
        let frames = self.get(&format!("{name}.frames"))?;
        let packed = Packed::lent(rows, frames.clone(), self.get(&format!("{name}.data"))?);
        packed.ok_or_else(|| frames.senseless(0, "it is not as long as its rows need"))
    }
}

/// The content of the section `about`.
struct About {
    format: u64,
    terms: [usize; SECTIONS],
    indexes: Vec<AboutIndex>,
}

/// Its content on an index.
struct AboutIndex {
    order: Order,
    /// The rows of its columns.
    graphs: usize,
    keys: usize,
    rows: usize,
    last: usize,
    only: Option<Id>,
}

impl AboutIndex {
    fn of(index: &Index) -> AboutIndex {
        assert_eq!(index.change_count(), 0, "what was changed is united before it is written");
        let Base { order, graphs, only, keys, rows, last } = index.base();
        let (graphs, keys, rows, last) = (graphs.len(), keys.len(), rows.len(), last.len());
        AboutIndex { order: *order, graphs, keys, rows, last, only: *only }
    }

    fn store(&self, into: &mut Words) {
        let AboutIndex { order, graphs, keys, rows, last, only } = self;
        for number in [*order as usize, *graphs, *keys, *rows, *last, usize::from(only.is_some())] {
            into.push(number);
        }
        into.push_id(only.unwrap_or_default());
    }

    fn stored(words: &mut Reading<'_>) -> Option<AboutIndex> {
        let number = words.number()?;
        let order = Order::ALL.into_iter().find(|order| *order as usize == number)?;
        let (graphs, keys, rows, last) = (words.number()?, words.number()?, words.number()?, words.number()?);
        let has_only = words.number()? == 1;
        let only = Some(words.id()?).filter(|_| has_only);
        Some(AboutIndex { order, graphs, keys, rows, last, only })
    }

    /// Columns that stay in place.
    fn index(&self, found: &SectionFinder<'_>) -> Result<Index, BoxError> {
        let AboutIndex { order, graphs, keys, rows, last, only } = *self;
        let name = |part: &str| format!("{order:?}.{part}");
        let (graphs, keys) = (found.packed(&name("graphs"), graphs)?, found.packed(&name("keys"), keys)?);
        let (rows, last) = (found.packed(&name("rows"), rows)?, found.packed(&name("last"), last)?);
        Ok(Index::of_base(Base { order, graphs, only, keys, rows, last }))
    }
}

fn write_index(index: &Index, into: &mut dyn Sections) -> Result<(), BoxError> {
    let Base { order, graphs, keys, rows, last, .. } = index.base();
    write_packed(&format!("{order:?}.graphs"), graphs, into)?;
    write_packed(&format!("{order:?}.keys"), keys, into)?;
    write_packed(&format!("{order:?}.rows"), rows, into)?;
    write_packed(&format!("{order:?}.last"), last, into)
}

/// The sections with the counts of the default graph, and of all named graphs.
const COUNTS: [[&str; 2]; 2] = [["statistics", "sets"], ["named.statistics", "named.sets"]];

impl Snapshot {
    /// Writes all of it. Panics if it was changed since its indexes were built: then it is to be
    /// [united](Snapshot::united) before.
    ///
    /// # Errors
    /// A section can't be written.
    pub fn write(&self, into: &mut dyn Sections) -> Result<(), BoxError> {
        let has_new = NEW_KINDS.into_iter().any(|kind| self.dictionary().count(kind) > 0);
        let format = if has_new { FORMAT } else { FORMAT_OF_OLD_KINDS };
        let mut about = Words(vec![format]);
        let sections = self.dictionary().sections();
        kinds_of(format).for_each(|(number, _)| about.push(sections[number].len()));
        about.push(self.orders().count());
        self.orders().for_each(|order| AboutIndex::of(self.index(order)).store(&mut about));
        about.write("about", into)?;
        for (number, name) in kinds_of(format) {
            let section = &sections[number];
            let (text, ends) = section.parts();
            write_symbols(number, section.symbols(), into)?;
            write_values(&format!("{name}.text"), text, |bytes| bytes, into)?;
            write_values(&format!("{name}.ends"), ends, |ends| ends.as_flattened(), into)?;
        }
        self.orders().try_for_each(|order| write_index(self.index(order), into))?;
        for (counts, names) in [self.statistics(), self.named_statistics()].into_iter().zip(COUNTS) {
            let (mut statistics, mut sets) = Default::default();
            counts.store(&mut statistics);
            counts.characteristic().store(&mut sets);
            statistics.write(names[0], into)?;
            sets.write(names[1], into)?;
        }
        Ok(())
    }

    /// A snapshot of sections written by [`Snapshot::write`]. They stay in place. Only the section `about` and the
    /// counts are read now. A page of another section is checked when a reader first needs it; if it differs from the
    /// written one, the reader's box gives up ([`give_up`](vicus_flow::give_up)) with the owner's error.
    ///
    /// # Errors
    /// A section is missing, not as it was written, or of another format.
    pub fn lent(sections: &dyn Fn(&str) -> Option<Arc<dyn CheckedBytes>>) -> Result<Snapshot, BoxError> {
        let found = SectionFinder(sections);
        let about = found.read("about", |words| match words.word() {
            Some(format) if format > FORMAT => Err(NotASnapshot::Newer(format).into()),
            Some(format) if format < FORMAT_OF_OLD_KINDS => Err(NotASnapshot::Older(format).into()),
            Some(format) => Ok(About::read(format, words)),
            None => Ok(None),
        })?;
        let mut kinds: [Section; SECTIONS] = Default::default();
        for (number, name) in kinds_of(about.format) {
            let get = |part: &str| found.get(&format!("{name}.{part}"));
            kinds[number] = Section::lent(about.terms[number], [get("symbols")?, get("text")?, get("ends")?])?;
        }
        let indexes = about.indexes.iter().map(|about| about.index(&found)).collect::<Result<Vec<Index>, _>>()?;
        let counts = |[statistics, sets]: [&str; 2]| {
            let sets = found.read(sets, |words| Ok(CharacteristicSets::stored(words)))?;
            found.read(statistics, |words| Ok(Statistics::stored(words, sets)))
        };
        let [of_default, of_named] = COUNTS.map(counts);
        Ok(Snapshot::of_parts(Dictionary::new(kinds), indexes, [of_default?, of_named?]))
    }
}

impl About {
    fn read(format: u64, words: &mut Reading<'_>) -> Option<About> {
        let mut terms = [0; SECTIONS];
        for (number, _) in kinds_of(format) {
            terms[number] = words.number()?;
        }
        let mut indexes: Vec<AboutIndex> = Vec::new();
        for _ in 0..words.count(7)? {
            indexes.push(AboutIndex::stored(words)?);
        }
        let has = |order: &Order| indexes.iter().any(|index| index.order == *order);
        Order::USUAL.iter().all(has).then_some(About { format, terms, indexes })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::checked_bytes::tests::Damaged;
    use crate::load::{Loader, Syntax};
    use std::collections::BTreeMap;
    use std::fmt::Write as _;
    use vicus_flow::or_given_up;

    #[derive(Default)]
    pub(crate) struct InMemory(pub(crate) BTreeMap<String, Vec<u8>>, String);

    impl Sections for InMemory {
        fn begin(&mut self, name: &str) -> Result<(), BoxError> {
            assert!(name.len() <= 24 && !self.0.contains_key(name), "{name}");
            name.clone_into(&mut self.1);
            self.0.insert(name.to_owned(), Vec::new());
            Ok(())
        }

        fn write(&mut self, bytes: &[u8]) -> Result<(), BoxError> {
            self.0.get_mut(&self.1).expect("it was begun").extend_from_slice(bytes);
            Ok(())
        }
    }

    /// The written sections.
    pub(crate) fn sections(snapshot: &Snapshot) -> BTreeMap<String, Vec<u8>> {
        let mut into = InMemory::default();
        snapshot.write(&mut into).unwrap();
        into.0
    }

    fn lent(sections: &BTreeMap<String, Vec<u8>>, damaged: Option<(&str, usize)>) -> Result<Snapshot, BoxError> {
        Snapshot::lent(&|name| {
            let bytes = sections.get(name)?.clone();
            let from = damaged.filter(|(damaged, _)| name == *damaged).map_or(usize::MAX, |(_, from)| from);
            Some(Arc::new(Damaged { bytes, from }))
        })
    }

    /// Terms of all kinds, and enough triples for several pages per section.
    fn sample(subjects: u32) -> Snapshot {
        let mut text = String::new();
        for subject in 0..subjects {
            let s = format!("<http://example.org/resource/with/a/long/name/{subject}>");
            writeln!(
                text,
                "{s} <http://e/number> {:?}^^<http://www.w3.org/2001/XMLSchema#integer> .",
                subject.to_string()
            )
            .unwrap();
            writeln!(text, "{s} <http://e/name> \"name é {subject}\"@en .\n{s} <http://e/next> _:b{} .", subject % 100)
                .unwrap();
            writeln!(text, "{s} <http://e/{}> \"{}\" .", subject % 70, subject / 3).unwrap();
            writeln!(
                text,
                "{s} <http://e/at> \"{subject}.50\"^^<http://www.w3.org/2001/XMLSchema#decimal> <http://e/g{}> .",
                subject % 9
            )
            .unwrap();
        }
        let mut loader = Loader::default();
        loader.file(text.as_bytes(), Syntax::NQuads, None).unwrap();
        loader.finish()
    }

    /// All triples in all orders, as text.
    fn all(snapshot: &Snapshot) -> Vec<Vec<String>> {
        let shown = |index: &Index| {
            let term = |id: Id| if id.is_unbound() { String::new() } else { snapshot.term(id).to_string() };
            (0..index.len()).map(|row| index.quad(row).map(term).join(" ")).collect()
        };
        snapshot.orders().map(|order| shown(snapshot.index(order))).collect()
    }

    #[test]
    fn a_stored_snapshot_is_the_one_that_was_written() {
        for subjects in [0, 1, 300, 3000] {
            let written = sample(subjects);
            let stored = lent(&sections(&written), None).unwrap();
            stored.assert_valid();
            assert_eq!(all(&stored), all(&written));
            for counts in [Snapshot::statistics, Snapshot::named_statistics] {
                let [a, b] = [&stored, &written].map(counts);
                assert_eq!(
                    format!("{:?}", a.predicates().collect::<Vec<_>>()),
                    format!("{:?}", b.predicates().collect::<Vec<_>>())
                );
                assert_eq!((a.triples, a.subjects, a.objects), (b.triples, b.subjects, b.objects));
                let [a, b] = [a, b].map(|counts| counts.characteristic());
                assert_eq!((a.sets(), a.is_complete()), (b.sets(), b.is_complete()));
            }
            assert_eq!(sections(&stored), sections(&written), "it can be written again");
            assert!(stored.heap_bytes() < 70_000, "only counts are in memory");
        }
    }

    /// With damage at any place of a section, reading gives the written data or the owner's error.
    #[test]
    fn damage_is_an_error_and_never_a_wrong_answer() {
        let written = sample(3000);
        let (sections, expected) = (sections(&written), all(&written));
        let mut found = 0;
        for (name, bytes) in &sections {
            for from in (0..bytes.len()).step_by(64 << 10) {
                let read = lent(&sections, Some((name, from))).and_then(|stored| or_given_up(|| all(&stored)));
                match read {
                    Ok(read) => assert_eq!(read, expected),
                    Err(error) => {
                        assert_eq!(error.to_string(), format!("damaged from byte {from} on"));
                        found += 1;
                    }
                }
            }
        }
        assert!(found > 60, "{found}");
    }

    #[test]
    fn what_is_no_snapshot_is_refused() {
        let right = sections(&sample(5));
        for name in right.keys() {
            let mut wrong = right.clone();
            wrong.remove(name);
            assert_eq!(lent(&wrong, None).unwrap_err().to_string(), format!("there is no section {name}"));
        }
        let mut newer = right.clone();
        for (format, what) in [(9, "format 9, from a newer Vicus"), (1, "format 1, from an older Vicus")] {
            newer.get_mut("about").unwrap()[0] = format;
            let error = lent(&newer, None).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        for name in ["about", "statistics", "named.sets", "Gpso.keys.frames", "iri.ends"] {
            let mut cut = right.clone();
            let bytes = cut.get_mut(name).unwrap();
            bytes.truncate(bytes.len() - 8);
            assert!(lent(&cut, None).is_err(), "{name}");
        }
    }
}
