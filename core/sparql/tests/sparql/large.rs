//! Thousands of rows through operators with divided work and split tables, compared with plain loops.

use crate::rows::{Chance, Row, rows_of};
use oxrdf::Term;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use vicus_rdf::Snapshot;
use vicus_sparql::{PlanOptions, QueryOptions, SparqlPlan, parse, plan};

/// The graph's content: subjects have a key and a value.
struct Data {
    snapshot: Arc<Snapshot>,
    pairs: Vec<(u64, u64)>,
    /// For each key how many other subjects link to it.
    links: BTreeMap<u64, u64>,
}

fn data(rows: usize, keys: usize, values: usize, seed: u64) -> Data {
    let mut chance = Chance::new(seed);
    let (mut text, mut pairs, mut links) = (String::new(), Vec::new(), BTreeMap::new());
    for row in 0..rows {
        let (key, value) = (chance.below(keys) as u64, chance.below(values) as u64);
        let link = chance.below(keys * 2) as u64;
        writeln!(text, "<http://e/s{row}> <http://e/key> <http://e/k{key}> .").unwrap();
        writeln!(text, "<http://e/s{row}> <http://e/value> {} .", integer(value)).unwrap();
        writeln!(text, "<http://e/t{row}> <http://e/link> <http://e/k{link}> .").unwrap();
        pairs.push((key, value));
        *links.entry(link).or_default() += 1;
    }
    Data { snapshot: Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples")), pairs, links }
}

fn integer(value: u64) -> String {
    format!("\"{value}\"^^<http://www.w3.org/2001/XMLSchema#integer>")
}

/// The number in an IRI or a literal.
fn number(term: &Option<Term>) -> f64 {
    let text = match term {
        Some(Term::NamedNode(iri)) => iri.as_str().trim_start_matches("http://e/k"),
        Some(Term::Literal(literal)) => literal.value(),
        other => panic!("{other:?}"),
    };
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Runs the query with one box for each operator and with several, with split tables and with whole ones.
fn ask(data: &Data, query: &str, seed: u64, look: impl Fn(&SparqlPlan, usize, &[Vec<f64>])) {
    ask_with(data, query, seed, true, look);
}

fn ask_with(data: &Data, query: &str, seed: u64, optimise: bool, look: impl Fn(&SparqlPlan, usize, &[Vec<f64>])) {
    let parsed = parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    for (threads, cache_bytes) in [(1, 1 << 20), (1, 4 << 10), (3, 1 << 20), (3, 4 << 10), (8, 0)] {
        let sizes = PlanOptions { parallel_rows: 1000, envelope_rows: 256, ..PlanOptions::default() };
        let common = PlanOptions { threads, optimise, ..sizes };
        let options = QueryOptions { cache_bytes, ..QueryOptions::from(common) };
        let plan = plan(&data.snapshot, &parsed, options).expect("supported");
        let mut order = Chance::new(seed);
        let rows: Vec<Row> = rows_of(&plan, |tasks| order.below(tasks));
        let rows: Vec<Vec<f64>> = rows.iter().map(|row| row.iter().map(number).collect()).collect();
        look(&plan, threads, &rows);
    }
}

/// How many boxes of a type the plan's network has.
fn boxes(plan: &SparqlPlan, name: &str) -> usize {
    plan.model().boxes().iter().filter(|model| model.name().starts_with(name)).count()
}

fn sorted(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut rows = rows.to_vec();
    rows.sort_by(|a, b| a.partial_cmp(b).expect("no row has a NaN"));
    rows
}

const EACH: &str = "?s <http://e/key> ?k . ?s <http://e/value> ?v";

#[test]
fn groups_are_folded_in_parts() {
    for (seed, keys) in [(1, 7), (2, 500), (3, 15_000)] {
        let data = data(20_000, keys, 300, seed);
        let mut groups: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        data.pairs.iter().for_each(|&(key, value)| groups.entry(key).or_default().push(value));
        let query = format!(
            "SELECT ?k (COUNT(*) AS ?n) (SUM(?v) AS ?s) (MIN(?v) AS ?a) (MAX(?v) AS ?b) (AVG(?v) AS ?m) \
             {{ {EACH} }} GROUP BY ?k"
        );
        ask(&data, &query, seed, |plan, threads, rows| {
            let case = format!("seed {seed}, {threads} threads\n{}", plan.explain());
            assert_eq!(boxes(plan, "pre-aggregate") > 1, threads > 1, "{case}");
            let expected: Vec<Vec<f64>> = groups
                .iter()
                .map(|(&key, values)| {
                    let sum: u64 = values.iter().sum();
                    let (least, greatest) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
                    [key, values.len() as u64, sum, least, greatest].map(|number| number as f64).to_vec()
                })
                .collect();
            let rows = sorted(rows);
            let exact: Vec<Vec<f64>> = rows.iter().map(|row| row[..5].to_vec()).collect();
            assert_eq!(exact, expected, "{case}");
            for row in rows {
                assert!((row[5] * row[1] - row[2]).abs() < 1e-6 * row[2].max(1.0), "{case}: {row:?}");
            }
        });
    }
}

#[test]
fn distinct_values_are_counted_in_any_number_of_tables() {
    for (seed, keys) in [(4, 5), (5, 3_000)] {
        let data = data(20_000, keys, 4_000, seed);
        let mut groups: BTreeMap<u64, (BTreeSet<u64>, u64)> = BTreeMap::new();
        for &(key, value) in &data.pairs {
            let group = groups.entry(key).or_default();
            group.0.insert(value);
            group.1 += 1;
        }
        let query = format!("SELECT ?k (COUNT(DISTINCT ?v) AS ?n) {{ {EACH} }} GROUP BY ?k");
        ask(&data, &query, seed, |plan, threads, rows| {
            let expected: Vec<Vec<f64>> =
                groups.iter().map(|(&key, (values, _))| vec![key as f64, values.len() as f64]).collect();
            assert_eq!(sorted(rows), expected, "seed {seed}, {threads} threads\n{}", plan.explain());
        });
        let query = format!("SELECT ?k (COUNT(DISTINCT ?v) AS ?n) (COUNT(?v) AS ?m) {{ {EACH} }} GROUP BY ?k");
        ask(&data, &query, seed, |plan, threads, rows| {
            let expected: Vec<Vec<f64>> = groups
                .iter()
                .map(|(&key, (values, count))| vec![key as f64, values.len() as f64, *count as f64])
                .collect();
            assert_eq!(sorted(rows), expected, "seed {seed}, {threads} threads\n{}", plan.explain());
        });
        let all: BTreeSet<u64> = data.pairs.iter().map(|(_, value)| *value).collect();
        let query = format!("SELECT (COUNT(DISTINCT ?v) AS ?n) {{ {EACH} }}");
        ask(&data, &query, seed, |plan, _, rows| {
            assert_eq!(rows, [vec![all.len() as f64]], "seed {seed}\n{}", plan.explain());
        });
        let pairs: BTreeSet<(u64, u64)> = data.pairs.iter().copied().collect();
        let query = format!("SELECT DISTINCT ?k ?v {{ {EACH} }}");
        ask(&data, &query, seed, |plan, _, rows| {
            let expected: Vec<Vec<f64>> = pairs.iter().map(|&(key, value)| vec![key as f64, value as f64]).collect();
            assert_eq!(sorted(rows), expected, "seed {seed}\n{}", plan.explain());
        });
    }
}

#[test]
fn a_single_stream_is_sorted_by_several_boxes() {
    let data = data(20_000, 9_000, 50, 6);
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    data.pairs.iter().for_each(|&(key, _)| *counts.entry(key).or_default() += 1);
    let mut expected: Vec<u64> = counts.into_values().collect();
    expected.sort_unstable_by(|a, b| b.cmp(a));
    let query = "SELECT ?n { { SELECT ?k (COUNT(*) AS ?n) { { SELECT ?k { ?s <http://e/key> ?k } LIMIT 30000 } } \
                 GROUP BY ?k } } ORDER BY DESC(?n)";
    ask(&data, query, 6, |plan, threads, rows| {
        assert_eq!(boxes(plan, "sort") > 1, threads > 1, "{}", plan.explain());
        assert_eq!(boxes(plan, "spread"), usize::from(threads > 1), "{}", plan.explain());
        let rows: Vec<u64> = rows.iter().map(|row| row[0] as u64).collect();
        assert_eq!(rows, expected, "{}", plan.explain());
    });
}

#[test]
fn a_large_table_is_built_in_parts() {
    let data = data(20_000, 8_000, 50, 7);
    let links = |key: &u64| data.links.get(key).copied().unwrap_or(0);
    let pairs: u64 = data.pairs.iter().map(|(key, _)| links(key)).sum();
    let lonely = data.pairs.iter().filter(|(key, _)| links(key) == 0).count() as u64;
    let cases = [
        ("?s <http://e/key> ?k . ?t <http://e/link> ?k", pairs),
        ("?s <http://e/key> ?k OPTIONAL { ?t <http://e/link> ?k }", pairs + lonely),
        ("?s <http://e/key> ?k MINUS { ?t <http://e/link> ?k }", lonely),
    ];
    for (pattern, expected) in cases {
        // As it is written, no index is searched.
        ask_with(&data, &format!("SELECT (COUNT(*) AS ?n) {{ {pattern} }}"), 7, false, |plan, threads, rows| {
            // With few threads, dealing both sides costs more than it gains.
            assert_eq!(boxes(plan, "hash build"), if threads == 8 { 8 } else { 1 }, "{}", plan.explain());
            assert_eq!(rows, [vec![expected as f64]], "{pattern}\n{}", plan.explain());
        });
    }
}
