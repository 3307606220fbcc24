//! A connection's two halves, for a thread that reads and one that writes: TCP, or TLS over it.
//!
//! The state of TLS is one for both directions, under a lock that neither thread holds while it waits for the system:
//!
//! ```text
//!  ReadHalf   bytes of the socket ─▶ ┌─ lock ──────┐ ─▶ plain bytes
//!                                    │ Connection  │
//!  WriteHalf  plain bytes ─────────▶ └─────────────┘ ─▶ records ─▶ the socket
//! ```
//!
//! Records have to reach the socket in the order in which they were made. So [`WriteHalf`] alone takes them out; what
//! reading has the state answer, such as to a change of keys, goes with what is written next, which is never far off:
//! each side says from time to time that it is alive.

use crate::locked;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConnection, Connection, ServerConfig, ServerConnection};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use vicus_service::TlsRoots;

/// The protocol of links, for ALPN: a server of something else is not taken for a node, nor a node for that.
pub(crate) const PROTOCOL: &[u8] = b"vicus-node/1";

/// The first byte of a client that speaks TLS: a record of a handshake.
const HANDSHAKE: u8 = 22;

/// The bytes that are read of a socket at once.
const READ: usize = 32 << 10;

/// The half that reads.
#[derive(Debug)]
pub(crate) enum ReadHalf {
    Plain(TcpStream),
    Tls(TlsReader),
}

#[derive(Debug)]
pub(crate) struct TlsReader {
    socket: TcpStream,
    state: Arc<Mutex<Connection>>,
    /// Bytes of the socket; those of `unread` were not given to the state yet.
    bytes: Box<[u8]>,
    unread: Range<usize>,
    /// No read goes on beyond this time.
    end: Option<Instant>,
}

/// The half that writes.
#[derive(Debug)]
pub(crate) enum WriteHalf {
    Plain(TcpStream),
    Tls {
        socket: TcpStream,
        state: Arc<Mutex<Connection>>,
        /// Records on their way to the socket. Invariant: empty between two writes, unless one has failed.
        records: Vec<u8>,
    },
}

impl ReadHalf {
    fn socket(&self) -> &TcpStream {
        match self {
            ReadHalf::Plain(socket) | ReadHalf::Tls(TlsReader { socket, .. }) => socket,
        }
    }

    /// The half that writes. There is one at a time.
    pub(crate) fn write_half(&self) -> io::Result<WriteHalf> {
        let socket = self.socket().try_clone()?;
        Ok(match self {
            ReadHalf::Plain(_) => WriteHalf::Plain(socket),
            ReadHalf::Tls(TlsReader { state, .. }) => {
                WriteHalf::Tls { socket, state: Arc::clone(state), records: Vec::new() }
            }
        })
    }

    /// From now on, a read fails that waits so long for the next byte.
    pub(crate) fn set_read_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        if let ReadHalf::Tls(tls) = self {
            tls.end = None;
        }
        self.socket().set_read_timeout(Some(timeout))
    }

    /// From now on, a read fails at an end, however slowly bytes come: those of TLS are none until a record is there.
    pub(crate) fn set_read_end(&mut self, end: Instant) -> io::Result<()> {
        if let ReadHalf::Tls(tls) = self {
            tls.end = Some(end);
        }
        self.socket().set_read_timeout(Some(left(end)?))
    }

    pub(crate) fn shutdown(&self) {
        // It may be gone already.
        let _ = self.socket().shutdown(Shutdown::Both);
    }
}

impl Read for ReadHalf {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            ReadHalf::Plain(socket) => socket.read(into),
            ReadHalf::Tls(tls) => tls.read(into),
        }
    }
}

impl TlsReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            {
                let mut state = locked(&self.state);
                match state.reader().read(into) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    read => return read,
                }
                if !self.unread.is_empty() {
                    let mut unread = &self.bytes[self.unread.clone()];
                    self.unread.start += state.read_tls(&mut unread)?;
                    processed(&mut state)?;
                    continue;
                }
            }
            if let Some(end) = self.end {
                self.socket.set_read_timeout(Some(left(end)?))?;
            }
            let length = self.socket.read(&mut self.bytes)?;
            self.unread = 0..length;
            if length == 0 {
                // The state then tells whether the other end has said so.
                locked(&self.state).read_tls(&mut io::empty())?;
            }
        }
    }
}

fn processed(state: &mut Connection) -> io::Result<()> {
    state.process_new_packets().map(drop).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

impl WriteHalf {
    fn socket(&self) -> &TcpStream {
        match self {
            WriteHalf::Plain(socket) | WriteHalf::Tls { socket, .. } => socket,
        }
    }

    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        self.socket().set_nodelay(true)
    }

    /// A write that waits for longer, because the other end does not read, fails.
    pub(crate) fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.socket().set_write_timeout(Some(timeout))
    }

    /// Ends the connection in both directions.
    pub(crate) fn shutdown(&mut self) {
        if let WriteHalf::Tls { socket, state, records } = self {
            let mut state = locked(state);
            state.send_close_notify();
            // Without a wait: one that does not read is told by the system alone.
            if records.is_empty() && socket.set_nonblocking(true).is_ok() {
                let _ = state.write_tls(socket);
            }
        }
        // It may be gone already.
        let _ = self.socket().shutdown(Shutdown::Both);
    }
}

impl Write for WriteHalf {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            WriteHalf::Plain(socket) => socket.write(bytes),
            WriteHalf::Tls { .. } => self.write_vectored(&[IoSlice::new(bytes)]),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            WriteHalf::Plain(socket) => socket.write_vectored(parts),
            WriteHalf::Tls { records, .. } if !records.is_empty() => Err(ErrorKind::BrokenPipe.into()),
            WriteHalf::Tls { socket, state, records } => {
                let written = {
                    let mut state = locked(state);
                    let written = state.writer().write_vectored(parts)?;
                    while state.wants_write() {
                        state.write_tls(records)?;
                    }
                    written
                };
                // A failure here is the connection's end: the other side may have got a part of a record.
                socket.write_all(records)?;
                records.clear();
                Ok(written)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The half that reads of a connection to a node: by TLS if there are roots, within this time.
pub(crate) fn connected(
    socket: TcpStream,
    address: &str,
    roots: Option<&TlsRoots>,
    within: Duration,
) -> Result<ReadHalf, String> {
    let Some(roots) = roots else { return Ok(ReadHalf::Plain(socket)) };
    let host = host_of(address);
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| format!("{host:?} is no name that a certificate could have"))?;
    let state = ClientConnection::new(roots.client(&[PROTOCOL]), name).map_err(|error| error.to_string())?;
    hands_shaken(socket, Connection::Client(state), Instant::now() + within).map_err(|error| refusal(&error, roots))
}

/// The host of `host:port`, as certificates have it.
fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Why a handshake has failed, and what to do.
fn refusal(error: &io::Error, roots: &TlsRoots) -> String {
    let is_plain = "it does not speak TLS: start it with --tls-cert and --tls-key, or leave out --tls-ca";
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(error)) => roots.refusal(error),
        Some(rustls::Error::InvalidMessage(_)) => is_plain.to_owned(),
        Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => NO_NODE.to_owned(),
        Some(error) => format!("TLS fails: {error}"),
        None if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
            format!("it closes the connection when TLS begins; if {is_plain}")
        }
        None if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            "it does not answer when TLS begins".to_owned()
        }
        None if error.kind() == ErrorKind::InvalidData => error.to_string(),
        None => format!("TLS fails: {error}"),
    }
}

const NO_NODE: &str = "what answers there speaks TLS, and is no node of Vicus";

/// A connection to a listener with a certificate.
pub(crate) enum Accepted {
    Tls(ReadHalf),
    /// Something else: it gets an answer, and no more.
    Plain(ReadHalf),
}

/// The half that reads of a connection that has come, when its handshake is over.
///
/// # Errors
/// The client speaks wrong TLS, trusts another certificate, or takes longer.
pub(crate) fn accepted(socket: TcpStream, server: Arc<ServerConfig>, end: Instant) -> io::Result<Accepted> {
    let mut first = [0];
    socket.set_read_timeout(Some(left(end)?))?;
    if socket.peek(&mut first)? == 1 && first[0] != HANDSHAKE {
        return Ok(Accepted::Plain(ReadHalf::Plain(socket)));
    }
    let state = ServerConnection::new(server).map_err(io::Error::other)?;
    hands_shaken(socket, Connection::Server(state), end).map(Accepted::Tls)
}

/// The time until an end, which has not come.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Shakes hands until an end. The socket's time for writes is set.
fn hands_shaken(mut socket: TcpStream, mut state: Connection, end: Instant) -> io::Result<ReadHalf> {
    while state.is_handshaking() || state.wants_write() {
        if state.wants_write() {
            state.write_tls(&mut socket)?;
            continue;
        }
        socket.set_read_timeout(Some(left(end)?))?;
        match state.read_tls(&mut socket) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        if let Err(error) = processed(&mut state) {
            // The alert tells the other end why.
            let _ = state.write_tls(&mut socket);
            return Err(error);
        }
    }
    // Either end goes on without a protocol if the other one names none.
    if state.alpn_protocol() != Some(PROTOCOL) {
        return Err(io::Error::new(ErrorKind::InvalidData, NO_NODE));
    }
    let state = Arc::new(Mutex::new(state));
    let bytes = vec![0; READ].into_boxed_slice();
    Ok(ReadHalf::Tls(TlsReader { socket, state, bytes, unread: 0..0, end: None }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_stands_before_its_port() {
        for (address, host) in [("a.example:7", "a.example"), ("127.0.0.1:7", "127.0.0.1"), ("[::1]:7", "::1")] {
            assert_eq!(host_of(address), host);
        }
    }
}
