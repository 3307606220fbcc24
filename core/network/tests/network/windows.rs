//! Windows, watermarks and joins in parts as text. Expected values are computed by plain loops.

use crate::runs::rows_with;
use std::collections::BTreeMap;
use vicus_network::{Kinds, MachineCounts, NetworkText};

fn rows(text: &str, threads: usize) -> Vec<Vec<Option<i64>>> {
    let mut rows = rows_with(text, MachineCounts { threads, nodes: 1 }, &[]);
    rows.sort();
    rows
}

/// Times rise, with three that step back: the rows of one are late.
const STREAM: &str = r#"
    box n = numbers(to: 1000);
    box rows = map(
        select: "n, n % 5 AS key, CASE WHEN n % 100 = 70 THEN n - 40 WHEN n % 100 = 71 THEN n - 8 ELSE n END AS at"
    );
    box marked = watermark(time: "at", delay: "10", every: "1");
"#;

fn time(n: i64) -> i64 {
    match n % 100 {
        70 => n - 40,
        71 => n - 8,
        _ => n,
    }
}

#[test]
fn windows_of_time_are_summed_in_any_number_of_copies() {
    let mut windows: BTreeMap<(i64, i64), (i64, i64, i64)> = BTreeMap::new();
    for n in (0..1000).filter(|n| n % 100 != 70) {
        let at = time(n);
        for start in (-40..1000).step_by(10).filter(|start| (*start..start + 20).contains(&at)) {
            let window = windows.entry((n % 5, start)).or_default();
            *window = (window.0 + 1, window.1 + 2 * n, window.2.max(n));
        }
    }
    // The watermark runs at most 4,096 rows behind, so late rows are those of the second envelope on.
    let of = |(&(key, start), &(count, sum, most)): (&(i64, i64), &(i64, i64, i64))| {
        [key, start, start + 20, count, sum, most].map(Some).to_vec()
    };
    let mut wanted: Vec<Vec<Option<i64>>> = windows.iter().map(of).collect();
    wanted.sort();
    for threads in [1, 3] {
        let text = format!(
            r#"{STREAM}
            box small = sql(text: "SELECT * FROM a WHERE n % 100 <> 70");
            box deal = partition(by: "key");
            box sums = window(select: "COUNT(*) AS rows, SUM(n + n) AS twice, MAX(n)", by: "key", time: "at",
                              width: "20", slide: "10") * threads;
            box out = collect;
            n -> rows -> small -> marked -> deal -> sums -> out;"#
        );
        assert_eq!(rows(&text, threads), wanted, "{threads} copies");
    }
}

#[test]
fn late_rows_leave_by_an_output_of_their_own() {
    // Each row in an envelope of its own, so that the watermark follows each.
    let text = format!(
        r#"{STREAM}
        box one = sql(text: "SELECT * FROM a");
        box sums = window(select: "COUNT(*)", time: "at", width: "10");
        box none = sink;
        box late = collect;
        n -> rows -> one -> marked -> sums -> none;
        sums.1 -> late;"#
    );
    // All rows are in one envelope here, and so none is late.
    assert_eq!(rows(&text, 1), Vec::<Vec<Option<i64>>>::new());
    let text = r#"
        box n = numbers(to: 20000);
        box rows = map(select: "n, CASE WHEN n = 12000 THEN 5 ELSE n END AS at");
        box marked = watermark(time: "at");
        box sums = window(select: "COUNT(*)", time: "at", width: "10");
        box none = sink;
        box late = collect;
        n -> rows -> marked -> sums -> none;
        sums.1 -> late;
    "#;
    assert_eq!(rows(text, 1), [[Some(12000), Some(5)]]);
}

#[test]
fn sessions_and_windows_of_rows_have_averages() {
    // Sessions of ten rows with a pause between them.
    let text = r#"
        box n = numbers(to: 1000);
        box rows = map(select: "n, n + n / 10 * 100 AS at");
        box marked = watermark(time: "at");
        box sums = window(select: "COUNT(n) AS rows, SUM(n)", time: "at", gap: "50");
        box out = collect;
        n -> rows -> marked -> sums -> out;
    "#;
    let wanted: Vec<Vec<Option<i64>>> = (0..100i64)
        .map(|part| {
            let (first, last) = (part * 10 + part * 100, part * 10 + 9 + part * 100);
            [first, last + 50, 10, (part * 10..part * 10 + 10).sum()].map(Some).to_vec()
        })
        .collect();
    assert_eq!(rows(text, 1), wanted);
    let text = r#"
        box n = numbers(to: 25);
        box sums = window(select: "AVG(n) AS mean, MIN(n) AS least", rows: 10);
        box out = map(select: "window_start, window_end, CAST(mean * 10 AS BIGINT) AS mean, least");
        box all = collect;
        n -> sums -> out -> all;
    "#;
    let wanted = [[0, 10, 45, 0], [10, 20, 145, 10], [20, 25, 220, 20]].map(|row| row.map(Some).to_vec());
    assert_eq!(rows(text, 1), wanted);
}

#[test]
fn mistakes_in_windows_have_their_place() {
    let build = |kind: &str| {
        let text = format!("box n = numbers(to: 3, column: \"at\");\nbox w = {kind};\nbox s = sink;\nn -> w -> s;\n");
        let text: NetworkText = text.parse().unwrap_or_else(|error| panic!("{kind}: {error}"));
        text.build("windows", &Kinds::library(), &MachineCounts::default(), &[]).map(|_| ()).unwrap_err()
    };
    let cases = [
        (r#"window(select: "COUNT(*)", time: "at", width: "0")"#, "a width of at least 1"),
        (r#"window(select: "COUNT(*)", time: "at", width: "-5")"#, "a width of at least 1"),
        (r#"window(select: "COUNT(*)", time: "at", width: "5", slide: "6")"#, "no more than its width"),
        (r#"window(select: "COUNT(*)", time: "at", width: "5s")"#, "is no number, and the time is of I64"),
        (r#"window(select: "COUNT(*)", time: "CAST(at AS VARCHAR)", width: "5")"#, "is of Text"),
        (
            r#"window(select: "COUNT(*)", time: "DATE '2020-01-01'", width: "5h")"#,
            "no whole number of the units of Date",
        ),
        (r#"window(select: "COUNT(*)", time: "at", gap: "0")"#, "a width of at least 1"),
        (r#"window(select: "COUNT(*)", time: "at", gap: "5", slide: "1")"#, "sessions do not slide"),
        (r#"window(select: "COUNT(*)", rows: 0)"#, "a width of at least 1"),
        (r#"window(select: "COUNT(*)", rows: -1)"#, "at least 1"),
        (r#"window(select: "COUNT(*)", rows: 5, time: "at")"#, "need no time"),
        (r#"window(select: "COUNT(*)", width: "5")"#, "give `time`"),
        (r#"window(select: "COUNT(*)")"#, "give one of `width`, `gap` and `rows`"),
        (r#"window(select: "COUNT(*)", rows: 5, gap: "5", time: "at")"#, "give one of `width`, `gap` and `rows`"),
        (r#"window(select: "MEDIAN(at)", rows: 5)"#, "is no aggregate"),
        (r#"window(select: "SUM(CAST(at AS VARCHAR))", rows: 5)"#, "takes numbers, and not Text"),
        (r#"window(select: "COUNT(*), SUM(nothing)", rows: 5)"#, "nothing"),
        (r#"watermark(time: "nothing")"#, "there is no column `nothing`"),
        (r#"watermark(time: "at", delay: "-1")"#, "it is at least 0"),
        (r#"watermark(time: "at", every: "0")"#, "it is at least 1"),
    ];
    for (kind, told) in cases {
        let error = build(kind);
        assert!(error.message.contains(told), "{kind}: {error}");
        assert_eq!(error.place.line, 2, "{kind}: {error}");
        assert!(error.snippet.contains('^'), "{kind}: {error}");
    }
    let error = build(r#"window(select: "COUNT(*), SUM(nothing)", rows: 5)"#);
    assert_eq!(error.place.column, 39, "{error}");
}

#[test]
fn a_via_that_keeps_the_newest_is_read_and_printed() {
    let text =
        "box n = numbers(to: 100000);\nbox c = count;\nbox rows = collect;\nn -> c : (n: I64) keep 1;\nc -> rows;\n";
    let parsed: NetworkText = text.parse().unwrap();
    assert_eq!(parsed.to_string(), text);
    assert_eq!(NetworkText::from_json(&parsed.to_json()).unwrap(), parsed);
    // The reader runs last where the last queued task is the source's, and first in the other world.
    let counted = rows(text, 1);
    assert!((1..=100_000).contains(&counted[0][0].unwrap()), "{counted:?}");
    for wrong in ["n -> c keep 0;", "n -> c keep;", "n -> c keep \"1\";", "n -> c keep 70000;"] {
        let error = text.replace("n -> c : (n: I64) keep 1;", wrong).parse::<NetworkText>().unwrap_err();
        assert!(error.message.contains("the number of envelopes that the via keeps"), "{error}");
    }
}

/// Half of the rows have one key.
#[test]
fn rows_of_few_keys_are_joined_in_parts() {
    let key = |n: i64| if n % 2 == 0 { 7 } else { n };
    for (kind, parts) in [("inner", "1"), ("inner", "3"), ("left", "4"), ("semi", "2"), ("anti", "3")] {
        let text = format!(
            r#"
            box n = numbers(to: 9000);
            box m = numbers(to: 40, column: "m");
            box a = map(select: "CASE WHEN n % 2 = 0 THEN 7 ELSE n END AS key, n");
            box b = map(select: "m % 20 AS id, m");
            box pairs = join_parts(on: "a.key = b.id AND b.id = a.key", kind: "{kind}", parts: {parts});
            box rows = collect;
            n -> a -> pairs.0;
            m -> b -> pairs.1;
            pairs -> rows;
            "#
        );
        let mut wanted = Vec::new();
        for n in 0..9000 {
            let partners: Vec<i64> = (0..40).filter(|m| m % 20 == key(n)).collect();
            let own = [Some(key(n)), Some(n)];
            let pair = |m: i64| [own[0], own[1], Some(m % 20), Some(m)].to_vec();
            match (kind, partners.is_empty()) {
                ("inner", _) | ("left", false) => wanted.extend(partners.into_iter().map(pair)),
                ("left", true) => wanted.push([own[0], own[1], None, None].to_vec()),
                ("semi", false) | ("anti", true) => wanted.push(own.to_vec()),
                _ => {}
            }
        }
        wanted.sort();
        assert_eq!(rows(&text, 2), wanted, "{kind} in {parts} parts");
    }
    // The place of the error is where this text begins.
    for (parameters, told, at) in [
        ("on: \"a.n = b.x\"", "there is no column `x`", "x\")"),
        ("on: \"a.n = b.t\"", "are compared: bring them to one type", "a.n ="),
        ("on: \"a.n\"", "is no pair such as", "a.n\""),
        ("on: \"a.n = a.n\"", "is no pair such as", "a.n = a"),
        ("on: \"c.n = a.n\"", "is no pair such as", "c.n"),
        ("on: \"a.n = b.k\", parts: 0", "a join has 1 to 1024 parts", "0)"),
        ("on: \"a.n = b.k\", kind: \"full\"", "`full` is no kind of join here", "\"full"),
    ] {
        let source = format!(
            "box n = numbers(to: 5); box m = map(select: \"'x' AS t, n AS k\"); box j = join_parts({parameters});\n\
             box s = sink; n -> m -> j.1; n -> j.0; j -> s;"
        );
        let text: NetworkText = source.parse().unwrap();
        let found = text.build("parts", &Kinds::library(), &MachineCounts::default(), &[]).unwrap_err();
        assert!(found.message.contains(told), "{parameters}: {found}");
        assert_eq!(found.place.offset, source.find(at), "{parameters}: {found}");
    }
}
