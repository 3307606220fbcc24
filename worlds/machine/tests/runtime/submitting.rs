//! Boxes that submit requests of their own, and pause until these are over.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use vicus_flow::{
    BoxError, BoxModel, Budget, Envelope, FlowError, Inner, Model, ModelBuilder, Schema, Totals, Turn, Type, library,
    sequential,
};
use vicus_machine::{MachineRuntime, Request};
use vicus_schedule::ALL;

fn numbers() -> Schema {
    Schema::new([("n", Type::U64)])
}

fn wait(request: &Request, what: &str) -> Result<Totals, FlowError> {
    request.wait_for(Duration::from_secs(60)).unwrap_or_else(|| panic!("a request never ended: {what}"))
}

/// A box between a source of so many numbers and the end.
fn around(count: u64, model: BoxModel) -> Arc<Model> {
    let mut net = ModelBuilder::new("around");
    let rows = move || (0..count).map(|n| Envelope::new([vec![n].into()]));
    let source = net.source(library::source("numbers", &numbers(), rows));
    let inner = net.add(model.input(&numbers()).output(&numbers()));
    net.connect(source.output(0), inner.input(0));
    net.end(inner.output(0));
    net.build().unwrap()
}

/// Runs another model for each envelope before it passes it on.
fn runs(other: &Arc<Model>) -> BoxModel {
    let other = Arc::clone(other);
    BoxModel::new("runs", move || {
        let (other, mut inner) = (Arc::clone(&other), None::<Inner>);
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            if turn.head(0).is_some_and(|head| !head.is_pill()) {
                match inner.get_or_insert_with(|| turn.submit(&other, Vec::new())).result() {
                    None => return Ok(()),
                    Some(result) => drop(result?),
                }
                inner = None;
            }
            match turn.take(0) {
                Some(pill) if pill.is_pill() => turn.send_pill(0),
                Some(envelope) => turn.send(0, envelope),
                None => {}
            }
            Ok(())
        }
    })
}

/// Counts the envelopes that it passes on.
fn counts(passed: &Arc<AtomicUsize>) -> BoxModel {
    let passed = Arc::clone(passed);
    BoxModel::new("counts", move || {
        let passed = Arc::clone(&passed);
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(0) {
                Some(pill) if pill.is_pill() => turn.send_pill(0),
                Some(envelope) => {
                    passed.fetch_add(1, Ordering::Relaxed);
                    turn.send(0, envelope);
                }
                None => {}
            }
            Ok(())
        }
    })
}

/// Runs until it is stopped.
fn endless(alive: &Arc<()>) -> BoxModel {
    let alive = Arc::clone(alive);
    BoxModel::new("endless", move || {
        let alive = Arc::clone(&alive);
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            let _ = &alive;
            turn.run_again();
            Ok(())
        }
    })
}

#[test]
fn requests_are_nested_on_one_thread_under_every_strategy() {
    for strategy in ALL {
        for here in [false, true] {
            let name = strategy.name();
            let runtime = MachineRuntime::builder().strategy(name.parse().unwrap()).threads(1).quiet().start();
            let passed = Arc::default();
            let mut model = around(2, counts(&passed));
            for _ in 0..6 {
                model = around(2, runs(&model));
            }
            let request = match here {
                true => runtime.submit_here(&model, Vec::new(), Budget::UNBOUNDED, &|| false),
                false => runtime.submit(&model),
            };
            wait(&request, name).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(passed.load(Ordering::Relaxed), 1 << 7, "{name}");
        }
    }
}

#[test]
fn requests_are_nested_as_deep_as_memory_allows() {
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    let passed = Arc::default();
    let mut model = around(1, counts(&passed));
    for _ in 0..3000 {
        model = around(1, runs(&model));
    }
    wait(&runtime.submit(&model), "3000 deep").unwrap();
    assert_eq!(passed.load(Ordering::Relaxed), 1);
    // Models are nested as well: they are dropped one in the other.
    std::mem::forget(model);
}

#[test]
fn an_inner_request_ends_with_the_outer_one() {
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    let alive = Arc::new(());
    let inner = around(1, endless(&alive));
    let request = runtime.submit(&around(1, runs(&inner)));
    let began = Instant::now();
    // The model, its factory, and the operator of the inner request.
    while Arc::strong_count(&alive) < 3 {
        assert!(began.elapsed() < Duration::from_secs(60), "the inner request begins");
        std::thread::sleep(Duration::from_micros(100));
    }
    request.cancel();
    assert!(matches!(wait(&request, "cancelled"), Err(FlowError::Cancelled)));
    while Arc::strong_count(&alive) > 2 {
        assert!(began.elapsed() < Duration::from_secs(60), "the inner request ends");
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn an_inner_request_s_error_comes_to_the_box_and_its_memory_is_the_outer_one_s() {
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    let fails = BoxModel::new("fails", || |_: &mut Turn<'_>| -> Result<(), BoxError> { Err("out of paper".into()) });
    let error = wait(&runtime.submit(&around(1, runs(&around(1, fails)))), "fails").unwrap_err();
    assert_eq!(error.to_string(), "box runs failed: box fails failed: out of paper");
    let keeps = || {
        BoxModel::new("keeps", || {
            |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                turn.book(1 << 20)?;
                turn.close(0);
                turn.send_pill(0);
                Ok(())
            }
        })
    };
    let model = around(1, runs(&around(1, keeps())));
    wait(&runtime.submit_within(&model, Vec::new(), 2 << 20), "enough").unwrap();
    let error = wait(&runtime.submit_within(&model, Vec::new(), 1 << 19), "too much").unwrap_err();
    assert!(error.to_string().contains("more than 512.0 KiB is needed"), "{error}");
}

/// Without threads there is no outside: the inner request runs within the call.
#[test]
fn a_world_without_an_outside_runs_it_at_once() {
    let passed = Arc::default();
    let model = around(3, runs(&around(2, counts(&passed))));
    let order = Mutex::new(0);
    let pick = |tasks: usize| {
        let mut next = order.lock().unwrap();
        *next += 1;
        *next % tasks
    };
    sequential::run(&model, Vec::new(), pick).unwrap();
    assert_eq!(passed.load(Ordering::Relaxed), 6);
}
