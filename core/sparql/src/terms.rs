//! The terms of a plan: those of the store, and those mentioned or computed by its query.

use crate::boxes::room_for_one;
use crate::boxes::spill::{QuerySpill, Spiller};
use crate::graphs::Merged;
use crate::limits::QueryLimits;
use crate::passing_terms::{Passing, Segments, segment_of};
use crate::service::Endpoints;
use crate::value::{DateTime, Numbers};
use hashbrown::HashMap;
use oxiri::Iri;
use oxrdf::vocab::xsd;
use oxrdf::{Literal, Term, TermRef};
use rapidhash::v3::RapidSecrets;
use std::cell::{Cell, OnceCell};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use vicus_flow::library::HashKey;
use vicus_flow::{BoxError, OverBudget, Turn, give_up};
use vicus_rdf::{Encoded, Encoder, Id, MOST_NESTED, RetainedTerms, Snapshot, TermKind, TermView, Unranked, levels_of};

/// A store, the other terms mentioned by the query, and the terms computed by one run.
///
/// Invariant: each term has one id, unless it [passes](crate::passing_terms). A term of the store is never added, and
/// no term is added twice. So equal ids are equal terms, computed or not; and different ids are different terms if they
/// don't pass.
pub(crate) struct Terms {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) limits: QueryLimits,
    /// The meaning of [`At::Merged`](crate::algebra::At::Merged).
    pub(crate) merged: Merged,
    /// The number of levels of the query's tree.
    pub(crate) levels: usize,
    /// The key of hash functions over ids.
    pub(crate) key: HashKey,
    /// The possible types of numbers. Any type before [`Terms::settled`].
    pub(crate) numbers: Numbers,
    base: Option<Arc<Iri<String>>>,
    moment: Moment,
    /// The terms mentioned by the query: the same for all runs.
    mentioned: Arc<Unranked>,
    run: Arc<OfRun>,
    /// The segments of a box with passing computed terms; `None` if its terms are kept until the run's end.
    passing: Option<Passing>,
}

/// A part of a triple term.
enum Part {
    Inlined(Id),
    Key(TermKind, String),
}

/// The state shared by all boxes of a run.
struct OfRun {
    /// Terms kept until the run's end. A thread that gives up under the lock, for lack of memory or because a temporary
    /// file fails, leaves them unchanged.
    kept: RwLock<RetainedTerms>,
    /// The most bytes held so far: the bytes booked for them, or about to be.
    kept_most: AtomicU64,
    /// Passing terms.
    segments: Arc<Segments>,
    /// The blank nodes made so far, by the id of their label and the row.
    blanks: Mutex<HashMap<(Id, i64), Id, HashKey>>,
    /// The number of random numbers, row numbers and blank nodes made so far.
    asked: AtomicU64,
    /// Bytes of kept terms not yet booked by a box.
    unbooked: AtomicU64,
    /// The endpoints of SERVICE.
    endpoints: Option<Arc<dyn Endpoints>>,
    /// The part of each spilling box; `None` if no box may spill.
    spiller: Option<Spiller>,
    /// Whether a string longer than [`LONGEST`] was needed.
    is_overlong: AtomicBool,
}

/// Set in the place of a new blank node, unknown to all dictionaries. The bit above it is set for passing terms.
const FRESH: usize = 1 << 54;

/// Kept terms have at most this part of the run's memory, and as much again while they are written to a file.
const KEPT: u64 = 16;

/// A file is not made for fewer bytes than these.
const FEWEST_KEPT: u64 = 4 << 10;

/// The greatest number of bytes of a computed string. Functions of longer ones would delay a cancelled request too
/// long.
const LONGEST: usize = 1 << 26;

/// Whether it is a triple term with more levels than there can be.
pub(crate) fn is_too_deep(term: TermRef<'_>) -> bool {
    matches!(term, TermRef::Triple(triple) if levels_of(triple) > MOST_NESTED)
}

/// Books a box's computed terms in its request's budget.
#[derive(Default, Debug)]
pub(crate) struct Booking {
    booked: Cell<u64>,
    /// Why an invocation gave up.
    failed: OnceCell<OverBudget>,
}

/// Fewer bytes than this are booked at the end of the invocation only.
const MUCH: u64 = 1 << 20;

impl Booking {
    /// Books the terms computed since the last call, and the box's `more` bytes.
    ///
    /// # Errors
    /// The request is over its budget, or a string is too long.
    pub(crate) fn hold(&self, terms: &Terms, turn: &Turn<'_>, more: u64) -> Result<(), BoxError> {
        if terms.run.is_overlong.load(Ordering::Relaxed) {
            let most = LONGEST >> 20;
            return Err(format!("a string of more than {most} MiB: a function or GROUP_CONCAT grew it").into());
        }
        self.book(terms, turn, more);
        self.failed.get().map_or(Ok(()), |error| Err(error.clone().into()))
    }

    /// Whether an invocation should give up before its end, while it holds `more` bytes: the request was cancelled, or
    /// the next [`Booking::hold`] will fail. Books if there is much to book. Cheap enough for each row.
    pub(crate) fn poll(&self, terms: &Terms, turn: &Turn<'_>, more: u64) -> bool {
        if more + terms.run.unbooked.load(Ordering::Relaxed) >= MUCH {
            self.book(terms, turn, more);
        }
        turn.is_stopped() || terms.run.is_overlong.load(Ordering::Relaxed) || self.failed.get().is_some()
    }

    /// Books the terms computed since the last call, and `more` bytes to be held soon. For a box that can do with
    /// fewer: if the request is refused, [`Booking::hold`] may yet succeed.
    ///
    /// # Errors
    /// The request would be over its budget.
    pub(crate) fn ask(&self, terms: &Terms, turn: &Turn<'_>, more: u64) -> Result<(), OverBudget> {
        self.booked.set(self.booked.get() + terms.run.unbooked.swap(0, Ordering::Relaxed));
        turn.book(self.booked.get() + more)
    }

    fn book(&self, terms: &Terms, turn: &Turn<'_>, more: u64) {
        // Boxes often find nothing to book, so they look before they write.
        if terms.run.unbooked.load(Ordering::Relaxed) > 0 {
            self.booked.set(self.booked.get() + terms.run.unbooked.swap(0, Ordering::Relaxed));
        }
        if let Err(error) = turn.book(self.booked.get() + more) {
            self.failed.get_or_init(|| error);
        }
    }
}

/// The time and the seed of a run. The engine itself has neither a clock nor randomness.
///
/// ```
/// use vicus_sparql::Moment;
///
/// assert_eq!(Moment::default(), Moment { now_ms: 0, seed: 0 });
/// ```
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The value of NOW: milliseconds since the beginning of 1970, UTC. The caller reads the clock.
    pub now_ms: i64,
    /// The seed of RAND, UUID and STRUUID.
    pub seed: u64,
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stored = self.snapshot.dictionary().len() + self.snapshot.fresh().len();
        let (kept, passing) = (self.mentioned.len() + self.read().len(), self.run.segments.count());
        write!(f, "{stored} terms of the store and {kept} more, and {passing} segments of terms that pass")
    }
}

impl Terms {
    #[cfg(test)]
    pub(crate) fn new(snapshot: &Arc<Snapshot>) -> Terms {
        Terms::with(snapshot, None, QueryLimits::default(), 0)
    }

    /// The terms of a query. `base` resolves its IRIs, and a seed keys its hashes.
    pub(crate) fn with(
        snapshot: &Arc<Snapshot>,
        base: Option<Arc<Iri<String>>>,
        limits: QueryLimits,
        hash_seed: u64,
    ) -> Terms {
        let mentioned = Unranked::at(snapshot.fresh().len(), RapidSecrets::seed(hash_seed));
        Terms::behind(snapshot, base, limits, HashKey::of_seed(hash_seed), Arc::new(mentioned))
    }

    fn behind(
        snapshot: &Arc<Snapshot>,
        base: Option<Arc<Iri<String>>>,
        limits: QueryLimits,
        key: HashKey,
        mentioned: Arc<Unranked>,
    ) -> Terms {
        let run = OfRun {
            kept: RwLock::new(RetainedTerms::behind(&mentioned)),
            kept_most: AtomicU64::new(0),
            segments: Arc::new(Segments::new(key)),
            blanks: Mutex::new(HashMap::with_hasher(key)),
            asked: AtomicU64::new(0),
            unbooked: AtomicU64::new(0),
            endpoints: None,
            spiller: None,
            is_overlong: AtomicBool::new(false),
        };
        Terms {
            snapshot: Arc::clone(snapshot),
            limits,
            merged: Merged::All,
            levels: 0,
            key,
            numbers: Numbers::Floats,
            base,
            moment: Moment::default(),
            mentioned,
            run: Arc::new(run),
            passing: None,
        }
    }

    /// These terms for a query of this many levels.
    pub(crate) fn of_levels(self, levels: usize) -> Terms {
        Terms { levels, ..self }
    }

    /// These terms for a query that reads these graphs as one.
    pub(crate) fn of_merged(self, merged: Merged) -> Terms {
        Terms { merged, ..self }
    }

    /// These terms for a box with passing computed terms: they live until [`Passing::discard`] or, after
    /// [`Passing::seal`], as long as the envelopes with the attachment.
    pub(crate) fn passing(&self) -> Arc<Terms> {
        let passing = Passing::new(&self.run.segments, self.mentioned.secrets());
        Arc::new(Terms {
            snapshot: Arc::clone(&self.snapshot),
            limits: self.limits,
            merged: self.merged.clone(),
            levels: self.levels,
            key: self.key,
            numbers: self.numbers,
            base: self.base.clone(),
            moment: self.moment,
            mentioned: Arc::clone(&self.mentioned),
            run: Arc::clone(&self.run),
            passing: Some(passing),
        })
    }

    /// The segments of the box, if its computed terms pass.
    pub(crate) fn segment(&self) -> Option<&Passing> {
        self.passing.as_ref()
    }

    /// Moves the terms computed so far to the terms mentioned by the query; these may come across `numbers`.
    pub(crate) fn settled(&self, numbers: Numbers) -> Terms {
        let mentioned = self.run.kept.write().unwrap_or_else(PoisonError::into_inner).take();
        let settled = Terms::behind(&self.snapshot, self.base.clone(), self.limits, self.key, Arc::new(mentioned));
        Terms { numbers, merged: self.merged.clone(), levels: self.levels, moment: self.moment, ..settled }
    }

    /// The terms at the beginning of a run, with the endpoints of SERVICE, the place for spilled data, and the number
    /// of boxes allowed to spill.
    pub(crate) fn at(
        &self,
        moment: Moment,
        endpoints: Option<Arc<dyn Endpoints>>,
        spill: Option<QuerySpill>,
        boxes: usize,
    ) -> Terms {
        let mentioned = Arc::clone(&self.mentioned);
        let mut settled = Terms::behind(&self.snapshot, self.base.clone(), self.limits, self.key, mentioned);
        let run = Arc::get_mut(&mut settled.run).expect("it was just made");
        run.endpoints = endpoints;
        if let Some(spill) = spill {
            let least = self.limits.spilled_from;
            run.spiller = Some(Spiller::of(&spill, boxes, least));
            let kept = run.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
            kept.spill_beyond(spill.scratch, (spill.budget / KEPT).max(least).max(FEWEST_KEPT));
        }
        Terms { moment, numbers: self.numbers, merged: self.merged.clone(), levels: self.levels, ..settled }
    }

    /// The endpoints of SERVICE, if the run may use any.
    pub(crate) fn endpoints(&self) -> Option<&Arc<dyn Endpoints>> {
        self.run.endpoints.as_ref()
    }

    /// The way to spill for each spilling box of the run; `None` if spilling is not allowed. A box counts as spilling
    /// if [`Draft::that_spills`](crate::lower) says so.
    pub(crate) fn spiller(&self) -> Option<&Spiller> {
        self.run.spiller.as_ref()
    }

    /// How many bytes a hash join's or a GROUP BY's box may hold; without bound if it must not spill.
    pub(crate) fn most_held(&self) -> u64 {
        self.spiller().map_or(u64::MAX, Spiller::most)
    }

    /// Checks the length of a string to be made. False if it is too long; then the query ends with an error: see
    /// [`Booking::hold`].
    pub(crate) fn check_length(&self, bytes: usize) -> bool {
        if bytes > LONGEST {
            self.run.is_overlong.store(true, Ordering::Relaxed);
        }
        bytes <= LONGEST
    }

    fn book(&self, bytes: usize) {
        self.run.unbooked.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn base(&self) -> Option<&Iri<String>> {
        self.base.as_deref()
    }

    /// The moment of the run, the same for all parts of the query.
    pub(crate) fn now(&self) -> Id {
        let text = DateTime::of_millis(self.moment.now_ms).to_string();
        self.id(&Literal::new_typed_literal(text, xsd::DATE_TIME))
    }

    /// A new number at each call, from 1.
    pub(crate) fn next(&self) -> u64 {
        self.run.asked.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Random bits: Steele et al., "Fast splittable pseudorandom number generators", OOPSLA 2014.
    pub(crate) fn chance(&self) -> u64 {
        let mut bits = self.moment.seed.wrapping_add(self.next().wrapping_mul(0x9E37_79B9_7F4A_7C15));
        bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ bits >> 31
    }

    /// The numbers of `count` new blank nodes, for [`Terms::fresh_blank`]: the first one.
    pub(crate) fn fresh_blanks(&self, count: u32) -> u64 {
        self.run.asked.fetch_add(u64::from(count), Ordering::Relaxed) + 1
    }

    /// The new blank node with this number. Its id contains the whole number, so no table has it.
    pub(crate) fn fresh_blank(number: u64) -> Id {
        debug_assert!(number < FRESH as u64, "a run makes fewer than 2^54 blank nodes");
        Id::unranked(TermKind::Blank, FRESH | number as usize)
    }

    /// The number of a new blank node; `None` for other terms.
    fn number_of_fresh(id: Id) -> Option<u64> {
        if id.kind() != TermKind::Blank || !id.is_unranked() || segment_of(id).is_some() {
            return None;
        }
        id.rank().filter(|place| place & FRESH != 0).map(|place| (place & !FRESH) as u64)
    }

    /// The blank node for this label, a simple string, and row. Made at the first call.
    pub(crate) fn blank(&self, label: &str, row: i64) -> Id {
        let label = self.keep(TermKind::String, label);
        // A thread that ran out of memory here left the map unchanged.
        let mut blanks = self.run.blanks.lock().unwrap_or_else(PoisonError::into_inner);
        room_for_one(blanks.len(), blanks.capacity(), size_of::<((Id, i64), Id)>(), || blanks.try_reserve(1).is_ok());
        *blanks.entry((label, row)).or_insert_with(|| {
            self.book(2 * size_of::<((Id, i64), Id)>());
            Terms::fresh_blank(self.fresh_blanks(1))
        })
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, RetainedTerms> {
        self.run.kept.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id of any term. A term unknown to the store is added, but a term that is too long, or a triple term with too
    /// many levels, gets the unbound id. Takes a binary search and a lock.
    pub(crate) fn id<'a>(&self, term: impl Into<TermRef<'a>>) -> Id {
        let term = term.into();
        if is_too_deep(term) {
            return Id::UNBOUND;
        }
        match Encoder::default().term(term) {
            Encoded::Inlined(id) => id,
            Encoded::Key(kind, key) => self.id_of_key(kind, key),
        }
    }

    /// The id of a simple string.
    pub(crate) fn string(&self, text: &str) -> Id {
        self.id_of_key(TermKind::String, text)
    }

    fn id_of_key(&self, kind: TermKind, key: &str) -> Id {
        match &self.passing {
            None => self.keep(kind, key),
            Some(_) if self.check_length(key.len()) => self.add(kind, key),
            Some(_) => Id::UNBOUND,
        }
    }

    /// The ids of the parts of a triple term. Panics for other terms.
    pub(crate) fn parts(&self, id: Id) -> [Id; 3] {
        self.part_keys(id).map(|part| self.id_of_part(part))
    }

    /// The id of one of the parts of a triple term; `None` for other terms.
    pub(crate) fn part(&self, id: Id, place: usize) -> Option<Id> {
        let [s, p, o] = Some(id).filter(|id| id.is_triple()).map(|id| self.part_keys(id))?;
        Some(self.id_of_part([s, p, o].into_iter().nth(place)?))
    }

    /// The keys of the parts: a copy, since looking one up may need the lock of the lent term.
    fn part_keys(&self, id: Id) -> [Part; 3] {
        self.view(id, |view| match view {
            TermView::Triple(triple) => triple.parts().map(|part| match part {
                Encoded::Inlined(id) => Part::Inlined(id),
                Encoded::Key(kind, key) => Part::Key(kind, key.to_owned()),
            }),
            other => panic!("{other} is no triple term"),
        })
    }

    fn id_of_part(&self, part: Part) -> Id {
        match part {
            Part::Inlined(id) => id,
            Part::Key(kind, key) => self.id_of_key(kind, &key),
        }
    }

    /// The triple term of these; `None` if there is none: see [`Encoder::triple`].
    pub(crate) fn triple(&self, ids: [Id; 3]) -> Option<Id> {
        if ids.iter().any(|id| id.is_unbound()) {
            return None;
        }
        let mut parts = [const { None }; 3];
        for (part, id) in parts.iter_mut().zip(ids) {
            *part = Some(match id.rank() {
                None => Part::Inlined(id),
                Some(_) => Part::Key(id.kind(), self.key(id)),
            });
        }
        let parts = parts.each_ref().map(|part| match part {
            Some(Part::Key(kind, key)) => Encoded::Key(*kind, key),
            Some(Part::Inlined(id)) => Encoded::Inlined(*id),
            None => unreachable!("all were set"),
        });
        let mut encoder = Encoder::default();
        match encoder.triple(parts)? {
            Encoded::Inlined(id) => Some(id),
            Encoded::Key(kind, key) => Some(self.id_of_key(kind, key)).filter(|id| !id.is_unbound()),
        }
    }

    /// A copy of the term's key, if it has one.
    pub(crate) fn key(&self, id: Id) -> String {
        if self.snapshot.has(id) {
            return self.snapshot.key(id, str::to_owned);
        }
        if let Some(number) = Terms::number_of_fresh(id) {
            let mut encoder = Encoder::default();
            let Encoded::Key(_, key) = encoder.fresh(number) else { unreachable!("a node has a key") };
            return key.to_owned();
        }
        if self.mentioned.has(id) {
            return self.mentioned.key(id).to_owned();
        }
        match segment_of(id) {
            Some(segment) => self.with_passing(id, segment, str::to_owned),
            None => self.read().key_copied(id),
        }
    }

    /// The id of a term kept until the run's end.
    pub(crate) fn keep(&self, kind: TermKind, key: &str) -> Id {
        match self.find(kind, key) {
            Some(id) => id,
            None if self.check_length(key.len()) => self.add_kept(kind, key),
            None => Id::UNBOUND,
        }
    }

    /// The unique id of a term, for a box that compares it with others, or keeps it longer than its envelope.
    #[inline]
    pub(crate) fn kept(&self, id: Id) -> Id {
        match segment_of(id) {
            None => id,
            Some(segment) => self.with_passing(id, segment, |key| self.keep(id.kind(), key)),
        }
    }

    /// The store's id of a term; `None` if the store lacks the term. A passing term has an id of its own even if the
    /// store has it.
    #[inline]
    pub(crate) fn stored(&self, id: Id) -> Option<Id> {
        if self.snapshot.has(id) {
            return Some(id);
        }
        self.with_passing(id, segment_of(id)?, |key| self.snapshot.find(id.kind(), key))
    }

    /// Whether a term without a rank is one of the store, or mentioned by the query: all machines with the same store
    /// and the same text give it this id.
    pub(crate) fn is_common(&self, id: Id) -> bool {
        self.snapshot.has(id) || self.mentioned.has(id)
    }

    /// Visits the keys of the terms that the query mentions and the store lacks, in their order.
    pub(crate) fn each_mentioned(&self, mut visit: impl FnMut(Id, &str)) {
        self.mentioned.ids().for_each(|id| visit(id, self.mentioned.key(id)));
    }

    /// Whether two ids stand for the same term.
    #[inline]
    pub(crate) fn is_same(&self, a: Id, b: Id) -> bool {
        a == b || (segment_of(a).is_some() || segment_of(b).is_some()) && self.has_same_key(a, b)
    }

    #[cold]
    fn has_same_key(&self, a: Id, b: Id) -> bool {
        let is_in_dictionary = |id: Id| id.rank().is_some();
        a.kind() == b.kind() && is_in_dictionary(a) && self.view(a, |a| self.view(b, |b| a == b))
    }

    fn find(&self, kind: TermKind, key: &str) -> Option<Id> {
        if kind == TermKind::Blank
            && let Some(number) = TermView::of_key(kind, key).fresh_number()
        {
            return Some(Terms::fresh_blank(number));
        }
        let stored = self.snapshot.find(kind, key);
        stored.or_else(|| self.mentioned.find(kind, key)).or_else(|| self.read().find(kind, key))
    }

    /// Adds a term unknown to the store: to the box's segment if it passes, else to the kept terms.
    fn add(&self, kind: TermKind, key: &str) -> Id {
        match &self.passing {
            None => self.add_kept(kind, key),
            Some(passing) => passing.id(kind, key).unwrap_or_else(|error| give_up(error)),
        }
    }

    /// Adds a term unknown to the store to the kept terms.
    fn add_kept(&self, kind: TermKind, key: &str) -> Id {
        let mut kept = self.run.kept.write().unwrap_or_else(PoisonError::into_inner);
        // Another box may have added it since the search.
        let added = kept.find(kind, key).map_or_else(|| kept.add(kind, key), Ok);
        // Only the lock's owner changes it.
        let (held, most) = (kept.held_bytes(), self.run.kept_most.load(Ordering::Relaxed));
        if held > most {
            self.run.kept_most.store(held, Ordering::Relaxed);
            self.run.unbooked.fetch_add(held - most, Ordering::Relaxed);
        }
        drop(kept);
        added.unwrap_or_else(|error| give_up(error))
    }

    fn with_passing<R>(&self, id: Id, segment: u32, look: impl FnOnce(&str) -> R) -> R {
        match self.passing.as_ref().and_then(|passing| passing.key(id)) {
            // `look` may compute terms. This needs the lock, so `look` gets a copy.
            Some(key) => look(&key),
            None => look(self.run.segments.get(segment).key(id)),
        }
    }

    /// The term with this id. Panics for the unbound id.
    pub(crate) fn term(&self, id: Id) -> Term {
        self.view(id, |view| view.to_term())
    }

    /// Passes a term to `look`. Allocates nothing, unless it is long or was computed.
    pub(crate) fn view<R>(&self, id: Id, look: impl FnOnce(TermView<'_>) -> R) -> R {
        if self.snapshot.has(id) {
            return self.snapshot.view(id, look);
        }
        if let Some(number) = Terms::number_of_fresh(id) {
            let mut encoder = Encoder::default();
            let Encoded::Key(kind, key) = encoder.fresh(number) else { unreachable!("a node has a key") };
            return look(TermView::of_key(kind, key));
        }
        if self.mentioned.has(id) {
            return look(TermView::of_key(id.kind(), self.mentioned.key(id)));
        }
        if let Some(segment) = segment_of(id) {
            return self.with_passing(id, segment, |key| look(TermView::of_key(id.kind(), key)));
        }
        // `look` may compute terms. This needs the lock.
        let key = self.read().key_copied(id);
        look(TermView::of_key(id.kind(), &key))
    }
}
