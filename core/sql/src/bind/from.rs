//! FROM: tables, joins, derived tables, WITH and table functions.

use super::{Binder, NamedColumn, NamedTable, is_name};
use crate::error::{SourcePosition, SqlError, SqlErrorKind};
use crate::expression::{ColumnId, Comparison, Expr, Function};
use crate::relation::{JoinKind, Op, Relation};
use crate::table::Table;
use crate::types::SqlType;
use sqlparser::ast::{self, Spanned};
use std::sync::Arc;

/// The clause of a list whose values become rows.
const UNNEST: &str = "UNNEST";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Inner,
    Left,
    Right,
    Full,
}

impl<'a> Binder<'a> {
    pub(super) fn from(&mut self, from: &'a [ast::TableWithJoins]) -> Result<Relation, SqlError> {
        let mut all: Option<Relation> = None;
        for one in from {
            if unnested(&one.relation).is_some() {
                // Only lists see the tables before it: they are on the left side of its joins, but not in brackets.
                let mut before = std::mem::take(&mut self.scope().tables);
                let is_first = all.is_none();
                let left = all.unwrap_or_else(Relation::one_row);
                let mut relation = self.unnest(left, &one.relation, &mut before)?;
                for join in &one.joins {
                    let place = self.place_of_join(join);
                    if !is_first && matches!(side_of(join, place)?.0, Side::Right | Side::Full) {
                        let message = "a RIGHT or FULL JOIN of UNNEST after a comma";
                        return Err(SqlError::unsupported(place, message));
                    }
                    relation = self.deeper(place, |binder| binder.join(relation, join, place, &mut before))?;
                }
                let own = std::mem::replace(&mut self.scope().tables, before);
                self.add_tables(own, self.place_of(one))?;
                all = Some(relation);
                continue;
            }
            // Its conditions don't see the tables before it.
            let before = std::mem::take(&mut self.scope().tables);
            let relation = self.joined(one)?;
            let own = std::mem::replace(&mut self.scope().tables, before);
            self.add_tables(own, self.place_of(one))?;
            all = Some(match all {
                None => relation,
                Some(left) => Relation::join(left, relation, JoinKind::Inner, Vec::new(), Vec::new()),
            });
        }
        Ok(all.unwrap_or_else(Relation::one_row))
    }

    fn add_tables(&mut self, more: Vec<NamedTable>, place: SourcePosition) -> Result<(), SqlError> {
        for table in more {
            let is_same = |one: &&NamedTable| {
                let (a, b) = (one.name.as_ref(), table.name.as_ref());
                a.zip(b).is_some_and(|(a, b)| a.to_lowercase() == b.to_lowercase())
            };
            if let Some(same) = self.scope().tables.iter().find(is_same) {
                let name = same.name.clone().unwrap_or_default();
                let message = format!("{name} is the name of two tables: give one of them an alias");
                return Err(SqlError::new(SqlErrorKind::Ambiguous, place, message));
            }
            self.scope().tables.push(table);
        }
        Ok(())
    }

    fn joined(&mut self, tables: &'a ast::TableWithJoins) -> Result<Relation, SqlError> {
        let mut left = self.factor(&tables.relation)?;
        for join in &tables.joins {
            let place = self.place_of_join(join);
            left = self.deeper(place, |binder| binder.join(left, join, place, &mut Vec::new()))?;
        }
        Ok(left)
    }

    fn place_of_join(&self, join: &ast::Join) -> SourcePosition {
        let place = self.place_of(join);
        if place.line == 0 { self.place_of(&join.relation) } else { place }
    }

    /// `before` are tables of the left side that only the list of UNNEST sees.
    fn join(
        &mut self,
        left: Relation,
        join: &'a ast::Join,
        place: SourcePosition,
        before: &mut Vec<NamedTable>,
    ) -> Result<Relation, SqlError> {
        let (side, constraint) = side_of(join, place)?;
        if unnested(&join.relation).is_some() {
            return match constraint {
                ast::JoinConstraint::None if side == Side::Inner => self.unnest(left, &join.relation, before),
                ast::JoinConstraint::On(condition) if side == Side::Inner => {
                    let relation = self.unnest(left, &join.relation, before)?;
                    self.scope().clause = "ON";
                    self.filtered(relation, condition, None)
                }
                _ => {
                    Err(SqlError::unsupported(place, "UNNEST in another join than an inner one with ON or CROSS JOIN"))
                }
            };
        }
        let of_left = std::mem::take(&mut self.scope().tables);
        let right = self.factor(&join.relation)?;
        let own = std::mem::replace(&mut self.scope().tables, of_left);
        match constraint {
            ast::JoinConstraint::On(condition) => {
                self.add_tables(own, place)?;
                self.scope().clause = "ON";
                if side == Side::Inner {
                    let cross = Relation::join(left, right, JoinKind::Inner, Vec::new(), Vec::new());
                    return self.filtered(cross, condition, None);
                }
                let condition_place = self.place_of(condition);
                let bound = self.expr(condition)?;
                let mut conditions = Vec::new();
                self.boolean(bound, condition_place)?.split_and(&mut conditions);
                if !self.scope().attached.is_empty() {
                    return Err(SqlError::unsupported(condition_place, "a subquery in the ON of an outer join"));
                }
                Ok(outer_join(left, right, side, conditions))
            }
            ast::JoinConstraint::Using(names) => {
                let mut wanted = Vec::with_capacity(names.len());
                for name in names {
                    match name.0.as_slice() {
                        [ast::ObjectNamePart::Identifier(name)] => wanted.push(name.clone()),
                        _ => return Err(SqlError::unsupported(place, "a name with dots in USING")),
                    }
                }
                self.using(left, right, own, side, &wanted, place)
            }
            ast::JoinConstraint::Natural => {
                let left_names: Vec<String> = self.visible_names();
                let common = |column: &&NamedColumn| {
                    !column.is_merged && left_names.iter().any(|name| name.to_lowercase() == column.name.to_lowercase())
                };
                let columns = own.iter().flat_map(|table| &table.columns).filter(common);
                let wanted: Vec<ast::Ident> = columns.map(|column| ast::Ident::new(&column.name)).collect();
                self.using(left, right, own, side, &wanted, place)
            }
            ast::JoinConstraint::None => {
                if side != Side::Inner {
                    return Err(SqlError::new(SqlErrorKind::Syntax, place, "an outer join needs ON or USING"));
                }
                self.add_tables(own, place)?;
                Ok(Relation::join(left, right, JoinKind::Inner, Vec::new(), Vec::new()))
            }
            ast::JoinConstraint::UsingAlias(..) => Err(SqlError::unsupported(place, "USING with an alias")),
        }
    }

    fn visible_names(&mut self) -> Vec<String> {
        let columns = self.scope().tables.iter().flat_map(|table| &table.columns);
        columns.filter(|column| !column.is_merged).map(|column| column.name.clone()).collect()
    }

    /// A join by columns of the same name, which become one.
    fn using(
        &mut self,
        left: Relation,
        right: Relation,
        mut own: Vec<NamedTable>,
        side: Side,
        names: &[ast::Ident],
        place: SourcePosition,
    ) -> Result<Relation, SqlError> {
        let (mut conditions, mut merged, mut coalesced) = (Vec::new(), Vec::new(), Vec::new());
        for name in names {
            let place = if name.span.start.line == 0 { place } else { self.place(name.span) };
            let mut sides = Vec::with_capacity(2);
            for (which, tables) in [("left", &mut self.scope().tables), ("right", &mut own)] {
                let mut found: Vec<&mut NamedColumn> = tables
                    .iter_mut()
                    .flat_map(|table| &mut table.columns)
                    .filter(|column| !column.is_merged && is_name(name, &column.name))
                    .collect();
                if found.len() != 1 {
                    let several = if found.is_empty() { "no column" } else { "several columns" };
                    let message = format!("the {which} side of the join has {several} of the name {}", name.value);
                    return Err(SqlError::new(SqlErrorKind::Unknown { near: Vec::new() }, place, message));
                }
                found[0].is_merged = true;
                sides.push(found[0].id);
            }
            let (a, b) = (sides[0], sides[1]);
            let (left_expr, right_expr) = self.common(self.used(a, place)?, self.used(b, place)?, place)?;
            let id = match side {
                Side::Inner | Side::Left => a,
                Side::Right => b,
                Side::Full => {
                    let kind = left_expr.kind();
                    let both = vec![left_expr.clone(), right_expr.clone()];
                    let id = self.columns.add(&name.value, kind.clone());
                    coalesced.push((id, Expr::Call(Function::Coalesce, both, kind)));
                    id
                }
            };
            merged.push(NamedColumn { name: name.value.clone(), id, is_merged: false });
            conditions.push(Expr::compare(Comparison::Equal, left_expr, right_expr));
        }
        self.add_tables(own, place)?;
        self.scope().tables.insert(0, NamedTable { name: None, columns: merged });
        let mut joined = match side {
            Side::Inner => {
                let cross = Relation::join(left, right, JoinKind::Inner, Vec::new(), Vec::new());
                Relation::filter(cross, conditions)
            }
            side => outer_join(left, right, side, conditions),
        };
        if !coalesced.is_empty() {
            let mut exprs: Vec<_> = joined.columns.iter().map(|&id| (id, self.columns.expr(id))).collect();
            exprs.extend(coalesced);
            joined = Relation::project(joined, exprs);
        }
        Ok(joined)
    }

    /// The values of a list as rows, beside each row of the tables before it, whose columns the list may name; also
    /// those of `before`, that the scope does not have.
    fn unnest(
        &mut self,
        left: Relation,
        factor: &'a ast::TableFactor,
        before: &mut Vec<NamedTable>,
    ) -> Result<Relation, SqlError> {
        let place = self.place_of(factor);
        self.count_join(place)?;
        let (alias, lists) = unnested(factor).expect("it is one");
        let [list] = lists[..] else {
            return Err(SqlError::unsupported(place, "UNNEST of several lists, or WITH ORDINALITY, it"));
        };
        let at = self.place_of(list);
        self.scope().clause = UNNEST;
        let count = before.len();
        self.scope().tables.splice(0..0, before.drain(..));
        let list = self.expr(list);
        before.extend(self.scope().tables.drain(..count));
        self.scope().clause = "FROM";
        let list = list?;
        if !self.scope().attached.is_empty() {
            return Err(SqlError::unsupported(at, "a subquery within UNNEST"));
        }
        let (list, item) = self.items_of(list, at)?;
        let relation = Relation::unnest(left, list, item);
        self.name_columns(Some("unnest".to_owned()), vec![("unnest".to_owned(), item)], alias, place)?;
        Ok(relation)
    }

    /// A list, and a new column for its values.
    fn items_of(&mut self, list: Expr, at: SourcePosition) -> Result<(Expr, ColumnId), SqlError> {
        let SqlType::List(of) = list.kind() else {
            return Err(SqlError::wrong_type(at, format!("UNNEST needs a list, and this is a {}", list.kind())));
        };
        let item = self.columns.add("unnest", SqlType::clone(&of));
        Ok((list, item))
    }

    /// UNNEST in SELECT: each row comes once for each value of the list.
    pub(super) fn unnest_in_select(
        &mut self,
        function: &'a ast::Function,
        place: SourcePosition,
    ) -> Result<Expr, SqlError> {
        let is_inside = self.scope().aggregates.as_ref().is_some_and(|aggregates| aggregates.is_inside);
        if self.scope().clause == UNNEST {
            return Err(SqlError::unsupported(place, "UNNEST within UNNEST"));
        }
        if self.scope().clause != "SELECT" || is_inside {
            return Err(SqlError::unsupported(place, "UNNEST elsewhere than in SELECT and FROM"));
        }
        if self.scope().unnested.is_some() {
            return Err(SqlError::unsupported(place, "a second UNNEST in one SELECT"));
        }
        let list = match &function.args {
            ast::FunctionArguments::List(list) if list.duplicate_treatment.is_none() && list.clauses.is_empty() => {
                match &list.args[..] {
                    [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(list))] => list,
                    _ => return Err(SqlError::wrong_type(place, "UNNEST needs one list")),
                }
            }
            _ => return Err(SqlError::wrong_type(place, "UNNEST needs one list")),
        };
        let at = self.place_of(list);
        self.scope().clause = UNNEST;
        let list = self.expr(list);
        self.scope().clause = "SELECT";
        let (list, item) = self.items_of(list?, at)?;
        let kind = self.columns.kind(item);
        self.scope().unnested = Some((list, item));
        Ok(Expr::Column(item, kind))
    }

    fn factor(&mut self, factor: &'a ast::TableFactor) -> Result<Relation, SqlError> {
        let place = self.place_of(factor);
        self.count_join(place)?;
        match factor {
            ast::TableFactor::Table {
                name, alias, args, with_hints, version, sample, partitions, json_path, ..
            } => {
                let is_plain = with_hints.is_empty()
                    && version.is_none()
                    && sample.is_none()
                    && partitions.is_empty()
                    && json_path.is_none();
                if !is_plain {
                    return Err(SqlError::unsupported(place, "a table with hints, versions or samples"));
                }
                let parts = parts_of(name, place)?;
                if let Some(args) = args {
                    let [name] = parts[..] else {
                        return Err(SqlError::unsupported(place, "a table function whose name has dots"));
                    };
                    return self.table_function(name, &args.args, alias.as_ref());
                }
                if let [name] = parts[..]
                    && let Some(cte) = self.find_cte(name)
                {
                    return self.cte(cte, name, alias.as_ref());
                }
                let table = self.find_table(&parts, place)?;
                let name = parts.last().expect("a name has a part").value.clone();
                self.scan(table, name, alias.as_ref(), place)
            }
            ast::TableFactor::Derived { lateral, subquery, alias, sample } => {
                if *lateral || sample.is_some() {
                    return Err(SqlError::unsupported(place, "LATERAL"));
                }
                // It doesn't see its neighbours.
                let tables = std::mem::take(&mut self.scope().tables);
                let bound = self.query(subquery, false)?;
                self.scope().tables = tables;
                let columns = bound.outputs.iter().map(|output| (output.name.clone(), output.id)).collect::<Vec<_>>();
                self.name_columns(None, columns, alias.as_ref(), place)?;
                Ok(bound.relation)
            }
            ast::TableFactor::NestedJoin { table_with_joins, alias } => {
                if alias.is_some() {
                    return Err(SqlError::unsupported(place, "an alias of a join in brackets"));
                }
                let before = std::mem::take(&mut self.scope().tables);
                let relation = self.deeper(place, |binder| binder.joined(table_with_joins))?;
                let own = std::mem::replace(&mut self.scope().tables, before);
                self.add_tables(own, place)?;
                Ok(relation)
            }
            ast::TableFactor::Function { lateral: false, name, args, with_ordinality: false, alias } => {
                match name.0.as_slice() {
                    [ast::ObjectNamePart::Identifier(name)] => self.table_function(name, args, alias.as_ref()),
                    _ => Err(SqlError::unsupported(place, "a table function whose name has dots")),
                }
            }
            _ => Err(SqlError::unsupported(place, "this form of a table in FROM")),
        }
    }

    fn scan(
        &mut self,
        table: Arc<dyn Table>,
        name: String,
        alias: Option<&'a ast::TableAlias>,
        place: SourcePosition,
    ) -> Result<Relation, SqlError> {
        let mut columns = Vec::with_capacity(table.columns().len());
        for column in table.columns() {
            self.step()?;
            let id = self.columns.add(&column.name, column.kind.clone());
            if let Some(why) = &column.unreadable {
                let why = format!("{name}: column {}: {why}", column.name);
                self.unreadable.insert(id, why);
            }
            columns.push((column.name.clone(), id));
        }
        let ids = columns.iter().map(|(_, id)| *id).collect::<Vec<_>>();
        self.name_columns(Some(name.clone()), columns, alias, place)?;
        let picked = (0..ids.len()).collect();
        Ok(Relation::new(Op::Scan { table, name, picked, ranges: Vec::new() }, ids))
    }

    /// Adds a table to the scope under its alias.
    pub(super) fn name_columns(
        &mut self,
        name: Option<String>,
        columns: Vec<(String, crate::expression::ColumnId)>,
        alias: Option<&'a ast::TableAlias>,
        place: SourcePosition,
    ) -> Result<(), SqlError> {
        let mut named: Vec<NamedColumn> =
            columns.into_iter().map(|(name, id)| NamedColumn { name, id, is_merged: false }).collect();
        let mut name = name;
        if let Some(alias) = alias {
            if alias.columns.len() > named.len() {
                let place = self.place(alias.name.span);
                let (has, given) = (named.len(), alias.columns.len());
                let message = format!("{} has {has} columns, and {given} names are given", alias.name.value);
                return Err(SqlError::wrong_type(place, message));
            }
            for (column, given) in named.iter_mut().zip(&alias.columns) {
                column.name.clone_from(&given.name.value);
            }
            name = Some(alias.name.value.clone());
        }
        self.add_tables(vec![NamedTable { name, columns: named }], place)
    }

    pub(super) fn find_table(&self, parts: &[&ast::Ident], place: SourcePosition) -> Result<Arc<dyn Table>, SqlError> {
        let written: Vec<String> = parts.iter().map(|part| part.value.clone()).collect();
        if let Some(table) = self.catalogue.table(&written) {
            return Ok(table);
        }
        let (full, names) = (written.join("."), self.catalogue.names());
        if parts.iter().all(|part| part.quote_style.is_none())
            && let Some(same) = names.iter().find(|name| name.to_lowercase() == full.to_lowercase())
        {
            let found = self.catalogue.table(std::slice::from_ref(same));
            let by_parts = || self.catalogue.table(&same.split('.').map(str::to_owned).collect::<Vec<_>>());
            if let Some(table) = found.or_else(by_parts) {
                return Ok(table);
            }
        }
        let ctes = std::iter::successors(self.innermost_cte, |&cte| self.ctes[cte].before);
        let ctes: Vec<&str> = ctes.map(|cte| self.ctes[cte].alias.name.value.as_str()).collect();
        Err(self.unknown(place, "table", &full, names.iter().map(String::as_str).chain(ctes)))
    }

    fn find_cte(&self, name: &ast::Ident) -> Option<usize> {
        let mut all = std::iter::successors(self.innermost_cte, |&cte| self.ctes[cte].before);
        all.find(|&cte| is_name(name, &self.ctes[cte].alias.name.value))
    }

    /// Each use of a query of WITH is bound by itself.
    fn cte(
        &mut self,
        cte: usize,
        name: &'a ast::Ident,
        alias: Option<&'a ast::TableAlias>,
    ) -> Result<Relation, SqlError> {
        let place = self.place(name.span);
        if let Some(round) = self.ctes[cte].round {
            return self.read_round(round, place, self.ctes[cte].alias, alias);
        }
        let scopes = std::mem::take(&mut self.scopes);
        let innermost = std::mem::replace(&mut self.innermost_cte, self.ctes[cte].before);
        let (query, is_recursive) = (self.ctes[cte].query, self.ctes[cte].is_recursive);
        let bound = self.deeper(place, |binder| match is_recursive {
            true => binder.recursive(cte),
            false => binder.query(query, false),
        });
        (self.scopes, self.innermost_cte) = (scopes, innermost);
        let bound = bound?;
        let mut columns: Vec<_> = bound.outputs.iter().map(|output| (output.name.clone(), output.id)).collect();
        let own = self.ctes[cte].alias;
        if own.columns.len() > columns.len() {
            let (has, given) = (columns.len(), own.columns.len());
            let message = format!("{} has {has} columns, and {given} names are given", own.name.value);
            return Err(SqlError::wrong_type(self.place(own.name.span), message));
        }
        for ((name, _), given) in columns.iter_mut().zip(&own.columns) {
            name.clone_from(&given.name.value);
        }
        self.name_columns(Some(own.name.value.clone()), columns, alias, place)?;
        Ok(bound.relation)
    }

    fn table_function(
        &mut self,
        name: &'a ast::Ident,
        args: &'a [ast::FunctionArg],
        alias: Option<&'a ast::TableAlias>,
    ) -> Result<Relation, SqlError> {
        let place = self.place(name.span);
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Value(literal))) = arg else {
                let message = format!("the arguments of {} have to be literals", name.value);
                return Err(SqlError::wrong_type(self.place(arg.span()), message));
            };
            values.push(match &literal.value {
                ast::Value::SingleQuotedString(text) | ast::Value::Number(text, _) => text.clone(),
                ast::Value::DollarQuotedString(text) => text.value.clone(),
                other => other.to_string(),
            });
        }
        match self.catalogue.function(&name.value, &values) {
            None => {
                let message = format!("there is no table function {}", name.value);
                Err(SqlError::new(SqlErrorKind::Unknown { near: Vec::new() }, place, message))
            }
            Some(Err(error)) => Err(SqlError::wrong_type(place, error)),
            Some(Ok(table)) => {
                let bytes = table.held_bytes();
                self.made_bytes = Some(self.made_bytes.unwrap_or(0).saturating_add(bytes));
                self.stop.count_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
                self.stop.check()?;
                self.scan(table, name.value.clone(), alias, place)
            }
        }
    }
}

/// The sort of a join, and its condition.
fn side_of(join: &ast::Join, place: SourcePosition) -> Result<(Side, &ast::JoinConstraint), SqlError> {
    Ok(match &join.join_operator {
        ast::JoinOperator::Join(constraint) | ast::JoinOperator::Inner(constraint) => (Side::Inner, constraint),
        ast::JoinOperator::CrossJoin(constraint) => (Side::Inner, constraint),
        ast::JoinOperator::Left(constraint) | ast::JoinOperator::LeftOuter(constraint) => (Side::Left, constraint),
        ast::JoinOperator::Right(constraint) | ast::JoinOperator::RightOuter(constraint) => (Side::Right, constraint),
        ast::JoinOperator::FullOuter(constraint) => (Side::Full, constraint),
        _ => return Err(SqlError::unsupported(place, "this sort of join")),
    })
}

/// The alias and the lists of UNNEST; no list if it has a form that is not read here.
fn unnested(factor: &ast::TableFactor) -> Option<(Option<&ast::TableAlias>, Vec<&ast::Expr>)> {
    match factor {
        ast::TableFactor::UNNEST { alias, array_exprs, with_offset, with_ordinality, .. } => {
            let lists = array_exprs.iter().filter(|_| !with_offset && !with_ordinality);
            Some((alias.as_ref(), lists.collect()))
        }
        ast::TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
            let [ast::ObjectNamePart::Identifier(name)] = &name.0[..] else { return None };
            if !name.value.eq_ignore_ascii_case("unnest") {
                return None;
            }
            let list = |arg| match arg {
                &ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ref list)) if !with_ordinality => Some(list),
                _ => None,
            };
            Some((alias.as_ref(), args.args.iter().map(list).collect::<Option<_>>().unwrap_or_default()))
        }
        _ => None,
    }
}

/// The words of a table's name.
pub(super) fn parts_of<'n>(name: &'n ast::ObjectName, place: SourcePosition) -> Result<Vec<&'n ast::Ident>, SqlError> {
    let part = |part: &'n ast::ObjectNamePart| match part {
        ast::ObjectNamePart::Identifier(part) => Ok(part),
        ast::ObjectNamePart::Function(_) => Err(SqlError::unsupported(place, "a function in a table's name")),
    };
    name.0.iter().map(part).collect()
}

/// An outer join by the equalities among its conditions; the other ones are checked for each pair.
fn outer_join(left: Relation, right: Relation, side: Side, conditions: Vec<Expr>) -> Relation {
    let (kind, left, right) = match side {
        Side::Inner => (JoinKind::Inner, left, right),
        Side::Left => (JoinKind::Left, left, right),
        Side::Right => (JoinKind::Left, right, left),
        Side::Full => (JoinKind::Full, left, right),
    };
    let (keys, residual) = equalities(conditions, &left, &right);
    Relation::join(left, right, kind, keys, residual)
}

/// The conditions that say that an expression over the left columns equals one over the right, and the others.
pub(crate) fn equalities(conditions: Vec<Expr>, left: &Relation, right: &Relation) -> (Vec<(Expr, Expr)>, Vec<Expr>) {
    let (mut keys, mut others) = (Vec::new(), Vec::new());
    for condition in conditions {
        match condition {
            Expr::Call(Function::Compare(Comparison::Equal), mut sides, kind) => {
                let (b, a) = (sides.pop().expect("two sides"), sides.pop().expect("two sides"));
                let is_over = |expr: &Expr, relation: &Relation| !expr.columns().is_empty() && relation.has_all(expr);
                if is_over(&a, left) && is_over(&b, right) {
                    keys.push((a, b));
                } else if is_over(&b, left) && is_over(&a, right) {
                    keys.push((b, a));
                } else {
                    others.push(Expr::Call(Function::Compare(Comparison::Equal), vec![a, b], kind));
                }
            }
            other => others.push(other),
        }
    }
    (keys, others)
}
