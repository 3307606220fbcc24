//! The description of the server's interface for programs, held against the server's own routes and its answers.

use crate::{read, run};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use vicus_service::LANGUAGES;

/// By method and path, the statuses that an operation may have.
type Operations = BTreeMap<(String, String), Vec<u16>>;

/// The operations of an OpenAPI file, as ours is laid out: paths two spaces deep, methods four, statuses eight.
fn described(yaml: &str) -> Operations {
    let mut found = Operations::new();
    let (mut path, mut method) = (String::new(), String::new());
    let lines = yaml.lines().skip_while(|line| *line != "paths:").skip(1);
    for line in lines.take_while(|line| line.starts_with(' ')) {
        let depth = line.len() - line.trim_start().len();
        let name = line.trim().split(':').next().unwrap_or_default().trim_matches('\'');
        match depth {
            2 => name.clone_into(&mut path),
            4 => {
                method = name.to_uppercase();
                found.insert((method.clone(), path.clone()), Vec::new());
            }
            8 => {
                if let (Ok(status), Some(all)) = (name.parse(), found.get_mut(&(method.clone(), path.clone()))) {
                    all.push(status);
                }
            }
            _ => {}
        }
    }
    found
}

/// The paths that the server's routes name, apart from those of the page's questions.
fn routed(source: &str) -> BTreeSet<String> {
    let body = source.split("async fn answer(").nth(1).and_then(|rest| rest.split("crate::api::answer").next());
    let texts = body.expect("routes.rs has `answer`, which leaves the rest to api.rs").split('"').skip(1).step_by(2);
    let paths = texts.filter(|text| text.starts_with('/'));
    let named = |path: &str| path.replace("/store/", "/store/{path}").replace("/copies/base/", "/copies/base/{name}");
    paths.map(named).collect()
}

/// The methods and paths that the page's questions name: `("GET" | "HEAD", ["requests", id, "plan"])`.
fn asked_by_the_page(source: &str) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    let arms = source.lines().map(str::trim).filter(|line| line.starts_with("(\"") && line.contains("=>"));
    for arm in arms {
        let Some((methods, path)) = arm.split_once(", [") else { continue };
        let path = path.split(']').next().unwrap_or_default();
        let part =
            |part: &str| if part.starts_with('"') { part.trim_matches('"').to_owned() } else { format!("{{{part}}}") };
        let path = format!("/api/{}", path.split(", ").map(part).collect::<Vec<_>>().join("/"));
        found.extend(methods.split('"').skip(1).step_by(2).map(|method| (method.to_owned(), path.clone())));
    }
    found
}

#[test]
fn the_description_has_the_servers_routes() {
    let described = described(&read("docs/reference/openapi.yaml"));
    let (page, others): (BTreeSet<_>, BTreeSet<_>) =
        described.into_keys().filter(|(_, path)| path != "/").partition(|(_, path)| path.starts_with("/api/"));
    let others: BTreeSet<String> = others.into_iter().map(|(_, path)| path).collect();
    let mut routes = routed(&read("doors/server/src/routes.rs"));
    // The server has a path for each language that only asks.
    routes.extend(LANGUAGES.iter().filter(|language| !language.has_updates()).map(|each| format!("/{}", each.name())));
    assert_eq!(others, routes, "described, and in routes.rs");
    let mut asked = asked_by_the_page(&read("doors/server/src/api.rs"));
    // Where GET is answered, so is HEAD, and no description says so.
    asked.retain(|(method, _)| method != "HEAD");
    assert_eq!(page, asked, "described, and in api.rs");
}

#[test]
fn routes_are_found() {
    let source =
        "async fn answer(x) { match path { \"/a\" | \"/b\" => 1, \"/health\" => 2, _ => crate::api::answer(x) } }";
    assert_eq!(routed(source), ["/a", "/b", "/health"].map(str::to_owned).into());
    let source = "    (\"GET\" | \"HEAD\", [\"requests\", id, \"plan\"]) => {\n    (_, [\"info\", ..]) => {\n";
    let of = |method: &str| (method.to_owned(), "/api/requests/{id}/plan".to_owned());
    assert_eq!(asked_by_the_page(source), [of("GET"), of("HEAD")].into());
    let yaml = "info: x\npaths:\n  /a:\n    get:\n      responses:\n        '200': x\n        '404': {a: b}\nend:\n";
    assert_eq!(described(yaml), [(("GET".to_owned(), "/a".to_owned()), vec![200, 404])].into());
}

/// A server with an empty store, which ends with the test.
struct Server {
    process: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn start() -> Server {
        let folder = run::folder("openapi");
        let mut command = run::vicus_in(&folder);
        command.args(["serve", "--store", "db", "--create", "--token", "t", "--bind", "127.0.0.1:0"]);
        let mut process = command.stdout(Stdio::piped()).spawn().expect("vicus can be run");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("it is piped")).read_line(&mut line).expect("it says its address");
        let address = line.split("http://").nth(1).unwrap_or_else(|| panic!("no address in `{line}`"));
        Server { process, address: address.trim().trim_end_matches('/').to_owned() }
    }

    /// The status of the answer to a request with this body, of which only the head is read.
    fn status(&self, method: &str, path: &str, media_type: &str, body: &str) -> u16 {
        let mut stream = TcpStream::connect(&self.address).expect("the server listens");
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer t\r\nConnection: close\r\n\
             Content-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n{body}",
            self.address
        );
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut head = [0; 12];
        stream.read_exact(&mut head).expect("the server answers");
        let text = String::from_utf8_lossy(&head).into_owned();
        text.get(9..12).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{method} {path}: {text}"))
    }
}

/// Each operation twice: once as it should be asked, once without what it needs. Both statuses are described, the first
/// one is a success where there is a thing to be asked for.
#[test]
fn answers_have_the_described_statuses() {
    let server = Server::start();
    let described = described(&read("docs/reference/openapi.yaml"));
    // A recording of no seats, all of whose bytes are text.
    let header = r#"{"strategy":"","plan":"","machine":"","clock":"","started":"","seats":[],"models":[]}"#;
    let trace = format!("VICUSTRC\u{4}\0\0\0{}\0\0\0{header}", char::from(header.len() as u8));
    for ((method, path), statuses) in &described {
        let url = match (method.as_str(), path.as_str()) {
            ("GET", "/sparql" | "/query") => format!("{path}?query=ASK%7B%7D"),
            ("GET", "/sql") => "/sql?query=SELECT%20*%20FROM%20SPARQL('ASK%7B%7D')%20AS%20t".to_owned(),
            ("GET", "/network") => "/network?query=box%20n=numbers(to:3);box%20r=collect;n-%3Er;".to_owned(),
            (_, "/store") => "/store?graph=http://example.org/g".to_owned(),
            _ => path.replace("{path}", "g").replace("{id}", "none").replace("{name}", "none"),
        };
        let (media_type, body) = match (method.as_str(), path.as_str()) {
            ("POST", "/api/view") => ("application/octet-stream", trace.as_str()),
            ("POST", "/sparql" | "/query") => ("application/sparql-query", "ASK {}"),
            ("POST", "/update") => ("application/sparql-update", "CLEAR ALL"),
            ("POST", "/sql") => ("application/sql", "SELECT 1"),
            ("POST", "/network") => ("text/vnd.vicus.network", "box n = numbers(to: 3); box r = collect; n -> r;"),
            ("PUT" | "POST", path) if path.starts_with("/store") => ("text/turtle", "<a> <b> <c> ."),
            ("POST", "/copies/records") => {
                ("text/plain", "vicus copies 2\nstore 1\ncopy 5 follows\npromised 0 0\nlast 0\n")
            }
            ("POST", path) if path.starts_with("/copies/") => ("text/plain", "1 00000000000000ab\n"),
            ("POST", _) => ("application/json", "{\"text\": \"ASK {}\", \"cursor\": 3}"),
            _ => ("text/plain", ""),
        };
        let status = server.status(method, &url, media_type, body);
        assert!(statuses.contains(&status), "{method} {url}: {status} is not described");
        let about_nothing = path.contains("{id}")
            || path.contains("{name}")
            || (method == "GET" || method == "DELETE") && path.starts_with("/store");
        assert!(about_nothing || path == "/sql" || status < 300, "{method} {url}: {status}");
        let status = server.status(method, path, "application/x-nothing", "?");
        assert!(statuses.contains(&status), "{method} {path} with nothing: {status} is not described");
    }
}
