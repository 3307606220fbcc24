//! Loading as a flow request: the same store as in sequence under every schedule, and an end for any failure.

use crate::model::assert_same;
use crate::{check, random, read, shared};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::sync::{Arc, OnceLock};
use vicus_flow::{FlowError, sequential};
use vicus_memory::{FakePages, Memory, MemoryOptions};
use vicus_rdf::load::{Load, LoadError, LoadOptions, LoadSource, LoadedSnapshot, Phase, Progress, Syntax};
use vicus_rdf::{Id, Loader, OnError, Order, Snapshot, StorePlacement, TermKind};
use vicus_topology::{NodeId, Topology};

/// Returns its bytes a few at a time, and then an error if told to.
struct Pipe {
    bytes: Vec<u8>,
    at: usize,
    step: usize,
    error: Option<io::ErrorKind>,
    /// Dropped together with the reader.
    _held: Arc<()>,
}

impl Pipe {
    fn new(bytes: impl Into<Vec<u8>>, step: usize) -> Pipe {
        Pipe { bytes: bytes.into(), at: 0, step, error: None, _held: Arc::default() }
    }
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty()
            && let Some(kind) = self.error
        {
            return Err(io::Error::new(kind, "the disk is on fire"));
        }
        let count = rest.len().min(self.step).min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}

/// Runs a load in an order given by the seed; 0 is the youngest first.
fn run(load: &Load, seed: u64) -> Result<(), FlowError> {
    let mut state = seed;
    let choose = |count: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed);
        (state >> 33) as usize % count
    };
    sequential::run(load.model(), Vec::new(), choose).map(|_| ())
}

pub(crate) fn load(sources: Vec<LoadSource>, options: LoadOptions, seed: u64) -> Result<LoadedSnapshot, FlowError> {
    let load = Load::new(sources, options);
    run(&load, seed)?;
    Ok(load.finish().expect("the request has ended well"))
}

/// A failure in the form for a door.
fn error(failure: &FlowError) -> &LoadError {
    LoadError::of(failure).unwrap_or_else(|| panic!("not an error of loading: {failure}"))
}

pub(crate) const BASE: &str = "http://e/";

pub(crate) fn in_sequence(sources: &[(Syntax, Vec<u8>)], on_error: OnError) -> Loader {
    let mut loader = Loader::new(on_error);
    for (syntax, text) in sources {
        loader.file(text, *syntax, Some(BASE)).expect("it is well-formed, or errors are skipped");
    }
    loader
}

pub(crate) fn piped(sources: &[(Syntax, Vec<u8>)], step: usize) -> Vec<LoadSource> {
    let source = |(place, (syntax, text)): (usize, &(Syntax, Vec<u8>))| {
        LoadSource::new(format!("file {place}"), *syntax, Pipe::new(text.clone(), step)).with_base(BASE)
    };
    sources.iter().enumerate().map(source).collect()
}

#[test]
fn any_schedule_chunks_and_workers_make_the_same_store() {
    let syntax = prop_oneof![
        3 => Just(Syntax::NTriples), 1 => Just(Syntax::NQuads), 2 => Just(Syntax::Turtle), 1 => Just(Syntax::TriG),
        1 => Just(Syntax::RdfXml), 1 => Just(Syntax::JsonLd)
    ];
    let sources = proptest::collection::vec((syntax, random::quads(), any::<bool>()), 0..5);
    let numbers = (1..9_usize, 1..3000_usize, prop_oneof![Just(1_usize), Just(7), Just(usize::MAX)], any::<u64>());
    check(300, (sources, numbers), |(sources, (workers, chunk_bytes, step, seed))| {
        let mut texts = Vec::new();
        for (syntax, quads, ends_with_newline) in sources {
            let mut text = random::document_in(syntax, &quads);
            if !ends_with_newline && syntax.is_of_lines() {
                text.pop();
            }
            texts.push((syntax, text));
        }
        let whole = in_sequence(&texts, OnError::Fail).finish();
        let options = LoadOptions { workers, chunk_bytes, ..LoadOptions::default() };
        let loaded =
            load(piped(&texts, step), options, seed).map_err(|error| TestCaseError::fail(error.to_string()))?;
        loaded.snapshot.assert_valid();
        prop_assert_eq!((loaded.skipped, loaded.first_skipped), (0, None));
        assert_same(&whole, &loaded.snapshot)
    });
}

/// A memory of `nodes` nodes, without pages of the system.
fn memory(nodes: usize) -> Arc<Memory> {
    let machine = Topology::parse(&format!("node:{nodes} core:1")).unwrap();
    let options = MemoryOptions { range_bytes: 32 << 20, placed_bytes: 64 << 20, ..MemoryOptions::default() };
    Memory::new(Arc::new(FakePages::new(nodes)), &machine, options).unwrap()
}

#[test]
fn a_large_store_is_laid_over_the_nodes_and_stays_the_same() {
    let triple = |n: u32| format!("<http://e/{}> <http://e/p{}> \"{n} and some text\" .\n", n / 3, n % 5);
    let text: String = (0..60_000).map(triple).collect();
    let sources = [(Syntax::NTriples, text.into_bytes())];
    let whole = in_sequence(&sources, OnError::Fail).finish();
    for nodes in [1, 3, 4] {
        let memory = memory(nodes);
        let options = LoadOptions {
            workers: 2,
            over: Some(StorePlacement { memory: Arc::clone(&memory), threads: vec![1; nodes] }),
            ..LoadOptions::default()
        };
        let snapshot = load(piped(&sources, usize::MAX), options, 7).unwrap().snapshot;
        snapshot.assert_valid();
        assert_same(&whole, &snapshot).unwrap();
        for order in Order::USUAL.into_iter().filter(|order| order.is_by_graph()) {
            let index = snapshot.index(order);
            let pieces = index.pieces(5..59_000);
            assert_eq!(pieces.len(), nodes, "a range on each node");
            assert_eq!((pieces[0].range.start, pieces[nodes - 1].range.end), (5, 59_000));
            for (node, piece) in pieces.iter().enumerate() {
                assert_eq!(piece.home, Some(NodeId::new(node)));
                let rows = piece.range.start as usize..piece.range.end as usize;
                assert_eq!([index.home(rows.start), index.home(rows.end - 1)], [piece.home; 2]);
            }
        }
        if nodes > 1 {
            let home = |rank: usize| snapshot.dictionary().home(Id::ranked(TermKind::String, rank));
            let homes: BTreeSet<_> = (0..60_000).step_by(50).map(|rank| home(rank).unwrap()).collect();
            assert_eq!(homes.len(), nodes, "the dictionary's pages go round");
        }
    }
}

#[test]
fn nothing_loads_as_nothing() {
    for workers in [1, 3] {
        for count in [0, 1, 5] {
            for syntax in [Syntax::NTriples, Syntax::Turtle] {
                let sources = (0..count).map(|_| LoadSource::new("empty", syntax, io::empty())).collect();
                let loaded = load(sources, LoadOptions { workers, ..LoadOptions::default() }, 5).unwrap();
                loaded.snapshot.assert_valid();
                assert!(loaded.snapshot.is_empty() && loaded.snapshot.dictionary().is_empty());
            }
        }
    }
}

#[test]
fn an_error_names_its_source_and_place() {
    let good = "<http://e/a> <http://e/b> \"c\" .\n".repeat(50);
    let bad = format!("{good}<http://e/a> <http://e/é> .\n{good}");
    for (syntax, column) in [(Syntax::NTriples, 27), (Syntax::Turtle, 27)] {
        for (workers, chunk_bytes, seed) in [(1, 100, 0), (2, 1 << 20, 3), (4, 333, 4), (8, 1, 9)] {
            let texts = [good.clone(), bad.clone(), good.clone()].map(|text| (syntax, text.into_bytes()));
            let options = LoadOptions { workers, chunk_bytes, ..LoadOptions::default() };
            let failure = load(piped(&texts, 50), options, seed).unwrap_err();
            let LoadError::Malformed(malformed) = error(&failure) else { panic!("{failure}") };
            assert_eq!((malformed.name.as_str(), malformed.error.file), ("file 1", 1));
            assert_eq!((malformed.error.line, malformed.error.column), (51, column), "{malformed}");
            let shown = failure.to_string();
            assert!(shown.contains(&format!("failed: file 1:51:{column}: ")), "{shown}");
        }
    }
}

#[test]
fn a_base_that_is_no_iri_is_the_sources_error() {
    let source = LoadSource::new("a.ttl", Syntax::Turtle, io::empty()).with_base("no iri");
    let failure = load(vec![source], LoadOptions::default(), 0).unwrap_err();
    assert!(error(&failure).to_string().starts_with("a.ttl:0:0: the base must be an IRI"), "{failure}");
}

#[test]
fn skipped_lines_are_counted_and_the_first_is_told() {
    let good = "<http://e/a> <http://e/b> _:c .\n";
    let texts = [
        (Syntax::NTriples, good.repeat(9).into_bytes()),
        (Syntax::NTriples, format!("{good}{good}nonsense\n{good}\n\"a\" .\n{good}").into_bytes()),
        (Syntax::Turtle, format!("{good}nonsense .\n{good}").into_bytes()),
        (Syntax::NTriples, b"more nonsense".to_vec()),
    ];
    let mut expected = in_sequence(&texts, OnError::Skip);
    let skipped = expected.skipped();
    assert!(skipped >= 4);
    let expected = std::mem::take(&mut expected).finish();
    for (workers, chunk_bytes, seed) in [(1, 1 << 20, 0), (2, 40, 1), (5, 1, 2)] {
        let options = LoadOptions { workers, chunk_bytes, on_error: OnError::Skip, ..LoadOptions::default() };
        let loaded = load(piped(&texts, 3), options, seed).unwrap();
        assert_eq!(loaded.skipped, skipped);
        let first = loaded.first_skipped.expect("some were skipped");
        assert_eq!((first.name.as_str(), first.error.line, first.error.column), ("file 1", 3, 1));
        assert_same(&expected, &loaded.snapshot).unwrap();
    }
}

#[test]
fn a_source_that_breaks_fails_the_request_and_lets_go_of_all_sources() {
    let good = "<http://e/a> <http://e/b> \"c\" .\n";
    for seed in 0..60 {
        let held = Arc::new(());
        let sources = (0..6_usize).map(|place| {
            let syntax = if place % 3 == 1 { Syntax::Turtle } else { Syntax::NTriples };
            let mut pipe = Pipe::new(good.repeat(seed * place), 40);
            pipe._held = Arc::clone(&held);
            pipe.error = (place == 4).then_some(io::ErrorKind::TimedOut);
            LoadSource::new(format!("pipe {place}"), syntax, pipe)
        });
        let options = LoadOptions { workers: 1 + seed % 4, chunk_bytes: 100, ..LoadOptions::default() };
        let load = Load::new(sources.collect(), options);
        let failure = run(&load, seed as u64).unwrap_err();
        let LoadError::Unreadable { name, error: io } = error(&failure) else { panic!("{failure}") };
        assert_eq!((name.as_str(), io.kind()), ("pipe 4", io::ErrorKind::TimedOut));
        assert_eq!(error(&failure).to_string(), "pipe 4 could not be read: the disk is on fire");
        assert!(matches!(load.finish(), Err(LoadError::Unfinished)));
        assert_eq!(Arc::strong_count(&held), 1);
    }
}

#[test]
fn a_load_is_one_request() {
    let load =
        Load::new(vec![LoadSource::new("a", Syntax::NTriples, &b"<a:a> <a:b> <a:c> ."[..])], LoadOptions::default());
    run(&load, 0).unwrap();
    let failure = run(&load, 1).unwrap_err();
    assert!(matches!(error(&failure), LoadError::Again));
    // The first load's data is still there.
    assert_eq!(load.finish().unwrap().snapshot.len(), 1);
}

#[test]
fn a_line_may_be_longer_than_many_chunks() {
    let short = "<http://e/a> <http://e/b> \"c\" .\n";
    let long = format!("{short}<http://e/a> <http://e/b> \"{}\" .\n{short}", "long ".repeat(2 << 20));
    let options = || LoadOptions { workers: 2, chunk_bytes: 64 << 10, ..LoadOptions::default() };
    let source = |text: &str| vec![LoadSource::new("long", Syntax::NTriples, Pipe::new(text, usize::MAX))];
    let loaded = load(source(&long), options(), 7).unwrap();
    assert_same(&Snapshot::of_ntriples(long.as_bytes()).unwrap(), &loaded.snapshot).unwrap();
    // The lines after it keep their numbers.
    let failure = load(source(&format!("{long}nonsense")), options(), 7).unwrap_err();
    assert!(error(&failure).to_string().starts_with("long:4:1: "), "{failure}");
    // Without any newline at all.
    let line = long.lines().nth(1).unwrap();
    assert_eq!(load(source(line), options(), 7).unwrap().snapshot.len(), 1);
}

#[test]
fn further_orders_are_made() {
    let texts = [(Syntax::NTriples, b"<a:a> <a:b> <a:c> .\n<a:c> <a:b> <a:a> .\n".repeat(3))];
    let orders = vec![Order::Gosp, Order::Gpos];
    let loaded = load(piped(&texts, 10), LoadOptions { orders, ..LoadOptions::default() }, 0).unwrap();
    loaded.snapshot.assert_valid();
    let made: Vec<Order> = loaded.snapshot.orders().collect();
    assert_eq!(
        made,
        [
            Order::Gspo,
            Order::Gpso,
            Order::Gpos,
            Order::Gosp,
            Order::Gops,
            Order::Spog,
            Order::Psog,
            Order::Posg,
            Order::Opsg,
        ]
    );
    assert_eq!(loaded.snapshot.index(Order::Gosp).len(), 2);
}

/// Notes at each read how far behind the parsers are.
struct Ahead {
    line: &'static [u8],
    lines: u64,
    progress: Arc<OnceLock<Arc<Progress>>>,
    most: u64,
}

impl Read for Ahead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let progress = self.progress.get().expect("it is set before the start");
        let length = self.line.len() as u64;
        let ahead = progress.bytes() - progress.triples() * length;
        assert!(ahead <= self.most, "{ahead} bytes wait to be parsed");
        if self.lines == 0 {
            return Ok(0);
        }
        self.lines -= 1;
        buffer[..self.line.len()].copy_from_slice(self.line);
        Ok(self.line.len())
    }
}

#[test]
fn readers_do_not_run_ahead_of_parsers() {
    let line = b"<http://e/a> <http://e/b> <http://e/c> .\n";
    let lines_in_chunk = 10;
    for seed in 0..40 {
        let workers = 1 + seed as usize % 3;
        let chunk_bytes = line.len() * lines_in_chunk;
        let progress = Arc::new(OnceLock::new());
        // In hand, refused, waiting for `deal`; in `deal`; before each parser.
        let chunks = 4 + workers;
        let most = (chunks * chunk_bytes) as u64;
        let reader = Ahead { line, lines: 1000, progress: Arc::clone(&progress), most };
        let options = LoadOptions { workers, chunk_bytes, ..LoadOptions::default() };
        let load = Load::new(vec![LoadSource::new("endless", Syntax::NTriples, reader)], options);
        assert_eq!(load.progress().phase(), Phase::Text);
        progress.set(load.progress()).expect("set once");
        run(&load, seed).unwrap();
        let progress = load.progress();
        assert_eq!((progress.triples(), progress.bytes()), (1000, 1000 * line.len() as u64));
        assert_eq!(progress.phase(), Phase::Done);
        assert_eq!(load.finish().unwrap().snapshot.len(), 1);
    }
}

#[test]
fn sp2bench_files_load_the_same() {
    let Some(path) = shared("sp2b/data/sp2b-50000.nt.gz") else { return };
    let Some(turtle) = shared("sp2b/data/original-10k.ttl.gz") else { return };
    let texts = [(Syntax::NTriples, read(&path)), (Syntax::Turtle, read(&turtle)), (Syntax::NTriples, read(&path))];
    let whole = in_sequence(&texts, OnError::Fail).finish();
    for (workers, seed) in [(1, 0), (2, 1), (5, 2)] {
        let options = LoadOptions { workers, ..LoadOptions::default() };
        assert_same(&whole, &load(piped(&texts, usize::MAX), options, seed).unwrap().snapshot).unwrap();
    }
}

/// What happened: an endless line grew until the system killed the process.
#[test]
fn an_endless_line_is_an_error_with_its_place() {
    let good = "<http://e/a> <http://e/b> \"c\" .\n".repeat(20);
    let endless = || {
        let texts = [
            // No line feed, as in /dev/zero; and a quotation mark too few.
            (Syntax::NTriples, format!("{good}<http://e/"), 21),
            (Syntax::Turtle, format!("{good}<http://e/"), 21),
            (Syntax::Turtle, format!("{good}<http://e/a> <http://e/b> '''"), 21),
            (Syntax::NTriples, String::new(), 1),
        ];
        texts.into_iter().flat_map(|(syntax, text, line)| {
            [&b"\0"[..], b"x", b"\\t"].map(|piece| (syntax, text.clone(), line, piece))
        })
    };
    for (syntax, text, line, piece) in endless() {
        for (workers, chunk_bytes) in [(1, 100), (2, 5000), (3, 1 << 20)] {
            let rest = std::iter::repeat_n(piece, usize::MAX).flatten().copied();
            let reader = text.clone().into_bytes().into_iter().chain(rest);
            let source = LoadSource::new("endless", syntax, Endless(Box::new(reader)));
            let options = LoadOptions { workers, chunk_bytes, longest_line: 30_000, ..LoadOptions::default() };
            let failure = load(vec![source], options, 7).expect_err("it never ends");
            match LoadError::of(&failure) {
                Some(LoadError::TooLong { name, line: found, limit }) => {
                    assert_eq!((name.as_str(), *limit), ("endless", 30_000));
                    assert_eq!(*found, line, "{syntax:?}, {piece:?}, {chunk_bytes}");
                }
                // An impossible first character of a Turtle token is reported at once.
                Some(LoadError::Malformed(malformed)) => {
                    assert_eq!((syntax, malformed.error.line), (Syntax::Turtle, line))
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

struct Endless(Box<dyn Iterator<Item = u8> + Send>);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        buffer.iter_mut().for_each(|byte| *byte = self.0.next().expect("it never ends"));
        Ok(buffer.len())
    }
}

#[test]
fn a_line_of_the_longest_length_is_read_and_a_longer_one_is_not() {
    for (length, is_read) in [(1000, true), (1001, false)] {
        let line = |length: usize| format!("<http://e/a> <http://e/b> \"{}\" .\n", "c".repeat(length - 30));
        let text = format!("{}{}{}", line(70).repeat(30), line(length), line(90));
        for chunk_bytes in [10, 1 << 20] {
            let source = LoadSource::new("long", Syntax::NTriples, std::io::Cursor::new(text.clone().into_bytes()));
            let options = LoadOptions { chunk_bytes, longest_line: 1000, ..LoadOptions::default() };
            match load(vec![source], options, 3) {
                Ok(loaded) => assert!(is_read && loaded.snapshot.len() == 3),
                Err(failure) => {
                    let error = LoadError::of(&failure).expect("it says what is wrong").to_string();
                    assert!(!is_read && error.starts_with("long:31: more than 1000 bytes"), "{error}");
                }
            }
        }
    }
}

/// Documents of one syntax with this IRI in each place.
type Documents<'a> = &'a dyn Fn(&str) -> Vec<String>;

/// What happened: a line of N-Triples with an IRI beyond the limit was loaded, and the same triple in Turtle refused.
#[test]
fn the_longest_iri_is_the_same_in_every_syntax() {
    const LONGEST: usize = 300;
    const RDF: &str = "xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'";
    let iri = |bytes: usize| format!("http://e/{}", "x".repeat(bytes - "http://e/".len()));
    // A statement with this IRI as subject, predicate, object, datatype and graph; each first one has no graph.
    let lines = |iri: &str| {
        let triples = ["<@> <a:p> <a:o> .", "<a:s> <@> \"o\" .", "<a:s> <a:p> <@> .", "<a:s> <a:p> \"1\"^^<@> ."];
        triples.map(|text| text.replace('@', iri)).to_vec()
    };
    let quads = |iri: &str| {
        let mut quads: Vec<_> = lines(iri).iter().map(|line| line.replace(" .", " <a:g> .")).collect();
        quads.push(format!("<a:s> <a:p> <a:o> <{iri}> ."));
        // Not plain: a string with an escape, and an IRI beyond ASCII.
        quads.extend([format!("<a:s> <a:p> \"\\n\"^^<{iri}> ."), format!("<a:é> <a:p> <{iri}> <a:g> .")]);
        quads
    };
    let trig = |iri: &str| {
        let mut all: Vec<_> = lines(iri).iter().map(|line| format!("<a:g> {{ {line} }}")).collect();
        all.extend([format!("<{iri}> {{ <a:s> <a:p> <a:o> }}"), format!("PREFIX l: <{iri}> <a:s> <a:p> l: .")]);
        all
    };
    let xml = |iri: &str| {
        let (space, name) = iri.split_at(20);
        [
            format!("<rdf:Description rdf:about='{iri}'><p xmlns='a:'>o</p></rdf:Description>"),
            format!("<rdf:Description rdf:about='a:s'><l:{name} xmlns:l='{space}'>o</l:{name}></rdf:Description>"),
            format!("<rdf:Description rdf:about='a:s'><p xmlns='a:' rdf:resource='{iri}'/></rdf:Description>"),
            format!("<rdf:Description rdf:about='a:s'><p xmlns='a:' rdf:datatype='{iri}'>1</p></rdf:Description>"),
        ]
        .map(|text| format!("<rdf:RDF {RDF}>{text}</rdf:RDF>"))
        .to_vec()
    };
    let json = |iri: &str| {
        [
            format!(r#"{{"@id": "{iri}", "a:p": "o"}}"#),
            format!(r#"{{"@id": "a:s", "{iri}": "o"}}"#),
            format!(r#"{{"@id": "a:s", "a:p": {{"@id": "{iri}"}}}}"#),
            format!(r#"{{"@id": "a:s", "a:p": {{"@value": "1", "@type": "{iri}"}}}}"#),
            format!(r#"{{"@id": "{iri}", "@graph": [{{"@id": "a:s", "a:p": "o"}}]}}"#),
        ]
        .to_vec()
    };
    let syntaxes: [(Syntax, Documents<'_>); 6] = [
        (Syntax::NTriples, &lines),
        (Syntax::NQuads, &quads),
        (Syntax::Turtle, &lines),
        (Syntax::TriG, &trig),
        (Syntax::RdfXml, &xml),
        (Syntax::JsonLd, &json),
    ];
    for (syntax, texts) in syntaxes {
        for (bytes, is_read) in [(LONGEST, true), (LONGEST + 1, false)] {
            for text in texts(&iri(bytes)) {
                for on_error in [OnError::Fail, OnError::Skip] {
                    let source = LoadSource::new("long", syntax, std::io::Cursor::new(text.clone().into_bytes()));
                    let options = LoadOptions { longest_iri: LONGEST, on_error, ..LoadOptions::default() };
                    match load(vec![source], options, 5) {
                        Ok(loaded) if is_read => assert_eq!((loaded.snapshot.len(), loaded.skipped), (1, 0), "{text}"),
                        Ok(loaded) if on_error == OnError::Skip => {
                            assert_eq!((loaded.snapshot.len(), loaded.skipped), (0, 1), "{text}");
                        }
                        Ok(_) => panic!("{syntax:?} reads {text}"),
                        Err(failure) => {
                            let error = LoadError::of(&failure).expect("it says what is wrong").to_string();
                            assert!(!is_read && error.contains("more than 300 bytes"), "{syntax:?}: {error} {text}");
                        }
                    }
                }
            }
        }
    }
}
