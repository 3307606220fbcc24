//! The expected results of the library's boxes over random tables, by the simplest code possible.

use crate::tables::{Cell, Chance, Row, Table, assert_same, envelope, order, rows};
use std::cmp::Ordering;
use std::sync::{Arc, Mutex};
use vicus_flow::library::{self, Grouping, HashKey, SortKey};
use vicus_flow::{Bound, BoxModel, Envelope, Model, ModelBuilder, Schema, Type};

/// The rows in envelopes: some are slices of larger ones, and some are empty.
pub(crate) fn envelopes(table: &Table, chance: &mut Chance) -> Vec<Envelope> {
    let (mut envelopes, mut rest) = (Vec::new(), &table.rows[..]);
    while !rest.is_empty() {
        let (rows, others) = rest.split_at(rest.len().min(chance.below(40)));
        rest = others;
        let whole = envelope(&table.schema, rows);
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
fn some_columns(table: &Table, chance: &mut Chance, most: usize) -> Vec<usize> {
    (0..chance.below(most + 1)).map(|_| chance.below(table.schema.columns().len())).collect()
}

/// The envelopes received by a sink.
pub(crate) type Seen = Arc<Mutex<Vec<Envelope>>>;

pub(crate) fn seen(seen: &Seen) -> Vec<Row> {
    seen.lock().unwrap().iter().flat_map(rows).collect()
}

/// A sink that keeps its envelopes.
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
    some_columns(table, chance, most).into_iter().map(|column| key(column, chance)).collect()
}

/// Orders rows by these keys, implemented a second time.
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

/// A random table and a network that sorts it, deals it by keys and merges the parts, and groups it whole and in parts.
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

/// The folds of a [`Trial`]'s groups: a sum of each column with one, and the extremes of all.
pub(crate) fn grouping(table: &Table, keys: &[usize]) -> Grouping {
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
pub(crate) fn groups(table: &Table, keys: &[usize]) -> Vec<Row> {
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
        let (keys, deal_by) = (random_keys(&table, chance, 3), some_columns(&table, chance, 3));
        let rows = 1 + chance.below(100);
        let hash = HashKey::of_seed(seed);
        let mut net = ModelBuilder::new("tables");
        net.default_bound(Bound { envelopes: 1 + chance.below(8), ..Bound::default() });

        let envelopes = envelopes(&table, chance);
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

        // Each part is sorted like the whole, because dealing keeps the order.
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

    /// Panics if the network's only run gave another result than plain loops do.
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
    rows.sort_by(|a, b| order(a, b));
    rows
}
