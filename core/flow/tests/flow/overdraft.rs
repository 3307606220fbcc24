//! Boxes that wait for each other go on by overdrafts: cases that random networks don't have.

use crate::one_box::one_after_the_other;
use crate::random_networks::Beside;
use crate::tables::Chance;
use std::sync::{Arc, Mutex};
use vicus_flow::{Bound, BoxError, BoxModel, Envelope, Model, ModelBuilder, Overflows, Schema, Turn, Type, sequential};

/// Numbers to a box that sends their sum at the end, and to another one that needs the sum first.
fn parts_of_a_whole(bound: Bound) -> (Arc<Model>, Arc<Mutex<Vec<u64>>>) {
    parts_beside(bound, false)
}

/// Perhaps the sum is declared to take all numbers first; and beside, a box runs again and again until the parts are
/// there, so that there is always something to be done.
fn parts_beside(bound: Bound, declared: bool) -> (Arc<Model>, Arc<Mutex<Vec<u64>>>) {
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
    let sum = BoxModel::new("sum", sum).input(&schema).output(&schema);
    let sum = net.add(if declared { sum.takes_all_of(0) } else { sum });
    let taken = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&taken);
    let divide = move || {
        let into = Arc::clone(&into);
        move |_: usize, envelope: Envelope| into.lock().unwrap().push(envelope.column(0).u64s()[0])
    };
    let divide = net.add(one_after_the_other("divide", &schema, divide));
    net.connect(source.output(0), sum.input(0));
    net.connect(sum.output(0), divide.input(0));
    net.connect(source.output(0), divide.input(1));
    net.end(divide.output(0));
    if declared {
        let done = Arc::clone(&taken);
        let busy = move || {
            let done = Arc::clone(&done);
            move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                turn.take(0);
                if done.lock().unwrap().len() == 101 {
                    turn.send_pill(0)
                } else {
                    turn.run_again()
                }
                Ok(())
            }
        };
        let busy = net.source(BoxModel::new("busy", busy).output(&schema));
        net.end(busy.output(0));
    }
    (net.build().unwrap(), taken)
}

/// The request is never without something to be done, so nobody would find that its boxes wait for each other.
#[test]
fn a_via_beside_a_declared_branch_holds_more_without_a_stall() {
    let expected: Vec<u64> = [5050].into_iter().chain(1..=100).collect();
    for seed in 0..50u64 {
        for (budget, files) in [(1 << 20, false), (500, true)] {
            let (model, taken) = parts_beside(Bound { envelopes: 2, ..Bound::default() }, true);
            let mut chance = Chance::of_seed(seed);
            let files = files.then(|| Arc::new(Beside::with_room(usize::MAX)) as Arc<dyn Overflows>);
            let (mut steps, in_files) = (0, files.is_some());
            let pick = |tasks| {
                steps += 1;
                // A request that waits for itself would go on for ever.
                (steps < 1_000_000).then(|| chance.below(tasks))
            };
            let (result, counts) = sequential::run_within(&model, Vec::new(), budget, files, pick);
            result.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(*taken.lock().unwrap(), expected);
            let lent: u64 = counts.iter().flat_map(|counts| &counts.outputs).map(|output| output.overdraft).sum();
            let written: u64 = counts.iter().map(|counts| counts.spilled_bytes).sum();
            assert!(lent > 0 || written > 0, "seed {seed}");
            assert!(written == 0 || in_files, "seed {seed}: {written} bytes in files");
        }
    }
}

#[test]
fn a_declared_input_has_to_be_there() {
    let schema = Schema::new([("n", Type::U64)]);
    let mut net = ModelBuilder::new("wrong");
    let source = net.source(vicus_flow::library::source("numbers", &schema, Vec::<Envelope>::new));
    let act = || |_: &mut Turn<'_>| -> Result<(), BoxError> { Ok(()) };
    let last = net.add(BoxModel::new("last", act).input(&schema).output(&schema).takes_all_of(1));
    net.connect(source.output(0), last.input(0));
    net.end(last.output(0));
    assert_eq!(net.build().unwrap_err().to_string(), "there is no input 1 of box last");
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
