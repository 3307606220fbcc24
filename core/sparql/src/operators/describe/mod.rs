//! DESCRIBE: the descriptions of the values of all columns, and of some resources.

mod boxes;

use super::{Below, Each, Op, Physical, PhysicalOperator, StableColumns, Title};
use crate::algebra::{At, Node, Slot};
use crate::explain::Explainer;
use crate::graphs::Active;
use crate::lower::{Draft, Lowering, Pipeline, Streams};
use crate::operators::construct::plan_triples;
use crate::planner::{Goal, Planner, cost};
use smallvec::smallvec;
use std::sync::Arc;
use vicus_rdf::Id;

/// Expected triples of each described resource.
const OF_EACH: f64 = 8.0;

#[derive(Debug)]
pub(crate) struct Describe {
    pub(crate) input: Below,
    pub(crate) resources: Arc<[Id]>,
    pub(crate) graph: At,
}

impl Describe {
    /// The descriptions in a graph of the values of these slots and of some resources.
    pub(crate) fn plan(
        planner: &Planner<'_>,
        node: &Node,
        of: &[Slot],
        resources: &[Id],
        graph: At,
        columns: &[Slot; 3],
    ) -> Physical {
        let needed = of.iter().copied().collect();
        let input = planner.plan(node, &needed, Goal { set: planner.optimise, first: false });
        let rows = (input.estimate.rows * input.columns.len() as f64 + resources.len() as f64) * OF_EACH;
        let price = rows * (cost::SCAN + cost::MAKE);
        let resources = resources.into();
        plan_triples(planner, input, rows, price, columns, |input| Op::Describe(Describe { input, resources, graph }))
    }
}

impl PhysicalOperator for Describe {
    fn inputs(&self) -> Each<&Below> {
        smallvec![&self.input]
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        smallvec![&mut self.input]
    }

    fn let_pass(&mut self, _: &[bool]) -> Each<StableColumns> {
        // The box looks passing terms up in the store, and the others have no description.
        smallvec![vec![false; self.input.columns.len()]]
    }

    fn lower(&self, plan: &Physical, above: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let limit = lowering.limit;
        let input = lowering.single(&self.input, above);
        let (resources, graph) = (Arc::clone(&self.resources), Active::of(self.graph, &lowering.terms.merged));
        let make = move |terms: &_| boxes::Describe::new(terms, graph.clone(), &resources, limit);
        let draft = Draft::new(lowering.terms, "describe", make);
        lowering.over(&[input], &[self.input.columns.len()], plan.columns.len(), draft)
    }

    fn explain(&self, _: &Physical, explainer: &Explainer<'_>) -> Title {
        let constants = self.resources.iter().map(|id| explainer.id(*id));
        let columns = self.input.columns.iter().map(|slot| explainer.slot(*slot));
        let all: Vec<String> = columns.chain(constants).collect();
        Title::new("describe", format!("{}{}", explainer.in_graph(self.graph), all.join(" ")))
    }
}
