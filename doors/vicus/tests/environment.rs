//! A runtime without settings of its program takes them from the environment. Each case is a process of its own.

use std::path::PathBuf;
use std::process::Command;
use vicus::environment::Defaults;
use vicus::kit::{LatencyFile, Learned, Treatment};
use vicus::memory::{Distribution, node_of};
use vicus::{Runtime, Topology, environment, tasks, this_machine};

#[global_allocator]
static ALLOCATOR: vicus::Allocator = vicus::Allocator::new();

/// Run by the other tests with an environment; by itself it is one more case.
#[test]
fn a_runtime_says_what_it_does() {
    // First, so that it installs the memory, and has all warnings.
    let described = environment::defaults();
    assert_eq!(tasks::join(|| 1, || 2), (1, 2));
    let global = Runtime::global();
    println!("\nglobal {}", global.plan().strategy);
    global.warnings().iter().for_each(|warning| println!("\nwarning {warning}"));
    // The program's settings go first; the environment's are not looked at then.
    let said = Runtime::builder().strategy("nls".parse().unwrap()).threads(2).quiet().start();
    assert_eq!(said.plan().strategy, "nls");
    assert!(said.warnings().iter().all(|warning| !warning.contains("VICUS_STRATEGY:")), "{:?}", said.warnings());
    let runtime = Runtime::builder().threads(2).quiet().start();
    println!("\nstrategy {}", runtime.plan().strategy);
    let sum = || tasks::scope(|_| tasks::map_reduce(0..100, |n| n, |a, b| a + b));
    assert_eq!((sum(), runtime.run(sum)), (Some(4950), Some(4950)));
    if let Some(memory) = runtime.memory() {
        println!("\ndistribution {}", memory.options().distribution);
        assert_eq!(Runtime::builder().memory_options().distribution, memory.options().distribution);
    }
    let large = vec![1u8; 100_000];
    println!("\nallocator {}", if node_of(large.as_ptr()).is_some() { "vicus" } else { "system" });
    println!("\ndecay {:?}", described.decay_ms);
    println!("\nlatencies {:?}", described.latencies);
    println!("\nseed {:?}", environment::hash_seed());
    println!("\nblocks {:?}", environment::distributions_of());
    println!("\ntasks {:?}", environment::learned_tasks().map(|(_, tasks)| tasks));
    let machine = Topology::parse("node:2 l3:2 core:2").unwrap();
    let vicinity = Runtime::builder().topology(machine).strategy("vicinity".parse().unwrap()).quiet().start();
    let is_measured = vicinity.warnings().iter().any(|warning| warning.contains("latenc"));
    assert!(!is_measured, "a described machine is not measured");
}

const ALL: [&str; 11] = [
    "VICUS_STRATEGY",
    "VICUS_LEARNED",
    "VICUS_DATA_DISTRIBUTION",
    "VICUS_DATA_DISTRIBUTION_OF",
    "OMP_DATA_DISTRIBUTION",
    "VICUS_ALLOCATOR",
    "VICUS_DECAY_MS",
    "VICUS_LATENCY_FILE",
    "VICUS_HASH_SEED",
    "XDG_CACHE_HOME",
    "HOME",
];

/// The output with these variables.
fn with(variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_runtime_says_what_it_does", "--nocapture"]);
    ALL.iter().for_each(|name| _ = command.env_remove(name));
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{variables:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// With a wrong value of a variable, `line` and a warning of these words.
fn refused(variable: (&str, &str), line: &str, expected: &str) {
    let text = with(&[variable]);
    assert!(text.contains(&format!("\n{line}\n")), "{variable:?}: {text}");
    let warning = text.lines().find_map(|line| line.strip_prefix("warning ").filter(|text| text.contains(variable.0)));
    assert!(warning.is_some_and(|warning| warning.contains(expected)), "{variable:?}: {text}");
}

#[test]
fn names_with_a_slip_are_warned_of() {
    let text = with(&[("VICUS_STRATEGIE", "nls"), ("VICUS_DECAY", "5"), ("VICUS_ROOT", "/opt"), ("VICUS_TOKENS", "")]);
    let warnings: Vec<&str> = text.lines().filter(|line| line.starts_with("warning VICUS_")).collect();
    assert_eq!(warnings, ["warning VICUS_STRATEGIE does nothing; did you mean VICUS_STRATEGY?"], "{text}");
}

#[test]
fn without_variables_there_are_defaults_and_no_warnings() {
    let text = with(&[]);
    for line in ["global vicus", "strategy vicus", "distribution standard", "allocator vicus", "decay None"] {
        assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
    }
    let empty = with(&ALL.map(|name| (name, "")));
    assert!(empty.contains("\nstrategy vicus\n") && empty.contains("\nlatencies None\n"), "{empty}");
    assert!(ALL.iter().all(|name| !text.contains(name) && !empty.contains(name)), "{text}{empty}");
}

/// The file of `VICUS_LEARNED` applies to settings without another name.
#[test]
fn what_was_learned_is_what_is_not_named() {
    let file = std::env::temp_dir().join(format!("vicus-environment-{}.json", std::process::id()));
    let (setting, distribution) = ("nls".parse().unwrap(), Some(Distribution::Coarse));
    let (tasks, blocks) = ([("f".to_owned(), Treatment::Undealt)].into(), vec![(4096, Distribution::Fine)]);
    let learned = Learned { setting, distribution, tasks, blocks, notes: Default::default() };
    let machine = this_machine().topology;
    learned.write(&file, &machine).unwrap();
    let learned_there = ("VICUS_LEARNED", file.to_str().unwrap());
    let says = |variables: &[(&str, &str)], strategy: &str, distribution: &str| {
        let text = with(variables);
        for line in [format!("strategy {strategy}"), format!("distribution {distribution}")] {
            assert!(text.contains(&format!("\n{line}\n")), "{variables:?}: {line}: {text}");
        }
        text
    };
    says(&[learned_there], "nls", "coarse");
    says(&[learned_there, ("VICUS_STRATEGY", "steal")], "steal", "coarse");
    says(&[learned_there, ("VICUS_DATA_DISTRIBUTION", "fine")], "nls", "fine");
    says(&[learned_there, ("OMP_DATA_DISTRIBUTION", "blocked")], "nls", "blocked");
    // Parts of the program as well: blocks if nothing else sets a distribution, and tasks in any case.
    let (blocks, tasks) = ("\nblocks Some(Ok([(4096, Fine)]))\n", "\ntasks Some({\"f\": Undealt})\n");
    for (also, are_blocks_there) in [
        (("VICUS_STRATEGY", "steal"), true),
        (("VICUS_DATA_DISTRIBUTION", "fine"), false),
        (("OMP_DATA_DISTRIBUTION", "standard"), false),
        (("VICUS_DATA_DISTRIBUTION_OF", "8192=coarse"), false),
    ] {
        let text = with(&[learned_there, also]);
        assert!(text.contains(tasks) && text.contains(blocks) == are_blocks_there, "{also:?}: {text}");
    }
    assert!(with(&[]).contains("\nblocks None\n\ntasks None\n"));
    // Files written before distributions were learned.
    let (tasks, blocks) = Default::default();
    Learned { distribution: None, tasks, blocks, ..learned }.write(&file, &machine).unwrap();
    says(&[learned_there], "nls", "standard");
    // The fault in a file is reported once, also if a strategy is named.
    std::fs::write(&file, "{").unwrap();
    for variables in [&[learned_there][..], &[learned_there, ("VICUS_STRATEGY", "steal")]] {
        let text = with(variables);
        let global = text.split("\nstrategy ").next().unwrap();
        assert_eq!(global.matches("\nwarning VICUS_LEARNED").count(), 1, "{text}");
    }
    std::fs::remove_file(&file).unwrap();
}

/// Programs that load data ask for it; a runtime has no such setting, and does not warn.
#[test]
fn the_seed_of_hashes_is_a_number_or_an_error() {
    let seed = |value| {
        let text = with(&[("VICUS_HASH_SEED", value)]);
        assert!(!text.contains("\nwarning VICUS_HASH_SEED"), "{text}");
        text.lines().find_map(|line| line.strip_prefix("seed ")).expect("it is printed").to_owned()
    };
    assert_eq!(seed(""), "None");
    assert_eq!(seed("18446744073709551615"), "Some(Ok(18446744073709551615))");
    for wrong in ["seven", "-1", "18446744073709551616"] {
        assert!(seed(wrong).starts_with("Some(Err(\"VICUS_HASH_SEED: expected a whole number"), "{wrong}");
    }
}

/// The global runtime as well, which starts by itself.
#[test]
fn vicus_strategy_chooses_for_a_program_that_does_not() {
    for strategy in vicus::STRATEGIES.map(|strategy| strategy.name()) {
        let text = with(&[("VICUS_STRATEGY", strategy)]);
        let is_chosen = |runtime: &str| text.contains(&format!("\n{runtime} {strategy}\n"));
        assert!(is_chosen("strategy") && is_chosen("global"), "{strategy}: {text}");
    }
    let text = with(&[("VICUS_STRATEGY", "footprint:backoff_ns=500")]);
    assert!(text.contains("\nstrategy footprint:backoff_ns=500\n") && !text.contains("VICUS_STRATEGY"), "{text}");
}

#[test]
fn a_wrong_vicus_strategy_is_a_warning_that_says_what_there_is() {
    for (value, expected) in [
        ("fastest", "no strategy `fastest`; there are las, nls, bobox, steal, footprint, vicinity, locality-queues"),
        (
            "footprint:pauses=3",
            "has no parameter `pauses`; it has share_bytes, even, distance, undealt, ties, pin, spares, backoff_ns",
        ),
        ("steal:spin_ns=-1", "`spin_ns=-1`: expected a whole number"),
        ("las,nls", "`las,nls` is a list of 2 strategies, and one alone is expected here"),
    ] {
        refused(("VICUS_STRATEGY", value), "strategy vicus", expected);
        refused(("VICUS_STRATEGY", value), "global vicus", "; it is vicus now");
    }
}

#[test]
fn memory_lies_as_either_variable_says_and_ours_goes_first() {
    let lies = |variables: &[(&str, &str)], expected: Distribution| {
        let text = with(variables);
        assert!(text.contains(&format!("\ndistribution {expected}\n")), "{variables:?}: {text}");
    };
    lies(&[("OMP_DATA_DISTRIBUTION", "fine")], Distribution::Fine);
    lies(&[("VICUS_DATA_DISTRIBUTION", "coarse")], Distribution::Coarse);
    lies(&[("VICUS_DATA_DISTRIBUTION", "blocked"), ("OMP_DATA_DISTRIBUTION", "fine")], Distribution::Blocked);
    lies(&[("VICUS_DATA_DISTRIBUTION", ""), ("OMP_DATA_DISTRIBUTION", "fine")], Distribution::Fine);
    for name in ["VICUS_DATA_DISTRIBUTION", "OMP_DATA_DISTRIBUTION"] {
        let instead = "; memory without a distribution of its own lies as the machine does it";
        refused((name, "most"), "distribution standard", instead);
        refused((name, "most"), "distribution standard", &format!("{name}: no distribution"));
    }
}

#[test]
fn the_allocator_serves_only_small_blocks_if_it_is_told_to() {
    assert!(with(&[("VICUS_ALLOCATOR", "system")]).contains("\nallocator system\n"));
    let chosen = with(&[("VICUS_ALLOCATOR", "vicus")]);
    assert!(chosen.contains("\nallocator vicus\n") && !chosen.contains("VICUS_ALLOCATOR"), "{chosen}");
    let expected = "VICUS_ALLOCATOR: there is no `mimalloc`, only `vicus`, the default, and `system`";
    refused(("VICUS_ALLOCATOR", "mimalloc"), "allocator vicus", expected);
}

#[test]
fn freed_memory_waits_as_long_as_it_is_told_to() {
    let quick = with(&[("VICUS_DECAY_MS", "250")]);
    assert!(quick.contains("\ndecay Some(Ok(250))\n") && !quick.contains("VICUS_DECAY_MS"), "{quick}");
    let expected = "VICUS_DECAY_MS: expected a number of milliseconds; it stays at 10000";
    for wrong in ["soon", "-1", "0.5"] {
        refused(("VICUS_DECAY_MS", wrong), "strategy vicus", expected);
    }
}

#[test]
fn latencies_are_kept_where_they_are_told_to_be_or_in_the_cache_folder() {
    let kept = |variables: &[(&str, &str)]| {
        let text = with(variables);
        text.lines().find_map(|line| line.strip_prefix("latencies ").map(str::to_owned)).expect("it prints that")
    };
    let at = |path: &str| format!("{:?}", Some(LatencyFile::At(PathBuf::from(path))));
    let inside = |path: &str| format!("{:?}", Some(LatencyFile::In(PathBuf::from(path))));
    assert_eq!(kept(&[]), format!("{:?}", Defaults::default().latencies));
    assert_eq!(kept(&[("HOME", "/home/a")]), inside("/home/a/.cache/vicus"));
    assert_eq!(kept(&[("HOME", "/home/a"), ("XDG_CACHE_HOME", "/cache")]), inside("/cache/vicus"));
    assert_eq!(kept(&[("VICUS_LATENCY_FILE", "a.json"), ("XDG_CACHE_HOME", "/cache")]), at("a.json"));
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
