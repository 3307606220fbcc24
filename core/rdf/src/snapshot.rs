//! A loaded data set: its terms, its quads in several orders, and counts. It never changes.

use crate::changes::{ChangedRows, Changes, Graphs};
use crate::characteristic::{self, CharacteristicSets};
use crate::checked_bytes::BytesOwner;
use crate::delta::{Row, RowChange};
use crate::dictionary::Dictionary;
use crate::ids::{Id, TermKind};
use crate::index::{Index, Order, Position};
use crate::interrupt::Interrupt;
use crate::load::{self, Loader, ParsedPart, SyntaxError};
use crate::statistics::{Recount, Side, Statistics};
use crate::term::{Encoded, Encoder, TermView};
use crate::unranked::{FreshTerms, Unranked};
use oxrdf::{Term, TermRef};
use rapidhash::v3::RapidSecrets;
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use vicus_flow::library::HashKey;
use vicus_flow::{BoxError, Grow, NoMemory, or_given_up};

/// A set of quads: a default graph and named graphs. Any number of queries can read it concurrently.
///
/// ```
/// use oxrdf::NamedNodeRef;
/// use vicus_rdf::{Id, Order, Snapshot};
///
/// let snapshot = Snapshot::of_ntriples(b"
///     <http://e/ann> <http://e/knows> <http://e/bob> .
///     <http://e/ann> <http://e/name> \"Ann\" .
/// ")?;
/// let ann = snapshot.id(NamedNodeRef::new_unchecked("http://e/ann").into()).unwrap();
/// let index = snapshot.index(snapshot.best_order([true, false, false, true]));
/// for row in index.range(&[Id::UNBOUND, ann]) {
///     let object = snapshot.term(index.get(3, row));
///     assert!(["<http://e/bob>", "\"Ann\""].contains(&object.to_string().as_str()));
/// }
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
#[derive(Debug)]
pub struct Snapshot {
    dictionary: Arc<Dictionary>,
    /// The terms added since the dictionary was sorted.
    fresh: FreshTerms,
    /// By [`Order`]; `None` for orders not asked for.
    indexes: [Option<Index>; Order::ALL.len()],
    statistics: Statistics,
    /// Statistics of all named graphs.
    named: Statistics,
    /// The owner of the bytes of the dictionary and the indexes, if they are lent.
    owner: Option<Arc<dyn BytesOwner>>,
}

impl Snapshot {
    /// Makes one of its parts. Panics unless there are all of [`Order::USUAL`], and all indexes have the same quads.
    ///
    /// # Errors
    /// There is not enough memory for counting.
    pub fn new(dictionary: Dictionary, indexes: impl IntoIterator<Item = Index>) -> Result<Snapshot, NoMemory> {
        let indexes: Vec<Index> = indexes.into_iter().collect();
        let rdf_type = characteristic::rdf_type(&dictionary);
        let by_subject = indexes.iter().filter(|index| matches!(index.order(), Order::Gspo | Order::Spog));
        let sets = by_subject
            .map(|index| Ok((index.order(), CharacteristicSets::new(index, rdf_type, HashKey::default())?)))
            .collect::<Result<Vec<_>, NoMemory>>()?;
        Snapshot::with_characteristic(dictionary, indexes, sets, &Interrupt::never())
    }

    /// Like [`Snapshot::new`], with the characteristic sets of the indexes Gspo and Spog.
    pub(crate) fn with_characteristic(
        dictionary: impl Into<Arc<Dictionary>>,
        indexes: Vec<Index>,
        characteristic: impl IntoIterator<Item = (Order, CharacteristicSets)>,
        interrupt: &Interrupt<'_>,
    ) -> Result<Snapshot, NoMemory> {
        let get = |order: Order| {
            let index = indexes.iter().find(|index| index.order() == order);
            index.unwrap_or_else(|| panic!("an index in order {order:?}"))
        };
        let [gspo, gpso, gpos, gops, spog, psog, posg, opsg] = Order::USUAL.map(get);
        for index in &indexes {
            let like = if index.order().is_by_graph() { gspo } else { spog };
            assert_eq!(index.len(), like.len(), "indexes have the same quads");
        }
        assert_eq!(gspo.len() - gspo.count(&[Id::UNBOUND]), spog.len(), "all quads of named graphs, and no others");
        let mut sets: [CharacteristicSets; 2] = Default::default();
        for (order, made) in characteristic {
            sets[usize::from(!order.is_by_graph())] = made;
        }
        let [of_default, of_named] = sets;
        let statistics = Statistics::new([gspo, gpso, gpos, gops], of_default, interrupt)?;
        let named = Statistics::new([spog, psog, posg, opsg], of_named, interrupt)?;
        Ok(Snapshot::of_parts(dictionary, indexes, [statistics, named]))
    }

    /// A snapshot of matching parts: the counts are those of the default graph, and of all named graphs.
    pub(crate) fn of_parts(
        dictionary: impl Into<Arc<Dictionary>>,
        parts: Vec<Index>,
        [statistics, named]: [Statistics; 2],
    ) -> Snapshot {
        let mut indexes = [const { None }; Order::ALL.len()];
        for index in parts {
            let place = index.order() as usize;
            indexes[place] = Some(index);
        }
        let (dictionary, fresh) = (dictionary.into(), FreshTerms::new(RapidSecrets::seed(0)));
        Snapshot { dictionary, fresh, indexes, statistics, named, owner: None }
    }

    /// Runs all steps of [`load`] after parsing, one after the other. Panics if there is not enough memory.
    pub fn from_parsed(parsed: Vec<ParsedPart>) -> Snapshot {
        load::or_panic(load::build(parsed, &Order::USUAL))
    }

    /// Loads one N-Triples file; fails if a line is malformed. Panics if there is not enough memory.
    pub fn of_ntriples(text: &[u8]) -> Result<Snapshot, SyntaxError> {
        let mut loader = Loader::default();
        loader.ntriples(text)?;
        Ok(loader.finish())
    }

    /// Loads one Turtle file; fails if it is malformed. Relative IRIs are resolved against `base`. Panics if there is
    /// not enough memory.
    pub fn of_turtle(text: &[u8], base: Option<&str>) -> Result<Snapshot, SyntaxError> {
        let mut loader = Loader::default();
        loader.turtle(text, base)?;
        Ok(loader.finish())
    }

    /// Changes the key of the hash function over fresh terms: authors of updates without the seed can't choose many
    /// terms with the same hash. Panics if there are fresh terms.
    pub fn hashed_with(self, seed: u64) -> Snapshot {
        self.with_secrets(RapidSecrets::seed(seed))
    }

    pub(crate) fn with_secrets(mut self, secrets: RapidSecrets) -> Snapshot {
        assert!(self.fresh.is_empty(), "the key is chosen before there are terms to hash");
        self.fresh = FreshTerms::new(secrets);
        self
    }

    /// The snapshot after changes. Takes O(log n) for each change, and shares the unchanged parts with this one.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn with(&self, changes: Changes) -> Result<Snapshot, NoMemory> {
        self.with_interrupt(changes, &Interrupt::never())
    }

    /// Like [`Snapshot::with`]; its caller can end it.
    ///
    /// # Errors
    /// Errors of [`Snapshot::with`].
    pub fn with_interrupt(&self, changes: Changes, interrupt: &Interrupt<'_>) -> Result<Snapshot, NoMemory> {
        // The terms are there twice until the new ones are those of this snapshot.
        let (mut quads_held, mut made_held) =
            (interrupt.holding(changes.quads_bytes()), interrupt.holding(2 * changes.fresh.heap_bytes()));
        let Changes { fresh, inserts, deletes } = changes;
        let fresh_bytes = fresh.heap_bytes();
        let fresh = self.fresh.with(fresh, &self.dictionary, interrupt)?;
        made_held.set(fresh_bytes);
        let changes = ChangedRows::of([inserts, deletes], self.index(Order::Gspo), interrupt);
        quads_held.set(changes.heap_bytes());
        let mut indexes = [const { None }; Order::ALL.len()];
        let mut counted: [Recount; Order::ALL.len()] = Default::default();
        let mut made = fresh_bytes;
        for index in self.indexes.iter().flatten() {
            let order = index.order();
            let count = changes.count_in(order);
            if count == 0 {
                indexes[order as usize] = Some(index.clone());
                continue;
            }
            let _rows_held = interrupt.holding(count * size_of::<(Row, RowChange)>());
            let rows = changes.in_order(order, interrupt)?;
            let after = index.with(&rows, interrupt)?;
            if rows.len() >= MANY {
                made += after.own_bytes();
                made_held.set(made);
            }
            if let Some(side) = counted_by(order) {
                let by_graph = order.is_by_graph();
                let of_default =
                    if by_graph { rows.partition_point(|(row, _)| row[0].is_unbound()) } else { rows.len() };
                let statistics = if by_graph { &self.statistics } else { &self.named };
                counted[order as usize] = statistics.recount(side, [index, &after], &rows[..of_default], interrupt)?;
                made += counted[order as usize].heap_bytes();
                made_held.set(made);
            }
            indexes[order as usize] = Some(after);
        }
        let mut with = |statistics: &Statistics, orders: [Order; 4]| {
            let [_, by_subject, by_object, _] = orders.map(|order| order as usize);
            let counted = [by_subject, by_object].map(|order| std::mem::take(&mut counted[order]));
            statistics.with(in_orders(&indexes, orders), counted, interrupt)
        };
        let (statistics, named) = (with(&self.statistics, OF_DEFAULT)?, with(&self.named, OF_NAMED)?);
        let (dictionary, owner) = (Arc::clone(&self.dictionary), self.owner.clone());
        Ok(Snapshot { dictionary, fresh, indexes, statistics, named, owner })
    }

    /// The snapshot without the quads of some graphs. If these are a large part of all, takes a time in proportion to
    /// the others, and none if there are no others; else as [`Snapshot::with`].
    ///
    /// ```
    /// use vicus_rdf::{Graphs, Id, Loader, load::Syntax};
    /// let mut loader = Loader::default();
    /// let text = "<http://e/a> <http://e/p> 1 . <http://e/g> { <http://e/a> <http://e/p> 1, 2 }";
    /// loader.file(text.as_bytes(), Syntax::TriG, None)?;
    /// let snapshot = loader.finish();
    /// assert_eq!(snapshot.cleared(Graphs::One(Id::UNBOUND)).expect("memory").len(), 2);
    /// assert_eq!(snapshot.cleared(Graphs::Named).expect("memory").len(), 1);
    /// assert!(snapshot.cleared(Graphs::All).expect("memory").is_empty());
    /// # Ok::<(), vicus_rdf::SyntaxError>(())
    /// ```
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn cleared(&self, graphs: Graphs) -> Result<Snapshot, NoMemory> {
        self.cleared_with_interrupt(graphs, &Interrupt::never())
    }

    /// Like [`Snapshot::cleared`]; its caller can end it.
    ///
    /// # Errors
    /// Errors of [`Snapshot::cleared`].
    pub fn cleared_with_interrupt(&self, graphs: Graphs, interrupt: &Interrupt<'_>) -> Result<Snapshot, NoMemory> {
        /// Making a base takes less time for a row than changing a present one.
        const SHARE: usize = 8;
        let count = graphs.rows(self).len();
        let rest = self.len() - count;
        let is_laid = self.index(Order::Gspo).is_laid() && rest > 0;
        if count == 0 || is_laid || rest / SHARE > count {
            let changes = Changes { deletes: graphs.quads(self, interrupt)?, ..Changes::of(self) };
            return self.with_interrupt(changes, interrupt);
        }
        let mut indexes: Vec<Index> = Vec::with_room(Order::ALL.len())?;
        let mut held = interrupt.holding(0);
        for index in self.indexes.iter().flatten() {
            let named_alone = !index.order().is_by_graph() && graphs == Graphs::One(Id::UNBOUND);
            indexes.push(match (rest, named_alone) {
                (0, _) => index.emptied()?,
                (_, true) => index.clone(),
                _ => index.without(graphs, interrupt)?,
            });
            held.set(indexes.iter().map(Index::own_bytes).sum());
        }
        let rdf_type = self.statistics.characteristic().rdf_type();
        let sets = indexes
            .iter()
            .filter(|index| [Order::Gspo, Order::Spog].contains(&index.order()))
            .map(|index| {
                let by = HashKey::default();
                Ok((index.order(), CharacteristicSets::with_interrupt(index, rdf_type, by, interrupt)?))
            })
            .collect::<Result<Vec<_>, NoMemory>>()?;
        let dictionary = Arc::clone(&self.dictionary);
        let made = Snapshot::with_characteristic(dictionary, indexes, sets, interrupt)?;
        Ok(Snapshot { fresh: self.fresh.clone(), owner: self.owner.clone(), ..made })
    }

    /// This snapshot, with an owner of its lent bytes.
    pub fn owned_by(self, owner: Arc<dyn BytesOwner>) -> Snapshot {
        Snapshot { owner: Some(owner), ..self }
    }

    /// Checks that all data read from it until now was there. Ask it before passing on results from this data, or
    /// making them durable.
    ///
    /// # Errors
    /// The owner of its bytes has lost some: results from them may be wrong.
    pub fn check_kept(&self) -> Result<(), BoxError> {
        self.owner.as_ref().and_then(|owner| owner.lost()).map_or(Ok(()), Err)
    }

    /// The result of a function of this data. Its readers may [give up](vicus_flow::give_up). A reader of lost bytes
    /// may panic: the loss is the error then.
    ///
    /// # Errors
    /// The function gave up, or bytes were lost until it had ended.
    ///
    /// # Panics
    /// The function panics, and no bytes were lost.
    pub fn read_by<R>(&self, function: impl FnOnce() -> R) -> Result<R, BoxError> {
        let made = self.read_part_by(function);
        self.check_kept()?;
        made
    }

    /// Like [`Snapshot::read_by`], for one of many short functions: lost bytes are the error only if the function does
    /// not end well, so ask [`Snapshot::check_kept`] when all have ended.
    ///
    /// # Errors
    /// The function gave up, or it panicked and bytes were lost.
    ///
    /// # Panics
    /// The function panics, and no bytes were lost.
    pub fn read_part_by<R>(&self, function: impl FnOnce() -> R) -> Result<R, BoxError> {
        let made = catch_unwind(AssertUnwindSafe(|| or_given_up(function)));
        if !matches!(made, Ok(Ok(_))) {
            self.check_kept()?;
        }
        made.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// How many quads were inserted or deleted since its indexes were built.
    pub fn change_count(&self) -> usize {
        self.index(Order::Gspo).change_count()
    }

    /// How many quads it has.
    pub fn len(&self) -> usize {
        self.statistics.triples + self.named.triples
    }

    /// Whether it has no quads.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The terms that are not inlined in their ids, in sorted order, without the [fresh](Snapshot::fresh) ones.
    pub fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    /// The terms added since the dictionary was sorted. Their ids have no order.
    pub fn fresh(&self) -> &FreshTerms {
        &self.fresh
    }

    /// Counts for a planner, of the default graph.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Counts for a planner, of all named graphs together.
    pub fn named_statistics(&self) -> &Statistics {
        &self.named
    }

    /// The names of its graphs, ascending: a graph without quads has none.
    pub fn graphs(&self) -> impl ExactSizeIterator<Item = Id> + '_ {
        let index = self.index(Order::Gspo);
        index.graphs_from(usize::from(index.count(&[Id::UNBOUND]) > 0))
    }

    /// The quads in this order. Panics if it was built without it; [`Order::USUAL`] are always there.
    #[expect(
        clippy::should_implement_trait,
        reason = "the field's word; `store[order]` would hide which part is meant"
    )]
    pub fn index(&self, order: Order) -> &Index {
        self.get_index(order).unwrap_or_else(|| panic!("the snapshot was built without the order {order:?}"))
    }

    /// The quads in this order, if it was built with it.
    pub fn get_index(&self, order: Order) -> Option<&Index> {
        self.indexes[order as usize].as_ref()
    }

    /// The orders of its indexes.
    pub fn orders(&self) -> impl Iterator<Item = Order> + '_ {
        self.indexes.iter().flatten().map(Index::order)
    }

    /// The first of its orders with the most bound positions (subject, predicate, object, graph) in front. If a bound
    /// position is not in the prefix ([`Order::prefix`]), rows must be filtered: only if just subject and object are
    /// bound, perhaps with the graph, and there is neither Gsop nor Gosp. An unbound graph means the rows of all named
    /// graphs: an order ending with the graph has no others.
    pub fn best_order(&self, bound: [bool; 4]) -> Order {
        self.best_order_for(bound, None)
    }

    /// Like [`Snapshot::best_order`]; among equally good orders, one with rows sorted by `sorted`, which then follows
    /// the prefix.
    pub fn best_order_for(&self, bound: [bool; 4], sorted: Option<Position>) -> Order {
        let rank = |order: &Order| {
            let prefix = order.prefix(bound);
            let follows = sorted.is_some_and(|position| order.positions().get(prefix) == Some(&position));
            (prefix, follows)
        };
        let by_graph = bound[Position::Graph as usize];
        // `max_by_key` returns the last of several maxima.
        let orders: Vec<Order> = self.orders().filter(|order| order.is_by_graph() == by_graph).collect();
        orders.into_iter().rev().max_by_key(rank).expect("a snapshot has indexes")
    }

    /// The id of a term, if the term is here or inlined.
    pub fn id(&self, term: TermRef<'_>) -> Option<Id> {
        match Encoder::default().term(term) {
            Encoded::Inlined(id) => Some(id),
            Encoded::Key(kind, key) => self.find(kind, key),
        }
    }

    /// The id of the term with this key, if it is here: in the dictionary or fresh.
    pub fn find(&self, kind: TermKind, key: &str) -> Option<Id> {
        // A table takes a tenth of the time of the dictionary with its compressed texts.
        self.fresh.find(kind, key).or_else(|| self.dictionary.search(kind, key).ok())
    }

    /// Like [`Snapshot::find`]; a missing term is found among the terms [behind](FreshTerms::behind) the fresh ones of
    /// this snapshot, or added to them.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn find_or_add(&self, behind: &mut Unranked, kind: TermKind, key: &str) -> Result<Id, NoMemory> {
        if let Some(id) = behind.find(kind, key).or_else(|| self.fresh.find(kind, key)) {
            return Ok(id);
        }
        self.dictionary.search(kind, key).or_else(|next| behind.add_before(kind, key, next))
    }

    /// Like [`Snapshot::find_or_add`], for many terms: they are looked up in their order, in a small part of the time.
    /// The ids are in the order of the terms.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn find_or_add_all(&self, behind: &mut Unranked, terms: &[(TermKind, &str)]) -> Result<Vec<Id>, NoMemory> {
        let mut places: Vec<usize> = Vec::with_room(terms.len())?;
        places.extend(0..terms.len());
        places.sort_unstable_by_key(|&place| terms[place]);
        let mut found: Vec<Result<Id, Id>> = Vec::with_room(terms.len())?;
        found.resize(terms.len(), Err(Id::UNBOUND));
        let mut last = (TermKind::Unbound, 0);
        for place in places {
            let (kind, key) = terms[place];
            if kind != last.0 {
                last = (kind, 0);
            }
            found[place] = match self.fresh.find(kind, key) {
                Some(id) => Ok(id),
                None => self.dictionary.search_behind(kind, key, &mut last.1),
            };
        }
        let mut ids = Vec::with_room(terms.len())?;
        for (found, &(kind, key)) in found.into_iter().zip(terms) {
            ids.push(match found {
                Ok(id) => id,
                Err(next) => match behind.find(kind, key) {
                    Some(id) => id,
                    None => behind.add_before(kind, key, next)?,
                },
            });
        }
        Ok(ids)
    }

    /// Whether this snapshot has the term of the id, in contrast to a term computed by a request. Takes a comparison.
    #[inline]
    pub fn has(&self, id: Id) -> bool {
        !id.is_unranked() || self.fresh.has(id)
    }

    /// The order of two terms of this snapshot as if all had ranks: that of their ids, but fresh terms stand among the
    /// others of their kind by their keys. So it is the order of values for the kinds of [`Id::is_value`]. Panics for
    /// computed terms.
    #[inline]
    pub fn compare(&self, a: Id, b: Id) -> Ordering {
        if a.is_unranked() || b.is_unranked() { self.compare_fresh(a, b) } else { a.cmp(&b) }
    }

    #[inline(never)]
    fn compare_fresh(&self, a: Id, b: Id) -> Ordering {
        // A fresh term stands right before the next greater one of the dictionary.
        let number = |id: Id| match id.is_unranked() {
            false => id.bits() << 1 | 1,
            true => Id::ranked(id.kind(), self.fresh.next_rank(id)).bits() << 1,
        };
        // Only two fresh ones may stand in one place.
        number(a)
            .cmp(&number(b))
            .then_with(|| if a == b { Ordering::Equal } else { self.fresh.key(a).cmp(self.fresh.key(b)) })
    }

    /// Whether there is a literal with this datatype that is neither a simple string nor inlined.
    pub fn has_datatype(&self, datatype: &str) -> bool {
        let keys = Encoder::qualified(datatype);
        !self.dictionary.range(TermKind::Typed, &keys.start..&keys.end).is_empty() || self.fresh.has_datatype(datatype)
    }

    /// The term of an id as oxrdf's type. Panics for unbound ids, and for ids computed by a request.
    pub fn term(&self, id: Id) -> Term {
        self.view(id, |view| view.to_term())
    }

    /// Passes the key of a term, in the form of [`term`](crate::term), to `look`. Panics for ids that are their own
    /// terms, and for ids computed by a request.
    #[inline]
    pub fn key<R>(&self, id: Id, look: impl FnOnce(&str) -> R) -> R {
        if id.is_unranked() { look(self.fresh.key(id)) } else { self.dictionary.key(id, look) }
    }

    /// Passes the term of an id to `look`. Panics for unbound ids, and for ids computed by a request.
    #[inline]
    pub fn view<R>(&self, id: Id, look: impl FnOnce(TermView<'_>) -> R) -> R {
        match id.is_unranked() {
            false => self.dictionary.view(id, look),
            true => look(TermView::of_key(id.kind(), self.fresh.key(id))),
        }
    }

    /// The memory of each part.
    pub fn memory(&self) -> SnapshotMemory {
        SnapshotMemory {
            indexes: self.indexes.iter().flatten().map(|index| (index.order(), index.heap_bytes())).collect(),
            dictionary_text: self.dictionary.text_bytes(),
            dictionary_ends: self.dictionary.ends_bytes(),
            fresh_terms: self.fresh.heap_bytes(),
            statistics: self.statistics.heap_bytes() + self.named.heap_bytes(),
        }
    }

    /// Its memory, in bytes: [`SnapshotMemory::total`].
    pub fn heap_bytes(&self) -> usize {
        self.memory().total()
    }

    /// The part of its memory that no other snapshot has, in bytes. It takes a look at each part of an index.
    pub fn own_bytes(&self) -> usize {
        let indexes: usize = self.indexes.iter().flatten().map(Index::own_bytes).sum();
        indexes + self.fresh.own_bytes() + self.statistics.own_bytes() + self.named.own_bytes()
    }

    /// Panics if an index or the dictionary broke its invariants. Takes linear time.
    pub fn assert_valid(&self) {
        self.dictionary.assert_valid();
        self.indexes.iter().flatten().for_each(Index::assert_valid);
    }
}

/// Memory is measured after so many changed rows: it takes a look at each part of an index. Fewer copy some kilobytes
/// each in every order.
const MANY: usize = 64;

/// The memory that successive changes of a snapshot have made and no other snapshot has, measured now and then.
#[derive(Debug, Default)]
pub struct OwnMemory {
    bytes: usize,
    /// Changed rows and the bytes of their new terms since it was measured.
    rows: usize,
    terms: usize,
}

impl OwnMemory {
    /// Few bytes of new terms need not be measured.
    const TERMS: usize = 256 << 10;

    /// A change has made this snapshot, of which there is no other one but those before all changes.
    pub fn measure(&mut self, after: &Snapshot, rows: usize, terms: usize) {
        (self.rows, self.terms) = (self.rows + rows, self.terms + terms);
        if self.rows >= MANY || self.terms >= Self::TERMS {
            *self = OwnMemory { bytes: after.own_bytes(), rows: 0, terms: 0 };
        }
    }

    /// The bytes when it was measured last.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The columns counted with an order's changed rows: the default graph's if the order begins with the graph, and those
/// of named graphs if not.
fn counted_by(order: Order) -> Option<Side> {
    match order {
        Order::Gpso | Order::Psog => Some(Side::Subjects),
        Order::Gpos | Order::Posg => Some(Side::Objects),
        _ => None,
    }
}

/// The orders used to count the default graph.
const OF_DEFAULT: [Order; 4] = [Order::Gspo, Order::Gpso, Order::Gpos, Order::Gops];

/// The orders used to count named graphs.
const OF_NAMED: [Order; 4] = [Order::Spog, Order::Psog, Order::Posg, Order::Opsg];

fn in_orders<const N: usize>(indexes: &[Option<Index>], orders: [Order; N]) -> [&Index; N] {
    orders.map(|order| indexes[order as usize].as_ref().unwrap_or_else(|| panic!("an index in order {order:?}")))
}

/// The memory allocated by a [`Snapshot`], in bytes, without the allocator's pages, headers and rounding.
///
/// ```
/// use vicus_rdf::Snapshot;
/// let snapshot = Snapshot::of_ntriples(b"<http://e/s> <http://e/p> <http://e/o> .")?;
/// let memory = snapshot.memory();
/// assert_eq!(memory.indexes.len(), 8);
/// // A block of three IRIs, with what they begin with once, of which one place is kept.
/// assert!(memory.dictionary_text >= "http://e/".len() + 3);
/// assert_eq!(memory.dictionary_ends, 5);
/// # Ok::<(), vicus_rdf::SyntaxError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotMemory {
    /// Each index of the snapshot.
    pub indexes: Vec<(Order, usize)>,
    /// The keys of all terms except inlined ones, compressed.
    pub dictionary_text: usize,
    /// The end of each block of these keys.
    pub dictionary_ends: usize,
    /// The terms added since the dictionary was sorted.
    pub fresh_terms: usize,
    /// Counts by predicate.
    pub statistics: usize,
}

impl SnapshotMemory {
    /// All parts together.
    pub fn total(&self) -> usize {
        let indexes: usize = self.indexes.iter().map(|(_, bytes)| bytes).sum();
        indexes + self.dictionary_text + self.dictionary_ends + self.fresh_terms + self.statistics
    }
}
