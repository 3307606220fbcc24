//! `vicus simulate` and `vicus bench kernels` from outside.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn vicus(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vicus")).args(arguments).output().expect("the binary runs")
}

/// What it printed; it must have succeeded.
fn printed(arguments: &[&str]) -> String {
    let output = vicus(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// What it complained about; it must have failed.
fn refused(arguments: &[&str]) -> String {
    let output = vicus(arguments);
    assert!(!output.status.success(), "{arguments:?} was taken");
    String::from_utf8(output.stderr).expect("text")
}

/// A folder of this test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("vicus-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder can be made");
        Folder(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_same_seed_predicts_the_same_and_strategies_can_be_compared() {
    let arguments = ["simulate", "--machine", "opteron-6172", "--kernel", "map", "--distribution", "fine"];
    let of = |more: &[&str]| printed(&[&arguments[..], more].concat());
    let both = of(&["--strategy", "steal", "--strategy", "footprint", "--format", "json"]);
    assert_eq!(both, of(&["--strategy", "steal", "--strategy", "footprint", "--format", "json"]));
    let rows: Vec<serde_json::Value> = serde_json::from_str(&both).expect("JSON");
    let strategies: Vec<&str> = rows.iter().map(|row| row["strategy"].as_str().expect("a name")).collect();
    assert_eq!(strategies, ["steal", "footprint"]);
    // 48 vectors on 48 cores.
    assert!(
        rows.iter().all(|row| row["threads"] == 48 && row["speedup"].as_f64().is_some_and(|s| s > 1.0 && s <= 48.0))
    );
    // Each of 48 MB is read and written back, and nobody's cache holds a vector.
    let bytes = |row: &serde_json::Value| row["near_bytes"].as_f64().unwrap() + row["far_bytes"].as_f64().unwrap();
    assert!(rows.iter().all(|row| bytes(row) >= f64::from(48 << 20)), "{both}");
    let table = of(&["--strategy", "las"]);
    assert!(table.contains("overlap=0.8") && table.contains("seed 1"), "{table}");
    assert!(of(&["--format", "svg"]).matches("<rect").count() > 48);
    let slowed = of(&["--slow", "0=20", "--format", "json"]);
    let ms = |json: &str| serde_json::from_str::<Vec<serde_json::Value>>(json).unwrap()[0]["ms"].as_f64().unwrap();
    assert!(ms(&slowed) > 1.5 * ms(&of(&["--format", "json"])), "a slow core holds all up");
}

#[test]
fn wrong_input_is_told_apart() {
    let map = ["--kernel", "map"];
    let of = |more: &[&str]| refused(&[&["simulate"], &map[..], more].concat());
    assert!(of(&["--machine", "opteron"]).contains("opteron-6172"));
    assert!(of(&["--machine", "node:2 core:2", "--strategy", "lsa"]).contains("las, nls"));
    assert!(of(&["--machine", "node:2 core:2", "--set", "luck=2"]).contains("spawn_cycles"));
    assert!(refused(&["simulate", "--machine", "node:2 core:2", "--kernel", "maps"]).contains("sparselu"));
    let folder = Folder::new("simulate-wrong");
    let machine = folder.file("machine.toml");
    std::fs::write(&machine, "name = \"mine\"\ntitle = \"mine\"\ntopology = \"core:2\"\nclock_ghz = -1.0\n").unwrap();
    let error = of(&["--machine", &machine]);
    assert!(error.contains("machine.toml"), "{error}");
}

#[test]
fn a_recorded_query_is_replayed_on_another_machine() {
    let folder = Folder::new("simulate-replay");
    let (data, trace) = (folder.file("data.nt"), folder.file("q.trace"));
    printed(&["generate", "sp2b", "--triples", "5000", "--output", &data]);
    let query = Path::new(env!("CARGO_MANIFEST_DIR")).join("queries/sp2b/q4.sparql");
    let query = query.to_str().expect("UTF-8");
    printed(&["query", "--data", &data, "--query", query, "--threads", "2", "--format", "count", "--trace", &trace]);
    let of = |more: &[&str]| {
        printed(&[&["simulate", "--machine", "xeon-e7-4820", "--trace", &trace, "--strategy", "las"], more].concat())
    };
    let once = of(&[]);
    let line = once.lines().find(|line| line.starts_with("replay of")).expect("it says what it replays");
    let number = |before: &str| -> f64 {
        let end = line.find(before).unwrap_or_else(|| panic!("{line}"));
        line[..end]
            .rsplit([' ', ','])
            .find(|word| !word.is_empty())
            .unwrap()
            .parse()
            .unwrap_or_else(|_| panic!("{line}"))
    };
    let (tasks, recorded) = (number(" tasks"), number(" ms recorded"));
    // The trace's own sums, by another way: on each seat, from each beginning to the next end.
    let file = std::fs::read(&trace).unwrap();
    let trace_read = vicus_trace::Trace::read_from(&mut file.as_slice()).unwrap();
    let (mut invocations, mut spent_ns) = (0, 0);
    for log in trace_read.logs() {
        let mut began = 0;
        for event in &log.events {
            match event.what {
                vicus_trace::What::InvocationBegins { .. } => began = event.time_ns,
                vicus_trace::What::InvocationEnds { .. } => {
                    invocations += 1;
                    spent_ns += event.time_ns - began;
                }
                _ => {}
            }
        }
    }
    assert_eq!(tasks, f64::from(invocations));
    let spent_ms = spent_ns as f64 / 1e6;
    assert!((recorded - spent_ms).abs() < 0.001, "{recorded} ms replayed, {spent_ms} ms recorded");
    assert!(of(&["--copies", "3"]).contains(&format!("{} tasks", 3.0 * tasks)));
    // Without loading, which is a request as well.
    let query_alone = of(&["--requests", "2"]);
    assert!(!query_alone.contains(&format!(" {tasks} tasks")), "{query_alone}");
    assert!(
        refused(&["simulate", "--machine", "core:2", "--trace", &trace, "--requests", "99"])
            .contains("nothing to replay")
    );
    assert!(refused(&["simulate", "--machine", "xeon-e7-4820", "--trace", query]).contains("not a trace"));
    let bytes = std::fs::read(&trace).unwrap();
    let cut = folder.file("cut.trace");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let error = refused(&["simulate", "--machine", "xeon-e7-4820", "--trace", &cut]);
    assert!(error.contains("truncated") && error.contains("cut.trace"), "{error}");
}

#[test]
fn a_recorded_query_is_enacted_again_with_the_same_work() {
    let folder = Folder::new("simulate-reenact");
    let data = folder.file("data.nt");
    printed(&["generate", "sp2b", "--triples", "5000", "--output", &data]);
    for name in ["q4", "q6", "q11"] {
        let trace = folder.file(&format!("{name}.trace"));
        let query = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("queries/sp2b/{name}.sparql"));
        let query = query.to_str().expect("UTF-8");
        printed(&[
            "query",
            "--data",
            &data,
            "--query",
            query,
            "--threads",
            "2",
            "--format",
            "count",
            "--trace",
            &trace,
        ]);
        let file = std::fs::read(&trace).unwrap();
        let recorded = vicus_trace::Trace::read_from(&mut file.as_slice()).unwrap();
        let events = recorded.logs().iter().flat_map(|log| &log.events);
        let begins = events.filter(|event| matches!(event.what, vicus_trace::What::InvocationBegins { .. })).count();
        for threads in ["1", "2", "48"] {
            let arguments = ["simulate", "--machine", "opteron-6172", "--trace", &trace, "--mode", "re-enact"];
            let more = ["--threads", threads, "--format", "json", "--strategy", "las", "--strategy", "vicinity"];
            let rows: Vec<serde_json::Value> =
                serde_json::from_str(&printed(&[&arguments[..], &more].concat())).expect("JSON");
            assert_eq!(rows.len(), 2);
            for row in rows {
                let again = &row["reenacted"];
                let number = |name: &str| again[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"));
                let what = format!("{name}, {threads} threads: {row}");
                assert_eq!(row["kernel"], "re-enact", "{what}");
                assert!((number("work_ms") / number("recorded_ms") - 1.0).abs() < 1e-9, "{what}");
                assert_eq!(number("recorded_invocations"), begins as f64, "{what}");
                assert!(number("invocations") > 0.0 && row["ms"].as_f64().expect("a number") > 0.0, "{what}");
            }
        }
        let table = printed(&["simulate", "--machine", "opteron-6172", "--trace", &trace, "--mode", "re-enact"]);
        assert!(table.contains("re-enactment of") && table.contains("re-enacted under las: "), "{table}");
    }
    assert!(refused(&["simulate", "--machine", "core:2", "--mode", "re-enact"]).contains("--trace"));
}

#[test]
fn kernels_run_on_threads_and_are_checked() {
    let table = printed(&[
        "bench",
        "kernels",
        "--kernel",
        "map,sparselu,fib",
        "--size",
        "0.05",
        "--strategy",
        "las",
        "--strategy",
        "footprint",
        "--threads",
        "2",
        "--repeats",
        "1",
    ]);
    assert_eq!(table.lines().count(), 1 + 3 * 2, "{table}");
    assert!(table.contains("takes by rule") && table.contains("coarse"), "{table}");
}
