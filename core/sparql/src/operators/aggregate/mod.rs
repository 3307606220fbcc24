//! GROUP BY: one row for each group.

mod boxes;
mod plan;

pub(crate) use boxes::{AggregateSpec, FoldSpec, Groups, Rows};

use super::{Below, Each, Physical, PhysicalOperator, StableColumns, Title};
use crate::algebra::Fold;
use crate::explain::Explainer;
use crate::lower::{Deal, Draft, Lowering, Pipeline, Streams};
use smallvec::smallvec;
use std::sync::Arc;
use vicus_flow::OutputId;

#[derive(Debug)]
pub(crate) struct Aggregate {
    pub(crate) input: Below,
    pub(crate) spec: Arc<AggregateSpec>,
}

impl PhysicalOperator for Aggregate {
    fn inputs(&self) -> Each<&Below> {
        smallvec![&self.input]
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        smallvec![&mut self.input]
    }

    fn let_pass(&mut self, kept: &[bool]) -> Each<StableColumns> {
        let mut inner = vec![false; self.input.columns.len()];
        let distinct = self.spec.folds.iter().filter_map(|fold| fold.distinct.as_ref()).flatten();
        self.spec.keys.iter().flatten().chain(distinct).for_each(|&column| inner[column] = true);
        let folds = self.spec.keys.len()..;
        if self.spec.folds.iter().zip(folds.clone()).any(|(fold, column)| makes_text(fold) && !kept[column]) {
            let made = Arc::make_mut(&mut self.spec);
            for (fold, column) in made.folds.iter_mut().zip(folds) {
                fold.passes = makes_text(fold) && !kept[column];
            }
        }
        smallvec![inner]
    }

    fn computes(&self) -> bool {
        self.spec.folds.iter().any(makes_text)
    }

    /// Folds each stream into parts of groups, and deals the parts, so parts of a group meet. One box puts the parts
    /// together if few groups are expected, else there is one box for each stream.
    fn lower(&self, plan: &Physical, above: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        // All rows are read, however few groups are enough.
        let mut streams = lowering.add(&self.input, Pipeline { few: false, ..above.and(plan.estimate.rows) });
        let (spec, mut width) = (&self.spec, self.input.columns.len());
        let (terms, cache, limit) = (Arc::clone(lowering.terms), lowering.options.cache_bytes, lowering.limit);
        let mut keys: Vec<usize> = spec.keys.iter().flatten().copied().collect();
        let mut parts = if keys.is_empty() { 1 } else { streams.len() };
        let mut rows = Rows::Solutions;
        if streams.len() > 1 && spec.has_parts() {
            let columns = spec.part_columns();
            let fold = |stream: OutputId| {
                let spec = Arc::clone(spec);
                let model = Draft::new(&terms, "pre-aggregate", move |terms| {
                    boxes::PreAggregate::new(terms, &spec, width, cache, limit)
                });
                lowering.over(&[stream], &[width], columns, model)[0]
            };
            streams = streams.into_iter().map(fold).collect();
            (width, rows) = (columns, Rows::Parts);
            keys = (0..spec.keys.len()).collect();
            if plan.estimate.rows < lowering.options.common.parallel_rows as f64 / 8.0 {
                parts = 1;
            }
        }
        let made = spec.keys.len() + spec.folds.len();
        let computed = lowering.may_compute(&self.input);
        lowering.deal(streams, Deal { from: width, to: made, keys: &keys, parts, computed }, || {
            let spec = Arc::clone(spec);
            Draft::new(&terms, "aggregate", move |terms| boxes::Aggregate::new(terms, &spec, rows, width, cache, limit))
                .that_spills()
        })
    }

    fn explain(&self, plan: &Physical, explainer: &Explainer<'_>) -> Title {
        let keys = plan.columns[..self.spec.keys.len()].iter();
        let keys = keys.map(|slot| explainer.slot(*slot)).collect::<Vec<_>>();
        let by = if keys.is_empty() { "" } else { "by " };
        Title::new("aggregate", format!("{by}{}", keys.join(", ")))
    }

    fn inner_width(&self) -> usize {
        self.spec.part_columns().max(self.spec.keys.len() + self.spec.folds.len())
    }
}

fn makes_text(fold: &FoldSpec) -> bool {
    matches!(fold.fold, Fold::Concat(_))
}
