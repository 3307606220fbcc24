//! Kinds of boxes for networks as text: sources without end, and lines as columns.

use crate::values::Values;
use std::path::PathBuf;
use std::time::Duration;
use vicus::streams::{Feed, Follow, FollowFrom, LineOptions, StandardInput, Tcp, Unix};
use vicus::streams::{line_schema, lines, tick_schema, ticks};
use vicus_flow::{BoxError, BoxModel, Column, Envelope, Field, Schema, Turn, Type};
use vicus_network::{BoxSpec, Building, KindError, Kinds, ParameterType, ParameterValue, Ports, span_ns};
use vicus_sql::SqlType;

/// Adds the kinds of streams: `ticks`, `lines` and `parse`. A program that does not trust the texts leaves them out:
/// `lines` connects to any peer.
///
/// ```
/// use vicus_network::Kinds;
///
/// let mut kinds = Kinds::library();
/// vicus_tables::add_stream_kinds(&mut kinds);
/// assert!(kinds.get("ticks").is_some());
/// ```
pub fn add_stream_kinds(kinds: &mut Kinds) {
    [ticks_kind(), lines_kind(), parse_kind()].into_iter().for_each(|kind| kinds.add(kind));
}

fn text(text: &str) -> ParameterValue {
    ParameterValue::Text(text.to_owned())
}

/// A span of time that is given, at least as long as this.
fn span(building: &Building<'_>, parameter: &'static str, least: Duration) -> Result<Duration, KindError> {
    let ns = span_ns(building.text(parameter)).map_err(|message| KindError::of(parameter, message))?;
    let span = u64::try_from(ns).map(Duration::from_nanos).ok().filter(|span| *span >= least);
    span.ok_or_else(|| KindError::of(parameter, format!("a span of time here is {least:?} to 500 years")))
}

fn ticks_kind() -> BoxSpec {
    BoxSpec::new("ticks", "Sends a row in each period: tick, from 0 on, and its time.")
        .ports(Ports::Exactly(0), Ports::Exactly(1))
        .required("every", ParameterType::Text, "The period, such as \"1s\" or \"20ms\".")
        .optional("count", ParameterType::Integer, "How many rows; without it they do not end.")
        .only_once()
        .builds(|building| {
            let period = span(building, "every", Duration::from_micros(1))?;
            let count = match building.value("count") {
                Some(ParameterValue::Integer(count)) => {
                    Some(u64::try_from(*count).map_err(|_| KindError::of("count", "the count is at least 0"))?)
                }
                _ => None,
            };
            let made = ticks("ticks", period, count).map_err(|error| KindError::of("every", error.to_string()))?;
            if count.is_none() {
                building.never_ends();
            }
            Ok(vec![(building.source(made).output(0), tick_schema())])
        })
}

/// The source that a text names.
#[derive(Clone)]
enum StreamOrigin {
    Standard,
    Tcp(String),
    Unix(PathBuf),
    File(PathBuf, FollowFrom),
}

impl StreamOrigin {
    fn open(&self) -> std::io::Result<Box<dyn Feed>> {
        Ok(match self {
            StreamOrigin::Standard => Box::new(StandardInput),
            StreamOrigin::Tcp(address) => Box::new(Tcp::connect(address.as_str())?),
            StreamOrigin::Unix(path) => Box::new(Unix::connect(path)?),
            StreamOrigin::File(path, from) => Box::new(Follow::open(path, *from)?),
        })
    }
}

fn lines_kind() -> BoxSpec {
    BoxSpec::new("lines", "Sends lines of text as they come, in one column, line. It ends with its source, or never.")
        .ports(Ports::Exactly(0), Ports::Exactly(1))
        .required(
            "from",
            ParameterType::Text,
            "\"-\" is standard input, \"tcp:host:port\" a peer, \"unix:path\" a socket, all else a file that grows.",
        )
        .defaults("new", ParameterValue::Boolean(false), "Of a file, only the lines that are appended from now on.")
        .defaults("idle", text(""), "The time without a line behind which others do not wait for it, such as \"1s\".")
        .only_once()
        .builds(|building| {
            let from = building.text("from").to_owned();
            let is_new = building.boolean("new");
            let from = match (from.as_str(), from.split_once(':')) {
                ("", _) => return Err(KindError::of("from", "a source is expected: -, tcp:…, unix:… or a file")),
                ("-", _) => building.file("from").map(|_| StreamOrigin::Standard)?,
                (_, Some(("tcp", address))) => StreamOrigin::Tcp(address.to_owned()),
                (_, Some(("unix", path))) => StreamOrigin::Unix(building.file_named("from", path)?),
                _ => {
                    let from = if is_new { FollowFrom::End } else { FollowFrom::Beginning };
                    StreamOrigin::File(building.file("from")?, from)
                }
            };
            if is_new && !matches!(from, StreamOrigin::File(..)) {
                return Err(KindError::of("new", "it is for files"));
            }
            if let StreamOrigin::File(path, from) = &from {
                let found = Follow::open(path, *from).map(drop);
                found.map_err(|error| KindError::of("from", format!("{}: {error}", path.display())))?;
            }
            if let StreamOrigin::Tcp(address) = &from {
                let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
                if port.is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
                    return Err(KindError::of(
                        "from",
                        format!("{address}: expected host:port, as in tcp:localhost:7000"),
                    ));
                }
            }
            let idle = match building.text("idle").trim() {
                "" => None,
                _ => Some(span(building, "idle", Duration::from_millis(1))?),
            };
            let options = LineOptions { idle, ..LineOptions::default() };
            // The others end when their writer closes them.
            if let StreamOrigin::File(..) = from {
                building.never_ends();
            }
            let made = building.source(lines("lines", move || from.open(), options));
            Ok(vec![(made.output(0), line_schema())])
        })
}

/// How a line has its values.
#[derive(Clone, Copy)]
enum Form {
    Json,
    Csv(u8),
}

fn parse_kind() -> BoxSpec {
    BoxSpec::new("parse", "Makes columns of texts, each of which is a row of values in JSON or CSV.")
        .required("columns", ParameterType::Columns, "The columns, such as (at: I64, name: Text); each may have nulls.")
        .defaults("format", text("json"), "json, objects with the columns' names, or csv, values in their order.")
        .defaults("delimiter", text(","), "The sign between two values of csv, of one byte.")
        .defaults("column", text("line"), "The column of the texts.")
        .defaults("wrong", text("fail"), "What a wrong line does: fail, or drop for leaving it out.")
        .builds(|building| {
            let Some(ParameterValue::Columns(wanted)) = building.value("columns") else {
                return Err(KindError::of("columns", "columns are expected"));
            };
            let field = |field: &Field| match SqlType::of(&field.kind).map(|kind| kind.flow_type()) {
                Some(kind) if kind.is_nested() || kind == field.kind => Ok(Field::new(&field.name, kind).or_null()),
                _ => {
                    let message = format!(
                        "{} is of {}, and values are read as SQL's types: I64 or F64 for any number, times in us",
                        field.name, field.kind
                    );
                    Err(KindError::of("columns", message))
                }
            };
            let schema = wanted.columns().iter().map(field).collect::<Result<Schema, KindError>>()?;
            let form = match (building.text("format"), building.text("delimiter").as_bytes()) {
                ("json", _) => Form::Json,
                ("csv", b"\"") => return Err(KindError::of("delimiter", "a quotation mark can't divide values")),
                ("csv", &[delimiter]) => Form::Csv(delimiter),
                ("csv", _) => return Err(KindError::of("delimiter", "a delimiter has one byte, such as \";\"")),
                (other, _) => {
                    return Err(KindError::of("format", format!("`{other}` is no format: write json or csv")));
                }
            };
            let drops = match building.text("wrong") {
                "fail" => false,
                "drop" => true,
                other => return Err(KindError::of("wrong", format!("`{other}`: write fail or drop"))),
            };
            let input = building.inputs()[0].schema.clone();
            let name = building.text("column");
            let place = input.columns().iter().position(|field| field.name == name && field.kind == Type::Text);
            let place = place.ok_or_else(|| {
                KindError::of("column", format!("there is no column `{name}` of texts among {input}"))
            })?;
            let columns = schema.clone();
            let operator = move || {
                let schema = columns.clone();
                move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                    let Some(envelope) = turn.take(0) else { return Ok(()) };
                    if envelope.is_pill() {
                        turn.send_pill(0);
                    } else if !turn.pass_mark(&envelope) {
                        let rows = parsed(envelope.column(place), &schema, form, drops)?;
                        if rows.rows() > 0 {
                            turn.send(0, rows);
                        }
                    }
                    Ok(())
                }
            };
            let made = building.add(BoxModel::new("parse", operator).input(&input).output(&schema));
            Ok(vec![(made.output(0), schema)])
        })
}

/// The rows of lines; wrong ones are left out, or are an error.
fn parsed(lines: &Column, schema: &Schema, form: Form, drops: bool) -> Result<Envelope, BoxError> {
    let mut columns: Vec<Values> = schema.columns().iter().map(Values::of).collect();
    let mut rows = 0;
    for row in 0..lines.len() {
        let line = if lines.is_null(row) { "" } else { lines.text_at(row) };
        let read = match form {
            Form::Json => read_object(line, schema, &mut columns),
            Form::Csv(delimiter) => read_csv(line, delimiter, schema, &mut columns),
        };
        match read {
            Ok(()) => rows += 1,
            Err(_) if drops => columns.iter_mut().for_each(|column| column.truncate(rows)),
            Err(error) => return Err(format!("{error}: `{}`", line.chars().take(200).collect::<String>()).into()),
        }
    }
    Ok(Envelope::of_rows(columns.into_iter().map(Values::column).collect(), rows))
}

fn read_object(line: &str, schema: &Schema, columns: &mut [Values]) -> Result<(), String> {
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(line).map_err(|error| format!("a line is no object of JSON, {error}"))?;
    for (field, column) in schema.columns().iter().zip(columns) {
        let value = object.get(&field.name).unwrap_or(&serde_json::Value::Null);
        if !column.push_json(value, line) {
            return Err(format!("{} is {value}, and no {}", field.name, field.kind));
        }
    }
    Ok(())
}

fn read_csv(line: &str, delimiter: u8, schema: &Schema, columns: &mut [Values]) -> Result<(), String> {
    let values = csv_values(line, char::from(delimiter))
        .ok_or("a quotation mark is not closed; a value with line ends can't be read by lines")?;
    if values.len() != columns.len() {
        return Err(format!("a line has {} values and not {}", values.len(), columns.len()));
    }
    for ((field, column), value) in schema.columns().iter().zip(columns).zip(values) {
        match value {
            (value, false) if value.is_empty() => column.push_null(),
            (value, _) if column.push(&value) => {}
            (value, _) => return Err(format!("{} is {value}, and no {}", field.name, field.kind)),
        }
    }
    Ok(())
}

/// The values of a line, each with whether it stood in quotes; none if a quotation mark is not closed.
fn csv_values(line: &str, delimiter: char) -> Option<Vec<(String, bool)>> {
    let (mut values, mut value, mut is_quoted, mut is_inside) = (Vec::new(), String::new(), false, false);
    let mut signs = line.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '"' if is_inside && signs.peek() == Some(&'"') => value.extend(signs.next()),
            '"' if is_inside => is_inside = false,
            '"' if value.is_empty() => (is_inside, is_quoted) = (true, true),
            sign if sign == delimiter && !is_inside => {
                values.push((std::mem::take(&mut value), std::mem::take(&mut is_quoted)));
            }
            sign => value.push(sign),
        }
    }
    values.push((value, is_quoted));
    (!is_inside).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        let columns = [("b", Type::Bool), ("n", Type::I64), ("x", Type::F64), ("t", Type::Text)];
        Schema::new(columns).columns().iter().map(|field| field.clone().or_null()).collect()
    }

    fn told(lines: &[&str], form: Form, drops: bool) -> Result<Vec<String>, String> {
        let lines: Column = lines.iter().copied().collect();
        let rows = parsed(&lines, &schema(), form, drops).map_err(|error| error.to_string())?;
        let cell = |column: &Column, row: usize| match column.kind() {
            _ if column.is_null(row) => "null".to_owned(),
            Type::Bool => column.values::<bool>()[row].to_string(),
            Type::I64 => column.i64s()[row].to_string(),
            Type::F64 => column.values::<f64>()[row].to_string(),
            _ => format!("{:?}", column.text_at(row)),
        };
        let row = |row| rows.columns().iter().map(|column| cell(column, row)).collect::<Vec<_>>().join(" ");
        Ok((0..rows.rows()).map(row).collect())
    }

    #[test]
    fn objects_and_values_become_rows() {
        let json = [
            r#"{"n": 7, "b": true, "t": "a\"b", "x": 1, "other": []}"#,
            "{}",
            r#"{"t": {"a": 1}, "x": -0.5, "n": null}"#,
        ];
        let wanted = ["true 7 1 \"a\\\"b\"", "null null null null", "null null -0.5 \"{\\\"a\\\":1}\""];
        assert_eq!(told(&json, Form::Json, false).unwrap(), wanted);
        let csv = ["true;7;1.5;a", ";;;", "false;-1;2;\"a;\"\"b\"\"\"", ";;;\"\""];
        let wanted = ["true 7 1.5 \"a\"", "null null null null", "false -1 2 \"a;\\\"b\\\"\"", "null null null \"\""];
        assert_eq!(told(&csv, Form::Csv(b';'), false).unwrap(), wanted);
    }

    #[test]
    fn values_may_be_of_any_type_of_sql() {
        let kinds = [
            ("price", SqlType::Decimal { precision: 30, scale: 2 }),
            ("on", SqlType::Date),
            ("sizes", SqlType::named("bigint[]").unwrap()),
            ("at", SqlType::named("struct(x double, y double)").unwrap()),
        ];
        let schema: Schema = kinds.iter().map(|(name, kind)| Field::new(*name, kind.flow_type()).or_null()).collect();
        let json = [
            r#"{"price": 1234567890123456789012345678.5, "on": "2024-02-29", "sizes": [1, null], "at": {"y": 2}}"#,
            "{}",
        ];
        let csv = [r#"1234567890123456789012345678.5;2024-02-29;"[1, null]";"{""y"": 2}""#, ";;;"];
        for (lines, form) in [(json, Form::Json), (csv, Form::Csv(b';'))] {
            let lines: Column = lines.into_iter().collect();
            let rows = parsed(&lines, &schema, form, false).unwrap();
            let shown = |row: usize| {
                let mut text = String::new();
                rows.columns().iter().for_each(|column| {
                    vicus_sql::write_json(&mut text, column, row).unwrap();
                    text.push(' ');
                });
                text
            };
            let wanted = "1234567890123456789012345678.50 \"2024-02-29\" [1,null] {\"x\":null,\"y\":2.0} ";
            assert_eq!((shown(0).as_str(), shown(1).as_str()), (wanted, "null null null null "));
            assert!(rows.fits(&schema));
        }
        let wrong: Column = [r#"{"sizes": [1.5]}"#].into_iter().collect();
        let error = parsed(&wrong, &schema, Form::Json, false).unwrap_err().to_string();
        assert!(error.starts_with("sizes is [1.5], and no List"), "{error}");
    }

    #[test]
    fn wrong_lines_fail_or_are_dropped() {
        let cases = [
            (Form::Json, "{", "a line is no object of JSON"),
            (Form::Json, "[1]", "a line is no object of JSON"),
            (Form::Json, r#"{"n": 0.5}"#, "n is 0.5, and no I64"),
            (Form::Json, r#"{"b": true, "n": "x"}"#, "n is \"x\", and no I64"),
            (Form::Csv(b','), "true,1,2", "a line has 3 values and not 4"),
            (Form::Csv(b','), "true,1,two,", "x is two, and no F64"),
        ];
        for (form, wrong, message) in cases {
            let error = told(&[wrong], form, false).unwrap_err();
            assert!(error.starts_with(message) && error.ends_with(&format!("`{wrong}`")), "{error}");
            let right = if let Form::Json = form { "{\"n\": 1}" } else { ",1,," };
            assert_eq!(told(&[right, wrong, right], form, true).unwrap(), ["null 1 null null"; 2]);
        }
    }
}
