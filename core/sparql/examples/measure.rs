//! Asks every query of a folder and says how long each took: `measure DATA QUERIES [ROUNDS [NAME...]]`.
//!
//! One thread, no world but the sequential one. Planning is measured apart from running; the least of all rounds counts. With the
//! name of a query, its plan is printed, too.
#![expect(clippy::disallowed_methods, reason = "an example is a door: it has a clock, files and arguments")]

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use vicus_flow::sequential;
use vicus_rdf::Store;
use vicus_sparql::{Options, parse, plan};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let data = arguments.next().ok_or("which data?")?;
    let queries = arguments.next().ok_or("which queries?")?;
    let rounds: usize = arguments.next().map_or(Ok(5), |rounds| rounds.parse())?;
    let names: Vec<String> = arguments.collect();
    let start = Instant::now();
    let store = Arc::new(load(Path::new(&data))?);
    println!("{} triples loaded in {:.0?}", store.len(), start.elapsed());

    let mut files: Vec<_> = std::fs::read_dir(&queries)?.collect::<Result<Vec<_>, _>>()?;
    files.sort_by_key(|file| file.file_name());
    println!("{:10} {:>9} {:>11} {:>11}", "query", "rows", "plan ms", "run ms");
    for file in files {
        let name = file.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !names.is_empty() && !names.contains(&name) {
            continue;
        }
        let text = std::fs::read_to_string(file.path())?;
        let mut best = (Duration::MAX, Duration::MAX);
        let mut rows = 0;
        for round in 0..rounds {
            let start = Instant::now();
            let plan = plan(&store, &parse(&text)?, &Options::default())?;
            let planned = start.elapsed();
            let count = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&count);
            let sink = plan.sink_operator(move |envelope| {
                counter.fetch_add(envelope.rows(), Ordering::Relaxed);
                Ok(())
            });
            let start = Instant::now();
            sequential::run(plan.model(), vec![(plan.sink(), sink)], |_| 0)?;
            best = (best.0.min(planned), best.1.min(start.elapsed()));
            rows = count.load(Ordering::Relaxed);
            if round == 0 && !names.is_empty() {
                print!("{}", plan.explain());
            }
        }
        println!("{name:10} {rows:>9} {:>11.3} {:>11.3}", millis(best.0), millis(best.1));
    }
    Ok(())
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn load(path: &Path) -> Result<Store, Failure> {
    let bytes = std::fs::read(path)?;
    let name = path.to_string_lossy().into_owned();
    let (name, bytes) = match name.strip_suffix(".gz") {
        None => (name, bytes),
        Some(inner) => {
            let mut text = Vec::new();
            flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut text)?;
            (inner.to_owned(), text)
        }
    };
    if name.ends_with(".nt") { Ok(Store::of_ntriples(&bytes)?) } else { Ok(Store::of_turtle(&bytes, None)?) }
}
