//! Tasks on every strategy: results, panics, waiting, callers of all kinds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use vicus_machine::{Runtime, join, scope};
use vicus_schedule::ALL;
use vicus_topology::NodeId;

/// A runtime for each strategy and several numbers of threads.
fn runtimes() -> impl Iterator<Item = Runtime> {
    let threads = [1, 2, 8];
    ALL.into_iter().flat_map(move |strategy| threads.map(|threads| (strategy, threads))).map(|(strategy, threads)| {
        let setting = strategy.name().parse().unwrap();
        println!("{} on {threads} threads", strategy.name());
        Runtime::builder().threads(threads).strategy(setting).quiet().start()
    })
}

fn fib(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[test]
fn join_computes_under_every_strategy() {
    for runtime in runtimes() {
        assert_eq!(runtime.run(|| fib(18)), 2584);
    }
}

#[test]
fn a_scope_waits_for_tasks_of_tasks() {
    fn count<'s>(scope: &vicus_machine::Scope<'s>, depth: usize, done: &'s AtomicUsize) {
        done.fetch_add(1, Ordering::Relaxed);
        if depth > 0 {
            scope.spawn(move |scope| count(scope, depth - 1, done));
            scope.spawn_deferred(move |scope| count(scope, depth - 1, done));
        }
    }
    for runtime in runtimes() {
        let done = AtomicUsize::new(0);
        runtime.run(|| scope(|scope| count(scope, 9, &done)));
        assert_eq!(done.into_inner(), (1 << 10) - 1);
    }
}

#[test]
fn scopes_in_scopes_end_with_deferred_tasks_on_one_thread() {
    fn nest(depth: usize) -> usize {
        if depth == 0 {
            return 1;
        }
        let sum = AtomicUsize::new(0);
        scope(|scope| {
            for _ in 0..3 {
                scope.spawn_deferred(|_| _ = sum.fetch_add(nest(depth - 1), Ordering::Relaxed));
            }
        });
        sum.into_inner()
    }
    for runtime in runtimes() {
        assert_eq!(runtime.run(|| nest(5)), 243);
    }
}

#[test]
fn a_panic_reaches_who_waits_after_all_are_over() {
    let message = |payload: Box<dyn std::any::Any + Send>| payload.downcast_ref::<&str>().map(|text| text.to_string());
    for runtime in runtimes() {
        let ended = AtomicBool::new(false);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            runtime.run(|| {
                join(
                    || -> u8 { panic!("first") },
                    || {
                        std::thread::sleep(Duration::from_millis(1));
                        ended.store(true, Ordering::Relaxed);
                    },
                )
            })
        }));
        assert_eq!(message(caught.unwrap_err()).as_deref(), Some("first"));
        let caught = catch_unwind(AssertUnwindSafe(|| runtime.run(|| join(|| 1, || -> u8 { panic!("second") }))));
        assert_eq!(message(caught.unwrap_err()).as_deref(), Some("second"));
        let ran = AtomicUsize::new(0);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            runtime.run(|| {
                scope(|scope| {
                    for number in 0..20 {
                        let ran = &ran;
                        scope.spawn_deferred(move |_| {
                            ran.fetch_add(1, Ordering::Relaxed);
                            assert_ne!(number, 7, "seven");
                        });
                    }
                });
            })
        }));
        assert!(caught.is_err());
        assert_eq!(ran.into_inner(), 20);
        assert_eq!(runtime.run(|| fib(10)), 55, "it works on after panics");
    }
}

#[test]
fn many_callers_without_a_seat_share_a_runtime() {
    for runtime in runtimes() {
        let runtime = &runtime;
        std::thread::scope(|threads| {
            let callers: Vec<_> = (0..6).map(|n| threads.spawn(move || runtime.run(|| fib(8 + n)))).collect();
            let results: Vec<u64> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
            assert_eq!(results, [21, 34, 55, 89, 144, 233]);
        });
    }
}

#[test]
fn runtimes_call_one_another() {
    let (a, b) = (Runtime::builder().threads(2).quiet().start(), Runtime::builder().threads(1).quiet().start());
    let both = a.run(|| join(|| b.run(|| fib(10)), || b.run(|| a.run(|| fib(11)))));
    assert_eq!(both, (55, 89));
    assert_eq!(join(|| 1, || 2), (1, 2), "outside of tasks the global runtime does it");
}

#[test]
fn each_thread_does_its_part_once() {
    for runtime in runtimes() {
        let threads = Mutex::new(Vec::new());
        let ids = Mutex::new(std::collections::BTreeSet::new());
        runtime.on_each_thread(|thread, of| {
            threads.lock().unwrap().push((thread, of));
            ids.lock().unwrap().insert(format!("{:?}", std::thread::current().id()));
        });
        let mut threads = threads.into_inner().unwrap();
        threads.sort_unstable();
        let of = runtime.plan().threads();
        assert_eq!(threads, (0..of).map(|thread| (thread, of)).collect::<Vec<_>>());
        assert_eq!(ids.into_inner().unwrap().len(), of);
    }
}

#[test]
fn a_cancelled_scope_drops_what_has_not_begun() {
    let runtime = Runtime::builder().threads(1).quiet().start();
    let ran = AtomicUsize::new(0);
    runtime.run(|| {
        scope(|scope| {
            for _ in 0..10 {
                scope.spawn_deferred(|scope| {
                    ran.fetch_add(1, Ordering::Relaxed);
                    scope.cancel();
                });
            }
        });
    });
    assert_eq!(ran.into_inner(), 1);
}

/// What could happen: seats that wait take only their own request's tasks, and each waits for a task in the other's queue.
#[test]
fn tasks_sent_to_each_others_places_are_run_though_both_senders_wait() {
    let machine = vicus_topology::Topology::parse("node:2 core:1 pu:1").unwrap();
    for strategy in ALL {
        println!("{}", strategy.name());
        let setting = strategy.name().parse().unwrap();
        let runtime = Runtime::builder().topology(machine.clone()).threads(2).strategy(setting).quiet().start();
        let runtime = &runtime;
        std::thread::scope(|threads| {
            for sender in 0..4 {
                threads.spawn(move || {
                    for round in 0..50 {
                        runtime.run(|| {
                            scope(|scope| {
                                (0..3).for_each(|_| scope.spawn_at(NodeId::new((sender + round) % 2), |_| ()))
                            });
                        });
                    }
                });
            }
        });
    }
}

#[test]
fn a_box_may_join() {
    use vicus_flow::{BoxModel, Envelope, ModelBuilder, Schema, Turn, Type, library};
    for runtime in runtimes() {
        let schema = Schema::new([("n", Type::U64)]);
        let mut net = ModelBuilder::new("fib");
        let numbers = net.source(
            BoxModel::new("numbers", || {
                |turn: &mut Turn<'_>| {
                    turn.take(0);
                    for n in 0..15 {
                        turn.send(0, Envelope::new([vec![n as u64].into()]));
                    }
                    turn.send_pill(0);
                    Ok(())
                }
            })
            .output(&schema),
        );
        let fibs = net.add(library::map("fib", &schema, &schema, |envelope| {
            let fibs: Vec<u64> = envelope.column(0).u64s().iter().map(|&n| fib(n as u32)).collect();
            Some(Envelope::new([fibs.into()]))
        }));
        let sum = std::sync::Arc::new(AtomicUsize::new(0));
        let adds = std::sync::Arc::clone(&sum);
        let print = net.add(library::sink("sum", &schema, move |envelope| {
            adds.fetch_add(envelope.column(0).u64s()[0] as usize, Ordering::Relaxed);
            Ok(())
        }));
        net.connect(numbers.output(0), fibs.input(0));
        net.connect(fibs.output(0), print.input(0));
        net.end(print.output(0));
        runtime.submit(&net.build().unwrap()).wait().unwrap();
        assert_eq!(sum.load(Ordering::Relaxed), 986, "the sum of the first 15 Fibonacci numbers");
    }
}
