//! The syntaxes besides N-Triples and Turtle: they mean the same triples, and bad input is told with its place.

use crate::{check, random};
use oxrdf::Graph;
use oxrdf::graph::CanonicalizationAlgorithm;
use proptest::prelude::*;
use std::collections::BTreeSet;
use vicus_rdf::load::{Chunk, OnError, Parsed, PulledReader, Syntax, TurtleReader, parse_lines_into, parse_trig};
use vicus_rdf::{Id, Loader, Order, Snapshot, SyntaxError};

const ALL: [Syntax; 6] =
    [Syntax::NTriples, Syntax::NQuads, Syntax::Turtle, Syntax::TriG, Syntax::RdfXml, Syntax::JsonLd];

fn lines(snapshot: &Snapshot) -> BTreeSet<String> {
    let index = snapshot.index(Order::Gspo);
    let line = |row| {
        let named = index.quad(row).into_iter().filter(|id| !id.is_unbound());
        named.map(|id| snapshot.term(id).to_string()).collect::<Vec<_>>().join(" ")
    };
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
            let text = random::document_in(syntax, &random::of_default_graph(&triples));
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
fn random_quads_are_the_same_in_every_syntax_of_graphs() {
    check(150, random::quads(), |quads| {
        let text = random::document_of_quads(&quads);
        let expected: BTreeSet<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let nquads = Snapshot::from_parsed(vec![parse(Syntax::NQuads, &text, None).expect("oxttl wrote it")]);
        for syntax in [Syntax::NQuads, Syntax::TriG, Syntax::JsonLd] {
            let text = random::document_in(syntax, &quads);
            let (found, skipped) = load(syntax, &text, OnError::Fail).map_err(|error| {
                TestCaseError::fail(format!("{syntax:?}: {error}\n{}", String::from_utf8_lossy(&text)))
            })?;
            found.assert_valid();
            prop_assert_eq!(skipped, 0);
            prop_assert_eq!(found.len(), expected.len(), "{:?}", syntax);
            prop_assert_eq!(lines(&found), lines(&nquads), "{:?}: {}", syntax, String::from_utf8_lossy(&text));
        }
        Ok(())
    });
}

#[test]
fn named_graphs_are_kept_apart_from_the_default_graph() {
    let plain = "<a:a> <a:b> <a:c> .\n<a:a> <a:b> \"x\\u0041\" .\n";
    for (syntax, text) in [
        (Syntax::NQuads, format!("{plain}<a:a> <a:b> <a:d> <a:g> .\n<a:a> <a:b> _:x _:g .\n")),
        (Syntax::NQuads, format!("{plain}<a:a> <a:b> \"\\u0041\" <a:g> .\n<a:a> <a:b> _:x _:g .\n")),
        (Syntax::TriG, format!("{plain}\n<a:g> {{\n <a:a> <a:b> <a:d>\n}}\n_:g {{ <a:a> <a:b> _:x }}")),
        (Syntax::JsonLd, "[ { \"@id\": \"a:a\", \"a:b\": [ { \"@id\": \"a:c\" }, 1 ] },\n { \"@id\": \"a:g\", \"@graph\": [\n { \"@id\": \"a:a\",\n  \"a:b\": { \"@id\": \"a:d\" } } ] },\n { \"@id\": \"_:g\", \"@graph\": { \"@id\": \"a:a\", \"a:b\": 2 } } ]".to_owned()),
    ] {
        let parsed = parse(syntax, text.as_bytes(), None).unwrap();
        assert_eq!((parsed.quads().triples.len(), parsed.quads().named.len()), (2, 2), "{syntax:?}");
        let snapshot = Snapshot::from_parsed(vec![parsed]);
        snapshot.assert_valid();
        let (statistics, named) = (snapshot.statistics(), snapshot.named_statistics());
        assert_eq!((snapshot.len(), statistics.triples, named.triples), (4, 2, 2), "{syntax:?}");
        let graphs: Vec<Id> = snapshot.graphs().collect();
        let names: Vec<String> = graphs.iter().map(|id| snapshot.term(*id).to_string()).collect();
        assert!(matches!(&names[..], [blank, iri] if blank.starts_with("_:") && iri == "<a:g>"), "{names:?}");
        assert!(graphs.iter().all(|graph| snapshot.index(Order::Gspo).count(&[*graph]) == 1));
    }
}

/// A whole file.
pub(crate) fn parse(syntax: Syntax, text: &[u8], base: Option<&str>) -> Result<Parsed, SyntaxError> {
    parse_as(syntax, text, base, false)
}

/// A whole file that may use RDF 1.2.
pub(crate) fn parse_12(syntax: Syntax, text: &[u8], base: Option<&str>) -> Result<Parsed, SyntaxError> {
    parse_as(syntax, text, base, true)
}

fn parse_as(syntax: Syntax, text: &[u8], base: Option<&str>, rdf_12: bool) -> Result<Parsed, SyntaxError> {
    match syntax {
        Syntax::NTriples | Syntax::NQuads => {
            let mut parsed = Parsed::default().with_rdf_12(rdf_12);
            parse_lines_into(&mut parsed, Chunk::file(text), syntax, 0, OnError::Fail).map(|()| parsed)
        }
        Syntax::Turtle | Syntax::TriG => {
            let reader = if syntax == Syntax::TriG { TurtleReader::trig } else { TurtleReader::new };
            let mut reader = reader(0, base, OnError::Fail)?.with_rdf_12(rdf_12);
            reader.feed(text)?;
            reader.finish()
        }
        syntax => {
            let source = Box::new(std::io::Cursor::new(text.to_vec()));
            PulledReader::new(source, syntax, 0, base, OnError::Fail)?.with_rdf_12(rdf_12).finish()
        }
    }
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

/// Objects of contexts in which each of so many terms is written with the next, in the ways there are.
fn chains(terms: usize) -> Vec<String> {
    let each = |one: &dyn Fn(usize) -> String| (0..terms).map(one).collect::<Vec<_>>().join(",");
    let last = format!("\"t{terms}\":\"http://e/\"");
    let of = |one: &dyn Fn(usize) -> String| format!("{{\"@context\":{{{},{last}}},\"http://e/p\":1}}", each(one));
    let mut all = vec![
        of(&|n| format!("\"t{n}\":\"t{}\"", n + 1)),
        of(&|n| format!("\"t{n}\":\"t{}:x\"", n + 1)),
        of(&|n| format!("\"t{n}\":{{\"@id\":\"t{}:x\"}}", n + 1)),
        of(&|n| format!("\"t{n}\":{{\"@reverse\":\"t{}:x\"}}", n + 1)),
        of(&|n| format!("\"t{n}\":{{\"@id\":\"http://e/{n}\",\"@type\":\"t{}:x\"}}", n + 1)),
        of(&|n| format!("\"t{n}\":{{\"@id\":\"http://e/{n}\",\"@container\":\"@index\",\"@index\":\"t{}:x\"}}", n + 1)),
        // In a circle, and within the context of a term.
        format!("{{\"@context\":{{{},\"t{terms}\":\"t0:x\"}}}}", each(&|n| format!("\"t{n}\":\"t{}:x\"", n + 1))),
    ];
    let scoped = all[1].replacen("{\"@context\":", "{\"@context\":{\"s\":{\"@id\":\"http://e/s\",\"@context\":", 1);
    all.push(scoped.replacen("},\"http://e/p\":1}", "}}},\"s\":{\"t0\":1}}", 1));
    all
}

/// What happened: a context in which each of 12,500 terms is written with the next overflowed the stack, which ended the process.
#[test]
fn terms_that_are_written_with_each_other_have_a_limit() {
    let mut taken = 0;
    for terms in [1, 40, 12_500, 100_000] {
        for text in chains(terms) {
            match load(Syntax::JsonLd, text.as_bytes(), OnError::Fail) {
                Ok(_) => taken += 1,
                Err(error) if terms <= 40 => assert!(error.message.contains("by itself"), "{error}"),
                Err(error) => assert!(
                    error.message.contains("more than 64 levels deep") || error.message.contains("by itself"),
                    "{error}"
                ),
            }
        }
    }
    assert!(taken >= 14, "{taken}");
    // Contexts over contexts, in lists, in terms, in types, in nodes, and what takes one away again.
    let many = 100_000;
    for text in [
        format!("{{\"@context\":[{}{{\"a\":\"http://e/a\"}}],\"a\":1}}", "null,{\"@propagate\":false},".repeat(many)),
        format!(
            "{{\"@context\":{{\"T\":{{\"@id\":\"http://e/T\",\"@context\":[{}null]}}}},\"@type\":\"T\"}}",
            "null,".repeat(many)
        ),
        format!("{}{{}}{}", "{\"@context\":{\"a\":{\"@id\":\"http://e/a\",\"@context\":".repeat(60), "}}}".repeat(60)),
        format!("{}1{}", "{\"@context\":[null,{\"a\":\"http://e/a\"}],\"a\":".repeat(200), "}".repeat(200)),
        format!("{{\"@context\":{}}}", "{\"a\":{\"@context\":".repeat(100) + "1" + &"}}".repeat(100)),
    ] {
        if let Err(error) = load(Syntax::JsonLd, text.as_bytes(), OnError::Fail) {
            assert!(error.message.len() < 500, "{error}");
        }
    }
}

/// What happened: many types with contexts of their own, beside a context of many terms, took time in the product of both.
#[test]
fn a_context_costs_what_it_says_itself() {
    let many = 50_000;
    let terms: String = (0..many).map(|n| format!("\"t{n}\":\"http://e/{n}\",")).collect();
    let nodes = "{\"@context\":{\"a\":\"http://e/a\"},\"a\":{\"t1\":2}},".repeat(many);
    let text = format!("{{\"@context\":{{{terms}\"@vocab\":\"http://e/\"}},\"@graph\":[{nodes}{{}}]}}");
    let (snapshot, _) = load(Syntax::JsonLd, text.as_bytes(), OnError::Fail).unwrap();
    assert_eq!(snapshot.len(), 2 * many);
    let types: String = (0..1000)
        .map(|n| format!("\"T{n}\":{{\"@id\":\"http://e/T{n}\",\"@context\":{{\"x\":\"http://e/x\"}}}},"))
        .collect();
    let names = (0..1000).map(|n| format!("\"T{n}\"")).collect::<Vec<_>>().join(",");
    let text = format!("{{\"@context\":{{{types}{terms}\"@vocab\":\"http://e/\"}},\"@type\":[{names}],\"x\":1}}");
    assert_eq!(load(Syntax::JsonLd, text.as_bytes(), OnError::Fail).unwrap().0.len(), 1001);
}

/// JSON-LD 1.1, §4.6.2 and §4.9.1; JSON-LD 1.1 Syntax, §9.5.
#[test]
fn containers_of_json_ld_keep_their_values() {
    for (text, expected) in [
        (
            r#"{"@context":{"p":{"@id":"http://e/p","@container":"@type"}},"@id":"http://e/s","p":{"http://e/T":{"@id":"http://e/o"}}}"#,
            "<http://e/o> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://e/T> .\n<http://e/s> <http://e/p> <http://e/o> .",
        ),
        (
            r#"{"@context":{"p":{"@id":"http://e/p","@container":"@set"}},"@id":"http://e/s","p":[{"@list":[{"@value":"b","@language":"en"}]}]}"#,
            "<http://e/s> <http://e/p> _:l .\n_:l <http://www.w3.org/1999/02/22-rdf-syntax-ns#first> \"b\"@en .\n_:l <http://www.w3.org/1999/02/22-rdf-syntax-ns#rest> <http://www.w3.org/1999/02/22-rdf-syntax-ns#nil> .",
        ),
        (
            r#"{"@context":{"@language":"de"},"@id":"http://e/s","http://e/p":{"@value":"b","@language":null}}"#,
            "<http://e/s> <http://e/p> \"b\" .",
        ),
    ] {
        let found = load(Syntax::JsonLd, text.as_bytes(), OnError::Fail).unwrap().0;
        let graph = |text: &str| -> Graph {
            let mut graph: Graph = oxttl::NTriplesParser::new().for_slice(text).collect::<Result<_, _>>().unwrap();
            graph.canonicalize(CanonicalizationAlgorithm::Unstable);
            graph
        };
        let written: String = lines(&found).into_iter().map(|line| line + " .\n").collect();
        assert_eq!(graph(&written), graph(expected), "{text}");
    }
}

/// What happened: 100,000 attributes of an element took half a minute, since each was compared with all before it, and no time limit could
/// end that. A million would take an hour.
#[test]
fn attributes_and_namespaces_of_an_element_have_a_limit() {
    let head = "<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:e='http://e/'";
    let each = |one: &dyn Fn(usize) -> String| (0..1_000_000).map(one).collect::<String>();
    let nested = |n: usize| format!("<e:T xmlns:a{n}='http://e/{n}'><e:p>").repeat(800);
    for (text, limit) in [
        (format!("{head}><e:T {}/></r:RDF>", each(&|n| format!("e:a{n}='' "))), "more than 1024 attributes"),
        (format!("{head} {}/>", each(&|n| format!("xmlns:a{n}='http://e/{n}' "))), "more than 1024"),
        (format!("{head} {}/>", each(&|n| format!("xmlns:a{n} = 'http://e/{n}'\n"))), "more than 1024"),
        (format!("{head}>{}", (0..2).map(nested).collect::<String>()), "more than 1024 namespaces"),
    ] {
        let error = load(Syntax::RdfXml, text.as_bytes(), OnError::Fail).unwrap_err();
        assert!(error.message.contains(limit), "{error}");
    }
    let some: String = (0..1000).map(|n| format!("e:a{n}='' ")).collect();
    let text = format!("{head}><e:T {some}/><e:T {some}/></r:RDF>");
    assert_eq!(load(Syntax::RdfXml, text.as_bytes(), OnError::Fail).unwrap().0.len(), 2002);
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
