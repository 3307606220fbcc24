//! Whether a value is in a long list of constants: a look-up by hash, with the answers of `=` for each of them (SPARQL
//! 1.1, §17.4.1.9).
//!
//! A member is found by its id, by its value if several terms have it, or by its text if the needle was computed. If
//! none is equal, the answer is an error if `=` of the needle and one of the members is: the kinds of the members tell.

use crate::expression::Expr;
use crate::terms::Terms;
use crate::value::{self, Instant, Value};
use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use vicus_flow::library::HashKey;
use vicus_language::stack::deep;
use vicus_rdf::{Id, TermKind, TermView};

/// Shorter lists are searched from their beginning.
pub(super) const FEWEST: usize = 12;

type Ids = SmallVec<[Id; 1]>;

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
    values: HashMap<u64, Ids, HashKey>,
    /// All others but triple terms, by kind and key.
    texts: HashMap<u64, Ids, HashKey>,
    /// Triple terms, by [`value::value_key`].
    triples: HashMap<u64, Ids, HashKey>,
    /// Those of them for which `=` may be an error: see [`is_odd`].
    odd: Vec<Id>,
    /// Moments by their datatype and by whether they have a zone, ascending.
    moments: [Vec<Instant>; 6],
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
            triples: HashMap::with_hasher(terms.key),
            odd: Vec::new(),
            moments: Default::default(),
            has_plain: false,
            has_unknown: false,
        };
        for (place, member) in list.iter().enumerate() {
            match member {
                Expr::Constant(id) => members.add(terms, *id),
                _ => members.rest.push(place),
            }
        }
        members.moments.iter_mut().for_each(|moments| moments.sort_unstable());
        members
    }

    fn add(&mut self, terms: &Terms, id: Id) {
        if id.is_triple() {
            self.triples.entry(value::value_key(terms, id)).or_default().push(id);
            if is_odd(terms, id) {
                self.odd.push(id);
            }
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
        if let Some((of, moment)) = value.moment() {
            self.moments[of].push(moment);
        }
    }

    /// Bytes held, the list not counted.
    pub(super) fn bytes(&self) -> u64 {
        let entries = self.values.capacity() + self.texts.capacity() + self.triples.capacity();
        let moments: usize = self.moments.iter().map(Vec::capacity).sum();
        let bytes = entries * (size_of::<(u64, Ids)>() + 1)
            + moments * size_of::<Instant>()
            + self.ids.capacity() * (size_of::<u64>() + 1)
            + self.odd.capacity() * size_of::<Id>();
        bytes as u64
    }

    /// Whether this text is in the list; `None` is an error.
    pub(super) fn has_string(&self, terms: &Terms, text: &str) -> Option<bool> {
        let found = self.texts.get(&text_key(terms, TermKind::String, text));
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
        if crate::passing_terms::passes(id) && id.kind() != TermKind::Typed && self.has_key(terms, id) {
            return Some(true);
        }
        match id.kind() {
            TermKind::Typed | TermKind::Integer | TermKind::Boolean => match value() {
                Value::Other | Value::IllTyped => {
                    let is_there = crate::passing_terms::passes(id) && self.has_key(terms, id);
                    if is_there { Some(true) } else { (!self.has_plain).then_some(false) }
                }
                value => self.has_value(terms, &value),
            },
            TermKind::String => self.none(),
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
        // Moments of which one has no zone may be the same or not.
        let may_be = |(of, moment): (usize, Instant)| moment.may_be_any_of(&self.moments[of ^ 1]);
        if value.moment().is_some_and(may_be) { None } else { self.none() }
    }

    /// The answer for a literal without a language, of a known datatype, that no member equals.
    fn none(&self) -> Option<bool> {
        (!self.has_unknown).then_some(false)
    }

    fn has_triple(&self, terms: &Terms, id: Id) -> Option<bool> {
        let is = |other: &Id| value::equal(terms, id, *other);
        let found = self.triples.get(&value::value_key(terms, id));
        if found.is_some_and(|found| found.iter().any(|other| is(other) == Some(true))) {
            return Some(true);
        }
        // Only where one of the two is odd may `=` be an error.
        let fails = match is_odd(terms, id) {
            true => self.triples.values().flatten().any(|other| is(other).is_none()),
            false => self.odd.iter().any(|other| is(other).is_none()),
        };
        if fails { None } else { Some(false) }
    }

    fn has_key(&self, terms: &Terms, id: Id) -> bool {
        let found = self.texts.get(&text_key(terms, id.kind(), &terms.key(id)));
        found.is_some_and(|ids| ids.iter().any(|other| terms.is_same(id, *other)))
    }
}

fn text_key(terms: &Terms, kind: TermKind, key: &str) -> u64 {
    terms.key.hash_one((kind as u8, key))
}

/// Whether a triple term has a part whose comparison with another one may be an error: a moment, or a literal of an
/// unknown datatype or without a valid text.
fn is_odd(terms: &Terms, id: Id) -> bool {
    match id.kind() {
        TermKind::Triple => terms.parts(id).into_iter().any(|part| deep(|| is_odd(terms, part))),
        TermKind::Typed => {
            let value = terms.view(id, Value::of_view);
            matches!(value, Value::Other | Value::IllTyped) || value.moment().is_some()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vicus_rdf::Order;
    use vicus_rdf::load::Loader;

    /// What happened: each needle was compared with all triple terms of a list, and each moment with all moments of
    /// which one had no zone. The answers are those of `=` with each member by itself.
    #[test]
    fn triple_terms_and_moments_are_found_as_by_one_comparison_after_the_other() {
        let mut text = String::new();
        let typed = |value: &str, datatype: &str| format!("\"{value}\"^^<http://www.w3.org/2001/XMLSchema#{datatype}>");
        let mut objects = vec!["<http://e/a>".to_owned(), "\"a\"".to_owned(), "\"x\"^^<http://e/t>".to_owned()];
        objects.extend(["1", "01", "x"].map(|value| typed(value, "integer")));
        objects.push(typed("NaN", "double"));
        for zone in ["", "Z", "+14:00", "-14:00"] {
            for hour in [0, 10, 11, 23] {
                objects.push(typed(&format!("2024-02-03T{hour:02}:00:00{zone}"), "dateTime"));
                objects.push(typed(&format!("{hour:02}:00:00{zone}"), "time"));
            }
            objects.push(typed(&format!("2024-02-03{zone}"), "date"));
            objects.push(typed(&format!("2024-02-05{zone}"), "date"));
        }
        for object in &objects {
            text += &format!("<http://e/s> <http://e/p> {object} .\n");
            text += &format!("<http://e/s> <http://e/q> <<( <http://e/s> <http://e/p> {object} )>> .\n");
        }
        let mut loader = Loader::default().with_rdf_12(true);
        loader.ntriples(text.as_bytes()).expect("they are well-formed");
        let snapshot = Arc::new(loader.finish());
        let terms = Terms::new(&snapshot);
        let index = snapshot.index(Order::Gspo);
        let ids: Vec<Id> = (0..snapshot.len()).map(|row| index.get(3, row)).collect();
        let mut seed = 1u64;
        println!("seed {seed}");
        for _ in 0..500 {
            // Each list has another part of them.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let chosen: Vec<Id> =
                ids.iter().enumerate().filter(|(at, _)| seed >> (at % 61) & 3 == 0).map(|(_, id)| *id).collect();
            let list = Arc::new(chosen.iter().map(|id| Expr::Constant(*id)).collect::<Vec<_>>());
            let members = Members::of(&terms, &list);
            for &needle in &ids {
                let found = members.has_term(&terms, needle, || terms.view(needle, Value::of_view));
                let mut expected = Some(false);
                for &member in &chosen {
                    match value::equal(&terms, needle, member) {
                        Some(true) => expected = Some(true),
                        None if expected == Some(false) => expected = None,
                        _ => {}
                    }
                }
                assert_eq!(found, expected, "{} in {:?}", snapshot.term(needle), chosen);
            }
        }
    }
}
