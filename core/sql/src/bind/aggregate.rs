//! GROUP BY, and the calls of aggregates.

use super::Binder;
use crate::error::{SourcePosition, SqlError};
use crate::expression::{ColumnId, Comparison, Expr, Function};
use crate::relation::{Columns, Fold, FoldKind, Op, Relation};
use crate::types::{SqlType, Value};
use sqlparser::ast;

impl<'a> Binder<'a> {
    /// The keys with their names, and whether there is a GROUP BY.
    pub(super) fn group_keys(&mut self, select: &'a ast::Select) -> Result<(Vec<(String, Expr)>, bool), SqlError> {
        let place = self.place(select.select_token.0.span);
        let ast::GroupByExpr::Expressions(exprs, modifiers) = &select.group_by else {
            return Err(SqlError::unsupported(place, "GROUP BY ALL"));
        };
        if !modifiers.is_empty() {
            return Err(SqlError::unsupported(place, "GROUP BY WITH ROLLUP and the like"));
        }
        let mut keys = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let place = self.place_of(expr);
            let expr = match expr {
                ast::Expr::Tuple(none) if none.is_empty() => continue,
                ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(number, _), .. }) => {
                    let item = self.ordinal(number, select.projection.len(), place)?;
                    match &select.projection[item] {
                        ast::SelectItem::UnnamedExpr(expr) | ast::SelectItem::ExprWithAlias { expr, .. } => expr,
                        _ => return Err(SqlError::unsupported(place, "a number that stands for *")),
                    }
                }
                expr => expr,
            };
            let name = match expr {
                ast::Expr::Identifier(name) => name.value.clone(),
                ast::Expr::CompoundIdentifier(names) => {
                    names.last().map_or_else(String::new, |name| name.value.clone())
                }
                _ => "group key".to_owned(),
            };
            keys.push((name, self.expr(expr)?));
        }
        Ok((keys, !exprs.is_empty()))
    }

    /// Makes keys of what the conditions of a correlated subquery compare with outer columns: they are then conditions
    /// over keys.
    pub(super) fn correlated_keys(
        &mut self,
        conditions: Vec<Expr>,
        relation: &Relation,
        keys: &mut Vec<(ColumnId, Expr)>,
        place: SourcePosition,
    ) -> Result<Vec<Expr>, SqlError> {
        let mut over_keys = Vec::with_capacity(conditions.len());
        for condition in conditions {
            let sides = match condition {
                Expr::Call(Function::Compare(Comparison::Equal), sides, _) => sides,
                _ => Vec::new(),
            };
            let [a, b] = &sides[..] else {
                return Err(SqlError::unsupported(place, "an aggregate over rows that are not found by equality, it"));
            };
            let is_inner = |expr: &Expr| !expr.columns().is_empty() && relation.has_all(expr);
            let (inner, outer) = if is_inner(a) && relation.has_none(b) {
                (a, b)
            } else if is_inner(b) && relation.has_none(a) {
                (b, a)
            } else {
                return Err(SqlError::unsupported(place, "an aggregate over rows that are not found by equality, it"));
            };
            let known = keys.iter().find(|(_, key)| key == inner).map(|(id, _)| *id);
            let id = known.unwrap_or_else(|| {
                let id = self.columns.add("correlated", inner.kind());
                keys.push((id, inner.clone()));
                id
            });
            over_keys.push(Expr::compare(Comparison::Equal, self.columns.expr(id), outer.clone()));
        }
        Ok(over_keys)
    }

    /// The groups of rows. Aggregates of one DISTINCT value fold groups of the keys and the value, each of which is a
    /// row by then: groups go to files when there is no memory for them, and what an aggregate has seen does not. SUM
    /// and AVG of all rows, and COUNT of all without keys, are not folded again: beside them, all stays in memory.
    pub(super) fn grouped(
        &mut self,
        relation: Relation,
        keys: Vec<(ColumnId, Expr)>,
        folds: Vec<Fold>,
        columns: Vec<ColumnId>,
    ) -> Relation {
        let mut distinct = folds.iter().filter(|fold| fold.is_distinct).map(|fold| &fold.argument);
        let value =
            distinct.next().cloned().flatten().filter(|value| distinct.all(|other| other.as_ref() == Some(value)));
        // A group without rows, which is there if there are no keys, has a count of 0, but no sum of counts.
        let has_rows = !keys.is_empty();
        let folds_again = |fold: &Fold| {
            let by_parts = matches!(fold.kind, FoldKind::Least | FoldKind::Greatest | FoldKind::Every | FoldKind::Some);
            fold.is_distinct || by_parts || (fold.kind == FoldKind::Count && has_rows)
        };
        let Some(value) = value.filter(|_| folds.iter().all(folds_again)) else {
            return Relation::new(Op::Aggregate { input: Box::new(relation), keys, folds }, columns);
        };
        let mut inner_keys: Vec<(ColumnId, Expr)> = Vec::with_capacity(keys.len() + 1);
        let mut outer_keys = Vec::with_capacity(keys.len());
        for (id, key) in keys {
            let inner = self.columns.add(self.columns.name(id).to_owned(), key.kind());
            outer_keys.push((id, Expr::Column(inner, key.kind())));
            inner_keys.push((inner, key));
        }
        let id = self.columns.add("value", value.kind());
        let seen = Expr::Column(id, value.kind());
        inner_keys.push((id, value));
        let (mut parts, mut wholes) = (Vec::new(), Vec::new());
        for fold in folds {
            if fold.is_distinct {
                wholes.push(Fold { argument: Some(seen.clone()), is_distinct: false, ..fold });
                continue;
            }
            let part = self.columns.add("part", fold.result.clone());
            let kind = if fold.kind == FoldKind::Count { FoldKind::Sum } else { fold.kind };
            let argument = Some(Expr::Column(part, fold.result.clone()));
            wholes.push(Fold { kind, argument, ..fold.clone() });
            parts.push(Fold { output: part, ..fold });
        }
        let inner = inner_keys.iter().map(|(id, _)| *id).chain(parts.iter().map(|part| part.output)).collect();
        let inner = Relation::new(Op::Aggregate { input: Box::new(relation), keys: inner_keys, folds: parts }, inner);
        Relation::new(Op::Aggregate { input: Box::new(inner), keys: outer_keys, folds: wholes }, columns)
    }

    /// A call of an aggregate, if the name is one's.
    pub(super) fn aggregate(
        &mut self,
        name: &str,
        function: &'a ast::Function,
        place: SourcePosition,
    ) -> Result<Option<Expr>, SqlError> {
        let kind = match name {
            "count" => FoldKind::Count,
            "sum" => FoldKind::Sum,
            "avg" | "mean" => FoldKind::Average,
            "min" => FoldKind::Least,
            "max" => FoldKind::Greatest,
            "bool_and" | "every" => FoldKind::Every,
            "bool_or" => FoldKind::Some,
            _ => return Ok(None),
        };
        let clause = self.scope().clause;
        match &mut self.scope().aggregates {
            None => {
                return Err(SqlError::wrong_type(
                    place,
                    format!("{name} is an aggregate, and can't stand in {clause}"),
                ));
            }
            Some(Aggregates { is_inside: true, .. }) => {
                return Err(SqlError::wrong_type(place, format!("{name} can't stand within another aggregate")));
            }
            Some(aggregates) => aggregates.is_inside = true,
        }
        // Subqueries within the arguments belong below the aggregate.
        let outside = std::mem::take(&mut self.scope().attached);
        let bound = self.fold(name, kind, function, place);
        let inside = std::mem::replace(&mut self.scope().attached, outside);
        let aggregates = self.scope().aggregates.as_mut().expect("it was there");
        aggregates.is_inside = false;
        aggregates.attached.extend(inside);
        let fold = bound?;
        let is_same = |known: &&Fold| {
            known.kind == fold.kind && known.argument == fold.argument && known.is_distinct == fold.is_distinct
        };
        let known = self.scope().aggregates.as_ref().expect("it was there").folds.iter().find(is_same);
        if let Some(known) = known {
            return Ok(Some(Expr::Column(known.output, known.result.clone())));
        }
        let output = self.columns.add(name, fold.result.clone());
        let fold = Fold { output, ..fold };
        let result = Expr::Column(output, fold.result.clone());
        self.scope().aggregates.as_mut().expect("it was there").folds.push(fold);
        Ok(Some(result))
    }

    fn fold(
        &mut self,
        name: &str,
        kind: FoldKind,
        function: &'a ast::Function,
        place: SourcePosition,
    ) -> Result<Fold, SqlError> {
        let ast::FunctionArguments::List(list) = &function.args else {
            return Err(SqlError::wrong_type(place, format!("{name} needs an argument in brackets")));
        };
        if !list.clauses.is_empty() || !function.within_group.is_empty() {
            return Err(SqlError::unsupported(place, format_args!("{name} with ORDER BY or other clauses")));
        }
        let filter = match &function.filter {
            None => None,
            Some(condition) => {
                let at = self.place_of(&**condition);
                let bound = self.expr(condition)?;
                Some(self.boolean(bound, at)?)
            }
        };
        let mut is_distinct = matches!(list.duplicate_treatment, Some(ast::DuplicateTreatment::Distinct));
        let mut argument = match &list.args[..] {
            [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)] if kind == FoldKind::Count => None,
            [] if kind == FoldKind::Count => None,
            [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr))] => Some(self.expr(expr)?),
            several if kind == FoldKind::Count && is_distinct && several.len() > 1 => {
                Some(self.values_together(several, place)?)
            }
            _ => return Err(SqlError::wrong_type(place, format!("{name} needs one argument"))),
        };
        if is_distinct && argument.is_none() {
            return Err(SqlError::wrong_type(place, "COUNT(DISTINCT *) needs an expression instead of *"));
        }
        // The same without DISTINCT.
        is_distinct &= matches!(kind, FoldKind::Count | FoldKind::Sum | FoldKind::Average);
        let given = argument.as_ref().map_or(SqlType::BigInt, Expr::kind);
        let is_null = argument.as_ref().is_some_and(Expr::is_null_literal);
        let fits = match kind {
            FoldKind::Count | FoldKind::Least | FoldKind::Greatest => true,
            FoldKind::Sum => given.is_numeric() || given == SqlType::Interval,
            FoldKind::Average => given.is_numeric(),
            FoldKind::Every | FoldKind::Some => given == SqlType::Boolean || is_null,
        };
        if !fits {
            return Err(SqlError::wrong_type(place, format!("{name} can't be taken of values of type {given}")));
        }
        if let Some(condition) = filter {
            let value = argument.unwrap_or(Expr::Literal(Value::BigInt(1), SqlType::BigInt));
            let kind = value.kind();
            argument = Some(Expr::Call(Function::Case, vec![condition, value, Expr::null(kind.clone())], kind));
        }
        let result = match kind {
            FoldKind::Count => SqlType::BigInt,
            FoldKind::Average => SqlType::Double,
            FoldKind::Every | FoldKind::Some => SqlType::Boolean,
            FoldKind::Sum => match given {
                SqlType::Decimal { scale, .. } => SqlType::Decimal { precision: crate::decimal::DIGITS, scale },
                other => other,
            },
            FoldKind::Least | FoldKind::Greatest => given,
        };
        Ok(Fold { output: ColumnId(u32::MAX), kind, argument, is_distinct, result })
    }
}

impl<'a> Binder<'a> {
    /// The values of COUNT(DISTINCT a, b) as one value, which is null if one of them is.
    fn values_together(&mut self, all: &'a [ast::FunctionArg], place: SourcePosition) -> Result<Expr, SqlError> {
        let (mut parts, mut values) = (Vec::with_capacity(all.len()), Vec::with_capacity(all.len()));
        for (number, argument) in all.iter().enumerate() {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) = argument else {
                return Err(SqlError::wrong_type(place, "COUNT(DISTINCT …) counts values of expressions"));
            };
            let value = self.expr(expr)?;
            parts.push((format!("{}", number + 1), value.kind()));
            values.push(value);
        }
        let is_null = |value: &Expr| Expr::Call(Function::IsNull, vec![value.clone()], SqlType::Boolean);
        let are_there = Expr::and(values.iter().map(|value| Expr::not(is_null(value))).collect());
        let kind = SqlType::Struct(parts.into());
        let together = Expr::Call(Function::Parts, values, kind.clone());
        Ok(Expr::Call(Function::Case, vec![are_there, together, Expr::null(kind.clone())], kind))
    }
}

use super::Aggregates;

/// Rewrites expressions over rows to expressions over groups.
pub(super) struct Regroup<'b> {
    pub(super) keys: &'b [(ColumnId, Expr)],
    /// The columns of rows before they are grouped.
    pub(super) before: &'b [ColumnId],
    pub(super) columns: &'b Columns,
}

impl Regroup<'_> {
    pub(super) fn regrouped(&self, expr: Expr, place: SourcePosition) -> Result<Expr, SqlError> {
        let mut wrong = None;
        let regrouped = expr.replaced(&mut |one| {
            if let Some((id, key)) = self.keys.iter().find(|(_, key)| key == one) {
                return Some(Expr::Column(*id, key.kind()));
            }
            if let Expr::Column(id, _) = one
                && self.before.contains(id)
            {
                wrong.get_or_insert(*id);
            }
            None
        });
        match wrong {
            None => Ok(regrouped),
            Some(id) => {
                let name = self.columns.name(id);
                let message =
                    format!("{name} differs within a group: it has to stand in GROUP BY or within an aggregate");
                Err(SqlError::wrong_type(place, message))
            }
        }
    }
}

/// Where there is no group, its counts are 0.
pub(super) fn counts_from_zero(expr: Expr, folds: &[Fold]) -> Expr {
    expr.replaced(&mut |one| match one {
        Expr::Column(id, kind) if folds.iter().any(|fold| fold.output == *id && fold.kind == FoldKind::Count) => {
            let zero = Expr::Literal(Value::BigInt(0), SqlType::BigInt);
            Some(Expr::Call(Function::Coalesce, vec![one.clone(), zero], kind.clone()))
        }
        _ => None,
    })
}
