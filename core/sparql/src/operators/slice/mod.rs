//! OFFSET and LIMIT.

mod boxes;

use super::{Below, Each, Kept, Physical, PhysicalOperator, Title};
use crate::explain::Explainer;
use crate::lower::{Lowering, Pipeline, Streams};
use smallvec::smallvec;
use vicus_flow::BoxModel;

#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) input: Below,
    pub(crate) offset: usize,
    pub(crate) limit: Option<usize>,
    /// The column the rows are sorted by, if the slice is for each of its values.
    pub(crate) each: Option<usize>,
}

impl PhysicalOperator for Slice {
    fn inputs(&self) -> Each<&Below> {
        smallvec![&self.input]
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        smallvec![&mut self.input]
    }

    fn pick(&mut self, kept: &[usize], _: usize) -> bool {
        self.each.is_none() && self.input.pick(kept)
    }

    fn let_pass(&mut self, kept: &[bool]) -> Each<Kept> {
        smallvec![kept.to_vec()]
    }

    fn lower(&self, plan: &Physical, above: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let (offset, limit) = (self.offset, self.limit);
        let (from, width) = (self.input.columns.len(), plan.columns.len());
        if let Some(each) = self.each {
            let input = lowering.single(&self.input, above);
            let model = BoxModel::new("slice", move || boxes::SliceEach::new(each, offset, limit));
            return lowering.over(&[input], &[from], width, model);
        }
        let wanted = limit.map_or(f64::INFINITY, |limit| (offset as f64) + (limit as f64));
        let few = wanted < lowering.options.common.parallel_rows as f64;
        let input = lowering.single(&self.input, Pipeline { few, ..above });
        lowering.over(&[input], &[from], width, slice_box(offset, limit))
    }

    fn explain(&self, _: &Physical, explainer: &Explainer<'_>) -> Title {
        let limit = self.limit.map_or(String::new(), |limit| format!(" limit {limit}"));
        let each = |each: usize| format!(" for each {}", explainer.slot(self.input.columns[each]));
        let each = self.each.map_or(String::new(), each);
        Title::new("slice", format!("offset {}{limit}{each}", self.offset))
    }

    fn is_ordered(&self) -> bool {
        self.input.behaviour().is_ordered()
    }
}

/// A box that leaves out `offset` rows and puts out the next ones, `limit` at most.
pub(crate) fn slice_box(offset: usize, limit: Option<usize>) -> BoxModel {
    BoxModel::new("slice", move || boxes::Slice::new(offset, limit))
}
