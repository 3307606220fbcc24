//! `vicus run`, run as a user runs it.

use std::path::PathBuf;
use std::process::Command;

/// The command in a folder of its own, without a library beside it. It is a link: a written file can't be run while a
/// child just forked by another test still has it open.
fn alone(name: &str) -> PathBuf {
    let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(name).join("bin");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let link = folder.join("vicus");
    std::fs::hard_link(env!("CARGO_BIN_EXE_vicus"), &link).unwrap();
    link
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

/// The options go to the library by variables; another library before it places memory.
#[test]
fn a_program_gets_what_the_options_say() {
    let vicus = alone("run-options");
    let folder = vicus.parent().unwrap();
    let trace = folder.join("a.trace");
    std::fs::write(folder.join("libvicus_omp.so"), "").unwrap();
    let run = |options: &[&str], program: &[&str]| {
        let mut command = Command::new(&vicus);
        command.arg("run").args(options).arg("--trace").arg(&trace).args(program).env("LD_PRELOAD", "");
        command.env_remove("VICUS_DATA_DISTRIBUTION").env_remove("OMP_DATA_DISTRIBUTION").output().unwrap()
    };
    let placed = ["--summary", "--data-distribution", "fine", "--data-distribution-from", "65536"];
    let shell = [
        "sh",
        "-c",
        "echo $LD_PRELOAD $VICUS_SUMMARY $VICUS_TRACE $VICUS_DATA_DISTRIBUTION $VICUS_DATA_DISTRIBUTION_FROM",
    ];
    let said = String::from_utf8(run(&placed, &shell).stderr).unwrap();
    assert!(said.starts_with("vicus: libvicus_malloc.so is neither in "), "{said}");
    std::fs::write(folder.join("libvicus_malloc.so"), "").unwrap();
    let said = String::from_utf8(run(&placed, &shell).stdout).unwrap();
    assert!(said.contains("/libvicus_malloc.so:/") && said.contains("/libvicus_omp.so 1 /"), "{said}");
    assert!(said.ends_with("a.trace fine 65536\n"), "{said}");
    let said = String::from_utf8(run(&[], &shell).stdout).unwrap();
    assert!(!said.contains("libvicus_malloc.so") && said.ends_with("a.trace\n"), "{said}");
    let room = ["--trace-events", "77"];
    let said = String::from_utf8(run(&room, &["sh", "-c", "echo $VICUS_TRACE_EVENTS"]).stdout).unwrap();
    assert_eq!(said, "77\n");
    let said = |options: &[&str]| {
        let shell = ["sh", "-c", "echo $VICUS_TRACE_ROLLING/$VICUS_TRACE_LAST_MS"];
        String::from_utf8(run(options, &shell).stdout).unwrap()
    };
    assert_eq!([said(&["--trace-rolling"]), said(&["--trace-last", "10m"])], ["1/\n", "/600000\n"]);
    let inflation = run(&["--summary", "--inflation"], &["true"]);
    let said = String::from_utf8(inflation.stderr).unwrap();
    assert!(!inflation.status.success() && said.contains("the program had no region"), "{said}");
    let refused = run(&["--data-distribution-from", "1"], &["true"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
}
