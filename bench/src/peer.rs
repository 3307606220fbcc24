//! The interface of a side: it answers a query, or reports why it could not.

use oxigraph::model::Term;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::time::Duration;

/// A query: its name, its file and its text.
pub(crate) struct Query {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// The outcome of a run.
pub(crate) enum Answer {
    /// The time includes parsing, planning and running, up to the last row. An ASK has one row or none.
    Rows { ms: f64, rows: u64 },
    /// The run exceeded the limit and was cancelled.
    Cut,
}

/// An engine with the data loaded.
pub(crate) trait Peer {
    /// Runs a query once. After an error, the peer can be asked again.
    fn ask(&mut self, query: &Query, limit: Duration) -> anyhow::Result<Answer>;

    /// Runs a query once and adds up the hashes of its rows; `None` for a side in another process. The sum does not depend on
    /// the order of rows.
    fn sum(&mut self, _: &Query) -> anyhow::Result<Option<u64>> {
        Ok(None)
    }
}

/// The hash of a row. Sides may name blank nodes as they like, so all of these count as the same.
pub(crate) fn hash_of(row: impl Iterator<Item = Option<Term>>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for term in row {
        match term {
            Some(Term::BlankNode(_)) => "_".hash(&mut hasher),
            term => term.hash(&mut hasher),
        }
    }
    hasher.finish()
}

/// A side that is ready to answer.
pub(crate) struct Side {
    pub(crate) name: &'static str,
    pub(crate) peer: Box<dyn Peer>,
    pub(crate) load_ms: f64,
    pub(crate) triples: u64,
}
