//! A physical plan as a tree of operators for people: the subject of each, its columns, its expected rows, and its
//! boxes.

use crate::algebra::{At, DEFAULT_GRAPH, Pattern, Slot};
use crate::boxes::construct::{Part, Template};
use crate::boxes::hash_table::{By, Keep};
use crate::boxes::index_probe::Want;
use crate::boxes::join::JoinKind;
use crate::boxes::service::EndpointFrom;
use crate::expression::{Arithmetic, Expr};
use crate::graphs::Merged;
use crate::lower::OperatorBoxes;
use crate::planner::{Op, Physical, is_in_order};
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

    fn slot(&self, slot: Slot) -> String {
        match self.names.get(slot.0) {
            Some(name) if name.starts_with("_:") => name.clone(),
            Some(name) => format!("?{name}"),
            // A slot that stands for anything.
            None => "[]".to_owned(),
        }
    }

    fn id(&self, id: Id) -> String {
        if id.is_unbound() { "UNDEF".to_owned() } else { self.terms.view(id, |view| view.to_string()) }
    }

    fn pattern(&self, pattern: &Pattern) -> String {
        let ends = pattern.ends().iter().map(|at| self.at(*at)).collect::<Vec<_>>().join(" ");
        format!("{}{ends}", self.in_graph(pattern.graph()))
    }

    fn at(&self, at: At) -> String {
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
    fn in_graph(&self, graph: At) -> String {
        if graph == DEFAULT_GRAPH { String::new() } else { format!("graph {} ", self.at(graph)) }
    }

    /// The first triples of a template.
    fn template(&self, template: &Template, input: &Physical) -> String {
        const SHOWN: usize = 4;
        let part = |part: &Part| match *part {
            Part::Column(column) => self.slot(input.columns[column]),
            Part::Constant(id) => self.id(id),
            Part::Blank(number) => format!("_:{number}"),
        };
        let triple = |triple: &[Part; 3]| triple.iter().map(part).collect::<Vec<_>>().join(" ");
        let all = template.plain.iter().chain(&template.fresh);
        let shown: Vec<String> = all.take(SHOWN).map(triple).collect();
        let more = template.plain.len() + template.fresh.len() - shown.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", shown.join(" . "))
    }

    fn route(&self, route: &Route) -> String {
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
        let kind = |kind: JoinKind| match kind {
            JoinKind::Inner => "",
            JoinKind::Left => "left ",
            JoinKind::Semi => "semi ",
            JoinKind::Anti => "anti ",
            JoinKind::Mark(_) => "mark ",
        };
        let named = |name: &str, detail: String| (name.to_owned(), detail);
        let (what, inputs): ((String, String), Vec<&Physical>) = match &plan.op {
            Op::Values { table } => (named("values", format!("of {} rows", table.rows)), Vec::new()),
            Op::Scan { pattern, spec } => {
                let distinct = if spec.distinct { ", distinct" } else { "" };
                let part = if plan.conditions.is_empty() { "" } else { ", a range" };
                let scattered = if spec.scattered { ", scattered" } else { "" };
                let pattern = self.pattern(pattern);
                (named("scan", format!("{:?} {pattern}{distinct}{part}{scattered}", spec.order)), Vec::new())
            }
            Op::Nodes { graph } => (named("all nodes", self.in_graph(*graph).trim_end().to_owned()), Vec::new()),
            Op::Walk { input, path, walk, join } => {
                let how = if walk.target.is_some() { ", both ends known" } else { "" };
                let (graph, from, to) = (self.in_graph(path.graph), self.at(path.subject), self.at(path.object));
                (
                    (
                        format!("{}walk", kind(join.kind)),
                        format!("{graph}{from} {} {to}{how}", self.route(&path.route)),
                    ),
                    vec![input],
                )
            }
            Op::IndexJoin { input, pattern, index, join } => {
                let want = match index.want {
                    Want::All => "",
                    Want::Groups => ", one for each group",
                    Want::Values => ", one for each value",
                    Want::First => ", any one",
                };
                let merged = if is_in_order(index, input) { ", in order" } else { "" };
                let detail = format!("{:?} {}{merged}{want}", index.order, self.pattern(pattern));
                ((format!("{}index join", kind(join.kind)), detail), vec![input])
            }
            Op::Intersection { input, patterns, join, .. } => {
                let all: Vec<String> = patterns.iter().map(|pattern| self.pattern(pattern)).collect();
                ((format!("{}intersection", kind(join.kind)), format!("of {}", all.join(" and "))), vec![input])
            }
            Op::HashJoin { probe, build, hash, join } => {
                let key = |key: &crate::boxes::hash_table::Key| {
                    let (a, b) = (probe.columns[key.probe], build.columns[key.build]);
                    let name = if a == b { self.slot(a) } else { format!("{} = {}", self.slot(a), self.slot(b)) };
                    match key.by {
                        By::Id => name,
                        By::Value => format!("{name} by value"),
                        By::Loose => format!("{name} if bound"),
                    }
                };
                let keys = hash.keys.iter().map(key).collect::<Vec<_>>().join(", ");
                let keep = match hash.keep {
                    Keep::All => String::new(),
                    Keep::Any => ", any one".to_owned(),
                    Keep::Least(column) => format!(", least {}", self.slot(build.columns[column])),
                    Keep::Greatest(column) => format!(", greatest {}", self.slot(build.columns[column])),
                };
                let (name, on) = if keys.is_empty() { ("cross product", "") } else { ("hash join", "on ") };
                let detail = format!("{on}{keys}{keep}");
                ((format!("{}{name}", kind(join.kind)), detail.trim_start_matches(", ").to_owned()), vec![probe, build])
            }
            Op::Service { input, service, .. } => {
                let endpoint = match &service.endpoint {
                    EndpointFrom::Iri(iri) => format!("<{iri}>"),
                    EndpointFrom::Column(column) => self.slot(input.columns[*column]),
                    EndpointFrom::Unbound => "of no value".to_owned(),
                };
                let silent = if service.silent { "silent " } else { "" };
                (named("service", format!("{silent}{endpoint}")), vec![input])
            }
            Op::Filter { input, .. } => (named("filter", String::new()), vec![input]),
            Op::Extend { input, .. } => (named("extend", String::new()), vec![input]),
            Op::Union { inputs, .. } => (named("union", String::new()), inputs.iter().collect()),
            Op::Distinct { input } => (named("distinct", String::new()), vec![input]),
            Op::Aggregate { input, spec } => {
                let keys = plan.columns[..spec.keys.len()].iter().map(|slot| self.slot(*slot)).collect::<Vec<_>>();
                let by = if keys.is_empty() { "" } else { "by " };
                (named("aggregate", format!("{by}{}", keys.join(", "))), vec![input])
            }
            Op::Sort { input, .. } => (named("sort", String::new()), vec![input]),
            Op::Top { input, count, .. } => (named("top", count.to_string()), vec![input]),
            Op::Slice { input, offset, limit, each } => {
                let limit = limit.map_or(String::new(), |limit| format!(" limit {limit}"));
                let each = each.map_or(String::new(), |each| format!(" for each {}", self.slot(input.columns[each])));
                (named("slice", format!("offset {offset}{limit}{each}")), vec![input])
            }
            Op::Construct { input, template } => (named("construct", self.template(template, input)), vec![input]),
            Op::Describe { input, resources, graph } => {
                let constants = resources.iter().map(|id| self.id(*id));
                let all: Vec<String> = input.columns.iter().map(|slot| self.slot(*slot)).chain(constants).collect();
                (named("describe", format!("{}{}", self.in_graph(*graph), all.join(" "))), vec![input])
            }
        };
        let (name, mut detail) = what;
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
        });
        inputs.into_iter().for_each(|input| deep(|| self.add(input, Some(number), nodes)));
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
