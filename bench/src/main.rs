//! SPARQL beside its peers: the 17 SP2Bench queries on Vicus, Oxigraph, RDF4J, Jena and Virtuoso in one run, alternating.
//!
//! A time includes parsing, planning and running, up to the last row counted. All sides may use the same PUs, and all answer
//! some queries unmeasured first, because a JVM compiles code that runs often. A peer that can't run on this machine is skipped
//! with a message.

mod java;
mod oxigraph_side;
mod peer;
mod table;
mod vicus_side;
mod virtuoso;

use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};
use peer::{Answer, Query, Side};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use table::{Ended, Measured};
use vicus::Setting;

/// Vicus and its peers on the same file and queries.
#[derive(Parser)]
struct Args {
    /// N-Triples, unpacked.
    #[arg(long)]
    data: PathBuf,
    /// A folder of .sparql files.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../doors/cli/queries/sp2b"))]
    queries: PathBuf,
    /// The peers to compare with.
    #[arg(long, value_delimiter = ',', default_value = "oxigraph,rdf4j,jena,virtuoso")]
    peers: Vec<Name>,
    /// Runs of each query on each side; the medians count.
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    /// Runs of each query on each side before the measured ones; fewer if they take more than two seconds together.
    #[arg(long, default_value_t = 5)]
    warm_up: usize,
    /// How many PUs to use: every side gets the same ones, and Vicus one thread for each. By default all that this process may
    /// use.
    #[arg(long)]
    threads: Option<usize>,
    /// The strategy of Vicus.
    #[arg(long, default_value = "las")]
    strategy: Setting,
    /// Seconds after which a query is cancelled.
    #[arg(long, default_value_t = 20.0)]
    limit: f64,
    /// Vicus makes each term of each row, as Oxigraph does, and the terms of both are compared. Without this, rows are counted.
    #[arg(long)]
    terms: bool,
    /// Writes the results as an array of objects.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    Oxigraph,
    Rdf4j,
    Jena,
    Virtuoso,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let limit = Duration::try_from_secs_f64(args.limit).context("--limit takes seconds")?;
    ensure!(args.repeats > 0, "--repeats takes a number from 1");
    let queries = queries(&args.queries)?;
    let cpus = pin(args.threads)?;
    println!("every side may use the CPUs {cpus:?}, by an affinity set before its threads or its process start");

    let mut sides = vec![vicus_side::load(&args.data, cpus.len(), &args.strategy, args.terms)?];
    sides.extend(peers(&args, cpus.len(), limit));
    println!(
        "{} triples; {} threads of Vicus; medians of {} after {} to warm up; limit {} s\n",
        sides[0].triples,
        cpus.len(),
        args.repeats,
        args.warm_up,
        args.limit
    );
    table::print_head(&sides);
    table::print_loads(&sides);
    let mut results = Vec::new();
    for query in &queries {
        let measured = measure(&mut sides, query, &args, limit);
        table::print_line(&query.name, &measured);
        results.push((query.name.clone(), measured));
    }
    let alike = table::print_end(&sides, &results);
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&table::json(&sides, &results))? + "\n";
        std::fs::write(path, text).with_context(|| format!("{}: can't be written", path.display()))?;
    }
    ensure!(alike, "a side failed, or its results differ");
    Ok(())
}

/// Restricts this process, and its children, to this many of the CPUs that it may use; returns their numbers.
fn pin(threads: Option<usize>) -> anyhow::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None)?;
    let mut cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    if let Some(threads) = threads {
        ensure!(
            (1..=cpus.len()).contains(&threads),
            "--threads {threads}: this process may use {} CPUs, and a side gets one for each thread",
            cpus.len()
        );
        cpus.truncate(threads);
    }
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(None, &set)?;
    Ok(cpus)
}

/// The peers that can run here; prints why the others can't.
fn peers(args: &Args, threads: usize, limit: Duration) -> Vec<Side> {
    let jars = java_folder();
    // RDF4J and Jena are built once.
    let mut built = None;
    let mut java = |engine| {
        let built = built.get_or_insert_with(|| java::build(&jars).map_err(|error| format!("{error:#}")));
        built.clone().map_err(anyhow::Error::msg)?;
        java::load(engine, &jars, &args.data)
    };
    let mut sides = Vec::new();
    for &name in &args.peers {
        let side = match name {
            Name::Oxigraph => oxigraph_side::load(&args.data),
            Name::Rdf4j => java("rdf4j"),
            Name::Jena => java("jena"),
            Name::Virtuoso => virtuoso::load(&args.data, threads, limit),
        };
        match side {
            Ok(side) => sides.push(side),
            Err(error) => {
                let name = name.to_possible_value().expect("none is hidden");
                println!("SKIPPED {}: {error:#}", name.get_name());
            }
        }
    }
    sides
}

/// The folder for Java builds, beside the folder of this program's profile.
fn java_folder() -> PathBuf {
    let program = std::env::current_exe().ok();
    let target = program.as_deref().and_then(|program| program.ancestors().nth(2));
    target.unwrap_or(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/target"))).join("peers")
}

/// The first of these names that is a file in a folder of PATH.
fn find_program(names: &[&'static str]) -> Option<&'static str> {
    let path = std::env::var_os("PATH")?;
    let is_there = |name: &&str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    names.iter().copied().find(|name| is_there(name))
}

/// Names and texts of the queries, q2 before q10.
fn queries(folder: &Path) -> anyhow::Result<Vec<Query>> {
    let mut queries = Vec::new();
    for file in std::fs::read_dir(folder).with_context(|| format!("{}: can't be read", folder.display()))? {
        let path = file?.path().canonicalize()?;
        if path.extension().is_some_and(|ending| ending == "sparql") {
            let name = path.file_stem().context("a file has a name")?.to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).with_context(|| format!("{}: can't be read", path.display()))?;
            queries.push(Query { name, path, text });
        }
    }
    ensure!(!queries.is_empty(), "{}: no file ends in .sparql", folder.display());
    queries.sort_by_key(|query| (query.name.trim_end_matches(char::is_alphabetic).len(), query.name.clone()));
    Ok(queries)
}

/// One query on all sides: first the warm-up on each side, then alternating measurements.
fn measure(sides: &mut [Side], query: &Query, args: &Args, limit: Duration) -> Vec<Measured> {
    let mut measured: Vec<Measured> = sides.iter().map(|_| Measured::default()).collect();
    for (side, measured) in sides.iter_mut().zip(&mut measured) {
        let began = Instant::now();
        for _ in 0..args.warm_up {
            if measured.ended.is_some() || began.elapsed() > Duration::from_secs(2) {
                break;
            }
            ask(side, query, limit, measured);
        }
        measured.times.clear();
    }
    for repeat in 0..args.repeats {
        // The first side changes each time.
        for place in 0..sides.len() {
            let place = (place + repeat) % sides.len();
            // A side that was cut off or has failed is not asked again.
            if measured[place].ended.is_none() {
                ask(&mut sides[place], query, limit, &mut measured[place]);
            }
        }
    }
    if args.terms && measured.iter().all(|measured| measured.ended.is_none()) {
        for (side, measured) in sides.iter_mut().zip(&mut measured) {
            match side.peer.sum(query) {
                Ok(sum) => measured.sum = sum,
                Err(error) => measured.ended = Some(Ended::Failed(format!("{error:#}"))),
            }
        }
    }
    measured
}

fn ask(side: &mut Side, query: &Query, limit: Duration, measured: &mut Measured) {
    match side.peer.ask(query, limit) {
        Ok(Answer::Rows { ms, rows }) => {
            measured.times.push(ms);
            let before = *measured.rows.get_or_insert(rows);
            if before != rows {
                measured.ended = Some(Ended::Failed(format!("{rows} rows, and {before} before")));
            }
        }
        Ok(Answer::Cut) => measured.ended = Some(Ended::Cut),
        Err(error) => measured.ended = Some(Ended::Failed(format!("{error:#}"))),
    }
}
