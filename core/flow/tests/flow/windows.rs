//! Windows of random streams, and marks on their way through boxes. Failing cases print their seed.

use crate::tables::Chance;
use crate::window_trials::{Item, Row, Trial, envelopes, int, keep, schema};
use vicus_flow::library::{self, Grouping, HashKey, WindowError, Windowing};
use vicus_flow::{Bound, Column, Envelope, Mark, ModelBuilder, Schema, Type, sequential};

#[test]
fn windows_are_those_of_plain_loops() {
    for seed in 0..if cfg!(debug_assertions) { 400 } else { 3000 } {
        let trial = Trial::of_seed(seed);
        let mut picks = Chance::of_seed(!seed);
        let run = sequential::run(&trial.model, Vec::new(), |tasks| picks.below(tasks));
        run.unwrap_or_else(|error| panic!("{}: {error}", trial.what));
        trial.judge();
    }
}

/// Sums, least and greatest ones of decimals in windows that slide, by plain loops; the sums have more digits than 64
/// bits.
#[test]
fn windows_fold_decimals() {
    let kind = Type::Decimal { precision: 30, scale: 3 };
    let input = Schema::new([("time", Type::I64), ("price", kind)]);
    let price = |row: i128| (row * 7919 % 1000 - 500) << 64;
    for seed in 0..50 {
        let chance = &mut Chance::of_seed(seed);
        let (rows, width) = (1 + chance.below(300) as i128, 1 + chance.below(40) as i128);
        let slide = 1 + chance.below(width as usize) as i128;
        let is_by_rows = chance.below(2) == 0;
        let grouping = Grouping::by(&input, []).count("rows").sum("sum", 1).least("least", 1).greatest("greatest", 1);
        let windowing = match is_by_rows {
            true => Windowing::of_rows(grouping, width as u64, slide as u64),
            false => Windowing::of_time(grouping, 0, width as i64, slide as i64),
        };
        let windowing = windowing.unwrap();
        let mut net = ModelBuilder::new("decimals");
        let piece = 1 + chance.below(50);
        let sent: Vec<Envelope> = (0..rows)
            .collect::<Vec<_>>()
            .chunks(piece)
            .map(|rows| {
                let times: Column = rows.iter().map(|&row| row as i64).collect::<Vec<_>>().into();
                Envelope::new([times, Column::of_decimals(30, 3, rows.iter().map(|&row| price(row)).collect())])
            })
            .collect();
        let source = net.source(library::source("rows", &input, move || sent.clone()));
        let window = net.add(library::window(&windowing, HashKey::default(), 100));
        net.connect(source.output(0), window.input(0));
        let output = windowing.schema();
        let place = |name: &str| output.columns().iter().position(|field| field.name == name).unwrap();
        let places = ["rows", "sum", "least", "greatest"].map(place);
        let kept = keep(&mut net, window.output(0), &output);
        let late = keep(&mut net, window.output(1), &input);
        sequential::run(&net.build().unwrap(), Vec::new(), |tasks| tasks / 2).unwrap();
        let mut found = Vec::new();
        for envelope in kept.lock().unwrap().iter() {
            for row in 0..envelope.rows() {
                let of = |at: usize| envelope.column(places[at]).decimals()[row];
                found.push((envelope.column(places[0]).u64s()[row] as i128, of(1), of(2), of(3)));
            }
        }
        let mut wanted = Vec::new();
        let first = if is_by_rows { 0 } else { -(width - 1) / slide };
        for window in first..=(rows - 1) / slide {
            let prices: Vec<i128> =
                (window * slide..window * slide + width).filter(|row| (0..rows).contains(row)).map(price).collect();
            if let (Some(&least), Some(&greatest)) = (prices.iter().min(), prices.iter().max()) {
                wanted.push((prices.len() as i128, prices.iter().sum(), least, greatest));
            }
        }
        found.sort_unstable();
        wanted.sort_unstable();
        assert!(late.lock().unwrap().is_empty(), "seed {seed}: there are no watermarks, so no row is late");
        assert_eq!(found, wanted, "seed {seed}: {rows} rows, {width} wide, by {slide}, by rows: {is_by_rows}");
    }
}

/// Marks of two streams through every box that passes streams on.
#[test]
fn marks_pass_boxes_and_never_overtake_rows() {
    for seed in 0..300 {
        let chance = &mut Chance::of_seed(seed);
        let input = schema(&Type::I64);
        let mut net = ModelBuilder::new("marks");
        net.default_bound(Bound { envelopes: 1 + chance.below(3), ..Bound::default() });
        // Times rise, and each watermark is the last time.
        let mut ends = [0; 2];
        let streams: [Vec<Item>; 2] = std::array::from_fn(|stream| {
            let mut items = Vec::new();
            for _ in 0..1 + chance.below(20) {
                ends[stream] += chance.below(9) as i64;
                let row = Row { key: Some(chance.below(4) as u8), time: Some(ends[stream]), value: None };
                items.push(Item::Rows(vec![row; 1 + chance.below(3)]));
                if chance.below(2) == 0 {
                    items.push(Item::Watermark(ends[stream]));
                }
                if chance.below(8) == 0 {
                    items.push(Item::Idle(items.len() as u64));
                }
            }
            items.push(Item::Watermark(ends[stream]));
            items
        });
        let rows_sent: usize =
            streams.iter().flatten().map(|item| if let Item::Rows(rows) = item { rows.len() } else { 0 }).sum();
        let (parts, is_merged) = (1 + chance.below(3), chance.below(2) == 0);
        let gather = match is_merged {
            true => library::merge(&input, 2, 7, library::order_by([library::SortKey::of(1)])),
            false => library::union(&input, 2),
        };
        let gather = net.add(gather);
        let has_idle = streams.iter().flatten().any(|item| matches!(item, Item::Idle(_)));
        for (place, items) in streams.iter().enumerate() {
            let sent = envelopes(items, &Type::I64);
            let source = net.source(library::source("rows", &input, move || sent.clone()));
            let same = net.add(library::map("same", &input, &input, Some));
            net.connect(source.output(0), same.input(0));
            net.connect(same.output(0), gather.input(place));
        }
        let spread = match chance.below(2) {
            0 => library::spread(&input, parts),
            _ => library::partition(&input, &[0], parts, HashKey::default()),
        };
        let spread = net.add(spread);
        net.connect(gather.output(0), spread.input(0));
        let union = net.add(library::union(&input, parts));
        for part in 0..parts {
            let same = net.add(library::map("same", &input, &input, Some));
            net.connect(spread.output(part), same.input(0));
            net.connect(same.output(0), union.input(part));
        }
        let seen = keep(&mut net, union.output(0), &input);
        let model = net.build().unwrap();
        let mut picks = Chance::of_seed(!seed);
        let run = sequential::run(&model, Vec::new(), |tasks| picks.below(tasks));
        run.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let (mut now, mut rows) = (i128::MIN, 0);
        for envelope in seen.lock().unwrap().iter() {
            if let Some(Mark::Watermark(at)) = envelope.mark() {
                assert!(at > now, "seed {seed}: watermarks rise");
                now = at;
            }
            rows += envelope.rows();
            // A stream that was idle may have rows before the others' watermark.
            let times = (0..envelope.rows()).filter_map(|row| int(envelope.column(1), row));
            times.for_each(|time| assert!(has_idle || i128::from(time) >= now, "seed {seed}: {time} behind {now}"));
        }
        assert_eq!(rows, rows_sent, "seed {seed}");
        // The last mark of either stream comes before its pill, so the lesser one of both has passed.
        assert!(now >= ends[0].min(ends[1]).into(), "seed {seed}: the last watermark is {now}, of {ends:?}");
    }
}

#[test]
fn windows_of_no_width_or_without_a_time_are_refused() {
    let input = schema(&Type::I64);
    let grouping = || Grouping::by(&input, [0]).count("rows");
    let refused = |made: Result<Windowing, WindowError>| made.map(|_| ()).unwrap_err();
    assert_eq!(refused(Windowing::of_rows(grouping(), 0, 1)), WindowError::Width);
    assert_eq!(refused(Windowing::of_rows(grouping(), 3, 0)), WindowError::Slide);
    assert_eq!(refused(Windowing::of_time(grouping(), 1, -5, 1)), WindowError::Width);
    assert_eq!(refused(Windowing::of_time(grouping(), 1, 5, 6)), WindowError::Slide);
    assert_eq!(refused(Windowing::of_time(grouping(), 1, 1_000_001, 1_000_000)), WindowError::Panes);
    assert_eq!(refused(Windowing::sessions(grouping(), 1, 0)), WindowError::Width);
    for (column, told) in [(0, "column key is of Text"), (9, "column 9 of")] {
        let error = refused(Windowing::sessions(grouping(), column, 5)).to_string();
        assert!(error.starts_with(told), "{error}");
    }
    assert!(library::watermarks(&input, 0, 0, 1).is_err() && library::watermarks(&input, 1, -1, 1).is_err());
}

/// What happened: rows behind a pause were folded and nothing was sent, so boxes behind went on as if the stream were
/// idle still.
#[test]
fn rows_that_a_window_keeps_end_a_pause() {
    let input = schema(&Type::I64);
    let windowing = Windowing::of_time(Grouping::by(&input, [0]).count("rows"), 1, 10, 10).unwrap();
    let mut net = ModelBuilder::new("pause");
    let sent = [
        Item::Idle(1),
        Item::Rows(vec![Row { key: Some(1), time: Some(3), value: None }]),
        Item::Watermark(5),
        Item::Idle(2),
    ];
    let sent = envelopes(&sent, &Type::I64);
    let source = net.source(library::source("rows", &input, move || sent.clone()));
    let window = net.add(library::window(&windowing, HashKey::default(), 10));
    let seen = keep(&mut net, window.output(0), &windowing.schema());
    let late = net.add(library::sink("late", &input, |_| Ok(())));
    net.connect(source.output(0), window.input(0));
    net.connect(window.output(1), late.input(0));
    net.end(late.output(0));
    sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap();
    let kinds: Vec<&str> = seen
        .lock()
        .unwrap()
        .iter()
        .filter_map(vicus_flow::Envelope::mark)
        .map(|mark| match mark {
            Mark::Idle { .. } => "idle",
            Mark::Active => "active",
            Mark::Watermark(_) | Mark::Moment(_) => "watermark",
        })
        .collect();
    assert_eq!(kinds, ["idle", "active", "watermark", "idle"]);
}

/// Watermarks of another unit than the windows' column would make all rows late, or none.
#[test]
fn a_watermark_of_another_unit_is_an_error_with_the_column() {
    let seconds = Type::Timestamp(vicus_flow::TimeUnit::Second, None);
    for (time, mark, told) in [
        (Type::I64, Mark::Moment(5), "a watermark is a moment, of dates or timestamps, and the time, column"),
        (seconds, Mark::Watermark(5), "a watermark is a number, and the time, column"),
    ] {
        let input = schema(&time);
        let column = input.columns().iter().position(|field| field.kind == time).unwrap();
        let windowing = Windowing::of_time(Grouping::by(&input, [0]).count("n"), column, 10, 10).unwrap();
        let mut net = ModelBuilder::new("units");
        let envelope = vicus_flow::Envelope::of_mark(&input, mark);
        let source = net.source(library::source("marks", &input, move || [envelope.clone()]));
        let window = net.add(library::window(&windowing, HashKey::default(), 100));
        net.connect(source.output(0), window.input(0));
        keep(&mut net, window.output(0), &windowing.schema());
        keep(&mut net, window.output(1), &input);
        let error = sequential::run(&net.build().unwrap(), Vec::new(), |_| 0).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}
