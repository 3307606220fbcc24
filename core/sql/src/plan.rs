//! A statement ready to run: a model, and its columns.

use crate::bind::bind;
use crate::error::SqlError;
use crate::lower::{Lowered, lower};
use crate::optimise::optimise;
use crate::parse::{LARGER, ParsedStatement};
use crate::relation::{Columns, Relation};
use crate::table::Catalogue;
use crate::types::SqlType;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use vicus_flow::library::HashKey;
use vicus_flow::{
    BoxError, BoxId, CrossingEnds, Envelope, InputId, Model, ModelBuilder, ModelCrossing, ModelLinks, ModelPart,
    Operator, OutputId, Schema, library,
};
use vicus_language::stack::of_levels;
use vicus_language::{
    Alone, Answer, Costs, Machines, PartOfPlan, PlanNode, PlanOptions, Planned, RunCounts, RunOperators, Runnable,
    Stop, ValueColumns, ValueType, Watch,
};

/// A statement ready to run over the tables of its planning, any number of times, also concurrently.
///
/// ```
/// use std::sync::{Arc, mpsc};
/// use vicus_flow::{Envelope, sequential};
/// use vicus_sql::{MemoryTable, StatementLimits, PlanOptions, SqlType, TableColumn, Tables, parse, plan};
///
/// let mut tables = Tables::default();
/// let columns = [TableColumn::new("name", SqlType::Varchar), TableColumn::new("age", SqlType::BigInt)];
/// let rows = Envelope::new([["Ada", "Grace"].into_iter().collect(), vec![36i64, 85].into()]);
/// tables.add("people", Arc::new(MemoryTable::new(columns, [rows])));
///
/// let parsed = parse("SELECT name FROM people WHERE age > 40", &StatementLimits::default())?;
/// let plan = plan(&parsed, &tables, &PlanOptions::default(), &|| false)?;
/// assert_eq!(plan.columns(), [("name".to_owned(), SqlType::Varchar)]);
///
/// let (send, receive) = mpsc::channel();
/// let sink = plan.sink_operator(move |envelope| Ok(send.send(envelope.clone())?));
/// let mut operators = plan.start();
/// operators.push((plan.sinks()[0], sink));
/// sequential::run(plan.model(), operators, |_| 0)?;
/// assert_eq!(receive.recv()?.column(0).text_at(0), "Grace");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SqlPlan {
    columns: Vec<(String, SqlType)>,
    answer: Answer,
    model: Arc<Model>,
    sinks: Vec<BoxId>,
    nodes: Vec<PlanNode>,
    is_short: bool,
    /// The machine of each box, if several have some.
    machines: Vec<usize>,
    /// Why one machine has all of it though there are others.
    alone: Option<Alone>,
    /// Whether it has tables made for it by functions.
    calls_functions: bool,
    bytes: u64,
}

/// Plans a statement over the tables of a catalogue. Takes time in the size of the statement and the number of columns,
/// not of the data.
///
/// # Errors
/// An unknown name, conflicting types, an unsupported feature, too many steps; or `watch` ended planning.
pub fn plan(
    parsed: &ParsedStatement,
    catalogue: &dyn Catalogue,
    options: &PlanOptions,
    watch: &dyn Watch,
) -> Result<SqlPlan, SqlError> {
    // Looking for the place of an expression goes down to its leaves.
    of_levels(parsed.levels(), LEVEL_BYTES, || planned(parsed, catalogue, options, watch))
        .map_err(|error| parsed.placed(error))
}

fn planned(
    parsed: &ParsedStatement,
    catalogue: &dyn Catalogue,
    options: &PlanOptions,
    watch: &dyn Watch,
) -> Result<SqlPlan, SqlError> {
    let stop = Stop::within(watch, Costs { steps: options.plan_steps, bytes: options.plan_bytes });
    stop.check()?;
    let mut columns = Columns::default();
    let (bound, made_bytes) = bind(parsed, catalogue, &mut columns, &stop)?;
    let wanted: Vec<_> = bound.outputs.iter().map(|output| output.id).collect();
    let relation = optimise(bound.relation, &wanted, &columns, options.optimise, &stop)?;
    let (shared, alone) = match options.machines.count() {
        1 => (None, None),
        _ => over_machines(&relation, &columns, made_bytes.is_some(), options, watch)?,
    };
    let lowered = match shared {
        Some(lowered) => lowered,
        None => {
            let here = PlanOptions { machines: Machines::default(), ..*options };
            lower(&relation, &columns, &here, &stop)?
        }
    };
    stop.check()?;
    let names: Vec<(String, SqlType)> = bound.outputs.into_iter().map(|output| (output.name, output.kind)).collect();
    let texts: usize = lowered.nodes.iter().map(|node| node.name.len() + 2 * node.detail.len()).sum();
    let bytes = BOX_BYTES * lowered.model.boxes().len() + NODE_BYTES * lowered.nodes.len() + texts;
    Ok(SqlPlan {
        answer: Answer::Rows { columns: names.iter().map(|(name, _)| name.clone()).collect() },
        columns: names,
        model: lowered.model,
        sinks: lowered.sinks,
        nodes: lowered.nodes,
        is_short: lowered.is_short,
        machines: lowered.machines,
        alone,
        calls_functions: made_bytes.is_some(),
        // The count includes the texts of VALUES.
        bytes: made_bytes.unwrap_or(0).saturating_add(bytes as u64).max(stop.spent().bytes),
    })
}

/// A model over several machines, or why there is none.
fn over_machines(
    relation: &Relation,
    columns: &Columns,
    calls_functions: bool,
    options: &PlanOptions,
    watch: &dyn Watch,
) -> Result<(Option<Lowered>, Option<Alone>), SqlError> {
    let own = |name: &str| Alone::Because(format!("other machines don't have the table {name}").into());
    if let Some(name) = relation.own_table() {
        return Ok((None, Some(own(name))));
    }
    if calls_functions {
        return Ok((None, Some(Alone::Because("a function makes tables for it alone".into()))));
    }
    // One machine can plan what takes too many steps for all of them.
    let stop = Stop::within(watch, Costs { steps: options.plan_steps, bytes: options.plan_bytes });
    let lowered = match lower(relation, columns, options, &stop) {
        Ok(lowered) => lowered,
        Err(error) if error.is_too_much() => {
            let why = "planning it for several machines takes more than a plan may";
            return Ok((None, Some(Alone::Because(why.into()))));
        }
        Err(error) => return Err(error),
    };
    if lowered.machines.is_empty() {
        return Ok((None, Some(Alone::Small)));
    }
    match options.machines.outrun(lowered.alone_ns, lowered.shared_ns, lowered.crossing_bytes) {
        Some(alone) => Ok((None, Some(alone))),
        None => Ok((Some(lowered), None)),
    }
}

/// Bytes of stack for a level of the text's tree.
pub(crate) const LEVEL_BYTES: usize = LARGER * 4096;

/// About how many bytes a box and an operator take.
pub(crate) const BOX_BYTES: usize = 2048;
const NODE_BYTES: usize = 512;

impl SqlPlan {
    /// The names and types of the answer's columns.
    pub fn columns(&self) -> &[(String, SqlType)] {
        &self.columns
    }

    /// The network for the statement.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The receivers of rows: one, or more if [`PlanOptions::sinks`] allows. Their own operators drop the rows, so give
    /// each submission operators of [`SqlPlan::sink_operator`].
    pub fn sinks(&self) -> &[BoxId] {
        &self.sinks
    }

    /// The operators for one submission of the model, without those of the sinks. There are none at present: the
    /// model's own operators share nothing.
    pub fn start(&self) -> Vec<(BoxId, Box<dyn Operator>)> {
        Vec::new()
    }

    /// An operator for a sink, to pass each envelope to a function.
    pub fn sink_operator(
        &self,
        mut on_rows: impl FnMut(&Envelope) -> Result<(), BoxError> + Send + 'static,
    ) -> Box<dyn Operator> {
        Box::new(library::sink_operator(move |envelope| on_rows(&envelope)))
    }

    /// Whether the plan is expected to make few rows, and has one box for each operator. A caller then runs it faster
    /// on its own thread than on several threads with wakes between them. Estimates may be wrong.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// The approximate bytes of the plan, with tables made for it by [functions](Catalogue::function).
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The operators, each before its inputs.
    pub fn nodes(&self) -> &[PlanNode] {
        &self.nodes
    }

    /// Begins a run of the part of one machine. Other machines' rows come and go over `links`. `None` if the machine
    /// has no part.
    pub fn start_part(&self, machine: usize, links: &dyn ModelLinks) -> Option<PartOfPlan> {
        let mut ends = Ends { links, sends: Vec::new() };
        let ModelPart { model, boxes } = self.model.part(&self.machines, machine, &mut ends)?;
        let sinks = self.sinks.iter().filter_map(|sink| boxes[sink.index()]).collect();
        Some(PartOfPlan { model, sinks, operators: self.start(), boxes, sends: ends.sends })
    }

    /// The operators as text, one a line, each above its inputs.
    pub fn explain(&self) -> String {
        PlanNode::write_all(&self.nodes, None)
    }

    /// Like [`SqlPlan::explain`], with the rows made by each operator, according to the counts of a run's boxes.
    pub fn explain_with<'a>(&self, counts: impl Into<RunCounts<'a>>) -> String {
        PlanNode::write_all(&self.nodes, Some(counts.into()))
    }
}

impl Planned for SqlPlan {
    fn answer(&self) -> &Answer {
        &self.answer
    }

    fn model(&self) -> &Arc<Model> {
        self.model()
    }

    fn sinks(&self) -> &[BoxId] {
        self.sinks()
    }

    fn nodes(&self) -> Vec<PlanNode> {
        self.nodes.clone()
    }

    fn is_short(&self) -> bool {
        self.is_short()
    }

    /// Never: a LIMIT leaves the choice of rows open, not their number.
    fn may_differ(&self) -> bool {
        false
    }

    fn bytes(&self) -> u64 {
        self.bytes()
    }

    fn can_be_kept(&self) -> bool {
        // Machines come and go.
        !self.calls_functions && self.machines.is_empty()
    }

    fn places(&self) -> &[usize] {
        &self.machines
    }

    fn alone(&self) -> Option<String> {
        self.alone.as_ref().map(Alone::to_string)
    }

    fn digest(&self) -> u64 {
        let mut hash = HashKey::of_seed(0).build_hasher();
        hash.write(self.explain().as_bytes());
        hash.write(self.model.describe().as_bytes());
        hash.write(format!("{:?}", self.columns).as_bytes());
        self.machines.iter().for_each(|machine| hash.write_usize(*machine));
        hash.finish()
    }
}

impl Runnable for SqlPlan {
    type Needs = ();
    type Run = ValueColumns;

    fn begin(&self, (): ()) -> (RunOperators, ValueColumns) {
        let types = self.columns.iter().map(|(_, kind)| ValueType::from(kind));
        (self.start(), ValueColumns(types.collect()))
    }

    fn begin_part(&self, machine: usize, links: &dyn ModelLinks, (): ()) -> Option<(PartOfPlan, ValueColumns)> {
        Some((self.start_part(machine, links)?, self.begin(()).1))
    }
}

/// The boxes at the ends of a part's crossings.
struct Ends<'a> {
    links: &'a dyn ModelLinks,
    sends: Vec<(ModelCrossing, BoxId)>,
}

impl CrossingEnds for Ends<'_> {
    fn send(&mut self, net: &mut ModelBuilder, crossing: &ModelCrossing, schema: &Schema) -> InputId {
        let sends = net.add(self.links.send(crossing, schema));
        net.end(sends.output(0));
        self.sends.push((crossing.clone(), sends));
        sends.input(0)
    }

    fn receive(&mut self, net: &mut ModelBuilder, crossing: &ModelCrossing, schema: &Schema) -> OutputId {
        net.source(self.links.receive(crossing, schema)).output(0)
    }
}

impl fmt::Debug for SqlPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlPlan").field("columns", &self.columns).field("nodes", &self.nodes).finish_non_exhaustive()
    }
}
