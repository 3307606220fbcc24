//! Other columns: some of the input's, constants, and computed values.

mod boxes;

pub(crate) use boxes::Make;

use super::{Below, Each, Kept, Physical, PhysicalOperator, Title};
use crate::explain::Explainer;
use crate::lower::{Draft, Lowering, Pipeline, Streams};
use smallvec::smallvec;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Extend {
    pub(crate) input: Below,
    /// The origin of each column.
    pub(crate) makes: Arc<[Make]>,
}

impl PhysicalOperator for Extend {
    fn inputs(&self) -> Each<&Below> {
        smallvec![&self.input]
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        smallvec![&mut self.input]
    }

    fn pick(&mut self, kept: &[usize], _: usize) -> bool {
        self.makes = kept.iter().map(|&column| self.makes[column].clone()).collect();
        true
    }

    fn let_pass(&mut self, kept: &[bool]) -> Each<Kept> {
        let mut inner = vec![false; self.input.columns.len()];
        let made = self.makes.iter().zip(kept).map(|(make, &kept)| match make {
            Make::Column(column) => {
                inner[*column] |= kept;
                Make::Column(*column)
            }
            Make::Expr(expr) if expr.has_exists() => {
                // EXISTS is given ids.
                expr.slots().into_iter().for_each(|slot| inner[slot.0] = true);
                Make::Expr(expr.clone())
            }
            Make::Expr(expr) if !kept => Make::Passing(expr.clone()),
            other => other.clone(),
        });
        self.makes = made.collect();
        smallvec![inner]
    }

    fn computes(&self) -> bool {
        self.makes.iter().any(|make| matches!(make, Make::Expr(_)))
    }

    fn lower(&self, plan: &Physical, above: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let terms = Arc::clone(lowering.terms);
        lowering.each(&self.input, above, plan.columns.len(), || {
            let makes = Arc::clone(&self.makes);
            Draft::new(&terms, "extend", move |terms| boxes::Extend::new(terms, &makes))
        })
    }

    fn explain(&self, _: &Physical, _: &Explainer<'_>) -> Title {
        Title::new("extend", "")
    }

    fn is_ordered(&self) -> bool {
        self.input.behaviour().is_ordered()
    }
}
