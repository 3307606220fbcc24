//! Random tables, few keys of which have most rows; networks that join and group them in parts, and the rows that plain
//! loops find.

use crate::joins::{joined, pairing};
use crate::tables::{Chance, Row, Table, assert_same};
use crate::trials::{Seen, envelopes, grouping, groups, in_order, keep, seen};
use std::sync::Arc;
use vicus_flow::library::{self, HashKey};
use vicus_flow::{Bound, Model, ModelBuilder};

/// A network with its expected rows.
pub(crate) struct SkewTrial {
    pub(crate) model: Arc<Model>,
    kept: Seen,
    wanted: Vec<Row>,
    pub(crate) what: String,
}

/// The table's rows by chance: the first ones often.
fn skewed(table: &mut Table, chance: &mut Chance, most_rows: usize) {
    if table.rows.is_empty() {
        return;
    }
    let rows = (0..chance.below(most_rows)).map(|_| {
        let row = (0..3).fold(table.rows.len(), |below, _| 1 + chance.below(below));
        table.rows[row - 1].clone()
    });
    table.rows = rows.collect();
}

impl SkewTrial {
    /// Two tables are joined in parts.
    pub(crate) fn of_join(seed: u64) -> SkewTrial {
        let chance = &mut Chance::of_seed(seed);
        let (mut tables, joining, keys) = pairing(chance, 30);
        tables.iter_mut().for_each(|table| skewed(table, chance, 90));
        let parts = 1 + chance.below(5);
        let what = format!("seed {seed}, {parts} parts, {joining:?}");
        let mut net = ModelBuilder::new("join");
        net.default_bound(Bound { envelopes: 1 + chance.below(8), ..Bound::default() });
        let by = HashKey::of_seed(seed);
        let keyed: Vec<usize> = (0..keys).collect();
        let [first, second] = &tables;
        // Each producer learns from its own share of the first stream.
        let producers = 1 + chance.below(3);
        let copied = net.add(library::partition_to_heavy(&second.schema, &keyed, parts, producers, by));
        let source = |net: &mut ModelBuilder, table: &Table, chance: &mut Chance| {
            let rows = envelopes(table, chance);
            net.source(library::source("rows", &table.schema, move || rows.clone())).output(0)
        };
        let rows = source(&mut net, second, chance);
        net.connect(rows, copied.input(0));
        let spread = net.add(library::spread(&first.schema, producers));
        let rows = source(&mut net, first, chance);
        net.connect(rows, spread.input(0));
        let unions: Vec<_> = (0..parts).map(|_| net.add(library::union(&first.schema, producers))).collect();
        for producer in 0..producers {
            let split = net.add(library::partition_heavy(&first.schema, &keyed, parts, by));
            net.connect(spread.output(producer), split.input(0));
            net.connect(split.output(parts), copied.input(1 + producer));
            (0..parts).for_each(|part| _ = net.connect(split.output(part), unions[part].input(producer)));
        }
        let union = net.add(library::union(&joining.schema(), parts));
        for (part, firsts) in unions.into_iter().enumerate() {
            let join = net.add(library::join(&joining, by, 1 + chance.below(100)));
            net.connect(firsts.output(0), join.input(0));
            net.connect(copied.output(part), join.input(1));
            net.connect(join.output(0), union.input(part));
        }
        let (sink, kept) = keep(&joining.schema());
        let sink = net.add(sink);
        net.connect(union.output(0), sink.input(0));
        net.end(sink.output(0));
        let wanted = joined(&tables[0], &tables[1], &joining, keys);
        let model = net.build().unwrap_or_else(|error| panic!("{what}: {error}"));
        SkewTrial { model, kept, wanted, what }
    }

    /// A table's rows are folded ahead by several boxes, dealt, and folded again.
    pub(crate) fn of_group(seed: u64) -> SkewTrial {
        let chance = &mut Chance::of_seed(seed);
        let mut table = Table::random(chance, 30);
        skewed(&mut table, chance, 200);
        let keys: Vec<usize> = (0..chance.below(3)).map(|_| chance.below(table.schema.columns().len())).collect();
        let (ahead, parts) = (1 + chance.below(3), if keys.is_empty() { 1 } else { 1 + chance.below(3) });
        let what = format!("seed {seed}, by {keys:?}, {ahead} ahead of {parts}, {}", table.schema);
        let by = HashKey::of_seed(seed);
        let (whole, rows) = (grouping(&table, &keys), 1 + chance.below(50));
        let merging = whole.merging();
        let mut net = ModelBuilder::new("group");
        net.default_bound(Bound { envelopes: 1 + chance.below(8), ..Bound::default() });
        let sent = envelopes(&table, chance);
        let source = net.source(library::source("rows", &table.schema, move || sent.clone()));
        let spread = net.add(library::spread(&table.schema, ahead));
        net.connect(source.output(0), spread.input(0));
        let union = net.add(library::union(&whole.schema(), ahead));
        for part in 0..ahead {
            let group = net.add(library::group_ahead(&whole, by, rows, 1 + chance.below(10)));
            net.connect(spread.output(part), group.input(0));
            net.connect(group.output(0), union.input(part));
        }
        let own: Vec<usize> = (0..keys.len()).collect();
        let deal = net.add(library::partition(&whole.schema(), &own, parts, by));
        net.connect(union.output(0), deal.input(0));
        let all = net.add(library::union(&whole.schema(), parts));
        for part in 0..parts {
            let group = net.add(library::group(&merging, by, rows));
            net.connect(deal.output(part), group.input(0));
            net.connect(group.output(0), all.input(part));
        }
        let (sink, kept) = keep(&whole.schema());
        let sink = net.add(sink);
        net.connect(all.output(0), sink.input(0));
        net.end(sink.output(0));
        let model = net.build().unwrap_or_else(|error| panic!("{what}: {error}"));
        SkewTrial { model, kept, wanted: groups(&table, &keys), what }
    }

    /// Panics if the network's only run gave other rows than plain loops do.
    pub(crate) fn judge(self) {
        assert_same(&in_order(seen(&self.kept)), &in_order(self.wanted), &self.what);
    }
}
