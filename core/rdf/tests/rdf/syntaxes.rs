//! The syntaxes besides N-Triples and Turtle: they mean the same triples, and bad input is told with its place.

use crate::{check, random};
use oxrdf::Graph;
use oxrdf::graph::CanonicalizationAlgorithm;
use proptest::prelude::*;
use std::collections::BTreeSet;
use vicus_rdf::load::{
    Chunk, DEFAULT_GRAPH, OnError, Parsed, PulledReader, Syntax, TurtleReader, parse_lines_into, parse_trig,
};
use vicus_rdf::{Loader, Order, Snapshot, SyntaxError};

const ALL: [Syntax; 6] =
    [Syntax::NTriples, Syntax::NQuads, Syntax::Turtle, Syntax::TriG, Syntax::RdfXml, Syntax::JsonLd];

fn lines(snapshot: &Snapshot) -> BTreeSet<String> {
    let index = snapshot.index(Order::Spo);
    let line = |row| index.triple(row).map(|id| snapshot.view(id).to_string()).join(" ");
    (0..index.len()).map(line).collect()
}

fn load(syntax: Syntax, text: &[u8], on_error: OnError) -> Result<(Snapshot, u64), SyntaxError> {
    let mut loader = Loader::new(on_error);
    loader.file(text, syntax, Some("http://e/"))?;
    let skipped = loader.skipped();
    Ok((loader.finish(), skipped))
}

/// Labels of blank nodes mean the same in all syntaxes, so the lines can be compared.
#[test]
fn random_triples_are_the_same_in_every_syntax() {
    check(150, random::triples(), |triples| {
        for syntax in ALL {
            let kept: Vec<_> =
                triples.iter().filter(|t| syntax != Syntax::RdfXml || random::is_xml(t)).cloned().collect();
            let expected = Snapshot::of_ntriples(&random::document(&kept)).expect("good N-Triples");
            let text = random::document_in(syntax, &triples);
            let found = load(syntax, &text, OnError::Fail);
            let (found, skipped) = found.map_err(|error| {
                TestCaseError::fail(format!("{syntax:?}: {error}\n{}", String::from_utf8_lossy(&text)))
            })?;
            found.assert_valid();
            prop_assert_eq!(skipped, 0);
            prop_assert_eq!(lines(&found), lines(&expected), "{:?}: {}", syntax, String::from_utf8_lossy(&text));
        }
        Ok(())
    });
}

#[test]
fn an_error_in_any_syntax_has_line_column_and_message() {
    const XML: &str = "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:e='http://e/'>\n";
    for (syntax, text, place, message) in [
        (
            Syntax::NQuads,
            "<a:a> <a:b> <a:c> .\n<a:a> <a:b> <a:c> \"x\" .\n".to_owned(),
            (2, 19),
            "must be an IRI or a blank node",
        ),
        (Syntax::NQuads, "<a:a> <a:b>\n".to_owned(), (1, 12), "line jumps"),
        (Syntax::TriG, "<a:a> <a:b> <a:c> .\n\n<a:a> <a:b> ; ] .\n".to_owned(), (3, 13), "not a valid RDF object"),
        (Syntax::TriG, "<a:a> <a:b> <a:c> .\n{ <a:a> <a:b> <a:c>".to_owned(), (2, 20), "end"),
        (Syntax::RdfXml, format!("{XML}<e:a rdf:about='x'>\n  <e:p rdf:resource='http://e/ x'/>\n"), (3, 36), "IRI"),
        (Syntax::RdfXml, format!("{XML}\n<e:a></e:b>\n</rdf:RDF>"), (3, 12), "e:b"),
        (Syntax::RdfXml, "no XML at all".to_owned(), (1, 14), ""),
        (Syntax::RdfXml, format!("{XML}<e:é e:q='&unknown;'/>"), (2, 23), "unknown"),
        (Syntax::JsonLd, "{ \"@id\": \"http://e/a\",\n \"http://e/p\": [ 1, ] }".to_owned(), (2, 21), ""),
        (Syntax::JsonLd, "{ \"@context\": 7,\n \"http://e/p\": 1 }".to_owned(), (2, 19), "context"),
        (Syntax::JsonLd, "[ {},".to_owned(), (1, 6), "end"),
    ] {
        let error = load(syntax, text.as_bytes(), OnError::Fail).expect_err(&text);
        assert_eq!((error.line, error.column), place, "{syntax:?}, {text}: {error}");
        assert!(error.message.contains(message), "{syntax:?}, {text}: {error}");
    }
    for syntax in [Syntax::Turtle, Syntax::TriG, Syntax::RdfXml, Syntax::JsonLd] {
        let error = Loader::default().file(b"", syntax, Some("no IRI")).unwrap_err();
        assert_eq!((error.line, error.message.contains("base must be an IRI")), (0, true), "{error}");
    }
}

/// What comes before an error stays; in line-based syntaxes and in TriG also what comes behind it.
#[test]
fn what_is_malformed_can_be_left_out() {
    const GOOD: &str = "<a:a> <a:b> <a:c> .\n";
    const XML: &str = "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:e='http://e/'><e:T rdf:about='a:a'><e:p>1</e:p>";
    for (syntax, text, count) in [
        (Syntax::NQuads, format!("{GOOD}nonsense\n<a:a> <a:b> \"1\" .\n"), 2),
        (Syntax::TriG, format!("{GOOD}nonsense .\n<a:a> <a:b> \"1\" .\n"), 2),
        (Syntax::RdfXml, format!("{XML}</e:wrong>"), 2),
        (Syntax::JsonLd, "[{ \"@id\": \"a:a\", \"a:b\": 1 }, { \"@id\": \"a:b\", \"a:b\": 2 } }".to_owned(), 2),
    ] {
        let (snapshot, skipped) = load(syntax, text.as_bytes(), OnError::Skip).unwrap();
        assert_eq!(snapshot.len(), count, "{syntax:?}");
        assert!(skipped >= 1, "{syntax:?}: {skipped}");
    }
}

#[test]
fn a_quad_of_a_named_graph_is_refused_with_its_line_left_out_or_kept() {
    let plain = "<a:a> <a:b> <a:c> .\n<a:a> <a:b> \"x\\u0041\" .\n";
    for (syntax, text, line) in [
        (Syntax::NQuads, format!("{plain}<a:a> <a:b> <a:d> <a:g> .\n<a:a> <a:b> _:x _:g .\n"), 3),
        (Syntax::NQuads, format!("{plain}<a:a> <a:b> \"\\u0041\" <a:g> .\n<a:a> <a:b> _:x _:g .\n"), 3),
        (Syntax::TriG, format!("{plain}\n<a:g> {{\n <a:a> <a:b> <a:d>\n}}\n_:g {{ <a:a> <a:b> _:x }}"), 5),
        (Syntax::JsonLd, "[ { \"@id\": \"a:a\", \"a:b\": [ { \"@id\": \"a:c\" }, 1 ] },\n { \"@id\": \"a:g\", \"@graph\": [\n { \"@id\": \"a:a\",\n  \"a:b\": { \"@id\": \"a:d\" } } ] },\n { \"@id\": \"_:g\", \"@graph\": { \"@id\": \"a:a\", \"a:b\": 2 } } ]".to_owned(), 4),
    ] {
        let error = load(syntax, text.as_bytes(), OnError::Fail).expect_err(&text);
        assert_eq!(error.line, line, "{syntax:?}: {error}");
        assert!(error.message.contains("<a:g>: only the default graph can be loaded yet; remove the graph's name"), "{error}");
        let (snapshot, skipped) = load(syntax, text.as_bytes(), OnError::Skip).unwrap();
        snapshot.assert_valid();
        assert_eq!((snapshot.len(), skipped), (2, 2), "{syntax:?}");
        let parsed = parsed_with_graphs(syntax, text.as_bytes());
        assert_eq!(parsed.triples().len(), 4, "{syntax:?}");
        let names: BTreeSet<u32> = parsed.graphs().iter().copied().collect();
        assert!(parsed.graphs().len() == 4 && names.len() == 3 && names.contains(&DEFAULT_GRAPH), "{syntax:?}: {names:?}");
        assert_eq!(parsed.graphs().iter().filter(|&&graph| graph == DEFAULT_GRAPH).count(), 2);
    }
    assert!(parsed_with_graphs(Syntax::NQuads, plain.as_bytes()).graphs().is_empty(), "one graph has no column");
}

/// A whole file, of which no quad is refused.
pub(crate) fn parse(syntax: Syntax, text: &[u8], base: Option<&str>) -> Result<Parsed, SyntaxError> {
    match syntax {
        Syntax::NTriples | Syntax::NQuads => {
            let mut parsed = Parsed::default().with_graphs();
            parse_lines_into(&mut parsed, Chunk::file(text), syntax, 0, OnError::Fail).map(|()| parsed)
        }
        Syntax::Turtle | Syntax::TriG => {
            let reader = if syntax == Syntax::TriG { TurtleReader::trig } else { TurtleReader::new };
            let mut reader = reader(0, base, OnError::Fail)?.with_graphs();
            reader.feed(text)?;
            reader.finish()
        }
        syntax => {
            let source = Box::new(std::io::Cursor::new(text.to_vec()));
            PulledReader::new(source, syntax, 0, base, OnError::Fail)?.with_graphs().finish()
        }
    }
}

fn parsed_with_graphs(syntax: Syntax, text: &[u8]) -> Parsed {
    parse(syntax, text, None).unwrap()
}

/// Nothing that is nested deeply ends the process or takes long.
#[test]
fn deeply_nested_documents_have_a_verdict() {
    const DEEP: usize = 50_000;
    let xml = |inner: &str| {
        format!(
            "<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:e='http://e/'>{}",
            inner.repeat(DEEP)
        )
    };
    for (syntax, text) in [
        (Syntax::JsonLd, "[".repeat(DEEP)),
        (Syntax::JsonLd, format!("{}1{}", "[".repeat(DEEP), "]".repeat(DEEP))),
        (Syntax::JsonLd, format!("{}1{}", "{\"a:b\":".repeat(DEEP), "}".repeat(DEEP))),
        (Syntax::JsonLd, "{\"a:b\":".repeat(DEEP)),
        (Syntax::JsonLd, format!("{{\"@context\":{}1{}}}", "{\"a\":".repeat(DEEP), "}".repeat(DEEP))),
        (Syntax::JsonLd, format!("{}1{}", "{\"@list\":[".repeat(DEEP), "]}".repeat(DEEP))),
        (Syntax::JsonLd, format!("{}{}", "{\"@graph\":".repeat(DEEP), "}".repeat(DEEP))),
        (Syntax::RdfXml, xml("<e:a><e:p>")),
        (Syntax::RdfXml, xml("<e:a><e:p r:parseType='Collection'>")),
        (Syntax::RdfXml, format!("{}{}", xml("<e:a><e:p r:parseType='Resource'>"), "x")),
        (Syntax::RdfXml, xml("<!ENTITY a 'b'>")),
        (Syntax::RdfXml, format!("<!DOCTYPE r [\n<!ENTITY a \"{}\">", "x".repeat(1 << 20)).replace('\n', "")),
        (Syntax::TriG, "{".repeat(DEEP)),
        (Syntax::TriG, format!("<a:a> <a:b> {}", "[ <a:b> ".repeat(DEEP))),
        (Syntax::NQuads, "<<".repeat(DEEP)),
    ] {
        for on_error in [OnError::Fail, OnError::Skip] {
            if let Err(error) = load(syntax, text.as_bytes(), on_error) {
                assert!(error.message.len() < 500 && error.line == 1, "{syntax:?}: {error}");
            }
        }
    }
}

#[test]
fn trig_without_names_is_turtle() {
    let text = b"@prefix : <http://e/> . { :a :b [ :c ( 1 2 ) ] } :d :e :f .";
    let parsed = parse_trig(text, 0, None, OnError::Fail).unwrap();
    let turtle = b"@prefix : <http://e/> . :a :b [ :c ( 1 2 ) ] . :d :e :f .";
    let expected = Snapshot::of_turtle(turtle, None).unwrap();
    let found = Snapshot::from_parsed(vec![parsed]);
    let graph = |snapshot: &Snapshot| -> Graph {
        let text: String = lines(snapshot).into_iter().map(|line| line + " .\n").collect();
        let mut graph: Graph = oxttl::NTriplesParser::new().for_slice(&text).collect::<Result<_, _>>().unwrap();
        graph.canonicalize(CanonicalizationAlgorithm::Unstable);
        graph
    };
    assert_eq!(graph(&found), graph(&expected));
}
