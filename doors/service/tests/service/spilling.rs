//! Calls beyond their memory, with a folder for temporary files.

use super::*;
use vicus_service::{CallLimits, Count, Error, TemporaryFolder};

/// 60,000 triples with 20,000 subjects.
fn large() -> Dataset {
    let text: String = (0..60_000)
        .map(|n| format!("<http://e/{}> <http://e/p{}> \"{}\" .\n", n % 20_000, n % 3, n * 7919 % 30_011))
        .collect();
    Dataset::new(Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples")))
}

/// Queries that hold rows only in places that can spill, and their numbers of solutions.
const QUERIES: [(&str, u64); 9] = [
    ("SELECT * { ?s ?p ?o } ORDER BY ?o ?s", 60_000),
    ("SELECT DISTINCT ?s ?o { ?s ?p ?o }", 60_000),
    ("SELECT DISTINCT ?s { ?s ?p ?o } ORDER BY DESC(?s)", 20_000),
    ("SELECT ?s { ?s ?p ?o } ORDER BY ?o LIMIT 50000", 50_000),
    ("CONSTRUCT { ?s ?p ?s } { ?s ?p ?o }", 60_000),
    ("SELECT ?s ?p (COUNT(?o) AS ?n) { ?s ?p ?o } GROUP BY ?s ?p", 60_000),
    ("SELECT ?s ?p (COUNT(DISTINCT ?o) AS ?n) (MAX(?o) AS ?m) { ?s ?p ?o } GROUP BY ?s ?p", 60_000),
    // Grouped rows can't be looked up in an index. The numbers are from a loop over both sides.
    (
        "SELECT * { { SELECT ?s ?o { ?s <http://e/p0> ?o } GROUP BY ?s ?o } { SELECT ?t ?o { ?t <http://e/p1> ?o } \
            GROUP BY ?t ?o } }",
        9_996,
    ),
    (
        "SELECT * { { SELECT ?s ?o { ?s <http://e/p0> ?o } GROUP BY ?s ?o } OPTIONAL { SELECT ?t ?o { ?t <http://e/p1> \
            ?o } GROUP BY ?t ?o } }",
        20_000,
    ),
];

fn options(memory: u64, spills: bool) -> SessionOptions {
    let temporary = spills.then(|| TemporaryFolder::open(&std::env::temp_dir()).unwrap());
    SessionOptions { temporary, limits: CallLimits { memory: Some(memory), ..CallLimits::default() }, ..shared() }
}

/// What happened: one replica took the whole budget, and the next one had no memory to merge its runs.
#[test]
fn calls_within_little_memory_have_the_whole_answer_under_all_strategies() {
    let dataset = large();
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        for (text, rows) in QUERIES {
            for memory in [500_000, 900_000] {
                let failed = service.session(&dataset, options(memory, false)).count(text);
                assert!(matches!(failed, Err(Error::MemoryLimit(_))), "{strategy}: {text}: {failed:?}");
                let counted = service.session(&dataset, options(memory, true)).count(text);
                assert_eq!(
                    counted.unwrap_or_else(|error| panic!("{strategy}: {text}: {error}")),
                    rows,
                    "{strategy}: {text}"
                );
            }
        }
        assert_eq!(service.memory().taken(), 0, "{strategy}");
    });
}

/// Calls with less memory together than the sum of their limits spill the rows that get none.
#[test]
fn calls_at_once_spill_what_the_whole_has_no_room_for() {
    let dataset = large();
    let service = service("las", 3 << 20);
    let session = service.session(&dataset, options(3 << 20, true));
    let mut spilled = 0;
    for (text, rows) in QUERIES {
        // Each has its first share before the others want more.
        let calls: Vec<_> = (0..4).map(|_| session.call().unwrap()).collect();
        let running = calls.into_iter().map(|mut call| {
            let prepared = call.prepare(text).unwrap();
            call.start(&prepared, Count).unwrap()
        });
        let running: Vec<_> = running.collect();
        for running in running {
            match running.wait() {
                Ok(((), outcome)) => assert_eq!(outcome.rows, rows, "{text}"),
                // The others had all before this one had anything worth spilling.
                Err(Error::Busy(_)) => continue,
                Err(error) => panic!("{text}: {error}"),
            }
            spilled += 1;
        }
    }
    assert!(spilled >= QUERIES.len(), "{spilled}");
    assert_eq!(service.memory().taken(), 0);
}
