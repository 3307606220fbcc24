//! Vias that keep the newest envelopes. Failing cases print their seed.

use crate::tables::Chance;
use std::sync::{Arc, Mutex};
use vicus_flow::{Bound, BoxError, BoxModel, Envelope, Mark, ModelBuilder, Schema, Turn, Type, library, sequential};

/// What happens if such a via drops a mark, loses the pill, or holds its sender up.
#[test]
fn a_slow_reader_gets_the_newest_rows_all_marks_that_count_and_the_pill() {
    let schema = Schema::new([("n", Type::U64)]);
    for seed in 0..1000 {
        let chance = &mut Chance::of_seed(seed);
        let kept = 1 + chance.below(4);
        let count = chance.below(60) as u64;
        let mut items: Vec<Envelope> = Vec::new();
        for n in 0..count {
            items.push(Envelope::new([vec![n].into()]));
            if chance.below(3) == 0 {
                items.push(Envelope::of_mark(&schema, Mark::Watermark(i128::from(n))));
            }
        }
        let last_mark = items.iter().filter_map(Envelope::mark).next_back();
        let mut net = ModelBuilder::new("newest");
        let sent = items.clone();
        let source = net.source(library::source("numbers", &schema, move || sent.clone()));
        let seen: Arc<Mutex<Vec<Envelope>>> = Arc::default();
        let into = Arc::clone(&seen);
        let read = move || {
            let into = Arc::clone(&into);
            move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                match turn.take(0) {
                    Some(pill) if pill.is_pill() => turn.send_pill(0),
                    Some(envelope) => into.lock().unwrap().push(envelope),
                    None => {}
                }
                Ok(())
            }
        };
        let end = net.add(BoxModel::new("end", read).input(&schema).output(&Schema::new::<&str>([])));
        net.connect(source.output(0), end.input(0)).bound(Bound { envelopes: kept, ..Bound::default() }).keep_newest();
        net.end(end.output(0));
        let mut picks = Chance::of_seed(!seed);
        let model = net.build().unwrap();
        let (result, counts) = sequential::run_counted(&model, Vec::new(), |tasks| Some(picks.below(tasks)));
        result.unwrap_or_else(|error| panic!("seed {seed}: {error}"));

        let seen = seen.lock().unwrap();
        let numbers: Vec<u64> = seen.iter().flat_map(|envelope| envelope.column(0).u64s().to_vec()).collect();
        assert!(numbers.is_sorted(), "seed {seed}: {numbers:?}");
        assert_eq!(numbers.last().copied(), count.checked_sub(1), "seed {seed}: the last one comes");
        let output = counts[1].outputs[0];
        assert_eq!(numbers.len() as u64 + output.dropped_rows, count, "seed {seed}");
        assert_eq!(output.dropped_rows, output.dropped_envelopes, "seed {seed}: each has a row");
        assert_eq!(seen.iter().filter_map(Envelope::mark).next_back(), last_mark, "seed {seed}");
        // No row comes behind a mark that was sent behind it.
        let mut now = -1;
        for envelope in seen.iter() {
            match envelope.mark() {
                Some(Mark::Watermark(at)) => now = at,
                _ => assert!(i128::from(envelope.column(0).u64s()[0]) > now, "seed {seed}: a row behind {now}"),
            }
        }
    }
}

/// Its reader closes early: the sender ends as well.
#[test]
fn a_reader_that_has_enough_stops_the_sender() {
    let schema = Schema::new([("n", Type::U64)]);
    let mut net = ModelBuilder::new("enough");
    let endless = || (0u64..).map(|n| Envelope::new([vec![n].into()]));
    let source = net.source(library::source("endless", &schema, endless));
    let take_one = || {
        |turn: &mut Turn<'_>| -> Result<(), BoxError> {
            if turn.take(0).is_some() {
                turn.close(0);
                turn.send_pill(0);
            }
            Ok(())
        }
    };
    let end = net.add(BoxModel::new("one", take_one).input(&schema).output(&Schema::new::<&str>([])));
    net.connect(source.output(0), end.input(0)).keep_newest();
    net.end(end.output(0));
    let mut picks = Chance::of_seed(1);
    sequential::run(&net.build().unwrap(), Vec::new(), |tasks| picks.below(tasks)).unwrap();
}

/// The reader takes nothing before another stream is over, which ends when all numbers were sent: an ordinary via of
/// this bound would hold the sender up, and nothing would end.
#[test]
fn a_reader_that_comes_late_gets_the_last_rows_alone() {
    let schema = Schema::new([("n", Type::U64)]);
    for (kept, count) in [(1, 50u64), (3, 50), (7, 8), (8, 8)] {
        let mut net = ModelBuilder::new("late");
        let source = net
            .source(library::source("numbers", &schema, move || (0..count).map(|n| Envelope::new([vec![n].into()]))));
        // Its pill comes behind that of the numbers.
        let others = net.add(library::map("none", &schema, &schema, |_| None));
        let seen: Arc<Mutex<Vec<u64>>> = Arc::default();
        let into = Arc::clone(&seen);
        let read = move || {
            let (into, mut is_open) = (Arc::clone(&into), false);
            move |turn: &mut Turn<'_>| -> Result<(), BoxError> {
                is_open |= turn.take(1).is_some_and(|envelope| envelope.is_pill());
                if !is_open {
                    return Ok(());
                }
                match turn.take(0) {
                    Some(pill) if pill.is_pill() => turn.send_pill(0),
                    Some(envelope) => into.lock().unwrap().extend(envelope.column(0).u64s()),
                    None => {}
                }
                Ok(())
            }
        };
        let model = BoxModel::new("end", read).input(&schema).input(&schema).output(&Schema::new::<&str>([]));
        let end = net.add(model);
        net.connect(source.output(0), end.input(0)).bound(Bound { envelopes: kept, ..Bound::default() }).keep_newest();
        net.connect(source.output(0), others.input(0));
        net.connect(others.output(0), end.input(1));
        net.end(end.output(0));
        let model = net.build().unwrap();
        let (result, counts) = sequential::run_counted(&model, Vec::new(), |_| Some(0));
        result.unwrap_or_else(|error| panic!("{kept} of {count}: {error}"));
        let mut seen = seen.lock().unwrap().clone();
        let dropped = counts[1].outputs[0].dropped_rows;
        assert_eq!(seen.len() as u64 + dropped, count, "{kept} of {count}");
        // The head that an invocation saw stays, however long it is left.
        if seen.len() > kept {
            seen.remove(0);
        }
        let last: Vec<u64> = (count.saturating_sub(kept as u64)..count).collect();
        assert_eq!(seen, last, "{kept} of {count}");
    }
}
