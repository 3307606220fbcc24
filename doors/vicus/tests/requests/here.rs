//! Requests that begin on their caller's thread, under every strategy: the user's view of them.

use crate::{numbers, source, strategies, wait};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;
use std::time::Duration;
use vicus::{
    BoxId, BoxModel, Column, Envelope, FlowError, Model, ModelBuilder, OverBudget, Request, Runtime, Turn, library,
};

/// Too long for any caller to leave its request to the threads, and short enough for each to do so after one
/// invocation.
const FOR_EVER: Duration = Duration::MAX;
const NOT_LONG: Duration = Duration::ZERO;

fn runtime(strategy: &str, threads: usize, caller_works: Duration) -> Runtime {
    let builder = Runtime::builder().strategy(strategy.parse().unwrap()).threads(threads);
    builder.caller_works(caller_works).quiet().start()
}

/// Begins it here; the caller never gives up.
fn submit(runtime: &Runtime, model: &Arc<Model>) -> Request {
    runtime.submit_here(model, Vec::new(), u64::MAX, &|| false)
}

/// The threads of the boxes.
type Threads = Arc<Mutex<Vec<ThreadId>>>;

/// A source that sends the numbers below `end` one by one, five boxes behind it that pass them on, and a reader that
/// adds them up.
fn chain(end: u64) -> (Arc<Model>, Threads, Arc<AtomicUsize>) {
    let (threads, sum) = (Threads::default(), Arc::new(AtomicUsize::new(0)));
    let mut net = ModelBuilder::new("chain");
    let log = Arc::clone(&threads);
    let source = net.source(
        BoxModel::new("source", move || {
            let (log, mut next) = (Arc::clone(&log), 0);
            move |turn: &mut Turn<'_>| {
                turn.take(0);
                log.lock().unwrap().push(std::thread::current().id());
                while next < end {
                    if !turn.ask_room(0) {
                        turn.run_again();
                        return Ok(());
                    }
                    turn.send(0, Envelope::new([Column::from(vec![next])]));
                    next += 1;
                }
                turn.send_pill(0);
                Ok(())
            }
        })
        .output(&numbers()),
    );
    let mut last = source.output(0);
    for _ in 0..5 {
        let log = Arc::clone(&threads);
        let pass = library::map("pass", &numbers(), &numbers(), move |envelope| {
            log.lock().unwrap().push(std::thread::current().id());
            Some(envelope)
        });
        let pass = net.add(pass);
        net.connect(last, pass.input(0));
        last = pass.output(0);
    }
    let added = Arc::clone(&sum);
    let end = net.add(library::sink("end", &numbers(), move |envelope| {
        added.fetch_add(envelope.column(0).u64s()[0] as usize, Ordering::Relaxed);
        Ok(())
    }));
    net.connect(last, end.input(0));
    net.end(end.output(0));
    (net.build().unwrap(), threads, sum)
}

/// A source with this code. Its output ends the request.
fn one_box<F>(name: &'static str, act: F) -> Arc<Model>
where
    F: FnMut(&mut Turn<'_>) + Clone + Send + Sync + 'static,
{
    let mut net = ModelBuilder::new(name);
    let source = net.source(source(name, act));
    net.end(source.output(0));
    net.build().unwrap()
}

#[test]
fn a_short_request_runs_on_its_caller_s_thread() {
    // What happened: of the time of a query for one row, a thread's wake-up took more than half.
    for strategy in strategies() {
        for threads in [1, 2, 8] {
            let runtime = runtime(&strategy, threads, FOR_EVER);
            let (model, ran_on, sum) = chain(100);
            let request = submit(&runtime, &model);
            assert!(request.is_done(), "{strategy}: it was over when the call returned");
            let totals = wait(&request, &strategy).unwrap();
            assert_eq!(sum.load(Ordering::Relaxed), 4950, "{strategy}");
            let ran_on = ran_on.lock().unwrap();
            assert!(ran_on.iter().all(|&thread| thread == std::thread::current().id()), "{strategy}");
            assert!(totals.acts as usize > ran_on.len(), "the source, the five boxes, and others: {totals:?}");
            assert_eq!(request.counts().last().unwrap().rows_sent(), 0);
        }
    }
}

#[test]
fn a_request_that_is_longer_than_was_thought_goes_to_the_threads() {
    for strategy in strategies() {
        for threads in [1, 2, 8] {
            let runtime = runtime(&strategy, threads, NOT_LONG);
            for _ in 0..5 {
                let (model, ran_on, sum) = chain(500);
                wait(&submit(&runtime, &model), &strategy).unwrap();
                assert_eq!(sum.load(Ordering::Relaxed), 499 * 250, "{strategy}, {threads} threads");
                let ran_on = ran_on.lock().unwrap();
                assert!(ran_on.iter().all(|&thread| thread != std::thread::current().id()), "{strategy}");
            }
            // At any moment of its run.
            for micros in [5, 20, 60, 150] {
                let runtime = self::runtime(&strategy, threads, Duration::from_micros(micros));
                let (model, _, sum) = chain(500);
                wait(&submit(&runtime, &model), &strategy).unwrap();
                assert_eq!(sum.load(Ordering::Relaxed), 499 * 250, "{strategy}, {threads} threads");
            }
        }
    }
}

#[test]
fn more_callers_than_threads_are_served() {
    for strategy in strategies() {
        for caller_works in [NOT_LONG, Duration::from_micros(50), FOR_EVER] {
            let runtime = runtime(&strategy, 2, caller_works);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        for _ in 0..10 {
                            let (model, _, sum) = chain(50);
                            wait(&submit(&runtime, &model), &strategy).unwrap();
                            assert_eq!(sum.load(Ordering::Relaxed), 49 * 25, "{strategy}");
                        }
                    });
                }
            });
        }
    }
}

#[test]
fn a_caller_that_gives_up_cancels_its_request() {
    for strategy in strategies() {
        for caller_works in [Duration::from_micros(50), FOR_EVER] {
            let runtime = runtime(&strategy, 2, caller_works);
            // Between two of endless invocations.
            let endless = one_box("runs again", |turn| turn.run_again());
            let asked = AtomicUsize::new(0);
            let gives_up = || asked.fetch_add(1, Ordering::Relaxed) >= 10;
            let request = runtime.submit_here(&endless, Vec::new(), u64::MAX, &gives_up);
            if !request.is_done() {
                // It had gone to the threads before it was asked often enough.
                request.cancel();
            }
            assert!(matches!(wait(&request, &strategy), Err(FlowError::Cancelled)), "{strategy}");
            // Within an invocation that asks.
            let asks = one_box("asks", |turn| while !turn.is_stopped() {});
            let asked = AtomicUsize::new(0);
            let gives_up = || asked.fetch_add(1, Ordering::Relaxed) >= 1000;
            let request = runtime.submit_here(&asks, Vec::new(), u64::MAX, &gives_up);
            if !request.is_done() {
                request.cancel();
            }
            assert!(matches!(wait(&request, &strategy), Err(FlowError::Cancelled)), "{strategy}");
        }
    }
}

#[test]
fn what_goes_wrong_on_a_caller_s_thread_fails_the_request_alone() {
    for strategy in strategies() {
        for caller_works in [NOT_LONG, FOR_EVER] {
            let runtime = runtime(&strategy, 1, caller_works);
            let panics = one_box("panics", |_| panic!("out of ink"));
            let bad_schema = one_box("sends", |turn| turn.send(0, Envelope::new([Column::from(vec![1.5f64])])));
            let stalls = one_box("forgets its pill", |_| ());
            for (model, name) in [(panics, "panics"), (bad_schema, "sends")] {
                match wait(&submit(&runtime, &model), &strategy) {
                    Err(FlowError::Panicked { name: of, .. }) => assert_eq!(of, name, "{strategy}"),
                    other => panic!("{strategy}: {other:?}"),
                }
            }
            let error = wait(&submit(&runtime, &stalls), &strategy).unwrap_err();
            assert!(matches!(error, FlowError::Unfinished { .. }), "{strategy}: {error}");
            // A caller of its own budget.
            let holds = one_box("holds", |turn| {
                if let Err(error) = turn.book(1 << 30) {
                    vicus::give_up(error);
                }
            });
            let request = runtime.submit_here(&holds, Vec::new(), 1 << 20, &|| false);
            match wait(&request, &strategy) {
                Err(FlowError::Failed { error, .. }) => assert!(error.is::<OverBudget>(), "{strategy}"),
                other => panic!("{strategy}: {other:?}"),
            }
            // The thread goes on.
            let (model, _, sum) = chain(10);
            wait(&submit(&runtime, &model), &strategy).unwrap();
            assert_eq!(sum.load(Ordering::Relaxed), 45, "{strategy}");
        }
    }
}

#[test]
fn a_box_that_blocks_its_caller_leaves_the_other_boxes_to_the_threads() {
    // The first box blocks until the other one has run, in any order of their coming.
    #[derive(Default)]
    struct Gate(Mutex<bool>, Condvar);
    for strategy in strategies() {
        for opens_first in [false, true] {
            let runtime = runtime(&strategy, 1, FOR_EVER);
            let gate = Arc::new(Gate::default());
            let (passes, opens) = (Arc::clone(&gate), Arc::clone(&gate));
            let blocks = BoxModel::new("blocks", move || {
                let gate = Arc::clone(&passes);
                move |turn: &mut Turn<'_>| {
                    turn.take(0);
                    turn.blocking(|| {
                        let long = Duration::from_secs(60);
                        let (_open, late) =
                            gate.1.wait_timeout_while(gate.0.lock().unwrap(), long, |open| !*open).unwrap();
                        assert!(!late.timed_out(), "the other box never ran");
                    });
                    turn.send_pill(0);
                    Ok(())
                }
            });
            let opens = BoxModel::new("opens", move || {
                let gate = Arc::clone(&opens);
                move |turn: &mut Turn<'_>| {
                    turn.take(0);
                    *gate.0.lock().unwrap() = true;
                    gate.1.notify_all();
                    turn.send_pill(0);
                    Ok(())
                }
            });
            let mut net = ModelBuilder::new("blocking");
            let both = if opens_first { [opens, blocks] } else { [blocks, opens] };
            for model in both {
                let source: BoxId = net.source(model.output(&numbers()));
                net.end(source.output(0));
            }
            wait(&submit(&runtime, &net.build().unwrap()), &strategy).unwrap();
        }
    }
}

#[test]
fn what_a_box_spawns_on_a_caller_s_thread_is_its_own_runtime_s() {
    for strategy in strategies() {
        let runtime = runtime(&strategy, 2, FOR_EVER);
        let its_threads = Mutex::new(Vec::new());
        runtime.on_each_thread(|_, _| its_threads.lock().unwrap().push(std::thread::current().id()));
        let here = || std::thread::current().id();
        let log = Threads::default();
        let ran_on = Arc::clone(&log);
        let joins = one_box("joins", move |turn| {
            let (a, b) = vicus::tasks::join(here, here);
            log.lock().unwrap().extend([a, b]);
            turn.send_pill(0);
        });
        wait(&submit(&runtime, &joins), &strategy).unwrap();
        // From a task of another runtime, too.
        let other = Runtime::builder().threads(1).quiet().start();
        other.run(|| wait(&submit(&runtime, &joins), &strategy).map(drop)).unwrap();
        let (ran_on, its_threads) = (ran_on.lock().unwrap(), its_threads.lock().unwrap());
        assert_eq!(ran_on.len(), 4);
        assert!(ran_on.iter().all(|thread| its_threads.contains(thread)), "{strategy}");
        // Called in a task of the runtime itself, it runs on seats.
        let (model, _, sum) = chain(10);
        runtime.run(|| submit(&runtime, &model).wait()).unwrap();
        assert_eq!(sum.load(Ordering::Relaxed), 45);
    }
}

#[test]
fn what_a_box_does_after_its_pill_is_done_on_a_caller_s_thread_too() {
    for strategy in strategies() {
        for caller_works in [NOT_LONG, Duration::from_micros(20), FOR_EVER] {
            let (runtime, done) = (runtime(&strategy, 2, caller_works), Arc::new(AtomicUsize::new(0)));
            let (cleaned, said) = (Arc::clone(&done), Arc::new(AtomicBool::new(false)));
            let cleans = one_box("cleans", move |turn| {
                if said.swap(true, Ordering::Relaxed) {
                    cleaned.fetch_add(1, Ordering::Relaxed);
                } else {
                    turn.send_pill(0);
                    turn.run_again();
                }
            });
            wait(&submit(&runtime, &cleans), &strategy).unwrap();
            assert_eq!(done.load(Ordering::Relaxed), 1, "{strategy}");
        }
    }
}
