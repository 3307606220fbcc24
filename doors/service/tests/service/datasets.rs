//! Questions about several graphs: loaded by several workers, and answered by several boxes.

use super::*;
use std::collections::{BTreeMap, BTreeSet};
use vicus_rdf::load::{LoadOptions, LoadSource, Syntax};
use vicus_service::{Cancel, Format};

/// A graph (0 is the default graph), a subject and an object.
type Quad = (usize, usize, usize);

/// Every fifth triple is in two graphs.
fn quads() -> BTreeSet<Quad> {
    let quad = |n: usize| (n % 40, n % 300, n * 7 % 97);
    let again = |n: usize| ((n + 1) % 40, n % 300, n * 7 % 97);
    (0..6000).map(quad).chain((0..6000).step_by(5).map(again)).collect()
}

/// Loaded by the threads of a service.
fn loaded(service: &Service, quads: &BTreeSet<Quad>) -> Dataset {
    let line = |&(graph, subject, object): &Quad| {
        let name = if graph == 0 { String::new() } else { format!("<http://e/g{graph}> ") };
        format!("<http://e/s{subject}> <http://e/p> \"o{object}\" {name}.\n")
    };
    let text: String = quads.iter().map(line).collect();
    let source = LoadSource::new("quads", Syntax::NQuads, std::io::Cursor::new(text.into_bytes()));
    let options = LoadOptions { chunk_bytes: 5000, ..LoadOptions::default() };
    let loaded = service.load(vec![source], options, &Cancel::new()).finish().expect("good N-Quads");
    assert_eq!(loaded.dataset.snapshot().len(), quads.len());
    loaded.dataset
}

#[test]
fn several_graphs_have_one_answer_under_every_strategy() {
    let quads = quads();
    let named = || quads.iter().filter(|quad| quad.0 > 0);
    let iri = |kind: char, number: usize| format!("<http://e/{kind}{number}>");
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    named().for_each(|quad| *counts.entry(quad.0).or_default() += 1);
    let of_each: Vec<String> = counts.iter().map(|(graph, count)| format!("{}\t{count}", iri('g', *graph))).collect();
    let merged: BTreeSet<(usize, usize)> =
        named().filter(|quad| [7, 8, 20].contains(&quad.0)).map(|quad| (quad.1, quad.2)).collect();
    let merged: Vec<String> =
        merged.iter().map(|(subject, object)| format!("{}\t\"o{object}\"", iri('s', *subject))).collect();
    let all: BTreeSet<(usize, usize)> = named().map(|quad| (quad.1, quad.2)).collect();
    let pairs = named().flat_map(|a| named().filter(move |b| a.0 == b.0 && a.2 == b.2)).count();
    let most: Vec<String> = counts
        .keys()
        .map(|graph| {
            let objects = named().filter(|quad| quad.0 == *graph).map(|quad| format!("o{}", quad.2));
            format!("{}\t\"{}\"", iri('g', *graph), objects.max().expect("it has some"))
        })
        .collect();
    let cases = [
        ("SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g", of_each),
        ("SELECT ?s ?o FROM <http://e/g7> FROM <http://e/g8> FROM <http://e/g20> { ?s ?p ?o }", merged),
        ("SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?s <http://e/p> ?o . ?t <http://e/p> ?o } }", vec![pairs.to_string()]),
        ("SELECT ?g ?o { GRAPH ?g { SELECT ?o { ?s ?p ?o } ORDER BY DESC(?o) LIMIT 1 } }", most),
        (
            "SELECT (COUNT(*) AS ?n) { { SELECT DISTINCT ?s ?o { GRAPH ?g { ?s ?p ?o } } } }",
            vec![all.len().to_string()],
        ),
    ];
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let dataset = loaded(&service, &quads);
        let session = service.session(&dataset, shared());
        for (query, expected) in &cases {
            let (text, _) = session.write(query, Format::Tsv, Vec::new()).expect("it is answered");
            let text = String::from_utf8(text).expect("TSV is UTF-8");
            let mut found: Vec<&str> = text.lines().skip(1).collect();
            let mut expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{strategy}: {query}");
        }
    });
}

/// Brute force over all triples of corners gives the expected count.
#[test]
fn triangles_are_counted_alike_under_all_strategies() {
    const THINGS: usize = 120;
    // The first two are hubs.
    let knows = |a: usize, b: usize| a != b && (a < 2 || b < 2 || (a * 7 + b * 13).is_multiple_of(29));
    let all = || (0..THINGS).flat_map(|a| (0..THINGS).map(move |b| (a, b)));
    let text: String = all()
        .filter(|&(a, b)| knows(a, b))
        .map(|(a, b)| format!("<http://e/{a}> <http://e/knows> <http://e/{b}> .\n"))
        .collect();
    let expected = all()
        .filter(|&(a, b)| knows(a, b))
        .map(|(a, b)| (0..THINGS).filter(|&c| knows(b, c) && knows(c, a)).count())
        .sum::<usize>();
    let dataset = Dataset::new(Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples")));
    let query = "PREFIX : <http://e/> SELECT (COUNT(*) AS ?n) { ?a :knows ?b . ?b :knows ?c . ?c :knows ?a }";
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let session = service.session(&dataset, shared());
        let (text, _) = session.write(query, Format::Tsv, Vec::new()).expect("it is answered");
        let text = String::from_utf8(text).expect("TSV is UTF-8");
        assert_eq!(text.lines().last(), Some(expected.to_string().as_str()), "{strategy}");
    });
}
