//! A runtime that gets no more threads says so, and leaves nothing behind.

use std::process::Command;
use vicus_machine::Runtime;

/// Run by the other test with little address space; by itself there is enough.
#[test]
fn it_starts_or_says_why_not() {
    match Runtime::builder().threads(200).quiet().try_start() {
        Ok(runtime) => assert_eq!(runtime.plan().threads(), 200),
        Err(error) => {
            assert!(error.started < error.threads && error.threads == 200);
            println!("\n{error}");
        }
    }
    // What there was has ended: some threads can be had again.
    let runtime = Runtime::builder().threads(2).quiet().try_start().unwrap();
    assert_eq!(runtime.run(|| 42), 42);
}

#[test]
fn without_room_for_stacks_it_is_an_error() {
    let own = std::env::current_exe().unwrap();
    // 200 stacks of 16 MiB are 3.2 GB.
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 1500000 && exec \"$0\" --exact it_starts_or_says_why_not --nocapture"])
        .arg(own)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains(" of 200 threads could be started: "), "{text}");
}
