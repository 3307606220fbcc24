//! Vicus, in this process.

use crate::peer::{Answer, Peer, Query, Side, hash_of};
use anyhow::Context;
use std::collections::HashSet;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use vicus::{Runtime, Setting};
use vicus_rdf::load::{LoadOptions, LoadSource, Syntax};
use vicus_service::{CallLimits, Cancel, Count, Dataset, Each, Error, MemoryBudget, Service, SessionOptions};
use vicus_sparql::Moment;

/// A dataset of Vicus that is asked.
pub struct Vicus {
    service: Service,
    dataset: Dataset,
    /// Whether each term of each row is made.
    terms: bool,
    /// Queries that were answered within the limit; these are asked without one, because it costs a thread for parsing.
    answered: HashSet<PathBuf>,
}

impl Vicus {
    /// One that has its data. With `terms`, each term of each row is made.
    pub fn of(service: Service, dataset: Dataset, terms: bool) -> Vicus {
        Vicus { service, dataset, terms, answered: HashSet::new() }
    }
}

/// Loads the data into memory.
pub fn load(data: &Path, threads: usize, strategy: &Setting, terms: bool) -> anyhow::Result<Side> {
    let runtime = Runtime::builder().strategy(strategy.clone()).threads(threads).start();
    let service = Service::new(runtime, MemoryBudget::new(u64::MAX));
    let file = std::fs::File::open(data).with_context(|| format!("{}: can't be opened", data.display()))?;
    let source = LoadSource::new(data.display().to_string(), Syntax::NTriples, file);
    let loaded = service.load(vec![source], LoadOptions::default(), &Cancel::new()).finish()?;
    let (dataset, load_ms) = (loaded.dataset, loaded.time.as_secs_f64() * 1e3);
    let triples = dataset.snapshot().len() as u64;
    Ok(Side { name: "vicus", peer: Box::new(Vicus::of(service, dataset, terms)), load_ms, triples })
}

impl Peer for Vicus {
    fn ask(&mut self, query: &Query, limit: Duration) -> anyhow::Result<Answer> {
        let time = (!self.answered.contains(&query.path)).then_some(limit);
        let limits = CallLimits { time, ..CallLimits::default() };
        let options = SessionOptions { moment: Some(Moment::default()), limits, ..SessionOptions::default() };
        let session = self.service.session(&self.dataset, options);
        let began = Instant::now();
        let mut call = session.call()?;
        let prepared = call.prepare(&query.text)?;
        let outcome = match self.terms {
            false => call.start(&prepared, Count)?.wait(),
            true => {
                let each = Each::new(|batch| {
                    for column in 0..batch.envelope().columns().len() {
                        (0..batch.rows()).for_each(|row| drop(black_box(batch.term(row, column))));
                    }
                    Ok(())
                });
                call.answer(&prepared, each)
            }
        };
        match outcome {
            Ok(((), outcome)) => {
                let ms = began.elapsed().as_secs_f64() * 1e3;
                if ms * 4.0 < limit.as_secs_f64() * 1e3 {
                    self.answered.insert(query.path.clone());
                }
                Ok(Answer::Rows { ms, rows: outcome.rows })
            }
            Err(Error::TimeLimit { .. }) => Ok(Answer::Cut),
            Err(error) => Err(error.into()),
        }
    }

    fn sum(&mut self, query: &Query) -> anyhow::Result<Option<u64>> {
        let options = SessionOptions { moment: Some(Moment::default()), ..SessionOptions::default() };
        let session = self.service.session(&self.dataset, options);
        let mut call = session.call()?;
        let prepared = call.prepare(&query.text)?;
        let sum = Arc::new(AtomicU64::new(0));
        let into = Arc::clone(&sum);
        let each = Each::new(move |batch| {
            for row in 0..batch.rows() {
                let terms = (0..batch.envelope().columns().len()).map(|column| batch.term(row, column));
                into.fetch_add(hash_of(terms), Ordering::Relaxed);
            }
            Ok(())
        });
        call.answer(&prepared, each)?;
        Ok(Some(sum.load(Ordering::Relaxed)))
    }
}
