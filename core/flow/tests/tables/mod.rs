//! Random tables of all types, with and without nulls, and what library boxes should make of them, written as plainly as it can be.

#![allow(dead_code, reason = "each test that includes this uses some of it")]

use std::cmp::Ordering;
use std::sync::{Arc, Mutex};
use vicus_flow::library::{self, Grouping, HashKey, SortKey};
use vicus_flow::{Bound, BoxModel, Column, Envelope, Field, Model, ModelBuilder, Schema, Type};

/// A value or a null.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    Whole(i128),
    Float(f64),
    Text(String),
    Binary(Vec<u8>),
}

pub(crate) type Row = Vec<Cell>;

impl Cell {
    /// Null is less than all else.
    pub(crate) fn order(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Null, Cell::Null) => Ordering::Equal,
            (Cell::Null, _) => Ordering::Less,
            (_, Cell::Null) => Ordering::Greater,
            (Cell::Bool(a), Cell::Bool(b)) => a.cmp(b),
            (Cell::Whole(a), Cell::Whole(b)) => a.cmp(b),
            (Cell::Float(a), Cell::Float(b)) => a.total_cmp(b),
            (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
            (Cell::Binary(a), Cell::Binary(b)) => a.cmp(b),
            _ => panic!("{self:?} and {other:?} are of two types"),
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, Cell::Null)
    }
}

pub(crate) fn order(a: &Row, b: &Row) -> Ordering {
    a.iter().zip(b).map(|(a, b)| a.order(b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Panics if the tables differ in a row.
pub(crate) fn assert_same(is: &[Row], expected: &[Row], what: &str) {
    assert_eq!(is.len(), expected.len(), "{what}: so many rows");
    for (row, (is, expected)) in is.iter().zip(expected).enumerate() {
        assert!(order(is, expected).is_eq(), "{what}, row {row}: {is:?}, expected {expected:?}");
    }
}

/// Numbers of a seed: xorshift.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn of_seed(seed: u64) -> Chance {
        Chance(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % count
    }
}

pub(crate) const TYPES: [Type; 13] = [
    Type::Bool,
    Type::I8,
    Type::I16,
    Type::I32,
    Type::I64,
    Type::U8,
    Type::U16,
    Type::U32,
    Type::U64,
    Type::F32,
    Type::F64,
    Type::Text,
    Type::Binary,
];

/// One of a few values, so that rows have equal ones.
fn cell(kind: Type, chance: &mut Chance) -> Cell {
    let whole = |chance: &mut Chance, least: i128, most: i128| {
        Cell::Whole([least, least + 1, 0, 1, 7, most - 1, most][chance.below(7)].max(least))
    };
    match kind {
        Type::Bool => Cell::Bool(chance.below(2) == 1),
        Type::I8 => whole(chance, i8::MIN.into(), i8::MAX.into()),
        Type::I16 => whole(chance, i16::MIN.into(), i16::MAX.into()),
        Type::I32 => whole(chance, i32::MIN.into(), i32::MAX.into()),
        Type::I64 => whole(chance, i64::MIN.into(), i64::MAX.into()),
        Type::U8 => whole(chance, 0, u8::MAX.into()),
        Type::U16 => whole(chance, 0, u16::MAX.into()),
        Type::U32 => whole(chance, 0, u32::MAX.into()),
        Type::U64 => whole(chance, 0, u64::MAX.into()),
        Type::F32 | Type::F64 => {
            let floats = [-0.0, 0.0, 1.5, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, 3.0];
            Cell::Float(floats[chance.below(floats.len())])
        }
        Type::Text => {
            let texts = ["", "a", "ab", "abcdefgh", "abcdefgh\0", "abcdefghi", "é", "\u{10FFFF}", "a\0"];
            match chance.below(texts.len() + 1) {
                // Longer than all else together.
                at if at == texts.len() => Cell::Text("long".repeat(500)),
                at => Cell::Text(texts[at].to_owned()),
            }
        }
        Type::Binary => {
            let strings: [&[u8]; 6] = [b"", b"\0", b"\0\0", b"\xff", b"\xffabcdefgh", b"abcdefgh"];
            Cell::Binary(strings[chance.below(strings.len())].to_vec())
        }
    }
}

/// Rows of some columns.
#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) schema: Schema,
    pub(crate) rows: Vec<Row>,
}

impl Table {
    pub(crate) fn random(chance: &mut Chance, most_rows: usize) -> Table {
        let field = |number: usize, chance: &mut Chance| Field {
            name: format!("c{number}"),
            kind: TYPES[chance.below(TYPES.len())],
            nullable: chance.below(2) == 0,
        };
        let fields: Vec<Field> = (0..1 + chance.below(5)).map(|number| field(number, chance)).collect();
        Table::of(fields, chance, most_rows)
    }

    pub(crate) fn of(fields: Vec<Field>, chance: &mut Chance, most_rows: usize) -> Table {
        // Of eight rows, so many are nulls: none, some, all.
        let nulls: Vec<usize> = fields.iter().map(|_| [0, 1, 4, 8][chance.below(4)]).collect();
        let count = if chance.below(8) == 0 { 0 } else { chance.below(most_rows + 1) };
        let mut row = || -> Row {
            let cell = |(field, &nulls): (&Field, &usize)| {
                if field.nullable && chance.below(8) < nulls { Cell::Null } else { cell(field.kind, chance) }
            };
            fields.iter().zip(&nulls).map(cell).collect()
        };
        let rows = (0..count).map(|_| row()).collect();
        Table { schema: fields.into_iter().collect(), rows }
    }

    pub(crate) fn envelope(&self) -> Envelope {
        envelope(&self.schema, &self.rows)
    }

    /// The rows in envelopes, some of which are slices of larger ones, and some of no rows.
    pub(crate) fn envelopes(&self, chance: &mut Chance) -> Vec<Envelope> {
        let (mut envelopes, mut rest) = (Vec::new(), &self.rows[..]);
        while !rest.is_empty() {
            let (rows, others) = rest.split_at(rest.len().min(chance.below(40)));
            rest = others;
            let whole = envelope(&self.schema, rows);
            if chance.below(2) == 0 {
                let middle = chance.below(rows.len() + 1);
                envelopes.extend([whole.slice(0..middle), whole.slice(middle..rows.len())]);
            } else {
                envelopes.push(whole);
            }
        }
        envelopes
    }

    /// A random list of its columns.
    pub(crate) fn some_columns(&self, chance: &mut Chance, most: usize) -> Vec<usize> {
        (0..chance.below(most + 1)).map(|_| chance.below(self.schema.columns().len())).collect()
    }
}

pub(crate) fn envelope(schema: &Schema, rows: &[Row]) -> Envelope {
    let column = |(place, field): (usize, &Field)| {
        let cells = || rows.iter().map(|row| &row[place]);
        macro_rules! whole {
            ($type:ty) => {
                cells()
                    .map(|cell| match cell {
                        Cell::Whole(value) => Some(<$type>::try_from(*value).unwrap()),
                        _ => None,
                    })
                    .collect::<Vec<_>>()
                    .into()
            };
        }
        let float = |cell: &Cell| if let Cell::Float(value) = cell { Some(*value) } else { None };
        let column: Column = match field.kind {
            Type::Bool => cells()
                .map(|cell| if let Cell::Bool(value) = cell { Some(*value) } else { None })
                .collect::<Vec<_>>()
                .into(),
            Type::I8 => whole!(i8),
            Type::I16 => whole!(i16),
            Type::I32 => whole!(i32),
            Type::I64 => whole!(i64),
            Type::U8 => whole!(u8),
            Type::U16 => whole!(u16),
            Type::U32 => whole!(u32),
            Type::U64 => whole!(u64),
            Type::F32 => cells().map(|cell| float(cell).map(|value| value as f32)).collect::<Vec<_>>().into(),
            Type::F64 => cells().map(float).collect::<Vec<_>>().into(),
            Type::Text => cells()
                .map(|cell| if let Cell::Text(text) = cell { Some(&text[..]) } else { None })
                .collect::<Vec<_>>()
                .into(),
            Type::Binary => {
                let strings = cells().map(|cell| if let Cell::Binary(bytes) = cell { &bytes[..] } else { &[] });
                let nulls = cells().enumerate().filter(|(_, cell)| cell.is_null()).map(|(row, _)| row);
                Column::of_binaries(strings).with_nulls(nulls)
            }
        };
        column
    };
    Envelope::of_rows(schema.columns().iter().enumerate().map(column).collect(), rows.len())
}

pub(crate) fn rows(envelope: &Envelope) -> Vec<Row> {
    let cell = |column: &Column, row: usize| match column.kind() {
        _ if column.is_null(row) => Cell::Null,
        Type::Bool => Cell::Bool(column.bools()[row]),
        Type::I8 => Cell::Whole(column.i8s()[row].into()),
        Type::I16 => Cell::Whole(column.i16s()[row].into()),
        Type::I32 => Cell::Whole(column.i32s()[row].into()),
        Type::I64 => Cell::Whole(column.i64s()[row].into()),
        Type::U8 => Cell::Whole(column.u8s()[row].into()),
        Type::U16 => Cell::Whole(column.u16s()[row].into()),
        Type::U32 => Cell::Whole(column.u32s()[row].into()),
        Type::U64 => Cell::Whole(column.u64s()[row].into()),
        Type::F32 => Cell::Float(column.f32s()[row].into()),
        Type::F64 => Cell::Float(column.f64s()[row]),
        Type::Text => Cell::Text(column.text_at(row).to_owned()),
        Type::Binary => Cell::Binary(column.binary_at(row).to_vec()),
    };
    let row = |row: usize| envelope.columns().iter().map(|column| cell(column, row)).collect();
    (0..envelope.rows()).map(row).collect()
}

/// What has come to a sink.
pub(crate) type Seen = Arc<Mutex<Vec<Envelope>>>;

pub(crate) fn seen(seen: &Seen) -> Vec<Row> {
    seen.lock().unwrap().iter().flat_map(rows).collect()
}

/// A sink that keeps what comes.
pub(crate) fn keep(schema: &Schema) -> (BoxModel, Seen) {
    let seen = Seen::default();
    let into = Arc::clone(&seen);
    let sink = library::sink("keep", schema, move |envelope| {
        into.lock().unwrap().push(envelope);
        Ok(())
    });
    (sink, seen)
}

pub(crate) fn random_keys(table: &Table, chance: &mut Chance, most: usize) -> Vec<SortKey> {
    let key = |column: usize, chance: &mut Chance| {
        let key = SortKey::of(column);
        let key = if chance.below(2) == 0 { key.descending() } else { key };
        if chance.below(2) == 0 { key.nulls_last() } else { key }
    };
    table.some_columns(chance, most).into_iter().map(|column| key(column, chance)).collect()
}

/// Orders rows as the keys say, written once more.
pub(crate) fn by_keys(keys: &[SortKey], a: &Row, b: &Row) -> Ordering {
    for key in keys {
        let (a, b) = (&a[key.column], &b[key.column]);
        let order = match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if key.nulls_last => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, true) if key.nulls_last => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) if key.descending => b.order(a),
            (false, false) => a.order(b),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// A random table and a network that sorts it, deals it by keys and merges what was dealt, and groups it whole and in parts.
pub(crate) struct Trial {
    table: Table,
    keys: Vec<SortKey>,
    deal_by: Vec<usize>,
    pub(crate) model: Arc<Model>,
    sorted: Seen,
    merged: Seen,
    parts: Vec<Seen>,
    grouped: Seen,
    grouped_in_parts: Seen,
    what: String,
}

/// How the columns of a [`Trial`]'s groups are folded: each column that has a sum is summed, and of all the extremes are taken.
fn grouping(table: &Table, keys: &[usize]) -> Grouping {
    let mut grouping = Grouping::by(&table.schema, keys.iter().copied()).count("rows");
    for (column, field) in table.schema.columns().iter().enumerate() {
        grouping = grouping.count_values("values", column).least("least", column).greatest("greatest", column);
        // Sums of these can't be beyond 64 bits.
        if matches!(field.kind, Type::Bool | Type::I8 | Type::I16 | Type::I32 | Type::U8 | Type::U16 | Type::U32) {
            grouping = grouping.sum("sum", column);
        }
    }
    grouping
}

/// The groups of rows, in the order of their first ones, found by comparing all with all.
fn groups(table: &Table, keys: &[usize]) -> Vec<Row> {
    let key = |row: &Row| -> Row { keys.iter().map(|&key| row[key].clone()).collect() };
    let mut groups: Vec<(Row, Vec<&Row>)> = Vec::new();
    for row in &table.rows {
        match groups.iter_mut().find(|(of, _)| order(of, &key(row)).is_eq()) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((key(row), vec![row])),
        }
    }
    if keys.is_empty() && groups.is_empty() {
        groups.push((Vec::new(), Vec::new()));
    }
    let fold = |(mut made, rows): (Row, Vec<&Row>)| {
        made.push(Cell::Whole(rows.len() as i128));
        for (column, field) in table.schema.columns().iter().enumerate() {
            let values = || rows.iter().map(|row| &row[column]).filter(|cell| !cell.is_null());
            made.push(Cell::Whole(values().count() as i128));
            made.push(values().min_by(|a, b| a.order(b)).cloned().unwrap_or(Cell::Null));
            made.push(values().max_by(|a, b| a.order(b)).cloned().unwrap_or(Cell::Null));
            if matches!(field.kind, Type::Bool | Type::I8 | Type::I16 | Type::I32 | Type::U8 | Type::U16 | Type::U32) {
                let whole = |cell: &Cell| match cell {
                    Cell::Bool(value) => i128::from(*value),
                    Cell::Whole(value) => *value,
                    _ => unreachable!("other types have no sum here"),
                };
                let sum = Cell::Whole(values().map(whole).sum());
                made.push(if values().next().is_none() { Cell::Null } else { sum });
            }
        }
        made
    };
    groups.into_iter().map(fold).collect()
}

impl Trial {
    pub(crate) fn of_seed(seed: u64) -> Trial {
        let chance = &mut Chance::of_seed(seed);
        let table = Table::random(chance, 300);
        let schema = &table.schema;
        let (keys, deal_by) = (random_keys(&table, chance, 3), table.some_columns(chance, 3));
        let rows = 1 + chance.below(100);
        let hash = HashKey::of_seed(seed);
        let mut net = ModelBuilder::new("tables");
        net.default_bound(Bound { envelopes: 1 + chance.below(8), ..Bound::default() });

        let envelopes = table.envelopes(chance);
        let source = net.source(library::source("rows", schema, move || envelopes.clone()));
        let sort = net.add(library::sort(schema, keys.clone(), rows));
        net.connect(source.output(0), sort.input(0));
        let end = |net: &mut ModelBuilder, from, schema: &Schema| {
            let (sink, seen) = keep(schema);
            let sink = net.add(sink);
            net.connect(from, sink.input(0));
            net.end(sink.output(0));
            seen
        };
        let sorted = end(&mut net, sort.output(0), schema);

        // Each part is sorted as the whole was, because dealing keeps the order.
        let count = 1 + chance.below(4);
        let deal = net.add(library::partition(schema, &deal_by, count, hash));
        net.connect(sort.output(0), deal.input(0));
        let merge = net.add(library::merge(schema, count, rows, library::order_by(keys.clone())));
        let whole = grouping(&table, &deal_by);
        let union = net.add(library::union(&whole.schema(), count));
        let mut parts = Vec::new();
        for part in 0..count {
            parts.push(end(&mut net, deal.output(part), schema));
            let hold = net.add(library::hold(schema));
            net.connect(deal.output(part), hold.input(0));
            net.connect(hold.output(0), merge.input(part));
            let group = net.add(library::group(&whole, hash, rows));
            net.connect(deal.output(part), group.input(0));
            net.connect(group.output(0), union.input(part));
        }
        let merged = end(&mut net, merge.output(0), schema);
        let grouped_in_parts = end(&mut net, union.output(0), &whole.schema());
        let group = net.add(library::group(&whole, hash, rows));
        net.connect(source.output(0), group.input(0));
        let grouped = end(&mut net, group.output(0), &whole.schema());
        let what = format!("seed {seed}, {schema}, by {keys:?}, dealt by {deal_by:?}");
        let model = net.build().unwrap_or_else(|error| panic!("{what}: {error}"));
        Trial { table, keys, deal_by, model, sorted, merged, parts, grouped, grouped_in_parts, what }
    }

    /// Panics if the network's last run, its only one, came to something else than plain loops do.
    pub(crate) fn judge(&self) {
        let Trial { table, keys, what, .. } = self;
        let mut expected = table.rows.clone();
        // Stable, as the box is.
        expected.sort_by(|a, b| by_keys(keys, a, b));
        assert_same(&seen(&self.sorted), &expected, &format!("{what}: sorted"));

        let merged = seen(&self.merged);
        assert!(merged.is_sorted_by(|a, b| by_keys(keys, a, b).is_le()), "{what}: merged");
        assert_same(&in_order(merged), &in_order(expected), &format!("{what}: merged"));

        let mut homes: Vec<(Row, usize)> = Vec::new();
        for (part, rows) in self.parts.iter().enumerate() {
            for row in seen(rows) {
                let key: Row = self.deal_by.iter().map(|&key| row[key].clone()).collect();
                match homes.iter().find(|(of, _)| order(of, &key).is_eq()) {
                    Some((_, home)) => assert_eq!(*home, part, "{what}: {key:?} is in two parts"),
                    None => homes.push((key, part)),
                }
            }
        }
        let groups = groups(table, &self.deal_by);
        assert_same(&seen(&self.grouped), &groups, &format!("{what}: grouped"));
        if !self.deal_by.is_empty() {
            let in_parts = in_order(seen(&self.grouped_in_parts));
            assert_same(&in_parts, &in_order(groups), &format!("{what}: grouped in parts"));
        }
    }
}

pub(crate) fn in_order(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by(order);
    rows
}
