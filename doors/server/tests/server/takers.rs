//! Clients that take nothing of their answers, clients with no more to say, and gone clients.

use crate::client::{Answer, Ask, connect};
use crate::running::{ENDLESS, Running, SILENT, memory, numbers, open, service, with_clients};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};
use vicus_server::{ClientLimits, ServerData};
use vicus_service::Dataset;

const RUNNING: &str = "vicus_requests_running";

fn impatient() -> vicus_server::ServerOptions {
    with_clients(ClientLimits {
        take_time: Duration::from_millis(500),
        stream_bytes: 16 << 10,
        ..ClientLimits::default()
    })
}

/// A request of HTTP/2 without a window for its answer (RFC 9113, §6.9.2).
fn without_window(address: std::net::SocketAddr, path: &str) -> TcpStream {
    with_window(address, path, 0)
}

/// A request with a window of this size. It is built here byte by byte.
fn with_window(address: std::net::SocketAddr, path: &str, window: u8) -> TcpStream {
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = (payload.len() as u32).to_be_bytes();
        let mut bytes = vec![length[1], length[2], length[3], kind, flags];
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        bytes
    };
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // SETTINGS_INITIAL_WINDOW_SIZE.
    bytes.extend(frame(4, 0, 0, &[0, 4, 0, 0, 0, window]));
    let mut fields = Vec::new();
    for (name, value) in [(":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", path)] {
        // A literal without indexing (RFC 7541, §6.2.2); a length of 127 or more goes on in bytes of seven bits.
        fields.extend([0, name.len() as u8]);
        fields.extend(name.as_bytes());
        if value.len() < 127 {
            fields.push(value.len() as u8);
        } else {
            let rest = value.len() - 127;
            assert!(rest < 1 << 14, "two bytes are enough");
            fields.extend([127, (rest % 128) as u8 | 128, (rest / 128) as u8]);
        }
        fields.extend(value.as_bytes());
    }
    // END_STREAM and END_HEADERS.
    bytes.extend(frame(1, 5, 1, &fields));
    let mut stream = connect(address);
    stream.write_all(&bytes).expect("it is sent");
    stream
}

/// What happened: without a time limit, clients that read nothing held all memory for queries for ever.
#[test]
fn a_client_that_takes_nothing_is_broken_off() {
    let server = Running::of(service("las", 1 << 30), memory(&numbers(2000)), impatient());
    let path = format!("/sparql?query={}", crate::client::escaped(ENDLESS));
    for coding in ["identity", "gzip"] {
        let silent = Ask::query(ENDLESS).with("accept-encoding", coding).open(server.address);
        let closed = without_window(server.address, &path);
        assert_eq!(server.number("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), 2000);
        let took = server.wait_for(RUNNING, |running| running == 0);
        println!("{coding}: {took:?}");
        assert!(took < Duration::from_secs(10), "{took:?}");
        assert_eq!(server.metric("vicus_memory_taken_bytes"), 0);
        let (_, is_whole) = silent.skip();
        assert!(!is_whole, "{coding}: what is cut says so");
        drop(closed);
    }
    // A slow but taking client is answered.
    let text = "SELECT ?a ?b { ?a <http://e/p> ?n . ?b <http://e/p> ?m . FILTER(?m < 300) }";
    let mut answer = Ask::query(text).with("accept", "text/tab-separated-values").open(server.address);
    let (began, mut lines) = (Instant::now(), 0);
    while let Some(piece) = answer.piece() {
        lines += piece.iter().filter(|byte| **byte == b'\n').count();
        if began.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    assert_eq!(lines, 1 + 2000 * 300);
}

/// What happened: twenty clients that took nothing held all memory for as long as a client may take nothing, and others
/// got 503 until then.
#[test]
fn clients_that_take_nothing_give_way_when_memory_is_scarce() {
    // The time that a client may take nothing is the default: a minute.
    let total = 64 << 20;
    let server = Running::of(service("las", total), memory(&numbers(80_000)), open());
    let held = "SELECT * { ?a ?b ?c . ?d ?e ?f . FILTER(STRLEN(CONCAT(STR(?a), STR(?c), STR(?d), STR(?f))) > 3) }";
    let taken = || server.metric("vicus_memory_taken_bytes");
    for coding in ["identity", "gzip"] {
        let silent: Vec<_> = (0..20)
            .map(|_| {
                let mut stream = connect(server.address);
                stream.write_all(&Ask::query(held).with("accept-encoding", coding).bytes()).expect("it is sent");
                stream
            })
            .collect();
        server.wait_for("vicus_memory_taken_bytes", |bytes| bytes > total / 4 * 3);
        // Longer than a minute would be a failure.
        let took = server.wait_for("vicus_memory_taken_bytes", |bytes| bytes <= total / 4 * 3);
        println!("{coding}: {} bytes are taken by {} after {took:?}", taken(), server.metric(RUNNING));
        // Those that hold memory that others don't need go on waiting.
        assert!(server.metric(RUNNING) > 2);
        for number in 0..5 {
            let count = format!("SELECT (COUNT(DISTINCT ?n) AS ?m) {{ ?s ?p ?n FILTER(?n < {}) }}", 10_000 + number);
            assert_eq!(server.number(&count), 10_000 + number);
        }
        drop(silent);
        server.wait_for(RUNNING, |running| running == 0);
    }
}

/// What happened: an answer that is there as a whole waited for its client without an end, as did its connection.
#[test]
fn a_client_of_http_2_that_leaves_a_short_answer_is_broken_off() {
    let server = Running::start(
        &numbers(2000),
        with_clients(ClientLimits { take_time: Duration::from_millis(500), ..ClientLimits::default() }),
    );
    let rows = format!("/sparql?query={}", crate::client::escaped("SELECT * { ?s ?p ?o } LIMIT 100"));
    let wrong = format!("/sparql?query={}", crate::client::escaped("SELECT"));
    // The second time, the answer is kept.
    for path in [&rows, &rows, &wrong, "/", "/metrics"] {
        for window in [0, 1] {
            let began = Instant::now();
            let mut stream = with_window(server.address, path, window);
            // Until it is closed; a read of a minute fails.
            stream.read_to_end(&mut Vec::new()).unwrap_or_else(|error| panic!("{path}, {window}: {error}"));
            let took = began.elapsed();
            assert!(took > Duration::from_millis(400) && took < Duration::from_secs(10), "{path}, {window}: {took:?}");
        }
    }
    // A client that has taken all stays, and so does one with a long query.
    let slow = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . FILTER(?c * ?f = -1) }";
    let slow = format!("/sparql?query={}", crate::client::escaped(slow));
    for path in ["/health", &slow] {
        let mut stream = with_window(server.address, path, 255);
        stream.set_read_timeout(Some(Duration::from_secs(2))).expect("it can be limited");
        let error = stream.read_to_end(&mut Vec::new()).expect_err("it stays open");
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{path}");
    }
}

/// Documents of a graph and of all data as well.
#[test]
fn a_document_that_is_not_taken_is_broken_off() {
    let count = if cfg!(debug_assertions) { 30_000 } else { 200_000 };
    let text: String = (0..count)
        .map(|n| format!("<http://e/a-long-name-of-a-subject/{n}> <http://e/predicate> \"{n}\" .\n"))
        .collect();
    let snapshot = vicus_service::data::Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples");
    let data = ServerData::Memory(Dataset::new(std::sync::Arc::new(snapshot)));
    let mut options = impatient();
    options.session.limits.time = None;
    let server = Running::of(service("las", 1 << 30), data, options);
    for path in ["/store?default", "/store"] {
        for is_plain in [true, false] {
            let held = match is_plain {
                true => {
                    let mut stream = connect(server.address);
                    // Keeps the buffers of the systems on both sides small.
                    let ask = Ask::get(path).with("accept", "application/n-quads, application/n-triples");
                    stream.write_all(&ask.bytes()).expect("it is sent");
                    stream
                }
                false => without_window(server.address, path),
            };
            server.wait_for(RUNNING, |running| running == 1);
            let took = server.wait_for(RUNNING, |running| running == 0);
            println!("{path}: {took:?}");
            assert!(took < Duration::from_secs(10), "{path}: {took:?}");
            drop(held);
        }
    }
    assert_eq!(server.number("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), count as u64);
}

/// What happened: of a hundred clients that closed their sending side when they had asked, none got an answer.
#[test]
fn a_client_that_has_no_more_to_say_is_answered() {
    let server = Running::start(&numbers(2000), open());
    let long = "SELECT ?a ?b { ?a <http://e/p> ?n . ?b <http://e/p> ?m . FILTER(?m < 200) }";
    let slow = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . FILTER(?c * ?f = -1) }";
    let asks = [
        Ask::query("ASK {}"),
        Ask::query(long),
        Ask::query(slow),
        Ask::post("/sparql", "application/sparql-query", long),
        Ask::update("INSERT DATA { <http://e/x> <http://e/y> 1 }"),
        Ask::new("PUT", "/store?graph=http://e/g")
            .with("content-type", "text/turtle")
            .body("<http://e/x> <http://e/y> 2 ."),
        Ask::get("/store?default"),
        Ask::get("/"),
    ];
    for number in 0..100 {
        let ask = &asks[number % asks.len()];
        let mut stream = connect(server.address);
        stream.write_all(&ask.clone().with("accept-encoding", "identity").bytes()).expect("it is sent");
        stream.shutdown(Shutdown::Write).expect("it can be");
        let reply = Answer::of(&mut stream, false).unwrap_or_else(|error| panic!("{number}: {error}")).rest();
        assert!(reply.status < 300 && reply.is_whole, "{number}: {}", reply.status);
        // Nothing comes behind it.
        assert_eq!(stream.read(&mut [0; 64]).ok(), Some(0), "{number}");
    }
    // Several requests at once.
    let mut stream = connect(server.address);
    let bytes: Vec<u8> = [&asks[0], &asks[2], &asks[1]].iter().flat_map(|ask| ask.bytes()).collect();
    stream.write_all(&bytes).expect("it is sent");
    stream.shutdown(Shutdown::Write).expect("it can be");
    let mut all = String::new();
    stream.read_to_string(&mut all).expect("it ends");
    assert_eq!(all.matches("HTTP/1.1 200").count(), 3, "{}", &all[..all.len().min(2000)]);
}

/// A client that has gone altogether looks the same at first.
#[test]
fn a_client_that_has_gone_ends_its_query() {
    let server = Running::start(&numbers(2000), open());
    for text in [SILENT, ENDLESS] {
        for is_first in [true, false] {
            let mut stream = connect(server.address);
            if !is_first {
                assert_eq!(Ask::query("ASK {}").over(&mut stream).expect("it answers").status, 200);
            }
            stream.write_all(&Ask::query(text).bytes()).expect("it is sent");
            server.wait_for(RUNNING, |running| running == 1);
            drop(stream);
            let took = server.wait_for(RUNNING, |running| running == 0);
            println!("cancelled after {took:?}");
            assert!(took < Duration::from_secs(5), "{took:?}");
        }
    }
}
