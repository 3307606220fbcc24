//! All terms that are a subject or an object in a graph.

mod boxes;

use super::{Below, Each, Kept, Physical, PhysicalOperator, Title};
use crate::algebra::At;
use crate::explain::Explainer;
use crate::graphs::Active;
use crate::lower::{Lowering, Pipeline, Streams};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use vicus_flow::BoxModel;

#[derive(Debug)]
pub(crate) struct Nodes {
    /// For a slot, the nodes of each named graph, with its name.
    pub(crate) graph: At,
}

impl PhysicalOperator for Nodes {
    fn inputs(&self) -> Each<&Below> {
        SmallVec::new()
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        SmallVec::new()
    }

    fn let_pass(&mut self, _: &[bool]) -> Each<Kept> {
        SmallVec::new()
    }

    fn lower(&self, plan: &Physical, _: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let (terms, limit) = (Arc::clone(lowering.terms), lowering.limit);
        let graph = self.graph.slot().is_none().then(|| Active::of(self.graph, &terms.merged));
        let model = BoxModel::new("nodes", move || boxes::Nodes::new(&terms.snapshot, graph.clone(), limit));
        smallvec![lowering.source(model, plan.columns.len()).output(0)]
    }

    fn explain(&self, _: &Physical, explainer: &Explainer<'_>) -> Title {
        Title::new("all nodes", explainer.in_graph(self.graph).trim_end())
    }
}
