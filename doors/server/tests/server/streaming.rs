//! Answers sent while their query runs.

use crate::client::{Ask, connect};
use crate::running::{ENDLESS, Running, SILENT, memory, numbers, open, service};
use std::io::{Read, Write};
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

/// A client must not take its part for the whole.
#[test]
fn an_error_after_the_first_byte_breaks_the_answer_off() {
    for strategy in strategies() {
        let server = under(strategy);
        for coding in ["identity", "gzip"] {
            let ask = Ask::query(ENDLESS).with("accept", "text/csv").with("accept-encoding", coding);
            let mut time = 0.3;
            let answer = loop {
                let answer = ask.clone().parameter("timeout", &time.to_string()).open(server.address);
                // 408: its time was up before the first byte.
                if answer.head.status != 408 {
                    break answer;
                }
                time *= 2.0;
                assert!(time < 60.0, "{strategy}, {coding}: no row comes");
            };
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

/// Boxes pause if a client reads nothing, and other clients are served meanwhile.
#[test]
fn a_client_that_reads_nothing_stops_its_own_query_alone() {
    for strategy in strategies() {
        let server = under(strategy);
        let ask = Ask::query(ENDLESS).with("accept", "text/tab-separated-values");
        let slow: Vec<_> = (0..4).map(|_| ask.open(server.address)).collect();
        // The sockets' own buffers are filled; then nothing is sent.
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

/// One connection, many requests: also behind a streamed answer.
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

/// What happened: packed or not, an answer in Arrow repeated batches, and one in Turtle of more than 64 KiB could not
/// be read. Each form of an answer, in each coding, read slowly and with pauses, has each row once.
#[test]
fn answers_are_the_same_in_every_coding_at_every_speed() {
    let count = 20_000;
    let mut options = open();
    (options.clients.stream_bytes, options.answer_cache_bytes) = (4 << 10, 0);
    let server = Running::of(service("las", 1 << 30), memory(&numbers(count)), options);
    let select = "SELECT ?s ?o { ?s ?p ?o }";
    let construct = "CONSTRUCT { ?s ?p ?o } { ?s ?p ?o }";
    for (text, media_type) in [
        (select, "application/sparql-results+json"),
        (select, "application/sparql-results+xml"),
        (select, "text/csv"),
        (select, "text/tab-separated-values"),
        (select, "application/vnd.apache.arrow.stream"),
        (construct, "application/n-triples"),
        (construct, "application/n-quads"),
        (construct, "text/turtle"),
        (construct, "application/trig"),
        (construct, "application/rdf+xml"),
        (construct, "application/ld+json"),
        (construct, "application/vnd.apache.arrow.stream"),
    ] {
        for coding in ["identity", "gzip", "zstd"] {
            for pauses in [false, true] {
                let ask = Ask::query(text).with("accept", media_type).with("accept-encoding", coding);
                let mut answer = ask.open(server.address);
                assert_eq!((answer.head.status, answer.head.media_type()), (200, media_type));
                let (mut body, mut pieces) = (Vec::new(), 0);
                while let Some(piece) = answer.piece() {
                    body.extend(piece);
                    pieces += 1;
                    let pause = if pauses { 20 * u64::from(pieces % 16 == 1) } else { 1 };
                    std::thread::sleep(Duration::from_millis(pause));
                }
                let body = unpacked(&body, answer.head.header("content-encoding"));
                let mut seen = numbers_in(media_type, &body);
                seen.sort_unstable();
                assert_eq!(seen.len(), count, "{text} as {media_type}, {coding}");
                assert!(seen.into_iter().eq(0..count as u64), "{text} as {media_type}, {coding}");
            }
        }
    }
}

/// The number that is the last term of each row, as another reader finds it.
fn numbers_in(media_type: &str, body: &[u8]) -> Vec<u64> {
    use sparesults::{QueryResultsFormat, QueryResultsParser, SliceQueryResultsParserOutput};
    let of = |object: oxrdf::Term| number(&object.to_string());
    match media_type {
        "application/vnd.apache.arrow.stream" => arrow_numbers(body),
        // Its terms have no kind, so no reader makes terms of them.
        "text/csv" => {
            let lines = str::from_utf8(body).expect("it is UTF-8").lines().skip(1);
            lines.map(|line| number(line.rsplit(',').next().expect("two cells"))).collect()
        }
        "application/n-triples" => {
            oxttl::NTriplesParser::new().for_slice(body).map(|triple| of(triple.expect("N-Triples").object)).collect()
        }
        "application/n-quads" => {
            oxttl::NQuadsParser::new().for_slice(body).map(|quad| of(quad.expect("N-Quads").object)).collect()
        }
        "text/turtle" => {
            oxttl::TurtleParser::new().for_slice(body).map(|triple| of(triple.expect("Turtle").object)).collect()
        }
        "application/trig" => {
            oxttl::TriGParser::new().for_slice(body).map(|quad| of(quad.expect("TriG").object)).collect()
        }
        "application/rdf+xml" => {
            let parser = oxrdfxml::RdfXmlParser::new().for_slice(body);
            parser.map(|triple| of(triple.expect("RDF/XML").object)).collect()
        }
        "application/ld+json" => {
            let parser = oxjsonld::JsonLdParser::new().for_slice(body);
            parser.map(|quad| of(quad.expect("JSON-LD").object)).collect()
        }
        results => {
            let format = QueryResultsFormat::from_media_type(results).expect("it is a form of results");
            let parser = QueryResultsParser::from_format(format).for_slice(body).expect("it has a head");
            let SliceQueryResultsParserOutput::Solutions(solutions) = parser else { panic!("it is a table") };
            solutions.map(|row| of(row.expect("a row").values()[1].clone().expect("it is bound"))).collect()
        }
    }
}

fn unpacked(body: &[u8], coding: Option<&str>) -> Vec<u8> {
    let mut unpacked = Vec::new();
    match coding {
        Some("gzip") => _ = flate2::read::MultiGzDecoder::new(body).read_to_end(&mut unpacked).expect("gzip"),
        Some("zstd") => unpacked = zstd::decode_all(body).expect("zstd"),
        _ => unpacked.extend_from_slice(body),
    }
    unpacked
}

/// The number of a literal.
fn number(term: &str) -> u64 {
    let digits = term.trim_start_matches('"').split('"').next().unwrap_or_default();
    digits.parse().unwrap_or_else(|_| panic!("{term} is a number"))
}

/// The numbers in the last column.
fn arrow_numbers(body: &[u8]) -> Vec<u64> {
    use arrow_array::cast::AsArray;
    let batches = arrow_ipc::reader::StreamReader::try_new(body, None).expect("a schema");
    let of = |batch: arrow_array::RecordBatch| {
        let column = batch.column(batch.num_columns() - 1).as_dictionary::<arrow_array::types::Int32Type>();
        let terms = column.values().as_string::<i32>();
        let numbers = (0..batch.num_rows()).map(|row| number(terms.value(column.key(row).expect("it is bound"))));
        numbers.collect::<Vec<_>>()
    };
    batches.flat_map(|batch| of(batch.expect("a batch"))).collect()
}
