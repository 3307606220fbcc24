//! `vicus run`, run as a user runs it.

use std::path::PathBuf;
use std::process::Command;

/// A copy of the command in a folder of its own, beside which there is no library.
fn alone(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name).join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let copy = folder.join("vicus");
    std::fs::copy(env!("CARGO_BIN_EXE_vicus"), &copy).unwrap();
    copy
}

#[test]
fn a_program_gets_the_library_and_the_strategy() {
    let vicus = alone("run-with");
    let lib = vicus.ancestors().nth(2).unwrap().join("lib");
    std::fs::create_dir_all(&lib).unwrap();
    std::fs::write(lib.join("libvicus_omp.so"), "").unwrap();
    // The loader complains of this library on standard error, and goes on.
    let output = Command::new(&vicus)
        .args(["run", "--strategy", "nls", "sh", "-c", "echo $LD_PRELOAD $VICUS_STRATEGY $0 $1; exit 7", "-a", "b"])
        .env("LD_PRELOAD", "")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.ends_with("lib/libvicus_omp.so nls -a b\n"), "{said}");
}

#[test]
fn what_is_not_there_is_told() {
    let output = Command::new(alone("run-without")).args(["run", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("vicus: libvicus_omp.so is neither in "), "{said}");
    let vicus = alone("run-nothing");
    std::fs::write(vicus.with_file_name("libvicus_omp.so"), "").unwrap();
    let output = Command::new(&vicus).args(["run", "/no/such/program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("vicus: can't run /no/such/program: "), "{said}");
}
