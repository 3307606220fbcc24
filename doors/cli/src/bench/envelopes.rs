//! How many rows an envelope should have: two queries, five sizes.
//!
//! Bobox report 2011/1, §6.2, Tables 1 and 2: Q2 and Q5a over a million triples with envelopes of 1K to 16K rows. Its times are
//! from another machine and exclude parser and planner, so the milliseconds can't be compared, but their change with the size
//! can: the column "of the best" divides each time by the least of its table.

use super::measure::{self, Outcome, deviation, median};
use super::queries;
use super::scratch::Scratch;
use crate::engine;
use vicus::{Runtime, Setting};
use vicus_sparql::PlanOptions;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The data, as for `vicus query`; by default a million triples are generated.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    data: Vec<String>,
    /// How often each query is run with each size; the medians count. The report has the means of five.
    #[arg(long, default_value_t = 5, value_parser = measure::count)]
    repeats: usize,
    /// How many threads; by default one for each PU that this process may use. The report used four.
    #[arg(long, value_name = "N", value_parser = measure::threads)]
    threads: Option<usize>,
    /// The strategy, with its parameters; by default what VICUS_STRATEGY says, else las.
    #[arg(long)]
    strategy: Option<Setting>,
}

/// The number of rows, and the report's milliseconds and standard deviation.
type Table = [(usize, f64, f64); 5];

const TABLES: [(&str, &str, Table); 2] = [
    (
        "q2",
        "Table 1",
        [
            (1 << 10, 1101.0, 164.3),
            (2 << 10, 536.0, 21.7),
            (4 << 10, 562.0, 12.1),
            (8 << 10, 606.0, 6.0),
            (16 << 10, 714.0, 16.8),
        ],
    ),
    (
        "q5a",
        "Table 2",
        [
            (1 << 10, 2284.0, 80.7),
            (2 << 10, 1892.0, 62.1),
            (4 << 10, 1794.0, 59.7),
            (8 << 10, 2152.0, 141.2),
            (16 << 10, 3943.0, 160.4),
        ],
    ),
];

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Outcome>> {
    let strategy = crate::strategy::one(args.strategy.as_ref())?;
    let service = engine::serve(Runtime::builder().strategy(strategy), args.threads)?;
    let scratch = Scratch::new()?;
    let files = if args.data.is_empty() { vec![scratch.generate(1_000_000)?] } else { args.data.clone() };
    let dataset = queries::load(&service, &files)?.dataset;
    drop(scratch);
    say_line!(
        "{} triples, {} threads, medians of {}",
        dataset.snapshot().len(),
        service.runtime().plan().threads(),
        args.repeats
    );
    say_line!(
        "Bobox's times are its report's (2011), of evaluation alone: a million triples, a Core i7-860 of 2.8 GHz, four"
    );
    say_line!("threads, Windows 7, plans made by hand. Ours are parse, plan and run, here and now.");
    let mut results = Vec::new();
    for (name, title, table) in TABLES {
        let query = &queries::named(&[name.to_owned()])?[0];
        let mut times = table.map(|_| Vec::new());
        for repeat in 0..args.repeats {
            // The first size changes each time.
            for place in 0..table.len() {
                let place = (place + repeat) % table.len();
                let options = PlanOptions { envelope_rows: table[place].0, ..PlanOptions::default() };
                times[place].push(queries::run(&service, &dataset, query, &options, 1)?.ms);
            }
        }
        print(name, title, &table, &times);
        for ((rows, theirs, _), times) in table.iter().zip(&times) {
            let name = format!("{name}, envelopes of {rows} rows");
            results.push(Outcome::new(name, "ms", median(times), "Bobox 2011, another machine", *theirs));
        }
    }
    Ok(results)
}

fn print(name: &str, title: &str, table: &Table, times: &[Vec<f64>; 5]) {
    let ours = times.each_ref().map(|times| median(times));
    let least = |all: [f64; 5]| all.into_iter().fold(f64::INFINITY, f64::min);
    let (best, their_best) = (least(ours), least(table.map(|(_, ms, _)| ms)));
    say_line!("\n{name:4}  vicus                                 Bobox, {title}");
    say_line!("size  time (ms)   std. dev.   of the best   time (ms)   std. dev.   of the best");
    for (place, (rows, theirs, their_deviation)) in table.iter().enumerate() {
        say_line!(
            "{:>4} {:>10.2} {:>11.2} {:>13.2} {theirs:>11.0} {their_deviation:>11.1} {:>13.2}",
            format!("{}K", rows >> 10),
            ours[place],
            deviation(&times[place]),
            ours[place] / best,
            theirs / their_best,
        );
    }
}
