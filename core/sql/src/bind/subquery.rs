//! Subqueries in expressions: each becomes a join with the rows of the expression.

use super::from::equalities;
use super::{Binder, Bound};
use crate::error::{SourcePosition, SqlError};
use crate::expression::{Comparison, Expr};
use crate::relation::{JoinKind, Op, Relation};
use crate::types::SqlType;
use sqlparser::ast;

/// A subquery to be joined.
pub(super) struct Attached {
    relation: Relation,
    kind: JoinKind,
    /// Conditions over the outer columns and those of the relation.
    conditions: Vec<Expr>,
    /// The value searched by IN, and the subquery's.
    pair: Option<(Expr, Expr)>,
}

impl Attached {
    /// Rewrites the expressions over outer rows.
    pub(super) fn each_outer(
        &mut self,
        rewrite: &mut dyn FnMut(Expr) -> Result<Expr, SqlError>,
    ) -> Result<(), SqlError> {
        for condition in &mut self.conditions {
            *condition = rewrite(std::mem::replace(condition, Expr::truth(true)))?;
        }
        if let Some((outer, _)) = &mut self.pair {
            *outer = rewrite(std::mem::replace(outer, Expr::truth(true)))?;
        }
        Ok(())
    }

    fn joined(self, left: Relation) -> Relation {
        let Attached { relation: right, kind, conditions, pair } = self;
        let (mut keys, residual) = equalities(conditions, &left, &right);
        let (mut membership, mut is_null_aware) = (None, false);
        if let Some((outer, inner)) = pair {
            if kind == JoinKind::Semi {
                keys.push((outer, inner));
            } else if keys.is_empty() && residual.is_empty() {
                keys.push((outer, inner));
                is_null_aware = true;
            } else {
                membership = Some(Expr::compare(Comparison::Equal, outer, inner));
            }
        }
        let mut joined = Relation::join(left, right, kind, keys, residual);
        if let Op::Join(join) = &mut joined.op {
            (join.membership, join.is_null_aware) = (membership, is_null_aware);
        }
        joined
    }
}

impl<'a> Binder<'a> {
    /// Joins subqueries with their referring rows.
    pub(super) fn attach(&mut self, relation: Relation, attached: Vec<Attached>) -> Result<Relation, SqlError> {
        let mut relation = relation;
        for one in attached {
            self.count_join(SourcePosition::default())?;
            relation = one.joined(relation);
        }
        Ok(relation)
    }

    /// The rows meeting a condition. Its parts on outer columns go to `correlated`, if allowed.
    pub(super) fn filtered(
        &mut self,
        relation: Relation,
        condition: &'a ast::Expr,
        mut correlated: Option<&mut Vec<Expr>>,
    ) -> Result<Relation, SqlError> {
        let mut relation = relation;
        for one in conjunction(condition) {
            let place = self.place_of(one);
            let bound = self.expr(one)?;
            let mut bound = vec![self.boolean(bound, place)?];
            let mut attached = std::mem::take(&mut self.scope().attached);
            // A condition consisting of only a subquery keeps or drops rows by itself.
            if let [only] = &mut attached[..]
                && let JoinKind::Mark(mark) = only.kind
            {
                let marked = Expr::Column(mark, SqlType::Boolean);
                if bound[0] == marked {
                    only.kind = JoinKind::Semi;
                    bound.clear();
                } else if bound[0] == Expr::not(marked) {
                    only.kind = JoinKind::Anti;
                    bound.clear();
                }
            }
            relation = self.attach(relation, attached)?;
            let mut conditions = Vec::new();
            bound.into_iter().for_each(|bound| bound.split_and(&mut conditions));
            if let Some(outer) = &mut correlated {
                let (own, others) = conditions.into_iter().partition(|one| relation.has_all(one));
                conditions = own;
                outer.extend::<Vec<Expr>>(others);
            }
            relation = Relation::filter(relation, conditions);
        }
        Ok(relation)
    }

    pub(super) fn exists(&mut self, query: &'a ast::Query, place: SourcePosition) -> Result<Expr, SqlError> {
        let bound = self.query(query, true)?;
        if bound.lifted.is_some() {
            return Err(SqlError::unsupported(place, "EXISTS of an aggregate over outer columns"));
        }
        Ok(self.marked(bound, None))
    }

    pub(super) fn in_query(
        &mut self,
        value: Expr,
        query: &'a ast::Query,
        place: SourcePosition,
    ) -> Result<Expr, SqlError> {
        let bound = self.query(query, true)?;
        if bound.lifted.is_some() {
            return Err(SqlError::unsupported(place, "IN with an aggregate over outer columns"));
        }
        let [output] = &bound.outputs[..] else {
            let message = format!("the subquery of IN has to have one column, and has {}", bound.outputs.len());
            return Err(SqlError::wrong_type(place, message));
        };
        let inner = if output.is_null { Expr::null(output.kind.clone()) } else { self.columns.expr(output.id) };
        let is_null = output.is_null;
        let (value, inner) = self.common(value, inner, place)?;
        if is_null {
            // Its column is null in each row, of any type.
            let mut bound = bound;
            let id = self.columns.add("null", inner.kind());
            let mut exprs: Vec<_> = bound.relation.columns.iter().map(|&id| (id, self.columns.expr(id))).collect();
            exprs.push((id, inner));
            bound.relation = Relation::project(bound.relation, exprs);
            let inner = self.columns.expr(id);
            return Ok(self.marked(bound, Some((value, inner))));
        }
        Ok(self.marked(bound, Some((value, inner))))
    }

    fn marked(&mut self, bound: Bound, pair: Option<(Expr, Expr)>) -> Expr {
        let mark = self.columns.add("found", SqlType::Boolean);
        let Bound { relation, correlated, .. } = bound;
        let attached = Attached { relation, kind: JoinKind::Mark(mark), conditions: correlated, pair };
        self.scope().attached.push(attached);
        Expr::Column(mark, SqlType::Boolean)
    }

    /// A subquery as a value.
    pub(super) fn scalar(&mut self, query: &'a ast::Query, place: SourcePosition) -> Result<Expr, SqlError> {
        let bound = self.query(query, true)?;
        let [output] = &bound.outputs[..] else {
            let message = format!("a subquery that is a value has to have one column, and has {}", bound.outputs.len());
            return Err(SqlError::wrong_type(place, message));
        };
        let (kind, is_null, id) = (output.kind.clone(), output.is_null, output.id);
        let value = match &bound.lifted {
            Some(value) => value.clone(),
            None if is_null => Expr::null(kind),
            None => self.columns.expr(id),
        };
        let relation = if bound.lifted.is_some() {
            bound.relation
        } else if bound.correlated.is_empty() {
            Relation::single(bound.relation)
        } else {
            return Err(SqlError::unsupported(
                place,
                "a subquery that is a value, names outer columns and isn't an aggregate without GROUP BY, it",
            ));
        };
        let attached = Attached { relation, kind: JoinKind::Left, conditions: bound.correlated, pair: None };
        self.scope().attached.push(attached);
        Ok(value)
    }
}

/// The parts of a conjunction, in their order.
fn conjunction(expr: &ast::Expr) -> Vec<&ast::Expr> {
    let (mut open, mut parts) = (vec![expr], Vec::new());
    while let Some(one) = open.pop() {
        match one {
            ast::Expr::BinaryOp { left, op: ast::BinaryOperator::And, right } => open.extend([&**right, left]),
            ast::Expr::Nested(inner) => match &**inner {
                ast::Expr::BinaryOp { op: ast::BinaryOperator::And, .. } => open.push(inner),
                _ => parts.push(one),
            },
            other => parts.push(other),
        }
    }
    parts
}
