//! The demo's table: every query under the strategy asked for and under nls, alternating.

use super::measure::{self, Outcome};
use super::queries;
use crate::arguments::RuntimeArgs;
use std::path::PathBuf;
use vicus::{Runtime, Setting};
use vicus_service::PlanOptions;
use vicus_testing::median;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The data, as for `vicus query`.
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    data: Vec<String>,
    /// A folder of .sparql files; by default the 17 queries of SP2Bench.
    #[arg(long, value_name = "FOLDER")]
    queries: Option<PathBuf>,
    #[command(flatten)]
    runtime: RuntimeArgs,
    /// How often each query is run under each strategy; the medians are shown.
    #[arg(long, default_value_t = 3, value_parser = measure::count)]
    repeats: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Outcome>> {
    args.runtime.check()?;
    let strategy = args.runtime.setting()?;
    let start = |strategy: Setting| args.runtime.serve(Runtime::builder().strategy(strategy));
    let las = start(strategy.clone())?;
    let queries = queries::queries(args.queries.as_deref())?;
    let loaded = queries::load(&las, &args.data)?;
    say_line!("{} triples loaded in {:.0} ms", loaded.dataset.snapshot().len(), loaded.time.as_secs_f64() * 1e3);
    let name = strategy.strategy().name();
    say_line!("\nquery        rows {:>11}      nls ms       tasks        near         far", format!("{name} ms"));
    let nls = start("nls".parse().expect("the strategy exists"))?;
    let mut results = Vec::new();
    let mut sums = [0.0; 2];
    for query in &queries {
        let (mut times, mut last) = ([Vec::new(), Vec::new()], None);
        for _ in 0..args.repeats {
            for (service, times) in [&las, &nls].into_iter().zip(&mut times) {
                let run = queries::run(service, &loaded.dataset, query, &PlanOptions::default(), 1)?;
                times.push(run.ms);
                // Near and far bytes are shown for the first strategy.
                last.get_or_insert(run);
            }
        }
        let run = last.expect("it ran at least once");
        let [las_ms, nls_ms] = times.map(|times| median(&times));
        let (tasks, far) = (run.totals.tasks, run.totals.far);
        say_line!(
            "{:6} {:>10} {las_ms:>11.2} {nls_ms:>11.2} {tasks:>11} {:>11} {far:>11}",
            query.name,
            run.rows,
            tasks.saturating_sub(far)
        );
        sums[0] += las_ms;
        sums[1] += nls_ms;
        results.push(Outcome::new(query.name.clone(), "ms", las_ms, "nls", nls_ms));
    }
    say_line!("all               {:>11.2} {:>11.2}", sums[0], sums[1]);
    Ok(results)
}
