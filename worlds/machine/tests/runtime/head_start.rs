//! Young requests go before others, under every strategy: the test judges by the finished work, without a clock.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vicus_flow::{
    BoxError, BoxId, BoxModel, Envelope, Inner, Model, ModelBuilder, Operator, Resume, Schema, Turn, Type, library,
};
use vicus_machine::{MachineRuntime, Request};
use vicus_schedule::ALL;

/// How many envelopes the long request has, and how many of them it has taken when the short one comes.
const ENVELOPES: u64 = 100;
const BEFORE: u64 = 50;

/// So long as a request may go before others. The long one has worked for much longer when the short one comes, on any
/// processor.
const HEAD_START: Duration = Duration::from_millis(2);

fn work() {
    (0..1_000_000_u64).for_each(|number| _ = black_box(number));
}

/// A source of numbers, and a box to take them.
fn numbers(envelopes: u64, each: impl Fn() + Clone + Send + Sync + 'static) -> (Arc<Model>, BoxId) {
    let schema = Schema::new([("n", Type::U64)]);
    let mut net = ModelBuilder::new("numbers");
    let made = move || (0..envelopes).map(|number| Envelope::new([vec![number].into()]));
    let source = net.source(library::source("numbers", &schema, made));
    let taker = net.add(library::sink("taker", &schema, move |_| {
        each();
        Ok(())
    }));
    net.connect(source.output(0), taker.input(0));
    net.end(taker.output(0));
    (net.build().unwrap(), taker)
}

/// A box that waits, in no queue, until its handle is dropped.
fn waiting() -> (Box<dyn Operator>, Receiver<Resume>) {
    let (send, resumes) = mpsc::channel();
    let mut send = Some(send);
    let operator = move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
        match send.take() {
            Some(send) => send.send(turn.pause().expect("threads have an outside"))?,
            None => _ = turn.take(0).filter(Envelope::is_pill).map(|_| turn.send_pills()),
        }
        Ok(())
    };
    (Box::new(operator), resumes)
}

fn wait(request: &Request, what: &str) {
    let result = request.wait_for(Duration::from_secs(120));
    result.unwrap_or_else(|| panic!("a request never ended: {what}")).unwrap();
}

/// A source of numbers, and a box that runs the other model for each of them, as a request within its own.
fn within(envelopes: u64, other: &Arc<Model>) -> Arc<Model> {
    let schema = Schema::new([("n", Type::U64)]);
    let mut net = ModelBuilder::new("within");
    let made = move || (0..envelopes).map(|number| Envelope::new([vec![number].into()]));
    let source = net.source(library::source("numbers", &schema, made));
    let other = Arc::clone(other);
    let runs = move || {
        let (other, mut inner) = (Arc::clone(&other), None::<Inner>);
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            if turn.head(0).is_some_and(|head| !head.is_pill()) {
                match inner.get_or_insert_with(|| turn.submit(&other, Vec::new())).result() {
                    None => return Ok(()),
                    Some(result) => result?,
                };
                inner = None;
            }
            turn.take(0).filter(Envelope::is_pill).into_iter().for_each(|_| turn.send_pill(0));
            Ok(())
        }
    };
    let runs = net.add(BoxModel::new("runs", runs).input(&schema).output(&schema));
    net.connect(source.output(0), runs.input(0));
    net.end(runs.output(0));
    net.build().unwrap()
}

/// Envelopes taken by a long request, or one by one by requests within it (`parts`), until the end of a short one that
/// came after [`BEFORE`] of them.
fn taken_before_the_end_of_a_short_one(strategy: &str, head_start: Duration, parts: bool) -> u64 {
    let runtime = MachineRuntime::builder().strategy(strategy.parse().unwrap()).threads(1).head_start(head_start);
    let runtime = runtime.quiet().start();
    // The long one is not alone from its beginning on.
    let (model, taker) = numbers(1, || ());
    let (operator, resumes) = waiting();
    let other = runtime.submit_with(&model, vec![(taker, operator)]);
    let resume = resumes.recv_timeout(Duration::from_secs(120)).unwrap();

    let taken = Arc::new(AtomicU64::new(0));
    let (reach, reached) = mpsc::channel();
    let (go, goes) = mpsc::channel::<()>();
    let goes = Arc::new(Mutex::new(goes));
    let long = {
        let taken = Arc::clone(&taken);
        let (model, _) = numbers(if parts { 1 } else { ENVELOPES }, move || {
            work();
            if taken.fetch_add(1, Ordering::Relaxed) + 1 == BEFORE {
                reach.send(()).unwrap();
                goes.lock().unwrap().recv().unwrap();
            }
        });
        runtime.submit(&if parts { within(ENVELOPES, &model) } else { model })
    };
    reached.recv_timeout(Duration::from_secs(120)).unwrap();
    let at_end = Arc::new(AtomicU64::new(0));
    let short = {
        let (taken, at_end) = (Arc::clone(&taken), Arc::clone(&at_end));
        let (model, _) = numbers(2, move || at_end.store(taken.load(Ordering::Relaxed), Ordering::Relaxed));
        runtime.submit(&model)
    };
    go.send(()).unwrap();
    wait(&short, strategy);
    wait(&long, strategy);
    drop(resume);
    wait(&other, strategy);
    assert_eq!(taken.load(Ordering::Relaxed), ENVELOPES, "{strategy}");
    at_end.load(Ordering::Relaxed)
}

#[test]
fn a_short_request_waits_for_one_invocation_of_a_long_one_under_every_strategy() {
    for strategy in ALL {
        let name = strategy.name();
        assert_eq!(taken_before_the_end_of_a_short_one(name, HEAD_START, false), BEFORE, "{name}");
    }
}

/// A request within another one has the priority that is left to that one: many short ones do not go first for ever.
#[test]
fn parts_of_a_long_request_are_not_young_under_every_strategy() {
    for strategy in ALL {
        let name = strategy.name();
        assert_eq!(taken_before_the_end_of_a_short_one(name, HEAD_START, true), BEFORE, "{name}");
    }
}

/// What happened: beside two long queries of a second each, one of a millisecond took a second. Requests without a head
/// start take turns (`shares.rs`), but a short one waits for its turn.
#[test]
fn without_a_head_start_the_long_request_goes_on_meanwhile() {
    let taken = (0..5).map(|_| taken_before_the_end_of_a_short_one("las", Duration::ZERO, false));
    assert!(taken.max() > Some(BEFORE));
}
