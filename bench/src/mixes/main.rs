//! Short queries beside Oxigraph: BSBM's explore mix, and WatDiv's linear, star and snowflake queries.
//!
//! Each query is asked with many constants, alternating between the sides, in one process on the same CPUs. A time
//! includes parsing, planning and running, until the caller has every term of every row.

mod bsbm;
mod chance;
mod watdiv;

use anyhow::{Context, ensure};
use chance::Chance;
use clap::Parser;
use oxigraph::io::{RdfFormat, RdfParser};
use oxigraph::sparql::{QueryResults, SparqlEvaluator};
use oxigraph::store::Store;
use serde_json::json;
use std::hint::black_box;
use std::io::Cursor;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use vicus::{Runtime, Setting};
use vicus_bench::cpus;
use vicus_rdf::load::{LoadOptions, LoadSource, Syntax};
use vicus_service::{CallLimits, Cancel, Dataset, Each, MemoryBudget, Service, Session, SessionOptions};
use vicus_sparql::Moment;
use vicus_testing::median;

/// Vicus and Oxigraph on the short queries of two benchmarks.
#[derive(Parser)]
struct Args {
    /// About how many triples each benchmark's data has.
    #[arg(long, default_value_t = 1_000_000)]
    triples: u64,
    /// How many constants each query is asked with; the medians count.
    #[arg(long, default_value_t = 100)]
    repeats: usize,
    /// The seed of the data and of the constants.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many CPUs both sides may use; Vicus has as many threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// The strategy of Vicus.
    #[arg(long, default_value = "las")]
    strategy: Setting,
    /// A time limit for Vicus in seconds for each query, as `vicus query --timeout` sets it.
    #[arg(long)]
    timeout: Option<f64>,
    /// Only queries with these names.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Asks Vicus only, for profiling.
    #[arg(long)]
    alone: bool,
    /// Writes the results as an array of objects.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Replaces the placeholders of a query by constants.
type Text = Box<dyn Fn(&str, &mut Chance) -> String>;

/// The data and queries of a benchmark.
struct Mix {
    name: &'static str,
    /// N-Triples.
    triples: String,
    count: u64,
    queries: Vec<(&'static str, &'static str)>,
    fill: Text,
}

/// The times of one query, in microseconds.
#[derive(Clone, Copy, Default)]
struct Asked {
    parse: f64,
    plan: f64,
    run: f64,
    rows: u64,
}

impl Asked {
    fn sum(&self) -> f64 {
        self.parse + self.plan + self.run
    }
}

struct Vicus {
    dataset: Dataset,
    session: Session,
}

impl Vicus {
    fn load(mix: &Mix, args: &Args, time: Option<Duration>) -> anyhow::Result<Vicus> {
        let runtime = Runtime::builder().strategy(args.strategy.clone()).threads(args.threads).start();
        let service = Service::new(runtime, MemoryBudget::new(u64::MAX));
        let source = LoadSource::new(mix.name, Syntax::NTriples, Cursor::new(mix.triples.clone().into_bytes()));
        let dataset = service.load(vec![source], LoadOptions::default(), &Cancel::new()).finish()?.dataset;
        let limits = CallLimits { time, ..CallLimits::default() };
        let options = SessionOptions { moment: Some(Moment::default()), limits, ..SessionOptions::default() };
        let session = service.session(&dataset, options);
        Ok(Vicus { dataset, session })
    }

    fn ask(&self, text: &str) -> anyhow::Result<Asked> {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let mut call = self.session.call()?;
        let prepared = call.prepare(text)?;
        let each = Each::new(|batch| {
            for column in 0..batch.envelope().columns().len() {
                (0..batch.rows()).for_each(|row| drop(black_box(batch.term(row, column))));
            }
            Ok(())
        });
        let ((), outcome) = call.answer(&prepared, each)?;
        let run = micros(outcome.time);
        Ok(Asked { parse: micros(prepared.parsing()), plan: micros(prepared.planning()), run, rows: outcome.rows })
    }
}

fn ask_oxigraph(store: &Store, text: &str) -> anyhow::Result<Asked> {
    let began = Instant::now();
    let mut rows = 0;
    match SparqlEvaluator::new().parse_query(text)?.on_store(store).execute()? {
        QueryResults::Solutions(solutions) => {
            for solution in solutions {
                black_box(solution?);
                rows += 1;
            }
        }
        _ => anyhow::bail!("only SELECTs are asked"),
    }
    Ok(Asked { run: began.elapsed().as_secs_f64() * 1e6, rows, ..Asked::default() })
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    ensure!(args.repeats > 0, "--repeats takes a number from 1");
    cpus::pin(Some(args.threads))?;
    let timeout = args.timeout.map(Duration::try_from_secs_f64).transpose().context("--timeout takes seconds")?;
    let mut results = Vec::new();
    for make in [bsbm::make, watdiv::make] {
        let mix = make(args.triples, args.seed);
        let peer = Store::new()?;
        if !args.alone {
            let mut loader = peer.bulk_loader();
            loader.load_from_reader(RdfParser::from_format(RdfFormat::NTriples), mix.triples.as_bytes())?;
            loader.commit()?;
        }
        let ours = Vicus::load(&mix, &args, timeout)?;
        println!(
            "{}: {} triples made, {} different ones; {} threads; medians of {} constants, in microseconds",
            mix.name,
            mix.count,
            ours.dataset.snapshot().len(),
            args.threads,
            args.repeats
        );
        results.extend(compare(&mix, &ours, &peer, &args)?);
    }
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&results)? + "\n";
        std::fs::write(path, text).with_context(|| format!("{}: can't be written", path.display()))?;
    }
    Ok(())
}

/// Asks both sides all queries of a mix.
fn compare(mix: &Mix, ours: &Vicus, peer: &Store, args: &Args) -> anyhow::Result<Vec<serde_json::Value>> {
    println!(
        "{:<6} {:>7} {:>8} {:>8} {:>8} {:>9} {:>11} {:>7}",
        "query", "rows", "parse", "plan", "run", "vicus", "oxigraph", "ratio"
    );
    let (mut results, mut all) = (Vec::new(), Vec::new());
    let mut slower = 0;
    for (name, text) in
        mix.queries.iter().filter(|(name, _)| args.only.is_empty() || args.only.iter().any(|only| only == name))
    {
        let mut chance = Chance::new(args.seed ^ 0x5eed);
        let mut asked: Vec<(Asked, Asked)> = Vec::new();
        let mut differ = 0;
        for place in 0..args.repeats + WARM_UP {
            let text = (mix.fill)(text, &mut chance);
            let mine = |text: &str| ours.ask(text).with_context(|| format!("vicus, query {name}: {text}"));
            let theirs = |text: &str| ask_oxigraph(peer, text).with_context(|| format!("oxigraph, query {name}"));
            if args.alone {
                let mine = mine(&text)?;
                asked.push((mine, mine));
                continue;
            }
            // The first side changes each time.
            let pair = if place % 2 == 0 {
                let mine = mine(&text)?;
                (mine, theirs(&text)?)
            } else {
                let theirs = theirs(&text)?;
                (mine(&text)?, theirs)
            };
            if pair.0.rows != pair.1.rows {
                differ += 1;
            }
            if place >= WARM_UP {
                asked.push(pair);
            }
        }
        let of = |part: fn(&(Asked, Asked)) -> f64| median(&asked.iter().map(part).collect::<Vec<_>>());
        let (sum, theirs) = (of(|(mine, _)| mine.sum()), of(|(_, theirs)| theirs.sum()));
        let ratio = sum / theirs;
        slower += usize::from(ratio > 1.0);
        println!(
            "{name:<6} {:>7} {:>8.1} {:>8.1} {:>8.1} {sum:>9.1} {theirs:>11.1} {ratio:>7.3}",
            of(|(mine, _)| mine.rows as f64),
            of(|(mine, _)| mine.parse),
            of(|(mine, _)| mine.plan),
            of(|(mine, _)| mine.run),
        );
        if differ > 0 {
            println!("       the sides differ in rows for {differ} constants");
        }
        results.push(json!({
            "name": format!("{}, {name}", mix.name), "unit": "us", "ours": sum, "peer": "oxigraph", "theirs": theirs,
            "ratio": ratio,
        }));
        all.extend(asked);
    }
    if all.is_empty() {
        return Ok(results);
    }
    let of = |part: fn(&(Asked, Asked)) -> f64| median(&all.iter().map(part).collect::<Vec<_>>());
    let (sum, theirs) = (of(|(mine, _)| mine.sum()), of(|(_, theirs)| theirs.sum()));
    let ratios = median(&all.iter().map(|(mine, theirs)| mine.sum() / theirs.sum()).collect::<Vec<_>>());
    println!(
        "all: {sum:.1} beside {theirs:.1}, median ratio {ratios:.3}; {slower} of {} queries are slower\n",
        results.len()
    );
    Ok(results)
}

/// The number of constants asked first, unmeasured.
const WARM_UP: usize = 10;
