//! Streams joined by equal keys and near times, compared with plain loops. Failing cases print their seed.

use crate::tables::Chance;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use vicus_flow::library::{self, HashKey, Nearness, WindowError};
use vicus_flow::{Bound, BoxError, BoxModel, Envelope, Mark, Model, ModelBuilder, Schema, TimeUnit, Turn, Type};
use vicus_flow::{Budget, sequential};

/// Key, time and number of a row; nulls are `None`.
type Row = (Option<u64>, Option<i64>, u64);

fn schema() -> Schema {
    Schema::new([("key", Type::U64), ("at", Type::I64), ("row", Type::U64)]).with_nulls(["key", "at"])
}

fn envelope(rows: &[Row]) -> Envelope {
    let keys: Vec<Option<u64>> = rows.iter().map(|row| row.0).collect();
    let times: Vec<Option<i64>> = rows.iter().map(|row| row.1).collect();
    Envelope::new([keys.into(), times.into(), rows.iter().map(|row| row.2).collect::<Vec<u64>>().into()])
}

/// Rows whose times rise, but for at most `late` units.
fn rows(chance: &mut Chance, count: usize, late: i64) -> Vec<Row> {
    let mut now = chance.below(50) as i64 - 25;
    (0..count as u64)
        .map(|row| {
            now += chance.below(4) as i64;
            let at = now - chance.below(late as usize + 1) as i64;
            let key = chance.below(6) as u64;
            ((chance.below(20) > 0).then_some(key), (chance.below(20) > 0).then_some(at), row)
        })
        .collect()
}

type Pairs = Arc<Mutex<Vec<(u64, u64)>>>;

/// A join of two streams of these envelopes with watermarks, and the rows of its pairs.
fn model(streams: [Vec<Envelope>; 2], distance: i64, late: i64, limit: usize) -> (Arc<Model>, Pairs) {
    let (model, pairs, _) = counted(streams, distance, late, limit);
    (model, pairs)
}

/// Such a join, also with the number of envelopes that it has sent.
fn counted(
    streams: [Vec<Envelope>; 2],
    distance: i64,
    late: i64,
    limit: usize,
) -> (Arc<Model>, Pairs, Arc<AtomicUsize>) {
    let schema = schema();
    let near = Nearness::of(&schema, &schema, [(0, 0)], (1, 1), distance).unwrap();
    let mut net = ModelBuilder::new("near");
    net.default_bound(Bound { envelopes: 2, ..Bound::default() });
    let join = net.add(library::join_near(&near, HashKey::of_seed(distance as u64), limit));
    for (input, envelopes) in streams.into_iter().enumerate() {
        let source = net.source(library::source("rows", &schema, move || envelopes.clone()));
        let marked = net.add(library::watermarks(&schema, 1, late, 1).unwrap());
        net.connect(source.output(0), marked.input(0));
        net.connect(marked.output(0), join.input(input));
    }
    let pairs = Pairs::default();
    let sent = Arc::new(AtomicUsize::new(0));
    let (into, count) = (Arc::clone(&pairs), Arc::clone(&sent));
    let end = library::sink("end", &near.schema(), move |rows| {
        assert!(rows.rows() <= limit);
        count.fetch_add(1, Ordering::Relaxed);
        let numbers = rows.column(2).u64s().iter().copied().zip(rows.column(5).u64s().iter().copied());
        into.lock().unwrap().extend(numbers);
        Ok(())
    });
    let end = net.add(end);
    net.connect(join.output(0), end.input(0));
    net.end(end.output(0));
    (net.build().unwrap(), pairs, sent)
}

#[test]
fn pairs_of_near_times_are_those_of_plain_loops() {
    let (mut all, mut none) = (0, 0);
    for seed in 0..if cfg!(debug_assertions) { 100 } else { 1000 } {
        let mut chance = Chance::of_seed(seed);
        let (distance, late) = (chance.below(12) as i64, chance.below(8) as i64);
        let streams = [chance.below(300), chance.below(300)].map(|count| rows(&mut chance, count, late));
        let [first, second] = &streams;
        let mut wanted = Vec::new();
        for a in first {
            let is_partner = |b: &&Row| match (a, b) {
                ((Some(k), Some(t), _), (Some(l), Some(u), _)) => k == l && (t - u).abs() <= distance,
                _ => false,
            };
            wanted.extend(second.iter().filter(is_partner).map(|b| (a.2, b.2)));
        }
        wanted.sort_unstable();
        (all, none) = (all + wanted.len(), none + usize::from(wanted.is_empty()));
        let size = 1 + chance.below(30);
        let envelopes = streams.map(|rows| rows.chunks(size).map(envelope).collect());
        let (model, pairs) = model(envelopes, distance, late, 1 + chance.below(50));
        sequential::run(&model, Vec::new(), |tasks| chance.below(tasks))
            .unwrap_or_else(|error| panic!("{seed}: {error}"));
        let mut found = std::mem::take(&mut *pairs.lock().unwrap());
        found.sort_unstable();
        assert_eq!(found, wanted, "seed {seed}: distance {distance}, late by {late}");
    }
    assert!(all > 10_000 && none < 500, "{all} pairs, {none} joins without one");
}

/// Rows are held until the other stream's watermark has passed them, however long the streams are.
#[test]
fn long_streams_take_memory_for_a_time_alone() {
    let row = |n: u64| (Some(n % 10), Some(n as i64), n);
    let stream: Vec<Envelope> =
        (0..200_000).step_by(100).map(|from| envelope(&(from..from + 100).map(row).collect::<Vec<_>>())).collect();
    let held: u64 = stream.iter().map(Envelope::bytes).sum();
    let (model, pairs) = model([stream.clone(), stream], 20, 0, 1000);
    let budget = Budget::from(300_000);
    let (run, _) = sequential::run_within(&model, Vec::new(), budget, None, |_| Some(0));
    run.unwrap_or_else(|error| panic!("{error}"));
    assert!(held > 4_000_000, "{held} bytes");
    // Each row meets those 20, 10 and 0 before and behind it, but at the ends.
    assert_eq!(pairs.lock().unwrap().len(), 5 * 200_000 - 2 * (20 + 10));
}

/// What happened: each envelope met one pane of the other stream after the other with all its rows, sent an envelope
/// for each pane, and counted once for each of its own.
#[test]
fn large_envelopes_of_many_panes_are_joined_at_once() {
    let row = |n: u64| (Some(1), Some(2 * n as i64), n);
    let (rows, size) = (40_960, 4096);
    let stream: Vec<Envelope> =
        (0..rows).step_by(size).map(|n| envelope(&(n..n + size as u64).map(row).collect::<Vec<_>>())).collect();
    for (distance, wanted) in [(0, rows), (1, rows), (5, 5 * rows - 6)] {
        let (model, pairs, sent) = counted([stream.clone(), stream.clone()], distance, 0, size);
        // Panes have few rows: about 200 bytes each.
        let budget = Budget::from(12_000_000);
        let (run, _) = sequential::run_within(&model, Vec::new(), budget, None, |_| Some(0));
        run.unwrap_or_else(|error| panic!("within {distance}: {error}"));
        let pairs = pairs.lock().unwrap();
        assert_eq!(pairs.len() as u64, wanted, "within {distance}");
        assert!(pairs.iter().all(|(a, b)| 2 * a.abs_diff(*b) <= distance as u64), "within {distance}");
        let most = wanted.div_ceil(size as u64) + 2 * stream.len() as u64;
        let sent = sent.load(Ordering::Relaxed) as u64;
        assert!(sent <= most, "within {distance}: {sent} envelopes, at most {most} are needed");
    }
}

/// A stream that is idle from the beginning, beside a long one with watermarks; then it has a row too late for any
/// partner, and one whose partners are still there. The long stream took memory without end.
#[test]
fn an_idle_stream_lets_the_other_ones_rows_go() {
    const ROWS: u64 = 200_000;
    let schema = schema();
    let near = Nearness::of(&schema, &schema, [(0, 0)], (1, 1), 20).unwrap();
    let mut net = ModelBuilder::new("idle");
    net.default_bound(Bound { envelopes: 2, ..Bound::default() });
    let join = net.add(library::join_near(&near, HashKey::default(), 1000));
    let factory = || {
        let mut next = 0;
        move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            if next == 0 {
                turn.send_mark(0, Mark::idle(0));
            }
            if next < ROWS {
                if turn.ask_room(1) {
                    let row = |n: u64| (Some(1), Some(n as i64), n);
                    turn.send(1, envelope(&(next..next + 100).map(row).collect::<Vec<_>>()));
                    next += 100;
                    turn.send_mark(1, Mark::Watermark(i128::from(next)));
                }
                turn.run_again();
                return Ok(());
            }
            turn.send(0, envelope(&[(Some(1), Some(50), 1), (Some(1), Some(ROWS as i64), 2)]));
            (0..2).for_each(|output| turn.send_pill(output));
            Ok(())
        }
    };
    let both = net.source(BoxModel::new("both", factory).output(&schema).output(&schema));
    for way in 0..2 {
        net.connect(both.output(way), join.input(way));
    }
    let pairs = Pairs::default();
    let into = Arc::clone(&pairs);
    let end = library::sink("end", &near.schema(), move |rows| {
        let numbers = rows.column(2).u64s().iter().copied().zip(rows.column(5).u64s().iter().copied());
        into.lock().unwrap().extend(numbers);
        Ok(())
    });
    let end = net.add(end);
    net.connect(join.output(0), end.input(0));
    net.end(end.output(0));
    let budget = Budget::from(300_000);
    let (run, _) = sequential::run_within(&net.build().unwrap(), Vec::new(), budget, None, |_| Some(0));
    run.unwrap_or_else(|error| panic!("{error}"));
    let mut pairs = std::mem::take(&mut *pairs.lock().unwrap());
    pairs.sort_unstable();
    assert_eq!(pairs, (ROWS - 20..ROWS).map(|n| (2, n)).collect::<Vec<_>>());
}

/// A watermark says that no pair with older rows comes: rows are older than it by the distance.
#[test]
fn watermarks_are_passed_on_when_both_streams_have_them() {
    let schema = schema();
    let near = Nearness::of(&schema, &schema, [(0, 0)], (1, 1), 3).unwrap();
    let mut net = ModelBuilder::new("marks");
    let join = net.add(library::join_near(&near, HashKey::default(), 10));
    for (input, times) in [[10i64, 30], [20, 25]].into_iter().enumerate() {
        let envelopes = move || times.map(|at| envelope(&[(Some(1), Some(at), 0)]));
        let source = net.source(library::source("rows", &schema, envelopes));
        let marked = net.add(library::watermarks(&schema, 1, 0, 1).unwrap());
        net.connect(source.output(0), marked.input(0));
        net.connect(marked.output(0), join.input(input));
    }
    let seen: Arc<Mutex<Vec<Mark>>> = Arc::default();
    let into = Arc::clone(&seen);
    let keep = move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
        match turn.take(0) {
            Some(pill) if pill.is_pill() => turn.send_pill(0),
            Some(envelope) => into.lock().unwrap().extend(envelope.mark()),
            None => {}
        }
        Ok(())
    };
    let nothing = Schema::new::<&str>([]);
    let end = net.add(BoxModel::new("keep", move || keep.clone()).input(&near.schema()).output(&nothing));
    net.connect(join.output(0), end.input(0));
    net.end(end.output(0));
    sequential::run(&net.build().unwrap(), Vec::new(), |tasks| tasks - 1).unwrap();
    let seen = seen.lock().unwrap();
    assert!(seen.is_sorted_by_key(|mark| if let Mark::Watermark(at) = mark { *at } else { i128::MIN }), "{seen:?}");
    assert!(seen.contains(&Mark::Watermark(25 - 3)) || seen.contains(&Mark::Watermark(30 - 3)), "{seen:?}");
}

#[test]
fn wrong_times_are_errors() {
    let of = |kind: Type| Schema::new([("at", kind)]);
    let near = |a: Type, b: Type, distance| Nearness::of(&of(a), &of(b), [], (0, 0), distance).map(|_| ());
    assert_eq!(near(Type::I64, Type::I64, 0), Ok(()));
    assert_eq!(near(Type::I64, Type::I64, -1), Err(WindowError::Distance));
    assert!(matches!(near(Type::I64, Type::Text, 1), Err(WindowError::Column { .. })));
    let seconds = Type::Timestamp(TimeUnit::Second, None);
    let error = near(seconds.clone(), Type::Date, 1).unwrap_err().to_string();
    assert!(error.starts_with("the times of both streams are of one type"), "{error}");
    // Watermarks of numbers say nothing of moments.
    let moments = of(seconds);
    let joined = Nearness::of(&moments, &moments, [], (0, 0), 1).unwrap();
    let mut net = ModelBuilder::new("units");
    let join = net.add(library::join_near(&joined, HashKey::default(), 10));
    let mark = |turn: &mut Turn<'_>| -> Result<(), BoxError> {
        turn.send_mark(0, Mark::Watermark(5));
        turn.send_pill(0);
        Ok(())
    };
    for input in 0..2 {
        let source = net.source(BoxModel::new("mark", move || mark).output(&moments));
        net.connect(source.output(0), join.input(input));
    }
    let end = net.add(library::sink("end", &joined.schema(), |_| Ok(())));
    net.connect(join.output(0), end.input(0));
    net.end(end.output(0));
    let error = sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap_err().to_string();
    assert!(error.contains("a watermark is a number") && error.contains("join near"), "{error}");
}
