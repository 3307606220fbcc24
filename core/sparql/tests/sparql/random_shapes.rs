//! Random queries of shapes rewritten by the planner: with all settings, the engine finds the naive evaluator's
//! solutions.

use crate::random::{LITERALS, PREDICATES, SUBJECTS, VARIABLES, Writer, check_query, graph};
use crate::rows::Chance;
use std::fmt::Write as _;

/// Checks queries of one shape, and the number of their plans with a word.
#[track_caller]
fn check(shape: fn(&mut Writer<'_>) -> String, seeds: u64, word: &str, least: usize) {
    check_in(graph, shape, seeds, word, least);
}

/// Like [`check`], on other data.
#[track_caller]
fn check_in(
    graph: fn(&mut Chance) -> String,
    shape: fn(&mut Writer<'_>) -> String,
    seeds: u64,
    word: &str,
    least: usize,
) {
    let check = |seed: u64| {
        let mut chance = Chance::new(seed);
        let data = graph(&mut chance);
        let text = shape(&mut Writer { chance: &mut chance, bound: 0, graphs: false });
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

/// Something computed from a variable. May have no value.
fn computed(writer: &mut Writer<'_>, variable: &str) -> String {
    match writer.chance.below(7) {
        0 => format!("STR({variable})"),
        1 => format!("UCASE({variable})"),
        2 => format!("STRAFTER({variable}, \"a\")"),
        3 => format!("({variable} + 1)"),
        4 => format!("COALESCE(-{variable}, \"a\"@en)"),
        5 => format!("IF(isIRI({variable}), {variable}, 1)"),
        _ => variable.to_owned(),
    }
}

/// An equality of a value computed by BIND or a sub-select in one operand with one of another operand.
fn equality_of_bound_value(writer: &mut Writer<'_>) -> String {
    let (p, q) = (writer.chance.pick(&PREDICATES), writer.chance.pick(&PREDICATES));
    let (x, y, z) = (computed(writer, "?b"), computed(writer, "?d"), computed(writer, "?b"));
    let (group, side) = match writer.chance.below(9) {
        0 => (format!("?a {p} ?b BIND({x} AS ?e) ?c {q} ?d BIND({y} AS ?f)"), "?f".to_owned()),
        1 => (format!("{{ ?a {p} ?b BIND({x} AS ?e) }} {{ ?c {q} ?d BIND({y} AS ?f) }}"), "?f".to_owned()),
        2 => (format!("?a {p} ?b . ?c {q} ?d BIND({x} AS ?e) BIND({y} AS ?f)"), "?f".to_owned()),
        3 => (format!("{{ SELECT ?a ({x} AS ?e) {{ ?a {p} ?b }} }} ?c {q} ?d"), y),
        4 => (format!("{{ SELECT ?a (MAX(?b) AS ?e) {{ ?a {p} ?b }} GROUP BY ?a }} ?c {q} ?d"), y),
        5 => (format!("{{ ?a {p} ?b BIND({x} AS ?e) }} UNION {{ ?a {q} ?b BIND({z} AS ?e) }} ?c {q} ?d"), y),
        6 => (format!("?a {p} ?b OPTIONAL {{ ?b {q} ?e }} ?c {q} ?d BIND({y} AS ?f)"), "?f".to_owned()),
        7 => (format!("?a {p} ?b BIND({x} AS ?e) ?c {q} ?d OPTIONAL {{ ?d {p} ?e }}"), y),
        _ => (format!("?a {p} ?b BIND({x} AS ?e) ?c {q} ?d"), y),
    };
    let equality = if writer.chance.one_in(5) { format!("sameTerm(?e, {side})") } else { format!("?e = {side}") };
    let more = match writer.chance.below(6) {
        0 => " && !BOUND(?f)".to_owned(),
        1 => format!(" && {}", writer.condition(1)),
        _ => String::new(),
    };
    let select = writer.chance.pick(&["*", "?a ?c", "?c ?e", "DISTINCT ?a", "?f"]);
    format!("SELECT {select} {{ {group} FILTER ({equality}{more}) }}")
}

#[test]
fn equalities_of_bound_values_are_what_the_naive_evaluator_finds() {
    check(equality_of_bound_value, 400, "hash join on ", 200);
}

/// An equality of a value computed from the row with one computed from the solutions of OPTIONAL or EXISTS.
fn equality_with_what_is_looked_for(writer: &mut Writer<'_>) -> String {
    let (p, q) = (writer.chance.pick(&PREDICATES), writer.chance.pick(&PREDICATES));
    let left = match writer.chance.below(4) {
        0 => format!("?a {p} ?e OPTIONAL {{ ?e {q} ?b }}"),
        1 => format!("?a {p} ?e BIND({} AS ?b)", computed(writer, "?e")),
        _ => format!("?a {p} ?b"),
    };
    let (x, y) = (computed(writer, "?b"), computed(writer, "?d"));
    let subject = if writer.chance.one_in(5) { "?a" } else { "?c" };
    let (bind, y) =
        if writer.chance.one_in(3) { (format!("BIND({y} AS ?f)"), "?f".to_owned()) } else { (String::new(), y) };
    let equality = if writer.chance.one_in(5) { format!("sameTerm({x}, {y})") } else { format!("{x} = {y}") };
    let more = if writer.chance.one_in(4) { format!(" && {}", writer.condition(1)) } else { String::new() };
    let inner = format!("{{ {subject} {q} ?d {bind} FILTER({equality}{more}) }}");
    let test = match writer.chance.below(6) {
        0 | 1 => format!("OPTIONAL {inner}"),
        2 => format!("FILTER EXISTS {inner}"),
        3 => format!("FILTER (isIRI(?a) || EXISTS {inner})"),
        _ => format!("FILTER NOT EXISTS {inner}"),
    };
    let select = writer.chance.pick(&["*", "?a ?c", "DISTINCT ?a"]);
    let limit = writer.chance.pick(&["", "", "", "LIMIT 3"]);
    format!("SELECT {select} {{ {left} {test} }} {limit}")
}

#[test]
fn equalities_with_what_is_looked_for_are_what_the_naive_evaluator_finds() {
    check(equality_with_what_is_looked_for, 400, "hash join on ", 100);
}

/// A chain, a tree or a cycle of two to six patterns, now and then with conditions.
fn connected(writer: &mut Writer<'_>) -> String {
    let mut text = String::new();
    for number in 1..3 + writer.chance.below(4) {
        let (from, to) = match writer.chance.below(6) {
            0 => (VARIABLES[writer.chance.below(number)], VARIABLES[writer.chance.below(6)]),
            1 => (VARIABLES[number % 6], VARIABLES[0]),
            _ => (VARIABLES[number - 1], VARIABLES[number % 6]),
        };
        let predicate = if writer.chance.one_in(6) { writer.variable() } else { writer.chance.pick(&PREDICATES) };
        let (from, to) = if writer.chance.one_in(3) { (to, from) } else { (from, to) };
        write!(text, "{from} {predicate} {to} . ").expect("a string takes everything");
    }
    match writer.chance.below(8) {
        0 => write!(text, "{{ ?a ?b ?c }} UNION {{ ?a <http://e/q> ?c . ?b <http://e/p> ?c }}"),
        1 => write!(text, "VALUES ?{} {{ <http://e/a> <http://e/b> <http://e/a> }}", writer.chance.pick(&["a", "c"])),
        2 => write!(text, "{{ SELECT ?a (COUNT(*) AS ?n) {{ ?a <http://e/p> ?f }} GROUP BY ?a }}"),
        3 | 4 => write!(text, "FILTER ({})", writer.condition(1)),
        5 => write!(text, "FILTER ({} != {})", writer.variable(), writer.variable()),
        _ => Ok(()),
    }
    .expect("a string takes everything");
    text
}

fn counts(writer: &mut Writer<'_>) -> String {
    let body = connected(writer);
    let (a, b) = (writer.variable(), writer.variable());
    match writer.chance.below(6) {
        0 => format!("SELECT {a} (COUNT(*) AS ?z) {{ {body} }} GROUP BY {a}"),
        1 => format!("SELECT {a} (COUNT({b}) AS ?z) (COUNT(*) AS ?y) {{ {body} }} GROUP BY {a}"),
        2 => format!("SELECT (COUNT(DISTINCT {a}) AS ?z) {{ {body} }}"),
        3 => format!("SELECT {a} (MAX({b}) AS ?z) {{ {body} }} GROUP BY {a} HAVING (COUNT(*) > 1)"),
        _ => format!("SELECT (COUNT(*) AS ?z) {{ {body} }}"),
    }
}

fn sets(writer: &mut Writer<'_>) -> String {
    let body = connected(writer);
    match writer.chance.below(3) {
        0 => format!("SELECT DISTINCT {} {{ {body} }}", writer.variable()),
        1 => format!("SELECT DISTINCT ?a ?c {{ {body} }}"),
        _ => {
            format!("SELECT * {{ ?a <http://e/q> ?b FILTER {}EXISTS {{ {body} }} }}", writer.chance.pick(&["", "NOT "]))
        }
    }
}

#[test]
fn counts_with_eliminated_variables_are_what_the_naive_evaluator_finds() {
    check(counts, 400, "_:value", 0);
}

#[test]
fn sets_with_eliminated_variables_are_what_the_naive_evaluator_finds() {
    check(sets, 400, "distinct", 0);
}

/// OPTIONAL, MINUS or EXISTS with something behind it.
fn behind_a_test(writer: &mut Writer<'_>) -> String {
    let triple = |writer: &mut Writer<'_>| {
        let (a, b) = (writer.variable(), writer.variable());
        format!("{a} {} {b} . ", writer.chance.pick(&PREDICATES))
    };
    let front = triple(writer);
    let (inner, more) = (triple(writer), triple(writer));
    let condition = if writer.chance.one_in(3) { format!("FILTER ({})", writer.condition(0)) } else { String::new() };
    let test = match writer.chance.below(6) {
        0 => format!("MINUS {{ {inner} {more} {condition} }}"),
        1 => format!("FILTER NOT EXISTS {{ {inner} {more} {condition} }}"),
        2 => format!("OPTIONAL {{ {inner} {condition} }} OPTIONAL {{ {more} }}"),
        _ => format!("OPTIONAL {{ {inner} {more} {condition} }}"),
    };
    let (behind, last) = (triple(writer), triple(writer));
    let filter = if writer.chance.one_in(3) { format!("FILTER ({})", writer.condition(1)) } else { String::new() };
    match writer.chance.below(3) {
        0 => format!("SELECT * {{ {front} {test} {behind} {filter} }}"),
        1 => format!("SELECT * {{ {{ {front} {test} }} {behind} {last} {filter} }}"),
        _ => format!("SELECT DISTINCT ?a ?b {{ {front} {test} {behind} {last} {filter} }}"),
    }
}

#[test]
fn what_follows_an_optional_part_is_what_the_naive_evaluator_finds() {
    check(behind_a_test, 400, "left ", 100);
}

/// Texts, IRIs and numbers with equal beginnings, or near each other.
fn neighbours(chance: &mut Chance) -> String {
    let mut data = String::new();
    for _ in 0..8 + chance.below(40) {
        let name: String = (0..chance.below(4)).map(|_| chance.pick(&['a', 'b', 'b', '.'])).collect();
        let object = match chance.below(9) {
            0 => format!("<http://e/{name}>"),
            1 => format!("\"{name}\"@{}", chance.pick(&["de", "en"])),
            2 | 3 => format!("\"{}\"^^<http://www.w3.org/2001/XMLSchema#integer>", chance.below(9)),
            4 => format!("\"{}.5\"^^<http://www.w3.org/2001/XMLSchema#decimal>", chance.below(9)),
            5 => chance.pick(&LITERALS).to_owned(),
            6 => format!("_:{}", chance.pick(&["x", "y"])),
            _ => format!("\"{name}\""),
        };
        let subject = format!("<http://e/{}>", chance.pick(&["a", "ab", "abb", "b", "bb"]));
        writeln!(data, "{subject} {} {object} .", chance.pick(&PREDICATES[..2])).expect("a string takes everything");
    }
    data
}

/// A condition on one variable, possibly met by ids in ranges.
fn range(writer: &mut Writer<'_>, variable: &str, depth: usize) -> String {
    if depth > 0 && writer.chance.one_in(3) {
        let sign = writer.chance.pick(&["&&", "||", "&&"]);
        return format!("({} {sign} {})", range(writer, variable, depth - 1), range(writer, variable, depth - 1));
    }
    let text = writer.chance.pick(&["", "a", "ab", "b", "b.", "bb", "c"]).to_owned();
    let of = if writer.chance.one_in(3) { format!("STR({variable})") } else { variable.to_owned() };
    let sign = writer.chance.pick(&["<", "<=", ">", ">=", "="]);
    let datatype = writer.chance.pick(&["xsd:integer", "xsd:decimal", "xsd:string", "xsd:boolean", "rdf:langString"]);
    let datatype = match datatype.split_once(':').expect("all have a prefix") {
        ("xsd", name) => format!("<http://www.w3.org/2001/XMLSchema#{name}>"),
        (_, name) => format!("<http://www.w3.org/1999/02/22-rdf-syntax-ns#{name}>"),
    };
    match writer.chance.below(16) {
        10 => format!("DATATYPE({variable}) = {datatype}"),
        11 => format!("DATATYPE({variable}) IN (<http://e/a>, {datatype})"),
        12 => format!("LANG({variable}) = \"{}\"", writer.chance.pick(&["", "en", "de", "EN", "e"])),
        13 => format!("LANGMATCHES(LANG({variable}), \"{}\")", writer.chance.pick(&["en", "*", "DE", ""])),
        14 => match writer.chance.below(3) {
            0 => format!("STRLEN({variable}) {sign} 2"),
            1 => format!("CONTAINS({variable}, \"{text}\")"),
            _ => format!("STRENDS(UCASE({variable}), \"B\") = {}", writer.chance.pick(&["true", "false"])),
        },
        15 => format!("isNumeric({variable})"),
        0 | 1 => format!("{of} {sign} \"{text}\""),
        2 => format!("STRSTARTS({of}, \"{text}\")"),
        3 => format!("STRSTARTS(STR({variable}), \"http://e/{text}\")"),
        4 => format!("REGEX({of}, \"^{}\")", text.replace('.', writer.chance.pick(&["\\\\.", "."]))),
        5 => format!("{variable} {sign} {}", writer.chance.below(9)),
        6 => format!("{}.25 {sign} {variable}", writer.chance.below(9)),
        7 => format!("{variable} {sign} {}", writer.chance.pick(&LITERALS)),
        8 => format!("{variable} IN ({}, \"{text}\", 3, <http://e/a>)", writer.chance.pick(&LITERALS)),
        _ => format!("{}({variable})", writer.chance.pick(&["isIRI", "isBlank", "isLiteral", "!isLiteral"])),
    }
}

fn ranges(writer: &mut Writer<'_>) -> String {
    let variable = writer.chance.pick(&["?b", "?b", "?a"]);
    let condition = range(writer, variable, 2);
    let (p, q) = (writer.chance.pick(&PREDICATES[..2]), writer.chance.pick(&PREDICATES[..2]));
    let more = match writer.chance.below(7) {
        0 => format!("?a {q} ?c"),
        1 => format!("OPTIONAL {{ ?c {q} ?b FILTER ({}) }}", range(writer, "?c", 1)),
        2 => format!("?c {q} ?b FILTER (STR(?a) != STR(?c))"),
        3 => format!("MINUS {{ ?a {q} ?c FILTER ({}) }}", range(writer, "?c", 1)),
        4 => format!("FILTER ({})", range(writer, "?b", 1)),
        _ => String::new(),
    };
    let predicate = if writer.chance.one_in(6) { "?d" } else { p };
    let rest = writer.chance.pick(&["", " ORDER BY ?b", " LIMIT 3", " ORDER BY ?b LIMIT 2"]);
    format!(
        "SELECT {}* {{ ?a {predicate} ?b FILTER ({condition}) {more} }}{rest}",
        writer.chance.pick(&["", "DISTINCT "])
    )
}

#[test]
fn conditions_that_are_ranges_of_ids_keep_what_the_naive_evaluator_keeps() {
    check_in(neighbours, ranges, 600, ", a range", 200);
}

/// Operands without a common variable, and a disjunction to compare them.
fn disjunction(writer: &mut Writer<'_>) -> String {
    let (p, q) = (writer.chance.pick(&PREDICATES), writer.chance.pick(&PREDICATES));
    let part = match writer.chance.below(6) {
        0 => format!("?a {p} ?b . ?c {q} ?d . ?c ?e ?f"),
        1 => format!("?a {p} ?b OPTIONAL {{ ?b {q} ?e }} ?c {q} ?d"),
        2 => format!("?a ?e ?b . {{ ?c {p} ?d }} UNION {{ ?d {q} ?c }}"),
        3 => format!("?a {p} ?b BIND(STR(?b) AS ?e) ?c {q} ?d"),
        _ => format!("?a {p} ?b . ?c {q} ?d"),
    };
    let one = |writer: &mut Writer<'_>| {
        let (a, b) = (writer.chance.pick(&["?a", "?b", "?b", "?e"]), writer.chance.pick(&["?c", "?d", "?d", "?f"]));
        match writer.chance.below(8) {
            0 => format!("STR({a}) = STR({b})"),
            1 => format!("sameTerm({b}, {a})"),
            2 => format!("{a} = {}", writer.constant()),
            3 => format!("{b} IN ({a}, {})", writer.constant()),
            4 => format!("({a} = {b} && {})", writer.condition(0)),
            _ => format!("{a} = {b}"),
        }
    };
    let mut condition = one(writer);
    for _ in 0..1 + writer.chance.below(2) {
        condition = format!("{condition} || {}", one(writer));
    }
    if writer.chance.one_in(4) {
        condition = format!("?b IN (?d, {}, ?c)", writer.constant());
    }
    let more = if writer.chance.one_in(5) { format!("FILTER ({})", writer.condition(1)) } else { String::new() };
    let select = writer.chance.pick(&["*", "*", "?a ?c", "DISTINCT ?a", "(COUNT(*) AS ?n)"]);
    format!("SELECT {select} {{ {part} FILTER ({condition}) {more} }}")
}

#[test]
fn disjunctions_between_operands_are_what_the_naive_evaluator_finds() {
    check(disjunction, 400, "coalesce(if(", 0);
}

/// A table with some rows that leave a pattern's variables unbound.
fn with_table(writer: &mut Writer<'_>) -> String {
    let value = |writer: &mut Writer<'_>, all: &[&'static str]| {
        if writer.chance.one_in(3) { "UNDEF" } else { writer.chance.pick(all) }
    };
    let rows: String = (0..1 + writer.chance.below(5))
        .map(|_| {
            let (a, b) = (value(writer, &SUBJECTS[..4]), value(writer, &PREDICATES));
            let c = if writer.chance.one_in(2) { "UNDEF" } else { writer.constant() };
            format!("({a} {b} {c}) ")
        })
        .collect();
    let columns = writer.chance.pick(&["?a ?b ?c", "?c ?b ?a", "?a ?b ?f"]);
    let p = writer.chance.pick(&PREDICATES);
    let rest = match writer.chance.below(6) {
        0 => format!("?a ?b ?c . ?c {p} ?d"),
        1 => format!("?a {p} ?c OPTIONAL {{ ?a ?b ?d }}"),
        2 => format!("{{ ?a ?b ?c }} UNION {{ ?c {p} ?a }}"),
        3 => format!("?a ?b ?c FILTER ({})", writer.condition(1)),
        4 => format!("?a ?b ?c . ?a ?b ?c . VALUES (?a ?c) {{ (UNDEF \"a\") ({} UNDEF) }}", writer.constant()),
        _ => "?a ?b ?c".to_owned(),
    };
    format!("SELECT * {{ VALUES ({columns}) {{ {rows} }} {rest} }}")
}

#[test]
fn tables_with_unbound_values_are_joined_as_by_the_naive_evaluator() {
    check(with_table, 500, "union", 100);
}

/// A sub-select with GROUP BY or DISTINCT, or a union of such, beside patterns with some of its variables.
fn collected(writer: &mut Writer<'_>) -> String {
    let select = |writer: &mut Writer<'_>| {
        let (p, q) = (writer.chance.pick(&PREDICATES), writer.chance.pick(&PREDICATES));
        let body = match writer.chance.below(7) {
            0 => format!("?a {p} ?b . ?b {q} ?c"),
            1 => format!("?a {p} ?b OPTIONAL {{ ?b {q} ?c }}"),
            2 => format!("?a {p} ?b FILTER ({})", writer.condition(1)),
            3 => format!("?a {p} ?b MINUS {{ ?b {q} ?c }}"),
            4 => format!("{{ ?a {p} ?b }} UNION {{ ?b {q} ?a }}"),
            5 => format!("{{ SELECT DISTINCT ?a ?b {{ ?a {p} ?b . ?c {q} ?b }} }}"),
            _ => format!("?a {p} ?b . ?c {q} ?b"),
        };
        let keys = writer.chance.pick(&["?a", "?b", "?a ?b"]);
        match writer.chance.below(6) {
            0 => format!("SELECT DISTINCT {keys} {{ {body} }}"),
            1 => format!("SELECT DISTINCT {keys} (STR(?a) AS ?z1) {{ {body} }}"),
            2 => format!("SELECT {keys} (MAX(?b) AS ?z1) (COUNT(DISTINCT ?c) AS ?z2) {{ {body} }} GROUP BY {keys}"),
            3 => format!("SELECT {keys} (COUNT(*) AS ?z1) {{ {body} }} GROUP BY {keys} HAVING (COUNT(*) > 1)"),
            4 => format!("SELECT {keys} (SUM(?b) + 1 AS ?z1) {{ {body} }} GROUP BY {keys} ORDER BY {keys}"),
            _ => format!("SELECT {keys} (COUNT(?c) AS ?z1) {{ {body} }} GROUP BY {keys} LIMIT 100"),
        }
    };
    let mut inner = format!("{{ {} }}", select(writer));
    if writer.chance.one_in(5) {
        inner += &format!(" UNION {{ {} }}", select(writer));
    }
    let (p, start) = (writer.chance.pick(&PREDICATES), writer.chance.pick(&SUBJECTS[..4]));
    let rest = match writer.chance.below(6) {
        0 => format!("{start} {p} ?a ."),
        1 => format!("?d {p} ?a ; {p} ?b ."),
        2 => format!("VALUES ?a {{ {start} <http://e/a> }}"),
        3 => format!("?a {p} {start} OPTIONAL {{ ?a {p} ?b }}"),
        4 => format!("?b {p} ?e FILTER ({})", writer.condition(1)),
        _ => format!("?a {p} ?e . ?e ?f ?d ."),
    };
    let join = if writer.chance.one_in(4) { " OPTIONAL " } else { " " };
    match join {
        " " => format!("SELECT * {{ {rest} {inner} }}"),
        _ => format!("SELECT * {{ {rest} OPTIONAL {{ {inner} }} }}"),
    }
}

#[test]
fn sub_selects_beside_what_asks_for_some_keys_are_what_the_naive_evaluator_finds() {
    check(collected, 400, "distinct [", 100);
}

/// Few things with many links to each other, and some hubs.
fn crowd(chance: &mut Chance) -> String {
    let mut data = String::new();
    let things = 4 + chance.below(10);
    for _ in 0..10 + chance.below(60) {
        let mut end = || if chance.one_in(4) { 0 } else { chance.below(things) };
        let (a, b) = (end(), end());
        writeln!(data, "<http://e/n{a}> {} <http://e/n{b}> .", chance.pick(&PREDICATES[..2]))
            .expect("a string takes everything");
    }
    data
}

/// A triangle, a cycle of four, a clique or a cycle with a tail, now and then with conditions.
fn cycle(writer: &mut Writer<'_>) -> String {
    let mut text = String::new();
    let sides: &[(usize, usize)] = match writer.chance.below(5) {
        0 | 1 => &[(0, 1), (1, 2), (2, 0)],
        2 => &[(0, 1), (1, 2), (2, 3), (3, 0)],
        3 => &[(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)],
        _ => &[(0, 1), (1, 2), (2, 0), (2, 3)],
    };
    for &(a, b) in sides {
        let (from, to) = if writer.chance.one_in(2) { (a, b) } else { (b, a) };
        let predicate = if writer.chance.one_in(12) { "?e" } else { writer.chance.pick(&PREDICATES[..2]) };
        text += &format!("{} {predicate} {} . ", VARIABLES[from], VARIABLES[to]);
    }
    if writer.chance.one_in(3) {
        text += &format!("FILTER ({}) ", writer.condition(1));
    }
    if writer.chance.one_in(5) {
        text += &format!("OPTIONAL {{ ?a {} ?f }} ", writer.chance.pick(&PREDICATES[..2]));
    }
    match writer.chance.below(6) {
        0 => format!("SELECT (COUNT(*) AS ?z1) {{ {text} }}"),
        1 => format!("SELECT ?a (COUNT(DISTINCT ?c) AS ?z1) {{ {text} }} GROUP BY ?a"),
        2 => format!("SELECT DISTINCT ?a ?c {{ {text} }}"),
        3 => format!("SELECT * {{ ?a {} ?f FILTER EXISTS {{ {text} }} }}", writer.chance.pick(&PREDICATES[..2])),
        4 => format!("SELECT * {{ {text} }} LIMIT 5"),
        _ => format!("SELECT * {{ {text} }}"),
    }
}

#[test]
fn cycles_are_what_the_naive_evaluator_finds() {
    check_in(crowd, cycle, 300, "intersection of", 25);
}

/// For long runs: `cargo test -p vicus-sparql --release -- --ignored many_more`.
#[test]
#[ignore = "takes minutes"]
fn many_more_seeds_of_shapes() {
    check_in(neighbours, ranges, 20_000, ", a range", 200);
    check(collected, 15_000, "distinct [", 100);
    check_in(crowd, cycle, 15_000, "intersection of", 25);
}
