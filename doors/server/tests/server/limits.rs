//! The limits of clients, and the answers beyond them.

use crate::client::{Ask, connect};
use crate::running::{ENDLESS, Running, SILENT, memory, numbers, open, service, with_clients};
use std::io::{Read, Write};
use std::time::{Duration, Instant};
use vicus_server::{ClientLimits, ServerOptions};

const RUNNING: &str = "vicus_requests_running";

#[test]
fn a_name_is_for_one_request_that_runs() {
    let server = Running::start(&numbers(2000), open());
    let named = |text: &str| Ask::query(text).with("vicus-request-id", "mine-1");
    let first = named(ENDLESS).open(server.address);
    assert_eq!(first.head.header("vicus-request-id"), Some("mine-1"));
    let second = server.ask(&named("ASK {}"));
    assert_eq!(second.status, 409, "{}", second.text());
    drop(first);
    server.wait_for(RUNNING, |running| running == 0);
    assert_eq!(server.ask(&named("ASK {}")).status, 200, "it is free again");
    // Others have names of the server's.
    let (a, b) = (server.ask(&Ask::query("ASK {}")), server.ask(&Ask::query("ASK {}")));
    assert!(a.header("vicus-request-id").is_some() && a.header("vicus-request-id") != b.header("vicus-request-id"));
    for odd in ["", "a b", "a/b", "<script>", "é", &"x".repeat(65), "a\u{1}"] {
        let reply = server.ask(&Ask::query("ASK {}").with("vicus-request-id", odd));
        assert_eq!(reply.status, 400, "{odd:?}: {}", String::from_utf8_lossy(&reply.body));
    }
}

#[test]
fn an_address_has_so_many_requests_at_once() {
    let server = Running::start(&numbers(2000), with_clients(ClientLimits { requests: 2, ..ClientLimits::default() }));
    let running = [Ask::query(ENDLESS).open(server.address), Ask::query(ENDLESS).open(server.address)];
    let third = server.ask(&Ask::query("ASK {}"));
    assert_eq!((third.status, third.header("retry-after")), (429, Some("1")), "{}", third.text());
    assert_eq!(server.ask(&Ask::get("/health")).status, 200);
    drop(running);
    server.wait_for(RUNNING, |running| running == 0);
    assert_eq!(server.ask(&Ask::query("ASK {}")).status, 200);
}

/// A query alone on the server that needs more than there is would not do better later.
#[test]
fn what_never_fits_is_too_large_and_not_told_to_come_again() {
    let server = Running::of(service("las", 4 << 20), memory(&numbers(2000)), open());
    let reply = server.ask(&Ask::query("SELECT * { ?a ?b ?c . ?d ?e ?f . FILTER(?c < 1900) } ORDER BY ?f ?c"));
    assert_eq!((reply.status, reply.header("retry-after")), (413, None), "{}", reply.text());
    assert!(reply.text().contains("more than 4.0 MiB is needed"), "{}", reply.text());
}

/// A request without memory waits for up to its time limit; beyond the bound of waiting ones, it is refused at once.
#[test]
fn what_finds_no_room_waits_within_a_bound() {
    let session = vicus_service::SessionOptions::default();
    let clients = ClientLimits { waiting: 4, ..ClientLimits::default() };
    let server =
        Running::of(service("las", 8 << 20), memory(&numbers(2000)), ServerOptions { session, clients, ..open() });
    // Sorting holds all memory, or fails when there is no more.
    let greedy = "SELECT * { ?a ?b ?c . ?d ?e ?f . FILTER(?c < 1900) } ORDER BY ?f ?c";
    let greedy: Vec<_> = (0..8)
        .map(|_| {
            let address = server.address;
            std::thread::spawn(move || Ask::query(greedy).parameter("timeout", "2").send(address))
        })
        .collect();
    let mut refused = 0;
    for reply in greedy.into_iter().map(|thread| thread.join().expect("no panic")) {
        assert!([200, 408, 413, 503].contains(&reply.status), "{}", reply.text());
        if reply.status == 503 {
            assert_eq!(reply.header("retry-after"), Some("1"));
            refused += 1;
        }
    }
    println!("{refused} of 8 were refused");
    server.wait_for("vicus_memory_taken_bytes", |taken| taken == 0);
    assert_eq!(server.number("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), 2000);
    // While all threads for new requests are busy, and none may wait, requests are refused.
    let closed = Running::start(&numbers(2000), with_clients(ClientLimits { waiting: 0, ..ClientLimits::default() }));
    let statuses: Vec<_> = (0..16)
        .map(|_| {
            let address = closed.address;
            std::thread::spawn(move || (0..50).map(|_| Ask::query("ASK {}").send(address)).collect::<Vec<_>>())
        })
        .flat_map(|thread| thread.join().expect("no panic"))
        .map(|reply| (reply.status, reply.header("retry-after").map(str::to_owned)))
        .collect();
    assert!(statuses.iter().any(|(status, _)| *status == 200));
    assert!(statuses.iter().all(|each| each.0 == 200 || *each == (503, Some("1".to_owned()))), "{statuses:?}");
}

/// What happened: hyper waits without a limit for the bytes that tell HTTP/1.1 from HTTP/2, so a client that sent
/// nothing, or the first half of HTTP/2's preface, kept its connection for ever.
#[test]
fn a_connection_that_says_nothing_is_closed() {
    let clients = ClientLimits { head_time: Duration::from_millis(200), ..ClientLimits::default() };
    let server = Running::start("", with_clients(clients));
    for beginning in [
        "",
        "P",
        "PRI * HTTP/2.0\r\n",
        "GET",
        "GET / HTTP/1.1\r\nHost: localhost\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: ",
    ] {
        let mut stream = connect(server.address);
        stream.write_all(beginning.as_bytes()).expect("it is sent");
        let mut rest = Vec::new();
        let began = Instant::now();
        // The connection ends, be it by an end or by a reset.
        let _ = stream.read_to_end(&mut rest);
        assert!(began.elapsed() < Duration::from_secs(30), "{beginning:?}");
        let rest = String::from_utf8_lossy(&rest);
        assert!(
            rest.is_empty() || rest.starts_with("HTTP/1.1 408") || rest.starts_with("HTTP/1.1 400"),
            "{beginning:?}: {rest}"
        );
    }
    // Nor does one header after the other prolong it.
    let mut stream = connect(server.address);
    stream.write_all(b"GET / HTTP/1.1\r\n").expect("it is sent");
    let began = Instant::now();
    while stream.write_all(b"X: y\r\n").is_ok() {
        assert!(began.elapsed() < Duration::from_secs(30), "it is closed");
        std::thread::sleep(Duration::from_millis(20));
    }
    // A slow but permitted request is not disturbed.
    let quick = Running::start(&numbers(2000), with_clients(clients));
    let reply = quick.ask(&Ask::query(SILENT).parameter("timeout", "0.7"));
    assert_eq!(reply.status, 408, "{}", reply.text());
}

/// Neither a pause nor drops are permitted without an end.
#[test]
fn a_body_that_comes_too_slowly_is_refused() {
    let clients = ClientLimits { body_time: Duration::from_millis(300), ..ClientLimits::default() };
    let server = Running::start("", with_clients(clients));
    for (path, media_type) in [("/sparql", "application/sparql-query"), ("/store?default", "text/turtle")] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media_type}\r\nContent-Length: 1000000\r\n\r\n"
        );
        // A pause.
        let mut stream = connect(server.address);
        stream.write_all(head.as_bytes()).expect("it is sent");
        let answer = crate::client::Answer::of(&mut stream, false).expect("it answers");
        assert_eq!(answer.head.status, 408, "{path}");
        // Drops.
        let mut stream = connect(server.address);
        stream.write_all(head.as_bytes()).expect("it is sent");
        let began = Instant::now();
        stream.set_read_timeout(Some(Duration::from_millis(20))).expect("it can be limited");
        let mut answer = [0; 12];
        loop {
            let _ = stream.write_all(b"#");
            match stream.read(&mut answer) {
                Ok(0) => break,
                Ok(_) => break assert_eq!(&answer, b"HTTP/1.1 408"),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
            assert!(began.elapsed() < Duration::from_secs(30), "{path}: it is refused");
        }
    }
    // A request in pieces that do come is taken.
    let text = format!("ASK {{}} #{}", "x".repeat(5000));
    let ask = Ask::post("/sparql", "application/sparql-query", text.clone()).bytes();
    let mut stream = connect(server.address);
    for piece in ask.chunks(200) {
        stream.write_all(piece).expect("it is sent");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(crate::client::Answer::of(&mut stream, false).expect("it answers").head.status, 200);
}

/// Bodies of all clients together are bounded, too: each by itself may be within its limit.
#[test]
fn bodies_hold_so_much_together() {
    let clients = ClientLimits { body_bytes: 1 << 20, ..ClientLimits::default() };
    let server = Running::of(service("las", 2 << 20), memory(""), with_clients(clients));
    let size = 900 << 10;
    let head = format!(
        "PUT /store?default HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/turtle\r\nContent-Length: {size}\r\n\r\n"
    );
    let mut streams: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = connect(server.address);
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(&vec![b'\n'; size - 1]);
            stream
        })
        .collect();
    // All but the last byte has come, or was refused.
    let refused = |stream: &mut std::net::TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(50))).expect("it can be limited");
        let mut answer = [0; 12];
        match stream.read(&mut answer) {
            Ok(0) => true,
            Ok(_) => {
                assert_eq!(&answer, b"HTTP/1.1 503");
                true
            }
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    };
    let (began, mut held) = (Instant::now(), streams.iter_mut().collect::<Vec<_>>());
    while held.len() > 1 {
        assert!(began.elapsed() < Duration::from_secs(30), "{} are held", held.len());
        held.retain_mut(|stream| !refused(stream));
    }
    std::thread::sleep(Duration::from_millis(500));
    assert!(held.len() == 1 && !refused(held[0]), "one has room");
    drop(streams);
    let whole = Ask::new("PUT", "/store?default").with("content-type", "text/turtle").body(vec![b'\n'; size]);
    let began = Instant::now();
    while server.ask(&whole).status != 204 {
        assert!(began.elapsed() < Duration::from_secs(30), "there is room again");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What happened: reading RDF/XML with many attributes and JSON-LD with large contexts went on for half a minute behind
/// the time limit.
#[test]
fn a_document_that_takes_too_long_to_read_is_given_up() {
    let server = Running::of(service("las", 4 << 30), memory(&numbers(10)), open());
    let attributes: String = (0..1000).map(|n| format!(" e:a{n}=\"v\"")).collect();
    let xml = format!(
        "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\" xmlns:e=\"http://e/\">{}</rdf:RDF>",
        format!("<e:C{attributes}/>").repeat(1500)
    );
    let terms: String = (0..1000).map(|n| format!("\"t{n}\":\"http://e/{n}\",")).collect();
    let node = format!("{{\"@context\":{{{terms}\"x\":\"http://e/x\"}},\"x\":[1,2,3]}}");
    let json = format!("[{}]", vec![node; 1000].join(","));
    for (media_type, text) in [("application/rdf+xml", xml), ("application/ld+json", json)] {
        let put = Ask::new("PUT", "/store?graph=http://e/g").parameter("timeout", "0.25");
        let reply = server.ask(&put.with("content-type", media_type).body(text));
        assert_eq!(reply.status, 408, "{media_type}: {}", reply.text());
        assert!(reply.text().contains("time"), "{media_type}: {}", reply.text());
        assert_eq!(server.number("SELECT (COUNT(*) AS ?n) { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"), 10);
    }
}
