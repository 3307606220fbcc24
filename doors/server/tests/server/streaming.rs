//! Answers that are sent while their query runs.

use crate::client::{Ask, connect};
use crate::running::{ENDLESS, Running, SILENT, memory, numbers, open, service};
use std::io::Write;
use std::time::{Duration, Instant};

/// Unoptimised, two of them; `./dev test release` has all.
fn strategies() -> Vec<&'static str> {
    let all: Vec<&str> = vicus::STRATEGIES.iter().map(|strategy| strategy.name()).collect();
    if cfg!(debug_assertions) { vec!["las", all[all.len() - 1]] } else { all }
}

fn under(strategy: &str) -> Running {
    Running::of(service(strategy, 1 << 30), memory(&numbers(2000)), open())
}

const RUNNING: &str = "vicus_requests_running";

#[test]
fn the_first_rows_come_while_the_query_runs_and_end_it_when_the_client_goes() {
    for strategy in strategies() {
        let server = under(strategy);
        for coding in ["identity", "gzip", "zstd"] {
            let ask = Ask::query(ENDLESS).with("accept", "text/tab-separated-values").with("accept-encoding", coding);
            let mut answer = ask.open(server.address);
            assert_eq!(answer.head.status, 200, "{strategy}");
            assert_eq!(answer.head.header("transfer-encoding"), Some("chunked"));
            assert!(answer.piece().is_some_and(|piece| !piece.is_empty()), "{strategy}: rows have come");
            assert_eq!(server.metric(RUNNING), 1, "{strategy}");
            drop(answer);
            let took = server.wait_for(RUNNING, |running| running == 0);
            println!("{strategy}, {coding}: cancelled after {took:?}");
        }
        assert!(server.ask(&Ask::get("/metrics")).text().contains("status=\"499\"}"), "{strategy}");
    }
}

#[test]
fn a_client_that_goes_before_anything_came_ends_its_query() {
    for strategy in strategies() {
        let server = under(strategy);
        let mut stream = connect(server.address);
        stream.write_all(&Ask::query(SILENT).bytes()).expect("it is sent");
        server.wait_for(RUNNING, |running| running == 1);
        drop(stream);
        let took = server.wait_for(RUNNING, |running| running == 0);
        println!("{strategy}: cancelled after {took:?}");
    }
}

/// A client must not take the part that it got for the whole.
#[test]
fn an_error_after_the_first_byte_breaks_the_answer_off() {
    for strategy in strategies() {
        let server = under(strategy);
        for coding in ["identity", "gzip"] {
            let ask = Ask::query(ENDLESS).with("accept", "text/csv").with("accept-encoding", coding);
            let answer = ask.parameter("timeout", "0.3").open(server.address);
            assert_eq!(answer.head.status, 200, "{strategy}");
            let (bytes, is_whole) = answer.skip();
            assert!(bytes > 0 && !is_whole, "{strategy}, {coding}: {bytes} bytes");
        }
        server.wait_for(RUNNING, |running| running == 0);
    }
}

#[test]
fn a_long_answer_is_whole() {
    for strategy in strategies() {
        let server = under(strategy);
        let text = "SELECT ?a ?b { ?a <http://e/p> ?n . ?b <http://e/p> ?m . FILTER(?m < 50) }";
        let ask = Ask::query(text).with("accept", "text/tab-separated-values");
        let reply = ask.send(server.address);
        assert!(reply.is_whole, "{strategy}");
        assert_eq!(reply.text().lines().count(), 1 + 2000 * 50, "{strategy}");
    }
}

/// Boxes pause where a client reads nothing, and other clients are served meanwhile.
#[test]
fn a_client_that_reads_nothing_stops_its_own_query_alone() {
    for strategy in strategies() {
        let server = under(strategy);
        let ask = Ask::query(ENDLESS).with("accept", "text/tab-separated-values");
        let slow: Vec<_> = (0..4).map(|_| ask.open(server.address)).collect();
        // What sockets take on their own is sent; then nothing is.
        let mut before = server.metric("vicus_memory_taken_bytes");
        let mut still = 0;
        while still < 5 {
            std::thread::sleep(Duration::from_millis(20));
            let now = server.metric("vicus_memory_taken_bytes");
            still = if now == before { still + 1 } else { 0 };
            before = now;
        }
        assert_eq!(server.metric(RUNNING), 4, "{strategy}");
        assert_eq!(server.number("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), 2000, "{strategy}");
        drop(slow);
        server.wait_for(RUNNING, |running| running == 0);
    }
}

#[test]
fn metrics_say_what_holds_memory() {
    let server = under("las");
    let text = "SELECT ?a ?b { ?a <http://e/p> ?n . ?b <http://e/p> ?m . FILTER(?m < 100) } ORDER BY DESC(?n) ?m";
    let slow = Ask::query(text).with("accept", "text/tab-separated-values").open(server.address);
    let held = || {
        let text = server.ask(&Ask::get("/metrics")).text();
        let line = text.lines().find_map(|line| line.strip_prefix("vicus_memory_bytes{holder=\"sort\"} "));
        line.map(|bytes| bytes.parse::<u64>().expect("a number"))
    };
    // 200,000 rows of some ids, until the client takes them.
    let began = Instant::now();
    while held().is_none_or(|bytes| bytes < 1_000_000) {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", held());
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(slow);
    server.wait_for(RUNNING, |running| running == 0);
    assert_eq!(held(), None);
    assert!(server.metric("vicus_memory_bytes{holder=\"indexes\"}") > 0);
}

/// One connection, many requests: also behind an answer that was streamed.
#[test]
fn a_connection_is_used_again() {
    let server = under("las");
    let mut stream = connect(server.address);
    for _ in 0..3 {
        let text = "SELECT ?a ?b { ?a <http://e/p> ?n . ?b <http://e/p> ?m . FILTER(?m < 20) }";
        let reply = Ask::query(text).with("accept", "text/csv").over(&mut stream).expect("it answers");
        assert_eq!((reply.is_whole, reply.text().lines().count()), (true, 1 + 2000 * 20));
        let reply = Ask::query("ASK {}").over(&mut stream).expect("it answers");
        assert_eq!(reply.status, 200);
        let reply = Ask::query("ASK").over(&mut stream).expect("it answers");
        assert_eq!(reply.status, 400);
    }
}
