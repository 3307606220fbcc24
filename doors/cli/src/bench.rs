//! `vicus bench`: measures, prints, and can write the results as JSON.
//!
//! Alternatives run alternating in one process, and their ratio is printed: other load on the machine slows all of
//! them.

/// `println!` by [`say`].
macro_rules! say_line {
    ($($shown:tt)*) => {
        $crate::bench::say(format_args!("{}\n", format_args!($($shown)*)))
    };
}

/// `print!` by [`say`].
macro_rules! say {
    ($($shown:tt)*) => {
        $crate::bench::say(format_args!($($shown)*))
    };
}

mod allocator;
mod changed;
mod concurrent;
mod copies;
mod counts;
mod demo;
mod envelopes;
mod flow;
mod followers;
mod growth;
pub(crate) mod kernels;
pub(crate) mod measure;
mod nodes;
mod prediction;
pub(crate) mod queries;
mod scratch;
pub(crate) mod shop;
mod short;
mod spin;

use crate::messages::tell;
use clap::Subcommand;
use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

/// See `vicus bench --help`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    /// Writes the results as an array of objects with name, unit, ours, peer, theirs and ratio (ours / theirs; lower is
    /// better).
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Subcommand)]
enum What {
    /// Boxes and vias: the Bobox report's pipeline (§6.3) on 1 to 32 threads, and the cost of an invocation.
    Flow(flow::Args),
    /// The 17 SP2Bench queries under las and nls: rows, milliseconds, tasks, near and far.
    Demo(demo::Args),
    /// The 17 SP2Bench queries after single updates, beside the same data loaded at once.
    Changed(changed::Args),
    /// Several copies of a query at once, under las and nls: the ratio of the medians (Falt et al. §6.1.1).
    Concurrent(concurrent::Args),
    /// Loading, and several copies of a query at once, with our allocator and with the system's (Falt et al. §6.4).
    Allocator(allocator::Args),
    /// Data of several sizes: how each query's time grows, Q4 on more threads, and the memory of a triple.
    Growth(growth::Args),
    /// Q2 and Q5a with envelopes of 1,024 to 16,384 rows, beside the Bobox report's Tables 1 and 2 (§6.2).
    Envelopes(envelopes::Args),
    /// Short queries to a shop of products, offers and reviews: microseconds of parsing, planning and running.
    Short(short::Args),
    /// A store and its follower over HTTP on this machine: rates, lag, the cost of waiting for a follower, a promotion.
    Followers(followers::Args),
    /// The papers' kernels on threads: time, bandwidth, bytes near and far, and where tasks were found.
    Kernels(kernels::Args),
    /// The papers' kernels by the simulator's prediction, beside their times on threads.
    Prediction(prediction::Args),
    /// A crossing of a network over two processes, on loopback: there and back, and a stream, beside plain bytes.
    Nodes(nodes::Args),
    /// Result sizes against a table of known ones, under both strategies, many times in a row.
    Counts(counts::Args),
}

/// Writes to standard output. If its reader has read enough, or writing fails, the process ends; an error is printed.
fn say(shown: Arguments<'_>) {
    match std::io::stdout().write_fmt(shown) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            tell(format_args!("vicus: standard output: {error}"));
            std::process::exit(1)
        }
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let results = match args.what {
        What::Flow(args) => flow::run(&args)?,
        What::Demo(args) => demo::run(&args)?,
        What::Changed(args) => changed::run(&args)?,
        What::Concurrent(args) => concurrent::run(&args)?,
        What::Allocator(args) => allocator::run(&args)?,
        What::Growth(args) => growth::run(&args)?,
        What::Envelopes(args) => envelopes::run(&args)?,
        What::Short(args) => short::run(&args)?,
        What::Followers(args) => followers::run(&args)?,
        What::Kernels(args) => kernels::run(&args)?,
        What::Prediction(args) => prediction::run(&args)?,
        What::Nodes(args) => nodes::run(&args)?,
        What::Counts(args) => {
            counts::run(&args)?;
            Vec::new()
        }
    };
    if let Some(path) = args.json {
        measure::write_json(&path, &results)?;
    }
    Ok(())
}
