//! `vicus query`, run as a user runs it.

mod asking;
mod data;
mod graphs;
mod output;
mod remarks;
mod results;
mod service;
mod sql;

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn vicus() -> Command {
    Command::new(env!("CARGO_BIN_EXE_vicus"))
}

fn run(args: &[&str]) -> Output {
    vicus().args(args).stdin(Stdio::null()).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Fails with status 1 and these texts in the message; never with a panic.
fn fails(args: &[&str], says: &[&str]) {
    let output = run(args);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {text}");
    assert!(!text.contains("panicked"), "{text}");
    for part in says {
        assert!(text.contains(part), "`{part}` is part of: {text}");
    }
}

/// A file of its own for each test.
fn file(name: &str, contents: impl AsRef<[u8]>) -> String {
    let path = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, contents).unwrap();
    path.to_str().unwrap().to_owned()
}
