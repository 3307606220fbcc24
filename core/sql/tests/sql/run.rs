//! Tables of literals, and statements over them in the smallest world.

use std::sync::{Arc, mpsc};
use vicus_flow::{Column, Envelope, sequential};
use vicus_sql::{MemoryTable, ParseOptions, PlanOptions, SqlType, TableColumn, Tables, Value, parse, plan};

/// A table of these rows, in parts of so many.
pub(crate) fn table(columns: &[(&str, SqlType)], rows: &[Vec<Value>], part_rows: usize) -> MemoryTable {
    let parts = rows.chunks(part_rows.max(1)).map(|rows| {
        let column = |(place, (_, kind)): (usize, &(&str, SqlType))| column(kind, rows.iter().map(|row| &row[place]));
        Envelope::of_rows(columns.iter().enumerate().map(column).collect(), rows.len())
    });
    MemoryTable::new(columns.iter().map(|(name, kind)| TableColumn::new(*name, kind.clone())), parts)
}

/// A column of values, written by the builder of lists and structs where need be.
fn column<'v>(kind: &SqlType, values: impl Iterator<Item = &'v Value>) -> Column {
    let values: Vec<&Value> = values.collect();
    macro_rules! of {
        ($($variant:ident)|+) => {
            values
                .iter()
                .map(|value| match value {
                    $(Value::$variant(value))|+ => Some(*value),
                    Value::Null => None,
                    other => panic!("{other} is no {kind}"),
                })
                .collect::<Vec<_>>()
                .into()
        };
    }
    let nulls = || values.iter().enumerate().filter(|(_, value)| ***value == Value::Null).map(|(row, _)| row);
    let column: Column = match kind {
        SqlType::Boolean => of!(Boolean),
        SqlType::BigInt | SqlType::Time | SqlType::Timestamp | SqlType::TimestampTz | SqlType::Interval => {
            of!(BigInt | Time | Timestamp | TimestampTz | Interval)
        }
        SqlType::Double => of!(Double),
        SqlType::Date => of!(Date),
        SqlType::Decimal { precision, scale } => {
            let units = values.iter().map(|value| if let Value::Decimal(units, _) = value { *units } else { 0 });
            return Column::of_decimals(*precision, *scale as i8, units.collect()).with_nulls(nulls());
        }
        SqlType::Blob => {
            let bytes = values.iter().map(|value| if let Value::Blob(bytes) = value { &**bytes } else { &[] });
            return Column::of_binaries(bytes).with_nulls(nulls());
        }
        SqlType::List(of) => {
            let (mut ends, mut items) = (vec![0], Vec::new());
            for value in &values {
                if let Value::List(values) = value {
                    items.extend(values.iter());
                }
                ends.push(items.len() as i32);
            }
            return Column::of_lists(ends, column(of, items.into_iter())).with_nulls(nulls());
        }
        SqlType::Struct(parts) => {
            let part = |(place, (name, kind)): (usize, &(String, SqlType))| {
                let part = |value: &&Value| {
                    if let Value::Struct(parts) = value { parts[place].1.clone() } else { Value::Null }
                };
                let parts: Vec<Value> = values.iter().map(part).collect();
                (name.clone(), column(kind, parts.iter()))
            };
            return Column::of_parts(parts.iter().enumerate().map(part)).with_nulls(nulls());
        }
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

/// The value of a row.
fn value_of(column: &Column, kind: &SqlType, row: usize) -> Value {
    match kind {
        _ if column.is_null(row) => Value::Null,
        SqlType::Boolean => Value::Boolean(column.bools()[row]),
        SqlType::BigInt => Value::BigInt(column.i64s()[row]),
        SqlType::Double => Value::Double(column.f64s()[row]),
        SqlType::Decimal { scale, .. } => Value::Decimal(column.decimals()[row], *scale),
        SqlType::Varchar => Value::Varchar(column.text_at(row).into()),
        SqlType::Blob => Value::Blob(column.binary_at(row).into()),
        SqlType::Date => Value::Date(column.i32s()[row]),
        SqlType::Time => Value::Time(column.i64s()[row]),
        SqlType::Timestamp => Value::Timestamp(column.i64s()[row]),
        SqlType::TimestampTz => Value::TimestampTz(column.i64s()[row]),
        SqlType::Interval => Value::Interval(column.i64s()[row]),
        SqlType::List(of) => {
            Value::List(column.item_range(row).map(|item| value_of(column.items(), of, item)).collect())
        }
        SqlType::Struct(parts) => {
            let part = |(place, (name, kind)): (usize, &(String, SqlType))| {
                (name.clone(), value_of(column.part(place), kind, row))
            };
            Value::Struct(parts.iter().enumerate().map(part).collect())
        }
    }
}

/// The values of a row.
pub(crate) fn row(envelope: &Envelope, kinds: &[(String, SqlType)], row: usize) -> Vec<Value> {
    envelope.columns().iter().zip(kinds).map(|(column, (_, kind))| value_of(column, kind, row)).collect()
}

/// The rows of a statement's answer in the order of their arrival, or the text of its error.
pub(crate) fn answer(text: &str, tables: &Tables, options: &PlanOptions, seed: u64) -> Result<Vec<Vec<Value>>, String> {
    answer_within(text, tables, options, seed, usize::MAX)
}

/// Like [`answer`]; a statement with more tasks is cancelled. A recursive one may have no end.
pub(crate) fn answer_within(
    text: &str,
    tables: &Tables,
    options: &PlanOptions,
    seed: u64,
    most_tasks: usize,
) -> Result<Vec<Vec<Value>>, String> {
    let parsed = parse(text, &ParseOptions::default()).map_err(|error| error.to_string())?;
    let plan = plan(&parsed, tables, options, &|| false).map_err(|error| error.to_string())?;
    let (send, receive) = mpsc::channel();
    let mut operators = plan.start();
    for &sink in plan.sinks() {
        let send = send.clone();
        operators.push((sink, plan.sink_operator(move |envelope| Ok(send.send(envelope.clone())?))));
    }
    drop(send);
    let (mut state, mut left) = (seed, most_tasks);
    let pick = |tasks: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        left = usize::checked_sub(left, 1)?;
        Some((state >> 33) as usize % tasks)
    };
    sequential::run_while(plan.model(), operators, pick).map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for envelope in receive {
        rows.extend((0..envelope.rows()).map(|number| row(&envelope, plan.columns(), number)));
    }
    Ok(rows)
}

/// The rows as text, a row a line and the values with `|` between them, as the expected answers are written.
pub(crate) fn lines(rows: &[Vec<Value>]) -> Vec<String> {
    rows.iter().map(|row| row.iter().map(shown).collect::<Vec<_>>().join("|")).collect()
}

/// A value as DuckDB shows it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Varchar(text) => text.to_string(),
        Value::Blob(bytes) => bytes.iter().map(|byte| format!("\\x{byte:02X}")).collect(),
        Value::Date(_) | Value::Time(_) | Value::Timestamp(_) | Value::TimestampTz(_) | Value::Interval(_) => {
            value.to_string().split('\'').nth(1).unwrap_or_default().to_owned()
        }
        Value::List(values) => format!("[{}]", values.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Value::Struct(parts) => {
            let parts: Vec<String> = parts.iter().map(|(name, value)| format!("'{name}': {}", shown(value))).collect();
            format!("{{{}}}", parts.join(", "))
        }
        other => other.to_string(),
    }
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
            rows.push(line.split('|').zip(columns).map(|(text, (_, kind))| value(text, kind)).collect());
        }
    }
    tables
}

/// The type of a name: that of `name[]` is a list, that of `struct(x name;y name)` a struct.
fn kind_of(name: &str) -> SqlType {
    if let Some(of) = name.strip_suffix("[]") {
        return SqlType::List(Arc::new(kind_of(of)));
    }
    match name.strip_prefix("struct(").and_then(|parts| parts.strip_suffix(')')) {
        Some(parts) => {
            let part = |part: &str| {
                let (name, kind) = part.split_once('~').expect("a name and a type");
                (name.to_owned(), kind_of(kind))
            };
            SqlType::Struct(parts.split(';').map(part).collect())
        }
        None => SqlType::named(name).unwrap_or_else(|| panic!("{name} is a type")),
    }
}

fn value(text: &str, kind: &SqlType) -> Value {
    match kind {
        _ if text == "\\N" => Value::Null,
        SqlType::Boolean => Value::Boolean(text.parse().unwrap()),
        SqlType::BigInt => Value::BigInt(text.parse().unwrap()),
        SqlType::Double => Value::Double(text.parse().unwrap()),
        SqlType::Varchar => Value::Varchar(Arc::from(text)),
        SqlType::Decimal { scale, .. } => {
            assert_eq!(text.split_once('.').map_or(0, |(_, digits)| digits.len()), usize::from(*scale), "{text}");
            Value::Decimal(text.replace('.', "").parse().unwrap(), *scale)
        }
        SqlType::Blob => Value::Blob(text.as_bytes().into()),
        SqlType::List(of) => {
            let items = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).expect("a list");
            Value::List(items.split(';').filter(|item| !item.is_empty()).map(|item| value(item, of)).collect())
        }
        SqlType::Struct(parts) => {
            let values = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).expect("a struct").split(';');
            let part = |((name, kind), text): (&(String, SqlType), &str)| (name.clone(), value(text, kind));
            Value::Struct(parts.iter().zip(values).map(part).collect())
        }
        // The engine's own reading has tests of its own.
        SqlType::Date | SqlType::Time | SqlType::Timestamp | SqlType::TimestampTz | SqlType::Interval => {
            let text = format!("SELECT CAST('{text}' AS {kind})");
            let read = answer(&text, &Tables::default(), &PlanOptions::default(), 0);
            read.expect("a date").remove(0).remove(0)
        }
    }
}
