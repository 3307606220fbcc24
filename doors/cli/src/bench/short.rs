//! The cost of short queries: parsing, planning and running.

use super::measure::{self, Outcome, median};
use super::scratch::Scratch;
use super::{queries, shop};
use crate::engine;
use anyhow::Context;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use vicus::{Envelope, Runtime, Setting};
use vicus_rdf::Store;
use vicus_sparql::{Moment, Options};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many products the shop has; each has about 55 triples.
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u64).range(1..))]
    products: u64,
    /// How many constants each query is asked with; the medians count.
    #[arg(long, default_value_t = 100, value_parser = measure::count)]
    repeats: usize,
    /// How many threads; by default one for each PU that this process may use.
    #[arg(long, value_name = "N", value_parser = measure::threads)]
    threads: Option<usize>,
    /// The strategy, with its parameters; by default what VICUS_STRATEGY says, else las.
    #[arg(long)]
    strategy: Option<Setting>,
}

/// The times in microseconds, and the number of rows.
struct Asked {
    parse: f64,
    plan: f64,
    run: f64,
    rows: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Outcome>> {
    let strategy = crate::strategy::one(args.strategy.as_ref())?;
    let runtime = engine::start(Runtime::builder().strategy(strategy), args.threads)?;
    let scratch = Scratch::new()?;
    let files = [scratch.write("shop.nt", &shop::triples(args.products, 1))?, scratch.generate(50_000)?];
    let store = queries::load(&runtime, &files)?.store;
    drop(scratch);
    say_line!(
        "{} triples, {} threads, medians of {}, in microseconds",
        store.len(),
        runtime.plan().threads(),
        args.repeats
    );
    say_line!("{:<12} {:>8} {:>8} {:>8} {:>8} {:>8}", "query", "parse", "plan", "run", "sum", "rows");
    let mut results = Vec::new();
    let mut all: Vec<Asked> = Vec::new();
    for (name, texts) in shop::queries(args.products, args.repeats, 1) {
        let asked = texts
            .iter()
            .map(|text| ask(&runtime, &store, text).with_context(|| format!("query {name}")))
            .collect::<anyhow::Result<Vec<Asked>>>()?;
        results.push(line(name, &asked));
        all.extend(asked);
    }
    results.push(line("all", &all));
    Ok(results)
}

fn line(name: &str, asked: &[Asked]) -> Outcome {
    let of = |part: fn(&Asked) -> f64| median(&asked.iter().map(part).collect::<Vec<f64>>());
    let sum = of(|asked| asked.parse + asked.plan + asked.run);
    let (parse, plan, run) = (of(|asked| asked.parse), of(|asked| asked.plan), of(|asked| asked.run));
    let rows = of(|asked| asked.rows as f64);
    say_line!("{name:<12} {parse:>8.1} {plan:>8.1} {run:>8.1} {sum:>8.1} {rows:>8}");
    // The aim for a query of few rows.
    Outcome::new(format!("short, {name}"), "us", sum, "aim", 100.0)
}

fn ask(runtime: &Runtime, store: &Arc<Store>, text: &str) -> anyhow::Result<Asked> {
    let micros = |since: Instant| since.elapsed().as_secs_f64() * 1e6;
    let began = Instant::now();
    let parsed = vicus_sparql::parse(text)?;
    let parse = micros(began);
    let began = Instant::now();
    let options = Options { threads: runtime.plan().threads(), ..Options::default() };
    let made = vicus_sparql::plan(store, &parsed, &options)?;
    let plan = micros(began);
    let began = Instant::now();
    let rows = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&rows);
    let sink = made.sink_operator(move |envelope: &Envelope| {
        counted.fetch_add(envelope.rows() as u64, Ordering::Relaxed);
        Ok(())
    });
    let operators = made.start(Moment::default()).operators([(made.sink(), sink)]);
    let request = match made.is_short() {
        true => runtime.submit_here(made.model(), operators, u64::MAX, &|| false),
        false => runtime.submit_with(made.model(), operators),
    };
    request.wait()?;
    let run = micros(began);
    Ok(Asked { parse, plan, run, rows: rows.load(Ordering::Acquire) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_query_of_the_shop_has_rows_for_some_of_its_constants() {
        let text = shop::triples(60, 1);
        let store = Arc::new(Store::of_ntriples(text.as_bytes()).expect("good N-Triples"));
        let runtime = Runtime::builder().threads(1).start();
        for (name, texts) in shop::queries(60, 60, 1) {
            let rows: u64 = texts.iter().map(|text| ask(&runtime, &store, text).expect("it runs").rows).sum();
            assert!(rows > 0, "{name}");
        }
    }
}
