//! `vicus` with all CPUs of the machine that it runs on. `./dev test numa` runs this in guests with several nodes too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use vicus_topology::Topology;

/// The 17 SP2Bench queries.
const QUERIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/queries/sp2b");

/// Standard output and standard error of a successful run.
fn vicus(arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
    let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
    let [out, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{arguments:?}: {errors}");
    (out, errors)
}

/// The number of rows of each query, or yes or no.
type Counts = BTreeMap<String, String>;

/// A line for each query: its name, a tab, its rows.
fn counts(text: &str) -> Counts {
    let lines = text.lines().map(|line| line.split_once('\t').unwrap_or_else(|| panic!("a name and a count: {line}")));
    lines.map(|(name, count)| (name.to_owned(), count.to_owned())).collect()
}

/// Asks all queries: the counts, and what `--timings=json` says.
fn ask(data: &Path, more: &[&str]) -> (Counts, Vec<serde_json::Value>) {
    let queries: Vec<PathBuf> = std::fs::read_dir(QUERIES).unwrap().map(|file| file.unwrap().path()).collect();
    let mut arguments = vec!["query", "--data", data.to_str().unwrap(), "--format", "count", "--timings=json"];
    arguments.extend(more);
    arguments.push("--query");
    arguments.extend(queries.iter().map(|path| path.to_str().unwrap()));
    let (found, timings) = vicus(&arguments);
    (counts(&found), timings.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// 10,000 triples, and the number of rows of each query by one thread under nls. A guest gets both from its host, which
/// has its own CPUs, kernel and clock.
fn data_and_counts() -> (PathBuf, Counts) {
    let given = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let data = given("VICUS_TEST_DATA").unwrap_or_else(|| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("whole-machine.nt");
        vicus(&["generate", "sp2b", "--triples", "10000", "--output", path.to_str().unwrap()]);
        path
    });
    let right = match given("VICUS_TEST_COUNTS") {
        Some(path) => counts(&std::fs::read_to_string(path).unwrap()),
        None => ask(&data, &["--threads", "1", "--strategy", "nls"]).0,
    };
    assert_eq!(right.len(), 17, "{right:?}");
    (data, right)
}

#[test]
fn topology_shows_the_machine_that_a_runtime_runs_on() {
    let (json, errors) = vicus(&["topology", "--format", "json"]);
    assert_eq!(Topology::from_json(&json).unwrap(), vicus::this_machine().topology);
    assert_eq!(errors, "");
}

#[test]
fn all_cpus_answer_as_one_thread_does() {
    let (data, right) = data_and_counts();
    let machine = vicus::this_machine().topology;
    let several_groups = machine.usable_pus().map(|pu| pu.group).collect::<BTreeSet<_>>().len() > 1;
    let several_nodes = machine.usable_pus().map(|pu| pu.node).collect::<BTreeSet<_>>().len() > 1;
    for strategy in ["las", "las:pin=pu", "nls"] {
        // Whether another group's thread takes a task is a matter of luck, so a short query runs several times.
        let lucky = (0..20).any(|_| {
            let (found, timings) = ask(&data, &["--strategy", strategy]);
            assert_eq!(found, right, "{strategy}");
            let sum = |pointer| timings.iter().filter_map(|line| line.pointer(pointer)?.as_u64()).sum::<u64>();
            let (tasks, by_rule_4, far) = (sum("/tasks"), sum("/taken/4"), sum("/far"));
            eprintln!("{strategy}: {tasks} tasks, {by_rule_4} taken by rule 4, {far} from another node");
            // Rule 4 of LAS: deferred tasks of other groups.
            (!several_groups || strategy == "nls" || by_rule_4 > 0) && (!several_nodes || far > 0)
        });
        assert!(lucky, "{strategy}: no task was ever taken by another group's or node's thread");
    }
}
