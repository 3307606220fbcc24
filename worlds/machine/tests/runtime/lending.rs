//! Lent threads while others block: one is there at each need, and none leaves with a task.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use vicus_flow::{BoxModel, Model, ModelBuilder, Schema, Turn};
use vicus_machine::{MachineRuntime, Request};
use vicus_trace::{EventKind, What};

/// Waits for a request that ends soon unless there is a mistake.
fn wait(request: Request, what: &str) {
    let began = Instant::now();
    while !request.is_done() {
        assert!(began.elapsed() < Duration::from_secs(60), "a request never ended: {what}");
        std::thread::sleep(Duration::from_micros(50));
    }
    request.wait().unwrap();
}

fn nothing() -> Schema {
    Schema::new::<&str>([])
}

/// A gate, opened by the other box's run.
#[derive(Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn set(&self, open: bool) {
        *self.0.lock().unwrap() = open;
        self.1.notify_all();
    }

    fn pass(&self) {
        let mut open = self.0.lock().unwrap();
        while !*open {
            open = self.1.wait(open).unwrap();
        }
    }
}

/// Opens the gate when the test fails, so that it ends.
struct OpensAtLast<'a>(&'a Gate);

impl Drop for OpensAtLast<'_> {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

/// A box that blocks until its neighbour has run.
fn blocks_until_the_other_ran(gate: &Arc<Gate>) -> Arc<Model> {
    let mut net = ModelBuilder::new("blocking");
    let (passes, opens) = (Arc::clone(gate), Arc::clone(gate));
    let blocks = BoxModel::new("blocks", move || {
        let gate = Arc::clone(&passes);
        move |turn: &mut Turn<'_>| {
            turn.take(0);
            turn.blocking(|| gate.pass());
            turn.send_pill(0);
            Ok(())
        }
    });
    let runs = BoxModel::new("runs", move || {
        let gate = Arc::clone(&opens);
        move |turn: &mut Turn<'_>| {
            turn.take(0);
            gate.set(true);
            turn.send_pill(0);
            Ok(())
        }
    });
    for model in [runs, blocks] {
        let box_id = net.source(model.output(&nothing()));
        net.end(box_id.output(0));
    }
    net.build().unwrap()
}

#[test]
fn a_seat_that_was_lent_before_can_be_lent_again_at_once() {
    // What happened: a lent thread asleep at the end of its time kept its seat until some spawn woke it. The next
    // blocking section of the group found no spare seat, and with one thread no other one was left to run the awaited
    // task.
    let gate = Arc::new(Gate::default());
    for strategy in ["las", "nls"] {
        let runtime = MachineRuntime::builder().strategy(strategy.parse().unwrap()).threads(1).quiet().start();
        let _opens_at_last = OpensAtLast(&gate);
        let model = blocks_until_the_other_ran(&gate);
        for round in 0..2000 {
            gate.set(false);
            wait(runtime.submit(&model), &format!("{strategy}, round {round}"));
        }
    }
}

#[test]
fn a_lent_thread_that_leaves_takes_no_task_with_it() {
    // What happened: a lent thread that found a task in its last look before sleep, and then learned of its end, left
    // without running it. The request never ended.
    let acts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&acts);
    let mut net = ModelBuilder::new("short blocks");
    for _ in 0..2 {
        let acts = Arc::clone(&counted);
        let model = BoxModel::new("blocks shortly", move || {
            let (acts, mut turns) = (Arc::clone(&acts), 0u32);
            move |turn: &mut Turn<'_>| {
                turn.take(0);
                turns += 1;
                let pause = acts.fetch_add(1, Ordering::Relaxed) % 97;
                turn.blocking(|| (0..pause * 20).for_each(|_| std::hint::spin_loop()));
                if turns < 1000 {
                    turn.run_again()
                } else {
                    turn.send_pill(0)
                }
                Ok(())
            }
        });
        let box_id = net.source(model.output(&nothing()));
        net.end(box_id.output(0));
    }
    let model = net.build().unwrap();
    for strategy in ["las", "nls"] {
        let runtime =
            MachineRuntime::builder().strategy(strategy.parse().unwrap()).threads(1).quiet().record(1 << 18).start();
        for round in 0..10 {
            wait(runtime.submit(&model), &format!("{strategy}, round {round}"));
        }
        let trace = runtime.trace().unwrap();
        assert_eq!(trace.check().first(), None, "{strategy}");
    }
}

/// What happened: a trace had no events for lent threads, and its summary counted such a thread's wait for its next
/// lease as overhead.
#[test]
fn a_trace_tells_when_a_thread_was_lent_and_for_whom() {
    let gate = Arc::new(Gate::default());
    let runtime = MachineRuntime::builder().strategy("las".parse().unwrap()).threads(1).quiet().record(1 << 12).start();
    let _opens_at_last = OpensAtLast(&gate);
    let model = blocks_until_the_other_ran(&gate);
    for round in 0..5 {
        gate.set(false);
        wait(runtime.submit(&model), &format!("round {round}"));
        std::thread::sleep(Duration::from_millis(5));
    }
    let trace = runtime.trace().unwrap();
    assert_eq!(trace.check(), []);
    assert!(trace.by_time().is_sorted_by_key(|entry| entry.event.time_ns), "threads have one clock");
    // One thread, its spare seat, and callers.
    assert_eq!(trace.header().seats.iter().map(|seat| seat.is_callers).collect::<Vec<_>>(), [false, false, true]);
    let lent = &trace.logs()[1].events;
    let of_kind = |wanted: EventKind| lent.iter().filter(move |event| event.what.kind() == wanted);
    assert!(of_kind(EventKind::LentBegins).all(|event| event.what == What::LentBegins { seat: 0 }));
    assert_eq!(of_kind(EventKind::LentBegins).count(), of_kind(EventKind::LentEnds).count());
    assert!(of_kind(EventKind::LentBegins).count() > 0);
    assert_eq!(lent[0].what.kind(), EventKind::LentBegins, "before that it does nothing");
    let away_ns: u64 = of_kind(EventKind::LentBegins)
        .skip(1)
        .zip(of_kind(EventKind::LentEnds))
        .map(|(a, b)| a.time_ns - b.time_ns)
        .sum();
    let summary = trace.summary();
    assert!(summary.seats[1].idle_ns >= away_ns, "{away_ns}: {summary}");
    let callers = &summary.seats[2];
    assert_eq!((callers.busy_ns, callers.overhead_ns, callers.idle_ns), (0, 0, 0));
}
