//! Priorities of tasks, under every strategy.

use crate::one_box::one_box;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vicus_machine::{MachineRuntime, child, close_group, open_group, scope, wait_for_children};
use vicus_schedule::{ALL, Access, Mode};
use vicus_topology::{NodeId, Topology};

fn runtime(strategy: &str, threads: usize) -> MachineRuntime {
    MachineRuntime::builder().threads(threads).strategy(strategy.parse().unwrap()).quiet().start()
}

const TASKS: usize = 40;

/// Some priorities occur more than once.
fn priorities(seed: u64) -> Vec<i32> {
    let mixed = |task: usize| (task as u64 + 1000 * seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    (0..TASKS).map(|task| (mixed(task) % 20) as i32 - 10).collect()
}

#[test]
fn on_one_thread_ready_tasks_run_by_priority_and_equal_ones_as_they_were_spawned() {
    for strategy in ALL.map(|strategy| strategy.name()) {
        let runtime = runtime(strategy, 1);
        for seed in 0..5 {
            let priorities = priorities(seed);
            let mut expected: Vec<usize> = (0..TASKS).collect();
            expected.sort_by_key(|&task| (std::cmp::Reverse(priorities[task]), task));
            for how in ["at once", "immediate", "after another"] {
                let order = Mutex::new(Vec::new());
                let word = 0u64;
                let access = |mode| Access::of(std::slice::from_ref(&word), mode);
                runtime.run(|| {
                    scope(|scope| {
                        if how == "after another" {
                            scope.task().follows(&[access(Mode::Write)]).spawn(|()| ());
                        }
                        for (task, &priority) in priorities.iter().enumerate() {
                            let order = &order;
                            let builder = scope.task().priority(priority);
                            let builder = match how {
                                "at once" => builder,
                                "immediate" => builder.immediate(),
                                _ => builder.follows(&[access(Mode::Read)]),
                            };
                            builder.spawn(move |()| order.lock().unwrap().push(task));
                        }
                    });
                });
                assert_eq!(order.into_inner().unwrap(), expected, "{strategy}, seed {seed}, {how}");
            }
        }
    }
}

/// What happened: children had no priorities at all.
#[test]
fn children_run_by_priority_as_tasks_of_a_scope_do_and_so_do_those_of_a_box_that_its_caller_runs() {
    for strategy in ALL.map(|strategy| strategy.name()) {
        let builder = MachineRuntime::builder().threads(1).strategy(strategy.parse().unwrap());
        let runtime = builder.caller_works(Duration::MAX).quiet().start();
        for seed in 0..5 {
            let priorities = priorities(seed);
            let mut expected: Vec<usize> = (0..TASKS).collect();
            expected.sort_by_key(|&task| (std::cmp::Reverse(priorities[task]), task));
            for (is_deferred, is_grouped) in [(false, false), (true, false), (false, true)] {
                let order = Arc::new(Mutex::new(Vec::new()));
                let (kept, priorities) = (Arc::clone(&order), priorities.clone());
                let spawn = move || {
                    if is_grouped {
                        open_group();
                    }
                    for (task, &priority) in priorities.iter().enumerate() {
                        let order = Arc::clone(&kept);
                        let child = child().priority(priority);
                        let child = if is_deferred { child.deferred() } else { child };
                        child.spawn(move || order.lock().unwrap().push(task));
                    }
                    if is_grouped { close_group() } else { wait_for_children() }
                };
                runtime.run(spawn.clone());
                let what = format!("{strategy}, seed {seed}, deferred {is_deferred}, grouped {is_grouped}");
                assert_eq!(std::mem::take(&mut *order.lock().unwrap()), expected, "{what}");
                let model = one_box(spawn);
                runtime.submit_here(&model, Vec::new(), u64::MAX, &|| false).wait().unwrap();
                assert_eq!(*order.lock().unwrap(), expected, "{what}, by a caller");
            }
        }
    }
}

/// At a task's begin, at most as many better ones have not begun as other threads have taken and not recorded yet.
#[test]
fn on_several_threads_the_best_of_those_that_are_ready_is_taken_first() {
    const THREADS: usize = 3;
    for strategy in ALL.map(|strategy| strategy.name()) {
        let runtime = runtime(strategy, THREADS);
        for seed in 0..5 {
            let priorities = priorities(seed);
            let waiting = Mutex::new((0..TASKS).map(|task| (priorities[task], task)).collect::<BTreeSet<_>>());
            let (here, goes) = (AtomicUsize::new(0), AtomicBool::new(false));
            runtime.on_each_thread(|thread, _| {
                here.fetch_add(1, Ordering::SeqCst);
                if thread > 0 {
                    // No task begins before all are ready.
                    while !goes.load(Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                    return;
                }
                while here.load(Ordering::SeqCst) < THREADS {
                    std::thread::yield_now();
                }
                scope(|scope| {
                    for (task, &priority) in priorities.iter().enumerate() {
                        let (waiting, what) = (&waiting, format!("{strategy}, seed {seed}"));
                        scope.task().priority(priority).spawn(move |()| {
                            let mut waiting = waiting.lock().unwrap();
                            waiting.remove(&(priority, task));
                            let better = waiting.range((priority + 1, 0)..).count();
                            assert!(better < THREADS, "{what}: {better} tasks are better than one of {priority}");
                        });
                    }
                    goes.store(true, Ordering::SeqCst);
                });
            });
            assert!(waiting.into_inner().unwrap().is_empty(), "{strategy}, seed {seed}");
        }
    }
}

#[test]
fn a_scope_that_is_cancelled_is_over_though_its_tasks_have_priorities() {
    for strategy in ALL.map(|strategy| strategy.name()) {
        for threads in [1, 2] {
            let (runtime, begun) = (runtime(strategy, threads), AtomicUsize::new(0));
            runtime.run(|| {
                scope(|scope| {
                    scope.cancel();
                    for priority in 0..10 {
                        scope.task().priority(priority).spawn(|()| _ = begun.fetch_add(1, Ordering::Relaxed));
                    }
                });
            });
            assert_eq!(begun.into_inner(), 0, "{strategy} on {threads} threads");
        }
    }
}

#[test]
fn a_task_with_a_priority_may_wait_for_others_and_its_panic_comes_out() {
    for strategy in ALL.map(|strategy| strategy.name()) {
        for threads in [1, 3] {
            let (runtime, count) = (runtime(strategy, threads), AtomicUsize::new(0));
            let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                runtime.run(|| {
                    scope(|outer| {
                        for priority in 0..10 {
                            let count = &count;
                            outer.task().priority(priority).spawn(move |()| {
                                scope(|inner| {
                                    for priority in 0..10 {
                                        inner
                                            .task()
                                            .priority(priority)
                                            .spawn(|()| _ = count.fetch_add(1, Ordering::Relaxed));
                                    }
                                });
                                assert!(priority != 7, "the seventh");
                            });
                        }
                    });
                });
            }));
            let panic = panic.expect_err("one of them panics");
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"the seventh"), "{strategy} on {threads} threads");
            assert_eq!(count.into_inner(), 100, "{strategy} on {threads} threads");
        }
    }
}

/// What happened: a task naming its spawner's node had a ticket open to any seat, so that every fourth of these tasks
/// ran on the other node.
#[test]
fn a_task_for_a_place_runs_there_whatever_its_priority() {
    let machine = Topology::parse("node:2 core:1").unwrap();
    let builder = MachineRuntime::builder().topology(machine).threads(2);
    // Its seats take no tasks from each other.
    let runtime = builder.strategy("shepherd".parse().unwrap()).quiet().start();
    let wrong = AtomicUsize::new(0);
    runtime.run(|| {
        scope(|scope| {
            for spawner in 0..2 {
                let wrong = &wrong;
                scope.spawn_at(NodeId::new(spawner), move |scope| {
                    for priority in 0..100 {
                        for node in 0..2 {
                            scope.task().at(NodeId::new(node)).priority(priority).spawn(move |()| {
                                let name = std::thread::current().name().expect("threads have names").to_owned();
                                let is_there = name.ends_with(['0', '1'][node]);
                                wrong.fetch_add(usize::from(!is_there), Ordering::Relaxed);
                            });
                        }
                    }
                });
            }
        });
    });
    assert_eq!(wrong.load(Ordering::Relaxed), 0);
}

/// What happened: under `shepherd`, which deals tasks without a place in turn, children with a priority all ran on one
/// thread.
#[test]
fn children_with_a_priority_go_to_all_threads_as_those_without_do() {
    let machine = Topology::parse("node:2 l3:2 core:1").unwrap();
    let builder = MachineRuntime::builder().topology(machine).threads(4);
    let runtime = builder.strategy("shepherd".parse().unwrap()).quiet().start();
    for (is_deferred, priority) in [(false, None), (false, Some(1)), (true, Some(1))] {
        let threads = Arc::new(Mutex::new(BTreeSet::new()));
        let seen = Arc::clone(&threads);
        runtime.run(move || {
            for _ in 0..40 {
                let seen = Arc::clone(&seen);
                let child = if is_deferred { child().deferred() } else { child() };
                let child = if let Some(priority) = priority { child.priority(priority) } else { child };
                child.spawn(move || _ = seen.lock().unwrap().insert(std::thread::current().name().map(str::to_owned)));
            }
            wait_for_children();
        });
        let threads = threads.lock().unwrap();
        assert_eq!(threads.len(), 4, "deferred {is_deferred}, priority {priority:?}: {threads:?}");
    }
}
