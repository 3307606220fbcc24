//! Kinds for rows of which most have few keys. Expected values are computed by plain loops.

use crate::runs::rows_with;
use std::collections::BTreeMap;
use vicus_network::{Kinds, MachineCounts, NetworkText};

fn rows(text: &str, threads: usize) -> Vec<Vec<Option<i64>>> {
    let mut rows = rows_with(text, MachineCounts { threads, nodes: 1 }, &[]);
    rows.sort();
    rows
}

#[test]
fn a_join_is_put_together_of_boxes_that_deal_heavy_keys() {
    let text = r#"
        box n = numbers(to: 9000);
        box m = numbers(to: 40, column: "m");
        box a = map(select: "CASE WHEN n % 2 = 0 THEN 7 ELSE n END AS key, n");
        box b = map(select: "m % 20 AS id, m");
        box split = partition_heavy(by: "key");
        box deal = partition_to_heavy(by: "id");
        box left = join(on: "a.key = b.id");
        box right = join(on: "a.key = b.id");
        box all = union;
        box out = collect;
        n -> a -> split;
        m -> b -> deal.0;
        split.0 -> left.0;
        split.1 -> right.0;
        split.2 -> deal.1;
        deal.0 -> left.1;
        deal.1 -> right.1;
        left -> all;
        right -> all;
        all -> out;
    "#;
    let mut wanted = Vec::new();
    for n in 0..9000i64 {
        let key = if n % 2 == 0 { 7 } else { n };
        wanted.extend((0..40).filter(|m| m % 20 == key).map(|m| [key, n, m % 20, m].map(Some).to_vec()));
    }
    wanted.sort();
    assert_eq!(rows(text, 2), wanted);
}

#[test]
fn groups_are_folded_ahead_and_whole() {
    let key = |n: i64| if n % 3 > 0 { 7 } else { n % 500 };
    let value = |n: i64| (n % 10 > 0).then_some(n * 7 % 1000);
    let mut groups: BTreeMap<i64, [i64; 5]> = BTreeMap::new();
    for n in 0..20_000 {
        let group = groups.entry(key(n)).or_insert([0, 0, 0, i64::MAX, i64::MIN]);
        group[0] += 1;
        if let Some(value) = value(n) {
            let [_, count, sum, least, most] = *group;
            *group = [group[0], count + 1, sum + value, least.min(value), most.max(value)];
        }
    }
    let of = |(&key, &[all, count, sum, least, most]): (&i64, &[i64; 5])| {
        let or_none = |value| (count > 0).then_some(value);
        vec![Some(key), Some(all), Some(count), or_none(sum), or_none(least), or_none(most)]
    };
    let wanted: Vec<Vec<Option<i64>>> = groups.iter().map(of).collect();
    assert!(wanted.iter().any(|group| group[3].is_none()), "some groups have no value");
    let begin = r#"
        box n = numbers(to: 20000);
        box rows = map(select: "CASE WHEN n % 3 > 0 THEN 7 ELSE n % 500 END AS key,
                                CASE WHEN n % 10 > 0 THEN n * 7 % 1000 END AS v");
        box out = collect;"#;
    let folds = r#"by: "key", folds: "COUNT AS rows, count(v) as values,sum( v ) as sum, min(v), max(v) as most""#;
    let whole = format!("{begin} box g = group({folds}); n -> rows -> g -> out;");
    assert_eq!(rows(&whole, 1), wanted);
    for (threads, most) in [(1, 1), (2, 4096), (3, 10)] {
        let folds = folds.replace("min(v)", "min(v) as least");
        let parts = format!(
            "{begin} box ahead = group_ahead({folds}, groups: {most}) * threads; box all = union; \
             box last = group({folds}, ahead: true); n -> rows -> ahead -> all -> last -> out;"
        );
        assert_eq!(rows(&parts, threads), wanted, "{threads} copies with {most} groups");
    }
    // All rows are one group, and without folds a group has its key alone.
    let one = format!("{begin} box g = group(by: \"\", folds: \"count\"); n -> rows -> g -> out;");
    assert_eq!(rows(&one, 1), [[Some(20_000)]]);
    let keys = format!("{begin} box g = group(by: \"key\"); n -> rows -> g -> out;");
    assert_eq!(rows(&keys, 1), wanted.iter().map(|group| vec![group[0]]).collect::<Vec<_>>());
}

/// Times of `a` are even and those of `b` multiples of three; both rise without bound.
#[test]
fn rows_of_near_times_are_joined() {
    for threads in [1, 2] {
        let text = r#"
            box n = numbers(to: 5000);
            box m = numbers(to: 3000, column: "m");
            box a = map(select: "n % 7 AS key, 2 * n AS at");
            box b = map(select: "m % 7 AS id, 3 * m AS time");
            box left = watermark(time: "at");
            box right = watermark(time: "time");
            box pairs = join_near(on: "a.key = b.id", times: "a.at = b.time", within: "5");
            box out = collect;
            n -> a -> left -> pairs.0;
            m -> b -> right -> pairs.1;
            pairs -> out;
        "#;
        let mut wanted = Vec::new();
        for n in 0..5000i64 {
            let near = (0..3000i64).filter(|m| (2 * n - 3 * m).abs() <= 5 && n % 7 == m % 7);
            wanted.extend(near.map(|m| [n % 7, 2 * n, m % 7, 3 * m].map(Some).to_vec()));
        }
        wanted.sort();
        assert_eq!(rows(text, threads), wanted);
    }
}

#[test]
fn mistakes_have_their_place() {
    for (kind, told, at) in [
        ("group(by: \"k, x\")", "there is no column `x`", "x\""),
        ("group(by: \"k\", folds: \"count, median(n)\")", "`median(n)` is no fold", "median"),
        ("group(by: \"k\", folds: \"sum\")", "`sum` is no fold", "sum\""),
        ("group(by: \"k\", folds: \"sum(n\")", "`sum(n` is no fold", "sum(n"),
        ("group(by: \"k\", folds: \"count as \")", "is no fold", "count as"),
        ("group(by: \"k\", folds: \"count,\")", "`` is no fold", "\"count,\""),
        ("group(by: \"k\", folds: \"min( x )\")", "there is no column `x`", "x )"),
        ("group(by: \"k\", folds: \"sum(t)\")", "`t` is of the type Text, which has no sum", "t)\""),
        ("group(by: \"k\", folds: \"sum(n) as s\", ahead: true)", "there is no column `s`", "sum(n)"),
        ("group_ahead(by: \"k\", folds: \"count as k\")", "there is a column `k` already", "count as k"),
        ("group(by: \"k\", folds: \"min(n) as x, max(n) as x\")", "there is a column `x` already", "max(n)"),
        ("group(by: \"k\", folds: \"sum(n),  sum(n)\")", "there is a column `sum_n` already", "sum(n)\")"),
        ("group_ahead(by: \"k\", groups: 0)", "it keeps 1 to 16777216 groups", "0)"),
        ("partition_heavy(by: \"k\")", "an output for each part, and one behind them", "partition"),
        ("partition_to_heavy(by: \"k\")", "its second input has the hashes", "partition"),
    ] {
        let source = format!(
            "box n = numbers(to: 5); box m = map(select: \"'a' AS t, n AS k, n\"); box it = {kind};\n\
             box s = sink; n -> m -> it -> s;"
        );
        let text: NetworkText = source.parse().unwrap();
        let found = text.build("skew", &Kinds::library(), &MachineCounts::default(), &[]).unwrap_err();
        assert!(found.message.contains(told), "{kind}: {found}");
        let begin = source.find(kind).unwrap();
        match kind.starts_with("partition") {
            true => assert_eq!(found.place.line, 1, "{kind}: {found}"),
            false => assert_eq!(found.place.offset, source[begin..].find(at).map(|at| begin + at), "{kind}: {found}"),
        }
    }
    let source =
        "box n = numbers(to: 5); box p = partition_to_heavy(by: \"n\"); box s = sink;\nn -> p.0; n -> p.1; p -> s;";
    let text: NetworkText = source.parse().unwrap();
    let found = text.build("skew", &Kinds::library(), &MachineCounts::default(), &[]).unwrap_err();
    assert!(found.message.contains("the last output of `partition_heavy` is expected"), "{found}");
}
