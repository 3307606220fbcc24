//! Named graphs: known answers, limits and aggregates for each graph, and plans without needless graphs.

use crate::rows::rows_of;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use vicus_rdf::load::Syntax;
use vicus_rdf::{Loader, Snapshot};
use vicus_sparql::{DefaultGraph, PlanOptions, QueryOptions, SparqlPlan, parse, plan};

fn loaded(text: &str) -> Arc<Snapshot> {
    let mut loader = Loader::default();
    loader.file(text.as_bytes(), Syntax::TriG, None).expect("good TriG");
    Arc::new(loader.finish())
}

fn planned(snapshot: &Arc<Snapshot>, text: &str, options: impl Into<QueryOptions>) -> SparqlPlan {
    let parsed = parse(&format!("PREFIX : <http://e/> {text}")).unwrap_or_else(|error| panic!("{text}: {error}"));
    plan(snapshot, &parsed, options).expect("supported")
}

/// The rows, short: `:a 1|:b -`, sorted. The same with all settings.
fn answer(snapshot: &Arc<Snapshot>, text: &str, default_graph: DefaultGraph) -> String {
    let mut answers = BTreeSet::new();
    for optimise in [true, false] {
        for (envelope_rows, threads) in [(1, 3), (2, 1), (2048, 1)] {
            let common = PlanOptions { optimise, envelope_rows, threads, parallel_rows: 0, ..PlanOptions::default() };
            let options = QueryOptions { default_graph, ..QueryOptions::from(common) };
            let rows = rows_of(&planned(snapshot, text, options), |_| 0);
            let cell = |term: &Option<oxrdf::Term>| match term {
                None => "-".to_owned(),
                Some(oxrdf::Term::NamedNode(node)) => node.as_str().replace("http://e/", ":"),
                Some(oxrdf::Term::Triple(triple)) => triple.to_string(),
                Some(oxrdf::Term::Literal(literal)) => literal.value().to_owned(),
                Some(oxrdf::Term::BlankNode(_)) => "[]".to_owned(),
            };
            let mut lines: Vec<String> =
                rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(" ")).collect();
            lines.sort();
            answers.insert(lines.join("|"));
        }
    }
    assert_eq!(answers.len(), 1, "{text}: {answers:?}");
    answers.pop_first().expect("one")
}

const LIBRARY: &str = "@prefix : <http://e/> .
    :a :in :g1 . :b :in :g2 . :c :in :nowhere .
    :g1 { :a :year 1, 2, 3 . :a :cites :b . :b :cites :c }
    :g2 { :b :year 2, 5 . :a :cites :b . :c :cites :a . :g2 :about :b }
    _:g3 { :d :cites :a }";

#[test]
fn each_kind_of_pattern_in_a_graph_has_the_answer_that_the_recommendation_gives() {
    let snapshot = loaded(LIBRARY);
    for (text, expected) in [
        // The names, including those of a FROM NAMED without triples.
        ("SELECT ?g { GRAPH ?g {} }", ":g1|:g2|[]"),
        ("SELECT ?g FROM NAMED :g1 FROM NAMED :none { GRAPH ?g {} }", ":g1|:none"),
        ("SELECT (1 AS ?x) { GRAPH :g1 {} }", "1"),
        ("SELECT (1 AS ?x) { GRAPH :none {} }", ""),
        ("SELECT (1 AS ?x) FROM NAMED :none { GRAPH :none {} }", "1"),
        // A constant graph, one from the default graph, and all of them.
        ("SELECT ?y { GRAPH :g1 { ?s :year ?y } }", "1|2|3"),
        ("SELECT ?s ?y { ?s :in ?g GRAPH ?g { ?s :year ?y } }", ":a 1|:a 2|:a 3|:b 2|:b 5"),
        ("SELECT ?g ?x { GRAPH ?g { ?g :about ?x } }", ":g2 :b"),
        ("SELECT ?g { GRAPH ?g { :a :cites :b } }", ":g1|:g2"),
        ("SELECT ?s { ?s :year ?y }", ""),
        // A name is no value inside of the group.
        ("SELECT ?g { GRAPH ?g { ?s :year 1 FILTER(BOUND(?g)) } }", ""),
        ("SELECT ?g { GRAPH ?g { ?s :year 1 } FILTER(BOUND(?g)) }", ":g1"),
        // MINUS within each graph: the graph is not a common variable of the sides.
        ("SELECT ?g ?y { GRAPH ?g { ?s :year ?y MINUS { ?o :year 5 } } }", ":g1 1|:g1 2|:g1 3|:g2 2|:g2 5"),
        ("SELECT ?g ?y { GRAPH ?g { ?s :year ?y MINUS { ?s :year 5 } } }", ":g1 1|:g1 2|:g1 3"),
        ("SELECT ?g ?s { GRAPH ?g { OPTIONAL { ?s :year 1 } } }", ":g1 :a|:g2 -|[] -"),
        ("SELECT ?g ?x { GRAPH ?g { { ?x :year 1 } UNION { ?x :about :b } } }", ":g1 :a|:g2 :g2"),
        ("SELECT ?g ?h { GRAPH ?g { GRAPH ?h { ?s :year 1 } } }", ":g1 :g1|:g2 :g1|[] :g1"),
        ("SELECT ?g { GRAPH ?g { ?s :year ?y FILTER NOT EXISTS { ?s :year 5 } } }", ":g1|:g1|:g1"),
        ("SELECT ?s { ?s :in ?g FILTER EXISTS { GRAPH ?g { ?s :cites ?x } } }", ":a"),
        // Paths stay within a graph, and one without a step leads from each term of it.
        ("SELECT ?g ?x { GRAPH ?g { :a :cites+ ?x } }", ":g1 :b|:g1 :c|:g2 :b"),
        ("SELECT ?g ?x { GRAPH ?g { ?x :cites+ :a } }", ":g2 :c|[] :d"),
        ("SELECT ?g { GRAPH ?g { :x :cites* :x } }", ":g1|:g2|[]"),
        ("SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?a :cites* ?b } } GROUP BY ?g", ":g1 9|:g2 9|[] 3"),
        // For each graph by itself.
        ("SELECT ?g ?n { GRAPH ?g { SELECT (COUNT(*) AS ?n) { ?s :year ?y } } }", ":g1 3|:g2 2|[] 0"),
        ("SELECT ?g ?n { GRAPH ?g { SELECT (MAX(?y) AS ?n) (SUM(?y) AS ?m) { ?s :year ?y } } }", ":g1 3|:g2 5|[] -"),
        (
            "SELECT ?g ?n { GRAPH ?g { SELECT ?s (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?s } }",
            ":g1 1|:g1 4|:g2 1|:g2 1|:g2 1|:g2 2|[] 1",
        ),
        ("SELECT ?g ?y { GRAPH ?g { SELECT ?y { ?s :year ?y } ORDER BY DESC(?y) LIMIT 1 } }", ":g1 3|:g2 5"),
        ("SELECT ?g ?y { GRAPH ?g { SELECT ?y { ?s :year ?y } ORDER BY ?y OFFSET 1 LIMIT 1 } }", ":g1 2|:g2 5"),
        ("SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { SELECT * { ?s ?p ?o } LIMIT 2 } } GROUP BY ?g", ":g1 2|:g2 2|[] 1"),
        ("SELECT ?x { GRAPH ?g { SELECT DISTINCT ?x { :a ?p ?x FILTER(?p = :cites) } } }", ":b|:b"),
        // Datasets: a merge has each triple once.
        ("SELECT ?s ?o FROM :g1 { ?s :cites ?o }", ":a :b|:b :c"),
        ("SELECT ?s ?o FROM :g1 FROM :g2 { ?s :cites ?o }", ":a :b|:b :c|:c :a"),
        ("SELECT ?x FROM :g1 FROM :g2 { :a :cites+ ?x }", ":a|:b|:c"),
        ("SELECT (COUNT(*) AS ?n) FROM :g1 FROM :g2 FROM :none { ?s ?p ?o }", "9"),
        ("SELECT ?s FROM :none { ?s ?p ?o }", ""),
        ("SELECT ?s FROM NAMED :g1 { ?s ?p ?o }", ""),
        ("SELECT ?g ?y FROM :g1 FROM NAMED :g2 { ?s :cites ?o GRAPH ?g { ?o :year ?y } }", ":g2 2|:g2 5"),
        ("SELECT ?s FROM NAMED :g2 { GRAPH :g1 { ?s ?p ?o } }", ""),
        ("CONSTRUCT { ?s :y ?y } FROM :g1 FROM :g2 { ?s :year ?y FILTER(?y = 2) }", ":a :y 2|:b :y 2"),
        ("DESCRIBE :a FROM :g1 FROM :g2", ":a :cites :b|:a :year 1|:a :year 2|:a :year 3"),
        ("DESCRIBE :b", ":b :in :g2"),
    ] {
        assert_eq!(answer(&snapshot, text, DefaultGraph::Own), expected, "{text}");
    }
    assert_eq!(answer(&snapshot, "SELECT ?s { ?s :cites :b }", DefaultGraph::Union), ":a");
    assert_eq!(answer(&snapshot, "SELECT ?s { ?s :in ?g }", DefaultGraph::Union), "", "the triples of no named graph");
    assert_eq!(answer(&snapshot, "SELECT ?x { :d :cites* ?x }", DefaultGraph::Union), ":a|:b|:c|:d");
    assert_eq!(answer(&snapshot, "SELECT ?s FROM :g2 { ?s :year ?y }", DefaultGraph::Union), ":b|:b");
    assert_eq!(answer(&snapshot, "SELECT ?y { ?s :year ?y . ?s :cites ?o }", DefaultGraph::Union), "1|2|2|3|5");
}

/// What happened: a node at the beginning of a path came once for each graph of a merge with this node, and for each of
/// its triples in a graph.
#[test]
fn a_path_in_several_graphs_begins_at_each_node_once() {
    let snapshot = loaded(LIBRARY);
    for (text, expected) in [
        // a, b, c, g2 and the years 1, 2, 3 and 5.
        ("SELECT (COUNT(*) AS ?n) FROM :g1 FROM :g2 { ?d :cites* ?d }", "8"),
        ("SELECT (COUNT(*) AS ?n) FROM :g1 FROM :g2 { ?d :cites+ ?e }", "9"),
        ("SELECT (COUNT(*) AS ?n) FROM :g1 FROM :g2 { ?d :year? ?e }", "13"),
        ("SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?d :year+ ?e } } GROUP BY ?g", ":g1 3|:g2 2"),
        ("SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?d :year? ?e } } GROUP BY ?g", ":g1 9|:g2 8|[] 2"),
    ] {
        assert_eq!(answer(&snapshot, text, DefaultGraph::Own), expected, "{text}");
    }
}

/// A hundred thousand graphs, each with its own thing and a triple found in many graphs.
fn many() -> Arc<Snapshot> {
    let mut text = String::new();
    for graph in 0..100_000 {
        let (kind, other) = (graph % 1000, graph / 2);
        writeln!(
            text,
            "<http://e/s{graph}> <http://e/kind> <http://e/k{kind}> <http://e/g{graph}> .\n\
             <http://e/s{other}> <http://e/of> <http://e/o{graph}> <http://e/g{graph}> ."
        )
        .expect("a string takes everything");
        if graph % 50 == 0 {
            writeln!(text, "<http://e/same> <http://e/has> <http://e/same> <http://e/g{graph}> .").expect("the same");
        }
    }
    let mut loader = Loader::default();
    loader.file(text.as_bytes(), Syntax::NQuads, None).expect("good N-Quads");
    Arc::new(loader.finish())
}

/// What happened: more than 64 graphs of FROM were found by a scan of the rows of all graphs.
#[test]
fn many_graphs_among_very_many_are_searched_one_after_the_other() {
    let snapshot = many();
    let from: String = (0..200).map(|graph| format!("FROM :g{graph} ")).collect();
    for (pattern, rows) in [("?s :of ?o", 200), ("?s :has ?o", 1), ("?s ?p :k7", 1)] {
        let text = format!("SELECT * {from} FROM :none {{ {pattern} }}");
        let plan = planned(&snapshot, &text, PlanOptions::default());
        let explained = plan.explain();
        assert_eq!(rows_of(&plan, |_| 0).len(), rows, "{pattern}\n{explained}");
        assert!(explained.contains("index join G") && explained.contains("values of 201 rows"), "{explained}");
    }
}

/// The rows of the scan at the bottom of a plan are its read rows.
#[test]
fn a_pattern_in_one_of_very_many_graphs_is_found_without_visiting_them() {
    let snapshot = many();
    assert_eq!(snapshot.graphs().len(), 100_000);
    for (text, rows, has) in [
        ("SELECT ?g ?o { GRAPH ?g { :s7 :kind ?o } }", 1, &["scan Spog graph ?g <http://e/s7>", "~1 rows"][..]),
        ("SELECT ?g { GRAPH ?g { ?s :kind :k7 } }", 100, &["scan Posg graph ?g ?s", "~100 rows"]),
        ("SELECT ?o { GRAPH :g7 { ?s :of ?o } }", 1, &["scan G", "graph <http://e/g7> ?s", "~1 rows"]),
        // The graph is known from the first pattern, so the second one is searched for in it.
        (
            "SELECT ?k { GRAPH ?g { :s7 :of ?o . ?s :kind ?k } }",
            2,
            &["index join G", "scan Spog graph ?g <http://e/s7>"],
        ),
        ("SELECT ?k { GRAPH ?g { :s7 :of ?o } GRAPH ?g { ?s :kind ?k } }", 2, &["index join G"]),
        ("SELECT ?g { VALUES ?g { :g1 :g2 :none } GRAPH ?g { ?s :kind ?k } }", 2, &["index join G"]),
        ("SELECT DISTINCT ?g { GRAPH ?g { ?s ?p ?o } }", 100_000, &["values of 100000 rows [?g]"]),
        ("SELECT ?o FROM :g7 FROM :g8 FROM :none { ?s :of ?o }", 2, &["scan Gpos graph <http://e/g7>", "~1 rows"]),
        ("SELECT ?x { GRAPH ?g { :s7 :of ?o . ?o :of* ?x } }", 2, &["walk graph ?g ?o", "scan Spog graph ?g"]),
    ] {
        let plan = planned(&snapshot, text, PlanOptions::default());
        let explained = plan.explain();
        assert_eq!(rows_of(&plan, |_| 0).len(), rows, "{text}\n{explained}");
        assert!(has.iter().all(|part| explained.contains(part)), "{has:?} should be in\n{explained}");
    }
    let union = QueryOptions { default_graph: DefaultGraph::Union, ..QueryOptions::default() };
    let plan = planned(&snapshot, "SELECT ?k { :s7 :of ?o ; :kind ?k }", union);
    assert_eq!(rows_of(&plan, |_| 0).len(), 2);
    assert!(plan.explain().contains("scan Spog graph of all <http://e/s7>"), "{}", plan.explain());
}
