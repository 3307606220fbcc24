//! A request submitted by a task or a box is a part of the submitter's request: it is cancelled with it, it books with
//! it, and memory alone limits the number of requests waiting for each other. What happened: the inner one ran on when
//! the outer one was cancelled, had no budget, and five hundred within each other took seconds, a thousand had no end.

use crate::one_box::{one_box, one_box_that};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use vicus_flow::{BoxModel, Budget, FlowError, ModelBuilder, Schema, Turn};
use vicus_machine::{MachineRuntime, is_cancelled, reserve, scope};
use vicus_schedule::ALL;

/// A test above this time has failed.
const LIMIT: Duration = Duration::from_secs(20);

fn runtimes() -> impl Iterator<Item = Arc<MachineRuntime>> {
    let of = |strategy: &'static str, threads| {
        let builder = MachineRuntime::builder().threads(threads).strategy(strategy.parse().unwrap());
        Arc::new(builder.caller_works(Duration::MAX).quiet().start())
    };
    ALL.into_iter().flat_map(move |strategy| [1, 2, 8].map(|threads| of(strategy.name(), threads)))
}

/// The request submitted and awaited by a task or a box.
#[derive(Clone, Copy, Debug)]
enum Inner {
    Task,
    Boxes,
    /// A request with a further one inside.
    Two,
    /// A task with a working child.
    Scope,
    /// A task of another runtime.
    Other,
    OtherRuns,
}

const INNER: [Inner; 6] = [Inner::Task, Inner::Boxes, Inner::Two, Inner::Scope, Inner::Other, Inner::OtherRuns];

/// Both runtimes of a test, and the channel for the innermost work's begin.
#[derive(Clone)]
struct Scene {
    runtime: Arc<MachineRuntime>,
    other: Arc<MachineRuntime>,
    begins: mpsc::Sender<()>,
}

impl Scene {
    /// Works until it is cancelled.
    fn work(&self) {
        let began = Instant::now();
        self.begins.send(()).unwrap();
        while !is_cancelled() {
            assert!(began.elapsed() < LIMIT, "an inner request goes on though its outer one was cancelled");
            std::thread::yield_now();
        }
    }

    fn submit(&self, inner: Inner) {
        let scene = self.clone();
        match inner {
            Inner::Task => _ = self.runtime.spawn(move || scene.work()).wait(),
            Inner::Boxes => {
                let result = self.runtime.submit(&one_box(move || scene.work())).wait();
                assert!(matches!(result, Err(FlowError::Cancelled)), "{result:?}");
            }
            Inner::Two => _ = self.runtime.spawn(move || scene.submit(Inner::Boxes)).wait(),
            Inner::Scope => _ = self.runtime.spawn(move || scope(|scope| scope.spawn(|_| scene.work()))).wait(),
            Inner::Other => _ = self.other.spawn(move || scene.work()).wait(),
            Inner::OtherRuns => self.other.run(|| self.work()),
        }
    }
}

/// Fails a test that hangs.
fn within_limit(what: &str, test: impl FnOnce() + Send + 'static) {
    let (ends, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        ends.send(()).unwrap();
    });
    match ended.recv_timeout(LIMIT) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: not over after {LIMIT:?}"),
        _ => thread.join().unwrap_or_else(|_| panic!("{what} failed")),
    }
}

/// With a scene for each runtime and each kind of inner request.
fn in_all_scenes(test: impl Fn(Scene, Inner, mpsc::Receiver<()>) + Copy + Send + 'static) {
    let other = Arc::new(MachineRuntime::builder().threads(1).quiet().start());
    for runtime in runtimes() {
        for inner in INNER {
            let (begins, begun) = mpsc::channel();
            let scene = Scene { runtime: Arc::clone(&runtime), other: Arc::clone(&other), begins };
            let what = format!("{}, {} threads, {inner:?}", runtime.plan().strategy, runtime.plan().threads());
            within_limit(&what, move || test(scene, inner, begun));
        }
    }
}

#[test]
fn what_a_task_has_submitted_is_cancelled_with_its_request() {
    in_all_scenes(|scene, inner, begun| {
        let outer = scene.clone();
        let request = scene.runtime.spawn(move || outer.submit(inner));
        begun.recv().unwrap();
        request.cancel();
        assert_eq!(request.wait(), Ok(()));
    });
}

#[test]
fn what_a_box_has_submitted_is_cancelled_with_its_request() {
    in_all_scenes(|scene, inner, begun| {
        let outer = scene.clone();
        let request = scene.runtime.submit(&one_box(move || outer.submit(inner)));
        begun.recv().unwrap();
        request.cancel();
        assert!(matches!(request.wait(), Err(FlowError::Cancelled)));
    });
}

#[test]
fn what_a_box_has_submitted_is_cancelled_when_another_box_fails() {
    in_all_scenes(|scene, inner, begun| {
        if scene.runtime.plan().threads() == 1 {
            // The other box does not run meanwhile.
            return;
        }
        let (schema, outer, begun) = (Schema::new::<&str>([]), scene.clone(), Arc::new(std::sync::Mutex::new(begun)));
        let mut net = ModelBuilder::new("one fails");
        let submits = move || {
            let outer = outer.clone();
            move |turn: &mut Turn<'_>| {
                turn.take(0);
                outer.submit(inner);
                turn.send_pill(0);
                Ok(())
            }
        };
        let fails = move || {
            let begun = Arc::clone(&begun);
            move |_: &mut Turn<'_>| {
                begun.lock().unwrap().recv().unwrap();
                panic!("broken")
            }
        };
        for source in [
            net.source(BoxModel::new("submits", submits).output(&schema)),
            net.source(BoxModel::new("fails", fails).output(&schema)),
        ] {
            net.end(source.output(0));
        }
        let result = scene.runtime.submit(&net.build().unwrap()).wait();
        assert!(matches!(result, Err(FlowError::Panicked { .. })), "{result:?}");
    });
}

#[test]
fn what_a_box_of_a_caller_has_submitted_is_cancelled_when_the_caller_gives_up() {
    in_all_scenes(|scene, inner, begun| {
        let (outer, has_begun) = (scene.clone(), AtomicBool::new(false));
        let gives_up = || {
            has_begun.fetch_or(begun.try_recv().is_ok(), Ordering::Relaxed);
            has_begun.load(Ordering::Relaxed)
        };
        let model = one_box(move || outer.submit(inner));
        let request = scene.runtime.submit_here(&model, Vec::new(), Budget::UNBOUNDED, &gives_up);
        assert!(matches!(request.wait(), Err(FlowError::Cancelled)));
    });
}

#[test]
fn what_is_submitted_by_a_request_that_was_cancelled_does_not_begin() {
    for runtime in runtimes() {
        let (cancels, cancelled) = mpsc::channel();
        let (begins, begun) = mpsc::channel();
        let inner = Arc::clone(&runtime);
        let request = runtime.spawn(move || {
            begins.send(()).unwrap();
            cancelled.recv().unwrap();
            let task = inner.spawn(|| ()).wait();
            let boxes = inner.submit(&one_box(|| std::thread::sleep(Duration::from_millis(1)))).wait();
            (task, matches!(boxes, Err(FlowError::Cancelled)))
        });
        begun.recv().unwrap();
        request.cancel();
        cancels.send(()).unwrap();
        let what = &runtime.plan().strategy;
        assert_eq!(request.wait(), Ok((Err(vicus_machine::Cancelled), true)), "{what}");
    }
}

/// A request that its outer one does not wait for is cancelled with the outer one as long as the outer one is not over,
/// and goes on by itself afterwards.
#[test]
fn what_outlives_its_request_goes_on() {
    for runtime in runtimes() {
        let inner = Arc::clone(&runtime);
        let (goes, gone) = mpsc::channel::<()>();
        let request = runtime.spawn(move || inner.spawn(move || gone.recv().map_err(drop)));
        let inner = loop {
            if request.is_done() {
                break request.wait().unwrap();
            }
            std::thread::yield_now();
        };
        goes.send(()).unwrap();
        assert_eq!(inner.wait(), Ok(Ok(())), "{}", runtime.plan().strategy);
    }
}

/// Boxes book whole KiB.
const KIB: u64 = 1 << 10;
const BUDGET: u64 = 32 * KIB;

/// Whether a request of this kind can hold this number of bytes.
fn holds(runtime: &Arc<MachineRuntime>, inner: Inner, budget: Budget, bytes: u64) -> bool {
    match inner {
        Inner::Boxes => {
            let request = runtime.submit_within(&one_box_that(move |turn| turn.book(bytes)), Vec::new(), budget);
            request.wait().is_ok()
        }
        Inner::Scope => {
            let takes = move || scope(|scope| scope.spawn(move |_| assert!(reserve(bytes).is_ok())));
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.spawn_within(budget, takes).wait()))
                .is_ok()
        }
        _ => runtime.spawn_within(budget, move || reserve(bytes).is_ok()).wait() == Ok(true),
    }
}

#[test]
fn what_a_request_has_submitted_books_with_its_budget() {
    let other = Arc::new(MachineRuntime::builder().threads(1).quiet().start());
    for runtime in runtimes() {
        for inner in [Inner::Task, Inner::Boxes, Inner::Scope] {
            let (within, other) = (Arc::clone(&runtime), Arc::clone(&other));
            let request = runtime.spawn_within(BUDGET, move || {
                let booked = reserve(10 * KIB).unwrap();
                let on = [&within, &other];
                let inner_holds = |budget: u64, bytes| on.map(|on| holds(on, inner, Budget::from(budget), bytes));
                let all = [
                    inner_holds(u64::MAX, 22 * KIB),
                    inner_holds(u64::MAX, 22 * KIB + 1),
                    inner_holds(100 * KIB, 22 * KIB),
                    inner_holds(100 * KIB, 22 * KIB + 1),
                    inner_holds(16 * KIB, 16 * KIB),
                    inner_holds(16 * KIB, 16 * KIB + 1),
                ];
                drop(booked);
                (all, reserve(BUDGET).is_ok())
            });
            let [yes, no] = [[true; 2], [false; 2]];
            let expected = ([yes, no, yes, no, yes, no], true);
            assert_eq!(request.wait(), Ok(expected), "{}, {inner:?}", runtime.plan().strategy);
        }
    }
}

/// How many requests are within each other.
fn tasks_within(runtime: &Arc<MachineRuntime>, depth: usize) -> usize {
    if depth == 0 {
        return 0;
    }
    let inner = Arc::clone(runtime);
    1 + runtime.spawn(move || tasks_within(&inner, depth - 1)).wait().unwrap()
}

fn boxes_within(runtime: &Arc<MachineRuntime>, depth: usize) {
    if depth > 0 {
        let inner = Arc::clone(runtime);
        runtime.submit(&one_box(move || boxes_within(&inner, depth - 1))).wait().unwrap();
    }
}

#[test]
fn thousands_of_requests_may_wait_within_each_other() {
    const DEPTH: usize = 3000;
    for runtime in runtimes() {
        let what = format!("{}, {} threads", runtime.plan().strategy, runtime.plan().threads());
        let within = Arc::clone(&runtime);
        within_limit(&what, move || assert_eq!(tasks_within(&within, DEPTH), DEPTH));
        // A waiting box keeps its thread's stack.
        within_limit(&what, move || boxes_within(&runtime, DEPTH / 3));
    }
}
