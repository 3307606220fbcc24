//! Tasks under strategies with bounds and with queues for places: their seats, and their times.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use vicus_machine::{MachineRuntime, child, scope};
use vicus_schedule::{Access, Mode};
use vicus_topology::{GroupId, NodeId, Place, Topology};

/// Spawns many tasks from one. Gives how many were over when the last had been spawned.
fn over_before_all_are_spawned(strategy: &str, tasks: usize) -> usize {
    let runtime = MachineRuntime::builder().threads(1).strategy(strategy.parse().unwrap()).quiet().start();
    let (over, mut early) = (AtomicUsize::new(0), 0);
    runtime.run(|| {
        scope(|scope| {
            for _ in 0..tasks {
                scope.spawn(|_| {
                    over.fetch_add(1, Ordering::Relaxed);
                });
            }
            early = over.load(Ordering::Relaxed);
        });
    });
    assert_eq!(over.into_inner(), tasks);
    early
}

#[test]
fn a_submitter_that_finds_the_pool_full_works_at_once() {
    // Wittmann and Hager, §2.1: about 256 tasks wait; the submitter runs each one beyond them. One thread, so no other
    // seat does.
    for strategy in ["central", "locality-queues"] {
        assert_eq!(over_before_all_are_spawned(strategy, 1000), 1000 - 256, "{strategy}");
        assert_eq!(over_before_all_are_spawned(&format!("{strategy}:capacity=3"), 10), 7, "{strategy}");
        assert_eq!(over_before_all_are_spawned(&format!("{strategy}:capacity=0"), 1000), 0, "{strategy}: no bound");
    }
}

#[test]
fn a_full_pool_does_not_stack_tasks_without_end() {
    fn chain<'s>(scope: &vicus_machine::Scope<'s>, left: usize, over: &'s AtomicUsize) {
        over.fetch_add(1, Ordering::Relaxed);
        if left > 0 {
            scope.spawn(move |scope| chain(scope, left - 1, over));
        }
    }
    for strategy in ["central:capacity=1", "locality-queues:capacity=1"] {
        let runtime = MachineRuntime::builder().threads(2).strategy(strategy.parse().unwrap()).quiet().start();
        let over = AtomicUsize::new(0);
        runtime.run(|| {
            scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|scope| chain(scope, 50_000, &over));
                }
            });
        });
        assert_eq!(over.into_inner(), 4 * 50_001, "{strategy}");
    }
}

/// The seat of the calling thread, from its name. On these machines it is the node as well.
fn seat() -> usize {
    let name = std::thread::current().name().unwrap().to_owned();
    name.strip_prefix("vicus ").unwrap().parse().unwrap()
}

#[test]
fn a_task_that_is_sent_to_a_node_is_run_there_if_no_seat_may_rob_it() {
    // A queue of one task is too short to be robbed under footprint.
    for strategy in ["shepherd", "shepherd:unplaced=own", "footprint", "vicinity:reach=1"] {
        let machine = Topology::parse("node:4 core:1 pu:1").unwrap();
        let builder = MachineRuntime::builder().topology(machine).threads(4).strategy(strategy.parse().unwrap());
        let runtime = builder.quiet().start();
        // Requests begin at one entry after the other: each node is sent tasks from all of them.
        for node in (0..4).flat_map(|node| [node; 10]) {
            let ran = AtomicUsize::new(usize::MAX);
            runtime.run(|| scope(|scope| scope.spawn_at(NodeId::new(node), |_| ran.store(seat(), Ordering::Relaxed))));
            assert_eq!(ran.into_inner(), node, "{strategy}");
        }
    }
}

#[test]
fn a_task_that_is_sent_to_a_core_group_is_run_there_or_by_its_node() {
    // One node of two last-level caches with a core each; then two nodes of two with two cores each.
    for (machine, threads) in [("node:1 l3:2 core:1", 2), ("node:2 l3:2 core:2", 8)] {
        let machine = Topology::parse(machine).unwrap();
        for strategy in ["shepherd", "shepherd:unplaced=own", "footprint"] {
            let builder = MachineRuntime::builder().topology(machine.clone()).threads(threads);
            let runtime = builder.strategy(strategy.parse().unwrap()).quiet().start();
            // As above.
            for (round, group) in machine.core_groups.iter().flat_map(|group| [group; 10]).enumerate() {
                let ran = [AtomicUsize::new(usize::MAX), AtomicUsize::new(usize::MAX)];
                let [first, second] = &ran;
                runtime.run(|| {
                    scope(|scope| {
                        scope.spawn_at(group.id, |_| first.store(seat(), Ordering::Relaxed));
                    });
                    // One after the other: footprint's threads rob longer queues.
                    scope(|scope| {
                        scope.task().at(group.id).spawn(|()| second.store(seat(), Ordering::Relaxed));
                    });
                });
                for seat in ran {
                    let pu = &machine.pus[runtime.plan().seats[seat.into_inner()].pu.index()];
                    assert_eq!(pu.node, group.node, "{strategy}, round {round}");
                    if strategy != "footprint" {
                        assert_eq!(pu.group, group.id, "{strategy}, round {round}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_sleeping_seat_is_woken_to_rob_a_queue_that_grows_long() {
    // One thread on each of two nodes; the pauses end at once, and then the threads sleep until they are woken.
    let machine = Topology::parse("node:2 core:1 pu:1").unwrap();
    let setting = "footprint:backoff_ns=1000,backoff_max_ns=1000".parse().unwrap();
    let runtime = MachineRuntime::builder().topology(machine).threads(2).strategy(setting).quiet().start();
    for round in 0..20 {
        std::thread::sleep(Duration::from_millis(2));
        let seats = Mutex::new(BTreeSet::new());
        let began = Instant::now();
        runtime.run(|| {
            scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|_| {
                        seats.lock().unwrap().insert(seat());
                        // Until the other thread has come, too.
                        while seats.lock().unwrap().len() < 2 && began.elapsed() < Duration::from_secs(5) {
                            std::thread::yield_now();
                        }
                    });
                }
            });
        });
        assert_eq!(seats.into_inner().unwrap().len(), 2, "round {round}: four tasks are more than rank 1 times 1 core");
    }
}

/// What happened: a task for a missing core group went anywhere, as did one for a node beyond the last; a container
/// reports such a place as missing.
#[test]
fn a_place_that_there_is_not_is_refused_before_there_is_a_task() {
    let machine = Topology::parse("node:2 l3:2 core:1").unwrap();
    let node = (NodeId::new(2).into(), "there is no node2: the number of nodes is 2, counted from 0");
    let group = (GroupId::new(4).into(), "there is no group4: the number of core groups is 4, counted from 0");
    for strategy in vicus_schedule::ALL {
        let builder = MachineRuntime::builder().topology(machine.clone()).threads(4);
        let runtime = builder.strategy(strategy.name().parse().unwrap()).quiet().start();
        for (place, expected) in [node, group] {
            let ran = AtomicUsize::new(0);
            let spawns: [&(dyn Fn(Place) + Sync); 3] = [
                &|place| scope(|scope| scope.spawn_at(place, |_| _ = ran.fetch_add(1, Ordering::Relaxed))),
                &|place| scope(|scope| scope.task().at(place).spawn(|()| _ = ran.fetch_add(1, Ordering::Relaxed))),
                &|place| child().at(place).spawn(|| unreachable!("it is refused")),
            ];
            for spawn in spawns {
                let refused = runtime.run(|| catch_unwind(AssertUnwindSafe(|| spawn(place))).unwrap_err());
                let text = refused.downcast_ref::<String>().expect("a panic with a text");
                assert_eq!(text, expected, "{}", strategy.name());
            }
            // None is waited for, and the seat goes on.
            let last = machine.core_groups[3].id;
            runtime.run(|| scope(|scope| scope.spawn_at(last, |_| _ = ran.fetch_add(10, Ordering::Relaxed))));
            assert_eq!(ran.into_inner(), 10, "{}", strategy.name());
        }
    }
}

/// What happened: under `steal`, a task with a place was meant for its spawner's own queue. If it followed others, the
/// seat of its last predecessor pushed it there, into a deque with one owner; tasks were lost, and their scope waited
/// for ever.
#[test]
fn a_task_that_follows_others_and_names_a_place_runs_once() {
    for strategy in vicus_schedule::ALL {
        let runtime = MachineRuntime::builder().threads(2).strategy(strategy.name().parse().unwrap()).quiet().start();
        for _ in 0..300 {
            let values: [AtomicUsize; 4] = Default::default();
            let uses = |value: &AtomicUsize| {
                Access::new(std::ptr::from_ref(value).addr(), size_of::<AtomicUsize>(), Mode::ReadWrite)
            };
            runtime.run(|| {
                scope(|scope| {
                    for value in (0..10).flat_map(|_| &values) {
                        let task = scope.task().follows(&[uses(value)]).at(NodeId::new(0));
                        task.spawn(|()| value.store(value.load(Ordering::Relaxed) * 2 + 1, Ordering::Relaxed));
                    }
                });
            });
            assert_eq!(values.map(AtomicUsize::into_inner), [1023; 4], "{}", strategy.name());
        }
    }
}
