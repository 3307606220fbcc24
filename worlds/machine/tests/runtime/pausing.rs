//! Boxes waiting for something outside of their request: no thread waits with them, and they leave nothing behind.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};
use vicus_flow::{
    Bound, BoxError, BoxId, BoxModel, Budget, Envelope, FlowError, Model, ModelBuilder, Operator, Resume, Schema, Turn,
    Type, library,
};
use vicus_machine::{MachineRuntime, Request};
use vicus_schedule::ALL;
use vicus_trace::What;

const ENVELOPES: u64 = 200;

/// A source of numbers, and a box to take them. Returns the second one's id.
fn numbers() -> (Arc<Model>, BoxId) {
    let schema = Schema::new([("n", Type::U64)]);
    let mut net = ModelBuilder::new("numbers");
    let source = net.source(library::source("numbers", &schema, || {
        (0..ENVELOPES).map(|number| Envelope::new([vec![number; 100].into()]))
    }));
    let slow = net.add(library::sink("slow", &schema, |_| Ok(())));
    net.connect(source.output(0), slow.input(0));
    net.end(slow.output(0));
    (net.build().unwrap(), slow)
}

/// Pauses before each envelope, and hands over its resumer.
struct Pausing {
    other: Sender<Resume>,
    has_asked: bool,
    /// How many envelopes it took.
    taken: Arc<AtomicU64>,
}

impl Operator for Pausing {
    fn act(&mut self, turn: &mut Turn<'_>) -> Result<(), BoxError> {
        let Some(head) = turn.head(0) else { return Ok(()) };
        let is_pill = head.is_pill();
        if !self.has_asked {
            self.has_asked = true;
            let resume = turn.pause().expect("threads have an outside");
            // A receiver that does not listen drops it, and the drop resumes the box.
            let _ = self.other.send(resume);
            return Ok(());
        }
        self.has_asked = false;
        turn.take(0);
        if is_pill {
            turn.send_pills();
        } else {
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn pausing() -> (Box<dyn Operator>, Receiver<Resume>, Arc<AtomicU64>) {
    let (other, receiver) = mpsc::channel();
    let taken = Arc::new(AtomicU64::new(0));
    (Box::new(Pausing { other, has_asked: false, taken: Arc::clone(&taken) }), receiver, taken)
}

/// Waits for a request that ends soon unless there is a mistake.
fn wait(request: &Request, what: &str) -> Result<(), FlowError> {
    let result = request.wait_for(Duration::from_secs(60));
    result.unwrap_or_else(|| panic!("a request never ended: {what}")).map(drop)
}

fn is_cancelled(request: &Request, what: &str) -> bool {
    matches!(wait(request, what), Err(FlowError::Cancelled))
}

/// By both ways of submitting a request.
fn submitted(
    runtime: &MachineRuntime,
    here: bool,
    model: &Arc<Model>,
    slow: BoxId,
    operator: Box<dyn Operator>,
) -> Request {
    match here {
        true => runtime.submit_here(model, vec![(slow, operator)], Budget::UNBOUNDED, &|| false),
        false => runtime.submit_with(model, vec![(slow, operator)]),
    }
}

#[test]
fn a_paused_box_goes_on_when_it_is_resumed_and_never_before() {
    let (model, slow) = numbers();
    for (strategy, here) in ALL.iter().flat_map(|strategy| [(strategy, false), (strategy, true)]) {
        let name = strategy.name();
        let runtime = MachineRuntime::builder().strategy(name.parse().unwrap()).threads(3).quiet().start();
        let (operator, resumes, taken) = pausing();
        let request = submitted(&runtime, here, &model, slow, operator);
        let mut count = 0;
        while let Ok(resume) = resumes.recv_timeout(Duration::from_secs(60)) {
            assert_eq!(taken.load(Ordering::Relaxed), count, "{name}: it took no envelope while it was paused");
            // Now at once, now when its invocation is surely over.
            if count % 16 == 0 {
                std::thread::sleep(Duration::from_micros(200));
                assert_eq!(taken.load(Ordering::Relaxed), count, "{name}");
                assert!(!request.is_done(), "{name}: a paused box keeps its request open");
            }
            count += 1;
            drop(resume);
        }
        wait(&request, name).unwrap();
        // One pause more, for the pill.
        assert_eq!((taken.load(Ordering::Relaxed), count), (ENVELOPES, ENVELOPES + 1), "{name}, here: {here}");
    }
}

/// A source and a filter always have something to do, and the box behind them is resumed from outside.
#[test]
fn a_resumed_box_goes_on_beside_boxes_that_never_rest() {
    let schema = Schema::new([("n", Type::U64)]);
    let mut net = ModelBuilder::new("never rests");
    let source = net.source(library::source("numbers", &schema, || {
        (0..u64::MAX).map(|number| Envelope::new([vec![number; 100].into()]))
    }));
    let filter = || {
        |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(0) {
                Some(envelope) if envelope.is_pill() || envelope.column(0).u64s()[0] == 0 => turn.send(0, envelope),
                _ => {}
            }
            Ok(())
        }
    };
    let first = net.add(BoxModel::new("first", filter).input(&schema).output(&schema));
    let slow = net.add(library::sink("slow", &schema, |_| Ok(())));
    net.connect(source.output(0), first.input(0));
    net.connect(first.output(0), slow.input(0));
    net.end(slow.output(0));
    let model = net.build().unwrap();
    for (strategy, threads) in ALL.iter().flat_map(|strategy| [(strategy, 1), (strategy, 2)]) {
        let name = strategy.name();
        let runtime = MachineRuntime::builder().strategy(name.parse().unwrap()).threads(threads).quiet().start();
        let (operator, resumes, taken) = pausing();
        let request = runtime.submit_with(&model, vec![(slow, operator)]);
        let resume = resumes.recv_timeout(Duration::from_secs(60)).unwrap();
        // The box is paused by now, most likely.
        std::thread::sleep(Duration::from_millis(5));
        drop(resume);
        let end = Instant::now() + Duration::from_secs(60);
        while taken.load(Ordering::Relaxed) == 0 {
            assert!(Instant::now() < end, "{name}, {threads} threads: a resumed box does not go on");
            std::thread::sleep(Duration::from_millis(1));
        }
        request.cancel();
        assert!(is_cancelled(&request, name));
    }
}

/// Any end of a request with a paused box ends the request at once, and later resuming has no effect.
#[test]
fn a_request_with_a_paused_box_can_be_cancelled() {
    let (model, slow) = numbers();
    for (strategy, here) in ALL.iter().flat_map(|strategy| [(strategy, false), (strategy, true)]) {
        let name = strategy.name();
        let runtime = MachineRuntime::builder().strategy(name.parse().unwrap()).threads(2).quiet().start();
        let (operator, resumes, _) = pausing();
        let request = submitted(&runtime, here, &model, slow, operator);
        let resume = resumes.recv_timeout(Duration::from_secs(60)).unwrap();
        let (tell, told) = mpsc::channel();
        request.when_done(move || tell.send(()).unwrap());
        request.cancel();
        assert!(is_cancelled(&request, name), "{name}, here: {here}");
        assert!(told.recv_timeout(Duration::from_secs(60)).is_ok(), "{name}: who asked is told");
        drop(resume);
        // The runtime ends though a box is paused.
        let (operator, resumes, _) = pausing();
        let request = submitted(&runtime, here, &model, slow, operator);
        let resume = resumes.recv_timeout(Duration::from_secs(60)).unwrap();
        drop(runtime);
        assert!(is_cancelled(&request, name), "{name}, here: {here}");
        drop(resume);
    }
}

/// Resuming, cancelling and the end of an invocation meet in any order.
#[test]
fn pauses_and_cancels_race() {
    let (model, slow) = numbers();
    let head_starts = [Duration::ZERO, Duration::from_millis(1)];
    for (strategy, head_start) in ALL.iter().flat_map(|strategy| head_starts.map(|head_start| (strategy, head_start))) {
        let name = strategy.name();
        let builder = MachineRuntime::builder().strategy(name.parse().unwrap()).threads(2);
        let runtime = builder.head_start(head_start).quiet().start();
        // With it, the paused and cancelled boxes have another request beside them.
        let (operator, _other_resumes, _) = pausing();
        let _other = submitted(&runtime, false, &model, slow, operator);
        let rounds = if cfg!(debug_assertions) { 50 } else { 400 };
        for round in 0..rounds {
            let (operator, resumes, _) = pausing();
            let request = Arc::new(submitted(&runtime, round % 2 == 0, &model, slow, operator));
            let together = Arc::new(Barrier::new(2));
            let canceller = {
                let (request, together) = (Arc::clone(&request), Arc::clone(&together));
                std::thread::spawn(move || {
                    together.wait();
                    request.cancel();
                })
            };
            together.wait();
            resumes.iter().take(round % 7).for_each(drop);
            canceller.join().unwrap();
            assert!(is_cancelled(&request, name), "{name}, round {round}");
        }
    }
}

/// Many requests wait at once, on two threads: none of them has a thread, and others are answered meanwhile.
#[test]
fn many_paused_boxes_take_no_thread() {
    let (model, slow) = numbers();
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    for strategy in ALL {
        let name = strategy.name();
        let runtime = MachineRuntime::builder().strategy(name.parse().unwrap()).threads(2).quiet().start();
        let before = threads();
        let count = if cfg!(debug_assertions) { 200 } else { 1000 };
        let paused: Vec<_> = (0..count)
            .map(|_| {
                let (operator, resumes, _) = pausing();
                let request = submitted(&runtime, false, &model, slow, operator);
                let resume = resumes.recv_timeout(Duration::from_secs(60)).unwrap();
                (request, resumes, resume)
            })
            .collect();
        // Other tests run beside this one, and have their threads.
        assert!(threads() < before + 100, "{name}");
        let began = Instant::now();
        wait(&runtime.submit(&model), name).unwrap();
        assert!(began.elapsed() < Duration::from_secs(30), "{name}");
        for (request, resumes, resume) in paused {
            // Nobody listens any more, so each further pause is over at once.
            drop((resume, resumes));
            wait(&request, name).unwrap();
        }
    }
}

/// A trace has the queuer of a box resumed from outside, and holds against the box protocol.
#[test]
fn resuming_is_recorded() {
    let (model, slow) = numbers();
    let runtime = MachineRuntime::builder().threads(2).record(1 << 16).quiet().start();
    let (operator, resumes, _) = pausing();
    let request = runtime.submit_with(&model, vec![(slow, operator)]);
    resumes.iter().for_each(drop);
    wait(&request, "recorded").unwrap();
    drop(request);
    let trace = runtime.trace().unwrap();
    assert_eq!(trace.check(), []);
    let by_none = |what: &What| matches!(what, What::Enqueued { by, .. } if *by == vicus_trace::JobId::NONE);
    let from_outside = trace.by_time().filter(|entry| by_none(&entry.event.what)).count();
    assert!(from_outside > 1, "the first box, and resumed ones: {from_outside}");
}

/// What happened: a box that paused while envelopes waited within its overdraft slept on when its receiver had room.
/// Here the receiver resumes it when it has taken all of them, so it would sleep for ever.
#[test]
fn a_paused_box_sends_what_waits_within_its_overdraft() {
    let schema = Schema::new([("n", Type::U64)]);
    for strategy in ALL.map(|strategy| strategy.name()) {
        for threads in [1, 2, 8] {
            let mut net = ModelBuilder::new("parts of a whole");
            net.default_bound(Bound { envelopes: 2, ..Bound::default() });
            let source = net.source(library::source("numbers", &schema, || {
                (0..ENVELOPES).map(|number| Envelope::new([vec![number].into()]))
            }));
            // Sends everything to both; pauses between the two pills, and hands over its resumer.
            let slot: Arc<Mutex<Option<Resume>>> = Arc::default();
            let into = Arc::clone(&slot);
            let both = move || {
                let (into, mut has_paused) = (Arc::clone(&into), false);
                move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                    match turn.take(0) {
                        Some(pill) if pill.is_pill() => {
                            // The reader may come for it before this box has paused.
                            let mut slot = into.lock().unwrap();
                            turn.send_pill(0);
                            has_paused = true;
                            *slot = turn.pause();
                        }
                        Some(envelope) => {
                            turn.send(0, envelope.clone());
                            turn.send(1, envelope);
                        }
                        None if has_paused => turn.send_pill(1),
                        None => {}
                    }
                    Ok(())
                }
            };
            let both = net.add(BoxModel::new("both", both).input(&schema).output(&schema).output(&schema));
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
            let sum = net.add(BoxModel::new("sum", sum).input(&schema).output(&schema));
            // Takes the sum first, then the numbers; behind the last of these it resumes the box before it.
            let last = move || {
                let (slot, mut input, mut taken) = (Arc::clone(&slot), 0, 0);
                move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                    match turn.take(input) {
                        Some(pill) if pill.is_pill() && input == 0 => {
                            input = 1;
                            turn.run_again();
                        }
                        Some(pill) if pill.is_pill() => turn.send_pill(0),
                        Some(_) if input == 1 => {
                            taken += 1;
                            if taken == ENVELOPES {
                                drop(slot.lock().unwrap().take());
                            }
                        }
                        _ => {}
                    }
                    Ok(())
                }
            };
            let last = net.add(BoxModel::new("last", last).input(&schema).input(&schema).output(&schema));
            net.connect(source.output(0), both.input(0));
            net.connect(both.output(0), sum.input(0));
            net.connect(sum.output(0), last.input(0));
            net.connect(both.output(1), last.input(1));
            net.end(last.output(0));
            let model = net.build().unwrap();
            let runtime =
                MachineRuntime::builder().strategy(strategy.parse().unwrap()).threads(threads).quiet().start();
            for _ in 0..3 {
                let request = runtime.submit(&model);
                wait(&request, strategy).unwrap();
                let lent: u64 = request.counts().iter().flat_map(|counts| &counts.outputs).map(|o| o.overdraft).sum();
                assert!(lent > 0, "{strategy}, {threads} threads");
            }
        }
    }
}
