//! The syntaxes besides N-Triples and Turtle: they mean the same triples, and bad input is told with its place.

use crate::{check, random};
use oxrdf::Graph;
use oxrdf::graph::CanonicalizationAlgorithm;
use proptest::prelude::*;
use std::collections::BTreeSet;
use vicus_rdf::load::{Chunk, OnError, ParsedPart, PulledReader, Syntax, TurtleReader, parse_lines_into, parse_trig};
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
        (Syntax::RdfXml, format!("{XML}<e:é e:q='&unknown;'/>"), (2, 21), "unknown"),
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

/// Statements before an error stay; in line-based syntaxes and in TriG also those behind it.
#[test]
fn what_is_malformed_can_be_left_out() {
    const GOOD: &str = "<a:a> <a:b> <a:c> .\n";
    const XML: &str = "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:e='http://e/'><e:T \
        rdf:about='a:a'><e:p>1</e:p>";
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
        (
            Syntax::JsonLd,
            "[ { \"@id\": \"a:a\", \"a:b\": [ { \"@id\": \"a:c\" }, 1 ] },\n { \"@id\": \"a:g\", \
            \"@graph\": [\n { \"@id\": \"a:a\",\n  \"a:b\": { \"@id\": \"a:d\" } } ] },\n { \"@id\": \"_:g\", \
            \"@graph\": { \"@id\": \"a:a\", \"a:b\": 2 } } ]"
                .to_owned(),
        ),
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
pub(crate) fn parse(syntax: Syntax, text: &[u8], base: Option<&str>) -> Result<ParsedPart, SyntaxError> {
    parse_as(syntax, text, base, false)
}

/// A whole file, possibly with RDF 1.2.
pub(crate) fn parse_12(syntax: Syntax, text: &[u8], base: Option<&str>) -> Result<ParsedPart, SyntaxError> {
    parse_as(syntax, text, base, true)
}

fn parse_as(syntax: Syntax, text: &[u8], base: Option<&str>, rdf_12: bool) -> Result<ParsedPart, SyntaxError> {
    match syntax {
        Syntax::NTriples | Syntax::NQuads => {
            let mut parsed = ParsedPart::default().with_rdf_12(rdf_12);
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

/// No deep nesting ends the process or takes long.
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

/// Objects of contexts with `terms` terms, each written with the next, in all possible ways.
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

/// What happened: a context of 12,500 terms, each written with the next, overflowed the stack, and this ended the
/// process.
#[test]
fn terms_that_are_written_with_each_other_have_a_limit() {
    let thread = std::thread::Builder::new().stack_size(4 << 20).spawn(read_chains).expect("there is a thread");
    thread.join().expect("it ends well");
}

fn read_chains() {
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
    // Contexts over contexts, in lists, in terms, in types, in nodes, and ways to take one away again.
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

/// A thread of the runtime has 16 MiB of stack; a quarter of it is enough for each construct that contains itself.
#[test]
fn the_deepest_documents_need_little_stack() {
    let nest = |count: usize, before: &str, core: &str, after: &str| before.repeat(count) + core + &after.repeat(count);
    let of_map = |container: &str| {
        let context = format!("{{\"@context\":{{\"p\":{{\"@id\":\"http://e/p\",\"@container\":{container}}}}},\"p\":");
        format!("{context}{}}}", nest(80, "{\"http://e/k\":[{\"p\":", "{}", "}]}"))
    };
    let texts = [
        nest(255, "{\"http://e/p\":", "1", "}"),
        nest(250, "[", "{\"http://e/p\":1}", "]"),
        nest(127, "{\"http://e/p\":[", "1", "]}"),
        format!("{{\"http://e/p\":{}}}", nest(125, "{\"@list\":[", "1", "]}")),
        format!("{{\"http://e/p\":{}}}", nest(125, "{\"@set\":[", "1", "]}")),
        format!("{{\"http://e/p\":{{\"@type\":\"@json\",\"@value\":{}}}}}", nest(250, "[", "1", "]")),
        nest(250, "{\"@graph\":", "{}", "}"),
        nest(250, "{\"@included\":", "{}", "}"),
        nest(250, "{\"@nest\":", "{\"http://e/p\":1}", "}"),
        nest(120, "{\"@reverse\":{\"http://e/p\":", "{}", "}}"),
        nest(120, "{\"@context\":[null,{\"@vocab\":\"http://e/\"}],\"a\":", "1", "}"),
        of_map("\"@index\""),
        of_map("\"@id\""),
        of_map("\"@type\""),
        of_map("[\"@graph\",\"@id\"]"),
    ];
    for text in texts {
        let read = move || load(Syntax::JsonLd, text.as_bytes(), OnError::Fail).map(drop);
        let thread = std::thread::Builder::new().stack_size(4 << 20).spawn(read).expect("there is a thread");
        thread.join().expect("it ends well").unwrap();
    }
}

/// What happened: many types with contexts of their own, beside a context of many terms, took time in the product of
/// both.
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
            r#"{"@context":{"p":{"@id":"http://e/p","@container":"@type"}},
                "@id":"http://e/s","p":{"http://e/T":{"@id":"http://e/o"}}}"#,
            "<http://e/o> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://e/T> .\n<http://e/s> <http://e/p> \
                <http://e/o> .",
        ),
        (
            r#"{"@context":{"p":{"@id":"http://e/p","@container":"@set"}},
                "@id":"http://e/s","p":[{"@list":[{"@value":"b","@language":"en"}]}]}"#,
            "<http://e/s> <http://e/p> _:l .\n_:l <http://www.w3.org/1999/02/22-rdf-syntax-ns#first> \"b\"@en .\n_:l \
                <http://www.w3.org/1999/02/22-rdf-syntax-ns#rest> <http://www.w3.org/1999/02/22-rdf-syntax-ns#nil> .",
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

/// What happened: 100,000 attributes of an element took half a minute, since each was compared with all before it, and
/// no time limit could end that. So a million would take an hour, and as many namespaces, in one place or within each
/// other.
#[test]
fn attributes_and_namespaces_cost_what_they_say() {
    let head = "<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:e='http://e/'";
    let many = if cfg!(debug_assertions) { 50_000 } else { 1_000_000 };
    let each = |one: &dyn Fn(usize) -> String| (0..many).map(one).collect::<String>();
    let deep = |n: usize| format!("<e:T xmlns:a{n}='http://e/{n}' a{n}:b=''><e:p>");
    for (text, count) in [
        (format!("{head}><e:T {}/></r:RDF>", each(&|n| format!("e:a{n}='' "))), many + 1),
        (format!("{head} {}><e:T a7:a='1'/></r:RDF>", each(&|n| format!("xmlns:a{n}='http://e/{n}' "))), 2),
        (format!("{head}>{}</r:RDF>", each(&|n| format!("<e:T r:ID='i{n}' xml:lang='en' e:p=''/>"))), 2 * many),
        (
            format!("{head}>{}{}</r:RDF>", (0..1000).map(deep).collect::<String>(), "</e:p></e:T>".repeat(1000)),
            2 * 1000 + 999 + 1,
        ),
    ] {
        assert_eq!(parse(Syntax::RdfXml, text.as_bytes(), Some("http://e/")).unwrap().quads().len(), count);
    }
}

/// The meaning of a document of RDF/XML, as lines; `content` is the content of `rdf:RDF`, located at http://e/d/f.
fn xml_lines(before: &str, attributes: &str, content: &str) -> Result<Vec<String>, String> {
    let rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
    let text = format!("{before}<r:RDF xmlns:r='{rdf}' xmlns:e='http://e/' {attributes}>{content}</r:RDF>");
    let parsed = parse(Syntax::RdfXml, text.as_bytes(), Some("http://e/d/f")).map_err(|error| error.message)?;
    Ok(lines(&Snapshot::from_parsed(vec![parsed])).into_iter().collect())
}

/// XML 1.0, §2.7, §2.5, §2.6, §2.11, §3.3.3, §4.2, §4.4 and §4.5.
#[test]
fn xml_is_read_as_its_specification_says() {
    for (before, value, expected) in [
        ("", "a<![CDATA[<&]]>c", "a<&c"),
        ("", "a<!-- x -->b<?p i?>c", "abc"),
        ("", "a\r\nb\rc", "a\\nb\\nc"),
        ("", "a&#13;b", "a\\rb"),
        ("<!DOCTYPE r [<!ENTITY e 'v'>]>", "&e;", "v"),
        ("<!DOCTYPE r [<!ENTITY e \"1\"><!ENTITY e \"2\">]>", "&e;", "1"),
        ("<!DOCTYPE r [<!-- <!ENTITY e '0'> --><!ENTITY e '&#x41;&f;'><!ENTITY f '&#38;#60;'>]>", "&e;", "A<"),
        ("<?xml version='1.0' encoding='utf-8'?>", "&lt;&gt;&amp;&quot;&apos;", "<>&\\\"'"),
    ] {
        let found = xml_lines(before, "", &format!("<r:Description r:about='s'><e:p>{value}</e:p></r:Description>"));
        assert_eq!(found.unwrap(), [format!("<http://e/d/s> <http://e/p> \"{expected}\"")], "{value}");
    }
    let found = xml_lines("", "", "<r:Description r:about='s' e:p='a\r\nb\tc&#10;'/>").unwrap();
    assert_eq!(found, ["<http://e/d/s> <http://e/p> \"a b c\\n\""]);
    for (before, content, why) in [
        ("", "<e:T e:p='1' e:p='2'/>", "is there twice"),
        ("", "<e:T xmlns:f='http://e/' e:p='1' f:p='2'/>", "is there twice"),
        ("", "<f:T/>", "the prefix `f` is not declared"),
        ("", "<e:T e:p='<'/>", "`<` stands in the value"),
        ("", "<e:T><e:p>&#0;</e:p></e:T>", "no character"),
        ("", "<e:T><e:p>&x;</e:p></e:T>", "the entity `x` is unknown"),
        ("<!DOCTYPE r [<!ENTITY e '&e;'>]>", "<e:T><e:p>&e;</e:p></e:T>", "in a circle"),
        ("<?xml version='1.0' encoding='koi8-r'?>", "", "the encoding `koi8-r` is not read"),
        ("", "<!-- a -- b -->", "`--` stands in a comment"),
    ] {
        let error = xml_lines(before, "", content).unwrap_err();
        assert!(error.contains(why), "{content}: {error}");
    }
}

/// Unicode, §23.8: the mark of UTF-8 at the beginning is no part of the text; anywhere else it is a character.
#[test]
fn a_mark_at_the_beginning_is_passed_over() {
    let line = "<http://e/s> <http://e/p> \"\u{FEFF}\" .";
    let xml = "<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:e='http://e/'><r:Description \
        r:about='http://e/s' e:p='\u{FEFF}'/></r:RDF>";
    let json = "{\"@id\":\"http://e/s\",\"http://e/p\":\"\u{FEFF}\"}";
    for syntax in ALL {
        let text = match syntax {
            Syntax::RdfXml => xml,
            Syntax::JsonLd => json,
            _ => line,
        };
        for marks in [0, 1] {
            let text = "\u{FEFF}".repeat(marks) + text;
            let found = load(syntax, text.as_bytes(), OnError::Fail).unwrap().0;
            assert_eq!(
                lines(&found).into_iter().collect::<Vec<_>>(),
                ["<http://e/s> <http://e/p> \"\u{FEFF}\""],
                "{syntax:?}"
            );
        }
        assert!(load(syntax, ("\u{FEFF}".repeat(2) + text).as_bytes(), OnError::Fail).is_err(), "{syntax:?}");
    }
    let mut reader = TurtleReader::new(0, None, OnError::Fail).unwrap();
    for byte in ["\u{FEFF}", line].concat().as_bytes().chunks(1) {
        reader.feed(byte).unwrap();
    }
    assert_eq!(reader.finish().unwrap().quads().len(), 1);
}

/// XML 1.0, §4.3.3 and appendix F: a processor must read UTF-16, and a mark at the beginning is no part of the text.
#[test]
fn xml_may_be_utf_16_and_begin_with_a_mark() {
    let text = |encoding: &str| {
        let rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
        format!(
            "<?xml version='1.0' encoding='{encoding}'?><r:RDF xmlns:r='{rdf}' xmlns:e='http://e/'>\n<e:T \
                r:about='http://e/s' e:p='é😀'/></r:RDF>"
        )
    };
    let units = |of: fn(u16) -> [u8; 2]| -> Vec<u8> { text("UTF-16").encode_utf16().flat_map(of).collect() };
    let (big, little) = (units(u16::to_be_bytes), units(u16::to_le_bytes));
    let marked = |mark: &[u8], text: &[u8]| [mark, text].concat();
    for bytes in [
        text("UTF-8").into_bytes(),
        marked(b"\xEF\xBB\xBF", text("utf-8").as_bytes()),
        marked(b"\xFE\xFF", &big),
        marked(b"\xFF\xFE", &little),
        big,
        little,
    ] {
        let parsed = parse(Syntax::RdfXml, &bytes, None).unwrap();
        let found = lines(&Snapshot::from_parsed(vec![parsed]));
        assert!(found.contains("<http://e/s> <http://e/p> \"é😀\""), "{found:?}");
    }
}

/// RDF 1.1 XML Syntax, §2.7, §2.12, §2.14, §5.3, §7.2.4 and §7.2.14 to §7.2.21.
#[test]
fn rdf_xml_is_read_as_its_specification_says() {
    let literal = "\"^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#XMLLiteral>";
    for (attributes, content, expected) in [
        ("xml:lang='en'", "<e:p xml:lang=''>x</e:p>", "<http://e/d/s> <http://e/p> \"x\"".to_owned()),
        ("xml:base=''", "<e:p>x</e:p>", "<http://e/d/s> <http://e/p> \"x\"".to_owned()),
        (
            "xml:base='http://e/d/'",
            "<e:p xml:base='sub/' r:resource='o'/>",
            "<http://e/d/s> <http://e/p> <http://e/d/sub/o>".to_owned(),
        ),
        (
            "",
            "<e:p r:parseType='Other'><e:b/>&lt;</e:p>",
            format!("<http://e/d/s> <http://e/p> \"<e:b xmlns:e=\\\"http://e/\\\"></e:b>&lt;{literal}"),
        ),
        (
            "",
            "<e:p r:parseType='Literal'><b t='x\"y'><c xmlns:e='http://f/' e:a=''/></b></e:p>",
            format!(
                "<http://e/d/s> <http://e/p> \"<b t=\\\"x&quot;y\\\"><c xmlns:e=\\\"http://f/\\\" \
                    e:a=\\\"\\\"></c></b>{literal}"
            ),
        ),
    ] {
        let found =
            xml_lines("", attributes, &format!("<r:Description r:about='s'>{content}</r:Description>")).unwrap();
        assert_eq!(found, [expected], "{content}");
    }
    let entity = "<!DOCTYPE r [<!ENTITY v 'a&#38;#34;b'>]>";
    let node = "<r:Description r:about='s'><e:p r:parseType='Literal'><b t='&v;'>&v;</b></e:p></r:Description>";
    let found = xml_lines(entity, "", node).unwrap();
    assert_eq!(found, [format!("<http://e/d/s> <http://e/p> \"<b t=\\\"a&quot;b\\\">a\\\"b</b>{literal}")]);
    for content in [
        "<e:p r:parseType='Literal' r:datatype='x'/>",
        "<e:p r:parseType='Resource' e:q=''/>",
        "<e:p r:bagID='x'/>",
        "<e:p r:resource='x' r:nodeID='y'/>",
        "<e:p r:resource='x'>text</e:p>",
        "<e:p>text<e:T/></e:p>",
        "<e:p><e:T/><e:T/></e:p>",
        "<e:p q='1'/>",
        "<r:about/>",
        "text",
    ] {
        let found = xml_lines("", "", &format!("<r:Description>{content}</r:Description>"));
        assert!(found.is_err(), "{content}: {found:?}");
    }
    assert!(xml_lines("", "", "<r:Description r:bagID='x'/>").is_err());
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
