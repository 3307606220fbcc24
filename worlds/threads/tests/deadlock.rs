//! Threads that wait for one another, in a process of its own, with its standard error read.

use std::process::{Command, Output};
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use vicus_machine::{MachineRuntime, RuntimeBuilder};
use vicus_schedule::ALL;
use vicus_threads::{self as threads, Builder, OnDeadlock, StartSitting, full_empty};

/// The child's role: its case, and the strategy.
const ROLE: &str = "VICUS_TEST_DEADLOCK";

fn run(role: &str) -> Output {
    let exe = std::env::current_exe().unwrap();
    let mut child = Command::new(exe);
    child.args(["--exact", "the_child", "--nocapture", "--test-threads=1"]).env(ROLE, role);
    child.env("RUST_BACKTRACE", "0").output().unwrap()
}

/// The child's report of the deadlock.
fn said_by(role: &str) -> String {
    let output = run(role);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{role}: {said}");
    said
}

static WORD: AtomicU64 = AtomicU64::new(0);

/// Fills the word after the report.
fn fill_later() -> std::thread::JoinHandle<()> {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(5000));
        full_empty::fill(&WORD);
    })
}

#[inline(never)]
fn where_the_child_waits() -> u64 {
    std::hint::black_box(full_empty::read_ff(&WORD))
}

/// Does nothing unless it is the child.
#[test]
fn the_child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (role, strategy) = role.split_once(' ').unwrap_or((&role, "las"));
    let builder: RuntimeBuilder = MachineRuntime::builder().threads(2).strategy(strategy.parse().unwrap()).quiet();
    full_empty::empty(&WORD);
    let named = |runtime: &MachineRuntime, count: usize| -> Vec<_> {
        let one = |number| Builder::new().name(format!("waits {number}")).spawn_on(runtime, where_the_child_waits);
        (0..count).map(one).collect()
    };
    match role {
        "threads" => {
            let runtime = builder.start();
            let threads = named(&runtime, 23);
            fill_later().join().unwrap();
            threads.into_iter().for_each(|thread| _ = thread.join().unwrap());
        }
        "backtraces" => {
            let runtime = builder.wait_backtraces().start();
            let threads = named(&runtime, 1);
            fill_later().join().unwrap();
            threads.into_iter().for_each(|thread| _ = thread.join().unwrap());
        }
        "main" => {
            let sitting = builder.start_sitting().unwrap();
            let fills = fill_later();
            full_empty::read_fe(&WORD);
            fills.join().unwrap();
            assert!(sitting.end());
        }
        "task" => {
            let runtime = builder.start();
            let fills = fill_later();
            runtime.run(|| full_empty::read_fe(&WORD));
            fills.join().unwrap();
        }
        "starved" => {
            threads::limit_stacks(8 * (64 << 10));
            let runtime = builder.start();
            let threads = named(&runtime, 30);
            fill_later().join().unwrap();
            threads.into_iter().for_each(|thread| _ = thread.join().unwrap());
        }
        "outside" => {
            // A thread of the system ends each wait, at first soon, and then late. This is no deadlock.
            let sitting = builder.deadlock(OnDeadlock::Abort).start_sitting().unwrap();
            let fills = std::thread::spawn(|| {
                for ms in [100, 2500, 2500] {
                    std::thread::sleep(Duration::from_millis(ms));
                    full_empty::write_ef(&WORD, ms);
                }
            });
            assert_eq!([(); 3].map(|()| full_empty::read_fe(&WORD)), [100, 2500, 2500]);
            fills.join().unwrap();
            assert!(sitting.end());
        }
        "abort" => {
            let runtime = builder.deadlock(OnDeadlock::Abort).start();
            named(&runtime, 1).into_iter().for_each(|thread| _ = thread.join());
        }
        "ignore" => {
            let runtime = builder.deadlock(OnDeadlock::Ignore).start();
            let threads = named(&runtime, 1);
            fill_later().join().unwrap();
            threads.into_iter().for_each(|thread| _ = thread.join().unwrap());
        }
        other => panic!("no such role: {other}"),
    }
}

#[test]
fn a_deadlock_says_who_waits_for_what_since_where() {
    let said = said_by("threads");
    let head =
        "vicus: a deadlock: nothing runs, and 23 threads wait for full/empty bits. Unless a thread of the system";
    assert_eq!(said.matches(head).count(), 1, "{said}");
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("  lightweight thread ")).collect();
    assert_eq!(lines.len(), 20, "{said}");
    for line in lines {
        assert!(line.contains(" 'waits ") && line.contains("deadlock.rs:"), "{line}");
        assert!(
            line.contains(": read_ff ") && line.contains("of the word at 0x") && line.ends_with(", which is empty"),
            "{line}"
        );
    }
    assert!(said.contains("\n  and 3 more"), "{said}");
}

#[test]
fn a_deadlock_has_backtraces_if_they_are_wanted() {
    let said = said_by("backtraces");
    assert!(said.contains("a deadlock") && said.contains("where_the_child_waits"), "{said}");
}

#[test]
fn a_main_thread_that_waits_for_ever_is_named() {
    // At once: they mostly sleep.
    std::thread::scope(|scope| {
        let run = |name| (name, scope.spawn(move || said_by(&format!("main {name}"))));
        for (name, child) in ALL.map(|strategy| run(strategy.name())) {
            let said = child.join().unwrap();
            assert!(said.contains("a deadlock: nothing runs, and one thread waits"), "{name}: {said}");
            assert!(said.contains("  the main thread, on seat 0: read_fe of the word"), "{name}: {said}");
        }
    });
}

#[test]
fn a_task_that_waits_for_ever_is_named() {
    let said = said_by("task");
    assert!(said.contains("  a task on the stack of the thread of seat "), "{said}");
}

#[test]
fn threads_without_stacks_are_counted() {
    let said = said_by("starved");
    assert!(said.contains("22 lightweight threads have not begun, since there is no stack for them"), "{said}");
}

#[test]
fn a_runtime_whose_words_others_fill_is_not_aborted_and_says_so_once() {
    let said = said_by("outside");
    assert_eq!(said.matches("a deadlock:").count(), 1, "{said}");
    assert!(said.contains("Unless a thread of the system"), "{said}");
}

#[test]
fn a_deadlock_aborts_or_is_ignored() {
    use std::os::unix::process::ExitStatusExt as _;
    let output = run("abort");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(6), "{said}");
    assert!(said.contains("The process is aborted.") && said.contains("'waits 0'"), "{said}");
    assert!(!said_by("ignore").contains("deadlock:"));
}
