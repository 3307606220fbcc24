//! Expressions whose names and types are settled: over columns by number, with functions of fixed types.

use crate::types::{SqlType, Value};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use vicus_language::stack::deep;

/// A column of some operator of a plan. Each has a number of its own in the whole plan, so that expressions keep their
/// meaning when operators move. In an expression that boxes evaluate, it is the column's place in the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ColumnId(pub(crate) u32);

/// An expression of one type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Column(ColumnId, SqlType),
    /// A value of the type, or null.
    Literal(Value, SqlType),
    Call(Function, Vec<Expr>, SqlType),
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// The comparison with its sides exchanged.
    pub(crate) fn flipped(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }

    pub(crate) fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }
}

/// A field of a date or timestamp, or a length to which one is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DateField {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Epoch,
}

/// A length of time. Months and days differ in length, so they are kept apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) months: i64,
    pub(crate) days: i64,
    pub(crate) micros: i64,
}

/// The function of a call. Unless a comment says otherwise, it is null if any argument is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Function {
    /// Any number of arguments, in three-valued logic.
    And,
    Or,
    Not,
    /// Two arguments of one type.
    Compare(Comparison),
    /// Whether two values differ; nulls are equal. Never null.
    IsDistinct,
    /// Never null, nor are the next ones.
    IsNull,
    IsTrue,
    IsFalse,
    /// Whether the first argument is one of these sorted values; null if it isn't and there is a null among them.
    InSet(Arc<Set>),
    /// Condition, value, condition, value, ... and the value otherwise. Values are computed for the rows that need them
    /// alone.
    Case,
    /// The first argument that isn't null.
    Coalesce,
    /// To the call's type. With `true`, null where it fails.
    Cast(bool),
    Negate,
    Add,
    Subtract,
    Multiply,
    /// Null for a zero divisor, as is the remainder. Of integers, it cuts off.
    Divide,
    Modulo,
    Power,
    Abs,
    Sign,
    Ceil,
    Floor,
    /// Rounds to the digits of a second argument, if there is one.
    Round,
    Sqrt,
    Exp,
    Ln,
    /// The form of a double that stands for all equal ones: sorts and hashes see bits.
    Canonical,
    Upper,
    Lower,
    Length,
    /// From a character on, counted from 1, up to a number of characters.
    Substring,
    Left,
    Right,
    /// The characters to remove are the second argument.
    Trim(Side),
    Replace,
    Concat,
    /// Like `Concat`, but nulls count as empty texts.
    ConcatAll,
    /// Where the second argument begins in the first one, from 1 on; 0 if it isn't in it.
    Position,
    StartsWith,
    Reverse,
    Repeat,
    /// Whether the first argument matches the pattern that is the second one.
    Like(Like),
    Extract(DateField),
    Truncate(DateField),
    AddInterval(Interval),
    /// Days and a date.
    AddDays,
    /// The days between two dates.
    DaysBetween,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Both,
    Leading,
    Trailing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Like {
    pub(crate) ignores_case: bool,
    pub(crate) escape: Option<char>,
}

/// The values of an IN list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Set {
    /// Sorted, all of one type, and without nulls.
    pub(crate) values: Vec<Value>,
    pub(crate) has_null: bool,
}

impl Expr {
    pub(crate) fn kind(&self) -> SqlType {
        match self {
            Expr::Column(_, kind) | Expr::Literal(_, kind) | Expr::Call(_, _, kind) => *kind,
        }
    }

    pub(crate) fn truth(value: bool) -> Expr {
        Expr::Literal(Value::Boolean(value), SqlType::Boolean)
    }

    pub(crate) fn null(kind: SqlType) -> Expr {
        Expr::Literal(Value::Null, kind)
    }

    pub(crate) fn is_null_literal(&self) -> bool {
        matches!(self, Expr::Literal(Value::Null, _))
    }

    pub(crate) fn compare(comparison: Comparison, a: Expr, b: Expr) -> Expr {
        Expr::Call(Function::Compare(comparison), vec![a, b], SqlType::Boolean)
    }

    pub(crate) fn not(one: Expr) -> Expr {
        match one {
            Expr::Call(Function::Not, mut args, _) => args.remove(0),
            other => Expr::Call(Function::Not, vec![other], SqlType::Boolean),
        }
    }

    pub(crate) fn and(mut all: Vec<Expr>) -> Expr {
        match all.len() {
            0 => Expr::truth(true),
            1 => all.remove(0),
            _ => Expr::Call(Function::And, all, SqlType::Boolean),
        }
    }

    /// Adds the parts of a conjunction.
    pub(crate) fn split_and(self, into: &mut Vec<Expr>) {
        match self {
            Expr::Call(Function::And, args, _) => args.into_iter().for_each(|arg| deep(|| arg.split_and(into))),
            other => into.push(other),
        }
    }

    /// The columns that it reads.
    pub(crate) fn columns(&self) -> BTreeSet<ColumnId> {
        let mut columns = BTreeSet::new();
        self.each_column(&mut |column| {
            columns.insert(column);
        });
        columns
    }

    pub(crate) fn each_column(&self, see: &mut dyn FnMut(ColumnId)) {
        match self {
            Expr::Column(id, _) => see(*id),
            Expr::Literal(..) => {}
            Expr::Call(_, args, _) => deep(|| args.iter().for_each(|arg| arg.each_column(see))),
        }
    }

    /// A copy with some subexpressions replaced, the outermost first.
    pub(crate) fn replaced(self, with: &mut dyn FnMut(&Expr) -> Option<Expr>) -> Expr {
        if let Some(other) = with(&self) {
            return other;
        }
        match self {
            Expr::Call(function, args, kind) => deep(|| {
                let args = args.into_iter().map(|arg| arg.replaced(with)).collect();
                Expr::Call(function, args, kind)
            }),
            leaf => leaf,
        }
    }

    /// How many calls it has, and how many of them may fail for some values.
    pub(crate) fn size(&self) -> usize {
        match self {
            Expr::Call(_, args, _) => deep(|| 1 + args.iter().map(Expr::size).sum::<usize>()),
            _ => 1,
        }
    }

    /// Over the places of columns in envelopes that have these columns.
    pub(crate) fn placed(self, columns: &[ColumnId]) -> Expr {
        self.replaced(&mut |one| match one {
            Expr::Column(id, kind) => {
                let place = columns.iter().position(|column| column == id);
                let place = place.unwrap_or_else(|| panic!("column {id:?} is one of {columns:?}"));
                Some(Expr::Column(ColumnId(place as u32), *kind))
            }
            _ => None,
        })
    }

    /// The expression as text, with names for its columns.
    pub(crate) fn shown<'e>(&'e self, names: &'e dyn Fn(ColumnId) -> String) -> ExpressionText<'e> {
        ExpressionText { expr: self, names }
    }
}

/// An expression as text.
pub(crate) struct ExpressionText<'e> {
    expr: &'e Expr,
    names: &'e dyn Fn(ColumnId) -> String,
}

impl fmt::Display for ExpressionText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |expr| ExpressionText { expr, names: self.names };
        let (function, args) = match self.expr {
            Expr::Column(id, _) => return f.write_str(&(self.names)(*id)),
            Expr::Literal(value, _) => return value.fmt(f),
            Expr::Call(function, args, _) => (function, args),
        };
        let sign = match function {
            Function::And => " AND ",
            Function::Or => " OR ",
            Function::Compare(comparison) => &format!(" {} ", comparison.sign()),
            Function::Add => " + ",
            Function::Subtract => " - ",
            Function::Multiply => " * ",
            Function::Divide => " / ",
            Function::Modulo => " % ",
            Function::Concat => " || ",
            Function::Like(Like { ignores_case: false, .. }) => " LIKE ",
            Function::Like(_) => " ILIKE ",
            Function::IsDistinct => " IS DISTINCT FROM ",
            _ => "",
        };
        deep(|| {
            if !sign.is_empty() {
                f.write_str("(")?;
                for (place, arg) in args.iter().enumerate() {
                    f.write_str(if place == 0 { "" } else { sign })?;
                    of(arg).fmt(f)?;
                }
                return f.write_str(")");
            }
            match function {
                Function::IsNull => write!(f, "{} IS NULL", of(&args[0])),
                Function::InSet(set) => write!(f, "{} IN ({} values)", of(&args[0]), set.values.len()),
                Function::Cast(_) => write!(f, "CAST({} AS {})", of(&args[0]), self.expr.kind()),
                Function::Extract(field) => write!(f, "EXTRACT({field:?} FROM {})", of(&args[0])),
                Function::Canonical => of(&args[0]).fmt(f),
                function => {
                    let name = format!("{function:?}").to_uppercase();
                    f.write_str(name.split(['(', ' ']).next().unwrap_or_default())?;
                    f.write_str("(")?;
                    for (place, arg) in args.iter().enumerate() {
                        f.write_str(if place == 0 { "" } else { ", " })?;
                        of(arg).fmt(f)?;
                    }
                    f.write_str(")")
                }
            }
        })
    }
}
