//! Memory reserved by tasks, under every strategy.

use crate::one_box::one_box_that;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vicus_flow::{Budget, FlowError, Grants, Model, OverBudget};
use vicus_machine::{MachineRuntime, close_group, for_each, join, open_group, reserve, scope, spawn_child};
use vicus_schedule::ALL;

fn runtimes() -> impl Iterator<Item = MachineRuntime> {
    ALL.into_iter().map(|strategy| {
        let builder = MachineRuntime::builder().threads(3).strategy(strategy.name().parse().unwrap());
        builder.caller_works(Duration::MAX).quiet().start()
    })
}

/// The tasks' own account: their sum, its maximum, and the number of refusals. Counted apart from the tested code.
#[derive(Default)]
struct Held {
    now: AtomicU64,
    most: AtomicU64,
    refused: AtomicU64,
}

impl Held {
    /// Reserves, works, and gives back.
    fn work(&self, bytes: u64) {
        let Ok(mut booked) = reserve(bytes) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let now = self.now.fetch_add(bytes, Ordering::SeqCst) + bytes;
        self.most.fetch_max(now, Ordering::SeqCst);
        std::thread::yield_now();
        self.now.fetch_sub(bytes / 2, Ordering::SeqCst);
        booked.resize(bytes - bytes / 2).expect("less may be held");
        self.now.fetch_sub(bytes - bytes / 2, Ordering::SeqCst);
    }

    fn check(&self, budget: u64, what: &str) {
        let (now, most) = (self.now.load(Ordering::SeqCst), self.most.load(Ordering::SeqCst));
        assert!(now == 0 && most <= budget && most > 0, "{what}: {most} of {budget} bytes held");
    }
}

const BUDGET: u64 = 1000;

/// Every way to make a task, each inside of another.
fn work_in_all_ways(held: &Arc<Held>) {
    scope(|scope| {
        for task in 0..20 {
            scope.spawn(move |scope| {
                join(|| held.work(100 + task), || for_each(0..10, |n| held.work(n as u64 * 50)));
                scope.spawn_deferred(|_| held.work(300));
                let held = Arc::clone(held);
                spawn_child(move || spawn_child(move || held.work(250)));
            });
        }
    });
}

#[test]
fn whatever_task_of_a_request_reserves_it_is_never_more_than_its_budget() {
    for runtime in runtimes() {
        let held = Arc::new(Held::default());
        let all = Arc::clone(&held);
        let request = runtime.spawn_within(BUDGET, move || {
            work_in_all_ways(&all);
            reserve(BUDGET).map(|booked| booked.bytes())
        });
        assert_eq!(request.wait(), Ok(Ok(BUDGET)), "all was given back");
        held.check(BUDGET, &runtime.plan().strategy);
    }
}

#[test]
fn a_request_without_a_budget_may_reserve_anything_and_so_may_code_outside_of_tasks() {
    let runtime = runtimes().next().unwrap();
    assert_eq!(runtime.run(|| reserve(u64::MAX).unwrap().bytes()), u64::MAX);
    let request = runtime.spawn(|| reserve(u64::MAX).and_then(|_| reserve(u64::MAX)).unwrap().bytes());
    assert_eq!(request.wait(), Ok(u64::MAX));
    assert_eq!(reserve(u64::MAX).unwrap().bytes(), u64::MAX);
}

#[test]
fn what_is_refused_changes_nothing_and_says_what_the_request_holds() {
    for runtime in runtimes() {
        let request = runtime.spawn_within(BUDGET, || {
            let mut first = reserve(600).unwrap();
            let error = first.resize(1001).unwrap_err();
            assert_eq!((error.budget, error.holders), (BUDGET, vec![("the request".to_owned(), 600)]));
            assert_eq!(first.bytes(), 600);
            assert!(reserve(u64::MAX).is_err() && reserve(401).is_err());
            let second = reserve(400).unwrap();
            first.resize(10).unwrap();
            drop(second);
            reserve(990).unwrap().bytes()
        });
        assert_eq!(request.wait(), Ok(990));
    }
}

/// A reservation that outlives its request stays booked with the request's account, though the rest of the request is
/// gone.
#[test]
fn a_reservation_may_outlive_its_request_and_end_on_another_thread() {
    let runtime = runtimes().next().unwrap();
    let request = runtime.spawn_within(BUDGET, || reserve(700).unwrap());
    let mut kept = request.wait().unwrap();
    assert!(kept.resize(BUDGET + 1).is_err());
    assert!(kept.resize(BUDGET).is_ok());
    std::thread::spawn(|| drop(kept)).join().unwrap();
}

/// A whole of this number of bytes; each request takes its own maximum from it.
struct Whole(Mutex<u64>);

struct Share {
    whole: Arc<Whole>,
    taken: Mutex<u64>,
}

impl Grants for Share {
    fn raise(&self, bytes: u64) -> Option<u64> {
        let (mut left, mut taken) = (self.whole.0.lock().unwrap(), self.taken.lock().unwrap());
        let more = bytes.saturating_sub(*taken);
        *left = left.checked_sub(more)?;
        *taken += more;
        Some(*taken)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        *self.whole.0.lock().unwrap() += *self.taken.lock().unwrap();
    }
}

#[test]
fn requests_share_a_larger_whole() {
    for runtime in runtimes() {
        let whole = Arc::new(Whole(Mutex::new(2 * BUDGET)));
        let share = || Share { whole: Arc::clone(&whole), taken: Mutex::new(0) };
        let held: [Arc<Held>; 4] = Default::default();
        let requests = held.each_ref().map(|held| {
            let (held, budget) = (Arc::clone(held), Budget::from(BUDGET).granted_by(Arc::new(share())));
            runtime.spawn_within(budget, move || work_in_all_ways(&held))
        });
        requests.into_iter().for_each(|request| request.wait().unwrap());
        held.iter().filter(|held| held.most.load(Ordering::SeqCst) > 0).for_each(|held| {
            held.check(BUDGET, &runtime.plan().strategy);
        });
        assert!(held.iter().any(|held| held.most.load(Ordering::SeqCst) > 0));
        assert_eq!(*whole.0.lock().unwrap(), 2 * BUDGET, "{}", runtime.plan().strategy);
    }
}

const BOX_BUDGET: u64 = 16 << 10;

/// Has a model run by seats, and by its caller alone.
fn results(runtime: &MachineRuntime, model: &Arc<Model>) -> [Result<(), FlowError>; 2] {
    let here = runtime.submit_here(model, Vec::new(), BOX_BUDGET, &|| false);
    [runtime.submit_within(model, Vec::new(), BOX_BUDGET), here].map(|request| request.wait().map(drop))
}

#[test]
fn a_box_and_its_children_hold_together_what_their_request_may() {
    for runtime in runtimes() {
        let held = Arc::new(Held::default());
        let all = Arc::clone(&held);
        let model = one_box_that(move |_| {
            open_group();
            for task in 0..20 {
                let held = Arc::clone(&all);
                spawn_child(move || {
                    held.work(1000 + task);
                    let held = Arc::clone(&held);
                    spawn_child(move || scope(|scope| scope.spawn(|_| held.work(3000))));
                });
            }
            close_group();
            all.check(BOX_BUDGET, "within the box");
            drop(reserve(BOX_BUDGET)?);
            Ok(())
        });
        for result in results(&runtime, &model) {
            result.unwrap();
        }
        held.check(BOX_BUDGET, &runtime.plan().strategy);
    }
}

#[test]
fn a_box_that_holds_too_much_beside_its_tasks_fails_and_the_error_names_both() {
    for runtime in runtimes() {
        let model = one_box_that(|turn| {
            let booked = reserve(3000)?;
            // It is booked in units of 1 KiB.
            turn.book(600)?;
            let result = turn.book(15 << 10);
            drop(booked);
            turn.book(16 << 10)?;
            result
        });
        for result in results(&runtime, &model) {
            let Err(FlowError::Failed { error, .. }) = result else { panic!("{result:?}") };
            let error = error.downcast_ref::<OverBudget>().expect("it is about the budget");
            assert_eq!(error.budget, BOX_BUDGET);
            let names: Vec<&str> = error.holders.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, ["parent", "tasks"], "{}", runtime.plan().strategy);
        }
    }
}

/// What happened: work near its data booked with nothing, though the requesting task waited for it as for a loop.
#[test]
fn what_runs_near_its_data_books_with_the_task_that_waits_for_it() {
    for runtime in runtimes() {
        let runtime = Arc::new(runtime);
        let node = runtime.topology().nodes[0].id;
        let here = Arc::clone(&runtime);
        let request = runtime.spawn_within(BUDGET, move || {
            let refused = AtomicU64::new(0);
            let try_both = |_: u32| {
                assert_eq!(reserve(BUDGET / 100).unwrap().bytes(), BUDGET / 100);
                refused.fetch_add(u64::from(reserve(BUDGET + 1).is_err()), Ordering::Relaxed);
            };
            here.each_near((0..10).map(|n| (n, node)), try_both).unwrap();
            refused.into_inner()
        });
        assert_eq!(request.wait(), Ok(10), "{}", runtime.plan().strategy);
    }
}
