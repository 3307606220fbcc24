//! The queries of a folder, and asking sides each of them in turn.

use crate::peer::{Answer, Query, Side};
use crate::table::{Ended, Measured};
use anyhow::{Context, ensure};
use std::path::Path;
use std::time::{Duration, Instant};

/// Names and texts of the queries, q2 before q10.
pub fn read(folder: &Path) -> anyhow::Result<Vec<Query>> {
    let mut queries = Vec::new();
    for file in std::fs::read_dir(folder).with_context(|| format!("{}: can't be read", folder.display()))? {
        let path = file?.path().canonicalize()?;
        if path.extension().is_some_and(|ending| ending == "sparql") {
            queries.push(Query::read(&path)?);
        }
    }
    ensure!(!queries.is_empty(), "{}: no file ends in .sparql", folder.display());
    queries.sort_by_key(|query| (query.name.trim_end_matches(char::is_alphabetic).len(), query.name.clone()));
    Ok(queries)
}

/// How often a query is asked.
#[derive(Clone, Copy)]
pub struct Runs {
    /// Runs on each side before the measured ones; fewer if they take more than two seconds together.
    pub warm_up: usize,
    /// Measured runs.
    pub repeats: usize,
    /// A longer run is cancelled.
    pub limit: Duration,
}

/// One query on all sides: first the warm-up on each side, then alternating measurements.
pub fn measure(sides: &mut [Side], query: &Query, runs: Runs) -> Vec<Measured> {
    let mut measured: Vec<Measured> = sides.iter().map(|_| Measured::default()).collect();
    for (side, measured) in sides.iter_mut().zip(&mut measured) {
        let began = Instant::now();
        for _ in 0..runs.warm_up {
            if measured.ended.is_some() || began.elapsed() > Duration::from_secs(2) {
                break;
            }
            ask(side, query, runs.limit, measured);
        }
        measured.times.clear();
    }
    for repeat in 0..runs.repeats {
        // The first side changes each time.
        for place in 0..sides.len() {
            let place = (place + repeat) % sides.len();
            // A side that was cut off or has failed is not asked again.
            if measured[place].ended.is_none() {
                ask(&mut sides[place], query, runs.limit, &mut measured[place]);
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
