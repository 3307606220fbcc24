//! Validity columns: a row is deleted on one branch and kept on the other, and no data is copied (Bobox report §7).
//!
//! The envelope has a validity column for each branch. `odd` deletes rows by writing zeros into *its* column, and its
//! branch gets a private copy of that column; the values are shared by both branches all the way. (A null is something
//! else: a missing value of one column, see `Field::nullable`.)
//!
//! `cargo run -p vicus --example validity`

use vicus::{Column, Envelope, FlowError, ModelBuilder, Runtime, Schema, Type, library};

const VALID_FOR_ODD: usize = 0;
const VALID_FOR_ALL: usize = 1;
const VALUES: usize = 2;

/// A branch's view: the values of its valid rows, and their address in memory.
type Seen = (Vec<u64>, usize);

fn seen(envelope: &Envelope, validity: usize) -> Seen {
    let values = envelope.column(VALUES).u64s();
    let valid = envelope.column(validity).u8s().iter().zip(values).filter(|(valid, _)| **valid == 1);
    (valid.map(|(_, value)| *value).collect(), values.as_ptr() as usize)
}

fn run() -> Result<(Seen, Seen), FlowError> {
    let schema = Schema::new([("odd", Type::U8), ("all", Type::U8), ("n", Type::U64)]);
    let (odd_sent, odd_received) = std::sync::mpsc::channel();
    let (all_sent, all_received) = std::sync::mpsc::channel();

    let mut net = ModelBuilder::new("validity");
    let numbers = net.source(library::source("numbers", &schema, || {
        let (valid, values) = (vec![1u8; 10], (0..10u64).collect::<Vec<_>>());
        [Envelope::new([valid.clone().into(), valid.into(), Column::from(values)])]
    }));
    let odd = net.add(library::map("odd", &schema, &schema, |mut envelope| {
        let values = envelope.column(VALUES).clone(); // shares, does not copy
        let valid = envelope.u8s_mut(VALID_FOR_ODD);
        valid.iter_mut().zip(values.u64s()).for_each(|(valid, value)| *valid &= (value % 2) as u8);
        Some(envelope)
    }));
    let odd_end =
        net.add(library::sink("odd end", &schema, move |envelope| Ok(odd_sent.send(seen(&envelope, VALID_FOR_ODD))?)));
    let all_end =
        net.add(library::sink("all end", &schema, move |envelope| Ok(all_sent.send(seen(&envelope, VALID_FOR_ALL))?)));
    net.connect(numbers.output(0), odd.input(0)).private([VALID_FOR_ODD]);
    net.connect(numbers.output(0), all_end.input(0));
    net.connect(odd.output(0), odd_end.input(0));
    net.end(odd_end.output(0));
    net.end(all_end.output(0));
    Runtime::builder().start().submit(&net.build().expect("the network above is a model")).wait()?;
    let last = "each branch saw one envelope";
    Ok((odd_received.try_recv().expect(last), all_received.try_recv().expect(last)))
}

fn main() -> Result<(), FlowError> {
    let ((odd, odd_at), (all, all_at)) = run()?;
    println!("odd branch: {odd:?}\nother branch: {all:?}\nthe same memory: {}", odd_at == all_at);
    Ok(())
}

#[test]
fn a_row_deleted_on_one_branch_stays_on_the_other_and_nothing_is_copied() {
    let ((odd, odd_at), (all, all_at)) = run().unwrap();
    assert_eq!(odd, [1, 3, 5, 7, 9]);
    assert_eq!(all, (0..10).collect::<Vec<u64>>());
    assert_eq!(odd_at, all_at, "both branches read the same column");
}
