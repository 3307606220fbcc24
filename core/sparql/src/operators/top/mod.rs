//! The first rows of an order: ORDER BY with LIMIT.

mod boxes;

use super::slice::slice_box;
use super::sort::{lower_merge, pick_sorted};
use super::{Below, Each, Op, Physical, PhysicalOperator, StableColumns, Title};
use crate::algebra::SortKey;
use crate::explain::Explainer;
use crate::lower::{Draft, Lowering, Pipeline, Streams};
use crate::operators::sort::{SortBy, sort_columns};
use crate::planner::{Planner, cost};
use smallvec::smallvec;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Top {
    pub(crate) input: Below,
    pub(crate) by: Arc<[SortBy]>,
    pub(crate) count: usize,
}

impl Top {
    pub(crate) fn plan(planner: &Planner<'_>, input: Physical, keys: &[SortKey], count: usize) -> Physical {
        let by = sort_columns(&input, keys);
        let cost = input.cost + input.estimate.rows * cost::CONDITION;
        let rows = input.estimate.rows.min(count as f64);
        planner.made(Physical {
            cost,
            startup: cost,
            sorted: None,
            columns: input.columns.clone(),
            estimate: input.estimate.clone().with_rows(rows),
            op: Op::Top(Top { input: Below::new(input), by, count }),
            conditions: Vec::new(),
        })
    }
}

impl PhysicalOperator for Top {
    fn inputs(&self) -> Each<&Below> {
        smallvec![&self.input]
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        smallvec![&mut self.input]
    }

    fn pick(&mut self, kept: &[usize], _: usize) -> bool {
        pick_sorted(&mut self.input, &mut self.by, kept)
    }

    fn let_pass(&mut self, kept: &[bool]) -> Each<StableColumns> {
        let mut inner = kept.to_vec();
        self.by.iter().for_each(|by| inner[by.column] = true);
        smallvec![inner]
    }

    /// Each stream has its first rows; these are merged, and cut again.
    fn lower(&self, plan: &Physical, _: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let (terms, limit, count) = (Arc::clone(lowering.terms), lowering.limit, self.count);
        let (width, rows) = (plan.columns.len(), self.input.estimate.rows);
        let best = lowering.each(&self.input, Pipeline::default().and(rows), width, || {
            let by = Arc::clone(&self.by);
            Draft::new(&terms, "top", move |terms| boxes::Top::new(terms, &by, count, limit)).that_spills()
        });
        lowering.set_degree(best.len());
        if best.len() == 1 {
            return best;
        }
        let merged = lower_merge(best, &self.by, width, lowering);
        lowering.over(&[merged], &[width], width, slice_box(0, Some(count)))
    }

    fn explain(&self, _: &Physical, _: &Explainer<'_>) -> Title {
        Title::new("top", self.count.to_string())
    }

    fn is_ordered(&self) -> bool {
        true
    }
}
