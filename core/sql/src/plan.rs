//! A statement ready to run: a model, and its columns.

use crate::bind::bind;
use crate::error::SqlError;
use crate::lower::lower;
use crate::optimise::optimise;
use crate::parse::{LARGER, ParsedStatement};
use crate::relation::Columns;
use crate::table::Catalogue;
use crate::types::SqlType;
use std::fmt;
use std::sync::Arc;
use vicus_flow::{BoxError, BoxId, Envelope, Model, Operator, library};
use vicus_language::stack::of_levels;
use vicus_language::{
    Answer, Costs, PlanNode, PlanOptions, Planned, RunCounts, RunOperators, Runnable, Stop, ValueColumns, ValueType,
    Watch,
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
    let lowered = lower(&relation, &columns, options, &stop)?;
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
        calls_functions: made_bytes.is_some(),
        // The count includes the texts of VALUES.
        bytes: made_bytes.unwrap_or(0).saturating_add(bytes as u64).max(stop.spent().bytes),
    })
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
        !self.calls_functions
    }
}

impl Runnable for SqlPlan {
    type Needs = ();
    type Run = ValueColumns;

    fn begin(&self, (): ()) -> (RunOperators, ValueColumns) {
        let types = self.columns.iter().map(|(_, kind)| ValueType::from(kind));
        (self.start(), ValueColumns(types.collect()))
    }
}

impl fmt::Debug for SqlPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlPlan").field("columns", &self.columns).field("nodes", &self.nodes).finish_non_exhaustive()
    }
}
