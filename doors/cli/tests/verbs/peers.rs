//! `vicus query --nodes` and `vicus node --store`: queries that processes of their own share, some of which are killed,
//! have other data, or are none.

mod served;
mod tls;

use super::store::{folder, text};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use vicus_testing::{Ended, run_within};

/// All ends within this time even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

fn vicus(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs a command to its end, which comes.
fn ended(command: &mut Command) -> Ended {
    let ended = run_within(command, PATIENCE).unwrap();
    assert!(ended.status.is_some(), "it never ended: {}", ended.err());
    ended
}

fn good(args: &[&str]) -> String {
    let output = ended(&mut vicus(args));
    assert_eq!(output.code(), Some(0), "{args:?}: {}", output.err());
    output.out()
}

/// A node over a store's folder, which ends with the test.
struct Node {
    child: Child,
    address: String,
}

impl Node {
    fn start(store: &Path, more: &[&str]) -> Node {
        Node::start_at(store, "127.0.0.1:0", more)
    }

    fn start_at(store: &Path, listen: &str, more: &[&str]) -> Node {
        let args = ["node", "--listen", listen, "--threads", "1", "--memory-limit", "500M", "--store"];
        let mut child = vicus(&args).arg(store).args(more).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split_once(" at ").and_then(|(_, rest)| rest.split_once(',')).expect("it says where").0;
        assert!(line.contains("networks and queries"), "{line}");
        Node { address: address.to_owned(), child }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command that asks this process and these nodes. A node is silent for long on a busy machine.
fn asked(store: &Path, addresses: &[&str], more: &[&str]) -> Command {
    let mut command = vicus(&["query", "--threads", "1", "--store", text(store), "--hash-seed", "7"]);
    if !addresses.is_empty() {
        command.args(["--nodes", &addresses.join(","), "--share-always"]);
        if !more.contains(&"--node-silence") {
            command.args(["--node-silence", "20"]);
        }
    }
    command.args(more);
    command
}

fn ask(store: &Path, addresses: &[&str], more: &[&str]) -> Ended {
    ended(&mut asked(store, addresses, more))
}

/// A store with data shaped like SP2Bench's.
fn sp2b(name: &str, triples: &str) -> PathBuf {
    let folder = folder(name);
    let (data, store) = (folder.join("data.nt"), folder.join("store"));
    good(&["generate", "sp2b", "--triples", triples, "--output", text(&data)]);
    good(&["load", "--store", text(&store), "--data", text(&data)]);
    store
}

fn queries() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("queries/sp2b");
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// The lines of an answer, in order if it has one.
fn lines(query: &Path, answer: &str) -> Vec<String> {
    let mut lines: Vec<String> = answer.lines().map(str::to_owned).collect();
    if !std::fs::read_to_string(query).unwrap().contains("ORDER BY") {
        lines.sort_unstable();
    }
    lines
}

/// The data has some triples by default, and as many as VICUS_PEERS_TRIPLES says.
#[test]
fn three_processes_answer_sp2bench_as_one_does() {
    let triples = std::env::var("VICUS_PEERS_TRIPLES").unwrap_or_else(|_| "50000".to_owned());
    let store = sp2b("peers-sp2b", &triples);
    let nodes = [Node::start(&store, &[]), Node::start(&store, &[])];
    let addresses = [nodes[0].address.as_str(), nodes[1].address.as_str()];
    let all = queries();
    assert_eq!(all.len(), 17);
    let mut shared = 0;
    for query in &all {
        let file = ["--format", "tsv", "--query", text(query)];
        let expected = ask(&store, &[], &file);
        assert_eq!(expected.code(), Some(0), "{}", expected.err());
        for strategy in ["las", "vicus"] {
            let began = Instant::now();
            let found = ask(&store, &addresses, &[&file[..], &["--strategy", strategy]].concat());
            println!("{}, {strategy}: {:?}", query.display(), began.elapsed());
            assert_eq!((found.code(), found.err().as_str()), (Some(0), ""), "{}, {strategy}", query.display());
            let same = lines(query, &found.out()) == lines(query, &expected.out());
            assert!(same, "{}, {strategy}: other rows", query.display());
        }
        let shown = ask(&store, &addresses, &[&file[..], &["--explain"]].concat()).out();
        shared += usize::from(shown.contains("machine 2 ("));
        assert!(shown.contains("machine 2 (") || shown.contains("one machine: "), "{}: {shown}", query.display());
    }
    println!("{shared} of 17 queries are shared");
    assert!(shared >= 8, "{shared} of 17 queries are shared");
    let _ = std::fs::remove_dir_all(store.parent().unwrap());
}

/// Statements over the predicates of SP2Bench's data. The last ones send rows without columns, and a choice of rows.
const STATEMENTS: &[&str] = &[
    "SELECT c.subject, i.object FROM @dc/elements/1.1/creator@ c JOIN @dc/terms/issued@ i ON i.subject = c.subject",
    "SELECT object, count(*) AS n, min(subject) FROM @dc/elements/1.1/creator@ GROUP BY object",
    "SELECT i.object, count(DISTINCT c.object), sum(i.object) FROM @dc/elements/1.1/creator@ c \
     LEFT JOIN @dc/terms/issued@ i ON i.subject = c.subject GROUP BY i.object ORDER BY 1 NULLS FIRST",
    "SELECT subject, object FROM @dc/elements/1.1/creator@ ORDER BY object DESC, subject LIMIT 100",
    "SELECT object FROM @dc/elements/1.1/creator@ EXCEPT SELECT c.object FROM @dc/elements/1.1/creator@ c \
     JOIN @dc/terms/issued@ i ON i.subject = c.subject WHERE i.object > 1950",
    "SELECT CAST(object AS decimal(10, 2)), CAST(object AS double) / 3, [object, 1], {'a': object, 'b': subject}, \
     DATE '2020-01-01' + CAST(object AS int), TIME '10:00:00', CAST(subject AS blob) FROM @dc/terms/issued@",
    "SELECT count(*) FROM (SELECT 1 FROM @dc/elements/1.1/creator@ LIMIT 200000) x",
    "SELECT count(*) FROM @dc/terms/issued@ i, (SELECT 1 FROM @dc/elements/1.1/creator@ GROUP BY object) x",
];

#[test]
fn three_processes_answer_statements_as_one_does() {
    let store = sp2b("peers-sql", "50000");
    let nodes = [Node::start(&store, &[]), Node::start(&store, &[])];
    let addresses = [nodes[0].address.as_str(), nodes[1].address.as_str()];
    for statement in STATEMENTS {
        // A predicate's IRI stands between two signs.
        let pieces = statement.split('@').enumerate();
        let of = |(place, piece): (usize, &str)| match place % 2 {
            0 => piece.to_owned(),
            _ => format!("\"http://purl.org/{piece}\""),
        };
        let statement: String = pieces.map(of).collect();
        let more = ["--language", "sql", "--envelope-rows", "128", "--format", "tsv"];
        let lines = |answer: &Ended| {
            assert_eq!((answer.code(), answer.err().as_str()), (Some(0), ""), "{statement}");
            let mut lines: Vec<String> = answer.out().lines().map(str::to_owned).collect();
            if !statement.contains("ORDER BY") {
                lines.sort_unstable();
            }
            lines
        };
        let expected = lines(&ask(&store, &[], &[&more[..], &[&statement]].concat()));
        for strategy in ["las", "vicus"] {
            let found = ask(&store, &addresses, &[&more[..], &["--strategy", strategy, &statement]].concat());
            assert_eq!(lines(&found), expected, "{strategy}: {statement}");
        }
        let shown = ask(&store, &addresses, &[&more[..], &["--explain", &statement]].concat()).out();
        assert!(shown.contains("machine 2 (") && shown.contains("crossing 0 "), "{statement}:\n{shown}");
    }
    let alone = ["--language", "sql", "--explain", "SELECT count(*) FROM SPARQL('SELECT * { ?s ?p ?o }') x"];
    let shown = ask(&store, &addresses, &alone).out();
    assert!(shown.contains("one machine: other machines don't have the table"), "{shown}");
    let _ = std::fs::remove_dir_all(store.parent().unwrap());
}

/// The traces of processes that share a query are joined as those of a network are; its first operator has as many rows
/// as the answer.
#[test]
fn traces_of_a_shared_query_are_one() {
    let store = sp2b("peers-traced", "20000");
    let folder = store.parent().unwrap();
    let file = |name: &str| text(&folder.join(name)).to_owned();
    let mut node = Node::start(&store, &["--trace", &file("node.trace")]);
    let query = "PREFIX dc: <http://purl.org/dc/elements/1.1/> PREFIX dcterms: <http://purl.org/dc/terms/> \
                 SELECT ?a ?b { ?a dcterms:issued ?year ; dc:creator ?who . ?b dc:creator ?who FILTER(?a != ?b) }";
    let trace = file("lead.trace");
    let found = ask(&store, &[&node.address], &["--format", "count", "--trace", &trace, query]);
    assert_eq!(found.code(), Some(0), "{}", found.err());
    let rows = found.out().trim().rsplit('\t').next().unwrap().to_owned();
    let interrupted = Command::new("kill").args(["-INT", &node.child.id().to_string()]).status().unwrap();
    assert!(interrupted.success() && node.child.wait().unwrap().success());
    good(&["trace", "join", &file("lead.trace"), &file("node.trace"), "-o", &file("both.trace")]);
    assert!(good(&["trace", "check", &file("both.trace")]).starts_with("looked at all"));
    good(&["trace", "view", &file("both.trace"), "-o", &file("both.html")]);
    let page = std::fs::read_to_string(file("both.html")).unwrap();
    assert!(page.contains(">node.trace, node 0"), "both processes have cores");
    let (_, table) = page.split_once("-operators-0\">").expect("the query has operators");
    let (_, body) = table.split_once("<tbody>").unwrap();
    let cell = |row: &str, at: usize| row.split("<td").nth(at).unwrap().split(['>', '<']).nth(1).unwrap().to_owned();
    let made: Vec<String> =
        body.split("</tbody>").next().unwrap().split("<tr").skip(1).map(|row| cell(row, 4)).collect();
    assert_eq!(made.first(), Some(&rows), "{made:?}");
    assert!(made.iter().all(|rows| rows != "0"), "{made:?}");
    let _ = std::fs::remove_dir_all(folder);
}

/// Numbers by chance, of xorshift.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A node is killed while queries run, in some rounds or in as many as VICUS_PEERS_KILLS says: the rows are right, or
/// the error names a node. The times are printed.
#[test]
fn a_node_that_is_killed_leaves_the_right_rows_or_a_clear_error() {
    let rounds: u64 = std::env::var("VICUS_PEERS_KILLS").map_or(4, |rounds| rounds.parse().expect("a number"));
    let silence = if rounds > 4 { "1" } else { "20" };
    let store = sp2b("peers-killed", "20000");
    let seed = std::process::id().into();
    println!("seed {seed}");
    let mut chance = Chance(seed);
    let all: Vec<PathBuf> = queries().into_iter().filter(|query| !text(query).contains("q12")).collect();
    let mut nodes: Vec<Node> = (0..2).map(|_| Node::start(&store, &[])).collect();
    let (mut rows, mut again, mut errors, mut worst) = (0, 0, 0, 0.0f64);
    for round in 0..rounds {
        let query = &all[chance.below(all.len() as u64) as usize];
        let file = ["--format", "tsv", "--query", text(query), "--node-silence", silence];
        let addresses: Vec<String> = nodes.iter().map(|node| node.address.clone()).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let began = Instant::now();
        let expected = ask(&store, &addresses, &file);
        let usual = began.elapsed();
        assert_eq!(expected.code(), Some(0), "round {round}: {}", expected.err());
        let victim = chance.below(2) as usize;
        let delay = Duration::from_micros(chance.below(1 + usual.as_micros() as u64));
        let mut command = asked(&store, &addresses, &file);
        let began = Instant::now();
        let asking = thread::spawn(move || ended(&mut command));
        thread::sleep(delay);
        nodes[victim].child.kill().unwrap();
        let found = asking.join().unwrap();
        let took = began.elapsed();
        let beyond = (took.as_secs_f64() - 2.0 * usual.as_secs_f64()).max(0.0);
        worst = worst.max(beyond);
        let shown = format!("round {round}, {}, node {victim} after {delay:?}: {}", query.display(), found.err());
        match found.code() {
            Some(0) => {
                let same = lines(query, &found.out()) == lines(query, &expected.out());
                assert!(same, "other rows: {shown}");
                rows += 1;
                again += u64::from(found.err().contains("is asked without it"));
            }
            code => {
                assert_eq!(code, Some(1), "{shown}");
                assert!(found.err().contains(addresses[victim]), "{shown}");
                errors += 1;
            }
        }
        nodes[victim] = Node::start(&store, &[]);
    }
    println!(
        "{rows} answers, {again} of them asked again, {errors} errors; at most {worst:.2} s beyond twice the time"
    );
    // A time is looked at by `./dev test nodes` alone, which runs it by itself.
    assert!(rounds <= 4 || worst <= 2.0, "{worst:.2} s beyond twice the time");
    let _ = std::fs::remove_dir_all(store.parent().unwrap());
}

fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// A store of some people.
fn people(folder: &Path, name: &str, count: usize) -> PathBuf {
    let (data, store) = (folder.join(format!("{name}.nt")), folder.join(name));
    let line = |n: usize| format!("<http://e/{name}/{n}> <http://e/knows> <http://e/{name}/{}> .\n", n * 7 % count);
    std::fs::write(&data, (0..count).map(line).collect::<String>()).unwrap();
    good(&["load", "--store", text(&store), "--data", text(&data)]);
    store
}

const EDGES: &str = "SELECT ?a ?c { ?a <http://e/knows> ?b . ?b <http://e/knows> ?c }";

#[test]
fn a_node_behind_is_left_out_and_one_that_catches_up_is_waited_for() {
    let folder = folder("peers-behind");
    let store = people(&folder, "own", 300);
    let copy = folder.join("copy");
    copied(&store, &copy);
    let update = "INSERT DATA { <http://e/own/1> <http://e/knows> <http://e/new> . <http://e/new> <http://e/knows> 5 }";
    good(&["update", "--store", text(&store), update]);
    let (near, far) = (Node::start(&store, &[]), Node::start(&copy, &["--store-wait", "100ms"]));
    let count = ["--format", "count", EDGES];
    let expected = ask(&store, &[], &count);
    let found = ask(&store, &[&near.address, &far.address], &count);
    assert_eq!((found.code(), found.out()), (Some(0), expected.out()), "{}", found.err());
    let why = format!("node 2 ({}): it is behind: it has records up to ", far.address);
    assert!(found.err().contains(&why) && found.err().contains("is asked without it"), "{}", found.err());
    drop(far);
    // Now the copy comes so far while the query waits.
    let patient = Node::start(&copy, &["--store-wait", "120"]);
    let mut command = asked(&store, &[&near.address, &patient.address], &count);
    let asking = thread::spawn(move || ended(&mut command));
    good(&["update", "--store", text(&copy), update]);
    let found = asking.join().unwrap();
    assert_eq!((found.code(), found.out(), found.err()), (Some(0), expected.out(), String::new()));
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn wrong_nodes_are_clear_errors() {
    let folder = folder("peers-wrong");
    let (store, other) = (people(&folder, "own", 300), people(&folder, "other", 300));
    let fails = |address: &str, more: &[&str], says: &str| {
        let output = ask(&store, &[address], &[more, &[EDGES]].concat());
        let error = output.err();
        assert!(output.code() == Some(1) && !error.contains("panicked"), "{error}");
        assert!(error.contains(says) && error.contains(address), "`{says}` and {address} are part of: {error}");
    };
    let strict = Node::start(&store, &["--token", "good"]);
    fails(&strict.address, &["--node-token", "bad"], "the token is not the node's");
    fails(&strict.address, &[], "the token is not the node's");
    let output = ask(&store, &[&strict.address], &["--node-token", "good", "--format", "count", EDGES]);
    assert_eq!((output.code(), output.err()), (Some(0), String::new()));
    let another = Node::start(&other, &[]);
    fails(&another.address, &[], "it has another store, and no copy of the one that is asked");
    // A node for networks alone.
    let args = ["node", "--listen", "127.0.0.1:0", "--threads", "1"];
    let mut child = vicus(&args).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split_once(" at ").and_then(|(_, rest)| rest.split_once(',')).expect("it says where").0;
    let plain = Node { child, address: address.to_owned() };
    fails(&plain.address, &[], "it has no data to ask: start it with --store");
    // Nobody listens at port 1 of this machine.
    fails("127.0.0.1:1", &[], "it can't be reached");
    let answers: [(&str, &str); 2] = [
        (
            "VICUS-NODE/1 {\"Refused\":{\"version\":\"0.0.1\",\"why\":\"x\"}}\n",
            "it has version 0.0.1, and this program",
        ),
        ("HTTP/1.1 400 Bad Request\r\n\r\n", "what answers there is no node of Vicus"),
    ];
    for (answer, says) in answers {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answers = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut begin = [0; 8];
            stream.read_exact(&mut begin).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        fails(&address, &[], says);
        answers.join().unwrap();
    }
    // A node over a folder without a store does not begin.
    let output = ended(&mut vicus(&["node", "--store", text(&folder), "--listen", "127.0.0.1:0"]));
    assert!(output.code() == Some(1) && output.err().contains("store "), "{}", output.err());
    let _ = std::fs::remove_dir_all(folder);
}
