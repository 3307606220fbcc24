//! What every side of the comparison can do: answer a query, or say why it didn't.

use std::path::PathBuf;
use std::time::Duration;

/// A query by name, as a file and as text.
pub(crate) struct Query {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// How a run ended.
pub(crate) enum Answer {
    /// The time is parse, plan and run together, down to the last row. For ASK there is one row or none.
    Rows { ms: f64, rows: u64 },
    /// It took longer than the limit and was cancelled.
    Cut,
}

/// An engine that has loaded the data.
pub(crate) trait Peer {
    /// Runs a query once. An error is the query's, and the peer can be asked again.
    fn ask(&mut self, query: &Query, limit: Duration) -> anyhow::Result<Answer>;
}

/// A side that is ready to be asked.
pub(crate) struct Side {
    pub(crate) name: &'static str,
    pub(crate) peer: Box<dyn Peer>,
    pub(crate) load_ms: f64,
    pub(crate) triples: u64,
}
