//! CONSTRUCT and DESCRIBE, as a user asks them.

use super::{fails, file, run, stderr, stdout};

const PEOPLE: &str = "@prefix : <http://e/> .\n:ann :name \"Ann\" ; :knows :bob .\n:bob :name \"Bob\" ; :address [ \
    :street \"A St\" ] .\n";
const KNOWN: &str = "PREFIX : <http://e/> CONSTRUCT { ?b :knownBy ?a } { ?a :knows ?b }";

#[test]
fn triples_are_turtle_for_people_and_any_syntax_on_request() {
    let data = file("graphs.ttl", PEOPLE);
    let written = |args: &[&str]| stdout(&run(&[&["query", "--data", &data][..], args].concat()));
    assert_eq!(written(&[KNOWN]), "@prefix : <http://e/> .\n:bob :knownBy :ann .\n");
    let line = "<http://e/bob> <http://e/knownBy> <http://e/ann> .\n";
    for format in ["nt", "nq", "ntriples", "nquads"] {
        assert_eq!(written(&[KNOWN, "--format", format]), line, "{format}");
    }
    assert_eq!(written(&[KNOWN, "--format", "trig"]), "@prefix : <http://e/> .\n:bob :knownBy :ann .\n");
    assert!(
        written(&[KNOWN, "--format", "rdfxml"])
            .contains("<p:knownBy xmlns:p=\"http://e/\" rdf:resource=\"http://e/ann\"/>")
    );
    let json = "[\n{\"@id\":\"http://e/bob\",\"http://e/knownBy\":[{\"@id\":\"http://e/ann\"}]}\n]\n";
    assert_eq!(written(&[KNOWN, "--format", "jsonld"]), json);
    assert_eq!(written(&[KNOWN, "--format", "count"]), "query\t1\n");
    // The address belongs to the description, and Bob's triples are Bob's only.
    assert_eq!(written(&["DESCRIBE <http://e/bob>", "--format", "nt"]).lines().count(), 3);
    assert_eq!(written(&["DESCRIBE <http://e/nowhere>"]), "");
    let plan = written(&["CONSTRUCT { ?a <http://e/of> [] } WHERE { ?a ?b ?c }", "--explain"]);
    assert!(plan.starts_with("construct ?a <http://e/of> _:0 ["), "{plan}");
    let plan = written(&["DESCRIBE ?a <http://e/x> WHERE { ?a ?b ?c }", "--explain"]);
    assert!(plan.starts_with("describe ?a <http://e/x> ["), "{plan}");
}

/// Refused before the data is read, which may take long.
#[test]
fn a_format_that_can_not_hold_the_answer_is_refused_with_those_that_can() {
    let missing = "/no/such/file.nt";
    let graphs = "but as nt, nq, ttl, trig, rdfxml, jsonld or arrow (--format)";
    for format in ["csv", "table", "json", "xml", "tsv"] {
        let says = format!("triples can't be written as {format}, {graphs}");
        let data = file("refused.nt", "");
        fails(&["query", "--data", &data, KNOWN, "--format", format], &["the query: ", &says]);
    }
    let data = file("refused-too.nt", "");
    let says = ["rows can't be written as ttl, but as table, json, xml, csv, tsv or arrow (--format)"];
    fails(&["query", "--data", &data, "SELECT * { ?s ?p ?o }", "--format", "ttl"], &says);
    fails(&["query", "--data", &data, "ASK { ?s ?p ?o }", "--format", "nt"], &["yes or no can't be written as nt"]);
    fails(&["query", "--data", missing, "DESCRIBE *", "--format", "csv"], &[missing]);
}

#[test]
fn a_predicate_that_xml_can_not_name_is_told() {
    let data = file("unnamed.nt", "<http://e/s> <http://e/1> <http://e/o> .\n");
    let output = run(&["query", "--data", &data, "CONSTRUCT WHERE { ?s ?p ?o }", "--format", "rdfxml"]);
    assert_eq!(output.status.code(), Some(1));
    let says = "<http://e/s> <http://e/1> <http://e/o>: RDF/XML has no way to write this predicate; --format nt, ttl \
        and jsonld have";
    assert!(stderr(&output).contains(says), "{}", stderr(&output));
}
