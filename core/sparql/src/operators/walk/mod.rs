//! Walks a property path of any length from each row.

mod boxes;
mod plan;

use boxes::{In, WalkSpec};
pub(crate) use plan::START;

use super::{Below, Each, Physical, PhysicalOperator, StableColumns, Title, kept_of_probe, pick_of_join};
use crate::algebra::Path;
use crate::boxes::join::JoinSpec;
use crate::explain::Explainer;
use crate::lower::{Draft, Lowering, Pipeline, Streams};
use smallvec::smallvec;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) input: Below,
    pub(crate) path: Path,
    pub(crate) walk: Arc<WalkSpec>,
    pub(crate) join: Arc<JoinSpec>,
}

impl PhysicalOperator for Walk {
    fn inputs(&self) -> Each<&Below> {
        smallvec![&self.input]
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        smallvec![&mut self.input]
    }

    fn pick(&mut self, kept: &[usize], _: usize) -> bool {
        pick_of_join(&mut self.join, kept)
    }

    fn let_pass(&mut self, kept: &[bool]) -> Each<StableColumns> {
        let mut inner = kept_of_probe(&self.join, kept, &self.input);
        [Some(&self.walk.start), self.walk.target.as_ref()].into_iter().flatten().for_each(|end| end.mark(&mut inner));
        smallvec![inner]
    }

    fn lower(&self, plan: &Physical, above: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let (here, pace) = (above.and(plan.estimate.rows), lowering.pace(above));
        let width = self.input.columns.len();
        let streams = lowering.add(&self.input, here);
        let streams = lowering.spread(streams, width, here);
        let terms = Arc::clone(lowering.terms);
        lowering.replicas(streams, width, plan.columns.len(), || {
            let (walk, join) = (Arc::clone(&self.walk), Arc::clone(&self.join));
            Draft::new(&terms, "walk", move |terms| boxes::Walk::new(terms, &join, &walk, pace)).that_spills()
        })
    }

    fn explain(&self, _: &Physical, explainer: &Explainer<'_>) -> Title {
        let Path { subject, route, object, graph } = &self.path;
        let how = if self.walk.target.is_some() { ", both ends known" } else { "" };
        let (graph, from, to) = (explainer.in_graph(*graph), explainer.at(*subject), explainer.at(*object));
        Title::of_join(self.join.kind, "walk", format!("{graph}{from} {} {to}{how}", explainer.route(route)))
    }
}
