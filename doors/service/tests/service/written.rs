//! What an update acknowledges is read again: by the store that is opened anew, and by a loader with default limits
//! from a dump in each syntax.

use super::*;
use std::path::PathBuf;
use vicus_rdf::load::{LoadOptions, LoadSource, Syntax};
use vicus_rdf::{Order, TermView};
use vicus_service::{
    Cancel, Document, DumpError, Error, Format, Store, StoreUpdateError, TextLimits, check_store, create_store, dump,
    open_store,
};

const SYNTAXES: [(Format, Syntax); 6] = [
    (Format::NTriples, Syntax::NTriples),
    (Format::NQuads, Syntax::NQuads),
    (Format::Turtle, Syntax::Turtle),
    (Format::TriG, Syntax::TriG),
    (Format::RdfXml, Syntax::RdfXml),
    (Format::JsonLd, Syntax::JsonLd),
];

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("vicus-written-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A term's text with the same name for all blank nodes: each reading names them anew.
fn shown(view: TermView<'_>) -> String {
    match view {
        TermView::Blank(_) => "_:b".to_owned(),
        TermView::Triple(triple) => {
            format!("<<( {} {} {} )>>", shown(triple.subject()), triple.predicate(), shown(triple.object()))
        }
        other => other.to_string(),
    }
}

/// All quads, as a sorted list.
fn quads(snapshot: &Snapshot) -> Vec<String> {
    let index = snapshot.index(Order::Gspo);
    let line = |row: usize| {
        let terms = index.quad(row).into_iter().filter(|id| !id.is_unbound());
        terms.map(|id| snapshot.view(id, shown)).collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<String> = (0..index.len()).map(line).collect();
    lines.sort_unstable();
    lines
}

/// The beginnings of two different lists' first different lines.
fn difference(one: &[String], other: &[String]) -> String {
    let at = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let short = |lines: &[String]| lines.get(at).map(|line| line.chars().take(200).collect::<String>());
    format!("{} and {} quads; {:?} and {:?}", one.len(), other.len(), short(one), short(other))
}

/// Opens the store anew, checks it, and loads its dumps with default limits: all of it is there each time. Returns the
/// syntaxes that could not write it.
fn is_read_again(service: &Service, store: Store, folder: &Folder, rdf_12: bool) -> Vec<&'static str> {
    let before = quads(&store.snapshot());
    drop(store);
    check_store(&folder.0, &mut |_, _| ()).expect("the store is whole");
    let store = open_store(&folder.0).expect("the store opens again");
    let snapshot = store.snapshot();
    let after = quads(&snapshot);
    assert!(before == after, "opened again: {}", difference(&before, &after));
    let mut unwritten = Vec::new();
    for (format, syntax) in SYNTAXES {
        let mut text = Vec::new();
        match dump(&snapshot, None, format, &[], &mut text, &mut |_| Ok(())) {
            Err(DumpError::Unwritable(_) | DumpError::Graphs(_)) => {
                unwritten.push(format.name());
                continue;
            }
            written => _ = written.unwrap_or_else(|error| panic!("{}: {error}", format.name())),
        }
        let source = LoadSource::new("dump", syntax, std::io::Cursor::new(text));
        let options = LoadOptions { rdf_12, ..LoadOptions::default() };
        let loaded = service.load(vec![source], options, &Cancel::new()).finish();
        let loaded = loaded.unwrap_or_else(|error| panic!("{} by default limits: {error}", format.name()));
        let loaded = quads(loaded.dataset.snapshot());
        assert!(before == loaded, "{}: {}", format.name(), difference(&before, &loaded));
    }
    unwritten
}

fn rdf_12() -> SessionOptions {
    let mut options = SessionOptions::default();
    options.languages.sparql.rdf_12 = true;
    options
}

/// Numbers from a seed: Marsaglia, "Xorshift RNGs", 2003.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn iri(&mut self) -> String {
        match self.below(12) {
            0 => format!("<http://e/{}>", "i".repeat(self.of(&[&100, &65_000, &65_530, &70_000]) - 9)),
            1 => "<a-relative-one>".to_owned(),
            2 => "<urn:ä:\\u00E9%20>".to_owned(),
            3 => "p:a.b-c\\,d".to_owned(),
            _ => format!("p:n{}", self.below(20)),
        }
    }

    fn literal(&mut self) -> String {
        let tag = self.of(&["en", "EN-us", "de-1996", "x-private", "i-klingon", "abcdefgh", "zh-Hant-CN-x-a-b"]);
        match self.below(12) {
            0 => format!("{}", self.below(1 << 40) as i64 - (1 << 39)),
            1 => "true".to_owned(),
            2 => "1.50e-7".to_owned(),
            3 => "\"0017\"^^xsd:integer".to_owned(),
            4 => format!("\"a\"@{tag}"),
            5 => "'''two\nlines \\t \\\" \\\\ \u{1F600}'''".to_owned(),
            6 => format!("\"{}\"", "long ".repeat(self.below(20_000) as usize)),
            7 => "\"x\"^^<http://e/a-type>".to_owned(),
            8 => "\"\"".to_owned(),
            9 => "\"\\u0001\\u007F\"".to_owned(),
            _ => format!("\"{}\"", self.below(50)),
        }
    }

    fn triple(&mut self, levels: u64) -> String {
        let object = match levels {
            0 => self.literal(),
            _ => self.triple(levels - 1),
        };
        format!("<<( {} {} {object} )>>", self.iri(), self.iri())
    }

    fn object(&mut self, rdf_12: bool) -> String {
        match self.below(6) {
            0 => "_:b".to_owned(),
            1 | 2 => self.iri(),
            3 if rdf_12 && self.below(3) == 0 => {
                let levels = self.below(70);
                self.triple(levels)
            }
            3 if rdf_12 => "\"a\"@ar--rtl".to_owned(),
            _ => self.literal(),
        }
    }

    /// An expression that makes a term, or fails.
    fn expression(&mut self, rdf_12: bool) -> String {
        let text = self.of(&["STR(?o)", "\"a b\"", "\"\"", "CONCAT(STR(?s), STR(?o))", "\"\\n\""]);
        match self.below(if rdf_12 { 9 } else { 7 }) {
            0 => format!("IRI(CONCAT(\"http://e/\", ENCODE_FOR_URI({text})))"),
            1 => format!("IRI({text})"),
            2 => format!("STRDT({text}, IRI(CONCAT(\"http://e/t\", ENCODE_FOR_URI({text}))))"),
            3 => format!("STRLANG({text}, \"{}\")", self.of(&["en", "", "no good", "a-toolongpart", "1", "en--ltr"])),
            4 => format!(
                "STRDT({text}, {})",
                self.of(&["rdf:langString", "xsd:integer", "xsd:string", "rdf:dirLangString"])
            ),
            5 => format!("REPLACE(REPLACE({text}, \"(.)\", \"$1$1$1$1\"), \"(.)\", \"$1$1$1$1\")"),
            6 => "BNODE()".to_owned(),
            7 => format!("TRIPLE(?s, ?p, {text})"),
            _ => format!("STRLANGDIR({text}, \"ar\", \"{}\")", self.of(&["rtl", "ltr", "up"])),
        }
    }

    fn operation(&mut self, rdf_12: bool) -> String {
        let graph = format!("p:g{}", self.below(3));
        let in_graph = |text: String, is_in: bool| if is_in { format!("GRAPH {graph} {{ {text} }}") } else { text };
        match self.below(10) {
            0..=3 => {
                let count = self.below(30) + 1;
                let triples: String =
                    (0..count).map(|_| format!("{} {} {} . ", self.iri(), self.iri(), self.object(rdf_12))).collect();
                format!("INSERT DATA {{ {} }}", in_graph(triples, self.below(2) == 0))
            }
            4 | 5 => {
                let made = self.expression(rdf_12);
                let template = self.of(&["?s ?p ?x", "?x ?p ?o", "?s ?p [ p:of ?x ]", "?s ?x ?o"]).to_owned();
                let template = in_graph(template, self.below(2) == 0);
                let deletes = self.of(&["", "DELETE { ?s ?p ?o } "]);
                format!(
                    "{deletes}INSERT {{ {template} }} WHERE {{ {{ SELECT * {{ ?s ?p ?o }} LIMIT 20 }} \
                        BIND({made} AS ?x) }}"
                )
            }
            6 => format!("CLEAR SILENT {}", self.of(&["DEFAULT", "NAMED", "GRAPH p:g0", "GRAPH p:g1"])),
            7 => {
                let [from, to] = [0; 2].map(|_| self.of(&["DEFAULT", "GRAPH p:g0", "GRAPH p:g1", "GRAPH p:g2"]));
                format!("{} SILENT {from} TO {to}", self.of(&["COPY", "ADD", "MOVE"]))
            }
            8 => format!("LOAD <http://e/document> INTO GRAPH {graph}"),
            _ => "DELETE WHERE { ?s p:n1 ?o }".to_owned(),
        }
    }
}

/// What happened: terms were acknowledged that no reader took again.
#[test]
fn what_is_acknowledged_is_read_again() {
    for seed in [1_u64, 0x5EED, 77_777, 0xF00D_F00D] {
        println!("seed {seed}");
        let mut chance = Chance(seed);
        let rdf_12 = chance.below(2) == 0;
        let service = service("las", 1 << 30);
        let folder = Folder::new(&format!("seed-{seed}"));
        let store = create_store(&folder.0).expect("a folder can be made");
        let (mut made, mut refused) = (0, 0);
        for _ in 0..60 {
            let base = if rdf_12 { self::rdf_12() } else { SessionOptions::default() };
            let turtle = format!("<http://e/{}> <p> \"a\\nb\" , <r> , 'x'@en .", chance.below(100));
            let bytes = std::io::Cursor::new(turtle);
            let name = "http://e/document";
            let document = Document::new(name.to_owned(), Syntax::Turtle, Some(name.to_owned()), bytes);
            let options = SessionOptions { base: Some("http://e/base/".to_owned()), document: Some(document), ..base };
            let prefixes = "PREFIX p: <http://e/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> PREFIX rdf: \
                <http://www.w3.org/1999/02/22-rdf-syntax-ns#>";
            let text = format!("{prefixes} {}", chance.operation(rdf_12));
            match service.update_store(&text, &store, options) {
                Ok(_) => made += 1,
                Err(StoreUpdateError::Update(Error::Query(error))) => {
                    assert!(rdf_12, "all is SPARQL: {error}");
                    refused += 1;
                }
                // A term that is too long, or too deep.
                Err(StoreUpdateError::Update(Error::Operation { .. })) => refused += 1,
                Err(StoreUpdateError::Store(error)) => panic!("{error}"),
                Err(error) => {
                    println!("{error}");
                    refused += 1;
                }
            }
        }
        println!("{made} updates, {refused} refused, {} quads", store.snapshot().len());
        assert!(made > refused);
        let unwritten = is_read_again(&service, store, &folder, rdf_12);
        println!("not written: {unwritten:?}");
        assert!(!unwritten.contains(&"nq") && !unwritten.contains(&"trig"), "they write everything");
    }
}

/// Each is acknowledged up to a length, and refused beyond.
#[test]
fn terms_that_no_dump_could_hold_are_refused() {
    let service = service("las", 4 << 30);
    let iri = |bytes: usize| format!("<http://e/{}>", "i".repeat(bytes - 9));
    let concat = |bytes: usize| {
        format!("IRI(CONCAT(\"http://e/\", REPLACE(\"{}\", \"i\", \"{}\")))", "i".repeat(bytes / 512), "j".repeat(512))
    };
    let (fits, long) = (64 << 10, (64 << 10) + 1);
    let inserted = |term: &str| format!("INSERT DATA {{ <a:s> <a:p> {term} }}");
    let computed = |term: &str| format!("INSERT {{ <a:s> <a:p> ?x }} WHERE {{ BIND({term} AS ?x) }}");
    let cases = [
        (inserted(&iri(fits)), true),
        (inserted(&iri(long)), false),
        (inserted(&format!("[ <a:p> {} ]", iri(fits))), true),
        (inserted(&format!("[ <a:p> {} ]", iri(long))), false),
        (format!("INSERT DATA {{ GRAPH {} {{ <a:s> <a:p> 1 }} }}", iri(long)), false),
        (format!("INSERT DATA {{ <a:s> {} 1 }}", iri(long)), false),
        (inserted(&format!("\"x\"^^{}", iri(fits))), true),
        (inserted(&format!("\"x\"^^{}", iri(long))), false),
        (inserted(&format!("<<( <a:s> <a:p> {} )>>", iri(fits))), true),
        (inserted(&format!("<<( <a:s> <a:p> <<( {} <a:p> 1 )>> )>>", iri(long))), false),
        (computed(&concat(60 << 10)), true),
        (computed(&concat(66 << 10)), false),
        (computed(&format!("STRDT(\"x\", {})", concat(66 << 10))), false),
        (computed(&format!("TRIPLE(<a:s>, <a:p>, {})", concat(66 << 10))), false),
        (format!("INSERT DATA {{ <a:s> <a:p> 7 }} ; ADD DEFAULT TO GRAPH {}", iri(long)), false),
    ];
    let folder = Folder::new("long");
    let store = create_store(&folder.0).expect("a folder can be made");
    for (text, is_good) in cases {
        let shown: String = text.chars().take(100).collect();
        match (service.update_store(&text, &store, rdf_12()), is_good) {
            (Ok(_), true) => {}
            (Err(error), false) => assert!(error.to_string().contains("--max-iri"), "{shown}: {error}"),
            (done, _) => panic!("{shown}: {:?}", done.map_err(|error| error.to_string())),
        }
    }
    let longer = SessionOptions { longest_iri: long, ..rdf_12() };
    let unwritten = is_read_again(&service, store, &folder, true);
    assert_eq!(unwritten, ["jsonld"]);
    let store = open_store(&folder.0).expect("the store opens again");
    service.update_store(&inserted(&iri(long)), &store, longer).expect("a longer one is permitted");
}

/// Escapes make a text up to six times as long in a dump.
#[test]
fn texts_that_no_line_could_hold_are_refused() {
    let service = service("las", 16 << 30);
    let text = || TextLimits { bytes: 128 << 20, ..TextLimits::default() };
    let options = || SessionOptions { text: text(), ..SessionOptions::default() };
    let folder = Folder::new("escaped");
    let store = create_store(&folder.0).expect("a folder can be made");
    for (letter, mib, is_good) in [
        ("\u{1}", 9, true),
        ("\u{1}", 11, false),
        ("\\n", 29, true),
        ("\\n", 31, false),
        ("<", 13, false),
        ("<", 11, true),
    ] {
        let text = format!("INSERT DATA {{ <a:s> <a:p> \"{}\" }}", letter.repeat(mib << 20));
        match (service.update_store(&text, &store, options()), is_good) {
            (Ok(_), true) => {}
            (Err(error), false) => assert!(error.to_string().contains("its escapes included"), "{error}"),
            (done, _) => panic!("{mib} MiB of {letter:?}: {:?}", done.map_err(|error| error.to_string())),
        }
    }
    assert_eq!(is_read_again(&service, store, &folder, false), ["rdfxml"]);
}

/// A dump of JSON-LD is one list, and a graph with a name was one item of it.
#[test]
fn a_large_dump_of_json_is_read_again() {
    let service = service("las", 8 << 30);
    let folder = Folder::new("json");
    let store = create_store(&folder.0).expect("a folder can be made");
    let value = "v".repeat(1 << 20);
    for place in ["<a:s> <a:p>", "GRAPH <a:g> { <a:s> <a:p>"] {
        for part in 0..4 {
            let values: Vec<String> = (0..10).map(|n| format!("\"{part}{n}{value}\"")).collect();
            let end = if place.starts_with("GRAPH") { "}" } else { "" };
            let text = format!("INSERT DATA {{ {place} {} {end} }}", values.join(", "));
            service.update_store(&text, &store, SessionOptions::default()).expect("it is short enough");
        }
    }
    assert_eq!(is_read_again(&service, store, &folder, false), ["nt", "ttl", "rdfxml"]);
}

/// What happened: an answer of a SERVICE brought triple terms that the store's log could not be read with, also to a
/// server without RDF 1.2.
#[test]
fn triple_terms_of_a_service_are_kept_or_refused() {
    use super::web::{of_type, respond, serve};
    use vicus_service::{Web, WebOptions};
    let json = |levels: usize| {
        let node = "{\"type\":\"uri\",\"value\":\"http://e/s\"}";
        let open = format!("{{\"type\":\"triple\",\"value\":{{\"subject\":{node},\"predicate\":{node},\"object\":");
        let term = format!("{}{node}{}", open.repeat(levels), "}}".repeat(levels));
        format!("{{\"head\":{{\"vars\":[\"t\"]}},\"results\":{{\"bindings\":[{{\"t\":{term}}}]}}}}")
    };
    let xml = |levels: usize| {
        let node = "<uri>http://e/s</uri>";
        let open = format!("<triple><subject>{node}</subject><predicate>{node}</predicate><object>");
        let term = format!("{}{node}{}", open.repeat(levels), "</object></triple>".repeat(levels));
        format!(
            "<sparql xmlns=\"http://www.w3.org/2005/sparql-results#\"><head><variable name=\"t\"/></head><results>\
                <result><binding name=\"t\">{term}</binding></result></results></sparql>"
        )
    };
    let service = service("las", 1 << 30);
    for (media_type, text) in [
        ("application/sparql-results+json", &json as &dyn Fn(usize) -> String),
        ("application/sparql-results+xml", &xml),
    ] {
        for levels in [1, 2, 63, 64, 65, 66, 200] {
            for reads_12 in [false, true] {
                let (body, headers) = (text(levels), of_type(media_type));
                let url = serve(move |_, connection| respond(connection, "200 OK", &headers, &body));
                let permits = vec![url.parse().expect("a permit")];
                let web = Arc::new(Web::new(WebOptions { permits, ..WebOptions::default() }));
                let options = SessionOptions { web, ..if reads_12 { rdf_12() } else { SessionOptions::default() } };
                let folder = Folder::new(&format!("service-{levels}-{reads_12}-{}", media_type.len()));
                let store = create_store(&folder.0).expect("a folder can be made");
                let text =
                    format!("INSERT {{ <http://e/s> <http://e/p> ?t }} WHERE {{ SERVICE <{url}> {{ ?s ?p ?t }} }}");
                let done = service.update_store(&text, &store, options);
                let count = store.snapshot().len();
                println!(
                    "{media_type}, {levels} levels, {reads_12}: {:?}, {count} quads",
                    done.as_ref().map(|_| ()).map_err(|error| error.to_string())
                );
                match done {
                    Ok(_) => assert!(count <= 1 && levels <= 64, "{levels} levels"),
                    Err(_) => assert!(count == 0 && (levels > 64 || !reads_12), "{levels} levels"),
                }
                is_read_again(&service, store, &folder, reads_12);
            }
        }
    }
}
