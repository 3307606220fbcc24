//! Sources without end on real threads, under every strategy: what they send, that they hold no worker, and that they
//! end when their request does.

use crate::skew_trials::SkewTrial;
use crate::window_trials::Trial;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use vicus_flow::{BoxError, BoxModel, Envelope, FlowError, Model, ModelBuilder, Schema, Turn, Type, library};
use vicus_machine::MachineRuntime;
use vicus_machine::streams::{self, Feed, Follow, FollowFrom, LineOptions, Tcp, Unix};
use vicus_schedule::ALL;

fn runtime(strategy: &str, threads: usize) -> MachineRuntime {
    MachineRuntime::builder().strategy(strategy.parse().unwrap()).threads(threads).quiet().start()
}

/// A folder of this process for a test.
fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("vicus-streams-{}-{name}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    path
}

/// A network of a source of lines, and the lines, or `idle` for an idle mark.
fn lines(
    open: impl Fn() -> io::Result<Box<dyn Feed>> + Clone + Send + Sync + 'static,
    options: LineOptions,
) -> (Arc<Model>, Receiver<String>) {
    let mut net = ModelBuilder::new("lines");
    let source = net.source(streams::lines("lines", open, options));
    let (send, receive) = mpsc::channel();
    let read = move || {
        let send = send.clone();
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(0) {
                Some(pill) if pill.is_pill() => turn.send_pill(0),
                Some(envelope) => match envelope.mark() {
                    Some(_) => send.send("idle".to_owned())?,
                    None => envelope.column(0).texts().try_for_each(|text| send.send(text.to_owned()))?,
                },
                None => {}
            }
            Ok(())
        }
    };
    let nothing = Schema::new::<&str>([]);
    let end = net.add(BoxModel::new("end", read).input(&streams::line_schema()).output(&nothing));
    net.connect(source.output(0), end.input(0));
    net.end(end.output(0));
    (net.build().unwrap(), receive)
}

fn tcp(address: std::net::SocketAddr) -> impl Fn() -> io::Result<Box<dyn Feed>> + Clone + Send + Sync {
    move || Tcp::connect(address).map(|feed| Box::new(feed) as Box<dyn Feed>)
}

/// The only worker runs another request while a source waits for its socket, and the request can be cancelled though
/// nothing ever comes.
#[test]
fn a_waiting_source_holds_no_worker_and_is_cancelled_at_once() {
    for strategy in ALL {
        let name = strategy.name();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let runtime = runtime(name, 1);
        let (model, received) = lines(tcp(listener.local_addr().unwrap()), LineOptions::default());
        let waiting = runtime.submit(&model);
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(b"one\ntw").unwrap();
        assert_eq!(received.recv().unwrap(), "one", "{name}");
        // It waits for the rest of its second line.
        runtime.submit(&numbers(100)).wait().unwrap_or_else(|error| panic!("{name}: {error}"));
        peer.write_all(b"o\r\n").unwrap();
        assert_eq!(received.recv().unwrap(), "two", "{name}");
        assert!(!waiting.is_done(), "{name}");
        waiting.cancel();
        assert!(matches!(waiting.wait(), Err(FlowError::Cancelled)), "{name}");
        // The thread notices that its box is gone, and hangs up.
        while peer.write_all(&[b'\n'; 1 << 16]).is_ok() {}
    }
}

/// A finite network of one source.
fn numbers(count: u64) -> Arc<Model> {
    let schema = Schema::new([("n", Type::U64)]);
    let mut net = ModelBuilder::new("numbers");
    let rows = move || (0..count).map(|n| Envelope::new([vec![n].into()]));
    let source = net.source(library::source("numbers", &schema, rows));
    let end = net.add(library::sink("end", &schema, |_| Ok(())));
    net.connect(source.output(0), end.input(0));
    net.end(end.output(0));
    net.build().unwrap()
}

/// What happens if the queues of a strategy prefer the boxes of a request that always has some.
#[test]
fn a_request_without_end_starves_no_other_one() {
    for strategy in ALL {
        for threads in [1, 2] {
            let name = strategy.name();
            let runtime = runtime(name, threads);
            let endless = [(); 2].map(|()| runtime.submit(&numbers(u64::MAX)));
            for _ in 0..3 {
                runtime.submit(&numbers(1000)).wait().unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            for request in endless {
                assert!(!request.is_done(), "{name}");
                request.cancel();
                assert!(matches!(request.wait(), Err(FlowError::Cancelled)), "{name}");
            }
        }
    }
}

#[test]
fn lines_come_from_sockets_with_marks_for_pauses() {
    let path = folder("socket").join("lines");
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let runtime = runtime("las", 2);
    let at = path.clone();
    let open = move || Unix::connect(&at).map(|feed| Box::new(feed) as Box<dyn Feed>);
    let options = LineOptions { idle: Some(Duration::from_millis(1)), envelope_rows: 2, ..LineOptions::default() };
    let (model, received) = lines(open, options);
    let request = runtime.submit(&model);
    let (mut peer, _) = listener.accept().unwrap();
    peer.write_all("a\n\nä\nb\nno end".as_bytes()).unwrap();
    let next = || std::iter::from_fn(|| received.recv().ok()).find(|line| line != "idle");
    assert_eq!(["a", "", "ä", "b"].map(|_| next().unwrap()), ["a", "", "ä", "b"]);
    // The peer is silent: this is told once, or not yet.
    assert_eq!(received.recv().unwrap(), "idle");
    drop(peer);
    assert_eq!(next().unwrap(), "no end");
    request.wait().unwrap();
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

#[test]
fn wrong_lines_and_missing_peers_fail_their_request() {
    let runtime = runtime("las", 1);
    let told = |bytes: &'static [u8]| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (model, _received) =
            lines(tcp(listener.local_addr().unwrap()), LineOptions { line_bytes: 8, ..LineOptions::default() });
        let request = runtime.submit(&model);
        listener.accept().unwrap().0.write_all(bytes).unwrap();
        request.wait().unwrap_err().to_string()
    };
    let error = told(b"good\nbad \xff\n");
    assert!(error.contains("line 2 is no text in UTF-8"), "{error}");
    for bytes in [&b"too long a line\n"[..], b"and one without its end"] {
        let error = told(bytes);
        assert!(error.contains("line 1 has more than 8 bytes"), "{error}");
    }
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (model, _received) = lines(tcp(address), LineOptions::default());
    let error = runtime.submit(&model).wait().unwrap_err().to_string();
    assert!(error.starts_with("box lines failed"), "{error}");
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn a_file_is_followed_when_it_is_replaced_and_cut_off() {
    let folder = folder("follow");
    let path = folder.join("log");
    append(&path, "one\ntwo\nhal");
    let at = path.clone();
    let open = move || Follow::open(&at, FollowFrom::Beginning).map(|feed| Box::new(feed) as Box<dyn Feed>);
    let runtime = runtime("vicus", 2);
    let (model, received) = lines(open, LineOptions::default());
    let request = runtime.submit(&model);
    let next = || received.recv().unwrap();
    assert_eq!([next(), next()], ["one", "two"]);
    append(&path, "f\n");
    assert_eq!(next(), "half");
    append(&path, "cut");
    fs::rename(&path, folder.join("log.1")).unwrap();
    // Still to the old file.
    append(&folder.join("log.1"), " short");
    append(&path, "of the new file\n");
    assert_eq!([next(), next()], ["cut short", "of the new file"]);
    OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
    append(&path, "again\n");
    assert_eq!(next(), "again");
    request.cancel();
    assert!(matches!(request.wait(), Err(FlowError::Cancelled)));

    let at = path.clone();
    let open = move || Follow::open(&at, FollowFrom::End).map(|feed| Box::new(feed) as Box<dyn Feed>);
    let (model, received) = lines(open, LineOptions { idle: Some(Duration::from_millis(1)), ..LineOptions::default() });
    let request = runtime.submit(&model);
    assert_eq!(received.recv().unwrap(), "idle", "it is open, and there is nothing behind its end");
    append(&path, "new\n");
    assert_eq!(std::iter::from_fn(|| received.recv().ok()).find(|line| line != "idle").unwrap(), "new");
    request.cancel();
    let _ = request.wait();
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn ticks_come_in_order_and_have_their_times() {
    assert!(streams::ticks("ticks", Duration::ZERO, None).is_err());
    for strategy in ALL {
        let mut net = ModelBuilder::new("ticks");
        let source = net.source(streams::ticks("ticks", Duration::from_micros(300), Some(40)).unwrap());
        let (send, receive) = mpsc::channel();
        let read = move |rows: Envelope| {
            (0..rows.rows()).try_for_each(|row| send.send((rows.column(0).u64s()[row], rows.column(1).i64s()[row])))?;
            Ok(())
        };
        let end = net.add(library::sink("end", &streams::tick_schema(), read));
        net.connect(source.output(0), end.input(0));
        net.end(end.output(0));
        let runtime = runtime(strategy.name(), 1);
        runtime.submit(&net.build().unwrap()).wait().unwrap();
        let all: Vec<(u64, i64)> = receive.try_iter().collect();
        let wanted: Vec<(u64, i64)> = (0..40).map(|tick| (tick, all[0].1 + 300 * tick as i64)).collect();
        assert_eq!(all, wanted, "{}", strategy.name());
    }
}

/// The windows of random streams on threads.
#[test]
fn windows_are_those_of_plain_loops_under_every_strategy() {
    for (place, strategy) in ALL.iter().enumerate() {
        let runtime = runtime(strategy.name(), 1 + place % 3);
        for seed in 0..40 {
            let trial = Trial::of_seed(1000 * place as u64 + seed);
            let run = runtime.submit(&trial.model).wait();
            run.unwrap_or_else(|error| panic!("{}, {}: {error}", strategy.name(), trial.what));
            trial.judge();
        }
    }
}

/// Joins and groups of few keys in parts on threads.
#[test]
fn heavy_keys_are_joined_and_grouped_under_every_strategy() {
    for (place, strategy) in ALL.iter().enumerate() {
        let runtime = runtime(strategy.name(), 1 + place % 3);
        for seed in 1000 * place as u64..1000 * place as u64 + 30 {
            for trial in [SkewTrial::of_join(seed), SkewTrial::of_group(seed)] {
                let run = runtime.submit(&trial.model).wait();
                run.unwrap_or_else(|error| panic!("{}, {}: {error}", strategy.name(), trial.what));
                trial.judge();
            }
        }
    }
}
