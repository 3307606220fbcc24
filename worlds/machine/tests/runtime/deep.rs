//! Stacks don't grow with the number of tasks, however they are described.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use vicus_machine::{MachineRuntime, Scope, scope};
use vicus_schedule::{ALL, Access, Mode};
use vicus_topology::{NodeId, Topology};

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Spawns a task in one of the ways; the number is its index among its siblings.
fn spawn<'scope>(scope: &Scope<'scope>, how: &str, number: usize, f: impl FnOnce() + Send + 'scope) {
    static WORDS: [u64; 64] = [0; 64];
    let task = scope.task();
    match how {
        "spawned" => scope.spawn(|_| f()),
        "deferred" => scope.spawn_deferred(|_| f()),
        "described" => task.spawn(|()| f()),
        "immediate" => task.immediate().spawn(|()| f()),
        "with a priority" => task.priority(number as i32 % 100).spawn(|()| f()),
        "for a place" => task.at(NodeId::new(number % 2)).spawn(|()| f()),
        "for a place, with a priority" => task.at(NodeId::new(number % 2)).priority(1).spawn(|()| f()),
        "with a footprint" => task.touches(&[Access::of(&WORDS, Mode::Read)]).spawn(|()| f()),
        "in order" => {
            task.follows(&[Access::of(&WORDS[number % 64..][..1], Mode::Write)]).spawn(|()| f());
        }
        _ => unreachable!("{how}"),
    }
}

/// What happened: described tasks, and tasks with a priority, were put into queues on stacks of any depth, and waiting
/// tasks took them. With two million tasks that spawn and wait, the stack overflowed; with 400,000 it was 7,700 tasks
/// deep.
#[test]
fn many_tasks_that_spawn_and_wait_need_a_stack_of_bounded_depth() {
    const TASKS: usize = 4_000;
    let machine = Topology::parse("node:2 l3:1 core:2").unwrap();
    let others = ["footprint:undealt=apart,wake=off", "vicinity:wake=off", "shepherd:unplaced=own"];
    for strategy in ALL.map(|strategy| strategy.name()).into_iter().chain(others) {
        let builder = MachineRuntime::builder().topology(machine.clone()).threads(3);
        let runtime = builder.strategy(strategy.parse().unwrap()).quiet().start();
        for how in [
            "spawned",
            "deferred",
            "described",
            "immediate",
            "with a priority",
            "for a place",
            "for a place, with a priority",
            "with a footprint",
            "in order",
        ] {
            let (most, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let (most, done) = (&most, &done);
            runtime.run(|| {
                scope(|outer| {
                    for task in 0..TASKS {
                        spawn(outer, how, task, move || {
                            let depth = DEPTH.get() + 1;
                            DEPTH.set(depth);
                            most.fetch_max(depth, Ordering::Relaxed);
                            scope(|inner| {
                                for child in 0..2 {
                                    spawn(inner, how, task + child, || _ = done.fetch_add(1, Ordering::Relaxed));
                                }
                            });
                            DEPTH.set(depth - 1);
                        });
                    }
                });
            });
            assert_eq!(done.load(Ordering::Relaxed), 2 * TASKS, "{strategy}, {how}");
            // 64 on a deep stack; and as many again with children on other seats, each keeping its own.
            let most = most.load(Ordering::Relaxed);
            assert!(most <= 200, "{strategy}, {how}: {most} tasks on one stack");
        }
    }
}
