//! A physical plan as text: an indented tree, each line an operator with its columns, the rows expected of it, and, after a
//! run, what it did.

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
use crate::stack::deep;
use crate::terms::Terms;
use std::fmt::Write as _;
use vicus_flow::{BoxCounts, BoxId};
use vicus_rdf::Id;

pub(crate) struct Explainer<'a> {
    pub(crate) terms: &'a Terms,
    /// The name of each slot.
    pub(crate) names: &'a [String],
    /// The boxes of each operator, in pre-order.
    pub(crate) operators: &'a [OperatorBoxes],
    /// The counts of each box, if the plan has run.
    pub(crate) counts: Option<&'a [BoxCounts]>,
}

impl Explainer<'_> {
    pub(crate) fn explain(&self, plan: &Physical) -> String {
        let mut text = String::new();
        self.write(plan, 0, &mut self.operators.iter(), &mut text);
        text
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

    /// In which graph something is, if it isn't the data's default graph.
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

    fn write(
        &self,
        plan: &Physical,
        depth: usize,
        operators: &mut std::slice::Iter<'_, OperatorBoxes>,
        text: &mut String,
    ) {
        let columns = |plan: &Physical| plan.columns.iter().map(|slot| self.slot(*slot)).collect::<Vec<_>>().join(" ");
        let kind = |kind: JoinKind| match kind {
            JoinKind::Inner => "",
            JoinKind::Left => "left ",
            JoinKind::Semi => "semi ",
            JoinKind::Anti => "anti ",
            JoinKind::Mark(_) => "mark ",
        };
        let (what, inputs): (String, Vec<&Physical>) = match &plan.op {
            Op::Values { table } => (format!("values of {} rows", table.rows), Vec::new()),
            Op::Scan { pattern, spec } => {
                let distinct = if spec.distinct { ", distinct" } else { "" };
                let part = if plan.conditions.is_empty() { "" } else { ", a range" };
                (format!("scan {:?} {}{distinct}{part}", spec.order, self.pattern(pattern)), Vec::new())
            }
            Op::Nodes { graph } => (format!("{}all nodes", self.in_graph(*graph)), Vec::new()),
            Op::Walk { input, path, walk, join } => {
                let how = if walk.target.is_some() { ", both ends known" } else { "" };
                let (graph, from, to) = (self.in_graph(path.graph), self.at(path.subject), self.at(path.object));
                (format!("{}walk {graph}{from} {} {to}{how}", kind(join.kind), self.route(&path.route)), vec![input])
            }
            Op::IndexJoin { input, pattern, index, join } => {
                let want = match index.want {
                    Want::All => "",
                    Want::Groups => ", one for each group",
                    Want::Values => ", one for each value",
                    Want::First => ", any one",
                };
                let merged = if is_in_order(index, input) { ", in order" } else { "" };
                let what =
                    format!("{}index join {:?} {}{merged}{want}", kind(join.kind), index.order, self.pattern(pattern));
                (what, vec![input])
            }
            Op::Intersection { input, patterns, join, .. } => {
                let all: Vec<String> = patterns.iter().map(|pattern| self.pattern(pattern)).collect();
                (format!("{}intersection of {}", kind(join.kind), all.join(" and ")), vec![input])
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
                (format!("{}hash join on {keys}{keep}", kind(join.kind)), vec![probe, build])
            }
            Op::Service { input, service, .. } => {
                let endpoint = match &service.endpoint {
                    EndpointFrom::Iri(iri) => format!("<{iri}>"),
                    EndpointFrom::Column(column) => self.slot(input.columns[*column]),
                    EndpointFrom::Unbound => "of no value".to_owned(),
                };
                let silent = if service.silent { "silent " } else { "" };
                (format!("service {silent}{endpoint}"), vec![input])
            }
            Op::Filter { input, .. } => ("filter".to_owned(), vec![input]),
            Op::Extend { input, .. } => ("extend".to_owned(), vec![input]),
            Op::Union { inputs, .. } => ("union".to_owned(), inputs.iter().collect()),
            Op::Distinct { input } => ("distinct".to_owned(), vec![input]),
            Op::Aggregate { input, spec } => {
                let keys = plan.columns[..spec.keys.len()].iter().map(|slot| self.slot(*slot)).collect::<Vec<_>>();
                (format!("aggregate by {}", keys.join(", ")), vec![input])
            }
            Op::Sort { input, .. } => ("sort".to_owned(), vec![input]),
            Op::Top { input, count, .. } => (format!("top {count}"), vec![input]),
            Op::Slice { input, offset, limit, each } => {
                let limit = limit.map_or(String::new(), |limit| format!(" limit {limit}"));
                let each = each.map_or(String::new(), |each| format!(" for each {}", self.slot(input.columns[each])));
                (format!("slice offset {offset}{limit}{each}"), vec![input])
            }
            Op::Construct { input, template } => (format!("construct {}", self.template(template, input)), vec![input]),
            Op::Describe { input, resources, graph } => {
                let constants = resources.iter().map(|id| self.id(*id));
                let all: Vec<String> = input.columns.iter().map(|slot| self.slot(*slot)).chain(constants).collect();
                (format!("describe {}{}", self.in_graph(*graph), all.join(" ")), vec![input])
            }
        };
        let indent = "  ".repeat(depth);
        write!(text, "{indent}{what}").expect("a string takes everything");
        if !plan.conditions.is_empty() {
            let conditions = plan.conditions.iter().map(|condition| self.expr(condition)).collect::<Vec<_>>();
            write!(text, " if {}", conditions.join(" && ")).expect("a string takes everything");
        }
        let made = operators.next().expect("every operator was lowered");
        let rows = plan.estimate.rows;
        let actual = self.counts.map_or(String::new(), |counts| actual(made, rows, counts));
        let degree = if made.degree > 1 { format!(", degree {}", made.degree) } else { String::new() };
        writeln!(text, " [{}] ~{rows:.0} rows{actual}{degree}, {}", columns(plan), numbers(&made.boxes))
            .expect("a string takes everything");
        inputs.into_iter().for_each(|input| deep(|| self.write(input, depth + 1, operators, text)));
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

/// What an operator did: rows, with a mark if that is far from the estimate, and the bytes that its boxes took, and wrote to temporary
/// files.
fn actual(made: &OperatorBoxes, estimate: f64, counts: &[BoxCounts]) -> String {
    let outputs = || made.outputs.iter().map(|from| &counts[from.sender().index()].outputs[from.index()]);
    let rows: u64 = outputs().map(|output| output.rows).sum();
    let bytes = |of: fn(&BoxCounts) -> u64| made.boxes.iter().map(|id| of(&counts[id.index()])).sum::<u64>();
    let mark =
        if outputs().all(|output| output.ended) { surprise(estimate, rows as f64) } else { ", stopped early".into() };
    let spilled = match bytes(|counts| counts.spilled_bytes) {
        0 => String::new(),
        spilled => format!(", {spilled} bytes spilled"),
    };
    let (near, far) = (bytes(BoxCounts::near_bytes), bytes(BoxCounts::far_bytes));
    format!(", {rows} actual{mark}, {near} bytes near, {far} far{spilled}")
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
