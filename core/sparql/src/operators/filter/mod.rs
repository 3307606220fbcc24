//! The rows that meet conditions.

mod boxes;
mod plan;

use super::{Below, Each, Op, Physical, PhysicalOperator, StableColumns, Title};
use crate::algebra::Slots;
use crate::condition::Condition;
use crate::explain::Explainer;
use crate::expression::Expr;
use crate::lower::{Draft, Lowering, Pipeline, Streams};
use crate::operators::extend::Extend;
use crate::planner::{Columns, Planner, cost};
use smallvec::smallvec;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) input: Below,
    pub(crate) condition: Condition,
    /// The columns of the input that are put out.
    pub(crate) output: Arc<[usize]>,
}

impl Filter {
    pub(crate) fn plan(planner: &Planner<'_>, input: Physical, conditions: &[Expr], needed: &Slots) -> Physical {
        if conditions.is_empty() {
            return Extend::project(planner, input, needed);
        }
        let condition = planner.compile(conditions, &input.columns, &input.estimate);
        let kept: Vec<usize> =
            (0..input.columns.len()).filter(|&column| needed.contains(&input.columns[column])).collect();
        let columns: Columns = kept.iter().map(|&column| input.columns[column]).collect();
        let estimate =
            Planner::filtered(conditions, input.estimate.clone()).restricted(&columns.iter().copied().collect());
        planner.made(Physical {
            cost: input.cost + input.estimate.rows * cost::CONDITION,
            startup: input.startup,
            sorted: input.sorted.filter(|slot| columns.has(*slot)),
            op: Op::Filter(Filter { input: Below::new(input), condition, output: kept.into() }),
            columns,
            estimate,
            conditions: conditions.to_vec(),
        })
    }
}

impl PhysicalOperator for Filter {
    fn inputs(&self) -> Each<&Below> {
        smallvec![&self.input]
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        smallvec![&mut self.input]
    }

    fn pick(&mut self, kept: &[usize], _: usize) -> bool {
        self.output = kept.iter().map(|&column| self.output[column]).collect();
        true
    }

    fn let_pass(&mut self, kept: &[bool]) -> Each<StableColumns> {
        let mut inner = vec![false; self.input.columns.len()];
        self.output.iter().zip(kept).for_each(|(&column, kept)| inner[column] |= kept);
        self.condition.compared().into_iter().for_each(|column| inner[column] = true);
        smallvec![inner]
    }

    fn lower(&self, plan: &Physical, above: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let (terms, pace) = (Arc::clone(lowering.terms), lowering.pace(above));
        lowering.each(&self.input, above.and(plan.estimate.rows), plan.columns.len(), || {
            let (condition, output) = (self.condition.clone(), Arc::clone(&self.output));
            Draft::new(&terms, "filter", move |terms| boxes::Filter::new(terms, &condition, &output, pace))
        })
    }

    fn explain(&self, _: &Physical, _: &Explainer<'_>) -> Title {
        Title::new("filter", "")
    }

    fn is_ordered(&self) -> bool {
        self.input.behaviour().is_ordered()
    }
}
