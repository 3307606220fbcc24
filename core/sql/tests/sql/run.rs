//! Tables of literals, and statements over them in the smallest world.

use std::sync::{Arc, mpsc};
use vicus_flow::{Column, Envelope, sequential};
use vicus_sql::{MemoryTable, ParseOptions, PlanOptions, SqlType, TableColumn, Tables, Value, parse, plan};

/// A table of these rows, in parts of so many.
pub(crate) fn table(columns: &[(&str, SqlType)], rows: &[Vec<Value>], part_rows: usize) -> MemoryTable {
    let parts = rows.chunks(part_rows.max(1)).map(|rows| {
        let column = |(place, (_, kind)): (usize, &(&str, SqlType))| column(*kind, rows.iter().map(|row| &row[place]));
        Envelope::of_rows(columns.iter().enumerate().map(column).collect(), rows.len())
    });
    MemoryTable::new(columns.iter().map(|(name, kind)| TableColumn::new(*name, *kind)), parts)
}

fn column<'v>(kind: SqlType, values: impl Iterator<Item = &'v Value>) -> Column {
    let values: Vec<&Value> = values.collect();
    macro_rules! of {
        ($variant:ident) => {
            values
                .iter()
                .map(|value| match value {
                    Value::$variant(value) => Some(*value),
                    Value::Null => None,
                    other => panic!("{other} is no {kind}"),
                })
                .collect::<Vec<_>>()
                .into()
        };
    }
    let column: Column = match kind {
        SqlType::Boolean => of!(Boolean),
        SqlType::BigInt => of!(BigInt),
        SqlType::Double => of!(Double),
        SqlType::Date => of!(Date),
        SqlType::Timestamp => of!(Timestamp),
        SqlType::Varchar => values
            .iter()
            .map(|value| match value {
                Value::Varchar(text) => Some(&**text),
                Value::Null => None,
                other => panic!("{other} is no {kind}"),
            })
            .collect::<Vec<_>>()
            .into(),
    };
    column.of_type(kind.flow_type())
}

/// The values of a row.
pub(crate) fn row(envelope: &Envelope, kinds: &[(String, SqlType)], row: usize) -> Vec<Value> {
    let value = |(column, (_, kind)): (&Column, &(String, SqlType))| match kind {
        _ if column.is_null(row) => Value::Null,
        SqlType::Boolean => Value::Boolean(column.bools()[row]),
        SqlType::BigInt => Value::BigInt(column.i64s()[row]),
        SqlType::Double => Value::Double(column.f64s()[row]),
        SqlType::Varchar => Value::Varchar(column.text_at(row).into()),
        SqlType::Date => Value::Date(column.i32s()[row]),
        SqlType::Timestamp => Value::Timestamp(column.i64s()[row]),
    };
    envelope.columns().iter().zip(kinds).map(value).collect()
}

/// The rows of a statement's answer in the order of their arrival, or the text of its error.
pub(crate) fn answer(text: &str, tables: &Tables, options: &PlanOptions, seed: u64) -> Result<Vec<Vec<Value>>, String> {
    let parsed = parse(text, &ParseOptions::default()).map_err(|error| error.to_string())?;
    let plan = plan(&parsed, tables, options, &|| false).map_err(|error| error.to_string())?;
    let (send, receive) = mpsc::channel();
    let mut operators = plan.start();
    for &sink in plan.sinks() {
        let send = send.clone();
        operators.push((sink, plan.sink_operator(move |envelope| Ok(send.send(envelope.clone())?))));
    }
    drop(send);
    let mut state = seed;
    let pick = |tasks: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % tasks
    };
    sequential::run(plan.model(), operators, pick).map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for envelope in receive {
        rows.extend((0..envelope.rows()).map(|number| row(&envelope, plan.columns(), number)));
    }
    Ok(rows)
}

/// The rows as text, a row a line and the values with `|` between them, as the expected answers are written.
pub(crate) fn lines(rows: &[Vec<Value>]) -> Vec<String> {
    let value = |value: &Value| match value {
        Value::Null => "NULL".to_owned(),
        Value::Varchar(text) => text.to_string(),
        Value::Date(_) | Value::Timestamp(_) => value.to_string().split('\'').nth(1).unwrap_or_default().to_owned(),
        other => other.to_string(),
    };
    rows.iter().map(|row| row.iter().map(value).collect::<Vec<_>>().join("|")).collect()
}

/// Ways to run the same statement.
pub(crate) fn ways() -> Vec<PlanOptions> {
    let plain = PlanOptions::default();
    vec![
        plain,
        PlanOptions { optimise: false, ..plain },
        PlanOptions { envelope_rows: 3, via_envelopes: 1, ..plain },
        PlanOptions { threads: 3, parallel_rows: 1, envelope_rows: 2, sinks: 2, hash_seed: 7, ..plain },
        PlanOptions { threads: 5, parallel_rows: 4, envelope_rows: 7, via_envelopes: 1, ..plain },
    ]
}

/// The tables of `data/tables.txt`: a head with the names and types of columns, and below it the rows.
pub(crate) fn people() -> Tables {
    let (mut tables, mut open) = (Tables::default(), None::<(&str, Vec<(&str, SqlType)>, Vec<Vec<Value>>)>);
    for line in include_str!("../data/tables.txt").lines().chain(["table end"]).filter(|line| !line.is_empty()) {
        if let Some(head) = line.strip_prefix("table ") {
            if let Some((name, columns, rows)) = open.take() {
                tables.add(name, Arc::new(table(&columns, &rows, 1 + rows.len() / 3)));
            }
            let mut words = head.split(' ');
            let name = words.next().expect("a name");
            let column = |word: &'static str| {
                let (name, kind) = word.split_once(':').expect("name:type");
                (name, kind_of(kind))
            };
            open = Some((name, words.map(column).collect(), Vec::new()));
        } else if let Some((_, columns, rows)) = &mut open {
            rows.push(line.split('|').zip(columns).map(|(text, (_, kind))| value(text, *kind)).collect());
        }
    }
    tables
}

fn kind_of(name: &str) -> SqlType {
    use SqlType::{BigInt, Boolean, Date, Double, Timestamp, Varchar};
    let all = [BigInt, Boolean, Date, Double, Timestamp, Varchar];
    all.into_iter().find(|kind| kind.to_string() == name).expect("a type")
}

fn value(text: &str, kind: SqlType) -> Value {
    match kind {
        _ if text == "\\N" => Value::Null,
        SqlType::Boolean => Value::Boolean(text.parse().unwrap()),
        SqlType::BigInt => Value::BigInt(text.parse().unwrap()),
        SqlType::Double => Value::Double(text.parse().unwrap()),
        SqlType::Varchar => Value::Varchar(Arc::from(text)),
        // The engine's own reading has tests of its own.
        SqlType::Date | SqlType::Timestamp => {
            let read = answer(&format!("SELECT {kind} '{text}'"), &Tables::default(), &PlanOptions::default(), 0);
            read.expect("a date").remove(0).remove(0)
        }
    }
}
