//! The folder of a program goes with the program, and stays with a copy of it.

use std::path::Path;
use std::process::Command;
use vicus_testing::scratch;

/// A copy of this process ends by `exit`, as a program that goes on behind `fork` does.
#[expect(unsafe_code, reason = "std has no `fork`")]
fn end_a_copy() {
    // SAFETY: the copy calls `exit` alone.
    let copy = unsafe { libc::fork() };
    if copy == 0 {
        // SAFETY: it ends this copy.
        unsafe { libc::exit(0) };
    }
    let mut status = 0;
    // SAFETY: a status is written to a variable.
    assert_eq!(unsafe { libc::waitpid(copy, &raw mut status, 0) }, copy);
    assert_eq!(status, 0);
}

/// What the child of the test below does.
#[test]
#[ignore = "run by the other test"]
fn leaves_a_file() {
    let folder = scratch(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(folder.join("file"), "text").unwrap();
    end_a_copy();
    assert_eq!(std::fs::read_to_string(folder.join("file")).unwrap(), "text");
    println!("folder: {}", folder.display());
    assert!(std::env::var_os("FAIL").is_none(), "as asked");
}

#[test]
fn the_folder_is_gone_when_its_program_has_ended() {
    for fails in [false, true] {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "leaves_a_file", "--ignored", "--nocapture"]);
        if fails {
            child.env("FAIL", "yes");
        }
        let output = child.output().unwrap();
        assert_eq!(output.status.success(), !fails);
        let said = String::from_utf8(output.stdout).unwrap();
        // A runner with one thread writes the test's name before it.
        let folder = said.lines().find_map(|line| line.split_once("folder: ")).expect("it says where").1;
        assert!(folder.starts_with(env!("CARGO_TARGET_TMPDIR")) && !Path::new(folder).exists(), "{said}");
    }
}
