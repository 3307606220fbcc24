//! The 17 SP2Bench queries, and how a query is run and timed.

use crate::engine;
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use vicus::{Envelope, Runtime, Totals};
use vicus_rdf::Store;
use vicus_rdf::load::LoadOptions;
use vicus_sparql::{Moment, Options, Plan};

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

/// Those of the 17 queries with these names.
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

/// Loads files quietly.
pub(super) fn load(runtime: &Runtime, files: &[String]) -> anyhow::Result<engine::Loaded> {
    let (sources, reading) = crate::input::open(files, None)?;
    engine::load(runtime, sources, &reading, LoadOptions::default())
}

/// Plans a query.
pub(crate) fn plan(store: &Arc<Store>, query: &Query, options: &Options) -> anyhow::Result<Plan> {
    let parsed = vicus_sparql::parse(&query.text).with_context(|| format!("query {}", query.name))?;
    vicus_sparql::plan(store, &parsed, options).with_context(|| format!("query {}", query.name))
}

/// The outcome of a run.
pub(super) struct Run {
    pub(super) ms: f64,
    pub(super) rows: u64,
    pub(super) totals: Totals,
}

/// Parses, plans and runs `copies` of a query at once. The time is from the parser's start to the last row of the last copy.
pub(super) fn run(
    runtime: &Runtime,
    store: &Arc<Store>,
    query: &Query,
    options: &Options,
    copies: usize,
) -> anyhow::Result<Run> {
    let began = Instant::now();
    let plan = plan(store, query, &Options { threads: runtime.plan().threads(), ..*options })?;
    let rows: Vec<Arc<AtomicU64>> = (0..copies).map(|_| Arc::default()).collect();
    let submit = |rows: &Arc<AtomicU64>| {
        let rows = Arc::clone(rows);
        let count = plan.sink_operator(move |envelope: &Envelope| {
            rows.fetch_add(envelope.rows() as u64, Ordering::Relaxed);
            Ok(())
        });
        runtime.submit_with(plan.model(), plan.start(Moment::default()).operators([(plan.sink(), count)]))
    };
    let requests: Vec<_> = rows.iter().map(submit).collect();
    let mut totals = Totals::default();
    for request in requests {
        totals = totals + request.wait().with_context(|| format!("query {}", query.name))?;
    }
    let ms = began.elapsed().as_secs_f64() * 1e3;
    let rows: Vec<u64> = rows.iter().map(|rows| rows.load(Ordering::Acquire)).collect();
    anyhow::ensure!(rows.iter().all(|&r| r == rows[0]), "query {}: copies disagree: {rows:?}", query.name);
    Ok(Run { ms, rows: rows[0], totals })
}
