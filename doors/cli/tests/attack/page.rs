//! Paths, rights and origins: data that a request may not read or change, and the page's view of data.

use crate::client::Ask;
use crate::served::{Served, shown};
use crate::suite::{Suite, file, folder, short, text};
use std::sync::Arc;

pub(crate) fn attack(suite: &mut Suite) {
    let here = folder("page");
    let secret = file(&here, "secret.txt", "a secret of the machine");
    let markup = "<http://e/s> <http://e/p> \"<script>alert(1)</script>\" .\n<javascript:alert(1)> <http://e/p> \
        \"</script><img src=x onerror=alert(1)>\" .\n";
    let data = file(&here, "markup.nt", format!("{markup}{}", crate::served::numbers(10)));
    let server = Served::of(&here, &["--data", &data, "--open-updates"]);
    let address = server.address;

    let folder = text(&here).to_owned();
    suite.case("paths lead to no file", move || {
        let up = [
            "../",
            "..%2f",
            "%2e%2e/",
            "%2e%2e%2f",
            "..\\",
            "..%5c",
            "....//",
            "%252e%252e%252f",
            "..%c0%af",
            "%00/../",
        ];
        let mut count = 0;
        for start in ["/", "/store/", "/page/", "/assets/", "/api/", "/sparql/", "//"] {
            for up in up {
                for file in ["etc/passwd", "proc/self/environ", &secret[1..]] {
                    let path = format!("{start}{}{file}", up.repeat(12));
                    let reply = Ask::get(&path).send(address);
                    let said = shown(&reply);
                    assert!((400..500).contains(&reply.status), "{path}: {}", reply.status);
                    assert!(
                        !said.contains("root:")
                            && !said.contains("secret of")
                            && (path.contains(&folder) || !said.contains(&folder)),
                        "{path}: {}",
                        short(&said)
                    );
                    count += 1;
                }
            }
        }
        format!("{count} paths")
    });

    let each = Arc::clone(&server);
    suite.case("forms and requests of other origins change nothing", move || {
        let update = "INSERT DATA { <http://e/x> <http://e/x> 1 }";
        let form = format!("update={}", crate::client::escaped(update));
        let asks = [
            Ask::post("/update", "application/x-www-form-urlencoded", form.clone()),
            Ask::post("/sparql", "application/x-www-form-urlencoded", form),
            Ask::post("/update", "application/sparql-update", update),
            Ask::new("DELETE", "/store?default"),
            Ask::post("/store?default", "text/turtle", "<http://e/x> <http://e/x> 1 ."),
            Ask::post(
                "/store?default",
                "multipart/form-data; boundary=b",
                "--b\r\nContent-Type: text/turtle\r\n\r\n<http://e/x> <http://e/x> 1 .\r\n--b--\r\n",
            ),
        ];
        let origins: [&[(&str, &str)]; 7] = [
            &[("origin", "http://evil.example")],
            &[("origin", "null")],
            &[("origin", "http://localhost.evil.example")],
            &[("origin", "https://localhost")],
            &[("origin", "http://localhost:1")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site")],
        ];
        for ask in &asks {
            for origin in origins {
                let ask = origin.iter().fold(ask.clone(), |ask, (name, value)| ask.with(name, value));
                let reply = ask.send(address);
                assert_eq!(reply.status, 403, "{ask:?}: {}", short(&shown(&reply)));
                assert!(reply.header("access-control-allow-origin").is_none());
            }
        }
        for text in ["/update", "/sparql"] {
            let got = Ask::get(&format!("{text}?update={}", crate::client::escaped(update))).send(address).status;
            assert!(matches!(got, 400 | 405), "an update by GET: {got}");
        }
        assert_eq!(each.number("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), 12);
        format!("{} requests", asks.len() * origins.len())
    });

    suite.case("other hosts are refused", move || {
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "evil.example:80",
            "0.0.0.0",
            "[::ffff:8.8.8.8]",
            "2130706433",
            "localhost@evil.example",
        ] {
            for path in ["/", "/sparql?query=ASK%20%7B%7D", "/api/info", "/metrics", "/health"] {
                let got = Ask::get(path).with("host", host).send(address).status;
                assert!(matches!(got, 400 | 421), "{host}, {path}: {got}");
            }
        }
        let got = Ask::get("http://evil.example/api/info").send(address).status;
        assert_eq!(got, 421, "a host in the target");
        for host in ["localhost", "LOCALHOST:7878", "127.0.0.1", "[::1]", "127.1.2.3", "localhost."] {
            assert_eq!(Ask::get("/health").with("host", host).send(address).status, 200, "{host}");
        }
        "8 hosts".to_owned()
    });

    suite.case("what data has is no markup of an answer", move || {
        let query = "SELECT * { ?s ?p ?o FILTER(!ISNUMERIC(?o)) }";
        let errors = [
            Ask::query("SELECT <script>alert(1)</script>"),
            Ask::get("/<script>alert(1)</script>"),
            Ask::get("/sparql?query=ASK%7B%7D&timeout=<script>"),
            Ask::get("/store?graph=<script>"),
            Ask::get("/api/requests/<script>/plan"),
            Ask::query("ASK {}").with("vicus-request-id", "<script>"),
        ];
        let answers = [
            "text/html",
            "*/*",
            "text/csv",
            "application/json",
            "application/xml",
            "text/tab-separated-values",
            "application/sparql-results+xml",
        ];
        let asks = answers.iter().map(|accept| Ask::query(query).with("accept", accept));
        let asks: Vec<Ask> = asks.chain(errors.iter().map(|ask| ask.clone().with("accept", "text/html"))).collect();
        for ask in &asks {
            let reply = ask.send(address);
            // What is no request has an answer without a body.
            assert!(reply.header("x-content-type-options") == Some("nosniff") || reply.body.is_empty(), "{ask:?}");
            let media_type = reply.media_type();
            let said = shown(&reply);
            let is_shown_as_page =
                media_type == "text/html" || media_type == "application/xhtml+xml" || media_type.is_empty();
            assert!(!(is_shown_as_page && said.contains("alert(1)")), "{ask:?}: {media_type}");
            if media_type.ends_with("xml") {
                assert!(!said.contains("<script>"), "{ask:?}: {}", short(&said));
            }
        }
        let page = Ask::get("/").with("accept", "text/html").send(address);
        let policy = page.header("content-security-policy").unwrap_or_default().to_owned();
        assert!(policy.contains("default-src") && !policy.contains("unsafe-eval"), "`{policy}`");
        format!("{} answers; {}", asks.len(), short(&policy))
    });
    server.close(suite, "page");

    let server = Served::of(&here, &["--data", &data, "--token", "writes", "--read-token", "reads"]);
    let address = server.address;
    suite.case("without the right to read, nothing of data is told", move || {
        let info = shown(&Ask::get("/api/info").send(address));
        for told in ["\"prefixes\":[{", "markup", "\"triples\":12", "\"quads\":12"] {
            assert!(!info.contains(told) || told.contains("prefixes"), "{told}: {info}");
        }
        let paths = [
            ("GET", "/api/requests"),
            ("GET", "/api/load"),
            ("GET", "/api/requests/a/plan"),
            ("GET", "/api/requests/a/trace"),
            ("GET", "/api/requests/a/view"),
            ("GET", "/api/requests/a/watch"),
            ("DELETE", "/api/requests/a"),
            ("POST", "/api/complete"),
            ("POST", "/api/check"),
            ("GET", "/metrics"),
            ("GET", "/sparql?query=ASK%7B%7D"),
            ("GET", "/store"),
            ("GET", "/store?default"),
            ("HEAD", "/store"),
            ("PUT", "/store?default"),
            ("GET", "/sql?query=SELECT+1"),
            ("POST", "/update"),
            ("GET", "/sparql"),
        ];
        for (method, path) in paths {
            for token in [
                None,
                Some("Bearer nonsense"),
                Some("Bearer "),
                Some("Basic cmVhZHM="),
                Some("bearer reads2"),
                Some("Bearer read"),
            ] {
                let ask = Ask::new(method, path).with("content-type", "application/sparql-update");
                let ask = token.into_iter().fold(ask, |ask, token| ask.with("authorization", token));
                let reply = ask.send(address);
                assert!(
                    matches!(reply.status, 401 | 403),
                    "{method} {path} {token:?}: {} {}",
                    reply.status,
                    short(&shown(&reply))
                );
            }
        }
        for method in ["PUT", "POST", "DELETE"] {
            let ask = Ask::new(method, "/store?default")
                .with("authorization", "Bearer reads")
                .with("content-type", "text/turtle");
            assert_eq!(ask.send(address).status, 403, "{method} by one who may read");
        }
        format!("{} paths", paths.len())
    });
    suite.case("with rights: afterwards", move || {
        assert!(server.is_alive());
        assert!(!server.said().contains("panicked"));
        "alive".to_owned()
    });
}
