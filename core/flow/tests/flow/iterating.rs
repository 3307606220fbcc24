//! Networks that go round: reachability in random graphs, beside plain loops.

use crate::random_networks::Beside;
use crate::tables::Chance;
use std::collections::BTreeSet;
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
