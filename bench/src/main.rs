//! SPARQL beside a peer: the 17 SP2Bench queries on Vicus and on Oxigraph in one process, alternating.
//!
//! Each time is parse, plan and run together, down to the last row counted. A peer's query that takes longer than the limit
//! is cancelled; then the limit stands for its time, and the ratio is at most what is printed.

use anyhow::{Context, ensure};
use clap::Parser;
use oxigraph::io::{RdfFormat, RdfParser};
use oxigraph::sparql::{CancellationToken, QueryResults, SparqlEvaluator};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vicus::{Runtime, Setting};
use vicus_rdf::Store;
use vicus_rdf::load::{Load, LoadOptions, Source, Syntax};
use vicus_sparql::Options;

/// Vicus and Oxigraph on the same file and queries.
#[derive(Parser)]
struct Args {
    /// N-Triples, unpacked.
    #[arg(long)]
    data: PathBuf,
    /// A folder of .sparql files.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../doors/cli/queries/sp2b"))]
    queries: PathBuf,
    /// Runs of each query on each side; the medians count.
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    /// Threads of Vicus; by default one for each PU. The peer evaluates a query on one thread.
    #[arg(long)]
    threads: Option<usize>,
    /// The strategy of Vicus.
    #[arg(long, default_value = "las")]
    strategy: Setting,
    /// Seconds after which a peer's query is cancelled.
    #[arg(long, default_value_t = 20.0)]
    limit: f64,
    /// Writes the results as an array of objects.
    #[arg(long)]
    json: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let limit = Duration::from_secs_f64(args.limit);
    let mut builder = Runtime::builder().strategy(args.strategy.clone());
    if let Some(threads) = args.threads {
        builder = builder.threads(threads);
    }
    let runtime = builder.start();
    let threads = runtime.plan().threads();

    let open = || std::fs::File::open(&args.data).with_context(|| format!("{}: can't be opened", args.data.display()));
    let began = Instant::now();
    let source = Source::new(args.data.display().to_string(), Syntax::NTriples, open()?);
    let load = Load::new(vec![source], LoadOptions { workers: threads, ..LoadOptions::default() });
    runtime.submit(load.model()).wait()?;
    let ours = Arc::new(load.finish()?.store);
    let our_load = began.elapsed().as_secs_f64() * 1e3;
    let began = Instant::now();
    let theirs = oxigraph::store::Store::new()?;
    let mut loader = theirs.bulk_loader();
    loader.load_from_reader(RdfParser::from_format(RdfFormat::NTriples), open()?)?;
    loader.commit()?;
    let their_load = began.elapsed().as_secs_f64() * 1e3;

    println!("{} triples, {threads} threads, medians of {}", ours.len(), args.repeats);
    println!("\nquery        rows    vicus ms   oxigraph ms       ratio");
    println!("load   {:>10} {our_load:>11.2} {their_load:>13.2} {:>11.4}", ours.len(), our_load / their_load);
    let mut lines = vec![json!({
        "name": "load", "unit": "ms", "ours": our_load, "peer": "oxigraph", "theirs": their_load,
        "ratio": our_load / their_load,
    })];
    let (mut logs, mut all) = (0.0, 0);
    for (name, text) in queries(&args.queries)? {
        let (mut mine, mut other) = (Vec::new(), Vec::new());
        let mut rows = 0;
        let mut cut = false;
        for _ in 0..args.repeats.max(1) {
            let (ms, count) = ask_vicus(&runtime, &ours, &text, threads).with_context(|| format!("vicus, {name}"))?;
            mine.push(ms);
            rows = count;
            // A query that was cancelled once is not waited for again.
            if !cut {
                let (ms, count) = ask_oxigraph(&theirs, &text, limit).with_context(|| format!("oxigraph, {name}"))?;
                other.push(ms);
                cut = count.is_none();
                ensure!(count.is_none_or(|count| count == rows), "{name}: vicus has {rows} rows, oxigraph {count:?}");
            }
        }
        let (mine, other) = (median(&mut mine), median(&mut other));
        let ratio = mine / other;
        let sign = if cut { '>' } else { ' ' };
        println!("{name:6} {rows:>10} {mine:>11.2} {sign}{other:>12.2} {ratio:>11.4}");
        lines.push(json!({
            "name": name, "unit": "ms", "ours": mine, "peer": "oxigraph", "theirs": other, "ratio": ratio,
        }));
        logs += ratio.ln();
        all += 1;
    }
    println!("\ngeometric mean of the queries' ratios: {:.4}", (logs / f64::from(all)).exp());
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&lines)? + "\n";
        std::fs::write(path, text).with_context(|| format!("{}: can't be written", path.display()))?;
    }
    Ok(())
}

/// Names and texts, q2 before q10.
fn queries(folder: &PathBuf) -> anyhow::Result<Vec<(String, String)>> {
    let mut queries = Vec::new();
    for file in std::fs::read_dir(folder).with_context(|| format!("{}: can't be read", folder.display()))? {
        let path = file?.path();
        if path.extension().is_some_and(|ending| ending == "sparql") {
            let name = path.file_stem().context("a file has a name")?.to_string_lossy().into_owned();
            queries.push((name, std::fs::read_to_string(&path)?));
        }
    }
    queries.sort_by_key(|(name, _)| (name.trim_end_matches(char::is_alphabetic).len(), name.clone()));
    Ok(queries)
}

fn ask_vicus(runtime: &Runtime, store: &Arc<Store>, text: &str, threads: usize) -> anyhow::Result<(f64, u64)> {
    let began = Instant::now();
    let parsed = vicus_sparql::parse(text)?;
    let plan = vicus_sparql::plan(store, &parsed, &Options { threads, ..Options::default() })?;
    let rows = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&rows);
    let sink = plan.sink_operator(move |envelope| {
        count.fetch_add(envelope.rows() as u64, Ordering::Relaxed);
        Ok(())
    });
    runtime.submit_with(plan.model(), vec![(plan.sink(), sink)]).wait()?;
    Ok((began.elapsed().as_secs_f64() * 1e3, rows.load(Ordering::Acquire)))
}

/// Milliseconds and rows; no rows if it was cancelled.
fn ask_oxigraph(store: &oxigraph::store::Store, text: &str, limit: Duration) -> anyhow::Result<(f64, Option<u64>)> {
    let token = CancellationToken::new();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let watch = {
        let token = token.clone();
        std::thread::spawn(move || {
            // An error here means that the query has ended and dropped its sender.
            if is_done.recv_timeout(limit) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                token.cancel();
            }
        })
    };
    let began = Instant::now();
    let evaluator = SparqlEvaluator::new().with_cancellation_token(token);
    let count = || -> anyhow::Result<u64> {
        match evaluator.parse_query(text)?.on_store(store).execute()? {
            QueryResults::Boolean(answer) => Ok(u64::from(answer)),
            QueryResults::Solutions(solutions) => {
                let mut rows = 0;
                for solution in solutions {
                    solution?;
                    rows += 1;
                }
                Ok(rows)
            }
            QueryResults::Graph(_) => anyhow::bail!("a graph was not asked for"),
        }
    };
    let rows = count();
    let ms = began.elapsed();
    drop(done);
    let _ = watch.join();
    let rows = match rows {
        Ok(rows) => Some(rows),
        Err(_) if ms >= limit => None,
        Err(error) => return Err(error),
    };
    Ok((ms.as_secs_f64() * 1e3, rows))
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    (samples[(samples.len() - 1) / 2] + samples[samples.len() / 2]) / 2.0
}
