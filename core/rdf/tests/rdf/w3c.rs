//! The W3C's suites for N-Triples and Turtle: what must be accepted, what refused, and what Turtle means.

use crate::{read, shared};
use oxrdf::graph::CanonicalizationAlgorithm;
use oxrdf::vocab::rdf;
use oxrdf::{Graph, NamedNode, NamedNodeRef, NamedOrBlankNode, Term, TermRef, Triple};
use oxttl::{NTriplesParser, TurtleParser};
use std::path::{Path, PathBuf};
use vicus_rdf::{Order, Snapshot};

struct Test {
    name: String,
    kind: String,
    action: PathBuf,
    result: Option<PathBuf>,
}

/// The tests of a folder's manifest.
fn tests(folder: &Path) -> Vec<Test> {
    let base = "http://manifest.example/";
    let manifest: Graph = TurtleParser::new()
        .with_base_iri(base)
        .unwrap()
        .for_slice(&read(&folder.join("manifest.ttl")))
        .collect::<Result<_, _>>()
        .unwrap();
    let vocabulary = |name: &str| {
        NamedNode::new_unchecked(format!("http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#{name}"))
    };
    let (action, result) = (vocabulary("action"), vocabulary("result"));
    let file = |term: TermRef<'_>| match term {
        TermRef::NamedNode(node) => folder.join(node.as_str().strip_prefix(base).expect("a file of the folder")),
        _ => panic!("a file is named by an IRI"),
    };
    let types = manifest.triples_for_predicate(rdf::TYPE);
    types
        .filter_map(|triple| {
            let TermRef::NamedNode(kind) = triple.object else { return None };
            let kind = kind.as_str().strip_prefix("http://www.w3.org/ns/rdftest#")?.to_owned();
            let object = |predicate: NamedNodeRef<'_>| manifest.object_for_subject_predicate(triple.subject, predicate);
            Some(Test {
                name: triple.subject.to_string(),
                kind,
                action: file(object(action.as_ref())?),
                result: object(result.as_ref()).map(file),
            })
        })
        .collect()
}

fn graph_of(snapshot: &Snapshot) -> Graph {
    let index = snapshot.index(Order::Spo);
    let triple = |row| {
        let [subject, predicate, object] = index.triple(row).map(|id| snapshot.term(id));
        let subject: NamedOrBlankNode = match subject {
            Term::NamedNode(node) => node.into(),
            Term::BlankNode(node) => node.into(),
            Term::Literal(_) => panic!("a literal is no subject"),
        };
        let Term::NamedNode(predicate) = predicate else { panic!("a predicate is an IRI") };
        Triple { subject, predicate, object }
    };
    (0..index.len()).map(triple).collect()
}

#[test]
fn ntriples_suite() {
    let Some(folder) = shared("rdf-tests/rdf/rdf11/rdf-n-triples") else { return };
    let tests = tests(&folder);
    for test in &tests {
        let text = read(&test.action);
        let snapshot = Snapshot::of_ntriples(&text);
        match test.kind.as_str() {
            "TestNTriplesPositiveSyntax" => {
                let expected: Graph = NTriplesParser::new().for_slice(&text).collect::<Result<_, _>>().unwrap();
                assert_eq!(graph_of(&snapshot.unwrap_or_else(|error| panic!("{}: {error}", test.name))), expected);
            }
            "TestNTriplesNegativeSyntax" => assert!(snapshot.is_err(), "{} must be refused", test.name),
            kind => panic!("no test of kind {kind} is known"),
        }
    }
    println!("{} tests", tests.len());
    assert!(tests.len() >= 70, "only {} tests", tests.len());
}

#[test]
fn turtle_suite() {
    let Some(folder) = shared("rdf-tests/rdf/rdf11/rdf-turtle") else { return };
    let tests = tests(&folder);
    for test in &tests {
        let file = test.action.file_name().unwrap().to_str().unwrap();
        let base = format!("https://w3c.github.io/rdf-tests/rdf/rdf11/rdf-turtle/{file}");
        let snapshot = Snapshot::of_turtle(&read(&test.action), Some(&base));
        match test.kind.as_str() {
            "TestTurtleEval" => {
                let snapshot = snapshot.unwrap_or_else(|error| panic!("{}: {error}", test.name));
                let text = read(test.result.as_ref().expect("an expected result"));
                let mut expected: Graph = NTriplesParser::new().for_slice(&text).collect::<Result<_, _>>().unwrap();
                let mut graph = graph_of(&snapshot);
                graph.canonicalize(CanonicalizationAlgorithm::Unstable);
                expected.canonicalize(CanonicalizationAlgorithm::Unstable);
                assert_eq!(graph, expected, "{}", test.name);
                // And the expected result by our other parser.
                let mut other = graph_of(&Snapshot::of_ntriples(&text).unwrap());
                other.canonicalize(CanonicalizationAlgorithm::Unstable);
                assert_eq!(other, expected, "{}", test.name);
            }
            "TestTurtlePositiveSyntax" => assert!(snapshot.is_ok(), "{}: {}", test.name, snapshot.err().unwrap()),
            "TestTurtleNegativeEval" | "TestTurtleNegativeSyntax" => {
                assert!(snapshot.is_err(), "{} must be refused", test.name)
            }
            kind => panic!("no test of kind {kind} is known"),
        }
    }
    println!("{} tests", tests.len());
    assert!(tests.len() >= 300, "only {} tests", tests.len());
}
