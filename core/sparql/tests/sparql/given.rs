//! Values of variables that come beside a text: the answer is that of the text with the values written into it.

use crate::rows::rows_of;
use oxrdf::{Literal, NamedNode, Term};
use std::sync::Arc;
use vicus_rdf::Snapshot;
use vicus_sparql::{ParseOptions, PlanOptions, QueryErrorKind, parse, parse_update_with, parse_with, plan};

const DATA: &str = "
    <http://e/a> <http://e/p> 1 . <http://e/a> <http://e/p> 2 . <http://e/b> <http://e/p> 3 .
    <http://e/a> <http://e/q> <http://e/b> . <http://e/b> <http://e/name> \"x' } # \\\"\" .";

fn rows(text: &str, given: &[(String, Term)]) -> Vec<String> {
    let snapshot = Arc::new(Snapshot::of_turtle(DATA.as_bytes(), None).expect("good Turtle"));
    let parsed = match given {
        [] => parse(text),
        _ => parse_with(text, &ParseOptions { given, ..ParseOptions::default() }),
    };
    let parsed = parsed.unwrap_or_else(|error| panic!("{text}: {error}"));
    let plan = plan(&snapshot, &parsed, PlanOptions::default()).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut rows: Vec<String> = rows_of(&plan, |_| 0).iter().map(|row| format!("{row:?}")).collect();
    rows.sort();
    rows
}

#[test]
fn a_given_value_is_as_good_as_a_written_one() {
    for (text, name, value, written) in [
        ("SELECT ?o { ?v <http://e/p> ?o }", "v", "<http://e/a>", "SELECT ?o { <http://e/a> <http://e/p> ?o }"),
        ("SELECT ?s { ?s ?v 3 }", "v", "<http://e/p>", "SELECT ?s { ?s <http://e/p> 3 }"),
        ("SELECT ?s { ?s $v/<http://e/p> 3 }", "v", "<http://e/q>", "SELECT ?s { ?s <http://e/q>/<http://e/p> 3 }"),
        ("SELECT ?s { ?s ?p ?v }", "v", "2", "SELECT ?s { ?s ?p 2 }"),
        ("SELECT ?s { ?s ?p ?v ; <http://e/p> ?w }", "v", "1", "SELECT ?s { ?s ?p 1 ; <http://e/p> ?w }"),
        ("SELECT ?s ?v { ?s ?p ?v }", "v", "2", "SELECT ?s (2 AS ?v) { ?s ?p 2 }"),
        ("SELECT ?s { ?s ?p ?o FILTER (?o > ?v) }", "v", "1", "SELECT ?s { ?s ?p ?o FILTER (?o > 1) }"),
        ("SELECT ?s { ?s ?p ?o FILTER BOUND(?v) }", "v", "1", "SELECT ?s { ?s ?p ?o FILTER (true) }"),
        ("SELECT ?y { BIND (?v AS ?y) }", "v", "1", "SELECT ?y { BIND (1 AS ?y) }"),
        (
            "SELECT ?v (SUM(?o) AS ?n) { ?v <http://e/p> ?o } GROUP BY ?v",
            "v",
            "<http://e/a>",
            "SELECT (<http://e/a> AS ?v) (SUM(?o) AS ?n) { <http://e/a> <http://e/p> ?o } GROUP BY (<http://e/a>)",
        ),
        ("SELECT ?s { ?s ?p ?o } ORDER BY ?v LIMIT 2", "v", "1", "SELECT ?s { ?s ?p ?o } ORDER BY (1) LIMIT 2"),
        (
            "SELECT ?o { { SELECT ?o { ?v <http://e/p> ?o } } }",
            "v",
            "<http://e/b>",
            "SELECT ?o { { SELECT ?o { <http://e/b> <http://e/p> ?o } } }",
        ),
        (
            "SELECT ?s { ?s ?p ?o FILTER NOT EXISTS { ?v <http://e/q> ?s } }",
            "v",
            "<http://e/a>",
            "SELECT ?s { ?s ?p ?o FILTER NOT EXISTS { <http://e/a> <http://e/q> ?s } }",
        ),
        (
            "SELECT ?o { OPTIONAL { ?v <http://e/q> ?o } }",
            "v",
            "<http://e/b>",
            "SELECT ?o { OPTIONAL { <http://e/b> <http://e/q> ?o } }",
        ),
        (
            "SELECT ?o { VALUES ?s { ?v } ?s <http://e/p> ?o }",
            "v",
            "<http://e/b>",
            "SELECT ?o { VALUES ?s { <http://e/b> } ?s <http://e/p> ?o }",
        ),
    ] {
        let term: Term = match value.strip_prefix('<') {
            Some(iri) => NamedNode::new(iri.trim_end_matches('>')).expect("an IRI").into(),
            None => Literal::from(value.parse::<i64>().expect("a number")).into(),
        };
        let given = [(name.to_owned(), term)];
        assert_eq!(rows(text, &given), rows(written, &[]), "{text}");
    }
}

#[test]
fn a_given_text_is_a_text() {
    let given = [("v".to_owned(), Literal::from("x' } # \"").into())];
    assert_eq!(rows("SELECT ?s { ?s <http://e/name> ?v }", &given).len(), 1);
}

#[test]
fn a_given_value_that_has_no_place_is_refused() {
    let one = |term: Term| [("v".to_owned(), term)];
    let number = || one(Literal::from(1).into());
    for (text, given, says) in [
        ("SELECT ?s { ?s ?p ?o }", number(), "the query has no ?v"),
        ("SELECT ?s { ?s ?v ?o }", number(), "expected a predicate"),
        ("SELECT ?v { BIND (1 AS ?v) }", number(), "has a value from outside"),
        ("SELECT (1 AS ?v) {}", number(), "has a value from outside"),
        ("SELECT ?v { VALUES ?v { 1 } }", number(), "has a value from outside"),
        ("SELECT ?v { VALUES (?a ?v) { (1 2) } }", number(), "has a value from outside"),
        ("SELECT ?s { SERVICE <http://e/> { ?s ?p ?v } }", number(), "within SERVICE"),
        ("SELECT ?s { GRAPH ?v { ?s ?p ?o } }", number(), "expected a variable or an IRI"),
        ("SELECT ?s { ?s ?p ?v }", one(oxrdf::BlankNode::default().into()), "only IRIs and literals"),
        ("SELECT ?s { ?s ?p '?v' } # ?v", number(), "the query has no ?v"),
    ] {
        let options = ParseOptions { given: &given, ..ParseOptions::default() };
        let error = parse_with(text, &options).expect_err(text);
        assert!(error.to_string().contains(says), "{text}: {error}");
        assert!(matches!(error.kind, QueryErrorKind::Syntax | QueryErrorKind::NotMentioned), "{text}: {error:?}");
    }
}

#[test]
fn updates_take_values() {
    let given =
        [("v".to_owned(), Literal::from("x").into()), ("g".to_owned(), NamedNode::new_unchecked("http://e/g").into())];
    let options = ParseOptions { given: &given, ..ParseOptions::default() };
    let update =
        parse_update_with("INSERT DATA { GRAPH ?g { <http://e/a> <http://e/p> ?v } }", &options).expect("right");
    let quads: Vec<String> =
        update.data().expect("data").iter().map(|(quad, there)| format!("{quad} {there}")).collect();
    assert_eq!(quads, [r#"<http://e/a> <http://e/p> "x" <http://e/g> true"#]);
    assert!(parse_update_with("CLEAR GRAPH ?g ; DELETE WHERE { ?s ?p ?v }", &options).is_ok());
    assert!(parse_update_with("CLEAR GRAPH ?v ; DELETE WHERE { ?s ?p ?g }", &options).is_err());
}
