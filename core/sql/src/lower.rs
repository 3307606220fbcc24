//! From a plan to a flow model: a box for each operator, or several boxes sharing an operator's work.
//!
//! If a table has many rows, a splitter hands out its parts to several scans, and each operator above has a replica for
//! each stream. Groups are folded in each stream, dealt by their keys, and put together; sorted streams are merged; a
//! join's table is built once and shared by all its probing boxes.
//!
//! Such a model can't deadlock. It has no cycle, and boxes take envelopes from any of their inputs, with two
//! exceptions. A join leaves its probing rows alone until its table is there; the table is built from a subtree of its
//! own. The merge waits for each of its inputs; these come from boxes that read all of their input before they send.
//!
//! A model over several machines is made in the same way: each box has a machine. The parts of a large table are shared
//! out to machines, boxes stay with their streams, and rows that are dealt, merged or shown cross, those of a machine
//! as one stream. A join's table is built on each machine that probes it: from rows that this machine makes by itself,
//! or from rows that all machines make and send to all. Rows are values, so they cross as they are.

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
use crate::table::{ColumnRange, Table};
use crate::types::{SqlType, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use vicus_flow::library::{self, HashKey, Iterating, SortKey};
use vicus_flow::{
    Bound, BoxError, BoxId, BoxModel, Envelope, Field, FragmentBuilder, Model, ModelBuilder, OutputId, Schema,
};
use vicus_language::machines::{Places, crossing_bytes, row_bytes};
use vicus_language::stack::deep;
use vicus_language::{Machines, PlanNode, PlanOptions, StepBox, Stop};

pub(crate) struct Lowered {
    pub(crate) model: Arc<Model>,
    pub(crate) sinks: Vec<BoxId>,
    pub(crate) nodes: Vec<PlanNode>,
    pub(crate) is_short: bool,
    /// The machine of each box, if there are several.
    pub(crate) machines: Vec<usize>,
    /// About how long it takes on one machine, and over all of them.
    pub(crate) alone_ns: f64,
    pub(crate) shared_ns: f64,
    /// About how many bytes cross the network.
    pub(crate) crossing_bytes: f64,
}

/// The outputs sharing an operator's rows.
type Streams = Vec<OutputId>;

/// ORDER BY with a LIMIT up to this number of rows keeps these alone.
const MOST_TOP: u64 = 1 << 16;

/// Up to this number of expected groups, one box puts them together.
const FEW_GROUPS: f64 = 4096.0;

/// Groups that are dealt over machines have at most so many boxes on each.
const MOST_DEALT: usize = 16;

/// About how many nanoseconds a row of an operator takes.
const ROW_NS: f64 = 100.0;

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
    let is_apart = lowering.places.are_apart();
    // Over machines, rows come together in one box of the machine that was asked.
    let count = if is_apart { 1 } else { options.sinks.clamp(1, streams.len()) };
    let mut sinks = Vec::with_capacity(count);
    for place in 0..count {
        let mine: Streams = streams.iter().skip(place).step_by(count).copied().collect();
        let mut stream = lowering.united(mine, &schema);
        if is_apart {
            // A machine may be lost until the last row: then the statement is asked again, and no row comes twice.
            stream = lowering.here(&[stream], library::hold(&schema)).output(0);
        }
        let sink = lowering.place(library::sink("rows", &schema, |_| Ok(())));
        lowering.net.connect(stream, sink.input(0));
        lowering.net.end(sink.output(0));
        sinks.push(sink);
    }
    let (alone_ns, shared_ns) = lowering.times();
    let Lowering { nodes, rows, places, sent, .. } = lowering;
    let model = net.build().unwrap_or_else(|error| panic!("a plan is a tree from sources to the sink: {error}"));
    let is_short = rows < options.parallel_rows as f64 / SHORT && nodes.iter().all(|node| node.degree <= 1);
    let machines = places.finish();
    let crossing_bytes = if machines.is_empty() { 0.0 } else { crossing_bytes(&model, &machines, sent) };
    Ok(Lowered { model, sinks, nodes, is_short, machines, alone_ns, shared_ns, crossing_bytes })
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
    let options = PlanOptions { machines: Machines::default(), ..*options };
    let mut lowering = Lowering::new(net, streams, columns, &options, stop);
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
    /// The machine of each box, if there are several. Boxes are added to the present one, unless they follow a stream.
    places: Places,
    /// Tables are not shared out while all boxes are to be on one machine.
    alone: bool,
    /// Whether a few rows are enough, so several machines would be a waste.
    few: bool,
    /// The next operator of a plan that is added once more, for another machine.
    again: Option<usize>,
    /// The operators that each of several machines has for itself.
    repeated: BTreeSet<usize>,
    /// Outputs, each with the rows expected there.
    sent: Vec<(OutputId, f64)>,
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
            places: Places::default(),
            alone: options.machines.count() < 2,
            few: false,
            again: None,
            repeated: BTreeSet::new(),
            sent: Vec::new(),
            stop,
        }
    }
}

impl Lowering<'_> {
    fn add(&mut self, relation: &Relation) -> Result<Streams, SqlError> {
        let at = match &mut self.again {
            Some(next) => {
                let at = std::mem::replace(next, *next + 1);
                self.repeated.insert(at);
                at
            }
            None => {
                let mut node = describe(relation, self.columns);
                node.parent = self.at;
                self.nodes.push(node);
                self.rows += relation.rows;
                self.nodes.len() - 1
            }
        };
        let outer = self.at.replace(at);
        // What reads all of its input needs all of it.
        let few = self.few;
        self.few &= !relation.reads_all();
        let streams = deep(|| self.operator(relation))?;
        self.few = few;
        self.at = outer;
        if self.has_machines() {
            let each = relation.rows / streams.len() as f64;
            self.sent.extend(streams.iter().map(|stream| (*stream, each)));
        }
        let node = &mut self.nodes[at];
        node.degree = node.degree.max(streams.len());
        node.outputs.extend_from_slice(&streams);
        Ok(streams)
    }

    /// Adds a plan with all its boxes on one machine. `again`: its place among the operators if it was added before, to
    /// another machine. Each of these makes all of its rows.
    fn add_alone(&mut self, relation: &Relation, machine: usize, again: Option<usize>) -> Result<Streams, SqlError> {
        let alone = std::mem::replace(&mut self.alone, true);
        let outer = std::mem::replace(&mut self.again, again);
        let streams = self.on(machine, |lowering| lowering.add(relation));
        (self.alone, self.again) = (alone, outer);
        streams
    }

    /// The number of boxes for work on `rows` rows.
    fn degree(&self, rows: f64) -> usize {
        let enough = self.options.parallel_rows as f64;
        let threads = self.threads(self.places.machine());
        if threads < 2 || rows < enough {
            return 1;
        }
        // The conversion to an integer saturates.
        ((rows * 2.0 / enough.max(1.0)).ceil() as usize).clamp(2, threads)
    }

    fn has_machines(&self) -> bool {
        self.options.machines.count() > 1
    }

    fn threads(&self, machine: usize) -> usize {
        if self.has_machines() { self.options.machines.threads(machine) } else { self.options.threads }
    }

    /// Adds boxes to a machine.
    fn on<R>(&mut self, machine: usize, add: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.places.turn_to(machine);
        let added = add(self);
        self.places.turn_to(outer);
        added
    }

    /// The machine of an output's box.
    fn machine_of(&self, output: OutputId) -> usize {
        if self.has_machines() { self.places.of(output) } else { 0 }
    }

    /// The streams of each machine.
    fn by_machine(&self, streams: &[OutputId]) -> Vec<(usize, Streams)> {
        if !self.has_machines() {
            return vec![(0, streams.to_vec())];
        }
        let of =
            |machine: &usize| streams.iter().copied().filter(|stream| self.places.of(*stream) == *machine).collect();
        self.places.all_of(streams).into_iter().map(|machine| (machine, of(&machine))).collect()
    }

    /// The streams that boxes of this machine can read: of each other machine there is one at most, whose rows `unite`
    /// puts together there, so that they cross as one.
    fn gathered(&mut self, streams: Streams, mut unite: impl FnMut(&mut Self, Streams) -> OutputId) -> Streams {
        let here = self.places.machine();
        let mut gathered = Streams::new();
        for (machine, of_machine) in self.by_machine(&streams) {
            if machine == here || of_machine.len() < 2 {
                gathered.extend(of_machine);
            } else {
                gathered.push(self.on(machine, |lowering| unite(lowering, of_machine)));
            }
        }
        gathered
    }

    /// Whether a table of so many parts is shared out to machines.
    fn is_cut(&self, parts: usize, rows: f64) -> bool {
        let is_large = self.options.machines.always || rows >= self.options.parallel_rows as f64;
        is_large && parts > 1 && !self.alone && !self.few
    }

    /// About how many nanoseconds the statement takes on the first machine, and over all of them.
    fn times(&self) -> (f64, f64) {
        if !self.has_machines() {
            return (0.0, 0.0);
        }
        let (mut alone, mut shared) = (0.0, 0.0);
        for (at, node) in self.nodes.iter().enumerate() {
            let own: Vec<OutputId> = node.boxes.iter().map(|own| own.output(0)).collect();
            let threads = self.places.all_of(&own).into_iter().map(|machine| self.threads(machine));
            let threads = if self.repeated.contains(&at) { threads.min() } else { threads.reduce(|a, b| a + b) };
            // One without boxes passes on its inputs' streams.
            if let Some(threads) = threads {
                alone += node.rows * ROW_NS / self.threads(0) as f64;
                shared += node.rows * ROW_NS / threads as f64;
            }
        }
        (alone, shared)
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
        if self.has_machines() {
            self.places.note(added);
        }
        if let Some(at) = self.at {
            self.nodes[at].boxes.push(added);
        }
        added
    }

    /// A box over these streams, on the machine of the first one.
    fn over(&mut self, inputs: &[OutputId], model: BoxModel) -> BoxId {
        let machine = inputs.first().map_or(self.places.machine(), |first| self.machine_of(*first));
        self.on(machine, |lowering| lowering.here(inputs, model))
    }

    /// A box for each stream.
    fn each(&mut self, streams: Streams, model: impl Fn() -> BoxModel) -> Result<Streams, SqlError> {
        self.stop.step(BOX_STEPS * streams.len())?;
        Ok(streams.into_iter().map(|stream| self.over(&[stream], model()).output(0)).collect())
    }

    /// One stream of all rows, on this machine; a single one stays where it is.
    fn united(&mut self, streams: Streams, schema: &Schema) -> OutputId {
        let streams = self.gathered(streams, |lowering, streams| lowering.united(streams, schema));
        match streams[..] {
            [one] => one,
            _ => self.here(&streams, library::union(schema, streams.len())).output(0),
        }
    }

    /// A box of this machine over streams of any.
    fn here(&mut self, inputs: &[OutputId], model: BoxModel) -> BoxId {
        let added = self.place(model);
        inputs.iter().enumerate().for_each(|(input, &from)| {
            self.net.connect(from, added.input(input));
        });
        added
    }

    fn single(&mut self, relation: &Relation) -> Result<OutputId, SqlError> {
        let streams = self.add(relation)?;
        Ok(self.united(streams, &self.schema(&relation.columns)))
    }

    /// Shares a single stream's envelopes among several boxes, if there are many rows.
    fn spread(&mut self, streams: Streams, schema: &Schema, rows: f64) -> Streams {
        let machine = streams.first().map_or(0, |first| self.machine_of(*first));
        let degree = self.on(machine, |lowering| lowering.degree(rows));
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
                let scans = ScanBoxes {
                    table,
                    name: name.as_str().into(),
                    picked: picked.as_slice().into(),
                    ranges: ranges.as_slice().into(),
                    schema: &schema,
                };
                if !self.is_cut(parts, relation.rows) {
                    let streams = self.scan(&scans, 0..parts, relation.rows);
                    return Ok(self.spread(streams, &schema, relation.rows));
                }
                let mut streams = Streams::new();
                for (machine, mine) in self.options.machines.ranges(0..parts).into_iter().enumerate() {
                    if !mine.is_empty() {
                        let rows = relation.rows * mine.len() as f64 / parts as f64;
                        streams.extend(self.on(machine, |lowering| lowering.scan(&scans, mine, rows)));
                    }
                }
                Ok(streams)
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
                let rows = Grouped { below: input.rows, groups: relation.rows };
                self.aggregate(streams, &self.schema(&input.columns), &spec, rows, &schema)
            }
            Op::UnionAll { inputs } => {
                let mut streams = Vec::with_capacity(inputs.len());
                for input in inputs {
                    streams.extend(self.add(input)?);
                }
                let mut united = Streams::new();
                for (machine, streams) in self.by_machine(&streams) {
                    self.on(machine, |lowering| {
                        let kept = lowering.degree(relation.rows);
                        united.extend((0..kept.min(streams.len())).map(|place| {
                            let mine = streams.iter().skip(place).step_by(kept).copied().collect();
                            lowering.united(mine, &schema)
                        }));
                    });
                }
                Ok(united)
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
                Ok(vec![self.here(&sides, model).output(0)])
            }
            Op::Sort { input, by, most } => {
                let streams = self.add(input)?;
                self.sort(streams, by, *most, relation, &schema)
            }
            Op::Limit { input, offset, count } => {
                let wanted = count.map(|count| offset.saturating_add(count) as f64);
                self.few |= wanted.is_some_and(|wanted| wanted < self.options.parallel_rows as f64);
                let input = self.single(input)?;
                let (offset, count) = (*offset, *count);
                let model = BoxModel::new("slice", move || Slice::new(offset, count)).input(&schema).output(&schema);
                Ok(vec![self.here(&[input], model).output(0)])
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
                Ok(vec![self.here(&[input], model).output(0)])
            }
        }
    }

    /// Scans of some parts of a table, on this machine.
    fn scan(&mut self, scans: &ScanBoxes<'_>, parts: Range<usize>, rows: f64) -> Streams {
        let replicas = self.degree(rows).min(parts.len()).max(1);
        let parts = parts.start as u64..parts.end as u64;
        let split = self.net.source(library::split([parts.into()], replicas, 1));
        self.note(split);
        let replica = |replica| {
            let ScanBoxes { table, name, picked, ranges, schema } = scans;
            let (table, name, picked, ranges, limit) =
                (Arc::clone(table), Arc::clone(name), Arc::clone(picked), Arc::clone(ranges), self.limit);
            let model = BoxModel::new("scan", move || Scan::new(&table, &name, &picked, &ranges, limit));
            let scan = self.place(model.input(&library::range_schema()).output(schema));
            // A slow scan gets fewer parts.
            let link = self.net.connect(split.output(replica), scan.input(0));
            link.bound(Bound { envelopes: 1, ..Bound::default() });
            scan.output(0)
        };
        (0..replicas).map(replica).collect()
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
    fn table(&mut self, join: &Join, rows: Streams, spec: &Arc<JoinSpec>, is_divisible: bool) -> OutputId {
        let right_schema = self.schema(&join.right.columns);
        let build = self.united(rows, &right_schema);
        let (of_build, rows) = (Arc::clone(spec), right_schema.clone());
        let factory = move || JoinBuild::new(&of_build, is_divisible.then_some(&rows));
        let model = BoxModel::new("build", factory).input(&right_schema).output(&tables()).takes_all_of(0);
        self.here(&[build], model).output(0)
    }

    /// A table of a join's right side on each of these machines, in their order.
    fn tables(&mut self, join: &Join, spec: &Arc<JoinSpec>, machines: &[usize]) -> Result<Vec<OutputId>, SqlError> {
        let right = &join.right;
        let mut tables = Vec::with_capacity(machines.len());
        if self.makes_by_itself(right, machines) {
            let begin = self.nodes.len();
            for &machine in machines {
                // One that is added once more has its operators already.
                let again = (!tables.is_empty()).then_some(begin);
                let rows = self.add_alone(right, machine, again)?;
                tables.push(self.on(machine, |lowering| lowering.table(join, rows, spec, true)));
            }
            return Ok(tables);
        }
        let schema = self.schema(&right.columns);
        let rows = self.add(right)?;
        // What crosses is united once on each machine, however many read it.
        let mut united = Streams::new();
        for (machine, mine) in self.by_machine(&rows) {
            if machines.len() > 1 || machine != machines[0] {
                united.push(self.on(machine, |lowering| lowering.united(mine, &schema)));
            } else {
                united.extend(mine);
            }
        }
        for &machine in machines {
            tables.push(self.on(machine, |lowering| lowering.table(join, united.clone(), spec, true)));
        }
        Ok(tables)
    }

    /// Whether each of these machines makes the rows of a plan by itself: because it takes less time than to have all
    /// make some of them, and to send them to all. Each has to make the same rows.
    fn makes_by_itself(&self, relation: &Relation, machines: &[usize]) -> bool {
        let all = &self.options.machines;
        if machines.len() < 2 || !relation.has_one_answer() {
            return false;
        }
        let least = machines.iter().map(|&machine| self.threads(machine)).min().unwrap_or(1);
        let cost = ROW_NS * relation.all_rows();
        let sent = relation.rows * row_bytes(&self.schema(&relation.columns)) * (machines.len() - 1) as f64;
        cost / least as f64 <= cost / all.all_threads() as f64 + all.transfer_ns(sent) + all.latency_ns as f64
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
        let machines: Vec<usize> = self.by_machine(&probes).into_iter().map(|(machine, _)| machine).collect();
        let few = std::mem::replace(&mut self.few, false);
        let tables = self.tables(join, &spec, &machines)?;
        self.few = few;
        self.stop.step(BOX_STEPS * probes.len())?;
        let probe = |stream: OutputId| {
            let machine = self.machine_of(stream);
            let table = tables[machines.iter().position(|other| *other == machine).expect("it has a table")];
            let probe = self.over(&[stream], prober("join", &spec, &left_schema, schema));
            // A table of a part waits for the one before it.
            self.net.connect(table, probe.input(1)).bound(Bound { envelopes: 1, ..Bound::default() });
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
        let iterate = self.here(&streams, library::iterate(&iterating));
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
                let rows = self.add(&join.right)?;
                let table = self.table(join, rows, &spec, false);
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
        rows: Grouped,
        schema: &Schema,
    ) -> Result<Streams, SqlError> {
        let make = |stage: Stage, from: &Schema, to: &Schema| {
            let spec = Arc::clone(spec);
            let rows = from.clone();
            let model = BoxModel::new("aggregate", move || Aggregate::new(&spec, stage, &rows));
            model.input(from).output(to).takes_all_of(0)
        };
        if streams.len() == 1 {
            return Ok(vec![self.over(&streams, make(Stage::Whole, below, schema)).output(0)]);
        }
        if !spec.can_be_parted() {
            let input = self.united(streams, below);
            return Ok(vec![self.here(&[input], make(Stage::Whole, below, schema)).output(0)]);
        }
        let parts = Self::schema_of(&spec.part_kinds());
        let degree = streams.len();
        let streams = self.each(streams, || make(Stage::Parts, below, &parts))?;
        if self.has_machines() {
            let each = rows.groups.min(rows.below / degree as f64);
            self.sent.extend(streams.iter().map(|stream| (*stream, each)));
        }
        if spec.keys.is_empty() || rows.groups < FEW_GROUPS {
            let input = self.united(streams, &parts);
            return Ok(vec![self.here(&[input], make(Stage::Results, &parts, schema)).output(0)]);
        }
        // Each part of another machine is a crossing.
        let most = if self.has_machines() { MOST_DEALT } else { usize::MAX };
        let machines: Vec<usize> = self
            .by_machine(&streams)
            .into_iter()
            .flat_map(|(machine, mine)| std::iter::repeat_n(machine, mine.len().min(most)))
            .collect();
        let dealt = machines.len();
        self.stop.step(BOX_STEPS * degree * dealt)?;
        let keys: Vec<usize> = (0..spec.keys.len()).collect();
        let by = HashKey::of_seed(self.options.hash_seed);
        let deals: Vec<BoxId> = streams
            .into_iter()
            .map(|stream| self.over(&[stream], library::partition(&parts, &keys, dealt, by)))
            .collect();
        let results = machines.into_iter().enumerate().map(|(part, machine)| {
            let dealt = deals.iter().map(|deal| deal.output(part)).collect();
            self.on(machine, |lowering| {
                let input = lowering.united(dealt, &parts);
                lowering.here(&[input], make(Stage::Results, &parts, schema)).output(0)
            })
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
        if let Some(at) = self.at {
            self.nodes[at].degree = sorted.len();
        }
        if self.has_machines() {
            let all = relation.rows / sorted.len() as f64;
            self.sent.extend(sorted.iter().map(|stream| (*stream, all)));
        }
        let merge = |lowering: &mut Self, streams: Streams| {
            let merge = library::merge(schema, streams.len(), limit, library::order_by(by.iter().copied()));
            lowering.here(&streams, merge).output(0)
        };
        let sorted = self.gathered(sorted, merge);
        Ok(vec![merge(self, sorted)])
    }
}

/// The expected rows of a grouping.
#[derive(Clone, Copy)]
struct Grouped {
    below: f64,
    groups: f64,
}

/// The scans of a table.
struct ScanBoxes<'a> {
    table: &'a Arc<dyn Table>,
    name: Arc<str>,
    picked: Arc<[usize]>,
    ranges: Arc<[ColumnRange]>,
    schema: &'a Schema,
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
