//! SPARQL beside its peers: the 17 SP2Bench queries on Vicus, Oxigraph, RDF4J, Jena and Virtuoso in one run,
//! alternating.
//!
//! A time includes parsing, planning and running, up to the last row counted. All sides may use the same PUs, and all
//! answer some queries unmeasured first, because a JVM compiles code that runs often. A peer that can't run on this
//! machine is skipped with a message.

mod virtuoso;

use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use vicus::Setting;
use vicus_bench::peer::{Query, Side};
use vicus_bench::queries::Runs;
use vicus_bench::table::{self, Ended, Measured};
use vicus_bench::{cpus, java, oxigraph_side, queries, vicus_side};

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
    /// How many PUs to use: every side gets the same ones, and Vicus one thread for each. By default all that this
    /// process may use.
    #[arg(long)]
    threads: Option<usize>,
    /// The strategy of Vicus.
    #[arg(long, default_value = "las")]
    strategy: Setting,
    /// Seconds after which a query is cancelled.
    #[arg(long, default_value_t = 20.0)]
    limit: f64,
    /// Vicus makes each term of each row, as Oxigraph does, and the terms of both are compared. Without this, rows are
    /// counted.
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
    let queries = queries::read(&args.queries)?;
    let cpus = cpus::pin(args.threads)?;
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

/// The peers that can run here; prints why the others can't.
fn peers(args: &Args, threads: usize, limit: Duration) -> Vec<Side> {
    let jars = java::folder();
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

/// One query on all sides, and the sums of its terms where these are wanted.
fn measure(sides: &mut [Side], query: &Query, args: &Args, limit: Duration) -> Vec<Measured> {
    let runs = Runs { warm_up: args.warm_up, repeats: args.repeats, limit };
    let mut measured = queries::measure(sides, query, runs);
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
