//! `vicus serve --check`: asks a server whether it takes requests.

use crate::messages::print;
use anyhow::{Context, anyhow, bail};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// A server that takes longer is no longer well.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most bytes of an answer that are read.
const LONGEST: u64 = 4096;

/// Asks for `/health` at an address. A server that speaks TLS is only connected to: this process doesn't know the name
/// in its certificate.
pub(crate) fn check(bind: &str, is_tls: bool) -> anyhow::Result<()> {
    let address = bind.to_socket_addrs().map(|mut found| found.next());
    let address = address
        .ok()
        .flatten()
        .map(reachable)
        .ok_or_else(|| anyhow!("`{bind}` is no address: --bind takes ADDRESS:PORT"))?;
    let cannot = || format!("no server answers at {address}");
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).with_context(cannot)?;
    if is_tls {
        return print("connected\n");
    }
    stream.set_read_timeout(Some(PATIENCE)).with_context(cannot)?;
    stream.set_write_timeout(Some(PATIENCE)).with_context(cannot)?;
    let request = format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).with_context(cannot)?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer).with_context(cannot)?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    match status {
        Some("200") => print("ok\n"),
        Some("503") => bail!("the server at {address} is ending"),
        Some(status) => bail!("the server at {address} answers /health with status {status}: is it vicus?"),
        None => bail!("what answers at {address} is no HTTP server"),
    }
}

/// The address at which a server that listens there is reached from this machine.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    address
}
