//! SERVICE from the command line, with a server of the test's own.

use super::{fails, file, run, stdout};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

/// Answers each request with these bytes until the process ends; gives the URL.
fn serve(answer: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/sparql", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut reader = BufReader::new(connection.try_clone().unwrap());
            let mut length = 0;
            for line in reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()) {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                    length = value.parse().unwrap();
                }
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            // The client may have seen enough.
            let _ = connection.write_all(answer.as_bytes());
        }
    });
    url
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/";

#[test]
fn an_endpoint_is_asked_as_the_options_permit() {
    let url = serve(format!("{HEAD}tab-separated-values\r\n\r\n?s\t?name\n<http://e/a>\t\"Ann\"\n"));
    let page = serve(format!("{HEAD}html\r\n\r\n<!DOCTYPE html>\n<title>Welcome</title>"));
    let silent = serve(String::new());
    let long = serve(format!("{HEAD}tab-separated-values\r\n\r\n?s\n{}", "<http://e/a>\n".repeat(1000)));
    let data = file("service.nt", "<http://e/a> <http://e/p> \"x\" .\n<http://e/b> <http://e/p> \"y\" .\n");
    let asking = |url: &str, silent: &str| {
        format!("SELECT ?s ?name {{ ?s <http://e/p> ?o SERVICE {silent} <{url}> {{ ?s <http://e/name> ?name }} }}")
    };
    let query = ["query", "--data", &data, "--format", "tsv"];
    let (here, everywhere) = (["--allow-service", &url], ["--allow-service", "all"]);
    for permit in [&here, &everywhere] {
        let found = stdout(&run(&[&query[..], permit, &[&asking(&url, "")]].concat()));
        assert_eq!(found, "?s\t?name\n<http://e/a>\t\"Ann\"\n");
    }
    let refused = |url: &str, options: &[&str], says: &[&str]| {
        fails(
            &[&query[..], options, &[&asking(url, "")]].concat(),
            &[&[&*format!("SERVICE <{url}>: ")], says].concat(),
        );
    };
    refused(&url, &[], &["asking", "is not permitted (--allow-service)"]);
    refused(&page, &here, &["is not permitted (--allow-service)"]);
    refused(&page, &everywhere, &["text/html", "begins: <!DOCTYPE html>"]);
    refused("http://127.0.0.1:1/", &everywhere, &["can't be reached"]);
    refused(&long, &["--allow-service", "all", "--service-bytes", "1K"], &["more than 1024 bytes (--service-bytes)"]);
    refused(&silent, &everywhere, &["can't be reached"]);
    let found = stdout(&run(&[&query[..], &[&asking(&page, "SILENT")]].concat()));
    assert_eq!(found, "?s\t?name\n<http://e/a>\t\n<http://e/b>\t\n");
}

#[test]
fn an_endpoint_that_does_not_answer_is_left_when_its_time_is_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // The system accepts the connection, and no program answers.
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let data = file("service-silent.nt", "");
    let query = format!("ASK {{ SERVICE <{url}> {{ ?s ?p ?o }} }}");
    let asked = ["query", "--data", &data, &query, "--allow-service", "all"];
    fails(&[&asked[..], &["--service-timeout", "200ms"]].concat(), &["longer than 0.2 s (--service-timeout)"]);
    fails(&[&asked[..], &["--timeout", "200ms"]].concat(), &["its time was up", "(--timeout)"]);
}

#[test]
fn a_permission_is_the_beginning_of_a_url() {
    for wrong in ["e.org", "file:///tmp", "http://", "everything"] {
        let output = run(&["query", "--data", "/dev/null", "ASK {}", "--allow-service", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(super::stderr(&output).contains("--allow-service"), "{wrong}");
    }
}
