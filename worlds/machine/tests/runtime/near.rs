//! Work that threads do near its data: every piece is done once, also with panics and nested calls.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use vicus_flow::{BoxModel, FlowError, ModelBuilder, Schema, Turn};
use vicus_machine::Runtime;
use vicus_topology::NodeId;

/// A node that each machine has.
const HERE: NodeId = NodeId::new(0);

#[test]
fn each_piece_is_done_once_under_every_kind_of_strategy() {
    for strategy in vicus_schedule::ALL.map(|strategy| strategy.name()).into_iter().chain(["las:pin=pu"]) {
        let runtime = Runtime::builder().strategy(strategy.parse().unwrap()).threads(4).quiet().start();
        let words: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        let seen = Mutex::new(BTreeSet::new());
        let work = words.iter().map(|word| (word, HERE));
        let add = |word| assert!(seen.lock().unwrap().insert(word), "{word} was done before");
        runtime.each_near(work, add).unwrap();
        assert_eq!(seen.into_inner().unwrap(), words.iter().collect(), "{strategy}");
        runtime.each_near(Vec::<((), NodeId)>::new(), |()| unreachable!("there is no work")).unwrap();
    }
}

#[test]
fn a_piece_that_panics_is_told_and_others_are_done() {
    let runtime = Runtime::builder().threads(4).quiet().start();
    let done = AtomicUsize::new(0);
    let result = runtime.each_near((0..100).map(|number| (number, HERE)), |number| {
        assert_ne!(number, 3, "this one is refused");
        // Long enough for all threads to take some.
        std::thread::sleep(std::time::Duration::from_millis(1));
        done.fetch_add(1, Ordering::Relaxed);
    });
    assert!(result.unwrap_err().to_string().contains("this one is refused"));
    assert_eq!(done.into_inner(), 99);
}

/// A task that waits runs the awaited pieces itself, if no other thread does.
#[test]
fn it_may_be_called_in_a_task_and_in_a_box() {
    let strategies = vicus_schedule::ALL.map(|strategy| strategy.name());
    for (strategy, threads) in strategies.into_iter().flat_map(|strategy| [(strategy, 1), (strategy, 2)]) {
        let runtime = Runtime::builder().strategy(strategy.parse().unwrap()).threads(threads).quiet().start();
        let runtime = Arc::new(runtime);
        let work = |runtime: &Runtime| {
            let sum = AtomicU64::new(0);
            runtime.each_near((1..=100u64).map(|number| (number, HERE)), |number| {
                sum.fetch_add(number, Ordering::Relaxed);
            })?;
            Ok::<u64, FlowError>(sum.into_inner())
        };
        assert_eq!(runtime.run(|| work(&runtime)).unwrap(), 5050);
        let (sent, received) = mpsc::channel();
        let inside = Arc::clone(&runtime);
        let operator = move || {
            let (sent, inside) = (sent.clone(), Arc::clone(&inside));
            move |turn: &mut Turn<'_>| {
                turn.take(0);
                sent.send(work(&inside)?)?;
                turn.send_pill(0);
                Ok(())
            }
        };
        let mut net = ModelBuilder::new("near");
        let source = net.source(BoxModel::new("calls", operator).output(&Schema::new::<&str>([])));
        net.end(source.output(0));
        let model = net.build().unwrap();
        runtime.submit(&model).wait().unwrap();
        assert_eq!(received.recv(), Ok(5050));
    }
}
