//! Networks from texts, run by the sequential world. Expected values are computed by plain loops.

use std::collections::BTreeMap;
use std::sync::mpsc;
use vicus_flow::{Envelope, Operator, library, sequential};
use vicus_network::{Kinds, MachineCounts, NetworkText};

/// The rows of the only collected box, as integers; nulls are `None`.
pub(crate) fn rows_with(text: &str, machine: MachineCounts, set: &[(&str, &str)]) -> Vec<Vec<Option<i64>>> {
    let set: Vec<(String, String)> = set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let parsed: NetworkText = text.parse().unwrap_or_else(|error| panic!("{error}"));
    let built = parsed.build("test", &Kinds::library(), &machine, &set);
    let network = built.unwrap_or_else(|error| panic!("{error}"));
    let (send, receive) = mpsc::channel();
    let operators = network.collected.iter().map(|collected| {
        let send = send.clone();
        let sink: Box<dyn Operator> = Box::new(library::sink_operator(move |rows| Ok(send.send(rows)?)));
        (collected.sink, sink)
    });
    sequential::run(&network.model, operators.collect(), |_| 0).unwrap();
    drop(send);
    let of = |envelope: Envelope| {
        let value = |column: &vicus_flow::Column, row: usize| match column.kind() {
            _ if column.is_null(row) => None,
            vicus_flow::Type::U64 => Some(i64::try_from(column.u64s()[row]).unwrap()),
            _ => Some(column.i64s()[row]),
        };
        (0..envelope.rows())
            .map(|row| envelope.columns().iter().map(|column| value(column, row)).collect())
            .collect::<Vec<_>>()
    };
    receive.iter().flat_map(of).collect()
}

fn rows(text: &str) -> Vec<Vec<Option<i64>>> {
    rows_with(text, MachineCounts::default(), &[])
}

pub(crate) fn sorted(mut rows: Vec<Vec<Option<i64>>>) -> Vec<Vec<i64>> {
    rows.sort();
    rows.into_iter().map(|row| row.into_iter().map(Option::unwrap).collect()).collect()
}

#[test]
fn rows_are_filtered_mapped_and_counted() {
    let text = r#"
        box n = numbers(to: 10000);
        box odd = filter(where: "n % 3 = 1");
        box square = map(select: "n, n * n AS square");
        box all = aggregate(select: "COUNT(*) AS rows, SUM(square) AS total");
        box rows = collect;
        n -> odd -> square -> all -> rows;
    "#;
    let (mut count, mut total) = (0, 0);
    for n in 0..10000i64 {
        if n % 3 == 1 {
            (count, total) = (count + 1, total + n * n);
        }
    }
    assert_eq!(rows(text), [[Some(count), Some(total)]]);
}

#[test]
fn groups_are_the_same_in_any_number_of_copies() {
    let text = r#"
        param parts: integer = 1;
        box n = numbers(to: 20000);
        box key = map(select: "n % 7 AS key, n");
        box deal = partition(by: "key");
        box group = aggregate(select: "key, COUNT(*) AS rows, SUM(n) AS total", by: "key") * parts;
        box rows = collect;
        n -> key -> deal -> group -> rows;
    "#;
    let mut groups: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for n in 0..20000 {
        let group = groups.entry(n % 7).or_default();
        *group = (group.0 + 1, group.1 + n);
    }
    let wanted: Vec<Vec<i64>> = groups.into_iter().map(|(key, (rows, total))| vec![key, rows, total]).collect();
    for parts in ["1", "2", "5"] {
        assert_eq!(sorted(rows_with(text, MachineCounts::default(), &[("parts", parts)])), wanted);
    }
}

#[test]
fn copies_are_counted_by_the_machine() {
    let text = r#"
        box n = numbers(to: 50000);
        box even = filter(where: "n % 2 = 0") * threads;
        box one = count * nodes;
        box rows = collect;
        n -> even -> all -> one -> rows;
        box all = union;
    "#;
    for (threads, nodes) in [(1, 1), (4, 2), (3, 3)] {
        let counts = rows_with(text, MachineCounts { threads, nodes }, &[]);
        assert_eq!(counts.len(), nodes);
        assert_eq!(counts.iter().map(|row| row[0].unwrap()).sum::<i64>(), 25000);
    }
}

#[test]
fn sub_networks_have_parameters_and_ports() {
    let text = r#"
        network multiples(of: integer, name: text = "n") {
            box pick = filter(where: "{name} % {of} = 0");
            box add = map(select: "{name}, {of} AS of");
            input -> pick -> add -> output;
        }
        network both {
            box three = multiples(of: 3);
            box five = multiples(of: 5);
            input -> three;
            input -> five;
            three -> output.0;
            five -> output.1;
        }
        box n = numbers(to: 100);
        box split = both;
        box all = union;
        box rows = collect;
        n -> split;
        split.0 -> all;
        split.1 -> all;
        all -> rows;
    "#;
    let mut wanted = Vec::new();
    for n in 0..100 {
        wanted.extend([3, 5].into_iter().filter(|of| n % of == 0).map(|of| vec![n, of]));
    }
    assert_eq!(sorted(rows(text)), wanted);
}

#[test]
fn streams_are_joined_sorted_and_cut() {
    let text = r#"
        box n = numbers(to: 100);
        box m = numbers(to: 200, step: 7, column: "m");
        box both = join(on: "a.n = b.m", select: "n, m * 10 AS ten");
        box order = sort(by: "n desc");
        box some = limit(rows: 3, skip: 1);
        box rows = collect;
        n -> both.0;
        m -> both.1;
        both -> order -> some -> rows;
    "#;
    let mut wanted: Vec<Vec<Option<i64>>> = Vec::new();
    for n in (0..100).rev().filter(|n| n % 7 == 0).skip(1).take(3) {
        wanted.push(vec![Some(n), Some(n * 10)]);
    }
    assert_eq!(rows(text), wanted);
    let kinds = |kind: &str| {
        let text = text
            .replace(", select: \"n, m * 10 AS ten\"", &format!(", kind: \"{kind}\""))
            .replace("rows: 3, skip: 1", "rows: 1000");
        rows(&text).len() as i64
    };
    let partners = (0..100).filter(|n| n % 7 == 0).count() as i64;
    assert_eq!(
        (kinds("inner"), kinds("left"), kinds("semi"), kinds("anti")),
        (partners, 100, partners, 100 - partners)
    );
    let beyond = (0..200).step_by(7).filter(|m| *m >= 100).count() as i64;
    assert_eq!(kinds("full"), 100 + beyond);
}

#[test]
fn sorted_copies_are_merged() {
    let text = r#"
        box n = numbers(to: 30000);
        box mixed = map(select: "(n * 7919) % 30011 AS n");
        box order = sort(by: "n") * 3;
        box all = merge(by: "n");
        box wait = hold;
        box rows = collect;
        n -> mixed -> order -> all -> wait -> rows;
    "#;
    let mut wanted: Vec<i64> = (0..30000).map(|n| n * 7919 % 30011).collect();
    wanted.sort_unstable();
    let rows: Vec<i64> = rows(text).into_iter().map(|row| row[0].unwrap()).collect();
    assert_eq!(rows, wanted);
}

#[test]
fn a_statement_reads_several_inputs() {
    let text = r#"
        box n = numbers(from: 1, to: 5);
        box m = numbers(from: 3, to: 9);
        box both = sql(text: "SELECT n FROM few INTERSECT SELECT n FROM more ORDER BY n", names: "few, more");
        box rows = collect;
        n -> both;
        m -> both;
        both -> rows;
    "#;
    assert_eq!(rows(text), [[Some(3)], [Some(4)]]);
}

/// Copies by `nodes` have a node each, with all that is within them; others have none.
#[test]
fn copies_by_node_are_placed_on_their_nodes() {
    let text: NetworkText = r#"
        network inner { box a = filter(where: "n > 3"); box s = sort(by: "n"); input -> a -> s -> output; }
        box n = numbers(to: 100);
        box one = filter(where: "n % 2 = 0") * nodes;
        box more = inner * nodes;
        box two = hold * 2;
        box all = union;
        box rows = collect;
        n -> one -> more -> all -> two -> rows;
    "#
    .parse()
    .unwrap();
    for nodes in [1, 3] {
        let network = text.build("test", &Kinds::library(), &MachineCounts { threads: 4, nodes }, &[]).unwrap();
        let mut placed = BTreeMap::new();
        for (one, name) in network.model.boxes().iter().zip(&network.names) {
            placed.insert(name.as_str(), one.node().map(|node| node.index()));
        }
        for node in 0..nodes {
            for name in [format!("one[{node}]"), format!("more[{node}].a"), format!("more[{node}].s")] {
                assert_eq!(placed.get(name.as_str()), Some(&Some(node)), "{name} of {nodes}: {placed:?}");
            }
        }
        assert_eq!(placed.values().flatten().count(), 3 * nodes, "{placed:?}");
    }
}
