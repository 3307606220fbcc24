//! HTTP/1.1 as a client needs it: requests as bytes, and responses parsed as their bytes arrive.

use anyhow::{Context, bail, ensure};
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// What a head may have at most.
const HEAD_BYTES: usize = 64 << 10;

/// A GET of a query, on a connection that stays open.
pub(crate) fn request(port: u16, path: &str, parameters: &str, query: &str, accept: &str) -> Vec<u8> {
    let query = percent(query);
    format!(
        "GET {path}?{parameters}query={query} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: {accept}\r\n\
         User-Agent: vicus-bench\r\n\r\n"
    )
    .into_bytes()
}

/// Encodes a form value: all but unreserved characters become `%XX`.
pub(crate) fn percent(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'.' | b'_' => encoded.push(char::from(byte)),
            _ => write!(encoded, "%{byte:02X}").expect("a string takes everything"),
        }
    }
    encoded
}

/// A response as far as it has arrived.
#[derive(Default)]
pub(crate) struct Parser {
    state: State,
    /// The head, or the line of a chunk's length.
    line: Vec<u8>,
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    /// The connection can't be used again.
    pub(crate) closes: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum State {
    #[default]
    Head,
    /// So many bytes of a body with a length.
    Length(u64),
    ChunkLine,
    Chunk(u64),
    /// The line end behind a chunk.
    ChunkEnd,
    Trailer,
    UntilClose,
    Done,
}

impl Parser {
    /// Takes bytes of one response, and hands those of its body on. Whether the response is whole.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], body: &mut dyn FnMut(&[u8])) -> anyhow::Result<bool> {
        while !bytes.is_empty() {
            match self.state {
                State::Done => bail!("bytes came behind the response"),
                State::Head => {
                    let before = self.line.len();
                    self.line.extend_from_slice(bytes);
                    let from = before.saturating_sub(3);
                    match self.line[from..].windows(4).position(|four| four == b"\r\n\r\n") {
                        Some(place) => {
                            let end = from + place + 4;
                            bytes = &bytes[end - before..];
                            self.line.truncate(end);
                            self.read_head()?;
                            self.line.clear();
                        }
                        None => {
                            ensure!(self.line.len() < HEAD_BYTES, "the head of a response is too long");
                            bytes = &[];
                        }
                    }
                }
                State::Length(left) | State::Chunk(left) => {
                    let taken = left.min(bytes.len() as u64);
                    let (piece, rest) = bytes.split_at(taken as usize);
                    body(piece);
                    self.body_bytes += taken;
                    bytes = rest;
                    self.state = match (self.state, left - taken) {
                        (State::Length(_), 0) => State::Done,
                        (State::Length(_), left) => State::Length(left),
                        (_, 0) => State::ChunkEnd,
                        (_, left) => State::Chunk(left),
                    };
                }
                State::UntilClose => {
                    body(bytes);
                    self.body_bytes += bytes.len() as u64;
                    bytes = &[];
                }
                State::ChunkLine | State::ChunkEnd | State::Trailer => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let (piece, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
                    self.line.extend_from_slice(piece);
                    ensure!(self.line.len() < HEAD_BYTES, "a chunk's line is too long");
                    bytes = rest;
                    if end.is_some() {
                        self.read_line()?;
                        self.line.clear();
                    }
                }
            }
        }
        Ok(self.state == State::Done)
    }

    /// The connection was closed by the server. Whether the response is whole.
    pub(crate) fn close(&mut self) -> bool {
        self.closes = true;
        matches!(self.state, State::UntilClose | State::Done)
    }

    fn read_line(&mut self) -> anyhow::Result<()> {
        let line = self.line.trim_ascii();
        self.state = match self.state {
            State::ChunkLine => {
                let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
                let digits = std::str::from_utf8(digits)?;
                match u64::from_str_radix(digits, 16).with_context(|| format!("`{digits}` is no length of a chunk"))? {
                    0 => State::Trailer,
                    length => State::Chunk(length),
                }
            }
            State::ChunkEnd => State::ChunkLine,
            _ if line.is_empty() => State::Done,
            state => state,
        };
        Ok(())
    }

    fn read_head(&mut self) -> anyhow::Result<()> {
        let head = std::str::from_utf8(&self.line)?;
        let mut lines = head.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        self.status = status.with_context(|| format!("`{first}` has no status"))?;
        self.closes = first.starts_with("HTTP/1.0");
        self.state = State::UntilClose;
        for line in lines {
            let Some((name, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                self.state = match value.parse()? {
                    0 => State::Done,
                    length => State::Length(length),
                };
            } else if name.eq_ignore_ascii_case("transfer-encoding") && value.eq_ignore_ascii_case("chunked") {
                self.state = State::ChunkLine;
            } else if name.eq_ignore_ascii_case("connection") {
                self.closes = value.eq_ignore_ascii_case("close");
            }
        }
        if matches!(self.status, 204 | 304) {
            self.state = State::Done;
        }
        Ok(())
    }
}

/// How a single request ended.
pub(crate) enum Fetched {
    Whole {
        status: u16,
        time: Duration,
        bytes: u64,
    },
    /// It took longer than the limit.
    Cut,
}

/// Sends a request on a connection of its own and reads the whole response.
pub(crate) fn fetch(
    port: u16,
    request: &[u8],
    limit: Duration,
    body: &mut dyn FnMut(&[u8]),
) -> anyhow::Result<Fetched> {
    let began = Instant::now();
    let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    stream.set_nodelay(true)?;
    stream.write_all(request)?;
    let (mut parser, mut piece) = (Parser::default(), vec![0; 256 << 10]);
    loop {
        let left = limit.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Ok(Fetched::Cut);
        }
        stream.set_read_timeout(Some(left))?;
        let whole = match stream.read(&mut piece) {
            Ok(0) => {
                ensure!(parser.close(), "the server closed the connection in the middle of a response");
                true
            }
            Ok(length) => parser.feed(&piece[..length], body)?,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(Fetched::Cut);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        if whole {
            return Ok(Fetched::Whole { status: parser.status, time: began.elapsed(), bytes: parser.body_bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body and whether the response is whole, for pieces of this many bytes.
    fn parse(text: &str, size: usize) -> (String, bool) {
        let (mut parser, mut body, mut whole) = (Parser::default(), Vec::new(), false);
        for piece in text.as_bytes().chunks(size) {
            whole = parser.feed(piece, &mut |bytes| body.extend_from_slice(bytes)).unwrap();
        }
        (String::from_utf8(body).unwrap(), whole)
    }

    #[test]
    fn a_response_ends_where_its_head_says_however_it_is_cut() {
        for size in 1..64 {
            let length = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
            assert_eq!(parse(length, size), ("hello".to_owned(), true));
            let chunks =
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nA: b\r\n\r\n";
            assert_eq!(parse(chunks, size), ("hello!".to_owned(), true));
            assert_eq!(parse(&chunks[..chunks.len() - 2], size), ("hello!".to_owned(), false));
            assert_eq!(parse("HTTP/1.1 200 OK\r\n\r\nhello", size), ("hello".to_owned(), false));
        }
    }
}
