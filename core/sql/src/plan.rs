//! A statement that is ready to run: a model, and what its columns are.

use crate::bind::bind;
use crate::error::SqlError;
use crate::lower::lower;
use crate::optimise::optimise;
use crate::parse::Parsed;
use crate::relation::Columns;
use crate::stack::of_levels;
use crate::stop::{Stop, Watch};
use crate::table::Catalogue;
use crate::types::SqlType;
use std::fmt;
use std::sync::Arc;
use vicus_flow::{Bound, BoxCounts, BoxError, BoxId, Envelope, Model, Operator, library};
use vicus_language::PlanNode;

/// How a statement is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// The greatest number of rows in an envelope.
    pub envelope_rows: usize,
    /// The greatest number of envelopes that wait in a via.
    pub via_envelopes: usize,
    /// How many seats will run the plan: at most this many boxes share the work of an operator.
    pub threads: usize,
    /// Work is shared if an operator is expected to read at least this many rows.
    pub parallel_rows: usize,
    /// The greatest number of boxes that receive rows. More than one is for callers that accept rows in any order; a statement with
    /// ORDER BY has one.
    pub sinks: usize,
    /// Whether to rewrite the statement and to reorder its joins. Without, it is answered as written: a check on the optimiser.
    pub optimise: bool,
    /// The greatest number of steps of planning, of some ten to hundred nanoseconds each.
    pub plan_steps: u64,
    /// The key of hash functions. Answers don't depend on it, except for the order of rows.
    pub hash_seed: u64,
}

impl Default for PlanOptions {
    /// Envelopes of 2048 rows, one thread, work shared from 65,536 rows on, optimised, at most 20 million steps of planning.
    fn default() -> PlanOptions {
        PlanOptions {
            envelope_rows: 2048,
            via_envelopes: Bound::default().envelopes,
            threads: 1,
            parallel_rows: 1 << 16,
            sinks: 1,
            optimise: true,
            plan_steps: 20_000_000,
            hash_seed: 0,
        }
    }
}

/// A statement that is ready to run over the tables that it was planned for, any number of times, also concurrently.
///
/// ```
/// use std::sync::{Arc, mpsc};
/// use vicus_flow::{Envelope, sequential};
/// use vicus_sql::{MemoryTable, ParseOptions, PlanOptions, SqlType, TableColumn, Tables, parse, plan};
///
/// let mut tables = Tables::default();
/// let columns = [TableColumn::new("name", SqlType::Varchar), TableColumn::new("age", SqlType::BigInt)];
/// let rows = Envelope::new([["Ada", "Grace"].into_iter().collect(), vec![36i64, 85].into()]);
/// tables.add("people", Arc::new(MemoryTable::new(columns, [rows])));
///
/// let parsed = parse("SELECT name FROM people WHERE age > 40", &ParseOptions::default())?;
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
pub struct Plan {
    columns: Vec<(String, SqlType)>,
    model: Arc<Model>,
    sinks: Vec<BoxId>,
    nodes: Vec<PlanNode>,
    is_short: bool,
    bytes: u64,
}

/// Plans a statement over the tables of a catalogue. Takes time in the size of the statement and the number of columns, not of the
/// data.
///
/// # Errors
/// A name that isn't known, types that don't fit, what isn't supported, too many steps; or `watch` ended planning.
pub fn plan(
    parsed: &Parsed,
    catalogue: &dyn Catalogue,
    options: &PlanOptions,
    watch: &dyn Watch,
) -> Result<Plan, SqlError> {
    // Looking for the place of an expression goes down to its leaves.
    of_levels(parsed.levels(), LEVEL_BYTES, || planned(parsed, catalogue, options, watch))
        .map_err(|error| parsed.placed(error))
}

fn planned(
    parsed: &Parsed,
    catalogue: &dyn Catalogue,
    options: &PlanOptions,
    watch: &dyn Watch,
) -> Result<Plan, SqlError> {
    let stop = Stop::new(watch, options.plan_steps);
    stop.ask()?;
    let mut columns = Columns::default();
    let bound = bind(parsed, catalogue, &mut columns, &stop)?;
    let wanted: Vec<_> = bound.outputs.iter().map(|output| output.id).collect();
    let relation = optimise(bound.relation, &wanted, &columns, options.optimise, &stop)?;
    let lowered = lower(&relation, &columns, options, &stop)?;
    stop.ask()?;
    let names = bound.outputs.into_iter().map(|output| (output.name, output.kind)).collect();
    let texts: usize = lowered.nodes.iter().map(|node| node.name.len() + 2 * node.detail.len()).sum();
    let bytes = BOX_BYTES * lowered.model.boxes().len() + NODE_BYTES * lowered.nodes.len() + texts;
    Ok(Plan {
        columns: names,
        model: lowered.model,
        sinks: lowered.sinks,
        nodes: lowered.nodes,
        is_short: lowered.is_short,
        bytes: bytes as u64,
    })
}

/// Bytes of stack for a level of the text's tree.
const LEVEL_BYTES: usize = 4096;

/// About how many bytes a box and an operator take.
const BOX_BYTES: usize = 2048;
const NODE_BYTES: usize = 512;

impl Plan {
    /// The names and types of the answer's columns.
    pub fn columns(&self) -> &[(String, SqlType)] {
        &self.columns
    }

    /// The network that answers the statement.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The boxes that receive rows: one, or more if [`PlanOptions::sinks`] allows. Their own operators drop the rows, so give each
    /// submission operators of [`Plan::sink_operator`].
    pub fn sinks(&self) -> &[BoxId] {
        &self.sinks
    }

    /// The operators for one submission of the model, without those of the sinks. There are none at present: the model's own
    /// operators share nothing.
    pub fn start(&self) -> Vec<(BoxId, Box<dyn Operator>)> {
        Vec::new()
    }

    /// An operator for a sink that passes each envelope to a function.
    pub fn sink_operator(
        &self,
        mut on_rows: impl FnMut(&Envelope) -> Result<(), BoxError> + Send + 'static,
    ) -> Box<dyn Operator> {
        Box::new(library::sink_operator(move |envelope| on_rows(&envelope)))
    }

    /// Whether the plan is expected to make few rows, and has one box for each operator. A caller then runs it faster on its own
    /// thread than on several threads that wake each other. Estimates may be wrong.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// About how many bytes the plan takes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The operators, each before those that it reads.
    pub fn nodes(&self) -> &[PlanNode] {
        &self.nodes
    }

    /// The operators as text, an operator a line, each above those that it reads.
    pub fn explain(&self) -> String {
        PlanNode::write_all(&self.nodes, None)
    }

    /// As [`Plan::explain`], with the rows that each operator has made, by the counts of a run's boxes.
    pub fn explain_with(&self, counts: &[BoxCounts]) -> String {
        PlanNode::write_all(&self.nodes, Some(counts))
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("columns", &self.columns).field("nodes", &self.nodes).finish_non_exhaustive()
    }
}
