//! The kinds that deal rows to parts where a few keys have most of the rows, and the join that is made of them.

use crate::library::{ENVELOPE_ROWS, KindOutputs, column, columns, text};
use crate::spec::{BoxSpec, Building, KindError, Ports};
use crate::value::{ParameterType, ParameterValue};
use crate::windows::span;
use vicus_flow::library::{self, HashKey, JoinKind, Joining, Nearness, WindowError};

/// The most parts of a join.
const MOST_PARTS: i64 = 1024;

pub(crate) fn join_parts() -> BoxSpec {
    BoxSpec::new(
        "join_parts",
        "Joins the rows of its inputs, `a` and `b`, with equal columns, in parts that are joined at once. Rows of a \
         key that many rows of `a` have go to all parts, with its partners; `b` is kept in memory or in files.",
    )
    .ports(Ports::Exactly(2), Ports::Exactly(1))
    .required("on", ParameterType::Text, "Equal columns, such as \"a.city = b.id AND a.street = b.street\".")
    .waits_for(&[1])
    .defaults("kind", text("inner"), "inner, left, semi or anti, as of `join`.")
    .optional("parts", ParameterType::Integer, "How many parts; by default one for each thread.")
    .builds(build)
}

pub(crate) fn partition_heavy() -> BoxSpec {
    BoxSpec::new(
        "partition_heavy",
        "Deals rows as `partition` does, but those of keys that many of the first rows have to all outputs in turn. \
         Its last output has the hashes of these keys, for the `partition_to_heavy` box that deals the other stream of \
         joins.",
    )
    .ports(Ports::Exactly(1), Ports::Any)
    .required("by", ParameterType::Text, "The columns, such as \"city, street\".")
    .builds(|building| {
        let schema = building.inputs()[0].schema.clone();
        let keys = columns("by", building.text("by"), &schema)?;
        let Some(parts) = building.outputs().checked_sub(1).filter(|parts| *parts > 0) else {
            return Err(KindError::new("it has an output for each part, and one behind them for the hashes of keys"));
        };
        let hashes = library::heavy_schema();
        let split = building.add(library::partition_heavy(&schema, &keys, parts, HashKey::default()));
        let of_parts = (0..parts).map(|part| (split.output(part), schema.clone()));
        Ok(of_parts.chain([(split.output(parts), hashes)]).collect())
    })
}

pub(crate) fn partition_to_heavy() -> BoxSpec {
    BoxSpec::new(
        "partition_to_heavy",
        "Deals the rows of its first input as `partition` does, but those of heavy keys to each output. Its other \
         inputs have the hashes of these keys, from the `partition_heavy` boxes that deal the other stream of joins.",
    )
    .ports(Ports::Any, Ports::Any)
    .required("by", ParameterType::Text, "The columns, such as \"city, street\".")
    .builds(|building| {
        let (schema, hashes) = (building.inputs()[0].schema.clone(), library::heavy_schema());
        let keys = columns("by", building.text("by"), &schema)?;
        let producers = building.inputs().len() - 1;
        if producers == 0 {
            return Err(KindError::new("its second input has the hashes of heavy keys, from `partition_heavy`"));
        }
        if let Some(other) = building.inputs()[1..].iter().find(|input| input.schema != hashes) {
            let (from, schema) = (&other.from, &other.schema);
            let message = format!("`{from}` sends {schema}: the last output of `partition_heavy` is expected");
            return Err(KindError::new(message));
        }
        let parts = building.outputs();
        let deal = library::partition_to_heavy(&schema, &keys, parts, producers, HashKey::default());
        let deal = building.add(deal);
        Ok((0..parts).map(|part| (deal.output(part), schema.clone())).collect())
    })
}

/// The columns of `a` and of `b` that are compared.
fn pairs(parameter: &'static str, building: &Building<'_>) -> Result<Vec<(usize, usize)>, KindError> {
    let written = building.text(parameter);
    let schemas = [&building.inputs()[0].schema, &building.inputs()[1].schema];
    let mut pairs = Vec::new();
    let mut at = 0;
    // Words between columns, in any case.
    let lower = written.to_ascii_lowercase();
    for part in lower.split(" and ") {
        let (begin, whole) = (at, &written[at..at + part.len()]);
        at += part.len() + " and ".len();
        let wrong =
            || KindError::within(parameter, begin, format!("`{}` is no pair such as a.city = b.id", whole.trim()));
        let (left, right) = whole.split_once('=').ok_or_else(wrong)?;
        let mut pair = [None; 2];
        for (side, offset) in [(left, begin), (right, begin + left.len() + 1)] {
            let (stream, name) = side.trim().split_once('.').ok_or_else(wrong)?;
            let input = ["a", "b"].iter().position(|known| *known == stream).ok_or_else(wrong)?;
            let place = offset + side.len() - side.trim_start().len() + stream.len() + 1;
            pair[input] = Some(column(parameter, name.trim(), place, schemas[input])?);
        }
        let [Some(a), Some(b)] = pair else { return Err(wrong()) };
        let kinds = [&schemas[0].columns()[a].kind, &schemas[1].columns()[b].kind];
        if kinds[0] != kinds[1] {
            let message = format!("{} and {} are compared: bring them to one type by `map`", kinds[0], kinds[1]);
            return Err(KindError::within(parameter, begin, message));
        }
        pairs.push((a, b));
    }
    Ok(pairs)
}

pub(crate) fn join_near() -> BoxSpec {
    BoxSpec::new(
        "join_near",
        "Joins the rows of its inputs, `a` and `b`, with equal columns and times that are near each other, also where \
         neither stream ends. It keeps rows until a `watermark` box in front of the other input has told that no \
         partner comes any more.",
    )
    .ports(Ports::Exactly(2), Ports::Exactly(1))
    .required("on", ParameterType::Text, "Equal columns, such as \"a.city = b.id AND a.street = b.street\".")
    .required("times", ParameterType::Text, "The columns of the times, such as \"a.at = b.time\", of one type.")
    .required("within", ParameterType::Text, "How far they may differ, such as \"10s\"; a number for integers.")
    .builds(|building| {
        let on = pairs("on", building)?;
        let &[(a, b)] = &pairs("times", building)?[..] else {
            return Err(KindError::of("times", "one column of each input is expected, such as a.at = b.time"));
        };
        let [first, second] = [0, 1].map(|input| building.inputs()[input].schema.clone());
        let distance = span("within", building.text("within"), &first.columns()[a].kind)?;
        let near = Nearness::of(&first, &second, on, (a, b), distance).map_err(|error| {
            KindError::of(if error == WindowError::Distance { "within" } else { "times" }, error.to_string())
        })?;
        let join = building.add(library::join_near(&near, HashKey::default(), ENVELOPE_ROWS));
        Ok(vec![(join.output(0), near.schema())])
    })
}

fn build(building: &mut Building<'_>) -> KindOutputs {
    let pairs = pairs("on", building)?;
    let kind = match building.text("kind") {
        "inner" => JoinKind::Inner,
        "left" => JoinKind::Left,
        "semi" => JoinKind::Semi,
        "anti" => JoinKind::Anti,
        other => {
            let message = format!("`{other}` is no kind of join here: write inner, left, semi or anti");
            return Err(KindError::of("kind", message));
        }
    };
    let parts = match building.value("parts") {
        Some(ParameterValue::Integer(parts)) => *parts,
        _ => building.machine().threads as i64,
    };
    if !(1..=MOST_PARTS).contains(&parts) {
        return Err(KindError::of("parts", format!("a join has 1 to {MOST_PARTS} parts")));
    }
    let parts = parts as usize;
    let [first, second] = [0, 1].map(|input| building.inputs()[input].clone());
    let joining = Joining::of(&first.schema, &second.schema, pairs.iter().copied()).kind(kind);
    let (of_first, of_second): (Vec<usize>, Vec<usize>) = pairs.into_iter().unzip();
    let by = HashKey::default();
    let net = building.net();
    let split = net.add(library::partition_heavy(&first.schema, &of_first, parts, by));
    let copied = net.add(library::partition_to_heavy(&second.schema, &of_second, parts, 1, by));
    net.connect(first.output, split.input(0));
    net.connect(second.output, copied.input(0));
    net.connect(split.output(parts), copied.input(1));
    let union = net.add(library::union(&joining.schema(), parts));
    for part in 0..parts {
        let join = net.add(library::join(&joining, by, ENVELOPE_ROWS));
        net.connect(split.output(part), join.input(0));
        net.connect(copied.output(part), join.input(1));
        net.connect(join.output(0), union.input(part));
    }
    Ok(vec![(union.output(0), joining.schema())])
}
