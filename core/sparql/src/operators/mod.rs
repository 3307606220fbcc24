//! The physical operators, a folder each: the fields of the operator, its boxes, its title in an explanation.
//!
//! A plan is a tree of [`Physical`]s. Each has its operator, one variant of [`Op`]. The planner estimates and chooses
//! operators; all else about an operator is its [`PhysicalOperator`], which lowering, explaining, and the passes over
//! finished plans ask. To add an operator: write its folder, and add its line to the list below.

pub(crate) mod aggregate;
pub(crate) mod construct;
pub(crate) mod describe;
pub(crate) mod distinct;
pub(crate) mod extend;
pub(crate) mod filter;
pub(crate) mod hash_join;
pub(crate) mod index_join;
pub(crate) mod intersection;
pub(crate) mod nodes;
pub(crate) mod scan;
pub(crate) mod service;
pub(crate) mod slice;
pub(crate) mod sort;
pub(crate) mod top;
pub(crate) mod union;
pub(crate) mod values;
pub(crate) mod walk;

use crate::algebra::{Node, Slot, Slots};
use crate::boxes::join::{JoinKind, JoinSpec, Origin};
use crate::explain::Explainer;
use crate::expression::Expr;
use crate::lower::{Lowering, Pipeline, Streams};
use crate::planner::{Columns, Estimate, Goal, Planner};
use smallvec::{SmallVec, smallvec};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use vicus_language::stack::deep;

/// Defines [`Op`], with a variant for each operator, and finds the behaviour of a variant.
macro_rules! operators {
    ($($name:ident: $operator:path,)*) => {
        /// An operator.
        #[derive(Debug)]
        pub(crate) enum Op {
            $($name($operator),)*
        }

        impl Op {
            fn behaviour(&self) -> &dyn PhysicalOperator {
                match self {
                    $(Op::$name(operator) => operator,)*
                }
            }

            fn behaviour_mut(&mut self) -> &mut dyn PhysicalOperator {
                match self {
                    $(Op::$name(operator) => operator,)*
                }
            }
        }
    };
}

operators! {
    Values: values::Values,
    Scan: scan::Scan,
    Nodes: nodes::Nodes,
    Walk: walk::Walk,
    Service: service::Service,
    IndexJoin: index_join::IndexJoin,
    Intersection: intersection::Intersection,
    HashJoin: hash_join::HashJoin,
    Filter: filter::Filter,
    Extend: extend::Extend,
    Union: union::Union,
    Distinct: distinct::Distinct,
    Aggregate: aggregate::Aggregate,
    Sort: sort::Sort,
    Top: top::Top,
    Slice: slice::Slice,
    Construct: construct::Construct,
    Describe: describe::Describe,
}

/// The physical plan of a node of the algebra. Its columns are the slots of `needed` possibly bound by the node.
pub(crate) fn plan(planner: &Planner<'_>, node: &Node, needed: &Slots, goal: Goal) -> Physical {
    match node {
        Node::Pattern(_) => planner.group(std::slice::from_ref(node), &[], needed, goal),
        Node::Join(nodes) => planner.group(nodes, &[], needed, goal),
        Node::LeftJoin { .. }
        | Node::AntiJoin { .. }
        | Node::SemiJoin { .. }
        | Node::MarkJoin { .. }
        | Node::Minus { .. } => planner.outer(node, needed, goal),
        Node::Path(path) => walk::Walk::alone(planner, path, needed),
        Node::Filter { conditions, inner } => filter::Filter::of_node(planner, conditions, inner, needed, goal),
        Node::Union(nodes) => union::Union::of_nodes(planner, nodes, &node.scope().possible, needed, goal),
        Node::Extend { .. } => extend::Extend::of_node(planner, node, needed, goal),
        Node::Service { inner, service } => service::Service::of_node(planner, inner, service, needed, goal),
        Node::Group(group) => aggregate::Aggregate::plan(planner, group, needed),
        Node::Values { slots, table } => values::Values::plan(planner, slots, table, needed),
        Node::Sort { inner, keys } => sort::Sort::of_node(planner, inner, keys, needed, goal),
        Node::Distinct { inner } => distinct::Distinct::of_node(planner, inner, needed, goal),
        Node::Slice { inner, offset, limit, each } => {
            slice::Slice::of_node(planner, inner, *offset, *limit, *each, needed)
        }
        Node::Project { inner, slots } => {
            let slots: Slots = slots.iter().copied().collect();
            let inside = needed.intersection(&slots).copied().collect();
            planner.plan(inner, &inside, goal)
        }
    }
}

/// The inputs of an operator, or something for each of them.
pub(crate) type Each<T> = SmallVec<[T; 2]>;

/// For each column, whether each of its terms must have one id, kept until the run's end.
pub(crate) type StableColumns = Vec<bool>;

/// Everything about an operator besides its place in a plan.
pub(crate) trait PhysicalOperator: fmt::Debug {
    /// Its inputs.
    fn inputs(&self) -> Each<&Below>;

    /// Its inputs, mutable, in the same order.
    fn inputs_mut(&mut self) -> Each<&mut Below>;

    /// Makes it put out these of its `width` columns, in this order. False if it can't; then nothing has changed.
    fn pick(&mut self, _kept: &[usize], _width: usize) -> bool {
        false
    }

    /// Lets the columns that it computes pass, except for `kept` ones of its output, and returns the columns of each
    /// input that have to be kept: those put out in a kept column, and those whose ids it compares or keeps itself.
    fn let_pass(&mut self, kept: &[bool]) -> Each<StableColumns>;

    /// Whether it computes terms that may pass.
    fn computes(&self) -> bool {
        false
    }

    /// Adds its boxes, and those of its inputs, to a model; returns the outputs sharing its rows. `plan` is the plan
    /// with this operator on top.
    fn lower(&self, plan: &Physical, above: Pipeline, lowering: &mut Lowering<'_>) -> Streams;

    /// Its title in an explanation of `plan`, which has this operator on top.
    fn explain(&self, plan: &Physical, explainer: &Explainer<'_>) -> Title;

    /// Whether its rows come in the order of a sort.
    fn is_ordered(&self) -> bool {
        false
    }

    /// Whether it is a join that compares values instead of ids.
    fn joins_by_value(&self) -> bool {
        false
    }

    /// The number of columns of the widest envelope between its boxes.
    fn inner_width(&self) -> usize {
        0
    }
}

/// The name of an operator, and its subject.
pub(crate) struct Title {
    pub(crate) name: String,
    pub(crate) detail: String,
}

impl Title {
    pub(crate) fn new(name: &str, detail: impl Into<String>) -> Title {
        Title { name: name.to_owned(), detail: detail.into() }
    }

    /// The title of a join: its kind stands before its name.
    pub(crate) fn of_join(kind: JoinKind, name: &str, detail: impl Into<String>) -> Title {
        let kind = match kind {
            JoinKind::Inner => "",
            JoinKind::Left => "left ",
            JoinKind::Semi => "semi ",
            JoinKind::Anti => "anti ",
            JoinKind::Mark(_) => "mark ",
        };
        Title { name: format!("{kind}{name}"), detail: detail.into() }
    }
}

/// A physical operator with its operands.
#[derive(Debug)]
pub(crate) struct Physical {
    pub(crate) op: Op,
    /// The slot of each column of its envelopes.
    pub(crate) columns: Columns,
    pub(crate) estimate: Estimate,
    /// Estimated nanoseconds until the last row; below, until the first one.
    pub(crate) cost: f64,
    pub(crate) startup: f64,
    /// The column with ascending values, if there is one.
    pub(crate) sorted: Option<Slot>,
    /// The conditions evaluated by this operator, or used to choose the rows of a scan, for
    /// [`Plan::explain`](crate::Plan::explain).
    pub(crate) conditions: Vec<Expr>,
}

/// The input of an operator. Inputs may be nested as deeply as a text has patterns, so dropping one uses a loop and no
/// recursion.
#[derive(Debug)]
pub(crate) struct Below(Option<Box<Physical>>);

impl Below {
    pub(crate) fn new(plan: Physical) -> Below {
        Below(Some(Box::new(plan)))
    }
}

impl Deref for Below {
    type Target = Physical;

    fn deref(&self) -> &Physical {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl DerefMut for Below {
    fn deref_mut(&mut self) -> &mut Physical {
        self.0.as_mut().expect("it is there until it is dropped")
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        let Some(plan) = self.0.take() else { return };
        let mut open = vec![*plan];
        while let Some(mut plan) = open.pop() {
            let inputs = plan.op.behaviour_mut().inputs_mut();
            open.extend(inputs.into_iter().filter_map(|below| below.0.take()).map(|below| *below));
        }
    }
}

impl Physical {
    /// The behaviour of the operator on top.
    pub(crate) fn behaviour(&self) -> &dyn PhysicalOperator {
        self.op.behaviour()
    }

    pub(crate) fn column(&self, slot: Slot) -> Option<usize> {
        self.columns.place(slot)
    }

    /// The operator's inputs.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Physical> {
        self.behaviour().inputs().into_iter().map(|below| &**below)
    }

    /// This operator and all below.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Physical> {
        let mut open: SmallVec<[&Physical; 8]> = smallvec![self];
        std::iter::from_fn(move || {
            let plan = open.pop()?;
            open.extend(plan.inputs());
            Some(plan)
        })
    }

    /// Whether a join of this plan compares values instead of ids.
    pub(crate) fn joins_by_value(&self) -> bool {
        self.all().any(|plan| plan.behaviour().joins_by_value())
    }

    /// Makes it put out these of its columns, in this order, without a box of its own. False if it can't; then nothing
    /// has changed.
    pub(crate) fn pick(&mut self, kept: &[usize]) -> bool {
        // Computing a column twice may give two values.
        let is_repeated = kept.iter().enumerate().any(|(place, column)| kept[..place].contains(column));
        let width = self.columns.len();
        if is_repeated || kept.len() > MOST_PICKED || !deep(|| self.op.behaviour_mut().pick(kept, width)) {
            return false;
        }
        self.columns = kept.iter().map(|&column| self.columns[column]).collect();
        self.estimate = std::mem::take(&mut self.estimate).restricted(&self.columns.iter().copied().collect());
        self.sorted = self.sorted.filter(|slot| self.columns.has(*slot));
        true
    }

    /// Lets computed columns pass if possible: those that no operator above compares or keeps. The reader of the plan's
    /// rows must neither compare nor keep their ids. For a finished plan, because only this one tells the built side of
    /// a join and the conditions that compare ids.
    pub(crate) fn let_pass(&mut self) {
        if self.all().any(|plan| plan.behaviour().computes()) {
            self.let_pass_but(&vec![false; self.columns.len()]);
        }
    }

    fn let_pass_but(&mut self, kept: &[bool]) {
        let below = self.op.behaviour_mut().let_pass(kept);
        let inputs = self.op.behaviour_mut().inputs_mut();
        inputs.into_iter().zip(below).for_each(|(input, kept)| deep(|| input.let_pass_but(&kept)));
    }

    /// Whether its rows may have terms that neither the store has nor the query mentions.
    pub(crate) fn computes_terms(&self) -> bool {
        self.all().any(|plan| match &plan.op {
            Op::Extend(extend) => {
                extend.makes.iter().any(|make| !matches!(make, extend::Make::Column(_) | extend::Make::Constant(_)))
            }
            Op::Aggregate(_) | Op::Construct(_) | Op::Describe(_) | Op::Service(_) => true,
            Op::Values(_)
            | Op::Scan(_)
            | Op::Nodes(_)
            | Op::Walk(_)
            | Op::IndexJoin(_)
            | Op::Intersection(_)
            | Op::HashJoin(_)
            | Op::Filter(_)
            | Op::Union(_)
            | Op::Distinct(_)
            | Op::Sort(_)
            | Op::Top(_)
            | Op::Slice(_) => false,
        })
    }

    /// The estimated cost, for comparing plans.
    pub(crate) fn price(&self, goal: Goal) -> f64 {
        goal.price(self.cost, self.startup)
    }
}

/// With more columns than this, looking for repeated ones takes longer than a box does.
const MOST_PICKED: usize = 64;

/// The columns of the probing side kept or compared by a join, apart from its search keys.
fn kept_of_probe(spec: &JoinSpec, kept: &[bool], input: &Physical) -> StableColumns {
    let mut inner = vec![false; input.columns.len()];
    let mut mark = |part: &Origin, kept: bool| {
        if let Origin::Left(column) | Origin::Merged(column, _) = part {
            inner[*column] |= kept;
        }
    };
    spec.output.iter().zip(kept).for_each(|(part, &kept)| mark(part, kept));
    spec.condition.compared().into_iter().for_each(|place| mark(&spec.condition_origins[place], true));
    inner
}

/// Makes a join put out these of its columns. False if it is shared.
fn pick_of_join(join: &mut Arc<JoinSpec>, kept: &[usize]) -> bool {
    let Some(join) = Arc::get_mut(join) else { return false };
    join.output = kept.iter().map(|&column| join.output[column]).collect();
    true
}
