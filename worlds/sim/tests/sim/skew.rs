//! A join in parts of streams with few keys, on eight simulated cores: keys by their hash alone, and heavy keys split.

use std::sync::Arc;
use vicus_flow::library::{self, HashKey, Joining};
use vicus_flow::{ConnectedBox, Envelope, Model, ModelBuilder, Schema, Type};
use vicus_schedule::Setting;
use vicus_sim::{Machine, Reenactment, Rehearsal, ReplayOptions, SimOptions};

const PARTS: usize = 8;
const ENVELOPE_ROWS: usize = 4096;

/// Numbers by chance, from a seed.
fn chance(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Keys below `count`; the key k has a share in proportion to (k + 1)^-exponent.
fn keys(rows: usize, count: usize, exponent: f64, seed: u64) -> Vec<u64> {
    let mut sums = Vec::with_capacity(count);
    let mut sum = 0.0;
    for key in 1..=count {
        sum += (key as f64).powf(-exponent);
        sums.push(sum);
    }
    let mut next = chance(seed);
    let mut key = || {
        let at = next() * sum;
        sums.partition_point(|below| *below < at) as u64
    };
    (0..rows).map(|_| key()).collect()
}

/// How many pairs of equal keys there are.
fn pairs(first: &[u64], second: &[u64]) -> u64 {
    let mut counts = std::collections::BTreeMap::<u64, u64>::new();
    second.iter().for_each(|key| *counts.entry(*key).or_default() += 1);
    first.iter().filter_map(|key| counts.get(key)).sum()
}

fn schema() -> Schema {
    Schema::new([("key", Type::U64)])
}

/// The join; `splits` heavy keys.
fn network(first: &[u64], second: &[u64], splits: bool) -> Arc<Model> {
    let (schema, by) = (schema(), HashKey::default());
    let joining = Joining::of(&schema, &schema, [(0, 0)]);
    let mut net = ModelBuilder::new("join");
    let rows = |keys: &[u64]| {
        let parts: Vec<Envelope> =
            keys.chunks(ENVELOPE_ROWS).map(|keys| Envelope::new([keys.to_vec().into()])).collect();
        move || parts.clone()
    };
    let sources = [first, second].map(|keys| net.source(library::source("rows", &schema, rows(keys))));
    let deals = match splits {
        true => {
            let split = net.add(library::partition_heavy(&schema, &[0], PARTS, by));
            let copied = net.add(library::partition_to_heavy(&schema, &[0], PARTS, 1, by));
            net.connect(split.output(PARTS), copied.input(1));
            [split, copied]
        }
        false => [(); 2].map(|()| net.add(library::partition(&schema, &[0], PARTS, by))),
    };
    for (source, deal) in sources.into_iter().zip(deals) {
        net.connect(source.output(0), deal.input(0));
    }
    for part in 0..PARTS {
        let join = net.add(library::join(&joining, by, ENVELOPE_ROWS));
        for (input, deal) in deals.into_iter().enumerate() {
            net.connect(deal.output(part), join.input(input));
        }
        let end = net.add(library::sink("pairs", &joining.schema(), |_| Ok(())));
        net.connect(join.output(0), end.input(0));
        net.end(end.output(0));
    }
    net.build().unwrap()
}

/// The time for rows that a box takes: 4 ns for dealing one, 40 for looking up one, 12 for making a pair and looking at
/// it.
fn takes_ns(one: &ConnectedBox, rows: u64) -> u64 {
    200 + match one.type_name() {
        "partition" | "partition heavy" | "partition to heavy" => 4 * rows,
        "join" => 40 * rows,
        "pairs" => 12 * rows,
        _ => 0,
    }
}

/// The time on eight cores, and the pairs made.
fn time(model: &Arc<Model>, strategy: &str) -> (f64, u64) {
    let machine = Machine::by_name("nehalem-ex").unwrap();
    let run = Rehearsal::of(model, |_| 0, takes_ns).unwrap();
    let is_end = |index: &usize| model.boxes()[*index].type_name() == "pairs";
    let made = (0..model.boxes().len()).filter(is_end).map(|index| run.counts[index].rows_taken()).sum();
    let reenactment = Reenactment::of(&run.trace, &ReplayOptions::default()).unwrap();
    let plan = strategy.parse::<Setting>().unwrap().plan(&machine.topology, PARTS);
    let done = reenactment.simulate(&machine, &plan, &SimOptions::default(), &mut |_| true);
    (done.unwrap_or_else(|error| panic!("{strategy}: {error}")).0.wall_ns, made)
}

/// Bobox report §8.1 calls such keys the major problem of parts.
#[test]
fn a_join_of_few_keys_is_three_times_as_fast_when_heavy_keys_are_split() {
    let first = keys(60_000, 20_000, 1.2, 1);
    let second = keys(2_000, 20_000, 1.2, 2);
    let wanted = pairs(&first, &second);
    for strategy in ["las", "vicus", "steal"] {
        let (before, made) = time(&network(&first, &second, false), strategy);
        assert_eq!(made, wanted, "{strategy}, parts by hash");
        let (after, made) = time(&network(&first, &second, true), strategy);
        assert_eq!(made, wanted, "{strategy}, heavy keys split");
        println!(
            "{strategy}: {:.2} ms by hash, {:.2} ms split, {:.2} times",
            before / 1e6,
            after / 1e6,
            before / after
        );
        assert!(before / after >= 3.0, "{strategy}: {before} ns and {after} ns");
    }
}

#[test]
fn a_join_of_even_keys_is_not_slower() {
    let first = keys(2_000_000, 1_000_000, 0.0, 3);
    let second = keys(1_000_000, 1_000_000, 0.0, 4);
    for strategy in ["las", "vicus", "steal"] {
        let (before, _) = time(&network(&first, &second, false), strategy);
        let (after, _) = time(&network(&first, &second, true), strategy);
        println!(
            "{strategy}: {:.2} ms by hash, {:.2} ms split, {:.3} times",
            before / 1e6,
            after / 1e6,
            after / before
        );
        assert!(after / before <= 1.03, "{strategy}: {before} ns and {after} ns");
    }
}
