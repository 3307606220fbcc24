//! Queries with more rows than their boxes may hold: these go to temporary files, and the answers stay the same.

use crate::rows::{Chance, Row, rows_of, rows_with};
use oxrdf::Term;
use std::sync::{Arc, mpsc};
use vicus_files::scratch::sweep;
use vicus_files::{Failure, FakeDisk, Scratch};
use vicus_flow::{FlowError, sequential};
use vicus_rdf::Snapshot;
use vicus_sparql::{PlanOptions, QueryLimits, QueryOptions, QuerySpill, RunOptions, SparqlPlan, parse, plan};

/// Things with a few properties, many with equal values; of all kinds of terms, in no order.
fn snapshot(things: u64, seed: u64) -> Arc<Snapshot> {
    let mut chance = Chance::new(seed);
    let mut text = String::new();
    for thing in 0..things {
        let value = chance.next() % (things / 3);
        let other = match chance.below(5) {
            0 => format!("\"{}\"", value * 7),
            1 => format!("\"{value}\"^^<http://www.w3.org/2001/XMLSchema#integer>"),
            2 => format!("\"{value}.5\"^^<http://www.w3.org/2001/XMLSchema#decimal>"),
            3 => format!("\"{value}\"@en"),
            _ => format!("<http://e/{value}>"),
        };
        text += &format!("<http://e/t{thing}> <http://e/v> {other} .\n");
        text += &format!("<http://e/t{thing}> <http://e/w> <http://e/w{}> .\n", value % 50);
    }
    Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples"))
}

/// Queries holding rows only in spilling boxes.
const QUERIES: [&str; 20] = [
    "SELECT * { ?s ?p ?o } ORDER BY ?o ?s",
    "SELECT ?s ?o { ?s <http://e/v> ?o } ORDER BY DESC(?o) ?s",
    "SELECT ?s ?o { ?s <http://e/v> ?o } ORDER BY ?o",
    "SELECT ?s { ?s <http://e/v> ?o } ORDER BY ?o LIMIT 1500 OFFSET 300",
    "SELECT DISTINCT ?o { ?s ?p ?o }",
    "SELECT DISTINCT ?s ?o { ?s ?p ?o }",
    "SELECT DISTINCT ?a ?b { ?a <http://e/w> ?w . ?b <http://e/w> ?w FILTER (STR(?a) < STR(?b)) }",
    "SELECT DISTINCT ?s ?p ?o ?w ?x { ?s ?p ?o ; <http://e/w> ?w . BIND (?o AS ?x) }",
    "SELECT DISTINCT ?w { ?s <http://e/w> ?w ; <http://e/v> ?o } ORDER BY ?o",
    "SELECT DISTINCT ?o { ?s <http://e/v> ?o } ORDER BY ?s",
    "CONSTRUCT { ?o <http://e/is> ?s } { ?s ?p ?o }",
    "SELECT (STR(?o) AS ?text) ?s { ?s <http://e/v> ?o } ORDER BY STR(?o) ?s",
    "SELECT ?text ?s { ?s <http://e/v> ?o BIND (MD5(STR(?o)) AS ?text) } ORDER BY ?text ?s",
    "SELECT DISTINCT ?text { ?s <http://e/v> ?o BIND (CONCAT(STR(?s), STR(?o)) AS ?text) }",
    "SELECT ?text (COUNT(*) AS ?n) { ?s <http://e/v> ?o BIND (SHA1(STR(?o)) AS ?text) } GROUP BY ?text",
    "SELECT ?w (SUM(STRLEN(?text)) AS ?n) { ?s <http://e/v> ?o ; <http://e/w> ?w BIND (CONCAT(STR(?s), \"-\") AS \
        ?text) } GROUP BY ?w ?text",
    "SELECT (COUNT(DISTINCT ?s) AS ?n) (COUNT(DISTINCT ?o) AS ?m) (COUNT(*) AS ?all) { ?s ?p ?o }",
    "SELECT ?p (COUNT(DISTINCT ?s) AS ?n) (MIN(?o) AS ?least) (COUNT(DISTINCT ?o) AS ?m) (SUM(?n) AS ?sum) \
        (AVG(DISTINCT ?n) AS ?average) \
     { ?s ?p ?o BIND (STRLEN(STR(?s)) * 1.5 AS ?n) } GROUP BY ?p",
    "SELECT ?w (COUNT(DISTINCT ?text) AS ?n) (MAX(DISTINCT ?o) AS ?m) (COUNT(DISTINCT *) AS ?all) \
     { ?s <http://e/v> ?o ; <http://e/w> ?w BIND (MD5(CONCAT(STR(?o), STR(?w))) AS ?text) } GROUP BY ?w",
    "SELECT ?a ?b { { SELECT ?a ?h { ?a <http://e/v> ?o BIND (MD5(STR(?o)) AS ?h) } } \
     { SELECT ?b ?h { ?b <http://e/v> ?o BIND (MD5(STR(?o)) AS ?h) } } }",
];

/// Plans with one box for an operator's work, and with several.
fn plans(snapshot: &Arc<Snapshot>, text: &str, limits: QueryLimits) -> Vec<SparqlPlan> {
    let parsed = parse(text).unwrap();
    let threads = [(1, true), (3, true), (2, false)];
    let options = threads.map(|(threads, optimise)| {
        let common = PlanOptions { threads, optimise, parallel_rows: 0, envelope_rows: 300, ..PlanOptions::default() };
        QueryOptions { limits, ..QueryOptions::from(common) }
    });
    options.iter().map(|options| plan(snapshot, &parsed, options).unwrap()).collect()
}

fn text(row: &Row) -> String {
    row.iter().map(|term| term.as_ref().map_or("-".to_owned(), Term::to_string)).collect::<Vec<_>>().join(" ")
}

fn texts(rows: &[Row]) -> Vec<String> {
    rows.iter().map(text).collect()
}

fn spilling(disk: &FakeDisk, budget: u64) -> (Arc<Scratch>, RunOptions) {
    let scratch = Scratch::new(Arc::new(disk.process(1)));
    let spill = Some(QuerySpill { scratch: Arc::clone(&scratch), budget });
    (scratch, RunOptions { spill, ..RunOptions::default() })
}

/// With any memory, in one pass and in many, rows are the same. A sort keeps rows with equal keys in their order in
/// each of its boxes.
#[test]
fn answers_are_the_same_however_little_memory_there_is() {
    let snapshot = snapshot(1200, 1);
    for query in QUERIES {
        for spilled_from in [0, 2000, 16 << 10] {
            for plan in plans(&snapshot, query, QueryLimits { spilled_from, ..QueryLimits::default() }) {
                let expected = texts(&rows_of(&plan, |_| 0));
                for budget in [0, 50_000, 400_000, 1 << 30] {
                    let disk = FakeDisk::new(1);
                    let (scratch, options) = spilling(&disk, budget);
                    let mut order = Chance::new(budget ^ spilled_from);
                    // With one thread, boxes get their rows in one order only.
                    let rows = match plan.explain().contains("degree") {
                        true => rows_with(&plan, options, |_| order.next() as usize),
                        false => rows_with(&plan, options, |_| 0),
                    };
                    let story = || format!("{query}, {budget} bytes, from {spilled_from}\n{}", plan.explain());
                    let (mut found, mut wanted) = (texts(&rows), expected.clone());
                    let has_order = query.contains("ORDER BY") && !plan.explain().contains("degree");
                    if !has_order {
                        found.sort();
                        wanted.sort();
                    }
                    // A LIMIT may take any of those with equal keys, if several boxes share the work.
                    if has_order || !query.contains("LIMIT") {
                        let first = found.iter().zip(&wanted).find(|(found, wanted)| found != wanted);
                        assert!(
                            found == wanted,
                            "{}\n{} rows, {} wanted: {first:?}",
                            story(),
                            found.len(),
                            wanted.len()
                        );
                    }
                    assert_eq!(found.len(), wanted.len(), "{}", story());
                    let is_large = !query.contains("DISTINCT ?w");
                    assert!(scratch.written() > 0 || budget > 10_000 || spilled_from > 0 || !is_large, "{}", story());
                    assert!(scratch.written() == 0 || budget < 1 << 30, "{}", story());
                    assert!(disk.names().is_empty());
                }
            }
        }
    }
}

/// Sorted by several boxes, rows are in the order of their keys.
#[test]
fn boxes_that_share_a_sort_merge_what_each_has_merged() {
    let snapshot = snapshot(5000, 2);
    let query = "SELECT ?o ?s { ?s <http://e/v> ?o } ORDER BY ?o ?s";
    let all = plans(&snapshot, query, QueryLimits { spilled_from: 0, ..QueryLimits::default() });
    let expected = texts(&rows_of(&all[0], |_| 0));
    for plan in &all {
        let disk = FakeDisk::new(1);
        let (scratch, options) = spilling(&disk, 100_000);
        assert_eq!(texts(&rows_with(plan, options, |_| 0)), expected);
        assert!(scratch.written() >= 80_000, "each row was written");
    }
}

fn outcome(
    plan: &SparqlPlan,
    options: RunOptions,
    choose: impl FnMut(usize) -> Option<usize>,
) -> Result<usize, FlowError> {
    let run = plan.start_with(options);
    let (send, receive) = mpsc::channel();
    let sink = plan.sink_operator(move |envelope| Ok(send.send(envelope.rows())?));
    sequential::run_while(plan.model(), run.operators([(plan.sink(), sink)]), choose)?;
    Ok(receive.iter().sum())
}

/// For any failing file operation, the query fails with the folder and the cause, or has its whole answer; and no file
/// is left.
#[test]
fn a_file_that_fails_is_the_error_of_its_query_alone() {
    let snapshot = snapshot(700, 3);
    let mut failed = 0;
    for query in QUERIES {
        let all = plans(&snapshot, query, QueryLimits { spilled_from: 4000, ..QueryLimits::default() });
        let plan = &all[0];
        let disk = FakeDisk::new(1);
        let expected = outcome(plan, spilling(&disk, 0).1, |_| Some(0)).unwrap();
        let operations = disk.operations();
        for failure in [Failure::Error, Failure::Full, Failure::Errors] {
            for after in (0..operations).step_by(1 + operations as usize / 20) {
                let disk = FakeDisk::new(after);
                disk.fail_after(after, failure);
                match outcome(plan, spilling(&disk, 0).1, |_| Some(0)) {
                    Ok(rows) => assert_eq!(rows, expected, "{query}: {failure:?} after {after}"),
                    Err(error) => {
                        failed += 1;
                        let error = error.to_string();
                        assert!(error.contains("a temporary file in fake/"), "{query}: {error}");
                    }
                }
                // A name left after a failed removal belongs to an empty file.
                disk.crash(after);
                sweep(&disk.process(2));
                assert!(disk.names().is_empty(), "{query}: {failure:?} after {after}");
            }
        }
    }
    assert!(failed > 100, "only {failed} failures");
}

#[test]
fn a_full_disk_is_told_and_is_free_again() {
    let snapshot = snapshot(5000, 4);
    for query in QUERIES.iter().filter(|query| !query.contains("DISTINCT ?w")) {
        let all = plans(&snapshot, query, QueryLimits { spilled_from: 0, ..QueryLimits::default() });
        for plan in &all {
            let disk = FakeDisk::new(1);
            disk.set_room(Some(20_000));
            let error = outcome(plan, spilling(&disk, 0).1, |_| Some(0)).unwrap_err().to_string();
            assert!(error.contains("can't write a temporary file in fake/: "), "{query}: {error}");
            // The written files are gone: as much can be written again.
            let scratch = Scratch::new(Arc::new(disk.process(1)));
            let mut writing = scratch.begin().unwrap();
            writing.write(&[1; 20_000]).unwrap();
            writing.finish().unwrap();
        }
    }
}

#[test]
fn a_query_can_be_cancelled_at_any_time_while_it_spills() {
    let snapshot = snapshot(3000, 5);
    for query in QUERIES {
        let all = plans(&snapshot, query, QueryLimits { spilled_from: 3000, ..QueryLimits::default() });
        let plan = &all[0];
        let mut steps = 0_usize;
        let disk = FakeDisk::new(1);
        outcome(plan, spilling(&disk, 0).1, |_| {
            steps += 1;
            Some(0)
        })
        .unwrap();
        for part in 0..10 {
            let mut left = steps * part / 10;
            let cancelled = outcome(plan, spilling(&disk, 0).1, |_| {
                left = left.checked_sub(1)?;
                Some(0)
            });
            assert!(matches!(cancelled, Err(FlowError::Cancelled)), "{query}: {cancelled:?}");
            assert!(disk.names().is_empty());
        }
    }
}

#[test]
fn an_explanation_tells_what_each_operator_spilled() {
    let snapshot = snapshot(3000, 6);
    let options =
        QueryOptions { limits: QueryLimits { spilled_from: 0, ..QueryLimits::default() }, ..QueryOptions::default() };
    let plan = plan(&snapshot, &parse("SELECT ?s ?o { ?s <http://e/v> ?o } ORDER BY ?o").unwrap(), options).unwrap();
    let disk = FakeDisk::new(1);
    let (scratch, options) = spilling(&disk, 600_000);
    let run = plan.start_with(options);
    let operators = run.operators([(plan.sink(), plan.sink_operator(|_| Ok(())))]);
    let (_, counts) = sequential::run_counted(plan.model(), operators, |_| Some(0));
    assert_eq!(scratch.written(), 0, "3,000 rows fit");
    assert!(!plan.explain_with(&counts).contains("spilled"));
    let run = plan.start_with(spilling(&disk, 100_000).1);
    let operators = run.operators([(plan.sink(), plan.sink_operator(|_| Ok(())))]);
    let (_, counts) = sequential::run_counted(plan.model(), operators, |_| Some(0));
    let explained = plan.explain_with(&counts);
    let sort = explained.lines().find(|line| line.trim_start().starts_with("sort")).unwrap();
    // Two ids in each row, written once.
    assert!(sort.contains(", 48000 bytes spilled"), "{explained}");
}
