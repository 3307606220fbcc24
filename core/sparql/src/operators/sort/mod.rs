//! ORDER BY.

mod boxes;

pub(crate) use boxes::{Rows, SortBy, compare_rows, envelope_of_rows, is_log_or_base, sorting_bytes};

use super::{Below, Each, Op, Physical, PhysicalOperator, StableColumns, Title};
use crate::algebra::{Node, Slots, SortKey};
use crate::explain::Explainer;
use crate::lower::{Draft, Lowering, Maker, Pipeline, Streams};
use crate::operators::extend::Extend;
use crate::planner::{Goal, Planner, cost};
use crate::terms::Terms;
use smallvec::smallvec;
use std::sync::Arc;
use vicus_flow::{Envelope, OutputId, library};

#[derive(Debug)]
pub(crate) struct Sort {
    pub(crate) input: Below,
    pub(crate) by: Arc<[SortBy]>,
}

impl Sort {
    pub(crate) fn of_node(
        planner: &Planner<'_>,
        inner: &Node,
        keys: &[SortKey],
        needed: &Slots,
        goal: Goal,
    ) -> Physical {
        let inside = needed.iter().copied().chain(keys.iter().map(|key| key.slot)).collect();
        let input = planner.plan(inner, &inside, Goal { first: false, ..goal });
        let sorted = Sort::plan(planner, input, keys);
        Extend::project(planner, sorted, needed)
    }

    pub(crate) fn plan(planner: &Planner<'_>, input: Physical, keys: &[SortKey]) -> Physical {
        let by = sort_columns(&input, keys);
        let cost = input.cost + input.estimate.rows * cost::SORT;
        planner.made(Physical {
            cost,
            startup: cost,
            sorted: None,
            columns: input.columns.clone(),
            estimate: input.estimate.clone(),
            op: Op::Sort(Sort { input: Below::new(input), by }),
            conditions: Vec::new(),
        })
    }
}

impl PhysicalOperator for Sort {
    fn inputs(&self) -> Each<&Below> {
        smallvec![&self.input]
    }

    fn inputs_mut(&mut self) -> Each<&mut Below> {
        smallvec![&mut self.input]
    }

    fn pick(&mut self, kept: &[usize], _: usize) -> bool {
        pick_sorted(&mut self.input, &mut self.by, kept)
    }

    fn let_pass(&mut self, _: &[bool]) -> Each<StableColumns> {
        smallvec![vec![true; self.input.columns.len()]]
    }

    fn lower(&self, plan: &Physical, _: Pipeline, lowering: &mut Lowering<'_>) -> Streams {
        let (terms, limit, width) = (Arc::clone(lowering.terms), lowering.limit, plan.columns.len());
        let pipeline = Pipeline::default().and(plan.estimate.rows);
        let streams = lowering.add(&self.input, pipeline);
        let streams = lowering.spread(streams, width, pipeline);
        let sorted = lowering.replicas(streams, width, width, || {
            let by = Arc::clone(&self.by);
            Draft::new(&terms, "sort", move |terms| boxes::Sort::new(terms, &by, limit)).that_spills()
        });
        lowering.set_degree(sorted.len());
        smallvec![lower_merge(sorted, &self.by, width, lowering)]
    }

    fn explain(&self, _: &Physical, _: &Explainer<'_>) -> Title {
        Title::new("sort", "")
    }

    fn is_ordered(&self) -> bool {
        true
    }
}

/// The columns of the keys. An always unbound slot does not order anything.
pub(super) fn sort_columns(input: &Physical, keys: &[SortKey]) -> Arc<[SortBy]> {
    keys.iter().filter_map(|key| Some(SortBy { column: input.column(key.slot)?, descending: key.descending })).collect()
}

/// Makes sorted rows have these columns only. False if the order needs others, or the input can't.
pub(super) fn pick_sorted(input: &mut Below, by: &mut Arc<[SortBy]>, kept: &[usize]) -> bool {
    let place = |by: &SortBy| Some(SortBy { column: kept.iter().position(|&kept| kept == by.column)?, ..*by });
    let Some(moved) = by.iter().map(place).collect::<Option<Vec<SortBy>>>() else { return false };
    if !input.pick(kept) {
        return false;
    }
    *by = moved.into();
    true
}

/// Merges sorted streams into one: those of each machine first, so that they cross as one.
pub(super) fn lower_merge(streams: Streams, by: &Arc<[SortBy]>, width: usize, lowering: &mut Lowering<'_>) -> OutputId {
    let streams =
        lowering.gathered(streams, width, |lowering, streams, width| lower_merge(streams, by, width, lowering));
    if let [stream] = streams[..] {
        return stream;
    }
    let (by, count, limit) = (Arc::clone(by), streams.len(), lowering.limit);
    let schema = lowering.schema(width);
    let model = move |terms: &Arc<Terms>| {
        let (terms, by) = (Arc::clone(terms), Arc::clone(&by));
        let compare = move |a: (&Envelope, usize), b: (&Envelope, usize)| boxes::compare(&terms, &by, a, b);
        library::merge(&schema, count, limit, compare)
    };
    let draft = Draft::from(model(lowering.terms));
    let merge = lowering.place(draft.made_by(Maker::new(move |terms| model(terms).operator())));
    for (input, stream) in streams.into_iter().enumerate() {
        lowering.net.connect(stream, merge.input(input));
    }
    merge.output(0)
}
