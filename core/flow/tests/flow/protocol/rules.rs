//! When a box is queued, and when it is not: the rules of the Bobox report, §3.2–3.4, one at a time.

use super::by_hand::ByHand;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use vicus_flow::stepwise::SteppedRequest;
use vicus_flow::{
    Bound, BoxModel, Column, Envelope, Fact, FlowError, InputCounts, Model, ModelBuilder, OutputCounts, Schema, Turn,
    Type, library,
};
use vicus_topology::NodeId;

fn numbers() -> Schema {
    Schema::new([("n", Type::U64)])
}

fn one(n: u64) -> Envelope {
    Envelope::new([Column::from(vec![n])])
}

/// Sends `burst` envelopes in each of `turns` invocations, then the pill in one more.
fn source(name: &'static str, burst: u64, turns: u64) -> BoxModel {
    let factory = move || {
        let mut turn_number = 0;
        move |turn: &mut Turn<'_>| {
            turn.take(0);
            if turn_number < turns {
                (0..burst).for_each(|n| turn.send(0, one(turn_number * burst + n)));
                turn.run_again();
            } else {
                turn.send_pill(0);
            }
            turn_number += 1;
            Ok(())
        }
    };
    BoxModel::new(name, factory).output(&numbers())
}

/// A reader of two inputs with this code.
fn pair<F>(act: F) -> BoxModel
where
    F: Fn(&mut Turn<'_>) + Clone + Send + Sync + 'static,
{
    let factory = move || {
        let act = act.clone();
        move |turn: &mut Turn<'_>| {
            act(turn);
            Ok(())
        }
    };
    BoxModel::new("pair", factory).input(&numbers()).input(&numbers()).output(&numbers())
}

/// Two sources and a reader of both.
fn two_into(pair: BoxModel, bound: Bound) -> Arc<Model> {
    let mut net = ModelBuilder::new("two into one");
    net.default_bound(bound);
    let (left, right) = (net.source(source("left", 2, 2)), net.source(source("right", 1, 2)));
    let pair = net.add(pair);
    net.connect(left.output(0), pair.input(0));
    net.connect(right.output(0), pair.input(1));
    net.end(pair.output(0));
    net.build().unwrap()
}

#[test]
fn a_box_that_consumed_nothing_is_not_queued_again() {
    let mut world = ByHand::with_pills(&two_into(pair(|_| {}), Bound::default()));
    assert_eq!(world.run("left"), (true, vec!["~left".into(), "pair".into()]));
    assert_eq!(world.run("pair"), (true, vec![]), "it waits for the other input, though this one holds two");
    assert_eq!(world.run("right"), (true, vec!["~right".into(), "pair".into()]), "what arrives queues it");
}

#[test]
fn a_box_that_consumed_something_is_queued_again_if_more_is_there() {
    let takes_left = pair(|turn| drop(turn.take(0)));
    let mut world = ByHand::with_pills(&two_into(takes_left, Bound::default()));
    world.run("left");
    assert_eq!(world.run("pair"), (true, vec!["pair".into()]), "of two envelopes it took one");
    assert_eq!(world.run("pair"), (true, vec![]), "nothing more is there");
    world.run("right");
    assert_eq!(world.run("pair"), (true, vec![]), "it took nothing");
    world.run("left");
    assert_eq!(world.run("pair"), (true, vec!["pair".into()]), "more is there, on whichever input");
}

#[test]
fn what_arrives_during_an_invocation_is_not_seen_by_it_and_queues_the_box_again() {
    let sees = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&sees);
    let looks = pair(move |turn| {
        let heads = usize::from(turn.head(0).is_some()) + 10 * usize::from(turn.head(1).is_some());
        sees.store(heads, Ordering::Relaxed);
        turn.take(0);
        assert!(turn.take(0).is_none(), "an invocation sees one envelope of each input");
        turn.take(1);
    });
    let mut world = ByHand::with_pills(&two_into(looks, Bound::default()));
    world.run("right");
    let running = world.begin("pair");
    assert_eq!(world.run("left"), (true, vec!["~left".into()]), "a box that runs is not queued by others");
    assert_eq!(world.end(running), (true, vec!["pair".into()]), "its own end queues it");
    assert_eq!(seen.load(Ordering::Relaxed), 10, "only what was there when it began");
    world.run("pair");
    assert_eq!(seen.load(Ordering::Relaxed), 1);
}

#[test]
fn a_box_waits_in_at_most_one_queue() {
    let mut world = ByHand::with_pills(&two_into(pair(|_| {}), Bound::default()));
    world.run("left");
    world.run("right");
    world.run("left");
    assert_eq!(world.queued().iter().filter(|name| *name == "pair").count(), 1);
}

#[test]
fn what_the_pill_wakes_and_what_runs_again_or_finds_room_is_deferred_and_what_gets_rows_is_immediate() {
    let takes = pair(|turn| drop(turn.take(0)));
    let mut world = ByHand::start(&two_into(takes, Bound { envelopes: 1, bytes: 1 << 20 }));
    assert_eq!(world.run("initialization"), (true, vec!["~left".into(), "~right".into()]));
    assert_eq!(world.run("left"), (true, vec!["pair".into()]), "its second envelope was refused: it is in no queue");
    assert_eq!(world.run("pair"), (true, vec!["~left".into()]), "there is room again");
    assert_eq!(world.run("left"), (true, vec![]), "what was refused went, and what it sends now is refused again");
    assert_eq!(world.queued(), ["~right", "pair"]);
    assert_eq!(world.run("pair"), (true, vec!["~left".into()]));
    let left = world.run_but_finish("left");
    assert_eq!(world.run("pair"), (true, vec![]), "room for a box that has not yet said that it is blocked");
    assert_eq!(world.finish(left), ["~left"]);
}

/// A source with three readers of its envelopes, one in each invocation.
fn three_readers() -> Arc<Model> {
    let reader = |name: &'static str| {
        let factory = || {
            |turn: &mut Turn<'_>| {
                drop(turn.take(0));
                Ok(())
            }
        };
        BoxModel::new(name, factory).input(&numbers()).output(&numbers())
    };
    let mut net = ModelBuilder::new("three readers");
    let from = net.source(source("from", 1, 3));
    for name in ["a", "b", "c"] {
        let to = net.add(reader(name));
        net.connect(from.output(0), to.input(0));
        net.end(to.output(0));
    }
    net.build().unwrap()
}

#[test]
fn of_several_receivers_the_last_is_next_and_the_others_spread_if_their_request_does() {
    let all = |names: &[&str]| (true, names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let mut world = ByHand::with_pills(&three_readers());
    assert_eq!(world.run("from"), all(&["~from", "a", "b", "c"]));
    for name in ["a", "b", "c"] {
        assert_eq!(world.run(name), all(&[]));
    }
    world.spreads = true;
    assert_eq!(world.run("from"), all(&["~from", "~a", "~b", "c"]));
    // A box in a queue needs no other queue entry.
    world.run("b");
    assert_eq!(world.run("from"), all(&["~from", "b"]), "the only one stays with its rows");
    // A box goes on with the rest of its input on its last seat.
    assert_eq!(world.run("a"), all(&["a"]));
}

#[test]
fn a_refused_box_is_not_invoked_until_there_is_room() {
    let mut world = ByHand::with_pills(&two_into(pair(|turn| drop(turn.take(1))), Bound { envelopes: 2, bytes: 8 }));
    world.run("left");
    world.run("pair");
    assert!(!world.queued().iter().any(|name| name.contains("left")), "8 bytes are one envelope");
    world.run("right");
    world.run("pair");
    world.run_out();
    let result = world.instance.settle(None).expect("nothing of it is left").over();
    let Err(FlowError::Unfinished { boxes }) = result else { panic!("a reader that never takes: {result:?}") };
    assert_eq!(boxes, ["pair"]);
}

#[test]
fn a_box_that_closes_in_every_invocation_is_not_queued_for_it() {
    // Closing a closed input once counted as consuming. With rows on another input, the box was queued again after each
    // invocation, for ever, before all other tasks of its seat.
    let mut world = ByHand::with_pills(&two_into(pair(|turn| turn.close(0)), Bound::default()));
    world.run("right");
    assert_eq!(world.run("pair"), (true, vec!["pair".into()]), "closing is consuming, once");
    assert_eq!(world.run("pair"), (true, vec![]));
}

#[test]
fn a_box_whose_readers_have_all_closed_is_not_invoked_and_closes_its_own_inputs() {
    // A box once learned it only by sending, and so did its own sender after it. A box with rare sends ran on as long
    // as there was input.
    let acts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&acts);
    let mut net = ModelBuilder::new("limit");
    let from = net.source(source("from", 1, 1000));
    let seldom = net.add(library::map("seldom", &numbers(), &numbers(), move |envelope| {
        counted.fetch_add(1, Ordering::Relaxed);
        (envelope.column(0).u64s()[0] == 0).then_some(envelope)
    }));
    let first = || {
        |turn: &mut Turn<'_>| {
            turn.send_pills();
            turn.close(0);
            Ok(())
        }
    };
    let first = net.add(BoxModel::new("first", first).input(&numbers()).output(&numbers()));
    let other = net.source(source("other", 1, 3));
    net.connect(from.output(0), seldom.input(0));
    net.connect(seldom.output(0), first.input(0));
    net.end(first.output(0));
    net.end(other.output(0));
    let mut world = ByHand::with_pills(&net.build().unwrap());
    world.run("from");
    world.run("seldom");
    world.run("first");
    world.run("from");
    assert_eq!(world.run("seldom"), (false, vec![]), "no user code: its receiver has ended");
    assert_eq!(world.run("from"), (false, vec![]), "nor its sender's");
    assert_eq!(acts.load(Ordering::Relaxed), 1);
}

#[test]
fn what_operators_hold_is_gone_when_the_request_is_over() {
    // Operators once lived as long as the last handle. A reader of a channel waited for ever for its end.
    let (sent, received) = mpsc::channel();
    let sink_of = library::sink_operator(move |envelope| Ok(sent.send(envelope)?));
    let mut net = ModelBuilder::new("channel");
    let from = net.source(source("from", 1, 3));
    let sink = net.add(library::sink("sink", &numbers(), |_| Ok(())));
    net.connect(from.output(0), sink.input(0));
    net.end(sink.output(0));
    let model = net.build().unwrap();
    vicus_flow::sequential::run(&model, vec![(sink, Box::new(sink_of))], |_| 0).unwrap();
    assert_eq!(received.iter().count(), 3);

    let held = Arc::new(());
    let holds = Arc::clone(&held);
    let mut net = ModelBuilder::new("holds");
    let from = net.source(
        BoxModel::new("holds", move || {
            let holds = Arc::clone(&holds);
            move |turn: &mut Turn<'_>| {
                let _ = &holds;
                turn.send_pill(0);
                Ok(())
            }
        })
        .output(&numbers()),
    );
    net.end(from.output(0));
    let model = net.build().unwrap();
    let mut world = ByHand::with_pills(&model);
    assert_eq!(Arc::strong_count(&held), 3, "here, in the model, and in the instance");
    world.run_out();
    world.instance.settle(None).expect("it is over").over().unwrap();
    assert_eq!(Arc::strong_count(&held), 2, "though the instance is still held");
    assert!(world.instance.settle(None).is_none(), "it is settled once");
}

#[test]
fn a_record_has_the_envelopes_that_a_box_keeps() {
    let mut net = ModelBuilder::new("keeper");
    let from = net.source(source("from", 1, 2));
    let keeper = || {
        let mut table = None;
        move |turn: &mut Turn<'_>| {
            match turn.take(0) {
                Some(pill) if pill.is_pill() => turn.send_pills(),
                Some(envelope) if table.is_none() => {
                    table = Some(envelope);
                    turn.record_kept(0);
                }
                _ => {}
            }
            Ok(())
        }
    };
    let keeper = net.add(BoxModel::new("keeper", keeper).input(&numbers()).output(&numbers()));
    net.connect(from.output(0), keeper.input(0));
    net.end(keeper.output(0));
    let (mut request, first) = SteppedRequest::start(&net.build().unwrap(), Vec::new());
    request.record();
    let mut queue = vec![first];
    let mut told = Vec::new();
    while let Some(task) = queue.pop() {
        let is_keeper = task.index == keeper;
        let begun = request.begin(task, NodeId::new(0));
        queue.extend(request.finish(begun, NodeId::new(0)));
        told.extend(request.facts().filter(|_| is_keeper).filter_map(|fact| match fact {
            Fact::Received { rows, pill, .. } => Some(format!("{rows} rows{}", if pill { ", pill" } else { "" })),
            Fact::Kept { input } => Some(format!("kept of {input}")),
            _ => None,
        }));
    }
    request.settle().0.unwrap();
    assert_eq!(told, ["1 rows", "kept of 0", "1 rows", "0 rows, pill"]);
}

#[test]
fn a_panic_in_an_operators_drop_fails_its_request() {
    // It once ended the worker that dropped the instance, and every other request hung.
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("not even this");
        }
    }
    let mut net = ModelBuilder::new("bad");
    let from = net.source(
        BoxModel::new("bad", || {
            let bad = Bad;
            move |turn: &mut Turn<'_>| {
                let _ = &bad;
                turn.send_pill(0);
                Ok(())
            }
        })
        .output(&numbers()),
    );
    net.end(from.output(0));
    let error = vicus_flow::sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap_err();
    assert_eq!(error.to_string(), "box bad panicked: not even this");
}

#[test]
fn a_pill_may_be_postponed_and_work_may_follow_it() {
    let after = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&after);
    let mut net = ModelBuilder::new("late");
    let factory = move || {
        let (counted, mut turns) = (Arc::clone(&counted), 0);
        move |turn: &mut Turn<'_>| {
            turn.take(0);
            turns += 1;
            match turns {
                1..3 => turn.run_again(),
                3 => {
                    turn.send_pill(0);
                    turn.run_again();
                }
                _ => drop(counted.fetch_add(1, Ordering::Relaxed)),
            }
            Ok(())
        }
    };
    let late = net.source(BoxModel::new("late", factory).output(&numbers()));
    net.end(late.output(0));
    let mut world = ByHand::with_pills(&net.build().unwrap());
    assert_eq!(world.run("late").1, ["~late"]);
    assert_eq!(world.run("late").1, ["~late"]);
    assert_eq!(world.run("late").1, ["~late", "termination"], "its pill");
    assert_eq!(world.run("late"), (true, vec![]), "and work after it");
    assert_eq!(after.load(Ordering::Relaxed), 1);
    world.run_out();
    world.instance.settle(None).expect("it is over").over().unwrap();
}

#[test]
fn instances_of_one_model_know_nothing_of_each_other() {
    let (sent, received) = mpsc::channel();
    let mut net = ModelBuilder::new("many");
    let from = net.source(source("from", 2, 3));
    let sink = net.add(library::sink("sink", &numbers(), move |envelope| Ok(sent.send(envelope.column(0).u64s()[0])?)));
    net.connect(from.output(0), sink.input(0)).bound(Bound { envelopes: 1, bytes: 1 << 20 });
    net.end(sink.output(0));
    let model = net.build().unwrap();
    let mut worlds: Vec<ByHand> = (0..3).map(|_| ByHand::start(&model)).collect();
    // Alternately, one task of each.
    while worlds.iter().any(|world| !world.queue.is_empty()) {
        for world in &mut worlds {
            if let Some(oldest) = world.queue.first() {
                let name = model.boxes()[oldest.index.index()].name().to_owned();
                world.run(&name);
            }
        }
    }
    assert!(worlds.iter().all(|world| world.instance.settle(None).is_some_and(|settled| settled.over().is_ok())));
    let mut all: Vec<u64> = received.try_iter().collect();
    all.sort_unstable();
    assert_eq!(all, (0..6).flat_map(|n| [n, n, n]).collect::<Vec<_>>());
}

#[test]
fn what_is_taken_elsewhere_than_it_was_made_is_far_even_if_it_was_delivered_later() {
    let mut net = ModelBuilder::new("two places");
    net.default_bound(Bound { envelopes: 1, bytes: 100 });
    let from = net.source(source("source", 2, 2));
    let end = net.add(library::sink("end", &numbers(), |_| Ok(())));
    net.connect(from.output(0), end.input(0));
    net.end(end.output(0));
    let mut world = ByHand::with_pills(&net.build().unwrap());
    let counts = |world: &ByHand| {
        let counts = world.instance.counts();
        (counts[from.index()].clone(), counts[end.index()].clone())
    };
    // Two envelopes of 8 bytes are made here; the second finds no room, and is delivered when the source is run on the
    // other node.
    world.run("source");
    assert_eq!(
        counts(&world).0.outputs,
        [OutputCounts { envelopes: 2, rows: 2, ended: false, ..OutputCounts::default() }]
    );
    world.node = NodeId::new(1);
    world.run("end");
    assert_eq!(counts(&world).1.inputs, [InputCounts { envelopes: 1, rows: 1, near_bytes: 0, far_bytes: 8 }]);
    world.run_out();
    // The other two are made and taken on the other node.
    let (source, end) = counts(&world);
    assert_eq!(source.outputs, [OutputCounts { envelopes: 4, rows: 4, ended: true, ..OutputCounts::default() }]);
    assert_eq!(end.inputs, [InputCounts { envelopes: 4, rows: 4, near_bytes: 16, far_bytes: 16 }]);
    assert_eq!((source.acts, end.acts), (3, 5), "the pill was sent by one invocation, and seen by another");
}

#[test]
fn a_box_is_activated_where_its_envelope_is_at_home() {
    let mut net = ModelBuilder::new("homes");
    let factory = || {
        |turn: &mut Turn<'_>| {
            turn.take(0);
            turn.count_read(NodeId::new(1), 100);
            turn.send(0, one(1).at_home(Some(NodeId::new(3))));
            turn.send(1, one(2));
            turn.send_pills();
            Ok(())
        }
    };
    let source = net.source(BoxModel::new("source", factory).output(&numbers()).output(&numbers()));
    for (output, name) in ["homed", "plain"].into_iter().enumerate() {
        let sink = net.add(library::sink(name, &numbers(), |_| Ok(())));
        net.connect(source.output(output), sink.input(0));
        net.end(sink.output(0));
    }
    let mut world = ByHand::with_pills(&net.build().unwrap());
    assert_eq!(world.run("source").1, ["homed", "plain"]);
    let homes: Vec<Option<NodeId>> = world.queue.iter().map(|activation| activation.home).collect();
    assert_eq!(homes, [Some(NodeId::new(3)), None]);
    let counts = world.instance.counts();
    let source = &counts[world.queue[0].index.index() - 1];
    assert_eq!((source.near_bytes(), source.far_bytes()), (0, 100), "it was run at place 0");
}
