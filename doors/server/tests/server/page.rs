//! The page's own queries: what the data has, what a token permits, and suggestions for both languages.

use crate::client::Ask;
use crate::gates::with_tokens;
use crate::running::{Running, memory, open, service, with_clients};
use serde_json::{Value, json};
use vicus_server::ClientLimits;

/// Two persons, and a document by one of them with a year.
const DATA: &str = "@prefix e: <http://e/> .
    e:ann a e:Person ; e:name 'Ann' . e:bob a e:Person ; e:name 'Bob' .
    e:doc a e:Document ; e:creator e:ann ; e:issued 1971 .";

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).expect("an answer is JSON")
}

#[test]
fn the_contents_are_counted() {
    let server = Running::start(DATA, open());
    let told = json_of(&server.ask(&Ask::get("/api/contents")).text());
    let of = |name: &str| told[name].as_array().expect("a list").clone();
    assert_eq!(
        of("classes"),
        [json!({ "iri": "http://e/Person", "count": 2 }), json!({ "iri": "http://e/Document", "count": 1 })]
    );
    let predicates = of("predicates");
    assert!(predicates.contains(&json!({ "iri": "http://e/name", "count": 2 })), "{predicates:?}");
    assert_eq!((predicates.len(), told["quads"].as_u64(), of("graphs").len()), (4, Some(7), 0));
}

#[test]
fn a_token_tells_what_it_permits() {
    let server = Running::start(DATA, with_tokens());
    let rights = |token: Option<&str>| {
        let ask = Ask::get("/api/info");
        let ask = token.map_or(ask.clone(), |token| ask.with("authorization", &format!("Bearer {token}")));
        json_of(&server.ask(&ask).text())["rights"].clone()
    };
    assert_eq!(rights(None), json!({ "read": false, "write": false, "known": false }));
    assert_eq!(rights(Some("r")), json!({ "read": true, "write": false, "known": true }));
    assert_eq!(rights(Some("w")), json!({ "read": true, "write": true, "known": true }));
    assert_eq!(rights(Some("x")), json!({ "read": false, "write": false, "known": false }));
    assert_eq!(server.ask(&Ask::get("/api/contents")).status, 401);
}

#[test]
fn both_languages_are_completed() {
    let server = Running::start(DATA, open());
    let labels = |text: &str, language: &str| {
        let body = json!({ "text": text, "cursor": text.len(), "language": language }).to_string();
        let told = json_of(&server.ask(&Ask::post("/api/complete", "application/json", body)).text());
        let items = told["items"].as_array().expect("a list").clone();
        items.iter().map(|item| item["label"].as_str().expect("a text").to_owned()).collect::<Vec<_>>()
    };
    let of_creators = labels("PREFIX e: <http://e/> SELECT * { ?d e:creator ?p . ?p ", "sparql");
    assert!(of_creators.contains(&"e:name".to_owned()), "{of_creators:?}");
    assert!(!of_creators.contains(&"e:issued".to_owned()), "{of_creators:?}");
    assert_eq!(labels("PREFIX e: <http://e/> SELECT * { ?d e:issued ", "sparql")[0], "1971");
    // A predicate is a table of SQL, with the columns `subject` and `object`.
    assert_eq!(labels("SELECT * FROM \"http://e/na", "sql"), ["\"http://e/name\""]);
    assert_eq!(labels("SELECT * FROM \"http://e/name\" AS n WHERE n.", "sql"), ["subject", "object"]);
}

#[test]
fn a_recorded_query_is_a_file_that_shows_its_run() {
    let server = Running::start(DATA, open());
    let ask = Ask::query("SELECT * { ?d <http://e/creator> ?p . ?p <http://e/name> ?name }");
    let named = |name: &str| ask.clone().with("vicus-request-id", name);
    assert_eq!(server.ask(&named("shown").with("vicus-trace", "1")).status, 200);
    assert_eq!(server.ask(&named("plain")).status, 200);
    server.wait_for("vicus_requests_running", |running| running == 0);
    let reply = server.ask(&Ask::get("/api/requests/shown/view"));
    assert_eq!((reply.status, reply.media_type()), (200, "text/html"));
    let page = reply.text();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<h1>shown</h1>"), "{}", &page[..200]);
    assert!(page.contains(">index join</th>") || page.contains(">scan</th>"), "the tables have its boxes");
    // In the server's origin, it has an origin of its own.
    assert_eq!(reply.header("content-security-policy"), Some("sandbox allow-scripts allow-downloads"));
    assert_eq!(server.ask(&Ask::get("/api/requests/plain/view")).status, 404);
    let file = server.ask(&Ask::get("/api/requests/shown/trace")).body;
    let trace = vicus::trace::Trace::read_from(&mut &file[..]).expect("a trace file");
    assert!(trace.summary().boxes.iter().any(|row| row.invocations > 0), "the query's boxes have run");
    // A recording that the client has is shown by the same viewer, as far as it goes.
    let shown = |file: &[u8]| server.ask(&Ask::post("/api/view?name=mine%3C", "application/octet-stream", file));
    let (whole, cut, wrong) = (shown(&file), shown(&file[..file.len() - 9]), shown(b"no trace"));
    assert!(whole.text().contains("<h1>mine&lt;</h1>") && !whole.text().contains("truncated"));
    assert!(cut.text().contains("a truncated trace: it ends at byte"));
    assert_eq!(whole.header("content-security-policy"), Some("sandbox allow-scripts allow-downloads"));
    assert!(wrong.status == 400 && wrong.text().contains("neither a trace nor a page"), "{}", wrong.text());
    assert_eq!(shown(page.as_bytes()).status, 200);
    assert_eq!(server.ask(&Ask::get("/api/requests/none/view")).status, 404);
}

/// What happened: a recording of more than 64 MiB was refused, whatever memory there was.
#[test]
fn a_large_recording_is_shown_if_there_is_memory_for_its_page() {
    let runtime = vicus::Runtime::builder().threads(1).record(4 << 20).quiet().start();
    runtime.run(|| vicus::tasks::scope(|scope| (0..700_000).for_each(|_| scope.spawn(|_| ()))));
    let mut file = Vec::new();
    runtime.trace().expect("it records").write_to(&mut file).expect("a vector takes all");
    assert!(file.len() > 64 << 20, "{} bytes", file.len());
    let ask = Ask::post("/api/view?name=large", "application/octet-stream", &file[..]);
    let page = Running::start(DATA, open()).ask(&ask);
    assert_eq!((page.status, page.text().contains("<h1>large</h1>")), (200, true));
    // Within the limit of bodies, but not with its page.
    let clients = ClientLimits { body_bytes: file.len() as u64 + 1, ..ClientLimits::default() };
    let server = Running::of(service("las", 2 << 20), memory(""), with_clients(clients));
    let refused = server.ask(&ask);
    assert_eq!(refused.status, 413, "{}", refused.text());
    assert!(refused.text().contains("bytes of memory, which no body may"), "{}", refused.text());
}
