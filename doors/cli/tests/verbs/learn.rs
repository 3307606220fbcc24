//! `vicus learn`, and runs with its findings, from outside.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use vicus_trace::{Awaits, EventLog, Header, JobId, TaskKind, Trace, Use, What};

const DATA: &str = "<http://e/a> <http://e/p> <http://e/b> .\n<http://e/b> <http://e/p> <http://e/c> .\n";
const QUERY: &str = "SELECT ?x WHERE { ?x <http://e/p> ?y . ?y <http://e/p> ?z }";

/// A file of this name, in Cargo's folder for these tests.
fn path(name: &str) -> PathBuf {
    vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn vicus(arguments: &[&str], variables: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
    command.args(arguments).env_remove("VICUS_STRATEGY").env_remove("VICUS_LEARNED");
    command.envs(variables.iter().copied()).output().expect("the binary runs")
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Records the query with one thread, under the current strategy, and returns its trace.
fn recorded(name: &str, variables: &[(&str, &Path)]) -> PathBuf {
    let (data, trace) = (path(&format!("{name}.nt")), path(&format!("{name}.trace")));
    std::fs::write(&data, DATA).unwrap();
    let query = ["query", "--data", text(&data), QUERY, "--threads", "1", "--trace", text(&trace)];
    assert!(printed(&vicus(&query, variables)).contains("http://e/a"));
    trace
}

fn strategy_of(trace: &Path) -> String {
    let summary = printed(&vicus(&["trace", "summary", text(trace)], &[]));
    summary.lines().next().expect("a line").to_owned()
}

#[test]
fn a_run_uses_the_strategy_that_was_learned_where_none_is_named() {
    let learned = path("used.json");
    let trace = recorded("used", &[]);
    assert_eq!(strategy_of(&trace), "strategy: las");
    let choice = ["--strategy", "steal:spin_ns=77", "--output", text(&learned)];
    let said = printed(&vicus(&[&["learn", text(&trace)][..], &choice].concat(), &[]));
    assert!(said.contains("learned: steal:spin_ns=77\n") && said.contains("VICUS_LEARNED="), "{said}");
    let use_it = ("VICUS_LEARNED", learned.as_path());
    assert_eq!(strategy_of(&recorded("using", &[use_it])), "strategy: steal:spin_ns=77");
    let named = [use_it, ("VICUS_STRATEGY", Path::new("nls"))];
    assert_eq!(strategy_of(&recorded("named", &named)), "strategy: nls");
}

#[test]
fn strategies_are_tried_on_a_described_machine_and_the_best_is_kept() {
    let trace = recorded("tried", &[]);
    let learn = ["learn", text(&trace), text(&trace), "--machine", "node:2 core:2", "--format", "json"];
    let said = printed(&vicus(&learn, &[]));
    assert_eq!(said, printed(&vicus(&learn, &[])), "the same seed, the same");
    let found: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let predicted = found["findings"]["predicted"].as_array().expect("a list");
    let least = predicted.iter().map(|one| one["ratio"].as_f64().expect("a number")).fold(f64::MAX, f64::min);
    let of = &found["strategy"];
    let chosen = predicted.iter().find(|one| one["strategy"] == *of).expect("one of those that were tried");
    assert!(chosen["ratio"].as_f64().unwrap() <= least * 1.01, "{said}");
    for strategy in ["las", "vicus", "vicus:memory=0", "shepherd"] {
        assert!(predicted.iter().any(|one| one["strategy"] == strategy), "{strategy}: {said}");
    }
    // By each trace alone, as `vicus simulate` predicts it with the same seeds.
    let las = predicted.iter().find(|one| one["strategy"] == "las").unwrap();
    let mut ms = ["1", "2", "3"].map(|seed| {
        let simulate = [
            "simulate",
            "--trace",
            text(&trace),
            "--machine",
            "node:2 core:2",
            "--strategy",
            "las",
            "--format",
            "json",
        ];
        let said = printed(&vicus(&[&simulate[..], &["--seed", seed]].concat(), &[]));
        serde_json::from_str::<serde_json::Value>(&said).expect("JSON")["rows"][0]["ms"].as_f64().expect("a time")
    });
    ms.sort_unstable_by(f64::total_cmp);
    assert_eq!(las["ms"][0].as_f64().unwrap(), ms[1]);
    assert_eq!(las["ms"][0], las["ms"][1]);
    let tasks = found["findings"]["tasks"].as_array().expect("a list");
    assert!(
        tasks.iter().any(|task| task["invocations"].as_u64() > Some(0) && task["queued_ms"].as_f64() > Some(0.0)),
        "{said}"
    );
}

#[test]
fn a_file_of_another_machine_or_cut_off_is_refused_with_its_place() {
    let trace = recorded("refused", &[]);
    let learned = path("refused.json");
    printed(&vicus(
        &["learn", text(&trace), "--machine", "node:8 core:3", "--strategy", "nls", "--output", text(&learned)],
        &[],
    ));
    let data = path("refused.nt");
    let refused = || {
        let output = vicus(&["query", "--data", text(&data), QUERY], &[("VICUS_LEARNED", learned.as_path())]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    let said = refused();
    assert!(
        said.contains("VICUS_LEARNED: ") && said.contains("refused.json: was learned on another machine"),
        "{said}"
    );
    let whole = std::fs::read_to_string(&learned).unwrap();
    std::fs::write(&learned, &whole[..whole.len() / 2]).unwrap();
    let said = refused();
    assert!(said.contains("refused.json: EOF while parsing") && said.contains("line "), "{said}");
    std::fs::remove_file(&learned).unwrap();
    assert!(refused().contains("refused.json: can't be read (No such file"));
    let error = |arguments: &[&str]| {
        let output = vicus(arguments, &[]);
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).expect("text")
    };
    assert!(error(&["learn", text(&data), "--output", text(&learned)]).contains("refused.nt: not a trace"));
    assert!(!learned.exists(), "nothing was learned");
    assert!(
        error(&["learn", text(&trace), "--output", "/nowhere/at/all"]).contains("/nowhere/at/all: can't be written")
    );
    // A pipe or a device is written to, and a link leads to the file.
    #[cfg(unix)]
    {
        let link = path("refused-link.json");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&learned, &link).unwrap();
        let last = ["--strategy", "las", "--seed", "18446744073709551615", "--output"];
        printed(&vicus(&[&["learn", text(&trace)], &last[..], &[text(&link)]].concat(), &[]));
        assert!(link.is_symlink() && learned.is_file());
        printed(&vicus(&[&["learn", text(&trace)], &last[..], &["/dev/null"]].concat(), &[]));
        assert!(!Path::new("/dev/null").is_file());
    }
    let few = ["learn", text(&trace), "--machine", "core:2", "--threads", "3"];
    assert!(error(&few).contains("--threads 3: ") && error(&few).contains("has 2 PUs"));
}

/// Writes a trace in the manner of an OpenMP program: one thread spawns sixteen tasks, twice, and each works for a
/// millisecond on a megabyte of its own, if they say so.
fn of_tasks(name: &str, says: bool) -> PathBuf {
    let mut log = EventLog::new(1000);
    let root = JobId::task(1, 0);
    let mut now = 0;
    let mut record = |after: u64, what: What| {
        now += after;
        log.record(now, what);
    };
    record(0, What::Enqueued { who: root, kind: TaskKind::Immediate, by: JobId::NONE });
    record(0, What::UserCodeBegins { who: root });
    for round in 0..2 {
        let tasks = (0..16).map(|at| (JobId::task(1, 1 + round * 16 + at), (1 << 30) + (u64::from(at) << 21)));
        for (who, address) in tasks.clone() {
            let ((high, low), (most, least)) = (What::halves(address), What::halves(1 << 20));
            if says {
                record(100, What::Follows { who, how: Use::ReadsAndWrites, high, low });
                record(0, What::UsesBytes { who, high: most, low: least });
            }
            record(100, What::Enqueued { who, kind: TaskKind::Deferred, by: root.index });
        }
        record(100, What::WaitBegins { who: root, awaits: Awaits::Children });
        for (who, _) in tasks {
            record(100, What::UserCodeBegins { who });
            record(0, What::Named { who, function: 0 });
            record(200_000, What::UserCodeEnds { who });
        }
        record(100, What::WaitEnds { who: root });
    }
    record(100, What::UserCodeEnds { who: root });
    let trace = Trace::new(Header::for_seats(1), vec![log.finish()]).with_functions(vec!["scale".to_owned()]);
    let arrays = if says { (0..16).map(|at| (1 << 30) + (at << 21)).collect() } else { Vec::new() };
    saved(name, &trace.with_arrays(arrays))
}

/// Writes a trace into a file.
fn saved(name: &str, trace: &Trace) -> PathBuf {
    let mut file = Vec::new();
    trace.write_to(&mut file).unwrap();
    let path = path(&format!("{name}.trace"));
    std::fs::write(&path, file).unwrap();
    path
}

/// Writes a trace of two types of tasks: 16 that work for a tenth of a millisecond on two megabytes of their own each,
/// and 40 that work for two milliseconds and read one table. It says how long the blocks are, or not.
fn of_two_types(name: &str, says_bytes: bool) -> PathBuf {
    let mut log = EventLog::new(2000);
    let root = JobId::task(1, 0);
    let mut now = 0;
    let mut record = |after: u64, what: What| {
        now += after;
        log.record(now, what);
    };
    record(0, What::Enqueued { who: root, kind: TaskKind::Immediate, by: JobId::NONE });
    record(0, What::UserCodeBegins { who: root });
    const TABLE: u64 = 1 << 40;
    let own = (0..16).map(|at| (0, (1 << 30) + (at << 22), 2 << 20, 300_000));
    let tasks: Vec<(u32, u64, u64, u64)> = own.chain((0..40).map(|_| (1, TABLE, 1 << 20, 2_000_000))).collect();
    let numbered = || tasks.iter().zip(1..).map(|(task, number)| (JobId::task(1, number), *task));
    for (who, (function, address, bytes, _)) in numbered() {
        let ((high, low), (most, least)) = (What::halves(address), What::halves(bytes));
        let how = if function == 0 { Use::ReadsAndWrites } else { Use::Reads };
        record(100, What::Follows { who, how, high, low });
        record(0, What::UsesBytes { who, high: most, low: least });
        record(100, What::Enqueued { who, kind: TaskKind::Deferred, by: root.index });
    }
    record(100, What::WaitBegins { who: root, awaits: Awaits::Children });
    for (who, (function, .., ns)) in numbered() {
        record(100, What::UserCodeBegins { who });
        record(0, What::Named { who, function });
        record(ns, What::UserCodeEnds { who });
    }
    record(100, What::WaitEnds { who: root });
    record(100, What::UserCodeEnds { who: root });
    let functions = vec!["scale".to_owned(), "look (main two.c:7)".to_owned()];
    let trace = Trace::new(Header::for_seats(1), vec![log.finish()]).with_functions(functions);
    let arrays = (0..16).map(|at| (1 << 30) + (at << 22)).chain([TABLE]).collect();
    let bytes = (0..16).map(|_| 2 << 20).chain([(4 << 20) + 32]).filter(|_| says_bytes).collect();
    saved(name, &trace.with_arrays(arrays).with_array_bytes(bytes))
}

/// What happened: a program had one strategy and one distribution; readers of one table went to its node, and the
/// threads of all others idled at the end.
#[test]
fn types_of_tasks_and_blocks_are_advised_where_it_pays() {
    let (trace, learned) = (of_two_types("types", true), path("types.json"));
    let learn = |distribution: &[&str]| {
        let arguments =
            ["learn", text(&trace), "--strategy", "footprint:share_bytes=65536", "--output", text(&learned)];
        let arguments = [&arguments[..], &["--machine", "node:4 core:2"], distribution].concat();
        let said = printed(&vicus(&arguments, &[]));
        let file: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&learned).unwrap()).unwrap();
        (said, file)
    };
    let ratio = |file: &serde_json::Value, part: &str, of: serde_json::Value, how: &str| {
        let tried = file["notes"]["parts"]["tried"].as_array().unwrap();
        let one = tried.iter().find(|one| one["part"][part] == of && one["how"] == how);
        one.and_then(|one| one["ratio"].as_f64()).unwrap_or_else(|| panic!("{part} {of} {how}: {file:#}"))
    };
    let (said, file) = learn(&["--distribution", "coarse"]);
    assert!(said.contains("learned: footprint:share_bytes=65536, distribution coarse\n"), "{said}");
    assert!(said.contains("learned: tasks of look undealt\n"), "{said}");
    assert_eq!(file["tasks"], serde_json::json!({ "look": "undealt", "scale": "dealt" }), "{said}");
    assert!(ratio(&file, "tasks", "look".into(), "undealt") < 0.95, "{said}");
    assert!(ratio(&file, "tasks", "scale".into(), "undealt") > 1.0, "{said}");
    // The table lies on all nodes, and the others each on one. Blocks have their allocated length, also if tasks name a
    // part of one.
    let (said, file) = learn(&[]);
    assert!(said.contains("learned: footprint:share_bytes=65536, distribution fine\n"), "{said}");
    assert!(said.contains("learned: blocks of 2097152 bytes coarse\n"), "{said}");
    assert_eq!(file["blocks"], serde_json::json!({ "2097152": "coarse" }), "{said}");
    for (bytes, others) in [(2 << 20, ["standard", "blocked"]), ((4 << 20) + 32, ["standard", "coarse"])] {
        for how in others {
            assert!(ratio(&file, "blocks", bytes.into(), how) > 0.99, "{said}");
        }
    }
}

/// What happened: of a trace that does not say how long the blocks are, the parts of them that tasks had named were
/// advised as sizes, and a run looks for a block of exactly that size.
#[test]
fn no_size_of_blocks_is_advised_that_no_allocation_has() {
    let (trace, learned) = (of_two_types("unsized", false), path("unsized.json"));
    let arguments = ["learn", text(&trace), "--strategy", "footprint:share_bytes=65536", "--output", text(&learned)];
    let said = printed(&vicus(&[&arguments[..], &["--machine", "node:4 core:2"]].concat(), &[]));
    assert!(!said.contains("learned: blocks of "), "{said}");
    let file: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&learned).unwrap()).unwrap();
    let tried = file["notes"]["parts"]["tried"].as_array().unwrap();
    assert!(tried.iter().all(|one| one["part"]["blocks"].is_null()), "{file:#}");
    assert!(tried.iter().any(|one| one["part"]["tasks"] == "look"), "{file:#}");
}

/// All arrays lie on the first thread's node if nothing is said; each on one node, the tasks of each node are near.
#[test]
fn distributions_are_advised_where_tasks_say_what_they_use() {
    let (trace, learned) = (of_tasks("advised", true), path("advised.json"));
    let learn = |more: &[&str]| {
        let arguments =
            [&["learn", text(&trace), "--strategy", "steal,footprint:share_bytes=65536"][..], more].concat();
        printed(&vicus(&arguments, &[]))
    };
    let machine = ["--machine", "node:4 core:2", "--output", text(&learned)];
    let said = learn(&machine);
    assert!(said.contains("learned: footprint:share_bytes=65536, distribution coarse\n"), "{said}");
    assert!(
        said.contains("16 arrays, each used by up to 2 tasks (blocks that the traces name): ")
            && said.contains(", Table 3, advise coarse\n"),
        "{said}"
    );
    let file: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&learned).unwrap()).unwrap();
    assert_eq!(file["distribution"], "coarse");
    let found: serde_json::Value =
        serde_json::from_str(&learn(&[&machine[..], &["--format", "json"]].concat())).unwrap();
    let predicted = found["findings"]["predicted"].as_array().unwrap();
    let ratio = |strategy: &str, distribution: &str| {
        let one = predicted.iter().find(|one| one["strategy"] == strategy && one["distribution"] == distribution);
        one.and_then(|one| one["ratio"].as_f64()).unwrap_or_else(|| panic!("{strategy}, {distribution}: {said}"))
    };
    assert_eq!(predicted.len(), 2 * 4);
    assert!(ratio("steal", "standard") > ratio("steal", "fine"), "one node's memory is slower than all: {said}");
    assert!(
        ratio("steal", "fine") > ratio("footprint:share_bytes=65536", "coarse"),
        "near is quicker than far: {said}"
    );
    let types = found["findings"]["types"].as_array().unwrap();
    assert_eq!((types.len(), &types[0]["name"], types[0]["tasks"].as_u64()), (1, &"scale".into(), Some(32)), "{said}");
    let with = types[0]["with"].as_array().unwrap();
    let near = |at: usize| with[at]["near_share"].as_f64().unwrap();
    assert_eq!((with.len(), &with[1]["distribution"], &types[0]["best"]), (4, &"coarse".into(), &"coarse".into()));
    assert!(near(1) > 0.9 && near(2) < 0.5, "coarse {}, fine {}", near(1), near(2));
    // If one is named, it is the one tried.
    let fine = learn(&[&machine[..], &["--distribution", "fine"]].concat());
    assert!(fine.contains(", distribution fine\n") && !fine.contains("coarse "), "{fine}");
    // Without a choice, the output says so.
    let alone = learn(&["--machine", "node:1 core:8", "--output", text(&learned)]);
    assert!(alone.contains("no distribution is advised: the machine has one node with memory"), "{alone}");
    let file = std::fs::read_to_string(&learned).unwrap();
    assert!(!file.contains("\"distribution\""), "{file}");
    let silent = of_tasks("silent", false);
    let said = printed(&vicus(&["learn", text(&silent), "--machine", "node:4 core:2"], &[]));
    assert!(said.contains("no distribution is advised: no task says which data it uses"), "{said}");
}
