//! `vicus serve --nodes`: a server that shares its queries with nodes, which are killed, have other data, or are none.

use super::super::serve::client::{Ask, Reply, connect};
use super::{EDGES, Node, ask, copied, ended, people, vicus};
use crate::store::{folder, text};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Something comes about within this time even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn wait_for(mut is_there: impl FnMut() -> bool, what: &str) {
    let began = Instant::now();
    while !is_there() {
        assert!(began.elapsed() < PATIENCE, "{what} never comes about");
        thread::sleep(Duration::from_millis(20));
    }
}

pub(super) struct Server {
    child: Child,
    address: SocketAddr,
    said: PathBuf,
    /// Where it is a node.
    pub(super) node: Option<String>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub(super) fn start(store: &Path, nodes: &[&str], more: &[&str]) -> Server {
        let args = ["serve", "--bind", "127.0.0.1:0", "--threads", "1", "--token", "t", "--share-always"];
        let mut command = vicus(&args);
        command.args(["--store", text(store), "--nodes", &nodes.join(","), "--node-silence", "20"]).args(more);
        Server::of(command, more.contains(&"--listen-node"), &store.with_extension("said"))
    }

    /// By a command; what it says goes to a file.
    pub(super) fn of(mut command: Command, is_node: bool, said: &Path) -> Server {
        let said = said.to_owned();
        let mut child = command.stdout(Stdio::piped()).stderr(File::create(&said).unwrap()).spawn().unwrap();
        let (mut line, mut node) = (String::new(), String::new());
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        lines.read_line(&mut line).unwrap();
        if is_node {
            lines.read_line(&mut node).unwrap();
        }
        let node = node.trim().rsplit_once(" at ").map(|(_, address)| address.to_owned());
        let address = line.trim().trim_end_matches('/').rsplit_once("://").map(|(_, address)| address.parse().unwrap());
        let Some(address) = address else { panic!("`{line}`: {}", std::fs::read_to_string(&said).unwrap()) };
        Server { child, address, said, node }
    }

    pub(super) fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap()
    }

    /// How many machines share the work, by the plan.
    pub(super) fn machines(&self) -> usize {
        let plan = Ask::query(EDGES).with("accept", "text/vnd.vicus.plan").send(self.address);
        assert_eq!(plan.status, 200, "{}", plan.text());
        // This one is machine 0.
        let shared = (1..9).take_while(|number| plan.text().contains(&format!("machine {number} ("))).count();
        1 + shared
    }

    /// The rows of a query in some order; or the error. Each text is another one: the server keeps answers by texts.
    pub(super) fn rows(&self, query: &str) -> Result<Vec<String>, String> {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let query = format!("{query}\n# {}", ASKED.fetch_add(1, Ordering::Relaxed));
        let ask = Ask::query(&query).with("accept", "text/csv").parameter("timeout", "60");
        let reply: Reply = ask.over(&mut connect(self.address)).map_err(|error| error.to_string())?;
        if reply.status != 200 || !reply.is_whole {
            return Err(format!("{}: {}", reply.status, reply.text()));
        }
        let mut rows: Vec<String> = reply.text().lines().map(str::to_owned).collect();
        rows.sort_unstable();
        Ok(rows)
    }

    fn insert(&self, number: u64) {
        let update = format!(
            "INSERT DATA {{ <http://e/own/1> <http://e/knows> <http://e/new/{number}> .
             <http://e/new/{number}> <http://e/knows> {number} }}"
        );
        let reply = Ask::update(&update).with("authorization", "Bearer t").send(self.address);
        assert_eq!(reply.status, 204, "{}", reply.text());
    }
}

/// Clients ask all the time. A node is killed, and comes back at its address.
#[test]
fn a_server_goes_on_without_a_node_that_is_killed_and_takes_it_back() {
    let folder = folder("served-killed");
    let store = people(&folder, "own", 300);
    let mut nodes = [Node::start(&store, &[]), Node::start(&store, &[])];
    let server = Server::start(&store, &[&nodes[0].address, &nodes[1].address], &[]);
    assert_eq!(server.machines(), 3, "{}", server.said());
    let expected = server.rows(EDGES).unwrap();
    assert_eq!(expected.len(), 301);
    let (is_over, answers) = (AtomicBool::new(false), AtomicUsize::new(0));
    let address = nodes[0].address.clone();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    match server.rows(EDGES) {
                        Ok(rows) => assert_eq!(rows, expected),
                        // Rows had gone to the client before the loss.
                        Err(error) => assert!(error.contains(&address) || error.starts_with("200"), "{error}"),
                    }
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let more = || {
            let now = answers.load(Ordering::Relaxed);
            wait_for(|| answers.load(Ordering::Relaxed) > now + 6, "answers");
        };
        more();
        nodes[0].child.kill().unwrap();
        nodes[0].child.wait().unwrap();
        more();
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(server.rows(EDGES).unwrap(), expected);
    wait_for(|| server.machines() == 2, "a team without the lost node");
    nodes[0] = Node::start_at(&store, &address, &[]);
    wait_for(|| server.machines() == 3, "a team with the node that is back");
    assert_eq!(server.rows(EDGES).unwrap(), expected);
    drop(server);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Nodes over the folder that the server writes to, and over one that has an older state.
#[test]
fn shared_queries_see_what_the_server_has_acknowledged() {
    let folder = folder("served-written");
    let store = people(&folder, "own", 300);
    let older = folder.join("older");
    copied(&store, &older);
    let (near, far) = (Node::start(&store, &["--store-wait", "120"]), Node::start(&older, &["--store-wait", "100ms"]));
    let server = Server::start(&store, &[&near.address, &far.address], &[]);
    assert_eq!(server.machines(), 3, "{}", server.said());
    let mut count = server.rows(EDGES).unwrap().len();
    for number in 0..3 {
        server.insert(number);
        let rows = server.rows(EDGES).unwrap();
        assert!(rows.iter().any(|row| row.ends_with(&format!(",{number}"))), "{number}");
        assert!(rows.len() > count, "{number}");
        count = rows.len();
        // The other one was asked, and is left out for some seconds.
        wait_for(|| server.machines() == 2, "a team without the node that is behind");
    }
    drop(server);
    std::fs::remove_dir_all(folder).unwrap();
}

/// A follower that is a node shares the work of queries over the writer's folder, with the writer's last record.
#[test]
fn a_follower_is_a_node_too() {
    let folder = folder("served-follower");
    let store = people(&folder, "own", 300);
    let writer = Server::start(&store, &["127.0.0.1:1"], &[]);
    let (url, copy) = (format!("http://{}", writer.address), folder.join("copy"));
    let follow = ["--follow", &url, "--listen-node", "127.0.0.1:0"];
    let follower = Server::start(&copy, &["127.0.0.1:1"], &follow);
    let node = follower.node.clone().expect("it says where");
    let node = node.as_str();
    for number in 0..3 {
        writer.insert(number);
        // It may be slower than the query waits.
        let sequence = Ask::query("ASK {}").parameter("min-sequence", &(number + 1).to_string());
        assert_eq!(sequence.send(follower.address).status, 200);
        let expected = ask(&store, &[], &["--format", "count", EDGES]).out();
        let found = ask(&store, &[node], &["--format", "count", EDGES]);
        assert_eq!((found.code(), found.out(), found.err()), (Some(0), expected, String::new()));
        let plan = ask(&store, &[node], &["--explain", EDGES]).out();
        assert!(plan.contains("machine 1 ("), "{plan}");
    }
    drop(follower);
    let found = ask(&store, &[node], &["--format", "count", EDGES]);
    assert!(found.code() == Some(1) && found.err().contains("can't be reached"), "{}", found.err());
    // Beyond this machine, it needs a token.
    let mut open = vicus(&["serve", "--bind", "127.0.0.1:0", "--token", "t", "--listen-node", "0.0.0.0:0"]);
    let refused = ended(open.args(["--store", text(&copy)]).env_remove("VICUS_NODE_TOKEN"));
    assert!(refused.code() == Some(1) && refused.err().contains("VICUS_NODE_TOKEN"), "{}", refused.err());
    drop(writer);
    std::fs::remove_dir_all(folder).unwrap();
}

/// What happened: a follower with one record more than a query read made no part of it, and was left out for seconds:
/// under steady writes, nearly always.
#[test]
fn a_follower_shares_queries_while_the_writer_writes() {
    let folder = folder("served-writing");
    let store = people(&folder, "own", 300);
    // The writer has the address before there is a node.
    let listen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let writer = Server::start(&store, &[&listen], &[]);
    let (url, copy) = (format!("http://{}", writer.address), folder.join("copy"));
    let follower = Server::start(&copy, &["127.0.0.1:1"], &["--follow", &url, "--listen-node", &listen]);
    wait_for(|| writer.machines() == 2, "a team with the follower");
    // Either may be the quicker one.
    let (writes, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                writer.insert(writes.fetch_add(1, Ordering::Relaxed) as u64);
            }
        });
        let mut queries = 0;
        while queries < 100 || writes.load(Ordering::Relaxed) < 300 {
            assert!(writer.rows(EDGES).unwrap().len() > 300);
            queries += 1;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let said = writer.said();
    let ahead = said.lines().find(|line| line.contains("it has records up to") && !line.contains("it is behind"));
    assert_eq!(ahead, None, "{said}");
    // Without more writes, the writer merges, and the follower does as well: terms have the same ids in both.
    let merged = || {
        let names = std::fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("base-")).collect::<Vec<_>>()
    };
    let before = merged();
    // It may have merged just now.
    (0..300).for_each(|_| writer.insert(writes.fetch_add(1, Ordering::Relaxed) as u64));
    wait_for(|| merged().iter().all(|name| !before.contains(name)), "a merge of the writer");
    wait_for(|| !writer.rows(EDGES).unwrap().is_empty() && writer.machines() == 2, "a team behind the merge");
    writer.insert(writes.load(Ordering::Relaxed) as u64);
    assert!(writer.rows(EDGES).unwrap().len() > 300);
    assert_eq!(writer.machines(), 2, "{}", writer.said());
    drop((follower, writer));
    std::fs::remove_dir_all(folder).unwrap();
}

/// A server begins without addresses that have no node of its store, and answers its queries without them.
#[test]
fn a_server_begins_without_wrong_nodes_and_says_why() {
    let folder = folder("served-wrong");
    let store = people(&folder, "own", 300);
    let strict = Node::start(&store, &["--token", "good"]);
    // A node of another version, whenever it is asked.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let newer = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"VICUS-NODE/1 {\"Refused\":{\"version\":\"9.9.9\",\"why\":\"x\"}}\n");
        }
    });
    let server = Server::start(&store, &[&strict.address, &newer, "127.0.0.1:1"], &["--node-token", "bad"]);
    assert_eq!(server.machines(), 1, "{}", server.said());
    assert_eq!(server.rows(EDGES).unwrap().len(), 301);
    let said = server.said();
    for (address, why) in [
        (&strict.address[..], "it refuses: the token is not the node's"),
        (&newer, "it has version 9.9.9, and this program"),
        ("127.0.0.1:1", "it can't be reached"),
    ] {
        let line = said.lines().find(|line| line.contains(address)).unwrap_or_else(|| panic!("{address}: {said}"));
        assert!(line.contains(why) && line.contains("it is left out until it can be had"), "{line}");
    }
    drop(server);
    // With the token it shares.
    let server = Server::start(&store, &[&strict.address], &["--node-token", "good"]);
    assert_eq!(server.machines(), 2, "{}", server.said());
    assert_eq!(server.rows(EDGES).unwrap().len(), 301);
    drop(server);
    std::fs::remove_dir_all(folder).unwrap();
}

/// What happened: a server looked whether a stopped node was back while all its queries waited for the look, 20 seconds
/// long, and again five seconds behind it.
#[test]
fn queries_go_on_while_a_silent_node_is_looked_for() {
    let folder = folder("served-silent");
    let store = people(&folder, "own", 300);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap().to_string();
    let (looks, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (begins, over) = (Arc::clone(&looks), Arc::clone(&ends));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            begins.fetch_add(1, Ordering::SeqCst);
            // Until the other end gives up.
            let _ = stream.read_to_end(&mut Vec::new());
            over.fetch_add(1, Ordering::SeqCst);
        }
    });
    let found = ask(&store, &[&silent], &["--format", "count", EDGES]);
    assert!(found.code() == Some(1) && found.err().contains("it does not answer"), "{}", found.err());
    let args = ["serve", "--bind", "127.0.0.1:0", "--token", "t", "--share-always", "--node-silence", "3"];
    let mut command = vicus(&args);
    command.args(["--store", text(&store), "--nodes", &silent]);
    let server = Server::of(command, false, &store.with_extension("said"));
    assert!(server.said().contains("it does not answer"), "{}", server.said());
    let mut answered = 0;
    let among = || (looks.load(Ordering::SeqCst), ends.load(Ordering::SeqCst));
    let before = among();
    wait_for(
        || {
            let began = among();
            assert_eq!(server.rows(EDGES).unwrap().len(), 301);
            // A look was under way before the query and is so behind it.
            answered += usize::from(began.0 > before.0 && began.0 > began.1 && among() == began);
            answered > 3
        },
        "answers while the node is looked for",
    );
    drop(server);
    std::fs::remove_dir_all(folder).unwrap();
}

/// What happened: with one node of another store, each query was answered by 400. Nodes are found wrong when queries
/// come: they are left out, are told of once, and change no answer.
#[test]
fn a_server_answers_without_nodes_that_have_other_data() {
    let folder = folder("served-other");
    let (store, other) = (people(&folder, "own", 300), people(&folder, "other", 300));
    // Copies that went other ways: with as many changes, and with more.
    let [aside, ahead, gone] = ["aside", "ahead", "gone"].map(|name| folder.join(name));
    [&aside, &ahead, &gone].iter().for_each(|copy| copied(&store, copy));
    let change = |store: &Path, number: u64| {
        let update = format!("INSERT DATA {{ <http://e/own/1> <http://e/knows> <http://e/aside/{number}> }}");
        let output = ended(&mut vicus(&["update", "--store", text(store), &update]));
        assert_eq!(output.code(), Some(0), "{}", output.err());
    };
    change(&store, 1);
    change(&aside, 2);
    (2..9).for_each(|number| change(&ahead, number));
    let good = Node::start(&store, &[]);
    let nodes = [Node::start(&other, &[]), Node::start(&aside, &[]), Node::start(&ahead, &[])];
    // A node for networks alone, and one whose store is gone when it is asked.
    let mut plain = vicus(&["node", "--listen", "127.0.0.1:0", "--threads", "1"]);
    let mut child = plain.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split_once(" at ").and_then(|(_, rest)| rest.split_once(',')).expect("it says where").0;
    let plain = Node { child, address: address.to_owned() };
    let lost = Node::start(&gone, &[]);
    std::fs::remove_dir_all(&gone).unwrap();
    let expected = {
        let alone = Server::start(&store, &["127.0.0.1:1"], &[]);
        alone.rows(EDGES).unwrap()
    };
    for (wrong, why) in [
        (&nodes[0], "it has another store, and no copy of the one that is asked"),
        (&nodes[1], ""),
        (&nodes[2], ""),
        (&plain, "it has no data to ask: start it with --store"),
        (&lost, ""),
    ] {
        let server = Server::start(&store, &[&good.address, &wrong.address], &[]);
        assert_eq!(server.machines(), 3, "{}", server.said());
        for _ in 0..5 {
            assert_eq!(server.rows(EDGES).unwrap(), expected, "{why}: {}", server.said());
        }
        // The other one goes on sharing.
        assert_eq!(server.machines(), 2, "{why}: {}", server.said());
        // It is asked again some seconds later, and not told of again.
        thread::sleep(Duration::from_secs(6));
        for _ in 0..3 {
            assert_eq!(server.rows(EDGES).unwrap(), expected, "{why}: {}", server.said());
        }
        let said = server.said();
        let told: Vec<&str> = said.lines().filter(|line| line.contains(&wrong.address)).collect();
        assert!(told.len() == 1 && told[0].contains(why), "{why}: {said}");
        assert!(told[0].contains("it is left out until it can be had"), "{said}");
        assert!(!said.contains(&good.address), "{said}");
        println!("{}", told[0]);
    }
    // All of them at once, and a node that gets the right copy in place of its own shares again.
    let fresh = folder.join("fresh");
    copied(&other, &fresh);
    let mended = Node::start(&fresh, &[]);
    let all = [&nodes[0].address[..], &nodes[1].address, &nodes[2].address, &plain.address, &mended.address];
    let server = Server::start(&store, &all, &[]);
    assert_eq!(server.rows(EDGES).unwrap(), expected, "{}", server.said());
    assert_eq!(server.machines(), 1, "{}", server.said());
    std::fs::remove_dir_all(&fresh).unwrap();
    copied(&store, &fresh);
    wait_for(
        || {
            assert_eq!(server.rows(EDGES).unwrap(), expected, "{}", server.said());
            server.said().contains(&format!("{}: it shares the work of queries again", mended.address))
        },
        "a node with the right copy",
    );
    drop(server);
    std::fs::remove_dir_all(folder).unwrap();
}
