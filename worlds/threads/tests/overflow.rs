//! A lightweight thread with an overflowing stack, in a process of its own, which ends.

use std::hint::black_box;
use std::process::{Command, Output};
use vicus_machine::MachineRuntime;
use vicus_threads::{self as threads, Builder};

/// The child's role.
const ROLE: &str = "VICUS_TEST_OVERFLOW";

fn run(role: &str) -> Output {
    let exe = std::env::current_exe().unwrap();
    let mut child = Command::new(exe);
    child.args(["--exact", "the_child", "--nocapture", "--test-threads=1"]).env(ROLE, role);
    child.env("RUST_BACKTRACE", "0").output().unwrap()
}

#[expect(unconditional_recursion, reason = "it is to overflow")]
fn descend(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    descend(depth + 1) + frame[depth as usize % 64]
}

/// Does nothing unless it is the child.
#[test]
fn the_child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let runtime = MachineRuntime::builder().threads(1).quiet().start();
    match role.as_str() {
        "thread" => {
            let thread = Builder::new().name("deep").stack_size(16 << 10).spawn_on(&runtime, || descend(0));
            let _ = thread.join();
        }
        "frame" => {
            let thread = Builder::new().name("wide").stack_size(32 << 10).spawn_on(&runtime, || {
                // Like code compiled without probes of its stack: its frame's lowest word is touched first.
                let here = 0_u8;
                let address = std::ptr::from_ref(&here).addr() - (32 << 10) - (16 << 10);
                #[expect(unsafe_code, reason = "it is to crash")]
                // SAFETY: none: this process is to end here.
                unsafe {
                    std::ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(1);
                }
            });
            let _ = thread.join();
        }
        "null" => {
            threads::Builder::new().spawn_on(&runtime, || ()).join().unwrap();
            let address = black_box(16_usize);
            #[expect(unsafe_code, reason = "it is to crash")]
            // SAFETY: none: this process is to end here.
            unsafe {
                std::ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(1);
            }
        }
        "native" => {
            threads::Builder::new().spawn_on(&runtime, || ()).join().unwrap();
            std::thread::Builder::new().name("own".to_owned()).spawn(|| descend(0)).unwrap().join().unwrap();
        }
        "temporary" => {
            // A file without a name can't be shortened by others, so its mappings are not watched.
            let directory = vicus_machine::SystemDirectory::create(&std::env::temp_dir()).unwrap();
            let file = vicus_files::Directory::temporary(&directory).unwrap();
            file.write_at(0, &[1; 10_000]).unwrap();
            let mapping = file.map().unwrap();
            threads::Builder::new().spawn_on(&runtime, || ()).join().unwrap();
            file.set_len(0).unwrap();
            black_box(mapping[5000]);
        }
        "limit" => {
            threads::limit_stacks(1 << 20);
            let large = Builder::new().stack_size(2 << 20).try_spawn_on(&runtime, || ()).unwrap_err();
            assert_eq!(large, threads::SpawnError::NoStack { bytes: 2 << 20 });
            assert!(large.to_string().contains("2097152 bytes"), "{large}");
            // The limit's whole budget is taken, and another size finds none.
            Builder::new().stack_size(64 << 10).spawn_on(&runtime, || ()).join().unwrap();
            let other = Builder::new().stack_size(1 << 20).try_spawn_on(&runtime, || ()).unwrap_err();
            assert_eq!(other, threads::SpawnError::NoStack { bytes: 1 << 20 });
            Builder::new().stack_size(64 << 10).spawn_on(&runtime, || ()).join().unwrap();
        }
        other => panic!("no such role: {other}"),
    }
}

#[test]
fn an_overflow_names_the_thread_and_ends_the_process() {
    use std::os::unix::process::ExitStatusExt as _;
    let output = run("thread");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc_sigsegv()), "{said}");
    let line = said.lines().find(|line| line.starts_with("vicus: ")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("lightweight thread") && line.contains("'deep'"), "{line}");
    assert!(line.contains("overflow.rs") && line.contains("16384 bytes") && line.contains("stack_size"), "{line}");
}

/// C's compilers may let a frame step over a guard of a page.
#[test]
fn a_large_frame_does_not_step_over_the_guard() {
    use std::os::unix::process::ExitStatusExt as _;
    let output = run("frame");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc_sigsegv()), "{said}");
    assert!(said.contains("lightweight thread") && said.contains("'wide'"), "{said}");
}

/// The standard library's part is left to it.
#[test]
fn other_faults_end_as_they_did() {
    use std::os::unix::process::ExitStatusExt as _;
    let output = run("null");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc_sigsegv()), "{said}");
    assert!(!said.contains("vicus: "), "{said}");
    let output = run("native");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.signal().is_some(), "{said}");
    assert!(said.contains("has overflowed its stack") && said.contains("own") && !said.contains("vicus: "), "{said}");
}

/// Only named mapped files are watched.
#[test]
fn other_faults_of_mapped_files_end_as_they_did() {
    use std::os::unix::process::ExitStatusExt as _;
    let output = run("temporary");
    let said = String::from_utf8_lossy(&output.stderr);
    // SIGBUS
    assert_eq!(output.status.signal(), Some(7), "{said}");
}

fn libc_sigsegv() -> i32 {
    11
}

#[test]
fn a_stack_that_can_never_be_had_is_an_error_at_once() {
    let output = run("limit");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
