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
//!
//! A model over several machines is made in the same way: each box has a machine. A large scan is cut into a range for
//! each machine, replicas stay with their streams, and rows that are dealt, merged or shown cross. A small table is
//! built on each machine that probes it, from rows that this machine reads by itself. A crossing is a bounded via, so
//! nothing above changes. A computed term has another id on each machine: it is named by its key when it crosses
//! (`crossing.rs`), and rows are dealt by it only where it is: on the machine that was asked.

use crate::algebra::{Column, Table};
use crate::boxes::{self, Pace};
use crate::error::QueryError;
use crate::operators::Physical;
use crate::operators::values::lower_table;
use crate::plan::QueryOptions;
use crate::terms::Terms;
use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::sync::Arc;
use vicus_flow::{Bound, BoxId, BoxModel, Model, ModelBuilder, Operator, OutputId, Schema, library};
use vicus_language::machines::{Places, crossing_bytes};
use vicus_language::stack::{Deep, LEVEL, deep, of_levels};
use vicus_language::{Machines, Stop};

/// Makes the term-reading operator of a box, for one run.
#[derive(Clone)]
pub(crate) struct Maker(Arc<Make>);

type Make = dyn Fn(&Arc<Terms>) -> Box<dyn Operator> + Send + Sync;

impl Maker {
    pub(crate) fn new(make: impl Fn(&Arc<Terms>) -> Box<dyn Operator> + Send + Sync + 'static) -> Maker {
        Maker(Arc::new(make))
    }

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
pub(crate) struct Draft {
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
    pub(crate) fn new<O: Operator + 'static>(
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
        let maker = Maker::new(move |terms| Box::new(maker(terms)));
        Draft { model: BoxModel::new(name, move || of(&terms)), maker: Some(maker), spills: false }
    }

    /// This box, with operators made for each run.
    pub(crate) fn made_by(self, maker: Maker) -> Draft {
        Draft { maker: Some(maker), ..self }
    }

    /// This box, with an operator that asks [`Terms::spiller`] for its part.
    pub(crate) fn that_spills(self) -> Draft {
        Draft { spills: true, ..self }
    }

    pub(crate) fn input(self, schema: &Schema) -> Draft {
        Draft { model: self.model.input(schema), ..self }
    }

    pub(crate) fn output(self, schema: &Schema) -> Draft {
        Draft { model: self.model.output(schema), ..self }
    }

    /// Adds the box to a network, and its maker to others.
    pub(crate) fn add_to(self, net: &mut ModelBuilder, makers: &mut Vec<(BoxId, Maker)>) -> BoxId {
        let added = net.add(self.model);
        makers.extend(self.maker.map(|maker| (added, maker)));
        added
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
    /// See [`SparqlPlan::is_short`](crate::SparqlPlan::is_short).
    pub(crate) is_short: bool,
    /// The machine of each box, if there are several.
    pub(crate) machines: Vec<usize>,
    /// About how many bytes cross the network.
    pub(crate) crossing_bytes: f64,
}

impl Lowered {
    /// Whether another machine than the one that was asked has a box.
    pub(crate) fn is_apart(&self) -> bool {
        self.machines.iter().any(|&machine| machine > 0)
    }
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
    /// The expected rows.
    pub(crate) rows: f64,
}

/// Makes the model of a plan.
///
/// # Errors
/// Planning takes more steps or memory than allowed, or was stopped.
pub(crate) fn lower(
    plan: &Physical,
    terms: &Arc<Terms>,
    options: &QueryOptions,
    machines: &Machines,
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
        machines: *machines,
        places: Places::default(),
        alone: machines.count() < 2,
        again: None,
        widest: boxes::schema(widest(plan)),
        ranges: library::range_schema(),
        stop,
    };
    lowering.net.default_bound(Bound { envelopes: options.common.via_envelopes.max(1), ..Bound::default() });
    let width = plan.columns.len();
    let streams = lowering.add(plan, Pipeline::default());
    stop.check()?;
    let count = options.common.sinks.clamp(1, streams.len());
    let is_apart = lowering.places.are_apart();
    let sinks = (0..count).map(|place| {
        let mine = streams.iter().skip(place).step_by(count).copied().collect();
        let mut stream = lowering.united(mine, width);
        if is_apart {
            // A machine may be lost until the last row: then the query is asked again, and no row comes twice.
            let hold = lowering.place(library::hold(&lowering.schema(width)));
            lowering.net.connect(stream, hold.input(0));
            stream = hold.output(0);
        }
        let sink = lowering.place(library::sink("solutions", &lowering.schema(width), |_| Ok(())));
        lowering.net.connect(stream, sink.input(0));
        lowering.net.end(sink.output(0));
        sink
    });
    let sinks = sinks.collect();
    let Lowering { operators, makers, spilling, rows, places, .. } = lowering;
    let model =
        lowering.net.build().unwrap_or_else(|error| panic!("a plan is a tree from sources to the sink: {error}"));
    let is_short = rows < options.common.parallel_rows as f64 / SHORT && operators.iter().all(|made| made.degree <= 1);
    let machines = places.finish();
    let crossing_bytes = if machines.is_empty() {
        0.0
    } else {
        let expected = operators.iter().flat_map(|made| {
            let each = made.rows / made.outputs.len() as f64;
            made.outputs.iter().map(move |output| (*output, each))
        });
        crossing_bytes(&model, &machines, expected)
    };
    Ok(Lowered { model, sinks, operators, makers: makers.into(), spilling, is_short, machines, crossing_bytes })
}

/// A plan is short if its operators make less than 1/4 of the rows needed to share work.
const SHORT: f64 = 4.0;

/// The operators above, up to the next one that reads all of its input before it sends anything.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pipeline {
    /// The expected rows of these operators together.
    pub(crate) rows: f64,
    /// Whether a few rows are enough; then several replicas would be a waste.
    pub(crate) few: bool,
}

impl Pipeline {
    pub(crate) fn and(self, rows: f64) -> Pipeline {
        Pipeline { rows: self.rows + rows, ..self }
    }
}

/// How rows are dealt to boxes.
#[derive(Clone, Copy)]
pub(crate) struct Deal<'k> {
    /// The columns of the dealt rows, and of those that the boxes make of them.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The columns whose values decide on the box.
    pub(crate) keys: &'k [usize],
    /// The number of boxes.
    pub(crate) parts: usize,
    /// Whether the keys' ids may be those of computed terms, which other machines don't know.
    pub(crate) computed: bool,
}

/// The model of a plan as far as it is made.
pub(crate) struct Lowering<'a> {
    pub(crate) net: ModelBuilder,
    pub(crate) terms: &'a Arc<Terms>,
    /// The greatest number of rows of an envelope.
    pub(crate) limit: usize,
    pub(crate) options: QueryOptions,
    operators: Vec<OperatorBoxes>,
    makers: Vec<(BoxId, Maker)>,
    /// How many boxes spill.
    spilling: usize,
    /// The expected rows of all operators.
    rows: f64,
    /// The current operator, by its place in `operators`: new boxes are added to it.
    at: Option<usize>,
    /// The machines.
    pub(crate) machines: Machines,
    /// The machine of each box. Boxes are added to the present one, unless they follow a stream.
    pub(crate) places: Places,
    /// Scans are not cut while all boxes are to be on one machine.
    alone: bool,
    /// The next operator of a plan that is added once more, for another machine, by its place in `operators`.
    again: Option<usize>,
    /// A schema as wide as any in the model; others are cut from it, because making names for columns takes time.
    widest: Schema,
    /// The schema of a splitter's ranges.
    pub(crate) ranges: Schema,
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
    plan.all().map(|plan| plan.behaviour().inner_width().max(plan.columns.len())).max().unwrap_or(0)
}

impl Lowering<'_> {
    /// How many replicas a pipeline should have.
    pub(crate) fn degree(&self, pipeline: Pipeline) -> usize {
        let enough = self.options.common.parallel_rows as f64;
        let threads = self.threads(self.places.machine());
        if pipeline.few || threads < 2 || pipeline.rows < enough {
            return 1;
        }
        // The conversion to an integer saturates.
        ((pipeline.rows * 2.0 / enough.max(1.0)).ceil() as usize).clamp(2, threads)
    }

    fn threads(&self, machine: usize) -> usize {
        if self.machines.count() < 2 { self.options.common.threads } else { self.machines.threads(machine) }
    }

    /// Whether a pipeline's scan is cut into a range for each machine.
    pub(crate) fn is_cut(&self, pipeline: Pipeline) -> bool {
        let enough = self.options.common.parallel_rows as f64;
        !self.alone && !pipeline.few && (self.machines.always || pipeline.rows >= enough)
    }

    /// Adds boxes to a machine.
    pub(crate) fn on<R>(&mut self, machine: usize, add: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.places.turn_to(machine);
        let added = add(self);
        self.places.turn_to(outer);
        added
    }

    /// Whether a plan's rows may have computed terms, and there are machines that don't know them.
    pub(crate) fn may_compute(&self, plan: &Physical) -> bool {
        self.machines.count() > 1 && plan.computes_terms()
    }

    /// How many operators there are so far: the place of the next one.
    pub(crate) fn next_operator(&self) -> usize {
        self.operators.len()
    }

    /// Adds a plan with all its boxes on one machine. `again`: its place among the operators if it was added before,
    /// to another machine. Each of these makes all of its rows.
    pub(crate) fn add_alone(
        &mut self,
        plan: &Physical,
        above: Pipeline,
        machine: usize,
        again: Option<usize>,
    ) -> Streams {
        debug_assert!(self.again.is_none(), "what is all on one machine is added to no other one");
        let outer = std::mem::replace(&mut self.alone, true);
        self.again = again;
        let streams = self.on(machine, |lowering| lowering.add(plan, above));
        (self.alone, self.again) = (outer, None);
        streams
    }

    /// The schema of envelopes with `columns` columns of ids.
    pub(crate) fn schema(&self, columns: usize) -> Schema {
        if columns <= FEW_COLUMNS { boxes::schema(columns) } else { self.widest.prefix(columns) }
    }

    /// Adds the boxes of a plan; returns the outputs sharing its rows.
    pub(crate) fn add(&mut self, plan: &Physical, above: Pipeline) -> Streams {
        let at = match &mut self.again {
            Some(next) => std::mem::replace(next, *next + 1),
            None => {
                self.operators.push(OperatorBoxes { rows: plan.estimate.rows, ..OperatorBoxes::default() });
                self.operators.len() - 1
            }
        };
        self.rows += plan.estimate.rows;
        let outer = self.at.replace(at);
        let outputs = if self.stop.count_steps(plan.columns.len()) || self.stop.poll() {
            let columns = plan.columns.iter().map(|_| Column::new(Vec::new())).collect();
            lower_table(&Arc::new(Table { columns, rows: 0 }), self)
        } else {
            deep(|| plan.behaviour().lower(plan, above, self))
        };
        self.at = outer;
        let made = &mut self.operators[at];
        made.degree = made.degree.max(outputs.len());
        made.outputs.extend_from_slice(&outputs);
        outputs
    }

    /// Adds a box of the current operator.
    pub(crate) fn place(&mut self, draft: impl Into<Draft>) -> BoxId {
        let draft = draft.into();
        self.spilling += usize::from(draft.spills);
        let added = self.net.add(draft.model);
        self.makers.extend(draft.maker.map(|maker| (added, maker)));
        self.note(added)
    }

    /// Adds a box without inputs and with an output of `width` columns.
    pub(crate) fn source(&mut self, model: BoxModel, width: usize) -> BoxId {
        let added = self.net.source(model.output(&self.schema(width)));
        self.note(added)
    }

    /// Adds a box that hands out ranges to `degree` outputs.
    pub(crate) fn splitter(&mut self, model: BoxModel, degree: usize) -> BoxId {
        let added = self.net.source(model);
        self.count_links(degree);
        self.note(added)
    }

    /// Counts the steps of connecting these outputs. True if planning has to end.
    pub(crate) fn count_links(&self, outputs: usize) -> bool {
        self.stop.count_steps(LINK_STEPS * outputs)
    }

    /// How many rows a box sends at once.
    pub(crate) fn pace(&self, above: Pipeline) -> Pace {
        Pace { limit: self.limit, soon: above.few }
    }

    fn note(&mut self, added: BoxId) -> BoxId {
        self.stop.count_steps(BOX_STEPS);
        self.stop.count_bytes(BOX_BYTES);
        self.places.note(added);
        if let Some(at) = self.at {
            self.operators[at].boxes.push(added);
        }
        added
    }

    /// Sets the degree of the current operator, if it differs from the number of its outputs.
    pub(crate) fn set_degree(&mut self, degree: usize) {
        self.operators[self.at.expect("an operator is being added")].degree = degree;
    }

    /// Adds a plan and returns one output with all of its rows, in any order if there are several streams.
    pub(crate) fn single(&mut self, plan: &Physical, above: Pipeline) -> OutputId {
        let streams = self.add(plan, above);
        self.united(streams, plan.columns.len())
    }

    pub(crate) fn united(&mut self, streams: Streams, width: usize) -> OutputId {
        let streams = self.gathered(streams, width, Self::united);
        if let [stream] = streams[..] {
            return stream;
        }
        let union = self.place(library::union(&self.schema(width), streams.len()));
        for (input, stream) in streams.into_iter().enumerate() {
            self.net.connect(stream, union.input(input));
        }
        union.output(0)
    }

    /// The streams that boxes of this machine can read: of each other machine there is one at most, whose rows `unite`
    /// puts together there, so that they cross as one.
    pub(crate) fn gathered(
        &mut self,
        streams: Streams,
        width: usize,
        mut unite: impl FnMut(&mut Self, Streams, usize) -> OutputId,
    ) -> Streams {
        let machines = self.places.all_of(&streams);
        if machines == [self.places.machine()] {
            return streams;
        }
        let mut gathered = Streams::new();
        for machine in machines {
            let of_machine: Streams =
                streams.iter().copied().filter(|stream| self.places.of(*stream) == machine).collect();
            if machine == self.places.machine() || of_machine.len() < 2 {
                gathered.extend(of_machine);
            } else {
                gathered.push(self.on(machine, |lowering| unite(lowering, of_machine, width)));
            }
        }
        gathered
    }

    /// Adds one box for each stream of the input.
    pub(crate) fn each<D: Into<Draft>>(
        &mut self,
        input: &Physical,
        pipeline: Pipeline,
        width: usize,
        model: impl Fn() -> D,
    ) -> Streams {
        let streams = self.add(input, pipeline);
        self.replicas(streams, input.columns.len(), width, model)
    }

    pub(crate) fn replicas<D: Into<Draft>>(
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
    pub(crate) fn spread(&mut self, streams: Streams, width: usize, pipeline: Pipeline) -> Streams {
        let degree = self.degree(pipeline);
        let ([stream], true) = (&streams[..], degree > 1) else { return streams };
        let machine = self.places.of(*stream);
        let spread = library::spread(&self.schema(width), degree);
        let spread = self.on(machine, |lowering| lowering.place(spread));
        self.net.connect(*stream, spread.input(0));
        (0..degree).map(|replica| spread.output(replica)).collect()
    }

    /// Adds one box that reads these outputs, with envelopes of these widths, on the machine of the first one.
    pub(crate) fn over(
        &mut self,
        inputs: &[OutputId],
        widths: &[usize],
        width: usize,
        model: impl Into<Draft>,
    ) -> Streams {
        let model = widths.iter().fold(model.into(), |model, &width| model.input(&self.schema(width)));
        let machine = inputs.first().map_or(self.places.machine(), |first| self.places.of(*first));
        let model = model.output(&self.schema(width));
        let made = self.on(machine, |lowering| lowering.place(model));
        for (input, sender) in inputs.iter().enumerate() {
            self.net.connect(*sender, made.input(input));
        }
        smallvec![made.output(0)]
    }

    /// Deals the rows of all streams to boxes, so equal rows meet. Each box has an input for each stream.
    pub(crate) fn deal<D: Into<Draft>>(&mut self, streams: Streams, deal: Deal<'_>, model: impl Fn() -> D) -> Streams {
        let Deal { from, to, keys, parts, computed } = deal;
        let home = self.places.machine();
        if parts < 2 {
            let streams = self.gathered(streams, from, Self::united);
            return self.collector(home, &streams, from, to, model());
        }
        let is_apart = self.places.all_of(&streams).len() > 1;
        let mut machines: Vec<usize> = streams.iter().map(|stream| self.places.of(*stream)).collect();
        let deals = if is_apart && computed {
            // A computed term has one id on one machine.
            let streams = self.gathered(streams, from, Self::united);
            machines = vec![home; self.threads(home).min(parts)];
            self.dealt_on(streams.iter().map(|_| home).collect(), streams, from, keys, machines.len())
        } else {
            self.dealt(streams, from, keys, parts)
        };
        let collect = |(part, machine): (usize, usize)| {
            let senders: Streams = deals.iter().map(|deal| deal.output(part)).collect();
            let senders = self.on(machine, |lowering| lowering.gathered(senders, from, Self::united));
            self.collector(machine, &senders, from, to, model())[0]
        };
        machines.into_iter().enumerate().map(collect).collect()
    }

    /// Adds one box to a machine, that reads these outputs.
    fn collector(
        &mut self,
        machine: usize,
        inputs: &[OutputId],
        from: usize,
        to: usize,
        model: impl Into<Draft>,
    ) -> Streams {
        let model = inputs.iter().fold(model.into(), |model, _| model.input(&self.schema(from)));
        let model = model.output(&self.schema(to));
        let made = self.on(machine, |lowering| lowering.place(model));
        for (input, sender) in inputs.iter().enumerate() {
            self.net.connect(*sender, made.input(input));
        }
        smallvec![made.output(0)]
    }

    /// Adds a box for each stream, on its machine, to deal its rows to `parts` outputs by these columns.
    pub(crate) fn dealt(&mut self, streams: Streams, width: usize, keys: &[usize], parts: usize) -> Vec<BoxId> {
        let machines = streams.iter().map(|stream| self.places.of(*stream)).collect();
        self.dealt_on(machines, streams, width, keys, parts)
    }

    fn dealt_on(
        &mut self,
        machines: Vec<usize>,
        streams: Streams,
        width: usize,
        keys: &[usize],
        parts: usize,
    ) -> Vec<BoxId> {
        self.stop.count_steps(streams.len() * parts * BOX_STEPS);
        self.stop.count_bytes(streams.len() * parts * LINK_BYTES);
        let deal = |(stream, machine): (OutputId, usize)| {
            let deal = library::partition(&self.schema(width), keys, parts, self.terms.key);
            let deal = self.on(machine, |lowering| lowering.place(deal));
            self.net.connect(stream, deal.input(0));
            deal
        };
        streams.into_iter().zip(machines).map(deal).collect()
    }
}
