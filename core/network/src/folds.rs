//! The kinds that fold groups without SQL: `group`, and `group_ahead` before rows are dealt by their keys.

use crate::library::{ENVELOPE_ROWS, column, columns, text};
use crate::spec::{BoxSpec, Building, KindError};
use crate::value::{ParameterType, ParameterValue};
use vicus_flow::library::{self, Grouping, HashKey};
use vicus_flow::{Schema, Type};

/// The most groups that a `group_ahead` box keeps.
const MOST_GROUPS: i64 = 1 << 24;

const FOLDS: &str = "The columns beside them, such as \"count as people, sum(age) as years, min(age), max(age), \
                     count(age)\"; `count` has the rows, `count(age)` those with a value.";

pub(crate) fn group() -> BoxSpec {
    BoxSpec::new("group", "Folds the rows with equal columns into one, in memory and beyond it in files.")
        .waits_for(&[0])
        .required("by", ParameterType::Text, "The columns, such as \"city, street\"; all rows are one group if empty.")
        .defaults("folds", text(""), FOLDS)
        .defaults(
            "ahead",
            ParameterValue::Boolean(false),
            "Whether the rows come from `group_ahead` boxes with these \
            parameters.",
        )
        .builds(|building| {
            let schema = building.inputs()[0].schema.clone();
            let grouping = grouping(building, &schema, building.boolean("ahead"))?;
            let group = building.add(library::group(&grouping, HashKey::default(), ENVELOPE_ROWS));
            Ok(vec![(group.output(0), grouping.schema())])
        })
}

pub(crate) fn group_ahead() -> BoxSpec {
    BoxSpec::new(
        "group_ahead",
        "Folds rows before `partition` deals them: a group may come several times, and `group` with `ahead: true` \
         folds them. So most rows of a key with many rows become one before they are dealt.",
    )
    .required("by", ParameterType::Text, "The columns, such as \"city, street\".")
    .defaults("folds", text(""), FOLDS)
    .defaults("groups", ParameterValue::Integer(4096), "How many groups it keeps; it sends them when there are more.")
    .builds(|building| {
        let schema = building.inputs()[0].schema.clone();
        let grouping = grouping(building, &schema, false)?;
        let groups = building.integer("groups");
        if !(1..=MOST_GROUPS).contains(&groups) {
            return Err(KindError::of("groups", format!("it keeps 1 to {MOST_GROUPS} groups")));
        }
        let ahead = library::group_ahead(&grouping, HashKey::default(), ENVELOPE_ROWS, groups as usize);
        let ahead = building.add(ahead);
        Ok(vec![(ahead.output(0), grouping.schema())])
    })
}

/// A fold as it is written.
struct FoldText<'a> {
    /// In small letters.
    function: String,
    /// The column in brackets, and its place in the text.
    of: Option<(&'a str, usize)>,
    name: String,
    place: usize,
}

fn written<'a>(part: &'a str, begin: usize) -> Result<FoldText<'a>, KindError> {
    let place = begin + part.len() - part.trim_start().len();
    let whole = part.trim();
    let wrong = || {
        let message = format!("`{whole}` is no fold: write count, count(c), sum(c), min(c) or max(c), and `as name`");
        KindError::within("folds", place, message)
    };
    let (call, name) = match whole.to_ascii_lowercase().rfind(" as ") {
        Some(at) => (whole[..at].trim(), Some(whole[at + " as ".len()..].trim())),
        None => (whole, None),
    };
    let (function, of) = match call.split_once('(') {
        Some((function, rest)) => {
            let inner = rest.strip_suffix(')').ok_or_else(wrong)?;
            let spaces = inner.len() - inner.trim_start().len();
            (function.trim(), Some((inner.trim(), place + function.len() + 1 + spaces)))
        }
        None => (call, None),
    };
    let function = function.to_ascii_lowercase();
    if !matches!((&*function, of), ("count", _) | ("sum" | "min" | "max", Some(_))) {
        return Err(wrong());
    }
    let name = match (name, of) {
        (Some(""), _) => return Err(wrong()),
        (Some(name), _) => name.to_owned(),
        (None, Some((column, _))) => format!("{function}_{column}"),
        (None, None) => function.clone(),
    };
    Ok(FoldText { function, of, name, place })
}

/// The grouping of `by` and `folds`, of rows or, with `ahead`, of groups that were folded ahead.
fn grouping(building: &Building<'_>, schema: &Schema, ahead: bool) -> Result<Grouping, KindError> {
    let by = building.text("by");
    let keys = if by.trim().is_empty() { Vec::new() } else { columns("by", by, schema)? };
    let mut grouping = Grouping::by(schema, keys);
    let folds = building.text("folds");
    let mut at = 0;
    let mut names: Vec<String> = grouping.schema().columns().iter().map(|key| key.name.clone()).collect();
    for part in folds.split(',').filter(|_| !folds.trim().is_empty()) {
        let fold = written(part, at)?;
        at += part.len() + 1;
        // Columns are found by their names, by the next box and by folds of groups.
        if names.contains(&fold.name) {
            let message = format!("there is a column `{}` already: give it another name by `as`", fold.name);
            return Err(KindError::within("folds", fold.place, message));
        }
        names.push(fold.name.clone());
        let place = |name: &str, at| column("folds", name, at, schema);
        grouping = match (&*fold.function, fold.of) {
            ("count" | "sum", _) if ahead => {
                grouping.sum(&fold.name, summed(place(&fold.name, fold.place)?, fold.place, schema)?)
            }
            ("min", _) if ahead => grouping.least(&fold.name, place(&fold.name, fold.place)?),
            (_, _) if ahead => grouping.greatest(&fold.name, place(&fold.name, fold.place)?),
            ("count", None) => grouping.count(&fold.name),
            ("count", Some((of, at))) => grouping.count_values(&fold.name, place(of, at)?),
            ("sum", Some((of, at))) => grouping.sum(&fold.name, summed(place(of, at)?, at, schema)?),
            ("min", Some((of, at))) => grouping.least(&fold.name, place(of, at)?),
            (_, Some((of, at))) => grouping.greatest(&fold.name, place(of, at)?),
            (_, None) => unreachable!("all but a count have a column"),
        };
    }
    Ok(grouping)
}

/// A column that has a sum.
fn summed(column: usize, at: usize, schema: &Schema) -> Result<usize, KindError> {
    match &schema.columns()[column].kind {
        Type::Bool | Type::I8 | Type::I16 | Type::I32 | Type::I64 | Type::U8 | Type::U16 | Type::U32 | Type::U64 => {}
        Type::F32 | Type::F64 | Type::Duration(_) | Type::Decimal { .. } => {}
        kind => {
            let name = &schema.columns()[column].name;
            return Err(KindError::within("folds", at, format!("`{name}` is of the type {kind}, which has no sum")));
        }
    }
    Ok(column)
}
