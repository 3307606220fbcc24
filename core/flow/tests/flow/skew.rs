//! Streams whose rows have few keys, dealt to parts. Failing cases print their seed.

use crate::skew_trials::SkewTrial;
use crate::tables::Chance;
use std::sync::{Arc, Mutex};
use vicus_flow::library::{self, HashKey};
use vicus_flow::{Envelope, ModelBuilder, Schema, Type, sequential};

fn run(trial: SkewTrial, seed: u64) {
    let mut picks = Chance::of_seed(!seed);
    let run = sequential::run(&trial.model, Vec::new(), |tasks| picks.below(tasks));
    run.unwrap_or_else(|error| panic!("{}: {error}", trial.what));
    trial.judge();
}

#[test]
fn streams_with_heavy_keys_are_joined_and_grouped_as_by_plain_loops() {
    for seed in 0..if cfg!(debug_assertions) { 300 } else { 2000 } {
        run(SkewTrial::of_join(seed), seed);
        run(SkewTrial::of_group(seed), seed);
    }
}

/// Of a key with half of the rows, each part gets its share; the others meet their partners in one part.
#[test]
fn a_heavy_key_is_split_and_others_are_not() {
    let schema = Schema::new([("key", Type::U64), ("row", Type::U64)]);
    let (parts, count) = (4, 20_000_u64);
    let mut net = ModelBuilder::new("half");
    let rows = move || {
        (0..count).step_by(500).map(|from| {
            let rows = from..from + 500;
            let keys: Vec<u64> = rows.clone().map(|row| if row % 2 == 0 { 7 } else { 1000 + row }).collect();
            Envelope::new([keys.into(), rows.collect::<Vec<u64>>().into()])
        })
    };
    let split = net.add(library::partition_heavy(&schema, &[0], parts, HashKey::default()));
    let copied = net.add(library::partition_to_heavy(&schema, &[0], parts, 1, HashKey::default()));
    for to in [split, copied] {
        let source = net.source(library::source("rows", &schema, rows));
        net.connect(source.output(0), to.input(0));
    }
    net.connect(split.output(parts), copied.input(1));
    // By output, how many rows have the heavy key, and how many have another one.
    let seen: Arc<Mutex<Vec<[u64; 2]>>> = Arc::new(Mutex::new(vec![[0; 2]; 2 * parts]));
    for output in 0..2 * parts {
        let into = Arc::clone(&seen);
        let sink = net.add(library::sink("end", &schema, move |envelope| {
            let counts = &mut into.lock().unwrap()[output];
            envelope.column(0).u64s().iter().for_each(|key| counts[usize::from(*key != 7)] += 1);
            Ok(())
        }));
        let from = if output < parts { split.output(output) } else { copied.output(output - parts) };
        net.connect(from, sink.input(0));
        net.end(sink.output(0));
    }
    sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
    let seen = seen.lock().unwrap();
    let heavy: Vec<u64> = seen.iter().map(|counts| counts[0]).collect();
    assert_eq!(heavy[..parts], [count / 2 / parts as u64; 4], "the first stream's rows are split");
    assert_eq!(heavy[parts..], [count / 2; 4], "the second stream's are everywhere");
    let others = |stream: usize| seen[stream * parts..(stream + 1) * parts].iter().map(|counts| counts[1]);
    assert!(others(0).eq(others(1)), "equal keys meet");
    assert_eq!(others(0).sum::<u64>(), count / 2);
}
