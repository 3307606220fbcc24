//! Vicus' tasks beside rayon's and oneTBB's.
//!
//! All sides are measured in one run, alternating, on threads that are pinned alike; medians count. A peer that can't
//! be built on this machine is skipped with a message.

#[expect(dead_code, reason = "the containers measure in more ways")]
#[path = "../../containers/src/measure.rs"]
mod measure;
mod metg;
mod sides;
mod trees;

use clap::Parser;
use measure::{allowed, print_rates};
use sides::Runtimes;

/// Vicus' tasks beside rayon's and oneTBB's.
#[derive(Parser)]
struct Args {
    /// Numbers of threads, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// What to measure, separated by commas.
    #[arg(long, value_delimiter = ',', default_values = ["join", "nqueens", "uts", "spawn", "metg"])]
    what: Vec<String>,
    /// How many times each side is measured.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Which Fibonacci number.
    #[arg(long, default_value_t = 30)]
    fib: u32,
    /// The number of queens.
    #[arg(long, default_value_t = 10)]
    queens: u32,
    /// The strategy of Vicus' side.
    #[arg(long, default_value = "vicus")]
    strategy: String,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let cpus = allowed()?;
    for &threads in &args.threads {
        let runtimes = Runtimes::start(threads, &cpus, &args.strategy)?;
        for what in &args.what {
            if what == "metg" {
                metg::run(&runtimes, threads, args.rounds.min(5));
                continue;
            }
            let (sides, title) = match what.as_str() {
                "join" => (runtimes.fib(args.fib, args.rounds)?, format!("join: fib({}), tasks", args.fib)),
                "nqueens" => (runtimes.queens(args.queens, args.rounds)?, format!("nqueens({}), tasks", args.queens)),
                "uts" => (runtimes.tree(args.rounds)?, "UTS T1, nodes".to_owned()),
                "spawn" => (
                    runtimes.spawn(1_000_000, args.rounds)?,
                    "a million empty tasks, 1,000 at a time, by one submitter".to_owned(),
                ),
                other => anyhow::bail!("there is no `{other}`: expected join, nqueens, uts, spawn or metg"),
            };
            print_rates(&sides, &format!("{title}, {threads} threads"));
        }
    }
    Ok(())
}
