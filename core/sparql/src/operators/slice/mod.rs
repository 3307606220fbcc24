//! OFFSET and LIMIT.

mod boxes;

use super::{Below, Each, Op, Physical, PhysicalOperator, StableColumns, Title};
use crate::algebra::{Node, Slot, Slots};
use crate::explain::Explainer;
use crate::lower::{Lowering, Pipeline, Streams};
use crate::operators::extend::Extend;
use crate::operators::top::Top;
use crate::planner::{Goal, Planner};
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

impl Slice {
    pub(crate) fn of_node(
        planner: &Planner<'_>,
        inner: &Node,
        offset: usize,
        limit: Option<usize>,
        each: Option<Slot>,
        needed: &Slots,
    ) -> Physical {
        // Below a slice, duplicates count.
        let goal = Goal { set: false, first: planner.optimise && limit.is_some() && each.is_none() };
        if let Some(each) = each {
            let mut inside = needed.clone();
            inside.insert(each);
            let cut = Slice::plan_each(planner, planner.plan(inner, &inside, goal), offset, limit, each);
            return Extend::project(planner, cut, needed);
        }
        let mut core = inner;
        let mut visible = needed.clone();
        while let Node::Project { inner: inside, slots } = core {
            let slots: Slots = slots.iter().copied().collect();
            visible.retain(|slot| slots.contains(slot));
            core = inside;
        }
        if let (Node::Sort { inner: inside, keys }, Some(limit), true) = (core, limit, planner.optimise) {
            let below = visible.iter().copied().chain(keys.iter().map(|key| key.slot)).collect();
            let input = planner.plan(inside, &below, Goal { first: false, ..goal });
            let top = Top::plan(planner, input, keys, offset.saturating_add(limit));
            // Top puts out at most `offset + limit` rows.
            let cut = if offset == 0 { top } else { Slice::plan(planner, top, offset, Some(limit)) };
            return Extend::project(planner, cut, &visible);
        }
        Slice::plan(planner, planner.plan(inner, needed, goal), offset, limit)
    }

    pub(crate) fn plan(planner: &Planner<'_>, input: Physical, offset: usize, limit: Option<usize>) -> Physical {
        let rows =
            (input.estimate.rows - offset as f64).max(0.0).min(limit.map_or(f64::INFINITY, |limit| limit as f64));
        planner.made(Physical {
            cost: input.cost,
            startup: input.startup,
            sorted: input.sorted,
            columns: input.columns.clone(),
            estimate: input.estimate.clone().with_rows(rows),
            op: Op::Slice(Slice { input: Below::new(input), offset, limit, each: None }),
            conditions: Vec::new(),
        })
    }

    /// Like [`Slice::plan`], for each value of a slot; the rows are sorted by this slot.
    fn plan_each(planner: &Planner<'_>, input: Physical, offset: usize, limit: Option<usize>, each: Slot) -> Physical {
        let column = input.column(each).expect("what the rows are sorted by is a column");
        let most = limit.map_or(f64::INFINITY, |limit| limit as f64 * input.estimate.distinct(each));
        planner.made(Physical {
            cost: input.cost,
            startup: input.startup,
            sorted: input.sorted,
            columns: input.columns.clone(),
            estimate: input.estimate.clone().with_rows(input.estimate.rows.min(most)),
            op: Op::Slice(Slice { input: Below::new(input), offset, limit, each: Some(column) }),
            conditions: Vec::new(),
        })
    }
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

    fn let_pass(&mut self, kept: &[bool]) -> Each<StableColumns> {
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
