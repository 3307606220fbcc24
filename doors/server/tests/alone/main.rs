//! A server's use of its process, measured in a separate process: CPU time, memory, files. One test at a time.

#[expect(dead_code, reason = "the tests of answers use the rest")]
#[path = "../server/client.rs"]
mod client;
#[expect(dead_code, reason = "the tests of answers use the rest")]
#[path = "../server/running.rs"]
mod running;

use client::{Answer, Ask, connect};
use running::{ENDLESS, Running, memory, numbers, open, service, with_clients};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use vicus_server::ClientLimits;

/// The allocator of the command line's program: the measurements depend on it.
#[global_allocator]
static ALLOCATOR: vicus::Allocator = vicus::Allocator::new();

/// Held by the measuring test.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time used by this process so far, by the kernel's count.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").expect("the kernel says it");
    // After the name in parentheses: the 12th and 13th field are the ticks in user and in system mode.
    let fields: Vec<&str> = text.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    let ticks = |field: usize| fields[field].parse::<u64>().expect("a number");
    // Linux counts in hundredths of a second for programs (USER_HZ).
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}

/// Bytes of memory in use by this process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("the kernel says it");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is there");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// The most growth of the process's memory during `act`.
fn growth(mut act: impl FnMut(&mut dyn FnMut())) -> u64 {
    let before = resident();
    let mut most = before;
    act(&mut || most = most.max(resident()));
    most.max(resident()) - before
}

const MIB: u64 = 1 << 20;

/// Also with open connections, and after requests of all kinds.
#[test]
fn an_idle_server_uses_no_cpu() {
    let _alone = alone();
    for strategy in vicus::STRATEGIES {
        let server = Running::of(service(strategy.name(), 1 << 30), memory(&numbers(2000)), open());
        let mut kept: Vec<TcpStream> = (0..20).map(|_| connect(server.address)).collect();
        for stream in &mut kept[..10] {
            assert_eq!(Ask::query("ASK { ?s ?p ?o }").over(stream).expect("it answers").status, 200);
        }
        server.update("INSERT DATA { <http://e/a> <http://e/p> 1 }");
        drop(Ask::query(ENDLESS).open(server.address));
        server.wait_for("vicus_requests_running", |running| running == 0);
        // Growing pauses are over by then.
        std::thread::sleep(Duration::from_millis(200));
        let before = cpu_time();
        std::thread::sleep(Duration::from_millis(400));
        let used = cpu_time() - before;
        assert!(used <= Duration::from_millis(20), "{}: {used:?}", strategy.name());
    }
}

/// Each of them costs little, other clients are served, and silent connections are closed.
#[test]
fn thousands_of_idle_connections_cost_little() {
    let _alone = alone();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    #[expect(unsafe_code, reason = "raises the limit of open files")]
    // SAFETY: the pointer is to a structure of this kind, which lives on.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
    }
    // Both ends are in this process.
    let count =
        ((limit.rlim_cur as usize).saturating_sub(500) / 2).min(if cfg!(debug_assertions) { 2000 } else { 10_000 });
    let clients = ClientLimits { head_time: Duration::from_secs(60), ..ClientLimits::default() };
    let server = Running::start(&numbers(50), with_clients(clients));
    let mut held = Vec::with_capacity(count);
    let grown = growth(|look| {
        for number in 0..count {
            let mut stream = connect(server.address);
            // Some have begun a request.
            if number % 2 == 0 {
                stream.write_all(b"GET /sparql HTTP/1.1\r\nHost: localhost\r\n").expect("it is sent");
            }
            held.push(stream);
        }
        server.wait_for("vicus_connections", |open| open as usize >= count);
        look();
    });
    println!("{count} connections: {} KiB each", grown / 1024 / count as u64);
    assert!(grown <= 32 * 1024 * count as u64, "{count} connections: {grown} bytes");
    assert_eq!(server.number("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), 50);
    drop(held);
    server.wait_for("vicus_connections", |open| open <= 2);
    // They leave nothing behind: the next ones take the same memory.
    let grown = growth(|look| {
        let held: Vec<_> = (0..count).map(|_| connect(server.address)).collect();
        server.wait_for("vicus_connections", |open| open as usize >= count);
        look();
        drop(held);
    });
    assert!(grown <= 16 * MIB, "{grown}");
}

/// A few kilobytes that unpack to gigabytes.
#[test]
fn bombs_take_no_more_than_a_body_may() {
    let _alone = alone();
    let clients = ClientLimits { body_bytes: 4 * MIB, ..ClientLimits::default() };
    let server = Running::start("", with_clients(clients));
    let (size, piece) = (if cfg!(debug_assertions) { 64 * MIB } else { 2048 * MIB }, vec![b'\n'; MIB as usize]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut zstd = zstd::Encoder::new(Vec::new(), 1).expect("memory is there");
    for _ in 0..size / MIB {
        gzip.write_all(&piece).expect("memory takes everything");
        zstd.write_all(&piece).expect("memory takes everything");
    }
    let (gzip, zstd) = (gzip.finish().expect("memory"), zstd.finish().expect("memory"));
    println!("bombs of {} and {} bytes", gzip.len(), zstd.len());
    let ask = |target: &str, media_type: &str, coding: &str, body: &[u8]| {
        Ask::post(target, media_type, body).with("content-encoding", coding).send(server.address).status
    };
    let grown = growth(|look| {
        for _ in 0..4 {
            for (coding, body) in [("gzip", &gzip), ("zstd", &zstd)] {
                assert_eq!(ask("/store?default", "text/turtle", coding, body), 413, "{coding}");
                look();
            }
        }
        // A text's limit is its own, and larger.
        assert_eq!(ask("/sparql", "application/sparql-query", "zstd", &zstd), 413);
        look();
    });
    println!("grown by {} MiB", grown / MIB);
    assert!(grown <= 200 * MIB, "{grown}");
    // A wide window, requested by a small body.
    let mut wide = zstd::Encoder::new(Vec::new(), 1).expect("memory is there");
    wide.window_log(27).expect("it can be set");
    wide.write_all(b"ASK {}").expect("memory takes everything");
    let status = ask("/sparql", "application/sparql-query", "zstd", &wide.finish().expect("memory"));
    assert!([200, 400].contains(&status), "{status}");
}

/// Rows wait in their makers, not in memory.
#[test]
fn clients_that_read_nothing_hold_little() {
    let _alone = alone();
    let strategies: Vec<&str> = vicus::STRATEGIES.iter().map(|strategy| strategy.name()).collect();
    let strategies = if cfg!(debug_assertions) { &strategies[..1] } else { &strategies[..] };
    for (number, strategy) in strategies.iter().enumerate() {
        let server = Running::of(service(strategy, 1 << 30), memory(&numbers(2000)), open());
        // Until the system's buffers of a connection are full, hundreds of megabytes are packed; this takes long
        // without optimisation.
        let packs = number == 0 && !cfg!(debug_assertions);
        let codings = if packs { &["identity", "gzip", "zstd"][..] } else { &["identity"] };
        for coding in codings {
            let count = if *coding == "identity" { 20 } else { 4 };
            // The first one wakes the shared parts.
            drop(Ask::query(ENDLESS).open(server.address));
            server.wait_for("vicus_requests_running", |running| running == 0);
            let grown = growth(|look| {
                let ask =
                    Ask::query(ENDLESS).with("accept", "text/tab-separated-values").with("accept-encoding", coding);
                let held: Vec<Answer<TcpStream>> = (0..count).map(|_| ask.open(server.address)).collect();
                for _ in 0..20 {
                    std::thread::sleep(Duration::from_millis(20));
                    look();
                }
                assert_eq!(server.metric("vicus_requests_running"), count);
                drop(held);
                server.wait_for("vicus_requests_running", |running| running == 0);
            });
            println!("{strategy}, {coding}: {} KiB for each of {count}", grown / 1024 / count);
            // Also with the allocators' rest of sent pieces.
            assert!(grown <= count * 16 * MIB, "{strategy}, {coding}: {grown}");
        }
    }
}

/// Nothing of a request stays.
#[test]
fn requests_leave_nothing_behind() {
    let _alone = alone();
    let server = Running::start(&numbers(2000), open());
    let round = |count: usize| {
        for number in 0..count {
            let query = format!("SELECT ?s {{ ?s <http://e/p> {number} }}");
            assert_eq!(
                Ask::query(&query).with("vicus-request-id", &format!("r{number}")).send(server.address).status,
                200
            );
            assert_eq!(Ask::query("ASK").send(server.address).status, 400);
            if number % 50 == 0 {
                drop(Ask::query(ENDLESS).open(server.address));
            }
        }
        server.wait_for("vicus_requests_running", |running| running == 0);
    };
    round(300);
    let count = if cfg!(debug_assertions) { 600 } else { 5000 };
    let grown = growth(|_| round(count));
    println!("{count} rounds: {} KiB", grown / 1024);
    assert!(grown <= 64 * MIB, "{grown}");
    let files = std::fs::read_dir("/proc/self/fd").expect("the kernel says it").count();
    assert!(files < 200, "{files} files are open");
}

/// Endless bodies, endless headers, unread answers, all at once; and short queries are answered.
#[test]
fn other_clients_are_served_meanwhile() {
    let _alone = alone();
    let clients = ClientLimits {
        body_time: Duration::from_secs(60),
        head_time: Duration::from_secs(60),
        ..ClientLimits::default()
    };
    let server = Running::start(&numbers(2000), with_clients(clients));
    let begun = |bytes: &[u8]| {
        let mut stream = connect(server.address);
        stream.write_all(bytes).expect("it is sent");
        stream
    };
    let mut held = Vec::new();
    for _ in 0..50 {
        held.push(begun(b"GET /sparql HTTP/1.1\r\nHost: localhost\r\nX: "));
        held.push(begun(
            b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: \
            application/sparql-query\r\nContent-Length: 100\r\n\r\nASK",
        ));
        held.push(begun(
            b"PUT /store?default HTTP/1.1\r\nHost: localhost\r\nContent-Type: \
            text/turtle\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n#",
        ));
    }
    for _ in 0..10 {
        held.push(begun(&Ask::query(ENDLESS).bytes()));
    }
    let mut times = Vec::new();
    for number in 0..100 {
        let began = Instant::now();
        let found = server.number(&format!("SELECT ?o {{ <http://e/s{number}> <http://e/p> ?o }}"));
        assert_eq!(found, number);
        times.push(began.elapsed());
    }
    times.sort();
    println!("median {:?}, longest {:?}", times[50], times[99]);
    // Their ends are ends.
    for mut stream in held {
        stream.set_read_timeout(Some(Duration::from_millis(1))).expect("it can be limited");
        let _ = stream.read(&mut [0; 64]);
    }
    server.wait_for("vicus_requests_running", |running| running == 0);
}
