//! Boxes that wait for each other beside boxes that wait for something outside of their request.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vicus_flow::{
    Bound, BoxError, BoxModel, Budget, Envelope, FlowError, Model, ModelBuilder, Resume, Schema, Turn, Type, library,
};
use vicus_machine::{MachineRuntime, Request, RequestOptions, streams};
use vicus_schedule::ALL;

const NUMBERS: u64 = 100;

/// A request that should be over long before this.
const LONG: Duration = Duration::from_secs(30);

fn schema() -> Schema {
    Schema::new([("n", Type::U64)])
}

fn runtime(strategy: &str, threads: usize) -> MachineRuntime {
    MachineRuntime::builder().strategy(strategy.parse().unwrap()).threads(threads).quiet().start()
}

/// Sums up all numbers, and sends the sum.
fn sum() -> impl FnMut(&mut Turn<'_>) -> Result<(), BoxError> {
    let mut sum = 0;
    move |turn: &mut Turn<'_>| {
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
}

/// Takes all of its first input before the second, tells each number, and ends behind both.
fn divide(tell: Sender<u64>) -> impl FnMut(&mut Turn<'_>) -> Result<(), BoxError> {
    let mut at = 0;
    move |turn: &mut Turn<'_>| {
        match turn.take(at) {
            Some(pill) if pill.is_pill() && at == 1 => turn.send_pill(0),
            Some(pill) if pill.is_pill() => {
                at = 1;
                turn.run_again();
            }
            Some(envelope) => tell.send(envelope.column(0).u64s()[0])?,
            None => {}
        }
        Ok(())
    }
}

/// Numbers to a box that sends their sum at the end, and to another one that needs the sum first: vias of two envelopes
/// do not have room for them. `beside` adds boxes. Gives what the last box takes.
fn parts_of_a_whole(beside: impl FnOnce(&mut ModelBuilder)) -> (Arc<Model>, Receiver<u64>) {
    let mut net = ModelBuilder::new("parts of a whole");
    net.default_bound(Bound { envelopes: 2, ..Bound::default() });
    let numbers = || (1..=NUMBERS).map(|n| Envelope::new([vec![n].into()]));
    let source = net.source(library::source("numbers", &schema(), numbers));
    let sum = net.add(BoxModel::new("sum", sum).input(&schema()).output(&schema()));
    let (tell, told) = mpsc::channel();
    let last = BoxModel::new("divide", move || divide(tell.clone()));
    let last = net.add(last.input(&schema()).input(&schema()).output(&schema()));
    net.connect(source.output(0), sum.input(0));
    net.connect(sum.output(0), last.input(0));
    net.connect(source.output(0), last.input(1));
    net.end(last.output(0));
    beside(&mut net);
    (net.build().unwrap(), told)
}

/// The sum of the numbers from 1 to 100, and they themselves.
fn expected() -> Vec<u64> {
    [5050].into_iter().chain(1..=NUMBERS).collect()
}

fn take(told: &Receiver<u64>, what: &str) -> Vec<u64> {
    let next = || told.recv_timeout(LONG).unwrap_or_else(|_| panic!("{what}: the request waits for ever"));
    (0..=NUMBERS).map(|_| next()).collect()
}

/// Every way to submit a request, under every strategy.
fn each(mut test: impl FnMut(&str, &dyn Fn(&Arc<Model>, RequestOptions) -> Request)) {
    for (strategy, threads) in ALL.iter().flat_map(|strategy| [1, 2, 8].map(|threads| (strategy, threads))) {
        let name = strategy.name();
        let runtime = runtime(name, threads);
        test(&format!("{name}, {threads} threads"), &|model, options| {
            runtime.submit_within(model, Vec::new(), options)
        });
        test(&format!("{name}, {threads} threads, here"), &|model, options| {
            runtime.submit_here(model, Vec::new(), options, &|| false)
        });
    }
}

/// What happened: a request with a paused box was never without something queued, so no stall was found in it.
#[test]
fn boxes_that_wait_for_each_other_go_on_beside_ticks() {
    let (model, told) = parts_of_a_whole(|net| {
        let ticks = net.source(streams::ticks("ticks", Duration::from_secs(3600), None).unwrap());
        let end = net.add(library::sink("end", &streams::tick_schema(), |_| Ok(())));
        net.connect(ticks.output(0), end.input(0));
        net.end(end.output(0));
    });
    each(|what, submit| {
        let request = submit(&model, RequestOptions::default());
        assert_eq!(take(&told, what), expected(), "{what}");
        assert!(!request.is_done(), "{what}: the next tick is to come");
        request.cancel();
        assert!(matches!(request.wait_for(LONG), Some(Err(FlowError::Cancelled))), "{what}");
    });
}

/// A source that pauses at once, hands over its resumer, and ends when it is resumed.
fn pausing(other: Sender<Resume>) -> impl FnMut(&mut Turn<'_>) -> Result<(), BoxError> {
    let mut has_paused = false;
    move |turn: &mut Turn<'_>| {
        turn.take(0);
        if std::mem::replace(&mut has_paused, true) {
            turn.send_pill(0);
        } else {
            other.send(turn.pause().expect("threads have an outside"))?;
        }
        Ok(())
    }
}

/// Adds such a source.
fn add_pausing(net: &mut ModelBuilder, other: Sender<Resume>) {
    let source = net.source(BoxModel::new("pausing", move || pausing(other.clone())).output(&schema()));
    net.end(source.output(0));
}

#[test]
fn the_request_ends_when_its_paused_box_goes_on() {
    let (other, resumes) = mpsc::channel();
    let (model, told) = parts_of_a_whole(|net| add_pausing(net, other));
    each(|what, submit| {
        let request = submit(&model, RequestOptions::default());
        let resume = resumes.recv_timeout(LONG).unwrap();
        assert_eq!(take(&told, what), expected(), "{what}");
        assert!(!request.is_done(), "{what}: a paused box keeps its request open");
        drop(resume);
        request.wait_for(LONG).unwrap_or_else(|| panic!("{what}: it never ended")).unwrap();
        let lent: u64 = request.counts().iter().flat_map(|counts| &counts.outputs).map(|output| output.overdraft).sum();
        assert!(lent > 0, "{what}");
    });
}

/// Without memory for it the request fails with the circle, and the box that is paused is no part of it.
#[test]
fn a_circle_without_memory_for_it_fails_though_a_box_is_paused() {
    let (other, resumes) = mpsc::channel();
    let (model, _told) = parts_of_a_whole(|net| add_pausing(net, other));
    each(|what, submit| {
        let request = submit(&model, Budget::from(0).into());
        let resume = resumes.recv_timeout(LONG).unwrap();
        let result = request.wait_for(LONG).unwrap_or_else(|| panic!("{what}: it never ended"));
        let Err(FlowError::Stalled { cycle, outside: None }) = result else { panic!("{what}: {result:?}") };
        let names = ["numbers", "sum", "divide"];
        let of = |reason: &String| names.iter().position(|name| reason.starts_with(name)).expect("one of the three");
        let mut found: Vec<usize> = cycle.iter().map(of).collect();
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2], "{what}: {cycle:?}");
        drop(resume);
    });
}

/// A circle through a paused box is none: the box goes on by itself, and then there is room.
#[test]
fn a_paused_box_on_the_circle_may_go_on_by_itself() {
    const BEFORE: u64 = 2;
    let (other, resumes) = mpsc::channel();
    let mut net = ModelBuilder::new("half of a circle");
    net.default_bound(Bound { envelopes: 2, ..Bound::default() });
    let numbers = || (1..=NUMBERS).map(|n| Envelope::new([vec![n].into()]));
    let source = net.source(library::source("numbers", &schema(), numbers));
    // Pauses behind the second number, and sends one number before it takes more.
    let early = move || {
        let (other, mut count) = (other.clone(), 0);
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            if count == BEFORE {
                count += 1;
                turn.send(0, Envelope::new([vec![0u64].into()]));
                turn.send_pill(0);
            }
            match turn.take(0) {
                Some(envelope) if !envelope.is_pill() => count += 1,
                _ => return Ok(()),
            }
            if count == BEFORE {
                other.send(turn.pause().expect("threads have an outside"))?;
            }
            Ok(())
        }
    };
    let early = net.add(BoxModel::new("early", early).input(&schema()).output(&schema()));
    let (tell, told) = mpsc::channel();
    let last = BoxModel::new("divide", move || divide(tell.clone()));
    let last = net.add(last.input(&schema()).input(&schema()).output(&schema()));
    net.connect(source.output(0), early.input(0));
    net.connect(early.output(0), last.input(0));
    net.connect(source.output(0), last.input(1));
    net.end(last.output(0));
    let model = net.build().unwrap();
    each(|what, submit| {
        // Nothing may be lent, so a stall would be an error.
        let request = submit(&model, Budget::from(0).into());
        let resume = resumes.recv_timeout(LONG).unwrap();
        // Until the others have nothing to do, most likely.
        std::thread::sleep(Duration::from_millis(2));
        assert!(!request.is_done(), "{what}");
        drop(resume);
        let result = request.wait_for(LONG).unwrap_or_else(|| panic!("{what}: it never ended"));
        result.unwrap_or_else(|error| panic!("{what}: {error}"));
        let expected: Vec<u64> = [0].into_iter().chain(1..=NUMBERS).collect();
        assert_eq!(take(&told, what), expected, "{what}");
    });
}

/// Resumes, cancels and looks for a circle meet in any order.
#[test]
fn resumes_and_looks_for_circles_race() {
    // Pauses again and again, until the numbers have come.
    let taken = Arc::new(Mutex::new(false));
    let (other, resumes) = mpsc::channel::<Resume>();
    let done = Arc::clone(&taken);
    let (model, told) = parts_of_a_whole(|net| {
        let again = move || {
            let (other, done) = (other.clone(), Arc::clone(&done));
            move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                turn.take(0);
                if *done.lock().unwrap() {
                    turn.send_pill(0);
                } else {
                    other.send(turn.pause().expect("threads have an outside"))?;
                }
                Ok(())
            }
        };
        let again = net.source(BoxModel::new("again", again).output(&schema()));
        net.end(again.output(0));
    });
    // Resumes each at once, or a little later.
    let resumer = std::thread::spawn(move || {
        for (number, resume) in resumes.iter().enumerate() {
            if number % 3 > 0 {
                std::thread::sleep(Duration::from_micros(number as u64 % 40));
            }
            drop(resume);
        }
    });
    let rounds = if cfg!(debug_assertions) { 3 } else { 20 };
    for round in 0..rounds {
        each(|what, submit| {
            *taken.lock().unwrap() = false;
            let request = submit(&model, RequestOptions::default());
            if round % 4 == 3 {
                request.cancel();
                assert!(request.wait_for(LONG).is_some(), "{what}: it never ended");
                while told.try_recv().is_ok() {}
                return;
            }
            assert_eq!(take(&told, what), expected(), "{what}");
            *taken.lock().unwrap() = true;
            let result = request.wait_for(LONG).unwrap_or_else(|| panic!("{what}: it never ended"));
            result.unwrap_or_else(|error| panic!("{what}: {error}"));
        });
    }
    drop(model);
    resumer.join().unwrap();
}
