//! Ids compared with oxrdf's terms: a term comes out unchanged, and ids sort as SPARQL §15.1 says.

use crate::{check, random};
use oxrdf::vocab::xsd;
use oxrdf::{Literal, NamedNode, Term, Triple};
use proptest::prelude::*;
use std::cmp::Ordering;
use vicus_rdf::{Encoded, Encoder, Snapshot, TermKind, TermView};

#[test]
fn a_term_comes_back_as_it_was() {
    let terms = prop_oneof![8 => random::term(), 1 => random::borrowed_label().prop_map(Term::from)];
    check(3000, terms, |term| {
        let back = match Encoder::default().term(term.as_ref()) {
            Encoded::Inlined(id) => TermView::inlined(id).unwrap(),
            Encoded::Key(kind, key) => {
                // The borrow ends with the statement.
                let view = TermView::of_key(kind, key);
                prop_assert_eq!(view.to_string(), term.to_string());
                prop_assert_eq!(view.to_term(), term);
                return Ok(());
            }
        };
        prop_assert_eq!(back.to_string(), term.to_string());
        prop_assert_eq!(back.to_term(), term);
        Ok(())
    });
}

/// Terms as objects of one store.
fn store_of(terms: &[Term]) -> Snapshot {
    let node = NamedNode::new_unchecked("http://e/s");
    let triples: Vec<Triple> = terms.iter().map(|term| Triple::new(node.clone(), node.clone(), term.clone())).collect();
    Snapshot::of_ntriples(&random::document(&triples)).expect("oxttl wrote it")
}

/// The value of an inlined integer: its text is canonical and it fits.
fn canonical(literal: &Literal) -> Option<i64> {
    let value: i64 = literal.value().parse().ok().filter(|_| literal.datatype() == xsd::INTEGER)?;
    let inlined = value.to_string() == literal.value() && (-(1 << 55)..1 << 55).contains(&value);
    inlined.then_some(value)
}

/// The order of two terms of a store by the specification; `None` if SPARQL and we leave it open.
fn order(a: &Term, b: &Term) -> Option<Ordering> {
    let class = |term: &Term| match term {
        Term::BlankNode(_) => 0,
        Term::NamedNode(_) => 1,
        Term::Literal(_) => 2,
        Term::Triple(_) => 3,
    };
    match (a, b) {
        (Term::NamedNode(a), Term::NamedNode(b)) => Some(a.as_str().chars().cmp(b.as_str().chars())),
        (Term::Literal(a), Term::Literal(b)) => {
            if let (Some(a), Some(b)) = (canonical(a), canonical(b)) {
                return Some(a.cmp(&b));
            }
            // Language strings: by language first. Other terms that aren't inlined: by datatype first.
            let text = |a: &Literal, b: &Literal| a.value().chars().cmp(b.value().chars());
            if a.language().is_some() && b.language().is_some() {
                return Some(a.language().cmp(&b.language()).then(text(a, b)));
            }
            let is_kept = |literal: &Literal| canonical(literal).is_none() && literal.datatype() != xsd::BOOLEAN;
            (a.datatype() == b.datatype() && is_kept(a) && is_kept(b)).then(|| text(a, b))
        }
        _ => Some(class(a).cmp(&class(b))).filter(|order| order.is_ne()),
    }
}

#[test]
fn ids_sort_as_terms_do() {
    check(300, proptest::collection::vec(random::term(), 2..40), |terms| {
        let snapshot = store_of(&terms);
        snapshot.assert_valid();
        for a in &terms {
            let id = snapshot.id(a.as_ref()).expect("it is in the store");
            prop_assert_eq!(&snapshot.term(id), a);
            for b in &terms {
                let other = snapshot.id(b.as_ref()).expect("it is in the store");
                prop_assert_eq!(id == other, a == b);
                if let Some(order) = order(a, b) {
                    prop_assert_eq!(id.cmp(&other), order, "{} and {}", a, b);
                }
            }
        }
        Ok(())
    });
}

#[test]
fn a_constant_that_is_not_there_has_a_place() {
    let strings = ["", "a", "ab", "b", "é"].map(|text| Term::from(Literal::new_simple_literal(text)));
    let snapshot = store_of(&strings);
    let dictionary = snapshot.dictionary();
    assert_eq!(dictionary.count(TermKind::String), 5);
    for text in ["", "a", "aa", "ab", "abc", "c", "z", "ぁ"] {
        let below = strings.iter().filter(|term| matches!(term, Term::Literal(l) if l.value() < text)).count();
        let (Ok(id) | Err(id)) = dictionary.search(TermKind::String, text);
        assert_eq!(id.rank(), Some(below), "{text:?}");
    }
    let range = dictionary.range(TermKind::String, "a".."b");
    assert_eq!((range.start.rank(), range.end.rank()), (Some(1), Some(3)));
}

#[test]
fn one_language_is_a_range() {
    let tags = ["de", "en", "en-gb", "en-us", "fr"];
    let terms: Vec<Term> = tags
        .iter()
        .flat_map(|tag| ["a", "z"].map(|text| Literal::new_language_tagged_literal(text, *tag).unwrap().into()))
        .collect();
    let snapshot = store_of(&terms);
    let keys = Encoder::qualified("en");
    let ids = snapshot.dictionary().range(TermKind::LangString, &keys.start..&keys.end);
    assert_eq!((ids.start.rank(), ids.end.rank()), (Some(2), Some(4)));
}
