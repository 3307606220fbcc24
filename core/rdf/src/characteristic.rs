//! Counts sets of predicates with a common subject, to estimate joins of patterns with a common subject.
//!
//! Neumann and Moerkotte, "Characteristic sets: accurate cardinality estimation for RDF queries with multiple joins",
//! ICDE 2011, §3 and §4. We differ in two ways. A class is part of a set: each object of `rdf:type` counts as a
//! predicate of its own. And only the [`MOST`] most frequent sets are kept; the subjects of all others are split into
//! single predicates, as the paper's §5 does with a set that fits into no other. Estimates for those assume independent
//! predicates.

use crate::dictionary::Dictionary;
use crate::ids::Id;
use crate::index::{Index, Order, Position};
use crate::interrupt::Interrupt;
use crate::sections::{Reading, Words};
use hashbrown::{HashMap, HashSet};
use oxrdf::vocab::rdf;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use vicus_flow::library::{HashKey, table_bytes};
use vicus_flow::{Grow, NoMemory};

/// The id of `rdf:type`; `None` if the snapshot doesn't have it.
pub(crate) fn rdf_type(dictionary: &Dictionary) -> Option<Id> {
    dictionary.id(rdf::TYPE.into())
}

/// The greatest number of sets kept.
pub const MOST: usize = 2048;

/// A predicate with any object; or a class, which is `rdf:type` with this object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Attribute {
    /// The predicate.
    pub predicate: Id,
    /// The class; unbound for any object.
    pub class: Id,
}

impl Attribute {
    fn store(&self, into: &mut Words) {
        into.push_id(self.predicate);
        into.push_id(self.class);
    }

    fn stored(words: &mut Reading<'_>) -> Option<Attribute> {
        Some(Attribute { predicate: words.id()?, class: words.id()? })
    }
}

/// The subjects with exactly these attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CharacteristicSet {
    /// How many subjects there are.
    pub subjects: usize,
    /// Strictly ascending; each with the number of triples of these subjects with it.
    pub attributes: Vec<(Attribute, usize)>,
}

/// All characteristic sets of the default graph, or of all named graphs together; or the most frequent ones.
///
/// ```
/// use vicus_rdf::{Snapshot, characteristic::StarPart};
/// let snapshot = Snapshot::of_ntriples(b"
///     <http://e/ann> <http://e/name> \"Ann\" .
///     <http://e/ann> <http://e/knows> <http://e/bob> .
///     <http://e/ann> <http://e/knows> <http://e/eve> .
///     <http://e/bob> <http://e/name> \"Bob\" .
/// ")?;
/// let statistics = snapshot.statistics();
/// let [knows, name] = &statistics.predicates().collect::<Vec<_>>()[..] else { panic!() };
/// let star = statistics.characteristic().star(&[StarPart::any(knows.id), StarPart::any(name.id)]);
/// let both = star.estimate(0b11);
/// assert_eq!((both.subjects, both.rows), (1.0, 2.0));
/// assert_eq!(star.estimate(0b10).subjects, 2.0);
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
#[derive(Debug, Default)]
pub struct CharacteristicSets {
    sets: Vec<CharacteristicSet>,
    /// For each attribute, its sets, ascending by place, with its number of triples there.
    having: HashMap<Attribute, Vec<(usize, usize)>, HashKey>,
    /// The number of subjects without a kept set; below, for each attribute, the number of them with it and of their
    /// triples.
    others: usize,
    of_others: HashMap<Attribute, (usize, usize), HashKey>,
    rdf_type: Option<Id>,
    /// Its memory.
    bytes: usize,
}

/// One pattern of a star: its demand on the subject.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StarPart {
    /// The required attribute of the subject.
    pub attribute: Attribute,
    /// For a constant object, the share of the attribute's triples with that object. `None` for any object: one row for
    /// each.
    pub share: Option<f64>,
}

impl StarPart {
    /// The part for this predicate with any object.
    pub fn any(predicate: Id) -> StarPart {
        StarPart { attribute: Attribute { predicate, class: Id::UNBOUND }, share: None }
    }
}

/// Patterns with a common subject, and the sets with some of their attributes.
#[derive(Clone, Debug)]
pub struct Star {
    shares: Vec<Option<f64>>,
    sets: Vec<Matching>,
    /// For each of these sets, the number of triples of each part.
    triples: Vec<f64>,
    others: f64,
    /// For each part, the share of the other subjects with it, and its frequency there.
    of_others: Vec<(f64, f64)>,
}

/// Sets with the same parts of a star.
#[derive(Clone, Debug)]
struct Matching {
    /// A bit for each of these parts.
    parts: u64,
    subjects: f64,
}

/// The expected size of a star's join.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Expected {
    /// Distinct subjects. Exact if every object is open or a class, and no sets were split.
    pub subjects: f64,
    /// Rows.
    pub rows: f64,
}

impl CharacteristicSets {
    /// The sets of the default graph from an index in the order Gspo, or of all named graphs together from one in the
    /// order Spog, in one pass; in three passes if there are more than [`MOST`] sets. Panics for another order. Its
    /// hash tables are keyed with `by`; the key does not change the result.
    ///
    /// # Errors
    /// There is not enough memory for its tables; they grow with the numbers of classes and sets.
    pub fn new(index: &Index, rdf_type: Option<Id>, by: HashKey) -> Result<CharacteristicSets, NoMemory> {
        CharacteristicSets::with_interrupt(index, rdf_type, by, &Interrupt::never())
    }

    pub(crate) fn with_interrupt(
        index: &Index,
        rdf_type: Option<Id>,
        by: HashKey,
        interrupt: &Interrupt<'_>,
    ) -> Result<CharacteristicSets, NoMemory> {
        assert!(matches!(index.order(), Order::Gspo | Order::Spog), "characteristic sets are by subject");
        let pass = Pass { index, keys: index.keys_of(Id::UNBOUND), rdf_type, by, interrupt };
        let mut made = match pass.collect(None)? {
            Some(made) => made,
            None => {
                let frequent = pass.frequent()?;
                pass.collect(Some(&frequent))?.expect("there are no more than were chosen")
            }
        };
        let attributes: usize = made.sets.iter().map(|set| set.attributes.len()).sum();
        let _having = interrupt.holding(attributes * BYTES_OF_HAVING);
        let _made = interrupt.holding(made.set_bytes() + made.others_bytes());
        made.note_attributes()?;
        Ok(made)
    }

    fn others_bytes(&self) -> usize {
        table_bytes::<(Attribute, (usize, usize))>(self.of_others.capacity())
    }

    /// The memory of its sets, in bytes.
    fn set_bytes(&self) -> usize {
        let sets = self.sets.iter().map(|set| set.attributes.capacity() * size_of::<(Attribute, usize)>());
        self.sets.capacity() * size_of::<CharacteristicSet>() + sets.sum::<usize>()
    }

    /// Notes the sets of each attribute.
    fn note_attributes(&mut self) -> Result<(), NoMemory> {
        for (place, set) in self.sets.iter().enumerate() {
            for (attribute, triples) in &set.attributes {
                make_room(&mut self.having)?;
                let sets = self.having.entry(*attribute).or_default();
                sets.grow(1)?;
                sets.push((place, *triples));
            }
        }
        let having = self.having.values().map(|sets| sets.capacity() * size_of::<(usize, usize)>());
        let tables = table_bytes::<(Attribute, Vec<(usize, usize)>)>(self.having.capacity()) + self.others_bytes();
        self.bytes = self.set_bytes() + having.sum::<usize>() + tables;
        Ok(())
    }

    /// The memory that it holds, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes
    }

    /// Writes all of it.
    pub(crate) fn store(&self, into: &mut Words) {
        into.push_id(self.rdf_type.unwrap_or_default());
        into.push(self.others);
        into.push(self.sets.len());
        for set in &self.sets {
            into.push(set.subjects);
            into.push(set.attributes.len());
            for (attribute, triples) in &set.attributes {
                attribute.store(into);
                into.push(*triples);
            }
        }
        let mut of_others: Vec<_> = self.of_others.iter().collect();
        of_others.sort_unstable();
        into.push(of_others.len());
        for (attribute, (subjects, triples)) in of_others {
            attribute.store(into);
            into.push(*subjects);
            into.push(*triples);
        }
    }

    /// Reads the output of [`CharacteristicSets::store`]; `None` if it is invalid.
    pub(crate) fn stored(words: &mut Reading<'_>) -> Option<CharacteristicSets> {
        let rdf_type = Some(words.id()?).filter(|id| !id.is_unbound());
        let mut made = CharacteristicSets { rdf_type, others: words.number()?, ..CharacteristicSets::default() };
        for _ in 0..words.count(2)? {
            let subjects = words.number()?;
            let mut attributes = Vec::new();
            for _ in 0..words.count(3)? {
                attributes.push((Attribute::stored(words)?, words.number()?));
            }
            made.sets.push(CharacteristicSet { subjects, attributes });
        }
        for _ in 0..words.count(4)? {
            made.of_others.insert(Attribute::stored(words)?, (words.number()?, words.number()?));
        }
        made.note_attributes().ok()?;
        Some(made)
    }

    /// The kept sets, in no particular order.
    pub fn sets(&self) -> &[CharacteristicSet] {
        &self.sets
    }

    /// The predicate with classes as objects, if it is known.
    pub(crate) fn rdf_type(&self) -> Option<Id> {
        self.rdf_type
    }

    /// Whether all sets are kept.
    pub fn is_complete(&self) -> bool {
        self.others == 0
    }

    /// The part for a pattern: `object` is `None` if it is open; otherwise `share` is the share of the predicate's
    /// triples with that object.
    pub fn part(&self, predicate: Id, object: Option<Id>, share: f64) -> StarPart {
        match object {
            None => StarPart::any(predicate),
            Some(class) if self.rdf_type == Some(predicate) => {
                StarPart { attribute: Attribute { predicate, class }, share: Some(1.0) }
            }
            Some(_) => StarPart { share: Some(share), ..StarPart::any(predicate) },
        }
    }

    /// A star of up to 64 patterns. Takes time in the number of sets with some of its attributes.
    pub fn star(&self, parts: &[StarPart]) -> Star {
        assert!(parts.len() <= 64, "a bit for each part");
        let lists: Vec<&[(usize, usize)]> =
            parts.iter().map(|part| self.having.get(&part.attribute).map_or(&[][..], Vec::as_slice)).collect();
        let mut has = vec![0u64; self.sets.len()];
        for (place, list) in lists.iter().enumerate() {
            list.iter().for_each(|(set, _)| has[*set] |= 1 << place);
        }
        let of_others = |part: &StarPart| match self.of_others.get(&part.attribute) {
            Some(&(subjects, triples)) => (subjects as f64 / self.others as f64, triples as f64 / subjects as f64),
            None => (0.0, 0.0),
        };
        let (sets, triples) = self.matching(parts, &lists, &has);
        Star {
            shares: parts.iter().map(|part| part.share).collect(),
            sets,
            triples,
            others: self.others as f64,
            of_others: parts.iter().map(of_others).collect(),
        }
    }

    /// The sets with the parts in `has`. Sets with the same parts are merged, unless two of the parts multiply rows, as
    /// only a single set knows how often these occur together. Also, for each result, the number of triples of each
    /// part.
    fn matching(&self, parts: &[StarPart], lists: &[&[(usize, usize)]], has: &[u64]) -> (Vec<Matching>, Vec<f64>) {
        let mut open = 0u64;
        for (place, part) in parts.iter().enumerate().filter(|(_, part)| part.share.is_none()) {
            let multiplies = lists[place].iter().any(|&(set, triples)| triples > self.sets[set].subjects);
            open |= u64::from(multiplies) << place;
            debug_assert!(part.attribute.class.is_unbound(), "a class has a share");
        }
        let mut made: Vec<Matching> = Vec::new();
        let mut same: HashMap<u64, usize, HashKey> = HashMap::with_hasher(*self.having.hasher());
        let mut of_set = vec![usize::MAX; has.len()];
        for (set, &has) in has.iter().enumerate().filter(|(_, has)| **has != 0) {
            let place = if (has & open).count_ones() > 1 { made.len() } else { *same.entry(has).or_insert(made.len()) };
            if place == made.len() {
                made.push(Matching { parts: has, subjects: 0.0 });
            }
            made[place].subjects += self.sets[set].subjects as f64;
            of_set[set] = place;
        }
        let mut sums = vec![0.0; made.len() * parts.len()];
        for (part, list) in lists.iter().enumerate() {
            list.iter().for_each(|&(set, triples)| sums[of_set[set] * parts.len() + part] += triples as f64);
        }
        (made, sums)
    }
}

impl Star {
    /// The join of the parts with set bits: the paper's algorithm 1.
    pub fn estimate(&self, parts: u64) -> Expected {
        let members = || (0..self.shares.len()).filter(|place| parts >> place & 1 == 1);
        // The rarest of several constant objects counts, assuming that its subjects have the others as well.
        let share = members().filter_map(|place| self.shares[place]).fold(1.0, f64::min);
        let open = |each: f64, place: usize| if self.shares[place].is_none() { each } else { 1.0 };
        let mut made = Expected::default();
        let sets = self.sets.iter().zip(self.triples.chunks_exact(self.shares.len().max(1)));
        for (set, triples) in sets.filter(|(set, _)| set.parts & parts == parts) {
            made.subjects += set.subjects;
            made.rows += members().fold(set.subjects, |rows, place| rows * open(triples[place] / set.subjects, place));
        }
        let others = members().fold(self.others, |subjects, place| subjects * self.of_others[place].0);
        made.subjects += others;
        made.rows += members().fold(others, |rows, place| rows * open(self.of_others[place].1, place));
        Expected { subjects: made.subjects * share, rows: made.rows * share }
    }
}

/// Makes room for one more entry.
fn make_room<K: Eq + Hash, V>(table: &mut HashMap<K, V, HashKey>) -> Result<(), NoMemory> {
    if table.len() < table.capacity() {
        return Ok(());
    }
    let refused = NoMemory { bytes: (2 * (table.len() + 1) * size_of::<(K, V)>()) as u64 };
    vicus_flow::refusable(|| table.try_reserve(1)).map_err(|_| refused)
}

/// At most so many bytes note a set of an attribute: a list for four sets, and an entry of a table that grows, which is
/// filled to 7/16 at least and there twice.
const BYTES_OF_HAVING: usize = 4 * size_of::<(usize, usize)>() + 4 * size_of::<(Attribute, Vec<(usize, usize)>)>();

/// A pass over the subjects.
struct Pass<'a> {
    index: &'a Index,
    /// The subjects.
    keys: Range<usize>,
    rdf_type: Option<Id>,
    by: HashKey,
    interrupt: &'a Interrupt<'a>,
}

impl Pass<'_> {
    /// Collects all sets, or those with the chosen signatures; `None` if there are more than [`MOST`].
    fn collect(&self, chosen: Option<&HashSet<u64, HashKey>>) -> Result<Option<CharacteristicSets>, NoMemory> {
        let mut made = CharacteristicSets {
            having: HashMap::with_hasher(self.by),
            of_others: HashMap::with_hasher(self.by),
            rdf_type: self.rdf_type,
            ..CharacteristicSets::default()
        };
        let mut places: HashMap<u64, usize, HashKey> = HashMap::with_hasher(self.by);
        let mut counted: Vec<(Attribute, usize)> = Vec::new();
        let mut rows = self.rows();
        let (mut set_bytes, mut held) = (0, self.interrupt.holding(0));
        for count in self.triples() {
            let signature = self.count(rows.by_ref().take(count), &mut counted)?;
            if chosen.is_none_or(|chosen| chosen.contains(&signature)) {
                let place = *places.entry(signature).or_insert(made.sets.len());
                if place == MOST {
                    return Ok(None);
                }
                if place == made.sets.len() {
                    let mut attributes = Vec::with_room(counted.len())?;
                    attributes.extend(counted.iter().map(|(attribute, _)| (*attribute, 0)));
                    set_bytes += attributes.capacity() * size_of::<(Attribute, usize)>();
                    held.set(set_bytes + 2 * made.others_bytes());
                    made.sets.push(CharacteristicSet { subjects: 0, attributes });
                }
                let set = &mut made.sets[place];
                let pairs = || set.attributes.iter().zip(&counted);
                // Two sets may have the same signature, though this is very unlikely.
                if set.attributes.len() == counted.len() && pairs().all(|(a, b)| a.0 == b.0) {
                    set.subjects += 1;
                    set.attributes.iter_mut().zip(&counted).for_each(|(sum, (_, triples))| sum.1 += triples);
                    continue;
                }
            }
            made.others += 1;
            for (attribute, triples) in &counted {
                make_room(&mut made.of_others)?;
                let (subjects, sum) = made.of_others.entry(*attribute).or_default();
                *subjects += 1;
                *sum += triples;
            }
            // A table that grows is there twice.
            held.set(set_bytes + 2 * made.others_bytes());
        }
        Ok(Some(made))
    }

    /// The signatures of the most frequent sets.
    fn frequent(&self) -> Result<HashSet<u64, HashKey>, NoMemory> {
        let mut subjects: HashMap<u64, u32, HashKey> = HashMap::with_hasher(self.by);
        let mut counted = Vec::new();
        let mut rows = self.rows();
        let mut held = self.interrupt.holding(0);
        for count in self.triples() {
            make_room(&mut subjects)?;
            held.set(2 * table_bytes::<(u64, u32)>(subjects.capacity()));
            *subjects.entry(self.count(rows.by_ref().take(count), &mut counted)?).or_default() += 1;
        }
        let mut all: Vec<(u64, u32)> = Vec::with_room(subjects.len())?;
        all.extend(subjects);
        // The signature breaks ties, so the result is the same each time.
        all.sort_unstable_by_key(|&(signature, subjects)| (std::cmp::Reverse(subjects), signature));
        let mut chosen = HashSet::with_hasher(self.by);
        chosen.extend(all.into_iter().take(MOST).map(|(signature, _)| signature));
        Ok(chosen)
    }

    /// The predicate and the object of each row.
    fn rows(&self) -> impl Iterator<Item = (Id, Id)> {
        let index = self.index;
        let rows = if index.order().is_by_graph() { index.range(&[Id::UNBOUND]) } else { 0..index.len() };
        let values = |position| index.values(index.order().level(position), rows.clone());
        values(Position::Predicate).zip(values(Position::Object))
    }

    /// The number of triples of each subject.
    fn triples(&self) -> impl Iterator<Item = usize> {
        let counted = |rows: &usize| self.interrupt.steps(*rows);
        self.index.rows_of_keys(self.keys.clone()).map(|rows| rows.len()).inspect(counted)
    }

    /// Collects the attributes of a subject's rows with their numbers of triples, ascending; returns a hash of the
    /// attributes. The hash does not depend on a key, because it decides between equally frequent sets.
    fn count(&self, rows: impl Iterator<Item = (Id, Id)>, into: &mut Vec<(Attribute, usize)>) -> Result<u64, NoMemory> {
        into.clear();
        let mut hasher = rustc_hash::FxHasher::default();
        let (mut last, mut is_type) = (Id::UNBOUND, false);
        let (mut of_last, mut class) = (0, Id::UNBOUND);
        for (predicate, object) in rows {
            if predicate == last {
                into[of_last].1 += 1;
            } else {
                (last, is_type, of_last) = (predicate, self.rdf_type == Some(predicate), into.len());
                class = Id::UNBOUND;
                predicate.hash(&mut hasher);
                into.grow(1)?;
                into.push((Attribute { predicate, class: Id::UNBOUND }, 1));
            }
            // A repeated class belongs to another graph.
            if is_type && object != class {
                class = object;
                object.hash(&mut hasher);
                into.grow(1)?;
                into.push((Attribute { predicate, class: object }, 1));
            }
        }
        Ok(hasher.finish())
    }
}
