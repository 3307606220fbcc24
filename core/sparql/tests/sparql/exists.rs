//! EXISTS within expressions.

use crate::rows::{count_of, rows_of};
use std::fmt::Write as _;
use std::sync::Arc;
use vicus_rdf::Snapshot;
use vicus_sparql::{PlanOptions, SparqlPlan, parse, plan};

/// Nodes `n0` to `n17`, each with a link to the next one, to the one after it, and with its number.
fn chain() -> Arc<Snapshot> {
    let mut text = String::new();
    for node in 0..18 {
        for step in 1..=2 {
            writeln!(text, "<http://e/n{node}> <http://e/link{step}> <http://e/n{}> .", node + step).expect("a string");
        }
        writeln!(text, "<http://e/n{node}> <http://e/number> \"{node}\"^^<http://www.w3.org/2001/XMLSchema#integer> .")
            .expect("a string takes everything");
    }
    Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples"))
}

fn planned(text: &str) -> SparqlPlan {
    let parsed = parse(&format!("PREFIX : <http://e/> {text}")).unwrap_or_else(|error| panic!("{text}: {error}"));
    plan(&chain(), &parsed, PlanOptions::default()).expect("supported")
}

/// The numbers with true in the second column.
fn numbers(plan: &SparqlPlan) -> Vec<usize> {
    let mut numbers: Vec<usize> = rows_of(plan, |_| 0)
        .iter()
        .filter(|row| row[1].as_ref().is_some_and(|mark| mark.to_string().starts_with("\"true\"")))
        .map(|row| match &row[0] {
            Some(oxrdf::Term::Literal(number)) => number.value().parse().expect("a number"),
            other => panic!("{other:?}"),
        })
        .collect();
    numbers.sort_unstable();
    numbers
}

/// What happened: the pattern was solved in its written order, for each row anew. With 54 triples and four patterns
/// without a common variable until the last one, this took a minute.
#[test]
fn a_test_in_an_expression_is_planned_once_and_marks_rows() {
    let late = "?a :link1 ?b . ?c :link2 ?d . ?e :link1 ?f . ?g :link2 ?h . ?x :link1 ?a . ?a :link1 ?c . ?c :link1 ?e \
        . \
                ?e :link1 ?g . ?g :number ?m";
    for (test, last) in [
        (format!("BIND (EXISTS {{ {late} }} AS ?y)"), 13),
        (format!("BIND (IF(EXISTS {{ {late} }}, true, false) AS ?y)"), 13),
        (format!("BIND (?n < 5 || EXISTS {{ SELECT ?x {{ {late} }} }} AS ?y)"), 13),
        (format!("BIND (EXISTS {{ {late} FILTER (?m < ?n + 5) }} || ?n < 3 AS ?y)"), 13),
        (format!("BIND (!(NOT EXISTS {{ {late} FILTER (?m > 9) }} || ?n < 2) AS ?y)"), 13),
    ] {
        let plan = planned(&format!("SELECT ?n ?y {{ ?x :number ?n {test} }}"));
        let explained = plan.explain();
        assert!(explained.contains("mark ") && !explained.contains("exists("), "{explained}");
        let first = match &test {
            test if test.contains("> 9") => 6,
            _ => 0,
        };
        assert_eq!(numbers(&plan), (first..=last).collect::<Vec<_>>(), "{test}\n{explained}");
        let filter = test.replace("BIND (", "FILTER ((").replace(" AS ?y)", ") || false)");
        let plan = planned(&format!("SELECT ?n {{ ?x :number ?n {filter} }}"));
        assert_eq!(count_of(&plan), last + 1 - first, "{}", plan.explain());
    }
}

/// As above, for an inner pattern depending on more than compatible values: the operand with the fewest solutions goes
/// first, and operands independent of the outer values are solved once.
#[test]
fn a_test_that_is_no_join_is_not_solved_as_it_is_written() {
    let wide = "?a :link1 ?b . ?c :link2 ?d . ?e :link1 ?f . ?g :link2 ?h . ?i :link1 ?j . ?k :link2 ?l";
    for test in [
        // Branches with a variable from outside.
        format!("EXISTS {{ {wide} {{ ?x :link1 ?b FILTER (?n < 7) }} UNION {{ ?a :link2 ?x FILTER (?n > 100) }} }}"),
        // A sub-select with a group of its own.
        format!(
            "EXISTS {{ {wide} {{ SELECT ?x (COUNT(*) AS ?z) {{ ?x :link1 ?o FILTER (?n < 7) }} GROUP BY ?x }} ?x \
                :link2 ?a }}"
        ),
    ] {
        let plan = planned(&format!("SELECT ?n ?y {{ ?x :number ?n BIND ({test} AS ?y) }}"));
        let names = numbers(&plan);
        if test.contains("COUNT") {
            // A sub-select has a variable ?n of its own.
            assert!(names.is_empty(), "{test}");
        } else {
            assert_eq!(names, (0..7).collect::<Vec<_>>(), "{test}");
        }
    }
}

/// What happened: solved row by row, `EXISTS { ?x :link1* :nowhere }` was false for `:nowhere` itself, because a path
/// only began at nodes of the graph. A path of length zero also holds between a term and itself (§18.4: ZeroLengthPath
/// with a term).
#[test]
fn a_path_of_length_zero_ends_at_a_term_outside_the_graph() {
    for path in ["?x :link1* :nowhere", ":nowhere :link1* ?x", "?x :link1? :nowhere", ":nowhere (:link1|^:link2)* ?x"] {
        for more in ["", "FILTER (RAND() < 2)", "OPTIONAL { ?x :link1 ?y } FILTER (!BOUND(?y))"] {
            let test = format!("VALUES ?x {{ :nowhere :elsewhere :n0 }} FILTER EXISTS {{ {path} {more} }}");
            let plan = planned(&format!("SELECT ?x {{ {test} }}"));
            let rows = rows_of(&plan, |_| 0);
            let names: Vec<String> = rows.iter().map(|row| row[0].as_ref().expect("?x").to_string()).collect();
            assert_eq!(names, ["<http://e/nowhere>"], "{test}\n{}", plan.explain());
        }
    }
}
