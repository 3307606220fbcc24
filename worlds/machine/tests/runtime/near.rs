//! Work near its data: every piece is done once, also with panics and nested calls.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use vicus_flow::{BoxModel, FlowError, ModelBuilder, Schema, Turn};
use vicus_machine::MachineRuntime;
use vicus_memory::{ArrayOptions, DistArray, Pattern, together};
use vicus_topology::NodeId;

/// A node of each machine.
const HERE: NodeId = NodeId::new(0);

#[test]
fn each_piece_is_done_once_under_every_kind_of_strategy() {
    for strategy in vicus_schedule::ALL.map(|strategy| strategy.name()).into_iter().chain(["las:pin=pu"]) {
        let runtime = MachineRuntime::builder().strategy(strategy.parse().unwrap()).threads(4).quiet().start();
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
    let runtime = MachineRuntime::builder().threads(4).quiet().start();
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

/// A waiting task runs the awaited pieces itself, if no other thread does.
#[test]
fn it_may_be_called_in_a_task_and_in_a_box() {
    let strategies = vicus_schedule::ALL.map(|strategy| strategy.name());
    for (strategy, threads) in strategies.into_iter().flat_map(|strategy| [(strategy, 1), (strategy, 2)]) {
        let runtime = MachineRuntime::builder().strategy(strategy.parse().unwrap()).threads(threads).quiet().start();
        let runtime = Arc::new(runtime);
        let work = |runtime: &MachineRuntime| {
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

/// The loops' results are compared with the same over vectors.
#[test]
fn loops_over_segments_with_their_borders_and_over_two_arrays_see_every_element_once() {
    const COLUMNS: usize = 300;
    const LEN: usize = 100 * COLUMNS;
    let start = |index: usize| ((index * 37) % 101) as f64;
    // A step of Jacobi's method by rows: the mean of the rows above and below.
    let step = |read: &dyn Fn(usize) -> f64, index: usize| {
        let above = index.checked_sub(COLUMNS).map_or(0.0, read);
        let below = if index + COLUMNS < LEN { read(index + COLUMNS) } else { 0.0 };
        (above + below) / 2.0
    };
    let mut expected: Vec<f64> = (0..LEN).map(start).collect();
    for _ in 0..4 {
        let before = expected.clone();
        expected = (0..LEN).map(|index| step(&|at| before[at], index)).collect();
    }
    let sum: f64 = expected.iter().zip((0..LEN).map(start)).map(|(a, b)| a * b).sum();
    for strategy in vicus_schedule::ALL {
        for threads in [1, 2, 3, 8] {
            let what = format!("{} with {threads} threads", strategy.name());
            let builder = MachineRuntime::builder().strategy(strategy.name().parse().unwrap()).threads(threads).quiet();
            let runtime = builder.start();
            let memory = runtime.memory().expect("there are addresses");
            let rows = ArrayOptions { block: COLUMNS, segment_pages: 4, ..ArrayOptions::default() };
            let numbers = |f: &dyn Fn(usize) -> f64| {
                let number = |index| AtomicU64::new(f(index).to_bits());
                DistArray::from_fn(memory, LEN, rows, number).unwrap()
            };
            let [mut from, mut to] = [numbers(&start), numbers(&|_| 0.0)];
            let read = |array: &DistArray<AtomicU64>, at: usize| f64::from_bits(array[at].load(Ordering::Relaxed));
            for _ in 0..4 {
                let done: Vec<AtomicUsize> = (0..LEN).map(|_| AtomicUsize::new(0)).collect();
                let pieces = from.stencil(COLUMNS).map(|piece| (piece.clone(), piece.node));
                let work = |piece: vicus_memory::Stencil| {
                    for index in piece.own.clone() {
                        let read = |at: usize| {
                            assert!(piece.reads.contains(&at), "{what}: {at} is not among those that {index} reads");
                            read(&from, at)
                        };
                        to[index].store(step(&read, index).to_bits(), Ordering::Relaxed);
                        done[index].fetch_add(1, Ordering::Relaxed);
                    }
                };
                runtime.each_near(pieces, work).unwrap();
                assert!(done.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{what}");
                std::mem::swap(&mut from, &mut to);
            }
            assert!((0..LEN).all(|at| read(&from, at) == expected[at]), "{what}");
            // Of another pattern, and with larger elements.
            let stripes = ArrayOptions { pattern: Pattern::Stripes, segment_pages: 1, ..ArrayOptions::default() };
            let other = DistArray::from_fn(memory, LEN, stripes, |index| [start(index), 0.0]).unwrap();
            let total = Mutex::new(0.0);
            let multiply = |range: std::ops::Range<usize>| {
                let part: f64 = range.map(|at| read(&from, at) * other[at][0]).sum();
                *total.lock().unwrap() += part;
            };
            runtime.each_near(together(&[&from, &other]), multiply).unwrap();
            let total = total.into_inner().unwrap();
            assert!((total - sum).abs() <= 1e-9 * sum.abs(), "{what}: {total} is not {sum}");
        }
    }
}
