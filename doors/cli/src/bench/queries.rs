//! The 17 SP2Bench queries, and how a query is run and timed.

use anyhow::Context;
use std::path::{Path, PathBuf};
use std::time::Instant;
use vicus::Totals;
use vicus_service::data::LoadOptions;
use vicus_service::{CallOutcome, Count, Dataset, LoadedDataset, Moment, PlanOptions, Service, SessionOptions};

/// Names and texts.
const SP2B: [(&str, &str); 17] = [
    ("q1", include_str!("../../queries/sp2b/q1.sparql")),
    ("q2", include_str!("../../queries/sp2b/q2.sparql")),
    ("q3a", include_str!("../../queries/sp2b/q3a.sparql")),
    ("q3b", include_str!("../../queries/sp2b/q3b.sparql")),
    ("q3c", include_str!("../../queries/sp2b/q3c.sparql")),
    ("q4", include_str!("../../queries/sp2b/q4.sparql")),
    ("q5a", include_str!("../../queries/sp2b/q5a.sparql")),
    ("q5b", include_str!("../../queries/sp2b/q5b.sparql")),
    ("q6", include_str!("../../queries/sp2b/q6.sparql")),
    ("q7", include_str!("../../queries/sp2b/q7.sparql")),
    ("q8", include_str!("../../queries/sp2b/q8.sparql")),
    ("q9", include_str!("../../queries/sp2b/q9.sparql")),
    ("q10", include_str!("../../queries/sp2b/q10.sparql")),
    ("q11", include_str!("../../queries/sp2b/q11.sparql")),
    ("q12a", include_str!("../../queries/sp2b/q12a.sparql")),
    ("q12b", include_str!("../../queries/sp2b/q12b.sparql")),
    ("q12c", include_str!("../../queries/sp2b/q12c.sparql")),
];

/// A query by name.
pub(crate) struct Query {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// The 17 queries, or those of a folder, named after the files.
pub(super) fn queries(folder: Option<&Path>) -> anyhow::Result<Vec<Query>> {
    let Some(folder) = folder else {
        let own = |(name, text): &(&str, &str)| Query { name: (*name).to_owned(), text: (*text).to_owned() };
        return Ok(SP2B.iter().map(own).collect());
    };
    let cannot = || format!("{}: can't be read", folder.display());
    let files = std::fs::read_dir(folder).with_context(cannot)?;
    let mut paths: Vec<PathBuf> =
        files.map(|file| Ok(file?.path())).collect::<std::io::Result<_>>().with_context(cannot)?;
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "sparql"));
    anyhow::ensure!(!paths.is_empty(), "{}: no file ends in .sparql", folder.display());
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).with_context(|| format!("{}: can't be read", path.display()))?;
        Ok(Query { name: path.file_stem().expect("it has an ending").to_string_lossy().into_owned(), text })
    };
    let mut queries = paths.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    // q2 comes before q10.
    queries.sort_by_key(|query| (query.name.trim_end_matches(char::is_alphabetic).len(), query.name.clone()));
    Ok(queries)
}

/// The ones of the 17 queries with these names.
pub(crate) fn named(names: &[String]) -> anyhow::Result<Vec<Query>> {
    let mut all = queries(None)?;
    let take = |name: &String| {
        let place = all.iter().position(|query| query.name == *name);
        let place =
            place.with_context(|| format!("there is no query {name}, or it was named before; there are q1 to q12c"))?;
        Ok(all.swap_remove(place))
    };
    names.iter().map(take).collect()
}

/// Loads files.
pub(super) fn load(service: &Service, files: &[String]) -> anyhow::Result<LoadedDataset> {
    let (sources, reading) = crate::input::open(files, None)?;
    crate::engine::load(service, sources, &reading, LoadOptions::default())
}

/// The outcome of a run.
pub(super) struct Run {
    pub(super) ms: f64,
    pub(super) rows: u64,
    pub(super) totals: Totals,
}

/// The options of measured queries: the same moment each time.
pub(crate) fn session_options(plan: &PlanOptions) -> SessionOptions {
    SessionOptions { plan: *plan, moment: Some(Moment::default()), ..SessionOptions::default() }
}

/// Parses, plans and runs a query: `copies` of it at once, on the service's threads. The time is from the parser to the
/// last copy's last row.
pub(super) fn run(
    service: &Service,
    dataset: &Dataset,
    query: &Query,
    options: &PlanOptions,
    copies: usize,
) -> anyhow::Result<Run> {
    let session = service.session(dataset, session_options(options));
    let began = Instant::now();
    let outcomes = (|| {
        let mut call = session.call()?;
        let prepared = call.prepare(&query.text)?;
        let mut running = vec![call.start(&prepared, Count)?];
        for _ in 1..copies {
            running.push(session.call()?.start(&prepared, Count)?);
        }
        running
            .into_iter()
            .map(|running| Ok(running.wait()?.1))
            .collect::<Result<Vec<CallOutcome>, vicus_service::Error>>()
    })();
    let outcomes = outcomes.with_context(|| format!("query {}", query.name))?;
    let ms = began.elapsed().as_secs_f64() * 1e3;
    let rows: Vec<u64> = outcomes.iter().map(|outcome| outcome.rows).collect();
    anyhow::ensure!(rows.iter().all(|&r| r == rows[0]), "query {}: copies disagree: {rows:?}", query.name);
    let totals = outcomes.iter().fold(Totals::default(), |sum, outcome| sum + outcome.totals);
    Ok(Run { ms, rows: rows[0], totals })
}
