//! SERVICE over HTTP, with servers of the tests' own: answers in each format, all invalid answers, and limits.

use super::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, mpsc};
use std::time::Duration;
use vicus_service::{CallLimits, Cancel, Error, ErrorKind, Format, Permit, Session, Web, WebError, WebOptions};
use vicus_sparql::ServiceFailed;

/// A request as a server has read it.
pub(crate) struct Asked {
    /// Method and target.
    pub(crate) line: String,
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
}

/// Serves each connection on a thread until the process ends; gives the URL.
pub(crate) fn serve(answer: impl Fn(Asked, &mut TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let (answer, mut connection) = (Arc::clone(&answer), connection.unwrap());
            std::thread::spawn(move || {
                let mut reader = BufReader::new(connection.try_clone().unwrap());
                let lines = reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty());
                let mut headers: Vec<String> = lines.collect();
                let line = headers.remove(0);
                let length = headers.iter().find_map(|line| {
                    let (name, value) = line.split_once(": ")?;
                    name.eq_ignore_ascii_case("content-length").then(|| value.parse().unwrap())
                });
                let mut body = vec![0; length.unwrap_or(0)];
                reader.read_exact(&mut body).unwrap();
                let body = String::from_utf8(body).unwrap();
                answer(Asked { line, headers, body }, &mut connection);
            });
        }
    });
    url
}

/// Writes a whole response. The client may have gone.
pub(crate) fn respond(connection: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let length = body.len();
    let _ =
        write!(connection, "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}");
}

/// Serves the same response to all.
fn says(status: &'static str, headers: impl Into<String>, body: impl Into<String>) -> String {
    let (headers, body) = (headers.into(), body.into());
    serve(move |_, connection| respond(connection, status, &headers, &body))
}

pub(crate) fn of_type(media_type: &str) -> String {
    format!("Content-Type: {media_type}\r\n")
}

const JSON: &str = r#"{"head":{"vars":["s","r"]},"results":{"bindings":[
    {"s":{"type":"uri","value":"http://e/a"},"r":{"type":"literal","value":"one","xml:lang":"en"}},
    {"s":{"type":"uri","value":"http://e/z"},"r":{"type":"literal","value":"of no row"}},
    {"r":{"type":"literal","value":"2","datatype":"http://www.w3.org/2001/XMLSchema#integer"}}]}}"#;
const XML: &str = r#"<?xml version="1.0"?><sparql xmlns="http://www.w3.org/2005/sparql-results#">
    <head><variable name="s"/><variable name="r"/></head><results>
    <result><binding name="s"><uri>http://e/a</uri></binding>
        <binding name="r"><literal xml:lang="en">one</literal></binding></result>
    <result><binding name="s"><uri>http://e/z</uri></binding>
        <binding name="r"><literal>of no row</literal></binding></result>
    <result><binding name="r">
        <literal datatype="http://www.w3.org/2001/XMLSchema#integer">2</literal></binding></result>
    </results></sparql>"#;
const TSV: &str = "?s\t?r\n<http://e/a>\t\"one\"@en\n<http://e/z>\t\"of no row\"\n\t2\n";

/// Two rows, each of which asks an endpoint.
fn two() -> Dataset {
    let text = b"<http://e/a> <http://e/p> \"x\" .\n<http://e/b> <http://e/p> \"y\" .\n";
    Dataset::new(Arc::new(Snapshot::of_ntriples(text).expect("good N-Triples")))
}

fn asking(url: &str, silent: &str) -> String {
    format!(
        "PREFIX e: <http://e/> SELECT ?s ?r {{ ?s e:p ?o SERVICE {silent} <{url}> {{ ?s e:q ?r }} }} ORDER BY ?s ?r"
    )
}

fn session_with(service: &Service, options: WebOptions) -> Session {
    service.session(&two(), SessionOptions { web: Arc::new(Web::new(options)), ..SessionOptions::default() })
}

fn permitting_all() -> WebOptions {
    WebOptions { permits: vec![Permit::all()], ..WebOptions::default() }
}

fn tsv(session: &Session, text: &str) -> Result<String, Error> {
    let (written, _) = session.write(text, Format::Tsv, Vec::new())?;
    Ok(String::from_utf8(written).unwrap())
}

/// The failure of the endpoint's part of a query.
fn failure(error: Error) -> String {
    match &error {
        Error::Failed { error: inner, .. } => {
            let failed = inner.downcast_ref::<ServiceFailed>().expect("an endpoint has failed");
            assert!(failed.error.is::<WebError>(), "{error}");
            error.to_string()
        }
        other => panic!("{other:?}"),
    }
}

/// SPARQL 1.1 Protocol, §2.1.2; SPARQL 1.1 Query Results JSON, XML and TSV Formats. The third solution has no `s`, so
/// it goes with each row.
#[test]
fn an_endpoint_answers_in_the_format_of_its_choice() {
    let kinds = [
        ("application/sparql-results+json", JSON),
        ("application/json; charset=utf-8", JSON),
        ("application/sparql-results+xml", XML),
        ("text/tab-separated-values", TSV),
    ];
    let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
    let urls = kinds.map(|(media_type, body)| {
        let (headers, asked) = (of_type(media_type), Arc::clone(&asked));
        serve(move |request, connection| {
            asked.lock().unwrap().push(request);
            respond(connection, "200 OK", &headers, body);
        })
    });
    under_all_strategies(|strategy| {
        let session = session_with(&service(strategy, 1 << 30), permitting_all());
        for url in &urls {
            let found = tsv(&session, &asking(&format!("{url}/sparql?named=x"), "")).unwrap();
            assert_eq!(found, "?s\t?r\n<http://e/a>\t\"one\"@en\n<http://e/a>\t2\n<http://e/b>\t2\n", "{strategy}");
        }
    });
    for Asked { line, headers, body } in asked.lock().unwrap().iter() {
        assert_eq!(line, "POST /sparql?named=x HTTP/1.1");
        let has = |text: &str| headers.iter().any(|line| line.eq_ignore_ascii_case(text));
        assert!(has("Content-Type: application/x-www-form-urlencoded"), "{headers:?}");
        assert!(headers.iter().any(|line| line.contains("application/sparql-results+json")), "{headers:?}");
        assert!(body.starts_with("query=PREFIX+e%3A+%3Chttp%3A%2F%2Fe%2F%3E%0ASELECT+%3Fs+%3Fr"), "{body}");
        assert!(body.contains("VALUES") && body.ends_with("+%7B+%3Fs+e%3Aq+%3Fr+%7D+%7D"), "{body}");
    }
}

/// CSV, which has only texts, comes last in the request.
#[test]
fn an_endpoint_may_answer_in_csv() {
    let csv = "r,s\r\none,http://e/a\r\n\"of \"\"no\"\" row\",http://e/z\r\n2,\r\n";
    let url = serve(move |asked, connection| {
        let accept = asked.headers.iter().find(|line| line.to_ascii_lowercase().starts_with("accept:")).unwrap();
        assert!(accept.ends_with("text/csv;q=0.1"), "{accept}");
        respond(connection, "200 OK", &of_type("text/csv; charset=utf-8; header=present"), csv);
    });
    let session = session_with(&service("las", 1 << 30), permitting_all());
    let found = tsv(&session, &asking(&url, "")).unwrap();
    assert_eq!(found, "?s\t?r\n<http://e/a>\t\"one\"\n<http://e/a>\t2\n<http://e/b>\t2\n");
}

/// What happened: an answer was booked when all of it had come, so one that was as long as is permitted took memory
/// without bound.
#[test]
fn an_answer_counts_against_the_memory_limit_while_it_comes() {
    let endless = serve(|_, connection| {
        let _ = write!(connection, "HTTP/1.1 200 OK\r\nContent-Type: text/tab-separated-values\r\n\r\n?s\t?r\n");
        let mut number = 0_u64;
        while connection.write_all(format!("<http://e/c>\t\"more and more {number}\"\n").as_bytes()).is_ok() {
            number += 1;
        }
    });
    let service = service("las", 1 << 30);
    let web = || Arc::new(Web::new(WebOptions { bytes: 1 << 40, ..permitting_all() }));
    let limits = || CallLimits { memory: Some(8 << 20), ..CallLimits::default() };
    for silent in ["", "SILENT"] {
        let options = SessionOptions { limits: limits(), web: web(), ..SessionOptions::default() };
        let error = tsv(&service.session(&two(), options), &asking(&endless, silent)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MemoryLimit, "{silent}: {error}");
    }
    assert_eq!(service.memory().taken(), 0);
}

#[test]
fn what_is_no_answer_is_told_or_left_out_by_silent() {
    // A port that the system gives to nobody: one that was open might be another test's by now.
    let closed = "127.0.0.1:1";
    let json = of_type("application/sparql-results+json");
    let page = "\n\n<!DOCTYPE html>\n<html><title>Welcome</title></html>";
    let broken = serve(|_, connection| {
        let _ = write!(connection, "HTTP/1.1 200 OK\r\nContent-Type: text/tab-separated-values\r\n");
        let _ = write!(connection, "Content-Length: 1000\r\n\r\n?s\t?r\n<http://e/a>\t1\n");
    });
    let away = says("302 Found", "Location: http://127.0.0.1:1/elsewhere\r\n", "");
    let to_file = says("302 Found", "Location: file:///etc/passwd\r\n", "");
    let cases: Vec<(String, &[&str])> = vec![
        (
            says("200 OK", of_type("text/html"), page),
            &["text/html", "no format of solutions", "begins: <!DOCTYPE html>"],
        ),
        (says("200 OK", of_type("text/csv"), page), &["can't be read: line 3 of CSV", "begins: <!DOCTYPE html>"]),
        (says("200 OK", of_type("text/csv"), "s,r\r\nhttp://e/a\r\n"), &["line 2 of CSV", "begins: s,r"]),
        (says("200 OK", "", "hello"), &["does not say which format", "begins: hello"]),
        (says("200 OK", json.clone(), page), &["can't be read", "begins: <!DOCTYPE html>"]),
        (says("200 OK", json.clone(), ""), &["can't be read", "nothing with it"]),
        (says("200 OK", json.clone(), &JSON[..200]), &["can't be read"]),
        (says("200 OK", of_type("application/sparql-results+xml"), "<a>\u{7}"), &["can't be read", "begins: <a>"]),
        (says("200 OK", of_type("application/sparql-results+xml"), &XML[..300]), &["can't be read"]),
        (says("200 OK", of_type("text/tab-separated-values"), "?s\n\"\n"), &["can't be read", "begins: ?s"]),
        (says("200 OK", json.clone(), r#"{"head":{},"boolean":true}"#), &["yes or no"]),
        (
            says("404 Not Found", of_type("text/plain"), "no such dataset"),
            &["404 Not Found", "begins: no such dataset"],
        ),
        (says("500 Internal Server Error", "", ""), &["500 Internal Server Error", "nothing with it"]),
        (says("204 No Content", "", ""), &["204 No Content"]),
        (broken, &["can't be reached"]),
        (serve(|_, connection| connection.write_all(b"SSH-2.0-OpenSSH\r\n").unwrap()), &["can't be reached"]),
        (serve(|_, _| {}), &["can't be reached"]),
        // No TLS there.
        (says("200 OK", "", "").replace("http:", "https:"), &["can't be reached"]),
        (format!("http://{closed}/sparql"), &["can't be reached", "refused"]),
        ("http://no-such-host.invalid/sparql".to_owned(), &["can't be reached"]),
        ("file:///etc/passwd".to_owned(), &["asking file:///etc/passwd is not permitted"]),
        ("urn:endpoint".to_owned(), &["asking urn:endpoint is not permitted"]),
        ("http://h\u{f6}st.invalid/".to_owned(), &["its host is not ASCII"]),
        (to_file, &["asking file:///etc/passwd is not permitted"]),
        (format!("{away}/"), &["http://127.0.0.1:1/elsewhere is not permitted"]),
    ];
    let service = service("las", 1 << 30);
    for (url, says) in &cases {
        // The target of its redirect needs a permission as well.
        let permits = if url.starts_with(&away) { vec![away.parse().unwrap()] } else { vec![Permit::all()] };
        let session = session_with(&service, WebOptions { permits, ..WebOptions::default() });
        let error = failure(tsv(&session, &asking(url, "")).unwrap_err());
        assert!(error.starts_with(&format!("SERVICE <{url}>: ")), "{error}");
        for part in *says {
            assert!(error.contains(part), "`{part}` is part of: {error}");
        }
        assert_eq!(tsv(&session, &asking(url, "SILENT")).unwrap(), "?s\t?r\n<http://e/a>\t\n<http://e/b>\t\n", "{url}");
    }
}

/// A solution with a triple term of `levels` levels as its only value.
fn nested_json(levels: usize) -> String {
    let part = |name: &str| format!(r#"{{"type":"uri","value":"http://e/{name}"}}"#);
    let opening = format!(r#"{{"type":"triple","value":{{"subject":{},"predicate":{},"object":"#, part("s"), part("p"));
    let (opening, closing) = (opening.repeat(levels), "}}".repeat(levels));
    let term = format!("{opening}{}{closing}", part("o"));
    format!(r#"{{"head":{{"vars":["r"]}},"results":{{"bindings":[{{"r":{term}}}]}}}}"#)
}

/// What happened: an update put a triple term of 65 levels from an endpoint's answer into a store, which was never
/// opened again.
#[test]
fn an_answer_with_a_triple_term_of_too_many_levels_is_none() {
    let session = session_with(&service("las", 1 << 30), permitting_all());
    let ask = |levels: usize, silent: &str| {
        let url = says("200 OK", of_type("application/sparql-results+json"), nested_json(levels));
        tsv(&session, &format!("SELECT ?r {{ SERVICE {silent} <{url}> {{ ?s ?p ?r }} }}"))
    };
    assert_eq!(ask(64, "").unwrap().matches("<<(").count(), 64);
    for levels in [65, 66, 120] {
        let error = ask(levels, "").unwrap_err().to_string();
        assert!(error.contains("more than 64 levels deep"), "{error}");
        assert_eq!(ask(levels, "SILENT").unwrap(), "?r\n\n");
    }
}

/// The status 303 leads to the answer itself, the others to another endpoint.
#[test]
fn redirects_are_followed_as_often_as_is_permitted() {
    let url = serve(|asked, connection| {
        let go = |connection: &mut TcpStream, status: &str, to: &str| {
            respond(connection, status, &format!("Location: {to}\r\n"), "");
        };
        match &*asked.line {
            "POST /1 HTTP/1.1" => go(connection, "301 Moved Permanently", "/a/2"),
            "POST /a/2 HTTP/1.1" => go(connection, "307 Temporary Redirect", "3"),
            "POST /a/3 HTTP/1.1" if asked.body.starts_with("query=") => go(connection, "303 See Other", "../4?x=%20"),
            "GET /4?x=%20 HTTP/1.1" => respond(connection, "200 OK", &of_type("text/tab-separated-values"), TSV),
            "POST /round HTTP/1.1" => go(connection, "308 Permanent Redirect", "/round"),
            other => respond(connection, "400 Bad Request", "", other),
        }
    });
    let service = service("las", 1 << 30);
    let within = |redirects| session_with(&service, WebOptions { redirects, ..permitting_all() });
    assert_eq!(tsv(&within(3), &asking(&format!("{url}/1"), "")).unwrap().lines().count(), 4);
    for (redirects, path) in [(2, "1"), (5, "round"), (0, "1")] {
        let error = failure(tsv(&within(redirects), &asking(&format!("{url}/{path}"), "")).unwrap_err());
        assert!(error.contains("it redirects too often"), "{error}");
    }
}

#[test]
fn nothing_may_be_asked_without_a_permission() {
    let url = says("200 OK", of_type("text/tab-separated-values"), TSV);
    let service = service("las", 1 << 30);
    let plain = service.session(&two(), SessionOptions::default());
    let error = failure(tsv(&plain, &asking(&url, "")).unwrap_err());
    assert!(error.contains(&format!("asking {url} is not permitted")), "{error}");
    let other = WebOptions { permits: vec![format!("{url}/other").parse().unwrap()], ..WebOptions::default() };
    assert!(failure(tsv(&session_with(&service, other), &asking(&url, "")).unwrap_err()).contains("not permitted"));
    let this = WebOptions { permits: vec![url.parse().unwrap()], ..WebOptions::default() };
    assert_eq!(tsv(&session_with(&service, this), &asking(&url, "")).unwrap().lines().count(), 4);
}

#[test]
fn an_answer_without_end_reaches_a_limit() {
    let endless = serve(|_, connection| {
        let _ = write!(connection, "HTTP/1.1 200 OK\r\nContent-Type: text/tab-separated-values\r\n\r\n?s\t?r\n");
        let lines = "<http://e/c>\t\"more and more\"\n".repeat(1000);
        while connection.write_all(lines.as_bytes()).is_ok() {}
    });
    let drop_by_drop = serve(|_, connection| {
        let _ = write!(connection, "HTTP/1.1 200 OK\r\nContent-Type: text/tab-separated-values\r\n\r\n?s\t?r\n");
        while connection.write_all(b"\t\"slow\"\n").is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let silent = serve(|_, connection| {
        let _ = connection.read(&mut [0]);
    });
    let service = service("las", 1 << 30);
    let short = Duration::from_millis(300);
    for (url, time, says) in [
        (endless, Duration::from_secs(60), "its answer has more than 1048576 bytes"),
        (drop_by_drop, short, "its answer took longer than 0.3 s"),
        (silent, short, "its answer took longer than 0.3 s"),
    ] {
        let session = session_with(&service, WebOptions { time, bytes: 1 << 20, ..permitting_all() });
        let error = failure(tsv(&session, &asking(&url, "")).unwrap_err());
        assert!(error.contains(says), "{error}");
        assert_eq!(tsv(&session, &asking(&url, "SILENT")).unwrap(), "?s\t?r\n<http://e/a>\t\n<http://e/b>\t\n");
    }
}

/// The servers say nothing, and the limit on questions is an hour: these calls end by themselves.
#[test]
fn a_call_that_ends_waits_for_no_endpoint() {
    let (come, came) = mpsc::channel();
    let silent = serve(move |_, connection| {
        let _ = come.send(());
        let _ = connection.read(&mut [0]);
    });
    let patient = || Arc::new(Web::new(WebOptions { time: Duration::from_secs(3600), ..permitting_all() }));
    under_all_strategies(|strategy| {
        let service = service(strategy, 1 << 30);
        let session =
            |limits| service.session(&two(), SessionOptions { limits, web: patient(), ..SessionOptions::default() });
        let in_time = CallLimits { time: Some(Duration::from_millis(100)), ..CallLimits::default() };
        let late = tsv(&session(in_time), &asking(&silent, "SILENT")).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimeLimit, "{strategy}");
        // Its time may have been up before it asked.
        while came.try_recv().is_ok() {}
        let cancel = Cancel::new();
        let cancellable = session(CallLimits { cancel: cancel.clone(), ..CallLimits::default() });
        std::thread::scope(|scope| {
            let running = scope.spawn(|| tsv(&cancellable, &asking(&silent, "")).unwrap_err().kind());
            came.recv().unwrap();
            cancel.cancel();
            assert_eq!(running.join().unwrap(), ErrorKind::Cancelled, "{strategy}");
        });
        // It has rows enough without the endpoint's.
        let enough = format!("SELECT ?s {{ {{ ?s ?p ?o }} UNION {{ SERVICE <{silent}> {{ ?s ?p ?o }} }} }} LIMIT 1");
        assert_eq!(session(CallLimits::default()).count(&enough).unwrap(), 1, "{strategy}");
        // Another box fails meanwhile.
        let limits = CallLimits { memory: Some(2 << 20), ..CallLimits::default() };
        let little = SessionOptions { limits, web: patient(), ..SessionOptions::default() };
        let fails = format!(
            "SELECT * {{ {{ SERVICE <{silent}> {{ ?a ?b ?c }} }} UNION {{ {} }} }}",
            GREEDY.replace("SELECT", "{ SELECT") + " }"
        );
        let error = service.session(&dataset(), little).count(&fails).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MemoryLimit, "{strategy}: {error}");
        while came.try_recv().is_ok() {}
    });
}

/// The servers answer without end, and faster than is read: a call looked for its own end only when no piece of an
/// answer had come for 20 ms, so neither a time limit nor a cancel ended it before the answer was too long. The
/// endpoint's limits are far off here.
#[test]
fn a_call_that_ends_leaves_an_answer_that_keeps_coming() {
    let (come, came) = mpsc::channel();
    let endless = serve(move |_, connection| {
        let _ = come.send(());
        let _ = write!(connection, "HTTP/1.1 200 OK\r\nContent-Type: text/tab-separated-values\r\n\r\n?s\t?r\n");
        let lines = "<http://e/c>\t\"more and more\"\n".repeat(1000);
        while connection.write_all(lines.as_bytes()).is_ok() {}
    });
    let patient = WebOptions { time: Duration::from_secs(3600), bytes: 1 << 40, ..permitting_all() };
    let service = service("las", 1 << 40);
    let session = |limits| {
        let web = Arc::new(Web::new(patient.clone()));
        service.session(&two(), SessionOptions { limits, web, ..SessionOptions::default() })
    };
    let in_time = CallLimits { time: Some(Duration::from_millis(100)), ..CallLimits::default() };
    let late = tsv(&session(in_time), &asking(&endless, "SILENT")).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::TimeLimit, "{late}");
    // Its time may have been up before it asked.
    while came.try_recv().is_ok() {}
    let cancel = Cancel::new();
    let cancellable = session(CallLimits { cancel: cancel.clone(), ..CallLimits::default() });
    std::thread::scope(|scope| {
        let running = scope.spawn(|| tsv(&cancellable, &asking(&endless, "")).unwrap_err().kind());
        came.recv().unwrap();
        cancel.cancel();
        assert_eq!(running.join().unwrap(), ErrorKind::Cancelled);
    });
}

/// `count` triple terms within each other, in the syntax of a format.
fn nested(format: &str, count: usize) -> String {
    let (before, core, after) = match format {
        "json" => (
            r#"{"type":"triple","value":{"subject":{"type":"uri","value":"a:s"},
                "predicate":{"type":"uri","value":"a:p"},"object":"#,
            r#"{"type":"uri","value":"a:o"}"#,
            "}}",
        ),
        "xml" => (
            "<triple><subject><uri>a:s</uri></subject><predicate><uri>a:p</uri></predicate><object>",
            "<uri>a:o</uri>",
            "</object></triple>",
        ),
        _ => ("<<( <a:s> <a:p> ", "<a:o>", " )>>"),
    };
    let term = before.repeat(count) + core + &after.repeat(count);
    match format {
        "json" => format!(r#"{{"head":{{"vars":["r"]}},"results":{{"bindings":[{{"r":{term}}}]}}}}"#),
        "xml" => format!(
            r#"<sparql><head><variable name="r"/></head><results>
                <result><binding name="r">{term}</binding></result></results></sparql>"#
        ),
        _ => format!("?r\n{term}\n"),
    }
}

const FORMATS: [(&str, &str); 3] = [
    ("json", "application/sparql-results+json"),
    ("xml", "application/sparql-results+xml"),
    ("tsv", "text/tab-separated-values"),
];

/// What happened: an answer with some thousand triple terms within each other overflowed the stack of the thread that
/// read it, which ended the process.
#[test]
fn triple_terms_within_each_other_have_a_limit_in_every_format_of_answers() {
    let service = service("las", 1 << 30);
    let session = session_with(&service, permitting_all());
    for (format, media_type) in FORMATS {
        for count in [1, 64, 65, 70, 5000, 100_000, 1_000_000] {
            let url = says("200 OK", of_type(media_type), nested(format, count));
            let answer = tsv(&session, &format!("SELECT ?r {{ SERVICE <{url}> {{ ?s ?p ?r }} }}"));
            match answer {
                Ok(found) => assert_eq!((count <= 64, found.matches("<<(").count()), (true, count), "{format}"),
                Err(error) => {
                    let error = failure(error);
                    assert!(count > 64 && error.contains("more than 64 levels deep"), "{format}, {count}: {error}");
                }
            }
        }
    }
}

/// What happened: these took time in the square of their number, in which no time limit could end them.
#[test]
fn the_variables_and_attributes_of_an_answer_have_a_limit() {
    let service = service("las", 1 << 30);
    let session = session_with(&service, permitting_all());
    let each = |one: &dyn Fn(usize) -> String| (0..1_000_000).map(one).collect::<String>();
    let json = format!(r#"{{"head":{{"vars":[{}"r"]}},"results":{{"bindings":[]}}}}"#, each(&|n| format!("\"v{n}\",")));
    let head = format!("<sparql><head>{}</head><results/></sparql>", each(&|n| format!("<variable name='v{n}'/>")));
    let attributes = format!("<sparql><head {}/></sparql>", each(&|n| format!("a{n}='' ")));
    for (media_type, answer, limit) in [
        (FORMATS[0].1, json, "more than 4096 variables"),
        (FORMATS[1].1, head, "more than 4096 variables"),
        (FORMATS[1].1, attributes, "more than 256 attributes"),
    ] {
        let url = says("200 OK", of_type(media_type), answer);
        let error = failure(tsv(&session, &asking(&url, "")).unwrap_err());
        assert!(error.contains(limit), "{error}");
    }
}
