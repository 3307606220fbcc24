//! The kind that joins in parts, also where a few keys have most of the rows.

use crate::library::{ENVELOPE_ROWS, KindOutputs, column, text};
use crate::spec::{BoxSpec, Building, KindError, Ports};
use crate::value::{ParameterType, ParameterValue};
use vicus_flow::library::{self, HashKey, JoinKind, Joining};

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
    .defaults("kind", text("inner"), "inner, left, semi or anti, as of `join`.")
    .optional("parts", ParameterType::Integer, "How many parts; by default one for each thread.")
    .builds(build)
}

/// The columns of `a` and of `b` that are compared.
fn columns(building: &Building<'_>) -> Result<Vec<(usize, usize)>, KindError> {
    let written = building.text("on");
    let schemas = [&building.inputs()[0].schema, &building.inputs()[1].schema];
    let mut pairs = Vec::new();
    let mut at = 0;
    // Words between columns, in any case.
    let lower = written.to_ascii_lowercase();
    for part in lower.split(" and ") {
        let (begin, whole) = (at, &written[at..at + part.len()]);
        at += part.len() + " and ".len();
        let wrong = || KindError::within("on", begin, format!("`{}` is no pair such as a.city = b.id", whole.trim()));
        let (left, right) = whole.split_once('=').ok_or_else(wrong)?;
        let mut pair = [None; 2];
        for (side, offset) in [(left, begin), (right, begin + left.len() + 1)] {
            let (stream, name) = side.trim().split_once('.').ok_or_else(wrong)?;
            let input = ["a", "b"].iter().position(|known| *known == stream).ok_or_else(wrong)?;
            let place = offset + side.len() - side.trim_start().len() + stream.len() + 1;
            pair[input] = Some(column("on", name.trim(), place, schemas[input])?);
        }
        let [Some(a), Some(b)] = pair else { return Err(wrong()) };
        let kinds = [&schemas[0].columns()[a].kind, &schemas[1].columns()[b].kind];
        if kinds[0] != kinds[1] {
            let message = format!("{} and {} are compared: bring them to one type by `map`", kinds[0], kinds[1]);
            return Err(KindError::within("on", begin, message));
        }
        pairs.push((a, b));
    }
    Ok(pairs)
}

fn build(building: &mut Building<'_>) -> KindOutputs {
    let pairs = columns(building)?;
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
