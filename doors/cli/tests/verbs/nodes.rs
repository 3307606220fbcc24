//! `vicus node` and `vicus network run --nodes`: networks over processes that are killed, silent, or asked wrongly.

mod tls;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn folder(name: &str) -> PathBuf {
    let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("nodes").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A node in a process of its own, which ends with the test.
struct Node {
    child: Child,
    address: String,
}

impl Node {
    fn start(folder: &Path, more: &[&str]) -> Node {
        Node::start_by(Command::new(env!("CARGO_BIN_EXE_vicus")), folder, more)
    }

    /// By a command that has the program as its last argument.
    fn start_by(mut command: Command, folder: &Path, more: &[&str]) -> Node {
        command.args(["node", "--listen", "127.0.0.1:0", "--threads", "1", "--memory-limit", "200M"]).args(more);
        let mut child = command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split_once(" at ").and_then(|(_, rest)| rest.split_once(',')).expect("it says where").0;
        Node { address: address.to_owned(), child }
    }

    fn signal(&self, signal: i32) {
        #[expect(unsafe_code, reason = "sends a signal to a child")]
        // SAFETY: it is a child that was not waited for, so the number is its own.
        let sent = unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
        assert_eq!(sent, 0);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn network(folder: &Path, file: &str, nodes: &[&Node], more: &[&str]) -> Command {
    let nodes: Vec<&str> = nodes.iter().map(|node| node.address.as_str()).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
    command.args(["network", "run", file, "--threads", "1", "--nodes", &nodes.join(",")]).args(more);
    if !more.contains(&"--node-silence") {
        // Tests share the machine: a process that is killed is noticed without it.
        command.args(["--node-silence", "20"]);
    }
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn files_of_each_node_are_read_where_they_are_and_no_others() {
    let folder = folder("files");
    for (name, rows) in [("a", "n\n1\n2\n"), ("b", "n\n3\n4\n")] {
        std::fs::create_dir(folder.join(name)).unwrap();
        std::fs::write(folder.join(name).join("part.csv"), rows).unwrap();
    }
    let nodes = [Node::start(&folder, &["--folder", "a"]), Node::start(&folder, &["--folder", "b"])];
    let nodes = [&nodes[0], &nodes[1]];
    let text = |file: &str| {
        format!(
            "box part = read(file: \"{file}\") on node *; box all = aggregate(select: \"SUM(n) AS n\");
             box rows = collect; part -> all -> rows;"
        )
    };
    std::fs::write(folder.join("sum.vnet"), text("part.csv")).unwrap();
    let (code, rows, error) = told(&network(&folder, "sum.vnet", &nodes, &[]).output().unwrap());
    assert_eq!((code, rows.as_str()), (Some(0), "n\n10\n"), "{error}");
    // A file that only some nodes have, and one that none has.
    std::fs::write(folder.join("b").join("more.csv"), "n\n5\n").unwrap();
    std::fs::write(folder.join("of.vnet"), text("more.csv").replace("node *", "the nodes of \"more.csv\"")).unwrap();
    let (code, rows, error) = told(&network(&folder, "of.vnet", &nodes, &[]).output().unwrap());
    assert_eq!((code, rows.as_str()), (Some(0), "n\n5\n"), "{error}");
    std::fs::write(folder.join("no.vnet"), text("no.csv").replace("node *", "the nodes of \"no.csv\"")).unwrap();
    let (code, _, error) = told(&network(&folder, "no.vnet", &nodes, &[]).output().unwrap());
    assert!(code == Some(1) && error.contains("on the nodes of \"no.csv\", and none has it"), "{error}");
    for (outside, why) in [("../b/part.csv", "only files below"), ("/etc/passwd", "only files below")] {
        std::fs::write(folder.join("out.vnet"), text(outside)).unwrap();
        let (code, rows, error) = told(&network(&folder, "out.vnet", &nodes, &[]).output().unwrap());
        assert_eq!((code, rows.as_str()), (Some(1), ""));
        assert!(error.contains(why) && error.contains("node "), "{error}");
    }
    // A node without a folder reads none.
    let plain = Node::start(&folder, &[]);
    let (code, _, error) = told(&network(&folder, "sum.vnet", &[&plain], &[]).output().unwrap());
    assert!(code == Some(1) && error.contains("reads and writes no files; start it with --folder"), "{error}");
}

/// What happened: boxes of nodes were not counted.
#[test]
fn counts_are_those_of_all_nodes() {
    let folder = folder("counts");
    let nodes = [Node::start(&folder, &[]), Node::start(&folder, &[])];
    let nodes = [&nodes[0], &nodes[1]];
    for out in ["box out = collect;", "box out = sink on node *;"] {
        let text = format!(
            "box n = numbers(to: 1000) on node *; box few = filter(where: \"n < 10\") on node *; {out} n -> few -> out;"
        );
        std::fs::write(folder.join("counts.vnet"), text).unwrap();
        let (code, _, told) = told(&network(&folder, "counts.vnet", &nodes, &["--counts"]).output().unwrap());
        assert_eq!(code, Some(0), "{told}");
        let lines: Vec<Vec<&str>> = told.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0][..4], ["box", "as", "node", "runs"], "{told}");
        let of = |kind: &str| -> Vec<String> {
            let of_kind = lines.iter().filter(|line| line.len() == 7 && line[1] == kind);
            of_kind.map(|line| format!("{} on {}: {}, {}", line[0], line[2], line[4], line[5])).collect()
        };
        assert_eq!(of("numbers"), ["n[0] on 1: 0, 1000", "n[1] on 2: 0, 1000"], "{told}");
        assert_eq!(of("filter"), ["few[0] on 1: 1000, 10", "few[1] on 2: 1000, 10"], "{told}");
        let taken = if out.contains("collect") { of("collect") } else { of("sink") };
        assert!(taken == ["out on 0: 20, 0"] || taken == ["out[0] on 1: 10, 0", "out[1] on 2: 10, 0"], "{told}");
    }
}

/// A node writes its trace when it is interrupted; with that of the process that began, it becomes one.
#[test]
fn traces_of_processes_are_joined() {
    let folder = folder("traces");
    let text = "box n = numbers(to: 30000); box few = filter(where: \"n % 3 = 0\") on node 1;
        box rows = aggregate(select: \"COUNT(*) AS n\"); box out = collect; n -> few -> rows -> out;";
    std::fs::write(folder.join("few.vnet"), text).unwrap();
    let mut node = Node::start(&folder, &["--trace", "node.trace"]);
    let lead = network(&folder, "few.vnet", &[&node], &["--trace", "lead.trace"]).output().unwrap();
    let (code, rows, error) = told(&lead);
    assert_eq!((code, rows.as_str()), (Some(0), "n\n10000\n"), "{error}");
    node.signal(libc::SIGINT);
    assert!(node.child.wait().unwrap().success());
    let trace = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
        told(&command.arg("trace").args(args).current_dir(&folder).output().unwrap())
    };
    let (code, _, error) = trace(&["join", "lead.trace", "node.trace", "-o", "both.trace"]);
    assert_eq!(code, Some(0), "{error}");
    let (code, checked, _) = trace(&["check", "both.trace"]);
    assert!(code == Some(0) && checked.starts_with("looked at all"), "{checked}");
    let (_, summary, _) = trace(&["summary", "both.trace"]);
    // What one process sent, the other received: 30,000 rows there and 10,000 back.
    for (type_name, rows) in [("send 0", "30000"), ("receive 0", "30000"), ("send 1", "10000"), ("receive 1", "10000")]
    {
        let line = summary.lines().find(|line| line.starts_with(type_name)).expect("its boxes are there");
        assert!(line.split_whitespace().filter(|word| *word == rows).count() >= 2, "{line}");
    }
    assert!(summary.contains("node.trace set by"), "{summary}");
    let (code, _, error) = trace(&["join", "lead.trace", "lead.trace", "-o", "no.trace"]);
    assert!(code == Some(1) && error.contains("no message joins it with the first trace"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// Rows come until a node is killed: then the command fails with the node's address.
#[test]
fn a_node_that_is_killed_ends_the_network_with_its_name() {
    let folder = folder("killed");
    let text = "box n = numbers(to: 9000000000000000000) on node 1;
        box few = filter(where: \"n % 10000 = 0\") on node 2; box rows = collect; n -> few -> rows;";
    std::fs::write(folder.join("endless.vnet"), text).unwrap();
    for victim in 0..2 {
        let mut nodes = [Node::start(&folder, &[]), Node::start(&folder, &[])];
        let mut child = network(&folder, "endless.vnet", &[&nodes[0], &nodes[1]], &[]).spawn().unwrap();
        let mut rows = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("20000\n") {
            assert!(rows.read_line(&mut line).unwrap() > 0, "rows come without an end");
        }
        nodes[victim].child.kill().unwrap();
        std::io::copy(&mut rows, &mut std::io::sink()).unwrap();
        let (code, _, error) = told(&child.wait_with_output().unwrap());
        assert_eq!(code, Some(1), "{error}");
        assert!(error.contains(&nodes[victim].address) && error.contains("lost"), "{error}");
        // The other one is ready for the next network.
        std::fs::write(folder.join("next.vnet"), "box n = numbers(to: 3) on node 1; box r = collect; n -> r;").unwrap();
        let (code, rows, error) = told(&network(&folder, "next.vnet", &[&nodes[1 - victim]], &[]).output().unwrap());
        assert_eq!((code, rows.as_str()), (Some(0), "n\n0\n1\n2\n"), "{error}");
    }
}

/// A node whose process is stopped keeps its connections, and says nothing.
#[test]
fn a_silent_node_is_lost() {
    let folder = folder("silent");
    let text = "box n = numbers(to: 9000000000000000000) on node 1;
        box few = filter(where: \"n % 10000 = 0\") on node 1; box rows = collect; n -> few -> rows;";
    std::fs::write(folder.join("endless.vnet"), text).unwrap();
    let node = Node::start(&folder, &[]);
    let mut child = network(&folder, "endless.vnet", &[&node], &["--node-silence", "500ms"]).spawn().unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap());
    rows.read_line(&mut String::new()).unwrap();
    node.signal(libc::SIGSTOP);
    std::io::copy(&mut rows, &mut std::io::sink()).unwrap();
    let (code, _, error) = told(&child.wait_with_output().unwrap());
    assert!(code == Some(1) && error.contains("nothing has come for 500 ms"), "{error}");
    // When it goes on, it finds that network ended, and serves the next one.
    node.signal(libc::SIGCONT);
    std::fs::write(folder.join("next.vnet"), "box n = numbers(to: 3) on node 1; box r = collect; n -> r;").unwrap();
    let (code, rows, error) = told(&network(&folder, "next.vnet", &[&node], &[]).output().unwrap());
    assert_eq!((code, rows.as_str()), (Some(0), "n\n0\n1\n2\n"), "{error}");
}

/// Kills at moments by chance: a spare takes the lost node's number, and the rows are those of one whole run.
#[test]
fn what_was_lost_is_run_again_on_a_spare_with_each_row_once() {
    let folder = folder("again");
    let text = "box n = numbers(to: 3000000) on node 1; box k = map(select: \"n % 7 AS k\") on node 2;
        box count = aggregate(select: \"k, COUNT(*) AS c\", by: \"k\"); box order = sort(by: \"k\"); box rows = collect;
        n -> k -> count -> order -> rows;";
    std::fs::write(folder.join("count.vnet"), text).unwrap();
    let mut expected = "k,c\n".to_owned();
    (0..7).for_each(|k| expected += &format!("{k},{}\n", (0..3_000_000u64).filter(|n| n % 7 == k).count()));
    let seed = std::env::var("NODES_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1u64);
    println!("NODES_SEED={seed}");
    let rounds = std::env::var("NODES_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(4u64);
    for round in 0..rounds {
        let mut nodes = [Node::start(&folder, &[]), Node::start(&folder, &[])];
        let spare = Node::start(&folder, &[]);
        let more = ["--retries", "2", "--node-wait", "0", "--spare-nodes", &spare.address];
        let child = network(&folder, "count.vnet", &[&nodes[0], &nodes[1]], &more).spawn().unwrap();
        // Up to some 250 ms: about what a run takes on an idle machine.
        let chance = (seed + round).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        std::thread::sleep(Duration::from_millis(chance % 250));
        nodes[(chance >> 16) as usize % 2].child.kill().unwrap();
        let (code, rows, error) = told(&child.wait_with_output().unwrap());
        assert_eq!((code, rows), (Some(0), expected.clone()), "round {round}: {error}");
    }
}

/// The files of nodes get their places when the whole network has done well: a node that is killed leaves the earlier
/// ones, and no other.
#[test]
fn files_of_a_network_that_is_run_again_are_written_once() {
    let folder = folder("staged");
    let text = "box n = numbers(to: 2000000) on node 1; box k = map(select: \"n % 5 AS k\") on node 2;
        box count = aggregate(select: \"k, COUNT(*) AS c\", by: \"k\") on node 2; box order = sort(by: \"k\") on node 2;
        box rows = write_csv(file: \"rows.csv\") on node 2;
        box few = filter(where: \"n % 500000 = 0\") on node 1; box other = write_csv(file: \"few.csv\") on node 1;
        n -> k -> count -> order -> rows; n -> few -> other;";
    std::fs::write(folder.join("files.vnet"), text).unwrap();
    let seed = std::env::var("NODES_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1u64);
    println!("NODES_SEED={seed}");
    let rounds = std::env::var("NODES_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3u64);
    for round in 0..rounds {
        let places: Vec<PathBuf> = ["rows.csv", "few.csv"].map(|name| folder.join(name)).into();
        places.iter().for_each(|place| std::fs::write(place, "before\n").unwrap());
        let here = ["--folder", "."];
        let mut nodes = [Node::start(&folder, &here), Node::start(&folder, &here)];
        let spare = Node::start(&folder, &here);
        let more = ["--retries", "2", "--node-wait", "0", "--spare-nodes", &spare.address];
        let child = network(&folder, "files.vnet", &[&nodes[0], &nodes[1]], &more).spawn().unwrap();
        let chance = (seed + round).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        std::thread::sleep(Duration::from_millis(chance % 200));
        nodes[(chance >> 16) as usize % 2].child.kill().unwrap();
        let (code, _, error) = told(&child.wait_with_output().unwrap());
        assert_eq!(code, Some(0), "round {round}: {error}");
        let [rows, few] = [0, 1].map(|place| std::fs::read_to_string(&places[place]).unwrap());
        assert_eq!(rows, "k,c\n0,400000\n1,400000\n2,400000\n3,400000\n4,400000\n", "round {round}");
        assert_eq!(few, "n\n0\n500000\n1000000\n1500000\n", "round {round}");
        // What the killed one has begun may lie there; the others leave nothing.
        let killed = nodes.iter().map(|node| node.child.id()).collect::<Vec<_>>();
        for entry in std::fs::read_dir(&folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let is_of_killed = killed.iter().any(|id| name.contains(&format!(".{id}-")));
            assert!(!name.ends_with(".staged") || is_of_killed, "{name}");
            if name.ends_with(".staged") {
                std::fs::remove_file(folder.join(name)).unwrap();
            }
        }
    }
    // Without `--retries`, a reader sees rows as they come.
    let node = Node::start(&folder, &["--folder", "."]);
    std::fs::write(
        folder.join("out.vnet"),
        "box n = numbers(to: 3) on node 1; box o = write_csv(file: \"-\") on node 1; n -> o;",
    )
    .unwrap();
    let (code, _, error) = told(&network(&folder, "out.vnet", &[&node], &["--retries", "1"]).output().unwrap());
    assert!(code == Some(1) && error.contains("reads or writes"), "{error}");
}

fn vicus(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
    told(&command.args(arguments).current_dir(folder).stdin(Stdio::null()).output().unwrap())
}

/// Rows become quads of a store in one transaction, when the whole network has done well: a node that is killed leaves
/// the store as it was, and then each row is there once.
#[test]
fn a_store_gets_all_rows_of_a_network_that_is_run_again_and_none_twice() {
    const ROWS: usize = 30_000;
    let folder = folder("store");
    let text = format!(
        "box n = numbers(to: {ROWS}) on node 1;
         box quads = map(select: \"CONCAT('http://e/', CAST(n AS VARCHAR)) AS subject, 'http://e/p' AS predicate, n AS \
         object\") on node 2;
         box out = write_store(store: \"store\") on node 2; box few = filter(where: \"n % 10000 = 0\") on node 1;
         box other = write_csv(file: \"few.csv\") on node 1;
         n -> quads -> out; n -> few -> other;"
    );
    std::fs::write(folder.join("store.vnet"), text).unwrap();
    let seed = std::env::var("NODES_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1u64);
    println!("NODES_SEED={seed}");
    let rounds = std::env::var("NODES_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3u64);
    let count = || {
        let query = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }";
        let (code, rows, error) = vicus(&folder, &["query", "--store", "store", "--format", "csv", query]);
        assert_eq!(code, Some(0), "{error}");
        rows.lines().nth(1).unwrap().parse::<usize>().unwrap()
    };
    for round in 0..rounds {
        let _ = std::fs::remove_dir_all(folder.join("store"));
        let insert = "INSERT DATA { <http://e/before> <http://e/p> 1 }";
        let (code, _, error) = vicus(&folder, &["update", "--store", "store", "--create", insert]);
        assert_eq!(code, Some(0), "{error}");
        let here = ["--folder", "."];
        let mut nodes = [Node::start(&folder, &here), Node::start(&folder, &here)];
        let spare = Node::start(&folder, &here);
        let more = ["--retries", "2", "--node-wait", "0", "--spare-nodes", &spare.address];
        let child = network(&folder, "store.vnet", &[&nodes[0], &nodes[1]], &more).spawn().unwrap();
        let chance = (seed + round).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let until = Instant::now() + Duration::from_millis(chance % 400);
        while Instant::now() < until {
            // All or nothing, at any time.
            let now = count();
            assert!([1, ROWS + 1].contains(&now), "round {round}: {now} quads");
        }
        nodes[(chance >> 16) as usize % 2].child.kill().unwrap();
        let (code, _, error) = told(&child.wait_with_output().unwrap());
        assert_eq!(code, Some(0), "round {round}: {error}");
        assert_eq!(count(), ROWS + 1, "round {round}");
        let (code, said, error) = vicus(&folder, &["check", "--store", "store"]);
        assert_eq!(code, Some(0), "round {round}: {said}{error}");
    }
    // A row that is no statement, and a loss that is not made good, leave the store as it is.
    let (code, _, error) = vicus(&folder, &["update", "--store", "store", "DELETE WHERE { ?s ?p ?o }"]);
    assert_eq!(code, Some(0), "{error}");
    let wrong = "box n = numbers(to: 30000);
        box quads = map(select: \"CASE WHEN n = 29999 THEN 'no IRI' ELSE 'http://e/s' END AS subject, 'http://e/p' AS \
        predicate, n AS object\"); box out = write_store(store: \"store\"); n -> quads -> out;";
    std::fs::write(folder.join("wrong.vnet"), wrong).unwrap();
    let (code, _, error) = vicus(&folder, &["network", "run", "wrong.vnet"]);
    assert!(code == Some(1) && error.contains("row 30000: subject \"no IRI\" is no IRI"), "{error}");
    assert_eq!(count(), 0);
    std::fs::write(folder.join("right.vnet"), wrong.replace("no IRI", "http://e/s")).unwrap();
    let (code, _, error) = vicus(&folder, &["network", "run", "right.vnet"]);
    assert_eq!((code, error.as_str(), count()), (Some(0), "", 30_000));
    let (code, _, error) = vicus(&folder, &["network", "run", "right.vnet", "--memory-limit", "300K"]);
    assert!(code == Some(1) && error.contains("more than 300.0 KiB is needed"), "{error}");
    std::fs::write(folder.join("none.vnet"), wrong.replace("\"store\"", "\"none\"")).unwrap();
    let (code, _, error) = vicus(&folder, &["network", "run", "none.vnet"]);
    assert!(code == Some(1) && error.contains("none"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// A node whose clocks since the start are a day ahead: processes measure times by their own, and compare none. The
/// clock of the day is read by none of them.
#[test]
fn a_node_with_clocks_a_day_apart_works() {
    let folder = folder("clocks");
    let day = ["-UrT", "--monotonic", "86400", "--boottime", "86400"];
    let is_permitted = Command::new("unshare").args(day).arg("true").output().is_ok_and(|done| done.status.success());
    if !is_permitted {
        println!("skipped: this system makes no namespace of time (unshare -UrT)");
        return;
    }
    let mut command = Command::new("unshare");
    command.args(day).arg(env!("CARGO_BIN_EXE_vicus"));
    let (ahead, plain) = (Node::start_by(command, &folder, &[]), Node::start(&folder, &[]));
    let text = "box n = numbers(to: 100000) on node *; box k = map(select: \"n % 3 AS k\") on node *;
        box deal = partition(by: \"k\") on node *;
        box count = aggregate(select: \"k, COUNT(*) AS c\", by: \"k\") on node *; box order = sort(by: \"k\");
        box rows = collect; n -> k -> deal => count -> order -> rows;";
    std::fs::write(folder.join("count.vnet"), text).unwrap();
    for more in [["--retries", "0"], ["--retries", "1"]] {
        let (code, rows, error) = told(&network(&folder, "count.vnet", &[&ahead, &plain], &more).output().unwrap());
        assert_eq!((code, rows.as_str()), (Some(0), "k,c\n0,66668\n1,66666\n2,66666\n"), "{error}");
    }
}

/// `check` and `show` take texts with nodes, and ask none.
#[test]
fn texts_with_nodes_are_checked_and_shown_without_them() {
    let folder = folder("checked");
    let text = "box n = numbers(to: 3) on node *; box k = filter(where: \"n > 1\") on node 2; box rows = collect;
        n -> k -> rows;";
    std::fs::write(folder.join("two.vnet"), text).unwrap();
    let vicus = |arguments: &[&str]| vicus(&folder, &[&["network"], arguments].concat());
    let (code, said, error) = vicus(&["check", "two.vnet", "--nodes", "2"]);
    assert_eq!(code, Some(0), "{error}");
    // A box that unites the copies' rows is with their reader, so node 1 has its copy alone.
    assert!(said.contains("1 collected\n  on node 1: 1\n  on node 2: "), "{said}");
    let (_, graph, _) = vicus(&["show", "two.vnet", "--nodes", "2", "--format", "dot"]);
    assert!(graph.contains("n[1] on node 2") && graph.contains("\"rows\\n"), "{graph}");
    let (code, _, error) = vicus(&["check", "two.vnet", "--nodes", "1"]);
    assert!(code == Some(1) && error.contains("there is one, 1"), "{error}");
}

#[test]
fn wrong_options_and_texts_say_what_to_do() {
    let folder = folder("wrong");
    std::fs::write(folder.join("n.vnet"), "box n = numbers(to: 3) on node 1; box r = collect; n -> r;").unwrap();
    let vicus = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
        told(&command.args(arguments).current_dir(&folder).env_remove("VICUS_NODE_TOKEN").output().unwrap())
    };
    let (code, _, error) = vicus(&["node", "--listen", "0.0.0.0:0"]);
    assert!(code == Some(1) && error.contains("needs a token: --token, or VICUS_NODE_TOKEN"), "{error}");
    let (code, _, error) = vicus(&["node", "--folder", "nowhere"]);
    assert!(code == Some(1) && error.contains("--folder nowhere"), "{error}");
    let (code, _, error) = vicus(&["network", "run", "n.vnet"]);
    assert!(code == Some(1) && error.contains("name others by `--nodes`"), "{error}");
    let (code, _, error) = vicus(&["network", "run", "n.vnet", "--nodes", "127.0.0.1:1", "--node-wait", "0"]);
    assert!(code == Some(1) && error.contains("127.0.0.1:1: it can't be reached"), "{error}");
    let (code, _, error) = vicus(&["network", "run", "n.vnet", "--nodes", "nothing"]);
    assert!(code == Some(1) && error.contains("the address is not understood"), "{error}");
    let node = Node::start(&folder, &["--token", "secret"]);
    let (code, _, error) = told(&network(&folder, "n.vnet", &[&node], &[]).output().unwrap());
    assert!(code == Some(1) && error.contains("the token is not the node's"), "{error}");
    let (code, rows, error) =
        told(&network(&folder, "n.vnet", &[&node], &["--node-token", "secret"]).output().unwrap());
    assert_eq!((code, rows.as_str()), (Some(0), "n\n0\n1\n2\n"), "{error}");
    std::fs::write(folder.join("once.vnet"), "box l = lines(from: \"-\"); box r = collect; l -> r;").unwrap();
    let retried = told(&network(&folder, "once.vnet", &[&node], &["--retries", "1"]).output().unwrap());
    assert!(retried.0 == Some(1) && retried.2.contains("what `l` reads or writes"), "{}", retried.2);
}

/// A signal that ends: the node leaves, and a network that runs on it fails.
#[test]
fn a_node_ends_on_a_signal() {
    let folder = folder("signal");
    let mut node = Node::start(&folder, &[]);
    node.signal(libc::SIGTERM);
    let began = Instant::now();
    while node.child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < Duration::from_secs(60), "it ends");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut rest = String::new();
    node.child.stderr.take().map(|mut errors| errors.read_to_string(&mut rest));
    assert_eq!(node.child.wait().unwrap().code(), Some(0), "{rest}");
}
