//! Servers that follow each other, in processes of their own: killed, promoted, and told wrong things.

mod archive;
mod tls;

use super::serve::client::{Ask, Reply};
use super::store::{folder, text, told};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vicus_testing::run_within;

/// Something comes about within this time even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Server {
    child: Child,
    address: SocketAddr,
    store: PathBuf,
    said: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(store: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
    command.args(["serve", "--threads", "2", "--token", "t", "--store", text(store)]).stdin(Stdio::null());
    command
}

impl Server {
    /// Starts it at this address, 127.0.0.1:0 for a free port, and waits until it takes requests.
    fn start(store: &Path, bind: &str, args: &[&str]) -> Server {
        let said = store.with_extension("said");
        let mut child = serve(store)
            .args(["--bind", bind])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(File::options().create(true).append(true).open(&said).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().trim_end_matches('/').rsplit_once("://").map(|(_, address)| address.parse().unwrap());
        let Some(address) = address else { panic!("`{line}`: {}", std::fs::read_to_string(&said).unwrap()) };
        Server { child, address, store: store.to_owned(), said }
    }

    fn writer(store: &Path, args: &[&str]) -> Server {
        Server::start(store, "127.0.0.1:0", &[&["--create"], args].concat())
    }

    fn follower(store: &Path, of: &Server) -> Server {
        Server::start(store, "127.0.0.1:0", &["--follow", &of.url()])
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn insert(&self, value: u64) -> Reply {
        let update = format!("INSERT DATA {{ <http://e/s> <http://e/p> {value} }}");
        Ask::update(&update).with("authorization", "Bearer t").send(self.address)
    }

    /// Inserts a value, and returns the number of its record.
    fn inserted(&self, value: u64) -> u64 {
        let reply = self.insert(value);
        assert_eq!(reply.status, 204, "{}", reply.text());
        sequence(&reply)
    }

    /// Its values, when it has this record.
    fn values(&self, at_least: u64) -> BTreeSet<u64> {
        let reply = Ask::query("SELECT ?o { ?s ?p ?o }")
            .parameter("min-sequence", &at_least.to_string())
            .with("accept", "text/csv")
            .send(self.address);
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(sequence(&reply) >= at_least);
        reply.text().lines().skip(1).map(|line| line.trim().parse().unwrap()).collect()
    }

    fn metric(&self, name: &str) -> f64 {
        let reply = Ask::get("/metrics").send(self.address);
        let text = reply.text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn waits_to_say(&self, part: &str) {
        wait_for(|| std::fs::read_to_string(&self.said).unwrap().contains(part), part);
    }
}

fn sequence(reply: &Reply) -> u64 {
    reply.header("vicus-sequence").unwrap_or_else(|| panic!("{reply:?}")).parse().unwrap()
}

fn wait_for(mut is_there: impl FnMut() -> bool, what: &str) {
    let began = Instant::now();
    while !is_there() {
        assert!(began.elapsed() < PATIENCE, "{what} never comes about");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn promote(args: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_vicus")).args(["promote", "--token", "t"]).args(args).output().unwrap()
}

/// Promotes, again if a server did not answer in time: a busy machine may be slower than the command waits.
fn promoted_or_told(args: &[&str]) -> std::process::Output {
    let mut output = promote(args);
    let is_late = |output: &std::process::Output| String::from_utf8_lossy(&output.stderr).contains("can't be reached");
    wait_for(
        || {
            if is_late(&output) {
                output = promote(args);
            }
            !is_late(&output)
        },
        "an answer to a promotion",
    );
    output
}

fn promoted(args: &[&str]) {
    let output = promoted_or_told(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn followers_have_what_the_writer_acknowledged_and_refuse_updates() {
    let folder = folder("copies-follow");
    let writer = Server::writer(&folder.join("a"), &[]);
    writer.inserted(1);
    let follower = Server::follower(&folder.join("b"), &writer);
    // It follows the follower.
    let last = Server::follower(&folder.join("c"), &follower);
    let record = writer.inserted(2);
    for server in [&writer, &follower, &last] {
        assert_eq!(server.values(record), BTreeSet::from([1, 2]));
        assert_eq!(server.metric("vicus_sequence") as u64, record);
    }
    for server in [&follower, &last] {
        // One after the other, since a question may fail for once on a busy machine.
        for lag in ["vicus_behind_records", "vicus_behind_seconds"] {
            wait_for(|| server.metric(lag) == 0.0, lag);
        }
        assert_eq!(server.metric("vicus_writes"), 0.0);
        let refused = server.insert(3);
        assert_eq!(refused.status, 403);
        assert!(refused.text().contains("takes no changes of its own: send them to http://127.0.0.1:"), "{refused:?}");
    }
    assert!(follower.insert(3).text().contains(&writer.url()));
    // A record that never comes.
    let late = Ask::query("ASK {}").parameter("min-sequence", "99").parameter("timeout", "0.1").send(follower.address);
    assert_eq!(late.status, 503);
    assert!(late.text().contains("record 99 has not come in time: this server has those up to 2"), "{late:?}");
    assert_eq!(Ask::query("ASK {}").parameter("min-sequence", "x").send(follower.address).status, 400);
    // The writer is gone, and reads go on; it comes back at its address.
    let (address, store) = (writer.address.to_string(), folder.join("a"));
    writer.kill();
    follower.waits_to_say("can't be reached");
    assert_eq!(last.values(record).len(), 2);
    wait_for(|| follower.metric("vicus_behind_seconds") > 0.0, "a lag");
    let writer = Server::start(&store, &address, &[]);
    let record = writer.inserted(4);
    assert_eq!(last.values(record), BTreeSet::from([1, 2, 4]));
    std::fs::remove_dir_all(folder).unwrap();
}

/// Two followers with the addresses of each other and of the writer. Each is started again, and finds the other one
/// first: nothing new comes from there.
#[test]
fn followers_of_each_other_find_the_writer() {
    let folder = folder("copies-ring");
    let writer = Server::writer(&folder.join("a"), &[]);
    writer.inserted(1);
    let first = Server::follower(&folder.join("b"), &writer);
    let second = Server::follower(&folder.join("c"), &writer);
    let (store, address) = (folder.join("b"), first.address.to_string());
    let ring = ["--follow", &second.url(), "--follow", &writer.url()].map(str::to_owned);
    first.kill();
    let first = Server::start(&store, &address, &ring.each_ref().map(|text| &text[..]));
    let (store, address) = (folder.join("c"), second.address.to_string());
    let ring = ["--follow", &first.url(), "--follow", &writer.url()].map(str::to_owned);
    second.kill();
    let second = Server::start(&store, &address, &ring.each_ref().map(|text| &text[..]));
    let record = writer.inserted(2);
    for server in [&first, &second] {
        wait_for(|| server.metric("vicus_sequence") as u64 == record, "the writer's record");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_commit_waits_for_followers_and_says_when_they_are_missing() {
    let folder = folder("copies-sync");
    let writer = Server::writer(&folder.join("a"), &["--sync-followers", "1", "--sync-timeout", "0.2"]);
    let reply = writer.insert(1);
    assert_eq!(reply.status, 503, "{}", reply.text());
    let says = "durable on this server, and not confirmed by enough followers: 1 of them must have it";
    assert!(reply.text().contains(says), "{}", reply.text());
    assert_eq!(writer.values(0), BTreeSet::new(), "it is not visible");
    let follower = Server::follower(&folder.join("b"), &writer);
    // As soon as a follower has it, it is.
    assert_eq!(writer.values(1), BTreeSet::from([1]));
    let (mut record, mut values) = (0, 2..);
    let mut is_confirmed = || {
        let reply = writer.insert(values.next().unwrap());
        if reply.status == 204 {
            record = sequence(&reply);
        }
        reply.status == 204
    };
    wait_for(&mut is_confirmed, "a change that is confirmed in time");
    assert!(follower.values(record).contains(&1));
    std::fs::remove_dir_all(folder).unwrap();
}

/// A writer is killed while it is written to, one of two followers is promoted, and the old one follows: several times.
#[test]
fn nothing_acknowledged_is_lost_when_writers_are_killed() {
    let folder = folder("copies-kills");
    let sync = ["--sync-followers", "1"];
    let follow = |store: &Path, of: &Server| {
        Server::start(store, "127.0.0.1:0", &[&["--follow", &of.url()], &sync[..]].concat())
    };
    let mut writer = Server::writer(&folder.join("a"), &sync);
    let mut followers = ["b", "c"].map(|name| follow(&folder.join(name), &writer));
    let (mut acknowledged, mut next) = (BTreeSet::new(), 0);
    for round in 0..if cfg!(debug_assertions) { 2 } else { 4 } {
        let address = writer.address;
        let sender = std::thread::spawn(move || {
            let mut sent = Vec::new();
            for value in next.. {
                let update = format!("INSERT DATA {{ <http://e/s> <http://e/p> {value} }}");
                let ask = Ask::update(&update).with("authorization", "Bearer t");
                let Ok(mut stream) = std::net::TcpStream::connect(address) else { return (sent, value) };
                match ask.over(&mut stream) {
                    Ok(reply) if reply.status == 204 => sent.push(value),
                    Ok(reply) => assert_eq!(reply.status, 503, "{}", reply.text()),
                    Err(_) => return (sent, value + 1),
                }
            }
            unreachable!("the writer is killed")
        });
        // At any moment of a change, when there were some.
        let enough = writer.metric("vicus_sequence") + 20.0;
        wait_for(|| writer.metric("vicus_sequence") > enough, "some changes");
        let old = writer.store.clone();
        writer.kill();
        let (sent, after) = sender.join().unwrap();
        acknowledged.extend(sent);
        next = after;
        // If the other one is further, the command says so.
        let [one, other] = &followers;
        let output = promoted_or_told(&[&one.url(), "--other", &other.url()]);
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains("promote the former"), "{said}");
            promoted(&[&other.url(), "--other", &one.url()]);
            followers.reverse();
        }
        let [new, other] = followers;
        let found = new.values(0);
        let lost: Vec<_> = acknowledged.difference(&found).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?}");
        let store = other.store.clone();
        drop(other);
        followers = [follow(&store, &new), follow(&old, &new)];
        writer = new;
        let record = writer.inserted(1_000_000 + round);
        let all = writer.values(record);
        assert!(followers.iter().all(|follower| follower.values(record) == all), "round {round}");
    }
    drop((writer, followers));
    std::fs::remove_dir_all(folder).unwrap();
}

/// Records that the old writer alone has are kept in a file, which it names.
#[test]
fn an_old_writer_names_the_file_of_its_own_records() {
    let folder = folder("copies-diverged");
    let old = Server::writer(&folder.join("a"), &[]);
    let record = old.inserted(1);
    let new = Server::follower(&folder.join("b"), &old);
    assert_eq!(new.values(record).len(), 1);
    promoted(&[&new.url()]);
    // It does not know of the promotion.
    old.inserted(2);
    let record = new.inserted(3);
    let store = old.store.clone();
    old.kill();
    let old = Server::follower(&store, &new);
    assert_eq!(old.values(record), BTreeSet::from([1, 3]));
    old.waits_to_say("the 1 records that this copy had there are not part of the store any more, and are kept in");
    let said = std::fs::read_to_string(&old.said).unwrap();
    let path = said.lines().find_map(|line| line.split_once("are kept in ")).unwrap().1;
    let kept = std::fs::read(path.trim()).unwrap();
    assert!(!kept.is_empty() && path.contains("aside-"), "{path}");
    // A server that takes no changes can't be followed by one that has more.
    assert_eq!(old.insert(4).status, 403);
    drop((old, new));
    // With no server on it, a folder is promoted by itself.
    promoted(&["--store", text(&store)]);
    let writer = Server::start(&store, "127.0.0.1:0", &[]);
    assert!(writer.inserted(5) > record);
    drop(writer);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Whoever reaches a server without tokens reads it, and ends its changes in no way.
#[test]
fn a_server_without_tokens_is_copied_and_not_promoted() {
    let folder = folder("copies-open");
    let store = folder.join("a");
    let writer = Server::writer(&store, &[]);
    writer.inserted(1);
    writer.kill();
    let said = folder.join("said");
    let mut child = Command::new(env!("CARGO_BIN_EXE_vicus"))
        .args(["serve", "--threads", "2", "--bind", "127.0.0.1:0", "--store", text(&store)])
        .env_remove("VICUS_TOKEN")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(&said).unwrap())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().trim_end_matches('/').rsplit_once("://").unwrap().1.parse().unwrap();
    let server = Server { child, address, store, said };
    let standing = || Ask::get("/copies/standing").send(server.address).text();
    let before = standing();
    assert!(before.contains("promised 0 "), "{before}");
    for path in ["/copies/promise", "/copies/promote"] {
        let reply = Ask::post(path, "text/plain", "1 000000000000000a").send(server.address);
        assert_eq!(reply.status, 403, "{path}: {}", reply.text());
    }
    let question = before.replace("promised 0 ", "promised 7 ").replace("0 writes", "5 follows");
    let reply = Ask::post("/copies/records", "text/plain", question).send(server.address);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(reply.text().contains("refused behind"), "{}", reply.text());
    assert_eq!(standing(), before);
    drop(server);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Answers each request with these bytes.
fn answers(bytes: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(bytes.as_bytes());
        }
    });
    url
}

#[test]
fn servers_that_can_not_be_followed_are_clear_errors() {
    let folder = folder("copies-wrong");
    let writer = Server::writer(&folder.join("a"), &[]);
    writer.inserted(1);
    let page = answers("HTTP/1.1 200 OK\r\nContent-Length: 14\r\nConnection: close\r\n\r\n<html></html>\n");
    let newer = answers(
        "HTTP/1.1 200 OK\r\nVicus-Copies: 9\r\nContent-Length: 15\r\nConnection: close\r\n\r\nvicus copies 9\n",
    );
    let fails = |args: &[&str], says: &[&str]| {
        let output = run_within(serve(&folder.join("new")).args(["--bind", "127.0.0.1:0"]).args(args), PATIENCE);
        told(&output.unwrap().in_time("serve"), args, says);
    };
    let url = writer.url();
    fails(&["--follow", &page], &["can't be followed: no server of Vicus with copies answers there"]);
    fails(&["--follow", &newer], &["speaks version 9 of the protocol for copies, and this one version 2"]);
    // The first token is sent.
    let mut wrong = Command::new(env!("CARGO_BIN_EXE_vicus"));
    wrong.args(["serve", "--bind", "127.0.0.1:0", "--token", "other", "--store", text(&folder.join("new"))]);
    let output = run_within(wrong.args(["--follow", &url]).stdin(Stdio::null()), PATIENCE).unwrap().in_time("serve");
    told(&output, &[], &["does not take the token (--token): the token does not permit this"]);
    // A store of its own is not overwritten.
    let other = Server::writer(&folder.join("other"), &[]);
    other.inserted(7);
    let store = other.store.clone();
    other.kill();
    let follow = ["--follow", &url, "--bind", "127.0.0.1:0"];
    let output = run_within(serve(&store).args(follow), PATIENCE).unwrap().in_time("serve");
    told(&output, &follow, &["it has another store, and not a copy of this one"]);
    let other = Server::start(&store, "127.0.0.1:0", &[]);
    other.inserted(8);
    assert_eq!(other.values(2), BTreeSet::from([7, 8]));
    writer.inserted(2);
    // Promotions that can't be.
    let refused = promote(&[&page]);
    assert!(!refused.status.success());
    let refused = promoted_or_told(&[&other.url(), "--other", &url]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("have different stores"), "{said}");
    assert_eq!(writer.inserted(3), 3, "it goes on");
    drop((writer, other));
    std::fs::remove_dir_all(folder).unwrap();
}
