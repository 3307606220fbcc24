//! Loads N-Triples from standard input and prints where the time went: `zcat data.nt.gz | load [workers]`.
//!
//! Everything runs on one thread. With several workers, chunks are dealt to as many pieces, which are then merged: the
//! steps of parallel loading, one after the other. For comparison, oxttl parses the same text without keeping terms.
#![expect(clippy::disallowed_methods, reason = "an example is a door: it has a clock and arguments")]

use std::io::Read;
use std::time::Instant;
use vicus_rdf::load::{self, Assembled, Chunker, OnError, ParsedPart, SortedRun, SortedTerms};
use vicus_rdf::{Order, Snapshot};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workers: usize = std::env::args().nth(1).map_or(Ok(1), |workers| workers.parse())?;
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text)?;
    println!("{:>8.1} MB of text, {} MiB resident", text.len() as f64 / 1e6, resident_mib());

    let step = Instant::now();
    let triples = oxttl::NTriplesParser::new().for_slice(&text).filter(Result::is_ok).count();
    say(&format!("oxttl alone reads {triples} triples, for comparison"), step);

    let start = Instant::now();
    let step = Instant::now();
    let mut parsed: Vec<ParsedPart> = (0..workers).map(|_| ParsedPart::default()).collect();
    let (chunks, _) = Chunker::new(4 << 20).cut(&text, true);
    for (place, chunk) in chunks.into_iter().enumerate() {
        load::parse_lines_into(&mut parsed[place % workers], chunk, load::Syntax::NTriples, 0, OnError::Fail)?;
    }
    drop(text);
    say("parse", step);

    let step = Instant::now();
    let sorted = parsed.into_iter().map(SortedTerms::new).collect::<Result<Vec<_>, _>>()?;
    let (terms, mut quads): (Vec<_>, Vec<_>) = sorted.into_iter().unzip();
    say("sort terms", step);
    let step = Instant::now();
    let parts = load::cut_terms(&terms, workers);
    let parts = parts.iter().map(|part| load::merge_terms(&terms, part)).collect::<Result<_, _>>()?;
    say("merge terms", step);
    let step = Instant::now();
    let Assembled { terms, numbering, tables } = load::assemble(terms, parts)?;
    say("assemble terms", step);
    let step = Instant::now();
    let dictionary = terms.dictionary()?;
    say("compress dictionary", step);
    let step = Instant::now();
    quads.iter_mut().zip(&tables).for_each(|(quads, table)| load::remap(quads, table));
    drop(tables);
    say("remap", step);
    let step = Instant::now();
    let runs =
        quads.into_iter().map(|quads| SortedRun::new(Order::Gspo, quads)).collect::<Result<Vec<SortedRun>, _>>()?;
    say("sort runs by Gspo", step);
    let mut indexes = Vec::new();
    for order in Order::USUAL {
        let step = Instant::now();
        let runs = runs.iter().map(|run| run.derive(order)).collect::<Result<Vec<SortedRun>, _>>()?;
        let parts: Vec<SortedRun> = if workers == 1 {
            runs
        } else {
            let parts = load::cut_runs(&runs, workers);
            parts.iter().map(|part| load::merge_runs(&runs, part)).collect::<Result<_, _>>()?
        };
        indexes.push(load::index(order, &parts, &numbering)?);
        say(&format!("index {order:?}"), step);
    }
    drop((runs, numbering));
    let step = Instant::now();
    let snapshot = Snapshot::new(dictionary, indexes)?;
    say("statistics", step);
    say("whole load", start);
    let (all, terms) = (
        snapshot.heap_bytes() as f64 / f64::from(1 << 20),
        snapshot.dictionary().heap_bytes() as f64 / f64::from(1 << 20),
    );
    println!(
        "{} triples, {} terms, {all:.1} MiB held ({terms:.1} dictionary), {} resident",
        snapshot.len(),
        snapshot.dictionary().len(),
        resident_mib()
    );
    println!("{}", peak());
    Ok(())
}

fn say(step: &str, since: Instant) {
    println!("{:>8.1} ms {step}", since.elapsed().as_secs_f64() * 1e3);
}

fn status(field: &str) -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find(|line| line.starts_with(field)).map(str::to_owned)
}

fn resident_mib() -> u64 {
    let line = status("VmRSS:").unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn peak() -> String {
    status("VmHWM:").unwrap_or_default()
}
