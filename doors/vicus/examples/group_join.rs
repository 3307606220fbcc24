//! Groups ten million rows by a key of a million values, and joins them with a table of these keys, by boxes of the
//! library: each thread deals its share of the rows by their keys, and then has the groups, or the partners, of its
//! part.
//!
//! `cargo run --release -p vicus --example group_join -- [ROWS [KEYS]]`
//!
//! Prints the time of each and a checksum.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use vicus::library::{self, Grouping, HashKey, Joining};
use vicus::{BoxError, BoxId, BoxModel, Envelope, ModelBuilder, OutputId, Runtime, Schema, Type};

/// Rows of an envelope.
const AT_ONCE: usize = 8192;

/// Numbers below `keys`, as random as a multiplication makes them, and beside each its row's number.
fn rows(count: u64, keys: u64) -> Vec<Envelope> {
    let part = |from: u64| {
        let numbers = from..count.min(from + AT_ONCE as u64);
        let key = |row: u64| (row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) % keys;
        let key: Vec<u64> = numbers.clone().map(key).collect();
        Envelope::new([key.into(), numbers.collect::<Vec<u64>>().into()])
    };
    (0..count).step_by(AT_ONCE).map(part).collect()
}

/// Sources of these envelopes, one for each part, whose rows are dealt by their keys. Gives the output of each part.
fn dealt(net: &mut ModelBuilder, schema: &Schema, all: &[Envelope], parts: usize) -> Vec<OutputId> {
    let deals: Vec<BoxId> = (0..parts)
        .map(|part| {
            let own: Vec<Envelope> = all.iter().skip(part).step_by(parts).cloned().collect();
            let source = net.source(library::source("rows", schema, move || own.clone()));
            let deal = net.add(library::partition(schema, &[0], parts, HashKey::default()));
            net.connect(source.output(0), deal.input(0));
            deal
        })
        .collect();
    let unite = |part: usize| {
        let union = net.add(library::union(schema, parts));
        for (input, deal) in deals.iter().enumerate() {
            net.connect(deal.output(part), union.input(input));
        }
        union.output(0)
    };
    (0..parts).map(unite).collect()
}

/// Runs a box for each part and adds up a column of what it sends. Gives the sum.
fn run(
    runtime: &Runtime,
    inputs: &[(&Schema, &[Envelope])],
    model: impl Fn() -> BoxModel,
    output: &Schema,
    column: usize,
) -> Result<u64, BoxError> {
    let parts = std::thread::available_parallelism()?.get();
    let mut net = ModelBuilder::new("parts");
    let streams: Vec<Vec<OutputId>> =
        inputs.iter().map(|(schema, rows)| dealt(&mut net, schema, rows, parts)).collect();
    let sum = Arc::new(AtomicU64::new(0));
    for part in 0..parts {
        let one = net.add(model());
        for (input, stream) in streams.iter().enumerate() {
            net.connect(stream[part], one.input(input));
        }
        let sum = Arc::clone(&sum);
        let end = net.add(library::sink("sum", output, move |envelope| {
            sum.fetch_add(envelope.column(column).u64s().iter().sum(), Ordering::Relaxed);
            Ok(())
        }));
        net.connect(one.output(0), end.input(0));
        net.end(end.output(0));
    }
    runtime.submit(&net.build()?).wait()?;
    Ok(sum.load(Ordering::Relaxed))
}

fn main() -> Result<(), BoxError> {
    let number = |place: usize, default: u64| std::env::args().nth(place).map_or(Ok(default), |text| text.parse());
    let (count, keys) = (number(1, 10_000_000)?, number(2, 1_000_000)?);
    let facts = Schema::new([("key", Type::U64), ("value", Type::U64)]);
    let all = rows(count, keys);
    let table: Vec<Envelope> = (0..keys)
        .step_by(AT_ONCE)
        .map(|from| {
            let keys = from..keys.min(from + AT_ONCE as u64);
            Envelope::new([
                keys.clone().collect::<Vec<u64>>().into(),
                keys.map(|key| 3 * key).collect::<Vec<_>>().into(),
            ])
        })
        .collect();
    let runtime = Runtime::builder().start();

    let began = Instant::now();
    let grouping = Grouping::by(&facts, [0]).count("count").sum("sum", 1);
    let group = || library::group(&grouping, HashKey::default(), AT_ONCE);
    let sum = run(&runtime, &[(&facts, &all)], group, &grouping.schema(), 2)?;
    println!("group: {:.3} s, {sum}", began.elapsed().as_secs_f64());

    let began = Instant::now();
    let joining = Joining::of(&facts, &facts, [(0, 0)]);
    let join = || library::join(&joining, HashKey::default(), AT_ONCE);
    let sum = run(&runtime, &[(&facts, &all), (&facts, &table)], join, &joining.schema(), 3)?;
    println!("join: {:.3} s, {sum}", began.elapsed().as_secs_f64());
    Ok(())
}
