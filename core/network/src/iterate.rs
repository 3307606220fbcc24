//! The kind that goes round: a statement is asked about the rows of each round until none comes that is new.

use crate::library::{KindOutputs, check, input_names, statement, text};
use crate::spec::{BoxSpec, Building, KindError, Ports};
use crate::value::ParameterType;

/// The most inputs: the first rows, and tables.
const MOST_INPUTS: usize = 8;

/// The input of the first rows, under a name that no text uses for a table.
const FIRST: &str = "first rows";

pub(crate) fn iterate() -> BoxSpec {
    BoxSpec::new(
        "iterate",
        "Sends the rows of its first input, what a step makes of them, what the step makes of that, and so on, until \
         no row comes that is new. Its other inputs are tables, kept in memory, which the step can join.",
    )
    .ports(Ports::Any, Ports::Exactly(1))
    .waits_for(&[0, 1, 2, 3, 4, 5, 6, 7])
    .required(
        "step",
        ParameterType::Text,
        "The statement of SQL that makes the next rows of the last ones, which it reads once as `rows`, such as \
         \"SELECT b.child FROM rows JOIN b ON b.parent = rows.n\".",
    )
    .defaults("names", text(""), "The tables' names in it, such as \"edges, nodes\"; by default b, c and so on.")
    .defaults(
        "keep",
        text("new"),
        "new: each row is sent once, and goes round once; all: all rows go round, so the step has to end by itself.",
    )
    .builds(build)
}

fn build(building: &mut Building<'_>) -> KindOutputs {
    let step = building.text("step").to_owned();
    check("step", &step, "")?;
    let union = match building.text("keep") {
        "new" => "UNION",
        "all" => "UNION ALL",
        other => return Err(KindError::of("keep", format!("`{other}` keeps nothing: write new or all"))),
    };
    let count = building.inputs().len();
    if count > MOST_INPUTS {
        return Err(KindError::new(format!("it has {count} inputs, and may have {MOST_INPUTS}")));
    }
    let mut names = vec![FIRST.to_owned()];
    names.extend(input_names(building, 1)?);
    if let Some(name) = names.iter().find(|name| name.eq_ignore_ascii_case("rows")) {
        let message = format!("`{name}` stands for the rows that go round: give this table another name");
        return Err(KindError::of("names", message));
    }
    let before = format!("WITH RECURSIVE rows AS (SELECT * FROM \"{FIRST}\" {union} (");
    let whole = format!("{before}{step}\n)) SELECT * FROM rows");
    statement(building, "step", &names, &before, &whole)
}
