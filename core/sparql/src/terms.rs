//! The terms that a plan can name: those of the store, and those that its query mentions or computes.

use oxrdf::{Literal, Term, TermRef};
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
    computed: RwLock<Computed>,
}

#[derive(Default)]
struct Computed {
    /// By the place that an id has.
    terms: Vec<Term>,
    ids: FxHashMap<Term, Id>,
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} terms of the store and {} more", self.store.dictionary().len(), self.read().terms.len())
    }
}

impl Terms {
    pub(crate) fn new(store: &Arc<Store>) -> Terms {
        Terms { store: Arc::clone(store), computed: RwLock::default() }
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
        let id = Id::computed(kind, computed.terms.len());
        computed.terms.push(term.clone());
        computed.ids.insert(term.clone(), id);
        id
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
                look(view_of(term.as_ref()))
            }
            _ => look(self.store.view(id)),
        }
    }
}

/// A term that is in no dictionary, as one that is. Panics for blank nodes, which no query computes.
fn view_of(term: TermRef<'_>) -> TermView<'_> {
    match term {
        TermRef::NamedNode(node) => TermView::Iri(node.as_str()),
        TermRef::BlankNode(node) => panic!("{node} is no constant"),
        TermRef::Literal(literal) => match literal.language() {
            Some(language) => TermView::LangString { value: literal.value(), language },
            None if literal.datatype() == oxrdf::vocab::xsd::STRING => TermView::String(literal.value()),
            None => TermView::Typed { value: literal.value(), datatype: literal.datatype().as_str() },
        },
    }
}
