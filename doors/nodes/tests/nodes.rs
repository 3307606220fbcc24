//! Networks over several nodes in this process, by real connections.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use vicus::{BoxId, Operator, Runtime};
use vicus_flow::{BoxError, BoxModel, Envelope, Schema, Turn, Type, library};
use vicus_network::{BoxSpec, KindError, Kinds, MachineCounts, NetworkText, ParameterType, Ports};
use vicus_nodes::{Lead, LeadError, LeadOptions, NodeOptions, NodeServer};

/// A node on a free port, until it is dropped.
struct Running {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(threads: usize, kinds: Kinds, token: Option<&str>) -> Running {
        let runtime = Runtime::builder().threads(threads).start();
        let (token, certificate) = (token.map(str::to_owned), None);
        let options = NodeOptions { token, certificate, memory: 1 << 30, overflows: None, nodes: 1 };
        let node = NodeServer::listen("127.0.0.1:0", runtime, kinds, options).unwrap();
        let (address, is_over) = (node.address().unwrap(), Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || node.serve(|| over.load(Ordering::Relaxed)).unwrap());
        Running { address, is_over, thread: Some(thread) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Patient, since tests share the machine.
fn options() -> LeadOptions {
    LeadOptions { silence: Duration::from_secs(20), ..LeadOptions::default() }
}

/// The rows of a text over these nodes: of its first collected box, as the numbers of all their columns.
fn run(text: &str, kinds: &Kinds, nodes: &[&Running], options: LeadOptions) -> Result<Vec<Vec<i64>>, LeadError> {
    let text: NetworkText = text.parse().expect("the text is one");
    let addresses: Vec<String> = nodes.iter().map(|node| node.address.to_string()).collect();
    let runtime = Runtime::builder().threads(2).start();
    let own = MachineCounts { threads: 2, nodes: 1 };
    let mut attempt = Lead::connect(&addresses, &[], options)?.begin(&text, "test", &[], own, 1 << 30)?;
    let network = attempt.build(&text, "test", kinds, &[])?;
    let Some(network) = network else { return attempt.wait(None, || true).map(|_| Vec::new()) };
    let rows: Arc<Mutex<Vec<Vec<i64>>>> = Arc::default();
    let mut operators: Vec<(BoxId, Box<dyn Operator>)> = Vec::new();
    for collected in &network.collected {
        let rows = Arc::clone(&rows);
        let take = move |envelope: Envelope| {
            let columns: Vec<&[i64]> = envelope.columns().iter().map(|column| column.i64s()).collect();
            let row = |row: usize| columns.iter().map(|column| column[row]).collect();
            rows.lock().unwrap().extend((0..envelope.rows()).map(row));
            Ok(())
        };
        operators.push((collected.sink, Box::new(library::sink_operator(take))));
    }
    let request = runtime.submit_with(&network.model, operators);
    // A network that waits for itself is an error of the test, and no test without an end.
    let end = Instant::now() + Duration::from_secs(300);
    attempt.wait(Some(&request), || Instant::now() < end)?;
    drop(request);
    let mut rows = std::mem::take(&mut *rows.lock().unwrap());
    rows.sort_unstable();
    Ok(rows)
}

#[test]
fn rows_go_to_nodes_and_come_back() {
    let (one, two) = (Running::start(1, Kinds::library(), None), Running::start(2, Kinds::library(), None));
    let text = "box n = numbers(to: 100000);
        box far = map(select: \"n, n * 2 AS twice\") on node 2;
        box keep = filter(where: \"n % 10000 = 0\") on node 1;
        box rows = collect;
        n -> far -> keep -> rows;";
    let rows = run(text, &Kinds::library(), &[&one, &two], options()).unwrap();
    assert_eq!(rows, (0..10).map(|n| vec![n * 10000, n * 20000]).collect::<Vec<_>>());
}

/// Each node makes the same numbers with as many threads as it has, so all come three times in all.
#[test]
fn copies_are_on_each_node_with_its_own_threads() {
    let (one, two) = (Running::start(1, Kinds::library(), None), Running::start(2, Kinds::library(), None));
    let text = "box n = numbers(to: 3) * threads on node *;
        box even = filter(where: \"n % 2 = 0\") * threads on node *;
        box count = aggregate(select: \"n, COUNT(*) AS c\", by: \"n\");
        box rows = collect;
        n -> even -> count -> rows;";
    let rows = run(text, &Kinds::library(), &[&one, &two], options()).unwrap();
    assert_eq!(rows, [[0, 3], [2, 3]]);
    // The text runs in this process alone as well.
    assert_eq!(run(text, &Kinds::library(), &[], options()).unwrap(), [[0, 2], [2, 2]]);
}

/// Rows with equal keys are dealt to one of four parts on two nodes, which group them there.
#[test]
fn a_shuffle_over_nodes_groups_all_rows_of_a_key_together() {
    let nodes = [Running::start(2, Kinds::library(), None), Running::start(2, Kinds::library(), None)];
    let by_one = "box all = union; box deal = partition(by: \"k\"); k -> all -> deal -> group;";
    // Each node deals its own rows to all parts on both.
    let by_each = "box deal = partition(by: \"k\") on node *; k -> deal => group;";
    for dealt in [by_one, by_each] {
        let text = format!(
            "box n = numbers(to: 200000) on node *;
            box k = map(select: \"n % 1000 AS k, n\") on node *;
            box group = aggregate(select: \"k, COUNT(*) AS c, SUM(n) AS s\", by: \"k\") * 2 on node *;
            box rows = collect;
            n -> k; {dealt} group -> rows;"
        );
        let rows = run(&text, &Kinds::library(), &[&nodes[0], &nodes[1]], options()).unwrap();
        // Each k is in 200 numbers of either node: k, k + 1000, ….
        let sum = |k: i64| 2 * (200 * k + 1000 * (199 * 200 / 2));
        assert_eq!(rows, (0..1000).map(|k| vec![k, 400, sum(k)]).collect::<Vec<_>>());
    }
}

/// The report's "above average" (§3.5, Fig. 4) over two processes: one way waits for a number that the other one makes
/// of all rows. With bounds held everywhere, all boxes would wait.
#[test]
fn two_ways_that_meet_again_do_not_wait_for_each_other_for_ever() {
    let node = Running::start(2, Kinds::library(), None);
    let text = "box n = numbers(to: 2000000);
        box mean = aggregate(select: \"AVG(n) AS mean\") on node 1;
        box above = join(on: \"n > mean\");
        box count = aggregate(select: \"COUNT(*) AS c, MIN(n) AS least\");
        box rows = collect;
        n -> mean; n -> above.0; mean -> above.1; above -> count -> rows;";
    let rows = run(text, &Kinds::library(), &[&node], options());
    match rows {
        Ok(rows) => assert_eq!(rows, [[1000000, 1000000]]),
        Err(error) => panic!("{error}"),
    }
}

/// A source without an end on a node is stopped by a limit here.
#[test]
fn a_reader_that_has_enough_ends_a_source_on_another_node() {
    let node = Running::start(1, Kinds::library(), None);
    let text = "box n = numbers(to: 9000000000000000000) on node 1; box few = limit(rows: 3); box rows = collect;
        n -> few -> rows;";
    assert_eq!(run(text, &Kinds::library(), &[&node], options()).unwrap(), [[0], [1], [2]]);
}

/// What happened: three processes that connected when they reached their first crossing waited for each other.
#[test]
fn processes_that_wait_for_each_others_columns_are_all_made() {
    let nodes = [Running::start(1, Kinds::library(), None), Running::start(1, Kinds::library(), None)];
    let text = "box a = numbers(to: 3) on node 2; box b = numbers(to: 3) on node 2; box c = map(select: \"n\");
        box e = filter(where: \"n >= 0\") on node 1; box d = filter(where: \"n >= 0\") on node 1; box all = union;
        box rows = collect; b -> c -> e -> all; a -> d -> all; all -> rows;";
    let rows = run(text, &Kinds::library(), &[&nodes[0], &nodes[1]], options()).unwrap();
    assert_eq!(rows, [[0], [0], [1], [1], [2], [2]]);
}

/// What happened: a source whose reader here had enough was held up by it, and with it the other reader of its rows.
#[test]
fn a_reader_that_has_enough_holds_up_no_other_one() {
    let node = Running::start(1, Kinds::library(), None);
    let text = "box n = numbers(to: 20000000) on node 1; box f = filter(where: \"n >= 0\") on node 1;
        box few = limit(rows: 3); box some = sink; box count = aggregate(select: \"COUNT(*) AS c\") on node 1;
        box rows = collect; n -> f -> few -> some; n -> count -> rows;";
    assert_eq!(run(text, &Kinds::library(), &[&node], options()).unwrap(), [[20_000_000]]);
}

/// What happened: a box that sends to a reader which has enough, and gets no rows any more, did not notice it.
#[test]
fn a_part_that_nobody_wants_any_more_ends_without_rows() {
    let node = Running::start(1, Kinds::library(), None);
    let text = "box n = numbers(to: 9000000000000000000) on node 1; box first = filter(where: \"n < 3\") on node 1;
        box few = limit(rows: 3); box rows = collect; n -> first -> few -> rows;";
    assert_eq!(run(text, &Kinds::library(), &[&node], options()).unwrap(), [[0], [1], [2]]);
}

/// A stream on another node is known to have no end: a box here that needs all of it is refused, as in one process.
#[test]
fn streams_on_other_nodes_are_known_to_never_end() {
    let kinds = || {
        let mut kinds = Kinds::library();
        let stream = BoxSpec::new("stream", "Never ends.").ports(Ports::Exactly(0), Ports::Exactly(1));
        kinds.add(stream.builds(|building| {
            building.never_ends();
            let schema = Schema::new([("n", Type::I64)]);
            // It asks to run again: a source that waits for nothing would end its part as one that is stuck.
            let nothing = || {
                |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                    turn.take(0);
                    turn.run_again();
                    Ok(())
                }
            };
            Ok(vec![(building.source(BoxModel::new("stream", nothing).output(&schema)).output(0), schema)])
        }));
        kinds
    };
    let node = Running::start(1, kinds(), None);
    let text = "box s = stream on node 1; box order = sort(by: \"n\"); box rows = collect; s -> order -> rows;";
    let refused = run(text, &kinds(), &[&node], options()).unwrap_err().to_string();
    assert!(refused.contains("the stream of `s` never ends"), "{refused}");
}

/// What happened: a part whose making panicked was waited for, as its node went on living.
#[test]
fn kinds_that_panic_are_failures_of_their_part() {
    let kinds = || {
        let mut kinds = Kinds::library();
        let panics = BoxSpec::new("panics", "Panics when it is made on a node of three threads.");
        kinds.add(panics.ports(Ports::Exactly(1), Ports::Exactly(1)).builds(|building| {
            assert!(building.machine().threads < 3, "too many threads");
            Err(KindError::new("it is made on fewer threads"))
        }));
        kinds
    };
    let node = Running::start(3, kinds(), None);
    let text = "box n = numbers(to: 3); box p = panics on node 1; box s = sink on node 1; n -> p -> s;";
    let failed = run(text, &kinds(), &[&node], options()).unwrap_err();
    assert!(matches!(&failed, LeadError::Failed { node: 1, message, .. } if message.contains("panicked")), "{failed}");
}

fn kinds_with_failure() -> Kinds {
    let mut kinds = Kinds::library();
    let fails = BoxSpec::new("fails", "Fails at a number.")
        .required("at", ParameterType::Integer, "The number.")
        .ports(Ports::Exactly(1), Ports::Exactly(1))
        .builds(|building| {
            let (at, schema) = (building.integer("at"), building.inputs()[0].schema.clone());
            if at < 0 {
                return Err(KindError::of("at", "it is below zero"));
            }
            let act = move || {
                move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                    let Some(rows) = turn.take(0) else { return Ok(()) };
                    if !rows.is_pill() && rows.column(0).i64s().contains(&at) {
                        return Err(format!("{at} came").into());
                    }
                    turn.send(0, rows);
                    Ok(())
                }
            };
            let fails = BoxModel::new("fails", act).input(&schema).output(&schema);
            Ok(vec![(building.add(fails).output(0), schema)])
        });
    kinds.add(fails);
    kinds
}

#[test]
fn a_box_that_fails_on_a_node_fails_the_network_with_its_node_and_its_error() {
    let nodes = [Running::start(1, kinds_with_failure(), None), Running::start(1, kinds_with_failure(), None)];
    let text = |at: i64| {
        format!(
            "box n = numbers(to: 1000000) on node 1; box f = fails(at: {at}) on node 2; box rows = collect;
             n -> f -> rows;"
        )
    };
    let fail = |at| run(&text(at), &kinds_with_failure(), &[&nodes[0], &nodes[1]], options()).unwrap_err();
    let failed = fail(70_000);
    assert!(
        matches!(&failed, LeadError::Failed { node: 2, message, .. } if message.contains("70000 came")),
        "{failed}"
    );
    let wrong = fail(-1);
    assert!(matches!(&wrong, LeadError::Failed { node: 2, message, .. } if message.contains("below zero")), "{wrong}");
    // The nodes serve the next one.
    let rows = run(&text(5_000_000), &kinds_with_failure(), &[&nodes[0], &nodes[1]], options()).unwrap();
    assert_eq!(rows.len(), 1_000_000);
}

#[test]
fn a_node_that_lacks_a_kind_says_so() {
    let node = Running::start(1, Kinds::library(), None);
    let text = "box n = numbers(to: 10); box f = fails(at: 3) on node 1; box rows = collect; n -> f -> rows;";
    let failed = run(text, &kinds_with_failure(), &[&node], options()).unwrap_err();
    assert!(failed.to_string().contains("there is no kind `fails`"), "{failed}");
}

#[test]
fn wrong_tokens_and_other_programs_are_told_of() {
    let node = Running::start(1, Kinds::library(), Some("secret"));
    let text = "box n = numbers(to: 3) on node 1; box rows = collect; n -> rows;";
    let try_token = |token: Option<&str>| {
        let options = LeadOptions { token: token.map(str::to_owned), ..options() };
        run(text, &Kinds::library(), &[&node], options)
    };
    assert_eq!(try_token(Some("secret")).unwrap(), [[0], [1], [2]]);
    for token in [None, Some("Secret"), Some("secret ")] {
        let refused = try_token(token).unwrap_err().to_string();
        assert!(refused.contains("the token is not the node's"), "{refused}");
    }

    // An address that answers with HTTP.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut first = [0; 12];
        client.read_exact(&mut first).unwrap();
        client.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let no_node = Lead::connect(&[address], &[], options()).err().expect("it is no node").to_string();
    assert!(no_node.contains("no node of Vicus") && no_node.contains("HTTP/1.1 400"), "{no_node}");
    server.join().unwrap();

    // A browser at a node.
    let mut browser = TcpStream::connect(node.address).unwrap();
    browser.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut page = String::new();
    browser.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 400 ") && page.contains("vicus network run --nodes"), "{page}");

    // Nobody listens.
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let hasty = LeadOptions { wait: Duration::ZERO, ..options() };
    let unreachable = Lead::connect(std::slice::from_ref(&unused), &[], hasty).err().expect("it is free").to_string();
    assert!(unreachable.starts_with(&unused) && unreachable.contains("can't be reached"), "{unreachable}");
}

/// Another version is told of at both ends, before anything of a network is sent.
#[test]
fn nodes_and_clients_of_other_versions_are_refused() {
    let node = Running::start(1, Kinds::library(), None);
    let mut older = TcpStream::connect(node.address).unwrap();
    older.write_all(b"VICUS-NODE/1 {\"version\":\"0.0.1\"}\n").unwrap();
    let mut answer = String::new();
    older.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("Refused") && answer.contains("it has another version"), "{answer}");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut first = [0; 12];
        client.read_exact(&mut first).unwrap();
        client
            .write_all(b"VICUS-NODE/1 {\"Refused\":{\"version\":\"0.0.1\",\"why\":\"it has another version\"}}\n")
            .unwrap();
    });
    let told = Lead::connect(&[address], &[], options()).err().expect("it is another version").to_string();
    assert!(told.contains("it has version 0.0.1, and this program") && told.contains("have the same"), "{told}");
    server.join().unwrap();
}

#[test]
fn nodes_beyond_the_list_and_rows_collected_elsewhere_are_errors_with_their_place() {
    let node = Running::start(1, Kinds::library(), None);
    let fail = |text: &str, nodes: &[&Running]| {
        let text: NetworkText = text.parse().unwrap();
        let addresses: Vec<String> = nodes.iter().map(|node| node.address.to_string()).collect();
        let own = MachineCounts { threads: 1, nodes: 1 };
        let mut attempt =
            Lead::connect(&addresses, &[], options()).unwrap().begin(&text, "test", &[], own, 1 << 30).unwrap();
        match attempt.build(&text, "test", &Kinds::library(), &[]) {
            Err(error) => error.to_string(),
            Ok(_) => attempt.wait(None, || true).unwrap_err().to_string(),
        }
    };
    let error = fail("box n = numbers(to: 3) on node 2; box rows = sink; n -> rows;", &[&node]);
    assert!(error.contains("`n` is to run on node 2: there is one, 1; 0 is this process"), "{error}");
    let error = fail("box n = numbers(to: 3) on node 1; box rows = sink; n -> rows;", &[]);
    assert!(error.contains("name others by `--nodes`"), "{error}");
    let error = fail("box n = numbers(to: 3); box rows = collect on node 1; n -> rows;", &[&node]);
    assert!(error.contains("rows are collected in the process that began"), "{error}");
}
