//! `vicus serve`, started, killed and told to end as users and systems do.

use super::store::{self, file, folder, good, text, told};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use vicus_testing::run_within;

#[expect(dead_code, reason = "the server's own tests use the rest")]
#[path = "../../../server/tests/server/client.rs"]
pub(crate) mod client;

use client::{Ask, connect};

/// A server in a process of its own.
struct Served {
    child: Child,
    address: SocketAddr,
}

impl Served {
    /// Starts it at a free port, and waits until it prints its address.
    fn start(args: &[&str]) -> Served {
        Served::start_with(args, &[])
    }

    fn start_with(args: &[&str], environment: &[(&str, &str)]) -> Served {
        let mut child = Command::new(env!("CARGO_BIN_EXE_vicus"))
            .args(["serve", "--bind", "127.0.0.1:0", "--threads", "2"])
            .args(args)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let Some((_, address)) = line.trim().trim_end_matches('/').rsplit_once("://") else {
            panic!("`{line}`: {:?}", child.wait_with_output());
        };
        Served { address: address.parse().unwrap(), child }
    }

    fn signal(&self, signal: libc::c_int) {
        #[expect(unsafe_code, reason = "sends a signal to a child")]
        // SAFETY: it is a child that was not waited for, so the number is its own.
        let sent = unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
        assert_eq!(sent, 0);
    }

    /// Waits until it has ended: its status, and its output.
    fn end(mut self) -> (ExitStatus, String) {
        let began = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if began.elapsed() > Duration::from_secs(60) {
                self.child.kill().unwrap();
                panic!("it never ended: {:?}", self.child.wait());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let (mut said, status) = (String::new(), self.child.wait().unwrap());
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(!said.contains("panicked"), "{said}");
        (status, said)
    }

    fn number(&self, query: &str) -> u64 {
        let reply = Ask::query(query).with("accept", "text/csv").send(self.address);
        reply.text().lines().nth(1).unwrap_or_else(|| panic!("{reply:?}")).trim().parse().unwrap()
    }

    /// How many queries run.
    fn running(&self) -> usize {
        let requests = Ask::get("/api/requests").send(self.address);
        serde_json::from_slice::<Vec<serde_json::Value>>(&requests.body).unwrap().len()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A library that is loaded before the C library and has a clock of its own for the time of day.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t which, struct timespec *now) {
  int done = syscall(SYS_clock_gettime, which, now);
  const char *kind = getenv("CLOCK_KIND");
  if (done || which != CLOCK_REALTIME || !kind) return done;
  static long calls;
  long call = __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
  if (!strcmp(kind, "stands")) now->tv_sec = 1700000000, now->tv_nsec = 5;
  if (!strcmp(kind, "steps")) now->tv_sec += call % 2 ? 3600 : -3600;
  if (!strcmp(kind, "leaps")) now->tv_sec += call % 5 * 40000000000;
  if (!strcmp(kind, "backwards")) now->tv_sec -= call * 86400;
  if (!strcmp(kind, "epoch")) now->tv_sec = 0, now->tv_nsec = 0;
  if (!strcmp(kind, "before")) now->tv_sec = -86401, now->tv_nsec = 7;
  if (!strcmp(kind, "ancient")) now->tv_sec = -99999999999999, now->tv_nsec = 0;
  if (!strcmp(kind, "beyond")) now->tv_sec = 253402300800;
  if (!strcmp(kind, "far")) now->tv_sec = 99999999999999;
  return 0;
}
"#;

/// The status of the page over HTTP/2, by a connection of its own; `None` if that ends before.
fn status_by_http2(address: SocketAddr) -> Option<u16> {
    let mut connection = connect(address);
    let host = address.to_string();
    // GET, http and `/` out of the static table, and the host (RFC 7541, appendix A).
    let mut head = vec![0x82, 0x86, 0x84, 0x41, host.len() as u8];
    head.extend_from_slice(host.as_bytes());
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // No settings; then a head that ends its stream.
    bytes.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&[0, 0, head.len() as u8, 1, 0x5, 0, 0, 0, 1]);
    bytes.extend_from_slice(&head);
    connection.write_all(&bytes).unwrap();
    loop {
        let mut frame = [0; 9];
        connection.read_exact(&mut frame).ok()?;
        let mut payload = vec![0; u32::from_be_bytes([0, frame[0], frame[1], frame[2]]) as usize];
        connection.read_exact(&mut payload).ok()?;
        // The status is the first field, and 200 has an index of its own.
        if frame[3] == 1 {
            return (payload.first() == Some(&0x88)).then_some(200);
        }
    }
}

/// A clock may step, leap by centuries, go backwards or stand still: requests are answered all the same, and nothing
/// panics.
#[test]
fn a_clock_that_steps_or_stands_still_is_served_with() {
    let folder = folder("serve-clock");
    let (source, library) = (file(&folder, "clock.c", CLOCK), folder.join("clock.so"));
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o", text(&library), &source]).output();
    if !compiled.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("left out: cc can't make a library: {compiled:?}");
        return;
    }
    // Before 1970 and beyond 9999, hyper's own date ended connections of HTTP/1.1, though it was not sent.
    for kind in ["stands", "steps", "leaps", "backwards", "epoch", "before", "ancient", "beyond", "far"] {
        let here = folder.join(kind);
        std::fs::create_dir(&here).unwrap();
        let (store, log) = (empty(&here), here.join("log"));
        let args = ["--store", &store, "--open-updates", "--timeout", "20", "--access-log", text(&log)];
        let served = Served::start_with(&args, &[("LD_PRELOAD", text(&library)), ("CLOCK_KIND", kind)]);
        for round in 0..3 {
            let data = format!("INSERT DATA {{ <http://e/s{round}> <http://e/p> {round} }}");
            let reply = Ask::update(&data).send(served.address);
            assert!(reply.status < 300, "{kind}: {}", reply.text());
            let update =
                "INSERT { ?s <http://e/at> ?now ; <http://e/of> [] } WHERE { ?s <http://e/p> ?o BIND(NOW() AS ?now) }";
            let reply = Ask::update(update).send(served.address);
            assert!(reply.status < 300, "{kind}: {}", reply.text());
            let times = "SELECT (NOW() AS ?a) (YEAR(NOW()) AS ?b) (STR(NOW()) AS ?c) (RAND() AS ?d) (UUID() AS ?e) {}";
            for accept in ["text/csv", "application/json", "application/vnd.apache.arrow.stream"] {
                let reply = Ask::query(times).with("accept", accept).send(served.address);
                assert_eq!(reply.status, 200, "{kind}: {}", reply.text());
                // Thu, 01 Jan 1970 00:00:00 GMT
                if let Some(date) = reply.header("date") {
                    assert!(date.len() == 29 && date.ends_with(" GMT"), "{kind}: {date}");
                }
            }
            // Of a clock that stands still, times are the same; blank nodes are new ones each time.
            let blanks = "SELECT (COUNT(?o) AS ?n) { ?s <http://e/of> ?o }";
            assert_eq!(served.number(blanks), (round + 1) * (round + 2) / 2, "{kind}");
            for path in ["/", "/health", "/metrics", "/api/info", "/api/requests", "/store?default"] {
                let reply = Ask::get(path).send(served.address);
                assert_eq!(reply.status, 200, "{kind}: {path}");
            }
            assert_eq!(status_by_http2(served.address), Some(200), "{kind}");
            assert_eq!(
                Ask::get("/").with("if-modified-since", "Thu, 01 Jan 1970 00:00:00 GMT").send(served.address).status,
                200
            );
        }
        served.signal(libc::SIGTERM);
        let (status, said) = served.end();
        assert!(status.success(), "{kind}, {status}: {said}");
        let lines = std::fs::read_to_string(&log).unwrap();
        assert!(lines.lines().count() > 10, "{kind}: {lines}");
        for line in lines.lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|error| panic!("{kind}: {line}: {error}"));
        }
        // Without that clock, the store is as it was left.
        good(&["check", "--store", &store]);
    }
}

/// What happened: with `--open-updates`, a server that others reach began without a word.
#[test]
fn open_updates_beyond_this_machine_are_warned_of() {
    let folder = folder("serve-open");
    let data = numbers(&folder, 10);
    for (bind, options, warns) in [
        ("0.0.0.0:0", &["--open-updates"][..], true),
        ("[::]:0", &["--open-updates"], true),
        ("127.0.0.1:0", &["--open-updates"], false),
        ("0.0.0.0:0", &[], false),
        ("0.0.0.0:0", &["--read-only"], false),
    ] {
        if bind.starts_with("[::]") && TcpListener::bind(bind).is_err() {
            eprintln!("left out: this machine has no IPv6");
            continue;
        }
        let child = Command::new(env!("CARGO_BIN_EXE_vicus"))
            .args(["serve", "--data", &data, "--bind", bind, "--threads", "1"])
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let address = (std::net::Ipv4Addr::LOCALHOST, 0).into();
        let mut served = Served { child, address };
        let mut line = String::new();
        BufReader::new(served.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("vicus serves"), "{line}");
        served.signal(libc::SIGTERM);
        let (status, said) = served.end();
        assert!(status.success(), "{status}: {said}");
        let says = said.contains("warning: --open-updates: everybody who reaches");
        assert_eq!(says, warns, "{bind} {options:?}: {said}");
    }
}

/// An empty store.
fn empty(folder: &Path) -> String {
    let store = folder.join("db");
    let data = file(folder, "none.nt", "");
    good(&["load", "--store", text(&store), "--data", &data]);
    text(&store).to_owned()
}

/// Many rows, as triples with a number each.
fn numbers(folder: &Path, count: usize) -> String {
    let lines: String = (0..count)
        .map(|number| {
            format!("<http://e/s{number}> <http://e/p> \"{number}\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n")
        })
        .collect();
    file(folder, "numbers.nt", &lines)
}

const ALL: &str = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }";
/// What happened: of a damaged store, nothing could be served.
#[test]
fn a_store_whose_log_is_damaged_is_served_without_updates() {
    let here = folder("serve-unread");
    let store = empty(&here);
    let update = |n| file(&here, &format!("{n}.ru"), &format!("INSERT DATA {{ <http://e/{n}> <http://e/p> {n} }}"));
    let updates = [0, 1, 2].map(update);
    let mut args = vec!["update", "--store", &store];
    updates.iter().for_each(|update| args.extend(["--update", update]));
    good(&args);
    let logs = std::fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().path());
    let log = logs.filter(|path| text(path).contains("/log-")).max().unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    let place = store::place_in_log(&bytes, "http://e/1");
    bytes[place] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let server = Served::start(&["--store", &store, "--open-updates"]);
    assert_eq!(server.number(ALL), 1);
    let refused = Ask::update("INSERT DATA { <http://e/x> <http://e/p> 1 }").send(server.address);
    assert_eq!((refused.status, refused.text().contains("read-only")), (403, true), "{refused:?}");
    assert_eq!(server.number(ALL), 1);
    server.signal(libc::SIGTERM);
    let (_, said) = server.end();
    for part in ["the log can't be read from record 3 on", text(&log), "read-only"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(std::fs::read(&log).unwrap(), bytes);
}

/// What happened: LOCK or the folder was removed under a server, and it went on to acknowledge updates, which were
/// lost.
#[test]
fn a_server_whose_store_was_removed_or_whose_lock_was_acknowledges_nothing() {
    let here = folder("serve-lock");
    let insert = |n: u32| Ask::update(&format!("INSERT DATA {{ <http://e/{n}> <http://e/p> {n} }}"));
    for removes_all in [false, true] {
        let store = empty(&here);
        let server = Served::start(&["--store", &store, "--open-updates"]);
        assert_eq!(insert(1).send(server.address).status, 204);
        if removes_all {
            std::fs::remove_dir_all(&store).unwrap();
        } else {
            std::fs::remove_file(Path::new(&store).join("LOCK")).unwrap();
            // Another process writes, since nothing holds it off.
            good(&["update", "--store", &store, "INSERT DATA { <http://e/2> <http://e/p> 2 }"]);
        }
        for n in [3, 4] {
            let refused = insert(n).send(server.address);
            assert_eq!(refused.status, 500, "{refused:?}");
            assert!(refused.text().contains("LOCK") && refused.text().contains("start this one anew"), "{refused:?}");
        }
        assert_eq!(server.number(ALL), 1, "queries go on");
        server.signal(libc::SIGTERM);
        server.end();
        if !removes_all {
            let dump = good(&["dump", "--store", &store, "--output", "-"]);
            assert!(dump.lines().count() == 2 && dump.contains("e/2>"), "{dump}");
            std::fs::remove_dir_all(&store).unwrap();
        }
    }
}

/// What happened: damage was told as a mistake of the client (400), and a full disk as one of ours (500).
#[test]
fn damage_is_told_as_500_and_a_full_disk_as_507() {
    let here = folder("serve-faults");
    let store = here.join("db");
    let store = text(&store);
    let lines: String = (0..20_000).map(|n| format!("<http://e/{n}> <http://e/p> \"text {n}\" .\n")).collect();
    good(&["load", "--store", store, "--data", &file(&here, "a.nt", &lines)]);
    let server = Served::start(&["--store", store, "--open-updates"]);
    // A file may not become longer than this, as on a full disk; the answer's connection is no file.
    let limit = libc::rlimit { rlim_cur: 300, rlim_max: 300 };
    #[expect(unsafe_code, reason = "limits a child")]
    // SAFETY: it is a child that was not waited for, and the limit outlives the call.
    let set = unsafe {
        libc::prlimit(server.child.id() as libc::pid_t, libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut())
    };
    assert_eq!(set, 0);
    let text_of = "x".repeat(2000);
    let full = Ask::update(&format!("INSERT DATA {{ <http://e/x> <http://e/p> \"{text_of}\" }}")).send(server.address);
    assert_eq!(full.status, 507, "{full:?}");
    assert_eq!(server.number(ALL), 20_000);
    server.signal(libc::SIGTERM);
    drop(server.end());

    let base = std::fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
    let base = base.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&base).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&base, bytes).unwrap();
    let server = Served::start(&["--store", store, "--open-updates"]);
    let name = base.file_name().unwrap().to_str().unwrap();
    let all = "{ ?s ?p ?o . ?s ?p ?o2 BIND(CONCAT(STR(?s), STR(?o)) AS ?t) }";
    let damaged = Ask::query(&format!("SELECT (MAX(?t) AS ?m) {all}")).send(server.address);
    assert_eq!((damaged.status, damaged.text().contains(name)), (500, true), "{damaged:?}");
    let update = format!("INSERT {{ ?s <http://e/q> ?t }} WHERE {all}");
    let damaged = Ask::update(&update).send(server.address);
    assert_eq!((damaged.status, damaged.text().contains(name)), (500, true), "{damaged:?}");
}

/// What happened: a damaged table, and one that was changed under the server, were told as a mistake of the client.
#[test]
fn a_damaged_or_changed_table_is_told_as_500() {
    let here = folder("serve-tables");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tables/tests/data");
    let triple = file(&here, "a.nt", "<http://e/a> <http://e/p> \"1\" .\n");
    let (mut args, mut names) = (vec!["--data".to_owned(), triple], Vec::new());
    let mut with = |name: &str, bytes: &[u8]| {
        std::fs::write(here.join(name), bytes).unwrap();
        args.extend(["--table".to_owned(), format!("t{}={}", names.len(), here.join(name).display())]);
        names.push(name.to_owned());
    };
    for (whole, values) in [("numbers-zstd.parquet", 100..2000), ("numbers-zstd.arrow", 3000..6000)] {
        let mut bytes = std::fs::read(data.join(whole)).unwrap();
        bytes[values].iter_mut().step_by(5).for_each(|byte| *byte ^= 0x55);
        with(&format!("damaged-{whole}"), &bytes);
        with(&format!("changed-{whole}"), &std::fs::read(data.join(whole)).unwrap());
    }
    with("changed.csv", b"id,name,day\n1,a,2020-01-01\n");
    // Behind the rows that tell the types: a text among numbers.
    let rows: String = (0..300_000).map(|n| format!("{n},a,2020-01-01\n")).collect();
    with("mixed.csv", format!("id,name,day\n{rows}one,b,2020-01-02\n").as_bytes());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let server = Served::start(&args);
    let select = |place: usize| format!("SELECT MAX(id), MAX(name), MIN(day) FROM t{place}");
    let sql = |place: usize| Ask::post("/sql", "application/sql", select(place)).send(server.address);
    for (place, name) in names.iter().enumerate() {
        if name.starts_with("changed") {
            assert_eq!(sql(place).status, 200, "{name}");
            use std::io::Write as _;
            let path = here.join(name);
            std::fs::File::options().append(true).open(path).unwrap().write_all(b"2,b,2020-01-02\n").unwrap();
        }
        let reply = sql(place);
        let told = reply.text();
        assert_eq!((reply.status, told.contains(name)), (500, true), "{name}: {told}");
        assert!(told.contains(&format!("table t{place}: ")), "{name}: {told}");
    }
    assert_eq!(server.number("SELECT (1 AS ?n) {}"), 1);
}

const ENDLESS: &str = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }";

/// Killed at any moment, it has kept every acknowledged update, and each as a whole.
#[test]
fn what_was_acknowledged_outlives_a_kill() {
    let folder = folder("serve-kill");
    let store = empty(&folder);
    let (clients, mut acknowledged) = (4, Vec::new());
    for round in 0..3 {
        let served = Served::start(&["--store", &store, "--open-updates"]);
        let (address, count, done) = (served.address, AtomicUsize::new(0), Mutex::new(Vec::new()));
        let enough = 10 + 15 * round;
        std::thread::scope(|scope| {
            for client in 0..clients {
                let (count, done) = (&count, &done);
                scope.spawn(move || {
                    let mut connection = connect(address);
                    for number in 0.. {
                        let name = format!("http://e/{round}/{client}/{number}");
                        let update = format!("INSERT DATA {{ <{name}> <http://e/p> 1, 2, 3 }}");
                        match Ask::update(&update).over(&mut connection) {
                            Ok(reply) if reply.status == 204 => done.lock().unwrap().push(name),
                            Ok(reply) => panic!("{reply:?}"),
                            // It was killed; this one may be there, or not.
                            Err(_) => return,
                        }
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            while count.load(Ordering::Relaxed) < enough {
                std::thread::sleep(Duration::from_millis(1));
            }
            served.signal(libc::SIGKILL);
        });
        assert_eq!(served.end().0.signal(), Some(libc::SIGKILL));
        acknowledged.append(&mut done.into_inner().unwrap());
    }
    let served = Served::start(&["--store", &store]);
    for name in &acknowledged {
        assert_eq!(served.number(&format!("SELECT (COUNT(*) AS ?n) {{ <{name}> ?p ?o }}")), 3, "{name}");
    }
    let parts = "SELECT (COUNT(*) AS ?n) { { SELECT ?s { ?s ?p ?o } GROUP BY ?s HAVING (COUNT(*) != 3) } }";
    assert_eq!(served.number(parts), 0, "none is there in part");
    drop(served);
    good(&["check", "--store", &store]);
    assert!(acknowledged.len() >= 75, "{}", acknowledged.len());
}

/// The status of an answer; none if the connection is closed before, as may happen while a server ends.
fn status(ask: &Ask, address: std::net::SocketAddr) -> Option<u16> {
    use std::io::Write as _;
    let mut stream = std::net::TcpStream::connect(address).ok()?;
    stream.write_all(&ask.bytes()).ok()?;
    client::Answer::of(stream, false).ok().map(|answer| answer.head.status)
}

#[test]
fn it_ends_when_what_runs_has_ended() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let folder = folder("serve-drain");
        let store = empty(&folder);
        good(&["update", "--store", &store, "INSERT DATA { <http://e/a> <http://e/p> 0 }"]);
        let served = Served::start(&["--store", &store, "--open-updates", "--grace", "60"]);
        let values: String = (1..1000).map(|number| format!("<http://e/s{number}> <http://e/p> {number} . ")).collect();
        let reply = Ask::update(&format!("INSERT DATA {{ {values} }}")).send(served.address);
        assert_eq!(reply.status, 204);
        let text = "SELECT ?a ?b { ?a <http://e/p> ?n . ?b <http://e/p> ?m }";
        let answer = Ask::query(text).with("accept", "text/tab-separated-values").open(served.address);
        assert_eq!(answer.head.status, 200);
        served.signal(signal);
        let began = Instant::now();
        while status(&Ask::query("ASK {}"), served.address) != Some(503) {
            assert!(began.elapsed() < Duration::from_secs(30), "new requests are refused");
        }
        assert_ne!(status(&Ask::update("CLEAR ALL"), served.address), Some(204), "it is refused");
        let reply = answer.rest();
        assert_eq!((reply.is_whole, reply.text().lines().count()), (true, 1 + 1000 * 1000));
        let (status, said) = served.end();
        assert_eq!(status.code(), Some(0), "{said}");
        assert!(said.contains("ending"), "{said}");
        assert_eq!(Served::start(&["--store", &store]).number(ALL), 1000);
    }
}

#[test]
fn it_ends_after_its_grace_or_at_a_second_signal() {
    let folder = folder("serve-grace");
    let data = numbers(&folder, 2000);
    let served = Served::start(&["--data", &data, "--grace", "0.2"]);
    let answer = Ask::query(ENDLESS).open(served.address);
    served.signal(libc::SIGTERM);
    assert!(!answer.skip().1, "what was stopped is broken off");
    assert_eq!(served.end().0.code(), Some(0));
    let served = Served::start(&["--data", &data, "--grace", "1000"]);
    let answer = Ask::query(ENDLESS).open(served.address);
    served.signal(libc::SIGTERM);
    let began = Instant::now();
    while status(&Ask::query("ASK {}"), served.address) != Some(503) {
        assert!(began.elapsed() < Duration::from_secs(30), "the first signal has come");
    }
    served.signal(libc::SIGTERM);
    let (status, said) = served.end();
    assert_eq!(status.code(), Some(130), "{said}");
    drop(answer);
}

/// Runs it, expecting an end by itself.
fn refused(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
    command.arg("serve").args(args).stdin(Stdio::null());
    run_within(&mut command, Duration::from_secs(60)).unwrap().in_time(&format!("{args:?}"))
}

/// One line, and the status is 1.
fn fails(args: &[&str], says: &[&str]) {
    let output = refused(args);
    told(&output, args, says);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
}

#[test]
fn what_it_cannot_begin_with_is_one_line() {
    let folder = folder("serve-wrong");
    let data = numbers(&folder, 3);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fails(&["--data", &data, "--bind", &address], &[&address, "in use"]);
    fails(&["--data", &data, "--bind", "nonsense"], &["nonsense"]);
    fails(&["--data", &data, "--bind", "7878"], &["`7878`", "127.0.0.1:7878"]);
    fails(&["--data", &data, "--bind", "192.0.2.1:0"], &["192.0.2.1:0"]);
    fails(&["--store", text(&folder.join("none"))], &["none"]);
    fails(&["--data", text(&folder.join("none.nt"))], &["none.nt"]);
    fails(&["--data", &data, "--token", ""], &["token"]);
    let nothing = refused(&[]);
    assert_eq!(nothing.status.code(), Some(2), "the options are wrong");
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("--store <DIR>, or --data <FILE>"), "{nothing:?}");
    let made = |name: &str| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = file(&folder, &format!("{name}.pem"), &made.cert.pem());
        (certificate, file(&folder, &format!("{name}-key.pem"), &made.signing_key.serialize_pem()))
    };
    let ((certificate, key), (_, other)) = (made("a"), made("b"));
    let none = folder.join("no-such.pem");
    let tls = |certificate: &str, key: &str, says: &[&str]| {
        fails(&["--data", &data, "--bind", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key], says);
    };
    tls(&certificate, &other, &["b-key.pem", "a.pem"]);
    tls(text(&none), &key, &["no-such.pem"]);
    tls(&certificate, text(&none), &["no-such.pem"]);
    tls(&certificate, &data, &["numbers.nt"]);
    tls(&data, &key, &["numbers.nt"]);
    let served = Served::start(&["--data", &data, "--tls-cert", &certificate, "--tls-key", &key]);
    served.signal(libc::SIGTERM);
    assert_eq!(served.end().0.code(), Some(0));
    // A store with another process as its writer.
    let store = empty(&folder);
    let served = Served::start(&["--store", &store, "--open-updates"]);
    fails(&["--store", &store, "--bind", "127.0.0.1:0"], &["db", "locked by process", "serve --read-only"]);
    let reader = Served::start(&["--store", &store, "--read-only"]);
    assert_eq!(reader.number(ALL), 0);
    assert_eq!(Ask::update("CLEAR ALL").send(reader.address).status, 403);
    drop((served, reader));
    // No rights for the port, unless the test may do everything.
    #[expect(unsafe_code, reason = "asks the system who this is")]
    // SAFETY: it has no arguments, and always succeeds.
    let is_root = unsafe { libc::geteuid() } == 0;
    let low = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    if low.is_ok_and(|low| low.trim().parse().is_ok_and(|low: u16| low > 81)) && is_root {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
        command.args(["serve", "--data", &data, "--bind", "127.0.0.1:81"]).uid(65_534).stdin(Stdio::null());
        // The folder may be closed to others, and then the process can't begin.
        if let Ok(output) = command.output() {
            told(&output, &["serve"], &[]);
        }
    }
}

/// A server that is to write a trace at its end writes it: with the queries that it has answered, or the last events.
#[test]
fn a_server_writes_its_trace_at_its_end() {
    let folder = folder("serve-trace");
    let data = numbers(&folder, 300);
    let path = folder.join("served.trace");
    for (more, rolls) in [(&["--trace-last", "10m"][..], true), (&["--trace-rolling"], true), (&[], false)] {
        let served = Served::start(&[&["--data", &data, "--trace", path.to_str().unwrap()][..], more].concat());
        assert_eq!(Ask::query("SELECT ?s { ?s ?p ?o }").send(served.address).status, 200);
        served.signal(libc::SIGTERM);
        let (status, said) = served.end();
        assert!(status.success() && !said.contains("trace"), "{more:?}: {said}");
        let bytes = std::fs::read(&path).unwrap();
        let trace = vicus_trace::Trace::read_from(&mut &bytes[..]).unwrap();
        assert_eq!((trace.header().rolls, trace.check()), (rolls, vec![]), "{more:?}");
        let scanned: u64 = trace.summary().boxes.iter().map(|row| row.rows_out).max().unwrap_or(0);
        assert!(scanned >= 300, "{more:?}: {scanned}");
    }
    fails(&["--data", &data, "--trace", "/no/such/folder/x.trace"], &["/no/such/folder/x.trace", "can't be written"]);
}

/// Tokens in the environment are invisible in lists of processes.
#[test]
fn a_token_may_come_from_the_environment() {
    let folder = folder("serve-token");
    let data = numbers(&folder, 3);
    let clear = Ask::update("CLEAR ALL");
    let with = clear.clone().with("authorization", "Bearer secret");
    for served in [
        Served::start(&["--data", &data, "--token", "other", "--token", "secret"]),
        Served::start_with(&["--data", &data], &[("VICUS_TOKEN", "secret")]),
    ] {
        assert_eq!(clear.send(served.address).status, 401);
        assert_eq!(with.send(served.address).status, 204);
    }
    let read_only = Served::start_with(&["--data", &data, "--read-only"], &[("VICUS_TOKEN", "secret")]);
    assert_eq!(with.send(read_only.address).status, 403);
    let closed = Served::start(&["--data", &data]);
    assert_eq!(clear.send(closed.address).status, 403);
    assert_eq!(closed.number(ALL), 3);
}

/// Requests are logged with the client's name for them.
#[test]
fn requests_are_written_down() {
    let folder = folder("serve-log");
    let data = numbers(&folder, 3);
    let log = folder.join("access.log");
    let served = Served::start(&["--data", &data, "--access-log", text(&log)]);
    let named = Ask::query(ALL).with("vicus-request-id", "mine").with("user-agent", "test/1");
    assert_eq!(named.send(served.address).status, 200);
    assert_eq!(Ask::query("ASK").send(served.address).status, 400);
    served.signal(libc::SIGTERM);
    assert_eq!(served.end().0.code(), Some(0));
    let lines = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(
        (&lines[0]["request"], &lines[0]["status"], &lines[0]["rows"]),
        (&"mine".into(), &200.into(), &1.into())
    );
    // What happened: the kind of the request stood for its method, and the language for its path.
    let said = ["method", "path", "agent", "kind", "language"].map(|key| lines[0][key].as_str().unwrap_or(""));
    assert_eq!(said[1..], ["/sparql", "test/1", "query", "sparql"]);
    assert!(["GET", "POST"].contains(&said[0]), "{said:?}");
    assert_eq!(lines[1]["status"], 400);
    assert!(lines[1]["error"].as_str().is_some_and(|error| error.contains("column")), "{lines:?}");
}

/// What happened: SIGHUP, by which programs that move logs away ask for a new one, ended the server.
#[test]
fn a_hangup_opens_the_access_log_anew() {
    let folder = folder("serve-hangup");
    let (data, log) = (file(&folder, "data.nt", "<http://e/a> <http://e/b> <http://e/c> .\n"), folder.join("log"));
    let served = Served::start(&["--data", &data, "--access-log", text(&log)]);
    let ask = || assert_eq!(served.number("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), 1);
    ask();
    let moved = folder.join("log.1");
    std::fs::rename(&log, &moved).unwrap();
    served.signal(libc::SIGHUP);
    let began = Instant::now();
    while !log.exists() {
        ask();
        assert!(began.elapsed() < Duration::from_secs(10), "a new log is begun");
    }
    let lines = std::fs::read_to_string(&moved).unwrap().lines().count();
    ask();
    assert_eq!(std::fs::read_to_string(&moved).unwrap().lines().count(), lines, "the old one is left alone");
    served.signal(libc::SIGTERM);
    assert!(served.end().0.success());
}

/// An answer, if no part of it comes later than this after the one before: a share of the threads is enough for that.
fn within(time: Duration, ask: &Ask, address: SocketAddr) -> std::io::Result<client::Reply> {
    let mut stream = connect(address);
    stream.set_read_timeout(Some(time))?;
    ask.over(&mut stream)
}

/// What happened: beside two queries without an end on two threads, a scan stood still for 40 seconds when its head
/// start was over, and a count gave nothing.
#[test]
fn queries_end_beside_endless_ones_under_every_strategy() {
    const ENDLESS: &str = "SELECT DISTINCT ?a ?f { ?a ?b ?c . ?d ?e ?f }";
    const WAIT: Duration = Duration::from_secs(30);
    // Each takes some tenths of a second by itself, and has one row of this number.
    const WORK: [(&str, u64); 3] = [
        ("SELECT (COUNT(*) AS ?n) { ?s ?p ?o FILTER(STRLEN(SHA512(CONCAT(STR(?s), STR(?o)))) = 128) }", 100_000),
        (
            "SELECT (SUM(?m) AS ?n) { SELECT ?k (COUNT(*) AS ?m) { ?s ?p ?o } GROUP BY (SUBSTR(SHA256(STR(?s)), 1, 4) \
                AS ?k) }",
            100_000,
        ),
        ("SELECT (SUM(?o) AS ?n) { SELECT ?o { ?s ?p ?o } ORDER BY MD5(STR(?s)) }", 4_999_950_000),
    ];
    let folder = folder("serve-shares");
    let data = numbers(&folder, 100_000);
    for strategy in vicus_schedule::ALL {
        let served = Served::start(&["--data", &data, "--strategy", strategy.name(), "--total-memory", "1G"]);
        let address = served.address;
        // Their clients take all rows: a query whose answer is not taken would pause.
        let takers = [ENDLESS; 2].map(|query| {
            let answer = Ask::query(query).open(address);
            std::thread::spawn(move || answer.skip())
        });
        while served.running() < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Longer than a head start.
        std::thread::sleep(Duration::from_millis(100));
        for (query, number) in WORK {
            let ask = Ask::query(query).with("accept", "text/csv");
            let reply =
                within(WAIT, &ask, address).unwrap_or_else(|error| panic!("{}, {query}: {error}", strategy.name()));
            assert_eq!((reply.status, reply.text()), (200, format!("n\r\n{number}\r\n")), "{}", strategy.name());
        }
        let scan = within(WAIT, &Ask::query("SELECT * { ?s ?p ?o }"), address);
        let scan = scan.unwrap_or_else(|error| panic!("{}: {error}", strategy.name()));
        assert_eq!((scan.status, scan.text().lines().count() > 100_000), (200, true), "{}", strategy.name());
        assert_eq!(served.running(), 2, "{}: the endless ones go on", strategy.name());
        drop(served);
        for taker in takers {
            taker.join().unwrap();
        }
    }
}

/// A store of some 100,000 triples in its base file, and this file.
fn many_triples(folder: &Path) -> (String, std::path::PathBuf) {
    let (store, mut lines) = (folder.join("db"), String::new());
    for number in 0..20_000 {
        let (other, group) = (number * 7919 % 20_000, number % 300);
        lines += &format!(
            "<http://e/s{number}> <http://e/p> {number} ; <http://e/name> \"name of {number}\" ; <http://e/in> \
                <http://e/g{group}> ; \
             <http://e/to> <http://e/s{other}> ; a <http://e/C{}> .\n",
            number % 7
        );
    }
    let data = file(folder, "many.ttl", &lines);
    good(&["load", "--store", text(&store), "--data", &data]);
    let files = std::fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().path());
    let base = files.filter(|path| text(path).contains("/base-")).max().unwrap();
    (text(&store).to_owned(), base)
}

/// Reading requests of all kinds.
fn reading() -> Vec<Ask> {
    let queries = [
        ALL,
        "SELECT * { <http://e/s777> ?p ?o }",
        "SELECT (COUNT(*) AS ?n) { ?s a <http://e/C3> ; <http://e/in> ?g ; <http://e/name> ?name }",
        "SELECT ?g (COUNT(*) AS ?n) (MAX(?name) AS ?last) { ?s <http://e/in> ?g ; <http://e/name> ?name } GROUP BY ?g",
        "SELECT ?name { ?s <http://e/name> ?name FILTER (CONTAINS(?name, \"999\")) } ORDER BY DESC(?name) LIMIT 5",
        "SELECT DISTINCT ?p ?c { ?s ?p ?o ; a ?c }",
        "SELECT (COUNT(*) AS ?n) { <http://e/s1> <http://e/to>* ?s }",
        "SELECT * { ?s ?p ?o }",
        "CONSTRUCT { ?o ?p ?s } { ?s ?p ?o }",
        "DESCRIBE <http://e/s5>",
        "ASK { ?s <http://e/name> \"name of 19999\" }",
    ];
    let mut asked: Vec<Ask> = queries.into_iter().map(Ask::query).collect();
    asked.push(Ask::get("/store"));
    asked.push(Ask::get("/store?default"));
    asked.push(Ask::update("INSERT DATA { <http://e/s1> <http://e/p> \"more\" }"));
    asked.push(Ask::update(
        "DELETE { ?s <http://e/name> ?n } INSERT { ?s <http://e/q> ?n } WHERE { ?s <http://e/name> ?n }",
    ));
    asked.push(Ask::update("DELETE WHERE { ?s <http://e/p> 17 }"));
    asked
}

/// What happened: a base file that was shortened ended the server by a signal.
#[test]
fn a_base_file_that_is_shortened_is_told_by_each_request_and_the_server_goes_on() {
    let here = folder("serve-shortened");
    let (store, base) = many_triples(&here);
    let whole = std::fs::read(&base).unwrap();
    let name = base.file_name().unwrap().to_str().unwrap().to_owned();
    let length = whole.len() as u64;
    for (left, has_read) in [(length / 2, true), (length / 2, false), (0, true), (0, false), (length - 10, true)] {
        let served = Served::start(&["--store", &store, "--open-updates"]);
        if has_read {
            for (number, ask) in reading().into_iter().take(13).enumerate() {
                // The answer of a named request is not kept for the next equal one.
                let ask = ask.with("vicus-request-id", &format!("first-{number}"));
                assert_eq!(ask.send(served.address).status, 200, "{ask:?}");
            }
        }
        std::fs::File::options().write(true).open(&base).unwrap().set_len(left).unwrap();
        for _ in 0..2 {
            for ask in reading() {
                let reply = ask.send(served.address);
                let (status, said) = (reply.status, reply.text());
                assert!(
                    status == 500 && said.contains(&name) && said.contains("shortened while it was open"),
                    "{left}: {ask:?}: {status}: {said:.300}"
                );
            }
        }
        for other in ["/", "/health"] {
            let status = Ask::get(other).send(served.address).status;
            assert!(status == 200, "{other}: {status}");
        }
        served.signal(libc::SIGTERM);
        assert_eq!(served.end().0.code(), Some(0));
        store::fails(&["query", "--store", &store, "ASK {}"], &["base-"]);
        std::fs::write(&base, &whole).unwrap();
    }
    let served = Served::start(&["--store", &store]);
    assert_eq!(served.number(ALL), 100_000, "nothing was changed, and a copy of the file is a repair");
}

/// What happened: bytes that another program changed in pages that were already checked were read as if they were
/// right.
#[test]
fn a_base_file_that_is_written_to_in_place_is_told_by_each_request() {
    let here = folder("serve-overwritten");
    let (store, base) = many_triples(&here);
    let whole = std::fs::read(&base).unwrap();
    let name = base.file_name().unwrap().to_str().unwrap().to_owned();
    let served = Served::start(&["--store", &store, "--open-updates"]);
    for (number, ask) in reading().into_iter().take(13).enumerate() {
        let ask = ask.with("vicus-request-id", &format!("first-{number}"));
        assert_eq!(ask.send(served.address).status, 200, "{ask:?}");
    }
    // The same length, and for all but a byte the same bytes.
    let file = std::fs::File::options().write(true).open(&base).unwrap();
    let middle = whole.len() / 2;
    file.write_all_at(&[!whole[middle]], middle as u64).unwrap();
    for _ in 0..2 {
        for ask in reading() {
            let reply = ask.send(served.address);
            let (status, said) = (reply.status, reply.text());
            assert!(
                status == 500 && said.contains(&name) && said.contains("another program wrote to it"),
                "{ask:?}: {status}: {said:.300}"
            );
        }
    }
    drop(served);
    store::fails(&["check", "--store", &store], &[&name]);
    std::fs::write(&base, &whole).unwrap();
    let served = Served::start(&["--store", &store]);
    assert_eq!(served.number(ALL), 100_000, "nothing was changed, and a copy of the file is a repair");
}

/// What happened: answers that were kept before a base file was shortened were sent for as long as the server ran.
#[test]
fn answers_of_the_time_before_are_not_sent_when_damage_is_known() {
    let here = folder("serve-shortened-kept");
    let (store, base) = many_triples(&here);
    let served = Served::start(&["--store", &store]);
    let ask = Ask::query("SELECT ?o { <http://e/17> <http://e/p> ?o }").with("accept", "text/csv");
    let first = ask.send(served.address);
    assert_eq!(first.status, 200, "{first:?}");
    std::fs::File::options().write(true).open(&base).unwrap().set_len(0).unwrap();
    assert_eq!(ask.send(served.address).text(), first.text(), "it is kept, and nothing is known of the file");
    let other = Ask::query("SELECT (SUM(?o) AS ?n) { ?s <http://e/p> ?o }").send(served.address);
    assert_eq!(other.status, 500, "{other:?}");
    let again = ask.send(served.address);
    assert_eq!(again.status, 500, "{again:?}");
}

/// An answer that has begun breaks off.
#[test]
fn an_answer_whose_base_file_is_shortened_meanwhile_is_not_whole() {
    let here = folder("serve-shortened-meanwhile");
    let (store, base) = many_triples(&here);
    let whole = std::fs::read(&base).unwrap();
    let name = base.file_name().unwrap().to_str().unwrap().to_owned();
    let cross = "SELECT * { ?s <http://e/p> ?n . ?t <http://e/name> ?name }";
    for left in [whole.len() as u64 / 2, 0, 1000] {
        for ask in [Ask::query(cross), Ask::query(cross).with("accept", "text/csv"), Ask::get("/store")] {
            let served = Served::start(&["--store", &store]);
            let mut answer = ask.open(served.address);
            assert_eq!(answer.head.status, 200);
            assert!(answer.piece().is_some_and(|piece| !piece.is_empty()));
            std::fs::File::options().write(true).open(&base).unwrap().set_len(left).unwrap();
            let (_, is_whole) = answer.skip();
            assert!(!is_whole, "{left}: {ask:?}");
            let next = Ask::query(ALL).send(served.address);
            assert!(next.status == 500 && next.text().contains(&name), "{next:?}");
            drop(served);
            std::fs::write(&base, &whole).unwrap();
        }
    }
}

impl Served {
    /// Resident bytes outside of files, and the most bytes ever resident.
    fn resident(&self) -> (u64, u64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let of = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
        };
        (of("RssAnon:"), of("VmHWM:"))
    }

    /// The resident bytes beside the data, as soon as they are below `bytes`, or after five minutes.
    fn beside_data_below(&self, bytes: u64) -> u64 {
        let began = Instant::now();
        loop {
            let metrics = Ask::get("/metrics").send(self.address).text();
            let data = metrics.lines().find_map(|line| line.strip_prefix("vicus_data_bytes ")).unwrap();
            let beside = self.resident().0.saturating_sub(data.parse().unwrap());
            if beside < bytes || began.elapsed() > Duration::from_secs(300) {
                return beside;
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

/// What happened: with 500 MB for all requests, six clients that sent large bodies had a server hold 1.2 GB: blocks
/// that were freed waited to be used again, within a bound that knew nothing of the 500 MB.
#[cfg(target_os = "linux")]
#[test]
fn what_bodies_have_freed_does_not_add_to_the_memory_that_requests_may_hold() {
    const TOTAL: u64 = 400 << 20;
    let data = numbers(&folder("serve-freed-bodies"), 10);
    let served = Served::start(&["--data", &data, "--open-updates", "--total-memory", &TOTAL.to_string()]);
    let address = served.address;
    let (before, _) = served.resident();
    let packed = |bytes: usize| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&vec![b' '; bytes]).unwrap();
        packed.finish().unwrap()
    };
    let bodies: Vec<Vec<u8>> = [20, 47, 64, 71, 90, 300].map(|mib| packed(mib << 20)).into();
    std::thread::scope(|scope| {
        for client in 0..6 {
            let bodies = &bodies;
            scope.spawn(move || {
                let began = Instant::now();
                for round in 0.. {
                    let ask = Ask::new("PUT", "/store?graph=http://e/g").with("content-type", "text/turtle");
                    let body = bodies[(client + round) % bodies.len()].clone();
                    // A body refused before its end may have its connection closed while it is sent.
                    if let Ok(reply) = ask.with("content-encoding", "gzip").body(body).over(&mut connect(address)) {
                        assert!(reply.status < 500 || reply.status == 503, "{}: {}", reply.status, reply.text());
                    }
                    if began.elapsed() > Duration::from_secs(8) {
                        break;
                    }
                }
            });
        }
    });
    let grown = served.resident().1.saturating_sub(before);
    assert!(grown < TOTAL + (192 << 20), "it grew by {} MiB", grown >> 20);
    let left = served.beside_data_below(64 << 20);
    assert!(left < 64 << 20, "{} MiB are left", left >> 20);
}

/// What happened: glibc kept the small blocks that documents had held, for good: 690 MiB after a few documents of a
/// million elements, and 1.3 GB after many.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn what_documents_have_held_goes_back_to_the_system() {
    let data = numbers(&folder("serve-freed-documents"), 10);
    let served = Served::start(&["--data", &data, "--open-updates", "--total-memory", "1G"]);
    let document: String = (0..300_000).map(|n| format!("<http://e/a{n}> <http://e/p> \"v{n}\" .\n")).collect();
    let nested = format!("<http://e/a> <http://e/p> {}1{} .", "( ".repeat(300_000), " )".repeat(300_000));
    for text in [&document, &nested] {
        let ask = Ask::new("PUT", "/store?graph=http://e/g").with("content-type", "text/turtle");
        let reply = ask.body(text.as_bytes()).send(served.address);
        assert!(reply.status < 300, "{}", reply.text());
    }
    let left = served.beside_data_below(80 << 20);
    assert!(left < 80 << 20, "{} MiB are left beside the data", left >> 20);
    assert_eq!(Ask::update("DROP ALL").send(served.address).status, 204);
    let left = served.beside_data_below(80 << 20);
    assert!(left < 80 << 20, "{} MiB are left when the data is dropped", left >> 20);
}

/// A container's first start, its health check, and the check of a server that is gone.
#[test]
fn a_store_is_made_where_none_is_and_the_server_answers_the_check() {
    let parent = folder("created");
    let store = parent.join("store");
    // The first start was interrupted before there was a store.
    std::fs::create_dir_all(&store).unwrap();
    file(&store, "LOCK", "");
    for rows in 1..=2 {
        let server = Served::start(&["--store", text(&store), "--create", "--open-updates"]);
        let address = server.address.to_string();
        assert_eq!(good(&["serve", "--check", "--bind", &address]), "ok\n");
        let everywhere = format!("0.0.0.0:{}", server.address.port());
        assert_eq!(good(&["serve", "--check", "--bind", &everywhere]), "ok\n");
        let update = format!("INSERT DATA {{ <http://e/{rows}> <http://e/p> 1 }}");
        assert_eq!(Ask::update(&update).send(server.address).status, 204);
        // The second start goes on with the store of the first.
        assert_eq!(server.number("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), rows);
        server.signal(libc::SIGTERM);
        assert!(server.end().0.success());
        store::fails(&["serve", "--check", "--bind", &address], &["no server answers at", &address]);
    }
    // A folder of other files is no place for a store.
    file(&parent, "letter", "dear");
    store::fails(&["serve", "--store", text(&parent), "--create", "--bind", "127.0.0.1:0"], &[text(&parent)]);
    store::fails(&["serve", "--check", "--bind", "nowhere"], &["`nowhere` is no address"]);
}

/// Something else than vicus at the port.
#[test]
fn the_check_tells_what_it_found_instead() {
    for (answer, told) in [
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "answers /health with status 404"),
        ("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n", "is ending"),
        ("220 mail\r\n", "is no HTTP server"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answers = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 1024];
            let _ = stream.read(&mut asked).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        store::fails(&["serve", "--check", "--bind", &address], &[told]);
        answers.join().unwrap();
    }
}

/// As the service gets its tokens: by variables, which other users of the machine don't see.
#[test]
fn tokens_come_from_the_environment() {
    let parent = folder("tokens");
    let data = file(&parent, "data.nt", "<http://e/a> <http://e/p> <http://e/b> .\n");
    let server = Served::start_with(&["--data", &data], &[("VICUS_READ_TOKEN", "see"), ("VICUS_TOKEN", "change")]);
    let ask = |token: Option<&str>| {
        let query = Ask::query("ASK {}");
        let query = match token {
            Some(token) => query.with("authorization", &format!("Bearer {token}")),
            None => query,
        };
        query.send(server.address).status
    };
    assert_eq!(
        (ask(None), ask(Some("see")), ask(Some("change")), ask(Some("guess"))),
        (401, 200, 200, 403),
        "no token, and three"
    );
    let update = Ask::update("CLEAR ALL").with("authorization", "Bearer see").send(server.address);
    assert!([401, 403].contains(&update.status), "{update:?}");
    server.signal(libc::SIGTERM);
    assert!(server.end().0.success());
}
