//! Programs in C and C++ (`tests/programs`) by gcc and clang, with the library loaded before the compiler's own.

mod plugins;
mod settings;
mod view;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;
use vicus::STRATEGIES;
use vicus::kit::{Learned, Treatment};
use vicus_testing::run_within;

/// The library built by cargo for these tests. It lies beside them, or in a folder above.
fn library() -> PathBuf {
    let own = env::current_exe().expect("a test knows its file");
    let folders = own.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join("libvicus_omp.so")).find(|path| path.exists());
    found.expect("cargo builds the library with its tests")
}

/// `LD_PRELOAD` for programs with placed memory.
fn libraries() -> String {
    let own = library();
    format!("{}:{}", own.with_file_name("libvicus_malloc.so").display(), own.display())
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// A compiler: of gcc and of clang, the newest one with OpenMP is used.
struct Compiler {
    command: &'static str,
    name: &'static str,
}

/// The working compilers of a language: they compile a program with OpenMP's header. If one is missing, its half of the
/// tests is left out with a message.
fn compilers(probe: (&str, &str), names: [(&'static str, &'static [&'static str]); 2]) -> Vec<Compiler> {
    let can_compile = |command: &str| {
        let path = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR"));
        let out = path.join(format!("probe-{command}"));
        let source = path.join(format!("probe-{command}.{}", probe.0));
        fs::write(&source, probe.1).expect("a file can be written");
        let mut compiler = Command::new(command);
        compiler.args(["-fopenmp", "-o"]).arg(&out).arg(&source).stdout(Stdio::null()).stderr(Stdio::null());
        let status = compiler.status();
        let _ = (fs::remove_file(out), fs::remove_file(source));
        status.is_ok_and(|status| status.success())
    };
    let found = names.into_iter().filter_map(|(name, commands)| {
        let command = commands.iter().copied().find(|command| can_compile(command));
        if command.is_none() {
            eprintln!("left out: {name} with OpenMP for .{} is not there", probe.0);
        }
        command.map(|command| Compiler { command, name })
    });
    found.collect()
}

/// The limit of a target region is what clang learned last of all that the programs use.
const PROBE: (&str, &str) = (
    "c",
    "#include <omp.h>\nint main(void) {\n#pragma omp target thread_limit(2)\n  { }\n\
     return omp_get_num_threads() - 1;\n}\n",
);

fn for_c() -> &'static [Compiler] {
    static COMPILERS: OnceLock<Vec<Compiler>> = OnceLock::new();
    COMPILERS.get_or_init(|| {
        compilers(PROBE, [("gcc", &["gcc"]), ("clang", &["clang-22", "clang-21", "clang-20", "clang-19", "clang"])])
    })
}

fn for_cpp() -> &'static [Compiler] {
    static COMPILERS: OnceLock<Vec<Compiler>> = OnceLock::new();
    COMPILERS.get_or_init(|| {
        compilers(
            PROBE,
            [("gcc", &["g++"]), ("clang", &["clang++-22", "clang++-21", "clang++-20", "clang++-19", "clang++"])],
        )
    })
}

fn for_fortran() -> &'static [Compiler] {
    static COMPILERS: OnceLock<Vec<Compiler>> = OnceLock::new();
    let probe = ("f90", "program probe\n  use omp_lib\n  if (omp_get_num_threads() /= 1) stop 1\nend program probe\n");
    COMPILERS.get_or_init(|| {
        compilers(
            probe,
            [
                ("gfortran", &["gfortran"]),
                ("flang", &["flang-22", "flang-21", "flang-20", "flang-new-19", "flang", "flang-new"]),
            ],
        )
    })
}

/// Compiles a program, once: another test may run it by now.
fn compile(compiler: &Compiler, file: &str) -> Option<PathBuf> {
    static COMPILED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let out = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "{}-{}",
        file.replace('.', "-"),
        compiler.name
    ));
    if compiled.contains(&out) {
        return Some(out);
    }
    let output = Command::new(compiler.command)
        .args(["-O1", "-w", "-fopenmp"])
        .args(if compiler.name == "flang" { &[][..] } else { &["-rdynamic"] })
        // Fortran's compilers write their modules' descriptions into the current folder.
        .current_dir(vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")))
        .arg("-I")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include"))
        .arg(programs().join(file))
        .arg("-o")
        .arg(&out)
        .output()
        .expect("the compiler was there a moment ago");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {file}: {said}", compiler.command);
    compiled.insert(out.clone());
    Some(out)
}

/// The exit status and the output of a program. It has a minute.
fn run(program: &Path, strategy: &str, threads: usize, variables: &[(&str, &str)]) -> (Option<i32>, String) {
    run_command(&mut Command::new(program), strategy, threads, variables)
}

fn run_command(
    command: &mut Command,
    strategy: &str,
    threads: usize,
    variables: &[(&str, &str)],
) -> (Option<i32>, String) {
    command
        .env("LD_PRELOAD", library())
        .env("VICUS_STRATEGY", strategy)
        .env("OMP_NUM_THREADS", threads.to_string())
        .envs(variables.iter().copied());
    let ended = run_within(command, Duration::from_secs(60)).expect("the program was compiled");
    (ended.code(), ended.out() + &ended.err())
}

/// Sizes of teams for a strategy: all of them as users have the code. With assertions, which take twice the time, each
/// strategy has one, and each size two strategies or more.
fn sizes(strategy: usize) -> Vec<usize> {
    let all = [1, 2, 4, 8];
    if cfg!(debug_assertions) { vec![all[strategy % all.len()]] } else { all.to_vec() }
}

fn holds(compilers: &[Compiler], file: &str, variables: &[(&str, &str)]) {
    for compiler in compilers {
        let Some(program) = compile(compiler, file) else { continue };
        for (number, strategy) in STRATEGIES.map(|strategy| strategy.name()).into_iter().enumerate() {
            for threads in sizes(number) {
                let (status, said) = run(&program, strategy, threads, variables);
                let what = format!("{file} by {}, {strategy}, {threads} threads", compiler.name);
                assert_eq!(status, Some(0), "{what}: {said}");
                assert_eq!(said, "ok\n", "{what}");
            }
        }
    }
}

#[test]
fn regions() {
    holds(for_c(), "regions.c", &[]);
}

/// What happened: inner teams of as many threads as there are processors spun, beside each other, and so did threads
/// between two such regions: twice the time of libomp.
#[test]
fn crowds_do_not_spin() {
    holds(for_c(), "crowds.c", &[]);
}

#[test]
fn words() {
    holds(for_c(), "words.c", &[]);
}

#[test]
fn loops() {
    holds(for_c(), "loops.c", &[]);
}

#[test]
fn tasks() {
    holds(for_c(), "tasks.c", &[]);
}

/// What happened: of 400 short threads with regions, the threads of their regions stayed, 1,687 of them.
#[test]
fn threads_that_end_leave_a_constant() {
    // In one arena, because the C library keeps some of each.
    holds(for_c(), "threads.c", &[("MALLOC_ARENA_MAX", "1")]);
}

/// What happened: a child that was forked while another thread looked at the machine waited for a lock of that look.
#[test]
fn forks_while_others_begin() {
    holds(for_c(), "forks.c", &[]);
}

/// What happened: the maker of an undeferred task waited for its event, which it was to fulfil itself behind the task.
#[test]
fn detached_tasks() {
    // gcc's own library waits, too: these programs hold with this one alone.
    holds(for_c(), "detached.c", &[]);
}

/// On this machine, and with a core group for each processor.
#[test]
fn taskloops() {
    holds(for_c(), "taskloops.c", &[]);
    let caches = view::CachesApart::new("taskloops").expect("files can be written");
    for compiler in for_c() {
        let Some(program) = compile(compiler, "taskloops.c") else { continue };
        for strategy in STRATEGIES.map(|strategy| strategy.name()) {
            let mut command = Command::new(&program);
            caches.show(&mut command);
            let (status, said) = run_command(&mut command, strategy, 3, &[]);
            assert_eq!((status, &said[..]), (Some(0), "ok\n"), "{}, {strategy}", compiler.name);
        }
    }
}

/// What happened: a taskloop with reductions and without an iteration freed what it had never made.
#[test]
fn constructs_without_an_iteration_or_with_few() {
    holds(for_c(), "empty.c", &[]);
}

/// What happened: 100 iterations in chunks of a billion became three billion, because the chunks' bounds had no room in
/// their type.
#[test]
fn loops_at_the_ends_of_their_types() {
    let gcc = for_c().iter().position(|compiler| compiler.name == "gcc");
    holds(gcc.map_or(&[], |at| &for_c()[at..=at]), "extremes.c", &[]);
}

/// Entry points of clang's library called by other compilers alone, or by programs themselves.
#[test]
fn entries_that_are_called_by_name() {
    let gcc = for_c().iter().position(|compiler| compiler.name == "gcc");
    holds(gcc.map_or(&[], |at| &for_c()[at..=at]), "entries.c", &[]);
}

#[test]
fn cancellation() {
    holds(for_c(), "cancel.c", &[("OMP_CANCELLATION", "true")]);
}

#[test]
fn processes() {
    holds(for_c(), "process.c", &[]);
}

#[test]
fn tools() {
    // The program's function is found because all programs are compiled to export their functions.
    holds(for_c(), "tool.c", &[]);
}

#[test]
fn placed_memory() {
    let preload = libraries();
    for distribution in ["fine", "coarse", "blocked", "on:0"] {
        let variables = [
            ("LD_PRELOAD", preload.as_str()),
            ("VICUS_DATA_DISTRIBUTION", distribution),
            ("VICUS_DATA_DISTRIBUTION_FROM", "65536"),
        ];
        // All distributions under one strategy, and all strategies with one distribution.
        if distribution == "fine" {
            holds(for_c(), "placed.c", &variables);
        } else {
            let program = for_c().first().and_then(|compiler| compile(compiler, "placed.c"));
            let Some(program) = program else { continue };
            assert_eq!(run(&program, "las", 2, &variables), (Some(0), "ok\n".to_owned()), "{distribution}");
        }
    }
}

/// Dense and sparse blocks with tasks that name their data: the sums equal those of the compiler's own runtime with one
/// thread.
#[test]
fn kernels() {
    for compiler in for_c() {
        let program = compile(compiler, "kernels.c").expect("it can be compiled");
        let expected = run(&program, "las", 1, &[("LD_PRELOAD", "")]);
        assert_eq!((expected.0, expected.1.lines().count()), (Some(0), 4), "{}", expected.1);
        for (number, strategy) in STRATEGIES.map(|strategy| strategy.name()).into_iter().enumerate() {
            for threads in sizes(number) {
                assert_eq!(run(&program, strategy, threads, &[]), expected, "{}, {strategy}, {threads}", compiler.name);
            }
        }
    }
}

/// Two processors for the tests, by the system's numbers; the same one twice if there is no other.
fn two_processors() -> [u32; 2] {
    let machine = vicus::this_machine().topology;
    let mut all = machine.usable_pus().map(|pu| pu.os_index);
    let first = all.next().expect("the tests run somewhere");
    [first, all.next().unwrap_or(first)]
}

#[test]
fn threads_are_bound_to_places() {
    let [a, b] = two_processors();
    let places = format!("{{{a}}},{{{b}}},{{{a},{b}}},{{{b}}}");
    holds(for_c(), "places.c", &[("OMP_PLACES", &places), ("OMP_PROC_BIND", "spread,close")]);
    let variables = [("OMP_PLACES", places.as_str()), ("OMP_PROC_BIND", "false"), ("IS_FREE", "1")];
    for compiler in for_c() {
        let program = compile(compiler, "places.c").expect("it can be compiled");
        let told = "ok\nlibvicus_omp: OMP_PLACES does nothing: the threads are not bound, as OMP_PROC_BIND says\n";
        assert_eq!(run(&program, "las", 2, &variables), (Some(0), told.to_owned()), "{}", compiler.name);
    }
}

/// The plan of a team has each seat on a processor of its thread's place: by the trace, whose seats are the plan's.
#[test]
fn a_plan_is_made_for_the_places_of_its_threads() {
    let Some(compiler) = for_c().first() else { return };
    let program = compile(compiler, "settings.c").expect("it can be compiled");
    let machine = vicus::this_machine().topology;
    let path = scratch("places");
    for strategy in STRATEGIES.map(|strategy| strategy.name()) {
        let [a, b] = two_processors();
        for places in [[a, b], [b, a], [b, b]] {
            let mut command = Command::new(&program);
            command.env("LD_PRELOAD", library()).env("VICUS_STRATEGY", strategy).env("VICUS_TRACE", &path);
            command.env("OMP_PROC_BIND", "close").env("OMP_PLACES", format!("{{{}}},{{{}}}", places[0], places[1]));
            let output = command.output().expect("the program was compiled");
            assert!(output.status.success() && output.stderr.is_empty(), "{strategy}: {output:?}");
            let bytes = fs::read(&path).expect("it writes a trace");
            let trace = vicus::trace::Trace::read_from(&mut &bytes[..]).expect("a trace can be read");
            let seats = trace.header().seats.iter().map(|seat| machine.pus[seat.pu.index()].os_index);
            assert_eq!(seats.collect::<Vec<_>>(), places, "{strategy}");
        }
    }
    let _ = fs::remove_file(path);
}

/// The trace of a program keeps its last events with sums of those before, or those of a time before its end.
#[test]
fn a_trace_keeps_the_last_events_or_those_of_a_time() {
    let path = scratch("kept-trace");
    for compiler in for_c() {
        let program = compile(compiler, "tasks.c").expect("it can be compiled");
        let traced = |variables: &[(&str, &str)]| {
            let mut command = Command::new(&program);
            command.env("LD_PRELOAD", library()).env("VICUS_TRACE", &path).env("OMP_NUM_THREADS", "2");
            let output = command.envs(variables.iter().copied()).output().expect("the program was compiled");
            let bytes = fs::read(&path).expect("it writes a trace");
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            (vicus::trace::Trace::read_from(&mut &bytes[..]).expect("a trace can be read"), told)
        };
        let (trace, told) = traced(&[("VICUS_TRACE_EVENTS", "50"), ("VICUS_TRACE_ROLLING", "1")]);
        let header = trace.header();
        let dropped: u64 = header.earlier.iter().flatten().map(|part| part.events).sum();
        assert!(header.rolls && dropped > 0 && dropped == trace.lost(), "{dropped} of {}", trace.lost());
        assert!(told.contains("the trace has the last events"), "{told}");
        let (trace, told) = traced(&[("VICUS_TRACE_LAST_MS", "600000")]);
        assert_eq!((trace.header().last_ns, trace.lost()), (600_000_000_000, 0), "{told}");
        assert_eq!(trace.header().earlier.len(), 0);
    }
    let _ = fs::remove_file(path);
}

/// What happened: a program of Rodinia has a function `read`, which was called where a file was to be read, for ever.
#[test]
fn programs_may_have_functions_with_names_of_the_c_library() {
    holds(for_c(), "names.c", &[]);
}

/// What happened: two loops of a region with the same bounds had one memory, so each was dealt out as the other one had
/// been.
#[test]
fn each_loop_returns_to_where_it_was_itself() {
    for compiler in for_c() {
        let program = compile(compiler, "returning.c").expect("it can be compiled");
        assert_eq!(run(&program, "las", 2, &[]), (Some(0), "ok\n".to_owned()), "{}", compiler.name);
    }
}

/// There is no device: a target region runs on the host, in the order of its clauses.
#[test]
fn target_regions() {
    holds(for_c(), "targets.c", &[]);
    let Some(gcc) = for_c().iter().find(|compiler| compiler.name == "gcc") else { return };
    let program = compile(gcc, "targets.c").expect("it can be compiled");
    let (status, said) = run(&program, "las", 2, &[("OMP_TARGET_OFFLOAD", "mandatory")]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.starts_with("libvicus_omp: OMP_TARGET_OFFLOAD=mandatory, but "), "{said}");
}

#[test]
fn programs_in_fortran() {
    holds(for_fortran(), "fortran.f90", &[]);
    // flang's functions have arguments of 4 bytes alone.
    let gcc = for_fortran().iter().position(|compiler| compiler.name == "gfortran");
    let place = format!("{{{}}}", two_processors()[0]);
    holds(gcc.map_or(&[], |at| &for_fortran()[at..=at]), "fortran_8.f90", &[("OMP_PLACES", &place)]);
    holds(for_fortran(), "fortran_constructs.f90", &[]);
}

/// What happened: an event's handle was taken for its address. What a call answers by the compiler's own library, it
/// answers by this one.
#[test]
fn calls_of_fortran_s_module() {
    let Some(compiler) = for_fortran().iter().find(|compiler| compiler.name == "gfortran") else { return };
    let program = compile(compiler, "fortran_library.f90").expect("it can be compiled");
    let place = format!("{{{}}}", two_processors()[0]);
    for variables in [&[][..], &[("OMP_PLACES", place.as_str())]] {
        let own = run(&program, "las", 2, &[&[("LD_PRELOAD", "")], variables].concat());
        assert!(own.0 == Some(0) && own.1.lines().count() > 40, "{own:?}");
        for strategy in STRATEGIES.map(|strategy| strategy.name()) {
            for threads in [1, 2, 4, 8] {
                let answers = run(&program, strategy, threads, variables);
                assert_eq!(answers, own, "{strategy}, {threads} threads");
            }
        }
    }
}

#[test]
fn atomic_updates_by_calls() {
    holds(for_c(), "atomics.c", &[]);
}

/// Nests of loops with bounds that depend on each other, or with variables computed by the library: compilers for
/// Windows call these.
#[test]
fn collapsed_nests_by_calls() {
    holds(for_c(), "nests.c", &[]);
}

/// What happened: of 4 GiB of addresses that `ulimit -v` left, 2 GiB and more were reserved before the program had any.
#[test]
fn limited_addresses() {
    let Some(program) = for_c().first().and_then(|compiler| compile(compiler, "limited.c")) else { return };
    let (both, own) = (libraries(), library().display().to_string());
    for strategy in STRATEGIES.map(|strategy| strategy.name()) {
        for threads in [1, 2, 8] {
            for (preload, distribution) in [(&own, "standard"), (&both, "standard"), (&both, "fine")] {
                let limited = format!("ulimit -v 4194304; LD_PRELOAD={preload} exec {}", program.display());
                let mut command = Command::new("sh");
                let variables = [("LD_PRELOAD", ""), ("VICUS_DATA_DISTRIBUTION", distribution)];
                let (status, said) = run_command(command.args(["-c", &limited]), strategy, threads, &variables);
                let is_ok = status == Some(0) && said.starts_with("ok\n");
                assert!(is_ok, "{strategy}, {threads} threads, {preload}, {distribution}: {status:?}: {said}");
            }
        }
    }
}

#[test]
fn objects() {
    holds(for_cpp(), "objects.cpp", &[]);
}

/// Each line names the variable left out, and its expected form; the program runs as if it were not set.
/// Each is one line, and the program ends well.
#[test]
fn mistakes_of_a_program_are_told_of() {
    let both = libraries();
    for compiler in for_c() {
        let program = compile(compiler, "mistakes.c").expect("it can be compiled");
        let said = |which: &str, variables: &[(&str, &str)]| {
            let mut command = Command::new(&program);
            command.arg(which).env("LD_PRELOAD", &both).env("OMP_NUM_THREADS", "2").envs(variables.iter().copied());
            let output = command.output().expect("the program was compiled");
            assert!(output.status.success() && output.stdout == b"ok\n", "{which} by {}: {output:?}", compiler.name);
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        let checked = [("VICUS_CHECK", "1")];
        let placed = [checked[0], ("VICUS_DATA_DISTRIBUTION", "fine"), ("VICUS_DATA_DISTRIBUTION_FROM", "65536")];
        let tells = |which: &str, variables: &[(&str, &str)], end: &str| {
            let said = said(which, variables);
            let is_one_line =
                said.lines().count() == 1 && said.starts_with("libvicus_omp: ") && said.trim_end().ends_with(end);
            assert!(is_one_line, "{which} by {}: {said}", compiler.name);
        };
        tells("lock", &checked, ", which a task of thread 1 has set");
        tells("unset", &checked, ", which is not set");
        tells("nested", &[], ", which another task has set");
        // In a build with debug assertions worlds/machine refuses such a task.
        if !cfg!(debug_assertions) {
            tells("freed", &placed, ", in memory that was freed");
        }
        tells("unmapped", &checked, ", in memory that is not there");
        for which in ["lock", "unset", "freed", "unmapped"] {
            assert_eq!(said(which, &[]), "", "{which} by {}", compiler.name);
        }
        assert_eq!(said("", &checked), "", "{}", compiler.name);
    }
}

/// Places without a processor, and threads beyond the library's plans or the system's limit: a line, and the program
/// runs with the rest.
#[test]
fn what_can_not_be_had_is_told_of() {
    let Some(compiler) = for_c().first() else { return };
    let program = compile(compiler, "mistakes.c").expect("it can be compiled");
    let said = |shell: &str, variables: &[(&str, &str)]| {
        let mut command = Command::new("sh");
        command.args(["-c", shell, "sh"]).arg(&program).arg(library()).envs(variables.iter().copied());
        let output = command.output().expect("a shell is there");
        assert!(output.status.success() && output.stdout == b"ok\n", "{shell} {variables:?}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // gcc's own library is loaded as well, and prints its own messages about them.
        said.lines().filter(|line| line.starts_with("libvicus_omp: ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let only = |lines: Vec<String>, begin: &str| {
        assert!(lines.len() == 1 && lines[0].starts_with(begin), "{lines:?}");
    };
    let places = [("OMP_PLACES", "{1000}"), ("OMP_NUM_THREADS", "2")];
    only(
        said("exec env LD_PRELOAD=\"$2\" \"$1\" threads", &places),
        "libvicus_omp: OMP_PLACES={1000}: 1 places have no processor",
    );
    let unknown = [("OMP_PLACES", "corners"), ("OMP_NUM_THREADS", "2")];
    only(said("exec env LD_PRELOAD=\"$2\" \"$1\"", &unknown), "libvicus_omp: OMP_PLACES=corners is left out: ");
    let many = [("OMP_STACKSIZE", "1G")];
    only(said("ulimit -v 20000000; exec env LD_PRELOAD=\"$2\" \"$1\" threads", &many), "libvicus_omp: no more than ");
    assert!(said("exec env LD_PRELOAD=\"$2\" \"$1\" threads", &[("OMP_THREAD_LIMIT", "3")]).is_empty());
}

/// A file for a test.
fn scratch(name: &str) -> PathBuf {
    let path = vicus_testing::scratch(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = fs::remove_file(&path);
    path
}

/// For any end of the program: other threads sleep at their docks, or wait in the region whose thread ends the process.
#[test]
fn a_program_is_told_what_its_tasks_cost() {
    let (summary, trace) = (scratch("summary"), scratch("trace"));
    for compiler in for_c() {
        let program = compile(compiler, "report.c").expect("it can be compiled");
        for strategy in STRATEGIES.map(|strategy| strategy.name()) {
            for threads in [1, 2, 3, 8] {
                for end in ["return", "exit"] {
                    let what = format!("{}, {strategy}, {threads} threads, {end}", compiler.name);
                    let mut command = Command::new(&program);
                    command.arg(end).env("LD_PRELOAD", library()).env("VICUS_STRATEGY", strategy);
                    command.env("OMP_NUM_THREADS", threads.to_string());
                    command.env("VICUS_SUMMARY", &summary).env("VICUS_TRACE", &trace);
                    command.env("VICUS_SUMMARY_ALONE_MS", "1000000");
                    let output = command.output().expect("the program was compiled");
                    let shown = String::from_utf8_lossy(&output.stderr).into_owned();
                    assert!(output.status.success(), "{what}: {shown}");
                    assert_eq!(shown, "", "{what}");
                    let said = fs::read_to_string(&summary).expect("it writes a summary");
                    let has = |text: &str| assert!(said.contains(text), "{what}: no `{text}` in\n{said}");
                    has(&format!(", strategy {strategy}"));
                    has("vicus: 200 tasks, ");
                    has("work inflation 0.00");
                    if compiler.name == "gcc" {
                        has("100 addresses came without a length");
                        has(" region main._omp_fn.0\n");
                        has(" task main._omp_fn.1\n");
                    } else {
                        has("100 of 200 tasks say so");
                        has(" task .omp_task_entry.");
                    }
                    // The sums of the columns: work of tasks is at most all work.
                    let counts: u64 = said
                        .lines()
                        .filter(|line| line.contains(" task "))
                        .map(|line| {
                            line.split_whitespace().nth(3).and_then(|count| count.parse::<u64>().ok()).expect("a count")
                        })
                        .sum();
                    assert_eq!(counts, 200, "{what}:\n{said}");
                    let bytes = fs::read(&trace).expect("it writes a trace");
                    let trace = vicus::trace::Trace::read_from(&mut &bytes[..]).expect("a trace can be read");
                    assert_eq!(trace.check(), [], "{what}");
                    assert_eq!(trace.header().seats.len(), threads, "{what}");
                    assert!(trace.lost() == 0 && trace.merged().count() > 200, "{what}");
                    // Functions have their names in the trace as well.
                    let rows = trace.summary().boxes;
                    let task = if compiler.name == "gcc" { "main._omp_fn.1" } else { ".omp_task_entry." };
                    assert!(rows.iter().any(|row| row.type_name.starts_with(task)), "{what}: {rows:?}");
                    // The bytes named by its tasks are counted at the running thread.
                    let bytes: u64 = rows.iter().map(|row| row.near_bytes + row.far_bytes).sum();
                    assert!(bytes > 0 || compiler.name == "gcc", "{what}: {rows:?}");
                }
            }
        }
    }
    let _ = (fs::remove_file(summary), fs::remove_file(trace));
}

/// gcc names no lengths: a section is as long as the step from the one before, and the first one counts for the rest of
/// its page until the next one is named.
#[test]
fn the_sections_of_a_placed_block_are_known() {
    let Some(gcc) = for_c().iter().find(|compiler| compiler.name == "gcc") else { return };
    let program = compile(gcc, "sections.c").expect("it can be compiled");
    let (summary, trace) = (scratch("sections"), scratch("sections-trace"));
    let (preload, path, traced) = (libraries(), summary.display().to_string(), trace.display().to_string());
    for strategy in STRATEGIES.map(|strategy| strategy.name()) {
        for threads in [1, 2, 3, 8] {
            let variables = [
                ("LD_PRELOAD", preload.as_str()),
                ("VICUS_DATA_DISTRIBUTION", "blocked"),
                ("VICUS_DATA_DISTRIBUTION_FROM", "65536"),
                ("VICUS_SUMMARY", path.as_str()),
                ("VICUS_TRACE", traced.as_str()),
            ];
            let what = format!("{strategy}, {threads} threads");
            assert_eq!(run(&program, strategy, threads, &variables), (Some(0), "ok\n".to_owned()), "{what}");
            let said = fs::read_to_string(&summary).expect("it writes a summary");
            assert!(
                said.contains("32 addresses came without a length: 31 were given that of the section"),
                "{what}:\n{said}"
            );
            let line =
                said.lines().find(|line| line.contains("bytes that tasks say they use")).expect("there is such a line");
            let numbers: Vec<usize> =
                line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
            // Placed blocks begin with a page.
            assert_eq!(numbers[..3].iter().sum::<usize>(), 31 * 65536 + 4096, "{what}:\n{said}");
            assert_eq!(numbers[3..], [32, 32], "{what}:\n{said}");
            // The trace says the same of the seats of the tasks.
            let bytes = fs::read(&trace).expect("it writes a trace");
            let rows = vicus::trace::Trace::read_from(&mut &bytes[..]).expect("a trace can be read").summary().boxes;
            let sum = |of: fn(&vicus::kit::recording::BoxSummary) -> u64| rows.iter().map(of).sum::<u64>() as usize;
            let told = [sum(|row| row.near_bytes), sum(|row| row.far_bytes)];
            assert_eq!(told, numbers[..2], "{what}:\n{said}");
        }
    }
    let _ = (fs::remove_file(summary), fs::remove_file(trace));
}

/// What happened: of 32 sections of 4 MB, gcc's first pass gave the first task all the rest, and without placed memory
/// no task any bytes.
#[test]
fn a_first_pass_over_sections_has_their_lengths() {
    let Some(gcc) = for_c().iter().find(|compiler| compiler.name == "gcc") else { return };
    let program = compile(gcc, "sweep.c").expect("it can be compiled");
    let summary = scratch("sweep");
    let (own, both) = (library().display().to_string(), libraries());
    let cases = [(own.as_str(), ""), (both.as_str(), ""), (both.as_str(), "blocked"), (both.as_str(), "coarse")];
    for ((preload, distribution), strategy) in cases.into_iter().zip(["las", "footprint", "vicus", "vicinity"]) {
        for passes in [1, 3] {
            let mut command = Command::new(&program);
            command.arg(passes.to_string()).env("LD_PRELOAD", preload).env("VICUS_DATA_DISTRIBUTION", distribution);
            command.env("VICUS_STRATEGY", strategy).env("OMP_NUM_THREADS", "2").env("VICUS_SUMMARY", &summary);
            let output = command.output().expect("the program was compiled");
            let what = format!("{preload} {distribution} {strategy}, {passes} passes");
            assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{what}");
            let said = fs::read_to_string(&summary).expect("it writes a summary");
            let all = 32 * passes;
            let known = format!("{all} addresses came without a length: {} were given that of the section", all - 1);
            assert!(said.contains(&known), "{what}:\n{said}");
            let line =
                said.lines().find(|line| line.contains("bytes that tasks say they use")).expect("there is such a line");
            let numbers = line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<usize>().ok());
            let bytes: usize = numbers.take(3).sum();
            // All but the first, which counts for the rest of its page.
            let sections = (all - 1) << 22;
            assert!((sections + 1..=sections + 4096).contains(&bytes), "{what}: {bytes}\n{said}");
        }
    }
    let _ = fs::remove_file(summary);
}

/// The paper's Listing 2: by the compiler's own library as well, with the C library's memory.
#[test]
fn memory_lies_as_its_call_says() {
    let (own, both) = (library().display().to_string(), libraries());
    for compiler in for_c() {
        let program = compile(compiler, "listing_2.c").expect("it can be compiled");
        for preload in ["", &own, &both] {
            for distribution in ["", "standard", "fine", "coarse", "blocked", "chequered"] {
                let mut command = Command::new(&program);
                command.arg(distribution).env("LD_PRELOAD", preload).env("OMP_DATA_DISTRIBUTION", distribution);
                let output = command.env("OMP_NUM_THREADS", "2").output().expect("the program was compiled");
                let what = format!("{} with {preload} and {distribution}", compiler.name);
                let said = String::from_utf8_lossy(&output.stderr);
                assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{what}: {said}");
                let expected = match distribution {
                    "" | "standard" => "",
                    _ if preload.is_empty() => "",
                    "chequered" => "OMP_DATA_DISTRIBUTION is left out: ",
                    _ if preload == own => "load libvicus_malloc.so before libvicus_omp.so",
                    _ => "",
                };
                let lines = usize::from(!expected.is_empty());
                let policy = 2 * usize::from(!preload.is_empty());
                assert!(said.contains(expected) && said.lines().count() == lines + policy, "{what}: {said}");
                assert_eq!(said.contains("there is no policy 99"), policy == 2, "{what}: {said}");
            }
        }
    }
}

/// On the machine as it is: guests with several nodes run the same program (`./dev test numa`).
#[test]
fn memory_moves_to_nodes_and_tasks() {
    let nodes = vicus::this_machine().topology.nodes.len().to_string();
    for compiler in for_c() {
        let program = compile(compiler, "nodes.c").expect("it can be compiled");
        for strategy in ["las", "footprint", "vicus"] {
            for threads in ["1", "2", "8"] {
                let mut command = Command::new(&program);
                command
                    .arg(&nodes)
                    .env("LD_PRELOAD", libraries())
                    .env("VICUS_STRATEGY", strategy)
                    .env("OMP_PROC_BIND", "true");
                let output = command.env("OMP_NUM_THREADS", threads).output().expect("the program was compiled");
                let said = String::from_utf8_lossy(&output.stderr);
                let what = format!("{}, {strategy}, {threads} threads: {said}", compiler.name);
                assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{what}");
            }
        }
    }
}

/// Functions listed in a file use the first item of their clause intensely; a wrong file is reported.
#[test]
fn intensely_used_data_are_listed_by_function() {
    let Some(gcc) = for_c().iter().find(|compiler| compiler.name == "gcc") else { return };
    let program = compile(gcc, "sweep.c").expect("it can be compiled");
    let list = scratch("intense");
    fs::write(&list, "main._omp_fn.1 # the sections\n0x10\n").expect("a file can be written");
    let path = list.display().to_string();
    for strategy in ["vicinity", "vicus"] {
        let (status, said) = run(&program, strategy, 2, &[("VICUS_INTENSE", path.as_str())]);
        // On processors with one cache in common, it does nothing, which is told of.
        let lines = said.lines().filter(|line| !line.starts_with("libvicus_omp: VICUS_INTENSE does nothing: "));
        assert_eq!((status, lines.collect::<Vec<_>>()), (Some(0), vec!["ok"]), "{said}");
    }
    fs::write(&list, "0xno\n").expect("a file can be written");
    let (_, said) = run(&program, "vicinity", 2, &[("VICUS_INTENSE", path.as_str())]);
    assert!(said.contains("is left out: line 1: `0xno` is no number"), "{said}");
    let _ = fs::remove_file(list);
}

/// A file of `vicus learn` sets the treatment of each type of tasks, and the summary counts its effect. A type unknown
/// to the file is reported once.
#[test]
fn types_of_tasks_are_dealt_as_a_learned_file_says() {
    let machine = vicus::this_machine().topology;
    let (list, summary) = (scratch("learned"), scratch("learned-summary"));
    for compiler in for_c() {
        let program = compile(compiler, "two_types.c").expect("it can be compiled");
        let run = |tasks: &[(&str, Treatment)]| {
            let learned = Learned {
                setting: "footprint".parse().unwrap(),
                distribution: None,
                tasks: tasks.iter().map(|&(name, treatment)| (name.to_owned(), treatment)).collect(),
                blocks: Vec::new(),
                notes: Default::default(),
            };
            learned.write(&list, &machine).expect("a file can be written");
            let mut command = Command::new(&program);
            command.env("LD_PRELOAD", library()).env("VICUS_LEARNED", &list);
            command.env("OMP_NUM_THREADS", "4").env("VICUS_SUMMARY", &summary);
            let output = command.output().expect("the program was compiled");
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{}: {told}", compiler.name);
            (told, fs::read_to_string(&summary).expect("it writes a summary"))
        };
        let (told, said) = run(&[]);
        assert_eq!(told, "", "{}", compiler.name);
        assert!(said.contains("strategy footprint") && !said.contains("by the first of these"), "{said}");
        let tasks: Vec<(&str, &str)> = (said.lines())
            .filter_map(|line| {
                let (counts, name) = line.split_once(" task ")?;
                Some((name.split(" (").next()?, counts.split_whitespace().nth(3)?))
            })
            .collect();
        let of = |count: &str| tasks.iter().find(|(_, own)| *own == count).map(|(name, _)| *name).expect("such tasks");
        let (parts, readers) = (of("32"), of("16"));
        let both = [(parts, Treatment::Dealt), (readers, Treatment::Undealt)];
        let (told, said) = run(&both);
        assert_eq!(told, "", "{}", compiler.name);
        assert!(said.contains("16 tasks not dealt by their data, 0 by the first of these alone"), "{said}");
        let (_, said) = run(&[(parts, Treatment::Undealt), (readers, Treatment::Intense)]);
        assert!(said.contains("32 tasks not dealt by their data, 16 by the first of these alone"), "{said}");
        let (told, said) = run(&both[..1]);
        let expected = format!("says nothing of tasks of `{readers}`: it was learned from other runs");
        assert!(told.contains(&expected) && told.lines().count() == 1, "{told}");
        assert!(said.contains("0 tasks not dealt"), "{said}");
    }
    let _ = (fs::remove_file(list), fs::remove_file(summary));
}

/// Options that leave threads without work are reported once; no strategy is by its defaults.
#[test]
fn options_that_idle_threads_are_warned_of() {
    let program = compile(&for_c()[0], "two_types.c").expect("it can be compiled");
    let caches = view::CachesApart::new("idle").expect("files can be written");
    let told = |strategy: &str| {
        let mut command = Command::new(&program);
        command.env("LD_PRELOAD", library()).env("VICUS_STRATEGY", strategy).env("OMP_NUM_THREADS", "4");
        if !caches.show(&mut command) {
            return None;
        }
        let output = command.output().expect("it was compiled");
        assert!(output.status.success(), "{output:?}");
        Some(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for strategy in STRATEGIES.map(|strategy| strategy.name()) {
        assert!(told(strategy).is_none_or(|said| said.is_empty()), "{strategy}");
    }
    let Some(said) = told("vicinity:undealt=beside,reach=1") else { return };
    assert!(said.contains("libvicus_omp: strategy vicinity:") && said.contains("leaves threads idle"), "{said}");
    assert!(said.contains("leave out options") && said.lines().count() == 1, "{said}");
}

#[test]
fn large_blocks_of_the_c_library_come_and_go() {
    let preload = libraries();
    holds(for_c(), "blocks.c", &[("LD_PRELOAD", preload.as_str())]);
}

/// All kinds of tasks, teams within teams, cancelled ones, and forks: their traces break no rule.
#[test]
fn traces_of_all_constructs_are_sound() {
    let trace = scratch("sound");
    for compiler in for_c() {
        for file in ["tasks.c", "cancel.c", "regions.c", "process.c"] {
            let program = compile(compiler, file).expect("it can be compiled");
            for strategy in STRATEGIES.map(|strategy| strategy.name()) {
                let path = trace.display().to_string();
                let variables = [("VICUS_TRACE", path.as_str()), ("OMP_CANCELLATION", "true")];
                let (status, said) = run(&program, strategy, 3, &variables);
                let what = format!("{file} by {}, {strategy}: {said}", compiler.name);
                assert_eq!(status, Some(0), "{what}");
                let bytes = fs::read(&trace).expect("it writes a trace");
                let trace = vicus::trace::Trace::read_from(&mut &bytes[..]).expect("a trace can be read");
                assert_eq!(trace.check(), [], "{what}");
                if file == "tasks.c" && compiler.name == "gcc" {
                    // Tasks that run at once have their functions' names as well, when they spawn others.
                    let rows = trace.summary().boxes;
                    let spawned = |name: &str| -> u64 {
                        rows.iter().filter(|row| row.type_name.starts_with(name)).map(|row| row.spawned).sum()
                    };
                    let (named, others) = (spawned("fib._omp_fn."), spawned("(task)"));
                    assert!(named > 1000 && others < 1000, "{what}: {named} by tasks with names, {others} by others");
                }
            }
        }
    }
    let _ = fs::remove_file(trace);
}

/// A node unknown to the machine, copies of written memory, and a missing library: a line, and the C library's memory.
#[test]
fn memory_that_can_not_be_placed_is_told_of() {
    let Some(compiler) = for_c().first() else { return };
    let program = compile(compiler, "lines.c").expect("it can be compiled");
    let both = libraries();
    let alone = both.split(':').next().expect("it is the first").to_owned();
    let said = |preload: &str, distribution: &str| {
        let mut command = Command::new(&program);
        command.env("LD_PRELOAD", preload).env("VICUS_DATA_DISTRIBUTION", distribution);
        let output = command.output().expect("the program was compiled");
        assert!(output.status.success() && output.stdout == b"ok\n", "{distribution}: {output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(said(&both, "fine"), "");
    assert_eq!(said(&both, "standard"), "");
    let elsewhere = said(&both, "on:77");
    assert!(
        elsewhere.starts_with("libvicus_omp: some memory is not placed: ") && elsewhere.lines().count() == 1,
        "{elsewhere}"
    );
    assert!(said(&both, "replicated").starts_with("libvicus_omp: VICUS_DATA_DISTRIBUTION=replicated is left out: "));
    let alone = said(&alone, "fine");
    assert!(
        alone.starts_with("libvicus_omp: libvicus_malloc.so places nothing") && alone.lines().count() == 1,
        "{alone}"
    );
}

/// The output of a program. It must end well.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out.into_owned()
}

/// Binaries of gcc and clang find it by the names of their own libraries; other programs are linked with it, by name,
/// pkg-config and CMake.
#[test]
#[cfg_attr(debug_assertions, ignore = "the same in every build; the optimised one has it")]
fn it_is_installed_under_the_names_by_which_programs_ask() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let prefix = scratch("in stalled");
    let from = library().parent().expect("it lies in a folder").to_owned();
    let mut install = Command::new("bash");
    output(install.arg(root.join("dev")).args(["install", "--library"]).arg(&from).arg("--prefix").arg(&prefix));
    let lib = prefix.join("lib");
    let run = |program: &Path| {
        let said = output(Command::new(program).env("LD_LIBRARY_PATH", &lib).env("OMP_NUM_THREADS", "3"));
        assert_eq!(said, "ok\n", "{}", program.display());
    };
    let source = programs().join("installed.c");
    for compiler in for_c() {
        run(&compile(compiler, "installed.c").expect("it can be compiled"));
        let (object, program) = (prefix.join("installed.o"), prefix.join("linked"));
        output(Command::new(compiler.command).args(["-O1", "-fopenmp", "-c"]).arg(&source).arg("-o").arg(&object));
        let mut link = Command::new(compiler.command);
        output(link.arg(&object).arg("-L").arg(&lib).args(["-lvicus_omp", "-ldl", "-o"]).arg(&program));
        run(&program);
    }
    let Some(gcc) = for_c().first() else { return };
    if Command::new("pkg-config").arg("--version").output().is_ok() {
        let program = prefix.join("by-pkg-config");
        // A shell, because the folder has a space in its name.
        let line = "set -e; object=$1.o; flags=$(pkg-config --cflags vicus-omp); libs=$(pkg-config --libs vicus-omp); \
                    eval \"$3 -O1 $flags -c '$2' -o '$object'\"; eval \"$3 '$object' $libs -ldl -o '$1'\"";
        let mut build = Command::new("sh");
        build.args(["-c", line, "sh"]).arg(&program).arg(&source).arg(gcc.command);
        output(build.env("PKG_CONFIG_PATH", lib.join("pkgconfig")));
        run(&program);
    } else {
        eprintln!("left out: pkg-config is not there");
    }
    if Command::new("cmake").arg("--version").output().is_ok() {
        let project = prefix.join("project");
        fs::create_dir_all(&project).expect("a folder can be made");
        let text = format!(
            "cmake_minimum_required(VERSION 3.14)\nproject(consumer LANGUAGES C)\n\
             find_package(vicus 0.2 REQUIRED COMPONENTS omp)\nadd_executable(consumer \"{}\")\n\
             target_link_libraries(consumer PRIVATE vicus::omp dl)\n",
            source.display()
        );
        fs::write(project.join("CMakeLists.txt"), text).expect("a file can be written");
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(&project).arg("-B").arg(project.join("build"));
        output(
            configure
                .arg(format!("-DCMAKE_C_COMPILER={}", gcc.command))
                .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())),
        );
        output(Command::new("cmake").arg("--build").arg(project.join("build")));
        run(&project.join("build/consumer"));
    } else {
        eprintln!("left out: CMake is not there");
    }
    // Another runtime with this name is not replaced.
    let gomp = lib.join("libgomp.so.1");
    fs::remove_file(&gomp).expect("it is a link");
    fs::write(&gomp, "another").expect("a file can be written");
    let mut again = Command::new("bash");
    let said =
        output(again.arg(root.join("dev")).args(["install", "--library"]).arg(&from).arg("--prefix").arg(&prefix));
    assert!(said.contains("is another runtime") && fs::read(&gomp).expect("it is there") == b"another", "{said}");
    let _ = fs::remove_dir_all(prefix);
}

/// A program linked with gcc's or clang's library asks for versions; the loader refuses a library that lacks some.
#[test]
#[cfg_attr(debug_assertions, ignore = "the same in every build; the optimised one has it")]
fn names_have_the_versions_that_programs_ask_for() {
    let Ok(output) = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output() else {
        return eprintln!("left out: nm is not there");
    };
    let said = String::from_utf8(output.stdout).expect("names are text");
    let names: Vec<&str> = said.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let expected = [
        "GOMP_parallel@@GOMP_4.0",
        "GOMP_task@@GOMP_2.0",
        "GOMP_taskloop@@GOMP_4.5",
        "GOMP_loop_start@@GOMP_5.0",
        "GOMP_alloc@@GOMP_5.0.1",
        "GOMP_scope_start@@GOMP_5.1",
        "GOMP_taskwait_depend_nowait@@GOMP_5.1.1",
        "GOMP_barrier@@GOMP_1.0",
        "GOMP_taskyield@@GOMP_3.0",
        "GOMP_doacross_wait@@GOMP_4.5",
        "GOMP_doacross_ull_wait@@GOMP_4.5",
        "omp_get_thread_num@@OMP_1.0",
        "omp_get_thread_num@VERSION",
        "omp_get_thread_num_@@OMP_1.0",
        "omp_get_wtime@@OMP_2.0",
        "omp_init_lock@@OMP_3.0",
        "omp_init_lock@OMP_1.0",
        "omp_in_final@@OMP_3.1",
        "omp_get_num_places@@OMP_4.5",
        "omp_fulfill_event@@OMP_5.0.1",
        "omp_calloc@@OMP_5.0.2",
        "omp_display_env@@OMP_5.1",
        "omp_in_explicit_task@@OMP_5.2",
        "__kmpc_fork_call@@VERSION",
        "__kmpc_omp_task@@VERSION",
        "__kmpc_dispatch_next_8u@@VERSION",
    ];
    for name in expected {
        assert!(names.contains(&name), "{name} is not among {} names", names.len());
    }
    // All names of gcc's own library, if it is there, except OpenACC's and those for its plugins.
    let gomp = Command::new("gcc").arg("-print-file-name=libgomp.so.1").output();
    let gomp = gomp.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    match Command::new("nm").args(["-D", "--defined-only"]).arg(&gomp).output() {
        Ok(output) if output.status.success() => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let theirs = said.lines().filter_map(|line| line.split_whitespace().last());
            let missing: Vec<&str> = theirs
                .filter(|name| ["GOMP_", "omp_"].iter().any(|begin| name.starts_with(begin)))
                .filter(|name| name.contains('@') && !name.starts_with("GOMP_PLUGIN_"))
                .filter(|name| !names.contains(name))
                .collect();
            assert!(missing.is_empty(), "{gomp} has what is missing here: {missing:?}");
        }
        _ => eprintln!("left out: gcc's own library is not there"),
    }
    // All that libomp 19 has, but for names with a reason behind them.
    let bare: BTreeSet<&str> = names.iter().filter_map(|name| name.split('@').next()).collect();
    let (mut missing, mut needless) = (Vec::new(), Vec::new());
    for line in include_str!("libomp-19.txt").lines().filter(|line| !line.starts_with('#')) {
        match line.split_once(' ') {
            None if !bare.contains(line) => missing.push(line),
            Some((name, _)) if bare.contains(name) => needless.push(name),
            _ => {}
        }
    }
    assert!(missing.is_empty(), "libomp has what is missing here: {missing:?}");
    assert!(needless.is_empty(), "these names are there, and libomp-19.txt says why they are not: {needless:?}");
    let output = Command::new("readelf").args(["-d", "-W"]).arg(library()).output().expect("where nm is, readelf is");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("[libvicus_omp.so]") && said.contains("NODELETE"), "{said}");
    // It frees the blocks it has given out.
    let malloc = library().with_file_name("libvicus_malloc.so");
    let output = Command::new("readelf").args(["-d", "-W"]).arg(malloc).output().expect("where nm is, readelf is");
    assert!(String::from_utf8_lossy(&output.stdout).contains("NODELETE"), "{output:?}");
}
