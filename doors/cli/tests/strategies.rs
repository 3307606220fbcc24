//! `vicus strategies`, run as a user runs it.

use std::process::{Command, Output};

fn vicus(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vicus")).arg("strategies").args(arguments).output().unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = vicus(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_strategy_stands_there_with_its_paper_and_parameters() {
    let text = stdout(&[]);
    let names: Vec<&str> =
        text.lines().filter(|line| !line.starts_with(' ')).filter_map(|line| line.split(' ').next()).collect();
    let all = ["las", "nls", "bobox", "steal", "footprint", "vicinity", "locality-queues", "central", "shepherd"];
    assert_eq!(names, all);
    assert!(text.contains("Falt et al., §4\n  pin=auto (default) or group or pu: "), "{text}");
    for parameter in [
        "spin_ns=2000",
        "several=4",
        "share_bytes=0",
        "even=stays (default) or dealt",
        "distance=rank (default) or value",
        "backoff_ns=1000",
        "backoff_factor=2",
        "backoff_max_ns=1000000",
        "reach=16",
        "intensity=off or on (default)",
        "coarse=off or on (default)",
        "private_bytes=0",
        "capacity=256",
    ] {
        assert!(text.contains(&format!("\n  {parameter}: ")), "{parameter}: {text}");
    }
}

#[test]
fn machines_are_known_by_name() {
    let plan = stdout(&["--plan", "footprint", "--machine", "48amd64-4pa2n6c-sparse"]);
    // Four packages of two nodes of six cores.
    assert_eq!(plan.lines().filter(|line| line.starts_with('q')).count(), 8, "{plan}");
    assert!(plan.contains("seat47: "), "{plan}");
}

#[test]
fn a_plan_is_that_of_the_machine_and_the_threads() {
    let text = stdout(&["--plan", "las:pin=pu", "--machine", "node:2 l3:1 core:3", "--threads", "4"]);
    assert!(text.contains("\nstrategy las:pin=pu\n"), "{text}");
    assert_eq!(
        text.lines().filter(|line| line.contains(" deferred of ") && line.starts_with('q')).count(),
        2,
        "{text}"
    );
    assert!(text.contains("data on node1: to deferred of pool1"), "{text}");
    assert!(!stdout(&["--plan", "nls"]).is_empty());
}

#[test]
fn what_there_is_not_is_named() {
    for (arguments, expected) in [
        (&["--plan", "lsa"][..], "las, nls, bobox"),
        (&["--plan", "las:pins=1"], "it has pin, spares"),
        (&["--plan", "las", "--machine", "node:0"], "node:0"),
        (&["--plan", "las", "--machine", "no-such-machine"], "16amd64-8n2c, "),
        (&["--plan", "las", "--threads", "0"], "0"),
        (&["--machine", "node:2"], "--plan"),
    ] {
        let output = vicus(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(expected), "{arguments:?}: {error}");
    }
}
