//! The interface of a side: it answers a query, or reports why it could not.

use anyhow::Context;
use oxigraph::model::Term;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A query: its name, its file and its text.
pub struct Query {
    pub name: String,
    pub path: PathBuf,
    pub text: String,
}

impl Query {
    /// The query of a file, named after it.
    ///
    /// # Errors
    /// It can't be read.
    pub fn read(path: &Path) -> anyhow::Result<Query> {
        let name = path.file_stem().context("a file has a name")?.to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).with_context(|| format!("{}: can't be read", path.display()))?;
        Ok(Query { name, path: path.to_owned(), text })
    }
}

/// The outcome of a run.
pub enum Answer {
    /// The time includes parsing, planning and running, up to the last row. An ASK has one row or none.
    Rows { ms: f64, rows: u64 },
    /// The run exceeded the limit and was cancelled.
    Cut,
}

/// An engine with the data loaded.
pub trait Peer {
    /// Runs a query once. After an error, the peer can be asked again.
    fn ask(&mut self, query: &Query, limit: Duration) -> anyhow::Result<Answer>;

    /// Runs a query once and adds up the hashes of its rows; `None` for a side in another process. The sum does not
    /// depend on the order of rows.
    fn sum(&mut self, _: &Query) -> anyhow::Result<Option<u64>> {
        Ok(None)
    }
}

/// The hash of a row. Sides may name blank nodes as they like, so all of these count as the same.
pub fn hash_of(row: impl Iterator<Item = Option<Term>>) -> u64 {
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
pub struct Side {
    pub name: &'static str,
    pub peer: Box<dyn Peer>,
    pub load_ms: f64,
    pub triples: u64,
}
