//! Work after the pill: Bobox report 2011/1, §4.1. A box passes its pill on, asks to run again, and cleans up.

use super::by_hand::ByHand;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vicus_flow::{Bound, BoxModel, Column, Envelope, FlowError, Model, ModelBuilder, Schema, Turn, Type, library};

fn numbers() -> Schema {
    Schema::new([("n", Type::U64)])
}

/// Passes on its input; after its pill it asks `times` times to run again, and counts these runs.
fn cleans_up(times: usize, done: &Arc<AtomicUsize>) -> BoxModel {
    let done = Arc::clone(done);
    let factory = move || {
        let (done, mut left) = (Arc::clone(&done), None);
        move |turn: &mut Turn<'_>| {
            if let Some(more) = &mut left {
                assert!(!turn.is_stopped(), "what it does is wanted");
                done.fetch_add(1, Ordering::Relaxed);
                *more -= 1;
                if *more > 0 {
                    turn.run_again();
                }
            } else if let Some(envelope) = turn.take(0) {
                if envelope.is_pill() {
                    left = Some(times);
                    turn.run_again();
                }
                turn.send(0, envelope);
            }
            Ok(())
        }
    };
    BoxModel::new("cleans up", factory).input(&numbers()).output(&numbers())
}

fn source() -> BoxModel {
    let factory = || {
        |turn: &mut Turn<'_>| {
            turn.take(0);
            turn.send(0, Envelope::new([Column::from(vec![1u64])]));
            turn.send_pill(0);
            Ok(())
        }
    };
    BoxModel::new("source", factory).output(&numbers())
}

fn chain(boxes: usize, times: usize, done: &Arc<AtomicUsize>) -> Arc<Model> {
    let mut net = ModelBuilder::new("clean-ups");
    let mut last = net.source(source()).output(0);
    for _ in 0..boxes {
        let next = net.add(cleans_up(times, done));
        net.connect(last, next.input(0));
        last = next.output(0);
    }
    net.end(last);
    net.build().unwrap()
}

#[test]
fn a_request_is_over_when_the_boxes_that_asked_have_run_again() {
    // The request was once over with the last pill, and the boxes waiting in queues were dropped.
    let done = Arc::new(AtomicUsize::new(0));
    let model = chain(6, 3, &done);
    for seed in 0..100u64 {
        let mut state = seed;
        let picks = move |tasks: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % tasks
        };
        done.store(0, Ordering::Relaxed);
        vicus_flow::sequential::run(&model, Vec::new(), picks).unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 18, "seed {seed}");
    }
}

#[test]
fn a_box_that_was_told_to_stop_before_its_pill_is_not_run_after_the_end() {
    let acts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&acts);
    let endless = move || {
        let acts = Arc::clone(&counted);
        move |turn: &mut Turn<'_>| {
            turn.take(0);
            acts.fetch_add(1, Ordering::Relaxed);
            turn.send(0, Envelope::new([Column::from(vec![1u64])]));
            turn.run_again();
            Ok(())
        }
    };
    // Sends its pill with the first row, and takes all others.
    let enough = || {
        let mut is_first = true;
        move |turn: &mut Turn<'_>| {
            if turn.take(0).is_some() && std::mem::take(&mut is_first) {
                turn.send_pill(0);
            }
            Ok(())
        }
    };
    let mut net = ModelBuilder::new("enough");
    let from = net.source(BoxModel::new("endless", endless).output(&numbers()));
    let to = net.add(BoxModel::new("enough", enough).input(&numbers()).output(&numbers()));
    net.connect(from.output(0), to.input(0));
    net.end(to.output(0));
    vicus_flow::sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
    assert!(acts.load(Ordering::Relaxed) < 10, "it was invoked {acts:?} times");
}

#[test]
fn a_box_whose_pill_finds_no_room_cleans_up_all_the_same() {
    let done = Arc::new(AtomicUsize::new(0));
    // Sends its pill first, and takes nothing.
    let deaf = || {
        let mut is_first = true;
        move |turn: &mut Turn<'_>| {
            if std::mem::take(&mut is_first) {
                turn.send_pill(0);
            }
            Ok(())
        }
    };
    let mut net = ModelBuilder::new("no room");
    net.default_bound(Bound { envelopes: 1, bytes: 1 << 20 });
    let from = net.source(source());
    let cleans = net.add(cleans_up(2, &done));
    let deaf = net.add(BoxModel::new("deaf", deaf).input(&numbers()).output(&numbers()));
    net.connect(from.output(0), cleans.input(0));
    net.connect(cleans.output(0), deaf.input(0));
    net.end(deaf.output(0));
    let mut world = ByHand::with_pills(&net.build().unwrap());
    for name in ["source", "cleans up", "source", "cleans up"] {
        world.run(name);
    }
    assert!(!world.queued().iter().any(|name| name.contains("cleans")), "its pill waits for room");
    world.run("deaf");
    assert_eq!(world.run("termination"), (true, vec!["~cleans up".into()]), "the end resumes it");
    world.run_out();
    world.instance.settle(None).expect("it is over").over().unwrap();
    assert_eq!(done.load(Ordering::Relaxed), 2);
}

#[test]
fn a_box_whose_reader_has_closed_after_its_pill_cleans_up_all_the_same() {
    // A box whose readers had all closed was once retired, even if it had asked to run again.
    let done = Arc::new(AtomicUsize::new(0));
    let closes = || {
        |turn: &mut Turn<'_>| {
            turn.send_pills();
            turn.close(0);
            Ok(())
        }
    };
    let mut net = ModelBuilder::new("closes");
    let from = net.source(source());
    let cleans = net.add(cleans_up(2, &done));
    let closes = net.add(BoxModel::new("closes", closes).input(&numbers()).output(&numbers()));
    net.connect(from.output(0), cleans.input(0));
    net.connect(cleans.output(0), closes.input(0));
    net.end(closes.output(0));
    let mut world = ByHand::with_pills(&net.build().unwrap());
    world.run("source");
    world.run("cleans up");
    world.run("cleans up");
    world.run("closes");
    world.run("termination");
    world.run_out();
    world.instance.settle(None).expect("it is over").over().unwrap();
    assert_eq!(done.load(Ordering::Relaxed), 2);
}

#[test]
fn cancelling_and_failing_drop_what_asked_to_run_again() {
    for end in [FlowError::Cancelled, FlowError::Panicked { name: "x".into(), message: String::new() }] {
        let done = Arc::new(AtomicUsize::new(0));
        let mut world = ByHand::with_pills(&chain(1, 1, &done));
        for name in ["source", "cleans up", "cleans up", "termination", "termination"] {
            world.run(name);
        }
        assert_eq!(world.queued(), ["~cleans up"]);
        assert!(world.instance.settle(None).is_none(), "it is not over yet");
        let task = world.queue[0].index;
        assert!(world.instance.is_wanted(task));
        world.instance.fail(end.clone());
        assert!(!world.instance.is_wanted(task));
        world.queue.clear();
        let error = world.instance.settle(None).expect("it is over").over().unwrap_err();
        assert_eq!(error.to_string(), end.to_string());
        assert_eq!(done.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_clean_up_that_panics_fails_its_request() {
    let factory = || {
        let mut has_sent = false;
        move |turn: &mut Turn<'_>| {
            assert!(!has_sent, "out of soap");
            turn.take(0);
            turn.send_pill(0);
            turn.run_again();
            has_sent = true;
            Ok(())
        }
    };
    let mut net = ModelBuilder::new("dirty");
    let from = net.source(BoxModel::new("dirty", factory).output(&numbers()));
    let end = net.add(library::sink("end", &numbers(), |_| Ok(())));
    net.connect(from.output(0), end.input(0));
    net.end(end.output(0));
    let error = vicus_flow::sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap_err();
    assert_eq!(error.to_string(), "box dirty panicked: out of soap");
}
