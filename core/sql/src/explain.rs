//! The operators of a plan as data, and as text.

use crate::expression::ColumnId;
use crate::relation::{Columns, Fold, FoldKind, JoinKind, Op, Relation};
use crate::table::ColumnRange;
use std::fmt::Write;
use vicus_flow::{BoxCounts, BoxId, OutputId};

/// An operator of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it does: `scan`, `filter`, `inner join` and so on.
    pub name: String,
    /// With what: the table and its columns, the conditions, the keys.
    pub detail: String,
    /// About how many rows it makes.
    pub rows: f64,
    /// The boxes that do its work.
    pub boxes: Vec<BoxId>,
    /// The operator that reads its rows, by its place in [`Plan::nodes`](crate::Plan::nodes); none for the last one.
    pub parent: Option<usize>,
    /// How many boxes share its work.
    pub degree: usize,
    pub(crate) outputs: Vec<OutputId>,
}

impl Node {
    /// How many rows it has made, by the counts of a run's boxes in the order of the model.
    pub fn rows_made(&self, counts: &[BoxCounts]) -> u64 {
        let rows = |output: &OutputId| {
            let sent = counts.get(output.sender().index()).and_then(|counts| counts.outputs.get(output.index()));
            sent.map_or(0, |sent| sent.rows)
        };
        self.outputs.iter().map(rows).sum()
    }
}

/// An operator without its boxes.
pub(crate) fn describe(relation: &Relation, columns: &Columns) -> Node {
    let name_of = |id: ColumnId| columns.name(id).to_owned();
    let list = |all: Vec<String>| all.join(", ");
    let shown = |exprs: &[crate::expression::Expr], between: &str| {
        exprs.iter().map(|expr| expr.shown(&name_of).to_string()).collect::<Vec<_>>().join(between)
    };
    let (name, detail) = match &relation.op {
        Op::Scan { table, name, ranges, .. } => {
            let mut detail = format!("{name} ({})", list(relation.columns.iter().map(|&id| name_of(id)).collect()));
            for range in ranges {
                let _ = write!(detail, ", {}", range_text(range, &table.columns()[range.column].name));
            }
            ("scan".to_owned(), detail)
        }
        Op::Values { rows } => ("values".to_owned(), format!("{} rows", rows.len())),
        Op::Project { exprs, .. } => {
            let one = |(id, expr): &(ColumnId, crate::expression::Expr)| {
                let text = expr.shown(&name_of).to_string();
                if text == columns.name(*id) { text } else { format!("{text} AS {}", columns.name(*id)) }
            };
            ("project".to_owned(), list(exprs.iter().map(one).collect()))
        }
        Op::Filter { conditions, .. } => ("filter".to_owned(), shown(conditions, " AND ")),
        Op::Join(join) => {
            let kind = match join.kind {
                JoinKind::Inner if join.keys.is_empty() && join.residual.is_empty() => "cross join",
                JoinKind::Inner => "inner join",
                JoinKind::Left => "left join",
                JoinKind::Full => "full join",
                JoinKind::Semi => "semi join",
                JoinKind::Anti => "anti join",
                JoinKind::Mark(_) => "mark join",
            };
            let key = |(left, right): &(crate::expression::Expr, crate::expression::Expr)| {
                format!("{} = {}", left.shown(&name_of), right.shown(&name_of))
            };
            let mut parts: Vec<String> = join.keys.iter().map(key).collect();
            parts.extend(join.residual.iter().chain(&join.membership).map(|expr| expr.shown(&name_of).to_string()));
            (kind.to_owned(), parts.join(" AND "))
        }
        Op::Aggregate { keys, folds, .. } => {
            let mut parts: Vec<String> = keys.iter().map(|(_, key)| key.shown(&name_of).to_string()).collect();
            parts.extend(folds.iter().map(|fold| fold_text(fold, &name_of)));
            let name = if folds.is_empty() && !keys.is_empty() { "distinct" } else { "aggregate" };
            (name.to_owned(), list(parts))
        }
        Op::UnionAll { inputs } => ("union all".to_owned(), format!("{} inputs", inputs.len())),
        Op::SetOperation { except, all, .. } => {
            let name = if *except { "except" } else { "intersect" };
            (format!("{name}{}", if *all { " all" } else { "" }), String::new())
        }
        Op::Sort { by, most, .. } => {
            let one = |by: &crate::relation::SortBy| {
                let direction = if by.descending { " DESC" } else { "" };
                let nulls = if by.nulls_last == by.descending {
                    if by.nulls_last { " NULLS LAST" } else { " NULLS FIRST" }
                } else {
                    ""
                };
                format!("{}{direction}{nulls}", columns.name(by.column))
            };
            let first = most.map_or_else(String::new, |most| format!(", the first {most}"));
            ("sort".to_owned(), list(by.iter().map(one).collect()) + &first)
        }
        Op::Limit { offset, count, .. } => {
            let count = count.map_or_else(|| "all".to_owned(), |count| count.to_string());
            ("limit".to_owned(), format!("{count}, offset {offset}"))
        }
        Op::Single { .. } => ("single row".to_owned(), String::new()),
    };
    Node { name, detail, rows: relation.rows, boxes: Vec::new(), parent: None, degree: 1, outputs: Vec::new() }
}

fn range_text(range: &ColumnRange, name: &str) -> String {
    match (&range.least, &range.greatest) {
        (Some(least), Some(greatest)) if least == greatest => format!("{name} = {least}"),
        (Some(least), Some(greatest)) => format!("{name} from {least} to {greatest}"),
        (Some(least), None) => format!("{name} from {least}"),
        (None, Some(greatest)) => format!("{name} to {greatest}"),
        (None, None) => name.to_owned(),
    }
}

fn fold_text(fold: &Fold, name_of: &dyn Fn(ColumnId) -> String) -> String {
    let name = match fold.kind {
        FoldKind::Count => "COUNT",
        FoldKind::Sum => "SUM",
        FoldKind::Average => "AVG",
        FoldKind::Least => "MIN",
        FoldKind::Greatest => "MAX",
        FoldKind::Every => "BOOL_AND",
        FoldKind::Some => "BOOL_OR",
    };
    let distinct = if fold.is_distinct { "DISTINCT " } else { "" };
    match &fold.argument {
        Some(argument) => format!("{name}({distinct}{})", argument.shown(name_of)),
        None => format!("{name}(*)"),
    }
}

/// The tree as text, an operator a line.
pub(crate) fn text(nodes: &[Node], counts: Option<&[BoxCounts]>) -> String {
    let mut text = String::new();
    for node in nodes {
        let depth = std::iter::successors(node.parent, |&parent| nodes[parent].parent).count();
        let _ = write!(text, "{:indent$}{}", "", node.name, indent = 2 * depth);
        if !node.detail.is_empty() {
            let _ = write!(text, " {}", node.detail);
        }
        let _ = write!(text, "  ~{:.0} rows", node.rows);
        if let Some(counts) = counts {
            let _ = write!(text, ", {} made", node.rows_made(counts));
        }
        if node.degree > 1 {
            let _ = write!(text, ", {} boxes side by side", node.degree);
        }
        text.push('\n');
    }
    text
}
