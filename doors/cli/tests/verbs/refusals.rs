//! System calls refused by a filter, as in containers: commands continue, and report each refusal once.

#[path = "../../../vicus/tests/filter/mod.rs"]
mod filter;

use filter::refuse;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::time::Duration;
use vicus_testing::run_within;

/// Dispensable system calls, with the beginning of the command's warning, if it warns on every machine.
///
/// There is no warning for `getcpu` and `rseq`. The CPU of a thread comes from glibc, which reads it from the area of
/// restartable sequences, else from the vDSO (code of the kernel in the process, without a system call and so invisible
/// to filters), and only then by the call. A kernel without a vDSO is needed to have the call refused in earnest; the
/// answer is then "unknown".
const CALLS: [(&str, libc::c_long, Option<&str>); 9] = [
    ("mbind", libc::SYS_mbind, None),
    ("set_mempolicy", libc::SYS_set_mempolicy, None),
    ("sched_setaffinity", libc::SYS_sched_setaffinity, Some("not pinned")),
    ("sched_getaffinity", libc::SYS_sched_getaffinity, Some("affinity mask of this process")),
    ("membarrier", libc::SYS_membarrier, Some("membarrier")),
    ("move_pages", libc::SYS_move_pages, None),
    ("getcpu", libc::SYS_getcpu, None),
    ("rseq", libc::SYS_rseq, None),
    ("madvise", libc::SYS_madvise, Some("madvise")),
];

/// Runs the command under such a filter; `None` if this kernel takes no filters. Panics if it never ends.
fn run(args: &[&str], calls: &[libc::c_long], error: i32) -> Option<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vicus"));
    let calls = calls.to_vec();
    #[expect(unsafe_code, reason = "limits a process before it begins")]
    // SAFETY: between fork and exec, only system calls are made.
    unsafe {
        command.pre_exec(move || refuse(&calls, error));
    }
    let ended = run_within(command.args(args), Duration::from_secs(120)).ok()?;
    Some(ended.in_time(&format!("{args:?}")))
}

/// What happened: with `sched_getaffinity` refused, no command ever ended, because the mask was asked for again and
/// again.
#[test]
fn a_command_runs_on_and_says_once_what_is_refused() {
    let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("refusals");
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let data = folder.join("data.nt");
    let line = |n: u32| format!("<http://e/s{n}> <http://e/p> <http://e/s{}> .\n", n / 2);
    std::fs::write(&data, (1..20_000).map(line).collect::<String>()).expect("it can be written");
    let data = data.to_string_lossy().into_owned();
    // Grandparents of nodes: all but the first three nodes have one.
    let query = "SELECT (COUNT(DISTINCT ?c) AS ?n) { ?a <http://e/p> ?b . ?b <http://e/p> ?c }";
    let query = ["query", "--threads", "2", "--format", "csv", "--data", &data, query];
    let bench = ["bench", "kernels", "--kernel", "fib", "--size", "0.001", "--threads", "2"];
    if run(&["--version"], &[libc::SYS_swapoff], libc::EPERM).is_none() {
        return eprintln!("skipped: this kernel takes no filters");
    }
    let single = CALLS.iter().map(std::slice::from_ref);
    for refused in single.chain([&CALLS[..]]) {
        let numbers: Vec<libc::c_long> = refused.iter().map(|call| call.1).collect();
        let names: Vec<&str> = refused.iter().map(|call| call.0).collect();
        for error in [libc::EPERM, libc::ENOSYS] {
            for (args, expected) in [(&query[..], "n\r\n5000\r\n"), (&bench, "fib")] {
                if args == bench && refused.len() == 1 && error == libc::ENOSYS {
                    continue;
                }
                let output = run(args, &numbers, error).expect("it took one before");
                let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
                assert!(output.status.success(), "{names:?} {args:?}: {:?} {err}", output.status);
                assert!(out.contains(expected), "{names:?} {args:?}: {out} {err}");
                assert!(!err.contains("panicked"), "{names:?} {args:?}: {err}");
                let warnings: Vec<&str> = err.lines().filter(|line| line.contains("warning")).collect();
                for (name, _, told) in refused {
                    // Without the mask, nothing is pinned, so that call isn't made.
                    let is_asked = *name != "sched_setaffinity" || !names.contains(&"sched_getaffinity");
                    if let Some(told) = told.filter(|_| is_asked) {
                        let count = warnings.iter().filter(|line| line.contains(told)).count();
                        assert_eq!(count, 1, "{name} of {names:?}, {args:?}: {err}");
                    }
                }
                let mut different = warnings.clone();
                different.sort_unstable();
                different.dedup();
                assert_eq!(different.len(), warnings.len(), "{names:?}, {args:?}: {err}");
                eprintln!("{names:?}, error {error}, {}: {warnings:?}", args[0]);
            }
        }
    }
}
