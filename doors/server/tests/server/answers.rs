//! The form of answers: formats, codings, versions, methods, and errors.

use crate::client::{Ask, Reply};
use crate::running::{Running, numbers, open, with_session};
use std::io::{Read, Write};
use vicus_server::{AccessRules, ServerOptions};
use vicus_service::{CallLimits, SessionOptions, TextLimits};

const SELECT: &str = "SELECT ?o { <http://e/s1> <http://e/p> ?o }";
const CONSTRUCT: &str = "CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }";

fn gunzip(bytes: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(bytes).read_to_string(&mut text).expect("it is gzip of UTF-8");
    text
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).expect("memory takes everything");
    encoder.finish().expect("memory takes everything")
}

fn unzstd(bytes: &[u8]) -> String {
    String::from_utf8(zstd::decode_all(bytes).expect("it is Zstandard")).expect("it is UTF-8")
}

/// The media types of RFC 9110, §12.5.1, as browsers, curl and SPARQL clients send them.
#[test]
fn the_format_is_what_the_client_wants_most() {
    let server = Running::start(&numbers(3), open());
    let cases = [
        (SELECT, None, "application/sparql-results+json"),
        (SELECT, Some("*/*"), "application/sparql-results+json"),
        (SELECT, Some("text/csv"), "text/csv"),
        (SELECT, Some("text/csv;q=0.1, application/sparql-results+xml;q=0.2"), "application/sparql-results+xml"),
        (SELECT, Some("application/sparql-results+json;q=0, */*;q=0.1"), "application/sparql-results+xml"),
        (SELECT, Some("text/tab-separated-values"), "text/tab-separated-values"),
        (
            SELECT,
            Some("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
            "application/sparql-results+xml",
        ),
        (SELECT, Some("application/vnd.vicus.plan+json"), "application/vnd.vicus.plan+json"),
        (SELECT, Some("text/vnd.vicus.plan"), "text/vnd.vicus.plan"),
        (CONSTRUCT, None, "text/turtle"),
        (CONSTRUCT, Some("application/n-triples"), "application/n-triples"),
        (CONSTRUCT, Some("application/rdf+xml, text/turtle;q=0.9"), "application/rdf+xml"),
        (CONSTRUCT, Some("application/ld+json"), "application/ld+json"),
    ];
    for (text, accept, media_type) in cases {
        let ask = Ask::query(text);
        let reply = server.ask(&accept.map_or(ask.clone(), |accept| ask.with("accept", accept)));
        assert_eq!((reply.status, reply.media_type()), (200, media_type), "{accept:?}: {}", reply.text());
    }
    for (text, accept) in
        [(SELECT, "text/turtle"), (CONSTRUCT, "text/csv"), (SELECT, "image/png"), (SELECT, "nonsense")]
    {
        let reply = server.ask(&Ask::query(text).with("accept", accept));
        assert_eq!(reply.status, 406, "{accept}: {}", reply.text());
    }
    for (name, media_type) in
        [("csv", "text/csv"), ("xml", "application/sparql-results+xml"), ("explain", "application/vnd.vicus.plan+json")]
    {
        for parameter in ["format", "output"] {
            let reply = server.ask(&Ask::query(SELECT).parameter(parameter, name).with("accept", "application/json"));
            assert_eq!((reply.status, reply.media_type()), (200, media_type), "{parameter}={name}");
        }
    }
    assert_eq!(server.ask(&Ask::query(SELECT).parameter("format", "pdf")).status, 406);
}

#[test]
fn the_rows_are_those_of_the_data() {
    let server = Running::start(&numbers(3), open());
    let text = |accept: &str| server.ask(&Ask::query(SELECT).with("accept", accept)).text();
    assert_eq!(text("text/csv"), "o\r\n1\r\n");
    assert_eq!(text("text/tab-separated-values"), "?o\n1\n");
    let json: serde_json::Value = serde_json::from_str(&text("application/json")).expect("it is JSON");
    assert_eq!(json["results"]["bindings"][0]["o"]["value"], "1");
    let all = server.ask(&Ask::query(CONSTRUCT).with("accept", "application/n-triples")).text();
    assert_eq!(all.lines().count(), 3);
}

/// Short answers are packed as a whole, long ones while they are sent.
#[test]
fn answers_and_bodies_are_packed_as_wanted() {
    let server = Running::start(&numbers(5000), open());
    let all = "SELECT ?s ?o { ?s <http://e/p> ?o } ORDER BY ?o";
    let pairs = "SELECT ?a ?b { ?a <http://e/p> ?o . ?b <http://e/p> ?n . FILTER(?n < 40) } ORDER BY ?o ?n";
    for text in [all, pairs] {
        let plain = server.ask(&Ask::query(text).with("accept", "text/csv"));
        assert_eq!((plain.header("content-encoding"), plain.is_whole), (None, true));
        let plain = plain.text();
        for (accept, coding) in
            [("gzip, deflate, br", "gzip"), ("zstd", "zstd"), ("gzip;q=0.5, zstd", "zstd"), ("*", "zstd")]
        {
            let packed = server.ask(&Ask::query(text).with("accept", "text/csv").with("accept-encoding", accept));
            assert!(packed.status == 200 && packed.is_whole, "{accept}");
            assert!(packed.header("vary").is_some_and(|vary| vary.contains("Accept-Encoding")));
            let unpacked = match packed.header("content-encoding") {
                Some("gzip") if coding == "gzip" => gunzip(&packed.body),
                Some("zstd") if coding == "zstd" => unzstd(&packed.body),
                // A query expected to be short that goes on is sent unpacked.
                None if text == all => packed.text(),
                other => panic!("{accept}: {other:?}"),
            };
            assert!(packed.body.len() < plain.len() || text == all, "{accept}");
            assert!(unpacked == plain, "{accept}: {} bytes and {}", unpacked.len(), plain.len());
        }
    }
    let query = |coding: &str, body: Vec<u8>| {
        let ask = Ask::post("/sparql", "application/sparql-query", body).with("content-encoding", coding);
        server.ask(&ask.with("accept", "text/csv"))
    };
    let zstd = |text: &[u8]| zstd::encode_all(text, 1).expect("memory takes everything");
    assert_eq!(query("gzip", gzip(SELECT.as_bytes())).text(), "o\r\n1\r\n");
    assert_eq!(query("zstd", zstd(SELECT.as_bytes())).text(), "o\r\n1\r\n");
    assert_eq!(query("br", SELECT.into()).status, 415);
    for wrong in [query("gzip", SELECT.into()), query("zstd", SELECT.into()), query("gzip", Vec::new())] {
        assert_eq!(wrong.status, 400, "{}", wrong.text());
    }
}

#[test]
fn an_answer_has_the_version_of_the_data() {
    let server = Running::start(&numbers(3), open());
    let ask = Ask::query(SELECT).with("accept", "text/csv");
    let first = server.ask(&ask);
    let tag = first.header("etag").expect("it has a tag").to_owned();
    assert_eq!(first.header("cache-control"), Some("no-cache"));
    let again = |tag: &str| server.ask(&ask.clone().with("if-none-match", tag));
    for tag in [&tag, tag.trim_start_matches("W/"), "*", &format!("\"x\", {tag}")] {
        let reply = again(tag);
        assert_eq!((reply.status, reply.body.len()), (304, 0), "{tag}");
        assert!(reply.header("etag").is_some());
    }
    assert_eq!(again("\"x\"").status, 200);
    let json = server.ask(&Ask::query(SELECT).with("if-none-match", &tag));
    assert_eq!(
        (json.status, json.media_type()),
        (200, "application/sparql-results+json"),
        "another format is another answer"
    );
    let head = server.ask(
        &Ask::new("HEAD", &format!("/sparql?query={}", crate::client::escaped(SELECT))).with("accept", "text/csv"),
    );
    assert_eq!((head.status, head.header("etag"), head.body.len()), (200, Some(&*tag), 0));
    server.update("INSERT DATA { <http://e/s1> <http://e/p> 99 }");
    let changed = again(&tag);
    assert_eq!((changed.status, changed.body.len() > first.body.len()), (200, true));
    assert_ne!(changed.header("etag"), Some(&*tag));
    // An answer that differs each time has no tag.
    let reply = server.ask(&Ask::query("SELECT (RAND() AS ?r) (NOW() AS ?n) {}"));
    assert_eq!((reply.header("etag"), reply.header("cache-control")), (None, Some("no-store")));
    // A tag is for this start of the server.
    let other = Running::start(&numbers(3), open());
    assert_eq!(other.ask(&ask.clone().with("if-none-match", &tag)).status, 200);
}

#[test]
fn a_short_answer_is_kept_until_the_data_changes() {
    let server = Running::start(&numbers(3), open());
    let hits = || server.metric("vicus_answer_cache_hits_total");
    let ask = Ask::query(SELECT).with("accept", "text/csv");
    let first = server.ask(&ask);
    for again in 1..4 {
        let reply = server.ask(&ask);
        assert_eq!((reply.status, &reply.body), (200, &first.body));
        for name in ["etag", "content-type", "cache-control", "vary", "server", "content-length"] {
            assert_eq!(reply.header(name), first.header(name), "{name}");
        }
        assert!(reply.header("vicus-request-id").is_some());
        assert_ne!(reply.header("vicus-request-id"), first.header("vicus-request-id"), "it is a request of its own");
        assert_eq!(hits(), again);
    }
    let known = server.ask(&ask.clone().with("if-none-match", first.header("etag").unwrap()));
    assert_eq!((known.status, known.body.len(), known.header("etag"), hits()), (304, 0, first.header("etag"), 4));
    assert_eq!(server.ask(&Ask::query(SELECT)).media_type(), "application/sparql-results+json", "in another format");
    let limited = || server.ask(&ask.clone().parameter("limit", "1"));
    for reply in [limited(), limited()] {
        assert_eq!((reply.header("vicus-rows-limited"), reply.text().lines().count()), (Some("1"), 2));
    }
    assert_eq!(hits(), 5);
    // A request named by its client can be looked at afterwards, so it runs.
    server.ask(&ask.clone().with("vicus-request-id", "mine"));
    // A query with another answer each time runs each time.
    let other = Ask::query("SELECT (UUID() AS ?u) {}");
    assert_ne!(server.ask(&other).body, server.ask(&other).body);
    assert_eq!(hits(), 5);
    server.update("INSERT DATA { <http://e/s1> <http://e/p> 99 }");
    let changed = server.ask(&ask);
    assert_ne!((&changed.body, changed.header("etag")), (&first.body, first.header("etag")));
    assert_eq!((hits(), server.metric("vicus_answer_cache_answers")), (5, 1));
}

/// Its rows come from the threads, while it is sent already.
#[test]
fn a_streamed_answer_is_kept_if_it_is_short_for_the_memory_and_whole() {
    let server = Running::start(&numbers(20_000), ServerOptions { answer_cache_bytes: 4 << 20, ..open() });
    // 0.7 and 0.4 MB; an eighth of the memory has room for one.
    let long = "SELECT * { ?s ?p ?o }";
    let medium = "SELECT ?s { ?s ?p ?o }";
    // Groups are made by all threads.
    let short = "SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o . ?s ?q ?u } GROUP BY ?p";
    for (text, hits) in [(long, 0), (medium, 1), (short, 2)] {
        let ask = Ask::query(text).with("accept", "text/csv");
        let (first, second) = (server.ask(&ask), server.ask(&ask));
        assert_eq!(
            (first.status, first.body.len(), first.text().lines().count()),
            (200, second.body.len(), second.text().lines().count())
        );
        assert_eq!(server.metric("vicus_answer_cache_hits_total"), hits, "{text}");
        assert_eq!(server.metric("vicus_answer_cache_answers"), hits, "{text}");
    }
}

#[test]
fn a_kept_answer_is_for_those_who_may_read() {
    let access = AccessRules { read: vec!["r".into()], ..AccessRules::default() };
    let server = Running::start(&numbers(3), ServerOptions { access, ..open() });
    let ask = Ask::query(SELECT);
    let with = |token: &str| server.ask(&ask.clone().with("authorization", &format!("Bearer {token}")));
    assert_eq!([with("r").status, with("r").status, server.ask(&ask).status, with("x").status], [200, 200, 401, 403]);
}

#[test]
fn without_memory_for_answers_each_request_runs() {
    let server = Running::start(&numbers(3), ServerOptions { answer_cache_bytes: 0, ..open() });
    let ask = Ask::query(SELECT);
    assert_eq!(server.ask(&ask).body, server.ask(&ask).body);
    assert_eq!(
        ["hits_total", "misses_total", "bytes"].map(|name| server.metric(&format!("vicus_answer_cache_{name}"))),
        [0; 3]
    );
}

#[test]
fn pages_of_other_origins_read_what_they_may() {
    let server = Running::start("", ServerOptions { cors: Some("https://page.example".into()), ..open() });
    let preflight = Ask::new("OPTIONS", "/sparql")
        .with("origin", "https://page.example")
        .with("access-control-request-method", "POST")
        .with("access-control-request-headers", "content-type");
    let reply = server.ask(&preflight);
    assert_eq!(reply.status, 204);
    assert_eq!(reply.header("access-control-allow-origin"), Some("https://page.example"));
    assert!(reply.header("access-control-allow-methods").is_some_and(|methods| methods.contains("POST")));
    assert!(reply.header("access-control-allow-headers").is_some_and(|headers| headers.contains("content-type")));
    let reply = server.ask(&Ask::query("ASK {}").with("origin", "https://page.example"));
    assert_eq!(reply.header("access-control-allow-origin"), Some("https://page.example"));
    // Errors, too, or the page would not know why.
    let reply = server.ask(&Ask::query("ASK").with("origin", "https://page.example"));
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (400, Some("https://page.example")));
    let closed = Running::start("", open());
    let reply = closed.ask(&preflight);
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (204, None));
}

#[test]
fn methods_that_there_are_not_are_named_by_those_that_there_are() {
    let server = Running::start("", open());
    for (method, path, allow) in [
        ("DELETE", "/sparql", "GET, HEAD, POST, OPTIONS"),
        ("PUT", "/query", "GET, HEAD, POST, OPTIONS"),
        ("GET", "/update?update=CLEAR%20ALL", "POST, OPTIONS"),
        ("PATCH", "/store?default", "GET, HEAD, PUT, POST, DELETE, OPTIONS"),
        ("BREW", "/sparql", "GET, HEAD, POST, OPTIONS"),
    ] {
        let reply = server.ask(&Ask::new(method, path));
        assert_eq!((reply.status, reply.header("allow")), (405, Some(allow)), "{method} {path}");
        assert_eq!(server.ask(&Ask::new("OPTIONS", path)).header("allow"), Some(allow), "{path}");
    }
    assert_eq!(server.ask(&Ask::get("/nothing/here")).status, 404);
    assert_eq!(server.ask(&Ask::get("/health")).text(), "ok\n");
}

#[test]
fn an_error_has_its_place() {
    let server = Running::start("", open());
    let text = "SELECT ?a\nWHERE { ?s ?p }";
    let reply = server.ask(&Ask::query(text));
    assert_eq!((reply.status, reply.media_type()), (400, "text/plain"));
    let lines: Vec<String> = reply.text().lines().map(str::to_owned).collect();
    assert!(lines[0].starts_with("line 2, column 15: "), "{lines:?}");
    assert_eq!(lines[1..], ["WHERE { ?s ?p }", "              ^"]);
    let reply = server.ask(&Ask::query(text).with("accept", "application/json"));
    assert_eq!((reply.status, reply.media_type()), (400, "application/json"));
    let json: serde_json::Value = serde_json::from_str(&reply.text()).expect("it is JSON");
    assert_eq!((&json["error"]["line"], &json["error"]["column"]), (&2.into(), &15.into()), "{json}");
    assert_eq!(json["error"]["kind"], "query");
    // Of an update alike, and of a graph's document.
    let reply = server.ask(&Ask::update("INSERT DATA { <http://e/s> }").with("accept", "application/json"));
    assert!(reply.status == 400 && reply.text().contains("\"column\":28"), "{reply:?}");
    let reply = server.ask(
        &Ask::new("PUT", "/store?graph=http://e/g")
            .with("content-type", "text/turtle")
            .body("<http://e/s> <http://e/p>\n1 2 ."),
    );
    assert!(reply.status == 400 && reply.text().starts_with("the document:2:3: "), "{}", reply.text());
    assert_eq!(server.ask(&Ask::get("/store?graph=http://e/g")).status, 404, "nothing of it is there");
}

#[test]
fn a_plan_is_shown_instead_of_the_answer() {
    let server = Running::start(&numbers(100), open());
    let text = "SELECT * { ?a <http://e/p> ?n . ?b <http://e/p> ?n }";
    let reply = server.ask(&Ask::query(text).with("accept", "application/vnd.vicus.plan+json"));
    let json: serde_json::Value = serde_json::from_str(&reply.text()).expect("it is JSON");
    let operators = json["operators"].as_array().expect("there are operators");
    assert!(operators.len() > 1 && operators.iter().all(|each| each["estimatedRows"].is_number()), "{json}");
    assert!(json["boxes"].as_array().is_some_and(|boxes| !boxes.is_empty()));
    assert_eq!((&json["state"], &json["text"]), (&"planned".into(), &text.into()));
    let reply = server.ask(&Ask::query(text).with("accept", "text/vnd.vicus.plan"));
    assert!(reply.text().contains("rows"), "{}", reply.text());
    assert_eq!(server.metric("vicus_rows_total"), 0);
}

#[test]
fn plans_of_sql_are_kept_until_the_data_changes() {
    let server = Running::start(&numbers(10), open());
    let ask = |text: &str| {
        let reply = server.ask(&Ask::get("/sql").parameter("query", text).with("accept", "text/csv"));
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.text().lines().nth(1).unwrap_or_default().to_owned()
    };
    let kept = || ["hits_total", "plans"].map(|name| server.metric(&format!("vicus_plan_cache_{name}")));
    let count = "SELECT COUNT(*) AS n FROM \"http://e/p\"";
    assert_eq!((ask(count), kept()), ("10".to_owned(), [0, 1]));
    assert_eq!((ask(count), kept()), ("10".to_owned(), [1, 1]));
    // Solutions were computed when it was planned.
    let number = "SELECT n FROM SPARQL('SELECT (STRUUID() AS ?n) {}') AS s";
    assert!(ask(number) != ask(number));
    assert_eq!(kept(), [1, 1]);
    server.update("INSERT DATA { <http://e/more> <http://e/p> 11 }");
    assert_eq!((ask(count), kept()), ("11".to_owned(), [1, 1]));
}

/// A store that had been merged, and was not asked for anything then, stayed in memory as it was before: 130 MiB after
/// updates of two million triples.
#[test]
fn plans_and_answers_of_replaced_data_go_without_a_query() {
    let server = Running::start(&numbers(1000), open());
    let count = Ask::query("SELECT (COUNT(*) AS ?n) { ?s <http://e/p> ?o }");
    (0..3).for_each(|_| assert_eq!(server.ask(&count).status, 200));
    let kept = || server.metric("vicus_plan_cache_plans") + server.metric("vicus_answer_cache_bytes");
    assert!(kept() > 1, "a plan, and an answer");
    server.update("INSERT DATA { <http://e/more> <http://e/p> 11 }");
    let began = std::time::Instant::now();
    while kept() > 0 {
        assert!(began.elapsed().as_secs() < 60, "{} are kept", kept());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// The answer of another server may change. Its name in a text alone says nothing.
#[test]
fn an_answer_of_another_server_has_no_tag() {
    let server = Running::start(&numbers(10), open());
    let tag = |text: &str| {
        let reply = server.ask(&Ask::query(text));
        assert_eq!(reply.status, 200, "{text}: {}", reply.text());
        reply.header("etag").map(str::to_owned)
    };
    let other = "SERVICE SILENT <http://127.0.0.1:9/> { ?s ?b ?c }";
    for text in [
        format!("SELECT * {{ {other} }}"),
        format!("SELECT * {{ {other} }} LIMIT 5"),
        format!("SELECT * {{ ?s ?p ?o OPTIONAL {{ {other} }} }}"),
        format!("SELECT * {{ ?s ?p ?o MINUS {{ {other} }} }}"),
        format!("SELECT * {{ {{ SELECT ?s {{ {{ {other} }} UNION {{ ?s ?p ?o }} }} }} }}"),
        format!("SELECT (COUNT(*) AS ?n) {{ {other} }}"),
        format!("ASK {{ {other} }}"),
        format!("CONSTRUCT {{ ?s ?p ?o }} WHERE {{ ?s ?p ?o {other} }}"),
        format!("DESCRIBE ?s {{ ?s ?p ?o {other} }}"),
    ] {
        assert_eq!(tag(&text), None, "{text}");
        let lower = text.replace("SERVICE SILENT", "service silent");
        assert_eq!(tag(&lower), None, "{lower}");
    }
    assert!(tag("SELECT * { ?s <http://e/service> ?o }").is_some());
}

#[test]
fn hints_limit_rows_and_time() {
    let server = Running::start(&numbers(100), open());
    let ask = Ask::query("SELECT ?s { ?s ?p ?o }").with("accept", "text/csv");
    let reply = server.ask(&ask.clone().parameter("limit", "7"));
    assert_eq!((reply.text().lines().count(), reply.header("vicus-rows-limited")), (8, Some("7")));
    assert_eq!(server.ask(&ask.clone().parameter("limit", "0")).text().lines().count(), 1);
    for wrong in ["-1", "x", "1.5", ""] {
        assert_eq!(server.ask(&ask.clone().parameter("limit", wrong)).status, 400, "{wrong}");
    }
    for time in ["30", "1.5", "500ms", "2s"] {
        assert_eq!(server.ask(&ask.clone().parameter("timeout", time)).status, 200, "{time}");
    }
    for wrong in ["0", "-1", "soon", "NaN", "inf", ""] {
        assert_eq!(server.ask(&ask.clone().parameter("timeout", wrong)).status, 400, "{wrong}");
    }
    let twice = ask.clone().parameter("limit", "1").parameter("limit", "2");
    assert_eq!(server.ask(&twice).status, 400);
}

#[test]
fn what_takes_too_long_or_too_much_is_refused() {
    let limits = CallLimits { rows: Some(10), memory: Some(64 << 20), ..CallLimits::default() };
    let text = TextLimits { bytes: 1000, ..TextLimits::default() };
    let mut options = with_session(SessionOptions { limits, text, ..SessionOptions::default() });
    options.clients.body_bytes = 2000;
    let server = Running::start(&numbers(2000), options);
    let reply = server.ask(&Ask::query(crate::running::SILENT).parameter("timeout", "0.1"));
    assert_eq!(reply.status, 408, "{}", reply.text());
    // A query with more rows than allowed fails before or in its answer.
    let reply = server.ask(&Ask::query("SELECT * { ?s ?p ?o } ORDER BY ?o"));
    assert!(reply.status == 413 || !reply.is_whole, "{}: {}", reply.status, reply.is_whole);
    let long = format!("ASK {{}} #{}", "x".repeat(1000));
    assert_eq!(server.ask(&Ask::query(&long)).status, 413);
    let ask = Ask::post("/sparql", "application/sparql-query", long.clone());
    assert_eq!(server.ask(&ask).status, 413);
    let put = |body: String| Ask::new("PUT", "/store?default").with("content-type", "text/turtle").body(body);
    assert_eq!(server.ask(&put(format!("#{}", "x".repeat(2000)))).status, 413);
    assert_eq!(server.ask(&put(format!("#{}", "x".repeat(1000)))).status, 204);
    let packed = gzip(format!("#{}", "x".repeat(100_000)).as_bytes());
    let reply = server.ask(&put(String::new()).body(packed).with("content-encoding", "gzip"));
    assert_eq!(reply.status, 413, "{}", reply.text());
}

#[test]
fn a_body_is_of_a_kind_that_is_known() {
    let server = Running::start("", open());
    for (path, media_type) in [
        ("/sparql", "text/plain"),
        ("/sparql", "application/json"),
        ("/sparql", "application/sparql-query; charset=latin1"),
        ("/update", "text/turtle"),
    ] {
        assert_eq!(server.ask(&Ask::post(path, media_type, "ASK {}")).status, 415, "{media_type}");
    }
    assert_eq!(server.ask(&Ask::post("/store?default", "text/html", "<p>")).status, 415);
    let good = "application/sparql-query; charset=\"UTF-8\"";
    assert_eq!(server.ask(&Ask::post("/sparql", good, "ASK {}")).status, 200);
}

/// The answer to an invalid query, in any way sent.
fn is_bad(reply: &Reply) {
    assert_eq!(reply.status, 400, "{}", reply.text());
}

#[test]
fn parameters_are_there_once() {
    let server = Running::start("", open());
    is_bad(&server.ask(&Ask::query("ASK {}").parameter("query", "ASK {}")));
    is_bad(&server.ask(&Ask::query("ASK {}").parameter("format", "csv").parameter("format", "json")));
    is_bad(&server.ask(&Ask::post("/sparql?query=ASK%20%7B%7D", "application/sparql-query", "ASK {}")));
    is_bad(&server.ask(&Ask::post(
        "/sparql?query=ASK%20%7B%7D",
        "application/x-www-form-urlencoded",
        "query=ASK+%7B%7D",
    )));
    is_bad(&server.ask(&Ask::post(
        "/sparql",
        "application/x-www-form-urlencoded",
        "query=ASK+%7B%7D&update=CLEAR+ALL",
    )));
    is_bad(&server.ask(&Ask::get("/sparql?update=CLEAR%20ALL")));
    is_bad(&server.ask(&Ask::get("/sparql?query=%FF")));
    is_bad(&server.ask(&Ask::query("ASK {}").parameter("default-graph-uri", "not an iri")));
    let many = "a=1&".repeat(5000);
    is_bad(&server.ask(&Ask::get(&format!("/sparql?{many}query=ASK%20%7B%7D"))));
}
