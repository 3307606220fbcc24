//! Tasks on every strategy: results, panics, waiting, callers of all kinds.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use vicus_machine::{MachineRuntime, Scope, TaskRequest, join, scope};
use vicus_schedule::{ALL, Decision, Setting};
use vicus_topology::{NodeId, Topology};
use vicus_trace::{JobId, Trace, What};

/// A runtime for each strategy and several numbers of threads.
fn runtimes() -> impl Iterator<Item = MachineRuntime> {
    let threads = [1, 2, 8];
    ALL.into_iter().flat_map(move |strategy| threads.map(|threads| (strategy, threads))).map(|(strategy, threads)| {
        let setting = strategy.name().parse().unwrap();
        println!("{} on {threads} threads", strategy.name());
        MachineRuntime::builder().threads(threads).strategy(setting).quiet().start()
    })
}

fn fib(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

/// The only task queued by no seat.
fn brought(trace: &Trace) -> JobId {
    let from_outside = trace.merged().filter_map(|entry| match entry.event.what {
        What::Enqueued { who, by: JobId::NONE, .. } => Some(who),
        _ => None,
    });
    let found: Vec<JobId> = from_outside.collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0]
}

/// Each task's spawner is known: a join's second branch is spawned by the join's caller, on any seat, and a waiting
/// task by its spawner, not by its queuing seat.
#[test]
fn a_trace_says_who_spawned_each_task() {
    let runtime = MachineRuntime::builder().threads(2).quiet().record(1 << 12).start();
    let mut data = vec![0u64; 4];
    runtime.run(|| {
        scope(|scope| {
            let data = scope.share(&mut data);
            for _ in 0..2 {
                scope.task().writes(data.part(..)).spawn(|(data,)| {
                    data[0] += join(|| 1, || join(|| 1, || 1).0).1;
                });
            }
        });
        runtime.on_each_thread(|_, _| {});
    });
    let trace = runtime.trace().expect("it was recorded");
    assert_eq!((trace.lost(), trace.check().first()), (0, None));
    let first = brought(&trace);
    // By task, its spawner.
    let mut spawners: BTreeMap<u32, u32> = BTreeMap::new();
    for entry in trace.merged() {
        if let What::Enqueued { who, by, .. } | What::Spawned { who, by } = entry.event.what {
            spawners.entry(who.index).or_insert(by);
        }
    }
    let children =
        |of: u32| -> Vec<u32> { spawners.iter().filter(|(_, by)| **by == of).map(|(task, _)| *task).collect() };
    // Two tasks with data, each with a second branch that has one as well, and one task for each thread.
    let mut below: Vec<usize> = children(first.index).into_iter().map(|task| children(task).len()).collect();
    below.sort_unstable();
    assert_eq!(below, [0, 0, 1, 1], "{spawners:?}");
    let branches = children(first.index).into_iter().flat_map(children).map(|branch| children(branch).len());
    assert_eq!(branches.collect::<Vec<_>>(), [1, 1]);
    assert_eq!((spawners.len(), data[0]), (9, 2));
}

/// The traces of tasks with data, recorded by two threads with one cache, under each strategy.
fn recorded_on_two_threads(f: impl Fn() + Sync) -> impl Iterator<Item = (&'static str, Trace)> {
    ALL.into_iter().map(move |strategy| {
        let topology = Topology::parse("node:1 l3:1 core:2").unwrap();
        let builder =
            MachineRuntime::builder().topology(topology).threads(2).strategy(strategy.name().parse().unwrap());
        let runtime = builder.quiet().record(1 << 12).start();
        runtime.run(&f);
        let trace = runtime.trace().expect("it was recorded");
        assert_eq!(trace.lost(), 0, "{}", strategy.name());
        (strategy.name(), trace)
    })
}

/// Advances the logical clock of the calling thread while the other thread runs a single task.
fn get_ahead() {
    (0..50).for_each(|_| _ = join(|| (), || ()));
}

fn wait_for(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
}

/// What happened: kernels with dependences, recorded on two threads, failed `Trace::check` in every second run. A task
/// waiting for another is queued by the other's thread at its end, and this thread had not seen the spawner's clock:
/// the task was queued before it was spawned, or both events had the same time.
#[test]
fn a_task_that_is_let_go_elsewhere_is_queued_after_it_was_spawned() {
    let traces = recorded_on_two_threads(|| {
        let (begun, may_end) = (&AtomicBool::new(false), &AtomicBool::new(false));
        let (mut data, spawner) = ([0u64; 4], std::thread::current().id());
        scope(|scope| {
            let data = scope.share(&mut data);
            scope.task().writes(data.part(..)).spawn(move |_| {
                assert_ne!(std::thread::current().id(), spawner, "the spawner is busy");
                begun.store(true, Ordering::Release);
                wait_for(may_end);
            });
            wait_for(begun);
            get_ahead();
            (0..4).for_each(|at| scope.task().reads(data.part(at..at + 1)).spawn(|_| ()));
            may_end.store(true, Ordering::Release);
        });
    });
    for (strategy, trace) in traces {
        assert_eq!(trace.check(), [], "{strategy}");
    }
}

/// What happened: as above, with a task spawned after its predecessor's end. The task need not wait, and its spawner
/// had not seen the clock of the predecessor's thread.
#[test]
fn a_task_is_spawned_after_the_start_of_what_it_need_not_wait_for_any_more() {
    let traces = recorded_on_two_threads(|| {
        let (is_over, mut data) = (&AtomicBool::new(false), [0u64; 2]);
        scope(|scope| {
            let data = scope.share(&mut data);
            scope.task().writes(data.part(..)).spawn(|_| get_ahead());
            scope.task().writes(data.part(..)).spawn(|_| ());
            scope.task().reads(data.part(..1)).spawn(|_| is_over.store(true, Ordering::Release));
            wait_for(is_over);
            scope.task().reads(data.part(1..)).spawn(|_| ());
        });
    });
    for (strategy, trace) in traces {
        assert_eq!(trace.check(), [], "{strategy}");
        let events: Vec<What> = trace.merged().map(|entry| entry.event.what).collect();
        let spawned: Vec<(usize, JobId)> = (0..)
            .zip(&events)
            .filter_map(|(at, what)| if let What::Spawned { who, .. } = what { Some((at, *who)) } else { None })
            .collect();
        let [_, (_, predecessor), _, (spawned, _)] = spawned[..] else { panic!("{strategy}: {spawned:?}") };
        let is_begun = |what: &What| *what == What::UserCodeBegins { who: predecessor };
        let begun = events.iter().position(is_begun);
        assert!(begun < Some(spawned), "{strategy}: begun {begun:?}, spawned {spawned}");
    }
}

/// Scopes one after the other: in the merged trace, no task begins before it is queued, and no task of a scope is
/// queued before all tasks of the scope before have ended.
#[test]
fn a_trace_has_no_effect_before_its_cause() {
    const TASKS: usize = 40;
    for strategy in ["las", "steal", "central"] {
        let runtime =
            MachineRuntime::builder().threads(4).strategy(strategy.parse().unwrap()).quiet().record(1 << 16).start();
        runtime.run(|| {
            for _ in 0..20 {
                scope(|scope| {
                    for task in 0..TASKS {
                        scope.spawn_deferred(move |_| assert_eq!(join(|| fib(task as u32 % 5), || 1).1, 1));
                    }
                });
            }
        });
        let trace = runtime.trace().expect("it was recorded");
        assert_eq!((trace.lost(), trace.check().first()), (0, None), "{strategy}");
        let (mut enqueued, mut taken, mut spawned, mut open) = (0, 0, 0, 0);
        let brought = brought(&trace);
        for entry in trace.merged() {
            match entry.event.what {
                // The task submitted by `run`, queued by no seat.
                What::Enqueued { by: JobId::NONE, .. } => assert_eq!((enqueued, taken), (0, 0), "{strategy}"),
                What::Taken { who, .. } if who == brought => {}
                What::Enqueued { kind, .. } => {
                    enqueued += 1;
                    if kind == vicus_trace::TaskKind::Deferred {
                        if spawned % TASKS == 0 {
                            // The task submitted by `run` is still running.
                            assert_eq!((taken, open), (enqueued - 1, 1), "{strategy}: the last scope is over");
                        }
                        spawned += 1;
                    }
                }
                What::Taken { .. } => {
                    taken += 1;
                    assert!(taken <= enqueued, "{strategy}: {taken} tasks taken, {enqueued} queued");
                }
                What::UserCodeBegins { .. } => open += 1,
                What::UserCodeEnds { .. } => open -= 1,
                _ => {}
            }
        }
        assert_eq!((spawned, taken), (20 * TASKS, enqueued), "{strategy}");
    }
}

/// A task over before its scope's closure needs no waiting: the scope must still end after it.
#[test]
fn a_trace_has_a_scope_end_after_tasks_that_were_quicker() {
    for _ in 0..10 {
        let runtime = MachineRuntime::builder().threads(2).quiet().record(1 << 8).start();
        let is_over = AtomicBool::new(false);
        runtime.run(|| {
            scope(|scope| {
                scope.spawn_deferred(|_| is_over.store(true, Ordering::Release));
                while !is_over.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                // Its end is recorded and counted soon after.
                std::thread::sleep(Duration::from_millis(5));
            });
        });
        let trace = runtime.trace().expect("it was recorded");
        let ends = trace.merged().filter_map(|entry| match entry.event.what {
            What::UserCodeEnds { who } => Some(who),
            _ => None,
        });
        let ends: Vec<JobId> = ends.collect();
        assert_eq!((ends.len(), ends.last()), (2, Some(&brought(&trace))));
    }
}

/// If queues give the oldest task first, a waiting task takes its next sibling, which waits as well: the stack must not
/// grow with their number. What happened: the waiting task took the youngest one instead, just spawned by another
/// thread, and 13,000 tasks on top of each other used up 16 MiB of stack.
#[test]
fn stacks_do_not_grow_with_the_number_of_tasks_that_wait() {
    const TASKS: usize = 60_000;
    let unlimited = ["central:capacity=0", "locality-queues:capacity=0"];
    for strategy in ALL.map(|strategy| strategy.name()).into_iter().chain(unlimited) {
        for threads in [1, 2] {
            println!("{strategy} on {threads} threads");
            let runtime =
                MachineRuntime::builder().threads(threads).strategy(strategy.parse().unwrap()).quiet().start();
            for (outer, inner) in [(true, true), (false, true), (true, false), (false, false)] {
                let sum = AtomicUsize::new(0);
                let sum = &sum;
                let below = move || {
                    scope(|scope| {
                        let counts = move |_: &_| _ = sum.fetch_add(1, Ordering::Relaxed);
                        if inner { scope.spawn_deferred(counts) } else { scope.spawn(counts) }
                    });
                };
                runtime.run(|| {
                    scope(|scope| {
                        for _ in 0..TASKS {
                            if outer { scope.spawn_deferred(move |_| below()) } else { scope.spawn(move |_| below()) }
                        }
                    });
                });
                assert_eq!(sum.load(Ordering::Relaxed), TASKS);
            }
        }
    }
}

/// The trace has a task's declared data, as far as their nodes are known.
#[test]
fn a_trace_has_what_tasks_say_that_they_use() {
    let runtime = MachineRuntime::builder().threads(2).quiet().record(1 << 10).start();
    let (mut input, mut output) = (vec![1u64; 1 << 16], vec![0u64; 1 << 14]);
    let lies: usize = [vicus_machine::footprint(&input), vicus_machine::footprint(&output)]
        .iter()
        .flat_map(|footprint| footprint.nodes.clone())
        .sum();
    runtime.run(|| {
        scope(|scope| {
            let (input, output) = (scope.share(&mut input), scope.share(&mut output));
            let task = scope.task().reads(input.part(..)).writes(output.part(..));
            task.spawn(|(input, output)| output[0] = input[0]);
        });
    });
    let trace = runtime.trace().expect("it was recorded");
    // Once by the seat making the task, and once by the one running it, as near or far for each.
    let (mut said, mut begun) = (0, 0);
    for event in trace.logs().iter().flat_map(|log| &log.events) {
        match event.what {
            vicus_trace::What::Footprint { bytes, .. } => said += bytes as usize,
            vicus_trace::What::BytesRead { bytes, .. } => begun += bytes as usize,
            _ => {}
        }
    }
    assert_eq!((said, begun, output[0]), (lies, lies, 1));
    let rows = trace.summary().boxes;
    assert_eq!(rows.iter().map(|row| row.near_bytes + row.far_bytes).sum::<u64>(), lies as u64);
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
fn a_panic_reaches_the_waiting_task_after_all_are_over() {
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
    let (a, b) =
        (MachineRuntime::builder().threads(2).quiet().start(), MachineRuntime::builder().threads(1).quiet().start());
    let both = a.run(|| join(|| b.run(|| fib(10)), || b.run(|| a.run(|| fib(11)))));
    assert_eq!(both, (55, 89));
}

/// A door decides on the runtime then.
#[test]
#[should_panic(expected = "Runtime::run makes one")]
fn without_a_runtime_nothing_is_joined() {
    join(|| 1, || 2);
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
    let runtime = MachineRuntime::builder().threads(1).quiet().start();
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

/// A possible failure: waiting seats take only tasks of their own request, and each waits for a task in the other's
/// queue.
#[test]
fn tasks_sent_to_each_others_places_are_run_though_both_senders_wait() {
    let machine = vicus_topology::Topology::parse("node:2 core:1 pu:1").unwrap();
    for strategy in ALL {
        println!("{}", strategy.name());
        let setting = strategy.name().parse().unwrap();
        let runtime = MachineRuntime::builder().topology(machine.clone()).threads(2).strategy(setting).quiet().start();
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

/// What happened: a scope's seat, in a wait for the scope's end, took another node's tasks out of a queue too short to
/// be robbed.
#[test]
fn a_waiting_seat_leaves_short_queues_of_other_nodes_alone() {
    let machine = vicus_topology::Topology::parse("node:2 core:1 pu:1").unwrap();
    let builder = MachineRuntime::builder().topology(machine).threads(2);
    let runtime = builder.strategy("footprint".parse().unwrap()).quiet().start();
    let (ran, holds) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    runtime.run(|| {
        let other = NodeId::new(usize::from(std::thread::current().name() == Some("vicus 0")));
        scope(|scope| {
            let (ran, holds) = (&ran, &holds);
            scope.spawn_at(other, |_| {
                holds.store(true, Ordering::Release);
                // The other seat waits by then, and looks around.
                std::thread::sleep(Duration::from_millis(20));
            });
            while !holds.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            // One: a distance of rank 1, times one core.
            scope.spawn_at(other, |_| ran.lock().unwrap().push(std::thread::current().name().map(str::to_owned)));
        });
        let there = Some(format!("vicus {}", other.index()));
        assert_eq!(*ran.lock().unwrap(), [there]);
    });
}

#[test]
fn a_box_may_join() {
    use vicus_flow::{Envelope, ModelBuilder, Schema, Type, library};
    for runtime in runtimes() {
        let schema = Schema::new([("n", Type::U64)]);
        let mut net = ModelBuilder::new("fib");
        let numbers = || (0..15u64).map(|n| Envelope::new([vec![n].into()]));
        let numbers = net.source(library::source("numbers", &schema, numbers));
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

/// Tasks that add to, double and copy parts of an array: on any seats, the result is that of running them in order.
#[test]
fn tasks_with_data_do_what_they_would_do_one_after_the_other() {
    let mut seed = 0x5eed_u64;
    let mut random = move |below: usize| {
        // A linear congruential generator is chance enough here: Knuth's MMIX constants.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for runtime in runtimes() {
        for _ in 0..5 {
            let steps: Vec<(usize, usize, usize, usize)> =
                (0..150).map(|_| (random(3), random(90), random(10) + 1, random(90))).collect();
            let mut expected: Vec<u64> = (0..100).collect();
            for &(what, at, len, from) in &steps {
                match what {
                    0 => expected[at..at + len].iter_mut().for_each(|element| *element = element.wrapping_add(7)),
                    1 => expected[at..at + len].iter_mut().for_each(|element| *element = element.wrapping_mul(3)),
                    _ => {
                        let sum = expected[from..from + len].iter().fold(0u64, |sum, &n| sum.wrapping_add(n));
                        if from + len <= at || at < from {
                            expected[at] = sum;
                        }
                    }
                }
            }
            let mut actual: Vec<u64> = (0..100).collect();
            runtime.run(|| {
                scope(|scope| {
                    let shared = scope.share(&mut actual);
                    for (what, at, len, from) in steps {
                        let part = shared.part(at..at + len);
                        match what {
                            0 => scope.task().writes(part).spawn(|(part,)| {
                                part.iter_mut().for_each(|element| *element = element.wrapping_add(7));
                            }),
                            1 => scope.task().writes(part).immediate().spawn(|(part,)| {
                                part.iter_mut().for_each(|element| *element = element.wrapping_mul(3));
                            }),
                            _ if from + len <= at || at < from => {
                                let (from, to) = (shared.part(from..from + len), shared.part(at..=at));
                                scope.task().reads(from).writes(to).spawn(|(from, to)| {
                                    to[0] = from.iter().fold(0u64, |sum, &n| sum.wrapping_add(n));
                                });
                            }
                            _ => {}
                        }
                    }
                });
            });
            assert_eq!(actual, expected);
        }
    }
}

#[test]
fn what_waits_for_a_task_that_panicked_is_dropped() {
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    let (mut numbers, ran) = (vec![0; 2], AtomicUsize::new(0));
    let caught = catch_unwind(AssertUnwindSafe(|| {
        runtime.run(|| {
            scope(|scope| {
                let (shared, ran) = (scope.share(&mut numbers), &ran);
                scope.task().writes(shared.part(..1)).spawn(|_| panic!("broken"));
                scope.task().reads(shared.part(..1)).writes(shared.part(1..)).spawn(move |_| {
                    ran.fetch_add(1, Ordering::Relaxed);
                });
                scope.task().reads(shared.part(1..)).spawn(move |_| _ = ran.fetch_add(1, Ordering::Relaxed));
            });
        });
    }));
    assert!(caught.is_err());
    assert_eq!(ran.into_inner(), 0);
}

/// One request that waits for itself, and two that wait for each other: each ends, and the task about to close the
/// circle gets an error.
#[test]
fn requests_that_would_wait_in_a_circle_are_told() {
    for runtime in runtimes() {
        let (tells, told) = std::sync::mpsc::channel::<Option<String>>();
        // Waits for the received request, and sends the message of its panic.
        let ask = || {
            let ((sent, received), tells) = (std::sync::mpsc::channel::<TaskRequest<()>>(), tells.clone());
            let request = runtime.spawn(move || {
                let other = received.recv().unwrap();
                let panic = catch_unwind(AssertUnwindSafe(|| other.wait().unwrap())).err();
                tells.send(panic.map(|panic| panic.downcast_ref::<String>().unwrap().clone())).unwrap();
            });
            (sent, request)
        };
        let (sent, request) = ask();
        let circle = format!("requests wait in a circle, so none of them would end: {0} for {0}", request.id());
        sent.send(request).unwrap();
        assert_eq!(told.recv().unwrap(), Some(circle));

        let ((to_first, first), (to_second, second)) = (ask(), ask());
        to_first.send(second).unwrap();
        to_second.send(first).unwrap();
        let both = [told.recv().unwrap(), told.recv().unwrap()];
        let panics: Vec<&String> = both.iter().flatten().collect();
        assert!(panics.len() == 1 && panics[0].contains("wait in a circle"), "the other one goes on: {both:?}");
    }
}

#[test]
fn an_empty_part_shares_nothing() {
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    let mut data = [1u64; 10];
    runtime.run(|| {
        scope(|scope| {
            let data = scope.share(&mut data);
            scope.task().writes(data.part(3..3)).writes(data.part(..)).spawn(|(none, all)| {
                assert!(none.is_empty());
                all.fill(2);
            });
            scope.task().writes(data.part(..)).reads(data.part(5..5)).spawn(|(all, _)| all[0] = 3);
        });
    });
    assert_eq!((data[0], data[9]), (3, 2));
}

#[test]
#[should_panic(expected = "uses the same memory twice")]
fn a_task_cannot_have_the_same_elements_twice() {
    let mut numbers = [0; 4];
    in_scope(|scope| {
        let numbers = scope.share(&mut numbers);
        scope.task().reads(numbers.part(..3)).writes(numbers.part(2..)).spawn(|_| ());
    });
}

/// In a scope of a task of a small runtime.
fn in_scope<'scope>(f: impl FnOnce(&Scope<'scope>) + Send) {
    MachineRuntime::builder().threads(1).quiet().start().run(|| scope(f));
}

#[test]
fn a_loop_does_every_iteration_once_though_threads_are_busy() {
    for runtime in runtimes() {
        for len in [0, 1, 7, 1000] {
            let mut times = vec![0; len];
            let total = AtomicUsize::new(0);
            runtime.run(|| {
                join(
                    || {
                        vicus_machine::for_each_mut(&mut times, |index, times| {
                            *times += 1;
                            total.fetch_add(index, Ordering::Relaxed);
                        });
                    },
                    || std::thread::sleep(Duration::from_millis(1)),
                )
            });
            assert!(times.iter().all(|&times| times == 1));
            assert_eq!(total.into_inner(), len * len.saturating_sub(1) / 2);
        }
        let caught = catch_unwind(AssertUnwindSafe(|| {
            runtime.run(|| vicus_machine::for_each(0..100, |n| assert_ne!(n, 50, "fifty")));
        }));
        assert!(caught.is_err());
    }
}

#[test]
fn iterations_run_on_the_threads_of_the_runtime() {
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    let thread_of = |n: usize| {
        std::hint::black_box((0..20_000 + n % 2).sum::<usize>());
        std::thread::current().id()
    };
    let rounds: Vec<Vec<_>> = (0..20)
        .map(|_| {
            let mut threads = vec![std::thread::current().id(); 64];
            runtime.run(|| vicus_machine::for_each_mut(&mut threads, |n, thread| *thread = thread_of(n)));
            threads
        })
        .collect();
    // The first piece of each part is taken by its own thread, unless another one had finished its own part by then.
    let firsts = rounds.iter().filter(|threads| threads[0] == rounds[0][0]).count();
    println!("the first iteration stayed in {firsts} of {} rounds", rounds.len());
    assert!(rounds.iter().flatten().all(|&thread| thread != std::thread::current().id()));
}

#[test]
fn a_request_runs_beside_its_caller_and_can_be_cancelled() {
    for runtime in runtimes() {
        let fibs: Vec<_> = (5..15).map(|n| runtime.spawn(move || fib(n))).collect();
        assert!(fibs.windows(2).all(|pair| pair[0].id() < pair[1].id()));
        let fibs: Vec<u64> = fibs.into_iter().map(|fib| fib.wait().unwrap()).collect();
        assert_eq!(fibs, [5, 8, 13, 21, 34, 55, 89, 144, 233, 377]);

        let (begun, told) = (std::sync::Arc::new(AtomicBool::new(false)), std::sync::Arc::new(AtomicUsize::new(0)));
        let (begins, tells) = (begun.clone(), told.clone());
        let endless = runtime.spawn(move || {
            begins.store(true, Ordering::Release);
            while !vicus_machine::is_cancelled() {
                std::thread::yield_now();
            }
            // Its own tasks are dropped from now on.
            scope(|scope| scope.spawn(|_| _ = tells.fetch_add(1, Ordering::Relaxed)));
            "cancelled"
        });
        while !begun.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        assert!(!endless.is_done());
        endless.cancel();
        assert_eq!(endless.wait(), Ok("cancelled"));
        assert_eq!(told.load(Ordering::Relaxed), 0);

        let panics = runtime.spawn(|| -> u8 { panic!("in a request") });
        assert!(catch_unwind(AssertUnwindSafe(|| panics.wait())).is_err());
        // Dropped with the runtime: cancelled, and waited for.
        drop(runtime.spawn(|| while !vicus_machine::is_cancelled() {}));
    }
}

/// What happened: a task waiting for a request kept the only thread able to run the request.
#[test]
fn a_task_may_wait_for_requests_of_its_own_runtime() {
    use vicus_flow::{BoxModel, ModelBuilder, Schema, Turn};
    let mut net = ModelBuilder::new("one box");
    let source = net.source(
        BoxModel::new("source", || {
            |turn: &mut Turn<'_>| {
                turn.take(0);
                turn.send_pill(0);
                Ok(())
            }
        })
        .output(&Schema::new::<&str>([])),
    );
    net.end(source.output(0));
    let model = net.build().unwrap();
    for runtime in runtimes() {
        let runtime = &runtime;
        let nested = runtime.run(|| {
            let inner = runtime.spawn(|| fib(10));
            // In a request's own task, and in one run at a scope's end.
            let mut sum = 0;
            scope(|scope| scope.spawn_deferred(|_| sum = runtime.spawn(|| fib(5)).wait().unwrap()));
            inner.wait().unwrap() + sum
        });
        assert_eq!(nested, 55 + 5);
        let (first, second) = runtime.run(|| {
            let wait = || runtime.submit(&model).wait().map(|totals| totals.tasks > 0);
            join(wait, wait)
        });
        assert!(matches!((first, second), (Ok(true), Ok(true))));
    }
}

/// The second request waits for the first, which waits for a third: the seat waiting for the third must not run the
/// second on top, if the strategy distinguishes immediate tasks from deferred ones.
#[test]
fn a_seat_that_waits_for_a_request_runs_none_that_waits_for_its_own() {
    for (strategy, threads) in ["las", "nls", "bobox"].into_iter().flat_map(|strategy| [(strategy, 1), (strategy, 2)]) {
        let setting = strategy.parse().unwrap();
        let runtime = &Arc::new(MachineRuntime::builder().threads(threads).strategy(setting).quiet().start());
        let (sender, receiver) = std::sync::mpsc::channel();
        let first = {
            let inner = Arc::clone(runtime);
            runtime.spawn(move || {
                // Not before the second one is submitted.
                receiver.recv().unwrap();
                inner.spawn(|| fib(5)).wait().unwrap()
            })
        };
        let second = runtime.spawn(move || first.wait().unwrap() + 1);
        sender.send(()).unwrap();
        assert_eq!(second.wait().unwrap(), 5 + 1);
        // A runtime must not end in one of its tasks.
        while Arc::strong_count(runtime) > 1 {
            std::thread::yield_now();
        }
    }
}

/// What happened: waiting seats slept after 5 µs, under any strategy's setting.
#[test]
fn a_waiting_seat_looks_around_as_long_as_the_strategy_says() {
    use vicus_trace::What;
    let setting = "las:spin_ns=2000000000".parse().unwrap();
    let runtime = MachineRuntime::builder().threads(2).strategy(setting).quiet().record(1 << 10).start();
    runtime.run(|| {
        let is_there = AtomicBool::new(false);
        scope(|scope| {
            scope.spawn_deferred(|_| {
                is_there.store(true, Ordering::Release);
                std::thread::sleep(Duration::from_millis(20));
            });
            while !is_there.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
        });
    });
    let trace = runtime.trace().expect("it was recorded");
    let mut slept = 0;
    for log in trace.logs() {
        let mut open = 0;
        for event in &log.events {
            match event.what {
                What::UserCodeBegins { .. } => open += 1,
                What::UserCodeEnds { .. } => open -= 1,
                What::SleepBegins if open > 0 => slept += 1,
                _ => {}
            }
        }
    }
    assert_eq!(slept, 0, "no seat sleeps within two seconds");
}

#[test]
fn a_request_that_has_not_begun_is_dropped_when_it_is_cancelled() {
    let runtime = MachineRuntime::builder().threads(1).quiet().start();
    let gate = std::sync::Arc::new(AtomicBool::new(false));
    let opens = gate.clone();
    let first = runtime.spawn(move || while !opens.load(Ordering::Acquire) {});
    let second = runtime.spawn(|| unreachable!("it was cancelled first"));
    second.cancel();
    gate.store(true, Ordering::Release);
    assert_eq!(first.wait(), Ok(()));
    assert_eq!(second.wait(), Err(vicus_machine::Cancelled));
}

#[test]
#[should_panic(expected = "shared in another one")]
fn what_one_scope_shares_no_task_of_another_says() {
    let mut numbers = [0; 4];
    in_scope(|outer| {
        let shared = outer.share(&mut numbers);
        scope(|inner| inner.task().writes(shared.part(..)).spawn(|_| ()));
    });
}

#[test]
fn tasks_without_bytes_are_one_after_the_other_as_well() {
    struct Token;
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    let (mut tokens, inside) = ([Token], AtomicUsize::new(0));
    runtime.run(|| {
        scope(|scope| {
            let tokens = scope.share(&mut tokens);
            for _ in 0..50 {
                scope.task().writes(tokens.part(..)).spawn(|(_tokens,)| {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
    });
}

/// What happened: they had the same address, and so were taken for the same elements.
#[test]
fn parts_without_bytes_are_told_apart() {
    let mut units = [(); 4];
    in_scope(|scope| {
        let units = scope.share(&mut units);
        let task = scope.task().writes(units.part(..2)).writes(units.part(2..));
        task.spawn(|(left, right)| assert_eq!((left.len(), right.len()), (2, 2)));
    });
}

/// What happened: in a release build, the part was empty.
#[test]
#[should_panic(expected = "element 18446744073709551615 of 4 that are shared")]
fn a_part_cannot_end_beyond_the_largest_number() {
    let mut numbers = [0; 4];
    in_scope(|scope| _ = scope.share(&mut numbers).part(0..=usize::MAX));
}

#[test]
fn a_scope_belongs_to_the_threads_of_one_runtime() {
    let (a, b) =
        (MachineRuntime::builder().threads(1).quiet().start(), MachineRuntime::builder().threads(1).quiet().start());
    let caught = catch_unwind(AssertUnwindSafe(|| a.run(|| scope(|scope| b.run(|| scope.spawn(|_| ()))))));
    assert!(caught.is_err());
}

/// Panics when it is dropped, as a payload or as a result.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

#[test]
fn payloads_that_panic_when_they_are_dropped_harm_no_other_task() {
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    for _ in 0..20 {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            runtime.run(|| scope(|scope| (0..8).for_each(|_| scope.spawn(|_| std::panic::panic_any(Bomb)))))
        }));
        std::mem::forget(caught);
        // Dropped here, if it is over by now; else at its end, without harm to the thread.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(runtime.spawn(|| Bomb))));
        let caught = catch_unwind(AssertUnwindSafe(|| {
            runtime.run(|| vicus_machine::for_each(0..64, |_| std::panic::panic_any(Bomb)))
        }));
        std::mem::forget(caught);
    }
    assert_eq!(runtime.run(|| fib(15)), 610);
}

#[test]
fn a_runtime_may_end_while_a_caller_waits_or_in_a_task_of_its_own() {
    for _ in 0..50 {
        let runtime = MachineRuntime::builder().threads(2).quiet().start();
        let request = runtime.spawn(|| ());
        let waits = std::thread::spawn(move || request.wait());
        drop(runtime);
        let _ = waits.join().unwrap();

        let runtime = std::sync::Arc::new(MachineRuntime::builder().threads(1).quiet().start());
        let (own, (tells, told)) = (runtime.clone(), std::sync::mpsc::channel());
        let request = runtime.spawn(move || {
            told_after(move || drop(own), tells);
        });
        drop(runtime);
        told.recv().unwrap();
        let _ = request.wait();
    }
}

fn told_after(f: impl FnOnce(), tells: std::sync::mpsc::Sender<()>) {
    f();
    tells.send(()).unwrap();
}

#[test]
fn iterations_know_that_their_request_is_cancelled_on_every_thread() {
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    let request = std::sync::Arc::new(Mutex::new(None::<vicus_machine::TaskRequest<()>>));
    let (own, begun) = (request.clone(), AtomicUsize::new(0));
    let begun = std::sync::Arc::new(begun);
    let begins = begun.clone();
    let spawned = runtime.spawn(move || {
        vicus_machine::for_each(0..2, |_| {
            begins.fetch_add(1, Ordering::SeqCst);
            while !vicus_machine::is_cancelled() {
                std::thread::yield_now();
            }
        });
    });
    *own.lock().unwrap() = Some(spawned);
    while begun.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    let spawned = request.lock().unwrap().take().unwrap();
    spawned.cancel();
    assert_eq!(spawned.wait(), Ok(()));
}

#[test]
fn a_loop_may_end_at_the_largest_number() {
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    let sum = AtomicUsize::new(0);
    runtime.run(|| {
        vicus_machine::for_each(usize::MAX - 100..usize::MAX, |n| _ = sum.fetch_add(usize::MAX - n, Ordering::Relaxed))
    });
    assert_eq!(sum.into_inner(), 5050);
}

/// Each queued task is counted as taken once, also without a bounded log.
#[test]
fn takes_are_counted_without_a_trace() {
    for strategy in ["las", "central", "locality-queues", "footprint"] {
        let runtime =
            MachineRuntime::builder().threads(3).strategy(strategy.parse().unwrap()).quiet().count_takes().start();
        let takes = || runtime.takes().values().sum::<u64>();
        let counted = runtime.run(|| {
            let before = takes();
            scope(|scope| {
                for _ in 0..100 {
                    scope.spawn_deferred(|_| assert_eq!(fib(10), 55));
                }
            });
            takes() - before
        });
        // fib(10) is found by 88 joins.
        assert_eq!(counted, 100 * (1 + 88), "{strategy}");
        assert!(runtime.trace().is_none(), "{strategy}");
    }
    assert!(MachineRuntime::builder().threads(1).quiet().start().takes().is_empty());
}

/// Deferred tasks from all threads at once: some find their group's queue in use, and go to their spawner's own one if
/// the plan says so, and only then.
#[test]
fn tasks_that_find_their_queue_in_use_run_once() {
    const SPAWNERS: usize = 8;
    const EACH: usize = 5_000;
    for (setting, threads) in [("vicus", 2), ("vicus", 8), ("vicus:spill=off", 8), ("las", 8)] {
        let setting: Setting = setting.parse().unwrap();
        let runtime =
            MachineRuntime::builder().threads(threads).strategy(setting.clone()).quiet().write_decisions().start();
        let ran: Vec<AtomicUsize> = (0..SPAWNERS * EACH).map(|_| AtomicUsize::new(0)).collect();
        runtime.run(|| {
            scope(|scope| {
                for own in ran.chunks(EACH) {
                    scope.spawn_deferred(move |scope| {
                        own.iter().for_each(|ran| scope.spawn_deferred(|_| _ = ran.fetch_add(1, Ordering::Relaxed)));
                    });
                }
            });
        });
        assert!(ran.iter().all(|ran| ran.load(Ordering::Relaxed) == 1), "{setting}");
        let plan = runtime.plan().clone();
        let (decisions, _) = runtime.recorded();
        let to_own = |decision: &&Decision| match decision {
            Decision::Puts(_, queue) => plan.queues[queue.index()].owner.is_some(),
            _ => false,
        };
        let spilled = decisions.iter().flatten().filter(to_own).count();
        println!("{setting}, {threads} threads: {spilled} of {} spilled", ran.len());
        assert!(plan.spills() || spilled == 0, "{setting}: {spilled}");
    }
}
