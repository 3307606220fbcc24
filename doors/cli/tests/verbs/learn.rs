//! `vicus learn`, and runs that use what it found out, from outside.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const DATA: &str = "<http://e/a> <http://e/p> <http://e/b> .\n<http://e/b> <http://e/p> <http://e/c> .\n";
const QUERY: &str = "SELECT ?x WHERE { ?x <http://e/p> ?y . ?y <http://e/p> ?z }";

/// A file of this name, in the folder that Cargo keeps for these tests.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
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

/// Records the query with one thread, under the strategy that is in use, and returns its trace.
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
    // What is no plain file is written to, and a link leads to the file.
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
