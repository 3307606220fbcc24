//! A server within the test's process, on a port of its own.

use crate::client::{Ask, Reply};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vicus::{Runtime, Setting};
use vicus_server::{AccessRules, ClientLimits, Server, ServerData, ServerOptions, ServerStop};
use vicus_service::data::Snapshot;
use vicus_service::{Dataset, MemoryBudget, Service, SessionOptions, open_store};

pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: ServerStop,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

/// Every client may update; requests running at the end are stopped soon.
pub(crate) fn open() -> ServerOptions {
    ServerOptions {
        access: AccessRules { is_open: true, ..AccessRules::default() },
        grace: Duration::from_millis(200),
        ..ServerOptions::default()
    }
}

/// [`open`] with other limits for clients.
pub(crate) fn with_clients(clients: ClientLimits) -> ServerOptions {
    ServerOptions { clients, ..open() }
}

pub(crate) fn with_session(session: SessionOptions) -> ServerOptions {
    ServerOptions { session, ..open() }
}

pub(crate) fn service(strategy: &str, memory: u64) -> Service {
    let strategy: Setting = strategy.parse().expect("a strategy");
    let runtime = Runtime::builder().threads(2).strategy(strategy).quiet().start();
    Service::new(runtime, MemoryBudget::new(memory))
}

pub(crate) fn memory(turtle: &str) -> ServerData {
    ServerData::Memory(Dataset::new(Arc::new(
        Snapshot::of_turtle(turtle.as_bytes(), None).expect("the data is Turtle"),
    )))
}

/// `count` subjects with a number each.
pub(crate) fn numbers(count: usize) -> String {
    (0..count).map(|number| format!("<http://e/s{number}> <http://e/p> {number} .\n")).collect()
}

/// Has no end within a test.
pub(crate) const ENDLESS: &str = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }";

/// An endless query without any rows.
pub(crate) const SILENT: &str =
    "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . FILTER(?c + ?f * ?i = -1) }";

impl Running {
    /// Serves a few triples in memory.
    pub(crate) fn start(turtle: &str, options: ServerOptions) -> Running {
        Running::of(service("las", 1 << 30), memory(turtle), options)
    }

    /// A store in a folder, as it lies there.
    pub(crate) fn store(folder: &Path, options: ServerOptions) -> Running {
        let service = service("las", 1 << 30);
        let store = Arc::new(open_store(folder).expect("a store"));
        let merger = service.keep(&store).expect("a thread");
        Running::of(service, ServerData::Store { store, merger: Some(merger) }, options)
    }

    pub(crate) fn of(service: Service, data: ServerData, options: ServerOptions) -> Running {
        let server = Server::bind("127.0.0.1:0", service, data, options).expect("a port is free");
        let (address, stop) = (server.address().expect("it listens"), server.stopper());
        let thread = std::thread::spawn(move || server.run());
        Running { address, stop, thread: Some(thread) }
    }

    pub(crate) fn ask(&self, ask: &Ask) -> Reply {
        ask.send(self.address)
    }

    /// Carries out an update. It must succeed.
    pub(crate) fn update(&self, text: &str) {
        let reply = self.ask(&Ask::update(text));
        assert!(reply.status < 300, "{text}: {reply:?}");
    }

    /// The answer of a query for one number.
    pub(crate) fn number(&self, text: &str) -> u64 {
        let reply = self.ask(&Ask::query(text).with("accept", "text/csv"));
        let answer = reply.text();
        let number = answer.lines().nth(1).and_then(|line| line.trim().parse().ok());
        number.unwrap_or_else(|| panic!("{text}: {reply:?}"))
    }

    pub(crate) fn boolean(&self, text: &str) -> bool {
        self.ask(&Ask::query(text).with("accept", "application/json")).text().replace(' ', "").contains("true")
    }

    /// A number of `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = self.ask(&Ask::get("/metrics")).text();
        let line = text.lines().find(|line| line.split(' ').next() == Some(name));
        let number = line.and_then(|line| line.rsplit(' ').next()).and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("{name} is a number in {text}"))
    }

    /// Waits until a number of `/metrics` is as wanted, and returns the time taken.
    pub(crate) fn wait_for(&self, name: &str, wanted: impl Fn(u64) -> bool) -> Duration {
        let began = Instant::now();
        loop {
            let value = self.metric(name);
            if wanted(value) {
                return began.elapsed();
            }
            assert!(began.elapsed() < Duration::from_secs(30), "{name} stays {value}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn stopper(&self) -> ServerStop {
        self.stop.clone()
    }

    /// Waits until it has ended.
    pub(crate) fn join(mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic").expect("it ends well");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.expect("no panic").expect("it ends well");
            }
        }
    }
}

/// An empty folder for a test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(format!("server-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("it can be made");
    folder
}
