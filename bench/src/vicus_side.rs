//! Vicus, in this process.

use crate::peer::{Answer, Peer, Query, Side};
use anyhow::Context;
use std::path::Path;
use std::time::{Duration, Instant};
use vicus::{Runtime, Setting};
use vicus_rdf::load::{LoadOptions, Source, Syntax};
use vicus_service::{Cancel, Count, Dataset, Error, Limits, MemoryBudget, Service, SessionOptions};
use vicus_sparql::Moment;

struct Vicus {
    service: Service,
    dataset: Dataset,
}

pub(crate) fn load(data: &Path, threads: usize, strategy: &Setting) -> anyhow::Result<Side> {
    let runtime = Runtime::builder().strategy(strategy.clone()).threads(threads).start();
    let service = Service::new(runtime, MemoryBudget::new(u64::MAX));
    let file = std::fs::File::open(data).with_context(|| format!("{}: can't be opened", data.display()))?;
    let source = Source::new(data.display().to_string(), Syntax::NTriples, file);
    let loaded = service.load(vec![source], LoadOptions::default(), &Cancel::new()).finish()?;
    let (dataset, load_ms) = (loaded.dataset, loaded.time.as_secs_f64() * 1e3);
    let triples = dataset.snapshot().len() as u64;
    Ok(Side { name: "vicus", peer: Box::new(Vicus { service, dataset }), load_ms, triples })
}

impl Peer for Vicus {
    fn ask(&mut self, query: &Query, limit: Duration) -> anyhow::Result<Answer> {
        let limits = Limits { time: Some(limit), ..Limits::default() };
        let options = SessionOptions { moment: Some(Moment::default()), limits, ..SessionOptions::default() };
        let session = self.service.session(&self.dataset, options);
        let began = Instant::now();
        let mut call = session.call()?;
        let prepared = call.prepare(&query.text)?;
        match call.start(&prepared, Count)?.wait() {
            Ok(((), outcome)) => Ok(Answer::Rows { ms: began.elapsed().as_secs_f64() * 1e3, rows: outcome.rows }),
            Err(Error::TimeLimit { .. }) => Ok(Answer::Cut),
            Err(error) => Err(error.into()),
        }
    }
}
