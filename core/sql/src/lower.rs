//! From a plan to a flow model: a box for each operator, or several boxes sharing an operator's work.
//!
//! If a table has many rows, a splitter hands out its parts to several scans, and each operator above has a replica for
//! each stream. Groups are folded in each stream, dealt by their keys, and put together; sorted streams are merged; a
//! join's table is built once and shared by all its probing boxes.
//!
//! Such a model can't deadlock. It has no cycle, and boxes take envelopes from any of their inputs, with two
//! exceptions. A join leaves its probing rows alone until its table is there; the table is built from a subtree of its
//! own. The merge waits for each of its inputs; these come from boxes that read all of their input before they send.

use crate::boxes::aggregate::{Aggregate, AggregateSpec, FoldSpec, Stage};
use crate::boxes::join::{JoinBuild, JoinProbe, JoinSpec};
use crate::boxes::new_rows::NewRows;
use crate::boxes::pipe::{Filter, Project};
use crate::boxes::scan::Scan;
use crate::boxes::set::SetOperation;
use crate::boxes::slice::{Single, Slice};
use crate::boxes::top::Top;
use crate::boxes::unnest::Unnest;
use crate::error::{SourcePosition, SqlError};
use crate::evaluate::{Room, Vector, gathered};
use crate::explain::describe;
use crate::expression::{ColumnId, Expr};
use crate::plan::BOX_BYTES;
use crate::relation::{Columns, Join, JoinKind, Op, Relation, SortBy};
use crate::stream::StreamTable;
use crate::table::Table;
use crate::types::{SqlType, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use vicus_flow::library::{self, HashKey, Iterating, SortKey};
use vicus_flow::{
    Bound, BoxError, BoxId, BoxModel, Envelope, Field, FragmentBuilder, Model, ModelBuilder, OutputId, Schema,
};
use vicus_language::stack::deep;
use vicus_language::{PlanNode, PlanOptions, StepBox, Stop};

pub(crate) struct Lowered {
    pub(crate) model: Arc<Model>,
    pub(crate) sinks: Vec<BoxId>,
    pub(crate) nodes: Vec<PlanNode>,
    pub(crate) is_short: bool,
}

/// The outputs sharing an operator's rows.
type Streams = Vec<OutputId>;

/// ORDER BY with a LIMIT up to this number of rows keeps these alone.
const MOST_TOP: u64 = 1 << 16;

/// Up to this number of expected groups, one box puts them together.
const FEW_GROUPS: f64 = 4096.0;

/// Steps for a box.
const BOX_STEPS: usize = 64;

/// A plan is short if its operators make less than 1/4 of the rows needed to share work.
const SHORT: f64 = 4.0;

pub(crate) fn lower(
    relation: &Relation,
    columns: &Columns,
    options: &PlanOptions,
    stop: &Stop<'_>,
) -> Result<Lowered, SqlError> {
    let mut net = ModelBuilder::new("statement");
    net.default_bound(Bound { envelopes: options.via_envelopes.max(1), ..Bound::default() });
    let mut lowering = Lowering::new(&mut net, &[], columns, options, stop);
    let streams = lowering.add(relation)?;
    let schema = lowering.schema(&relation.columns);
    let count = options.sinks.clamp(1, streams.len());
    let mut sinks = Vec::with_capacity(count);
    for place in 0..count {
        let mine: Streams = streams.iter().skip(place).step_by(count).copied().collect();
        let stream = lowering.united(mine, &schema);
        let sink = lowering.place(library::sink("rows", &schema, |_| Ok(())));
        lowering.net.connect(stream, sink.input(0));
        lowering.net.end(sink.output(0));
        sinks.push(sink);
    }
    let Lowering { nodes, rows, .. } = lowering;
    let model = net.build().unwrap_or_else(|error| panic!("a plan is a tree from sources to the sink: {error}"));
    let is_short = rows < options.parallel_rows as f64 / SHORT && nodes.iter().all(|node| node.degree <= 1);
    Ok(Lowered { model, sinks, nodes, is_short })
}

/// Adds a plan's boxes to a network whose streams are its tables. Gives its rows, and for each stream whether it is
/// read.
pub(crate) fn lower_into(
    net: &mut ModelBuilder,
    relation: &Relation,
    columns: &Columns,
    streams: &[StreamTable],
    options: &PlanOptions,
    stop: &Stop<'_>,
) -> Result<(OutputId, Vec<bool>), SqlError> {
    let mut lowering = Lowering::new(net, streams, columns, options, stop);
    let output = lowering.single(relation)?;
    Ok((output, lowering.read))
}

struct Lowering<'a> {
    net: &'a mut ModelBuilder,
    /// The tables that are streams of the network.
    streams: &'a [StreamTable],
    /// For each of them, whether a box reads it.
    read: Vec<bool>,
    columns: &'a Columns,
    options: &'a PlanOptions,
    limit: usize,
    nodes: Vec<PlanNode>,
    /// The current operator: new boxes are added to it.
    at: Option<usize>,
    /// The expected rows of all operators.
    rows: f64,
    /// How many recursive queries there are so far.
    recursions: usize,
    /// The step of the present one.
    naming: StepNaming,
    stop: &'a Stop<'a>,
}

/// How a run counts the boxes of a recursive query's step: by names.
#[derive(Default)]
struct StepNaming {
    fragment: String,
    /// How many boxes of each name it has.
    boxes: BTreeMap<&'static str, usize>,
    /// The operators that stand for the rows of a round.
    rounds: Vec<usize>,
}

impl<'a> Lowering<'a> {
    fn new(
        net: &'a mut ModelBuilder,
        streams: &'a [StreamTable],
        columns: &'a Columns,
        options: &'a PlanOptions,
        stop: &'a Stop<'a>,
    ) -> Lowering<'a> {
        Lowering {
            net,
            streams,
            read: vec![false; streams.len()],
            columns,
            options,
            limit: options.envelope_rows.max(1),
            nodes: Vec::new(),
            at: None,
            rows: 0.0,
            recursions: 0,
            naming: StepNaming::default(),
            stop,
        }
    }
}

impl Lowering<'_> {
    fn add(&mut self, relation: &Relation) -> Result<Streams, SqlError> {
        let at = self.nodes.len();
        let mut node = describe(relation, self.columns);
        node.parent = self.at;
        self.nodes.push(node);
        self.rows += relation.rows;
        let outer = self.at.replace(at);
        let streams = deep(|| self.operator(relation))?;
        self.at = outer;
        let node = &mut self.nodes[at];
        node.degree = node.degree.max(streams.len());
        node.outputs.clone_from(&streams);
        Ok(streams)
    }

    /// The number of boxes for work on `rows` rows.
    fn degree(&self, rows: f64) -> usize {
        let enough = self.options.parallel_rows as f64;
        if self.options.threads < 2 || rows < enough {
            return 1;
        }
        // The conversion to an integer saturates.
        ((rows * 2.0 / enough.max(1.0)).ceil() as usize).clamp(2, self.options.threads)
    }

    fn schema(&self, columns: &[ColumnId]) -> Schema {
        let field = |&id: &ColumnId| Field::new(self.columns.name(id), self.columns.kind(id).flow_type()).or_null();
        columns.iter().map(field).collect()
    }

    fn schema_of(kinds: &[SqlType]) -> Schema {
        let field = |kind: &SqlType| Field::new("value", kind.flow_type()).or_null();
        kinds.iter().map(field).collect()
    }

    fn place(&mut self, model: BoxModel) -> BoxId {
        let added = self.net.add(model);
        self.note(added)
    }

    fn note(&mut self, added: BoxId) -> BoxId {
        // The next step ends planning if this is too much.
        self.stop.count_bytes(BOX_BYTES);
        if let Some(at) = self.at {
            self.nodes[at].boxes.push(added);
        }
        added
    }

    /// A box over these streams.
    fn over(&mut self, inputs: &[OutputId], model: BoxModel) -> BoxId {
        let added = self.place(model);
        inputs.iter().enumerate().for_each(|(input, &from)| {
            self.net.connect(from, added.input(input));
        });
        added
    }

    /// A box for each stream.
    fn each(&mut self, streams: Streams, model: impl Fn() -> BoxModel) -> Result<Streams, SqlError> {
        self.stop.step(BOX_STEPS * streams.len())?;
        Ok(streams.into_iter().map(|stream| self.over(&[stream], model()).output(0)).collect())
    }

    fn united(&mut self, streams: Streams, schema: &Schema) -> OutputId {
        match streams[..] {
            [one] => one,
            _ => self.over(&streams, library::union(schema, streams.len())).output(0),
        }
    }

    fn single(&mut self, relation: &Relation) -> Result<OutputId, SqlError> {
        let streams = self.add(relation)?;
        Ok(self.united(streams, &self.schema(&relation.columns)))
    }

    /// Shares a single stream's envelopes among several boxes, if there are many rows.
    fn spread(&mut self, streams: Streams, schema: &Schema, rows: f64) -> Streams {
        let degree = self.degree(rows);
        match streams[..] {
            [one] if degree > 1 => {
                let spread = self.over(&[one], library::spread(schema, degree));
                (0..degree).map(|part| spread.output(part)).collect()
            }
            _ => streams,
        }
    }

    fn placed(expr: &Expr, columns: &[ColumnId]) -> Expr {
        expr.clone().placed(columns)
    }

    /// The place of a table among the network's streams.
    fn stream_of(&self, table: &Arc<dyn Table>) -> Option<usize> {
        self.streams.iter().position(|stream| Arc::ptr_eq(&stream.table, table))
    }

    fn operator(&mut self, relation: &Relation) -> Result<Streams, SqlError> {
        self.stop.step(BOX_STEPS)?;
        let schema = self.schema(&relation.columns);
        match &relation.op {
            Op::Scan { table, picked, .. } if self.stream_of(table).is_some() => {
                let place = self.stream_of(table).expect("it was asked");
                self.read[place] = true;
                let (output, model) = self.streams[place].reading(picked, &schema);
                let reader = self.over(&[output], model);
                Ok(self.spread(vec![reader.output(0)], &schema, relation.rows))
            }
            Op::Scan { table, name, picked, ranges } => {
                let parts = table.parts();
                let degree = self.degree(relation.rows);
                let replicas = degree.min(parts).max(1);
                let split = self.net.source(library::split([(0..parts as u64).into()], replicas, 1));
                self.note(split);
                let (name, picked, ranges): (Arc<str>, Arc<[usize]>, Arc<[_]>) =
                    (name.as_str().into(), picked.as_slice().into(), ranges.as_slice().into());
                let mut streams = Vec::with_capacity(replicas);
                for replica in 0..replicas {
                    let (table, name, picked, ranges, limit) =
                        (Arc::clone(table), Arc::clone(&name), Arc::clone(&picked), Arc::clone(&ranges), self.limit);
                    let model = BoxModel::new("scan", move || Scan::new(&table, &name, &picked, &ranges, limit));
                    let scan = self.place(model.input(&library::range_schema()).output(&schema));
                    // A slow scan gets fewer parts.
                    let link = self.net.connect(split.output(replica), scan.input(0));
                    link.bound(Bound { envelopes: 1, ..Bound::default() });
                    streams.push(scan.output(0));
                }
                Ok(self.spread(streams, &schema, relation.rows))
            }
            Op::Values { rows } => {
                let envelopes = values(rows, &relation.columns, self.columns, self.limit);
                let envelopes =
                    envelopes.map_err(|error| SqlError::wrong_type(SourcePosition::default(), error.to_string()))?;
                let source = self.net.source(library::source("values", &schema, move || envelopes.clone()));
                Ok(vec![self.note(source).output(0)])
            }
            Op::Project { input, exprs } => {
                let streams = self.add(input)?;
                let below = self.schema(&input.columns);
                self.each(streams, || projector("project", exprs, input, &below, &schema))
            }
            Op::Filter { input, conditions } => {
                let streams = self.add(input)?;
                let below = self.schema(&input.columns);
                self.each(streams, || filterer("filter", conditions, &relation.columns, input, &below, &schema))
            }
            Op::Join(join) => self.join(join, &relation.columns, &schema),
            Op::Aggregate { input, keys, folds } => {
                let of = |expr: &Expr| Self::placed(expr, &input.columns);
                let outputs: Vec<ColumnId> =
                    keys.iter().map(|(id, _)| *id).chain(folds.iter().map(|fold| fold.output)).collect();
                let spec = Arc::new(AggregateSpec {
                    keys: keys.iter().map(|(_, key)| of(key)).collect(),
                    folds: folds
                        .iter()
                        .map(|fold| FoldSpec {
                            kind: fold.kind,
                            argument: fold.argument.as_ref().map(of),
                            is_distinct: fold.is_distinct,
                        })
                        .collect(),
                    wanted: places(&relation.columns, &outputs),
                    seed: self.options.hash_seed,
                    limit: self.limit,
                });
                let streams = self.add(input)?;
                self.aggregate(streams, &self.schema(&input.columns), &spec, relation.rows, &schema)
            }
            Op::UnionAll { inputs } => {
                let mut streams = Vec::with_capacity(inputs.len());
                for input in inputs {
                    streams.extend(self.add(input)?);
                }
                let kept = self.degree(relation.rows);
                let united = (0..kept.min(streams.len())).map(|place| {
                    let mine = streams.iter().skip(place).step_by(kept).copied().collect();
                    self.united(mine, &schema)
                });
                Ok(united.collect())
            }
            Op::SetOperation { left, right, except, all } => {
                let sides = [self.single(left)?, self.single(right)?];
                let kinds: Arc<[SqlType]> = relation.columns.iter().map(|&id| self.columns.kind(id)).collect();
                let (except, all, limit, seed) = (*except, *all, self.limit, self.options.hash_seed);
                let rows = schema.clone();
                let model = BoxModel::new(if except { "except" } else { "intersect" }, move || {
                    SetOperation::new(&kinds, &rows, except, all, limit, seed)
                });
                let model = model.input(&schema).input(&schema).output(&schema);
                let model = model.takes_all_of(0).takes_all_of(1).takes_any_input();
                Ok(vec![self.over(&sides, model).output(0)])
            }
            Op::Sort { input, by, most } => {
                let streams = self.add(input)?;
                self.sort(streams, by, *most, relation, &schema)
            }
            Op::Limit { input, offset, count } => {
                let input = self.single(input)?;
                let (offset, count) = (*offset, *count);
                let model = BoxModel::new("slice", move || Slice::new(offset, count)).input(&schema).output(&schema);
                Ok(vec![self.over(&[input], model).output(0)])
            }
            Op::Iterate { base, step, number, all } => self.recursion(base, step, *number, *all, relation, &schema),
            Op::Round { .. } => unreachable!("only the step of a recursive query reads a round"),
            Op::Unnest { input, list, .. } => {
                let streams = self.add(input)?;
                let below = self.schema(&input.columns);
                let list: Arc<[Expr]> = [Self::placed(list, &input.columns)].into();
                let place = |id: &ColumnId| input.columns.iter().position(|column| column == id);
                let (wanted, limit): (Arc<[Option<usize>]>, _) =
                    (relation.columns.iter().map(place).collect(), self.limit);
                self.each(streams, || {
                    let (list, wanted) = (Arc::clone(&list), Arc::clone(&wanted));
                    let model = BoxModel::new("unnest", move || Unnest::new(&list, &wanted, limit));
                    model.input(&below).output(&schema)
                })
            }
            Op::Single { input } => {
                let input = self.single(input)?;
                let model = BoxModel::new("single", Single::new).input(&schema).output(&schema);
                Ok(vec![self.over(&[input], model).output(0)])
            }
        }
    }

    fn join_spec(&self, join: &Join, wanted: &[ColumnId]) -> Arc<JoinSpec> {
        let (left, right) = (&join.left.columns, &join.right.columns);
        let mut both: Vec<ColumnId> = left.iter().chain(right).copied().collect();
        let of_both = |expr: &Expr| Self::placed(expr, &both);
        let residual = join.residual.iter().map(of_both).collect();
        let membership = join.membership.as_ref().map(of_both);
        if let JoinKind::Mark(mark) = join.kind {
            both.push(mark);
        }
        let kinds = |columns: &[ColumnId]| columns.iter().map(|&id| self.columns.kind(id)).collect::<Vec<_>>();
        Arc::new(JoinSpec {
            kind: join.kind,
            left_keys: join.keys.iter().map(|(key, _)| Self::placed(key, left)).collect(),
            right_keys: join.keys.iter().map(|(_, key)| Self::placed(key, right)).collect(),
            residual,
            membership,
            is_null_aware: join.is_null_aware,
            wanted: places(wanted, &both),
            left_width: left.len(),
            right_kinds: kinds(right),
            left_kinds: kinds(left),
            seed: self.options.hash_seed,
            limit: self.limit,
        })
    }

    /// The table of a join's right side.
    ///
    /// `is_divisible`: if it is too large for memory, there may be tables of its parts, one after the other.
    fn table(&mut self, join: &Join, spec: &Arc<JoinSpec>, is_divisible: bool) -> Result<OutputId, SqlError> {
        let right_schema = self.schema(&join.right.columns);
        let build = self.single(&join.right)?;
        let (of_build, rows) = (Arc::clone(spec), right_schema.clone());
        let factory = move || JoinBuild::new(&of_build, is_divisible.then_some(&rows));
        let model = BoxModel::new("build", factory).input(&right_schema).output(&tables()).takes_all_of(0);
        Ok(self.over(&[build], model).output(0))
    }

    fn join(&mut self, join: &Join, wanted: &[ColumnId], schema: &Schema) -> Result<Streams, SqlError> {
        let spec = self.join_spec(join, wanted);
        let left_schema = self.schema(&join.left.columns);
        let mut probes = self.add(&join.left)?;
        // Without keys, each row meets all rows of the other side.
        let work = if join.keys.is_empty() { join.left.rows * join.right.rows.max(1.0) } else { join.left.rows };
        if join.kind == JoinKind::Full {
            probes = vec![self.united(probes, &left_schema)];
        } else {
            probes = self.spread(probes, &left_schema, work);
        }
        let build = self.table(join, &spec, true)?;
        self.stop.step(BOX_STEPS * probes.len())?;
        let probe = |stream: OutputId| {
            let probe = self.over(&[stream], prober("join", &spec, &left_schema, schema));
            // A table of a part waits for the one before it.
            self.net.connect(build, probe.input(1)).bound(Bound { envelopes: 1, ..Bound::default() });
            probe.output(0)
        };
        Ok(probes.into_iter().map(probe).collect())
    }

    /// A recursive query: a box that has a step made for each round. The tables of the step's joins are built once.
    fn recursion(
        &mut self,
        base: &Relation,
        step: &Relation,
        number: usize,
        all: bool,
        relation: &Relation,
        schema: &Schema,
    ) -> Result<Streams, SqlError> {
        let base = self.single(base)?;
        let mut inputs = vec![schema.clone()];
        inputs.extend(joins_of(step, number).map(|_| tables()));
        self.recursions += 1;
        let fragment = numbered("recursive union", self.recursions);
        let mut net = FragmentBuilder::new(fragment.as_str(), &inputs);
        // A table of the step's joins may be recursive as well.
        let outer = std::mem::replace(&mut self.naming, StepNaming { fragment, ..StepNaming::default() });
        net.default_bound(Bound { envelopes: self.options.via_envelopes.max(1), ..Bound::default() });
        let mut streams = vec![base];
        let made = self.step(step, &mut net, &mut streams)?;
        net.end(made);
        let step = net.build().unwrap_or_else(|error| panic!("a step is a chain from its rows to its end: {error}"));
        let mut iterating = Iterating::of(schema, &step);
        if !all {
            let kinds: Arc<[SqlType]> = relation.columns.iter().map(|&id| self.columns.kind(id)).collect();
            let (seed, rows) = (self.options.hash_seed, schema.clone());
            iterating = iterating.sieved(move || Box::new(NewRows::new(&kinds, &rows, seed)));
        }
        let iterate = self.over(&streams, library::iterate(&iterating));
        for round in std::mem::replace(&mut self.naming, outer).rounds {
            // Behind its own output, it has one for the rows of a round.
            self.nodes[round].outputs.push(iterate.output(1));
        }
        Ok(self.spread(vec![iterate.output(0)], schema, relation.rows))
    }

    /// The boxes of a recursive query's step, in a fragment; the tables of its joins are streams of this network.
    fn step(
        &mut self,
        relation: &Relation,
        net: &mut FragmentBuilder,
        streams: &mut Vec<OutputId>,
    ) -> Result<OutputId, SqlError> {
        self.stop.step(BOX_STEPS)?;
        let at = self.nodes.len();
        let mut node = describe(relation, self.columns);
        node.parent = self.at;
        self.nodes.push(node);
        let outer = self.at.replace(at);
        let output = deep(|| self.step_operator(relation, net, streams))?;
        self.at = outer;
        Ok(output)
    }

    /// The name of a step's box for the present operator.
    fn step_name(&mut self, kind: &'static str) -> String {
        let count = self.naming.boxes.entry(kind).or_default();
        *count += 1;
        let name = numbered(kind, *count);
        if let Some(at) = self.at {
            self.nodes[at].step = Some(StepBox { fragment: self.naming.fragment.clone(), name: name.clone() });
        }
        name
    }

    fn step_operator(
        &mut self,
        relation: &Relation,
        net: &mut FragmentBuilder,
        streams: &mut Vec<OutputId>,
    ) -> Result<OutputId, SqlError> {
        let schema = self.schema(&relation.columns);
        let (from, model) = match &relation.op {
            Op::Round { .. } => {
                self.naming.rounds.extend(self.at);
                return Ok(net.input(0));
            }
            Op::Project { input, exprs } => {
                let from = self.step(input, net, streams)?;
                let name = self.step_name("project");
                (from, projector(name, exprs, input, &self.schema(&input.columns), &schema))
            }
            Op::Filter { input, conditions } => {
                let from = self.step(input, net, streams)?;
                let (name, below) = (self.step_name("filter"), self.schema(&input.columns));
                (from, filterer(name, conditions, &relation.columns, input, &below, &schema))
            }
            Op::Join(join) => {
                let from = self.step(&join.left, net, streams)?;
                let spec = self.join_spec(join, &relation.columns);
                let table = self.table(join, &spec, false)?;
                let place = streams.len();
                streams.push(table);
                let name = self.step_name("join");
                let probe = net.add(prober(name, &spec, &self.schema(&join.left.columns), &schema));
                net.connect(from, probe.input(0));
                let table = net.input(place);
                net.connect(table, probe.input(1));
                return Ok(probe.output(0));
            }
            _ => unreachable!("the binder lets no other operator read a round"),
        };
        self.stop.count_bytes(BOX_BYTES);
        let added = net.add(model);
        net.connect(from, added.input(0));
        Ok(added.output(0))
    }

    fn aggregate(
        &mut self,
        streams: Streams,
        below: &Schema,
        spec: &Arc<AggregateSpec>,
        groups: f64,
        schema: &Schema,
    ) -> Result<Streams, SqlError> {
        let make = |stage: Stage, from: &Schema, to: &Schema| {
            let spec = Arc::clone(spec);
            let rows = from.clone();
            let model = BoxModel::new("aggregate", move || Aggregate::new(&spec, stage, &rows));
            model.input(from).output(to).takes_all_of(0)
        };
        if streams.len() == 1 || !spec.can_be_parted() {
            let input = self.united(streams, below);
            return Ok(vec![self.over(&[input], make(Stage::Whole, below, schema)).output(0)]);
        }
        let parts = Self::schema_of(&spec.part_kinds());
        let degree = streams.len();
        let streams = self.each(streams, || make(Stage::Parts, below, &parts))?;
        if spec.keys.is_empty() || groups < FEW_GROUPS {
            let input = self.united(streams, &parts);
            return Ok(vec![self.over(&[input], make(Stage::Results, &parts, schema)).output(0)]);
        }
        self.stop.step(BOX_STEPS * degree * degree)?;
        let keys: Vec<usize> = (0..spec.keys.len()).collect();
        let by = HashKey::of_seed(self.options.hash_seed);
        let deals: Vec<BoxId> = streams
            .into_iter()
            .map(|stream| self.over(&[stream], library::partition(&parts, &keys, degree, by)))
            .collect();
        let results = (0..degree).map(|part| {
            let input = self.united(deals.iter().map(|deal| deal.output(part)).collect(), &parts);
            self.over(&[input], make(Stage::Results, &parts, schema)).output(0)
        });
        Ok(results.collect())
    }

    fn sort(
        &mut self,
        streams: Streams,
        by: &[SortBy],
        most: Option<u64>,
        relation: &Relation,
        schema: &Schema,
    ) -> Result<Streams, SqlError> {
        let key = |by: &SortBy| SortKey {
            column: places(&[by.column], &relation.columns)[0],
            descending: by.descending,
            nulls_last: by.nulls_last,
        };
        let by: Arc<[SortKey]> = by.iter().map(key).collect();
        let limit = self.limit;
        let sorted = match most.filter(|&most| most <= MOST_TOP) {
            Some(most) => self.each(streams, || {
                let by = Arc::clone(&by);
                let model = BoxModel::new("top", move || Top::new(&by, most as usize, limit));
                model.input(schema).output(schema).takes_all_of(0)
            })?,
            None => {
                let streams = self.spread(streams, schema, relation.rows);
                self.each(streams, || library::sort(schema, by.iter().copied(), limit))?
            }
        };
        if sorted.len() == 1 {
            return Ok(sorted);
        }
        let merge = library::merge(schema, sorted.len(), limit, library::order_by(by.iter().copied()));
        if let Some(at) = self.at {
            self.nodes[at].degree = sorted.len();
        }
        Ok(vec![self.over(&sorted, merge).output(0)])
    }
}

/// The schema of the envelopes to which tables are attached.
fn tables() -> Schema {
    Schema::new::<&str>([])
}

/// A name, with a number if it is not the first of its kind.
fn numbered(kind: &str, number: usize) -> String {
    if number > 1 { format!("{kind} {number}") } else { kind.to_owned() }
}

fn prober(name: impl Into<Cow<'static, str>>, spec: &Arc<JoinSpec>, left: &Schema, schema: &Schema) -> BoxModel {
    let (spec, rows) = (Arc::clone(spec), left.clone());
    let model = BoxModel::new(name, move || JoinProbe::new(&spec, &rows));
    model.input(left).input(&tables()).output(schema).takes_all_of(1)
}

fn projector(
    name: impl Into<Cow<'static, str>>,
    exprs: &[(ColumnId, Expr)],
    input: &Relation,
    below: &Schema,
    schema: &Schema,
) -> BoxModel {
    let exprs: Arc<[Expr]> = exprs.iter().map(|(_, expr)| expr.clone().placed(&input.columns)).collect();
    BoxModel::new(name, move || Project::new(&exprs)).input(below).output(schema)
}

fn filterer(
    name: impl Into<Cow<'static, str>>,
    conditions: &[Expr],
    columns: &[ColumnId],
    input: &Relation,
    below: &Schema,
    schema: &Schema,
) -> BoxModel {
    let conditions: Arc<[Expr]> = conditions.iter().map(|one| one.clone().placed(&input.columns)).collect();
    let wanted: Arc<[usize]> = places(columns, &input.columns).into();
    BoxModel::new(name, move || Filter::new(&conditions, &wanted)).input(below).output(schema)
}

/// The joins on the way to the rows of a round.
fn joins_of(step: &Relation, number: usize) -> impl Iterator<Item = &Relation> {
    fn below(relation: &Relation, number: usize) -> Option<&Relation> {
        relation.inputs().into_iter().find(|input| input.reads_round(number))
    }
    let all = std::iter::successors(Some(step), move |relation| below(relation, number));
    all.filter(|relation| matches!(relation.op, Op::Join(_)))
}

/// The places of these columns among others.
fn places(wanted: &[ColumnId], columns: &[ColumnId]) -> Vec<usize> {
    let place = |id: &ColumnId| columns.iter().position(|column| column == id);
    wanted.iter().map(|id| place(id).unwrap_or_else(|| panic!("{id:?} is one of {columns:?}"))).collect()
}

fn values(rows: &[Vec<Value>], columns: &[ColumnId], known: &Columns, limit: usize) -> Result<Vec<Envelope>, BoxError> {
    // The binder has counted them for the plan.
    let room = Room::new(&|_| Ok(()));
    let envelope = |rows: &[Vec<Value>]| {
        let column = |(place, &id): (usize, &ColumnId)| {
            let kind = known.kind(id);
            let single = |row: &Vec<Value>| Vector::One(row[place].clone()).into_column(&kind, 1, &room);
            let singles = rows.iter().map(single).collect::<Result<Vec<_>, _>>()?;
            gathered(&kind, singles.iter().map(|single| Some((single, 0))), &room)
        };
        let columns = columns.iter().enumerate().map(column).collect::<Result<_, BoxError>>()?;
        Ok(Envelope::of_rows(columns, rows.len()))
    };
    rows.chunks(limit).map(envelope).collect()
}
