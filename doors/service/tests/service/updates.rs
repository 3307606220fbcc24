//! Updates as calls: their effect under each strategy, their failures, and the files for LOAD.

use super::web::{of_type, respond, serve};
use super::*;
use oxrdf::Term;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use vicus_rdf::Order;
use vicus_service::{
    Ask, CallLimits, Cancel, Draft, Error, ErrorKind, Store, StoreUpdateError, Updated, Updating, Web, WebOptions,
    check_update, create_store, open_store,
};
use vicus_sparql::{Moment, UpdateChange};

fn lines(dataset: &Dataset) -> BTreeSet<String> {
    let snapshot = dataset.snapshot();
    let index = snapshot.index(Order::Gspo);
    let line = |row: usize| {
        let terms = index.quad(row).into_iter().filter(|id| !id.is_unbound());
        terms.map(|id| snapshot.term(id).to_string()).collect::<Vec<_>>().join(" ")
    };
    (0..index.len()).map(line).collect()
}

fn of(lines: &[&str]) -> Dataset {
    let text: String = lines.iter().map(|line| format!("{line} .\n")).collect();
    Dataset::new(Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples")))
}

fn update(
    service: &Service,
    dataset: &Dataset,
    text: &str,
    options: SessionOptions,
) -> Result<(BTreeSet<String>, Updated), Error> {
    let mut draft = Draft::of(dataset);
    let updated = service.update(text, &mut draft, options)?;
    Ok((lines(&draft.dataset()), updated))
}

/// The expected triples are made by hand: of 3,000, those of even subjects move to another predicate and get a new
/// term.
#[test]
fn an_update_does_the_same_under_all_strategies() {
    let dataset = dataset();
    let before = lines(&dataset);
    let text = "PREFIX e: <http://e/> \
        INSERT { ?a e:even ?b } WHERE { ?a e:p ?b BIND (xsd:integer(STRAFTER(STR(?a), \"e/\")) AS ?n) FILTER (?n / 2 = \
        FLOOR(?n / 2)) } ; \
        DELETE { ?a e:p ?b } INSERT { ?a e:text ?c } WHERE { ?a e:even ?b BIND (CONCAT(\"<\", ?b, \">\") AS ?c) } ; \
        DELETE WHERE { ?a e:even ?b } ; \
        INSERT { [] e:of ?a } WHERE { SELECT DISTINCT ?a { ?a e:text ?b } }";
    let text = format!("PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> {text}");
    let mut expected = BTreeSet::new();
    for number in 0..3000 {
        let subject = number % 500;
        expected.insert(match subject % 2 {
            0 => format!("<http://e/{subject}> <http://e/text> \"<{number}>\""),
            _ => format!("<http://e/{subject}> <http://e/p> \"{number}\""),
        });
    }
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let (after, updated) = update(&service, &dataset, &text, shared()).unwrap();
        let (new, old): (BTreeSet<String>, BTreeSet<String>) =
            after.into_iter().partition(|line| line.contains("<http://e/of>"));
        assert_eq!(old, expected, "{strategy}");
        let blanks: BTreeSet<&str> = new.iter().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!((new.len(), blanks.len()), (250, 250), "{strategy}");
        assert_eq!((updated.operations, updated.rows), (4, 1500 + 1500 + 1500 + 250), "{strategy}");
        assert_eq!(service.memory().taken(), 0, "{strategy}");
    });
    assert_eq!(lines(&dataset), before);
}

/// Programs of simple operations against a set of triples, over data in memory and over a store's transactions.
///
/// What happened: over a transaction, an operation with a new term that found nothing, followed by one with another new
/// term, panicked; data in memory did not show it.
#[test]
fn random_programs_do_the_same_under_all_strategies() {
    let mut seed = 20_261_123_u64;
    println!("seed {seed}");
    let mut below = |end: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % end
    };
    for number in 0..8 {
        let mut model: BTreeSet<[u64; 3]> = (0..200).map(|_| [below(20), below(3), below(20)]).collect();
        let text_of = |[s, p, o]: [u64; 3]| format!("<http://e/{s}> <http://p/{p}> <http://e/{o}>");
        let texts: Vec<String> = model.iter().map(|triple| text_of(*triple)).collect();
        let dataset = of(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        let mut program = Vec::new();
        for _ in 0..6 {
            let (p, q, o) = (below(3), below(3), below(20));
            program.push(match below(5) {
                0 => {
                    // Perhaps a new term.
                    let one = [below(60), p, o];
                    model.insert(one);
                    format!("INSERT DATA {{ {} }}", text_of(one))
                }
                1 => {
                    model.retain(|[_, predicate, object]| (*predicate, *object) != (p, o));
                    format!("DELETE WHERE {{ ?s <http://p/{p}> <http://e/{o}> }}")
                }
                2 => {
                    let found: Vec<[u64; 3]> = model.iter().filter(|triple| triple[1] == p).copied().collect();
                    found.iter().for_each(|triple| _ = model.remove(triple));
                    model.extend(found.iter().map(|[s, _, o]| [*o, q, *s]));
                    format!(
                        "DELETE {{ ?s <http://p/{p}> ?o }} INSERT {{ ?o <http://p/{q}> ?s }} WHERE {{ ?s \
                        <http://p/{p}> ?o }}"
                    )
                }
                3 => {
                    let new = below(1000);
                    format!("INSERT {{ <http://new/{new}> <http://p/{p}> ?o }} WHERE {{ ?s <http://nowhere> ?o }}")
                }
                _ => {
                    let mut made = Vec::new();
                    for [a, _, b] in model.iter().filter(|triple| triple[1] == p) {
                        let next = model.iter().filter(|[from, predicate, _]| (from, *predicate) == (b, q));
                        made.extend(next.map(|[_, _, c]| [*a, p, *c]));
                    }
                    model.extend(made);
                    format!("INSERT {{ ?a <http://p/{p}> ?c }} WHERE {{ ?a <http://p/{p}> ?b . ?b <http://p/{q}> ?c }}")
                }
            });
        }
        let program = program.join(" ;\n");
        // Starts from the data left by the strategy before.
        let over_store = format!("CLEAR ALL ; INSERT DATA {{ {} }} ;\n{program}", texts.join(" . "));
        let folder = folder(&format!("program-{number}"));
        let store = create_store(&folder).unwrap();
        let expected: BTreeSet<String> = model.iter().map(|triple| text_of(*triple)).collect();
        under_all_strategies(|strategy| {
            let service = service(strategy, 1 << 30);
            let plan = PlanOptions { parallel_rows: 10, envelope_rows: 16, ..PlanOptions::default() };
            let options = SessionOptions { plan, ..SessionOptions::default() };
            let (after, _) = update(&service, &dataset, &program, options.clone()).unwrap();
            assert_eq!(after, expected, "{strategy}: {program}");
            let mut transaction = store.write().unwrap();
            service.update(&over_store, &mut transaction, options).unwrap();
            transaction.commit().unwrap();
            assert_eq!(lines(&Dataset::new(store.snapshot())), expected, "{strategy}: {over_store}");
        });
        drop(store);
        assert_eq!(lines(&Dataset::new(open_store(&folder).unwrap().snapshot())), expected, "{over_store}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn a_wrong_text_is_told_before_anything_happens_and_a_wrong_operation_by_its_number() {
    let service = service("las", 1 << 30);
    let dataset = of(&["<http://e/a> <http://e/p> \"1\""]);
    let third = "CLEAR ALL ; CLEAR ALL ;\nDELETE { ?s ?p } WHERE { ?s ?p ?o }";
    let error = check_update(third, service.memory(), &SessionOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("line 2, column 16: "), "{error}");
    let mut draft = Draft::of(&dataset);
    let error = service.update(third, &mut draft, SessionOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Query(_)), "{error}");
    assert_eq!(lines(&draft.dataset()), lines(&dataset), "nothing has happened");
    for (text, kind, says) in [
        (
            "CLEAR ALL ; COPY <http://e/none> TO DEFAULT",
            ErrorKind::Failed,
            "operation 2, COPY: there is no graph <http://e/none>",
        ),
        (
            "INSERT { ?s ?p 1 } WHERE { ?s ?p ?o SERVICE <http://e/s> { ?s ?p ?q } }",
            ErrorKind::Failed,
            "operation 1, DELETE/INSERT: SERVICE <http://e/s>: asking http://e/s is not permitted",
        ),
        ("LOAD <http://e/d>", ErrorKind::Failed, "operation 1, LOAD: asking http://e/d is not permitted"),
        ("LOAD <file:///etc/passwd>", ErrorKind::Failed, "file:///etc/passwd: reading files is not permitted"),
        ("SELECT * { ?s ?p ?o }", ErrorKind::Query, "`SELECT` can't stand here"),
    ] {
        let error = update(&service, &dataset, text, SessionOptions::default()).unwrap_err();
        assert_eq!(error.kind(), kind, "{text}: {error}");
        assert!(error.to_string().contains(says), "{text}: {error}");
        assert_eq!(service.memory().taken(), 0);
    }
}

#[test]
fn the_limits_of_calls_hold_for_updates() {
    let dataset = dataset();
    let endless = format!(
        "CLEAR NAMED ; INSERT {{ ?a ?e ?i }} WHERE {{ {} }}",
        &ENDLESS[ENDLESS.find('{').unwrap() + 1..ENDLESS.len() - 2]
    );
    under_all_strategies(|strategy| {
        let service = service(strategy, 64 << 20);
        let with = |limits| update(&service, &dataset, &endless, SessionOptions { limits, ..shared() }).unwrap_err();
        let error = with(CallLimits { memory: Some(4 << 20), ..CallLimits::default() });
        assert_eq!(error.kind(), ErrorKind::MemoryLimit, "{strategy}: {error}");
        assert!(error.to_string().starts_with("operation 2, DELETE/INSERT: "), "{strategy}: {error}");
        let error =
            with(CallLimits { time: Some(Duration::from_millis(30)), memory: Some(64 << 20), ..CallLimits::default() });
        let kinds = [ErrorKind::TimeLimit, ErrorKind::MemoryLimit];
        assert!(kinds.contains(&error.kind()), "{strategy}: {error}");
        let cancel = Cancel::new();
        cancel.cancel();
        assert_eq!(with(CallLimits { cancel, ..CallLimits::default() }).kind(), ErrorKind::Cancelled, "{strategy}");
        assert_eq!(service.memory().taken(), 0, "{strategy}");
    });
}

/// A folder of its own for a test.
fn folder(name: &str) -> PathBuf {
    let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("in/side")).unwrap();
    folder
}

#[test]
fn load_reads_files_of_the_folder_and_no_others() {
    let outer = folder("load");
    let folder = outer.join("in");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"<s> <http://e/p> _:x . _:x <http://e/p> _:x .").unwrap();
    std::fs::write(folder.join("side/a b.ttl.gz"), gzip.finish().unwrap()).unwrap();
    std::fs::write(folder.join("wrong.nt"), "<http://e/a> <http://e/p> .").unwrap();
    std::fs::write(folder.join("text.txt"), "").unwrap();
    std::fs::write(outer.join("out.nt"), "<http://e/a> <http://e/p> \"out\" .").unwrap();
    std::os::unix::fs::symlink(outer.join("out.nt"), folder.join("link.nt")).unwrap();
    let service = service("las", 1 << 30);
    let options = || SessionOptions {
        folder: Some(folder.clone()),
        moment: Some(Moment::default()),
        ..SessionOptions::default()
    };
    let url = |path: &str| format!("file://{}/{path}", folder.display());
    let data = of(&["<http://e/a> <http://e/p> \"1\""]);
    let load = |iri: &str, into: &str| update(&service, &data, &format!("LOAD {into} <{iri}>"), options());
    let text = format!("LOAD <{}> ; LOAD <{0}> INTO GRAPH <http://e/g>", url("side/a%20b.ttl.gz"));
    let (after, _) = update(&service, &data, &text, options()).unwrap();
    assert_eq!(after.len(), 5, "{after:?}");
    let relative = format!("<{}> <http://e/p>", url("side/s"));
    assert_eq!(after.iter().filter(|line| line.starts_with(&relative)).count(), 2, "{after:?}");
    assert_eq!(after.iter().filter(|line| line.ends_with("<http://e/g>")).count(), 2, "{after:?}");
    for (iri, says) in [
        (url("none.nt"), "can't be opened"),
        (url("wrong.nt"), "wrong.nt"),
        (url("text.txt"), "no syntax that can be read"),
        (url("side"), "no syntax that can be read"),
        (url("../out.nt"), "is not within the folder"),
        (url("link.nt"), "is not within the folder"),
        (url("%2e%2e/out.nt"), "is not within the folder"),
        ("file:///etc/hosts.nt".to_owned(), "is not within the folder"),
        (url("a%FF.nt"), "is no UTF-8"),
        (url("link.nt").replace("file://", "file://elsewhere"), "another machine"),
        ("ftp://e/a.nt".to_owned(), "is not permitted"),
    ] {
        let error = load(&iri, "").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed, "{iri}: {error}");
        assert!(error.to_string().starts_with("operation 1, LOAD: ") && error.to_string().contains(says), "{error}");
        assert_eq!(load(&iri, "SILENT").unwrap().0, lines(&data), "{iri}");
    }
}

/// Data with slow changes.
struct Slow(Draft);

impl Updating for Slow {
    fn snapshot(&mut self) -> Result<Arc<Snapshot>, Arc<dyn std::error::Error + Send + Sync>> {
        self.0.snapshot()
    }

    fn change(&mut self, change: UpdateChange) -> Result<(), Arc<dyn std::error::Error + Send + Sync>> {
        std::thread::sleep(Duration::from_millis(50));
        self.0.change(change)
    }
}

/// What happened: a document of two million triples was put in eight seconds where three were allowed. Its time was up
/// when it was read, and nobody asked after that.
#[test]
fn an_update_that_ends_after_its_time_is_not_stored() {
    let limits = CallLimits { time: Some(Duration::from_millis(20)), ..CallLimits::default() };
    let options = SessionOptions { limits, ..shared() };
    let text = "INSERT DATA { <http://e/new> <http://e/p> 1 }";
    let result = service("las", 1 << 30).update(text, &mut Slow(Draft::of(&dataset())), options);
    assert!(matches!(result, Err(Error::TimeLimit { .. })), "{result:?}");
}

/// Data that cancels the work at a question.
struct CancelledAt {
    draft: Draft,
    cancel: Cancel,
    question: usize,
    asked: Arc<AtomicUsize>,
}

impl Updating for CancelledAt {
    fn snapshot(&mut self) -> Result<Arc<Snapshot>, Arc<dyn std::error::Error + Send + Sync>> {
        self.draft.snapshot()
    }

    fn change(&mut self, change: UpdateChange) -> Result<(), Arc<dyn std::error::Error + Send + Sync>> {
        self.draft.change(change)
    }

    fn ask(&mut self, ask: Ask) {
        let (cancel, question, asked) = (self.cancel.clone(), self.question, Arc::clone(&self.asked));
        self.draft.ask(Arc::new(move |bytes| {
            if asked.fetch_add(1, Ordering::Relaxed) == question {
                cancel.cancel();
            }
            ask(bytes)
        }));
    }
}

/// What happened: the changes of one operation were sorted and merged for seconds after the update's time was up, or
/// its client had gone.
#[test]
fn the_work_of_one_operation_is_cancelled_between_its_steps() {
    let service = service("las", 4 << 30);
    let quads: String =
        (0..100_000).map(|number| format!("<http://e/s{}> <http://e/p> {number} .", number / 3)).collect();
    let text = format!("INSERT DATA {{ {quads} }}");
    let cancelled_at = |question: usize| {
        let (cancel, asked) = (Cancel::new(), Arc::new(AtomicUsize::new(0)));
        let limits = CallLimits { cancel: cancel.clone(), ..CallLimits::default() };
        let mut data = CancelledAt { draft: Draft::of(&dataset()), cancel, question, asked: Arc::clone(&asked) };
        let result = service.update(&text, &mut data, SessionOptions { limits, ..shared() });
        (result, asked.load(Ordering::Relaxed), data.draft.dataset())
    };
    let (result, all, _) = cancelled_at(usize::MAX);
    result.unwrap();
    // The four orders with the default graph are merged, and each asks after 16384 quads.
    assert!(all >= 4 * (100_000 / 16_384), "{all} questions");
    for question in [0, all / 3, all - 1] {
        let (result, asked, data) = cancelled_at(question);
        assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
        assert!(asked <= question + 2, "{asked} questions, and it was cancelled at {question}");
        assert_eq!(lines(&data), lines(&dataset()), "nothing has changed");
    }
}

/// TRIPLE of a triple term of 64 levels is an error (SPARQL 1.1, §18.6: BIND leaves its variable unbound then, and a
/// template without a value makes no quad), since a store could not read a deeper one again.
#[test]
fn triple_terms_that_grow_by_a_level_with_each_update_end_at_the_limit_and_the_store_opens() {
    let folder = folder("rounds");
    let store = create_store(&folder).unwrap();
    let service = service("las", 1 << 30);
    let options = || {
        let mut options = shared();
        options.languages.sparql.rdf_12 = true;
        options
    };
    let update = |store: &Store, text: &str| service.update_store(text, store, options()).unwrap();
    // The levels of each object, ascending.
    let levels = |store: &Store| {
        let snapshot = store.snapshot();
        let index = snapshot.index(Order::Gspo);
        let of = |row: usize| {
            let (mut object, mut levels) = (snapshot.term(index.quad(row)[2]), 0);
            while let Term::Triple(triple) = object {
                (object, levels) = (triple.object, levels + 1);
            }
            levels
        };
        let mut all: Vec<usize> = (0..index.len()).map(of).collect();
        all.sort_unstable();
        all
    };
    update(&store, "INSERT DATA { <http://e/s> <http://e/p> 0 }");
    for round in 1..=70 {
        update(&store, "INSERT { ?s ?p ?t } WHERE { ?s ?p ?o BIND (TRIPLE(?s, ?p, ?o) AS ?t) }");
        assert_eq!(levels(&store), (0..=round.min(64)).collect::<Vec<_>>(), "round {round}");
    }
    drop(store);
    let store = open_store(&folder).unwrap();
    assert_eq!(levels(&store), (0..=64).collect::<Vec<_>>());
    update(&store, "INSERT DATA { <http://e/s> <http://e/p> 1 }");
    assert_eq!(store.snapshot().len(), 66);
}

/// What happened: an update waited for the updates before it, however long, when its own time was up.
#[test]
fn an_update_that_waits_for_another_one_ends_with_its_time() {
    let folder = folder("waits");
    let store = create_store(&folder).unwrap();
    let service = service("las", 1 << 30);
    let other = store.write().unwrap();
    let options = |time| SessionOptions { limits: CallLimits { time, ..CallLimits::default() }, ..shared() };
    let text = "INSERT { <http://e/a> <http://e/p> 1 } WHERE {}";
    for _ in 0..3 {
        let result = service.update_store(text, &store, options(Some(Duration::from_millis(30))));
        assert!(matches!(result, Err(StoreUpdateError::Update(Error::TimeLimit { .. }))), "{result:?}");
    }
    std::thread::scope(|scope| {
        let next = scope.spawn(|| service.update_store(text, &store, options(None)).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        drop(other);
        assert_eq!(next.join().unwrap().number, Some(1));
    });
}

/// LOAD opened what its IRI names before it asked whether that is a file. To open a pipe waits until another process
/// writes to it, so the update never ended, whatever its time limit.
#[test]
fn load_refuses_a_pipe_without_opening_it() {
    let folder = folder("pipe").join("in");
    assert!(std::process::Command::new("mkfifo").arg(folder.join("pipe.nt")).status().unwrap().success());
    let service = service("las", 1 << 30);
    let options = SessionOptions { folder: Some(folder.clone()), ..SessionOptions::default() };
    let load = format!("LOAD <file://{}/pipe.nt>", folder.display());
    let error = update(&service, &of(&[]), &load, options).unwrap_err().to_string();
    assert!(error.ends_with("pipe.nt: is no file"), "{error}");
}

#[test]
fn load_reads_documents_of_the_web_that_are_permitted() {
    let url = serve(|asked, connection| match &*asked.line {
        "GET /turtle HTTP/1.1" => {
            assert!(asked.headers.iter().any(|line| line.contains("text/turtle")), "{:?}", asked.headers);
            respond(connection, "200 OK", &of_type("text/turtle; charset=utf-8"), "<s> a <http://e/T> .");
        }
        "GET /by/ending.nt HTTP/1.1" => {
            respond(connection, "200 OK", &of_type("text/plain"), "<http://e/s> <http://e/p> \"x\" .");
        }
        "GET /page HTTP/1.1" => respond(connection, "200 OK", &of_type("text/html"), "<!DOCTYPE html>"),
        "GET /wrong HTTP/1.1" => respond(connection, "200 OK", &of_type("text/turtle"), "<!DOCTYPE html>"),
        "GET /moved HTTP/1.1" => respond(connection, "302 Found", "Location: /turtle\r\n", ""),
        other => respond(connection, "404 Not Found", "", other),
    });
    let service = service("las", 1 << 30);
    let options = || {
        let web = Web::new(WebOptions { permits: vec![url.parse().unwrap()], ..WebOptions::default() });
        SessionOptions { web: Arc::new(web), ..SessionOptions::default() }
    };
    let data = of(&[]);
    let load = |path: &str, into: &str| {
        update(&service, &data, &format!("LOAD {into} <{url}/{path}>"), options()).map(|(lines, _)| lines)
    };
    let typed = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://e/T>";
    for path in ["turtle", "moved"] {
        assert_eq!(load(path, "").unwrap(), BTreeSet::from([format!("<{url}/s> {typed}")]), "{path}");
    }
    assert_eq!(load("by/ending.nt", "").unwrap(), BTreeSet::from(["<http://e/s> <http://e/p> \"x\"".to_owned()]));
    for (path, says) in [("page", "text/html"), ("wrong", "wrong"), ("none", "404 Not Found")] {
        let error = load(path, "").unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(load(path, "SILENT").unwrap(), BTreeSet::new(), "{path}");
    }
}

/// What happened: only the packed bytes of a document counted, so a small one could unpack without bound; and what
/// loading it held counted against no limit.
#[test]
fn a_document_counts_by_its_unpacked_bytes_and_against_the_memory_limit() {
    let text: String = (0..100_000).map(|n| format!("<http://e/s> <http://e/p> \"text number {n}\" .\n")).collect();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(text.as_bytes()).unwrap();
    let packed = gzip.finish().unwrap();
    assert!(packed.len() < text.len() / 5);
    let folder = folder("held").join("in");
    std::fs::write(folder.join("a.nt.gz"), &packed).unwrap();
    let (most, bytes) = (packed.len() as u64 * 2, text.len() as u64);
    let url = serve(move |_, connection| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/n-triples\r\nContent-Length: {}\r\n\r\n",
            packed.len()
        );
        let _ = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(&packed));
    });
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let with = |bytes, memory, text: &str| {
            let web = Web::new(WebOptions { permits: vec![url.parse().unwrap()], bytes, ..WebOptions::default() });
            let limits = CallLimits { memory, ..CallLimits::default() };
            let folder = Some(folder.clone());
            let options = SessionOptions { web: Arc::new(web), limits, folder, ..SessionOptions::default() };
            let updated = update(&service, &of(&[]), text, options).map(|(lines, _)| lines.len());
            assert_eq!(service.memory().taken(), 0, "{strategy}");
            updated
        };
        let load = format!("LOAD <{url}/a.nt.gz>");
        let error = with(most, None, &load).unwrap_err();
        assert!(error.to_string().contains(&format!("more than {most} bytes")), "{strategy}: {error}");
        assert_eq!(with(most, None, &load.replace("LOAD", "LOAD SILENT")).unwrap(), 0, "{strategy}");
        for load in [load, format!("LOAD SILENT <file://{}/a.nt.gz>", folder.display())] {
            let error = with(bytes, Some(2 << 20), &load).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::MemoryLimit, "{strategy}: {error}");
            assert!(error.to_string().contains("the document"), "{strategy}: {error}");
        }
    });
    let service = service("las", 1 << 30);
    let options = SessionOptions { folder: Some(folder.clone()), ..SessionOptions::default() };
    let load = format!("LOAD <file://{}/a.nt.gz>", folder.display());
    assert_eq!(update(&service, &of(&[]), &load, options).unwrap().0.len(), 100_000);
}

/// What happened: names with a long prefix or base took thousands of times the memory of their text, however little the
/// update might hold.
#[test]
fn names_that_are_much_longer_than_their_text_count_against_the_memory_limit() {
    let long = |bytes: usize| format!("http://e/{}/", "x".repeat(bytes));
    let turtle = |prefix: String| {
        let names: String = (0..5000).map(|n| format!("a:s{n} a:p a:o{n} .\n")).collect();
        (vicus_rdf::load::Syntax::Turtle, format!("@prefix a: <{prefix}> .\n{names}"))
    };
    let xml = |base: String| {
        let names: String = (0..5000).map(|n| format!("<e:T rdf:about='s{n}'/>\n")).collect();
        let head = "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:e='http://e/'";
        (vicus_rdf::load::Syntax::RdfXml, format!("{head} xml:base='{base}'>\n{names}</rdf:RDF>"))
    };
    let json = |base: String| {
        let names: String = (0..5000).map(|n| format!("{{\"@id\":\"s{n}\",\"p\":1}},\n")).collect();
        let context = format!("{{\"@vocab\":\"{base}\",\"@base\":\"{base}\"}}");
        (vicus_rdf::load::Syntax::JsonLd, format!("{{\"@context\":{context},\"@graph\":[{names}{{}}]}}"))
    };
    let service = service("las", 1 << 30);
    let load = |(syntax, text): (vicus_rdf::load::Syntax, String), memory: u64| {
        let document = vicus_service::Document::new("a:d".to_owned(), syntax, None, std::io::Cursor::new(text));
        let limits = CallLimits { memory: Some(memory), ..CallLimits::default() };
        let options = SessionOptions { document: Some(document), limits, ..SessionOptions::default() };
        let mut draft = Draft::of(&dataset());
        service.update("LOAD <a:d>", &mut draft, options).map(drop)
    };
    for text in [turtle, xml, json] {
        let error = load(text(long(60_000)), 100 << 20).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MemoryLimit, "{error}");
        // A share is raised by a quarter at once.
        assert!(service.memory().most_taken() <= 130 << 20, "{:?}", service.memory());
        let error = load(text(long(100_000)), 100 << 20).unwrap_err();
        assert!(error.to_string().contains("an IRI has more than 65536 bytes"), "{error}");
        load(text(long(60)), 100 << 20).unwrap();
    }
}
