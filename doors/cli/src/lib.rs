//! `vicus`, the command line: each command is handled by a file of its own. It is a library for two programs: the
//! binary, and the module for Python, which has the command beside it.

mod arguments;
mod bench;
mod calibrate;
mod current_work;
mod engine;
mod examples;
mod generate;
#[cfg_attr(windows, path = "hangup/none.rs")]
mod hangup;
mod health;
mod input;
mod interrupt;
mod kernel;
mod learn;
mod machine;
mod manual;
mod memory;
mod messages;
mod network;
mod node;
mod peers;
mod progress;
mod query;
mod recording;
#[cfg(target_os = "linux")]
mod run;
mod serve;
mod simulate;
mod spill;
mod store;
mod strategies;
mod strategy;
mod threads;
mod topology;
mod trace;
mod web;

pub use memory::free_limit;

use clap::{CommandFactory, Parser, Subcommand};
use current_work::Doing;
use messages::tell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{LazyLock, OnceLock};

/// Columns of envelopes and tables lie on the node of the seat that fills them. If even a small allocation fails, the
/// command reports it and ends.
#[global_allocator]
static ALLOCATOR: vicus::Allocator<vicus::LastWords> =
    vicus::Allocator::with_small(vicus::LastWords::new(current_work::last_words));

/// Locality-aware parallel data processing: load RDF, ask SPARQL, look at the machine.
#[derive(Parser)]
#[command(name = "vicus", version = version(), arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write test data.
    #[command(after_help = examples::GENERATE)]
    Generate(generate::Args),
    /// Answer SPARQL queries over RDF files or a store.
    #[command(after_help = examples::QUERY)]
    Query(query::Args),
    /// Answer statements of SQL over files of tables (`SELECT * FROM 'people.csv'`), RDF files or a store: `query
    /// --language sql`.
    #[command(after_help = examples::SQL)]
    Sql(query::Args),
    /// Load RDF files into a store on disk.
    #[command(after_help = examples::LOAD)]
    Load(store::load::Args),
    /// Change a store by SPARQL updates.
    #[command(after_help = examples::UPDATE)]
    Update(store::update::Args),
    /// Write the quads of a store to a file.
    #[command(after_help = examples::DUMP)]
    Dump(store::dump::Args),
    /// Copy a store, or send what is new in it to an archive, while others write to it.
    #[command(after_help = examples::BACKUP)]
    Backup(store::BackupArgs),
    /// Make a store again from its archive, as it is or as it was.
    #[command(after_help = examples::RESTORE)]
    Restore(store::archive::Args),
    /// Check a store: every checksum, and every index against the others.
    #[command(after_help = examples::CHECK)]
    Check(store::CheckArgs),
    /// Build a store anew with the changes since.
    #[command(after_help = examples::COMPACT)]
    Compact(store::CompactArgs),
    /// Answer queries and updates over HTTP.
    #[command(after_help = examples::SERVE)]
    Serve(Box<serve::Args>),
    /// Make a copy of a store the writer, in place of the server that it follows.
    #[command(after_help = examples::PROMOTE)]
    Promote(store::promote::Args),
    /// Run, check or show a network of boxes that is written as text.
    #[command(after_help = examples::NETWORK)]
    Network(network::Args),
    /// Run parts of networks that `vicus network run --nodes` begins in other processes.
    #[command(after_help = examples::NODE)]
    Node(node::Args),
    /// Run an OpenMP program, as gcc or clang has compiled it, on the scheduler of Vicus.
    #[cfg(target_os = "linux")]
    #[command(after_help = examples::RUN)]
    Run(run::Args),
    /// Show the machine: PUs, cores, caches, core groups, nodes, distances.
    #[command(after_help = examples::TOPOLOGY)]
    Topology(topology::Args),
    /// Show the scheduling strategies and their parameters, or the plan of one.
    #[command(after_help = examples::STRATEGIES)]
    Strategies(strategies::Args),
    /// Predict how long kernels or recorded runs take on a described machine.
    #[command(after_help = examples::SIMULATE)]
    Simulate(simulate::Args),
    /// Find the strategy and the distribution of data that suit a program, from traces of its runs.
    ///
    /// Traces come from `vicus run --trace` and `vicus query --trace`. Each is simulated under `las`, `vicus`, `vicus`
    /// with other values of its parameters, and all other strategies; if tasks name their data, each of them with each
    /// distribution. The first pair whose time is within a percent of the least is kept: the default, if it is among
    /// them. Runs use the file of `--output` if the variable VICUS_LEARNED names it: its strategy if no other is named,
    /// and its distribution if VICUS_DATA_DISTRIBUTION and OMP_DATA_DISTRIBUTION are not set.
    ///
    /// With this pair, each type of tasks is also simulated undealt, as if it named no data, and each size of blocks
    /// with the other distributions. A change that saves more than a percent is in the file too: OpenMP programs treat
    /// tasks of its function, and blocks of its size, by it.
    #[command(after_help = examples::LEARN)]
    Learn(learn::Args),
    /// Measure the costs of this machine, for `simulate`.
    #[command(after_help = examples::CALIBRATE)]
    Calibrate(calibrate::Args),
    /// Look into a trace file.
    #[command(after_help = examples::TRACE)]
    Trace(trace::Args),
    /// Run benchmarks.
    #[command(after_help = examples::BENCH)]
    Bench(bench::Args),
    /// Write the completions of a shell, or manual pages.
    #[command(after_help = examples::MANUAL)]
    Manual(manual::Args),
}

/// The version, with the commit that a packager built it from.
fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let commit = option_env!("VICUS_COMMIT").filter(|commit| !commit.is_empty());
        let commit = commit.map(|commit| format!(" ({commit})"));
        [env!("CARGO_PKG_VERSION"), commit.as_deref().unwrap_or_default()].concat()
    });
    &VERSION
}

/// Bytes of stack for a command: the shell's limit (`ulimit -s`) may be too small for a deep query.
const STACK_BYTES: usize = 64 << 20;

/// The folder of the libraries that `vicus run` loads, if they do not lie beside the program.
static LIBRARIES: OnceLock<PathBuf> = OnceLock::new();

/// Sets some memory aside for the moment when none is left, so that a program that has this library can go on then.
pub fn reserve() {
    ALLOCATOR.small().reserve();
}

/// Runs a command: the program's name and its arguments. Returns the exit status; a wrong option, and a second Ctrl-C,
/// end the process. `libraries` is the folder of the libraries for `vicus run`, if they lie elsewhere than beside the
/// program.
pub fn command(arguments: Vec<OsString>, libraries: Option<PathBuf>) -> u8 {
    if let Some(folder) = libraries {
        // A second command of the process has the same.
        let _ = LIBRARIES.set(folder);
    }
    vicus::kit::merge_when_freed();
    ALLOCATOR.small().reserve();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |about| {
        // The file's damage is told as an error.
        if !vicus_tables::is_reading() {
            hook(about);
        }
    }));
    let command = std::thread::Builder::new().name("vicus".to_owned()).stack_size(STACK_BYTES);
    let command = command.spawn({
        let arguments = arguments.clone();
        || run(arguments)
    });
    match command.map(std::thread::JoinHandle::join) {
        Ok(Ok(status)) => status,
        // The panic has printed its message.
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        // If there is no memory for another stack, the command runs on the main thread's.
        Err(_) => run(arguments),
    }
}

/// The exit status of a failed command.
const FAILED: u8 = 1;

fn run(arguments: Vec<OsString>) -> u8 {
    let command = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli.command,
        // Help was asked for; an error while writing it is ignored.
        Err(error) if !error.use_stderr() => {
            return match messages::printed(error.print()) {
                Ok(()) => 0,
                Err(error) => {
                    tell(format_args!("vicus: {}", messages::whole(&error)));
                    FAILED
                }
            };
        }
        Err(error) => error.exit(),
    };
    let _doing = match command {
        Command::Generate(_) => Doing::Generating,
        Command::Simulate(_) | Command::Learn(_) => Doing::Simulating,
        Command::Trace(_) => Doing::Reading,
        _ => Doing::Something,
    }
    .begin();
    let done = match command {
        Command::Generate(args) => generate::run(args),
        Command::Query(args) => query::run(args),
        Command::Sql(args) => query::run_sql(args),
        Command::Load(args) => store::load::run(args),
        Command::Update(args) => store::update::run(args),
        Command::Dump(args) => store::dump::run(args),
        Command::Backup(args) => store::backup(args),
        Command::Restore(args) => store::archive::restore(args),
        Command::Check(args) => store::check(args),
        Command::Compact(args) => store::compact(args),
        Command::Serve(args) => serve::run(*args),
        Command::Promote(args) => store::promote::run(args),
        Command::Network(args) => network::run(args),
        Command::Node(args) => node::run(args),
        #[cfg(target_os = "linux")]
        Command::Run(args) => run::run(args),
        Command::Topology(args) => topology::run(args),
        Command::Strategies(args) => strategies::run(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Learn(args) => learn::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Trace(args) => trace::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Manual(args) => manual::run(args, Cli::command()),
    };
    match done {
        Ok(()) => 0,
        Err(error) if error.downcast_ref::<interrupt::Interrupted>().is_some() => {
            tell(format_args!("vicus: {}", messages::whole(&error)));
            interrupt::STATUS as u8
        }
        // An error in the environment is printed like an error in options.
        Err(error) if error.is::<clap::Error>() => error.downcast::<clap::Error>().expect("it was asked").exit(),
        Err(error) => {
            tell(format_args!("vicus: {}", messages::whole(&error)));
            FAILED
        }
    }
}
