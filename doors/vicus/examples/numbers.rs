//! The two boxes of the Bobox report's §7: `sequence` generates integers in blocks, `increment` adds to a column in
//! place. As in the report, the first column marks valid rows: 1, or 0 for a row that does not count.
//!
//! `cargo run -p vicus --example numbers`

use vicus::library::{self, More};
use vicus::{BoxModel, Envelope, FlowError, ModelBuilder, Runtime, Schema, Type};

fn schema() -> Schema {
    Schema::new([("valid", Type::U8), ("n", Type::I64)])
}

/// Sends `begin..end` in blocks of `block_size` rows, one for each invocation.
fn sequence(begin: i64, end: i64, block_size: usize) -> BoxModel {
    library::fill("sequence", &schema(), move || {
        let mut next = begin;
        move |turn, builder| {
            let rows = usize::try_from(end - next)?.min(block_size);
            if rows > 0 {
                builder.reserve(turn, block_size);
                builder.u8s(0).extend((0..block_size).map(|row| u8::from(row < rows)));
                builder.i64s(1).extend((next..).take(block_size));
                next += rows as i64;
            }
            Ok(if next < end { More::Yes } else { More::No })
        }
    })
}

/// Adds `delta` to a column: in the envelope's own memory if it is not shared. Invalid rows are changed too; this does
/// no harm and keeps the loop free of branches.
fn increment(column: usize, delta: i64) -> BoxModel {
    library::map("increment", &schema(), &schema(), move |mut envelope| {
        envelope.i64s_mut(column).iter_mut().for_each(|value| *value += delta);
        Some(envelope)
    })
}

fn run(begin: i64, end: i64, block_size: usize, delta: i64) -> Result<Vec<i64>, FlowError> {
    let (sent, received) = std::sync::mpsc::channel();
    let mut net = ModelBuilder::new("numbers");
    let numbers = net.source(sequence(begin, end, block_size));
    let add = net.add(increment(1, delta));
    let collect = net.add(library::sink("collect", &schema(), move |envelope| Ok(sent.send(envelope)?)));
    net.connect(numbers.output(0), add.input(0));
    net.connect(add.output(0), collect.input(0));
    net.end(collect.output(0));

    let model = net.build().expect("the network above is a model");
    Runtime::builder().start().submit(&model).wait()?;
    let rows = |envelope: Envelope| {
        let (valid, values) = (envelope.column(0).u8s().to_vec(), envelope.column(1).i64s().to_vec());
        valid.into_iter().zip(values).filter(|(valid, _)| *valid == 1).map(|(_, value)| value)
    };
    Ok(received.try_iter().flat_map(rows).collect())
}

fn main() -> Result<(), FlowError> {
    println!("{:?}", run(0, 10, 4, 100)?);
    Ok(())
}

#[test]
fn ten_numbers_in_blocks_of_four_are_incremented() {
    assert_eq!(run(0, 10, 4, 100).unwrap(), (100..110).collect::<Vec<i64>>());
    assert_eq!(run(5, 5, 4, 1).unwrap(), Vec::<i64>::new());
    assert_eq!(run(-3, 100_000, 4096, -7).unwrap(), (-10..99_993).collect::<Vec<i64>>());
}
