//! Paths of any length, compared with what plain loops reach.

use crate::rows::{Chance, Row, count_of, rows_of, rows_with};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, mpsc};
use vicus_files::{Failure, FakeDisk, Scratch};
use vicus_flow::{BoxError, FlowError, Operator, Turn, sequential};
use vicus_rdf::Snapshot;
use vicus_sparql::{QueryLimits, QueryOptions, QuerySpill, RunOptions, SparqlPlan, parse, plan};

fn snapshot(text: &str) -> Arc<Snapshot> {
    Arc::new(Snapshot::of_ntriples(text.as_bytes()).expect("good N-Triples"))
}

fn planned(snapshot: &Arc<Snapshot>, text: &str, limits: QueryLimits) -> SparqlPlan {
    let parsed = parse(&format!("PREFIX : <http://e/> {text}")).unwrap_or_else(|error| panic!("{error}"));
    plan(snapshot, &parsed, QueryOptions { limits, ..QueryOptions::default() }).expect("supported")
}

/// Rows of IRIs without their common prefix, sorted.
fn names_of(rows: &[Row]) -> Vec<Vec<String>> {
    let name =
        |cell: &Option<oxrdf::Term>| cell.as_ref().expect("bound").to_string()[10..].trim_matches('>').to_owned();
    let mut rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(name).collect()).collect();
    rows.sort_unstable();
    rows
}

fn names(plan: &SparqlPlan) -> Vec<Vec<String>> {
    names_of(&rows_of(plan, |_| 0))
}

/// A place beyond memory, and how many bytes boxes may hold before they use it.
fn spilling(disk: &FakeDisk, budget: u64) -> (Arc<Scratch>, RunOptions) {
    let scratch = Scratch::new(Arc::new(disk.process(1)));
    let spill = Some(QuerySpill { scratch: Arc::clone(&scratch), budget });
    (scratch, RunOptions { spill, ..RunOptions::default() })
}

/// What happened: the ends that were found were dropped when there were more than 2^20, while pairs of the same batch
/// still held indexes into them. On a cycle of 1,100 nodes this query panicked.
#[test]
fn all_pairs_of_a_large_cycle_are_found() {
    let nodes = 1100;
    let text = (0..nodes).fold(String::new(), |mut text, node| {
        writeln!(text, "<http://e/c{node}> <http://e/p> <http://e/c{}> .", (node + 1) % nodes).expect("a string");
        text
    });
    let snapshot = snapshot(&text);
    assert_eq!(count_of(&planned(&snapshot, "SELECT ?a ?b { ?a :p+ ?b }", QueryLimits::default())), nodes * nodes);
}

/// As above, but the indexes were in use again for other ends, so that rows were wrong: `s0 :p+ ?b` had an end on the
/// cycle.
#[test]
fn a_repeated_start_has_its_own_ends_with_any_cache_size() {
    let (nodes, seed) = (40, 5);
    let mut text = "<http://e/s0> <http://e/p> <http://e/e0> .\n".to_owned();
    for node in 0..nodes {
        writeln!(text, "<http://e/c{node:02}> <http://e/p> <http://e/c{:02}> .", (node + 1) % nodes).expect("a string");
    }
    let mut chance = Chance::new(seed);
    let mut expected = Vec::new();
    for row in 0..200 {
        let start = if chance.one_in(3) { "s0".to_owned() } else { format!("c{:02}", chance.below(nodes)) };
        writeln!(text, "<http://e/x{row}> <http://e/q> <http://e/{start}> .").expect("a string takes everything");
        if start == "s0" {
            expected.push(vec![format!("x{row}"), start, "e0".to_owned()]);
        } else {
            expected.extend((0..nodes).map(|end| vec![format!("x{row}"), start.clone(), format!("c{end:02}")]));
        }
    }
    expected.sort_unstable();
    let snapshot = snapshot(&text);
    for remembered_ends in [0, 1, 39, 40, 41, 100, 1000, 1 << 20] {
        for steps in [1, 7, 4096] {
            let limits = QueryLimits { remembered_ends, steps, ..QueryLimits::default() };
            let plan = planned(&snapshot, "SELECT ?x ?a ?b { ?x :q ?a . ?a :p+ ?b }", limits);
            assert_eq!(names(&plan), expected, "seed {seed}, {limits:?}\n{}", plan.explain());
        }
    }
}

/// What happened: the walk started at every node of the graph, though only nine triples have the predicate: 427 ms
/// instead of 2.
#[test]
fn a_path_between_variables_begins_where_its_first_step_can() {
    let mut text = String::new();
    for number in 0..3000 {
        writeln!(text, "<http://e/n{number}> <http://e/other> <http://e/n{}> .", number + 1).expect("a string");
    }
    let mut edges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (from, to) in [(1, 2), (2, 3), (3, 1), (7, 8), (8, 9), (20, 21), (21, 22), (22, 3), (50, 7)] {
        writeln!(text, "<http://e/n{from}> <http://e/p> <http://e/n{to}> .").expect("a string takes everything");
        edges.entry(format!("n{from}")).or_default().push(format!("n{to}"));
    }
    let mut pairs: BTreeSet<(String, String)> = BTreeSet::new();
    for from in edges.keys() {
        let mut open = vec![from.clone()];
        while let Some(at) = open.pop() {
            for to in edges.get(&at).into_iter().flatten() {
                if pairs.insert((from.clone(), to.clone())) {
                    open.push(to.clone());
                }
            }
        }
    }
    let rows = |pairs: &BTreeSet<(String, String)>| -> Vec<Vec<String>> {
        pairs.iter().map(|(a, b)| vec![a.clone(), b.clone()]).collect()
    };
    let mut staying = pairs.clone();
    staying.extend((0..=3000).map(|number| (format!("n{number}"), format!("n{number}"))));
    let snapshot = snapshot(&text);
    for (path, expected) in [
        ("?a :p+ ?b", rows(&pairs)),
        ("?b ^:p+ ?a", rows(&pairs)),
        ("?b (^:p)+ ?a", rows(&pairs)),
        ("?a (:p|:p)+ ?b", rows(&pairs)),
        ("?a :p* ?b", rows(&staying)),
        ("?b ^(:p*) ?a", rows(&staying)),
        ("?a (:p?)+ ?b", rows(&staying)),
    ] {
        let plan = planned(&snapshot, &format!("SELECT ?a ?b {{ {path} }}"), QueryLimits::default());
        let explained = plan.explain();
        assert_eq!(names(&plan), expected, "{explained}");
        let estimate = |line: &str| -> f64 {
            let from = line.find('~').expect("a number of rows") + 1;
            line[from..].split(' ').next().expect("a number").parse().expect("a number")
        };
        let thought = estimate(explained.lines().next().expect("a line"));
        assert!((0.2..5.0).contains(&(thought / expected.len() as f64)), "{thought} and not {}", expected.len());
        // The starts come from the predicate's index.
        let walked = explained.lines().skip_while(|line| !line.contains("walk ")).nth(1).expect("its input");
        assert!(!walked.contains("all nodes") && estimate(walked) < 20.0, "{explained}");
    }
    // With the rest of a group that has many rows.
    let plan = planned(&snapshot, "SELECT ?a ?b { ?a :other ?o . ?a :p+ ?b }", QueryLimits::default());
    assert!(plan.explain().contains("index join Gpso ?a"), "{}", plan.explain());
    assert_eq!(names(&plan), rows(&pairs));
}

/// A graph of predicates `p` and `q`: its first nodes are a chain, the others have edges by chance.
struct Graph {
    text: String,
    /// By predicate and subject; a capital letter is the predicate backwards.
    edges: BTreeMap<(char, usize), BTreeSet<usize>>,
    nodes: usize,
}

impl Graph {
    fn random(nodes: usize, chain: usize, edges: usize, seed: u64) -> Graph {
        let mut chance = Chance::new(seed);
        let mut graph = Graph { text: String::new(), edges: BTreeMap::new(), nodes };
        for from in 0..nodes {
            if from + 1 < chain {
                graph.add('p', from, from + 1);
            } else {
                for _ in 0..chance.below(edges + 1) {
                    let (by, to) = (chance.pick(&['p', 'p', 'q']), chance.below(nodes));
                    graph.add(by, from, to);
                }
            }
        }
        // All that the chain reaches is reached from its begin.
        graph.add('p', chain - 1, chain % nodes);
        graph
    }

    fn add(&mut self, by: char, from: usize, to: usize) {
        writeln!(self.text, "<http://e/n{from}> <http://e/{by}> <http://e/n{to}> .")
            .expect("a string takes everything");
        self.edges.entry((by, from)).or_default().insert(to);
        self.edges.entry((by.to_ascii_uppercase(), to)).or_default().insert(from);
    }

    /// The ends of the steps by one of these predicates.
    fn steps(&self, by: &str, from: usize) -> impl Iterator<Item = usize> {
        by.chars().flat_map(move |by| self.edges.get(&(by, from)).into_iter().flatten().copied())
    }

    /// What one step or more reach.
    fn reached(&self, by: &str, from: usize) -> BTreeSet<usize> {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(at) = open.pop() {
            open.extend(self.steps(by, at).filter(|to| reached.insert(*to)));
        }
        reached
    }
}

/// Paths that reach more than a box may hold: pairs of states and nodes, and those still to be visited, go to files.
#[test]
fn what_a_path_reaches_beyond_its_memory_goes_to_files() {
    let mut written_by = [0u64; 3];
    for (seed, (nodes, chain, edges)) in [(3000, 5, 3), (6000, 6000, 0), (2500, 1000, 12)].into_iter().enumerate() {
        let graph = Graph::random(nodes, chain, edges, seed as u64 + 11);
        let snapshot = snapshot(&graph.text);
        let row = |node: usize| vec![format!("n{node}")];
        let all = graph.reached("p", 0);
        let with_start = |mut reached: BTreeSet<usize>| {
            reached.insert(0);
            reached.into_iter().map(row).collect::<Vec<_>>()
        };
        let by_both: BTreeSet<usize> = graph.reached("pq", 0);
        // A path behind another one has an end for each node between them.
        let behind = by_both.iter().flat_map(|&node| graph.steps("p", node));
        let last = nodes - 1;
        for (path, mut expected) in [
            (":n0 :p+ ?b".to_owned(), all.iter().copied().map(row).collect::<Vec<_>>()),
            (":n0 :p* ?b".to_owned(), with_start(all.clone())),
            (":n0 (:p|:q)+ ?b".to_owned(), by_both.iter().copied().map(row).collect()),
            (":n0 (:p|:q)+/:p ?b".to_owned(), behind.map(row).collect()),
            (format!("?b :p+ :n{last}"), graph.reached("P", last).into_iter().map(row).collect()),
            (":n0 !:r* ?b".to_owned(), with_start(by_both.clone())),
        ] {
            expected.sort_unstable();
            let limits = QueryLimits { spilled_from: 0, steps: 500, ..QueryLimits::default() };
            let plan = planned(&snapshot, &format!("SELECT ?b {{ {path} }}"), limits);
            assert_eq!(names(&plan), expected, "{path} in memory, nodes {nodes}");
            for budget in [0, 60_000, 1 << 30] {
                let disk = FakeDisk::new(1);
                let (scratch, options) = spilling(&disk, budget);
                let mut order = Chance::new(budget + 1);
                let rows = rows_with(&plan, options, |tasks| order.below(tasks));
                assert_eq!(
                    names_of(&rows),
                    expected,
                    "{path} within {budget} bytes, nodes {nodes}\n{}",
                    plan.explain()
                );
                written_by[seed] += scratch.written();
                assert!(budget < 1 << 30 || scratch.written() == 0, "{path}");
                assert!(
                    budget > 0 || expected.len() < 500 || scratch.written() > 0,
                    "{path} of {nodes} stayed in memory"
                );
                assert!(disk.names().is_empty());
            }
        }
    }
    assert!(written_by.iter().all(|written| *written > 0), "{written_by:?}");
}

/// Starts that were walked are forgotten before anything is written, and each has its own ends.
#[test]
fn many_starts_have_their_ends_within_any_memory() {
    let graph = Graph::random(700, 300, 4, 5);
    let snapshot = snapshot(&graph.text);
    let mut expected: Vec<Vec<String>> = Vec::new();
    for from in 0..graph.nodes {
        let ends = graph.reached("p", from);
        expected.extend(ends.into_iter().map(|to| vec![format!("n{from}"), format!("n{to}")]));
    }
    expected.sort_unstable();
    for (threads, budget) in [(1, 0), (1, 40_000), (3, 0), (3, 200_000)] {
        let limits = QueryLimits { spilled_from: 0, ..QueryLimits::default() };
        let parsed = parse("PREFIX : <http://e/> SELECT ?a ?b { ?a :p+ ?b }").unwrap();
        let common = vicus_sparql::PlanOptions { threads, parallel_rows: 0, ..vicus_sparql::PlanOptions::default() };
        let plan = plan(&snapshot, &parsed, QueryOptions { limits, ..QueryOptions::from(common) }).expect("supported");
        let disk = FakeDisk::new(1);
        let (_, options) = spilling(&disk, budget);
        let mut order = Chance::new(budget + threads as u64);
        let rows = rows_with(&plan, options, |tasks| order.below(tasks));
        let (rows, explained) = (names_of(&rows), plan.explain());
        assert!(
            rows == expected,
            "{threads} threads, {budget} bytes: {} rows, not {}\n{explained}",
            rows.len(),
            expected.len()
        );
    }
}

fn outcome(
    plan: &SparqlPlan,
    options: RunOptions,
    choose: impl FnMut(usize) -> Option<usize>,
) -> Result<usize, FlowError> {
    let run = plan.start_with(options);
    let (send, receive) = mpsc::channel();
    let sink = plan.sink_operator(move |envelope| Ok(send.send(envelope.rows())?));
    sequential::run_while(plan.model(), run.operators([(plan.sink(), sink)]), choose)?;
    Ok(receive.iter().sum())
}

/// What happened: a path that had written pairs to files counted as little as it held then, and relied on what it had
/// asked for before. A box that took the rest in between made it fail, with files at hand.
#[test]
fn a_path_with_files_keeps_its_memory_from_other_boxes() {
    /// Takes all memory but some.
    struct Greedy(Box<dyn Operator>, u64);

    impl Operator for Greedy {
        fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
            while turn.book(self.1 + STEP + LEFT).is_ok() {
                self.1 += STEP;
            }
            turn.book(self.1)?;
            self.0.act(turn)
        }
    }

    const STEP: u64 = 16 << 10;
    const LEFT: u64 = 64 << 10;
    let graph = Graph::random(30_000, 12_000, 12, 13);
    let snapshot = snapshot(&graph.text);
    let limits = QueryLimits { spilled_from: 0, steps: 500, ..QueryLimits::default() };
    let plan = planned(&snapshot, "SELECT ?b { :n0 (:p|:q)* ?b }", limits);
    let expected = names(&plan).len();
    for budget in [600_000, 800_000, 1_000_000] {
        let disk = FakeDisk::new(1);
        let (scratch, options) = spilling(&disk, 1 << 30);
        let run = plan.start_with(options);
        let (send, receive) = mpsc::channel();
        let sink = plan.sink_operator(move |envelope| Ok(send.send(envelope.rows())?));
        let operators = run.operators([(plan.sink(), Box::new(Greedy(sink, 0)) as Box<dyn Operator>)]);
        let (run, _) = sequential::run_within(plan.model(), operators, budget, None, |_| Some(0));
        run.unwrap_or_else(|error| panic!("within {budget} bytes: {error}"));
        assert_eq!(receive.iter().sum::<usize>(), expected, "within {budget} bytes");
        assert!(scratch.written() > 0, "{budget} bytes are enough without files");
    }
}

/// A path whose file fails says so, or has all its ends; a cancelled one leaves no file.
#[test]
fn a_path_survives_failing_files_and_can_be_cancelled() {
    let graph = Graph::random(2500, 1000, 12, 13);
    let snapshot = snapshot(&graph.text);
    let limits = QueryLimits { spilled_from: 0, ..QueryLimits::default() };
    let plan = planned(&snapshot, "SELECT ?b { :n0 (:p|:q)* ?b }", limits);
    let disk = FakeDisk::new(1);
    let mut steps = 0;
    let expected = outcome(&plan, spilling(&disk, 0).1, |_| {
        steps += 1;
        Some(0)
    });
    let (expected, operations) = (expected.unwrap(), disk.operations());
    assert!(operations > 50, "{operations} operations");
    let mut failed = 0;
    for failure in [Failure::Error, Failure::Full, Failure::Errors] {
        for after in (0..operations).step_by(1 + operations as usize / 40) {
            let disk = FakeDisk::new(after);
            disk.fail_after(after, failure);
            match outcome(&plan, spilling(&disk, 0).1, |_| Some(0)) {
                Ok(rows) => assert_eq!(rows, expected, "{failure:?} after {after}"),
                Err(error) => {
                    failed += 1;
                    assert!(error.to_string().contains("a temporary file in fake/"), "{error}");
                }
            }
        }
    }
    assert!(failed > 20, "only {failed} failures");
    for part in 0..10 {
        let (mut left, disk) = (steps * part / 10, FakeDisk::new(1));
        let cancelled = outcome(&plan, spilling(&disk, 0).1, |_| {
            left = usize::checked_sub(left, 1)?;
            Some(0)
        });
        assert!(matches!(cancelled, Err(FlowError::Cancelled)), "{cancelled:?}");
        assert!(disk.names().is_empty());
    }
}
