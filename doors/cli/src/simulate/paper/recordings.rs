//! Where a figure's recordings come from: from files, or they are made here and now.
//!
//! A query is planned for the simulated machine's threads, so that its operators have as many branches as they would have there,
//! and runs on one thread, so that no other one is in its invocations' way.

use crate::bench::queries;
use crate::{engine, generate, input, query, trace};
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vicus::Runtime;
use vicus_rdf::Store;
use vicus_rdf::load::{OnError, Source, Syntax};
use vicus_sim::papers::{Figure, Recording};
use vicus_sparql::{Options, Plan};
use vicus_trace::{Log, Trace};

/// Of so many runs the quickest is kept: others were disturbed.
const RUNS: usize = 5;

/// Where recordings come from.
pub(super) struct Recordings {
    from: From,
    /// Those that there are.
    known: BTreeMap<Recording, Trace>,
}

enum From {
    /// Files of this folder.
    Files(PathBuf),
    /// They are made of so many triples, and written to a folder if there is one.
    Here { triples: u64, keep: Option<PathBuf>, stores: BTreeMap<u64, Arc<Store>> },
}

impl Recordings {
    pub(super) fn read_from(folder: &Path) -> Recordings {
        Recordings { from: From::Files(folder.to_owned()), known: BTreeMap::new() }
    }

    pub(super) fn made_of(triples: u64, keep: Option<&Path>) -> Recordings {
        let keep = keep.map(Path::to_owned);
        Recordings { from: From::Here { triples, keep, stores: BTreeMap::new() }, known: BTreeMap::new() }
    }

    /// Gives a figure what it needs.
    pub(super) fn supply(&mut self, figure: &mut Figure) -> anyhow::Result<()> {
        for recording in figure.recordings() {
            if !self.known.contains_key(&recording) {
                let trace = self.get(&recording)?;
                self.known.insert(recording, trace);
            }
            let trace = &self.known[&recording];
            figure.replay(&recording, trace).with_context(|| self.expected(&recording))?;
        }
        Ok(())
    }

    fn get(&mut self, recording: &Recording) -> anyhow::Result<Trace> {
        let expected = self.expected(recording);
        match &mut self.from {
            From::Files(folder) => {
                let trace = trace::read(&file(folder, recording)).with_context(|| expected.clone())?;
                ensure!(last_model(&trace) != Some("load"), "{expected}: the last request in it has loaded data");
                Ok(trace)
            }
            From::Here { triples, keep, stores } => {
                let triples = (*triples / recording.part).max(1);
                let store = match stores.get(&triples) {
                    Some(store) => store,
                    None => stores.entry(triples).or_insert(store_of(triples)?),
                };
                let trace = record(store, recording).with_context(|| expected)?;
                if let Some(folder) = keep {
                    query::write_trace(&file(folder, recording), &trace)?;
                }
                Ok(trace)
            }
        }
    }

    /// What is expected, and where, for people.
    fn expected(&self, recording: &Recording) -> String {
        let Recording { query, threads, .. } = recording;
        let what = format!("a recording of {query}, planned for {threads} threads");
        match &self.from {
            From::Files(folder) => {
                format!("{}: expected {what} (--record DIR makes such files)", file(folder, recording).display())
            }
            From::Here { .. } => what,
        }
    }
}

fn file(folder: &Path, recording: &Recording) -> PathBuf {
    folder.join(format!("{recording}.trace"))
}

/// The name of the model that the last request is an instance of.
fn last_model(trace: &Trace) -> Option<&str> {
    let requests = |model: &vicus_trace::ModelInfo| model.requests.iter().max().copied();
    trace.header().models.iter().max_by_key(|model| requests(model)).map(|model| model.name.as_str())
}

/// A store of about so many triples, the same each time.
fn store_of(triples: u64) -> anyhow::Result<Arc<Store>> {
    let text = generate::sp2b_text(triples, 1)?;
    let source = Source::new("generated triples", Syntax::NTriples, Cursor::new(text));
    let runtime = Runtime::builder().start();
    Ok(engine::load(&runtime, vec![source], &input::Reading::default(), OnError::Fail)?.store)
}

fn record(store: &Arc<Store>, recording: &Recording) -> anyhow::Result<Trace> {
    let query = &queries::named(&[recording.query.to_owned()])?[0];
    let options = Options { threads: recording.threads, sinks: recording.threads, ..Options::default() };
    let plan = queries::plan(store, query, &options)?;
    let mut room = Log::DEFAULT_ROOM;
    let mut best: Option<(Duration, Trace)> = None;
    for _ in 0..RUNS {
        let (took, trace) = run(&plan, &mut room)?;
        if best.as_ref().is_none_or(|(quickest, _)| took < *quickest) {
            best = Some((took, trace));
        }
    }
    Ok(best.expect("it ran").1)
}

/// Runs a plan once on one thread, with as much room for events as it needs.
fn run(plan: &Plan, room: &mut usize) -> anyhow::Result<(Duration, Trace)> {
    let las: vicus::Setting = "las".parse().expect("the strategy exists");
    loop {
        let runtime = Runtime::builder().strategy(las.clone()).threads(1).quiet().record(*room).start();
        let sink = |&sink| (sink, plan.sink_operator(|_: &vicus::Envelope| Ok(())));
        let began = Instant::now();
        runtime.submit_with(plan.model(), plan.sinks().iter().map(sink).collect()).wait()?;
        let took = began.elapsed();
        let trace = runtime.trace().expect("it was asked to record");
        if trace.lost() == 0 {
            return Ok((took, trace));
        }
        // The lost ones would be missed, so it runs again.
        *room *= 4;
    }
}
