//! Networks that go round: reachability in random graphs, beside plain loops.

use crate::random_networks::Beside;
use crate::tables::Chance;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use vicus_flow::library::{self, HashKey, Iterating, JoinKind, Joining};
use vicus_flow::{
    BoxError, BoxModel, Budget, Envelope, FlowError, FragmentBuilder, Model, ModelBuilder, Overflows, Schema, Turn,
    Type, sequential,
};

fn edges() -> Schema {
    Schema::new([("from", Type::U64), ("to", Type::U64)])
}

fn nodes() -> Schema {
    Schema::new([("node", Type::U64)])
}

/// A network that finds what is reached from the first node, and the rows that it sends.
fn reachable(graph: &[(u64, u64)], iterating: impl FnOnce(Iterating) -> Iterating) -> (Arc<Model>, Rows) {
    let mut step = FragmentBuilder::new("follow", [&nodes(), &edges()]);
    let joining = Joining::of(&nodes(), &edges(), [(0, 0)]).kind(JoinKind::Inner);
    let join = step.add(library::join(&joining, HashKey::default(), 100));
    let joined = joining.schema();
    let to = step.add(library::map("to", &joined, &nodes(), |envelope| {
        Some(Envelope::of_rows(vec![envelope.column(2).clone()], envelope.rows()))
    }));
    step.connect(step.input(0), join.input(0));
    step.connect(step.input(1), join.input(1));
    step.connect(join.output(0), to.input(0));
    step.end(to.output(0));
    let iterating = iterating(Iterating::of(&nodes(), &step.build().unwrap()));

    let mut net = ModelBuilder::new("reachable");
    let first = net.source(library::source("first", &nodes(), || [Envelope::new([vec![0u64].into()])]));
    let rows: Vec<(u64, u64)> = graph.to_vec();
    let all = move || {
        let part = |rows: &[(u64, u64)]| {
            let (from, to): (Vec<u64>, Vec<u64>) = rows.iter().copied().unzip();
            Envelope::new([from.into(), to.into()])
        };
        rows.chunks(7).map(part).collect::<Vec<_>>()
    };
    let edges = net.source(library::source("edges", &edges(), all));
    let iterate = net.add(library::iterate(&iterating));
    net.connect(first.output(0), iterate.input(0));
    net.connect(edges.output(0), iterate.input(1));
    let got = Rows::default();
    let into = Arc::clone(&got);
    let sink = net.add(library::sink("sink", &nodes(), move |envelope| {
        into.lock().unwrap().extend_from_slice(envelope.column(0).u64s());
        Ok(())
    }));
    net.connect(iterate.output(0), sink.input(0));
    net.end(sink.output(0));
    (net.build().unwrap(), got)
}

type Rows = Arc<Mutex<Vec<u64>>>;

fn taken(rows: &Rows) -> Vec<u64> {
    let mut rows = std::mem::take(&mut *rows.lock().unwrap());
    rows.sort_unstable();
    rows
}

fn graph(chance: &mut Chance, nodes: usize, edges: usize) -> Vec<(u64, u64)> {
    (0..edges).map(|_| (chance.below(nodes) as u64, chance.below(nodes) as u64)).collect()
}

/// All nodes that are reached, each once.
fn closure(graph: &[(u64, u64)]) -> Vec<u64> {
    let (mut found, mut open) = (BTreeSet::from([0]), vec![0]);
    while let Some(node) = open.pop() {
        for (_, to) in graph.iter().filter(|(from, _)| *from == node) {
            if found.insert(*to) {
                open.push(*to);
            }
        }
    }
    found.into_iter().collect()
}

/// The ends of all walks along edges, up to so many.
fn walks(graph: &[(u64, u64)], most: usize) -> Vec<u64> {
    let (mut all, mut last) = (vec![0], vec![0]);
    for _ in 0..most {
        let next = |node: &u64| graph.iter().filter(|(from, _)| from == node).map(|(_, to)| *to).collect::<Vec<_>>();
        last = last.iter().flat_map(next).collect();
        all.extend(&last);
    }
    all.sort_unstable();
    all
}

#[test]
fn what_is_reached_comes_once_in_any_order_of_tasks() {
    for seed in 0..300 {
        let chance = &mut Chance::of_seed(seed);
        let graph = graph(chance, 1 + seed as usize % 60, chance_edges(seed));
        let (model, rows) = reachable(&graph, |iterating| iterating.only_new(HashKey::default()));
        let result = sequential::run(&model, Vec::new(), |tasks| chance.below(tasks));
        result.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(taken(&rows), closure(&graph), "seed {seed}");
    }
}

fn chance_edges(seed: u64) -> usize {
    (seed * 13 % 150) as usize
}

#[test]
fn without_a_sieve_every_way_counts_and_a_bound_on_rounds_holds() {
    for seed in 0..100u64 {
        let chance = &mut Chance::of_seed(seed);
        // Edges go upwards: no walk is longer than there are nodes.
        let upwards = graph(chance, 8, 14).into_iter().filter(|(from, to)| from < to).collect::<Vec<_>>();
        let (model, rows) = reachable(&upwards, |iterating| iterating);
        let result = sequential::run(&model, Vec::new(), |tasks| chance.below(tasks));
        result.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(taken(&rows), walks(&upwards, 8), "seed {seed}");
    }
    let circle = [(0, 1), (1, 2), (2, 0)];
    let (model, rows) = reachable(&circle, |iterating| iterating.most_rounds(10));
    let error = sequential::run(&model, Vec::new(), |_| 0).unwrap_err();
    assert_eq!(error.to_string(), "box iterate failed: there is something new after 10 rounds");
    assert!(taken(&rows).len() <= 11);
}

#[test]
fn rounds_beyond_the_budget_go_to_files_and_come_back() {
    let (mut spilled, mut ended) = (0, 0);
    for seed in 0..200u64 {
        let chance = &mut Chance::of_seed(seed);
        let graph = graph(chance, 60, 300);
        let (model, rows) = reachable(&graph, |iterating| iterating.only_new(HashKey::default()));
        let beside: Arc<dyn Overflows> = Arc::new(Beside::with_room(usize::MAX));
        let budget = Budget::from(15_000 + seed * 500);
        let (result, counts) =
            sequential::run_within(&model, Vec::new(), budget, Some(beside), |tasks| Some(chance.below(tasks)));
        match result {
            Ok(_) => {
                assert_eq!(taken(&rows), closure(&graph), "seed {seed}");
                ended += 1;
            }
            Err(FlowError::Failed { error, .. }) => assert!(error.to_string().contains("is needed"), "{error}"),
            Err(error) => panic!("seed {seed}: {error}"),
        }
        spilled += counts.iter().map(|counts| counts.spilled_bytes).sum::<u64>();
    }
    assert!(ended > 50 && spilled > 0, "{ended} ended, {spilled} bytes were written");
}

/// A network of one round's way, with a source of rows, and the rows that it sends.
fn rounds(step: BoxModel, first: Vec<Envelope>, iterating: impl FnOnce(Iterating) -> Iterating) -> (Arc<Model>, Rows) {
    let mut way = FragmentBuilder::new("way", [&nodes()]);
    let step = way.add(step);
    way.connect(way.input(0), step.input(0));
    way.end(step.output(0));
    let mut net = ModelBuilder::new("rounds");
    let source = net.source(library::source("rows", &nodes(), move || first.clone()));
    let iterate = net.add(library::iterate(&iterating(Iterating::of(&nodes(), &way.build().unwrap()))));
    let got = Rows::default();
    let into = Arc::clone(&got);
    let sink = net.add(library::sink("sink", &nodes(), move |envelope| {
        into.lock().unwrap().extend_from_slice(envelope.column(0).u64s());
        Ok(())
    }));
    net.connect(source.output(0), iterate.input(0));
    net.connect(iterate.output(0), sink.input(0));
    net.end(sink.output(0));
    (net.build().unwrap(), got)
}

/// The overdrafts of all rounds together would be many times the budget.
#[test]
fn rounds_that_are_over_leave_nothing_with_the_budget() {
    const ROUNDS: u64 = 60;
    const ENVELOPES: u64 = 40;
    const ROWS: u64 = 500;
    let of_one_round = ENVELOPES * (ROWS * 8 + 128);
    for seed in 0..20 {
        let chance = &mut Chance::of_seed(seed);
        let next = library::map("next", &nodes(), &nodes(), |envelope| {
            let more: Vec<u64> = envelope.column(0).u64s().iter().map(|n| n + 1).filter(|n| *n < ROUNDS).collect();
            (!more.is_empty()).then(|| Envelope::new([more.into()]))
        });
        let first = (0..ENVELOPES).map(|_| Envelope::new([vec![0u64; ROWS as usize].into()])).collect();
        let (model, rows) = rounds(next, first, |iterating| iterating);
        let budget = Budget::from(3 * of_one_round);
        let (result, _) = sequential::run_within(&model, Vec::new(), budget, None, |tasks| Some(chance.below(tasks)));
        result.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let expected = (0..ROUNDS).flat_map(|round| (0..ENVELOPES * ROWS).map(move |_| round));
        assert!(taken(&rows).into_iter().eq(expected), "seed {seed}");
    }
}

/// The step makes three envelopes of each: at the end of its budget the request tells so, and its boxes do not wait for
/// each other.
#[test]
fn a_step_that_makes_more_than_it_takes_does_not_wait_for_itself() {
    const NODES: u64 = 1093;
    let children = || {
        let mut left = VecDeque::new();
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            loop {
                while !left.is_empty() && turn.ask_room(0) {
                    turn.send(0, Envelope::new([vec![left.pop_front().unwrap()].into()]));
                }
                if !left.is_empty() {
                    turn.run_again();
                    return Ok(());
                }
                match turn.take(0) {
                    None => return Ok(()),
                    Some(pill) if pill.is_pill() => turn.send_pill(0),
                    Some(envelope) => {
                        let all = envelope.column(0).u64s().iter().flat_map(|n| 3 * n + 1..3 * n + 4);
                        left.extend(all.filter(|n| *n < NODES));
                    }
                }
            }
        }
    };
    let (mut ended, mut short) = (0, 0);
    for seed in 0..400 {
        let chance = &mut Chance::of_seed(seed);
        let step = BoxModel::new("children", children).input(&nodes()).output(&nodes());
        let first = vec![Envelope::new([vec![0u64].into()])];
        let (model, rows) = rounds(step, first, |iterating| iterating.only_new(HashKey::default()));
        let budget = Budget::from(20_000 + seed * 1000);
        let (result, _) = sequential::run_within(&model, Vec::new(), budget, None, |tasks| Some(chance.below(tasks)));
        match result {
            Ok(_) => {
                assert!(taken(&rows).into_iter().eq(0..NODES), "seed {seed}");
                ended += 1;
            }
            Err(FlowError::Failed { error, .. }) => {
                assert!(error.to_string().contains("is needed"), "seed {seed}: {error}");
                short += 1;
            }
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    assert!(ended > 50 && short > 20, "{ended} ended, {short} had not enough memory");
}

/// An operator that is counted as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn boxes_of_rounds_that_are_over_are_freed_while_the_request_goes_on() {
    const ROUNDS: u64 = 500;
    for seed in 0..10 {
        let chance = &mut Chance::of_seed(seed);
        let (live, most, made) = <(Arc<AtomicUsize>, Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let next = {
            let (live, most, made) = (live.clone(), most.clone(), made.clone());
            move || {
                made.fetch_add(1, Ordering::Relaxed);
                most.fetch_max(live.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                let counted = Counted(live.clone());
                move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                    let _is_there = &counted;
                    match turn.take(0) {
                        None => {}
                        Some(pill) if pill.is_pill() => turn.send_pill(0),
                        Some(envelope) => {
                            let next = envelope.column(0).u64s()[0] + 1;
                            if next < ROUNDS {
                                turn.send(0, Envelope::new([vec![next].into()]));
                            }
                        }
                    }
                    Ok(())
                }
            }
        };
        let step = BoxModel::new("next", next).input(&nodes()).output(&nodes());
        let (model, rows) = rounds(step, vec![Envelope::new([vec![0u64].into()])], |iterating| iterating);
        sequential::run(&model, Vec::new(), |tasks| chance.below(tasks)).unwrap();
        assert!(taken(&rows).into_iter().eq(0..ROUNDS), "seed {seed}");
        assert_eq!(made.load(Ordering::Relaxed) as u64, ROUNDS, "seed {seed}: one for each round");
        assert!(most.load(Ordering::Relaxed) <= 8, "seed {seed}: {most:?} at once");
        assert_eq!(live.load(Ordering::Relaxed), 0, "seed {seed}");
    }
}

/// Its rows wait for a box that does not read them any more.
#[test]
fn a_step_that_ends_and_leaves_its_rows_is_over() {
    let act = || {
        let mut is_over = false;
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            if let Some(envelope) = if is_over { None } else { turn.take(0) } {
                is_over = true;
                if !envelope.is_pill() {
                    let more: Vec<u64> =
                        envelope.column(0).u64s().iter().map(|n| n + 100).filter(|n| *n < 300).collect();
                    turn.send(0, Envelope::new([more.into()]));
                }
                turn.send_pill(0);
            }
            Ok(())
        }
    };
    for seed in 0..100 {
        let chance = &mut Chance::of_seed(seed);
        let step = BoxModel::new("takes one", act).input(&nodes()).output(&nodes());
        let first = (0..100u64).map(|n| Envelope::new([vec![n].into()])).collect();
        let (model, rows) = rounds(step, first, |iterating| iterating);
        let result = sequential::run(&model, Vec::new(), |tasks| chance.below(tasks));
        result.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        // Only the first row of each round goes on.
        assert!(taken(&rows).into_iter().eq((0..100).chain([100, 200])), "seed {seed}");
    }
}

/// A reader that has enough ends rounds that would never end.
#[test]
fn a_limit_behind_it_ends_it() {
    let mut step = FragmentBuilder::new("next", [&nodes()]);
    let next = step.add(library::map("next", &nodes(), &nodes(), |envelope| {
        let more: Vec<u64> = envelope.column(0).u64s().iter().map(|n| n + 1).collect();
        Some(Envelope::new([more.into()]))
    }));
    step.connect(step.input(0), next.input(0));
    step.end(next.output(0));
    let iterating = Iterating::of(&nodes(), &step.build().unwrap());
    let mut net = ModelBuilder::new("numbers");
    let zero = net.source(library::source("zero", &nodes(), || [Envelope::new([vec![0u64].into()])]));
    let numbers = net.add(library::iterate(&iterating));
    let (send, receive) = channel();
    let first = move || {
        let (mut left, send) = (1000, send.clone());
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            if let Some(envelope) = turn.take(0) {
                send.send(envelope.column(0).u64s()[0])?;
                left -= 1;
                if left == 0 {
                    turn.close(0);
                    turn.send_pill(0);
                }
            }
            Ok(())
        }
    };
    let first = net.add(BoxModel::new("first", first).input(&nodes()).output(&nodes()));
    net.connect(zero.output(0), numbers.input(0));
    net.connect(numbers.output(0), first.input(0));
    net.end(first.output(0));
    sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
    assert_eq!(receive.try_iter().collect::<Vec<_>>(), (0..1000).collect::<Vec<_>>());
}

/// A step may be nothing at all, or leave its rows unread.
#[test]
fn a_step_that_passes_its_rows_on_or_leaves_them_ends() {
    let through = {
        let mut step = FragmentBuilder::new("nothing", [&nodes()]);
        step.end(step.input(0));
        step.build().unwrap()
    };
    let leaves = {
        let mut step = FragmentBuilder::new("leaves", [&nodes()]);
        let act = || {
            |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                turn.close(0);
                turn.send_pills();
                Ok(())
            }
        };
        let leaves = step.add(BoxModel::new("leaves", act).input(&nodes()).output(&nodes()));
        step.connect(step.input(0), leaves.input(0));
        step.end(leaves.output(0));
        step.build().unwrap()
    };
    for step in [through, leaves] {
        let mut net = ModelBuilder::new("rounds");
        let rows = || (0..100u64).map(|n| Envelope::new([vec![n % 10].into()]));
        let source = net.source(library::source("rows", &nodes(), rows));
        let iterate = net.add(library::iterate(&Iterating::of(&nodes(), &step).only_new(HashKey::default())));
        let (send, receive) = channel();
        let sink = net.add(library::sink("sink", &nodes(), move |rows| Ok(send.send(rows.column(0).u64s().to_vec())?)));
        net.connect(source.output(0), iterate.input(0));
        net.connect(iterate.output(0), sink.input(0));
        net.end(sink.output(0));
        sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
        assert_eq!(receive.try_iter().flatten().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    }
}
