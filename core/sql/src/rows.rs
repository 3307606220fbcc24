//! A statement that makes at most one row of each row of a stream, by one box: SELECT and WHERE alone. Columns passed
//! on as they are keep their types, whether SQL has these or not.

use crate::bind::{Output, bind};
use crate::boxes::scan::Scan;
use crate::convert::in_sql;
use crate::error::SqlError;
use crate::evaluate::{Batch, Texts, evaluate, gather, selected};
use crate::expression::{ColumnId, Expr};
use crate::optimise::optimise;
use crate::parse::{StatementLimits, parse};
use crate::plan::LEVEL_BYTES;
use crate::relation::{Columns, Op, Relation};
use crate::stream::{SqlStream, StreamTable, Streams};
use crate::table::Table;
use std::collections::BTreeSet;
use std::sync::Arc;
use vicus_flow::{
    Bound, BoxError, BoxModel, Column, Envelope, Field, ModelBuilder, Operator, OutputId, Schema, Turn, library,
};
use vicus_language::stack::of_levels;
use vicus_language::{Costs, PlanOptions, Stop};

/// The most calls in the expressions of one box; beyond it they are left in boxes one behind the other.
const MOST_CALLS: usize = 10_000;

/// The columns of the rows that [`add_rows`] makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowColumns {
    /// Those of the stream; the statement's own are left out.
    OfStream,
    /// Those of the statement.
    Selected,
}

/// Adds the box of a statement over one stream that takes each row by itself. Gives the output that sends its rows, and
/// their columns: an expression's are of SQL's types, and a column passed on is the stream's, with its type and its
/// storage. `None` if the statement does more, as an aggregate does: [`add_statement`](crate::add_statement) adds it.
///
/// ```
/// use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library};
/// use vicus_sql::{PlanOptions, RowColumns, SqlStream, add_rows};
///
/// let schema = Schema::new([("n", Type::I32), ("key", Type::FixedBinary(4))]);
/// let mut net = ModelBuilder::new("even numbers");
/// let numbers = net.source(library::source("numbers", &schema, || std::iter::empty::<Envelope>()));
/// let stream = SqlStream { name: "numbers".to_owned(), schema, output: numbers.output(0) };
/// let text = "SELECT key, n + 1 AS next FROM numbers WHERE n % 2 = 0";
/// let (_, columns) = add_rows(&mut net, text, &stream, RowColumns::Selected, &PlanOptions::default())?.unwrap();
/// assert_eq!(columns.to_string(), "(key: FixedBinary(4), next: I64 or null)");
/// # Ok::<(), vicus_sql::SqlError>(())
/// ```
///
/// # Errors
/// The text is no statement over this stream: see [`plan`](crate::plan()).
pub fn add_rows(
    net: &mut ModelBuilder,
    text: &str,
    stream: &SqlStream,
    columns: RowColumns,
    options: &PlanOptions,
) -> Result<Option<(OutputId, Schema)>, SqlError> {
    let tables = Streams(vec![StreamTable::of(stream)]);
    let parsed = parse(text, &StatementLimits::default())?;
    let planned = of_levels(parsed.levels(), LEVEL_BYTES, || {
        let stop = Stop::within(&|| false, Costs { steps: options.plan_steps, bytes: options.plan_bytes });
        let mut known = Columns::default();
        let (bound, _) = bind(&parsed, &tables, &mut known, &stop)?;
        let wanted: Vec<_> = bound.outputs.iter().map(|output| output.id).collect();
        let relation = optimise(bound.relation, &wanted, &known, options.optimise, &stop)?;
        Ok(RowWork::of(relation, &bound.outputs, columns, &stream.schema, &known))
    });
    let Some((work, schema)) = planned.map_err(|error| parsed.placed(error))? else { return Ok(None) };
    let (name, work) = (if work.conditions.is_empty() { "project" } else { "filter" }, Arc::new(work));
    let operator = move || RowBox { work: Arc::clone(&work), texts: Texts::default() };
    let added = net.add(BoxModel::new(name, operator).input(&stream.schema).output(&schema));
    net.connect(stream.output, added.input(0));
    Ok(Some((added.output(0), schema)))
}

/// Adds the boxes that read columns of a table in the types that it keeps them in ([`Table::kept`]): `scans` boxes read
/// parts at once, and with several the order of rows is lost. Gives the output that sends the rows, and their columns;
/// `None` if the table does not tell its types.
pub fn add_kept(
    net: &mut ModelBuilder,
    name: &str,
    table: &Arc<dyn Table>,
    picked: &[usize],
    scans: usize,
    options: &PlanOptions,
) -> Option<(OutputId, Schema)> {
    let kept = table.kept()?;
    let schema: Schema = picked.iter().map(|&column| kept.columns()[column].clone()).collect();
    let (parts, most_rows) = (table.parts(), options.envelope_rows);
    let scans = scans.min(parts).max(1);
    let split = net.source(library::split([(0..parts as u64).into()], scans, 1));
    let (name, picked): (Arc<str>, Arc<[usize]>) = (name.into(), picked.into());
    let mut outputs = Vec::with_capacity(scans);
    for scan in 0..scans {
        let (table, name, picked) = (Arc::clone(table), Arc::clone(&name), Arc::clone(&picked));
        let model =
            BoxModel::new("scan", move || Scan::new(&table, &name, &picked, &Arc::from([]), most_rows).keeping_types());
        let added = net.add(model.input(&library::range_schema()).output(&schema));
        // A slow scan gets fewer parts.
        net.connect(split.output(scan), added.input(0)).bound(Bound { envelopes: 1, ..Bound::default() });
        outputs.push(added.output(0));
    }
    if let [one] = outputs[..] {
        return Some((one, schema));
    }
    let union = net.add(library::union(&schema, scans));
    outputs.into_iter().enumerate().for_each(|(input, output)| _ = net.connect(output, union.input(input)));
    Some((union.output(0), schema))
}

/// A column of the result.
enum Item {
    /// A column of the stream as it is.
    Same(usize),
    Computed(Expr),
}

/// The work on each envelope. Expressions name places in `read`.
struct RowWork {
    /// The columns of the stream that expressions read.
    read: Vec<usize>,
    conditions: Vec<Expr>,
    items: Vec<Item>,
    /// The places read by items.
    of_items: BTreeSet<ColumnId>,
}

impl RowWork {
    /// The work of a plan, if it is one of rows by themselves, and the columns of its result.
    fn of(
        relation: Relation,
        outputs: &[Output],
        columns: RowColumns,
        schema: &Schema,
        known: &Columns,
    ) -> Option<(RowWork, Schema)> {
        let mut exprs: Vec<Expr> = match columns {
            RowColumns::OfStream => Vec::new(),
            RowColumns::Selected => relation.columns.iter().map(|&id| known.expr(id)).collect(),
        };
        let mut conditions: Vec<Expr> = Vec::new();
        let mut below = relation;
        let (ids, picked) = loop {
            below = match below.op {
                Op::Scan { picked, .. } => break (below.columns, picked),
                Op::Project { input, exprs: lower } => {
                    let found = |expr: &Expr| match expr {
                        Expr::Column(id, _) => lower.iter().find(|(own, _)| own == id).map(|(_, expr)| expr.clone()),
                        _ => None,
                    };
                    for expr in exprs.iter_mut().chain(&mut conditions) {
                        *expr = std::mem::replace(expr, Expr::truth(true)).replaced(&mut |one| found(one));
                    }
                    *input
                }
                Op::Filter { input, conditions: lower } => {
                    conditions.splice(0..0, lower);
                    *input
                }
                // No row passes.
                Op::Values { rows } if rows.is_empty() && columns == RowColumns::OfStream => {
                    conditions = vec![Expr::truth(false)];
                    break (Vec::new(), Vec::new());
                }
                _ => return None,
            };
            if exprs.iter().chain(&conditions).map(Expr::size).sum::<usize>() > MOST_CALLS {
                return None;
            }
        };
        let place = |id: &ColumnId| picked[ids.iter().position(|own| own == id).expect("a scan has its columns")];
        let is_same = |expr: &Expr| matches!(expr, Expr::Column(..));
        let mut used = BTreeSet::new();
        let computed = exprs.iter().filter(|expr| !is_same(expr));
        computed.chain(&conditions).for_each(|expr| used.append(&mut expr.columns()));
        let used: Vec<ColumnId> = used.into_iter().collect();
        let mut fields = Vec::new();
        let mut items = Vec::new();
        match columns {
            RowColumns::OfStream => {
                fields.extend(schema.columns().iter().cloned());
                items.extend((0..fields.len()).map(Item::Same));
            }
            RowColumns::Selected => {
                for (expr, output) in exprs.into_iter().zip(outputs) {
                    match expr {
                        Expr::Column(id, _) => {
                            let column = place(&id);
                            fields.push(Field { name: output.name.clone(), ..schema.columns()[column].clone() });
                            items.push(Item::Same(column));
                        }
                        expr => {
                            fields.push(Field::new(&output.name, output.kind.flow_type()).or_null());
                            items.push(Item::Computed(expr.placed(&used)));
                        }
                    }
                }
            }
        }
        let mut of_items = BTreeSet::new();
        for item in &items {
            if let Item::Computed(expr) = item {
                of_items.append(&mut expr.columns());
            }
        }
        let conditions = conditions.into_iter().map(|expr| expr.placed(&used)).collect();
        let work = RowWork { read: used.iter().map(place).collect(), conditions, items, of_items };
        (!fields.is_empty()).then(|| (work, fields.into_iter().collect()))
    }
}

struct RowBox {
    work: Arc<RowWork>,
    texts: Texts,
}

impl Operator for RowBox {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(envelope) = turn.take(0) else { return Ok(()) };
        if envelope.is_pill() {
            self.texts.book(turn, 0, |_| Ok(()))?;
            turn.send_pill(0);
            return Ok(());
        }
        if turn.pass_mark(&envelope) || envelope.rows() == 0 {
            return Ok(());
        }
        let RowBox { work, texts } = self;
        let (attached, rows) = (envelope.attached().to_vec(), envelope.rows());
        let own = envelope.into_columns();
        let read = work.read.iter().map(|&column| in_sql(&own[column]));
        let batch = Batch { columns: read.collect::<Result<_, _>>()?, rows };
        let (columns, rows) = texts.book(turn, 0, |room| {
            let passed = selected(&work.conditions, &batch, room)?;
            room.settle(0);
            let (passed, batch) = match passed.len() {
                all if all == rows => (None, batch),
                _ => {
                    let picked = batch.picked(&passed, &work.of_items, room)?;
                    (Some(passed), picked)
                }
            };
            let rows = batch.rows;
            let made = |item: &Item| -> Result<Column, BoxError> {
                match (item, &passed) {
                    (Item::Same(column), None) => Ok(own[*column].clone()),
                    (Item::Same(column), Some(passed)) => gather(&own[*column], passed, room),
                    (Item::Computed(expr), _) => evaluate(expr, &batch, room)?.into_column(expr.kind_ref(), rows, room),
                }
            };
            Ok((work.items.iter().map(made).collect::<Result<Vec<_>, BoxError>>()?, rows))
        })?;
        if rows > 0 {
            turn.send(0, Envelope::of_rows(columns, rows).with(&attached));
        }
        Ok(())
    }
}
