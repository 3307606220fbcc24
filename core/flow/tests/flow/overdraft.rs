//! Boxes that wait for each other go on by overdrafts: cases that random networks don't have.

use std::sync::{Arc, Mutex};
use vicus_flow::{Bound, BoxError, BoxModel, Envelope, Model, ModelBuilder, Schema, Turn, Type, sequential};

/// Numbers to a box that sends their sum at the end, and to another one that needs the sum first.
fn parts_of_a_whole(bound: Bound) -> (Arc<Model>, Arc<Mutex<Vec<u64>>>) {
    let schema = Schema::new([("n", Type::U64)]);
    let mut net = ModelBuilder::new("parts of a whole");
    net.default_bound(bound);
    let numbers = || (1..=100u64).map(|n| Envelope::new([vec![n].into()]));
    let source = net.source(vicus_flow::library::source("numbers", &schema, numbers));
    let sum = || {
        let mut sum = 0;
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(0) {
                Some(pill) if pill.is_pill() => {
                    turn.send(0, Envelope::new([vec![sum].into()]));
                    turn.send_pill(0);
                }
                Some(envelope) => sum += envelope.column(0).u64s()[0],
                None => {}
            }
            Ok(())
        }
    };
    let sum = net.add(BoxModel::new("sum", sum).input(&schema).output(&schema));
    let taken = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&taken);
    let divide = move || {
        let (into, mut at) = (Arc::clone(&into), 0);
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            match turn.take(at) {
                Some(pill) if pill.is_pill() && at == 1 => turn.send_pill(0),
                Some(pill) if pill.is_pill() => {
                    at = 1;
                    turn.run_again();
                }
                Some(envelope) => into.lock().unwrap().push(envelope.column(0).u64s()[0]),
                None => {}
            }
            Ok(())
        }
    };
    let divide = net.add(BoxModel::new("divide", divide).input(&schema).input(&schema).output(&schema));
    net.connect(source.output(0), sum.input(0));
    net.connect(sum.output(0), divide.input(0));
    net.connect(source.output(0), divide.input(1));
    net.end(divide.output(0));
    (net.build().unwrap(), taken)
}

/// What happened: a via whose bound has no end was lent all the bytes that there are, which no budget has; and a budget
/// with room for what waits, but not for the bound, lent nothing.
#[test]
fn little_memory_is_lent_where_there_is_not_much() {
    let expected: Vec<u64> = [5050].into_iter().chain(1..=100).collect();
    for bytes in [u64::MAX, 1 << 30, 4 << 20, 100] {
        let (model, taken) = parts_of_a_whole(Bound { envelopes: 2, bytes });
        let (result, counts) = sequential::run_within(&model, Vec::new(), 30_000, None, |_| Some(0));
        result.unwrap();
        assert_eq!(*taken.lock().unwrap(), expected);
        let lent: u64 = counts.iter().flat_map(|counts| &counts.outputs).map(|output| output.overdraft).sum();
        assert!((1..=30_000).contains(&lent), "{lent} bytes");
    }
}
