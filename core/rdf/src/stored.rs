//! A snapshot as named sections of bytes, and a snapshot that reads sections where they are.
//!
//! | section | what it has |
//! |---|---|
//! | `about` | [`FORMAT`]; the numbers of terms of each kind; the orders, with the numbers of their rows |
//! | `KIND.text`, `KIND.ends` | the keys of a kind of terms ([`Dictionary`]) |
//! | `ORDER.PART.frames`, `ORDER.PART.data` | packed columns of an index: of its keys, and of its rows |
//! | `statistics`, `sets` | counts for the planner |
//!
//! Numbers are words, least byte first. All but `about` and the counts is read in place, when a query needs it.

use crate::characteristic::CharacteristicSets;
use crate::dictionary::{Dictionary, Section};
use crate::ids::{Id, Kind};
use crate::index::{Index, Order};
use crate::lent::Pages;
use crate::packed::Packed;
use crate::placed::PlacedVec;
use crate::snapshot::Snapshot;
use crate::statistics::Statistics;
use std::fmt;
use std::sync::Arc;
use vicus_flow::BoxError;

/// The version of the sections.
pub const FORMAT: u64 = 1;

/// Where sections are written, one after the other.
pub trait Sections {
    /// Begins a section. Its name has at most 24 letters, digits and dots.
    ///
    /// # Errors
    /// It can't be written.
    fn begin(&mut self, name: &str) -> Result<(), BoxError>;

    /// Adds bytes to it.
    ///
    /// # Errors
    /// They can't be written.
    fn write(&mut self, bytes: &[u8]) -> Result<(), BoxError>;
}

/// Why sections are no snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotStored {
    /// There is no section of this name.
    Missing(String),
    /// It is of a newer format.
    Newer(u64),
}

impl fmt::Display for NotStored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotStored::Missing(name) => write!(f, "there is no section {name}"),
            NotStored::Newer(format) => {
                write!(f, "it has format {format}, from a newer Vicus; this one reads formats up to {FORMAT}")
            }
        }
    }
}

impl std::error::Error for NotStored {}

/// Words in a row, for what is small.
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

    /// A number of things of which each has so many words at least.
    pub(crate) fn count(&mut self, words: usize) -> Option<usize> {
        let left = self.0.len() / 8;
        self.number().filter(|count| count.checked_mul(words).is_some_and(|words| words < left))
    }
}

const KINDS: [&str; 5] = ["blank", "iri", "string", "lang", "typed"];
const _: () = assert!(KINDS.len() == Kind::IN_DICTIONARY.len());

/// The columns of an index, with the names of their sections.
macro_rules! columns {
    ($index:expr) => {
        [("keys", &$index.keys), ("rows", &$index.rows)]
    };
}

/// Writes values that may be another owner's, in parts that are checked before they are written.
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
struct Found<'a>(&'a dyn Fn(&str) -> Option<Arc<dyn Pages>>);

impl Found<'_> {
    fn get(&self, name: &str) -> Result<Arc<dyn Pages>, BoxError> {
        (self.0)(name).ok_or_else(|| NotStored::Missing(name.to_owned()).into())
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

/// What the section `about` says.
struct About {
    terms: [usize; 5],
    orders: Vec<(Order, [usize; 2])>,
}

impl Snapshot {
    /// Writes all of it.
    ///
    /// # Errors
    /// A section can't be written.
    pub fn write(&self, into: &mut dyn Sections) -> Result<(), BoxError> {
        let mut about = Words(vec![FORMAT]);
        let sections = self.dictionary().sections();
        sections.iter().for_each(|section| about.push(section.len()));
        about.push(self.orders().count());
        for order in self.orders() {
            about.push(order as usize);
            columns!(self.index(order)).iter().for_each(|(_, packed)| about.push(packed.len()));
        }
        about.write("about", into)?;
        for (section, name) in sections.iter().zip(KINDS) {
            let (text, ends) = section.parts();
            write_values(&format!("{name}.text"), text, |bytes| bytes, into)?;
            write_values(&format!("{name}.ends"), ends, |ends| ends.as_flattened(), into)?;
        }
        for order in self.orders() {
            for (part, packed) in columns!(self.index(order)) {
                write_packed(&format!("{order:?}.{part}"), packed, into)?;
            }
        }
        let (mut statistics, mut sets) = Default::default();
        self.statistics().store(&mut statistics);
        self.statistics().characteristic().store(&mut sets);
        statistics.write("statistics", into)?;
        sets.write("sets", into)
    }

    /// A snapshot of sections that [`Snapshot::write`] wrote, which stay where they are. Only the sections `about`, `statistics` and `sets`
    /// are read now. A page of another is checked when a reader first needs it; if it is not as it was written, that reader's box
    /// gives up ([`give_up`](vicus_flow::give_up)) with the owner's error.
    ///
    /// # Errors
    /// A section is missing, not as it was written, or of a newer format.
    pub fn lent(sections: &dyn Fn(&str) -> Option<Arc<dyn Pages>>) -> Result<Snapshot, BoxError> {
        let found = Found(sections);
        let about = found.read("about", |words| match words.word() {
            Some(format) if format > FORMAT => Err(NotStored::Newer(format).into()),
            _ => Ok(About::read(words)),
        })?;
        let mut kinds: [Section; 5] = Default::default();
        for ((kind, name), len) in kinds.iter_mut().zip(KINDS).zip(about.terms) {
            let ends = found.get(&format!("{name}.ends"))?;
            let section = Section::lent(len, found.get(&format!("{name}.text"))?, ends.clone());
            *kind = section.ok_or_else(|| ends.senseless(0, "it is not as long as its terms need"))?;
        }
        let index = |&(order, [keys, rows]): &(Order, [usize; 2])| -> Result<Index, BoxError> {
            let name = |part: &str| format!("{order:?}.{part}");
            Ok(Index { order, keys: found.packed(&name("keys"), keys)?, rows: found.packed(&name("rows"), rows)? })
        };
        let indexes = about.orders.iter().map(index).collect::<Result<Vec<Index>, _>>()?;
        let characteristic = found.read("sets", |words| Ok(CharacteristicSets::stored(words)))?;
        let statistics = found.read("statistics", |words| Ok(Statistics::stored(words, characteristic)))?;
        Ok(Snapshot::of_parts(Dictionary::new(kinds), indexes, statistics))
    }
}

impl About {
    fn read(words: &mut Reading<'_>) -> Option<About> {
        let mut terms = [0; 5];
        for count in &mut terms {
            *count = words.number()?;
        }
        let mut orders = Vec::new();
        for _ in 0..words.count(1)? {
            let number = words.number()?;
            let order = Order::ALL.into_iter().find(|order| *order as usize == number)?;
            orders.push((order, [words.number()?, words.number()?]));
        }
        let usual = Order::USUAL.iter().all(|order| orders.iter().any(|(other, _)| order == other));
        usual.then_some(About { terms, orders })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lent::tests::Damaged;
    use std::collections::BTreeMap;
    use std::fmt::Write as _;
    use vicus_flow::or_given_up;

    #[derive(Default)]
    struct InMemory(BTreeMap<String, Vec<u8>>, String);

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

    fn sections(snapshot: &Snapshot) -> BTreeMap<String, Vec<u8>> {
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

    /// Terms of all kinds, and so many triples that sections have several pages.
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
            writeln!(text, "{s} <http://e/at> \"{subject}.50\"^^<http://www.w3.org/2001/XMLSchema#decimal> .").unwrap();
        }
        Snapshot::of_ntriples(text.as_bytes()).unwrap()
    }

    /// All triples in all orders, as text.
    fn all(snapshot: &Snapshot) -> Vec<Vec<String>> {
        let shown = |index: &Index| {
            let term = |id| snapshot.view(id).to_string();
            (0..index.len()).map(|row| index.triple(row).map(term).join(" ")).collect()
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
            assert_eq!(
                format!("{:?}", stored.statistics().predicates()),
                format!("{:?}", written.statistics().predicates())
            );
            let [a, b] = [&stored, &written].map(|snapshot| snapshot.statistics().characteristic());
            assert_eq!((a.sets(), a.is_complete()), (b.sets(), b.is_complete()));
            assert_eq!(sections(&stored), sections(&written), "it can be written again");
            assert!(stored.heap_bytes() < 70_000, "only counts are in memory");
        }
    }

    /// Wherever a section is damaged, reading gives what was written or the owner's error.
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
        assert!(found >= sections.len() * 3 / 4, "{found}");
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
        newer.get_mut("about").unwrap()[0] = 9;
        let error = lent(&newer, None).unwrap_err().to_string();
        assert!(error.contains("format 9, from a newer Vicus"), "{error}");
        for name in ["about", "statistics", "sets", "Pso.keys.frames", "iri.ends"] {
            let mut cut = right.clone();
            let bytes = cut.get_mut(name).unwrap();
            bytes.truncate(bytes.len() - 8);
            assert!(lent(&cut, None).is_err(), "{name}");
        }
    }
}
