//! Vicus, in this process.

use crate::peer::{Answer, Peer, Query, Side};
use anyhow::Context;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vicus::{Runtime, Setting};
use vicus_rdf::Store;
use vicus_rdf::load::{Load, LoadOptions, Source, Syntax};
use vicus_sparql::{Moment, Options};

struct Vicus {
    runtime: Runtime,
    store: Arc<Store>,
    threads: usize,
}

pub(crate) fn load(data: &Path, threads: usize, strategy: &Setting) -> anyhow::Result<Side> {
    let runtime = Runtime::builder().strategy(strategy.clone()).threads(threads).start();
    let file = std::fs::File::open(data).with_context(|| format!("{}: can't be opened", data.display()))?;
    let began = Instant::now();
    let source = Source::new(data.display().to_string(), Syntax::NTriples, file);
    let load = Load::new(vec![source], LoadOptions { workers: threads, ..LoadOptions::default() });
    runtime.submit(load.model()).wait()?;
    let store = Arc::new(load.finish()?.store);
    let load_ms = began.elapsed().as_secs_f64() * 1e3;
    let triples = store.len() as u64;
    Ok(Side { name: "vicus", peer: Box::new(Vicus { runtime, store, threads }), load_ms, triples })
}

impl Peer for Vicus {
    fn ask(&mut self, query: &Query, limit: Duration) -> anyhow::Result<Answer> {
        let began = Instant::now();
        let parsed = vicus_sparql::parse(&query.text)?;
        let plan = vicus_sparql::plan(&self.store, &parsed, &Options { threads: self.threads, ..Options::default() })?;
        let rows = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&rows);
        let sink = plan.sink_operator(move |envelope| {
            count.fetch_add(envelope.rows() as u64, Ordering::Relaxed);
            Ok(())
        });
        let request =
            self.runtime.submit_with(plan.model(), plan.start(Moment::default()).operators([(plan.sink(), sink)]));
        match request.wait_for(limit) {
            Some(ended) => ended.map(drop)?,
            None => {
                request.cancel();
                let _ = request.wait();
                return Ok(Answer::Cut);
            }
        }
        Ok(Answer::Rows { ms: began.elapsed().as_secs_f64() * 1e3, rows: rows.load(Ordering::Acquire) })
    }
}
