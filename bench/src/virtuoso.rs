//! Virtuoso, from Debian's package: a server in a temporary folder, queried over HTTP on the loopback interface.
//!
//! Its times therefore include sending the rows as tab-separated text. The endpoint returns at most 1,048,576 rows,
//! whatever its settings say; a query with more rows is reported as differing.

use anyhow::{Context, bail, ensure};
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use vicus_bench::cpus::find_program;
use vicus_bench::peer::{Answer, Peer, Query, Side};

/// The graph that has the data. Queries name no graph, so the request does.
const GRAPH: &str = "http://localhost/data";
/// How long a server may take from its start to its first answer; below, how long past its limit a query may run before
/// the server is restarted.
const START: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(3);

struct Virtuoso {
    program: &'static str,
    folder: TempDir,
    http: u16,
    /// `None` after the server was ended; the next query starts another on the same files.
    server: Option<Server>,
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have ended already. No wanted data is lost: the folder is deleted, or was just checkpointed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn load(data: &Path, threads: usize, limit: Duration) -> anyhow::Result<Side> {
    let missing = "is missing: install Debian's package virtuoso-opensource-7";
    let program = find_program(&["virtuoso-t", "virtuoso"]).with_context(|| format!("virtuoso-t {missing}"))?;
    let isql = find_program(&["isql-vt", "isql-v"]).with_context(|| format!("isql-vt {missing}"))?;
    let data = data.canonicalize()?;
    let (parent, name) = data.parent().zip(data.file_name()).context("the data is a file in a folder")?;
    let (parent, name) = (parent.display().to_string(), name.to_string_lossy());
    ensure!(![&*parent, &*name].concat().contains(['\'', ',', '\n']), "the data's path has a quote or comma in it");

    let folder = tempfile::Builder::new().prefix("vicus-virtuoso-").tempdir()?;
    let [sql, http] = free_ports()?;
    std::fs::write(folder.path().join("virtuoso.ini"), settings(sql, http, threads, limit, &parent))?;
    let mut virtuoso = Virtuoso { program, folder, http, server: None };
    virtuoso.start()?;
    let statements =
        format!("ld_dir('{parent}', '{}', '{GRAPH}'); rdf_loader_run(); checkpoint;", name.replace('%', "\\%"));
    let began = Instant::now();
    let loaded = Command::new(isql)
        .arg(format!("127.0.0.1:{sql}"))
        .args(["dba", "dba", "ERRORS=STDOUT", &format!("EXEC={statements}")])
        .output()?;
    let load_ms = began.elapsed().as_secs_f64() * 1e3;
    ensure!(loaded.status.success(), "loading failed: {}", String::from_utf8_lossy(&loaded.stdout));
    let count = virtuoso.post("SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }", None)?;
    let triples = count.body.lines().nth(1).and_then(|line| line.trim().parse().ok());
    let triples =
        triples.with_context(|| format!("expected the number of loaded triples, but got {:?}", count.body))?;
    Ok(Side { name: "virtuoso", peer: Box::new(virtuoso), load_ms, triples })
}

/// Ports that are free now. Another process may take them first; then the server reports that in its log.
fn free_ports() -> anyhow::Result<[u16; 2]> {
    let listeners = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let mut ports = [0; 2];
    for (port, listener) in ports.iter_mut().zip(listeners) {
        *port = listener?.local_addr()?.port();
    }
    Ok(ports)
}

/// The package's settings, except for folders, ports and threads, and with enough buffers (of 8 KiB) for the data.
fn settings(sql: u16, http: u16, threads: usize, limit: Duration, data: &str) -> String {
    // The server counts whole seconds.
    let seconds = limit.as_secs_f64().ceil();
    format!(
        "[Database]
DatabaseFile = virtuoso.db
ErrorLogFile = virtuoso.log
LockFile = virtuoso.lck
TransactionFile = virtuoso.trx
xa_persistent_file = virtuoso.pxa
FileExtend = 200
MaxCheckpointRemap = 2000
[TempDatabase]
DatabaseFile = virtuoso-temp.db
TransactionFile = virtuoso-temp.trx
MaxCheckpointRemap = 2000
[Parameters]
ServerPort = 127.0.0.1:{sql}
DisableUnixSocket = 1
DirsAllowed = {data}
NumberOfBuffers = 170000
MaxDirtyBuffers = 130000
MaxQueryMem = 2G
ThreadsPerQuery = {threads}
AsyncQueueMaxThreads = {threads}
CheckpointInterval = 0
[HTTPServer]
ServerPort = 127.0.0.1:{http}
ServerRoot = .
ServerThreads = 4
[SPARQL]
ResultSetMaxRows = 1048576
MaxQueryExecutionTime = {seconds}
"
    )
}

struct Response {
    status: u16,
    head: String,
    body: String,
}

impl Virtuoso {
    fn start(&mut self) -> anyhow::Result<()> {
        let child = Command::new(self.program)
            .args(["+foreground", "+configfile", "virtuoso.ini"])
            .current_dir(self.folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // A server that was killed leaves its lock file.
        let mut server = Server(child);
        let began = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.http)).is_err() {
            let log = || std::fs::read_to_string(self.folder.path().join("virtuoso.log")).unwrap_or_default();
            if let Some(status) = server.0.try_wait()? {
                bail!("the server ended ({status}); its log:\n{}", log());
            }
            ensure!(began.elapsed() < START, "the server took more than {START:?} to start; its log:\n{}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
        self.server = Some(server);
        Ok(())
    }

    /// Sends one request on one connection: in HTTP 1.0, the response ends with the connection.
    fn post(&self, query: &str, patience: Option<Duration>) -> std::io::Result<Response> {
        let form = format!("default-graph-uri={}&query={}", percent(GRAPH), percent(query));
        let began = Instant::now();
        let mut stream = TcpStream::connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.http))?;
        write!(
            stream,
            "POST /sparql HTTP/1.0\r\nHost: localhost\r\nAccept: text/tab-separated-values\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        )?;
        let mut bytes = Vec::new();
        let mut piece = vec![0; 1 << 16];
        loop {
            let left = patience.map(|patience| patience.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(left)?;
            match stream.read(&mut piece)? {
                0 => break,
                length => bytes.extend_from_slice(&piece[..length]),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(ErrorKind::InvalidData)?;
        Ok(Response { status, head: head.to_owned(), body: body.to_owned() })
    }
}

/// Encodes a form value: all but unreserved characters become `%XX`.
fn percent(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'.' | b'_' => encoded.push(char::from(byte)),
            _ => write!(encoded, "%{byte:02X}").expect("a string takes everything"),
        }
    }
    encoded
}

impl Peer for Virtuoso {
    fn ask(&mut self, query: &Query, limit: Duration) -> anyhow::Result<Answer> {
        if self.server.is_none() {
            self.start()?;
        }
        let began = Instant::now();
        let response = match self.post(&query.text, Some(limit + GRACE)) {
            Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
                self.server = None;
                return Ok(Answer::Cut);
            }
            response => response?,
        };
        let took = began.elapsed();
        // When the time is up, the server returns partial results, with an error status or with one of these headers.
        if took >= limit || response.head.contains("X-SQL-State: S1TAT") {
            return Ok(Answer::Cut);
        }
        ensure!(response.status == 200, "HTTP {}: {}", response.status, first_line(&response.body));
        // The first line has the column names.
        let rows = response.body.lines().count().saturating_sub(1) as u64;
        Ok(Answer::Rows { ms: took.as_secs_f64() * 1e3, rows })
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
