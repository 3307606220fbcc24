//! `vicus run`: an OpenMP program, on the scheduler of Vicus.

use crate::messages::tell;
use crate::recording::trace_span;
use crate::{LIBRARIES, strategy};
use anyhow::{Context as _, bail, ensure};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::num::NonZero;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use vicus::memory::Distribution;
use vicus::{DEFAULT, Setting, environment};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The strategy of its teams, such as `nls` or `steal:spin_ns=2000`; by default the one of `VICUS_STRATEGY`, else
    /// `vicus`.
    #[arg(long, value_name = "STRATEGY")]
    strategy: Option<Setting>,
    /// Prints on standard error, when the program ends: the number of tasks and the distances they were taken from, the
    /// nodes of the bytes they name, the working and idle time of threads, and the time of each region and each task of
    /// the source.
    #[arg(long)]
    summary: bool,
    /// With the work inflation in the summary: how much longer all threads together work than one thread alone. So the
    /// program is run once before, with one thread; its output then is left out.
    #[arg(long, requires = "summary")]
    inflation: bool,
    /// Records the events of all threads in regions, and writes them to this file when the program ends; see
    /// `vicus trace`.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// How many events of each thread the trace has room for, 32 bytes each; by default `VICUS_TRACE_EVENTS`, else
    /// 1048576. What comes later is left out, and counted.
    #[arg(long, value_name = "N", requires = "trace")]
    trace_events: Option<NonZero<usize>>,
    /// Keeps the last events in place of the first ones, and sums of those before.
    #[arg(long, requires = "trace")]
    trace_rolling: bool,
    /// Keeps the events of so much time before the program's end, such as 10m or 500ms, and sums of the time before
    /// that; the last events alone if `--trace-events` has no room for more.
    #[arg(long, value_name = "TIME", value_parser = trace_span, requires = "trace", conflicts_with = "trace_rolling")]
    trace_last: Option<Duration>,
    /// The distribution of the program's memory: fine, coarse, blocked, on:N or weighted:A,B,...; by default the one of
    /// `VICUS_DATA_DISTRIBUTION` or `OMP_DATA_DISTRIBUTION`, else the machine's. Small blocks are left to the C
    /// library.
    #[arg(long, value_name = "DISTRIBUTION")]
    data_distribution: Option<Distribution>,
    /// The least size of blocks with this distribution, at least 4096; by default `VICUS_DATA_DISTRIBUTION_FROM`, else
    /// 131072.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(4096..))]
    data_distribution_from: Option<u64>,
    /// The program, compiled by gcc or clang with -fopenmp, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Loaded before the compiler's own library; and the second before the first, if memory is placed.
const LIBRARY: &str = "libvicus_omp.so";
const MALLOC: &str = "libvicus_malloc.so";

/// Becomes the program.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let setting = strategy::one_or(args.strategy.as_ref(), DEFAULT)?;
    let is_placed = args.data_distribution.is_some()
        || environment::distribution().is_some()
        || environment::distributions_of().is_some()
        || environment::next_touch().is_some();
    let mut preload = OsString::new();
    if is_placed {
        preload.push(library(MALLOC)?);
        preload.push(":");
    }
    preload.push(library(LIBRARY)?);
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let (program, arguments) = args.program.split_first().expect("one is required");
    let mut command = Command::new(program);
    command.args(arguments).env("LD_PRELOAD", preload).env("VICUS_STRATEGY", setting.to_string());
    if let Some(distribution) = &args.data_distribution {
        command.env("VICUS_DATA_DISTRIBUTION", distribution.to_string());
    }
    if let Some(from) = args.data_distribution_from {
        command.env("VICUS_DATA_DISTRIBUTION_FROM", from.to_string());
    }
    if let Some(path) = &args.trace {
        // Now rather than when all is over. The program may go to another folder.
        fs::File::create(path).with_context(|| format!("the trace can't be written to {}", path.display()))?;
        command.env("VICUS_TRACE", fs::canonicalize(path)?);
        if let Some(events) = args.trace_events {
            command.env("VICUS_TRACE_EVENTS", events.to_string());
        }
        if args.trace_rolling {
            command.env("VICUS_TRACE_ROLLING", "1");
        }
        if let Some(last) = args.trace_last {
            command.env("VICUS_TRACE_LAST_MS", last.as_millis().max(1).to_string());
        }
    }
    if args.inflation {
        let alone_ms = work_alone_ms(&args.program, &command)?;
        command.env("VICUS_SUMMARY_ALONE_MS", alone_ms);
    }
    if args.summary {
        command.env("VICUS_SUMMARY", "1");
    }
    // It comes back only if there is no such program.
    Err(command.exec()).with_context(|| format!("can't run {}", program.display()))
}

/// How many milliseconds the regions and tasks of a program work with one thread, as its summary says it.
fn work_alone_ms(program: &[OsString], like: &Command) -> anyhow::Result<String> {
    let file = env::temp_dir().join(format!("vicus-alone-{}", std::process::id()));
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let variables = like.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.envs(variables.filter(|(name, _)| *name != "VICUS_TRACE"));
    command.env("OMP_NUM_THREADS", "1").env("VICUS_SUMMARY", &file);
    let status = command.status().with_context(|| format!("can't run {}", program[0].display()))?;
    if !status.success() {
        tell(format_args!("vicus: with one thread, the program ends with {status}"));
    }
    let said = read_and_remove(&file);
    ensure!(
        !said.is_empty(),
        "the program had no region when it was run with one thread: there is no work inflation to tell of"
    );
    let line = said.lines().find_map(|line| line.strip_prefix("vicus: work "));
    let alone = line.and_then(|line| line.split_whitespace().next()).context("the summary has no work in it")?;
    Ok(alone.to_owned())
}

fn read_and_remove(file: &Path) -> String {
    let said = fs::read_to_string(file).unwrap_or_default();
    let _ = fs::remove_file(file);
    said
}

/// A library in the folder that the program names, beside this program, or in the folder `lib` beside its own.
fn library(name: &str) -> anyhow::Result<PathBuf> {
    if let Some(path) = LIBRARIES.get().map(|folder| folder.join(name)).filter(|path| path.is_file()) {
        return Ok(path);
    }
    let own = env::current_exe().context("can't find out where this program lies")?;
    let folder = own.parent().context("this program lies in no folder")?;
    let places = [folder.join(name), folder.join("../lib").join(name)];
    match places.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => bail!("{name} is neither in {} nor in {}", folder.display(), folder.join("../lib").display()),
    }
}
