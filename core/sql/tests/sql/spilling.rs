//! Groups, sets and joins of rows beyond a budget: they go to queues outside of memory, and the answers are those of
//! plain loops.

use crate::run::table;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use vicus_flow::{BoxError, Budget, Overflow, Overflows, sequential};
use vicus_sql::{PlanOptions, SqlType, StatementLimits, Tables, Value, parse, plan};

/// Makes queues in memory, and counts what is put into them.
#[derive(Debug, Default)]
struct Beside(Arc<AtomicUsize>);

#[derive(Default)]
struct Queue(VecDeque<Vec<u8>>, Arc<AtomicUsize>);

impl Overflows for Beside {
    fn begin(&self) -> Result<Box<dyn Overflow>, BoxError> {
        Ok(Box::new(Queue(VecDeque::new(), Arc::clone(&self.0))))
    }
}

impl Overflow for Queue {
    fn push(&mut self, bytes: &[u8]) -> Result<(), BoxError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.push_back(bytes.to_vec());
        Ok(())
    }

    fn pop(&mut self, into: &mut Vec<u8>) -> Result<bool, BoxError> {
        let first = self.0.pop_front();
        let is_there = first.is_some();
        *into = first.unwrap_or_default();
        Ok(is_there)
    }
}

/// The sorted rows of an answer within a budget, or the text of its error, and how many envelopes went outside.
fn answer(
    text: &str,
    tables: &Tables,
    options: &PlanOptions,
    budget: u64,
    has_files: bool,
) -> (Result<Vec<String>, String>, usize) {
    let parsed = parse(text, &StatementLimits::default()).unwrap();
    let plan = plan(&parsed, tables, options, &|| false).unwrap();
    let (send, receive) = mpsc::channel();
    let mut operators = plan.start();
    for &sink in plan.sinks() {
        let send = send.clone();
        operators.push((sink, plan.sink_operator(move |envelope| Ok(send.send(envelope.clone())?))));
    }
    drop(send);
    let beside = Beside::default();
    let put = Arc::clone(&beside.0);
    let places = has_files.then(|| Arc::new(beside) as Arc<dyn Overflows>);
    let mut state = 7u64;
    let pick = |tasks: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Some((state >> 33) as usize % tasks)
    };
    let (run, _) = sequential::run_within(plan.model(), operators, Budget::from(budget), places, pick);
    let mut rows = Vec::new();
    for envelope in receive.try_iter() {
        rows.extend((0..envelope.rows()).map(|row| {
            let values = crate::run::row(&envelope, plan.columns(), row);
            values.iter().map(Value::to_string).collect::<Vec<_>>().join("|")
        }));
    }
    rows.sort();
    (run.map(|_| rows).map_err(|error| error.to_string()), put.load(Ordering::Relaxed))
}

const ROWS: u64 = 20_000;

/// Rows of a name, a list and a number, some of which come often.
fn rows(seed: u64) -> Vec<(String, [i64; 2], i64)> {
    let mut state = seed;
    let mut chance = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut row = || {
        let key = if chance(4) == 0 { chance(10) } else { chance(6_000) };
        (format!("key {key}"), [key as i64, 1], chance(1_000) as i64)
    };
    (0..ROWS).map(|_| row()).collect()
}

/// A row: name, list, n.
type Row = (String, [i64; 2], i64);

fn tables() -> (Tables, Vec<Row>, Vec<Row>) {
    let columns =
        [("name", SqlType::Varchar), ("list", SqlType::List(Arc::new(SqlType::BigInt))), ("n", SqlType::BigInt)];
    let mut tables = Tables::default();
    let (a, b) = (rows(1), rows(2));
    for (name, rows) in [("a", &a), ("b", &b)] {
        let value = |(name, list, n): &Row| {
            let list = list.iter().map(|&item| Value::BigInt(item)).collect();
            vec![Value::Varchar(name.as_str().into()), Value::List(list), Value::BigInt(*n)]
        };
        let rows: Vec<Vec<Value>> = rows.iter().map(value).collect();
        tables.add(name, Arc::new(table(&columns, &rows, 500)));
    }
    (tables, a, b)
}

/// Statements with their rows by plain loops.
fn expected(a: &[Row], b: &[Row]) -> Vec<(&'static str, Vec<String>)> {
    let mut groups: BTreeMap<&str, (u64, i64, i64)> = BTreeMap::new();
    for (name, _, n) in a {
        let group = groups.entry(name).or_insert((0, 0, i64::MIN));
        *group = (group.0 + 1, group.1 + n, group.2.max(*n));
    }
    let grouped =
        groups.iter().map(|(name, (count, sum, most))| format!("'{name}'|{count}|{sum}|{most}")).collect::<Vec<_>>();
    let by_list = groups.iter().map(|(name, (count, ..))| format!("[{}, 1]|{count}", &name[4..])).collect::<Vec<_>>();
    let mut counts: BTreeMap<(&str, i64), [u64; 2]> = BTreeMap::new();
    a.iter().for_each(|(name, _, n)| counts.entry((name, *n)).or_default()[0] += 1);
    b.iter().for_each(|(name, _, n)| counts.entry((name, *n)).or_default()[1] += 1);
    let times = |keep: fn(u64, u64) -> u64| {
        let row = |(&(name, n), &[a, b]): (&(&str, i64), &[u64; 2])| {
            std::iter::repeat_n(format!("'{name}'|{n}"), keep(a, b) as usize)
        };
        counts.iter().flat_map(row).collect::<Vec<_>>()
    };
    // By the rest of n: the pairs of name and n, the rows, and the greatest n.
    let mut halves = [(std::collections::BTreeSet::new(), 0, 0), (std::collections::BTreeSet::new(), 0, 0)];
    for (name, _, n) in a {
        let half = &mut halves[*n as usize % 2];
        half.0.insert((name, n));
        (half.1, half.2) = (half.1 + 1, half.2.max(*n));
    }
    let by_half =
        halves.iter().zip(0..).map(|((pairs, rows, most), half)| format!("{half}|{}|{rows}|{most}", pairs.len()));
    let by_half = by_half.collect::<Vec<_>>();
    let pairs = vec![format!("{}", halves[0].0.len() + halves[1].0.len())];
    let mut all = vec![
        ("SELECT COUNT(DISTINCT name, n) FROM a", pairs.clone()),
        ("SELECT COUNT(DISTINCT name || ' ' || CAST(n AS VARCHAR) || ' and more') FROM a", pairs),
        (
            "SELECT n % 2, COUNT(DISTINCT name || ' ' || CAST(n AS VARCHAR)), COUNT(*), MAX(n) FROM a GROUP BY n % 2",
            by_half,
        ),
        ("SELECT name, COUNT(*), SUM(n), MAX(n) FROM a GROUP BY name", grouped),
        ("SELECT list, COUNT(*) FROM a GROUP BY list", by_list),
        ("SELECT DISTINCT name, n FROM a", times(|a, _| u64::from(a > 0))),
        ("SELECT name, n FROM a EXCEPT SELECT name, n FROM b", times(|a, b| u64::from(a > 0 && b == 0))),
        ("SELECT name, n FROM a EXCEPT ALL SELECT name, n FROM b", times(u64::saturating_sub)),
        ("SELECT name, n FROM a INTERSECT SELECT name, n FROM b", times(|a, b| u64::from(a > 0 && b > 0))),
        ("SELECT name, n FROM a INTERSECT ALL SELECT name, n FROM b", times(u64::min)),
    ];
    all.iter_mut().for_each(|(_, rows)| rows.sort());
    all
}

#[test]
fn groups_and_sets_beyond_a_budget_go_out_of_memory() {
    let (tables, a, b) = tables();
    let plain = PlanOptions { envelope_rows: 500, ..PlanOptions::default() };
    let ways = [plain, PlanOptions { threads: 3, parallel_rows: 1, hash_seed: 5, ..plain }];
    for (statement, expected) in expected(&a, &b) {
        // Several boxes share a budget.
        for (way, budget) in ways.iter().zip([500_000, 1_500_000]) {
            let (found, put) = answer(statement, &tables, way, u64::MAX, true);
            assert!(found == Ok(expected.clone()) && put == 0, "{statement} with memory for all, {put} outside");
            let (found, put) = answer(statement, &tables, way, budget, true);
            let found = found.unwrap_or_else(|error| panic!("{statement}: {error}"));
            assert!(found == expected, "{statement}: {} rows and not {}", found.len(), expected.len());
            assert!(put > 0 || way.threads > 1, "{statement} stayed in memory");
        }
        let (refused, _) = answer(statement, &tables, &plain, 300_000, false);
        assert!(refused.is_err(), "{statement} within 300,000 bytes");
    }
}

/// Each name goes round with four numbers; rows that were seen come again in every round.
#[test]
fn recursions_whose_rows_have_no_room_in_memory_go_on_in_files() {
    let (tables, a, _) = tables();
    let names: std::collections::BTreeSet<&str> = a.iter().map(|(name, ..)| name.as_str()).collect();
    let statement = "WITH RECURSIVE r(name, k) AS (SELECT name, 0 FROM a UNION SELECT name, (k + 1) % 4 FROM r) \
                     SELECT COUNT(*), SUM(k) FROM r";
    let expected = vec![format!("{}|{}", 4 * names.len(), 6 * names.len())];
    let plain = PlanOptions { envelope_rows: 500, ..PlanOptions::default() };
    for way in [plain, PlanOptions { threads: 3, parallel_rows: 1, hash_seed: 5, ..plain }] {
        let (found, put) = answer(statement, &tables, &way, u64::MAX, true);
        assert_eq!((found, put), (Ok(expected.clone()), 0), "with memory for all");
        let (found, put) = answer(statement, &tables, &way, 1_200_000, true);
        assert_eq!(found, Ok(expected.clone()));
        assert!(put > 0, "it stayed in memory");
        let (refused, _) = answer(statement, &tables, &way, 300_000, false);
        assert!(refused.is_err(), "within 300,000 bytes");
    }
}

/// A list of no column was copied for each row; lists of columns stay while their values are sent, and count.
#[test]
fn lists_of_unnest_are_counted_and_constant_ones_are_made_once() {
    let (tables, a, _) = tables();
    let plain = PlanOptions { envelope_rows: 500, ..PlanOptions::default() };
    let items = |item: &str| (0..500).map(|number| format!("{item}{number}")).collect::<Vec<_>>().join(", ");
    let statement = |item: &str| format!("SELECT COUNT(*), MAX(x - n) FROM a, UNNEST([{}]) AS l(x)", items(item));
    let least = a.iter().map(|(_, _, n)| n).min().expect("there are rows");
    // A copy for each row of an envelope has 500 * 500 * 8 bytes.
    let (found, _) = answer(&statement(""), &tables, &plain, 1_000_000, false);
    assert_eq!(found, Ok(vec![format!("{}|{}", a.len() * 500, 499 - least)]));
    let (found, _) = answer(&statement("n + "), &tables, &plain, 16_000_000, false);
    assert_eq!(found, Ok(vec![format!("{}|499", a.len() * 500)]));
    let (refused, _) = answer(&statement("n + "), &tables, &plain, 1_500_000, false);
    assert!(refused.is_err(), "lists of 2 MB within 1.5 MB");
}

/// Joins of all kinds, with their rows by plain loops. Names of `a` below 3,000 have no partner, and neither have those
/// of `b` beyond 6,000.
fn joins(a: &[Pair], b: &[Pair]) -> Vec<(&'static str, Vec<String>)> {
    let mut by_name: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    b.iter().filter_map(|(name, n)| Some((name.as_deref()?, *n))).for_each(|(name, n)| {
        by_name.entry(name).or_default().push(n);
    });
    let partners =
        |name: &Option<String>| name.as_deref().and_then(|name| by_name.get(name)).map_or(&[][..], |all| all);
    let shown = |name: &Option<String>| name.as_ref().map_or("NULL".to_owned(), |name| format!("'{name}'"));
    let pairs = || a.iter().flat_map(|(name, n)| partners(name).iter().map(move |m| (name, n, m)));
    let alone = || a.iter().filter(|(name, _)| partners(name).is_empty());
    let inner: Vec<String> = pairs().map(|(name, n, m)| format!("{}|{n}|{m}", shown(name))).collect();
    let left: Vec<String> =
        inner.iter().cloned().chain(alone().map(|(name, n)| format!("{}|{n}|NULL", shown(name)))).collect();
    let names: std::collections::BTreeSet<&str> = a.iter().filter_map(|(name, _)| name.as_deref()).collect();
    let unmet = b.iter().filter(|(name, _)| name.as_deref().is_none_or(|name| !names.contains(name)));
    let full: Vec<String> = left.iter().cloned().chain(unmet.map(|(_, m)| format!("NULL|NULL|{m}"))).collect();
    let row = |(name, n): &Pair| format!("{}|{n}", shown(name));
    let semi: Vec<String> = a.iter().filter(|(name, _)| !partners(name).is_empty()).map(row).collect();
    let anti: Vec<String> = alone().map(row).collect();
    let later: Vec<String> =
        pairs().filter(|(_, n, m)| n < m).map(|(name, n, m)| format!("{}|{n}|{m}", shown(name))).collect();
    let is_there = |name: &Option<String>| match name {
        Some(_) if !partners(name).is_empty() => "true",
        // A null among the names of b makes it unknown.
        _ => "NULL",
    };
    let mark: Vec<String> = a.iter().map(|(name, n)| format!("{n}|{}", is_there(name))).collect();
    let mut all = vec![
        ("SELECT a.name, a.n, b.n FROM a JOIN b ON a.name = b.name", inner),
        ("SELECT a.name, a.n, b.n FROM a LEFT JOIN b ON a.name = b.name", left),
        ("SELECT a.name, a.n, b.n FROM a FULL JOIN b ON a.name = b.name", full),
        ("SELECT a.name, a.n, b.n FROM a JOIN b ON a.name = b.name AND a.n < b.n", later),
        ("SELECT name, n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.name = a.name)", semi),
        ("SELECT name, n FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.name = a.name)", anti),
        ("SELECT n, name IN (SELECT name FROM b) FROM a", mark),
    ];
    all.iter_mut().for_each(|(_, rows)| rows.sort());
    all
}

type Pair = (Option<String>, i64);

#[test]
fn joins_beyond_a_budget_go_out_of_memory() {
    let mut state = 3u64;
    let mut chance = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut rows = |count: u64, from: u64| -> Vec<Pair> {
        let mut name = || (chance(50) > 0).then(|| format!("a name of the number {}", from + chance(6_000)));
        (0..count).map(|n| (name(), n as i64)).collect()
    };
    let (a, b) = (rows(6_000, 0), rows(9_000, 3_000));
    let columns = [("name", SqlType::Varchar), ("n", SqlType::BigInt)];
    let mut tables = Tables::default();
    for (name, rows) in [("a", &a), ("b", &b)] {
        let value = |(name, n): &Pair| {
            vec![name.as_deref().map_or(Value::Null, |name| Value::Varchar(name.into())), Value::BigInt(*n)]
        };
        tables.add(name, Arc::new(table(&columns, &rows.iter().map(value).collect::<Vec<_>>(), 300)));
    }
    let plain = PlanOptions { envelope_rows: 200, optimise: true, ..PlanOptions::default() };
    let ways = [plain, PlanOptions { threads: 3, parallel_rows: 1, hash_seed: 5, ..plain }];
    for (statement, expected) in joins(&a, &b) {
        for (number, way) in ways.iter().enumerate() {
            let (found, put) = answer(statement, &tables, way, u64::MAX, true);
            let found = found.unwrap_or_else(|error| panic!("{statement}: {error}"));
            assert!(found == expected && put == 0, "{statement} with memory for all, way {number}");
            for budget in [300_000, 150_000] {
                let (found, put) = answer(statement, &tables, way, budget, true);
                let found = found.unwrap_or_else(|error| panic!("{statement}, way {number}, {budget}: {error}"));
                assert!(
                    found == expected,
                    "{statement}, way {number}, {budget}: {} rows, not {}",
                    found.len(),
                    expected.len()
                );
                assert!(put > 0, "{statement}, way {number}, {budget} stayed in memory");
            }
        }
        let (refused, _) = answer(statement, &tables, &plain, 150_000, false);
        assert!(refused.is_err(), "{statement} within 150,000 bytes");
    }
}
