//! Copies of one query at once, `las` against `nls`.
//!
//! Falt et al., §6.1.1 and §6.2–6.3: the same query 16 times in parallel, Q2 Q4 Q5a Q6 Q7 Q8 Q9 Q11. The interval of
//! the ratio of medians comes from resampling pairs of runs of the same round.

use super::measure::{self, Outcome};
use super::{copies, queries};
use vicus_service::PlanOptions;
use vicus_testing::median;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The strategy to compare with nls.
    #[command(flatten)]
    copies: copies::Args,
    /// Runs under each strategy.
    #[arg(long, default_value_t = 11, value_parser = measure::count)]
    repeats: usize,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Outcome>> {
    let asked = &args.copies;
    let strategy = asked.strategy()?;
    let name = strategy.strategy().name();
    let services = [asked.start(strategy)?, asked.start("nls".parse().expect("the strategy exists"))?];
    let loaded = queries::load(&services[0], &asked.data)?;
    say_line!(
        "{} triples; {} copies at once, medians of {}",
        loaded.dataset.snapshot().len(),
        asked.copies,
        args.repeats
    );
    say_line!("\nquery {:>11}      nls ms     ratio   95 % interval", format!("{name} ms"));
    let mut results = Vec::new();
    for query in &asked.queries()? {
        let name = &query.name;
        let mut times = [Vec::new(), Vec::new()];
        for repeat in 0..args.repeats {
            // The first side changes each time.
            for side in [repeat % 2, 1 - repeat % 2] {
                let run = queries::run(&services[side], &loaded.dataset, query, &PlanOptions::default(), asked.copies)?;
                times[side].push(run.ms);
            }
        }
        let (low, high) = measure::interval(&times, asked.seed);
        let [las, nls] = times.map(|times| median(&times));
        say_line!("{name:6} {las:>10.2} {nls:>11.2} {:>9.3}   {low:.3} to {high:.3}", las / nls);
        results.push(Outcome::new(format!("{} copies of {name}", asked.copies), "ms", las, "nls", nls));
    }
    Ok(results)
}
