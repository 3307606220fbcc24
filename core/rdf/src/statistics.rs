//! Counts for a planner: exact, taken from the indexes in one pass.

use crate::characteristic::CharacteristicSets;
use crate::ids::{Id, Kind};
use crate::index::{Index, Order};
use std::ops::{Range, RangeInclusive};
use vicus_flow::{Grow, NoMemory};

/// Counts over the default graph, or over all named graphs together, where a triple counts once for each graph that has it. All are
/// exact, except as described at [`CharacteristicSets`].
///
/// ```
/// use vicus_rdf::{Kind, Snapshot};
/// let snapshot = Snapshot::of_ntriples(b"<http://e/a> <http://e/p> \"x\" .\n<http://e/a> <http://e/p> \"y\" .")?;
/// let statistics = snapshot.statistics();
/// assert_eq!((statistics.triples, statistics.subjects, statistics.objects), (2, 1, 2));
/// let [predicate] = statistics.predicates() else { panic!() };
/// assert_eq!(predicate.objects.only_kind(), Some(Kind::String));
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
#[derive(Debug)]
pub struct Statistics {
    /// Triples.
    pub triples: usize,
    /// Distinct subjects.
    pub subjects: usize,
    /// Distinct objects.
    pub objects: usize,
    /// Ascending by id.
    predicates: Vec<Predicate>,
    characteristic: CharacteristicSets,
}

/// Counts over the triples of one predicate.
#[derive(Clone, Debug)]
pub struct Predicate {
    /// The predicate.
    pub id: Id,
    /// Its triples.
    pub triples: usize,
    /// Counts of its subjects.
    pub subjects: Column,
    /// Counts of its objects.
    pub objects: Column,
}

/// The subjects or the objects of a predicate.
#[derive(Clone, Debug)]
pub struct Column {
    /// Distinct ids.
    pub distinct: usize,
    /// The range from the least to the greatest id. Ids are sorted by kind, so it bounds the values of a column of one kind.
    pub ids: RangeInclusive<Id>,
    /// Triples by kind, in the order of [`Kind::ALL`].
    kinds: [usize; Kind::ALL.len()],
    /// Triples with a fresh term here.
    fresh: usize,
}

impl Column {
    /// The number of triples with an id of this kind here.
    pub fn of_kind(&self, kind: Kind) -> usize {
        self.kinds[kind.index()]
    }

    /// The kind of all ids here; `None` if there are several. For IRIs, blank nodes, simple strings, booleans and inlined
    /// integers, equal ids then mean equal values, and the order of ids is the order of values, unless some terms are
    /// [fresh](Column::has_fresh).
    pub fn only_kind(&self) -> Option<Kind> {
        let mut kinds = Kind::ALL.into_iter().filter(|&kind| self.of_kind(kind) > 0);
        kinds.next().filter(|_| kinds.next().is_none())
    }

    /// Whether a [fresh](crate::Snapshot::fresh) term is here: then the order of ids is not that of terms.
    pub fn has_fresh(&self) -> bool {
        self.fresh > 0
    }

    /// Of the level after the keys, in the rows of one predicate.
    fn of(index: &Index, rows: Range<usize>) -> Column {
        let level = index.key_level() + 1;
        let mut kinds = [0; Kind::ALL.len()];
        let mut rest = rows.clone();
        while !rest.is_empty() {
            let kind = index.get(level, rest.start).kind();
            let end = index.lower_bound(level, rest.clone(), kind.bounds().end);
            kinds[kind.index()] = end - rest.start;
            rest.start = end;
        }
        let (least, greatest) = (index.get(level, rows.start), index.get(level, rows.end - 1));
        let mut last = Id::UNBOUND;
        let distinct = index.values(level, rows).filter(|&id| std::mem::replace(&mut last, id) != id).count();
        Column { distinct, ids: least..=greatest, kinds, fresh: 0 }
    }
}

impl Predicate {
    /// Whether no subject has more than one object.
    pub fn is_single_valued(&self) -> bool {
        self.triples == self.subjects.distinct
    }

    /// The average number of objects of a subject that has any.
    pub fn objects_per_subject(&self) -> f64 {
        self.triples as f64 / self.subjects.distinct as f64
    }

    /// The average number of subjects of an object that has any.
    pub fn subjects_per_object(&self) -> f64 {
        self.triples as f64 / self.objects.distinct as f64
    }
}

impl Statistics {
    /// Of the default graph from the indexes Gspo, Gpso, Gpos and Gops, or of all named graphs from Spog, Psog, Posg and Opsg; and
    /// their characteristic sets. Panics for other orders.
    ///
    /// # Errors
    /// There is not enough memory for the counts.
    pub fn new(indexes: [&Index; 4], characteristic: CharacteristicSets) -> Result<Statistics, NoMemory> {
        let orders = indexes.map(Index::order);
        assert!(orders == Order::USUAL[..4] || orders == Order::USUAL[4..], "all by graph, or none");
        let [subjects, by_subject, by_object, objects] = indexes;
        let (of_subjects, of_objects) = (by_subject.keys_of(Id::UNBOUND), by_object.keys_of(Id::UNBOUND));
        let mut predicates = Vec::with_room(of_subjects.len())?;
        let mut triples = 0;
        for (key, other) in of_subjects.zip(of_objects) {
            let rows = by_subject.rows_of_key(key);
            triples += rows.len();
            predicates.push(Predicate {
                id: by_subject.key(key),
                triples: rows.len(),
                subjects: Column::of(by_subject, rows),
                objects: Column::of(by_object, by_object.rows_of_key(other)),
            });
        }
        let distinct = |index: &Index| index.keys_of(Id::UNBOUND).len();
        let (subjects, objects) = (distinct(subjects), distinct(objects));
        Ok(Statistics { triples, subjects, objects, predicates, characteristic })
    }

    /// Which predicates subjects have together.
    pub fn characteristic(&self) -> &CharacteristicSets {
        &self.characteristic
    }

    /// The memory that it holds, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.predicates.capacity() * size_of::<Predicate>()
    }

    /// All predicates, ascending by id.
    pub fn predicates(&self) -> &[Predicate] {
        &self.predicates
    }

    /// The counts of a predicate; `None` if no triple has it.
    pub fn predicate(&self, id: Id) -> Option<&Predicate> {
        let place = self.predicates.binary_search_by_key(&id, |predicate| predicate.id).ok()?;
        Some(&self.predicates[place])
    }
}
