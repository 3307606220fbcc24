//! `vicus strategies`, run as a user runs it.

use std::process::{Command, Output};
use vicus_schedule::ALL;

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
    let (strategies, defaults) = text.split_once("\n\n").unwrap();
    assert!(defaults.starts_with("vicus is the default of tasks (OpenMP, C, C++, Rust): "), "{defaults}");
    assert!(defaults.contains("las is the default of queries"), "{defaults}");
    let names: Vec<&str> =
        strategies.lines().filter(|line| !line.starts_with(' ')).filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ALL.map(|strategy| strategy.name()));
    assert!(text.contains("Falt et al., §4\n  pin=auto (default) or group or pu or off: "), "{text}");
    for parameter in [
        "spin_ns=10000",
        "several=4",
        "share_bytes=0",
        "even=stays (default) or dealt",
        "distance=rank (default) or value",
        "backoff_ns=1000",
        "backoff_factor=2",
        "backoff_max_ns=1000000",
        "reach=8",
        "intensity=off or on (default)",
        "coarse=off or on (default)",
        "private_bytes=0",
        "capacity=256",
        "deal_bytes=0",
        "memory=50",
        "crowd=50",
        "fan=8",
        "warm=80",
        "spread=10",
        "stretches=8",
        "spill=off or on (default)",
        "pin=off or pu (default)",
        "pin=off or auto (default)",
        "undealt=beside or apart (default)",
        "ties=first or turn (default)",
    ] {
        assert!(text.contains(&format!("\n  {parameter}: ")), "{parameter}: {text}");
    }
}

/// `./dev test numa` asks the kernel for the same under each strategy: tools/numa-doors.
#[test]
fn a_strategy_says_whether_the_threads_of_an_openmp_program_are_bound() {
    let text = stdout(&[]);
    let (mut name, mut bound, mut free) = ("", Vec::new(), Vec::new());
    for line in text.lines() {
        if !line.starts_with(' ') {
            name = line.split(' ').next().unwrap();
        } else if line.starts_with("  OpenMP's threads on several nodes: each bound") {
            bound.push(name);
        } else if line.starts_with("  OpenMP's threads on several nodes: bound nowhere") {
            free.push(name);
        }
    }
    bound.sort_unstable();
    free.sort_unstable();
    assert_eq!(bound, ["footprint", "las", "locality-queues", "shepherd", "vicinity", "vicus"]);
    assert_eq!(free, ["bobox", "central", "nls", "steal"]);
}

#[test]
fn machines_are_known_by_name() {
    let plan = stdout(&["--each", "--plan", "footprint", "--machine", "48amd64-4pa2n6c-sparse"]);
    // Four packages of two nodes of six cores.
    let queues = |of: &str| plan.lines().filter(|line| line.starts_with('q') && line.contains(of)).count();
    assert_eq!((queues(" tasks of node"), queues(" undealt tasks of node")), (16, 8), "dealt ones apart: {plan}");
    assert!(plan.contains("seat47: "), "{plan}");
    // Those of a node do the same, and are told of together; so are its spare ones.
    let folded = stdout(&["--plan", "footprint", "--machine", "48amd64-4pa2n6c-sparse"]);
    let blocks = |plan: &str| plan.lines().filter(|line| line.starts_with("seat")).count();
    assert!(blocks(&folded) <= 16 && blocks(&plan) >= 48, "{folded}");
    assert!(folded.len() * 3 < plan.len(), "{} of {} bytes: {folded}", folded.len(), plan.len());
}

#[test]
fn a_plan_for_many_seats_is_a_page_or_two() {
    // Each of 63 seats, and as many spare ones, looks for work in an order of its own, where its tile lies.
    let plan = stdout(&["--plan", "vicinity", "--machine", "tilepro64"]);
    assert!(plan.len() < 4096, "{} bytes: {plan}", plan.len());
    assert!(plan.contains("\nseat0: pu0 on node0, pool0, affinity its own\n"), "{plan}");
    assert!(
        plan.contains("\nseat1 to seat62: pu1 to pu62 on node0, pool1 to pool62; likewise, each in its own order\n"),
        "{plan}"
    );
    for strategy in ALL {
        for machine in ["tilepro64", "opteron-6172"] {
            let plan = stdout(&["--plan", strategy.name(), "--machine", machine]);
            assert!(plan.len() < 16_384, "{} on {machine}: {} bytes: {plan}", strategy.name(), plan.len());
        }
    }
}

#[test]
fn simulated_machines_have_their_own_latencies() {
    let plan = stdout(&["--plan", "vicinity", "--machine", "tilepro64", "--each"]);
    assert!(plan.starts_with("on tilepro64\n"), "{plan}");
    // Muddukrishna et al. 2015, §2: 63 workers, and other tiles' caches are four to six times as far as the own one.
    let is_worker = |line: &&str| line.starts_with("seat") && !line.contains("(spare)");
    assert_eq!(plan.lines().filter(is_worker).count(), 63, "{plan}");
    let row = plan.lines().find(|line| line.starts_with("  location0: ")).expect("dealing stands there");
    let costs = row.split(['[', ']']).nth(1).expect("costs").split(", ").map(|cost| cost.parse().expect("a number"));
    let costs: Vec<f64> = costs.collect();
    assert!(costs[1..].iter().all(|cost| (4.0..=6.0).contains(&(cost / costs[0]))), "{row}");
    let file = std::env::temp_dir().join(format!("vicus-strategies-{}.toml", std::process::id()));
    let text = include_str!("../../../../worlds/sim/machines/core-i7-860.toml").replace("\"core-i7-860\"", "\"mine\"");
    std::fs::write(&file, text).unwrap();
    let plan = stdout(&["--each", "--plan", "nls", "--machine", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    // Four cores of two threads.
    assert_eq!(plan.lines().filter(|line| line.starts_with("seat") && !line.contains("(spare)")).count(), 8, "{plan}");
    assert!(plan.starts_with("on mine\n"), "{plan}");
}

#[test]
fn on_this_machine_a_plan_is_the_runtimes() {
    for strategy in ["vicinity", "las"] {
        let setting: vicus::Setting = strategy.parse().unwrap();
        let runtime = vicus::Runtime::builder().strategy(setting).quiet().start();
        let shown = stdout(&["--plan", strategy, "--each"]);
        assert_eq!(shown.split_once('\n').expect("the machine's name").1, runtime.plan().to_string());
    }
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
fn unknown_strategies_and_parameters_are_named() {
    for (arguments, expected) in [
        (&["--plan", "lsa"][..], "las, nls, bobox"),
        (&["--plan", "las:pins=1"], "it has pin, spares"),
        (&["--plan", "las", "--machine", "node:0"], "node:0"),
        (&["--plan", "las", "--machine", "no-such-machine"], "16amd64-8n2c, "),
        (&["--plan", "las", "--threads", "0"], "0"),
        (&["--machine", "node:2"], "--plan"),
        (&["--plan", "las", "--machine", "no-such-machine"], "opteron-6172, tilepro64"),
        (&["--plan", "las", "--machine", "no-such-machine.toml"], "can't be read"),
        (&["--plan", "las", "--machine", "tilepro64", "--threads", "60000"], "at most 1024 threads"),
        (&["--plan", "las", "--threads", "60000"], "--threads 60000: at most "),
        (&["--plan", "las,nls"], "`las,nls` is a list of 2 strategies, and one alone is expected here"),
        (&["--plan", "bobox:several=0"], "expected a whole number from 1 to 65535"),
        (&["--plan", "vicinity:reach=5"], "expected one of 0, 1, 4, 8, 16"),
    ] {
        let output = vicus(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(expected), "{arguments:?}: {error}");
    }
}
