//! Clients that are hostile or broken: each gets a clear status or a closed connection, and the next one is served.

use crate::client::{Answer, Ask, Reply, connect, escaped};
use crate::running::{Running, folder, numbers, open, with_clients, with_session};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;
use vicus_server::ClientLimits;
use vicus_service::{CallLimits, SessionOptions, Web, WebOptions, create_store};

fn start() -> Running {
    let limits = CallLimits { time: Some(Duration::from_secs(20)), ..CallLimits::default() };
    let mut options = with_session(SessionOptions { limits, ..SessionOptions::default() });
    (options.clients.head_time, options.clients.body_time) = (Duration::from_millis(200), Duration::from_millis(500));
    Running::start(&numbers(50), options)
}

/// The response to these bytes: the first answer, or nothing if the connection was closed.
fn raw(server: &Running, bytes: &[u8]) -> Option<Reply> {
    let mut stream = connect(server.address);
    let _ = stream.write_all(bytes);
    Answer::of(stream, false).ok().map(Answer::rest)
}

/// It still answers, and does not reveal the places of its files.
fn is_well(server: &Running) {
    assert_eq!(server.number("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), 50);
}

fn tells_nothing(reply: &Reply) {
    let text = String::from_utf8_lossy(&reply.body);
    for secret in ["/root", "/work", "/home", "/usr", "src/", ".rs:", "panicked", "0x0", "/tmp"] {
        assert!(!text.contains(secret), "`{secret}`: {text}");
    }
}

#[test]
fn what_is_no_http_is_refused() {
    let server = start();
    let long = "x".repeat(100_000);
    let many: String = (0..5000).map(|number| format!("X-{number}: y\r\n")).collect();
    let cases: [(Vec<u8>, &[u16]); 22] = [
        (b"\r\n\r\n\r\n\r\n".to_vec(), &[400]),
        (b"nonsense\r\n\r\n".to_vec(), &[400]),
        (b"GET\r\n\r\n".to_vec(), &[400]),
        (b"GET /sparql HTTP/9.9\r\nHost: localhost\r\n\r\n".to_vec(), &[400, 505]),
        (b"GET /sparql HTTP/1.1\r\n\r\n".to_vec(), &[400]),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: b\r\n\r\n".to_vec(), &[400]),
        (b"GET /health HTTP/1.1\r\nHost: a b/../c\r\n\r\n".to_vec(), &[400]),
        (b"GET /health HTTP/1.1\r\nHost: \xff\r\n\r\n".to_vec(), &[400]),
        (b"GET /health HTTP/1.0\r\n\r\n".to_vec(), &[200]),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nbad header\r\n\r\n".to_vec(), &[400]),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n".to_vec(), &[400]),
        (b"GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), &[400]),
        (b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(), &[400, 404]),
        (format!("GET /sparql?query={long} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes(), &[414, 431, 400]),
        (format!("GET /health HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n").into_bytes(), &[431, 400]),
        (format!("GET /health HTTP/1.1\r\nHost: localhost\r\n{many}\r\n").into_bytes(), &[431, 400]),
        (b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n".to_vec(), &[400]),
        (
            b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nASK \
            {}"
            .to_vec(),
            &[400],
        ),
        (
            b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\nASK \
            {}"
            .to_vec(),
            &[400, 413],
        ),
        (
            b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Type: \
            application/sparql-query\r\n\r\nzz\r\n"
                .to_vec(),
            &[400],
        ),
        (b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: nonsense\r\n\r\n".to_vec(), &[400, 415, 501]),
        (b"CONNECT example.org:80 HTTP/1.1\r\nHost: example.org\r\n\r\n".to_vec(), &[400, 404, 405, 421, 501]),
    ];
    for (bytes, statuses) in cases {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        if let Some(reply) = raw(&server, &bytes) {
            assert!(
                statuses.contains(&reply.status),
                "{shown:?}: {} {}",
                reply.status,
                String::from_utf8_lossy(&reply.body)
            );
            tells_nothing(&reply);
        } else {
            assert!(!statuses.contains(&200), "{shown:?}: closed");
        }
        is_well(&server);
    }
}

/// Bytes of chance, and requests with a byte changed. Prints its seed.
#[test]
fn changed_bytes_never_stop_it() {
    let server = start();
    let seed =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(7, |since| since.as_nanos() as u64);
    println!("seed {seed}");
    let mut state = seed | 1;
    let mut chance = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % below
    };
    let originals = [
        Ask::query("SELECT ?s { ?s ?p ?o }")
            .with("accept", "text/csv, */*;q=0.1")
            .with("accept-encoding", "gzip")
            .bytes(),
        Ask::post("/sparql", "application/x-www-form-urlencoded", "query=ASK+%7B%7D&timeout=1&limit=3").bytes(),
        Ask::get("/store?graph=http://e/g").with("if-none-match", "W/\"a\"").bytes(),
        Ask::post(
            "/store?graph=http://e/g",
            "multipart/form-data; boundary=b",
            "--b\r\nContent-Type: text/html\r\n\r\n<p>\r\n--b--\r\n",
        )
        .bytes(),
    ];
    let rounds = if cfg!(debug_assertions) { 100 } else { 1000 };
    for _ in 0..rounds {
        let mut bytes = originals[chance(originals.len())].clone();
        for _ in 0..1 + chance(4) {
            let at = chance(bytes.len());
            match chance(3) {
                0 => bytes[at] = chance(256) as u8,
                1 => _ = bytes.remove(at),
                _ => bytes.insert(at, chance(256) as u8),
            }
        }
        let mut stream = connect(server.address);
        let _ = stream.write_all(&bytes);
        // Half of the clients have no more to say; this ends their requests as if they had gone.
        if chance(2) == 0 {
            let _ = stream.shutdown(Shutdown::Write);
        }
        if let Some(reply) = Answer::of(stream, false).ok().map(Answer::rest) {
            assert!(reply.status != 500, "{:?}: {reply:?}", String::from_utf8_lossy(&bytes));
            tells_nothing(&reply);
        }
    }
    is_well(&server);
}

#[test]
fn pipelined_requests_are_answered_in_order_until_one_is_none() {
    let server = start();
    let mut bytes = Vec::new();
    for number in 0..100 {
        bytes.extend(Ask::query(&format!("SELECT ({number} AS ?n) {{}}")).with("accept", "text/csv").bytes());
    }
    bytes.extend(b"garbage without an end \r\n\r\n");
    bytes.extend(Ask::query("ASK {}").bytes());
    let mut stream = connect(server.address);
    stream.write_all(&bytes).expect("it is sent");
    let mut all = String::new();
    let _ = stream.read_to_string(&mut all);
    let numbers: Vec<&str> = all.split("\r\n\r\nn\r\n").skip(1).filter_map(|rest| rest.split("\r\n").next()).collect();
    assert_eq!(numbers, (0..100).map(|number| number.to_string()).collect::<Vec<_>>());
    assert!(all.contains("HTTP/1.1 400") && !all.contains("boolean"), "nothing is answered behind garbage");
    is_well(&server);
}

/// What happened: a body that names `chunked` twice was read, and what stood behind it was answered as a request.
#[test]
fn a_body_in_chunks_of_chunks_ends_the_connection() {
    let server = start();
    let behind = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let twice = "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked";
    for (coding, expected) in
        [(twice, 400), ("Transfer-Encoding: chunked, chunked", 400), ("Transfer-Encoding: gzip, chunked", 400)]
    {
        let text = format!(
            "POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: \
                application/sparql-query\r\n{coding}\r\n\r\n6\r\nASK {{}}\r\n0\r\n\r\n{behind}"
        );
        let mut stream = connect(server.address);
        stream.write_all(text.as_bytes()).expect("it is sent");
        let mut all = String::new();
        let _ = stream.read_to_string(&mut all);
        assert!(all.starts_with(&format!("HTTP/1.1 {expected}")), "{coding}: {all}");
        assert_eq!(all.matches("HTTP/1.1 ").count(), 1, "{coding}: {all}");
    }
    is_well(&server);
}

/// A client may close its half when it has asked.
#[test]
fn half_closed_connections_end() {
    let server = start();
    for cut in [1, 10, 40] {
        let bytes = Ask::post("/sparql", "application/sparql-query", "ASK {}").bytes();
        let mut stream = connect(server.address);
        stream.write_all(&bytes[..bytes.len() - cut]).expect("it is sent");
        stream.shutdown(Shutdown::Write).expect("it can be");
        if let Ok(answer) = Answer::of(stream, false) {
            assert_eq!(answer.head.status, 400);
        }
    }
    let mut stream = connect(server.address);
    stream.shutdown(Shutdown::Write).expect("it can be");
    assert_eq!(stream.read_to_end(&mut Vec::new()).ok(), Some(0));
    is_well(&server);
}

#[test]
fn a_client_may_ask_before_it_sends() {
    let server = start();
    let ask = |length: u64| {
        format!(
            "POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\nContent-Length: \
                {length}\r\nExpect: 100-continue\r\n\r\n"
        )
    };
    let mut stream = connect(server.address);
    stream.write_all(ask(6).as_bytes()).expect("it is sent");
    let mut line = [0; 25];
    stream.read_exact(&mut line).expect("it answers");
    assert_eq!(&line, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"ASK {}").expect("it is sent");
    assert_eq!(Answer::of(&mut stream, false).expect("it answers").head.status, 200);
    // Too long a body is refused before it is sent.
    let mut stream = connect(server.address);
    stream.write_all(ask(1 << 40).as_bytes()).expect("it is sent");
    let mut line = [0; 12];
    stream.read_exact(&mut line).expect("it answers");
    assert_eq!(&line, b"HTTP/1.1 413");
}

#[test]
fn a_body_where_none_belongs_is_no_matter() {
    let server = start();
    let reply = server.ask(&Ask::query("ASK {}").body("DROP ALL"));
    assert_eq!(reply.status, 200);
    let mut stream = connect(server.address);
    for _ in 0..3 {
        assert_eq!(Ask::query("ASK {}").body("x".repeat(10_000)).over(&mut stream).expect("it answers").status, 200);
    }
    is_well(&server);
}

#[test]
fn paths_lead_nowhere_but_to_graphs() {
    let folder = folder("paths").join("store");
    drop(create_store(&folder).expect("it can be made"));
    let server = Running::store(&folder, open());
    for path in [
        "/store/../../etc/passwd",
        "/store/%2e%2e/%2e%2e/etc/passwd",
        "/store/..%2f..%2fetc%2fpasswd",
        "/store/%00",
        "/store/%FF%FE",
        "/store/\u{e9}",
        "/store//etc/passwd",
        "/../../etc/passwd",
        "/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/page/../../Cargo.toml",
        "/assets/../../../etc/passwd",
        "/store?graph=file:///etc/passwd",
        "/store?graph=../../etc/passwd",
        "/store?graph=%00",
        "/store?graph=",
    ] {
        for method in ["GET", "HEAD", "DELETE"] {
            let reply = server.ask(&Ask::new(method, path));
            assert!((400..500).contains(&reply.status), "{method} {path}: {}", reply.status);
            let text = String::from_utf8_lossy(&reply.body);
            assert!(!text.contains("root:") && !text.contains(folder.to_str().expect("UTF-8")), "{path}: {text}");
        }
    }
    for load in [
        "file:///etc/passwd",
        "file:///etc/../etc/passwd",
        "file://localhost/etc/hostname",
        "/etc/passwd",
        "http://127.0.0.1:1/",
        "ftp://e/",
    ] {
        let reply = server.ask(&Ask::update(&format!("LOAD <{load}>")));
        assert_eq!(reply.status, 400, "{load}: {}", reply.text());
        assert!(!reply.text().contains("root:"), "{load}: {}", reply.text());
    }
    assert_eq!(server.number("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), 0);
}

/// Nothing is asked unless it is permitted; and a circle ends by the limits of each of its requests.
#[test]
fn other_servers_are_asked_as_permitted() {
    let server = start();
    let service = |endpoint: &str, inner: &str| format!("SELECT * {{ SERVICE <{endpoint}> {{ {inner} }} }}");
    for endpoint in [
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/",
        "http://localhost:1/",
        "file:///etc/passwd",
    ] {
        let reply = server.ask(&Ask::query(&service(endpoint, "?s ?p ?o")));
        assert_eq!(reply.status, 400, "{endpoint}: {}", reply.text());
        assert!(
            !reply.is_whole || reply.text().contains("permitted") || endpoint.starts_with("file"),
            "{}",
            reply.text()
        );
    }
    // Its own port is unknown before it listens, so all are permitted.
    let web = WebOptions {
        permits: vec!["all".parse().expect("a permit")],
        time: Duration::from_secs(5),
        ..WebOptions::default()
    };
    let limits = CallLimits { time: Some(Duration::from_secs(2)), ..CallLimits::default() };
    let session = SessionOptions { web: Arc::new(Web::new(web)), limits, ..SessionOptions::default() };
    let mut options = with_session(session);
    options.clients = ClientLimits { requests: 16, ..ClientLimits::default() };
    let server = Running::start(&numbers(50), options);
    let own = format!("http://{}/sparql", server.address);
    let mut text = "?s <http://e/p> ?o".to_owned();
    for _ in 0..40 {
        text = format!("SERVICE <{own}> {{ {text} }}");
    }
    let reply = server.ask(&Ask::query(&format!("SELECT * {{ {text} }}")));
    assert!(reply.status >= 400 || !reply.is_whole, "more than an address may run at once: {}", reply.status);
    server.wait_for("vicus_requests_running", |running| running == 0);
    let reply = server.ask(&Ask::query(&service(&own, "?s <http://e/p> 7")).with("accept", "text/csv"));
    assert_eq!((reply.status, reply.text().lines().count()), (200, 2), "{}", reply.text());
    is_well(&server);
}

#[test]
fn large_and_deep_texts_are_refused_or_answered() {
    let server = start();
    let query = |text: String| {
        let reply = server.ask(&Ask::post("/sparql", "application/sparql-query", text).with("accept", "text/csv"));
        tells_nothing(&reply);
        reply
    };
    let size = if cfg!(debug_assertions) { 1 << 20 } else { 10 << 20 };
    let many = size / 20;
    let union = vec!["{ ?s ?p ?o }"; many / 10].join(" UNION ");
    for (name, text) in [
        ("comment", format!("ASK {{}} #{}", "x".repeat(size))),
        ("literal", format!("ASK {{ ?s ?p \"{}\" }}", "x".repeat(size))),
        ("values", format!("SELECT (COUNT(*) AS ?n) {{ VALUES ?v {{ {} }} }}", "1 ".repeat(many))),
        ("in", format!("SELECT (COUNT(*) AS ?n) {{ ?s ?p ?o FILTER(?o IN ({}1)) }}", "1, ".repeat(many))),
        ("union", format!("SELECT (COUNT(*) AS ?n) {{ {union} }}")),
        ("brackets", format!("ASK {{ FILTER({}1{}) }}", "(".repeat(many), ")".repeat(many))),
        ("groups", format!("ASK {}{}", "{".repeat(many), "}".repeat(many))),
        ("open", format!("ASK {}", "{".repeat(many))),
        ("optional", format!("ASK {{ {} {} }}", "OPTIONAL { ?s ?p ?o ".repeat(many / 10), "}".repeat(many / 10))),
        ("path", format!("ASK {{ ?s {}<http://e/p>{} ?o }}", "(".repeat(many), ")*".repeat(many))),
        ("not", format!("ASK {{ FILTER({}true) }}", "!".repeat(many))),
        ("prefixes", format!("{}ASK {{}}", "PREFIX a: <http://e/> ".repeat(many / 10))),
    ] {
        let reply = query(text);
        assert!([200, 400, 408, 413, 503].contains(&reply.status), "{name}: {}", reply.status);
        println!("{name}: {}", reply.status);
    }
    is_well(&server);
}

/// Regular expressions that take other engines exponential time.
#[test]
fn patterns_take_no_time_that_is_not_theirs() {
    let server = start();
    let text = "a".repeat(5000);
    for pattern in
        ["(a+)+$", "(a|aa)+$", "(.*)*x", "(a?){5000}a{5000}", "((((a{100}){100}){100}){100})", "(a)\\\\1+$", "[a-"]
    {
        let query = format!("SELECT (REGEX(\"{text}!\", \"{pattern}\") AS ?m) {{}}");
        let ask = Ask::post("/sparql", "application/sparql-query", query).with("accept", "text/csv");
        let reply = server.ask(&ask.parameter("timeout", "5"));
        assert!([200, 400, 408, 413].contains(&reply.status), "{pattern}: {}", reply.text());
        tells_nothing(&reply);
    }
    let replace = format!("SELECT (STRLEN(REPLACE(\"{text}\", \"\", \"{text}\")) AS ?n) {{}}");
    let reply = server.ask(&Ask::post("/sparql", "application/sparql-query", replace));
    assert!([200, 400, 408, 413].contains(&reply.status));
    is_well(&server);
}

/// Connections beyond the bound wait, and are served when others close.
#[test]
fn connections_are_bounded() {
    let server = Running::start(&numbers(50), with_clients(ClientLimits { connections: 4, ..ClientLimits::default() }));
    let held: Vec<_> = (0..4).map(|_| connect(server.address)).collect();
    std::thread::sleep(Duration::from_millis(50));
    let mut waiting = connect(server.address);
    waiting.write_all(&Ask::query("ASK {}").bytes()).expect("the system takes it");
    waiting.set_read_timeout(Some(Duration::from_millis(100))).expect("it can be limited");
    assert!(waiting.read(&mut [0; 1]).is_err(), "it waits");
    drop(held);
    waiting.set_read_timeout(Some(Duration::from_secs(60))).expect("it can be limited");
    assert_eq!(Answer::of(waiting, false).expect("it answers").head.status, 200);
    is_well(&server);
}

/// Names and values with all sorts of characters, in places where names belong.
#[test]
fn odd_characters_are_values_like_others() {
    let server = start();
    for odd in ["\u{0}", "\u{202e}", "\"'<>&", "${jndi:ldap://e}", "%s%n", "\r\nX: y", "\u{fffd}", &"é".repeat(1000)] {
        for name in ["format", "timeout", "limit", "default-graph-uri", odd] {
            let reply =
                server.ask(&Ask::get(&format!("/sparql?query=ASK%20%7B%7D&{}={}", escaped(name), escaped(odd))));
            assert!([200, 400, 406].contains(&reply.status), "{name}={odd:?}: {}", reply.status);
            assert!(reply.headers.iter().all(|(name, _)| name != "x"), "{odd:?} ends no header");
            tells_nothing(&reply);
        }
    }
    is_well(&server);
}
