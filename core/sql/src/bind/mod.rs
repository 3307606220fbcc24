//! From a tree of syntax to a plan: names become columns, types are settled, subqueries become joins.

mod aggregate;
mod expression;
mod from;
pub(crate) use from::equalities;
mod function;
mod literal;
mod query;
mod recursive;
mod show_tables;
mod subquery;

pub use function::FUNCTIONS;

use crate::error::{SourcePosition, SqlError, SqlErrorKind};
use crate::expression::{ColumnId, Expr};
use crate::parse::{Parsed, SqlStatement};
use crate::relation::{Columns, Fold, Relation};
use crate::table::Catalogue;
use crate::types::SqlType;
use sqlparser::ast;
use sqlparser::ast::Spanned;
use sqlparser::tokenizer::Span;
use std::collections::BTreeMap;
use subquery::Attached;
use vicus_language::stack::deep;
use vicus_language::{Stop, similar_names, suggestion};

/// A plan as it is written, with the names of its columns.
pub(crate) struct Bound {
    pub(crate) relation: Relation,
    pub(crate) outputs: Vec<Output>,
    /// Conditions of a subquery on columns of outer queries. Their columns of the subquery are columns of the relation.
    correlated: Vec<Expr>,
    /// The value of a correlated subquery with an aggregate, over the columns of the relation. COUNT of no rows is 0.
    lifted: Option<Expr>,
}

/// A column of a query's answer.
#[derive(Clone)]
pub(crate) struct Output {
    pub(crate) name: String,
    pub(crate) id: ColumnId,
    pub(crate) kind: SqlType,
    /// A written NULL, without a type of its own.
    pub(crate) is_null: bool,
}

/// Settles the names and types of a statement. Returns the bytes of tables made by functions, if it calls any.
pub(crate) fn bind(
    parsed: &Parsed,
    catalogue: &dyn Catalogue,
    columns: &mut Columns,
    stop: &Stop<'_>,
) -> Result<(Bound, Option<u64>), SqlError> {
    let mut binder = Binder {
        parsed,
        catalogue,
        columns,
        stop,
        scopes: Vec::new(),
        ctes: Vec::new(),
        innermost_cte: None,
        rounds: Vec::new(),
        depth: 0,
        joins: 0,
        outer_places: BTreeMap::new(),
        unreadable: BTreeMap::new(),
        made_bytes: None,
    };
    let bound = match parsed.asked() {
        SqlStatement::Query(query) => binder.query(query, false)?,
        SqlStatement::Tables => binder.tables(),
        SqlStatement::Columns(table) => binder.columns_of(table)?,
    };
    if let Some(column) = bound.relation.missing() {
        let place = binder.outer_places.get(&column).copied().unwrap_or_default();
        let name = binder.columns.name(column);
        let what =
            format!("{name} of an outer query, where it stands here: only the WHERE of a subquery may name it, that");
        return Err(SqlError::unsupported(place, what));
    }
    Ok((bound, binder.made_bytes))
}

/// The greatest depth of an expression, and of a tree of operators.
const MOST_DEPTH: usize = 800;

/// The greatest number of joins.
const MOST_JOINS: usize = 400;

struct Binder<'a> {
    parsed: &'a Parsed,
    catalogue: &'a dyn Catalogue,
    columns: &'a mut Columns,
    stop: &'a Stop<'a>,
    /// The queries around the present place, the innermost last.
    scopes: Vec<Scope<'a>>,
    ctes: Vec<Cte<'a>>,
    /// The last of them visible at the present place; it knows the one before it.
    innermost_cte: Option<usize>,
    /// The recursive queries so far.
    rounds: Vec<recursive::Round>,
    /// How deep the present place is in expressions and set operations.
    depth: usize,
    /// How many joins there are: trees of operators are as deep as their chain.
    joins: usize,
    /// The places that name columns of outer queries.
    outer_places: BTreeMap<ColumnId, SourcePosition>,
    /// Columns of tables that can't be read, with the reasons.
    unreadable: BTreeMap<ColumnId, String>,
    /// The bytes of tables made by functions; none if no function was called.
    made_bytes: Option<u64>,
}

/// A query of a WITH.
#[derive(Clone, Copy)]
struct Cte<'a> {
    alias: &'a ast::TableAlias,
    query: &'a ast::Query,
    /// The last one visible to it.
    before: Option<usize>,
    /// Whether it may read itself: it is one of WITH RECURSIVE.
    is_recursive: bool,
    /// Within a recursive query its name stands for this one's rows.
    round: Option<usize>,
}

/// The names for a query's expressions.
#[derive(Default)]
struct Scope<'a> {
    tables: Vec<NamedTable>,
    /// The expressions of the select list by their aliases, for clauses with access to aliases.
    aliases: Vec<(String, &'a ast::Expr)>,
    /// Whether aggregates may be called, and the calls so far.
    aggregates: Option<Aggregates>,
    /// Subqueries of the expressions bound last, to be joined with the rows of these expressions.
    attached: Vec<Attached>,
    /// The list whose values become rows, and their column: UNNEST in SELECT.
    unnested: Option<(Expr, ColumnId)>,
    /// The clause being bound, for errors.
    clause: &'static str,
}

/// A table of a FROM clause.
#[derive(Clone)]
struct NamedTable {
    /// Its alias or name; none for columns merged by USING.
    name: Option<String>,
    columns: Vec<NamedColumn>,
}

#[derive(Clone)]
struct NamedColumn {
    name: String,
    id: ColumnId,
    /// The column was merged by USING: only `table.column` means it.
    is_merged: bool,
}

#[derive(Default)]
struct Aggregates {
    folds: Vec<Fold>,
    /// Subqueries within the arguments of aggregates.
    attached: Vec<Attached>,
    /// Whether the present place is within an aggregate's arguments.
    is_inside: bool,
}

impl<'a> Binder<'a> {
    fn place(&self, span: Span) -> SourcePosition {
        self.parsed.place(span.start)
    }

    fn place_of(&self, node: &impl Spanned) -> SourcePosition {
        self.place(node.span())
    }

    /// Goes one level deeper. Trees are dropped on any stack, so they are not as deep as texts may be long.
    fn deeper<R>(
        &mut self,
        place: SourcePosition,
        work: impl FnOnce(&mut Self) -> Result<R, SqlError>,
    ) -> Result<R, SqlError> {
        self.step()?;
        if self.depth >= MOST_DEPTH {
            let message = format!("expressions and set operations are nested more than {MOST_DEPTH} levels deep");
            return Err(SqlError::new(SqlErrorKind::TooDeep, place, message));
        }
        self.depth += 1;
        let result = deep(|| work(self));
        self.depth -= 1;
        result
    }

    /// Counts a join.
    fn count_join(&mut self, place: SourcePosition) -> Result<(), SqlError> {
        self.joins += 1;
        if self.joins > MOST_JOINS {
            let message = format!("the statement has more than {MOST_JOINS} tables and subqueries");
            return Err(SqlError::new(SqlErrorKind::TooDeep, place, message));
        }
        self.step()
    }

    fn scope(&mut self) -> &mut Scope<'a> {
        self.scopes.last_mut().expect("a query is being bound")
    }

    /// Counts a step of planning.
    fn step(&self) -> Result<(), SqlError> {
        Ok(self.stop.step(1)?)
    }

    /// A column used by a statement at a place.
    fn used(&self, id: ColumnId, place: SourcePosition) -> Result<Expr, SqlError> {
        match self.unreadable.get(&id) {
            Some(why) => Err(SqlError::new(SqlErrorKind::Unsupported, place, why.clone())),
            None => Ok(self.columns.expr(id)),
        }
    }

    /// The column of a name, in the innermost query with this name. Notes the use of an outer column.
    fn column(&mut self, table: Option<&ast::Ident>, name: &ast::Ident) -> Result<Option<Expr>, SqlError> {
        let place = self.place(name.span);
        for (depth, scope) in self.scopes.iter().rev().enumerate() {
            self.stop.step(1)?;
            let mut found: Vec<ColumnId> = Vec::new();
            for one in &scope.tables {
                match table {
                    Some(wanted) if !one.name.as_ref().is_some_and(|name| is_name(wanted, name)) => continue,
                    _ => {}
                }
                let named = one.columns.iter().filter(|column| is_name(name, &column.name));
                found.extend(named.filter(|column| table.is_some() || !column.is_merged).map(|column| column.id));
            }
            match found[..] {
                [] => {}
                [id] => {
                    if depth > 0 {
                        self.outer_places.entry(id).or_insert(place);
                    }
                    return self.used(id, place).map(Some);
                }
                _ => {
                    let full = table.map_or(String::new(), |table| format!("{}.", table.value)) + &name.value;
                    let message = format!("{full} is the name of several columns: write it with its table's name");
                    return Err(SqlError::new(SqlErrorKind::Ambiguous, place, message));
                }
            }
        }
        Ok(None)
    }

    fn unknown_column(&self, table: Option<&ast::Ident>, name: &ast::Ident) -> SqlError {
        let tables = || self.scopes.iter().rev().flat_map(|scope| &scope.tables);
        if let Some(wanted) = table {
            let is_known = tables().any(|one| one.name.as_ref().is_some_and(|name| is_name(wanted, name)));
            if !is_known {
                let names = tables().filter_map(|one| one.name.as_deref());
                return self.unknown(self.place(wanted.span), "table", &wanted.value, names);
            }
        }
        let of_table =
            |one: &&NamedTable| table.is_none_or(|wanted| one.name.as_ref().is_some_and(|name| is_name(wanted, name)));
        let names = tables().filter(of_table).flat_map(|one| &one.columns).map(|column| column.name.as_str());
        self.unknown(self.place(name.span), "column", &name.value, names)
    }

    fn unknown<'n>(
        &self,
        place: SourcePosition,
        what: &str,
        name: &str,
        names: impl Iterator<Item = &'n str>,
    ) -> SqlError {
        let near: Vec<String> =
            similar_names(name, names.map(|name| (name, name))).into_iter().map(str::to_owned).collect();
        let message = format!("there is no {what} {name}{}", suggestion(&near));
        SqlError::new(SqlErrorKind::Unknown { near }, place, message)
    }
}

/// Whether an identifier means this name: letters count alike, unless it is quoted.
fn is_name(ident: &ast::Ident, name: &str) -> bool {
    ident.value == name || (ident.quote_style.is_none() && ident.value.to_lowercase() == name.to_lowercase())
}
