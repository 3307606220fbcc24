//! SERVICE and LOAD: to this machine in all spellings, by redirects, and to files outside the allowed folder.

use crate::client::Ask;
use crate::served::{Served, shown};
use crate::suite::{Suite, file, folder, short, text};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A server that counts its requests, and answers with a redirect or with nothing.
fn trap(redirect: Option<String>) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it listens").port();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
            let _ = stream.read(&mut [0; 16 << 10]);
            let answer = match &redirect {
                Some(to) => {
                    format!("HTTP/1.1 307 Go\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                }
                None => {
                    "HTTP/1.1 200 OK\r\nContent-Type: text/turtle\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                        .to_owned()
                }
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (port, count)
}

pub(crate) fn attack(suite: &mut Suite) {
    let here = folder("web");
    let data = file(&here, "numbers.nt", crate::served::numbers(2000));
    let (inner, inner_count) = trap(None);
    let targets = [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "[::ffff:127.0.0.1]",
        "[::1]",
        "127.0.0.1.",
        "LOCALHOST",
    ];
    let targets: Vec<String> = targets.iter().map(|host| format!("http://{host}:{inner}/")).collect();
    let ways: Vec<(String, Arc<AtomicUsize>)> = targets
        .iter()
        .map(|target| trap(Some(target.clone())))
        .map(|(port, count)| (format!("http://127.0.0.1:{port}/"), count))
        .collect();
    let mut args = vec![
        "--data".to_owned(),
        data.clone(),
        "--open-updates".to_owned(),
        "--service-timeout".to_owned(),
        "3".to_owned(),
    ];
    for (way, _) in &ways {
        args.extend(["--allow-service".to_owned(), way.clone()]);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let server = Served::of(&here, &args);
    let address = server.address;
    let asks = |target: &str| {
        [
            Ask::query(&format!("SELECT * {{ SERVICE <{target}> {{ ?s ?p ?o }} }}")),
            Ask::query(&format!("SELECT * {{ SERVICE SILENT <{target}> {{ ?s ?p ?o }} }}")),
            Ask::query(&format!("SELECT * {{ BIND(IRI(\"{target}\") AS ?g) SERVICE ?g {{ ?s ?p ?o }} }}")),
            Ask::update(&format!("LOAD <{target}>")),
            Ask::update(&format!("LOAD SILENT <{target}> INTO GRAPH <http://e/g>")),
            Ask::update(&format!("INSERT {{ ?s ?p ?o }} WHERE {{ SERVICE <{target}> {{ ?s ?p ?o }} }}")),
        ]
    };
    let count = Arc::clone(&inner_count);
    let all: Vec<Ask> = targets.iter().flat_map(|target| asks(target)).collect();
    suite.case("what is not permitted is not asked, however it is spelled", move || {
        for ask in &all {
            let reply = ask.send(address);
            assert!(reply.status < 500, "{ask:?}: {} {}", reply.status, short(&shown(&reply)));
        }
        assert_eq!(count.load(Ordering::SeqCst), 0, "it was asked");
        format!("{} requests", all.len())
    });
    let (count, redirects) = (Arc::clone(&inner_count), ways.clone());
    suite.case("what is not permitted is not asked by a redirect", move || {
        let mut asked = 0;
        for (way, count) in &redirects {
            for ask in asks(way) {
                let reply = ask.send(address);
                assert!(reply.status < 500, "{ask:?}: {} {}", reply.status, short(&shown(&reply)));
            }
            asked += usize::from(count.load(Ordering::SeqCst) > 0);
        }
        assert_eq!(asked, redirects.len(), "those that are permitted are asked");
        assert_eq!(count.load(Ordering::SeqCst), 0, "what they name was asked");
        format!("{asked} redirects")
    });
    server.close(suite, "web");

    // The permitted prefix is one of scheme, host and port as a whole.
    let (port, near) = trap(None);
    let permit = format!("http://127.0.0.1:{port}/data/");
    let server = Served::of(&here, &["--data", &data, "--allow-service", &permit, "--open-updates"]);
    let address = server.address;
    suite.case("a permit is for its host and its path", move || {
        for target in [
            format!("http://127.0.0.1:{port}/data/../secret"),
            format!("http://127.0.0.1:{port}/data/%2e%2e/secret"),
            format!("http://127.0.0.1:{port}/data/..;/secret"),
            format!("http://127.0.0.1:{port}/dat"),
            format!("http://127.0.0.1:{port}/DATA/"),
            format!("http://a@127.0.0.1:{port}/secret"),
            format!("http://127.0.0.1:{port}@127.0.0.1:{inner}/data/"),
            format!("http://127.0.0.1:{port}\\@127.0.0.1/data/"),
            format!("https://127.0.0.1:{port}/data/"),
        ] {
            for ask in asks(&target) {
                let before = near.load(Ordering::SeqCst);
                let reply = ask.send(address);
                assert!(reply.status < 500, "{ask:?}: {} {}", reply.status, short(&shown(&reply)));
                // A path that stays inside by its text may be asked, as `..;` is a name.
                assert!(near.load(Ordering::SeqCst) == before || target.contains("..;"), "{target} was asked");
            }
        }
        assert_eq!(inner_count.load(Ordering::SeqCst), 0, "another was asked");
        "9 spellings".to_owned()
    });
    server.close(suite, "permits");

    let allowed = here.join("allowed");
    std::fs::create_dir_all(allowed.join("inner")).expect("a folder can be made");
    file(&allowed, "good.ttl", "<http://e/good> <http://e/p> 1 .");
    let secret = file(&here, "secret.ttl", "<http://e/secret> <http://e/p> 1 .");
    let link = |from: &str, to: &str| std::os::unix::fs::symlink(to, allowed.join(from)).expect("a link can be made");
    link("link.ttl", &secret);
    link("relative.ttl", "../secret.ttl");
    link("folder", text(&here));
    link("self", "self");
    link("zero.nt", "/dev/zero");
    let fifo = std::ffi::CString::new(text(&allowed.join("pipe.nt"))).expect("no zeros");
    #[expect(unsafe_code, reason = "std makes no pipes with names")]
    // SAFETY: the name is a string of C that lives until the call is over.
    let made = unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) };
    assert_eq!(made, 0);
    let server =
        Served::of(&here, &["--data", &data, "--open-updates", "--load-folder", text(&allowed), "--timeout", "5"]);
    let address = server.address;
    let each = Arc::clone(&server);
    suite.case("LOAD reads no file outside its folder", move || {
        let at = text(&allowed).to_owned();
        let mut count = 0;
        for url in [
            format!("file://{secret}"),
            format!("file://{at}/../secret.ttl"),
            format!("file://{at}/%2e%2e/secret.ttl"),
            format!("file://{at}/inner/../../secret.ttl"),
            format!("file://{at}/..%2fsecret.ttl"),
            format!("file://{at}/link.ttl"),
            format!("file://{at}/relative.ttl"),
            format!("file://{at}/folder/secret.ttl"),
            format!("file://{at}/self"),
            format!("file://{at}/zero.nt"),
            format!("file://{at}/pipe.nt"),
            format!("file://{at}/inner"),
            format!("file://{at}"),
            format!("file://{at}-other/secret.ttl"),
            format!("file://example.org{at}/good.ttl"),
            format!("file://{at}/good.ttl%00.ttl"),
            format!("FILE://{secret}"),
            "file:///etc/passwd".to_owned(),
            "file:///proc/self/environ".to_owned(),
            "file:secret.ttl".to_owned(),
        ] {
            for text in [
                format!("LOAD <{url}>"),
                format!("LOAD <{url}> INTO GRAPH <http://e/g>"),
                format!("LOAD SILENT <{url}>"),
            ] {
                let reply = Ask::update(&text).send(address);
                let is_silent = text.contains("SILENT") && reply.status == 204;
                assert!(
                    (400..500).contains(&reply.status) || is_silent,
                    "{text}: {} {}",
                    reply.status,
                    short(&shown(&reply))
                );
                assert!(!shown(&reply).contains("root:"), "{}", short(&shown(&reply)));
                count += 1;
            }
        }
        assert_eq!(
            each.number("SELECT (COUNT(*) AS ?n) { { <http://e/secret> ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"),
            0
        );
        let good = Ask::update(&format!("LOAD <file://{at}/good.ttl>")).send(address);
        assert_eq!(good.status, 204, "{}", shown(&good));
        format!("{count} updates")
    });
    server.close(suite, "files");
}
