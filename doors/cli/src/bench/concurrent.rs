//! Copies of one query at once, `las` against `nls`.
//!
//! Falt et al., §6.1.1 and §6.2–6.3: the same query 16 times in parallel, Q2 Q4 Q5a Q6 Q7 Q8 Q9 Q11. The interval is of the
//! ratio of medians, by resampling the pairs of runs that stood side by side.

use super::measure::{self, Outcome, median};
use super::queries;
use vicus::{Runtime, Setting};
use vicus_sparql::Options;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The data, as for `vicus query`.
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    data: Vec<String>,
    /// Copies at once.
    #[arg(long, default_value_t = 16, value_parser = measure::count)]
    copies: usize,
    /// Which queries.
    #[arg(long, value_delimiter = ',', default_value = "q2,q4,q5a,q6,q7,q8,q9,q11")]
    queries: Vec<String>,
    /// The strategy that is compared with nls, with its parameters.
    #[arg(long, default_value = "las", env = "VICUS_STRATEGY")]
    strategy: Setting,
    /// Runs under each strategy.
    #[arg(long, default_value_t = 11, value_parser = measure::count)]
    repeats: usize,
    /// How many threads; by default one for each PU that this process may use.
    #[arg(long, value_name = "N", value_parser = measure::threads)]
    threads: Option<usize>,
    /// The seed of the resampling.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Outcome>> {
    crate::engine::check_threads(args.threads)?;
    let start = |strategy: Setting| {
        let builder = Runtime::builder().strategy(strategy);
        args.threads.map_or(builder.clone(), |threads| builder.threads(threads)).start()
    };
    let runtimes = [start(args.strategy.clone()), start("nls".parse().expect("the strategy exists"))];
    let loaded = queries::load(&runtimes[0], &args.data)?;
    println!("{} triples; {} copies at once, medians of {}", loaded.store.len(), args.copies, args.repeats);
    let name = args.strategy.strategy().name();
    println!("\nquery {:>11}      nls ms     ratio   95 % interval", format!("{name} ms"));
    let mut results = Vec::new();
    for query in &queries::named(&args.queries)? {
        let name = &query.name;
        let mut times = [Vec::new(), Vec::new()];
        for repeat in 0..args.repeats {
            // Who begins changes each time.
            for side in [repeat % 2, 1 - repeat % 2] {
                let run = queries::run(&runtimes[side], &loaded.store, query, &Options::default(), args.copies)?;
                times[side].push(run.ms);
            }
        }
        let (low, high) = measure::interval(&times, args.seed);
        let [las, nls] = times.map(|times| median(&times));
        println!("{name:6} {las:>10.2} {nls:>11.2} {:>9.3}   {low:.3} to {high:.3}", las / nls);
        results.push(Outcome::new(format!("{} copies of {name}", args.copies), "ms", las, "nls", nls));
    }
    Ok(results)
}
