//! Under `shepherd`, work without a place goes to the shepherds in turn, or with `unplaced=own` stays with its spawner
//! until others steal it; work with a place stays there.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vicus_flow::{BoxModel, Column, Envelope, Model, ModelBuilder, Schema, Turn, Type};
use vicus_machine::{MachineRuntime, RuntimeBuilder, join, scope};
use vicus_schedule::{Access, Mode};
use vicus_topology::{GroupId, Topology};
use vicus_trace::{JobId, Trace, What};

const SHEPHERDS: usize = 4;

/// A shepherd for each thread.
fn builder(strategy: &str) -> RuntimeBuilder {
    let machine = Topology::parse(&format!("node:2 l3:{} core:1", SHEPHERDS / 2)).unwrap();
    MachineRuntime::builder().topology(machine).threads(SHEPHERDS).strategy(strategy.parse().unwrap()).quiet()
}

/// Tasks dealt to a shepherd are run by it alone.
fn runtime() -> MachineRuntime {
    builder("shepherd").record(1 << 16).start()
}

/// By seat, the number of plain tasks run there, without each request's first one, submitted by a caller.
fn ran(trace: &Trace) -> Vec<usize> {
    assert!(trace.check().is_empty());
    assert!(trace.by_time().is_sorted_by_key(|entry| entry.event.time_ns), "threads have one clock");
    let callers = trace.header().seats.iter().position(|seat| seat.is_callers).unwrap();
    let of_callers: BTreeSet<JobId> = trace.logs()[callers]
        .events
        .iter()
        .filter_map(|event| match event.what {
            What::Enqueued { who, .. } => Some(who),
            _ => None,
        })
        .collect();
    let begins = |what: &What| matches!(what, What::UserCodeBegins { who } if !of_callers.contains(who));
    let count = |log: &vicus_trace::SeatLog| log.events.iter().filter(|event| begins(&event.what)).count();
    trace.logs()[..SHEPHERDS].iter().map(count).collect()
}

/// What happened: spawned tasks stayed in their spawner's queue, and the whole program ran on its first shepherd. A
/// machine of four core groups was as quick as one.
#[test]
fn tasks_that_name_no_place_go_to_every_shepherd_in_turn() {
    const EACH: usize = 25;
    let table = vec![0u8; 1 << 12];
    type Spawn<'a> = &'a (dyn Fn(&vicus_machine::Scope<'_>) + Sync);
    let cases: [(&str, Spawn<'_>); 4] = [
        ("immediate", &|scope| scope.spawn(|_| ())),
        ("deferred", &|scope| scope.spawn_deferred(|_| ())),
        ("with a footprint", &|scope| {
            scope.task().touches(&[Access::of(&table, Mode::Read)]).spawn(|()| ());
        }),
        ("beside tasks that name a place", &|scope| {
            scope.spawn(|_| ());
        }),
    ];
    for (what, spawn) in cases {
        let runtime = runtime();
        let mut expected = vec![EACH; SHEPHERDS];
        let names_places = what.contains("beside");
        runtime.run(|| {
            scope(|scope| {
                for _ in 0..EACH * SHEPHERDS {
                    spawn(scope);
                    if names_places {
                        scope.spawn_at(GroupId::new(3), |_| ());
                    }
                }
            });
        });
        if names_places {
            // What happened in a draft: both kinds were counted together, and every second shepherd got nothing.
            expected[3] += EACH * SHEPHERDS;
        }
        assert_eq!(ran(&runtime.trace().unwrap()), expected, "{what}");
    }
}

/// A waiting task is dealt at its spawn, and not when it becomes ready.
#[test]
fn tasks_that_wait_for_others_go_to_every_shepherd_in_turn() {
    let runtime = runtime();
    let mut cells = vec![0usize; 1];
    runtime.run(|| {
        scope(|scope| {
            let cell = scope.share(&mut cells[..]);
            (0..40).for_each(|_| scope.task().writes(cell.part(..)).spawn(|(cell,)| cell[0] += 1));
        });
    });
    assert_eq!(cells, [40]);
    assert_eq!(ran(&runtime.trace().unwrap()), [10; SHEPHERDS]);
}

#[test]
fn the_second_closure_of_a_join_goes_to_every_shepherd() {
    let runtime = runtime();
    let threads = Mutex::new(HashSet::new());
    runtime.run(|| {
        for _ in 0..100_000 {
            // The caller takes an untaken closure back, so other seats are given time to take it.
            let first = || std::thread::sleep(Duration::from_micros(200));
            join(first, || threads.lock().unwrap().insert(std::thread::current().id()));
            if threads.lock().unwrap().len() == SHEPHERDS {
                return;
            }
        }
        panic!("only {:?} came", threads.lock().unwrap());
    });
}

#[test]
fn what_names_a_place_stays_there() {
    let runtime = runtime();
    for group in 0..SHEPHERDS {
        runtime.run(|| scope(|scope| (0..20).for_each(|_| scope.spawn_at(GroupId::new(group), |_| ()))));
    }
    assert_eq!(ran(&runtime.trace().unwrap()), [20; SHEPHERDS]);
}

/// What happened in a draft: a task waited for tasks dealt to others and meanwhile ran tasks dealt to it by others;
/// these waited in turn, and so on: a stack of two megabytes was too small for a recursion of depth 27.
#[test]
fn a_deep_recursion_does_not_overflow_a_stack() {
    fn fib(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (mut left, mut right) = (0, 0);
        scope(|scope| {
            scope.spawn(|_| left = fib(n - 1));
            scope.spawn(|_| right = fib(n - 2));
        });
        left + right
    }
    let machine = Topology::parse("node:4 l3:4 core:1").unwrap();
    let builder = MachineRuntime::builder().topology(machine).threads(16).strategy("shepherd".parse().unwrap());
    assert_eq!(builder.quiet().start().run(|| fib(25)), 75_025);
}

/// With `unplaced=own`, work without a place stays with its spawner until others steal it. Work from outside waits for
/// no shepherd with a busy thread.
#[test]
fn shepherds_steal_what_names_no_place() {
    let runtime = builder("shepherd:unplaced=own").start();
    let seen = Mutex::new(HashSet::new());
    let note = || {
        seen.lock().unwrap().insert(std::thread::current().name().unwrap().to_owned());
        std::thread::sleep(Duration::from_micros(50));
    };
    for round in 0.. {
        assert!(round < 10_000, "some steal nothing: {seen:?}");
        runtime.run(|| scope(|scope| (0..64).for_each(|_| scope.spawn(|_| note()))));
        if seen.lock().unwrap().len() == SHEPHERDS {
            break;
        }
    }
    // All but one are busy until the tasks at each one's entry have run.
    let (ended, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let busy = || {
        while !is_over.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|callers| {
        for _ in 1..SHEPHERDS {
            callers.spawn(|| runtime.run(busy));
        }
        for _ in 0..2 * SHEPHERDS {
            callers.spawn(|| {
                runtime.run(|| ());
                if ended.fetch_add(1, Ordering::AcqRel) + 1 == 2 * SHEPHERDS {
                    is_over.store(true, Ordering::Release);
                }
            });
        }
    });
}

fn numbers() -> Schema {
    Schema::new([("n", Type::U64)])
}

/// A chain of boxes; each passes every envelope on, and the first one makes them.
fn chain(boxes: usize, envelopes: usize) -> Arc<Model> {
    let mut net = ModelBuilder::new("chain");
    let mut last = net.source(
        BoxModel::new("begin", move || {
            let mut left = envelopes;
            move |turn: &mut Turn<'_>| {
                turn.take(0);
                if left == 0 {
                    turn.send_pill(0);
                } else {
                    left -= 1;
                    turn.send(0, Envelope::new([Column::from(vec![left as u64])]));
                    turn.run_again();
                }
                Ok(())
            }
        })
        .output(&numbers()),
    );
    for number in 0..boxes {
        let next = net.add(
            BoxModel::new(format!("box{number}"), || {
                |turn: &mut Turn<'_>| {
                    while let Some(envelope) = turn.take(0) {
                        if envelope.is_pill() { turn.send_pill(0) } else { turn.send(0, envelope) }
                    }
                    Ok(())
                }
            })
            .input(&numbers())
            .output(&numbers()),
        );
        net.connect(last.output(0), next.input(0));
        last = next;
    }
    net.end(last.output(0));
    net.build().unwrap()
}

/// What happened: all boxes of a request ran on its first shepherd.
#[test]
fn each_box_has_a_shepherd_and_neighbours_have_different_ones() {
    let runtime = runtime();
    let model = chain(6, 50);
    runtime.submit(&model).wait().unwrap();
    let trace = runtime.trace().unwrap();
    assert!(trace.check().is_empty());
    let mut seats: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for (seat, log) in trace.logs().iter().enumerate() {
        for event in &log.events {
            if let What::InvocationBegins { who } = event.what {
                seats.entry(who.index).or_default().insert(seat);
            }
        }
    }
    // A caller submits the first one, to any shepherd.
    let boxes = &trace.header().models[0].boxes;
    for number in 0..6 {
        let index = boxes.iter().position(|one| one.name == format!("box{number}")).unwrap() as u32;
        assert_eq!(seats[&index].len(), 1, "box {number}: {seats:?}");
    }
    let used: BTreeSet<usize> = seats.values().flatten().copied().collect();
    assert_eq!(used.len(), SHEPHERDS, "{seats:?}");
}
