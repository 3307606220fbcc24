//! Boxes that submit requests of their own, and pause until these are over.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use vicus_flow::{
    Bound, BoxError, BoxModel, Budget, Envelope, FlowError, Inner, Model, ModelBuilder, Overflows, Schema, Totals,
    Turn, Type, library, sequential,
};
use vicus_machine::{MachineRuntime, Request, RequestOptions, TemporaryFiles};
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

/// Tells its name for each envelope, before it passes it on.
fn tells(name: &'static str, told: &Arc<Mutex<Vec<&'static str>>>) -> BoxModel {
    let told = Arc::clone(told);
    BoxModel::new(name, move || {
        let told = Arc::clone(&told);
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(0) {
                Some(pill) if pill.is_pill() => turn.send_pill(0),
                Some(envelope) => {
                    told.lock().unwrap().push(name);
                    turn.send(0, envelope);
                }
                None => {}
            }
            Ok(())
        }
    })
}

/// What happened: an inner request was as old as its submission, and waited for all that had come meanwhile.
#[test]
fn an_inner_request_is_as_old_as_its_outer_one() {
    let runtime = MachineRuntime::builder().strategy("las".parse().unwrap()).threads(1).quiet().start();
    let told = Arc::default();
    let inner = around(3, tells("inner", &told));
    let (reached, is_reached) = mpsc::channel();
    let (goes_on, waits) = mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(Some((reached, waits))));
    let outer = BoxModel::new("outer", move || {
        let (inner, gate, mut running) = (Arc::clone(&inner), Arc::clone(&gate), None::<Inner>);
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            // The only thread waits here until a later request is there.
            if let Some((reached, waits)) = gate.lock().unwrap().take() {
                reached.send(())?;
                waits.recv()?;
            }
            match running.get_or_insert_with(|| turn.submit(&inner, Vec::new())).result() {
                None => return Ok(()),
                Some(result) => drop(result?),
            }
            match turn.take(0) {
                Some(pill) if pill.is_pill() => turn.send_pill(0),
                Some(envelope) => turn.send(0, envelope),
                None => {}
            }
            Ok(())
        }
    });
    let outer = runtime.submit(&around(1, outer));
    is_reached.recv().unwrap();
    let later = runtime.submit(&around(3, tells("later", &told)));
    goes_on.send(()).unwrap();
    wait(&outer, "outer").unwrap();
    wait(&later, "later").unwrap();
    assert_eq!(*told.lock().unwrap(), ["inner", "inner", "inner", "later", "later", "later"]);
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

/// Boxes around each number: those of a request with a source, a box and both ends.
const BOXES: usize = 4;

/// What happened: each inner request had a bound of its own, so recursion by requests had none.
#[test]
fn boxes_of_inner_requests_count_as_the_outer_one_s() {
    const DEPTH: usize = 30;
    for strategy in ALL {
        let name = strategy.name();
        let runtime = MachineRuntime::builder().strategy(name.parse().unwrap()).threads(2).quiet().start();
        let passed = Arc::default();
        // One after the other, so no more live at once than of two requests.
        let flat = around(100, runs(&around(1, counts(&passed))));
        let mut deep = around(1, counts(&passed));
        for _ in 1..DEPTH {
            deep = around(1, runs(&deep));
        }
        assert_eq!(deep.boxes().len(), BOXES);
        let most = |most: usize| RequestOptions { most_boxes: NonZeroUsize::new(most), ..RequestOptions::default() };
        for here in [false, true] {
            let run = |model: &Arc<Model>, options| match here {
                true => runtime.submit_here(model, Vec::new(), options, &|| false),
                false => runtime.submit_within(model, Vec::new(), options),
            };
            wait(&run(&flat, most(2 * BOXES)), name).unwrap_or_else(|error| panic!("{name}: {error}"));
            wait(&run(&deep, most(DEPTH * BOXES)), name).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(passed.swap(0, Ordering::Relaxed), 101, "{name}");
            let error = wait(&run(&deep, most(DEPTH * BOXES - 1)), name).unwrap_err();
            let told = format!("{error}");
            assert!(told.contains(&(DEPTH * BOXES - 1).to_string()), "{name}: {told}");
            assert_eq!(passed.load(Ordering::Relaxed), 0, "{name}");
        }
    }
}

/// Sends all numbers to a box that sends their sum at the end, and to one that takes the sum first.
fn sums_first(count: u64, taken: &Arc<AtomicUsize>) -> Arc<Model> {
    let mut net = ModelBuilder::new("sums first");
    net.default_bound(Bound { envelopes: 2, ..Bound::default() });
    let rows = move || (0..count).map(|n| Envelope::new([vec![n].into()]));
    let source = net.source(library::source("numbers", &numbers(), rows));
    let sum = || {
        let mut sum = 0;
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(0) {
                Some(pill) if pill.is_pill() => {
                    turn.send(0, Envelope::new([vec![sum].into()]));
                    turn.send_pill(0);
                }
                Some(envelope) => sum += envelope.column(0).u64s()[0],
                None => {}
            }
            Ok(())
        }
    };
    let sum = net.add(BoxModel::new("sum", sum).input(&numbers()).output(&numbers()));
    let taken = Arc::clone(taken);
    let last = move || {
        let (taken, mut at) = (Arc::clone(&taken), 0);
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(at) {
                Some(pill) if pill.is_pill() && at == 1 => turn.send_pill(0),
                Some(pill) if pill.is_pill() => {
                    at = 1;
                    turn.run_again();
                }
                Some(_) => {
                    taken.fetch_add(1, Ordering::Relaxed);
                }
                None => {}
            }
            Ok(())
        }
    };
    let last = net.add(BoxModel::new("last", last).input(&numbers()).input(&numbers()).output(&numbers()));
    net.connect(source.output(0), sum.input(0));
    net.connect(sum.output(0), last.input(0));
    net.connect(source.output(0), last.input(1));
    net.end(last.output(0));
    net.build().unwrap()
}

/// What happened: an inner request had the outer budget, and not its temporary files.
#[test]
fn an_inner_request_writes_to_the_outer_one_s_files() {
    const NUMBERS: u64 = 1000;
    for strategy in ALL {
        let name = strategy.name();
        let runtime = MachineRuntime::builder().strategy(name.parse().unwrap()).threads(2).quiet().start();
        let taken = Arc::default();
        let model = around(2, runs(&around(1, runs(&sums_first(NUMBERS, &taken)))));
        for (files, here) in [(true, false), (true, true), (false, false)] {
            let folder = files.then(|| TemporaryFiles::within(&std::env::temp_dir(), u64::MAX).unwrap());
            let overflows = folder.map(|folder| folder as Arc<dyn Overflows>);
            let options = RequestOptions { overflows, ..RequestOptions::from(4000) };
            let request = match here {
                true => runtime.submit_here(&model, Vec::new(), options, &|| false),
                false => runtime.submit_within(&model, Vec::new(), options),
            };
            let result = wait(&request, name);
            let count = taken.swap(0, Ordering::Relaxed);
            match files {
                true => {
                    result.unwrap_or_else(|error| panic!("{name}: {error}"));
                    assert_eq!(count, 2 * (NUMBERS as usize + 1), "{name}");
                }
                false => assert!(result.unwrap_err().to_string().contains("wait"), "{name}: there is no room"),
            }
        }
    }
}
