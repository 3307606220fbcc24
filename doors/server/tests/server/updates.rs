//! Updates: the right to them, all or nothing, and their traces.

use crate::client::{Ask, connect};
use crate::running::{Running, folder, memory, numbers, open, service};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use vicus_server::{AccessRules, ServerOptions};
use vicus_service::data::Snapshot;
use vicus_service::{Dataset, MemoryBudget, SessionOptions, check, check_update, create_store};

const ADD: &str = "INSERT DATA { <http://e/new> <http://e/p> 1 }";

fn with_access(access: AccessRules) -> Running {
    Running::start("", ServerOptions { access, ..open() })
}

fn bearer(ask: Ask, token: &str) -> Ask {
    ask.with("authorization", &format!("Bearer {token}"))
}

/// All ways of changing data.
fn changes() -> Vec<Ask> {
    let put = |method: &str| {
        Ask::new(method, "/store?default").with("content-type", "text/turtle").body("<http://e/s> <http://e/p> 1 .")
    };
    vec![
        Ask::update(ADD),
        Ask::post("/sparql", "application/sparql-update", ADD),
        Ask::post("/sparql", "application/x-www-form-urlencoded", format!("update={}", crate::client::escaped(ADD))),
        Ask::post("/update", "application/x-www-form-urlencoded", format!("update={}", crate::client::escaped(ADD))),
        put("PUT"),
        put("POST"),
        Ask::new("DELETE", "/store?default"),
    ]
}

#[test]
fn who_has_no_token_changes_nothing() {
    let tokens = AccessRules { write: vec!["w".into()], read: vec!["r".into()], ..AccessRules::default() };
    let read_only = AccessRules { is_read_only: true, write: vec!["w".into()], ..AccessRules::default() };
    for (access, token, status) in [
        (AccessRules::default(), None, 403),
        (AccessRules::default(), Some("w"), 403),
        (read_only.clone(), None, 403),
        (read_only, Some("w"), 403),
        (tokens.clone(), None, 401),
        (tokens.clone(), Some("r"), 403),
        (tokens.clone(), Some("W"), 403),
        (tokens.clone(), Some(""), 401),
    ] {
        let server = with_access(access);
        for change in changes() {
            let change = token.map_or(change.clone(), |token| bearer(change, token));
            let reply = server.ask(&change);
            assert_eq!(reply.status, status, "{token:?}: {}", reply.text());
            assert_eq!(reply.header("www-authenticate").is_some(), status == 401);
        }
    }
    let server = with_access(tokens);
    for change in changes() {
        let reply = server.ask(&bearer(change, "w"));
        assert!(reply.status < 300, "{}", reply.text());
    }
    assert_eq!(server.ask(&Ask::query("ASK {}")).status, 401);
    assert_eq!(server.ask(&Ask::get("/store")).status, 401);
    assert_eq!(server.ask(&Ask::get("/metrics")).status, 401);
    assert_eq!(server.ask(&Ask::query("ASK {}").with("authorization", "Basic cjpy")).status, 401);
    for token in ["r", "w"] {
        assert_eq!(server.ask(&bearer(Ask::query("ASK {}"), token)).status, 200);
    }
}

/// SPARQL 1.1 Protocol, §2.2.3: the text must not name graphs as well.
#[test]
fn graphs_are_named_by_the_text_or_by_parameters() {
    let server = Running::start(&numbers(2), open());
    server.update("INSERT DATA { GRAPH <http://e/g> { <http://e/s0> <http://e/p> 7 } }");
    let text = "INSERT { ?s <http://e/q> ?o } WHERE { ?s <http://e/p> ?o }";
    for conflict in [
        "WITH <http://e/g> INSERT { ?s <http://e/q> ?o } WHERE { ?s <http://e/p> ?o }",
        "INSERT { ?s <http://e/q> ?o } USING <http://e/g> WHERE { ?s <http://e/p> ?o }",
        "INSERT { ?s <http://e/q> ?o } USING NAMED <http://e/g> WHERE { GRAPH ?g { ?s <http://e/p> ?o } }",
    ] {
        for parameter in ["using-graph-uri", "using-named-graph-uri"] {
            let reply = server.ask(&Ask::update(conflict).parameter(parameter, "http://e/g"));
            assert_eq!(reply.status, 400, "{conflict} {parameter}");
        }
    }
    assert!(server.ask(&Ask::update(text).parameter("using-graph-uri", "http://e/g")).status < 300);
    assert_eq!(server.number("SELECT ?o { ?s <http://e/q> ?o }"), 7);
}

#[test]
fn an_update_happens_as_a_whole_or_not_at_all() {
    let folder = folder("whole");
    drop(create_store(&folder.join("store")).expect("it can be made"));
    for server in [Running::start("", open()), Running::store(&folder.join("store"), open())] {
        let failing =
            format!("{ADD} ; LOAD <http://e.invalid/nothing> ; INSERT DATA {{ <http://e/third> <http://e/p> 1 }}");
        let reply = server.ask(&Ask::update(&failing));
        assert_eq!(reply.status, 400, "{}", reply.text());
        assert_eq!(server.number("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), 0);
        let silent = failing.replace("LOAD", "LOAD SILENT");
        let reply = server.ask(&Ask::update(&silent).with("accept", "application/json"));
        let json: serde_json::Value = serde_json::from_str(&reply.text()).expect("it is JSON");
        assert_eq!((reply.status, &json["operations"]), (200, &3.into()));
        assert_eq!(server.number("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), 2);
    }
}

#[test]
fn updates_of_several_clients_all_happen() {
    let folder = folder("several").join("store");
    drop(create_store(&folder).expect("it can be made"));
    {
        let server = Running::store(&folder, open());
        std::thread::scope(|scope| {
            for client in 0..4 {
                let server = &server;
                scope.spawn(move || {
                    for number in 0..10 {
                        server.update(&format!("INSERT DATA {{ <http://e/c{client}> <http://e/p> {number} }}"));
                        // Acknowledged updates are seen.
                        assert!(server.boolean(&format!("ASK {{ <http://e/c{client}> <http://e/p> {number} }}")));
                    }
                });
            }
        });
        assert_eq!(server.number("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), 40);
    }
    let server = Running::store(&folder, open());
    assert_eq!(server.number("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), 40);
}

/// What happened: an update of data in memory that waited for another one had no time limit until its turn came, and
/// went on waiting when its client had gone.
#[test]
fn an_update_that_waits_for_another_one_ends_with_its_time_or_its_client() {
    let server = Running::start(&numbers(2000), open());
    // Without a row, so that it never reaches its memory limit.
    let pattern =
        crate::running::SILENT.replace("SELECT (COUNT(*) AS ?n)", "INSERT { <http://e/n> <http://e/n> ?a } WHERE");
    let send = |ask: &Ask| {
        let mut stream = connect(server.address);
        stream.write_all(&ask.bytes()).expect("it can be sent");
        stream
    };
    let endless = send(&Ask::update(&pattern));
    let until = |count: u64| while server.metric("vicus_requests_running") != count {};
    until(1);
    let late = server.ask(&Ask::update(ADD).parameter("timeout", "0.1"));
    assert_eq!(late.status, 408, "{}", late.text());
    let gone = send(&Ask::update(ADD));
    until(2);
    drop(gone);
    until(1);
    drop(endless);
    server.update(ADD);
    assert_eq!(server.number("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), 2001);
}

/// A query reads the data of when it began.
#[test]
fn a_query_that_runs_is_not_changed() {
    let server = Running::start(&numbers(2000), open());
    let text = "SELECT ?a ?b { ?a <http://e/p> ?n . ?b <http://e/p> ?m . FILTER(?m < 100) }";
    let answer = Ask::query(text).with("accept", "text/tab-separated-values").open(server.address);
    server.update("CLEAR ALL");
    assert_eq!(server.number("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), 0);
    let reply = answer.rest();
    assert_eq!((reply.is_whole, reply.text().lines().count()), (true, 1 + 2000 * 100));
}

/// Graphs as documents, beyond the W3C's suite.
#[test]
fn graphs_are_documents() {
    let server = Running::start("", open());
    let put = |target: &str, media_type: &str, body: &str| {
        server.ask(&Ask::new("PUT", target).with("content-type", media_type).body(body)).status
    };
    let graph = "/store?graph=http://e/g";
    assert_eq!(put(graph, "application/n-triples", "<http://e/s> <http://e/p> \"a\" ."), 201);
    assert_eq!(put(graph, "text/turtle", "<#s> <p> 1 ."), 204);
    let reply = server.ask(&Ask::get(graph).with("accept", "application/n-triples"));
    let one = "<http://e/g#s> <http://e/p> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n";
    assert_eq!((reply.status, reply.text().as_str()), (200, one), "relative to the graph");
    for syntax in ["application/n-quads", "application/trig"] {
        let all = server.ask(&Ask::get("/store").with("accept", syntax));
        assert!(all.is_whole && all.text().contains("http://e/"), "{syntax}: {}", all.text());
    }
    let head = server.ask(&Ask::new("HEAD", graph));
    assert_eq!((head.status, head.media_type(), head.body.len()), (200, "text/turtle", 0));
    assert_eq!(put("/store", "application/n-quads", "<http://e/s> <http://e/p> 1 ."), 400, "that is no N-Quads");
    assert_eq!(put("/store", "application/n-quads", "<http://e/s> <http://e/p> <http://e/o> <http://e/h> ."), 204);
    assert_eq!(server.ask(&Ask::get(graph)).status, 404, "all was replaced");
    assert_eq!(server.ask(&Ask::get("/store?graph=http://e/h")).status, 200);
    assert_eq!(server.ask(&Ask::new("DELETE", "/store?graph=http://e/h")).status, 204);
    assert_eq!(server.ask(&Ask::new("DELETE", "/store?graph=http://e/h")).status, 404);
    for wrong in ["/store?graph=http://e/g&default", "/store?graph=a&graph=b", "/store?graph=http://e/%3C"] {
        assert_eq!(server.ask(&Ask::get(wrong)).status, 400, "{wrong}");
    }
    assert_eq!(server.ask(&Ask::get("/store?graph=http://e/none")).status, 404);
}

/// What happened: an update asked for 640 bytes for each byte of its text, and for which there was no room at that
/// moment, got 503.
#[test]
fn an_update_that_has_no_room_waits_for_it() {
    let line = |number: usize| format!("<http://example.org/{number}> <http://example.org/p> {number} .\n");
    let text = format!("INSERT DATA {{\n{}}}", (0..4000).map(line).collect::<String>());
    let (enough, options) = (MemoryBudget::new(1 << 30), SessionOptions::default());
    let bytes = check_update(&text, &enough, &options).expect("an update").read_bytes();
    let service = service("las", bytes * 5 / 2);
    // A call with the memory of two.
    let empty = Dataset::new(Arc::new(Snapshot::of_ntriples(b"").unwrap()));
    let mut other = service.session(&empty, options.clone()).call().unwrap();
    let mut long = "SELECT * {} #".to_owned();
    while check(&long, &enough, &options).expect("a query").bytes() < bytes * 2 {
        long.push_str(&"x".repeat(64));
    }
    other.prepare(&long).unwrap();
    assert!(service.memory().taken() >= bytes * 2);

    let server = Running::of(service, memory(""), open());
    std::thread::scope(|scope| {
        let updates = [(); 3].map(|()| scope.spawn(|| server.update(&text)));
        while server.metric("vicus_requests_running") < 3 {}
        // Each has asked, and was not refused.
        std::thread::sleep(Duration::from_millis(100));
        assert!(updates.iter().all(|update| !update.is_finished()));
        drop(other);
        // The end of any request is told to waiting ones.
        while !updates.iter().all(|update| update.is_finished()) {
            assert_eq!(server.number("SELECT (COUNT(*) AS ?n) {}"), 1);
        }
    });
    assert_eq!(server.number("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), 4000);
}
