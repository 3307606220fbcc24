//! The plan as a tree of relational operators, over columns by number.

use crate::expression::{ColumnId, Expr};
use crate::table::{ColumnRange, Table};
use crate::types::{SqlType, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use vicus_language::stack::deep;

/// An operator with those below it.
pub(crate) struct Relation {
    pub(crate) op: Op,
    /// Its columns, in the order of its envelopes.
    pub(crate) columns: Vec<ColumnId>,
    /// About how many rows it makes.
    pub(crate) rows: f64,
}

/// The work of an operator.
pub(crate) enum Op {
    /// Reads a table.
    Scan {
        table: Arc<dyn Table>,
        name: String,
        /// For each of the operator's columns, its place in the table.
        picked: Vec<usize>,
        ranges: Vec<ColumnRange>,
    },
    /// Rows written in the text.
    Values {
        rows: Vec<Vec<Value>>,
    },
    /// Computes each of its columns.
    Project {
        input: Box<Relation>,
        exprs: Vec<(ColumnId, Expr)>,
    },
    /// Rows meeting all conditions.
    Filter {
        input: Box<Relation>,
        conditions: Vec<Expr>,
    },
    Join(Box<Join>),
    /// A row for each combination of keys, or one row if there are no keys and `folds` is not empty.
    Aggregate {
        input: Box<Relation>,
        keys: Vec<(ColumnId, Expr)>,
        folds: Vec<Fold>,
    },
    /// All rows of all inputs, with the columns in order.
    UnionAll {
        inputs: Vec<Relation>,
    },
    /// The rows of the first input found in the second, or missing there. With `all`, each as often as it comes.
    SetOperation {
        left: Box<Relation>,
        right: Box<Relation>,
        except: bool,
        all: bool,
    },
    Sort {
        input: Box<Relation>,
        by: Vec<SortBy>,
        most: Option<u64>,
    },
    Limit {
        input: Box<Relation>,
        offset: u64,
        count: Option<u64>,
    },
    /// The rows of a recursive query: those of `base`, what `step` makes of them, what it makes of that, and so on.
    Iterate {
        base: Box<Relation>,
        step: Box<Relation>,
        /// The number of the rows that the step reads.
        number: usize,
        /// Whether rows come as often as they are made; otherwise once.
        all: bool,
    },
    /// In the step of a recursive query: the rows of the last round.
    Round {
        number: usize,
    },
    /// A row for each value of a list, with the input's columns and the value.
    Unnest {
        input: Box<Relation>,
        list: Expr,
        item: ColumnId,
    },
    /// One row: the input's, or nulls if there is none. More rows are an error.
    Single {
        input: Box<Relation>,
    },
}

/// A join of two inputs. The rows of the right one are put into a table; the left rows are looked up in it.
pub(crate) struct Join {
    pub(crate) left: Relation,
    pub(crate) right: Relation,
    pub(crate) kind: JoinKind,
    /// Pairs of a left and a right expression with equal values.
    pub(crate) keys: Vec<(Expr, Expr)>,
    /// Further conditions over both sides.
    pub(crate) residual: Vec<Expr>,
    /// For `Anti` and `Mark`: whether a null among the single key's values makes the answer unknown, as IN has it.
    pub(crate) is_null_aware: bool,
    /// For `Anti` and `Mark`: one more condition. Where it is null, the answer is unknown.
    pub(crate) membership: Option<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinKind {
    Inner,
    /// Left rows without a partner come with nulls.
    Left,
    /// So do the rows of both sides.
    Full,
    /// Left rows with a partner.
    Semi,
    /// Left rows without a partner.
    Anti,
    /// Left rows with one more column: whether they have a partner.
    Mark(ColumnId),
}

/// An aggregate.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub(crate) output: ColumnId,
    pub(crate) kind: FoldKind,
    /// None for COUNT(*).
    pub(crate) argument: Option<Expr>,
    pub(crate) is_distinct: bool,
    /// The type of its result.
    pub(crate) result: SqlType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoldKind {
    Count,
    Sum,
    Average,
    Least,
    Greatest,
    Every,
    Some,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SortBy {
    pub(crate) column: ColumnId,
    pub(crate) descending: bool,
    pub(crate) nulls_last: bool,
}

/// The properties of each column of a plan, by its number.
#[derive(Default)]
pub(crate) struct Columns {
    infos: Vec<(String, SqlType)>,
}

impl Columns {
    pub(crate) fn add(&mut self, name: impl Into<String>, kind: SqlType) -> ColumnId {
        self.infos.push((name.into(), kind));
        ColumnId(self.infos.len() as u32 - 1)
    }

    pub(crate) fn kind(&self, id: ColumnId) -> SqlType {
        self.infos[id.0 as usize].1.clone()
    }

    pub(crate) fn name(&self, id: ColumnId) -> &str {
        &self.infos[id.0 as usize].0
    }

    pub(crate) fn expr(&self, id: ColumnId) -> Expr {
        Expr::Column(id, self.kind(id))
    }
}

impl Relation {
    pub(crate) fn new(op: Op, columns: Vec<ColumnId>) -> Relation {
        Relation { op, columns, rows: 0.0 }
    }

    /// A single row without columns.
    pub(crate) fn one_row() -> Relation {
        Relation::new(Op::Values { rows: vec![Vec::new()] }, Vec::new())
    }

    pub(crate) fn none(columns: Vec<ColumnId>) -> Relation {
        Relation::new(Op::Values { rows: Vec::new() }, columns)
    }

    pub(crate) fn project(input: Relation, exprs: Vec<(ColumnId, Expr)>) -> Relation {
        let columns = exprs.iter().map(|(id, _)| *id).collect();
        Relation::new(Op::Project { input: Box::new(input), exprs }, columns)
    }

    pub(crate) fn filter(mut input: Relation, conditions: Vec<Expr>) -> Relation {
        if conditions.is_empty() {
            return input;
        }
        // However many conditions there are, they are one operator.
        if let Op::Filter { conditions: own, .. } = &mut input.op {
            own.extend(conditions);
            return input;
        }
        let columns = input.columns.clone();
        Relation::new(Op::Filter { input: Box::new(input), conditions }, columns)
    }

    pub(crate) fn join(
        left: Relation,
        right: Relation,
        kind: JoinKind,
        keys: Vec<(Expr, Expr)>,
        residual: Vec<Expr>,
    ) -> Relation {
        let mut columns = left.columns.clone();
        match kind {
            JoinKind::Inner | JoinKind::Left | JoinKind::Full => columns.extend(&right.columns),
            JoinKind::Semi | JoinKind::Anti => {}
            JoinKind::Mark(mark) => columns.push(mark),
        }
        let join = Join { left, right, kind, keys, residual, is_null_aware: false, membership: None };
        Relation::new(Op::Join(Box::new(join)), columns)
    }

    pub(crate) fn unnest(input: Relation, list: Expr, item: ColumnId) -> Relation {
        let columns = input.columns.iter().copied().chain([item]).collect();
        Relation::new(Op::Unnest { input: Box::new(input), list, item }, columns)
    }

    pub(crate) fn single(input: Relation) -> Relation {
        let columns = input.columns.clone();
        Relation::new(Op::Single { input: Box::new(input) }, columns)
    }

    pub(crate) fn has(&self, column: ColumnId) -> bool {
        self.columns.contains(&column)
    }

    /// Whether all columns of an expression are there.
    pub(crate) fn has_all(&self, expr: &Expr) -> bool {
        let mut all = true;
        expr.each_column(&mut |column| all &= self.has(column));
        all
    }

    /// Whether no column of an expression is there.
    pub(crate) fn has_none(&self, expr: &Expr) -> bool {
        let mut none = true;
        expr.each_column(&mut |column| none &= !self.has(column));
        none
    }

    pub(crate) fn inputs(&self) -> Vec<&Relation> {
        match &self.op {
            Op::Scan { .. } | Op::Values { .. } | Op::Round { .. } => Vec::new(),
            Op::Project { input, .. }
            | Op::Filter { input, .. }
            | Op::Aggregate { input, .. }
            | Op::Sort { input, .. }
            | Op::Limit { input, .. }
            | Op::Unnest { input, .. }
            | Op::Single { input } => vec![input],
            Op::Join(join) => vec![&join.left, &join.right],
            Op::UnionAll { inputs } => inputs.iter().collect(),
            Op::SetOperation { left, right, .. } => vec![left, right],
            Op::Iterate { base, step, .. } => vec![base, step],
        }
    }

    /// Whether it reads the rows of a round of a recursive query.
    pub(crate) fn reads_round(&self, wanted: usize) -> bool {
        match &self.op {
            Op::Round { number } => *number == wanted,
            _ => deep(|| self.inputs().into_iter().any(|input| input.reads_round(wanted))),
        }
    }

    /// Whether the operator reads all of its input before it sends anything.
    pub(crate) fn reads_all(&self) -> bool {
        matches!(self.op, Op::Aggregate { .. } | Op::Sort { .. } | Op::SetOperation { .. })
    }

    /// Whether several machines may make all of its rows, each for itself. A LIMIT may choose other rows in each; what
    /// reads all of its input, and recursion, is better done once.
    pub(crate) fn has_one_answer(&self) -> bool {
        let own = matches!(
            self.op,
            Op::Scan { .. }
                | Op::Values { .. }
                | Op::Project { .. }
                | Op::Filter { .. }
                | Op::Join(_)
                | Op::UnionAll { .. }
                | Op::Unnest { .. }
        );
        own && deep(|| self.inputs().into_iter().all(Relation::has_one_answer))
    }

    /// The expected rows of all operators together.
    pub(crate) fn all_rows(&self) -> f64 {
        self.rows + deep(|| self.inputs().into_iter().map(Relation::all_rows).sum::<f64>())
    }

    /// The name of a table that only this machine has.
    pub(crate) fn own_table(&self) -> Option<&str> {
        match &self.op {
            Op::Scan { table, name, .. } if !table.is_everywhere() => Some(name),
            _ => deep(|| self.inputs().into_iter().find_map(Relation::own_table)),
        }
    }

    /// The expressions of the operator itself.
    fn exprs(&self) -> Vec<&Expr> {
        match &self.op {
            Op::Project { exprs, .. } => exprs.iter().map(|(_, expr)| expr).collect(),
            Op::Filter { conditions, .. } => conditions.iter().collect(),
            Op::Unnest { list, .. } => vec![list],
            Op::Join(join) => {
                let keys = join.keys.iter().flat_map(|(left, right)| [left, right]);
                keys.chain(&join.residual).chain(&join.membership).collect()
            }
            Op::Aggregate { keys, folds, .. } => {
                let arguments = folds.iter().filter_map(|fold| fold.argument.as_ref());
                keys.iter().map(|(_, key)| key).chain(arguments).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The first column read by an expression and missing in its inputs; there is none in a plan that can run.
    pub(crate) fn missing(&self) -> Option<ColumnId> {
        let inputs = self.inputs();
        let there: BTreeSet<ColumnId> = inputs.iter().flat_map(|input| &input.columns).copied().collect();
        let mut missing = None;
        for expr in self.exprs() {
            expr.each_column(&mut |column| {
                if !there.contains(&column) {
                    missing = missing.or(Some(column));
                }
            });
        }
        missing.or_else(|| deep(|| inputs.iter().find_map(|input| input.missing())))
    }
}
