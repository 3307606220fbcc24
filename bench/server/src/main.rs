//! Vicus' server beside its peers' servers: Oxigraph's, Fuseki and Virtuoso, on the same data and the same CPUs, in
//! turns.
//!
//! Every side is a process that is asked over HTTP on the loopback interface by one load generator. Where the machine
//! has fewer than four CPUs, the generator shares them with the side that it asks, and takes part of what is measured.
//! A peer that can't run on this machine is skipped with a message.

mod cases;
#[path = "../../src/cpus.rs"]
mod cpus;
mod figures;
mod http;
mod load;
mod process;
mod servers;
mod side;

use anyhow::{Context, ensure};
use cases::Bench;
use clap::{Parser, ValueEnum};
use figures::Figures;
use process::Cpus;
use servers::Given;
use side::Side;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Vicus' server and its peers' on the same data.
#[derive(Parser)]
struct Args {
    /// The program `vicus`.
    #[arg(long)]
    vicus: PathBuf,
    /// How many triples of SP2Bench's data.
    #[arg(long, default_value_t = 1_000_000)]
    triples: u64,
    /// SP2Bench's data as N-Triples, instead of generating it.
    #[arg(long)]
    data: Option<PathBuf>,
    /// A folder of .sparql files.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../doors/cli/queries/sp2b"))]
    queries: PathBuf,
    /// Seconds for which each side is measured each time, behind a warm-up.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// How often each side is measured; the medians count.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// What is measured: by default all.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Case>,
    /// The peers to compare with.
    #[arg(long, value_delimiter = ',', default_value = "oxigraph,fuseki,virtuoso")]
    peers: Vec<Name>,
    /// Numbers of connections for the point queries.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 256])]
    connections: Vec<usize>,
    /// Seconds after which a query is left out of the mix.
    #[arg(long, default_value_t = 10.0)]
    limit: f64,
    /// Writes the results as an array of objects.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Case {
    /// Q1 and Q12c with constants that change.
    Points,
    /// All queries of SP2Bench that every side can answer, by 16 clients.
    Mix,
    /// Short queries beside two clients that ask Q4 without end.
    Beside,
    /// All triples to a fast client.
    Stream,
    /// All triples to 100 slow clients.
    Slow,
    /// Without clients.
    Idle,
    /// From the start to the first answer.
    Start,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// None: Vicus alone.
    None,
    Oxigraph,
    Fuseki,
    Virtuoso,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    ensure!(args.seconds > 0.0 && args.rounds > 0, "--seconds and --rounds are above zero");
    ensure!(args.connections.iter().all(|connections| *connections > 0), "--connections are above zero");
    let cpus = Cpus::divided(&cpus::pin(None)?);
    eprintln!("the sides have the CPUs {:?}, the clients {:?}", cpus.sides, cpus.clients);
    let scratch = tempfile::Builder::new().prefix("vicus-bench-server-").tempdir()?;
    let data = match &args.data {
        Some(data) => data.canonicalize().with_context(|| format!("{}: can't be read", data.display()))?,
        None => {
            let data = scratch.path().join("sp2b.nt");
            let triples = args.triples.to_string();
            let generated = Command::new(&args.vicus)
                .args(["generate", "sp2b", "--triples", &triples, "--output"])
                .arg(&data)
                .status();
            let generated = generated.with_context(|| format!("{} can't be started", args.vicus.display()))?;
            ensure!(generated.success(), "the data can't be generated");
            data
        }
    };
    let queries = cases::queries(&args.queries)?;
    let points = cases::points(&data, &queries)?;
    let sides = sides(&args, &Given { data: &data, vicus: &args.vicus, cpus: &cpus })?;
    let names = sides.iter().map(|side| side.name).collect();
    let mut bench = Bench {
        sides,
        cpus: &cpus,
        figures: Figures::new(names),
        rounds: args.rounds,
        seconds: args.seconds,
        limit: Duration::try_from_secs_f64(args.limit).context("--limit is no time")?,
        connections: args.connections,
        queries,
        points,
        common: None,
    };
    let all = Case::value_variants();
    for case in if args.only.is_empty() { all } else { &args.only } {
        match case {
            Case::Points => bench.points()?,
            Case::Mix => bench.mix()?,
            Case::Beside => bench.beside()?,
            Case::Stream => bench.stream()?,
            Case::Slow => bench.slow()?,
            Case::Idle => bench.idle()?,
            Case::Start => bench.start()?,
        }
    }
    bench.figures.print();
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&bench.figures.json())? + "\n";
        std::fs::write(path, text).with_context(|| format!("{}: can't be written", path.display()))?;
    }
    Ok(())
}

/// All sides that this machine can run, loaded and started, Vicus first.
fn sides(args: &Args, given: &Given<'_>) -> anyhow::Result<Vec<Side>> {
    let mut sides = vec![servers::vicus(given)?, servers::vicus_store(given)?];
    for peer in &args.peers {
        let (name, side) = match peer {
            Name::None => continue,
            Name::Oxigraph => ("oxigraph", servers::oxigraph(given)),
            Name::Fuseki => ("fuseki", servers::fuseki(given)),
            Name::Virtuoso => ("virtuoso", servers::virtuoso(given)),
        };
        match side {
            Ok(side) => sides.push(side),
            Err(error) => eprintln!("skipping {name}: {error:#}"),
        }
    }
    let mut running = Vec::new();
    for mut side in sides {
        match side.restart(given.cpus) {
            Ok(took) => {
                eprintln!("{}: answers after {:.3} s", side.name, took.as_secs_f64());
                running.push(side);
            }
            Err(error) if running.is_empty() => return Err(error),
            Err(error) => eprintln!("skipping {}: {error:#}", side.name),
        }
    }
    Ok(running)
}
