//! Random queries with triple terms over random data with triple terms, against the naive evaluator.

use crate::random::check_query;
use crate::rows::Chance;
use std::fmt::Write as _;

const TERMS: [&str; 5] = ["<http://e/a>", "<http://e/b>", "<http://e/c>", "_:x", "_:y"];
const PREDICATES: [&str; 3] = ["<http://e/p>", "<http://e/q>", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>"];
const LITERALS: [&str; 4] = ["\"t\"", "\"t\"@en--ltr", "\"1\"^^<http://www.w3.org/2001/XMLSchema#integer>", "\"t\"@en"];

fn object(chance: &mut Chance, levels: usize) -> String {
    match chance.below(if levels > 0 { 8 } else { 4 }) {
        0..=2 => chance.pick(&TERMS).to_owned(),
        3 => chance.pick(&LITERALS).to_owned(),
        _ => {
            let (subject, predicate) = (chance.pick(&TERMS), chance.pick(&PREDICATES));
            format!("<<( {subject} {predicate} {} )>>", object(chance, levels - 1))
        }
    }
}

fn data(chance: &mut Chance) -> String {
    let mut lines = String::new();
    for _ in 0..10 + chance.below(40) {
        let (subject, predicate) = (chance.pick(&TERMS), chance.pick(&PREDICATES));
        writeln!(lines, "{subject} {predicate} {} .", object(chance, 2)).unwrap();
    }
    lines
}

const VARIABLES: [&str; 5] = ["?a", "?b", "?c", "?d", "?e"];

fn subject_pattern(chance: &mut Chance) -> &'static str {
    if chance.one_in(4) { chance.pick(&TERMS[..3]) } else { chance.pick(&VARIABLES) }
}

fn predicate_pattern(chance: &mut Chance) -> &'static str {
    if chance.one_in(2) { chance.pick(&PREDICATES) } else { chance.pick(&VARIABLES) }
}

fn object_pattern(chance: &mut Chance, levels: usize) -> String {
    match chance.below(if levels > 0 { 6 } else { 4 }) {
        0..=1 => chance.pick(&VARIABLES).to_owned(),
        2 => chance.pick(&TERMS[..3]).to_owned(),
        3 => chance.pick(&LITERALS).to_owned(),
        _ => {
            let (subject, predicate) = (subject_pattern(chance), predicate_pattern(chance));
            format!("<<( {subject} {predicate} {} )>>", object_pattern(chance, levels - 1))
        }
    }
}

fn triples(chance: &mut Chance) -> String {
    let mut text = String::new();
    for _ in 0..1 + chance.below(3) {
        let (subject, predicate) = (subject_pattern(chance), predicate_pattern(chance));
        write!(text, "{subject} {predicate} {} . ", object_pattern(chance, 2)).unwrap();
    }
    text
}

fn query(chance: &mut Chance) -> String {
    let mut group = triples(chance);
    for _ in 0..chance.below(3) {
        let (a, b) = (chance.pick(&VARIABLES), chance.pick(&VARIABLES));
        let inner = triples(chance);
        match chance.below(8) {
            0 => write!(group, "OPTIONAL {{ {inner} }} "),
            1 => write!(group, "MINUS {{ {inner} }} "),
            2 => write!(group, "FILTER (isTRIPLE({a}) || SUBJECT({a}) = {b}) "),
            3 => write!(group, "FILTER NOT EXISTS {{ {inner} }} "),
            4 => write!(group, "FILTER (sameTerm({a}, <<( {b} <http://e/p> {a} )>>) || !isTRIPLE({b})) "),
            5 => write!(group, "{{ {inner} }} UNION {{ {} }} ", triples(chance)),
            6 => write!(group, "BIND (TRIPLE({a}, <http://e/p>, {b}) AS ?made) "),
            _ => write!(group, "FILTER (OBJECT({a}) != {b}) "),
        }
        .unwrap();
    }
    let distinct = if chance.one_in(3) { "DISTINCT " } else { "" };
    let order = if chance.one_in(4) { " ORDER BY ?a" } else { "" };
    format!("SELECT {distinct}* {{ {group}}}{order}")
}

#[test]
fn patterns_of_triple_terms_find_what_the_naive_evaluator_finds() {
    let seeds = 400;
    let mut checked = 0;
    for seed in 0..seeds {
        let mut chance = Chance::new(seed ^ 0x12_0012);
        let (data, query) = (data(&mut chance), query(&mut chance));
        checked += usize::from(check_query(seed, &data, &query).is_some());
    }
    println!("seeds 0..{seeds}: {checked} queries were checked");
    assert!(checked as u64 > seeds / 2, "only {checked} queries were good");
}
