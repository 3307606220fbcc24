//! The rows that meet conditions.

mod boxes;

use super::{Below, Each, Kept, Physical, PhysicalOperator, Title};
use crate::condition::Condition;
use crate::explain::Explainer;
use crate::lower::{Draft, Lowering, Pipeline, Streams};
use smallvec::smallvec;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) input: Below,
    pub(crate) condition: Condition,
    /// The columns of the input that are put out.
    pub(crate) output: Arc<[usize]>,
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

    fn let_pass(&mut self, kept: &[bool]) -> Each<Kept> {
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
