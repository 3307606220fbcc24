//! Statements of any size end with a plan or an error: no stack overflows, and planning can be stopped.

use crate::run::{answer, answer_within, lines, people};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vicus_flow::sequential;
use vicus_language::{Compiler, Ends, TextLimits};
use vicus_sql::{ParseOptions, PlanOptions, Sql, SqlErrorKind, Tables, parse, plan};

fn kind_of(text: &str) -> Option<SqlErrorKind> {
    let options = ParseOptions { bytes: 16 << 20, ..ParseOptions::default() };
    let planned = parse(text, &options)
        .and_then(|parsed| plan(&parsed, &people(), &PlanOptions::default(), &|| false).map(|_| ()));
    planned.err().map(|error| error.kind)
}

#[test]
fn deep_statements_are_errors() {
    let deep = Some(SqlErrorKind::TooDeep);
    assert_eq!(kind_of(&format!("SELECT {}1{}", "(".repeat(100_000), ")".repeat(100_000))), deep);
    assert_eq!(kind_of(&format!("SELECT {}1{}", "COALESCE(".repeat(100_000), ")".repeat(100_000))), deep);
    assert_eq!(kind_of(&format!("{}SELECT 1{}", "SELECT * FROM (".repeat(100_000), ") AS t".repeat(100_000))), deep);
    assert_eq!(kind_of(&format!("SELECT 1{}", " + 1".repeat(19_000))), deep, "a tree of 19,000 levels");
    assert_eq!(kind_of(&format!("SELECT 1{}", " EXCEPT SELECT 1".repeat(5000))), deep);
    let joins: String = (0..500).map(|number| format!(" JOIN teams t{number} USING (id)")).collect();
    assert_eq!(kind_of(&format!("SELECT 1 FROM people{joins}")), deep);
}

#[test]
fn long_chains_are_no_deep_trees() {
    let tables = people();
    let count = |text: &str| lines(&answer(text, &tables, &PlanOptions::default(), 1).unwrap());
    let ors: String = (0..9000).map(|number| format!(" OR id = {}", number + 5)).collect();
    assert_eq!(count(&format!("SELECT COUNT(*) FROM people WHERE id = 1{ors}")), ["3"]);
    let ands: String = (0..9000).map(|number| format!(" AND id <> {}", number + 5)).collect();
    assert_eq!(count(&format!("SELECT COUNT(*) FROM people WHERE id > 1{ands}")), ["3"]);
    let list: Vec<String> = (3..50_000).map(|number| number.to_string()).collect();
    assert_eq!(count(&format!("SELECT COUNT(*) FROM people WHERE id IN ({})", list.join(", "))), ["4"]);
    let unions = " UNION ALL SELECT 1".repeat(1000);
    assert_eq!(count(&format!("SELECT COUNT(*) FROM (SELECT 1{unions}) AS t")), ["1001"]);
    assert_eq!(count(&format!("SELECT LENGTH('a'{})", " || 'b'".repeat(5000))), ["5001"]);
}

#[test]
fn planning_can_be_stopped_and_has_a_bound_of_steps() {
    let parsed = parse("SELECT * FROM people p, teams t WHERE p.team = t.id", &ParseOptions::default()).unwrap();
    let stopped = plan(&parsed, &people(), &PlanOptions::default(), &|| true).unwrap_err();
    assert_eq!(stopped.kind, SqlErrorKind::Stopped);
    let options = PlanOptions { plan_steps: 20, ..PlanOptions::default() };
    assert_eq!(plan(&parsed, &people(), &options, &|| false).unwrap_err().kind, SqlErrorKind::TooManySteps);
    // Each query of WITH is bound at each use: twice as often in each line.
    let mut doubling = "WITH a0 AS (SELECT 1 AS x)".to_owned();
    (1..40).for_each(|level| doubling.push_str(&format!(", a{level} AS (SELECT p.x FROM a{0} p, a{0} q)", level - 1)));
    let kind = kind_of(&format!("{doubling} SELECT * FROM a39"));
    assert!(matches!(kind, Some(SqlErrorKind::TooDeep | SqlErrorKind::TooManySteps)), "{kind:?}");
    // A watch is asked while a large statement is planned.
    let asked = Cell::new(0);
    let ors: String = (0..5000).map(|number| format!(" OR id = {number}")).collect();
    let parsed = parse(&format!("SELECT 1 FROM people WHERE id = 1{ors}"), &ParseOptions::default()).unwrap();
    let watch = || {
        asked.set(asked.get() + 1);
        false
    };
    assert!(plan(&parsed, &people(), &PlanOptions::default(), &watch).is_ok() && asked.get() > 3, "{}", asked.get());
}

/// Joins of everything with everything end soon after the request is cancelled, and hold no rows meanwhile.
#[test]
fn a_product_of_many_rows_can_be_cancelled() {
    let parsed = parse(
        "WITH d AS (SELECT a.id FROM people a, people b, people c, people d) \
         SELECT COUNT(*) FROM d a, d b, d c WHERE a.id + b.id > c.id",
        &ParseOptions::default(),
    );
    let plan = plan(&parsed.unwrap(), &people(), &PlanOptions::default(), &|| false).unwrap();
    let mut turns = 0;
    let outcome = sequential::run_while(plan.model(), plan.start(), |tasks| {
        turns += 1;
        (turns < 3000).then_some(tasks / 2)
    });
    assert!(outcome.is_err(), "it was cancelled");
}

/// Statements with words dropped, doubled, exchanged or taken from others have a plan or an error, and a plan has an
/// answer or an error: nothing panics.
#[test]
fn garbled_statements_never_panic() {
    let all: Vec<&str> =
        include_str!("../data/answers.txt").lines().filter_map(|line| line.strip_prefix("> ")).collect();
    let tables = people();
    let mut state = 11u64;
    let mut below = |count: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % count
    };
    let (mut plans, mut answers) = (0, 0);
    let count = if cfg!(debug_assertions) { 8000 } else { 40_000 };
    for round in 0..count {
        let text = all[below(all.len())];
        let mut words: Vec<String> = split(text);
        for _ in 0..1 + below(2) {
            if words.is_empty() {
                break;
            }
            let (at, other) = (below(words.len()), below(words.len()));
            match below(5) {
                0 => drop(words.remove(at)),
                1 => words.insert(at, words[other].clone()),
                2 => words.swap(at, other),
                3 => {
                    let other = split(all[below(all.len())]);
                    words[at] = other[below(other.len())].clone();
                }
                _ => {
                    words[at] = ["NULL", "(", ")", "*", "1", "'x'", "SELECT", "-1", "1.5", "name", "COUNT(*)"]
                        [below(11)]
                    .to_owned()
                }
            }
        }
        let text = words.concat();
        let planned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            parse(&text, &ParseOptions::default())
                .and_then(|parsed| plan(&parsed, &tables, &PlanOptions::default(), &|| false))
                .is_ok()
        }));
        let Ok(is_planned) = planned else { panic!("round {round}: planning panics: {text}") };
        plans += usize::from(is_planned);
        // Products of all rows take long.
        if is_planned && !text.contains("lineitem") && !text.contains("orders") {
            let outcome = answer_within(&text, &tables, &PlanOptions::default(), round, 100_000);
            let panicked = outcome.as_ref().err().is_some_and(|error| error.contains("panicked"));
            assert!(!panicked, "round {round}: {text}: {outcome:?}");
            answers += usize::from(outcome.is_ok());
        }
    }
    println!("{plans} of {count} have a plan, {answers} an answer");
    assert!(answers > count as usize / 20);
}

/// Words, numbers, signs and the spaces between them.
fn split(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for character in text.chars() {
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        match words.last_mut() {
            Some(word) if is_word(character) && word.ends_with(is_word) => word.push(character),
            _ => words.push(character.to_string()),
        }
    }
    words
}

/// What happened: brackets around a subquery in FROM had it read once more for each pair, and nothing ended that, nor
/// the reading of a long list.
#[test]
fn reading_a_text_ends_when_it_is_told_or_takes_too_many_steps() {
    let long = vec!["1"; 50_000].join(",");
    let again = format!("SELECT * FROM {}(SELECT {long}) t{}", "(".repeat(100), ")".repeat(100));
    let error = parse(&again, &ParseOptions::default()).expect_err("it is read a hundred times");
    assert_eq!(error.kind, SqlErrorKind::TooManySteps, "{error}");
    let brackets = |depth: usize| format!("SELECT * FROM {}(SELECT {long}) t{}", "(".repeat(depth), ")".repeat(depth));
    parse(&brackets(2), &ParseOptions::default()).unwrap();
    parse(&format!("SELECT {}1{}", "(".repeat(190), ")".repeat(190)), &ParseOptions::default()).unwrap();

    let names = vec!["a"; 20_000].join(",");
    let (tables, limits) = (Tables::default(), TextLimits::default());
    let sql = Sql { catalogue: &tables };
    for text in [
        format!("SELECT {names}"),
        format!("SELECT 1 FROM {names}"),
        format!("SELECT {}", ["a OR b"; 9_000].join(",")),
        format!("SELECT 1 FROM t ORDER BY {names}"),
        format!("VALUES ({names})"),
        format!("SELECT CASE {} END", "WHEN a THEN b ".repeat(9_000)),
        format!("SELECT 1 FROM t {}", "JOIN t ON a ".repeat(9_000)),
        format!("SELECT 1 IN ({names})"),
    ] {
        let ended_at = |question: usize| {
            let asked = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&asked);
            let ends: Ends = Arc::new(move || counted.fetch_add(1, Ordering::Relaxed) + 1 == question);
            let kind = sql.parse_until(&text, &limits, &ends).err().map(|error| error.kind);
            (kind, asked.load(Ordering::Relaxed))
        };
        // The last question is the parser's, behind those of the cut into tokens.
        let (_, all) = ended_at(usize::MAX);
        for question in [1, 3, all] {
            assert_eq!(ended_at(question), (Some(SqlErrorKind::Stopped), question), "{text:.50}");
        }
    }
}

/// What happened: nothing was asked while a text was cut into tokens.
#[test]
fn cutting_a_text_into_tokens_asks_whether_it_is_to_end() {
    let (tables, limits) = (Tables::default(), TextLimits::default());
    let sql = Sql { catalogue: &tables };
    let (long, signs) = ("a".repeat(500_000), ",".repeat(500_000));
    for (text, least) in [(format!("SELECT {long}"), 400), (format!("SELECT {signs}"), 100)] {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let ends: Ends = Arc::new(move || counted.fetch_add(1, Ordering::Relaxed) + 1 == least);
        let error = sql.parse_until(&text, &limits, &ends).expect_err("it is ended");
        assert_eq!((error.kind, asked.load(Ordering::Relaxed)), (SqlErrorKind::Stopped, least), "{text:.50}");
    }
}
