//! Oxigraph, in this process. It evaluates a query on one thread.

use crate::peer::{Answer, Peer, Query, Side, hash_of};
use anyhow::Context;
use oxigraph::io::{RdfFormat, RdfParser};
use oxigraph::sparql::{CancellationToken, QueryResults, SparqlEvaluator};
use oxigraph::store::Store;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// A store of Oxigraph that is asked.
pub struct Oxigraph {
    store: Store,
}

impl Oxigraph {
    /// One that has its data.
    pub fn of(store: Store) -> Oxigraph {
        Oxigraph { store }
    }
}

/// Loads the data into memory.
pub fn load(data: &Path) -> anyhow::Result<Side> {
    let file = std::fs::File::open(data).with_context(|| format!("{}: can't be opened", data.display()))?;
    let began = Instant::now();
    let store = Store::new()?;
    let mut loader = store.bulk_loader();
    loader.load_from_reader(RdfParser::from_format(RdfFormat::NTriples), file)?;
    loader.commit()?;
    let load_ms = began.elapsed().as_secs_f64() * 1e3;
    let triples = store.len()? as u64;
    Ok(Side { name: "oxigraph", peer: Box::new(Oxigraph { store }), load_ms, triples })
}

impl Peer for Oxigraph {
    fn ask(&mut self, query: &Query, limit: Duration) -> anyhow::Result<Answer> {
        let token = CancellationToken::new();
        let (done, is_done) = channel();
        // On a thread of its own: the C library's allocator tidies freed memory at the same thread's next allocation.
        // That would otherwise be one of ours, and cost it some 10 ms.
        std::thread::scope(|scope| {
            let asking = token.clone();
            let engine = &*self;
            // The channel ends with the thread, also if the thread panics.
            scope.spawn(move || {
                let began = Instant::now();
                let rows = engine.count(&query.text, asking);
                let _ = done.send((rows, began.elapsed()));
            });
            let answer = is_done.recv_timeout(limit).or_else(|_| {
                token.cancel();
                is_done.recv()
            });
            match answer.context("Oxigraph's thread ended early")? {
                (Err(_), took) if took >= limit => Ok(Answer::Cut),
                (rows, took) => Ok(Answer::Rows { ms: took.as_secs_f64() * 1e3, rows: rows? }),
            }
        })
    }

    fn sum(&mut self, query: &Query) -> anyhow::Result<Option<u64>> {
        let QueryResults::Solutions(solutions) =
            SparqlEvaluator::new().parse_query(&query.text)?.on_store(&self.store).execute()?
        else {
            return Ok(None);
        };
        let mut sum = 0u64;
        for solution in solutions {
            sum = sum.wrapping_add(hash_of(solution?.values().iter().cloned()));
        }
        Ok(Some(sum))
    }
}

impl Oxigraph {
    fn count(&self, text: &str, token: CancellationToken) -> anyhow::Result<u64> {
        let evaluator = SparqlEvaluator::new().with_cancellation_token(token);
        match evaluator.parse_query(text)?.on_store(&self.store).execute()? {
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
    }
}
