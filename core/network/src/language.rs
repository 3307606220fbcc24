//! Networks as a language of questions: a text with one `collect` is answered by its rows.

use crate::build::{MachineCounts, Network};
use crate::error::{NetworkError, Spot};
use crate::spec::Kinds;
use crate::text::NetworkText;
use std::sync::Arc;
use vicus_flow::{BoxId, Model, Schema, TimeUnit, Type};
use vicus_language::{
    Answer, Compiler, Costs, PlanNode, PlanOptions, Planned, RunOperators, Runnable, Stop, TextError, TextErrorKind,
    TextLimits, ValueColumns, ValueType, Watch,
};

/// The language of [`NetworkText`]s. Its catalogue are kinds of boxes.
///
/// ```
/// use vicus_language::{Answer, Compiler, PlanOptions, Planned, TextLimits};
/// use vicus_network::{Kinds, Networks};
///
/// let networks = Networks { kinds: &Kinds::library(), nodes: 1 };
/// let text = "box n = numbers(to: 10); box even = filter(where: \"n % 2 = 0\") * threads; box rows = collect;
///             n -> even -> rows;";
/// let parsed = networks.parse(text, &TextLimits::default())?;
/// let plan = networks.plan(&parsed, &PlanOptions { threads: 2, ..PlanOptions::default() }, &|| false)?;
/// assert_eq!(plan.answer(), &Answer::Rows { columns: vec!["n".to_owned()] });
/// # Ok::<(), vicus_language::TextError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Networks<'k> {
    /// The kinds that texts can name.
    pub kinds: &'k Kinds,
    /// How many nodes the machine has: `nodes` in a text. `threads` are those of the plan's options.
    pub nodes: usize,
}

/// A network that answers with rows.
pub struct NetworkPlan {
    network: Network,
    answer: Answer,
    sinks: [BoxId; 1],
    values: ValueColumns,
    bytes: u64,
}

/// The bytes of a parsed text for each of its own: a name of some letters is a box with a place and parameters.
const PARSED: u64 = 64;
/// The bytes of a box with its vias, about, before and after it is in the model.
const BOX_BYTES: usize = 4096;
/// Steps of planning for a box: some microseconds. Kinds with expressions read these anew for each copy.
const BOX_STEPS: usize = 100;

impl Compiler for Networks<'_> {
    type Parsed = NetworkText;
    type Plan = NetworkPlan;
    type Error = TextError;

    fn name(&self) -> &'static str {
        "network"
    }

    fn parsing_bytes(&self, text: &str) -> u64 {
        PARSED * text.len() as u64
    }

    fn parse(&self, text: &str, limits: &TextLimits) -> Result<NetworkText, TextError> {
        limits.check(text)?;
        Ok(text.parse::<NetworkText>()?)
    }

    fn plan(&self, parsed: &NetworkText, options: &PlanOptions, watch: &dyn Watch) -> Result<NetworkPlan, TextError> {
        let stop = Stop::within(watch, Costs { steps: options.plan_steps, bytes: options.plan_bytes });
        let machine = MachineCounts { threads: options.threads, nodes: self.nodes };
        let step = || {
            stop.count_bytes(BOX_BYTES);
            stop.step(BOX_STEPS).is_ok()
        };
        let built = parsed.build_while("network", self.kinds, &machine, &[], &step);
        stop.check()?;
        let network = built?;
        let [collected] = network.collected.as_slice() else {
            let message = match network.collected.len() {
                0 => "an answer is the rows of a `collect`: `box rows = collect;`, and a via to it",
                _ => "an answer is the rows of one `collect`, and here are several",
            };
            return Err(NetworkError::at("", Spot::default(), message).into());
        };
        let values = values(&collected.schema);
        let columns = collected.schema.columns().iter().map(|field| field.name.clone()).collect();
        let sinks = [collected.sink];
        Ok(NetworkPlan { network, answer: Answer::Rows { columns }, sinks, values, bytes: stop.spent().bytes })
    }
}

/// The values of the columns, as answers have them.
fn values(schema: &Schema) -> ValueColumns {
    let value = |field: &vicus_flow::Field| match &field.kind {
        Type::Bool => ValueType::Boolean,
        Type::I64 => ValueType::Integer,
        Type::F64 => ValueType::Double,
        Type::Text => ValueType::Text,
        Type::Date => ValueType::Date,
        Type::Timestamp(TimeUnit::Micro, None) => ValueType::Timestamp,
        other => ValueType::Other(Arc::new(other.clone())),
    };
    ValueColumns(schema.columns().iter().map(value).collect())
}

impl From<NetworkError> for TextError {
    fn from(error: NetworkError) -> TextError {
        TextError::new(TextErrorKind::Wrong, error.place, error.message.clone()).with_own(error)
    }
}

impl Planned for NetworkPlan {
    fn answer(&self) -> &Answer {
        &self.answer
    }

    fn model(&self) -> &Arc<Model> {
        &self.network.model
    }

    fn sinks(&self) -> &[BoxId] {
        &self.sinks
    }

    /// Each box is below the first that reads its rows.
    fn nodes(&self) -> Vec<PlanNode> {
        let model = &self.network.model;
        let boxes = model.boxes();
        let mut readers: Vec<Option<usize>> = vec![None; boxes.len()];
        let mut senders: Vec<Vec<usize>> = vec![Vec::new(); boxes.len()];
        for (from, _, to) in self.network.links() {
            if readers[from].is_none() {
                readers[from] = Some(to);
                senders[to].push(from);
            }
        }
        let mut nodes: Vec<PlanNode> = Vec::with_capacity(boxes.len());
        // The answer's box is the root; other ends of rows are shown below it.
        let root = self.sinks[0].index();
        let ends = self.network.own().rev().filter(|&index| readers[index].is_none() && index != root);
        let mut open: Vec<(usize, Option<usize>)> = ends.map(|end| (end, Some(0))).collect();
        open.push((root, None));
        while let Some((index, parent)) = open.pop() {
            let at = nodes.len();
            let id = model.box_id(index);
            // The rows of an end are those that it reads.
            let outputs: Vec<_> = match readers[index] {
                Some(_) => (0..boxes[index].outputs().count()).map(|output| id.output(output)).collect(),
                None => boxes[index].sources().map(|(from, output)| from.output(output)).collect(),
            };
            let read = boxes[outputs[0].sender().index()].outputs().nth(outputs[0].index());
            let columns = read.map(|(schema, _)| schema.columns()).unwrap_or_default();
            nodes.push(PlanNode {
                parent,
                name: self.network.names[index].clone(),
                detail: boxes[index].name().to_owned(),
                columns: columns.iter().map(|field| field.name.clone()).collect(),
                rows: 0.0,
                degree: 1,
                boxes: vec![id],
                outputs,
                step: None,
            });
            open.extend(senders[index].iter().rev().map(|&sender| (sender, Some(at))));
        }
        nodes
    }

    fn is_short(&self) -> bool {
        false
    }

    fn may_differ(&self) -> bool {
        true
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A file that it reads may have other columns the next time.
    fn can_be_kept(&self) -> bool {
        false
    }
}

impl Runnable for NetworkPlan {
    type Needs = ();
    type Run = ValueColumns;

    fn begin(&self, _: ()) -> (RunOperators, ValueColumns) {
        (Vec::new(), self.values.clone())
    }
}
