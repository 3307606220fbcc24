//! Streams whose rows have few keys, dealt to parts. Failing cases print their seed.

use crate::random_networks::Beside;
use crate::skew_trials::SkewTrial;
use crate::tables::Chance;
use std::sync::{Arc, Mutex};
use vicus_flow::library::{self, HashKey, JoinKind, Joining};
use vicus_flow::{Bound, Envelope, ModelBuilder, Schema, Type, sequential};

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

/// What a join in parts whose keys shift made.
struct ShiftedRun {
    /// Pairs of rows' numbers; a row of the first stream alone has `u64::MAX`.
    pairs: Vec<[u64; 2]>,
    /// By part, how many pairs it made.
    parts: Vec<usize>,
    spilled: u64,
}

/// Joins two streams of keys and row numbers in parts, of which `budget` bytes may be in memory.
fn join_shifted(
    streams: [&[u64]; 2],
    parts: usize,
    kind: JoinKind,
    budget: Option<u64>,
    seed: u64,
) -> Result<ShiftedRun, String> {
    let schema = Schema::new([("key", Type::U64), ("row", Type::U64)]);
    let joining = Joining::of(&schema, &schema, [(0, 0)]).kind(kind);
    let chance = &mut Chance::of_seed(seed);
    let mut net = ModelBuilder::new("keys that shift");
    net.default_bound(Bound { envelopes: 1 + chance.below(8), ..Bound::default() });
    let each = 50 + chance.below(400);
    let inputs = streams.map(|keys| {
        let envelopes: Vec<Envelope> = (0..keys.len())
            .step_by(each)
            .map(|from| {
                let rows = from..keys.len().min(from + each);
                let numbers: Vec<u64> = rows.clone().map(|row| row as u64).collect();
                Envelope::new([keys[rows].to_vec().into(), numbers.into()])
            })
            .collect();
        net.source(library::source("rows", &schema, move || envelopes.clone())).output(0)
    });
    let seen: Arc<Mutex<Vec<Vec<[u64; 2]>>>> = Arc::new(Mutex::new(vec![Vec::new(); parts]));
    let outputs = library::join_in_parts(&mut net, inputs, &joining, parts, HashKey::of_seed(seed), 1 + each);
    for (part, output) in outputs.into_iter().enumerate() {
        let into = Arc::clone(&seen);
        let sink = net.add(library::sink("pairs", &joining.schema(), move |envelope| {
            let second = |row: usize| match envelope.columns().get(3) {
                Some(column) if !column.is_null(row) => column.u64s()[row],
                _ => u64::MAX,
            };
            let pairs = (0..envelope.rows()).map(|row| [envelope.column(1).u64s()[row], second(row)]);
            into.lock().unwrap()[part].extend(pairs);
            Ok(())
        }));
        net.connect(output, sink.input(0));
        net.end(sink.output(0));
    }
    let model = net.build().unwrap();
    let mut picks = Chance::of_seed(!seed);
    let pick = |tasks: usize| Some(picks.below(tasks));
    let (result, counts) = match budget {
        Some(budget) => {
            let beside = Arc::new(Beside::with_room(usize::MAX));
            sequential::run_within(&model, Vec::new(), budget, Some(beside), pick)
        }
        None => sequential::run_counted(&model, Vec::new(), pick),
    };
    result.map_err(|error| error.to_string())?;
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let parts = seen.iter().map(Vec::len).collect();
    let mut pairs = seen.concat();
    pairs.sort_unstable();
    Ok(ShiftedRun { pairs, parts, spilled: counts.iter().map(|counts| counts.spilled_bytes).sum() })
}

/// The pairs of equal keys, as plain loops find them.
fn plain_pairs(streams: [&[u64]; 2], kind: JoinKind) -> Vec<[u64; 2]> {
    let mut rows = std::collections::BTreeMap::<u64, Vec<u64>>::new();
    (0..).zip(streams[1]).for_each(|(row, key)| rows.entry(*key).or_default().push(row));
    let mut pairs = Vec::new();
    for (row, key) in (0..).zip(streams[0]) {
        match (kind, rows.get(key)) {
            (JoinKind::Inner | JoinKind::Left, Some(partners)) => pairs.extend(partners.iter().map(|of| [row, *of])),
            (JoinKind::Semi, Some(_)) | (JoinKind::Left | JoinKind::Anti, None) => pairs.push([row, u64::MAX]),
            _ => {}
        }
    }
    pairs.sort_unstable();
    pairs
}

/// The keys of both streams: in the midst of the first one, other keys become heavy.
fn shifting(chance: &mut Chance, rows: usize) -> [Vec<u64>; 2] {
    let few = 1 + chance.below(3);
    let first = (0..rows).map(|row| {
        let is_heavy = chance.below(2) == 0;
        let phase = (row * 3 / rows) as u64;
        if is_heavy { 1_000_000 * phase + chance.below(few) as u64 } else { chance.below(3000) as u64 }
    });
    let first = first.collect();
    let second = (0..rows / 8).map(|_| match chance.below(50) {
        0 => 1_000_000 * chance.below(4) as u64 + chance.below(4) as u64,
        _ => chance.below(4000) as u64,
    });
    [first, second.collect()]
}

#[test]
fn keys_that_become_heavy_later_meet_all_their_partners() {
    let mut outside = 0;
    for seed in 0..if cfg!(debug_assertions) { 40 } else { 200 } {
        let chance = &mut Chance::of_seed(seed);
        let [first, second] = shifting(chance, 12_000);
        let parts = 1 + chance.below(6);
        let kind = [JoinKind::Inner, JoinKind::Left, JoinKind::Semi, JoinKind::Anti][chance.below(4)];
        let budget = (chance.below(2) == 0).then(|| 1 << (16 + chance.below(4)));
        let what = format!("seed {seed}, {parts} parts, {kind:?} within {budget:?}");
        let run = match join_shifted([&first, &second], parts, kind, budget, seed) {
            Ok(run) => run,
            Err(error) if budget.is_some() && error.contains("is needed") => continue,
            Err(error) => panic!("{what}: {error}"),
        };
        outside += u64::from(run.spilled > 0);
        assert!(run.pairs == plain_pairs([&first, &second], kind), "{what}: {} pairs", run.pairs.len());
    }
    assert!(outside > 10, "{outside} runs wrote files");
}

/// Half of the rows of the second half have one key, which the first sample does not have.
#[test]
fn a_key_that_becomes_heavy_later_is_split_from_then_on() {
    let (rows, parts) = (120_000u64, 4);
    let first: Vec<u64> =
        (0..rows).map(|row| if row >= rows / 2 && row % 2 == 0 { 7 } else { 1000 + row % 10_000 }).collect();
    let second: Vec<u64> = (0..11_000).collect();
    let run = join_shifted([&first, &second], parts, JoinKind::Inner, None, 3).unwrap();
    let sum: usize = run.parts.iter().sum();
    assert_eq!(sum, first.len());
    // By hash alone, one part would have all 30,000 rows of the key beside its fourth of the others.
    let most = run.parts.iter().max().copied().unwrap_or_default();
    assert!(most < sum / parts * 6 / 5, "{:?}", run.parts);
}
