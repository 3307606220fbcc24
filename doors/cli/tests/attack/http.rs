//! HTTP/1.1 and TLS: clients that are slow, many, or half gone, and bytes that are no request.

use crate::client::{Answer, Ask, Reply, connect};
use crate::served::{ENDLESS, Served, is_blameless, shown};
use crate::suite::{Suite, file, folder, short, until};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// How long a server waits for the head of a request, and for each piece of a body.
const PATIENCE: Duration = Duration::from_secs(10);
/// How late after its time a connection may be closed, on a machine with much else to do.
const LATE: Duration = Duration::from_secs(8);

pub(crate) fn attack(suite: &mut Suite) {
    let idle = 10_000;
    let files = may_open(idle + 1000);
    plain(suite);
    many(suite, idle.min(files.saturating_sub(1000)), files);
    tls(suite);
}

/// The response to these bytes: all answers until the connection is closed or silent for a while.
fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect(address);
    stream.set_read_timeout(Some(Duration::from_secs(25))).expect("it can be limited");
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

fn statuses(all: &str) -> Vec<u16> {
    all.split("HTTP/1.1 ")
        .skip(1)
        .filter_map(|rest| rest.get(..3)?.parse().ok())
        .filter(|status| *status != 100)
        .collect()
}

fn plain(suite: &mut Suite) {
    let server = Served::start("http", &["--open-updates", "--take-timeout", "2", "--max-body", "64M"]);
    let address = server.address;

    let each = Arc::clone(&server);
    suite.case("plain: slow heads and slow bodies are given up, and others are answered", move || {
        let begin = |bytes: &[u8]| {
            let mut stream = connect(address);
            stream.write_all(bytes).expect("it is sent");
            stream
        };
        let heads: Vec<TcpStream> = (0..100).map(|_| begin(b"GET /sparql HTTP/1.1\r\nX: ")).collect();
        let body = b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: \
            application/sparql-query\r\nContent-Length: 900000\r\n\r\nASK {} # ";
        let bodies: Vec<TcpStream> = (0..100).map(|_| begin(body)).collect();
        let (began, mut slowest) = (Instant::now(), Duration::ZERO);
        let is_closed = |stream: &TcpStream| {
            let mut bytes = [0; 256];
            stream.set_nonblocking(true).expect("it can be set");
            match (&*stream).read(&mut bytes) {
                Ok(0) => true,
                // An answer of 408 goes before the end.
                Ok(_) => false,
                Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
            }
        };
        let mut open: Vec<&TcpStream> = heads.iter().chain(&bodies).collect();
        while !open.is_empty() && began.elapsed() < 3 * PATIENCE + LATE {
            for stream in &open {
                let _ = (&mut &**stream).write(b"x");
            }
            std::thread::sleep(Duration::from_millis(400));
            slowest = slowest.max(each.is_well());
            open.retain(|stream| !is_closed(stream));
        }
        assert!(open.is_empty(), "{} of 200 are open after {:?}", open.len(), began.elapsed());
        format!("all were closed within {:.1?}, and a short query took {slowest:.1?} at most", began.elapsed())
    });

    suite.case("plain: a half-closed client gets its answer", move || {
        let long = "SELECT ?a ?b { ?a <http://e/p> ?n . ?b <http://e/p> ?m . FILTER(?m < 100) }";
        for ask in [Ask::query("ASK {}"), Ask::query(long), Ask::get("/"), Ask::update("INSERT DATA {}")] {
            let mut stream = connect(address);
            stream.write_all(&ask.bytes()).expect("it is sent");
            stream.shutdown(Shutdown::Write).expect("it can be");
            let reply = Answer::of(&mut stream, false).expect("it answers").rest();
            assert!(reply.status < 300 && reply.is_whole, "{ask:?}: {}", reply.status);
        }
        "4 of 4".to_owned()
    });

    suite.case("plain: pipelined requests are answered in order until one is none", move || {
        let asks =
            (0..1000).map(|n| Ask::query(&format!("SELECT ({n} AS ?n) {{}}")).with("accept", "text/csv").bytes());
        let mut bytes: Vec<u8> = asks.flatten().collect();
        bytes.extend(b"no request \r\n\r\n");
        bytes.extend(Ask::query("ASK {}").bytes());
        let mut stream = connect(address);
        let mut writer = stream.try_clone().expect("it can be shared");
        let writing = std::thread::spawn(move || writer.write_all(&bytes));
        let mut all = String::new();
        let _ = stream.read_to_string(&mut all);
        let _ = writing.join();
        let numbers: Vec<&str> =
            all.split("\r\n\r\nn\r\n").skip(1).filter_map(|rest| rest.split("\r\n").next()).collect();
        assert!(numbers.iter().enumerate().all(|(at, number)| *number == at.to_string()), "{numbers:?}");
        assert_eq!((numbers.len(), statuses(&all).last()), (1000, Some(&400)));
        "1000 answers, then 400".to_owned()
    });

    // RFC 9112, §6.1 and §6.3; RFC 9110, §8.6.
    let hidden = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let framed: &[(&str, String, &[u16])] = &[
        ("two lengths", "Content-Length: 6\r\nContent-Length: 0\r\n\r\nASK {}".to_owned(), &[400]),
        ("a length with a sign", "Content-Length: +6\r\n\r\nASK {}".to_owned(), &[400]),
        ("two lengths in one", "Content-Length: 6, 7\r\n\r\nASK {}".to_owned(), &[400]),
        ("a length in hexadecimal", "Content-Length: 0x6\r\n\r\nASK {}".to_owned(), &[400]),
        ("a space before the colon", "Content-Length : 6\r\n\r\nASK {}".to_owned(), &[400]),
        ("a folded line", "X: a\r\n b\r\nContent-Length: 6\r\n\r\nASK {}".to_owned(), &[400]),
        ("chunked is not last", "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n".to_owned(), &[400]),
        (
            "chunked twice",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(),
            &[400],
        ),
        ("xchunked", "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n".to_owned(), &[400, 501]),
        ("a vertical tab", "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n".to_owned(), &[400, 501]),
        ("no chunk", "Transfer-Encoding: chunked\r\n\r\nzz\r\n".to_owned(), &[400]),
        ("a chunk below nothing", "Transfer-Encoding: chunked\r\n\r\n-1\r\nA\r\n".to_owned(), &[400]),
        (
            "a chunk beyond 64 bits",
            "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nA\r\n".to_owned(),
            &[400, 413],
        ),
        ("a chunk of 64 bits", "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\nA\r\n".to_owned(), &[400, 413]),
        ("a chunk without its end", "Transfer-Encoding: chunked\r\n\r\n6\r\nASK {}0\r\n\r\n".to_owned(), &[400]),
        (
            "a long extension",
            format!("Transfer-Encoding: chunked\r\n\r\n6;{}\r\nASK {{}}\r\n0\r\n\r\n", "x".repeat(1 << 20)),
            &[400],
        ),
        (
            "long trailers",
            format!("Transfer-Encoding: chunked\r\n\r\n6\r\nASK {{}}\r\n0\r\n{}\r\n", "X: y\r\n".repeat(200_000)),
            &[400, 431],
        ),
        ("a body that ends early", "Content-Length: 600\r\n\r\nASK {}".to_owned(), &[400]),
    ];
    for (name, rest, expected) in framed {
        let (bytes, expected) = (
            format!(
                "POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\n{rest}{hidden}"
            ),
            *expected,
        );
        let is_short = *name == "a body that ends early";
        let bytes = if is_short { bytes.replace(hidden, "") } else { bytes };
        suite.case(&format!("plain: {name}"), move || {
            let all = raw(address, bytes.as_bytes());
            let got = statuses(&all);
            // A connection that is closed without an answer refuses as well.
            assert!(got.is_empty() || (got.len() == 1 && expected.contains(&got[0])), "{got:?}: {}", short(&all));
            format!("{got:?}")
        });
    }
    suite.case("plain: of a length and chunks, chunks count", move || {
        // Behind the last chunk is the next request; by the length, it would be a part of the body.
        let rest = format!(
            "Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nASK {{}}\r\n0\r\n\r\n{hidden}",
            16 + hidden.len()
        );
        let head = "POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\n";
        let got = statuses(&raw(address, format!("{head}{rest}").as_bytes()));
        assert!(got == [400] || got == [200] || got == [200, 200], "{got:?}");
        format!("{got:?}")
    });

    let member = |bytes: usize| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(&vec![b' '; bytes]).expect("memory takes it");
        packer.finish().expect("memory takes it")
    };
    // RFC 8878, §3.1.1: a window of 2 GiB, and blocks of one byte that is repeated 128 KiB times.
    let mut zstd = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3];
    let mut small = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 13 << 3];
    for frame in [&mut zstd, &mut small] {
        let block = u32::to_le_bytes((128 << 10) << 3 | 1 << 1);
        (0..32_768).for_each(|_| frame.extend([block[0], block[1], block[2], b' ']));
        frame.extend([1 | 1 << 1, 0, 0, b' ']);
    }
    let bombs = [
        ("gzip", "one member of 1 GiB", member(1 << 30)),
        ("gzip", "64 members of 64 MiB", member(64 << 20).repeat(64)),
        ("zstd", "a window of 2 GiB", zstd),
        ("zstd", "4 GiB in blocks of one byte", small),
        ("zstd", "nonsense", b"\x28\xb5\x2f\xfd\xff\xff\xff\xff\xff".to_vec()),
        ("gzip", "nonsense", b"\x1f\x8b\x08\xff\xff\xff\xff\xff\xff".to_vec()),
    ];
    for (coding, name, bomb) in bombs {
        suite.case(&format!("plain: a bomb of {coding}, {name}"), move || {
            let mut got = Vec::new();
            for (target, media_type) in [
                ("/update", "application/sparql-update"),
                ("/sparql", "application/x-www-form-urlencoded"),
                ("/store?graph=http://e/g", "text/turtle"),
                ("/store?graph=http://e/g", "multipart/form-data; boundary=b"),
                ("/sql", "application/sql"),
            ] {
                let method = if media_type == "text/turtle" { "PUT" } else { "POST" };
                let ask = Ask::new(method, target).with("content-type", media_type).with("content-encoding", coding);
                let reply = ask.body(bomb.clone()).send(address);
                assert!((400..500).contains(&reply.status), "{target}: {} {}", reply.status, shown(&reply));
                got.push(reply.status);
            }
            format!("{got:?} for {} KiB", bomb.len() >> 10)
        });
    }

    suite.case("plain: a parameter a million times, and long ones", move || {
        let mut got = Vec::new();
        for body in [
            "query=ASK+%7B%7D&".repeat(1_000_000),
            "a=b&".repeat(2_000_000),
            "%".repeat(1_000_000),
            "=&".repeat(1_000_000),
            format!("query={}", "%28".repeat(1_000_000)),
            format!("query=ASK+%7B%7D&{}", "default-graph-uri=http://e/g&".repeat(300_000)),
        ] {
            let reply = Ask::post("/sparql", "application/x-www-form-urlencoded", body).send(address);
            is_blameless("a form", &reply);
            got.push(reply.status);
        }
        format!("{got:?}")
    });
    server.close(suite, "plain");
}

/// Idle connections, up to the limit.
fn many(suite: &mut Suite, count: usize, files: usize) {
    let server = Served::start("many", &[]);
    let address = server.address;
    let each = Arc::clone(&server);
    suite.case("plain: 10,000 idle connections", move || {
        let before = each.held();
        let ask = Ask::query("ASK {}").bytes();
        let mut open = Vec::new();
        for number in 0..count {
            let mut stream = connect(address);
            // Half of them have asked before.
            if number % 2 == 0 {
                stream.write_all(&ask).expect("it is sent");
            }
            open.push(stream);
        }
        let slowest = (0..50).map(|_| each.is_well()).max().expect("there are some");
        let (grown, most) = (each.held().bytes.saturating_sub(before.bytes), each.held().files);
        assert!(grown < count as u64 * (24 << 10), "{} KiB for each", grown / 1024 / count as u64);
        drop(open);
        assert!(until(Duration::from_secs(30), || each.held().files < before.files + 10), "{:?}", each.held());
        let less = if count < 10_000 { format!(" (this process may open {files} files)") } else { String::new() };
        format!(
            "{count} of them{less}, {most} files, {} KiB for each, a query took {slowest:.1?}",
            grown / 1024 / count as u64
        )
    });
    server.close(suite, "plain: many");
}

/// Raises the limit of open files, for this process and its children; returns the new one.
fn may_open(wanted: usize) -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    #[expect(unsafe_code, reason = "asks the system for a limit")]
    // SAFETY: the pointer is to a local variable.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit)
    };
    let soft = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max.min(wanted.max(4096) as u64).max(soft);
    #[expect(unsafe_code, reason = "sets a limit of this process")]
    // SAFETY: the pointer is to a local variable.
    let done = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    usize::try_from(if done == 0 { limit.rlim_cur } else { soft }).unwrap_or(usize::MAX)
}

/// A server with a certificate made here.
pub(crate) struct Tls {
    pub(crate) server: Arc<Served>,
    certificate: CertificateDer<'static>,
}

impl Tls {
    pub(crate) fn start(name: &str, args: &[&str]) -> Tls {
        let here = folder(&format!("{name}-certificate"));
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("it can be made");
        let certificate = file(&here, "cert.pem", made.cert.pem());
        let key = file(&here, "key.pem", made.signing_key.serialize_pem());
        let server = Served::start(name, &[&["--tls-cert", &certificate, "--tls-key", &key], args].concat());
        Tls { server, certificate: made.cert.der().clone() }
    }

    pub(crate) fn connector(&self) -> Connector {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).expect("a certificate");
        Connector { roots, address: self.server.address }
    }
}

/// Connects to a server by TLS, on any thread.
#[derive(Clone)]
pub(crate) struct Connector {
    roots: RootCertStore,
    pub(crate) address: SocketAddr,
}

pub(crate) type Secured = StreamOwned<ClientConnection, TcpStream>;

impl Connector {
    pub(crate) fn connect(&self, protocol: &str) -> Secured {
        let mut config = ClientConfig::builder().with_root_certificates(self.roots.clone()).with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("it can begin");
        StreamOwned::new(connection, connect(self.address))
    }

    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = Ask::get("/metrics").over(&mut self.connect("http/1.1")).expect("it answers").text();
        let line = text.lines().find(|line| line.split([' ', '{']).next() == Some(name));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).expect("it is there") as u64
    }

    fn is_well(&self) {
        let reply = Ask::query("ASK {}").over(&mut self.connect("http/1.1")).expect("it answers");
        assert_eq!(reply.status, 200);
    }
}

fn tls(suite: &mut Suite) {
    let tls = Tls::start("tls", &["--take-timeout", "2"]);
    let connector = tls.connector();
    let address = connector.address;

    let each = connector.clone();
    suite.case("tls: plain text, half a hello and nonsense are closed", move || {
        let cases: [(&str, Vec<u8>); 6] = [
            ("plain text", Ask::query("ASK {}").bytes()),
            ("plain text of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
            ("a record of 64 KiB", [&[22, 3, 1, 255, 255][..], &[1; 70_000]].concat()),
            ("half a hello", vec![22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3, 0, 0, 0]),
            ("an alert", vec![21, 3, 3, 0, 2, 2, 40]),
            ("nothing", Vec::new()),
        ];
        let mut took = Vec::new();
        for (name, bytes) in cases {
            let mut stream = connect(address);
            let _ = stream.write_all(&bytes);
            let (began, mut all) = (Instant::now(), Vec::new());
            let _ = stream.read_to_end(&mut all);
            assert!(began.elapsed() < PATIENCE + LATE, "{name}: {:?}", began.elapsed());
            assert!(!all.starts_with(b"HTTP"), "{name}: {}", String::from_utf8_lossy(&all));
            took.push(format!("{name} {:.1?}", began.elapsed()));
            each.is_well();
        }
        took.join(", ")
    });

    let each = connector.clone();
    suite.case("tls: a half-closed client gets its answer", move || {
        let long = "SELECT ?a ?b { ?a <http://e/p> ?n . ?b <http://e/p> ?m . FILTER(?m < 100) }";
        for (ask, shuts) in [(Ask::query("ASK {}"), true), (Ask::query(long), true), (Ask::query(long), false)] {
            let mut stream = each.connect("http/1.1");
            stream.write_all(&ask.bytes()).expect("it is sent");
            stream.conn.send_close_notify();
            stream.flush().expect("it is sent");
            if shuts {
                stream.sock.shutdown(Shutdown::Write).expect("it can be");
            }
            let reply: Reply = Answer::of(&mut stream, false).unwrap_or_else(|error| panic!("{ask:?}: {error}")).rest();
            assert!(reply.status == 200 && reply.is_whole, "{ask:?}: {}", reply.status);
        }
        "3 of 3".to_owned()
    });

    suite.case("tls: a client that takes nothing is broken off", move || {
        let mut stream = connector.connect("http/1.1");
        stream.write_all(&Ask::query(ENDLESS).bytes()).expect("it is sent");
        stream.flush().expect("it is sent");
        assert!(until(Duration::from_secs(5), || connector.metric("vicus_requests_running") == 1), "it runs");
        let began = Instant::now();
        let ends = until(Duration::from_secs(2) + LATE, || connector.metric("vicus_requests_running") == 0);
        assert!(ends, "it runs after {:?}", began.elapsed());
        format!("after {:.1?}", began.elapsed())
    });

    tls.server.close(suite, "tls");
}
