//! Many small requests from several callers on more threads than there are cores, under every strategy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use vicus_flow::{Bound, BoxModel, Column, Envelope, FlowError, Model, ModelBuilder, Schema, Turn, Type, library};
use vicus_machine::{MachineRuntime, Request};

/// A request ends soon, unless there is a mistake.
fn wait(request: Request, strategy: &str) -> Result<vicus_flow::Totals, FlowError> {
    let began = Instant::now();
    while !request.is_done() {
        assert!(began.elapsed() < Duration::from_secs(60), "{strategy}: a request never ended");
        std::thread::yield_now();
    }
    request.wait()
}

/// A diamond: numbers, two branches, one of them with occasional blocking, and a sum of both.
fn diamond(sum: &Arc<AtomicU64>) -> Arc<Model> {
    let schema = Schema::new([("n", Type::U64)]);
    let mut net = ModelBuilder::new("diamond");
    net.default_bound(Bound { envelopes: 2, bytes: 1 << 20 });
    let numbers = || {
        let mut next = 0u64;
        move |turn: &mut Turn<'_>| {
            turn.take(0);
            next += 1;
            turn.send(0, Envelope::new([Column::from(vec![next])]));
            if next < 10 {
                turn.run_again()
            } else {
                turn.send_pill(0)
            }
            Ok(())
        }
    };
    let from = net.source(BoxModel::new("numbers", numbers).output(&schema));
    for branch in 0..2 {
        let passes = move || {
            move |turn: &mut Turn<'_>| {
                match turn.take(0) {
                    Some(pill) if pill.is_pill() => turn.send_pill(0),
                    Some(envelope) => {
                        if branch == 1 && envelope.column(0).u64s()[0] % 5 == 0 {
                            turn.blocking(std::thread::yield_now);
                        }
                        turn.send(0, envelope);
                    }
                    None => {}
                }
                Ok(())
            }
        };
        let branch = net.add(BoxModel::new("branch", passes).input(&schema).output(&schema));
        let total = Arc::clone(sum);
        let sum = net.add(library::sink("sum", &schema, move |envelope| {
            total.fetch_add(envelope.column(0).u64s()[0], Ordering::Relaxed);
            Ok(())
        }));
        net.connect(from.output(0), branch.input(0));
        net.connect(branch.output(0), sum.input(0));
        net.end(sum.output(0));
    }
    net.build().unwrap()
}

#[test]
fn many_small_requests_from_many_callers_end_under_every_strategy() {
    // Some requests are over within their head start, and others not.
    let head_starts = [Duration::ZERO, Duration::from_micros(20)];
    let strategies = vicus_schedule::ALL.iter().map(|strategy| strategy.name());
    for (strategy, head_start) in strategies.flat_map(|name| head_starts.map(|head_start| (name, head_start))) {
        let builder = MachineRuntime::builder().strategy(strategy.parse().unwrap()).threads(8);
        let runtime = builder.head_start(head_start).quiet().start();
        let sum = Arc::new(AtomicU64::new(0));
        let model = diamond(&sum);
        let cancelled = Mutex::new(0);
        std::thread::scope(|scope| {
            for caller in 0..4 {
                let (runtime, model, cancelled) = (&runtime, &model, &cancelled);
                scope.spawn(move || {
                    for round in 0..25 {
                        let several: Vec<Request> = (0..3).map(|_| runtime.submit(model)).collect();
                        for (number, request) in several.into_iter().enumerate() {
                            if number == 1 && (round + caller) % 5 == 0 {
                                request.cancel();
                            }
                            match wait(request, strategy) {
                                Ok(_) => {}
                                Err(FlowError::Cancelled) => *cancelled.lock().unwrap() += 1,
                                Err(error) => panic!("{strategy}: {error}"),
                            }
                        }
                    }
                });
            }
        });
        let (all, cancelled) = (4 * 25 * 3, *cancelled.lock().unwrap());
        let sum = sum.load(Ordering::Relaxed);
        assert!(cancelled <= 20, "{strategy}: {cancelled} ended as cancelled");
        assert!(sum >= (all - cancelled) * 110 && sum <= all * 110, "{strategy}: {sum} of {all} requests");
    }
}
