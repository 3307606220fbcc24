//! An evaluator's memory from row to row: values of terms, ids of computed texts, and compiled patterns.

use super::exists::Memory;
use super::members::{self, Members};
use super::regexes::Regexes;
use crate::expression::Expr;
use crate::terms::Terms;
use crate::value::{Number, Value};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::cell::RefCell;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use vicus_rdf::{Id, TermKind};

/// A box keeps this between its invocations.
#[derive(Default, Debug)]
pub(crate) struct Scratch {
    pub(super) regexes: Regexes,
    /// The answers of EXISTS.
    pub(super) exists: Memory,
    /// Values of typed literals, each at the place given by its id's hash. One row often asks for several fields of one
    /// moment, and many rows have the same few moments.
    values: RefCell<Vec<(Id, Value)>>,
    /// Values of typed constants that the store doesn't have.
    constants: RefCell<Vec<(Id, Value)>>,
    /// Ids of short computed texts, each at the place given by its hash: a dictionary lookup takes longer.
    made: RefCell<Vec<(TextType, String, Id)>>,
    /// The long lists of IN, by their addresses. They belong to the expressions, so a query has a fixed number of them.
    lists: FxHashMap<usize, Arc<Members>>,
    /// How many lists were hashed.
    #[cfg(test)]
    hashed: usize,
}

/// The type of a computed text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum TextType {
    String,
    Integer,
    Decimal,
    Float,
    Double,
    DateTime,
    Date,
    Time,
}

/// The number of places for values, and for computed texts: a power of two.
const PLACES: usize = 256;

/// Further constants are parsed each time.
const MOST_CONSTANTS: usize = 16;

/// Longer texts are not remembered.
const LONGEST: usize = 40;

fn place(hash: u64) -> usize {
    (hash >> (u64::BITS - PLACES.ilog2())) as usize
}

impl Scratch {
    /// Bytes held.
    pub(crate) fn bytes(&self) -> u64 {
        let values = self.values.borrow().capacity() + self.constants.borrow().capacity();
        let made = self.made.borrow().capacity() * (size_of::<(TextType, String, Id)>() + LONGEST);
        let lists: u64 = self.lists.values().map(|list| list.bytes()).sum();
        lists + self.regexes.bytes() + self.exists.bytes() + (values * size_of::<(Id, Value)>() + made) as u64
    }

    /// Forgets the ids of computed terms: they are valid within one invocation only.
    pub(crate) fn forget_made(&mut self, terms: &Terms) {
        self.made.get_mut().clear();
        for known in self.values.get_mut().iter_mut().filter(|(id, _)| !terms.snapshot.has(*id)) {
            *known = (Id::UNBOUND, Value::Other);
        }
    }

    /// The members of a list of IN, to be looked up; `None` if it is short.
    pub(super) fn members(&mut self, terms: &Terms, list: &Arc<Vec<Expr>>) -> Option<Arc<Members>> {
        if list.len() < members::FEWEST {
            return None;
        }
        let known = self.lists.entry(Arc::as_ptr(list).addr()).or_insert_with(|| {
            #[cfg(test)]
            {
                self.hashed += 1;
            }
            Arc::new(Members::of(terms, list))
        });
        Some(Arc::clone(known))
    }

    /// Remembers the value of a constant.
    pub(super) fn add_constant(&self, terms: &Terms, id: Id) {
        if id.kind() != TermKind::Typed || terms.snapshot.has(id) {
            return;
        }
        let mut constants = self.constants.borrow_mut();
        if constants.len() < MOST_CONSTANTS && constants.iter().all(|(known, _)| *known != id) {
            constants.push((id, terms.view(id, Value::of_view)));
        }
    }

    /// The value of a term.
    pub(crate) fn value(&self, terms: &Terms, id: Id) -> Value {
        self.with_value(terms, id, Value::clone)
    }

    /// The number that a term is, if it is one.
    #[inline]
    pub(crate) fn number(&self, terms: &Terms, id: Id) -> Option<Number> {
        let of_value = |value: &Value| match value {
            Value::Number(number) => Some(number.clone()),
            _ => None,
        };
        match id.as_integer() {
            Some(value) => Some(Number::Integer(value)),
            None if id.kind() == TermKind::Typed => self.with_value(terms, id, of_value),
            None => None,
        }
    }

    /// Passes the value of a term to `look` without a copy.
    pub(super) fn with_value<R>(&self, terms: &Terms, id: Id, look: impl FnOnce(&Value) -> R) -> R {
        if id.kind() != TermKind::Typed {
            return look(&terms.view(id, Value::of_view));
        }
        if id.is_unranked()
            && let Some((_, value)) = self.constants.borrow().iter().find(|(known, _)| *known == id)
        {
            return look(value);
        }
        let mut values = self.values.borrow_mut();
        if values.is_empty() {
            values.resize(PLACES, (Id::UNBOUND, Value::Other));
        }
        let known = &mut values[place(FxBuildHasher.hash_one(id))];
        if known.0 != id {
            *known = (id, terms.view(id, Value::of_view));
        }
        look(&known.1)
    }

    /// The id of a computed text. If it is not remembered, `find` looks it up or makes it.
    pub(super) fn id(&self, of: TextType, text: &str, find: impl FnOnce() -> Id) -> Id {
        if text.len() > LONGEST {
            return find();
        }
        let mut made = self.made.borrow_mut();
        if made.is_empty() {
            made.resize(PLACES, (TextType::String, String::new(), Id::UNBOUND));
        }
        let known = &mut made[place(FxBuildHasher.hash_one((of, text)))];
        // The id is unbound if the place is empty, or if the text was refused.
        if known.2.is_unbound() || known.0 != of || known.1 != text {
            known.0 = of;
            known.1.clear();
            known.1.push_str(text);
            known.2 = find();
        }
        known.2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_rdf::Snapshot;

    /// What happened: with seventeen long lists, each row had the hashes of all of them built again.
    #[test]
    fn each_long_list_is_hashed_once() {
        let snapshot = Arc::new(Snapshot::of_ntriples(b"").expect("no triples"));
        let terms = Terms::new(&snapshot);
        let mut scratch = Scratch::default();
        let list = |first: i64| {
            let integer = |value| Expr::Constant(Id::integer(value).expect("a small integer"));
            Arc::new((first..first + 20).map(integer).collect::<Vec<_>>())
        };
        let lists: Vec<_> = (0..100).map(|number| list(number * 100)).collect();
        for row in 0..50 {
            for (number, list) in (0..).zip(&lists) {
                let members = scratch.members(&terms, list).expect("it is long");
                let has = |value: i64| members.has_value(&terms, &Value::Number(Number::Integer(value)));
                assert_eq!((has(number * 100 + row), has(number * 100 + 50)), (Some(row < 20), Some(false)));
            }
        }
        assert_eq!(scratch.hashed, lists.len());
    }
}
