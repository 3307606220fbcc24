//! Whether a value is in a long list of constants: a look-up by hash, with the answers of `=` for each of them (SPARQL
//! 1.1, §17.4.1.9).
//!
//! A member is found by its id, by its value if several terms have it, or by its text if the needle was computed. If
//! none is equal, the answer is an error if `=` of the needle and one of the members is: the kinds of the members tell.

use crate::expression::Expr;
use crate::terms::Terms;
use crate::value::{self, Value};
use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use vicus_flow::library::HashKey;
use vicus_rdf::{Id, Kind, TermView};

/// Shorter lists are searched from their beginning.
pub(super) const FEWEST: usize = 12;

type Found = SmallVec<[Id; 1]>;

/// The constants of one list.
#[derive(Debug)]
pub(super) struct Members {
    /// The list. While this is alive, no other list has its address.
    _of: Arc<Vec<Expr>>,
    /// The places of non-constant operands.
    pub(super) rest: Vec<usize>,
    /// All members that equal themselves: all but NaN, and triple terms, as their parts may be NaN.
    ids: HashSet<u64, HashKey>,
    /// Numbers, booleans, moments and durations, by [`value::key_of_value`].
    values: HashMap<u64, Found, HashKey>,
    /// All others but triple terms, by kind and key.
    texts: HashMap<u64, Found, HashKey>,
    triples: Vec<Id>,
    moments: Vec<Value>,
    /// Whether there is a literal without a language.
    has_plain: bool,
    /// Whether there is a literal of an unknown datatype, or one whose text is not valid.
    has_unknown: bool,
}

impl Members {
    /// Looks up the constants among these operands; the rest is for the caller.
    pub(super) fn of(terms: &Terms, list: &Arc<Vec<Expr>>) -> Members {
        let mut members = Members {
            _of: Arc::clone(list),
            rest: Vec::new(),
            ids: HashSet::with_hasher(terms.key),
            values: HashMap::with_hasher(terms.key),
            texts: HashMap::with_hasher(terms.key),
            triples: Vec::new(),
            moments: Vec::new(),
            has_plain: false,
            has_unknown: false,
        };
        for (place, member) in list.iter().enumerate() {
            match member {
                Expr::Constant(id) => members.add(terms, *id),
                _ => members.rest.push(place),
            }
        }
        members
    }

    fn add(&mut self, terms: &Terms, id: Id) {
        if id.is_triple() {
            self.triples.push(id);
            return;
        }
        let value = terms.view(id, Value::of_view);
        let is_nan = matches!(&value, Value::Number(number) if number.is_nan());
        if !is_nan {
            self.ids.insert(id.bits());
        }
        match &value {
            Value::Iri | Value::Blank | Value::Triple | Value::Lang(_) => {}
            Value::Other | Value::IllTyped => (self.has_plain, self.has_unknown) = (true, true),
            _ => self.has_plain = true,
        }
        match value::key_of_value(terms, &value) {
            Some(key) => self.values.entry(key).or_default().push(id),
            None => self.texts.entry(text_key(terms, id.kind(), &terms.key(id))).or_default().push(id),
        }
        if zone_of(&value).is_some() {
            self.moments.push(value);
        }
    }

    /// Bytes held, the list not counted.
    pub(super) fn bytes(&self) -> u64 {
        let maps = (self.values.capacity() + self.texts.capacity()) * (size_of::<(u64, Found)>() + 1);
        let moments = self.moments.capacity() * size_of::<Value>();
        (maps + moments + self.ids.capacity() * (size_of::<u64>() + 1) + self.triples.capacity() * size_of::<Id>())
            as u64
    }

    /// Whether this text is in the list; `None` is an error.
    pub(super) fn has_string(&self, terms: &Terms, text: &str) -> Option<bool> {
        let found = self.texts.get(&text_key(terms, Kind::String, text));
        let is_it = |id: &Id| terms.view(*id, |view| matches!(view, TermView::String(other) if other == text));
        if found.is_some_and(|ids| ids.iter().any(is_it)) { Some(true) } else { self.none() }
    }

    /// Whether a term is in the list, given its value; `None` is an error.
    pub(super) fn has_term(&self, terms: &Terms, id: Id, value: impl FnOnce() -> Value) -> Option<bool> {
        if self.ids.contains(&id.bits()) {
            return Some(true);
        }
        if id.is_triple() {
            return self.has_triple(terms, id);
        }
        // A term that passes has an id of its own.
        if crate::passing::passes(id) && id.kind() != Kind::Typed && self.has_key(terms, id) {
            return Some(true);
        }
        match id.kind() {
            Kind::Typed | Kind::Integer | Kind::Boolean => match value() {
                Value::Other | Value::IllTyped => {
                    let is_there = crate::passing::passes(id) && self.has_key(terms, id);
                    if is_there { Some(true) } else { (!self.has_plain).then_some(false) }
                }
                value => self.has_value(terms, &value),
            },
            Kind::String => self.none(),
            _ => Some(false),
        }
    }

    /// Whether a number, a boolean, a moment or a duration is in the list; `None` is an error.
    pub(super) fn has_value(&self, terms: &Terms, value: &Value) -> Option<bool> {
        let key = value::key_of_value(terms, value).expect("the value has a key");
        let equals = |id: &Id| terms.view(*id, Value::of_view).equals(value) == Some(true);
        if self.values.get(&key).is_some_and(|found| found.iter().any(equals)) {
            return Some(true);
        }
        if let Some(zone) = zone_of(value) {
            // Moments of which one has no zone may be the same or not.
            let mut others = self.moments.iter().filter(|other| zone_of(other).is_some_and(|it| it != zone));
            if others.any(|other| other.equals(value).is_none()) {
                return None;
            }
        }
        self.none()
    }

    /// The answer for a literal without a language, of a known datatype, that no member equals.
    fn none(&self) -> Option<bool> {
        (!self.has_unknown).then_some(false)
    }

    fn has_triple(&self, terms: &Terms, id: Id) -> Option<bool> {
        let mut all = Some(false);
        for other in &self.triples {
            match value::equal(terms, id, *other) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => all = None,
            }
        }
        all
    }

    fn has_key(&self, terms: &Terms, id: Id) -> bool {
        let found = self.texts.get(&text_key(terms, id.kind(), &terms.key(id)));
        found.is_some_and(|ids| ids.iter().any(|other| terms.is_same(id, *other)))
    }
}

fn text_key(terms: &Terms, kind: Kind, key: &str) -> u64 {
    terms.key.hash_one((kind as u8, key))
}

/// Whether a moment has a zone; `None` for other values.
fn zone_of(value: &Value) -> Option<bool> {
    match value {
        Value::DateTime(value) => Some(value.zone().is_some()),
        Value::Date(value) => Some(value.zone.is_some()),
        Value::Time(value) => Some(value.zone.is_some()),
        _ => None,
    }
}
