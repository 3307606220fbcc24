//! One question over HTTP. A separate thread asks and receives, so the thread waiting for the answer can leave it at
//! any time.

use super::{Limits, WebError};
use crate::web::permit::Permit;
use oxiri::Iri;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use ureq::http::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use ureq::{Agent, Body, http};

/// The question.
pub(super) struct Question {
    pub(super) url: String,
    /// A form to send; without any, the URL is just read.
    pub(super) form: Option<String>,
    /// The readable media types.
    pub(super) accept: &'static str,
}

/// A server's response before the answer itself.
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) reason: &'static str,
    pub(super) media_type: Option<String>,
    /// The URL of the answer, after redirects.
    pub(super) url: String,
}

enum Message {
    Head(Head),
    Bytes(Vec<u8>),
    End,
    Failed(WebError),
}

/// How often the waiting thread asks whether the answer is still needed. The run may end for many reasons, the failure
/// of another box among them; none of them could wake a thread that sleeps on a connection.
const TICK: Duration = Duration::from_millis(20);

/// The bytes of one receive, and the most waiting pieces.
const PIECE: usize = 64 << 10;
const PIECES: usize = 4;

/// Begins to ask. The thread ends when the answer is complete or the limits are reached; after the result is dropped,
/// with the next received bytes.
pub(super) fn ask<S: Fn() -> bool>(
    agent: &Agent,
    question: Question,
    permits: &[Permit],
    limits: Limits,
    stopped: S,
) -> Result<Incoming<S>, WebError> {
    let until = Instant::now() + limits.time;
    let (send, receive) = sync_channel(PIECES);
    let (agent, permits) = (agent.clone(), permits.to_vec());
    let work = move || {
        let asking = Asking { agent, permits, limits, until };
        let last = asking.answer(question, &send).map_or_else(Message::Failed, |()| Message::End);
        // Without a receiver, the answer is not needed any more.
        let _ = send.send(last);
    };
    std::thread::Builder::new().name("vicus endpoint".to_owned()).spawn(work).map_err(WebError::NoThread)?;
    Ok(Incoming { receive, limits, until, stopped, piece: Vec::new(), read: 0, first: Vec::new(), ended: false })
}

struct Asking {
    agent: Agent,
    permits: Vec<Permit>,
    limits: Limits,
    until: Instant,
}

impl Asking {
    fn answer(&self, question: Question, send: &SyncSender<Message>) -> Result<(), WebError> {
        let Question { mut url, mut form, accept } = question;
        for _ in 0..=self.limits.redirects {
            if !self.permits.iter().any(|permit| permit.covers(&url)) {
                return Err(WebError::NotPermitted { url });
            }
            let response = self.send(&url, form.as_deref(), accept)?;
            let (status, headers) = (response.status(), response.headers());
            let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
            if let (301 | 302 | 303 | 307 | 308, Some(place)) = (status.as_u16(), text(LOCATION)) {
                url = Iri::parse(&*url)
                    .and_then(|base| base.resolve(&place))
                    .map_err(|error| WebError::WrongUrl { why: error.to_string(), url: place })?
                    .into_inner();
                if status.as_u16() == 303 {
                    // The answer itself is there (RFC 9110, §15.4.4).
                    form = None;
                }
                continue;
            }
            let reason = status.canonical_reason().unwrap_or_default();
            let head = Head { status: status.as_u16(), reason, media_type: text(CONTENT_TYPE), url };
            if send.send(Message::Head(head)).is_err() {
                return Ok(());
            }
            return self.receive(response.into_body(), send);
        }
        Err(WebError::TooManyRedirects)
    }

    fn send(&self, url: &str, form: Option<&str>, accept: &str) -> Result<http::Response<Body>, WebError> {
        let left = self.until.saturating_duration_since(Instant::now());
        let url = in_ascii(url)?;
        let failed = |error| self.failed(error);
        match form {
            Some(form) => {
                let request = self.agent.post(url).config().timeout_global(Some(left)).build();
                let request = request.header(ACCEPT, accept).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
                request.send(form).map_err(failed)
            }
            None => {
                let request = self.agent.get(url).config().timeout_global(Some(left)).build();
                request.header(ACCEPT, accept).call().map_err(failed)
            }
        }
    }

    fn receive(&self, mut body: Body, send: &SyncSender<Message>) -> Result<(), WebError> {
        let mut reader = body.as_reader();
        let mut received = 0;
        loop {
            let mut piece = vec![0; PIECE];
            let bytes = reader.read(&mut piece).map_err(|error| self.failed(ureq::Error::from(error)))?;
            if bytes == 0 {
                return Ok(());
            }
            received += bytes as u64;
            if received > self.limits.bytes {
                return Err(WebError::TooManyBytes { most: self.limits.bytes });
            }
            piece.truncate(bytes);
            if send.send(Message::Bytes(piece)).is_err() {
                return Ok(());
            }
        }
    }

    fn failed(&self, error: ureq::Error) -> WebError {
        match error {
            ureq::Error::Timeout(ureq::Timeout::Connect) => {
                WebError::Unreachable { why: "no connection comes about".to_owned() }
            }
            ureq::Error::Timeout(_) => WebError::TimedOut { most: self.limits.time },
            ureq::Error::HostNotFound => WebError::Unreachable { why: "its host is unknown".to_owned() },
            ureq::Error::Io(error) => WebError::Unreachable { why: error.to_string() },
            error => WebError::Unreachable { why: error.to_string() },
        }
    }
}

/// A URL with the characters outside of ASCII in its path and query as the bytes of UTF-8 (RFC 3987, §3.1), and without
/// its fragment.
fn in_ascii(url: &str) -> Result<String, WebError> {
    let url = url.split('#').next().unwrap_or_default();
    let host = Iri::parse(url).ok().and_then(|iri| iri.authority().map(str::is_ascii));
    if host != Some(true) {
        return Err(WebError::WrongUrl { url: url.to_owned(), why: "its host is not ASCII".to_owned() });
    }
    let mut ascii = String::with_capacity(url.len());
    for byte in url.bytes() {
        match byte.is_ascii() {
            true => ascii.push(char::from(byte)),
            false => ascii.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(ascii)
}

/// The bytes of an answer as they come.
pub(crate) struct Incoming<S> {
    receive: Receiver<Message>,
    limits: Limits,
    until: Instant,
    /// Whether the answer is no longer needed.
    stopped: S,
    piece: Vec<u8>,
    /// Bytes read of the piece.
    read: usize,
    /// The first bytes of all, for messages.
    first: Vec<u8>,
    ended: bool,
}

/// The number of first bytes kept.
const FIRST: usize = 512;

impl<S: Fn() -> bool> Incoming<S> {
    /// Waits for the answer's head.
    pub(super) fn head(&mut self) -> Result<Head, WebError> {
        match self.next()? {
            Message::Head(head) => Ok(head),
            Message::Failed(error) => Err(error),
            Message::Bytes(_) | Message::End => unreachable!("the head comes first"),
        }
    }

    fn next(&mut self) -> Result<Message, WebError> {
        loop {
            // Asked before each message, since an answer may keep coming.
            if (self.stopped)() {
                return Err(WebError::Stopped);
            }
            // The connection's own limit has failed to end it, as a search for its host may.
            if Instant::now() > self.until + TICK * 10 {
                return Err(WebError::TimedOut { most: self.limits.time });
            }
            match self.receive.recv_timeout(TICK) {
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(WebError::Unreachable { why: "the thread that asked has ended".to_owned() });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn fill(&mut self) -> Result<(), WebError> {
        while self.read == self.piece.len() && !self.ended {
            match self.next()? {
                Message::Bytes(piece) => {
                    let keep = piece.len().min(FIRST - self.first.len());
                    self.first.extend_from_slice(&piece[..keep]);
                    (self.piece, self.read) = (piece, 0);
                }
                Message::End => self.ended = true,
                Message::Failed(error) => {
                    self.ended = true;
                    return Err(error);
                }
                Message::Head(_) => unreachable!("the head comes first"),
            }
        }
        Ok(())
    }

    /// The first non-empty line of the answer so far, or of the piece just coming, cut to a length for messages.
    pub(super) fn first_line(&mut self) -> String {
        if self.first.is_empty() {
            // An error of the connection matters less than the server's words.
            let _ = self.fill();
        }
        let text = String::from_utf8_lossy(&self.first);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let shown: String = line.chars().take(100).map(|c| if c.is_control() { ' ' } else { c }).collect();
        shown
    }
}

impl<S: Fn() -> bool> Read for Incoming<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fill().map_err(io::Error::other)?;
        let left = &self.piece[self.read..];
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.read += count;
        Ok(count)
    }
}
