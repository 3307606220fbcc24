//! The operators of a plan as data.

use crate::expression::ColumnId;
use crate::relation::{Columns, Fold, FoldKind, JoinKind, Op, Relation};
use crate::table::ColumnRange;
use std::fmt::Write;
use vicus_language::PlanNode;

/// An operator without its boxes.
pub(crate) fn describe(relation: &Relation, columns: &Columns) -> PlanNode {
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
        Op::Iterate { all, .. } => (format!("recursive union{}", if *all { " all" } else { "" }), String::new()),
        Op::Round { .. } => ("last round".to_owned(), String::new()),
        Op::Unnest { list, item, .. } => {
            ("unnest".to_owned(), format!("{} AS {}", list.shown(&name_of), columns.name(*item)))
        }
        Op::Single { .. } => ("single row".to_owned(), String::new()),
    };
    let named = relation.columns.iter().map(|&id| name_of(id)).collect();
    let (boxes, outputs) = (Vec::new(), Vec::new());
    PlanNode { parent: None, name, detail, columns: named, rows: relation.rows, degree: 1, boxes, outputs, step: None }
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
