//! A world that refuses memory or system calls: programs run on, and a request that can't fails alone. Each case is a
//! process.

mod filter;

use filter::refuse;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::time::Duration;
use vicus::{
    BoxError, BoxModel, Column, Envelope, EnvelopeBuilder, Grow, ModelBuilder, Runtime, STRATEGIES, Schema, Turn, Type,
    library,
};
use vicus_testing::run_within;

#[global_allocator]
static ALLOCATOR: vicus::Allocator = vicus::Allocator::new();

/// Runs a test of this file again, in a process changed by `prepare`, with a time limit.
fn child(test: &str, case: &str, prepare: impl Fn() -> std::io::Result<()> + Send + Sync + 'static) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env("VICUS_TEST_CASE", case);
    #[expect(unsafe_code, reason = "limits a process before it begins")]
    // SAFETY: between fork and exec, only system calls are made.
    unsafe {
        command.pre_exec(prepare);
    }
    run_within(&mut command, Duration::from_secs(120)).unwrap().in_time(&format!("{test}, {case}"))
}

/// The case for this process, if another test has started it.
fn case() -> Option<String> {
    std::env::var("VICUS_TEST_CASE").ok()
}

fn numbers() -> Schema {
    Schema::new([("n", Type::U64)])
}

/// Runs a source with this code, and returns its outcome.
fn run(
    runtime: &Runtime,
    schema: &Schema,
    act: impl FnMut(&mut Turn<'_>) -> Result<(), BoxError> + Clone + Send + Sync + 'static,
) -> Result<(), vicus::FlowError> {
    let mut net = ModelBuilder::new("memory");
    let source = net.source(BoxModel::new("greedy", move || act.clone()).output(schema));
    let end = net.add(library::hold(schema));
    net.connect(source.output(0), end.input(0));
    net.end(end.output(0));
    runtime.submit(&net.build().unwrap()).wait().map(drop)
}

/// The cases of refused memory.
fn greedy(case: &str, runtime: &Runtime) -> Result<(), vicus::FlowError> {
    let text = Schema::new([("text", Type::Text)]);
    match case {
        "column" => run(runtime, &numbers(), |turn| {
            turn.take(0);
            let mut builder = EnvelopeBuilder::new(&numbers());
            builder.reserve(turn, 1 << 30);
            unreachable!("it is more than this process may have");
        }),
        "vector" => run(runtime, &numbers(), |_| {
            Vec::<u64>::zeroed(1 << 30)?;
            unreachable!("it is more than this process may have");
        }),
        "text" => run(runtime, &text, |turn| {
            let long = "long ".repeat(1 << 20);
            turn.send(0, Envelope::new([std::iter::repeat_n(&long, 1 << 10).collect::<Column>()]));
            unreachable!("it is more than this process may have");
        }),
        // One after the other, until there is none.
        "many texts" => {
            let schema = text.clone();
            run(runtime, &text, move |turn| {
                turn.take(0);
                let mut builder = EnvelopeBuilder::new(&schema);
                let long = "long ".repeat(1 << 20);
                (0..8).for_each(|_| builder.push_text(turn, 0, &long));
                let envelope = builder.finish(turn);
                turn.send(0, envelope);
                turn.run_again();
                Ok(())
            })
        }
        _ => run(runtime, &numbers(), |turn| {
            turn.take(0);
            let mut builder = EnvelopeBuilder::new(&numbers());
            builder.reserve(turn, 8 << 20);
            builder.u64s(0).repeat(7, 8 << 20);
            let envelope = builder.finish(turn);
            turn.send(0, envelope);
            turn.run_again();
            Ok(())
        }),
    }
}

#[test]
fn memory_that_cannot_be_had_fails_its_request_alone() {
    // What happened: `memory allocation of 134217728 bytes failed`, and the process was gone, with all requests in it.
    const CASES: [&str; 5] = ["column", "vector", "text", "many", "many texts"];
    if let Some(case) = case() {
        let runtime = Runtime::builder().threads(2).quiet().start();
        for _ in 0..2 {
            let error = greedy(&case, &runtime).unwrap_err().to_string();
            println!("\nsaid {error}");
        }
        run(&runtime, &numbers(), |turn| {
            turn.send(0, Envelope::new([Column::from(vec![1u64; 1000])]));
            turn.send_pill(0);
            Ok(())
        })
        .unwrap();
        return println!("\nruns on");
    }
    for name in CASES {
        let limit = || {
            let most = libc::rlimit { rlim_cur: 5 << 29, rlim_max: 5 << 29 };
            #[expect(unsafe_code, reason = "as ulimit -v does")]
            // SAFETY: it reads a structure.
            let done = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const most) };
            if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        };
        let output = child("memory_that_cannot_be_had_fails_its_request_alone", name, limit);
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("runs on"), "{name}: {text}\n{errors}");
        let said: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("said ")).collect();
        assert_eq!(said.len(), 2, "{name}: {text}");
        for error in said {
            let names = error.starts_with("box greedy failed: ")
                || (name.starts_with("many") && error.starts_with("box hold failed: "));
            assert!(names && error.ends_with("iB of memory can't be had"), "{name}: {error}");
        }
    }
}

/// A system call, by name, and the part that reports its refusal.
const CALLS: [(&str, libc::c_long); 7] = [
    ("sched_getaffinity", libc::SYS_sched_getaffinity),
    ("sched_setaffinity", libc::SYS_sched_setaffinity),
    ("membarrier", libc::SYS_membarrier),
    ("madvise", libc::SYS_madvise),
    ("mbind", libc::SYS_mbind),
    ("set_mempolicy", libc::SYS_set_mempolicy),
    ("move_pages", libc::SYS_move_pages),
];

/// Calls needed by a runtime on every machine, so it reports them.
const TOLD: [&str; 4] = ["sched_getaffinity", "sched_setaffinity", "membarrier", "madvise"];

#[test]
fn a_refused_system_call_is_said_once_and_no_program_waits_for_it() {
    // What happened: with `sched_getaffinity` refused, the mask was asked for again and again, and no program ever
    // ended.
    if let Some(case) = case() {
        for strategy in STRATEGIES.iter().filter(|_| case != "none") {
            let runtime = Runtime::builder().strategy(strategy.name().parse().unwrap()).threads(2).quiet().start();
            let warnings = runtime.warnings();
            let different: BTreeSet<&String> = warnings.iter().collect();
            assert_eq!(different.len(), warnings.len(), "{warnings:?}");
            warnings.iter().for_each(|warning| println!("\nsaid {warning}"));
            let sums = runtime.run(|| {
                let mut values = vec![0u64; 100_000];
                vicus::tasks::for_each_mut(&mut values, |index, value| *value = index as u64);
                vicus::tasks::join(|| values[..50_000].iter().sum::<u64>(), || values[50_000..].iter().sum::<u64>())
            });
            assert_eq!(sums.0 + sums.1, 99_999 * 50_000);
            // Memory freed and taken again is zero.
            for _ in 0..3 {
                let mut large = vec![0u64; 4 << 20];
                assert!(large.iter().all(|&value| value == 0));
                large.fill(7);
            }
            run(&runtime, &numbers(), |turn| {
                turn.send(0, Envelope::new([Column::from(vec![1u64; 1000])]));
                turn.send_pill(0);
                Ok(())
            })
            .unwrap();
        }
        return println!("\nruns on");
    }
    const NAME: &str = "a_refused_system_call_is_said_once_and_no_program_waits_for_it";
    let output = child(NAME, "none", || refuse(&[libc::SYS_swapoff], libc::EPERM));
    if !output.status.success() {
        return println!("skipped: this kernel takes no filters: {}", String::from_utf8_lossy(&output.stderr));
    }
    let together: Vec<&str> = CALLS.iter().map(|(name, _)| *name).collect();
    let cases = CALLS.iter().map(|(name, _)| vec![*name]).chain([together]);
    for (round, names) in cases.enumerate() {
        let error = if round % 2 == 0 { libc::EPERM } else { libc::ENOSYS };
        let numbers: Vec<libc::c_long> =
            CALLS.iter().filter(|call| names.contains(&call.0)).map(|call| call.1).collect();
        let output = child(NAME, &names.join(" "), move || refuse(&numbers, error));
        let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && text.contains("\nruns on"), "{names:?}: {text}\n{errors}");
        for name in TOLD.iter().filter(|name| names.contains(name)) {
            let says = |line: &str| {
                line.starts_with("said ")
                    && (line.contains(name) || (*name == "sched_setaffinity" && line.contains("not pinned")))
            };
            assert!(text.lines().any(says), "{name}: {text}");
        }
    }
}
