//! A runtime with too few threads reports it, and leaves nothing behind.

use std::process::Command;
use vicus_machine::MachineRuntime;
use vicus_memory::{Foreign, MemoryOptions, Series, WhenFull};
use vicus_topology::Topology;

/// Run by the other test with little address space; run directly, there is enough.
#[test]
fn it_starts_or_says_why_not() {
    match MachineRuntime::builder().threads(200).quiet().try_start() {
        Ok(runtime) => assert_eq!(runtime.plan().threads(), 200),
        Err(error) => {
            assert!(error.started < error.threads && error.threads == 200);
            println!("\n{error}");
        }
    }
    // The failed runtime's threads have ended: a few can be started again.
    let runtime = MachineRuntime::builder().threads(2).quiet().try_start().unwrap();
    assert_eq!(runtime.run(|| 42), 42);
}

#[test]
fn without_room_for_stacks_it_is_an_error() {
    let own = std::env::current_exe().unwrap();
    // 200 stacks of 16 MiB are 3.2 GB. What happened: the C library maps 128 MiB for the first allocation of each of
    // its arenas, a thread's allocation took the addresses of the next thread's stack, and the second start failed. One
    // arena is mapped once.
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 1500000 && exec \"$0\" --exact start::it_starts_or_says_why_not --nocapture"])
        .arg(own)
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains(" of 200 threads could be started: "), "{text}");
}

/// What happened: `vicinity:undealt=beside,reach=1` ran a program's tasks on one of two nodes, without a warning.
#[test]
fn options_that_idle_threads_are_warned_of() {
    let machine = Topology::parse("node:2 core:2").unwrap();
    let said = |strategy: &str| {
        let builder = MachineRuntime::builder().topology(machine.clone()).strategy(strategy.parse().unwrap());
        let mut said = builder.threads(4).quiet().start().warnings();
        said.retain(|warning| warning.contains("idle"));
        said
    };
    for strategy in vicus_schedule::ALL {
        assert_eq!(said(strategy.name()), Vec::<String>::new());
    }
    let said = said("vicinity:undealt=beside,reach=1");
    assert!(said.len() == 1 && said[0].contains("leave out options (`vicinity` alone leaves none idle)"), "{said:?}");
}

fn refused(builder: vicus_machine::RuntimeBuilder) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(builder.quiet().start()))).unwrap_err();
    panic.downcast_ref::<String>().cloned().unwrap_or_else(|| (*panic.downcast_ref::<&str>().unwrap()).to_owned())
}

#[test]
fn a_plan_that_strands_tasks_or_names_places_that_there_are_not_does_not_start() {
    let small = Topology::parse("node:1 core:2").unwrap();
    let large = Topology::parse("node:2 core:2").unwrap();
    for strategy in vicus_schedule::ALL {
        let builder = |machine: &Topology| {
            let setting = strategy.name().parse().unwrap();
            MachineRuntime::builder().topology(machine.clone()).strategy(setting).threads(4).quiet()
        };
        let plan = builder(&large).planned();
        // On its own machine it runs, regardless of the set strategy and threads.
        let runtime = builder(&large).threads(1).plan(plan.clone()).start();
        assert_eq!((runtime.plan(), runtime.run(|| 42)), (&plan, 42));
        let error = refused(builder(&small).plan(plan.clone()));
        assert!(error.contains("beyond the machine's"), "{}: {error}", strategy.name());
        let stranded = vicus_schedule::Plan { entry: Vec::new(), ..plan };
        let error = refused(builder(&large).plan(stranded));
        assert!(error.contains("callers without a seat have an entry queue"), "{}: {error}", strategy.name());
    }
}

/// The variants of Falt et al. §5: each runtime has its requested options, on described machines.
///
/// What happened: the described machine had two nodes, and on a machine of two nodes the runtime shared the process's
/// memory, so that the test compared nothing there. It has one node more than the machine now.
#[test]
fn a_memory_has_the_options_that_it_was_asked_for() {
    let nodes = vicus_machine::this_machine().topology.nodes.len() + 1;
    let machine = Topology::parse(&format!("node:{nodes} core:1")).unwrap();
    let builder = || MachineRuntime::builder().topology(machine.clone()).threads(2).quiet();
    let usual = builder().memory_options();
    let bins = MemoryOptions { foreign: Foreign::Bins, touch_ahead: true, superblock_bytes: 4 << 20, ..usual.clone() };
    let strict =
        MemoryOptions { when_full: WhenFull::Strict, series: Series { ratio: 1.5, ..usual.series }, ..usual.clone() };
    let alone = MachineRuntime::builder().threads(1).quiet().start();
    for options in [bins, strict] {
        let runtime = builder().memory(options.clone()).start();
        let memory = runtime.memory().expect("there are addresses");
        // As many addresses as the system gives.
        let has = MemoryOptions { range_bytes: options.range_bytes, ..memory.options().clone() };
        assert_eq!(has, options);
        // The process keeps its first runtime's memory.
        let late = MachineRuntime::builder().threads(1).quiet().memory(options).start();
        assert!(
            late.warnings().iter().any(|warning| warning.contains("has its memory already")),
            "{:?}",
            late.warnings()
        );
        assert_eq!(late.memory().unwrap().options(), alone.memory().unwrap().options());
    }
}
