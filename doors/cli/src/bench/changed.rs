//! Queries over data that single updates have changed, beside the same data loaded at once.
//!
//! The changed data is made so: of the loaded data, some quads by chance are left out, and the rest becomes a base with a dictionary of
//! its own; then they are inserted, each by an update. So both have the same quads, and answers are compared.

use super::measure::{self, Outcome, median};
use super::queries;
use crate::engine;
use anyhow::ensure;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::RngCore;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use vicus::{Runtime, Setting};
use vicus_rdf::{Changes, Id, Order, Snapshot, Storage};
use vicus_service::Dataset;
use vicus_sparql::PlanOptions;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The data, as for `vicus query`.
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    data: Vec<String>,
    /// A folder of .sparql files; by default the 17 queries of SP2Bench.
    #[arg(long, value_name = "FOLDER")]
    queries: Option<PathBuf>,
    /// How many quads are inserted by updates; several numbers are measured one after the other.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [4_000, 100_000], value_parser = measure::count)]
    changes: Vec<usize>,
    /// The seed that chooses these quads.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many threads; by default one for each PU that this process may use.
    #[arg(long, value_name = "N", value_parser = measure::threads)]
    threads: Option<usize>,
    /// The strategy, with its parameters; by default what VICUS_STRATEGY says, else las.
    #[arg(long)]
    strategy: Option<Setting>,
    /// How often each query is asked; the medians are shown.
    #[arg(long, default_value_t = 15, value_parser = measure::count)]
    repeats: usize,
}

/// The same quads, of which so many were inserted one by one.
fn changed(all: &Snapshot, count: usize, seed: u64) -> anyhow::Result<Snapshot> {
    let index = all.index(Order::Gspo);
    ensure!(count <= index.len(), "{count} changes of {} quads", index.len());
    let mut chance = Pcg64::new(u128::from(seed), 0xcafe_f00d_d15e_a5e5);
    let mut below = |end: usize| (chance.next_u64() % end as u64) as usize;
    let mut left = count;
    let mut later = Changes::of(all);
    for (place, quad) in index.quads(0..index.len()).enumerate() {
        // So many of those that are left.
        if below(index.len() - place) < left {
            later.deletes.push(quad);
            left -= 1;
        }
    }
    let mut quads = later.deletes.clone();
    let mut made = Snapshot::united(&[&all.with(later)?], &Storage::Memory, &mut || {})?;
    // Not in the order of the index.
    for place in (1..quads.len()).rev() {
        quads.swap(place, below(place + 1));
    }
    let start = Instant::now();
    for quad in quads {
        let mut changes = Changes::of(&made);
        let mut ids = [Id::UNBOUND; 4];
        for (id, old) in ids.iter_mut().zip(quad).filter(|(_, old)| !old.is_unbound()) {
            *id = changes.id(&made, all.term(old).as_ref())?;
        }
        changes.inserts.push(ids);
        made = made.with(changes)?;
    }
    let each = start.elapsed().as_secs_f64() * 1e6 / count as f64;
    say_line!("\n{count} quads of {} inserted one by one, each in {each:.1} us without the disk", all.len());
    Ok(made)
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Outcome>> {
    let strategy = crate::strategy::one(args.strategy.as_ref())?;
    let service = engine::serve(Runtime::builder().strategy(strategy), args.threads)?;
    let queries = queries::queries(args.queries.as_deref())?;
    let loaded = queries::load(&service, &args.data)?.dataset;
    let mut results = Vec::new();
    for &count in &args.changes {
        let updated = Dataset::new(Arc::new(changed(loaded.snapshot(), count, args.seed)?));
        say_line!("query        rows  changed ms   loaded ms     ratio");
        for query in &queries {
            let (mut times, mut rows) = ([Vec::new(), Vec::new()], [0; 2]);
            for repeat in 0..args.repeats {
                // The first side changes each time.
                for side in [repeat % 2, 1 - repeat % 2] {
                    let run = queries::run(&service, [&updated, &loaded][side], query, &PlanOptions::default(), 1)?;
                    times[side].push(run.ms);
                    rows[side] = run.rows;
                }
            }
            ensure!(rows[0] == rows[1], "query {}: {} rows and {} rows", query.name, rows[0], rows[1]);
            let [ours, theirs] = times.map(|times| median(&times));
            say_line!("{:6} {:>10} {ours:>11.3} {theirs:>11.3} {:>9.2}", query.name, rows[0], ours / theirs);
            results.push(Outcome::new(format!("{} after {count} changes", query.name), "ms", ours, "loaded", theirs));
        }
    }
    Ok(results)
}
