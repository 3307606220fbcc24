//! How many rows an envelope should have: two queries, five sizes.
//!
//! Bobox report 2011/1, §6.2, Tables 1 and 2: Q2 and Q5a over a million triples with envelopes of 1K to 16K rows. Its
//! times are from another machine and exclude parser and planner, so the milliseconds can't be compared, but their
//! change with the size can: the column "of the best" divides each time by the least of its table.
//!
//! §2.1 has a first guess for any machine: chunks of half the size of each level of cache. These are tried as well. A
//! row is as wide as the widest that boxes of the query send.

use super::measure::{self, Outcome, deviation};
use super::queries;
use super::scratch::Scratch;
use crate::arguments::RuntimeArgs;
use vicus::Topology;
use vicus_service::{Dataset, PlanOptions, Service};
use vicus_testing::median;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The data, as for `vicus query`; by default a million triples are generated.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    data: Vec<String>,
    /// How often each query is run with each size; the medians count. The report has the means of five.
    #[arg(long, default_value_t = 5, value_parser = measure::count)]
    repeats: usize,
    #[command(flatten)]
    runtime: RuntimeArgs,
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
    let service = args.runtime.serve(args.runtime.builder()?)?;
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
        let row_bytes = widest_row(&service, &dataset, query)?;
        let halves = halves(service.runtime().topology(), row_bytes);
        let sizes: Vec<usize> = table.iter().map(|size| size.0).chain(halves.iter().map(|half| half.rows)).collect();
        let mut times = vec![Vec::new(); sizes.len()];
        for repeat in 0..args.repeats {
            // The first size changes each time.
            for place in 0..sizes.len() {
                let place = (place + repeat) % sizes.len();
                let options = PlanOptions { envelope_rows: sizes[place], ..PlanOptions::default() };
                times[place].push(queries::run(&service, &dataset, query, &options, 1)?.ms);
            }
        }
        let (of_table, of_halves) = times.split_at(table.len());
        print(name, title, &table, of_table);
        for ((rows, theirs, _), times) in table.iter().zip(of_table) {
            let name = format!("{name}, envelopes of {rows} rows");
            results.push(Outcome::new(name, "ms", median(times), "Bobox 2011, another machine", *theirs));
        }
        let best = least(of_table.iter().map(|times| median(times)));
        print_halves(row_bytes, &halves, of_halves, best);
        for (half, times) in halves.iter().zip(of_halves) {
            let name = format!("{name}, envelopes of half of L{}", half.level);
            results.push(Outcome::new(name, "ms", median(times), "best size of the table", best));
        }
    }
    Ok(results)
}

/// Half of a cache, as rows.
#[derive(Debug, PartialEq)]
struct Half {
    level: u8,
    /// The cache's size.
    bytes: u64,
    rows: usize,
}

/// Half of each cache level of the first PU, divided by the width of a row. A cache of unknown size is left out.
fn halves(topology: &Topology, row_bytes: usize) -> Vec<Half> {
    let first = topology.usable_pus().next().map(|pu| pu.id);
    let caches =
        topology.caches.iter().filter(|cache| cache.bytes > 0 && cache.pus.iter().any(|&pu| Some(pu) == first));
    let half = |bytes: u64| (bytes as usize / 2 / row_bytes.max(1)).max(1);
    let mut halves: Vec<Half> =
        caches.map(|cache| Half { level: cache.level, bytes: cache.bytes, rows: half(cache.bytes) }).collect();
    halves.sort_by_key(|half| half.level);
    halves
}

/// The bytes of the widest row sent by a box of the query's model, with a word for each column.
fn widest_row(service: &Service, dataset: &Dataset, query: &queries::Query) -> anyhow::Result<usize> {
    let session = service.session(dataset, queries::session_options(&PlanOptions::default()));
    let prepared = session.call()?.prepare(&query.text)?;
    let outputs = prepared.model().boxes().iter().flat_map(|each| each.outputs());
    Ok(8 * outputs.map(|(schema, _)| schema.columns().len()).max().unwrap_or(1).max(1))
}

fn least(all: impl IntoIterator<Item = f64>) -> f64 {
    all.into_iter().fold(f64::INFINITY, f64::min)
}

fn print_halves(row_bytes: usize, halves: &[Half], times: &[Vec<f64>], best: f64) {
    say_line!("half of     rows of {row_bytes} bytes   time (ms)   std. dev.   of the table's best");
    for (Half { level, bytes, rows }, times) in halves.iter().zip(times) {
        say_line!(
            "L{level} {:>6}K {rows:>18} {:>11.2} {:>11.2} {:>21.2}",
            bytes >> 10,
            median(times),
            deviation(times),
            median(times) / best
        );
    }
    if halves.is_empty() {
        say_line!("This machine does not tell the sizes of its caches.");
    }
}

fn print(name: &str, title: &str, table: &Table, times: &[Vec<f64>]) {
    let ours: Vec<f64> = times.iter().map(|times| median(times)).collect();
    let (best, their_best) = (least(ours.iter().copied()), least(table.map(|(_, ms, _)| ms)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_half_of_a_cache() {
        let topology = vicus_sim::Machine::by_name("core-i7-860").unwrap().topology;
        let rows: Vec<(u8, usize)> = halves(&topology, 24).iter().map(|half| (half.level, half.rows)).collect();
        // 16 KiB, 128 KiB and 4 MiB.
        assert_eq!(rows, [(1, 682), (2, 5461), (3, 174_762)]);
        assert!(halves(&topology, 1 << 30).iter().all(|half| half.rows == 1), "at least one row");
    }
}
