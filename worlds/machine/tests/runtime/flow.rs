//! Networks on real threads, under each strategy open to users, checked by the trace checker.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use vicus_flow::library::{self, More};
use vicus_flow::{
    Bound, BoxError, BoxModel, Column, Envelope, FlowError, Model, ModelBuilder, Overflows, Schema, Turn, Type,
};
use vicus_machine::{MachineRuntime, Request, RequestOptions, TemporaryFiles};
use vicus_memory::Region;
use vicus_topology::{NodeId, Topology};

fn runtime(strategy: &str, threads: usize) -> MachineRuntime {
    MachineRuntime::builder().strategy(strategy.parse().unwrap()).threads(threads).quiet().record(1 << 18).start()
}

fn numbers() -> Schema {
    Schema::new([("n", Type::U64)])
}

/// Sends `envelopes` envelopes of 10 rows, one for each invocation.
fn source(envelopes: u64) -> BoxModel {
    let rows = |next: u64| (next * 10..next * 10 + 10).collect::<Vec<u64>>();
    library::source("source", &numbers(), move || {
        (0..envelopes).map(move |next| Envelope::new([Column::from(rows(next))]))
    })
}

/// Adds up all rows of its input.
fn sum_into(total: &Arc<Mutex<u64>>) -> BoxModel {
    let total = Arc::clone(total);
    library::sink("sum", &numbers(), move |envelope| {
        *total.lock().unwrap() += envelope.column(0).u64s().iter().sum::<u64>();
        Ok(())
    })
}

/// A source, a fan-out to three branches of two boxes, a sum at each end.
fn fan(total: &Arc<Mutex<u64>>, envelopes: u64) -> Arc<Model> {
    let mut net = ModelBuilder::new("fan");
    let from = net.source(source(envelopes));
    for _ in 0..3 {
        let schema = numbers();
        let pass = net.add(library::map("pass", &schema, &schema, Some));
        let double = net.add(library::map("double", &schema, &schema, |envelope| {
            let doubled: Vec<u64> = envelope.column(0).u64s().iter().map(|n| n * 2).collect();
            Some(Envelope::new([Column::from(doubled)]))
        }));
        let end = net.add(sum_into(total));
        net.connect(from.output(0), pass.input(0)).bound(Bound { envelopes: 2, bytes: 1 << 20 });
        net.connect(pass.output(0), double.input(0));
        net.connect(double.output(0), end.input(0));
        net.end(end.output(0));
    }
    net.build().unwrap()
}

#[test]
fn every_envelope_arrives_once_under_every_strategy_and_the_trace_is_possible() {
    let others = ["las:pin=pu", "central:capacity=2", "locality-queues:capacity=2"];
    for strategy in vicus_schedule::ALL.map(|strategy| strategy.name()).into_iter().chain(others) {
        for threads in [1, 2, 8] {
            let runtime = runtime(strategy, threads);
            let total = Arc::new(Mutex::new(0));
            let model = fan(&total, 50);
            let requests: Vec<_> = (0..4).map(|_| runtime.submit(&model)).collect();
            for request in requests {
                request.wait().unwrap();
            }
            assert_eq!(*total.lock().unwrap(), 4 * 3 * 2 * (0..500u64).sum::<u64>(), "{strategy}, {threads} threads");
            let trace = runtime.trace().unwrap();
            assert_eq!(trace.lost(), 0);
            let violations = trace.check();
            assert!(
                violations.is_empty(),
                "{strategy}, {threads} threads: {:?}",
                &violations[..violations.len().min(5)]
            );
        }
    }
}

#[test]
fn the_trace_has_every_sending_before_its_reception() {
    // What happened: an envelope carried the time before it was sent, so its reader could be recorded as the earlier
    // one.
    for threads in [1, 2, 8] {
        let runtime = runtime("las", threads);
        runtime.submit(&fan(&Arc::new(Mutex::new(0)), 200)).wait().unwrap();
        let trace = runtime.trace().unwrap();
        assert_eq!((trace.lost(), trace.check().first()), (0, None));
        // `source` is box 1; the boxes named `pass` read it. Orders, as they were sent and received.
        let passes = [2, 5, 8];
        let of = |want: &dyn Fn(&vicus_trace::What) -> bool| -> Vec<u64> {
            trace.merged().filter(|entry| want(&entry.event.what)).map(|entry| entry.event.order).collect()
        };
        use vicus_trace::What::{EnvelopeReceived, EnvelopeSent};
        let sent = of(&|what| matches!(what, EnvelopeSent { who, .. } if who.index == 1));
        assert_eq!(sent.len(), 201);
        for pass in passes {
            let received = of(&|what| matches!(what, EnvelopeReceived { who, .. } if who.index == pass));
            assert_eq!(received.len(), 201);
            assert!(sent.iter().zip(&received).all(|(sent, received)| sent < received), "{threads} threads");
        }
    }
}

#[test]
fn a_failing_box_fails_its_request_alone_and_is_named() {
    let runtime = runtime("las", 2);
    let bad = |how: fn() -> Result<Option<Envelope>, String>| {
        let mut net = ModelBuilder::new("bad");
        let from = net.source(source(100));
        let end = net.add(library::sink("faulty", &numbers(), move |_| {
            how()?;
            Ok(())
        }));
        net.connect(from.output(0), end.input(0));
        net.end(end.output(0));
        net.build().unwrap()
    };
    let total = Arc::new(Mutex::new(0));
    let good = runtime.submit(&fan(&total, 200));
    let failed = runtime.submit(&bad(|| Err("no more paper".to_owned()))).wait().unwrap_err();
    assert_eq!(failed.to_string(), "box faulty failed: no more paper");
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let panicked = runtime.submit(&bad(|| panic!("out of range"))).wait().unwrap_err();
    std::panic::set_hook(quiet);
    assert_eq!(panicked.to_string(), "box faulty panicked: out of range");
    good.wait().unwrap();
    assert_eq!(*total.lock().unwrap(), 3 * 2 * (0..2000u64).sum::<u64>());
}

#[test]
fn a_cancelled_request_ends_soon_even_behind_others() {
    for strategy in ["las", "nls"] {
        let runtime = runtime(strategy, 2);
        // An endless source.
        let mut net = ModelBuilder::new("endless");
        let from = net.source(source(u64::MAX));
        let end = net.add(library::sink("drop", &numbers(), |_| Ok(())));
        net.connect(from.output(0), end.input(0));
        net.end(end.output(0));
        let model = net.build().unwrap();
        let requests: Vec<_> = (0..4).map(|_| runtime.submit(&model)).collect();
        std::thread::sleep(Duration::from_millis(20));
        for request in requests.into_iter().rev() {
            assert!(!request.is_done());
            request.cancel();
            assert!(matches!(request.wait(), Err(FlowError::Cancelled)));
        }
        assert!(runtime.trace().unwrap().check().is_empty());
    }
}

#[test]
fn a_long_action_can_poll_for_its_cancellation() {
    let runtime = runtime("las", 1);
    let began = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&began);
    let mut net = ModelBuilder::new("long");
    let from = net.source(
        BoxModel::new("long", move || {
            let began = Arc::clone(&began);
            move |turn: &mut Turn<'_>| {
                began.store(1, Ordering::Release);
                while !turn.is_stopped() {
                    std::hint::spin_loop();
                }
                Ok(())
            }
        })
        .output(&numbers()),
    );
    net.end(from.output(0));
    let request = runtime.submit(&net.build().unwrap());
    while seen.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    request.cancel();
    assert!(matches!(request.wait(), Err(FlowError::Cancelled)));
}

/// Bobox report, Fig. 4: one branch passes the stream through, the other needs all of it first.
fn average_network(cure: bool) -> Arc<Model> {
    let schema = numbers();
    let mut net = ModelBuilder::new("above average");
    net.default_bound(Bound { envelopes: 4, bytes: 1 << 20 });
    let from = net.source(source(100));
    let average = net.add(
        BoxModel::new("average", || {
            let (mut sum, mut count) = (0, 0);
            move |turn: &mut Turn<'_>| {
                match turn.take(0) {
                    Some(pill) if pill.is_pill() => {
                        turn.send(0, Envelope::new([Column::from(vec![sum / count])]));
                        turn.send_pill(0);
                    }
                    Some(envelope) => {
                        sum += envelope.column(0).u64s().iter().sum::<u64>();
                        count += envelope.rows() as u64;
                    }
                    None => {}
                }
                Ok(())
            }
        })
        .input(&schema)
        .output(&schema),
    );
    let filter = net.add(
        BoxModel::new("above", || {
            let mut average = None;
            move |turn: &mut Turn<'_>| {
                if average.is_none() {
                    average = turn.take(1).map(|envelope| envelope.column(0).u64s()[0]);
                }
                if let Some(average) = average {
                    turn.take(1);
                    match turn.take(0) {
                        Some(pill) if pill.is_pill() => turn.send_pill(0),
                        Some(envelope) => {
                            let above = |n: &&u64| **n > average;
                            let rows: Vec<u64> = envelope.column(0).u64s().iter().filter(above).copied().collect();
                            turn.send(0, Envelope::new([Column::from(rows)]));
                        }
                        None => {}
                    }
                }
                Ok(())
            }
        })
        .input(&schema)
        .input(&schema)
        .output(&schema),
    );
    net.connect(from.output(0), average.input(0));
    if cure {
        let hold = net.add(library::hold(&schema));
        net.connect(from.output(0), hold.input(0));
        net.connect(hold.output(0), filter.input(0));
    } else {
        let pass = net.add(library::map("pass-through", &schema, &schema, Some));
        net.connect(from.output(0), pass.input(0));
        net.connect(pass.output(0), filter.input(0));
    }
    net.connect(average.output(0), filter.input(1));
    let end = net.add(library::sink("print", &schema, |_| Ok(())));
    net.connect(filter.output(0), end.input(0));
    net.end(end.output(0));
    net.build().unwrap()
}

/// The bytes that a request's vias were allowed beyond their bounds.
fn lent(request: &Request) -> u64 {
    request.counts().iter().flat_map(|counts| &counts.outputs).map(|output| output.overdraft).sum()
}

#[test]
fn a_branch_that_needs_all_rows_first_gets_them_and_without_memory_its_cycle_is_named() {
    for strategy in vicus_schedule::ALL.map(|strategy| strategy.name()) {
        for threads in [1, 2, 8] {
            let runtime = runtime(strategy, threads);
            let request = runtime.submit(&average_network(false));
            request.wait().unwrap();
            assert!(lent(&request) > 0, "{strategy}");
            let here = runtime.submit_here(&average_network(false), Vec::new(), u64::MAX, &|| false);
            here.wait().unwrap();
            assert!(lent(&here) > 0, "{strategy}");
            // Without memory for all of it, files have it.
            let files = TemporaryFiles::within(&std::env::temp_dir(), 1 << 20).unwrap();
            let overflows: Option<Arc<dyn Overflows>> = Some(files);
            let options = RequestOptions { overflows, ..RequestOptions::from(1000) };
            for request in [
                runtime.submit_within(&average_network(false), Vec::new(), options.clone()),
                runtime.submit_here(&average_network(false), Vec::new(), options.clone(), &|| false),
            ] {
                request.wait().unwrap();
                let written: u64 = request.counts().iter().map(|counts| counts.spilled_bytes).sum();
                assert!(written > 0 && lent(&request) <= 1000, "{strategy}: {written} bytes");
            }
            let began = Instant::now();
            let request = runtime.submit_within(&average_network(false), Vec::new(), 1000);
            let error = request.wait().unwrap_err();
            assert!(lent(&request) <= 1000);
            let FlowError::Stalled { cycle, .. } = &error else { panic!("expected a stall, got {error}") };
            let text = cycle.join("; ");
            for name in [
                "source waits for room",
                "pass-through waits for room at input 0 of above",
                "above waits for input 1 from average",
                "average waits for input 0 from source",
            ] {
                assert!(text.contains(name), "`{name}` is part of: {text}");
            }
            assert!(began.elapsed() < Duration::from_secs(5), "it is found at once, not by a time-out");
            let held = runtime.submit(&average_network(true));
            held.wait().unwrap();
            assert_eq!(lent(&held), 0);
            // The trace has both: bytes lent, and 0 for files.
            let trace = runtime.trace().unwrap();
            assert_eq!((trace.lost(), trace.check().first()), (0, None), "{strategy}");
            let told = trace.by_time().filter_map(|entry| match entry.event.what {
                vicus_trace::What::Overdrawn { bytes, .. } => Some(bytes),
                _ => None,
            });
            let told: Vec<u32> = told.collect();
            assert!(told.contains(&0) && told.iter().any(|&bytes| bytes > 1000), "{strategy}: {told:?}");
        }
    }
}

#[test]
fn a_reader_that_has_enough_stops_its_source() {
    for strategy in ["las", "nls"] {
        let runtime = runtime(strategy, 2);
        let schema = numbers();
        let mut net = ModelBuilder::new("limit");
        let from = net.source(source(u64::MAX));
        let pass = net.add(library::map("pass", &schema, &schema, Some));
        let limit = net.add(
            BoxModel::new("limit", || {
                let mut left = 5;
                move |turn: &mut Turn<'_>| {
                    if let Some(envelope) = turn.take(0) {
                        left -= 1;
                        turn.send(0, envelope);
                        if left == 0 {
                            turn.send_pill(0);
                            turn.close(0);
                        }
                    }
                    Ok(())
                }
            })
            .input(&schema)
            .output(&schema),
        );
        net.connect(from.output(0), pass.input(0));
        net.connect(pass.output(0), limit.input(0));
        net.end(limit.output(0));
        runtime.submit(&net.build().unwrap()).wait().unwrap();
    }
}

#[test]
fn a_blocked_box_lends_its_thread() {
    // One thread. The first box blocks until the second has run: without a lent thread they would wait for ever.
    let runtime = runtime("las", 1);
    let ran = Arc::new(AtomicUsize::new(0));
    let (blocker, other) = (Arc::clone(&ran), Arc::clone(&ran));
    let mut net = ModelBuilder::new("blocking");
    let first = net.source(
        BoxModel::new("blocks", move || {
            let ran = Arc::clone(&blocker);
            move |turn: &mut Turn<'_>| {
                turn.take(0);
                turn.blocking(|| {
                    while ran.load(Ordering::Acquire) == 0 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
                turn.send_pill(0);
                Ok(())
            }
        })
        .output(&numbers()),
    );
    let second = net.source(
        BoxModel::new("runs", move || {
            let ran = Arc::clone(&other);
            move |turn: &mut Turn<'_>| {
                turn.take(0);
                // The blocking box may come first or second; it must not run alone.
                ran.store(1, Ordering::Release);
                turn.send_pill(0);
                Ok(())
            }
        })
        .output(&numbers()),
    );
    net.end(first.output(0));
    net.end(second.output(0));
    let model = net.build().unwrap();
    for _ in 0..20 {
        ran.store(0, Ordering::Release);
        runtime.submit(&model).wait().unwrap();
    }
}

#[test]
fn a_machine_of_many_groups_runs_on_any_host() {
    // Seats on PUs perhaps missing on this host: pinning fails with a warning, and everything still runs.
    let machine = Topology::parse("node:4 l3:2 core:2").unwrap();
    for strategy in ["las", "nls"] {
        let runtime = MachineRuntime::builder()
            .topology(machine.clone())
            .threads(16)
            .strategy(strategy.parse().unwrap())
            .quiet()
            .record(1 << 16)
            .start();
        let total = Arc::new(Mutex::new(0));
        let model = fan(&total, 20);
        let requests: Vec<_> = (0..16).map(|_| runtime.submit(&model)).collect();
        requests.into_iter().for_each(|request| assert!(request.wait().is_ok()));
        assert_eq!(*total.lock().unwrap(), 16 * 3 * 2 * (0..200u64).sum::<u64>());
        let trace = runtime.trace().unwrap();
        assert!(trace.check().is_empty(), "{:?}", trace.check().first());
    }
}

#[test]
fn a_lent_thread_that_goes_back_leaves_no_task_behind() {
    // What happened: a lent thread took a task in its last look before sleep, saw its lease end, and left without
    // running the task. The request never ended.
    let schema = numbers();
    let mut net = ModelBuilder::new("blocks often");
    for _ in 0..4 {
        let source = net.source(
            BoxModel::new("source", || {
                let mut left = 100u64;
                move |turn: &mut Turn<'_>| {
                    turn.take(0);
                    turn.blocking(|| std::thread::sleep(Duration::from_micros(left * 37 % 150)));
                    left -= 1;
                    if left == 0 {
                        turn.send_pill(0);
                    } else {
                        turn.send(0, Envelope::new([Column::from(vec![left])]));
                        turn.run_again();
                    }
                    Ok(())
                }
            })
            .output(&schema),
        );
        let mut last = source.output(0);
        for _ in 0..3 {
            let pass = net.add(library::map("pass", &schema, &schema, Some));
            net.connect(last, pass.input(0));
            last = pass.output(0);
        }
        net.end(last);
    }
    let model = net.build().unwrap();
    for strategy in ["las", "nls"] {
        let runtime = runtime(strategy, 4);
        for round in 0..20 {
            let request = runtime.submit(&model);
            let ended = request.wait_for(Duration::from_secs(60));
            ended.unwrap_or_else(|| panic!("round {round}: a task was lost")).unwrap();
        }
    }
}

#[test]
fn rows_that_cross_nodes_are_far() {
    // Two threads on two nodes. The sources run at the same time, so on both; their reader takes both envelopes in one
    // invocation, on one of the nodes.
    let meeting = Arc::new(AtomicUsize::new(0));
    let source = |rows: usize| {
        let meeting = Arc::clone(&meeting);
        let factory = move || {
            let meeting = Arc::clone(&meeting);
            move |turn: &mut Turn<'_>| {
                turn.take(0);
                meeting.fetch_add(1, Ordering::AcqRel);
                let began = Instant::now();
                while meeting.load(Ordering::Acquire) < 2 {
                    assert!(began.elapsed() < Duration::from_secs(60), "no other thread came for the other source");
                    std::thread::yield_now();
                }
                turn.send(0, Envelope::new([Column::from(vec![1u64; rows])]));
                turn.send_pill(0);
                Ok(())
            }
        };
        BoxModel::new("source", factory).output(&numbers())
    };
    let both = || {
        |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            if turn.head(0).is_some() && turn.head(1).is_some() {
                let pills = [0, 1].map(|input| turn.take(input).is_some_and(|envelope| envelope.is_pill()));
                if pills == [true, true] {
                    turn.send_pill(0);
                }
            }
            Ok(())
        }
    };
    let mut net = ModelBuilder::new("two nodes");
    let (ten, hundred) = (net.source(source(10)), net.source(source(100)));
    let both = net.add(BoxModel::new("both", both).input(&numbers()).input(&numbers()).output(&numbers()));
    net.connect(ten.output(0), both.input(0));
    net.connect(hundred.output(0), both.input(1));
    net.end(both.output(0));
    let model = net.build().unwrap();
    for strategy in ["las", "nls"] {
        let machine = Topology::parse("node:2 core:1").unwrap();
        let builder =
            MachineRuntime::builder().topology(machine).threads(2).strategy(strategy.parse().unwrap()).quiet();
        let runtime = builder.start();
        for _ in 0..20 {
            meeting.store(0, Ordering::Release);
            let request = runtime.submit(&model);
            let totals = request.wait().unwrap();
            let inputs = &request.counts()[both.index()].inputs;
            let (near, far) = (inputs[0].near_bytes + inputs[1].near_bytes, inputs[0].far_bytes + inputs[1].far_bytes);
            assert!([(80, 800), (800, 80)].contains(&(near, far)), "{strategy}: {inputs:?}");
            assert_eq!((totals.near_bytes, totals.far_bytes), (near, far));
        }
    }
}

#[test]
fn las_reads_what_lies_on_a_node_there() {
    // A range on each of two nodes with a thread each. Both ranges are read at the same time, so on both nodes.
    let meeting = Arc::new(AtomicUsize::new(0));
    let reader = || {
        let meeting = Arc::clone(&meeting);
        BoxModel::new("reader", move || {
            let meeting = Arc::clone(&meeting);
            move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                let Some(range) = turn.take(0) else { return Ok(()) };
                if range.is_pill() {
                    turn.send_pill(0);
                    return Ok(());
                }
                meeting.fetch_add(1, Ordering::AcqRel);
                let began = Instant::now();
                while meeting.load(Ordering::Acquire) < 2 {
                    assert!(began.elapsed() < Duration::from_secs(60), "no other thread came for the other range");
                    std::thread::yield_now();
                }
                turn.count_read(range.home().expect("the piece has one"), range.column(2).u64s()[0]);
                Ok(())
            }
        })
        .input(&library::range_schema())
        .output(&numbers())
    };
    let pieces = [0, 1].map(|node| library::Piece { range: 0..10, home: Some(NodeId::new(node)) });
    let mut net = ModelBuilder::new("two ranges");
    let split = net.source(library::split(pieces, 2, 10));
    let readers = [0, 1].map(|output| {
        let reader = net.add(reader());
        net.connect(split.output(output), reader.input(0));
        net.end(reader.output(0));
        reader
    });
    let model = net.build().unwrap();
    let machine = Topology::parse("node:2 core:1").unwrap();
    let runtime = MachineRuntime::builder().topology(machine).threads(2).quiet().start();
    for _ in 0..50 {
        meeting.store(0, Ordering::Release);
        let request = runtime.submit(&model);
        request.wait().unwrap();
        for reader in readers {
            let counts = &request.counts()[reader.index()];
            assert_eq!((counts.read_near_bytes, counts.read_far_bytes), (10, 0), "{counts:?}");
        }
    }
}

/// This program's allocator is the system's.
#[test]
fn columns_lie_in_one_block_of_the_memory_whatever_the_programs_allocator() {
    let runtime = MachineRuntime::builder().threads(2).quiet().start();
    let memory = Arc::clone(runtime.memory().expect("this process has addresses for it"));
    let schema = Schema::new([("a", Type::U64), ("b", Type::U8)]);
    let mut net = ModelBuilder::new("columns");
    let source = net.source(library::fill("columns", &schema, || {
        let mut left = vec![10, 4096];
        move |turn, builder| {
            let rows = left.pop().expect("it has more");
            builder.reserve(turn, rows);
            builder.u64s(0).extend(0..rows as u64);
            builder.u8s(1).repeat(7, rows);
            Ok(if left.is_empty() { More::No } else { More::Yes })
        }
    }));
    let (send, receive) = mpsc::channel();
    let sink = net.add(library::sink("sink", &schema, move |envelope| Ok(send.send(envelope)?)));
    net.connect(source.output(0), sink.input(0));
    net.end(sink.output(0));
    runtime.submit(&net.build().unwrap()).wait().unwrap();
    let [large, small] = [receive.recv().unwrap(), receive.recv().unwrap()];
    let (a, b) = (large.column(0).u64s(), large.column(1).u8s());
    assert!(a.iter().copied().eq(0..4096) && b == [7; 4096]);
    assert!(memory.owns(a.as_ptr().cast()) && memory.owns(b.as_ptr()));
    let apart = b.as_ptr().addr() - a.as_ptr().addr();
    assert!((4096 * 8..4096 * 8 + 200).contains(&apart), "one behind the other: {apart}");
    assert!(!memory.owns(small.column(0).u64s().as_ptr().cast()), "as other small blocks");
    drop(runtime);
    // Their heap has ended; another heap's reader can still read and free them.
    assert_eq!(a.iter().sum::<u64>(), 4095 * 2048);
    drop(large);
}
