//! The README and the book, held to what the programs do: each block of commands runs, files that pages show are
//! written, printed outputs are compared, and reference pages are current.
//!
//! How a page is read:
//!
//! * A block of `sh` has commands. Bash runs them in the page's folder, which is empty at first. A failure ends the
//!   page.
//! * A block of `text` right behind it is what they print, on both streams. `…` stands for any text of a line, and
//!   alone for any lines.
//! * A line that ends in `` `NAME`: `` before another block names the file to which the block is written.
//! * `<!-- not run: REASON -->` before a block of `sh`: it needs more than this test has. Only its options are looked
//!   up in the help.
//! * `<!-- needs: PROGRAM… -->`: programs without which the page is skipped, with a message. `libraries` are our own.
//!
//! `PAGE=openmp cargo test -p vicus-cli --test docs` runs the pages whose paths contain that word.
#![cfg(target_os = "linux")]

mod http;
mod page;
mod reference;
mod run;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Blocks of commands that no test runs. A ceiling that only falls: a new one needs a reason.
const NOT_RUN: usize = 9;

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies two folders deep").to_owned()
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The README and the pages for users, by their paths from the root.
fn pages() -> Vec<String> {
    let mut found = vec!["README.md".to_owned()];
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).expect("a folder of pages can be listed") {
            let entry = entry.expect("an entry can be read");
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if path.ends_with(".md") {
                found.push(path);
            } else if entry.path().is_dir() && !["docs/internals", "docs/lab"].contains(&&*path) {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_page_does_as_it_says() {
    let chosen = std::env::var("PAGE").unwrap_or_default();
    let mut pages: Vec<String> = pages().into_iter().filter(|path| path.contains(&chosen)).collect();
    assert!(!pages.is_empty(), "no page is called `{chosen}`");
    // Simulations take minutes there.
    if cfg!(debug_assertions) && chosen.is_empty() {
        pages.truncate(1);
    }
    let home = run::Home::make();
    let (next, wrong, not_run) = (AtomicUsize::new(0), Mutex::new(Vec::new()), AtomicUsize::new(0));
    let work = || {
        while let Some(path) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
            let began = Instant::now();
            let page = page::Page::read(path, &read(path));
            not_run.fetch_add(page.not_run(), Ordering::Relaxed);
            let mut faults = page.faults.clone();
            faults.extend(run::look_up(&home, &page));
            if let Some(missing) = run::missing(&home, &page) {
                println!("SKIPPED: {path} needs {missing}");
            } else if page.has_commands() && faults.is_empty() {
                faults.extend(run::run(&home, &page));
                println!("{path}: {} ms", began.elapsed().as_millis());
            }
            wrong.lock().expect("no page panics").extend(faults);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let wrong = wrong.into_inner().expect("no page panics");
    assert!(wrong.is_empty(), "{} mistakes:\n\n{}", wrong.len(), wrong.join("\n\n"));
    if chosen.is_empty() && !cfg!(debug_assertions) {
        assert_eq!(not_run.into_inner(), NOT_RUN, "blocks that no test runs; a smaller count lowers the ceiling");
    }
}
