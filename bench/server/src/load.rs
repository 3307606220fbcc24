//! The load generator: one thread with an event loop over connections that are kept alive.
//!
//! Each connection sends a request, reads the whole response, and sends the next: a closed loop, so a side is never
//! asked faster than it answers. Latencies are from the first byte sent to the last byte read.

use crate::http::Parser;
use anyhow::{Context, bail};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// What clients ask in turn, each beginning at another place.
pub(crate) struct Requests {
    pub(crate) all: Vec<Request>,
}

pub(crate) struct Request {
    pub(crate) bytes: Vec<u8>,
    pub(crate) size: Size,
}

/// How many bytes the body of a response has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Size {
    /// As many as in the first response.
    AsFirst,
    Bytes(u64),
    /// Names of blank nodes may be longer or shorter each time.
    Varies,
}

/// Clients that do the same.
pub(crate) struct Group<'a> {
    pub(crate) requests: &'a mut Requests,
    pub(crate) connections: usize,
    /// Each client reads so many bytes in a second, or as fast as it can.
    pub(crate) rate: Option<u64>,
}

/// What a group's clients saw while it was measured.
#[derive(Default)]
pub(crate) struct Report {
    /// Sorted, in nanoseconds.
    pub(crate) latencies: Vec<u64>,
    pub(crate) bytes: u64,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) seconds: f64,
}

impl Report {
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds
    }

    /// Milliseconds that this share of the requests did not exceed.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        let place = (share * last as f64).round() as usize;
        self.latencies.get(place).map_or(f64::NAN, |ns| *ns as f64 / 1e6)
    }
}

struct Client {
    group: usize,
    stream: Option<TcpStream>,
    parser: Parser,
    /// The request that is being answered, and how much of it was sent.
    request: usize,
    sent: usize,
    began: Instant,
    /// Bytes that it has read since its first request, if it has a rate.
    read: u64,
}

/// Bytes of the kernel's buffer for a client that reads slowly.
const SLOW_BUFFER: usize = 16 << 10;
/// How often such a client reads.
const SLOW_PAUSE: Duration = Duration::from_millis(50);
/// How long a client waits that lost its connection.
const AFTER_ERROR: Duration = Duration::from_millis(20);

/// Has all groups ask for `warm_up` and then for `time`, which is measured.
pub(crate) fn run(
    port: u16,
    groups: &mut [Group<'_>],
    warm_up: Duration,
    time: Duration,
) -> anyhow::Result<Vec<Report>> {
    let mut poll = Poll::new()?;
    let mut clients = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let all = group.requests.all.len();
        for client in 0..group.connections {
            clients.push(Client {
                group: number,
                stream: None,
                parser: Parser::default(),
                request: client * all / group.connections,
                sent: 0,
                began: Instant::now(),
                read: 0,
            });
        }
    }
    let mut run = Run { port, groups, reports: Vec::new(), piece: vec![0; 256 << 10], from: Instant::now() + warm_up };
    run.reports.resize_with(run.groups.len(), Report::default);
    let began = Instant::now();
    for (number, client) in clients.iter_mut().enumerate() {
        run.connect(client, number, &poll)?;
    }
    let until = run.from + time;
    let mut events = Events::with_capacity(1024);
    // Clients that have more to read than their turn permits, and those that connect again, at a time.
    let (mut again, mut later) = (VecDeque::new(), VecDeque::<(Instant, usize)>::new());
    let slow: Vec<usize> = (0..clients.len()).filter(|&at| run.groups[clients[at].group].rate.is_some()).collect();
    let mut slow_next = began;
    loop {
        let now = Instant::now();
        if now >= until {
            break;
        }
        let mut wait = until - now;
        if !slow.is_empty() {
            wait = wait.min(slow_next.saturating_duration_since(now));
        }
        if let Some((at, _)) = later.front() {
            wait = wait.min(at.saturating_duration_since(now));
        }
        if !again.is_empty() {
            wait = Duration::ZERO;
        }
        match poll.poll(&mut events, Some(wait)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            polled => polled?,
        }
        let mut ready: Vec<usize> = again.drain(..).collect();
        ready.extend(events.iter().map(|event| event.token().0));
        let now = Instant::now();
        if !slow.is_empty() && now >= slow_next {
            slow_next = now + SLOW_PAUSE;
            ready.extend(&slow);
        }
        while later.front().is_some_and(|(at, _)| *at <= now) {
            let (_, number) = later.pop_front().expect("there is a first");
            if run.connect(&mut clients[number], number, &poll).is_err() {
                later.push_back((now + AFTER_ERROR, number));
            }
        }
        for number in ready {
            let client = &mut clients[number];
            if client.stream.is_none() {
                continue;
            }
            match run.turn(client, number, &poll) {
                Ok(true) => again.push_back(number),
                Ok(false) => {}
                Err(error) => {
                    run.fail(client.group, &error);
                    client.stream = None;
                    later.push_back((Instant::now() + AFTER_ERROR, number));
                }
            }
        }
    }
    let seconds = run.from.elapsed().as_secs_f64();
    let mut reports = run.reports;
    for report in &mut reports {
        report.seconds = seconds;
        report.latencies.sort_unstable();
    }
    Ok(reports)
}

struct Run<'a, 'b> {
    port: u16,
    groups: &'a mut [Group<'b>],
    reports: Vec<Report>,
    piece: Vec<u8>,
    /// When measuring begins.
    from: Instant,
}

impl Run<'_, '_> {
    /// Connects a client and sends its next request.
    fn connect(&mut self, client: &mut Client, number: usize, poll: &Poll) -> anyhow::Result<()> {
        let stream = std::net::TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        if self.groups[client.group].rate.is_some() {
            rustix::net::sockopt::set_socket_recv_buffer_size(&stream, SLOW_BUFFER)?;
        }
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(number), Interest::READABLE | Interest::WRITABLE)?;
        client.stream = Some(stream);
        self.ask(client)
    }

    /// Sends the next request.
    fn ask(&mut self, client: &mut Client) -> anyhow::Result<()> {
        client.request = (client.request + 1) % self.groups[client.group].requests.all.len();
        client.parser = Parser::default();
        client.sent = 0;
        client.began = Instant::now();
        self.send(client)
    }

    fn send(&mut self, client: &mut Client) -> anyhow::Result<()> {
        let bytes = &self.groups[client.group].requests.all[client.request].bytes;
        let stream = client.stream.as_mut().context("a client sends on a connection")?;
        while client.sent < bytes.len() {
            match stream.write(&bytes[client.sent..]) {
                Ok(count) => client.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Does what a client can do now. Whether there may be more.
    fn turn(&mut self, client: &mut Client, number: usize, poll: &Poll) -> anyhow::Result<bool> {
        /// Then others have their turn.
        const READS: usize = 16;
        self.send(client)?;
        for _ in 0..READS {
            let mut most = self.piece.len();
            if let Some(rate) = self.groups[client.group].rate {
                let allowed = (client.began.elapsed().as_secs_f64() * rate as f64) as u64;
                most = most.min(allowed.saturating_sub(client.read) as usize);
                if most == 0 {
                    return Ok(false);
                }
            }
            let stream = client.stream.as_mut().context("a client reads from a connection")?;
            let whole = match stream.read(&mut self.piece[..most]) {
                Ok(0) if client.parser.close() => true,
                Ok(0) => bail!("the server closed the connection in the middle of a response"),
                Ok(count) => {
                    client.read += count as u64;
                    let whole = client.parser.feed(&self.piece[..count], &mut |_| {})?;
                    if Instant::now() >= self.from {
                        self.reports[client.group].bytes += count as u64;
                    }
                    if !whole && count < most {
                        return Ok(false);
                    }
                    whole
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            if whole {
                self.record(client);
                client.read = 0;
                if client.parser.closes {
                    client.stream = None;
                    self.connect(client, number, poll)?;
                } else {
                    self.ask(client)?;
                }
                // Its answer is another event.
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A response is whole.
    fn record(&mut self, client: &Client) {
        let now = Instant::now();
        let request = &mut self.groups[client.group].requests.all[client.request];
        let (status, size) = (client.parser.status, client.parser.body_bytes);
        let error = match request.size {
            _ if status != 200 => Some(anyhow::anyhow!("status {status}")),
            Size::Bytes(expected) if expected != size => {
                Some(anyhow::anyhow!("a response of {size} bytes instead of {expected}"))
            }
            Size::AsFirst => {
                request.size = Size::Bytes(size);
                None
            }
            Size::Bytes(_) | Size::Varies => None,
        };
        match error {
            Some(error) => self.fail(client.group, &error),
            None if now >= self.from => {
                self.reports[client.group].latencies.push((now - client.began).as_nanos() as u64);
            }
            None => {}
        }
    }

    fn fail(&mut self, group: usize, error: &anyhow::Error) {
        let report = &mut self.reports[group];
        report.errors += 1;
        report.first_error.get_or_insert_with(|| error.to_string());
    }
}
