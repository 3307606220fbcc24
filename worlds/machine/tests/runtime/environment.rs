//! A runtime that its program does not configure takes its settings from the environment. Each case is a process of its own.

use std::process::Command;
use vicus_machine::Runtime;
use vicus_topology::Topology;

/// Run by the other tests with an environment; by itself it is one more case.
#[test]
fn a_runtime_says_what_it_does() {
    let told = Runtime::builder().strategy("nls".parse().unwrap()).threads(2).quiet().start();
    assert_eq!(told.plan().strategy, "nls", "what the program says goes first");
    let runtime = Runtime::builder().threads(2).quiet().start();
    assert_eq!(runtime.run(|| 42), 42);
    println!("\nstrategy {}", runtime.plan().strategy);
    runtime.warnings().iter().for_each(|warning| println!("\nwarning {warning}"));
    let described = Topology::parse("node:2 l3:2 core:2").unwrap();
    let vicinity = Runtime::builder().topology(described).strategy("vicinity".parse().unwrap()).quiet().start();
    assert!(
        vicinity.warnings().iter().all(|warning| !warning.contains("latenc")),
        "a described machine is not measured"
    );
}

/// What it printed with these variables.
fn with(variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "environment::a_runtime_says_what_it_does", "--nocapture"]).env_remove("VICUS_STRATEGY");
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn vicus_strategy_chooses_for_a_program_that_does_not() {
    assert!(with(&[]).contains("\nstrategy las\n"));
    let empty = with(&[("VICUS_STRATEGY", "")]);
    assert!(empty.contains("\nstrategy las\n") && !empty.contains("VICUS_STRATEGY"), "{empty}");
    for strategy in vicus_schedule::ALL.map(|strategy| strategy.name()) {
        assert!(with(&[("VICUS_STRATEGY", strategy)]).contains(&format!("\nstrategy {strategy}\n")));
    }
    let text = with(&[("VICUS_STRATEGY", "footprint:backoff_ns=500")]);
    assert!(text.contains("\nstrategy footprint:backoff_ns=500\n") && !text.contains("VICUS_STRATEGY"), "{text}");
}

#[test]
fn a_wrong_vicus_strategy_is_a_warning_that_says_what_there_is() {
    for (value, expected) in [
        ("fastest", "no strategy `fastest`; there are las, nls, bobox, steal, footprint, vicinity, locality-queues"),
        ("footprint:pauses=3", "has no parameter `pauses`; it has share_bytes, even, distance, spares, backoff_ns"),
        ("steal:spin_ns=-1", "`spin_ns=-1`: expected a whole number"),
        ("las,nls", "`las,nls` is a list of 2 strategies, and one alone is expected here"),
    ] {
        let text = with(&[("VICUS_STRATEGY", value)]);
        assert!(text.contains("\nstrategy las\n"), "{text}");
        assert!(text.contains("\nwarning VICUS_STRATEGY: ") && text.contains(expected), "{text}");
    }
}

#[test]
fn vicinity_starts_whatever_its_file_of_latencies_is() {
    let file = std::env::temp_dir().join(format!("vicus-environment-{}.json", std::process::id()));
    for broken in ["", "no json", "/"] {
        std::fs::write(&file, broken).unwrap();
        let text = with(&[("VICUS_STRATEGY", "vicinity"), ("VICUS_LATENCY_FILE", file.to_str().unwrap())]);
        assert!(text.contains("\nstrategy vicinity\n"), "{text}");
    }
    let _ = std::fs::remove_file(&file);
}
