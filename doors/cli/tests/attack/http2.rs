//! HTTP/2, its frames built byte by byte (RFC 9113; fields by RFC 7541): floods, resets, wrong fields, windows that
//! stay closed.

use crate::client::{connect, escaped};
use crate::http::Tls;
use crate::served::{ENDLESS, SILENT, Served};
use crate::suite::{Suite, until};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW: u8 = 8;
const CONTINUATION: u8 = 9;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// SETTINGS_INITIAL_WINDOW_SIZE.
const INITIAL_WINDOW: u16 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A number with a prefix of seven bits (RFC 7541, §5.1).
fn length(mut number: usize, bytes: &mut Vec<u8>) {
    if number < 127 {
        bytes.push(number as u8);
        return;
    }
    bytes.push(127);
    number -= 127;
    while number >= 128 {
        bytes.push(number as u8 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Literal fields without indexing (RFC 7541, §6.2.2).
fn fields(all: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in all {
        bytes.push(0);
        length(name.len(), &mut bytes);
        bytes.extend(name.as_bytes());
        length(value.len(), &mut bytes);
        bytes.extend(value.as_bytes());
    }
    bytes
}

fn request(path: &str) -> Vec<u8> {
    fields(&[(":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", path)])
}

fn query(text: &str) -> Vec<u8> {
    request(&format!("/sparql?query={}", escaped(text)))
}

/// The bytes of a connection with a request for a query.
pub(crate) fn asking(text: &str) -> Vec<u8> {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    [preface, frame(SETTINGS, 0, 0, &[]), frame(HEADERS, END_HEADERS | END_STREAM, 1, &query(text))].concat()
}

/// A received frame.
#[derive(Debug)]
struct Came {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// A connection; each of its frames is seen.
struct Client<S> {
    stream: S,
    buffer: Vec<u8>,
}

impl<S: Read + Write> Client<S> {
    /// Opens it with these settings.
    fn open(stream: S, settings: &[(u16, u32)]) -> Client<S> {
        let mut client = Client { stream, buffer: Vec::new() };
        let values = settings.iter().flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat());
        let values: Vec<u8> = values.collect();
        client.send(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &values)].concat());
        client
    }

    /// Sends bytes; false if the connection is closed.
    fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).and_then(|()| self.stream.flush()).is_ok()
    }

    /// The next frame; none when the connection is closed. Settings and pings are answered.
    fn next(&mut self) -> Option<Came> {
        loop {
            if self.buffer.len() >= 9 {
                let head = &self.buffer[..9];
                let count = 9 + u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                if self.buffer.len() >= count {
                    let bytes: Vec<u8> = self.buffer.drain(..count).collect();
                    let stream = u32::from_be_bytes([bytes[5], bytes[6], bytes[7], bytes[8]]);
                    let came = Came { kind: bytes[3], flags: bytes[4], stream, payload: bytes[9..].to_vec() };
                    if matches!(came.kind, SETTINGS | PING) && came.flags & ACK == 0 {
                        let echo = if came.kind == PING { &came.payload[..] } else { &[] };
                        self.send(&frame(came.kind, ACK, 0, echo));
                    }
                    return Some(came);
                }
            }
            let mut bytes = [0; 16 << 10];
            match self.stream.read(&mut bytes) {
                Ok(count @ 1..) => self.buffer.extend_from_slice(&bytes[..count]),
                _ => return None,
            }
        }
    }

    /// Waits until the stream is reset or the connection closed; returns how, or a good end.
    fn is_let_go(&mut self, stream: u32) -> String {
        while let Some(came) = self.next() {
            match came.kind {
                RESET if came.stream == stream => return format!("reset {}", code(&came.payload, 0)),
                GO_AWAY => return format!("go away {}", code(&came.payload, 4)),
                DATA | HEADERS if came.flags & END_STREAM != 0 => return "answered".to_owned(),
                _ => {}
            }
        }
        "closed".to_owned()
    }

    /// How this stream ends: the first byte of its fields, and its data; or how it was refused.
    fn ends(&mut self, stream: u32) -> String {
        let mut data = 0;
        while let Some(came) = self.next() {
            match came.kind {
                DATA if came.stream == stream => data += came.payload.len(),
                RESET if came.stream == stream => return format!("reset {}", code(&came.payload, 0)),
                GO_AWAY => return format!("go away {}", code(&came.payload, 4)),
                HEADERS if came.stream == stream => {
                    // Of 200, 400 and others that are in the static table, the index is the status (RFC 7541, appendix
                    // A).
                    let status = match came.payload.first().copied().unwrap_or(0) {
                        0x88 => "200".to_owned(),
                        0x8c => "400".to_owned(),
                        0x8d => "404".to_owned(),
                        _ => "another status".to_owned(),
                    };
                    if came.flags & END_STREAM != 0 || status != "200" {
                        return status;
                    }
                }
                _ => {}
            }
            if came.flags & END_STREAM != 0 && came.stream == stream && came.kind == DATA {
                return format!("200 with {data} bytes");
            }
        }
        "closed".to_owned()
    }
}

fn code(payload: &[u8], at: usize) -> u32 {
    payload.get(at..at + 4).map_or(0, |code| u32::from_be_bytes([code[0], code[1], code[2], code[3]]))
}

pub(crate) fn attack(suite: &mut Suite) {
    let server = Served::start("http2", &["--take-timeout", "2", "--open-updates"]);
    let address = server.address;
    let at = move |settings: &[(u16, u32)]| Client::open(connect(address), settings);

    suite.case("a request is answered", move || {
        let mut client = at(&[]);
        client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &query("ASK {}")));
        let came = client.ends(1);
        assert!(came.starts_with("200 with"), "{came}");
        came
    });

    for (name, wrong) in wrong_fields() {
        suite.case(&format!("fields: {name}"), move || {
            let mut client = at(&[]);
            client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &wrong));
            let came = client.ends(1);
            assert!(!came.starts_with("200"), "{came}");
            came
        });
    }

    type Flood = (&'static str, fn(u32) -> Vec<u8>, u32);
    let floods: [Flood; 9] = [
        (
            "rapid resets",
            |n| {
                [
                    frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &query(SILENT)),
                    frame(RESET, 0, 2 * n + 1, &[0, 0, 0, 8]),
                ]
                .concat()
            },
            50_000,
        ),
        (
            "resets of short queries",
            |n| {
                [
                    frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &query("ASK {}")),
                    frame(RESET, 0, 2 * n + 1, &[0, 0, 0, 8]),
                ]
                .concat()
            },
            50_000,
        ),
        (
            "requests that the server must reset",
            |n| frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &fields(&[(":method", "GET")])),
            50_000,
        ),
        ("settings", |_| frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 255, 255]), 200_000),
        ("pings", |n| frame(PING, 0, 0, &u64::from(n).to_be_bytes()), 200_000),
        (
            "empty data",
            |n| {
                if n == 0 {
                    frame(
                        HEADERS,
                        END_HEADERS,
                        1,
                        &fields(&[
                            (":method", "POST"),
                            (":scheme", "http"),
                            (":authority", "localhost"),
                            (":path", "/sparql"),
                            ("content-type", "application/sparql-query"),
                        ]),
                    )
                } else {
                    frame(DATA, 0, 1, &[])
                }
            },
            200_000,
        ),
        ("windows of one byte", |_| frame(WINDOW, 0, 0, &[0, 0, 0, 1]), 200_000),
        ("priorities", |n| frame(2, 0, 2 * n + 1, &[0, 0, 0, 0, 16]), 200_000),
        (
            "fields without an end",
            |n| {
                if n == 0 {
                    frame(HEADERS, END_STREAM, 1, &request("/"))
                } else {
                    frame(CONTINUATION, 0, 1, &fields(&[("x", &"y".repeat(8000))]))
                }
            },
            20_000,
        ),
    ];
    for (name, next, count) in floods {
        let each = Arc::clone(&server);
        suite.case(&format!("flood of {name}"), move || {
            let before = each.held().bytes;
            let mut clients: Vec<_> = (0..4).map(|_| at(&[])).collect();
            let mut sent = vec![0; clients.len()];
            let (began, longest) = (Instant::now(), Duration::from_secs(15));
            for (client, sent) in clients.iter_mut().zip(&mut sent) {
                // A server may stop reading from one that does not read.
                client.stream.set_write_timeout(Some(Duration::from_secs(2))).expect("it can be limited");
                let mut number = 0;
                while number < count && began.elapsed() < longest {
                    let bytes: Vec<u8> = (number..number + 100).flat_map(next).collect();
                    if !client.send(&bytes) {
                        break;
                    }
                    number += 100;
                }
                *sent = number;
            }
            let slowest = each.is_well();
            let grown = each.held().bytes.saturating_sub(before);
            assert!(grown < 128 << 20, "{} MiB", grown >> 20);
            drop(clients);
            let idle = each.is_idle_within(Duration::from_secs(10));
            format!(
                "{sent:?} of {count} were sent, {} MiB, a query took {slowest:.1?}, idle after {idle:.1?}",
                grown >> 20
            )
        });
    }

    let each = Arc::clone(&server);
    suite.case("an entry of the table that is named 100,000 times", move || {
        let mut client = at(&[]);
        // With incremental indexing (RFC 7541, §6.2.1): an entry of 4,000 bytes, and then one byte for each copy.
        let mut bytes = request("/health");
        bytes.extend([0x40, 1, b'x']);
        length(3900, &mut bytes);
        bytes.extend([b'y'; 3900]);
        bytes.extend([0xbe; 12_000]);
        client.send(&frame(HEADERS, END_STREAM, 1, &bytes));
        for n in 0..8 {
            client.send(&frame(CONTINUATION, if n == 7 { END_HEADERS } else { 0 }, 1, &[0xbe; 12_000]));
        }
        let came = client.ends(1);
        assert!(!came.starts_with("200"), "{came}");
        each.is_well();
        came
    });

    let each = Arc::clone(&server);
    suite.case("more streams than may be", move || {
        let mut client = at(&[(INITIAL_WINDOW, 0)]);
        for n in 0..1000 {
            if !client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &query(ENDLESS))) {
                break;
            }
        }
        let running = each.metric("vicus_requests_running");
        assert!(running <= 64, "{running} run");
        drop(client);
        format!("{running} ran, idle after {:.1?}", each.is_idle_within(Duration::from_secs(10)))
    });

    // What happened: a client that gave no window for a small answer, and answered pings, stayed for ever with it.
    let asks = [
        ("an answer as a whole", query("SELECT * { ?s ?p ?o } LIMIT 100")),
        ("a kept answer", query("SELECT * { ?s ?p ?o } LIMIT 100")),
        ("an error", query("SELECT")),
        ("the page", request("/")),
        ("an endless answer", query(ENDLESS)),
    ];
    for window in [0, 1] {
        for (name, fields) in asks.clone() {
            suite.case(&format!("{name}, for which the window is {window}"), move || {
                let mut client = at(&[(INITIAL_WINDOW, window)]);
                client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &fields));
                client.stream.set_read_timeout(Some(Duration::from_secs(10))).expect("it can be limited");
                let began = Instant::now();
                let came = client.is_let_go(1);
                let took = began.elapsed();
                // Shorter than the ten seconds of the reader: it was closed or reset by the server.
                assert!(took < Duration::from_secs(8) && took > Duration::from_millis(1500), "{came} after {took:.1?}");
                assert_ne!(came, "answered", "the window is closed");
                format!("{came} after {took:.1?}")
            });
        }
    }

    suite.case("a slow taker of a window gets its answer", move || {
        let mut client = at(&[(INITIAL_WINDOW, 100)]);
        client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &query("SELECT * { ?s ?p ?o } LIMIT 30")));
        let began = Instant::now();
        let mut data = 0;
        loop {
            let came = client.next().expect("it is not closed");
            if came.kind == DATA {
                data += came.payload.len();
                if came.flags & END_STREAM != 0 {
                    break;
                }
                std::thread::sleep(Duration::from_millis(200));
                client.send(&frame(WINDOW, 0, 1, &[0, 0, 0, 100]));
            }
        }
        assert!(began.elapsed() > Duration::from_secs(3), "it was slow: {:?}", began.elapsed());
        format!("{data} bytes in {:.1?}", began.elapsed())
    });
    server.close(suite, "frames");

    let tls = Tls::start("http2-tls", &["--take-timeout", "2"]);
    let connector = tls.connector();
    suite.case("over TLS: a client that gives no window is broken off", move || {
        for text in [ENDLESS, "ASK {}"] {
            let mut client = Client::open(connector.connect("h2"), &[(INITIAL_WINDOW, 0)]);
            client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &query(text)));
            client.stream.sock.set_read_timeout(Some(Duration::from_secs(10))).expect("it can be limited");
            let began = Instant::now();
            let came = client.is_let_go(1);
            assert!(began.elapsed() < Duration::from_secs(8), "{text}: {came} after {:.1?}", began.elapsed());
            let is_idle = until(Duration::from_secs(5), || connector.metric("vicus_requests_running") == 0);
            assert!(is_idle, "{text} runs");
        }
        "2 of 2".to_owned()
    });
    tls.server.close(suite, "tls");
}

/// What is no request (RFC 9113, §8.2, §8.3).
fn wrong_fields() -> Vec<(&'static str, Vec<u8>)> {
    let good = [(":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", "/health")];
    let with = |more: &[(&'static str, &'static str)]| fields(&[&good[..], more].concat());
    vec![
        ("no path", fields(&good[..3])),
        ("no method", fields(&good[1..])),
        ("no scheme", fields(&[good[0], good[2], good[3]])),
        ("an empty path", fields(&[good[0], good[1], good[2], (":path", "")])),
        ("a path without a slash", fields(&[good[0], good[1], good[2], (":path", "health")])),
        ("a method twice", with(&[(":method", "POST")])),
        ("a path twice", with(&[(":path", "/update")])),
        ("an unknown pseudo-header", with(&[(":origin", "x")])),
        ("a status", with(&[(":status", "200")])),
        ("a pseudo-header behind others", fields(&[good[0], good[1], good[2], ("x", "y"), good[3]])),
        ("an upper-case name", with(&[("X-Y", "z")])),
        ("an empty name", with(&[("", "z")])),
        ("a connection", with(&[("connection", "close")])),
        ("a transfer-encoding", with(&[("transfer-encoding", "chunked")])),
        ("a te that is not trailers", with(&[("te", "gzip")])),
        ("a line break in a value", with(&[("x", "a\r\nb: c")])),
        ("a zero in a value", with(&[("x", "a\0b")])),
        ("an index beyond the table", [fields(&good), vec![0xff, 0xff, 0xff, 0xff, 0x0f]].concat()),
        ("another host", fields(&[good[0], good[1], (":authority", "evil.example"), good[3]])),
        (
            "a host beside another",
            fields(&[good[0], good[1], (":authority", "evil.example"), good[3], ("host", "localhost")]),
        ),
        ("a method with a space", fields(&[(":method", "GET /"), good[1], good[2], good[3]])),
    ]
}
