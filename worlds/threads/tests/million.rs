//! A million lightweight threads, in a process of its own, whose memory is looked at.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use vicus_machine::MachineRuntime;
use vicus_threads::{Builder, CountThreads, full_empty};

const MILLION: usize = 1_000_000;
/// A stack takes a page when it is used, and the kernel's tables for it as much again.
const NEEDED_KIB: u64 = 9 << 20;

/// A line of one of `/proc`'s files, in KiB.
fn kib(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{file} has {name}"));
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Each waits for the word of the one before, and hands it to the next one: all wait when the first one goes on.
#[test]
#[cfg_attr(debug_assertions, ignore = "what the system has for a million threads; the optimised build has it")]
fn a_million_threads_wait_at_once_and_take_less_than_six_gib() {
    let free = kib("/proc/meminfo", "MemAvailable:");
    if free < NEEDED_KIB {
        println!("skipped: {free} KiB of memory are available, and {NEEDED_KIB} are needed");
        return;
    }
    let runtime: MachineRuntime = MachineRuntime::builder().threads(2).quiet().start();
    let words: Arc<[AtomicU64]> = (0..=MILLION).map(|_| AtomicU64::new(0)).collect();
    words.iter().for_each(|word| _ = full_empty::empty(word));
    let theirs = Arc::clone(&words);
    let all = Builder::new().spawn_on(&runtime, move || {
        let link = |number: usize| {
            let words = Arc::clone(&theirs);
            let pass = move || full_empty::write_ef(&words[number + 1], full_empty::read_fe(&words[number]) + 1);
            Builder::new().stack_size(4096).spawn(pass)
        };
        let links: Vec<_> = (0..MILLION).map(link).collect();
        links.into_iter().for_each(|link| link.join().unwrap());
    });
    let began = std::time::Instant::now();
    while runtime.lightweight_threads().1 < MILLION as u64 {
        let waiting = runtime.lightweight_threads().1;
        assert!(began.elapsed().as_secs() < 300, "{waiting} threads wait: there is no memory for stacks of the others");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    full_empty::write_ef(&words[0], 0);
    all.join().unwrap();
    assert_eq!(full_empty::read_ff(&words[MILLION]), MILLION as u64);
    words.iter().for_each(|word| _ = full_empty::fill(word));

    let peak = kib("/proc/self/status", "VmHWM:");
    assert!(peak <= 6 << 20, "{peak} KiB were resident");
}
