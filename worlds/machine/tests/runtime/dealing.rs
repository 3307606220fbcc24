//! Boxes go to the node of the sender of most of their next input, under the dealing strategies.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vicus_flow::{BoxModel, Column, Envelope, Model, ModelBuilder, Schema, Turn, Type, library};
use vicus_machine::MachineRuntime;
use vicus_topology::{NodeId, Topology};
use vicus_trace::{TaskKind, What};

fn numbers() -> Schema {
    Schema::new([("n", Type::U64)])
}

fn rows(count: usize) -> Envelope {
    Envelope::new([Column::from(vec![1u64; count])])
}

/// The nodes of the two senders and of the receiver.
#[derive(Default)]
struct Seen {
    senders: [Mutex<Option<NodeId>>; 2],
    receiver: Mutex<Option<NodeId>>,
    /// How often the receiver ran.
    acts: AtomicUsize,
}

/// Sends the first part of the input on, as this number of rows, from its own node; not before the receiver has acted
/// `after` times.
fn sender(which: usize, count: usize, after: usize, seen: &Arc<Seen>) -> BoxModel {
    let seen = Arc::clone(seen);
    let factory = move || {
        let seen = Arc::clone(&seen);
        move |turn: &mut Turn<'_>| {
            while seen.acts.load(Ordering::Acquire) < after {
                std::thread::yield_now();
            }
            // Long enough for the receiver's invocation to end, most times.
            std::thread::sleep(Duration::from_millis(after as u64));
            let Some(envelope) = turn.take(0) else { return Ok(()) };
            if envelope.is_pill() {
                turn.send_pill(0);
            } else {
                *seen.senders[which].lock().unwrap() = Some(turn.node());
                turn.send(0, rows(count));
                turn.run_again();
            }
            Ok(())
        }
    };
    BoxModel::new(["first", "second"][which], factory).input(&numbers()).output(&numbers())
}

/// Takes nothing before both inputs have an envelope.
fn receiver(seen: &Arc<Seen>) -> BoxModel {
    let seen = Arc::clone(seen);
    let factory = move || {
        let seen = Arc::clone(&seen);
        move |turn: &mut Turn<'_>| {
            if turn.head(0).is_some() && turn.head(1).is_some() {
                let taken = [0, 1].map(|input| turn.take(input).unwrap());
                if taken.iter().all(Envelope::is_pill) {
                    turn.send_pill(0);
                } else {
                    seen.receiver.lock().unwrap().get_or_insert(turn.node());
                    turn.run_again();
                }
            }
            seen.acts.fetch_add(1, Ordering::Release);
            Ok(())
        }
    };
    BoxModel::new("receiver", factory).input(&numbers()).input(&numbers()).output(&numbers())
}

/// A box sent to node 1 sends `first` rows to the receiver, which waits for a second envelope; then another box, sent
/// to node 2, sends it `second` rows.
fn model(first: usize, second: usize, seen: &Arc<Seen>) -> Arc<Model> {
    let mut net = ModelBuilder::new("two nodes");
    let begin = net.source(
        BoxModel::new("begin", || {
            |turn: &mut Turn<'_>| {
                turn.take(0);
                for (output, node) in [(0, NodeId::new(1)), (1, NodeId::new(2))] {
                    turn.send(output, rows(1).at_home(Some(node)));
                    turn.send_pill(output);
                }
                Ok(())
            }
        })
        .output(&numbers())
        .output(&numbers()),
    );
    let senders = [net.add(sender(0, first, 0, seen)), net.add(sender(1, second, 1, seen))];
    let receiver = net.add(receiver(seen));
    for (at, sender) in senders.into_iter().enumerate() {
        net.connect(begin.output(at), sender.input(0));
        net.connect(sender.output(0), receiver.input(at));
    }
    net.end(receiver.output(0));
    net.build().unwrap()
}

/// The nodes of the senders and the receiver, and the kind of the second sender's queueing of the receiver; `None` if
/// the receiver was still running then.
fn places(strategy: &str, first: usize, second: usize) -> ([NodeId; 2], NodeId, Option<TaskKind>) {
    let machine = Topology::parse("node:4 core:1 pu:1").unwrap();
    let builder = MachineRuntime::builder().topology(machine).threads(4).strategy(strategy.parse().unwrap());
    let runtime = builder.record(1 << 12).quiet().start();
    let seen = Arc::new(Seen::default());
    runtime.submit(&model(first, second, &seen)).wait().unwrap();
    let trace = runtime.trace().unwrap();
    assert!(trace.check().is_empty());
    let index = |name: &str| trace.header().models[0].boxes.iter().position(|one| one.name == name).unwrap() as u32;
    let (by_second, receiver) = (index("second"), index("receiver"));
    let mut kinds = trace.logs().iter().flat_map(|log| &log.events).filter_map(|event| match event.what {
        What::Enqueued { who, kind, by } if who.index == receiver && by == by_second => Some(kind),
        _ => None,
    });
    let queued = kinds.next();
    let of = |place: &Mutex<Option<NodeId>>| place.lock().unwrap().unwrap();
    ([of(&seen.senders[0]), of(&seen.senders[1])], of(&seen.receiver), queued)
}

/// The receiver's node under each dealing strategy, in runs with the receiver queued by the second sender.
///
/// Each node has one thread, and footprint robs only queues with more than one task, if undealt tasks lie there as
/// well: a box runs on its queue's node, unless a thread held up by the system has two in its queue.
fn receiver_is(first: usize, place: NodeId, kind: TaskKind) {
    let strategies = ["footprint:share_bytes=65536", "vicinity:private_bytes=65536,reach=1"];
    for strategy in strategies.map(|strategy| format!("{strategy},undealt=beside")) {
        let strategy = &strategy;
        let (mut counted, mut as_expected) = (0, 0);
        for _ in 0..40 {
            let (senders, receiver, queued) = places(strategy, first, 10);
            assert_eq!(senders, [NodeId::new(1), NodeId::new(2)], "{strategy}: an envelope's home decides");
            if let Some(queued) = queued {
                assert_eq!(queued, kind, "{strategy}");
                as_expected += usize::from(receiver == place);
                counted += 1;
            }
        }
        assert!(2 * as_expected > counted, "{strategy}: {as_expected} of {counted}");
    }
}

#[test]
fn a_box_whose_large_input_is_far_is_queued_where_that_lies() {
    receiver_is(1 << 17, NodeId::new(1), TaskKind::Deferred);
}

#[test]
fn a_box_with_small_inputs_stays_with_the_last_sender() {
    receiver_is(100, NodeId::new(2), TaskKind::Immediate);
}

/// Boxes with nodes of their own, one behind the other and there and back: the nodes of their invocations.
fn visited(strategy: &str, threads: usize, order: &[usize]) -> Vec<(usize, NodeId)> {
    let machine = Topology::parse("node:4 core:2 pu:1").unwrap();
    let builder = MachineRuntime::builder().topology(machine).threads(threads).strategy(strategy.parse().unwrap());
    let runtime = builder.quiet().start();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut net = ModelBuilder::new("placed");
    let source = library::source("source", &numbers(), || (0..40).map(|_| rows(3)));
    let mut last = net.source(source);
    for &node in order {
        let seen = Arc::clone(&seen);
        let pass = library::map("pass", &numbers(), &numbers(), Some);
        let looks = move || {
            let (seen, mut own) = (Arc::clone(&seen), pass.operator());
            move |turn: &mut Turn<'_>| {
                seen.lock().unwrap().push((node, turn.node()));
                own.act(turn)
            }
        };
        let model = BoxModel::new("looks", looks).input(&numbers()).output(&numbers()).at(NodeId::new(node));
        let next = net.add(model);
        net.connect(last.output(0), next.input(0));
        last = next;
    }
    net.end(last.output(0));
    let counts = runtime.submit(&net.build().unwrap());
    counts.wait().unwrap();
    // All rows have come to the last box.
    assert_eq!(counts.counts()[last.index()].rows_taken(), 120, "{strategy}, {threads} threads");
    std::mem::take(&mut *seen.lock().unwrap())
}

#[test]
fn boxes_with_a_node_run_there_and_everywhere_else_they_end() {
    let order = [3, 1, 0, 2, 3];
    // Its seats run what lies in their own queues alone.
    let visits = visited("shepherd", 8, &order);
    assert!(visits.len() >= 5 && visits.iter().all(|&(wanted, node)| node.index() == wanted), "{visits:?}");
    for strategy in vicus_schedule::ALL {
        for threads in [1, 2, 8] {
            let visits = visited(strategy.name(), threads, &order);
            assert!(order.iter().all(|&node| visits.iter().any(|visit| visit.0 == node)), "{}", strategy.name());
        }
    }
}
