//! The triples of CONSTRUCT and DESCRIBE, and their texts.

use super::*;
use oxrdf::graph::CanonicalizationAlgorithm;
use oxrdf::{Graph, Literal, NamedNode, Quad, Term, Triple};
use std::collections::BTreeSet;
use vicus_service::{Error, ErrorKind, Format};

pub(super) const RDF: [Format; 6] =
    [Format::NTriples, Format::NQuads, Format::Turtle, Format::TriG, Format::RdfXml, Format::JsonLd];

/// The triples read from a text by other parsers, with canonical names of blank nodes.
fn read(format: Format, text: &[u8]) -> Graph {
    let mut graph: Graph = parsed(format, text).into_iter().collect();
    graph.canonicalize(CanonicalizationAlgorithm::Unstable);
    graph
}

/// The triples read from a text by other parsers, each as often as it is there.
pub(super) fn parsed(format: Format, text: &[u8]) -> Vec<Triple> {
    let of_quads = |quads: Result<Vec<Quad>, String>| -> Result<Vec<Triple>, String> {
        quads?
            .into_iter()
            .map(|quad| if quad.graph_name.is_default_graph() { Ok(quad.into()) } else { Err(quad.to_string()) })
            .collect()
    };
    let of = |error: &dyn std::fmt::Display| error.to_string();
    let triples: Result<Vec<Triple>, String> = match format {
        Format::NTriples => oxttl::NTriplesParser::new().for_slice(text).collect::<Result<_, _>>().map_err(|e| of(&e)),
        Format::Turtle => oxttl::TurtleParser::new().for_slice(text).collect::<Result<_, _>>().map_err(|e| of(&e)),
        Format::RdfXml => oxrdfxml::RdfXmlParser::new().for_slice(text).collect::<Result<_, _>>().map_err(|e| of(&e)),
        Format::NQuads => {
            of_quads(oxttl::NQuadsParser::new().for_slice(text).collect::<Result<_, _>>().map_err(|e| of(&e)))
        }
        Format::TriG => {
            of_quads(oxttl::TriGParser::new().for_slice(text).collect::<Result<_, _>>().map_err(|e| of(&e)))
        }
        Format::JsonLd => {
            of_quads(oxjsonld::JsonLdParser::new().for_slice(text).collect::<Result<_, _>>().map_err(|e| of(&e)))
        }
        other => panic!("{other:?} is no RDF"),
    };
    triples.unwrap_or_else(|error| panic!("{format:?}: {error}\n{}", String::from_utf8_lossy(text)))
}

/// A small generator of numbers: Knuth's MMIX.
#[derive(Debug)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

const PIECES: [&str; 24] = [
    "",
    "a",
    "\"",
    "\\",
    "\t",
    "\n",
    "\r",
    " ",
    "  ",
    "ü",
    "日",
    "'",
    "<",
    ">",
    "&amp;",
    "]]>",
    "1",
    ".",
    "e5",
    "true",
    "\u{1F600}",
    "\u{FEFF}",
    "\u{85}",
    "a text of more than sixteen bytes",
];

/// Triples with terms of all kinds. Half of them have predicates with names in XML.
fn random_triples(chance: &mut Chance) -> String {
    let mut lines = String::new();
    for number in 0..300 {
        let text: String = (0..chance.below(7)).map(|_| PIECES[chance.below(PIECES.len())]).collect();
        let object: Term = match chance.below(8) {
            0 => NamedNode::new_unchecked(format!("http://e/é/{}#{number}?&'()", chance.below(9))).into(),
            1 => oxrdf::BlankNode::new_unchecked(["x", "1y", "n.2"][chance.below(3)]).into(),
            2 => Literal::new_language_tagged_literal_unchecked(text, ["en", "de-at"][chance.below(2)]).into(),
            3 => Literal::new_typed_literal(text, NamedNode::new_unchecked("http://e/type?a&b")).into(),
            4 => {
                let name = ["boolean", "integer", "decimal", "double", "date"][chance.below(5)];
                let text = ["1", "-0.50", "1e5", "true", "1.", "x"][chance.below(6)];
                let datatype = format!("http://www.w3.org/2001/XMLSchema#{name}");
                Literal::new_typed_literal(text, NamedNode::new_unchecked(datatype)).into()
            }
            _ => Literal::new_simple_literal(text).into(),
        };
        let subject = ["<http://e/s>", "<http://e/a/b.c>", "_:x", "_:1y", "<urn:s>"][chance.below(5)];
        let predicate =
            ["<http://e/p>", "<http://e/a#q-1>", "<urn:x:r>", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"]
                [chance.below(4)];
        lines += &format!("{subject} {predicate} {object} .\n");
    }
    lines
}

#[test]
fn random_triples_are_read_back_from_every_syntax() {
    const PREFIXES: &str = "PREFIX : <http://e/> PREFIX s: <http://e/a/> PREFIX x: <urn:x:>";
    for seed in 0..10 {
        println!("seed {seed}");
        let data = random_triples(&mut Chance(seed));
        let mut expected: Graph = oxttl::NTriplesParser::new().for_slice(&data).collect::<Result<_, _>>().unwrap();
        expected.canonicalize(CanonicalizationAlgorithm::Unstable);
        let dataset = Dataset::new(Arc::new(Snapshot::of_ntriples(data.as_bytes()).unwrap()));
        let service = service("las", 1 << 30);
        for parallel in [false, true] {
            let session = service.session(&dataset, SessionOptions { parallel_answers: parallel, ..shared() });
            for format in RDF {
                let query = format!("{PREFIXES} CONSTRUCT WHERE {{ ?s ?p ?o }}");
                let (text, outcome) = session.write(&query, format, Vec::new()).unwrap();
                assert_eq!(outcome.rows as usize, expected.len(), "seed {seed}, {format:?}");
                let found = read(format, &text);
                let text = String::from_utf8_lossy(&text);
                assert!(found == expected, "seed {seed}, {format:?}:\n{found}\n{expected}\n{text}");
            }
        }
    }
}

#[test]
fn no_triples_are_a_document_all_the_same() {
    let service = service("las", 1 << 30);
    let session = service.session(&dataset(), shared());
    for format in RDF {
        for text in ["CONSTRUCT { ?s ?p ?o } { ?s <http://e/none> ?o . ?s ?p ?o }", "DESCRIBE <http://e/none>"] {
            let (text, outcome) = session.write(text, format, Vec::new()).unwrap();
            assert_eq!((outcome.rows, read(format, &text).len()), (0, 0), "{format:?}");
        }
    }
}

/// A large graph leaves in many pieces, from several boxes: no statement is torn.
#[test]
fn several_boxes_write_one_graph_under_every_strategy() {
    let expected: BTreeSet<String> =
        (0..3000).map(|n| format!("<http://e/{}> <http://e/q> \"{n}\"", n % 500)).collect();
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let session = service.session(&dataset(), shared());
        for format in RDF {
            let query = "PREFIX : <http://e/> CONSTRUCT { ?s :q ?o . ?s a :Thing } { ?s :p ?o }";
            let (text, outcome) = session.write(query, format, Vec::new()).unwrap();
            assert_eq!(outcome.rows, 3500, "{strategy}");
            let found = read(format, &text);
            let lines = found.iter().map(|triple| triple.to_string()).filter(|line| line.contains("/q>"));
            assert!(lines.collect::<BTreeSet<_>>() == expected && found.len() == 3500, "{strategy}, {format:?}");
        }
    });
}

/// All matches of a pattern of constants and variables (`?x`), as solutions: nested loops over all triples.
fn solutions<'a>(data: &'a [[String; 3]], patterns: &[[String; 3]]) -> Vec<Vec<(String, &'a str)>> {
    let mut all: Vec<Vec<(String, &str)>> = vec![Vec::new()];
    for pattern in patterns {
        let mut next = Vec::new();
        for solution in &all {
            for triple in data {
                let mut bound = solution.clone();
                let fits = pattern.iter().zip(triple).all(|(at, term)| {
                    if !at.starts_with('?') {
                        return at == term;
                    }
                    match bound.iter().find(|(name, _)| name == at) {
                        Some((_, old)) => *old == term,
                        None => {
                            bound.push((at.clone(), term));
                            true
                        }
                    }
                });
                next.extend(fits.then_some(bound));
            }
        }
        all = next;
    }
    all
}

fn graph_of(lines: impl IntoIterator<Item = String>) -> Graph {
    let text: String = lines.into_iter().map(|line| line + " .\n").collect();
    let mut graph: Graph =
        oxttl::NTriplesParser::new().for_slice(&text).collect::<Result<_, _>>().expect("good N-Triples");
    graph.canonicalize(CanonicalizationAlgorithm::Unstable);
    graph
}

#[test]
fn random_graphs_are_those_of_nested_loops_under_every_strategy() {
    for (seed, strategy) in vicus::STRATEGIES
        .iter()
        .map(|strategy| strategy.name())
        .enumerate()
        .flat_map(|(n, name)| (0..12).map(move |k| (100 * n + k, name)))
    {
        println!("seed {seed}, {strategy}");
        let chance = &mut Chance(seed as u64);
        let node = |chance: &mut Chance| format!("<http://e/{}>", chance.below(7));
        let data: BTreeSet<[String; 3]> = (0..30)
            .map(|_| {
                let object = if chance.below(4) == 0 { format!("\"{}\"", chance.below(3)) } else { node(chance) };
                [node(chance), format!("<http://p/{}>", chance.below(3)), object]
            })
            .collect();
        let data: Vec<[String; 3]> = data.into_iter().collect();
        let at = |chance: &mut Chance| match chance.below(5) {
            0 => node(chance),
            _ => ["?a", "?b", "?c", "?d"][chance.below(4)].to_owned(),
        };
        let pattern = |chance: &mut Chance| {
            let predicate =
                if chance.below(3) == 0 { "?p".to_owned() } else { format!("<http://p/{}>", chance.below(3)) };
            [at(chance), predicate, at(chance)]
        };
        let patterns: Vec<[String; 3]> = (0..1 + chance.below(2)).map(|_| pattern(chance)).collect();
        let blank = |chance: &mut Chance| if chance.below(3) == 0 { "_:new".to_owned() } else { at(chance) };
        let template: Vec<[String; 3]> =
            (0..1 + chance.below(3)).map(|_| [blank(chance), pattern(chance)[1].clone(), blank(chance)]).collect();
        let solutions = solutions(&data, &patterns);
        let mut made = BTreeSet::new();
        for (number, solution) in solutions.iter().enumerate() {
            let term = |at: &String| match at.as_str() {
                "_:new" => Some(format!("_:s{number}")),
                name if name.starts_with('?') => {
                    solution.iter().find(|(bound, _)| bound == name).map(|(_, term)| (*term).to_owned())
                }
                constant => Some(constant.to_owned()),
            };
            for triple in &template {
                let terms: Option<Vec<String>> = triple.iter().map(term).collect();
                // No literal stands but as an object.
                made.extend(
                    terms
                        .filter(|terms| !terms[0].starts_with('"') && terms[1].starts_with('<'))
                        .map(|terms| terms.join(" ")),
                );
            }
        }
        let described: BTreeSet<String> = {
            let resources = solutions.iter().filter_map(|solution| solution.iter().find(|(name, _)| name == "?a"));
            let resources: BTreeSet<&str> = resources.map(|(_, term)| *term).chain(["<http://e/3>"]).collect();
            data.iter().filter(|triple| resources.contains(triple[0].as_str())).map(|triple| triple.join(" ")).collect()
        };
        let text = |triples: &[[String; 3]]| triples.iter().map(|triple| triple.join(" ") + " . ").collect::<String>();
        let snapshot =
            Snapshot::of_ntriples(data.iter().map(|triple| triple.join(" ") + " .\n").collect::<String>().as_bytes());
        let service = service(strategy, 1 << 30);
        let session = service.session(&Dataset::new(Arc::new(snapshot.unwrap())), shared());
        let queries = [
            (format!("CONSTRUCT {{ {} }} {{ {} }}", text(&template), text(&patterns)), made),
            (format!("DESCRIBE ?a <http://e/3> {{ {} }}", text(&patterns)), described),
        ];
        for (query, expected) in queries {
            let (written, outcome) = session.write(&query, Format::NTriples, Vec::new()).unwrap();
            let written = String::from_utf8(written).unwrap();
            let story =
                || format!("seed {seed}, {strategy}: {query}\n{data:?}\nfound\n{written}expected\n{expected:#?}");
            assert_eq!(
                (outcome.rows as usize, written.lines().count()),
                (expected.len(), expected.len()),
                "{}",
                story()
            );
            // Many similar blank nodes take long to be named.
            if expected.len() <= 24 || !expected.iter().any(|line| line.contains("_:")) {
                assert!(
                    read(Format::NTriples, written.as_bytes()) == graph_of(expected.iter().cloned()),
                    "{}",
                    story()
                );
            }
        }
    }
}

/// oxrdfxml's writer names an element after nothing for such a predicate, and makes a line feed of a carriage return.
#[test]
fn what_xml_can_not_write_is_an_error_and_what_it_can_is_kept() {
    let service = service("las", 1 << 30);
    let written = |data: &str| {
        let dataset = Dataset::new(Arc::new(Snapshot::of_ntriples(data.as_bytes()).unwrap()));
        service.session(&dataset, shared()).write("CONSTRUCT WHERE { ?s ?p ?o }", Format::RdfXml, Vec::new())
    };
    for (data, message) in [
        ("<http://e/s> <http://e/> 1 .".replace('1', "<http://e/o>"), "no way to write this predicate"),
        ("<http://e/s> <http://e/1> \"x\" .".to_owned(), "no way to write this predicate"),
        ("<http://e/s> <http://e/p> \"\\u0001\" .".to_owned(), "U+0001"),
    ] {
        match written(&data) {
            Err(error @ Error::Sink(_)) => {
                assert!(error.to_string().contains(message), "{error}");
                assert_eq!(error.kind(), ErrorKind::Sink);
            }
            other => panic!("{data}: {:?}", other.map(drop)),
        }
    }
    let (text, _) = written("<http://e/s> <http://e/p> \" a\\r\\n\" .").unwrap();
    let found = read(Format::RdfXml, &text);
    assert_eq!(found.iter().next().unwrap().object.to_string(), "\" a\\r\\n\"");
}

#[test]
fn the_memory_of_a_set_of_triples_is_booked() {
    let service = service("las", 1 << 30);
    let limits = vicus_service::Limits { memory: Some(4 << 20), ..Default::default() };
    let session = service.session(&dataset(), SessionOptions { limits, ..shared() });
    // Millions of triples, and each must be remembered.
    let greedy = "CONSTRUCT { ?s <http://e/p> ?f } { ?a ?b ?c . ?d ?e ?f BIND (IRI(CONCAT('http://e/', ?c)) AS ?s) }";
    assert_eq!(session.count(greedy).unwrap_err().kind(), ErrorKind::MemoryLimit);
    // New blank nodes differ, so their triples are not remembered: they would take 7 MB.
    let passed = "CONSTRUCT { [] <http://e/p> ?n } { ?a ?b ?n . ?d ?e ?f FILTER (STRLEN(?f) < 3) }";
    assert_eq!(session.count(passed).unwrap(), 300_000);
    assert_eq!(service.memory().taken(), 0);
}
