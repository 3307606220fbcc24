//! A store in a folder of the system: acknowledged data is there after `kill -9`, and two processes do no harm. A
//! separate program, which starts itself again as the process to kill.

use oxrdf::{GraphName, Literal, NamedNode, Quad};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use vicus::Runtime;
use vicus_rdf::{Loader, Order, Snapshot};
use vicus_service::{
    Dataset, Draft, Format, MemoryBudget, Service, SessionOptions, TextSink, back_up_store, check_store, create_store,
    open_store, read_store,
};
use vicus_store::Store;

/// The folder of the store, for the process to kill.
const STORE: &str = "VICUS_TEST_WRITES_STORE";

struct Fresh(PathBuf);

impl Fresh {
    fn new(name: &str) -> Fresh {
        let path = std::env::temp_dir().join(format!("vicus-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Fresh(path)
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The numbers among the data's objects.
fn numbers(snapshot: &Snapshot) -> BTreeSet<i64> {
    let index = snapshot.index(Order::Gspo);
    (0..index.len()).map(|row| index.quad(row)[2].as_integer().expect("an integer")).collect()
}

fn insert(store: &Store, writer: u64, number: i64) {
    let node = |kind: &str, number| NamedNode::new_unchecked(format!("http://example.org/{kind}/{number}"));
    let quad = Quad::new(node("writer", writer), node("p", 1), Literal::from(number), GraphName::DefaultGraph);
    let mut transaction = store.write().unwrap();
    transaction.insert_quad(quad.as_ref()).expect("there is memory");
    transaction.commit().expect("nothing fails");
}

/// [`insert`] in a user's way: an update that reads nothing, or one that reads existing data.
fn update(service: &Service, store: &Store, writer: u64, number: i64) {
    let triple = format!("<http://example.org/writer/{writer}> <http://example.org/p/1> {number}");
    let text = match number / 6 % 2 {
        0 => format!("INSERT DATA {{ {triple} }}"),
        _ => format!("INSERT {{ {triple} }} WHERE {{ FILTER NOT EXISTS {{ {triple} }} }}"),
    };
    let stored = service.update_store(&text, store, SessionOptions::default()).expect("nothing fails");
    assert!(stored.number.is_some());
}

/// Threads commit one number after another until the process is killed, and say so after each; another one merges.
fn write_for_ever(path: &Path) -> ! {
    let store = open_store(path).expect("it is a store");
    let first = numbers(&store.snapshot()).last().map_or(0, |last| last + 1000);
    let service = Service::new(Runtime::builder().threads(2).start(), MemoryBudget::new(64 << 20));
    std::thread::scope(|scope| {
        for writer in 0..6 {
            let (service, store) = (&service, &store);
            scope.spawn(move || {
                for number in (first + writer as i64..).step_by(6) {
                    match writer % 2 {
                        0 => insert(store, writer, number),
                        _ => update(service, store, writer, number),
                    }
                    println!("durable {number}");
                }
            });
        }
        loop {
            std::thread::sleep(std::time::Duration::from_millis(20));
            store.merge(&mut |_| {}).expect("nothing fails");
        }
    })
}

#[test]
fn what_was_acknowledged_is_there_after_kill_9_and_two_processes_do_no_harm() {
    if let Some(path) = std::env::var_os(STORE) {
        write_for_ever(Path::new(&path));
    }
    let fresh = Fresh::new("killed");
    drop(create_store(&fresh.0).unwrap());
    let mut acknowledged = BTreeSet::new();
    for turn in 0..6 {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "what_was_acknowledged_is_there_after_kill_9_and_two_processes_do_no_harm",
                "--nocapture",
            ])
            .env(STORE, &fresh.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let until = acknowledged.len() + 40 + turn * 7;
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let mut note = |line: String| {
            let number = line.split_once("durable ").map(|(_, number)| number.parse::<i64>().expect("a number"));
            acknowledged.extend(number);
            acknowledged.len()
        };
        while note(lines.next().expect("it goes on until it is killed").unwrap()) < until {}
        // The writer goes on meanwhile.
        let refused = open_store(&fresh.0).unwrap_err().to_string();
        assert!(refused.ends_with(&format!("LOCK is locked by process {}", writer.id())), "{refused}");
        let read = numbers(&read_store(&fresh.0).unwrap());
        check_store(&fresh.0, &mut |_, _| {}).unwrap();
        writer.kill().unwrap();
        writer.wait().unwrap();
        lines.for_each(|line| {
            note(line.unwrap());
        });
        let found = numbers(&open_store(&fresh.0).expect("the lock has ended").snapshot());
        assert!(found.is_superset(&read), "what was read is durable or on its way there, and power was not lost");
        assert!(found.is_superset(&acknowledged), "nothing acknowledged is lost");
        assert!(found.len() <= acknowledged.len() + 6, "each writer had one commit that it did not tell of");
        acknowledged = found;
    }
}

#[test]
fn a_store_is_backed_up_while_others_write() {
    let (fresh, copy) = (Fresh::new("written"), Fresh::new("copied"));
    let store = create_store(&fresh.0).unwrap();
    (0..5).for_each(|number| insert(&store, 0, number));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (5..25).for_each(|number| insert(&store, 1, number)));
        back_up_store(&store, &copy.0, &mut |_| {}).unwrap();
        writer.join().unwrap();
    });
    let copied = numbers(&read_store(&copy.0).unwrap());
    assert!(copied.len() >= 5 && copied.iter().copied().eq(0..copied.len() as i64), "{copied:?}");
    check_store(&copy.0, &mut |_, _| {}).unwrap();
}

/// Each page of a store is damaged once: a query gives the right answer, or an error that names file and page, no
/// matter whether the planner or a box finds the page; and the next query of another store runs as if nothing had been.
#[test]
fn a_query_of_a_damaged_store_fails_with_the_place_or_is_right() {
    let fresh = Fresh::new("damaged");
    let store = create_store(&fresh.0).unwrap();
    let mut loader = Loader::default();
    let text: String = (0..12_000)
        .map(|n| format!("<http://e/some/longer/name/{n}> <http://e/p{}> \"number {}\" .\n", n % 40, n / 2))
        .collect();
    loader.ntriples(text.as_bytes()).unwrap();
    store.load(loader.finish(), &mut |_| {}).unwrap();
    drop(store);
    let service = Service::new(Runtime::builder().threads(2).quiet().start(), MemoryBudget::new(4 << 30));
    let queries = [
        "SELECT * { ?s <http://e/p7> ?o FILTER (CONTAINS(?o, '99')) } ORDER BY ?o ?s",
        "SELECT * { <http://e/some/longer/name/7000> ?p ?o . ?s ?p ?o } ORDER BY ?s",
        "SELECT (COUNT(*) AS ?n) { ?a ?p ?x . ?b ?q ?x }",
        "SELECT (MAX(?o) AS ?most) { ?s <http://e/p39> ?o }",
    ];
    let answers = || -> Vec<Result<String, String>> {
        let Ok(snapshot) = read_store(&fresh.0) else { return Vec::new() };
        let session = service.session(&Dataset::new(snapshot), SessionOptions::default());
        let answer = |text: &&str| {
            let written = session.answer(text, TextSink::new(Format::Csv, Vec::new()));
            written.map(|(bytes, _)| String::from_utf8(bytes).expect("CSV")).map_err(|error| error.to_string())
        };
        queries.iter().map(answer).collect()
    };
    let expected = answers();
    assert!(expected.iter().all(Result::is_ok), "{expected:?}");
    let base = std::fs::read_dir(&fresh.0).unwrap().map(|entry| entry.unwrap().path());
    let base = base.into_iter().find(|path| path.to_string_lossy().contains("base-")).unwrap();
    let right = std::fs::read(&base).unwrap();
    let mut failed = 0;
    for at in (0..right.len()).step_by(40_000) {
        let mut wrong = right.clone();
        wrong[at] ^= 0x10;
        // Another file of this name: the first one's mappings stay as they are.
        std::fs::remove_file(&base).unwrap();
        std::fs::write(&base, &wrong).unwrap();
        for (found, expected) in answers().iter().zip(&expected) {
            match found {
                Ok(_) => assert_eq!(found, expected, "byte {at}"),
                Err(error) => {
                    let place = format!("{} is damaged at byte {}", base.display(), at / 65_536 * 65_536);
                    assert!(error.contains(&place), "byte {at}: {error}");
                    failed += 1;
                }
            }
        }
    }
    assert!(failed > 10, "{failed}");
}

/// A page of the dictionary is damaged, and LOAD looks terms of its document up in it: the search gave up outside of
/// what takes such an end, so the process ended without a message.
#[test]
fn a_load_into_a_damaged_store_fails_with_the_place() {
    let fresh = Fresh::new("damaged-load");
    let store = create_store(&fresh.0).unwrap();
    let mut loader = Loader::default();
    // Texts of digits in no order, so that they have several pages when compressed.
    let digits = |n: u64| [3, 5, 7].map(|k| format!("{:016x}", (n + k).wrapping_mul(0x9E37_79B9_7F4A_7C15))).concat();
    let text: String = (0..12_000)
        .map(|n| format!("<http://e/some/longer/name/{n}> <http://e/p> \"number {}\" .\n", digits(n / 2)))
        .collect();
    loader.ntriples(text.as_bytes()).unwrap();
    store.load(loader.finish(), &mut |_| {}).unwrap();
    drop(store);
    // Of each page some terms.
    let document: String = text.lines().step_by(50).map(|line| format!("{line}\n")).collect();
    std::fs::write(fresh.0.join("document.nt"), document).unwrap();
    let service = Service::new(Runtime::builder().threads(2).quiet().start(), MemoryBudget::new(4 << 30));
    let base = std::fs::read_dir(&fresh.0).unwrap().map(|entry| entry.unwrap().path());
    let base = base.into_iter().find(|path| path.to_string_lossy().contains("base-")).unwrap();
    let right = std::fs::read(&base).unwrap();
    let folder = fresh.0.canonicalize().unwrap();
    let load = format!("LOAD <file://{}/document.nt> INTO GRAPH <http://e/g>", folder.display());
    let mut failed = 0;
    for at in (0..right.len()).step_by(65_536) {
        let mut wrong = right.clone();
        wrong[at] ^= 0x10;
        std::fs::remove_file(&base).unwrap();
        std::fs::write(&base, &wrong).unwrap();
        let Ok(snapshot) = read_store(&fresh.0) else { continue };
        let mut draft = Draft::of(&Dataset::new(snapshot));
        let options = SessionOptions { folder: Some(folder.clone()), ..SessionOptions::default() };
        // All pages are needed: the terms' for the search, and the others for the result of the draft.
        let error = service.update(&load, &mut draft, options).unwrap_err().to_string();
        let place = format!("{} is damaged at byte {at}", base.display());
        assert!(error.starts_with("operation 1, LOAD: ") && error.contains(&place), "byte {at}: {error}");
        failed += 1;
    }
    assert!(failed > 3, "{failed}");
}

#[test]
fn what_is_no_store_is_said_to_be_none() {
    let fresh = Fresh::new("no-store");
    let missing = open_store(&fresh.0).unwrap_err().to_string();
    assert!(missing.starts_with("can't open ") && missing.contains("vicus-no-store"), "{missing}");
    std::fs::create_dir(&fresh.0).unwrap();
    for error in [
        open_store(&fresh.0).unwrap_err(),
        read_store(&fresh.0).unwrap_err(),
        check_store(&fresh.0, &mut |_, _| {}).unwrap_err(),
    ] {
        let error = error.to_string();
        assert!(error.contains("holds no store: there is no file CURRENT in it"), "{error}");
    }
    std::fs::write(fresh.0.join("CURRENT"), "my notes").unwrap();
    let foreign = open_store(&fresh.0).unwrap_err().to_string();
    assert!(foreign.ends_with("CURRENT is not a store's manifest"), "{foreign}");
}
