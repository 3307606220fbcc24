//! Limits on memory, from too little to start up to enough: a command with too little ends with an error.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

/// Runs the command with an address space of this many KiB.
fn within(kib: u64, args: &[&str]) -> Output {
    limited(kib, "", args)
}

/// [`within`] with a variable of the environment for the command alone.
fn limited(kib: u64, variable: &str, args: &[&str]) -> Output {
    let limited = format!("ulimit -v {kib}; {variable} exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &limited, env!("CARGO_BIN_EXE_vicus")]).args(args).output().expect("there is a shell")
}

/// Whether the command succeeded under the limit; if not, its error, on a line of its own, with status 1. `None` if the
/// command did not start.
fn suffices(kib: u64, args: &[&str], expected: &str) -> Option<Result<(), String>> {
    let output = within(kib, args);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let last = err.lines().last().unwrap_or_default().to_owned();
    match output.status.code() {
        // The shell or the loader did not get as far as the command.
        Some(126 | 127) => None,
        Some(0) => {
            assert!(out.contains(expected), "{kib} KiB, {args:?}: {out} {err}");
            Some(Ok(()))
        }
        Some(1) => {
            assert!(!err.contains("panicked") && !err.contains("memory allocation of"), "{kib} KiB, {args:?}: {err}");
            assert!(last.starts_with("vicus: "), "{kib} KiB, {args:?}: {err}");
            let is_why = ["of memory can't be had", "threads could be started"].iter().any(|why| last.contains(why));
            assert!(is_why, "{kib} KiB, {args:?}: {err}");
            Some(Err(last))
        }
        // Nor did the kernel: it ends a program without room for its code, even if the loader is only asked what it
        // would load.
        None if limited(kib, "LD_TRACE_LOADED_OBJECTS=1", args).status.signal().is_some() => None,
        // The C library ends a process if it can't note a destructor of a new thread's variables; no program can catch
        // this.
        None if err.contains("Fatal glibc error: failed to register TLS destructor") => {
            Some(Err("the C library had no memory for a new thread".to_owned()))
        }
        _ => panic!("{kib} KiB, {args:?}: {:?}, {err}", output.status),
    }
}

/// Tries limits between one too small to start and a sufficient one, and prints the errors. By bisection first, to find
/// the smallest sufficient one, and then in equal steps.
fn try_limits(args: &[&str], most_kib: u64, steps: u64, expected: &str) {
    let (mut starts, mut most) = (8 << 10, most_kib);
    assert_eq!(suffices(most, args, expected), Some(Ok(())), "{most} KiB suffice");
    let mut tried = Vec::new();
    while most - starts > 2 << 10 {
        let middle = starts.midpoint(most);
        let done = suffices(middle, args, expected);
        let enough = done == Some(Ok(()));
        tried.push((middle, done));
        *(if enough { &mut most } else { &mut starts }) = middle;
    }
    for step in 1..steps {
        let kib = (8 << 10) + (most_kib - (8 << 10)) * step / steps;
        tried.push((kib, suffices(kib, args, expected)));
    }
    tried.sort_by_key(|(kib, _)| *kib);
    for (kib, done) in tried {
        let said = match done {
            None => "did not begin".to_owned(),
            Some(Ok(())) => "enough".to_owned(),
            Some(Err(said)) => said,
        };
        eprintln!("{} at {kib} KiB: {said}", args[0]);
    }
}

/// A file of this test.
fn path(name: &str) -> String {
    let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("memory");
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    folder.join(name).to_string_lossy().into_owned()
}

/// What happened: under a limit on addresses glibc mapped each small block of a thread by itself: a query took 1.8 s
/// and 90,000 page faults in place of 0.2 s and 2,600.
#[cfg(target_env = "gnu")]
#[test]
fn small_blocks_share_pages_where_addresses_are_limited() {
    let data = path("few.nt");
    let lines: String = (0..20_000).map(|n| format!("<http://e/s{n}> <http://e/p> \"{n}\" .\n")).collect();
    std::fs::write(&data, lines).expect("it can be written");
    let faults = |limit: &str| {
        let query = "SELECT (COUNT(*) AS ?rows) { ?s ?p ?o }";
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -v {limit}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_vicus")]);
        command.args(["query", "--threads", "2", "--data", &data, query]).stdout(std::process::Stdio::null());
        #[expect(clippy::zombie_processes, reason = "`wait4` waits for it")]
        let child = command.spawn().expect("there is a shell");
        let mut status = 0;
        #[expect(unsafe_code, reason = "std does not tell what a child has used")]
        // SAFETY: the child was not waited for, and both values are this frame's.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            let pid = libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage);
            assert_eq!((pid, status), (child.id() as i32, 0));
            usage
        };
        usage.ru_minflt
    };
    let (all, limited) = (faults("unlimited"), faults("400000"));
    assert!(limited < 3 * all, "{limited} faults, {all} without a limit");
}

/// What happened: loading ended the process with `memory allocation of 1048576 bytes failed` and SIGABRT. With other
/// limits, a small allocation or one of a library failed, and the process ended by a signal as well.
#[test]
fn a_load_that_has_too_little_memory_says_what_for() {
    let lines = |n: u64| {
        let text = format!("a name of number {n}, with \\\"some\\\" text");
        format!("<http://example.org/s{n}> <http://example.org/p{}> \"{text}\" .\n", n % 50)
    };
    let turtle = |n: u64| format!("e:s{n} e:p{} [ e:q \"number {n}\" ; e:r ( {n} e:x{n} ) ] .\n", n % 50);
    let (plain, nested) = (path("plain.nt"), path("nested.ttl"));
    std::fs::write(&plain, (0..20_000).map(lines).collect::<String>()).expect("it can be written");
    let text = "@prefix e: <http://example.org/> .\n".to_owned() + &(0..3_000).map(turtle).collect::<String>();
    std::fs::write(&nested, text).expect("it can be written");
    for (data, rows) in [(&plain, 20_000), (&nested, 21_000)] {
        let query = "SELECT (COUNT(*) AS ?rows) { ?s ?p ?o }";
        let args = ["query", "--threads", "2", "--format", "csv", "--data", data, query];
        // Every limit takes a whole load, so the optimised tests try more of them.
        let steps = if cfg!(debug_assertions) { 6 } else { 11 };
        try_limits(&args, 400_000, steps, &format!("\r\n{rows}\r\n"));
    }
}

/// A row of a result may be as long as a literal, with each byte written as six.
#[test]
fn a_result_that_has_too_little_memory_says_so() {
    let data = path("long.nt");
    std::fs::write(&data, format!("<http://e/s> <http://e/p> \"{}\" .\n", "\\u0001".repeat(1 << 20))).expect("written");
    // Twenty of them in one, and then with escapes.
    let many = vec!["?o"; 20].join(", ");
    let query = format!("SELECT (CONCAT({many}) AS ?long) {{ ?s ?p ?o }}");
    let args = ["query", "--threads", "1", "--memory-limit", "100G", "--format", "json", "--data", &data, &query];
    // Every limit takes a row of 120 MB, so the optimised tests try more of them.
    let steps = if cfg!(debug_assertions) { 4 } else { 8 };
    try_limits(&args, 800_000, steps, "\\u0001");
}

/// What happened: a written cell, a text concatenated or copied for a function, and sixteen texts of groups were made
/// before they were booked, so a query with a limit of 60 MB had up to 425 MB resident, and allocated 120 MB at once.
/// Texts computed for aggregates and EXISTS were not booked at all, and those of ENCODE_FOR_URI only in part, so such
/// queries ended with an answer. Here there is much less memory, and each must end with the error of its limit.
#[test]
fn a_long_cell_is_booked_before_it_grows() {
    let data = path("cell.nt");
    std::fs::write(&data, format!("<http://e/s> <http://e/p> \"{}\" .\n", "\\u0001".repeat(1 << 20))).expect("written");
    let times = |count: usize| vec!["?o"; count].join(", ");
    let keys = (0..64).map(|key| key.to_string()).collect::<Vec<_>>().join(" ");
    let queries = [
        // 20 MiB, with each byte written as six.
        (format!("SELECT (CONCAT({}) AS ?long) {{ ?s ?p ?o }}", times(20)), "60.0 MiB"),
        (format!("SELECT (CONCAT({}) AS ?long) {{ ?s ?p ?o }}", times(400)), "60.0 MiB"),
        (format!("SELECT (STRLEN(CONCAT({})) AS ?long) {{ ?s ?p ?o }}", times(63)), "60.0 MiB"),
        (format!("SELECT (REPLACE(?o, '[^a]', '{}') AS ?long) {{ ?s ?p ?o }}", "x".repeat(40)), "60.0 MiB"),
        (
            format!(
                "SELECT ?k (GROUP_CONCAT(?t) AS ?long) {{ ?s ?p ?o BIND(CONCAT({}) AS ?t) VALUES ?k {{ {keys} }} }} \
                    GROUP BY ?k",
                times(8)
            ),
            "60.0 MiB",
        ),
        // Two texts of 40 MiB at a time; only an aggregate makes the second.
        (format!("SELECT (SUM(STRLEN(STR(?t))) AS ?n) {{ ?s ?p ?o BIND(CONCAT({}) AS ?t) }}", times(40)), "60.0 MiB"),
        (format!("SELECT (SUM(STRLEN(CONCAT({}))) AS ?n) {{ ?s ?p ?o }}", times(63)), "60.0 MiB"),
        (
            format!(
                "SELECT ?s {{ ?s ?p ?o FILTER EXISTS {{ SELECT * {{ ?s ?q ?x FILTER(REGEX(CONCAT({}), '^[^x]')) }} }} \
                    }}",
                times(63)
            ),
            "60.0 MiB",
        ),
        (
            format!(
                "SELECT ?s {{ ?s ?p ?o FILTER EXISTS {{ ?s ?q ?x MINUS {{ ?s ?q ?x FILTER(REGEX(CONCAT({}), '^x')) }} \
                    }} }}",
                times(63)
            ),
            "60.0 MiB",
        ),
        // 21 MiB, with each byte written as three.
        (format!("SELECT (REGEX(ENCODE_FOR_URI(CONCAT({})), '^x') AS ?no) {{ ?s ?p ?o }}", times(21)), "60.0 MiB"),
    ];
    for (query, why) in &queries {
        let limits = ["--memory-limit", "60M", "--threads", "1", "--format", "json"];
        let output = within(520_000, &[&["query", "--data", &data][..], &limits, &[query]].concat());
        let err = String::from_utf8_lossy(&output.stderr);
        let shown = &query[..query.len().min(60)];
        assert_eq!(output.status.code(), Some(1), "{shown}: {err}");
        assert!(err.lines().last().is_some_and(|last| last.contains(why)), "{shown}: {err}");
    }
}

#[test]
fn other_commands_that_have_too_little_memory_say_so() {
    let (graph, trace) = (path("generated.nt"), path("run.trace"));
    try_limits(&["generate", "sp2b", "--triples", "20000", "--output", &graph], 250_000, 4, "");
    let args =
        ["query", "--threads", "1", "--trace", &trace, "--format", "count", "--data", &graph, "ASK { ?s ?p ?o }"];
    assert_eq!(suffices(4_000_000, &args, "yes"), Some(Ok(())));
    try_limits(&["trace", "summary", &trace], 250_000, 4, "");
    let simulate = ["simulate", "--machine", "node:2 core:4", "--threads", "8"];
    try_limits(&[&simulate[..], &["--kernel", "sparselu"]].concat(), 250_000, 4, "sparselu");
    try_limits(&[&simulate[..], &["--trace", &trace, "--mode", "re-enact"]].concat(), 250_000, 4, "re-enact");
}
