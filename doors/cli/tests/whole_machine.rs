//! `vicus` with all CPUs of this machine. `./dev test numa` runs this in guests with several nodes too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use vicus_memory::distribution::Distribution;
use vicus_schedule::Setting;
use vicus_sim::{Machine, Parameters, Replay, ReplayOptions, SimOptions, simulate};
use vicus_topology::Topology;
use vicus_trace::{JobId, Trace, What};

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

/// Asks all queries: the counts, and the output of `--timings=json`.
fn ask(data: &Path, more: &[&str]) -> (Counts, Vec<serde_json::Value>) {
    let queries: Vec<PathBuf> = std::fs::read_dir(QUERIES).unwrap().map(|file| file.unwrap().path()).collect();
    let mut arguments = vec!["query", "--data", data.to_str().unwrap(), "--format", "count", "--timings=json"];
    arguments.extend(more);
    arguments.push("--query");
    arguments.extend(queries.iter().map(|path| path.to_str().unwrap()));
    let (found, timings) = vicus(&arguments);
    // The latencies of an emulated machine may be of no use, which `vicinity` and `vicus` say.
    let timings = timings.lines().filter(|line| !line.starts_with("vicus: warning: the measured latencies"));
    (counts(&found), timings.map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// 10,000 triples, and the number of rows of each query by one thread under nls. A guest gets both from its host, with
/// the host's own CPUs, kernel and clock.
fn data_and_counts() -> (PathBuf, Counts) {
    let given = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let data = given("VICUS_TEST_DATA").unwrap_or_else(|| {
        let path = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("whole-machine.nt");
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
    for strategy in
        vicus::STRATEGIES.iter().map(|strategy| strategy.name()).filter(|name| !["las", "nls"].contains(name))
    {
        assert_eq!(ask(&data, &["--strategy", strategy]).0, right, "{strategy}");
    }
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

/// The record of tasks with data.
#[derive(Debug)]
struct Dealt {
    /// By node, how many ran there; of simulated ones the mean of several seeds.
    tasks: Vec<f64>,
    /// The near part of their bytes, in percent.
    near: f64,
}

impl Dealt {
    /// From a recording of threads.
    fn of(trace: &Trace, nodes: usize) -> Dealt {
        let mut with_data: BTreeSet<JobId> = BTreeSet::new();
        let (mut bytes, mut tasks) = ([0u64; 2], vec![0.0; nodes]);
        for entry in trace.merged() {
            match entry.event.what {
                What::Footprint { who, .. } => _ = with_data.insert(who),
                What::BytesRead { far, bytes: read, .. } => bytes[usize::from(far)] += u64::from(read),
                What::UserCodeBegins { who } if with_data.contains(&who) => {
                    tasks[trace.header().seats[entry.seat].node.index()] += 1.0;
                }
                _ => {}
            }
        }
        Dealt { tasks, near: bytes[0] as f64 * 100.0 / (bytes[0] + bytes[1]) as f64 }
    }

    /// As it is simulated on this machine, with the time for a wake that threads have recorded: an emulated processor
    /// comes much later than a real one. Threads that wake early find tasks of other nodes alone, and take those.
    fn simulated(trace: &Trace, topology: &Topology, strategy: &str) -> Dealt {
        let coarse: Distribution = "coarse".parse().unwrap();
        let replay = Replay::of(trace, &ReplayOptions { store: coarse, ..ReplayOptions::default() }).unwrap();
        let mut machine = Machine::from_topology(topology.clone());
        // Without caches, all bytes come from memory: threads have not recorded the bytes found in caches.
        machine.caches.clear();
        machine.topology.caches.clear();
        let plan = strategy.parse::<Setting>().unwrap().plan(topology, topology.default_threads());
        let parameters = Parameters { wake_ns: wake_ns(trace), ..Parameters::default() };
        let (mut bytes, mut tasks) = ([0.0; 2], vec![0.0; topology.nodes.len()]);
        for seed in 0..SEEDS {
            let outcome =
                simulate(&machine, &plan, &replay.program, &SimOptions { seed, parameters, ..SimOptions::default() });
            let outcome = outcome.unwrap();
            let all = replay.program.tasks.iter().zip(&outcome.tasks);
            for (_, ran) in all.filter(|(task, _)| !task.accesses.is_empty()) {
                bytes[0] += ran.near_bytes;
                bytes[1] += ran.far_bytes;
                tasks[plan.seats[ran.seat as usize].node.index()] += 1.0;
            }
        }
        tasks.iter_mut().for_each(|count| *count /= SEEDS as f64);
        Dealt { tasks, near: bytes[0] * 100.0 / (bytes[0] + bytes[1]) }
    }

    /// Whether each node ran as many tasks as in the other one, and as many bytes were near, up to a tenth of all.
    fn is_about(&self, other: &Dealt) -> bool {
        let all: f64 = self.tasks.iter().sum();
        let mut pairs = self.tasks.iter().zip(&other.tasks);
        pairs.all(|(own, other)| (own - other).abs() * 10.0 <= all) && (self.near - other.near).abs() <= 10.0
    }
}

/// How many seeds are simulated.
const SEEDS: u64 = 3;

/// How long a thread that sleeps takes until it runs a task: the median, over the passes of a recorded run and the
/// threads that did not spawn, of the time from a pass's first spawn until the thread began its first task of these.
fn wake_ns(trace: &Trace) -> f64 {
    let (mut passes, mut spawner_of, mut times) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for entry in trace.merged() {
        let (seat, now) = (entry.seat, entry.event.time_ns);
        match entry.event.what {
            What::Spawned { who, by } => {
                spawner_of.insert(who, by);
                passes.entry(by).or_insert((seat, now));
            }
            What::UserCodeBegins { who } => {
                let Some(by) = spawner_of.get(&who) else { continue };
                let (spawner, since) = passes[by];
                if seat != spawner {
                    times.entry((*by, seat)).or_insert(now - since);
                }
            }
            _ => {}
        }
    }
    let mut times: Vec<u64> = times.into_values().collect();
    times.sort_unstable();
    times.get(times.len() / 2).map_or(Parameters::default().wake_ns, |&time| time as f64)
}

/// Runs if VICUS_TEST_DOORS names a folder with the programs of tools/numa-programs and the libraries for them. The
/// thread of a node that runs a task is chance; the node is dealt, and so is the near part.
#[test]
fn the_simulator_predicts_where_a_programs_tasks_run_and_what_is_near() {
    let Some(doors) = std::env::var_os("VICUS_TEST_DOORS").map(PathBuf::from) else { return };
    let programs = ["clang", "gcc"].map(|compiler| doors.join(format!("openmp_near.{compiler}")));
    let program = programs.iter().find(|program| program.exists()).expect("a program by one of two compilers");
    let [malloc, omp] = ["malloc", "omp"].map(|name| doors.join(format!("libvicus_{name}.so")).display().to_string());
    let topology = vicus::this_machine().topology;
    let file = std::env::temp_dir().join(format!("vicus-counts-{}.trace", std::process::id()));
    for strategy in ["footprint", "vicus", "locality-queues"] {
        // In one of three runs: on a busy host, an emulated processor may come too late for all of a pass, and others
        // take its tasks, which then stay in their caches under `vicus`.
        let is_predicted = (0..3).any(|_| {
            let mut command = Command::new(program);
            command.arg("malloc").env("LD_PRELOAD", format!("{malloc}:{omp}")).env("OMP_DATA_DISTRIBUTION", "coarse");
            command.env("VICUS_STRATEGY", strategy).env("VICUS_TRACE", &file).stdin(Stdio::null());
            let output = command.output().unwrap();
            if !output.status.success() {
                // The program has a bound of its own for tasks that run near their data.
                eprintln!("{strategy}: {output:?}");
                return false;
            }
            let trace = Trace::read_from(&mut std::io::BufReader::new(std::fs::File::open(&file).unwrap())).unwrap();
            std::fs::remove_file(&file).unwrap();
            let real = Dealt::of(&trace, topology.nodes.len());
            let simulated = Dealt::simulated(&trace, &topology, strategy);
            eprintln!("{strategy}: {real:?}, simulated {simulated:?}, a wake takes {:.0} us", wake_ns(&trace) / 1000.0);
            let all = |of: &Dealt| of.tasks.iter().sum::<f64>().round();
            assert_eq!(all(&real), all(&simulated), "{strategy}: all tasks");
            real.is_about(&simulated)
        });
        assert!(is_predicted, "{strategy}: the tasks of each node, and near bytes");
    }
}
