//! `vicus serve` and `vicus` as processes, and the kernel's figures of them.

use crate::client::{Ask, Reply, connect};
use crate::suite::{Suite, file, folder, short, text, until};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) const VICUS: &str = env!("CARGO_BIN_EXE_vicus");

/// The server's memory for requests (`--total-memory`).
pub(crate) const TOTAL: u64 = 512 << 20;

/// The server's memory beside it, beside bodies (half of it) and beside its data: kept plans and answers (64 MiB each),
/// freed memory to be used again (64 MiB), small blocks freed in the last seconds, and buffers of connections.
pub(crate) const BESIDE: u64 = 384 << 20;

/// The part of it held after a while without work: plans and answers, and gaps between blocks in use.
pub(crate) const BESIDE_IDLE: u64 = 192 << 20;

/// Rows without end.
pub(crate) const ENDLESS: &str = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }";
/// Work without end, and no row.
pub(crate) const SILENT: &str =
    "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l FILTER(CONCAT(STR(?c), STR(?f), STR(?i), STR(?l)) = '-') }";

/// A server in a process of its own, killed when it is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    child: Mutex<Child>,
    pub(crate) pid: u32,
    said: Arc<Mutex<String>>,
    /// The process's figures after its first answer.
    before: Held,
    total: u64,
    /// The most bytes of its data seen so far.
    most_data: AtomicU64,
    folder: PathBuf,
    is_tls: bool,
}

/// The figures of a process in `/proc`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) threads: u64,
    pub(crate) files: usize,
    /// Without pages of mapped files: the system takes these back when it needs them.
    pub(crate) own_bytes: u64,
    /// With them.
    pub(crate) bytes: u64,
    pub(crate) most_bytes: u64,
}

fn held(pid: u32) -> Held {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let number = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0u64)
    };
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the process lives").count();
    let bytes = |name| number(name) << 10;
    Held {
        threads: number("Threads:"),
        files,
        own_bytes: bytes("RssAnon:"),
        bytes: bytes("VmRSS:"),
        most_bytes: bytes("VmHWM:"),
    }
}

/// The child ends with the thread that started it, also if this process is killed.
fn ends_with_us(command: &mut Command) {
    let dies = || {
        #[expect(unsafe_code, reason = "between fork and exec, the child alone can say so")]
        // SAFETY: prctl is async-signal-safe, takes no pointer here, and changes the calling process alone.
        let done = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    #[expect(unsafe_code, reason = "std asks for it")]
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe {
        command.pre_exec(dies)
    };
}

impl Served {
    /// Starts it with data of 2000 numbers, and 512 MiB.
    pub(crate) fn start(name: &str, args: &[&str]) -> Arc<Served> {
        let here = folder(name);
        let data = file(&here, "numbers.nt", numbers(2000));
        Served::of(&here, &[&["--data", &data], args].concat())
    }

    /// Starts it at a free port, with temporary files in its folder.
    pub(crate) fn of(folder: &Path, args: &[&str]) -> Arc<Served> {
        let temporary = folder.join("temporary");
        std::fs::create_dir_all(&temporary).expect("a folder can be made");
        let mut command = Command::new(VICUS);
        command.args(["serve", "--bind", "127.0.0.1:0", "--threads", "2", "--temp-folder", text(&temporary)]);
        if !args.contains(&"--total-memory") {
            command.args(["--total-memory", &TOTAL.to_string()]);
        }
        command.args(args).env("VICUS_DECAY_MS", "1000");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        ends_with_us(&mut command);
        let mut child = command.spawn().expect("vicus can be started");
        let said = Arc::new(Mutex::new(String::new()));
        let (mut errors, keep) = (child.stderr.take().expect("it is a pipe"), Arc::clone(&said));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = errors.read(&mut bytes) {
                keep.lock().expect("no thread fails").push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("it is a pipe")).read_line(&mut line).expect("it says something");
        let Some((_, address)) = line.trim().trim_end_matches('/').rsplit_once("://") else {
            panic!("`{line}`: {:?} {}", child.wait(), said.lock().expect("no thread fails"));
        };
        let (address, pid) = (address.parse().expect("an address"), child.id());
        let total = args.iter().position(|arg| *arg == "--total-memory").map_or(TOTAL, |at| bytes_of(args[at + 1]));
        let (child, is_tls) = (Mutex::new(child), args.contains(&"--tls-cert"));
        let (before, most_data, folder) = (held(pid), AtomicU64::new(0), folder.to_owned());
        let mut server = Served { address, child, pid, said, before, total, most_data, folder, is_tls };
        // The first request has threads begin, and they stay. A server with TLS does not answer this one, and closes
        // it.
        let mut stream = connect(address);
        let _ = Ask::query("ASK {}").with("connection", "close").over(&mut stream);
        drop(stream);
        std::thread::sleep(Duration::from_millis(100));
        server.before = Held { most_bytes: 0, ..held(pid) };
        Arc::new(server)
    }

    /// The first number of an answer.
    pub(crate) fn number(&self, query: &str) -> u64 {
        let reply = Ask::query(query).with("accept", "text/csv").send(self.address);
        let number = reply.text().lines().nth(1).and_then(|line| line.trim().parse().ok());
        number.unwrap_or_else(|| panic!("{query}: {} {}", reply.status, short(&reply.text())))
    }

    /// A short query is answered, and soon.
    pub(crate) fn is_well(&self) -> Duration {
        let began = Instant::now();
        assert_eq!(self.number("SELECT ?o { <http://e/s7> <http://e/p> ?o }"), 7);
        let took = began.elapsed();
        assert!(took < Duration::from_secs(5), "a short query took {took:?}");
        took
    }

    /// What `/metrics` says.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = Ask::get("/metrics").send(self.address).text();
        let line = text.lines().find(|line| line.split([' ', '{']).next() == Some(name));
        let value = line.and_then(|line| line.rsplit(' ').next()).and_then(|value| value.parse::<f64>().ok());
        value.unwrap_or_else(|| panic!("no {name} in {text}")) as u64
    }

    pub(crate) fn held(&self) -> Held {
        held(self.pid)
    }

    /// The bytes of its data now. The most of them may be held beside the requests' memory. 0 for a server with TLS.
    pub(crate) fn data(&self) -> u64 {
        let data = if self.is_tls { 0 } else { self.metric("vicus_data_bytes") };
        self.most_data.fetch_max(data, Ordering::Relaxed);
        data
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.child.lock().expect("no thread fails").try_wait().expect("it is a child").is_none()
    }

    /// Waits until no request runs.
    pub(crate) fn is_idle_within(&self, time: Duration) -> Duration {
        let began = Instant::now();
        let is_idle = until(time, || self.metric("vicus_requests_running") == 0);
        assert!(is_idle, "{} requests run after {time:?}", self.metric("vicus_requests_running"));
        began.elapsed()
    }

    pub(crate) fn signal(&self, signal: libc::c_int) {
        #[expect(unsafe_code, reason = "sends a signal to a child")]
        // SAFETY: it is a child that was not waited for, so the number is its own.
        let sent = unsafe { libc::kill(self.pid as libc::pid_t, signal) };
        assert_eq!(sent, 0);
    }

    /// Two cases: nothing is left behind, and memory stayed within its bound; then the server ends as it is told to.
    pub(crate) fn close(self: Arc<Served>, suite: &mut Suite, theme: &str) {
        let server = self;
        suite.case(&format!("{theme}: afterwards"), move || {
            assert!(server.is_alive(), "it has ended: {}", server.said());
            if !server.is_tls {
                server.is_idle_within(Duration::from_secs(20));
            }
            // Threads that read and write files stay for ten seconds. A few others begin when they are first needed,
            // and stay.
            let is_back =
                |held: Held| held.threads <= server.before.threads + 3 && held.files <= server.before.files + 2;
            let all_back = until(Duration::from_secs(25), || is_back(server.held()));
            let (before, now) = (server.before, server.held());
            assert!(all_back, "at first {before:?}, and afterwards {now:?}");
            let grown = now.most_bytes.saturating_sub(before.bytes);
            let (data, mib) = (server.data(), |bytes: u64| bytes >> 20);
            // While a change is made, the data before it is there, too.
            let most = server.total / 2 * 3 + BESIDE + 2 * server.most_data.load(Ordering::Relaxed);
            assert!(grown <= most, "memory grew by {} MiB, of {} MiB at most", mib(grown), mib(most));
            let left = || server.held().own_bytes.saturating_sub(before.own_bytes);
            let most_left = data + BESIDE_IDLE;
            let has_gone = until(Duration::from_secs(25), || left() <= most_left);
            assert!(has_gone, "{} MiB are left, of {} MiB at most", mib(left()), mib(most_left));
            let grown =
                format!("{} MiB at most, {} MiB are left beside data", mib(grown), mib(left().saturating_sub(data)));
            let left = std::fs::read_dir(server.folder.join("temporary")).expect("it is there").count();
            assert_eq!(left, 0, "temporary files");
            server.signal(libc::SIGTERM);
            assert!(until(Duration::from_secs(30), || !server.is_alive()), "it does not end");
            let status = server.child.lock().expect("no thread fails").wait().expect("it is a child");
            assert!(status.success(), "{status}: {}", server.said());
            assert!(!server.said().contains("panicked"), "{}", server.said());
            format!("memory grew by {grown}, {} threads, {} files", now.threads, now.files)
        });
    }

    pub(crate) fn said(&self) -> String {
        self.said.lock().expect("no thread fails").clone()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Ok(child) = self.child.get_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn bytes_of(text: &str) -> u64 {
    let (number, unit) = match text.strip_suffix('M') {
        Some(number) => (number, 1 << 20),
        None => (text, 1),
    };
    number.parse::<u64>().expect("a number of bytes") * unit
}

/// Triples with a number each.
pub(crate) fn numbers(count: usize) -> String {
    let line = |n| format!("<http://e/s{n}> <http://e/p> \"{n}\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n");
    (0..count).map(line).collect()
}

/// An answer is not the server's fault: no status of 500 and above except 503 for a lack of room.
pub(crate) fn is_blameless(what: &str, reply: &Reply) {
    assert!(reply.status < 500 || reply.status == 503, "{what}: {} {}", reply.status, short(&shown(reply)));
}

pub(crate) fn shown(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

/// The output of a command, and its time. It is killed after `longest`, and may have `bytes` of memory.
pub(crate) fn vicus(args: &[&str], longest: Duration, bytes: u64) -> (Output, Duration) {
    vicus_with(&[], args, longest, bytes)
}

/// The variant with more variables of the environment.
pub(crate) fn vicus_with(
    variables: &[(&str, &str)],
    args: &[&str],
    longest: Duration,
    bytes: u64,
) -> (Output, Duration) {
    let mut command = Command::new(VICUS);
    command
        .envs(variables.iter().copied())
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    ends_with_us(&mut command);
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    let limits = move || {
        #[expect(unsafe_code, reason = "between fork and exec, the child alone can say so")]
        // SAFETY: setrlimit is a plain system call, and the limit is the closure's own.
        let done = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
        if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    #[expect(unsafe_code, reason = "std asks for it")]
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe {
        command.pre_exec(limits)
    };
    let began = Instant::now();
    let mut child = command.spawn().expect("vicus can be started");
    // Pipes are read meanwhile, or a child with much output would wait.
    let read = |from: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.expect("it is a pipe").take(64 << 20).read_to_end(&mut bytes);
            bytes
        })
    };
    let stdout = read(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let stderr = read(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let has_ended = until(longest, || child.try_wait().expect("it is a child").is_some());
    if !has_ended {
        let _ = child.kill();
    }
    let status = child.wait().expect("it is a child");
    let (stdout, stderr) = (stdout.join().expect("it only reads"), stderr.join().expect("it only reads"));
    assert!(has_ended, "it ran for {longest:?}: {}", short(&String::from_utf8_lossy(&stderr)));
    (Output { status, stdout, stderr }, began.elapsed())
}
