//! Calls leave nothing behind. A separate process, so that its threads can be counted.

use std::sync::Arc;
use std::time::Duration;
use vicus::Runtime;
use vicus_rdf::Snapshot;
use vicus_service::{CallLimits, Dataset, ErrorKind, MemoryBudget, Service, SessionOptions};

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("Linux lists threads").count()
}

/// Waits until there are at most `count` threads: the kernel lists a thread for a moment longer than its join takes.
fn assert_threads(count: usize, why: &dyn std::fmt::Display) {
    for _ in 0..1000 {
        if threads() <= count {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} threads, at most {count} expected: {why}", threads());
}

/// What happened: a text whose time was up was still read by a thread that was left behind, for hours if it was long
/// enough.
#[test]
fn no_thread_is_left_when_time_is_up() {
    let snapshot = Snapshot::of_turtle(b"@prefix : <http://e/> . :a :p :b, :c, :d, :e . :b :p :a, :c .", None).unwrap();
    let outside = threads();
    let service = Service::new(Runtime::builder().threads(2).quiet().start(), MemoryBudget::new(4 << 30));
    let limits = CallLimits { time: Some(Duration::from_millis(2)), ..CallLimits::default() };
    let session =
        service.session(&Dataset::new(Arc::new(snapshot)), SessionOptions { limits, ..SessionOptions::default() });
    let long = format!("SELECT * {{ VALUES ?x {{ {} }} }}", "<http://e/a> ".repeat(200_000));
    let wide = format!("SELECT * {{ {} }}", "OPTIONAL { ?a ?b ?c } ?d ?e ?f . ".repeat(400));
    let endless =
        format!("SELECT (COUNT(*) AS ?n) {{ {} }}", (0..30).map(|n| format!("?s{n} ?p ?o{n} . ")).collect::<String>());
    // Counted, not looked at: a worker or the timer may begin late, if a time is up before anything has run.
    let (workers, timer) = (2, 1);
    for text in [&long, &wide, &endless] {
        let error = session.count(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimeLimit, "{error}");
        assert_threads(outside + workers + timer, &error);
    }
    drop((session, service));
    assert_threads(outside, &"its threads and its timer were joined");
}
