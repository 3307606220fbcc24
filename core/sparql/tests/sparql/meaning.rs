//! The meaning of texts refused or misread by an earlier parser. Expected rows follow the named sections of the
//! specification.

use crate::rows::rows_of;
use std::sync::Arc;
use vicus_rdf::Snapshot;
use vicus_sparql::{Form, PlanOptions, parse, plan};

const DATA: &str = "
    <http://e/a> <http://e/p> 1 . <http://e/a> <http://e/p> 2 . <http://e/b> <http://e/p> 3 .
    <http://e/a> <http://e/q> <http://e/b> .";

/// The variables of a query over the data, and its rows, sorted.
fn ask(text: &str) -> (Vec<String>, Vec<String>) {
    let snapshot = Arc::new(Snapshot::of_turtle(DATA.as_bytes(), None).expect("good Turtle"));
    let parsed = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut all = Vec::new();
    for optimise in [true, false] {
        let plan = plan(&snapshot, &parsed, PlanOptions { optimise, ..PlanOptions::default() }).expect("supported");
        let cell = |term: &Option<oxrdf::Term>| match term {
            Some(oxrdf::Term::Literal(literal)) => literal.value().to_owned(),
            Some(term) => term.to_string().replace("<http://e/", "").replace('>', ""),
            None => "-".to_owned(),
        };
        let line = |row: &crate::rows::Row| row.iter().map(cell).collect::<Vec<_>>().join(" ");
        let mut rows: Vec<String> = rows_of(&plan, |_| 0).iter().map(line).collect();
        rows.sort();
        let Form::Select { variables } = plan.form() else { panic!("{text} is a SELECT") };
        all.push((variables.clone(), rows));
    }
    assert_eq!(all[0], all[1], "{text}");
    all.remove(0)
}

fn rows(text: &str) -> Vec<String> {
    ask(text).1
}

#[test]
fn all_variables_come_in_the_order_of_the_text() {
    let (variables, _) = ask("SELECT * { FILTER (BOUND(?z)) ?z <http://e/q> ?b . ?b <http://e/p> ?a }");
    assert_eq!(variables, ["z", "b", "a"]);
    let (variables, _) = ask("SELECT * { { SELECT ?y ?x { ?x ?y ?hidden } } OPTIONAL { ?x ?y ?c } BIND (1 AS ?d) }");
    assert_eq!(variables, ["y", "x", "c", "d"]);
}

/// §18.2.4.4: later parts of SELECT can use a computed value, also with groups.
#[test]
fn an_alias_of_an_aggregate_can_be_used_behind_it() {
    let text = "SELECT ?s (SUM(?x) AS ?c) (?c * 2 AS ?m) { ?s <http://e/p> ?x } GROUP BY ?s ORDER BY ?m";
    assert_eq!(rows(text), ["a 3 6", "b 3 6"]);
    assert_eq!(rows("SELECT (COUNT(*) AS ?n) (?n + 1 AS ?m) { ?s <http://e/p> ?x } HAVING (COUNT(*) = 3)"), ["3 4"]);
}

/// §18.2.4.1: outside of SELECT, a variable that is not a key has some value of its group.
#[test]
fn a_variable_that_is_no_key_is_a_sample_in_having_and_order_by() {
    let text = "SELECT ?s { ?s <http://e/p> ?x } GROUP BY ?s HAVING (?x > 2)";
    assert_eq!(rows(text), ["b"]);
    assert_eq!(rows("SELECT ?s { ?s <http://e/p> ?x } GROUP BY ?s HAVING (!BOUND(?x))"), Vec::<String>::new());
    assert_eq!(rows("SELECT ?s { ?s <http://e/p> ?x } GROUP BY ?s ORDER BY DESC(?x) LIMIT 1"), ["b"]);
}

/// §18.6, substitute: the pattern of EXISTS has the outer solution's values wherever their variables occur.
#[test]
fn a_select_of_everything_sees_the_values_outside_of_exists() {
    let text = "SELECT ?v { ?s <http://e/p> ?v FILTER EXISTS { SELECT * { FILTER (?v = 2) } } }";
    assert_eq!(rows(text), ["2"]);
    let text =
        "SELECT ?v { ?s <http://e/p> ?v FILTER EXISTS { SELECT * { ?a <http://e/p> ?w FILTER (?w = ?v + 1) } } }";
    assert_eq!(rows(text), ["1", "2"]);
    // A group outside of EXISTS does not see its neighbours' variables.
    assert_eq!(rows("SELECT ?v { ?s <http://e/p> ?v { SELECT * { FILTER (?v = 2) } } }"), Vec::<String>::new());
}

#[test]
fn queries_that_were_refused_have_rows() {
    let text = "SELECT ?s { ?s <http://e/q> ?o FILTER (!EXISTS { _:q <http://e/q> ?s }) }";
    assert_eq!(rows(text), ["a"]);
    // §9.1: no predicate is in the empty set, so its negation matches all.
    assert_eq!(rows("SELECT ?o { <http://e/a> !() ?o }"), ["1", "2", "b"]);
    assert_eq!(rows("SELECT (CONCAT ( ) AS ?c) (COALESCE ( ) AS ?n) { }"), [" -"]);
    // §17.3.3: calling an unknown function is an error.
    assert_eq!(rows("SELECT (COALESCE(<http://e/f>(1), 2) AS ?c) { }"), ["2"]);
    assert_eq!(rows("SELECT ?o { ?s <http://e/q> ?o FILTER (<http://e/f>(?o) || true) }"), ["b"]);
    // A sign is part of a number or an operator, and means the same either way.
    assert_eq!(rows("SELECT (3-1 AS ?a) (3 -1*2 AS ?b) (-3+ +1 AS ?c) (- -1 AS ?d) { }"), ["2 1 -2 1"]);
}

/// What happened: a chain of more than some 327 `||` was refused.
#[test]
fn a_long_chain_is_answered() {
    let equal = (0..2000).map(|number| format!("?x = {number}")).collect::<Vec<_>>().join(" || ");
    assert_eq!(rows(&format!("SELECT ?x {{ ?s <http://e/p> ?x FILTER ({equal}) }}")), ["1", "2", "3"]);
    let unlike = (10..2000).map(|number| format!("?x != {number}")).collect::<Vec<_>>().join(" && ");
    assert_eq!(rows(&format!("SELECT ?x {{ ?s <http://e/p> ?x FILTER ({unlike}) }}")), ["1", "2", "3"]);
    let sum = " + 1".repeat(900);
    assert_eq!(rows(&format!("SELECT (0{sum} AS ?n) {{ }}")), ["900"]);
}

/// What happened: ASK's OFFSET and LIMIT were ignored.
#[test]
fn an_ask_obeys_offset_and_limit() {
    let snapshot = Arc::new(Snapshot::of_turtle(DATA.as_bytes(), None).expect("good Turtle"));
    for (text, answer) in [("OFFSET 3", true), ("OFFSET 4", false), ("LIMIT 0", false), ("LIMIT 1", true)] {
        let parsed = parse(&format!("ASK {{ ?s ?p ?o }} {text}")).expect("good SPARQL");
        for optimise in [true, false] {
            let plan = plan(&snapshot, &parsed, PlanOptions { optimise, ..PlanOptions::default() }).expect("supported");
            assert_eq!(!rows_of(&plan, |_| 0).is_empty(), answer, "{text}");
        }
    }
}
