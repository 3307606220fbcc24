//! From a physical plan to a flow model: a box for each operator, or several boxes that share an operator's work.
//!
//! If a pipeline is expected to make many rows, a splitter hands out the rows of its scan in ranges, and each operator
//! above has a replica for each stream. A hash deals rows to boxes, so related rows meet; sorted streams are merged;
//! groups are folded in each stream, and the parts are put together. A hash table is built once and probed by all
//! replicas, or, if it is large, built in parts. A single stream into a sort or a walk is spread over several boxes.
//! The degree follows the planner's estimate; small pipelines have one box for each operator.
//!
//! Such a model can't deadlock. It has no cycle, and every box takes envelopes from any of its inputs. So the last box
//! in a chain of boxes waiting for room waits for a runnable box. There are two exceptions. A hash join leaves its
//! probe input alone until the table is there; the table is built from a subtree of its own. The merge waits for each
//! of its inputs; these come from boxes that read all of their input before they send, so no box above them waits.

use crate::algebra::{Column, Table};
use crate::boxes::aggregate::{AggregateSpec, Rows};
use crate::boxes::construct::Template;
use crate::boxes::hash_table::{By, HashSpec, Key};
use crate::boxes::join::JoinSpec;
use crate::boxes::union::To;
use crate::boxes::{
    self, Pace, aggregate, construct, describe, distinct, extend, filter, hash_join, join, nodes, scan, service, slice,
    sort, top, union, values, walk,
};
use crate::error::QueryError;
use crate::graphs::Active;
use crate::plan::QueryOptions;
use crate::planner::{Op, Physical, cost};
use crate::terms::Terms;
use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::sync::Arc;
use vicus_flow::{Bound, BoxId, BoxModel, Envelope, Model, ModelBuilder, Operator, OutputId, Schema, library};
use vicus_language::Stop;
use vicus_language::stack::{Deep, LEVEL, deep, of_levels};

/// Makes the term-reading operator of a box, for one run.
#[derive(Clone)]
pub(crate) struct Maker(Arc<Make>);

type Make = dyn Fn(&Arc<Terms>) -> Box<dyn Operator> + Send + Sync;

impl Maker {
    pub(crate) fn make(&self, terms: &Arc<Terms>) -> Box<dyn Operator> {
        (self.0)(terms)
    }
}

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an operator's maker")
    }
}

/// A box before it is part of a model.
struct Draft {
    model: BoxModel,
    /// Present if the box's operator reads terms.
    maker: Option<Maker>,
    /// Whether the box has a share of the spilling boxes' memory.
    spills: bool,
}

impl From<BoxModel> for Draft {
    fn from(model: BoxModel) -> Draft {
        Draft { model, maker: None, spills: false }
    }
}

impl Draft {
    /// A box with a term-reading operator.
    fn new<O: Operator + 'static>(
        terms: &Arc<Terms>,
        name: &'static str,
        make: impl Fn(&Arc<Terms>) -> O + Send + Sync + 'static,
    ) -> Draft {
        // The closure and the operator contain conditions. These may be deep trees, and either may be dropped last, on
        // any thread.
        let make = Arc::new(Deep::new(terms.levels, make));
        let of = move |terms: &Arc<Terms>| {
            let levels = make.levels();
            Deep::new(levels, of_levels(levels, LEVEL, || make(terms)))
        };
        let (terms, maker) = (Arc::clone(terms), of.clone());
        let maker = Maker(Arc::new(move |terms| Box::new(maker(terms))));
        Draft { model: BoxModel::new(name, move || of(&terms)), maker: Some(maker), spills: false }
    }

    /// This box, with an operator that asks [`Terms::spiller`] for its part.
    fn that_spills(self) -> Draft {
        Draft { spills: true, ..self }
    }

    fn input(self, schema: &Schema) -> Draft {
        Draft { model: self.model.input(schema), ..self }
    }

    fn output(self, schema: &Schema) -> Draft {
        Draft { model: self.model.output(schema), ..self }
    }
}

/// A plan as a model, with its parts.
pub(crate) struct Lowered {
    pub(crate) model: Arc<Model>,
    /// The receivers of the solutions.
    pub(crate) sinks: Vec<BoxId>,
    /// The boxes of the plan's operators, in pre-order.
    pub(crate) operators: Vec<OperatorBoxes>,
    /// Makers of the term-reading operators.
    pub(crate) makers: Arc<[(BoxId, Maker)]>,
    /// The number of boxes sharing the spilling boxes' memory.
    pub(crate) spilling: usize,
    /// See [`Plan::is_short`](crate::Plan::is_short).
    pub(crate) is_short: bool,
}

/// The outputs sharing an operator's rows. Usually there is one.
pub(crate) type Streams = SmallVec<[OutputId; 1]>;

/// The boxes of an operator.
#[derive(Default)]
pub(crate) struct OperatorBoxes {
    /// All its boxes in the order of their numbers, including those dealing out or merging its rows.
    pub(crate) boxes: SmallVec<[BoxId; 1]>,
    /// The outputs sharing its rows.
    pub(crate) outputs: Streams,
    /// How many boxes share its work.
    pub(crate) degree: usize,
}

/// Makes the model of a plan.
///
/// # Errors
/// Planning takes more steps or memory than allowed, or was stopped.
pub(crate) fn lower(
    plan: &Physical,
    terms: &Arc<Terms>,
    options: &QueryOptions,
    stop: &Stop<'_>,
) -> Result<Lowered, QueryError> {
    let limit = options.common.envelope_rows.max(1);
    let mut lowering = Lowering {
        net: ModelBuilder::new("query"),
        terms,
        limit,
        options: *options,
        operators: Vec::new(),
        makers: Vec::new(),
        spilling: 0,
        rows: 0.0,
        at: None,
        widest: boxes::schema(widest(plan)),
        ranges: library::range_schema(),
        stop,
    };
    lowering.net.default_bound(Bound { envelopes: options.common.via_envelopes.max(1), ..Bound::default() });
    let width = plan.columns.len();
    let streams = lowering.add(plan, Pipeline::default());
    stop.check()?;
    let count = options.common.sinks.clamp(1, streams.len());
    let sinks = (0..count).map(|place| {
        let mine = streams.iter().skip(place).step_by(count).copied().collect();
        let stream = lowering.united(mine, width);
        let sink = lowering.place(library::sink("solutions", &lowering.schema(width), |_| Ok(())));
        lowering.net.connect(stream, sink.input(0));
        lowering.net.end(sink.output(0));
        sink
    });
    let sinks = sinks.collect();
    let (operators, makers, spilling, rows) = (lowering.operators, lowering.makers, lowering.spilling, lowering.rows);
    let model =
        lowering.net.build().unwrap_or_else(|error| panic!("a plan is a tree from sources to the sink: {error}"));
    let is_short = rows < options.common.parallel_rows as f64 / SHORT && operators.iter().all(|made| made.degree <= 1);
    Ok(Lowered { model, sinks, operators, makers: makers.into(), spilling, is_short })
}

/// A plan is short if its operators make less than 1/4 of the rows needed to share work.
const SHORT: f64 = 4.0;

/// The operators above, up to the next one that reads all of its input before it sends anything.
#[derive(Clone, Copy, Default)]
struct Pipeline {
    /// The expected rows of these operators together.
    rows: f64,
    /// Whether a few rows are enough; then several replicas would be a waste.
    few: bool,
}

impl Pipeline {
    fn and(self, rows: f64) -> Pipeline {
        Pipeline { rows: self.rows + rows, ..self }
    }
}

struct Lowering<'a> {
    net: ModelBuilder,
    terms: &'a Arc<Terms>,
    limit: usize,
    options: QueryOptions,
    operators: Vec<OperatorBoxes>,
    makers: Vec<(BoxId, Maker)>,
    /// How many boxes spill.
    spilling: usize,
    /// The expected rows of all operators.
    rows: f64,
    /// The current operator, by its place in `operators`: new boxes are added to it.
    at: Option<usize>,
    /// A schema as wide as any in the model; others are cut from it, because making names for columns takes time.
    widest: Schema,
    /// The schema of a splitter's ranges.
    ranges: Schema,
    stop: &'a Stop<'a>,
}

/// About how many bytes a box takes until it is part of a model; below, how many steps.
const BOX_BYTES: usize = 2048;
const BOX_STEPS: usize = 64;

/// Schemas of up to this many columns are made once for all plans.
const FEW_COLUMNS: usize = 31;

/// Estimated bytes of a connection; below, its steps if a box has many connections.
const LINK_BYTES: usize = 256;
const LINK_STEPS: usize = 32;

/// The greatest number of columns of any envelope.
fn widest(plan: &Physical) -> usize {
    let widest = |plan: &Physical| {
        let inside = match &plan.op {
            Op::Aggregate { spec, .. } => spec.part_columns().max(spec.keys.len() + spec.folds.len()),
            Op::HashJoin { build, hash, .. } => hash.built_columns(build.columns.len()),
            _ => 0,
        };
        inside.max(plan.columns.len())
    };
    plan.all().map(widest).max().unwrap_or(0)
}

impl Lowering<'_> {
    /// How many replicas a pipeline should have.
    fn degree(&self, pipeline: Pipeline) -> usize {
        let enough = self.options.common.parallel_rows as f64;
        if pipeline.few || self.options.common.threads < 2 || pipeline.rows < enough {
            return 1;
        }
        // The conversion to an integer saturates.
        ((pipeline.rows * 2.0 / enough.max(1.0)).ceil() as usize).clamp(2, self.options.common.threads)
    }

    /// The schema of envelopes with `columns` columns of ids.
    fn schema(&self, columns: usize) -> Schema {
        if columns <= FEW_COLUMNS { boxes::schema(columns) } else { self.widest.prefix(columns) }
    }

    /// Adds the boxes of a plan; returns the outputs sharing its rows.
    fn add(&mut self, plan: &Physical, above: Pipeline) -> Streams {
        let at = self.operators.len();
        self.operators.push(OperatorBoxes::default());
        self.rows += plan.estimate.rows;
        let outer = self.at.replace(at);
        let outputs = if self.stop.count_steps(plan.columns.len()) || self.stop.poll() {
            let columns = plan.columns.iter().map(|_| Column::new(Vec::new())).collect();
            self.values(&Arc::new(Table { columns, rows: 0 }))
        } else {
            deep(|| self.operator(plan, above))
        };
        self.at = outer;
        let made = &mut self.operators[at];
        made.degree = made.degree.max(outputs.len());
        made.outputs.clone_from(&outputs);
        outputs
    }

    /// Adds a box of the current operator.
    fn place(&mut self, draft: impl Into<Draft>) -> BoxId {
        let draft = draft.into();
        self.spilling += usize::from(draft.spills);
        let added = self.net.add(draft.model);
        self.makers.extend(draft.maker.map(|maker| (added, maker)));
        self.note(added)
    }

    /// Like `place`, for a box without inputs.
    fn source(&mut self, model: BoxModel) -> BoxId {
        let added = self.net.source(model);
        self.note(added)
    }

    fn note(&mut self, added: BoxId) -> BoxId {
        self.stop.count_steps(BOX_STEPS);
        self.stop.count_bytes(BOX_BYTES);
        if let Some(at) = self.at {
            self.operators[at].boxes.push(added);
        }
        added
    }

    /// Sets the degree of the current operator, if it differs from the number of its outputs.
    fn set_degree(&mut self, degree: usize) {
        self.operators[self.at.expect("an operator is being added")].degree = degree;
    }

    /// Adds the boxes of one operator and, by recursion, of those below.
    fn operator(&mut self, plan: &Physical, above: Pipeline) -> Streams {
        let (terms, limit) = (Arc::clone(self.terms), self.limit);
        let pace = Pace { limit, soon: above.few };
        let width = plan.columns.len();
        let here = above.and(plan.estimate.rows);
        match &plan.op {
            Op::Values { table } => self.values(table),
            Op::Nodes { graph } => {
                let graph = graph.slot().is_none().then(|| Active::of(*graph, &terms.merged));
                let model = BoxModel::new("nodes", move || nodes::Nodes::new(&terms.snapshot, graph.clone(), limit));
                smallvec![self.source(model.output(&self.schema(width))).output(0)]
            }
            Op::Walk { input, walk, join: spec, .. } => {
                let streams = self.add(input, here);
                let streams = self.spread(streams, input.columns.len(), here);
                self.replicas(streams, input.columns.len(), width, || {
                    let (walk, spec) = (Arc::clone(walk), Arc::clone(spec));
                    Draft::new(&terms, "walk", move |terms| walk::Walk::new(terms, &spec, &walk, pace))
                })
            }
            Op::Service { input, service, join: spec } => {
                let input_width = input.columns.len();
                let input = self.single(input, Pipeline::default());
                let (service, spec) = (Arc::clone(service), Arc::clone(spec));
                let draft =
                    Draft::new(&terms, "service", move |terms| service::Service::new(terms, &spec, &service, pace));
                self.over(&[input], &[input_width], width, draft)
            }
            Op::Scan { spec, .. } => self.scan(spec, width, here),
            Op::IndexJoin { input, index, join: spec, .. } => self.each(input, here, width, || {
                let (index, spec) = (Arc::clone(index), Arc::clone(spec));
                Draft::new(&terms, "index join", move |terms| join::IndexJoin::new(terms, &spec, &index, pace))
            }),
            Op::Intersection { input, lists, join: spec, .. } => self.each(input, here, width, || {
                let (lists, spec) = (Arc::clone(lists), Arc::clone(spec));
                Draft::new(&terms, "intersection", move |terms| join::IntersectionJoin::new(terms, &spec, &lists, pace))
            }),
            Op::HashJoin { probe, build, hash, join: spec } => {
                let probes = self.add(probe, here);
                let builds = self.add(build, Pipeline::default());
                self.hash_join((probe, probes), (build, builds), (hash, spec), width, pace)
            }
            Op::Filter { input, condition, output } => self.each(input, here, width, || {
                let (condition, output) = (condition.clone(), Arc::clone(output));
                Draft::new(&terms, "filter", move |terms| filter::Filter::new(terms, &condition, &output, pace))
            }),
            Op::Extend { input, makes } => self.each(input, above, width, || {
                let makes = Arc::clone(makes);
                Draft::new(&terms, "extend", move |terms| extend::Extend::new(terms, &makes))
            }),
            Op::Union { inputs, maps } => {
                let mut streams: Vec<Streams> = Vec::with_capacity(inputs.len());
                for input in inputs {
                    streams.push(self.add(input, here));
                    if self.stop.count_steps(LINK_STEPS * streams.last().map_or(0, SmallVec::len)) {
                        break;
                    }
                }
                self.unite(inputs, &streams, maps, width)
            }
            Op::Distinct { input } => {
                let streams = self.add(input, here);
                self.distinct(streams, width, is_ordered(input), pace)
            }
            Op::Aggregate { input, spec } => {
                // All rows are read, however few groups are enough.
                let streams = self.add(input, Pipeline { few: false, ..here });
                self.aggregate(streams, input.columns.len(), spec, plan.estimate.rows)
            }
            Op::Sort { input, by } => {
                let (terms, by) = (&terms, by);
                let pipeline = Pipeline::default().and(plan.estimate.rows);
                let streams = self.add(input, pipeline);
                let streams = self.spread(streams, width, pipeline);
                let sorted = self.replicas(streams, width, width, || {
                    let by = Arc::clone(by);
                    Draft::new(terms, "sort", move |terms| sort::Sort::new(terms, &by, limit)).that_spills()
                });
                self.set_degree(sorted.len());
                smallvec![self.merge(sorted, by, width)]
            }
            Op::Top { input, by, count } => {
                let (terms, by, count) = (&terms, by, *count);
                let best = self.each(input, Pipeline::default().and(input.estimate.rows), width, || {
                    let by = Arc::clone(by);
                    Draft::new(terms, "top", move |terms| top::Top::new(terms, &by, count, limit)).that_spills()
                });
                self.set_degree(best.len());
                if best.len() == 1 {
                    return best;
                }
                let merged = self.merge(best, by, width);
                let model = BoxModel::new("slice", move || slice::Slice::new(0, Some(count)));
                self.over(&[merged], &[width], width, model)
            }
            Op::Slice { input, offset, limit, each: Some(each) } => {
                let (offset, limit, each) = (*offset, *limit, *each);
                let input_width = input.columns.len();
                let input = self.single(input, above);
                let model = BoxModel::new("slice", move || slice::SliceEach::new(each, offset, limit));
                self.over(&[input], &[input_width], width, model)
            }
            Op::Slice { input, offset, limit, each: None } => {
                let (offset, limit) = (*offset, *limit);
                let wanted = limit.map_or(f64::INFINITY, |limit| (offset as f64) + (limit as f64));
                let few = wanted < self.options.common.parallel_rows as f64;
                let input_width = input.columns.len();
                let input = self.single(input, Pipeline { few, ..above });
                let model = BoxModel::new("slice", move || slice::Slice::new(offset, limit));
                self.over(&[input], &[input_width], width, model)
            }
            Op::Construct { input, template } => {
                let streams = self.add(input, here);
                self.construct(streams, input, template, pace)
            }
            Op::Describe { input, resources, graph } => {
                let input_width = input.columns.len();
                let input = self.single(input, above);
                let (resources, graph) = (Arc::clone(resources), Active::of(*graph, &terms.merged));
                let draft = Draft::new(&terms, "describe", move |terms| {
                    describe::Describe::new(terms, graph.clone(), &resources, limit)
                });
                self.over(&[input], &[input_width], width, draft)
            }
        }
    }

    fn values(&mut self, table: &Arc<Table>) -> Streams {
        let (table, limit, width) = (Arc::clone(table), self.limit, table.columns.len());
        let model = BoxModel::new("values", move || values::Values::new(&table, limit));
        smallvec![self.source(model.output(&self.schema(width))).output(0)]
    }

    /// Adds a plan and returns one output with all of its rows, in any order if there are several streams.
    fn single(&mut self, plan: &Physical, above: Pipeline) -> OutputId {
        let streams = self.add(plan, above);
        self.united(streams, plan.columns.len())
    }

    fn united(&mut self, streams: Streams, width: usize) -> OutputId {
        if let [stream] = streams[..] {
            return stream;
        }
        let union = self.place(library::union(&self.schema(width), streams.len()));
        for (input, stream) in streams.into_iter().enumerate() {
            self.net.connect(stream, union.input(input));
        }
        union.output(0)
    }

    fn scan(&mut self, spec: &Arc<scan::ScanSpec>, width: usize, pipeline: Pipeline) -> Streams {
        let rows = spec.rows.start as u64..spec.rows.end as u64;
        let limit = self.limit;
        // The rows read by the scan count as well, because it may drop most of them.
        let degree = self
            .degree(pipeline.and(rows.end as f64 - rows.start as f64))
            .min(rows.end.saturating_sub(rows.start) as usize);
        let (terms, spec) = (Arc::clone(self.terms), Arc::clone(spec));
        if degree < 2 {
            let model = BoxModel::new("scan", move || scan::Scan::new(&terms.snapshot, &spec, limit));
            return smallvec![self.source(model.output(&self.schema(width))).output(0)];
        }
        // Parts have no more rows than an envelope. So tests with small graphs and small envelopes have several parts,
        // too.
        let pieces = self.terms.snapshot.index(spec.order).pieces(spec.rows.clone());
        let split = self.source(library::split(pieces, degree, self.options.limits.part_rows.clamp(1, limit as u64)));
        self.stop.count_steps(degree * LINK_STEPS);
        let replica = |replica: usize| {
            let (terms, spec) = (Arc::clone(&terms), Arc::clone(&spec));
            let model = BoxModel::new("scan", move || scan::Scan::of_ranges(&terms.snapshot, &spec, limit));
            let scan = self.place(model.input(&self.ranges).output(&self.schema(width)));
            self.net.connect(split.output(replica), scan.input(0)).bound(Bound { envelopes: 1, ..Bound::default() });
            scan.output(0)
        };
        (0..degree).map(replica).collect()
    }

    /// Adds one box for each stream of the input.
    fn each<D: Into<Draft>>(
        &mut self,
        input: &Physical,
        pipeline: Pipeline,
        width: usize,
        model: impl Fn() -> D,
    ) -> Streams {
        let streams = self.add(input, pipeline);
        self.replicas(streams, input.columns.len(), width, model)
    }

    fn replicas<D: Into<Draft>>(
        &mut self,
        streams: Streams,
        from: usize,
        width: usize,
        model: impl Fn() -> D,
    ) -> Streams {
        streams.into_iter().flat_map(|stream| self.over(&[stream], &[from], width, model())).collect()
    }

    /// Spreads a single stream over as many streams as the pipeline should have; each envelope goes to an output with
    /// room.
    fn spread(&mut self, streams: Streams, width: usize, pipeline: Pipeline) -> Streams {
        let degree = self.degree(pipeline);
        let ([stream], true) = (&streams[..], degree > 1) else { return streams };
        let spread = self.place(library::spread(&self.schema(width), degree));
        self.net.connect(*stream, spread.input(0));
        (0..degree).map(|replica| spread.output(replica)).collect()
    }

    /// Adds one box that reads these outputs, with envelopes of these widths.
    fn over(&mut self, inputs: &[OutputId], widths: &[usize], width: usize, model: impl Into<Draft>) -> Streams {
        let model = widths.iter().fold(model.into(), |model, &width| model.input(&self.schema(width)));
        let made = self.place(model.output(&self.schema(width)));
        for (input, sender) in inputs.iter().enumerate() {
            self.net.connect(*sender, made.input(input));
        }
        smallvec![made.output(0)]
    }

    /// Adds as many union boxes as the input with the most streams has.
    fn unite(&mut self, inputs: &[Physical], streams: &[Streams], maps: &Arc<[Vec<To>]>, width: usize) -> Streams {
        let degree = streams.iter().map(SmallVec::len).max().unwrap_or(1);
        let mut made = Streams::new();
        for replica in 0..degree {
            let mine: Vec<(usize, OutputId)> = streams
                .iter()
                .enumerate()
                .flat_map(|(operand, streams)| streams.iter().skip(replica).step_by(degree).map(move |&s| (operand, s)))
                .collect();
            let maps: Arc<[Vec<To>]> = match degree {
                1 => Arc::clone(maps),
                _ => mine.iter().map(|(operand, _)| maps[*operand].clone()).collect(),
            };
            let widths: Vec<usize> = mine.iter().map(|(operand, _)| inputs[*operand].columns.len()).collect();
            let senders: Streams = mine.into_iter().map(|(_, stream)| stream).collect();
            let model = BoxModel::new("union", move || union::Union::new(&maps, width));
            made.extend(self.over(&senders, &widths, width, model));
        }
        made
    }

    /// One table probed by all replicas. If building one table would take longer, both sides are dealt by the hash of
    /// their keys, and each part has a table of its own.
    fn hash_join(
        &mut self,
        (probe, mut probes): (&Physical, Streams),
        (build, builds): (&Physical, Streams),
        (hash, spec): (&Arc<HashSpec>, &Arc<JoinSpec>),
        width: usize,
        pace: Pace,
    ) -> Streams {
        let (from, columns, parts) = (probe.columns.len(), build.columns.len(), probes.len());
        let keys: Vec<&Key> = hash.keys.iter().filter(|key| key.by == By::Id).collect();
        let (alone, share) = (build.estimate.rows * cost::BUILD, 1.0 / parts as f64);
        let dealing = (build.estimate.rows + probe.estimate.rows) * cost::DEAL;
        // Dealing pays only if it saves at least as much time as it costs in work: other boxes need the cores, too.
        let is_dealt = !keys.is_empty() && alone - (alone + dealing) * share > dealing;
        let tables = if is_dealt {
            let probed: Vec<usize> = keys.iter().map(|key| key.probe).collect();
            let built: Vec<usize> = keys.iter().map(|key| key.build).collect();
            let deals = self.dealt(probes, from, &probed, parts);
            let of_part = |part: usize| deals.iter().map(|deal| deal.output(part)).collect();
            probes = (0..parts).map(|part| self.united(of_part(part), from)).collect();
            let deals = self.dealt(builds, columns, &built, parts);
            let of_part = |part: usize| deals.iter().map(|deal| deal.output(part)).collect();
            (0..parts).map(|part| self.hash_table(of_part(part), columns, hash)).collect()
        } else {
            vec![self.hash_table(builds, columns, hash); parts]
        };
        let (buckets, rows) = (self.schema(1), self.schema(hash.built_columns(columns)));
        let replica = |(probed, table): (OutputId, BoxId)| {
            let (hash, spec) = (Arc::clone(hash), Arc::clone(spec));
            let make = move |terms: &Arc<Terms>| hash_join::HashJoin::new(terms, &spec, &hash, columns, pace);
            let model = Draft::new(self.terms, "hash join", make).that_spills().input(&self.schema(from));
            let join = self.place(model.input(&buckets).input(&rows).output(&self.schema(width)));
            self.net.connect(probed, join.input(0));
            self.net.connect(table.output(0), join.input(1));
            self.net.connect(table.output(1), join.input(2));
            join.output(0)
        };
        probes.into_iter().zip(tables).map(replica).collect()
    }

    /// Adds a box to build a table of all these streams' rows.
    fn hash_table(&mut self, builds: Streams, columns: usize, hash: &Arc<HashSpec>) -> BoxId {
        let spec = Arc::clone(hash);
        let make = move |terms: &Arc<Terms>| hash_join::HashBuild::new(terms, &spec, columns);
        let model = Draft::new(self.terms, "hash build", make).that_spills();
        let model = builds.iter().fold(model, |model, _| model.input(&self.schema(columns)));
        let model = model.output(&self.schema(1)).output(&self.schema(hash.built_columns(columns)));
        let table = self.place(model);
        for (input, sender) in builds.into_iter().enumerate() {
            self.net.connect(sender, table.input(input));
        }
        table
    }

    /// Deals the rows of all streams by these columns to `parts` boxes, so equal rows meet. Each of these boxes has an
    /// input for each stream.
    fn deal<D: Into<Draft>>(
        &mut self,
        streams: Streams,
        (from, to): (usize, usize),
        keys: &[usize],
        parts: usize,
        model: impl Fn() -> D,
    ) -> Streams {
        let widths = vec![from; streams.len()];
        if parts < 2 {
            return self.over(&streams, &widths, to, model());
        }
        let deals = self.dealt(streams, from, keys, parts);
        let collect = |part: usize| {
            let senders: Streams = deals.iter().map(|deal| deal.output(part)).collect();
            self.over(&senders, &widths, to, model())[0]
        };
        (0..parts).map(collect).collect()
    }

    /// Adds a box for each stream to deal its rows to `parts` outputs by these columns.
    fn dealt(&mut self, streams: Streams, width: usize, keys: &[usize], parts: usize) -> Vec<BoxId> {
        self.stop.count_steps(streams.len() * parts * BOX_STEPS);
        self.stop.count_bytes(streams.len() * parts * LINK_BYTES);
        let deal = |stream: OutputId| {
            let deal = self.place(library::partition(&self.schema(width), keys, parts, self.terms.key));
            self.net.connect(stream, deal.input(0));
            deal
        };
        streams.into_iter().map(deal).collect()
    }

    /// Deals rows, so equal rows meet in one box; there is one box for each stream.
    fn distinct(&mut self, streams: Streams, width: usize, in_order: bool, pace: Pace) -> Streams {
        let (parts, cache, terms) = (streams.len(), self.options.cache_bytes, self.terms);
        let columns: Vec<usize> = (0..width).collect();
        self.deal(streams, (width, width), &columns, parts, || {
            let new = move |terms: &Arc<Terms>| distinct::Distinct::new(terms, width, in_order, cache, pace);
            let draft = Draft::new(terms, "distinct", new);
            // Without columns, there is one row.
            if width > 0 { draft.that_spills() } else { draft }
        })
    }

    /// Makes triples in each stream. Triples without blank nodes are dealt, so equal ones meet; the others, on outputs
    /// of their own, differ already. Both go to one union for each stream. The union takes from either, so neither can
    /// block the other.
    fn construct(&mut self, streams: Streams, input: &Physical, template: &Arc<Template>, pace: Pace) -> Streams {
        let (terms, limit, from) = (Arc::clone(self.terms), self.limit, input.columns.len());
        let outputs = usize::from(!template.plain.is_empty()) + usize::from(!template.fresh.is_empty());
        let triples = self.schema(3);
        let made: Vec<BoxId> = streams
            .into_iter()
            .map(|stream| {
                let template = Arc::clone(template);
                let draft =
                    Draft::new(&terms, "construct", move |terms| construct::Construct::new(terms, &template, limit));
                let draft = (0..outputs).fold(draft.input(&self.schema(from)), |draft, _| draft.output(&triples));
                let made = self.place(draft);
                self.net.connect(stream, made.input(0));
                made
            })
            .collect();
        if template.plain.is_empty() {
            return made.iter().map(|made| made.output(0)).collect();
        }
        let plain = self.distinct(made.iter().map(|made| made.output(0)).collect(), 3, is_ordered(input), pace);
        if template.fresh.is_empty() {
            return plain;
        }
        plain.into_iter().zip(made).map(|(plain, made)| self.united(smallvec![plain, made.output(1)], 3)).collect()
    }

    /// Folds each stream into parts of groups, and deals the parts, so parts of a group meet. One box puts the parts
    /// together if few groups are expected, else there is one box for each stream.
    fn aggregate(&mut self, mut streams: Streams, mut width: usize, spec: &Arc<AggregateSpec>, groups: f64) -> Streams {
        let (terms, cache, limit) = (Arc::clone(self.terms), self.options.cache_bytes, self.limit);
        let mut keys: Vec<usize> = spec.keys.iter().flatten().copied().collect();
        let mut parts = if keys.is_empty() { 1 } else { streams.len() };
        let mut rows = Rows::Solutions;
        if streams.len() > 1 && spec.has_parts() {
            let columns = spec.part_columns();
            let fold = |stream: OutputId| {
                let spec = Arc::clone(spec);
                let model = Draft::new(&terms, "pre-aggregate", move |terms| {
                    aggregate::PreAggregate::new(terms, &spec, width, cache, limit)
                });
                self.over(&[stream], &[width], columns, model)[0]
            };
            streams = streams.into_iter().map(fold).collect();
            (width, rows) = (columns, Rows::Parts);
            keys = (0..spec.keys.len()).collect();
            if groups < self.options.common.parallel_rows as f64 / 8.0 {
                parts = 1;
            }
        }
        let made = spec.keys.len() + spec.folds.len();
        self.deal(streams, (width, made), &keys, parts, || {
            let spec = Arc::clone(spec);
            Draft::new(&terms, "aggregate", move |terms| {
                aggregate::Aggregate::new(terms, &spec, rows, width, cache, limit)
            })
            .that_spills()
        })
    }

    /// Merges sorted streams into one.
    fn merge(&mut self, streams: Streams, by: &Arc<[sort::By]>, width: usize) -> OutputId {
        if let [stream] = streams[..] {
            return stream;
        }
        let (by, count, limit) = (Arc::clone(by), streams.len(), self.limit);
        let schema = self.schema(width);
        let model = move |terms: &Arc<Terms>| {
            let (terms, by) = (Arc::clone(terms), Arc::clone(&by));
            let compare = move |a: (&Envelope, usize), b: (&Envelope, usize)| sort::compare(&terms, &by, a, b);
            library::merge(&schema, count, limit, compare)
        };
        let draft = Draft::from(model(self.terms));
        let draft = Draft { maker: Some(Maker(Arc::new(move |terms| model(terms).operator()))), ..draft };
        let merge = self.place(draft);
        for (input, stream) in streams.into_iter().enumerate() {
            self.net.connect(stream, merge.input(input));
        }
        merge.output(0)
    }
}

/// Whether a plan's rows come in the order of a sort.
fn is_ordered(plan: &Physical) -> bool {
    match &plan.op {
        Op::Sort { .. } | Op::Top { .. } => true,
        Op::Extend { input, .. } | Op::Filter { input, .. } | Op::Slice { input, .. } | Op::Distinct { input } => {
            is_ordered(input)
        }
        _ => false,
    }
}
