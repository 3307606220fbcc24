//! From a physical plan to a flow model: one box for each operator, one via for each edge of the tree.

use crate::boxes::{
    self, aggregate, distinct, extend, filter, join, nodes, scan, slice, sort, top, union, values, walk,
};
use crate::planner::{Op, Physical};
use crate::terms::Terms;
use std::sync::Arc;
use vicus_flow::{BoxId, BoxModel, Model, ModelBuilder, library};

/// The model, and the box that receives the solutions.
pub(crate) fn lower(plan: &Physical, terms: &Arc<Terms>, envelope_rows: usize) -> (Arc<Model>, BoxId) {
    let mut lowering = Lowering { net: ModelBuilder::new("query"), terms, limit: envelope_rows };
    let last = lowering.add(plan);
    let sink = lowering.net.add(library::sink("solutions", &boxes::schema(plan.columns.len()), |_| Ok(())));
    lowering.net.connect(last.output(0), sink.input(0));
    lowering.net.end(sink.output(0));
    let model =
        lowering.net.build().unwrap_or_else(|error| panic!("a plan is a tree from sources to the sink: {error}"));
    (model, sink)
}

struct Lowering<'a> {
    net: ModelBuilder,
    terms: &'a Arc<Terms>,
    limit: usize,
}

impl Lowering<'_> {
    /// Adds the boxes of a plan; returns the one that puts its rows out.
    fn add(&mut self, plan: &Physical) -> BoxId {
        let (terms, limit) = (Arc::clone(self.terms), self.limit);
        let width = plan.columns.len();
        match &plan.op {
            Op::Values(table) => {
                let table = Arc::clone(table);
                self.source(width, BoxModel::new("values", move || values::Values::new(&table, limit)))
            }
            Op::Scan(_, spec) => {
                let spec = Arc::clone(spec);
                self.source(width, BoxModel::new("scan", move || scan::Scan::new(&terms.store, &spec, limit)))
            }
            Op::Nodes => self.source(width, BoxModel::new("nodes", move || nodes::Nodes::new(&terms.store, limit))),
            Op::Walk(input, _, walk, spec) => {
                let (walk, spec) = (Arc::clone(walk), Arc::clone(spec));
                let model = BoxModel::new("walk", move || walk::Walk::new(&terms, &spec, &walk, limit));
                self.over(&[input], width, model)
            }
            Op::IndexJoin(input, _, index, spec) => {
                let (index, spec) = (Arc::clone(index), Arc::clone(spec));
                let model = BoxModel::new("index join", move || join::IndexJoin::new(&terms, &spec, &index, limit));
                self.over(&[input], width, model)
            }
            Op::HashJoin(probe, build, hash, spec) => {
                let (hash, spec) = (Arc::clone(hash), Arc::clone(spec));
                let model = BoxModel::new("hash join", move || join::HashJoin::new(&terms, &spec, &hash, limit));
                self.over(&[probe, build], width, model)
            }
            Op::Filter(input, condition, output) => {
                let (condition, output) = (condition.clone(), Arc::clone(output));
                let model = BoxModel::new("filter", move || filter::Filter::new(&terms, &condition, &output, limit));
                self.over(&[input], width, model)
            }
            Op::Extend(input, makes) => {
                let makes = Arc::clone(makes);
                let model = BoxModel::new("extend", move || extend::Extend::new(&terms, &makes));
                self.over(&[input], width, model)
            }
            Op::Union(inputs, maps) => {
                let maps = Arc::clone(maps);
                let inputs: Vec<&Physical> = inputs.iter().collect();
                self.over(&inputs, width, BoxModel::new("union", move || union::Union::new(&maps)))
            }
            Op::Distinct(input) => {
                self.over(&[input], width, BoxModel::new("distinct", move || distinct::Distinct::new(width, limit)))
            }
            Op::Aggregate(input, spec) => {
                let spec = Arc::clone(spec);
                let model = BoxModel::new("aggregate", move || aggregate::Aggregate::new(&terms, &spec, limit));
                self.over(&[input], width, model)
            }
            Op::Sort(input, by) => {
                let by = Arc::clone(by);
                self.over(&[input], width, BoxModel::new("sort", move || sort::Sort::new(&terms, &by, limit)))
            }
            Op::Top(input, by, count) => {
                let (by, count) = (Arc::clone(by), *count);
                self.over(&[input], width, BoxModel::new("top", move || top::Top::new(&terms, &by, count, limit)))
            }
            Op::Slice(input, offset, count) => {
                let (offset, count) = (*offset, *count);
                self.over(&[input], width, BoxModel::new("slice", move || slice::Slice::new(offset, count)))
            }
        }
    }

    fn source(&mut self, width: usize, model: BoxModel) -> BoxId {
        self.net.source(model.output(&boxes::schema(width)))
    }

    fn over(&mut self, inputs: &[&Physical], width: usize, model: BoxModel) -> BoxId {
        let model = inputs.iter().fold(model, |model, input| model.input(&boxes::schema(input.columns.len())));
        let senders: Vec<BoxId> = inputs.iter().map(|input| self.add(input)).collect();
        let made = self.net.add(model.output(&boxes::schema(width)));
        for (input, sender) in senders.into_iter().enumerate() {
            self.net.connect(sender.output(0), made.input(input));
        }
        made
    }
}
