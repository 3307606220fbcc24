//! Counts for a planner: exact, taken from the indexes in one pass, and corrected with each change.

use crate::characteristic::CharacteristicSets;
use crate::delta::{Row, RowChange};
use crate::ids::{Id, TermKind};
use crate::index::{Index, Order};
use crate::interrupt::Interrupt;
use crate::sections::{Reading, Words};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use vicus_flow::library::HashKey;
use vicus_flow::{Grow, NoMemory};

/// Counts over the default graph, or over all named graphs together, counting a triple once for each of its graphs. All
/// are exact, except as described at [`CharacteristicSets`].
///
/// ```
/// use vicus_rdf::{TermKind, Snapshot};
/// let snapshot = Snapshot::of_ntriples(b"<http://e/a> <http://e/p> \"x\" .\n<http://e/a> <http://e/p> \"y\" .")?;
/// let statistics = snapshot.statistics();
/// assert_eq!((statistics.triples, statistics.subjects, statistics.objects), (2, 1, 2));
/// let predicate = statistics.predicates().next().unwrap();
/// assert_eq!(predicate.objects.only_kind(), Some(TermKind::String));
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
#[derive(Clone, Default, Debug)]
pub struct Statistics {
    /// Triples.
    pub triples: usize,
    /// Distinct subjects.
    pub subjects: usize,
    /// Distinct objects.
    pub objects: usize,
    /// Ascending by id, in pages, which versions share. Invariant: none is empty.
    predicates: Vec<Arc<Vec<Predicate>>>,
    predicate_count: usize,
    characteristic: Arc<CharacteristicSets>,
    /// How many triples were inserted and deleted since the characteristic sets were made.
    changes: usize,
}

/// The greatest number of predicates in a page. A change copies the pages of its predicates.
const PAGE: usize = 32;

/// The number of triples may change by an eighth before characteristic sets are made anew: so this takes constant time
/// for each change.
const STALE: usize = 8;

/// Counts over the triples of one predicate.
#[derive(Clone, Debug)]
pub struct Predicate {
    /// The predicate.
    pub id: Id,
    /// Its triples.
    pub triples: usize,
    /// Counts of its subjects.
    pub subjects: ColumnStatistics,
    /// Counts of its objects.
    pub objects: ColumnStatistics,
}

/// The subjects or the objects of a predicate.
#[derive(Clone, Debug)]
pub struct ColumnStatistics {
    /// Distinct ids.
    pub distinct: usize,
    /// The range from the least to the greatest id. Ids are sorted by kind, so it bounds the values of a column of one
    /// kind.
    pub ids: RangeInclusive<Id>,
    /// Triples by kind, in the order of [`TermKind::ALL`].
    kinds: [usize; TermKind::ALL.len()],
    /// Triples with a fresh term here.
    fresh: usize,
}

impl ColumnStatistics {
    /// The number of triples with an id of this kind here.
    pub fn of_kind(&self, kind: TermKind) -> usize {
        self.kinds[kind.index()]
    }

    fn store(&self, into: &mut Words) {
        into.push(self.distinct);
        into.push_id(*self.ids.start());
        into.push_id(*self.ids.end());
        self.kinds.iter().for_each(|&count| into.push(count));
    }

    fn stored(words: &mut Reading<'_>) -> Option<ColumnStatistics> {
        let (distinct, ids) = (words.number()?, words.id()?..=words.id()?);
        let mut kinds = [0; TermKind::ALL.len()];
        for count in &mut kinds {
            *count = words.number()?;
        }
        Some(ColumnStatistics { distinct, ids, kinds, fresh: 0 })
    }

    /// The kind of all ids here; `None` if there are several. For IRIs, blank nodes, simple strings, booleans and
    /// inlined integers, equal ids then mean equal values, and the order of ids is the order of values, unless some
    /// terms are [fresh](ColumnStatistics::has_fresh).
    pub fn only_kind(&self) -> Option<TermKind> {
        let mut kinds = TermKind::ALL.into_iter().filter(|&kind| self.of_kind(kind) > 0);
        kinds.next().filter(|_| kinds.next().is_none())
    }

    /// Whether a [fresh](crate::Snapshot::fresh) term is here: then the order of ids is not that of terms.
    pub fn has_fresh(&self) -> bool {
        self.fresh > 0
    }

    /// Statistics of the level after the keys, in the rows of one predicate.
    fn of(index: &Index, rows: Range<usize>, interrupt: &Interrupt<'_>) -> ColumnStatistics {
        let level = index.key_level() + 1;
        let (mut kinds, mut fresh) = ([0; TermKind::ALL.len()], 0);
        let mut rest = rows.clone();
        while !rest.is_empty() {
            let kind = index.get(level, rest.start).kind();
            let end = index.lower_bound(level, rest.clone(), kind.bounds().end);
            kinds[kind.index()] = end - rest.start;
            if kind.section().is_some() {
                // They are the last of their kind.
                fresh += end - index.lower_bound(level, rest.start..end, Id::unranked(kind, 0));
            }
            rest.start = end;
        }
        let (least, greatest) = (index.get(level, rows.start), index.get(level, rows.end - 1));
        let mut last = Id::UNBOUND;
        let values = interrupt.each(index.values(level, rows));
        let distinct = values.filter(|&id| std::mem::replace(&mut last, id) != id).count();
        ColumnStatistics { distinct, ids: least..=greatest, kinds, fresh }
    }

    /// The column after changes of rows, which all are of one predicate; `None` if the predicate has no rows any more.
    fn with(
        of: Option<&ColumnStatistics>,
        [before, after]: [&Index; 2],
        changes: &[(Row, RowChange)],
        interrupt: &Interrupt<'_>,
    ) -> Option<ColumnStatistics> {
        let level = after.key_level() + 1;
        let rows = after.range(&changes[0].0[..level]);
        if rows.is_empty() {
            return None;
        }
        let (mut distinct, mut kinds, mut fresh) =
            of.map_or((0, [0; TermKind::ALL.len()], 0), |of| (of.distinct, of.kinds, of.fresh));
        let (mut cursor, mut other) = (before.cursor(), after.cursor());
        let add = |count: &mut usize, change: RowChange| match change {
            RowChange::Insert => *count += 1,
            RowChange::Delete => *count -= 1,
        };
        for same in changes.chunk_by(|a, b| a.0[level] == b.0[level]) {
            interrupt.steps(same.len());
            let (prefix, id) = (&same[0].0[..=level], same[0].0[level]);
            match (cursor.range(prefix).is_empty(), other.range(prefix).is_empty()) {
                (true, false) => add(&mut distinct, RowChange::Insert),
                (false, true) => add(&mut distinct, RowChange::Delete),
                _ => {}
            }
            for (_, change) in same {
                add(&mut kinds[id.kind().index()], *change);
                if id.is_unranked() {
                    add(&mut fresh, *change);
                }
            }
        }
        let ids = after.get(level, rows.start)..=after.get(level, rows.end - 1);
        Some(ColumnStatistics { distinct, ids, kinds, fresh })
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
    /// Statistics of the default graph from the indexes Gspo, Gpso, Gpos and Gops, or of all named graphs from Spog,
    /// Psog, Posg and Opsg; and their characteristic sets. Panics for other orders.
    ///
    /// # Errors
    /// There is not enough memory for the counts.
    pub fn new(
        indexes: [&Index; 4],
        characteristic: CharacteristicSets,
        interrupt: &Interrupt<'_>,
    ) -> Result<Statistics, NoMemory> {
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
                subjects: ColumnStatistics::of(by_subject, rows, interrupt),
                objects: ColumnStatistics::of(by_object, by_object.rows_of_key(other), interrupt),
            });
        }
        let distinct = |index: &Index| index.keys_of(Id::UNBOUND).len();
        let (subjects, objects) = (distinct(subjects), distinct(objects));
        Statistics { triples, subjects, objects, ..Statistics::default() }.of_predicates(predicates, characteristic)
    }

    fn of_predicates(
        self,
        predicates: Vec<Predicate>,
        characteristic: CharacteristicSets,
    ) -> Result<Statistics, NoMemory> {
        let (predicate_count, mut pages) = (predicates.len(), Pages::default());
        predicates.into_iter().try_for_each(|predicate| pages.push(predicate))?;
        pages.end()?;
        Ok(Statistics { predicates: pages.made, predicate_count, characteristic: Arc::new(characteristic), ..self })
    }

    /// The columns of subjects, or those of objects, after changes of an index: the second one of those for
    /// [`Statistics::new`], or the third.
    ///
    /// # Errors
    /// There is not enough memory for the counts.
    pub(crate) fn recount(
        &self,
        side: Side,
        indexes: [&Index; 2],
        changes: &[(Row, RowChange)],
        interrupt: &Interrupt<'_>,
    ) -> Result<Recount, NoMemory> {
        let level = indexes[1].key_level();
        let (mut columns, mut held) = (Vec::<Recounted>::new(), interrupt.holding(0));
        for changes in changes.chunk_by(|a, b| a.0[level] == b.0[level]) {
            let id = changes[0].0[level];
            let was = self.predicate(id).map(|was| match side {
                Side::Subjects => &was.subjects,
                Side::Objects => &was.objects,
            });
            let column = ColumnStatistics::with(was, indexes, changes, interrupt);
            let column = column.map(|column| (indexes[1].count(&changes[0].0[..=level]), column));
            if columns.len() == columns.capacity() {
                // A list that grows is there twice, the new one with twice the room.
                held.set(3 * columns.capacity() * size_of::<Recounted>());
                columns.grow(1)?;
                held.set(columns.capacity() * size_of::<Recounted>());
            }
            columns.push((id, column));
        }
        Ok(Recount { rows: changes.len(), columns })
    }

    /// After changes of rows: the indexes as for [`Statistics::new`], with what was counted anew by the second and the
    /// third.
    ///
    /// # Errors
    /// There is not enough memory for the counts.
    pub(crate) fn with(
        &self,
        after: [&Index; 4],
        [by_subject, by_object]: [Recount; 2],
        interrupt: &Interrupt<'_>,
    ) -> Result<Statistics, NoMemory> {
        let rows = by_subject.rows;
        if rows == 0 {
            return Ok(self.clone());
        }
        let level = after[1].key_level();
        // What was counted, and the new pages.
        let bytes = by_subject.heap_bytes() + by_object.heap_bytes();
        let _held = interrupt.holding(bytes + by_subject.columns.len() * size_of::<Predicate>());
        let updates = by_subject.columns.into_iter().zip(by_object.columns).map(|((id, subjects), (_, objects))| {
            let now = subjects.zip(objects);
            (id, now.map(|((triples, subjects), (_, objects))| Predicate { id, triples, subjects, objects }))
        });
        let mut pages = Pages::default();
        pages.made.grow_exactly(self.predicates.len())?;
        let mut rest = updates.peekable();
        // Without pages, all updates belong to an empty one.
        let none = Arc::default();
        let before = if self.predicates.is_empty() { std::slice::from_ref(&none) } else { &self.predicates[..] };
        for (place, page) in before.iter().enumerate() {
            let next = before.get(place + 1).map(|next| next[0].id);
            let here = |update: &(Id, Option<Predicate>)| next.is_none_or(|next| update.0 < next);
            if !rest.peek().is_some_and(here) {
                pages.made.grow(1)?;
                pages.made.push(Arc::clone(page));
                continue;
            }
            let mut old = page.iter().peekable();
            while let Some((id, now)) = rest.next_if(here) {
                while let Some(predicate) = old.next_if(|predicate| predicate.id < id) {
                    pages.push(predicate.clone())?;
                }
                old.next_if(|predicate| predicate.id == id);
                now.map_or(Ok(()), |predicate| pages.push(predicate))?;
            }
            old.try_for_each(|predicate| pages.push(predicate.clone()))?;
            pages.end()?;
        }
        let predicates = pages.made;
        let distinct = |index: &Index| index.keys_of(Id::UNBOUND).len();
        let triples = if level == 0 { after[1].len() } else { after[1].count(&[Id::UNBOUND]) };
        let mut changes = self.changes + rows;
        let mut characteristic = Arc::clone(&self.characteristic);
        if changes * STALE > triples {
            let (rdf_type, by) = (characteristic.rdf_type(), HashKey::default());
            let sets = CharacteristicSets::with_interrupt(after[0], rdf_type, by, interrupt)?;
            (characteristic, changes) = (Arc::new(sets), 0);
        }
        Ok(Statistics {
            triples,
            subjects: distinct(after[0]),
            objects: distinct(after[3]),
            predicate_count: predicates.iter().map(|page| page.len()).sum(),
            predicates,
            characteristic,
            changes,
        })
    }

    /// Writes all but the characteristic sets.
    pub(crate) fn store(&self, into: &mut Words) {
        for number in [self.triples, self.subjects, self.objects, self.predicate_count] {
            into.push(number);
        }
        for Predicate { id, triples, subjects, objects } in self.predicates() {
            into.push_id(*id);
            into.push(*triples);
            subjects.store(into);
            objects.store(into);
        }
    }

    /// Reads the output of [`Statistics::store`]; `None` if it is invalid.
    pub(crate) fn stored(words: &mut Reading<'_>, characteristic: CharacteristicSets) -> Option<Statistics> {
        let [triples, subjects, objects] = [words.number()?, words.number()?, words.number()?];
        let count = words.count(2)?;
        let mut predicates = Vec::with_capacity(count);
        for _ in 0..count {
            let (id, triples) = (words.id()?, words.number()?);
            let (subjects, objects) = (ColumnStatistics::stored(words)?, ColumnStatistics::stored(words)?);
            predicates.push(Predicate { id, triples, subjects, objects });
        }
        let counts = Statistics { triples, subjects, objects, ..Statistics::default() };
        counts.of_predicates(predicates, characteristic).ok()
    }

    /// Which predicates subjects have together.
    pub fn characteristic(&self) -> &CharacteristicSets {
        &self.characteristic
    }

    /// The memory that it holds, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let pages: usize = self.predicates.iter().map(|page| page.capacity() * size_of::<Predicate>()).sum();
        let lists = self.predicates.capacity() * size_of::<Arc<Vec<Predicate>>>();
        pages + lists + self.characteristic.heap_bytes()
    }

    /// The part of these bytes that no other version has.
    pub(crate) fn own_bytes(&self) -> usize {
        let own = self.predicates.iter().filter(|page| Arc::strong_count(page) == 1);
        let pages: usize = own.map(|page| page.capacity() * size_of::<Predicate>()).sum();
        let lists = self.predicates.capacity() * size_of::<Arc<Vec<Predicate>>>();
        let sets = if Arc::strong_count(&self.characteristic) == 1 { self.characteristic.heap_bytes() } else { 0 };
        pages + lists + sets
    }

    /// All predicates, ascending by id.
    pub fn predicates(&self) -> impl Iterator<Item = &Predicate> {
        self.predicates.iter().flat_map(|page| page.iter())
    }

    /// How many predicates there are.
    pub fn predicate_count(&self) -> usize {
        self.predicate_count
    }

    /// The counts of a predicate; `None` if no triple has it.
    pub fn predicate(&self, id: Id) -> Option<&Predicate> {
        let page = self.predicates.partition_point(|page| page[0].id <= id).checked_sub(1)?;
        let page = &self.predicates[page];
        let place = page.binary_search_by_key(&id, |predicate| predicate.id).ok()?;
        Some(&page[place])
    }
}

/// A place of a triple beside its predicate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Subjects,
    Objects,
}

/// One of the columns of each changed predicate, ascending by predicate. Counted for one index after the other, so the
/// changed rows of two need not be held at once.
#[derive(Debug, Default)]
pub(crate) struct Recount {
    /// How many rows are changed.
    rows: usize,
    /// The predicate; its triples and its column, if it has any now.
    columns: Vec<Recounted>,
}

type Recounted = (Id, Option<(usize, ColumnStatistics)>);

impl Recount {
    /// The memory that it holds, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.columns.capacity() * size_of::<Recounted>()
    }
}

/// Predicates become pages of about the same size.
#[derive(Default)]
struct Pages {
    made: Vec<Arc<Vec<Predicate>>>,
    /// Those of the next pages: fewer than two of them.
    next: Vec<Predicate>,
}

impl Pages {
    fn push(&mut self, predicate: Predicate) -> Result<(), NoMemory> {
        self.next.grow(1)?;
        self.next.push(predicate);
        if self.next.len() == 2 * PAGE { self.page(PAGE) } else { Ok(()) }
    }

    /// The first ones are a page.
    fn page(&mut self, count: usize) -> Result<(), NoMemory> {
        let mut page = Vec::with_room(count)?;
        page.extend(self.next.drain(..count));
        self.made.grow(1)?;
        self.made.push(Arc::new(page));
        Ok(())
    }

    /// All those so far are pages.
    fn end(&mut self) -> Result<(), NoMemory> {
        if self.next.len() > PAGE {
            self.page(self.next.len() / 2)?;
        }
        if !self.next.is_empty() {
            self.page(self.next.len())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Snapshot;
    use std::fmt::Write;

    /// What happened: after a CLEAR that had left many rows, these were counted without a question.
    #[test]
    fn counting_the_rows_of_predicates_asks() {
        const ROWS: usize = 100_000;
        let mut text = String::new();
        (0..ROWS).for_each(|row| writeln!(text, "<a:{row}> <a:p> \"{row}\" .").unwrap());
        let snapshot = Snapshot::of_ntriples(text.as_bytes()).unwrap();
        let asked = std::cell::Cell::new(0);
        let ask = |_| {
            asked.set(asked.get() + 1);
            Ok(())
        };
        let indexes = [Order::Gspo, Order::Gpso, Order::Gpos, Order::Gops].map(|order| snapshot.index(order));
        let made = Statistics::new(indexes, CharacteristicSets::default(), &Interrupt::by(&ask)).unwrap();
        assert_eq!(made.predicates().next().unwrap().subjects.distinct, ROWS);
        // A question for 16,384 rows, by subject and by object.
        assert!(asked.get() >= 2 * (ROWS >> 14), "{} questions", asked.get());
    }
}
