//! The memory of parsing and planning a text, counted by the allocator, against the booked memory. A program of its
//! own, because an allocator is the whole program's.

#[path = "../../rdf/tests/counting/mod.rs"]
mod counting;
mod long;

use counting::{live, peak};
use long::ALL;
use std::sync::Arc;
use vicus_rdf::Snapshot;
use vicus_sparql::{
    ParseOptions, PlanOptions, QueryErrorKind, parse, parse_update, parsing_bytes, plan, update_bytes_with,
};

/// Each construct, as often as fits into so many bytes.
fn texts(bytes: usize) -> impl Iterator<Item = (&'static str, String)> {
    ALL.iter().map(move |long| {
        let each = (long.text)(1000).len().div_ceil(1000);
        (long.name, (long.text)(bytes / each))
    })
}

fn snapshot() -> Arc<Snapshot> {
    // Enough to make plans worth a search.
    let line = |number: usize| format!("<a:s{number}> <a:p> <a:s{}> .\n", number * 7 % 1000);
    Arc::new(Snapshot::of_ntriples((0..1000).map(line).collect::<String>().as_bytes()).unwrap())
}

/// Nothing of a text's parse or plan was booked, for any size; later only the memory held in the end, and planning 995
/// OPTIONALs took 1.3 GB on the way.
fn parsing_and_planning_take_no_more_than_is_booked() {
    let snapshot = snapshot();
    for (name, text) in texts(30_000) {
        let (most, parsed) = peak(|| parse(&text));
        let booked = parsing_bytes(&text);
        assert!(most <= booked, "{name}: {} bytes of text take {most} to parse", text.len());
        // A limit of the parser may stand before some of them.
        let Ok(parsed) = parsed else { continue };
        let before = live();
        let options = PlanOptions { threads: 4, sinks: 4, plan_steps: u64::MAX, ..PlanOptions::default() };
        let (most, plan) = peak(|| plan(&snapshot, &parsed, options));
        let plan = plan.unwrap_or_else(|error| panic!("{name}: {error}"));
        // The parsed text is there as well: the booked memory is for both.
        let for_plan = booked + plan.planning_bytes();
        assert!(
            most <= for_plan,
            "{name}: planning {} bytes of text takes {most}, and {for_plan} are booked",
            text.len()
        );
        let held = (live() - before) as u64;
        drop(parsed);
        let for_run = booked + plan.bytes();
        assert!(held <= for_run, "{name}: {held} bytes are held, and {for_run} are booked");
    }
}

/// Updates are booked by the words of their text. What happened: by its length, a million triples in 38 MB asked for
/// 24.3 GiB.
fn parsing_an_update_takes_no_more_than_is_booked() {
    for (begin, each, end) in [
        ("", "CLEAR ALL;", ""),
        ("", "DELETE WHERE{};", ""),
        ("", "INSERT{}WHERE{};", ""),
        ("", "DELETE{?a?b?c}USING<a:b>WHERE{};", ""),
        ("", "LOAD<a:b>;", ""),
        ("", "ADD DEFAULT TO<a:b>;", ""),
        ("INSERT DATA{<a:b><a:b> 1", ",1", "}"),
        ("DELETE DATA{", "GRAPH<a:b>{}", "}"),
        ("INSERT DATA{<a:b><a:b>", "[],", "1}"),
        ("INSERT{?a?a?a", ",?a", "}WHERE{}"),
        ("PREFIX a:<a:b>", "BASE<a:c>DELETE WHERE{};", ""),
        ("", "PREFIX a:<a:b>DELETE WHERE{};", ""),
        ("INSERT DATA{", "<a:b>a 1,1,true;a'x'.", "}"),
        ("PREFIX a:<a:b>INSERT DATA{", "a:b a a:c,a:d,1.5,1e1;a:b _:c .", "}"),
        ("PREFIX a:<http://example.org/some/longer/name/>INSERT DATA{", "a:b a:c a:d .", "}"),
        ("INSERT DATA{", "<http://e/a><http://e/b>\"\"\"long\"\"\"@en.", "}"),
        (
            "INSERT DATA{",
            "<http://example.org/a/1234567> <http://example.org/b> <http://example.org/c/1234567> .\n",
            "}",
        ),
        ("INSERT DATA{<a:b><a:b>", "(1 1),(),", "1}"),
        ("INSERT DATA{<a:b><a:b>(", "1 ", ")}"),
        ("INSERT DATA{<a:b><a:b>(", "()", ")}"),
        ("INSERT DATA{<a:b><a:b>(", "[]", ")}"),
        ("INSERT DATA{<a:b><a:b>", "[a 1],", "1}"),
        ("INSERT{?a?a?a}WHERE{?a?a?a ", "FILTER(1+1)", "}"),
        ("INSERT{?a?a?a}WHERE{?a?a?a ", "FILTER(?a=1||?a<1)", "}"),
        ("INSERT{?a?a?a}WHERE{", "{}UNION", "{}}"),
        ("INSERT{?a?a?a}WHERE{?a ", "^a/", "a 1}"),
    ] {
        let text = format!("{begin}{}{end}", each.repeat(30_000 / each.len()));
        let (most, parsed) = peak(|| parse_update(&text));
        assert!(parsed.is_ok(), "{each}: {:?}", parsed.err());
        let booked = update_bytes_with(&text, &ParseOptions::default());
        assert!(most <= booked, "{each}: {} bytes of text take {most} to parse, and {booked} are booked", text.len());
    }
}

/// The bytes of an update of data are known after its text was read.
fn an_update_of_data_holds_what_it_says() {
    for each in [
        "<http://e/a> <http://e/p> <http://e/b> .",
        "<http://e/a> <http://e/p> 1, true, 'text'@en, 'a longer text of some words'^^<http://e/t> .",
        "[] <http://e/p> 1 ; <http://e/a> 'text' .",
        "GRAPH <http://e/g> { <http://e/a> <http://e/p> 'x' }",
    ] {
        for operations in [1, 3] {
            let data = each.repeat(10_000);
            let text = vec![format!("INSERT DATA {{ {data} }}"); operations].join(" ; ");
            let before = live();
            let parsed = parse_update(&text).expect("it is valid");
            let (held, said) = (live() - before, parsed.heap_bytes().expect("it has data alone") as usize);
            // Blocks are counted with sixteen bytes more each than a text has.
            assert!(held <= said && said <= 2 * held, "{each}: {held} bytes are held, and {said} are said to be");
        }
    }
    for text in ["DELETE WHERE { ?s ?p ?o }", "INSERT DATA { <a:b> <a:c> 1 } ; CLEAR ALL"] {
        assert_eq!(parse_update(text).expect("it is valid").heap_bytes(), None);
    }
}

/// A text of some kilobytes had more than 100 MB while it was planned, beyond any limit of its query.
fn planning_ends_where_its_memory_does() {
    let snapshot = snapshot();
    let mut ended = 0;
    for (name, text) in texts(100_000) {
        let Ok(parsed) = parse(&text) else { continue };
        let options = PlanOptions { plan_bytes: 4 << 20, plan_steps: u64::MAX, ..PlanOptions::default() };
        let (most, plan) = peak(|| plan(&snapshot, &parsed, options));
        match plan {
            Ok(plan) => assert!(plan.planning_bytes() <= options.plan_bytes, "{name}"),
            Err(error) => {
                assert!(
                    matches!(error.kind, QueryErrorKind::TooManyBytes { needed } if needed > 4 << 20),
                    "{name}: {error}"
                );
                ended += 1;
            }
        }
        // Memory in proportion to the text is booked with it.
        let allowed = options.plan_bytes + parsing_bytes(&text);
        assert!(most <= allowed, "{name}: planning took {most} bytes, {allowed} were allowed");
    }
    assert!(ended > 20, "{ended} texts need more");
}

/// One after the other: the counter covers the whole program.
#[test]
fn memory_is_booked() {
    parsing_and_planning_take_no_more_than_is_booked();
    parsing_an_update_takes_no_more_than_is_booked();
    an_update_of_data_holds_what_it_says();
    planning_ends_where_its_memory_does();
}
