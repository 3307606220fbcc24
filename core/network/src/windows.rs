//! The kinds for streams without end that need no world: watermarks, and groups by windows.

use crate::library::{ENVELOPE_ROWS, KindOutputs, check, column, text};
use crate::spec::{BoxSpec, Building, KindError, Ports};
use crate::value::{ParameterType, ParameterValue};
use vicus_flow::library::{self, Grouping, HashKey, WindowError, Windowing};
use vicus_flow::{Column, Envelope, Field, OutputId, Schema, TimeUnit, Type};
use vicus_language::PlanOptions;
use vicus_sql::{SqlError, SqlStream, add_statement};

/// A time in nanoseconds, and its name in a text.
const UNITS: [(&str, i128); 7] = [
    ("ns", 1),
    ("us", 1000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// A span of time such as `10s`, in nanoseconds.
///
/// # Errors
/// It is none; the message says what is expected.
pub fn span_ns(written: &str) -> Result<i128, String> {
    let written = written.trim();
    let unit = written.trim_start_matches(|sign: char| sign.is_ascii_digit() || sign == '-');
    let number = written[..written.len() - unit.len()].parse::<i64>().ok();
    match (number, UNITS.iter().find(|(name, _)| *name == unit.trim())) {
        (Some(number), Some((_, ns))) => Ok(i128::from(number) * ns),
        _ => Err(format!("`{written}` is no span of time: write a number and ns, us, ms, s, m, h or d, such as 10s")),
    }
}

/// A span in the units of a column: of time, or a number for a column of integers.
pub(crate) fn span(parameter: &'static str, written: &str, kind: &Type) -> Result<i64, KindError> {
    let unit = match kind {
        Type::Date => 86_400_000_000_000,
        Type::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        Type::Timestamp(TimeUnit::Milli, _) => 1_000_000,
        Type::Timestamp(TimeUnit::Micro, _) => 1000,
        Type::Timestamp(TimeUnit::Nano, _) => 1,
        _ => {
            let wrong = || format!("`{written}` is no number, and the time is of {kind}: write one such as 100");
            return written.trim().parse().map_err(|_| KindError::of(parameter, wrong()));
        }
    };
    let ns = span_ns(written).map_err(|message| KindError::of(parameter, message))?;
    if ns % unit != 0 {
        return Err(KindError::of(parameter, format!("`{written}` is no whole number of the units of {kind}")));
    }
    i64::try_from(ns / unit).map_err(|_| KindError::of(parameter, format!("`{written}` is too long for {kind}")))
}

pub(crate) fn watermark() -> BoxSpec {
    BoxSpec::new("watermark", "Tells boxes behind it how far a stream's time has come, so that windows close.")
        .required("time", ParameterType::Text, "The column of the time: a timestamp, a date or integers.")
        .defaults("delay", text(""), "How late rows may be behind the latest one, such as \"5s\"; none if empty.")
        .defaults("every", text(""), "How far the time comes between two watermarks, such as \"1s\"; any if empty.")
        .builds(|building| {
            let schema = building.inputs()[0].schema.clone();
            let place = column("time", building.text("time").trim(), 0, &schema)?;
            let kind = schema.columns()[place].kind.clone();
            let of = |parameter: &'static str, least: i64| match building.text(parameter).trim() {
                "" => Ok(least),
                written => match span(parameter, written, &kind)? {
                    span if span >= least => Ok(span),
                    _ => Err(KindError::of(parameter, format!("`{written}`: it is at least {least}"))),
                },
            };
            let (delay, every) = (of("delay", 0)?, of("every", 1)?);
            let made = library::watermarks(&schema, place, delay, every);
            let made = made.map_err(|error| KindError::of("time", error.to_string()))?;
            Ok(vec![(building.add(made).output(0), schema)])
        })
}

pub(crate) fn window() -> BoxSpec {
    BoxSpec::new(
        "window",
        "Folds the rows of each group in each window into one. A window of time is sent when a `watermark` box in \
         front has told that its end is over; late rows leave by output 1.",
    )
    .ports(Ports::Exactly(1), Ports::OneOrTwo)
    .required(
        "select",
        ParameterType::Text,
        "COUNT, SUM, MIN, MAX and AVG of expressions of SQL, such as \"COUNT(*) AS sales, SUM(price * 2) AS twice\".",
    )
    .defaults("by", text(""), "The expressions that rows of a group share, such as \"city\"; all are one if empty.")
    .defaults("time", text(""), "The time of a row: an expression of SQL; for windows of time and for sessions.")
    .defaults("width", text(""), "The width of a window of time, such as \"10s\"; for a time of integers a number.")
    .defaults("slide", text(""), "The time, or the number of rows, from one window to the next; by default its width.")
    .defaults("gap", text(""), "For sessions: the time without a row behind which one ends, such as \"30m\".")
    .optional("rows", ParameterType::Integer, "For windows of rows: how many rows of a group.")
    .builds(build_window)
}

/// An aggregate: its function, where its argument stands among the computed columns, and the result's name.
struct Fold {
    function: &'static str,
    argument: Option<usize>,
    name: String,
    /// Its place in the parameter.
    at: usize,
}

/// The signs that stand in no quotes, each with its place and how many brackets are open around it.
fn bare(written: &str) -> impl Iterator<Item = (usize, char, i32)> {
    let (mut depth, mut quote) = (0, None);
    written.char_indices().filter_map(move |(at, sign)| {
        match (quote, sign) {
            (Some(open), _) => {
                quote = Some(open).filter(|open| *open != sign);
                return None;
            }
            (None, '\'' | '"') => {
                quote = Some(sign);
                return None;
            }
            (None, ')' | ']') => depth -= 1,
            _ => {}
        }
        let around = depth;
        depth += i32::from(matches!(sign, '(' | '['));
        Some((at, sign, around))
    })
}

/// The parts of a list, at commas outside of brackets and quotes, each with its place.
fn parts(written: &str) -> Vec<(usize, &str)> {
    let (mut parts, mut begin) = (Vec::new(), 0);
    for (at, _, _) in bare(written).filter(|(_, sign, depth)| *sign == ',' && *depth == 0) {
        parts.push((begin, &written[begin..at]));
        begin = at + 1;
    }
    parts.push((begin, &written[begin..]));
    parts.into_iter().map(|(at, part)| (at + part.len() - part.trim_start().len(), part.trim())).collect()
}

/// An expression and its name: behind the last AS that stands in no brackets and no quotes, or else its own text.
fn named(part: &str) -> (&str, &str) {
    let is_as = |at: usize| {
        let word = part.as_bytes().get(at + 1..at + 4);
        word.is_some_and(|word| word[..2].eq_ignore_ascii_case(b"as") && word[2].is_ascii_whitespace())
    };
    let blanks = bare(part).filter(|(_, sign, depth)| *depth == 0 && sign.is_ascii_whitespace());
    match blanks.filter(|(at, ..)| is_as(*at)).last() {
        Some((at, ..)) => (part[..at].trim(), part[at + 4..].trim().trim_matches('"')),
        None => (part, part.trim_matches('"')),
    }
}

/// The end of the bracket that opens at a place.
fn bracket(written: &str, open: usize) -> Option<usize> {
    let mut depth = 0;
    bare(&written[open..]).find_map(|(at, sign, _)| {
        depth += i32::from(sign == '(') - i32::from(sign == ')');
        (sign == ')' && depth == 0).then_some(open + at)
    })
}

/// `AS name` behind an expression, or its text.
fn alias<'w>(written: &'w str, rest: &'w str) -> Option<String> {
    let rest = rest.trim();
    if rest.is_empty() {
        return Some(written.to_owned());
    }
    let (word, name) = rest.split_once(char::is_whitespace)?;
    let name = name.trim();
    let quoted = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    let is_name = |name: &&str| !name.is_empty() && name.chars().all(|sign| sign.is_alphanumeric() || sign == '_');
    let name = quoted.map(|name| name.replace("\"\"", "\"")).or_else(|| Some(name).filter(is_name).map(str::to_owned));
    name.filter(|_| word.eq_ignore_ascii_case("as"))
}

/// An expression and its place in a parameter.
type Placed = (usize, String);

const FUNCTIONS: [&str; 5] = ["COUNT", "SUM", "MIN", "MAX", "AVG"];

/// The aggregates of a text, and their arguments with their places.
fn folds(written: &str) -> Result<(Vec<Fold>, Vec<Placed>), KindError> {
    let (mut folds, mut arguments) = (Vec::new(), Vec::new());
    for (at, part) in parts(written) {
        let wrong = || {
            let all = FUNCTIONS.join(", ");
            let message =
                format!("`{part}` is no aggregate: write {all} of an expression, such as SUM(price) AS total");
            KindError::within("select", at, message)
        };
        let open = part.find('(').ok_or_else(wrong)?;
        let close = bracket(part, open).ok_or_else(wrong)?;
        let function = part[..open].trim();
        let known = FUNCTIONS.into_iter().find(|known| known.eq_ignore_ascii_case(function));
        let function = known.ok_or_else(wrong)?;
        let name = alias(part, &part[close + 1..]).ok_or_else(wrong)?;
        let argument = part[open + 1..close].trim();
        let argument = if function == "COUNT" && argument == "*" {
            None
        } else {
            let begin = at + open + 1;
            arguments.push((
                begin + part[open + 1..close].len() - part[open + 1..close].trim_start().len(),
                argument.to_owned(),
            ));
            Some(arguments.len() - 1)
        };
        folds.push(Fold { function, argument, name, at });
    }
    Ok((folds, arguments))
}

/// A statement put together from parameters.
struct Statement {
    text: String,
    /// Where parts of parameters begin in it: the place here, the parameter, and the place there.
    parts: Vec<(usize, &'static str, usize)>,
}

impl Statement {
    fn expression(&mut self, parameter: &'static str, at: usize, written: &str, name: &str) -> Result<(), KindError> {
        // By itself it is a whole expression, so the statement stays what it is.
        check(parameter, written, "SELECT ").map_err(|error| KindError {
            parameter: error.parameter.map(|(parameter, offset)| (parameter, offset.map(|offset| offset + at))),
            ..error
        })?;
        self.text.push_str(", (");
        self.parts.push((self.text.len(), parameter, at));
        self.text.push_str(written);
        self.text.push_str(&format!("\n) AS \"{}\"", name.replace('"', "\"\"")));
        Ok(())
    }

    fn error(&self, SqlError { message, place, .. }: SqlError) -> KindError {
        let part = self.parts.iter().rev().find(|(begin, ..)| place.offset.is_some_and(|offset| offset >= *begin));
        match (part, place.offset) {
            (Some((begin, parameter, at)), Some(offset)) => KindError::within(parameter, at + offset - begin, message),
            _ => KindError::new(message),
        }
    }
}

fn build_window(building: &mut Building<'_>) -> KindOutputs {
    let input = building.inputs()[0].clone();
    let (folds, arguments) = folds(building.text("select"))?;
    let time = building.text("time").trim().to_owned();
    let mut statement = Statement { text: "SELECT *".to_owned(), parts: Vec::new() };
    let own = input.schema.columns().len();
    if !time.is_empty() {
        statement.expression("time", 0, &time, "time of windows")?;
    }
    let by = building.text("by").to_owned();
    let mut keys = 0;
    if !by.trim().is_empty() {
        for (at, part) in parts(&by) {
            let (expression, name) = named(part);
            statement.expression("by", at, expression, name)?;
            keys += 1;
        }
    }
    for (place, (at, argument)) in arguments.iter().enumerate() {
        statement.expression("select", *at, argument, &format!("argument {place}"))?;
    }
    statement.text.push_str("\nFROM rows");
    let stream = SqlStream { name: "rows".to_owned(), schema: input.schema, output: input.output };
    let options = PlanOptions { envelope_rows: ENVELOPE_ROWS, ..PlanOptions::default() };
    let added = add_statement(building.net(), &statement.text, &[stream], &options);
    let (computed, schema) = added.map_err(|error| statement.error(error))?;

    let first_key = own + usize::from(!time.is_empty());
    let first_argument = first_key + keys;
    let mut grouping = Grouping::by(&schema, first_key..first_argument);
    let mut averages = Vec::new();
    for fold in &folds {
        let column = fold.argument.map(|argument| first_argument + argument);
        let kind = column.map(|column| &schema.columns()[column].kind);
        if matches!(fold.function, "SUM" | "AVG") && !matches!(kind, Some(Type::I64 | Type::F64)) {
            let kind = kind.map_or_else(|| "nothing".to_owned(), Type::to_string);
            return Err(KindError::within(
                "select",
                fold.at,
                format!("{} takes numbers, and not {kind}", fold.function),
            ));
        }
        averages.push(fold.function == "AVG");
        grouping = match (fold.function, column) {
            ("COUNT", Some(column)) => grouping.count_values(&fold.name, column),
            ("SUM", Some(column)) => grouping.sum(&fold.name, column),
            ("MIN", Some(column)) => grouping.least(&fold.name, column),
            ("MAX", Some(column)) => grouping.greatest(&fold.name, column),
            ("AVG", Some(column)) => grouping.sum(&fold.name, column).count_values("count", column),
            _ => grouping.count(&fold.name),
        };
    }
    let windowing = windowing(building, grouping, &time, own, &schema)?;
    let net = building.net();
    let window = net.add(library::window(&windowing, HashKey::default(), ENVELOPE_ROWS));
    net.connect(computed, window.input(0));
    let mut made = vec![with_averages(building, window.output(0), &windowing.schema(), keys + 2, &averages)];
    let late: Schema = schema.columns()[..own].iter().cloned().collect();
    if building.outputs() == 2 {
        let first = move |rows: Envelope| {
            let (count, attached) = (rows.rows(), rows.attached().to_vec());
            let columns = rows.into_columns().into_iter().take(own).collect();
            Some(Envelope::of_rows(columns, count).with(&attached))
        };
        let net = building.net();
        let own = net.add(library::map("late", &schema, &late, first));
        net.connect(window.output(1), own.input(0));
        made.push((own.output(0), late));
    } else {
        let net = building.net();
        let dropped = net.add(library::sink("late", &schema, |_| Ok(())));
        net.connect(window.output(1), dropped.input(0));
        net.end(dropped.output(0));
    }
    Ok(made)
}

/// The windows that the parameters describe; exactly one of `width`, `gap` and `rows` is given.
fn windowing(
    building: &Building<'_>,
    grouping: Grouping,
    time: &str,
    column: usize,
    schema: &Schema,
) -> Result<Windowing, KindError> {
    let written = |parameter: &str| Some(building.text(parameter).trim()).filter(|written| !written.is_empty());
    let (width, gap, slide) = (written("width"), written("gap"), written("slide"));
    let rows = match building.value("rows") {
        Some(ParameterValue::Integer(rows)) => Some(*rows),
        _ => None,
    };
    let given = usize::from(width.is_some()) + usize::from(gap.is_some()) + usize::from(rows.is_some());
    if given != 1 {
        return Err(KindError::new(
            "give one of `width`, `gap` and `rows`: windows of time, sessions or windows of rows",
        ));
    }
    let count = |parameter: &'static str, rows: i64| {
        u64::try_from(rows).map_err(|_| KindError::of(parameter, "it is at least 1"))
    };
    let of = match (width, gap) {
        (Some(_), _) => "width",
        (_, Some(_)) => "gap",
        _ => "rows",
    };
    let wrong = |error: WindowError| {
        let parameter = match error {
            WindowError::Width => of,
            WindowError::Slide | WindowError::Panes => "slide",
            WindowError::Column { .. } | WindowError::Times { .. } | WindowError::Distance => "time",
        };
        KindError::of(parameter, error.to_string())
    };
    if let Some(rows) = rows {
        if !time.is_empty() {
            return Err(KindError::of("time", "windows of rows need no time: leave it out, or `rows`"));
        }
        let slide = match slide {
            None => rows,
            Some(written) => {
                written.parse().map_err(|_| KindError::of("slide", format!("`{written}` is no number of rows")))?
            }
        };
        return Windowing::of_rows(grouping, count("rows", rows)?, count("slide", slide)?).map_err(wrong);
    }
    if time.is_empty() {
        return Err(KindError::new("windows of time and sessions need the time of a row: give `time`"));
    }
    let kind = &schema.columns()[column].kind;
    match (width, gap) {
        (Some(width), _) => {
            let width = span("width", width, kind)?;
            let slide = slide.map_or(Ok(width), |slide| span("slide", slide, kind))?;
            Windowing::of_time(grouping, column, width, slide).map_err(wrong)
        }
        (None, Some(_)) if slide.is_some() => Err(KindError::of("slide", "sessions do not slide")),
        (None, gap) => {
            let gap = span("gap", gap.unwrap_or_default(), kind)?;
            Windowing::sessions(grouping, column, gap).map_err(wrong)
        }
    }
}

/// Divides the sums of averages by their counts, which stand behind them.
fn with_averages(
    building: &mut Building<'_>,
    output: OutputId,
    schema: &Schema,
    before: usize,
    averages: &[bool],
) -> (OutputId, Schema) {
    if !averages.contains(&true) {
        return (output, schema.clone());
    }
    let mut fields: Vec<Field> = schema.columns()[..before].to_vec();
    let mut from = before;
    let mut places = Vec::new();
    for &is_average in averages {
        let field = &schema.columns()[from];
        fields.push(if is_average { Field::new(&field.name, Type::F64).or_null() } else { field.clone() });
        places.push((from, is_average));
        from += if is_average { 2 } else { 1 };
    }
    let made: Schema = fields.into_iter().collect();
    let divide = move |rows: Envelope| {
        let mut columns: Vec<Column> = rows.columns()[..before].to_vec();
        columns.extend(places.iter().map(|&(place, is_average)| match is_average {
            true => average(rows.column(place), rows.column(place + 1)),
            false => rows.column(place).clone(),
        }));
        Some(Envelope::of_rows(columns, rows.rows()))
    };
    let net = building.net();
    let divided = net.add(library::map("average", schema, &made, divide));
    net.connect(output, divided.input(0));
    (divided.output(0), made)
}

fn average(sums: &Column, counts: &Column) -> Column {
    let of = |row: usize| {
        let sum = if sums.kind() == Type::F64 { sums.values::<f64>()[row] } else { sums.i64s()[row] as f64 };
        (!sums.is_null(row)).then(|| sum / counts.u64s()[row] as f64)
    };
    (0..sums.len()).map(of).collect::<Vec<Option<f64>>>().into()
}
