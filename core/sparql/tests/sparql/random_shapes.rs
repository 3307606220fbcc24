//! Random queries of shapes that the planner rewrites: with all settings, the engine finds what the naive evaluator finds.

use crate::random::{PREDICATES, Writer, check_query, graph};
use crate::rows::Chance;

/// Checks queries of one shape, and that enough of their plans have a word.
#[track_caller]
fn check(shape: fn(&mut Writer<'_>) -> String, seeds: u64, word: &str, least: usize) {
    let check = |seed: u64| {
        let mut chance = Chance::new(seed);
        let data = graph(&mut chance);
        let text = shape(&mut Writer { chance: &mut chance, bound: 0 });
        check_query(seed, &data, &text)
    };
    let plans: Vec<String> = (0..seeds).filter_map(check).collect();
    let having = plans.iter().filter(|plan| plan.contains(word)).count();
    println!("seeds 0..{seeds}: {} queries were checked; {having} plans have `{word}`", plans.len());
    assert!(plans.len() as u64 > seeds / 2 && having >= least, "{having} of {} plans have `{word}`", plans.len());
}

/// Two parts without a common variable, or with one, and an equality of something computed from each.
fn computed_equality(writer: &mut Writer<'_>) -> String {
    let (p, q) = (writer.chance.pick(&PREDICATES), writer.chance.pick(&PREDICATES));
    let part = match writer.chance.below(5) {
        0 => format!("?a {p} ?b . ?c {q} ?d . ?c ?e ?f"),
        1 => format!("?a {p} ?b . ?a {q} ?d"),
        2 => format!("?a {p} ?b OPTIONAL {{ ?b {q} ?e }} ?c {q} ?d"),
        3 => format!("?a ?e ?b . {{ ?c {p} ?d }} UNION {{ ?d {q} ?c }}"),
        _ => format!("?a {p} ?b . ?c {q} ?d"),
    };
    let side = |writer: &mut Writer<'_>, variable: &str| match writer.chance.below(9) {
        0 => format!("STR({variable})"),
        1 => format!("UCASE({variable})"),
        2 => format!("STRAFTER({variable}, \"a\")"),
        3 => format!("({variable} + 1)"),
        4 => format!("({variable} * 2)"),
        5 => format!("CONCAT({variable}, \"a\")"),
        6 => format!("IF(isIRI({variable}), {variable}, 1)"),
        7 => format!("COALESCE(-{variable}, \"a\"@en)"),
        _ => variable.to_owned(),
    };
    let (a, b) = (writer.chance.pick(&["?a", "?b", "?b"]), writer.chance.pick(&["?c", "?d", "?d", "?e"]));
    let (left, right) = (side(writer, a), side(writer, b));
    let equality =
        if writer.chance.one_in(4) { format!("sameTerm({left}, {right})") } else { format!("{left} = {right}") };
    let more = if writer.chance.one_in(3) { format!(" && {}", writer.condition(1)) } else { String::new() };
    format!("SELECT * {{ {part} FILTER ({equality}{more}) }}")
}

#[test]
fn equalities_of_computed_values_are_what_the_naive_evaluator_finds() {
    check(computed_equality, 300, "_:value", 100);
}
