//! The cost of short queries: parsing, planning and running.

use super::measure::{self, Outcome};
use super::scratch::Scratch;
use super::{queries, shop};
use crate::arguments::RuntimeArgs;
use anyhow::Context;
use vicus_service::{Count, PlanOptions, Session};
use vicus_testing::median;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many products the shop has; each has about 55 triples.
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u64).range(1..))]
    products: u64,
    /// How many constants each query is asked with; the medians count.
    #[arg(long, default_value_t = 100, value_parser = measure::count)]
    repeats: usize,
    #[command(flatten)]
    runtime: RuntimeArgs,
}

/// The times in microseconds, and the number of rows.
struct Times {
    parse: f64,
    plan: f64,
    run: f64,
    rows: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Outcome>> {
    let service = args.runtime.serve(args.runtime.builder()?)?;
    let scratch = Scratch::new()?;
    let files = [scratch.write("shop.nt", &shop::triples(args.products, 1))?, scratch.generate(50_000)?];
    let dataset = queries::load(&service, &files)?.dataset;
    drop(scratch);
    say_line!(
        "{} triples, {} threads, medians of {}, in microseconds",
        dataset.snapshot().len(),
        service.runtime().plan().threads(),
        args.repeats
    );
    say_line!("{:<12} {:>8} {:>8} {:>8} {:>8} {:>8}", "query", "parse", "plan", "run", "sum", "rows");
    let session = service.session(&dataset, queries::session_options(&PlanOptions::default()));
    let mut results = Vec::new();
    let mut all: Vec<Times> = Vec::new();
    for (name, texts) in shop::queries(args.products, args.repeats, 1) {
        let asked = texts
            .iter()
            .map(|text| ask(&session, text).with_context(|| format!("query {name}")))
            .collect::<anyhow::Result<Vec<Times>>>()?;
        results.push(line(name, &asked));
        all.extend(asked);
    }
    results.push(line("all", &all));
    Ok(results)
}

fn line(name: &str, asked: &[Times]) -> Outcome {
    let of = |part: fn(&Times) -> f64| median(&asked.iter().map(part).collect::<Vec<f64>>());
    let sum = of(|asked| asked.parse + asked.plan + asked.run);
    let (parse, plan, run) = (of(|asked| asked.parse), of(|asked| asked.plan), of(|asked| asked.run));
    let rows = of(|asked| asked.rows as f64);
    say_line!("{name:<12} {parse:>8.1} {plan:>8.1} {run:>8.1} {sum:>8.1} {rows:>8}");
    // The aim for a query of few rows.
    Outcome::new(format!("short, {name}"), "us", sum, "aim", 100.0)
}

fn ask(session: &Session, text: &str) -> anyhow::Result<Times> {
    let micros = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    let mut call = session.call()?;
    let prepared = call.prepare(text)?;
    let ((), outcome) = call.answer(&prepared, Count)?;
    let (parse, plan, run) = (prepared.parsing(), prepared.planning(), outcome.time);
    Ok(Times { parse: micros(parse), plan: micros(plan), run: micros(run), rows: outcome.rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine;
    use std::sync::Arc;
    use vicus::Runtime;
    use vicus_rdf::Snapshot;
    use vicus_service::Dataset;

    #[test]
    fn each_query_of_the_shop_has_rows_for_some_of_its_constants() {
        let text = shop::triples(60, 1);
        let snapshot = Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples"));
        let service = engine::serve(Runtime::builder(), Some(1)).expect("there is a thread");
        let session = service.session(&Dataset::new(snapshot), queries::session_options(&PlanOptions::default()));
        for (name, texts) in shop::queries(60, 60, 1) {
            let rows: u64 = texts.iter().map(|text| ask(&session, text).expect("it runs").rows).sum();
            assert!(rows > 0, "{name}");
        }
    }
}
