//! A physical plan as a tree of operators for people: the subject of each, its columns, its expected rows, and its
//! boxes.

use crate::algebra::{At, DEFAULT_GRAPH, Pattern, Slot};
use crate::expression::{Arithmetic, Expr};
use crate::graphs::Merged;
use crate::lower::OperatorBoxes;
use crate::operators::{Physical, Title};
use crate::route::Route;
use crate::terms::Terms;
use std::fmt::Write as _;
use vicus_language::PlanNode;
use vicus_language::stack::deep;
use vicus_rdf::Id;

pub(crate) struct Explainer<'a> {
    pub(crate) terms: &'a Terms,
    /// The name of each slot.
    pub(crate) names: &'a [String],
    /// The boxes of each operator, in pre-order.
    pub(crate) operators: &'a [OperatorBoxes],
}

impl Explainer<'_> {
    /// The operators in pre-order.
    pub(crate) fn explain(&self, plan: &Physical) -> Vec<PlanNode> {
        let mut nodes = Vec::with_capacity(self.operators.len());
        self.add(plan, None, &mut nodes);
        nodes
    }

    pub(crate) fn slot(&self, slot: Slot) -> String {
        match self.names.get(slot.0) {
            Some(name) if name.starts_with("_:") => name.clone(),
            Some(name) => format!("?{name}"),
            // A slot that stands for anything.
            None => "[]".to_owned(),
        }
    }

    pub(crate) fn id(&self, id: Id) -> String {
        if id.is_unbound() { "UNDEF".to_owned() } else { self.terms.view(id, |view| view.to_string()) }
    }

    pub(crate) fn pattern(&self, pattern: &Pattern) -> String {
        let ends = pattern.ends().iter().map(|at| self.at(*at)).collect::<Vec<_>>().join(" ");
        format!("{}{ends}", self.in_graph(pattern.graph()))
    }

    pub(crate) fn at(&self, at: At) -> String {
        match at {
            At::Slot(slot) => self.slot(slot),
            At::Constant(id) => self.id(id),
            At::Merged => match &self.terms.merged {
                Merged::All => "of all".to_owned(),
                Merged::These(all) => format!("of {}", all.len()),
            },
        }
    }

    /// The graph of an item, unless it is the data's default graph.
    pub(crate) fn in_graph(&self, graph: At) -> String {
        if graph == DEFAULT_GRAPH { String::new() } else { format!("graph {} ", self.at(graph)) }
    }

    pub(crate) fn route(&self, route: &Route) -> String {
        match route {
            Route::Step(id) => self.id(*id),
            Route::Not(ids) => format!("!({})", ids.iter().map(|id| self.id(*id)).collect::<Vec<_>>().join("|")),
            Route::Reverse(inner) => format!("^{}", self.route(inner)),
            Route::Sequence(a, b) => format!("({}/{})", self.route(a), self.route(b)),
            Route::Either(a, b) => format!("({}|{})", self.route(a), self.route(b)),
            Route::Optional(inner) => format!("{}?", self.route(inner)),
            Route::Any(inner) => format!("{}*", self.route(inner)),
            Route::Many(inner) => format!("{}+", self.route(inner)),
        }
    }

    fn add(&self, plan: &Physical, parent: Option<usize>, nodes: &mut Vec<PlanNode>) {
        let Title { name, mut detail } = plan.behaviour().explain(plan, self);
        if !plan.conditions.is_empty() {
            let conditions = plan.conditions.iter().map(|condition| self.expr(condition)).collect::<Vec<_>>();
            let space = if detail.is_empty() { "" } else { " " };
            write!(detail, "{space}if {}", conditions.join(" && ")).expect("a string takes everything");
        }
        let number = nodes.len();
        let made = &self.operators[number];
        nodes.push(PlanNode {
            parent,
            name,
            detail,
            columns: plan.columns.iter().map(|slot| self.slot(*slot)).collect(),
            rows: plan.estimate.rows,
            degree: made.degree,
            boxes: made.boxes.to_vec(),
            outputs: made.outputs.to_vec(),
            step: None,
        });
        plan.inputs().for_each(|input| deep(|| self.add(input, Some(number), nodes)));
    }

    fn expr(&self, expr: &Expr) -> String {
        let all = |all: &[Expr], by: &str| all.iter().map(|expr| self.expr(expr)).collect::<Vec<_>>().join(by);
        match expr {
            Expr::Constant(id) => self.id(*id),
            Expr::Slot(slot) => self.slot(*slot),
            Expr::Error => "error".to_owned(),
            Expr::Or(operands) => format!("({})", all(operands, " || ")),
            Expr::And(operands) => format!("({})", all(operands, " && ")),
            Expr::Not(inner) => format!("!{}", self.expr(inner)),
            Expr::Compare(operator, a, b) => format!("{} {} {}", self.expr(a), operator.sign(), self.expr(b)),
            Expr::SameTerm(a, b) => format!("sameTerm({}, {})", self.expr(a), self.expr(b)),
            Expr::In(needle, operands) => format!("{} IN ({})", self.expr(needle), all(operands, ", ")),
            Expr::Arithmetic(operator, a, b) => {
                let sign = match operator {
                    Arithmetic::Add => "+",
                    Arithmetic::Subtract => "-",
                    Arithmetic::Multiply => "*",
                    Arithmetic::Divide => "/",
                };
                format!("({} {sign} {})", self.expr(a), self.expr(b))
            }
            Expr::Negate(inner) => format!("-{}", self.expr(inner)),
            Expr::Plus(inner) => format!("+{}", self.expr(inner)),
            Expr::Has(inner) => format!("has({})", self.expr(inner)),
            Expr::Bound(slot) => format!("bound({})", self.slot(*slot)),
            Expr::If(a, b, c) => format!("if({}, {}, {})", self.expr(a), self.expr(b), self.expr(c)),
            Expr::Coalesce(operands) => format!("coalesce({})", all(operands, ", ")),
            Expr::Exists(_, outside) => {
                let values = outside.iter().map(|(_, expr)| self.expr(expr)).collect::<Vec<_>>();
                format!("exists({})", values.join(", "))
            }
            Expr::Call(function, operands) => format!("{function:?}({})", all(operands, ", ")),
        }
    }
}
