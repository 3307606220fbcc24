//! A plan as a tree of operators, apart from any language.

use std::fmt::Write as _;
use vicus_flow::{BoxCounts, BoxId, GrownBox, OutputId};

/// An operator of a plan. A plan is a list of them in pre-order: behind each operator come its inputs, with everything
/// beneath them.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanNode {
    /// The place in the list of its rows' reader; none for the first.
    pub parent: Option<usize>,
    /// The kind of operator: `index join`, `sort`.
    pub name: String,
    /// Its operands: `Gpso ?article <http://swrc.ontoware.org/ontology#pages> ?value`.
    pub detail: String,
    /// The columns of its rows.
    pub columns: Vec<String>,
    /// How many rows it is expected to make.
    pub rows: f64,
    /// How many boxes share its work.
    pub degree: usize,
    /// Its boxes, in the order of their numbers, with the boxes that deal out or merge its rows.
    pub boxes: Vec<BoxId>,
    /// The outputs that share its rows.
    pub outputs: Vec<OutputId>,
    /// Its box in the step of a recursion, which is made anew for each round: it makes the rows then.
    pub step: Option<StepBox>,
}

/// A box of a fragment, as a run counts all those made of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepBox {
    /// The fragment's name.
    pub fragment: String,
    /// The box's name in it.
    pub name: String,
}

/// The counts of a run: those of the model's boxes, and those of boxes in fragments that took part.
#[derive(Clone, Copy, Debug)]
pub struct RunCounts<'a> {
    /// In the order of the model's boxes.
    pub boxes: &'a [BoxCounts],
    /// By fragment and name.
    pub grown: &'a [GrownBox],
}

/// Counts of a model without fragments.
impl<'a> From<&'a Vec<BoxCounts>> for RunCounts<'a> {
    fn from(boxes: &'a Vec<BoxCounts>) -> RunCounts<'a> {
        RunCounts { boxes, grown: &[] }
    }
}

/// An operator's work, by the counts of its boxes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// The rows it has made.
    pub rows: u64,
    /// Whether it has made all of them. If not when the request is over, it was stopped early.
    pub is_whole: bool,
    /// The bytes its boxes took or read on their own nodes.
    pub near_bytes: u64,
    /// The bytes from other nodes.
    pub far_bytes: u64,
    /// The bytes they wrote to temporary files.
    pub spilled_bytes: u64,
    /// Nanoseconds in their code, if the request is timed.
    pub busy_ns: u64,
}

impl PlanNode {
    /// Its work. Panics if the counts are of another model.
    pub fn done<'a>(&self, counts: impl Into<RunCounts<'a>>) -> Done {
        let RunCounts { boxes, grown } = counts.into();
        let is_step = |grown: &&GrownBox| {
            self.step.as_ref().is_some_and(|step| step.fragment == grown.expanded && step.name == grown.name)
        };
        let step = grown.iter().find(is_step).map(|grown| &grown.counts);
        let own = self.outputs.iter().map(|from| &boxes[from.sender().index()].outputs[from.index()]);
        let outputs = || own.clone().chain(step.iter().flat_map(|step| &step.outputs));
        let sum = |of: fn(&BoxCounts) -> u64| self.boxes.iter().map(|id| &boxes[id.index()]).chain(step).map(of).sum();
        Done {
            rows: outputs().map(|output| output.rows).sum(),
            is_whole: outputs().all(|output| output.ended),
            near_bytes: sum(BoxCounts::near_bytes),
            far_bytes: sum(BoxCounts::far_bytes),
            spilled_bytes: sum(|counts| counts.spilled_bytes),
            busy_ns: sum(|counts| counts.busy_ns),
        }
    }

    /// A plan as text, a line for each operator, indented by its depth; after a run with the work of each. Panics if
    /// the counts are of another model.
    pub fn write_all(plan: &[PlanNode], counts: Option<RunCounts<'_>>) -> String {
        let (mut text, mut depths) = (String::new(), Vec::with_capacity(plan.len()));
        for node in plan {
            let depth = node.parent.map_or(0, |parent| depths[parent] + 1);
            depths.push(depth);
            let PlanNode { name, detail, columns, rows, degree, boxes, .. } = node;
            let space = if detail.is_empty() { "" } else { " " };
            let done = counts.map_or(String::new(), |counts| node.done(counts).told(*rows));
            let degree = if *degree > 1 { format!(", degree {degree}") } else { String::new() };
            let (indent, columns, boxes) = ("  ".repeat(depth), columns.join(" "), numbers(boxes));
            writeln!(text, "{indent}{name}{space}{detail} [{columns}] ~{rows:.0} rows{done}{degree}, {boxes}")
                .expect("a string takes everything");
        }
        text
    }
}

impl Done {
    /// Rows, with a mark if they are far from the estimate, and bytes.
    fn told(&self, estimate: f64) -> String {
        let Done { rows, near_bytes, far_bytes, .. } = self;
        let mark = if self.is_whole { surprise(estimate, *rows as f64) } else { ", stopped early".into() };
        let spilled = match self.spilled_bytes {
            0 => String::new(),
            spilled => format!(", {spilled} bytes spilled"),
        };
        format!(", {rows} actual{mark}, {near_bytes} bytes near, {far_bytes} far{spilled}")
    }
}

/// A mark if the rows are more than ten times as many or as few as estimated. Less than one row counts as one.
fn surprise(estimate: f64, actual: f64) -> String {
    const FAR_OFF: f64 = 10.0;
    let (thought, found) = (estimate.max(1.0), actual.max(1.0));
    match found / thought {
        times if times > FAR_OFF => format!(" (!! {times:.0} times more)"),
        times if times < 1.0 / FAR_OFF => format!(" (!! {:.0} times fewer)", 1.0 / times),
        _ => String::new(),
    }
}

/// The boxes' numbers, as in `box 3` or `boxes 2, 4-6`.
fn numbers(boxes: &[BoxId]) -> String {
    let runs = boxes.chunk_by(|a, b| a.index() + 1 == b.index()).map(|run| match run {
        [one] => one.index().to_string(),
        _ => format!("{}-{}", run[0].index(), run[run.len() - 1].index()),
    });
    let plural = if boxes.len() == 1 { "box" } else { "boxes" };
    format!("{plural} {}", runs.collect::<Vec<_>>().join(", "))
}
