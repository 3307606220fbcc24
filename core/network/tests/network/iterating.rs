//! Networks whose rows go round. Expected values come from plain loops over sets.

use crate::runs::{rows_with, sorted};
use std::collections::BTreeSet;
use vicus_flow::{Envelope, Schema, Type, library};
use vicus_network::{BoxSpec, Kinds, MachineCounts, NetworkText, Ports};

/// From a number `n` below 5,000 edges lead to `n * 3 % 5003` and `n + 40`; both ends may lie beyond 5,000.
const REACHED: &str = r#"
    box start = numbers(from: 1, to: 3);
    box n = numbers(to: 5000, column: "a");
    box near = map(select: "a, a + 40 AS b");
    box far = map(select: "a, a * 3 % 5003 AS b");
    box edges = union;
    box reached = iterate(step: "SELECT e.b FROM rows AS r JOIN edges AS e ON e.a = r.n", names: "edges");
    box found = collect;
    n -> near -> edges;
    n -> far -> edges;
    start -> reached;
    edges -> reached;
    reached -> found;
"#;

fn reached() -> Vec<Vec<i64>> {
    let mut found = BTreeSet::from([1, 2]);
    let mut open: Vec<i64> = vec![1, 2];
    while let Some(n) = open.pop() {
        if n < 5000 {
            open.extend([n + 40, n * 3 % 5003].into_iter().filter(|&next| found.insert(next)));
        }
    }
    found.into_iter().map(|n| vec![n]).collect()
}

fn rows(text: &str) -> Vec<Vec<i64>> {
    sorted(rows_with(text, MachineCounts::default(), &[]))
}

fn mistake(text: &str) -> String {
    let built = text
        .parse::<NetworkText>()
        .and_then(|text| text.build("test", &Kinds::library(), &MachineCounts::default(), &[]));
    built.err().unwrap_or_else(|| panic!("it has no mistake: {text}")).message
}

#[test]
fn rows_that_came_before_do_not_go_round_again() {
    let wanted = reached();
    assert!(wanted.len() > 4000, "most are reached");
    assert_eq!(rows(REACHED), wanted);
}

#[test]
fn the_text_and_its_json_say_the_same_both_ways() {
    let text: NetworkText = REACHED.parse().unwrap();
    let printed = text.to_string();
    assert!(
        printed.contains("iterate(step: \"SELECT e.b FROM rows AS r JOIN edges AS e ON e.a = r.n\", names: \"edges\")")
    );
    assert_eq!(printed.parse::<NetworkText>().unwrap(), text);
    let read = NetworkText::from_json(&text.to_json()).unwrap();
    assert_eq!(read, text);
    assert_eq!(rows(&read.to_string()), reached());
}

#[test]
fn all_rows_go_round_where_the_text_says_so() {
    let powers = |keep: &str| {
        rows(&format!(
            "box one = numbers(from: 1, to: 3);
            box next = iterate(step: \"SELECT n * 2 FROM rows WHERE n < 100\"{keep});
            box found = collect; one -> next -> found;"
        ))
    };
    let doubled = |from: i64| (0..).map(move |power| from << power).take_while(|&n| n < 200);
    let mut all: Vec<i64> = doubled(1).chain(doubled(2)).collect();
    all.sort_unstable();
    let once: BTreeSet<i64> = all.iter().copied().collect();
    assert_eq!(powers(", keep: \"all\"").concat(), all);
    assert_eq!(powers("").concat(), once.into_iter().collect::<Vec<_>>());
}

#[test]
fn tables_have_letters_without_names_and_may_be_empty() {
    let text = "box one = numbers(to: 4); box none = numbers(to: 0, column: \"m\");
        box next = iterate(step: \"SELECT b.m FROM rows JOIN b ON b.m = rows.n\"); box found = collect;
        one -> next; none -> next; next -> found;";
    assert_eq!(rows(text).concat(), [0, 1, 2, 3]);
    let nothing =
        "box none = numbers(to: 0); box next = iterate(step: \"SELECT n + 1 FROM rows\"); box found = collect;
        none -> next -> found;";
    assert_eq!(rows(nothing).len(), 0, "nothing goes round without end");
}

#[test]
fn a_wrong_step_is_told_with_its_place() {
    let step = |step: &str, more: &str| {
        mistake(&format!(
            "box n = numbers(to: 3); box m = numbers(to: 3); box i = iterate(step: \"{step}\"{more}); box s = sink;
            n -> i; m -> i; i -> s;"
        ))
    };
    assert!(step("SELECT n FROM", "").starts_with("`step` of `i`: "));
    let unknown = step("SELECT k FROM rows", "");
    assert!(unknown.starts_with("`step` of `i`: ") && unknown.contains('k'), "{unknown}");
    let kind = step("SELECT CAST(n AS VARCHAR) FROM rows", "");
    assert!(kind.contains("column n is"), "{kind}");
    let folded = step("SELECT SUM(n) FROM rows", "");
    assert!(folded.contains("would need the rows of all rounds"), "{folded}");
    assert_eq!(step("SELECT n FROM rows", ", keep: \"none\""), "`keep` of `i`: `none` keeps nothing: write new or all");
    let names = step("SELECT n FROM rows", ", names: \"x, y\"");
    assert_eq!(names, "`names` of `i`: 2 names for 1 inputs behind the first one: each has one");
    let rows = step("SELECT n FROM rows", ", names: \"Rows\"");
    assert!(rows.starts_with("`names` of `i`: `Rows` stands for the rows that go round"), "{rows}");
    // Nothing gets out of the step's brackets.
    let out = step("SELECT n FROM rows)) SELECT 1 --", "");
    assert!(out.starts_with("`step` of `i`: "), "{out}");
}

/// A stream that never ends has no last round.
#[test]
fn an_endless_stream_does_not_go_round() {
    let text: NetworkText =
        "box s = ticks; box i = iterate(step: \"SELECT n FROM rows\"); box e = sink; s -> i -> e;".parse().unwrap();
    let ticks = BoxSpec::new("ticks", "Never ends.").ports(Ports::Exactly(0), Ports::Exactly(1)).builds(|building| {
        let schema = Schema::new([("n", Type::I64)]);
        building.never_ends();
        let source = building.source(library::source("ticks", &schema, std::iter::empty::<Envelope>));
        Ok(vec![(source.output(0), schema)])
    });
    let mut kinds = Kinds::library();
    kinds.add(ticks);
    let error = text.build("test", &kinds, &MachineCounts::default(), &[]).unwrap_err();
    assert!(
        error.message.starts_with("the stream of `s` never ends, and `i` needs all of input 0 to go on"),
        "{error}"
    );
}
