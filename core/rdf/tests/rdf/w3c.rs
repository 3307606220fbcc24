//! The W3C's suites for the syntaxes of RDF: what must be accepted, what refused, and what a document means.

use crate::syntaxes::{parse, parse_12};
use crate::{read, shared};
use oxrdf::graph::CanonicalizationAlgorithm;
use oxrdf::vocab::rdf;
use oxrdf::{Dataset, Graph, GraphName, NamedNode, NamedNodeRef, NamedOrBlankNode, Quad, Term, TermRef, Triple};
use oxttl::{NQuadsParser, NTriplesParser, TurtleParser};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use vicus_rdf::load::{ParsedPart, Syntax};
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
    let index = snapshot.index(Order::Gspo);
    let triple = |row| {
        let [subject, predicate, object] = index.triple(row).map(|id| snapshot.term(id));
        let subject: NamedOrBlankNode = match subject {
            Term::NamedNode(node) => node.into(),
            Term::BlankNode(node) => node.into(),
            other => panic!("{other} is no subject"),
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

/// The files of a suite that is packed beside the tests: `../data/README.md`.
fn packed(suite: &str) -> BTreeMap<String, Vec<u8>> {
    let all = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(format!("{suite}.gz")));
    let (mut files, mut rest) = (BTreeMap::new(), &all[..]);
    while !rest.is_empty() {
        let end = rest.iter().position(|&byte| byte == b'\n').expect("a line says what comes");
        let head = str::from_utf8(&rest[..end]).expect("names are ASCII");
        let (name, length) = head.rsplit_once(' ').expect("a name and a length");
        let (file, more) = rest[end + 1..].split_at(length.parse().expect("a length"));
        files.insert(name.to_owned(), file.to_vec());
        rest = more;
    }
    files
}

/// A test of a packed suite: its kind, its files.
struct Packed {
    name: String,
    kind: String,
    action: String,
    result: Option<String>,
}

/// The tests that a manifest lists. One that is described and not listed is out of use.
fn listed(manifest: &[u8]) -> Vec<Packed> {
    let base = "http://manifest.example/";
    let parser = TurtleParser::new().with_base_iri(base).unwrap();
    let manifest: Graph = parser.for_slice(manifest).collect::<Result<_, _>>().unwrap();
    let word = |name: &str| {
        NamedNode::new_unchecked(format!("http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#{name}"))
    };
    let node = |term: TermRef<'_>| -> NamedOrBlankNode {
        match term {
            TermRef::NamedNode(node) => node.into_owned().into(),
            TermRef::BlankNode(node) => node.into_owned().into(),
            other => panic!("{other}: a node is expected"),
        }
    };
    let file = |term: TermRef<'_>| match term {
        TermRef::NamedNode(node) => node.as_str().strip_prefix(base).expect("a file of the suite").to_owned(),
        _ => panic!("a file is named by an IRI"),
    };
    let entries = manifest.triples_for_predicate(word("entries").as_ref()).next().expect("a list").object;
    let (mut tests, mut rest) = (Vec::new(), node(entries));
    while let Some(first) = manifest.object_for_subject_predicate(&rest, rdf::FIRST) {
        let test = node(first);
        let object = |predicate: NamedNodeRef<'_>| manifest.object_for_subject_predicate(&test, predicate);
        let Some(TermRef::NamedNode(kind)) = object(rdf::TYPE) else { panic!("{test} has a type") };
        let kind = kind.as_str().strip_prefix("http://www.w3.org/ns/rdftest#").expect("of a test").to_owned();
        let action = file(object(word("action").as_ref()).expect("a file"));
        tests.push(Packed { name: test.to_string(), kind, action, result: object(word("result").as_ref()).map(file) });
        rest = node(manifest.object_for_subject_predicate(&rest, rdf::REST).expect("a list goes on"));
    }
    tests
}

/// What was parsed, with canonical names of blank nodes.
fn dataset_of(parsed: &ParsedPart) -> Dataset {
    let named = |term: Term| -> NamedOrBlankNode {
        match term {
            Term::NamedNode(node) => node.into(),
            Term::BlankNode(node) => node.into(),
            other => panic!("{other} is no node"),
        }
    };
    let quad = |(triple, graph): ([u32; 3], Option<u32>)| {
        let [subject, predicate, object] = triple.map(|number| parsed.term(number));
        let graph_name = match graph {
            None => GraphName::DefaultGraph,
            Some(name) => match named(parsed.term(name)) {
                NamedOrBlankNode::NamedNode(node) => node.into(),
                NamedOrBlankNode::BlankNode(node) => node.into(),
            },
        };
        let Term::NamedNode(predicate) = predicate else { panic!("a predicate is an IRI") };
        Quad { subject: named(subject), predicate, object, graph_name }
    };
    let of_default = parsed.quads().triples.iter().map(|triple| (*triple, None));
    let of_named = parsed.quads().named.iter().map(|&[s, p, o, graph]| ([s, p, o], Some(graph)));
    canonical(of_default.chain(of_named).map(quad).collect())
}

fn canonical(mut dataset: Dataset) -> Dataset {
    dataset.canonicalize(CanonicalizationAlgorithm::Unstable);
    dataset
}

/// Runs a packed suite; returns how many tests it has.
fn run(suite: &str, syntax: Syntax) -> usize {
    let files = packed(suite);
    let text = |name: &str| files.get(name).unwrap_or_else(|| panic!("{name} is packed"));
    let tests = listed(text("manifest.ttl"));
    for Packed { name, kind, action, result } in &tests {
        let base = format!("https://w3c.github.io/rdf-tests/rdf/rdf11/{suite}/{action}");
        let parsed = parse(syntax, text(action), Some(&base));
        if kind.ends_with("NegativeSyntax") || kind.ends_with("NegativeEval") {
            let error = parsed.err().unwrap_or_else(|| panic!("{name} must be refused"));
            assert!(error.line > 0, "{name}: {error}");
            continue;
        }
        let parsed = parsed.unwrap_or_else(|error| panic!("{name}: {error}"));
        let expected = match (kind.ends_with("Eval"), result) {
            (true, Some(result)) => NQuadsParser::new().for_slice(text(result)).collect::<Result<_, _>>(),
            (false, _) if syntax == Syntax::NQuads => {
                NQuadsParser::new().for_slice(text(action)).collect::<Result<_, _>>()
            }
            (false, _) => continue,
            (true, None) => panic!("{name} has a result"),
        };
        let is_right = dataset_of(&parsed) == canonical(expected.expect("good N-Quads"));
        let test = name.trim_matches(['<', '>']).rsplit('#').next().unwrap_or_default();
        assert!(is_right, "{test}: {}", dataset_of(&parsed));
    }
    println!("{} tests", tests.len());
    tests.len()
}

#[test]
fn nquads_suite() {
    assert_eq!(run("rdf-n-quads", Syntax::NQuads), 87);
}

#[test]
fn trig_suite() {
    assert_eq!(run("rdf-trig", Syntax::TriG), 356);
}

#[test]
fn rdfxml_suite() {
    assert_eq!(run("rdf-xml", Syntax::RdfXml), 166);
}

/// JSON-LD's tests that are not passed, each with the reason.
const JSONLD_NOT_PASSED: &str = include_str!("jsonld-not-passed.txt");

/// Why a test of JSON-LD may stand on that list.
const JSONLD_REASONS: [&str; 2] = [
    "needs a context from another document, and loading reads no other documents",
    "a base that is no IRI is refused, and the test expects that it is dropped",
];

/// Options of a processor's programming interface that no file says and a loader does not offer.
fn is_of_interface(option: &str) -> bool {
    ["expandContext", "produceGeneralizedRdf", "rdfDirection", "processingMode=json-ld-1.0", "specVersion=json-ld-1.0"]
        .contains(&option)
}

#[test]
fn jsonld_suite() {
    let files = packed("json-ld");
    let text = |name: &str| &files.get(name).unwrap_or_else(|| panic!("{name} is packed"))[..];
    let listed: BTreeMap<&str, &str> =
        JSONLD_NOT_PASSED.lines().map(|line| line.split_once(": ").expect("a name and a reason")).collect();
    for reason in listed.values() {
        assert!(JSONLD_REASONS.contains(reason), "{reason:?} is no reason");
    }
    let (mut count, mut wrong) = (0, String::new());
    for test in str::from_utf8(text("manifest.tsv")).expect("ASCII").lines() {
        let [name, kind, action, expected, options] = test.split('\t').collect::<Vec<_>>()[..] else {
            panic!("five columns: {test}")
        };
        if options.split(',').any(is_of_interface) {
            continue;
        }
        count += 1;
        let of_manifest = format!("https://w3c.github.io/json-ld-api/tests/{action}");
        let base = options.split(',').find_map(|option| option.strip_prefix("base=")).unwrap_or(&of_manifest);
        let parsed = parse(Syntax::JsonLd, text(action), Some(base));
        let verdict = match (kind, parsed) {
            ("NegativeEvaluationTest", parsed) => parsed.is_err().then_some(()).ok_or("is not refused".to_owned()),
            (_, Err(error)) => Err(error.to_string()),
            ("PositiveSyntaxTest", Ok(_)) => Ok(()),
            ("PositiveEvaluationTest", Ok(parsed)) => {
                let quads = NQuadsParser::new().for_slice(text(expected)).collect::<Result<Dataset, _>>();
                let quads = canonical(quads.unwrap_or_else(|error| panic!("{name}: {error}")));
                (dataset_of(&parsed) == quads).then_some(()).ok_or("other quads".to_owned())
            }
            (kind, _) => panic!("no test of kind {kind} is known"),
        };
        match (verdict, listed.get(name)) {
            (Ok(()), Some(reason)) => wrong += &format!("{name} is passed, but listed: {reason}\n"),
            (Err(why), None) => wrong += &format!("{name} ({kind}, {expected}): {why}\n"),
            _ => {}
        }
    }
    println!("{count} tests, {} of them not passed", listed.len());
    assert!(wrong.is_empty(), "\n{wrong}");
    assert_eq!(count, 443);
}

/// Runs a test of RDF 1.2; whether it is refused without the option.
fn run_12(test: &Packed, syntax: Syntax, base: &str, text: &dyn Fn(&str) -> Vec<u8>) -> Result<bool, String> {
    let action = text(&test.action);
    let parsed = parse_12(syntax, &action, Some(base));
    let of_11 = parse(syntax, &action, Some(base));
    if test.kind.contains("Negative") {
        let error = parsed.err().ok_or("it must be refused")?;
        return if error.line > 0 && of_11.is_err() { Ok(true) } else { Err(format!("{error}, and {of_11:?}")) };
    }
    let parsed = parsed.map_err(|error| error.to_string())?;
    let result = test.result.as_ref().map(|result| text(result));
    let quads = match &result {
        Some(result) => NQuadsParser::new().for_slice(result).collect::<Result<Dataset, _>>(),
        None if syntax.is_of_lines() => NQuadsParser::new().for_slice(&action).collect(),
        None => Ok(Dataset::new()),
    };
    let expected = quads.map_err(|error| error.to_string())?;
    let found = dataset_of(&parsed);
    if (result.is_some() || syntax.is_of_lines()) && found != canonical(expected) {
        return Err(format!("found {found}"));
    }
    // Without the option, what only RDF 1.2 has is refused, and all else is as it was.
    let is_new = |quad: oxrdf::QuadRef<'_>| match quad.object {
        TermRef::Triple(_) => true,
        TermRef::Literal(literal) => literal.direction().is_some(),
        _ => false,
    };
    match of_11 {
        Ok(parsed) if dataset_of(&parsed) == found && !found.iter().any(is_new) => Ok(false),
        Err(error) if error.message.contains("--rdf-12") && error.line > 0 && error.column > 0 => Ok(true),
        other => Err(format!("without the option: {other:?}")),
    }
}

#[test]
fn suites_of_rdf_12() {
    let suites: [(&str, &[&str], Syntax); 5] = [
        ("n-triples", &["syntax/", "c14n/"], Syntax::NTriples),
        ("n-quads", &["syntax/", "c14n/"], Syntax::NQuads),
        ("turtle", &["syntax/", "eval/"], Syntax::Turtle),
        ("trig", &["syntax/", "eval/"], Syntax::TriG),
        ("xml", &["eval/"], Syntax::RdfXml),
    ];
    let (mut counts, mut wrong) = (Vec::new(), Vec::new());
    for (suite, folders, syntax) in suites {
        let files = packed(&format!("rdf12-{suite}"));
        let (mut count, mut refused) = (0, 0);
        for folder in folders {
            let text = |name: &str| {
                let name = format!("{folder}{name}");
                files.get(&name).unwrap_or_else(|| panic!("{name} is packed")).clone()
            };
            for test in listed(&text("manifest.ttl")) {
                count += 1;
                let base = format!("https://w3c.github.io/rdf-tests/rdf/rdf12/rdf-{suite}/{folder}{}", test.action);
                let name = test.name.trim_matches(['<', '>']).rsplit('#').next().unwrap_or_default();
                match run_12(&test, syntax, &base, &text) {
                    Err(error) => wrong.push(format!("{name}: {error}")),
                    Ok(is_refused) => refused += usize::from(is_refused),
                }
            }
        }
        counts.push((count, refused));
    }
    assert!(wrong.is_empty(), "{} tests:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(counts, [(70, 34), (68, 32), (103, 103), (60, 60), (31, 28)]);
}
