//! Programs in C and C++ (`tests/programs`), as gcc and clang compile them, linked with the library: under every
//! strategy, with 1, 2, 3 and 8 workers. If a compiler is missing, its half is left out with a message.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;
use vicus_testing::run_within;

/// The library's default strategy.
const DEFAULT: &str = "shepherd:unplaced=own";

/// The default, and all strategies by their names.
fn strategies() -> impl Iterator<Item = &'static str> {
    std::iter::once(DEFAULT).chain(vicus::STRATEGIES.into_iter().map(|strategy| strategy.name()))
}

/// Shepherds, and workers of each.
const SHAPES: [(usize, usize); 4] = [(1, 1), (2, 1), (3, 1), (4, 2)];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn headers() -> PathBuf {
    root().join("include/qthreads-compat")
}

/// The folder of the library built by cargo for these tests: it lies beside them, or in a folder above.
fn library() -> PathBuf {
    let own = env::current_exe().expect("a test knows its file");
    let folders = own.ancestors().skip(1).take(2);
    let mut found = folders.filter(|folder| folder.join("libvicus_qthreads.so").exists());
    found.next().expect("cargo builds the library with its tests").to_owned()
}

/// A folder for files built by these tests.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join("qthreads");
        fs::create_dir_all(&folder).expect("cargo has a folder for tests");
        folder
    })
}

/// The existing commands of a language, with a standard each.
fn compilers(commands: [&'static [&'static str]; 2]) -> Vec<&'static str> {
    let is_there =
        |command: &&str| Command::new(command).arg("--version").output().is_ok_and(|output| output.status.success());
    let found = commands.into_iter().filter_map(|names| {
        let command = names.iter().copied().find(is_there);
        if command.is_none() {
            eprintln!("left out: {} is not there", names[0]);
        }
        command
    });
    found.collect()
}

fn for_c() -> Vec<&'static str> {
    compilers([&["gcc"], &["clang-19", "clang"]])
}

fn for_cpp() -> Vec<&'static str> {
    compilers([&["g++"], &["clang++-19", "clang++"]])
}

fn says(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out.into_owned()
}

/// Compiles a program, with all warnings, and without one.
fn compile(compiler: &str, standard: &str, file: &str) -> PathBuf {
    compile_with(compiler, standard, file, &[])
}

/// [`compile`] with options. Once: another test may run the program.
fn compile_with(compiler: &str, standard: &str, file: &str, options: &[&str]) -> PathBuf {
    static BUILT: Mutex<BTreeMap<PathBuf, Arc<OnceLock<()>>>> = Mutex::new(BTreeMap::new());
    let out = folder().join(format!("{}-{compiler}{}", file.replace('.', "-"), options.concat().replace('=', "-")));
    let once = Arc::clone(BUILT.lock().expect("nothing panics meanwhile").entry(out.clone()).or_default());
    once.get_or_init(|| build(compiler, standard, file, options, &out));
    out
}

fn build(compiler: &str, standard: &str, file: &str, options: &[&str], out: &Path) {
    says(
        Command::new(compiler)
            .args(options)
            .args([&format!("-std={standard}"), "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-I"])
            .arg(headers())
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(file))
            .arg("-o")
            .arg(out)
            .arg("-L")
            .arg(library())
            .arg(format!("-Wl,-rpath,{}", library().display()))
            .args(["-lvicus_qthreads", "-lpthread"]),
    );
}

/// The exit status and the output of a program. It has a minute.
fn run(program: &Path, strategy: &str, shape: (usize, usize)) -> (Option<i32>, String) {
    let (status, said, told) = run_as(&mut Command::new(program), strategy, shape);
    if status == Some(0) { (status, said) } else { (status, said + &told) }
}

/// The exit status of a program run by a command, its standard output and its standard error. It has a minute.
fn run_as(
    command: &mut Command,
    strategy: &str,
    (shepherds, workers): (usize, usize),
) -> (Option<i32>, String, String) {
    command
        // Cargo's own would go before the program's.
        .env("LD_LIBRARY_PATH", library())
        .env("VICUS_STRATEGY", strategy)
        .env("QT_NUM_SHEPHERDS", shepherds.to_string())
        .env("QT_NUM_WORKERS_PER_SHEPHERD", workers.to_string());
    let ended = run_within(command, Duration::from_secs(60)).expect("the program was compiled");
    (ended.code(), ended.out(), ended.err())
}

/// Under all strategies; the second compiler's program runs with even numbers of workers alone.
fn holds(compilers: &[&str], standard: &str, file: &str) {
    for (number, compiler) in compilers.iter().enumerate() {
        let program = compile(compiler, standard, file);
        for strategy in strategies() {
            for shape in SHAPES.into_iter().skip(number).step_by(1 + number) {
                let (status, said) = run(&program, strategy, shape);
                let what = format!("{file} by {compiler}, {strategy}, {shape:?} shepherds and workers");
                assert_eq!((status, &*said), (Some(0), "ok\n"), "{what}");
            }
        }
    }
}

#[test]
fn threads_and_teams() {
    holds(&for_c(), "gnu11", "threads.c");
}

#[test]
fn words_and_locks() {
    holds(&for_c(), "gnu11", "words.c");
}

#[test]
fn locks_that_are_locked_again() {
    holds(&for_c(), "gnu11", "recursive.c");
}

#[test]
fn structures() {
    holds(&for_c(), "gnu11", "structures.c");
}

/// What happened: Qthreads' test of queues found a thread that could run after all of them had given their results,
/// or waited. Its end was not counted yet, since another thread of the system had its processor.
#[test]
fn threads_that_wait_or_are_done_are_not_busy() {
    holds(&for_c(), "gnu11", "busy.c");
}

/// What happened: a main thread that joined another one held its worker, so with one worker nothing ran, and the other
/// one waited for ever.
#[test]
fn threads_go_on_while_the_main_thread_joins_another_one() {
    holds(&for_c(), "gnu11", "blocked.c");
}

/// What happened: of 4 GiB of addresses that `ulimit -v` left, 2 GiB were reserved before the program had any.
#[test]
fn limited_addresses() {
    for compiler in for_c() {
        let program = compile(compiler, "gnu11", "limited.c");
        for strategy in strategies() {
            for shape in SHAPES {
                let limited = format!("ulimit -v 4194304; exec {}", program.display());
                let (status, said, told) = run_as(Command::new("sh").args(["-c", &limited]), strategy, shape);
                assert_eq!((status, said.as_str()), (Some(0), "ok\n"), "{strategy}, {shape:?}: {told}");
            }
        }
    }
}

#[test]
fn pages_of_arrays() {
    for compiler in for_c() {
        let program = compile(compiler, "gnu11", "pages.c");
        for shape in SHAPES {
            assert_eq!(run(&program, DEFAULT, shape), (Some(0), "ok\n".to_owned()), "{compiler}, {shape:?}");
        }
    }
}

#[test]
fn what_belongs_to_the_system() {
    holds(&for_c(), "gnu11", "system.c");
}

#[test]
fn macros_constants_and_flags() {
    holds(&for_c(), "gnu11", "macros.c");
}

#[test]
fn what_functions_print() {
    holds(&for_c(), "gnu11", "prints.c");
}

#[test]
fn what_is_wrong_has_a_code() {
    holds(&for_c(), "gnu11", "wrong.c");
}

#[test]
fn the_library_ends_while_threads_start_and_end_it() {
    holds(&for_c(), "gnu11", "ending.c");
}

#[test]
fn the_default_is_what_is_documented() {
    let text = fs::read_to_string(root().join("docs/qthreads.md")).expect("the repository has it");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&format!("which is `{DEFAULT}` unless `VICUS_STRATEGY`")), "docs/qthreads.md names it");
    let Some(compiler) = for_c().first().copied() else { return };
    let program = compile(compiler, "gnu11", "ending.c");
    let mut command = Command::new(program);
    let output = command
        .env("LD_LIBRARY_PATH", library())
        .env_remove("VICUS_STRATEGY")
        .env_remove("VICUS_LEARNED")
        .env("QT_INFO", "1")
        .output();
    let told = String::from_utf8_lossy(&output.expect("the program was compiled").stderr).into_owned();
    assert!(told.contains(&format!("strategy {DEFAULT},")), "{told}");
}

/// The output of `environment.c`, and its standard error, with these variables and no others of Qthreads.
fn with_variables(program: &Path, variables: &[(&str, &str)]) -> (String, String) {
    let mut command = Command::new(program);
    for (name, _) in env::vars().filter(|(name, _)| name.starts_with("QT_") || name.starts_with("QTHREAD_")) {
        command.env_remove(name);
    }
    command.env_remove("VICUS_STRATEGY").env_remove("VICUS_LEARNED").env("LD_LIBRARY_PATH", library());
    let output = command.envs(variables.iter().copied()).output().expect("the program was compiled");
    assert!(output.status.success(), "{variables:?}: {output:?}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn variables_say_how_many_shepherds_there_are() {
    let Some(compiler) = for_c().first().copied() else { return };
    let program = compile(compiler, "gnu11", "environment.c");
    let one = ("QT_NUM_WORKERS_PER_SHEPHERD", "1");
    let silent: [(&[(&str, &str)], &str); 9] = [
        (&[("QT_NUM_SHEPHERDS", "3"), one], "shepherds 3, workers 3,"),
        (&[("QT_NUM_SHEPHERDS", "2"), ("QT_NUM_WORKERS_PER_SHEPHERD", "2")], "shepherds 2, workers 4,"),
        (&[("QTHREAD_NUM_SHEPHERDS", "5"), one], "shepherds 5, workers 5,"),
        // The shorter name goes first, unless there is nothing behind it.
        (&[("QTHREAD_NUM_SHEPHERDS", "5"), ("QT_NUM_SHEPHERDS", "3"), one], "shepherds 3, workers 3,"),
        (&[("QTHREAD_NUM_SHEPHERDS", "5"), ("QT_NUM_SHEPHERDS", ""), one], "shepherds 5, workers 5,"),
        (&[("QT_NUM_SHEPHERDS", "0x10"), one], "shepherds 16, workers 16,"),
        (&[("QT_NUM_SHEPHERDS", "011"), one], "shepherds 9, workers 9,"),
        (&[("QT_HWPAR", "6"), ("QT_NUM_WORKERS_PER_SHEPHERD", "2")], "shepherds 3, workers 6,"),
        (&[("QT_NUM_SHEPHERDS", "1"), one, ("QT_TASKLOCAL_SIZE", "100")], "locals 100,"),
    ];
    for (variables, expected) in silent {
        let (said, told) = with_variables(&program, variables);
        assert!(said.contains(expected) && told.is_empty(), "{variables:?}: {said}{told}");
    }
    // A text that is no number counts as unset, and is reported.
    let (usual, _) = with_variables(&program, &[one]);
    for text in ["many", "08", "0x", "2 3"] {
        let (said, told) = with_variables(&program, &[("QT_NUM_SHEPHERDS", text), one]);
        assert_eq!((&said, told), (&usual, format!("unparsable NUM_SHEPHERDS ({text})\n")), "{text}");
    }
    assert_eq!(with_variables(&program, &[("QT_NUM_SHEPHERDS", "0"), one]), (usual, String::new()));
}

#[test]
fn stacks_are_as_large_as_a_variable_says() {
    let Some(compiler) = for_c().first().copied() else { return };
    let program = compile(compiler, "gnu11", "environment.c");
    let one = [("QT_NUM_SHEPHERDS", "1"), ("QT_NUM_WORKERS_PER_SHEPHERD", "1")];
    // The text, the report about it, and the size of the stack: a power of two, from 4 KiB to 1 GiB.
    let sizes: [(&str, usize, usize); 7] = [
        ("", 32 << 10, 32 << 10),
        ("65536", 1 << 16, 1 << 16),
        ("40000", 40000, 1 << 16),
        ("0x100000", 1 << 20, 1 << 20),
        ("100", 4 << 10, 4 << 10),
        ("1000000000000", 1 << 30, 1 << 30),
        ("1e12", 32 << 10, 32 << 10),
    ];
    for (text, bytes, all) in sizes {
        let (said, told) = with_variables(&program, &[one[0], one[1], ("QT_STACK_SIZE", text)]);
        let wrong = if text == "1e12" { "unparsable STACK_SIZE (1e12)\n" } else { "" };
        assert_eq!(told, wrong, "{text}");
        let number = |after: &str| -> usize {
            let rest = said.split_once(after).unwrap_or_else(|| panic!("{said}")).1;
            rest.split(',').next().and_then(|digits| digits.trim().parse().ok()).unwrap_or_else(|| panic!("{said}"))
        };
        assert_eq!(number(" stack "), bytes, "{text}: {said}");
        // The room at the beginning of a thread: all but a few frames.
        let left = number(" left ");
        assert!(left < all && all - left < 2 << 10, "{text}: {said}");
    }
}

/// A deadlock ends a program on request, with a report of each waiting thread, its word and its place, under each
/// strategy.
#[test]
fn a_deadlock_aborts_if_that_is_wanted() {
    let Some(compiler) = for_c().first().copied() else { return };
    let program = compile(compiler, "gnu11", "deadlock.c");
    let run = |strategy: &str| {
        let mut command = Command::new(&program);
        let (status, said, told) =
            run_as(command.env("VICUS_DEADLOCK", "abort").env("VICUS_CHECK", "1"), strategy, (2, 1));
        assert_eq!((status, &*said), (None, ""), "{strategy}: {told}");
        let head = "vicus: a deadlock: nothing runs, and 2 threads wait for full/empty bits. The process is aborted.\n";
        assert!(told.contains(head), "{strategy}: {told}");
        assert!(told.contains("  the main thread, on seat 0: lock of the word at 0x"), "{strategy}: {told}");
        assert!(told.contains(": read_ff of the word at 0x") && told.contains("waits"), "{strategy}: {told}");
        assert!(told.contains("qthread_lock"), "{strategy} has a backtrace: {told}");
    };
    // At once: they mostly sleep.
    let run = &run;
    thread::scope(|scope| strategies().for_each(|strategy| _ = scope.spawn(move || run(strategy))));
}

#[test]
fn without_affinity_workers_run_anywhere() {
    let Some(compiler) = for_c().first().copied() else { return };
    let program = compile(compiler, "gnu11", "environment.c");
    let two = [("QT_NUM_SHEPHERDS", "2"), ("QT_NUM_WORKERS_PER_SHEPHERD", "1")];
    for text in ["no", "No", "FALSE", "0", "0x0", "00"] {
        let (said, told) = with_variables(&program, &[two[0], two[1], ("QT_AFFINITY", text)]);
        assert!(said.contains("anywhere 1 of") && told.is_empty(), "{text}: {said}{told}");
    }
    for (text, wrong) in [("", ""), ("yes", ""), ("1", ""), ("-1", ""), ("maybe", "unparsable AFFINITY (maybe)\n")] {
        let (said, told) = with_variables(&program, &[two[0], two[1], ("QT_AFFINITY", text)]);
        assert_eq!(told, wrong, "{text}");
        // One processor is all of one.
        assert!(said.contains("anywhere 0 of") || said.contains(" of 1 processors"), "{text}: {said}");
    }
}

/// Whether the system has several nodes for this process.
fn has_nodes() -> bool {
    let usable = vicus::this_machine().topology;
    let nodes: BTreeSet<_> = usable.usable_pus().map(|pu| pu.node).collect();
    nodes.len() > 1
}

/// What happened: on four nodes, the main thread ran on the last one, and with it what was forked to the first
/// shepherd.
#[test]
fn the_main_thread_is_bound_to_the_first_shepherd() {
    let by_default = if has_nodes() { "bound" } else { "free" };
    for compiler in for_c() {
        let program = compile(compiler, "gnu11", "bound.c");
        let cases = [
            (None, DEFAULT, by_default),
            (Some("yes"), DEFAULT, "bound"),
            (Some("yes"), "las", "bound"),
            (Some("no"), DEFAULT, "free"),
            // It binds no thread.
            (Some("yes"), "nls", "free"),
        ];
        for (affinity, strategy, expected) in cases {
            for shape in SHAPES {
                let mut command = Command::new(&program);
                command.env_remove("QT_AFFINITY").env_remove("QTHREAD_AFFINITY").arg(expected);
                affinity.into_iter().for_each(|affinity| _ = command.env("QT_AFFINITY", affinity));
                let outcome = run_as(&mut command, strategy, shape);
                let what = format!("{compiler}, {affinity:?}, {strategy}, {shape:?}");
                assert_eq!(outcome, (Some(0), "ok\n".to_owned(), String::new()), "{what}");
            }
        }
    }
}

#[test]
fn variables_without_an_effect_are_told_on_request() {
    let Some(compiler) = for_c().first().copied() else { return };
    let program = compile(compiler, "gnu11", "environment.c");
    let without = [
        ("QT_SHEPHERD_BOUNDARY", "node"),
        ("QT_WORKER_UNIT", "pu"),
        ("QTHREAD_CPUBIND", "0"),
        ("QT_LAYOUT", "COMPACT"),
    ];
    let (_, told) = with_variables(&program, &without);
    assert_eq!(told, "", "as with Qthreads, which has them take effect without a word");
    let with: Vec<(&str, &str)> = without.into_iter().chain([("QT_INFO", "1")]).collect();
    let (_, told) = with_variables(&program, &with);
    let line = "vicus: without an effect here: QT_SHEPHERD_BOUNDARY, QT_WORKER_UNIT, QTHREAD_CPUBIND, QT_LAYOUT";
    assert!(told.lines().any(|told| told == line), "{told}");
    let (_, told) = with_variables(&program, &[("QT_INFO", "1")]);
    assert!(told.contains("shepherds,") && !told.contains("without an effect"), "{told}");
}

/// The standard library gives threads a stack for signals only if `main` is Rust's.
#[test]
fn a_stack_that_overflows_is_told_of() {
    for compiler in for_c() {
        let program = compile(compiler, "gnu11", "overflow.c");
        for shape in [(1, 1), (2, 1)] {
            let (status, said) = run(&program, DEFAULT, shape);
            assert_eq!(status, None, "{compiler}: it ends by a signal: {said}");
            assert!(said.contains("has overflowed its stack"), "{compiler}, {shape:?}: {said}");
        }
    }
}

#[test]
fn a_fork_without_memory_has_a_code() {
    for compiler in for_c() {
        // With more workers some would run as fast as they are forked.
        for strategy in ["shepherd", DEFAULT] {
            let outcome = run(&compile(compiler, "gnu11", "memory.c"), strategy, (1, 1));
            assert_eq!(outcome, (Some(0), "ok\n".to_owned()), "{compiler}, {strategy}");
        }
    }
}

#[test]
fn objects_of_cpp() {
    holds(&for_cpp(), "c++17", "objects.cpp");
}

#[test]
fn what_a_thread_returns_or_throws_reaches_its_joiner() {
    holds(&for_cpp(), "c++17", "joins.cpp");
    for compiler in for_cpp() {
        let program = compile_with(compiler, "c++20", "joins.cpp", &["-static-libstdc++"]);
        for shape in SHAPES {
            assert_eq!(run(&program, DEFAULT, shape), (Some(0), "ok\n".to_owned()), "{compiler}, {shape:?}");
        }
    }
}

#[test]
fn a_deadlock_that_unwinds_threads_reaches_their_joiners() {
    for compiler in for_cpp() {
        let program = compile(compiler, "c++17", "unwound.cpp");
        let run = |strategy: &str, shape| {
            let mut command = Command::new(&program);
            let (status, said, told) = run_as(command.env("VICUS_DEADLOCK", "unwind"), strategy, shape);
            assert_eq!((status, &*said), (Some(0), "ok\n"), "{compiler}, {strategy}, {shape:?}: {told}");
            let is_told = told.contains("Lightweight threads among them are unwound.");
            assert!(is_told, "{compiler}, {strategy}, {shape:?}: {told}");
        };
        // At once: they mostly sleep.
        thread::scope(|scope| {
            let run = &run;
            let cases = strategies().flat_map(|strategy| [(strategy, (1, 1)), (strategy, (2, 1))]);
            cases.for_each(|(strategy, shape)| _ = scope.spawn(move || run(strategy, shape)));
        });
    }
}

#[test]
fn an_exception_that_leaves_a_thread_ends_the_program_with_one_line() {
    let shared: &[&str] = &[];
    let with_own: Vec<(&str, &[&str])> =
        for_cpp().into_iter().flat_map(|compiler| [(compiler, shared), (compiler, &["-static-libstdc++"])]).collect();
    for (compiler, options) in with_own {
        let program = compile_with(compiler, "c++17", "exception.cpp", options);
        for strategy in strategies() {
            for shape in [(1, 1), (2, 1)] {
                let (status, said, told) = run_as(&mut Command::new(&program), strategy, shape);
                let what = format!("{compiler} {options:?}, {strategy}, {shape:?}: {said}{told}");
                assert_eq!((status, &*said), (None, "caught\n"), "{what}");
                let lines: Vec<&str> = told.lines().collect();
                assert!(matches!(*lines, [line] if line.starts_with("vicus: an exception has left")), "{what}");
            }
        }
    }
}

#[test]
fn a_debugger_sees_the_functions_of_a_thread_and_its_border() {
    let Some(gdb) = compilers([&["gdb"], &["gdb"]]).first().copied() else { return };
    // With the second option, the system gives higher addresses to later mappings: stacks of threads lie below those of
    // lightweight ones, or above.
    let layouts: [&[&str]; 2] = [&[], &["setarch", "-L"]];
    let is_there = |layout: &&[&str]| match *layout {
        [] => true,
        [command, options @ ..] => {
            let works = Command::new(command).args(options).arg("true").status().is_ok_and(|status| status.success());
            if !works {
                eprintln!("left out: {layout:?} does not work here");
            }
            works
        }
    };
    let layouts: Vec<&[&str]> = layouts.into_iter().filter(is_there).collect();
    for (compiler, layout) in
        for_c().into_iter().flat_map(|compiler| layouts.iter().map(move |&layout| (compiler, layout)))
    {
        let program = compile(compiler, "gnu11", "borders.c");
        // Either of two workers may run the thread: one of them is the program's first thread, whose stack lies above
        // all.
        for _ in 0..4 {
            let mut words = layout.iter().copied().chain([gdb]);
            let mut command = Command::new(words.next().expect("there is a debugger at least"));
            command.args(words);
            command.args(["-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "break innermost"]);
            command.args(["-ex", "run", "-ex", "backtrace", "-ex", "continue"]).arg(&program);
            let (status, said, told) = run_as(&mut command, DEFAULT, (2, 1));
            if told.contains("ptrace") {
                eprintln!("left out: the system lets no debugger look at a program: {told}");
                return;
            }
            let what = format!("{compiler} {layout:?}: {said}{told}");
            assert_eq!(status, Some(0), "{what}");
            // The frames of its functions, then those of the loop beneath, down to the bottom of the thread of the
            // system.
            let at = |name: &str| {
                let frame = said.lines().position(|line| line.starts_with('#') && line.contains(name));
                frame.unwrap_or_else(|| panic!("no frame of {name}: {what}"))
            };
            let frames = ["innermost", "middle", "outermost", "go_round"].map(at);
            assert!(frames.is_sorted(), "{what}");
            assert!(said.contains("ok\n") && said.contains("exited normally"), "{what}");
            assert!(!told.contains("Backtrace stopped") && !said.contains("Backtrace stopped"), "{what}");
        }
    }
}

/// The output of a program with a sanitizer compiled in; `None` if it can't be had here.
fn sanitized(
    compiler: &str,
    sanitizer: &str,
    file: &str,
    argument: Option<&str>,
) -> Option<(Option<i32>, String, String)> {
    let option = format!("-fsanitize={sanitizer}");
    let probe = folder().join(format!("probe-{compiler}-{sanitizer}"));
    let source = probe.with_extension("c");
    fs::write(&source, "int main(void) { return 0; }\n").expect("the folder can be written");
    let built = Command::new(compiler).arg(&option).arg(&source).arg("-o").arg(&probe).output();
    let runs = || Command::new(&probe).output().is_ok_and(|output| output.status.success());
    if !built.is_ok_and(|output| output.status.success()) || !runs() {
        eprintln!("left out: {compiler} {option} makes no program that runs here");
        return None;
    }
    let program = compile_with(compiler, "c++17", file, &[&option]);
    // The library has no sanitizer, so the work of its threads is not seen.
    let suppressions = folder().join("suppressions");
    fs::write(&suppressions, "called_from_lib:libvicus_qthreads.so\n").expect("the folder can be written");
    let mut command = Command::new(program);
    command.args(argument).env("ASAN_OPTIONS", "detect_stack_use_after_return=1:detect_leaks=0");
    command.env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
    Some(run_as(&mut command, DEFAULT, (2, 1)))
}

/// AddressSanitizer warns when it is not told, and with its frames elsewhere it loses them; ThreadSanitizer crashes.
#[test]
fn sanitizers_are_told_of_switches() {
    for compiler in for_cpp() {
        for sanitizer in ["address", "thread"] {
            let Some((status, said, told)) = sanitized(compiler, sanitizer, "sanitized.cpp", None) else { continue };
            assert_eq!((status, &*said, &*told), (Some(0), "ok\n", ""), "{compiler}, {sanitizer}");
        }
        // ThreadSanitizer does not see the library's ordering.
        if let Some((status, said, told)) = sanitized(compiler, "address", "joins.cpp", None) {
            assert_eq!((status, &*said, &*told), (Some(0), "ok\n", ""), "{compiler}");
        }
        if let Some((status, said, told)) = sanitized(compiler, "address", "sanitized.cpp", Some("err")) {
            assert!(status != Some(0) && told.contains("stack-buffer-overflow"), "{compiler}: {said}{told}");
            assert!(told.contains("in writes") && told.contains("in errs"), "{compiler}: {told}");
        }
    }
}

/// `./dev install`, below a folder whose name has a space; then programs find it by pkg-config and by CMake.
#[test]
#[cfg_attr(debug_assertions, ignore = "the same in every build; the optimised one has it")]
fn what_is_installed_is_found() {
    let is_there = |command: &str| Command::new(command).arg("--version").output().is_ok();
    let (prefix, from, build) = (folder().join("in stalled"), folder().join("from"), folder().join("cmake"));
    // Nothing but this library: others may lie beside it.
    fs::create_dir(&from).expect("the folder is new");
    let name = "libvicus_qthreads.so";
    std::os::unix::fs::symlink(library().join(name), from.join(name)).expect("the folder is new");
    let mut install = Command::new(root().join("dev"));
    says(install.env_remove("DESTDIR").args(["install", "--prefix"]).arg(&prefix).arg("--library").arg(&from));
    for header in header_names() {
        let installed = fs::read(prefix.join("include/qthreads-compat").join(&header));
        let installed = installed.unwrap_or_else(|error| panic!("{header}: {error}"));
        assert_eq!(installed, fs::read(headers().join(&header)).expect("a header"), "{header}");
    }
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let ends_well = |program: &Path, folder: Option<&Path>| {
        let mut command = Command::new(program);
        command.env_remove("LD_LIBRARY_PATH").env("QT_NUM_SHEPHERDS", "2");
        folder.into_iter().for_each(|folder| _ = command.env("LD_LIBRARY_PATH", folder));
        assert_eq!(says(&mut command), "ok\n", "{}", program.display());
    };
    if is_there("pkg-config") {
        let pkg_config = |what: &[&str]| {
            let mut command = Command::new("pkg-config");
            says(command.args(what).arg("qthread").env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")))
        };
        let version = fs::read_to_string(headers().join("qthread/qthread.h")).expect("a header");
        let version =
            version.split_once("QTHREAD_VERSION \"").and_then(|(_, rest)| rest.split_once('"')).expect("it is there").0;
        assert_eq!(pkg_config(&["--modversion"]).trim(), version);
        for compiler in for_c() {
            let program = prefix.join(format!("by-pkg-config-{compiler}"));
            // Spaces are escaped as a shell reads them.
            let line = format!(
                "{compiler} {} -o '{}' {}",
                programs.join("installed.c").display(),
                program.display(),
                pkg_config(&["--cflags", "--libs"]).trim()
            );
            says(Command::new("sh").args(["-c", &line]));
            ends_well(&program, Some(&prefix.join("lib")));
        }
    } else {
        eprintln!("left out: pkg-config is not there");
    }
    if is_there("cmake") {
        let consumer = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/consumer");
        let programs = format!("-DPROGRAMS={}", programs.display());
        let found = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
        says(Command::new("cmake").arg("-S").arg(consumer).arg("-B").arg(&build).args([programs, found]));
        says(Command::new("cmake").arg("--build").arg(&build));
        ["in_c", "in_cpp", "joins"].iter().for_each(|name| ends_well(&build.join(name), None));
    } else {
        eprintln!("left out: CMake is not there");
    }
}

/// The names of all headers, as programs include them.
fn header_names() -> Vec<String> {
    let within = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(headers().join(folder)).expect("it is there").map(|entry| entry.expect("an entry"));
        let files = entries.filter(|entry| entry.path().is_file());
        files.map(|file| format!("{folder}{}", file.file_name().to_string_lossy())).collect()
    };
    let names = [within(""), within("qthread/")].concat();
    assert!(names.contains(&"qthread.h".to_owned()) && names.contains(&"qthread/qthread.h".to_owned()), "{names:?}");
    names
}

#[test]
#[cfg_attr(debug_assertions, ignore = "the same in every build; the optimised one has it")]
fn each_header_compiles_alone() {
    for name in header_names() {
        let text = format!("#include <{name}>\n#include <{name}>\n");
        let file = folder().join(format!("alone-{}.cpp", name.replace(['.', '/'], "-")));
        fs::write(&file, text).expect("the folder can be written");
        let command = |compiler: &str, language: &str, standard: &str| {
            let mut command = Command::new(compiler);
            command
                .args(["-x", language, &format!("-std={standard}"), "-fsyntax-only", "-Wall", "-Wextra", "-Werror"])
                .arg("-I")
                .arg(headers())
                .arg(&file);
            command
        };
        let check =
            |compiler: &str, language: &str, standard: &str| _ = says(&mut command(compiler, language, standard));
        for compiler in for_cpp() {
            ["c++17", "c++20"].iter().for_each(|standard| check(compiler, "c++", standard));
            if name != "qthread/thread.hpp" {
                check(compiler, "c++", "c++11");
                continue;
            }
            let output = command(compiler, "c++", "c++11").output().expect("it is there");
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && told.contains("qthread/thread.hpp needs C++17"), "{compiler}: {told}");
        }
        if name.ends_with(".h") {
            for compiler in for_c() {
                ["c11", "gnu17"].iter().for_each(|standard| check(compiler, "c", standard));
            }
        }
    }
}

/// A text without the parts between two marks, marks included.
fn without(text: &str, from: &str, to: &str) -> String {
    let mut parts = text.split(from);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |code, part| code + " " + part.split_once(to).map_or("", |(_, rest)| rest))
}

/// Code of C or C++ without its comments.
fn without_comments(text: &str) -> String {
    let lines = without(text, "/*", "*/");
    lines.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect()
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// All names in a code.
fn names_in(code: &str) -> BTreeSet<&str> {
    code.split(|c| !is_of_name(c)).filter(|name| !name.is_empty()).collect()
}

/// The functions declared or defined by a header.
fn declared(code: &str) -> BTreeSet<String> {
    let before = code.split('(').map(|part| part.rsplit(|c| !is_of_name(c)).next().unwrap_or_default().to_owned());
    let prefixes = [
        "qthread_",
        "qt_",
        "qutil_",
        "qarray_",
        "qpool_",
        "qdqueue_",
        "qlfqueue_",
        "qswsrqueue_",
        "qalloc_",
        "qtimer_",
        "qloop_",
    ];
    before.filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix))).collect()
}

/// Types and parts of macros in the headers, and functions called by templates alone.
const NO_FUNCTIONS: [&str; 6] = [
    "qt_loop_queue_type",
    "qt_",
    "qthread_yield_",
    "qt_dict_key_equals_f",
    "qloop_cpp_wrapper",
    "qloop_accum_cpp_wrapper",
];

/// Headers with one of these endings, without comments.
fn code_of_headers(ends: &[&str]) -> String {
    let names = header_names().into_iter().filter(|name| ends.iter().any(|end| name.ends_with(end)));
    names.map(|name| without_comments(&fs::read_to_string(headers().join(name)).expect("a header"))).collect()
}

/// All programs, without comments.
fn code_of_programs() -> String {
    let programs = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")).expect("it is there");
    let texts = programs.map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("a program"));
    texts.map(|text| without_comments(&text)).collect()
}

/// Without guards of headers, and macros that help to define others.
#[test]
fn each_macro_is_used_by_a_test() {
    let (code, programs) = (code_of_headers(&[".h", ".hpp"]), code_of_programs());
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    let name = |line: &str, word: &str| {
        let rest = line.strip_prefix(word)?.trim_start();
        Some(rest[..rest.find(|c| !is_of_name(c)).unwrap_or(rest.len())].to_owned())
    };
    let guards: BTreeSet<String> = lines
        .windows(2)
        .filter_map(|pair| name(pair[0], "#ifndef ").filter(|guard| name(pair[1], "#define ").as_ref() == Some(guard)))
        .collect();
    let macros: BTreeSet<String> = lines.iter().filter_map(|line| name(line, "#define ")).collect();
    assert!(guards.len() > 20 && macros.len() > 120, "{guards:?} {macros:?}");
    let used = names_in(&programs);
    let is_left = |name: &&String| {
        !guards.contains(*name)
            && !name.starts_with("VICUS_")
            && name.as_str() != "restrict"
            && !used.contains(name.as_str())
    };
    let left: Vec<&String> = macros.iter().filter(is_left).collect();
    assert!(left.is_empty(), "no program uses {left:?}");
}

#[test]
fn each_function_is_exported_and_called_by_a_test() {
    let text = code_of_headers(&[".h"]);
    let names = declared(&code_of_headers(&[".h", ".hpp"]));
    assert!(names.len() > 200, "{names:?}");
    let programs = code_of_programs();
    let called = names_in(&programs);
    let left: Vec<&String> =
        names.iter().filter(|name| !NO_FUNCTIONS.contains(&name.as_str()) && !called.contains(name.as_str())).collect();
    assert!(left.is_empty(), "no program calls {left:?}");
    // Functions declared but not defined in the header, and no macros.
    let symbols = says(Command::new("nm").arg("-D").arg("--defined-only").arg(library().join("libvicus_qthreads.so")));
    let exported: BTreeSet<&str> = symbols.lines().filter_map(|line| line.rsplit(' ').next()).collect();
    let is_declared = |name: &str| {
        let mut places = text.match_indices(&format!("{name}(")).map(|(at, _)| at).collect::<Vec<_>>().into_iter();
        places.any(|at| {
            let line = text[..at].rfind('\n').map_or(0, |start| start + 1);
            let start = &text[line..at];
            let rest = &text[at..];
            !start.starts_with("#define")
                && !start.contains("static inline")
                && !start.starts_with(' ')
                && rest.find(';').is_some_and(|end| !rest[..end].contains('{'))
        })
    };
    let missing: Vec<&String> =
        names.iter().filter(|name| is_declared(name) && !exported.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "declared and not exported: {missing:?}");
}

/// A trace has every thread under its function's name, though half of them wait and go on; or the last events alone.
#[test]
fn a_program_writes_its_trace() {
    let path = folder().join("traced.trace");
    let traced = |program: &Path, strategy: &str, shape: (usize, usize), more: &[(&str, &str)]| {
        let mut command = Command::new(program);
        command.env("VICUS_TRACE", &path).envs(more.iter().copied());
        let (status, said, told) = run_as(&mut command, strategy, shape);
        assert_eq!((status, &*said), (Some(0), "ok\n"), "{strategy}, {shape:?}: {told}");
        let bytes = fs::read(&path).expect("it writes a trace");
        fs::remove_file(&path).expect("it is there");
        (vicus::trace::Trace::read_from(&mut &bytes[..]).expect("a trace can be read"), told)
    };
    for compiler in for_c() {
        let program = compile(compiler, "gnu11", "traced.c");
        for strategy in strategies() {
            for shape in SHAPES {
                let (trace, told) = traced(&program, strategy, shape, &[]);
                assert_eq!(trace.check(), [], "{strategy}, {shape:?}");
                assert_eq!((trace.lost(), &*told), (0, ""), "{strategy}, {shape:?}");
                let summary = trace.summary();
                for name in ["works", "waits"] {
                    let row = summary.boxes.iter().find(|row| row.type_name == name);
                    let row = row.unwrap_or_else(|| panic!("{strategy}, {shape:?}: no {name} in {:?}", summary.boxes));
                    assert_eq!(row.invocations, 100, "{name}, {strategy}, {shape:?}");
                }
                assert!(trace.header().command.ends_with("traced-c-gcc") || compiler != "gcc");
            }
        }
        let rolling = [("VICUS_TRACE_EVENTS", "40"), ("VICUS_TRACE_ROLLING", "1")];
        let (trace, told) = traced(&program, DEFAULT, (1, 1), &rolling);
        assert!(trace.header().rolls && trace.lost() > 0 && !trace.header().earlier.is_empty());
        assert!(told.contains("the trace has the last events"), "{told}");
        let (trace, told) = traced(&program, DEFAULT, (2, 1), &[("VICUS_TRACE_LAST_MS", "600000")]);
        assert_eq!((trace.header().last_ns, &*told), (600_000_000_000, ""));
        let (_, told) =
            traced(&program, DEFAULT, (1, 1), &[("VICUS_TRACE_LAST_MS", "soon"), ("VICUS_TRACE_EVENTS", "9")]);
        let lines = ["VICUS_TRACE_LAST_MS: expected a number of milliseconds", "make room by VICUS_TRACE_EVENTS"];
        assert!(lines.iter().all(|line| told.contains(line)), "{told}");
    }
}
