//! The kinds of every program: the boxes of core/flow's library, and those of SQL's expressions.

use crate::folds::{group, group_ahead};
use crate::iterate::iterate;
use crate::parts::{join_near, join_parts, partition_heavy, partition_to_heavy};
use crate::spec::{BoxSpec, Building, Incoming, KindError, Kinds, Ports};
use crate::value::{ParameterType, ParameterValue};
use crate::windows::{watermark, window};
use vicus_flow::library::{self, HashKey, SortKey};
use vicus_flow::{BoxError, BoxModel, Envelope, Field, OutputId, Schema, Turn, Type};
use vicus_language::{PlanOptions, similar_names, suggestion};
use vicus_sql::{RowColumns, SqlError, SqlStream, add_rows, add_statement};

/// The rows of an envelope that a kind makes.
pub(crate) const ENVELOPE_ROWS: usize = 4096;

pub(crate) type KindOutputs = Result<Vec<(OutputId, Schema)>, KindError>;

pub(crate) fn text(text: &str) -> ParameterValue {
    ParameterValue::Text(text.to_owned())
}

impl Kinds {
    /// The kinds of every program. Those that read and write files are added by doors.
    pub fn library() -> Kinds {
        let mut kinds = Kinds::default();
        [
            numbers(),
            filter(),
            map(),
            aggregate(),
            join(),
            sql(),
            limit(),
            sort(),
            merge(),
            partition(),
            spread(),
            union(),
            iterate(),
        ]
        .into_iter()
        .chain([hold(), count(), collect(), sink(), watermark(), window(), join_parts(), group(), group_ahead()])
        .chain([partition_heavy(), partition_to_heavy(), join_near()])
        .for_each(|kind| kinds.add(kind));
        kinds
    }
}

fn numbers() -> BoxSpec {
    BoxSpec::new("numbers", "Sends integers in order, in one column of I64.")
        .ports(Ports::Exactly(0), Ports::Exactly(1))
        .defaults("from", ParameterValue::Integer(0), "The first one.")
        .required("to", ParameterType::Integer, "The end: numbers are below it.")
        .defaults("step", ParameterValue::Integer(1), "The distance from one to the next, at least 1.")
        .defaults("column", text("n"), "The column's name.")
        .builds(|building| {
            let (from, to, step) = (building.integer("from"), building.integer("to"), building.integer("step"));
            let step = usize::try_from(step).ok().filter(|step| *step > 0);
            let step = step.ok_or_else(|| KindError::of("step", "the step is at least 1"))?;
            let schema = Schema::new([(building.text("column"), Type::I64)]);
            let envelopes = move || {
                let mut numbers = (from..to).step_by(step);
                std::iter::from_fn(move || {
                    let part: Vec<i64> = numbers.by_ref().take(ENVELOPE_ROWS).collect();
                    (!part.is_empty()).then(|| Envelope::new([part.into()]))
                })
            };
            let source = building.source(library::source("numbers", &schema, envelopes));
            Ok(vec![(source.output(0), schema)])
        })
}

/// Adds a statement over the inputs under these names; `before` is what stands before the parameter's text in it.
pub(crate) fn statement(
    building: &mut Building<'_>,
    parameter: &'static str,
    names: &[String],
    before: &str,
    statement: &str,
) -> KindOutputs {
    let streams = names.iter().zip(building.inputs()).map(|(name, Incoming { output, schema, .. })| SqlStream {
        name: name.clone(),
        schema: schema.clone(),
        output: *output,
    });
    let streams: Vec<SqlStream> = streams.collect();
    let added = add_statement(building.net(), statement, &streams, &plan_options());
    Ok(vec![added.map_err(|error| wrong(error, parameter, before))?])
}

/// Adds a statement over the first input that takes each row by itself, if it is one.
fn row_statement(
    building: &mut Building<'_>,
    parameter: &'static str,
    columns: RowColumns,
    before: &str,
    statement: &str,
) -> Result<Option<(OutputId, Schema)>, KindError> {
    let Incoming { output, schema, .. } = building.inputs()[0].clone();
    let stream = SqlStream { name: "rows".to_owned(), schema, output };
    let added = add_rows(building.net(), statement, &stream, columns, &plan_options());
    added.map_err(|error| wrong(error, parameter, before))
}

fn plan_options() -> PlanOptions {
    PlanOptions { envelope_rows: ENVELOPE_ROWS, ..PlanOptions::default() }
}

/// A mistake in a parameter's text, behind what stands before it in a statement.
fn wrong(SqlError { message, place, .. }: SqlError, parameter: &'static str, before: &str) -> KindError {
    match place.offset {
        Some(offset) => KindError::within(parameter, offset.saturating_sub(before.len()), message),
        None => KindError::of(parameter, message),
    }
}

/// Checks that a text is an expression, or a list of them, by itself: what it is put into stays as it is.
pub(crate) fn check(parameter: &'static str, written: &str, before: &str) -> Result<(), KindError> {
    let parsed = vicus_sql::parse(&format!("{before}{written}"), &vicus_sql::StatementLimits::default());
    parsed.map(|_| ()).map_err(|error| wrong(error, parameter, before))
}

fn filter() -> BoxSpec {
    BoxSpec::new("filter", "Passes on the rows that meet a condition of SQL, as they are.")
        .required("where", ParameterType::Text, "The condition, such as \"n % 2 = 0 AND name LIKE 'A%'\".")
        .builds(|building| {
            let condition = building.text("where").to_owned();
            check("where", &condition, "SELECT ")?;
            let before = "SELECT 1 FROM rows WHERE (";
            let whole = format!("{before}{condition}\n)");
            if let Some(made) = row_statement(building, "where", RowColumns::OfStream, before, &whole)? {
                return Ok(vec![made]);
            }
            let before = "SELECT * FROM rows WHERE (";
            let whole = format!("{before}{condition}\n)");
            statement(building, "where", &["rows".to_owned()], before, &whole)
        })
}

fn map() -> BoxSpec {
    BoxSpec::new("map", "Computes columns by expressions of SQL for each row. Columns named alone stay as they are.")
        .required("select", ParameterType::Text, "The columns, such as \"name, price * count AS turnover\".")
        .builds(|building| {
            let select = building.text("select").to_owned();
            let before = "SELECT ";
            check("select", &select, before)?;
            let whole = format!("{before}{select}\nFROM rows");
            if let Some(made) = row_statement(building, "select", RowColumns::Selected, before, &whole)? {
                return Ok(vec![made]);
            }
            statement(building, "select", &["rows".to_owned()], before, &whole)
        })
}

fn aggregate() -> BoxSpec {
    BoxSpec::new(
        "aggregate",
        "Folds the rows of each group into one, by the aggregates of SQL. Columns named alone keep their types.",
    )
    .waits_for(&[0])
    .required("select", ParameterType::Text, "The columns, such as \"city, COUNT(*) AS people, AVG(age) AS age\".")
    .defaults("by", text(""), "The expressions that rows of a group share, such as \"city\"; all are one if empty.")
    .defaults("having", text(""), "A condition on groups, such as \"COUNT(*) > 1\"; empty for all groups.")
    .builds(|building| {
        let select = building.text("select").to_owned();
        let (by, having) = (building.text("by").to_owned(), building.text("having").to_owned());
        let before = "SELECT ";
        check("select", &select, before)?;
        let mut whole = format!("{before}{select}\nFROM rows");
        for (parameter, written, keyword) in [("by", by, "GROUP BY"), ("having", having, "HAVING")] {
            if !written.trim().is_empty() {
                check(parameter, &written, before)?;
                whole = format!("{whole}\n{keyword} {written}");
            }
        }
        statement(building, "select", &["rows".to_owned()], before, &whole)
    })
}

fn join() -> BoxSpec {
    BoxSpec::new(
        "join",
        "Joins the rows of its inputs, `a` and `b`, that meet a condition of SQL; `b` is kept in memory. Columns named \
         alone keep their types.",
    )
    .ports(Ports::Exactly(2), Ports::Exactly(1))
    .waits_for(&[1])
    .required("on", ParameterType::Text, "The condition, such as \"a.city = b.id\".")
    .defaults(
        "kind",
        text("inner"),
        "inner, left (rows of `a` without a partner come with nulls), full, semi (rows of `a` with a partner) or \
             anti (those without).",
    )
    .defaults("select", text("*"), "The columns, such as \"a.name, b.name AS city\".")
    .builds(|building| {
        let (on, select) = (building.text("on").to_owned(), building.text("select").to_owned());
        check("on", &on, "SELECT ")?;
        check("select", &select, "SELECT ")?;
        let (before, after) = match building.text("kind") {
            "inner" => (format!("SELECT {select}\nFROM a JOIN b ON ("), "\n)"),
            "left" => (format!("SELECT {select}\nFROM a LEFT JOIN b ON ("), "\n)"),
            "full" => (format!("SELECT {select}\nFROM a FULL JOIN b ON ("), "\n)"),
            "semi" => (format!("SELECT {select}\nFROM a WHERE EXISTS (SELECT 1 FROM b WHERE ("), "\n))"),
            "anti" => (format!("SELECT {select}\nFROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE ("), "\n))"),
            other => {
                let message = format!("`{other}` is no kind of join: write inner, left, full, semi or anti");
                return Err(KindError::of("kind", message));
            }
        };
        let whole = format!("{before}{on}{after}");
        statement(building, "on", &["a".to_owned(), "b".to_owned()], &before, &whole)
    })
}

fn sql() -> BoxSpec {
    BoxSpec::new("sql", "A statement of SQL over its inputs. Columns named alone keep their types.")
        .ports(Ports::Any, Ports::Exactly(1))
        .required("text", ParameterType::Text, "The statement, such as \"SELECT a.n FROM a JOIN b ON a.n = b.n\".")
        .defaults(
            "names",
            text(""),
            "The inputs' names in it, such as \"people, cities\"; by default a, b, c and so on.",
        )
        .builds(|building| {
            let written = building.text("text").to_owned();
            let names = input_names(building, 0)?;
            statement(building, "text", &names, "", &written)
        })
}

/// The names of the inputs from this one on in a statement: those of the parameter `names`, or letters.
pub(crate) fn input_names(building: &Building<'_>, from: usize) -> Result<Vec<String>, KindError> {
    let inputs = from..building.inputs().len();
    let (names, count) = (building.text("names").trim(), inputs.len());
    if names.is_empty() {
        return Ok(inputs.map(letters).collect());
    }
    let names: Vec<String> = names.split(',').map(|name| name.trim().to_owned()).collect();
    if names.len() != count {
        let behind = if from > 0 { " behind the first one" } else { "" };
        let message = format!("{} names for {count} inputs{behind}: each has one", names.len());
        return Err(KindError::of("names", message));
    }
    Ok(names)
}

/// a, b, …, z, a1, b1, …
fn letters(place: usize) -> String {
    let letter = char::from(b'a' + (place % 26) as u8);
    if place < 26 { letter.to_string() } else { format!("{letter}{}", place / 26) }
}

fn limit() -> BoxSpec {
    BoxSpec::new("limit", "Passes on so many rows, and then closes its input.")
        .ends()
        .required("rows", ParameterType::Integer, "How many rows, at least 0.")
        .defaults("skip", ParameterValue::Integer(0), "How many rows are left out before them.")
        .builds(|building| {
            let count = |parameter: &'static str| {
                u64::try_from(building.integer(parameter)).map_err(|_| KindError::of(parameter, "it is at least 0"))
            };
            let (rows, skip, schema) = (count("rows")?, count("skip")?, building.inputs[0].schema.clone());
            let operator = move || {
                let (mut rows, mut skip, mut is_over) = (rows, skip, false);
                move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                    let Some(envelope) = turn.take(0).filter(|_| !is_over) else { return Ok(()) };
                    if turn.pass_mark(&envelope) {
                        return Ok(());
                    }
                    if !envelope.is_pill() {
                        let from = skip.min(envelope.rows() as u64);
                        let count = rows.min(envelope.rows() as u64 - from);
                        (skip, rows) = (skip - from, rows - count);
                        if count > 0 {
                            turn.send(0, envelope.slice(from as usize..(from + count) as usize));
                        }
                        if rows > 0 {
                            return Ok(());
                        }
                        turn.close(0);
                    }
                    is_over = true;
                    turn.send_pill(0);
                    Ok(())
                }
            };
            let made = building.add(BoxModel::new("limit", operator).input(&schema).output(&schema));
            Ok(vec![(made.output(0), schema)])
        })
}

/// Columns to sort by: `name [asc|desc] [nulls first|nulls last], …`.
fn keys(parameter: &'static str, written: &str, schema: &Schema) -> Result<Vec<SortKey>, KindError> {
    let mut at = 0;
    let mut keys = Vec::new();
    for part in written.split(',') {
        let begin = at + (part.len() - part.trim_start().len());
        at += part.len() + 1;
        let words: Vec<String> = part.split_whitespace().map(str::to_lowercase).collect();
        let Some(name) = part.split_whitespace().next() else {
            return Err(KindError::within(parameter, begin, "the name of a column is expected"));
        };
        let mut key = SortKey::of(column(parameter, name, begin, schema)?);
        let mut rest: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        if let Some(direction @ ("asc" | "desc")) = rest.first().copied() {
            key.descending = direction == "desc";
            rest.remove(0);
        }
        match rest[..] {
            [] => {}
            ["nulls", "first"] => key.nulls_last = false,
            ["nulls", "last"] => key.nulls_last = true,
            _ => {
                let message = format!("`{}`: write a column, then desc, nulls last, or both", part.trim());
                return Err(KindError::within(parameter, begin, message));
            }
        }
        keys.push(key);
    }
    Ok(keys)
}

/// The place of a column.
pub(crate) fn column(parameter: &'static str, name: &str, at: usize, schema: &Schema) -> Result<usize, KindError> {
    let names = || schema.columns().iter().map(|field| field.name.as_str());
    names().position(|known| known == name).ok_or_else(|| {
        let likely = similar_names(name, names().map(|known| (known, known.to_owned())));
        let all = names().collect::<Vec<_>>().join(", ");
        let message = format!("there is no column `{name}`{}; the columns are {all}", suggestion(&likely));
        KindError::within(parameter, at, message)
    })
}

/// The columns that a text names, with commas between them.
pub(crate) fn columns(parameter: &'static str, written: &str, schema: &Schema) -> Result<Vec<usize>, KindError> {
    Ok(keys(parameter, written, schema)?.iter().map(|key| key.column).collect())
}

fn sort() -> BoxSpec {
    BoxSpec::new("sort", "Sorts all rows, in memory and beyond it in files.")
        .waits_for(&[0])
        .required("by", ParameterType::Text, "The columns, such as \"age desc, name nulls last\".")
        .builds(|building| {
            let schema = building.inputs()[0].schema.clone();
            let keys = keys("by", building.text("by"), &schema)?;
            let sort = building.add(library::sort(&schema, keys, ENVELOPE_ROWS));
            Ok(vec![(sort.output(0), schema)])
        })
}

/// The columns of all inputs as one stream has them.
fn united(inputs: &[Incoming]) -> Result<Schema, KindError> {
    let mut fields: Vec<Field> = inputs[0].schema.columns().to_vec();
    for other in &inputs[1..] {
        let columns = other.schema.columns();
        let is_alike = columns.len() == fields.len() && columns.iter().zip(&fields).all(|(a, b)| a.kind == b.kind);
        if !is_alike {
            let message = format!(
                "its inputs differ in their columns: `{}` sends {}, and `{}` sends {}; bring them to the same types \
                 by `map`",
                inputs[0].from, inputs[0].schema, other.from, other.schema
            );
            return Err(KindError::new(message));
        }
        for (field, column) in fields.iter_mut().zip(columns) {
            field.nullable |= column.nullable;
        }
    }
    Ok(fields.into_iter().collect())
}

fn merge() -> BoxSpec {
    BoxSpec::new("merge", "Merges sorted inputs to one sorted output.")
        .ports(Ports::Any, Ports::Exactly(1))
        .required("by", ParameterType::Text, "The columns that the inputs are sorted by, as for `sort`.")
        .builds(|building| {
            let schema = united(building.inputs())?;
            let keys = keys("by", building.text("by"), &schema)?;
            let inputs = building.inputs().len();
            let merge = building.add(library::merge(&schema, inputs, ENVELOPE_ROWS, library::order_by(keys)));
            Ok(vec![(merge.output(0), schema)])
        })
}

fn partition() -> BoxSpec {
    BoxSpec::new("partition", "Deals rows by the values of some columns: rows with equal values leave by one output.")
        .ports(Ports::Exactly(1), Ports::Any)
        .required("by", ParameterType::Text, "The columns, such as \"city, street\".")
        .builds(|building| {
            let schema = building.inputs()[0].schema.clone();
            let keys = columns("by", building.text("by"), &schema)?;
            let parts = building.outputs();
            let deal = building.add(library::partition(&schema, &keys, parts, HashKey::default()));
            Ok((0..parts).map(|part| (deal.output(part), schema.clone())).collect())
        })
}

fn spread() -> BoxSpec {
    BoxSpec::new("spread", "Hands each envelope to an output whose reader has room.")
        .ports(Ports::Exactly(1), Ports::Any)
        .builds(|building| {
            let (schema, parts) = (building.inputs()[0].schema.clone(), building.outputs());
            let spread = building.add(library::spread(&schema, parts));
            Ok((0..parts).map(|part| (spread.output(part), schema.clone())).collect())
        })
}

fn union() -> BoxSpec {
    BoxSpec::new("union", "Passes on the envelopes of all inputs as they come.")
        .ports(Ports::Any, Ports::Exactly(1))
        .builds(|building| {
            let schema = united(building.inputs())?;
            let inputs = building.inputs().len();
            let union = building.add(library::union(&schema, inputs));
            Ok(vec![(union.output(0), schema)])
        })
}

fn hold() -> BoxSpec {
    BoxSpec::new("hold", "Keeps all rows until the last one has come, in memory and beyond it in files.")
        .waits_for(&[0])
        .builds(|building| {
            let schema = building.inputs()[0].schema.clone();
            let hold = building.add(library::hold(&schema));
            Ok(vec![(hold.output(0), schema)])
        })
}

fn count() -> BoxSpec {
    BoxSpec::new("count", "Sends the number of rows at their end, in one row of U64.")
        .waits_for(&[0])
        .defaults("column", text("count"), "The column's name.")
        .builds(|building| {
            let schema = Schema::new([(building.text("column"), Type::U64)]);
            let input = building.inputs()[0].schema.clone();
            let operator = || {
                let mut rows = 0u64;
                move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                    match turn.take(0) {
                        Some(pill) if pill.is_pill() => {
                            turn.send(0, Envelope::new([vec![rows].into()]));
                            turn.send_pill(0);
                        }
                        Some(envelope) => rows += envelope.rows() as u64,
                        None => {}
                    }
                    Ok(())
                }
            };
            let count = building.add(BoxModel::new("count", operator).input(&input).output(&schema));
            Ok(vec![(count.output(0), schema)])
        })
}

fn collect() -> BoxSpec {
    BoxSpec::new("collect", "Hands its rows to the program that runs the network: `vicus network run` prints them.")
        .ports(Ports::Exactly(1), Ports::Exactly(0))
        .builds(|building| {
            building.collect();
            Ok(Vec::new())
        })
}

fn sink() -> BoxSpec {
    BoxSpec::new("sink", "Takes rows and drops them.").ports(Ports::Exactly(1), Ports::Exactly(0)).builds(|building| {
        building.sink("sink", |_| Ok(()));
        Ok(Vec::new())
    })
}
