//! Updates carried out on a snapshot, one operation after the other.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use vicus_flow::sequential;
use vicus_rdf::load::Syntax;
use vicus_rdf::{Id, Interrupt, Loader, OnError, Order, Snapshot};
use vicus_sparql::{DocumentLoad, Filled, Moment, PlanOptions, Update, UpdateChange, UpdateStep, plan};

/// The snapshot of quads, given as lines of N-Quads without their dots.
pub(crate) fn snapshot_of(lines: impl IntoIterator<Item = impl AsRef<str>>) -> Arc<Snapshot> {
    let text: String = lines.into_iter().map(|line| format!("{} .\n", line.as_ref())).collect();
    let mut loader = Loader::new(OnError::Fail).with_rdf_12(true);
    loader.file(text.as_bytes(), Syntax::NQuads, None).expect("good N-Quads");
    Arc::new(loader.finish())
}

/// Its quads as lines.
pub(crate) fn lines_of(snapshot: &Snapshot) -> BTreeSet<String> {
    let index = snapshot.index(Order::Gspo);
    let line = |row: usize| {
        let terms = index.quad(row).into_iter().filter(|id| !id.is_unbound());
        terms.map(|id: Id| snapshot.term(id).to_string()).collect::<Vec<_>>().join(" ")
    };
    (0..index.len()).map(line).collect()
}

/// For updates without LOAD.
pub(crate) fn nothing(iri: &str) -> Result<Arc<Snapshot>, String> {
    Err(format!("{iri} can't be had"))
}

/// The data after all operations, or the reason why one can't be carried out. `open` gives the documents of LOAD.
pub(crate) fn updated(
    before: &Arc<Snapshot>,
    update: &Update,
    options: &PlanOptions,
    seed: u64,
    open: &dyn Fn(&str) -> Result<Arc<Snapshot>, String>,
) -> Result<Arc<Snapshot>, String> {
    let mut snapshot = Arc::clone(before);
    for (place, operation) in update.operations().iter().enumerate() {
        let moment = Moment { seed: seed.wrapping_add(place as u64), ..Moment::default() };
        let changes = match operation.step(&snapshot, moment, &Interrupt::never()).map_err(|error| error.to_string())? {
            UpdateStep::Change(changes) => changes,
            UpdateStep::Solve(pattern, filling) => {
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
                vec![UpdateChange::Quads(filling.finish([filled]))]
            }
            UpdateStep::Load(DocumentLoad { from, into, silent }, filling) => match open(from) {
                Ok(document) => {
                    let filled =
                        filling.document(&document, into, &Interrupt::never()).map_err(|error| error.to_string())?;
                    vec![UpdateChange::Quads(filling.finish([filled]))]
                }
                Err(_) if silent => Vec::new(),
                Err(error) => return Err(error),
            },
        };
        for change in changes {
            snapshot = change.apply(&snapshot, &Interrupt::never()).expect("memory");
        }
    }
    Ok(snapshot)
}
