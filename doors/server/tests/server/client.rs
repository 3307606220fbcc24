//! A blocking client of HTTP/1.1. It tells whether an answer came to its end, and shares no code with the server.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A request. Its target is sent as it is, however odd.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Ask {
    pub(crate) fn new(method: &str, target: &str) -> Ask {
        Ask { method: method.to_owned(), target: target.to_owned(), headers: Vec::new(), body: None }
    }

    pub(crate) fn get(target: &str) -> Ask {
        Ask::new("GET", target)
    }

    pub(crate) fn post(target: &str, media_type: &str, body: impl Into<Vec<u8>>) -> Ask {
        Ask::new("POST", target).with("content-type", media_type).body(body)
    }

    /// A query in the URL.
    pub(crate) fn query(text: &str) -> Ask {
        Ask::get(&format!("/sparql?query={}", escaped(text)))
    }

    /// An update, as a body of its own type.
    pub(crate) fn update(text: &str) -> Ask {
        Ask::post("/update", "application/sparql-update", text)
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Ask {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// One parameter more in the URL.
    pub(crate) fn parameter(mut self, name: &str, value: &str) -> Ask {
        let sign = if self.target.contains('?') { '&' } else { '?' };
        self.target.push_str(&format!("{sign}{name}={}", escaped(value)));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Ask {
        self.body = Some(body.into());
        self
    }

    /// The bytes on the wire. `Host` and `Content-Length` are added unless the request has its own.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let has = |name: &str| self.headers.iter().any(|(each, _)| each.eq_ignore_ascii_case(name));
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        if !has("host") {
            head.push_str("Host: localhost\r\n");
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = self.body.as_ref().filter(|_| !has("content-length") && !has("transfer-encoding")) {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }

    /// Sends it over a connection of its own, and reads the whole answer.
    pub(crate) fn send(&self, address: SocketAddr) -> Reply {
        self.open(address).rest()
    }

    /// Sends it, and reads the head of its answer.
    pub(crate) fn open(&self, address: SocketAddr) -> Answer<TcpStream> {
        let mut stream = connect(address);
        // A server that refuses a body need not read it.
        let _ = stream.write_all(&self.bytes());
        Answer::of(stream, self.method == "HEAD").expect("a head of an answer")
    }

    /// The exchange over an open connection, which is left for the next request if the answer permits it.
    pub(crate) fn over<S: Read + Write>(&self, stream: &mut S) -> io::Result<Reply> {
        stream.write_all(&self.bytes())?;
        Ok(Answer::of(stream, self.method == "HEAD")?.rest())
    }
}

/// A connection; a read of a minute fails.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("it can be limited");
    stream.set_nodelay(true).expect("it can be set");
    stream
}

/// For a parameter's value.
pub(crate) fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(each, _)| each.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Without its parameters.
    pub(crate) fn media_type(&self) -> &str {
        self.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default()
    }
}

/// An answer as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reply {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    /// Whether the body came to its end.
    pub(crate) is_whole: bool,
}

impl std::ops::Deref for Reply {
    type Target = Head;

    fn deref(&self) -> &Head {
        &self.head
    }
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("an answer is UTF-8")
    }
}

/// How long a body is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Length {
    /// The number of bytes left.
    Bytes(u64),
    Chunked,
    /// Until the connection closes.
    Open,
    Ended,
    Broken,
}

/// An answer with its head read.
pub(crate) struct Answer<S> {
    pub(crate) head: Head,
    stream: S,
    /// Bytes read ahead.
    buffer: Vec<u8>,
    length: Length,
}

impl<S: Read> Answer<S> {
    /// Reads the head. The answer to `HEAD` has no body, whatever its head says.
    pub(crate) fn of(stream: S, is_head: bool) -> io::Result<Answer<S>> {
        let mut answer =
            Answer { head: Head { status: 0, headers: Vec::new() }, stream, buffer: Vec::new(), length: Length::Open };
        loop {
            let head = answer.read_head()?;
            // 100 (Continue) goes before the answer.
            if head.status >= 200 {
                answer.head = head;
                break;
            }
        }
        let head = &answer.head;
        let chunked = head.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
        answer.length = match head.header("content-length").and_then(|length| length.parse().ok()) {
            _ if is_head || head.status == 204 || head.status == 304 => Length::Ended,
            _ if chunked => Length::Chunked,
            Some(0) => Length::Ended,
            Some(bytes) => Length::Bytes(bytes),
            None => Length::Open,
        };
        Ok(answer)
    }

    fn read_head(&mut self) -> io::Result<Head> {
        let end = loop {
            match self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(end) => break end,
                None if self.fill()? => {}
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        };
        let text = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
        self.buffer.drain(..end + 4);
        let mut lines = text.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("`{first}` is no status line")))?;
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        Ok(Head { status, headers })
    }

    /// Reads more bytes; false at the end of the connection.
    fn fill(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 64 << 10];
        let count = self.stream.read(&mut bytes)?;
        self.buffer.extend_from_slice(&bytes[..count]);
        Ok(count > 0)
    }

    /// The next piece of the body; none at its end, and none at a break.
    pub(crate) fn piece(&mut self) -> Option<Vec<u8>> {
        loop {
            match self.length {
                Length::Ended | Length::Broken => return None,
                Length::Bytes(left) if !self.buffer.is_empty() => {
                    let count = self.buffer.len().min(left as usize);
                    let left = left - count as u64;
                    self.length = if left == 0 { Length::Ended } else { Length::Bytes(left) };
                    return Some(self.buffer.drain(..count).collect());
                }
                Length::Open if !self.buffer.is_empty() => return Some(std::mem::take(&mut self.buffer)),
                Length::Chunked => match self.chunk() {
                    Ok(Some(chunk)) => return Some(chunk),
                    Ok(None) => {}
                    // Not a chunk.
                    Err(()) => self.length = Length::Broken,
                },
                Length::Bytes(_) | Length::Open => {}
            }
            match (self.length, self.fill()) {
                (Length::Ended, _) | (_, Ok(true)) => {}
                (Length::Open, Ok(false)) => self.length = Length::Ended,
                (_, Ok(false) | Err(_)) => self.length = Length::Broken,
            }
        }
    }

    /// A complete chunk.
    fn chunk(&mut self) -> Result<Option<Vec<u8>>, ()> {
        let Some(line) = self.buffer.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
        let text = std::str::from_utf8(&self.buffer[..line]).map_err(|_| ())?;
        let length = usize::from_str_radix(text.split(';').next().unwrap_or_default(), 16).map_err(|_| ())?;
        let end = line + 2 + length + 2;
        if self.buffer.len() < end {
            return Ok(None);
        }
        let chunk: Vec<u8> = self.buffer.drain(..end).skip(line + 2).take(length).collect();
        if length == 0 {
            self.length = Length::Ended;
        }
        Ok(Some(chunk))
    }

    /// Reads to the end.
    pub(crate) fn rest(mut self) -> Reply {
        let mut body = Vec::new();
        while let Some(piece) = self.piece() {
            body.extend_from_slice(&piece);
        }
        Reply { head: self.head, body, is_whole: self.length == Length::Ended }
    }

    /// Reads to the end, and throws it away: how many bytes there were, and whether it ended well.
    pub(crate) fn skip(mut self) -> (u64, bool) {
        let mut bytes = 0;
        while let Some(piece) = self.piece() {
            bytes += piece.len() as u64;
        }
        (bytes, self.length == Length::Ended)
    }
}
