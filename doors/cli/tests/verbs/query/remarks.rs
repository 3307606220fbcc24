//! Likely slips in a query that is right: each was an empty answer, or an empty column, without a word.

use super::{file, run, stderr, stdout};
use std::sync::LazyLock;

const DATA: &str = r#"
    @prefix foaf: <http://xmlns.com/foaf/0.1/> .
    @prefix e: <http://e/> .
    e:ann a foaf:Person ; foaf:name "Ann" ; foaf:knows e:bob .
    e:graph { e:bob a e:Robot ; foaf:name "Bob" ; e:mass 3 . }
"#;

/// The remarks on a query, without the words in front of each.
fn remarks(options: &[&str], query: &str) -> Vec<String> {
    // Tests run side by side: the file is written once.
    static FILE: LazyLock<String> = LazyLock::new(|| file("remarks.trig", DATA));
    let data = FILE.as_str();
    let text = format!("PREFIX foaf: <http://xmlns.com/foaf/0.1/> PREFIX e: <http://e/> {query}");
    let told = stderr(&run(&[&["query", "--data", data, "--format", "count"], options, &[&text]].concat()));
    told.lines().map(|line| line.strip_prefix("vicus: warning: the query: ").expect(line).to_owned()).collect()
}

#[test]
fn a_variable_that_nothing_binds_is_told_of() {
    for (query, told) in [
        ("SELECT ?nmae { ?who foaf:name ?name }", "nothing binds ?nmae; did you mean ?name?"),
        ("SELECT ?who { ?who foaf:name ?name FILTER(STRLEN(?nmae) > 1) }", "nothing binds ?nmae; did you mean ?name?"),
        ("SELECT ?who { ?who foaf:name ?name } ORDER BY ?nmae", "nothing binds ?nmae; did you mean ?name?"),
        ("SELECT (COUNT(?x) AS ?n) { ?who foaf:name ?name }", "nothing binds ?x"),
        ("SELECT ?who (UCASE(?titel) AS ?t) { ?who foaf:name ?title }", "nothing binds ?titel; did you mean ?title?"),
        ("CONSTRUCT { ?who e:is ?x } { ?who foaf:name ?name }", "nothing binds ?x"),
        (
            "SELECT ?who { ?who foaf:name ?name { ?who foaf:knows ?other FILTER(?name != \"\") } }",
            "where ?name is read, nothing binds it: it is bound in another group only",
        ),
        (
            "SELECT ?who { ?who foaf:name ?name FILTER EXISTS { ?who foaf:knows ?o FILTER(?q > 1) } }",
            "nothing binds ?q",
        ),
    ] {
        assert_eq!(remarks(&[], query), [told], "{query}");
    }
}

#[test]
fn variables_with_values_are_not() {
    for query in [
        "SELECT * { ?who foaf:name ?name }",
        "SELECT ?who ?n { ?who foaf:name ?name BIND(STRLEN(?name) AS ?n) }",
        "SELECT ?n (COUNT(*) AS ?c) { ?who foaf:name ?name } GROUP BY (STRLEN(?name) AS ?n) HAVING (?c > 0)",
        "SELECT ?who ?other { ?who foaf:name ?name OPTIONAL { ?who foaf:knows ?other FILTER(?name != \"\") } }",
        "SELECT ?x { VALUES ?x { 1 2 } }",
        "SELECT ?x { ?who foaf:name ?name } VALUES ?x { 1 }",
        "SELECT ?g { GRAPH ?g { ?who foaf:name ?name } }",
        "SELECT ?n { { SELECT (STRLEN(?name) AS ?n) { ?who foaf:name ?name } } }",
        "SELECT ?who { ?who foaf:name ?name FILTER NOT EXISTS { ?who e:mass ?m FILTER(?name = \"x\") } }",
        "SELECT ?p { ?who ?p ?name }",
        "DESCRIBE ?who { ?who foaf:name ?name }",
    ] {
        assert_eq!(remarks(&[], query), [""; 0], "{query}");
    }
}

#[test]
fn an_empty_answer_says_which_names_the_data_lacks() {
    for (query, told) in [
        ("SELECT * { ?who foaf:nmae ?name }", &["the data has no predicate foaf:nmae; did you mean foaf:name?"][..]),
        // Of another vocabulary, the same name.
        (
            "ASK { ?who <http://schema.org/name> ?name }",
            &["the data has no predicate <http://schema.org/name>; did you mean foaf:name?"],
        ),
        ("SELECT * { ?who a foaf:Persn }", &["the data has no class foaf:Persn; did you mean foaf:Person?"]),
        ("SELECT * { ?who a e:Robot }", &["the class e:Robot occurs in named graphs alone"]),
        ("SELECT * { ?who e:mass ?kg }", &["the predicate e:mass occurs in named graphs alone"]),
        (
            "SELECT * { GRAPH ?g { ?who foaf:knows ?x } }",
            &["the predicate foaf:knows occurs in the default graph alone"],
        ),
        ("SELECT * { GRAPH e:grph { ?who foaf:name ?x } }", &["the data has no graph e:grph; did you mean e:graph?"]),
        ("SELECT * FROM e:grph { ?who foaf:name ?x }", &["the data has no graph e:grph; did you mean e:graph?"]),
        ("SELECT * { ?a foaf:knows/e:masss ?x }", &["the data has no predicate e:masss; did you mean e:mass?"]),
        // Both names are there, and not together.
        ("SELECT * { ?a foaf:knows ?b . ?b foaf:knows ?c }", &[]),
        // An aggregate has a row in any case.
        (
            "SELECT (COUNT(*) AS ?n) { ?who foaf:nmae ?name }",
            &["the data has no predicate foaf:nmae; did you mean foaf:name?"],
        ),
        // It has a row: what an OPTIONAL lacks may be as it should.
        ("SELECT * { ?who foaf:name ?name OPTIONAL { ?who foaf:nick ?nick } }", &[]),
    ] {
        assert_eq!(remarks(&[], query), told, "{query}");
    }
    assert_eq!(
        remarks(&["--default-graph", "union"], "SELECT * { ?who foaf:knows ?x }"),
        ["the predicate foaf:knows occurs in the default graph alone"]
    );
}

#[test]
fn data_in_named_graphs_alone_is_told_of() {
    let data = file("remarks.nq", "<http://e/a> <http://e/p> <http://e/b> <http://e/g> .\n");
    let told = stderr(&run(&["query", "--data", &data, "SELECT * { ?s <http://e/p> ?o }"]));
    assert!(
        told.contains("the default graph is empty: the data is in named graphs, which GRAPH ?g { … } reads"),
        "{told}"
    );
    assert_eq!(told.lines().count(), 1, "{told}");
    let union = run(&["query", "--data", &data, "--default-graph", "union", "SELECT * { ?s <http://e/p> ?o }"]);
    assert_eq!(stderr(&union), "");
    let empty = file("remarks-empty.nt", "");
    let told = run(&["query", "--data", &empty, "--format", "csv", "SELECT * { ?s <http://e/p> ?o }"]);
    assert_eq!(stderr(&told), "vicus: warning: the query: the data is empty\n");
    assert_eq!(stdout(&told), "s,o\r\n");
}
