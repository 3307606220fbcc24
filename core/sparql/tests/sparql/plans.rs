//! The planner's rules, seen in its plans, and the work that early stops save.

use crate::rows::{count_of, rows_at, rows_of};
use std::fmt::Write as _;
use std::sync::Arc;
use vicus_flow::{BoxCounts, sequential};
use vicus_rdf::Snapshot;
use vicus_sparql::{Moment, PlanOptions, QueryOptions, SparqlPlan, parse, plan};

/// Papers with a year, an author and a title; authors with a name. Every tenth name is written twice.
fn library(papers: usize) -> Arc<Snapshot> {
    let mut text = String::new();
    for paper in 0..papers {
        let (author, year) = (paper % (papers / 3 + 1), 1950 + paper * 7 % 60);
        writeln!(
            text,
            "<http://e/paper{paper}> <http://e/year> \"{year}\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n\
             <http://e/paper{paper}> <http://e/by> <http://e/author{author}> .\n\
             <http://e/paper{paper}> <http://e/title> \"title {paper}\" .\n\
             <http://e/author{author}> <http://e/name> \"name {}\" .\n\
             <http://e/author{author}> <http://e/age> \"{}\"^^<http://www.w3.org/2001/XMLSchema#decimal> .",
            author / 10 * 9,
            author % 90
        )
        .expect("a string takes everything");
    }
    Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples"))
}

fn planned(snapshot: &Arc<Snapshot>, text: &str) -> SparqlPlan {
    let text = format!("PREFIX : <http://e/> {text}");
    plan(snapshot, &parse(&text).unwrap_or_else(|error| panic!("{error}")), PlanOptions::default()).expect("supported")
}

#[track_caller]
fn assert_plan(snapshot: &Arc<Snapshot>, text: &str, has: &[&str], lacks: &[&str]) {
    let explained = planned(snapshot, text).explain();
    assert!(has.iter().all(|part| explained.contains(part)), "{has:?} should be in\n{explained}");
    assert!(!lacks.iter().any(|part| explained.contains(part)), "{lacks:?} should not be in\n{explained}");
    let naive = PlanOptions { optimise: false, ..PlanOptions::default() };
    let naive = plan(snapshot, &parse(&format!("PREFIX : <http://e/> {text}")).expect("parsed above"), naive);
    assert_eq!(count_of(&planned(snapshot, text)), count_of(&naive.expect("supported")), "{explained}");
}

#[test]
fn equal_names_are_one_variable_and_equal_numbers_are_a_key() {
    let snapshot = library(60);
    // All names are simple strings: equal ones are the same term.
    let names = "SELECT ?a ?b { ?a :name ?n . ?b :name ?m FILTER (?n = ?m) }";
    assert_plan(&snapshot, names, &["?n"], &["by value", "?m", "filter"]);
    // 31 and 31.0 are equal, but different terms.
    let numbers = "SELECT ?a ?p { ?a :age ?x . ?p :year ?y FILTER (?x = ?y) }";
    assert_plan(&snapshot, numbers, &["by value"], &["?x if bound"]);
}

/// What happened: a value that BIND, a sub-select or an aggregate computes may have no value, so an equality with one
/// of another operand was tested with each pair of rows.
#[test]
fn an_equality_with_a_bound_value_is_a_key() {
    let snapshot = library(60);
    let keyed = [
        ("?a :name ?n BIND(STRAFTER(?n, \" \") AS ?v) ?p :title ?t FILTER(?v = STRAFTER(?t, \" \"))", " = "),
        ("?a :name ?n BIND(STRBEFORE(?n, \" \") AS ?v) ?p :title ?t FILTER(?v = ?t)", "?t = ?v"),
        (
            "?a :name ?n BIND(STRAFTER(?n, \" \") AS ?v) ?p :title ?t BIND(STRAFTER(?t, \" \") AS ?w) FILTER(?v = ?w)",
            " = ",
        ),
        (
            "?a :name ?n . ?p :title ?t BIND(STRAFTER(?n, \" \") AS ?v) BIND(STRAFTER(?t, \" \") AS ?w) FILTER(?v = \
                ?w)",
            " = ",
        ),
        ("{ SELECT (STRAFTER(?n, \" \") AS ?v) { ?a :name ?n } } ?p :title ?t FILTER(STRAFTER(?t, \" \") = ?v)", " = "),
        ("?p :year ?y BIND(?y - 1930 AS ?v) ?a :age ?z FILTER(?v = ?z)", "by value"),
        ("{ SELECT ?a (MAX(?y) AS ?v) { ?p :by ?a ; :year ?y } GROUP BY ?a } ?q :year ?z FILTER(?z = ?v)", "by value"),
        (
            "{ ?a :name ?n BIND(UCASE(?n) AS ?v) } UNION { ?p :title ?n BIND(UCASE(?n) AS ?v) } ?q :title ?t \
                FILTER(UCASE(?t) = ?v)",
            " = ",
        ),
    ];
    for (group, key) in keyed {
        for select in ["*", "(COUNT(*) AS ?count)"] {
            let text = format!("SELECT {select} {{ {group} }}");
            assert_plan(&snapshot, &text, &["hash join on ", key], &["cross product"]);
        }
    }
    // Another operand may bind it as well, so it has no value before the join.
    let merged = "SELECT * { ?p :year ?y BIND(?y - 1930 AS ?v) ?a :age ?z OPTIONAL { ?a :name ?v } FILTER(?v = ?z) }";
    assert_plan(&snapshot, merged, &["if "], &[]);
}

/// What happened: in OPTIONAL, EXISTS and NOT EXISTS, an equality of computed values was tested with each pair of rows.
#[test]
fn an_equality_with_what_is_looked_for_is_a_key() {
    let snapshot = library(600);
    let inner = "{ ?p :title ?t FILTER(STRAFTER(?n, \" \") = STRAFTER(?t, \" \")) }";
    let bound = "{ ?p :title ?t BIND(STRAFTER(?t, \" \") AS ?v) FILTER(STRAFTER(?n, \" \") = ?v) }";
    for inner in [inner, bound] {
        for (test, operator) in [
            ("OPTIONAL", "left hash join on _:value = "),
            ("FILTER EXISTS", "semi hash join on _:value = "),
            ("FILTER NOT EXISTS", "anti hash join on _:value = "),
        ] {
            let text = format!("SELECT * {{ ?a :name ?n {test} {inner} }}");
            assert_plan(&snapshot, &text, &[operator], &["index join"]);
        }
        let marked = format!("SELECT * {{ ?a :name ?n FILTER(?n = \"name 9\" || EXISTS {inner}) }}");
        assert_plan(&snapshot, &marked, &["mark hash join on _:value = "], &[]);
    }
    // A row whose value is unbound has no partner, and stays.
    let unbound = "SELECT * { ?a :name ?n OPTIONAL { ?a :none ?x } OPTIONAL { ?p :title ?t FILTER(?x = ?t) } }";
    assert_plan(&snapshot, unbound, &["left hash join on ?x = ?t"], &[]);
}

/// What happened: a disjunction of equalities was tested with each pair of rows.
#[test]
fn a_disjunction_of_equalities_is_a_union_of_joins() {
    let snapshot = library(600);
    let either = "SELECT * { ?a :name ?n . ?b :name ?m FILTER(?n = ?m || ?a = ?b) }";
    assert_plan(&snapshot, either, &["union", "coalesce(if(?n = ?m"], &["hash join on  "]);
    let several = "SELECT * { ?a :name ?n . ?p :title ?t FILTER(?n IN (?t, \"name 9\")) }";
    assert_plan(&snapshot, several, &["union"], &[]);
    // Where the order of rows does not matter, nor how often a row comes, it may be in both.
    let set = "SELECT DISTINCT ?a { ?a :name ?n . ?b :name ?m FILTER(?n = ?m || ?a = ?b) }";
    assert_plan(&snapshot, set, &["union"], &["coalesce"]);
    // What is joined already stays one.
    let joined = "SELECT * { ?p :by ?a ; :year ?y . ?a :name ?n . ?q :year ?y ; :title ?n FILTER(?n = ?y || ?p = ?q) }";
    assert_plan(&snapshot, joined, &[], &["union"]);
}

/// What happened: a table with UNDEF was joined with all triples, because a value that may be unbound can't be looked
/// up.
#[test]
fn a_table_with_unbound_values_is_looked_up() {
    let snapshot = library(60);
    let text = "SELECT * { VALUES (?s ?p) { (:paper7 :year) (UNDEF :title) } ?s ?p ?o }";
    assert_plan(&snapshot, text, &["index join", "union"], &["hash join", "scan"]);
}

/// What happened: a pattern that was written 3,000 times was joined with itself as often, which took 46 seconds.
#[test]
fn a_pattern_that_is_written_again_is_read_once() {
    let snapshot = library(60);
    let text = format!("SELECT * {{ {} {{ ?s ?p ?o }} }}", "?s ?p ?o . ".repeat(100));
    assert_plan(&snapshot, &text, &["scan"], &["join"]);
    // Blank nodes without a name differ.
    let blank = "SELECT * { ?s :by [] . ?s :by [] . _:b :by ?s2 . _:b :by ?s2 }";
    assert_plan(&snapshot, blank, &[], &[]);
}

/// What happened: a filter that few rows pass kept the rows that a LIMIT waited for until it had 64 of them.
#[test]
fn a_limit_does_not_wait_for_more_rows_than_it_needs() {
    let snapshot = library(9000);
    let plan = planned(&snapshot, "SELECT ?t { ?p :title ?t FILTER (CONTAINS(?t, \"77\")) } LIMIT 3");
    let (rows, _, explained) = explained_run(&plan);
    assert_eq!(rows, 3);
    let scan = parts(&explained).0.into_iter().find(|line| line.contains("scan")).expect("there is a scan").to_owned();
    // The third of such titles is among the first 400, the 64th behind 4,000 others.
    assert!(number_before(&scan, " actual") < 2000.0, "{explained}");
}

/// What happened: `SUM(SECONDS(?at))` made a term of each value, looked it up in the dictionary, and read the number
/// from it again: 3.4 times as slow as another engine.
#[test]
fn values_that_are_only_summed_make_no_terms() {
    let snapshot = library(60);
    let sums = [
        ("SELECT (SUM(?y / 4) AS ?s) { ?p :year ?y }", "extend [_:value]"),
        ("SELECT ?a (AVG(?y * 1.5) AS ?s) { ?p :year ?y ; :by ?a } GROUP BY ?a", "_:value"),
    ];
    for (text, lacks) in sums {
        assert_plan(&snapshot, text, &["aggregate"], &[lacks]);
    }
    // Years from 1950 to 2009, each once: 60 * 1950 + 59 * 60 / 2 = 118,770, of which a quarter is 29,692.5.
    let row = rows_of(&planned(&snapshot, sums[0].0), |_| 0);
    assert_eq!(format!("{row:?}").matches("29692.5").count(), 1, "{row:?}");
    // An error in one row makes the sum an error, also where no term is made that could be unbound.
    let row = rows_of(&planned(&snapshot, "SELECT (SUM(?t * 2) AS ?s) { ?p :title ?t }"), |_| 0);
    assert_eq!(row.len(), 1);
    assert!(row[0].iter().all(Option::is_none), "{row:?}");
    // A value that another aggregate or a key needs is still computed once, for both.
    let both = "SELECT (SUM(?v) AS ?a) (MAX(?v) AS ?b) { ?p :year ?y BIND (?y / 4 AS ?v) }";
    assert_plan(&snapshot, both, &["extend"], &[]);
}

/// What happened: a sub-select that shares no variable with a union was planned and run for each of its branches.
/// BSBM's "reviewers above a producer's average" averaged all ratings five times.
#[test]
fn a_sub_select_beside_a_union_runs_once() {
    let snapshot = library(60);
    let text = "SELECT ?p ?v { { SELECT (AVG(?y) AS ?m) { ?q :year ?y } } ?p :by ?a \
                { ?p :year ?v } UNION { ?a :age ?v } FILTER (?v < ?m) }";
    let explained = planned(&snapshot, text).explain();
    assert_eq!(explained.matches("aggregate [").count(), 1, "{explained}");
    // An aggregate over all rows has no keys, and a join without keys meets each row with each.
    assert_plan(&snapshot, text, &["union", "cross product if "], &["aggregate by", "hash join on"]);
}

/// What happened: patterns about one constant were multiplied through hash tables of one row each, three boxes a
/// pattern. BSBM's query 12 took 1.3 times as long as in another engine.
#[test]
fn patterns_about_one_constant_need_no_tables() {
    let snapshot = library(60);
    let text = "SELECT ?n ?y ?t { :paper7 :by ?a . ?a :name ?n . :paper7 :year ?y . :paper7 :title ?t }";
    assert_plan(&snapshot, text, &["index join"], &["hash join", "extend"]);
    assert_plan(
        &snapshot,
        "SELECT ?y ?z { :paper7 :year ?y OPTIONAL { :paper8 :none ?z } }",
        &["left index join"],
        &[],
    );
    // The condition is evaluated before the multiplication, once for each title.
    let text = "SELECT ?y ?t { :paper7 :year ?y . ?p :title ?t FILTER (STRLEN(?t) > 7) }";
    assert_plan(&snapshot, text, &["hash join"], &[]);
}

/// What happened: a box of its own put columns into the order of SELECT, and another counted the rows of ORDER BY with
/// LIMIT once more. In a short query each box costs some microseconds.
#[test]
fn columns_come_in_the_order_of_select() {
    let snapshot = library(60);
    let asked = [
        "SELECT ?o ?s { ?s :year ?o }",
        "SELECT ?t ?a { ?p :by ?a ; :title ?t }",
        "SELECT ?y ?p { { ?p :year ?y } UNION { ?p :none ?y } }",
        "SELECT ?y ?p { ?p :year ?y FILTER (?y > 1970 && STRLEN(STR(?p)) > 3) }",
        "SELECT ?v ?p { ?p :year ?y BIND (?y + 1 AS ?v) }",
        "SELECT ?y ?p { ?p :year ?y } ORDER BY ?y ?p LIMIT 7",
        "SELECT ?a ?p { ?p :by ?a } ORDER BY ?a ?p",
        "SELECT DISTINCT ?y ?a { ?p :by ?a ; :year ?y }",
        "SELECT ?z ?p { ?p :year ?y OPTIONAL { ?p :none ?z } }",
    ];
    for text in asked {
        let plan = planned(&snapshot, text);
        let naive = PlanOptions { optimise: false, ..PlanOptions::default() };
        let naive = plan_as_written(&snapshot, text, &naive);
        let sorted = |plan: &SparqlPlan| {
            let mut rows: Vec<String> = rows_of(plan, |_| 0).iter().map(|row| format!("{row:?}")).collect();
            rows.sort();
            rows
        };
        assert_eq!(sorted(&plan), sorted(&naive), "{text}\n{}", plan.explain());
        let boxes = plan.explain();
        assert!(text.contains("BIND") || !boxes.contains("extend"), "{boxes}");
        assert!(!boxes.contains("slice"), "{boxes}");
    }
}

fn plan_as_written(snapshot: &Arc<Snapshot>, text: &str, options: &PlanOptions) -> SparqlPlan {
    plan(snapshot, &parse(&format!("PREFIX : <http://e/> {text}")).expect("a query"), options).expect("supported")
}

#[test]
fn a_new_value_for_each_row_makes_rows_distinct() {
    let snapshot = library(60);
    for value in ["RAND()", "BNODE()", "BNODE(STR(?s))", "STRUUID()"] {
        let text = format!("SELECT DISTINCT ?s ?v {{ ?s ?p ?o BIND ({value} AS ?v) }}");
        assert_eq!(count_of(&planned(&snapshot, &text)), snapshot.len(), "{value}");
    }
}

#[test]
fn a_constant_goes_into_the_index() {
    let snapshot = library(60);
    let text = "SELECT ?s ?p { ?s ?p ?o FILTER (?p = :name) }";
    assert_plan(&snapshot, text, &["<http://e/name>", "extend"], &["filter"]);
}

#[test]
fn a_test_for_an_earlier_paper_keeps_the_least_year() {
    let snapshot = library(60);
    let text = "SELECT ?p { ?p :by ?a ; :year ?y \
                OPTIONAL { ?q :by ?b ; :year ?z FILTER (?a = ?b && ?z < ?y) } FILTER (!bound(?b)) }";
    assert_plan(&snapshot, text, &["anti hash join on ?a = ?b, least ?z"], &["left"]);
}

#[test]
fn a_join_with_a_union_goes_into_its_branches_if_that_is_cheaper() {
    let snapshot = library(600);
    let text = "SELECT ?q { ?a :name \"name 9\" { ?q :by ?a } UNION { ?a :age ?q } }";
    assert_plan(&snapshot, text, &["union", "index join"], &["hash join"]);
}

#[test]
fn an_unused_variable_is_only_tested() {
    let snapshot = library(60);
    assert_plan(&snapshot, "SELECT DISTINCT ?a { ?p :by ?a . ?a :name ?n }", &["semi index join", "any one"], &[]);
}

#[test]
fn an_optional_part_begins_at_the_left_sides_values() {
    let snapshot = library(600);
    let few = "SELECT ?p ?n { ?p :year 1957 ; :title \"title 1\" OPTIONAL { ?p :by ?a . ?a :name ?n } }";
    assert_plan(&snapshot, few, &["left hash join on ?p", "distinct [?p]"], &["scan Gpso ?p <http://e/by>"]);
    let all = "SELECT ?p ?n { ?p :title ?t OPTIONAL { ?p :by ?a . ?a :name ?n } }";
    assert_plan(&snapshot, all, &["left hash join on ?p"], &["distinct"]);
    let path = "SELECT ?p ?n { ?p :title \"title 1\" OPTIONAL { ?p :by ?a . ?a (:by|^:by)* ?q . ?q :year ?y } }";
    assert_plan(&snapshot, path, &["left hash join on ?p", "distinct [?p]"], &["scan Gpso ?p <http://e/by>"]);
    let without = "SELECT ?p { ?p :title \"title 1\" MINUS { ?p :by ?a . ?a :name ?n } }";
    assert_plan(&snapshot, without, &["anti hash join on ?p"], &["scan Gpso ?p <http://e/by>"]);
}

#[test]
fn order_by_with_a_limit_keeps_the_first_rows_only() {
    let snapshot = library(60);
    let text = "SELECT ?t { ?p :title ?t } ORDER BY DESC(?t) LIMIT 3 OFFSET 1";
    assert_plan(&snapshot, text, &["top 4"], &["sort"]);
    let titles: Vec<String> =
        rows_of(&planned(&snapshot, text), |_| 0).iter().map(|row| row[0].as_ref().unwrap().to_string()).collect();
    assert_eq!(titles, ["\"title 8\"", "\"title 7\"", "\"title 6\""]);
}

#[test]
fn a_question_is_answered_by_the_first_row() {
    let snapshot = library(9000);
    let work = |text: &str| {
        let plan = planned(&snapshot, text);
        sequential::run(plan.model(), Vec::new(), |_| 0).expect("it ends").acts
    };
    assert!(work("ASK { ?p :by ?a . ?a :name ?n . ?q :by ?a }") < 40);
    assert!(work("SELECT * { ?p :by ?a . ?a :name ?n } LIMIT 3") < 60);
}

/// What happened: NOW, the seed of RAND and the terms that runs computed belonged to the plan. A second run knew the
/// first run's terms, and every run had the same moment.
#[test]
fn each_run_of_a_plan_has_its_own_moment_and_its_own_terms() {
    let snapshot = library(30);
    let plan = planned(
        &snapshot,
        "SELECT ?x ?now ?chance { ?a :age ?n BIND (?n * 2.5 AS ?x) BIND (NOW() AS ?now) BIND (RAND() AS ?chance) }",
    );
    let (early, late) = (Moment { now_ms: 0, seed: 1 }, Moment { now_ms: 86_400_000, seed: 2 });
    let (first, second, again) =
        (rows_at(&plan, early, |_| 0), rows_at(&plan, late, |_| 0), rows_at(&plan, early, |_| 0));
    assert_eq!(first, again, "a run is a function of its moment");
    assert_eq!((first.len(), second.len()), (11, 11));
    for (first, second) in first.iter().zip(&second) {
        assert_eq!(first[0], second[0]);
        assert!(first[1].as_ref().is_some_and(|now| now.to_string().starts_with("\"1970-01-01T00:00:00Z\"")));
        assert!(second[1].as_ref().is_some_and(|now| now.to_string().starts_with("\"1970-01-02T00:00:00Z\"")));
        assert_ne!(first[2], second[2]);
    }
    // Ids of computed terms begin anew with each run.
    let (a, b) = (plan.start(early), plan.start(late));
    for run in [&a, &b] {
        let (send, receive) = std::sync::mpsc::channel();
        let sink = plan.sink_operator(move |envelope| Ok(send.send(envelope.clone())?));
        sequential::run(plan.model(), run.operators([(plan.sink(), sink)]), |_| 0).expect("it ends");
        let envelope = receive.iter().next().expect("there are solutions");
        let first = vicus_rdf::Id::from_bits(envelope.column(0).u64s()[0]);
        assert!(run.term(first).to_string().contains("decimal"));
    }
    assert_eq!(format!("{a:?}"), format!("{b:?}"), "as many terms");
}

#[test]
fn a_constant_that_the_store_lacks_gives_an_empty_table() {
    let snapshot = library(30);
    for text in
        ["SELECT ?x { ?x :name \"nobody\" }", "SELECT * { :nothing ?p ?o . ?o ?q ?r }", "ASK { ?s :nowhere ?o }"]
    {
        assert_eq!(count_of(&planned(&snapshot, text)), 0, "{text}");
    }
}

#[test]
fn seventy_patterns_are_still_a_group() {
    let snapshot = library(30);
    let mut text = "SELECT ?a { ?a :name ?n".to_owned();
    for number in 0..70 {
        write!(text, " . ?a :age ?x{number}").expect("a string takes everything");
    }
    assert_eq!(count_of(&planned(&snapshot, &format!("{text} }}"))), 11);
}

#[test]
fn a_path_is_walked_from_the_end_that_is_bound() {
    let snapshot = library(600);
    let from = "SELECT ?q { :paper3 (:by/^:by)* ?q }";
    assert_plan(&snapshot, from, &["walk <http://e/paper3>"], &["all nodes"]);
    let by_rows = "SELECT ?q { ?p :title \"title 3\" . ?p (:by/^:by)+ ?q . ?q :year ?y }";
    assert_plan(&snapshot, by_rows, &["walk ?p", "index join Gpso ?q"], &["all nodes"]);
    let optional = "SELECT ?q { ?p :title \"title 3\" OPTIONAL { ?p (:by/^:by)+ ?q } }";
    assert_plan(&snapshot, optional, &["left walk ?p"], &["all nodes"]);
    assert_plan(&snapshot, "SELECT ?p ?q { ?p :by+ ?q }", &["distinct [?q]"], &["all nodes"]);
    assert_plan(&snapshot, "SELECT ?p ?q { ?p (!:name)+ ?q }", &["all nodes"], &[]);
}

#[test]
fn a_test_for_solutions_is_a_join_where_it_can_be() {
    let snapshot = library(60);
    let unnamed = "SELECT ?p { ?p :by ?a FILTER NOT EXISTS { ?a :nothing ?n } }";
    assert_plan(&snapshot, unnamed, &["anti ", "any one"], &["exists("]);
    let later = "SELECT ?p { ?p :by ?a ; :year ?y FILTER EXISTS { ?q :by ?a ; :year ?z FILTER (?z > ?y) } }";
    assert_plan(&snapshot, later, &["semi "], &["exists("]);
    let either = "SELECT ?p { ?p :by ?a ; :year ?y FILTER (?y > 2000 || EXISTS { ?a :name \"name 9\" }) }";
    assert_plan(&snapshot, either, &["mark ", "_:exists"], &["exists("]);
}

/// What happened: the planner dropped the condition once the left join had become an anti join, because its variable
/// was no longer bound.
#[test]
fn a_condition_on_an_unbound_variable_is_an_error_and_not_dropped() {
    let snapshot = library(30);
    let text = "SELECT * { ?x :year ?c { ?d :nothing ?d } UNION \
                { ?e :name ?a OPTIONAL { ?d ?e ?f } FILTER (!bound(?f)) } FILTER (sameTerm(?c, ?f)) }";
    assert_eq!(count_of(&planned(&snapshot, text)), 0);
}

#[test]
fn a_group_has_one_row_for_each_key_and_none_has_one_row() {
    let snapshot = library(60);
    assert_plan(&snapshot, "SELECT ?a (COUNT(*) AS ?n) { ?p :by ?a } GROUP BY ?a", &["aggregate by ?a"], &[]);
    assert_eq!(count_of(&planned(&snapshot, "SELECT ?a (COUNT(*) AS ?n) { ?p :by ?a } GROUP BY ?a")), 21);
    assert_eq!(count_of(&planned(&snapshot, "SELECT (COUNT(*) AS ?n) { ?p :nothing ?a }")), 1);
    assert_eq!(count_of(&planned(&snapshot, "SELECT ?a (COUNT(*) AS ?n) { ?p :nothing ?a } GROUP BY ?a")), 0);
}

/// What happened: every value of BIND became a term that was kept until the query's end. COUNT over 2.4 million of them
/// failed at 200 MB.
#[test]
fn values_that_are_only_counted_or_tested_are_not_kept() {
    let snapshot = library(60);
    let kept = |text: &str| {
        let plan = planned(&snapshot, text);
        let run = plan.start(Moment::default());
        let (send, receive) = std::sync::mpsc::channel();
        let sink = plan.sink_operator(move |envelope| Ok(send.send(envelope.clone())?));
        sequential::run(plan.model(), run.operators([(plan.sink(), sink)]), |_| 0).expect("it ends");
        let rows = receive.iter().map(|envelope| envelope.rows()).sum::<usize>();
        let shown = format!("{run:?}");
        (rows, number_before(&shown, " more"))
    };
    let bind = "?p :title ?t BIND (CONCAT(?t, \"-\", STR(?p)) AS ?x)";
    let (_, mentioned) = kept("SELECT ?t { ?p :title ?t FILTER (?t != \"-\") }");
    assert_eq!(kept(&format!("SELECT (COUNT(?x) AS ?n) {{ {bind} }}")), (1, mentioned));
    assert_eq!(kept(&format!("SELECT (COUNT(?x) AS ?n) {{ {bind} FILTER (?t != \"-\") }}")), (1, mentioned));
    assert_eq!(kept(&format!("SELECT ?t {{ {bind} FILTER (CONTAINS(?x, \"title\")) }}")).0, 60);
    assert_eq!(kept(&format!("SELECT ?t {{ {bind} FILTER (STRLEN(?x) > 5) }}")), (60, mentioned));
    // An error is no value.
    let failing = "?p :title ?t BIND (CONCAT(?t, ?p) AS ?x)";
    let (rows, _) = kept(&format!("SELECT (COUNT(?x) AS ?n) {{ {failing} }} HAVING (COUNT(?x) = 0)"));
    assert_eq!(rows, 1);
}

/// What happened: every other computed term was also kept until the query's end, even when nothing compared or kept it.
#[test]
fn computed_terms_go_with_the_last_row_that_has_them() {
    let snapshot = library(60);
    let bind = "?p :title ?t BIND (CONCAT(?t, \"-\", STR(?p)) AS ?x)";
    for (text, rows, most) in [
        (format!("SELECT ?x {{ {bind} }}"), 60, 0),
        (format!("SELECT ?x ?y {{ {bind} BIND (UCASE(?x) AS ?y) FILTER (?x != ?y) }}"), 60, 0),
        (format!("SELECT ?y {{ {bind} BIND (COALESCE(?x, ?p) AS ?y) }}"), 60, 0),
        (format!("SELECT ?x {{ {bind} FILTER (CONTAINS(?x, \"-\") && STR(?x) != \"\") }} LIMIT 50"), 50, 0),
        (format!("SELECT ?x {{ {{ {bind} }} UNION {{ ?p :by ?t BIND (STR(?t) AS ?x) }} }} OFFSET 7"), 113, 0),
        (format!("SELECT ?x ?a {{ {{ {bind} }} OPTIONAL {{ ?p :by ?a }} }}"), 60, 0),
        (format!("SELECT ?x {{ {{ {bind} }} FILTER NOT EXISTS {{ ?p :nothing ?a }} }}"), 60, 0),
        (format!("SELECT (COUNT(?x) AS ?n) (MAX(STRLEN(?x)) AS ?m) {{ {bind} FILTER (?x > \"\") }}"), 1, 0),
        // What is compared or kept has its terms: the best so far, those of the first rows of three boxes, or all of
        // them.
        (format!("SELECT (MIN(?x) AS ?m) (SAMPLE(?x) AS ?s) {{ {bind} }}"), 1, 12),
        (format!("SELECT ?x {{ {bind} }} ORDER BY ?t LIMIT 5"), 5, 15),
        (format!("SELECT ?x (COUNT(?x) AS ?n) {{ {bind} }} GROUP BY ?x"), 60, 60),
        (format!("SELECT DISTINCT ?x {{ {bind} }}"), 60, 60),
        (format!("SELECT ?x {{ {bind} }} ORDER BY ?x"), 60, 60),
        (format!("SELECT ?x {{ {{ {bind} }} {{ SELECT ?q ?x {{ ?q :title ?u BIND (STR(?u) AS ?x) }} }} }}"), 0, 120),
    ] {
        for (threads, parallel_rows, cache_bytes) in [(1, 1 << 16, 1 << 20), (3, 0, 0)] {
            let common = PlanOptions { threads, parallel_rows, envelope_rows: 7, ..PlanOptions::default() };
            let options = QueryOptions { cache_bytes, ..QueryOptions::from(common) };
            let parsed = parse(&format!("PREFIX : <http://e/> {text}")).expect("good SPARQL");
            let plan = plan(&snapshot, &parsed, options).expect("it is supported");
            let kept = || number_before(&format!("{:?}", plan.start(Moment::default())), " more");
            let mentioned = kept();
            let run = plan.start(Moment::default());
            let (send, receive) = std::sync::mpsc::channel();
            let sink = plan.sink_operator(move |envelope| Ok(send.send(envelope.clone())?));
            sequential::run(plan.model(), run.operators([(plan.sink(), sink)]), |_| 0).expect("it ends");
            let mut found = 0;
            for envelope in receive {
                let ids = envelope.columns().iter().flat_map(|column| column.u64s());
                ids.filter(|bits| **bits != 0).for_each(|bits| drop(run.term(vicus_rdf::Id::from_bits(*bits))));
                found += envelope.rows();
            }
            assert_eq!(found, rows, "{text}");
            let shown = format!("{run:?}");
            let more = number_before(&shown, " more") - mentioned;
            assert!((0.0..=most.into()).contains(&more), "{text}: {shown}, {mentioned} mentioned\n{}", plan.explain());
            assert!(shown.contains(" 0 segments"), "{text}: {shown}");
        }
    }
}

/// What happened: each variable was a column of every row, even if the pattern never bound it: 2.6 GB for a text of a
/// megabyte.
#[test]
fn a_key_that_is_never_bound_is_no_column() {
    let snapshot = library(60);
    let keys: String = (0..20_000).map(|number| format!(" ?v{number}")).collect();
    let plan = planned(&snapshot, &format!("SELECT ?a (COUNT(*) AS ?n) {{ ?p :by ?a }} GROUP BY ?a{keys}"));
    assert!(plan.explain().contains("aggregate by ?a ["), "{}", &plan.explain()[..200]);
    assert_eq!(count_of(&plan), 21);
    let never = |pattern: &str| format!("SELECT (COUNT(*) AS ?n) {{ {pattern} }} GROUP BY{keys}");
    assert_eq!(count_of(&planned(&snapshot, &never("?p :by ?a"))), 1);
    assert_eq!(count_of(&planned(&snapshot, &never("?p :nothing ?a"))), 0, "no rows are no group where there are keys");
}

/// A ring of as many nodes as a walk visits in several turns.
#[test]
fn a_walk_is_cut_into_turns_and_can_be_cancelled() {
    let nodes = 40_000;
    let text: String = (0..nodes).fold(String::new(), |mut text, node| {
        writeln!(text, "<http://e/{node}> <http://e/next> <http://e/{}> .", (node + 1) % nodes).expect("a string");
        text
    });
    let snapshot = Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples"));
    let ring = planned(&snapshot, "SELECT ?x { :0 :next+ ?x }");
    assert_eq!(count_of(&ring), nodes);
    // All pairs would take too long.
    let all = planned(&snapshot, "SELECT ?x ?y { ?x :next* ?y }");
    let mut turns = 0;
    let ended = sequential::run_while(all.model(), Vec::new(), |_| {
        turns += 1;
        (turns < 200).then_some(0)
    });
    assert!(matches!(ended, Err(vicus_flow::FlowError::Cancelled)));
    assert_eq!(count_of(&planned(&snapshot, "SELECT ?x ?y { ?x :next* ?y } LIMIT 5")), 5);
    assert_eq!(count_of(&planned(&snapshot, "ASK { ?x :next* :7 . ?x :next :9 }")), 1);
}

/// What happened: the number of orders for 64 unions of two branches is beyond 64 bits. Planning panicked in builds
/// that check for overflow; other builds took it for 0.
#[test]
fn a_group_of_many_unions_is_planned() {
    let snapshot = library(3);
    let unions = "{ ?p :year ?y } UNION { ?p :year ?y } ".repeat(64);
    let explained = planned(&snapshot, &format!("ASK {{ {unions} }}")).explain();
    let scans = explained.lines().filter(|line| line.contains("?p year ?y") || line.contains("/year>")).count();
    assert!(scans >= 128, "{explained}");
}

#[test]
fn deeply_nested_unions_are_planned_in_no_time() {
    let snapshot = library(30);
    let mut text = "?a :name ?n".to_owned();
    for _ in 0..24 {
        text = format!("?a :name ?n {{ {text} }} UNION {{ ?a :nothing ?x }}");
    }
    assert_eq!(count_of(&planned(&snapshot, &format!("SELECT ?a {{ {text} }}"))), 11);
}

/// Runs a plan; returns the number of its solutions, its boxes' counts, and its explanation with them.
fn explained_run(plan: &SparqlPlan) -> (u64, Vec<BoxCounts>, String) {
    let (ended, counts) = sequential::run_counted(plan.model(), Vec::new(), |_| Some(0));
    ended.unwrap_or_else(|error| panic!("{error}"));
    let rows = plan.sinks().iter().map(|sink| counts[sink.index()].rows_taken()).sum();
    let text = plan.explain_with(&counts);
    (rows, counts, text)
}

/// The lines of the operators in an explanation, and those of the boxes.
fn parts(explained: &str) -> (Vec<&str>, Vec<&str>) {
    let (tree, boxes) = explained.split_once("\n\n").expect("an empty line is between them");
    (tree.lines().collect(), boxes.lines().skip(1).collect())
}

/// The number before a word.
fn number_before(line: &str, word: &str) -> f64 {
    let before = line.split_once(word).unwrap_or_else(|| panic!("`{word}` is in {line}")).0;
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or_else(|_| panic!("a number is before `{word}` in {line}"))
}

/// The boxes that an operator's line names.
fn boxes_of(line: &str) -> Vec<usize> {
    let list = line.rsplit_once(", box").expect("a line ends with its boxes").1.trim_start_matches("es").trim();
    let range = |part: &str| -> Vec<usize> {
        let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("`{text}` is a number in {line}"));
        part.split_once('-').map_or_else(|| vec![number(part)], |(from, to)| (number(from)..=number(to)).collect())
    };
    list.split(", ").flat_map(range).collect()
}

const VARIED: [&str; 6] = [
    "SELECT ?a ?b { ?p :by ?a . ?q :by ?b ; :year ?y . ?p :year ?y }",
    "SELECT DISTINCT ?n { ?p :by ?a . ?a :name ?n } ORDER BY ?n",
    "SELECT ?t { ?p :title ?t } ORDER BY DESC(?t) LIMIT 3 OFFSET 1",
    "SELECT ?a (COUNT(*) AS ?n) { ?p :by ?a } GROUP BY ?a",
    "SELECT ?q { ?a :name \"name 9\" { ?q :by ?a } UNION { ?a :age ?q } }",
    "SELECT ?a ?p { ?a :age ?x OPTIONAL { ?p :year ?y FILTER (?x = ?y) } }",
];

/// One box for each operator, and several.
fn one_box_and_several() -> [PlanOptions; 2] {
    [
        PlanOptions::default(),
        PlanOptions { threads: 4, parallel_rows: 1, sinks: 2, envelope_rows: 16, ..PlanOptions::default() },
    ]
}

#[test]
fn the_first_operator_made_the_solutions_and_they_have_eight_bytes_a_column() {
    let snapshot = library(600);
    for options in one_box_and_several() {
        for text in VARIED {
            let parsed = parse(&format!("PREFIX : <http://e/> {text}")).expect("it is SPARQL");
            let plan = plan(&snapshot, &parsed, options).expect("supported");
            let expected = rows_of(&planned(&snapshot, text), |_| 0);
            let (rows, counts, explained) = explained_run(&plan);
            assert_eq!(rows, expected.len() as u64, "{explained}");
            assert_eq!(number_before(parts(&explained).0[0], " actual"), rows as f64, "{explained}");
            let near: u64 = plan.sinks().iter().map(|sink| counts[sink.index()].near_bytes()).sum();
            assert_eq!(near, 8 * rows * expected[0].len() as u64, "this world has one place\n{explained}");
        }
    }
}

#[test]
fn every_box_is_of_one_operator_or_brings_the_solutions_out() {
    let snapshot = library(600);
    for options in one_box_and_several() {
        for text in VARIED {
            let parsed = parse(&format!("PREFIX : <http://e/> {text}")).expect("it is SPARQL");
            let explained = plan(&snapshot, &parsed, options).expect("supported").explain();
            let (tree, boxes) = parts(&explained);
            let mut owned: Vec<usize> = tree.iter().flat_map(|line| boxes_of(line)).collect();
            owned.sort_unstable();
            assert!(owned.windows(2).all(|pair| pair[0] < pair[1]), "{owned:?}\n{explained}");
            for (index, line) in boxes.iter().enumerate().filter(|(index, _)| !owned.contains(index)) {
                let name = line.split_whitespace().nth(1).unwrap_or_default();
                let name = name.split('#').next().unwrap_or_default();
                let around = ["initialization", "termination", "solutions", "union"];
                assert!(around.contains(&name), "box {index} is of no operator\n{explained}");
            }
            assert_eq!(explained.contains(", degree "), options.threads > 1, "{explained}");
        }
    }
}

#[test]
fn rows_that_are_far_from_the_estimate_are_marked() {
    let snapshot = library(600);
    let exact = explained_run(&planned(&snapshot, "SELECT ?t { ?p :title ?t }")).2;
    assert!(exact.contains("~600 rows, 600 actual,") && !exact.contains("!!"), "{exact}");
    let none = explained_run(&planned(&snapshot, "SELECT ?t { ?p :title ?t FILTER (STRLEN(?t) > 1000) }")).2;
    let filter = parts(&none).0[0];
    let thought = number_before(filter, " rows, ");
    assert!(thought > 10.0, "{none}");
    assert!(filter.contains(&format!(", 0 actual (!! {thought:.0} times fewer)")), "{none}");
    // A scan that a limit stops has fewer rows than it would make, which says nothing of the estimate.
    let limit = explained_run(&planned(&library(9000), "SELECT * { ?p :by ?a } LIMIT 3")).2;
    assert!(limit.contains("stopped early") && !limit.contains("!!"), "{limit}");
}

/// What happened: a pattern whose subject and object are known, but not its predicate, was searched in the order that
/// begins with the object, and all rows of that object were read for each subject. `?s a ?o . ?s ?p ?o` took quadratic
/// time: 29 s for a million triples.
#[test]
fn a_subject_and_an_object_are_looked_up_without_reading_all_rows_of_either() {
    let mut text = String::new();
    for thing in 0..3000 {
        writeln!(text, "<http://e/thing{thing}> <http://e/type> <http://e/Thing> .")
            .expect("a string takes everything");
        writeln!(text, "<http://e/thing{thing}> <http://e/is> <http://e/Thing> .").expect("a string takes everything");
        writeln!(text, "<http://e/hub> <http://e/has{}> <http://e/thing{}> .", thing % 3, thing / 2).expect("as above");
    }
    let snapshot = Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples"));
    let text = "SELECT * { ?s :type ?o . ?s ?p ?o }";
    assert_plan(&snapshot, text, &["index join Gspo"], &[]);
    assert_eq!(count_of(&planned(&snapshot, text)), 6000);
    // Subjects and objects with many rows, and a constant for one of them.
    for text in [
        "SELECT * { ?t :type ?o . ?h ?p ?t . ?h ?q ?t }",
        "SELECT * { ?t :type :Thing . ?t ?p :Thing }",
        "SELECT * { ?t :type :Thing . :hub ?p ?t }",
        "SELECT ?t { ?t :type :Thing . ?t ?p :Thing FILTER (?p != :is) }",
        "SELECT * { :hub ?p ?t . ?t ?q ?o . ?t ?r ?o }",
    ] {
        assert_plan(&snapshot, text, &[], &[]);
    }
}

/// What happened: an equality of values computed from two operands was tested for each pair of their rows: 49 s for
/// `STR` over a million triples.
#[test]
fn equal_computed_values_are_a_key() {
    let snapshot = library(60);
    // The texts are simple strings: equal ones are the same term.
    let text = "SELECT ?a ?p { ?a :name ?n . ?p :title ?t FILTER (SUBSTR(?n, 1, 2) = LCASE(SUBSTR(?t, 4, 2))) }";
    assert_plan(&snapshot, text, &["hash join on _:value = _:value ["], &["by value"]);
    assert_plan(&snapshot, "SELECT ?a ?p { ?a :name ?n . ?p :title ?t FILTER (STR(?n) = STR(?t)) }", &["_:value"], &[]);
    // Ages are decimals, and years integers.
    let text = "SELECT ?a ?p { ?a :age ?x . ?p :year ?y FILTER (?x + 1940 = ?y) }";
    assert_plan(&snapshot, text, &["hash join on", "by value"], &[]);
    // Parts that are joined anyway are joined on both.
    let text =
        "SELECT ?p ?q { ?p :by ?a ; :title ?t . ?q :by ?a ; :title ?u FILTER (SUBSTR(?t, 1, 3) = SUBSTR(?u, 1, 3)) }";
    assert_plan(&snapshot, text, &[], &[]);
    // An expression that reads both sides can't be computed before the join.
    let text = "SELECT ?a ?p { ?a :age ?x . ?p :year ?y FILTER (?x + ?y = ?y) }";
    assert_plan(&snapshot, text, &[], &["_:value"]);
}

/// What happened: rows that are only counted were all made. A count over a chain of six patterns of SP2Bench's data at
/// a million triples didn't end; three hops from one person with DISTINCT took 7.5 s.
#[test]
fn counted_and_distinct_joins_lose_variables_early() {
    let mut text = String::new();
    // Every paper has the same author and one of its own.
    for paper in 0..400 {
        writeln!(text, "<http://e/paper{paper}> <http://e/by> <http://e/all> .").expect("a string takes everything");
        writeln!(text, "<http://e/paper{paper}> <http://e/by> <http://e/author{paper}> .").expect("as above");
    }
    let snapshot = Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples"));
    let chain = "?a :by ?p . ?b :by ?p . ?b :by ?q . ?c :by ?q . ?c :by ?r . ?d :by ?r";
    let count = |text: &str| format!("{:?}", rows_of(&planned(&snapshot, text), |_| 0)[0][0].as_ref().expect("bound"));
    // There are 400 walks through `all` for each choice of papers, and others that go back through a paper's own
    // author. With n = 400: a paper's walk of one step to a paper is n + 1 for itself and 1 for each other one, so the
    // matrix of steps is J + I, and the sum of its third power over all pairs is n * (n + 1)^3.
    let text = format!("SELECT (COUNT(*) AS ?n) {{ {chain} }}");
    assert!(count(&text).contains("\"25792480400\""), "{}", count(&text));
    let explained = planned(&snapshot, &text).explain();
    assert!(explained.contains("aggregate by ?"), "{explained}");
    // By key: (n + 1)^3 for each paper.
    let text = format!("SELECT ?a (COUNT(*) AS ?n) {{ {chain} }} GROUP BY ?a");
    let rows = rows_of(&planned(&snapshot, &text), |_| 0);
    assert!(rows.len() == 400 && rows.iter().all(|row| format!("{row:?}").contains("\"64481201\"")), "{:?}", rows[0]);
    let text = "SELECT DISTINCT ?d { :paper7 :by ?p . ?b :by ?p . ?b :by ?q . ?c :by ?q . ?c :by ?r . ?d :by ?r }";
    let explained = planned(&snapshot, text).explain();
    assert!(explained.matches("distinct").count() > 2, "{explained}");
    assert_eq!(count_of(&planned(&snapshot, text)), 400);
}

/// What happened: a pattern behind an OPTIONAL part was joined with all rows of that part, and the OPTIONAL part was
/// evaluated for rows that the pattern drops.
#[test]
fn a_join_behind_an_optional_part_may_come_before_it() {
    let snapshot = library(3000);
    let text = "SELECT ?p ?n ?y { ?p :by ?a OPTIONAL { ?a :name ?n . ?a :age ?g } OPTIONAL { ?p :year ?y } ?p :title \
        \"title 7\" }";
    assert_plan(&snapshot, text, &["left "], &["~3000 rows"]);
    // Here the optional part binds what the pattern is joined on.
    let text = "SELECT ?p ?n ?b { ?p :year ?y OPTIONAL { ?p :by ?b . ?b :age ?g } ?b :name ?n FILTER (?y > 2000) }";
    assert_plan(&snapshot, text, &[], &[]);
    // Conditions go with what they read.
    let text = "SELECT ?p ?g { ?p :by ?a OPTIONAL { ?a :name ?n . ?a :age ?g } ?p :title ?t FILTER (?t < \"title 2\" \
        && !bound(?g)) }";
    assert_plan(&snapshot, text, &[], &[]);
}

/// What happened: a path from few starts was walked, and then joined with a table of a whole predicate.
#[test]
fn the_ends_of_a_path_are_searched_where_that_is_less_work() {
    let snapshot = library(3000);
    let text = "SELECT ?q ?t { ?p :title \"title 7\" . ?q (:by/^:by)* ?p . ?q :title ?t }";
    assert_plan(&snapshot, text, &["walk", "index join"], &["hash join"]);
}

/// What happened: a range of texts or numbers, or a prefix, was tested for each row of its predicate, although ids are
/// sorted as terms are.
#[test]
fn a_range_of_texts_or_numbers_is_a_range_of_rows() {
    let snapshot = library(60);
    let ranges = [
        "SELECT ?p { ?p :title ?t FILTER (?t >= \"title 2\" && ?t < \"title 3\") }",
        "SELECT ?p { ?p :title ?t FILTER (STRSTARTS(?t, \"title 2\")) }",
        "SELECT ?p { ?p :title ?t FILTER (STRSTARTS(STR(?t), \"title 2\")) }",
        "SELECT ?p { ?p :by ?a FILTER (STRSTARTS(STR(?p), \"http://e/paper1\")) }",
        "SELECT ?p { ?p ?q ?o FILTER (STRSTARTS(STR(?p), \"http://e/paper1\")) }",
        "SELECT ?p { ?p :year ?y FILTER (?y > 2001) }",
    ];
    for text in ranges {
        assert_plan(&snapshot, text, &[", a range"], &["filter", "union"]);
    }
    // What happened: a scan of all triples looked for a datatype that few of them have.
    let kinds = [
        "SELECT ?p { ?p ?q ?o FILTER (DATATYPE(?o) = <http://www.w3.org/2001/XMLSchema#integer>) }",
        "SELECT ?p { ?p ?q ?o FILTER (DATATYPE(?o) = <http://www.w3.org/2001/XMLSchema#decimal>) }",
        "SELECT ?p { ?p ?q ?o FILTER (<http://www.w3.org/2001/XMLSchema#string> = DATATYPE(?o)) }",
        "SELECT ?p { ?p ?q ?o FILTER (LANG(?o) = \"en\") }",
    ];
    for text in kinds {
        assert_plan(&snapshot, text, &[", a range"], &["filter"]);
    }
    let tested = [
        "SELECT ?p { ?p ?q ?o FILTER (isNumeric(?o)) }",
        "SELECT ?p { ?p ?q ?o FILTER (CONTAINS(?o, \"7\")) }",
        "SELECT ?p { ?p ?q ?o FILTER (STRLEN(?o) < 8) }",
    ];
    for text in tested {
        assert_plan(&snapshot, text, &[", a range", "filter"], &[]);
    }
    let several = [
        "SELECT ?p { ?p :year ?y FILTER (?y IN (1957, 1964)) }",
        "SELECT ?p { ?p :year ?y FILTER (?y < 1955 || ?y = 1964) }",
    ];
    for text in several {
        assert_plan(&snapshot, text, &[", a range", "union"], &["filter"]);
    }
    // A pattern says more than its first letters.
    assert_plan(
        &snapshot,
        "SELECT ?p { ?p :title ?t FILTER (REGEX(?t, \"^title 2[3-5]\")) }",
        &[", a range", "filter"],
        &["union"],
    );
    // Decimals are compared with integers by value, wherever their ids are.
    let decimals = "SELECT ?a { ?a :age ?x FILTER (?x > 15) }";
    assert_plan(&snapshot, decimals, &["filter"], &[", a range"]);
    // What is searched for each row is tested there.
    let searched = "SELECT ?t { :paper7 :by ?a . ?p :by ?a ; :title ?t FILTER (?t > \"title 2\") }";
    assert_plan(&snapshot, searched, &["index join"], &[", a range"]);
}

/// What happened: a join began with its smallest pattern, however few rows a range left of another one.
#[test]
fn a_join_begins_with_a_small_range() {
    let snapshot = library(600);
    let text = "SELECT ?t ?n { ?p :title ?t ; :by ?a . ?a :name ?n FILTER (STRSTARTS(?t, \"title 59\")) }";
    let explained = planned(&snapshot, text).explain();
    // `title 59` and `title 590` to `title 599`.
    assert!(explained.contains("a range if") && explained.contains("~11 rows"), "{explained}");
    assert!(!explained.contains("hash join"), "{explained}");
    assert_plan(&snapshot, text, &["index join"], &["filter"]);
}

/// What happened: a sub-select with GROUP BY or DISTINCT was computed for the whole graph, however few of its groups
/// the rest of the query asked for.
#[test]
fn a_sub_select_collects_only_what_the_rest_asks_for() {
    let snapshot = library(600);
    let whole = "scan Gpso ?p <http://e/by> ?a";
    let asked = [
        "SELECT ?a ?n { :paper7 :by ?a { SELECT ?a (COUNT(?p) AS ?n) { ?p :by ?a } GROUP BY ?a } }",
        "SELECT ?a ?n { :paper7 :by ?a { SELECT ?a (MAX(?y) + 1 AS ?n) { ?p :by ?a ; :year ?y } GROUP BY ?a HAVING \
            (COUNT(*) > 1) } }",
        "SELECT ?a ?y { :paper7 :by ?a { SELECT DISTINCT ?a ?y { ?p :by ?a ; :year ?y } } }",
        "SELECT ?a ?n { VALUES ?a { :author3 :author4 } { SELECT ?a (COUNT(?p) AS ?n) { ?p :by ?a } GROUP BY ?a } }",
        "SELECT ?a ?n { :paper7 :by ?a { SELECT ?a (COUNT(?p) AS ?n) { ?p :by ?a } GROUP BY ?a } \
         UNION { SELECT ?a (MAX(?x) AS ?n) { ?a :age ?x } GROUP BY ?a } }",
        "SELECT ?a ?n { :paper7 :by ?a OPTIONAL { SELECT ?a (COUNT(?p) AS ?n) { ?p :by ?a } GROUP BY ?a } }",
    ];
    for text in asked {
        assert_plan(&snapshot, text, &["index join"], &[whole, "scan Gpos ?p <http://e/by> ?a"]);
    }
    // A limit counts all groups.
    let limited =
        "SELECT ?a ?n { :paper7 :by ?a { SELECT ?a (COUNT(?p) AS ?n) { ?p :by ?a } GROUP BY ?a ORDER BY ?a LIMIT 9 } }";
    assert_plan(&snapshot, limited, &[whole], &[]);
}

/// What happened: the sides of a triangle were joined two at a time, with each pair of neighbouring sides looked at,
/// though few have a third one: with hubs, quadratically many.
#[test]
fn the_last_corner_of_a_cycle_is_in_the_lists_of_its_neighbours() {
    // Everything knows the hubs, and the hubs know everything; ten things know each other.
    let mut text = String::new();
    let mut knows = |a: usize, b: usize| {
        writeln!(text, "<http://e/{a}> <http://e/knows> <http://e/{b}> .").expect("a string takes everything")
    };
    for thing in 0..300 {
        for hub in 0..3 {
            knows(thing, 1000 + hub);
            knows(1000 + hub, thing);
        }
    }
    for place in 0..100 {
        knows(place / 10, place % 10);
    }
    let snapshot = Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples"));
    let cycles = [
        "SELECT ?a ?b ?c { ?a :knows ?b . ?b :knows ?c . ?c :knows ?a }",
        "SELECT ?a ?b ?c { ?a :knows ?b . ?b :knows ?c . ?a :knows ?c FILTER (?a != ?b) }",
        "SELECT DISTINCT ?a { ?a :knows ?b , ?c , ?d . ?b :knows ?c , ?d . ?c :knows ?d }",
    ];
    for text in cycles {
        assert_plan(&snapshot, text, &["intersection of "], &[]);
    }
    // Two halves of a cycle of four may be a table each.
    let four =
        "SELECT (COUNT(*) AS ?n) { ?a :knows ?b . ?b :knows ?c . ?c :knows ?d . ?d :knows ?a FILTER (?a != ?c) }";
    assert_plan(&snapshot, four, &[], &[]);
}

/// What happened: planning took up to four milliseconds, longer than the run, since what is nested in a second plan was
/// planned in several ways, too, and each of these again. These plans took more than 100,000 steps.
#[test]
fn planning_in_other_ways_takes_less_time_than_they_can_save() {
    let mut text = String::new();
    for paper in 0..12_000 {
        for author in [paper % 4000, paper * 7 % 4000] {
            writeln!(text, "<http://e/paper{paper}> <http://e/by> <http://e/author{author}> .").expect("it takes all");
        }
    }
    for author in 0..4000 {
        writeln!(text, "<http://e/author{author}> <http://e/kind> <http://e/Person> .").expect("it takes all");
    }
    let snapshot = Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples"));
    let asked = [
        "SELECT (COUNT(*) AS ?n) { ?p :kind :Person ; !(^:x|^:edits) ?y }",
        "SELECT ?p { ?p :kind :Person FILTER NOT EXISTS { ?a :by ?p, ?q FILTER(?p != ?q) } }",
        "SELECT DISTINCT ?p { ?p :kind :Person . ?a :by ?p, ?q FILTER(?p != ?q) }",
    ];
    for text in asked {
        let parsed = parse(&format!("PREFIX : <http://e/> {text}")).expect("good SPARQL");
        let planned = plan(&snapshot, &parsed, PlanOptions { plan_steps: 100_000, ..PlanOptions::default() });
        assert!(planned.is_ok(), "{text}: {:?}", planned.err());
    }
}
