//! Boxes that go wrong, block, or have work left after their pill, under every strategy: the user's view of them.

use crate::{numbers, source, strategies, wait};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use vicus::kit::SentTooMuch;
use vicus::{BoxModel, Column, Envelope, FlowError, Model, ModelBuilder, Request, Runtime, Schema, Turn, library};

fn runtime(strategy: &str, threads: usize) -> Runtime {
    Runtime::builder().strategy(strategy.parse().unwrap()).threads(threads).quiet().start()
}

/// A source with this code, and a reader that adds up its numbers.
fn read_by_sum<F>(name: &'static str, act: F) -> (ModelBuilder, Arc<AtomicUsize>)
where
    F: FnMut(&mut Turn<'_>) + Clone + Send + Sync + 'static,
{
    let sum = Arc::new(AtomicUsize::new(0));
    let added = Arc::clone(&sum);
    let mut net = ModelBuilder::new(name);
    let source = net.source(source(name, act));
    let end = net.add(library::sink("honest", &numbers(), move |envelope| {
        added.fetch_add(envelope.column(0).u64s().iter().sum::<u64>() as usize, Ordering::Relaxed);
        Ok(())
    }));
    net.connect(source.output(0), end.input(0)).private([0]);
    net.end(end.output(0));
    (net, sum)
}

/// A well-behaved request.
fn good() -> (Arc<Model>, Arc<AtomicUsize>) {
    let (net, sum) = read_by_sum("good", |turn| {
        turn.send(0, Envelope::new([Column::from(vec![1u64, 2, 3])]));
        turn.send_pill(0);
    });
    (net.build().unwrap(), sum)
}

#[test]
fn an_envelope_that_does_not_fit_fails_its_sender_and_no_thread_is_lost() {
    // What happened: in release builds nothing looked at the schema. The runtime looked for a column that was missing,
    // the thread ended, and on one thread no request did any more.
    let bad: [fn() -> Envelope; 3] = [
        || Envelope::of_rows(Vec::new(), 3),
        || Envelope::new([Column::from(vec![1.5f64])]),
        || Envelope::new([vec![1u64].into(), vec![1u64].into()]),
    ];
    for strategy in strategies() {
        for threads in [1, 2] {
            let runtime = runtime(&strategy, threads);
            for bad in bad {
                let (net, _) = read_by_sum("bad", move |turn| turn.send(0, bad()));
                let error = wait(&runtime.submit(&net.build().unwrap()), &strategy).unwrap_err();
                let FlowError::Panicked { name, message } = error else { panic!("{strategy}: {error}") };
                assert_eq!(name, "bad", "{strategy}: {message}");
                assert!(message.starts_with("output 0 has the schema (n: U64), and"), "{message}");
            }
            let (model, sum) = good();
            wait(&runtime.submit(&model), &strategy).unwrap();
            assert_eq!(sum.load(Ordering::Relaxed), 6);
        }
    }
}

#[test]
fn an_invocation_that_sends_without_end_fails_its_request_alone() {
    // What happened: an endless loop of sends took memory until the process was killed.
    for strategy in strategies() {
        let runtime = runtime(&strategy, 2);
        let (mut net, _) = read_by_sum("endless", |turn| {
            loop {
                turn.send(0, Envelope::new([Column::from(vec![7u64; 1000])]));
            }
        });
        net.outbox_bytes(1 << 20);
        let request = runtime.submit(&net.build().unwrap());
        let error = wait(&request, &strategy).unwrap_err();
        let FlowError::Failed { name, error } = error else { panic!("{strategy}: {error}") };
        assert_eq!((&*name, error.downcast_ref()), ("endless", Some(&SentTooMuch { output: 0, bound: 1 << 20 })));
        // A box that asks for room is not stopped: it sends as much as its reader's input holds, and goes on when that
        // is read.
        let mut left = 1000;
        let (mut net, sum) = read_by_sum("asks", move |turn| {
            while turn.ask_room(0) {
                if left == 0 {
                    return turn.send_pill(0);
                }
                left -= 1;
                turn.send(0, Envelope::new([Column::from(vec![1u64; 100])]));
            }
            turn.run_again();
        });
        net.outbox_bytes(1);
        wait(&runtime.submit(&net.build().unwrap()), &strategy).unwrap();
        assert_eq!(sum.load(Ordering::Relaxed), 100_000, "{strategy}");
    }
}

/// A source and `boxes` boxes behind it; each passes its pill on, asks to run again, and then cleans up in `times`
/// invocations.
fn clean_ups(boxes: usize, times: usize, done: &Arc<AtomicUsize>) -> Arc<Model> {
    let mut net = ModelBuilder::new("clean-ups");
    let cleans = || {
        let done = Arc::clone(done);
        move || {
            let (done, mut left) = (Arc::clone(&done), None);
            move |turn: &mut Turn<'_>| {
                if let Some(more) = &mut left {
                    *more -= 1;
                    done.fetch_add(1, Ordering::Relaxed);
                    if *more > 0 {
                        turn.run_again();
                    }
                } else if turn.take(0).is_some_and(|envelope| envelope.is_pill()) {
                    left = Some(times);
                    turn.send_pill(0);
                    turn.run_again();
                }
                Ok(())
            }
        }
    };
    let mut last = net.source(BoxModel::new("cleans up", cleans()).output(&numbers())).output(0);
    for _ in 1..boxes {
        let next = net.add(BoxModel::new("cleans up", cleans()).input(&numbers()).output(&numbers()));
        net.connect(last, next.input(0));
        last = next.output(0);
    }
    net.end(last);
    net.build().unwrap()
}

#[test]
fn what_a_box_does_after_its_pill_is_done_when_its_request_is_over() {
    // What happened: the request ended with its last pill, and of 1,200 clean-ups 2 were done. Bobox report 2011/1,
    // section 4.1.
    for strategy in strategies() {
        for threads in [1, 2, 8] {
            let done = Arc::new(AtomicUsize::new(0));
            let (runtime, model) = (runtime(&strategy, threads), clean_ups(12, 2, &done));
            let requests: Vec<Request> = (0..50).map(|_| runtime.submit(&model)).collect();
            requests.iter().for_each(|request| _ = wait(request, &strategy).unwrap());
            assert_eq!(done.load(Ordering::Relaxed), 50 * 12 * 2, "{strategy}, {threads} threads");
        }
    }
}

#[test]
fn a_request_that_is_cancelled_or_fails_does_not_wait_for_clean_ups() {
    for strategy in strategies() {
        let (runtime, done) = (runtime(&strategy, 2), Arc::new(AtomicUsize::new(0)));
        // Its boxes would never be done.
        let endless = clean_ups(3, usize::MAX, &done);
        let request = runtime.submit(&endless);
        while done.load(Ordering::Relaxed) < 10 {
            std::thread::yield_now();
        }
        assert!(!request.is_done());
        request.cancel();
        assert!(matches!(wait(&request, &strategy), Err(FlowError::Cancelled)), "{strategy}");
        let (net, _) = read_by_sum("fails", |turn| {
            turn.send_pill(0);
            turn.run_again();
            assert!(turn.outputs() > 1, "out of soap");
        });
        let request = runtime.submit(&net.build().unwrap());
        assert!(matches!(wait(&request, &strategy), Err(FlowError::Panicked { .. })), "{strategy}");
    }
}

/// The event that a box waits for.
#[derive(Default)]
struct Signal(Mutex<usize>, Condvar);

impl Signal {
    fn add(&self) {
        *self.0.lock().unwrap() += 1;
        self.1.notify_all();
    }

    fn wait_until(&self, count: usize) {
        let (seen, late) =
            self.1.wait_timeout_while(self.0.lock().unwrap(), Duration::from_secs(60), |seen| *seen < count).unwrap();
        drop(seen);
        assert!(!late.timed_out(), "what the box waits for never came");
    }
}

#[test]
fn every_strategy_lends_a_thread_while_a_box_blocks() {
    // What happened: under seven of nine strategies a quick request beside a blocking section of 700 ms waited for its
    // end.
    for strategy in strategies() {
        for threads in [1, 2] {
            let runtime = runtime(&strategy, threads);
            let (ended, blocks) = (Arc::new(Signal::default()), Arc::new(Signal::default()));
            // On each thread a box that blocks until eight requests, submitted meanwhile, have ended.
            let blocking: Vec<Request> = (0..threads)
                .map(|_| {
                    let (ended, blocks) = (Arc::clone(&ended), Arc::clone(&blocks));
                    let (net, _) = read_by_sum("blocks", move |turn| {
                        blocks.add();
                        turn.blocking(|| ended.wait_until(8));
                        turn.send_pill(0);
                    });
                    runtime.submit(&net.build().unwrap())
                })
                .collect();
            blocks.wait_until(threads);
            let (model, sum) = good();
            for _ in 0..8 {
                wait(&runtime.submit(&model), &strategy).unwrap();
                ended.add();
            }
            assert_eq!(sum.load(Ordering::Relaxed), 48);
            blocking.iter().for_each(|request| _ = wait(request, &strategy).unwrap());
        }
    }
}

#[test]
fn what_waits_behind_a_box_that_blocks_is_run_by_others() {
    // All is submitted at once to one thread: quick boxes wait in that thread's queue when it blocks.
    for strategy in strategies() {
        for place in 0..4 {
            let runtime = runtime(&strategy, 1);
            let ended = Arc::new(Signal::default());
            let quick = {
                let ended = Arc::clone(&ended);
                let mut net = ModelBuilder::new("quick");
                let (schema, nothing) = (numbers(), Schema::new::<&str>([]));
                let factory = || {
                    |turn: &mut Turn<'_>| {
                        turn.take(0);
                        turn.send(0, Envelope::new([Column::from(vec![1u64])]));
                        turn.send_pill(0);
                        Ok(())
                    }
                };
                let source = net.source(BoxModel::new("source", factory).output(&schema));
                for _ in 0..5 {
                    let pass = net.add(library::map("pass", &schema, &schema, Some));
                    net.connect(source.output(0), pass.input(0));
                    let ended = Arc::clone(&ended);
                    let end = move || {
                        let ended = Arc::clone(&ended);
                        move |turn: &mut Turn<'_>| {
                            if turn.take(0).is_some_and(|envelope| envelope.is_pill()) {
                                ended.add();
                                turn.send_pill(0);
                            }
                            Ok(())
                        }
                    };
                    let end = net.add(BoxModel::new("end", end).input(&schema).output(&nothing));
                    net.connect(pass.output(0), end.input(0));
                    net.end(end.output(0));
                }
                net.build().unwrap()
            };
            let waits = Arc::clone(&ended);
            let (net, _) = read_by_sum("blocks", move |turn| {
                turn.blocking(|| waits.wait_until(4 * 5));
                turn.send_pill(0);
            });
            let blocks = net.build().unwrap();
            let mut models = vec![&quick; 4];
            models.insert(place, &blocks);
            let requests: Vec<Request> = models.into_iter().map(|model| runtime.submit(model)).collect();
            requests.iter().for_each(|request| _ = wait(request, &strategy).unwrap());
        }
    }
}
