//! Updates carried out on a set of quads: each snapshot is built anew from all of them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use vicus_flow::sequential;
use vicus_rdf::load::Syntax;
use vicus_rdf::{Id, Loader, OnError, Snapshot, TermView};
use vicus_sparql::{Change, Filled, Graphs, Load, Moment, PlanOptions, Step, Update, plan};

/// Quads as lines of N-Quads, without their dots.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Quads(pub(crate) BTreeSet<String>);

/// Opens what LOAD names.
pub(crate) type Open<'a> = &'a dyn Fn(&str) -> Result<Quads, String>;

impl Quads {
    fn text(&self) -> String {
        self.0.iter().map(|line| format!("{line} .\n")).collect()
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        let mut loader = Loader::new(OnError::Fail);
        loader.file(self.text().as_bytes(), Syntax::NQuads, None).expect("what was written is read");
        Arc::new(loader.finish())
    }

    /// Carries an operation's change out.
    fn change(&mut self, snapshot: &Snapshot, change: &Change) {
        match change {
            Change::Clear(graphs) => {
                let of = |quad: [Id; 4]| match graphs {
                    Graphs::All => true,
                    Graphs::Named => !quad[3].is_unbound(),
                    Graphs::One(graph) => quad[3] == *graph,
                };
                let index = snapshot.index(vicus_rdf::Order::Gspo);
                let quads = (0..index.len()).map(|row| index.quad(row)).filter(|quad| of(*quad));
                // An operation may have cleared another graph just before.
                quads.for_each(|quad| _ = self.0.remove(&line(snapshot, None, quad)));
            }
            Change::Quads(changes) => {
                for quads in [&changes.deletes, &changes.inserts] {
                    assert!(quads.is_sorted_by(|a, b| a < b), "each is there once, and they are sorted");
                }
                let fresh = &changes.fresh;
                changes.deletes.iter().for_each(|quad| _ = self.0.remove(&line(snapshot, Some(fresh), *quad)));
                self.0.extend(changes.inserts.iter().map(|quad| line(snapshot, Some(fresh), *quad)));
            }
        }
    }

    /// Carries all operations out, or says why not.
    pub(crate) fn update(
        &mut self,
        update: &Update,
        options: &PlanOptions,
        seed: u64,
        open: Open<'_>,
    ) -> Result<(), String> {
        let mut changed = self.clone();
        for (place, operation) in update.operations().iter().enumerate() {
            let snapshot = changed.snapshot();
            let moment = Moment { seed: seed.wrapping_add(place as u64), ..Moment::default() };
            let changes = match operation.step(&snapshot, moment).map_err(|error| error.to_string())? {
                Step::Change(changes) => changes,
                Step::Solve(pattern, filling) => {
                    let plan = plan(&snapshot, pattern, options).map_err(|error| error.to_string())?;
                    let run = plan.start(moment);
                    let (filling, filled) = (Arc::new(filling), Arc::new(Mutex::new(Filled::default())));
                    let sinks = plan.sinks().iter().map(|id| {
                        let (run, filling, filled) = (run.clone(), Arc::clone(&filling), Arc::clone(&filled));
                        let sink = plan.sink_operator(move |envelope| {
                            Ok(filling.fill(&run, envelope, &mut filled.lock().unwrap())?)
                        });
                        (*id, sink)
                    });
                    sequential::run(plan.model(), run.operators(sinks), |_| 0).map_err(|error| error.to_string())?;
                    let filled = std::mem::take(&mut *filled.lock().unwrap());
                    vec![Change::Quads(filling.finish([filled]))]
                }
                Step::Load(Load { from, into, silent }, filling) => match open(from) {
                    Ok(document) => {
                        let filled = filling.document(&document.snapshot(), into).map_err(|error| error.to_string())?;
                        vec![Change::Quads(filling.finish([filled]))]
                    }
                    Err(_) if silent => Vec::new(),
                    Err(error) => return Err(error),
                },
            };
            changes.iter().for_each(|change| changed.change(&snapshot, change));
        }
        *self = changed;
        Ok(())
    }
}

/// A quad as a line; terms that the snapshot lacks are new ones.
fn line(snapshot: &Snapshot, fresh: Option<&vicus_rdf::Unranked>, quad: [Id; 4]) -> String {
    let term = |id: Id| match fresh.filter(|_| !snapshot.has(id)) {
        Some(fresh) => TermView::of_key(id.kind(), fresh.key(id)).to_string(),
        None => snapshot.view(id).to_string(),
    };
    let terms: Vec<String> = quad.into_iter().filter(|id| !id.is_unbound()).map(term).collect();
    terms.join(" ")
}

/// For updates that load nothing.
pub(crate) fn nothing(iri: &str) -> Result<Quads, String> {
    Err(format!("{iri} can't be had"))
}
