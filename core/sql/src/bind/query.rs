//! Queries: SELECT, VALUES, set operations, ORDER BY and LIMIT.

use super::{Aggregates, Binder, Bound, Cte, Output, Scope, aggregate, is_name};
use crate::error::{SqlError, SqlErrorKind};
use crate::evaluate::{Room, constant};
use crate::expression::{ColumnId, Expr, Function};
use crate::parse::LARGER;
use crate::relation::{Op, Relation, SortBy};
use crate::types::{SqlType, Value};
use sqlparser::ast::{self, Spanned};
use std::cell::Cell;
use vicus_language::stack::of_levels;

/// A sort key: an output, by its place, or an expression.
struct Ordered {
    by: Key,
    descending: bool,
    nulls_last: bool,
}

enum Key {
    Output(usize),
    Expr(Expr),
}

impl<'a> Binder<'a> {
    /// Binds a query. If it is a subquery that `correlates`, its WHERE may name columns of outer queries.
    pub(super) fn query(&mut self, query: &'a ast::Query, correlates: bool) -> Result<Bound, SqlError> {
        let place = self.place_of(query);
        self.check_clauses(query)?;
        let ast::Query { with, body, order_by, limit_clause, fetch, .. } = query;
        let outer_cte = self.innermost_cte;
        if let Some(with) = with {
            for cte in &with.cte_tables {
                let (before, is_recursive) = (self.innermost_cte, with.recursive);
                self.ctes.push(Cte { alias: &cte.alias, query: &cte.query, before, is_recursive, round: None });
                self.innermost_cte = Some(self.ctes.len() - 1);
            }
        }
        let bound = self.deeper(place, |binder| match &**body {
            ast::SetExpr::Select(select) => binder.select(select, order_by.as_ref(), correlates),
            body => {
                let bound = binder.set_expr(body)?;
                binder.order_outputs(bound, order_by.as_ref())
            }
        });
        let mut bound = bound?;
        self.innermost_cte = outer_cte;
        let (offset, count) = self.limits(limit_clause.as_ref(), fetch.as_ref())?;
        if offset > 0 || count.is_some() {
            if !bound.correlated.is_empty() {
                return Err(SqlError::unsupported(place, "LIMIT in a subquery that names columns of an outer query"));
            }
            let columns = bound.relation.columns.clone();
            bound.relation = Relation::new(Op::Limit { input: Box::new(bound.relation), offset, count }, columns);
        }
        Ok(bound)
    }

    /// Refuses clauses that are not supported.
    pub(super) fn check_clauses(&self, query: &'a ast::Query) -> Result<(), SqlError> {
        let place = self.place_of(query);
        let ast::Query {
            with: _,
            body: _,
            order_by: _,
            limit_clause: _,
            fetch: _,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        for (is_there, what) in [
            (!locks.is_empty(), "FOR UPDATE"),
            (for_clause.is_some(), "FOR XML and the like"),
            (settings.is_some(), "SETTINGS"),
            (format_clause.is_some(), "FORMAT"),
            (!pipe_operators.is_empty(), "|>"),
        ] {
            if is_there {
                return Err(SqlError::unsupported(place, what));
            }
        }
        Ok(())
    }

    pub(super) fn set_expr(&mut self, body: &'a ast::SetExpr) -> Result<Bound, SqlError> {
        let place = self.place_of(body);
        match body {
            ast::SetExpr::Select(select) => self.select(select, None, false),
            ast::SetExpr::Query(query) => self.query(query, false),
            ast::SetExpr::Values(values) => self.values(values),
            ast::SetExpr::SetOperation { left, op, set_quantifier, right } => {
                let all = match set_quantifier {
                    ast::SetQuantifier::All => true,
                    ast::SetQuantifier::Distinct | ast::SetQuantifier::None => false,
                    other => return Err(SqlError::unsupported(place, format_args!("{op} {other}"))),
                };
                if *op == ast::SetOperator::Union {
                    return self.union(left, right, all);
                }
                let left = self.deeper(place, |binder| binder.set_expr(left))?;
                let right = self.deeper(place, |binder| binder.set_expr(right))?;
                let (mut inputs, outputs) = self.unify(vec![left, right], place)?;
                let (right, left) = (inputs.pop().expect("two"), inputs.pop().expect("two"));
                let except = *op != ast::SetOperator::Intersect;
                let op = Op::SetOperation { left: Box::new(left), right: Box::new(right), except, all };
                let columns = outputs.iter().map(|output| output.id).collect();
                Ok(Bound::new(Relation::new(op, columns), outputs))
            }
            ast::SetExpr::Table(_) => Err(SqlError::unsupported(place, "TABLE as a query")),
            _ => Err(SqlError::unsupported(place, "a statement that changes tables, within a query, it")),
        }
    }

    /// A chain of UNIONs of one sort is one operator, however long it is.
    fn union(&mut self, left: &'a ast::SetExpr, right: &'a ast::SetExpr, all: bool) -> Result<Bound, SqlError> {
        let place = self.place_of(right);
        let (mut parts, mut first) = (vec![right], left);
        while let ast::SetExpr::SetOperation { left, op: ast::SetOperator::Union, set_quantifier, right } = first {
            if (*set_quantifier == ast::SetQuantifier::All) != all
                || !matches!(
                    set_quantifier,
                    ast::SetQuantifier::All | ast::SetQuantifier::None | ast::SetQuantifier::Distinct
                )
            {
                break;
            }
            parts.push(right);
            first = left;
        }
        parts.push(first);
        let bind = |part| self.deeper(place, |binder| binder.set_expr(part));
        let bound = parts.into_iter().rev().map(bind).collect::<Result<Vec<_>, _>>()?;
        let (inputs, outputs) = self.unify(bound, place)?;
        let columns: Vec<ColumnId> = outputs.iter().map(|output| output.id).collect();
        let union = Relation::new(Op::UnionAll { inputs }, columns);
        Ok(if all { Bound::new(union, outputs) } else { self.distinct(Bound::new(union, outputs)) })
    }

    /// Gives queries the same types, column by column; the outputs are new columns.
    fn unify(
        &mut self,
        parts: Vec<Bound>,
        place: crate::error::SourcePosition,
    ) -> Result<(Vec<Relation>, Vec<Output>), SqlError> {
        let width = parts[0].outputs.len();
        let mut kinds: Vec<Option<SqlType>> = vec![None; width];
        for part in &parts {
            if part.outputs.len() != width {
                let message =
                    format!("both queries need equally many columns, and here are {width} and {}", part.outputs.len());
                return Err(SqlError::wrong_type(place, message));
            }
            for (kind, output) in kinds.iter_mut().zip(&part.outputs).filter(|(_, output)| !output.is_null) {
                let common = kind.as_ref().map_or(Some(output.kind.clone()), |kind| kind.common(&output.kind));
                if common.is_none() {
                    let other = kind.as_ref().map_or_else(String::new, SqlType::to_string);
                    let message =
                        format!("column {} is {other} in one query and {} in another", output.name, output.kind);
                    return Err(SqlError::wrong_type(place, message));
                }
                *kind = common;
            }
        }
        let outputs: Vec<Output> = parts[0]
            .outputs
            .iter()
            .zip(&kinds)
            .map(|(output, kind)| {
                let (known, is_null) = (kind.clone().unwrap_or_else(|| output.kind.clone()), kind.is_none());
                Output {
                    id: self.columns.add(&output.name, known.clone()),
                    name: output.name.clone(),
                    kind: known,
                    is_null,
                }
            })
            .collect();
        let mut relations = Vec::with_capacity(parts.len());
        for part in parts {
            let mut exprs = Vec::with_capacity(width);
            for (from, to) in part.outputs.iter().zip(&outputs) {
                let expr = if from.is_null {
                    Expr::null(to.kind.clone())
                } else {
                    cast(self.columns.expr(from.id), to.kind.clone())
                };
                exprs.push((self.columns.add(&from.name, to.kind.clone()), expr));
            }
            relations.push(Relation::project(part.relation, exprs));
        }
        Ok((relations, outputs))
    }

    fn values(&mut self, values: &'a ast::Values) -> Result<Bound, SqlError> {
        let width = values.rows.first().map_or(0, |row| row.len());
        let mut kinds: Vec<Option<SqlType>> = vec![None; width];
        let mut exprs: Vec<Vec<Expr>> = Vec::with_capacity(values.rows.len());
        self.scopes.push(Scope { clause: "VALUES", ..Scope::default() });
        for row in &values.rows {
            let mut of_row = Vec::with_capacity(width);
            for (column, expr) in row.iter().enumerate() {
                let place = self.place_of(expr);
                let value = self.expr(expr)?;
                if column >= width || row.len() != width {
                    let message = format!("the first row has {width} values, and this one has {}", row.len());
                    return Err(SqlError::wrong_type(place, message));
                }
                if !value.is_null_literal() {
                    let known = kinds[column].as_ref();
                    let kind = known.map_or(Some(value.kind()), |kind| kind.common(value.kind_ref()));
                    let other = known.map_or_else(String::new, SqlType::to_string);
                    let message =
                        || format!("a column of VALUES is {other} in one row and {} in another", value.kind());
                    kinds[column] = Some(kind.ok_or_else(|| SqlError::wrong_type(place, message()))?);
                }
                of_row.push(value);
            }
            exprs.push(of_row);
        }
        let scope = self.scopes.pop().expect("it was pushed");
        let place = self.place_of(values);
        if !scope.attached.is_empty() {
            return Err(SqlError::unsupported(place, "a subquery within VALUES"));
        }
        let outputs: Vec<Output> = kinds
            .iter()
            .enumerate()
            .map(|(column, kind)| {
                let (name, known) = (format!("column{}", column + 1), kind.clone().unwrap_or(SqlType::BigInt));
                Output { id: self.columns.add(&name, known.clone()), name, kind: known, is_null: kind.is_none() }
            })
            .collect();
        let mut rows = Vec::with_capacity(exprs.len());
        // The plan holds the values.
        let (stop, asked) = (self.stop, Cell::new(0));
        let ask =
            |bytes: u64| match stop.count_bytes(bytes.saturating_sub(asked.replace(bytes.max(asked.get()))) as usize) {
                true => Err("VALUES has more text than a plan may hold".into()),
                false => Ok(()),
            };
        let room = Room::new(&ask);
        for row in exprs {
            let value = |(expr, output): (Expr, &Output)| {
                let expr = if expr.is_null_literal() {
                    Expr::null(output.kind.clone())
                } else {
                    cast(expr, output.kind.clone())
                };
                if let Some(column) = expr.columns().first() {
                    let message = format!("VALUES can't name the column {}", self.columns.name(*column));
                    return Err(SqlError::wrong_type(place, message));
                }
                let value = constant(&expr, &room);
                stop.check()?;
                value.map_err(|error| SqlError::wrong_type(place, error.to_string()))
            };
            rows.push(row.into_iter().zip(&outputs).map(value).collect::<Result<Vec<Value>, _>>()?);
        }
        let columns = outputs.iter().map(|output| output.id).collect();
        Ok(Bound::new(Relation::new(Op::Values { rows }, columns), outputs))
    }

    fn select(
        &mut self,
        select: &'a ast::Select,
        order_by: Option<&'a ast::OrderBy>,
        correlates: bool,
    ) -> Result<Bound, SqlError> {
        self.refuse(select)?;
        self.scopes.push(Scope { clause: "FROM", ..Scope::default() });
        let bound = self.select_in_scope(select, order_by, correlates);
        self.scopes.pop();
        bound
    }

    fn select_in_scope(
        &mut self,
        select: &'a ast::Select,
        order_by: Option<&'a ast::OrderBy>,
        correlates: bool,
    ) -> Result<Bound, SqlError> {
        let place = self.place(select.select_token.0.span);
        let mut relation = self.from(&select.from)?;
        let mut correlated = Vec::new();
        if let Some(condition) = &select.selection {
            self.scope().clause = "WHERE";
            relation = self.filtered(relation, condition, if correlates { Some(&mut correlated) } else { None })?;
        }
        let named = |item: &'a ast::SelectItem| match item {
            ast::SelectItem::ExprWithAlias { expr, alias } => Some((alias.value.clone(), expr)),
            _ => None,
        };
        self.scope().aliases = select.projection.iter().filter_map(named).collect();

        self.scope().clause = "GROUP BY";
        let (written_keys, is_grouped) = self.group_keys(select)?;
        let attached = std::mem::take(&mut self.scope().attached);
        relation = self.attach(relation, attached)?;

        self.scope().clause = "SELECT";
        self.scope().aggregates = Some(Aggregates::default());
        // Aliases don't see each other.
        let aliases = std::mem::take(&mut self.scope().aliases);
        let mut items = self.items(select)?;
        self.scope().aliases = aliases;
        self.scope().clause = "HAVING";
        let mut having = Vec::new();
        if let Some(condition) = &select.having {
            let condition_place = self.place_of(condition);
            let bound = self.expr(condition)?;
            self.boolean(bound, condition_place)?.split_and(&mut having);
        }
        self.scope().clause = "ORDER BY";
        let mut order = self.order_keys(order_by, &items)?;

        let aggregates = self.scope().aggregates.take().expect("it was set");
        let mut attached = std::mem::take(&mut self.scope().attached);
        let mut lifted = None;
        let is_grouped_or_folded = is_grouped || select.having.is_some() || !aggregates.folds.is_empty();
        if is_grouped_or_folded {
            relation = self.attach(relation, aggregates.attached)?;
            let mut keys: Vec<(ColumnId, Expr)> = Vec::new();
            for (name, key) in written_keys {
                if !keys.iter().any(|(_, known)| *known == key) {
                    keys.push((self.columns.add(name, key.kind()), key));
                }
            }
            let written = keys.len();
            correlated = self.correlated_keys(correlated, &relation, &mut keys, place)?;
            if keys.len() > written && !is_grouped {
                // A subquery without GROUP BY has a row even if there are no rows.
                let [(_, expr, _, _)] = &items[..] else {
                    return Err(SqlError::unsupported(
                        place,
                        "an aggregate with several columns, over outer columns, it",
                    ));
                };
                if !having.is_empty() {
                    return Err(SqlError::unsupported(
                        place,
                        "HAVING in a subquery that names columns of an outer query",
                    ));
                }
                lifted = Some(expr.clone());
            }
            let folds = aggregates.folds;
            let mut columns: Vec<ColumnId> = keys.iter().map(|(id, _)| *id).collect();
            columns.extend(folds.iter().map(|fold| fold.output));
            let before = relation.columns.clone();
            let regroup = aggregate::Regroup { keys: &keys, before: &before, columns: self.columns };
            for (_, expr, at, _) in &mut items {
                *expr = regroup.regrouped(std::mem::replace(expr, Expr::truth(true)), *at)?;
            }
            for condition in &mut having {
                *condition = regroup.regrouped(std::mem::replace(condition, Expr::truth(true)), place)?;
            }
            for one in &mut order {
                if let Key::Expr(expr) = &mut one.by {
                    *expr = regroup.regrouped(std::mem::replace(expr, Expr::truth(true)), place)?;
                }
            }
            for one in &mut attached {
                one.each_outer(&mut |expr| regroup.regrouped(expr, place))?;
            }
            if let Some(expr) = &mut lifted {
                *expr = regroup.regrouped(std::mem::replace(expr, Expr::truth(true)), place)?;
                *expr = aggregate::counts_from_zero(std::mem::replace(expr, Expr::truth(true)), &folds);
            }
            relation = self.grouped(relation, keys, folds, columns);
        }
        relation = self.attach(relation, attached)?;
        relation = Relation::filter(relation, having);
        if let Some((list, item)) = self.scope().unnested.take() {
            if is_grouped_or_folded {
                return Err(SqlError::unsupported(place, "UNNEST beside aggregates or GROUP BY"));
            }
            relation = Relation::unnest(relation, list, item);
        }
        if let Some(value) = lifted {
            let kind = value.kind();
            let outputs = vec![Output { name: String::new(), id: ColumnId(u32::MAX), kind, is_null: false }];
            return Ok(Bound { relation, outputs, correlated, lifted: Some(value) });
        }
        let is_distinct = match &select.distinct {
            None | Some(ast::Distinct::All) => false,
            Some(ast::Distinct::Distinct) => true,
            Some(ast::Distinct::On(_)) => return Err(SqlError::unsupported(place, "DISTINCT ON")),
        };
        self.finish(relation, items, order, correlated, is_distinct, place)
    }

    /// The projection, DISTINCT and the sort.
    fn finish(
        &mut self,
        relation: Relation,
        items: Vec<Item>,
        order: Vec<Ordered>,
        correlated: Vec<Expr>,
        is_distinct: bool,
        place: crate::error::SourcePosition,
    ) -> Result<Bound, SqlError> {
        let (mut outputs, mut exprs) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
        for (name, expr, _, _) in items {
            let (kind, is_null) = (expr.kind(), expr.is_null_literal());
            let id = self.columns.add(&name, kind.clone());
            outputs.push(Output { name, id, kind, is_null });
            exprs.push((id, expr));
        }
        let mut by = Vec::with_capacity(order.len());
        for Ordered { by: key, descending, nulls_last } in order {
            let expr = match key {
                Key::Output(place) => exprs[place].1.clone(),
                Key::Expr(expr) => expr,
            };
            let known = exprs.iter().find(|(_, known)| *known == expr).map(|(id, _)| *id);
            let column = match known {
                // Boxes sort doubles by their bits.
                Some(id) if !expr.kind_ref().has_doubles() => id,
                _ if is_distinct && known.is_none() => {
                    let message = "with DISTINCT, rows can be ordered only by what is selected";
                    return Err(SqlError::wrong_type(place, message));
                }
                Some(id) if is_distinct => id,
                _ => {
                    let id = self.columns.add("sort key", expr.kind());
                    let kind = expr.kind();
                    let expr = match kind.has_doubles() {
                        true => Expr::Call(Function::Canonical, vec![expr], kind),
                        false => expr,
                    };
                    exprs.push((id, expr));
                    id
                }
            };
            by.push(SortBy { column, descending, nulls_last });
        }
        for condition in &correlated {
            for column in condition.columns().into_iter().filter(|column| relation.has(*column)) {
                if !exprs.iter().any(|(id, _)| *id == column) {
                    exprs.push((column, self.columns.expr(column)));
                }
            }
        }
        let mut bound = Bound::new(Relation::project(relation, exprs), outputs);
        bound.correlated = correlated;
        if is_distinct {
            bound = self.distinct(bound);
        }
        if !by.is_empty() {
            let columns = bound.relation.columns.clone();
            // Groups have their doubles in one form already.
            bound.relation = Relation::new(Op::Sort { input: Box::new(bound.relation), by, most: None }, columns);
        }
        Ok(bound)
    }

    /// Each row once.
    pub(super) fn distinct(&mut self, bound: Bound) -> Bound {
        let Bound { relation, outputs, correlated, lifted } = bound;
        let columns = relation.columns.clone();
        let keys = columns.iter().map(|&id| (id, self.columns.expr(id))).collect();
        // A column keeps its number: nothing above reads the one below.
        let op = Op::Aggregate { input: Box::new(relation), keys, folds: Vec::new() };
        Bound { relation: Relation::new(op, columns), outputs, correlated, lifted }
    }

    /// ORDER BY over the outputs of a set operation.
    fn order_outputs(&mut self, bound: Bound, order_by: Option<&'a ast::OrderBy>) -> Result<Bound, SqlError> {
        if order_by.is_none() {
            return Ok(bound);
        }
        let named = |output: &Output| super::NamedColumn { name: output.name.clone(), id: output.id, is_merged: false };
        let table = super::NamedTable { name: None, columns: bound.outputs.iter().map(named).collect() };
        self.scopes.push(Scope { tables: vec![table], clause: "ORDER BY", ..Scope::default() });
        let items: Vec<Item> = bound
            .outputs
            .iter()
            .map(|output| {
                (output.name.clone(), self.columns.expr(output.id), crate::error::SourcePosition::default(), true)
            })
            .collect();
        let order = self.order_keys(order_by, &items);
        let scope = self.scopes.pop().expect("it was pushed");
        if !scope.attached.is_empty() {
            return Err(SqlError::unsupported(
                self.place_of(order_by.expect("it is there")),
                "a subquery in this ORDER BY",
            ));
        }
        let nulls: Vec<bool> = bound.outputs.iter().map(|output| output.is_null).collect();
        let mut bound =
            self.finish(bound.relation, items, order?, Vec::new(), false, crate::error::SourcePosition::default())?;
        bound.outputs.iter_mut().zip(nulls).for_each(|(output, is_null)| output.is_null = is_null);
        Ok(bound)
    }

    fn order_keys(&mut self, order_by: Option<&'a ast::OrderBy>, items: &[Item]) -> Result<Vec<Ordered>, SqlError> {
        let Some(order_by) = order_by else { return Ok(Vec::new()) };
        let place = self.place_of(order_by);
        let keys = match &order_by.kind {
            ast::OrderByKind::Expressions(keys) if order_by.interpolate.is_none() => keys,
            _ => return Err(SqlError::unsupported(place, "ORDER BY ALL")),
        };
        let mut ordered = Vec::with_capacity(keys.len());
        for key in keys {
            let place = self.place_of(&key.expr);
            let descending = match &key.options.sort {
                None | Some(ast::OrderBySort::Asc) => false,
                Some(ast::OrderBySort::Desc) => true,
                #[allow(unreachable_patterns, reason = "the parser may know more in its next version")]
                Some(_) => return Err(SqlError::unsupported(place, "ORDER BY USING")),
            };
            // Nulls are greater than all values.
            let nulls_last = key.options.nulls_first.map_or(!descending, |first| !first);
            if key.with_fill.is_some() {
                return Err(SqlError::unsupported(place, "WITH FILL"));
            }
            let by = match &key.expr {
                ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(number, _), .. }) => {
                    Key::Output(self.ordinal(number, items.len(), place)?)
                }
                ast::Expr::Identifier(name) => {
                    match items.iter().position(|(known, _, _, is_named)| *is_named && is_name(name, known)) {
                        Some(output) => Key::Output(output),
                        None => Key::Expr(self.expr(&key.expr)?),
                    }
                }
                expr => Key::Expr(self.expr(expr)?),
            };
            ordered.push(Ordered { by, descending, nulls_last });
        }
        Ok(ordered)
    }

    /// The place of an output that is given by its number.
    pub(super) fn ordinal(
        &self,
        number: &str,
        outputs: usize,
        place: crate::error::SourcePosition,
    ) -> Result<usize, SqlError> {
        match number.parse::<usize>() {
            Ok(number) if (1..=outputs).contains(&number) => Ok(number - 1),
            _ => {
                let message = format!("{number} is no column of the select list, which has {outputs}");
                Err(SqlError::new(SqlErrorKind::Type, place, message))
            }
        }
    }

    /// The select list.
    fn items(&mut self, select: &'a ast::Select) -> Result<Vec<Item>, SqlError> {
        let mut items: Vec<Item> = Vec::new();
        for item in &select.projection {
            let place = self.place_of(item);
            match item {
                ast::SelectItem::UnnamedExpr(expr) => {
                    let (name, is_named) = self.name_of(expr);
                    items.push((name, self.expr(expr)?, place, is_named));
                }
                ast::SelectItem::ExprWithAlias { expr, alias } => {
                    items.push((alias.value.clone(), self.expr(expr)?, place, true));
                }
                ast::SelectItem::Wildcard(options) => {
                    self.refuse_options(options)?;
                    let place = self.place(options.wildcard_token.0.span);
                    let before = items.len();
                    for table in self.scope().tables.clone() {
                        for column in table.columns.into_iter().filter(|column| !column.is_merged) {
                            self.step()?;
                            items.push((column.name, self.used(column.id, place)?, place, true));
                        }
                    }
                    if items.len() == before {
                        let message = "* stands for all columns of the tables in FROM, and there are none";
                        return Err(SqlError::wrong_type(place, message));
                    }
                }
                ast::SelectItem::QualifiedWildcard(kind, options) => {
                    self.refuse_options(options)?;
                    let ast::SelectItemQualifiedWildcardKind::ObjectName(name) = kind else {
                        return Err(SqlError::unsupported(place, "* of an expression"));
                    };
                    let Some(ast::ObjectNamePart::Identifier(wanted)) = name.0.last() else {
                        return Err(SqlError::unsupported(place, "this name before .*"));
                    };
                    let tables = self.scope().tables.clone();
                    let table = tables.iter().find(|one| one.name.as_ref().is_some_and(|name| is_name(wanted, name)));
                    let Some(table) = table else {
                        let names = tables.iter().filter_map(|table| table.name.as_deref());
                        return Err(self.unknown(self.place(wanted.span), "table", &wanted.value, names));
                    };
                    for column in &table.columns {
                        items.push((column.name.clone(), self.used(column.id, place)?, place, true));
                    }
                }
                _ => return Err(SqlError::unsupported(place, "several aliases of one expression")),
            }
        }
        Ok(items)
    }

    /// The name of an output without an alias, and whether it is a column's.
    fn name_of(&self, expr: &ast::Expr) -> (String, bool) {
        match expr {
            ast::Expr::Identifier(name) => (name.value.clone(), true),
            ast::Expr::CompoundIdentifier(names) => {
                (names.last().map_or_else(String::new, |name| name.value.clone()), true)
            }
            ast::Expr::Nested(inner) => self.name_of(inner),
            other => {
                const LONGEST: usize = 64;
                let text = of_levels(self.parsed.levels(), LARGER * 4096, || other.to_string());
                (text.chars().take(LONGEST).collect(), false)
            }
        }
    }

    fn limits(
        &mut self,
        clause: Option<&'a ast::LimitClause>,
        fetch: Option<&'a ast::Fetch>,
    ) -> Result<(u64, Option<u64>), SqlError> {
        let (mut offset, mut count) = (0, None);
        match clause {
            None => {}
            Some(ast::LimitClause::LimitOffset { limit, offset: from, limit_by }) => {
                if let Some(by) = limit_by.first() {
                    return Err(SqlError::unsupported(self.place_of(by), "LIMIT BY"));
                }
                if let Some(limit) = limit {
                    count = self.count(limit, "LIMIT")?;
                }
                if let Some(from) = from {
                    offset = self.count(&from.value, "OFFSET")?.unwrap_or(0);
                }
            }
            Some(ast::LimitClause::OffsetCommaLimit { offset: from, limit }) => {
                offset = self.count(from, "LIMIT")?.unwrap_or(0);
                count = self.count(limit, "LIMIT")?;
            }
        }
        if let Some(fetch) = fetch {
            if fetch.with_ties || fetch.percent {
                let place = fetch.quantity.as_ref().map(|quantity| self.place_of(quantity)).unwrap_or_default();
                return Err(SqlError::unsupported(place, "FETCH WITH TIES or PERCENT"));
            }
            count = match &fetch.quantity {
                Some(quantity) => self.count(quantity, "FETCH")?,
                None => Some(1),
            };
        }
        Ok((offset, count))
    }

    /// A number of rows; none if it is NULL.
    fn count(&mut self, expr: &'a ast::Expr, clause: &'static str) -> Result<Option<u64>, SqlError> {
        let place = self.place_of(expr);
        self.scopes.push(Scope { clause, ..Scope::default() });
        let bound = self.expr(expr);
        let scope = self.scopes.pop().expect("it was pushed");
        let bound = bound?;
        if scope.attached.is_empty() && bound.columns().is_empty() {
            /// A number of rows is no long text, and is not made of one.
            const MOST: u64 = 256 << 10;
            let ask = |bytes| if bytes > MOST { Err("it is a long text".into()) } else { Ok(()) };
            match constant(&bound, &Room::new(&ask)) {
                Ok(Value::Null) => return Ok(None),
                Ok(Value::BigInt(count)) if count >= 0 => return Ok(Some(count as u64)),
                _ => {}
            }
        }
        Err(SqlError::wrong_type(place, format!("{clause} needs a number of rows that isn't negative")))
    }

    fn refuse(&self, select: &ast::Select) -> Result<(), SqlError> {
        let place = self.place(select.select_token.0.span);
        for (is_there, what) in [
            (select.top.is_some(), "TOP"),
            (select.exclude.is_some(), "EXCLUDE"),
            (select.into.is_some(), "SELECT INTO"),
            (!select.lateral_views.is_empty(), "LATERAL VIEW"),
            (select.prewhere.is_some(), "PREWHERE"),
            (!select.connect_by.is_empty(), "CONNECT BY"),
            (!select.cluster_by.is_empty(), "CLUSTER BY"),
            (!select.distribute_by.is_empty(), "DISTRIBUTE BY"),
            (!select.sort_by.is_empty(), "SORT BY"),
            (!select.named_window.is_empty(), "WINDOW"),
            (select.qualify.is_some(), "QUALIFY"),
            (select.value_table_mode.is_some(), "SELECT AS STRUCT or VALUE"),
            (select.projection.is_empty(), "a SELECT without columns"),
        ] {
            if is_there {
                return Err(SqlError::unsupported(place, what));
            }
        }
        Ok(())
    }

    fn refuse_options(&self, options: &ast::WildcardAdditionalOptions) -> Result<(), SqlError> {
        let is_plain = options.opt_ilike.is_none()
            && options.opt_exclude.is_none()
            && options.opt_except.is_none()
            && options.opt_replace.is_none()
            && options.opt_rename.is_none()
            && options.opt_alias.is_none();
        let place = self.place(options.span());
        if is_plain { Ok(()) } else { Err(SqlError::unsupported(place, "* with EXCLUDE, REPLACE or RENAME")) }
    }
}

/// An output: its name, its expression, its place, and whether ORDER BY can use the name.
type Item = (String, Expr, crate::error::SourcePosition, bool);

impl Bound {
    pub(super) fn new(relation: Relation, outputs: Vec<Output>) -> Bound {
        Bound { relation, outputs, correlated: Vec::new(), lifted: None }
    }
}

/// The expression, as a value of this type, to which its own can be cast.
pub(super) fn cast(expr: Expr, kind: SqlType) -> Expr {
    if expr.kind() == kind { expr } else { Expr::Call(Function::Cast(false), vec![expr], kind) }
}
