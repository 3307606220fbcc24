//! Random streams with rows out of order and watermarks, networks that make windows of them, and the windows that plain
//! loops find.

use crate::tables::Chance;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use vicus_flow::library::{self, Grouping, HashKey, Windowing};
use vicus_flow::{
    Bound, BoxError, BoxModel, Column, Envelope, Field, Mark, Model, ModelBuilder, OutputId, Schema, TimeUnit, Turn,
    Type,
};

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) key: Option<u8>,
    pub(crate) time: Option<i64>,
    pub(crate) value: Option<i32>,
}

/// An item of a stream.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Rows(Vec<Row>),
    Watermark(i64),
    Idle(u64),
}

/// Rows of random times that rise in the mean, with watermarks behind most of them.
fn stream(chance: &mut Chance) -> Vec<Item> {
    let (mut items, mut base) = (Vec::new(), -50);
    for _ in 0..chance.below(30) {
        match chance.below(4) {
            0 => items.push(Item::Watermark(base - chance.below(20) as i64)),
            1 if chance.below(4) == 0 => items.push(Item::Idle(items.len() as u64)),
            _ => {
                let rows = (0..chance.below(12)).map(|_| {
                    base += chance.below(5) as i64;
                    Row {
                        key: (chance.below(5) > 0).then(|| chance.below(4) as u8),
                        time: (chance.below(15) > 0).then(|| base - chance.below(25) as i64),
                        value: (chance.below(6) > 0).then(|| chance.below(100) as i32 - 50),
                    }
                });
                items.push(Item::Rows(rows.collect()));
            }
        }
    }
    items
}

/// How the time is stored.
fn time_kind(chance: &mut Chance) -> Type {
    let kinds = [Type::I64, Type::I32, Type::Date, Type::Timestamp(TimeUnit::Milli, Some("UTC".into()))];
    kinds[chance.below(kinds.len())].clone()
}

pub(crate) fn schema(time: &Type) -> Schema {
    let fields = [Field::new("key", Type::Text), Field::new("time", time.clone()), Field::new("value", Type::I32)];
    fields.into_iter().map(Field::or_null).collect()
}

/// A unit of the column in a watermark's units.
fn scale(time: &Type) -> i128 {
    match time {
        Type::Date => 86_400_000_000_000,
        Type::Timestamp(..) => 1_000_000,
        _ => 1,
    }
}

fn text(key: Option<u8>) -> Option<String> {
    key.map(|key| format!("key {key}"))
}

pub(crate) fn envelopes(items: &[Item], time: &Type) -> Vec<Envelope> {
    let envelope = |item: &Item| match item {
        Item::Rows(rows) => {
            let texts: Vec<Option<String>> = rows.iter().map(|row| text(row.key)).collect();
            let texts: Vec<Option<&str>> = texts.iter().map(Option::as_deref).collect();
            let times: Column = match time {
                Type::I32 | Type::Date => {
                    rows.iter().map(|row| row.time.map(|time| time as i32)).collect::<Vec<_>>().into()
                }
                _ => rows.iter().map(|row| row.time).collect::<Vec<_>>().into(),
            };
            let times = if matches!(time, Type::I32 | Type::I64) { times } else { times.of_type(time.clone()) };
            Envelope::new([texts.into(), times, rows.iter().map(|row| row.value).collect::<Vec<_>>().into()])
        }
        Item::Watermark(at) => {
            let at = i128::from(*at) * scale(time);
            let mark = if scale(time) == 1 { Mark::Watermark(at) } else { Mark::Moment(at) };
            Envelope::of_mark(&schema(time), mark)
        }
        Item::Idle(number) => Envelope::of_mark(&schema(time), Mark::Idle { source: 0, number: *number }),
    };
    items.iter().map(envelope).collect()
}

/// A window of a group: key, start and end; then rows, values, their sum, least and greatest.
type Sums = BTreeMap<(Option<String>, i64, i64), Vec<Option<i64>>>;

fn fold<'r>(rows: impl Iterator<Item = &'r Row> + Clone) -> Vec<Option<i64>> {
    let values = || rows.clone().filter_map(|row| row.value).map(i64::from);
    let count = |count: usize| Some(count as i64);
    let sum = values().next().map(|_| values().sum());
    vec![count(rows.clone().count()), count(values().count()), sum, values().min(), values().max()]
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Rows { size: i64, slide: i64 },
    Time { width: i64, slide: i64 },
    Sessions { gap: i64 },
}

/// Windows and late rows by plain loops over all windows that can be.
fn expected(items: &[Item], shape: Shape, has_keys: bool) -> (Sums, usize) {
    let key_of = |row: &Row| if has_keys { text(row.key) } else { None };
    let (mut windows, mut late) = (BTreeMap::<(Option<String>, i64, i64), Vec<&Row>>::new(), 0);
    let mut now = i64::MIN;
    // For sessions: those still open, as key and rows.
    let mut open: Vec<(Option<String>, Vec<&Row>)> = Vec::new();
    let ends = |rows: &[&Row], gap: i64| {
        let times = || rows.iter().filter_map(|row| row.time);
        (times().min().unwrap(), times().max().unwrap() + gap)
    };
    let mut of_keys: BTreeMap<Option<String>, Vec<&Row>> = BTreeMap::new();
    for item in items {
        match item {
            Item::Idle(_) => {}
            Item::Watermark(at) => {
                now = now.max(*at);
                if let Shape::Sessions { gap } = shape {
                    let is_over = |(_, rows): &(_, Vec<&Row>)| ends(rows, gap).1 <= now;
                    let (over, rest) = open.into_iter().partition(is_over);
                    open = rest;
                    let over: Vec<(Option<String>, Vec<&Row>)> = over;
                    windows.extend(
                        over.into_iter().map(|(key, rows)| ((key, ends(&rows, gap).0, ends(&rows, gap).1), rows)),
                    );
                }
            }
            Item::Rows(rows) => {
                for row in rows {
                    match (shape, row.time) {
                        (Shape::Rows { .. }, _) => of_keys.entry(key_of(row)).or_default().push(row),
                        (_, None) => late += 1,
                        (Shape::Time { width, slide }, Some(time)) => {
                            let of_row = (-400..400).map(|window| window * slide);
                            let of_row = of_row.filter(|start| *start <= time && time < start + width);
                            let still: Vec<i64> = of_row.filter(|start| start + width > now).collect();
                            late += usize::from(still.is_empty());
                            for start in still {
                                windows.entry((key_of(row), start, start + width)).or_default().push(row);
                            }
                        }
                        (Shape::Sessions { gap }, Some(time)) => {
                            let is_near = |(key, rows): &(Option<String>, Vec<&Row>)| {
                                *key == key_of(row) && rows.iter().any(|other| (other.time.unwrap() - time).abs() < gap)
                            };
                            let (near, rest): (Vec<_>, Vec<_>) = open.into_iter().partition(is_near);
                            open = rest;
                            if near.is_empty() && time + gap <= now {
                                late += 1;
                            } else {
                                let mut all: Vec<&Row> = near.into_iter().flat_map(|(_, rows)| rows).collect();
                                all.push(row);
                                open.push((key_of(row), all));
                            }
                        }
                    }
                }
            }
        }
    }
    if let Shape::Sessions { gap } = shape {
        windows.extend(open.into_iter().map(|(key, rows)| ((key, ends(&rows, gap).0, ends(&rows, gap).1), rows)));
    }
    if let Shape::Rows { size, slide } = shape {
        for (key, rows) in of_keys {
            let count = rows.len() as i64;
            for start in (0..count).step_by(slide as usize) {
                let end = count.min(start + size);
                windows.insert((key.clone(), start, end), rows[start as usize..end as usize].to_vec());
            }
        }
    }
    (windows.into_iter().map(|(window, rows)| (window, fold(rows.iter().copied()))).collect(), late)
}

/// Envelopes and marks, in order.
pub(crate) type Seen = Arc<Mutex<Vec<Envelope>>>;

/// The end of a stream that keeps rows and marks.
pub(crate) fn keep(net: &mut ModelBuilder, from: OutputId, schema: &Schema) -> Seen {
    let seen = Seen::default();
    let into = Arc::clone(&seen);
    let operator = move || {
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
    let end = net.add(BoxModel::new("keep", operator).input(schema).output(&Schema::new::<&str>([])));
    net.connect(from, end.input(0));
    net.end(end.output(0));
    seen
}

pub(crate) fn int(column: &Column, row: usize) -> Option<i64> {
    match column.kind() {
        _ if column.is_null(row) => None,
        Type::U64 => Some(column.u64s()[row] as i64),
        Type::I32 | Type::Date => Some(column.values::<i32>()[row].into()),
        _ => Some(column.values::<i64>()[row]),
    }
}

/// The windows of envelopes. Panics if one comes twice, or behind a mark that says it does not.
fn sums(seen: &Seen, has_keys: bool, scale: i128, is_of_time: bool, what: &str) -> Sums {
    let mut sums = Sums::new();
    let mut now = i128::MIN;
    for envelope in seen.lock().unwrap().iter() {
        if let Some(Mark::Watermark(at) | Mark::Moment(at)) = envelope.mark() {
            assert!(at > now, "{what}: watermarks rise");
            now = at;
        }
        let first = usize::from(has_keys);
        for row in 0..envelope.rows() {
            let of = |column: usize| int(envelope.column(column), row);
            let key =
                (has_keys && !envelope.column(0).is_null(row)).then(|| envelope.column(0).text_at(row).to_owned());
            let (start, end) = (of(first).unwrap(), of(first + 1).unwrap());
            assert!(!is_of_time || i128::from(end) * scale > now, "{what}: a window ended at {end} behind {now}");
            let values = (first + 2..first + 7).map(of).collect();
            assert!(sums.insert((key, start, end), values).is_none(), "{what}: {start} to {end} came twice");
        }
    }
    sums
}

/// A random stream and a network that makes its windows, whole and in parts.
pub(crate) struct Trial {
    items: Vec<Item>,
    time: Type,
    shape: Shape,
    has_keys: bool,
    pub(crate) model: Arc<Model>,
    in_one: Seen,
    late: Seen,
    in_parts: Seen,
    late_parts: Vec<Seen>,
    pub(crate) what: String,
}

impl Trial {
    pub(crate) fn of_seed(seed: u64) -> Trial {
        let chance = &mut Chance::of_seed(seed);
        let items = stream(chance);
        let time = time_kind(chance);
        let has_keys = chance.below(4) > 0;
        let width = 1 + chance.below(20) as i64;
        let slide = if chance.below(3) == 0 { width } else { 1 + chance.below(width as usize) as i64 };
        let shape = match chance.below(3) {
            0 => Shape::Rows { size: width, slide },
            1 => Shape::Time { width, slide },
            _ => Shape::Sessions { gap: width },
        };
        let what = format!("seed {seed}, {shape:?} of {time}, {items:?}");
        let input = schema(&time);
        let grouping = Grouping::by(&input, has_keys.then_some(0)).count("rows").count_values("values", 2);
        let grouping = grouping.sum("sum", 2).least("least", 2).greatest("greatest", 2);
        let windowing = match shape {
            Shape::Rows { size, slide } => Windowing::of_rows(grouping, size as u64, slide as u64),
            Shape::Time { width, slide } => Windowing::of_time(grouping, 1, width, slide),
            Shape::Sessions { gap } => Windowing::sessions(grouping, 1, gap),
        };
        let windowing = windowing.unwrap_or_else(|error| panic!("{what}: {error}"));

        let mut net = ModelBuilder::new("windows");
        net.default_bound(Bound { envelopes: 1 + chance.below(4), ..Bound::default() });
        let sent = envelopes(&items, &time);
        let source = net.source(library::source("rows", &input, move || sent.clone()));
        let limit = 1 + chance.below(6);
        let whole = net.add(library::window(&windowing, HashKey::of_seed(seed), limit));
        net.connect(source.output(0), whole.input(0));
        let in_one = keep(&mut net, whole.output(0), &windowing.schema());
        let late = keep(&mut net, whole.output(1), &input);
        // The same in parts, whose marks come together again.
        let parts = if has_keys { 1 + chance.below(3) } else { 1 };
        let deal = net.add(library::partition(&input, &[0], parts, HashKey::of_seed(seed)));
        net.connect(source.output(0), deal.input(0));
        let union = net.add(library::union(&windowing.schema(), parts));
        let mut late_parts = Vec::new();
        for part in 0..parts {
            let window = net.add(library::window(&windowing, HashKey::of_seed(seed), limit));
            net.connect(deal.output(part), window.input(0));
            net.connect(window.output(0), union.input(part));
            late_parts.push(keep(&mut net, window.output(1), &input));
        }
        let in_parts = keep(&mut net, union.output(0), &windowing.schema());
        let model = net.build().unwrap_or_else(|error| panic!("{what}: {error}"));
        Trial { items, time, shape, has_keys, model, in_one, late, in_parts, late_parts, what }
    }

    /// Panics if the network's only run gave other windows than plain loops do.
    pub(crate) fn judge(&self) {
        let Trial { items, time, has_keys, what, .. } = self;
        let (wanted, wanted_late) = expected(items, self.shape, *has_keys);
        let is_of_time = !matches!(self.shape, Shape::Rows { .. });
        let rows = |seen: &Seen| seen.lock().unwrap().iter().map(Envelope::rows).sum::<usize>();
        let of = |seen| sums(seen, *has_keys, scale(time), is_of_time, what);
        assert_eq!(of(&self.in_one), wanted, "{what}");
        assert_eq!(rows(&self.late), wanted_late, "{what}: late rows");
        assert_eq!(of(&self.in_parts), wanted, "{what}: in {} parts", self.late_parts.len());
        assert_eq!(self.late_parts.iter().map(rows).sum::<usize>(), wanted_late, "{what}: late rows in parts");
    }
}
