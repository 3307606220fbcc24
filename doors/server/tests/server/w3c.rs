//! The W3C's suites for the SPARQL 1.1 Protocol and the Graph Store Protocol: their requests, sent as they stand, and
//! their expected answers.
//!
//! The request's path is ours to choose (`/sparql/` becomes `/sparql`, `/gsp` becomes `/store`); all else is the
//! suite's.

use crate::client::{Ask, Reply};
use crate::running::{Running, open};
use oxrdf::graph::CanonicalizationAlgorithm;
use oxrdf::vocab::{rdf, rdfs};
use oxrdf::{Graph, NamedNode, NamedNodeRef, NamedOrBlankNode, NamedOrBlankNodeRef, Term, TermRef};
use oxttl::TurtleParser;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use vicus_server::ServerOptions;

/// Tests not passed, with the reason.
const NOT_PASSED: [(&str, &str); 0] = [];

const MANIFEST: &str = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#";
const HTTP: &str = "http://www.w3.org/2011/http#";
const CONTENT: &str = "http://www.w3.org/2011/content#";
const UPDATE: &str = "http://www.w3.org/2009/sparql/tests/test-update#";
const STATUS: &str = "http://www.w3.org/2011/http-statusCodes#";

/// The suites' files (`../data/README.md`).
fn files() -> BTreeMap<String, Vec<u8>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/w3c.gz");
    let mut all = Vec::new();
    let packed = std::fs::File::open(&file).expect("it is packed");
    flate2::read::GzDecoder::new(packed).read_to_end(&mut all).expect("it is whole");
    let (mut files, mut rest) = (BTreeMap::new(), &all[..]);
    while !rest.is_empty() {
        let end = rest.iter().position(|&byte| byte == b'\n').expect("a line says what comes");
        let (name, length) =
            str::from_utf8(&rest[..end]).expect("ASCII").rsplit_once(' ').expect("a name and a length");
        let (text, more) = rest[end + 1..].split_at(length.parse().expect("a length"));
        files.insert(name.to_owned(), text.to_vec());
        rest = more;
    }
    files
}

struct Manifest {
    graph: Graph,
    base: String,
}

fn name_in(space: &str, name: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("{space}{name}"))
}

impl Manifest {
    fn of(name: &str, text: &[u8]) -> Manifest {
        let base = format!("https://w3c.github.io/rdf-tests/sparql/sparql11/{name}");
        let parser = TurtleParser::new().with_base_iri(&base).expect("an IRI");
        let graph = parser.for_slice(text).collect::<Result<Graph, _>>();
        Manifest { graph: graph.unwrap_or_else(|error| panic!("{name}: {error}")), base }
    }

    fn one<'a>(&self, subject: NamedOrBlankNodeRef<'a>, predicate: impl Into<NamedNodeRef<'a>>) -> Option<Term> {
        self.graph.object_for_subject_predicate(subject, predicate).map(TermRef::into_owned)
    }

    fn all(&self, subject: NamedOrBlankNodeRef<'_>, predicate: &NamedNode) -> Vec<Term> {
        self.graph.objects_for_subject_predicate(subject, predicate).map(TermRef::into_owned).collect()
    }

    fn text(&self, subject: NamedOrBlankNodeRef<'_>, space: &str, name: &str) -> Option<String> {
        match self.one(subject, &name_in(space, name))? {
            Term::Literal(literal) => Some(literal.value().to_owned()),
            other => panic!("{name} is a literal, and not {other}"),
        }
    }

    /// The node at the end of a property.
    fn node(&self, subject: NamedOrBlankNodeRef<'_>, space: &str, name: &str) -> Option<NamedOrBlankNode> {
        self.one(subject, &name_in(space, name)).map(node_of)
    }

    /// The members of the list at the end of a property.
    fn list(&self, subject: NamedOrBlankNodeRef<'_>, space: &str, name: &str) -> Vec<NamedOrBlankNode> {
        let (mut members, mut next) = (Vec::new(), self.node(subject, space, name));
        while let Some(list) = next.filter(|list| list.as_ref() != rdf::NIL.into()) {
            members.push(node_of(self.one(list.as_ref(), rdf::FIRST).expect("a list")));
            next = self.one(list.as_ref(), rdf::REST).map(node_of);
        }
        members
    }

    fn headers(&self, subject: NamedOrBlankNodeRef<'_>) -> Vec<(String, String)> {
        let text = |header: &NamedOrBlankNode, name| self.text(header.as_ref(), HTTP, name).expect("a header has both");
        let headers = self.list(subject, HTTP, "headers");
        headers.iter().map(|header| (text(header, "fieldName"), text(header, "fieldValue"))).collect()
    }

    /// The body of a request or a response: its text, and how it is encoded.
    fn body(&self, subject: NamedOrBlankNodeRef<'_>) -> Option<(String, String)> {
        let body = self.node(subject, HTTP, "body")?;
        let encoding = self.text(body.as_ref(), CONTENT, "characterEncoding").unwrap_or_else(|| "UTF-8".into());
        Some((self.text(body.as_ref(), CONTENT, "chars").expect("a body has a text"), encoding))
    }

    /// Runs all tests: the names of passed ones, and the faults of the others.
    fn run(&self, files: &BTreeMap<String, Vec<u8>>) -> Vec<(String, Result<(), String>)> {
        let root = NamedNode::new_unchecked(&self.base);
        let tests = self.list(root.as_ref().into(), MANIFEST, "entries");
        let run = |test: &NamedOrBlankNode| {
            let NamedOrBlankNode::NamedNode(name) = test else { panic!("a test has a name") };
            let name = name.as_str().rsplit('#').next().unwrap_or_default().to_owned();
            (name, self.run_one(test.as_ref(), files))
        };
        tests.iter().map(run).collect()
    }

    fn run_one(&self, test: NamedOrBlankNodeRef<'_>, files: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
        let server = Running::start("", for_www());
        for data in self.all(test, &name_in(UPDATE, "graphData")) {
            let data = node_of(data);
            let Some(NamedOrBlankNode::NamedNode(file)) = self.node(data.as_ref(), UPDATE, "graph") else {
                panic!("data is a file")
            };
            let Some(Term::Literal(graph)) = self.one(data.as_ref(), rdfs::LABEL) else { panic!("it has a name") };
            let file = file.as_str().rsplit("/sparql11/").next().unwrap_or_default();
            let put = Ask::new("PUT", "/store").parameter("graph", graph.value());
            let reply = server.ask(&put.with("content-type", "application/n-triples").body(files[file].clone()));
            assert_eq!(reply.status, 201, "{reply:?}");
        }
        let action = self.node(test, MANIFEST, "action").expect("a test is an action");
        let host = self.text(action.as_ref(), HTTP, "connectionAuthority").expect("a test has a host");
        let mut location = None;
        for (number, request) in self.list(action.as_ref(), HTTP, "requests").iter().enumerate() {
            let ask = self.ask_of(request.as_ref(), &host, location.as_deref());
            let reply = server.ask(&ask);
            let expected = self.node(request.as_ref(), HTTP, "resp").expect("it says what to expect");
            self.compare(expected.as_ref(), &reply).map_err(|error| format!("request {}: {error}", number + 1))?;
            if self.text(expected.as_ref(), MANIFEST, "expectedLocation").is_some() {
                location = Some(reply.header("location").ok_or("there is no Location")?.to_owned());
            }
        }
        Ok(())
    }

    fn ask_of(&self, request: NamedOrBlankNodeRef<'_>, host: &str, location: Option<&str>) -> Ask {
        let method = self.text(request, HTTP, "methodName").expect("a request has a method");
        let path = self.text(request, HTTP, "absolutePath").expect("a request has a path");
        let path = path.replacen("/sparql/", "/sparql", 1).replacen("/gsp", "/store", 1);
        let path = path.replace("$LOCATION$", location.unwrap_or_default());
        let mut ask = Ask::new(&method, &path).with("host", host);
        for (name, value) in self.headers(request) {
            ask = ask.with(&name, &value);
        }
        match self.body(request) {
            None => ask,
            Some((text, encoding)) => ask.body(match encoding.as_str() {
                "UTF-8" => text.into_bytes(),
                "UTF-16" => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
                other => panic!("{other} is unknown"),
            }),
        }
    }

    fn compare(&self, expected: NamedOrBlankNodeRef<'_>, reply: &Reply) -> Result<(), String> {
        let statuses = self.all(expected, &name_in(MANIFEST, "expectedStatus"));
        let fits = |status: &Term| {
            let Term::NamedNode(status) = status else { panic!("a status is an IRI") };
            match status.as_str().strip_prefix(STATUS).expect("a status of HTTP") {
                "OK" => reply.status == 200,
                "Created" => reply.status == 201,
                "NoContent" => reply.status == 204,
                "NotFound" => reply.status == 404,
                "StatusCode2xx" => reply.status / 100 == 2,
                "StatusCode3xx" => reply.status / 100 == 3,
                "StatusCode4xx" => reply.status / 100 == 4,
                other => panic!("{other} is unknown"),
            }
        };
        if !statuses.iter().any(fits) {
            return Err(format!("status {}: {}", reply.status, String::from_utf8_lossy(&reply.body)));
        }
        let media_type = reply.media_type();
        match self.text(expected, MANIFEST, "expectedFormat").as_deref() {
            None => {}
            Some("boolean" | "tabular") if media_type.starts_with("application/sparql-results+") => {}
            Some("tabular") if media_type == "text/csv" || media_type == "text/tab-separated-values" => {}
            Some("RDF") if ["text/turtle", "application/rdf+xml", "application/n-triples"].contains(&media_type) => {}
            Some(other) => return Err(format!("{other} as {media_type}")),
        }
        if let Some(wanted) = self.text(expected, MANIFEST, "expectedBoolean") {
            let text = reply.text();
            let word = format!("\"boolean\":{wanted}");
            let xml = format!("<boolean>{wanted}</boolean>");
            if !text.replace(' ', "").contains(&word) && !text.contains(&xml) {
                return Err(format!("{wanted} is expected: {text}"));
            }
        }
        let headers = self.headers(expected);
        for (name, value) in &headers {
            let has = reply.header(name).unwrap_or_default();
            if !has.eq_ignore_ascii_case(value) {
                return Err(format!("{name} is {value} by the suite, and was {has}"));
            }
        }
        if let Some((text, _)) = self.body(expected) {
            assert!(headers.iter().any(|(_, value)| value.starts_with("text/turtle")), "all bodies are Turtle");
            let (wanted, found) = (triples(text.as_bytes())?, triples(&reply.body)?);
            if wanted != found {
                return Err(format!("{wanted} is expected, and came {found}"));
            }
        }
        Ok(())
    }
}

fn node_of(term: Term) -> NamedOrBlankNode {
    match term {
        Term::NamedNode(node) => node.into(),
        Term::BlankNode(node) => node.into(),
        other => panic!("{other} is no node"),
    }
}

/// Its blank nodes get names by their triples.
fn triples(turtle: &[u8]) -> Result<Graph, String> {
    let parser = TurtleParser::new().with_base_iri("http://www.example/").expect("an IRI");
    let mut graph: Graph = parser.for_slice(turtle).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    graph.canonicalize(CanonicalizationAlgorithm::Unstable);
    Ok(graph)
}

fn run(names: &[&str], least: usize) {
    let files = files();
    let mut wrong = Vec::new();
    let mut passed = 0;
    for name in names {
        for (test, outcome) in Manifest::of(name, &files[*name]).run(&files) {
            let is_listed = NOT_PASSED.iter().any(|(each, _)| *each == test);
            passed += usize::from(outcome.is_ok());
            match outcome {
                Err(error) if !is_listed => wrong.push(format!("{test}: {error}")),
                Ok(()) if is_listed => wrong.push(format!("{test}: passes, and is listed")),
                _ => {}
            }
        }
    }
    println!("{passed} passed of {names:?}");
    assert!(wrong.is_empty(), "{passed} passed, {} did not:\n{}", wrong.len(), wrong.join("\n"));
    assert!(passed >= least, "only {passed} tests were found");
}

#[test]
fn the_protocol_suite_passes() {
    run(&["protocol/manifest.ttl"], 34);
}

#[test]
fn the_graph_store_suite_passes() {
    run(&["graph-store-protocol/manifest-direct.ttl", "graph-store-protocol/manifest-indirect.ttl"], 13);
}

/// The suite for the Service Description is prose: RDF is returned, it has `sd:endpoint`, and it conforms to the
/// vocabulary.
#[test]
fn the_service_describes_itself() {
    let server = Running::start("<http://e/s> <http://e/p> 1 .", for_www());
    server.update("INSERT DATA { GRAPH <http://e/g> { <http://e/s> <http://e/p> 2 } }");
    let reply = server.ask(&Ask::get("/sparql").with("accept", "text/turtle"));
    assert_eq!((reply.status, reply.media_type()), (200, "text/turtle"), "{reply:?}");
    let graph = triples(&reply.body).expect("it is RDF");
    let space = "http://www.w3.org/ns/sparql-service-description#";
    let of_type = |name: &str| graph.subjects_for_predicate_object(rdf::TYPE, &name_in(space, name)).count();
    assert_eq!(of_type("Service"), 1, "{graph}");
    let endpoint = name_in(space, "endpoint");
    let endpoints: Vec<_> = graph.triples_for_predicate(&endpoint).map(|triple| triple.object.to_string()).collect();
    assert_eq!(endpoints, ["<http://localhost/sparql>"]);
    // The vocabulary's terms, as its document lists them.
    const TERMS: [&str; 30] = [
        "Service",
        "Feature",
        "Language",
        "Function",
        "Aggregate",
        "EntailmentRegime",
        "EntailmentProfile",
        "GraphCollection",
        "Dataset",
        "Graph",
        "NamedGraph",
        "endpoint",
        "feature",
        "defaultEntailmentRegime",
        "entailmentRegime",
        "defaultSupportedEntailmentProfile",
        "supportedEntailmentProfile",
        "extensionFunction",
        "extensionAggregate",
        "languageExtension",
        "supportedLanguage",
        "propertyFeature",
        "defaultDataset",
        "availableGraphs",
        "resultFormat",
        "inputFormat",
        "defaultGraph",
        "namedGraph",
        "name",
        "graph",
    ];
    const INSTANCES: [&str; 8] = [
        "SPARQL10Query",
        "SPARQL11Query",
        "SPARQL11Update",
        "DereferencesURIs",
        "UnionDefaultGraph",
        "RequiresDataset",
        "EmptyGraphs",
        "BasicFederatedQuery",
    ];
    for triple in &graph {
        for term in [TermRef::from(triple.predicate), triple.object] {
            if let TermRef::NamedNode(node) = term
                && let Some(name) = node.as_str().strip_prefix(space)
            {
                assert!(TERMS.contains(&name) || INSTANCES.contains(&name), "{name} is a term of the vocabulary");
            }
        }
    }
    assert_eq!((of_type("Dataset"), of_type("NamedGraph")), (1, 1), "{graph}");
}

/// The host of the suites' requests.
fn for_www() -> ServerOptions {
    ServerOptions { allow_hosts: vec!["www.example".into()], ..open() }
}
