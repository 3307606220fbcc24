//! Copies of one query at once, with our allocator and with the system's, or with two variants of ours.
//!
//! Falt et al., §6.4, Figs. 9 and 10: loading, and the same query 16 times in parallel, with the allocator of §5 and
//! with malloc. A process has one allocator, so each side is a process of its own; they take turns.

use super::measure::{self, Outcome};
use super::{copies, queries};
use anyhow::Context;
use std::process::{Command, Stdio};
use vicus::kit::{Foreign, MemoryOptions, Series};
use vicus::memory::WhenFull;
use vicus::{Runtime, Setting};
use vicus_service::PlanOptions;
use vicus_testing::median;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    copies: copies::Args,
    /// The other side of the comparison: `system`, or ours with variants of Falt et al. §5, joined by commas: `bins`
    /// (one for each pair of heaps, instead of mailboxes), `touch-ahead` (of all pages of a superblock), `strict` (a
    /// full node refuses), `superblock=BYTES`, `series=FIRST:RATIO:LIMIT` (block sizes, such as 8192:1.07:524288).
    #[arg(long, value_name = "VARIANT", default_value = "system", value_parser = against)]
    against: Against,
    /// Processes of each side.
    #[arg(long, default_value_t = 7, value_parser = measure::count)]
    rounds: usize,
    /// Runs of each query in a process; the median counts.
    #[arg(long, default_value_t = 5, value_parser = measure::count)]
    repeats: usize,
    /// Measures one side: a name and its milliseconds a line.
    #[arg(long, hide = true)]
    one_side: Option<Side>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Side {
    Ours,
    Theirs,
}

/// The other side of the comparison.
#[derive(Clone)]
struct Against {
    name: String,
    /// `None`: the system's allocator.
    variants: Option<Vec<Variant>>,
}

/// A change of the memory's options.
#[derive(Clone, Copy)]
enum Variant {
    Bins,
    TouchAhead,
    Strict,
    Superblock(usize),
    Series(Series),
}

fn against(text: &str) -> Result<Against, String> {
    let variants = match text {
        "system" => None,
        list => Some(list.split(',').map(variant).collect::<Result<_, _>>()?),
    };
    Ok(Against { name: text.to_owned(), variants })
}

fn variant(text: &str) -> Result<Variant, String> {
    let wrong = || {
        format!(
            "`{text}`: expected system, or of bins, touch-ahead, strict, superblock=BYTES and series=FIRST:RATIO:LIMIT \
                some \
             with commas between them"
        )
    };
    let numbers = |text: &str| -> Option<Series> {
        let mut parts = text.split(':');
        let (first, ratio, limit) = (parts.next()?, parts.next()?, parts.next()?);
        let series = Series { first: first.parse().ok()?, ratio: ratio.parse().ok()?, limit: limit.parse().ok()? };
        parts.next().is_none().then_some(series)
    };
    match text.split_once('=') {
        None if text == "bins" => Ok(Variant::Bins),
        None if text == "touch-ahead" => Ok(Variant::TouchAhead),
        None if text == "strict" => Ok(Variant::Strict),
        Some(("superblock", bytes)) => bytes.parse().map(Variant::Superblock).map_err(|_| wrong()),
        Some(("series", text)) => numbers(text).map(Variant::Series).ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

impl Variant {
    fn change(self, options: MemoryOptions) -> MemoryOptions {
        match self {
            Variant::Bins => MemoryOptions { foreign: Foreign::Bins, ..options },
            Variant::TouchAhead => MemoryOptions { touch_ahead: true, ..options },
            Variant::Strict => MemoryOptions { when_full: WhenFull::Strict, ..options },
            Variant::Superblock(superblock_bytes) => MemoryOptions { superblock_bytes, ..options },
            Variant::Series(series) => MemoryOptions { series, ..options },
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Outcome>> {
    args.copies.check()?;
    let strategy = args.copies.strategy()?;
    if let Some(side) = args.one_side {
        one_side(args, side, strategy)?;
        return Ok(Vec::new());
    }
    let mut times: [Vec<Vec<(String, f64)>>; 2] = Default::default();
    for round in 0..args.rounds.max(1) {
        // The first side changes each time.
        for side in [round % 2, 1 - round % 2] {
            times[side].push(args.of_side([Side::Ours, Side::Theirs][side])?);
        }
    }
    say_line!("{} copies at once under {strategy}, medians of {} processes", args.copies.copies, args.rounds.max(1));
    let other = &args.against.name;
    say_line!("\n             vicus ms {:>11}   ratio   95 % interval", format!("{other} ms"));
    let mut results = Vec::new();
    for (place, (name, _)) in times[0][0].iter().enumerate() {
        let of = |side: usize| times[side].iter().map(|process| process[place].1).collect::<Vec<f64>>();
        let times = [of(0), of(1)];
        let (low, high) = measure::interval(&times, args.copies.seed);
        let [ours, theirs] = times.map(|times| median(&times));
        say_line!("{name:8} {ours:>12.2} {theirs:>11.2} {:>7.3}   {low:.3} to {high:.3}", ours / theirs);
        results.push(Outcome::new(name.clone(), "ms", ours, other, theirs));
    }
    Ok(results)
}

impl Args {
    /// Runs this program once more, as one side.
    fn of_side(&self, side: Side) -> anyhow::Result<Vec<(String, f64)>> {
        let program = std::env::current_exe().context("this program's own path is unknown")?;
        let is_system = side == Side::Theirs && self.against.variants.is_none();
        // As `VICUS_ALLOCATOR` calls them.
        let allocator = if is_system { "system" } else { "vicus" };
        let name = if side == Side::Ours { "ours" } else { "theirs" };
        let mut command = Command::new(program);
        command.args(std::env::args_os().skip(1)).args(["--one-side", name]).env("VICUS_ALLOCATOR", allocator);
        let output = command.stderr(Stdio::inherit()).output().context("this program can't be run again")?;
        anyhow::ensure!(
            output.status.success(),
            "the side with VICUS_ALLOCATOR={allocator} ended with {}",
            output.status
        );
        let line = |line: &str| Some((line.split_once('\t')?.0.to_owned(), line.split_once('\t')?.1.parse().ok()?));
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().map(line).collect::<Option<Vec<_>>>().with_context(|| format!("the side printed {text}"))
    }
}

fn one_side(args: &Args, side: Side, strategy: Setting) -> anyhow::Result<()> {
    let asked = &args.copies;
    let mut builder = Runtime::builder().strategy(strategy);
    if let (Side::Theirs, Some(variants)) = (side, &args.against.variants) {
        let options = variants.iter().fold(builder.memory_options(), |options, variant| variant.change(options));
        builder = builder.memory(options);
    }
    let service = asked.start_as(builder)?;
    let runtime = service.runtime();
    anyhow::ensure!(runtime.memory().is_some(), "{}: {}", args.against.name, runtime.warnings().join("; "));
    let loaded = queries::load(&service, &asked.data)?;
    say_line!("load\t{}", loaded.time.as_secs_f64() * 1e3);
    for query in &asked.queries()? {
        let run = |_| Ok(queries::run(&service, &loaded.dataset, query, &PlanOptions::default(), asked.copies)?.ms);
        let times = (0..args.repeats).map(run).collect::<anyhow::Result<Vec<f64>>>()?;
        say_line!("{}\t{}", query.name, median(&times));
    }
    Ok(())
}
