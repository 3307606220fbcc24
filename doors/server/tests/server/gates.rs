//! Gates: requests without the right are refused before anything of theirs is read, and pages of other sites change
//! nothing.

use crate::client::{Answer, Ask, Reply, connect, escaped};
use crate::running::{ENDLESS, Running, SILENT, memory, numbers, open, service, with_clients};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use vicus_server::{AccessRules, ClientLimits, ServerOptions};

pub(crate) fn with_tokens() -> ServerOptions {
    let access = AccessRules { write: vec!["w".into()], read: vec!["r".into()], ..AccessRules::default() };
    ServerOptions { access, ..open() }
}

/// The answer to the head of a request sent without the rest.
fn to_head(server: &Running, head: &str) -> Reply {
    let mut stream = connect(server.address);
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("it can be limited");
    stream.write_all(head.as_bytes()).expect("it is sent");
    Answer::of(stream, false).unwrap_or_else(|error| panic!("{error}: {head}")).rest()
}

/// What happened: bodies were read to their end before their token was looked at.
#[test]
fn what_may_not_be_is_refused_before_its_body_comes() {
    let server = Running::start("", with_tokens());
    let (update, query, form) =
        ("application/sparql-update", "application/sparql-query", "application/x-www-form-urlencoded");
    for (method, path, media_type, token, length, status) in [
        ("POST", "/update", update, "", "60000000", 401),
        ("POST", "/update", update, "r", "60000000", 403),
        ("POST", "/update", form, "r", "60000000", 403),
        ("POST", "/sparql", update, "", "60000000", 401),
        ("POST", "/sparql", update, "x", "60000000", 403),
        ("POST", "/sparql", query, "", "60000000", 401),
        ("POST", "/sparql", form, "", "60000000", 401),
        ("POST", "/query", form, "x", "60000000", 403),
        ("POST", "/sql", "application/sql", "", "60000000", 401),
        ("POST", "/api/check", "application/json", "", "1000", 401),
        ("POST", "/api/complete", "application/json", "x", "1000", 403),
        ("PUT", "/store?default", "text/turtle", "r", "60000000", 403),
        ("POST", "/store", "text/turtle", "", "60000000", 401),
        // Known, and of no use.
        ("POST", "/sparql", "image/png", "w", "60000000", 415),
        ("POST", "/sql", "image/png", "w", "60000000", 415),
        ("POST", "/update", "text/plain", "w", "60000000", 415),
        ("PUT", "/store?default", "image/png", "w", "60000000", 415),
        ("PUT", "/update", update, "w", "60000000", 405),
        ("POST", "/nowhere", update, "w", "60000000", 404),
        ("POST", "/update", update, "w", "99999999999999", 413),
        ("PUT", "/store?default", "text/turtle", "w", "99999999999999", 413),
        ("PUT", "/store", "text/turtle", "w", "60000000", 400),
    ] {
        let token = if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media_type}\r\n{token}Content-Length: \
                {length}\r\n\r\n"
        );
        let reply = to_head(&server, &head);
        assert_eq!(reply.status, status, "{head}{}", reply.text());
    }
    let allowed = Ask::update("INSERT DATA { <http://e/a> <http://e/b> 1 }").with("authorization", "Bearer w");
    assert_eq!(server.ask(&allowed).status, 204);
    let query = Ask::post("/sparql", form, "query=ASK%20%7B%7D");
    assert_eq!(server.ask(&query.with("authorization", "Bearer r")).status, 200);
}

/// Sends most of a body at once, and then a byte now and then.
fn dripping(address: SocketAddr, path: &str, media_type: &str, at_once: usize) -> TcpStream {
    let mut stream = connect(address);
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media_type}\r\nContent-Length: 60000000\r\n\r\n"
    );
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(&vec![b'\n'; at_once]);
    stream
}

/// What happened: megabytes that came at once were a credit of hours for what came behind them.
#[test]
fn a_body_that_began_fast_is_given_up_when_it_drips() {
    let clients = ClientLimits { body_time: Duration::from_millis(400), ..ClientLimits::default() };
    let server = Running::start("", with_clients(clients));
    for (path, media_type) in [("/sparql", "application/sparql-query"), ("/store?default", "text/turtle")] {
        let mut stream = dripping(server.address, path, media_type, 2_000_000);
        stream.set_read_timeout(Some(Duration::from_millis(50))).expect("it can be limited");
        let (began, mut answer) = (Instant::now(), [0; 12]);
        loop {
            let _ = stream.write_all(b"\n");
            match stream.read(&mut answer) {
                Ok(0) => break,
                Ok(_) => break assert_eq!(&answer, b"HTTP/1.1 408", "{path}"),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
            assert!(began.elapsed() < Duration::from_secs(10), "{path}: it is given up");
        }
    }
}

/// A connection from another address of this machine.
fn connect_from(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((from, 0)).into()).expect("all of 127.0.0.0/8 is this machine's");
    socket.connect(&to.into()).expect("the server listens");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it can be limited");
    stream
}

/// What happened: seventeen connections of one client held all memory for bodies, and other clients' bodies were
/// refused.
#[test]
fn a_client_leaves_room_for_bodies_of_others() {
    let clients = ClientLimits { body_bytes: 4 << 20, ..ClientLimits::default() };
    let server = Running::of(service("las", 32 << 20), memory(""), with_clients(clients));
    // 17 times 3 MiB, of 16 MiB for all.
    let held: Vec<_> = (0..17)
        .map(|_| {
            let mut stream = connect(server.address);
            let head = "PUT /store?default HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/turtle\r\nContent-Length: \
                4000000\r\n\r\n";
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(&vec![b'\n'; 3 << 20]);
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    let whole = Ask::new("PUT", "/store?default").with("content-type", "text/turtle").body(vec![b'\n'; 3 << 20]);
    let mut other = connect_from([127, 0, 0, 2], server.address);
    assert_eq!(whole.over(&mut other).expect("it answers").status, 204);
    drop(held);
    let began = Instant::now();
    while server.ask(&whole).status != 204 {
        assert!(began.elapsed() < Duration::from_secs(10), "what was held is given back");
    }
}

/// What happened: a form on any page could update a server with --open-updates.
#[test]
fn pages_of_other_origins_change_nothing() {
    let name = "application/x-www-form-urlencoded";
    let form =
        || Ask::post("/update", name, format!("update={}", escaped("INSERT DATA { <http://e/a> <http://e/b> 1 }")));
    let server = Running::start("", open());
    let own = format!("http://{}", server.address);
    let with_host = |ask: Ask| ask.with("host", &server.address.to_string());
    for (headers, status) in [
        (vec![("origin", "https://evil.example")], 403),
        (vec![("origin", "null")], 403),
        (vec![("origin", "http://localhost:1")], 403),
        (vec![("sec-fetch-site", "cross-site")], 403),
        (vec![("sec-fetch-site", "same-site")], 403),
        (vec![("origin", &*own), ("sec-fetch-site", "cross-site")], 403),
        (vec![("origin", &*own), ("sec-fetch-site", "same-origin")], 204),
        (vec![("sec-fetch-site", "none")], 204),
        (vec![], 204),
    ] {
        let asks = [
            (form(), status),
            (Ask::update("INSERT DATA { <http://e/a> <http://e/b> 1 }"), status),
            (Ask::post("/sparql", "application/sparql-update", "INSERT DATA { <http://e/a> <http://e/b> 1 }"), status),
            (Ask::new("PUT", "/store?default").with("content-type", "text/turtle").body("# nothing"), status),
            (Ask::post("/store?default", "text/turtle", "# nothing"), status),
            (Ask::new("DELETE", "/store?default"), status),
        ];
        for (ask, status) in asks {
            let ask = headers.iter().fold(with_host(ask), |ask, (name, value)| ask.with(name, value));
            let reply = server.ask(&ask);
            assert_eq!(reply.status, status, "{headers:?}: {}", reply.text());
            assert!(status != 403 || reply.text().contains("--allow-origin"), "{}", reply.text());
        }
    }
    // They do not stop a running request either.
    let server = Running::start(&numbers(2000), open());
    let mut running = connect(server.address);
    running.write_all(&Ask::query(ENDLESS).with("vicus-request-id", "mine").bytes()).expect("it is sent");
    let stop = || Ask::new("DELETE", "/api/requests/mine");
    server.wait_for("vicus_requests_running", |running| running == 1);
    assert_eq!(server.ask(&stop().with("origin", "https://evil.example")).status, 403);
    assert_eq!(server.ask(&stop()).status, 204);
    drop(running);
    // Permitted pages may.
    let options = ServerOptions { allow_origins: vec!["https://Good.example:443".into()], ..open() };
    let server = Running::start("", options);
    assert_eq!(server.ask(&form().with("origin", "https://good.example")).status, 204);
    assert_eq!(server.ask(&form().with("origin", "https://evil.example")).status, 403);
    // With `*`, pages with a token.
    let options = ServerOptions { cors: Some("*".into()), ..with_tokens() };
    let server = Running::start("", options);
    let known = form().with("origin", "https://page.example").with("authorization", "Bearer w");
    assert_eq!(server.ask(&known).status, 204);
    let server = Running::start("", ServerOptions { cors: Some("*".into()), ..open() });
    assert_eq!(server.ask(&form().with("origin", "https://page.example")).status, 403);
}

/// What happened: a page whose name was led to 127.0.0.1 after it was loaded read a server there.
#[test]
fn only_own_names_are_answered_on_this_machines_address() {
    let server = Running::start("", ServerOptions { allow_hosts: vec!["Proxy.example".into()], ..open() });
    for (host, status) in [
        ("localhost", 200),
        ("LOCALHOST:7878", 200),
        ("localhost.", 200),
        ("127.0.0.1:7878", 200),
        ("127.1.2.3", 200),
        ("[::1]:7878", 200),
        ("proxy.example:80", 200),
        ("evil.example", 421),
        ("evil.example:7878", 421),
        ("localhost.evil.example", 421),
        ("192.168.0.1", 421),
        ("[2001:db8::1]", 421),
    ] {
        // Twice: the kept first answer is no answer to others.
        for path in ["/sparql?query=ASK%20%7B%7D", "/sparql?query=ASK%20%7B%7D", "/api/info", "/health", "/"] {
            let reply = server.ask(&Ask::get(path).with("host", host));
            assert_eq!(reply.status, status, "{host}: {path}");
            assert!(status == 200 || reply.text().contains("--allow-host"), "{}", reply.text());
        }
    }
    let mut stream = connect(server.address);
    stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").expect("it is sent");
    assert_eq!(Answer::of(stream, false).expect("it answers").head.status, 200);
}

/// What happened: `/api/info` told anybody the columns of tables, and `/api/requests` the texts of updates.
#[test]
fn what_shows_data_needs_a_token() {
    let mut options = with_tokens();
    options.name = "secret-name".into();
    let server = Running::start(&numbers(4321), options);
    let info = server.ask(&Ask::get("/api/info"));
    assert_eq!(info.status, 200);
    for secret in ["secret-name", "4321", "\"cores\""] {
        assert!(!info.text().contains(secret), "{}", info.text());
    }
    assert!(info.text().contains("\"query\":\"token\""));
    let info = server.ask(&Ask::get("/api/info").with("authorization", "Bearer r"));
    assert!(info.text().contains("secret-name") && info.text().contains("4321"), "{}", info.text());
    for path in ["/api/requests", "/api/load", "/metrics", "/store?default", "/sparql", "/api/requests/x/plan"] {
        assert_eq!(server.ask(&Ask::get(path)).status, 401, "{path}");
    }
}

#[test]
fn who_reads_sees_no_update_and_ends_no_request_of_others() {
    let access = AccessRules {
        write: vec!["w".into(), "w2".into()],
        read: vec!["r".into(), "r2".into()],
        ..AccessRules::default()
    };
    let server = Running::start(&numbers(2000), ServerOptions { access, ..open() });
    let begin = |ask: Ask, name: &str, token: &str| {
        let ask = ask.with("vicus-request-id", name).with("authorization", &format!("Bearer {token}"));
        let mut stream = connect(server.address);
        stream.write_all(&ask.bytes()).expect("it is sent");
        stream
    };
    let update =
        "INSERT { ?a <http://e/secret> ?i } WHERE { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . FILTER(?c + ?f * ?i = -1) }";
    let (_query, _update) = (begin(Ask::query(SILENT), "q", "r"), begin(Ask::update(update), "u", "w"));
    let list =
        |token: &str| server.ask(&Ask::get("/api/requests").with("authorization", &format!("Bearer {token}"))).text();
    let began = Instant::now();
    while !(list("w").contains("\"id\":\"q\"") && list("w").contains("\"id\":\"u\"")) {
        assert!(began.elapsed() < Duration::from_secs(20), "both begin");
    }
    assert!(list("w2").contains("secret") && !list("r").contains("secret") && list("r").contains("COUNT"));
    let stop = |name: &str, token: &str| {
        let ask = Ask::new("DELETE", &format!("/api/requests/{name}"));
        let ask = if token.is_empty() { ask } else { ask.with("authorization", &format!("Bearer {token}")) };
        server.ask(&ask).status
    };
    assert_eq!([stop("u", "r"), stop("q", "r2"), stop("q", "")], [403, 403, 401]);
    assert_eq!([stop("q", "r"), stop("u", "w2")], [204, 204]);
}

/// What happened: clients behind one proxy, which have one address, ended each other's requests.
#[test]
fn a_request_without_a_token_is_ended_by_its_secret() {
    let server =
        Running::start(&numbers(2000), ServerOptions { grace: Duration::from_millis(200), ..ServerOptions::default() });
    let stop = |name: &str, secret: &str| {
        let ask = Ask::new("DELETE", &format!("/api/requests/{name}"));
        let ask = if secret.is_empty() { ask } else { ask.with("vicus-request-secret", secret) };
        server.ask(&ask).status
    };
    let running = |wanted: u64| server.wait_for("vicus_requests_running", move |running| running == wanted);
    // The client's own secret.
    let own = "0123456789abcdef0123456789abcdef";
    let ask = Ask::query(SILENT).with("vicus-request-id", "mine").with("vicus-request-secret", own);
    let mut stream = connect(server.address);
    stream.write_all(&ask.bytes()).expect("it is sent");
    running(1);
    for wrong in ["", "0123456789abcdef", "0123456789abcdef0123456789abcdee", "mine"] {
        assert_eq!(stop("mine", wrong), 403, "{wrong}");
    }
    let list = server.ask(&Ask::get("/api/requests")).text();
    assert!(list.contains("\"id\":\"mine\"") && !list.contains(own), "{list}");
    assert_eq!(stop("mine", own), 204);
    running(0);
    drop(stream);
    // The server's, in the answer's header; a short secret of a client is none.
    let mut secrets = Vec::new();
    for given in ["", "short"] {
        let ask = Ask::query(ENDLESS).with("accept", "text/csv");
        let ask = if given.is_empty() { ask } else { ask.with("vicus-request-secret", given) };
        let answer = ask.open(server.address);
        let id = answer.head.header("vicus-request-id").expect("it has a name").to_owned();
        let secret = answer.head.header("vicus-request-secret").expect("it has a secret").to_owned();
        assert_eq!((secret.len(), secret.is_ascii()), (32, true));
        assert_eq!([stop(&id, given), stop(&id, &secret)], [403, 204]);
        running(0);
        drop(answer);
        secrets.push(secret);
    }
    assert_ne!(secrets[0], secrets[1]);
    // A client with a token needs none, and the secret is not told.
    let server = Running::start(&numbers(2000), with_tokens());
    let ask = Ask::query("ASK {}").with("authorization", "Bearer r");
    assert_eq!(server.ask(&ask).header("vicus-request-secret"), None);
}

/// What happened: a document of one graph replaced all data, named graphs included.
#[test]
fn all_data_is_replaced_by_data_with_graphs_alone() {
    let server = Running::start("", open());
    server.update("INSERT DATA { GRAPH <http://e/g> { <http://e/a> <http://e/b> 1 } }");
    let put = |media_type: &str, text: &str| {
        server.ask(&Ask::new("PUT", "/store").with("content-type", media_type).body(text)).status
    };
    for (media_type, text) in [
        ("text/turtle", "<http://e/a> <http://e/b> 2 ."),
        ("application/n-triples", "<http://e/a> <http://e/b> \"2\" ."),
        ("application/rdf+xml", "<rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\"/>"),
        ("multipart/form-data; boundary=b", "--b\r\nContent-Type: text/turtle\r\n\r\n\r\n--b--"),
    ] {
        assert_eq!(put(media_type, text), 400, "{media_type}");
        assert!(server.boolean("ASK { GRAPH <http://e/g> { <http://e/a> <http://e/b> 1 } }"), "{media_type}");
    }
    assert_eq!(put("application/trig", "<http://e/h> { <http://e/a> <http://e/b> 3 }"), 204);
    assert!(!server.boolean("ASK { GRAPH <http://e/g> { ?s ?p ?o } }"));
    assert!(server.boolean("ASK { GRAPH <http://e/h> { ?s ?p ?o } }"));
    // A document of a syntax with graphs replaces all data, whether it has graphs or not.
    let json = |number: &str| format!("{{\"@id\":\"http://e/a\",\"http://e/b\":{number}}}");
    let named = "[{\"@id\":\"http://e/g\",\"@graph\":[{\"@id\":\"http://e/a\",\"http://e/b\":4}]}]";
    for (media_type, text, default, graphs) in [
        ("application/n-quads", "<http://e/a> <http://e/b> \"4\" <http://e/g> .".to_owned(), 0, 1),
        ("application/n-quads", "<http://e/a> <http://e/b> \"4\" .".to_owned(), 1, 0),
        ("application/n-quads", "_:a <http://e/b> \"4\" . \n_:a <http://e/b> _:a _:g .".to_owned(), 1, 1),
        ("application/n-quads", String::new(), 0, 0),
        ("application/ld+json", named.to_owned(), 0, 1),
        ("application/ld+json", json("5"), 1, 0),
        ("application/ld+json", format!("[{},{named}]", json("6")), 1, 1),
        ("application/ld+json", "[]".to_owned(), 0, 0),
        ("application/trig", "<http://e/a> <http://e/b> 7 .".to_owned(), 1, 0),
    ] {
        server.update(
            "CLEAR ALL ; INSERT DATA { <http://e/old> <http://e/b> 1 GRAPH <http://e/old> { <http://e/a> \
                <http://e/b> 1 } }",
        );
        assert_eq!(put(media_type, &text), 204, "{media_type}: {text}");
        let counts = [
            server.number("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"),
            server.number("SELECT (COUNT(DISTINCT ?g) AS ?n) { GRAPH ?g { ?s ?p ?o } }"),
        ];
        assert_eq!(counts, [default, graphs], "{media_type}: {text}");
        assert!(!server.boolean("ASK { { <http://e/old> ?p ?o } UNION { GRAPH <http://e/old> { ?s ?p ?o } } }"));
    }
}

/// What happened: a form's `query=SELECT+1` was read as a statement.
#[test]
fn a_form_is_a_form_for_sql_as_well() {
    let server = Running::start("", open());
    let csv = |ask: Ask| server.ask(&ask.with("accept", "text/csv"));
    let form = "application/x-www-form-urlencoded";
    let reply = csv(Ask::post("/sql", form, "query=SELECT+1+%2B+1+AS+n"));
    assert_eq!((reply.status, reply.text().as_str()), (200, "n\r\n2\r\n"));
    let reply = csv(Ask::post("/sql", form, "query=SELECT+1+AS+n+UNION+ALL+SELECT+2&limit=1"));
    assert_eq!((reply.status, reply.text().lines().count()), (200, 2));
    for media_type in ["application/sql", "text/plain; charset=utf-8"] {
        assert_eq!(csv(Ask::post("/sql", media_type, "SELECT 2 AS n")).status, 200, "{media_type}");
    }
    assert_eq!(csv(Ask::post("/sql", form, "SELECT 1")).status, 400);
    assert_eq!(csv(Ask::post("/sql", form, "query=SELECT+1&query=SELECT+2")).status, 400);
    assert_eq!(csv(Ask::post("/sql", "application/sparql-query", "SELECT 1")).status, 415);
    assert_eq!(csv(Ask::post("/sql", "text/plain; charset=latin1", "SELECT 1")).status, 415);
}

/// A network that knows no files is a query; one that may write some is for those who may update, and by POST.
#[test]
fn networks_are_for_those_who_may() {
    let text = "box n = numbers(to: 3); box rows = collect; n -> rows;";
    let post = |token: &str| {
        Ask::post("/network", "text/vnd.vicus.network", text)
            .with("accept", "text/csv")
            .with("authorization", &format!("Bearer {token}"))
    };
    let get = Ask::get(&format!("/network?query={}", crate::client::escaped(text))).with("authorization", "Bearer w");
    let server = Running::start("", with_tokens());
    assert_eq!(server.ask(&post("r")).text(), "n\r\n0\r\n1\r\n2\r\n");
    assert_eq!(server.ask(&post("none")).status, 403);
    assert_eq!(server.ask(&get).status, 200);
    let wrong =
        server.ask(&Ask::post("/network", "text/vnd.vicus.network", "box n =").with("authorization", "Bearer r"));
    assert_eq!((wrong.status, wrong.text().contains("line 1, column")), (400, true), "{}", wrong.text());
    let mut options = with_tokens();
    options.session.languages.network.has_writers = true;
    let server = Running::start("", options);
    assert_eq!([post("w"), post("r"), post("none")].map(|ask| server.ask(&ask).status), [200, 403, 403]);
    assert_eq!(server.ask(&get).status, 405);
    // A page of another origin has no token of its own to send; the browser would send none.
    let foreign = post("r").with("origin", "http://evil.example");
    assert!([401, 403].contains(&server.ask(&foreign).status));
}
