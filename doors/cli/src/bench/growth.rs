//! How times and memory grow with the data, and how Q4 scales with threads.
//!
//! A query whose time has exponent 1 takes twice as long for twice the triples; the exponent of its rows is printed
//! beside it. The speed-up of Q4 is compared with that of a plain loop on as many threads, alternating in the same run.

use super::measure::{self, Outcome, exponent};
use super::queries::{self, Query};
use super::scratch::Scratch;
use super::spin::{calibrate, spin};
use crate::arguments::RuntimeArgs;
use crate::messages::tell;
use crate::{engine, memory};
use vicus_rdf::SnapshotMemory;
use vicus_service::{Dataset, PlanOptions, Service};
use vicus_testing::median;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// About how many triples to generate, for each size.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "250000,1000000,5000000")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    sizes: Vec<u64>,
    /// Files to use instead, each as one size.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "sizes")]
    data: Vec<String>,
    /// The queries; by default all 17.
    #[arg(long, value_delimiter = ',')]
    queries: Vec<String>,
    /// How often each query is run at each size; the medians count.
    #[arg(long, default_value_t = 5, value_parser = measure::count)]
    repeats: usize,
    #[command(flatten)]
    runtime: RuntimeArgs,
}

/// The results for one size.
struct Size {
    triples: usize,
    /// The median milliseconds and the number of rows of each query.
    times: Vec<(f64, u64)>,
    /// The memory reported by the store.
    held: SnapshotMemory,
}

/// How the first load changed the process' memory.
struct Resident {
    triples: usize,
    growth_bytes: f64,
    peak_mib: f64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Vec<Outcome>> {
    let builder = args.runtime.builder()?;
    let queries = if args.queries.is_empty() { queries::queries(None)? } else { queries::named(&args.queries)? };
    let service = args.runtime.serve(builder.clone())?;
    let scratch = Scratch::new()?;
    let (mut sizes, mut resident, mut speed_up) = (Vec::new(), None, None);
    for source in sources(args) {
        let path = match source {
            Source::File(path) => path,
            Source::Generate(triples) => scratch.generate(triples)?,
        };
        let before = memory::resident_bytes();
        let dataset = queries::load(&service, &[path])?.dataset;
        let snapshot = dataset.snapshot();
        let triples = snapshot.len();
        anyhow::ensure!(triples > 0, "a size of no triples has no growth");
        tell(format_args!("  {triples} triples loaded"));
        resident.get_or_insert_with(|| Resident {
            triples,
            growth_bytes: memory::resident_bytes() - before,
            peak_mib: memory::peak_mib(),
        });
        let times = time(&service, &dataset, &queries, args.repeats)?;
        if speed_up.is_none() {
            speed_up =
                Some(SpeedUp::measure(&engine::serve(builder.clone(), Some(1))?, &service, &dataset, args.repeats)?);
        }
        sizes.push(Size { triples, times, held: snapshot.memory() });
    }
    // The generated files are deleted first, because the process may end while it prints to a closed pipe.
    drop(scratch);
    sizes.sort_by_key(|size| size.triples);
    say_line!("{} threads, medians of {}", service.runtime().plan().threads(), args.repeats);
    let mut results = print_times(&queries, &sizes);
    results.push(speed_up.expect("there is a size").print());
    results.push(print_memory(&sizes, &resident.expect("there is a size")));
    Ok(results)
}

enum Source {
    File(String),
    /// About this many triples.
    Generate(u64),
}

/// The largest size first: otherwise memory left by an earlier load would hide a part of its need.
fn sources(args: &Args) -> Vec<Source> {
    if args.data.is_empty() {
        let mut sizes = args.sizes.clone();
        sizes.sort_by_key(|&size| std::cmp::Reverse(size));
        return sizes.into_iter().map(Source::Generate).collect();
    }
    let mut files = args.data.clone();
    // A missing file is reported when it is opened.
    files.sort_by_key(|file| std::cmp::Reverse(std::fs::metadata(file).map_or(0, |about| about.len())));
    files.into_iter().map(Source::File).collect()
}

/// The median milliseconds and the rows of each query.
fn time(service: &Service, dataset: &Dataset, queries: &[Query], repeats: usize) -> anyhow::Result<Vec<(f64, u64)>> {
    let median_of = |query: &Query| -> anyhow::Result<(f64, u64)> {
        let once = |_| queries::run(service, dataset, query, &PlanOptions::default(), 1);
        let runs = (0..repeats).map(once).collect::<anyhow::Result<Vec<_>>>()?;
        let ms = median(&runs.iter().map(|run| run.ms).collect::<Vec<_>>());
        tell(format_args!("  {}: {ms:.2} ms", query.name));
        Ok((ms, runs[0].rows))
    };
    queries.iter().map(median_of).collect()
}

/// The times of Q4 and of a loop, on one thread and on all.
struct SpeedUp {
    triples: usize,
    threads: usize,
    /// Q4's milliseconds on one thread; below, on all.
    one: f64,
    all: f64,
    /// The loop's speed-up on all threads.
    of_loop: f64,
}

impl SpeedUp {
    fn measure(narrow: &Service, wide: &Service, dataset: &Dataset, repeats: usize) -> anyhow::Result<SpeedUp> {
        // The loop takes about a second on one thread.
        const CALLS: usize = 200;
        let rounds = calibrate(5000);
        let query = &queries::named(&["q4".to_owned()])?[0];
        let threads = wide.runtime().plan().threads();
        let (mut times, mut loops) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for _ in 0..repeats {
            for (side, (service, threads)) in [(narrow, 1), (wide, threads)].into_iter().enumerate() {
                loops[side].push(spin(threads, CALLS.max(threads), rounds));
                times[side].push(queries::run(service, dataset, query, &PlanOptions::default(), 1)?.ms);
            }
        }
        let [one, all] = times.map(|times| median(&times));
        let [loop_one, loop_all] = loops.map(|times| median(&times));
        Ok(SpeedUp { triples: dataset.snapshot().len(), threads, one, all, of_loop: loop_one / loop_all })
    }

    fn print(&self) -> Outcome {
        let SpeedUp { triples, threads, one, all, of_loop } = self;
        let own = one / all;
        say_line!("\nq4 at {triples}, 1 and {threads} threads: {one:.0} and {all:.0} ms, a speed-up of {own:.2};");
        say_line!("a loop's is {of_loop:.2}, so q4 has {:.3} of it (goal: at least 0.8)", own / of_loop);
        if *of_loop < 0.75 * *threads as f64 {
            say_line!("The loop had not nearly {threads} PUs to itself: repeat this when the machine is quiet.");
        }
        Outcome::new(format!("q4 at {triples}, {threads} threads"), "ms", *all, "the loop's speed-up", one / of_loop)
    }
}

fn print_times(queries: &[Query], sizes: &[Size]) -> Vec<Outcome> {
    say!("\nms at  ");
    sizes.iter().for_each(|size| say!(" {:>11}", size.triples));
    say_line!("    exponent   of its rows");
    let mut results = Vec::new();
    for (place, query) in queries.iter().enumerate() {
        let over_triples = |of: &dyn Fn((f64, u64)) -> f64| {
            let point = |size: &Size| (size.triples as f64, of(size.times[place]));
            exponent(&sizes.iter().map(point).collect::<Vec<_>>()).filter(|exponent| exponent.is_finite())
        };
        let growth = over_triples(&|(ms, _)| ms);
        say!("{:7}", query.name);
        sizes.iter().for_each(|size| say!(" {:>11.2}", size.times[place].0));
        // A number of rows of zero has no logarithm.
        say_line!(" {:>11} {:>13}", shown(growth), shown(over_triples(&|(_, rows)| rows as f64)));
        if let Some(growth) = growth {
            results.push(Outcome::new(format!("{}, exponent", query.name), "", growth, "linear", 1.0));
        }
        let smallest = &sizes[0];
        for size in sizes {
            let (ms, _) = size.times[place];
            let linear = smallest.times[place].0 * size.triples as f64 / smallest.triples as f64;
            let name = format!("{} at {}", query.name, size.triples);
            results.push(Outcome::new(name, "ms", ms, "linear from the smallest", linear));
        }
    }
    results
}

fn shown(exponent: Option<f64>) -> String {
    exponent.map_or_else(|| "-".to_owned(), |exponent| format!("{exponent:.2}"))
}

fn print_memory(sizes: &[Size], resident: &Resident) -> Outcome {
    say!("\nbytes a triple, at       ");
    sizes.iter().for_each(|size| say!(" {:>11}", size.triples));
    say_line!("");
    let line = |what: &str, bytes: &dyn Fn(&SnapshotMemory) -> usize| {
        say!("{what:25}");
        sizes.iter().for_each(|size| say!(" {:>11.2}", bytes(&size.held) as f64 / size.triples as f64));
        say_line!("");
    };
    for (place, (order, _)) in sizes[0].held.indexes.iter().enumerate() {
        line(&format!("index {order:?}"), &|held| held.indexes[place].1);
    }
    line("dictionary, text", &|held| held.dictionary_text);
    line("dictionary, ends", &|held| held.dictionary_ends);
    line("statistics", &|held| held.statistics);
    line("held by the store", &SnapshotMemory::total);
    let growth = resident.growth_bytes / resident.triples as f64;
    let largest = sizes.last().expect("there is a size");
    let held = largest.held.total() as f64 / largest.triples as f64;
    say_line!("Loading {} triples made the process grow by {growth:.2} bytes a triple,", resident.triples);
    say_line!(
        "{:.2} of them not the store's but what loading has left with the allocator, and threads.",
        growth - held
    );
    say_line!(
        "An index has two ids for each triple and one for each of its first level, packed in blocks into as few bits \
            as they need."
    );
    say_line!("A term that is not its own id is text and 5 bytes for where it ends, once.");
    say_line!("The peak was {:.0} MiB.", resident.peak_mib);
    Outcome::new(format!("growth by loading {}", resident.triples), "bytes a triple", growth, "held by the store", held)
}
