//! The terms that a plan can name: those of the store, and those that its query mentions or computes.

use oxiri::Iri;
use oxrdf::vocab::xsd;
use oxrdf::{BlankNode, Literal, Term};
use oxsdatatypes::{DateTime, DayTimeDuration, Decimal};
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::{Arc, RwLock};
use vicus_rdf::{Encoded, Encoder, Id, Kind, Store, TermView};

/// A store and what a plan adds to it. All instances of a plan share it, so an id means the same in each of them.
///
/// Invariant: a term has one id. A term of the store is never added, and none is added twice; so equal ids are equal
/// terms, computed or not.
pub(crate) struct Terms {
    pub(crate) store: Arc<Store>,
    around: Around,
    computed: RwLock<Computed>,
}

/// What a query is told of the world outside.
#[derive(Clone, Default, Debug)]
pub(crate) struct Around {
    /// What NOW is, in milliseconds since 1970.
    pub(crate) now_ms: i64,
    /// What RAND and UUID begin with.
    pub(crate) seed: u64,
    /// What IRI resolves against.
    pub(crate) base: Option<Iri<String>>,
}

#[derive(Default)]
struct Computed {
    /// By the place that an id has.
    terms: Vec<Term>,
    ids: FxHashMap<Term, Id>,
    /// Blank nodes that have been made, by label and row.
    blanks: FxHashMap<(String, i64), Id>,
    /// How often chance, a row's number or a blank node was asked for.
    asked: u64,
}

impl Computed {
    fn add(&mut self, term: Term, kind: Kind) -> Id {
        let id = Id::computed(kind, self.terms.len());
        self.terms.push(term.clone());
        self.ids.insert(term, id);
        id
    }
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} terms of the store and {} more", self.store.dictionary().len(), self.read().terms.len())
    }
}

impl Terms {
    #[cfg(test)]
    pub(crate) fn new(store: &Arc<Store>) -> Terms {
        Terms::with(store, Around::default())
    }

    pub(crate) fn with(store: &Arc<Store>, around: Around) -> Terms {
        Terms { store: Arc::clone(store), around, computed: RwLock::default() }
    }

    pub(crate) fn base(&self) -> Option<&Iri<String>> {
        self.around.base.as_ref()
    }

    /// The moment of the query, the same for all of its parts.
    pub(crate) fn now(&self) -> Id {
        let epoch = "1970-01-01T00:00:00Z".parse::<DateTime>().ok();
        let seconds = Decimal::from(self.around.now_ms).checked_div(1000);
        let moment = epoch
            .zip(seconds)
            .and_then(|(epoch, seconds)| epoch.checked_add_day_time_duration(DayTimeDuration::new(seconds)));
        let text = moment.unwrap_or(DateTime::MAX).to_string();
        self.id(&Literal::new_typed_literal(text, xsd::DATE_TIME).into())
    }

    /// Another number each time.
    pub(crate) fn next(&self) -> u64 {
        let mut computed = self.computed.write().expect("nothing panics under this lock");
        computed.asked += 1;
        computed.asked
    }

    /// Random bits: Steele et al., "Fast splittable pseudorandom number generators", OOPSLA 2014.
    pub(crate) fn chance(&self) -> u64 {
        let mut bits = self.around.seed.wrapping_add(self.next().wrapping_mul(0x9E37_79B9_7F4A_7C15));
        bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ bits >> 31
    }

    /// A blank node that nobody else has, or the one that was made for this label and row.
    pub(crate) fn blank(&self, label: Option<(String, i64)>) -> Id {
        let mut computed = self.computed.write().expect("nothing panics under this lock");
        if let Some(id) = label.as_ref().and_then(|label| computed.blanks.get(label)) {
            return *id;
        }
        let term = loop {
            computed.asked += 1;
            let term = Term::from(BlankNode::new_unchecked(format!("new{}", computed.asked)));
            if self.store.id(term.as_ref()).is_none() && !computed.ids.contains_key(&term) {
                break term;
            }
        };
        let id = computed.add(term, Kind::Blank);
        if let Some(label) = label {
            computed.blanks.insert(label, id);
        }
        id
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Computed> {
        self.computed.read().expect("nothing panics under this lock")
    }

    /// The id of any term; one that the store lacks is added. Takes a binary search and a lock.
    pub(crate) fn id(&self, term: &Term) -> Id {
        // The store writes language tags in lower case; they are the same tags.
        let lower = match term {
            Term::Literal(literal) => {
                literal.language().filter(|tag| tag.bytes().any(|byte| byte.is_ascii_uppercase()))
            }
            _ => None,
        };
        if let (Some(tag), Term::Literal(literal)) = (lower, term) {
            let literal = Literal::new_language_tagged_literal_unchecked(literal.value(), tag.to_ascii_lowercase());
            return self.id(&literal.into());
        }
        if let Some(id) = self.store.id(term.as_ref()) {
            return id;
        }
        if let Some(id) = self.read().ids.get(term) {
            return *id;
        }
        let kind = match Encoder::default().term(term.as_ref()) {
            Encoded::Inlined(id) => return id,
            Encoded::Key(kind, _) => kind,
        };
        let mut computed = self.computed.write().expect("nothing panics under this lock");
        // Another instance may have been quicker.
        if let Some(id) = computed.ids.get(term) {
            return *id;
        }
        computed.add(term.clone(), kind)
    }

    /// The id of a simple string.
    pub(crate) fn string(&self, text: &str) -> Id {
        match self.store.dictionary().search(Kind::String, text) {
            Ok(id) => id,
            Err(_) => self.id(&Literal::new_simple_literal(text).into()),
        }
    }

    /// The term with this id. Panics for unbound.
    pub(crate) fn term(&self, id: Id) -> Term {
        match id.rank() {
            Some(place) if id.is_computed() => self.read().terms[place].clone(),
            _ => self.store.term(id),
        }
    }

    /// Looks at a term without a copy, unless it was computed.
    pub(crate) fn view<R>(&self, id: Id, look: impl FnOnce(TermView<'_>) -> R) -> R {
        match id.rank() {
            Some(place) if id.is_computed() => {
                let term = self.read().terms[place].clone();
                let mut encoder = Encoder::default();
                match encoder.term(term.as_ref()) {
                    Encoded::Key(kind, key) => look(TermView::of_key(kind, key)),
                    Encoded::Inlined(id) => look(TermView::inlined(id).expect("an inlined id is a value")),
                }
            }
            _ => look(self.store.view(id)),
        }
    }
}
