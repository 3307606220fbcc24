//! Joins and groups larger than their memory, with skewed keys, compared with plain loops; and failing disks.

use crate::rows::{Chance, Row};
use oxrdf::Term;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, mpsc};
use vicus_files::{Failure, FakeDisk, Scratch};
use vicus_flow::{FlowError, sequential};
use vicus_rdf::{Id, Snapshot};
use vicus_sparql::{PlanOptions, QueryLimits, QueryOptions, QuerySpill, RunOptions, SparqlPlan, parse, plan};

/// Subjects `a…` with a key and a value; others, `b…`, with a key and a value; keys and values are small integers.
struct Data {
    snapshot: Arc<Snapshot>,
    a: Vec<(u64, u64)>,
    b: Vec<(u64, u64)>,
}

/// A third of all subjects have key 0.
fn data(rows: usize, keys: usize, seed: u64) -> Data {
    let mut chance = Chance::new(seed);
    let mut text = String::new();
    let mut side = |name: &str| {
        let pair = |chance: &mut Chance| {
            let key = if chance.one_in(3) { 0 } else { 1 + chance.below(keys) as u64 };
            (key, chance.below(100) as u64)
        };
        let pairs: Vec<(u64, u64)> = (0..rows).map(|_| pair(&mut chance)).collect();
        for (row, (key, value)) in pairs.iter().enumerate() {
            let subject = format!("<http://e/{name}{row}>");
            writeln!(text, "{subject} <http://e/key-{name}> {} .", integer(*key)).unwrap();
            writeln!(text, "{subject} <http://e/value-{name}> {} .", integer(*value)).unwrap();
        }
        pairs
    };
    let (a, b) = (side("a"), side("b"));
    Data { snapshot: Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples")), a, b }
}

fn integer(value: u64) -> String {
    format!("\"{value}\"^^<http://www.w3.org/2001/XMLSchema#integer>")
}

/// A row as numbers: those in IRIs and of literals; `None` for unbound.
fn numbers(row: &Row) -> Vec<Option<i64>> {
    let number = |term: &Term| match term {
        Term::NamedNode(iri) => iri.as_str().trim_start_matches("http://e/").trim_start_matches(['a', 'b']).parse(),
        Term::Literal(literal) => literal.value().parse(),
        other => panic!("{other}"),
    };
    row.iter()
        .map(|term| term.as_ref().map(|term| number(term).unwrap_or_else(|error| panic!("{term}: {error}"))))
        .collect()
}

type Numbers = Vec<Vec<Option<i64>>>;

fn sorted(mut rows: Numbers) -> Numbers {
    rows.sort();
    rows
}

/// Plans of a query for one box and for several, and the budget of each: without any, boxes spill from `spilled_from`
/// bytes on.
fn plans<'a>(data: &'a Data, query: &'a str) -> impl Iterator<Item = (SparqlPlan, u64)> + 'a {
    let parsed = parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let sizes =
        [(1, 500, 2048, 0), (1, 20_000, 256, 0), (3, 2000, 256, 0), (8, 500, 64, 0), (3, 1 << 14, 2048, 100_000)];
    sizes.into_iter().map(move |(threads, spilled_from, envelope_rows, budget)| {
        let limits = QueryLimits { spilled_from, ..QueryLimits::default() };
        let common = PlanOptions { threads, envelope_rows, parallel_rows: 100, ..PlanOptions::default() };
        let options = QueryOptions { limits, ..QueryOptions::from(common) };
        (plan(&data.snapshot, &parsed, options).expect("supported"), budget)
    })
}

/// The rows of a run with spilled rows on a disk, and the number of bytes written.
fn rows_spilled(
    plan: &SparqlPlan,
    budget: u64,
    disk: &FakeDisk,
    choose: impl FnMut(usize) -> usize,
) -> Result<(Vec<Row>, u64), FlowError> {
    let scratch = Scratch::new(Arc::new(disk.process(1)));
    let spill = Some(QuerySpill { scratch: Arc::clone(&scratch), budget });
    let run = plan.start_with(RunOptions { spill, ..RunOptions::default() });
    let (send, receive) = mpsc::channel();
    let sink = plan.sink_operator(move |envelope| Ok(send.send(envelope.clone())?));
    sequential::run(plan.model(), run.operators([(plan.sink(), sink)]), choose)?;
    assert!(disk.names().is_empty(), "temporary files have no names");
    let term = |bits: u64| (bits != 0).then(|| run.term(Id::from_bits(bits)));
    let rows = receive.iter().flat_map(|envelope| {
        let row = |row: usize| envelope.columns().iter().map(|column| term(column.u64s()[row])).collect();
        (0..envelope.rows()).map(row).collect::<Vec<Row>>()
    });
    Ok((rows.collect(), scratch.written()))
}

/// Checks a query's rows, and that it spills.
fn check(data: &Data, query: &str, what: &str, seed: u64, expected: Numbers) {
    let (expected, mut spilled) = (sorted(expected), 0);
    for (plan, budget) in plans(data, query) {
        let (mut order, disk) = (Chance::new(seed), FakeDisk::new(seed));
        let (rows, written) = rows_spilled(&plan, budget, &disk, |tasks| order.below(tasks))
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", plan.explain()));
        let rows = sorted(rows.iter().map(numbers).collect());
        assert!(rows == expected, "seed {seed}: {} of {} rows\n{}", rows.len(), expected.len(), plan.explain());
        assert!(plan.explain().contains(what), "{}", plan.explain());
        spilled += u64::from(written > 0);
    }
    // A table with one row for each key may fit more memory than others.
    assert!(spilled >= 3, "seed {seed}: {spilled} of 5 plans of {query} spill");
}

fn some(values: impl IntoIterator<Item = u64>) -> Vec<Option<i64>> {
    values.into_iter().map(|value| Some(value as i64)).collect()
}

#[test]
fn joins_of_skewed_keys_find_what_loops_find() {
    let data = data(700, 200, 1);
    let pairs = || {
        let numbered = |side: &[(u64, u64)]| side.iter().copied().enumerate().collect::<Vec<_>>();
        let b = numbered(&data.b);
        numbered(&data.a).into_iter().flat_map(move |(row, (key, value))| {
            let partners: Vec<(usize, u64)> =
                b.iter().filter(|(_, other)| other.0 == key).map(|(row, other)| (*row, other.1)).collect();
            [(row as u64, value, partners)]
        })
    };
    // Groups and computed values can't be looked up in an index.
    let a = "{ SELECT ?a ?k ?v { ?a <http://e/key-a> ?k . ?a <http://e/value-a> ?v } GROUP BY ?a ?k ?v }";
    let b = "{ SELECT ?b ?k ?w { ?b <http://e/key-b> ?k . ?b <http://e/value-b> ?w } GROUP BY ?b ?k ?w }";

    let inner = pairs().flat_map(|(a, _, partners)| partners.into_iter().map(move |(b, _)| some([a, b as u64])));
    check(&data, &format!("SELECT ?a ?b {{ {a} {b} }}"), "hash join", 1, inner.collect());

    let greater = |value: u64, partners: Vec<(usize, u64)>| {
        partners.into_iter().filter(move |(_, other)| *other > value + 90).collect::<Vec<_>>()
    };
    let left = pairs().flat_map(|(a, value, partners)| {
        let found = greater(value, partners);
        let lonely = found.is_empty().then(|| vec![Some(a as i64), None]);
        lonely.into_iter().chain(found.into_iter().map(move |(b, _)| some([a, b as u64])))
    });
    let query = format!("SELECT ?a ?b {{ {a} OPTIONAL {{ {b} FILTER (?w > ?v + 90) }} }}");
    check(&data, &query, "left hash join", 2, left.collect());

    let lonely = pairs().filter(|(_, _, partners)| partners.is_empty()).map(|(a, ..)| some([a]));
    check(&data, &format!("SELECT ?a {{ {a} MINUS {b} }}"), "anti hash join", 3, lonely.collect());

    let without = pairs().filter(|(_, value, all)| greater(*value, all.clone()).is_empty()).map(|(a, ..)| some([a]));
    let query = format!("SELECT ?a {{ {a} FILTER NOT EXISTS {{ {b} FILTER (?w > ?v + 90) }} }}");
    check(&data, &query, "hash join", 4, without.collect());

    let with = pairs().filter(|(.., partners)| !partners.is_empty()).map(|(a, ..)| some([a]));
    check(&data, &format!("SELECT DISTINCT ?a {{ {a} {b} }}"), "hash join", 5, with.collect());

    // By value, and with possibly unbound keys.
    let equal = pairs().flat_map(|(a, value, _)| {
        let equal = data.b.iter().enumerate().filter(move |(_, other)| other.1 == value);
        equal.map(move |(b, _)| some([a, b as u64])).collect::<Vec<_>>()
    });
    let query = format!("SELECT ?a ?b {{ {a} {} FILTER (?v = ?w) }}", b.replace("?k", "?l"));
    check(&data, &query, "hash join", 6, equal.collect());

    let maybe = |name: &str, of: &str| {
        format!("{{ SELECT ?{name} (IF(?k < 150, ?k, 1 / 0) AS ?q) {{ {of} }} GROUP BY ?{name} ?k }}")
    };
    let key = |key: u64| (key < 150).then_some(key);
    let loose = data.a.iter().enumerate().flat_map(|(a, (left, _))| {
        let agree = move |right: u64| key(*left).zip(key(right)).is_none_or(|(left, right)| left == right);
        let partners = data.b.iter().enumerate().filter(move |(_, (right, _))| agree(*right));
        partners.map(move |(b, _)| some([a as u64, b as u64]))
    });
    let query = format!("SELECT ?a ?b {{ {} {} }}", maybe("a", a), maybe("b", b));
    check(&data, &query, "hash join", 7, loose.collect());
}

#[test]
fn groups_beyond_memory_are_what_loops_fold() {
    for (seed, keys) in [(1, 3), (2, 2000)] {
        let data = data(4000, keys, seed);
        let mut groups: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        data.a.iter().for_each(|&(key, value)| groups.entry(key).or_default().push(value));
        let each = "?a <http://e/key-a> ?k . ?a <http://e/value-a> ?v";
        let fold = |values: &[u64]| {
            let sum: u64 = values.iter().sum();
            let different: BTreeSet<u64> = values.iter().copied().collect();
            let texts: usize = values.iter().map(|value| value.to_string().len() + 1).sum();
            let (least, greatest) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
            let count = values.len() as u64;
            (count, sum, least, greatest, texts as u64 - 1, different.len() as u64, different.iter().sum::<u64>())
        };
        // Decimals and doubles, with exact sums here.
        let query = format!(
            "SELECT ?k (COUNT(*) AS ?n) (SUM(?v) AS ?s) (MIN(?v) AS ?a) (MAX(?v) AS ?b) (SUM(?v * 0.5) AS ?half) \
             (SUM(?v * 1e0) AS ?d) {{ {each} }} GROUP BY ?k"
        );
        let query = format!(
            "SELECT ?k ?n ?s ?a ?b (xsd:integer(?half * 2) AS ?twice) (xsd:integer(?d) AS ?whole) {{ {{ {query} }} }}"
        );
        let query = format!("PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> {query}");
        let expected = groups.iter().map(|(&key, values)| {
            let (count, sum, least, greatest, ..) = fold(values);
            some([key, count, sum, least, greatest, sum, sum])
        });
        check_groups(&data, &query, seed, keys, expected.collect());

        let query = format!(
            "SELECT ?k (COUNT(*) AS ?n) (COUNT(DISTINCT ?v) AS ?d) (SUM(DISTINCT ?v) AS ?s) \
             (STRLEN(GROUP_CONCAT(?v; separator=\"-\")) AS ?t) {{ {each} }} GROUP BY ?k"
        );
        let expected = groups.iter().map(|(&key, values)| {
            let (count, .., texts, different, sum) = fold(values);
            some([key, count, different, sum, texts])
        });
        check_groups(&data, &query, seed, keys, expected.collect());
    }
}

/// Few groups may fit the memory, so not all runs spill.
fn check_groups(data: &Data, query: &str, seed: u64, keys: usize, expected: Numbers) {
    if keys > 1000 {
        return check(data, query, "aggregate by", seed, expected);
    }
    let expected = sorted(expected);
    for (plan, budget) in plans(data, query) {
        let disk = FakeDisk::new(seed);
        let (rows, _) =
            rows_spilled(&plan, budget, &disk, |_| 0).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(sorted(rows.iter().map(numbers).collect()), expected, "seed {seed}\n{}", plan.explain());
    }
}

/// A query with a spilling join and spilling groups.
const BOTH: &str = "SELECT ?k (COUNT(*) AS ?n) (COUNT(DISTINCT ?w) AS ?d) { \
                    { SELECT ?a ?v { ?a <http://e/key-a> ?k . ?a <http://e/value-a> ?v } GROUP BY ?a ?v } \
                    OPTIONAL { SELECT ?b ?v ?k ?w { ?b <http://e/key-b> ?k . ?b <http://e/value-b> ?v . \
                    ?b <http://e/value-b> ?w } GROUP BY ?b ?v ?k ?w } } GROUP BY ?k";

/// For any failing operation on temporary files, the query alone fails, with this error.
#[test]
fn a_disk_that_fails_fails_the_query_with_a_clear_error() {
    let data = data(300, 100, 3);
    let (plan, budget) = plans(&data, BOTH).nth(2).expect("there are five");
    let whole = FakeDisk::new(3);
    let (expected, written) = rows_spilled(&plan, budget, &whole, |_| 0).unwrap();
    assert!(written > 0 && expected.len() > 50);
    let operations = whole.operations();
    let (mut failed, mut counts) = (0, BTreeMap::new());
    for failure in [Failure::Error, Failure::Errors, Failure::Full] {
        for after in (0..operations).step_by(1 + operations as usize / 60) {
            let disk = FakeDisk::new(3);
            disk.fail_after(after, failure);
            match rows_spilled(&plan, budget, &disk, |_| 0) {
                Ok((rows, _)) => assert_eq!(rows.len(), expected.len(), "{failure:?} after {after}"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains("temporary file"), "{failure:?} after {after}: {text}");
                    *counts.entry(text.split(' ').next().unwrap_or_default().to_owned()).or_insert(0) += 1;
                    failed += 1;
                }
            }
        }
    }
    println!("{failed} runs failed, of {operations} operations");
    assert!(failed > 50, "{failed} of {operations} operations: {counts:?}");
}

/// A request cancelled at any time leaves no file behind.
#[test]
fn a_query_that_spills_can_be_cancelled_at_any_time() {
    let data = data(300, 100, 4);
    for (plan, budget) in plans(&data, BOTH) {
        for stop in [1, 10, 100, 300, 1000, 3000, 10_000] {
            let disk = FakeDisk::new(4);
            let spill = QuerySpill { scratch: Scratch::new(Arc::new(disk.process(1))), budget };
            let run = plan.start_with(RunOptions { spill: Some(spill), ..RunOptions::default() });
            let (send, _receive) = mpsc::channel();
            let sink = plan.sink_operator(move |envelope| Ok(send.send(envelope.rows())?));
            let (mut left, mut order) = (stop, Chance::new(stop));
            let choose = |tasks| {
                left = u64::saturating_sub(left, 1);
                (left > 0).then(|| order.below(tasks))
            };
            match sequential::run_while(plan.model(), run.operators([(plan.sink(), sink)]), choose) {
                Ok(_) => assert!(stop > 100, "it takes more invocations than {stop}"),
                Err(error) => assert!(matches!(error, FlowError::Cancelled), "{error}"),
            }
            assert!(disk.names().is_empty());
        }
    }
}
