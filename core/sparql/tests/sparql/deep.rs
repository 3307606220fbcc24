//! Deeply nested queries on small stacks: a caller of the library may have a stack of any size.

use crate::rows::count_of;
use std::sync::Arc;
use vicus_rdf::Snapshot;
use vicus_sparql::{ParseOptions, PlanOptions, QueryErrorKind, parse_with, plan};

/// A construct: its name, and a text that nests it so many times.
type Nested = (&'static str, fn(usize) -> String);

/// `before` so many times, the core, and `after` as many times.
fn nest(count: usize, before: &str, core: &str, after: &str) -> String {
    before.repeat(count) + core + &after.repeat(count)
}

/// One text for each level, which gets the level's number.
fn each(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).map(one).collect()
}

const NESTED: &[Nested] = &[
    ("brackets", |n| format!("SELECT * {{ ?s <a:p> ?o FILTER ({}) }}", nest(n, "(", "?o", ")"))),
    ("||", |n| format!("SELECT * {{ ?s <a:p> ?o FILTER ({}) }}", nest(n, "(?o || ", "?s = ?o", ")"))),
    ("&&", |n| format!("SELECT * {{ ?s <a:p> ?o FILTER ({}) }}", nest(n, "(?s && ", "?s = ?o", ")"))),
    ("|| in a BIND", |n| format!("SELECT * {{ ?s <a:p> ?o BIND ({} AS ?x) }}", nest(n, "(?o || ", "?s = ?o", ")"))),
    ("!", |n| format!("SELECT * {{ ?s <a:p> ?o FILTER ({}) }}", nest(n / 2, "!(", "BOUND(?o)", ")"))),
    ("a call", |n| format!("SELECT * {{ ?s <a:p> ?o FILTER ({} = ?o) }}", nest(n, "STR(", "?s", ")"))),
    ("a call in a BIND", |n| format!("SELECT * {{ ?s <a:p> ?o BIND ({} AS ?x) }}", nest(n, "STR(", "?o", ")"))),
    ("an unknown call", |n| format!("SELECT * {{ ?s <a:p> ?o BIND ({} AS ?x) }}", nest(n, "<a:f>(", "?o", ")"))),
    ("IF", |n| format!("SELECT (({}) AS ?x) {{ ?s <a:p> ?o }}", nest(n, "IF(BOUND(?s), ", "?o", ", 1)"))),
    ("COALESCE", |n| format!("SELECT (({}) AS ?x) {{ ?s <a:p> ?o }}", nest(n, "COALESCE(?v, ", "?o", ")"))),
    ("CONCAT", |n| format!("SELECT (({}) AS ?x) {{ ?s <a:p> ?o }}", nest(n, "CONCAT('', ", "STR(?o)", ")"))),
    ("unary minus", |n| format!("SELECT * {{ ?s <a:p> ?o FILTER ({} < 1) }}", nest(n / 2, "-(", "?o", ")"))),
    ("unary plus", |n| format!("SELECT * {{ ?s <a:p> ?o BIND ({} AS ?x) }}", nest(n / 2, "+(", "?o", ")"))),
    ("sums", |n| format!("SELECT * {{ ?s <a:p> ?o BIND (1{} AS ?x) }}", " + 1".repeat(n))),
    ("products of two columns", |n| format!("SELECT * {{ ?s <a:p> ?o FILTER (1{} < ?s) }}", " * ?o".repeat(n))),
    ("sums in brackets", |n| format!("SELECT * {{ ?s <a:p> ?o BIND ({} AS ?x) }}", nest(n / 2, "(1 + ", "?o", ")"))),
    ("comparisons", |n| format!("SELECT * {{ ?s <a:p> ?o FILTER ({}) }}", nest(n, "(?s = ", "?o", ")"))),
    ("IN", |n| format!("SELECT * {{ ?s <a:p> ?o FILTER ({}) }}", nest(n / 2, "(?s IN (", "?o", ", 1))"))),
    ("NOT IN", |n| format!("SELECT * {{ ?s <a:p> ?o FILTER ({}) }}", nest(n / 2, "(?s NOT IN (", "?o", "))"))),
    ("BNODE", |n| format!("SELECT * {{ ?s <a:p> ?o BIND ({} AS ?x) }}", nest(n, "STR(", "BNODE('x')", ")"))),
    ("aggregates", |n| format!("SELECT (SUM({}) AS ?x) {{ ?s <a:p> ?o }}", nest(n, "(1 + ", "?o", ")"))),
    ("operators over aggregates", |n| {
        format!("SELECT ({} AS ?x) {{ ?s <a:p> ?o }}", nest(n, "(1 + ", "COUNT(?o)", ")"))
    }),
    ("HAVING", |n| {
        format!("SELECT ?s {{ ?s <a:p> ?o }} GROUP BY ?s HAVING ({})", nest(n / 2, "!(", "COUNT(?o) = 1", ")"))
    }),
    ("GROUP BY", |n| format!("SELECT (COUNT(*) AS ?x) {{ ?s <a:p> ?o }} GROUP BY ({})", nest(n, "STR(", "?o", ")"))),
    ("ORDER BY", |n| format!("SELECT * {{ ?s <a:p> ?o }} ORDER BY ({})", nest(n, "STR(", "?o", ")"))),
    ("groups", |n| format!("SELECT * {}", nest(n, "{", " ?s <a:p> ?o ", "}"))),
    ("OPTIONAL", |n| {
        format!(
            "SELECT * {{ ?v0 <a:p> ?w {} }}",
            each(n, |k| format!("OPTIONAL {{ ?v{k} <a:p> ?v{} ", k + 1)) + &"}".repeat(n)
        )
    }),
    ("OPTIONAL in a row", |n| format!("SELECT * {{ ?s <a:p> ?o {} }}", "OPTIONAL { ?s <a:q> ?v }".repeat(n))),
    ("OPTIONAL with filters", |n| {
        format!("SELECT * {{ ?s <a:p> ?o {} }}", nest(n, "OPTIONAL { ?s <a:p> ?o FILTER (?o < 9 || ?s = 1) ", "", "}"))
    }),
    ("MINUS", |n| format!("SELECT * {{ ?s <a:p> ?o {} }}", nest(n, "MINUS { ?s <a:q> ?o ", "", "}"))),
    ("MINUS in a row", |n| format!("SELECT * {{ ?s <a:p> ?o {} }}", "MINUS { ?s <a:q> ?o }".repeat(n))),
    ("UNION", |n| format!("SELECT * {{ {} }}", nest(n, "{ ?s <a:q> ?o } UNION {", " ?s <a:p> ?o ", "}"))),
    ("UNION and joins", |n| {
        format!("SELECT * {{ {} }}", nest(n / 2, "{ ?s <a:q> ?o } UNION { ?s <a:p> ?o {", " ?s <a:p> ?o ", "} }"))
    }),
    ("EXISTS", |n| format!("SELECT * {{ ?s <a:p> ?o {} }}", nest(n / 2, "FILTER EXISTS { ?s <a:p> ?o ", "", "}"))),
    ("NOT EXISTS", |n| {
        format!("SELECT * {{ ?s <a:p> ?o {} }}", nest(n / 2, "FILTER NOT EXISTS { ?s <a:q> ?o ", "", "}"))
    }),
    ("EXISTS in a BIND", |n| {
        format!("SELECT * {{ ?s <a:p> ?o {} }}", nest(n / 4, "BIND (EXISTS { ?s <a:p> ?o ", "", "} AS ?x)"))
    }),
    ("EXISTS row by row", |n| {
        let before = "FILTER (?s = 1 || EXISTS { { ?s <a:p> ?o FILTER (?s != ?v) } UNION { ?s <a:p> ?o ";
        format!("SELECT * {{ ?s <a:p> ?o, ?v {} }}", nest(n / 2, before, "", " } })"))
    }),
    ("sub-selects", |n| format!("SELECT * {{ {} }}", nest(n, "{ SELECT * {", " ?s <a:p> ?o ", "} }"))),
    ("sub-selects with DISTINCT", |n| {
        format!("SELECT * {{ {} }}", nest(n / 2, "{ SELECT DISTINCT ?s ?o {", " ?s <a:p> ?o ", "} LIMIT 5 }"))
    }),
    ("sub-selects with groups", |n| {
        format!(
            "SELECT * {{ {} }}",
            nest(n / 2, "{ SELECT ?s (SAMPLE(?o) AS ?o) {", " ?s <a:p> ?o ", "} GROUP BY ?s }")
                .replace("?o) AS ?o", "?o) AS ?z")
        )
    }),
    ("BIND", |n| format!("SELECT * {{ ?s <a:p> ?v0 {} }}", each(n, |k| format!("BIND (?v{k} + 1 AS ?v{})", k + 1)))),
    ("a path in brackets", |n| format!("SELECT * {{ ?s {} ?o }}", nest(n, "(", "<a:p>", ")"))),
    ("paths of any length", |n| format!("SELECT * {{ ?s {} ?o }}", nest(n, "(", "<a:p>", "*)"))),
    ("paths once or more", |n| format!("SELECT * {{ ?s {} ?o }}", nest(n, "(<a:q>|", "<a:p>", ")+"))),
    ("inverse paths", |n| format!("SELECT * {{ ?s {} ?o }}", nest(n, "^(", "<a:p>", ")"))),
    ("paths with alternatives", |n| format!("SELECT * {{ ?s {} ?o }}", nest(n, "(<a:q>|", "<a:p>", ")"))),
    ("paths with steps", |n| format!("SELECT * {{ ?s {} ?o }}", nest(n, "(<a:p>?/", "<a:p>", ")?"))),
    ("paths in an EXISTS row by row", |n| {
        let path = nest(n / 2, "(<a:q>|", "<a:p>", ")+");
        format!(
            "SELECT * {{ ?s <a:p> ?o FILTER (?s = 1 || EXISTS {{ {{ ?s {path} ?o FILTER (?s != 1) }} UNION {{ }} }}) }}"
        )
    }),
    ("walks in a row", |n| format!("SELECT * {{ {} }}", each(n, |k| format!("?v{k} <a:q>* ?v{}.", k + 1)))),
    ("blank nodes", |n| format!("SELECT * {{ ?s <a:p> {} }}", nest(n, "[ <a:p> ", "1", "]"))),
    ("collections", |n| format!("SELECT * {{ ?s <a:p> {} }}", nest(n, "( ", "1", ")"))),
];

fn snapshot() -> Arc<Snapshot> {
    Arc::new(Snapshot::of_ntriples(b"<a:s> <a:p> <a:o> .\n<a:o> <a:p> \"1\" .").expect("good N-Triples"))
}

/// Runs `work` on a stack of so many bytes.
fn on_stack<R: Send + 'static>(bytes: usize, work: impl FnOnce() -> R + Send + 'static) -> R {
    let thread = std::thread::Builder::new().stack_size(bytes).spawn(work).expect("there is a thread");
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The number of levels with which a [`Nested`] text is as deep as allowed.
fn deepest(text: fn(usize) -> String, depth: usize) -> usize {
    let options = ParseOptions { depth, ..ParseOptions::default() };
    let (mut least, mut most) = (1, 4 * depth);
    while least < most {
        let middle = (least + most).div_ceil(2);
        match parse_with(&text(middle), &options) {
            Ok(_) => least = middle,
            Err(error) => {
                assert_eq!(error.kind, QueryErrorKind::TooDeep, "{error}");
                most = middle - 1;
            }
        }
    }
    least
}

/// Parses, copies, prints, plans, explains, runs and drops queries of the greatest depth allowed, and checks that
/// deeper ones are refused.
fn do_all(depth: usize, stack: usize, constructs: &[Nested]) {
    for &(name, text) in constructs {
        let snapshot = snapshot();
        let levels = deepest(text, depth);
        assert!(levels >= depth / 10, "{name}: {levels} of {depth}");
        on_stack(stack, move || {
            let options = ParseOptions { depth, ..ParseOptions::default() };
            let parsed = parse_with(&text(levels), &options).unwrap_or_else(|error| panic!("{name}: {error}"));
            let deeper = parse_with(&text(levels + 8), &options).err().map(|error| error.kind);
            assert_eq!(deeper, Some(QueryErrorKind::TooDeep), "{name}");
            // Something is wrong behind what was read.
            assert!(parse_with(&(text(levels) + " }"), &options).is_err(), "{name}");
            let copy = parsed.clone();
            assert!(!format!("{copy:?}").is_empty(), "{name}");
            drop(parsed);
            let plan = match plan(&snapshot, &copy, PlanOptions::default()) {
                Ok(plan) => plan,
                Err(error) => {
                    assert_eq!(error.kind, QueryErrorKind::TooManySteps, "{name}: {error}");
                    assert!(depth > ParseOptions::default().depth, "{name}: {error}");
                    return;
                }
            };
            drop(copy);
            assert!(!plan.explain().is_empty(), "{name}");
            count_of(&plan);
        });
    }
}

/// What happened: a path of 330 nested levels overflowed a caller's stack of 128 KiB when it was dropped. Dropping
/// expressions and operators, and evaluating them, recursed as deeply.
#[test]
fn queries_of_the_default_depth_need_little_stack() {
    do_all(ParseOptions::default().depth, 64 << 10, NESTED);
}

/// Constructs that take time in the square of their levels, or make a box for each.
const SLOW: &[&str] = &[
    "&&",
    "OPTIONAL",
    "OPTIONAL in a row",
    "OPTIONAL with filters",
    "MINUS",
    "MINUS in a row",
    "UNION",
    "UNION and joins",
    "EXISTS",
    "NOT EXISTS",
    "sub-selects with groups",
    "paths with alternatives",
    "walks in a row",
    "collections",
];

#[test]
fn queries_of_the_greatest_depth_need_little_stack() {
    let quick: Vec<Nested> = NESTED.iter().copied().filter(|(name, _)| !SLOW.contains(name)).collect();
    assert_eq!(quick.len() + SLOW.len(), NESTED.len());
    // Constructs of many levels take time with the square of their depth: only optimised tests go to the limit.
    let depth = if cfg!(debug_assertions) { 4_000 } else { ParseOptions::MOST_DEPTH };
    do_all(depth, 64 << 10, &quick);
}
