//! All terms that are a subject or an object in a graph.

mod boxes;

use super::{Below, Each, Op, Physical, PhysicalOperator, StableColumns, Title};
use crate::algebra::{At, Slot};
use crate::condition::Kinds;
use crate::explain::Explainer;
use crate::graphs::Active;
use crate::lower::{Lowering, Pipeline, Streams};
use crate::planner::{Estimate, Facts, Planner, cost, estimate};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use vicus_flow::BoxModel;

#[derive(Debug)]
pub(crate) struct Nodes {
    /// For a slot, the nodes of each named graph, with its name.
    pub(crate) graph: At,
}

impl Nodes {
    pub(crate) fn plan(planner: &Planner<'_>, slot: Slot, graph: At) -> Physical {
        let statistics = estimate::statistics_of(&planner.terms.snapshot, graph);
        let rows = match graph {
            At::Slot(_) => (statistics.subjects + statistics.objects) as f64,
            graph => Active::of(graph, &planner.terms.merged).node_count(&planner.terms.snapshot) as f64,
        };
        let of_node = Facts { distinct: rows, kinds: Kinds::ANY, certain: true };
        let of_graph = Facts { distinct: planner.terms.snapshot.graphs().len() as f64, ..of_node };
        let facts = [(slot, of_node)].into_iter().chain(graph.slot().map(|slot| (slot, of_graph)));
        planner.made(Physical {
            op: Op::Nodes(Nodes { graph }),
            columns: [slot].into_iter().chain(graph.slot()).collect(),
            estimate: Estimate { rows, facts: facts.collect() },
            cost: rows * cost::SCAN,
            startup: 0.0,
            sorted: Some(slot).filter(|_| graph.slot().is_none()),
            conditions: Vec::new(),
        })
    }
}

impl PhysicalOperator for Nodes {
    fn inputs(&self) -> Each<&Below> {
        SmallVec::new()
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        SmallVec::new()
    }

    fn let_pass(&mut self, _: &[bool]) -> Each<StableColumns> {
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
