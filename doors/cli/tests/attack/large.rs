//! Data and texts that are really large: graphs, literals, clients with heavy updates and statements; and what waits
//! for others. Each is answered right or refused with a clear status, and memory stays within its bound.

use crate::client::{Ask, connect};
use crate::http::Tls;
use crate::served::{ENDLESS, SILENT, Served, is_blameless, shown, vicus};
use crate::suite::{Suite, file, folder, short, text, until};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How late after its time limit a request may end, on a machine with much else to do.
const LATE: Duration = Duration::from_secs(5);

pub(crate) fn attack(suite: &mut Suite) {
    graphs(suite);
    literals(suite);
    heavy(suite);
    mixed(suite);
    waits(suite);
    leaves(suite);
}

/// A store with a few triples.
fn store(name: &str) -> (std::path::PathBuf, String) {
    let here = folder(name);
    let data = file(&here, "numbers.nt", crate::served::numbers(10));
    let store = text(&here.join("db")).to_owned();
    let (made, _) = vicus(&["load", "--store", &store, "--data", &data], Duration::from_secs(60), 12 << 30);
    assert!(made.status.success());
    (here, store)
}

/// A hundred thousand graphs, each with a triple.
fn graphs(suite: &mut Suite) {
    const COUNT: u64 = 100_000;
    let (here, store) = store("large-graphs");
    let server = Served::of(&here, &["--store", &store, "--open-updates", "--total-memory", "2048M"]);
    let address = server.address;
    let graph = |n: u64| format!("<http://e/g{n}> {{ <http://e/s{}> <http://e/p> {n} }}", n % 100);
    let update: String = (0..COUNT).map(|n| format!("GRAPH {} ", graph(n))).collect();
    let update = format!("INSERT DATA {{ {update} }}");
    let document: String = (0..COUNT).map(|n| format!("{}\n", graph(n))).collect();
    let all = "SELECT (COUNT(DISTINCT ?g) AS ?n) { GRAPH ?g { ?s ?p ?o } }";
    let each = Arc::clone(&server);
    suite.case("graphs: 100,000 by an update", move || {
        let reply = Ask::update(&update).send(address);
        assert_eq!(reply.status, 204, "{}", short(&shown(&reply)));
        let began = Instant::now();
        assert_eq!(each.number(all), COUNT);
        let sum = "SELECT (SUM(?o) AS ?n) { GRAPH ?g { ?s <http://e/p> ?o } }";
        assert_eq!(each.number(sum), COUNT * (COUNT - 1) / 2);
        let one = format!("SELECT ?o {{ GRAPH <http://e/g{}> {{ ?s ?p ?o }} }}", COUNT - 1);
        assert_eq!(each.number(&one), COUNT - 1);
        let joined = "SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p 7 } GRAPH ?h { ?s ?q ?o } }";
        assert_eq!(each.number(joined), COUNT / 100);
        let took = began.elapsed();
        assert!(took < Duration::from_secs(60), "{took:?}");
        for media_type in ["application/trig", "application/n-quads", "application/ld+json"] {
            let reply = Ask::get("/store").with("accept", media_type).send(address);
            assert!(reply.status == 200 && reply.is_whole && reply.body.len() > 2_000_000, "{media_type}");
        }
        format!("queries took {took:.1?}")
    });
    let each = Arc::clone(&server);
    suite.case("graphs: 100,000 are changed and cleared", move || {
        let began = Instant::now();
        for update in [
            "DELETE { GRAPH ?g { ?s ?p ?o } } INSERT { GRAPH ?g { ?s ?p ?m } } WHERE { GRAPH ?g { ?s ?p ?o } \
                BIND(?o + 1 AS ?m) }",
            "COPY <http://e/g1> TO <http://e/h> ; MOVE <http://e/h> TO <http://e/i> ; DROP GRAPH <http://e/i>",
        ] {
            let reply = Ask::update(update).send(address);
            assert_eq!(reply.status, 204, "{update}: {}", short(&shown(&reply)));
        }
        assert_eq!(each.number(all), COUNT);
        let drops: String = (0..1000).map(|n| format!("DROP GRAPH <http://e/g{n}> ; ")).collect();
        assert_eq!(Ask::update(&drops).send(address).status, 204);
        assert_eq!(each.number(all), COUNT - 1000);
        assert_eq!(Ask::update("DROP NAMED").send(address).status, 204);
        assert_eq!(each.number(all), 0);
        format!("in {:.1?}", began.elapsed())
    });
    let each = Arc::clone(&server);
    suite.case("graphs: 100,000 by a document", move || {
        let put = Ask::new("PUT", "/store").with("content-type", "application/trig").body(document);
        let reply = put.send(address);
        assert_eq!(reply.status, 204, "{}", short(&shown(&reply)));
        assert_eq!(each.number(all), COUNT);
        each.data();
        "204".to_owned()
    });
    server.close(suite, "graphs");
}

/// Literals of 100 MB in texts and documents: taken or refused, and others are answered meanwhile.
fn literals(suite: &mut Suite) {
    const BYTES: usize = 100 << 20;
    let (here, store) = store("large-literals");
    let args =
        ["--store", &store, "--open-updates", "--max-query-bytes", "200M", "--max-body", "200M", "--timeout", "60"];
    let server = Served::of(&here, &[&args[..], &["--total-memory", "2048M"]].concat());
    let address = server.address;
    let put = |media_type: &'static str, before: &str, after: &str| {
        let body = [before.as_bytes(), &vec![b'x'; BYTES], after.as_bytes()].concat();
        Ask::new("PUT", "/store?graph=http://e/g").with("content-type", media_type).body(body)
    };
    let text = |before: &str, after: &str| format!("{before}{}{after}", "x".repeat(BYTES));
    let asks: Vec<(&str, Ask)> = vec![
        ("a query", Ask::post("/sparql", "application/sparql-query", text("ASK { ?s ?p \"", "\" }"))),
        ("a filter", Ask::post("/sparql", "application/sparql-query", text("ASK { FILTER(STRLEN(\"", "\") > 7) }"))),
        ("a statement", Ask::post("/sql", "application/sql", text("SELECT LENGTH('", "')"))),
        ("an update", Ask::update(&text("INSERT DATA { <http://e/a> <http://e/l> \"", "\" }"))),
        (
            "a computed one",
            Ask::update(
                "INSERT { <http://e/a> <http://e/l> ?l } WHERE { BIND(\"xxxxxxxxxx\" AS ?a) BIND(REPLACE(?a, \"x\", \
                    \"yyyyyyyyyy\") AS ?b) BIND(REPLACE(?b, \"y\", ?b) AS ?c) BIND(REPLACE(?c, \"y\", ?b) AS ?d) \
                    BIND(REPLACE(?d, \"y\", ?b) AS ?l) }",
            ),
        ),
        ("Turtle", put("text/turtle", "<http://e/a> <http://e/l> \"", "\" .")),
        ("N-Triples", put("application/n-triples", "<http://e/a> <http://e/l> \"", "\" .\n")),
        ("JSON-LD", put("application/ld+json", "{\"@id\":\"http://e/a\",\"http://e/l\":\"", "\"}")),
        (
            "RDF/XML",
            put(
                "application/rdf+xml",
                "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\" xmlns:e=\"http://e/\">\
                    <rdf:Description rdf:about=\"http://e/a\"><e:l>",
                "</e:l></rdf:Description></rdf:RDF>",
            ),
        ),
    ];
    for (name, ask) in asks {
        let each = Arc::clone(&server);
        suite.case(&format!("literals: 100 MB in {name}"), move || {
            let sender = std::thread::spawn(move || ask.send(address));
            let mut slowest = Duration::ZERO;
            while !sender.is_finished() {
                slowest = slowest.max(short_query(&each));
                std::thread::sleep(Duration::from_millis(50));
            }
            let reply = sender.join().expect("it gets an answer");
            assert!(
                [200, 204, 400, 408, 413, 503].contains(&reply.status),
                "{} {}",
                reply.status,
                short(&shown(&reply))
            );
            each.data();
            format!("{}, a short query took {slowest:.1?}: {}", reply.status, short(shown(&reply).trim()))
        });
    }
    server.close(suite, "literals");
    suite.case("literals: the store is read again, and its dump as well", move || {
        let whole = |args: &[&str]| {
            let (output, _) = vicus(args, Duration::from_secs(100), 12 << 30);
            assert!(output.status.success(), "{args:?}: {}", short(&String::from_utf8_lossy(&output.stderr)));
        };
        whole(&["check", "--store", &store]);
        let mut loaded = 0;
        for ending in ["nq", "trig", "jsonld"] {
            let dump = here.join(format!("dump.{ending}"));
            let dump = dump.to_str().expect("UTF-8");
            whole(&["dump", "--store", &store, "--output", dump]);
            let again = here.join(format!("again-{ending}"));
            whole(&["load", "--store", again.to_str().expect("UTF-8"), "--data", dump]);
            loaded += 1;
            let _ = std::fs::remove_file(dump);
        }
        format!("{loaded} dumps")
    });
}

/// A short query, of data that stays.
fn short_query(server: &Served) -> Duration {
    let began = Instant::now();
    assert_eq!(server.number("SELECT ?o { <http://e/s7> <http://e/p> ?o }"), 7);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(10), "a short query took {took:?}");
    took
}

/// Clients with heavy statements and updates, sixteen of each.
fn heavy(suite: &mut Suite) {
    let (here, store) = store("large-heavy");
    let table: String = "a,b\n".to_owned() + &(0..3000).map(|n| format!("{n},text {n}\n")).collect::<String>();
    let table = format!("t={}", file(&here, "t.csv", table));
    let server = Served::of(&here, &["--store", &store, "--open-updates", "--table", &table, "--timeout", "8"]);
    let address = server.address;
    let more: String = (0..2000).map(|n| format!("<http://e/m{n}> <http://e/q> {n} . ")).collect();
    assert_eq!(Ask::update(&format!("INSERT DATA {{ {more} }}")).send(address).status, 204);
    let sql = [
        "SELECT a.b, b.b FROM t AS a, t AS b ORDER BY b.b, a.b",
        "SELECT DISTINCT a.b || b.b FROM t AS a, t AS b",
        "SELECT a.a, b.a, COUNT(*) FROM t AS a, t AS b GROUP BY a.a, b.a",
        "SELECT a.b FROM t AS a JOIN t AS b ON a.a <> b.a EXCEPT SELECT b FROM t",
    ];
    let updates = [
        "INSERT { ?a ?q ?d } WHERE { ?a <http://e/q> ?b . ?c <http://e/q> ?d BIND(IRI(CONCAT(STR(?a), STR(?d))) AS \
            ?q) }",
        "DELETE { ?a <http://e/r> ?d } INSERT { ?a <http://e/r> ?d } WHERE { ?a <http://e/q> ?b . ?c <http://e/q> ?d }",
        "INSERT { ?a <http://e/u> ?t } WHERE { ?a <http://e/q> ?b . ?c <http://e/q> ?d BIND(CONCAT(STR(?a), \
            STR(?c)) AS ?t) }",
        "DELETE { ?a <http://e/q> ?b } INSERT { GRAPH ?c { ?a <http://e/q> ?d } } WHERE { ?a <http://e/q> ?b . ?c \
            <http://e/q> ?d FILTER(?b < 1500) }",
    ];
    for kind in ["statements", "updates", "of both"] {
        let each = Arc::clone(&server);
        suite.case(&format!("heavy: 16 clients with {kind}"), move || {
            let clients: Vec<_> = (0..16)
                .map(|n| {
                    let is_sql = kind == "statements" || (kind == "of both" && n % 2 == 0);
                    let ask = match is_sql {
                        true => Ask::post("/sql", "application/sql", sql[n / 2 % 4]).with("accept", "text/csv"),
                        false => Ask::update(updates[n / 2 % 4]),
                    };
                    std::thread::spawn(move || {
                        let answer = ask.open(address);
                        let status = answer.head.status;
                        (status, answer.skip().1)
                    })
                })
                .collect();
            let mut slowest = Duration::ZERO;
            while clients.iter().any(|client| !client.is_finished()) {
                slowest = slowest.max(short_query(&each));
                each.data();
                std::thread::sleep(Duration::from_millis(100));
            }
            let came: Vec<u16> =
                clients.into_iter().map(|client| client.join().expect("it gets an answer").0).collect();
            assert!(came.iter().all(|status| [200, 204, 408, 413, 503].contains(status)), "{came:?}");
            format!("{came:?}, a short query took {slowest:.1?}")
        });
    }
    server.close(suite, "heavy");
}

/// What happened: memory grew from 257 to 643 MB in six minutes of all kinds of requests at once, with no sign of an
/// end. It is freed memory for later requests, and it is bounded. Six clients query, update, put documents and ask SQL,
/// and some leave before their answer is whole.
fn mixed(suite: &mut Suite) {
    const TIME: Duration = Duration::from_secs(45);
    /// What the manual says that stays beside requests and data, and the two caches.
    const BESIDE: u64 = (256 + 64 + 64) << 20;
    let (here, store) = store("large-mixed");
    let total: u64 = 400 << 20;
    let server = Served::of(&here, &["--store", &store, "--open-updates", "--total-memory", &total.to_string()]);
    let each = Arc::clone(&server);
    suite.case("mixed: six clients with all kinds of requests", move || {
        let data: String = (0..2000).map(|n| format!("<http://e/m{n}> <http://e/m> {n} . ")).collect();
        assert_eq!(Ask::update(&format!("INSERT DATA {{ {data} }}")).send(each.address).status, 204);
        let (until, address) = (Instant::now() + TIME, each.address);
        let clients: Vec<_> = (0..6u64)
            .map(|client| {
                std::thread::spawn(move || {
                    let (mut seed, mut answered, mut refused) = (client + 1, 0u64, 0u64);
                    println!("seed {seed}");
                    let mut below = |bound: u64| {
                        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        (seed >> 33) % bound
                    };
                    while Instant::now() < until {
                        let ask = request_of_a_mix(below(8), below(2000), below(1 << 30));
                        if below(10) == 0 {
                            // It leaves: with the stream, its request ends.
                            drop(ask.open(address));
                            continue;
                        }
                        match ask.send(address).status {
                            200 | 201 | 204 => answered += 1,
                            // No room now, or not for this one.
                            413 | 503 => refused += 1,
                            other => panic!("status {other}"),
                        }
                    }
                    (answered, refused)
                })
            })
            .collect();
        let counts: Vec<(u64, u64)> = clients.into_iter().map(|client| client.join().expect("its answers")).collect();
        let (answered, refused) = counts.iter().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        assert!(counts.iter().all(|count| count.0 > 0), "each client was answered: {counts:?}");
        let grown = each.held().most_bytes;
        let most = total + BESIDE + 2 * each.data().max(64 << 20);
        assert!(grown <= most, "memory grew to {} MiB, of {} MiB at most", grown >> 20, most >> 20);
        format!("{answered} answered, {refused} refused, {} MiB at most", grown >> 20)
    });
    server.close(suite, "mixed");
}

/// A request of one of eight kinds; those with a greater `size` have more to do.
fn request_of_a_mix(kind: u64, size: u64, name: u64) -> Ask {
    let pairs = "?a <http://e/m> ?b . ?c <http://e/m> ?d";
    let triples = |count: u64| -> String {
        (0..count).map(|n| format!("<http://e/u{name}-{n}> <http://e/q> \"text {n}\" .\n")).collect()
    };
    match kind {
        0 => Ask::query(&format!("SELECT ?s ?o {{ ?s <http://e/m> ?o FILTER(?o < {size}) }}")),
        1 => Ask::query(&format!("SELECT ?a (COUNT(*) AS ?n) {{ {pairs} FILTER(?d < {}) }} GROUP BY ?a", size / 20)),
        2 => Ask::query(&format!("SELECT * {{ {pairs} FILTER(?d < {}) }} ORDER BY DESC(?b) ?d", size / 100)),
        3 => Ask::query(&format!("SELECT (GROUP_CONCAT(CONCAT(STR(?s), '{name}')) AS ?x) {{ ?s ?p ?o }}")),
        4 => Ask::update(&format!("INSERT DATA {{ {} }}", triples(size))),
        5 => Ask::update("DELETE WHERE { ?s <http://e/q> ?o }"),
        6 => {
            let put = Ask::new("PUT", &format!("/store?graph=http://e/g{}", name % 6));
            put.with("content-type", "text/turtle").body(triples(size))
        }
        _ => {
            let join = r#"FROM "http://e/m" a, "http://e/m" b"#;
            let text = format!("SELECT a.object, COUNT(*) {join} WHERE b.object < {} GROUP BY a.object", size / 20);
            Ask::post("/sql", "application/sql", text)
        }
    }
}

/// A server whose answers have no end: a byte now and then, or as many as are taken, or none.
fn endless(kind: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it listens").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 16 << 10]);
                let head = |media_type: &str| {
                    format!("HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nConnection: close\r\n\r\n")
                };
                let (head, piece) = match kind {
                    "silence" => (String::new(), Vec::new()),
                    "drops" => (head("text/turtle"), b" ".to_vec()),
                    "blanks" => (head("text/turtle"), vec![b' '; 64 << 10]),
                    "triples" => (head("text/turtle"), b"<http://e/a> <http://e/b> 1 .\n".repeat(1000)),
                    "rows" => (
                        head("application/sparql-results+json"),
                        b"{\"s\":{\"type\":\"uri\",\"value\":\"http://e/a\"}},".repeat(1000),
                    ),
                    _ => unreachable!("there are five kinds"),
                };
                let begins =
                    if kind == "rows" { "{\"head\":{\"vars\":[\"s\"]},\"results\":{\"bindings\":[" } else { "" };
                let mut goes_on = stream.write_all((head + begins).as_bytes()).is_ok();
                while goes_on {
                    if kind == "drops" || kind == "silence" {
                        std::thread::sleep(Duration::from_millis(100));
                    }
                    let mut gone = [0; 1];
                    let _ = stream.set_nonblocking(true);
                    let has_gone = matches!(stream.read(&mut gone), Ok(0));
                    let _ = stream.set_nonblocking(false);
                    goes_on = !has_gone && stream.write_all(&piece).is_ok();
                }
            });
        }
    });
    port
}

/// Operations that wait for others, and long ones of many steps, end at their time limit.
fn waits(suite: &mut Suite) {
    const TIME: Duration = Duration::from_secs(2);
    let (here, store) = store("large-waits");
    let kinds = ["silence", "drops", "blanks", "triples", "rows"].map(|kind| (kind, endless(kind)));
    let urls = kinds.map(|(kind, port)| (kind, format!("http://127.0.0.1:{port}/")));
    let mut args = vec!["--store", &store, "--open-updates", "--timeout", "2", "--service-timeout", "3"];
    for (_, url) in &urls {
        args.extend(["--allow-service", url]);
    }
    let server = Served::of(&here, &args);
    let address = server.address;
    let late = |ask: Ask| {
        move || {
            let began = Instant::now();
            let reply = ask.send(address);
            let took = began.elapsed();
            is_blameless("it waits", &reply);
            assert!(took < TIME + LATE, "{took:.1?}, {}", reply.status);
            assert!([400, 408, 413, 503].contains(&reply.status), "{}: {}", reply.status, short(&shown(&reply)));
            format!("{} after {took:.1?}", reply.status)
        }
    };
    for (kind, url) in &urls {
        suite.case(&format!("waits: LOAD of {kind}"), late(Ask::update(&format!("LOAD <{url}>"))));
        suite.case(
            &format!("waits: SERVICE with {kind}"),
            late(Ask::query(&format!("SELECT * {{ SERVICE <{url}> {{ ?s ?p ?o }} }}"))),
        );
        suite.case(
            &format!("waits: an update by SERVICE with {kind}"),
            late(Ask::update(&format!("INSERT {{ ?s <http://e/x> 1 }} WHERE {{ SERVICE <{url}> {{ ?s ?p ?o }} }}"))),
        );
    }
    let each = Arc::clone(&server);
    suite.case("waits: COPY, MOVE and ADD without end", move || {
        let graph: String = (0..50_000).map(|n| format!("<http://e/s{n}> <http://e/p> {n} . ")).collect();
        let put = Ask::new("PUT", "/store?graph=http://e/a").with("content-type", "text/turtle").body(graph);
        let status = put.send(address).status;
        assert!(status < 300, "{status}");
        let before = each.number("SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } }");
        let steps = "COPY <http://e/a> TO <http://e/b> ; MOVE <http://e/b> TO <http://e/c> ; ADD <http://e/c> TO \
            <http://e/d> ; DELETE WHERE { GRAPH <http://e/d> { ?s ?p ?o } } ; ";
        let began = Instant::now();
        let reply = Ask::update(&steps.repeat(500)).send(address);
        let took = began.elapsed();
        assert_eq!(reply.status, 408, "{}", short(&shown(&reply)));
        assert!(took < TIME + LATE, "{took:?}");
        let after = each.number("SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } }");
        assert_eq!(after, before, "nothing of it has happened");
        format!("after {took:.1?}")
    });
    server.close(suite, "waits");
}

/// Clients that go at each stage, by TLS in both versions of HTTP.
fn leaves(suite: &mut Suite) {
    let tls = Tls::start("large-leaves", &["--open-updates"]);
    let connector = tls.connector();
    for protocol in ["http/1.1", "h2"] {
        let connector = connector.clone();
        suite.case(&format!("leaves: clients of {protocol} over TLS go at each stage"), move || {
            let mut count = 0;
            for query in [ENDLESS, SILENT, "SELECT DISTINCT * { ?a ?b ?c . ?d ?e ?f }"] {
                for wait in [0, 1, 10, 50, 200, 700] {
                    for reads in [false, true] {
                        // Half a hello.
                        let mut half = connect(connector.address);
                        let _ = half.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]);
                        let mut stream = connector.connect(protocol);
                        let bytes = match protocol {
                            "h2" => crate::http2::asking(query),
                            _ => Ask::query(query).bytes(),
                        };
                        // All of it, or a part.
                        let end = if count % 4 == 3 { bytes.len() / 2 } else { bytes.len() };
                        stream.write_all(&bytes[..end]).and_then(|()| stream.flush()).expect("it is sent");
                        std::thread::sleep(Duration::from_millis(wait));
                        if reads {
                            stream.sock.set_read_timeout(Some(Duration::from_millis(50))).expect("it can be limited");
                            let _ = stream.read(&mut [0; 1000]);
                        }
                        // With a notice that it goes, or without.
                        if count % 2 == 0 {
                            stream.conn.send_close_notify();
                            let _ = stream.flush();
                        }
                        drop((stream, half));
                        count += 1;
                    }
                }
            }
            let began = Instant::now();
            let is_idle = until(Duration::from_secs(20), || connector.metric("vicus_requests_running") == 0);
            assert!(is_idle, "{} run", connector.metric("vicus_requests_running"));
            format!("{count} clients, idle after {:.1?}", began.elapsed())
        });
    }
    tls.server.close(suite, "leaves");

    let plain = Served::start("large-leaves-plain", &["--open-updates"]);
    let (address, each) = (plain.address, Arc::clone(&plain));
    suite.case("leaves: clients of HTTP/2 go at each stage", move || {
        let mut count = 0;
        for query in [ENDLESS, SILENT] {
            for wait in [0, 1, 10, 50, 200, 700] {
                for part in [1, 2, 3] {
                    let bytes = crate::http2::asking(query);
                    let mut stream = connect(address);
                    stream.write_all(&bytes[..bytes.len() * part / 3]).expect("it is sent");
                    std::thread::sleep(Duration::from_millis(wait));
                    drop(stream);
                    count += 1;
                }
            }
        }
        format!("{count} clients, idle after {:.1?}", each.is_idle_within(Duration::from_secs(20)))
    });
    plain.close(suite, "leaves of HTTP/2");
}
