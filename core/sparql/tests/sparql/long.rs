//! The work that planning long texts takes, in counted steps.

#[path = "../long/mod.rs"]
mod texts;

use std::sync::Arc;
use texts::ALL;
use vicus_rdf::Snapshot;
use vicus_sparql::{PlanOptions, QueryErrorKind, parse, plan};

/// Texts with many columns that pass many operators: planning makes their product.
const PRODUCTS: &[&str] = &[
    "OPTIONAL in a row",
    "OPTIONAL of two",
    "OPTIONAL nested",
    "OPTIONAL with FILTER",
    "OPTIONAL beside many",
    "OPTIONAL of all",
    "UNION nested",
    "EXISTS with many variables",
    "EXISTS nested",
    "EXISTS in a disjunction",
    "BIND",
    "BIND of BIND",
    "BIND and FILTER",
    "sub-selects with many columns",
    "sub-selects nested",
    "sub-selects nested beside many",
    "walks in a chain",
    "walks apart",
    "SELECT backwards of VALUES",
];

fn snapshot() -> Arc<Snapshot> {
    let line = |number: usize| format!("<a:s{number}> <a:p> <a:s{}> .\n", number * 7 % 1000);
    Arc::new(Snapshot::of_ntriples((0..1000).map(line).collect::<String>().as_bytes()).expect("good N-Triples"))
}

/// What happened: 995 OPTIONALs were planned for 11 s, 20,000 triples for more than ten, and twice as many took four
/// times as long. Sets of variables were copied for each operator, all pairs of operands were compared, and all orders
/// tried.
#[test]
fn twice_the_text_takes_about_twice_the_steps() {
    let (snapshot, mut wrong) = (snapshot(), Vec::new());
    for long in ALL.iter().filter(|long| !PRODUCTS.contains(&long.name)) {
        let steps = |count: usize| {
            let parsed = parse(&(long.text)(count)).ok()?;
            Some(
                plan(&snapshot, &parsed, PlanOptions::default())
                    .unwrap_or_else(|error| panic!("{}: {error}", long.name))
                    .steps(),
            )
        };
        let (Some(once), Some(twice)) = (steps(200), steps(400)) else { continue };
        // Groups of groups now and then add a level.
        if twice * 10 > once * 28 {
            wrong.push(format!("{}: {once} steps, twice as many take {twice}", long.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn products_grow_no_faster_than_with_the_square() {
    let (snapshot, mut wrong) = (snapshot(), Vec::new());
    for long in ALL.iter().filter(|long| PRODUCTS.contains(&long.name)) {
        let steps = |count: usize| {
            let parsed = parse(&(long.text)(count)).unwrap_or_else(|error| panic!("{}: {error}", long.name));
            plan(&snapshot, &parsed, PlanOptions::default())
                .unwrap_or_else(|error| panic!("{}: {error}", long.name))
                .steps()
        };
        let (once, twice) = (steps(100), steps(200));
        if twice * 10 > once * 48 {
            wrong.push(format!("{}: {once} steps, twice as many take {twice}", long.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_text_that_takes_more_steps_than_it_may_is_an_error_that_says_so() {
    let snapshot = snapshot();
    let mut ended = 0;
    for long in ALL {
        let Ok(parsed) = parse(&(long.text)(300)) else { continue };
        let options = PlanOptions { plan_steps: 20_000, ..PlanOptions::default() };
        match plan(&snapshot, &parsed, options) {
            Ok(plan) => assert!(plan.steps() <= options.plan_steps, "{}", long.name),
            Err(error) => {
                assert_eq!(error.kind, QueryErrorKind::TooManySteps, "{}", long.name);
                assert!(error.message.contains("more than 20000 steps"), "{error}");
                ended += 1;
            }
        }
    }
    assert!(ended > 20, "{ended} texts take more");
}

/// What happened: the tests of a filter make a chain of operators. Thousands of EXISTS, or of paths of any length,
/// overflowed the stack although nothing in the text is nested.
#[test]
fn operators_that_stand_on_each_other_count_as_levels() {
    for name in ["EXISTS in a row", "NOT EXISTS in a row", "EXISTS in a disjunction", "walks in a chain", "walks apart"]
    {
        let long = ALL.iter().find(|long| long.name == name).expect("it is one of them");
        assert!(parse(&(long.text)(900)).is_ok(), "{name}");
        assert_eq!(parse(&(long.text)(5000)).err().map(|error| error.kind), Some(QueryErrorKind::TooDeep), "{name}");
    }
}

/// What happened: 480 nested OPTIONALs of 60 triples each make a plan of 28,000 joins in a chain. It was made on a
/// stack for 480 levels, and dropped on any thread's stack.
#[test]
fn a_plan_of_many_levels_needs_no_large_stack() {
    let many: String = (0..60).map(|number| format!("?s <a:p> ?v{number}.")).collect();
    let text = format!("SELECT * {{ {}{} }}", format!("{many} OPTIONAL {{").repeat(300), "}".repeat(300));
    let snapshot = snapshot();
    let work = move || {
        let options = PlanOptions { plan_steps: u64::MAX, ..PlanOptions::default() };
        let plan =
            plan(&snapshot, &parse(&text).expect("it is no deeper than may be"), options).expect("it is planned");
        assert!(plan.explain().lines().count() > 10_000);
    };
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(work).expect("there is a thread");
    thread.join().expect("no stack has overflowed");
}
