//! Copies of one query at once, with our allocator and with the system's.
//!
//! Falt et al., §6.4, Figs. 9 and 10: loading, and the same query 16 times in parallel, with the allocator of §5 and with
//! malloc. A process has one allocator, so each side is a process of its own; they take turns.

use super::measure::{self, Outcome, median};
use super::{copies, queries};
use anyhow::Context;
use std::process::{Command, Stdio};
use vicus::Setting;
use vicus_sparql::Options;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    copies: copies::Args,
    /// Processes of each side.
    #[arg(long, default_value_t = 7, value_parser = measure::count)]
    rounds: usize,
    /// Runs of each query in a process; the median counts.
    #[arg(long, default_value_t = 5, value_parser = measure::count)]
    repeats: usize,
    /// Measures with this process' allocator only, and prints a name and milliseconds on each line.
    #[arg(long, hide = true)]
    one_side: bool,
}

/// The values of `VICUS_ALLOCATOR`.
const SIDES: [&str; 2] = ["vicus", "system"];

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Outcome>> {
    args.copies.check()?;
    let strategy = args.copies.strategy()?;
    if args.one_side {
        one_side(args, strategy)?;
        return Ok(Vec::new());
    }
    let mut times: [Vec<Vec<(String, f64)>>; 2] = Default::default();
    for round in 0..args.rounds.max(1) {
        // The first side changes each time.
        for side in [round % 2, 1 - round % 2] {
            times[side].push(of_side(SIDES[side])?);
        }
    }
    say_line!("{} copies at once under {strategy}, medians of {} processes", args.copies.copies, args.rounds.max(1));
    say_line!("\n             vicus ms   system ms   ratio   95 % interval");
    let mut results = Vec::new();
    for (place, (name, _)) in times[0][0].iter().enumerate() {
        let of = |side: usize| times[side].iter().map(|process| process[place].1).collect::<Vec<f64>>();
        let times = [of(0), of(1)];
        let (low, high) = measure::interval(&times, args.copies.seed);
        let [ours, theirs] = times.map(|times| median(&times));
        say_line!("{name:8} {ours:>12.2} {theirs:>11.2} {:>7.3}   {low:.3} to {high:.3}", ours / theirs);
        results.push(Outcome::new(name.clone(), "ms", ours, "system", theirs));
    }
    Ok(results)
}

/// Runs this program again with that allocator.
fn of_side(side: &str) -> anyhow::Result<Vec<(String, f64)>> {
    let program = std::env::current_exe().context("this program's own path is unknown")?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).arg("--one-side").env("VICUS_ALLOCATOR", side);
    let output = command.stderr(Stdio::inherit()).output().context("this program can't be run again")?;
    anyhow::ensure!(output.status.success(), "the side with VICUS_ALLOCATOR={side} ended with {}", output.status);
    let line = |line: &str| Some((line.split_once('\t')?.0.to_owned(), line.split_once('\t')?.1.parse().ok()?));
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(line).collect::<Option<Vec<_>>>().with_context(|| format!("the side printed {text}"))
}

fn one_side(args: &Args, strategy: Setting) -> anyhow::Result<()> {
    let asked = &args.copies;
    let service = asked.start(strategy)?;
    let loaded = queries::load(&service, &asked.data)?;
    say_line!("load\t{}", loaded.time.as_secs_f64() * 1e3);
    for query in &asked.queries()? {
        let run = |_| Ok(queries::run(&service, &loaded.dataset, query, &Options::default(), asked.copies)?.ms);
        let times = (0..args.repeats).map(run).collect::<anyhow::Result<Vec<f64>>>()?;
        say_line!("{}\t{}", query.name, median(&times));
    }
    Ok(())
}
