//! The rows of an index that match a pattern.

mod boxes;
mod plan;

pub(crate) use boxes::ScanSpec;

use super::{Below, Each, Physical, PhysicalOperator, StableColumns, Title};
use crate::algebra::Pattern;
use crate::explain::Explainer;
use crate::lower::{Lowering, Pipeline, Streams};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::{Bound, BoxModel, library};

#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) pattern: Pattern,
    pub(crate) spec: Arc<ScanSpec>,
}

impl PhysicalOperator for Scan {
    fn inputs(&self) -> Each<&Below> {
        SmallVec::new()
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        SmallVec::new()
    }

    fn pick(&mut self, kept: &[usize], width: usize) -> bool {
        let Some(spec) = Arc::get_mut(&mut self.spec) else { return false };
        // With fewer columns, other rows would be equal.
        if spec.distinct && kept.len() < width {
            return false;
        }
        spec.output = kept.iter().map(|&column| spec.output[column]).collect();
        true
    }

    fn let_pass(&mut self, _: &[bool]) -> Each<StableColumns> {
        SmallVec::new()
    }

    /// A splitter hands ranges of the rows to as many boxes as the pipeline should have.
    fn lower(&self, plan: &Physical, above: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let (width, limit) = (plan.columns.len(), lowering.limit);
        let rows = self.spec.rows.start as u64..self.spec.rows.end as u64;
        // The rows read by the scan count as well, because it may drop most of them.
        let pipeline = above.and(plan.estimate.rows).and(rows.end as f64 - rows.start as f64);
        if lowering.is_cut(pipeline) {
            return self.lower_cut(plan, pipeline, lowering);
        }
        let degree = lowering.degree(pipeline).min(rows.end.saturating_sub(rows.start) as usize);
        let (terms, spec) = (Arc::clone(lowering.terms), Arc::clone(&self.spec));
        if degree < 2 {
            let model = BoxModel::new("scan", move || boxes::Scan::new(&terms.snapshot, &spec, limit));
            return smallvec![lowering.source(model, width).output(0)];
        }
        self.lower_split(self.spec.rows.clone(), degree, width, lowering)
    }

    fn explain(&self, plan: &Physical, explainer: &Explainer<'_>) -> Title {
        let distinct = if self.spec.distinct { ", distinct" } else { "" };
        let part = if plan.conditions.is_empty() { "" } else { ", a range" };
        let scattered = if self.spec.scattered { ", scattered" } else { "" };
        let pattern = explainer.pattern(&self.pattern);
        Title::new("scan", format!("{:?} {pattern}{distinct}{part}{scattered}", self.spec.order))
    }
}

impl Scan {
    /// Each machine scans a range of the rows.
    fn lower_cut(&self, plan: &Physical, pipeline: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let machines = lowering.machines;
        let ranges = machines.ranges(self.spec.rows.clone());
        let of_machine = |(machine, rows): (usize, Range<usize>)| {
            let share = rows.len() as f64 / self.spec.rows.len().max(1) as f64;
            let mine = Pipeline { rows: pipeline.rows * share, ..pipeline };
            lowering.on(machine, |lowering| {
                let degree = lowering.degree(mine).min(rows.len()).max(1);
                self.lower_split(rows, degree, plan.columns.len(), lowering)
            })
        };
        ranges.into_iter().enumerate().flat_map(of_machine).collect()
    }

    /// A splitter hands these rows out to so many boxes.
    fn lower_split(&self, rows: Range<usize>, degree: usize, width: usize, lowering: &mut Lowering<'_>) -> Streams {
        let (terms, spec, limit) = (Arc::clone(lowering.terms), Arc::clone(&self.spec), lowering.limit);
        // Parts have no more rows than an envelope. So tests with small graphs and small envelopes have several parts,
        // too.
        let pieces = terms.snapshot.index(spec.order).pieces(rows);
        let part_rows = lowering.options.limits.part_rows.clamp(1, limit as u64);
        let split = lowering.splitter(library::split(pieces, degree, part_rows), degree);
        let replica = |replica: usize| {
            let (terms, spec) = (Arc::clone(&terms), Arc::clone(&spec));
            let model = BoxModel::new("scan", move || boxes::Scan::of_ranges(&terms.snapshot, &spec, limit));
            let scan = lowering.place(model.input(&lowering.ranges).output(&lowering.schema(width)));
            let one = Bound { envelopes: 1, ..Bound::default() };
            lowering.net.connect(split.output(replica), scan.input(0)).bound(one);
            scan.output(0)
        };
        (0..degree).map(replica).collect()
    }
}
