//! Columns of a statement's result that hold values of a stream's column: they go back to that column's type.

use crate::convert::{as_before, can_be_as_before};
use crate::expression::{ColumnId, Expr};
use crate::relation::{FoldKind, Op, Relation};
use crate::stream::StreamTable;
use std::sync::Arc;
use vicus_flow::{BoxError, BoxModel, Envelope, Field, ModelBuilder, OutputId, Schema, Turn, Type};
use vicus_language::stack::deep;

/// The type of the stream's column whose values a column of a plan holds: one passed on by joins, filters and sorts, a
/// key of groups, or the least or greatest value of one. `None` for computed columns, and for types of which SQL keeps
/// less than all, as nanoseconds.
pub(crate) fn type_before(relation: &Relation, id: ColumnId, streams: &[StreamTable]) -> Option<Type> {
    let of = |input: &Relation, id| deep(|| type_before(input, id, streams));
    let of_expr = |input: &Relation, expr: &Expr| match expr {
        Expr::Column(id, _) => of(input, *id),
        _ => None,
    };
    let place = || relation.columns.iter().position(|own| *own == id);
    match &relation.op {
        Op::Scan { table, picked, .. } => {
            let stream = streams.iter().find(|stream| Arc::ptr_eq(&stream.table, table))?;
            Some(stream.kind_of(picked[place()?])).filter(can_be_as_before).map(|kind| with_nulls(&kind))
        }
        Op::Project { input, exprs } => of_expr(input, &exprs.iter().find(|(own, _)| *own == id)?.1),
        Op::Aggregate { input, keys, folds } => match keys.iter().find(|(own, _)| *own == id) {
            Some((_, key)) => of_expr(input, key),
            None => {
                let fold = folds.iter().find(|fold| fold.output == id)?;
                let is_of_one_row = matches!(fold.kind, FoldKind::Least | FoldKind::Greatest);
                fold.argument.as_ref().filter(|_| is_of_one_row).and_then(|argument| of_expr(input, argument))
            }
        },
        Op::UnionAll { inputs } => {
            let place = place()?;
            let mut kinds = inputs.iter().map(|input| of(input, input.columns[place]));
            let first = kinds.next()??;
            kinds.all(|kind| kind.as_ref() == Some(&first)).then_some(first)
        }
        Op::SetOperation { left, .. } => of(left, left.columns[place()?]),
        Op::Join(join) => [&join.left, &join.right].into_iter().find(|input| input.has(id)).and_then(|one| of(one, id)),
        Op::Filter { input, .. }
        | Op::Sort { input, .. }
        | Op::Limit { input, .. }
        | Op::Unnest { input, .. }
        | Op::Single { input } => Some(input).filter(|input| input.has(id)).and_then(|input| of(input, id)),
        Op::Values { .. } | Op::Iterate { .. } | Op::Round { .. } => None,
    }
}

/// The type, whose parts may all be null: as those of a struct that is null in SQL.
fn with_nulls(kind: &Type) -> Type {
    match kind {
        Type::List(of) => Type::list(with_nulls(&of.kind)),
        Type::Struct(parts) => {
            let part = |part: &Field| Field::new(&part.name, with_nulls(&part.kind)).or_null();
            Type::Struct(Arc::new(parts.columns().iter().map(part).collect()))
        }
        other => other.clone(),
    }
}

/// Adds the box that gives columns these types, if they have others.
pub(crate) fn add_types(net: &mut ModelBuilder, output: OutputId, sql: &Schema, wanted: &Schema) -> OutputId {
    let same = |(own, other): (&Field, &Field)| own.kind == other.kind;
    if sql.columns().iter().zip(wanted.columns()).all(same) {
        return output;
    }
    let kinds: Arc<[Type]> = wanted.columns().iter().map(|field| field.kind.clone()).collect();
    let operator = move || {
        let kinds = Arc::clone(&kinds);
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            let Some(envelope) = turn.take(0) else { return Ok(()) };
            if envelope.is_pill() {
                turn.send_pill(0);
            } else if !turn.pass_mark(&envelope) && envelope.rows() > 0 {
                let (attached, rows) = (envelope.attached().to_vec(), envelope.rows());
                let columns = envelope.columns().iter().zip(kinds.iter()).map(|(column, kind)| as_before(column, kind));
                turn.send(0, Envelope::of_rows(columns.collect(), rows).with(&attached));
            }
            Ok(())
        }
    };
    let added = net.add(BoxModel::new("types", operator).input(sql).output(wanted));
    net.connect(output, added.input(0));
    added.output(0)
}
