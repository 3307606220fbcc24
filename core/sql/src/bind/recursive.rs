//! Queries of WITH RECURSIVE: a first query, UNION or UNION ALL, and a second one that reads the last round's rows.

use super::query::cast;
use super::{Binder, Bound, Cte, Output};
use crate::error::{SourcePosition, SqlError};
use crate::expression::{ColumnId, Expr};
use crate::relation::{JoinKind, Op, Relation};
use sqlparser::ast;
use vicus_language::stack::deep;

/// A recursive query, as its own parts see it.
pub(super) struct Round {
    /// The columns of its rows; `None` where it can't be read.
    columns: Option<Vec<(String, ColumnId)>>,
    /// Whether the query is nothing but its body.
    is_plain: bool,
    /// The places that read it.
    reads: Vec<SourcePosition>,
}

impl<'a> Binder<'a> {
    /// Binds a query that may read itself.
    pub(super) fn recursive(&mut self, cte: usize) -> Result<Bound, SqlError> {
        let Cte { alias, query, before, .. } = self.ctes[cte];
        let number = self.rounds.len();
        self.rounds.push(Round { columns: None, is_plain: true, reads: Vec::new() });
        self.ctes.push(Cte { alias, query, before, is_recursive: false, round: Some(number) });
        let outer = self.innermost_cte.replace(self.ctes.len() - 1);
        let bound = self.recursive_union(alias, query, number);
        self.innermost_cte = outer;
        bound
    }

    fn recursive_union(
        &mut self,
        alias: &'a ast::TableAlias,
        query: &'a ast::Query,
        number: usize,
    ) -> Result<Bound, SqlError> {
        let mut inner = query;
        self.check_clauses(inner)?;
        while let (ast::SetExpr::Query(within), true) = (&*inner.body, is_plain(inner)) {
            inner = &**within;
            self.check_clauses(inner)?;
        }
        self.rounds[number].is_plain = is_plain(inner);
        let (left, right, all) = match &*inner.body {
            ast::SetExpr::SetOperation { left, op: ast::SetOperator::Union, set_quantifier, right }
                if is_plain(inner) =>
            {
                let all = match set_quantifier {
                    ast::SetQuantifier::All => true,
                    ast::SetQuantifier::Distinct | ast::SetQuantifier::None => false,
                    _ => return self.query(query, false),
                };
                (left, right, all)
            }
            _ => return self.query(query, false),
        };
        let place = self.place_of(&**right);
        let first = self.deeper(place, |binder| binder.set_expr(left))?;
        let mut names: Vec<String> = first.outputs.iter().map(|output| output.name.clone()).collect();
        names.iter_mut().zip(&alias.columns).for_each(|(name, given)| name.clone_from(&given.name.value));
        let nulls: Vec<bool> = first.outputs.iter().map(|output| output.is_null).collect();
        let kinds: Vec<_> = first.outputs.iter().map(|output| output.kind.clone()).collect();
        let mut add = |name: &String, kind| self.columns.add(name, kind);
        let read: Vec<ColumnId> = names.iter().zip(&kinds).map(|(name, kind)| add(name, kind.clone())).collect();
        self.rounds[number].columns = Some(names.iter().cloned().zip(read.iter().copied()).collect());

        let second = self.deeper(place, |binder| binder.set_expr(right))?;
        if second.outputs.len() != kinds.len() {
            let (has, other) = (kinds.len(), second.outputs.len());
            let message = format!("both queries need equally many columns, and here are {has} and {other}");
            return Err(SqlError::wrong_type(place, message));
        }
        for (at, output) in second.outputs.iter().enumerate() {
            let (kind, name, other) = (&kinds[at], &names[at], &output.kind);
            if !output.is_null && kind.common(other).as_ref() != Some(kind) {
                let message = if nulls[at] {
                    format!(
                        "column {name} is NULL in the first query, and {other} in the one that repeats: cast the NULL"
                    )
                } else {
                    format!("column {name} is {kind} in the first query, and {other} in the one that repeats")
                };
                return Err(SqlError::wrong_type(place, message));
            }
        }
        let outputs: Vec<Output> = names
            .iter()
            .zip(&kinds)
            .map(|(name, kind)| Output {
                name: name.clone(),
                id: self.columns.add(name, kind.clone()),
                kind: kind.clone(),
                is_null: false,
            })
            .collect();
        let first = self.of_kinds(first, &outputs);
        let second = self.of_kinds(second, &outputs);
        let columns: Vec<ColumnId> = outputs.iter().map(|output| output.id).collect();
        let name = &alias.name.value;
        match self.rounds[number].reads[..] {
            // It does not read itself.
            [] => {
                let union = Bound::new(Relation::new(Op::UnionAll { inputs: vec![first, second] }, columns), outputs);
                return Ok(if all { union } else { self.distinct(union) });
            }
            [place] => {
                if let Some(what) = wrong_place(&second, number) {
                    let message = format!(
                        "{name} is read within {what}, which would need the rows of all rounds: a recursive query is \
                         filtered, projected and joined"
                    );
                    return Err(SqlError::wrong_type(place, message));
                }
            }
            [_, again, ..] => {
                let message = format!("{name} is read a second time: a recursive query reads itself once");
                return Err(SqlError::wrong_type(again, message));
            }
        }
        let op = Op::Iterate { base: Box::new(first), step: Box::new(second), number, all };
        Ok(Bound::new(Relation::new(op, columns), outputs))
    }

    /// A query with its columns in these types.
    fn of_kinds(&mut self, bound: Bound, outputs: &[Output]) -> Relation {
        let mut exprs = Vec::with_capacity(outputs.len());
        for (from, to) in bound.outputs.iter().zip(outputs) {
            let expr = if from.is_null {
                Expr::null(to.kind.clone())
            } else {
                cast(self.columns.expr(from.id), to.kind.clone())
            };
            exprs.push((self.columns.add(&to.name, to.kind.clone()), expr));
        }
        Relation::project(bound.relation, exprs)
    }

    /// The rows of the last round, where a recursive query reads itself.
    pub(super) fn read_round(
        &mut self,
        number: usize,
        place: SourcePosition,
        own: &'a ast::TableAlias,
        alias: Option<&'a ast::TableAlias>,
    ) -> Result<Relation, SqlError> {
        self.rounds[number].reads.push(place);
        let Some(columns) = self.rounds[number].columns.clone() else {
            let name = &own.name.value;
            let message = if self.rounds[number].is_plain {
                format!(
                    "{name} reads itself here: a recursive query is a first one, UNION or UNION ALL, and one that \
                     reads it"
                )
            } else {
                format!(
                    "{name} reads itself here, and has WITH, ORDER BY, LIMIT or FETCH: these belong to the query that \
                     reads {name}"
                )
            };
            return Err(SqlError::wrong_type(place, message));
        };
        let ids = columns.iter().map(|(_, id)| *id).collect();
        self.name_columns(Some(own.name.value.clone()), columns, alias, place)?;
        Ok(Relation::new(Op::Round { number }, ids))
    }
}

/// Whether a query is nothing but its body.
fn is_plain(query: &ast::Query) -> bool {
    query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none() && query.fetch.is_none()
}

/// The operator that may not read the rows of a round, if one of those above them is such.
fn wrong_place(relation: &Relation, number: usize) -> Option<&'static str> {
    let below = |input: &Relation| deep(|| wrong_place(input, number));
    match &relation.op {
        Op::Round { .. } | Op::Scan { .. } | Op::Values { .. } => None,
        Op::Project { input, .. } | Op::Filter { input, .. } => below(input),
        Op::Join(join) if join.left.reads_round(number) => match join.kind {
            JoinKind::Full => Some("a full join"),
            _ => below(&join.left),
        },
        Op::Join(join) => match join.kind {
            JoinKind::Inner => below(&join.right),
            JoinKind::Left | JoinKind::Full => Some("the side of an outer join whose rows may be missing"),
            JoinKind::Semi | JoinKind::Anti | JoinKind::Mark(_) => Some("a subquery of a condition"),
        },
        Op::Aggregate { folds, .. } if folds.is_empty() => Some("DISTINCT or GROUP BY"),
        Op::Aggregate { .. } => Some("an aggregate"),
        Op::UnionAll { .. } => Some("a UNION within the query that repeats"),
        Op::SetOperation { except: true, .. } => Some("EXCEPT"),
        Op::SetOperation { .. } => Some("INTERSECT"),
        Op::Iterate { .. } => Some("another recursive query"),
        Op::Sort { .. } => Some("ORDER BY"),
        Op::Limit { .. } => Some("LIMIT"),
        Op::Unnest { .. } => Some("UNNEST"),
        Op::Single { .. } => Some("a subquery that is a value"),
    }
}
