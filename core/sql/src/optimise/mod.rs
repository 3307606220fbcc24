//! Rewrites a plan to give its rows sooner: constants are computed, filters go down to the scans, joins get an order,
//! and unread columns are left out.

mod estimate;
mod order;
mod prune;
mod push;
mod recursion;

use crate::error::SqlError;
use crate::evaluate::{Room, constant};
use crate::expression::{ColumnId, Expr, Function};
use crate::relation::{Columns, Op, Relation};
use crate::types::{SqlType, Value};
use vicus_language::Stop;
use vicus_language::stack::deep;

use estimate::estimate;

/// Optimises a plan for these wanted columns, or only makes it ready to be lowered.
pub(crate) fn optimise(
    relation: Relation,
    wanted: &[ColumnId],
    known: &Columns,
    all: bool,
    stop: &Stop<'_>,
) -> Result<Relation, SqlError> {
    let mut relation = relation;
    if all {
        fold_all(&mut relation, stop)?;
        relation = push::push(relation, Vec::new(), stop)?;
    }
    relation = recursion::oriented(relation, known);
    relation = prune::prune(relation, &wanted.iter().copied().collect(), known, stop)?;
    relation = prune::exactly(relation, wanted, known);
    estimate(&mut relation);
    Ok(relation)
}

/// Computes the expressions independent of rows.
fn fold_all(relation: &mut Relation, stop: &Stop<'_>) -> Result<(), SqlError> {
    stop.step(1)?;
    let fold_in = |expr: &mut Expr| {
        stop.step(expr.size())?;
        *expr = folded(std::mem::replace(expr, Expr::truth(true)));
        Ok::<(), SqlError>(())
    };
    let inputs: Vec<&mut Relation> = match &mut relation.op {
        Op::Scan { .. } | Op::Values { .. } | Op::Round { .. } => Vec::new(),
        Op::Project { input, exprs } => {
            exprs.iter_mut().try_for_each(|(_, expr)| fold_in(expr))?;
            vec![input]
        }
        Op::Filter { input, conditions } => {
            conditions.iter_mut().try_for_each(fold_in)?;
            vec![input]
        }
        Op::Join(join) => {
            for (left, right) in &mut join.keys {
                fold_in(left)?;
                fold_in(right)?;
            }
            join.residual.iter_mut().chain(&mut join.membership).try_for_each(fold_in)?;
            vec![&mut join.left, &mut join.right]
        }
        Op::Aggregate { input, keys, folds } => {
            keys.iter_mut().try_for_each(|(_, expr)| fold_in(expr))?;
            folds.iter_mut().filter_map(|fold| fold.argument.as_mut()).try_for_each(fold_in)?;
            vec![input]
        }
        Op::Unnest { input, list, .. } => {
            fold_in(list)?;
            vec![input]
        }
        Op::UnionAll { inputs } => inputs.iter_mut().collect(),
        Op::SetOperation { left, right, .. } => vec![left, right],
        Op::Iterate { base, step, .. } => vec![base, step],
        Op::Sort { input, .. } | Op::Limit { input, .. } | Op::Single { input } => vec![input],
    };
    for input in inputs {
        deep(|| fold_all(input, stop))?;
    }
    Ok(())
}

/// Longer texts are left to the rows, where they are booked. The limit is [`SHORT`] for texts longer than their
/// literals: a plan's texts are not many times as long as the statement's.
const MOST_FOLDED: u64 = 256 << 10;
const SHORT: usize = 64;

/// Bytes of the texts among a call's arguments.
fn text_bytes(call: &Expr) -> usize {
    let Expr::Call(_, args, _) = call else { return 0 };
    let of = |arg: &Expr| if let Expr::Literal(Value::Varchar(text), _) = arg { text.len() } else { 0 };
    args.iter().map(of).sum()
}

/// The expression with its constant parts computed. Failing parts are left to the rows: perhaps there are none.
pub(crate) fn folded(expr: Expr) -> Expr {
    let Expr::Call(function, args, kind) = expr else { return expr };
    let args: Vec<Expr> = deep(|| args.into_iter().map(folded).collect());
    let is_literal = |arg: &Expr| matches!(arg, Expr::Literal(..));
    match function {
        Function::And => connected(args, false),
        Function::Or => connected(args, true),
        function => {
            let is_constant = args.iter().all(is_literal);
            let call = Expr::Call(function, args, kind.clone());
            if !is_constant {
                return call;
            }
            let ask = |bytes| if bytes > MOST_FOLDED { Err("it is a long text".into()) } else { Ok(()) };
            match constant(&call, &Room::new(&ask)) {
                Ok(Value::Varchar(text)) if text.len() > SHORT.max(text_bytes(&call)) => call,
                Ok(value) => Expr::Literal(value, kind),
                Err(_) => call,
            }
        }
    }
}

/// AND, or OR if `decides` is true, without arguments of no effect.
fn connected(args: Vec<Expr>, decides: bool) -> Expr {
    let mut kept = Vec::with_capacity(args.len());
    for arg in args {
        match arg {
            Expr::Literal(Value::Boolean(value), _) if value == decides => return Expr::truth(decides),
            Expr::Literal(Value::Boolean(_), _) => {}
            other => kept.push(other),
        }
    }
    match kept.len() {
        0 => Expr::truth(!decides),
        1 => kept.remove(0),
        _ => Expr::Call(if decides { Function::Or } else { Function::And }, kept, SqlType::Boolean),
    }
}
